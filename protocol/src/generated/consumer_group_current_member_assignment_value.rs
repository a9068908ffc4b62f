// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader, put_tag, put_uvarint};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ConsumerGroupCurrentMemberAssignmentValue {
    pub member_epoch: i32,
    pub previous_member_epoch: i32,
    pub state: i8,
    pub assigned_partitions: Vec<TopicPartitions>,
    pub partitions_pending_revocation: Vec<TopicPartitions>,
}

impl<'a> Wire<'a> for ConsumerGroupCurrentMemberAssignmentValue {
    const BYTES_MIN: usize = 12;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.member_epoch = get(reader, version)?;
        message.previous_member_epoch = get(reader, version)?;
        message.state = get(reader, version)?;
        message.assigned_partitions = get(reader, version)?;
        message.partitions_pending_revocation = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.member_epoch.write(out, version);
        self.previous_member_epoch.write(out, version);
        self.state.write(out, version);
        self.assigned_partitions.write(out, version);
        self.partitions_pending_revocation.write(out, version);
        put_no_tags(out, version);
    }
}

impl<'a> Message<'a> for ConsumerGroupCurrentMemberAssignmentValue {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = 0;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct TopicPartitions {
    pub topic_id: TopicId,
    pub partitions: Vec<i32>,
    pub assignment_epochs: Option<Vec<i32>>,
}

impl<'a> Wire<'a> for TopicPartitions {
    const BYTES_MIN: usize = 18;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_id = get(reader, version)?;
        message.partitions = get(reader, version)?;
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 => message.assignment_epochs = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.topic_id.write(out, version);
        self.partitions.write(out, version);
        if version.flexible() {
            let has_assignment_epochs = self.assignment_epochs.is_some();
            put_uvarint(out, u32::from(has_assignment_epochs));
            if has_assignment_epochs {
                put_tag(out, 0, &mut |out| self.assignment_epochs.write(out, version));
            }
        }
    }
}
