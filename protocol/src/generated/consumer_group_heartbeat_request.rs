// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroupHeartbeatRequest<'a> {
    pub group_id: &'a str,
    pub member_id: &'a str,
    pub member_epoch: i32,
    pub instance_id: Option<&'a str>,
    pub rack_id: Option<&'a str>,
    pub rebalance_timeout_ms: i32,
    pub subscribed_topic_names: Option<Vec<&'a str>>,
    pub subscribed_topic_regex: Option<&'a str>,
    pub server_assignor: Option<&'a str>,
    pub topic_partitions: Option<Vec<TopicPartitions>>,
}

impl Default for ConsumerGroupHeartbeatRequest<'_> {
    fn default() -> Self {
        Self {
            group_id: Default::default(),
            member_id: Default::default(),
            member_epoch: Default::default(),
            instance_id: Default::default(),
            rack_id: Default::default(),
            rebalance_timeout_ms: -1,
            subscribed_topic_names: Default::default(),
            subscribed_topic_regex: Default::default(),
            server_assignor: Default::default(),
            topic_partitions: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for ConsumerGroupHeartbeatRequest<'a> {
    const BYTES_MIN: usize = 16;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_id = get(reader, version)?;
        message.member_id = get(reader, version)?;
        message.member_epoch = get(reader, version)?;
        message.instance_id = get(reader, version)?;
        message.rack_id = get(reader, version)?;
        message.rebalance_timeout_ms = get(reader, version)?;
        message.subscribed_topic_names = get(reader, version)?;
        if version.from(1) {
            message.subscribed_topic_regex = get(reader, version)?;
        }
        message.server_assignor = get(reader, version)?;
        message.topic_partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group_id.write(out, version);
        self.member_id.write(out, version);
        self.member_epoch.write(out, version);
        self.instance_id.write(out, version);
        self.rack_id.write(out, version);
        self.rebalance_timeout_ms.write(out, version);
        self.subscribed_topic_names.write(out, version);
        if version.from(1) {
            self.subscribed_topic_regex.write(out, version);
        }
        self.server_assignor.write(out, version);
        self.topic_partitions.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ConsumerGroupHeartbeatRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE: i16 = 0;
}

impl<'a> Request<'a> for ConsumerGroupHeartbeatRequest<'a> {
    const KEY: ApiKey = ApiKey::ConsumerGroupHeartbeat;
    type Response<'r> = super::ConsumerGroupHeartbeatResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct TopicPartitions {
    pub topic_id: TopicId,
    pub partitions: Vec<i32>,
}

impl<'a> Wire<'a> for TopicPartitions {
    const BYTES_MIN: usize = 18;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_id = get(reader, version)?;
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic_id.write(out, version);
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}
