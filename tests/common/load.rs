//! One idempotent producer whose records are numbers, so that what a broker has kept can be checked record by record.
#![allow(unreachable_pub, reason = "shared by test binaries")]
#![allow(dead_code, reason = "every test binary uses another part of it")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::Checksums;
use protocol::batch::{BatchBuilder, Batches, Producer};

use crate::wire::{Attempt, Wire};

/// librdkafka and Java keep up to five batches in flight under idempotence.
pub const IN_FLIGHT: usize = 5;

/// A batch that was sent, until it is acknowledged.
struct Sent {
    bytes: Vec<u8>,
    first: u64,
}

/// An acknowledged batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The base offset that was answered.
    pub base: i64,
    /// Number of its first record.
    pub first: u64,
    /// How many records.
    pub count: u64,
    /// What the clock of the load showed when the answer was there.
    pub at: u64,
}

/// What a load watches.
pub struct Watch<'a> {
    /// Where the broker is now.
    pub address: &'a Mutex<SocketAddr>,
    /// Send no more, and end when all is acknowledged.
    pub stop: &'a AtomicBool,
    /// Counts records that were acknowledged.
    pub acks: &'a AtomicU64,
    /// Whatever should be noted with each acknowledgement.
    pub clock: &'a (dyn Fn() -> u64 + Sync),
}

/// One idempotent producer with a partition of its own. Its records are the numbers 0, 1, 2, …, at these offsets.
pub struct Load {
    topic: &'static str,
    partition: i32,
    /// Id and epoch, once it has them.
    producer: Option<(i64, i16)>,
    next: u64,
    unacked: VecDeque<Sent>,
    pub acked: Vec<Ack>,
}

/// How many records the batch that begins with this number holds.
fn batch_count(first: u64) -> u64 {
    1 + first * 31 % 40
}

fn batch(partition: i32, first: u64, producer: (i64, i16)) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for number in first..first + batch_count(first) {
        // 20 to 520 bytes, so that units are cut everywhere.
        let mut value = format!("{partition}:{number}:").into_bytes();
        value.resize(20 + usize::try_from(number * 7 % 500).unwrap(), b'.');
        builder.append(1_700_000_000_000 + i64::try_from(number).unwrap(), None, Some(&value), &[]);
    }
    let sequence = i32::try_from(first).expect("fewer than 2^31 records");
    let producer = Producer { id: producer.0, epoch: producer.1, sequence, transactional: false };
    builder.finish(producer, &Checksums::portable()).to_vec()
}

impl Load {
    pub fn new(topic: &'static str, partition: i32) -> Self {
        Self { topic, partition, producer: None, next: 0, unacked: VecDeque::new(), acked: Vec::new() }
    }

    /// How many records were sent.
    pub fn sent(&self) -> u64 {
        self.next
    }

