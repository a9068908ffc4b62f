//! What the store knows of one partition, and the table of them. An idle partition takes well under 1 KiB.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::{SeededHash, SeededMap, TopicConfig};
use base::message::Bounds;
use base::{Epoch, JournalId, Offset, PartitionId, Position, ProducerEpoch, ProducerId, WallMs};

use crate::format::{BatchState, FrameHeader, PartitionState, ProducerState};
use crate::index::{Fences, RunRef};
use crate::producers::{Batch, Producer, Producers};

/// No frame: the end of a list of tail frames.
pub(crate) const NO_FRAME: u64 = u64::MAX;

/// No slot: the end of a partition's list of homes.
const NO_SLOT: u32 = u32::MAX;

/// What a journal is to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its open home.
    Open,
    /// Its open home still, as metadata has it, but closed: it is about to move. By which frame; 0: the process before may
    /// have written one.
    Closed { frame: Position },
    /// Opened by a frame here, which metadata does not know of yet.
    Entering { frame: Position },
    /// A home that it left: what lies here is read, and nothing follows.
    Left,
}

/// Offsets that a partition had in a journal, from `first` on and below `end`, before it moved away and came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stay {
    pub(crate) first: Offset,
    pub(crate) end: Offset,
}

/// One partition in one of the shard's journals. One that has moved may be in several.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    /// Slot of the journal.
    pub(crate) journal: u16,
    /// Slot of the same partition in another journal of the shard.
    next_home: u32,
    pub(crate) standing: Standing,
    /// Where it is to go.
    pub(crate) moving: Option<JournalId>,
    /// First offset of its last stay in the journal.
    pub(crate) first: Offset,
    /// Its stays before, oldest first.
    pub(crate) earlier: Vec<Stay>,
    /// Whether it changed since the last checkpoint record.
    pub(crate) dirty: bool,
    /// Settings; `None` while metadata has not named it: then its data is kept and not served.
    pub(crate) config: Option<Arc<TopicConfig>>,
    /// First offset that is served.
    pub(crate) log_start: Offset,
    /// The log start once all appended control frames are committed, and stated again.
    pub(crate) next_start: Offset,
    /// Log start that does not fall whichever unit is damaged: two committed units state it.
    pub(crate) sure_start: Offset,
    /// First offset not committed.
    pub(crate) high_watermark: Offset,
    /// Next offset to be given.
    pub(crate) log_end: Offset,
    /// Highest timestamp the broker stamped; LogAppendTime does not step back behind it.
    pub(crate) last_timestamp: WallMs,
    /// Retained bytes of batches.
    pub(crate) bytes: u64,
    /// Bytes of batches appended by this process.
    pub(crate) written: u64,
    /// Runs that end before this offset are not in `bytes` any more.
    pub(crate) counted: Offset,
    /// Nothing of it expires before; the smallest value where the index must be asked.
    pub(crate) expires: WallMs,
    /// The first unit that states its log start; 0: it is not known which one does, but some do.
    pub(crate) moved: Option<Position>,
    pub(crate) run: RunRef,
    pub(crate) fences: Fences,
    /// Epochs in which records were appended, each with its first offset, rising.
    pub(crate) epochs: Vec<(Epoch, Offset)>,
    pub(crate) producers: Option<Box<Producers>>,
    /// Unit of the newest frame that says where its log ends; one that moves the log start does not.
    pub(crate) newest: Position,
    /// Unit of its newest snapshot that this process wrote; 0: none.
    pub(crate) snapshotted: Position,
    /// Tail frames: the oldest, the newest, and the one a reader came to last.
    pub(crate) tail_oldest: u64,
    pub(crate) tail_newest: u64,
    pub(crate) cursor: u64,
    /// The fold that last announced it, so that one commit announces it once.
    pub(crate) announced: u64,
}

impl Partition {
    pub(crate) fn new(id: PartitionId, journal: u16) -> Self {
        Self {
            id,
            journal,
            next_home: NO_SLOT,
            standing: Standing::Open,
            moving: None,
            first: Offset(0),
            earlier: Vec::new(),
            dirty: false,
            config: None,
            log_start: Offset(0),
            next_start: Offset(0),
            sure_start: Offset(0),
            high_watermark: Offset(0),
            log_end: Offset(0),
            last_timestamp: WallMs(-1),
            bytes: 0,
            written: 0,
            counted: Offset(0),
            expires: WallMs(i64::MIN),
            moved: None,
            run: RunRef::NONE,
            fences: Fences::default(),
            epochs: Vec::new(),
            producers: None,
            newest: Position(0),
            snapshotted: Position(0),
            tail_oldest: NO_FRAME,
            tail_newest: NO_FRAME,
            cursor: NO_FRAME,
            announced: 0,
        }
    }

