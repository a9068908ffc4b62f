//! Free space of a file system.
#![allow(unsafe_code, reason = "statvfs has no safe face in the standard library")]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Bytes that an ordinary user may still allocate there.
pub(super) fn free_bytes(folder: &Path) -> Result<u64> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: all-zero bytes are a valid statvfs, which is plain numbers.
    let mut stats: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a terminated string and the struct outlives the call.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut stats) } != 0 {
        return Err(std::io::Error::last_os_error()).with_context(|| format!("free space of {}", folder.display()));
    }
    Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
}
