// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeProducersResponse<'a> {
    pub throttle_time_ms: i32,
    pub topics: Vec<TopicResponse<'a>>,
}

impl<'a> Wire<'a> for DescribeProducersResponse<'a> {
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

impl<'a> Message<'a> for DescribeProducersResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = 0;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct TopicResponse<'a> {
    pub name: &'a str,
    pub partitions: Vec<PartitionResponse<'a>>,
}

impl<'a> Wire<'a> for TopicResponse<'a> {
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
pub struct PartitionResponse<'a> {
    pub partition_index: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
    pub active_producers: Vec<ProducerState>,
}

impl<'a> Wire<'a> for PartitionResponse<'a> {
    const BYTES_MIN: usize = 9;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.error_code = get(reader, version)?;
        message.error_message = get(reader, version)?;
        message.active_producers = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.error_code.write(out, version);
        self.error_message.write(out, version);
        self.active_producers.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProducerState {
    pub producer_id: i64,
    pub producer_epoch: i32,
    pub last_sequence: i32,
    pub last_timestamp: i64,
    pub coordinator_epoch: i32,
    pub current_txn_start_offset: i64,
}

impl Default for ProducerState {
    fn default() -> Self {
        Self {
            producer_id: Default::default(),
            producer_epoch: Default::default(),
            last_sequence: -1,
            last_timestamp: -1,
            coordinator_epoch: Default::default(),
            current_txn_start_offset: -1,
        }
    }
}

impl<'a> Wire<'a> for ProducerState {
    const BYTES_MIN: usize = 37;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.producer_id = get(reader, version)?;
        message.producer_epoch = get(reader, version)?;
        message.last_sequence = get(reader, version)?;
        message.last_timestamp = get(reader, version)?;
        message.coordinator_epoch = get(reader, version)?;
        message.current_txn_start_offset = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.producer_id.write(out, version);
        self.producer_epoch.write(out, version);
        self.last_sequence.write(out, version);
        self.last_timestamp.write(out, version);
        self.coordinator_epoch.write(out, version);
        self.current_txn_start_offset.write(out, version);
        put_no_tags(out, version);
    }
}
