//! Homes: the journals that a partition is in, has been in, and moves to.
//!
//! Metadata says which they are, in a list of which only the last takes appends. A move goes like this, and each step is
//! durable before the next: metadata says where to; a close frame in the old journal, after which nothing is appended there; an
//! open frame with all that must be known of the partition in the new one; metadata names the new home. Whoever finds one half
//! done begins again: nothing is appended in between, so that closing and opening once more say the same.

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::TopicConfig;
use base::memory::Arena;
use base::{JournalId, Now, Offset, PartitionId, Position, WallMs};

use crate::format::{Close, FrameKind, Open, PartitionState, StartReason};
use crate::journal::TailKind;
use crate::partition::{Partition, Standing, Stay};
use crate::store::{AppendError, Effect, Store};

/// Runs of one stay looked at for one question.
const RUNS: usize = 256;

/// A partition that takes no more appends in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Which journal.
    pub journal: JournalId,
    /// Where the close frame lies: in effect once the journal's commit position is above.
    pub position: Position,
    /// All that the next home must know; its next offset is where the next home begins.
    pub state: PartitionState,
}

/// What a home that a partition left is told of it, since its newer home knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The stay that is asked for: its first offset.
    pub first: Offset,
    /// The partition's log start.
    pub log_start: Offset,
    /// Bytes that it retains in other journals.
    pub bytes: u64,
}

/// The stays in one journal, as the list of homes has them; the last one's end is `None` if it is open.
fn stays_in(journal: JournalId, homes: &[(JournalId, Offset)]) -> Vec<(Offset, Option<Offset>)> {
    let end = |at: usize| homes.get(at + 1).map(|(_, first)| *first);
    let here = homes.iter().enumerate().filter(|(_, (home, _))| *home == journal);
    here.map(|(at, (_, first))| (*first, end(at))).collect()
}

impl<A: Arena> Store<A> {
    /// Takes in which homes a partition has.
    pub(crate) fn set_homes_of(
        &mut self,
        id: PartitionId,
        homes: &[(JournalId, Offset)],
        moving: Option<JournalId>,
        config: &Arc<TopicConfig>,
    ) {
        let slot = |journal: &JournalId| self.journal_slots.get(journal).copied();
        let named: Vec<u16> = homes.iter().filter_map(|(journal, _)| slot(journal)).collect();
        let target = moving.as_ref().and_then(slot);
        let strays: Vec<u32> = self
            .partitions
            .homes(id)
            .filter(|number| {
                let partition = self.partitions.at(*number).expect("listed");
                let enters = matches!(partition.standing, Standing::Entering { .. });
                !(named.contains(&partition.journal) || enters && target == Some(partition.journal))
            })
            .collect();
        for number in strays {
            self.forget_home(number);
            self.departed.insert(id);
        }
        for &slot in &named {
            let stays = stays_in(self.journals[usize::from(slot)].id(), homes);
            let Some(&(first, end)) = stays.last() else { continue };
            let number = match self.partitions.slot_in(slot, id) {
                Some(number) => number,
                None => self.add_partition(id, slot, first),
            };
            let partition = self.partitions.at_mut(number).expect("found or made above");
            if let Some(compaction) = config.compaction {
                let compacting = &mut self.journals[usize::from(slot)].compacting;
                compacting.any = true;
                compacting.bounded |= compaction.lag_ms_max < i64::MAX;
            }
            let begun = partition.config.replace(config.clone()).is_some();
            partition.expires = WallMs(i64::MIN);
            let enters = target == Some(slot) && matches!(partition.standing, Standing::Entering { .. });
            if !enters {
                partition.first = first;
                let earlier = stays[..stays.len() - 1].iter();
                partition.earlier =
                    earlier.map(|(first, end)| Stay { first: *first, end: end.unwrap_or(*first) }).collect();
            }
            match end {
                Some(_) if enters => {}
                Some(end) => self.leave(number, end),
                None => self.be_home(number, first, moving, begun),
            }
            self.mark(number);
        }
    }