    /// From where on its frames count as living: its log start, or where they are counted in its bytes if that is lower.
    pub(crate) fn kept_from(&self) -> Offset {
        self.log_start.min(self.counted)
    }

    /// Whether metadata names the journal as its open home.
    pub(crate) const fn is_at_home(&self) -> bool {
        matches!(self.standing, Standing::Open | Standing::Closed { .. })
    }

    /// Whether its records expire by its own settings here: of one that has moved the older homes come first.
    pub(crate) fn expires_here(&self) -> bool {
        self.standing == Standing::Open && self.next_start >= self.first
    }

    /// Where what can be read from `from` on in this journal ends; `None`: the offset is not here.
    pub(crate) fn readable_to(&self, from: Offset) -> Option<Offset> {
        if from >= self.first {
            let here = self.is_at_home() || from < self.high_watermark;
            return here.then_some(self.high_watermark);
        }
        let stay = self.earlier.iter().find(|stay| stay.first <= from && from < stay.end)?;
        Some(stay.end)
    }

    pub(crate) fn bounds(&self, epoch: Epoch) -> Bounds {
        Bounds {
            log_start: self.log_start,
            high_watermark: self.high_watermark,
            log_end: self.log_end,
            epoch,
            bytes: self.bytes,
        }
    }

    /// Notes that records from `first` on carry `epoch`.
    pub(crate) fn note_epoch(&mut self, epoch: Epoch, first: Offset) {
        if self.epochs.last().is_none_or(|(last, _)| *last < epoch) {
            self.epochs.reserve_exact(1);
            self.epochs.push((epoch, first));
        }
    }

    /// Whether a frame at `base` was written in a life before the one that wrote what is there now: a crash cut it off, and the
    /// write that should have taken its place never came to be. Of offsets before the first epoch that is remembered nothing
    /// is known.
    pub(crate) fn outdates(&self, epoch: Epoch, base: Offset) -> bool {
        let after = self.epochs.partition_point(|(_, first)| *first <= base);
        let known = after.checked_sub(1).map(|at| self.epochs[at].0);
        known.is_some_and(|known| epoch < known) && !cfg!(fault = "no-epoch-in-units")
    }

    /// Drops epochs that ended at or below the log start.
    pub(crate) fn trim_epochs(&mut self) {
        let start = self.next_start;
        let gone = self.epochs.partition_point(|(_, first)| *first <= start).saturating_sub(1);
        self.epochs.drain(..gone);
    }

    /// The highest epoch at or below `epoch`, and where it ends.
    pub(crate) fn epoch_end(&self, epoch: Epoch) -> Option<(Epoch, Offset)> {
        let after = self.epochs.partition_point(|(known, _)| *known <= epoch);
        let (found, _) = *self.epochs.get(after.checked_sub(1)?)?;
        Some((found, self.epochs.get(after).map_or(self.log_end, |(_, first)| *first)))
    }

    /// As snapshots and checkpoints hold it: with everything that was appended, committed or not.
    pub(crate) fn state(&self) -> PartitionState {
        let batch = |batch: &Batch| BatchState {
            first_sequence: batch.first,
            last_sequence: batch.last,
            base_offset: batch.base,
            append_time: batch.append_time,
        };
        let producer = |producer: &Producer| ProducerState {
            id: producer.id,
            epoch: producer.epoch,
            last_seen: producer.last_timestamp,
            batches: producer.batches().iter().map(batch).collect(),
        };
        PartitionState {
            partition: self.id,
            next_offset: self.log_end,
            log_start: self.next_start,
            last_timestamp: self.last_timestamp,
            epochs: self.epochs.clone(),
            producers: self.producers.as_ref().map(|all| all.iter().map(producer).collect()).unwrap_or_default(),
        }
    }

    /// Takes in that a unit states this log start. Two units must: then it is sure.
    pub(crate) fn note_start(&mut self, start: Offset, unit: Position) {
        // What was deleted had been committed.
        self.log_end = self.log_end.max(start);
        if start > self.next_start {
            self.next_start = start;
            self.moved = Some(unit);
        } else if self.moved.is_some_and(|first| first != unit) {
            self.sure_start = self.sure_start.max(start);
        }
    }

