//! One partition of `__consumer_offsets`: what waits to be appended, what flies, and how its log is kept short.
//!
//! One append flies at a time. What is handed out meanwhile waits and goes with the next: the more commits come, the more of
//! them share an append, and their order is the log's.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Checksums, Epoch, Offset, PartitionId, WallMs};
use groups::{AppendId, Coordinator, Cursor, Record, Slot, TrimPolicy};

use super::records::Encoder;

/// A partition that is served or being read.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) slot: Slot,
    pub(super) partition: PartitionId,
    pub(super) epoch: Epoch,
    /// Which reading of the partition this is; reports about a former one are dropped.
    pub(super) term: u64,
    waiting: VecDeque<(AppendId, Arc<[Record]>)>,
    flying: bool,
    /// Bytes between log start and end.
    log_bytes: u64,
    /// The offset behind the last record.
    end: Offset,
    snapshot: Option<Snapshot>,
    /// A snapshot is not begun again before the log has grown to this.
    patience_bytes: u64,
}

/// A snapshot under way.
#[derive(Debug)]
struct Snapshot {
    cursor: Cursor,
    /// Where the log is to begin: its end when the snapshot began. Everything before is in the snapshot, which tells what
    /// was durable then or later.
    start: Offset,
    /// Bytes appended from there on.
    bytes: u64,
    trimming: bool,
}

/// An append to be made.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) batch: Vec<u8>,
    /// What to report of it.
    pub(super) load: Load,
}

/// What an append carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The newest of what was handed out; none when it is all snapshot.
    pub(super) upto: Option<AppendId>,
    count: i64,
    bytes: u64,
    snapshot: bool,
}

/// What is to be done for a partition.
#[derive(Debug)]
pub(super) enum Work {
    Append(Flight),
    MoveStart(Offset),
}

/// How appends and snapshots are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) batch_bytes: usize,
    pub(super) trim: TrimPolicy,
    pub(super) sums: Checksums,
}

impl Line {
    pub(super) fn new(slot: Slot, partition: PartitionId, term: u64) -> Self {
        Self {
            slot,
            partition,
            epoch: Epoch(0),
            term,
            waiting: VecDeque::new(),
            flying: false,
            log_bytes: 0,
            end: Offset(0),
            snapshot: None,
            patience_bytes: 0,
        }
    }

    /// A piece of the log has been read.
    pub(super) fn read(&mut self, bytes: u64, next: Offset) {
        self.log_bytes += bytes;
        self.end = next;
    }

    pub(super) fn hand_out(&mut self, id: AppendId, records: Arc<[Record]>) {
        self.waiting.push_back((id, records));
    }

    /// Whether nothing waits or flies.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.flying
    }

    /// What to do next, if anything can be done now.
    pub(super) fn next(
        &mut self,
        machine: &Coordinator,
        encoder: &mut Encoder,
        cut: &Cut,
        now: WallMs,
    ) -> Option<Work> {
        if self.flying {
            return None;
        }
        if self.snapshot.is_none()
            && self.log_bytes >= self.patience_bytes
            && cut.trim.is_due(self.log_bytes, machine.live_bytes(self.slot))
        {
            let cursor = machine.snapshot(self.slot);
            self.snapshot = Some(Snapshot { cursor, start: self.end, bytes: 0, trimming: false });
        }
        if let Some(to) = self.trim() {
            return Some(Work::MoveStart(to));
        }
        let snapshot = self.put_snapshot(machine, encoder, cut, now);
        let upto = self.put_waiting(encoder, cut, now);
        if encoder.is_empty() {
            return None;
        }
        self.flying = true;
        let (batch, count) = encoder.finish(&cut.sums);
        let bytes = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        Some(Work::Append(Flight { batch, load: Load { upto, count, bytes, snapshot } }))
    }

    /// Where the log is to begin, once a snapshot is durable to its end.
    fn trim(&mut self) -> Option<Offset> {
        let snapshot = self.snapshot.as_mut().filter(|snapshot| snapshot.cursor.is_done() && !snapshot.trimming)?;
        snapshot.trimming = true;
        Some(snapshot.start)
    }

    /// Puts what waits, as far as it fits. What is too large to share a batch goes alone, so that its refusal is its own.
    fn put_waiting(&mut self, encoder: &mut Encoder, cut: &Cut, now: WallMs) -> Option<AppendId> {
        let mut upto = None;
        while let Some((_, records)) = self.waiting.front() {
            let bytes: usize = records.iter().map(Record::bytes).sum();
            if !encoder.is_empty() && encoder.len() + bytes > cut.batch_bytes {
                break;
            }
            let Some((id, records)) = self.waiting.pop_front() else { break };
            for record in records.iter() {
                encoder.push(record, now);
            }
            upto = Some(id);
        }
        upto
    }

    /// Puts the next piece of a snapshot in front of everything that waits. Nothing flies now, so that the machine knows
    /// as durable exactly what lies before.
    fn put_snapshot(&mut self, machine: &Coordinator, encoder: &mut Encoder, cut: &Cut, now: WallMs) -> bool {
        let Some(snapshot) = self.snapshot.as_mut().filter(|snapshot| !snapshot.cursor.is_done()) else { return false };
        // Half of a batch, so that commits need not wait for the snapshot.
        for record in machine.snapshot_records(self.slot, &mut snapshot.cursor, cut.batch_bytes / 2) {
            encoder.push(&record, now);
        }
        !encoder.is_empty()
    }

    /// An append is durable from `base` on.
    pub(super) fn appended(&mut self, load: Load, base: Offset) {
        self.flying = false;
        self.log_bytes += load.bytes;
        self.end = base.plus(load.count);
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.bytes += load.bytes;
        }
    }

    /// An append was not taken.
    pub(super) fn failed(&mut self, load: Load) {
        self.flying = false;
        if load.snapshot {
            self.give_up_snapshot();
        }
    }

    /// The log begins where it should, or does not.
    pub(super) fn trimmed(&mut self, moved: bool) {
        match self.snapshot.take() {
            Some(snapshot) if moved => {
                self.log_bytes = snapshot.bytes;
                // Not again before the log has doubled, however large the live records turn out to be in the log.
                self.patience_bytes = snapshot.bytes * 2;
            }
            Some(_) => self.give_up_snapshot(),
            None => {}
        }
    }

    fn give_up_snapshot(&mut self) {
        self.snapshot = None;
        // Try again when the log is a half longer.
        self.patience_bytes = self.log_bytes + self.log_bytes / 2;
    }
}
