//! The generated messages: bytes made at random from the schemas, read and written by this codec and by an independent one,
//! in every version; then hostile bytes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the failure")]

#[path = "messages/schema.rs"]
mod schema;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as oracle;
use kafka_protocol::protocol::{Decodable, Encodable};
use protocol::api::{APIS, ApiKey};
use protocol::error::ErrorCode;
use protocol::messages::{self, Message};
use protocol::wire::{DecodeError, Reader};
use schema::{Random, Schema};

/// Reads and writes again; what is left over is an error.
type Ours = fn(&[u8], i16) -> Result<Vec<u8>, DecodeError>;
/// The same by the independent codec; `None` where it does not know the version.
type Oracle = fn(&[u8], i16) -> Option<Vec<u8>>;

struct Subject {
    name: &'static str,
    versions: std::ops::RangeInclusive<i16>,
    flexible: i16,
    ours: Ours,
    oracle: Option<Oracle>,
}

macro_rules! subjects {
    (known: $($known:ident)*; alone: $($alone:ident)*) => {
        vec![
            $(subjects!(@one $known, Some(|bytes, version| {
                use kafka_protocol::protocol::Message as _;
                if !(oracle::$known::VERSIONS.min..=oracle::$known::VERSIONS.max).contains(&version) {
                    return None;
                }
                let mut bytes = Bytes::copy_from_slice(bytes);
                let message = oracle::$known::decode(&mut bytes, version).unwrap();
                assert!(bytes.is_empty());
                let mut out = BytesMut::new();
                message.encode(&mut out, version).unwrap();
                Some(out.to_vec())
            })),)*
            $(subjects!(@one $alone, None),)*
        ]
    };
    (@one $name:ident, $oracle:expr) => {
        Subject {
            name: stringify!($name),
            versions: messages::$name::VERSIONS,
            flexible: messages::$name::FLEXIBLE,
            ours: |bytes, version| {
                let mut reader = Reader::new(bytes);
                let message = messages::$name::decode(&mut reader, version)?;
                reader.end()?;
                let mut out = Vec::new();
                message.encode(&mut out, version);
                Ok(out)
            },
            oracle: $oracle,
        }
    };
}

fn subjects() -> Vec<Subject> {
    subjects! {
        known:
            ProduceRequest ProduceResponse FetchRequest FetchResponse ListOffsetsRequest ListOffsetsResponse
            MetadataRequest MetadataResponse OffsetCommitRequest OffsetCommitResponse OffsetFetchRequest
            OffsetFetchResponse FindCoordinatorRequest FindCoordinatorResponse JoinGroupRequest JoinGroupResponse
            HeartbeatRequest HeartbeatResponse LeaveGroupRequest LeaveGroupResponse SyncGroupRequest SyncGroupResponse
            DescribeGroupsRequest DescribeGroupsResponse ListGroupsRequest ListGroupsResponse ApiVersionsRequest
            ApiVersionsResponse CreateTopicsRequest CreateTopicsResponse DeleteTopicsRequest DeleteTopicsResponse
            DeleteRecordsRequest DeleteRecordsResponse InitProducerIdRequest InitProducerIdResponse
            OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse DescribeAclsRequest DescribeAclsResponse
            CreateAclsRequest CreateAclsResponse DeleteAclsRequest DeleteAclsResponse DescribeConfigsRequest
            DescribeConfigsResponse AlterConfigsRequest AlterConfigsResponse DescribeLogDirsRequest
            DescribeLogDirsResponse CreatePartitionsRequest CreatePartitionsResponse DeleteGroupsRequest
            DeleteGroupsResponse IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse OffsetDeleteRequest
            OffsetDeleteResponse DescribeClusterRequest DescribeClusterResponse DescribeProducersRequest
            DescribeProducersResponse ConsumerGroupHeartbeatRequest ConsumerGroupHeartbeatResponse
            ConsumerGroupDescribeRequest ConsumerGroupDescribeResponse DescribeTopicPartitionsRequest
            DescribeTopicPartitionsResponse ConsumerProtocolSubscription ConsumerProtocolAssignment;
        alone: OffsetCommitKey OffsetCommitValue GroupMetadataKey GroupMetadataValue
            ConsumerGroupMetadataKey ConsumerGroupMetadataValue ConsumerGroupMemberMetadataKey
            ConsumerGroupMemberMetadataValue ConsumerGroupTargetAssignmentMetadataKey
            ConsumerGroupTargetAssignmentMetadataValue ConsumerGroupTargetAssignmentMemberKey
            ConsumerGroupTargetAssignmentMemberValue ConsumerGroupCurrentMemberAssignmentKey
            ConsumerGroupCurrentMemberAssignmentValue
    }
}

