// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeConfigsResponse<'a> {
    pub throttle_time_ms: i32,
    pub results: Vec<DescribeConfigsResult<'a>>,
}

impl<'a> Wire<'a> for DescribeConfigsResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        message.results = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        self.results.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeConfigsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=4;
    const FLEXIBLE: i16 = 4;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeConfigsResult<'a> {
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
    pub resource_type: i8,
    pub resource_name: &'a str,
    pub configs: Vec<DescribeConfigsResourceResult<'a>>,
}

impl<'a> Wire<'a> for DescribeConfigsResult<'a> {
    const BYTES_MIN: usize = 7;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        message.error_message = get(reader, version)?;
        message.resource_type = get(reader, version)?;
        message.resource_name = get(reader, version)?;
        message.configs = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        self.error_message.write(out, version);
        self.resource_type.write(out, version);
        self.resource_name.write(out, version);
        self.configs.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeConfigsResourceResult<'a> {
    pub name: &'a str,
    pub value: Option<&'a str>,
    pub read_only: bool,
    pub config_source: i8,
    pub is_sensitive: bool,
    pub synonyms: Vec<DescribeConfigsSynonym<'a>>,
    pub config_type: i8,
    pub documentation: Option<&'a str>,
}

impl Default for DescribeConfigsResourceResult<'_> {
    fn default() -> Self {
        Self {
            name: Default::default(),
            value: Default::default(),
            read_only: Default::default(),
            config_source: -1,
            is_sensitive: Default::default(),
            synonyms: Default::default(),
            config_type: Default::default(),
            documentation: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for DescribeConfigsResourceResult<'a> {
    const BYTES_MIN: usize = 9;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.value = get(reader, version)?;
        message.read_only = get(reader, version)?;
        message.config_source = get(reader, version)?;
        message.is_sensitive = get(reader, version)?;
        message.synonyms = get(reader, version)?;
        if version.from(3) {
            message.config_type = get(reader, version)?;
        }
        if version.from(3) {
            message.documentation = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.value.write(out, version);
        self.read_only.write(out, version);
        self.config_source.write(out, version);
        self.is_sensitive.write(out, version);
        self.synonyms.write(out, version);
        if version.from(3) {
            self.config_type.write(out, version);
        }
        if version.from(3) {
            self.documentation.write(out, version);
        }
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeConfigsSynonym<'a> {
    pub name: &'a str,
    pub value: Option<&'a str>,
    pub source: i8,
}

impl<'a> Wire<'a> for DescribeConfigsSynonym<'a> {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.value = get(reader, version)?;
        message.source = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.value.write(out, version);
        self.source.write(out, version);
        put_no_tags(out, version);
    }
}
