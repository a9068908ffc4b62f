// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetFetchResponse<'a> {
    pub throttle_time_ms: i32,
    pub topics: Vec<OffsetFetchResponseTopic<'a>>,
    pub error_code: ErrorCode,
    pub groups: Vec<OffsetFetchResponseGroup<'a>>,
}

impl<'a> Wire<'a> for OffsetFetchResponse<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(3) {
            message.throttle_time_ms = get(reader, version)?;
        }
        if version.upto(7) {
            message.topics = get(reader, version)?;
        }
        if version.from(2) && version.upto(7) {
            message.error_code = get(reader, version)?;
        }
        if version.from(8) {
            message.groups = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(3) {
            self.throttle_time_ms.write(out, version);
        }
        if version.upto(7) {
            self.topics.write(out, version);
        }
        if version.from(2) && version.upto(7) {
            self.error_code.write(out, version);
        }
        if version.from(8) {
            self.groups.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for OffsetFetchResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=10;
    const FLEXIBLE: i16 = 6;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetFetchResponseTopic<'a> {
    pub name: &'a str,
    pub partitions: Vec<OffsetFetchResponsePartition<'a>>,
}

impl<'a> Wire<'a> for OffsetFetchResponseTopic<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchResponsePartition<'a> {
    pub partition_index: i32,
    pub committed_offset: i64,
    pub committed_leader_epoch: i32,
    pub metadata: Option<&'a str>,
    pub error_code: ErrorCode,
}

impl Default for OffsetFetchResponsePartition<'_> {
    fn default() -> Self {
        Self {
            partition_index: Default::default(),
            committed_offset: Default::default(),
            committed_leader_epoch: -1,
            metadata: Default::default(),
            error_code: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for OffsetFetchResponsePartition<'a> {
    const BYTES_MIN: usize = 16;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.committed_offset = get(reader, version)?;
        if version.from(5) {
            message.committed_leader_epoch = get(reader, version)?;
        }
        message.metadata = get(reader, version)?;
        message.error_code = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.committed_offset.write(out, version);
        if version.from(5) {
            self.committed_leader_epoch.write(out, version);
        }
        self.metadata.write(out, version);
        self.error_code.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetFetchResponseGroup<'a> {
    pub group_id: &'a str,
    pub topics: Vec<OffsetFetchResponseTopics<'a>>,
    pub error_code: ErrorCode,
}

impl<'a> Wire<'a> for OffsetFetchResponseGroup<'a> {
    const BYTES_MIN: usize = 5;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_id = get(reader, version)?;
        message.topics = get(reader, version)?;
        message.error_code = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group_id.write(out, version);
        self.topics.write(out, version);
        self.error_code.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetFetchResponseTopics<'a> {
    pub name: &'a str,
    pub topic_id: TopicId,
    pub partitions: Vec<OffsetFetchResponsePartitions<'a>>,
}

impl<'a> Wire<'a> for OffsetFetchResponseTopics<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.upto(9) {
            message.name = get(reader, version)?;
        }
        if version.from(10) {
            message.topic_id = get(reader, version)?;
        }
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.upto(9) {
            self.name.write(out, version);
        }
        if version.from(10) {
            self.topic_id.write(out, version);
        }
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchResponsePartitions<'a> {
    pub partition_index: i32,
    pub committed_offset: i64,
    pub committed_leader_epoch: i32,
    pub metadata: Option<&'a str>,
    pub error_code: ErrorCode,
}

impl Default for OffsetFetchResponsePartitions<'_> {
    fn default() -> Self {
        Self {
            partition_index: Default::default(),
            committed_offset: Default::default(),
            committed_leader_epoch: -1,
            metadata: Default::default(),
            error_code: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for OffsetFetchResponsePartitions<'a> {
    const BYTES_MIN: usize = 20;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.committed_offset = get(reader, version)?;
        message.committed_leader_epoch = get(reader, version)?;
        message.metadata = get(reader, version)?;
        message.error_code = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.committed_offset.write(out, version);
        self.committed_leader_epoch.write(out, version);
        self.metadata.write(out, version);
        self.error_code.write(out, version);
        put_no_tags(out, version);
    }
}
