//! A batch of which only some records stay, as a compacted log holds it.
//!
//! The rules are those of Kafka's cleaner (`MemoryRecords.filterTo`, KIP-534): base offset, last offset delta, producer, sequence
//! and leader epoch stay, so that the batch stands for the same offsets; records keep their offsets and timestamps; the base
//! timestamp is that of the first record that is left, or the delete horizon; the maximum is made anew.

use alloc::vec::Vec;

use base::Checksums;

use super::builder::{body_len, put_bytes};
use super::stamp::{put, stamp_crc};
use super::{
    ATTRIBUTES, BASE_TIMESTAMP, BatchError, BatchView, CODEC_MASK, COUNT, DELETE_HORIZON_BIT, LENGTH, LENGTH_OVERHEAD,
    MAX_TIMESTAMP, RECORDS, RecordView,
};
use crate::wire::{put_varint, put_varlong};

/// The records that stay of one batch, uncompressed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// The records, back to back, with deltas from `base_timestamp`.
    pub records: Vec<u8>,
    /// How many there are.
    pub count: i32,
    /// In ms since 1970; the delete horizon, where there is one.
    pub base_timestamp: i64,
    /// In ms since 1970.
    pub max_timestamp: i64,
    /// Whether `base_timestamp` is a delete horizon.
    pub horizon: bool,
}

impl Filtered {
    /// Takes the records of `batch` (`decompressed` is its payload without compression) that `keeps` says yes to, by their
    /// number. `horizon` is the batch's delete horizon from now on.
    ///
    /// # Errors
    /// [`BatchError::Record`] where one does not parse.
    pub fn take(
        &mut self,
        batch: &BatchView<'_>,
        decompressed: &[u8],
        horizon: Option<i64>,
        mut keeps: impl FnMut(usize) -> bool,
    ) -> Result<(), BatchError> {
        self.records.clear();
        (self.count, self.horizon) = (0, horizon.is_some());
        (self.base_timestamp, self.max_timestamp) = (horizon.unwrap_or(-1), -1);
        for (number, record) in batch.records_of(decompressed).enumerate() {
            let record = record?;
            if !keeps(number) {
                continue;
            }
            let timestamp = batch.timestamp_of(&record);
            if self.count == 0 {
                self.max_timestamp = timestamp;
                if horizon.is_none() {
                    self.base_timestamp = timestamp;
                }
            }
            self.max_timestamp = self.max_timestamp.max(timestamp);
            put_record(&mut self.records, &record, timestamp.wrapping_sub(self.base_timestamp));
            self.count += 1;
        }
        Ok(())
    }
}

fn put_record(out: &mut Vec<u8>, record: &RecordView<'_>, timestamp_delta: i64) {
    let headers: Vec<super::Header<'_>> = record.headers.collect();
    let body = body_len(timestamp_delta, record.offset_delta, record.key, record.value, &headers);
    put_varint(out, i32::try_from(body).expect("it came from a batch of less than 2 GiB"));
    out.push(0);
    put_varlong(out, timestamp_delta);
    put_varint(out, record.offset_delta);
    put_bytes(out, record.key);
    put_bytes(out, record.value);
    put_varint(out, i32::try_from(headers.len()).expect("read from 32 bits"));
    for header in &headers {
        put_bytes(out, Some(header.key));
        put_bytes(out, header.value);
    }
}

/// Appends `batch` to `out` with other records: `payload` is [`Filtered::records`] under the batch's codec.
///
/// # Errors
/// [`BatchError::Length`] where it would be longer than 2 GiB.
pub fn rewrite(
    batch: &BatchView<'_>,
    filtered: &Filtered,
    payload: &[u8],
    sums: &Checksums,
    out: &mut Vec<u8>,
) -> Result<(), BatchError> {
    let start = out.len();
    out.extend_from_slice(batch.bytes().get(..RECORDS).unwrap_or_default());
    out.extend_from_slice(payload);
    let new = out.get_mut(start..).unwrap_or_default();
    let length = i32::try_from(new.len() - LENGTH_OVERHEAD).map_err(|_| BatchError::Length)?;
    let horizon = if filtered.horizon { DELETE_HORIZON_BIT } else { 0 };
    put(new, LENGTH, &length.to_be_bytes());
    put(new, ATTRIBUTES, &(batch.attributes() & !DELETE_HORIZON_BIT | horizon).to_be_bytes());
    put(new, BASE_TIMESTAMP, &filtered.base_timestamp.to_be_bytes());
    put(new, MAX_TIMESTAMP, &filtered.max_timestamp.to_be_bytes());
    put(new, COUNT, &filtered.count.to_be_bytes());
    stamp_crc(new, sums);
    Ok(())
}

