// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeClusterRequest {
    pub include_cluster_authorized_operations: bool,
    pub endpoint_type: i8,
    pub include_fenced_brokers: bool,
}

impl Default for DescribeClusterRequest {
    fn default() -> Self {
        Self {
            include_cluster_authorized_operations: Default::default(),
            endpoint_type: 1,
            include_fenced_brokers: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for DescribeClusterRequest {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.include_cluster_authorized_operations = get(reader, version)?;
        if version.from(1) {
            message.endpoint_type = get(reader, version)?;
        }
        if version.from(2) {
            message.include_fenced_brokers = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.include_cluster_authorized_operations.write(out, version);
        if version.from(1) {
            self.endpoint_type.write(out, version);
        }
        if version.from(2) {
            self.include_fenced_brokers.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeClusterRequest {
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE: i16 = 0;
}

impl<'a> Request<'a> for DescribeClusterRequest {
    const KEY: ApiKey = ApiKey::DescribeCluster;
    type Response<'r> = super::DescribeClusterResponse<'r>;
}
