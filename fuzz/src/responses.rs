//! What a hostile broker may answer to the client: handshake, and the answers to every request, taken in by the machines that
//! asked for them.
//!
//! The first byte chooses what was asked, the second the version; the rest is the answer behind its correlation id.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Mono;
use client::connection::{Connection, HANDSHAKE_VERSION, Versions, parse_handshake, put_handshake};
use client::consumer::{self, Start};
use client::error::Result;
use client::group;
use client::metadata::Metadata;
use client::producer::Slot;
use client::{codec, wire};
use protocol::api::ApiKey;
use protocol::batch::{BatchBuilder, Batches, Producer};
use protocol::error::ErrorCode;
use protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use protocol::messages::{self, Message};
use sim::sums;

use crate::input::Input;
use crate::within;

const TOPIC: &str = "t";
const NOW: Mono = Mono(1_000_000_000);
/// What the consumer inflates at most here.
const BATCH_BYTES: usize = 1 << 20;

/// Bytes of memory for each byte of an answer: a broker in metadata, whose name is one byte, is about 100 in two maps.
const MEMORY_PER_BYTE: u64 = 200;
const MEMORY_AT_ONCE: u64 = 256 << 10;

type Take = fn(&[u8], i16);

/// What may be asked, and who takes the answer. New ones come last, so that inputs keep their meaning.
const ASKED: &[(ApiKey, Take)] = &[
    (ApiKey::ApiVersions, |body, version| drop(messages::ApiVersionsResponse::parse(body, version))),
    (ApiKey::Metadata, metadata),
    (ApiKey::Produce, produced),
    (ApiKey::Fetch, fetched),
    (ApiKey::ListOffsets, listed),
    (ApiKey::JoinGroup, joined),
    (ApiKey::SyncGroup, synced),
    (ApiKey::FindCoordinator, |body, version| drop(messages::FindCoordinatorResponse::parse(body, version))),
    (ApiKey::Heartbeat, |body, version| drop(messages::HeartbeatResponse::parse(body, version))),
    (ApiKey::OffsetCommit, |body, version| drop(messages::OffsetCommitResponse::parse(body, version))),
    (ApiKey::OffsetFetch, |body, version| drop(messages::OffsetFetchResponse::parse(body, version))),
    (ApiKey::DescribeGroups, |body, version| drop(messages::DescribeGroupsResponse::parse(body, version))),
];

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (what, version) = (usize::from(input.byte()), i16::from(input.byte()));
    let answer = input.rest();
    let Some(&(key, take)) = ASKED.get(what) else { return handshake(answer, version) };
    let (first, last) = wire::spoken(key);
    let version = first + version % (last - first + 1);
    let mut connection = Connection::new("me".into(), Versions::default());
    connection.begin(key, version, (), NOW, &mut Vec::new());
    let frame = [&1i32.to_be_bytes(), answer].concat();
    let context = format!("the answer to {key:?} v{version}");
    match connection.answer(&frame) {
        Ok(answered) => {
            assert_eq!((answered.key, answered.version), (key, version));
            assert_eq!(connection.in_flight(), 0);
            within(&context, MEMORY_AT_ONCE + 2 * BATCH_BYTES as u64, MEMORY_PER_BYTE, frame.len(), || {
                take(answered.body, version);
            });
        }
        Err(error) => assert!(!error.to_string().is_empty() && connection.in_flight() == 1),
    }
}

fn handshake(answer: &[u8], version: i16) {
    let version = if version & 1 == 0 { 0 } else { HANDSHAKE_VERSION };
    let read = within("a handshake", 4096, 8, answer.len(), || parse_handshake(answer, version));
    if let Ok(Some(versions)) = read {
        for (key, _) in ASKED {
            if let Ok(picked) = versions.pick(*key) {
                let (first, last) = wire::spoken(*key);
                assert!((first..=last).contains(&picked), "{key:?} v{picked} is not spoken");
            }
        }
    }
}

fn metadata(body: &[u8], version: i16) {
    let Ok(response) = messages::MetadataResponse::parse(body, version) else { return };
    let snapshot = wire::snapshot(&response);
    let mut cache = Metadata::new();
    cache.asked(NOW);
    cache.apply(NOW, snapshot.clone());
    cache.asked(NOW);
    cache.apply(NOW, snapshot);
    for topic in &response.topics {
        for partition in &topic.partitions {
            let known = cache.partition(topic.name.unwrap_or_default(), partition.partition_index);
            let leader = known.and_then(|known| known.leader);
            let _ = leader.and_then(|leader| cache.broker(leader));
        }
    }
    assert!(cache.deadline().is_some());
}

