//! A fresh broker on loopback for what runs clients and suites of others against it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::run::{cargo, run, target};

/// The binary that `BARELOG_BIN` names, else the release build.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("BARELOG_BIN") {
        return Ok(path.into());
    }
    run(&mut cargo(&["build", "--release", "--package", "barelog"]))?;
    Ok(target().join("release/barelog"))
}

/// A broker on loopback that ends when this is dropped.
pub struct Broker {
    child: Child,
    /// Address of its listener.
    pub bootstrap: String,
    log: PathBuf,
}

impl Broker {
    /// `barelog dev`, settings as they come. Data and log go into `folder`.
    pub fn dev(binary: &Path, folder: &Path) -> Result<Self> {
        let [kafka, http] = free_ports()?;
        let mut command = Command::new(binary);
        command.args(["dev", "--data-dir"]).arg(folder.join("data"));
        command.args(["--listen", &format!("127.0.0.1:{kafka}"), "--metrics-listen", &format!("127.0.0.1:{http}")]);
        Self::start(&mut command, folder, [kafka, http])
    }

    /// `barelog serve` with these lines of `barelog.toml`.
    pub fn serve(binary: &Path, folder: &Path, settings: &str) -> Result<Self> {
        let [kafka, http] = free_ports()?;
        let data = folder.join("data");
        let data = data.display();
        let listener = format!("[[listeners]]\nname = \"clients\"\nbind = \"127.0.0.1:{kafka}\"\n");
        let config = folder.join("barelog.toml");
        std::fs::write(
            &config,
            format!("data.dir = \"{data}\"\nhttp.bind = \"127.0.0.1:{http}\"\n{settings}\n{listener}"),
        )?;
        Self::start(Command::new(binary).args(["serve", "--config"]).arg(&config), folder, [kafka, http])
    }

    fn start(command: &mut Command, folder: &Path, [kafka, http]: [u16; 2]) -> Result<Self> {
        let log = folder.join("broker.log");
        let shown = format!("{command:?}");
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {shown}"))?;
        let mut broker = Self { child, bootstrap: format!("127.0.0.1:{kafka}"), log };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_healthy(http) {
            broker.must_run()?;
            ensure!(Instant::now() < deadline, "the broker is not healthy; see {}", broker.log.display());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(broker)
    }

    /// An error if it has ended.
    pub fn must_run(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the broker ended with {status}; see {}", self.log.display());
        }
        Ok(())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Logs stay for reading; data would only take room.
        if let Some(folder) = self.log.parent() {
            let _ = std::fs::remove_dir_all(folder.join("data"));
        }
    }
}

/// Two ports below those that the kernel gives to outgoing connections, free a moment ago.
fn free_ports() -> Result<[u16; 2]> {
    let start = u16::try_from(std::process::id() % 10_000)?;
    let mut free = (0..10_000)
        .map(|step| 20_000 + (start + step) % 10_000)
        .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    match (free.next(), free.next()) {
        (Some(one), Some(other)) => Ok([one, other]),
        _ => bail!("no free ports"),
    }
}

fn is_healthy(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut text = String::new();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").is_ok()
        && stream.read_to_string(&mut text).is_ok()
        && text.starts_with("HTTP/1.1 200")
}
