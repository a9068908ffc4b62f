// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeTopicPartitionsResponse<'a> {
    pub throttle_time_ms: i32,
    pub topics: Vec<DescribeTopicPartitionsResponseTopic<'a>>,
    pub next_cursor: Option<Cursor<'a>>,
}

impl<'a> Wire<'a> for DescribeTopicPartitionsResponse<'a> {
    const BYTES_MIN: usize = 7;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        message.topics = get(reader, version)?;
        message.next_cursor = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        self.topics.write(out, version);
        self.next_cursor.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeTopicPartitionsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = 0;
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsResponseTopic<'a> {
    pub error_code: ErrorCode,
    pub name: Option<&'a str>,
    pub topic_id: TopicId,
    pub is_internal: bool,
    pub partitions: Vec<DescribeTopicPartitionsResponsePartition>,
    pub topic_authorized_operations: i32,
}

impl Default for DescribeTopicPartitionsResponseTopic<'_> {
    fn default() -> Self {
        Self {
            error_code: Default::default(),
            name: Default::default(),
            topic_id: Default::default(),
            is_internal: Default::default(),
            partitions: Default::default(),
            topic_authorized_operations: i32::MIN,
        }
    }
}

impl<'a> Wire<'a> for DescribeTopicPartitionsResponseTopic<'a> {
    const BYTES_MIN: usize = 26;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        message.name = get(reader, version)?;
        message.topic_id = get(reader, version)?;
        message.is_internal = get(reader, version)?;
        message.partitions = get(reader, version)?;
        message.topic_authorized_operations = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        self.name.write(out, version);
        self.topic_id.write(out, version);
        self.is_internal.write(out, version);
        self.partitions.write(out, version);
        self.topic_authorized_operations.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsResponsePartition {
    pub error_code: ErrorCode,
    pub partition_index: i32,
    pub leader_id: i32,
    pub leader_epoch: i32,
    pub replica_nodes: Vec<i32>,
    pub isr_nodes: Vec<i32>,
    pub eligible_leader_replicas: Option<Vec<i32>>,
    pub last_known_elr: Option<Vec<i32>>,
    pub offline_replicas: Vec<i32>,
}

impl Default for DescribeTopicPartitionsResponsePartition {
    fn default() -> Self {
        Self {
            error_code: Default::default(),
            partition_index: Default::default(),
            leader_id: Default::default(),
            leader_epoch: -1,
            replica_nodes: Default::default(),
            isr_nodes: Default::default(),
            eligible_leader_replicas: Default::default(),
            last_known_elr: Default::default(),
            offline_replicas: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for DescribeTopicPartitionsResponsePartition {
    const BYTES_MIN: usize = 20;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        message.partition_index = get(reader, version)?;
        message.leader_id = get(reader, version)?;
        message.leader_epoch = get(reader, version)?;
        message.replica_nodes = get(reader, version)?;
        message.isr_nodes = get(reader, version)?;
        message.eligible_leader_replicas = get(reader, version)?;
        message.last_known_elr = get(reader, version)?;
        message.offline_replicas = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        self.partition_index.write(out, version);
        self.leader_id.write(out, version);
        self.leader_epoch.write(out, version);
        self.replica_nodes.write(out, version);
        self.isr_nodes.write(out, version);
        self.eligible_leader_replicas.write(out, version);
        self.last_known_elr.write(out, version);
        self.offline_replicas.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct Cursor<'a> {
    pub topic_name: &'a str,
    pub partition_index: i32,
}

impl<'a> Wire<'a> for Cursor<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_name = get(reader, version)?;
        message.partition_index = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic_name.write(out, version);
        self.partition_index.write(out, version);
        put_no_tags(out, version);
    }
}
