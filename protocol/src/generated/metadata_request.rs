// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, get_nullable, put_no_tags, put_nullable};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct MetadataRequest<'a> {
    pub topics: Option<Vec<MetadataRequestTopic<'a>>>,
    pub allow_auto_topic_creation: bool,
    pub include_cluster_authorized_operations: bool,
    pub include_topic_authorized_operations: bool,
}

impl Default for MetadataRequest<'_> {
    fn default() -> Self {
        Self {
            topics: Default::default(),
            allow_auto_topic_creation: true,
            include_cluster_authorized_operations: Default::default(),
            include_topic_authorized_operations: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for MetadataRequest<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topics = get_nullable(reader, version, version.from(1))?;
        if version.from(4) {
            message.allow_auto_topic_creation = get(reader, version)?;
        }
        if version.from(8) && version.upto(10) {
            message.include_cluster_authorized_operations = get(reader, version)?;
        }
        if version.from(8) {
            message.include_topic_authorized_operations = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        put_nullable(self.topics.as_ref(), out, version, version.from(1));
        if version.from(4) {
            self.allow_auto_topic_creation.write(out, version);
        }
        if version.from(8) && version.upto(10) {
            self.include_cluster_authorized_operations.write(out, version);
        }
        if version.from(8) {
            self.include_topic_authorized_operations.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for MetadataRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=13;
    const FLEXIBLE: i16 = 9;
}

impl<'a> Request<'a> for MetadataRequest<'a> {
    const KEY: ApiKey = ApiKey::Metadata;
    type Response<'r> = super::MetadataResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct MetadataRequestTopic<'a> {
    pub topic_id: TopicId,
    pub name: Option<&'a str>,
}

impl<'a> Wire<'a> for MetadataRequestTopic<'a> {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(10) {
            message.topic_id = get(reader, version)?;
        }
        message.name = get_nullable(reader, version, version.from(10))?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(10) {
            self.topic_id.write(out, version);
        }
        put_nullable(self.name.as_ref(), out, version, version.from(10));
        put_no_tags(out, version);
    }
}
