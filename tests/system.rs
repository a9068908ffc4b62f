//! The binary as an operator meets it: starting, refusing, stopping, bad input, small machines.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of the test itself")]
#![allow(
    unsafe_code,
    reason = "limits and a seccomp filter are set between fork and exec, by async-signal-safe calls only"
)]

mod common;

#[path = "common/wire.rs"]
mod wire;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Broker, binary, folder, free_address, http, http_get, run, run_ok, skip};

fn barelog(args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args);
    command
}

fn produce(broker: &Broker, topic: &str, lines: &str) {
    run_ok(&mut barelog(&["produce", topic, "--bootstrap", &broker.bootstrap()]), lines.as_bytes());
}

fn consume(broker: &Broker, topic: &str) -> String {
    let args = ["consume", topic, "--from-beginning", "--exit-eof", "--bootstrap", &broker.bootstrap()];
    run_ok(&mut barelog(&args), b"")
}

fn is_root() -> bool {
    // SAFETY: no arguments, no memory.
    unsafe { libc::geteuid() == 0 }
}

/// Starts a broker that is expected to end by itself; its log.
fn refused(dir: &Path, flags: &[&str], change: impl FnOnce(&mut Command)) -> String {
    let (mut broker, _) = Broker::spawn(dir, flags, change);
    let status = broker.wait(Duration::from_secs(20)).expect("it refuses within 20 s");
    assert!(!status.success(), "it ended with success");
    broker.log_text()
}

#[test]
fn what_was_acknowledged_is_there_after_an_orderly_stop_and_a_start() {
    let dir = folder();
    let data = dir.path().join("data");
    let broker = Broker::start(&data);
    produce(&broker, "greetings", "one\ntwo\nthree\n");
    let (status, took) = broker.stop();
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(5), "an idle broker took {took:?} to stop");
    let broker = Broker::start(&data);
    assert_eq!(consume(&broker, "greetings"), "one\ntwo\nthree\n");
}

#[test]
fn what_outlives_a_deleted_topic_is_written_together_and_survives_a_kill() {
    let dir = folder();
    let data = dir.path().join("data");
    let broker = Broker::start(&data);
    let bulk = ("x".repeat(900_000) + "\n").repeat(100);
    let mut kept = String::new();
    // Some extents of 64 MiB, with a few records in each that stay.
    for round in 0..7 {
        let lines: String = (0..50).map(|i| format!("{round}-{i}\n")).collect();
        produce(&broker, "kept", &lines);
        produce(&broker, "bulk", &bulk);
        kept += &lines;
    }
    let bootstrap = broker.bootstrap();
    run_ok(&mut barelog(&["topic", "delete", "bulk", "--bootstrap", &bootstrap]), b"");
    let clustered = |broker: &Broker| {
        let (_, text) = http_get(broker.http, "/metrics").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("barelog_extents_clustered_total{shard=\"0\"} "));
        line.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0)
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while clustered(&broker) < 3 {
        assert!(Instant::now() < deadline, "{} extents were clustered within a minute", clustered(&broker));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(consume(&broker, "kept"), kept);
    broker.kill();
    let broker = Broker::start(&data);
    assert_eq!(consume(&broker, "kept"), kept);
    let (_, found) = http_get(broker.http, "/damage").unwrap();
    assert!(!found.contains("kept"), "{found}");
}

#[test]
fn sigterm_under_load_stops_within_seconds_and_loses_nothing_acknowledged() {
    let dir = folder();
    let data = dir.path().join("data");
    let broker = Broker::start(&data);
    produce(&broker, "load", &("y".repeat(999) + "\n"));
    let bootstrap = broker.bootstrap();
    let load = std::thread::spawn(move || {
        let lines = "x".repeat(999) + "\n";
        let args = ["produce", "load", "--bootstrap", &bootstrap, "--timeout", "3s"];
        // It fails when the broker goes away; how much was acknowledged is asked of the log afterwards.
        let _ = run(&mut barelog(&args), lines.repeat(300_000).as_bytes(), Duration::from_secs(60));
    });
    std::thread::sleep(Duration::from_millis(700));
    let (status, took) = broker.stop();
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(10), "it took {took:?} to stop under load");
    load.join().unwrap();
    let broker = Broker::start(&data);
    let text = consume(&broker, "load");
    assert!(text.starts_with('y') && text.lines().all(|line| line.len() == 999), "records are whole");
}

