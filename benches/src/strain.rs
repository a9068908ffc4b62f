//! A broker under strain: more than it can take, one loud partition among quiet ones, many small producers.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::broker::Broker;
use crate::crowd::{Crowd, Outcome};
use crate::machine::{self, CpuQuota};
use crate::raw::{self, RawClient};

/// What many small producers cost in one mode of committing.
#[derive(Clone, Copy, Debug)]
pub struct Small {
    /// Broker CPU seconds per million records at the fixed rate.
    pub cpu: f64,
    /// Records per device write at that rate.
    pub per_write: f64,
    /// Nanoseconds to the durable ack, p50, at that rate.
    pub p50: f64,
    /// Records per second when each sends as soon as it is answered.
    pub saturation: f64,
}

/// `producers` of ten records a second each, one record a request, over as many partitions: with the broker's group commit, and with
/// a profile of one write in flight and units that hold a single batch, which is a flush for each request.
pub fn small_producers(dir: &Path, producers: usize, seconds: u64, size: usize) -> Result<(Small, Small)> {
    std::fs::create_dir_all(dir)?;
    let profile = dir.join("flush-per-request.toml");
    std::fs::write(&profile, "[journal]\nunit = \"4 KiB\"\nwrites_in_flight = 1\nbytes_in_flight = \"4 KiB\"\n")?;
    let profile = profile.to_string_lossy();
    // Two of these do not fit a unit of 4 KiB.
    let size = size.max(2048);
    let grouped = small(&dir.join("grouped"), &[], producers, seconds, size)?;
    let each = small(&dir.join("each"), &["--profile", &profile], producers, seconds, size)?;
    Ok((grouped, each))
}

fn small(dir: &Path, flags: &[&str], producers: usize, seconds: u64, size: usize) -> Result<Small> {
    let broker = Broker::start(dir, flags)?;
    let requests = requests(&broker, "small", producers, 1, size)?;
    let crowd = |interval, seconds| Crowd {
        address: broker.address,
        requests: requests.clone(),
        interval,
        time: Duration::from_secs(seconds),
    };
    let paced = Some(Duration::from_millis(100));
    crowd(paced, 2).run()?;
    let writes =
        |broker: &Broker| broker.metric("barelog_device_writes_total").context("device writes are not counted");
    let before = (broker.cpu_seconds(), writes(&broker)?);
    let mut outcome = crowd(paced, seconds).run()?;
    let records = outcome.answers.len() as f64;
    let (cpu, written) = (broker.cpu_seconds() - before.0, writes(&broker)? - before.1);
    let full = crowd(None, seconds.div_ceil(2)).run()?;
    Ok(Small {
        cpu: cpu / records * 1e6,
        per_write: records / written,
        p50: outcome.permille(500),
        saturation: full.answers.len() as f64 / full.seconds,
    })
}

/// One request for each partition of a topic made for it.
fn requests(broker: &Broker, topic: &str, partitions: usize, batch: usize, size: usize) -> Result<Vec<Vec<u8>>> {
    let mut client = RawClient::connect(broker.address)?;
    client.create_topic(topic, i32::try_from(partitions)?)?;
    let batch = raw::batch(batch, size, &dataplane::checksums::fast());
    (0..partitions).map(|i| Ok(client.produce_request(topic, i32::try_from(i)?, &batch))).collect()
}

/// One loud partition beside quiet ones of the same journal.
#[derive(Clone, Copy, Debug)]
pub struct Loud {
    /// Nanoseconds to the durable ack of the quiet, p50, without and with the loud one.
    pub quiet: (f64, f64),
    /// MiB/s of the loud one.
    pub rate: f64,
}

