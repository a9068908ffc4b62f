//! Disks for a real broker: `qemu-storage-daemon` exports an image as a file (FUSE), a loop device makes a disk of it, and
//! between both its filters log writes or let them fail.
//!
//! The loop device is buffered (`--direct-io=off`) for a reason: it then has one request at a time at the daemon, so that the
//! log's order is the order in which the disk took requests. (The daemon of QEMU before 10.1 also mixes up the bytes of writes
//! that it gets at once.)
#![allow(unreachable_pub, reason = "shared by test binaries")]
#![allow(dead_code, reason = "every test binary uses another part of it")]
#![allow(unsafe_code, reason = "a mount namespace of its own is one system call of the thread")]

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{end_with_the_test, run_ok};

/// What this machine lacks for such disks, if anything.
pub fn missing() -> Option<String> {
    // SAFETY: no arguments, no memory.
    if unsafe { libc::geteuid() } != 0 {
        return Some("disks need root: FUSE, loop devices and mounts".into());
    }
    let programs = [
        ("qemu-storage-daemon", "qemu-system-common"),
        ("losetup", "mount"),
        ("mount", "mount"),
        ("mkfs.ext4", "e2fsprogs"),
    ];
    let mut without = String::new();
    for (program, package) in programs {
        if Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            let _ = write!(without, "{program} (Debian: {package}); ");
        }
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if let Err(error) = File::options().read(true).write(true).open(device) {
            let _ = write!(without, "{device}: {error}; ");
        }
    }
    if !std::fs::read_to_string("/proc/filesystems").unwrap_or_default().contains("ext4") {
        without += "the kernel has no ext4; ";
    }
    // What cannot be mounted here (a container without CAP_SYS_ADMIN) cannot be mounted anywhere.
    if let Err(error) = namespace() {
        let _ = write!(without, "unshare(CLONE_NEWNS): {error}; ");
    }
    (!without.is_empty()).then(|| format!("no disks to break: {without}"))
}

/// Gives this thread, and what it starts, mounts of its own: they go when it and its children have gone, however they end.
fn namespace() -> std::io::Result<()> {
    // SAFETY: changes the mounts of this thread only.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let private = Command::new("mount").args(["--make-rprivate", "/"]).stderr(Stdio::null()).status()?;
    if private.success() { Ok(()) } else { Err(std::io::Error::other("mounts cannot be made private")) }
}

/// An image behind the daemon's block drivers, as a file.
pub struct Export {
    daemon: Child,
    path: PathBuf,
    monitor: PathBuf,
    log: PathBuf,
}

impl Export {
    /// `nodes` are `--blockdev` arguments, and `top` is the name of the one that is exported, `bytes` long.
    pub fn start(folder: &Path, nodes: &[String], top: &str, bytes: u64) -> Self {
        let (path, monitor) = (folder.join("export"), folder.join("monitor"));
        let log = folder.join("daemon.log");
        File::create(&path).unwrap();
        let mut command = Command::new("qemu-storage-daemon");
        for node in nodes {
            command.args(["--blockdev", node]);
        }
        let export = format!("type=fuse,id=export,node-name={top},mountpoint={},writable=on", path.display());
        let socket = format!("socket,id=monitor,path={},server=on,wait=off", monitor.display());
        command.args(["--export", &export, "--chardev", &socket, "--monitor", "chardev=monitor"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        end_with_the_test(&mut command);
        let mut export = Self { daemon: command.spawn().unwrap(), path, monitor, log };
        let deadline = Instant::now() + Duration::from_secs(20);
        while std::fs::metadata(&export.path).is_ok_and(|found| found.size() != bytes) {
            let ended = export.daemon.try_wait().unwrap();
            let said = std::fs::read_to_string(&export.log).unwrap_or_default();
            assert!(ended.is_none() && Instant::now() < deadline, "qemu-storage-daemon {ended:?}: {said}");
            std::thread::sleep(Duration::from_millis(5));
        }
        export
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends QMP commands to the daemon, one JSON object each.
    pub fn command(&self, commands: &[&str]) {
        let stream = UnixStream::connect(&self.monitor).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        lines.next().unwrap().unwrap();
        for command in ["{\"execute\": \"qmp_capabilities\"}"].iter().chain(commands) {
            writeln!(&stream, "{command}").unwrap();
            let answer = lines.find(|line| !line.as_ref().unwrap().contains("\"event\"")).unwrap().unwrap();
            assert!(answer.contains("\"return\""), "{command}: {answer}");
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).stderr(Stdio::null()).status();
    }
}

/// A loop device over a part of a file. The kernel detaches it when nobody has it open any more.
pub struct Loop {
    path: PathBuf,
    _open: File,
}

impl Loop {
    pub fn attach(file: &Path, offset: u64, bytes: u64) -> Self {
        let (offset, bytes) = (offset.to_string(), bytes.to_string());
        let mut command = Command::new("losetup");
        command.args(["--find", "--show", "--direct-io=off", "--offset", &offset, "--sizelimit", &bytes]).arg(file);
        let path = PathBuf::from(run_ok(&mut command, b"").trim());
        let open = File::open(&path).unwrap();
        run_ok(Command::new("losetup").arg("--detach").arg(&path), b"");
        Self { path, _open: open }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A mounted ext4.
pub struct Mount {
    folder: PathBuf,
    _device: Loop,
}

impl Mount {
    /// # Errors
    /// What `mount` says.
    pub fn new(device: Loop, folder: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(folder).unwrap();
        let done = Command::new("mount").args(["-t", "ext4"]).arg(device.path()).arg(folder).output().unwrap();
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        Ok(Self { folder: folder.into(), _device: device })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.folder).status();
    }
}

/// A new image, `bytes` long, with an ext4 of `file_system` bytes at its start.
pub fn format(image: &Path, bytes: u64, file_system: u64) {
    File::create(image).unwrap().set_len(bytes).unwrap();
    let mut command = Command::new("mkfs.ext4");
    // All of its tables are there from the start: nothing is written later that was not asked for.
    command.args(["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"]).arg(image);
    run_ok(command.arg(format!("{}k", file_system >> 10)), b"");
}

/// The text of a configuration with these devices, each a path and its size if it is a file; its profile goes into `aside`.
pub fn config(
    data: &Path,
    aside: &Path,
    devices: &[(PathBuf, Option<u64>)],
    shards: u16,
    kafka: SocketAddr,
    http: SocketAddr,
) -> String {
    let profile = aside.join("profile.toml");
    std::fs::write(&profile, format!("[shards]\ncount = {shards}\n")).unwrap();
    let mut text = format!("data.dir = \"{}\"\nhttp.bind = \"{http}\"\n", data.display());
    let _ = writeln!(text, "hardware.profile = \"{}\"", profile.display());
    for (path, size) in devices {
        let _ = writeln!(text, "[[devices]]\npath = \"{}\"", path.display());
        let _ = match size {
            Some(size) => writeln!(text, "kind = \"file\"\nsize = {size}"),
            None => writeln!(text, "kind = \"block\""),
        };
    }
    let _ = writeln!(text, "[[listeners]]\nname = \"a\"\nbind = \"{kafka}\"");
    text
}