#[test]
fn a_second_broker_on_the_same_directory_is_refused_by_name() {
    let dir = folder();
    let data = dir.path().join("data");
    let _first = Broker::start(&data);
    let log = refused(&data, &[], |_| {});
    assert!(log.contains("another broker") || log.contains("in use"), "{log}");
}

#[test]
fn identities_persist_and_others_are_refused() {
    let dir = folder();
    let config = dir.path().join("barelog.toml");
    let write = |node: i32| {
        let (bind, http) = (free_address(), free_address());
        let text = format!(
            "node.id = {node}\ndata.dir = \"{}\"\nhttp.bind = \"{http}\"\n[[listeners]]\nname = \"a\"\nbind = \"{bind}\"\n",
            dir.path().join("data").display()
        );
        std::fs::write(&config, text).unwrap();
        http
    };
    let serve = || {
        let mut command = barelog(&["serve", "--config"]);
        command.arg(&config);
        command
    };
    let address = write(7);
    let mut child = serve().stderr(std::process::Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while http_get(address, "/health").is_none_or(|(status, _)| status != 200) {
        assert!(Instant::now() < deadline, "not healthy");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    write(8);
    let (_, error, success) = run(&mut serve(), b"", Duration::from_secs(20));
    assert!(!success && error.contains('7') && error.contains('8') && error.contains("node.id"), "{error}");
}

#[test]
fn a_wrong_configuration_is_refused_before_anything_starts() {
    let dir = folder();
    let config = dir.path().join("barelog.toml");
    std::fs::write(&config, "node.id = 1\nnum.partition = 3\n").unwrap();
    let mut command = barelog(&["serve", "--check-config", "--config"]);
    let (_, error, success) = run(command.arg(&config), b"", Duration::from_secs(10));
    assert!(!success);
    assert!(error.contains(":2: unknown key num.partition; the nearest valid key is num.partitions"), "{error}");
    std::fs::write(&config, "node.id = 1\nnum.partitions = 3\n").unwrap();
    let mut command = barelog(&["serve", "--check-config", "--config"]);
    run_ok(command.arg(&config), b"");
}

#[test]
fn io_uring_forbidden_is_named_with_its_remedy() {
    let dir = folder();
    let log = refused(&dir.path().join("data"), &[], |command| {
        // SAFETY: only prctl between fork and exec.
        unsafe { command.pre_exec(forbid_io_uring) };
    });
    assert!(log.contains("io_uring"), "{log}");
    assert!(log.contains("io_uring_disabled") || log.contains("seccomp"), "the remedy is missing: {log}");
}

/// A seccomp filter that answers `io_uring_setup` with EPERM, as container runtimes do.
fn forbid_io_uring() -> std::io::Result<()> {
    const SETUP: u32 = 425;
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: 0, jf: 1, k: SETUP },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the program outlives the calls, which copy it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// A file system of its own for a test, unmounted when dropped.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(kind: &str, options: &str) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let dir = folder();
        let status = Command::new("mount").args(["-t", kind, "-o", options, "none"]).arg(dir.path()).status().ok()?;
        status.success().then_some(Self(dir))
    }

    /// An ext4 file system of `mib` MiB in a loop-mounted file.
    fn ext4(mib: u64, image: &Path) -> Option<Self> {
        if !is_root() {
            return None;
        }
        std::fs::File::create(image).ok()?.set_len(mib << 20).ok()?;
        let dir = folder();
        let made = Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(image).status().ok()?.success();
        let mounted =
            made && Command::new("mount").args(["-o", "loop"]).arg(image).arg(dir.path()).status().ok()?.success();
        mounted.then_some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn o_direct_refused_by_the_file_system_is_named_with_its_remedy() {
    let Some(mount) = Mount::new("ramfs", "mode=0777") else { return skip("mounting ramfs needs root") };
    let log = refused(&mount.path().join("data"), &[], |_| {});
    assert!(log.contains("O_DIRECT"), "{log}");
    assert!(log.contains("ext4") || log.contains("xfs") || log.contains("file system"), "the remedy is missing: {log}");
}

#[test]
fn a_disk_too_full_to_create_a_directory_is_named() {
    let dir = folder();
    let Some(mount) = Mount::ext4(64, &dir.path().join("small.img")) else { return skip("a loop mount needs root") };
    let log = refused(&mount.path().join("data"), &[], |_| {});
    assert!(log.contains("space") || log.contains("full"), "{log}");
}

#[test]
fn an_existing_directory_on_a_full_disk_serves_reads_and_deletes() {
    let dir = folder();
    let Some(mount) = Mount::ext4(1200, &dir.path().join("disk.img")) else { return skip("a loop mount needs root") };
    let data = mount.path().join("data");
    let broker = Broker::start(&data);
    produce(&broker, "kept", "still here\n");
    produce(&broker, "dropped", "gone soon\n");
    assert!(broker.stop().0.success());
    // Fill what is left to the last block.
    let mut filler = std::fs::File::create(mount.path().join("filler")).unwrap();
    let block = vec![1u8; 1 << 20];
    while filler.write_all(&block).is_ok() {}
    while filler.write_all(&block[..4096]).is_ok() {}
    let broker = Broker::start(&data);
    assert_eq!(consume(&broker, "kept"), "still here\n");
    run_ok(&mut barelog(&["topic", "delete", "dropped", "--bootstrap", &broker.bootstrap()]), b"");
    let topics = run_ok(&mut barelog(&["topic", "list", "--bootstrap", &broker.bootstrap()]), b"");
    assert!(topics.contains("kept") && !topics.contains("dropped"), "{topics}");
    assert!(broker.stop().0.success());
}

#[test]
fn an_ordinary_user_with_little_locked_memory_is_served_with_one_warning() {
    if !is_root() {
        return skip("becoming another user needs root");
    }
    // The folders of the checkout may be closed to others: the binary and the data go where everybody may look.
    let open = tempfile::Builder::new().prefix("barelog-").tempdir_in("/var/tmp").unwrap();
    std::os::unix::fs::chown(open.path(), Some(65534), Some(65534)).unwrap();
    let program = open.path().join("barelog");
    std::fs::copy(binary(), &program).unwrap();
    let data = open.path().join("data");
    let (address, metrics) = (free_address(), free_address());
    let log_path = open.path().join("log");
    let mut command = Command::new(&program);
    command
        .args(["dev", "--listen", &address.to_string(), "--metrics-listen", &metrics.to_string(), "--data-dir"])
        .arg(&data)
        .current_dir("/")
        .stderr(std::fs::File::create(&log_path).unwrap());
    // SAFETY: only setrlimit, setgid and setuid between fork and exec.
    unsafe { command.pre_exec(become_nobody) };
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while http_get(metrics, "/health").is_none_or(|(status, _)| status != 200) {
        let log = std::fs::read_to_string(&log_path).unwrap();
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "{log}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let bootstrap = address.to_string();
    run_ok(&mut barelog(&["produce", "t", "--bootstrap", &bootstrap]), b"hello\n");
    let _ = child.kill();
    let _ = child.wait();
    let log = std::fs::read_to_string(&log_path).unwrap();
    assert_eq!(log.matches("memlock").count(), 1, "one warning, not none and not many: {log}");
}

/// nobody, with 8 MiB of memory to lock.
fn become_nobody() -> std::io::Result<()> {
    let limit = libc::rlimit { rlim_cur: 8 << 20, rlim_max: 8 << 20 };
    // SAFETY: the limit outlives the call.
    let done = unsafe {
        libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) == 0
            && libc::setgroups(0, std::ptr::null()) == 0
            && libc::setgid(65534) == 0
            && libc::setuid(65534) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn resident_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn hostile_bytes_close_the_connection_and_cost_no_memory() {
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    produce(&broker, "before", "fine\n");
    let before = resident_mib(broker.pid());
    let mut seed = 1u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u8
    };
    for round in 0..300u32 {
        let Ok(mut stream) = TcpStream::connect(broker.address) else {
            panic!("the broker does not accept in round {round}")
        };
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let bytes: Vec<u8> = match round % 5 {
            // Length bombs: two gigabytes, negative, just above the bound.
            0 => vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 9],
            1 => vec![0xff, 0xff, 0xff, 0xff, 1, 2, 3],
            // Noise.
            2 => (0..2000).map(|_| random()).collect(),
            // A plausible header, then noise as the body, for every API key there is.
            3 => {
                let mut body = vec![0, (round / 5) as u8, 0, (round % 14) as u8, 0, 0, 0, 1, 0xff, 0xff];
                body.extend((0..300).map(|_| random()));
                let mut framed = (body.len() as u32).to_be_bytes().to_vec();
                framed.extend(body);
                framed
            }
            // Truncated: half of a frame, then gone.
            _ => vec![0, 0, 4, 0, 0, 3, 0, 1, 0, 0],
        };
        let _ = stream.write_all(&bytes);
        if round % 5 < 3 {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        }
    }
    let grown = resident_mib(broker.pid()).saturating_sub(before);
    assert!(grown < 64, "resident memory grew by {grown} MiB");
    assert_eq!(consume(&broker, "before"), "fine\n");
}

#[test]
fn a_quiet_broker_uses_under_one_percent_of_a_core() {
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    produce(&broker, "t", "once\n");
    std::thread::sleep(Duration::from_secs(3));
    let ticks = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let rest = stat.rsplit_once(')').unwrap().1.split_whitespace().map(String::from).collect::<Vec<_>>();
        rest[11].parse::<u64>().unwrap() + rest[12].parse::<u64>().unwrap()
    };
    let before = ticks(broker.pid());
    std::thread::sleep(Duration::from_secs(10));
    let used = ticks(broker.pid()) - before;
    // 10 s are 1,000 ticks; one percent is 10.
    assert!(used < 10, "{used} ticks of 10 ms in 10 s");
}

#[test]
fn health_metrics_and_log_level_are_served() {
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    produce(&broker, "measured", "a\nb\n");
    let (status, metrics) = http_get(broker.http, "/metrics").unwrap();
    assert_eq!(status, 200);
    for name in
        ["barelog_requests_total", "barelog_device_writes_total", "barelog_connections", "barelog_commit_latency"]
    {
        assert!(metrics.contains(name), "{name} is missing:\n{metrics}");
    }
    let (status, _) = http(broker.http, "PUT", "/log-level", "debug").unwrap();
    assert_eq!(status, 200);
    let (_, level) = http_get(broker.http, "/log-level").unwrap();
    assert!(level.contains("debug"), "{level}");
    let (status, _) = http(broker.http, "PUT", "/log-level", "no=such=level").unwrap();
    assert_eq!(status, 400);
}

#[test]
fn a_raw_block_device_is_served_and_survives_a_kill() {
    if !is_root() {
        return skip("a loop device needs root");
    }
    let dir = folder();
    let image = dir.path().join("disk.img");
    std::fs::File::create(&image).unwrap().set_len(1 << 30).unwrap();
    let (device, _, success) = run(
        Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&image),
        b"",
        Duration::from_secs(10),
    );
    if !success {
        return skip("losetup made no loop device");
    }
    let device = Loop(device.trim().into());
    let config = dir.path().join("barelog.toml");
    let (bind, metrics) = (free_address(), free_address());
    let text = format!(
        "data.dir = \"{}\"\nhttp.bind = \"{metrics}\"\n[[devices]]\npath = \"{}\"\nkind = \"block\"\n[[listeners]]\nname = \"a\"\nbind = \"{bind}\"\n",
        dir.path().join("data").display(),
        device.0
    );
    std::fs::write(&config, text).unwrap();
    let start = || {
        let mut command = barelog(&["serve", "--config"]);
        common::end_with_the_test(command.arg(&config));
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while http_get(metrics, "/health").is_none_or(|(status, _)| status != 200) {
            assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "not healthy on {}", device.0);
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    };
    let mut child = start();
    let bootstrap = bind.to_string();
    run_ok(&mut barelog(&["produce", "raw", "--bootstrap", &bootstrap]), b"on a block device\n");
    child.kill().unwrap();
    child.wait().unwrap();
    let mut child = start();
    let args = ["consume", "raw", "--from-beginning", "--exit-eof", "--bootstrap", &bootstrap];
    let text = run_ok(&mut barelog(&args), b"");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(text, "on a block device\n");
}

