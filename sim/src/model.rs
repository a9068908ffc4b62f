//! What must be true of every partition, whatever happened: the oracle that the journals are compared with.

use std::collections::{BTreeMap, VecDeque};

use base::{Offset, Position};
use protocol::batch::BatchView;

/// A batch that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Offset of its first record.
    pub base: i64,
    /// Number of records.
    pub count: i64,
    /// Where it lies: acked when the commit position is above.
    pub position: Position,
    /// Its bytes as sent.
    pub sent: Vec<u8>,
    /// The timestamp the broker stamped, or −1.
    pub append_time: i64,
    /// Its producer and first sequence.
    pub producer: Option<(i64, i32)>,
    /// The epoch it was appended in.
    pub epoch: i32,
    /// Its highest timestamp, as stored.
    pub max_timestamp: i64,
}

impl Entry {
    /// Offset after its last record.
    #[must_use]
    pub const fn end(&self) -> i64 {
        self.base + self.count
    }
}

/// A producer as its client knows it.
#[derive(Clone, Copy, Debug)]
pub struct ProducerModel {
    /// Its epoch.
    pub epoch: i16,
    /// Next sequence to send.
    pub next: i32,
}

/// A partition as its clients know it.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Acked batches by base offset, from the log start.
    pub acked: BTreeMap<i64, Entry>,
    /// Taken and not acked, in order.
    pub tail: VecDeque<Entry>,
    /// Highest log start that was acked or seen.
    pub start: i64,
    /// Moves asked for and not acked.
    pub moves: Vec<i64>,
    /// Idempotent producers by id.
    pub producers: BTreeMap<i64, ProducerModel>,
    /// Whether retention may move the start by itself.
    pub retained: bool,
    /// Whether records with a later one of their key go.
    pub compacted: bool,
}

impl Log {
    /// Offset after the last acked record.
    #[must_use]
    pub fn acked_end(&self) -> i64 {
        self.acked.last_key_value().map_or(self.start, |(_, entry)| entry.end()).max(self.start)
    }

