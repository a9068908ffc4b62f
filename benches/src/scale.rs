//! What many of something cost: partitions, connections, readers of one log; latency at a fixed rate; a restart.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::broker::Broker;
use crate::machine;
use crate::raw::{self, RawClient};

/// Partitions of one topic at most.
const OF_TOPIC: usize = 10_000;

/// Nanoseconds, sorted, from the moment at which each of `rate * seconds` records was due at the producer to its arrival at a
/// consumer: an open loop, one record per batch, so that a record that had to wait to be sent counts that too.
pub fn end_to_end(address: SocketAddr, topic: &str, rate: u64, seconds: u64, size: usize) -> Result<Vec<f64>> {
    let count = rate * seconds;
    let batch = raw::batch(1, size, &dataplane::checksums::fast());
    let mut producer = RawClient::connect(address)?;
    producer.create_topic(topic, 1)?;
    let mut consumer = RawClient::connect(address)?;
    let mut answers = producer.answers()?;
    let request = producer.produce_request(topic, 0, &batch);
    let started = Instant::now() + Duration::from_millis(200);
    let due = |i: u64| started + Duration::from_nanos(i * 1_000_000_000 / rate);
    std::thread::scope(|scope| -> Result<Vec<f64>> {
        let sending = scope.spawn(move || -> Result<()> {
            machine::sleep_exactly();
            for i in 0..count {
                let wait = due(i).saturating_duration_since(Instant::now());
                if !wait.is_zero() {
                    std::thread::sleep(wait);
                }
                producer.send(&request)?;
            }
            Ok(())
        });
        let answering = scope.spawn(move || -> Result<()> {
            for _ in 0..count {
                answers.produced(topic)?;
            }
            Ok(())
        });
        let (mut offsets, mut times) = ([0i64], Vec::new());
        while times.len() as u64 != count {
            let before = offsets[0];
            consumer.fetch(topic, &mut offsets)?;
            let now = Instant::now();
            for offset in before..offsets[0] {
                let late = now.saturating_duration_since(due(u64::try_from(offset)?));
                times.push(late.as_secs_f64() * 1e9);
            }
        }
        sending.join().map_err(|_| anyhow::anyhow!("the producer failed"))??;
        answering.join().map_err(|_| anyhow::anyhow!("the reader of answers failed"))??;
        times.sort_unstable_by(f64::total_cmp);
        Ok(times)
    })
}

/// What so many partitions cost.
#[derive(Clone, Copy, Debug)]
pub struct Partitions {
    /// Seconds to create them.
    pub create: f64,
    /// Resident bytes that each took.
    pub memory: f64,
    /// Seconds for Metadata of all, and bytes of the answer.
    pub metadata: (f64, usize),
    /// Broker CPU seconds per million records.
    pub cpu: f64,
    /// Records per second.
    pub rate: f64,
}

/// Creates `count` partitions and produces `records` records to them, batches of ten in a closed loop of eight, spread at random.
pub fn partitions(dir: &Path, count: usize, records: u64, size: usize) -> Result<Partitions> {
    const IN_FLIGHT: usize = 8;
    let broker = Broker::start(dir, &[])?;
    let mut client = RawClient::connect(broker.address)?;
    let (before, started) = (broker.resident_bytes(), Instant::now());
    let topics: Vec<(String, usize)> =
        (0..count.div_ceil(OF_TOPIC)).map(|i| (format!("p{i}"), OF_TOPIC.min(count - i * OF_TOPIC))).collect();
    for (topic, partitions) in &topics {
        client.create_topic(topic, i32::try_from(*partitions)?)?;
    }
    let create = started.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_millis(500));
    let memory = (broker.resident_bytes() - before) / count as f64;
    let started = Instant::now();
    let bytes = client.metadata()?;
    let metadata = (started.elapsed().as_secs_f64(), bytes);
    let batch = raw::batch(10, size, &dataplane::checksums::fast());
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut produce = |client: &mut RawClient, batches: usize| -> Result<()> {
        let mut flying = std::collections::VecDeque::new();
        for _ in 0..batches {
            if flying.len() == IN_FLIGHT {
                client.produced(flying.pop_front().expect("some fly"))?;
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(state >> 33)? % count;
            let (topic, _) = &topics[at / OF_TOPIC];
            let request = client.produce_request(topic, i32::try_from(at % OF_TOPIC)?, &batch);
            client.send(&request)?;
            flying.push_back(topic.as_str());
        }
        for topic in flying {
            client.produced(topic)?;
        }
        Ok(())
    };
    // The same memory is touched at every step before anything is measured.
    produce(&mut client, usize::try_from(records / 10)?)?;
    let (started, before) = (Instant::now(), broker.cpu_seconds());
    produce(&mut client, usize::try_from(records / 10)?)?;
    let cpu = (broker.cpu_seconds() - before) / (records as f64 / 1e6);
    Ok(Partitions { create, memory, metadata, cpu, rate: records as f64 / started.elapsed().as_secs_f64() })
}

