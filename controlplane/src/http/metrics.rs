//! Every metric in one table, from which `/metrics` and `docs/METRICS.md` are made.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use base::image::Image;
use base::message::Bounds;
use base::stats::{self, Latency, ShardStats, Source};
use protocol::api::APIS;

use super::{Committed, DeviceSpace};
use crate::groups::GroupCount;
use crate::stats::ControlStats;

/// Most series of one metric that has a label for partitions; `?topic=` picks others.
pub const SERIES_MAX: usize = 2000;

pub use crate::moves::view::PartitionSizes;

/// All that one scrape shows.
#[derive(Debug)]
pub struct Scrape<'a> {
    /// By shard.
    pub shard_stats: &'a [Arc<ShardStats>],
    /// The control plane's counters.
    pub control: &'a ControlStats,
    /// Topics.
    pub image: Arc<Image>,
    /// Ends of partitions.
    pub sizes: Arc<PartitionSizes>,
    /// Devices.
    pub devices: Vec<DeviceSpace>,
    /// Groups.
    pub committed: Vec<Committed>,
    /// How many groups there are.
    pub groups: Vec<GroupCount>,
    /// Only this topic's partitions, where there is a label for them.
    pub topic: Option<String>,
    /// Since the process started.
    pub uptime: Duration,
}

enum Value<'a> {
    Number(u64),
    Real(f64),
    Histogram(&'a Latency),
}

type Emit<'e> = dyn FnMut(&[&str], Value<'_>) -> fmt::Result + 'e;

struct ControlMetric {
    name: &'static str,
    help: &'static str,
    unit: &'static str,
    kind: &'static str,
    labels: &'static [&'static str],
    read: fn(&Scrape<'_>, &mut Emit<'_>) -> fmt::Result,
}

macro_rules! control_metrics {
    ($($name:literal $unit:literal $kind:literal [$($label:literal)*] $help:literal, $read:expr;)*) => {
        &[$(ControlMetric { name: $name, help: $help, unit: $unit, kind: $kind, labels: &[$($label),*], read: $read },)*]
    };
}

