//! What a shard counts, and the table from which `/metrics` and `docs/METRICS.md` are made.

use super::{Counter, Latency};

/// Kafka API keys that are counted each for itself: 0 to 92 exist as of Kafka 4.4.
pub const API_KEYS: usize = 93;

/// One API of one shard.
#[derive(Debug, Default)]
pub struct ApiStats {
    /// Requests taken in.
    pub requests: Counter,
    /// Answers that carry an error for the whole request or for any part of it. Only of APIs that shards answer themselves.
    pub errors: Counter,
    /// From the last byte of the request to handing the answer to the network.
    pub latency: Latency,
}

/// All counters of one shard. The shard writes them, anybody reads them.
#[derive(Debug)]
pub struct ShardStats {
    /// By API key.
    pub apis: [ApiStats; API_KEYS],
    /// Requests closed unanswered because they did not parse, were too large or named an API that does not exist.
    pub requests_malformed: Counter,
    /// Bytes of requests.
    pub bytes_in: Counter,
    /// Bytes of answers.
    pub bytes_out: Counter,
    /// Record batches appended.
    pub batches_in: Counter,
    /// Records in them.
    pub records_in: Counter,
    /// Bytes of record batches appended.
    pub record_bytes_in: Counter,
    /// Bytes of record batches sent in answers to Fetch.
    pub record_bytes_out: Counter,
    /// Produce batches refused, by whatever error.
    pub batches_refused: Counter,
    /// From appending a batch to its being durable.
    pub commit_latency: Latency,
    /// Device writes submitted.
    pub device_writes: Counter,
    /// Bytes in them.
    pub device_bytes_written: Counter,
    /// Device flushes submitted.
    pub device_flushes: Counter,
    /// Device reads submitted.
    pub device_reads: Counter,
    /// Bytes in them.
    pub device_bytes_read: Counter,
    /// Journals that were fenced after an I/O error.
    pub journals_fenced: Counter,
    /// Ranges of offsets that are known to be damaged.
    pub damaged_ranges: Counter,
    /// Reads refused because what they asked for is damaged.
    pub damaged_reads: Counter,
    /// Extents replaced by clustered ones.
    pub extents_clustered: Counter,
    /// Passes of compaction that came to their end.
    pub compaction_runs: Counter,
    /// Records that compaction looked at.
    pub compaction_records_read: Counter,
    /// Of those, the ones that stayed.
    pub compaction_records_kept: Counter,
    /// Bytes of batches that compaction looked at.
    pub compaction_bytes_read: Counter,
    /// Of those, what stayed.
    pub compaction_bytes_kept: Counter,
    /// How long the last pass took, in milliseconds.
    pub compaction_last_run_ms: Counter,
    /// Closed bytes of compacted partitions that no pass has looked at.
    pub compaction_dirty_bytes: Counter,
    /// Extents and batches that the last pass had to leave as they were.
    pub compaction_uncleanable: Counter,
    /// Open connections.
    pub connections: Counter,
    /// Connections ever accepted.
    pub connections_opened: Counter,
    /// Connections closed because nothing came for too long.
    pub connections_idle_closed: Counter,
    /// Connections that are not read at the moment because a bound is reached.
    pub connections_paused: Counter,
    /// Requests taken in and not answered.
    pub requests_in_flight: Counter,
    /// Bytes of requests taken in and not answered.
    pub request_bytes: Counter,
    /// Batches' bytes that wait for room in the write tail.
    pub produce_bytes_queued: Counter,
    /// Bytes of answers handed to the network and not sent.
    pub response_bytes_queued: Counter,
    /// Bytes of arena memory in those answers.
    pub response_bytes_pinned: Counter,
    /// Arena bytes free for the write tail.
    pub tail_bytes_available: Counter,
    /// Arena bytes free for cold reads.
    pub cold_bytes_available: Counter,
    /// Arena bytes of freed blocks that slices still hold.
    pub arena_bytes_pinned: Counter,
    /// Reads of partitions here that wait for data, for Fetch requests of any shard.
    pub fetches_waiting: Counter,
    /// Fetch sessions.
    pub fetch_sessions: Counter,
    /// Partitions in them.
    pub fetch_session_partitions: Counter,
    /// Fetch sessions put out for others.
    pub fetch_sessions_evicted: Counter,
    /// Messages sent to other shards.
    pub messages_out: Counter,
    /// Messages that found a ring full and waited.
    pub messages_held: Counter,
    /// Turns of the loop.
    pub turns: Counter,
    /// Turns in which something happened.
    pub turns_busy: Counter,
}

