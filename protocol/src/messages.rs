//! Kafka's messages, generated from its schemas by `cargo xtask codegen`: one module for each, named like the message.
//!
//! Strings and bytes are borrowed from what was received. How the types follow from the schemas:
//!
//! * A field that the version at hand does not have is left at its default when read, and left out when written.
//! * A nullable field is an `Option`; its default is `None` where the schema names no other. `None` in a version that
//!   knows no null is written as empty.
//! * Fields named `…ErrorCode` are [`ErrorCode`], `TopicId` is [`TopicId`], other UUIDs are `u128`.
//! * Tagged fields are written when they differ from their default; unknown tags are skipped.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::api::ApiKey;
use crate::error::ErrorCode;
use crate::wire::{DecodeError, Reader, put_bytes, put_count, put_string};

pub use crate::generated::*;

/// The version at hand, as what is nested needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    number: i16,
    flexible: bool,
}

impl Version {
    pub(crate) const fn from(self, first: i16) -> bool {
        self.number >= first
    }

    pub(crate) const fn upto(self, last: i16) -> bool {
        self.number <= last
    }

    pub(crate) const fn flexible(self) -> bool {
        self.flexible
    }
}

/// 16 KiB: arrays of requests as real clients send them fit at once.
const ARRAY_BYTES_AT_ONCE: usize = 16 << 10;

/// A message or a part of one.
pub trait Wire<'a>: Sized {
    /// The fewest bytes that it takes in any version: bounds how many of them a count can promise.
    const BYTES_MIN: usize;

    /// Reads it.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes do not decode.
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError>;

    /// Appends it.
    fn write(&self, out: &mut Vec<u8>, version: Version);

    /// Reads it where it may be null.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes do not decode.
    fn read_nullable(reader: &mut Reader<'a>, version: Version) -> Result<Option<Self>, DecodeError> {
        // Structures have a byte in front: negative is null.
        if reader.i8()? < 0 { Ok(None) } else { Self::read(reader, version).map(Some) }
    }

    /// Appends it where it may be null.
    fn write_nullable(value: Option<&Self>, out: &mut Vec<u8>, version: Version) {
        match value {
            None => out.push(0xff),
            Some(value) => {
                out.push(1);
                value.write(out, version);
            }
        }
    }
}

/// A whole message.
pub trait Message<'a>: Wire<'a> + Default {
    /// The versions that exist (and are stable).
    const VERSIONS: RangeInclusive<i16>;
    /// First version with compact lengths and tagged fields; `i16::MAX` for none.
    const FLEXIBLE: i16;

    /// Reads it from the reader on.
    ///
    /// # Errors
    /// [`DecodeError::Version`] outside [`Message::VERSIONS`], and what is wrong with the bytes.
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::Version);
        }
        Self::read(reader, Version { number: version, flexible: version >= Self::FLEXIBLE })
    }

    /// Reads it from the front of a body; bytes behind it are ignored, as Kafka does.
    ///
    /// # Errors
    /// As [`Message::decode`].
    fn parse(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        Self::decode(&mut Reader::new(body), version)
    }

    /// Appends it.
    ///
    /// # Panics
    /// Outside [`Message::VERSIONS`].
    fn encode(&self, out: &mut Vec<u8>, version: i16) {
        assert!(Self::VERSIONS.contains(&version), "no version {version} of this message");
        self.write(out, Version { number: version, flexible: version >= Self::FLEXIBLE });
    }
}

/// A request, and what answers it.
pub trait Request<'a>: Message<'a> {
    /// Which API.
    const KEY: ApiKey;
    /// The response of the same version.
    type Response<'r>: Message<'r>;
}

pub(crate) fn get<'a, T: Wire<'a>>(reader: &mut Reader<'a>, version: Version) -> Result<T, DecodeError> {
    T::read(reader, version)
}

/// Reads a field that only some versions allow to be null.
pub(crate) fn get_nullable<'a, T: Wire<'a>>(
    reader: &mut Reader<'a>,
    version: Version,
    allowed: bool,
) -> Result<Option<T>, DecodeError> {
    if allowed { T::read_nullable(reader, version) } else { T::read(reader, version).map(Some) }
}

