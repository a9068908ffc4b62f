// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::messages::{Message, Version, Wire, get};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerProtocolSubscription<'a> {
    pub topics: Vec<&'a str>,
    pub user_data: Option<&'a [u8]>,
    pub owned_partitions: Vec<TopicPartition<'a>>,
    pub generation_id: i32,
    pub rack_id: Option<&'a str>,
}

impl Default for ConsumerProtocolSubscription<'_> {
    fn default() -> Self {
        Self {
            topics: Default::default(),
            user_data: Default::default(),
            owned_partitions: Default::default(),
            generation_id: -1,
            rack_id: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for ConsumerProtocolSubscription<'a> {
    const BYTES_MIN: usize = 8;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topics = get(reader, version)?;
        message.user_data = get(reader, version)?;
        if version.from(1) {
            message.owned_partitions = get(reader, version)?;
        }
        if version.from(2) {
            message.generation_id = get(reader, version)?;
        }
        if version.from(3) {
            message.rack_id = get(reader, version)?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topics.write(out, version);
        self.user_data.write(out, version);
        if version.from(1) {
            self.owned_partitions.write(out, version);
        }
        if version.from(2) {
            self.generation_id.write(out, version);
        }
        if version.from(3) {
            self.rack_id.write(out, version);
        }
    }
}

impl<'a> Message<'a> for ConsumerProtocolSubscription<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=3;
    const FLEXIBLE: i16 = i16::MAX;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct TopicPartition<'a> {
    pub topic: &'a str,
    pub partitions: Vec<i32>,
}

impl<'a> Wire<'a> for TopicPartition<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic = get(reader, version)?;
        message.partitions = get(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic.write(out, version);
        self.partitions.write(out, version);
    }
}
