//! What the coordinator is told and what it answers.

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::{Epoch, TopicId, WallMs};

use base::image::Image;

use crate::consumer::value::{Partitions, Subscriber};
use crate::log::AppendId;
use crate::{Error, Record, Slot};

/// Stands for a request until its [`Reply`]; drawn by the caller, never twice at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What happened. Every event that carries a token brings exactly one [`Effect::Reply`] for it, now or later.
#[derive(Debug)]
pub enum Event<'a> {
    /// JoinGroup.
    Join(Token, Join<'a>),
    /// SyncGroup.
    Sync(Token, Sync<'a>),
    /// Heartbeat.
    Heartbeat(Token, Member<'a>),
    /// LeaveGroup.
    Leave(Token, Leave<'a>),
    /// ConsumerGroupHeartbeat (KIP-848).
    Beat(Token, Beat<'a>),
    /// OffsetCommit.
    Commit(Token, Commit<'a>),
    /// DeleteGroups.
    DeleteGroups(Token, Vec<&'a str>),
    /// OffsetDelete.
    DeleteOffsets(Token, DeleteOffsets<'a>),
    /// A topic is deleted: offsets committed for it go. Those of a later topic of the same name, which has another id, stay.
    TopicDeleted(&'a str, TopicId),
    /// Topics and their partitions as they are now.
    Image(Arc<Image>),
    /// Everything handed out for `slot` up to `upto` is durable. Appends of a slot become durable in order.
    Appended {
        /// Where.
        slot: Slot,
        /// The last of them.
        upto: AppendId,
    },
    /// Everything handed out for `slot` up to `upto`, and not reported before, was not taken.
    AppendFailed {
        /// Where.
        slot: Slot,
        /// The last of them.
        upto: AppendId,
        /// What clients are told.
        error: Error,
    },
    /// A deadline has come ([`crate::Coordinator::next_deadline`]).
    Tick,
    /// The records of `slot` are being read, to be served under `epoch`.
    LoadStarted {
        /// Which.
        slot: Slot,
        /// Epoch of the partition's journal; goes with every append.
        epoch: Epoch,
    },
    /// The next record of a slot that is being read.
    Replayed {
        /// Which.
        slot: Slot,
        /// The record.
        record: Record,
    },
    /// All records of the slot are read: its groups are served from now on.
    Loaded(Slot),
    /// The slot's records cannot be read: its groups are refused by name until reading begins again.
    LoadFailed(Slot),
    /// The slot is no longer served here, under this epoch: what waits is answered with NOT_COORDINATOR.
    Unloaded(Slot),
}

/// What to do.
#[derive(Debug)]
pub enum Effect {
    /// Answer a request.
    Reply(Token, Reply),
    /// Append records, in order, after those handed out before for the slot. Many may go into one record batch.
    Append {
        /// Where.
        slot: Slot,
        /// Under which epoch.
        epoch: Epoch,
        /// Comes back in [`Event::Appended`] or [`Event::AppendFailed`]; rises within a slot.
        id: AppendId,
        /// The records.
        records: Arc<[Record]>,
    },
}

/// Who asks on behalf of a member.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The group.
    pub group: &'a str,
    /// Its generation; −1 when none is meant.
    pub generation: i32,
    /// Member id.
    pub id: &'a str,
    /// `group.instance.id` of a static member.
    pub instance: Option<&'a str>,
}

/// A JoinGroup request.
#[derive(Clone, Debug)]
pub struct Join<'a> {
    /// The group.
    pub group: &'a str,
    /// Member id; empty at the first join.
    pub member: &'a str,
    /// `group.instance.id` of a static member.
    pub instance: Option<&'a str>,
    /// The client's id, from the request header.
    pub client_id: &'a str,
    /// The client's address.
    pub host: &'a str,
    /// How long the member may be silent.
    pub session_timeout_ms: i32,
    /// How long a rebalance waits for the member; requests without it (v0) mean the session timeout.
    pub rebalance_timeout_ms: i32,
    /// For example `consumer`.
    pub protocol_type: &'a str,
    /// Names and metadata, the preferred first.
    pub protocols: Vec<(&'a str, &'a [u8])>,
    /// Whether a first join without a member id is answered with MEMBER_ID_REQUIRED (v4+).
    pub id_required: bool,
    /// Whether a static leader that comes back is told to skip the assignment (v9+).
    pub can_skip_assignment: bool,
    /// 128 random bits for a member id.
    pub random: u128,
}

/// A SyncGroup request.
#[derive(Clone, Debug)]
pub struct Sync<'a> {
    /// Who asks.
    pub member: Member<'a>,
    /// What the member takes the protocol type to be (v5+).
    pub protocol_type: Option<&'a str>,
    /// What the member takes the protocol to be (v5+).
    pub protocol: Option<&'a str>,
    /// From the leader: member ids and their assignments.
    pub assignments: Vec<(&'a str, &'a [u8])>,
}

/// A LeaveGroup request; before v3 with one member.
#[derive(Clone, Debug)]
pub struct Leave<'a> {
    /// The group.
    pub group: &'a str,
    /// Who leaves.
    pub members: Vec<LeaveMember<'a>>,
}

/// One of those who leave.
#[derive(Clone, Copy, Debug)]
pub struct LeaveMember<'a> {
    /// Member id; empty to name a static member by its instance alone.
    pub id: &'a str,
    /// `group.instance.id` of a static member.
    pub instance: Option<&'a str>,
}

/// A ConsumerGroupHeartbeat request. What is none is as in the heartbeat before.
#[derive(Clone, Debug)]
pub struct Beat<'a> {
    /// The group.
    pub group: &'a str,
    /// Member id; the member's own choice.
    pub member: &'a str,
    /// The epoch that it was told last; 0 to join, −1 to leave, −2 for a static member that means to come back.
    pub epoch: i32,
    /// `group.instance.id` of a static member.
    pub instance: Option<&'a str>,
    /// `client.rack`.
    pub rack: Option<&'a str>,
    /// How long it may take to give partitions up; −1 for none.
    pub rebalance_timeout_ms: i32,
    /// Topics that it subscribes to.
    pub names: Option<Vec<&'a str>>,
    /// An expression of the topics that it subscribes to; empty for no longer any.
    pub regex: Option<&'a str>,
    /// The assignor it asks for.
    pub assignor: Option<&'a str>,
    /// What it holds.
    pub owned: Option<Partitions>,
    /// The client's id, from the request header.
    pub client_id: &'a str,
    /// The client's address.
    pub host: &'a str,
}

/// Why a request is refused, and in words.
pub type Refused = (Error, &'static str);

/// The answer to a heartbeat of a consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeatReply {
    /// The member's id.
    pub member: Arc<str>,
    /// Its epoch.
    pub epoch: i32,
    /// After how long the next heartbeat is expected.
    pub interval_ms: i32,
    /// What it may consume; none when it is as it was told before.
    pub assignment: Option<Partitions>,
}

/// A consumer group as ConsumerGroupDescribe answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConsumer {
    /// Kafka's name of its state.
    pub state: &'static str,
    /// The group's epoch.
    pub epoch: i32,
    /// The epoch of the target assignment.
    pub target_epoch: i32,
    /// Name of the assignor.
    pub assignor: &'static str,
    /// The members.
    pub members: Vec<DescribedSubscriber>,
}

/// A member of a consumer group as ConsumerGroupDescribe answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedSubscriber {
    /// Member id.
    pub id: Arc<str>,
    /// What it said of itself.
    pub subscriber: Arc<Subscriber>,
    /// Its epoch.
    pub epoch: i32,
    /// What it may consume.
    pub assignment: Partitions,
    /// What it is to have in the end.
    pub target: Partitions,
}