/// `quiet` partitions with one record a second each, and one that takes what the device takes.
pub fn loud_neighbour(dir: &Path, quiet: usize, seconds: u64, size: usize) -> Result<Loud> {
    let broker = Broker::start(dir, &[])?;
    let requests = requests(&broker, "quiet", quiet, 1, size)?;
    let crowd = Crowd {
        address: broker.address,
        requests,
        interval: Some(Duration::from_secs(1)),
        time: Duration::from_secs(seconds),
    };
    let mut client = RawClient::connect(broker.address)?;
    client.create_topic("loud", 1)?;
    let batch = raw::batch(256, size, &dataplane::checksums::fast());
    let request = client.produce_request("loud", 0, &batch);
    client.one_in_flight("loud", 0, &batch, 2000)?;
    let alone = crowd.run()?.permille(500);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<Loud> {
        let loud = scope.spawn(|| -> Result<f64> {
            const WINDOW: usize = 8;
            let (started, mut sent) = (Instant::now(), 0usize);
            for _ in 0..WINDOW {
                client.send(&request)?;
            }
            while !stop.load(Ordering::Relaxed) {
                client.produced("loud")?;
                client.send(&request)?;
                sent += 1;
            }
            let seconds = started.elapsed().as_secs_f64();
            for _ in 0..WINDOW {
                client.produced("loud")?;
            }
            Ok((sent * batch.len()) as f64 / (1 << 20) as f64 / seconds)
        });
        let among = crowd.run();
        stop.store(true, Ordering::Relaxed);
        let rate = loud.join().map_err(|_| anyhow::anyhow!("the loud producer failed"))??;
        Ok(Loud { quiet: (alone, among?.permille(500)), rate })
    })
}

/// A step of the ramp.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What is asked, over what the broker can take.
    pub load: f64,
    /// Records per second that were answered.
    pub rate: f64,
    /// Nanoseconds to the durable ack.
    pub p50: f64,
    /// The same, 99 of 100.
    pub p99: f64,
    /// Resident memory, in bytes.
    pub memory: f64,
}

/// What overload does.
#[derive(Clone, Debug)]
pub struct Overload {
    /// Records per second that the broker can take under its quota.
    pub capacity: f64,
    /// Up and back down.
    pub steps: Vec<Step>,
    /// Seconds after the last step above capacity until half the load is served as before the ramp (p50 at most 1.5 ×).
    pub recovery: f64,
}

/// A broker with `quota` of one core; an open loop of `producers` from a quarter of its capacity to three times as much and back.
pub fn overload(dir: &Path, quota: f64, producers: usize, size: usize) -> Result<Overload> {
    const BATCH: usize = 10;
    let broker = Broker::start(dir, &[])?;
    let _quota = CpuQuota::of(broker.pid(), quota)?;
    let requests = requests(&broker, "o", producers, BATCH, size)?;
    let run = |interval: Option<Duration>, time: Duration| -> Result<Outcome> {
        Crowd { address: broker.address, requests: requests.clone(), interval, time }.run()
    };
    run(None, Duration::from_secs(2))?;
    let full = run(None, Duration::from_secs(4))?;
    let capacity = full.answers.len() as f64 / full.seconds;
    let at = |load: f64| Some(Duration::from_secs_f64(producers as f64 / (capacity * load)));
    let mut steps = Vec::new();
    for load in [0.25, 0.5, 1.0, 2.0, 3.0, 2.0, 1.0] {
        let mut outcome = run(at(load), Duration::from_secs(3))?;
        ensure!(!outcome.answers.is_empty(), "nothing was answered at {load} × capacity");
        steps.push(Step {
            load,
            rate: (outcome.answers.len() * BATCH) as f64 / outcome.seconds,
            p50: outcome.permille(500),
            p99: outcome.permille(990),
            memory: broker.resident_bytes(),
        });
    }
    let usual = steps[1].p50;
    let started = Instant::now();
    let recovery = loop {
        let mut outcome = run(at(0.5), Duration::from_millis(250))?;
        if outcome.permille(500) <= 1.5 * usual {
            break started.elapsed().as_secs_f64();
        }
        ensure!(started.elapsed() < Duration::from_secs(30), "half a minute after the load no answer is as it was");
    };
    Ok(Overload { capacity: capacity * BATCH as f64, steps, recovery })
}

/// A group of `members`: seconds in which one more is taken in, and broker CPU seconds for it.
pub fn rebalance(dir: &Path, members: usize) -> Result<(f64, f64)> {
    let broker = Broker::start(dir, &[])?;
    let mut group = crate::group::Group::form(broker.address, "crowd", members)?;
    let before = broker.cpu_seconds();
    let mut times: Vec<f64> = (0..3).map(|_| group.one_more()).collect::<Result<_>>()?;
    Ok((machine::median(&mut times), (broker.cpu_seconds() - before) / 3.0))
}