/// Writes a field that only some versions allow to be null.
pub(crate) fn put_nullable<'a, T: Wire<'a> + Default>(
    value: Option<&T>,
    out: &mut Vec<u8>,
    version: Version,
    allowed: bool,
) {
    if allowed {
        T::write_nullable(value, out, version);
    } else {
        match value {
            Some(value) => value.write(out, version),
            None => T::default().write(out, version),
        }
    }
}

/// The end of a structure without tagged fields.
pub(crate) fn get_no_tags(reader: &mut Reader<'_>, version: Version) -> Result<(), DecodeError> {
    if version.flexible { reader.skip_tags() } else { Ok(()) }
}

/// The end of a structure without tagged fields.
pub(crate) fn put_no_tags(out: &mut Vec<u8>, version: Version) {
    if version.flexible {
        out.push(0);
    }
}

macro_rules! numbers {
    ($($type:ty, $read:ident, $bytes:literal;)*) => {
        $(impl<'a> Wire<'a> for $type {
            const BYTES_MIN: usize = $bytes;

            fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self, DecodeError> {
                reader.$read()
            }

            fn write(&self, out: &mut Vec<u8>, _: Version) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        })*
    };
}

numbers! {
    i8, i8, 1;
    i16, i16, 2;
    u16, u16, 2;
    i32, i32, 4;
    u32, u32, 4;
    i64, i64, 8;
    u128, u128, 16;
    f64, f64, 8;
}

impl<'a> Wire<'a> for bool {
    const BYTES_MIN: usize = 1;

    fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self, DecodeError> {
        reader.bool()
    }

    fn write(&self, out: &mut Vec<u8>, _: Version) {
        out.push(u8::from(*self));
    }
}

impl<'a> Wire<'a> for ErrorCode {
    const BYTES_MIN: usize = 2;

    fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self, DecodeError> {
        reader.i16().map(Self)
    }

    fn write(&self, out: &mut Vec<u8>, _: Version) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }
}

impl<'a> Wire<'a> for TopicId {
    const BYTES_MIN: usize = 16;

    fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self, DecodeError> {
        reader.u128().map(Self)
    }

    fn write(&self, out: &mut Vec<u8>, _: Version) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }
}

impl<'a> Wire<'a> for &'a str {
    const BYTES_MIN: usize = 1;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        reader.string(version.flexible)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        put_string(out, Some(self), version.flexible);
    }

    fn read_nullable(reader: &mut Reader<'a>, version: Version) -> Result<Option<Self>, DecodeError> {
        reader.nullable_string(version.flexible)
    }

    fn write_nullable(value: Option<&Self>, out: &mut Vec<u8>, version: Version) {
        put_string(out, value.copied(), version.flexible);
    }
}

impl<'a> Wire<'a> for &'a [u8] {
    const BYTES_MIN: usize = 1;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        reader.bytes(version.flexible)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        put_bytes(out, Some(self), version.flexible);
    }

    fn read_nullable(reader: &mut Reader<'a>, version: Version) -> Result<Option<Self>, DecodeError> {
        reader.nullable_bytes(version.flexible)
    }

    fn write_nullable(value: Option<&Self>, out: &mut Vec<u8>, version: Version) {
        put_bytes(out, value.copied(), version.flexible);
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Vec<T> {
    const BYTES_MIN: usize = 1;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        Self::read_nullable(reader, version)?.ok_or(DecodeError::Null)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        Self::write_nullable(Some(self), out, version);
    }

    fn read_nullable(reader: &mut Reader<'a>, version: Version) -> Result<Option<Self>, DecodeError> {
        let Some(count) = reader.nullable_count(version.flexible, T::BYTES_MIN)? else { return Ok(None) };
        // A count is a promise of a stranger: beyond this, memory grows only with elements that were really there.
        let mut elements = Self::with_capacity(count.min(ARRAY_BYTES_AT_ONCE / size_of::<T>().max(1)));
        for _ in 0..count {
            elements.push(T::read(reader, version)?);
        }
        Ok(Some(elements))
    }

    fn write_nullable(value: Option<&Self>, out: &mut Vec<u8>, version: Version) {
        put_count(out, value.map(Self::len), version.flexible);
        for element in value.into_iter().flatten() {
            element.write(out, version);
        }
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Option<T> {
    const BYTES_MIN: usize = 1;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        T::read_nullable(reader, version)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        T::write_nullable(self.as_ref(), out, version);
    }
}
