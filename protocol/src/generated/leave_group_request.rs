// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct LeaveGroupRequest<'a> {
    pub group_id: &'a str,
    pub member_id: &'a str,
    pub members: Vec<MemberIdentity<'a>>,
}

impl<'a> Wire<'a> for LeaveGroupRequest<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_id = get(reader, version)?;
        if version.upto(2) {
            message.member_id = get(reader, version)?;
        }
        if version.from(3) {
            message.members = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group_id.write(out, version);
        if version.upto(2) {
            self.member_id.write(out, version);
        }
        if version.from(3) {
            self.members.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for LeaveGroupRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE: i16 = 4;
}

impl<'a> Request<'a> for LeaveGroupRequest<'a> {
    const KEY: ApiKey = ApiKey::LeaveGroup;
    type Response<'r> = super::LeaveGroupResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct MemberIdentity<'a> {
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub reason: Option<&'a str>,
}

impl<'a> Wire<'a> for MemberIdentity<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.member_id = get(reader, version)?;
        message.group_instance_id = get(reader, version)?;
        if version.from(5) {
            message.reason = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.member_id.write(out, version);
        self.group_instance_id.write(out, version);
        if version.from(5) {
            self.reason.write(out, version);
        }
        put_no_tags(out, version);
    }
}
