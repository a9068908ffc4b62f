// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader, put_tag, put_uvarint};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct CreateTopicsResponse<'a> {
    pub throttle_time_ms: i32,
    pub topics: Vec<CreatableTopicResult<'a>>,
}

impl<'a> Wire<'a> for CreateTopicsResponse<'a> {
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

impl<'a> Message<'a> for CreateTopicsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 2..=7;
    const FLEXIBLE: i16 = 5;
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreatableTopicResult<'a> {
    pub name: &'a str,
    pub topic_id: TopicId,
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
    pub topic_config_error_code: ErrorCode,
    pub num_partitions: i32,
    pub replication_factor: i16,
    pub configs: Option<Vec<CreatableTopicConfigs<'a>>>,
}

impl Default for CreatableTopicResult<'_> {
    fn default() -> Self {
        Self {
            name: Default::default(),
            topic_id: Default::default(),
            error_code: Default::default(),
            error_message: Default::default(),
            topic_config_error_code: Default::default(),
            num_partitions: -1,
            replication_factor: -1,
            configs: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for CreatableTopicResult<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        if version.from(7) {
            message.topic_id = get(reader, version)?;
        }
        message.error_code = get(reader, version)?;
        message.error_message = get(reader, version)?;
        if version.from(5) {
            message.num_partitions = get(reader, version)?;
        }
        if version.from(5) {
            message.replication_factor = get(reader, version)?;
        }
        if version.from(5) {
            message.configs = get(reader, version)?;
        }
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 => message.topic_config_error_code = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        if version.from(7) {
            self.topic_id.write(out, version);
        }
        self.error_code.write(out, version);
        self.error_message.write(out, version);
        if version.from(5) {
            self.num_partitions.write(out, version);
        }
        if version.from(5) {
            self.replication_factor.write(out, version);
        }
        if version.from(5) {
            self.configs.write(out, version);
        }
        if version.flexible() {
            let has_topic_config_error_code = self.topic_config_error_code != Default::default();
            put_uvarint(out, u32::from(has_topic_config_error_code));
            if has_topic_config_error_code {
                put_tag(out, 0, &mut |out| self.topic_config_error_code.write(out, version));
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreatableTopicConfigs<'a> {
    pub name: &'a str,
    pub value: Option<&'a str>,
    pub read_only: bool,
    pub config_source: i8,
    pub is_sensitive: bool,
}

impl Default for CreatableTopicConfigs<'_> {
    fn default() -> Self {
        Self {
            name: Default::default(),
            value: Default::default(),
            read_only: Default::default(),
            config_source: -1,
            is_sensitive: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for CreatableTopicConfigs<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.value = get(reader, version)?;
        message.read_only = get(reader, version)?;
        message.config_source = get(reader, version)?;
        message.is_sensitive = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.value.write(out, version);
        self.read_only.write(out, version);
        self.config_source.write(out, version);
        self.is_sensitive.write(out, version);
        put_no_tags(out, version);
    }
}
