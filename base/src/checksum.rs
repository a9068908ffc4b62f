//! The checksums the formats use, as a table of functions.
//!
//! The fast implementations need `std` and CPU detection, so the binary passes them in; [`Checksums::portable`] is the
//! table-driven one that pure crates and their tests use, and the oracle for the fast one.

use core::hash::Hasher as _;
use siphasher::sip128::{Hasher128 as _, SipHasher13, SipHasher24};

/// CRC-32C (Castagnoli, RFC 3720) and CRC-64/NVME, both resumable.
#[derive(Clone, Copy)]
pub struct Checksums {
    /// `crc32c(state, bytes)`: continues from `state`, a finished checksum (0 to begin).
    pub crc32c: fn(u32, &[u8]) -> u32,
    /// `crc64(state, bytes)`: CRC-64/NVME, continues from `state`, a finished checksum (0 to begin).
    pub crc64: fn(u64, &[u8]) -> u64,
}

impl core::fmt::Debug for Checksums {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Checksums")
    }
}

impl Checksums {
    /// Table-driven versions without any CPU feature.
    #[must_use]
    pub const fn portable() -> Self {
        Self { crc32c: crc32c_portable, crc64: crc64_portable }
    }

    /// Copies `from` to `to` (same length) and continues both checksums over the copied bytes, in blocks that stay in L1.
    /// Returns (CRC-32C, CRC-64).
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn copy(&self, from: &[u8], to: &mut [u8], crc32c: u32, crc64: u64) -> (u32, u64) {
        // 16 KiB: half of a 32 KiB L1 data cache, so that the copied block is still there for both sums.
        const BLOCK: usize = 16 << 10;
        assert_eq!(from.len(), to.len());
        let (mut short, mut long) = (crc32c, crc64);
        for (source, target) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
            target.copy_from_slice(source);
            short = (self.crc32c)(short, target);
            long = (self.crc64)(long, target);
        }
        (short, long)
    }
}

/// SipHash-2-4-128 under `key`: the keyed checksum of headers that recovery finds by scanning.
#[must_use]
pub fn keyed128(key: &[u8; 16], bytes: &[u8]) -> u128 {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(bytes);
    hasher.finish128().as_u128()
}

/// SipHash-1-3-128 of a partition's record key, under a seed that nobody outside knows: two keys that clients choose do not meet.
#[must_use]
pub fn key_hash(seed: u64, partition: u64, key: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(seed, partition);
    hasher.write(key);
    hasher.finish128().as_u128()
}

const fn table32() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut i = 0u32;
    while i < 256 {
        let mut crc = i;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[i as usize] = crc;
        i += 1;
    }
    table
}

const fn table64() -> [u64; 256] {
    let mut table = [0u64; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x9a6c_9329_ac4b_c9b5 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

static TABLE32: [u32; 256] = table32();
static TABLE64: [u64; 256] = table64();

fn crc32c_portable(state: u32, bytes: &[u8]) -> u32 {
    let mut crc = !state;
    for byte in bytes {
        crc = (crc >> 8) ^ TABLE32[usize::from(crc.to_le_bytes()[0] ^ byte)];
    }
    !crc
}

fn crc64_portable(state: u64, bytes: &[u8]) -> u64 {
    let mut crc = !state;
    for byte in bytes {
        crc = (crc >> 8) ^ TABLE64[usize::from(crc.to_le_bytes()[0] ^ byte)];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_sums_match_the_published_check_values() {
        let sums = Checksums::portable();
        assert_eq!((sums.crc32c)(0, b"123456789"), 0xe306_9283);
        assert_eq!((sums.crc64)(0, b"123456789"), 0xae8b_1486_0a79_9888);
    }

    #[test]
    fn copy_continues_both_sums_over_any_split() {
        let sums = Checksums::portable();
        let bytes: alloc::vec::Vec<u8> = (0..40_000u32).map(|i| (i * 7).to_le_bytes()[0]).collect();
        let whole = ((sums.crc32c)(0, &bytes), (sums.crc64)(0, &bytes));
        for split in [0, 1, 16_384, 39_999] {
            let mut to = alloc::vec![0u8; bytes.len()];
            let (head, tail) = to.split_at_mut(split);
            let (a, b) = sums.copy(&bytes[..split], head, 0, 0);
            assert_eq!(sums.copy(&bytes[split..], tail, a, b), whole);
            assert_eq!(to, bytes);
        }
    }
}
