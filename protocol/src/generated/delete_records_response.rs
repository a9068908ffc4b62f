// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeleteRecordsResponse<'a> {
    pub throttle_time_ms: i32,
    pub topics: Vec<DeleteRecordsTopicResult<'a>>,
}

impl<'a> Wire<'a> for DeleteRecordsResponse<'a> {
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

impl<'a> Message<'a> for DeleteRecordsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE: i16 = 2;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeleteRecordsTopicResult<'a> {
    pub name: &'a str,
    pub partitions: Vec<DeleteRecordsPartitionResult>,
}

impl<'a> Wire<'a> for DeleteRecordsTopicResult<'a> {
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

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeleteRecordsPartitionResult {
    pub partition_index: i32,
    pub low_watermark: i64,
    pub error_code: ErrorCode,
}

impl<'a> Wire<'a> for DeleteRecordsPartitionResult {
    const BYTES_MIN: usize = 14;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.low_watermark = get(reader, version)?;
        message.error_code = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.low_watermark.write(out, version);
        self.error_code.write(out, version);
        put_no_tags(out, version);
    }
}
