//! Reads that wait for data, found again by partition, by request and by deadline.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use base::image::{SeededHash, SeededMap};
use base::{Mono, PartitionId};
use slab::Slab;

use crate::remote::{ReadItem, RequestKey};

/// A read that found too little.
pub(crate) struct WaitingRead {
    pub(crate) key: RequestKey,
    pub(crate) items: Vec<ReadItem>,
    pub(crate) bytes_max: u32,
    pub(crate) more_than: u32,
    pub(crate) deadline: Mono,
    /// Its deadline passed while a device read was on its way, and was moved once.
    pub(crate) extended: bool,
    dirty: bool,
}

impl WaitingRead {
    pub(crate) fn new(key: RequestKey, items: Vec<ReadItem>, bytes_max: u32, more_than: u32, deadline: Mono) -> Self {
        Self { key, items, bytes_max, more_than, deadline, extended: false, dirty: false }
    }
}

/// All waiting reads of a shard.
pub(crate) struct Waiting {
    reads: Slab<WaitingRead>,
    /// Those who are to be tried again anyway may be missing here.
    by_partition: SeededMap<PartitionId, Vec<usize>>,
    by_key: SeededMap<RequestKey, usize>,
    deadlines: BTreeSet<(Mono, usize)>,
    /// To be tried again; each once.
    dirty: VecDeque<usize>,
    partitions: usize,
    /// Emptied lists of `by_partition`, for the next partition that is waited on.
    spare: Vec<Vec<usize>>,
}

/// Emptied lists kept: a session of so many partitions begins to wait without allocating.
const SPARE_MAX: usize = 4096;

impl Waiting {
    pub(crate) fn new(hash: SeededHash) -> Self {
        Self {
            reads: Slab::new(),
            by_partition: SeededMap::with_hasher(hash),
            by_key: SeededMap::with_hasher(hash),
            deadlines: BTreeSet::new(),
            dirty: VecDeque::new(),
            partitions: 0,
            spare: Vec::new(),
        }
    }

    /// Reads that wait.
    pub(crate) fn len(&self) -> usize {
        self.reads.len()
    }

    /// Partitions in them, each counted for each read.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    /// Begins to wait. A read of the same request that waited already is replaced.
    pub(crate) fn insert(&mut self, mut read: WaitingRead) {
        self.remove(read.key);
        read.dirty = false;
        self.partitions += read.items.len();
        let entry = self.reads.vacant_entry();
        let id = entry.key();
        for item in &read.items {
            let spare = &mut self.spare;
            let ids = self.by_partition.entry(item.partition).or_insert_with(|| spare.pop().unwrap_or_default());
            // A hostile request may name a partition twice.
            if ids.last() != Some(&id) {
                ids.push(id);
            }
        }
        self.by_key.insert(read.key, id);
        self.deadlines.insert((read.deadline, id));
        entry.insert(read);
    }

    /// Ends the waiting of a request's read.
    pub(crate) fn remove(&mut self, key: RequestKey) -> Option<WaitingRead> {
        let id = self.by_key.remove(&key)?;
        let read = self.reads.remove(id);
        self.partitions -= read.items.len();
        self.deadlines.remove(&(read.deadline, id));
        for item in &read.items {
            if let Some(ids) = self.by_partition.get_mut(&item.partition) {
                // From the back: what waits longest is rarely what leaves.
                if let Some(at) = ids.iter().rposition(|&other| other == id) {
                    ids.swap_remove(at);
                }
                if ids.is_empty()
                    && let Some(ids) = self.by_partition.remove(&item.partition)
                {
                    self.keep(ids);
                }
            }
        }
        if read.dirty {
            self.dirty.retain(|&other| other != id);
        }
        Some(read)
    }

    /// Something may be there to read for those who wait on this partition. They leave its list: however many they are,
    /// each is found again at once when it is tried.
    pub(crate) fn wake(&mut self, partition: PartitionId) {
        let Some(mut ids) = self.by_partition.remove(&partition) else { return };
        for id in ids.drain(..) {
            let read = &mut self.reads[id];
            if !read.dirty {
                read.dirty = true;
                self.dirty.push_back(id);
            }
        }
        self.keep(ids);
    }