/// The metrics of a broker as a whole.
static CONTROL_METRICS: &[ControlMetric] = control_metrics![
    "barelog_uptime" "seconds" "gauge" [] "Since the process started.",
        |scrape, emit| emit(&[], Value::Real(scrape.uptime.as_secs_f64()));
    "barelog_control_request_errors" "" "counter" ["api"] "Answers of the control plane with an error for the request or any part of it.",
        |scrape, emit| APIS.iter().try_for_each(|api| {
            let key = usize::try_from(api.key as i16).unwrap_or(usize::MAX);
            let errors = scrape.control.errors.get(key).map_or(0, crate::stats::Shared::get);
            if errors == 0 { Ok(()) } else { emit(&[api.name], Value::Number(errors)) }
        });
    "barelog_control_requests_in_flight" "" "gauge" [] "Requests that have arrived at the control plane and are not answered.",
        |scrape, emit| emit(&[], Value::Number(scrape.control.requests_in_flight.get()));
    "barelog_control_requests_refused" "" "counter" [] "Requests to the control plane that did not parse, name an API that is not served or found no room; the connection was closed.",
        |scrape, emit| emit(&[], Value::Number(scrape.control.requests_refused.get()));
    "barelog_metadata_changes" "" "counter" [] "Changes of metadata made durable.",
        |scrape, emit| emit(&[], Value::Number(scrape.control.metadata_commands.get()));
    "barelog_metadata_commit_latency" "seconds" "histogram" [] "From taking a batch of metadata changes to its being durable and handed to the shards.",
        |scrape, emit| emit(&[], Value::Histogram(&scrape.control.metadata_commit_latency));
    "barelog_topics_auto_created" "" "counter" [] "Topics created because a client asked for their metadata.",
        |scrape, emit| emit(&[], Value::Number(scrape.control.topics_auto_created.get()));
    "barelog_partitions_moved" "" "counter" [] "Partitions that moved to another journal.",
        |scrape, emit| emit(&[], Value::Number(scrape.control.partitions_moved.get()));
    "barelog_partition_moves_given_up" "" "counter" [] "Moves that came to nothing: the partition stayed where it was.",
        |scrape, emit| emit(&[], Value::Number(scrape.control.moves_cancelled.get()));
    "barelog_partition_moves_for_load" "" "counter" [] "Moves begun because a partition made most of its journal's load.",
        |scrape, emit| emit(&[], Value::Number(scrape.control.hot_moves.get()));
    "barelog_partition_moves" "" "gauge" [] "Moves that are being led.",
        |scrape, emit| emit(&[], Value::Number(scrape.control.moves_running.get()));
    "barelog_partitions_spread" "" "gauge" [] "Partitions that have records in more than one journal.",
        |scrape, emit| {
            let spread = scrape.image.homes.values().filter(|homes| !homes.earlier.is_empty()).count();
            emit(&[], Value::Number(spread as u64))
        };
    "barelog_topics" "" "gauge" [] "Topics.",
        |scrape, emit| emit(&[], Value::Number(scrape.image.topics.len() as u64));
    "barelog_partitions" "" "gauge" [] "Partitions.",
        |scrape, emit| emit(&[], Value::Number(scrape.sizes.len() as u64));
    "barelog_journals" "" "gauge" [] "Journals.",
        |scrape, emit| emit(&[], Value::Number(scrape.image.journals.len() as u64));
    "barelog_device_size" "bytes" "gauge" ["device"] "Bytes that a data device may use.",
        |scrape, emit| scrape.devices.iter().try_for_each(|device| emit(&[&device.path], Value::Number(device.total_bytes)));
    "barelog_device_free" "bytes" "gauge" ["device"] "Bytes of a data device that records may still take.",
        |scrape, emit| scrape.devices.iter().try_for_each(|device| emit(&[&device.path], Value::Number(device.free_bytes)));
    "barelog_device_full" "" "gauge" ["device"] "1 while producers are refused because a data device is full.",
        |scrape, emit| {
            scrape.devices.iter().try_for_each(|device| emit(&[&device.path], Value::Number(u64::from(device.full))))
        };
    "barelog_topic_size" "bytes" "gauge" ["topic"] "Retained bytes of a topic's partitions.",
        |scrape, emit| scrape.by_topic(emit, |bounds| bounds.bytes);
    "barelog_partition_log_start" "" "gauge" ["topic" "partition"] "First offset that is kept.",
        |scrape, emit| scrape.by_partition(emit, |bounds| bounds.log_start.0);
    "barelog_partition_log_end" "" "gauge" ["topic" "partition"] "Next offset to be given.",
        |scrape, emit| scrape.by_partition(emit, |bounds| bounds.log_end.0);
    "barelog_partition_high_watermark" "" "gauge" ["topic" "partition"] "First offset not yet committed.",
        |scrape, emit| scrape.by_partition(emit, |bounds| bounds.high_watermark.0);
    "barelog_partition_series_left_out" "" "gauge" [] "Partitions that have no series of their own because there are more than the bound.",
        |scrape, emit| {
            let left_out = scrape.partitions().count().saturating_sub(SERIES_MAX);
            emit(&[], Value::Number(left_out as u64))
        };
    "barelog_consumer_lag" "" "gauge" ["group" "topic" "partition"] "Records between a group's committed offset and the high watermark.",
        |scrape, emit| scrape.lags(emit);
    "barelog_groups" "" "gauge" ["type" "state"] "Groups by type and state.",
        |scrape, emit| scrape.groups.iter().try_for_each(|count| {
            emit(&[count.kind, count.state], Value::Number(count.groups))
        });
];

