//! From the configuration to what each part wants to know.

use std::time::Duration;

use base::image::TopicConfig;
use controlplane::BrokerSettings;
use controlplane::settings::topic_defaults;
use dataplane::thread::PollMode;
use shard::Limits;

use crate::config::BrokerConfig;

/// For the control plane.
pub(super) fn broker_settings(config: &BrokerConfig) -> BrokerSettings {
    BrokerSettings {
        num_partitions: config.partitions.unsigned_abs(),
        auto_create_topics: config.auto_create_topics,
        topic_defaults: TopicConfig {
            retention_ms: config.retention_ms,
            retention_bytes: config.retention_bytes,
            max_message_bytes: config.message_bytes_max,
            ..topic_defaults()
        },
        connections_max_idle_ms: config.idle_ms_max.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(-1),
        offsets_retention_minutes: config.offsets_retention_minutes.unsigned_abs(),
        offsets_topic_partitions: config.offsets_partitions.unsigned_abs(),
        group_initial_rebalance_delay_ms: config.initial_rebalance_delay_ms,
        group_min_session_timeout_ms: config.session_ms.0,
        group_max_session_timeout_ms: config.session_ms.1,
        group_max_size: config.group_members_max,
        group_consumer_session_timeout_ms: config.consumer_session_ms,
        group_consumer_heartbeat_interval_ms: config.consumer_heartbeat_ms,
        group_consumer_max_size: config.consumer_members_max,
        producer_id_expiration_ms: config.producer_expiry_ms,
        moves_at_a_time: config.profile.moves_at_a_time,
        move_hot_bytes_per_second: config.profile.move_hot_bytes_per_second,
        ..BrokerSettings::default()
    }
}

/// For a shard.
pub(super) fn limits(config: &BrokerConfig) -> Limits {
    let usual = Limits::default();
    let receive = config.profile.receive_bytes;
    Limits {
        // A request of one batch of the largest size has to fit, with its framing.
        request_bytes_max: usual.request_bytes_max.max(config.message_bytes_max.saturating_add(64 << 10)),
        request_bytes_total_max: receive,
        produce_queue_bytes_max: receive / 2,
        idle_ms_max: config.idle_ms_max.unwrap_or(u64::MAX),
        pinned_bytes_max: config.profile.tail_bytes / 4,
        ..usual
    }
}

/// For a shard's thread.
pub(super) fn poll_mode(config: &BrokerConfig) -> PollMode {
    if config.profile.busy_poll {
        PollMode::Busy
    } else {
        PollMode::Adaptive { spin: Duration::from_micros(config.profile.spin_us) }
    }
}
