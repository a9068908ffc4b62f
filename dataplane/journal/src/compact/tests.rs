//! That the latest record of each key stays, whatever else happens, and what is older goes.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests"
)]

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use base::image::{Compaction, TopicConfig};
use base::{Mono, Offset, PartitionId, WallMs};
use protocol::batch::{BatchBuilder, BatchView, Codec, Header, Producer};

use crate::journal::Index;
use crate::store::{Effect, ReadOutcome};
use crate::testing::{SUMS, TOY_CODECS, World, idempotent, topic};

const EXTENT: u64 = 256 << 10;

pub(super) fn compacted() -> TopicConfig {
    let compaction =
        Compaction { delete_retention_ms: 60_000, lag_ms_min: 0, lag_ms_max: i64::MAX, dirty_ppm_min: 10_000 };
    TopicConfig { compaction: Some(compaction), ..topic() }
}

/// A record as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    timestamp: i64,
}

/// What was written to one partition.
#[derive(Clone, Debug, Default)]
struct Model {
    records: Vec<Written>,
}

impl Model {
    fn latest(&self) -> BTreeMap<&[u8], i64> {
        self.records.iter().enumerate().map(|(offset, record)| (&record.key[..], offset as i64)).collect()
    }
}

/// Any numbers, the same each time.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

impl World {
    fn wait(&mut self, count: usize) {
        for _ in 0..count {
            self.now.mono = Mono(self.now.mono.0 + 1_000_000_000);
            self.now.wall = WallMs(self.now.wall.0 + 1000);
            self.housekeep();
            self.settle();
        }
    }

    /// Some records with keys in one batch.
    fn put_keyed(&mut self, id: u64, records: &[Written], codec: Codec, producer: Producer) {
        let mut builder = BatchBuilder::new();
        for record in records {
            let header = Header { key: b"h", value: Some(&record.key) };
            builder.append(record.timestamp, Some(&record.key), record.value.as_deref(), &[header]);
        }
        let mut batch = Vec::new();
        if codec == Codec::None {
            batch.extend_from_slice(builder.finish(producer, &SUMS));
        } else {
            let mut packed = Vec::new();
            assert!((TOY_CODECS.deflate)(codec.bits(), builder.records(), &mut packed));
            builder.finish_compressed(codec, &packed, producer, &SUMS, &mut batch);
        }
        self.put(id, &batch);
        self.settle();
    }

    /// All records of a partition that are there, each at its offset; every offset is stood for by some batch.
    fn records(&mut self, id: u64) -> BTreeMap<i64, Written> {
        // The tail's memory has them as they were written.
        while self.store.evict_chunk_of(0, &mut self.arena) {}
        let mut records = BTreeMap::new();
        let mut expected = self.store.bounds(PartitionId(id)).unwrap().log_start.0;
        for (base, bytes) in self.drain(id, expected) {
            let (batch, _) = BatchView::first(&bytes).unwrap();
            assert!(base <= expected || batch.count() > 0, "partition {id}: {base} is not {expected}");
            expected = batch.last_offset() + 1;
            let mut inflated = Vec::new();
            let payload = if batch.is_compressed() {
                (TOY_CODECS.inflate)(batch.codec().bits(), batch.payload(), 1 << 30, &mut inflated).unwrap();
                &inflated[..]
            } else {
                batch.payload()
            };
            let mut count = 0;
            for record in batch.records_of(payload) {
                let record = record.unwrap();
                count += 1;
                let key = record.key.unwrap().to_vec();
                let header = record.headers.clone().next().unwrap();
                assert_eq!((header.key, header.value), (&b"h"[..], Some(&key[..])));
                let written =
                    Written { key, value: record.value.map(<[u8]>::to_vec), timestamp: batch.timestamp_of(&record) };
                let before = records.insert(base + i64::from(record.offset_delta), written);
                assert!(before.is_none());
            }
            assert_eq!(count, batch.count());
        }
        assert_eq!(expected, self.high_watermark(id), "partition {id} ends early");
        records
    }

