//! Identities and units, each its own type, so that an offset is never taken for a position.

use core::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number!(
    /// Kafka offset inside a partition.
    Offset(i64)
);
number!(
    /// Byte address inside a journal. Padding counts; extents do not.
    Position(u64)
);
number!(
    /// Leadership term of a journal, from one cluster-wide counter; also Kafka's leader epoch.
    Epoch(i32)
);
number!(
    /// A journal, never reused.
    JournalId(u64)
);
number!(
    /// A partition of a topic, never reused.
    PartitionId(u64)
);
number!(
    /// Kafka node id.
    BrokerId(i32)
);
number!(
    /// One pinned thread of this process. Never written to disk.
    ShardId(u16)
);
number!(
    /// A data device of this broker, in the order of the configuration. Never written to disk.
    DeviceIndex(u16)
);
number!(
    /// Kafka producer id.
    ProducerId(i64)
);
number!(
    /// Kafka producer epoch.
    ProducerEpoch(i16)
);
number!(
    /// A connection of one shard: low 32 bits a slot, high 32 bits the slot's generation.
    ConnId(u64)
);

/// A topic's id (KIP-516): 128 random bits, shown the way Kafka shows a UUID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u128);

impl TopicId {
    /// The id that stands for "no id" on the wire.
    pub const ZERO: Self = Self(0);
}

/// A cluster's id: 128 random bits; Kafka clients see it in URL-safe base64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl Offset {
    /// This offset moved by `count` records.
    #[must_use]
    pub const fn plus(self, count: i64) -> Self {
        Self(self.0 + count)
    }
}

impl Position {
    /// This position moved by `bytes`.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}
