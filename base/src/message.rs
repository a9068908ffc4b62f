//! What shards and the control plane tell each other. Everything travels over bounded rings; a side with no room holds the
//! message in a slot of its own and goes on.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ids::{ConnId, Epoch, JournalId, Offset, PartitionId, ProducerEpoch, ProducerId, ShardId};
use crate::image::{Delta, Image};
use crate::time::WallMs;

/// A request that a shard does not answer itself.
#[derive(Debug)]
pub struct ControlRequest {
    /// Shard and connection to answer to.
    pub shard: ShardId,
    /// The connection.
    pub conn: ConnId,
    /// Which of the connection's requests this is, in order of arrival; goes back with the answer.
    pub sequence: u64,
    /// Index of the listener it came in by.
    pub listener: u16,
    /// The peer's address as text.
    pub peer: Arc<str>,
    /// The whole request: header and body, without the four length bytes.
    pub frame: Vec<u8>,
}

/// From a shard to the control plane.
#[derive(Debug)]
pub enum ToControl {
    /// Answer with [`ToShard::Answer`], exactly once.
    Request(ControlRequest),
    /// The connection is gone; answers to it are dropped.
    ConnectionClosed {
        /// Where it was.
        shard: ShardId,
        /// Which.
        conn: ConnId,
    },
    /// The outcome of a [`ShardCommand`].
    Done {
        /// As given with the command.
        token: u64,
        /// What came of it.
        outcome: Result<Outcome, Refusal>,
    },
    /// A journal takes no more appends.
    JournalFenced {
        /// Which.
        journal: JournalId,
        /// Why, for the log.
        reason: String,
    },
    /// The shard is at its end.
    Stopped {
        /// The shard that has drained, made its last unit durable, and will not run again.
        shard: ShardId,
    },
}

/// From the control plane to a shard.
#[derive(Debug)]
pub enum ToShard {
    /// The response to a [`ControlRequest`]: header and body, without the four length bytes. `None` closes the connection.
    Answer {
        /// As in the request.
        conn: ConnId,
        /// As in the request.
        sequence: u64,
        /// The bytes.
        response: Option<Vec<u8>>,
    },
    /// New metadata. Answered with [`Outcome::Applied`] when its journals and partitions serve.
    Apply {
        /// Comes back with the outcome.
        token: u64,
        /// The new image.
        image: Arc<Image>,
        /// What is new in it.
        delta: Arc<Delta>,
    },
    /// Do something with a partition.
    Command {
        /// Comes back with the outcome.
        token: u64,
        /// What to do.
        command: ShardCommand,
    },
    /// Stop accepting and reading, answer what is in flight, write closing units and a checkpoint, then say `Stopped`.
    Shutdown,
}

/// Work on one partition (or all of a shard's) for the control plane.
#[derive(Debug)]
pub enum ShardCommand {
    /// Appends one record batch (v2) as a coordinator does; done when it is durable.
    Append {
        /// To where.
        partition: PartitionId,
        /// The epoch under which the coordinator loaded its state; any other than the journal's is refused.
        epoch: Epoch,
        /// A whole record batch, base offset 0.
        batch: Vec<u8>,
    },
    /// Reads committed batches.
    Read {
        /// From where.
        partition: PartitionId,
        /// First offset wanted; the batch that holds it is returned whole.
        offset: Offset,
        /// About how much; at least one batch is returned if there is one.
        bytes_max: usize,
    },
    /// The partition's ends.
    Bounds {
        /// Of which.
        partition: PartitionId,
    },
    /// Moves the log start (DeleteRecords); done when the move is durable. −1 means the high watermark.
    MoveStart {
        /// Of which.
        partition: PartitionId,
        /// The new log start.
        to: Offset,
    },
    /// The end of an epoch (OffsetForLeaderEpoch).
    EpochEnd {
        /// In which partition.
        partition: PartitionId,
        /// Of which epoch.
        epoch: Epoch,
    },
    /// The first batch whose max timestamp is at least `timestamp`.
    FindTime {
        /// In which partition.
        partition: PartitionId,
        /// Lower bound.
        timestamp: WallMs,
        /// In which home: the first offset it took.
        from: Offset,
        /// Below this.
        upto: Offset,
    },
    /// The batch that holds the highest timestamp.
    FindMaxTime {
        /// In which partition.
        partition: PartitionId,
        /// In which home: the first offset it took.
        from: Offset,
        /// Below this.
        upto: Offset,
    },
    /// Closes the partition in its open home, which takes no more of its appends: they wait until it is open elsewhere. Done
    /// when that is durable. Asking again brings the same.
    Close {
        /// Which.
        partition: PartitionId,
        /// The journal where it goes on.
        next: JournalId,
    },
    /// Opens a partition in a journal of this shard; done when that is durable. It takes appends once metadata names that home,
    /// or at once where it was only closed there. Asking again brings the same.
    Open {
        /// In which.
        journal: JournalId,
        /// Its home before.
        previous: JournalId,
        /// All that must be known of it, as [`Outcome::Closed`] brought it.
        state: Vec<u8>,
    },
    /// Tells a home that a partition left where its log starts by now, and asks how far it may start by the topic's retention.
    Expire {
        /// Which.
        partition: PartitionId,
        /// Which home: the first offset it took.
        first: Offset,
        /// Where the partition's log starts.
        log_start: Offset,
        /// Bytes that it retains in other journals.
        bytes: u64,
    },
    /// The producers that have state in the partition (DescribeProducers).
    Producers {
        /// Of which.
        partition: PartitionId,
    },
    /// Retained bytes of every partition of this shard (DescribeLogDirs, metrics).
    Sizes,
    /// Records of this shard that are known to be damaged.
    Damage,
}