    /// What is there is as it was written, and what is not had a later record of its key, or was a tombstone.
    fn check(&mut self, id: u64, model: &Model) -> usize {
        let found = self.records(id);
        let start = self.store.bounds(PartitionId(id)).unwrap().log_start.0;
        let latest = model.latest();
        for (offset, record) in model.records.iter().enumerate().skip(start as usize) {
            let offset = offset as i64;
            match found.get(&offset) {
                Some(there) => assert_eq!(there, record, "partition {id}, offset {offset}"),
                None => {
                    let superseded = latest[&record.key[..]] > offset;
                    assert!(superseded || record.value.is_none(), "partition {id}: {offset} {record:?} is lost");
                }
            }
        }
        assert!(found.keys().all(|offset| (*offset as usize) < model.records.len()));
        // A tombstone goes only after all that it deletes.
        for (offset, record) in &found {
            let newer = model.records.iter().enumerate().skip(*offset as usize + 1);
            let next = newer.clone().find(|(_, newer)| newer.key == record.key);
            if let Some((next, tombstone)) = next
                && tombstone.value.is_none()
            {
                let later = newer.skip(next - *offset as usize).any(|(_, newer)| newer.key == record.key);
                let there = found.contains_key(&(next as i64));
                assert!(there || later, "partition {id}: {offset} came back, its tombstone at {next} is gone");
            }
        }
        found.len()
    }

    /// Random batches of records with few keys for the three partitions.
    fn write(&mut self, dice: &mut Dice, models: &mut [Model; 3], batches: usize, size: u64, keys: u64) {
        let mut sequences = [0; 3];
        for (id, model) in models.iter().enumerate() {
            sequences[id] = model.records.len() as i32;
        }
        for _ in 0..batches {
            let id = dice.roll(3) as usize;
            let count = 1 + dice.roll(8);
            let codec = [Codec::None, Codec::None, Codec::Gzip][dice.roll(3) as usize];
            let records: Vec<Written> = (0..count)
                .map(|number| Written {
                    key: format!("key-{}", dice.roll(keys)).into_bytes(),
                    value: (dice.roll(6) > 0).then(|| vec![dice.roll(256) as u8; dice.roll(size) as usize]),
                    timestamp: self.now.wall.0 - dice.roll(50) as i64 + number as i64,
                })
                .collect();
            let producer = if id == 0 { idempotent(7, 1, sequences[0]) } else { Producer::NONE };
            self.put_keyed(id as u64 + 1, &records, codec, producer);
            sequences[id] += records.len() as i32;
            models[id].records.extend(records);
        }
    }

    fn closed_upto(&mut self, id: u64) -> i64 {
        // The first offset in the open extent.
        let Index::Open(index) = &self.store.journals[0].extents.back().unwrap().index else { panic!("one is open") };
        let first = index.all().filter(|(of, _)| *of == PartitionId(id)).map(|(_, run)| run.first.0).min();
        first.unwrap_or_else(|| self.high_watermark(id))
    }

    /// Whether compaction rests with nothing dirty behind it.
    fn runs(&self) -> u64 {
        self.store.compaction().runs
    }
}

fn write_many(seed: u64, keys: u64) -> (World, [Model; 3], Dice) {
    let mut world = World::with(EXTENT, compacted());
    let mut models = [Model::default(), Model::default(), Model::default()];
    let mut dice = Dice(seed);
    world.write(&mut dice, &mut models, 500, 1200, keys);
    (world, models, dice)
}

#[test]
fn the_latest_record_of_each_key_stays_and_older_ones_go() {
    let (mut world, mut models, mut dice) = write_many(1, 20);
    let extents = world.store.journals[0].extents.len();
    for round in 0..4 {
        world.wait(40);
        assert!(world.runs() > 0, "nothing was compacted");
        for id in 1..=3 {
            let model = &models[id as usize - 1];
            let closed = world.closed_upto(id);
            let left = world.check(id, model);
            // Behind what is closed nothing superseded by something closed is left.
            let found = world.records(id);
            let mut latest: BTreeMap<&[u8], i64> = BTreeMap::new();
            for (offset, record) in model.records.iter().enumerate().take(closed as usize) {
                latest.insert(&record.key, offset as i64);
            }
            for (offset, record) in found.iter().filter(|(offset, _)| **offset < closed) {
                assert_eq!(latest[&record.key[..]], *offset, "round {round}, partition {id}, {:?}", record.key);
            }
            assert!(left < model.records.len() / 3, "{left} of {}", model.records.len());
        }
        let report = world.restart_with(round % 2 == 0).unwrap();
        assert!(report.damage.is_empty() && report.lost.is_empty() && report.holes.is_empty(), "{report:?}");
        world.settle();
        for id in 1..=3 {
            world.check(id, &models[id as usize - 1]);
        }
        world.write(&mut dice, &mut models, 100, 1200, 20);
    }
    assert!(world.store.journals[0].extents.len() < extents, "no space came back");
    // Producers go on.
    let next = models[0].records.len() as i32;
    let record = Written { key: b"x".to_vec(), value: None, timestamp: 1 };
    world.put_keyed(1, &[record], Codec::None, idempotent(7, 1, next));
}

