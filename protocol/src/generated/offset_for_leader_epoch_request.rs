// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetForLeaderEpochRequest<'a> {
    pub replica_id: i32,
    pub topics: Vec<OffsetForLeaderTopic<'a>>,
}

impl Default for OffsetForLeaderEpochRequest<'_> {
    fn default() -> Self {
        Self { replica_id: -2, topics: Default::default() }
    }
}

impl<'a> Wire<'a> for OffsetForLeaderEpochRequest<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(3) {
            message.replica_id = get(reader, version)?;
        }
        message.topics = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(3) {
            self.replica_id.write(out, version);
        }
        self.topics.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for OffsetForLeaderEpochRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 2..=4;
    const FLEXIBLE: i16 = 4;
}

impl<'a> Request<'a> for OffsetForLeaderEpochRequest<'a> {
    const KEY: ApiKey = ApiKey::OffsetForLeaderEpoch;
    type Response<'r> = super::OffsetForLeaderEpochResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetForLeaderTopic<'a> {
    pub topic: &'a str,
    pub partitions: Vec<OffsetForLeaderPartition>,
}

impl<'a> Wire<'a> for OffsetForLeaderTopic<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic = get(reader, version)?;
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic.write(out, version);
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetForLeaderPartition {
    pub partition: i32,
    pub current_leader_epoch: i32,
    pub leader_epoch: i32,
}

impl Default for OffsetForLeaderPartition {
    fn default() -> Self {
        Self { partition: Default::default(), current_leader_epoch: -1, leader_epoch: Default::default() }
    }
}

impl<'a> Wire<'a> for OffsetForLeaderPartition {
    const BYTES_MIN: usize = 12;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition = get(reader, version)?;
        message.current_leader_epoch = get(reader, version)?;
        message.leader_epoch = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition.write(out, version);
        self.current_leader_epoch.write(out, version);
        self.leader_epoch.write(out, version);
        put_no_tags(out, version);
    }
}
