//! What the clients of a broker know together: the oracle. It is told of every batch that is sent, of every answer and of
//! everything that is read, and says when they do not fit each other.

use std::collections::{BTreeMap, BTreeSet};

use base::{JournalId, PartitionId};
use protocol::batch::BatchView;

use super::talk;
use crate::sums;

/// Names a batch: its number in the order of sending, which its first record's value begins with.
pub type BatchId = usize;

/// What is known of where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Sent, and nobody knows.
    Open,
    /// Acked or read at this offset.
    At(i64),
    /// Not stored, and nothing that could still store it is on its way.
    Gone,
}

/// A batch as it was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// To where.
    pub partition: PartitionId,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its records.
    pub count: i64,
    /// Id, epoch and first sequence of an idempotent producer.
    pub producer: Option<(i64, i16, i32)>,
    /// Where it is.
    pub fate: Fate,
    /// Whether its producer was told that it is durable.
    pub acked: bool,
}

/// Ends that were known when something was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// Log start.
    pub start: i64,
    /// High watermark.
    pub high: i64,
    /// Every shard had heard of the partition.
    pub heard_of: bool,
}

/// A partition as its clients know it.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where it lives.
    pub journal: JournalId,
    /// Every journal that it has been sent to.
    pub journals: BTreeSet<JournalId>,
    /// Whether it has been sent anywhere in this life: then clients may be told to look for it again.
    pub moves: bool,
    /// Whether the broker stamps its records.
    pub append_time: bool,
    /// Whether retention may move its log start.
    pub retained: bool,
    /// Whether every shard has heard of it.
    pub heard_of: bool,
    /// The highest log start that anybody was told.
    pub start: i64,
    /// The highest log start that anybody asked for by number.
    pub asked: i64,
    /// Moves to the high watermark, wherever that is, that are not answered.
    pub open_moves: u32,
    /// The highest high watermark that follows from what anybody was told.
    pub high: i64,
    /// Batches by base offset.
    pub known: BTreeMap<i64, BatchId>,
    /// Batches that damage took: they are not served any more, or right.
    pub damaged: BTreeSet<i64>,
    /// The highest timestamp that the broker stamped, by base offset, must not fall.
    stamps: BTreeMap<i64, i64>,
}

/// What all clients know.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Every batch ever sent.
    pub sent: Vec<Sent>,
    /// Every partition that was not deleted.
    pub parts: BTreeMap<PartitionId, Part>,
    /// Something on the device was harmed: offsets may be passed over, and batches may be missing.
    pub harmed: bool,
}

/// Which batch a stored batch is, by its first record.
fn id_of(batch: &BatchView<'_>) -> Option<BatchId> {
    let record = batch.records().next()?.ok()?;
    let number = u64::from_le_bytes(*record.value?.first_chunk::<8>()?);
    usize::try_from(number).ok()
}

impl Ledger {
    /// A partition comes to be.
    pub fn add_partition(&mut self, id: PartitionId, journal: JournalId, append_time: bool, retained: bool) {
        let part = Part {
            journal,
            journals: BTreeSet::from([journal]),
            moves: false,
            append_time,
            retained,
            heard_of: false,
            start: 0,
            asked: 0,
            open_moves: 0,
            high: 0,
            known: BTreeMap::new(),
            damaged: BTreeSet::new(),
            stamps: BTreeMap::new(),
        };
        self.parts.insert(id, part);
    }

    /// The number that the next batch gets.
    #[must_use]
    pub fn next_batch(&self) -> BatchId {
        self.sent.len()
    }

    /// A batch is sent.
    pub fn send(
        &mut self,
        partition: PartitionId,
        bytes: Vec<u8>,
        count: i64,
        producer: Option<(i64, i16, i32)>,
    ) -> BatchId {
        talk(|| {
            format!("batch {} of {count} records to partition {partition}, producer {producer:?}", self.sent.len())
        });
        self.sent.push(Sent { partition, bytes, count, producer, fate: Fate::Open, acked: false });
        self.sent.len() - 1
    }

    /// The highest timestamp of a batch, as its producer gave it.
    ///
    /// # Panics
    /// When it was never sent.
    #[must_use]
    pub fn time_of(&self, id: BatchId) -> i64 {
        BatchView::check(&self.sent[id].bytes).expect("what was sent is a batch").max_timestamp()
    }

    /// A producer is told that its batch is durable at `base`.
    ///
    /// # Errors
    /// When that cannot be.
    pub fn acked(&mut self, id: BatchId, base: i64, append_time: i64) -> Result<(), String> {
        self.place(id, base).map_err(|error| format!("acked: {error}"))?;
        self.sent[id].acked = true;
        let partition = self.sent[id].partition;
        let Some(part) = self.parts.get(&partition) else { return Ok(()) };
        if part.append_time != (append_time >= 0) {
            return Err(format!("partition {partition}: batch {id} is acked with append time {append_time}"));
        }
        self.stamp(partition, base, append_time)
    }

