// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct HeartbeatRequest<'a> {
    pub group_id: &'a str,
    pub generation_id: i32,
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
}

impl<'a> Wire<'a> for HeartbeatRequest<'a> {
    const BYTES_MIN: usize = 8;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_id = get(reader, version)?;
        message.generation_id = get(reader, version)?;
        message.member_id = get(reader, version)?;
        if version.from(3) {
            message.group_instance_id = get(reader, version)?;
        }
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
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for HeartbeatRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=4;
    const FLEXIBLE: i16 = 4;
}

impl<'a> Request<'a> for HeartbeatRequest<'a> {
    const KEY: ApiKey = ApiKey::Heartbeat;
    type Response<'r> = super::HeartbeatResponse;
}
