//! The journals of one shard, behind one face.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::{JournalEntry, TopicConfig};
use base::memory::{Arena, Block};
use base::message::{Bounds, ProducerInfo};
use base::{Checksums, ClusterId, DeviceIndex, Epoch, JournalId, Now, Offset, PartitionId, Position, WallMs};
use protocol::batch::BatchView;

/// How writes of a device become durable; chosen at start from what the device reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A coalesced flush after the writes (write-back cache, or a file).
    Flush,
    /// Every write carries FUA / `RWF_DSYNC`.
    Fua,
    /// Writes are durable when complete: a raw device that reports write through.
    WriteThrough,
}

/// Bounds of a store, from the profile and the configuration.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The cluster in every unit header.
    pub cluster: ClusterId,
    /// Checksum functions.
    pub sums: Checksums,
    /// Seed of hash tables.
    pub hash_seed: u64,
    /// An open unit is closed at this size (256 KiB); a larger batch gets a unit of its own.
    pub unit_bytes: u32,
    /// K: writes of a journal in flight.
    pub writes_in_flight: u32,
    /// L: bytes of a journal in flight (1 MiB), or one larger unit alone.
    pub bytes_in_flight: u32,
    /// Bytes written between two checkpoints of a journal.
    pub checkpoint_bytes: u64,
    /// Memory for footers of closed extents.
    pub footer_cache_bytes: usize,
    /// Idempotent producers remembered in one partition; the least recently used goes first.
    pub producers_per_partition_max: u32,
    /// How long an idle producer is remembered.
    pub producer_expiry_ms: i64,
    /// By device index.
    pub durability: Vec<Durability>,
}

/// Where an extent lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtentAddress {
    /// On which device.
    pub device: DeviceIndex,
    /// Byte offset on the device.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Rises with every use of any extent of the device.
    pub generation: u64,
}

/// What the world tells the store.
#[derive(Debug)]
pub enum Event {
    /// A write is complete, or failed.
    Written { token: u64, result: Result<(), String> },
    /// A flush is complete, or failed.
    Flushed { token: u64, result: Result<(), String> },
    /// A read is complete: the block goes back to the store, filled, or with an error.
    Read { token: u64, block: Block, result: Result<(), String> },
    /// An extent asked for with [`Effect::NeedExtent`]; `None`: there is no space, ask again later.
    Extent { device: DeviceIndex, extent: Option<ExtentAddress> },
    /// A checkpoint asked for with [`Effect::Checkpoint`] is durable, or failed.
    CheckpointDone { journal: JournalId, result: Result<(), String> },
    /// A flush failed on this device on another shard.
    DeviceFailed { device: DeviceIndex, reason: String },
}

/// What the store asks of the world. Writes and reads of one device may complete in any order; no byte range ever has two
/// writes outstanding.
#[derive(Debug)]
pub enum Effect {
    /// Write frozen bytes `block_start + at .. + len` of the arena to the device. Sector aligned.
    Write { token: u64, device: DeviceIndex, offset: u64, arena_start: usize, len: usize, fua: bool },
    /// Flush the device. Submitted after the completions it must cover were reaped.
    Flush { token: u64, device: DeviceIndex },
    /// Read into the block, which is loaned until the completion.
    Read { token: u64, device: DeviceIndex, offset: u64, block: Block, len: usize },
    /// One more extent wanted; answered with [`Event::Extent`].
    NeedExtent { device: DeviceIndex, journal: JournalId, for_cleaning: bool },
    /// The extent holds nothing that lives; recycle it.
    FreeExtent { extent: ExtentAddress },
    /// Write a checkpoint of the journal (replace it whole, or append an increment).
    Checkpoint { journal: JournalId, bytes: Vec<u8>, replace: bool },
    /// The high watermark of the partition moved.
    Advanced { partition: PartitionId },
    /// The commit position moved: answer what waits below it.
    Committed { journal: JournalId, upto: Position },
    /// The read that a [`ReadOutcome::Pending`] named may be tried again.
    ReadReady { partition: PartitionId },
    /// The journal takes no more appends; what it holds committed still serves where it can be read.
    Fenced { journal: JournalId, reason: String },
    /// A flush failed: tell the other shards ([`Event::DeviceFailed`]) before they advance a durable position there.
    DeviceFailed { device: DeviceIndex, reason: String },
}

/// A batch taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where its first record went.
    pub base_offset: Offset,
    /// The journal it went to.
    pub journal: JournalId,
    /// Durable once the journal's commit position is above this.
    pub position: Position,
    /// Timestamp the broker stamped, for LogAppendTime; −1 for CreateTime.
    pub append_time: WallMs,
    /// The partition's log start.
    pub log_start: Offset,
    /// The batch was there already; same offsets, same position to wait for.
    pub duplicate: bool,
}