    /// The journal is the partition's open home.
    fn be_home(&mut self, number: u32, first: Offset, moving: Option<JournalId>, begun: bool) {
        let partition = self.partitions.at_mut(number).expect("found by the caller");
        partition.moving = moving;
        partition.standing = match partition.standing {
            // The process before may have closed it, and opened it elsewhere.
            _ if moving.is_some() && !begun => Standing::Closed { frame: Position(0) },
            Standing::Closed { frame } if moving.is_some() => Standing::Closed { frame },
            // Nobody went anywhere, or it has come.
            Standing::Open | Standing::Closed { .. } | Standing::Entering { .. } | Standing::Left => Standing::Open,
        };
        // Where the open frame is damaged: what lies below is not here.
        partition.log_end = partition.log_end.max(first);
        partition.high_watermark = partition.high_watermark.max(first);
        let id = partition.id;
        self.partitions.put_first(id, number);
    }

    /// The partition's records end at `end` in the journal; they go on elsewhere.
    fn leave(&mut self, number: u32, end: Offset) {
        let partition = self.partitions.at_mut(number).expect("found by the caller");
        if partition.standing != Standing::Left {
            partition.standing = Standing::Left;
            // Its open home has them.
            partition.producers = None;
        }
        (partition.log_end, partition.high_watermark) = (end, end);
        let (id, journal) = (partition.id, usize::from(partition.journal));
        // What a start gives up behind the end that it saw was never given out here.
        self.journals[journal].gaps_due.retain(|(gap, ..)| *gap != id);
        self.damaged.cut(id, end);
    }

    /// Forgets a partition in one journal: its frames there are dead from now on.
    pub(crate) fn forget_home(&mut self, number: u32) {
        if let Some(partition) = self.partitions.remove(number) {
            self.journals[usize::from(partition.journal)].checkpoint.gone.push(partition.id);
        }
    }

    /// Whether the partition is known here, and has its open home elsewhere, or will have it in a moment.
    #[must_use]
    pub fn is_elsewhere(&self, id: PartitionId) -> bool {
        match self.partitions.get(id) {
            Some(partition) => partition.standing != Standing::Open,
            None => self.departed.contains(&id),
        }
    }

    /// Why a partition is not to be found here.
    pub(crate) fn missing(&self, id: PartitionId) -> AppendError {
        if self.departed.contains(&id) { AppendError::Moved } else { AppendError::UnknownPartition }
    }

    /// Closes a partition in its open home, which takes no more of its appends until metadata says that it does not move after
    /// all ([`Store::set_homes`]). Doing it again says the same.
    ///
    /// # Errors
    /// `UnknownPartition`, `Moved` where its open home is not here or metadata does not send it there, `Busy`, `Full`, `Fenced`.
    pub fn close(&mut self, now: Now, id: PartitionId, next: JournalId, arena: &mut A) -> Result<Closed, AppendError> {
        let number = self.partitions.slot(id).ok_or(AppendError::UnknownPartition)?;
        let partition = self.partitions.at(number).expect("the table names it");
        if partition.moving != Some(next) {
            return Err(AppendError::Moved);
        }
        let (slot, at) = (partition.journal, partition.log_end);
        let known = match partition.standing {
            Standing::Open => None,
            Standing::Closed { frame } => Some(frame).filter(|frame| frame.0 > 0),
            Standing::Entering { .. } | Standing::Left => return Err(AppendError::Moved),
        };
        let journal = &self.journals[usize::from(slot)];
        if journal.fenced.is_some() {
            return Err(AppendError::Fenced);
        }
        let position = match known {
            Some(position) => position,
            None => {
                let mut payload = Vec::with_capacity(16);
                Close { at, next }.encode(&mut payload);
                self.append_control(now, slot, FrameKind::Close, Some((id, at)), &payload, true, arena)?
            }
        };
        let unit = self.journals[usize::from(slot)].end;
        let partition = self.partitions.at_mut(number).expect("found above");
        if known.is_none() {
            partition.standing = Standing::Closed { frame: position };
            partition.newest = unit;
        }
        let state = partition.state();
        self.mark(number);
        Ok(Closed { journal: self.journals[usize::from(slot)].id(), position, state })
    }

