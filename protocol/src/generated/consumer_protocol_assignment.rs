// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::messages::{Message, Version, Wire, get};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ConsumerProtocolAssignment<'a> {
    pub assigned_partitions: Vec<TopicPartition<'a>>,
    pub user_data: Option<&'a [u8]>,
}

impl<'a> Wire<'a> for ConsumerProtocolAssignment<'a> {
    const BYTES_MIN: usize = 8;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.assigned_partitions = get(reader, version)?;
        message.user_data = get(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.assigned_partitions.write(out, version);
        self.user_data.write(out, version);
    }
}

impl<'a> Message<'a> for ConsumerProtocolAssignment<'a> {
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
