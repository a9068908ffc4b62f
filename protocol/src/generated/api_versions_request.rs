// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct ApiVersionsRequest<'a> {
    pub client_software_name: &'a str,
    pub client_software_version: &'a str,
    pub cluster_id: Option<&'a str>,
    pub node_id: i32,
}

impl Default for ApiVersionsRequest<'_> {
    fn default() -> Self {
        Self {
            client_software_name: Default::default(),
            client_software_version: Default::default(),
            cluster_id: Default::default(),
            node_id: -1,
        }
    }
}

impl<'a> Wire<'a> for ApiVersionsRequest<'a> {
    const BYTES_MIN: usize = 0;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.from(3) {
            message.client_software_name = get(reader, version)?;
        }
        if version.from(3) {
            message.client_software_version = get(reader, version)?;
        }
        if version.from(5) {
            message.cluster_id = get(reader, version)?;
        }
        if version.from(5) {
            message.node_id = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.from(3) {
            self.client_software_name.write(out, version);
        }
        if version.from(3) {
            self.client_software_version.write(out, version);
        }
        if version.from(5) {
            self.cluster_id.write(out, version);
        }
        if version.from(5) {
            self.node_id.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ApiVersionsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE: i16 = 3;
}

impl<'a> Request<'a> for ApiVersionsRequest<'a> {
    const KEY: ApiKey = ApiKey::ApiVersions;
    type Response<'r> = super::ApiVersionsResponse<'r>;
}
