//! The blocking face of a device: recovery, the keeper and offline tools.
//!
//! # Safety model
//! Every system call gets a descriptor that lives as long as the call and a buffer that is borrowed for the call. Direct I/O
//! wants aligned memory: buffers of the caller that are not aligned go through [`Bounce`], which owns its allocation.
#![allow(unsafe_code, reason = "STYLE rule 18: device system calls that std does not wrap")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use journal::storage::{Storage, StorageError};

use super::{DeviceFile, DeviceKind};
use crate::arena::Mapping;

const ALIGN: usize = 4096;
/// 2 MiB: a direct transfer of this size runs at the device's rate.
const BOUNCE: usize = 2 << 20;

/// Aligned memory for callers whose buffer is not: of the size of a huge page, since the device takes what is contiguous in
/// one request.
#[derive(Debug)]
struct Bounce(Mapping);

impl Bounce {
    /// The bytes of the one in `slot`, made when it is first used.
    fn of(slot: &mut Option<Self>) -> Result<&mut [u8], StorageError> {
        if slot.is_none() {
            let mapping = Mapping::new(BOUNCE, false, false);
            *slot =
                Some(Self(mapping.map_err(|error| StorageError::Io(format!("no memory for a transfer: {error}")))?));
        }
        let bounce = slot.as_mut().expect("just made");
        // SAFETY: the mapping has at least this length, is initialised, and is borrowed through `&mut slot`.
        Ok(unsafe { std::slice::from_raw_parts_mut(bounce.0.base().as_ptr(), BOUNCE) })
    }
}

/// A device with blocking calls. Several may exist for one device; they share its lock.
#[derive(Debug)]
pub struct BlockingStorage {
    device: DeviceFile,
    bounce: Option<Bounce>,
    zeros: Option<Bounce>,
    /// A flush failed, by itself or as a part of growing.
    flush_failed: bool,
    /// Asked before each flush what becomes of it.
    #[cfg(test)]
    pub(crate) on_flush: Option<OnFlush>,
}

#[cfg(test)]
pub(crate) struct OnFlush(pub(crate) Box<dyn FnMut() -> io::Result<()> + Send>);

#[cfg(test)]
impl std::fmt::Debug for OnFlush {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnFlush")
    }
}

impl BlockingStorage {
    /// The blocking face of `device`.
    #[must_use]
    pub const fn new(device: DeviceFile) -> Self {
        Self {
            device,
            bounce: None,
            zeros: None,
            flush_failed: false,
            #[cfg(test)]
            on_flush: None,
        }
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &DeviceFile {
        &self.device
    }

    /// Whether a flush has failed here: what anybody had written to the device before it may be gone, and the next flush of
    /// the same descriptor would not say so.
    #[must_use]
    pub const fn flush_failed(&self) -> bool {
        self.flush_failed
    }

    fn sync(&mut self, call: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
        #[cfg(test)]
        let planted = self.on_flush.as_mut().map_or(Ok(()), |on_flush| on_flush.0());
        #[cfg(not(test))]
        let planted = Ok(());
        let synced = planted.and_then(|()| call(self.device.file()));
        self.flush_failed |= synced.is_err();
        synced
    }

    fn error(&self, call: &str, offset: u64, error: &io::Error) -> StorageError {
        if error.raw_os_error() == Some(libc::ENOSPC) {
            return StorageError::Full;
        }
        StorageError::Io(format!("{call} at {offset} of {}: {error}", self.device.path().display()))
    }

    /// Writes zeros over `offset .. offset + len`.
    ///
    /// # Errors
    /// As [`Storage::write`].
    pub fn write_zeros(&mut self, offset: u64, len: u64) -> Result<(), StorageError> {
        let mut done = 0;
        while done < len {
            let step = usize::try_from(len - done).map_or(BOUNCE, |left| left.min(BOUNCE));
            let zeros = Bounce::of(&mut self.zeros)?;
            let result = self.device.file().write_all_at(&zeros[..step], offset + done);
            result.map_err(|error| self.error("writing zeros", offset + done, &error))?;
            done += step as u64;
        }
        Ok(())
    }
}

fn aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGN) && bytes.len().is_multiple_of(ALIGN)
}

