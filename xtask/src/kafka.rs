//! A real Kafka to compare with.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::run::{command, output, target};
use crate::setup;

/// How long Kafka may take to start on a busy machine.
const START: Duration = Duration::from_secs(120);

/// A Kafka of one node, broker and controller, on loopback; stopped by its process id and removed when dropped.
pub struct Kafka {
    child: Child,
    /// Host and port.
    pub address: String,
    folder: PathBuf,
}

impl Kafka {
    /// Starts one whose data lies in `target/NAME`.
    pub fn start(name: &str) -> Result<Self> {
        setup::kafka()?;
        let folder = target().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let [broker, controller] = [free_port()?, free_port()?];
        let address = format!("127.0.0.1:{broker}");
        std::fs::write(folder.join("server.properties"), settings(&folder, &address, controller))?;
        std::fs::write(folder.join("log4j2.yaml"), LOGGING)?;
        let properties = folder.join("server.properties");
        let properties = properties.to_string_lossy();
        output(&mut java(&folder, &["kafka.tools.StorageTool", "format", "-t", &cluster_id()?, "-c", &properties]))?;
        let log = File::create(folder.join("kafka.log"))?;
        let child = java(&folder, &["kafka.Kafka", &properties])
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start java")?;
        let mut kafka = Self { child, address, folder };
        kafka.wait()?;
        Ok(kafka)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Until it answers ApiVersions.
    fn wait(&mut self) -> Result<()> {
        let deadline = Instant::now() + START;
        while !answers(&self.address) {
            if let Some(status) = self.child.try_wait()? {
                bail!("Kafka ended with {status}:\n{}", std::fs::read_to_string(self.folder.join("kafka.log"))?);
            }
            if Instant::now() > deadline {
                bail!("Kafka does not answer within {START:?}; see {}", self.folder.join("kafka.log").display());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(self.folder.join("data"));
    }
}

/// What Barelog's scenario needs of Kafka: one replica of everything, and Barelog's own defaults where they differ on purpose.
fn settings(folder: &Path, address: &str, controller: u16) -> String {
    format!(
        "process.roles=broker,controller\nnode.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\ncontroller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://{address},CONTROLLER://127.0.0.1:{controller}\nadvertised.listeners=PLAINTEXT://{address}\n\
         log.dirs={}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\ntransaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=100\ngroup.min.session.timeout.ms=1000\n",
        folder.join("data").display()
    )
}

const LOGGING: &str = "\
Configuration:
  Appenders:
    Console:
      name: out
      PatternLayout:
        pattern: '%d %p %m%n'
  Loggers:
    Root:
      level: WARN
      AppenderRef:
        - ref: out
";

/// Kafka's classes in a small heap.
fn java(folder: &Path, args: &[&str]) -> std::process::Command {
    let logging = format!("-Dlog4j2.configurationFile={}", folder.join("log4j2.yaml").display());
    let classes = setup::kafka_jars().join("*");
    let mut command = command("java", &["-Xmx512m", &logging, "-cp", &classes.to_string_lossy()]);
    command.args(args).stdin(Stdio::null());
    command
}

/// A random id as Kafka writes it: 22 characters, of which the last has two bits.
fn cluster_id() -> Result<String> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bytes = [0; 22];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    // It may not begin with `-`, which is an option to the tool.
    bytes[0] %= 52;
    bytes[21] = bytes[21] % 4 * 16;
    Ok(bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 64)])).collect())
}

/// Whether there is an answer to ApiVersions v0.
fn answers(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let request = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
    let mut head = [0; 10];
    stream.write_all(&request).is_ok() && stream.read_exact(&mut head).is_ok() && head[8..] == [0, 0]
}

fn free_port() -> Result<u16> {
    let start = 20_000 + u16::try_from(std::process::id() % 10_000)?;
    static NEXT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
    for _ in 0..10_000 {
        let port = 20_000 + (start + NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) % 10_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free ports")
}
