//! Fetch, versions 4 to 18: the request in place, the response around records that lie elsewhere.
//!
//! Changes over the versions: 5 log start offset, 7 sessions (KIP-227), 9 current leader epoch, 11 racks (KIP-392), 12
//! flexible and last fetched epoch, 13 topic ids, 15 replica state in a tag, 16 leader hints (KIP-951), 17 and 18 tags that
//! only followers send.

use alloc::vec::Vec;

use crate::error::ErrorCode;
use crate::view::{Element, Elements, Leader, Nest, NodeEndpoint, TopicRef, put_endpoints, put_leader_tag};
use crate::wire::{DecodeError, Reader, put_count, put_tag};

/// Served versions.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 4..=18;

const fn flexible(version: i16) -> bool {
    version >= 12
}

/// A Fetch request that is well-formed to its end.
#[derive(Clone, Copy, Debug)]
pub struct FetchView<'a> {
    /// Version of the request.
    pub version: i16,
    /// The cluster that the client means to talk to, if it says.
    pub cluster_id: Option<&'a str>,
    /// −1 for a consumer.
    pub replica_id: i32,
    /// How long to wait for [`FetchView::min_bytes`], in ms.
    pub max_wait_ms: i32,
    /// How much there should be before the answer.
    pub min_bytes: i32,
    /// How much the answer may carry; one batch at least.
    pub max_bytes: i32,
    /// 0 read uncommitted, 1 read committed; others are not refused here.
    pub isolation_level: i8,
    /// 0 for none.
    pub session_id: i32,
    /// 0 opens a session, −1 closes it or does without.
    pub session_epoch: i32,
    /// The client's rack, or empty.
    pub rack_id: &'a str,
    topics: Elements<'a, FetchTopic<'a>>,
    forgotten: Elements<'a, ForgottenTopic<'a>>,
}

/// One topic of a request.
#[derive(Clone, Copy, Debug)]
pub struct FetchTopic<'a> {
    /// By id from version 13.
    pub topic: TopicRef<'a>,
    /// Its partitions.
    pub partitions: Elements<'a, FetchPartition>,
}

/// One partition of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// Index in the topic.
    pub index: i32,
    /// The leader epoch that the client knows, −1 for none.
    pub current_leader_epoch: i32,
    /// Where to begin.
    pub fetch_offset: i64,
    /// Epoch of the last record that the client has, −1 for none.
    pub last_fetched_epoch: i32,
    /// A follower's log start, −1 from a consumer.
    pub log_start_offset: i64,
    /// How much the answer may carry of this partition.
    pub max_bytes: i32,
}

/// Partitions of a topic to drop from a session.
#[derive(Clone, Copy, Debug)]
pub struct ForgottenTopic<'a> {
    /// By id from version 13.
    pub topic: TopicRef<'a>,
    /// Indices in the topic.
    pub partitions: Elements<'a, i32>,
}

impl<'a> FetchView<'a> {
    /// Checks the body of a request once, to its end.
    ///
    /// # Errors
    /// [`DecodeError::Version`] outside [`VERSIONS`], and what is wrong with the bytes.
    pub fn check(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        if !VERSIONS.contains(&version) {
            return Err(DecodeError::Version);
        }
        let mut reader = Reader::new(body);
        let replica_id = if version < 15 { reader.i32()? } else { -1 };
        let mut view = Self {
            version,
            cluster_id: None,
            replica_id,
            max_wait_ms: reader.i32()?,
            min_bytes: reader.i32()?,
            max_bytes: reader.i32()?,
            isolation_level: reader.i8()?,
            session_id: 0,
            session_epoch: -1,
            rack_id: "",
            topics: Elements::empty(version),
            forgotten: Elements::empty(version),
        };
        if version >= 7 {
            view.session_id = reader.i32()?;
            view.session_epoch = reader.i32()?;
        }
        view.topics = Elements::check(&mut reader, version, flexible(version))?;
        if version >= 7 {
            view.forgotten = Elements::check(&mut reader, version, flexible(version))?;
        }
        if version >= 11 {
            view.rack_id = reader.string(flexible(version))?;
        }
        if flexible(version) {
            view.read_tags(&mut reader)?;
        }
        Ok(view)
    }

