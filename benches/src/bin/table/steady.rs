//! What a record costs in a steady state, beside floors of the same bytes: bulk, one in flight, shards.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use benches::broker::{Broker, Kafka};
use benches::floor::{self, Scratch};
use benches::raw::{self, RawClient};
use benches::{journal, machine, rd};
use serde_json::json;

use crate::{Bench, CROSSED, PARTITIONS, SIZE, WRITES, us};

/// Longer than a journal takes to find out that nothing in an extent lives, and to give it back.
const FREEING: Duration = Duration::from_secs(5);

impl Bench {
    /// The device without a broker.
    pub(crate) fn device(&mut self, scratch: &Scratch) -> Result<()> {
        let mut rates = Vec::new();
        for _ in 0..self.runs {
            rates.push(1024.0 / scratch.grouped(1 << 30, 256 << 10, 4)?);
        }
        let rate = machine::median(&mut rates);
        let what = "raw device, 256 KiB groups, 4 in flight, coalesced flush";
        self.row(what, format!("{rate:.0} MiB/s"), "durable".into(), json!({"mib_per_s": rate}));
        self.journal(scratch)
    }

    /// The journal alone beside the device alone, the same writes and as many in flight.
    fn journal(&mut self, scratch: &Scratch) -> Result<()> {
        const COMMITS: u64 = 20_000;
        let sums = dataplane::checksums::fast();
        let (large, small) = (raw::batch(60, SIZE, &sums), raw::batch(1, SIZE, &sums));
        let (mut ratio, mut rates) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for _ in 0..self.runs {
            let mut bare = journal::Bare::create(self.folder.path(), 2 << 30)?;
            bare.bulk(&large, 256 << 20)?; // the first pass over the memory pays for its pages
            let raw = 1024.0 / scratch.grouped(1 << 30, 256 << 10, 4)?;
            let ours = 1024.0 / bare.bulk(&large, 1 << 30)?;
            ratio[0].push(ours / raw);
            rates[0].push(ours);
            let raw = COMMITS as f64 / scratch.grouped(COMMITS * 4096, 4096, 4)?;
            let ours = COMMITS as f64 / bare.commits(&small, COMMITS)?;
            ratio[1].push(ours / raw);
            rates[1].push(ours);
            let _ = std::fs::remove_file(self.folder.path().join("journal.device"));
        }
        let [ratio, rates] = [ratio, rates].map(|pair| pair.map(|mut values| machine::median(&mut values)));
        self.row(
            "journal alone, units of 256 KiB",
            format!("{:.0} MiB/s", rates[0]),
            format!("{:.0} % of the raw device", 100.0 * ratio[0]),
            json!({"mib_per_s": rates[0], "ratio": ratio[0]}),
        );
        self.row(
            "journal alone, units of 4 KiB",
            format!("{:.1} k durable commits/s", rates[1] / 1000.0),
            format!("{:.0} % of the raw device", 100.0 * ratio[1]),
            json!({"commits_per_s": rates[1], "ratio": ratio[1]}),
        );
        Ok(())
    }

