//! What many of something cost: partitions, connections, readers, members; latency at a fixed rate; a restart.

use anyhow::Result;
use benches::broker::Broker;
use benches::raw::RawClient;
use benches::{machine, rd, scale, strain};
use serde_json::json;

use crate::{Bench, PARTITIONS, SIZE, us};

impl Bench {
    /// Open loop at a fixed rate, from when a record is due to its arrival at a consumer.
    pub(crate) fn end_to_end(&mut self) -> Result<()> {
        let broker = Broker::start(&self.dir("e2e"), &[])?;
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
        let [p50, p99, p999] = spreads.map(|mut values| machine::median(&mut values));
        self.row(
            "end to end at 10 k records/s, open loop, p50",
            us(p50),
            format!("p99 {}, p99.9 {}", us(p99), us(p999)),
            json!({"p50_ns": p50, "p99_ns": p99, "p999_ns": p999}),
        );
        Ok(())
    }

    pub(crate) fn restart(&mut self) -> Result<()> {
        let gib = 20 * self.records / 1_000_000;
        let records = gib << 20;
        let seconds = scale::restart(&self.dir("restart"), 10_000, records, SIZE)?;
        self.row(
            &format!("restart after SIGKILL, {gib} GiB in 10 k partitions"),
            format!("{seconds:.2} s"),
            "to serving".into(),
            json!({"seconds": seconds}),
        );
        Ok(())
    }

    pub(crate) fn tail(&mut self) -> Result<()> {
        let tailing = scale::tailing(&self.dir("tailing"), 20, 5_000, SIZE)?;
        let ratio = tailing.among / tailing.alone;
        self.row(
            "20 readers of one log's tail: produce p50, one in flight",
            us(tailing.among),
            format!("{ratio:.2} × without them; {:.1} × the bytes out, {:.0} device reads", tailing.out, tailing.reads),
            json!({"ns": tailing.among, "ratio": ratio, "bytes_out": tailing.out, "device_reads": tailing.reads}),
        );
        Ok(())
    }

    pub(crate) fn connections(&mut self) -> Result<()> {
        let (alone, among, memory) = scale::idle_connections(&self.dir("idle"), 10_000, self.records / 2, SIZE)?;
        self.row(
            "10 k idle connections: produce, batches of 100, one in flight",
            format!("{:.0} k records/s", among / 1000.0),
            format!("{:.2} × without them, {:.1} KiB each", among / alone, memory / 1024.0),
            json!({"records_per_s": among, "ratio": among / alone, "bytes_each": memory}),
        );
        Ok(())
    }

    pub(crate) fn partitions(&mut self) -> Result<()> {
        let mut first = None;
        for count in [10, 1_000, 10_000, 100_000] {
            let folder = self.dir(&format!("p-{count}"));
            let step = scale::partitions(&folder, count, self.records / 5, SIZE)?;
            let _ = std::fs::remove_dir_all(folder);
            let ratio = step.cpu / *first.get_or_insert(step.cpu);
            self.row(
                &format!("{count} partitions, batches of 10"),
                format!("{:.2} broker CPU-s/M, {:.0} k records/s", step.cpu, step.rate / 1000.0),
                format!(
                    "{ratio:.2} × that at 10; created in {:.2} s, {:.0} B each, Metadata of all {:.0} ms",
                    step.create,
                    step.memory,
                    step.metadata.0 * 1000.0
                ),
                json!({"cpu_s_per_million": step.cpu, "ratio": ratio, "create_s": step.create, "bytes_each": step.memory,
                       "metadata_s": step.metadata.0, "metadata_bytes": step.metadata.1}),
            );
        }
        Ok(())
    }

    /// Members of a consumer group.
    pub(crate) fn group(&mut self) -> Result<()> {
        let (seconds, cpu) = strain::rebalance(&self.dir("group"), 1000)?;
        self.row(
            "a group of 1000 members takes in one more",
            format!("{seconds:.2} s"),
            format!("{cpu:.2} s of broker CPU"),
            json!({"seconds": seconds, "cpu_s": cpu}),
        );
        Ok(())
    }
}