#[test]
fn a_crash_after_any_step_loses_no_latest_record_and_brings_none_back() {
    let mut steps = 0;
    let mut taken_over = [0, 0];
    loop {
        for checkpoints in [true, false] {
            let (mut world, models, _) = write_many(5, 12);
            let mut left = steps;
            let mut ended = true;
            'run: for _ in 0..40 {
                world.now.mono = Mono(world.now.mono.0 + 1_000_000_000);
                // Tombstones may go soon after they were seen.
                world.now.wall = WallMs(world.now.wall.0 + 30_000);
                world.housekeep();
                loop {
                    world.pump();
                    if world.asked.is_empty() {
                        break;
                    }
                    let at = if left % 2 == 0 { 0 } else { world.asked.len() - 1 };
                    if left == 0 {
                        ended = false;
                        break 'run;
                    }
                    left -= 1;
                    let flush = world.asked.iter().position(|effect| matches!(effect, Effect::Flush { .. }));
                    let effect = world.asked.remove(flush.unwrap_or(at));
                    world.perform(effect);
                }
            }
            let report = world.restart_with(checkpoints).unwrap();
            assert!(report.damage.is_empty() && report.lost.is_empty(), "{steps} steps: {report:?}");
            world.settle();
            for id in 1..=3 {
                world.check(id, &models[id as usize - 1]);
            }
            taken_over[usize::from(checkpoints)] += usize::from(world.compacted() > 0);
            world.wait(20);
            let report = world.restart_with(!checkpoints).unwrap();
            assert!(report.damage.is_empty() && report.lost.is_empty(), "{steps} steps, then again: {report:?}");
            for id in 1..=3 {
                world.check(id, &models[id as usize - 1]);
            }
            if ended && checkpoints {
                assert!(taken_over[0] > 5 && taken_over[1] > 5, "{taken_over:?}");
                return;
            }
        }
        // All of them take too long.
        steps += 1 + steps / 16;
    }
}

impl World {
    fn compacted(&self) -> usize {
        self.store.journals[0].extents.iter().filter(|extent| extent.compacted.0 > 0).count()
    }
}

#[test]
fn tombstones_stay_for_their_time_after_they_were_first_seen_and_say_until_when() {
    let mut world = World::with(EXTENT, compacted());
    let mut models = [Model::default(), Model::default(), Model::default()];
    let at = world.now.wall.0;
    let mut put = |world: &mut World, key: &str, value: Option<Vec<u8>>| {
        let record = Written { key: key.as_bytes().to_vec(), value, timestamp: at };
        world.put_keyed(1, core::slice::from_ref(&record), Codec::None, Producer::NONE);
        models[0].records.push(record);
    };
    put(&mut world, "a", Some(vec![1; 10]));
    put(&mut world, "b", Some(vec![1; 10]));
    put(&mut world, "a", None);
    for number in 0..300 {
        put(&mut world, &format!("fill-{number}"), Some(vec![1; 2000]));
    }
    let horizon = |world: &mut World| {
        while world.store.evict_chunk_of(0, &mut world.arena) {}
        let (outcome, slices) = world.read(1, 2, 1);
        assert!(matches!(outcome, ReadOutcome::Data { .. }));
        let (batch, _) = BatchView::first(&slices[0]).unwrap();
        (batch.base_offset() <= 2 && batch.count() > 0).then(|| batch.delete_horizon())
    };
    assert_eq!(horizon(&mut world), Some(None));
    world.wait(10);
    let first = horizon(&mut world).expect("the tombstone is there").expect("it is known until when");
    assert!(first > world.now.wall.0 + 40_000 && first <= world.now.wall.0 + 60_000, "{first}");
    assert!(!world.records(1).contains_key(&0), "what it deletes is gone");
    world.restart_with(false).unwrap();
    world.settle();
    world.wait(30);
    assert_eq!(horizon(&mut world), Some(Some(first)), "it is set once");
    world.wait(60);
    // After a restart nobody knew that it waits: the next pass sees it.
    for number in 0..300 {
        put(&mut world, &format!("more-{number}"), Some(vec![1; 2000]));
    }
    world.wait(40);
    assert_eq!(horizon(&mut world), None, "its time has come");
    world.check(1, &models[0]);
    assert!(world.records(1).contains_key(&1));
}

