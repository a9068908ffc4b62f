//! Windows of units read back from the device, and footers of closed extents, each in a budget of its own.
//!
//! A window holds whole units, about 1 MiB of them, and is shared by all readers that come to it: a load ends where a window
//! that is there begins, so that readers of one range meet on the same boundaries. Payloads are verified once, when the
//! window arrives. Reads that wait for a window or a footer are told when to try again; nothing of this holds memory that
//! producers need.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use base::memory::{Arena, Block, Purpose};
use base::{Epoch, Offset, PartitionId, Position};

use crate::format::{FooterView, FrameHeader, FrameKind, SECTOR, UnitError, UnitPlace, UnitView};
use crate::index::SortedIndex;
use crate::journal::{Index, Journal};
use crate::partition::Partitions;
use crate::store::{Effect, Op, Store};

/// Bytes of a window.
pub(crate) const WINDOW_BYTES: usize = 1 << 20;

/// A record frame in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColdFrame {
    pub(crate) partition: PartitionId,
    pub(crate) base: Offset,
    pub(crate) last: Offset,
    /// Payload bytes in the block.
    pub(crate) at: u32,
    pub(crate) len: u32,
    /// The payload's checksum holds.
    pub(crate) intact: bool,
    /// Compaction left no record of it.
    pub(crate) empty: bool,
}

/// A stretch of a journal in memory, or on its way.
#[derive(Debug)]
pub(crate) struct Window {
    journal: u16,
    pub(crate) start: Position,
    /// End of the last whole unit; of what is asked for while it loads.
    pub(crate) end: Position,
    /// `None` while the device has it.
    block: Option<Block>,
    /// Of the extent it was asked for from.
    generation: u64,
    serial: u64,
    used: u64,
    /// By partition, then offset.
    frames: Vec<ColdFrame>,
    waiters: Vec<PartitionId>,
}

#[derive(Debug)]
struct CachedFooter {
    journal: u16,
    start: Position,
    used: u64,
    index: SortedIndex,
}

#[derive(Debug)]
struct FooterLoad {
    journal: u16,
    start: Position,
    /// Of the extent it was asked for from.
    generation: u64,
    serial: u64,
    waiters: Vec<PartitionId>,
}

/// What was read back.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    windows: Vec<Window>,
    footers: Vec<CachedFooter>,
    footer_bytes: usize,
    loads: Vec<FooterLoad>,
    /// Readers that found no memory for a window: told to try again when something was freed.
    starved: Vec<PartitionId>,
    clock: u64,
    serial: u64,
}

/// How much to read.
#[derive(Clone, Copy, Debug)]
enum Size {
    /// A window, up to where one begins that is there; of a clustered extent no further than that.
    Window(Position),
    /// One unit of that many bytes, which is longer than a window.
    Unit(usize),
}

/// Where to look for a window.
pub(crate) enum Lookup {
    /// Number of a window that is there.
    Ready(usize),
    /// It comes; the partition will be told.
    Pending,
}

impl Cold {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A closed extent's index, if it is cached.
    pub(crate) fn footer(&mut self, journal: u16, start: Position) -> Option<&SortedIndex> {
        let used = self.tick();
        let cached = self.footers.iter_mut().find(|cached| (cached.journal, cached.start) == (journal, start))?;
        cached.used = used;
        Some(&cached.index)
    }

    /// As [`Cold::footer`], without counting as a use.
    pub(crate) fn peek_footer(&self, journal: u16, start: Position) -> Option<&SortedIndex> {
        let cached = self.footers.iter().find(|cached| (cached.journal, cached.start) == (journal, start))?;
        Some(&cached.index)
    }

    /// Caches a closed extent's index; those used longest ago go.
    pub(crate) fn add_footer(&mut self, journal: u16, start: Position, index: SortedIndex, bytes_max: usize) {
        let used = self.tick();
        self.footer_bytes += index.bytes();
        self.footers.push(CachedFooter { journal, start, used, index });
        while self.footer_bytes > bytes_max && self.footers.len() > 1 {
            let oldest = (0..self.footers.len()).min_by_key(|&at| self.footers[at].used).expect("not empty");
            self.footer_bytes -= self.footers.swap_remove(oldest).index.bytes();
        }
    }

    /// Forgets what is known of an extent that is freed.
    pub(crate) fn forget<A: Arena>(&mut self, journal: u16, from: Position, to: Position, arena: &mut A) {
        if let Some(at) = self.footers.iter().position(|cached| (cached.journal, cached.start) == (journal, from)) {
            self.footer_bytes -= self.footers.swap_remove(at).index.bytes();
        }
        let mut at = 0;
        while let Some(window) = self.windows.get_mut(at) {
            let inside = window.journal == journal && window.start >= from && window.start < to;
            match (inside, window.block.take()) {
                (true, Some(block)) => {
                    arena.free(block);
                    self.windows.swap_remove(at);
                }
                (_, block) => {
                    window.block = block;
                    at += 1;
                }
            }
        }
    }

