// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::messages::{Message, Version, Wire, get};
use crate::wire::{DecodeError, Reader, put_tag, put_uvarint};

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitValue<'a> {
    pub offset: i64,
    pub leader_epoch: i32,
    pub metadata: &'a str,
    pub commit_timestamp: i64,
    pub expire_timestamp: i64,
    pub topic_id: TopicId,
}

impl Default for OffsetCommitValue<'_> {
    fn default() -> Self {
        Self {
            offset: Default::default(),
            leader_epoch: -1,
            metadata: Default::default(),
            commit_timestamp: Default::default(),
            expire_timestamp: -1,
            topic_id: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for OffsetCommitValue<'a> {
    const BYTES_MIN: usize = 18;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.offset = get(reader, version)?;
        if version.from(3) {
            message.leader_epoch = get(reader, version)?;
        }
        message.metadata = get(reader, version)?;
        message.commit_timestamp = get(reader, version)?;
        if version.from(1) && version.upto(1) {
            message.expire_timestamp = get(reader, version)?;
        }
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 => message.topic_id = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.offset.write(out, version);
        if version.from(3) {
            self.leader_epoch.write(out, version);
        }
        self.metadata.write(out, version);
        self.commit_timestamp.write(out, version);
        if version.from(1) && version.upto(1) {
            self.expire_timestamp.write(out, version);
        }
        if version.flexible() {
            let has_topic_id = self.topic_id != Default::default();
            put_uvarint(out, u32::from(has_topic_id));
            if has_topic_id {
                put_tag(out, 0, &mut |out| self.topic_id.write(out, version));
            }
        }
    }
}

impl<'a> Message<'a> for OffsetCommitValue<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=4;
    const FLEXIBLE: i16 = 4;
}
