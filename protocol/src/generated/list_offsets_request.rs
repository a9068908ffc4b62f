// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ListOffsetsRequest<'a> {
    pub replica_id: i32,
    pub isolation_level: i8,
    pub topics: Vec<ListOffsetsTopic<'a>>,
    pub timeout_ms: i32,
}

impl<'a> Wire<'a> for ListOffsetsRequest<'a> {
    const BYTES_MIN: usize = 7;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.replica_id = get(reader, version)?;
        if version.from(2) {
            message.isolation_level = get(reader, version)?;
        }
        message.topics = get(reader, version)?;
        if version.from(10) {
            message.timeout_ms = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.replica_id.write(out, version);
        if version.from(2) {
            self.isolation_level.write(out, version);
        }
        self.topics.write(out, version);
        if version.from(10) {
            self.timeout_ms.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ListOffsetsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=11;
    const FLEXIBLE: i16 = 6;
}

impl<'a> Request<'a> for ListOffsetsRequest<'a> {
    const KEY: ApiKey = ApiKey::ListOffsets;
    type Response<'r> = super::ListOffsetsResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ListOffsetsTopic<'a> {
    pub name: &'a str,
    pub partitions: Vec<ListOffsetsPartition>,
}

impl<'a> Wire<'a> for ListOffsetsTopic<'a> {
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
pub struct ListOffsetsPartition {
    pub partition_index: i32,
    pub current_leader_epoch: i32,
    pub timestamp: i64,
}

impl Default for ListOffsetsPartition {
    fn default() -> Self {
        Self { partition_index: Default::default(), current_leader_epoch: -1, timestamp: Default::default() }
    }
}

impl<'a> Wire<'a> for ListOffsetsPartition {
    const BYTES_MIN: usize = 12;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        if version.from(4) {
            message.current_leader_epoch = get(reader, version)?;
        }
        message.timestamp = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        if version.from(4) {
            self.current_leader_epoch.write(out, version);
        }
        self.timestamp.write(out, version);
        put_no_tags(out, version);
    }
}
