//! A tiny world for the tests of this crate: memory for an arena, a device that does what it is told when it is told.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "tests")]

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use base::codecs::InflateError;
use base::image::{JournalClass, JournalEntry, Lifetime, Secret, TimestampType, TopicConfig};
use base::memory::{Arena, Block, Purpose};
use base::{
    BrokerId, Checksums, ClusterId, Codecs, DeviceIndex, Epoch, JournalId, Mono, Now, Offset, PartitionId, Position,
    ShardId, WallMs,
};
use protocol::batch::{BatchBuilder, BatchView, Producer};

use crate::device::{Claim, Device};
use crate::pool::{Filled, Initial, Pool, PoolConfig, Wanted};
use crate::recovery::{JournalReport, OpenDevice, RecoveryError, highest_epoch, pool_start, share_pairs};
use crate::storage::{Storage, StorageError};
use crate::store::{AppendError, Appended, Durability, Effect, Event, ReadOutcome, Store, StoreConfig, StoreDevice};

pub(crate) const SUMS: Checksums = Checksums::portable();
pub(crate) const CLUSTER: ClusterId = ClusterId(77);

/// Memory that checks what the contract asks: nothing is written below the frozen mark.
pub(crate) struct TestArena {
    memory: Vec<u8>,
    /// By block start: length and frozen mark.
    blocks: Vec<(usize, usize, usize)>,
    budget: [usize; 2],
    whole: [usize; 2],
}

impl TestArena {
    pub(crate) fn new(tail: usize, cold: usize) -> Self {
        let whole = [tail, cold];
        Self { memory: vec![0xaa; (tail + cold) * 2], blocks: Vec::new(), budget: whole, whole }
    }

    /// As new, once nobody has a block any more.
    fn clear(&mut self) {
        self.blocks.clear();
        self.budget = self.whole;
    }

    const fn index(purpose: Purpose) -> usize {
        match purpose {
            Purpose::Tail => 0,
            Purpose::Cold => 1,
        }
    }

    pub(crate) fn at(&self, start: usize, len: usize) -> &[u8] {
        &self.memory[start..start + len]
    }

    pub(crate) fn fill(&mut self, start: usize, from: &[u8]) {
        self.memory[start..start + from.len()].copy_from_slice(from);
    }
}

impl Arena for TestArena {
    type Slice = Arc<[u8]>;

    fn alloc(&mut self, len: usize, purpose: Purpose) -> Option<Block> {
        let len = len.next_multiple_of(4096);
        if self.budget[Self::index(purpose)] < len {
            return None;
        }
        self.blocks.sort_unstable();
        let mut start = 0;
        for &(at, used, _) in &self.blocks {
            if at - start >= len {
                break;
            }
            start = at + used;
        }
        if start + len > self.memory.len() {
            return None;
        }
        self.budget[Self::index(purpose)] -= len;
        self.memory[start..start + len].fill(0xaa);
        self.blocks.push((start, len, 0));
        Some(Block { start, len, purpose })
    }

    fn free(&mut self, block: Block) {
        let at = self.blocks.iter().position(|known| known.0 == block.start).unwrap();
        self.blocks.swap_remove(at);
        self.budget[Self::index(block.purpose)] += block.len;
    }

    fn bytes(&self, block: &Block, range: Range<usize>) -> &[u8] {
        &self.memory[block.start..block.start + block.len][range]
    }

    fn bytes_mut(&mut self, block: &Block, range: Range<usize>) -> &mut [u8] {
        let frozen = self.blocks.iter().find(|known| known.0 == block.start).unwrap().2;
        assert!(range.start >= frozen, "frozen up to {frozen}, written at {}", range.start);
        &mut self.memory[block.start..block.start + block.len][range]
    }

    fn freeze(&mut self, block: &Block, upto: usize) {
        let known = self.blocks.iter_mut().find(|known| known.0 == block.start).unwrap();
        assert!(upto >= known.2 && upto <= known.1);
        known.2 = upto;
    }

