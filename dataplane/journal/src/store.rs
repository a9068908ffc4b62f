//! The journals of one shard, behind one face.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use alloc::collections::VecDeque;
use core::ops::Range;

use base::image::{JournalEntry, SeededHash, SeededMap, SeededSet, TopicConfig};
use base::memory::{Arena, Block};
use base::message::{Bounds, DamagedRange, PartitionSize, ProducerInfo};
use base::{
    BrokerId, Checksums, ClusterId, Codecs, DeviceIndex, Epoch, JournalId, Now, Offset, PartitionId, Position, WallMs,
};
use protocol::batch::BatchView;

pub use crate::cluster::ClusterConfig;
use crate::cold::Cold;
pub use crate::compact::CompactionTotals;
use crate::compact::Pass;
pub use crate::compact::filter::INFLATED_BYTES_MAX;
use crate::damage::Damaged;
use crate::format::Label;
use crate::journal::Journal;
use crate::lane::Lane;
use crate::partition::{Partition, Partitions, Standing};
use crate::read::Progress;
use crate::time::Search;

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
    /// This broker, for the epoch starts.
    pub broker: BrokerId,
    /// Random id of this run of the process.
    pub incarnation: u128,
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
    /// Rewriting what outlived the rest of closed extents.
    pub clustering: ClusterConfig,
    /// Memory for the keys of one pass of compaction.
    pub compaction_bytes: usize,
    /// Codecs of compressed batches.
    pub codecs: Codecs,
    /// Idempotent producers remembered in one partition; the least recently used goes first.
    pub producers_per_partition_max: u32,
    /// How long an idle producer is remembered.
    pub producer_expiry_ms: i64,
    /// By device index.
    pub durability: Vec<Durability>,
}

/// A device as the store of one shard uses it.
#[derive(Clone, Debug)]
pub struct StoreDevice {
    /// Its label.
    pub label: Label,
    /// Pairs of local-state slots that journals created by this shard may take; no other shard has them.
    pub free_pairs: Vec<u32>,
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
    NeedExtent { device: DeviceIndex, journal: JournalId, wish: Wish },
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
    /// Offsets were found damaged that were not known to be; once for each range.
    Damaged { range: DamagedRange },
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
    /// Records without a key, in a compacted topic.
    Keyless(Keyless),
    /// Compressed records of a compacted topic that inflate to more than [`INFLATED_BYTES_MAX`].
    Inflates,
    OutOfOrderSequence,
    InvalidProducerEpoch,
    /// The write tail's budget is used up; try again when something committed.
    Busy,
    /// No extent to be had.
    Full,
    Fenced,
    /// The partition is on its way to another journal: try again when it is there.
    Moving,
    /// Another journal has it now.
    Moved,
}

/// Which records of a batch have no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyless {
    /// Number of the first in the batch.
    pub first: u32,
    /// Bit i: the record of number `first + i`, too. Those further on are not named.
    pub bits: u64,
}

impl Keyless {
    /// Their numbers in the batch.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |bit| self.bits >> bit & 1 == 1).map(move |bit| self.first.saturating_add(bit))
    }
}

/// Every offset.
pub const ALL: Range<Offset> = Offset(0)..Offset(i64::MAX);

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
    /// The stored bytes are damaged.
    Damaged {
        /// The first offset that is known to be lost: the one asked for, or the base of the batch that holds it.
        first: Offset,
        /// The next readable offset.
        next: Offset,
    },
    UnknownPartition,
    /// The device cannot be read.
    Fenced,
    /// The offset lies in another journal, which no store here has.
    Moved,
}

