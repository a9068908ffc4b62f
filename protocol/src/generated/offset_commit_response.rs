// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetCommitResponse<'a> {
    pub throttle_time_ms: i32,
    pub topics: Vec<OffsetCommitResponseTopic<'a>>,
}

impl<'a> Wire<'a> for OffsetCommitResponse<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(3) {
            message.throttle_time_ms = get(reader, version)?;
        }
        message.topics = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(3) {
            self.throttle_time_ms.write(out, version);
        }
        self.topics.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for OffsetCommitResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 2..=10;
    const FLEXIBLE: i16 = 8;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetCommitResponseTopic<'a> {
    pub name: &'a str,
    pub topic_id: TopicId,
    pub partitions: Vec<OffsetCommitResponsePartition>,
}

impl<'a> Wire<'a> for OffsetCommitResponseTopic<'a> {
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

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetCommitResponsePartition {
    pub partition_index: i32,
    pub error_code: ErrorCode,
}

impl<'a> Wire<'a> for OffsetCommitResponsePartition {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.error_code = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.error_code.write(out, version);
        put_no_tags(out, version);
    }
}