impl Storage for BlockingStorage {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn grow(&mut self, len: u64) -> Result<(), StorageError> {
        // Allocated, not written: the first write of a block that is only allocated costs twice, so the keeper writes zeros over
        // an extent before it is used.
        let now = self.device.len();
        if len <= now {
            return Ok(());
        }
        if self.device.kind() == DeviceKind::Block {
            return Err(StorageError::Full);
        }
        let allocated = allocate(self.device.file(), now, len - now);
        let grown = allocated.and_then(|()| self.sync(File::sync_all));
        if let Err(error) = grown {
            // What was allocated before the failure goes back, so that a full disk is not made fuller.
            let _ = self.device.file().set_len(now);
            return Err(self.error("allocating", now, &error));
        }
        self.device.set_len(len);
        Ok(())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let file = self.device.file();
        let result = if aligned(into) {
            file.read_exact_at(into, offset)
        } else {
            let bounce = Bounce::of(&mut self.bounce)?;
            let mut at = offset;
            into.chunks_mut(BOUNCE).try_for_each(|part| {
                let whole = part.len().next_multiple_of(ALIGN);
                file.read_exact_at(&mut bounce[..whole], at)?;
                part.copy_from_slice(&bounce[..part.len()]);
                at += part.len() as u64;
                Ok(())
            })
        };
        result.map_err(|error| self.error("reading", offset, &error))
    }

    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), StorageError> {
        assert!(from.len().is_multiple_of(ALIGN), "whole sectors are written");
        let file = self.device.file();
        let result = if aligned(from) {
            file.write_all_at(from, offset)
        } else {
            let bounce = Bounce::of(&mut self.bounce)?;
            let mut at = offset;
            from.chunks(BOUNCE).try_for_each(|part| {
                bounce[..part.len()].copy_from_slice(part);
                file.write_all_at(&bounce[..part.len()], at)?;
                at += part.len() as u64;
                Ok(())
            })
        };
        result.map_err(|error| self.error("writing", offset, &error))
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        self.sync(File::sync_data).map_err(|error| self.error("flushing", 0, &error))
    }
}

fn allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let (offset, len) = (i64::try_from(offset).map_err(too_large)?, i64::try_from(len).map_err(too_large)?);
    loop {
        // SAFETY: the descriptor is open; no memory is involved.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, len) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // A file system without fallocate: the zeros that follow allocate.
            Some(libc::EOPNOTSUPP) => return file.set_len((offset + len).cast_unsigned()),
            _ => return Err(error),
        }
    }
}

/// Bytes of a file or block device.
pub(super) fn length(file: &File, kind: DeviceKind) -> io::Result<u64> {
    if kind == DeviceKind::File {
        return Ok(file.metadata()?.len());
    }
    const BLKGETSIZE64: libc::Ioctl = 0x8008_1272_u32 as libc::Ioctl;
    let mut bytes = 0u64;
    // SAFETY: BLKGETSIZE64 writes one u64 to the address given.
    if unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes)
}

/// Smallest direct transfer that the kernel takes for this file (`STATX_DIOALIGN`, Linux 6.1); 0: none; `None`: not told.
pub(super) fn direct_alignment(file: &File) -> io::Result<Option<u32>> {
    let mut answer = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: an empty path with AT_EMPTY_PATH names the descriptor itself; `answer` has room for the struct.
    let failed = unsafe {
        libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, answer.as_mut_ptr())
    } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all-zero is a valid `statx`, and the kernel has filled it.
    let answer = unsafe { answer.assume_init() };
    Ok((answer.stx_mask & libc::STATX_DIOALIGN != 0).then_some(answer.stx_dio_offset_align))
}
