//! Reads of committed batches: from the tail's memory at once, else through cold windows.

use alloc::vec::Vec;
use core::ops::Range;

use base::memory::{Arena, Block};
use base::{Offset, PartitionId, Position};

use crate::cold::{Cold, ColdFrame, Lookup, WINDOW_BYTES};
use crate::format::{FrameHeader, Run};
use crate::index::Fence;
use crate::journal::{Index, Journal};
use crate::partition::{NO_FRAME, Partition, Standing};
use crate::store::{Effect, ReadOutcome, Store};

/// Frames to walk from a remembered one before the index is asked.
const HOPS: usize = 8;

/// Searches by offset remembered while footers are read for them.
const LOOKUPS: usize = 256;

/// How far a search by offset has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    id: PartitionId,
    from: Offset,
    /// Start of the extent whose footer it waits for.
    next: Position,
}

impl Progress {
    /// A stretch of the journal was clustered: what was looked through of it is looked through again.
    pub(crate) fn clustered(&mut self, from: Position, upto: Position) {
        if self.next > from && self.next < upto {
            self.next = from;
        }
    }
}

/// Where the index says to look.
enum Found {
    /// In an extent (by number), between those positions; in a run with those offsets, where there is an index.
    Run { extent: usize, position: Position, until: Position, offsets: Option<(Offset, Offset)> },
    /// Nowhere: no record at or after the offset is known.
    Nothing,
    /// An index must be read first.
    Pending,
}

/// What a look at the runs of one extent brought.
pub(crate) enum Runs {
    Found(Run),
    None,
    /// There is no index: every unit must be looked at.
    Unknown,
    Pending,
}

