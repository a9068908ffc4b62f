//! What leaves: records by time, by size and by deletion, then the extents that hold nothing alive; and the footers that
//! closed extents get meanwhile. All of it in slices, some times a second.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use base::memory::Arena;
use base::{Now, Offset, PartitionId, Position, WallMs};

use crate::format::{Footer, FrameKind, JournalStart, LocalState, SECTOR, StartReason};
use crate::journal::{Dead, Extent, Index, SlotWrite, Stage, TailKind};
use crate::store::{AppendError, Durability, Effect, ExtentAddress, Op, Store};

/// Partitions looked at in one turn.
const SWEEP: u32 = 1000;

/// Runs of one partition that may go in one turn.
const RUNS: usize = 64;

/// Runs below log starts that are counted off in one turn beyond those, of one partition and of all: a deletion may leave very
/// many, and their extents stay until they are counted.
const COUNTED: usize = 1024;
const COUNTED_IN_ALL: usize = 8192;

/// Extents looked into in one turn and journal.
const LOOKS: usize = 4;

/// Extents whose watched record is looked at in one turn and journal.
const WATCHES: usize = 256;

/// A leader's last unit is followed by a closing unit after this time without appends.
const IDLE_MS: u64 = 1000;

/// Extents of a journal on their way out.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// Dead, from the journal's start on: they go when local state says the journal begins behind them.
    pub(crate) prefix: Vec<ExtentAddress>,
    /// The extent looked into next.
    next: usize,
}

impl<A: Arena> Store<A> {
    pub(crate) fn housekeep_all(&mut self, now: Now, arena: &mut A, out: &mut Vec<Effect>) {
        self.cold.wake_starved(out);
        self.sweep(now, arena, out);
        for slot in 0..u16::try_from(self.journals.len()).expect("few journals per shard") {
            self.go_on_clustering(now, slot, arena, out);
            if self.journals[usize::from(slot)].fenced.is_none() {
                self.write_footer(slot, arena, out);
                self.look_for_dead(now, slot, arena, out);
                self.free_dead(slot, arena, out);
                self.plan_clustering(now, slot, arena, out);
                self.plan_compaction(now, slot, arena, out);
                self.idle(now, slot, arena);
                self.checkpoint(slot, false, out);
            }
        }
    }

    /// Moves log starts of the next partitions in turn by their settings, and expires their producers.
    fn sweep(&mut self, now: Now, arena: &mut A, out: &mut Vec<Effect>) {
        let slots = self.partitions.slots();
        let mut left = COUNTED_IN_ALL;
        for _ in 0..SWEEP.min(slots) {
            self.swept = if self.swept + 1 < slots { self.swept + 1 } else { 0 };
            if self.swept == 0 {
                self.journals.iter_mut().for_each(|journal| journal.clustering.pass());
            }
            let Some(partition) = self.partitions.at_mut(self.swept) else { continue };
            self.journals[usize::from(partition.journal)].clustering.count(partition.bytes);
            let journal = &self.journals[usize::from(partition.journal)];
            if journal.fenced.is_some() || journal.starting {
                continue;
            }
            if let Some(producers) = &mut partition.producers {
                let kept = WallMs(now.wall.0.saturating_sub(self.config.producer_expiry_ms));
                producers.expire(kept, 16);
                if producers.len() == 0 {
                    partition.producers = None;
                }
            }
            let Some(config) = &partition.config else { continue };
            let settled = partition.counted >= partition.next_start;
            let by_time = config.retention_ms >= 0 && now.wall >= partition.expires;
            let by_size = config.retention_bytes >= 0 && partition.bytes > config.retention_bytes.unsigned_abs();
            let any = partition.log_end > partition.next_start;
            if !settled || any && (by_time || by_size) && partition.expires_here() {
                let most = RUNS.max(left.min(COUNTED));
                left = left.saturating_sub(self.retain(now, self.swept, most, arena, out));
            }
        }
    }

