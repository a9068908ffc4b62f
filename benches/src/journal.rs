//! The journal by itself on a device of its own: no sockets, no requests, the shipped store and the shipped device backend, turned by
//! one thread. Beside what the device does raw it says what the journal's own work costs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use base::image::{JournalClass, JournalEntry, Lifetime, Secret, TimestampType, TopicConfig};
use base::{BrokerId, ClusterId, DeviceIndex, Epoch, JournalId, PartitionId, Position, ShardId};
use dataplane::arena::{Arena, ArenaConfig};
use dataplane::device::{BlockingStorage, DeviceFile, DeviceKind, Flushes, RingDevices};
use dataplane::keeper::{KeeperEnd, keeper_links};
use dataplane::ring::Ring;
use dataplane::rings::{Doze, doze};
use dataplane::thread;
use journal::Store;
use journal::device::Device;
use journal::format::Label;
use journal::storage::Storage as _;
use journal::store::{AppendError, ClusterConfig, Durability, Effect, Event, ExtentAddress, StoreConfig, StoreDevice};
use protocol::batch::BatchView;
use shard::ports::Devices as _;

/// As the `laptop` profile has it.
pub(crate) const EXTENT: u64 = 64 << 20;
const UNIT: u32 = 256 << 10;
const WRITES: u32 = 4;
const FLYING: u32 = 1 << 20;

const ONE: PartitionId = PartitionId(1);
pub(crate) const JOURNAL: JournalId = JournalId(1);

/// One journal with one partition on a file whose extents were all written before, as recycled ones are.
pub struct Bare {
    store: Store<Arena>,
    arena: Arena,
    devices: RingDevices,
    ring: Ring,
    effects: Vec<Effect>,
    events: Vec<Event>,
    free: Vec<ExtentAddress>,
    /// Units handed to the device.
    units: u64,
    committed: Position,
    failed: Option<String>,
    _keeper: (Vec<KeeperEnd>, Doze),
}

impl Bare {
    /// In `folder`, with room for `bytes` of records.
    pub fn create(folder: &Path, bytes: u64) -> Result<Self> {
        let path = folder.join("journal.device");
        let file = DeviceFile::open(&path, DeviceKind::File)?;
        let mut storage = BlockingStorage::new(file.clone());
        let sums = dataplane::checksums::fast();
        let label = label();
        Device::create(&mut storage, label, &sums).map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let extents = bytes / EXTENT + 3;
        let len = label.extents_offset + extents * EXTENT;
        let grown = storage.grow(len).and_then(|()| {
            storage.write_zeros(label.extents_offset, extents * EXTENT)?;
            storage.flush()
        });
        grown.map_err(|error| anyhow::anyhow!("{error:?}"))?;

        let arena =
            Arena::new(ArenaConfig { tail_bytes: 256 << 20, cold_bytes: 32 << 20, huge_pages: true, prefault: true })?;
        let ring = Ring::new().map_err(|error| anyhow::anyhow!("{error}"))?;
        let (waker, sleeper) = doze()?;
        let (mut links, ends) = keeper_links(std::slice::from_ref(&waker), &waker);
        let link = links.pop().context("one shard, one link")?;
        let flushes = Flushes::new(1, &[waker]);
        let (devices, _) = RingDevices::new(ring.clone(), 0, vec![file], arena.memory(), flushes, link);
        let extent = |i: u64| ExtentAddress {
            device: DeviceIndex(0),
            offset: label.extents_offset + i * EXTENT,
            len: EXTENT,
            generation: i + 1,
        };
        let mut bare = Self {
            store: Store::new(store_config(), vec![StoreDevice { label, free_pairs: vec![0, 1] }]),
            arena,
            devices,
            ring,
            effects: Vec::new(),
            events: Vec::new(),
            free: (0..extents).rev().map(extent).collect(),
            units: 0,
            committed: Position(0),
            failed: None,
            _keeper: (ends, sleeper),
        };
        bare.store.create_journal(thread::now(), &entry(), &mut bare.effects);
        bare.store.set_partition(thread::now(), ONE, JOURNAL, Arc::new(settings()));
        Ok(bare)
    }

