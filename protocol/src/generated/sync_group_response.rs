// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct SyncGroupResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub protocol_type: Option<&'a str>,
    pub protocol_name: Option<&'a str>,
    pub assignment: &'a [u8],
}

impl<'a> Wire<'a> for SyncGroupResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(1) {
            message.throttle_time_ms = get(reader, version)?;
        }
        message.error_code = get(reader, version)?;
        if version.from(5) {
            message.protocol_type = get(reader, version)?;
        }
        if version.from(5) {
            message.protocol_name = get(reader, version)?;
        }
        message.assignment = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(1) {
            self.throttle_time_ms.write(out, version);
        }
        self.error_code.write(out, version);
        if version.from(5) {
            self.protocol_type.write(out, version);
        }
        if version.from(5) {
            self.protocol_name.write(out, version);
        }
        self.assignment.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for SyncGroupResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE: i16 = 4;
}