    /// Whether nothing flies.
    pub(crate) fn is_quiet(&self) -> bool {
        self.loads.is_empty() && self.windows.iter().all(|window| window.block.is_some())
    }

    /// The window of that number, which is there.
    pub(crate) fn window(&self, at: usize) -> (&Block, &Window) {
        let window = &self.windows[at];
        (window.block.as_ref().expect("the window is there"), window)
    }

    /// Tells readers that found no memory to try again.
    pub(crate) fn wake_starved(&mut self, out: &mut Vec<Effect>) {
        out.extend(self.starved.drain(..).map(|partition| Effect::ReadReady { partition }));
    }

    pub(crate) fn free_one<A: Arena>(&mut self, arena: &mut A) -> bool {
        let there = (0..self.windows.len()).filter(|&at| self.windows[at].block.is_some());
        let Some(oldest) = there.min_by_key(|&at| self.windows[at].used) else { return false };
        arena.free(self.windows.swap_remove(oldest).block.expect("the window is there"));
        true
    }
}

impl Window {
    /// The partition's frames in it from the one that ends at or after `offset` on.
    pub(crate) fn frames_from(&self, partition: PartitionId, offset: Offset) -> &[ColdFrame] {
        let from = self.frames.partition_point(|frame| (frame.partition, frame.last) < (partition, offset));
        let len = self.frames[from..].partition_point(|frame| frame.partition == partition);
        &self.frames[from..from + len]
    }
}

impl<A: Arena> Store<A> {
    /// The window that holds the first of some committed positions of an extent, asking for it if it is not there: of a
    /// clustered extent no more than those, since what comes behind them is of another partition.
    pub(crate) fn window_at(
        &mut self,
        slot: u16,
        extent: usize,
        positions: Range<Position>,
        partition: PartitionId,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) -> Lookup {
        let used = self.cold.tick();
        let Range { start: position, end: until } = positions;
        let holds = |window: &Window| window.journal == slot && window.start <= position && position < window.end;
        if let Some(at) = self.cold.windows.iter().position(holds) {
            let window = &mut self.cold.windows[at];
            if window.block.is_some() {
                window.used = used;
                return Lookup::Ready(at);
            }
            wait(&mut window.waiters, partition);
            return Lookup::Pending;
        }
        if !self.load_window(slot, extent, position, Size::Window(until), true, arena, out) {
            wait(&mut self.cold.starved, partition);
        } else if let Some(window) = self.cold.windows.last_mut() {
            wait(&mut window.waiters, partition);
        }
        Lookup::Pending
    }

    /// Reads a window ahead of a sequential reader, if that costs nobody anything.
    pub(crate) fn read_ahead(
        &mut self,
        slot: u16,
        extent: usize,
        position: Position,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) {
        let journal = &self.journals[usize::from(slot)];
        let (extent, position) = match journal.extents.get(extent) {
            // Behind a run of a clustered extent lies another partition.
            Some(here) if here.clustered.is_some() => return,
            Some(here) if position < here.end => (extent, position),
            Some(_) if extent + 1 < journal.extents.len() => (extent + 1, journal.extents[extent + 1].start.position),
            _ => return,
        };
        // What the tail holds is not read from the device.
        if position >= journal.commit || journal.chunks.front().is_some_and(|chunk| chunk.first <= position) {
            return;
        }
        let holds = |window: &Window| window.journal == slot && window.start <= position && position < window.end;
        if self.cold.windows.iter().any(holds) || arena.available(Purpose::Cold) < 2 * WINDOW_BYTES {
            return;
        }
        self.load_window(slot, extent, position, Size::Window(Position(u64::MAX)), false, arena, out);
    }

