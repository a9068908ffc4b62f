//! Record batch v2: view, records, builder, stamping.
//!
//! A batch is stored and served as the producer sent it. Offset and leader epoch lie outside what its CRC-32C covers, so a
//! broker stamps them without hashing again.

mod builder;
mod filter;
mod records;
mod stamp;
#[cfg(test)]
mod tests;

pub use builder::{BatchBuilder, Producer, record_len};
pub use filter::{Filtered, empty_batch, rewrite};
pub use records::{Header, Headers, RecordView, Records, Walk, walk_records};
pub use stamp::{stamp, stamp_append_time, stamp_max_timestamp};

use base::Checksums;

use crate::error::ErrorCode;

/// i64: offset of the first record.
pub const BASE_OFFSET: usize = 0;
/// i32: bytes of the batch behind this field.
pub const LENGTH: usize = 8;
/// i32: leader epoch, stamped by the broker.
pub const LEADER_EPOCH: usize = 12;
/// i8: 2.
pub const MAGIC: usize = 16;
/// u32: CRC-32C of everything from [`ATTRIBUTES`] to the batch's end.
pub const CRC: usize = 17;
/// i16: bits 0–2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon.
pub const ATTRIBUTES: usize = 21;
/// i32: offset of the last record, relative to the base offset.
pub const LAST_OFFSET_DELTA: usize = 23;
/// i64: what the records' timestamp deltas are relative to, in ms since 1970.
pub const BASE_TIMESTAMP: usize = 27;
/// i64: highest timestamp in ms since 1970; with LogAppendTime the timestamp of every record.
pub const MAX_TIMESTAMP: usize = 35;
/// i64: producer id, −1 for none.
pub const PRODUCER_ID: usize = 43;
/// i16: producer epoch, −1 for none.
pub const PRODUCER_EPOCH: usize = 51;
/// i32: sequence of the first record, −1 for none.
pub const BASE_SEQUENCE: usize = 53;
/// i32: number of records.
pub const COUNT: usize = 57;
/// Where the records begin; the length of the header.
pub const RECORDS: usize = 61;
/// What the length field does not count: base offset and itself.
pub const LENGTH_OVERHEAD: usize = 12;

/// Attribute bit: the broker stamped the timestamps.
pub const APPEND_TIME_BIT: i16 = 1 << 3;
/// Attribute bit: part of a transaction.
pub const TRANSACTIONAL_BIT: i16 = 1 << 4;
/// Attribute bit: a transaction marker.
pub const CONTROL_BIT: i16 = 1 << 5;
/// Attribute bit: the base timestamp is the time from which on the batch's tombstones may go (KIP-534).
pub const DELETE_HORIZON_BIT: i16 = 1 << 6;
/// Attribute bits of the codec.
pub const CODEC_MASK: i16 = 0b111;

/// How a batch's records are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy in xerial framing.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// RFC 8878.
    Zstd,
}

impl Codec {
    /// From the attributes of a batch.
    ///
    /// # Errors
    /// [`BatchError::Codec`] for 5, 6 and 7, which Kafka has not given.
    pub const fn of(attributes: i16) -> Result<Self, BatchError> {
        Ok(match attributes & CODEC_MASK {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            other => return Err(BatchError::Codec(other)),
        })
    }

    /// Its bits in the attributes.
    #[must_use]
    pub const fn bits(self) -> i16 {
        self as i16
    }
}

/// The rule of record batch v2 that bytes break. One variant per rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// Fewer bytes than the header, or than the length field says.
    Truncated,
    /// The length field is smaller than a header.
    Length,
    /// The base offset of a client's batch is not 0.
    BaseOffset(i64),
    /// Bytes follow the one batch that is allowed.
    Trailing,
    /// Message format v0 or v1, or none that exists.
    Magic(i8),
    /// No records, or a negative number.
    Count(i32),
    /// The last offset delta + 1 is not the count.
    LastOffsetDelta(i32),
    /// A transaction marker from a client.
    Control,
    /// A producer id without a sequence.
    Sequence,
    /// The LogAppendTime bit from a client.
    AppendTime,
    /// A codec that does not exist.
    Codec(i16),
    /// The CRC-32C does not match.
    Crc,
    /// A record does not parse, or its length is wrong.
    Record,
    /// Records' offset deltas are not 0, 1, 2, …
    OffsetDelta,
    /// Bytes are left behind the last record.
    RecordsTrailing,
}

impl BatchError {
    /// What Kafka answers to a producer.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Truncated | Self::Length | Self::Crc | Self::Magic(3..) => ErrorCode::CORRUPT_MESSAGE,
            Self::AppendTime => ErrorCode::INVALID_TIMESTAMP,
            Self::Codec(_) => ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            Self::Trailing
            | Self::BaseOffset(_)
            | Self::Magic(_)
            | Self::Count(_)
            | Self::LastOffsetDelta(_)
            | Self::Control
            | Self::Sequence
            | Self::Record
            | Self::OffsetDelta
            | Self::RecordsTrailing => ErrorCode::INVALID_RECORD,
        }
    }
}

