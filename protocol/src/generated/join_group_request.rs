// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupRequest<'a> {
    pub group_id: &'a str,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub protocol_type: &'a str,
    pub protocols: Vec<JoinGroupRequestProtocol<'a>>,
    pub reason: Option<&'a str>,
}

impl Default for JoinGroupRequest<'_> {
    fn default() -> Self {
        Self {
            group_id: Default::default(),
            session_timeout_ms: Default::default(),
            rebalance_timeout_ms: -1,
            member_id: Default::default(),
            group_instance_id: Default::default(),
            protocol_type: Default::default(),
            protocols: Default::default(),
            reason: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for JoinGroupRequest<'a> {
    const BYTES_MIN: usize = 14;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_id = get(reader, version)?;
        message.session_timeout_ms = get(reader, version)?;
        if version.from(1) {
            message.rebalance_timeout_ms = get(reader, version)?;
        }
        message.member_id = get(reader, version)?;
        if version.from(5) {
            message.group_instance_id = get(reader, version)?;
        }
        message.protocol_type = get(reader, version)?;
        message.protocols = get(reader, version)?;
        if version.from(8) {
            message.reason = get(reader, version)?;
        }
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group_id.write(out, version);
        self.session_timeout_ms.write(out, version);
        if version.from(1) {
            self.rebalance_timeout_ms.write(out, version);
        }
        self.member_id.write(out, version);
        if version.from(5) {
            self.group_instance_id.write(out, version);
        }
        self.protocol_type.write(out, version);
        self.protocols.write(out, version);
        if version.from(8) {
            self.reason.write(out, version);
        }
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for JoinGroupRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=9;
    const FLEXIBLE: i16 = 6;
}

impl<'a> Request<'a> for JoinGroupRequest<'a> {
    const KEY: ApiKey = ApiKey::JoinGroup;
    type Response<'r> = super::JoinGroupResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct JoinGroupRequestProtocol<'a> {
    pub name: &'a str,
    pub metadata: &'a [u8],
}

impl<'a> Wire<'a> for JoinGroupRequestProtocol<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.metadata = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.metadata.write(out, version);
        put_no_tags(out, version);
    }
}
