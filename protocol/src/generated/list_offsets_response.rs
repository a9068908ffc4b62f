// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ListOffsetsResponse<'a> {
    pub throttle_time_ms: i32,
    pub topics: Vec<ListOffsetsTopicResponse<'a>>,
}

impl<'a> Wire<'a> for ListOffsetsResponse<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(2) {
            message.throttle_time_ms = get(reader, version)?;
        }
        message.topics = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(2) {
            self.throttle_time_ms.write(out, version);
        }
        self.topics.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ListOffsetsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=11;
    const FLEXIBLE: i16 = 6;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ListOffsetsTopicResponse<'a> {
    pub name: &'a str,
    pub partitions: Vec<ListOffsetsPartitionResponse>,
}

impl<'a> Wire<'a> for ListOffsetsTopicResponse<'a> {
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
pub struct ListOffsetsPartitionResponse {
    pub partition_index: i32,
    pub error_code: ErrorCode,
    pub timestamp: i64,
    pub offset: i64,
    pub leader_epoch: i32,
}

impl Default for ListOffsetsPartitionResponse {
    fn default() -> Self {
        Self {
            partition_index: Default::default(),
            error_code: Default::default(),
            timestamp: -1,
            offset: -1,
            leader_epoch: -1,
        }
    }
}

impl<'a> Wire<'a> for ListOffsetsPartitionResponse {
    const BYTES_MIN: usize = 22;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.error_code = get(reader, version)?;
        message.timestamp = get(reader, version)?;
        message.offset = get(reader, version)?;
        if version.from(4) {
            message.leader_epoch = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.error_code.write(out, version);
        self.timestamp.write(out, version);
        self.offset.write(out, version);
        if version.from(4) {
            self.leader_epoch.write(out, version);
        }
        put_no_tags(out, version);
    }
}
