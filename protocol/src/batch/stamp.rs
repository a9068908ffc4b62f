//! What a broker writes into a batch that it takes.

use base::{Checksums, Epoch, Offset, WallMs};

use super::{APPEND_TIME_BIT, ATTRIBUTES, BASE_OFFSET, BatchError, CRC, LEADER_EPOCH, MAX_TIMESTAMP, RECORDS};

/// Writes base offset and leader epoch. The CRC does not cover them.
///
/// # Errors
/// [`BatchError::Truncated`] when `batch` is shorter than a header.
pub fn stamp(batch: &mut [u8], base_offset: Offset, epoch: Epoch) -> Result<(), BatchError> {
    let header = batch.first_chunk_mut::<RECORDS>().ok_or(BatchError::Truncated)?;
    put(header, BASE_OFFSET, &base_offset.0.to_be_bytes());
    put(header, LEADER_EPOCH, &epoch.0.to_be_bytes());
    Ok(())
}

/// Sets LogAppendTime: attribute bit and max timestamp, and the CRC over the whole batch. Returns the new CRC.
///
/// # Errors
/// [`BatchError::Truncated`] when `batch` is shorter than a header.
pub fn stamp_append_time(batch: &mut [u8], time: WallMs, sums: &Checksums) -> Result<u32, BatchError> {
    let header = batch.first_chunk_mut::<RECORDS>().ok_or(BatchError::Truncated)?;
    let high = header.get(ATTRIBUTES).copied().unwrap_or(0);
    let low = header.get(ATTRIBUTES + 1).copied().unwrap_or(0);
    put(header, ATTRIBUTES, &(i16::from_be_bytes([high, low]) | APPEND_TIME_BIT).to_be_bytes());
    stamp_max_timestamp(batch, time.0, sums)
}

/// Corrects the max timestamp, and the CRC over the whole batch. Returns the new CRC.
///
/// # Errors
/// [`BatchError::Truncated`] when `batch` is shorter than a header.
pub fn stamp_max_timestamp(batch: &mut [u8], timestamp: i64, sums: &Checksums) -> Result<u32, BatchError> {
    let header = batch.first_chunk_mut::<RECORDS>().ok_or(BatchError::Truncated)?;
    put(header, MAX_TIMESTAMP, &timestamp.to_be_bytes());
    Ok(stamp_crc(batch, sums))
}

pub(super) fn stamp_crc(batch: &mut [u8], sums: &Checksums) -> u32 {
    let crc = (sums.crc32c)(0, batch.get(ATTRIBUTES..).unwrap_or_default());
    put(batch, CRC, &crc.to_be_bytes());
    crc
}

pub(super) fn put(batch: &mut [u8], at: usize, value: &[u8]) {
    if let Some(field) = batch.get_mut(at..at + value.len()) {
        field.copy_from_slice(value);
    }
}
