// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct CreateAclsRequest<'a> {
    pub creations: Vec<AclCreation<'a>>,
}

impl<'a> Wire<'a> for CreateAclsRequest<'a> {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.creations = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.creations.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for CreateAclsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=3;
    const FLEXIBLE: i16 = 2;
}

impl<'a> Request<'a> for CreateAclsRequest<'a> {
    const KEY: ApiKey = ApiKey::CreateAcls;
    type Response<'r> = super::CreateAclsResponse<'r>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct AclCreation<'a> {
    pub resource_type: i8,
    pub resource_name: &'a str,
    pub resource_pattern_type: i8,
    pub principal: &'a str,
    pub host: &'a str,
    pub operation: i8,
    pub permission_type: i8,
}

impl Default for AclCreation<'_> {
    fn default() -> Self {
        Self {
            resource_type: Default::default(),
            resource_name: Default::default(),
            resource_pattern_type: 3,
            principal: Default::default(),
            host: Default::default(),
            operation: Default::default(),
            permission_type: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for AclCreation<'a> {
    const BYTES_MIN: usize = 8;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.resource_type = get(reader, version)?;
        message.resource_name = get(reader, version)?;
        message.resource_pattern_type = get(reader, version)?;
        message.principal = get(reader, version)?;
        message.host = get(reader, version)?;
        message.operation = get(reader, version)?;
        message.permission_type = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.resource_type.write(out, version);
        self.resource_name.write(out, version);
        self.resource_pattern_type.write(out, version);
        self.principal.write(out, version);
        self.host.write(out, version);
        self.operation.write(out, version);
        self.permission_type.write(out, version);
        put_no_tags(out, version);
    }
}
