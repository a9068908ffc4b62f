//! The hand-written views and writers against an independent codec, in every version.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the failure")]

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{self as oracle, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use protocol::error::ErrorCode;
use protocol::fetch::{self, AbortedTransaction, FetchOutcome, FetchPartition, FetchView, FetchWriter};
use protocol::list_offsets::{self, ListOffsetsOutcome, ListOffsetsPartition, ListOffsetsView, ListOffsetsWriter};
use protocol::produce::{self, ProduceOutcome, ProduceView, ProduceWriter};
use protocol::wire::DecodeError;
use protocol::{Leader, NodeEndpoint, TopicRef};

fn bytes_of(message: &impl Encodable, version: i16) -> Vec<u8> {
    let mut out = BytesMut::new();
    message.encode(&mut out, version).unwrap();
    out.to_vec()
}

fn read<T: Decodable>(bytes: &[u8], version: i16) -> T {
    let mut bytes = Bytes::copy_from_slice(bytes);
    let message = T::decode(&mut bytes, version).unwrap();
    assert!(bytes.is_empty(), "version {version}: {} bytes left", bytes.len());
    message
}

fn name(text: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(text))
}

fn id(number: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(number)
}

/// How both sides name topic `number`.
fn topic(number: u128, by_id: bool) -> TopicRef<'static> {
    const NAMES: [&str; 3] = ["zero", "one", "two"];
    if by_id {
        TopicRef::Id(base::TopicId(number + 1))
    } else {
        TopicRef::Name(NAMES[usize::try_from(number).unwrap()])
    }
}

/// Feeds every prefix, and every byte replaced, to `check`: errors are fine, panics are not.
fn torture(bytes: &[u8], check: &dyn Fn(&[u8]) -> Result<usize, DecodeError>) {
    for len in 0..bytes.len() {
        assert!(check(&bytes[..len]).is_err(), "cut off at {len} of {}", bytes.len());
    }
    for at in 0..bytes.len() {
        for value in [0, 1, 2, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.to_vec();
            damaged[at] = value;
            if let Ok(elements) = check(&damaged) {
                assert!(elements <= bytes.len());
            }
        }
    }
}

fn produce_request(version: i16) -> oracle::ProduceRequest {
    let partition = |index, records: Option<&'static [u8]>| {
        oracle::produce_request::PartitionProduceData::default()
            .with_index(index)
            .with_records(records.map(Bytes::from_static))
    };
    let topic = |label, number, partitions| {
        let topic = oracle::produce_request::TopicProduceData::default().with_partition_data(partitions);
        if version >= 13 { topic.with_topic_id(id(number)) } else { topic.with_name(name(label)) }
    };
    oracle::ProduceRequest::default()
        .with_transactional_id(Some(StrBytes::from_static_str("tx").into()))
        .with_acks(-1)
        .with_timeout_ms(1500)
        .with_topic_data(vec![
            topic("zero", 1, vec![partition(0, Some(b"first records")), partition(7, None)]),
            topic("one", 2, vec![]),
            topic("two", 3, vec![partition(2, Some(&[9; 300]))]),
        ])
}

#[test]
fn produce_requests_are_read_in_place() {
    for version in produce::VERSIONS {
        let bytes = bytes_of(&produce_request(version), version);
        let view = ProduceView::check(&bytes, version).unwrap();
        assert_eq!((view.transactional_id, view.acks, view.timeout_ms), (Some("tx"), -1, 1500));
        let topics: Vec<_> = view.topics().collect();
        let names: Vec<_> = topics.iter().map(|topic| topic.topic).collect();
        let by_id = version >= 13;
        assert_eq!(names, [topic(0, by_id), topic(1, by_id), topic(2, by_id)]);
        let first: Vec<_> = topics[0].partitions.map(|p| (p.index, p.records)).collect();
        assert_eq!(first, [(0, &b"first records"[..]), (7, &b""[..])]);
        assert_eq!(topics[1].partitions.len(), 0);
        let last = topics[2].partitions.last().unwrap();
        assert_eq!((last.index, last.records), (2, &[9; 300][..]));
        // The same range in a frame with a header in front.
        let mut frame = b"a header".to_vec();
        frame.extend(&bytes);
        assert_eq!(&frame[last.range_in(&frame)], &[9; 300]);
        torture(&bytes, &|bytes| {
            let view = ProduceView::check(bytes, version)?;
            Ok(view.topics().map(|topic| 1 + topic.partitions.count()).sum())
        });
    }
    assert_eq!(ProduceView::check(&[], 2).unwrap_err(), DecodeError::Version);
    assert_eq!(ProduceView::check(&[], 14).unwrap_err(), DecodeError::Version);
}

