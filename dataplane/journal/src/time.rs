//! Searching by timestamp, for ListOffsets.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

use base::memory::Arena;
use base::{Epoch, Offset, PartitionId, Position, WallMs};
use protocol::batch::BatchView;

use crate::format::Run;
use crate::read::Runs;
use crate::store::{Effect, ReadOutcome, Store};

/// Searches remembered while footers are read for them.
const SEARCHES: usize = 64;

/// How far a search has come, so that it goes on where it waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    id: PartitionId,
    timestamp: Option<WallMs>,
    /// Where what is searched begins: a partition that moved is searched home by home.
    begin: Offset,
    /// Start of the extent to look into next.
    next: Position,
    best: Option<Run>,
    /// Behind the last offset of the extents looked into.
    after: Offset,
    /// How far the batches themselves were walked, where there is no index.
    walked: Option<Offset>,
}

impl Search {
    /// A stretch of the journal was clustered: what was looked into of it is looked into again.
    pub(crate) fn clustered(&mut self, from: Position, upto: Position) {
        if self.next > from && self.next < upto {
            self.next = from;
        }
    }

    /// Takes a run, or a batch as one, if its time is higher than what was found, or as high and comes earlier.
    fn take(&mut self, run: Run) {
        let rank = |run: &Run| (run.max_timestamp, Reverse(run.first));
        if self.best.is_none_or(|best| rank(&best) < rank(&run)) {
            self.best = Some(run);
        }
    }
}

/// An extent whose index is lost.
struct NoIndex;

