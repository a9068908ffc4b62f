//! Idempotent producers of one partition: what they appended last, so that a retry is recognised (KIP-98).
//!
//! Bounded: the least recently used producer goes when the table is full, and an idle one is forgotten after the expiry.

use alloc::vec::Vec;

use base::image::{SeededHash, SeededMap};
use base::message::ProducerInfo;
use base::{Offset, Position, ProducerEpoch, ProducerId, WallMs};

use crate::store::AppendError;

/// Batches remembered per producer: clients keep at most five requests in flight (`max.in.flight.requests.per.connection`).
pub(crate) const BATCHES: usize = 5;

/// A batch a producer appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Sequence of its first record.
    pub(crate) first: i32,
    /// Sequence of its last record.
    pub(crate) last: i32,
    /// Offset of its first record.
    pub(crate) base: Offset,
    /// Where its frame lies.
    pub(crate) position: Position,
    /// What the broker stamped; −1 for CreateTime.
    pub(crate) append_time: WallMs,
}

/// One producer's last batches, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) id: ProducerId,
    pub(crate) epoch: ProducerEpoch,
    pub(crate) last_timestamp: WallMs,
    batches: [Batch; BATCHES],
    filled: u8,
    newer: u32,
    older: u32,
}

/// The end of the list.
const NONE: u32 = u32::MAX;

impl Producer {
    /// A producer with what it appended, oldest first; the newest five are kept.
    pub(crate) fn new(id: ProducerId, epoch: ProducerEpoch, last_timestamp: WallMs) -> Self {
        Self { id, epoch, last_timestamp, batches: [Batch::default(); BATCHES], filled: 0, newer: NONE, older: NONE }
    }

    /// The batches remembered, oldest first.
    pub(crate) fn batches(&self) -> &[Batch] {
        &self.batches[..usize::from(self.filled)]
    }

    /// Remembers one more batch.
    pub(crate) fn push(&mut self, batch: Batch) {
        if usize::from(self.filled) == BATCHES {
            self.batches.copy_within(1.., 0);
            self.batches[BATCHES - 1] = batch;
        } else {
            self.batches[usize::from(self.filled)] = batch;
            self.filled += 1;
        }
    }

    /// Sequence of the last record, −1 when none is remembered.
    pub(crate) fn last_sequence(&self) -> i32 {
        self.batches().last().map_or(-1, |batch| batch.last)
    }
}

/// What the sequence numbers of a batch say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// The next one; append it.
    Next,
    /// Appended before, here.
    Duplicate(Batch),
}

/// The sequence `count` records after `first`; wraps from `i32::MAX` to 0.
pub(crate) const fn sequence_plus(first: i32, count: i32) -> i32 {
    let sum = first as i64 + count as i64;
    #[expect(clippy::cast_possible_truncation, reason = "reduced modulo 2^31 before")]
    {
        (sum % (i32::MAX as i64 + 1)) as i32
    }
}

/// The producers of one partition.
#[derive(Debug)]
pub(crate) struct Producers {
    by_id: SeededMap<ProducerId, u32>,
    slots: Vec<Producer>,
    newest: u32,
    oldest: u32,
}

