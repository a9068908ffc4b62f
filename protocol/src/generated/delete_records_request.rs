// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeleteRecordsRequest<'a> {
    pub topics: Vec<DeleteRecordsTopic<'a>>,
    pub timeout_ms: i32,
}

impl<'a> Wire<'a> for DeleteRecordsRequest<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topics = get(reader, version)?;
        message.timeout_ms = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topics.write(out, version);
        self.timeout_ms.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DeleteRecordsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE: i16 = 2;
}

impl<'a> Request<'a> for DeleteRecordsRequest<'a> {
    const KEY: ApiKey = ApiKey::DeleteRecords;
    type Response<'r> = super::DeleteRecordsResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeleteRecordsTopic<'a> {
    pub name: &'a str,
    pub partitions: Vec<DeleteRecordsPartition>,
}

impl<'a> Wire<'a> for DeleteRecordsTopic<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeleteRecordsPartition {
    pub partition_index: i32,
    pub offset: i64,
}

impl<'a> Wire<'a> for DeleteRecordsPartition {
    const BYTES_MIN: usize = 12;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = get(reader, version)?;
        message.offset = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition_index.write(out, version);
        self.offset.write(out, version);
        put_no_tags(out, version);
    }
}
