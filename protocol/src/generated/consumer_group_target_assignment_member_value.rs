// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ConsumerGroupTargetAssignmentMemberValue {
    pub topic_partitions: Vec<TopicPartition>,
}

impl<'a> Wire<'a> for ConsumerGroupTargetAssignmentMemberValue {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic_partitions.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ConsumerGroupTargetAssignmentMemberValue {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = 0;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct TopicPartition {
    pub topic_id: TopicId,
    pub partitions: Vec<i32>,
}

impl<'a> Wire<'a> for TopicPartition {
    const BYTES_MIN: usize = 18;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_id = get(reader, version)?;
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic_id.write(out, version);
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}