    /// As [`Ledger::acked`], where the answer does not tell what the broker stamped.
    ///
    /// # Errors
    /// When that cannot be.
    pub fn acked_unstamped(&mut self, id: BatchId, base: i64) -> Result<(), String> {
        self.place(id, base).map_err(|error| format!("acked: {error}"))?;
        self.sent[id].acked = true;
        Ok(())
    }

    fn stamp(&mut self, partition: PartitionId, base: i64, stamp: i64) -> Result<(), String> {
        let Some(part) = self.parts.get_mut(&partition) else { return Ok(()) };
        if stamp < 0 {
            return Ok(());
        }
        let before = part.stamps.range(..base).next_back().map_or(stamp, |(_, stamp)| *stamp);
        let after = part.stamps.range(base + 1..).next().map_or(stamp, |(_, stamp)| *stamp);
        let same = part.stamps.insert(base, stamp).unwrap_or(stamp);
        if before > stamp || after < stamp || same != stamp {
            return Err(format!(
                "partition {partition}: offset {base} is stamped {stamp}, was {same}, before it {before}, after it {after}"
            ));
        }
        Ok(())
    }

    /// A batch is known to be at an offset.
    fn place(&mut self, id: BatchId, base: i64) -> Result<(), String> {
        talk(|| format!("batch {id} of partition {} is at {base}, {:?}", self.sent[id].partition, self.sent[id].fate));
        let sent = &mut self.sent[id];
        let (partition, end) = (sent.partition, base + sent.count);
        let Some(part) = self.parts.get_mut(&partition) else { return Ok(()) };
        match sent.fate {
            Fate::At(at) if at == base => {
                part.high = part.high.max(end);
                return Ok(());
            }
            Fate::At(at) => return Err(format!("partition {partition}: batch {id} is at {base} and at {at}")),
            Fate::Gone => return Err(format!("partition {partition}: batch {id} at {base} had not been stored")),
            Fate::Open => {}
        }
        if base < 0 {
            return Err(format!("partition {partition}: batch {id} at offset {base}"));
        }
        sent.fate = Fate::At(base);
        part.high = part.high.max(end);
        if end <= part.start {
            return Ok(());
        }
        let sent = &self.sent;
        let end_of = |(&at, &other): (&i64, &BatchId)| at + sent[other].count;
        let before = part.known.range(..end).next_back().filter(|known| end_of(*known) > base);
        if let Some((at, other)) = before {
            return Err(format!(
                "partition {partition}: offset {base} is given to batch {id}, batch {other} is at {at}"
            ));
        }
        part.known.insert(base, id);
        Ok(())
    }

    /// What an answer to whatever is asked now must at least say: log start and high watermark.
    #[must_use]
    pub fn floor(&self, partition: PartitionId) -> Floor {
        self.parts.get(&partition).map_or(Floor::default(), |part| Floor {
            start: part.start,
            high: part.high,
            heard_of: part.heard_of,
        })
    }

    /// Somebody is told of a partition's ends (−1: of none), by an answer to what was asked when `floor` was known.
    ///
    /// # Errors
    /// When they fit nothing that was told before.
    pub fn told_ends(&mut self, partition: PartitionId, start: i64, high: i64, floor: Floor) -> Result<(), String> {
        talk(|| format!("partition {partition}: from {start} to {high}"));
        let Some(part) = self.parts.get_mut(&partition) else { return Ok(()) };
        if high >= 0 {
            if high < floor.high {
                return Err(format!("partition {partition}: the high watermark is {high}, it was {}", floor.high));
            }
            part.high = part.high.max(high);
        }
        if start >= 0 {
            if start < floor.start {
                return Err(format!("partition {partition}: log start {start} fell below {}", floor.start));
            }
            if start > part.asked.max(part.start) && !part.retained && part.open_moves == 0 {
                return Err(format!(
                    "partition {partition}: log start {start}, nobody asked for more than {}",
                    part.asked
                ));
            }
            self.moved(partition, start);
        }
        Ok(())
    }

    /// The log start is known to be there.
    pub fn moved(&mut self, partition: PartitionId, start: i64) {
        let Some(part) = self.parts.get_mut(&partition) else { return };
        part.start = part.start.max(start);
        part.high = part.high.max(start);
        let (start, sent) = (part.start, &self.sent);
        part.known.retain(|base, id| base + sent[*id].count > start);
        part.stamps = part.stamps.split_off(&start);
    }

