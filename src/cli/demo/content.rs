//! What the demo's records hold: known for every partition and number, so that each byte can be verified.

/// 128 KiB of noise, from which each record takes a piece: a copy is much cheaper than making new noise.
const NOISE: usize = 128 << 10;
/// Number and partition, at the front of a record.
const HEAD: usize = 12;

/// The content of records of one size.
#[derive(Debug)]
pub(crate) struct Content {
    size: usize,
    noise: Vec<u8>,
}

impl Content {
    pub(crate) fn new(size: usize) -> Self {
        let mut noise = Vec::with_capacity(NOISE);
        let mut state = 0u64;
        while noise.len() < NOISE {
            noise.extend_from_slice(&mix(&mut state).to_le_bytes());
        }
        Self { size, noise }
    }

    /// Bytes of a record's value.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Writes the value of record `number` of `partition`. A size below 12 bytes keeps the front of number and partition.
    ///
    /// # Panics
    /// When `value` has another size.
    pub(crate) fn fill(&self, partition: i32, number: u64, value: &mut [u8]) {
        assert_eq!(value.len(), self.size);
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&number.to_le_bytes());
        head[8..].copy_from_slice(&partition.to_le_bytes());
        let known = self.size.min(HEAD);
        value[..known].copy_from_slice(&head[..known]);
        let mut state = number ^ (u64::from(partition.cast_unsigned()) << 40);
        for piece in value[known..].chunks_mut(NOISE / 2) {
            // Anywhere in the first half, so that half of the noise is there to copy.
            let at = usize::try_from(mix(&mut state) % (NOISE as u64 / 2)).unwrap_or(0);
            piece.copy_from_slice(&self.noise[at..at + piece.len()]);
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): one step.
const fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(size: usize, partition: i32, number: u64) -> Vec<u8> {
        let mut value = vec![0; size];
        Content::new(size).fill(partition, number, &mut value);
        value
    }

    #[test]
    fn content_is_the_same_each_time_and_differs_between_records() {
        assert_eq!(value(1024, 3, 7), value(1024, 3, 7));
        assert_ne!(value(1024, 3, 7), value(1024, 3, 8));
        assert_ne!(value(1024, 3, 7), value(1024, 4, 7));
        assert_ne!(value(1024, 3, 7)[HEAD..], value(1024, 3, 8)[HEAD..], "not only the head");
    }

    #[test]
    fn any_size_works() {
        for size in [0, 1, 7, 8, 11, 12, 13, NOISE / 2 + HEAD, NOISE / 2 + HEAD + 1, 3 * NOISE] {
            assert_eq!(value(size, 1, 2).len(), size);
        }
        assert_eq!(value(1, 0, 0x0102), [2]);
    }
}
