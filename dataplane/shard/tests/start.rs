//! What a shard does with what its journals were found to hold.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

mod world;

use std::sync::Arc;

use base::image::{
    Delta, Image, JournalClass, JournalEntry, Lifetime, PartitionEntry, Secret, SeededHash, SharedMap, TopicEntry,
};
use base::message::{Outcome, ShardCommand, ToControl, ToShard};
use base::{
    BrokerId, Checksums, ClusterId, DeviceIndex, Epoch, JournalId, Mono, Now, PartitionId, ShardId, TopicId, WallMs,
};
use journal::Store;
use journal::device::Device;
use journal::recovery::OpenDevice;
use journal::storage::{Storage, StorageError};
use journal::store::{ClusterConfig, Durability, Effect, Event, ExtentAddress, StoreConfig, StoreDevice};
use protocol::batch::BatchView;
use shard::ports::Backends;
use shard::{Limits, Shard, ShardConfig};
use world::kafka::batch_of;
use world::ports::{Device as FakeDevice, Fake, Net, Rings, TestArena};
use world::topic_config;

const CLUSTER: ClusterId = ClusterId(7);
const EXTENT: u64 = 1 << 20;
const NOW: Now = Now { mono: Mono(1), wall: WallMs(1_700_000_000_000) };

/// A device in memory that does at once what it is told.
struct Memory(Vec<u8>);

impl Storage for Memory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn grow(&mut self, len: u64) -> Result<(), StorageError> {
        self.0.resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let at = usize::try_from(offset).unwrap();
        into.copy_from_slice(&self.0[at..at + into.len()]);
        Ok(())
    }

    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), StorageError> {
        let at = usize::try_from(offset).unwrap();
        self.0[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
}

fn config() -> StoreConfig {
    StoreConfig {
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
        compaction_bytes: 64 << 10,
        codecs: base::Codecs::none(),
        producers_per_partition_max: 16,
        producer_expiry_ms: 86_400_000,
        durability: vec![Durability::Flush],
        clustering: ClusterConfig { gather_bytes: 1 << 20, bytes_per_second: 1 << 30, rest_ms: 0 },
    }
}

fn journal(epoch: i32) -> JournalEntry {
    JournalEntry {
        id: JournalId(1),
        class: JournalClass { replicas: 1, compacted: false, lifetime: Lifetime::Medium, internal: false },
        device: DeviceIndex(0),
        shard: ShardId(0),
        epoch: Epoch(epoch),
        secret: Secret([3; 16]),
    }
}

/// Does all that a store asks for.
fn settle(store: &mut Store<TestArena>, arena: &mut TestArena, memory: &mut Memory) {
    loop {
        let mut out = Vec::new();
        store.pump(NOW, arena, &mut out);
        if out.is_empty() {
            return;
        }
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                let event = match effect {
                    Effect::Write { token, offset, arena_start, len, .. } => {
                        memory.write(offset, arena.at(arena_start, len)).unwrap();
                        Event::Written { token, result: Ok(()) }
                    }
                    Effect::Flush { token, .. } => Event::Flushed { token, result: Ok(()) },
                    Effect::NeedExtent { device, .. } => {
                        let offset = memory.len();
                        memory.grow(offset + EXTENT).unwrap();
                        let generation = offset / EXTENT;
                        Event::Extent {
                            device,
                            extent: Some(ExtentAddress { device, offset, len: EXTENT, generation }),
                        }
                    }
                    _ => continue,
                };
                store.handle(NOW, event, arena, &mut out);
            }
        }
    }
}