/// Records per second without and with `count` idle connections, and the resident bytes that each took.
pub fn idle_connections(dir: &Path, count: usize, records: u64, size: usize) -> Result<(f64, f64, f64)> {
    const BATCH: usize = 100;
    let broker = Broker::start(dir, &[])?;
    let mut client = RawClient::connect(broker.address)?;
    client.create_topic("t", 1)?;
    let batch = raw::batch(BATCH, size, &dataplane::checksums::fast());
    let rate = |client: &mut RawClient| -> Result<f64> {
        let started = Instant::now();
        client.one_in_flight("t", 0, &batch, usize::try_from(records)? / BATCH)?;
        Ok(records as f64 / started.elapsed().as_secs_f64())
    };
    rate(&mut client)?;
    let before = broker.resident_bytes();
    let alone = rate(&mut client)?;
    let connections: Vec<TcpStream> =
        (0..count).map(|_| TcpStream::connect(broker.address)).collect::<Result<_, _>>()?;
    std::thread::sleep(Duration::from_secs(1));
    let open = broker.metric("barelog_connections").unwrap_or(0.0);
    ensure!(open >= count as f64, "only {open} connections are open");
    let memory = (broker.resident_bytes() - before) / count as f64;
    let among = rate(&mut client)?;
    drop(connections);
    Ok((alone, among, memory.max(0.0)))
}

/// What readers of a log's tail cost its producer.
#[derive(Clone, Copy, Debug)]
pub struct Tailing {
    /// Nanoseconds, produce to durable ack, p50, without readers.
    pub alone: f64,
    /// The same with them.
    pub among: f64,
    /// Bytes of batches that all readers got over those produced meanwhile.
    pub out: f64,
    /// Device reads meanwhile.
    pub reads: f64,
}

/// One producer with one record in flight, `readers` long-polling readers of its partition.
pub fn tailing(dir: &Path, readers: usize, count: usize, size: usize) -> Result<Tailing> {
    let broker = Broker::start(dir, &[])?;
    let mut client = RawClient::connect(broker.address)?;
    client.create_topic("t", 1)?;
    let batch = raw::batch(1, size, &dataplane::checksums::fast());
    client.one_in_flight("t", 0, &batch, count / 4)?;
    let alone = machine::median(&mut client.one_in_flight("t", 0, &batch, count)?);
    let begin = i64::try_from(count + count / 4)?;
    let (stop, got) = (AtomicBool::new(false), AtomicU64::new(0));
    let reads = || broker.metric("barelog_device_reads_total").unwrap_or(0.0);
    std::thread::scope(|scope| -> Result<Tailing> {
        let threads: Vec<_> = (0..readers)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let mut reader = RawClient::connect(broker.address)?;
                    let mut offsets = [begin];
                    while !stop.load(Ordering::Relaxed) {
                        let (_, bytes) = reader.fetch("t", &mut offsets)?;
                        got.fetch_add(bytes, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        let before = reads();
        let times = client.one_in_flight("t", 0, &batch, count);
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a reader failed"))??;
        }
        let out = got.load(Ordering::Relaxed) as f64 / (count * batch.len()) as f64;
        Ok(Tailing { alone, among: machine::median(&mut times?), out, reads: reads() - before })
    })
}

/// Seconds from the start of a broker that was killed with `records` records in `partitions` partitions to its serving.
pub fn restart(dir: &Path, partitions: usize, records: u64, size: usize) -> Result<f64> {
    const BATCH: usize = 100;
    let broker = Broker::start(dir, &[])?;
    let mut client = RawClient::connect(broker.address)?;
    client.create_topic("t", i32::try_from(partitions)?)?;
    let batch = raw::batch(BATCH, size, &dataplane::checksums::fast());
    for i in 0..usize::try_from(records)? / BATCH {
        let request = client.produce_request("t", i32::try_from(i % partitions)?, &batch);
        client.send(&request)?;
        client.produced("t")?;
    }
    drop(broker); // by SIGKILL
    let started = Instant::now();
    let broker = Broker::start(dir, &[])?;
    let seconds = started.elapsed().as_secs_f64();
    let mut client = RawClient::connect(broker.address)?;
    let request = client.produce_request("t", 0, &batch);
    client.send(&request)?;
    client.produced("t")?;
    Ok(seconds)
}
