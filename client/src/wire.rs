//! Between the machines' requests and answers and Kafka's messages.

use protocol::api::ApiKey;
use protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use protocol::messages::join_group_request::JoinGroupRequestProtocol;
use protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use protocol::messages::{
    FetchRequest, FetchResponse, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, ListOffsetsRequest,
    ListOffsetsResponse, MetadataResponse, ProduceResponse, SyncGroupRequest,
};
use protocol::wire::{put_count, put_string, put_uvarint};
use std::sync::Arc;

use crate::assignor::Assignor;
use crate::consumer::{self, Fetched};
use crate::error::{Error, Result};
use crate::group;
use crate::metadata::{Broker, Partition, Snapshot, Topic};
use crate::producer::{Answer, Part, Request, Slot};

/// The versions of an API that this client speaks: at most what its own code fills and reads by name.
#[must_use]
pub fn spoken(key: ApiKey) -> (i16, i16) {
    let api = key.info();
    let max = match key {
        // Later versions name topics by id only.
        ApiKey::Produce | ApiKey::Fetch => 12,
        ApiKey::OffsetCommit => 9,
        ApiKey::DeleteTopics => 5,
        // Later versions ask for several groups at once.
        ApiKey::OffsetFetch => 7,
        _ => api.max,
    };
    (api.served_min, max.min(api.max))
}

/// Appends the body of a Produce request without the batches. Gives where each batch belongs: (position in `out`, batch).
/// The batches are not copied into the request: they are written from where they are.
///
/// # Panics
/// With 2 GiB of records.
pub fn put_produce(out: &mut Vec<u8>, version: i16, request: &Request, timeout_ms: i32) -> Vec<(usize, Arc<Vec<u8>>)> {
    let flexible = ApiKey::Produce.info().is_flexible(version);
    let mut cuts = Vec::with_capacity(request.parts.len());
    // No transactional id.
    put_string(out, None, flexible);
    out.extend_from_slice(&request.acks.wire().to_be_bytes());
    out.extend_from_slice(&timeout_ms.to_be_bytes());
    let same = |a: &Part, b: &Part| a.topic == b.topic;
    put_count(out, Some(request.parts.chunk_by(same).count()), flexible);
    for topic in request.parts.chunk_by(same) {
        put_string(out, topic.first().map(|part| &*part.topic), flexible);
        put_count(out, Some(topic.len()), flexible);
        for part in topic {
            out.extend_from_slice(&part.partition.to_be_bytes());
            put_count(out, Some(part.batch.len()), flexible);
            cuts.push((out.len(), Arc::clone(&part.batch)));
            put_no_tags(out, flexible);
        }
        put_no_tags(out, flexible);
    }
    put_no_tags(out, flexible);
    cuts
}

fn put_no_tags(out: &mut Vec<u8>, flexible: bool) {
    if flexible {
        put_uvarint(out, 0);
    }
}

/// The answers of a Produce response to the parts that were sent.
#[must_use]
pub fn produced(response: &ProduceResponse<'_>, parts: &[(Arc<str>, i32, Slot)]) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(parts.len());
    for topic in &response.responses {
        for partition in &topic.partition_responses {
            let sent = parts.iter().find(|part| part.1 == partition.index && *part.0 == *topic.name);
            if let Some((_, _, slot)) = sent {
                let (code, base_offset) = (partition.error_code, partition.base_offset);
                answers.push(Answer { slot: *slot, code, base_offset });
            }
        }
    }
    answers
}

