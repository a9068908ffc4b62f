//! Limits and times of groups.

/// What an operator may set, and the limits that bound memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `group.min.session.timeout.ms`.
    pub session_timeout_ms_min: i32,
    /// `group.max.session.timeout.ms`.
    pub session_timeout_ms_max: i32,
    /// `group.initial.rebalance.delay.ms`: how long the first rebalance of an empty group waits for more members. Starts anew
    /// with every member that comes, up to the rebalance timeout.
    pub initial_rebalance_delay_ms: u32,
    /// `group.max.size`: members of one group, ids handed out but not yet used included.
    pub members_max: usize,
    /// `group.consumer.session.timeout.ms`: how long a member of a consumer group may be silent.
    pub consumer_session_timeout_ms: u64,
    /// `group.consumer.heartbeat.interval.ms`: how often it is to be heard.
    pub consumer_heartbeat_interval_ms: i32,
    /// `group.consumer.max.size`: members of one consumer group.
    pub consumer_members_max: usize,
    /// Groups of the whole coordinator; one more is refused with POLICY_VIOLATION.
    pub groups_max: usize,
    /// Estimated bytes of members, subscriptions, assignments and committed offsets; beyond it new ones are refused with
    /// POLICY_VIOLATION.
    pub state_bytes_max: usize,
    /// Estimated bytes of records handed out to be appended and not yet durable; beyond it commits are refused with
    /// COORDINATOR_LOAD_IN_PROGRESS, on which clients wait and try again.
    pub append_bytes_max: usize,
    /// `offset.metadata.max.bytes`.
    pub offset_metadata_bytes_max: usize,
    /// `offsets.retention.minutes`, in milliseconds.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub retention_check_interval_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            session_timeout_ms_min: 6_000,
            session_timeout_ms_max: 1_800_000,
            // Kafka waits 3 s. 100 ms gathers members that one deployment starts together and is not felt by a lone one.
            initial_rebalance_delay_ms: 100,
            members_max: 10_000,
            consumer_session_timeout_ms: 45_000,
            consumer_heartbeat_interval_ms: 5_000,
            consumer_members_max: 10_000,
            groups_max: 200_000,
            state_bytes_max: 1 << 30,
            append_bytes_max: 64 << 20,
            offset_metadata_bytes_max: 4096,
            offsets_retention_ms: 7 * 24 * 60 * 60 * 1000,
            retention_check_interval_ms: 600_000,
        }
    }
}

/// A member that waits in its first JoinGroup cannot send heartbeats; it is given up after five minutes, as in Kafka.
pub(crate) const NEW_MEMBER_JOIN_TIMEOUT_MS: u64 = 5 * 60 * 1000;
