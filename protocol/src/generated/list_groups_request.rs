// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ListGroupsRequest<'a> {
    pub states_filter: Vec<&'a str>,
    pub types_filter: Vec<&'a str>,
}

impl<'a> Wire<'a> for ListGroupsRequest<'a> {
    const BYTES_MIN: usize = 0;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(4) {
            message.states_filter = get(reader, version)?;
        }
        if version.from(5) {
            message.types_filter = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(4) {
            self.states_filter.write(out, version);
        }
        if version.from(5) {
            self.types_filter.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ListGroupsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE: i16 = 3;
}

impl<'a> Request<'a> for ListGroupsRequest<'a> {
    const KEY: ApiKey = ApiKey::ListGroups;
    type Response<'r> = super::ListGroupsResponse<'r>;
}