    /// Counts what left off the partition's bytes, and moves its log start over the runs that expired; at most so many runs.
    /// How many it looked at.
    fn retain(&mut self, now: Now, number: u32, most: usize, arena: &mut A, out: &mut Vec<Effect>) -> usize {
        let partition = self.partitions.at(number).expect("the caller found it");
        let Some(config) = partition.config.clone() else { return 0 };
        let (id, here) = (partition.id, partition.expires_here());
        let (slot, high_watermark) = (partition.journal, partition.high_watermark);
        let mut bytes = partition.bytes;
        let mut counted = partition.counted;
        let mut start = partition.next_start;
        let mut reason = StartReason::Time;
        let mut expires = partition.expires;
        let (mut looked, mut expired) = (0, 0);
        while looked < most && expired < RUNS {
            looked += 1;
            let run = match self.run_at(slot, id, counted.max(Offset(0)), arena, out) {
                Ok(Some(run)) => run,
                // Nothing there: all that was counted is gone.
                Ok(None) => {
                    counted = start;
                    break;
                }
                Err(()) => break,
            };
            let end = run.last.plus(1);
            let gone = end <= start;
            let due = WallMs(run.max_timestamp.0.saturating_add(config.retention_ms));
            let old = config.retention_ms >= 0 && due < now.wall;
            let large = config.retention_bytes >= 0
                && bytes.saturating_sub(run.bytes.into()) >= config.retention_bytes.unsigned_abs();
            if !gone && (end > high_watermark || !here || !(old || large)) {
                expires = due;
                break;
            }
            if !gone {
                expired += 1;
                start = end;
                reason = if old { StartReason::Time } else { StartReason::Size };
            }
            bytes = bytes.saturating_sub(run.bytes.into());
            counted = end;
        }
        let partition = self.partitions.at(number).expect("the caller found it");
        let moves = start > partition.next_start;
        if moves && self.move_start_to(now, id, start, reason, arena).is_err() {
            // No room now: what was counted stays counted with the records.
            return looked;
        }
        let partition = self.partitions.at_mut(number).expect("the caller found it");
        partition.bytes = bytes;
        partition.counted = counted;
        partition.fences.trim(partition.kept_from());
        partition.expires = expires;
        self.mark(number);
        looked
    }

    /// Marks a partition as changed since the last checkpoint.
    pub(crate) fn mark(&mut self, number: u32) {
        if let Some(partition) = self.partitions.at_mut(number) {
            self.journals[usize::from(partition.journal)].checkpoint.mark(partition, number);
        }
    }

    /// Writes the footer of the first closed extent that has none.
    fn write_footer(&mut self, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let journal = &self.journals[usize::from(slot)];
        if journal.extents.iter().any(|extent| extent.footer_flies.is_some()) {
            return;
        }
        let commit = journal.commit;
        let due = |extent: &Extent| {
            matches!(extent.index, Index::Closed(_))
                && extent.end <= commit
                && !extent.no_footer
                && extent.dead.is_none()
        };
        let Some(at) = journal.extents.iter().position(due) else { return };
        let extent = &journal.extents[at];
        let Index::Closed(index) = &extent.index else { return };
        let footer = Footer {
            journal: journal.id(),
            generation: extent.address.generation,
            start: extent.start.position,
            end: extent.end,
            epoch: extent.last.0,
            chain: extent.last.1,
            newest_control: extent.newest_control.unwrap_or(extent.end),
            entries: index.entries(),
        };
        let bytes = footer.encode(&self.config.sums);
        let used = SECTOR as u64 + (extent.end.0 - extent.start.position.0);
        if used + bytes.len() as u64 > extent.address.len {
            // Recovery may cut runs a little finer than they were when room was kept for them: the index stays in memory.
            self.journals[usize::from(slot)].extents[at].no_footer = true;
            return;
        }
        let Some(block) = self.take_block(bytes.len(), arena) else { return };
        arena.bytes_mut(&block, 0..bytes.len()).copy_from_slice(&bytes);
        arena.freeze(&block, bytes.len());
        let journal = &mut self.journals[usize::from(slot)];
        let extent = &mut journal.extents[at];
        out.push(Effect::Write {
            token: Op::WriteFooter(slot, extent.start.position.0 / SECTOR as u64).token(),
            device: journal.device,
            offset: extent.address.offset + extent.address.len - bytes.len() as u64,
            arena_start: block.start,
            len: bytes.len(),
            fua: self.lanes[usize::from(journal.device.0)].durability == Durability::Fua,
        });
        extent.footer_flies = Some((block, u32::try_from(bytes.len()).expect("shorter than its extent")));
    }