    #[expect(clippy::too_many_arguments, reason = "the one place that submits reads of units")]
    fn load_window(
        &mut self,
        slot: u16,
        extent: usize,
        position: Position,
        size: Size,
        may_evict: bool,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) -> bool {
        let journal = &self.journals[usize::from(slot)];
        let extent = &journal.extents[extent];
        let mut end = extent.end.min(journal.commit);
        match size {
            Size::Unit(bytes) => end = end.min(position.plus(bytes as u64)),
            Size::Window(until) => {
                end = end.min(position.plus(WINDOW_BYTES as u64));
                if extent.clustered.is_some() {
                    end = end.min(until);
                }
                for window in self.cold.windows.iter().filter(|window| window.journal == slot) {
                    if window.start > position {
                        end = end.min(window.start);
                    }
                }
            }
        }
        let len = usize::try_from(end.0 - position.0).expect("a window is shorter than memory");
        assert!(len > 0 && len.is_multiple_of(SECTOR), "a committed position inside its extent");
        let block = loop {
            match arena.alloc(len, Purpose::Cold) {
                Some(block) => break block,
                None if may_evict && self.cold.free_one(arena) => {}
                None => return false,
            }
        };
        self.cold.serial += 1;
        let (serial, used) = (self.cold.serial, self.cold.tick());
        out.push(Effect::Read {
            token: Op::Window(slot, serial).token(),
            device: journal.device,
            offset: extent.offset(position),
            block,
            len,
        });
        self.cold.windows.push(Window {
            journal: slot,
            start: position,
            end,
            block: None,
            generation: extent.address.generation,
            serial,
            used,
            frames: Vec::new(),
            waiters: Vec::new(),
        });
        true
    }

    /// The index of a closed extent whose footer is on the device: from the cache, or asked for.
    pub(crate) fn ask_for_footer(
        &mut self,
        slot: u16,
        extent: usize,
        partition: Option<PartitionId>,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) {
        let journal = &self.journals[usize::from(slot)];
        let extent = &journal.extents[extent];
        let start = extent.start.position;
        if let Some(load) = self.cold.loads.iter_mut().find(|load| (load.journal, load.start) == (slot, start)) {
            partition.into_iter().for_each(|partition| wait(&mut load.waiters, partition));
            return;
        }
        let Index::Footer(len) = extent.index else { return };
        let len = len as usize;
        let block = loop {
            match arena.alloc(len, Purpose::Cold) {
                Some(block) => break block,
                None if self.cold.free_one(arena) => {}
                None => {
                    partition.into_iter().for_each(|partition| wait(&mut self.cold.starved, partition));
                    return;
                }
            }
        };
        self.cold.serial += 1;
        let serial = self.cold.serial;
        out.push(Effect::Read {
            token: Op::Footer(slot, serial).token(),
            device: journal.device,
            offset: extent.address.offset + extent.address.len - len as u64,
            block,
            len,
        });
        let generation = extent.address.generation;
        let waiters = partition.into_iter().collect();
        self.cold.loads.push(FooterLoad { journal: slot, start, generation, serial, waiters });
    }

    /// A footer is there, or cannot be read: then the extent is searched without it.
    pub(crate) fn footer_read(
        &mut self,
        slot: u16,
        serial: u64,
        block: Block,
        result: Result<(), String>,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) {
        let at = self.cold.loads.iter().position(|load| load.serial == serial).expect("it was asked for");
        let load = self.cold.loads.swap_remove(at);
        let journal = &mut self.journals[usize::from(slot)];
        if let Some(extent) = journal.extents.iter_mut().find(|extent| extent.start.position == load.start)
            && extent.address.generation == load.generation
            && let Index::Footer(len) = extent.index
        {
            let bytes = arena.bytes(&block, 0..len as usize);
            let footer = if result.is_ok() { FooterView::check(bytes, &self.config.sums).ok() } else { None };
            let fits =
                |footer: &FooterView<'_>| (footer.generation, footer.start) == (extent.address.generation, load.start);
            match footer.filter(fits) {
                Some(footer) => {
                    let index = SortedIndex::of_footer(&footer);
                    self.cold.add_footer(slot, load.start, index, self.config.footer_cache_bytes);
                }
                None => extent.index = Index::Missing,
            }
        }
        arena.free(block);
        out.extend(load.waiters.into_iter().map(|partition| Effect::ReadReady { partition }));
        self.cold.wake_starved(out);
    }