#[test]
fn produce_responses_are_what_clients_expect() {
    for version in produce::VERSIONS {
        let by_id = version >= 13;
        let mut out = Vec::new();
        let mut writer = ProduceWriter::begin(&mut out, version, 2);
        writer.topic(&mut out, topic(0, by_id), 2);
        let stored = ProduceOutcome {
            base_offset: 42,
            log_append_time_ms: 5,
            log_start_offset: 3,
            ..ProduceOutcome::failed(1, ErrorCode::NONE)
        };
        writer.partition(&mut out, &stored);
        let refused = ProduceOutcome {
            record_errors: &[(3, Some("no key")), (4, None)],
            error_message: Some("bad"),
            leader: Some(Leader { id: 9, epoch: 8 }),
            ..ProduceOutcome::failed(2, ErrorCode::INVALID_RECORD)
        };
        writer.partition(&mut out, &refused);
        writer.topic(&mut out, topic(1, by_id), 0);
        let endpoint = NodeEndpoint { id: 9, host: "there", port: 9092, rack: Some("r") };
        writer.end(&mut out, 77, &[endpoint]);

        let response: oracle::ProduceResponse = read(&out, version);
        assert_eq!((response.throttle_time_ms, response.responses.len()), (77, 2));
        if by_id {
            assert_eq!(response.responses[0].topic_id, id(1));
        } else {
            assert_eq!(response.responses[0].name, name("zero"));
        }
        let [first, second] = &response.responses[0].partition_responses[..] else { panic!("two partitions") };
        assert_eq!((first.index, first.error_code, first.base_offset, first.log_append_time_ms), (1, 0, 42, 5));
        assert_eq!(first.log_start_offset, if version >= 5 { 3 } else { -1 });
        assert_eq!((second.index, second.error_code, second.base_offset), (2, 87, -1));
        if version >= 8 {
            assert_eq!(second.record_errors.len(), 2);
            assert_eq!(second.record_errors[0].batch_index_error_message.as_deref(), Some("no key"));
            assert_eq!(second.error_message.as_deref(), Some("bad"));
        }
        if version >= 10 {
            assert_eq!((second.current_leader.leader_id.0, second.current_leader.leader_epoch), (9, 8));
            assert_eq!(first.current_leader.leader_id.0, -1);
            assert_eq!((response.node_endpoints[0].port, &*response.node_endpoints[0].host), (9092, "there"));
        }
    }
}

fn fetch_request(version: i16) -> oracle::FetchRequest {
    let mut partition = oracle::fetch_request::FetchPartition::default()
        .with_partition(4)
        .with_fetch_offset(1 << 33)
        .with_partition_max_bytes(1 << 20);
    if version >= 5 {
        partition.log_start_offset = 11;
    }
    if version >= 9 {
        partition.current_leader_epoch = 12;
    }
    if version >= 12 {
        partition.last_fetched_epoch = 13;
    }
    if version >= 17 {
        partition.replica_directory_id = id(99);
    }
    let mut topic = oracle::fetch_request::FetchTopic::default().with_partitions(vec![partition]);
    let mut forgotten = oracle::fetch_request::ForgottenTopic::default().with_partitions(vec![1, 2, 3]);
    if version >= 13 {
        topic.topic_id = id(1);
        forgotten.topic_id = id(2);
    } else {
        topic.topic = name("zero");
        forgotten.topic = name("one");
    }
    let mut request = oracle::FetchRequest::default()
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_isolation_level(1)
        .with_topics(vec![topic]);
    if version >= 7 {
        request = request.with_session_id(5).with_session_epoch(6).with_forgotten_topics_data(vec![forgotten]);
    }
    if version >= 11 {
        request.rack_id = StrBytes::from_static_str("rack");
    }
    if version >= 12 {
        request.cluster_id = Some(StrBytes::from_static_str("cluster"));
    }
    if version >= 15 {
        request.replica_state =
            oracle::fetch_request::ReplicaState::default().with_replica_id(3.into()).with_replica_epoch(4);
    } else {
        request.replica_id = 3.into();
    }
    request
}

