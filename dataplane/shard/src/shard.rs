//! The shard itself: its state, and the loop body.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::{Image, SeededHash};
use base::stats::ShardStats;
use base::{ConnId, Mono, Now, PartitionId, ShardId};
use journal::Store;
use journal::store::{Effect, Event};

use crate::append::Appends;
use crate::command::{Move, WaitingCommand};
use crate::conn::{Conns, Gate};
use crate::homes::{Handover, set_homes};
use crate::limits::ShardConfig;
use crate::outbox::Outbox;
use crate::ports::{Backends, Devices as _, HeldOf, NetEvent, Network as _, Piece, Ports, SliceOf};
use crate::remote::{AppendItem, Message};
use crate::session::{SessionLimits, Sessions};
use crate::stop::Stopping;
use crate::waiting::Waiting;

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Something happened: turn again at once.
    pub busy: bool,
    /// If nothing did, the shard may sleep until an event, or until this time at the latest.
    pub until: Option<Mono>,
}

/// Sums over all connections.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) requests: usize,
    pub(crate) request_bytes: usize,
    /// Requests that count against `bulky_requests_max`.
    pub(crate) bulky: usize,
    pub(crate) held: usize,
    pub(crate) unsent: usize,
    pub(crate) pinned: usize,
    /// Connections that are not read.
    pub(crate) paused: usize,
}

impl Totals {
    /// Bytes of answers that are made and not sent.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.held + self.unsent
    }
}

/// One core's mind. Lives on the shard's thread.
pub struct Shard<P: Ports> {
    pub(crate) config: ShardConfig,
    pub(crate) backends: Backends<P>,
    pub(crate) store: Store<P::Arena>,
    pub(crate) image: Arc<Image>,
    pub(crate) stats: Arc<ShardStats>,
    pub(crate) conns: Conns<SliceOf<P>>,
    pub(crate) totals: Totals,
    /// Connections to serve, each once.
    pub(crate) scheduled: VecDeque<ConnId>,
    /// By [`Gate::queue`]: connections that wait for a shared bound.
    pub(crate) gated: [VecDeque<ConnId>; Gate::SHARED.len()],
    pub(crate) appends: Appends<HeldOf<P>>,
    pub(crate) waiting: Waiting,
    pub(crate) sessions: Sessions,
    pub(crate) outbox: Outbox<SliceOf<P>, HeldOf<P>>,
    /// Commands that wait for a device read.
    pub(crate) commands: Vec<WaitingCommand>,
    /// Commands that wait for a log start to be moved for good.
    pub(crate) moves: Vec<Move>,
    /// Commands that wait for a close or open frame to be durable.
    pub(crate) handovers: Vec<Handover>,
    /// Commands begun and not done.
    pub(crate) commands_open: usize,
    /// Partitions whose device read is there.
    pub(crate) ready: Vec<PartitionId>,
    pub(crate) stopping: Option<Stopping>,
    /// Shards that said they are drained.
    pub(crate) drained: u16,
    /// When to look for idle connections again.
    pub(crate) idle_check_at: Mono,

    // Kept from turn to turn for their memory only.
    pub(crate) effects: Vec<Effect>,
    net_events: Vec<NetEvent>,
    device_events: Vec<Event>,
    pub(crate) append_items: Vec<Vec<AppendItem>>,
    pub(crate) pieces: Vec<Piece<SliceOf<P>>>,
    pub(crate) slices: Vec<SliceOf<P>>,
}