impl Scrape<'_> {
    /// All metrics in Prometheus's text format, version 0.0.4.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).expect("writing to a string does not fail");
        out
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        for metric in stats::METRICS {
            let name = full_name(metric.name, metric.unit, metric.source.kind());
            write_head(out, &name, metric.help, metric.source.kind())?;
            for (shard, shard_stats) in self.shard_stats.iter().enumerate() {
                write_shard(out, &name, &shard.to_string(), metric.source, shard_stats)?;
            }
        }
        for metric in CONTROL_METRICS {
            let name = full_name(metric.name, metric.unit, metric.kind);
            write_head(out, &name, metric.help, metric.kind)?;
            (metric.read)(self, &mut |values, value| {
                let labels: Vec<(&str, &str)> = metric.labels.iter().copied().zip(values.iter().copied()).collect();
                write_value(out, &name, &labels, value)
            })?;
        }
        Ok(())
    }

    /// Topic, partition index, ends; by name, so that the same ones are shown each time.
    fn partitions(&self) -> impl Iterator<Item = (&str, usize, &Bounds)> {
        let mut topics: Vec<_> = self
            .image
            .topics
            .values()
            .filter(|topic| self.topic.as_deref().is_none_or(|only| *topic.name == *only))
            .collect();
        topics.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        topics.into_iter().flat_map(|topic| {
            let known = |(index, partition): (usize, &base::image::PartitionEntry)| {
                self.sizes.get(&partition.id).map(|bounds| (&*topic.name, index, bounds))
            };
            topic.partitions.iter().enumerate().filter_map(known)
        })
    }

    fn by_partition(&self, emit: &mut Emit<'_>, value: fn(&Bounds) -> i64) -> fmt::Result {
        self.partitions().take(SERIES_MAX).try_for_each(|(topic, index, bounds)| {
            emit(&[topic, &index.to_string()], Value::Number(value(bounds).max(0).cast_unsigned()))
        })
    }

    fn by_topic(&self, emit: &mut Emit<'_>, value: fn(&Bounds) -> u64) -> fmt::Result {
        let mut sums = BTreeMap::<&str, u64>::new();
        for (topic, _, bounds) in self.partitions() {
            *sums.entry(topic).or_default() += value(bounds);
        }
        sums.iter().take(SERIES_MAX).try_for_each(|(topic, sum)| emit(&[topic], Value::Number(*sum)))
    }

    fn lags(&self, emit: &mut Emit<'_>) -> fmt::Result {
        for committed in self.committed.iter().take(SERIES_MAX) {
            let topic = self.image.topics.get(&*committed.topic);
            let index = usize::try_from(committed.partition).ok();
            let partition = topic.zip(index).and_then(|(topic, index)| topic.partitions.get(index));
            let Some(bounds) = partition.and_then(|partition| self.sizes.get(&partition.id)) else { continue };
            // What is below the log start cannot be read any more and is no backlog.
            let lag = bounds.high_watermark.0 - committed.offset.max(bounds.log_start.0);
            let partition = committed.partition.to_string();
            let value = Value::Number(lag.max(0).cast_unsigned());
            emit(&[&committed.group, &committed.topic, &partition], value)?;
        }
        Ok(())
    }
}

fn full_name(name: &str, unit: &str, kind: &str) -> String {
    let mut full = name.to_owned();
    if !unit.is_empty() {
        full.push('_');
        full.push_str(unit);
    }
    if kind == "counter" {
        full.push_str("_total");
    }
    full
}

