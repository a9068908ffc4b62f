//! The broker under measurement: the release binary as its own process.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::machine;

/// A running broker.
pub struct Broker {
    child: Child,
    /// Where clients connect.
    pub address: SocketAddr,
    /// Where `/metrics` and `/health` are.
    pub http: SocketAddr,
}

/// The binary that the runner built.
#[must_use]
pub fn binary() -> Option<PathBuf> {
    std::env::var_os("BARELOG_BIN").map(PathBuf::from).filter(|path| path.is_file())
}

/// A loopback address that was free a moment ago.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

impl Broker {
    /// Starts `barelog dev` on `dir` and waits until it serves.
    pub fn start(dir: &Path, flags: &[&str]) -> Result<Self> {
        let binary = binary().context("BARELOG_BIN names no binary; cargo xtask sets it")?;
        let (address, http) = (free_address()?, free_address()?);
        let child = Command::new(binary)
            .args(["dev", "--log", "warn", "--data-dir"])
            .arg(dir)
            .args(["--listen", &address.to_string(), "--metrics-listen", &http.to_string()])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let mut broker = Self { child, address, http };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !get(http, "/health").is_some_and(|text| text.starts_with("HTTP/1.1 200")) {
            if let Some(status) = broker.child.try_wait()? {
                bail!("the broker ended with {status}");
            }
            if Instant::now() > deadline {
                bail!("the broker is not healthy after a minute");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(broker)
    }

    /// CPU seconds so far.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        machine::cpu_seconds(self.child.id())
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory, in bytes.
    #[must_use]
    pub fn resident_bytes(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim_end_matches("kB").trim().parse::<f64>().unwrap_or(0.0) * 1024.0
    }

    /// `host:port`.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    /// The sum of a metric's series.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = get(self.http, "/metrics")?;
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let values = text.lines().filter(of_name).map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.reduce(|sum, value| Some(sum? + value?)).flatten()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Kafka that the runner has started and stopped (SIGSTOP), so that it costs nothing until its turn.
pub struct Kafka {
    /// Where clients connect.
    pub address: SocketAddr,
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
}

impl Kafka {
    /// Lets it run, until this is dropped.
    ///
    /// # Errors
    /// Where `BARELOG_KAFKA` does not name one as ADDRESS,PID,VERSION.
    pub fn resume() -> Result<Self> {
        let told =
            std::env::var("BARELOG_KAFKA").context("BARELOG_KAFKA names no Kafka; cargo xtask bench starts one")?;
        let mut parts = told.split(',');
        let mut part = || parts.next().with_context(|| format!("BARELOG_KAFKA is {told}, not ADDRESS,PID,VERSION"));
        let kafka = Self { address: part()?.parse()?, pid: part()?.parse()?, version: part()?.to_string() };
        kafka.signal("-CONT")?;
        Ok(kafka)
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let status = Command::new("kill").args([signal, &self.pid.to_string()]).status()?;
        if status.success() { Ok(()) } else { bail!("kill {signal} {} ended with {status}", self.pid) }
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.signal("-STOP");
    }
}

fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}
