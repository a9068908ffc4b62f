// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::messages::{Message, Version, Wire, get};
use crate::wire::{DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct OffsetCommitKey<'a> {
    pub group: &'a str,
    pub topic: &'a str,
    pub partition: i32,
}

impl<'a> Wire<'a> for OffsetCommitKey<'a> {
    const BYTES_MIN: usize = 8;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.group = get(reader, version)?;
        message.topic = get(reader, version)?;
        message.partition = get(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.group.write(out, version);
        self.topic.write(out, version);
        self.partition.write(out, version);
    }
}

impl<'a> Message<'a> for OffsetCommitKey<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = i16::MAX;
}
