// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct FindCoordinatorResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
    pub node_id: i32,
    pub host: &'a str,
    pub port: i32,
    pub coordinators: Vec<Coordinator<'a>>,
}

impl<'a> Wire<'a> for FindCoordinatorResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(1) {
            message.throttle_time_ms = get(reader, version)?;
        }
        if version.upto(3) {
            message.error_code = get(reader, version)?;
        }
        if version.from(1) && version.upto(3) {
            message.error_message = get(reader, version)?;
        }
        if version.upto(3) {
            message.node_id = get(reader, version)?;
        }
        if version.upto(3) {
            message.host = get(reader, version)?;
        }
        if version.upto(3) {
            message.port = get(reader, version)?;
        }
        if version.from(4) {
            message.coordinators = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(1) {
            self.throttle_time_ms.write(out, version);
        }
        if version.upto(3) {
            self.error_code.write(out, version);
        }
        if version.from(1) && version.upto(3) {
            self.error_message.write(out, version);
        }
        if version.upto(3) {
            self.node_id.write(out, version);
        }
        if version.upto(3) {
            self.host.write(out, version);
        }
        if version.upto(3) {
            self.port.write(out, version);
        }
        if version.from(4) {
            self.coordinators.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for FindCoordinatorResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=6;
    const FLEXIBLE: i16 = 3;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct Coordinator<'a> {
    pub key: &'a str,
    pub node_id: i32,
    pub host: &'a str,
    pub port: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
}

impl<'a> Wire<'a> for Coordinator<'a> {
    const BYTES_MIN: usize = 14;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.key = get(reader, version)?;
        message.node_id = get(reader, version)?;
        message.host = get(reader, version)?;
        message.port = get(reader, version)?;
        message.error_code = get(reader, version)?;
        message.error_message = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.key.write(out, version);
        self.node_id.write(out, version);
        self.host.write(out, version);
        self.port.write(out, version);
        self.error_code.write(out, version);
        self.error_message.write(out, version);
        put_no_tags(out, version);
    }
}
