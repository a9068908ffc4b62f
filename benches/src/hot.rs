//! The hot steps of a record's life by themselves, without kernel or device, for criterion and for counting instructions: checking a
//! batch, appending it, finding an offset, assembling an answer.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use base::{Mono, Now, Offset, PartitionId, WallMs};
use dataplane::arena::{Arena, ArenaConfig};
use journal::Store;
use journal::store::{AppendError, Effect, Event, ExtentAddress, ReadOutcome, StoreDevice};
use protocol::TopicRef;
use protocol::batch::BatchView;
use protocol::error::ErrorCode;
use protocol::fetch::{FetchOutcome, FetchWriter};

use crate::journal::{EXTENT, JOURNAL, entry, label, settings, store_config};
use crate::raw;

/// Records of a batch, of 1 KiB each.
const RECORDS: usize = 16;
/// Partitions that share the journal.
const PARTITIONS: u64 = 1000;
/// Batches of each that lie in the tail, in which offsets are looked up.
const DEPTH: u64 = 8;
/// The last that names topics, so that the answer has all but the hints of version 16.
const FETCH_VERSION: i16 = 12;

/// What can be run: its name, and one step of it.
pub type Step = (&'static str, fn(&mut Hot) -> Result<()>);

/// Checking, appending, finding, assembling.
pub const STEPS: &[Step] = &[
    ("validate a batch of 16 x 1 KiB", Hot::validate),
    ("append a batch of 16 x 1 KiB", Hot::append),
    ("find an offset among 1000 partitions", Hot::find),
    ("assemble an answer of 64 batches", Hot::assemble),
];

/// A journal whose device is done at once.
pub struct Hot {
    store: Store<Arena>,
    arena: Arena,
    batch: Arc<[u8]>,
    effects: Vec<Effect>,
    free: Vec<ExtentAddress>,
    generation: u64,
    next: u64,
    state: u64,
    answer: Vec<u8>,
    now: Now,
}

impl Hot {
    /// With the depth of batches in each partition.
    pub fn new() -> Result<Self> {
        let arena =
            Arena::new(ArenaConfig { tail_bytes: 256 << 20, cold_bytes: 32 << 20, huge_pages: true, prefault: true })?;
        let device = StoreDevice { label: label(), free_pairs: vec![0, 1] };
        let mut hot = Self {
            store: Store::new(store_config(), vec![device]),
            arena,
            batch: raw::batch(RECORDS, 1024, &dataplane::checksums::fast()).into(),
            effects: Vec::new(),
            free: Vec::new(),
            generation: 0,
            next: 0,
            state: 1,
            answer: Vec::new(),
            now: Now { mono: Mono(1), wall: WallMs(1) },
        };
        hot.store.create_journal(hot.now, &entry(), &mut hot.effects);
        let settings = Arc::new(settings());
        for id in 0..PARTITIONS {
            hot.store.set_partition(hot.now, PartitionId(id), JOURNAL, settings.clone());
        }
        hot.settle();
        for _ in 0..DEPTH * PARTITIONS {
            hot.append()?;
        }
        Ok(hot)
    }

    /// Completes what was asked for until nothing is.
    fn settle(&mut self) {
        loop {
            self.store.pump(self.now, &mut self.arena, &mut self.effects);
            if self.effects.is_empty() {
                return;
            }
            for effect in std::mem::take(&mut self.effects) {
                let event = match effect {
                    Effect::Write { token, .. } => Event::Written { token, result: Ok(()) },
                    Effect::Flush { token, .. } => Event::Flushed { token, result: Ok(()) },
                    Effect::NeedExtent { device, .. } => {
                        self.generation += 1;
                        let offset = label().extents_offset + self.generation * EXTENT;
                        let fresh = ExtentAddress { device, offset, len: EXTENT, generation: self.generation };
                        Event::Extent { device, extent: Some(self.free.pop().unwrap_or(fresh)) }
                    }
                    _ => continue,
                };
                self.store.handle(self.now, event, &mut self.arena, &mut self.effects);
            }
        }
    }

    fn validate(&mut self) -> Result<()> {
        let view = BatchView::check(black_box(&self.batch)).map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let walk = view.walk().map_err(|error| anyhow::anyhow!("{error:?}"))?;
        black_box(walk);
        Ok(())
    }

    fn append(&mut self) -> Result<()> {
        let batch = Arc::clone(&self.batch);
        let view = BatchView::check(&batch).map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let id = PartitionId(self.next % PARTITIONS);
        self.next += 1;
        loop {
            match self.store.append(self.now, id, &view, &mut self.arena) {
                Ok(appended) => {
                    black_box(appended);
                    break;
                }
                Err(AppendError::Busy) => self.settle(),
                Err(error) => bail!("append: {error:?}"),
            }
        }
        // A turn takes what eight producers sent.
        if self.next.is_multiple_of(8) {
            self.settle();
        }
        Ok(())
    }

    fn chance(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    fn read(&mut self, id: u64, from: Offset, bytes: usize) -> Result<Vec<<Arena as base::memory::Arena>::Slice>> {
        let mut slices = Vec::new();
        let (store, arena, effects) = (&mut self.store, &mut self.arena, &mut self.effects);
        match store.read(self.now, PartitionId(id), from, bytes, true, arena, &mut slices, effects) {
            ReadOutcome::Data { .. } => Ok(slices),
            other => bail!("read: {other:?}"),
        }
    }

    fn find(&mut self) -> Result<()> {
        let id = self.chance(PARTITIONS);
        let bounds = self.store.bounds(PartitionId(id)).context("the partition is there")?;
        // Of what was appended last: the tail holds at least the depth.
        let back = 1 + self.chance(DEPTH * RECORDS as u64);
        let from = Offset(bounds.high_watermark.0 - i64::try_from(back)?);
        let slices = self.read(id, from, 1)?;
        ensure!(slices.len() == 1, "one batch holds the offset");
        black_box(slices);
        Ok(())
    }

    /// Eight partitions with eight batches each, as pieces behind their headers.
    fn assemble(&mut self) -> Result<()> {
        self.answer.clear();
        let mut pieces = Vec::new();
        let begin = self.chance(PARTITIONS - 8);
        let mut answer = std::mem::take(&mut self.answer);
        let mut writer = FetchWriter::begin(&mut answer, FETCH_VERSION, 0, ErrorCode::NONE, 0, 1);
        writer.topic(&mut answer, TopicRef::Name("t"), 8);
        for (index, id) in (0..).zip(begin..begin + 8) {
            let bounds = self.store.bounds(PartitionId(id)).context("the partition is there")?;
            let from = Offset(bounds.high_watermark.0 - i64::try_from(8 * RECORDS)?);
            let slices = self.read(id, from, 1 << 20)?;
            ensure!(slices.len() == 8, "{} batches", slices.len());
            let len = slices.iter().map(|slice| slice.as_ref().len()).sum();
            let outcome = FetchOutcome {
                index,
                error: ErrorCode::NONE,
                high_watermark: bounds.high_watermark.0,
                last_stable_offset: bounds.high_watermark.0,
                log_start_offset: bounds.log_start.0,
                ..FetchOutcome::failed(index, ErrorCode::NONE)
            };
            writer.partition(&mut answer, &outcome, len);
            pieces.extend(slices);
        }
        writer.end(&mut answer, &[]);
        black_box((&answer, &pieces));
        self.answer = answer;
        Ok(())
    }
}
