//! SIGKILL of the real binary under load, again and again: no acknowledged record is lost, moved or duplicated.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/wire.rs"]
mod wire;

mod common;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::Checksums;
use common::{Broker, folder};
use protocol::batch::{BatchBuilder, Batches, Producer};
use wire::{Attempt, Wire};

const TOPIC: &str = "killed";
const PARTITIONS: i32 = 6;
/// librdkafka and Java keep up to five batches in flight under idempotence.
const IN_FLIGHT: usize = 5;

/// A batch that was sent, until it is acknowledged.
struct Sent {
    bytes: Vec<u8>,
    first: u64,
    count: u64,
}

/// One idempotent producer with a partition of its own. Its records are the numbers 0, 1, 2, …
struct Load {
    partition: i32,
    next: u64,
    sequence: i32,
    unacked: VecDeque<Sent>,
    /// (base offset, first number, count) of every acknowledged batch.
    acked: Vec<(i64, u64, u64)>,
}

fn batch(partition: i32, first: u64, count: u64, producer: Producer) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for number in first..first + count {
        // 20 to 520 bytes, so that units are cut everywhere.
        let mut value = format!("{partition}:{number}:").into_bytes();
        value.resize(20 + usize::try_from(number * 7 % 500).unwrap(), b'.');
        builder.append(1_700_000_000_000 + i64::try_from(number).unwrap(), None, Some(&value), &[]);
    }
    builder.finish(producer, &Checksums::portable()).to_vec()
}

impl Load {
    /// Produces until told to stop; reconnects whenever the broker went away, and sends again what was not acknowledged.
    fn run(&mut self, address: &Mutex<SocketAddr>, stop: &AtomicBool, acks: &AtomicU64) {
        let producer = loop {
            match Wire::connect(*address.lock().unwrap()).and_then(|mut wire| wire.producer_id()) {
                Ok(producer) => break producer,
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        while !stop.load(Ordering::Relaxed) || !self.unacked.is_empty() {
            let target = *address.lock().unwrap();
            if self.connection(target, producer, stop, acks).is_err() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn connection(
        &mut self,
        target: SocketAddr,
        producer: (i64, i16),
        stop: &AtomicBool,
        acks: &AtomicU64,
    ) -> Attempt<()> {
        let mut wire = Wire::connect(target)?;
        for sent in &self.unacked {
            wire.send_produce(TOPIC, self.partition, &sent.bytes)?;
        }
        loop {
            while self.unacked.len() < IN_FLIGHT && !stop.load(Ordering::Relaxed) {
                let count = 1 + self.next * 31 % 40;
                let producer =
                    Producer { id: producer.0, epoch: producer.1, sequence: self.sequence, transactional: false };
                let bytes = batch(self.partition, self.next, count, producer);
                wire.send_produce(TOPIC, self.partition, &bytes)?;
                self.unacked.push_back(Sent { bytes, first: self.next, count });
                self.next += count;
                self.sequence += i32::try_from(count).unwrap();
            }
            if self.unacked.is_empty() {
                return Ok(());
            }
            let (code, base) = wire.receive_produce()?;
            // 56 and the like may come while the broker goes down; an out-of-order sequence would be a lost record.
            assert!(![2, 45, 46, 47].contains(&code), "partition {}: error {code}", self.partition);
            if code != 0 {
                return Err(format!("error {code}"));
            }
            let sent = self.unacked.pop_front().unwrap();
            self.acked.push((base, sent.first, sent.count));
            acks.fetch_add(sent.count, Ordering::Relaxed);
        }
    }

    /// Every acknowledged batch lies at its offset with its bytes, and nothing lies between.
    fn verify(&self, address: SocketAddr) {
        let mut wire = Wire::connect(address).unwrap();
        let mut expected = self.acked.iter().copied();
        let (mut offset, mut number) = (0i64, 0u64);
        loop {
            let (code, high_watermark, bytes) = wire.fetch(TOPIC, self.partition, offset, 1 << 20).unwrap();
            assert_eq!(code, 0, "partition {} at {offset}", self.partition);
            if offset == high_watermark {
                break;
            }
            let mut batches = Batches::new(&bytes);
            for view in &mut batches {
                let view = view.unwrap();
                view.verify_crc(&Checksums::portable()).unwrap();
                let acked = expected.next();
                let count = u64::try_from(view.count()).unwrap();
                assert_eq!(view.base_offset(), offset, "partition {}", self.partition);
                assert_eq!(acked, Some((offset, number, count)), "partition {}", self.partition);
                for record in view.records() {
                    let record = record.unwrap();
                    let prefix = format!("{}:{number}:", self.partition);
                    assert!(record.value.unwrap().starts_with(prefix.as_bytes()), "{prefix} is not at {offset}");
                    number += 1;
                    offset += 1;
                }
            }
        }
        assert_eq!(expected.next(), None, "partition {}: acknowledged and not there", self.partition);
        assert_eq!(number, self.next, "partition {}", self.partition);
    }
}

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
                let mut load = Load { partition, next: 0, sequence: 0, unacked: VecDeque::new(), acked: Vec::new() };
                load.run(&address, &stop, &acks);
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
    for load in &loads {
        load.verify(broker.address);
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