    /// Takes over a state that is newer than what is known.
    pub(crate) fn restore(&mut self, state: PartitionState, hash: SeededHash, producers_max: u32) {
        self.log_end = self.log_end.max(state.next_offset);
        self.next_start = self.next_start.max(state.log_start);
        self.last_timestamp = self.last_timestamp.max(state.last_timestamp);
        if state.epochs.last() > self.epochs.last() || self.epochs.is_empty() {
            self.epochs = state.epochs;
            self.epochs.shrink_to_fit();
        }
        self.trim_epochs();
        for from in state.producers {
            let mut producer = Producer::new(from.id, from.epoch, from.last_seen);
            for batch in from.batches {
                producer.push(Batch {
                    first: batch.first_sequence,
                    last: batch.last_sequence,
                    base: batch.base_offset,
                    // A snapshot holds committed batches only: whatever waits for them is answered at once.
                    position: Position(0),
                    append_time: batch.append_time,
                });
            }
            self.producers_mut(hash).restore(producer, producers_max);
        }
    }

    /// Whether any producer is remembered.
    pub(crate) fn has_producers(&self) -> bool {
        self.producers.as_ref().is_some_and(|producers| producers.len() > 0)
    }

    /// The producer table, made when first used.
    pub(crate) fn producers_mut(&mut self, hash: SeededHash) -> &mut Producers {
        self.producers.get_or_insert_with(|| Box::new(Producers::new(hash)))
    }

    /// Remembers a batch of an idempotent producer.
    pub(crate) fn record_producer(
        &mut self,
        (id, epoch): (ProducerId, ProducerEpoch),
        batch: Batch,
        now: WallMs,
        (hash, max): (SeededHash, u32),
    ) {
        self.producers_mut(hash).record(id, epoch, batch, now, max);
    }
}

/// The partitions of a shard, in slots that stay put.
#[derive(Debug)]
pub(crate) struct Partitions {
    slots: Vec<Option<Partition>>,
    free: Vec<u32>,
    by_id: SeededMap<PartitionId, u32>,
}

