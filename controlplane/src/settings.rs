//! What the control plane is told by the broker's configuration.

use std::time::Duration;

use base::image::{TimestampType, TopicConfig};

/// Settings of a broker that the control plane acts on, and that DescribeConfigs shows.
#[derive(Clone, Debug)]
pub struct BrokerSettings {
    /// `num.partitions`: partitions of a topic that is created without saying how many.
    pub num_partitions: u32,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// What holds for a topic without settings of its own: `log.retention.ms`, `log.retention.bytes`,
    /// `message.max.bytes` and the like.
    pub topic_defaults: TopicConfig,
    /// `connections.max.idle.ms`; −1 is for ever. The shards act on it; here it is shown.
    pub connections_max_idle_ms: i64,
    /// `offsets.retention.minutes`.
    pub offsets_retention_minutes: u64,
    /// `offsets.topic.num.partitions`: partitions of `__consumer_offsets`, when it is created.
    pub offsets_topic_partitions: u32,
    /// `group.initial.rebalance.delay.ms`.
    pub group_initial_rebalance_delay_ms: u64,
    /// `group.min.session.timeout.ms`.
    pub group_min_session_timeout_ms: u64,
    /// `group.max.session.timeout.ms`.
    pub group_max_session_timeout_ms: u64,
    /// `group.max.size`: members of a group.
    pub group_max_size: u32,
    /// `group.consumer.session.timeout.ms` (KIP-848).
    pub group_consumer_session_timeout_ms: u64,
    /// `group.consumer.heartbeat.interval.ms` (KIP-848).
    pub group_consumer_heartbeat_interval_ms: i32,
    /// `group.consumer.max.size` (KIP-848).
    pub group_consumer_max_size: u32,
    /// `producer.id.expiration.ms`. The shards act on it; here it is shown.
    pub producer_id_expiration_ms: i64,
    /// How long CreateTopics and the like wait for the shards to apply a change before they answer REQUEST_TIMED_OUT,
    /// when the client's own bound is longer.
    pub apply_bound: Duration,
    /// How long a question to a shard may take before the client is told to try again.
    pub shard_bound: Duration,
    /// `moves.at_a_time`: partitions that move between journals at a time.
    pub moves_at_a_time: u32,
    /// `moves.hot_bytes_per_second`: from which load of a journal on a partition that makes most of it is moved; 0 is never.
    pub move_hot_bytes_per_second: u64,
    /// Requests the control plane works on at a time; more wait their turn.
    pub requests_at_a_time: usize,
    /// Bytes of requests that may wait here, a kilobyte for each request counted in; a connection that brings more is closed.
    pub request_bytes_max: usize,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self {
            num_partitions: 1,
            auto_create_topics: true,
            topic_defaults: topic_defaults(),
            connections_max_idle_ms: 600_000,
            offsets_retention_minutes: 10_080,
            offsets_topic_partitions: 50,
            group_initial_rebalance_delay_ms: 100,
            group_min_session_timeout_ms: 1_000,
            group_max_session_timeout_ms: 1_800_000,
            group_max_size: 100_000,
            group_consumer_session_timeout_ms: 45_000,
            group_consumer_heartbeat_interval_ms: 5_000,
            group_consumer_max_size: 100_000,
            producer_id_expiration_ms: 86_400_000,
            apply_bound: Duration::from_secs(30),
            shard_bound: Duration::from_secs(15),
            moves_at_a_time: 4,
            move_hot_bytes_per_second: 32 << 20,
            // 256: two cores are busy with far fewer; the rest wait for shards or the disk of the metadata.
            requests_at_a_time: 256,
            request_bytes_max: 256 << 20,
        }
    }
}

/// Kafka's defaults, but for the size of a batch: 10 MB and 4 KiB of overhead.
#[must_use]
pub fn topic_defaults() -> TopicConfig {
    TopicConfig {
        retention_ms: 604_800_000,
        retention_bytes: -1,
        compaction: None,
        max_message_bytes: (10 << 20) + (4 << 10),
        timestamp_type: TimestampType::Create,
        timestamp_before_ms_max: i64::MAX,
        timestamp_after_ms_max: 3_600_000,
        min_insync_replicas: 1,
    }
}