/// Offsets of a partition that cannot be read: what lay there is damaged on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DamagedRange {
    /// Whose.
    pub partition: PartitionId,
    /// The first offset of it that is known to be lost; where a whole unit is, some before it may be, too.
    pub first: Offset,
    /// The first offset behind it: there a reader goes on.
    pub next: Offset,
}

/// A partition's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// First offset that is kept.
    pub log_start: Offset,
    /// First offset not yet committed.
    pub high_watermark: Offset,
    /// Next offset to be given.
    pub log_end: Offset,
    /// Leader epoch.
    pub epoch: Epoch,
    /// Retained bytes.
    pub bytes: u64,
}

/// What a partition takes in one of its homes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionSize {
    /// Whose.
    pub partition: PartitionId,
    /// In which journal.
    pub journal: JournalId,
    /// Its ends there, and retained bytes.
    pub bounds: Bounds,
    /// Bytes of batches appended there since the process started.
    pub written: u64,
}

/// A producer's state in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerInfo {
    /// Who.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// Sequence of its last record.
    pub last_sequence: i32,
    /// Wall time of its last append.
    pub last_timestamp: WallMs,
}

/// What a command brought.
#[derive(Debug)]
pub enum Outcome {
    /// Metadata is applied.
    Applied,
    /// Durable at this base offset.
    Appended(Offset),
    /// Whole committed batches, back to back, and the partition's ends.
    Records(Vec<u8>, Bounds),
    /// The ends.
    Bounds(Bounds),
    /// The new log start.
    Moved(Offset),
    /// The highest epoch at or below the one asked for and the offset where it ends; `None` if there is none.
    EpochEnd(Option<(Epoch, Offset)>),
    /// A whole batch, or none.
    Batch(Option<Vec<u8>>),
    /// The producers.
    Producers(Vec<ProducerInfo>),
    /// By partition and home.
    Sizes(Vec<PartitionSize>),
    /// Closed: the first offset that is not there, and the state for the next home.
    Closed(Offset, Vec<u8>),
    /// Open in its new home.
    Opened,
    /// The offset below which all has expired; `None` where nothing has, or it is not known yet.
    Expired(Option<Offset>),
    /// By partition and offset.
    Damage(Vec<DamagedRange>),
}

/// Why a shard refused. The edge maps each to one Kafka error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such partition here.
    UnknownPartition,
    /// The offset lies outside log start and end.
    OutOfRange,
    /// The epoch given is older than the journal's.
    FencedEpoch,
    /// The epoch given is newer than the journal's.
    UnknownEpoch,
    /// The journal is closed after an I/O error.
    Fenced,
    /// No room on the device.
    Full,
    /// The batch is malformed or its CRC does not match.
    Corrupt,
    /// The stored data is damaged there.
    Damaged {
        /// The next offset that may be read.
        next: Offset,
    },
    /// The write tail's budget is used up; ask again.
    Busy,
    /// The shard is shutting down.
    Stopping,
    /// Another journal has it, or will have it in a moment: ask again there.
    Moved,
}
