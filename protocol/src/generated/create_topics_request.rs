// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTopicsRequest<'a> {
    pub topics: Vec<CreatableTopic<'a>>,
    pub timeout_ms: i32,
    pub validate_only: bool,
}

impl Default for CreateTopicsRequest<'_> {
    fn default() -> Self {
        Self { topics: Default::default(), timeout_ms: 60000, validate_only: Default::default() }
    }
}

impl<'a> Wire<'a> for CreateTopicsRequest<'a> {
    const BYTES_MIN: usize = 7;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topics = get(reader, version)?;
        message.timeout_ms = get(reader, version)?;
        message.validate_only = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topics.write(out, version);
        self.timeout_ms.write(out, version);
        self.validate_only.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for CreateTopicsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 2..=7;
    const FLEXIBLE: i16 = 5;
}

impl<'a> Request<'a> for CreateTopicsRequest<'a> {
    const KEY: ApiKey = ApiKey::CreateTopics;
    type Response<'r> = super::CreateTopicsResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct CreatableTopic<'a> {
    pub name: &'a str,
    pub num_partitions: i32,
    pub replication_factor: i16,
    pub assignments: Vec<CreatableReplicaAssignment>,
    pub configs: Vec<CreatableTopicConfig<'a>>,
}

impl<'a> Wire<'a> for CreatableTopic<'a> {
    const BYTES_MIN: usize = 10;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.num_partitions = get(reader, version)?;
        message.replication_factor = get(reader, version)?;
        message.assignments = get(reader, version)?;
        message.configs = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.num_partitions.write(out, version);
        self.replication_factor.write(out, version);
        self.assignments.write(out, version);
        self.configs.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct CreatableReplicaAssignment {
    pub partition_index: i32,
    pub broker_ids: Vec<i32>,
}

impl<'a> Wire<'a> for CreatableReplicaAssignment {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.broker_ids = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.broker_ids.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct CreatableTopicConfig<'a> {
    pub name: &'a str,
    pub value: Option<&'a str>,
}

impl<'a> Wire<'a> for CreatableTopicConfig<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.value = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.value.write(out, version);
        put_no_tags(out, version);
    }
}
