//! Commands: everything that may change metadata, one variant a change.

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::JournalClass;
use base::{BrokerId, Epoch, JournalId, Offset, TopicId};

/// A device's identity, from its label; never reused. 128 random bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceUuid(pub u128);

/// 128 random bits that a command carries, from which the secrets of the journals it opens are derived.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entropy(pub [u8; 16]);

impl core::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Entropy(..)")
    }
}

/// What an incremental change does to one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigOp {
    /// Gives it a value.
    Set,
    /// Takes the topic's own value away, so that the broker's default holds.
    Delete,
    /// Adds items to a list.
    Append,
    /// Takes items out of a list.
    Subtract,
}

/// One incremental change of one setting (KIP-339).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// Which setting.
    pub name: Arc<str>,
    /// What to do to it.
    pub op: ConfigOp,
    /// The value, or the items; `None` only with [`ConfigOp::Delete`].
    pub value: Option<Arc<str>>,
}

/// Where a partition is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveTo {
    /// To this journal.
    Journal(JournalId),
    /// To the journal of this class with the fewest partitions.
    Class(JournalClass),
}

/// One change of metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A broker is here with these devices. Sent at each start.
    RegisterBroker {
        /// Who.
        broker: BrokerId,
        /// Its data devices, in the order of its configuration.
        devices: Vec<DeviceUuid>,
        /// How many journals it carries of each class at most.
        journals_per_class: u16,
    },
    /// Raises the epoch counter above `above` and gives every journal of `broker` the new epoch.
    RaiseEpoch {
        /// Whose process starts.
        broker: BrokerId,
        /// The highest epoch seen anywhere on its devices.
        above: Epoch,
    },
    /// Creates a topic.
    CreateTopic {
        /// Its id, drawn by who proposes.
        id: TopicId,
        /// Its name.
        name: Arc<str>,
        /// How many partitions.
        partitions: u32,
        /// The class of journals that takes them; the caller derives it from settings and broker defaults.
        class: JournalClass,
        /// Its own settings.
        configs: Vec<(Arc<str>, Arc<str>)>,
        /// For journals opened on the way.
        entropy: Entropy,
    },
    /// Deletes a topic and, for ever, its partition ids.
    DeleteTopic {
        /// Which.
        id: TopicId,
    },
    /// Gives a topic more partitions.
    CreatePartitions {
        /// Which.
        id: TopicId,
        /// How many it shall have in all.
        total: u32,
        /// The class of journals that takes the new ones.
        class: JournalClass,
        /// For journals opened on the way.
        entropy: Entropy,
    },
    /// Replaces all of a topic's own settings (AlterConfigs).
    SetConfigs {
        /// Of which topic.
        id: TopicId,
        /// The settings; those not named go back to the default.
        configs: Vec<(Arc<str>, Arc<str>)>,
    },
    /// Changes some of a topic's own settings (IncrementalAlterConfigs).
    AlterConfigs {
        /// Of which topic.
        id: TopicId,
        /// The changes, each setting at most once.
        changes: Vec<ConfigChange>,
    },
    /// Takes the next `count` producer ids out of the counter.
    AllocateProducerIds {
        /// How many.
        count: u32,
    },
    /// Says where a partition is to go. It stays where it is until [`Command::FinishMove`].
    Move {
        /// Of which topic.
        id: TopicId,
        /// Its index.
        partition: u32,
        /// Where to.
        to: MoveTo,
        /// For a journal opened on the way.
        entropy: Entropy,
    },
    /// A partition has gone where [`Command::Move`] said, and is open there.
    FinishMove {
        /// Of which topic.
        id: TopicId,
        /// Its index.
        partition: u32,
        /// Where it is.
        journal: JournalId,
        /// The first offset that it has there.
        first: Offset,
    },
    /// A partition stays where it is after all.
    CancelMove {
        /// Of which topic.
        id: TopicId,
        /// Its index.
        partition: u32,
        /// Where it does not go.
        journal: JournalId,
    },
    /// Old homes of a partition hold nothing any more: those that end at or below an offset.
    LeaveHomes {
        /// Of which topic.
        id: TopicId,
        /// Its index.
        partition: u32,
        /// Its log start.
        below: Offset,
    },
}

impl Command {
    /// Whether it makes the state larger. Commands that do not must find room even on a full disk.
    #[must_use]
    pub const fn grows(&self) -> bool {
        match self {
            Self::CreateTopic { .. }
            | Self::CreatePartitions { .. }
            | Self::SetConfigs { .. }
            | Self::AlterConfigs { .. }
            | Self::Move { .. } => true,
            Self::RegisterBroker { .. }
            | Self::RaiseEpoch { .. }
            | Self::DeleteTopic { .. }
            | Self::AllocateProducerIds { .. }
            | Self::FinishMove { .. }
            | Self::CancelMove { .. }
            | Self::LeaveHomes { .. } => false,
        }
    }
}