impl<P: Ports> Shard<P> {
    /// A shard over recovered journals; gives the store the partitions of `image` that are this shard's, with their
    /// settings.
    pub fn new(
        now: Now,
        config: ShardConfig,
        mut store: Store<P::Arena>,
        image: Arc<Image>,
        backends: Backends<P>,
        stats: Arc<ShardStats>,
    ) -> Self {
        for topic in image.topics.values() {
            for partition in topic.partitions.iter() {
                set_homes(&mut store, now, config.id, &image, partition, &topic.config);
            }
        }
        // Topics deleted just before the last process ended: metadata knows of it, the journals had not heard.
        for id in store.unnamed_partitions() {
            if id < image.partitions_below || cfg!(fault = "space-of-unknown-freed") {
                store.delete_partition(now, id);
            }
        }
        let hash = SeededHash(config.hash_seed);
        let limits = &config.limits;
        let session_limits = SessionLimits {
            sessions_max: limits.sessions_max,
            partitions_max: limits.session_partitions_max,
            idle_ms_min: limits.session_idle_ms_min,
        };
        Self {
            backends,
            store,
            image,
            stats,
            conns: Conns::new(),
            totals: Totals::default(),
            scheduled: VecDeque::new(),
            gated: core::array::from_fn(|_| VecDeque::new()),
            appends: Appends::new(limits.append_quantum, hash),
            waiting: Waiting::new(hash),
            sessions: Sessions::new(config.id, config.shards, hash, session_limits),
            outbox: Outbox::new(config.shards),
            commands: Vec::new(),
            moves: Vec::new(),
            handovers: Vec::new(),
            commands_open: 0,
            ready: Vec::new(),
            stopping: None,
            drained: 0,
            idle_check_at: now.mono,
            effects: Vec::new(),
            net_events: Vec::new(),
            device_events: Vec::new(),
            append_items: (0..config.shards).map(|_| Vec::new()).collect(),
            pieces: Vec::new(),
            slices: Vec::new(),
            config,
        }
    }

    /// The loop body: takes in what came, answers what can be answered, hands over what must be written.
    pub fn turn(&mut self, now: Now) -> Idle {
        let mut busy = self.poll_network(now);
        busy |= self.poll_devices(now);
        busy |= self.poll_shards(now);
        busy |= self.poll_control(now);
        busy |= self.serve_connections(now);
        busy |= self.serve_appends(now);
        self.store.pump(now, &mut self.backends.arena, &mut self.effects);
        busy |= self.route_effects(now);
        // Acknowledgements first: what is sent is sent in this order, and a crowd of readers waits behind every record.
        busy |= self.settle_appends(now);
        busy |= self.settle_moves(now);
        busy |= self.settle_handovers(now);
        busy |= self.retry_reads(now);
        busy |= self.retry_commands(now);
        busy |= self.route_effects(now);
        busy |= self.outbox.flush(&mut self.backends.neighbours);
        busy |= self.open_gates();
        busy |= self.stop_step(now);
        self.stats.turns.add(1);
        self.stats.turns_busy.add(u64::from(busy));
        Idle { busy: busy || !self.scheduled.is_empty(), until: self.until(now) }
    }

    /// Idle connections, retention, checkpoints, gauges; some times a second.
    pub fn housekeep(&mut self, now: Now) {
        self.store.housekeep(now, &mut self.backends.arena, &mut self.effects);
        self.stats.extents_clustered.add(self.store.clustered_extents() - self.stats.extents_clustered.get());
        self.measure_compaction();
        self.route_effects(now);
        self.close_idle(now);
        self.measure();
        self.measure_memory();
    }

    fn measure_compaction(&self) {
        let (totals, stats) = (self.store.compaction(), &self.stats);
        stats.compaction_runs.set(totals.runs);
        stats.compaction_records_read.set(totals.records_read);
        stats.compaction_records_kept.set(totals.records_kept);
        stats.compaction_bytes_read.set(totals.bytes_read);
        stats.compaction_bytes_kept.set(totals.bytes_kept);
        stats.compaction_last_run_ms.set(totals.last_run_ms);
        stats.compaction_dirty_bytes.set(totals.dirty_bytes);
        stats.compaction_uncleanable.set(totals.uncleanable);
    }

    /// Whether an orderly shutdown is complete; the loop ends.
    pub fn is_stopped(&self) -> bool {
        matches!(self.stopping, Some(Stopping::Stopped))
    }

    /// The backends, to look at.
    pub fn backends(&self) -> &Backends<P> {
        &self.backends
    }