fn write_head(out: &mut String, name: &str, help: &str, kind: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn write_shard(out: &mut String, name: &str, shard: &str, source: Source, stats: &ShardStats) -> fmt::Result {
    let labels = [("shard", shard)];
    let apis = || {
        APIS.iter().filter_map(|api| {
            let known = stats.apis.get(usize::try_from(api.key as i16).ok()?)?;
            // An API that nobody calls would only add zeros.
            (known.requests.get() > 0).then_some((api.name, known))
        })
    };
    match source {
        Source::Counter(read) | Source::Gauge(read) => {
            write_value(out, name, &labels, Value::Number(read(stats).get()))
        }
        Source::Histogram(read) => write_value(out, name, &labels, Value::Histogram(read(stats))),
        Source::ApiCounter(read) => apis().try_for_each(|(api, known)| {
            write_value(out, name, &[("shard", shard), ("api", api)], Value::Number(read(known).get()))
        }),
        Source::ApiHistogram(read) => apis().try_for_each(|(api, known)| {
            write_value(out, name, &[("shard", shard), ("api", api)], Value::Histogram(read(known)))
        }),
    }
}

fn write_value(out: &mut String, name: &str, labels: &[(&str, &str)], value: Value<'_>) -> fmt::Result {
    match value {
        Value::Number(number) => {
            out.push_str(name);
            write_labels(out, labels, None)?;
            writeln!(out, " {number}")
        }
        Value::Real(number) => {
            out.push_str(name);
            write_labels(out, labels, None)?;
            writeln!(out, " {number}")
        }
        Value::Histogram(latency) => write_histogram(out, name, labels, latency),
    }
}

fn write_histogram(out: &mut String, name: &str, labels: &[(&str, &str)], latency: &Latency) -> fmt::Result {
    let (buckets, sum_ns) = latency.read();
    let mut count = 0;
    for (i, in_bucket) in buckets.iter().enumerate() {
        count += in_bucket;
        let bound = if i + 1 == buckets.len() { "+Inf".to_owned() } else { seconds(stats::bucket_bound_ns(i)) };
        write!(out, "{name}_bucket")?;
        write_labels(out, labels, Some(&bound))?;
        writeln!(out, " {count}")?;
    }
    for (suffix, value) in [("_sum", seconds(sum_ns)), ("_count", count.to_string())] {
        write!(out, "{name}{suffix}")?;
        write_labels(out, labels, None)?;
        writeln!(out, " {value}")?;
    }
    Ok(())
}

/// Nanoseconds as exact decimal seconds.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn write_labels(out: &mut String, labels: &[(&str, &str)], bound: Option<&str>) -> fmt::Result {
    let all = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
    let mut separator = '{';
    for (name, value) in all {
        write!(out, "{separator}{name}=\"")?;
        for c in value.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        out.push('"');
        separator = ',';
    }
    if separator == ',' {
        out.push('}');
    }
    Ok(())
}

#[cfg(test)]
pub(crate) fn write_labels_for_test(out: &mut String, labels: &[(&str, &str)]) {
    write_labels(out, labels, None).expect("writing to a string does not fail");
}

/// `docs/METRICS.md`.
#[must_use]
pub fn metrics_markdown() -> String {
    let mut out = String::from(
        "# Metrics\n\n<!-- Generated from the tables in base/src/stats/shard.rs and controlplane/src/http/metrics.rs; \
         `BLESS=1 cargo test -p barelog-controlplane docs_list` rewrites it. -->\n\n",
    );
    let _ = write!(
        out,
        "`GET /metrics` gives them in Prometheus's text format. Series with a label `partition`, `topic` or `group` are bounded \
         to {SERIES_MAX} each, by topic name; `GET /metrics?topic=NAME` shows those of one topic only. An API that nobody has \
         called has no series.\n\n"
    );
    out.push_str("| metric | kind | labels | what it is |\n|---|---|---|---|\n");
    let mut row = |name: &str, unit: &str, kind: &str, labels: &[&str], help: &str| {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let name = full_name(name, unit, kind);
        let _ = writeln!(out, "| `{name}` | {kind} | {labels} | {help} |");
    };
    for metric in stats::METRICS {
        let labels = [&["shard"], metric.source.labels()].concat();
        row(metric.name, metric.unit, metric.source.kind(), &labels, metric.help);
    }
    for metric in CONTROL_METRICS {
        row(metric.name, metric.unit, metric.kind, metric.labels, metric.help);
    }
    out
}
