//! What is kept of a consumer group (KIP-848), as the values of Kafka's records 3 and 5 to 8.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use base::TopicId;

/// Partitions by topic.
pub type Partitions = BTreeMap<TopicId, BTreeSet<i32>>;

/// Partitions that a member holds, each with the epoch in which it was given.
pub type Held = BTreeMap<TopicId, BTreeMap<i32, i32>>;

/// Which record of a consumer group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConsumerKey {
    /// The group's epoch.
    Epoch,
    /// What a member has said of itself.
    Member(Arc<str>),
    /// The epoch of the target assignment.
    TargetEpoch,
    /// The target assignment of a member.
    Target(Arc<str>),
    /// Epoch and partitions of a member.
    Current(Arc<str>),
}

/// Its value; of the same kind as its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerValue {
    /// The group's epoch.
    Epoch {
        /// The epoch.
        epoch: i32,
        /// A hash over the subscribed topics, their ids and their partitions: another one means another epoch.
        topics_hash: i64,
    },
    /// What a member has said of itself.
    Member(Arc<Subscriber>),
    /// The epoch of the target assignment.
    TargetEpoch(i32),
    /// The target assignment of a member.
    Target(Arc<Partitions>),
    /// Epoch and partitions of a member.
    Current(Arc<Current>),
}

/// What a member has said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// `group.instance.id` of a static member.
    pub instance: Option<Arc<str>>,
    /// `client.rack`.
    pub rack: Option<Arc<str>>,
    /// The client's id.
    pub client_id: Arc<str>,
    /// The client's address.
    pub host: Arc<str>,
    /// Topics that it names.
    pub names: BTreeSet<Arc<str>>,
    /// Topics that it describes; none when it does not.
    pub regex: Option<Arc<str>>,
    /// How long it may take to give partitions up.
    pub rebalance_timeout_ms: i32,
    /// The assignor it asks for.
    pub assignor: Option<Arc<str>>,
}

/// How far a member has come towards its target. The numbers are Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum MemberState {
    /// It is where it should be.
    Stable = 0,
    /// It must give partitions up before it comes to the next epoch.
    Unrevoked = 1,
    /// It is in the newest epoch and waits for partitions that others have not given up.
    Unreleased = 2,
}

impl MemberState {
    /// The state of a number.
    #[must_use]
    pub fn of(number: i8) -> Option<Self> {
        [Self::Stable, Self::Unrevoked, Self::Unreleased].into_iter().find(|state| *state as i8 == number)
    }
}

/// Epoch and partitions of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// The epoch that its next heartbeat is to bear; −2 for a static member that is away.
    pub epoch: i32,
    /// The one before: its heartbeat bears this when the answer with the newer one was lost.
    pub previous_epoch: i32,
    /// How far it has come.
    pub state: MemberState,
    /// What it may consume.
    pub assigned: Held,
    /// What it holds but must give up.
    pub revoking: Held,
}

/// Bytes of a partition in a list of partitions, in the log or in memory, whichever is more.
const PARTITION_BYTES: usize = 16;
/// Bytes of a topic in such a list.
const TOPIC_BYTES: usize = 64;
/// Fixed bytes of a member's record.
const MEMBER_BYTES: usize = 100;

impl ConsumerKey {
    /// Whose record it is; none for those of the group.
    #[must_use]
    pub fn member(&self) -> Option<&Arc<str>> {
        match self {
            Self::Member(id) | Self::Target(id) | Self::Current(id) => Some(id),
            Self::Epoch | Self::TargetEpoch => None,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.member().map_or(0, |id| id.len())
    }
}

impl ConsumerValue {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Epoch { .. } | Self::TargetEpoch(_) => 16,
            Self::Member(member) => member.bytes(),
            Self::Target(partitions) => {
                partitions.values().map(|indices| TOPIC_BYTES + indices.len() * PARTITION_BYTES).sum()
            }
            Self::Current(current) => {
                let topics = current.assigned.values().chain(current.revoking.values());
                topics.map(|indices| TOPIC_BYTES + indices.len() * PARTITION_BYTES).sum::<usize>() + 32
            }
        }
    }
}

impl Subscriber {
    pub(crate) fn bytes(&self) -> usize {
        let texts = [&self.instance, &self.rack, &self.regex, &self.assignor];
        let texts: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
        let names: usize = self.names.iter().map(|name| 32 + name.len()).sum();
        MEMBER_BYTES + texts + names + self.client_id.len() + self.host.len()
    }
}