#[test]
fn a_pass_begins_by_itself_when_the_last_tombstones_may_go() {
    let mut world = World::with(EXTENT, compacted());
    let mut model = Model::default();
    for number in 0..400 {
        let value = (number % 4 > 0).then(|| vec![1; 1000]);
        let record = Written { key: format!("{}", number % 100).into_bytes(), value, timestamp: world.now.wall.0 };
        world.put_keyed(2, core::slice::from_ref(&record), Codec::None, Producer::NONE);
        model.records.push(record);
    }
    let tombstones = |world: &mut World| {
        let closed = world.closed_upto(2);
        world.records(2).iter().filter(|(offset, record)| **offset < closed && record.value.is_none()).count()
    };
    world.wait(20);
    assert!(tombstones(&mut world) > 5);
    let runs = world.runs();
    world.wait(80);
    assert_eq!((tombstones(&mut world), world.runs() > runs), (0, true));
    let runs = world.runs();
    world.wait(200);
    assert!(world.runs() <= runs + 1, "it does not begin for nothing");
    world.check(2, &model);
}

#[test]
fn records_younger_than_the_least_lag_stay_and_make_nothing_go() {
    let mut topic = compacted();
    topic.compaction = topic.compaction.map(|compaction| Compaction { lag_ms_min: 50_000, ..compaction });
    let mut world = World::with(EXTENT, topic);
    let mut models = [Model::default(), Model::default(), Model::default()];
    let mut dice = Dice(9);
    world.write(&mut dice, &mut models, 300, 1200, 10);
    let end = models[0].records.len();
    world.wait(100);
    world.write(&mut dice, &mut models, 300, 1200, 10);
    world.wait(30);
    for id in 1..=3 {
        world.check(id, &models[id as usize - 1]);
    }
    let found = world.records(1);
    let old = found.range(..end as i64).count();
    assert!((1..=12).contains(&old), "{old} of {end}: each key's latest of its time stays");
    assert_eq!(found.range(end as i64..).count(), models[0].records.len() - end, "what is young stays");
    world.wait(100);
    assert!(world.records(1).range(..world.closed_upto(1)).count() <= 11);
    world.check(1, &models[0]);
}

#[test]
fn keys_for_which_there_is_no_room_are_compacted_in_shares() {
    // The map holds two thousand keys; an extent has more.
    let mut world = World::with(EXTENT, compacted());
    let mut model = Model::default();
    for round in 0..3 {
        for part in 0..60 {
            let records: Vec<Written> = (0..100)
                .map(|number| Written {
                    key: format!("k{}", part * 100 + number).into_bytes(),
                    value: (number % 7 > 0).then(|| vec![round; 4]),
                    timestamp: world.now.wall.0,
                })
                .collect();
            world.put_keyed(3, &records, Codec::None, Producer::NONE);
            model.records.extend(records);
        }
    }
    world.wait(60);
    world.check(3, &model);
    let closed = world.closed_upto(3);
    let found = world.records(3);
    let keys: alloc::collections::BTreeSet<&Vec<u8>> =
        found.iter().filter(|(offset, _)| **offset < closed).map(|(_, record)| &record.key).collect();
    assert_eq!(found.range(..closed).count(), keys.len());
    assert!(keys.len() > 4000, "{}", keys.len());
}

#[test]
fn an_old_record_is_compacted_whatever_the_ratio_when_it_may_wait_no_longer() {
    let mut topic = compacted();
    topic.compaction =
        topic.compaction.map(|compaction| Compaction { lag_ms_max: 20_000, dirty_ppm_min: 1_000_000, ..compaction });
    let mut world = World::with(EXTENT, topic);
    let mut model = Model::default();
    for number in 0..50 {
        let value = Some(vec![number; 100]);
        let record = Written { key: b"one".to_vec(), value, timestamp: world.now.wall.0 };
        world.put_keyed(1, core::slice::from_ref(&record), Codec::None, Producer::NONE);
        model.records.push(record);
    }
    world.wait(15);
    assert_eq!(world.records(1).len(), 50, "all of it is in the open extent");
    world.wait(25);
    assert_eq!(world.records(1).keys().copied().collect::<Vec<_>>(), [49], "that extent was closed for it");
    world.check(1, &model);
    world.restart_with(false).unwrap();
    world.settle();
    world.check(1, &model);
}

