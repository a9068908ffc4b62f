//! Shards in one thread over ports of plain memory: a network into which a test pushes bytes, a device that does at once what
//! it is told, rings of a few places.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "tests: a panic is the failure; each test program uses its part"
)]

pub mod kafka;
pub mod ports;

use std::sync::Arc;

use base::image::{
    Delta, Image, JournalClass, JournalEntry, Lifetime, PartitionEntry, Secret, SeededHash, SharedMap, TimestampType,
    TopicConfig, TopicEntry,
};
use base::message::{Outcome, Refusal, ShardCommand, ToControl, ToShard};
use base::stats::ShardStats;
use base::{
    BrokerId, Checksums, ClusterId, ConnId, DeviceIndex, Epoch, JournalId, Mono, Now, PartitionId, ShardId, TopicId,
    WallMs,
};
use journal::Store;
use journal::format::Label;
use journal::store::{ClusterConfig, Durability, StoreConfig, StoreDevice};
use shard::ports::Backends;
use shard::{Limits, Shard, ShardConfig};

use ports::{Device, Fake, Net, Rings, TestArena};

pub const CLUSTER: ClusterId = ClusterId(77);
pub const EXTENT_LEN: u64 = 4 << 20;

/// Knows gzip only, which it takes for bytes whose bits are turned round.
const TOY_CODECS: base::Codecs = base::Codecs {
    inflate: |codec, bytes, _, out| {
        out.extend(bytes.iter().map(|byte| !byte));
        if codec == 1 { Ok(()) } else { Err(base::codecs::InflateError::Damaged) }
    },
    deflate: |_, _, _| false,
};

pub fn topic_config() -> TopicConfig {
    TopicConfig {
        retention_ms: -1,
        retention_bytes: -1,
        compaction: None,
        max_message_bytes: 1 << 20,
        timestamp_type: TimestampType::Create,
        timestamp_before_ms_max: i64::MAX,
        timestamp_after_ms_max: i64::MAX,
        min_insync_replicas: 1,
    }
}

/// How a world is made.
pub struct Plan {
    pub shards: u16,
    pub limits: Limits,
    pub tail_bytes: usize,
    pub ring: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self { shards: 1, limits: Limits::default(), tail_bytes: 16 << 20, ring: 64 }
    }
}

/// Shards of one process, their neighbours and the control plane's end of the rings.
pub struct World {
    pub shards: Vec<Shard<Fake>>,
    pub stats: Vec<Arc<ShardStats>>,
    pub rings: Rings,
    pub now: Now,
    pub image: Image,
    next_conn: u64,
    next_id: u64,
    next_token: u64,
    /// From the shards to the control plane, other than outcomes.
    pub control: Vec<ToControl>,
    outcomes: Vec<(u64, Result<Outcome, Refusal>)>,
}

impl World {
    pub fn new() -> Self {
        Self::with(Plan::default())
    }

    pub fn with(plan: Plan) -> Self {
        let now = Now { mono: Mono(1_000_000_000), wall: WallMs(1_700_000_000_000) };
        let hash = SeededHash(3);
        let image = Image {
            generation: 1,
            cluster: CLUSTER,
            broker: BrokerId(1),
            listeners: Arc::new([]),
            topics: SharedMap::new(hash),
            topics_by_id: SharedMap::new(hash),
            journals: SharedMap::new(hash),
            homes: SharedMap::new(hash),
            partitions_below: PartitionId(0),
        };
        let rings = Rings::new(plan.shards, plan.ring);
        let mut world = Self {
            shards: Vec::new(),
            stats: Vec::new(),
            rings: rings.clone(),
            now,
            image: image.clone(),
            next_conn: 0,
            next_id: 0,
            next_token: 0,
            control: Vec::new(),
            outcomes: Vec::new(),
        };
        for id in 0..plan.shards {
            let label = Label {
                cluster: CLUSTER,
                broker: BrokerId(1),
                device: u128::from(id) + 1,
                extent_len: EXTENT_LEN,
                state_offset: Label::STATE_AT,
                state_pairs: 8,
                extents_offset: 1 << 20,
            };
            let config = StoreConfig {
                cluster: CLUSTER,
                broker: BrokerId(1),
                incarnation: 5,
                sums: Checksums::portable(),
                hash_seed: 5,
                unit_bytes: 256 << 10,
                writes_in_flight: 4,
                bytes_in_flight: 1 << 20,
                checkpoint_bytes: 64 << 20,
                footer_cache_bytes: 64 << 10,
                clustering: ClusterConfig { gather_bytes: 1 << 20, bytes_per_second: 1 << 30, rest_ms: 0 },
                compaction_bytes: 64 << 10,
                codecs: TOY_CODECS,
                producers_per_partition_max: 16,
                producer_expiry_ms: 86_400_000,
                durability: vec![Durability::Flush],
            };
            let store = Store::new(config, vec![StoreDevice { label, free_pairs: (0..8).rev().collect() }]);
            let backends = Backends {
                arena: TestArena::new(plan.tail_bytes, 8 << 20),
                network: Net::default(),
                devices: Device::new(1 << 20, EXTENT_LEN),
                neighbours: rings.of(ShardId(id)),
                log: Fake::default(),
            };
            let config =
                ShardConfig { id: ShardId(id), shards: plan.shards, hash_seed: 11, limits: plan.limits.clone() };
            let stats = Arc::new(ShardStats::default());
            world.stats.push(stats.clone());
            world.shards.push(Shard::new(now, config, store, Arc::new(image.clone()), backends, stats));
        }
        world.open_journals();
        world
    }

