//! OffsetCommit, OffsetFetch, OffsetDelete.

use base::TopicId;
use base::image::{Image, TopicEntry};
use groups::{
    Commit, CommitPartition, CommitTopic, Coordinator, DeleteOffsets, DeleteTopic, Error, Event, FetchedOffset, Member,
    RejectedCommit, Token,
};
use protocol::error::ErrorCode;
use protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use protocol::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use protocol::messages::offset_fetch_request::OffsetFetchRequestTopics;
use protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use protocol::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest,
    OffsetFetchResponse,
};
use protocol::wire::DecodeError;

use super::{Asked, code, code_of};

type Response = Result<Vec<u8>, DecodeError>;

/// First versions of OffsetCommit and OffsetFetch that name topics by id.
const BY_ID: i16 = 10;
/// First versions of OffsetCommit and OffsetFetch that know member epochs.
const BY_EPOCH: i16 = 9;
/// First version of OffsetFetch for several groups.
const FETCH_SEVERAL: i16 = 8;
/// First version of OffsetFetch with an error for the whole group.
const FETCH_ERROR: i16 = 2;

pub(super) fn commit<'a>(asked: &'a Asked, token: Token, image: &'a Image) -> Result<Event<'a>, DecodeError> {
    let request: OffsetCommitRequest<'_> = asked.parse()?;
    let topics = request.topics.into_iter().map(|topic| {
        let (entry, unknown) = if asked.version >= BY_ID {
            (image.topics_by_id.get(&topic.topic_id), Error::UnknownTopicId)
        } else {
            (image.topics.get(topic.name), Error::UnknownTopicOrPartition)
        };
        let partitions = topic.partitions.iter().map(|partition| CommitPartition {
            index: partition.partition_index,
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata: partition.committed_metadata.unwrap_or_default(),
            refused: match entry {
                None => Some(unknown),
                Some(entry) if has_partition(entry, partition.partition_index) => None,
                Some(_) => Some(Error::UnknownTopicOrPartition),
            },
        });
        CommitTopic {
            name: entry.map_or(topic.name, |entry| &entry.name),
            id: entry.map_or(topic.topic_id, |entry| entry.id),
            partitions: partitions.collect(),
        }
    });
    let topics = topics.collect();
    let member = Member {
        group: request.group_id,
        generation: request.generation_id_or_member_epoch,
        id: request.member_id,
        instance: request.group_instance_id,
    };
    Ok(Event::Commit(token, Commit { member, by_epoch: asked.version >= BY_EPOCH, topics }))
}

fn has_partition(entry: &TopicEntry, index: i32) -> bool {
    usize::try_from(index).is_ok_and(|index| index < entry.partitions.len())
}

pub(super) fn committed(asked: &Asked, reply: &Result<Vec<RejectedCommit>, Error>) -> Response {
    let request: OffsetCommitRequest<'_> = asked.parse()?;
    let mut rejected = reply.as_deref().unwrap_or_default().iter().peekable();
    let whole = code_of(reply);
    let topics = request.topics.iter().enumerate().map(|(topic_place, topic)| {
        let partitions = topic.partitions.iter().enumerate().map(|(place, partition)| {
            // They come in the request's order.
            let own = rejected.next_if(|rejected| (rejected.topic, rejected.partition) == (topic_place, place));
            OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: own.map_or(whole, |own| code(own.error)),
            }
        });
        let partitions = partitions.collect();
        OffsetCommitResponseTopic { name: topic.name, topic_id: topic.topic_id, partitions }
    });
    let topics = topics.collect();
    Ok(asked.response(&OffsetCommitResponse { topics, ..OffsetCommitResponse::default() }))
}

/// Committed offsets of one topic, owned until the response is written.
struct TopicOffsets {
    name: std::sync::Arc<str>,
    id: TopicId,
    offsets: Vec<FetchedOffset>,
    /// For all its partitions.
    error: ErrorCode,
}

pub(super) fn fetch(asked: &Asked, machine: &Coordinator, image: &Image) -> Response {
    let request: OffsetFetchRequest<'_> = asked.parse()?;
    if asked.version >= FETCH_SEVERAL {
        let groups: Vec<_> = request
            .groups
            .iter()
            .map(|group| {
                let member = group.member_id.filter(|_| asked.version >= BY_EPOCH);
                let found = machine
                    .check_fetch(group.group_id, member, group.member_epoch)
                    .and_then(|()| collect(machine, image, asked.version, group.group_id, group.topics.as_deref()));
                (group.group_id, found)
            })
            .collect();
        let groups = groups.iter().map(|(group, found)| several(group, found)).collect();
        return Ok(asked.response(&OffsetFetchResponse { groups, ..OffsetFetchResponse::default() }));
    }
    let topics = request.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| OffsetFetchRequestTopics {
            name: topic.name,
            topic_id: TopicId::ZERO,
            partition_indexes: topic.partition_indexes,
        });
        topics.collect::<Vec<_>>()
    });
    let mut found = collect(machine, image, asked.version, request.group_id, topics.as_deref());
    let mut error_code = code_of(&found);
    if asked.version < FETCH_ERROR && !error_code.is_ok() {
        // Each partition bears the error.
        let topics = topics.unwrap_or_default();
        let topics = topics.iter().map(|topic| nothing(topic, error_code));
        (found, error_code) = (Ok(topics.collect()), ErrorCode::NONE);
    }
    let topics = found.as_deref().unwrap_or_default().iter().map(|topic| OffsetFetchResponseTopic {
        name: &topic.name,
        partitions: topic
            .offsets
            .iter()
            .map(|offset| OffsetFetchResponsePartition {
                partition_index: offset.partition,
                committed_offset: offset.offset,
                committed_leader_epoch: offset.leader_epoch,
                metadata: Some(&offset.metadata),
                error_code: topic.error,
            })
            .collect(),
    });
    let topics = topics.collect();
    Ok(asked.response(&OffsetFetchResponse { topics, error_code, ..OffsetFetchResponse::default() }))
}

