//! A broker whose device is full, as its clients and its operator meet it: producers are refused by name and go on by themselves
//! when there is room, without being started anew; everything else works all the time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/wire.rs"]
mod wire;

mod common;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::Checksums;
use common::{Broker, folder, free_address, http_get, skip};
use protocol::batch::{BatchBuilder, Producer};
use wire::Wire;

const POLICY_VIOLATION: i16 = 44;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;

/// A refusal takes no longer: nobody waits for room that only people make.
const AT_ONCE: Duration = Duration::from_secs(3);

/// The smallest device there is, and one shard: all topics share a journal, and are full together.
fn start(dir: &Path, kafka: SocketAddr, http: SocketAddr) -> Broker {
    let profile = dir.join("profile.toml");
    std::fs::write(&profile, "[shards]\ncount = 1\n").unwrap();
    let text = format!(
        "data.dir = \"{}\"\ndata.size = \"512 MiB\"\nhardware.profile = \"{}\"\nhttp.bind = \"{http}\"\n\
         [[listeners]]\nname = \"a\"\nbind = \"{kafka}\"\n",
        dir.join("data").display(),
        profile.display()
    );
    let config = dir.join("barelog.toml");
    std::fs::write(&config, text).unwrap();
    let mut broker = Broker::serve_without_waiting(&config, &dir.join("broker.log"), kafka, http);
    broker.wait_until_healthy(Duration::from_secs(60));
    broker
}

fn produce(wire: &mut Wire, topic: &str, bytes: usize) -> i16 {
    let mut builder = BatchBuilder::new();
    builder.append(1_700_000_000_000, None, Some(&vec![b'x'; bytes]), &[]);
    let nobody = Producer { id: -1, epoch: -1, sequence: -1, transactional: false };
    let started = Instant::now();
    wire.send_produce(topic, 0, builder.finish(nobody, &Checksums::portable())).unwrap();
    let (code, _) = wire.receive_produce().unwrap();
    assert!(code == 0 || started.elapsed() < AT_ONCE, "refused with {code} after {:?}", started.elapsed());
    code
}

/// Produces until not even a small record finds room, and none has a moment later.
fn fill(wire: &mut Wire) {
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut taken = 1;
    while taken > 0 {
        taken = 0;
        for bytes in [1 << 20, 64 << 10, 4 << 10, 10] {
            let mut code = 0;
            while code == 0 {
                assert!(Instant::now() < deadline, "the device does not fill");
                code = produce(wire, "filler", bytes);
                taken += u32::from(code == 0);
            }
            assert_eq!(code, POLICY_VIOLATION, "{bytes} bytes");
        }
        std::thread::sleep(Duration::from_millis(1200));
    }
}

/// A client that produces all the time, and the lines it has printed.
struct Client {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Client {
    fn start(mut command: Command) -> Self {
        common::end_with_the_test(&mut command);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let (out, into) = (BufReader::new(child.stdout.take().unwrap()), lines.clone());
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(|line| into.lock().unwrap().push(line)));
        Self { child, lines }
    }

