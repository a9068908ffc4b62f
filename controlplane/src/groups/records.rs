//! Records of the machine as Kafka's records of `__consumer_offsets`, in record batches.
//!
//! A key begins with its kind as int16: 1 (or, from old brokers, 0) `OffsetCommitKey`, 2 `GroupMetadataKey`, and those of
//! consumer groups ([`consumers`]). A value begins with its version as int16. Kinds that are not known here are skipped.

mod consumers;

use std::sync::Arc;

use base::{Checksums, WallMs};
use groups::{GroupValue, MemberValue, OffsetValue, Record};
use protocol::batch::{BatchBuilder, BatchView, Batches, Codec, Producer};
use protocol::messages::group_metadata_value::MemberMetadata;
use protocol::messages::{GroupMetadataKey, GroupMetadataValue, Message as _, OffsetCommitKey, OffsetCommitValue};
use protocol::wire::DecodeError;

const OFFSET_KEY_OLD: i16 = 0;
const OFFSET_KEY: i16 = 1;
const GROUP_KEY: i16 = 2;
/// Version of the keys' messages; the kind stands in front of them.
const KEY_VERSION: i16 = 0;
/// Without a topic id Kafka's value of version 3 says everything; with it, only 4 does.
const OFFSET_VERSION: i16 = 3;
const OFFSET_VERSION_WITH_ID: i16 = 4;
const GROUP_VERSION: i16 = 3;

/// Makes record batches in buffers that are used again and again.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    batch: BatchBuilder,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Encoder {
    /// Adds a record, stamped `now`.
    pub(super) fn push(&mut self, record: &Record, now: WallMs) {
        self.key.clear();
        self.value.clear();
        let has_value = match record {
            Record::Offset { group, topic, partition, value } => {
                self.key.extend_from_slice(&OFFSET_KEY.to_be_bytes());
                OffsetCommitKey { group, topic, partition: *partition }.encode(&mut self.key, KEY_VERSION);
                value.as_ref().map(|value| put_offset(&mut self.value, value)).is_some()
            }
            Record::Group { group, value } => {
                self.key.extend_from_slice(&GROUP_KEY.to_be_bytes());
                GroupMetadataKey { group }.encode(&mut self.key, KEY_VERSION);
                value.as_ref().map(|value| put_group(&mut self.value, value)).is_some()
            }
            Record::Consumer { group, key, value } => {
                consumers::put_key(&mut self.key, group, key);
                value.as_ref().map(|value| consumers::put_value(&mut self.value, value)).is_some()
            }
        };
        self.batch.append(now.0, Some(&self.key), has_value.then_some(self.value.as_slice()), &[]);
    }

    /// Bytes of the batch so far.
    pub(super) fn len(&self) -> usize {
        self.batch.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// The batch and the number of its records; begins the next.
    pub(super) fn finish(&mut self, sums: &Checksums) -> (Vec<u8>, i64) {
        let count = i64::from(self.batch.count());
        let bytes = self.batch.finish(Producer::NONE, sums).to_vec();
        self.batch.clear();
        (bytes, count)
    }
}

fn put_offset(out: &mut Vec<u8>, value: &OffsetValue) {
    let version = if value.topic_id == base::TopicId::ZERO { OFFSET_VERSION } else { OFFSET_VERSION_WITH_ID };
    out.extend_from_slice(&version.to_be_bytes());
    let message = OffsetCommitValue {
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        metadata: &value.metadata,
        commit_timestamp: value.committed.0,
        topic_id: value.topic_id,
        ..OffsetCommitValue::default()
    };
    message.encode(out, version);
}

fn put_group(out: &mut Vec<u8>, value: &GroupValue) {
    out.extend_from_slice(&GROUP_VERSION.to_be_bytes());
    let members = value.members.iter().map(|member| MemberMetadata {
        member_id: &member.id,
        group_instance_id: member.instance.as_deref(),
        client_id: &member.client_id,
        client_host: &member.host,
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: &member.subscription,
        assignment: &member.assignment,
    });
    let message = GroupMetadataValue {
        protocol_type: &value.protocol_type,
        generation: value.generation,
        protocol: value.protocol.as_deref(),
        leader: value.leader.as_deref(),
        current_state_timestamp: value.since.0,
        members: members.collect(),
    };
    message.encode(out, GROUP_VERSION);
}

/// What a piece of the log holds.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    /// The records that are understood, in order.
    pub(super) records: Vec<Record>,
    /// The offset behind the last batch; none when there is no batch.
    pub(super) next: Option<i64>,
    /// Batches and records that could not be read.
    pub(super) damaged: u64,
}

/// Reads whole batches, as they were appended; records below `from` are left out.
pub(super) fn decode(batches: &[u8], from: i64) -> Decoded {
    let mut decoded = Decoded::default();
    for batch in Batches::new(batches) {
        let Ok(batch) = batch else {
            decoded.damaged += 1;
            break;
        };
        decoded.next = Some(batch.last_offset().saturating_add(1));
        decode_batch(&batch, from, &mut decoded);
    }
    decoded
}

