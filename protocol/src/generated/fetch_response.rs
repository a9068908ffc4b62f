// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader, put_tag, put_uvarint};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct FetchResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub session_id: i32,
    pub responses: Vec<FetchableTopicResponse<'a>>,
    pub node_endpoints: Vec<NodeEndpoint<'a>>,
}

impl<'a> Wire<'a> for FetchResponse<'a> {
    const BYTES_MIN: usize = 8;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        if version.from(7) {
            message.error_code = get(reader, version)?;
        }
        if version.from(7) {
            message.session_id = get(reader, version)?;
        }
        message.responses = get(reader, version)?;
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 if version.from(16) => message.node_endpoints = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        if version.from(7) {
            self.error_code.write(out, version);
        }
        if version.from(7) {
            self.session_id.write(out, version);
        }
        self.responses.write(out, version);
        if version.flexible() {
            let has_node_endpoints = version.from(16) && !self.node_endpoints.is_empty();
            put_uvarint(out, u32::from(has_node_endpoints));
            if has_node_endpoints {
                put_tag(out, 0, &mut |out| self.node_endpoints.write(out, version));
            }
        }
    }
}

impl<'a> Message<'a> for FetchResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 4..=18;
    const FLEXIBLE: i16 = 12;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct FetchableTopicResponse<'a> {
    pub topic: &'a str,
    pub topic_id: TopicId,
    pub partitions: Vec<PartitionData<'a>>,
}

impl<'a> Wire<'a> for FetchableTopicResponse<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.upto(12) {
            message.topic = get(reader, version)?;
        }
        if version.from(13) {
            message.topic_id = get(reader, version)?;
        }
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.upto(12) {
            self.topic.write(out, version);
        }
        if version.from(13) {
            self.topic_id.write(out, version);
        }
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PartitionData<'a> {
    pub partition_index: i32,
    pub error_code: ErrorCode,
    pub high_watermark: i64,
    pub last_stable_offset: i64,
    pub log_start_offset: i64,
    pub diverging_epoch: EpochEndOffset,
    pub current_leader: LeaderIdAndEpoch,
    pub snapshot_id: SnapshotId,
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    pub preferred_read_replica: i32,
    pub records: Option<&'a [u8]>,
}

impl Default for PartitionData<'_> {
    fn default() -> Self {
        Self {
            partition_index: Default::default(),
            error_code: Default::default(),
            high_watermark: Default::default(),
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: Default::default(),
            current_leader: Default::default(),
            snapshot_id: Default::default(),
            aborted_transactions: Default::default(),
            preferred_read_replica: -1,
            records: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for PartitionData<'a> {
    const BYTES_MIN: usize = 30;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.error_code = get(reader, version)?;
        message.high_watermark = get(reader, version)?;
        message.last_stable_offset = get(reader, version)?;
        if version.from(5) {
            message.log_start_offset = get(reader, version)?;
        }
        message.aborted_transactions = get(reader, version)?;
        if version.from(11) {
            message.preferred_read_replica = get(reader, version)?;
        }
        message.records = get(reader, version)?;
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 => message.diverging_epoch = get(reader, version)?,
                    1 => message.current_leader = get(reader, version)?,
                    2 => message.snapshot_id = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.error_code.write(out, version);
        self.high_watermark.write(out, version);
        self.last_stable_offset.write(out, version);
        if version.from(5) {
            self.log_start_offset.write(out, version);
        }
        self.aborted_transactions.write(out, version);
        if version.from(11) {
            self.preferred_read_replica.write(out, version);
        }
        self.records.write(out, version);
        if version.flexible() {
            let has_diverging_epoch = self.diverging_epoch != EpochEndOffset::default();
            let has_current_leader = self.current_leader != LeaderIdAndEpoch::default();
            let has_snapshot_id = self.snapshot_id != SnapshotId::default();
            put_uvarint(
                out,
                u32::from(has_diverging_epoch) + u32::from(has_current_leader) + u32::from(has_snapshot_id),
            );
            if has_diverging_epoch {
                put_tag(out, 0, &mut |out| self.diverging_epoch.write(out, version));
            }
            if has_current_leader {
                put_tag(out, 1, &mut |out| self.current_leader.write(out, version));
            }
            if has_snapshot_id {
                put_tag(out, 2, &mut |out| self.snapshot_id.write(out, version));
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct EpochEndOffset {
    pub epoch: i32,
    pub end_offset: i64,
}

impl Default for EpochEndOffset {
    fn default() -> Self {
        Self { epoch: -1, end_offset: -1 }
    }
}

impl<'a> Wire<'a> for EpochEndOffset {
    const BYTES_MIN: usize = 13;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.epoch = get(reader, version)?;
        message.end_offset = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.epoch.write(out, version);
        self.end_offset.write(out, version);
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

#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotId {
    pub end_offset: i64,
    pub epoch: i32,
}

impl Default for SnapshotId {
    fn default() -> Self {
        Self { end_offset: -1, epoch: -1 }
    }
}

impl<'a> Wire<'a> for SnapshotId {
    const BYTES_MIN: usize = 13;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.end_offset = get(reader, version)?;
        message.epoch = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.end_offset.write(out, version);
        self.epoch.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct AbortedTransaction {
    pub producer_id: i64,
    pub first_offset: i64,
}

impl<'a> Wire<'a> for AbortedTransaction {
    const BYTES_MIN: usize = 16;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.producer_id = get(reader, version)?;
        message.first_offset = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.producer_id.write(out, version);
        self.first_offset.write(out, version);
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
