//! SIGKILL of the real binary under load, again and again: no acknowledged record is lost, moved or duplicated.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/wire.rs"]
mod wire;

mod common;

#[path = "common/load.rs"]
mod load;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Broker, folder};
use load::{Load, Watch};
use wire::Wire;

const TOPIC: &str = "killed";
const PARTITIONS: i32 = 6;
fn kill_again_and_again(flags: &[&str], rounds: u64, seed: u64) {
    let dir = folder();
    let data = dir.path().join("data");
    let mut broker = Broker::start_with(&data, flags, |_| {});
    let code =
        Wire::connect(broker.address).unwrap().create_topic(TOPIC, PARTITIONS, &[("retention.ms", "-1")]).unwrap();
    assert_eq!(code, 0);
    let address = Arc::new(Mutex::new(broker.address));
    let (stop, acks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let threads: Vec<_> = (0..PARTITIONS)
        .map(|partition| {
            let (address, stop, acks) = (address.clone(), stop.clone(), acks.clone());
            std::thread::spawn(move || {
                let mut load = Load::new(TOPIC, partition);
                load.run(&Watch { address: &address, stop: &stop, acks: &acks, clock: &|| 0 });
                load
            })
        })
        .collect();
    let mut random = seed;
    for round in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before = acks.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(100 + (random >> 33) % 700));
        // Some progress first, so that every round kills under load.
        let deadline = Instant::now() + Duration::from_secs(30);
        while acks.load(Ordering::Relaxed) == before {
            assert!(Instant::now() < deadline, "no record was acknowledged in round {round}:\n{}", broker.log_text());
            std::thread::sleep(Duration::from_millis(5));
        }
        broker.kill();
        if round % 4 == 3 {
            // A second kill while it recovers.
            let (starting, _) = Broker::spawn(&data, flags, |_| {});
            std::thread::sleep(Duration::from_millis((random >> 40) % 120));
            starting.kill();
        }
        broker = Broker::start_with(&data, flags, |_| {});
        *address.lock().unwrap() = broker.address;
    }
    stop.store(true, Ordering::Relaxed);
    let loads: Vec<Load> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    // Once more cold, so that what is read comes from the device.
    broker.kill();
    let broker = Broker::start_with(&data, flags, |_| {});
    let mut wire = Wire::connect(broker.address).unwrap();
    for load in &loads {
        let end = load.read_back(&mut wire, 0).unwrap();
        load.check_acks(0, end).unwrap();
        assert_eq!(end, load.sent());
    }
    let total: usize = loads.iter().map(|load| load.acked.len()).sum();
    eprintln!("{rounds} kills, {} records in {total} batches acknowledged and found", acks.load(Ordering::Relaxed));
}

#[test]
fn no_acknowledged_record_is_lost_moved_or_duplicated_by_kills() {
    kill_again_and_again(&[], 12, 7);
}

#[test]
fn the_same_holds_across_shards() {
    kill_again_and_again(&["--shards", "2"], 6, 11);
}