    /// Produce and drain through librdkafka and raw, floors in between, alternating.
    pub(crate) fn bulk(&mut self, scratch: &Scratch) -> Result<()> {
        let million = self.records as f64 / 1e6;
        let bytes = self.records * SIZE as u64 / (1 << 20) * (1 << 20);
        let gib = bytes as f64 / (1u64 << 30) as f64;
        let (mut floor_produce, mut floor_drain) = (Vec::new(), Vec::new());
        let names = [
            ("produce, librdkafka × 1", 0),
            ("produce, librdkafka × 4", 0),
            ("drain, librdkafka, from the device", 1),
            ("drain, raw reader, from the device", 1),
            ("drain, raw reader, from memory", 1),
            ("first produce of a fresh broker, librdkafka × 4", 0),
            ("first drain of a fresh broker, raw reader", 1),
        ];
        let (mut cpu, mut rate) = (vec![Vec::new(); names.len()], vec![Vec::new(); names.len()]);
        let mut per_write = Vec::new();
        for run in 0..self.runs {
            let million_of_floor = bytes as f64 / SIZE as f64 / 1e6;
            floor_produce.push(floor::receive_copy_write(scratch, bytes)?.0 / million_of_floor);
            floor_drain.push(floor::send(bytes)?.0 / million_of_floor);
            let dir = self.folder.path().join(format!("bulk-{run}"));
            let broker = Broker::start(&dir, &[])?;
            let bootstrap = broker.bootstrap();
            let mut measure = |index: usize, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
                let (started, before) = (Instant::now(), broker.cpu_seconds());
                work()?;
                cpu[index].push((broker.cpu_seconds() - before) / million);
                rate[index].push(self.records as f64 / started.elapsed().as_secs_f64());
                Ok(())
            };
            let mut client = RawClient::connect(broker.address)?;
            for topic in ["fresh", "expired", "one", "four", "recent"] {
                client.create_topic(topic, PARTITIONS)?;
            }
            let records = self.records;
            // The first pass over the broker's memory pays for its pages: shown by itself.
            measure(5, &mut || rd::produce_many(&bootstrap, "fresh", records, SIZE, 4).map(drop))?;
            measure(6, &mut || client.drain("fresh", PARTITIONS, records).map(drop))?;
            // What follows is a broker that has run for a while: extents come back from what has expired, and need no zeros.
            rd::produce_many(&bootstrap, "expired", 5 * records / 2, SIZE, 4)?;
            for topic in ["fresh", "expired"] {
                client.delete_topic(topic)?;
            }
            std::thread::sleep(FREEING);
            let (writes_before, produced) = (broker.metric(WRITES).unwrap_or(0.0), 2.0 * records as f64);
            measure(0, &mut || rd::produce(&bootstrap, "one", records, SIZE).map(drop))?;
            measure(1, &mut || rd::produce_many(&bootstrap, "four", records, SIZE, 4).map(drop))?;
            measure(2, &mut || rd::drain(&bootstrap, "one", PARTITIONS, records).map(drop))?;
            measure(3, &mut || client.drain("one", PARTITIONS, records).map(drop))?;
            let written = broker.metric(WRITES).unwrap_or(0.0);
            // An eighth of the records fits the cache of the log's tail.
            rd::produce_many(&bootstrap, "recent", records / 8, SIZE, 4)?;
            measure(4, &mut || (0..8).try_for_each(|_| client.drain("recent", PARTITIONS, records / 8).map(drop)))?;
            let writes = written - writes_before;
            ensure!(writes > 0.0, "the broker counts no device writes");
            per_write.push(produced / writes);
            drop(broker);
            let _ = std::fs::remove_dir_all(dir);
        }
        let floors = [machine::median(&mut floor_produce), machine::median(&mut floor_drain)];
        self.row(
            "floor of produce: receive, copy with CRC-32C, write, flush",
            format!("{:.2} CPU-s/M", floors[0]),
            format!("{gib:.2} GiB, durable"),
            json!({"cpu_s_per_million": floors[0]}),
        );
        self.row(
            "floor of drain: send from memory",
            format!("{:.2} CPU-s/M", floors[1]),
            format!("{gib:.2} GiB"),
            json!({"cpu_s_per_million": floors[1]}),
        );
        for (index, (name, floor)) in names.iter().enumerate() {
            let (cpu, rate) = (machine::median(&mut cpu[index]), machine::median(&mut rate[index]));
            let floor = floors[*floor];
            let value = format!("{cpu:.2} broker CPU-s/M, {:.0} k records/s", rate / 1000.0);
            let beside = format!("{:.2} × its floor", cpu / floor);
            self.row(
                name,
                value,
                beside,
                json!({"cpu_s_per_million": cpu, "records_per_s": rate, "ratio_to_floor": cpu / floor}),
            );
        }
        let per_write = machine::median(&mut per_write);
        self.row(
            "records per device write, produce",
            format!("{per_write:.0}"),
            "both produce runs".into(),
            json!({"records": per_write}),
        );
        Ok(())
    }

    /// A real Kafka with the same load. It acknowledges what lies in the page cache: nothing is flushed.
    pub(crate) fn kafka(&mut self) -> Result<()> {
        let kafka = Kafka::resume()?;
        let mut client = RawClient::connect(kafka.address)?;
        let (bootstrap, records) = (kafka.address.to_string(), self.records);
        let million = records as f64 / 1e6;
        let (mut cpu, mut rate) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        // The first runs warm its compiler.
        for run in 0..self.runs + 2 {
            let topic = format!("kafka-{run}");
            client.create_topic(&topic, PARTITIONS)?;
            for side in 0..2 {
                let (started, before) = (Instant::now(), machine::cpu_seconds(kafka.pid));
                if side == 0 {
                    rd::produce_many(&bootstrap, &topic, records, SIZE, 4)?;
                } else {
                    client.drain(&topic, PARTITIONS, records)?;
                }
                if run >= 2 {
                    cpu[side].push((machine::cpu_seconds(kafka.pid) - before) / million);
                    rate[side].push(records as f64 / started.elapsed().as_secs_f64());
                }
            }
        }
        for (side, what) in ["produce, librdkafka × 4", "drain, raw reader"].into_iter().enumerate() {
            let (cpu, rate) = (machine::median(&mut cpu[side]), machine::median(&mut rate[side]));
            self.row(
                &format!("Kafka {}, {what}", kafka.version),
                format!("{cpu:.2} broker CPU-s/M, {:.0} k records/s", rate / 1000.0),
                "page cache, not flushed".into(),
                json!({"cpu_s_per_million": cpu, "records_per_s": rate}),
            );
        }
        Ok(())
    }

    /// One record in flight, beside what it cannot be faster than.
    pub(crate) fn latency(&mut self, scratch: &Scratch) -> Result<()> {
        const COUNT: usize = 5_000;
        let dir = self.folder.path().join("latency");
        let broker = Broker::start(&dir, &[])?;
        let mut client = RawClient::connect(broker.address)?;
        client.create_topic("one", 1)?;
        let batch = raw::batch(1, SIZE, &dataplane::checksums::fast());
        let request = batch.len() + 60;
        let (mut trip, mut write, mut acked, mut librdkafka) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        client.one_in_flight("one", 0, &batch, 500)?;
        for _ in 0..self.runs {
            trip.push(machine::median(&mut floor::round_trips(request, 60, COUNT)?));
            write.push(machine::median(&mut scratch.durable_4k(COUNT)?));
            acked.push(machine::median(&mut client.one_in_flight("one", 0, &batch, COUNT)?));
            librdkafka.push(machine::median(&mut rd::one_in_flight(&broker.bootstrap(), "one", SIZE, COUNT / 5)?));
        }
        let [trip, write, acked, librdkafka] =
            [&mut trip, &mut write, &mut acked, &mut librdkafka].map(|values| machine::median(values));
        self.row("raw loopback round trip, p50", us(trip), "no broker".into(), json!({"ns": trip}));
        self.row("raw 4 KiB durable write, p50", us(write), "O_DIRECT, flushed".into(), json!({"ns": write}));
        let ratio = acked / (trip + write);
        self.row(
            "one in flight, produce → durable ack, raw client, p50",
            us(acked),
            format!("{ratio:.2} × (round trip + write)"),
            json!({"ns": acked, "ratio": ratio}),
        );
        self.row(
            "one in flight, librdkafka, p50",
            us(librdkafka),
            format!("{:.2} × (round trip + write)", librdkafka / (trip + write)),
            json!({"ns": librdkafka}),
        );
        Ok(())
    }

    /// One, two and four shards on this machine.
    pub(crate) fn shards(&mut self) -> Result<()> {
        let records = self.records / 2;
        for shards in ["1", "2", "4"] {
            let (mut cpu, mut rate) = (Vec::new(), Vec::new());
            for run in 0..self.runs {
                let dir = self.folder.path().join(format!("shards-{shards}-{run}"));
                let broker = Broker::start(&dir, &["--shards", shards])?;
                let mut client = RawClient::connect(broker.address)?;
                client.create_topic("fresh", PARTITIONS)?;
                client.create_topic("s", PARTITIONS)?;
                rd::produce_many(&broker.bootstrap(), "fresh", self.records, SIZE, 4)?;
                let (started, before) = (Instant::now(), broker.cpu_seconds());
                rd::produce_many(&broker.bootstrap(), "s", records, SIZE, 4)?;
                cpu.push((broker.cpu_seconds() - before) / (records as f64 / 1e6));
                rate.push(records as f64 / started.elapsed().as_secs_f64());
                drop(broker);
                let _ = std::fs::remove_dir_all(dir);
            }
            let (cpu, rate) = (machine::median(&mut cpu), machine::median(&mut rate));
            let what = format!("{shards} shard(s), produce, librdkafka × 4");
            let share = 100.0 * (1.0 - 1.0 / shards.parse::<f64>()?);
            self.row(
                &what,
                format!("{cpu:.2} broker CPU-s/M, {:.0} k records/s", rate / 1000.0),
                format!("{share:.0} % of batches cross shards"),
                json!({"cpu_s_per_million": cpu, "records_per_s": rate}),
            );
        }
        Ok(())
    }

    /// What it costs that a partition lives on another shard than the connection: the same raw producer on a partition of its
    /// own shard and on one of the other shard, one after the other.
    pub(crate) fn crossing(&mut self) -> Result<()> {
        const BATCH: usize = 100;
        let dir = self.folder.path().join("crossing");
        let broker = Broker::start(&dir, &["--shards", "2"])?;
        let mut client = RawClient::connect(broker.address)?;
        client.create_topic("c", 2)?;
        let sums = dataplane::checksums::fast();
        let (small, large) = (raw::batch(1, SIZE, &sums), raw::batch(BATCH, SIZE, &sums));
        let count = usize::try_from(self.records)? / BATCH;
        let (mut cpu, mut acked) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for partition in [0, 1] {
            client.one_in_flight("c", partition, &large, count)?;
        }
        let crossed =
            |broker: &Broker| broker.metric(CROSSED).context("the broker does not count messages between shards");
        let mut side = [0u8; 2];
        for _ in 0..self.runs {
            for partition in [0, 1] {
                let before = (broker.cpu_seconds(), crossed(&broker)?);
                client.one_in_flight("c", partition, &large, count)?;
                let seconds = broker.cpu_seconds() - before.0;
                let at = usize::from(crossed(&broker)? - before.1 > count as f64);
                side[at] |= 1 << partition;
                cpu[at].push(seconds / (count * BATCH) as f64 * 1e6);
                acked[at].push(machine::median(&mut client.one_in_flight("c", partition, &small, 5_000)?));
            }
        }
        ensure!(side[0].count_ones() == 1 && side[1].count_ones() == 1, "the two partitions lie on one shard");
        for (at, what) in ["of its own shard", "of another shard"].iter().enumerate() {
            let (cpu, acked) = (machine::median(&mut cpu[at]), machine::median(&mut acked[at]));
            self.row(
                &format!("raw producer, batches of {BATCH}, one in flight, partition {what}"),
                format!("{cpu:.2} broker CPU-s/M"),
                format!("one record in flight: {}", us(acked)),
                json!({"cpu_s_per_million": cpu, "ns": acked}),
            );
        }
        Ok(())
    }
}
