// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct IncrementalAlterConfigsRequest<'a> {
    pub resources: Vec<AlterConfigsResource<'a>>,
    pub validate_only: bool,
}

impl<'a> Wire<'a> for IncrementalAlterConfigsRequest<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.resources = get(reader, version)?;
        message.validate_only = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.resources.write(out, version);
        self.validate_only.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for IncrementalAlterConfigsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE: i16 = 1;
}

impl<'a> Request<'a> for IncrementalAlterConfigsRequest<'a> {
    const KEY: ApiKey = ApiKey::IncrementalAlterConfigs;
    type Response<'r> = super::IncrementalAlterConfigsResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct AlterConfigsResource<'a> {
    pub resource_type: i8,
    pub resource_name: &'a str,
    pub configs: Vec<AlterableConfig<'a>>,
}

impl<'a> Wire<'a> for AlterConfigsResource<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.resource_type = get(reader, version)?;
        message.resource_name = get(reader, version)?;
        message.configs = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.resource_type.write(out, version);
        self.resource_name.write(out, version);
        self.configs.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct AlterableConfig<'a> {
    pub name: &'a str,
    pub config_operation: i8,
    pub value: Option<&'a str>,
}

impl<'a> Wire<'a> for AlterableConfig<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.config_operation = get(reader, version)?;
        message.value = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.config_operation.write(out, version);
        self.value.write(out, version);
        put_no_tags(out, version);
    }
}
