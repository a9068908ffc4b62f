// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ConsumerGroupDescribeRequest<'a> {
    pub group_ids: Vec<&'a str>,
    pub include_authorized_operations: bool,
}

impl<'a> Wire<'a> for ConsumerGroupDescribeRequest<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_ids = get(reader, version)?;
        message.include_authorized_operations = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group_ids.write(out, version);
        self.include_authorized_operations.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ConsumerGroupDescribeRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE: i16 = 0;
}

impl<'a> Request<'a> for ConsumerGroupDescribeRequest<'a> {
    const KEY: ApiKey = ApiKey::ConsumerGroupDescribe;
    type Response<'r> = super::ConsumerGroupDescribeResponse<'r>;
}
