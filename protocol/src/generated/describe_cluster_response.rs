// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeClusterResponse<'a> {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<&'a str>,
    pub endpoint_type: i8,
    pub cluster_id: &'a str,
    pub controller_id: i32,
    pub brokers: Vec<DescribeClusterBroker<'a>>,
    pub cluster_authorized_operations: i32,
}

impl Default for DescribeClusterResponse<'_> {
    fn default() -> Self {
        Self {
            throttle_time_ms: Default::default(),
            error_code: Default::default(),
            error_message: Default::default(),
            endpoint_type: 1,
            cluster_id: Default::default(),
            controller_id: -1,
            brokers: Default::default(),
            cluster_authorized_operations: i32::MIN,
        }
    }
}

impl<'a> Wire<'a> for DescribeClusterResponse<'a> {
    const BYTES_MIN: usize = 18;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.throttle_time_ms = get(reader, version)?;
        message.error_code = get(reader, version)?;
        message.error_message = get(reader, version)?;
        if version.from(1) {
            message.endpoint_type = get(reader, version)?;
        }
        message.cluster_id = get(reader, version)?;
        message.controller_id = get(reader, version)?;
        message.brokers = get(reader, version)?;
        message.cluster_authorized_operations = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.throttle_time_ms.write(out, version);
        self.error_code.write(out, version);
        self.error_message.write(out, version);
        if version.from(1) {
            self.endpoint_type.write(out, version);
        }
        self.cluster_id.write(out, version);
        self.controller_id.write(out, version);
        self.brokers.write(out, version);
        self.cluster_authorized_operations.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeClusterResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE: i16 = 0;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeClusterBroker<'a> {
    pub broker_id: i32,
    pub host: &'a str,
    pub port: i32,
    pub rack: Option<&'a str>,
    pub is_fenced: bool,
}

impl<'a> Wire<'a> for DescribeClusterBroker<'a> {
    const BYTES_MIN: usize = 11;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.broker_id = get(reader, version)?;
        message.host = get(reader, version)?;
        message.port = get(reader, version)?;
        message.rack = get(reader, version)?;
        if version.from(2) {
            message.is_fenced = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.broker_id.write(out, version);
        self.host.write(out, version);
        self.port.write(out, version);
        self.rack.write(out, version);
        if version.from(2) {
            self.is_fenced.write(out, version);
        }
        put_no_tags(out, version);
    }
}
