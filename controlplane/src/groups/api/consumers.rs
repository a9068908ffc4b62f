//! ConsumerGroupHeartbeat, ConsumerGroupDescribe (KIP-848).

use base::TopicId;
use base::image::Image;
use groups::{Beat, BeatReply, Coordinator, DescribedConsumer, Error, Event, Partitions, Refused, Token};
use protocol::error::ErrorCode;
use protocol::messages::consumer_group_describe_response::{
    self as described, DescribedGroup, Member as DescribedMember,
};
use protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
};
use protocol::wire::DecodeError;

use super::admin::ALL_OPERATIONS;
use super::{Asked, code, text};
use crate::api::id_text;

type Response = Result<Vec<u8>, DecodeError>;

/// KIP-1099: a member by the consumer protocol.
const CONSUMER_MEMBER: i8 = 1;

/// A member id as Kafka draws it for those who bring none (version 0).
pub(super) fn draw() -> String {
    id_text(crate::random::uuid().expect("the kernel gives random bits"))
}

pub(super) fn beat(asked: &Asked, token: Token) -> Result<Event<'_>, DecodeError> {
    let request: ConsumerGroupHeartbeatRequest<'_> = asked.parse()?;
    let drawn = request.member_id.is_empty() && request.member_epoch == 0;
    let owned = request.topic_partitions.map(|topics| {
        let mut owned = Partitions::new();
        for topic in topics {
            owned.entry(topic.topic_id).or_default().extend(topic.partitions);
        }
        owned
    });
    let beat = Beat {
        group: request.group_id,
        member: if drawn { &asked.drawn } else { request.member_id },
        epoch: request.member_epoch,
        instance: request.instance_id,
        rack: request.rack_id,
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        names: request.subscribed_topic_names,
        regex: request.subscribed_topic_regex,
        assignor: request.server_assignor,
        owned,
        client_id: &asked.client_id,
        host: &asked.host,
    };
    Ok(Event::Beat(token, beat))
}

pub(super) fn heard(asked: &Asked, reply: &Result<BeatReply, Refused>) -> Response {
    let response = match reply {
        Ok(reply) => ConsumerGroupHeartbeatResponse {
            member_id: Some(&reply.member),
            member_epoch: reply.epoch,
            heartbeat_interval_ms: reply.interval_ms,
            assignment: reply.assignment.as_ref().map(|partitions| Assignment {
                topic_partitions: partitions
                    .iter()
                    .map(|(topic, indices)| TopicPartitions {
                        topic_id: *topic,
                        partitions: indices.iter().copied().collect(),
                    })
                    .collect(),
            }),
            ..ConsumerGroupHeartbeatResponse::default()
        },
        Err((error, why)) => ConsumerGroupHeartbeatResponse {
            error_code: code(*error),
            error_message: Some(why),
            ..ConsumerGroupHeartbeatResponse::default()
        },
    };
    Ok(asked.response(&response))
}

pub(super) fn describe(asked: &Asked, machine: &Coordinator, image: &Image) -> Response {
    let request: ConsumerGroupDescribeRequest<'_> = asked.parse()?;
    let found: Vec<_> = request.group_ids.iter().map(|group| (*group, machine.describe_consumer(group))).collect();
    let groups = found.iter().map(|(group, found)| {
        let mut answer = match found {
            Ok(found) => described_group(found, image),
            Err(error) => DescribedGroup {
                error_code: code(*error),
                error_message: (*error == Error::GroupIdNotFound).then(|| match machine.kind(group) {
                    Ok(Some(_)) => "the group is not a consumer group",
                    _ => "there is no group of this name",
                }),
                ..DescribedGroup::default()
            },
        };
        if group.is_empty() {
            answer.error_code = ErrorCode::INVALID_GROUP_ID;
        }
        if request.include_authorized_operations {
            answer.authorized_operations = ALL_OPERATIONS;
        }
        answer.group_id = group;
        answer
    });
    let groups = groups.collect();
    Ok(asked.response(&ConsumerGroupDescribeResponse { groups, ..ConsumerGroupDescribeResponse::default() }))
}

fn described_group<'a>(found: &'a DescribedConsumer, image: &'a Image) -> DescribedGroup<'a> {
    let members = found.members.iter().map(|member| DescribedMember {
        member_id: &member.id,
        instance_id: text(member.subscriber.instance.as_ref()),
        rack_id: text(member.subscriber.rack.as_ref()),
        member_epoch: member.epoch,
        client_id: &member.subscriber.client_id,
        client_host: &member.subscriber.host,
        subscribed_topic_names: member.subscriber.names.iter().map(|name| &**name).collect(),
        subscribed_topic_regex: text(member.subscriber.regex.as_ref()),
        assignment: assignment(&member.assignment, image),
        target_assignment: assignment(&member.target, image),
        member_type: CONSUMER_MEMBER,
    });
    DescribedGroup {
        group_state: found.state,
        group_epoch: found.epoch,
        assignment_epoch: found.target_epoch,
        assignor_name: found.assignor,
        members: members.collect(),
        ..DescribedGroup::default()
    }
}

/// Partitions by topics that are there; those of deleted ones leave with the next epoch.
fn assignment<'a>(partitions: &Partitions, image: &'a Image) -> described::Assignment<'a> {
    let named = |topic: &TopicId| image.topics_by_id.get(topic).map(|entry| &*entry.name);
    let topics = partitions.iter().filter_map(|(topic, indices)| {
        let partitions = indices.iter().copied().collect();
        Some(described::TopicPartitions { topic_id: *topic, topic_name: named(topic)?, partitions })
    });
    described::Assignment { topic_partitions: topics.collect() }
}
