//! What the machine offers, for `barelog check`.
#![allow(unsafe_code, reason = "reading a resource limit has no safe wrapper in std")]

use std::fmt;
use std::path::{Path, PathBuf};

use crate::arena::{Arena, ArenaConfig};
use crate::device::{DeviceError, DeviceFile, DeviceKind, DevicePolicy};
use crate::ring::Ring;

/// How a finding is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Works, but slower or with less.
    Weak,
    /// The broker does not start like this.
    Bad,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Good => "ok",
            Self::Weak => "warning",
            Self::Bad => "error",
        })
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Of what.
    pub subject: String,
    /// How it is meant.
    pub verdict: Verdict,
    /// What was found, and what to do about it.
    pub text: String,
}

fn finding(subject: impl Into<String>, verdict: Verdict, text: impl Into<String>) -> Finding {
    Finding { subject: subject.into(), verdict, text: text.into() }
}

/// Looks at the machine and at the devices that are configured. Nothing is changed: of a device file that does not exist yet
/// only its folder is looked at. `arena_bytes`: memory of all shards' arenas together.
#[must_use]
pub fn machine(devices: &[(PathBuf, DeviceKind)], arena_bytes: usize) -> Vec<Finding> {
    let mut findings = vec![ring(), memlock(arena_bytes), huge_pages()];
    for (path, kind) in devices {
        findings.extend(device(path, *kind));
    }
    findings
}

fn ring() -> Finding {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    match Ring::new() {
        Ok(_) => finding("io_uring", Verdict::Good, format!("available, Linux {}", release.trim())),
        Err(error) => finding("io_uring", Verdict::Bad, error.to_string()),
    }
}

/// Soft limit of locked memory in bytes; `None`: unlimited.
fn memlock_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid place for the answer.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

fn memlock(arena_bytes: usize) -> Finding {
    let needed = arena_bytes as u64;
    let good = |why: &str| finding("memlock", Verdict::Good, format!("{why}: device buffers are registered"));
    let Some(limit) = memlock_limit() else { return good("unlimited") };
    if limit >= needed {
        return good(&format!("{} MiB", limit >> 20));
    }
    if may_lock(arena_bytes) {
        return good("the limit does not bind this user");
    }
    finding(
        "memlock",
        Verdict::Weak,
        format!(
            "{} MiB, the arenas have {} MiB: device buffers are not registered, writes cost more CPU; raise it with `ulimit -l` or \
             LimitMEMLOCK= in the unit",
            limit >> 20,
            needed >> 20
        ),
    )
}

/// Whether the kernel will let this process register so much memory with io_uring.
pub(crate) fn may_lock(bytes: usize) -> bool {
    let Some(limit) = memlock_limit().filter(|&limit| limit < bytes as u64) else { return true };
    // A process with CAP_IPC_LOCK is not charged: try with a little more than the limit.
    let probe = usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1 << 20).min(64 << 20);
    probe as u64 > limit && registers(probe)
}

fn registers(bytes: usize) -> bool {
    let config = ArenaConfig { tail_bytes: bytes, cold_bytes: 0, huge_pages: false, prefault: false };
    let (Ok(ring), Ok(arena)) = (Ring::new(), Arena::new(config)) else { return false };
    let (base, len) = arena.memory().whole();
    // SAFETY: the arena outlives the ring, which is dropped first.
    let registered = ring.reserve_pieces(1).is_ok() && unsafe { ring.register_piece(0, base.as_ptr(), len) }.is_ok();
    drop(ring);
    registered
}

fn huge_pages() -> Finding {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = meminfo.lines().find(|line| line.starts_with(name))?;
        line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let free = field("HugePages_Free:").unwrap_or(0);
    if free > 0 {
        return finding(
            "huge pages",
            Verdict::Good,
            format!("{free} free of {} KiB", field("Hugepagesize:").unwrap_or(0)),
        );
    }
    let advised = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|text| text.contains("[madvise]") || text.contains("[always]"));
    if advised {
        finding("huge pages", Verdict::Good, "none reserved; transparent huge pages are used")
    } else {
        finding(
            "huge pages",
            Verdict::Weak,
            "none reserved and transparent ones are off: `sysctl vm.nr_hugepages=N`, or `echo madvise > \
             /sys/kernel/mm/transparent_hugepage/enabled`",
        )
    }
}

fn device(path: &Path, kind: DeviceKind) -> Vec<Finding> {
    let subject = format!("device {}", path.display());
    let (probe, fresh) = match (kind, path.exists()) {
        (DeviceKind::File, false) => {
            let folder = path.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
            (folder.join(format!(".barelog-check-{}", std::process::id())), true)
        }
        _ => (path.to_owned(), false),
    };
    let opened = DeviceFile::open(&probe, kind);
    if fresh {
        // What was made for the look goes away again, whatever came of it.
        let _ = std::fs::remove_file(&probe);
    }
    match opened {
        Ok(device) => vec![
            finding(&subject, Verdict::Good, "takes O_DIRECT"),
            finding(&subject, Verdict::Good, device.policy().reason.clone()),
        ],
        Err(DeviceError::InUse { .. }) => {
            let policy = std::fs::File::open(path).and_then(|file| DevicePolicy::choose(&file, kind));
            let policy = policy.map_or_else(|error| format!("policy unknown: {error}"), |policy| policy.reason);
            vec![
                finding(&subject, Verdict::Weak, "in use by another process, a running broker perhaps"),
                finding(&subject, Verdict::Good, policy),
            ]
        }
        Err(error) => vec![finding(&subject, Verdict::Bad, error.to_string())],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;
    use crate::testing::scratch;

    #[test]
    fn the_report_names_ring_memory_and_devices_and_changes_nothing() {
        let dir = scratch();
        let there = dir.path().join("there");
        std::fs::write(&there, b"").unwrap();
        let missing = dir.path().join("sub/missing");
        let report = machine(&[(missing, DeviceKind::File), (there.clone(), DeviceKind::File)], 1 << 20);
        for subject in ["io_uring", "memlock", "huge pages"] {
            assert!(report.iter().any(|finding| finding.subject == subject), "{subject}");
        }
        let policies = report.iter().filter(|finding| finding.text.contains("flush") || finding.text.contains("FUA"));
        assert_eq!(policies.count(), 2, "{report:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_in_use_still_shows_its_policy() {
        let dir = scratch();
        let path = dir.path().join("device");
        let _open = DeviceFile::open(&path, DeviceKind::File).unwrap();
        let report = device(&path, DeviceKind::File);
        assert!(report[0].text.contains("in use") && report[1].text.contains("write"), "{report:?}");
    }

    #[test]
    fn a_device_that_cannot_be_used_is_bad() {
        let report = device(Path::new("/proc/self/comm"), DeviceKind::File);
        assert!(matches!(report[..], [Finding { verdict: Verdict::Bad, .. }]), "{report:?}");
    }
}