fn produced(body: &[u8], version: i16) {
    let Ok(response) = messages::ProduceResponse::parse(body, version) else { return };
    let parts: [(Arc<str>, i32, Slot); 2] = [(TOPIC.into(), 0, Slot(0)), (TOPIC.into(), 1, Slot(1))];
    for answer in wire::produced(&response, &parts) {
        assert!(answer.slot.0 < 2);
    }
}

/// A consumer that reads partitions 0 and 1 from offset 5 on, and what it asked.
fn consumer(start: Start) -> (consumer::Machine, Vec<consumer::Effect>) {
    let limits = consumer::Limits { batch_bytes_max: BATCH_BYTES, ..consumer::Limits::default() };
    let mut machine = consumer::Machine::new(limits);
    machine.assign(&[(TOPIC.into(), 0, start), (TOPIC.into(), 1, start)]);
    for slot in machine.slots() {
        machine.set_leader(slot, Some(1), 3);
    }
    let mut out = Vec::new();
    machine.poll(NOW, 0, &mut out);
    (machine, out)
}

fn fetched(body: &[u8], version: i16) {
    let Ok(response) = messages::FetchResponse::parse(body, version) else { return };
    let parts: Result<Vec<_>> = wire::fetched(&response);
    let Ok(parts) = parts else { return };
    let (mut machine, asked) = consumer(Start::Offset(5));
    let Some(consumer::Effect::Fetch(fetch)) = asked.first() else { panic!("a consumer with a position fetches") };
    let mut out = Vec::new();
    for useful in machine.fetched(NOW, fetch.token, &parts, &mut out) {
        assert!(machine.is_wanted(&useful));
        let mut seen = useful.from;
        for batch in Batches::new(parts[useful.index].records) {
            let Ok(batch) = batch else { break };
            let mut records = Vec::new();
            if codec::decompress(batch.codec(), batch.payload(), BATCH_BYTES, &mut records).is_err() {
                break;
            }
            let count = batch.records_of(&records).flatten().map(|record| record.headers.count()).sum::<usize>();
            assert!(count <= records.len());
            seen = seen.max(batch.last_offset());
        }
        machine.consume(useful.slot, seen);
    }
    machine.poll(NOW.plus_ms(1000), 0, &mut out);
}

fn listed(body: &[u8], version: i16) {
    let Ok(response) = messages::ListOffsetsResponse::parse(body, version) else { return };
    let (mut machine, asked) = consumer(Start::Earliest);
    let Some(consumer::Effect::ListOffsets(list)) = asked.first() else { panic!("a consumer without a position asks") };
    let answers: Vec<_> = wire::listed(&response)
        .filter_map(|(topic, partition, code, offset)| Some((machine.find(topic, partition)?, code, offset)))
        .collect();
    let mut out = Vec::new();
    machine.listed(NOW, list.token, &answers, &mut out);
    machine.poll(NOW.plus_ms(1000), 0, &mut out);
}

/// A member that waits for the answer to its join.
fn member() -> group::Machine {
    let mut machine = group::Machine::new(group::Limits::new("g", vec![TOPIC.into()]));
    let mut out = Vec::new();
    machine.poll(NOW, &mut out);
    machine.handle(NOW, group::Event::Coordinator(1), &mut out);
    machine.poll(NOW, &mut out);
    machine
}

fn joined(body: &[u8], version: i16) {
    let Ok(response) = messages::JoinGroupResponse::parse(body, version) else { return };
    let mut machine = member();
    let mut out = Vec::new();
    machine.handle(NOW, group::Event::Joined(wire::joined(&response)), &mut out);
    let wanted = out.iter().find_map(|effect| match effect {
        group::Effect::WantTopics(topics) => Some(topics.clone()),
        _ => None,
    });
    if let Some(topics) = wanted {
        let counts: BTreeMap<String, u32> = topics.into_iter().zip(0..).map(|(topic, n)| (topic, n % 5)).collect();
        machine.handle(NOW, group::Event::Topics(counts), &mut out);
        let shared = out.iter().find_map(|effect| match effect {
            group::Effect::Sync { assignments, .. } => Some(assignments.clone()),
            _ => None,
        });
        for (_, assignment) in shared.unwrap_or_default() {
            assert!(group::assignment(&assignment).is_ok(), "a leader gives out what members cannot read");
        }
    }
    machine.poll(NOW.plus_ms(10_000), &mut out);
}