    /// Offset after the last record taken.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.tail.back().map_or_else(|| self.acked_end(), Entry::end)
    }

    /// The commit position moved: what lies below is acked. Moves of the log start are where it is sure.
    pub fn commit(&mut self, commit: Position, sure_start: Offset) {
        while let Some(entry) = self.tail.pop_front_if(|entry| entry.position < commit) {
            self.acked.insert(entry.base, entry);
        }
        let acked = self.moves.iter().copied().filter(|to| *to <= sure_start.0).max();
        self.moves.retain(|to| *to > sure_start.0);
        self.move_start(acked.unwrap_or(self.start));
    }

    /// The log ends there: what was taken below survived, and nothing else did.
    pub fn cut(&mut self, end: Position) {
        self.acked.retain(|_, entry| entry.position < end);
        while let Some(entry) = self.tail.pop_front_if(|entry| entry.position < end) {
            self.acked.insert(entry.base, entry);
        }
        self.tail.clear();
    }

    /// The log start moved for certain.
    pub fn move_start(&mut self, to: i64) {
        self.start = self.start.max(to);
        let start = self.start;
        self.acked.retain(|_, entry| entry.end() > start);
    }

    /// Checks ends that the journal shows while it runs.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_bounds(&self, start: Offset, high: Offset, end: Offset) -> Result<(), String> {
        if start.0 < self.start {
            return Err(format!("log start {start} fell below {}", self.start));
        }
        let may = self.moves.iter().copied().max().unwrap_or(self.start).max(self.start);
        if start.0 > may && !self.retained {
            return Err(format!("log start {start} moved without being asked, at most {may}"));
        }
        if high.0 != self.acked_end().max(start.0) {
            return Err(format!("high watermark {high}, acked up to {}", self.acked_end()));
        }
        if end.0 != self.end().max(start.0) {
            return Err(format!("log end {end}, taken up to {}", self.end()));
        }
        Ok(())
    }

    /// Compares batches as served, back to back, with what was acked: the first holds `from`, and none is missing between.
    /// Returns the offset after the last.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_served(&self, from: i64, bytes: &[u8]) -> Result<i64, String> {
        let (mut next, mut rest) = (from, bytes);
        while !rest.is_empty() {
            let (batch, after) = BatchView::first(rest).map_err(|error| format!("served at {next}: {error}"))?;
            let first = next == from;
            let base = batch.base_offset();
            if if first { base > next || batch.last_offset() < next } else { base != next } {
                return Err(format!("served {base} to {} at {next}", batch.last_offset()));
            }
            let entry = self.acked.get(&base).ok_or_else(|| format!("served {base}, which nobody acked"))?;
            same(entry, &batch)?;
            next = entry.end();
            rest = after;
        }
        Ok(next)
    }

    /// The highest epoch at or below `epoch` with records, and where it ends; only where the log start hides none of it.
    #[must_use]
    pub fn epoch_end(&self, epoch: i32) -> Option<(i32, i64)> {
        let (_, last) = self.acked.iter().rev().find(|(_, entry)| entry.epoch <= epoch)?;
        Some((last.epoch, last.end()))
    }

    /// Base offset of the first acked batch that reaches a timestamp.
    #[must_use]
    pub fn at_time(&self, timestamp: i64) -> Option<i64> {
        self.acked.values().find(|entry| entry.max_timestamp >= timestamp).map(|entry| entry.base)
    }

    /// Takes what a restart brought back. What was acked must all be there; of what was not, any number of batches from the
    /// front. Returns how many of those.
    ///
    /// # Errors
    /// What is wrong.
    pub fn recover(&mut self, start: Offset, high: Offset, end: Offset) -> Result<usize, String> {
        if start.0 < self.start {
            return Err(format!("log start {start} fell below {}", self.start));
        }
        if start.0 > self.start && !self.retained && !self.moves.contains(&start.0) {
            return Err(format!("log start {start}, was {}, asked {:?}", self.start, self.moves));
        }
        if high != end {
            return Err(format!("after recovery the high watermark is {high} and the end {end}"));
        }
        if end.0 < self.acked_end() {
            return Err(format!("log end {end} lies below {}, which was acked", self.acked_end()));
        }
        let mut survived = 0;
        while let Some(entry) = self.tail.pop_front_if(|entry| entry.end() <= end.0) {
            survived += 1;
            self.acked.insert(entry.base, entry);
        }
        for lost in self.tail.drain(..).rev() {
            if let Some((id, sequence)) = lost.producer
                && let Some(producer) = self.producers.get_mut(&id)
            {
                producer.next = sequence;
            }
        }
        self.moves.clear();
        self.move_start(start.0);
        if self.acked_end() != end.0 {
            return Err(format!("log end {end} is no batch's end, acked up to {}", self.acked_end()));
        }
        Ok(survived)
    }
}

/// Whether a batch is the one that was sent, but for what the broker stamps.
fn same(entry: &Entry, batch: &BatchView<'_>) -> Result<(), String> {
    let sent = BatchView::first(&entry.sent).expect("what was sent is a batch").0;
    let base = entry.base;
    if batch.base_offset() != base || i64::from(batch.count()) != entry.count {
        return Err(format!("batch {base} is served as {} of {} records", batch.base_offset(), batch.count()));
    }
    if batch.payload() != sent.payload() {
        return Err(format!("batch {base} is served with other records"));
    }
    if entry.append_time < 0 && batch.max_timestamp() != sent.max_timestamp() {
        return Err(format!("batch {base} of time {} is served as of {}", sent.max_timestamp(), batch.max_timestamp()));
    }
    if entry.append_time >= 0 && (!batch.is_append_time() || batch.max_timestamp() != entry.append_time) {
        return Err(format!("batch {base} is served with timestamp {}", batch.max_timestamp()));
    }
    let ids = |view: &BatchView<'_>| (view.producer_id(), view.producer_epoch(), view.base_sequence());
    if ids(batch) != ids(&sent) {
        return Err(format!("batch {base} is served with another producer"));
    }
    batch.verify_crc(&crate::sums()).map_err(|error| format!("batch {base}: {error}"))
}