impl Default for ShardStats {
    fn default() -> Self {
        Self {
            apis: core::array::from_fn(|_| ApiStats::default()),
            requests_malformed: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            batches_in: Counter::default(),
            records_in: Counter::default(),
            record_bytes_in: Counter::default(),
            record_bytes_out: Counter::default(),
            batches_refused: Counter::default(),
            commit_latency: Latency::default(),
            device_writes: Counter::default(),
            device_bytes_written: Counter::default(),
            device_flushes: Counter::default(),
            device_reads: Counter::default(),
            device_bytes_read: Counter::default(),
            journals_fenced: Counter::default(),
            damaged_ranges: Counter::default(),
            damaged_reads: Counter::default(),
            extents_clustered: Counter::default(),
            compaction_runs: Counter::default(),
            compaction_records_read: Counter::default(),
            compaction_records_kept: Counter::default(),
            compaction_bytes_read: Counter::default(),
            compaction_bytes_kept: Counter::default(),
            compaction_last_run_ms: Counter::default(),
            compaction_dirty_bytes: Counter::default(),
            compaction_uncleanable: Counter::default(),
            connections: Counter::default(),
            connections_opened: Counter::default(),
            connections_idle_closed: Counter::default(),
            connections_paused: Counter::default(),
            requests_in_flight: Counter::default(),
            request_bytes: Counter::default(),
            produce_bytes_queued: Counter::default(),
            response_bytes_queued: Counter::default(),
            response_bytes_pinned: Counter::default(),
            tail_bytes_available: Counter::default(),
            cold_bytes_available: Counter::default(),
            arena_bytes_pinned: Counter::default(),
            fetches_waiting: Counter::default(),
            fetch_sessions: Counter::default(),
            fetch_session_partitions: Counter::default(),
            fetch_sessions_evicted: Counter::default(),
            messages_out: Counter::default(),
            messages_held: Counter::default(),
            turns: Counter::default(),
            turns_busy: Counter::default(),
        }
    }
}

/// How a metric is read.
#[derive(Clone, Copy)]
pub enum Source {
    /// Only rises.
    Counter(fn(&ShardStats) -> &Counter),
    /// Rises and falls.
    Gauge(fn(&ShardStats) -> &Counter),
    /// A distribution.
    Histogram(fn(&ShardStats) -> &Latency),
    /// One counter for each API, told apart by the label `api`.
    ApiCounter(fn(&ApiStats) -> &Counter),
    /// One distribution for each API, told apart by the label `api`.
    ApiHistogram(fn(&ApiStats) -> &Latency),
}

impl Source {
    /// Prometheus's word for the kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Counter(_) | Self::ApiCounter(_) => "counter",
            Self::Gauge(_) => "gauge",
            Self::Histogram(_) | Self::ApiHistogram(_) => "histogram",
        }
    }

    /// Labels beside `shard`.
    #[must_use]
    pub const fn labels(&self) -> &'static [&'static str] {
        match self {
            Self::ApiCounter(_) | Self::ApiHistogram(_) => &["api"],
            Self::Counter(_) | Self::Gauge(_) | Self::Histogram(_) => &[],
        }
    }
}

/// A metric of a shard. In `/metrics` every one has the label `shard`.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Name without the unit's and kind's suffix, in Prometheus's manner.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Unit: `bytes`, `seconds`, or empty for a plain number.
    pub unit: &'static str,
    /// Where the value is.
    pub source: Source,
}

macro_rules! metrics {
    ($($name:literal $unit:literal $kind:ident $field:ident, $help:literal;)*) => {
        &[$(Metric { name: $name, help: $help, unit: $unit, source: Source::$kind(|stats| &stats.$field) },)*]
    };
}