/// A batch without records that stands for the offsets from `batch`'s first on, `last_offset_delta` more than one of them. It
/// names no producer: what is known of producers is kept elsewhere.
#[must_use]
pub fn empty_batch(batch: &BatchView<'_>, last_offset_delta: i32, sums: &Checksums) -> [u8; RECORDS] {
    let mut header = [0; RECORDS];
    let length = i32::try_from(RECORDS - LENGTH_OVERHEAD).unwrap_or(0);
    put(&mut header, super::BASE_OFFSET, &batch.base_offset().to_be_bytes());
    put(&mut header, LENGTH, &length.to_be_bytes());
    put(&mut header, super::LEADER_EPOCH, &batch.leader_epoch().to_be_bytes());
    put(&mut header, super::MAGIC, &[2]);
    let attributes = batch.attributes() & !(CODEC_MASK | DELETE_HORIZON_BIT);
    put(&mut header, ATTRIBUTES, &attributes.to_be_bytes());
    put(&mut header, super::LAST_OFFSET_DELTA, &last_offset_delta.to_be_bytes());
    put(&mut header, BASE_TIMESTAMP, &batch.max_timestamp().to_be_bytes());
    put(&mut header, MAX_TIMESTAMP, &batch.max_timestamp().to_be_bytes());
    put(&mut header, super::PRODUCER_ID, &(-1i64).to_be_bytes());
    put(&mut header, super::PRODUCER_EPOCH, &(-1i16).to_be_bytes());
    put(&mut header, super::BASE_SEQUENCE, &(-1i32).to_be_bytes());
    put(&mut header, COUNT, &0i32.to_be_bytes());
    stamp_crc(&mut header, sums);
    header
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "tests")]

    use base::Offset;

    use super::*;
    use crate::batch::{BatchBuilder, Header, Producer, stamp};

    const SUMS: Checksums = Checksums::portable();

    fn batch(count: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        for number in 0..count {
            let header = Header { key: b"h", value: Some(b"v") };
            let value = (number % 3 != 2).then_some(&b"value"[..]);
            builder.append(1000 + 7 * (number as i64 % 4), Some(&[number as u8; 3]), value, &[header]);
        }
        let producer = Producer { id: 5, epoch: 1, sequence: 40, transactional: false };
        let mut bytes = builder.finish(producer, &SUMS).to_vec();
        stamp(&mut bytes, Offset(900), base::Epoch(3)).unwrap();
        bytes
    }

    type Kept = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, usize);

    fn records(view: &BatchView<'_>) -> Vec<Kept> {
        view.records()
            .map(|record| {
                let record = record.unwrap();
                let offset = view.base_offset() + i64::from(record.offset_delta);
                let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
                (offset, view.timestamp_of(&record), key, value, record.headers.len())
            })
            .collect()
    }

    #[test]
    fn what_stays_keeps_offsets_times_keys_values_headers_and_the_batch_its_place() {
        let bytes = batch(10);
        let before = BatchView::check_stored(&bytes).unwrap();
        for mask in 0..1024usize {
            for horizon in [None, Some(50_000)] {
                let mut filtered = Filtered::default();
                filtered.take(&before, before.payload(), horizon, |number| mask >> number & 1 == 1).unwrap();
                let mut out = Vec::new();
                rewrite(&before, &filtered, &filtered.records, &SUMS, &mut out).unwrap();
                let after = BatchView::check_stored(&out).unwrap();
                after.verify_crc(&SUMS).unwrap();
                let all = records(&before);
                let expected: Vec<_> =
                    all.into_iter().enumerate().filter(|(number, _)| mask >> number & 1 == 1).map(|(_, r)| r).collect();
                assert_eq!(records(&after), expected, "{mask:b}");
                assert_eq!(after.count(), expected.len() as i32);
                let place = |view: &BatchView<'_>| {
                    let sequences = (view.base_sequence(), view.last_sequence());
                    (view.base_offset(), view.last_offset(), view.producer_id(), sequences, view.leader_epoch())
                };
                assert_eq!(place(&after), place(&before));
                assert_eq!(after.max_timestamp(), expected.iter().map(|record| record.1).max().unwrap_or(-1));
                assert_eq!(after.delete_horizon(), horizon);
                if let (None, Some(first)) = (horizon, expected.first()) {
                    assert_eq!(after.base_timestamp(), first.1);
                    assert!(out.len() <= bytes.len());
                }
            }
        }
    }

    #[test]
    fn an_empty_batch_stands_for_its_offsets() {
        let bytes = batch(10);
        let before = BatchView::check_stored(&bytes).unwrap();
        let empty = empty_batch(&before, 77, &SUMS);
        let after = BatchView::check_stored(&empty).unwrap();
        after.verify_crc(&SUMS).unwrap();
        assert_eq!((after.base_offset(), after.last_offset(), after.count()), (900, 977, 0));
        assert_eq!((after.producer_id(), after.base_sequence(), after.leader_epoch()), (-1, -1, 3));
        assert_eq!(after.max_timestamp(), before.max_timestamp());
    }
}