impl core::fmt::Display for BatchError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Truncated => f.write_str("the record batch is cut off"),
            Self::Length => f.write_str("the record batch's length is smaller than its header"),
            Self::BaseOffset(offset) => write!(f, "base offset {offset}; a producer's is 0"),
            Self::Trailing => f.write_str("more than one record batch"),
            Self::Magic(magic) => write!(f, "message format {magic}; only record batches of format 2 are taken"),
            Self::Count(count) => write!(f, "{count} records in the batch"),
            Self::LastOffsetDelta(delta) => write!(f, "last offset delta {delta} does not match the number of records"),
            Self::Control => f.write_str("clients may not write control records"),
            Self::Sequence => f.write_str("producer id without a sequence"),
            Self::AppendTime => f.write_str("clients may not set the timestamp type LogAppendTime"),
            Self::Codec(codec) => write!(f, "unknown compression type {codec}"),
            Self::Crc => f.write_str("CRC-32C mismatch"),
            Self::Record => f.write_str("a record is malformed"),
            Self::OffsetDelta => f.write_str("offset deltas of the records are not consecutive"),
            Self::RecordsTrailing => f.write_str("bytes behind the last record"),
        }
    }
}

impl core::error::Error for BatchError {}

/// One record batch whose header has been checked.
#[derive(Clone, Copy)]
pub struct BatchView<'a> {
    header: &'a [u8; RECORDS],
    bytes: &'a [u8],
}

impl core::fmt::Debug for BatchView<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BatchView")
            .field("base_offset", &self.base_offset())
            .field("count", &self.count())
            .field("attributes", &self.attributes())
            .field("producer_id", &self.producer_id())
            .field("base_sequence", &self.base_sequence())
            .field("len", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

macro_rules! field {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $at:expr;)*) => {
        $($(#[$doc])*
        #[inline]
        #[must_use]
        pub fn $name(&self) -> $type {
            <$type>::from_be_bytes(self.field($at))
        })*
    };
}

impl<'a> BatchView<'a> {
    /// Exactly one batch as a client may produce it. Neither the CRC nor the records are looked at.
    ///
    /// # Errors
    /// The first rule that the header breaks.
    pub fn check(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let (batch, rest) = Self::first(bytes)?;
        if !rest.is_empty() {
            return Err(BatchError::Trailing);
        }
        if batch.base_offset() != 0 {
            return Err(BatchError::BaseOffset(batch.base_offset()));
        }
        if batch.is_control() {
            return Err(BatchError::Control);
        }
        if batch.is_append_time() {
            return Err(BatchError::AppendTime);
        }
        batch.dense()?;
        if batch.producer_id() >= 0 && batch.base_sequence() < 0 {
            return Err(BatchError::Sequence);
        }
        Ok(batch)
    }

    /// Exactly one batch as a broker stores it: also stamped with LogAppendTime, a control batch, or a compacted one, which holds
    /// fewer records than offsets, or none.
    ///
    /// # Errors
    /// The first rule that the header breaks.
    pub fn check_stored(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let (batch, rest) = Self::first(bytes)?;
        if !rest.is_empty() {
            return Err(BatchError::Trailing);
        }
        if batch.count() < 0 {
            return Err(BatchError::Count(batch.count()));
        }
        if batch.last_offset_delta() < (batch.count() - 1).max(0) {
            return Err(BatchError::LastOffsetDelta(batch.last_offset_delta()));
        }
        Ok(batch)
    }

    /// The first of several batches back to back, and the bytes behind it. A compacted batch (fewer records than offsets)
    /// is accepted.
    ///
    /// # Errors
    /// [`BatchError::Truncated`], `Length`, `Magic`, `Codec`.
    pub fn first(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), BatchError> {
        let header = bytes.first_chunk::<RECORDS>().ok_or(BatchError::Truncated)?;
        let view = Self { header, bytes };
        // The magic first: the older formats have it at the same place, but no such header.
        if view.magic() != 2 {
            return Err(BatchError::Magic(view.magic()));
        }
        let length = usize::try_from(view.length()).map_err(|_| BatchError::Length)?;
        if length < RECORDS - LENGTH_OVERHEAD {
            return Err(BatchError::Length);
        }
        let (bytes, rest) = bytes.split_at_checked(length + LENGTH_OVERHEAD).ok_or(BatchError::Truncated)?;
        Codec::of(view.attributes())?;
        Ok((Self { header, bytes }, rest))
    }

    fn dense(&self) -> Result<(), BatchError> {
        if self.count() <= 0 {
            return Err(BatchError::Count(self.count()));
        }
        if self.last_offset_delta() != self.count() - 1 {
            return Err(BatchError::LastOffsetDelta(self.last_offset_delta()));
        }
        Ok(())
    }

