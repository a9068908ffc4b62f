//! ListOffsets, versions 1 to 11: the request in place, the response.
//!
//! Changes over the versions: 2 isolation level, 4 leader epochs, 6 flexible, 7 max timestamp (KIP-734), 8 local start
//! (KIP-405), 9 last tiered, 10 timeout, 11 earliest pending upload.

use alloc::vec::Vec;

use crate::error::ErrorCode;
use crate::view::{Element, Elements, Nest, TopicRef};
use crate::wire::{DecodeError, Reader};

/// Served versions.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 1..=11;

/// Timestamp that asks for the high watermark (or the last stable offset).
pub const LATEST: i64 = -1;
/// Timestamp that asks for the log start.
pub const EARLIEST: i64 = -2;
/// Timestamp that asks for the record with the highest timestamp (version 7 and up).
pub const MAX_TIMESTAMP: i64 = -3;
/// Timestamp that asks for the log start on this broker's own disks (version 8 and up).
pub const EARLIEST_LOCAL: i64 = -4;
/// Timestamp that asks for the last offset in tiered storage (version 9 and up).
pub const LATEST_TIERED: i64 = -5;
/// Timestamp that asks for the first offset not yet in tiered storage (version 11 and up).
pub const EARLIEST_PENDING_UPLOAD: i64 = -6;

const fn flexible(version: i16) -> bool {
    version >= 6
}

/// A ListOffsets request that is well-formed to its end.
#[derive(Clone, Copy, Debug)]
pub struct ListOffsetsView<'a> {
    /// Version of the request.
    pub version: i16,
    /// −1 for a consumer.
    pub replica_id: i32,
    /// 0 read uncommitted, 1 read committed; others are not refused here.
    pub isolation_level: i8,
    /// How long to wait for what lies in tiered storage, in ms.
    pub timeout_ms: i32,
    topics: Elements<'a, ListOffsetsTopic<'a>>,
}

/// One topic of a request.
#[derive(Clone, Copy, Debug)]
pub struct ListOffsetsTopic<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its partitions.
    pub partitions: Elements<'a, ListOffsetsPartition>,
}

/// One partition of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOffsetsPartition {
    /// Index in the topic.
    pub index: i32,
    /// The leader epoch that the client knows, −1 for none.
    pub current_leader_epoch: i32,
    /// In ms since 1970, or one of the negative ones above.
    pub timestamp: i64,
}

impl<'a> ListOffsetsView<'a> {
    /// Checks the body of a request once, to its end.
    ///
    /// # Errors
    /// [`DecodeError::Version`] outside [`VERSIONS`], and what is wrong with the bytes.
    pub fn check(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        if !VERSIONS.contains(&version) {
            return Err(DecodeError::Version);
        }
        let mut reader = Reader::new(body);
        let replica_id = reader.i32()?;
        let isolation_level = if version >= 2 { reader.i8()? } else { 0 };
        let topics = Elements::check(&mut reader, version, flexible(version))?;
        let timeout_ms = if version >= 10 { reader.i32()? } else { 0 };
        if flexible(version) {
            reader.skip_tags()?;
        }
        Ok(Self { version, replica_id, isolation_level, timeout_ms, topics })
    }

    /// Its topics, in the request's order.
    #[must_use]
    pub const fn topics(&self) -> Elements<'a, ListOffsetsTopic<'a>> {
        self.topics
    }
}

impl<'a> Element<'a> for ListOffsetsTopic<'a> {
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let name = reader.string(flexible(version))?;
        let partitions = Elements::check(reader, version, flexible(version))?;
        if flexible(version) {
            reader.skip_tags()?;
        }
        Ok(Self { name, partitions })
    }
}

impl<'a> Element<'a> for ListOffsetsPartition {
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let partition = Self {
            index: reader.i32()?,
            current_leader_epoch: if version >= 4 { reader.i32()? } else { -1 },
            timestamp: reader.i64()?,
        };
        if flexible(version) {
            reader.skip_tags()?;
        }
        Ok(partition)
    }
}

/// What is said of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOffsetsOutcome {
    /// Index in the topic.
    pub index: i32,
    /// Why there is no offset.
    pub error: ErrorCode,
    /// Of the record found, in ms since 1970; −1 where a special timestamp was asked for or nothing was found.
    pub timestamp: i64,
    /// The offset, −1 where nothing was found.
    pub offset: i64,
    /// Leader epoch of the record found, −1 for unknown (version 4 and up).
    pub leader_epoch: i32,
}

impl ListOffsetsOutcome {
    /// No offset.
    #[must_use]
    pub const fn failed(index: i32, error: ErrorCode) -> Self {
        Self { index, error, timestamp: -1, offset: -1, leader_epoch: -1 }
    }
}

/// Writes the body of a response: [`ListOffsetsWriter::begin`], for each topic [`ListOffsetsWriter::topic`] and its
/// partitions, then [`ListOffsetsWriter::end`].
///
/// # Panics
/// All its functions, when topics or partitions are more or fewer than announced.
#[derive(Clone, Copy, Debug)]
pub struct ListOffsetsWriter {
    version: i16,
    nest: Nest,
}

impl ListOffsetsWriter {
    /// A response of `topics` topics. `version` is one of [`VERSIONS`].
    pub fn begin(out: &mut Vec<u8>, version: i16, throttle_ms: i32, topics: usize) -> Self {
        if version >= 2 {
            out.extend_from_slice(&throttle_ms.to_be_bytes());
        }
        Self { version, nest: Nest::begin(out, topics, flexible(version)) }
    }

    /// The next topic, of `partitions` partitions.
    pub fn topic(&mut self, out: &mut Vec<u8>, name: &str, partitions: usize) {
        self.nest.topic(out, TopicRef::Name(name), partitions);
    }

    /// The topic's next partition.
    pub fn partition(&mut self, out: &mut Vec<u8>, outcome: &ListOffsetsOutcome) {
        out.extend_from_slice(&outcome.index.to_be_bytes());
        out.extend_from_slice(&outcome.error.0.to_be_bytes());
        out.extend_from_slice(&outcome.timestamp.to_be_bytes());
        out.extend_from_slice(&outcome.offset.to_be_bytes());
        if self.version >= 4 {
            out.extend_from_slice(&outcome.leader_epoch.to_be_bytes());
        }
        self.nest.no_tags(out);
        self.nest.partition_done(out);
    }

    /// The end.
    pub fn end(self, out: &mut Vec<u8>) {
        self.nest.end();
        self.nest.no_tags(out);
    }
}
