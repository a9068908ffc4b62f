// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::messages::{Message, Version, Wire, get};
use crate::wire::{DecodeError, Reader, put_tag, put_uvarint};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ConsumerGroupTargetAssignmentMetadataValue {
    pub assignment_epoch: i32,
    pub assignment_timestamp: i64,
}

impl<'a> Wire<'a> for ConsumerGroupTargetAssignmentMetadataValue {
    const BYTES_MIN: usize = 5;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.assignment_epoch = get(reader, version)?;
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 => message.assignment_timestamp = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.assignment_epoch.write(out, version);
        if version.flexible() {
            let has_assignment_timestamp = self.assignment_timestamp != 0;
            put_uvarint(out, u32::from(has_assignment_timestamp));
            if has_assignment_timestamp {
                put_tag(out, 0, &mut |out| self.assignment_timestamp.write(out, version));
            }
        }
    }
}

impl<'a> Message<'a> for ConsumerGroupTargetAssignmentMetadataValue {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = 0;
}