fn decode_batch(batch: &BatchView<'_>, from: i64, decoded: &mut Decoded) {
    if batch.codec() != Codec::None {
        // The coordinator never compresses, and nobody else may write here.
        decoded.damaged += 1;
        return;
    }
    for record in batch.records() {
        let Ok(record) = record else {
            decoded.damaged += 1;
            return;
        };
        if batch.base_offset().saturating_add(i64::from(record.offset_delta)) < from {
            continue;
        }
        match decode_record(record.key.unwrap_or_default(), record.value) {
            Ok(Some(record)) => decoded.records.push(record),
            Ok(None) => {}
            Err(_) => decoded.damaged += 1,
        }
    }
}

/// One record; `None` for a kind that is not known.
fn decode_record(key: &[u8], value: Option<&[u8]>) -> Result<Option<Record>, DecodeError> {
    let Some((kind, key)) = key.split_first_chunk::<2>() else { return Ok(None) };
    match i16::from_be_bytes(*kind) {
        OFFSET_KEY_OLD | OFFSET_KEY => {
            let key = OffsetCommitKey::parse(key, KEY_VERSION)?;
            let value = value.map(get_offset).transpose()?;
            let (group, topic) = (key.group.into(), key.topic.into());
            Ok(Some(Record::Offset { group, topic, partition: key.partition, value }))
        }
        GROUP_KEY => {
            let key = GroupMetadataKey::parse(key, KEY_VERSION)?;
            let value = value.map(get_group).transpose()?;
            Ok(Some(Record::Group { group: key.group.into(), value: value.map(Arc::new) }))
        }
        kind => consumers::get(kind, key, value),
    }
}

fn versioned(value: &[u8]) -> Result<(i16, &[u8]), DecodeError> {
    let (version, rest) = value.split_first_chunk::<2>().ok_or(DecodeError::Truncated)?;
    Ok((i16::from_be_bytes(*version), rest))
}

fn get_offset(value: &[u8]) -> Result<OffsetValue, DecodeError> {
    let (version, rest) = versioned(value)?;
    let value = OffsetCommitValue::parse(rest, version)?;
    Ok(OffsetValue {
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        metadata: value.metadata.into(),
        committed: WallMs(value.commit_timestamp),
        topic_id: value.topic_id,
    })
}

