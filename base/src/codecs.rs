//! Compression of record batches, as a table of functions.
//!
//! The real codecs need `std` or C, so the binary passes them in, as it does checksums. Pure crates know codecs only by Kafka's
//! numbers: 1 gzip, 2 snappy, 3 LZ4, 4 zstd.

use alloc::vec::Vec;

/// Why bytes do not inflate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InflateError {
    /// They are no such format, or damaged, or nobody here knows the codec.
    Damaged,
    /// There is more than the limit.
    Limit,
}

/// Codec, bytes, limit, where to.
pub type Inflate = fn(i16, &[u8], usize, &mut Vec<u8>) -> Result<(), InflateError>;

/// Inflating and deflating by Kafka's number of the codec.
#[derive(Clone, Copy)]
pub struct Codecs {
    /// `inflate(codec, bytes, limit, out)`: appends what `bytes` hold to `out`, at most `limit` bytes, whatever they claim. After
    /// an error `out` holds anything up to that.
    pub inflate: Inflate,
    /// `deflate(codec, bytes, out)`: appends `bytes` compressed to `out`; false where that cannot be done.
    pub deflate: fn(i16, &[u8], &mut Vec<u8>) -> bool,
}

impl core::fmt::Debug for Codecs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Codecs")
    }
}

impl Codecs {
    /// Knows no codec: compressed batches stay as they are.
    #[must_use]
    pub const fn none() -> Self {
        Self { inflate: |_, _, _, _| Err(InflateError::Damaged), deflate: |_, _, _| false }
    }
}
