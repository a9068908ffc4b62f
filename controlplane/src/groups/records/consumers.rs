//! Parts of consumer groups (KIP-848) as Kafka's records: keys 3 and 5 to 8. Key 4 (partitions of topics, before Kafka 4.1)
//! and 16 (matched expressions) are not needed: both follow from metadata.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::TopicId;
use groups::{ConsumerKey, ConsumerValue, Current, Held, MemberState, Record, Subscriber};
use protocol::messages::consumer_group_current_member_assignment_value::TopicPartitions;
use protocol::messages::consumer_group_target_assignment_member_value::TopicPartition;
use protocol::messages::{
    ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, Message as _,
};
use protocol::wire::DecodeError;

use super::{KEY_VERSION, versioned};

const EPOCH: i16 = 3;
const MEMBER: i16 = 5;
const TARGET_EPOCH: i16 = 6;
const TARGET: i16 = 7;
const CURRENT: i16 = 8;
/// The only version that there is of the values.
const VALUE_VERSION: i16 = 0;

pub(super) fn put_key(out: &mut Vec<u8>, group: &str, key: &ConsumerKey) {
    let kind = match key {
        ConsumerKey::Epoch => EPOCH,
        ConsumerKey::Member(_) => MEMBER,
        ConsumerKey::TargetEpoch => TARGET_EPOCH,
        ConsumerKey::Target(_) => TARGET,
        ConsumerKey::Current(_) => CURRENT,
    };
    out.extend_from_slice(&kind.to_be_bytes());
    match key {
        ConsumerKey::Epoch => ConsumerGroupMetadataKey { group_id: group }.encode(out, KEY_VERSION),
        ConsumerKey::TargetEpoch => {
            ConsumerGroupTargetAssignmentMetadataKey { group_id: group }.encode(out, KEY_VERSION);
        }
        ConsumerKey::Member(id) => {
            ConsumerGroupMemberMetadataKey { group_id: group, member_id: id }.encode(out, KEY_VERSION);
        }
        ConsumerKey::Target(id) => {
            ConsumerGroupTargetAssignmentMemberKey { group_id: group, member_id: id }.encode(out, KEY_VERSION);
        }
        ConsumerKey::Current(id) => {
            ConsumerGroupCurrentMemberAssignmentKey { group_id: group, member_id: id }.encode(out, KEY_VERSION);
        }
    }
}

pub(super) fn put_value(out: &mut Vec<u8>, value: &ConsumerValue) {
    out.extend_from_slice(&VALUE_VERSION.to_be_bytes());
    match value {
        ConsumerValue::Epoch { epoch, topics_hash } => {
            let message = ConsumerGroupMetadataValue { epoch: *epoch, metadata_hash: *topics_hash };
            message.encode(out, VALUE_VERSION);
        }
        ConsumerValue::TargetEpoch(epoch) => {
            let message = ConsumerGroupTargetAssignmentMetadataValue {
                assignment_epoch: *epoch,
                ..ConsumerGroupTargetAssignmentMetadataValue::default()
            };
            message.encode(out, VALUE_VERSION);
        }
        ConsumerValue::Member(member) => {
            let message = ConsumerGroupMemberMetadataValue {
                instance_id: member.instance.as_deref(),
                rack_id: member.rack.as_deref(),
                client_id: &member.client_id,
                client_host: &member.host,
                subscribed_topic_names: member.names.iter().map(|name| &**name).collect(),
                subscribed_topic_regex: member.regex.as_deref(),
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                server_assignor: member.assignor.as_deref(),
                ..ConsumerGroupMemberMetadataValue::default()
            };
            message.encode(out, VALUE_VERSION);
        }
        ConsumerValue::Target(target) => {
            let topics = target.iter().map(|(topic, indices)| TopicPartition {
                topic_id: *topic,
                partitions: indices.iter().copied().collect(),
            });
            let message = ConsumerGroupTargetAssignmentMemberValue { topic_partitions: topics.collect() };
            message.encode(out, VALUE_VERSION);
        }
        ConsumerValue::Current(current) => {
            let message = ConsumerGroupCurrentMemberAssignmentValue {
                member_epoch: current.epoch,
                previous_member_epoch: current.previous_epoch,
                state: current.state as i8,
                assigned_partitions: put_held(&current.assigned),
                partitions_pending_revocation: put_held(&current.revoking),
            };
            message.encode(out, VALUE_VERSION);
        }
    }
}