/// A loop device, detached when dropped.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// A configuration file's text with these lines before its listener.
fn serve_config(
    dir: &Path,
    lines: &str,
    listeners: &[(&str, std::net::SocketAddr, &str)],
    http: std::net::SocketAddr,
) -> std::path::PathBuf {
    let mut text = format!("data.dir = \"{}\"\nhttp.bind = \"{http}\"\n{lines}\n", dir.join("data").display());
    for (name, bind, advertised) in listeners {
        text += &format!("[[listeners]]\nname = \"{name}\"\nbind = \"{bind}\"\nadvertised = \"{advertised}\"\n");
    }
    let path = dir.join("barelog.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// `barelog serve`, killed when dropped.
struct Served(std::process::Child);

impl Served {
    fn start(config: &Path, http: std::net::SocketAddr, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = barelog(&["serve", "--log", "warn", "--config"]);
        change(command.arg(config));
        common::end_with_the_test(&mut command);
        let mut served = Self(command.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        while http_get(http, "/health").is_none_or(|(status, _)| status != 200) {
            assert!(Instant::now() < deadline && served.0.try_wait().unwrap().is_none(), "not healthy");
            std::thread::sleep(Duration::from_millis(20));
        }
        served
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn each_listener_tells_its_clients_its_own_advertised_address() {
    let dir = folder();
    let (inside, outside, metrics) = (free_address(), free_address(), free_address());
    // The second name for loopback is one that a client can really follow.
    let told = format!("localhost:{}", outside.port());
    let listeners = [("inside", inside, &*inside.to_string()), ("outside", outside, &*told)];
    let config = serve_config(dir.path(), "", &listeners, metrics);
    let _served = Served::start(&config, metrics, |_| {});
    for (address, wanted) in [(inside, inside.to_string()), (outside, told.clone())] {
        let mut wire = wire::Wire::connect(address).unwrap();
        // Metadata v1 of no topic: the brokers.
        wire.send(3, 1, |out| out.extend(0i32.to_be_bytes())).unwrap();
        let response = wire.receive().unwrap();
        let mut fields = wire::Fields(&response);
        assert_eq!(fields.i32(), 1, "one broker");
        fields.i32();
        let host = String::from_utf8(fields.string().to_vec()).unwrap();
        assert_eq!(format!("{host}:{}", fields.i32()), wanted);
    }
}

#[test]
fn a_data_file_that_may_outgrow_its_file_system_is_told_at_the_start() {
    let dir = folder();
    let (bind, metrics) = (free_address(), free_address());
    let log = dir.path().join("log");
    for (size, told) in [("900000 GiB", true), ("1 GiB", false)] {
        let lines = format!("data.size = \"{size}\"");
        let config = serve_config(dir.path(), &lines, &[("a", bind, &bind.to_string())], metrics);
        let file = std::fs::File::create(&log).unwrap();
        let served = Served::start(&config, metrics, |command| {
            command.stderr(file.try_clone().unwrap()).stdout(file);
        });
        drop(served);
        let text = std::fs::read_to_string(&log).unwrap();
        assert_eq!(text.contains("lower its size, or make room"), told, "{text}");
    }
}

#[test]
fn several_devices_are_used_and_survive_a_kill() {
    let dir = folder();
    let (bind, metrics) = (free_address(), free_address());
    let device = |n: u32| {
        format!("[[devices]]\npath = \"{}\"\nsize = \"1 GiB\"\n", dir.path().join(format!("d{n}.barelog")).display())
    };
    let config = serve_config(dir.path(), &(device(0) + &device(1)), &[("a", bind, &bind.to_string())], metrics);
    let bootstrap = bind.to_string();
    let topics: Vec<String> = (0..4).map(|n| format!("topic-{n}")).collect();
    {
        let _served = Served::start(&config, metrics, |_| {});
        for topic in &topics {
            run_ok(&mut barelog(&["topic", "create", topic, "--partitions", "4", "--bootstrap", &bootstrap]), b"");
            run_ok(&mut barelog(&["produce", topic, "--bootstrap", &bootstrap]), format!("in {topic}\n").as_bytes());
        }
    }
    let mut used = 0;
    for n in 0..2 {
        let path = dir.path().join(format!("d{n}.barelog"));
        let text = run_ok(barelog(&["inspect", "--show", "units"]).arg(path), b"");
        used += usize::from(text.contains("unit"));
    }
    assert_eq!(used, 2, "partitions are spread over both devices");
    let _served = Served::start(&config, metrics, |_| {});
    for topic in &topics {
        let args = ["consume", topic, "--from-beginning", "--exit-eof", "--bootstrap", &bootstrap];
        assert_eq!(run_ok(&mut barelog(&args), b""), format!("in {topic}\n"));
    }
}

#[test]
fn a_service_manager_is_told_when_it_is_ready_and_when_it_stops() {
    let dir = folder();
    let (bind, metrics) = (free_address(), free_address());
    let config = serve_config(dir.path(), "", &[("a", bind, &bind.to_string())], metrics);
    let path = dir.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let served = Served::start(&config, metrics, |command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    let mut buffer = [0u8; 64];
    let told = |buffer: &mut [u8; 64]| {
        let n = socket.recv(buffer).unwrap();
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    };
    assert_eq!(told(&mut buffer), "READY=1");
    run_ok(Command::new("kill").args(["-TERM", &served.0.id().to_string()]), b"");
    assert_eq!(told(&mut buffer), "STOPPING=1");
}

#[test]
fn a_listener_that_is_not_on_loopback_is_warned_of() {
    if !is_root() {
        return skip("a network namespace of its own needs root");
    }
    let dir = folder();
    let (port, metrics) = (free_address().port(), free_address());
    let bind = std::net::SocketAddr::from(([0, 0, 0, 0], port));
    let config = serve_config(dir.path(), "", &[("open", bind, &format!("127.0.0.1:{port}"))], metrics);
    let log = dir.path().join("log");
    // In a namespace without any interface, where nobody can reach it. `unshare` becomes the broker.
    let mut command = Command::new("unshare");
    command.arg("--net").arg(binary()).args(["serve", "--log", "warn", "--config"]).arg(&config);
    let served = Served(command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(20);
    while !std::fs::read_to_string(&log).unwrap().contains("no TLS, SASL or ACL") {
        assert!(Instant::now() < deadline, "{}", std::fs::read_to_string(&log).unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(served);
}
