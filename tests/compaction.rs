//! Compaction by the real binary; and, where Kafka is there, compared with what Kafka's own cleaner makes of the same records.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Broker, binary, end_with_the_test, folder, free_address, http_get, run, run_ok};

fn barelog(args: &[&str], bootstrap: &str) -> Command {
    let mut command = Command::new(binary());
    command.args(args).args(["--bootstrap", bootstrap]);
    command
}

/// What is found at an offset: key, value, timestamp.
type Found = BTreeMap<i64, (String, Option<String>, i64)>;

/// All records of partition 0 of a topic.
fn read(topic: &str, bootstrap: &str) -> Found {
    let args = ["consume", topic, "--from-beginning", "--exit-eof", "--format", "json"];
    let text = run_ok(&mut barelog(&args, bootstrap), b"");
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let record = |line: serde_json::Value| {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        (line["offset"].as_i64().unwrap(), (text("key").unwrap(), text("value"), line["timestamp"].as_i64().unwrap()))
    };
    lines.map(record).collect()
}

/// One record to be sent.
struct Sent {
    key: String,
    value: Option<String>,
}

/// Sends records in their order, in batches of several, with a codec.
fn send(topic: &str, bootstrap: &str, records: &[Sent], codec: &str) {
    let mut lines = String::new();
    for Sent { key, value } in records {
        let line = serde_json::json!({"key": key, "value": value});
        writeln!(lines, "{line}").unwrap();
    }
    let args = ["produce", topic, "--format", "json", "--compression", codec];
    run_ok(&mut barelog(&args, bootstrap), lines.as_bytes());
}

/// Numbers that look random, the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// Rounds of records with few keys, tombstones among them, each round with another codec.
fn input(seed: u64, rounds: usize, records: usize, keys: u64) -> Vec<(Vec<Sent>, &'static str)> {
    let mut dice = Dice(seed);
    let mut number = 0;
    let mut round = |round: usize| {
        let sent = (0..records).map(|_| {
            number += 1;
            let value = format!("{number}-{}", "v".repeat(usize::try_from(dice.roll(120)).unwrap()));
            Sent { key: format!("key-{}", dice.roll(keys)), value: (dice.roll(8) > 0).then_some(value) }
        });
        (sent.collect(), CODECS[round % CODECS.len()])
    };
    (0..rounds).map(&mut round).collect()
}

