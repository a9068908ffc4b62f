//! The newest offset of each key in a stretch of the journal, in memory of a fixed size.
//!
//! Keys are told apart by 128 bits of a keyed hash, as Kafka's cleaner does: 24 bytes a key, whatever its length.

use alloc::vec;
use alloc::vec::Vec;

use base::Offset;

/// One place: the hash, and the offset; −1 where there is none.
type Slot = ([u64; 2], i64);

/// No more keys find room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Offsets by key, with linear probing.
#[derive(Debug)]
pub(crate) struct KeyMap {
    slots: Vec<Slot>,
    used: usize,
}

impl KeyMap {
    /// Bytes of one key.
    pub(crate) const SLOT_BYTES: usize = size_of::<Slot>();

    /// One that takes up to `bytes` of memory, and holds one key at least.
    pub(crate) fn new(bytes: usize) -> Self {
        let slots = (bytes / Self::SLOT_BYTES).max(2);
        Self { slots: vec![([0; 2], -1); slots], used: 0 }
    }

    /// Keys it holds.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.used
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(([0; 2], -1));
        self.used = 0;
    }

    fn place(&self, hash: u128) -> ([u64; 2], usize) {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of a hash")]
        let halves = [hash as u64, (hash >> 64) as u64];
        #[expect(clippy::cast_possible_truncation, reason = "below the number of slots")]
        let mut at = ((u128::from(halves[0]) * self.slots.len() as u128) >> 64) as usize;
        while self.slots[at].1 >= 0 && self.slots[at].0 != halves {
            at = if at + 1 < self.slots.len() { at + 1 } else { 0 };
        }
        (halves, at)
    }

    /// Takes in that a record with that key lies at `offset`.
    pub(crate) fn insert(&mut self, hash: u128, offset: Offset) -> Result<(), Full> {
        let (halves, at) = self.place(hash);
        if self.slots[at].1 >= 0 {
            self.slots[at].1 = self.slots[at].1.max(offset.0);
            return Ok(());
        }
        // Three quarters: a probe then looks at a few slots on average, and there is always an empty one to end at.
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            return Err(Full);
        }
        self.slots[at] = (halves, offset.0);
        self.used += 1;
        Ok(())
    }

    /// The newest offset of that key, where it has one here.
    pub(crate) fn newest(&self, hash: u128) -> Option<Offset> {
        let (_, at) = self.place(hash);
        (self.slots[at].1 >= 0).then_some(Offset(self.slots[at].1))
    }
}

/// Keys of which each takes one share of several passes: where there are more in one extent than find room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// This one.
    pub(crate) number: u32,
    /// Of so many.
    pub(crate) of: u32,
}

impl Share {
    /// All keys.
    pub(crate) const ALL: Self = Self { number: 0, of: 1 };

    pub(crate) const fn holds(self, hash: u128) -> bool {
        // The half that does not place it.
        let high = (hash >> 64) as u64;
        high % self.of as u64 == self.number as u64
    }

    pub(crate) const fn is_last(self) -> bool {
        self.number + 1 == self.of
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::checksum::key_hash;

    #[test]
    fn the_newest_offset_of_each_key_is_kept_until_it_is_full() {
        let mut map = KeyMap::new(1000 * KeyMap::SLOT_BYTES);
        let mut keys = 0u64;
        while map.insert(key_hash(1, 2, &keys.to_le_bytes()), Offset(keys.cast_signed())).is_ok() {
            keys += 1;
        }
        assert_eq!((keys, map.len()), (750, 750));
        for key in 0..keys {
            let hash = key_hash(1, 2, &key.to_le_bytes());
            assert_eq!(map.insert(hash, Offset(5)), Ok(()), "a key that is known needs no room");
            assert_eq!(map.newest(hash), Some(Offset(key.cast_signed().max(5))));
            assert_eq!(map.newest(key_hash(1, 3, &key.to_le_bytes())), None, "of another partition");
        }
        map.clear();
        assert_eq!((map.len(), map.newest(key_hash(1, 2, &0u64.to_le_bytes()))), (0, None));
    }

    #[test]
    fn every_key_has_one_share() {
        for key in 0..1000u64 {
            let hash = key_hash(7, 1, &key.to_le_bytes());
            assert_eq!((0..4).filter(|&number| Share { number, of: 4 }.holds(hash)).count(), 1);
            assert!(Share::ALL.holds(hash));
        }
    }
}
