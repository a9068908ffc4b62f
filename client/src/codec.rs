//! Compression of record batches: gzip, snappy (xerial framing), LZ4 frames, zstd. Decompression never gives more bytes
//! than a limit, whatever the bytes claim.

use protocol::batch::Codec;
use std::io::{Read, Write};

/// The frame header of snappy-java: magic, version 1, compatible version 1.
const XERIAL: [u8; 16] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];
/// What snappy-java puts into a block.
const XERIAL_BLOCK: usize = 32 << 10;

/// Why bytes could not be decompressed.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The bytes are no such format, or damaged.
    #[error("{codec:?} data is damaged: {reason}")]
    Damaged {
        /// What it should have been.
        codec: Codec,
        /// What the decompressor said.
        reason: String,
    },
    /// There is more than the limit.
    #[error("{codec:?} data decompresses to more than {limit} bytes")]
    Limit {
        /// What it is.
        codec: Codec,
        /// The bytes allowed.
        limit: usize,
    },
}

/// Compresses with one codec; keeps its contexts.
pub struct Compressor {
    codec: Codec,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    snap: snap::raw::Encoder,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("codec", &self.codec).finish_non_exhaustive()
    }
}

impl Compressor {
    /// For `codec`, at its usual level.
    ///
    /// # Errors
    /// When the compressor cannot be set up (memory).
    pub fn new(codec: Codec) -> std::io::Result<Self> {
        let zstd = match codec {
            Codec::Zstd => Some(zstd::bulk::Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL)?),
            Codec::None | Codec::Gzip | Codec::Snappy | Codec::Lz4 => None,
        };
        Ok(Self { codec, zstd, snap: snap::raw::Encoder::new() })
    }

    /// What it compresses with.
    #[must_use]
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// Compresses `bytes` to the end of `out`.
    ///
    /// # Errors
    /// What the compressor says.
    pub fn compress(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        match self.codec {
            Codec::None => out.extend_from_slice(bytes),
            Codec::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
                encoder.write_all(bytes)?;
                encoder.finish()?;
            }
            Codec::Snappy => self.snappy(bytes, out)?,
            Codec::Lz4 => {
                let info = lz4_flex::frame::FrameInfo::new()
                    .block_mode(lz4_flex::frame::BlockMode::Independent)
                    .block_size(lz4_flex::frame::BlockSize::Max64KB);
                let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, out);
                encoder.write_all(bytes)?;
                encoder.finish().map_err(std::io::Error::other)?;
            }
            Codec::Zstd => {
                let zstd = self.zstd.as_mut().expect("made for zstd in new()");
                out.extend_from_slice(&zstd.compress(bytes)?);
            }
        }
        Ok(())
    }

    fn snappy(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        out.extend_from_slice(&XERIAL);
        for block in bytes.chunks(XERIAL_BLOCK) {
            let at = out.len();
            out.resize(at + 4 + snap::raw::max_compress_len(block.len()), 0);
            let len = self.snap.compress(block, &mut out[at + 4..])?;
            let len_field = u32::try_from(len).map_err(std::io::Error::other)?;
            out[at..at + 4].copy_from_slice(&len_field.to_be_bytes());
            out.truncate(at + 4 + len);
        }
        Ok(())
    }
}

/// Decompresses `bytes` to the end of `out`, at most `limit` bytes.
///
/// # Errors
/// [`CodecError`]; `out` then holds what came before.
pub fn decompress(codec: Codec, bytes: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    match codec {
        Codec::None => {
            if bytes.len() > limit {
                return Err(CodecError::Limit { codec, limit });
            }
            out.extend_from_slice(bytes);
            Ok(())
        }
        Codec::Gzip => stream(codec, flate2::read::MultiGzDecoder::new(bytes), limit, out),
        Codec::Snappy => snappy(bytes, limit, out),
        Codec::Lz4 => stream(codec, lz4_flex::frame::FrameDecoder::new(bytes), limit, out),
        Codec::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(|error| damaged(codec, error))?;
            stream(codec, decoder, limit, out)
        }
    }
}

fn damaged(codec: Codec, reason: impl std::fmt::Display) -> CodecError {
    CodecError::Damaged { codec, reason: reason.to_string() }
}

fn stream(codec: Codec, from: impl Read, limit: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    // One more than allowed tells "exactly the limit" from "more".
    let read = from.take(limit as u64 + 1).read_to_end(out).map_err(|error| damaged(codec, error))?;
    if read > limit { Err(CodecError::Limit { codec, limit }) } else { Ok(()) }
}

/// Xerial framing where its magic is there, else one raw block (as librdkafka also takes it).
fn snappy(bytes: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let mut left = limit;
    let Some(mut rest) = bytes.strip_prefix(&XERIAL[..8]) else { return snappy_block(bytes, &mut left, limit, out) };
    rest = rest.get(8..).ok_or_else(|| damaged(Codec::Snappy, "its header is cut off"))?;
    while let Some((len, more)) = rest.split_first_chunk::<4>() {
        let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
        let (block, more) = more.split_at_checked(len).ok_or_else(|| damaged(Codec::Snappy, "a block is cut off"))?;
        snappy_block(block, &mut left, limit, out)?;
        rest = more;
    }
    if rest.is_empty() { Ok(()) } else { Err(damaged(Codec::Snappy, "a block length is cut off")) }
}

fn snappy_block(block: &[u8], left: &mut usize, limit: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let codec = Codec::Snappy;
    // The length is only claimed: it is held against the limit before room is made for it.
    let len = snap::raw::decompress_len(block).map_err(|error| damaged(codec, error))?;
    *left = left.checked_sub(len).ok_or(CodecError::Limit { codec, limit })?;
    let at = out.len();
    out.resize(at + len, 0);
    let got = snap::raw::Decoder::new().decompress(block, &mut out[at..]).map_err(|error| damaged(codec, error))?;
    out.truncate(at + got);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;

    const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    fn round_trip(codec: Codec, bytes: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        Compressor::new(codec).unwrap().compress(bytes, &mut packed).unwrap();
        let mut out = Vec::new();
        decompress(codec, &packed, bytes.len(), &mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..5000), times in 1usize..40) {
            let bytes = bytes.repeat(times);
            for codec in CODECS {
                prop_assert_eq!(&round_trip(codec, &bytes), &bytes, "{:?}", codec);
            }
        }

        #[test]
        fn noise_is_an_error_or_stays_under_the_limit(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for codec in CODECS {
                let mut out = Vec::new();
                if decompress(codec, &bytes, 1000, &mut out).is_ok() {
                    prop_assert!(out.len() <= 1000);
                }
            }
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let zeros = vec![0u8; 64 << 20];
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let mut packed = Vec::new();
            Compressor::new(codec).unwrap().compress(&zeros, &mut packed).unwrap();
            let mut out = Vec::new();
            let error = decompress(codec, &packed, 1 << 20, &mut out).unwrap_err();
            assert!(matches!(error, CodecError::Limit { limit: 1_048_576, .. }), "{error}");
            assert!(out.capacity() <= 4 << 20, "{codec:?} took {}", out.capacity());
        }
    }

    #[test]
    fn a_snappy_length_bomb_makes_no_room() {
        // A raw block that claims 4 GiB − 1.
        let mut out = Vec::new();
        let error = decompress(Codec::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0], 1 << 20, &mut out).unwrap_err();
        assert!(matches!(error, CodecError::Limit { .. }), "{error}");
        assert_eq!(out.capacity(), 0);
    }
}