    /// Keeps an emptied list.
    fn keep(&mut self, ids: Vec<usize>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(ids);
        }
    }

    /// Everybody is tried again.
    pub(crate) fn wake_all(&mut self) {
        for (id, read) in &mut self.reads {
            if !read.dirty {
                read.dirty = true;
                self.dirty.push_back(id);
            }
        }
    }

    /// Everybody's time is up.
    pub(crate) fn hurry(&mut self, now: Mono) {
        self.deadlines.clear();
        for (id, read) in &mut self.reads {
            read.deadline = now;
            read.extended = true;
            self.deadlines.insert((now, id));
        }
    }

    /// A read to try again: it was woken, or its deadline has passed.
    pub(crate) fn next(&mut self, now: Mono) -> Option<WaitingRead> {
        let id = match self.dirty.pop_front() {
            Some(id) => {
                self.reads[id].dirty = false;
                id
            }
            None => self.deadlines.first().filter(|(deadline, _)| *deadline <= now)?.1,
        };
        let key = self.reads[id].key;
        self.remove(key)
    }

    /// The earliest deadline.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

    use super::*;
    use base::{ConnId, Epoch, Offset, ShardId};

    fn key(conn: u64) -> RequestKey {
        RequestKey { shard: ShardId(0), conn: ConnId(conn), sequence: 0 }
    }

    fn read(conn: u64, partitions: &[u64], deadline: u64) -> WaitingRead {
        let item = |&partition: &u64| ReadItem {
            slot: 0,
            partition: PartitionId(partition),
            offset: Offset(0),
            bytes_max: 100,
            current_epoch: Epoch(-1),
            last_fetched_epoch: Epoch(-1),
            part: crate::remote::ReadPart::Whole,
        };
        WaitingRead::new(key(conn), partitions.iter().map(item).collect(), 100, 0, Mono(deadline))
    }

    #[test]
    fn only_those_who_wait_on_the_partition_wake() {
        let mut waiting = Waiting::new(SeededHash(1));
        waiting.insert(read(1, &[10, 11], 100));
        waiting.insert(read(2, &[11], 100));
        waiting.insert(read(3, &[12], 100));
        waiting.wake(PartitionId(11));
        waiting.wake(PartitionId(11));
        let mut woken = Vec::new();
        while let Some(read) = waiting.next(Mono(0)) {
            woken.push(read.key.conn.0);
        }
        woken.sort_unstable();
        assert_eq!(woken, [1, 2]);
        assert_eq!((waiting.len(), waiting.partitions()), (1, 1));
    }

    #[test]
    fn deadlines_come_in_order_and_a_cancelled_read_never_comes() {
        let mut waiting = Waiting::new(SeededHash(1));
        waiting.insert(read(1, &[1], 30));
        waiting.insert(read(2, &[1], 20));
        waiting.insert(read(3, &[1], 10));
        waiting.wake(PartitionId(1));
        waiting.remove(key(2)).unwrap();
        assert!(waiting.remove(key(2)).is_none());
        assert_eq!(waiting.deadline(), Some(Mono(10)));
        waiting.dirty.clear();
        for (_, read) in &mut waiting.reads {
            read.dirty = false;
        }
        assert_eq!(waiting.next(Mono(50)).unwrap().key, key(3));
        assert_eq!(waiting.next(Mono(50)).unwrap().key, key(1));
        assert!(waiting.next(Mono(50)).is_none());
        assert!(waiting.by_partition.is_empty() && waiting.by_key.is_empty() && waiting.deadlines.is_empty());
    }

    #[test]
    fn waiting_again_under_the_same_key_replaces_and_naming_a_partition_twice_leaves_nothing_behind() {
        let mut waiting = Waiting::new(SeededHash(1));
        waiting.insert(read(1, &[1, 2, 1, 1], 30));
        waiting.insert(read(1, &[3], 40));
        assert_eq!((waiting.len(), waiting.partitions()), (1, 1));
        waiting.wake(PartitionId(1));
        assert!(waiting.next(Mono(0)).is_none());
        waiting.remove(key(1)).unwrap();
        assert!(waiting.by_partition.is_empty());
    }
}
