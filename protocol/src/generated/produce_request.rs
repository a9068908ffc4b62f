// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ProduceRequest<'a> {
    pub transactional_id: Option<&'a str>,
    pub acks: i16,
    pub timeout_ms: i32,
    pub topic_data: Vec<TopicProduceData<'a>>,
}

impl<'a> Wire<'a> for ProduceRequest<'a> {
    const BYTES_MIN: usize = 9;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.transactional_id = get(reader, version)?;
        message.acks = get(reader, version)?;
        message.timeout_ms = get(reader, version)?;
        message.topic_data = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.transactional_id.write(out, version);
        self.acks.write(out, version);
        self.timeout_ms.write(out, version);
        self.topic_data.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ProduceRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 3..=13;
    const FLEXIBLE: i16 = 9;
}

impl<'a> Request<'a> for ProduceRequest<'a> {
    const KEY: ApiKey = ApiKey::Produce;
    type Response<'r> = super::ProduceResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct TopicProduceData<'a> {
    pub name: &'a str,
    pub topic_id: TopicId,
    pub partition_data: Vec<PartitionProduceData<'a>>,
}

impl<'a> Wire<'a> for TopicProduceData<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.upto(12) {
            message.name = get(reader, version)?;
        }
        if version.from(13) {
            message.topic_id = get(reader, version)?;
        }
        message.partition_data = get(reader, version)?;
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
        self.partition_data.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct PartitionProduceData<'a> {
    pub index: i32,
    pub records: Option<&'a [u8]>,
}

impl<'a> Wire<'a> for PartitionProduceData<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.index = get(reader, version)?;
        message.records = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.index.write(out, version);
        self.records.write(out, version);
        put_no_tags(out, version);
    }
}