    /// A window is there: its units are checked, and its readers told.
    pub(crate) fn window_read(
        &mut self,
        slot: u16,
        serial: u64,
        block: Block,
        result: Result<(), String>,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) {
        let at = self.cold.windows.iter().position(|window| window.serial == serial).expect("it was asked for");
        let window = &mut self.cold.windows[at];
        let waiters = core::mem::take(&mut window.waiters);
        let journal = &self.journals[usize::from(slot)];
        let (start, end, generation) = (window.start, window.end, window.generation);
        let extent = journal.extents.iter().position(|extent| {
            extent.address.generation == generation && extent.start.position <= start && start < extent.end
        });
        if let (Ok(()), Some(extent)) = (&result, extent) {
            let len = usize::try_from(end.0 - start.0).expect("a window is shorter than memory");
            let most = journal.extents[extent].end.min(journal.commit);
            let most = usize::try_from(most.0 - start.0).expect("an extent is shorter than memory");
            let (clustered, begun) = (journal.extents[extent].clustered.is_some(), journal.extents[extent].start.epoch);
            let bytes = arena.bytes(&block, 0..len);
            let from = Source { journal, partitions: &self.partitions, clustered, begun };
            let (frames, parsed) = parse(&from, start, bytes, most, &self.config.sums);
            match parsed {
                Parsed::Upto(upto) => {
                    arena.freeze(&block, block.len);
                    let window = &mut self.cold.windows[at];
                    window.end = upto;
                    window.frames = frames;
                    window.block = Some(block);
                }
                Parsed::Longer(need) => {
                    self.cold.windows.swap_remove(at);
                    arena.free(block);
                    if self.load_window(slot, extent, start, Size::Unit(need), true, arena, out)
                        && let Some(window) = self.cold.windows.last_mut()
                    {
                        window.waiters = waiters;
                        return;
                    }
                }
            }
        } else {
            // Freed meanwhile, or unreadable: readers come again, and find the log start or an error that lasts.
            self.cold.windows.swap_remove(at);
            arena.free(block);
            if result.is_err() {
                self.cold_errors.extend(waiters.iter().copied());
            }
        }
        out.extend(waiters.into_iter().map(|partition| Effect::ReadReady { partition }));
        self.cold.wake_starved(out);
    }
}

fn wait(waiters: &mut Vec<PartitionId>, partition: PartitionId) {
    // Read-ahead waits for nobody: partition ids begin at 1, but any id may wait.
    if !waiters.contains(&partition) {
        waiters.push(partition);
    }
}

enum Parsed {
    /// Whole units, or damage, up to there.
    Upto(Position),
    /// The first unit takes that many bytes.
    Longer(usize),
}

/// Whose units are read.
struct Source<'a> {
    journal: &'a Journal,
    partitions: &'a Partitions,
    clustered: bool,
    /// Epoch in which the extent was begun.
    begun: Epoch,
}

/// Checks the units in `bytes`, which lie at `start`, and lists their record frames, but those of a life that was cut off: they
/// may lie where the device never made a write that it had reported. `most` bytes from there on may hold units.
fn parse(
    from: &Source<'_>,
    start: Position,
    bytes: &[u8],
    most: usize,
    sums: &base::Checksums,
) -> (Vec<ColdFrame>, Parsed) {
    let Source { journal, partitions, clustered, begun } = *from;
    let identity = &journal.identity;
    let mut frames = Vec::new();
    // The highest epoch so far; and of the unit before: how many frames stood before its own, its epoch and checksum.
    let (mut highest, mut before) = (begun, None);
    let mut at = 0;
    while at < bytes.len() {
        let (begin, position) = (at, start.plus(at as u64));
        let place = UnitPlace { cluster: identity.cluster, journal: identity.journal, position, clustered };
        match UnitView::check(&bytes[at..], &identity.secret, sums, &place) {
            Ok(view) => {
                let header = view.header();
                // Where a later life follows another unit than the one before, that one is what it had cut off.
                if let Some((kept, epoch, chain)) = before.take()
                    && header.epoch > epoch
                    && header.chain != chain
                {
                    frames.truncate(kept);
                }
                at += header.bytes();
                if header.epoch < highest && !cfg!(fault = "no-epoch-in-units") {
                    continue;
                }
                highest = header.epoch;
                before = Some((frames.len(), header.epoch, view.chain()));
                let lives = |header: &FrameHeader| header.kind == FrameKind::Records && !partitions.outdate(header);
                for frame in view.frames().filter(|frame| lives(&frame.header)) {
                    let payload = begin + frame.at + FrameHeader::BYTES;
                    frames.push(ColdFrame {
                        partition: frame.header.partition,
                        base: frame.header.base_offset,
                        last: frame.header.last_offset(),
                        at: u32::try_from(payload).expect("a window is shorter than 4 GiB"),
                        len: frame.header.length,
                        intact: frame.is_intact(sums),
                        empty: frame.header.records == 0,
                    });
                }
            }
            Err(UnitError::Short { need }) if at == 0 && bytes.len() < need && need <= most => {
                return (frames, Parsed::Longer(need));
            }
            Err(UnitError::Short { need }) if at > 0 && at + need <= most => break,
            Err(error) => {
                before = None;
                // Damage: what comes next begins at some sector.
                at += match error {
                    UnitError::Torn { header } => header.bytes().min(bytes.len() - at),
                    _ => SECTOR,
                };
            }
        }
    }
    frames.sort_unstable_by_key(|frame| (frame.partition, frame.base));
    (frames, Parsed::Upto(start.plus(at as u64)))
}
