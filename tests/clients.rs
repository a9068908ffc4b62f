//! Unmodified Kafka clients against the real binary: keyed, headed, compressed records; a group that resumes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use common::{Broker, folder, run_ok, skip};

/// A program on the PATH.
fn has(program: &str) -> bool {
    Command::new(program).arg("-h").output().is_ok()
}

fn python_scenario(script: &str) {
    let Some(python) = std::env::var_os("BARELOG_PYTHON").map(PathBuf::from).filter(|path| path.exists()) else {
        return skip("no Python clients: cargo xtask test installs them");
    };
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    let script = format!("{}/tests/clients/{script}", env!("CARGO_MANIFEST_DIR"));
    let out = run_ok(Command::new(python).arg("-B").arg(&script).arg(broker.bootstrap()), b"");
    assert!(out.contains("OK 1000 records"), "{out}");
}

#[test]
fn confluent_kafka_round_trips_and_its_group_resumes() {
    python_scenario("confluent.py");
}

#[test]
fn kafka_python_round_trips_and_its_group_resumes() {
    python_scenario("kafka_python.py");
}

/// Members of consumer groups (KIP-848) are soon told, and soon missed.
const QUICK: &str = "group.consumer.heartbeat.interval.ms = 300\ngroup.consumer.session.timeout.ms = 3000";

#[test]
fn confluent_kafka_shares_a_consumer_group_that_outlives_the_broker() {
    let Some(python) = std::env::var_os("BARELOG_PYTHON").map(PathBuf::from).filter(|path| path.exists()) else {
        return skip("no Python clients: cargo xtask test installs them");
    };
    let dir = folder();
    let data = dir.path().join("data");
    let broker = Broker::start_configured(&data, QUICK);
    let script = format!("{}/tests/clients/consumer_group.py", env!("CARGO_MANIFEST_DIR"));
    let run = |broker: &Broker, what: &str| {
        run_ok(Command::new(&python).arg("-B").arg(&script).args([&broker.bootstrap(), what]), b"")
    };
    assert_eq!(run(&broker, "share").trim(), "OK share");
    broker.kill();
    let broker = Broker::start_configured(&data, QUICK);
    let barelog = |args: &[&str]| {
        let mut command = Command::new(common::binary());
        run_ok(command.args(args).args(["--bootstrap", &broker.bootstrap()]), b"")
    };
    let listed = barelog(&["group", "list", "--json"]);
    // "consumer" is the protocol's type as well as the group's.
    assert!(listed.contains("\"Empty\"") && listed.matches("\"consumer\"").count() == 2, "{listed}");
    assert_eq!(run(&broker, "resume").trim(), "OK resume");
    let described = barelog(&["group", "describe", "consumer-group"]);
    assert!(described.contains("Empty, consumer, 0 members, epoch"), "{described}");
    barelog(&["group", "delete", "consumer-group"]);
    assert!(!barelog(&["group", "list"]).contains("consumer-group"));
}

/// kcat 1.7.1 links librdkafka 2.0.2, which finds out what a broker can by exact versions.
#[test]
fn kcat_round_trips_every_codec_and_its_group_resumes() {
    if !has("kcat") {
        return skip("no kcat: cargo xtask test installs it");
    }
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    let bootstrap = broker.bootstrap();
    let kcat = |args: &[&str]| {
        let mut command = Command::new("kcat");
        command.args(["-b", &bootstrap]).args(args);
        command
    };
    let mut sent = BTreeSet::new();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let lines: Vec<String> = (0..100).map(|n| format!("k{}:{codec}-{n}-{}", n % 7, "x".repeat(n))).collect();
        let codec_flags: &[&str] = if codec == "none" { &[] } else { &["-z", codec] };
        let flags = ["-P", "-t", "kcat", "-K", ":", "-H", "who=kcat", "-X", "enable.idempotence=true"];
        run_ok(kcat(&flags).args(codec_flags), lines.join("\n").as_bytes());
        sent.extend(lines);
    }
    let format = ["-f", "%h %k:%s\n", "-q", "-X", "auto.offset.reset=earliest"];
    let first = run_ok(kcat(&["-G", "readers", "-c", "250"]).args(format).arg("kcat"), b"");
    let rest = run_ok(kcat(&["-G", "readers", "-e"]).args(format).arg("kcat"), b"");
    assert_eq!(first.lines().count(), 250);
    assert_eq!(rest.lines().count(), 250, "the group goes on where it had committed");
    let seen: BTreeSet<String> =
        first.lines().chain(rest.lines()).map(|line| line.strip_prefix("who=kcat ").unwrap().to_string()).collect();
    assert_eq!(seen, sent);
    let metadata = run_ok(&mut kcat(&["-L", "-t", "kcat"]), b"");
    assert!(metadata.contains("topic \"kcat\" with 1 partitions"), "{metadata}");
}

