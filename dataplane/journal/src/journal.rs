//! One journal: its extents, the memory of its tail, the unit being filled and the units that fly.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use base::image::Secret;
use base::memory::{Arena, Block};
use base::{Checksums, ClusterId, DeviceIndex, Epoch, JournalId, Mono, Offset, PartitionId, Position, WallMs};

use crate::checkpoint::Checkpoint;
use crate::cluster::Clustering;
use crate::compact::Compacting;
use crate::format::{
    Chain, ExtentHeader, ExtentKind, FrameHeader, FrameKind, JournalStart, LocalState, LogStartMove, SECTOR,
    StartReason, UNIT_BYTES_MAX, UnitHeader, sectors,
};
use crate::index::{OpenIndex, SortedIndex};
use crate::recovery::Damage;
use crate::retention::Leaving;
use crate::store::ExtentAddress;

/// Blocks the tail is written from. A unit never crosses one; 1 MiB is what may fly of a journal at once.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// The part of an extent that is left to control frames where there is no other: 1 MiB of 64 MiB, some 250 deletions or starts
/// that are written alone, in a sector each.
const CONTROL_PART: u64 = 64;

/// Tail frames remembered at most: 256 Ki × 64 bytes = 16 MiB. Small batches reach it before the tail's memory is full.
pub(crate) const FRAMES_MAX: usize = 256 << 10;

/// What every unit and extent header of a journal says of it.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) cluster: ClusterId,
    /// The device, as its label names it.
    pub(crate) device: u128,
    pub(crate) journal: JournalId,
    /// The epoch in which this process leads it.
    pub(crate) epoch: Epoch,
    pub(crate) secret: Secret,
}

impl Identity {
    /// The epoch in what is written now.
    pub(crate) const fn epoch_to_write(&self) -> Epoch {
        if cfg!(fault = "no-epoch-in-units") { Epoch(0) } else { self.epoch }
    }
}

/// A block of the tail: units back to back, just as on the device.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) block: Block,
    /// Byte of the block that holds `first`: behind the extent header, if the chunk begins an extent.
    pub(crate) at: usize,
    pub(crate) first: Position,
    /// End of the closed units in it.
    pub(crate) end: Position,
    /// Rises over all journals of the shard: the lowest is evicted first.
    pub(crate) stamp: u64,
}

impl Chunk {
    /// Byte of the block that holds `position`.
    pub(crate) fn byte(&self, position: Position) -> usize {
        self.at + usize::try_from(position.0 - self.first.0).expect("a chunk is shorter than memory")
    }

    /// Bytes behind the closed units.
    pub(crate) fn left(&self) -> usize {
        self.block.len - self.byte(self.end)
    }
}

/// The unit being filled, at the end of the newest chunk.
#[derive(Debug)]
pub(crate) struct OpenUnit {
    /// Byte of the block where it begins.
    pub(crate) at: usize,
    /// Header and frames so far.
    pub(crate) used: usize,
    /// Most it may take.
    pub(crate) cap: usize,
    pub(crate) frames: u32,
    /// Checksum over the frame headers so far.
    pub(crate) body: u64,
    /// Whether it begins an extent, whose header lies right before it.
    pub(crate) first_of_extent: bool,
}

/// How far a closed unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not submitted: too much flies.
    Waiting,
    /// Submitted.
    Writing,
    /// Complete; a flush must follow.
    Written,
    /// The flush in flight covers it.
    Covered,
    Durable,
}

/// A closed unit that is not yet durable, or not all before it are.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) end: Position,
    pub(crate) stage: Stage,
    /// Byte on the device.
    pub(crate) offset: u64,
    pub(crate) arena_start: usize,
    pub(crate) len: usize,
}

/// What a tail frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailKind {
    Records,
    /// States a log start, `base`, which a later unit is to state once more: a move of it, or a snapshot.
    Start(StartReason),
    /// States a log start, `base`, that an earlier unit states too.
    StartAgain,
    /// Another control frame of a partition.
    Control,
}

/// A frame of the tail, in order of position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailFrame {
    pub(crate) position: Position,
    pub(crate) partition: PartitionId,
    pub(crate) base: Offset,
    /// Number of the partition's next record frame.
    pub(crate) next: u64,
    pub(crate) slot: u32,
    pub(crate) records: u32,
    /// Bytes of payload.
    pub(crate) len: u32,
    pub(crate) kind: TailKind,
}

