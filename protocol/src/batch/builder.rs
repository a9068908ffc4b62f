//! Building a batch.

use alloc::vec::Vec;

use base::Checksums;

use super::stamp::{put, stamp_crc};
use super::{
    ATTRIBUTES, BASE_OFFSET, BASE_SEQUENCE, BASE_TIMESTAMP, COUNT, Codec, Header, LAST_OFFSET_DELTA, LEADER_EPOCH,
    LENGTH, LENGTH_OVERHEAD, MAGIC, MAX_TIMESTAMP, PRODUCER_EPOCH, PRODUCER_ID, RECORDS, TRANSACTIONAL_BIT,
};
use crate::wire::{put_varint, put_varlong, uvarlong_len, zigzag};

/// Who writes a batch, and where it stands in that producer's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Producer id, −1 for none.
    pub id: i64,
    /// Producer epoch, −1 for none.
    pub epoch: i16,
    /// Sequence of the first record, −1 for none.
    pub sequence: i32,
    /// Part of a transaction.
    pub transactional: bool,
}

impl Producer {
    /// Not idempotent.
    pub const NONE: Self = Self { id: -1, epoch: -1, sequence: -1, transactional: false };
}

/// Collects records in one buffer that is used again and again.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    /// Room for the header, then the records.
    buffer: Vec<u8>,
    base_timestamp: i64,
    max_timestamp: i64,
    count: i32,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl BatchBuilder {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty one with room for `bytes` of records.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        let mut buffer = Vec::with_capacity(RECORDS + bytes);
        buffer.resize(RECORDS, 0);
        Self { buffer, base_timestamp: -1, max_timestamp: -1, count: 0 }
    }

    /// An empty one that uses the memory of `buffer`, whatever that holds.
    #[must_use]
    pub fn from_buffer(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.resize(RECORDS, 0);
        Self { buffer, base_timestamp: -1, max_timestamp: -1, count: 0 }
    }

    /// The batch as last finished, without a copy.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Drops the records, keeps the buffer.
    pub fn clear(&mut self) {
        self.buffer.truncate(RECORDS);
        (self.base_timestamp, self.max_timestamp, self.count) = (-1, -1, 0);
    }

    /// Adds a record; `timestamp` in ms since 1970.
    ///
    /// # Panics
    /// When the batch would hold 2³¹ records or a field has 2 GiB.
    pub fn append(&mut self, timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header<'_>]) {
        if self.count == 0 {
            (self.base_timestamp, self.max_timestamp) = (timestamp, timestamp);
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let timestamp_delta = timestamp.wrapping_sub(self.base_timestamp);
        let body = body_len(timestamp_delta, self.count, key, value, headers);
        let out = &mut self.buffer;
        put_varint(out, i32::try_from(body).expect("a record has less than 2 GiB"));
        out.push(0);
        put_varlong(out, timestamp_delta);
        put_varint(out, self.count);
        put_bytes(out, key);
        put_bytes(out, value);
        put_varint(out, i32::try_from(headers.len()).expect("fewer than 2^31 headers"));
        for header in headers {
            put_bytes(out, Some(header.key));
            put_bytes(out, header.value);
        }
        self.count = self.count.checked_add(1).expect("fewer than 2^31 records");
    }

    /// Number of records.
    #[must_use]
    pub const fn count(&self) -> i32 {
        self.count
    }

    /// Whether there are no records.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the batch, uncompressed, header included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// The highest timestamp so far, −1 without records.
    #[must_use]
    pub const fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// The records, uncompressed: what a codec gets.
    #[must_use]
    pub fn records(&self) -> &[u8] {
        self.buffer.get(RECORDS..).unwrap_or_default()
    }

    /// Writes the header and gives the batch, with base offset 0 and leader epoch −1. May be called again with another
    /// producer.
    pub fn finish(&mut self, producer: Producer, sums: &Checksums) -> &[u8] {
        let mut batch = core::mem::take(&mut self.buffer);
        self.header(&mut batch, Codec::None, producer, sums);
        self.buffer = batch;
        &self.buffer
    }

    /// Appends the batch to `out` with `payload`, which is [`BatchBuilder::records`] compressed with `codec`.
    pub fn finish_compressed(
        &self,
        codec: Codec,
        payload: &[u8],
        producer: Producer,
        sums: &Checksums,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.resize(start + RECORDS, 0);
        out.extend_from_slice(payload);
        self.header(out.get_mut(start..).unwrap_or_default(), codec, producer, sums);
    }

    fn header(&self, batch: &mut [u8], codec: Codec, producer: Producer, sums: &Checksums) {
        let length = i32::try_from(batch.len() - LENGTH_OVERHEAD).expect("a batch has less than 2 GiB");
        let transactional = if producer.transactional { TRANSACTIONAL_BIT } else { 0 };
        put(batch, BASE_OFFSET, &0i64.to_be_bytes());
        put(batch, LENGTH, &length.to_be_bytes());
        put(batch, LEADER_EPOCH, &(-1i32).to_be_bytes());
        put(batch, MAGIC, &[2]);
        put(batch, ATTRIBUTES, &(codec.bits() | transactional).to_be_bytes());
        put(batch, LAST_OFFSET_DELTA, &(self.count - 1).to_be_bytes());
        put(batch, BASE_TIMESTAMP, &self.base_timestamp.to_be_bytes());
        put(batch, MAX_TIMESTAMP, &self.max_timestamp.to_be_bytes());
        put(batch, PRODUCER_ID, &producer.id.to_be_bytes());
        put(batch, PRODUCER_EPOCH, &producer.epoch.to_be_bytes());
        put(batch, BASE_SEQUENCE, &producer.sequence.to_be_bytes());
        put(batch, COUNT, &self.count.to_be_bytes());
        stamp_crc(batch, sums);
    }
}

/// An upper bound of the bytes that a record adds to a batch.
#[must_use]
pub fn record_len(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header<'_>]) -> usize {
    // The length in front takes up to 5 bytes; the deltas are not known, so their longest is taken.
    5 + body_len(i64::MIN, i32::MAX, key, value, headers)
}

pub(super) fn body_len(
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[Header<'_>],
) -> usize {
    1 + uvarlong_len(zigzag(timestamp_delta))
        + uvarlong_len(zigzag(i64::from(offset_delta)))
        + bytes_len(key)
        + bytes_len(value)
        + uvarlong_len(zigzag(headers.len().cast_signed() as i64))
        + headers.iter().map(|header| bytes_len(Some(header.key)) + bytes_len(header.value)).sum::<usize>()
}

fn bytes_len(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| uvarlong_len(zigzag(bytes.len().cast_signed() as i64)) + bytes.len())
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let len = bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).expect("a field has less than 2 GiB"));
    put_varint(out, len);
    out.extend_from_slice(bytes.unwrap_or_default());
}
