//! Offsets that are known to be damaged, so that an operator sees them and where readers go on.

use alloc::vec::Vec;

use base::memory::Arena;
use base::message::DamagedRange;
use base::{Offset, PartitionId};

use crate::partition::Partitions;
use crate::store::{Effect, Store};

/// Ranges remembered in a shard: 24 bytes each. Further ones are refused to readers like these, and not told of.
const RANGES_MAX: usize = 1000;

/// What is known to be damaged.
#[derive(Debug, Default)]
pub(crate) struct Damaged {
    /// By partition and the offset behind it.
    ranges: Vec<DamagedRange>,
    /// Found by recovery and not told of yet.
    due: Vec<DamagedRange>,
}

impl Damaged {
    /// Takes in a range. Whether it is a new one that is remembered.
    fn note(&mut self, range: DamagedRange, partitions: &Partitions) -> bool {
        let key = |known: &DamagedRange| (known.partition, known.next);
        match self.ranges.binary_search_by_key(&key(&range), key) {
            Ok(at) => {
                let known = &mut self.ranges[at];
                // A reader that asked for something in the middle knew no better.
                known.first = known.first.min(range.first);
                false
            }
            Err(_) => {
                self.ranges.retain(|known| is_kept(known, partitions));
                if self.ranges.len() == RANGES_MAX {
                    return false;
                }
                let at = self.ranges.partition_point(|known| key(known) < key(&range));
                self.ranges.insert(at, range);
                true
            }
        }
    }

    /// Cuts what recovery gave up of a partition behind `end`: it went on elsewhere from there.
    pub(crate) fn cut(&mut self, partition: PartitionId, end: Offset) {
        for range in self.due.iter_mut().filter(|range| range.partition == partition && range.first < end) {
            range.next = range.next.min(end);
        }
        self.due.retain(|range| range.partition != partition || range.first < end);
    }

    /// Takes in what recovery found; it is told of when the store is pumped first.
    pub(crate) fn recovered(&mut self, range: DamagedRange) {
        self.due.push(range);
    }
}

/// Whether any of it is still in the log.
fn is_kept(range: &DamagedRange, partitions: &Partitions) -> bool {
    partitions.log_start(range.partition).is_some_and(|start| start < range.next)
}

impl<A: Arena> Store<A> {
    /// Notes that a reader of `first` finds nothing before `next`. Tells of it once.
    pub(crate) fn note_damage(&mut self, partition: PartitionId, first: Offset, next: Offset, out: &mut Vec<Effect>) {
        let range = DamagedRange { partition, first, next };
        if self.damaged.note(range, &self.partitions) {
            out.push(Effect::Damaged { range });
        }
    }

    /// Tells of what recovery found.
    pub(crate) fn tell_damage(&mut self, out: &mut Vec<Effect>) {
        for range in core::mem::take(&mut self.damaged.due) {
            if is_kept(&range, &self.partitions) {
                self.note_damage(range.partition, range.first, range.next, out);
            }
        }
    }

    /// Ranges of offsets that a start or a read found damaged, as far as they are still in the log; by partition and offset, at
    /// most a thousand.
    pub fn damaged_ranges(&self) -> impl Iterator<Item = DamagedRange> {
        self.damaged.ranges.iter().copied().filter(|range| is_kept(range, &self.partitions))
    }
}