    /// The backends, for the thread that hosts the shard: to sleep on them, to take them apart at the end.
    pub fn backends_mut(&mut self) -> &mut Backends<P> {
        &mut self.backends
    }

    fn poll_network(&mut self, now: Now) -> bool {
        let mut events = core::mem::take(&mut self.net_events);
        self.backends.network.poll(&mut events);
        let any = !events.is_empty();
        for event in events.drain(..) {
            match event {
                NetEvent::Opened { conn, listener, peer } => self.opened(now, conn, listener, peer),
                NetEvent::Readable { conn } => self.schedule(conn),
                NetEvent::Sent { conn, bytes } => self.sent(now, conn, bytes),
                NetEvent::Closed { conn } => self.closed(conn),
            }
        }
        self.net_events = events;
        any
    }

    fn poll_devices(&mut self, now: Now) -> bool {
        let mut events = core::mem::take(&mut self.device_events);
        self.backends.devices.poll(&mut events);
        let any = !events.is_empty();
        for event in events.drain(..) {
            self.store.handle(now, event, &mut self.backends.arena, &mut self.effects);
        }
        self.device_events = events;
        self.route_effects(now);
        any
    }

    /// Gives the waiting batches the room there is.
    fn serve_appends(&mut self, now: Now) -> bool {
        self.appends.serve(now, &mut self.store, &mut self.backends.arena, &self.stats)
    }

    /// Does what the store asks for. Whether it asked for anything.
    pub(crate) fn route_effects(&mut self, now: Now) -> bool {
        if self.effects.is_empty() {
            return false;
        }
        let mut effects = core::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            self.route(now, effect);
        }
        // Nothing above calls the store with effects to give, so this is the vector's memory for the next time.
        self.effects = effects;
        true
    }

    fn route(&mut self, now: Now, effect: Effect) {
        match effect {
            Effect::Advanced { partition } => self.waiting.wake(partition),
            Effect::ReadReady { partition } => {
                self.waiting.wake(partition);
                self.ready.push(partition);
            }
            Effect::Committed { journal, upto } => self.appends.committed(now, journal, upto, &self.stats),
            Effect::Fenced { journal, reason } => self.fenced(journal, reason),
            Effect::Damaged { range } => self.damaged(&range),
            Effect::DeviceFailed { device, reason } => {
                let own = self.config.id;
                for shard in (0..self.config.shards).map(ShardId).filter(|shard| *shard != own) {
                    self.send(shard, Message::DeviceFailed { device, reason: reason.clone() });
                }
                self.backends.devices.submit(Effect::DeviceFailed { device, reason });
            }
            Effect::Write { len, .. } => {
                self.stats.device_writes.add(1);
                self.stats.device_bytes_written.add(len as u64);
                self.backends.devices.submit(effect);
            }
            Effect::Flush { .. } => {
                self.stats.device_flushes.add(1);
                self.backends.devices.submit(effect);
            }
            Effect::Read { len, .. } => {
                self.stats.device_reads.add(1);
                self.stats.device_bytes_read.add(len as u64);
                self.backends.devices.submit(effect);
            }
            Effect::NeedExtent { .. } | Effect::FreeExtent { .. } | Effect::Checkpoint { .. } => {
                self.backends.devices.submit(effect);
            }
        }
    }

    /// When to turn again if nothing happens.
    fn until(&self, now: Now) -> Option<Mono> {
        // Memory and rings are freed by others without a word to this shard: look again after a millisecond.
        let blocked = self.appends.is_queueing()
            || !self.outbox.is_empty()
            || self.gated.iter().any(|queue| !queue.is_empty())
            || self.stopping.is_some();
        let soon = blocked.then(|| now.mono.plus_ms(1));
        [soon, self.waiting.deadline()].into_iter().flatten().min()
    }

    pub(crate) fn send(&mut self, shard: ShardId, message: Message<SliceOf<P>, HeldOf<P>>) {
        self.outbox.send(&mut self.backends.neighbours, shard, message, &self.stats);
    }
}
