// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetForLeaderEpochResponse<'a> {
    pub throttle_time_ms: i32,
    pub topics: Vec<OffsetForLeaderTopicResult<'a>>,
}

impl<'a> Wire<'a> for OffsetForLeaderEpochResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        message.topics = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        self.topics.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for OffsetForLeaderEpochResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 2..=4;
    const FLEXIBLE: i16 = 4;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetForLeaderTopicResult<'a> {
    pub topic: &'a str,
    pub partitions: Vec<EpochEndOffset>,
}

impl<'a> Wire<'a> for OffsetForLeaderTopicResult<'a> {
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
pub struct EpochEndOffset {
    pub error_code: ErrorCode,
    pub partition: i32,
    pub leader_epoch: i32,
    pub end_offset: i64,
}

impl Default for EpochEndOffset {
    fn default() -> Self {
        Self { error_code: Default::default(), partition: Default::default(), leader_epoch: -1, end_offset: -1 }
    }
}

impl<'a> Wire<'a> for EpochEndOffset {
    const BYTES_MIN: usize = 18;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        message.partition = get(reader, version)?;
        message.leader_epoch = get(reader, version)?;
        message.end_offset = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        self.partition.write(out, version);
        self.leader_epoch.write(out, version);
        self.end_offset.write(out, version);
        put_no_tags(out, version);
    }
}
