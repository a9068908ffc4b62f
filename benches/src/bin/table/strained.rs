//! What happens under strain: many small producers, old records, more than can be taken, a loud neighbour.

use anyhow::Result;
use benches::floor::Scratch;
use benches::{cold, strain};
use serde_json::json;

use crate::{Bench, SIZE, us};

impl Bench {
    pub(crate) fn small(&mut self) -> Result<()> {
        let (grouped, each) = strain::small_producers(&self.dir("small"), 1000, 10, SIZE)?;
        let ratio = grouped.cpu / each.cpu;
        for (what, small) in [("group commit", grouped), ("a flush for each request", each)] {
            self.row(
                &format!("1000 producers of 10 records/s over 1000 partitions, {what}"),
                format!("{:.1} broker CPU-s/M, ack p50 {}", small.cpu, us(small.p50)),
                format!(
                    "{:.1} records per device write; {:.1} k records/s at most",
                    small.per_write,
                    small.saturation / 1000.0
                ),
                json!({"cpu_s_per_million": small.cpu, "p50_ns": small.p50, "records_per_write": small.per_write,
                       "saturation_records_per_s": small.saturation, "ratio_of_grouped": ratio}),
            );
        }
        Ok(())
    }

    pub(crate) fn cold(&mut self, scratch: &Scratch) -> Result<()> {
        let raw = 1024.0 / scratch.read(1 << 30, 1 << 20, 4)?;
        let cold = cold::cold_reads(&self.dir("cold"), 512, SIZE)?;
        self.row(
            "raw device read, 1 MiB, 4 in flight",
            format!("{raw:.0} MiB/s"),
            "O_DIRECT".into(),
            json!({"mib_per_s": raw}),
        );
        self.row(
            "cold reader of one partition of 1000 that lie mixed",
            format!("{:.0} bytes read for each that it gets", cold.mixed),
            format!("{:.2} once clustered", cold.clustered),
            json!({"amplification": cold.mixed, "clustered": cold.clustered}),
        );
        for (what, rate) in
            [("cold reader of all 1000 at once", cold.all), ("cold reader of one that lies alone", cold.alone)]
        {
            self.row(
                what,
                format!("{rate:.0} MiB/s"),
                format!("{:.0} % of the raw read", 100.0 * rate / raw),
                json!({"mib_per_s": rate, "ratio": rate / raw}),
            );
        }
        let (quiet, beside) = cold.tail;
        self.row(
            "beside a cold reader: produce p50, one in flight",
            us(beside),
            format!("{:.2} × without it", beside / quiet),
            json!({"ns": beside, "ratio": beside / quiet}),
        );
        Ok(())
    }

    pub(crate) fn overload(&mut self) -> Result<()> {
        const CORES: f64 = 0.25;
        let overload = strain::overload(&self.dir("overload"), CORES, 128, SIZE)?;
        for step in &overload.steps {
            self.row(
                &format!("overload, {CORES} cores, {:.2} × capacity", step.load),
                format!("{:.1} k records/s answered", step.rate / 1000.0),
                format!("ack p50 {}, p99 {}, {:.0} MiB resident", us(step.p50), us(step.p99), step.memory / f64::from(1 << 20)),
                json!({"load": step.load, "records_per_s": step.rate, "p50_ns": step.p50, "p99_ns": step.p99, "resident_bytes": step.memory}),
            );
        }
        self.row(
            "overload: until half the load is answered as before",
            format!("{:.2} s", overload.recovery),
            format!("capacity {:.1} k records/s", overload.capacity / 1000.0),
            json!({"seconds": overload.recovery, "capacity_records_per_s": overload.capacity}),
        );
        Ok(())
    }

    pub(crate) fn loud(&mut self) -> Result<()> {
        let loud = strain::loud_neighbour(&self.dir("loud"), 999, 8, SIZE)?;
        let (alone, among) = loud.quiet;
        self.row(
            "999 quiet partitions beside a loud one in the same journal: ack p50",
            us(among),
            format!("{:.2} × without it, which takes {:.0} MiB/s", among / alone, loud.rate),
            json!({"ns": among, "ratio": among / alone, "loud_mib_per_s": loud.rate}),
        );
        Ok(())
    }
}