/// What a Metadata response tells. Brokers with an impossible port are left out.
#[must_use]
pub fn snapshot(response: &MetadataResponse<'_>) -> Snapshot {
    let brokers = response.brokers.iter().filter_map(|broker| {
        let port = u16::try_from(broker.port).ok()?;
        Some(Broker { id: broker.node_id, host: broker.host.to_owned(), port })
    });
    let topics = response.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| Partition {
            index: partition.partition_index,
            code: partition.error_code,
            leader: (partition.leader_id >= 0).then_some(partition.leader_id),
            leader_epoch: partition.leader_epoch,
            replicas: partition.replica_nodes.clone(),
            in_sync: partition.isr_nodes.clone(),
        });
        let mut partitions: Vec<Partition> = partitions.collect();
        partitions.sort_by_key(|partition| partition.index);
        Topic {
            name: topic.name.unwrap_or_default().to_owned(),
            id: topic.topic_id.0,
            code: topic.error_code,
            internal: topic.is_internal,
            partitions,
        }
    });
    Snapshot {
        cluster_id: response.cluster_id.map(str::to_owned),
        controller: (response.controller_id >= 0).then_some(response.controller_id),
        brokers: brokers.collect(),
        topics: topics.collect(),
    }
}

/// A Fetch request. Topics keep the order of their first partition, since brokers fill answers in it.
#[must_use]
pub fn fetch<'a>(fetch: &'a consumer::Fetch, limits: &consumer::Limits) -> FetchRequest<'a> {
    let mut topics: Vec<FetchTopic<'a>> = Vec::new();
    for part in &fetch.parts {
        let partition = FetchPartition {
            partition: part.partition,
            current_leader_epoch: part.leader_epoch,
            fetch_offset: part.offset,
            partition_max_bytes: limits.partition_bytes_max.min(i32::MAX as u32).cast_signed(),
            ..FetchPartition::default()
        };
        // Only neighbours are joined: a topic may come twice, so that the turn of partitions is kept.
        match topics.last_mut() {
            Some(topic) if *topic.topic == *part.topic => topic.partitions.push(partition),
            _ => topics.push(FetchTopic { topic: &part.topic, partitions: vec![partition], ..FetchTopic::default() }),
        }
    }
    FetchRequest {
        max_wait_ms: limits.wait_ms.min(i32::MAX as u32).cast_signed(),
        min_bytes: limits.bytes_min.min(i32::MAX as u32).cast_signed(),
        max_bytes: limits.bytes_max.min(i32::MAX as u32).cast_signed(),
        // No fetch session.
        session_id: 0,
        session_epoch: -1,
        topics,
        ..FetchRequest::default()
    }
}

/// The partitions of a Fetch response, in its order.
///
/// # Errors
/// The error of the whole response.
pub fn fetched<'a>(response: &FetchResponse<'a>) -> Result<Vec<Fetched<'a>>> {
    response.error_code.ok().map_err(|code| Error::kafka("Fetch", code))?;
    let mut parts = Vec::new();
    for topic in &response.responses {
        for partition in &topic.partitions {
            parts.push(Fetched {
                topic: topic.topic,
                partition: partition.partition_index,
                code: partition.error_code,
                high_watermark: partition.high_watermark,
                records: partition.records.unwrap_or_default(),
            });
        }
    }
    Ok(parts)
}

/// A ListOffsets request of (topic, partition, timestamp) each; those of a topic stand together.
#[must_use]
pub fn list_offsets<'a>(parts: &[(&'a str, i32, i64)]) -> ListOffsetsRequest<'a> {
    let topics = parts.chunk_by(|a, b| a.0 == b.0).map(|of_topic| ListOffsetsTopic {
        name: of_topic.first().map_or("", |part| part.0),
        partitions: of_topic
            .iter()
            .map(|part| ListOffsetsPartition { partition_index: part.1, current_leader_epoch: -1, timestamp: part.2 })
            .collect(),
    });
    ListOffsetsRequest { replica_id: -1, topics: topics.collect(), ..ListOffsetsRequest::default() }
}

/// (topic, partition, error, offset) each of a ListOffsets response.
pub fn listed<'a>(
    response: &'a ListOffsetsResponse<'_>,
) -> impl Iterator<Item = (&'a str, i32, protocol::error::ErrorCode, i64)> {
    response.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|part| (topic.name, part.partition_index, part.error_code, part.offset))
    })
}