/// The journals of one shard. Lives on that shard's core; nothing in it is shared.
pub struct Store<A: Arena> {
    pub(crate) config: StoreConfig,
    pub(crate) hash: SeededHash,
    pub(crate) devices: Vec<StoreDevice>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) journals: Vec<Journal>,
    pub(crate) journal_slots: SeededMap<JournalId, u16>,
    pub(crate) partitions: Partitions,
    /// By device: journals (by slot) that wait for an extent, in the order they asked, and what for.
    pub(crate) asking: Vec<VecDeque<(u16, Wish)>>,
    pub(crate) cold: Cold,
    /// Partitions whose last cold read failed on the device: the next read says so, once.
    pub(crate) cold_errors: Vec<PartitionId>,
    /// Offsets known to be damaged.
    pub(crate) damaged: Damaged,
    /// Searches by offset that wait for a footer.
    pub(crate) lookups: Vec<Progress>,
    /// Searches by time that wait for a footer.
    pub(crate) searches: Vec<Search>,
    /// Slot of the partition that was swept last.
    pub(crate) swept: u32,
    /// Partitions that were here in this run, live on, and are in other stores now: who asks for one has not heard of it yet.
    pub(crate) departed: SeededSet<PartitionId>,
    /// Rises with every chunk.
    pub(crate) stamp: u64,
    /// Rises with every fold.
    pub(crate) folds: u64,
    pub(crate) stopping: bool,
    /// Extents that were clustered.
    pub(crate) clustered_extents: u64,
    /// The pass of compaction that is on its way.
    pub(crate) compaction: Option<Box<Pass>>,
    pub(crate) compacted: CompactionTotals,
    /// The records of a compressed batch that is being taken into a compacted topic.
    pub(crate) inflated: Vec<u8>,
    _arena: core::marker::PhantomData<fn(A)>,
}

impl<A: Arena> core::fmt::Debug for Store<A> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Store").field("journals", &self.journals.len()).finish_non_exhaustive()
    }
}

/// What a token stands for: 8 bits of kind, 16 of a slot, 40 of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A unit write: journal and number of the flight.
    Unit(u16, u64),
    /// A flush: device.
    Flush(u16, u64),
    /// A local-state write of a journal.
    Slot(u16),
    /// A window read: journal and number of the load.
    Window(u16, u64),
    /// A footer read: journal and number of the load.
    Footer(u16, u64),
    /// A footer write: journal and the extent's start in sectors.
    WriteFooter(u16, u64),
    /// A read of what is being clustered.
    ClusterRead(u16),
    /// A write of it.
    ClusterWrite(u16),
    /// A read of keys for compaction.
    CompactRead(u16),
}

/// What an extent is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Records, and whatever comes with them.
    Appends,
    /// Control frames alone: deletions on a full device.
    Cleaning,
    /// To write what lives of several extents into one, which frees them.
    Clustering,
}

impl Wish {
    /// Answers do not say which question they are for, and the device's reserve answers some sooner than others.
    pub(crate) const fn stands_alone(self) -> bool {
        matches!(self, Self::Cleaning | Self::Clustering)
    }
}

impl Op {
    const NUMBER_BITS: u32 = 40;

    pub(crate) fn token(self) -> u64 {
        let (kind, slot, number) = match self {
            Self::Unit(slot, number) => (1u64, slot, number),
            Self::Flush(slot, number) => (2, slot, number),
            Self::Slot(slot) => (3, slot, 0),
            Self::Window(slot, number) => (4, slot, number),
            Self::Footer(slot, number) => (5, slot, number),
            Self::WriteFooter(slot, number) => (6, slot, number),
            Self::ClusterRead(slot) => (7, slot, 0),
            Self::ClusterWrite(slot) => (8, slot, 0),
            Self::CompactRead(slot) => (9, slot, 0),
        };
        assert!(number >> Self::NUMBER_BITS == 0, "2^40 operations in one run");
        kind << 56 | u64::from(slot) << Self::NUMBER_BITS | number
    }

    pub(crate) fn of(token: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the slot's 16 bits")]
        let slot = (token >> Self::NUMBER_BITS) as u16;
        let number = token & ((1 << Self::NUMBER_BITS) - 1);
        match token >> 56 {
            1 => Self::Unit(slot, number),
            2 => Self::Flush(slot, number),
            3 => Self::Slot(slot),
            4 => Self::Window(slot, number),
            5 => Self::Footer(slot, number),
            6 => Self::WriteFooter(slot, number),
            7 => Self::ClusterRead(slot),
            8 => Self::ClusterWrite(slot),
            9 => Self::CompactRead(slot),
            other => unreachable!("no operation of kind {other} was submitted"),
        }
    }
}

