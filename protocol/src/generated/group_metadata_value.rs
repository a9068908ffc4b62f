// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct GroupMetadataValue<'a> {
    pub protocol_type: &'a str,
    pub generation: i32,
    pub protocol: Option<&'a str>,
    pub leader: Option<&'a str>,
    pub current_state_timestamp: i64,
    pub members: Vec<MemberMetadata<'a>>,
}

impl Default for GroupMetadataValue<'_> {
    fn default() -> Self {
        Self {
            protocol_type: Default::default(),
            generation: Default::default(),
            protocol: Default::default(),
            leader: Default::default(),
            current_state_timestamp: -1,
            members: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for GroupMetadataValue<'a> {
    const BYTES_MIN: usize = 14;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.protocol_type = get(reader, version)?;
        message.generation = get(reader, version)?;
        message.protocol = get(reader, version)?;
        message.leader = get(reader, version)?;
        if version.from(2) {
            message.current_state_timestamp = get(reader, version)?;
        }
        message.members = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.protocol_type.write(out, version);
        self.generation.write(out, version);
        self.protocol.write(out, version);
        self.leader.write(out, version);
        if version.from(2) {
            self.current_state_timestamp.write(out, version);
        }
        self.members.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for GroupMetadataValue<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=4;
    const FLEXIBLE: i16 = 4;
}

#[derive(Clone, Debug, PartialEq)]
pub struct MemberMetadata<'a> {
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub client_id: &'a str,
    pub client_host: &'a str,
    pub rebalance_timeout: i32,
    pub session_timeout: i32,
    pub subscription: &'a [u8],
    pub assignment: &'a [u8],
}

impl Default for MemberMetadata<'_> {
    fn default() -> Self {
        Self {
            member_id: Default::default(),
            group_instance_id: Default::default(),
            client_id: Default::default(),
            client_host: Default::default(),
            rebalance_timeout: -1,
            session_timeout: Default::default(),
            subscription: Default::default(),
            assignment: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for MemberMetadata<'a> {
    const BYTES_MIN: usize = 15;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.member_id = get(reader, version)?;
        if version.from(3) {
            message.group_instance_id = get(reader, version)?;
        }
        message.client_id = get(reader, version)?;
        message.client_host = get(reader, version)?;
        if version.from(1) {
            message.rebalance_timeout = get(reader, version)?;
        }
        message.session_timeout = get(reader, version)?;
        message.subscription = get(reader, version)?;
        message.assignment = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.member_id.write(out, version);
        if version.from(3) {
            self.group_instance_id.write(out, version);
        }
        self.client_id.write(out, version);
        self.client_host.write(out, version);
        if version.from(1) {
            self.rebalance_timeout.write(out, version);
        }
        self.session_timeout.write(out, version);
        self.subscription.write(out, version);
        self.assignment.write(out, version);
        put_no_tags(out, version);
    }
}