    fn read_tags(&mut self, reader: &mut Reader<'a>) -> Result<(), DecodeError> {
        reader.tags(&mut |tag, content| match tag {
            0 => {
                self.cluster_id = content.nullable_string(true)?;
                Ok(true)
            }
            1 if self.version >= 15 => {
                self.replica_id = content.i32()?;
                let _replica_epoch = content.i64()?;
                content.skip_tags()?;
                Ok(true)
            }
            _ => Ok(false),
        })
    }

    /// Its topics, in the request's order, which the answer keeps.
    #[must_use]
    pub const fn topics(&self) -> Elements<'a, FetchTopic<'a>> {
        self.topics
    }

    /// What leaves the session.
    #[must_use]
    pub const fn forgotten(&self) -> Elements<'a, ForgottenTopic<'a>> {
        self.forgotten
    }
}

impl<'a> Element<'a> for FetchTopic<'a> {
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let topic = TopicRef::read(reader, version >= 13, flexible(version))?;
        let partitions = Elements::check(reader, version, flexible(version))?;
        if flexible(version) {
            reader.skip_tags()?;
        }
        Ok(Self { topic, partitions })
    }
}

impl<'a> Element<'a> for FetchPartition {
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let partition = Self {
            index: reader.i32()?,
            current_leader_epoch: if version >= 9 { reader.i32()? } else { -1 },
            fetch_offset: reader.i64()?,
            last_fetched_epoch: if version >= 12 { reader.i32()? } else { -1 },
            log_start_offset: if version >= 5 { reader.i64()? } else { -1 },
            max_bytes: reader.i32()?,
        };
        if flexible(version) {
            reader.skip_tags()?;
        }
        Ok(partition)
    }
}

impl<'a> Element<'a> for ForgottenTopic<'a> {
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let topic = TopicRef::read(reader, version >= 13, flexible(version))?;
        let partitions = Elements::check(reader, version, flexible(version))?;
        if flexible(version) {
            reader.skip_tags()?;
        }
        Ok(Self { topic, partitions })
    }
}

/// A transaction that was aborted within the range of records given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose.
    pub producer_id: i64,
    /// Its first offset in the partition.
    pub first_offset: i64,
}

/// What is said of one partition before its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchOutcome<'a> {
    /// Index in the topic.
    pub index: i32,
    /// Why there are no records.
    pub error: ErrorCode,
    /// First offset not yet committed, −1 for unknown.
    pub high_watermark: i64,
    /// First offset of the oldest open transaction, or the high watermark; −1 for unknown.
    pub last_stable_offset: i64,
    /// First offset that is kept, −1 for unknown.
    pub log_start_offset: i64,
    /// Sorted by first offset; `None` (null) unless the request reads committed.
    pub aborted: Option<&'a [AbortedTransaction]>,
    /// Where to read instead, −1 for here (version 11 and up).
    pub preferred_read_replica: i32,
    /// The largest epoch and its end that the client's log shares with this one, where it diverges (version 12 and up).
    pub diverging_epoch: Option<(i32, i64)>,
    /// The right leader, where this broker is not (version 12 and up).
    pub leader: Option<Leader>,
}

impl FetchOutcome<'_> {
    /// No records, nothing known.
    #[must_use]
    pub const fn failed(index: i32, error: ErrorCode) -> Self {
        Self {
            index,
            error,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            aborted: Some(&[]),
            preferred_read_replica: -1,
            diverging_epoch: None,
            leader: None,
        }
    }
}