    /// A consumer is given batches from offset `from` on, and the high watermark. Returns the offset after the last.
    ///
    /// # Errors
    /// When they are not what was sent, not dense, not whole, or beyond the high watermark.
    pub fn served(&mut self, partition: PartitionId, from: i64, bytes: &[u8], high: i64) -> Result<i64, String> {
        if !self.parts.contains_key(&partition) {
            return Ok(from);
        }
        let (mut next, mut rest) = (from, bytes);
        while !rest.is_empty() {
            let (batch, after) = BatchView::first(rest).map_err(|error| format!("served at {next}: {error}"))?;
            self.one_served(partition, from, next, &batch)?;
            next = batch.last_offset() + 1;
            rest = after;
        }
        if next > high && next > from {
            return Err(format!("partition {partition}: served up to {next}, the high watermark is {high}"));
        }
        Ok(next)
    }

    fn one_served(
        &mut self,
        partition: PartitionId,
        from: i64,
        next: i64,
        batch: &BatchView<'_>,
    ) -> Result<(), String> {
        let (base, last) = (batch.base_offset(), batch.last_offset());
        let fits = if next == from { (base <= next || self.harmed) && last >= next } else { base == next };
        if !fits {
            return Err(format!("partition {partition}: served {base} to {last} at {next}"));
        }
        let id = id_of(batch).filter(|id| *id < self.sent.len());
        let id = id.ok_or_else(|| format!("partition {partition}: served {base}, which nobody sent"))?;
        let known = &self.sent[id];
        if known.partition != partition {
            return Err(format!("partition {partition}: served {base}, sent to partition {}", known.partition));
        }
        let sent = BatchView::check(&known.bytes).expect("what was sent is a batch");
        let ids =
            |view: &BatchView<'_>| (view.producer_id(), view.producer_epoch(), view.base_sequence(), view.count());
        if batch.payload() != sent.payload() || ids(batch) != ids(&sent) {
            return Err(format!("partition {partition}: batch {id} is served at {base} with other bytes"));
        }
        batch.verify_crc(&sums()).map_err(|error| format!("partition {partition}: batch {id} at {base}: {error}"))?;
        let append_time = if batch.is_append_time() { batch.max_timestamp() } else { -1 };
        if append_time < 0 && batch.max_timestamp() != sent.max_timestamp() {
            let (time, right) = (batch.max_timestamp(), sent.max_timestamp());
            return Err(format!(
                "partition {partition}: batch {id} at {base} is of time {right}, and served as of {time}"
            ));
        }
        self.place(id, base).map_err(|error| format!("served: {error}"))?;
        let part = &self.parts[&partition];
        if part.append_time != batch.is_append_time() {
            return Err(format!("partition {partition}: batch {id} is served with append time {append_time}"));
        }
        self.stamp(partition, base, append_time)
    }

    /// Everything of a partition was read, from its log start to its high watermark: whether all that must be there is.
    ///
    /// # Errors
    /// What is missing.
    pub fn read_through(&self, partition: PartitionId, start: i64, high: i64) -> Result<(), String> {
        let Some(part) = self.parts.get(&partition) else { return Ok(()) };
        if high < part.high {
            return Err(format!("partition {partition}: the high watermark is {high}, it was {}", part.high));
        }
        let mut next = start;
        let mut sequences: BTreeMap<i64, (i16, i32)> = BTreeMap::new();
        for (&base, &id) in &part.known {
            let sent = &self.sent[id];
            if base > next && !self.harmed {
                return Err(format!("partition {partition}: nothing is at {next}, batch {id} is at {base}"));
            }
            next = next.max(base + sent.count);
            let Some((who, epoch, first)) = sent.producer else { continue };
            let next = (epoch, first.wrapping_add(i32::try_from(sent.count).unwrap_or(0)));
            let Some((known, wanted)) = sequences.insert(who, next) else { continue };
            // A new epoch begins with its first sequence, and none before it comes back.
            let right = if epoch == known { first == wanted } else { epoch > known && first == 0 };
            if !right && !self.harmed {
                return Err(format!(
                    "partition {partition}: producer {who}: sequence {first} of epoch {epoch} at {base}, {wanted} of {known} is next"
                ));
            }
        }
        if next != high && !self.harmed {
            return Err(format!("partition {partition}: records end at {next}, the high watermark is {high}"));
        }
        Ok(())
    }

    /// After a restart and a look at these partitions: what is not there will never be. Returns how many batches that nobody
    /// was told of are there, and how many are not.
    pub fn settle(&mut self, seen: &BTreeSet<PartitionId>) -> (u64, u64) {
        let (mut there, mut gone) = (0, 0);
        for sent in self.sent.iter_mut().filter(|sent| seen.contains(&sent.partition)) {
            match sent.fate {
                Fate::Open => {
                    sent.fate = Fate::Gone;
                    gone += 1;
                }
                Fate::At(_) if !sent.acked => there += 1,
                Fate::At(_) | Fate::Gone => {}
            }
        }
        for id in seen {
            let Some(part) = self.parts.get_mut(id) else { continue };
            part.open_moves = 0;
            part.asked = part.start;
        }
        (there, gone)
    }
}
