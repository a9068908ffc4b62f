//! What was measured on: a number without its machine says nothing.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// Seconds of CPU that a process has used, user and system, from `/proc/PID/stat`; clock ticks of 10 ms.
#[must_use]
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the name in parentheses and may hold spaces.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Seconds of CPU of the calling thread.
#[must_use]
pub fn thread_cpu_seconds() -> f64 {
    clock_seconds(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Seconds of CPU of this process, with all its threads and those that io_uring works with.
#[must_use]
pub fn process_cpu_seconds() -> f64 {
    clock_seconds(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[allow(unsafe_code, reason = "a clock is read into a local")]
fn clock_seconds(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes, and the clock is one that every process has.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "the CPU clocks exist");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Lets the calling thread's sleeps end when they are due, not up to 50 µs later, as the kernel does to save wake-ups.
#[allow(unsafe_code, reason = "a setting of the calling thread")]
pub fn sleep_exactly() {
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1u64, 0u64, 0u64, 0u64) };
}

/// Milliseconds that a fixed amount of work takes now on one core: between the runs it says how quiet the machine is.
#[must_use]
pub fn spin_ms() -> f64 {
    let started = std::time::Instant::now();
    let mut state = 1u64;
    for i in 0..20_000_000u64 {
        state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
    }
    std::hint::black_box(state);
    started.elapsed().as_secs_f64() * 1e3
}

/// A bound on the CPU of a process, in a control group of its own (version 1 or 2) that goes when this is dropped.
pub struct CpuQuota {
    group: PathBuf,
    parent: PathBuf,
    pid: u32,
}

impl CpuQuota {
    /// Bounds the process to `cores` of CPU.
    ///
    /// # Errors
    /// Where control groups cannot be made: it takes root.
    pub fn of(pid: u32, cores: f64) -> Result<Self> {
        const PERIOD_US: f64 = 20_000.0;
        let version_1 = PathBuf::from("/sys/fs/cgroup/cpu");
        let old = version_1.join("cpu.cfs_quota_us").exists() || version_1.join("cgroup.procs").exists();
        let parent = if old { version_1 } else { PathBuf::from("/sys/fs/cgroup") };
        let group = parent.join(format!("barelog-bench-{pid}"));
        fs::create_dir(&group).with_context(|| format!("cannot make the control group {}", group.display()))?;
        let quota = Self { group, parent, pid };
        let us = (cores * PERIOD_US).round();
        if old {
            quota.set("cpu.cfs_period_us", &format!("{PERIOD_US:.0}"))?;
            quota.set("cpu.cfs_quota_us", &format!("{us:.0}"))?;
        } else {
            quota.set("cpu.max", &format!("{us:.0} {PERIOD_US:.0}"))?;
        }
        quota.set("cgroup.procs", &pid.to_string())?;
        Ok(quota)
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.group.join(file);
        fs::write(&path, value).with_context(|| format!("cannot write {value} to {}", path.display()))
    }
}

impl Drop for CpuQuota {
    fn drop(&mut self) {
        // A group is removed when nobody is in it.
        let _ = fs::write(self.parent.join("cgroup.procs"), self.pid.to_string());
        let _ = fs::remove_dir(&self.group);
    }
}

/// Seconds that the hypervisor took from this machine since boot.
#[must_use]
pub fn steal_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let steal =
        stat.lines().next().and_then(|line| line.split_whitespace().nth(8)).and_then(|text| text.parse::<f64>().ok());
    steal.unwrap_or(0.0) / 100.0
}

/// CPU model, cores, kernel, and the disk under `folder`.
#[must_use]
pub fn describe(folder: &std::path::Path) -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown CPU", |rest| rest.trim_start_matches(['\t', ' ', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {cores} cores, Linux {}, {}", kernel.trim(), disk(folder))
}

fn disk(folder: &std::path::Path) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(meta) = fs::metadata(folder) else { return "unknown disk".into() };
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    let sys = format!("/sys/dev/block/{major}:{minor}");
    let name = fs::canonicalize(&sys).ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let cache = fs::read_to_string(format!("{sys}/queue/write_cache")).unwrap_or_else(|_| "unknown cache".into());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let device = format!("{major}:{minor}");
    let kind = mounts.lines().find(|line| line.split_whitespace().nth(2) == Some(&device));
    let kind =
        kind.and_then(|line| line.split(" - ").nth(1)?.split_whitespace().next()).unwrap_or("unknown file system");
    format!("{kind} on {} ({})", name.unwrap_or_else(|| "an unnamed device".into()), cache.trim())
}

/// The middle value; zero for none.
#[must_use]
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