/// A store that found partitions 1 to 5 with a record each, and nobody has named one of them.
fn recovered() -> Store<TestArena> {
    let label = Device::layout(CLUSTER, BrokerId(1), 9, EXTENT, 4);
    let mut memory = Memory(Vec::new());
    Device::create(&mut memory, label, &Checksums::portable()).unwrap();
    let mut arena = TestArena::new(8 << 20, 4 << 20);
    let mut store: Store<TestArena> = Store::new(config(), vec![StoreDevice { label, free_pairs: vec![0] }]);
    let mut out = Vec::new();
    store.create_journal(NOW, &journal(1), &mut out);
    assert!(matches!(out[..], [Effect::NeedExtent { .. }]));
    // Asked for again when it is pumped.
    let extent = ExtentAddress { device: DeviceIndex(0), offset: label.extents_offset, len: EXTENT, generation: 1 };
    store.handle(NOW, Event::Extent { device: DeviceIndex(0), extent: Some(extent) }, &mut arena, &mut out);
    settle(&mut store, &mut arena, &mut memory);
    for id in 1..=5 {
        store.set_partition(NOW, PartitionId(id), JournalId(1), Arc::new(topic_config()));
        store.append(NOW, PartitionId(id), &BatchView::check(&batch_of(1, "x")).unwrap(), &mut arena).unwrap();
    }
    settle(&mut store, &mut arena, &mut memory);
    let mut device = Device::open(&mut memory, CLUSTER, BrokerId(1), &Checksums::portable()).unwrap();
    let found = device.scan(&mut memory).unwrap();
    let mut open = [OpenDevice { storage: &mut memory, device: &mut device, found: &found }];
    let (store, report) = Store::open(config(), &[journal(2)], &mut open, |_| None).unwrap();
    assert_eq!(report.journals[0].closed, None);
    let mut unnamed = store.unnamed_partitions();
    unnamed.sort_unstable();
    assert_eq!(unnamed, (1..=5).map(PartitionId).collect::<Vec<_>>());
    store
}

fn topic(name: &str, ids: &[u64]) -> Arc<TopicEntry> {
    let entry =
        |id: &u64| PartitionEntry { id: PartitionId(*id), journal: JournalId(1), shard: ShardId(0), epoch: Epoch(2) };
    Arc::new(TopicEntry {
        id: TopicId(u128::from(ids[0])),
        name: name.into(),
        internal: false,
        config: Arc::new(topic_config()),
        partitions: ids.iter().map(entry).collect(),
    })
}

#[test]
fn partitions_that_metadata_knows_as_deleted_are_deleted_and_ids_it_does_not_know_are_kept() {
    let hash = SeededHash(3);
    let mut image = Image {
        generation: 1,
        cluster: CLUSTER,
        broker: BrokerId(1),
        listeners: Arc::new([]),
        topics: SharedMap::new(hash),
        topics_by_id: SharedMap::new(hash),
        journals: SharedMap::new(hash),
        homes: SharedMap::new(hash),
        // 1 to 3 were given out; of those a topic has only 1.
        partitions_below: PartitionId(4),
    };
    let named = topic("named", &[1]);
    image.topics.insert(named.name.clone(), named.clone());
    let rings = Rings::new(1, 64);
    let backends = Backends {
        arena: TestArena::new(8 << 20, 4 << 20),
        network: Net::default(),
        devices: FakeDevice::new(1 << 30, EXTENT),
        neighbours: rings.of(ShardId(0)),
        log: Fake::default(),
    };
    let config = ShardConfig { id: ShardId(0), shards: 1, hash_seed: 11, limits: Limits::default() };
    let mut shard = Shard::new(NOW, config, recovered(), Arc::new(image.clone()), backends, Arc::default());
    // Named later, an id shows whether what it had was kept.
    let later = topic("later", &[2, 3, 4, 5]);
    image.topics.insert(later.name.clone(), later.clone());
    let delta = Arc::new(Delta { topics: vec![later], ..Delta::default() });
    rings.to_shard(0, ToShard::Apply { token: 100, image: Arc::new(image), delta });
    for id in 1..=5 {
        let command = ShardCommand::Bounds { partition: PartitionId(id) };
        rings.to_shard(0, ToShard::Command { token: id, command });
    }
    for _ in 0..10 {
        shard.turn(NOW);
    }
    let mut ends = Vec::new();
    while let Some(message) = rings.next_from_shards() {
        if let ToControl::Done { token, outcome: Ok(Outcome::Bounds(bounds)) } = message {
            ends.push((token, bounds.log_end.0));
        }
    }
    assert_eq!(ends, [(1, 1), (2, 0), (3, 0), (4, 1), (5, 1)]);
}
