//! A data path and a catalog in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use base::image::{Advertised, Image, PartitionEntry, SeededHash, SharedMap, TopicEntry};
use base::message::{Bounds, Refusal};
use base::{BrokerId, ClusterId, Epoch, JournalId, Offset, PartitionId, ShardId, TopicId};
use protocol::batch::{BatchView, stamp};
use tokio::sync::Semaphore;

use super::FIRST_EPOCH;
use crate::dataplane::{DataPlane, Records};
use crate::groups::{Catalog, OFFSETS_TOPIC};
use crate::settings::topic_defaults;

#[derive(Default)]
struct Log {
    start: i64,
    end: i64,
    /// Base offset, offset behind the last record, bytes.
    batches: VecDeque<(i64, i64, Vec<u8>)>,
}

#[derive(Default)]
pub(super) struct State {
    logs: BTreeMap<PartitionId, Log>,
    epoch: i32,
    pub(super) appends: usize,
    pub(super) bytes_read: usize,
    pub(super) moves: usize,
    /// Refusals for the next appends.
    pub(super) refuse: VecDeque<Refusal>,
    /// Offsets that cannot be read.
    pub(super) damaged: Option<std::ops::Range<i64>>,
    /// Partitions whose journal is closed: from this offset on nothing can be read; at or below 0 not even the ends.
    pub(super) closed: BTreeMap<PartitionId, i64>,
}

/// Partitions that exist when first touched.
pub(super) struct FakeData {
    pub(super) state: Mutex<State>,
    /// An append takes one permit; closed hands hold appends back.
    pub(super) gate: Semaphore,
}

const OPEN: usize = 1 << 20;

impl FakeData {
    pub(super) fn new() -> Arc<Self> {
        let state = State { epoch: FIRST_EPOCH.0, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), gate: Semaphore::new(OPEN) })
    }

    /// Holds appends back.
    pub(super) fn hold(&self) {
        self.gate.forget_permits(OPEN * 2);
    }

    /// Lets appends go.
    pub(super) fn release(&self) {
        self.gate.add_permits(OPEN);
    }

    pub(super) fn raise_epoch(&self) {
        self.state.lock().unwrap().epoch += 1;
    }

    /// Bytes that all logs hold.
    pub(super) fn log_bytes(&self) -> usize {
        let state = self.state.lock().unwrap();
        state.logs.values().flat_map(|log| &log.batches).map(|(_, _, batch)| batch.len()).sum()
    }
}

impl DataPlane for FakeData {
    async fn append(&self, partition: PartitionId, epoch: Epoch, mut batch: Vec<u8>) -> Result<Offset, Refusal> {
        self.gate.acquire().await.unwrap().forget();
        tokio::task::yield_now().await;
        let mut state = self.state.lock().unwrap();
        self.gate.add_permits(1);
        state.appends += 1;
        if let Some(refusal) = state.refuse.pop_front() {
            return Err(refusal);
        }
        if epoch.0 != state.epoch {
            return Err(if epoch.0 < state.epoch { Refusal::FencedEpoch } else { Refusal::UnknownEpoch });
        }
        let count = i64::from(BatchView::check(&batch).unwrap().count());
        let log = state.logs.entry(partition).or_default();
        stamp(&mut batch, Offset(log.end), epoch).unwrap();
        let base = log.end;
        log.end += count;
        log.batches.push_back((base, log.end, batch));
        Ok(Offset(base))
    }

    async fn read(&self, partition: PartitionId, offset: Offset, bytes_max: usize) -> Result<Records, Refusal> {
        let bounds = self.bounds(partition).await?;
        let mut state = self.state.lock().unwrap();
        if offset < bounds.log_start || offset > bounds.log_end {
            return Err(Refusal::OutOfRange);
        }
        let upto = state.closed.get(&partition).copied().unwrap_or(i64::MAX);
        if offset.0 >= upto {
            return Err(Refusal::Fenced);
        }
        if let Some(damaged) = state.damaged.as_ref().filter(|damaged| damaged.contains(&offset.0)) {
            return Err(Refusal::Damaged { next: Offset(damaged.end) });
        }
        let mut batches = Vec::new();
        for (_, end, batch) in &state.logs.entry(partition).or_default().batches {
            if *end > offset.0 && *end <= upto && (batches.is_empty() || batches.len() + batch.len() <= bytes_max) {
                batches.extend_from_slice(batch);
            }
        }
        state.bytes_read += batches.len();
        Ok(Records { batches, bounds })
    }