/// Where an extent's index is.
#[derive(Debug)]
pub(crate) enum Index {
    /// The extent is being written.
    Open(OpenIndex),
    /// Closed, its footer not yet written.
    Closed(SortedIndex),
    /// In the footer on the device, of that many bytes.
    Footer(u32),
    /// No footer: it must be rebuilt by reading the extent.
    Missing,
}

/// What must happen before an extent in which nothing lives is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dead {
    /// Tail frames below this number, snapshots among them, are committed.
    Once(u64),
    /// Those that state the snapshots' log starts again are, too: all below this number.
    Restated(u64),
}

/// An extent of the journal.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) address: ExtentAddress,
    pub(crate) start: JournalStart,
    /// End of its last closed unit.
    pub(crate) end: Position,
    /// Of its last closed unit.
    pub(crate) last: (Epoch, Chain),
    /// Unit of its newest frame without a partition.
    pub(crate) newest_control: Option<Position>,
    pub(crate) index: Index,
    /// Of a clustered extent: where the journal goes on after the stretch it stands for.
    pub(crate) clustered: Option<JournalStart>,
    /// Its records were held against all below there by compaction; 0: never.
    pub(crate) compacted: Position,
    /// It is being clustered: it stays until that is done or given up.
    pub(crate) held: bool,
    /// Something in it is damaged: it stays as it is.
    pub(crate) unclusterable: bool,
    /// Bytes that outlived the rest when it was last looked into; they only become fewer.
    pub(crate) live: Option<u64>,
    /// A partition, and what of it lives here, seen when the extent was last looked into: while that lives, so does the extent.
    pub(crate) watch: Option<(PartitionId, Offset)>,
    /// Memory and length of a footer write that flies.
    pub(crate) footer_flies: Option<(Block, u32)>,
    /// The flush that was submitted last when its footer was written: it is durable with a later one.
    pub(crate) footer_after: u64,
    /// It cannot get a footer: the index stays in memory.
    pub(crate) no_footer: bool,
    /// Nothing in it lives once that has come to pass.
    pub(crate) dead: Option<Dead>,
    /// Taken from what is held back for cleaning: only control frames go here.
    pub(crate) for_cleaning: bool,
    /// Whether the checkpoint file does not know it as it is.
    pub(crate) changed: bool,
}

// What a retained GiB costs in memory, however many partitions it holds: 16 extents of 64 MiB, twice where their queue has just
// grown, are 12 KiB. Their footers lie on the device and come into a cache of fixed size.
const _: () = assert!(size_of::<Extent>() <= 384);

impl Extent {
    /// One that is begun.
    pub(crate) fn new(address: ExtentAddress, start: JournalStart, last: (Epoch, Chain)) -> Self {
        Self {
            address,
            start,
            end: start.position,
            last,
            newest_control: None,
            index: Index::Open(OpenIndex::default()),
            clustered: None,
            compacted: Position(0),
            held: false,
            unclusterable: false,
            live: None,
            watch: None,
            footer_flies: None,
            footer_after: 0,
            no_footer: false,
            dead: None,
            for_cleaning: false,
            changed: true,
        }
    }

    /// No unit follows in it.
    pub(crate) fn close(&mut self) {
        if let Index::Open(open) = &self.index {
            self.index = Index::Closed(open.sorted());
            self.changed = true;
        }
    }

    /// Byte on the device of a position.
    pub(crate) fn offset(&self, position: Position) -> u64 {
        self.address.offset + SECTOR as u64 + (position.0 - self.start.position.0)
    }

    /// Whether less than half of it is left.
    pub(crate) fn is_low(&self) -> bool {
        self.left() as u64 * 2 < self.address.len
    }

    /// Bytes left behind closed units, with room kept for the footer.
    pub(crate) fn left(&self) -> usize {
        let footer = match &self.index {
            Index::Open(index) => index.footer_bytes(),
            Index::Closed(_) | Index::Footer(_) | Index::Missing => return 0,
        };
        let used = SECTOR as u64 + (self.end.0 - self.start.position.0) + footer as u64;
        usize::try_from(self.address.len.saturating_sub(used)).unwrap_or(usize::MAX)
    }
}

/// The local state of a journal on its way to its two slots.
#[derive(Debug)]
pub(crate) struct SlotWrite {
    pub(crate) block: Block,
    pub(crate) pair: u32,
    /// Slots still to be written, this one included.
    pub(crate) left: u8,
    pub(crate) second: bool,
    pub(crate) stage: Stage,
}

