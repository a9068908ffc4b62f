// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeleteGroupsResponse<'a> {
    pub throttle_time_ms: i32,
    pub results: Vec<DeletableGroupResult<'a>>,
}

impl<'a> Wire<'a> for DeleteGroupsResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        message.results = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        self.results.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DeleteGroupsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=3;
    const FLEXIBLE: i16 = 2;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeletableGroupResult<'a> {
    pub group_id: &'a str,
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
}

impl<'a> Wire<'a> for DeletableGroupResult<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_id = get(reader, version)?;
        message.error_code = get(reader, version)?;
        if version.from(3) {
            message.error_message = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group_id.write(out, version);
        self.error_code.write(out, version);
        if version.from(3) {
            self.error_message.write(out, version);
        }
        put_no_tags(out, version);
    }
}
