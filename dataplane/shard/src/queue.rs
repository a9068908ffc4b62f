//! Deficit round-robin over partitions (Shreedhar & Varghese 1995): who may append next when room is scarce.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use base::PartitionId;
use base::image::{SeededHash, SeededMap};

/// What became of an item that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// It is done with.
    Taken,
    /// There is no room for it now, though there may be for those of other partitions.
    Blocked,
    /// There is no room now; nothing else is offered.
    Busy,
}

struct Lane<T> {
    items: VecDeque<(u32, T)>,
    deficit: u64,
    /// This visit's quantum is given.
    granted: bool,
}

/// Items by partition, in order within each, served in turns of about `quantum` bytes.
pub(crate) struct FairQueue<T> {
    lanes: SeededMap<PartitionId, Lane<T>>,
    /// Partitions that have items, each once; the front is being served.
    turns: VecDeque<PartitionId>,
    quantum: u32,
    bytes: usize,
    spare: Vec<VecDeque<(u32, T)>>,
}

/// Emptied lanes kept for the next partition that needs one.
const SPARE_LANES_MAX: usize = 64;

impl<T> FairQueue<T> {
    /// A queue that gives each partition `quantum` bytes a turn.
    pub(crate) fn new(quantum: u32, hash: SeededHash) -> Self {
        assert!(quantum > 0);
        Self { lanes: SeededMap::with_hasher(hash), turns: VecDeque::new(), quantum, bytes: 0, spare: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts `item` of `cost` bytes behind the others of its partition.
    pub(crate) fn push(&mut self, partition: PartitionId, cost: u32, item: T) {
        let spare = &mut self.spare;
        let turns = &mut self.turns;
        let lane = self.lanes.entry(partition).or_insert_with(|| {
            turns.push_back(partition);
            Lane { items: spare.pop().unwrap_or_default(), deficit: 0, granted: false }
        });
        lane.items.push_back((cost, item));
        self.bytes += cost as usize;
    }

    /// Offers items in fair order until there is no room or none is left.
    pub(crate) fn serve(&mut self, mut offer: impl FnMut(PartitionId, &T) -> Served) {
        // Partitions in a row that were blocked: when all are, nothing more can come of it.
        let mut blocked = 0;
        'lanes: while let Some(&partition) = self.turns.front() {
            if blocked == self.turns.len() {
                return;
            }
            let lane = self.lanes.get_mut(&partition).expect("a partition with a turn has a lane");
            if !lane.granted {
                lane.granted = true;
                lane.deficit += u64::from(self.quantum);
            }
            while let Some((cost, item)) = lane.items.front() {
                if u64::from(*cost) > lane.deficit {
                    break;
                }
                match offer(partition, item) {
                    Served::Taken => blocked = 0,
                    Served::Busy => return,
                    Served::Blocked => {
                        blocked += 1;
                        self.turns.rotate_left(1);
                        continue 'lanes;
                    }
                }
                lane.deficit -= u64::from(*cost);
                self.bytes -= *cost as usize;
                lane.items.pop_front();
            }
            lane.granted = false;
            self.turns.pop_front();
            if lane.items.is_empty() {
                let lane = self.lanes.remove(&partition).expect("looked up above");
                if self.spare.len() < SPARE_LANES_MAX {
                    self.spare.push(lane.items);
                }
            } else {
                self.turns.push_back(partition);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> FairQueue<u32> {
        FairQueue::new(100, SeededHash(7))
    }

    #[test]
    fn a_hot_partition_does_not_starve_the_others() {
        let mut queue = queue();
        for i in 0..100 {
            queue.push(PartitionId(1), 50, i);
        }
        queue.push(PartitionId(2), 50, 1000);
        queue.push(PartitionId(3), 50, 1001);
        let mut order = Vec::new();
        queue.serve(|partition, _| {
            order.push(partition.0);
            Served::Taken
        });
        assert_eq!(&order[..5], &[1, 1, 2, 3, 1], "one quantum each");
        assert_eq!(order.len(), 102);
        assert!(queue.is_empty());
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn items_of_a_partition_keep_their_order_over_a_busy_spell() {
        let mut queue = queue();
        for i in 0..10 {
            queue.push(PartitionId(1), 30, i);
        }
        let mut seen = Vec::new();
        for room in [0, 3, 1, 20] {
            let mut room = room;
            queue.serve(|_, &item| {
                if room == 0 {
                    return Served::Busy;
                }
                room -= 1;
                seen.push(item);
                Served::Taken
            });
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn being_refused_again_and_again_earns_no_credit() {
        let mut queue = queue();
        for i in 0..10 {
            queue.push(PartitionId(1), 100, i);
            queue.push(PartitionId(2), 100, i);
        }
        for _ in 0..50 {
            queue.serve(|_, _| Served::Busy);
        }
        let mut order = Vec::new();
        queue.serve(|partition, _| {
            order.push(partition.0);
            Served::Taken
        });
        assert_eq!(&order[..4], &[1, 2, 1, 2]);
    }

    #[test]
    fn a_blocked_partition_holds_up_nobody_else() {
        let mut queue = queue();
        for i in 0..4 {
            queue.push(PartitionId(1), 100, i);
            queue.push(PartitionId(2), 100, i);
        }
        let mut order = Vec::new();
        let mut offer = |partition: PartitionId, item: &u32| {
            if partition.0 == 1 {
                return Served::Blocked;
            }
            order.push(*item);
            Served::Taken
        };
        queue.serve(&mut offer);
        queue.serve(&mut offer);
        assert_eq!(order, [0, 1, 2, 3]);
        assert_eq!(queue.bytes(), 400);
    }

    #[test]
    fn an_item_larger_than_the_quantum_is_served_after_enough_rounds() {
        let mut queue = queue();
        queue.push(PartitionId(1), 250, 1);
        queue.push(PartitionId(2), 100, 2);
        queue.push(PartitionId(2), 100, 3);
        queue.push(PartitionId(2), 100, 4);
        let mut order = Vec::new();
        queue.serve(|_, &item| {
            order.push(item);
            Served::Taken
        });
        assert_eq!(order, [2, 3, 1, 4]);
    }
}
