// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, get_nullable, put_no_tags, put_nullable};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeleteTopicsResponse<'a> {
    pub throttle_time_ms: i32,
    pub responses: Vec<DeletableTopicResult<'a>>,
}

impl<'a> Wire<'a> for DeleteTopicsResponse<'a> {
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

impl<'a> Message<'a> for DeleteTopicsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=6;
    const FLEXIBLE: i16 = 4;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeletableTopicResult<'a> {
    pub name: Option<&'a str>,
    pub topic_id: TopicId,
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
}

impl<'a> Wire<'a> for DeletableTopicResult<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get_nullable(reader, version, version.from(6))?;
        if version.from(6) {
            message.topic_id = get(reader, version)?;
        }
        message.error_code = get(reader, version)?;
        if version.from(5) {
            message.error_message = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        put_nullable(self.name.as_ref(), out, version, version.from(6));
        if version.from(6) {
            self.topic_id.write(out, version);
        }
        self.error_code.write(out, version);
        if version.from(5) {
            self.error_message.write(out, version);
        }
        put_no_tags(out, version);
    }
}
