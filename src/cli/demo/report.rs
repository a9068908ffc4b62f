//! What the demo found, for people and as JSON.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::time::Duration;

use super::metrics::Scrape;
use crate::cli::common::{grouped, say};

/// What one group read.
#[derive(Debug)]
pub(crate) struct Drained {
    pub(crate) group: String,
    pub(crate) records: u64,
    pub(crate) took: Duration,
    pub(crate) faults: Vec<String>,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) topic: String,
    pub(crate) messages: u64,
    pub(crate) size: u64,
    pub(crate) partitions: u32,
    pub(crate) produce_time: Duration,
    /// Microseconds from send to acknowledgement, a value per record.
    pub(crate) acks: Histogram<u64>,
    pub(crate) drain_time: Duration,
    pub(crate) drained: Vec<Drained>,
    /// What is wrong besides the groups' faults.
    pub(crate) faults: Vec<String>,
    /// The broker's figures of the time of producing.
    pub(crate) broker: Option<Scrape>,
}

/// Records per second; 0 where no time passed.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is positive and far below 2^64")]
pub(crate) fn rate(records: u64, took: Duration) -> u64 {
    if took.is_zero() { 0 } else { (records as f64 / took.as_secs_f64()).round() as u64 }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn mib_per_second(records: u64, size: u64, took: Duration) -> f64 {
    if took.is_zero() { 0.0 } else { (records * size) as f64 / took.as_secs_f64() / f64::from(1 << 20) }
}

const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

impl Results {
    /// Whether every record arrived at every group as it was sent.
    pub(crate) fn verified(&self) -> bool {
        let whole = |group: &Drained| group.faults.is_empty() && group.records == self.messages;
        self.faults.is_empty() && self.drained.iter().all(whole)
    }

    fn faults(&self) -> impl Iterator<Item = &String> {
        self.faults.iter().chain(self.drained.iter().flat_map(|group| &group.faults))
    }

    fn read(&self) -> u64 {
        self.drained.iter().map(|group| group.records).sum()
    }

    #[expect(clippy::cast_precision_loss, reason = "a latency for people")]
    fn ack_ms(&self, share: f64) -> f64 {
        self.acks.value_at_quantile(share) as f64 / 1e3
    }

    fn records_per_write(&self) -> Option<f64> {
        self.broker.as_ref().filter(|broker| broker.device_writes > 0.0).map(|b| b.records_in / b.device_writes)
    }

    /// Prints everything to standard output.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let line = |what: &str, records: u64, took: Duration| {
            format!(
                "{what:<9} {:>11} records of {} bytes in {:>6.2} s: {:>10} records/s, {:>7.1} MiB/s",
                grouped(records),
                grouped(self.size),
                took.as_secs_f64(),
                grouped(rate(records, took)),
                mib_per_second(records, self.size, took),
            )
        };
        say("")?;
        say(&line("produced", self.messages, self.produce_time))?;
        for group in &self.drained {
            say(&format!("{}, group {}", line("drained", group.records, group.took), group.group))?;
        }
        say(&line("together", self.read(), self.drain_time))?;
        let acks = SHARES.map(|(name, share)| format!("{name} {:.2} ms", self.ack_ms(share)));
        say(&format!("latency   send to acknowledgement: {}", acks.join(", ")))?;
        match &self.broker {
            Some(broker) => {
                let commits = SHARES.map(|(name, share)| {
                    let ms = broker.commit_ms(share);
                    format!("{name} {}", ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2} ms")))
                });
                say(&format!("          append to durable commit: {}", commits.join(", ")))?;
                let per_write = self.records_per_write().map_or_else(|| "-".to_owned(), |count| format!("{count:.1}"));
                say(&format!(
                    "device    {:.0} writes of {:.1} KiB on average, {per_write} records per write, {:.0} flushes",
                    broker.device_writes,
                    if broker.device_writes > 0.0 { broker.device_bytes / broker.device_writes / 1024.0 } else { 0.0 },
                    broker.device_flushes,
                ))?;
            }
            None => say("device    not known: the broker's /metrics was not read (--metrics HOST:PORT)")?,
        }
        if self.verified() {
            say(&format!("verified  content and order of all {} records in both groups", grouped(self.messages)))?;
        } else {
            say("NOT VERIFIED")?;
            for fault in self.faults() {
                say(&format!("  {fault}"))?;
            }
        }
        Ok(())
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        let name = |name: &str| name.replace('.', "");
        let acks: serde_json::Map<String, Value> =
            SHARES.iter().map(|(of, share)| (name(of), json!(self.ack_ms(*share)))).collect();
        let broker = self.broker.as_ref().map(|broker| {
            let commits: serde_json::Map<String, Value> =
                SHARES.iter().map(|(of, share)| (name(of), json!(broker.commit_ms(*share)))).collect();
            json!({
                "commit_latency_ms": commits,
                "device_writes": broker.device_writes,
                "device_flushes": broker.device_flushes,
                "device_bytes": broker.device_bytes,
                "records_per_write": self.records_per_write(),
            })
        });
        let groups: Vec<Value> = self
            .drained
            .iter()
            .map(|group| {
                json!({
                    "group": group.group,
                    "records": group.records,
                    "seconds": group.took.as_secs_f64(),
                    "records_per_second": rate(group.records, group.took),
                    "mib_per_second": mib_per_second(group.records, self.size, group.took),
                })
            })
            .collect();
        json!({
            "verified": self.verified(),
            "faults": self.faults().collect::<Vec<_>>(),
            "topic": self.topic,
            "messages": self.messages,
            "size": self.size,
            "partitions": self.partitions,
            "produce": {
                "seconds": self.produce_time.as_secs_f64(),
                "records_per_second": rate(self.messages, self.produce_time),
                "mib_per_second": mib_per_second(self.messages, self.size, self.produce_time),
            },
            "drain": {
                "seconds": self.drain_time.as_secs_f64(),
                "records_per_second": rate(self.read(), self.drain_time),
                "mib_per_second": mib_per_second(self.read(), self.size, self.drain_time),
                "groups": groups,
            },
            "acknowledgement_latency_ms": acks,
            "broker": broker,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let group =
            |name: &str| Drained { group: name.into(), records: 10, took: Duration::from_secs(2), faults: Vec::new() };
        Results {
            topic: "demo".into(),
            messages: 10,
            size: 1024,
            partitions: 1,
            produce_time: Duration::from_secs(1),
            acks: super::super::latencies(),
            drain_time: Duration::from_secs(2),
            drained: vec![group("a"), group("b")],
            faults: Vec::new(),
            broker: None,
        }
    }

    #[test]
    fn one_missing_record_or_one_fault_is_not_verified() {
        assert!(results().verified());
        let mut missing = results();
        missing.drained[1].records = 9;
        assert!(!missing.verified());
        let mut faulty = results();
        faulty.drained[0].faults.push("x".into());
        assert!(!faulty.verified());
        let mut wrong_end = results();
        wrong_end.faults.push("x".into());
        assert!(!wrong_end.verified());
        assert_eq!(wrong_end.json()["verified"], false);
    }

    #[test]
    fn rates_are_per_second_and_nothing_is_divided_by_no_time() {
        let json = results().json();
        assert_eq!(json["produce"]["records_per_second"], 10);
        assert_eq!(json["drain"]["records_per_second"], 10, "both groups together");
        assert_eq!(rate(5, Duration::ZERO), 0);
    }
}