#[test]
fn fetch_requests_are_read_in_place() {
    for version in fetch::VERSIONS {
        let bytes = bytes_of(&fetch_request(version), version);
        let view = FetchView::check(&bytes, version).unwrap();
        assert_eq!((view.replica_id, view.max_wait_ms, view.min_bytes), (3, 500, 1));
        assert_eq!((view.max_bytes, view.isolation_level), (50 << 20, 1));
        let session = if version >= 7 { (5, 6) } else { (0, -1) };
        assert_eq!((view.session_id, view.session_epoch), session);
        assert_eq!(view.rack_id, if version >= 11 { "rack" } else { "" });
        assert_eq!(view.cluster_id, (version >= 12).then_some("cluster"));
        let read = view.topics().next().unwrap();
        assert_eq!((read.topic, view.topics().len()), (topic(0, version >= 13), 1));
        let partitions: Vec<_> = read.partitions.collect();
        let expected = FetchPartition {
            index: 4,
            current_leader_epoch: if version >= 9 { 12 } else { -1 },
            fetch_offset: 1 << 33,
            last_fetched_epoch: if version >= 12 { 13 } else { -1 },
            log_start_offset: if version >= 5 { 11 } else { -1 },
            max_bytes: 1 << 20,
        };
        assert_eq!(partitions, [expected]);
        let forgotten: Vec<_> =
            view.forgotten().map(|gone| (gone.topic, gone.partitions.collect::<Vec<_>>())).collect();
        if version >= 7 {
            assert_eq!(forgotten, [(topic(1, version >= 13), vec![1, 2, 3])]);
        } else {
            assert_eq!(forgotten, []);
        }
        torture(&bytes, &|bytes| {
            let view = FetchView::check(bytes, version)?;
            let partitions: usize = view.topics().map(|topic| topic.partitions.count()).sum();
            Ok(partitions + view.forgotten().map(|topic| topic.partitions.count()).sum::<usize>())
        });
    }
}

#[test]
fn fetch_responses_hold_the_records_where_they_are_put() {
    for version in fetch::VERSIONS {
        let by_id = version >= 13;
        let mut out = Vec::new();
        let mut writer = FetchWriter::begin(&mut out, version, 7, ErrorCode::NONE, 21, 2);
        writer.topic(&mut out, topic(0, by_id), 3);
        let aborted = [AbortedTransaction { producer_id: 5, first_offset: 6 }];
        let full = FetchOutcome {
            high_watermark: 100,
            last_stable_offset: 90,
            log_start_offset: 10,
            aborted: Some(&aborted),
            preferred_read_replica: 2,
            ..FetchOutcome::failed(0, ErrorCode::NONE)
        };
        writer.partition(&mut out, &full, 7);
        // As a shard chains records: the buffer goes away, another one goes on.
        let mut pieces = vec![std::mem::take(&mut out), b"records".to_vec()];
        let moved = FetchOutcome {
            diverging_epoch: Some((3, 30)),
            leader: Some(Leader { id: 9, epoch: 8 }),
            ..FetchOutcome::failed(1, ErrorCode::NOT_LEADER_OR_FOLLOWER)
        };
        writer.partition(&mut out, &moved, 0);
        writer.partition(&mut out, &FetchOutcome::failed(2, ErrorCode::NONE), 200);
        out.extend([1; 200]);
        writer.topic(&mut out, topic(1, by_id), 0);
        let endpoint = NodeEndpoint { id: 9, host: "there", port: 9092, rack: None };
        writer.end(&mut out, &[endpoint]);
        pieces.push(out);

        let response: oracle::FetchResponse = read(&pieces.concat(), version);
        assert_eq!((response.throttle_time_ms, response.responses.len()), (7, 2));
        assert_eq!(response.session_id, if version >= 7 { 21 } else { 0 });
        let [first, second, third] = &response.responses[0].partitions[..] else { panic!("three partitions") };
        assert_eq!((first.high_watermark, first.last_stable_offset), (100, 90));
        assert_eq!(first.records.as_deref(), Some(&b"records"[..]));
        assert_eq!(first.aborted_transactions.as_ref().unwrap()[0].first_offset, 6);
        assert_eq!(first.preferred_read_replica.0, if version >= 11 { 2 } else { -1 });
        assert_eq!((second.error_code, second.records.as_deref()), (6, Some(&b""[..])));
        assert!(second.aborted_transactions.as_ref().is_some_and(Vec::is_empty));
        if version >= 12 {
            assert_eq!((second.diverging_epoch.epoch, second.diverging_epoch.end_offset), (3, 30));
            assert_eq!((second.current_leader.leader_id.0, second.current_leader.leader_epoch), (9, 8));
        }
        assert_eq!(third.records.as_deref(), Some(&[1; 200][..]));
        assert_eq!(response.node_endpoints.len(), usize::from(version >= 16));
    }
}

#[test]
fn a_fetch_error_of_the_whole_response_has_no_topics() {
    for version in 7..=18 {
        let mut out = Vec::new();
        FetchWriter::begin(&mut out, version, 0, ErrorCode::FETCH_SESSION_ID_NOT_FOUND, 0, 0).end(&mut out, &[]);
        let response: oracle::FetchResponse = read(&out, version);
        assert_eq!((response.error_code, response.responses.len()), (70, 0));
    }
}