    /// Takes completions in, closes units, hands effects out, as a shard's turn does; sleeps until something completes when asked to.
    fn turn(&mut self, wait: bool) -> Result<()> {
        let now = thread::now();
        self.store.pump(now, &mut self.arena, &mut self.effects);
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Write { .. } => {
                    self.units += 1;
                    self.devices.submit(effect);
                }
                Effect::Flush { .. } | Effect::Read { .. } => self.devices.submit(effect),
                Effect::NeedExtent { device, .. } => {
                    let extent = self.free.pop();
                    self.events.push(Event::Extent { device, extent });
                }
                Effect::Committed { upto, .. } => self.committed = upto,
                Effect::Fenced { reason, .. } | Effect::DeviceFailed { reason, .. } => self.failed = Some(reason),
                _ => {}
            }
        }
        self.ring.enter();
        if wait && self.events.is_empty() && !self.ring.has_completions() {
            self.ring.wait(Duration::from_millis(100));
        }
        let mut events = std::mem::take(&mut self.events);
        self.devices.poll(&mut events);
        for event in events.drain(..) {
            self.store.handle(now, event, &mut self.arena, &mut self.effects);
        }
        match &self.failed {
            Some(reason) => bail!("the journal failed: {reason}"),
            None => Ok(()),
        }
    }

    /// Appends one batch, waiting for room where there is none; the position that has to be committed.
    fn append(&mut self, batch: &BatchView<'_>) -> Result<Position> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match self.store.append(thread::now(), ONE, batch, &mut self.arena) {
                Ok(appended) => return Ok(appended.position),
                Err(AppendError::Busy | AppendError::Full) if Instant::now() < deadline => self.turn(true)?,
                Err(error) => bail!("append: {error:?}"),
            }
        }
    }

    fn settle(&mut self, position: Position) -> Result<()> {
        while self.committed <= position {
            self.turn(true)?;
        }
        Ok(())
    }

    /// Seconds in which `total` bytes of the same batch are durable, units closed at 256 KiB.
    pub fn bulk(&mut self, batch: &[u8], total: u64) -> Result<f64> {
        let view = check(batch)?;
        let started = Instant::now();
        let mut last = Position(0);
        for _ in 0..total / batch.len() as u64 {
            last = self.append(&view)?;
            self.turn(false)?;
        }
        self.settle(last)?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// Seconds in which `count` batches are durable, each in a unit of its own of 4 KiB.
    pub fn commits(&mut self, batch: &[u8], count: u64) -> Result<f64> {
        ensure!(batch.len() < 3800, "the batch and its headers do not fit 4 KiB");
        let view = check(batch)?;
        let (started, before) = (Instant::now(), self.units);
        let mut last = Position(0);
        for i in 1..=count {
            last = self.append(&view)?;
            // The next batch waits until this one's unit is on its way, so that none holds two.
            self.turn(false)?;
            while self.units < before + i {
                self.turn(true)?;
            }
        }
        self.settle(last)?;
        Ok(started.elapsed().as_secs_f64())
    }
}

fn check(batch: &[u8]) -> Result<BatchView<'_>> {
    BatchView::check(batch).map_err(|error| anyhow::anyhow!("{error:?}"))
}

pub(crate) fn label() -> Label {
    Device::layout(ClusterId(1), BrokerId(1), 1, EXTENT, 4)
}

pub(crate) fn store_config() -> StoreConfig {
    StoreConfig {
        cluster: ClusterId(1),
        broker: BrokerId(1),
        incarnation: 1,
        sums: dataplane::checksums::fast(),
        hash_seed: 1,
        unit_bytes: UNIT,
        writes_in_flight: WRITES,
        bytes_in_flight: FLYING,
        checkpoint_bytes: 1 << 40, // none: the keeper that writes them is not there
        footer_cache_bytes: 32 << 20,
        clustering: ClusterConfig { gather_bytes: 16 << 20, bytes_per_second: 0, rest_ms: 5000 },
        compaction_bytes: 1 << 20,
        codecs: base::Codecs::none(),
        producers_per_partition_max: 100,
        producer_expiry_ms: 86_400_000,
        durability: vec![Durability::Flush],
    }
}

pub(crate) fn entry() -> JournalEntry {
    JournalEntry {
        id: JOURNAL,
        class: JournalClass { replicas: 1, compacted: false, lifetime: Lifetime::Medium, internal: false },
        device: DeviceIndex(0),
        shard: ShardId(0),
        epoch: Epoch(1),
        secret: Secret([7; 16]),
    }
}

pub(crate) fn settings() -> TopicConfig {
    TopicConfig {
        retention_ms: -1,
        retention_bytes: -1,
        compaction: None,
        max_message_bytes: 10 << 20,
        timestamp_type: TimestampType::Create,
        timestamp_before_ms_max: i64::MAX,
        timestamp_after_ms_max: i64::MAX,
        min_insync_replicas: 1,
    }
}
