// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetDeleteResponse<'a> {
    pub error_code: ErrorCode,
    pub throttle_time_ms: i32,
    pub topics: Vec<OffsetDeleteResponseTopic<'a>>,
}

impl<'a> Wire<'a> for OffsetDeleteResponse<'a> {
    const BYTES_MIN: usize = 10;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        message.throttle_time_ms = get(reader, version)?;
        message.topics = get(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        self.throttle_time_ms.write(out, version);
        self.topics.write(out, version);
    }
}

impl<'a> Message<'a> for OffsetDeleteResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = i16::MAX;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetDeleteResponseTopic<'a> {
    pub name: &'a str,
    pub partitions: Vec<OffsetDeleteResponsePartition>,
}

impl<'a> Wire<'a> for OffsetDeleteResponseTopic<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.partitions = get(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.partitions.write(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetDeleteResponsePartition {
    pub partition_index: i32,
    pub error_code: ErrorCode,
}

impl<'a> Wire<'a> for OffsetDeleteResponsePartition {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.error_code = get(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.error_code.write(out, version);
    }
}
