//! Figures of the broker, fetched from its `/metrics` as any monitoring would.

use anyhow::bail;
use std::collections::BTreeMap;
use std::time::Duration;

const COMMIT_LATENCY: &str = "barelog_commit_latency_seconds_bucket";
const WRITES: &str = "barelog_device_writes_total";
const FLUSHES: &str = "barelog_device_flushes_total";
const RECORDS: &str = "barelog_records_in_total";
const BYTES: &str = "barelog_device_written_bytes_total";

/// What the demo looks at, summed over shards.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scrape {
    pub(crate) device_writes: f64,
    pub(crate) device_flushes: f64,
    pub(crate) device_bytes: f64,
    pub(crate) records_in: f64,
    /// Upper bound in nanoseconds → appends that took no longer (cumulative).
    commit_latency: BTreeMap<u64, f64>,
}

impl Scrape {
    /// Fetches the metrics from host:port.
    pub(crate) fn get(address: &str) -> anyhow::Result<Self> {
        let scrape = Self::parse(&crate::cli::http::get(address, "/metrics")?);
        if scrape == Self::default() {
            bail!("none of a Barelog broker's metrics is there");
        }
        Ok(scrape)
    }

    /// Reads the text format of Prometheus and OpenMetrics.
    fn parse(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap_or(line.len()));
            let (labels, rest) = match rest.strip_prefix('{').and_then(|rest| rest.rsplit_once('}')) {
                Some(found) => found,
                None => ("", rest),
            };
            let Some(value) = rest.split_whitespace().next().and_then(|value| value.parse::<f64>().ok()) else {
                continue;
            };
            match name {
                WRITES => scrape.device_writes += value,
                FLUSHES => scrape.device_flushes += value,
                BYTES => scrape.device_bytes += value,
                RECORDS => scrape.records_in += value,
                COMMIT_LATENCY => {
                    if let Some(bound) = bound(labels) {
                        *scrape.commit_latency.entry(bound).or_default() += value;
                    }
                }
                _ => {}
            }
        }
        scrape
    }

    /// What happened since an earlier scrape.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let commit_latency = self
            .commit_latency
            .iter()
            .map(|(bound, count)| (*bound, count - earlier.commit_latency.get(bound).copied().unwrap_or(0.0)));
        Self {
            device_writes: self.device_writes - earlier.device_writes,
            device_flushes: self.device_flushes - earlier.device_flushes,
            device_bytes: self.device_bytes - earlier.device_bytes,
            records_in: self.records_in - earlier.records_in,
            commit_latency: commit_latency.collect(),
        }
    }

    /// The commit latency in milliseconds that `share` of the appends did not pass, as exact as the buckets.
    pub(crate) fn commit_ms(&self, share: f64) -> Option<f64> {
        let total = self.commit_latency.values().copied().fold(0.0, f64::max);
        if total <= 0.0 {
            return None;
        }
        let wanted = total * share;
        let (mut lower, mut below) = (0u64, 0.0);
        for (&bound, &count) in &self.commit_latency {
            if count >= wanted {
                // The last bucket has no upper bound: what is known is that it took longer than its lower one.
                let upper = if bound == u64::MAX { lower } else { bound };
                let within = if count > below { (wanted - below) / (count - below) } else { 1.0 };
                let nanos = ms(lower) + (ms(upper) - ms(lower)) * within;
                return Some(nanos);
            }
            (lower, below) = (bound, count);
        }
        None
    }
}

#[expect(clippy::cast_precision_loss, reason = "a latency for people")]
fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// The upper bound of a bucket in nanoseconds.
fn bound(labels: &str) -> Option<u64> {
    let text = labels.split(',').find_map(|label| label.trim().strip_prefix("le=\""))?;
    let text = text.strip_suffix('"')?;
    if text == "+Inf" {
        return Some(u64::MAX);
    }
    Duration::try_from_secs_f64(text.parse().ok()?).ok().and_then(|bound| u64::try_from(bound.as_nanos()).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const TEXT: &str = r#"# HELP barelog_device_writes Device writes.
# TYPE barelog_device_writes counter
barelog_device_writes_total{shard="0"} 10
barelog_device_writes_total{shard="1"} 5
barelog_records_in_total{shard="0"} 3000
barelog_commit_latency_seconds_bucket{shard="0",le="0.001"} 50
barelog_commit_latency_seconds_bucket{shard="0",le="0.002"} 90
barelog_commit_latency_seconds_bucket{shard="0",le="+Inf"} 100
barelog_commit_latency_seconds_bucket{le="0.001",shard="1"} 0
barelog_consumer_lag{group="a} b",topic="t"} 7
# EOF
"#;

    #[test]
    fn series_are_summed_and_compared() {
        let scrape = Scrape::parse(TEXT);
        assert!((scrape.device_writes - 15.0).abs() < f64::EPSILON);
        assert!((scrape.records_in - 3000.0).abs() < f64::EPSILON);
        let nothing = scrape.since(&scrape);
        assert!(nothing.device_writes.abs() < f64::EPSILON);
        assert_eq!(nothing.commit_ms(0.5), None);
    }

    #[test]
    fn percentiles_lie_in_their_bucket() {
        let scrape = Scrape::parse(TEXT);
        assert!((scrape.commit_ms(0.5).unwrap() - 1.0).abs() < 1e-9);
        assert!((scrape.commit_ms(0.7).unwrap() - 1.5).abs() < 1e-9);
        assert!((scrape.commit_ms(0.99).unwrap() - 2.0).abs() < 1e-9, "more is not known");
    }

    #[test]
    fn text_that_is_no_metrics_is_passed_over() {
        assert_eq!(Scrape::parse("hello\n{}{\nbarelog_device_writes_total x\n\n"), Scrape::default());
    }
}