    /// Produces until told to stop; reconnects whenever the broker went away, and sends again what was not acknowledged.
    pub fn run(&mut self, watch: &Watch<'_>) {
        while self.producer.is_none() {
            match Wire::connect(*watch.address.lock().unwrap()).and_then(|mut wire| wire.producer_id()) {
                Ok(producer) => self.producer = Some(producer),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        while !watch.stop.load(Ordering::Relaxed) || !self.unacked.is_empty() {
            if self.connection(watch).is_err() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn connection(&mut self, watch: &Watch<'_>) -> Attempt<()> {
        let mut wire = Wire::connect(*watch.address.lock().unwrap())?;
        let producer = self.producer.expect("drawn before");
        for sent in &self.unacked {
            wire.send_produce(self.topic, self.partition, &sent.bytes)?;
        }
        loop {
            while self.unacked.len() < IN_FLIGHT && !watch.stop.load(Ordering::Relaxed) {
                let bytes = batch(self.partition, self.next, producer);
                wire.send_produce(self.topic, self.partition, &bytes)?;
                self.unacked.push_back(Sent { bytes, first: self.next });
                self.next += batch_count(self.next);
            }
            if self.unacked.is_empty() {
                return Ok(());
            }
            let (code, base) = wire.receive_produce()?;
            let at = (watch.clock)();
            // 56 and the like may come while the broker goes down; an out-of-order sequence would be a lost record.
            assert!(![2, 45, 46, 47].contains(&code), "partition {}: error {code}", self.partition);
            if code != 0 {
                return Err(format!("error {code}"));
            }
            let sent = self.unacked.pop_front().unwrap();
            let ack = Ack { base, first: sent.first, count: batch_count(sent.first), at };
            self.acked.push(ack);
            watch.acks.fetch_add(ack.count, Ordering::Relaxed);
        }
    }

    /// Reads everything back and gives the offset behind it. Every record lies at the offset of its number with its bytes, none
    /// twice, none missing between, and the end is no record that was never sent.
    ///
    /// # Errors
    /// The first thing that is not so.
    pub fn read_back(&self, wire: &mut Wire, from: i64) -> Attempt<u64> {
        let partition = self.partition;
        let mut offset = from;
        loop {
            let fetched = wire.fetch(self.topic, partition, offset, 1 << 20)?;
            if fetched.code != 0 {
                return Err(format!("partition {partition} at {offset}: error {}", fetched.code));
            }
            if offset == fetched.high_watermark {
                break;
            }
            let before = offset;
            for view in &mut Batches::new(&fetched.bytes) {
                let view = view.map_err(|error| format!("partition {partition} behind {offset}: {error:?}"))?;
                view.verify_crc(&Checksums::portable()).map_err(|error| format!("at {offset}: {error:?}"))?;
                let (base, count) = (view.base_offset(), i64::from(view.count()));
                let first = u64::try_from(base).map_err(|_| format!("base offset {base}"))?;
                // The first batch may begin before what was asked for.
                if base > offset || base + count <= offset || u64::try_from(count) != Ok(batch_count(first)) {
                    return Err(format!("partition {partition}: {count} records at {base} instead of {offset}"));
                }
                for (number, record) in (first..).zip(view.records()) {
                    let record = record.map_err(|error| format!("{number}: {error:?}"))?;
                    let prefix = format!("{partition}:{number}:");
                    if !record.value.is_some_and(|value| value.starts_with(prefix.as_bytes())) {
                        return Err(format!("{prefix} is not at its offset"));
                    }
                }
                offset = base + count;
            }
            if offset == before {
                return Err(format!("partition {partition}: nothing at {offset}, below the high watermark"));
            }
        }
        let end = u64::try_from(offset).map_err(|_| format!("end {offset}"))?;
        if end > self.next {
            return Err(format!("partition {partition}: {end} records, and {} were sent", self.next));
        }
        Ok(end)
    }

    /// Whether all that was acknowledged up to `at` on the load's clock lies below `end`, where its answer said.
    ///
    /// # Errors
    /// The first acknowledgement that is broken.
    pub fn check_acks(&self, at: u64, end: u64) -> Attempt<()> {
        for ack in &self.acked {
            if u64::try_from(ack.base) != Ok(ack.first) {
                return Err(format!("partition {}: {} was acknowledged at {}", self.partition, ack.first, ack.base));
            }
            if ack.at <= at && ack.first + ack.count > end {
                let (first, last) = (ack.first, ack.first + ack.count - 1);
                return Err(format!(
                    "partition {}: {first} to {last} were acknowledged at {} and are not there: the end is {end}",
                    self.partition, ack.at
                ));
            }
        }
        Ok(())
    }

    /// The producer goes on behind `end`: its last batch, sent again, is answered as the first time and not stored again, and
    /// the next one follows.
    ///
    /// # Errors
    /// It does not.
    pub fn go_on(&self, wire: &mut Wire, end: u64) -> Attempt<()> {
        let Some(producer) = self.producer else { return Ok(()) };
        let last = (0..).scan(0, |next, _: u64| Some(std::mem::replace(next, *next + batch_count(*next))));
        let last = last.take_while(|first| *first < end).last();
        for first in last.into_iter().chain([end]) {
            wire.send_produce(self.topic, self.partition, &batch(self.partition, first, producer))?;
            let answer = wire.receive_produce()?;
            if answer != (0, i64::try_from(first).expect("small")) {
                return Err(format!("partition {}: the producer sends {first}, end {end}: {answer:?}", self.partition));
            }
        }
        let end = i64::try_from(end + batch_count(end)).expect("small");
        let fetched = wire.fetch(self.topic, self.partition, end, 1 << 20)?;
        if (fetched.code, fetched.high_watermark) != (0, end) {
            return Err(format!("partition {}: {fetched:?} instead of the end {end}", self.partition));
        }
        Ok(())
    }
}
