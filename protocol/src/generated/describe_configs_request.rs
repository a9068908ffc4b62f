// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeConfigsRequest<'a> {
    pub resources: Vec<DescribeConfigsResource<'a>>,
    pub include_synonyms: bool,
    pub include_documentation: bool,
}

impl<'a> Wire<'a> for DescribeConfigsRequest<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.resources = get(reader, version)?;
        message.include_synonyms = get(reader, version)?;
        if version.from(3) {
            message.include_documentation = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.resources.write(out, version);
        self.include_synonyms.write(out, version);
        if version.from(3) {
            self.include_documentation.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeConfigsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=4;
    const FLEXIBLE: i16 = 4;
}

impl<'a> Request<'a> for DescribeConfigsRequest<'a> {
    const KEY: ApiKey = ApiKey::DescribeConfigs;
    type Response<'r> = super::DescribeConfigsResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeConfigsResource<'a> {
    pub resource_type: i8,
    pub resource_name: &'a str,
    pub configuration_keys: Option<Vec<&'a str>>,
}

impl<'a> Wire<'a> for DescribeConfigsResource<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.resource_type = get(reader, version)?;
        message.resource_name = get(reader, version)?;
        message.configuration_keys = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.resource_type.write(out, version);
        self.resource_name.write(out, version);
        self.configuration_keys.write(out, version);
        put_no_tags(out, version);
    }
}