    /// A footer is written, or not: it can be made again from the units.
    pub(crate) fn footer_written(&mut self, slot: u16, number: u64, result: Result<(), String>, arena: &mut A) {
        let journal = &mut self.journals[usize::from(slot)];
        let start = Position(number * SECTOR as u64);
        let extent = journal.extents.iter_mut().find(|extent| extent.start.position == start);
        let extent = extent.expect("an extent is not freed while its footer flies");
        let (block, len) = extent.footer_flies.take().expect("its footer flew");
        arena.free(block);
        if result.is_err() {
            extent.no_footer = true;
            return;
        }
        extent.changed = true;
        extent.footer_after = self.lanes[usize::from(journal.device.0)].serial;
        if let Index::Closed(index) = core::mem::replace(&mut extent.index, Index::Footer(len)) {
            self.cold.add_footer(slot, start, index, self.config.footer_cache_bytes);
        }
    }

    /// Looks into closed extents whose watched records are gone: whether anything in them lives. Where nothing does, states
    /// that would go with them are appended anew.
    fn look_for_dead(&mut self, now: Now, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let count = self.journals[usize::from(slot)].extents.len();
        let mut looks = 0;
        for _ in 0..count.saturating_sub(1).min(WATCHES) {
            let journal = &mut self.journals[usize::from(slot)];
            let at = if journal.leaving.next + 1 < count { journal.leaving.next } else { 0 };
            journal.leaving.next = at + 1;
            let commit = journal.commit;
            let extent = &journal.extents[at];
            if extent.held || extent.dead.is_some() || extent.end > commit || extent.footer_flies.is_some() {
                continue;
            }
            if let Some((id, last)) = extent.watch
                && self.partitions.get_in(slot, id).is_some_and(|partition| partition.log_start <= last)
            {
                continue;
            }
            if looks == LOOKS {
                return;
            }
            looks += 1;
            self.look_into(now, slot, at, arena, out);
        }
    }

    fn look_into(&mut self, now: Now, slot: u16, at: usize, arena: &mut A, out: &mut Vec<Effect>) {
        let journal = &self.journals[usize::from(slot)];
        let (start, end) = (journal.extents[at].start.position, journal.extents[at].end);
        if matches!(journal.extents[at].index, Index::Footer(_)) && self.cold.footer(slot, start).is_none() {
            self.ask_for_footer(slot, at, None, arena, out);
            return;
        }
        let journal = &mut self.journals[usize::from(slot)];
        let extent = &mut journal.extents[at];
        let index = match &extent.index {
            Index::Closed(index) => index,
            Index::Footer(_) => self.cold.footer(slot, start).expect("looked for above"),
            // Without an index nobody knows what lives here: it stays until a start rebuilds it.
            Index::Open(_) | Index::Missing => return,
        };
        let mut due = VecDeque::new();
        for place in index.places() {
            let Some(partition) = self.partitions.get_in(slot, place.partition) else { continue };
            if let Some(run) = index.runs_of(place).last()
                && run.last >= partition.kept_from()
            {
                extent.watch = Some((place.partition, run.last));
                return;
            }
            let newest_goes = partition.newest < end;
            let start_goes = partition.moved.is_some_and(|moved| moved < end);
            // A producer's last batch may lie here though newer frames of others follow: an older snapshot or checkpoint
            // would then bring back a sequence that the producer has long passed.
            let producers_go = partition.has_producers() && partition.snapshotted < end;
            if newest_goes || start_goes || producers_go {
                due.push_back(place.partition);
            }
        }
        extent.watch = None;
        while let Some(id) = due.pop_front() {
            if self.snapshot(now, slot, id, arena).is_err() {
                return;
            }
        }
        let journal = &mut self.journals[usize::from(slot)];
        let frames = journal.frames_end();
        journal.extents[at].dead = Some(Dead::Once(frames));
    }