/// One journal of the shard.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) identity: Identity,
    pub(crate) device: DeviceIndex,
    /// Why it takes no more appends.
    pub(crate) fenced: Option<String>,
    /// Whether a flush failed over one of its writes: nothing more of it becomes durable.
    pub(crate) frozen: bool,
    /// Pair of slots to which a new journal's local state must be written.
    pub(crate) slots_due: Option<u32>,
    /// Local state that must be durable before the first unit is written.
    pub(crate) slots: Option<SlotWrite>,
    /// The epoch-start unit is still to come; nothing is appended before it.
    pub(crate) starting: bool,
    pub(crate) extents: VecDeque<Extent>,
    pub(crate) spare: VecDeque<ExtentAddress>,
    /// An extent is asked for.
    pub(crate) asked: bool,
    /// There was no extent to be had; ask again then.
    pub(crate) full_until: Option<Mono>,
    pub(crate) chunks: VecDeque<Chunk>,
    pub(crate) frames: VecDeque<TailFrame>,
    /// Number of the oldest tail frame.
    pub(crate) frames_first: u64,
    /// Number of the first tail frame that is not folded into its partition: not committed.
    pub(crate) folded: u64,
    pub(crate) open: Option<OpenUnit>,
    pub(crate) flights: VecDeque<Flight>,
    /// Number of the oldest flight.
    pub(crate) flights_first: u64,
    /// Flights from that number on wait.
    pub(crate) submitted: u64,
    /// Submitted and not durable.
    pub(crate) bytes_flying: usize,
    /// End of the closed units.
    pub(crate) end: Position,
    /// End of what is durable, and with one replica committed.
    pub(crate) commit: Position,
    /// Epoch and header checksum of the last closed unit.
    pub(crate) last: (Epoch, Chain),
    /// When something was last appended.
    pub(crate) last_append: Mono,
    /// Whether a closing unit is due once it idles: units with frames other than an epoch start came after the last one.
    pub(crate) closing_due: bool,
    /// The local state on the device, and the pair of slots that holds it.
    pub(crate) local: Option<(u32, LocalState)>,
    /// Recovery could not read it: nothing of it is served.
    pub(crate) closed: bool,
    /// The last damage that recovery found, and more offsets than all of it can hold.
    pub(crate) damage: Option<(Damage, i64)>,
    /// Gaps to be recorded: partition, first offset lost, first offset after.
    pub(crate) gaps_due: Vec<(PartitionId, Offset, Offset)>,
    /// Log starts that one committed unit states, to be stated in one more.
    pub(crate) starts_due: VecDeque<(PartitionId, LogStartMove)>,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) leaving: Leaving,
    /// A control frame found no room: an extent held back for cleaning is wanted.
    pub(crate) cleaning_due: bool,
    /// There was none of those either; ask again then.
    pub(crate) cleaning_until: Mono,
    /// An extent to be had only for control frames.
    pub(crate) cleaning_spare: Option<ExtentAddress>,
    pub(crate) clustering: Clustering,
    pub(crate) compacting: Compacting,
    /// An extent is to be begun as soon as there is one: the open one must be closed to be compacted.
    pub(crate) roll: bool,
}

impl Journal {
    pub(crate) fn new(identity: Identity, device: DeviceIndex, start: JournalStart) -> Self {
        Self {
            identity,
            device,
            fenced: None,
            frozen: false,
            slots_due: None,
            slots: None,
            starting: true,
            extents: VecDeque::new(),
            spare: VecDeque::new(),
            asked: false,
            full_until: None,
            chunks: VecDeque::new(),
            frames: VecDeque::new(),
            frames_first: 0,
            folded: 0,
            open: None,
            flights: VecDeque::new(),
            flights_first: 0,
            submitted: 0,
            bytes_flying: 0,
            end: start.position,
            commit: start.position,
            last: (start.epoch, start.chain),
            last_append: Mono(0),
            closing_due: false,
            local: None,
            closed: false,
            damage: None,
            gaps_due: Vec::new(),
            starts_due: VecDeque::new(),
            checkpoint: Checkpoint::default(),
            leaving: Leaving::default(),
            cleaning_due: false,
            cleaning_until: Mono(0),
            cleaning_spare: None,
            clustering: Clustering::default(),
            compacting: Compacting::default(),
            roll: false,
        }
    }

    pub(crate) fn id(&self) -> JournalId {
        self.identity.journal
    }