    fn slice(&self, block: &Block, range: Range<usize>) -> Arc<[u8]> {
        let frozen = self.blocks.iter().find(|known| known.0 == block.start).unwrap().2;
        assert!(range.end <= frozen);
        self.bytes(block, range).into()
    }

    fn available(&self, purpose: Purpose) -> usize {
        self.budget[Self::index(purpose)]
    }

    fn pinned(&self) -> usize {
        0
    }
}

/// A device in memory. Reads at an address in `bad` fail.
#[derive(Clone, Default)]
pub(crate) struct TestDevice {
    pub(crate) bytes: Vec<u8>,
    pub(crate) bad: Option<u64>,
    pub(crate) read: u64,
}

impl Storage for TestDevice {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn grow(&mut self, len: u64) -> Result<(), StorageError> {
        self.bytes.resize(len as usize, 0);
        Ok(())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        if self.bad.is_some_and(|bad| offset <= bad && bad < offset + into.len() as u64) {
            return Err(StorageError::Io("planted".into()));
        }
        self.read += into.len() as u64;
        into.copy_from_slice(&self.bytes[offset as usize..offset as usize + into.len()]);
        Ok(())
    }

    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), StorageError> {
        self.bytes[offset as usize..offset as usize + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
}

/// A partition's id, its homes with their first offsets, and where it is about to move.
pub(crate) type Moved = (u64, Vec<(u64, i64)>, Option<u64>);

/// One shard's store with its device, pool and clock.
pub(crate) struct World {
    pub(crate) store: Store<TestArena>,
    pub(crate) arena: TestArena,
    pub(crate) device: TestDevice,
    pub(crate) pool: Pool,
    pub(crate) now: Now,
    /// What the store asked for and nobody has done yet.
    pub(crate) asked: Vec<Effect>,
    /// What it told.
    pub(crate) told: Vec<Effect>,
    /// The journals' checkpoint files.
    pub(crate) checkpoints: Vec<(JournalId, Vec<u8>)>,
    pub(crate) epoch: i32,
    pub(crate) freed: Vec<u64>,
    /// Settings of its partitions.
    pub(crate) topic: TopicConfig,
    /// Its journals.
    pub(crate) journals: Vec<u64>,
    /// What metadata says of partitions that moved or are about to: homes, and where to.
    pub(crate) homes: Vec<Moved>,
    /// Most extents of the device, and how many of them are held back.
    extents: (u64, usize),
}

pub(crate) fn entry(id: u64, epoch: i32) -> JournalEntry {
    JournalEntry {
        id: JournalId(id),
        class: JournalClass { replicas: 1, compacted: false, lifetime: Lifetime::Medium, internal: false },
        device: DeviceIndex(0),
        shard: ShardId(0),
        epoch: Epoch(epoch),
        secret: Secret([id as u8; 16]),
    }
}

pub(crate) fn topic() -> TopicConfig {
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

pub(crate) fn config(incarnation: u128) -> StoreConfig {
    StoreConfig {
        cluster: CLUSTER,
        broker: BrokerId(1),
        incarnation,
        sums: SUMS,
        hash_seed: 5,
        unit_bytes: 64 << 10,
        writes_in_flight: 4,
        bytes_in_flight: 1 << 20,
        checkpoint_bytes: 256 << 10,
        footer_cache_bytes: 64 << 10,
        clustering: crate::store::ClusterConfig { gather_bytes: 64 << 10, bytes_per_second: 1 << 40, rest_ms: 5000 },
        compaction_bytes: 64 << 10,
        codecs: TOY_CODECS,
        producers_per_partition_max: 16,
        producer_expiry_ms: 86_400_000,
        durability: vec![Durability::Flush],
    }
}

/// Codec 1 turns bits round. Codec 2 does so, too, and what it makes anew is a hundred bytes longer each time.
pub(crate) const TOY_CODECS: Codecs = Codecs { inflate: toy_inflate, deflate: toy_deflate };

fn toy_inflate(codec: i16, bytes: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), InflateError> {
    let end = if codec == 2 {
        bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0xff).count()
    } else {
        bytes.len()
    };
    if !(1..=2).contains(&codec) {
        return Err(InflateError::Damaged);
    }
    if end > limit {
        return Err(InflateError::Limit);
    }
    out.extend(bytes[..end].iter().map(|byte| !byte));
    Ok(())
}

fn toy_deflate(codec: i16, bytes: &[u8], out: &mut Vec<u8>) -> bool {
    out.extend(bytes.iter().map(|byte| !byte));
    if codec == 2 {
        out.extend([0xff; 4000]);
    }
    (1..=2).contains(&codec)
}

pub(crate) fn pool_config(device: &Device, (extents_max, reserve): (u64, usize)) -> PoolConfig {
    PoolConfig {
        device: DeviceIndex(0),
        extents_offset: device.label.extents_offset,
        extent_len: device.label.extent_len,
        extents_max,
        ahead: 2,
        reserve,
        resume: 0,
    }
}

impl World {
    /// A fresh device with room for 64 extents of that length, and journal 1 with partitions 1 to 3.
    pub(crate) fn new(extent_len: u64) -> Self {
        Self::with(extent_len, topic())
    }

    /// The same, with other settings.
    pub(crate) fn with(extent_len: u64, topic: TopicConfig) -> Self {
        Self::with_extents(extent_len, topic, (64, 1))
    }

    /// The same with so many extents at most, of which so many are held back.
    pub(crate) fn with_extents(extent_len: u64, topic: TopicConfig, extents: (u64, usize)) -> Self {
        let mut device = TestDevice::default();
        let label = Device::layout(CLUSTER, BrokerId(1), 99, extent_len, 8);
        let made = Device::create(&mut device, label, &SUMS).unwrap();
        let found = made.scan(&mut device).unwrap();
        let initial = found.iter().map(|found| match found.claim {
            Claim::Blank => Initial::Blank,
            _ => Initial::Recycled,
        });
        let pool = Pool::new(pool_config(&made, extents), initial, 0);
        let devices = vec![StoreDevice { label, free_pairs: (0..8).rev().collect() }];
        let mut world = Self {
            store: Store::new(config(1), devices),
            arena: TestArena::new(16 << 20, 8 << 20),
            device,
            pool,
            now: Now { mono: Mono(1), wall: WallMs(1_000_000) },
            asked: Vec::new(),
            told: Vec::new(),
            checkpoints: Vec::new(),
            epoch: 1,
            freed: Vec::new(),
            topic,
            journals: vec![1],
            homes: Vec::new(),
            extents,
        };
        let mut out = Vec::new();
        world.store.create_journal(world.now, &entry(1, 1), &mut out);
        world.take(out);
        world.name_partitions(world.topic.clone());
        world.settle();
        world
    }

    /// Kills the process and starts it anew in the next epoch: what was written is there, what flew is not.
    pub(crate) fn restart(&mut self) -> JournalReport {
        self.restart_with(true).unwrap()
    }

    pub(crate) fn restart_with(&mut self, checkpoints: bool) -> Result<JournalReport, RecoveryError> {
        self.asked.clear();
        self.told.clear();
        self.epoch += 1;
        let mut device = Device::open(&mut self.device, CLUSTER, BrokerId(1), &SUMS)?;
        device.heal_states(&mut self.device)?;
        let found = device.scan(&mut self.device)?;
        assert!(highest_epoch(&device, &found).0 < self.epoch);
        let mut open = [OpenDevice { storage: &mut self.device, device: &mut device, found: &found }];
        let files = &self.checkpoints;
        let file =
            |id| files.iter().find(|(known, _)| *known == id).filter(|_| checkpoints).map(|(_, file)| file.clone());
        let config = config(self.epoch as u128);
        let entries: Vec<JournalEntry> = self.journals.iter().map(|id| entry(*id, self.epoch)).collect();
        let (mut store, report) = Store::open(config, &entries, &mut open, file)?;
        store.set_free_pairs(DeviceIndex(0), share_pairs(&device, 1).remove(0));
        let (initial, generation) = pool_start(&found, DeviceIndex(0), &[&report]);
        self.pool = Pool::new(pool_config(&device, self.extents), initial, generation);
        self.store = store;
        if self.pool.reserve_is_broken() {
            self.store.hold_back(DeviceIndex(0));
        }
        self.arena.clear();
        self.now.mono = Mono(self.now.mono.0 + 1_000_000);
        self.name_partitions(self.topic.clone());
        Ok(report.journals.into_iter().next().unwrap())
    }

    pub(crate) fn name_partitions(&mut self, config: TopicConfig) {
        let config = Arc::new(config);
        for id in 1..=3 {
            let moved = self.homes.iter().find(|(known, ..)| *known == id);
            let (homes, moving) = moved.map_or((vec![(1, 0)], None), |(_, homes, moving)| (homes.clone(), *moving));
            let homes: Vec<_> = homes.iter().map(|(journal, first)| (JournalId(*journal), Offset(*first))).collect();
            self.store.set_homes(self.now, PartitionId(id), &homes, moving.map(JournalId), &config);
        }
    }

    /// Sorts effects into what is to be done and what is told.
    pub(crate) fn take(&mut self, out: Vec<Effect>) {
        for effect in out {
            match effect {
                Effect::Advanced { .. }
                | Effect::Committed { .. }
                | Effect::ReadReady { .. }
                | Effect::Fenced { .. }
                | Effect::Damaged { .. }
                | Effect::DeviceFailed { .. } => self.told.push(effect),
                other => self.asked.push(other),
            }
        }
    }

    pub(crate) fn pump(&mut self) {
        let mut out = Vec::new();
        self.store.pump(self.now, &mut self.arena, &mut out);
        self.take(out);
    }

    pub(crate) fn housekeep(&mut self) {
        let mut out = Vec::new();
        self.store.housekeep(self.now, &mut self.arena, &mut out);
        self.take(out);
    }

    pub(crate) fn tell(&mut self, event: Event) {
        let mut out = Vec::new();
        self.store.handle(self.now, event, &mut self.arena, &mut out);
        self.take(out);
    }

    /// Does one thing that was asked for.
    pub(crate) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Write { token, offset, arena_start, len, .. } => {
                let bytes = self.arena.at(arena_start, len).to_vec();
                self.device.write(offset, &bytes).unwrap();
                self.tell(Event::Written { token, result: Ok(()) });
            }
            Effect::Flush { token, .. } => self.tell(Event::Flushed { token, result: Ok(()) }),
            Effect::Read { token, offset, block, len, .. } => {
                let mut bytes = vec![0; len];
                let result = self.device.read(offset, &mut bytes).map_err(|_| "planted".into());
                self.arena.fill(block.start, &bytes);
                self.tell(Event::Read { token, block, result });
            }
            Effect::NeedExtent { device, wish, .. } => {
                while let Some(work) = self.pool.work() {
                    if let Some(len) = work.grow {
                        self.device.grow(len).unwrap();
                    }
                    self.pool.done(Filled::Done);
                }
                let extent = match self.pool.want(wish) {
                    Wanted::Extent(extent) => Some(extent),
                    Wanted::Full => None,
                    Wanted::Later => unreachable!("all is filled above"),
                };
                self.tell(Event::Extent { device, extent });
            }
            Effect::FreeExtent { extent } => {
                self.freed.push(extent.offset);
                self.pool.give_back(extent);
            }
            Effect::Checkpoint { journal, bytes, replace } => {
                let at = match self.checkpoints.iter().position(|(known, _)| *known == journal) {
                    Some(at) => at,
                    None => {
                        self.checkpoints.push((journal, Vec::new()));
                        self.checkpoints.len() - 1
                    }
                };
                if replace {
                    self.checkpoints[at].1.clear();
                }
                self.checkpoints[at].1.extend_from_slice(&bytes);
                self.tell(Event::CheckpointDone { journal, result: Ok(()) });
            }
            told => self.told.push(told),
        }
    }

    /// Pumps and performs until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        loop {
            self.pump();
            if self.asked.is_empty() {
                return;
            }
            for effect in core::mem::take(&mut self.asked) {
                self.perform(effect);
            }
        }
    }

    pub(crate) fn append(&mut self, id: u64, bytes: &[u8]) -> Result<Appended, AppendError> {
        let view = BatchView::check(bytes).unwrap();
        self.store.append(self.now, PartitionId(id), &view, &mut self.arena)
    }

    /// Appends, settling where the store asks to come again.
    pub(crate) fn put(&mut self, id: u64, bytes: &[u8]) -> Appended {
        for _ in 0..10 {
            match self.append(id, bytes) {
                Ok(appended) => return appended,
                Err(AppendError::Busy) => self.settle(),
                Err(other) => panic!("{other:?}"),
            }
        }
        panic!("busy for ever")
    }

    /// Reads until the store has an answer: outcome and the bytes of whole batches.
    pub(crate) fn read(&mut self, id: u64, from: i64, bytes_max: usize) -> (ReadOutcome, Vec<Arc<[u8]>>) {
        for _ in 0..1000 {
            let mut slices = Vec::new();
            let mut out = Vec::new();
            let outcome = self.store.read(
                self.now,
                PartitionId(id),
                Offset(from),
                bytes_max,
                true,
                &mut self.arena,
                &mut slices,
                &mut out,
            );
            self.take(out);
            if outcome != ReadOutcome::Pending {
                return (outcome, slices);
            }
            let work = core::mem::take(&mut self.asked);
            assert!(!work.is_empty(), "pending on nothing");
            for effect in work {
                self.perform(effect);
            }
        }
        panic!("pending for ever")
    }

    /// All committed batches of a partition from an offset on: (base offset, bytes).
    pub(crate) fn drain(&mut self, id: u64, mut from: i64) -> Vec<(i64, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            let (outcome, slices) = self.read(id, from, 100_000);
            match outcome {
                ReadOutcome::Data { .. } => {
                    for slice in slices {
                        let (view, rest) = BatchView::first(&slice).unwrap();
                        assert!(rest.is_empty());
                        view.verify_crc(&SUMS).unwrap();
                        from = view.last_offset() + 1;
                        all.push((view.base_offset(), slice.to_vec()));
                    }
                }
                ReadOutcome::Empty => return all,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Overwrites the extents that were freed, as their next user would.
    pub(crate) fn use_freed_again(&mut self) {
        let len = self.store.devices[0].label.extent_len as usize;
        for offset in core::mem::take(&mut self.freed) {
            self.device.bytes[offset as usize..offset as usize + len].fill(0x77);
        }
    }

    pub(crate) fn commit(&self) -> Position {
        self.store.commit_position(JournalId(1)).unwrap()
    }

    pub(crate) fn high_watermark(&self, id: u64) -> i64 {
        self.store.bounds(PartitionId(id)).unwrap().high_watermark.0
    }
}

/// A batch of `count` records whose values are `size` bytes of `fill`.
pub(crate) fn batch(count: usize, size: usize, fill: u8) -> Vec<u8> {
    batch_at(count, size, fill, 1_000_000)
}

pub(crate) fn batch_at(count: usize, size: usize, fill: u8, timestamp: i64) -> Vec<u8> {
    batch_by(count, size, fill, timestamp, Producer::NONE)
}

pub(crate) fn batch_by(count: usize, size: usize, fill: u8, timestamp: i64, producer: Producer) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for _ in 0..count {
        builder.append(timestamp, None, Some(&vec![fill; size]), &[]);
    }
    builder.finish(producer, &SUMS).to_vec()
}

pub(crate) fn idempotent(id: i64, epoch: i16, sequence: i32) -> Producer {
    Producer { id, epoch, sequence, transactional: false }
}
