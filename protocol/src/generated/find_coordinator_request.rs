// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct FindCoordinatorRequest<'a> {
    pub key: &'a str,
    pub key_type: i8,
    pub coordinator_keys: Vec<&'a str>,
}

impl<'a> Wire<'a> for FindCoordinatorRequest<'a> {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.upto(3) {
            message.key = get(reader, version)?;
        }
        if version.from(1) {
            message.key_type = get(reader, version)?;
        }
        if version.from(4) {
            message.coordinator_keys = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.upto(3) {
            self.key.write(out, version);
        }
        if version.from(1) {
            self.key_type.write(out, version);
        }
        if version.from(4) {
            self.coordinator_keys.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for FindCoordinatorRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=6;
    const FLEXIBLE: i16 = 3;
}

impl<'a> Request<'a> for FindCoordinatorRequest<'a> {
    const KEY: ApiKey = ApiKey::FindCoordinator;
    type Response<'r> = super::FindCoordinatorResponse<'r>;
}
