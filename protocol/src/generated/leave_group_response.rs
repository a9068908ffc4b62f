// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct LeaveGroupResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub members: Vec<MemberResponse<'a>>,
}

impl<'a> Wire<'a> for LeaveGroupResponse<'a> {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(1) {
            message.throttle_time_ms = get(reader, version)?;
        }
        message.error_code = get(reader, version)?;
        if version.from(3) {
            message.members = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(1) {
            self.throttle_time_ms.write(out, version);
        }
        self.error_code.write(out, version);
        if version.from(3) {
            self.members.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for LeaveGroupResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE: i16 = 4;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct MemberResponse<'a> {
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub error_code: ErrorCode,
}

impl<'a> Wire<'a> for MemberResponse<'a> {
    const BYTES_MIN: usize = 5;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.member_id = get(reader, version)?;
        message.group_instance_id = get(reader, version)?;
        message.error_code = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.member_id.write(out, version);
        self.group_instance_id.write(out, version);
        self.error_code.write(out, version);
        put_no_tags(out, version);
    }
}
