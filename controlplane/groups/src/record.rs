//! What is kept of a group, as records of `__consumer_offsets`: Kafka's `OffsetCommit`, `GroupMetadata` and `ConsumerGroup…` keys and
//! values.

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::{TopicId, WallMs};

use crate::consumer::value::{ConsumerKey, ConsumerValue};

/// One record. A value of `None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The committed offset of a partition.
    Offset {
        /// The group.
        group: Arc<str>,
        /// The topic's name.
        topic: Arc<str>,
        /// The partition's index.
        partition: i32,
        /// What is committed.
        value: Option<OffsetValue>,
    },
    /// A generation of a group with its members and their assignments.
    Group {
        /// The group.
        group: Arc<str>,
        /// The generation.
        value: Option<Arc<GroupValue>>,
    },
    /// A part of a consumer group (KIP-848).
    Consumer {
        /// The group.
        group: Arc<str>,
        /// Which part.
        key: ConsumerKey,
        /// The part.
        value: Option<ConsumerValue>,
    },
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetValue {
    /// The next offset to consume.
    pub offset: i64,
    /// Leader epoch of the last consumed record; −1 when unknown.
    pub leader_epoch: i32,
    /// The client's own text.
    pub metadata: Arc<str>,
    /// When it was committed.
    pub committed: WallMs,
    /// The topic's id; zero when unknown.
    pub topic_id: TopicId,
}

/// A generation of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupValue {
    /// For example `consumer` or `connect`.
    pub protocol_type: Arc<str>,
    /// Number of the generation.
    pub generation: i32,
    /// The protocol chosen for it; none when it has no members.
    pub protocol: Option<Arc<str>>,
    /// Member id of the leader; none when it has no members.
    pub leader: Option<Arc<str>>,
    /// When the group entered its state.
    pub since: WallMs,
    /// The members.
    pub members: Vec<MemberValue>,
}

/// A member in a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberValue {
    /// Member id.
    pub id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub instance: Option<Arc<str>>,
    /// The client's id.
    pub client_id: Arc<str>,
    /// The client's address.
    pub host: Arc<str>,
    /// How long a rebalance waits for it.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// Its metadata for the chosen protocol.
    pub subscription: Arc<[u8]>,
    /// What it was assigned.
    pub assignment: Arc<[u8]>,
}

/// Fixed bytes of a record: its own header with varints, key and value versions and numbers, and the map entry in memory.
const RECORD_BYTES: usize = 80;

impl Record {
    /// Whether it only says that something is no more.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        match self {
            Self::Offset { value, .. } => value.is_none(),
            Self::Group { value, .. } => value.is_none(),
            Self::Consumer { value, .. } => value.is_none(),
        }
    }

    /// The group it is about.
    #[must_use]
    pub fn group(&self) -> &Arc<str> {
        match self {
            Self::Offset { group, .. } | Self::Group { group, .. } | Self::Consumer { group, .. } => group,
        }
    }

    /// About how many bytes it takes, in the log as well as in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        RECORD_BYTES
            + match self {
                Self::Offset { group, topic, value, .. } => {
                    group.len() + topic.len() + value.as_ref().map_or(0, |value| value.metadata.len())
                }
                Self::Group { group, value } => group.len() + value.as_ref().map_or(0, |value| value.bytes()),
                Self::Consumer { group, key, value } => {
                    group.len() + key.bytes() + value.as_ref().map_or(0, ConsumerValue::bytes)
                }
            }
    }
}

impl GroupValue {
    fn bytes(&self) -> usize {
        let members: usize = self.members.iter().map(MemberValue::bytes).sum();
        members + self.protocol_type.len() + self.protocol.as_ref().map_or(0, |name| name.len())
    }
}

impl MemberValue {
    fn bytes(&self) -> usize {
        RECORD_BYTES
            + self.id.len()
            + self.instance.as_ref().map_or(0, |instance| instance.len())
            + self.client_id.len()
            + self.host.len()
            + self.subscription.len()
            + self.assignment.len()
    }
}