    /// Waits for a line with this text among those it prints from now on.
    fn says(&self, text: &str, broker: &Broker) -> String {
        let from = self.lines.lock().unwrap().len();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let lines = self.lines.lock().unwrap();
            if let Some(line) = lines[from..].iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            assert!(Instant::now() < deadline, "no {text}: {:#?}\n{}", lines.last(), broker.log_text());
            drop(lines);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, broker: &Broker, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ready() {
        assert!(Instant::now() < deadline, "{what}\n{}", broker.log_text());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Librdkafka and Java as long-lived producers: how to start each, what it says of a delivery, and of a full device.
fn clients(bootstrap: &str) -> Option<[(Command, &'static str, &'static str); 2]> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.exists());
    let (python, jars) = (path("BARELOG_PYTHON")?, path("BARELOG_JARS")?);
    let mut confluent = Command::new(python);
    confluent.arg("-B").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/full.py"));
    confluent.args([bootstrap, "small"]);
    let mut java = Command::new("java");
    java.args(["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]).arg(jars.join("*"));
    java.arg("org.apache.kafka.tools.VerifiableProducer");
    java.args(["--bootstrap-server", bootstrap, "--topic", "small", "--throughput", "20"]);
    Some([(confluent, "ok", "POLICY_VIOLATION"), (java, "producer_send_success", "PolicyViolationException")])
}

#[test]
fn a_full_device_refuses_producers_by_name_and_they_go_on_when_there_is_room() {
    let dir = folder();
    let (kafka, http) = (free_address(), free_address());
    let broker = start(dir.path(), kafka, http);
    let mut wire = Wire::connect(kafka).unwrap();
    // Nothing expires by itself.
    for topic in ["kept", "filler", "small"] {
        assert_eq!(wire.create_topic(topic, 1, &[("retention.ms", "-1")]).unwrap(), 0);
    }
    assert_eq!(produce(&mut wire, "kept", 100), 0);
    until("a coordinator", &broker, || wire.find_coordinator("group").unwrap() == 0);
    until("a commit while there is room", &broker, || wire.commit_offset("group", "kept", 0, 0).unwrap() == 0);
    fill(&mut wire);
    // They stay the same to the end.
    let clients = clients(&broker.bootstrap());
    let clients = clients.map(|clients| clients.map(|(command, ok, full)| (Client::start(command), ok, full)));
    for (client, _, full) in clients.iter().flatten() {
        client.says(full, &broker);
    }
    // The operator is told once.
    let (status, health) = http_get(http, "/health").unwrap();
    assert!(status == 200 && health.contains("\"full\"") && health.contains("data"), "{status} {health}");
    assert!(
        http_get(http, "/metrics")
            .unwrap()
            .1
            .lines()
            .any(|line| line.starts_with("barelog_device_full{") && line.ends_with("} 1"))
    );
    let log = broker.log_text();
    assert_eq!(log.matches("the device is full").count(), 1, "{log}");
    // All else goes on: reads, topics that are made and deleted.
    let kept = wire.fetch("kept", 0, 0, 1 << 20).unwrap();
    assert_eq!((kept.code, kept.high_watermark, kept.bytes.is_empty()), (0, 1, false));
    assert_eq!(wire.create_topic("another", 1, &[]).unwrap(), 0);
    assert_eq!(wire.delete_topic("another").unwrap(), 0);

    // A commit finds room among the last bytes, or is refused by what consumers repeat.
    let committed = wire.commit_offset("group", "kept", 0, 1).unwrap();
    assert!([0, COORDINATOR_NOT_AVAILABLE].contains(&committed), "{committed}");

    // A deletion, though it makes no room yet: the last records are still there.
    assert_eq!(wire.delete_records("filler", 0, 1).unwrap(), 0);

    // A start while it is full.
    assert!(broker.stop().0.success());
    let broker = start(dir.path(), kafka, http);
    let mut wire = Wire::connect(kafka).unwrap();
    assert_eq!(wire.fetch("kept", 0, 0, 1 << 20).unwrap().high_watermark, 1);
    for (client, _, full) in clients.iter().flatten() {
        client.says(full, &broker);
    }
    fill(&mut wire);

    // A deletion makes room.
    let end = wire.fetch("filler", 0, 0, 1).unwrap().high_watermark;
    assert_eq!(wire.delete_records("filler", 0, end).unwrap(), 0);
    for (client, ok, _) in clients.iter().flatten() {
        client.says(ok, &broker);
    }
    until("large records find room", &broker, || produce(&mut wire, "filler", 1 << 20) == 0);
    until("a commit", &broker, || wire.commit_offset("group", "kept", 0, 1).unwrap() == 0);
    assert_eq!(wire.committed_offset("group", "kept", 0).unwrap(), (0, 1));
    until("health is ok", &broker, || http_get(http, "/health").unwrap().1.contains("\"ok\""));
    until("the log says so", &broker, || broker.log_text().contains("has room again"));
    if clients.is_none() {
        skip("no Python and Java clients: cargo xtask test installs them");
    }
}
