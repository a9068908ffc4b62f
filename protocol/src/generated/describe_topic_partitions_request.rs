// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsRequest<'a> {
    pub topics: Vec<TopicRequest<'a>>,
    pub response_partition_limit: i32,
    pub cursor: Option<Cursor<'a>>,
}

impl Default for DescribeTopicPartitionsRequest<'_> {
    fn default() -> Self {
        Self { topics: Default::default(), response_partition_limit: 2000, cursor: Default::default() }
    }
}

impl<'a> Wire<'a> for DescribeTopicPartitionsRequest<'a> {
    const BYTES_MIN: usize = 7;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topics = get(reader, version)?;
        message.response_partition_limit = get(reader, version)?;
        message.cursor = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topics.write(out, version);
        self.response_partition_limit.write(out, version);
        self.cursor.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeTopicPartitionsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = 0;
}

impl<'a> Request<'a> for DescribeTopicPartitionsRequest<'a> {
    const KEY: ApiKey = ApiKey::DescribeTopicPartitions;
    type Response<'r> = super::DescribeTopicPartitionsResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct TopicRequest<'a> {
    pub name: &'a str,
}

impl<'a> Wire<'a> for TopicRequest<'a> {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct Cursor<'a> {
    pub topic_name: &'a str,
    pub partition_index: i32,
}

impl<'a> Wire<'a> for Cursor<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_name = get(reader, version)?;
        message.partition_index = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic_name.write(out, version);
        self.partition_index.write(out, version);
        put_no_tags(out, version);
    }
}
