// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct AlterConfigsResponse<'a> {
    pub throttle_time_ms: i32,
    pub responses: Vec<AlterConfigsResourceResponse<'a>>,
}

impl<'a> Wire<'a> for AlterConfigsResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        message.responses = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        self.responses.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for AlterConfigsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE: i16 = 2;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct AlterConfigsResourceResponse<'a> {
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
    pub resource_type: i8,
    pub resource_name: &'a str,
}

impl<'a> Wire<'a> for AlterConfigsResourceResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        message.error_message = get(reader, version)?;
        message.resource_type = get(reader, version)?;
        message.resource_name = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        self.error_message.write(out, version);
        self.resource_type.write(out, version);
        self.resource_name.write(out, version);
        put_no_tags(out, version);
    }
}
