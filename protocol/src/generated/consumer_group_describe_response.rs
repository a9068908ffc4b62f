// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ConsumerGroupDescribeResponse<'a> {
    pub throttle_time_ms: i32,
    pub groups: Vec<DescribedGroup<'a>>,
}

impl<'a> Wire<'a> for ConsumerGroupDescribeResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        message.groups = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        self.groups.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ConsumerGroupDescribeResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE: i16 = 0;
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribedGroup<'a> {
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
    pub group_id: &'a str,
    pub group_state: &'a str,
    pub group_epoch: i32,
    pub assignment_epoch: i32,
    pub assignor_name: &'a str,
    pub members: Vec<Member<'a>>,
    pub authorized_operations: i32,
}

impl Default for DescribedGroup<'_> {
    fn default() -> Self {
        Self {
            error_code: Default::default(),
            error_message: Default::default(),
            group_id: Default::default(),
            group_state: Default::default(),
            group_epoch: Default::default(),
            assignment_epoch: Default::default(),
            assignor_name: Default::default(),
            members: Default::default(),
            authorized_operations: i32::MIN,
        }
    }
}

impl<'a> Wire<'a> for DescribedGroup<'a> {
    const BYTES_MIN: usize = 20;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        message.error_message = get(reader, version)?;
        message.group_id = get(reader, version)?;
        message.group_state = get(reader, version)?;
        message.group_epoch = get(reader, version)?;
        message.assignment_epoch = get(reader, version)?;
        message.assignor_name = get(reader, version)?;
        message.members = get(reader, version)?;
        message.authorized_operations = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        self.error_message.write(out, version);
        self.group_id.write(out, version);
        self.group_state.write(out, version);
        self.group_epoch.write(out, version);
        self.assignment_epoch.write(out, version);
        self.assignor_name.write(out, version);
        self.members.write(out, version);
        self.authorized_operations.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Member<'a> {
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
    pub rack_id: Option<&'a str>,
    pub member_epoch: i32,
    pub client_id: &'a str,
    pub client_host: &'a str,
    pub subscribed_topic_names: Vec<&'a str>,
    pub subscribed_topic_regex: Option<&'a str>,
    pub assignment: Assignment<'a>,
    pub target_assignment: Assignment<'a>,
    pub member_type: i8,
}

impl Default for Member<'_> {
    fn default() -> Self {
        Self {
            member_id: Default::default(),
            instance_id: Default::default(),
            rack_id: Default::default(),
            member_epoch: Default::default(),
            client_id: Default::default(),
            client_host: Default::default(),
            subscribed_topic_names: Default::default(),
            subscribed_topic_regex: Default::default(),
            assignment: Default::default(),
            target_assignment: Default::default(),
            member_type: -1,
        }
    }
}

impl<'a> Wire<'a> for Member<'a> {
    const BYTES_MIN: usize = 16;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.member_id = get(reader, version)?;
        message.instance_id = get(reader, version)?;
        message.rack_id = get(reader, version)?;
        message.member_epoch = get(reader, version)?;
        message.client_id = get(reader, version)?;
        message.client_host = get(reader, version)?;
        message.subscribed_topic_names = get(reader, version)?;
        message.subscribed_topic_regex = get(reader, version)?;
        message.assignment = get(reader, version)?;
        message.target_assignment = get(reader, version)?;
        if version.from(1) {
            message.member_type = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.member_id.write(out, version);
        self.instance_id.write(out, version);
        self.rack_id.write(out, version);
        self.member_epoch.write(out, version);
        self.client_id.write(out, version);
        self.client_host.write(out, version);
        self.subscribed_topic_names.write(out, version);
        self.subscribed_topic_regex.write(out, version);
        self.assignment.write(out, version);
        self.target_assignment.write(out, version);
        if version.from(1) {
            self.member_type.write(out, version);
        }
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct Assignment<'a> {
    pub topic_partitions: Vec<TopicPartitions<'a>>,
}

impl<'a> Wire<'a> for Assignment<'a> {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic_partitions.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct TopicPartitions<'a> {
    pub topic_id: TopicId,
    pub topic_name: &'a str,
    pub partitions: Vec<i32>,
}

impl<'a> Wire<'a> for TopicPartitions<'a> {
    const BYTES_MIN: usize = 19;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_id = get(reader, version)?;
        message.topic_name = get(reader, version)?;
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic_id.write(out, version);
        self.topic_name.write(out, version);
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}