impl Producers {
    pub(crate) fn new(hash: SeededHash) -> Self {
        Self { by_id: SeededMap::with_hasher(hash), slots: Vec::new(), newest: NONE, oldest: NONE }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Checks a batch of `id` whose records have the sequences `first..=last`. Nothing is remembered yet.
    pub(crate) fn check(
        &self,
        id: ProducerId,
        epoch: ProducerEpoch,
        first: i32,
        last: i32,
        oldest_kept: WallMs,
    ) -> Result<Sequence, AppendError> {
        let Some(&slot) = self.by_id.get(&id) else { return Ok(Sequence::Next) };
        let known = &self.slots[slot as usize];
        if known.last_timestamp < oldest_kept {
            return Ok(Sequence::Next);
        }
        if epoch < known.epoch {
            return Err(AppendError::InvalidProducerEpoch);
        }
        if epoch > known.epoch {
            return if first == 0 { Ok(Sequence::Next) } else { Err(AppendError::OutOfOrderSequence) };
        }
        if let Some(batch) = known.batches().iter().find(|batch| batch.first == first && batch.last == last) {
            return Ok(Sequence::Duplicate(*batch));
        }
        let expected = match known.batches().last() {
            Some(batch) => sequence_plus(batch.last, 1),
            None => first,
        };
        if first == expected { Ok(Sequence::Next) } else { Err(AppendError::OutOfOrderSequence) }
    }

    /// Remembers an appended batch; forgets the least recently used producer when there would be more than `max`.
    pub(crate) fn record(&mut self, id: ProducerId, epoch: ProducerEpoch, batch: Batch, now: WallMs, max: u32) {
        let slot = match self.by_id.get(&id) {
            Some(&slot) => slot,
            None => self.add(Producer::new(id, epoch, now), max),
        };
        let known = &mut self.slots[slot as usize];
        if known.epoch != epoch {
            known.epoch = epoch;
            known.filled = 0;
        }
        known.last_timestamp = now;
        known.push(batch);
        self.touch(slot);
    }

    /// Puts a producer back as a snapshot holds it; the order of calls is the order of use.
    pub(crate) fn restore(&mut self, producer: Producer, max: u32) {
        if let Some(&slot) = self.by_id.get(&producer.id) {
            let known = &mut self.slots[slot as usize];
            let (newer, older) = (known.newer, known.older);
            *known = Producer { newer, older, ..producer };
            self.touch(slot);
        } else {
            self.add(producer, max);
        }
    }

    /// Forgets producers that were last seen before `oldest_kept`; at most `limit` of them.
    pub(crate) fn expire(&mut self, oldest_kept: WallMs, limit: usize) {
        for _ in 0..limit {
            if self.oldest == NONE || self.slots[self.oldest as usize].last_timestamp >= oldest_kept {
                return;
            }
            self.remove(self.oldest);
        }
    }

    /// All, least recently used first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Producer> {
        core::iter::successors(self.slots.get(self.oldest as usize), |producer| self.slots.get(producer.newer as usize))
    }

    /// As DescribeProducers shows them.
    pub(crate) fn infos(&self) -> Vec<ProducerInfo> {
        self.iter()
            .map(|producer| ProducerInfo {
                id: producer.id,
                epoch: producer.epoch,
                last_sequence: producer.last_sequence(),
                last_timestamp: producer.last_timestamp,
            })
            .collect()
    }

    fn add(&mut self, producer: Producer, max: u32) -> u32 {
        while !self.slots.is_empty() && self.slots.len() >= max as usize {
            self.remove(self.oldest);
        }
        let slot = u32::try_from(self.slots.len()).expect("bounded by max");
        self.by_id.insert(producer.id, slot);
        self.slots.push(Producer { newer: NONE, older: NONE, ..producer });
        self.link(slot);
        slot
    }

    fn touch(&mut self, slot: u32) {
        if self.newest != slot {
            self.unlink(slot);
            self.link(slot);
        }
    }

