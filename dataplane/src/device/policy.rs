//! How writes of a device become durable: chosen from what sysfs and the file system say, never better than they say.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use journal::store::Durability;

use super::DeviceKind;

/// The policy and its reason, for the log and `barelog check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePolicy {
    /// What is done.
    pub durability: Durability,
    /// Why.
    pub reason: String,
}

/// What the queue of a block device reports; `None` where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) write_back: Option<bool>,
    pub(super) fua: bool,
}

/// File systems that overwrite in place and turn a data-sync write into FUA where the device has it.
const OVERWRITING: [(i64, &str); 2] = [(0xef53, "ext4"), (0x5846_5342, "xfs")];

impl DevicePolicy {
    pub(crate) fn choose(file: &File, kind: DeviceKind) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(match kind {
            DeviceKind::Block => decide(kind, None, queue_of(Path::new("/sys"), metadata.rdev())),
            DeviceKind::File => {
                let magic = file_system(file)?;
                let name = OVERWRITING.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name);
                decide(kind, name, queue_of(Path::new("/sys"), metadata.dev()))
            }
        })
    }
}

/// The choice itself. `file_system`: name of an overwriting file system, `None` for a copy-on-write or unknown one.
pub(super) fn decide(kind: DeviceKind, file_system: Option<&str>, queue: Option<Queue>) -> DevicePolicy {
    let policy = |durability, reason: String| DevicePolicy { durability, reason };
    let queue = match (kind, file_system, queue) {
        (DeviceKind::File, None, _) => {
            return policy(
                Durability::Flush,
                "a flush after the writes: the file system is copy-on-write or unknown".to_owned(),
            );
        }
        (_, _, None) => {
            return policy(
                Durability::Flush,
                "a flush after the writes: the device says nothing of its cache".to_owned(),
            );
        }
        (_, _, Some(queue)) => queue,
    };
    let on = file_system.map_or_else(|| "raw device".to_owned(), |name| format!("file on {name}"));
    match (kind, queue.write_back, queue.fua) {
        (DeviceKind::Block, Some(false), _) => {
            policy(Durability::WriteThrough, "no flush: raw device that reports write through".to_owned())
        }
        (_, Some(true), true) => {
            policy(Durability::Fua, format!("FUA with every write: {on}, write-back cache with FUA"))
        }
        (_, Some(true), false) => {
            policy(Durability::Flush, format!("a flush after the writes: {on}, write-back cache without FUA"))
        }
        (_, Some(false), _) => policy(
            Durability::Flush,
            format!("a flush after the writes: {on}; write through, but a file always needs one"),
        ),
        (_, None, _) => policy(Durability::Flush, format!("a flush after the writes: {on}, cache unknown")),
    }
}

/// Reads `queue/write_cache` and `queue/fua` of the disk that device number `dev` lies on.
pub(super) fn queue_of(sys: &Path, dev: u64) -> Option<Queue> {
    let (major, minor) = (libc::major(dev), libc::minor(dev));
    if major == 0 {
        return None; // an anonymous device: tmpfs, overlay, FUSE, btrfs
    }
    let mut disk: PathBuf = std::fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}"))).ok()?;
    if disk.join("partition").exists() {
        disk.pop();
    }
    let read = |name| std::fs::read_to_string(disk.join("queue").join(name)).ok();
    let write_back = match read("write_cache")?.trim() {
        "write back" => Some(true),
        "write through" => Some(false),
        _ => None,
    };
    Some(Queue { write_back, fua: read("fua").is_some_and(|text| text.trim() == "1") })
}

#[allow(unsafe_code, reason = "fstatfs has no safe wrapper in std")]
fn file_system(file: &File) -> io::Result<i64> {
    let mut answer = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the descriptor is open and `answer` has room for the struct, which the kernel fills.
    if unsafe { libc::fstatfs(file.as_raw_fd(), answer.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all-zero is a valid `statfs`, and the kernel has filled it.
    let answer = unsafe { answer.assume_init() };
    #[allow(clippy::useless_conversion, reason = "the field's type differs between architectures")]
    Ok(i64::from(answer.f_type))
}
