// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader, put_tag, put_uvarint};

#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroupMemberMetadataValue<'a> {
    pub instance_id: Option<&'a str>,
    pub rack_id: Option<&'a str>,
    pub client_id: &'a str,
    pub client_host: &'a str,
    pub subscribed_topic_names: Vec<&'a str>,
    pub subscribed_topic_regex: Option<&'a str>,
    pub rebalance_timeout_ms: i32,
    pub server_assignor: Option<&'a str>,
    pub classic_member_metadata: Option<ClassicMemberMetadata<'a>>,
}

impl Default for ConsumerGroupMemberMetadataValue<'_> {
    fn default() -> Self {
        Self {
            instance_id: Default::default(),
            rack_id: Default::default(),
            client_id: Default::default(),
            client_host: Default::default(),
            subscribed_topic_names: Default::default(),
            subscribed_topic_regex: Default::default(),
            rebalance_timeout_ms: -1,
            server_assignor: Default::default(),
            classic_member_metadata: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for ConsumerGroupMemberMetadataValue<'a> {
    const BYTES_MIN: usize = 12;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.instance_id = get(reader, version)?;
        message.rack_id = get(reader, version)?;
        message.client_id = get(reader, version)?;
        message.client_host = get(reader, version)?;
        message.subscribed_topic_names = get(reader, version)?;
        message.subscribed_topic_regex = get(reader, version)?;
        message.rebalance_timeout_ms = get(reader, version)?;
        message.server_assignor = get(reader, version)?;
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 => message.classic_member_metadata = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.instance_id.write(out, version);
        self.rack_id.write(out, version);
        self.client_id.write(out, version);
        self.client_host.write(out, version);
        self.subscribed_topic_names.write(out, version);
        self.subscribed_topic_regex.write(out, version);
        self.rebalance_timeout_ms.write(out, version);
        self.server_assignor.write(out, version);
        if version.flexible() {
            let has_classic_member_metadata = self.classic_member_metadata.is_some();
            put_uvarint(out, u32::from(has_classic_member_metadata));
            if has_classic_member_metadata {
                put_tag(out, 0, &mut |out| self.classic_member_metadata.write(out, version));
            }
        }
    }
}

impl<'a> Message<'a> for ConsumerGroupMemberMetadataValue<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE: i16 = 0;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ClassicMemberMetadata<'a> {
    pub session_timeout_ms: i32,
    pub supported_protocols: Vec<ClassicProtocol<'a>>,
}

impl<'a> Wire<'a> for ClassicMemberMetadata<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.session_timeout_ms = get(reader, version)?;
        message.supported_protocols = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.session_timeout_ms.write(out, version);
        self.supported_protocols.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ClassicProtocol<'a> {
    pub name: &'a str,
    pub metadata: &'a [u8],
}

impl<'a> Wire<'a> for ClassicProtocol<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.metadata = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.metadata.write(out, version);
        put_no_tags(out, version);
    }
}