impl<A: Arena> Store<A> {
    pub(crate) fn find_by_time(
        &mut self,
        id: PartitionId,
        timestamp: Option<WallMs>,
        within: Range<Offset>,
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> ReadOutcome {
        let partition = match self.home_of_read(id, within.start) {
            Ok(number) => self.partitions.at(number).expect("the table names it"),
            Err(outcome) => return outcome,
        };
        let Some(upto) = partition.readable_to(within.start.max(partition.log_start)) else {
            return ReadOutcome::Empty;
        };
        let slot = partition.journal;
        let (log_start, high_watermark) = (partition.log_start.max(within.start), upto.min(within.end));
        if self.journals[usize::from(slot)].closed {
            return ReadOutcome::Fenced;
        }
        if log_start >= high_watermark {
            return ReadOutcome::Empty;
        }
        let at = self
            .searches
            .iter()
            .position(|search| (search.id, search.timestamp, search.begin) == (id, timestamp, within.start));
        let begin = within.start;
        let new = Search { id, timestamp, begin, next: Position(0), best: None, after: log_start, walked: None };
        let mut search = at.map_or(new, |at| self.searches.swap_remove(at));
        let ends = (log_start, high_watermark);
        let mut found = self.search(slot, &mut search, ends, arena, slices, out);
        if found == ReadOutcome::Empty && at.is_some() {
            // What it had found before it waited may be deleted by now.
            search = new;
            found = self.search(slot, &mut search, ends, arena, slices, out);
        }
        if found == ReadOutcome::Pending {
            if self.searches.len() == SEARCHES {
                self.searches.swap_remove(0);
            }
            self.searches.push(search);
        }
        found
    }

    fn search(
        &mut self,
        slot: u16,
        search: &mut Search,
        (log_start, high_watermark): (Offset, Offset),
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> ReadOutcome {
        let first = self.first_extent(slot, search.id, log_start);
        for extent in first..self.journals[usize::from(slot)].extents.len() {
            let start = self.journals[usize::from(slot)].extents[extent].start.position;
            if start < search.next {
                continue;
            }
            let outcome = match search.timestamp {
                Some(timestamp) => self.first_of_extent(
                    slot,
                    extent,
                    search.id,
                    timestamp,
                    (log_start, high_watermark),
                    arena,
                    slices,
                    out,
                ),
                None => self.highest_of_extent(slot, extent, search, (log_start, high_watermark), arena, slices, out),
            };
            match outcome {
                Ok(ReadOutcome::Empty) => {}
                Ok(other) => return other,
                Err(NoIndex) => match self.walk(search, high_watermark, arena, slices, out) {
                    ReadOutcome::Empty => break,
                    other => return other,
                },
            }
            let last =
                self.runs_in(slot, extent, search.id, arena, out, |runs| runs.max_by_key(|run| run.last).copied());
            if let Runs::Found(run) = last {
                search.after = search.after.max(run.last.plus(1));
            }
            search.next = start.plus(1);
        }
        match search.best {
            Some(run) => {
                let within = (run, log_start, high_watermark);
                // Where it is damaged, to name another, or none, would be wrong.
                self.batch_in(search.id, within, run.max_timestamp, arena, slices, out)
            }
            None => ReadOutcome::Empty,
        }
    }

    /// The first batch of an extent's runs that reaches a time.
    ///
    /// A run may reach it by a batch that is deleted or not committed: then the next run is asked.
    #[expect(clippy::too_many_arguments, reason = "as read")]
    fn first_of_extent(
        &mut self,
        slot: u16,
        extent: usize,
        id: PartitionId,
        timestamp: WallMs,
        ends: (Offset, Offset),
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> Result<ReadOutcome, NoIndex> {
        let mut from = ends.0;
        loop {
            let late = |run: &&Run| run.last >= from && run.first < ends.1 && run.max_timestamp >= timestamp;
            let run = match self
                .runs_in(slot, extent, id, arena, out, |runs| runs.filter(late).min_by_key(|run| run.first).copied())
            {
                Runs::Found(run) => run,
                Runs::None => return Ok(ReadOutcome::Empty),
                Runs::Pending => return Ok(ReadOutcome::Pending),
                Runs::Unknown => return Err(NoIndex),
            };
            match self.batch_in(id, (run, ends.0, ends.1), timestamp, arena, slices, out) {
                // What is damaged has no timestamp any more: one behind it serves.
                ReadOutcome::Empty | ReadOutcome::Damaged { .. } => from = run.last.plus(1),
                other => return Ok(other),
            }
        }
    }

    /// Takes the first of the batches with the highest time of an extent's runs into the search. `Empty`: it is done.
    ///
    /// What a run says of its highest time holds where all its batches can be found. Where its first ones are deleted, or its
    /// last ones not committed, the batches themselves are asked: at most two runs of a partition are so.
    #[expect(clippy::too_many_arguments, reason = "as read")]
    fn highest_of_extent(
        &mut self,
        slot: u16,
        extent: usize,
        search: &mut Search,
        (log_start, high_watermark): (Offset, Offset),
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> Result<ReadOutcome, NoIndex> {
        let lives = |run: &&Run| run.last >= log_start && run.first < high_watermark;
        let whole = |run: &&Run| run.first >= log_start && run.last < high_watermark;
        match self.runs_in(slot, extent, search.id, arena, out, |runs| {
            runs.filter(whole).min_by_key(|run| (Reverse(run.max_timestamp), run.first)).copied()
        }) {
            Runs::Found(run) => search.take(run),
            Runs::None => {}
            Runs::Pending => return Ok(ReadOutcome::Pending),
            Runs::Unknown => return Err(NoIndex),
        }
        let mut from = log_start;
        loop {
            let cut = |run: &&Run| run.last >= from && lives(run) && !whole(run);
            let run = match self.runs_in(slot, extent, search.id, arena, out, |runs| {
                runs.filter(cut).min_by_key(|run| run.first).copied()
            }) {
                Runs::Found(run) => run,
                Runs::None => return Ok(ReadOutcome::Empty),
                Runs::Pending => return Ok(ReadOutcome::Pending),
                Runs::Unknown => return Err(NoIndex),
            };
            from = run.last.plus(1);
            let mut at = run.first.max(log_start);
            while at <= run.last && at < high_watermark {
                let before = slices.len();
                match self.read_from(search.id, at, 1, true, arena, slices, out) {
                    ReadOutcome::Data { .. } => {}
                    // It may be the one: to name another, or none, would be wrong.
                    damaged @ ReadOutcome::Damaged { .. }
                        if search.best.is_none_or(|best| best.max_timestamp < run.max_timestamp) =>
                    {
                        return Ok(damaged);
                    }
                    ReadOutcome::Damaged { next, .. } => {
                        at = next;
                        continue;
                    }
                    other => return Ok(other),
                }
                let Some((batch, _)) = slices.get(before).and_then(|slice| BatchView::first(slice.as_ref()).ok())
                else {
                    return Ok(ReadOutcome::Empty);
                };
                let (first, last) = (Offset(batch.base_offset()), Offset(batch.last_offset()));
                if batch.count() > 0 {
                    search.take(Run { first, last, max_timestamp: WallMs(batch.max_timestamp()), ..run });
                }
                at = last.plus(1);
                slices.truncate(before);
            }
        }
    }

    /// Goes through the batches one by one up to the end, where an extent's index is lost.
    fn walk(
        &mut self,
        search: &mut Search,
        high_watermark: Offset,
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> ReadOutcome {
        let mut from = search.walked.unwrap_or(search.after);
        while from < high_watermark {
            let before = slices.len();
            match self.read_from(search.id, from, 1, true, arena, slices, out) {
                ReadOutcome::Data { bytes } => {
                    let Some((batch, _)) = slices.get(before).and_then(|slice| BatchView::first(slice.as_ref()).ok())
                    else {
                        return ReadOutcome::Empty;
                    };
                    let (first, last) = (Offset(batch.base_offset()), Offset(batch.last_offset()));
                    let max_timestamp = WallMs(batch.max_timestamp());
                    match search.timestamp {
                        // Compaction left no record of it.
                        _ if batch.count() == 0 => {}
                        Some(timestamp) if max_timestamp >= timestamp => return ReadOutcome::Data { bytes },
                        Some(_) => {}
                        None => {
                            // Only offsets and timestamp of it are looked at.
                            let (position, epoch) = (Position(0), Epoch(0));
                            let (span, bytes, frames) = (0, 0, 1);
                            search.take(Run { first, last, position, span, bytes, max_timestamp, epoch, frames });
                        }
                    }
                    from = last.plus(1);
                    slices.truncate(before);
                }
                ReadOutcome::Damaged { next, .. } => from = next,
                ReadOutcome::Pending => {
                    search.walked = Some(from);
                    return ReadOutcome::Pending;
                }
                other => return other,
            }
        }
        ReadOutcome::Empty
    }

    /// The first committed batch of a run whose highest timestamp is at least `timestamp`. Where there is none and something of
    /// the run is damaged, that.
    fn batch_in(
        &mut self,
        id: PartitionId,
        (run, log_start, high_watermark): (Run, Offset, Offset),
        timestamp: WallMs,
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> ReadOutcome {
        let mut from = run.first.max(log_start);
        let mut found = ReadOutcome::Empty;
        while from <= run.last && from < high_watermark {
            let before = slices.len();
            match self.read_from(id, from, 1, true, arena, slices, out) {
                ReadOutcome::Data { bytes } => {
                    let Some((batch, _)) = slices.get(before).and_then(|slice| BatchView::first(slice.as_ref()).ok())
                    else {
                        return ReadOutcome::Empty;
                    };
                    // Where compaction left no record, what comes behind the run may be given.
                    if batch.base_offset() > run.last.0 {
                        slices.truncate(before);
                        break;
                    }
                    if batch.count() > 0 && batch.max_timestamp() >= timestamp.0 {
                        return ReadOutcome::Data { bytes };
                    }
                    from = Offset(batch.last_offset()).plus(1);
                    slices.truncate(before);
                }
                damaged @ ReadOutcome::Damaged { next, .. } => {
                    from = next;
                    found = damaged;
                }
                other => return other,
            }
        }
        found
    }
}
