// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct SyncGroupRequest<'a> {
    pub group_id: &'a str,
    pub generation_id: i32,
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub protocol_type: Option<&'a str>,
    pub protocol_name: Option<&'a str>,
    pub assignments: Vec<SyncGroupRequestAssignment<'a>>,
}

impl<'a> Wire<'a> for SyncGroupRequest<'a> {
    const BYTES_MIN: usize = 9;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_id = get(reader, version)?;
        message.generation_id = get(reader, version)?;
        message.member_id = get(reader, version)?;
        if version.from(3) {
            message.group_instance_id = get(reader, version)?;
        }
        if version.from(5) {
            message.protocol_type = get(reader, version)?;
        }
        if version.from(5) {
            message.protocol_name = get(reader, version)?;
        }
        message.assignments = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group_id.write(out, version);
        self.generation_id.write(out, version);
        self.member_id.write(out, version);
        if version.from(3) {
            self.group_instance_id.write(out, version);
        }
        if version.from(5) {
            self.protocol_type.write(out, version);
        }
        if version.from(5) {
            self.protocol_name.write(out, version);
        }
        self.assignments.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for SyncGroupRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE: i16 = 4;
}

impl<'a> Request<'a> for SyncGroupRequest<'a> {
    const KEY: ApiKey = ApiKey::SyncGroup;
    type Response<'r> = super::SyncGroupResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct SyncGroupRequestAssignment<'a> {
    pub member_id: &'a str,
    pub assignment: &'a [u8],
}

impl<'a> Wire<'a> for SyncGroupRequestAssignment<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.member_id = get(reader, version)?;
        message.assignment = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.member_id.write(out, version);
        self.assignment.write(out, version);
        put_no_tags(out, version);
    }
}
