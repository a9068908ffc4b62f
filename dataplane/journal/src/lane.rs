//! The flushes of one device, coalesced over the shard's journals: at most one flies, and it covers the writes whose
//! completion was reaped before it was submitted.

use alloc::vec::Vec;

use base::DeviceIndex;

use crate::store::Durability;

/// One device as this shard flushes it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) device: DeviceIndex,
    pub(crate) durability: Durability,
    /// Number of the flush in flight.
    pub(crate) flying: Option<u64>,
    /// Journals (by slot) with a write that the flush in flight covers.
    pub(crate) covered: Vec<u16>,
    /// Journals with a complete write that no flush covers yet; may name one twice.
    pub(crate) waiting: Vec<u16>,
    /// Number of the flush submitted last.
    pub(crate) serial: u64,
    /// Number of the last flush that succeeded.
    pub(crate) flushed: u64,
}

impl Lane {
    pub(crate) fn new(device: DeviceIndex, durability: Durability) -> Self {
        Self { device, durability, flying: None, covered: Vec::new(), waiting: Vec::new(), serial: 0, flushed: 0 }
    }

    /// Notes a complete write of a journal that needs a flush.
    pub(crate) fn wait(&mut self, journal: u16) {
        if self.waiting.last() != Some(&journal) {
            self.waiting.push(journal);
        }
    }

    /// Starts a flush if one is needed and none flies: its number.
    pub(crate) fn start(&mut self) -> Option<u64> {
        if self.flying.is_some() || self.waiting.is_empty() {
            return None;
        }
        self.serial += 1;
        self.flying = Some(self.serial);
        core::mem::swap(&mut self.covered, &mut self.waiting);
        self.waiting.clear();
        self.flying
    }

    /// The flush in flight is complete.
    pub(crate) fn end(&mut self, serial: u64) {
        assert_eq!(self.flying.take(), Some(serial), "one flush flies at a time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flush_flies_and_later_writes_wait_for_the_next() {
        let mut lane = Lane::new(DeviceIndex(0), Durability::Flush);
        assert_eq!(lane.start(), None);
        lane.wait(1);
        lane.wait(2);
        let first = lane.start().expect("writes wait");
        assert_eq!(lane.covered, [1, 2]);
        lane.wait(3);
        assert_eq!(lane.start(), None);
        assert_eq!(lane.covered, [1, 2]);
        lane.end(first);
        let second = lane.start().expect("a write waits");
        assert!(second > first);
        assert_eq!(lane.covered, [3]);
    }
}