    #[inline]
    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        // All offsets are constants inside the header: the fallback is never taken and compiles away.
        self.header.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    field! {
        /// Offset of the first record.
        base_offset: i64 = BASE_OFFSET;
        /// Bytes behind the length field.
        length: i32 = LENGTH;
        /// Leader epoch.
        leader_epoch: i32 = LEADER_EPOCH;
        /// Always 2.
        magic: i8 = MAGIC;
        /// CRC-32C as the header says.
        crc: u32 = CRC;
        /// All attribute bits.
        attributes: i16 = ATTRIBUTES;
        /// Offset of the last record, relative to the base offset.
        last_offset_delta: i32 = LAST_OFFSET_DELTA;
        /// What the records' timestamp deltas are relative to, in ms since 1970.
        base_timestamp: i64 = BASE_TIMESTAMP;
        /// Highest timestamp in ms since 1970, as the header claims.
        max_timestamp: i64 = MAX_TIMESTAMP;
        /// Producer id, −1 for none.
        producer_id: i64 = PRODUCER_ID;
        /// Producer epoch, −1 for none.
        producer_epoch: i16 = PRODUCER_EPOCH;
        /// Sequence of the first record, −1 for none.
        base_sequence: i32 = BASE_SEQUENCE;
        /// Number of records.
        count: i32 = COUNT;
    }

    /// The whole batch.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Offset of the last record.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset().wrapping_add(i64::from(self.last_offset_delta()))
    }

    /// Sequence of the last record: wraps from 2³¹ − 1 to 0. −1 where the batch has none.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        let base = self.base_sequence();
        if base < 0 { -1 } else { base.wrapping_add(self.last_offset_delta()) & i32::MAX }
    }

    /// How the records are compressed.
    #[must_use]
    pub fn codec(&self) -> Codec {
        // Checked when the view was made.
        Codec::of(self.attributes()).unwrap_or(Codec::None)
    }

    /// Whether the records are compressed.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.attributes() & CODEC_MASK != 0
    }

    /// Whether the broker stamped the timestamps.
    #[must_use]
    pub fn is_append_time(&self) -> bool {
        self.attributes() & APPEND_TIME_BIT != 0
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes() & TRANSACTIONAL_BIT != 0
    }

    /// Whether the batch is a transaction marker.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes() & CONTROL_BIT != 0
    }

    /// The time from which on its tombstones may go, in ms since 1970, where one is set.
    #[must_use]
    pub fn delete_horizon(&self) -> Option<i64> {
        (self.attributes() & DELETE_HORIZON_BIT != 0).then(|| self.base_timestamp())
    }

    /// What the CRC-32C covers.
    #[must_use]
    pub fn crc_bytes(&self) -> &'a [u8] {
        self.bytes.get(ATTRIBUTES..).unwrap_or_default()
    }

    /// Compares the CRC-32C.
    ///
    /// # Errors
    /// [`BatchError::Crc`].
    pub fn verify_crc(&self, sums: &Checksums) -> Result<(), BatchError> {
        if (sums.crc32c)(0, self.crc_bytes()) == self.crc() { Ok(()) } else { Err(BatchError::Crc) }
    }

    /// The records, compressed or not.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(RECORDS..).unwrap_or_default()
    }

    /// Walks the records of an uncompressed batch: offset deltas must be 0, 1, 2, … and nothing may be left.
    ///
    /// # Errors
    /// The rule that the records break. A compressed batch gives [`BatchError::Record`] in all likelihood: decompress its
    /// [`BatchView::payload`] and use [`BatchView::walk_decompressed`].
    pub fn walk(&self) -> Result<Walk, BatchError> {
        self.walk_decompressed(self.payload())
    }

    /// As [`BatchView::walk`], over the decompressed payload.
    ///
    /// # Errors
    /// The rule that the records break.
    pub fn walk_decompressed(&self, records: &[u8]) -> Result<Walk, BatchError> {
        walk_records(records, self.count(), self.base_timestamp())
    }

    /// The records of an uncompressed batch, in order; ends at the first that does not parse.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        self.records_of(self.payload())
    }

    /// The records of the decompressed payload.
    #[must_use]
    pub fn records_of<'b>(&self, decompressed: &'b [u8]) -> Records<'b> {
        Records::new(decompressed, self.count())
    }

    /// The timestamp of one of its records, in ms since 1970.
    #[must_use]
    pub fn timestamp_of(&self, record: &RecordView<'_>) -> i64 {
        if self.is_append_time() {
            self.max_timestamp()
        } else {
            self.base_timestamp().wrapping_add(record.timestamp_delta)
        }
    }
}

/// The batches of a fetch response, back to back. A last one that is cut off is left out, as Kafka's clients do.
#[derive(Clone, Copy, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

impl<'a> Batches<'a> {
    /// Over the records of one partition.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What is not given yet; at the end, the batch that was cut off.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<BatchView<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        match BatchView::first(self.rest) {
            Ok((batch, rest)) => {
                self.rest = rest;
                Some(Ok(batch))
            }
            Err(BatchError::Truncated) => None,
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}
