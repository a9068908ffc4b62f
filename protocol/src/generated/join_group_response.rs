// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, get_nullable, put_no_tags, put_nullable};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub generation_id: i32,
    pub protocol_type: Option<&'a str>,
    pub protocol_name: Option<&'a str>,
    pub leader: &'a str,
    pub skip_assignment: bool,
    pub member_id: &'a str,
    pub members: Vec<JoinGroupResponseMember<'a>>,
}

impl Default for JoinGroupResponse<'_> {
    fn default() -> Self {
        Self {
            throttle_time_ms: Default::default(),
            error_code: Default::default(),
            generation_id: -1,
            protocol_type: Default::default(),
            protocol_name: Default::default(),
            leader: Default::default(),
            skip_assignment: Default::default(),
            member_id: Default::default(),
            members: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for JoinGroupResponse<'a> {
    const BYTES_MIN: usize = 15;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(2) {
            message.throttle_time_ms = get(reader, version)?;
        }
        message.error_code = get(reader, version)?;
        message.generation_id = get(reader, version)?;
        if version.from(7) {
            message.protocol_type = get(reader, version)?;
        }
        message.protocol_name = get_nullable(reader, version, version.from(7))?;
        message.leader = get(reader, version)?;
        if version.from(9) {
            message.skip_assignment = get(reader, version)?;
        }
        message.member_id = get(reader, version)?;
        message.members = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(2) {
            self.throttle_time_ms.write(out, version);
        }
        self.error_code.write(out, version);
        self.generation_id.write(out, version);
        if version.from(7) {
            self.protocol_type.write(out, version);
        }
        put_nullable(self.protocol_name.as_ref(), out, version, version.from(7));
        self.leader.write(out, version);
        if version.from(9) {
            self.skip_assignment.write(out, version);
        }
        self.member_id.write(out, version);
        self.members.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for JoinGroupResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=9;
    const FLEXIBLE: i16 = 6;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct JoinGroupResponseMember<'a> {
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub metadata: &'a [u8],
}

impl<'a> Wire<'a> for JoinGroupResponseMember<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.member_id = get(reader, version)?;
        if version.from(5) {
            message.group_instance_id = get(reader, version)?;
        }
        message.metadata = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.member_id.write(out, version);
        if version.from(5) {
            self.group_instance_id.write(out, version);
        }
        self.metadata.write(out, version);
        put_no_tags(out, version);
    }
}