    /// Whether the open unit takes a frame of `bytes` more and leaves so much of its extent.
    pub(crate) fn fits(&self, bytes: usize, kept: usize) -> bool {
        let (Some(open), Some(extent)) = (&self.open, self.extents.back()) else { return false };
        let used = open.used + bytes;
        used <= open.cap && sectors(used) + kept <= extent.left()
    }

    /// Position of the next frame of the open unit.
    pub(crate) fn frame_position(&self) -> Position {
        let used = self.open.as_ref().expect("a unit is open").used;
        self.end.plus(used as u64)
    }

    /// Opens a unit that takes `need` bytes at least, in the newest extent and chunk, which have room.
    pub(crate) fn open_unit(&mut self, need: usize, unit_bytes: usize, first_of_extent: bool) {
        assert!(self.open.is_none(), "one unit is open at a time");
        let chunk = self.chunks.back().expect("a chunk was made before");
        let extent = self.extents.back().expect("an extent was begun before");
        assert_eq!(chunk.end, self.end, "units are contiguous");
        let room = chunk.left().min(extent.left()).min(UNIT_BYTES_MAX);
        assert!(sectors(need) <= room, "room was checked before");
        // A batch larger than a unit normally is gets one of its own.
        let cap = need.max(unit_bytes.min(room / SECTOR * SECTOR));
        let at = chunk.byte(self.end);
        self.open = Some(OpenUnit { at, used: UnitHeader::BYTES, cap, frames: 0, body: 0, first_of_extent });
    }

    /// Begins an extent: a new chunk whose first page is the extent's header.
    pub(crate) fn begin_extent<A: Arena>(
        &mut self,
        address: ExtentAddress,
        block: Block,
        stamp: u64,
        sums: &Checksums,
        arena: &mut A,
    ) {
        let start = JournalStart { position: self.end, epoch: self.identity.epoch, chain: self.last.1 };
        let header = ExtentHeader {
            kind: ExtentKind::Raw,
            generation: address.generation,
            cluster: self.identity.cluster,
            device: self.identity.device,
            journal: self.identity.journal,
            offset: address.offset,
            len: address.len,
            start: start.position,
            epoch: start.epoch,
            chain: start.chain,
            secret: self.identity.secret,
        };
        let page = arena.bytes_mut(&block, 0..SECTOR).first_chunk_mut().expect("a sector");
        header.encode(sums, page);
        self.chunks.push_back(Chunk { block, at: SECTOR, first: self.end, end: self.end, stamp });
        if let Some(extent) = self.extents.back_mut() {
            assert!(
                extent.address.generation < address.generation,
                "extents are begun in the order of their generations"
            );
            extent.close();
        }
        self.extents.push_back(Extent::new(address, start, self.last));
    }

    /// Completes a frame whose payload lies behind its header already: writes the header, counts it into the unit.
    pub(crate) fn seal_frame<A: Arena>(&mut self, header: &FrameHeader, sums: &Checksums, arena: &mut A) {
        let open = self.open.as_mut().expect("a unit is open");
        let chunk = self.chunks.back().expect("the open unit lies in it");
        let at = open.at + open.used;
        let bytes = arena.bytes_mut(&chunk.block, at..at + FrameHeader::frame_bytes(header.length as usize));
        bytes[FrameHeader::BYTES + header.length as usize..].fill(0);
        header.encode(sums, bytes);
        open.body = (sums.crc64)(open.body, &bytes[..FrameHeader::BYTES]);
        open.used += bytes.len();
        open.frames += 1;
        if header.kind == FrameKind::EpochStart {
            let extent = self.extents.back_mut().expect("the open unit lies in it");
            extent.newest_control = Some(self.end);
        } else {
            self.closing_due = true;
        }
    }

