//! Reading and writing Kafka's primitive types: big-endian numbers, varints, strings, bytes, counts and tagged fields.
//!
//! Bytes that are read come from strangers: every length is checked against the bytes that are left, and nothing here
//! allocates while reading.

use alloc::vec::Vec;

/// Why bytes do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the value does.
    Truncated,
    /// A varint has more bytes than its type can hold.
    Varint,
    /// A length or count is negative (below −1, or −1 where null is not allowed).
    Length,
    /// A count is larger than the bytes left can hold.
    Count,
    /// A string is not UTF-8.
    Utf8,
    /// Null where null is not allowed.
    Null,
    /// A tagged field's content does not have the size that it declares, or tags do not rise.
    Tag,
    /// Bytes are left behind the last field.
    Trailing,
    /// The message has no such version.
    Version,
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the bytes end before the value does",
            Self::Varint => "a varint is too long",
            Self::Length => "a length is negative",
            Self::Count => "a count is larger than the bytes left can hold",
            Self::Utf8 => "a string is not UTF-8",
            Self::Null => "null where null is not allowed",
            Self::Tag => "a tagged field is malformed",
            Self::Trailing => "bytes are left behind the last field",
            Self::Version => "the message has no such version",
        })
    }
}

impl core::error::Error for DecodeError {}

/// A cursor over received bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

