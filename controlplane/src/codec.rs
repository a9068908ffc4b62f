//! Decompression of record batches, for looking inside one: Kafka's four codecs, always with a limit.

use std::borrow::Cow;
use std::io::{self, Read};

use protocol::batch::Codec;

/// Why records cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// They would take more than the limit.
    #[error("the records take more than {0} bytes decompressed")]
    TooLarge(usize),
    /// The compressed bytes are malformed.
    #[error("malformed {codec:?}: {what}")]
    Malformed {
        /// Which codec.
        codec: Codec,
        /// What the decoder says.
        what: String,
    },
}

/// The records of a batch's payload, at most `limit` bytes.
///
/// # Errors
/// See [`CodecError`].
pub fn decompress(codec: Codec, bytes: &[u8], limit: usize) -> Result<Cow<'_, [u8]>, CodecError> {
    let result = match codec {
        Codec::None => return Ok(Cow::Borrowed(bytes)),
        Codec::Gzip => read_bounded(flate2::read::MultiGzDecoder::new(bytes), limit),
        Codec::Snappy => snappy(bytes, limit),
        Codec::Lz4 => read_bounded(lz4_flex::frame::FrameDecoder::new(bytes), limit),
        Codec::Zstd => zstd(bytes, limit),
    };
    result.map(Cow::Owned).map_err(|failure| match failure {
        Failure::TooLarge => CodecError::TooLarge(limit),
        Failure::Malformed(what) => CodecError::Malformed { codec, what },
    })
}

enum Failure {
    TooLarge,
    Malformed(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

fn read_bounded(from: impl Read, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    from.take(most).read_to_end(&mut out)?;
    if out.len() > limit { Err(Failure::TooLarge) } else { Ok(out) }
}

fn zstd(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Failure> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
    // 2^27 = 128 MiB: what the zstd format asks every decoder to support; a frame that wants more memory is refused.
    decoder.window_log_max(27)?;
    read_bounded(decoder, limit)
}

/// Magic and two version words of snappy-java's stream (`SnappyCodec`), which Java clients write; others write a raw block.
const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
const XERIAL_HEADER: usize = 16;

fn snappy(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    if !bytes.starts_with(XERIAL_MAGIC) {
        snappy_block(bytes, limit, &mut out)?;
        return Ok(out);
    }
    let cut = || Failure::Malformed("the stream ends inside a block".to_owned());
    let mut rest = bytes.get(XERIAL_HEADER..).ok_or_else(cut)?;
    while !rest.is_empty() {
        let (len, behind) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
        let (block, behind) = behind.split_at_checked(len).ok_or_else(cut)?;
        snappy_block(block, limit, &mut out)?;
        rest = behind;
    }
    Ok(out)
}

fn snappy_block(block: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    let malformed = |error: snap::Error| Failure::Malformed(error.to_string());
    let len = snap::raw::decompress_len(block).map_err(malformed)?;
    let start = out.len();
    // The length is the sender's word: it is believed only below the limit.
    if len > limit.saturating_sub(start) {
        return Err(Failure::TooLarge);
    }
    out.resize(start + len, 0);
    snap::raw::Decoder::new().decompress(block, &mut out[start..]).map_err(malformed)?;
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it does not hold")]

    use std::io::Write as _;

    use super::*;

    fn xerial(bytes: &[u8], block: usize) -> Vec<u8> {
        let mut out = XERIAL_MAGIC.to_vec();
        out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
        for piece in bytes.chunks(block) {
            let compressed = snap::raw::Encoder::new().compress_vec(piece).unwrap();
            out.extend_from_slice(&u32::try_from(compressed.len()).unwrap().to_be_bytes());
            out.extend_from_slice(&compressed);
        }
        out
    }

    pub(crate) fn compress(codec: Codec, bytes: &[u8]) -> Vec<u8> {
        match codec {
            Codec::None => bytes.to_vec(),
            Codec::Gzip => {
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                gzip.write_all(bytes).unwrap();
                gzip.finish().unwrap()
            }
            Codec::Snappy => xerial(bytes, 1000),
            Codec::Lz4 => {
                let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
                lz4.write_all(bytes).unwrap();
                lz4.finish().unwrap()
            }
            Codec::Zstd => zstd::encode_all(bytes, 3).unwrap(),
        }
    }

    fn compressed(bytes: &[u8]) -> Vec<(Codec, Vec<u8>)> {
        let all = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
        let mut all: Vec<_> = all.into_iter().map(|codec| (codec, compress(codec, bytes))).collect();
        all.push((Codec::Snappy, snap::raw::Encoder::new().compress_vec(bytes).unwrap()));
        all
    }

    #[test]
    fn every_codec_gives_back_what_went_in() {
        let bytes: Vec<u8> = (0..50_000u32).map(|i| (i / 7 % 251) as u8).collect();
        for (codec, packed) in compressed(&bytes) {
            assert_eq!(decompress(codec, &packed, bytes.len()).unwrap(), bytes, "{codec:?}");
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bytes = vec![0; 4 << 20];
        for (codec, packed) in compressed(&bytes).into_iter().skip(1) {
            assert!(packed.len() < bytes.len() / 10);
            assert_eq!(decompress(codec, &packed, 10_000), Err(CodecError::TooLarge(10_000)), "{codec:?}");
        }
        // A snappy block that only claims to be large.
        let liar = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
        assert_eq!(decompress(Codec::Snappy, &liar, 1 << 20), Err(CodecError::TooLarge(1 << 20)));
    }

    #[test]
    fn malformed_bytes_are_errors() {
        let bytes: Vec<u8> = (0..2000u32).map(|i| (i * i % 253) as u8).collect();
        for (codec, packed) in compressed(&bytes).into_iter().skip(1) {
            for len in [1, 3, packed.len() / 2, packed.len() - 8] {
                let result = decompress(codec, &packed[..len], 1 << 20);
                assert!(result.as_ref().map_or(true, |out| out.len() < bytes.len()), "{codec:?} cut to {len}");
            }
            let noise: Vec<u8> = packed.iter().map(|byte| byte ^ 0x5a).collect();
            assert!(decompress(codec, &noise, 1 << 20).is_err(), "{codec:?}");
        }
    }
}
