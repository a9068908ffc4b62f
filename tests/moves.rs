//! Partitions of the real binary that move between journals to and fro, under idempotent producers, consumers and kills.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/load.rs"]
mod load;
#[path = "common/wire.rs"]
mod wire;

mod common;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::Checksums;
use common::{Broker, binary, folder, http, http_get, run, run_ok};
use load::{Load, Watch};
use protocol::batch::Batches;
use serde_json::Value;
use wire::Wire;

const TOPIC: &str = "moved";

fn get(address: SocketAddr, path: &str) -> Value {
    let (status, body) = http_get(address, path).expect("an answer");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Ids of the journals that the topic's partitions may be in.
fn journals(address: SocketAddr) -> Vec<u64> {
    let report = get(address, "/journals");
    let rows = report["journals"].as_array().unwrap().iter();
    rows.filter(|row| row["class"] != "internal").map(|row| row["journal"].as_u64().unwrap()).collect()
}

/// Sends partition 0 somewhere. `false`: it is there, or nobody answers.
fn send(address: SocketAddr, journal: u64) -> bool {
    let command = [
        "topic",
        "move",
        &format!("{TOPIC}:0"),
        "--to-journal",
        &journal.to_string(),
        "--no-wait",
        "--metrics",
        &address.to_string(),
    ]
    .map(str::to_owned);
    run(Command::new(binary()).args(command), b"", Duration::from_secs(30)).2
}

fn settle(address: SocketAddr) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !get(address, "/moves")["moving"].as_array().unwrap().is_empty() {
        assert!(Instant::now() < deadline, "{}", get(address, "/moves"));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads from the beginning on, as long as told to and until `end` is reached: every record once, in order.
fn follow(address: &Mutex<SocketAddr>, stop: &AtomicBool, end: &AtomicU64) -> u64 {
    let (mut offset, mut number) = (0i64, 0u64);
    while !stop.load(Ordering::Relaxed) || number < end.load(Ordering::Relaxed) {
        let target = *address.lock().unwrap();
        let Ok(mut wire) = Wire::connect(target) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        while !stop.load(Ordering::Relaxed) || number < end.load(Ordering::Relaxed) {
            let Ok(fetched) = wire.fetch(TOPIC, 0, offset, 64 << 10) else { break };
            let (code, bytes) = (fetched.code, fetched.bytes);
            // Only what says: ask again.
            assert!(code == 0 || code == 6, "a consumer at {offset} gets error {code}");
            for view in Batches::new(&bytes) {
                let Ok(view) = view else { break };
                view.verify_crc(&Checksums::portable()).unwrap();
                assert_eq!(view.base_offset(), offset, "nothing is passed over or comes twice");
                for record in view.records() {
                    let prefix = format!("0:{number}:");
                    assert!(
                        record.unwrap().value.unwrap().starts_with(prefix.as_bytes()),
                        "{prefix} is not at {offset}"
                    );
                    offset += 1;
                    number += 1;
                }
            }
            if bytes.is_empty() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    number
}

#[test]
fn nothing_is_lost_doubled_or_out_of_order_while_a_partition_moves_and_the_broker_is_killed() {
    let flags = ["--shards", "2"];
    let dir = folder();
    let data = dir.path().join("data");
    let mut broker = Broker::start_with(&data, &flags, |_| {});
    let code = Wire::connect(broker.address).unwrap().create_topic(TOPIC, 2, &[("retention.ms", "-1")]).unwrap();
    assert_eq!(code, 0);
    let journals = journals(broker.http);
    assert_eq!(journals.len(), 2, "one on each shard");
    let address = Arc::new(Mutex::new(broker.address));
    let (stop, acks, end) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(u64::MAX)));
    let producers: Vec<_> = (0..2)
        .map(|partition| {
            let (address, stop, acks) = (address.clone(), stop.clone(), acks.clone());
            std::thread::spawn(move || {
                let mut load = Load::new(TOPIC, partition);
                load.run(&Watch { address: &address, stop: &stop, acks: &acks, clock: &|| 0 });
                load
            })
        })
        .collect();
    let consumer = {
        let (address, stop, end) = (address.clone(), stop.clone(), end.clone());
        std::thread::spawn(move || follow(&address, &stop, &end))
    };
    let mut moved = 0;
    for round in 0..16u64 {
        let before = acks.load(Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from_secs(60);
        while acks.load(Ordering::Relaxed) == before {
            assert!(Instant::now() < deadline, "nothing is acknowledged in round {round}:\n{}", broker.log_text());
            std::thread::sleep(Duration::from_millis(5));
        }
        moved += u64::from(journals.iter().any(|journal| send(broker.http, *journal)));
        if round % 3 == 2 {
            // Somewhere on its way.
            std::thread::sleep(Duration::from_millis(round % 5));
            broker.kill();
            broker = Broker::start_with(&data, &flags, |_| {});
            *address.lock().unwrap() = broker.address;
        }
        settle(broker.http);
    }
    assert!(moved >= 8, "only {moved} moves");
    stop.store(true, Ordering::Relaxed);
    let loads: Vec<Load> = producers.into_iter().map(|thread| thread.join().unwrap()).collect();
    end.store(loads[0].sent(), Ordering::Relaxed);
    assert_eq!(consumer.join().unwrap(), loads[0].sent());
    let spread = get(broker.http, "/moves")["spread"].as_u64().unwrap();
    assert_eq!(spread, 1, "its older records are where they were");
    broker.kill();
    let broker = Broker::start_with(&data, &flags, |_| {});
    for load in &loads {
        let end = load.read_back(&mut Wire::connect(broker.address).unwrap(), 0).unwrap();
        assert_eq!(end, load.sent(), "all that was sent was acknowledged");
        load.check_acks(0, end).unwrap();
    }
}

#[test]
fn a_partition_follows_its_topics_retention_and_commands_say_what_happens() {
    let dir = folder();
    let broker = Broker::start_with(&dir.path().join("data"), &["--shards", "2"], |_| {});
    let bootstrap = broker.bootstrap();
    let metrics = broker.http.to_string();
    let barelog = |args: &[&str], input: &str| run_ok(Command::new(binary()).args(args), input.as_bytes());
    barelog(&["topic", "create", TOPIC, "--partitions", "3", "--bootstrap", &bootstrap], "");
    barelog(&["produce", TOPIC, "--bootstrap", &bootstrap], "one\ntwo\nthree\n");
    barelog(&["topic", "alter", TOPIC, "--config", "retention.ms=3600000", "--bootstrap", &bootstrap], "");
    let deadline = Instant::now() + Duration::from_secs(60);
    while get(broker.http, "/moves")["moved"] != 3 {
        assert!(Instant::now() < deadline, "{}\n{}", get(broker.http, "/moves"), broker.log_text());
        std::thread::sleep(Duration::from_millis(20));
    }
    let table = barelog(&["topology", "--metrics", &metrics], "");
    assert!(table.contains("delete, up to a day") && table.contains("delete, up to 8 days"), "{table}");
    barelog(&["produce", TOPIC, "--bootstrap", &bootstrap], "four\n");
    let read = barelog(&["consume", TOPIC, "--from-beginning", "--exit-eof", "--bootstrap", &bootstrap], "");
    let mut read: Vec<&str> = read.lines().collect();
    read.sort_unstable();
    assert_eq!(read, ["four", "one", "three", "two"]);
    let refuse = |args: &[&str]| {
        let (_, err, success) = run(Command::new(binary()).args(args), b"", Duration::from_secs(30));
        assert!(!success);
        err
    };
    let partition = format!("{TOPIC}:0");
    let why = refuse(&["topic", "move", &partition, "--to-journal", "1", "--metrics", &metrics]);
    assert!(why.contains("takes partitions with other settings"), "{why}");
    let why = refuse(&["topic", "move", &partition, "--to-journal", "99", "--metrics", &metrics]);
    assert!(why.contains("journal 99 is not one"), "{why}");
    assert!(barelog(&["topic", "move", "--metrics", &metrics], "").starts_with("TOPIC"));
    let (status, _) = http(broker.http, "POST", "/moves", "nonsense").unwrap();
    assert!((400..500).contains(&status), "{status}");
    let metrics = http_get(broker.http, "/metrics").unwrap().1;
    assert!(metrics.contains("barelog_partitions_moved_total 3"), "it is counted");
}
