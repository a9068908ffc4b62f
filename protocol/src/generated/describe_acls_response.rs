// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeAclsResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
    pub resources: Vec<DescribeAclsResource<'a>>,
}

impl<'a> Wire<'a> for DescribeAclsResponse<'a> {
    const BYTES_MIN: usize = 9;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        message.error_code = get(reader, version)?;
        message.error_message = get(reader, version)?;
        message.resources = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        self.error_code.write(out, version);
        self.error_message.write(out, version);
        self.resources.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeAclsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=3;
    const FLEXIBLE: i16 = 2;
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeAclsResource<'a> {
    pub resource_type: i8,
    pub resource_name: &'a str,
    pub pattern_type: i8,
    pub acls: Vec<AclDescription<'a>>,
}

impl Default for DescribeAclsResource<'_> {
    fn default() -> Self {
        Self {
            resource_type: Default::default(),
            resource_name: Default::default(),
            pattern_type: 3,
            acls: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for DescribeAclsResource<'a> {
    const BYTES_MIN: usize = 5;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.resource_type = get(reader, version)?;
        message.resource_name = get(reader, version)?;
        message.pattern_type = get(reader, version)?;
        message.acls = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.resource_type.write(out, version);
        self.resource_name.write(out, version);
        self.pattern_type.write(out, version);
        self.acls.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct AclDescription<'a> {
    pub principal: &'a str,
    pub host: &'a str,
    pub operation: i8,
    pub permission_type: i8,
}

impl<'a> Wire<'a> for AclDescription<'a> {
    const BYTES_MIN: usize = 5;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.principal = get(reader, version)?;
        message.host = get(reader, version)?;
        message.operation = get(reader, version)?;
        message.permission_type = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.principal.write(out, version);
        self.host.write(out, version);
        self.operation.write(out, version);
        self.permission_type.write(out, version);
        put_no_tags(out, version);
    }
}
