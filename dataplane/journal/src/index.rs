//! Where a partition's records lie: runs of frames inside an extent, and fences that say which extents to look into.
//!
//! A run stands for at least 64 KiB of the journal, not for a frame, so an index stays a small part of its extent. Memory
//! of a partition does not grow with what it retains: fences are thinned, footers of closed extents are cached in a budget.

use alloc::vec::Vec;

use base::{Epoch, Offset, PartitionId, Position, WallMs};

use crate::format::{Footer, FooterEntry, FooterView, Run, SECTOR};

/// A run takes frames until they lie this far behind its first one: a reader walks at most this much to find a frame.
pub(crate) const RUN_BYTES: u64 = 64 << 10;

/// A run also ends after this time, so that expiry by time is this fine for partitions with few records.
pub(crate) const RUN_MS: i64 = 10_000;

/// The place of a partition's newest run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunRef {
    /// Start of the extent whose open index holds it.
    pub(crate) extent: Position,
    pub(crate) slot: u32,
    /// When the run was begun.
    pub(crate) begun: WallMs,
}

impl RunRef {
    /// No run yet: an extent start that no extent has.
    pub(crate) const NONE: Self = Self { extent: Position(u64::MAX), slot: 0, begun: WallMs(0) };
}

/// A record batch as the index sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) partition: PartitionId,
    pub(crate) first: Offset,
    pub(crate) last: Offset,
    /// Of the unit.
    pub(crate) unit: Position,
    /// Where the frame ends.
    pub(crate) end: Position,
    pub(crate) bytes: u32,
    pub(crate) max_timestamp: WallMs,
    pub(crate) epoch: Epoch,
}

#[derive(Clone, Copy, Debug)]
struct Linked {
    partition: PartitionId,
    run: Run,
    /// Unit of the newest frame.
    newest: Position,
    before: u32,
}

/// The index of the extent being written: runs in the order they were begun, linked per partition.
#[derive(Debug, Default)]
pub(crate) struct OpenIndex {
    runs: Vec<Linked>,
    /// Control frames of partitions: (partition, unit).
    controls: Vec<(PartitionId, Position)>,
    /// Partitions that have runs.
    partitions: usize,
}

const NO_RUN: u32 = u32::MAX;

impl OpenIndex {
    /// Bytes of a footer that also has room for one more frame of a partition that is not here yet.
    pub(crate) fn footer_bytes(&self) -> usize {
        Footer::bytes(self.partitions + self.controls.len() + 1, self.runs.len() + 1)
    }

    /// Adds a frame; `newest` is the partition's newest run and is moved on. Returns whether it is the partition's first
    /// batch in this extent.
    pub(crate) fn add(&mut self, extent: Position, newest: &mut RunRef, entry: Entry, now: WallMs) -> bool {
        let here = newest.extent == extent;
        let span_to = |from: Position| -> u32 {
            let span = (entry.end.0 - from.0).next_multiple_of(SECTOR as u64);
            u32::try_from(span).expect("a run spans 64 KiB and one unit at most")
        };
        if here {
            let Linked { run, newest: unit, .. } = &mut self.runs[newest.slot as usize];
            // Folded again after a checkpoint whose index was written a little later than its partitions.
            if entry.last <= run.last {
                return false;
            }
            // A gap in the offsets begins a run, so that a run's offsets are dense.
            if entry.unit.0 - run.position.0 < RUN_BYTES
                && now.0 - newest.begun.0 < RUN_MS
                && entry.first.0 == run.last.0 + 1
                && entry.epoch == run.epoch
            {
                run.last = entry.last;
                run.span = span_to(run.position);
                run.bytes += entry.bytes;
                run.frames += 1;
                run.max_timestamp = run.max_timestamp.max(entry.max_timestamp);
                *unit = entry.unit;
                return false;
            }
        }
        let slot = u32::try_from(self.runs.len()).expect("an extent holds fewer than 2^32 frames");
        let run = Run {
            first: entry.first,
            last: entry.last,
            position: entry.unit,
            span: span_to(entry.unit),
            bytes: entry.bytes,
            max_timestamp: entry.max_timestamp,
            epoch: entry.epoch,
            frames: 1,
        };
        let before = if here { newest.slot } else { NO_RUN };
        self.runs.push(Linked { partition: entry.partition, run, newest: entry.unit, before });
        self.partitions += usize::from(!here);
        *newest = RunRef { extent, slot, begun: now };
        !here
    }