#[test]
fn every_message_and_version_comes_back_byte_for_byte() {
    let schemas = schema::all();
    assert_eq!(schemas.len(), subjects().len());
    let mut seen_by_oracle = 0;
    for subject in subjects() {
        let schema = schemas.iter().find(|schema| schema.name == subject.name).unwrap();
        assert_eq!((&schema.versions, schema.flexible), (&subject.versions, subject.flexible), "{}", subject.name);
        for version in subject.versions.clone() {
            for seed in 0..8 {
                let bytes = schema.bytes(version, &mut Random::new(seed));
                let context = format!("{} v{version} seed {seed}", subject.name);
                assert_eq!((subject.ours)(&bytes, version).as_ref(), Ok(&bytes), "{context}");
                if let Some(theirs) = subject.oracle.and_then(|oracle| oracle(&bytes, version)) {
                    assert_eq!(theirs, bytes, "{context}, by the other codec");
                    seen_by_oracle += 1;
                }
            }
        }
        let outside = *subject.versions.end() + 1;
        assert_eq!((subject.ours)(&[], outside), Err(DecodeError::Version));
    }
    // 66 messages: the table of the other codec covers nearly all versions.
    assert!(seen_by_oracle > 2_500, "{seen_by_oracle}");
}

#[test]
fn the_table_of_apis_agrees_with_the_schemas() {
    let schemas = schema::all();
    for api in APIS {
        for kind in ["Request", "Response"] {
            let name = format!("{}{kind}", api.name);
            let schema = schemas.iter().find(|schema| schema.name == name).unwrap();
            assert_eq!(schema.versions, api.served_min..=api.max, "{name}");
            assert_eq!(schema.flexible, api.flexible, "{name}");
        }
    }
}

/// No structure of any message in memory is larger than this many times its fewest bytes on the wire, arrays doubled.
const MEMORY_PER_BYTE: u64 = 100;
/// What the nested arrays at hand may take before their elements were seen.
const MEMORY_AT_ONCE: u64 = 4 * (16 << 10);

fn measured(subject: &Subject, bytes: &[u8], version: i16) -> Result<Vec<u8>, DecodeError> {
    let mut result = Ok(Vec::new());
    let info = allocation_counter::measure(|| result = (subject.ours)(bytes, version));
    let bound = MEMORY_AT_ONCE + MEMORY_PER_BYTE * bytes.len() as u64;
    assert!(info.bytes_max <= bound, "{} v{version}: {} bytes for {}", subject.name, info.bytes_max, bytes.len());
    result
}

#[test]
fn cut_off_bytes_are_refused_at_every_length() {
    let schemas = schema::all();
    for (subject, schema) in
        subjects().iter().map(|s| (s, schemas.iter().find(|schema| schema.name == s.name).unwrap()))
    {
        for version in subject.versions.clone() {
            let bytes = schema.bytes(version, &mut Random::new(1));
            for len in 0..bytes.len() {
                assert!(measured(subject, &bytes[..len], version).is_err(), "{} v{version} {len}", subject.name);
            }
        }
    }
}

