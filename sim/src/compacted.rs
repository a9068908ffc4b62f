//! What must be true of a compacted partition: the oracle beside [`crate::model`].
//!
//! Of what was acked a record may be missing only where a later one of its key was acked, too, or where it is a tombstone whose time
//! can have come; and what a tombstone deleted never comes back once the tombstone is gone.

use std::collections::BTreeMap;

use base::PartitionId;
use journal::store::ReadOutcome;
use protocol::batch::{BatchBuilder, BatchView, Producer};

use crate::model::{Entry, Log};
use crate::run::Run;
use crate::sums;

/// How long a tombstone stays, in every compacted partition.
pub const DELETE_RETENTION_MS: i64 = 30_000;

/// A record: its key, its value, its timestamp.
pub type Record = (Vec<u8>, Option<Vec<u8>>, i64);

/// The records of a batch, by offset.
fn records(batch: &BatchView<'_>, base: i64) -> Result<Vec<(i64, Record)>, String> {
    let mut all = Vec::new();
    for record in batch.records() {
        let record = record.map_err(|error| format!("batch {base}: {error}"))?;
        let key = record.key.ok_or(format!("batch {base} holds a record without a key"))?;
        let value = record.value.map(<[u8]>::to_vec);
        all.push((base + i64::from(record.offset_delta), (key.to_vec(), value, batch.timestamp_of(&record))));
    }
    if all.len() != usize::try_from(batch.count()).unwrap_or(usize::MAX) {
        return Err(format!("batch {base} counts {} records and holds {}", batch.count(), all.len()));
    }
    Ok(all)
}

/// What was sent in an acked batch.
fn sent(entry: &Entry) -> Vec<(i64, Record)> {
    let batch = BatchView::first(&entry.sent).expect("what was sent is a batch").0;
    let mut all = records(&batch, entry.base).expect("what was sent is whole");
    if entry.append_time >= 0 {
        all.iter_mut().for_each(|(_, record)| record.2 = entry.append_time);
    }
    all
}

impl Log {
    /// Takes batches as served from `from` on into `found`: they stand for every offset, and each record is the one that was
    /// acked there. Returns the offset after the last.
    ///
    /// # Errors
    /// What is wrong.
    pub fn take_compacted(&self, from: i64, bytes: &[u8], found: &mut BTreeMap<i64, Record>) -> Result<i64, String> {
        let (mut next, mut rest) = (from, bytes);
        while !rest.is_empty() {
            let (batch, after) = BatchView::first(rest).map_err(|error| format!("served at {next}: {error}"))?;
            batch.verify_crc(&sums()).map_err(|error| format!("served at {next}: {error}"))?;
            let (base, end) = (batch.base_offset(), batch.last_offset() + 1);
            if end <= next {
                return Err(format!("served {base} to {} at {next}", end - 1));
            }
            for (offset, record) in records(&batch, base)? {
                let acked = self.acked.range(..=offset).next_back().map(|(_, entry)| sent(entry));
                let acked = acked.into_iter().flatten().find(|(at, _)| *at == offset);
                if acked.as_ref() != Some(&(offset, record.clone())) {
                    return Err(format!("at {offset} there is {record:?}, acked was {acked:?}"));
                }
                found.insert(offset, record);
            }
            (next, rest) = (end, after);
        }
        Ok(next)
    }

    /// Whether what is not among all the records found may be missing. `wall` is the highest wall time there was.
    ///
    /// # Errors
    /// What is lost, or has come back.
    pub fn check_compacted(&self, found: &BTreeMap<i64, Record>, wall: i64) -> Result<(), String> {
        let all: Vec<(i64, Record)> = self.acked.values().flat_map(sent).filter(|(at, _)| *at >= self.start).collect();
        let mut later: BTreeMap<&[u8], i64> = BTreeMap::new();
        // The nearest later record of the key that is a tombstone and gone, with nothing behind it.
        let mut deleted: BTreeMap<&[u8], i64> = BTreeMap::new();
        for (offset, (key, value, time)) in all.iter().rev() {
            let there = found.contains_key(offset);
            if there && let Some(tombstone) = deleted.get(&key[..]) {
                return Err(format!("{offset} is there again, and its tombstone at {tombstone} is gone"));
            }
            let superseded = later.contains_key(&key[..]);
            let expired = value.is_none() && wall >= time + DELETE_RETENTION_MS;
            if !there && !superseded && !expired {
                return Err(format!(
                    "the latest record of {key:?}, acked at {offset}, is lost (value {:?})",
                    value.is_some()
                ));
            }
            if !there && !superseded {
                deleted.insert(key, *offset);
            }
            later.insert(key, *offset);
        }
        Ok(())
    }
}

impl Run {
    /// A batch of records with some keys.
    pub(crate) fn keyed_batch(&mut self, producer: Producer) -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        let budget = self.chance.between(1, self.world.plan.batch_bytes as u64);
        let records = self.chance.between(1, 6);
        let keys = *self.chance.pick(&[3, 20, 200]);
        for _ in 0..records {
            self.next_value += 1;
            let key = self.chance.below(keys).to_le_bytes();
            let mut value = self.next_value.to_le_bytes().to_vec();
            value.resize(8 + usize::try_from(budget / records).expect("small"), value[0]);
            let tombstone = self.chance.odds(1, 6);
            builder.append(self.world.now.wall.0, Some(&key), (!tombstone).then_some(&value[..]), &[]);
        }
        builder.finish(producer, &sums()).to_vec()
    }

    /// Reads a compacted partition from its log start to its end.
    pub(crate) fn read_through_compacted(&mut self, id: PartitionId) -> Result<(), String> {
        let mut found = BTreeMap::new();
        let mut next = self.logs[&id].start;
        while next < self.logs[&id].acked_end() {
            let bytes_max = *self.chance.pick(&[1, 30_000, 1 << 20]);
            let (outcome, bytes) = self.fetch(id, next, bytes_max)?;
            let ReadOutcome::Data { .. } = outcome else {
                return Err(format!("partition {id}, compacted, read at {next}: {outcome:?}"));
            };
            let log = &self.logs[&id];
            next = log
                .take_compacted(next, &bytes, &mut found)
                .map_err(|error| format!("partition {id}, compacted: {error}"))?;
        }
        let wall = self.wall_max;
        self.logs[&id].check_compacted(&found, wall).map_err(|error| format!("partition {id}, compacted: {error}"))
    }
}