    /// Notes a control frame of a partition.
    pub(crate) fn add_control(&mut self, partition: PartitionId, unit: Position) {
        match self.controls.last_mut() {
            Some((last, newest)) if *last == partition => *newest = unit,
            _ => self.controls.push((partition, unit)),
        }
    }

    /// Puts back runs of one partition as a checkpoint holds them, in order.
    pub(crate) fn restore(&mut self, extent: Position, entry: &FooterEntry) -> RunRef {
        let mut newest = RunRef::NONE;
        for run in &entry.runs {
            let slot = u32::try_from(self.runs.len()).expect("an extent holds fewer than 2^32 frames");
            let before = if newest.extent == extent { newest.slot } else { NO_RUN };
            self.runs.push(Linked { partition: entry.partition, run: *run, newest: run.position, before });
            newest = RunRef { extent, slot, begun: WallMs(i64::MIN / 2) };
        }
        self.partitions += usize::from(!entry.runs.is_empty());
        if newest == RunRef::NONE || entry.runs.last().is_some_and(|run| run.position < entry.newest) {
            self.add_control(entry.partition, entry.newest);
        }
        newest
    }

    /// The partition's runs from the newest back.
    pub(crate) fn backward(&self, newest: u32) -> impl Iterator<Item = &Run> {
        self.backward_numbered(newest).map(|(_, run)| run)
    }

    /// The partition's runs from the newest back, each with its number in the extent.
    pub(crate) fn backward_numbered(&self, newest: u32) -> impl Iterator<Item = (u32, &Run)> {
        let mut next = newest;
        core::iter::from_fn(move || {
            let number = next;
            let linked = self.runs.get(number as usize)?;
            next = linked.before;
            Some((number, &linked.run))
        })
    }

    /// All runs, each with its partition, in the order in which they began.
    pub(crate) fn all(&self) -> impl Iterator<Item = (PartitionId, &Run)> {
        self.runs.iter().map(|linked| (linked.partition, &linked.run))
    }

    /// How many runs there are.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.runs.len()).expect("an extent holds fewer than 2^32 frames")
    }

    /// Partitions with control frames, and the unit of each one's newest.
    pub(crate) fn controls(&self) -> impl Iterator<Item = (PartitionId, Position)> {
        self.controls.iter().copied()
    }

    /// The first run of the partition that ends at or after `offset`.
    pub(crate) fn find(&self, newest: u32, offset: Offset) -> Option<&Run> {
        self.backward(newest).take_while(|run| run.last >= offset).last()
    }

    /// All runs by partition, then offset, as a footer holds them.
    pub(crate) fn sorted(&self) -> SortedIndex {
        let mut order: Vec<(PartitionId, Position, Option<u32>)> = Vec::with_capacity(self.runs.len());
        for (slot, linked) in self.runs.iter().enumerate() {
            let slot = u32::try_from(slot).expect("numbered by u32 when added");
            order.push((linked.partition, linked.newest, Some(slot)));
        }
        order.extend(self.controls.iter().map(|&(partition, unit)| (partition, unit, None)));
        // Slots rise with offsets; control frames come first in their partition.
        order.sort_unstable_by_key(|&(partition, _, slot)| (partition, slot));
        let mut sorted = SortedIndex::default();
        for (partition, newest, slot) in order {
            sorted.push(partition, newest, slot.map(|slot| self.runs[slot as usize].run));
        }
        sorted
    }
}

/// A partition in a closed extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) partition: PartitionId,
    /// Unit of its newest frame here, control frames included.
    pub(crate) newest: Position,
    first: u32,
    count: u32,
}

/// The index of a closed extent: runs by partition, then offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SortedIndex {
    places: Vec<Place>,
    runs: Vec<Run>,
}