#[test]
fn damaged_and_random_bytes_neither_panic_nor_take_memory() {
    let schemas = schema::all();
    let mut random = Random::new(99);
    for (subject, schema) in
        subjects().iter().map(|s| (s, schemas.iter().find(|schema| schema.name == s.name).unwrap()))
    {
        for version in subject.versions.clone() {
            let bytes = schema.bytes(version, &mut Random::new(2));
            for _ in 0..60 {
                let mut damaged = bytes.clone();
                for _ in 0..=random.below(2) {
                    if let Some(byte) = damaged.get_mut(random.below(bytes.len().max(1))) {
                        *byte = [0, 1, 0x7f, 0x80, 0xff, 0xfe][random.below(6)];
                    }
                }
                let _ = measured(subject, &damaged, version);
            }
            for len in [1, 7, 12, 30, 200] {
                let noise: Vec<u8> = (0..len).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
                let _ = measured(subject, &noise, version);
                let _ = measured(subject, &vec![0xff; len], version);
                let _ = measured(subject, &vec![0x7f; len], version);
                let _ = measured(subject, &vec![0; len], version);
            }
        }
    }
}

#[test]
fn twelve_bytes_that_promise_everything_take_nothing() {
    // An array of 2^31 − 1 elements at the front, fixed and compact.
    let fixed = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    let compact = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0, 0, 0];
    for (version, bytes) in [(2, &fixed), (7, &compact)] {
        let info = allocation_counter::measure(|| {
            assert_eq!(messages::CreateTopicsRequest::parse(bytes, version).unwrap_err(), DecodeError::Count);
        });
        assert_eq!(info.bytes_total, 0);
    }
}

#[test]
fn a_long_array_of_the_smallest_elements_stays_in_proportion() {
    // Metadata v0: 100,000 topics with empty names of two bytes each.
    let mut bytes = 100_000i32.to_be_bytes().to_vec();
    bytes.resize(4 + 200_000, 0);
    let info = allocation_counter::measure(|| {
        let request = messages::MetadataRequest::parse(&bytes, 0).unwrap();
        assert_eq!(request.topics.map(|topics| topics.len()), Some(100_000));
    });
    assert!(info.bytes_max < 100 * bytes.len() as u64, "{}", info.bytes_max);
}

#[test]
fn known_bytes_stay_as_they_are() {
    // ApiVersions v0 with an error: what a broker answers to a version that it does not know (KIP-511).
    let response = messages::ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION,
        api_keys: vec![messages::api_versions_response::ApiVersion { api_key: 18, min_version: 0, max_version: 5 }],
        ..Default::default()
    };
    let mut out = Vec::new();
    response.encode(&mut out, 0);
    assert_eq!(out, [0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5]);
    out.clear();
    // v3: compact count, a tag section in the element, throttle time, one at the end; defaults of tags left out.
    response.encode(&mut out, 3);
    assert_eq!(out, [0, 35, 2, 0, 18, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0]);

    // Metadata of all topics: null from v1, empty in v0.
    let all = messages::MetadataRequest { topics: None, ..Default::default() };
    out.clear();
    all.encode(&mut out, 1);
    assert_eq!(out, [0xff, 0xff, 0xff, 0xff]);
    out.clear();
    all.encode(&mut out, 0);
    assert_eq!(out, [0, 0, 0, 0]);
}

#[test]
fn unknown_tags_are_skipped_and_known_ones_must_fit() {
    // ApiVersionsRequest v3: two compact strings, then tags.
    let bytes = [2, b'a', 2, b'1', 2, 9, 1, 0xff, 10, 0];
    let request = messages::ApiVersionsRequest::parse(&bytes, 3).unwrap();
    assert_eq!((request.client_software_name, request.client_software_version), ("a", "1"));
    // Tags must rise.
    let bytes = [2, b'a', 2, b'1', 2, 9, 0, 9, 0];
    assert_eq!(messages::ApiVersionsRequest::parse(&bytes, 3).unwrap_err(), DecodeError::Tag);
    // ApiVersionsResponse v3, tag 1 is an int64: nine bytes are too many, seven too few.
    let with_tag = |len: u8| {
        let mut bytes = vec![0, 0, 1, 0, 0, 0, 0, 1, 1, len];
        bytes.extend(vec![0; usize::from(len)]);
        bytes
    };
    assert!(messages::ApiVersionsResponse::parse(&with_tag(8), 3).is_ok());
    assert_eq!(messages::ApiVersionsResponse::parse(&with_tag(9), 3).unwrap_err(), DecodeError::Tag);
    assert_eq!(messages::ApiVersionsResponse::parse(&with_tag(7), 3).unwrap_err(), DecodeError::Truncated);
}

