// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct CreatePartitionsRequest<'a> {
    pub topics: Vec<CreatePartitionsTopic<'a>>,
    pub timeout_ms: i32,
    pub validate_only: bool,
}

impl<'a> Wire<'a> for CreatePartitionsRequest<'a> {
    const BYTES_MIN: usize = 7;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topics = get(reader, version)?;
        message.timeout_ms = get(reader, version)?;
        message.validate_only = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topics.write(out, version);
        self.timeout_ms.write(out, version);
        self.validate_only.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for CreatePartitionsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=3;
    const FLEXIBLE: i16 = 2;
}

impl<'a> Request<'a> for CreatePartitionsRequest<'a> {
    const KEY: ApiKey = ApiKey::CreatePartitions;
    type Response<'r> = super::CreatePartitionsResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct CreatePartitionsTopic<'a> {
    pub name: &'a str,
    pub count: i32,
    pub assignments: Option<Vec<CreatePartitionsAssignment>>,
}

impl<'a> Wire<'a> for CreatePartitionsTopic<'a> {
    const BYTES_MIN: usize = 7;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.count = get(reader, version)?;
        message.assignments = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.count.write(out, version);
        self.assignments.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct CreatePartitionsAssignment {
    pub broker_ids: Vec<i32>,
}

impl<'a> Wire<'a> for CreatePartitionsAssignment {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.broker_ids = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.broker_ids.write(out, version);
        put_no_tags(out, version);
    }
}
