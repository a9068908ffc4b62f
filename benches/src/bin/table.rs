//! `cargo xtask bench`: one run, everything beside its floor, as Markdown and JSON under `docs/benchmarks/`.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use benches::broker::Broker;
use benches::floor::{self, Scratch};
use benches::raw::{self, RawClient};
use benches::{machine, rd, scale};
use serde_json::json;

const SIZE: usize = 1024;
const PARTITIONS: i32 = 8;
const WRITES: &str = "barelog_device_writes_total";
const CROSSED: &str = "barelog_shard_messages_total";

/// One line of the table.
struct Row {
    what: String,
    value: String,
    beside: String,
    json: serde_json::Value,
}

struct Bench {
    folder: tempfile::TempDir,
    rows: Vec<Row>,
    records: u64,
    runs: usize,
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (mut records, mut runs) = (1_000_000u64, 3usize);
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--records" => records = value.parse()?,
            "--runs" => runs = value.parse()?,
            _ => anyhow::bail!("usage: cargo xtask bench [--records N] [--runs N]"),
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("benches lies in the workspace")?;
    std::fs::create_dir_all(root.join("target/bench"))?;
    let folder = tempfile::tempdir_in(root.join("target/bench"))?;
    let mut bench = Bench { folder, rows: Vec::new(), records, runs };
    let (started, steal) = (Instant::now(), machine::steal_seconds());
    bench.all()?;
    let steal = 100.0 * (machine::steal_seconds() - steal) / started.elapsed().as_secs_f64();
    bench.write(&root.join("docs/benchmarks"), steal)
}

fn us(ns: f64) -> String {
    format!("{:.0} µs", ns / 1000.0)
}

impl Bench {
    fn row(&mut self, what: &str, value: String, beside: String, json: serde_json::Value) {
        println!("{what}: {value} ({beside})");
        self.rows.push(Row { what: what.into(), value, beside, json });
    }

    fn all(&mut self) -> Result<()> {
        let scratch = Scratch::new(self.folder.path(), 1 << 30)?;
        self.device(&scratch)?;
        self.bulk(&scratch)?;
        self.latency(&scratch)?;
        self.shards()?;
        self.crossing()?;
        self.scale()
    }

    /// The device without a broker.
    fn device(&mut self, scratch: &Scratch) -> Result<()> {
        let mut rates = Vec::new();
        for _ in 0..self.runs {
            rates.push(1024.0 / scratch.grouped(1 << 30, 256 << 10, 4)?);
        }
        let rate = machine::median(&mut rates);
        let what = "raw device, 256 KiB groups, 4 in flight, coalesced flush";
        self.row(what, format!("{rate:.0} MiB/s"), "durable".into(), json!({"mib_per_s": rate}));
        Ok(())
    }