impl Partitions {
    pub(crate) fn new(hash: SeededHash) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), by_id: SeededMap::with_hasher(hash) }
    }

    pub(crate) fn slot(&self, id: PartitionId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn get(&self, id: PartitionId) -> Option<&Partition> {
        self.at(self.slot(id)?)
    }

    /// The slots of a partition in all journals of the shard: its open home first, if that is here.
    pub(crate) fn homes(&self, id: PartitionId) -> impl Iterator<Item = u32> {
        let mut next = self.slot(id);
        core::iter::from_fn(move || {
            let slot = next?;
            next = self.at(slot).map(|partition| partition.next_home).filter(|next| *next != NO_SLOT);
            Some(slot)
        })
    }

    /// The slot of a partition in one journal.
    pub(crate) fn slot_in(&self, journal: u16, id: PartitionId) -> Option<u32> {
        self.homes(id).find(|slot| self.at(*slot).is_some_and(|partition| partition.journal == journal))
    }

    pub(crate) fn get_in(&self, journal: u16, id: PartitionId) -> Option<&Partition> {
        self.at(self.slot_in(journal, id)?)
    }

    pub(crate) fn get_in_mut(&mut self, journal: u16, id: PartitionId) -> Option<&mut Partition> {
        let slot = self.slot_in(journal, id)?;
        self.at_mut(slot)
    }

    /// The slot of the partition where an offset is.
    pub(crate) fn holding(&self, id: PartitionId, offset: Offset) -> Option<u32> {
        self.homes(id).find(|slot| self.at(*slot).is_some_and(|partition| partition.readable_to(offset).is_some()))
    }

    /// The highest log start that a journal of the shard knows.
    pub(crate) fn log_start(&self, id: PartitionId) -> Option<Offset> {
        self.homes(id).filter_map(|slot| Some(self.at(slot)?.log_start)).max()
    }

    /// Puts one of a partition's slots before the others.
    pub(crate) fn put_first(&mut self, id: PartitionId, slot: u32) {
        let order: Vec<u32> = core::iter::once(slot).chain(self.homes(id).filter(|other| *other != slot)).collect();
        self.link(id, &order);
    }

    /// Makes those slots, in order, the homes of a partition.
    fn link(&mut self, id: PartitionId, order: &[u32]) {
        match order.first() {
            Some(first) => self.by_id.insert(id, *first),
            None => self.by_id.remove(&id),
        };
        for (at, slot) in order.iter().enumerate() {
            if let Some(partition) = self.at_mut(*slot) {
                partition.next_home = order.get(at + 1).copied().unwrap_or(NO_SLOT);
            }
        }
    }

    pub(crate) fn at(&self, slot: u32) -> Option<&Partition> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut Partition> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// The partition of a journal's tail frame: its slot may have been given to another since.
    pub(crate) fn of_frame(&mut self, journal: u16, slot: u32, id: PartitionId) -> Option<&mut Partition> {
        self.at_mut(slot).filter(|partition| (partition.journal, partition.id) == (journal, id))
    }

    /// Whether a record frame is one of an earlier life; see [`Partition::outdates`].
    pub(crate) fn outdate(&self, header: &FrameHeader) -> bool {
        self.get(header.partition).is_some_and(|partition| partition.outdates(header.epoch, header.base_offset))
    }

    /// Adds a partition that is not there in this journal: behind its other homes.
    pub(crate) fn insert(&mut self, partition: Partition) -> u32 {
        let (id, journal) = (partition.id, partition.journal);
        assert!(self.slot_in(journal, id).is_none(), "partition {id} added twice");
        let mut order: Vec<u32> = self.homes(id).collect();
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 partitions")
            }
        };
        self.slots[slot as usize] = Some(partition);
        order.push(slot);
        self.link(id, &order);
        slot
    }

    /// Removes a partition from one journal.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Partition> {
        let id = self.at(slot)?.id;
        let order: Vec<u32> = self.homes(id).filter(|other| *other != slot).collect();
        self.link(id, &order);
        self.free.push(slot);
        self.slots[slot as usize].take()
    }

    /// How many slots there are, for sweeps in slices.
    pub(crate) fn slots(&self) -> u32 {
        u32::try_from(self.slots.len()).expect("fewer than 2^32 partitions")
    }

    /// The slots of a journal's partitions.
    pub(crate) fn slots_of(&self, journal: u16) -> Vec<u32> {
        let of = |slot: &u32| self.at(*slot).is_some_and(|partition| partition.journal == journal);
        (0..self.slots()).filter(of).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Partition> {
        self.slots.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_partition_with_a_producer_takes_less_than_a_kibibyte() {
        let map_entry = 2 * size_of::<(PartitionId, u32)>();
        let fences = crate::index::FENCES * size_of::<crate::index::Fence>();
        let table = size_of::<Producers>() + size_of::<Producer>() + 4 * (size_of::<(ProducerId, u32)>() + 1) + 16;
        let all = size_of::<Option<Partition>>() + map_entry + fences + 2 * size_of::<(Epoch, Offset)>() + table;
        assert!(all <= 1024, "{all}");
    }

    #[test]
    fn epochs_end_where_the_next_begins() {
        let mut partition = Partition::new(PartitionId(1), 0);
        assert_eq!(partition.epoch_end(Epoch(9)), None);
        for (epoch, first) in [(2, 0), (2, 5), (5, 10), (6, 20)] {
            partition.note_epoch(Epoch(epoch), Offset(first));
        }
        partition.log_end = Offset(30);
        assert_eq!(partition.epoch_end(Epoch(1)), None);
        assert_eq!(partition.epoch_end(Epoch(2)), Some((Epoch(2), Offset(10))));
        assert_eq!(partition.epoch_end(Epoch(4)), Some((Epoch(2), Offset(10))));
        assert_eq!(partition.epoch_end(Epoch(6)), Some((Epoch(6), Offset(30))));
        assert!(!partition.outdates(Epoch(2), Offset(9)) && partition.outdates(Epoch(2), Offset(10)));
        assert!(!partition.outdates(Epoch(5), Offset(19)) && partition.outdates(Epoch(5), Offset(25)));
        partition.next_start = Offset(10);
        partition.trim_epochs();
        assert_eq!(partition.epochs, [(Epoch(5), Offset(10)), (Epoch(6), Offset(20))]);
        assert!(!partition.outdates(Epoch(1), Offset(9)), "nothing is known of it any more");
    }

    #[test]
    fn a_state_comes_back_as_it_went() {
        let hash = SeededHash(1);
        let mut partition = Partition::new(PartitionId(4), 0);
        partition.log_end = Offset(30);
        partition.next_start = Offset(7);
        partition.last_timestamp = WallMs(99);
        partition.note_epoch(Epoch(3), Offset(0));
        let batch = Batch { first: 0, last: 9, base: Offset(20), position: Position(4096), append_time: WallMs(5) };
        partition.record_producer((ProducerId(8), ProducerEpoch(1)), batch, WallMs(50), (hash, 10));
        let state = partition.state();
        let mut again = Partition::new(PartitionId(4), 0);
        again.restore(state.clone(), hash, 10);
        assert_eq!(again.state(), state);
    }

    #[test]
    fn a_slot_given_to_another_is_told_from_its_first_owner() {
        let mut all = Partitions::new(SeededHash(1));
        let slot = all.insert(Partition::new(PartitionId(1), 0));
        all.remove(slot);
        assert_eq!(all.insert(Partition::new(PartitionId(2), 0)), slot);
        assert!(all.of_frame(0, slot, PartitionId(1)).is_none());
        assert!(all.of_frame(0, slot, PartitionId(2)).is_some());
    }
}
