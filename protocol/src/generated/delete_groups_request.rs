// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeleteGroupsRequest<'a> {
    pub groups_names: Vec<&'a str>,
}

impl<'a> Wire<'a> for DeleteGroupsRequest<'a> {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.groups_names = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.groups_names.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DeleteGroupsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=3;
    const FLEXIBLE: i16 = 2;
}

impl<'a> Request<'a> for DeleteGroupsRequest<'a> {
    const KEY: ApiKey = ApiKey::DeleteGroups;
    type Response<'r> = super::DeleteGroupsResponse<'r>;
}