impl<A: Arena> Store<A> {
    /// A store without journals. `devices` is by device index, as `config.durability`.
    ///
    /// # Panics
    /// When the two lists differ in length.
    #[must_use]
    pub fn new(config: StoreConfig, devices: Vec<StoreDevice>) -> Self {
        assert_eq!(config.durability.len(), devices.len(), "one durability for every device");
        let lane = |(i, durability): (usize, &Durability)| {
            Lane::new(DeviceIndex(u16::try_from(i).expect("few devices")), *durability)
        };
        let hash = SeededHash(config.hash_seed);
        Self {
            hash,
            lanes: config.durability.iter().enumerate().map(lane).collect(),
            asking: devices.iter().map(|_| VecDeque::new()).collect(),
            devices,
            journals: Vec::new(),
            journal_slots: SeededMap::with_hasher(hash),
            partitions: Partitions::new(hash),
            cold: Cold::default(),
            cold_errors: Vec::new(),
            damaged: Damaged::default(),
            lookups: Vec::new(),
            searches: Vec::new(),
            swept: 0,
            departed: SeededSet::with_hasher(hash),
            stamp: 0,
            folds: 0,
            stopping: false,
            clustered_extents: 0,
            compaction: None,
            compacted: CompactionTotals::default(),
            inflated: Vec::new(),
            config,
            _arena: core::marker::PhantomData,
        }
    }

    /// Opens a journal that does not exist yet. Its local state is written first; appends are `Busy` until an extent is there.
    pub fn create_journal(&mut self, now: Now, entry: &JournalEntry, out: &mut Vec<Effect>) {
        self.create(now, entry, out);
    }

    /// Adds a partition of the journal (new, or known from recovery) with its settings.
    pub fn set_partition(&mut self, now: Now, id: PartitionId, journal: JournalId, config: Arc<TopicConfig>) {
        let _ = now;
        self.set_homes_of(id, &[(journal, Offset(0))], None, &config);
    }

    /// The same of one that has moved, or is about to: its homes, each with the first offset it took, the open one last, and
    /// where it goes. The store takes those of its own journals; what it has of the partition in others leaves it.
    pub fn set_homes(
        &mut self,
        now: Now,
        id: PartitionId,
        homes: &[(JournalId, Offset)],
        moving: Option<JournalId>,
        config: &Arc<TopicConfig>,
    ) {
        let _ = now;
        self.set_homes_of(id, homes, moving, config);
    }

    pub(crate) fn add_partition(&mut self, id: PartitionId, slot: u16, first: Offset) -> u32 {
        let journal = &mut self.journals[usize::from(slot)];
        let mut partition = Partition::new(id, slot);
        (partition.first, partition.counted) = (first, first);
        (partition.log_end, partition.high_watermark) = (first, first);
        // Named before the first unit of this run: it may have been there before, with all its frames in what is damaged.
        if let Some((_, records)) = journal.damage.filter(|_| journal.starting) {
            let end = first.plus(records);
            (partition.log_end, partition.high_watermark) = (end, end);
            journal.gaps_due.push((id, first, end));
            self.damaged.recovered(DamagedRange { partition: id, first, next: end });
        }
        // It may have been here before, and left.
        journal.checkpoint.gone.retain(|gone| *gone != id);
        self.partitions.insert(partition)
    }

    /// Forgets a partition whose id is deleted for ever; its frames are dead from now on.
    pub fn delete_partition(&mut self, now: Now, id: PartitionId) {
        let _ = now;
        while let Some(number) = self.partitions.slot(id) {
            self.forget_home(number);
        }
        self.departed.remove(&id);
    }

    /// Partitions that recovery found and nobody named with [`Store::set_partition`]. Their data is kept, since an id that is
    /// merely unknown may be named later; those that metadata knows as deleted are to be given to
    /// [`Store::delete_partition`].
    #[must_use]
    pub fn unnamed_partitions(&self) -> Vec<PartitionId> {
        self.partitions.iter().filter(|partition| partition.config.is_none()).map(|partition| partition.id).collect()
    }

