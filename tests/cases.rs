//! What users of such systems have hit, each as the smallest scenario that shows it, against the real binary. The table in
//! docs/PROTOCOL.md says which test holds which scenario; here are those that no other test has.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

#[path = "common/wire.rs"]
mod wire;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base::Checksums;
use common::{Broker, folder};
use protocol::batch::{BatchBuilder, Producer};
use wire::Wire;

fn batch(value: &[u8]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.append(1_700_000_000_000, None, Some(value), &[]);
    builder.finish(Producer::NONE, &Checksums::portable()).to_vec()
}

/// Nagle's algorithm and delayed acknowledgements together hold small answers back for 40 ms. The best of many tries tells, however
/// busy the machine is.
#[test]
fn a_small_message_is_answered_without_waiting_for_more() {
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    let mut wire = Wire::connect(broker.address).unwrap();
    assert_eq!(wire.create_topic("t", 1, &[("retention.ms", "-1")]), Ok(0));
    let mut best = Duration::MAX;
    for _ in 0..50 {
        let started = Instant::now();
        // Two requests at once: the second answer is a small segment behind one that is not acknowledged yet.
        wire.send_produce("t", 0, &batch(b"x")).unwrap();
        wire.send_produce("t", 0, &batch(b"y")).unwrap();
        assert_eq!(wire.receive_produce().unwrap().0, 0);
        assert_eq!(wire.receive_produce().unwrap().0, 0);
        best = best.min(started.elapsed());
    }
    assert!(best < Duration::from_millis(30), "{best:?}");
}

/// Resident memory of a process in bytes.
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

/// Ten thousand partitions: made and served in bounded memory, found again after an orderly stop and after a kill without reading each.
#[test]
fn ten_thousand_partitions_are_made_served_and_found_again() {
    const TOPICS: usize = 10;
    let dir = folder();
    let data = dir.path().join("data");
    let broker = Broker::start(&data);
    let before = resident(broker.pid());
    let mut wire = Wire::connect(broker.address).unwrap();
    for topic in 0..TOPICS {
        assert_eq!(wire.create_topic(&format!("t{topic}"), 1000, &[("retention.ms", "-1")]), Ok(0));
    }
    for partition in 0..1000 {
        wire.send_produce(&format!("t{}", partition % 10), partition, &batch(b"x")).unwrap();
        assert_eq!(wire.receive_produce().unwrap(), (0, 0));
    }
    // 10,000 partitions of 16 KiB each: many times what they take, a fraction of what broke others.
    let taken = resident(broker.pid()).saturating_sub(before);
    assert!(taken < 160 << 20, "{} MiB", taken >> 20);
    let (status, took) = broker.stop();
    assert!(status.success() && took < Duration::from_secs(30), "{status} after {took:?}");
    let started = Instant::now();
    let broker = Broker::start(&data);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    let look = |broker: &Broker| {
        let mut wire = Wire::connect(broker.address).unwrap();
        for partition in [0, 7, 999] {
            let fetched = wire.fetch(&format!("t{}", partition % 10), partition, 0, 10_000).unwrap();
            assert_eq!((fetched.code, fetched.high_watermark), (0, 1));
            assert!(!fetched.bytes.is_empty());
        }
    };
    look(&broker);
    broker.kill();
    let started = Instant::now();
    let broker = Broker::start(&data);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    look(&broker);
}

/// A client that goes away in the middle of a request, or of an answer, takes nothing with it.
#[test]
fn connections_that_break_off_leave_the_others_alone() {
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    let mut wire = Wire::connect(broker.address).unwrap();
    assert_eq!(wire.create_topic("t", 1, &[("retention.ms", "-1")]), Ok(0));
    for i in 0..200usize {
        let mut stream = TcpStream::connect(broker.address).unwrap();
        // ApiVersions v0, whole or cut off anywhere.
        let request = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
        stream.write_all(&request[..i % (request.len() + 1)]).unwrap();
        if i % 3 == 0 {
            stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            let _ = stream.read(&mut [0; 3]);
        }
    }
    wire.send_produce("t", 0, &batch(b"x")).unwrap();
    assert_eq!(wire.receive_produce().unwrap(), (0, 0));
}