impl SortedIndex {
    /// From a footer.
    pub(crate) fn of_footer(footer: &FooterView<'_>) -> Self {
        let mut sorted = Self::default();
        for entry in footer.entries() {
            if entry.run_count() == 0 {
                sorted.push(entry.partition, entry.newest, None);
            }
            for run in entry.runs() {
                sorted.push(entry.partition, entry.newest, Some(run));
            }
        }
        sorted
    }

    /// As a footer's entries.
    pub(crate) fn entries(&self) -> Vec<FooterEntry> {
        let entry = |place: &Place| FooterEntry {
            partition: place.partition,
            newest: place.newest,
            runs: self.runs_of(place).to_vec(),
        };
        self.places.iter().map(entry).collect()
    }

    fn push(&mut self, partition: PartitionId, newest: Position, run: Option<Run>) {
        let first = u32::try_from(self.runs.len()).expect("an extent holds fewer than 2^32 frames");
        match self.places.last_mut() {
            Some(place) if place.partition == partition => place.newest = place.newest.max(newest),
            _ => self.places.push(Place { partition, newest, first, count: 0 }),
        }
        if let Some(run) = run {
            self.runs.push(run);
            self.places.last_mut().expect("pushed above").count += 1;
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.len() * size_of::<Run>() + self.places.len() * size_of::<Place>()
    }

    /// The partitions, rising.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// A partition's runs in offset order.
    pub(crate) fn runs_of(&self, place: &Place) -> &[Run] {
        &self.runs[place.first as usize..(place.first + place.count) as usize]
    }

    /// The partition's runs in offset order.
    pub(crate) fn of(&self, partition: PartitionId) -> &[Run] {
        match self.places.binary_search_by_key(&partition, |place| place.partition) {
            Ok(at) => self.runs_of(&self.places[at]),
            Err(_) => &[],
        }
    }

    /// The first run of the partition that ends at or after `offset`.
    pub(crate) fn find(&self, partition: PartitionId, offset: Offset) -> Option<&Run> {
        let runs = self.of(partition);
        runs.get(runs.partition_point(|run| run.last < offset))
    }
}

/// Fences of one partition: 8 × 16 bytes whatever it retains.
pub(crate) const FENCES: usize = 8;

/// From `first` on the partition's records lie in the extent that starts at `extent`, or in later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) first: Offset,
    pub(crate) extent: Position,
}

/// Says where to begin looking for an offset. Exact while a partition has records in at most [`FENCES`] extents; then every
/// other fence goes, and a search reads more footers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences(Vec<Fence>);

impl Fences {
    /// Sets a fence behind all others.
    pub(crate) fn push(&mut self, fence: Fence) {
        // A checkpoint's fence may stand for the open extent already.
        if self.0.last().is_some_and(|last| last.extent >= fence.extent) {
            return;
        }
        // Records below the log start, folded again, are not looked for.
        let fence = Fence { first: self.0.last().map_or(fence.first, |last| last.first.max(fence.first)), ..fence };
        if self.0.len() == FENCES {
            // Every other one from the second on goes; what it stood for falls to the one before.
            let mut number = 0;
            self.0.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        self.0.reserve_exact(if self.0.is_empty() { 1 } else { FENCES - self.0.len() });
        self.0.push(fence);
    }

    /// Takes in a fence between others that a search found, if there is room.
    pub(crate) fn learn(&mut self, fence: Fence) {
        let at = self.0.partition_point(|known| known.first < fence.first);
        let fits = self.0.get(at).is_none_or(|next| next.first > fence.first && next.extent > fence.extent)
            && at.checked_sub(1).is_none_or(|before| self.0[before].extent < fence.extent);
        if fits && self.0.len() < FENCES {
            self.0.reserve_exact(FENCES - self.0.len());
            self.0.insert(at, fence);
        }
    }

    /// Start of the extent from which on `offset` may lie.
    pub(crate) fn find(&self, offset: Offset) -> Option<Position> {
        let after = self.0.partition_point(|fence| fence.first <= offset);
        self.0.get(after.saturating_sub(1)).map(|fence| fence.extent)
    }

    /// Drops fences that stand only for what lies below `start`.
    pub(crate) fn trim(&mut self, start: Offset) {
        let below = self.0.partition_point(|fence| fence.first <= start).saturating_sub(1);
        self.0.drain(..below);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_sign_loss, reason = "tests")]
    use super::*;

