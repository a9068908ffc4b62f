//! The real codecs, for what compaction and compacted topics inflate and deflate.

use base::Codecs;
use base::codecs::InflateError;
use client::codec::{CodecError, Compressor, decompress};
use protocol::batch::Codec;

/// gzip, snappy, LZ4 and zstd.
pub(super) const fn codecs() -> Codecs {
    Codecs { inflate, deflate }
}

fn inflate(codec: i16, bytes: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), InflateError> {
    let codec = Codec::of(codec).map_err(|_| InflateError::Damaged)?;
    decompress(codec, bytes, limit, out).map_err(|error| match error {
        CodecError::Damaged { .. } => InflateError::Damaged,
        CodecError::Limit { .. } => InflateError::Limit,
    })
}

fn deflate(codec: i16, bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(mut compressor) = Codec::of(codec).map_err(std::io::Error::other).and_then(Compressor::new) else {
        return false;
    };
    compressor.compress(bytes, out).is_ok()
}
