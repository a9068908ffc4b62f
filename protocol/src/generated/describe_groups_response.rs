// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeGroupsResponse<'a> {
    pub throttle_time_ms: i32,
    pub groups: Vec<DescribedGroup<'a>>,
}

impl<'a> Wire<'a> for DescribeGroupsResponse<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(1) {
            message.throttle_time_ms = get(reader, version)?;
        }
        message.groups = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(1) {
            self.throttle_time_ms.write(out, version);
        }
        self.groups.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeGroupsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=6;
    const FLEXIBLE: i16 = 5;
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribedGroup<'a> {
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
    pub group_id: &'a str,
    pub group_state: &'a str,
    pub protocol_type: &'a str,
    pub protocol_data: &'a str,
    pub members: Vec<DescribedGroupMember<'a>>,
    pub authorized_operations: i32,
}

impl Default for DescribedGroup<'_> {
    fn default() -> Self {
        Self {
            error_code: Default::default(),
            error_message: Default::default(),
            group_id: Default::default(),
            group_state: Default::default(),
            protocol_type: Default::default(),
            protocol_data: Default::default(),
            members: Default::default(),
            authorized_operations: i32::MIN,
        }
    }
}

impl<'a> Wire<'a> for DescribedGroup<'a> {
    const BYTES_MIN: usize = 12;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        if version.from(6) {
            message.error_message = get(reader, version)?;
        }
        message.group_id = get(reader, version)?;
        message.group_state = get(reader, version)?;
        message.protocol_type = get(reader, version)?;
        message.protocol_data = get(reader, version)?;
        message.members = get(reader, version)?;
        if version.from(3) {
            message.authorized_operations = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        if version.from(6) {
            self.error_message.write(out, version);
        }
        self.group_id.write(out, version);
        self.group_state.write(out, version);
        self.protocol_type.write(out, version);
        self.protocol_data.write(out, version);
        self.members.write(out, version);
        if version.from(3) {
            self.authorized_operations.write(out, version);
        }
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribedGroupMember<'a> {
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub client_id: &'a str,
    pub client_host: &'a str,
    pub member_metadata: &'a [u8],
    pub member_assignment: &'a [u8],
}

impl<'a> Wire<'a> for DescribedGroupMember<'a> {
    const BYTES_MIN: usize = 7;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.member_id = get(reader, version)?;
        if version.from(4) {
            message.group_instance_id = get(reader, version)?;
        }
        message.client_id = get(reader, version)?;
        message.client_host = get(reader, version)?;
        message.member_metadata = get(reader, version)?;
        message.member_assignment = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.member_id.write(out, version);
        if version.from(4) {
            self.group_instance_id.write(out, version);
        }
        self.client_id.write(out, version);
        self.client_host.write(out, version);
        self.member_metadata.write(out, version);
        self.member_assignment.write(out, version);
        put_no_tags(out, version);
    }
}
