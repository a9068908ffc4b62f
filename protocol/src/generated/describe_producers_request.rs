// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeProducersRequest<'a> {
    pub topics: Vec<TopicRequest<'a>>,
}

impl<'a> Wire<'a> for DescribeProducersRequest<'a> {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topics = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topics.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeProducersRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = 0;
}

impl<'a> Request<'a> for DescribeProducersRequest<'a> {
    const KEY: ApiKey = ApiKey::DescribeProducers;
    type Response<'r> = super::DescribeProducersResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct TopicRequest<'a> {
    pub name: &'a str,
    pub partition_indexes: Vec<i32>,
}

impl<'a> Wire<'a> for TopicRequest<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.partition_indexes = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.partition_indexes.write(out, version);
        put_no_tags(out, version);
    }
}
