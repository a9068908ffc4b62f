// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitRequest<'a> {
    pub group_id: &'a str,
    pub generation_id_or_member_epoch: i32,
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub retention_time_ms: i64,
    pub topics: Vec<OffsetCommitRequestTopic<'a>>,
}

impl Default for OffsetCommitRequest<'_> {
    fn default() -> Self {
        Self {
            group_id: Default::default(),
            generation_id_or_member_epoch: -1,
            member_id: Default::default(),
            group_instance_id: Default::default(),
            retention_time_ms: -1,
            topics: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for OffsetCommitRequest<'a> {
    const BYTES_MIN: usize = 9;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_id = get(reader, version)?;
        message.generation_id_or_member_epoch = get(reader, version)?;
        message.member_id = get(reader, version)?;
        if version.from(7) {
            message.group_instance_id = get(reader, version)?;
        }
        if version.upto(4) {
            message.retention_time_ms = get(reader, version)?;
        }
        message.topics = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group_id.write(out, version);
        self.generation_id_or_member_epoch.write(out, version);
        self.member_id.write(out, version);
        if version.from(7) {
            self.group_instance_id.write(out, version);
        }
        if version.upto(4) {
            self.retention_time_ms.write(out, version);
        }
        self.topics.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for OffsetCommitRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 2..=10;
    const FLEXIBLE: i16 = 8;
}

impl<'a> Request<'a> for OffsetCommitRequest<'a> {
    const KEY: ApiKey = ApiKey::OffsetCommit;
    type Response<'r> = super::OffsetCommitResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetCommitRequestTopic<'a> {
    pub name: &'a str,
    pub topic_id: TopicId,
    pub partitions: Vec<OffsetCommitRequestPartition<'a>>,
}

impl<'a> Wire<'a> for OffsetCommitRequestTopic<'a> {
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
pub struct OffsetCommitRequestPartition<'a> {
    pub partition_index: i32,
    pub committed_offset: i64,
    pub committed_leader_epoch: i32,
    pub committed_metadata: Option<&'a str>,
}

impl Default for OffsetCommitRequestPartition<'_> {
    fn default() -> Self {
        Self {
            partition_index: Default::default(),
            committed_offset: Default::default(),
            committed_leader_epoch: -1,
            committed_metadata: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for OffsetCommitRequestPartition<'a> {
    const BYTES_MIN: usize = 14;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.committed_offset = get(reader, version)?;
        if version.from(6) {
            message.committed_leader_epoch = get(reader, version)?;
        }
        message.committed_metadata = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.committed_offset.write(out, version);
        if version.from(6) {
            self.committed_leader_epoch.write(out, version);
        }
        self.committed_metadata.write(out, version);
        put_no_tags(out, version);
    }
}