fn get_group(value: &[u8]) -> Result<GroupValue, DecodeError> {
    let (version, rest) = versioned(value)?;
    let value = GroupMetadataValue::parse(rest, version)?;
    let members = value.members.iter().map(|member| MemberValue {
        id: member.member_id.into(),
        instance: member.group_instance_id.map(Into::into),
        client_id: member.client_id.into(),
        host: member.client_host.into(),
        rebalance_timeout_ms: member.rebalance_timeout,
        session_timeout_ms: member.session_timeout,
        subscription: member.subscription.into(),
        assignment: member.assignment.into(),
    });
    Ok(GroupValue {
        protocol_type: value.protocol_type.into(),
        generation: value.generation,
        protocol: value.protocol.map(Into::into),
        leader: value.leader.map(Into::into),
        since: WallMs(value.current_state_timestamp),
        members: members.collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it does not hold")]

    use super::*;
    use base::TopicId;
    use groups::{ConsumerKey, ConsumerValue, Current, MemberState, Subscriber};

    fn offset(topic_id: TopicId) -> OffsetValue {
        OffsetValue { offset: 42, leader_epoch: 3, metadata: "note".into(), committed: WallMs(1000), topic_id }
    }

    fn records() -> Vec<Record> {
        let group: Arc<str> = "group".into();
        let member = MemberValue {
            id: "m-1".into(),
            instance: Some("m".into()),
            client_id: "client".into(),
            host: "/127.0.0.1".into(),
            rebalance_timeout_ms: 60_000,
            session_timeout_ms: 10_000,
            subscription: Arc::from(&b"subscription"[..]),
            assignment: Arc::from(&b"assignment"[..]),
        };
        let value = GroupValue {
            protocol_type: "consumer".into(),
            generation: 5,
            protocol: Some("range".into()),
            leader: Some("m-1".into()),
            since: WallMs(2000),
            members: vec![member.clone(), MemberValue { instance: None, ..member }],
        };
        let empty = GroupValue { generation: 6, protocol: None, leader: None, members: vec![], ..value.clone() };
        let at = |partition, value| Record::Offset { group: group.clone(), topic: "t".into(), partition, value };
        vec![
            at(0, Some(offset(TopicId::ZERO))),
            at(1, Some(offset(TopicId(7)))),
            at(2, None),
            Record::Group { group: group.clone(), value: Some(Arc::new(value)) },
            Record::Group { group: group.clone(), value: Some(Arc::new(empty)) },
            Record::Group { group: group.clone(), value: None },
        ]
    }

    fn consumer_records() -> Vec<Record> {
        let held = |index, epoch| [(TopicId(9), [(index, epoch), (index + 1, epoch + 1)].into())].into();
        let subscriber = Subscriber {
            instance: Some("i".into()),
            rack: Some("r".into()),
            client_id: "client".into(),
            host: "/127.0.0.1".into(),
            names: ["a".into(), "b".into()].into(),
            regex: Some("a.*".into()),
            rebalance_timeout_ms: 5000,
            assignor: Some("range".into()),
        };
        let plain = Subscriber {
            instance: None,
            rack: None,
            names: [].into(),
            regex: None,
            assignor: None,
            ..subscriber.clone()
        };
        let current = Current {
            epoch: 4,
            previous_epoch: 3,
            state: MemberState::Unrevoked,
            assigned: held(0, 2),
            revoking: held(5, 3),
        };
        let member: Arc<str> = "m".into();
        let target = [(TopicId(9), [0, 1].into())].into();
        let parts = [
            (ConsumerKey::Epoch, ConsumerValue::Epoch { epoch: 4, topics_hash: -77 }),
            (ConsumerKey::Member(member.clone()), ConsumerValue::Member(Arc::new(subscriber))),
            (ConsumerKey::Member("n".into()), ConsumerValue::Member(Arc::new(plain))),
            (ConsumerKey::TargetEpoch, ConsumerValue::TargetEpoch(4)),
            (ConsumerKey::Target(member.clone()), ConsumerValue::Target(Arc::new(target))),
            (ConsumerKey::Current(member), ConsumerValue::Current(Arc::new(current))),
        ];
        let record = |key, value| Record::Consumer { group: "group".into(), key, value };
        let gone = parts.clone().map(|(key, _)| record(key, None));
        parts.map(|(key, value)| record(key, Some(value))).into_iter().chain(gone).collect()
    }

    #[test]
    fn every_record_of_a_consumer_group_comes_back() {
        let records = consumer_records();
        let decoded = decode(&batch(&records), 0);
        assert_eq!(decoded.records, records);
        assert_eq!(decoded.damaged, 0);
        let mut encoder = Encoder::default();
        encoder.push(&records[0], WallMs(0));
        assert_eq!(encoder.key, b"\0\x03\0\x05group");
        assert_eq!(encoder.value, b"\0\0\0\0\0\x04\x01\0\x08\xff\xff\xff\xff\xff\xff\xff\xb3");
    }

    fn batch(records: &[Record]) -> Vec<u8> {
        let mut encoder = Encoder::default();
        for record in records {
            encoder.push(record, WallMs(5));
        }
        encoder.finish(&Checksums::portable()).0
    }

    #[test]
    fn every_record_comes_back() {
        let records = records();
        let mut log = batch(&records[..2]);
        let second = batch(&records[2..]);
        log.extend_from_slice(&second);
        // Both batches claim base offset 0, as the coordinator sends them; the journal would have stamped the second.
        let decoded = decode(&log, 0);
        assert_eq!(decoded.records, records);
        assert_eq!((decoded.next, decoded.damaged), (Some(4), 0));
        assert_eq!(decode(&second, 3).records, records[5..]);
    }

    #[test]
    fn bytes_are_those_that_kafka_writes() {
        let mut encoder = Encoder::default();
        let at = |value| Record::Offset { group: "g".into(), topic: "t".into(), partition: 9, value };
        encoder.push(&at(Some(offset(TopicId::ZERO))), WallMs(0));
        assert_eq!(encoder.key, b"\0\x01\0\x01g\0\x01t\0\0\0\x09");
        assert_eq!(encoder.value, b"\0\x03\0\0\0\0\0\0\0\x2a\0\0\0\x03\0\x04note\0\0\0\0\0\0\x03\xe8");
        encoder.push(&at(Some(offset(TopicId(7)))), WallMs(0));
        let id = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07";
        assert_eq!(encoder.value[..27], *b"\0\x04\0\0\0\0\0\0\0\x2a\0\0\0\x03\x05note\0\0\0\0\0\0\x03\xe8");
        assert_eq!(encoder.value[27..], [&[1, 0, 16][..], id].concat());
        encoder.push(&Record::Group { group: "g".into(), value: None }, WallMs(0));
        assert_eq!(encoder.key, b"\0\x02\0\x01g");
    }

    #[test]
    fn unknown_kinds_are_skipped_and_damage_is_counted() {
        let mut builder = BatchBuilder::new();
        builder.append(0, Some(b"\0\x10whatever"), Some(b"x"), &[]);
        builder.append(0, None, Some(b"x"), &[]);
        builder.append(0, Some(b"\0\x01\0\x05g"), Some(b"x"), &[]);
        builder.append(0, Some(b"\0\x02\0\x01g"), Some(b"\x7f\xff"), &[]);
        let mut log = builder.finish(Producer::NONE, &Checksums::portable()).to_vec();
        log.extend_from_slice(&batch(&records()[..1]));
        let decoded = decode(&log, 0);
        assert_eq!((decoded.records.len(), decoded.damaged), (1, 2));
        log[20] = 0xff;
        log[16] = 9;
        assert_eq!(decode(&log, 0).damaged, 1, "a batch of another magic ends the reading");
    }
}
