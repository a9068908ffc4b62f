//! DescribeTopicPartitions (KIP-966): topics page by page.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::TopicId;
use base::image::{Image, TopicEntry};
use protocol::error::ErrorCode;
use protocol::messages::describe_topic_partitions_request::Cursor as AskedCursor;
use protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use protocol::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
use protocol::wire::DecodeError;

use super::{Call, NO_OPERATIONS, TOPIC_OPERATIONS, int};
use crate::context::{Context, ImageExt as _};

/// Most partitions in one response; Kafka's `max.request.partition.size.limit`.
const PARTITIONS_MAX: usize = 2000;

pub(super) fn answer(context: &Context, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: DescribeTopicPartitionsRequest<'_> = call.request()?;
    call.bound(request.topics.len())?;
    let image = context.store.image();
    let asked = usize::try_from(request.response_partition_limit).unwrap_or(0);
    let most = asked.clamp(1, PARTITIONS_MAX);
    if let Some(cursor) = &request.cursor
        && !is_place(cursor, &request)
    {
        return Ok(call.respond(&refused(call, &request)));
    }
    let (from_topic, from_partition) = request
        .cursor
        .as_ref()
        .map_or(("", 0), |cursor| (cursor.topic_name, usize::try_from(cursor.partition_index).unwrap_or(0)));
    // By name: a cursor finds its place again whatever was created or deleted meanwhile.
    let names: BTreeSet<&str> = if request.topics.is_empty() {
        image.topics.values().map(|topic| &*topic.name).collect()
    } else {
        request.topics.iter().map(|topic| topic.name).collect()
    };
    let mut response = DescribeTopicPartitionsResponse::default();
    let mut room = most;
    for name in names.range(from_topic..) {
        let first = if *name == from_topic { from_partition } else { 0 };
        // A page is full by its partitions; a topic that is not there counts as one.
        if room == 0 {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index: int(first) });
            break;
        }
        let Some(topic) = image.topics.get(*name) else {
            room -= 1;
            response.topics.push(missing(call, name));
            continue;
        };
        let shown = topic.partitions.len().saturating_sub(first).min(room);
        response.topics.push(show(&image, topic, first, shown));
        room -= shown;
        if first + shown < topic.partitions.len() {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index: int(first + shown) });
            break;
        }
    }
    Ok(call.respond(&response))
}

/// Whether a page can begin there: at a topic that is asked for, and a partition that can be.
fn is_place(cursor: &AskedCursor<'_>, request: &DescribeTopicPartitionsRequest<'_>) -> bool {
    let is_asked_for = request.topics.is_empty() || request.topics.iter().any(|topic| topic.name == cursor.topic_name);
    is_asked_for && cursor.partition_index >= 0
}

fn refused<'a>(call: &Call<'_>, request: &DescribeTopicPartitionsRequest<'a>) -> DescribeTopicPartitionsResponse<'a> {
    let topics = request.topics.iter().map(|topic| DescribeTopicPartitionsResponseTopic {
        error_code: call.note(ErrorCode::INVALID_REQUEST),
        name: Some(topic.name),
        topic_id: TopicId::ZERO,
        topic_authorized_operations: NO_OPERATIONS,
        ..Default::default()
    });
    DescribeTopicPartitionsResponse { topics: topics.collect(), ..Default::default() }
}

fn missing<'a>(call: &Call<'_>, name: &'a str) -> DescribeTopicPartitionsResponseTopic<'a> {
    let code = if cluster::name::check(name).is_ok() {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    } else {
        ErrorCode::INVALID_TOPIC_EXCEPTION
    };
    DescribeTopicPartitionsResponseTopic {
        error_code: call.note(code),
        name: Some(name),
        topic_id: TopicId::ZERO,
        topic_authorized_operations: TOPIC_OPERATIONS,
        ..Default::default()
    }
}

fn show<'a>(
    image: &Image,
    topic: &'a Arc<TopicEntry>,
    first: usize,
    count: usize,
) -> DescribeTopicPartitionsResponseTopic<'a> {
    let node = image.node().0;
    let partitions = topic.partitions.iter().enumerate().skip(first).take(count);
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::NONE,
        name: Some(&topic.name),
        topic_id: topic.id,
        is_internal: topic.internal,
        partitions: partitions
            .map(|(index, partition)| DescribeTopicPartitionsResponsePartition {
                error_code: ErrorCode::NONE,
                partition_index: int(index),
                leader_id: node,
                leader_epoch: partition.epoch.0,
                replica_nodes: vec![node],
                isr_nodes: vec![node],
                // The schema allows null; Kafka's own admin client does not.
                eligible_leader_replicas: Some(Vec::new()),
                last_known_elr: Some(Vec::new()),
                offline_replicas: Vec::new(),
            })
            .collect(),
        topic_authorized_operations: TOPIC_OPERATIONS,
    }
}