/// An OffsetCommit request.
#[derive(Clone, Debug)]
pub struct Commit<'a> {
    /// Who commits; generation −1, no member id and no instance for a commit without membership.
    pub member: Member<'a>,
    /// Whether the request knows of member epochs (v9+): members of consumer groups need it.
    pub by_epoch: bool,
    /// What is committed.
    pub topics: Vec<CommitTopic<'a>>,
}

/// A topic of a commit.
#[derive(Clone, Debug)]
pub struct CommitTopic<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its id.
    pub id: TopicId,
    /// Its partitions.
    pub partitions: Vec<CommitPartition<'a>>,
}

/// A partition of a commit.
#[derive(Clone, Copy, Debug)]
pub struct CommitPartition<'a> {
    /// Its index.
    pub index: i32,
    /// The next offset to consume.
    pub offset: i64,
    /// Leader epoch of the last consumed record; −1 when unknown.
    pub leader_epoch: i32,
    /// The client's own text.
    pub metadata: &'a str,
    /// What the caller found wrong with it; comes back among those rejected.
    pub refused: Option<Error>,
}

/// An OffsetDelete request.
#[derive(Clone, Debug)]
pub struct DeleteOffsets<'a> {
    /// The group.
    pub group: &'a str,
    /// What is to go.
    pub topics: Vec<DeleteTopic<'a>>,
}

