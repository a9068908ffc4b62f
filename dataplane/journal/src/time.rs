//! Searching by timestamp, for ListOffsets.

use alloc::vec::Vec;

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
}

impl<A: Arena> Store<A> {
    pub(crate) fn find_by_time(
        &mut self,
        id: PartitionId,
        timestamp: Option<WallMs>,
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
        out: &mut Vec<Effect>,
    ) -> ReadOutcome {
        let Some(partition) = self.partitions.get(id).filter(|partition| partition.config.is_some()) else {
            return ReadOutcome::UnknownPartition;
        };
        let (slot, log_start, high_watermark) = (partition.journal, partition.log_start, partition.high_watermark);
        if self.journals[usize::from(slot)].closed {
            return ReadOutcome::Fenced;
        }
        if log_start >= high_watermark {
            return ReadOutcome::Empty;
        }
        let at = self.searches.iter().position(|search| (search.id, search.timestamp) == (id, timestamp));
        let mut search = match at {
            Some(at) => self.searches.swap_remove(at),
            None => Search { id, timestamp, next: Position(0), best: None, after: log_start, walked: None },
        };
        let found = self.search(slot, &mut search, (log_start, high_watermark), arena, slices, out);
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
            let lives = |run: &&Run| run.last >= log_start && run.first < high_watermark;
            let runs = match search.timestamp {
                Some(timestamp) => self.runs_in(slot, extent, search.id, arena, out, |runs| {
                    let late = runs.filter(lives).filter(|run| run.max_timestamp >= timestamp);
                    late.min_by_key(|run| run.first).copied()
                }),
                None => self.runs_in(slot, extent, search.id, arena, out, |runs| {
                    // The first of those with the highest.
                    runs.filter(lives).min_by_key(|run| (core::cmp::Reverse(run.max_timestamp), run.first)).copied()
                }),
            };
            match (runs, search.timestamp) {
                (Runs::Pending, _) => return ReadOutcome::Pending,
                (Runs::Found(run), Some(timestamp)) => {
                    let within = (run, log_start, high_watermark);
                    match self.batch_in(search.id, within, timestamp, arena, slices, out) {
                        // What is damaged has no timestamp any more: one behind it serves.
                        ReadOutcome::Empty | ReadOutcome::Damaged { .. } => {}
                        other => return other,
                    }
                }
                (Runs::Found(run), None) => {
                    if search.best.is_none_or(|best| best.max_timestamp < run.max_timestamp) {
                        search.best = Some(run);
                    }
                }
                (Runs::None, _) => {}
                (Runs::Unknown, _) => match self.walk(search, high_watermark, arena, slices, out) {
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
                        Some(timestamp) if max_timestamp >= timestamp => return ReadOutcome::Data { bytes },
                        None if search.best.is_none_or(|best| best.max_timestamp < max_timestamp) => {
                            // Only offsets and timestamp of it are looked at.
                            let (position, epoch) = (Position(0), Epoch(0));
                            let (span, bytes, frames) = (0, 0, 1);
                            search.best =
                                Some(Run { first, last, position, span, bytes, max_timestamp, epoch, frames });
                        }
                        _ => {}
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
                    if batch.max_timestamp() >= timestamp.0 {
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
