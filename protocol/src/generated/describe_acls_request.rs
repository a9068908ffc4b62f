// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeAclsRequest<'a> {
    pub resource_type_filter: i8,
    pub resource_name_filter: Option<&'a str>,
    pub pattern_type_filter: i8,
    pub principal_filter: Option<&'a str>,
    pub host_filter: Option<&'a str>,
    pub operation: i8,
    pub permission_type: i8,
}

impl Default for DescribeAclsRequest<'_> {
    fn default() -> Self {
        Self {
            resource_type_filter: Default::default(),
            resource_name_filter: Default::default(),
            pattern_type_filter: 3,
            principal_filter: Default::default(),
            host_filter: Default::default(),
            operation: Default::default(),
            permission_type: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for DescribeAclsRequest<'a> {
    const BYTES_MIN: usize = 8;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.resource_type_filter = get(reader, version)?;
        message.resource_name_filter = get(reader, version)?;
        message.pattern_type_filter = get(reader, version)?;
        message.principal_filter = get(reader, version)?;
        message.host_filter = get(reader, version)?;
        message.operation = get(reader, version)?;
        message.permission_type = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.resource_type_filter.write(out, version);
        self.resource_name_filter.write(out, version);
        self.pattern_type_filter.write(out, version);
        self.principal_filter.write(out, version);
        self.host_filter.write(out, version);
        self.operation.write(out, version);
        self.permission_type.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeAclsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=3;
    const FLEXIBLE: i16 = 2;
}

impl<'a> Request<'a> for DescribeAclsRequest<'a> {
    const KEY: ApiKey = ApiKey::DescribeAcls;
    type Response<'r> = super::DescribeAclsResponse<'r>;
}