    /// Opens a partition in a journal, with all that its home before knew: where the open frame lies. It takes appends once
    /// metadata says so ([`Store::set_homes`]). Doing it again says the same.
    ///
    /// # Errors
    /// `UnknownPartition` for a journal that is not here, `Invalid` for its open home, `Busy`, `Full`, `Fenced`.
    pub fn open_home(
        &mut self,
        now: Now,
        journal: JournalId,
        previous: JournalId,
        state: &PartitionState,
        arena: &mut A,
    ) -> Result<Position, AppendError> {
        let slot = *self.journal_slots.get(&journal).ok_or(AppendError::UnknownPartition)?;
        let (id, at) = (state.partition, state.next_offset);
        if self.journals[usize::from(slot)].fenced.is_some() {
            return Err(AppendError::Fenced);
        }
        if let Some(partition) = self.partitions.get_in(slot, id) {
            match partition.standing {
                // Said before.
                Standing::Entering { frame } if partition.first == at => return Ok(frame),
                Standing::Open | Standing::Closed { .. } => return Err(AppendError::Invalid),
                Standing::Entering { .. } | Standing::Left => {}
            }
        }
        let mut payload = Vec::new();
        Open { previous, state: state.clone() }.encode(&mut payload);
        let position = self.append_control(now, slot, FrameKind::Open, Some((id, at)), &payload, true, arena)?;
        let journal = &mut self.journals[usize::from(slot)];
        let unit = journal.end;
        if state.log_start.0 > 0 {
            let frame = journal.frames.back_mut().expect("just appended");
            frame.kind = TailKind::Start(StartReason::Deleted);
            frame.base = state.log_start;
        }
        let number = match self.partitions.slot_in(slot, id) {
            Some(number) => number,
            None => self.add_partition(id, slot, at),
        };
        // Of the frame's tail entry: the partition was not there before.
        self.journals[usize::from(slot)].frames.back_mut().expect("just appended").slot = number;
        self.enter(number, state, (position, unit));
        self.mark(number);
        Ok(position)
    }

    /// Takes over what an open frame says, just appended: at that position, in that unit.
    fn enter(&mut self, number: u32, state: &PartitionState, (frame, unit): (Position, Position)) {
        let (hash, most) = (self.hash, self.config.producers_per_partition_max);
        let partition = self.partitions.at_mut(number).expect("made by the caller");
        let at = state.next_offset;
        if partition.standing == Standing::Left {
            let stay = Stay { first: partition.first, end: partition.log_end };
            partition.earlier.push(stay);
        }
        (partition.first, partition.standing) = (at, Standing::Entering { frame });
        (partition.log_end, partition.high_watermark) = (at, at);
        partition.log_start = partition.log_start.max(state.log_start);
        partition.producers = None;
        partition.epochs = Vec::new();
        partition.restore(state.clone(), hash, most);
        partition.newest = unit;
        partition.snapshotted = unit;
        partition.moved = (state.log_start.0 > 0).then_some(unit);
    }

    /// Tells a home that a partition left what its open home knows, and asks how far the log start may go: over what has
    /// expired in that stay by the topic's settings. `None`: nothing has, or an index must be read first: ask again later.
    pub fn expire_behind(
        &mut self,
        now: Now,
        id: PartitionId,
        behind: Behind,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) -> Option<Offset> {
        let number = self.partitions.holding(id, behind.first)?;
        let partition = self.partitions.at_mut(number)?;
        let (slot, standing) = (partition.journal, partition.standing);
        let end = partition.readable_to(behind.first)?;
        if standing == Standing::Left && behind.log_start > partition.log_start {
            take_start(partition, behind.log_start);
            self.mark(number);
        }
        let partition = self.partitions.at(number)?;
        let config = partition.config.clone()?;
        let mut from = behind.first.max(behind.log_start);
        // More of it than is there may be in other stays here: they are later ones.
        let mut bytes = partition.bytes.saturating_add(behind.bytes);
        let mut expired = None;
        for _ in 0..RUNS {
            if from >= end {
                break;
            }
            let Ok(Some(run)) = self.run_at(slot, id, from, arena, out) else { break };
            let due = run.max_timestamp.0.saturating_add(config.retention_ms);
            let old = config.retention_ms >= 0 && due < now.wall.0;
            let large = config.retention_bytes >= 0
                && bytes.saturating_sub(run.bytes.into()) >= config.retention_bytes.unsigned_abs();
            if run.first >= end || !(old || large) {
                break;
            }
            bytes = bytes.saturating_sub(run.bytes.into());
            from = run.last.plus(1).min(end);
            expired = Some(from);
        }
        expired
    }
}

/// A log start that another journal states, and keeps.
fn take_start(partition: &mut Partition, start: Offset) {
    partition.log_start = start;
    partition.next_start = partition.next_start.max(start);
    partition.sure_start = partition.sure_start.max(start);
    partition.fences.trim(partition.kept_from());
}

#[cfg(test)]
mod tests;
