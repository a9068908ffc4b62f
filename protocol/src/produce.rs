//! Produce, versions 3 to 13: the request in place, the response.
//!
//! Changes over the versions: 5 log start offset, 8 record errors, 9 flexible, 10 leader hints (KIP-951), 13 topic ids.

use alloc::vec::Vec;
use core::ops::Range;

use crate::error::ErrorCode;
use crate::view::{Element, Elements, Leader, Nest, NodeEndpoint, TopicRef, put_endpoints, put_leader_tag};
use crate::wire::{DecodeError, Reader, put_count, put_string};

/// Served versions.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 3..=13;

const fn flexible(version: i16) -> bool {
    version >= 9
}

/// A Produce request that is well-formed to its last record batch; the batches are not looked at.
#[derive(Clone, Copy, Debug)]
pub struct ProduceView<'a> {
    /// Version of the request.
    pub version: i16,
    /// Of a transactional producer.
    pub transactional_id: Option<&'a str>,
    /// 0, 1 or −1 (all); others are not refused here.
    pub acks: i16,
    /// How long the client waits for the acks, in ms.
    pub timeout_ms: i32,
    topics: Elements<'a, ProduceTopic<'a>>,
}

/// One topic of a request.
#[derive(Clone, Copy, Debug)]
pub struct ProduceTopic<'a> {
    /// By id from version 13.
    pub topic: TopicRef<'a>,
    /// Its partitions.
    pub partitions: Elements<'a, ProducePartition<'a>>,
}

/// One partition of a request.
#[derive(Clone, Copy, Debug)]
pub struct ProducePartition<'a> {
    /// Index in the topic.
    pub index: i32,
    /// Should be exactly one record batch. Null in the request is given as empty.
    pub records: &'a [u8],
    /// Bytes from the records' first to the request's end.
    from_end: usize,
}

impl ProducePartition<'_> {
    /// Where the records lie in the frame (or any other buffer) that ends with this request.
    #[must_use]
    pub fn range_in(&self, frame: &[u8]) -> Range<usize> {
        let start = frame.len().saturating_sub(self.from_end);
        start..start + self.records.len()
    }
}

impl<'a> ProduceView<'a> {
    /// Checks the body of a request once, to its end.
    ///
    /// # Errors
    /// [`DecodeError::Version`] outside [`VERSIONS`], and what is wrong with the bytes.
    pub fn check(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        if !VERSIONS.contains(&version) {
            return Err(DecodeError::Version);
        }
        let mut reader = Reader::new(body);
        let transactional_id = reader.nullable_string(flexible(version))?;
        let acks = reader.i16()?;
        let timeout_ms = reader.i32()?;
        let topics = Elements::check(&mut reader, version, flexible(version))?;
        if flexible(version) {
            reader.skip_tags()?;
        }
        Ok(Self { version, transactional_id, acks, timeout_ms, topics })
    }

    /// Its topics, in the request's order.
    #[must_use]
    pub const fn topics(&self) -> Elements<'a, ProduceTopic<'a>> {
        self.topics
    }
}

impl<'a> Element<'a> for ProduceTopic<'a> {
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let topic = TopicRef::read(reader, version >= 13, flexible(version))?;
        let partitions = Elements::check(reader, version, flexible(version))?;
        if flexible(version) {
            reader.skip_tags()?;
        }
        Ok(Self { topic, partitions })
    }
}

impl<'a> Element<'a> for ProducePartition<'a> {
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let index = reader.i32()?;
        let records = reader.nullable_bytes(flexible(version))?.unwrap_or_default();
        let from_end = reader.left() + records.len();
        if flexible(version) {
            reader.skip_tags()?;
        }
        Ok(Self { index, records, from_end })
    }
}

/// What became of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProduceOutcome<'a> {
    /// Index in the topic.
    pub index: i32,
    /// Why nothing was stored.
    pub error: ErrorCode,
    /// Offset of the first record, −1 on an error.
    pub base_offset: i64,
    /// Timestamp that the broker stamped, −1 for CreateTime or an error.
    pub log_append_time_ms: i64,
    /// First offset that is kept, −1 for unknown.
    pub log_start_offset: i64,
    /// Records at fault: index in the batch, and a text for people (version 8 and up).
    pub record_errors: &'a [(i32, Option<&'a str>)],
    /// A text for people (version 8 and up).
    pub error_message: Option<&'a str>,
    /// The right leader, where this broker is not (version 10 and up).
    pub leader: Option<Leader>,
}

impl ProduceOutcome<'_> {
    /// Nothing was stored.
    #[must_use]
    pub const fn failed(index: i32, error: ErrorCode) -> Self {
        Self {
            index,
            error,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: &[],
            error_message: None,
            leader: None,
        }
    }
}

/// Writes the body of a response: [`ProduceWriter::begin`], for each topic [`ProduceWriter::topic`] and its partitions, then
/// [`ProduceWriter::end`].
///
/// # Panics
/// All its functions, when topics or partitions are more or fewer than announced.
#[derive(Clone, Copy, Debug)]
pub struct ProduceWriter {
    version: i16,
    nest: Nest,
}

impl ProduceWriter {
    /// A response of `topics` topics. `version` is one of [`VERSIONS`].
    pub fn begin(out: &mut Vec<u8>, version: i16, topics: usize) -> Self {
        Self { version, nest: Nest::begin(out, topics, flexible(version)) }
    }

    /// The next topic, of `partitions` partitions; named as in the request.
    pub fn topic(&mut self, out: &mut Vec<u8>, topic: TopicRef<'_>, partitions: usize) {
        self.nest.topic(out, topic, partitions);
    }

    /// The topic's next partition.
    pub fn partition(&mut self, out: &mut Vec<u8>, outcome: &ProduceOutcome<'_>) {
        let flexible = self.nest.flexible;
        out.extend_from_slice(&outcome.index.to_be_bytes());
        out.extend_from_slice(&outcome.error.0.to_be_bytes());
        out.extend_from_slice(&outcome.base_offset.to_be_bytes());
        out.extend_from_slice(&outcome.log_append_time_ms.to_be_bytes());
        if self.version >= 5 {
            out.extend_from_slice(&outcome.log_start_offset.to_be_bytes());
        }
        if self.version >= 8 {
            put_count(out, Some(outcome.record_errors.len()), flexible);
            for (index, message) in outcome.record_errors {
                out.extend_from_slice(&index.to_be_bytes());
                put_string(out, *message, flexible);
                self.nest.no_tags(out);
            }
            put_string(out, outcome.error_message, flexible);
        }
        match outcome.leader {
            Some(leader) if self.version >= 10 => {
                out.push(1);
                put_leader_tag(out, 0, leader);
            }
            _ => self.nest.no_tags(out),
        }
        self.nest.partition_done(out);
    }

    /// The end. `endpoints` of the leaders named are written from version 10.
    pub fn end(self, out: &mut Vec<u8>, throttle_ms: i32, endpoints: &[NodeEndpoint<'_>]) {
        self.nest.end();
        out.extend_from_slice(&throttle_ms.to_be_bytes());
        if self.version >= 10 {
            put_endpoints(out, endpoints);
        } else {
            self.nest.no_tags(out);
        }
    }
}
