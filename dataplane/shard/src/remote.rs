//! What shards tell each other: work on partitions that the other owns, and what came of it.
//!
//! The shard that holds the connection is the *home* of a request; the shard whose journal a partition lives in is its
//! *owner*. Requests carry the received bytes themselves ([`crate::ports::Network::Held`]); the owner makes the one copy and
//! drops them. Answers carry slices of the owner's arena.

use alloc::string::String;
use alloc::vec::Vec;

use base::message::Refusal;
use base::{ConnId, DeviceIndex, Epoch, Mono, Offset, PartitionId, ShardId, WallMs};
use journal::store::AppendError;

use crate::ports::Piece;

/// Names a request across shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// The home.
    pub shard: ShardId,
    /// The connection there.
    pub conn: ConnId,
    /// The request's place in the connection's order of arrival.
    pub sequence: u64,
}

/// A batch to append.
#[derive(Clone, Copy, Debug)]
pub struct AppendItem {
    /// Which partition of the request, in its order.
    pub slot: u32,
    /// To where.
    pub partition: PartitionId,
    /// Where the batch starts in the request's bytes.
    pub start: u32,
    /// Length of the batch in bytes.
    pub len: u32,
}

/// What came of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendResult {
    /// As in the item.
    pub slot: u32,
    /// Where it is, or why it is not.
    pub outcome: Result<Taken, AppendError>,
}

/// A batch that is durable (or, for acks=0, appended).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// What the broker stamped, or −1.
    pub append_time: WallMs,
    /// First offset kept.
    pub log_start: Offset,
}

/// A partition to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadItem {
    /// Which partition of the response, in its order.
    pub slot: u32,
    /// From where.
    pub partition: PartitionId,
    /// First offset wanted.
    pub offset: Offset,
    /// About how much.
    pub bytes_max: u32,
    /// The epoch the client believes in; −1 is none.
    pub current_epoch: Epoch,
    /// The epoch of the last record the client has; −1 is none.
    pub last_fetched_epoch: Epoch,
    /// What of it is wanted.
    pub part: ReadPart,
}

/// What is wanted of a partition: of one that has moved to another shard its older records lie here, its ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPart {
    /// Records and ends.
    Whole,
    /// Records only: the open home is elsewhere.
    Records,
    /// The ends, and whether the offset is one of the log's: the records are elsewhere.
    Ends,
}

/// What reading one partition brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadResult {
    /// As in the item.
    pub slot: u32,
    /// Why nothing was read.
    pub refusal: Option<Refusal>,
    /// High watermark, −1 on refusal.
    pub high_watermark: Offset,
    /// First offset kept, −1 on refusal.
    pub log_start: Offset,
    /// Where the client's log parts from ours.
    pub diverging: Option<(Epoch, Offset)>,
    /// Which of the answer's slices are this partition's: the first of them.
    pub slices_start: u32,
    /// How many.
    pub slices_len: u32,
}

/// A partition whose ends are wanted.
#[derive(Clone, Copy, Debug)]
pub struct BoundsItem {
    /// Which partition of the request, in its order.
    pub slot: u32,
    /// Of which.
    pub partition: PartitionId,
    /// The epoch the client believes in; −1 is none.
    pub current_epoch: Epoch,
    /// Whether the first kept offset is wanted; else the high watermark.
    pub earliest: bool,
}

/// The end that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundsResult {
    /// As in the item.
    pub slot: u32,
    /// The offset and the leader epoch.
    pub outcome: Result<(Offset, Epoch), Refusal>,
}

/// From one shard to another. `S` are arena slices, `H` held request bytes.
#[derive(Debug)]
pub enum Message<S, H> {
    /// Append these batches; answered with `Appended` once all that were taken are durable.
    Append {
        /// Of which request.
        key: RequestKey,
        /// The request's bytes.
        held: H,
        /// The batches.
        items: Vec<AppendItem>,
        /// Whether to answer as soon as the batches are taken (acks=0).
        hasty: bool,
    },
    /// What came of `Append`.
    Appended {
        /// As in the request.
        key: RequestKey,
        /// One for each item, in any order.
        results: Vec<AppendResult>,
    },
    /// Read these partitions; answered with `Found` once more than `more_than` bytes or a refusal is there, or the deadline
    /// has passed, exactly once unless cancelled.
    Read {
        /// Of which request.
        key: RequestKey,
        /// The partitions, in order of preference.
        items: Vec<ReadItem>,
        /// About how many bytes in all; the first batch may be larger.
        bytes_max: u32,
        /// Wait until more than this is there.
        more_than: u32,
        /// How long to wait. `None`: answer at once, even where a read is on its way from the device.
        deadline: Option<Mono>,
    },
    /// What came of `Read`.
    Found {
        /// As in the request.
        key: RequestKey,
        /// The items go back to be asked again.
        items: Vec<ReadItem>,
        /// One for each item, in their order.
        results: Vec<ReadResult>,
        /// Whole batches.
        slices: Vec<Piece<S>>,
        /// Bytes in them.
        bytes: u32,
        /// A read is on its way from the device; asking again will bring more.
        pending: bool,
        /// Something that the client must hear at once: a refusal, or a log that parted from ours.
        urgent: bool,
        /// Asking again would not wait: the deadline has passed, or there is no room to wait.
        last: bool,
    },
    /// Forget a `Read`.
    Cancel {
        /// As in the request.
        key: RequestKey,
    },
    /// Give the ends of these partitions.
    Bounds {
        /// Of which request.
        key: RequestKey,
        /// The partitions.
        items: Vec<BoundsItem>,
    },
    /// What came of `Bounds`.
    BoundsFound {
        /// As in the request.
        key: RequestKey,
        /// One for each item, in any order.
        results: Vec<BoundsResult>,
    },
    /// The sender is shutting down and has no request left that would need the receiver.
    Drained,
    /// A flush failed on a device: no durable position may move there.
    DeviceFailed {
        /// Which.
        device: DeviceIndex,
        /// Why, for the log.
        reason: String,
    },
}
