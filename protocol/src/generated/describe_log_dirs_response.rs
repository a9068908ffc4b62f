// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeLogDirsResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub results: Vec<DescribeLogDirsResult<'a>>,
}

impl<'a> Wire<'a> for DescribeLogDirsResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        if version.from(3) {
            message.error_code = get(reader, version)?;
        }
        message.results = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        if version.from(3) {
            self.error_code.write(out, version);
        }
        self.results.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeLogDirsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=5;
    const FLEXIBLE: i16 = 2;
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeLogDirsResult<'a> {
    pub error_code: ErrorCode,
    pub log_dir: &'a str,
    pub topics: Vec<DescribeLogDirsTopic<'a>>,
    pub total_bytes: i64,
    pub usable_bytes: i64,
    pub is_cordoned: bool,
}

impl Default for DescribeLogDirsResult<'_> {
    fn default() -> Self {
        Self {
            error_code: Default::default(),
            log_dir: Default::default(),
            topics: Default::default(),
            total_bytes: -1,
            usable_bytes: -1,
            is_cordoned: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for DescribeLogDirsResult<'a> {
    const BYTES_MIN: usize = 5;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        message.log_dir = get(reader, version)?;
        message.topics = get(reader, version)?;
        if version.from(4) {
            message.total_bytes = get(reader, version)?;
        }
        if version.from(4) {
            message.usable_bytes = get(reader, version)?;
        }
        if version.from(5) {
            message.is_cordoned = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        self.log_dir.write(out, version);
        self.topics.write(out, version);
        if version.from(4) {
            self.total_bytes.write(out, version);
        }
        if version.from(4) {
            self.usable_bytes.write(out, version);
        }
        if version.from(5) {
            self.is_cordoned.write(out, version);
        }
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeLogDirsTopic<'a> {
    pub name: &'a str,
    pub partitions: Vec<DescribeLogDirsPartition>,
}

impl<'a> Wire<'a> for DescribeLogDirsTopic<'a> {
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
pub struct DescribeLogDirsPartition {
    pub partition_index: i32,
    pub partition_size: i64,
    pub offset_lag: i64,
    pub is_future_key: bool,
}

impl<'a> Wire<'a> for DescribeLogDirsPartition {
    const BYTES_MIN: usize = 21;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.partition_size = get(reader, version)?;
        message.offset_lag = get(reader, version)?;
        message.is_future_key = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.partition_size.write(out, version);
        self.offset_lag.write(out, version);
        self.is_future_key.write(out, version);
        put_no_tags(out, version);
    }
}
