// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ConsumerGroupHeartbeatResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
    pub member_id: Option<&'a str>,
    pub member_epoch: i32,
    pub heartbeat_interval_ms: i32,
    pub assignment: Option<Assignment>,
}

impl<'a> Wire<'a> for ConsumerGroupHeartbeatResponse<'a> {
    const BYTES_MIN: usize = 18;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        message.error_code = get(reader, version)?;
        message.error_message = get(reader, version)?;
        message.member_id = get(reader, version)?;
        message.member_epoch = get(reader, version)?;
        message.heartbeat_interval_ms = get(reader, version)?;
        message.assignment = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        self.error_code.write(out, version);
        self.error_message.write(out, version);
        self.member_id.write(out, version);
        self.member_epoch.write(out, version);
        self.heartbeat_interval_ms.write(out, version);
        self.assignment.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ConsumerGroupHeartbeatResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE: i16 = 0;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct Assignment {
    pub topic_partitions: Vec<TopicPartitions>,
}

impl<'a> Wire<'a> for Assignment {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic_partitions.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct TopicPartitions {
    pub topic_id: TopicId,
    pub partitions: Vec<i32>,
}

impl<'a> Wire<'a> for TopicPartitions {
    const BYTES_MIN: usize = 18;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_id = get(reader, version)?;
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic_id.write(out, version);
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}