fn synced(body: &[u8], version: i16) {
    let Ok(response) = messages::SyncGroupResponse::parse(body, version) else { return };
    let mut machine = member();
    let mut out = Vec::new();
    let joined = group::Joined { member: "m".into(), leader: "n".into(), generation: 1, ..group::Joined::default() };
    machine.handle(NOW, group::Event::Joined(joined), &mut out);
    machine.handle(NOW, group::Event::Synced(response.error_code, response.assignment.to_vec()), &mut out);
    machine.poll(NOW.plus_ms(10_000), &mut out);
    machine.handle(NOW, group::Event::Heartbeat(ErrorCode::NONE), &mut out);
}

/// An answer of the newest version that is spoken.
fn seed<'a, M: Message<'a>>(what: u8, response: &M) -> Vec<u8> {
    let key = ASKED[usize::from(what)].0;
    let (first, last) = wire::spoken(key);
    let mut out = vec![what, u8::try_from(last - first).expect("few versions")];
    if protocol::frame::response_header_is_flexible(key, last) {
        out.push(0);
    }
    response.encode(&mut out, last);
    out
}

fn fetch_seed() -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for value in 0..7 {
        builder.append(1000 + value, Some(b"k"), Some(b"value"), &[]);
    }
    let batch = builder.finish(Producer::NONE, &sums()).to_vec();
    let part = |partition_index| PartitionData {
        partition_index,
        high_watermark: 7,
        records: Some(&batch),
        ..PartitionData::default()
    };
    let topic = FetchableTopicResponse { topic: TOPIC, partitions: vec![part(0), part(1)], ..Default::default() };
    seed(3, &messages::FetchResponse { responses: vec![topic], ..Default::default() })
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    use messages::join_group_response::JoinGroupResponseMember;
    use messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
    use messages::metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};
    use messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
    let partition = |partition_index| MetadataResponsePartition {
        partition_index,
        leader_id: 1,
        replica_nodes: vec![1],
        isr_nodes: vec![1],
        ..Default::default()
    };
    let topic =
        MetadataResponseTopic { name: Some(TOPIC), partitions: vec![partition(1), partition(0)], ..Default::default() };
    let broker = MetadataResponseBroker { node_id: 1, host: "h", port: 9092, ..Default::default() };
    let taken = |index| PartitionProduceResponse { index, base_offset: 5, ..Default::default() };
    let produce =
        TopicProduceResponse { name: TOPIC, partition_responses: vec![taken(0), taken(1)], ..Default::default() };
    let at = |partition_index| ListOffsetsPartitionResponse { partition_index, offset: 3, ..Default::default() };
    let subscription = group::put_subscription(&[TOPIC.into(), "u".into()]);
    let join = |member_id| JoinGroupResponseMember { member_id, metadata: &subscription, ..Default::default() };
    let assignment = group::put_assignment(&[(TOPIC.into(), vec![0, 1])]);
    let mut seeds = vec![
        seed(0, &messages::ApiVersionsResponse::default()),
        seed(1, &messages::MetadataResponse { brokers: vec![broker], topics: vec![topic], ..Default::default() }),
        seed(2, &messages::ProduceResponse { responses: vec![produce], ..Default::default() }),
        fetch_seed(),
        seed(
            4,
            &messages::ListOffsetsResponse {
                topics: vec![ListOffsetsTopicResponse { name: TOPIC, partitions: vec![at(0), at(1)] }],
                ..Default::default()
            },
        ),
        seed(6, &messages::SyncGroupResponse { assignment: &assignment, ..Default::default() }),
        seed(7, &messages::FindCoordinatorResponse::default()),
        seed(8, &messages::HeartbeatResponse::default()),
        seed(9, &messages::OffsetCommitResponse::default()),
        seed(10, &messages::OffsetFetchResponse::default()),
        seed(11, &messages::DescribeGroupsResponse::default()),
    ];
    for protocol in ["range", "roundrobin", "cooperative-sticky"] {
        seeds.push(seed(
            5,
            &messages::JoinGroupResponse {
                generation_id: 1,
                protocol_name: Some(protocol),
                leader: "a",
                member_id: "a",
                members: vec![join("a"), join("b")],
                ..Default::default()
            },
        ));
    }
    seeds.push([&[255, 0], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 3, 0, 0, 0, 9][..]].concat());
    seeds.push([&[255, 1], &[0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0][..]].concat());
    let mut question = Vec::new();
    put_handshake(&mut question, HANDSHAKE_VERSION, "me");
    seeds.push([&[255, 1], &question[..]].concat());
    seeds
}