    async fn bounds(&self, partition: PartitionId) -> Result<Bounds, Refusal> {
        let mut state = self.state.lock().unwrap();
        if state.closed.get(&partition).is_some_and(|from| *from <= 0) {
            return Err(Refusal::Fenced);
        }
        let epoch = Epoch(state.epoch);
        let log = state.logs.entry(partition).or_default();
        let (log_start, log_end) = (Offset(log.start), Offset(log.end));
        Ok(Bounds { log_start, high_watermark: log_end, log_end, epoch, bytes: 0 })
    }

    async fn move_start(&self, partition: PartitionId, to: Offset) -> Result<Offset, Refusal> {
        let mut state = self.state.lock().unwrap();
        state.moves += 1;
        let log = state.logs.entry(partition).or_default();
        assert!(to.0 >= log.start && to.0 <= log.end, "{to} in {}..={}", log.start, log.end);
        log.start = to.0;
        log.batches.retain(|(_, end, _)| *end > to.0);
        Ok(to)
    }
}

/// Metadata with the topics that a test makes.
pub(super) struct FakeCatalog {
    image: Mutex<Arc<Image>>,
    slots: u32,
}

impl FakeCatalog {
    /// With topic `t` of 100 partitions; `__consumer_offsets` will have `slots`.
    pub(super) fn new(slots: u32) -> Arc<Self> {
        let hash = SeededHash(1);
        let image = Image {
            generation: 1,
            partitions_below: PartitionId(1 << 40),
            cluster: ClusterId(1),
            broker: BrokerId(1),
            listeners: [Advertised { name: "main".into(), host: "127.0.0.1".into(), port: 9092 }].into(),
            topics: SharedMap::new(hash),
            topics_by_id: SharedMap::new(hash),
            journals: SharedMap::new(hash),
            homes: SharedMap::new(hash),
        };
        let catalog = Arc::new(Self { image: Mutex::new(Arc::new(image)), slots });
        catalog.create("t", TopicId(11), 100);
        catalog
    }

    pub(super) fn create(&self, name: &str, id: TopicId, partitions: u32) -> Arc<TopicEntry> {
        let entry = |index| PartitionEntry {
            id: PartitionId(id.0 as u64 * 1000 + u64::from(index)),
            journal: JournalId(1),
            shard: ShardId(0),
            epoch: FIRST_EPOCH,
        };
        let topic = Arc::new(TopicEntry {
            id,
            name: name.into(),
            internal: name == OFFSETS_TOPIC,
            config: Arc::new(topic_defaults()),
            partitions: (0..partitions).map(entry).collect(),
        });
        let mut image = self.image.lock().unwrap();
        let changed = Arc::make_mut(&mut image);
        changed.generation += 1;
        changed.topics.insert(name.into(), topic.clone());
        changed.topics_by_id.insert(id, topic.clone());
        topic
    }

    pub(super) fn delete(&self, name: &str) {
        let mut image = self.image.lock().unwrap();
        let changed = Arc::make_mut(&mut image);
        changed.generation += 1;
        let topic = changed.topics.remove(name).unwrap();
        changed.topics_by_id.remove(&topic.id);
    }
}

impl Catalog for FakeCatalog {
    fn image(&self) -> Arc<Image> {
        self.image.lock().unwrap().clone()
    }

    async fn offsets_topic(&self) -> Result<Arc<TopicEntry>, String> {
        tokio::task::yield_now().await;
        match self.slots {
            0 => Err("no space".to_owned()),
            slots => Ok(self.create(OFFSETS_TOPIC, TopicId(99), slots)),
        }
    }
}
