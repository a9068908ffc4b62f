// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::messages::{Message, Version, Wire, get};
use crate::wire::{DecodeError, Reader, put_tag, put_uvarint};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ConsumerGroupMetadataValue {
    pub epoch: i32,
    pub metadata_hash: i64,
}

impl<'a> Wire<'a> for ConsumerGroupMetadataValue {
    const BYTES_MIN: usize = 5;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.epoch = get(reader, version)?;
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 => message.metadata_hash = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.epoch.write(out, version);
        if version.flexible() {
            let has_metadata_hash = self.metadata_hash != 0;
            put_uvarint(out, u32::from(has_metadata_hash));
            if has_metadata_hash {
                put_tag(out, 0, &mut |out| self.metadata_hash.write(out, version));
            }
        }
    }
}

impl<'a> Message<'a> for ConsumerGroupMetadataValue {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = 0;
}
