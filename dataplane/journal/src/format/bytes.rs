//! Reading and writing little-endian fields in order. Reading past the end is an error, never a panic.

use alloc::vec::Vec;

use base::Checksums;

use super::error::FormatError;
use super::{ALGORITHM_CRC64_NVME, SECTOR, VERSION};

/// Takes fields off the front of bytes.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! take_number {
    ($name:ident, $type:ty) => {
        pub(super) fn $name(&mut self) -> Result<$type, FormatError> {
            Ok(<$type>::from_le_bytes(self.array()?))
        }
    };
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(FormatError::Short)?;
        self.rest = rest;
        Ok(*head)
    }

    pub(super) fn slice(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(FormatError::Short)?;
        self.rest = rest;
        Ok(head)
    }

    take_number!(u8, u8);
    take_number!(u16, u16);
    take_number!(u32, u32);
    take_number!(u64, u64);
    take_number!(u128, u128);
    take_number!(i16, i16);
    take_number!(i32, i32);
    take_number!(i64, i64);

    /// A count of things that take at least `each` bytes, so that a wrong count cannot ask for more memory than the bytes
    /// that are there justify.
    pub(super) fn count(&mut self, each: usize) -> Result<usize, FormatError> {
        let count = usize::try_from(self.u32()?).map_err(|_| FormatError::Field("count"))?;
        if count > self.rest.len() / each {
            return Err(FormatError::Short);
        }
        Ok(count)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Appends fields to bytes.
pub(super) trait Put {
    fn put(&mut self, bytes: &[u8]);
    /// A length that our own code made; all of them are far below 4 GiB.
    fn put_count(&mut self, count: usize);
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn put_count(&mut self, count: usize) {
        self.put(&u32::try_from(count).expect("fewer than 2^32 entries fit in memory here").to_le_bytes());
    }
}

/// Fills a fixed run of bytes from the front.
pub(super) struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    pub(super) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { rest: bytes }
    }

    /// # Panics
    /// When `bytes` does not fit: the sizes of fixed structures are constants.
    pub(super) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        let rest = core::mem::take(&mut self.rest);
        let (head, tail) = rest.split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.rest = tail;
        self
    }
}

/// Where a page's checksum lies: its last 8 bytes, in every version.
const PAGE_SUM_AT: usize = SECTOR - 8;

/// Starts a 4 KiB page: zeroes it, writes magic, version, algorithm and five bytes of zero. The fields follow at 16.
pub(super) fn page_begin<'a>(page: &'a mut [u8; SECTOR], magic: &[u8; 8]) -> Writer<'a> {
    page.fill(0);
    let mut writer = Writer::new(&mut page[..PAGE_SUM_AT]);
    writer.put(magic).put(&VERSION.to_le_bytes()).put(&[ALGORITHM_CRC64_NVME, 0, 0, 0, 0, 0]);
    writer
}

/// Seals a page with its checksum.
pub(super) fn page_seal(page: &mut [u8; SECTOR], sums: &Checksums) {
    let sum = (sums.crc64)(0, &page[..PAGE_SUM_AT]);
    page[PAGE_SUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

/// Checks a page and gives a reader of its fields.
pub(super) fn page_open<'a>(bytes: &'a [u8], magic: &[u8; 8], sums: &Checksums) -> Result<Reader<'a>, FormatError> {
    let page: &[u8; SECTOR] = bytes.first_chunk().ok_or(FormatError::Short)?;
    let (body, sum) = page.split_at(PAGE_SUM_AT);
    let mut reader = Reader::new(body);
    if reader.array::<8>()? != *magic {
        return Err(FormatError::Magic);
    }
    if (sums.crc64)(0, body).to_le_bytes() != sum {
        return Err(FormatError::Checksum);
    }
    let version = reader.u16()?;
    if version > VERSION {
        return Err(FormatError::NewerVersion { version });
    }
    if version == 0 {
        return Err(FormatError::Field("version"));
    }
    algorithm(reader.u8()?)?;
    reader.slice(5)?;
    Ok(reader)
}

/// Checks the algorithm byte of everything but unit headers.
pub(super) const fn algorithm(found: u8) -> Result<(), FormatError> {
    if found == ALGORITHM_CRC64_NVME { Ok(()) } else { Err(FormatError::Algorithm { found }) }
}