#[test]
fn a_batch_that_would_grow_or_that_nobody_can_read_stays_and_so_do_tombstones_behind_it() {
    let mut world = World::with(EXTENT, compacted());
    let mut model = Model::default();
    let at = world.now.wall.0;
    let record = |key: &str, value: Option<Vec<u8>>| Written { key: key.as_bytes().to_vec(), value, timestamp: at };
    let grows = [record("a", Some(vec![1; 100])), record("b", Some(vec![1; 100]))];
    // What it makes has zeros behind; without, as a better compressor would have made it.
    let mut builder = BatchBuilder::new();
    for one in &grows {
        let header = Header { key: b"h", value: Some(&one.key) };
        builder.append(at, Some(&one.key), one.value.as_deref(), &[header]);
    }
    let packed: Vec<u8> = builder.records().iter().map(|byte| !byte).collect();
    let mut batch = Vec::new();
    builder.finish_compressed(Codec::Snappy, &packed, Producer::NONE, &SUMS, &mut batch);
    world.put(1, &batch);
    world.settle();
    model.records.extend(grows);
    let tombstone = record("a", None);
    world.put_keyed(1, core::slice::from_ref(&tombstone), Codec::None, Producer::NONE);
    model.records.push(tombstone);
    for number in 0..300 {
        let fill = record(&format!("fill-{number}"), Some(vec![1; 2000]));
        world.put_keyed(1, core::slice::from_ref(&fill), Codec::None, Producer::NONE);
        model.records.push(fill);
    }
    world.wait(200);
    assert!(world.runs() > 0);
    let found = world.records(1);
    assert!(found.contains_key(&0) && found.contains_key(&1) && found.contains_key(&2), "{:?}", found.keys());
    world.check(1, &model);
}

#[test]
fn retention_goes_on_over_what_is_compacted() {
    let mut topic = compacted();
    topic.retention_ms = 100_000;
    let mut world = World::with(EXTENT, topic);
    let mut models = [Model::default(), Model::default(), Model::default()];
    let mut dice = Dice(3);
    world.write(&mut dice, &mut models, 300, 1200, 10);
    world.wait(30);
    assert!(world.runs() > 0);
    let end = world.high_watermark(1);
    world.wait(120);
    for id in 1..=3 {
        world.check(id, &models[id as usize - 1]);
        let bounds = world.store.bounds(PartitionId(id)).unwrap();
        assert!(bounds.log_start > Offset(0) && bounds.bytes < 200_000, "{bounds:?}");
    }
    assert_eq!(world.high_watermark(1), end);
}

#[test]
fn searches_by_time_find_records_behind_what_went() {
    let mut world = World::with(EXTENT, compacted());
    let mut stamps: Vec<i64> = Vec::new();
    for number in 0..400i64 {
        let record = Written {
            key: format!("{}", if number % 50 == 0 { number } else { 7 }).into_bytes(),
            value: Some(vec![2; 1500]),
            timestamp: 500_000 + number * 10,
        };
        stamps.push(record.timestamp);
        world.put_keyed(1, core::slice::from_ref(&record), Codec::None, Producer::NONE);
    }
    world.wait(40);
    let found: Vec<i64> = world.records(1).keys().copied().collect();
    assert!(found.len() < 200 && world.runs() > 0, "{}", found.len());
    for number in (0..400).step_by(3) {
        let wanted = found.iter().find(|offset| **offset >= number).copied();
        assert_eq!(world.at_time(Some(stamps[number as usize])), wanted, "{number}");
    }
    assert_eq!(world.at_time(Some(0)), found.first().copied());
    assert_eq!(world.at_time(None), found.last().copied());
}

impl World {
    /// Base offset of the batch that a search by time finds.
    fn at_time(&mut self, timestamp: Option<i64>) -> Option<i64> {
        for _ in 0..1000 {
            let (mut slices, mut out) = (Vec::new(), Vec::new());
            let id = PartitionId(1);
            let outcome = self.store.find_time(
                self.now,
                id,
                timestamp.map(WallMs),
                crate::store::ALL,
                &mut self.arena,
                &mut slices,
                &mut out,
            );
            self.take(out);
            match outcome {
                ReadOutcome::Data { .. } => {
                    return Some(BatchView::first(slices.last().unwrap()).unwrap().0.base_offset());
                }
                ReadOutcome::Empty => return None,
                ReadOutcome::Pending => {
                    for effect in core::mem::take(&mut self.asked) {
                        self.perform(effect);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        panic!("{}", String::from("pending for ever"))
    }
}
