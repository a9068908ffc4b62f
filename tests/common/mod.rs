//! A broker of its own for each test: the real binary, on loopback, stopped by its process id.
#![allow(unreachable_pub, reason = "shared by test binaries")]
#![allow(dead_code, reason = "every test binary uses another part of it")]
#![allow(unsafe_code, reason = "one system call between fork and exec: a broker ends with the test that started it")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// The binary under test: the release build where the test runner made one.
pub fn binary() -> PathBuf {
    std::env::var_os("BARELOG_BIN").map_or_else(|| env!("CARGO_BIN_EXE_barelog").into(), PathBuf::from)
}

/// A folder on a real file system (`O_DIRECT`), removed when dropped.
pub fn folder() -> tempfile::TempDir {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tempfile::Builder::new().prefix("broker-").tempdir_in(parent).expect("a folder under target/")
}

/// A loopback address that nobody has: below the ports that the kernel gives to outgoing connections, none given twice in
/// this process, and free a moment ago.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 100).expect("below 100") * 100;
    loop {
        let port = 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener.local_addr().expect("a bound socket has an address");
        }
    }
}

/// Says that a test did not run; in CI that is a failure.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "skipped in CI: {why}");
    eprintln!("SKIPPED: {why}");
}

/// Whatever happens to the test, what it starts does not stay behind.
pub fn end_with_the_test(command: &mut Command) {
    let end_with_parent = || {
        // SAFETY: prctl is async-signal-safe and touches no memory.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    // SAFETY: the closure makes one async-signal-safe call.
    unsafe { command.pre_exec(end_with_parent) };
}

/// A running broker.
pub struct Broker {
    child: Child,
    pub address: SocketAddr,
    pub http: SocketAddr,
    log: PathBuf,
}

impl Broker {
    /// Starts `barelog dev` on `dir` and waits until it serves.
    pub fn start(dir: &Path) -> Self {
        Self::start_with(dir, &[], |_| {})
    }

    /// The same with more flags and with changes to the command.
    pub fn start_with(dir: &Path, flags: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let (mut broker, _) = Self::spawn(dir, flags, change);
        broker.wait_until_healthy(Duration::from_secs(60));
        broker
    }

    /// Starts `barelog serve` on `dir` with these lines in its configuration, and waits until it serves.
    pub fn start_configured(dir: &Path, lines: &str) -> Self {
        let (address, http) = (free_address(), free_address());
        let config = dir.with_extension("toml");
        let text = format!(
            "data.dir = \"{}\"\ndata.size = \"1 GiB\"\nhttp.bind = \"{http}\"\n{lines}\n\
             [[listeners]]\nname = \"main\"\nbind = \"{address}\"\n",
            dir.display()
        );
        std::fs::write(&config, text).expect("a configuration");
        let mut broker = Self::serve_without_waiting(&config, &dir.with_extension("log"), address, http);
        broker.wait_until_healthy(Duration::from_secs(60));
        broker
    }

    /// Starts without waiting; also gives the path of its log.
    pub fn spawn(dir: &Path, flags: &[&str], change: impl FnOnce(&mut Command)) -> (Self, PathBuf) {
        let (address, http) = (free_address(), free_address());
        let log = dir.with_extension("log");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log).expect("a log file");
        let mut command = Command::new(binary());
        command
            .args(["dev", "--data-dir"])
            .arg(dir)
            .args(["--listen", &address.to_string(), "--metrics-listen", &http.to_string()])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file);
        change(&mut command);
        end_with_the_test(&mut command);
        let child = command.spawn().expect("the broker starts");
        (Self { child, address, http, log: log.clone() }, log)
    }

    /// Starts `barelog serve` without waiting. `address` and `http` are what the configuration says.
    pub fn serve_without_waiting(config: &Path, log: &Path, address: SocketAddr, http: SocketAddr) -> Self {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        let mut command = Command::new(binary());
        command.args(["serve", "--config"]).arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        end_with_the_test(&mut command);
        Self { child: command.spawn().expect("the broker starts"), address, http, log: log.into() }
    }

    pub fn wait_until_healthy(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        loop {
            if http_get(self.http, "/health").is_some_and(|(status, _)| status == 200) {
                return;
            }
            if let Some(status) = self.child.try_wait().expect("a child can be asked") {
                panic!("the broker ended with {status}:\n{}", self.log_text());
            }
            assert!(Instant::now() < deadline, "the broker is not healthy:\n{}", self.log_text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until `/health` answers, whatever it says; whether it does within `patience`.
    pub fn wait_until_answering(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while http_get(self.http, "/health").is_none() {
            if Instant::now() > deadline || self.child.try_wait().expect("a child can be asked").is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("a killed child ends");
    }

    /// SIGTERM; how it ended and how long that took.
    pub fn stop(mut self) -> (ExitStatus, Duration) {
        self.signal("TERM");
        let started = Instant::now();
        let status = self.wait(Duration::from_secs(30)).expect("it stops within 30 s of SIGTERM");
        (status, started.elapsed())
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// How it ended, within `patience`.
    pub fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("a child can be asked") {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body of a GET, or nothing when nobody answers.
pub fn http_get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    http(address, "GET", path, "")
}

/// Status and body of an HTTP request, or nothing when nobody answers.
pub fn http(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    let body = text.split_once("\r\n\r\n")?.1.into();
    Some((status, body))
}

/// Runs to the end within `patience`, killed otherwise; standard output, standard error and whether it succeeded.
pub fn run(command: &mut Command, input: &[u8], patience: Duration) -> (String, String, bool) {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{shown}: {error}"));
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let mut stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    let out = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let err = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let deadline = Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be asked") {
            break Some(status);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let _ = writer.join();
    let (out, err) = (out.join().expect("reads"), err.join().expect("reads"));
    assert!(status.is_some(), "{shown} did not end within {patience:?}\n{out}\n{err}");
    (out, err, status.is_some_and(|status| status.success()))
}

/// Runs to the end and must succeed; standard output.
pub fn run_ok(command: &mut Command, input: &[u8]) -> String {
    let shown = format!("{command:?}");
    let (out, err, success) = run(command, input, Duration::from_secs(90));
    assert!(success, "{shown} failed\n{out}\n{err}");
    out
}