macro_rules! number {
    ($($(#[$doc:meta])* $name:ident -> $type:ty;)*) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// [`DecodeError::Truncated`].
        #[inline]
        pub fn $name(&mut self) -> Result<$type, DecodeError> {
            self.array().map(<$type>::from_be_bytes)
        })*
    };
}

impl<'a> Reader<'a> {
    /// At the first of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// What is not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many bytes are not read yet.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Whether all is read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All must be read.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`].
    pub const fn end(&self) -> Result<(), DecodeError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.bytes.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(*head)
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.bytes.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(head)
    }

    number! {
        /// A signed byte.
        i8 -> i8;
        /// Two bytes, signed.
        i16 -> i16;
        /// Two bytes, unsigned.
        u16 -> u16;
        /// Four bytes, signed.
        i32 -> i32;
        /// Four bytes, unsigned.
        u32 -> u32;
        /// Eight bytes, signed.
        i64 -> i64;
        /// Sixteen bytes: a UUID.
        u128 -> u128;
        /// Eight bytes: a float.
        f64 -> f64;
    }

    /// A byte that is 0 for false.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.i8()? != 0)
    }

    /// An unsigned varint of at most 32 bits.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::Varint`].
    #[inline(always)]
    pub fn uvarint(&mut self) -> Result<u32, DecodeError> {
        let value = self.uvarlong()?;
        u32::try_from(value).map_err(|_| DecodeError::Varint)
    }

    /// An unsigned varint of at most 64 bits.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::Varint`].
    #[inline(always)]
    pub fn uvarlong(&mut self) -> Result<u64, DecodeError> {
        // Lengths and deltas of records take one or two bytes nearly always.
        match *self.bytes {
            [a, ref rest @ ..] if a < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(a))
            }
            [a, b, ref rest @ ..] if b < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(a & 0x7f) | u64::from(b) << 7)
            }
            _ => self.uvarlong_slow(),
        }
    }

    #[cold]
    fn uvarlong_slow(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        let mut bytes = self.bytes;
        // Ten bytes: 9 × 7 bits and the last one.
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = bytes.split_first().ok_or(DecodeError::Truncated)?;
            bytes = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Varint);
            }
            value |= bits << shift;
            if byte < 0x80 {
                self.bytes = bytes;
                return Ok(value);
            }
        }
        Err(DecodeError::Varint)
    }

    /// A zigzag varint of at most 32 bits.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::Varint`].
    #[inline(always)]
    pub fn varint(&mut self) -> Result<i32, DecodeError> {
        let value = self.uvarint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A zigzag varint of at most 64 bits.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::Varint`].
    #[inline(always)]
    pub fn varlong(&mut self) -> Result<i64, DecodeError> {
        let value = self.uvarlong()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The length of a string: two bytes, or (compact) a varint of length + 1. `None` is null.
    #[inline]
    fn string_len(&mut self, compact: bool) -> Result<Option<usize>, DecodeError> {
        if compact { self.compact_len() } else { fixed_len(i32::from(self.i16()?)) }
    }

    /// The length of bytes or the count of an array: four bytes, or (compact) a varint of length + 1. `None` is null.
    #[inline]
    fn array_len(&mut self, compact: bool) -> Result<Option<usize>, DecodeError> {
        if compact { self.compact_len() } else { fixed_len(self.i32()?) }
    }

    #[inline]
    fn compact_len(&mut self) -> Result<Option<usize>, DecodeError> {
        // On a 64-bit target; where usize is smaller, a length that does not fit is more than there is.
        Ok(self.uvarint()?.checked_sub(1).map(|len| usize::try_from(len).unwrap_or(usize::MAX)))
    }

    /// A string or null.
    ///
    /// # Errors
    /// [`DecodeError`] when the length is wrong or the bytes are not UTF-8.
    #[inline]
    pub fn nullable_string(&mut self, compact: bool) -> Result<Option<&'a str>, DecodeError> {
        let Some(len) = self.string_len(compact)? else { return Ok(None) };
        core::str::from_utf8(self.take(len)?).map(Some).map_err(|_| DecodeError::Utf8)
    }

    /// A string.
    ///
    /// # Errors
    /// [`DecodeError`] when the length is wrong, it is null, or the bytes are not UTF-8.
    pub fn string(&mut self, compact: bool) -> Result<&'a str, DecodeError> {
        self.nullable_string(compact)?.ok_or(DecodeError::Null)
    }

    /// Bytes (or records) or null.
    ///
    /// # Errors
    /// [`DecodeError`] when the length is wrong.
    #[inline]
    pub fn nullable_bytes(&mut self, compact: bool) -> Result<Option<&'a [u8]>, DecodeError> {
        let Some(len) = self.array_len(compact)? else { return Ok(None) };
        self.take(len).map(Some)
    }

    /// Bytes.
    ///
    /// # Errors
    /// [`DecodeError`] when the length is wrong or they are null.
    pub fn bytes(&mut self, compact: bool) -> Result<&'a [u8], DecodeError> {
        self.nullable_bytes(compact)?.ok_or(DecodeError::Null)
    }

    /// The count of an array whose elements have at least `element_bytes_min` bytes (at least 1), or null. The count
    /// is bounded by the bytes left.
    ///
    /// # Errors
    /// [`DecodeError`] when the count is negative or larger than the bytes left can hold.
    #[inline]
    pub fn nullable_count(&mut self, compact: bool, element_bytes_min: usize) -> Result<Option<usize>, DecodeError> {
        let Some(count) = self.array_len(compact)? else { return Ok(None) };
        // No division: this is on the hot path.
        if count.checked_mul(element_bytes_min.max(1)).is_none_or(|bytes| bytes > self.left()) {
            return Err(DecodeError::Count);
        }
        Ok(Some(count))
    }

    /// As [`Reader::nullable_count`], but null is an error.
    ///
    /// # Errors
    /// [`DecodeError`] as there, and null.
    pub fn count(&mut self, compact: bool, element_bytes_min: usize) -> Result<usize, DecodeError> {
        self.nullable_count(compact, element_bytes_min)?.ok_or(DecodeError::Null)
    }

    /// The tagged fields of a structure (KIP-482): each is given with its tag and exactly its bytes. Fields that
    /// `field` does not know are skipped by not reading them (return `Ok(false)`); a known one (`Ok(true)`) must be
    /// read whole.
    ///
    /// # Errors
    /// [`DecodeError`] when the section is malformed, and what `field` gives.
    pub fn tags(
        &mut self,
        field: &mut dyn FnMut(u32, &mut Reader<'a>) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut count = self.uvarint()?;
        let mut previous = None;
        while count > 0 {
            count -= 1;
            let tag = self.uvarint()?;
            if previous.is_some_and(|previous| previous >= tag) {
                return Err(DecodeError::Tag);
            }
            previous = Some(tag);
            let len = self.uvarint()?;
            let mut content = Reader::new(self.take(usize::try_from(len).unwrap_or(usize::MAX))?);
            if field(tag, &mut content)? && !content.is_empty() {
                return Err(DecodeError::Tag);
            }
        }
        Ok(())
    }

    /// Skips all tagged fields.
    ///
    /// # Errors
    /// [`DecodeError`] when the section is malformed.
    #[inline]
    pub fn skip_tags(&mut self) -> Result<(), DecodeError> {
        if self.bytes.first() == Some(&0) {
            return self.take(1).map(|_| ());
        }
        self.tags(&mut |_, _| Ok(false))
    }
}

const fn fixed_len(len: i32) -> Result<Option<usize>, DecodeError> {
    match len {
        -1 => Ok(None),
        0.. => Ok(Some(len.cast_unsigned() as usize)),
        _ => Err(DecodeError::Length),
    }
}

/// Appends an unsigned varint.
#[inline]
pub fn put_uvarint(out: &mut Vec<u8>, value: u32) {
    put_uvarlong(out, u64::from(value));
}

/// Appends an unsigned varint.
pub fn put_uvarlong(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Appends a zigzag varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_varlong(out, i64::from(value));
}

/// Appends a zigzag varint.
#[inline]
pub fn put_varlong(out: &mut Vec<u8>, value: i64) {
    put_uvarlong(out, zigzag(value));
}

pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// How many bytes a varint of `value` takes: one per 7 bits begun.
pub(crate) const fn uvarlong_len(value: u64) -> usize {
    (63 - (value | 1).leading_zeros() as usize) / 7 + 1
}

/// Lengths on the wire are i32; nothing larger is ever built here.
fn wire_len(len: usize) -> u32 {
    assert!(len < i32::MAX as usize, "a field of 2 GiB");
    #[expect(clippy::cast_possible_truncation, reason = "just checked")]
    let len = len as u32;
    len
}

/// Appends the length of bytes or the count of an array: four bytes, or (compact) a varint of length + 1.
pub fn put_count(out: &mut Vec<u8>, count: Option<usize>, compact: bool) {
    match (count, compact) {
        (Some(count), true) => put_uvarint(out, wire_len(count) + 1),
        (None, true) => out.push(0),
        (Some(count), false) => out.extend_from_slice(&wire_len(count).to_be_bytes()),
        (None, false) => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

/// Appends bytes (or records) or null.
pub fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>, compact: bool) {
    put_count(out, bytes.map(<[u8]>::len), compact);
    out.extend_from_slice(bytes.unwrap_or_default());
}

/// Appends a string or null. A string longer than its length field can say (32,767 bytes where it is not compact) is cut
/// at a character: only texts for people can be that long.
pub fn put_string(out: &mut Vec<u8>, text: Option<&str>, compact: bool) {
    if compact {
        return put_bytes(out, text.map(str::as_bytes), true);
    }
    let text = text.map(|text| text.get(..text.floor_char_boundary(i16::MAX as usize)).unwrap_or_default());
    let len = text.map_or(-1, |text| i16::try_from(text.len()).unwrap_or(i16::MAX));
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(text.unwrap_or_default().as_bytes());
}

/// Appends one tagged field; `content` writes what it holds.
pub fn put_tag(out: &mut Vec<u8>, tag: u32, content: &mut dyn FnMut(&mut Vec<u8>)) {
    put_uvarint(out, tag);
    let mut inner = Vec::new();
    content(&mut inner);
    put_uvarint(out, wire_len(inner.len()));
    out.extend_from_slice(&inner);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn varints_come_back_and_have_the_length_foretold() {
        for value in [0, 1, 63, 64, 127, 128, 16_383, 16_384, u64::from(u32::MAX), 1 << 62, 1 << 63, u64::MAX] {
            let mut out = Vec::new();
            put_uvarlong(&mut out, value);
            assert_eq!(out.len(), uvarlong_len(value), "{value}");
            let mut reader = Reader::new(&out);
            assert_eq!(reader.uvarlong(), Ok(value));
            assert!(reader.is_empty());
            out.pop();
            assert_eq!(Reader::new(&out).uvarlong(), Err(DecodeError::Truncated));
        }
        for value in [0, -1, 1, i32::MIN, i32::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Reader::new(&out).varint(), Ok(value));
        }
        for value in [i64::MIN, i64::MAX, -64, 64] {
            let mut out = Vec::new();
            put_varlong(&mut out, value);
            assert_eq!(Reader::new(&out).varlong(), Ok(value));
        }
    }

    #[test]
    fn varints_that_are_too_long_are_refused() {
        assert_eq!(Reader::new(&[0xff; 11]).uvarlong(), Err(DecodeError::Varint));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x10]).uvarint(), Err(DecodeError::Varint));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).uvarint(), Ok(u32::MAX));
    }

    #[test]
    fn counts_are_bounded_by_the_bytes_left() {
        assert_eq!(Reader::new(&[0x7f, 0xff, 0xff, 0xff, 1, 2]).count(false, 1), Err(DecodeError::Count));
        assert_eq!(Reader::new(&[0, 0, 0, 2, 1, 2]).count(false, 1), Ok(2));
        assert_eq!(Reader::new(&[0, 0, 0, 2, 1, 2]).count(false, 2), Err(DecodeError::Count));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xfe]).count(false, 1), Err(DecodeError::Length));
        assert_eq!(Reader::new(&[0]).count(true, 1), Err(DecodeError::Null));
    }

    #[test]
    fn a_long_string_is_cut_at_a_character() {
        let text = "€".repeat(20_000);
        let mut out = Vec::new();
        put_string(&mut out, Some(&text), false);
        let read = Reader::new(&out).string(false).unwrap();
        assert_eq!(read.len(), 32_766);
        assert!(text.starts_with(read));
    }
}
