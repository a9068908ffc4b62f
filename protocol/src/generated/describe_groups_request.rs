// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeGroupsRequest<'a> {
    pub groups: Vec<&'a str>,
    pub include_authorized_operations: bool,
}

impl<'a> Wire<'a> for DescribeGroupsRequest<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.groups = get(reader, version)?;
        if version.from(3) {
            message.include_authorized_operations = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.groups.write(out, version);
        if version.from(3) {
            self.include_authorized_operations.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeGroupsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=6;
    const FLEXIBLE: i16 = 5;
}

impl<'a> Request<'a> for DescribeGroupsRequest<'a> {
    const KEY: ApiKey = ApiKey::DescribeGroups;
    type Response<'r> = super::DescribeGroupsResponse<'r>;
}
