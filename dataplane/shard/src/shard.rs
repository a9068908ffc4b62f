//! The shard itself: its state, and the loop body.

use alloc::sync::Arc;

use base::image::Image;
use base::stats::ShardStats;
use base::{Mono, Now};
use journal::Store;

use crate::limits::ShardConfig;
use crate::ports::{Backends, Ports};

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Something happened: turn again at once.
    pub busy: bool,
    /// If nothing did, the shard may sleep until an event, or until this time at the latest.
    pub until: Option<Mono>,
}

/// One core's mind. Lives on the shard's thread.
pub struct Shard<P: Ports> {
    config: ShardConfig,
    backends: Backends<P>,
    store: Store<P::Arena>,
    image: Arc<Image>,
    stats: Arc<ShardStats>,
}

impl<P: Ports> Shard<P> {
    /// A shard over recovered journals; takes the partitions of `image` that are its own.
    pub fn new(
        now: Now,
        config: ShardConfig,
        store: Store<P::Arena>,
        image: Arc<Image>,
        backends: Backends<P>,
        stats: Arc<ShardStats>,
    ) -> Self {
        let _ = now;
        Self { config, backends, store, image, stats }
    }

    /// The loop body: takes in what came, answers what can be answered, hands over what must be written.
    pub fn turn(&mut self, now: Now) -> Idle {
        let _ = now;
        Idle { busy: false, until: None }
    }

    /// Idle connections, retention, checkpoints, gauges; some times a second.
    pub fn housekeep(&mut self, now: Now) {
        let _ = (now, &self.config, &self.store, &self.image, &self.stats);
    }

    /// Whether an orderly shutdown is complete; the loop ends.
    pub fn is_stopped(&self) -> bool {
        false
    }

    /// The backends, for the thread that hosts the shard: to sleep on them, to take them apart at the end.
    pub fn backends_mut(&mut self) -> &mut Backends<P> {
        &mut self.backends
    }
}
