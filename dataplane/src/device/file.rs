//! Opening and locking a device.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::policy::DevicePolicy;

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A preallocated file.
    File,
    /// A raw block device.
    Block,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "file",
            Self::Block => "block",
        })
    }
}

/// Why a device cannot be opened; the text says what to do.
#[derive(Debug)]
pub enum DeviceError {
    /// Another process has it.
    InUse {
        /// Which.
        path: PathBuf,
    },
    /// The file system does not take `O_DIRECT`.
    DirectRefused {
        /// Which.
        path: PathBuf,
    },
    /// A file where a block device is configured, or the other way round.
    WrongKind {
        /// Which.
        path: PathBuf,
        /// As configured.
        wanted: DeviceKind,
    },
    /// Larger sectors than the format's 4096 bytes.
    Sectors {
        /// Which.
        path: PathBuf,
        /// Smallest direct write in bytes.
        bytes: u32,
    },
    /// The call named failed.
    Io {
        /// Which.
        path: PathBuf,
        /// What was tried.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path } => write!(
                f,
                "device {} is in use by another process: stop the other broker (or unmount it), or choose another data directory",
                path.display()
            ),
            Self::DirectRefused { path } => write!(
                f,
                "the file system under {} refuses O_DIRECT, without which nothing is known to be durable: put the data directory on ext4, \
                 xfs or btrfs, or use a raw block device",
                path.display()
            ),
            Self::WrongKind { path, wanted } => {
                write!(f, "{} is not a {wanted} device: correct its `kind` in the configuration", path.display())
            }
            Self::Sectors { path, bytes } => write!(
                f,
                "device {} writes at least {bytes} bytes at a time, the format needs 4096 or fewer: use another device",
                path.display()
            ),
            Self::Io { path, call, source } => write!(f, "device {}: {call} failed: {source}", path.display()),
        }
    }
}

impl std::error::Error for DeviceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Inner {
    file: File,
    path: PathBuf,
    kind: DeviceKind,
    len: AtomicU64,
    policy: DevicePolicy,
}

/// An open, exclusively locked device. Clones share the open file description, and the lock with it.
#[derive(Clone, Debug)]
pub struct DeviceFile {
    inner: Arc<Inner>,
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

impl DeviceFile {
    /// Opens and locks a device; nothing of it is read before the lock is held. A missing file is created empty.
    ///
    /// # Errors
    /// See [`DeviceError`].
    pub fn open(path: &Path, kind: DeviceKind) -> Result<Self, DeviceError> {
        let fail = |call| move |source| DeviceError::Io { path: path.to_owned(), call, source };
        if let Ok(metadata) = std::fs::metadata(path) {
            let is_block = metadata.file_type().is_block_device();
            if is_block != (kind == DeviceKind::Block) || metadata.is_dir() {
                return Err(DeviceError::WrongKind { path: path.to_owned(), wanted: kind });
            }
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(match kind {
            DeviceKind::File => libc::O_DIRECT | libc::O_CLOEXEC,
            // Without O_CREAT, O_EXCL on a block device asks the kernel for the exclusive claim that a mount takes too.
            DeviceKind::Block => libc::O_DIRECT | libc::O_CLOEXEC | libc::O_EXCL,
        });
        if kind == DeviceKind::File {
            options.create(true).mode(0o640);
        }
        let file = options.open(path).map_err(|source| match source.raw_os_error() {
            Some(libc::EINVAL) => DeviceError::DirectRefused { path: path.to_owned() },
            Some(libc::EBUSY) => DeviceError::InUse { path: path.to_owned() },
            _ => fail("open")(source),
        })?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => DeviceError::InUse { path: path.to_owned() },
            TryLockError::Error(source) => fail("flock")(source),
        })?;
        let len = super::storage::length(&file, kind).map_err(fail("reading the size"))?;
        if kind == DeviceKind::File && len == 0 {
            // It is new: its name must outlast a power cut as its bytes do.
            sync_folder(path).map_err(fail("syncing the folder"))?;
        }
        let policy = DevicePolicy::choose(&file, kind).map_err(fail("reading the policy"))?;
        match super::storage::direct_alignment(&file).map_err(fail("statx"))? {
            Some(0) if kind == DeviceKind::File => return Err(DeviceError::DirectRefused { path: path.to_owned() }),
            Some(bytes) if bytes > 4096 => return Err(DeviceError::Sectors { path: path.to_owned(), bytes }),
            _ => {}
        }
        let inner = Inner { file, path: path.to_owned(), kind, len: AtomicU64::new(len), policy };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// File or block device.
    #[must_use]
    pub fn kind(&self) -> DeviceKind {
        self.inner.kind
    }

    /// How its writes become durable, and why.
    #[must_use]
    pub fn policy(&self) -> &DevicePolicy {
        &self.inner.policy
    }

    /// Bytes it has now.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.inner.len.load(Ordering::Acquire)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn set_len(&self, len: u64) {
        self.inner.len.store(len, Ordering::Release);
    }

    pub(super) fn file(&self) -> &File {
        &self.inner.file
    }

    /// The descriptor, for a ring.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.inner.file.as_raw_fd()
    }
}
