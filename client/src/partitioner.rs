//! Which partition a record goes to, as Kafka's own clients decide it.

/// The partition of `key` among `count`: murmur2 as Kafka's Java client computes it, so that records of one key written by
/// any client end up together.
///
/// # Panics
/// When `count` is 0.
#[must_use]
pub fn by_key(key: &[u8], count: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % count
}

/// MurmurHash2, 32 bits, with Kafka's seed.
#[must_use]
pub fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    #[expect(clippy::cast_possible_truncation, reason = "the hash takes the length modulo 2^32")]
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (index, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_kafkas_own_tests() {
        // The values of org.apache.kafka.common.utils.UtilsTest.testMurmur2.
        let known: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (text, hash) in known {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), hash, "{text}");
        }
    }

    #[test]
    fn a_partition_is_in_range() {
        for count in [1, 2, 7, 1000] {
            assert!((0..100u32).all(|i| by_key(&i.to_be_bytes(), count) < count));
        }
    }
}