/// Writes the body of a response: [`FetchWriter::begin`], for each topic [`FetchWriter::topic`] and its partitions, then
/// [`FetchWriter::end`].
///
/// After [`FetchWriter::partition`] the next bytes of the response are that partition's records: append them to `out`, or
/// take `out` away as a piece, chain the records, and go on with another buffer.
///
/// # Panics
/// All its functions, when topics or partitions are more or fewer than announced.
#[derive(Clone, Copy, Debug)]
pub struct FetchWriter {
    version: i16,
    nest: Nest,
    pending: Option<Tags>,
}

/// The tags of the partition whose records come now.
#[derive(Clone, Copy, Debug)]
struct Tags {
    diverging: Option<(i32, i64)>,
    leader: Option<Leader>,
}

impl FetchWriter {
    /// A response of `topics` topics (those with something to say, in a session). `version` is one of [`VERSIONS`]. Before
    /// version 7 there is no error of the whole response: answer each partition.
    pub fn begin(
        out: &mut Vec<u8>,
        version: i16,
        throttle_ms: i32,
        error: ErrorCode,
        session_id: i32,
        topics: usize,
    ) -> Self {
        out.extend_from_slice(&throttle_ms.to_be_bytes());
        if version >= 7 {
            out.extend_from_slice(&error.0.to_be_bytes());
            out.extend_from_slice(&session_id.to_be_bytes());
        }
        Self { version, nest: Nest::begin(out, topics, flexible(version)), pending: None }
    }

    /// The next topic, of `partitions` partitions; named as in the request.
    pub fn topic(&mut self, out: &mut Vec<u8>, topic: TopicRef<'_>, partitions: usize) {
        self.end_partition(out);
        self.nest.topic(out, topic, partitions);
    }

    /// The topic's next partition, up to its records, which follow: `records_len` bytes.
    pub fn partition(&mut self, out: &mut Vec<u8>, outcome: &FetchOutcome<'_>, records_len: usize) {
        self.end_partition(out);
        out.extend_from_slice(&outcome.index.to_be_bytes());
        out.extend_from_slice(&outcome.error.0.to_be_bytes());
        out.extend_from_slice(&outcome.high_watermark.to_be_bytes());
        out.extend_from_slice(&outcome.last_stable_offset.to_be_bytes());
        if self.version >= 5 {
            out.extend_from_slice(&outcome.log_start_offset.to_be_bytes());
        }
        put_count(out, outcome.aborted.map(<[_]>::len), self.nest.flexible);
        for aborted in outcome.aborted.unwrap_or_default() {
            out.extend_from_slice(&aborted.producer_id.to_be_bytes());
            out.extend_from_slice(&aborted.first_offset.to_be_bytes());
            self.nest.no_tags(out);
        }
        if self.version >= 11 {
            out.extend_from_slice(&outcome.preferred_read_replica.to_be_bytes());
        }
        // Empty rather than null, as brokers do.
        put_count(out, Some(records_len), self.nest.flexible);
        self.pending = Some(Tags { diverging: outcome.diverging_epoch, leader: outcome.leader });
    }

    fn end_partition(&mut self, out: &mut Vec<u8>) {
        let Some(Tags { diverging, leader }) = self.pending.take() else { return };
        if self.nest.flexible {
            out.push(u8::from(diverging.is_some()) + u8::from(leader.is_some()));
            if let Some((epoch, end_offset)) = diverging {
                put_tag(out, 0, &mut |out| {
                    out.extend_from_slice(&epoch.to_be_bytes());
                    out.extend_from_slice(&end_offset.to_be_bytes());
                    out.push(0);
                });
            }
            if let Some(leader) = leader {
                put_leader_tag(out, 1, leader);
            }
        }
        self.nest.partition_done(out);
    }

    /// The end. `endpoints` of the leaders named are written from version 16.
    pub fn end(mut self, out: &mut Vec<u8>, endpoints: &[NodeEndpoint<'_>]) {
        self.end_partition(out);
        self.nest.end();
        if self.version >= 16 {
            put_endpoints(out, endpoints);
        } else {
            self.nest.no_tags(out);
        }
    }
}