    /// Produce and drain through librdkafka and raw, floors in between, alternating.
    fn bulk(&mut self, scratch: &Scratch) -> Result<()> {
        let million = self.records as f64 / 1e6;
        let bytes = self.records * SIZE as u64 / (1 << 20) * (1 << 20);
        let gib = bytes as f64 / (1u64 << 30) as f64;
        let (mut floor_produce, mut floor_drain) = (Vec::new(), Vec::new());
        let names = [
            ("produce, librdkafka × 1", 0),
            ("produce, librdkafka × 4", 0),
            ("drain, librdkafka", 1),
            ("drain, raw reader", 1),
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
            for topic in ["fresh", "one", "four"] {
                client.create_topic(topic, PARTITIONS)?;
            }
            let records = self.records;
            // The first pass over the broker's memory pays for its pages: shown by itself.
            measure(4, &mut || rd::produce_many(&bootstrap, "fresh", records, SIZE, 4).map(drop))?;
            measure(5, &mut || client.drain("fresh", PARTITIONS, records).map(drop))?;
            let (writes_before, produced) = (broker.metric(WRITES).unwrap_or(0.0), 2.0 * records as f64);
            measure(0, &mut || rd::produce(&bootstrap, "one", records, SIZE).map(drop))?;
            measure(1, &mut || rd::produce_many(&bootstrap, "four", records, SIZE, 4).map(drop))?;
            measure(2, &mut || rd::drain(&bootstrap, "one", PARTITIONS, records).map(drop))?;
            measure(3, &mut || client.drain("one", PARTITIONS, records).map(drop))?;
            let writes = broker.metric(WRITES).unwrap_or(0.0) - writes_before;
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

    /// One record in flight, beside what it cannot be faster than.
    fn latency(&mut self, scratch: &Scratch) -> Result<()> {
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
    fn shards(&mut self) -> Result<()> {
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
    fn crossing(&mut self) -> Result<()> {
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

    /// What many of something cost.
    fn scale(&mut self) -> Result<()> {
        let dir = |name: &str| self.folder.path().join(name);
        let broker = Broker::start(&dir("e2e"), &[])?;
        let mut warm = RawClient::connect(broker.address)?;
        warm.create_topic("fresh", PARTITIONS)?;
        rd::produce_many(&broker.bootstrap(), "fresh", self.records, SIZE, 4)?;
        let mut spreads = [Vec::new(), Vec::new(), Vec::new()];
        for run in 0..self.runs {
            let times = scale::end_to_end(broker.address, &format!("e{run}"), 10_000, 10, SIZE)?;
            for (values, permille) in spreads.iter_mut().zip([500, 990, 999]) {
                values.push(times[times.len() * permille / 1000]);
            }
        }
        drop(broker);
        let [p50, p99, p999] = spreads.map(|mut values| machine::median(&mut values));
        let restart = scale::restart(&dir("restart"), 10_000, 4 * self.records, SIZE)?;
        let tailing = scale::tailing(&dir("tailing"), 20, 5_000, SIZE)?;
        let (alone, among, memory) = scale::idle_connections(&dir("idle"), 10_000, self.records / 2, SIZE)?;
        let mut steps = Vec::new();
        for count in [10, 1_000, 10_000, 100_000] {
            let folder = dir(&format!("p-{count}"));
            steps.push((count, scale::partitions(&folder, count, self.records / 5, SIZE)?));
            let _ = std::fs::remove_dir_all(folder);
        }
        self.row(
            "end to end at 10 k records/s, open loop, p50",
            us(p50),
            format!("p99 {}, p99.9 {}", us(p99), us(p999)),
            json!({"p50_ns": p50, "p99_ns": p99, "p999_ns": p999}),
        );
        self.row(
            &format!("restart after SIGKILL, {:.1} GiB in 10 k partitions", 4.0 * self.records as f64 / 1_048_576.0),
            format!("{restart:.2} s"),
            "to serving".into(),
            json!({"seconds": restart}),
        );
        self.row(
            "20 readers of one log's tail: produce p50, one in flight",
            us(tailing.among),
            format!(
                "{:.2} × without them; {:.1} × the bytes out, {:.0} device reads",
                tailing.among / tailing.alone,
                tailing.out,
                tailing.reads
            ),
            json!({"ns": tailing.among, "ratio": tailing.among / tailing.alone, "bytes_out": tailing.out, "device_reads": tailing.reads}),
        );
        self.row(
            "10 k idle connections: produce, batches of 100, one in flight",
            format!("{:.0} k records/s", among / 1000.0),
            format!("{:.2} × without them, {:.1} KiB each", among / alone, memory / 1024.0),
            json!({"records_per_s": among, "ratio": among / alone, "bytes_each": memory}),
        );
        let first = steps[0].1.cpu;
        for (count, step) in steps {
            self.row(
                &format!("{count} partitions, batches of 10"),
                format!("{:.2} broker CPU-s/M, {:.0} k records/s", step.cpu, step.rate / 1000.0),
                format!(
                    "{:.2} × that at 10; created in {:.2} s, {:.0} B each, Metadata of all {:.0} ms",
                    step.cpu / first,
                    step.create,
                    step.memory,
                    step.metadata.0 * 1000.0
                ),
                json!({"cpu_s_per_million": step.cpu, "ratio": step.cpu / first, "create_s": step.create, "bytes_each": step.memory,
                       "metadata_s": step.metadata.0, "metadata_bytes": step.metadata.1}),
            );
        }
        Ok(())
    }

    fn write(&self, folder: &Path, steal: f64) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let machine = machine::describe(self.folder.path());
        ensure!(!self.rows.is_empty(), "nothing was measured");
        let mut text = String::from(
            "# Benchmarks\n\n`cargo xtask bench` wrote this table: medians over alternating runs in one run of the program. Every acknowledged record is \
                                     durable (flushed); floors are measured in the same run.\n\n",
        );
        let _ = writeln!(
            text,
            "Machine: {machine}. Stolen time {steal:.1} %. Records of {SIZE} B, {} per run, {} runs, {PARTITIONS} partitions. Clients and broker share the cores.\n",
            self.records, self.runs
        );
        text.push_str("| what | median | beside it |\n|---|---|---|\n");
        let mut rows = Vec::new();
        for row in &self.rows {
            let _ = writeln!(text, "| {} | {} | {} |", row.what, row.value, row.beside);
            rows.push(json!({"what": row.what, "figures": row.json}));
        }
        std::fs::write(folder.join("table.md"), text)?;
        let all = json!({"machine": machine, "steal_percent": steal, "records": self.records, "runs": self.runs, "rows": rows});
        std::fs::write(folder.join("table.json"), serde_json::to_string_pretty(&all)? + "\n")?;
        Ok(())
    }
}
