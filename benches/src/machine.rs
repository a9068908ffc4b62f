//! What was measured on: a number without its machine says nothing.

use std::fs;

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