/// A JoinGroup request.
#[must_use]
pub fn join<'a>(
    limits: &'a group::Limits,
    member: &'a str,
    protocols: &'a [(Assignor, Vec<u8>)],
) -> JoinGroupRequest<'a> {
    JoinGroupRequest {
        group_id: &limits.group,
        session_timeout_ms: limits.session_ms.min(i32::MAX as u32).cast_signed(),
        rebalance_timeout_ms: limits.rebalance_ms.min(i32::MAX as u32).cast_signed(),
        member_id: member,
        group_instance_id: limits.instance.as_deref(),
        protocol_type: group::PROTOCOL_TYPE,
        protocols: protocols
            .iter()
            .map(|(assignor, metadata)| JoinGroupRequestProtocol { name: assignor.name(), metadata })
            .collect(),
        ..JoinGroupRequest::default()
    }
}

/// What a JoinGroup response tells.
#[must_use]
pub fn joined(response: &JoinGroupResponse<'_>) -> group::Joined {
    group::Joined {
        code: response.error_code,
        generation: response.generation_id,
        protocol: response.protocol_name.unwrap_or_default().to_owned(),
        leader: response.leader.to_owned(),
        member: response.member_id.to_owned(),
        skip_assignment: response.skip_assignment,
        members: response
            .members
            .iter()
            .map(|m| (m.member_id.to_owned(), m.group_instance_id.map(str::to_owned), m.metadata.to_vec()))
            .collect(),
    }
}

/// A SyncGroup request.
#[must_use]
pub fn sync<'a>(
    limits: &'a group::Limits,
    member: &'a str,
    generation: i32,
    protocol: &'a str,
    assignments: &'a [(String, Vec<u8>)],
) -> SyncGroupRequest<'a> {
    SyncGroupRequest {
        group_id: &limits.group,
        generation_id: generation,
        member_id: member,
        group_instance_id: limits.instance.as_deref(),
        protocol_type: Some(group::PROTOCOL_TYPE),
        protocol_name: Some(protocol),
        assignments: assignments
            .iter()
            .map(|(member_id, assignment)| SyncGroupRequestAssignment { member_id, assignment })
            .collect(),
    }
}

/// A Heartbeat request.
#[must_use]
pub fn heartbeat<'a>(limits: &'a group::Limits, member: &'a str, generation: i32) -> HeartbeatRequest<'a> {
    HeartbeatRequest {
        group_id: &limits.group,
        generation_id: generation,
        member_id: member,
        group_instance_id: limits.instance.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::producer::Acks;
    use protocol::messages::{Message, ProduceRequest};

    #[test]
    fn a_produce_request_with_its_batches_is_what_the_generated_codec_reads() {
        let part = |slot, topic: &str, partition, bytes: &[u8]| Part {
            slot: Slot(slot),
            topic: topic.into(),
            partition,
            batch: Arc::new(bytes.to_vec()),
        };
        let parts = vec![part(0, "a", 0, b"one"), part(1, "a", 3, &[7; 300]), part(2, "b", 1, b"")];
        let request = Request { token: 1, broker: 1, acks: Acks::All, parts };
        for version in spoken(ApiKey::Produce).0..=spoken(ApiKey::Produce).1 {
            let mut body = Vec::new();
            let cuts = put_produce(&mut body, version, &request, 1234);
            let mut whole = Vec::new();
            let mut at = 0;
            for (cut, batch) in &cuts {
                whole.extend_from_slice(&body[at..*cut]);
                whole.extend_from_slice(batch);
                at = *cut;
            }
            whole.extend_from_slice(&body[at..]);
            let read = ProduceRequest::parse(&whole, version).unwrap();
            assert_eq!((read.acks, read.timeout_ms, read.transactional_id), (-1, 1234, None));
            let topics: Vec<&str> = read.topic_data.iter().map(|topic| topic.name).collect();
            assert_eq!(topics, ["a", "b"]);
            let second = &read.topic_data[0].partition_data[1];
            assert_eq!((second.index, second.records), (3, Some(&[7u8; 300][..])));
        }
    }

    #[test]
    fn every_api_has_versions_to_speak() {
        for api in protocol::api::APIS {
            let (min, max) = spoken(api.key);
            assert!(min <= max && min >= api.min && max <= api.max, "{}", api.name);
        }
    }
}