#[test]
fn a_request_knows_its_key_and_response() {
    fn key<'a, R: messages::Request<'a>>(_: &R) -> ApiKey {
        let response = R::Response::default();
        response.encode(&mut Vec::new(), *R::VERSIONS.end());
        R::KEY
    }
    assert_eq!(key(&messages::MetadataRequest::default()), ApiKey::Metadata);
    assert_eq!(key(&messages::HeartbeatRequest::default()), ApiKey::Heartbeat);
}

#[test]
fn hand_written_views_agree_with_the_generated_messages() {
    let schemas = schema::all();
    let by_name = |name: &str| -> &Schema { schemas.iter().find(|schema| schema.name == name).unwrap() };
    for seed in 0..50 {
        let random = &mut Random::new(seed);
        for version in 3..=13 {
            let bytes = by_name("ProduceRequest").bytes(version, random);
            let view = protocol::produce::ProduceView::check(&bytes, version).unwrap();
            let message = messages::ProduceRequest::parse(&bytes, version).unwrap();
            assert_eq!((view.acks, view.timeout_ms), (message.acks, message.timeout_ms));
            let seen: Vec<_> = view.topics().flat_map(|t| t.partitions).map(|p| (p.index, p.records)).collect();
            let read: Vec<_> = message.topic_data.iter().flat_map(|t| &t.partition_data).collect();
            assert_eq!(seen, read.iter().map(|p| (p.index, p.records.unwrap_or_default())).collect::<Vec<_>>());
        }
        for version in 4..=18 {
            let bytes = by_name("FetchRequest").bytes(version, random);
            let view = protocol::fetch::FetchView::check(&bytes, version).unwrap();
            let message = messages::FetchRequest::parse(&bytes, version).unwrap();
            assert_eq!((view.cluster_id, view.rack_id), (message.cluster_id, message.rack_id));
            assert_eq!((view.session_id, view.session_epoch), (message.session_id, message.session_epoch));
            let replica = if version < 15 { message.replica_id } else { message.replica_state.replica_id };
            assert_eq!(view.replica_id, replica);
            let seen: Vec<_> = view.topics().flat_map(|t| t.partitions).map(|p| (p.index, p.fetch_offset)).collect();
            let read: Vec<_> = message.topics.iter().flat_map(|t| &t.partitions).collect();
            assert_eq!(seen, read.iter().map(|p| (p.partition, p.fetch_offset)).collect::<Vec<_>>());
            let forgotten: Vec<i32> = view.forgotten().flat_map(|t| t.partitions).collect();
            let read: Vec<i32> = message.forgotten_topics_data.iter().flat_map(|t| t.partitions.clone()).collect();
            assert_eq!(forgotten, read);
        }
        for version in 1..=11 {
            let bytes = by_name("ListOffsetsRequest").bytes(version, random);
            let view = protocol::list_offsets::ListOffsetsView::check(&bytes, version).unwrap();
            let message = messages::ListOffsetsRequest::parse(&bytes, version).unwrap();
            assert_eq!((view.isolation_level, view.timeout_ms), (message.isolation_level, message.timeout_ms));
            let seen: Vec<_> = view.topics().flat_map(|t| t.partitions).map(|p| (p.index, p.timestamp)).collect();
            let read: Vec<_> = message.topics.iter().flat_map(|t| &t.partitions).collect();
            assert_eq!(seen, read.iter().map(|p| (p.partition_index, p.timestamp)).collect::<Vec<_>>());
        }
    }
}