    /// Closes the open unit: header, padding, and it waits to be written. `false` when there is none.
    pub(crate) fn close_unit<A: Arena>(&mut self, wall: WallMs, arena: &mut A) -> bool {
        let Some(open) = self.open.take() else { return false };
        let chunk = self.chunks.back_mut().expect("the open unit lies in it");
        let extent = self.extents.back_mut().expect("the open unit lies in it");
        let total = sectors(open.used);
        let header = UnitHeader {
            cluster: self.identity.cluster,
            journal: self.identity.journal,
            position: self.end,
            length: u32::try_from(open.used).expect("a unit is at most 16 MiB"),
            padding: u32::try_from(total - open.used).expect("less than a sector"),
            epoch: self.identity.epoch_to_write(),
            frames: open.frames,
            chain: self.last.1,
            commit: self.commit,
            wall,
            flags: 0,
            key_id: 0,
            body: open.body,
        };
        let bytes = arena.bytes_mut(&chunk.block, open.at..open.at + total);
        bytes[open.used..].fill(0);
        let chain = header.encode(&self.identity.secret, bytes);
        arena.freeze(&chunk.block, open.at + total);
        let before = if open.first_of_extent { SECTOR } else { 0 };
        let offset = extent.offset(self.end) - before as u64;
        let end = self.end.plus(total as u64);
        self.flights.push_back(Flight {
            end,
            stage: Stage::Waiting,
            offset,
            arena_start: chunk.block.start + open.at - before,
            len: total + before,
        });
        self.end = end;
        self.last = (header.epoch, chain);
        chunk.end = end;
        extent.end = end;
        extent.last = self.last;
        true
    }

    /// The tail frame of that number.
    pub(crate) fn frame(&self, number: u64) -> Option<&TailFrame> {
        let index = number.checked_sub(self.frames_first)?;
        self.frames.get(usize::try_from(index).ok()?)
    }

    /// The tail frame of that number.
    pub(crate) fn frame_mut(&mut self, number: u64) -> Option<&mut TailFrame> {
        let index = number.checked_sub(self.frames_first)?;
        self.frames.get_mut(usize::try_from(index).ok()?)
    }

    /// Number of the next tail frame.
    pub(crate) fn frames_end(&self) -> u64 {
        self.frames_first + self.frames.len() as u64
    }

    /// The chunk that holds `position`.
    pub(crate) fn chunk_of(&self, position: Position) -> Option<&Chunk> {
        let after = self.chunks.partition_point(|chunk| chunk.first <= position);
        self.chunks.get(after.checked_sub(1)?).filter(|chunk| position < chunk.end)
    }

    /// Whether the oldest chunk may be dropped: durable, and not the one being filled.
    pub(crate) fn evictable(&self) -> bool {
        // An extent that was begun and has no unit yet has its header in the last chunk.
        let begun = self.extents.back().is_some_and(|extent| extent.end == extent.start.position);
        let filling = self.chunks.len() == 1 && (self.open.is_some() || begun);
        !filling && self.chunks.front().is_some_and(|chunk| chunk.end <= self.commit)
    }

    /// Generations must rise in the order in which extents are begun: a start tells a tail that was cut off by that. Of an
    /// extent that waits for cleaning and one for appends, which are alike, the lower is begun first.
    pub(crate) fn order_spares(&mut self) {
        if let (Some(held_back), Some(spare)) = (&mut self.cleaning_spare, self.spare.front_mut())
            && held_back.generation < spare.generation
        {
            core::mem::swap(held_back, spare);
        }
    }

    /// Bytes at the end of the newest extent that records leave to control frames while no other extent is there: on a full
    /// device deletions, which free it, find room at once, in each journal, and after any number of starts that take some.
    pub(crate) fn control_room(&self) -> usize {
        match self.extents.back() {
            // Only where the next one was asked for.
            Some(extent) if self.spare.is_empty() && extent.is_low() => {
                usize::try_from(extent.address.len / CONTROL_PART).unwrap_or(usize::MAX)
            }
            _ => 0,
        }
    }

    /// Whether control frames find room for a while.
    pub(crate) fn has_control_room(&self) -> bool {
        let part = |extent: &Extent| extent.left() as u64 >= extent.address.len / CONTROL_PART / 2;
        !self.spare.is_empty() || self.cleaning_spare.is_some() || self.extents.back().is_some_and(part)
    }

    /// Whether an extent must be asked for: less than half of one is left and none is spare.
    pub(crate) fn wants_extent(&self, now: Mono) -> bool {
        if self.asked || !self.spare.is_empty() || self.fenced.is_some() {
            return false;
        }
        if self.full_until.is_some_and(|until| now < until) {
            return false;
        }
        match self.extents.back() {
            // An extent that was held back takes no records: they wait for another.
            Some(extent) => extent.for_cleaning || self.roll || extent.is_low(),
            None => true,
        }
    }

    /// Nothing waits and nothing flies.
    pub(crate) fn is_quiet(&self) -> bool {
        let idle = self.flights.is_empty() && self.open.as_ref().is_none_or(|open| open.frames == 0);
        (idle || self.fenced.is_some())
            && self.extents.iter().all(|extent| extent.footer_flies.is_none())
            && self.clustering.is_quiet()
    }
}