    /// Validates a batch (header checked before by `BatchView::check`; records, sequence, size, CRC here), stamps it and
    /// copies it once into the open unit.
    ///
    /// # Errors
    /// As [`AppendError`] says; nothing of the batch is stored then.
    pub fn append(
        &mut self,
        now: Now,
        id: PartitionId,
        batch: &BatchView<'_>,
        arena: &mut A,
    ) -> Result<Appended, AppendError> {
        self.append_records(now, id, batch, arena)
    }

    /// Takes a completion.
    pub fn handle(&mut self, now: Now, event: Event, arena: &mut A, out: &mut Vec<Effect>) {
        match event {
            Event::Written { token, result } => match Op::of(token) {
                Op::Unit(slot, number) => self.unit_written(slot, number, result, out),
                Op::Slot(slot) => self.slot_written(slot, result, arena, out),
                Op::WriteFooter(slot, number) => self.footer_written(slot, number, result, arena),
                Op::ClusterWrite(slot) => self.cluster_written(slot, result, arena),
                other => unreachable!("{other:?} is no write"),
            },
            Event::Flushed { token, result } => match Op::of(token) {
                Op::Flush(lane, serial) => self.flushed(lane, serial, result, arena, out),
                other => unreachable!("{other:?} is no flush"),
            },
            Event::Read { token, block, result } => match Op::of(token) {
                Op::Window(slot, serial) => self.window_read(slot, serial, block, result, arena, out),
                Op::Footer(slot, serial) => self.footer_read(slot, serial, block, result, arena, out),
                Op::ClusterRead(slot) => self.cluster_read(now, slot, block, result, arena, out),
                Op::CompactRead(slot) => self.compact_read(slot, block, result, arena, out),
                other => unreachable!("{other:?} is no read"),
            },
            Event::Extent { device, extent } => self.extent_given(now, device, extent, out),
            Event::CheckpointDone { journal, result } => self.checkpoint_done(journal, result, out),
            Event::DeviceFailed { device, reason } => self.device_failed(device, &reason, out),
        }
    }

    /// Closes and submits units where there is room, submits flushes; once a turn, after the appends.
    pub fn pump(&mut self, now: Now, arena: &mut A, out: &mut Vec<Effect>) {
        self.pump_all(now, arena, out);
    }

    /// Retention, freeing, checkpoints, idle closing units; some times a second.
    pub fn housekeep(&mut self, now: Now, arena: &mut A, out: &mut Vec<Effect>) {
        self.housekeep_all(now, arena, out);
    }

    /// Starts an orderly stop: closing units and a last checkpoint. Done when [`Store::is_quiet`].
    pub fn stop(&mut self, now: Now, arena: &mut A, out: &mut Vec<Effect>) {
        self.stopping = true;
        self.pump_all(now, arena, out);
    }