/// Each key's last record, as its offset tells.
fn latest(all: &[(Vec<Sent>, &'static str)]) -> BTreeMap<String, (i64, Option<String>)> {
    let records = all.iter().flat_map(|(records, _)| records);
    (0..).zip(records).map(|(offset, sent)| (sent.key.clone(), (offset, sent.value.clone()))).collect()
}

fn wait_until(what: &str, patience: Duration, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !done() {
        assert!(Instant::now() < deadline, "{what}: not within {patience:?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

const SETTINGS: [&str; 4] = [
    "cleanup.policy=compact",
    "min.cleanable.dirty.ratio=0.01",
    "max.compaction.lag.ms=1000",
    "delete.retention.ms=3000",
];

fn create(topic: &str, bootstrap: &str, more: &[&str]) {
    let mut args = vec!["topic", "create", topic, "--partitions", "1"];
    for setting in SETTINGS.iter().chain(more) {
        args.extend(["--config", setting]);
    }
    run_ok(&mut barelog(&args, bootstrap), b"");
}

/// Whether each key is there once, and only as its last record with a value.
fn is_clean(found: &Found, upto: i64, latest: &BTreeMap<String, (i64, Option<String>)>) -> bool {
    let offsets: BTreeSet<i64> = found.range(..upto).map(|(offset, _)| *offset).collect();
    let wanted = latest.values().filter(|(_, value)| value.is_some()).map(|(offset, _)| *offset);
    offsets == wanted.collect()
}

#[test]
fn of_a_compacted_topic_the_latest_record_of_each_key_is_left_also_after_a_kill() {
    let dir = folder();
    let data = dir.path().join("data");
    let broker = Broker::start(&data);
    let bootstrap = broker.bootstrap();
    create("c", &bootstrap, &[]);
    let all = input(7, 10, 300, 40);
    for (records, codec) in &all {
        send("c", &bootstrap, records, codec);
    }
    // Without a key nothing is taken, and it says so.
    let (_, told, success) = run(&mut barelog(&["produce", "c"], &bootstrap), b"no key\n", Duration::from_secs(30));
    assert!(!success && told.contains("INVALID_RECORD"), "{told}");
    // What cannot be changed says so, what can be is.
    let args = ["topic", "alter", "c", "--config", "cleanup.policy=delete"];
    let (_, told, success) = run(&mut barelog(&args, &bootstrap), b"", Duration::from_secs(30));
    assert!(!success && told.contains("compacted"), "{told}");
    run_ok(&mut barelog(&["topic", "alter", "c", "--config", "cleanup.policy=compact,delete"], &bootstrap), b"");
    let latest = latest(&all);
    wait_until("compaction", Duration::from_secs(120), || is_clean(&read("c", &bootstrap), 3000, &latest));
    let (_, metrics) = http_get(broker.http, "/metrics").unwrap();
    let runs = metrics.lines().find_map(|line| line.strip_prefix("barelog_compaction_runs_total{shard=\"0\"} "));
    assert!(runs.is_some_and(|runs| runs != "0"), "{runs:?}");
    let before = read("c", &bootstrap);
    for (key, (offset, value)) in latest.iter().filter(|(_, (_, value))| value.is_some()) {
        let (found, there, _) = &before[offset];
        assert_eq!((found, there), (key, value));
    }
    broker.kill();
    let broker = Broker::start(&data);
    assert_eq!(read("c", &broker.bootstrap()), before);
    let (_, found) = http_get(broker.http, "/damage").unwrap();
    assert!(!found.contains("\"c\""), "{found}");
    let (status, _) = broker.stop();
    assert!(status.success());
    let inspected = run_ok(Command::new(binary()).arg("inspect").arg(&data), b"");
    assert!(inspected.contains("compacted_upto="), "{inspected}");
}

/// A Kafka broker of its own, controller and broker in one process.
struct Kafka {
    child: Child,
    bootstrap: String,
    log: PathBuf,
}

impl Kafka {
    fn start(jars: &Path, dir: &Path) -> Self {
        let (address, controller) = (free_address(), free_address());
        let properties = dir.join("server.properties");
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@{controller}\n\
             listeners=PLAINTEXT://{address},CONTROLLER://{controller}\nadvertised.listeners=PLAINTEXT://{address}\n\
             controller.listener.names=CONTROLLER\nlog.dirs={}\noffsets.topic.replication.factor=1\n\
             log.cleaner.backoff.ms=200\nlog.cleaner.dedupe.buffer.size=20971520\nlog.retention.check.interval.ms=1000\n",
            dir.join("logs").display()
        );
        std::fs::write(&properties, text).unwrap();
        let java = |class: &str, args: &[&str]| {
            let mut command = Command::new("java");
            command.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
            command.arg(jars.join("*")).arg(class).args(args).arg(&properties).stdin(Stdio::null());
            command
        };
        run_ok(&mut java("kafka.tools.StorageTool", &["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"]), b"");
        let log = dir.join("kafka.log");
        let out = std::fs::File::create(&log).unwrap();
        let mut command = java("kafka.Kafka", &[]);
        command.stdout(out.try_clone().unwrap()).stderr(out);
        end_with_the_test(&mut command);
        let kafka = Self { child: command.spawn().expect("java runs"), bootstrap: address.to_string(), log };
        let args = ["topic", "list"];
        let answers = || run(&mut barelog(&args, &kafka.bootstrap), b"", Duration::from_secs(30)).2;
        wait_until(&format!("Kafka, log in {}", kafka.log.display()), Duration::from_secs(180), answers);
        kafka
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Feeds a broker the input, lets it compact, and gives what it keeps of it. The records that close its last segment come behind.
fn compacted_by(bootstrap: &str, all: &[(Vec<Sent>, &'static str)], more: &[&str]) -> (Found, Duration) {
    create("same", bootstrap, more);
    for (records, codec) in all {
        send("same", bootstrap, records, codec);
    }
    let (latest, upto) = (latest(all), all.iter().map(|(records, _)| i64::try_from(records.len()).unwrap()).sum());
    let begun = Instant::now();
    let mut markers = 0;
    wait_until("compaction", Duration::from_secs(240), || {
        // Kafka rolls a segment when something is appended, and cleans when something is dirty.
        markers += 1;
        let marker = Sent { key: "marker".into(), value: Some(markers.to_string()) };
        send("same", bootstrap, &[marker], "none");
        std::thread::sleep(Duration::from_millis(1200));
        is_clean(&read("same", bootstrap), upto, &latest)
    });
    let mut found = read("same", bootstrap);
    found.split_off(&upto);
    (found, begun.elapsed())
}

#[test]
fn kafka_keeps_the_same_records_of_the_same_input() {
    let Some(jars) = std::env::var_os("BARELOG_KAFKA").map(PathBuf::from) else {
        eprintln!("not compared with Kafka: cargo xtask compare does");
        return;
    };
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    let kafka = Kafka::start(&jars, dir.path());
    let mut table = String::new();
    for (seed, rounds, records, keys) in [(1, 10, 200, 50), (2, 20, 500, 1000), (3, 10, 400, 5)] {
        let all = input(seed, rounds, records, keys);
        let topic = ["topic", "delete", "same"];
        let (ours, our_time) = compacted_by(&broker.bootstrap(), &all, &[]);
        let (theirs, their_time) = compacted_by(&kafka.bootstrap, &all, &["segment.ms=1000", "file.delete.delay.ms=0"]);
        let stripped = |found: &Found| -> BTreeMap<i64, (String, Option<String>)> {
            found.iter().map(|(offset, (key, value, _))| (*offset, (key.clone(), value.clone()))).collect()
        };
        assert_eq!(stripped(&ours), stripped(&theirs), "seed {seed}");
        let wanted = latest(&all).into_values().filter(|(_, value)| value.is_some()).count();
        assert_eq!(ours.len(), wanted, "seed {seed}");
        writeln!(
            table,
            "| {seed} | {} | {keys} | {wanted} | {} | {} |",
            rounds * records,
            our_time.as_secs(),
            their_time.as_secs()
        )
        .unwrap();
        for bootstrap in [&broker.bootstrap(), &kafka.bootstrap] {
            run_ok(&mut barelog(&topic, bootstrap), b"");
        }
        std::thread::sleep(Duration::from_secs(2));
    }
    if let Some(path) = std::env::var_os("BARELOG_COMPARISON") {
        std::fs::write(path, table).unwrap();
    }
}