/// A topic of an OffsetDelete.
#[derive(Clone, Debug)]
pub struct DeleteTopic<'a> {
    /// Its name.
    pub name: &'a str,
    /// Partition indices.
    pub partitions: Vec<i32>,
    /// What the caller found wrong with it; comes back as the result of each partition.
    pub refused: Option<Error>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To JoinGroup; with the error goes the member id to use (MEMBER_ID_REQUIRED) or the one given.
    Join(Result<JoinReply, (Error, Arc<str>)>),
    /// To SyncGroup.
    Sync(Result<SyncReply, Error>),
    /// To Heartbeat.
    Heartbeat(Result<(), Error>),
    /// To LeaveGroup: for the whole request, or by member in the request's order.
    Leave(Result<Vec<LeftMember>, Error>),
    /// To ConsumerGroupHeartbeat.
    Beat(Result<BeatReply, Refused>),
    /// To OffsetCommit: durable but for those rejected, or nothing stored.
    Commit(Result<Vec<RejectedCommit>, Error>),
    /// To DeleteGroups, in the request's order.
    DeleteGroups(Vec<Result<(), Error>>),
    /// To OffsetDelete: by topic and partition in the request's order, or nothing deleted.
    DeleteOffsets(Result<Vec<Vec<Result<(), Error>>>, Error>),
}

/// A member's place in a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinReply {
    /// The generation.
    pub generation: i32,
    /// For example `consumer`.
    pub protocol_type: Arc<str>,
    /// The protocol chosen.
    pub protocol: Arc<str>,
    /// Member id of the leader.
    pub leader: Arc<str>,
    /// The member's own id.
    pub member: Arc<str>,
    /// The leader keeps the assignment there is (KIP-814).
    pub skip_assignment: bool,
    /// To the leader: all members; empty to others.
    pub members: Vec<JoinedMember>,
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Member id.
    pub id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub instance: Option<Arc<str>>,
    /// Its metadata for the chosen protocol.
    pub metadata: Arc<[u8]>,
}

/// A member's assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncReply {
    /// For example `consumer`.
    pub protocol_type: Arc<str>,
    /// The protocol chosen.
    pub protocol: Arc<str>,
    /// The bytes that the leader gave.
    pub assignment: Arc<[u8]>,
}

/// One of those who were to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftMember {
    /// Member id as in the request.
    pub id: Arc<str>,
    /// `group.instance.id` as in the request.
    pub instance: Option<Arc<str>>,
    /// Whether it left.
    pub result: Result<(), Error>,
}

/// A partition of a commit that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectedCommit {
    /// Place of the topic in the request.
    pub topic: usize,
    /// Place of the partition in the topic.
    pub partition: usize,
    /// Why.
    pub error: Error,
}

/// A committed offset as OffsetFetch answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedOffset {
    /// The partition's index.
    pub partition: i32,
    /// The offset; −1 when nothing is committed.
    pub offset: i64,
    /// Leader epoch; −1 when unknown.
    pub leader_epoch: i32,
    /// The client's own text.
    pub metadata: Arc<str>,
    /// The topic's id when it was committed; zero when unknown.
    pub topic_id: TopicId,
}

/// Committed offsets by topic.
pub type FetchedTopics = Vec<(Arc<str>, Vec<FetchedOffset>)>;

/// A group as ListGroups answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The group.
    pub group: Arc<str>,
    /// For example `consumer`; empty for a group of offsets only.
    pub protocol_type: Arc<str>,
    /// Kafka's name of its state.
    pub state: &'static str,
    /// Kafka's name of its kind.
    pub kind: &'static str,
}

/// A group as DescribeGroups answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Kafka's name of its state.
    pub state: &'static str,
    /// For example `consumer`; empty for a group of offsets only.
    pub protocol_type: Arc<str>,
    /// The protocol chosen, when stable.
    pub protocol: Arc<str>,
    /// When it entered its state.
    pub since: WallMs,
    /// The members.
    pub members: Vec<DescribedMember>,
}

/// A member as DescribeGroups answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    /// Member id.
    pub id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub instance: Option<Arc<str>>,
    /// The client's id.
    pub client_id: Arc<str>,
    /// The client's address.
    pub host: Arc<str>,
    /// Its metadata for the chosen protocol, when stable.
    pub metadata: Arc<[u8]>,
    /// Its assignment, when stable.
    pub assignment: Arc<[u8]>,
}