/// Why a batch was not taken. Nothing of it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    UnknownPartition,
    /// CRC-32C mismatch, or records that do not parse.
    Corrupt,
    /// Larger than the topic's `max.message.bytes`.
    TooLarge,
    /// Timestamps outside the topic's bounds.
    Timestamp,
    /// Structure that Kafka refuses as INVALID_RECORD.
    Invalid,
    OutOfOrderSequence,
    InvalidProducerEpoch,
    /// The write tail's budget is used up; try again when something committed.
    Busy,
    /// No extent to be had.
    Full,
    Fenced,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Bytes pushed as slices, whole batches in offset order.
    Data {
        bytes: usize,
    },
    /// Nothing at or after the offset below the high watermark.
    Empty,
    /// On its way from the device; [`Effect::ReadReady`] follows.
    Pending,
    /// Below log start or above log end.
    OutOfRange,
    /// The stored bytes are damaged; the next readable offset.
    Damaged {
        next: Offset,
    },
    UnknownPartition,
    /// The device cannot be read.
    Fenced,
}

/// The journals of one shard.
pub struct Store<A: Arena> {
    _arena: core::marker::PhantomData<A>,
}

#[allow(unused_variables, clippy::todo, missing_docs, reason = "contract; bodies follow")]
impl<A: Arena> Store<A> {
    /// Whether an append of `bytes` would find room in the write tail now.
    pub fn has_room(&self, arena: &A, bytes: usize) -> bool {
        todo!()
    }

    /// Opens a journal that does not exist yet.
    pub fn create_journal(&mut self, now: Now, entry: &JournalEntry, out: &mut Vec<Effect>) {
        todo!()
    }

    /// Adds a partition of the journal (new, or known from recovery) with its settings.
    pub fn set_partition(&mut self, now: Now, id: PartitionId, journal: JournalId, config: Arc<TopicConfig>) {
        todo!()
    }

    /// Forgets a partition whose id is deleted for ever; its frames are dead from now on.
    pub fn delete_partition(&mut self, now: Now, id: PartitionId) {
        todo!()
    }

    /// Validates a batch (header checked before by `BatchView::check`; records, sequence, size, CRC here), stamps it and
    /// copies it once into the open unit.
    pub fn append(
        &mut self,
        now: Now,
        id: PartitionId,
        batch: &BatchView<'_>,
        arena: &mut A,
    ) -> Result<Appended, AppendError> {
        todo!()
    }

    /// Takes a completion.
    pub fn handle(&mut self, now: Now, event: Event, arena: &mut A, out: &mut Vec<Effect>) {
        todo!()
    }

    /// Closes and submits units where there is room, submits flushes; once a turn, after the appends.
    pub fn pump(&mut self, now: Now, arena: &mut A, out: &mut Vec<Effect>) {
        todo!()
    }

    /// Retention, freeing, checkpoints, idle closing units; some times a second.
    pub fn housekeep(&mut self, now: Now, arena: &mut A, out: &mut Vec<Effect>) {
        todo!()
    }

    /// Starts an orderly stop: closing units and a last checkpoint. Done when [`Store::is_quiet`].
    pub fn stop(&mut self, now: Now, arena: &mut A, out: &mut Vec<Effect>) {
        todo!()
    }

    /// Nothing in flight.
    pub fn is_quiet(&self) -> bool {
        todo!()
    }

    /// Reads committed batches from `from` on: whole batches, up to `bytes_max`, but at least one when `at_least_one`.
    pub fn read(
        &mut self,
        now: Now,
        id: PartitionId,
        from: Offset,
        bytes_max: usize,
        at_least_one: bool,
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> ReadOutcome {
        todo!()
    }

    /// The partition's ends.
    pub fn bounds(&self, id: PartitionId) -> Option<Bounds> {
        todo!()
    }

    /// Commit position of a journal: everything below is durable.
    pub fn commit_position(&self, journal: JournalId) -> Option<Position> {
        todo!()
    }

    /// Moves the log start by a control frame; the position to wait for. −1 means the high watermark.
    pub fn move_start(
        &mut self,
        now: Now,
        id: PartitionId,
        to: Offset,
        arena: &mut A,
    ) -> Result<(Offset, JournalId, Position), AppendError> {
        todo!()
    }

    /// The highest epoch at or below `epoch`, and where it ends.
    pub fn epoch_end(&self, id: PartitionId, epoch: Epoch) -> Option<(Epoch, Offset)> {
        todo!()
    }

    /// The first batch whose max timestamp is at least `timestamp` (or, with `None`, the one with the highest), as one slice.
    pub fn find_time(
        &mut self,
        now: Now,
        id: PartitionId,
        timestamp: Option<WallMs>,
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> ReadOutcome {
        todo!()
    }

    /// Producers with state.
    pub fn producers(&self, id: PartitionId) -> Vec<ProducerInfo> {
        todo!()
    }

    /// Ends and retained bytes of every partition.
    pub fn sizes(&self) -> Vec<(PartitionId, Bounds)> {
        todo!()
    }
}