impl<A: Arena> Store<A> {
    #[expect(clippy::too_many_arguments, reason = "as read")]
    pub(crate) fn read_from(
        &mut self,
        id: PartitionId,
        from: Offset,
        bytes_max: usize,
        at_least_one: bool,
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> ReadOutcome {
        let number = match self.home_of_read(id, from) {
            Ok(number) => number,
            Err(outcome) => return outcome,
        };
        let partition = self.partitions.at_mut(number).expect("the table names it");
        let slot = partition.journal;
        let journal = &self.journals[usize::from(slot)];
        if journal.closed {
            return ReadOutcome::Fenced;
        }
        if from < partition.log_start || from > partition.log_end {
            return ReadOutcome::OutOfRange;
        }
        let upto = partition.readable_to(from).unwrap_or_default();
        if from >= upto {
            return ReadOutcome::Empty;
        }
        if let Some(number) = find_in_tail(journal, slot, &self.cold, partition, from)
            && journal.frame(number).is_some_and(|frame| frame.base < upto)
        {
            return read_tail(journal, partition, number, upto, bytes_max, at_least_one, arena, slices);
        }
        let limit = Limit { bytes_max, at_least_one, one: false };
        let outcome = self.read_cold(slot, id, from..upto, limit, arena, slices, out);
        if let ReadOutcome::Damaged { first, next } = outcome {
            self.note_damage(id, first, next, out);
        }
        outcome
    }

    /// The slot of the partition in the journal that holds an offset; else what a read of it is to say.
    pub(crate) fn home_of_read(&self, id: PartitionId, from: Offset) -> Result<u32, ReadOutcome> {
        let known = self.partitions.get(id);
        let Some(first) = known.filter(|partition| partition.config.is_some()) else {
            let enters = known.is_some_and(|partition| matches!(partition.standing, Standing::Entering { .. }));
            let moved = enters || self.departed.contains(&id);
            return Err(if moved { ReadOutcome::Moved } else { ReadOutcome::UnknownPartition });
        };
        match self.partitions.holding(id, from) {
            Some(number) => Ok(number),
            None if first.is_at_home() && from < first.log_start => Err(ReadOutcome::OutOfRange),
            None => Err(ReadOutcome::Moved),
        }
    }

    /// Reads through windows.
    #[expect(clippy::too_many_arguments, reason = "as read")]
    fn read_cold(
        &mut self,
        slot: u16,
        id: PartitionId,
        Range { start: from, end: upto }: Range<Offset>,
        limit: Limit,
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> ReadOutcome {
        if let Some(at) = self.cold_errors.iter().position(|partition| *partition == id) {
            self.cold_errors.swap_remove(at);
            return ReadOutcome::Fenced;
        }
        let mut wanted = from;
        let mut skip = 0;
        loop {
            let (extent, position, until, offsets) = match self.find_run(slot, id, wanted, skip, arena, out) {
                Found::Run { extent, position, until, offsets } => (extent, position, until, offsets),
                Found::Pending => return ReadOutcome::Pending,
                Found::Nothing => return ReadOutcome::Damaged { first: from, next: upto },
            };
            if offsets.is_some_and(|(first, _)| first >= upto) {
                return ReadOutcome::Damaged { first: from, next: upto };
            }
            let mut at = position;
            while at < until {
                let window = match self.window_at(slot, extent, at..until, id, arena, out) {
                    Lookup::Ready(window) => window,
                    Lookup::Pending => return ReadOutcome::Pending,
                };
                let (block, found) = self.cold.window(window);
                let frames = found.frames_from(id, wanted);
                let end = found.end;
                if let Some(frame) = frames.first().filter(|frame| frame.base < upto) {
                    // Also where a gap was recorded: what it stands for may have been there.
                    if frame.base > from {
                        return ReadOutcome::Damaged { first: from, next: frame.base };
                    }
                    if !frame.intact {
                        let next = frame.last.plus(1).min(upto);
                        return ReadOutcome::Damaged { first: frame.base, next };
                    }
                    let (outcome, exhausted) = take_frames(frames, upto, limit, block, arena, slices);
                    if exhausted {
                        self.read_ahead(slot, extent, end, arena, out);
                    }
                    return outcome;
                }
                at = end;
            }
            // The run's frames are not there, or an extent without an index was looked through: the next one serves.
            match offsets {
                Some((_, last)) => wanted = last.plus(1),
                None => skip = extent + 1,
            }
            if wanted >= upto {
                return ReadOutcome::Damaged { first: from, next: upto };
            }
        }
    }

    /// Where the first run of a partition lies that ends at or after `from`, in the extents from number `skip` on.
    fn find_run(
        &mut self,
        slot: u16,
        id: PartitionId,
        from: Offset,
        skip: usize,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) -> Found {
        let begin = self.first_extent(slot, id, from).max(skip);
        let (at, runs) = self.look_through(slot, id, from, begin, arena, out);
        let Some(here) = self.journals[usize::from(slot)].extents.get(at) else { return Found::Nothing };
        match runs {
            Runs::Found(run) => {
                let end = here.end;
                let mut until = end.min(run.position.plus(u64::from(run.span)));
                let fence = Fence { first: run.first, extent: here.start.position };
                if at > begin
                    && let Some(partition) = self.partitions.get_in_mut(slot, id)
                {
                    partition.fences.learn(fence);
                }
                if here.clustered.is_some()
                    && let Runs::Found(last) =
                        self.runs_in(slot, at, id, arena, out, |runs| contiguous(runs, &run, WINDOW_BYTES as u64))
                {
                    until = end.min(last.position.plus(u64::from(last.span)));
                }
                Found::Run { extent: at, position: run.position, until, offsets: Some((run.first, run.last)) }
            }
            Runs::Unknown => {
                let (position, until) = (here.start.position, here.end);
                Found::Run { extent: at, position, until, offsets: None }
            }
            Runs::Pending => Found::Pending,
            Runs::None => Found::Nothing,
        }
    }

    /// The first run of a partition that ends at or after `from`; an error where an index must be read first.
    pub(crate) fn run_at(
        &mut self,
        slot: u16,
        id: PartitionId,
        from: Offset,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) -> Result<Option<Run>, ()> {
        let mut begin = self.first_extent(slot, id, from);
        loop {
            match self.look_through(slot, id, from, begin, arena, out) {
                (_, Runs::Found(run)) => return Ok(Some(run)),
                (_, Runs::Pending) => return Err(()),
                (_, Runs::None) => return Ok(None),
                // Without an index nothing can be counted there.
                (at, Runs::Unknown) => begin = at + 1,
            }
        }
    }

    /// Looks into extents from number `begin` on: what the first one brought that brought anything, and its number.
    fn look_through(
        &mut self,
        slot: u16,
        id: PartitionId,
        from: Offset,
        begin: usize,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) -> (usize, Runs) {
        // Footers read for extents without a run are not read again when the search waited for a later one.
        let known = self.lookups.iter().position(|lookup| (lookup.id, lookup.from) == (id, from));
        let resume = known.map(|at| self.lookups.swap_remove(at).next);
        let count = self.journals[usize::from(slot)].extents.len();
        for extent in begin..count {
            let start = self.journals[usize::from(slot)].extents[extent].start.position;
            if resume.is_some_and(|resume| start < resume) {
                continue;
            }
            match self.runs_in(slot, extent, id, arena, out, |runs| ending_at(runs, from)) {
                Runs::None => {}
                Runs::Pending => {
                    if self.lookups.len() == LOOKUPS {
                        self.lookups.swap_remove(0);
                    }
                    self.lookups.push(Progress { id, from, next: start });
                    return (extent, Runs::Pending);
                }
                other => return (extent, other),
            }
        }
        (count, Runs::None)
    }

    /// Number of the extent from which on `from` may lie.
    pub(crate) fn first_extent(&self, slot: u16, id: PartitionId, from: Offset) -> usize {
        let journal = &self.journals[usize::from(slot)];
        let fence = self.partitions.get_in(slot, id).and_then(|partition| partition.fences.find(from));
        let after = fence.map_or(0, |start| journal.extents.partition_point(|extent| extent.start.position <= start));
        after.saturating_sub(1)
    }

    /// Gives the runs of a partition in an extent to `pick`.
    pub(crate) fn runs_in(
        &mut self,
        slot: u16,
        extent: usize,
        id: PartitionId,
        arena: &mut A,
        out: &mut Vec<Effect>,
        pick: impl Fn(&mut dyn Iterator<Item = &Run>) -> Option<Run>,
    ) -> Runs {
        let here = &self.journals[usize::from(slot)].extents[extent];
        let picked = match &here.index {
            Index::Open(index) => {
                let run = self.partitions.get_in(slot, id).map(|partition| partition.run);
                match run.filter(|run| run.extent == here.start.position) {
                    Some(run) => pick(&mut index.backward(run.slot)),
                    None => None,
                }
            }
            Index::Closed(index) => pick(&mut index.of(id).iter()),
            Index::Footer(_) => {
                let start = here.start.position;
                match self.cold.footer(slot, start) {
                    Some(index) => pick(&mut index.of(id).iter()),
                    None => {
                        self.ask_for_footer(slot, extent, Some(id), arena, out);
                        return Runs::Pending;
                    }
                }
            }
            Index::Missing => return Runs::Unknown,
        };
        picked.map_or(Runs::None, Runs::Found)
    }
}

/// The run with the lowest offsets that ends at or after `from`.
fn ending_at(runs: &mut dyn Iterator<Item = &Run>, from: Offset) -> Option<Run> {
    runs.filter(|run| run.last >= from).min_by_key(|run| run.first).copied()
}

/// The last of the runs that lie one behind the other from `first` on, within `most` bytes.
fn contiguous(runs: &mut dyn Iterator<Item = &Run>, first: &Run, most: u64) -> Option<Run> {
    let mut last = *first;
    for run in runs.filter(|run| run.first > first.first) {
        let end = last.position.plus(u64::from(last.span));
        let within = run.position.0 + u64::from(run.span) - first.position.0 <= most;
        if run.position > end || !within {
            break;
        }
        last = *run;
    }
    Some(last)
}

/// How much to read.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bytes_max: usize,
    at_least_one: bool,
    /// One batch only.
    one: bool,
}

/// Takes frames up to the limit; whether all of them were taken.
fn take_frames<A: Arena>(
    frames: &[ColdFrame],
    upto: Offset,
    limit: Limit,
    block: &Block,
    arena: &A,
    slices: &mut Vec<A::Slice>,
) -> (ReadOutcome, bool) {
    let mut bytes = 0;
    let mut expected = None;
    for (number, frame) in frames.iter().enumerate() {
        let len = frame.len as usize;
        let full = bytes + len > limit.bytes_max && !(bytes == 0 && limit.at_least_one);
        // Behind a hole or a damaged batch the next read begins, and says what it found.
        let breaks = expected.is_some_and(|expected| expected != frame.base) || !frame.intact;
        if full || breaks || frame.base >= upto || limit.one && bytes > 0 {
            return (ReadOutcome::Data { bytes }, false);
        }
        expected = Some(frame.last.plus(1));
        // What is without records is given only where nothing else can be: it takes the reader past its offsets.
        let follows = |next: &ColdFrame| expected == Some(next.base) && next.intact && next.base < upto;
        if frame.empty && frames.get(number + 1).is_some_and(follows) {
            continue;
        }
        let at = frame.at as usize;
        slices.push(arena.slice(block, at..at + len));
        bytes += len;
    }
    (ReadOutcome::Data { bytes }, true)
}

/// Number of the tail frame that holds `from`, if the tail reaches back so far.
fn find_in_tail(journal: &Journal, slot: u16, cold: &Cold, partition: &Partition, from: Offset) -> Option<u64> {
    let oldest = journal.frame(partition.tail_oldest)?;
    if from < oldest.base {
        return None;
    }
    let holds = |number: u64| {
        journal.frame(number).is_some_and(|frame| {
            frame.partition == partition.id && frame.base <= from && from.0 < frame.base.0 + i64::from(frame.records)
        })
    };
    for near in [partition.cursor, partition.tail_newest, partition.tail_oldest] {
        let mut number = near;
        for _ in 0..HOPS {
            if holds(number) {
                return Some(number);
            }
            match journal.frame(number) {
                Some(frame) if frame.partition == partition.id && frame.base <= from => number = frame.next,
                _ => break,
            }
        }
    }
    let mut number = nearest_by_index(journal, slot, cold, partition, from).unwrap_or(partition.tail_oldest);
    while let Some(frame) = journal.frame(number) {
        if frame.base.0 + i64::from(frame.records) > from.0 {
            // The frame after a gap in the offsets serves what lies in the gap.
            return Some(number);
        }
        number = frame.next;
    }
    None
}

/// The first tail frame of the run that an index in memory names for `from`.
fn nearest_by_index(journal: &Journal, slot: u16, cold: &Cold, partition: &Partition, from: Offset) -> Option<u64> {
    let fence = partition.fences.find(from)?;
    let after = journal.extents.partition_point(|extent| extent.start.position <= fence);
    let mut found = None;
    for extent in journal.extents.range(after.saturating_sub(1)..) {
        let start = extent.start.position;
        if extent.clustered.is_some() {
            // Its runs lie elsewhere than the tail's frames, which are as they were written.
            return None;
        }
        let run = match &extent.index {
            Index::Open(index) if partition.run.extent == start => index.find(partition.run.slot, from),
            Index::Open(_) => None,
            Index::Closed(index) => index.find(partition.id, from),
            Index::Footer(_) => cold.peek_footer(slot, start)?.find(partition.id, from),
            Index::Missing => return None,
        };
        if run.is_some() {
            found = run;
            break;
        }
    }
    let run = found?;
    let mut at = journal.frames.partition_point(|frame| frame.position < run.position);
    loop {
        let frame = journal.frames.get(at)?;
        if frame.partition == partition.id && frame.records > 0 {
            return (frame.base <= from).then_some(journal.frames_first + at as u64);
        }
        at += 1;
    }
}

#[expect(clippy::too_many_arguments, reason = "as read")]
fn read_tail<A: Arena>(
    journal: &Journal,
    partition: &mut Partition,
    first: u64,
    upto: Offset,
    bytes_max: usize,
    at_least_one: bool,
    arena: &A,
    slices: &mut Vec<A::Slice>,
) -> ReadOutcome {
    let mut bytes = 0;
    let mut number = first;
    while number != NO_FRAME
        && let Some(frame) = journal.frame(number)
        && frame.base < upto
    {
        let len = frame.len as usize;
        if bytes + len > bytes_max && !(bytes == 0 && at_least_one) {
            break;
        }
        let Some(chunk) = journal.chunk_of(frame.position) else { break };
        let at = chunk.byte(frame.position) + FrameHeader::BYTES;
        slices.push(arena.slice(&chunk.block, at..at + len));
        bytes += len;
        partition.cursor = number;
        number = frame.next;
    }
    ReadOutcome::Data { bytes }
}
