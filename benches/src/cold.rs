//! Readers of old records: what they make the device read, how fast they are, and what they do to those who read the tail.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::broker::Broker;
use crate::machine;
use crate::raw::{self, RawClient};

/// Partitions that share the journal.
const PARTITIONS: i32 = 1000;
/// Records of a batch: a consumer's batch of a slow partition.
const BATCH: usize = 10;
/// Records of a batch of the topic that fills the journal, and of the one that has a stretch to itself.
const LARGE: usize = 200;
const READ: &str = "barelog_device_read_bytes_total";
const CLUSTERED: &str = "barelog_extents_clustered_total";

/// What was found.
#[derive(Clone, Copy, Debug)]
pub struct ColdReads {
    /// Bytes read from the device over bytes of records, one partition of a thousand that lie mixed.
    pub mixed: f64,
    /// The same once the stretch was clustered.
    pub clustered: f64,
    /// MiB/s of records, all thousand in each request.
    pub all: f64,
    /// MiB/s of records of a partition that lies by itself.
    pub alone: f64,
    /// Nanoseconds, produce to durable ack, p50, without and with that cold reader beside.
    pub tail: (f64, f64),
}

/// Fills a journal with a thousand partitions of `mib` MiB in all, three times as much of another topic between them, and as much of
/// one partition by itself before; then reads.
pub fn cold_reads(dir: &Path, mib: usize, size: usize) -> Result<ColdReads> {
    let broker = Broker::start(dir, &[])?;
    let mut client = RawClient::connect(broker.address)?;
    for (topic, partitions) in [("alone", 1), ("mixed", PARTITIONS), ("filler", 1), ("tail", 1)] {
        client.create_topic(topic, partitions)?;
    }
    let sums = dataplane::checksums::fast();
    let (small, large) = (raw::batch(BATCH, size, &sums), raw::batch(LARGE, size, &sums));
    let alone = mib * 1024 / LARGE;
    client.one_in_flight("alone", 0, &large, alone)?;
    let rounds = mib * 1024 / (BATCH * PARTITIONS as usize);
    let mut batches = 0;
    for _ in 0..rounds {
        for partition in 0..PARTITIONS {
            client.one_in_flight("mixed", partition, &small, 1)?;
            batches += 1;
            // Three records of the filler for each of the others.
            if batches % 20 < 3 {
                client.one_in_flight("filler", 0, &large, 1)?;
            }
        }
    }
    // What is read below must not lie in the cache of the log's tail.
    client.one_in_flight("filler", 0, &large, 512 * 1024 / LARGE)?;

    let read = |broker: &Broker| broker.metric(READ).unwrap_or(0.0);
    let one = |partition: i32| -> Result<f64> {
        let before = read(&broker);
        let mut reader = RawClient::connect(broker.address)?;
        let bytes = reader.drain_one("mixed", partition, (rounds * BATCH) as u64)?;
        Ok((read(&broker) - before) / bytes as f64)
    };
    let mixed = one(PARTITIONS / 2)?;
    let rate = |bytes: u64, started: Instant| bytes as f64 / (1 << 20) as f64 / started.elapsed().as_secs_f64();
    let started = Instant::now();
    let all = rate(client.drain("mixed", PARTITIONS, (rounds * BATCH) as u64 * PARTITIONS as u64)?, started);

    let probe = raw::batch(1, size, &sums);
    client.one_in_flight("tail", 0, &probe, 500)?;
    let quiet = machine::median(&mut client.one_in_flight("tail", 0, &probe, 3000)?);
    let stop = AtomicBool::new(false);
    let (speed, beside) = std::thread::scope(|scope| -> Result<(f64, f64)> {
        let reading = scope.spawn(|| -> Result<f64> {
            let mut speeds = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let mut reader = RawClient::connect(broker.address)?;
                let started = Instant::now();
                speeds.push(rate(reader.drain("alone", 1, (alone * LARGE) as u64)?, started));
            }
            Ok(machine::median(&mut speeds))
        });
        let times = client.one_in_flight("tail", 0, &probe, 3000);
        stop.store(true, Ordering::Relaxed);
        let _ = reading.join().map_err(|_| anyhow::anyhow!("the cold reader failed"))??;
        let mut reader = RawClient::connect(broker.address)?;
        let started = Instant::now();
        let speed = rate(reader.drain("alone", 1, (alone * LARGE) as u64)?, started);
        Ok((speed, machine::median(&mut times?)))
    })?;

    client.delete_topic("filler")?;
    wait_until_clustered(&broker)?;
    let clustered = one(PARTITIONS / 2 + 1)?;
    Ok(ColdReads { mixed, clustered, all, alone: speed, tail: (quiet, beside) })
}

/// Until clustering has begun and then found nothing more to do for longer than it rests between two looks.
fn wait_until_clustered(broker: &Broker) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(180);
    let (mut count, mut since) = (0.0, Instant::now());
    while count < 1.0 || since.elapsed() < Duration::from_secs(12) {
        ensure!(Instant::now() < deadline, "nothing was clustered within three minutes");
        std::thread::sleep(Duration::from_millis(200));
        let now = broker.metric(CLUSTERED).unwrap_or(0.0);
        if now > count {
            (count, since) = (now, Instant::now());
        }
    }
    Ok(())
}
