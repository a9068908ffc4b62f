//! Requests and responses as bytes, as a client writes and reads them.

use base::TopicId;
use base::image::TopicEntry;
use protocol::api::ApiKey;
use protocol::frame::{begin_frame, end_frame, parse_response, put_request_header};
use protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use protocol::messages::{ApiVersionsRequest, FetchRequest, ListOffsetsRequest, Message, ProduceRequest, Request};

/// How a topic is named in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopicName {
    /// Its name.
    pub(super) name: String,
    /// Its id.
    pub(super) id: TopicId,
}

impl TopicName {
    /// Of a topic in the metadata.
    #[must_use]
    pub(super) fn of(entry: &TopicEntry) -> Self {
        Self { name: entry.name.to_string(), id: entry.id }
    }
}

/// A request with its length in front.
fn frame<'a, R: Request<'a>>(request: &R, version: i16, correlation: i32) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let at = begin_frame(&mut out);
    put_request_header(&mut out, R::KEY, version, correlation, Some("sim"));
    request.encode(&mut out, version);
    end_frame(&mut out, at, 0);
    out
}

/// Reads a response; the correlation id must be the one given.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read<'a, M: Message<'a>>(
    bytes: &'a [u8],
    key: ApiKey,
    version: i16,
    correlation: i32,
) -> Result<M, String> {
    let (found, body) = parse_response(bytes, key, version).map_err(|error| format!("{key:?} response: {error:?}"))?;
    if found != correlation {
        return Err(format!("{key:?} response to request {found}, {correlation} is next"));
    }
    M::parse(body, version).map_err(|error| format!("{key:?} response: {error:?}"))
}

/// A Produce of batches for partitions (by index) of topics.
#[must_use]
pub(super) fn produce(version: i16, correlation: i32, acks: i16, batches: &[(TopicName, i32, &[u8])]) -> Vec<u8> {
    let topic_data = batches
        .iter()
        .map(|(topic, index, records)| TopicProduceData {
            name: &topic.name,
            topic_id: topic.id,
            partition_data: vec![PartitionProduceData { index: *index, records: Some(*records) }],
        })
        .collect();
    let request = ProduceRequest { acks, timeout_ms: 30_000, topic_data, ..ProduceRequest::default() };
    frame(&request, version, correlation)
}

/// What a Fetch asks for.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    /// Session id, 0 for none.
    pub(super) session: i32,
    /// Session epoch, −1 for no session.
    pub(super) session_epoch: i32,
    /// How long to wait.
    pub(super) max_wait_ms: i32,
    /// What to wait for.
    pub(super) min_bytes: i32,
    /// At most about so much.
    pub(super) max_bytes: i32,
    /// Of the topic: index, offset, leader epoch that the client believes in.
    pub(super) partitions: Vec<(i32, i64, i32)>,
    /// At most about so much of each.
    pub(super) partition_bytes: i32,
    /// Indices to follow no longer.
    pub(super) forgotten: Vec<i32>,
}

/// A Fetch of one topic.
#[must_use]
pub(super) fn fetch(version: i16, correlation: i32, topic: &TopicName, fetch: &Fetch) -> Vec<u8> {
    let wanted = |&(partition, fetch_offset, current_leader_epoch): &(i32, i64, i32)| FetchPartition {
        partition,
        fetch_offset,
        current_leader_epoch,
        partition_max_bytes: fetch.partition_bytes,
        ..FetchPartition::default()
    };
    let partitions: Vec<FetchPartition> = fetch.partitions.iter().map(wanted).collect();
    let topics = if partitions.is_empty() {
        Vec::new()
    } else {
        vec![FetchTopic { topic: &topic.name, topic_id: topic.id, partitions }]
    };
    let forgotten_topics_data = if fetch.forgotten.is_empty() {
        Vec::new()
    } else {
        vec![ForgottenTopic { topic: &topic.name, topic_id: topic.id, partitions: fetch.forgotten.clone() }]
    };
    let request = FetchRequest {
        max_wait_ms: fetch.max_wait_ms,
        min_bytes: fetch.min_bytes,
        max_bytes: fetch.max_bytes,
        session_id: fetch.session,
        session_epoch: fetch.session_epoch,
        topics,
        forgotten_topics_data,
        ..FetchRequest::default()
    };
    frame(&request, version, correlation)
}

/// A ListOffsets of one topic: (index, timestamp).
#[must_use]
pub(super) fn list_offsets(version: i16, correlation: i32, topic: &TopicName, asked: &[(i32, i64)]) -> Vec<u8> {
    let partition = |&(partition_index, timestamp): &(i32, i64)| ListOffsetsPartition {
        partition_index,
        timestamp,
        current_leader_epoch: -1,
    };
    let topics = vec![ListOffsetsTopic { name: &topic.name, partitions: asked.iter().map(partition).collect() }];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() };
    frame(&request, version, correlation)
}

/// An ApiVersions, which the control plane answers.
#[must_use]
pub(super) fn versions(correlation: i32) -> Vec<u8> {
    frame(&ApiVersionsRequest::default(), 0, correlation)
}