    /// Appends all that must be known of a partition.
    pub(crate) fn snapshot(&mut self, now: Now, slot: u16, id: PartitionId, arena: &mut A) -> Result<(), AppendError> {
        let Some(number) = self.partitions.slot_in(slot, id) else { return Ok(()) };
        let partition = self.partitions.at(number).expect("the table names it");
        let state = partition.state();
        let mut payload = Vec::new();
        state.encode(&mut payload);
        self.append_control(now, slot, FrameKind::Snapshot, Some((id, state.next_offset)), &payload, true, arena)?;
        let journal = &mut self.journals[usize::from(slot)];
        let unit = journal.end;
        if state.log_start.0 > 0 {
            let frame = journal.frames.back_mut().expect("just appended");
            frame.kind = TailKind::Start(StartReason::Deleted);
            frame.base = state.log_start;
        }
        let partition = self.partitions.at_mut(number).expect("found above");
        partition.newest = unit;
        partition.snapshotted = unit;
        partition.moved = (state.log_start.0 > 0).then_some(unit);
        self.mark(number);
        Ok(())
    }

    /// Frees extents that are dead once the snapshots that replace them are committed.
    fn free_dead(&mut self, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let journal = &mut self.journals[usize::from(slot)];
        let (folded, frames, stated) = (journal.folded, journal.frames_end(), journal.starts_due.is_empty());
        for extent in &mut journal.extents {
            // What was due by then is appended by now.
            if stated && matches!(extent.dead, Some(Dead::Once(upto)) if upto <= folded) {
                extent.dead = Some(Dead::Restated(frames));
            }
        }
        let dead = |extent: &Extent| {
            let dead = matches!(extent.dead, Some(Dead::Restated(upto)) if upto <= folded);
            dead && extent.footer_flies.is_none() && !extent.held
        };
        // In the middle: the extent before says by its footer where it ends, and the one behind is closed, so that a start
        // without a checkpoint sees that nothing is missing.
        let mut at = 1;
        while at + 2 < journal.extents.len() {
            let bounded = matches!(journal.extents[at - 1].index, Index::Footer(_));
            if !(dead(&journal.extents[at]) && bounded) {
                at += 1;
                continue;
            }
            let extent = journal.extents.remove(at).expect("in range");
            journal.checkpoint.freed.push(extent.start.position);
            journal.checkpoint.leaving.push(extent.address);
            self.cold.forget(slot, extent.start.position, extent.end, arena);
        }
        // From the start on: local state must say so first.
        let prefix = journal.extents.iter().take_while(|extent| dead(extent)).count();
        let prefix = prefix.min(journal.extents.len().saturating_sub(1));
        if prefix == 0 || journal.slots.is_some() || journal.slots_due.is_some() || !journal.leaving.prefix.is_empty() {
            return;
        }
        let Some((pair, state)) = journal.local else { return };
        let Some(block) = self.take_block(SECTOR, arena) else { return };
        let journal = &mut self.journals[usize::from(slot)];
        for extent in journal.extents.drain(..prefix) {
            journal.checkpoint.freed.push(extent.start.position);
            self.cold.forget(slot, extent.start.position, extent.end, arena);
            journal.leaving.prefix.push(extent.address);
        }
        let start: JournalStart = journal.extents.front().expect("one stays").start;
        let state = LocalState { sequence: state.sequence + 1, start, ..state };
        journal.local = Some((pair, state));
        let page = arena.bytes_mut(&block, 0..SECTOR).first_chunk_mut().expect("a sector");
        state.encode(&self.config.sums, page);
        arena.freeze(&block, SECTOR);
        journal.slots = Some(SlotWrite { block, pair, left: 2, second: false, stage: Stage::Writing });
        self.submit_slot(slot, out);
    }

    /// Closes an idle log with a unit that carries the final commit position.
    pub(crate) fn idle(&mut self, now: Now, slot: u16, arena: &mut A) {
        let journal = &self.journals[usize::from(slot)];
        let quiet = journal.flights.is_empty() && journal.open.as_ref().is_none_or(|open| open.frames == 0);
        let long = self.stopping || now.mono >= journal.last_append.plus_ms(IDLE_MS);
        if journal.closing_due && quiet && long && !journal.starting && journal.fenced.is_none() {
            let reserved = self.reserve(now, slot, 0, true, arena);
            let journal = &mut self.journals[usize::from(slot)];
            if reserved.is_ok() {
                journal.close_unit(now.wall, arena);
            }
            // Where there is no room, a start finds the commit position by scanning.
            journal.closing_due = false;
        }
    }
}

#[cfg(test)]
mod full;
#[cfg(test)]
mod tests;
