// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader, put_tag, put_uvarint};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ProduceResponse<'a> {
    pub responses: Vec<TopicProduceResponse<'a>>,
    pub throttle_time_ms: i32,
    pub node_endpoints: Vec<NodeEndpoint<'a>>,
}

impl<'a> Wire<'a> for ProduceResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.responses = get(reader, version)?;
        message.throttle_time_ms = get(reader, version)?;
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 if version.from(10) => message.node_endpoints = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.responses.write(out, version);
        self.throttle_time_ms.write(out, version);
        if version.flexible() {
            let has_node_endpoints = version.from(10) && !self.node_endpoints.is_empty();
            put_uvarint(out, u32::from(has_node_endpoints));
            if has_node_endpoints {
                put_tag(out, 0, &mut |out| self.node_endpoints.write(out, version));
            }
        }
    }
}

impl<'a> Message<'a> for ProduceResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 3..=13;
    const FLEXIBLE: i16 = 9;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct TopicProduceResponse<'a> {
    pub name: &'a str,
    pub topic_id: TopicId,
    pub partition_responses: Vec<PartitionProduceResponse<'a>>,
}

impl<'a> Wire<'a> for TopicProduceResponse<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.upto(12) {
            message.name = get(reader, version)?;
        }
        if version.from(13) {
            message.topic_id = get(reader, version)?;
        }
        message.partition_responses = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.upto(12) {
            self.name.write(out, version);
        }
        if version.from(13) {
            self.topic_id.write(out, version);
        }
        self.partition_responses.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PartitionProduceResponse<'a> {
    pub index: i32,
    pub error_code: ErrorCode,
    pub base_offset: i64,
    pub log_append_time_ms: i64,
    pub log_start_offset: i64,
    pub record_errors: Vec<BatchIndexAndErrorMessage<'a>>,
    pub error_message: Option<&'a str>,
    pub current_leader: LeaderIdAndEpoch,
}

impl Default for PartitionProduceResponse<'_> {
    fn default() -> Self {
        Self {
            index: Default::default(),
            error_code: Default::default(),
            base_offset: Default::default(),
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Default::default(),
            error_message: Default::default(),
            current_leader: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for PartitionProduceResponse<'a> {
    const BYTES_MIN: usize = 22;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.index = get(reader, version)?;
        message.error_code = get(reader, version)?;
        message.base_offset = get(reader, version)?;
        message.log_append_time_ms = get(reader, version)?;
        if version.from(5) {
            message.log_start_offset = get(reader, version)?;
        }
        if version.from(8) {
            message.record_errors = get(reader, version)?;
        }
        if version.from(8) {
            message.error_message = get(reader, version)?;
        }
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 if version.from(10) => message.current_leader = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.index.write(out, version);
        self.error_code.write(out, version);
        self.base_offset.write(out, version);
        self.log_append_time_ms.write(out, version);
        if version.from(5) {
            self.log_start_offset.write(out, version);
        }
        if version.from(8) {
            self.record_errors.write(out, version);
        }
        if version.from(8) {
            self.error_message.write(out, version);
        }
        if version.flexible() {
            let has_current_leader = version.from(10) && self.current_leader != LeaderIdAndEpoch::default();
            put_uvarint(out, u32::from(has_current_leader));
            if has_current_leader {
                put_tag(out, 0, &mut |out| self.current_leader.write(out, version));
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct BatchIndexAndErrorMessage<'a> {
    pub batch_index: i32,
    pub batch_index_error_message: Option<&'a str>,
}

impl<'a> Wire<'a> for BatchIndexAndErrorMessage<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.batch_index = get(reader, version)?;
        message.batch_index_error_message = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.batch_index.write(out, version);
        self.batch_index_error_message.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct LeaderIdAndEpoch {
    pub leader_id: i32,
    pub leader_epoch: i32,
}

impl Default for LeaderIdAndEpoch {
    fn default() -> Self {
        Self { leader_id: -1, leader_epoch: -1 }
    }
}

impl<'a> Wire<'a> for LeaderIdAndEpoch {
    const BYTES_MIN: usize = 9;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.leader_id = get(reader, version)?;
        message.leader_epoch = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.leader_id.write(out, version);
        self.leader_epoch.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct NodeEndpoint<'a> {
    pub node_id: i32,
    pub host: &'a str,
    pub port: i32,
    pub rack: Option<&'a str>,
}

impl<'a> Wire<'a> for NodeEndpoint<'a> {
    const BYTES_MIN: usize = 11;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.node_id = get(reader, version)?;
        message.host = get(reader, version)?;
        message.port = get(reader, version)?;
        message.rack = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.node_id.write(out, version);
        self.host.write(out, version);
        self.port.write(out, version);
        self.rack.write(out, version);
        put_no_tags(out, version);
    }
}
