// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, get_nullable, put_no_tags, put_nullable};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetFetchRequest<'a> {
    pub group_id: &'a str,
    pub topics: Option<Vec<OffsetFetchRequestTopic<'a>>>,
    pub groups: Vec<OffsetFetchRequestGroup<'a>>,
    pub require_stable: bool,
}

impl<'a> Wire<'a> for OffsetFetchRequest<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.upto(7) {
            message.group_id = get(reader, version)?;
        }
        if version.upto(7) {
            message.topics = get_nullable(reader, version, version.from(2))?;
        }
        if version.from(8) {
            message.groups = get(reader, version)?;
        }
        if version.from(7) {
            message.require_stable = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.upto(7) {
            self.group_id.write(out, version);
        }
        if version.upto(7) {
            put_nullable(self.topics.as_ref(), out, version, version.from(2));
        }
        if version.from(8) {
            self.groups.write(out, version);
        }
        if version.from(7) {
            self.require_stable.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for OffsetFetchRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=10;
    const FLEXIBLE: i16 = 6;
}

impl<'a> Request<'a> for OffsetFetchRequest<'a> {
    const KEY: ApiKey = ApiKey::OffsetFetch;
    type Response<'r> = super::OffsetFetchResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetFetchRequestTopic<'a> {
    pub name: &'a str,
    pub partition_indexes: Vec<i32>,
}

impl<'a> Wire<'a> for OffsetFetchRequestTopic<'a> {
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

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchRequestGroup<'a> {
    pub group_id: &'a str,
    pub member_id: Option<&'a str>,
    pub member_epoch: i32,
    pub topics: Option<Vec<OffsetFetchRequestTopics<'a>>>,
}

impl Default for OffsetFetchRequestGroup<'_> {
    fn default() -> Self {
        Self {
            group_id: Default::default(),
            member_id: Default::default(),
            member_epoch: -1,
            topics: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for OffsetFetchRequestGroup<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_id = get(reader, version)?;
        if version.from(9) {
            message.member_id = get(reader, version)?;
        }
        if version.from(9) {
            message.member_epoch = get(reader, version)?;
        }
        message.topics = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group_id.write(out, version);
        if version.from(9) {
            self.member_id.write(out, version);
        }
        if version.from(9) {
            self.member_epoch.write(out, version);
        }
        self.topics.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetFetchRequestTopics<'a> {
    pub name: &'a str,
    pub topic_id: TopicId,
    pub partition_indexes: Vec<i32>,
}

impl<'a> Wire<'a> for OffsetFetchRequestTopics<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.upto(9) {
            message.name = get(reader, version)?;
        }
        if version.from(10) {
            message.topic_id = get(reader, version)?;
        }
        message.partition_indexes = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.upto(9) {
            self.name.write(out, version);
        }
        if version.from(10) {
            self.topic_id.write(out, version);
        }
        self.partition_indexes.write(out, version);
        put_no_tags(out, version);
    }
}