    fn link(&mut self, slot: u32) {
        let before = self.newest;
        self.slots[slot as usize].older = before;
        self.slots[slot as usize].newer = NONE;
        match self.slots.get_mut(before as usize) {
            Some(producer) if before != slot => producer.newer = slot,
            _ => self.oldest = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let (newer, older) = (self.slots[slot as usize].newer, self.slots[slot as usize].older);
        match self.slots.get_mut(newer as usize) {
            Some(producer) => producer.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(producer) => producer.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        self.by_id.remove(&self.slots[slot as usize].id);
        self.slots.swap_remove(slot as usize);
        let moved = u32::try_from(self.slots.len()).expect("slots are numbered by u32");
        if moved == slot {
            return;
        }
        // The last slot took the place: whoever named it must name the new one.
        let (id, newer, older) = {
            let producer = &self.slots[slot as usize];
            (producer.id, producer.newer, producer.older)
        };
        self.by_id.insert(id, slot);
        match self.slots.get_mut(newer as usize) {
            Some(producer) => producer.older = slot,
            None => self.newest = slot,
        }
        match self.slots.get_mut(older as usize) {
            Some(producer) => producer.newer = slot,
            None => self.oldest = slot,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_sign_loss, reason = "tests")]
    use super::*;

    fn batch(first: i32, count: i32, base: i64) -> Batch {
        let last = sequence_plus(first, count - 1);
        Batch { first, last, base: Offset(base), position: Position(base as u64), append_time: WallMs(-1) }
    }

    fn table() -> Producers {
        Producers::new(SeededHash(7))
    }

    fn record(table: &mut Producers, id: i64, epoch: i16, batch: Batch, now: i64, max: u32) {
        table.record(ProducerId(id), ProducerEpoch(epoch), batch, WallMs(now), max);
    }

    fn check(table: &Producers, id: i64, epoch: i16, first: i32, last: i32) -> Result<Sequence, AppendError> {
        table.check(ProducerId(id), ProducerEpoch(epoch), first, last, WallMs(0))
    }

    #[test]
    fn a_batch_must_follow_the_last_or_repeat_one_of_the_last_five() {
        let mut t = table();
        assert_eq!(check(&t, 1, 0, 17, 17), Ok(Sequence::Next), "an unknown producer may start anywhere");
        for i in 0..7 {
            record(&mut t, 1, 0, batch(i * 10, 10, i64::from(i) * 10), 1, 10);
        }
        assert_eq!(check(&t, 1, 0, 70, 79), Ok(Sequence::Next));
        assert_eq!(check(&t, 1, 0, 20, 29), Ok(Sequence::Duplicate(batch(20, 10, 20))), "the oldest of five");
        assert_eq!(check(&t, 1, 0, 10, 19), Err(AppendError::OutOfOrderSequence), "the sixth is forgotten");
        assert_eq!(check(&t, 1, 0, 20, 28), Err(AppendError::OutOfOrderSequence), "not the same batch");
        assert_eq!(check(&t, 1, 0, 80, 89), Err(AppendError::OutOfOrderSequence));
    }

    #[test]
    fn epochs_fence_and_a_new_one_starts_at_zero() {
        let mut t = table();
        record(&mut t, 1, 3, batch(0, 1, 0), 1, 10);
        assert_eq!(check(&t, 1, 2, 1, 1), Err(AppendError::InvalidProducerEpoch));
        assert_eq!(check(&t, 1, 4, 1, 1), Err(AppendError::OutOfOrderSequence));
        assert_eq!(check(&t, 1, 4, 0, 0), Ok(Sequence::Next), "the same sequence in a new epoch is no duplicate");
        record(&mut t, 1, 4, batch(0, 1, 1), 2, 10);
        assert_eq!(check(&t, 1, 4, 0, 0), Ok(Sequence::Duplicate(batch(0, 1, 1))));
        assert_eq!(check(&t, 1, 3, 1, 1), Err(AppendError::InvalidProducerEpoch));
    }

    #[test]
    fn sequences_wrap_from_the_largest_to_zero() {
        assert_eq!(sequence_plus(i32::MAX, 1), 0);
        assert_eq!(sequence_plus(i32::MAX - 1, 4), 2);
        let mut t = table();
        record(&mut t, 1, 0, batch(i32::MAX - 1, 2, 0), 1, 10);
        assert_eq!(check(&t, 1, 0, 0, 5), Ok(Sequence::Next));
        record(&mut t, 1, 0, batch(i32::MAX - 1, 3, 2), 1, 10);
        assert_eq!(check(&t, 1, 0, 1, 1), Ok(Sequence::Next));
    }

    #[test]
    fn the_least_recently_used_goes_first_and_the_idle_expire() {
        let mut t = table();
        for id in 0..4 {
            record(&mut t, id, 0, batch(0, 1, id), id, 4);
        }
        record(&mut t, 0, 0, batch(1, 1, 9), 9, 4);
        record(&mut t, 7, 0, batch(0, 1, 10), 10, 4);
        let ids: Vec<i64> = t.iter().map(|producer| producer.id.0).collect();
        assert_eq!(ids, [2, 3, 0, 7], "1 was used longest ago");
        assert_eq!(check(&t, 1, 0, 5, 5), Ok(Sequence::Next), "forgotten");
        t.expire(WallMs(9), 10);
        let ids: Vec<i64> = t.iter().map(|producer| producer.id.0).collect();
        assert_eq!(ids, [0, 7]);
        assert_eq!(t.check(ProducerId(0), ProducerEpoch(0), 77, 77, WallMs(10)), Ok(Sequence::Next), "expired unswept");
        for id in 100..1000 {
            record(&mut t, id, 0, batch(0, 1, id), id, 4);
            assert!(t.len() <= 4 && t.iter().count() == t.len() && t.by_id.len() == t.len());
        }
    }

    #[test]
    fn restoring_keeps_batches_and_order() {
        let mut t = table();
        for i in 0..3 {
            let mut producer = Producer::new(ProducerId(i), ProducerEpoch(1), WallMs(i));
            producer.push(batch(4, 2, i));
            t.restore(producer, 10);
        }
        assert_eq!(check(&t, 2, 1, 4, 5), Ok(Sequence::Duplicate(batch(4, 2, 2))));
        let infos = t.infos();
        assert_eq!(infos.iter().map(|info| info.id.0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(infos[1].last_sequence, 5);
    }
}
