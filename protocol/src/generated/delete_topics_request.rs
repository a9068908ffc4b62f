// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeleteTopicsRequest<'a> {
    pub topics: Vec<DeleteTopicState<'a>>,
    pub topic_names: Vec<&'a str>,
    pub timeout_ms: i32,
}

impl<'a> Wire<'a> for DeleteTopicsRequest<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(6) {
            message.topics = get(reader, version)?;
        }
        if version.upto(5) {
            message.topic_names = get(reader, version)?;
        }
        message.timeout_ms = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(6) {
            self.topics.write(out, version);
        }
        if version.upto(5) {
            self.topic_names.write(out, version);
        }
        self.timeout_ms.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DeleteTopicsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=6;
    const FLEXIBLE: i16 = 4;
}

impl<'a> Request<'a> for DeleteTopicsRequest<'a> {
    const KEY: ApiKey = ApiKey::DeleteTopics;
    type Response<'r> = super::DeleteTopicsResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeleteTopicState<'a> {
    pub name: Option<&'a str>,
    pub topic_id: TopicId,
}

impl<'a> Wire<'a> for DeleteTopicState<'a> {
    const BYTES_MIN: usize = 18;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.topic_id = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.topic_id.write(out, version);
        put_no_tags(out, version);
    }
}