    /// One journal on each shard.
    fn open_journals(&mut self) {
        let mut delta = Delta::default();
        for id in 0..self.shards.len() as u64 {
            let entry = Arc::new(JournalEntry {
                id: JournalId(id + 1),
                class: JournalClass { replicas: 1, compacted: false, lifetime: Lifetime::Medium, internal: false },
                device: DeviceIndex(0),
                shard: ShardId(id as u16),
                epoch: Epoch(5),
                secret: Secret([id as u8; 16]),
            });
            self.image.journals.insert(entry.id, entry.clone());
            delta.journals.push(entry);
        }
        self.apply(delta);
    }

    pub fn apply(&mut self, delta: Delta) {
        self.image.generation += 1;
        let (image, delta) = (Arc::new(self.image.clone()), Arc::new(delta));
        for shard in 0..self.shards.len() {
            self.next_token += 1;
            let token = self.next_token;
            self.rings.to_shard(shard, ToShard::Apply { token, image: image.clone(), delta: delta.clone() });
        }
        self.run();
        for token in self.next_token - self.shards.len() as u64 + 1..=self.next_token {
            assert!(matches!(self.outcome(token), Some(Ok(Outcome::Applied))));
        }
    }

    /// A topic whose partitions lie on the shards in turn.
    pub fn create_topic(&mut self, name: &str, partitions: usize) -> TopicId {
        self.create_topic_with(name, partitions, topic_config(), false)
    }

    pub fn create_topic_with(&mut self, name: &str, partitions: usize, config: TopicConfig, internal: bool) -> TopicId {
        let shards = self.shards.len();
        let entries = (0..partitions).map(|at| {
            self.next_id += 1;
            let shard = at % shards;
            PartitionEntry {
                id: PartitionId(self.next_id),
                journal: JournalId(shard as u64 + 1),
                shard: ShardId(shard as u16),
                epoch: Epoch(5),
            }
        });
        let partitions: Arc<[PartitionEntry]> = entries.collect();
        let entry = Arc::new(TopicEntry {
            id: TopicId(u128::from(self.next_id) + (9 << 64)),
            name: name.into(),
            internal,
            config: Arc::new(config),
            partitions,
        });
        self.image.partitions_below = PartitionId(self.next_id + 1);
        self.image.topics.insert(entry.name.clone(), entry.clone());
        self.image.topics_by_id.insert(entry.id, entry.clone());
        let id = entry.id;
        self.apply(Delta { topics: vec![entry], ..Delta::default() });
        id
    }

    pub fn delete_topic(&mut self, name: &str) {
        let entry = self.image.topics.remove(name).unwrap();
        self.image.topics_by_id.remove(&entry.id);
        let deleted = entry.partitions.iter().map(|partition| partition.id).collect();
        self.apply(Delta { deleted, ..Delta::default() });
    }

    pub fn partition_id(&self, topic: &str, partition: usize) -> PartitionId {
        self.image.topics.get(topic).unwrap().partitions[partition].id
    }

    /// Turns every shard once; devices do what they were asked.
    pub fn turn(&mut self) -> bool {
        let mut busy = false;
        for shard in &mut self.shards {
            busy |= shard.turn(self.now).busy;
            let Backends { arena, devices, .. } = shard.backends_mut();
            busy |= devices.perform(arena);
        }
        while let Some(message) = self.rings.next_from_shards() {
            busy = true;
            match message {
                ToControl::Done { token, outcome } => self.outcomes.push((token, outcome)),
                other => self.control.push(other),
            }
        }
        busy
    }

    /// The devices do what they were asked.
    pub fn settle_devices(&mut self) {
        for shard in &mut self.shards {
            let Backends { arena, devices, .. } = shard.backends_mut();
            devices.perform(arena);
        }
    }

    /// Turns until nothing happens any more.
    pub fn run(&mut self) {
        for _ in 0..10_000 {
            if !self.turn() {
                return;
            }
        }
        panic!("the shards never come to rest");
    }

    pub fn advance_ms(&mut self, ms: u64) {
        self.now.mono = self.now.mono.plus_ms(ms);
        self.now.wall.0 += ms as i64;
    }

    pub fn connect(&mut self, shard: usize) -> Client {
        let id = ConnId(self.next_conn | 7 << 32);
        self.next_conn += 1;
        self.net(shard).open(id);
        self.run();
        Client { shard, id, correlation: 0 }
    }

    pub fn net(&mut self, shard: usize) -> &mut Net {
        &mut self.shards[shard].backends_mut().network
    }

    pub fn device(&mut self, shard: usize) -> &mut Device {
        &mut self.shards[shard].backends_mut().devices
    }

    /// Gives a command to a shard.
    pub fn command(&mut self, shard: usize, command: ShardCommand) -> u64 {
        self.next_token += 1;
        let token = self.next_token;
        self.rings.to_shard(shard, ToShard::Command { token, command });
        token
    }

    pub fn outcome(&mut self, token: u64) -> Option<Result<Outcome, Refusal>> {
        let at = self.outcomes.iter().position(|(known, _)| *known == token)?;
        Some(self.outcomes.swap_remove(at).1)
    }
}

/// A client's end of a connection.
pub struct Client {
    pub shard: usize,
    pub id: ConnId,
    pub correlation: i32,
}

impl Client {
    pub fn push(&self, world: &mut World, bytes: &[u8]) {
        world.net(self.shard).push(self.id, bytes);
    }

    /// A whole response that has arrived, without its length.
    pub fn pop(&self, world: &mut World) -> Option<Vec<u8>> {
        world.net(self.shard).pop(self.id)
    }

    pub fn is_closed(&self, world: &mut World) -> bool {
        world.net(self.shard).is_closed(self.id)
    }
}
