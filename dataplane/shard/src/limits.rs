//! The size of every room of a shard, with the arithmetic that gave it.

use base::ShardId;

/// Which shard this is, and its bounds.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// This shard.
    pub id: ShardId,
    /// How many shards the process has.
    pub shards: u16,
    /// Seed of hash tables and of fetch session ids; drawn anew by each process.
    pub hash_seed: u64,
    /// Bounds.
    pub limits: Limits,
}

/// Bounds of one shard.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest request, without its four length bytes; a longer one closes the connection. 32 MiB: three batches of the default
    /// `message.max.bytes` of 10 MB in one Produce.
    pub request_bytes_max: u32,
    /// Topics and partitions that one request may name; one that names more closes the connection. 256 Ki: more than a broker
    /// carries, and 60 MB while such a request is in progress.
    pub request_elements_max: usize,
    /// Requests of one connection taken in and not answered. 256: librdkafka sends up to its queue; 5 is what an idempotent
    /// producer does.
    pub conn_requests_max: usize,
    /// Requests of one connection other than Produce taken in and not answered. 8: Kafka works on one at a time, and each may
    /// bring an answer of megabytes.
    pub conn_questions_max: usize,
    /// Requests of all connections together, taken in and not answered, of APIs of the control plane that only look and whose
    /// answers may be large (`is_bulky` in `dispatch.rs` says which). 64: they are answered within a turn or two of the control
    /// plane, and 64 answers of a megabyte are as much as one consumer may fetch.
    pub bulky_requests_max: usize,
    /// Bytes of requests of one connection taken in and not answered; one larger request is taken alone.
    pub conn_request_bytes_max: usize,
    /// No further request of a connection is taken in while more bytes of answers than this wait to be sent to it, or for
    /// the answers before them.
    pub conn_response_bytes_max: usize,
    /// Bytes of requests taken in and not answered, of all connections together.
    pub request_bytes_total_max: usize,
    /// Bytes of batches that wait for room in the write tail; above it no Produce request is taken in.
    pub produce_queue_bytes_max: usize,
    /// Bytes that one connection may have taken in in one turn before the next connection has its go.
    pub conn_turn_bytes: usize,
    /// Bytes a partition may append in its round when room is scarce (deficit round-robin). 64 KiB: four partitions to a
    /// unit of 256 KiB.
    pub append_quantum: u32,
    /// `connections.max.idle.ms`.
    pub idle_ms_max: u64,
    /// Largest answer to a Fetch, whatever the client asks for, but for a first batch that is larger. Kafka's
    /// `fetch.max.bytes`: 55 MiB.
    pub fetch_bytes_max: u32,
    /// Longest wait of a Fetch, whatever the client asks for.
    pub fetch_wait_ms_max: u32,
    /// A batch below this is copied into the answer, a larger one is sent from where it lies. 4 KiB: an iovec entry and the
    /// count of a shared slice cost about as much as copying that.
    pub gather_below: usize,
    /// Arena bytes in answers not sent above which batches are copied instead.
    pub pinned_bytes_max: usize,
    /// Bytes of answers made and not sent, of all connections together, above which no Fetch is taken in, and nothing but
    /// Produce of a connection that has an answer to come. Each answer to a Fetch gets an eighth of what is left at most. Above
    /// twice as many nothing is taken in.
    pub response_bytes_total_max: usize,
    /// While half of that is used, a connection that has taken nothing of its answers for so long is closed.
    pub stall_ms_max: u64,
    /// The same while all of it is used.
    pub stall_crowded_ms_max: u64,
    /// Reads that wait here for data, for Fetch requests of any shard; above it a Fetch is answered with what there is.
    pub waiting_reads_max: usize,
    /// Partitions in all waiting reads together: 40 bytes each and 16 in the index.
    pub waiting_partitions_max: usize,
    /// Fetch sessions; Kafka's `max.incremental.fetch.session.cache.slots`.
    pub sessions_max: usize,
    /// Partitions in all fetch sessions together: about 150 bytes each.
    pub session_partitions_max: usize,
    /// A session that was used within this time is not put out for another. Kafka's
    /// `min.incremental.fetch.session.eviction.ms`.
    pub session_idle_ms_min: u64,
    /// Appends and the like asked of one other shard and not answered, in messages; above it no Produce, Fetch or
    /// ListOffsets is taken in.
    pub neighbour_requests_max: usize,
    /// Commands of the control plane begun and not done; above it no more are taken.
    pub commands_max: usize,
    /// How long a shutdown waits for answers to leave.
    pub shutdown_ms_max: u64,
    /// How long a shutdown waits for answers of the control plane: some of those wait for other members of a group.
    pub shutdown_control_ms_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes_max: 32 << 20,
            request_elements_max: 256 << 10,
            conn_requests_max: 256,
            conn_questions_max: 8,
            bulky_requests_max: 64,
            conn_request_bytes_max: 16 << 20,
            conn_response_bytes_max: 4 << 20,
            request_bytes_total_max: 256 << 20,
            produce_queue_bytes_max: 64 << 20,
            conn_turn_bytes: 1 << 20,
            append_quantum: 64 << 10,
            idle_ms_max: 600_000,
            fetch_bytes_max: 55 << 20,
            fetch_wait_ms_max: 60_000,
            gather_below: 4 << 10,
            pinned_bytes_max: 64 << 20,
            response_bytes_total_max: 256 << 20,
            stall_ms_max: 30_000,
            stall_crowded_ms_max: 5_000,
            waiting_reads_max: 16 << 10,
            waiting_partitions_max: 1 << 20,
            sessions_max: 1000,
            session_partitions_max: 1 << 20,
            session_idle_ms_min: 120_000,
            neighbour_requests_max: 4096,
            commands_max: 4096,
            shutdown_ms_max: 5_000,
            shutdown_control_ms_max: 1_000,
        }
    }
}