/// Every metric of a shard.
pub const METRICS: &[Metric] = metrics![
    "barelog_requests" "" ApiCounter requests, "Requests taken in.";
    "barelog_request_errors" "" ApiCounter errors, "Answers with an error for the request or any part of it, of Produce, Fetch and ListOffsets.";
    "barelog_request_latency" "seconds" ApiHistogram latency, "From the request's last byte to handing the answer to the network.";
    "barelog_requests_malformed" "" Counter requests_malformed, "Requests that did not parse, were too large or named an unknown API; the connection was closed.";
    "barelog_received" "bytes" Counter bytes_in, "Bytes of requests.";
    "barelog_sent" "bytes" Counter bytes_out, "Bytes of answers.";
    "barelog_batches_in" "" Counter batches_in, "Record batches appended.";
    "barelog_records_in" "" Counter records_in, "Records appended.";
    "barelog_appended" "bytes" Counter record_bytes_in, "Bytes of record batches appended.";
    "barelog_fetched" "bytes" Counter record_bytes_out, "Bytes of record batches in answers to Fetch.";
    "barelog_batches_refused" "" Counter batches_refused, "Record batches of Produce requests that were refused.";
    "barelog_commit_latency" "seconds" Histogram commit_latency, "From appending a batch to its being durable.";
    "barelog_device_writes" "" Counter device_writes, "Device writes submitted; records per write is barelog_records_in_total over this.";
    "barelog_device_written" "bytes" Counter device_bytes_written, "Bytes written to devices.";
    "barelog_device_flushes" "" Counter device_flushes, "Device flushes submitted.";
    "barelog_device_reads" "" Counter device_reads, "Device reads submitted.";
    "barelog_device_read" "bytes" Counter device_bytes_read, "Bytes read from devices.";
    "barelog_journals_fenced" "" Counter journals_fenced, "Journals that take no more appends after an I/O error.";
    "barelog_damaged_ranges" "" Gauge damaged_ranges, "Ranges of offsets that are damaged on the device, found by a start or by a read, and not deleted yet; GET /damage lists them.";
    "barelog_damaged_reads" "" Counter damaged_reads, "Reads refused as CORRUPT_MESSAGE because what they asked for is damaged on the device.";
    "barelog_extents_clustered" "" Counter extents_clustered, "Closed extents whose living records were written anew into one.";
    "barelog_compaction_runs" "" Counter compaction_runs, "Passes of compaction over a journal that came to their end.";
    "barelog_compaction_records_read" "" Counter compaction_records_read, "Records that compaction looked at; those not kept had a later one of their key, or were tombstones whose time had come.";
    "barelog_compaction_records_kept" "" Counter compaction_records_kept, "Records that compaction looked at and kept.";
    "barelog_compaction_read" "bytes" Counter compaction_bytes_read, "Bytes of batches that compaction looked at.";
    "barelog_compaction_kept" "bytes" Counter compaction_bytes_kept, "Bytes of batches that compaction kept.";
    "barelog_compaction_last_run_ms" "" Gauge compaction_last_run_ms, "How long the last pass of compaction took, in milliseconds.";
    "barelog_compaction_dirty" "bytes" Gauge compaction_dirty_bytes, "Closed bytes of compacted partitions that no pass of compaction has looked at.";
    "barelog_compaction_uncleanable" "" Gauge compaction_uncleanable, "Extents and batches that the last pass of compaction had to leave as they were: damaged, or not to be inflated.";
    "barelog_connections" "" Gauge connections, "Open connections.";
    "barelog_connections_opened" "" Counter connections_opened, "Connections accepted.";
    "barelog_connections_idle_closed" "" Counter connections_idle_closed, "Connections closed after connections.max.idle.ms.";
    "barelog_connections_paused" "" Gauge connections_paused, "Connections not read at the moment because a bound is reached.";
    "barelog_requests_in_flight" "" Gauge requests_in_flight, "Requests taken in and not answered.";
    "barelog_memory_requests" "bytes" Gauge request_bytes, "Bytes of requests taken in and not answered.";
    "barelog_memory_produce_queued" "bytes" Gauge produce_bytes_queued, "Bytes of batches that wait for room in the write tail.";
    "barelog_memory_responses" "bytes" Gauge response_bytes_queued, "Bytes of answers not sent.";
    "barelog_memory_responses_pinned" "bytes" Gauge response_bytes_pinned, "Arena bytes in answers not sent.";
    "barelog_memory_tail_available" "bytes" Gauge tail_bytes_available, "Arena bytes free for the write tail.";
    "barelog_memory_cold_available" "bytes" Gauge cold_bytes_available, "Arena bytes free for cold reads.";
    "barelog_memory_arena_pinned" "bytes" Gauge arena_bytes_pinned, "Arena bytes of freed blocks that answers still hold.";
    "barelog_fetches_waiting" "" Gauge fetches_waiting, "Reads that wait for data.";
    "barelog_fetch_sessions" "" Gauge fetch_sessions, "Fetch sessions (KIP-227).";
    "barelog_fetch_session_partitions" "" Gauge fetch_session_partitions, "Partitions in fetch sessions.";
    "barelog_fetch_sessions_evicted" "" Counter fetch_sessions_evicted, "Fetch sessions put out for others.";
    "barelog_shard_messages" "" Counter messages_out, "Messages sent to other shards.";
    "barelog_shard_messages_held" "" Counter messages_held, "Messages that found a ring full and waited.";
    "barelog_turns" "" Counter turns, "Turns of the shard's loop.";
    "barelog_turns_busy" "" Counter turns_busy, "Turns in which something happened.";
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_are_unique_and_well_formed() {
        for (i, metric) in METRICS.iter().enumerate() {
            assert!(metric.name.starts_with("barelog_"));
            assert!(metric.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", metric.name);
            assert!(metric.help.ends_with('.'));
            assert!(METRICS[i + 1..].iter().all(|other| other.name != metric.name), "{} twice", metric.name);
        }
    }

    #[test]
    fn a_metric_reads_the_counter_it_names() {
        let stats = ShardStats::default();
        stats.records_in.add(7);
        stats.apis[3].requests.add(2);
        let find = |name: &str| METRICS.iter().find(|metric| metric.name == name).map(|metric| metric.source);
        assert!(matches!(find("barelog_records_in"), Some(Source::Counter(read)) if read(&stats).get() == 7));
        assert!(matches!(find("barelog_requests"), Some(Source::ApiCounter(read)) if read(&stats.apis[3]).get() == 2));
    }
}
