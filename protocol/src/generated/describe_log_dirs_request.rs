// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeLogDirsRequest<'a> {
    pub topics: Option<Vec<DescribableLogDirTopic<'a>>>,
}

impl<'a> Wire<'a> for DescribeLogDirsRequest<'a> {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topics = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topics.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for DescribeLogDirsRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 1..=5;
    const FLEXIBLE: i16 = 2;
}

impl<'a> Request<'a> for DescribeLogDirsRequest<'a> {
    const KEY: ApiKey = ApiKey::DescribeLogDirs;
    type Response<'r> = super::DescribeLogDirsResponse<'r>;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribableLogDirTopic<'a> {
    pub topic: &'a str,
    pub partitions: Vec<i32>,
}

impl<'a> Wire<'a> for DescribableLogDirTopic<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic = get(reader, version)?;
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic.write(out, version);
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}
