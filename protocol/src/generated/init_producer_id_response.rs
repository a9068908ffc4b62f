// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct InitProducerIdResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub producer_id: i64,
    pub producer_epoch: i16,
}

impl Default for InitProducerIdResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: Default::default(),
            error_code: Default::default(),
            producer_id: -1,
            producer_epoch: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for InitProducerIdResponse {
    const BYTES_MIN: usize = 16;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        message.error_code = get(reader, version)?;
        message.producer_id = get(reader, version)?;
        message.producer_epoch = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        self.error_code.write(out, version);
        self.producer_id.write(out, version);
        self.producer_epoch.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for InitProducerIdResponse {
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE: i16 = 2;
}