    /// Nothing in flight; after [`Store::stop`] also: nothing left to be written.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let stopped = |journal: &Journal| {
            let written = journal.checkpoint.is_quiet() && journal.checkpoint.written == journal.end;
            journal.fenced.is_some() || journal.starting || !journal.closing_due && written
        };
        self.lanes.iter().all(|lane| lane.flying.is_none())
            && self.journals.iter().all(Journal::is_quiet)
            && self.cold.is_quiet()
            && self.compaction.as_ref().is_none_or(|pass| pass.is_quiet())
            && (!self.stopping || self.journals.iter().all(stopped))
    }

    /// Reads committed batches from `from` on: whole batches, up to `bytes_max`, but at least one when `at_least_one`.
    #[expect(clippy::too_many_arguments, reason = "the shard's hot path: a struct would be built for each call")]
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
        let _ = now;
        self.read_from(id, from, bytes_max, at_least_one, arena, slices, out)
    }

    /// How many extents were clustered in this run.
    #[must_use]
    pub const fn clustered_extents(&self) -> u64 {
        self.clustered_extents
    }

    /// The ends of a partition that has its open home here, and is not on its way elsewhere.
    #[must_use]
    pub fn bounds(&self, id: PartitionId) -> Option<Bounds> {
        // From its closing on others may know more of it.
        let named = |partition: &&Partition| partition.config.is_some() && partition.standing == Standing::Open;
        let partition = self.partitions.get(id).filter(named)?;
        let journal = &self.journals[usize::from(partition.journal)];
        (!journal.closed).then(|| partition.bounds(journal.identity.epoch))
    }

    /// The ends as the home knows them that holds an offset; `None` from its closing on, as [`Store::bounds`].
    #[must_use]
    pub fn bounds_at(&self, id: PartitionId, offset: Offset) -> Option<Bounds> {
        let number = self.home_of_read(id, offset).ok()?;
        let partition = self.partitions.at(number)?;
        let settled = matches!(partition.standing, Standing::Open | Standing::Left);
        settled.then(|| partition.bounds(self.journals[usize::from(partition.journal)].identity.epoch))
    }

    /// Said after a start, when a device has fewer extents left than are held back: journals hold some of those, and do not
    /// know which. What they write to takes only control frames until another extent comes, as it did before.
    pub fn hold_back(&mut self, device: DeviceIndex) {
        for journal in self.journals.iter_mut().filter(|journal| journal.device == device) {
            if let Some(extent) = journal.extents.back_mut() {
                extent.for_cleaning = true;
            }
        }
    }

    /// Whether a start could not read the partition's journal: nothing of it is served until one can.
    #[must_use]
    pub fn is_closed(&self, id: PartitionId) -> bool {
        self.partitions.get(id).is_some_and(|partition| self.journals[usize::from(partition.journal)].closed)
    }

    /// Commit position of a journal: everything below is durable.
    #[must_use]
    pub fn commit_position(&self, journal: JournalId) -> Option<Position> {
        let slot = *self.journal_slots.get(&journal)?;
        Some(self.journals[usize::from(slot)].commit)
    }

    /// Moves the log start by a control frame: where to, and in which journal. −1 means the high watermark. It is moved for
    /// good once [`Store::sure_start`] has come there.
    ///
    /// # Errors
    /// `UnknownPartition`, `Invalid` when `to` lies above the high watermark, `Busy`, `Full`, `Fenced`.
    pub fn move_start(
        &mut self,
        now: Now,
        id: PartitionId,
        to: Offset,
        arena: &mut A,
    ) -> Result<(Offset, JournalId), AppendError> {
        self.move_start_to(now, id, to, crate::format::StartReason::Deleted, arena)
    }

    /// The log start that stays whichever single place is damaged: two committed units state it, or one and a checkpoint.
    #[must_use]
    pub fn sure_start(&self, id: PartitionId) -> Option<Offset> {
        Some(self.partitions.get(id)?.sure_start)
    }

    /// The highest epoch at or below `epoch`, and where it ends.
    #[must_use]
    pub fn epoch_end(&self, id: PartitionId, epoch: Epoch) -> Option<(Epoch, Offset)> {
        self.partitions.get(id)?.epoch_end(epoch)
    }

    /// The first batch whose max timestamp is at least `timestamp` (or, with `None`, the one with the highest), as one slice.
    /// Of a partition that has moved it is looked for in the home that holds `within.start`, below `within.end`.
    #[expect(clippy::too_many_arguments, reason = "as read")]
    pub fn find_time(
        &mut self,
        now: Now,
        id: PartitionId,
        timestamp: Option<WallMs>,
        within: Range<Offset>,
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> ReadOutcome {
        let _ = now;
        self.find_by_time(id, timestamp, within, arena, slices, out)
    }

    /// Producers with state.
    #[must_use]
    pub fn producers(&self, id: PartitionId) -> Vec<ProducerInfo> {
        let producers = self.partitions.get(id).and_then(|partition| partition.producers.as_ref());
        producers.map(|producers| producers.infos()).unwrap_or_default()
    }

    /// Ends and retained bytes of every partition, in each of its homes here.
    #[must_use]
    pub fn sizes(&self) -> Vec<PartitionSize> {
        let bounds = |partition: &Partition| {
            let identity = &self.journals[usize::from(partition.journal)].identity;
            let (id, journal) = (partition.id, identity.journal);
            let bounds = partition.bounds(identity.epoch);
            PartitionSize { partition: id, journal, bounds, written: partition.written }
        };
        self.partitions.iter().filter(|partition| partition.config.is_some()).map(bounds).collect()
    }
}

#[cfg(test)]
mod tests;
