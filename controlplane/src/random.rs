//! Chance from the kernel: ids, secrets, seeds of hash tables.

use std::fs::File;
use std::io::{self, Read as _};

/// 128 random bits.
///
/// # Errors
/// `/dev/urandom` cannot be read.
pub fn bits() -> io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

/// A random UUID (RFC 9562, version 4), as Kafka's topic and cluster ids are.
///
/// # Errors
/// `/dev/urandom` cannot be read.
pub fn uuid() -> io::Result<u128> {
    loop {
        let id = bits()? & !(0xf << 76) & !(0b11 << 62) | (4 << 76) | (0b10 << 62);
        // Kafka draws again when the text would begin with a dash, which command lines take for an option.
        if id >> 122 != 62 {
            return Ok(id);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it does not hold")]

    #[test]
    fn a_uuid_has_version_four_and_its_variant() {
        for _ in 0..100 {
            let id = super::uuid().unwrap();
            assert_eq!(id >> 76 & 0xf, 4);
            assert_eq!(id >> 62 & 0b11, 0b10);
        }
        assert_ne!(super::uuid().unwrap(), super::uuid().unwrap());
    }
}