fn put_held(held: &Held) -> Vec<TopicPartitions> {
    let topics = held.iter().map(|(topic, indices)| TopicPartitions {
        topic_id: *topic,
        partitions: indices.keys().copied().collect(),
        assignment_epochs: Some(indices.values().copied().collect()),
    });
    topics.collect()
}

/// One record; `None` for a kind that is not known here.
pub(super) fn get(kind: i16, key: &[u8], value: Option<&[u8]>) -> Result<Option<Record>, DecodeError> {
    let (group, key) = match kind {
        EPOCH => (ConsumerGroupMetadataKey::parse(key, KEY_VERSION)?.group_id, ConsumerKey::Epoch),
        TARGET_EPOCH => {
            (ConsumerGroupTargetAssignmentMetadataKey::parse(key, KEY_VERSION)?.group_id, ConsumerKey::TargetEpoch)
        }
        MEMBER => {
            let key = ConsumerGroupMemberMetadataKey::parse(key, KEY_VERSION)?;
            (key.group_id, ConsumerKey::Member(key.member_id.into()))
        }
        TARGET => {
            let key = ConsumerGroupTargetAssignmentMemberKey::parse(key, KEY_VERSION)?;
            (key.group_id, ConsumerKey::Target(key.member_id.into()))
        }
        CURRENT => {
            let key = ConsumerGroupCurrentMemberAssignmentKey::parse(key, KEY_VERSION)?;
            (key.group_id, ConsumerKey::Current(key.member_id.into()))
        }
        _ => return Ok(None),
    };
    let value = value.map(|value| get_value(&key, value)).transpose()?;
    Ok(Some(Record::Consumer { group: group.into(), key, value }))
}

fn get_value(key: &ConsumerKey, value: &[u8]) -> Result<ConsumerValue, DecodeError> {
    let (version, rest) = versioned(value)?;
    Ok(match key {
        ConsumerKey::Epoch => {
            let value = ConsumerGroupMetadataValue::parse(rest, version)?;
            ConsumerValue::Epoch { epoch: value.epoch, topics_hash: value.metadata_hash }
        }
        ConsumerKey::TargetEpoch => {
            let value = ConsumerGroupTargetAssignmentMetadataValue::parse(rest, version)?;
            ConsumerValue::TargetEpoch(value.assignment_epoch)
        }
        ConsumerKey::Member(_) => {
            let value = ConsumerGroupMemberMetadataValue::parse(rest, version)?;
            ConsumerValue::Member(Arc::new(Subscriber {
                instance: value.instance_id.map(Into::into),
                rack: value.rack_id.map(Into::into),
                client_id: value.client_id.into(),
                host: value.client_host.into(),
                names: value.subscribed_topic_names.into_iter().map(Into::into).collect(),
                regex: value.subscribed_topic_regex.map(Into::into),
                rebalance_timeout_ms: value.rebalance_timeout_ms,
                assignor: value.server_assignor.map(Into::into),
            }))
        }
        ConsumerKey::Target(_) => {
            let value = ConsumerGroupTargetAssignmentMemberValue::parse(rest, version)?;
            let topics = value.topic_partitions.into_iter();
            let target = topics.map(|topic| (topic.topic_id, topic.partitions.into_iter().collect())).collect();
            ConsumerValue::Target(Arc::new(target))
        }
        ConsumerKey::Current(_) => {
            let value = ConsumerGroupCurrentMemberAssignmentValue::parse(rest, version)?;
            ConsumerValue::Current(Arc::new(Current {
                epoch: value.member_epoch,
                previous_epoch: value.previous_member_epoch,
                // A state of a newer Kafka: what it holds stands beside it.
                state: MemberState::of(value.state).unwrap_or(MemberState::Unreleased),
                assigned: get_held(value.assigned_partitions, value.member_epoch),
                revoking: get_held(value.partitions_pending_revocation, value.member_epoch),
            }))
        }
    })
}

/// Partitions without epochs, as Kafka wrote them before 4.3, count from the member's own.
fn get_held(topics: Vec<TopicPartitions>, epoch: i32) -> BTreeMap<TopicId, BTreeMap<i32, i32>> {
    let topics = topics.into_iter().map(|topic| {
        let epochs = topic.assignment_epochs.unwrap_or_default();
        let epochs = epochs.into_iter().chain(std::iter::repeat(epoch));
        (topic.topic_id, topic.partitions.into_iter().zip(epochs).collect())
    });
    topics.collect()
}
