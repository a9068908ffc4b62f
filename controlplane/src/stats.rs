//! What the control plane counts.

use std::sync::atomic::{AtomicU64, Ordering};

use base::stats::{API_KEYS, Counter, Latency};

/// A number that many tasks add to.
#[derive(Debug, Default)]
pub struct Shared(AtomicU64);

impl Shared {
    /// Adds one.
    pub fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one away (for gauges).
    pub fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sets it (for gauges).
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of the control plane.
#[derive(Debug)]
pub struct ControlStats {
    /// Answers with an error anywhere in them, by API key.
    pub errors: [Shared; API_KEYS],
    /// Requests that have arrived and are not answered.
    pub requests_in_flight: Shared,
    /// Requests whose connection was closed: they did not parse, name an API that is not served, or found no room.
    pub requests_refused: Shared,
    /// Changes of metadata made durable. Written by the metadata store's thread only.
    pub metadata_commands: Counter,
    /// From taking a batch of changes to its being durable and published. Written by the same thread.
    pub metadata_commit_latency: Latency,
    /// Topics created because a client asked for their metadata.
    pub topics_auto_created: Shared,
    /// Partitions that moved to another journal.
    pub partitions_moved: Shared,
    /// Moves that were given up: the partition stays where it was.
    pub moves_cancelled: Shared,
    /// Moves begun because a partition made most of its journal's load.
    pub hot_moves: Shared,
    /// Moves that are being led.
    pub moves_running: Shared,
}

impl Default for ControlStats {
    fn default() -> Self {
        Self {
            errors: std::array::from_fn(|_| Shared::default()),
            requests_in_flight: Shared::default(),
            requests_refused: Shared::default(),
            metadata_commands: Counter::default(),
            metadata_commit_latency: Latency::default(),
            topics_auto_created: Shared::default(),
            partitions_moved: Shared::default(),
            moves_cancelled: Shared::default(),
            hot_moves: Shared::default(),
            moves_running: Shared::default(),
        }
    }
}

impl ControlStats {
    /// Counts an answer with an error.
    pub fn error(&self, key: i16) {
        if let Some(errors) = usize::try_from(key).ok().and_then(|key| self.errors.get(key)) {
            errors.up();
        }
    }
}
