//! The fast checksums: CRC-32C and CRC-64/NVME by carry-less multiplication, chosen by CPU detection inside `crc-fast`.

use base::Checksums;
use crc_fast::{CrcAlgorithm, Digest};

/// Both checksums, as fast as this CPU makes them.
#[must_use]
pub const fn fast() -> Checksums {
    Checksums { crc32c, crc64 }
}

// Both algorithms are reflected, begin with all ones and end by inverting: the running state is the inverse of a finished
// checksum, and a finished 0 stands for a fresh start.

fn crc32c(finished: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!finished));
    digest.update(bytes);
    u32::try_from(digest.finalize()).expect("a 32-bit checksum")
}

fn crc64(finished: u64, bytes: &[u8]) -> u64 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc64Nvme, !finished);
    digest.update(bytes);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|i| u8::try_from((i * 31 + i / 251) % 256).expect("below 256")).collect()
    }

    #[test]
    fn fast_sums_equal_the_portable_ones_at_every_length_and_alignment() {
        let portable = Checksums::portable();
        let bytes = bytes(1200);
        for len in 0..1100 {
            let part = &bytes[len % 17..][..len];
            assert_eq!((fast().crc32c)(0, part), (portable.crc32c)(0, part), "{len}");
            assert_eq!((fast().crc32c)(0, part), crc32c::crc32c(part), "{len}");
            assert_eq!((fast().crc64)(0, part), (portable.crc64)(0, part), "{len}");
        }
    }

    #[test]
    fn fast_sums_continue_from_a_finished_one_over_any_split() {
        let bytes = bytes(70_000);
        let whole = ((fast().crc32c)(0, &bytes), (fast().crc64)(0, &bytes));
        for split in [0, 1, 7, 8, 255, 256, 4096, 16_384, 69_999, 70_000] {
            let (head, tail) = bytes.split_at(split);
            assert_eq!((fast().crc32c)((fast().crc32c)(0, head), tail), whole.0, "{split}");
            assert_eq!((fast().crc64)((fast().crc64)(0, head), tail), whole.1, "{split}");
        }
    }
}
