// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetDeleteRequest<'a> {
    pub group_id: &'a str,
    pub topics: Vec<OffsetDeleteRequestTopic<'a>>,
}

impl<'a> Wire<'a> for OffsetDeleteRequest<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group_id = get(reader, version)?;
        message.topics = get(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group_id.write(out, version);
        self.topics.write(out, version);
    }
}

impl<'a> Message<'a> for OffsetDeleteRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = i16::MAX;
}

impl<'a> Request<'a> for OffsetDeleteRequest<'a> {
    const KEY: ApiKey = ApiKey::OffsetDelete;
    type Response<'r> = super::OffsetDeleteResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetDeleteRequestTopic<'a> {
    pub name: &'a str,
    pub partitions: Vec<OffsetDeleteRequestPartition>,
}

impl<'a> Wire<'a> for OffsetDeleteRequestTopic<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.partitions = get(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.partitions.write(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetDeleteRequestPartition {
    pub partition_index: i32,
}

impl<'a> Wire<'a> for OffsetDeleteRequestPartition {
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
    }
}