    fn entry(partition: u64, first: i64, position: u64) -> Entry {
        Entry {
            partition: PartitionId(partition),
            first: Offset(first),
            last: Offset(first + 9),
            unit: Position(position),
            end: Position(position + 900),
            bytes: 1000,
            max_timestamp: WallMs(first),
            epoch: Epoch(1),
        }
    }

    #[test]
    fn runs_are_found_by_offset_open_and_sorted() {
        let (mut a, mut b) = (RunRef::NONE, RunRef::NONE);
        let mut open = OpenIndex::default();
        let extent = Position(4096);
        for i in 0..20 {
            let at = 4096 + i as u64 * 20_000;
            assert_eq!(open.add(extent, &mut a, entry(1, i * 10, at), WallMs(0)), i == 0);
            assert_eq!(open.add(extent, &mut b, entry(2, i * 10, at + 10_000), WallMs(0)), i == 0);
        }
        open.add_control(PartitionId(3), Position(77));
        open.add_control(PartitionId(1), Position(99));
        // Four frames of 20,000 bytes lie within 64 KiB of the first.
        assert_eq!(open.runs.len(), 10);
        for offset in 0..200 {
            let run = *open.find(a.slot, Offset(offset)).expect("within");
            assert!(run.first.0 <= offset && offset <= run.last.0, "{offset} {run:?}");
            assert_eq!((run.bytes, run.frames, run.max_timestamp), (4000, 4, WallMs(run.last.0 - 9)));
            assert_eq!(run.span, 61_440, "three frames on and 900 bytes, in whole sectors");
        }
        assert_eq!(open.find(a.slot, Offset(200)), None);
        let sorted = open.sorted();
        for offset in 0..200 {
            let run = sorted.of(PartitionId(2)).iter().find(|run| run.last.0 >= offset).expect("within");
            assert!(run.first.0 <= offset && offset <= run.last.0);
        }
        assert_eq!(sorted.of(PartitionId(3)), &[]);
        let places: Vec<_> = sorted.places().iter().map(|place| (place.partition.0, place.newest.0)).collect();
        assert_eq!(places, [(1, 4096 + 380_000), (2, 4096 + 390_000), (3, 77)]);
        assert_eq!(sorted.entries().len(), 3);
        assert!(Footer::bytes(3, 10) <= open.footer_bytes());
    }

    #[test]
    fn time_and_gaps_begin_new_runs() {
        let mut newest = RunRef::NONE;
        let mut open = OpenIndex::default();
        open.add(Position(0), &mut newest, entry(1, 0, 0), WallMs(0));
        open.add(Position(0), &mut newest, entry(1, 10, 100), WallMs(RUN_MS - 1));
        assert_eq!(open.runs.len(), 1);
        open.add(Position(0), &mut newest, entry(1, 20, 200), WallMs(RUN_MS));
        assert_eq!(open.runs.len(), 2, "time");
        open.add(Position(0), &mut newest, entry(1, 40, 300), WallMs(RUN_MS));
        assert_eq!(open.runs.len(), 3, "a gap");
        assert_eq!(open.find(newest.slot, Offset(35)).map(|run| run.first), Some(Offset(40)));
        assert!(open.add(Position(500), &mut newest, entry(1, 50, 600), WallMs(RUN_MS)), "first in its extent");
    }

    #[test]
    fn fences_stay_few_and_never_point_behind_an_offset() {
        let mut fences = Fences::default();
        for i in 0..1000u64 {
            let first = i64::try_from(i).expect("small") * 10;
            fences.push(Fence { first: Offset(first), extent: Position(i * 100) });
            assert!(fences.0.len() <= FENCES && fences.0.capacity() <= FENCES);
        }
        for offset in 0..10_000 {
            let extent = fences.find(Offset(offset)).expect("covered");
            assert!(extent.0 / 100 * 10 <= offset as u64, "an offset lies at or after its fence");
        }
        fences.trim(Offset(9_990));
        assert_eq!(fences.0.len(), 1);
        assert_eq!(fences.find(Offset(9_995)), Some(Position(99_900)));
    }
}