fn several<'a>(group: &'a str, found: &'a Result<Vec<TopicOffsets>, Error>) -> OffsetFetchResponseGroup<'a> {
    let topics = found.as_deref().unwrap_or_default().iter().map(|topic| OffsetFetchResponseTopics {
        name: &topic.name,
        topic_id: topic.id,
        partitions: topic
            .offsets
            .iter()
            .map(|offset| OffsetFetchResponsePartitions {
                partition_index: offset.partition,
                committed_offset: offset.offset,
                committed_leader_epoch: offset.leader_epoch,
                metadata: Some(&offset.metadata),
                error_code: topic.error,
            })
            .collect(),
    });
    OffsetFetchResponseGroup { group_id: group, topics: topics.collect(), error_code: code_of(found) }
}

/// Offsets of the topics asked for, or (`None`) of all.
fn collect(
    machine: &Coordinator,
    image: &Image,
    version: i16,
    group: &str,
    topics: Option<&[OffsetFetchRequestTopics<'_>]>,
) -> Result<Vec<TopicOffsets>, Error> {
    let by_id = version >= BY_ID;
    let Some(topics) = topics else {
        let all = machine.fetch_all(group)?.into_iter().filter_map(|(name, offsets)| {
            let id = image.topics.get(&*name).map(|entry| entry.id);
            let offsets: Vec<_> = offsets.into_iter().filter(|offset| !is_stale(offset, id)).collect();
            // By id, a topic that is gone cannot be named.
            let id = if by_id { id? } else { id.unwrap_or_default() };
            (!offsets.is_empty()).then_some(TopicOffsets { name, id, offsets, error: ErrorCode::NONE })
        });
        return Ok(all.collect());
    };
    let mut found = Vec::with_capacity(topics.len());
    for topic in topics {
        let entry = if by_id { image.topics_by_id.get(&topic.topic_id) } else { image.topics.get(topic.name) };
        if by_id && entry.is_none() {
            // Tells a group that is not served here apart from an unknown topic.
            machine.fetch(group, "", 0)?;
            found.push(nothing(topic, ErrorCode::UNKNOWN_TOPIC_ID));
            continue;
        }
        let name = entry.map_or_else(|| topic.name.into(), |entry| entry.name.clone());
        let id = entry.map(|entry| entry.id);
        let mut offsets = Vec::with_capacity(topic.partition_indexes.len());
        for index in &topic.partition_indexes {
            let offset = machine.fetch(group, &name, *index)?;
            offsets.push(if is_stale(&offset, id) { none(*index) } else { offset });
        }
        found.push(TopicOffsets { name, id: id.unwrap_or_default(), offsets, error: ErrorCode::NONE });
    }
    if topics.is_empty() {
        machine.fetch(group, "", 0)?;
    }
    Ok(found)
}

/// Whether it was committed for a topic of that name that was deleted since.
fn is_stale(offset: &FetchedOffset, id: Option<TopicId>) -> bool {
    offset.topic_id != TopicId::ZERO && id.is_some_and(|id| id != offset.topic_id)
}

fn nothing(topic: &OffsetFetchRequestTopics<'_>, error: ErrorCode) -> TopicOffsets {
    let offsets = topic.partition_indexes.iter().map(|index| none(*index)).collect();
    TopicOffsets { name: topic.name.into(), id: topic.topic_id, offsets, error }
}

fn none(partition: i32) -> FetchedOffset {
    FetchedOffset { partition, offset: -1, leader_epoch: -1, metadata: "".into(), topic_id: TopicId::ZERO }
}

pub(super) fn delete<'a>(asked: &'a Asked, token: Token, image: &Image) -> Result<Event<'a>, DecodeError> {
    let request: OffsetDeleteRequest<'_> = asked.parse()?;
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        // All partitions of a topic share its refusal, so each stands alone; the answer puts them together again.
        let entry = image.topics.get(topic.name);
        topics.extend(topic.partitions.iter().map(|partition| {
            let is_known = entry.is_some_and(|entry| has_partition(entry, partition.partition_index));
            DeleteTopic {
                name: topic.name,
                partitions: vec![partition.partition_index],
                refused: (!is_known).then_some(Error::UnknownTopicOrPartition),
            }
        }));
    }
    Ok(Event::DeleteOffsets(token, DeleteOffsets { group: request.group_id, topics }))
}

pub(super) fn deleted(asked: &Asked, reply: &Result<Vec<Vec<Result<(), Error>>>, Error>) -> Response {
    let request: OffsetDeleteRequest<'_> = asked.parse()?;
    let results = reply.as_deref().unwrap_or_default();
    let mut results = results.iter().flatten();
    let topics = request.topics.iter().filter(|_| reply.is_ok()).map(|topic| OffsetDeleteResponseTopic {
        name: topic.name,
        partitions: topic
            .partitions
            .iter()
            .zip(results.by_ref())
            .map(|(partition, result)| OffsetDeleteResponsePartition {
                partition_index: partition.partition_index,
                error_code: code_of(result),
            })
            .collect(),
    });
    let topics = topics.collect();
    Ok(asked.response(&OffsetDeleteResponse { error_code: code_of(reply), topics, ..OffsetDeleteResponse::default() }))
}