#[test]
fn list_offsets_is_read_and_answered() {
    // The oracle ends at version 10; 11 has the same fields.
    for version in list_offsets::VERSIONS {
        let known = version.min(10);
        let mut partition =
            oracle::list_offsets_request::ListOffsetsPartition::default().with_partition_index(3).with_timestamp(-3);
        if version >= 4 {
            partition.current_leader_epoch = 8;
        }
        let topics = vec![
            oracle::list_offsets_request::ListOffsetsTopic::default()
                .with_name(name("zero"))
                .with_partitions(vec![partition]),
        ];
        let mut request = oracle::ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(topics);
        if version >= 2 {
            request.isolation_level = 1;
        }
        if version >= 10 {
            request.timeout_ms = 250;
        }
        let bytes = bytes_of(&request, known);
        let view = ListOffsetsView::check(&bytes, version).unwrap();
        assert_eq!((view.replica_id, view.isolation_level), (-1, i8::from(version >= 2)));
        assert_eq!(view.timeout_ms, if version >= 10 { 250 } else { 0 });
        let read_topic = view.topics().next().unwrap();
        let partitions: Vec<_> = read_topic.partitions.collect();
        let current_leader_epoch = if version >= 4 { 8 } else { -1 };
        assert_eq!(read_topic.name, "zero");
        assert_eq!(
            partitions,
            [ListOffsetsPartition { index: 3, current_leader_epoch, timestamp: list_offsets::MAX_TIMESTAMP }]
        );
        torture(&bytes, &|bytes| {
            let view = ListOffsetsView::check(bytes, version)?;
            Ok(view.topics().map(|topic| 1 + topic.partitions.count()).sum())
        });

        let mut out = Vec::new();
        let mut writer = ListOffsetsWriter::begin(&mut out, version, 9, 1);
        writer.topic(&mut out, "zero", 2);
        let found =
            ListOffsetsOutcome { index: 3, error: ErrorCode::NONE, timestamp: 1_000, offset: 55, leader_epoch: 4 };
        writer.partition(&mut out, &found);
        writer.partition(&mut out, &ListOffsetsOutcome::failed(4, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        writer.end(&mut out);
        let response: oracle::ListOffsetsResponse = read(&out, known);
        assert_eq!(response.throttle_time_ms, if version >= 2 { 9 } else { 0 });
        let [first, second] = &response.topics[0].partitions[..] else { panic!("two partitions") };
        assert_eq!((first.partition_index, first.timestamp, first.offset), (3, 1_000, 55));
        assert_eq!(first.leader_epoch, if version >= 4 { 4 } else { -1 });
        assert_eq!((second.error_code, second.offset), (3, -1));
    }
}

#[test]
fn arrays_that_may_not_be_null_are_refused_when_they_are() {
    type Check<'c> = &'c dyn Fn(&[u8]) -> Result<usize, DecodeError>;
    // What stands before the array of topics; then an empty one, or null: −1, or in flexible versions 0; then the rest.
    let refused = |before: &[u8], flexible: bool, rest: &[u8], check: Check<'_>| {
        let (empty, null): (&[u8], &[u8]) = if flexible { (&[1], &[0]) } else { (&[0; 4], &[0xff; 4]) };
        assert_eq!(check(&[before, empty, rest].concat()), Ok(0));
        assert_eq!(check(&[before, null, rest].concat()), Err(DecodeError::Null));
    };
    let produce = |version| move |body: &[u8]| ProduceView::check(body, version).map(|view| view.topics().len());
    refused(&[0xff, 0xff, 0, 1, 0, 0, 0, 0], false, &[], &produce(8));
    refused(&[0, 0, 1, 0, 0, 0, 0], true, &[0], &produce(12));
    let fetch = |version| move |body: &[u8]| FetchView::check(body, version).map(|view| view.topics().len());
    // Topics no longer wanted and the rack follow.
    refused(&[0; 25], false, &[0; 6], &fetch(11));
    refused(&[0; 25], true, &[1, 1, 0], &fetch(12));
    let forgotten = |version| move |body: &[u8]| FetchView::check(body, version).map(|view| view.forgotten().len());
    refused(&[0; 29], false, &[0; 2], &forgotten(11));
    refused(&[[0; 25].as_slice(), &[1]].concat(), true, &[1, 0], &forgotten(12));
    let offsets = |version| move |body: &[u8]| ListOffsetsView::check(body, version).map(|view| view.topics().len());
    refused(&[0; 5], false, &[], &offsets(5));
    refused(&[0; 5], true, &[0], &offsets(6));
}

#[test]
fn length_bombs_end_at_the_bytes_left() {
    // Acks, timeout, then 2^31 − 1 topics.
    let bomb = [0xff, 0xff, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3, 4];
    assert_eq!(ProduceView::check(&bomb, 3).unwrap_err(), DecodeError::Count);
    let compact = [0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2];
    assert_eq!(ProduceView::check(&compact, 9).unwrap_err(), DecodeError::Count);
}
