// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ListGroupsResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub groups: Vec<ListedGroup<'a>>,
}

impl<'a> Wire<'a> for ListGroupsResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(1) {
            message.throttle_time_ms = get(reader, version)?;
        }
        message.error_code = get(reader, version)?;
        message.groups = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(1) {
            self.throttle_time_ms.write(out, version);
        }
        self.error_code.write(out, version);
        self.groups.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ListGroupsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE: i16 = 3;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ListedGroup<'a> {
    pub group_id: &'a str,
    pub protocol_type: &'a str,
    pub group_state: &'a str,
    pub group_type: &'a str,
}

impl<'a> Wire<'a> for ListedGroup<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_id = get(reader, version)?;
        message.protocol_type = get(reader, version)?;
        if version.from(4) {
            message.group_state = get(reader, version)?;
        }
        if version.from(5) {
            message.group_type = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group_id.write(out, version);
        self.protocol_type.write(out, version);
        if version.from(4) {
            self.group_state.write(out, version);
        }
        if version.from(5) {
            self.group_type.write(out, version);
        }
        put_no_tags(out, version);
    }
}
