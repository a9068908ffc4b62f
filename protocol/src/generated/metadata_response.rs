// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, get_nullable, put_no_tags, put_nullable};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponse<'a> {
    pub throttle_time_ms: i32,
    pub brokers: Vec<MetadataResponseBroker<'a>>,
    pub cluster_id: Option<&'a str>,
    pub controller_id: i32,
    pub topics: Vec<MetadataResponseTopic<'a>>,
    pub cluster_authorized_operations: i32,
    pub error_code: ErrorCode,
}

impl Default for MetadataResponse<'_> {
    fn default() -> Self {
        Self {
            throttle_time_ms: Default::default(),
            brokers: Default::default(),
            cluster_id: Default::default(),
            controller_id: -1,
            topics: Default::default(),
            cluster_authorized_operations: i32::MIN,
            error_code: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for MetadataResponse<'a> {
    const BYTES_MIN: usize = 8;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(3) {
            message.throttle_time_ms = get(reader, version)?;
        }
        message.brokers = get(reader, version)?;
        if version.from(2) {
            message.cluster_id = get(reader, version)?;
        }
        if version.from(1) {
            message.controller_id = get(reader, version)?;
        }
        message.topics = get(reader, version)?;
        if version.from(8) && version.upto(10) {
            message.cluster_authorized_operations = get(reader, version)?;
        }
        if version.from(13) {
            message.error_code = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(3) {
            self.throttle_time_ms.write(out, version);
        }
        self.brokers.write(out, version);
        if version.from(2) {
            self.cluster_id.write(out, version);
        }
        if version.from(1) {
            self.controller_id.write(out, version);
        }
        self.topics.write(out, version);
        if version.from(8) && version.upto(10) {
            self.cluster_authorized_operations.write(out, version);
        }
        if version.from(13) {
            self.error_code.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for MetadataResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=13;
    const FLEXIBLE: i16 = 9;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct MetadataResponseBroker<'a> {
    pub node_id: i32,
    pub host: &'a str,
    pub port: i32,
    pub rack: Option<&'a str>,
}

impl<'a> Wire<'a> for MetadataResponseBroker<'a> {
    const BYTES_MIN: usize = 10;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.node_id = get(reader, version)?;
        message.host = get(reader, version)?;
        message.port = get(reader, version)?;
        if version.from(1) {
            message.rack = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.node_id.write(out, version);
        self.host.write(out, version);
        self.port.write(out, version);
        if version.from(1) {
            self.rack.write(out, version);
        }
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponseTopic<'a> {
    pub error_code: ErrorCode,
    pub name: Option<&'a str>,
    pub topic_id: TopicId,
    pub is_internal: bool,
    pub partitions: Vec<MetadataResponsePartition>,
    pub topic_authorized_operations: i32,
}

impl Default for MetadataResponseTopic<'_> {
    fn default() -> Self {
        Self {
            error_code: Default::default(),
            name: Default::default(),
            topic_id: Default::default(),
            is_internal: Default::default(),
            partitions: Default::default(),
            topic_authorized_operations: i32::MIN,
        }
    }
}

impl<'a> Wire<'a> for MetadataResponseTopic<'a> {
    const BYTES_MIN: usize = 8;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        message.name = get_nullable(reader, version, version.from(12))?;
        if version.from(10) {
            message.topic_id = get(reader, version)?;
        }
        if version.from(1) {
            message.is_internal = get(reader, version)?;
        }
        message.partitions = get(reader, version)?;
        if version.from(8) {
            message.topic_authorized_operations = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        put_nullable(self.name.as_ref(), out, version, version.from(12));
        if version.from(10) {
            self.topic_id.write(out, version);
        }
        if version.from(1) {
            self.is_internal.write(out, version);
        }
        self.partitions.write(out, version);
        if version.from(8) {
            self.topic_authorized_operations.write(out, version);
        }
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponsePartition {
    pub error_code: ErrorCode,
    pub partition_index: i32,
    pub leader_id: i32,
    pub leader_epoch: i32,
    pub replica_nodes: Vec<i32>,
    pub isr_nodes: Vec<i32>,
    pub offline_replicas: Vec<i32>,
}

impl Default for MetadataResponsePartition {
    fn default() -> Self {
        Self {
            error_code: Default::default(),
            partition_index: Default::default(),
            leader_id: Default::default(),
            leader_epoch: -1,
            replica_nodes: Default::default(),
            isr_nodes: Default::default(),
            offline_replicas: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for MetadataResponsePartition {
    const BYTES_MIN: usize = 18;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        message.partition_index = get(reader, version)?;
        message.leader_id = get(reader, version)?;
        if version.from(7) {
            message.leader_epoch = get(reader, version)?;
        }
        message.replica_nodes = get(reader, version)?;
        message.isr_nodes = get(reader, version)?;
        if version.from(5) {
            message.offline_replicas = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        self.partition_index.write(out, version);
        self.leader_id.write(out, version);
        if version.from(7) {
            self.leader_epoch.write(out, version);
        }
        self.replica_nodes.write(out, version);
        self.isr_nodes.write(out, version);
        if version.from(5) {
            self.offline_replicas.write(out, version);
        }
        put_no_tags(out, version);
    }
}