fn java(main: &str, args: &[&str]) -> Option<Command> {
    let jars = std::env::var_os("BARELOG_JARS").map(PathBuf::from).filter(|path| path.exists())?;
    let mut command = Command::new("java");
    // Small and quick to start: two cores are shared with the broker.
    command.args(["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    command.arg(jars.join("*")).arg(main).args(args);
    Some(command)
}

#[test]
fn java_console_tools_round_trip_and_their_group_resumes() {
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    let bootstrap = broker.bootstrap();
    let tool = |main: &str, args: &[&str]| {
        let mut all = vec!["--bootstrap-server", &bootstrap];
        all.extend(args);
        java(&format!("org.apache.kafka.tools.{main}"), &all)
    };
    let Some(mut create) = tool("TopicCommand", &["--create", "--topic", "java", "--partitions", "2"]) else {
        return skip("no Java clients: cargo xtask test installs them");
    };
    run_ok(&mut create, b"");
    let mut sent = BTreeSet::new();
    for codec in ["none", "gzip", "lz4", "zstd"] {
        let lines: Vec<String> = (0..50).map(|n| format!("who:java\tk{}\t{codec}-{n}", n % 5)).collect();
        let args = [
            "--topic",
            "java",
            "--compression-codec",
            codec,
            "--reader-property",
            "parse.key=true",
            "--reader-property",
            "parse.headers=true",
        ];
        run_ok(&mut tool("ConsoleProducer", &args).unwrap(), (lines.join("\n") + "\n").as_bytes());
        sent.extend(lines);
    }
    let consume = |count: &str| {
        let args = [
            "--topic",
            "java",
            "--group",
            "java-readers",
            "--from-beginning",
            "--max-messages",
            count,
            "--timeout-ms",
            "30000",
            "--formatter-property",
            "print.key=true",
            "--formatter-property",
            "print.headers=true",
        ];
        run_ok(&mut tool("consumer.ConsoleConsumer", &args).unwrap(), b"")
    };
    let first = consume("120");
    let rest = consume("80");
    let seen: BTreeSet<String> = first.lines().chain(rest.lines()).map(String::from).collect();
    assert_eq!(first.lines().count() + rest.lines().count(), 200);
    assert_eq!(seen, sent, "the second member read what the first had not");
    let groups = run_ok(
        &mut tool("consumer.group.ConsumerGroupCommand", &["--describe", "--group", "java-readers"]).unwrap(),
        b"",
    );
    assert!(groups.contains("java-readers"), "{groups}");
    let mut args = vec!["--topic", "java", "--group", "java-consumers", "--from-beginning", "--max-messages", "200"];
    args.extend(["--timeout-ms", "30000", "--command-property", "group.protocol=consumer"]);
    let all = run_ok(&mut tool("consumer.ConsoleConsumer", &args).unwrap(), b"");
    assert_eq!(all.lines().count(), 200, "by the consumer protocol (KIP-848)");
    let groups =
        run_ok(&mut tool("consumer.group.ConsumerGroupCommand", &["--list", "--type", "consumer"]).unwrap(), b"");
    assert!(groups.contains("java-consumers") && !groups.contains("java-readers"), "{groups}");
    let state = run_ok(
        &mut tool("consumer.group.ConsumerGroupCommand", &["--describe", "--group", "java-consumers", "--state"])
            .unwrap(),
        b"",
    );
    assert!(state.contains("uniform") && state.contains("Empty"), "{state}");
    let described = run_ok(&mut tool("TopicCommand", &["--describe", "--topic", "java"]).unwrap(), b"");
    assert!(described.contains("PartitionCount: 2"), "{described}");
}
