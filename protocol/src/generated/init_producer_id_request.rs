// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct InitProducerIdRequest<'a> {
    pub transactional_id: Option<&'a str>,
    pub transaction_timeout_ms: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
}

impl Default for InitProducerIdRequest<'_> {
    fn default() -> Self {
        Self {
            transactional_id: Default::default(),
            transaction_timeout_ms: Default::default(),
            producer_id: -1,
            producer_epoch: -1,
        }
    }
}

impl<'a> Wire<'a> for InitProducerIdRequest<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.transactional_id = get(reader, version)?;
        message.transaction_timeout_ms = get(reader, version)?;
        if version.from(3) {
            message.producer_id = get(reader, version)?;
        }
        if version.from(3) {
            message.producer_epoch = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.transactional_id.write(out, version);
        self.transaction_timeout_ms.write(out, version);
        if version.from(3) {
            self.producer_id.write(out, version);
        }
        if version.from(3) {
            self.producer_epoch.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for InitProducerIdRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE: i16 = 2;
}

impl<'a> Request<'a> for InitProducerIdRequest<'a> {
    const KEY: ApiKey = ApiKey::InitProducerId;
    type Response<'r> = super::InitProducerIdResponse;
}
