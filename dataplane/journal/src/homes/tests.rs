//! That a partition takes everything along, and that a move can be cut off anywhere.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests"
)]

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use base::image::{TimestampType, TopicConfig};
use base::{Epoch, JournalId, Mono, Offset, PartitionId, WallMs};
use protocol::batch::BatchView;

use super::Behind;
use crate::store::{AppendError, ReadOutcome};
use crate::testing::{World, batch, batch_at, batch_by, entry, idempotent, topic};

const MOVED: PartitionId = PartitionId(1);

/// Why a move stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The power went.
    Crash,
}

/// Two journals, and partition 1 in the first of them.
fn two_journals(extent: u64) -> World {
    let mut world = World::new(extent);
    world.journals = vec![1, 2];
    let mut out = Vec::new();
    world.store.create_journal(world.now, &entry(2, 1), &mut out);
    world.take(out);
    world.settle();
    world
}

impl World {
    fn metadata(&self) -> (Vec<(u64, i64)>, Option<u64>) {
        let known = self.homes.iter().find(|(id, ..)| *id == MOVED.0);
        known.map_or((vec![(1, 0)], None), |(_, homes, moving)| (homes.clone(), *moving))
    }

    fn set_metadata(&mut self, homes: Vec<(u64, i64)>, moving: Option<u64>) {
        self.homes.retain(|(id, ..)| *id != MOVED.0);
        self.homes.push((MOVED.0, homes, moving));
        self.name_partitions(topic());
    }

    /// Does what is asked for until nothing is, or so many things were done.
    fn work(&mut self, left: &mut usize) -> Result<(), Stop> {
        loop {
            self.pump();
            if self.asked.is_empty() {
                return Ok(());
            }
            for effect in core::mem::take(&mut self.asked) {
                if *left == 0 {
                    return Err(Stop::Crash);
                }
                *left -= 1;
                self.perform(effect);
            }
        }
    }

    /// One step of metadata: durable or not.
    fn step(left: &mut usize) -> Result<(), Stop> {
        if *left == 0 {
            return Err(Stop::Crash);
        }
        *left -= 1;
        Ok(())
    }

    /// Leads a move as the control plane does, from wherever it is; at most so many things happen.
    fn lead(&mut self, to: u64, left: &mut usize) -> Result<(), Stop> {
        let (mut homes, moving) = self.metadata();
        if moving.is_none() {
            Self::step(left)?;
            self.set_metadata(homes.clone(), Some(to));
        }
        let closed = loop {
            match self.store.close(self.now, MOVED, JournalId(to), &mut self.arena) {
                Ok(closed) => break closed,
                Err(AppendError::Busy) => self.work(left)?,
                Err(other) => panic!("{other:?}"),
            }
        };
        self.work(left)?;
        assert!(self.store.commit_position(closed.journal).unwrap() > closed.position);
        let position = loop {
            match self.store.open_home(self.now, JournalId(to), closed.journal, &closed.state, &mut self.arena) {
                Ok(position) => break position,
                Err(AppendError::Busy) => self.work(left)?,
                Err(other) => panic!("{other:?}"),
            }
        };
        self.work(left)?;
        assert!(self.store.commit_position(JournalId(to)).unwrap() > position);
        Self::step(left)?;
        let end = closed.state.next_offset.0;
        if homes.last().unwrap().1 == end {
            homes.pop();
        }
        homes.push((to, end));
        self.set_metadata(homes, None);
        Ok(())
    }

    fn go(&mut self, to: u64) {
        self.lead(to, &mut usize::MAX.clone()).unwrap();
    }

    /// Every batch from the log start on, over all homes.
    fn all(&mut self) -> Vec<(i64, Vec<u8>)> {
        let bounds = self.store.bounds(MOVED).unwrap();
        let (mut from, mut all) = (bounds.log_start.0, Vec::new());
        while from < bounds.high_watermark.0 {
            let part = self.drain(MOVED.0, from);
            let (base, bytes) = part.last().unwrap_or_else(|| panic!("nothing at {from} of {bounds:?}"));
            from = base + i64::from(BatchView::check_stored(bytes).unwrap().count());
            all.extend(part);
        }
        all
    }
}

#[test]
fn a_partition_takes_everything_along() {
    let mut world = two_journals(1 << 20);
    let producer = |sequence| batch_by(5, 100, b'p', 1_000_000, idempotent(7, 1, sequence));
    world.put(1, &producer(0));
    world.settle();
    world.restart();
    world.settle();
    world.put(1, &producer(5));
    world.put(1, &batch(10, 100, b'a'));
    world.settle();
    world.store.move_start(world.now, MOVED, Offset(5), &mut world.arena).unwrap();
    world.settle();
    let before = world.all();
    world.go(2);
    for restart in [false, true, false] {
        if restart {
            world.restart();
            world.settle();
        }
        assert_eq!(world.all()[..before.len()], before[..]);
        let again = world.put(1, &producer(5));
        assert_eq!((again.duplicate, again.base_offset), (true, Offset(5)), "what it appended before it moved");
        let bounds = world.store.bounds(MOVED).unwrap();
        assert_eq!(bounds.log_start, Offset(5));
        assert_eq!(world.store.epoch_end(MOVED, Epoch(2)), Some((Epoch(2), Offset(20))), "appended in that epoch");
        assert_eq!(world.append(1, &producer(5 + 20)).unwrap_err(), AppendError::OutOfOrderSequence);
        assert_eq!(world.read(1, 4, 1000).0, ReadOutcome::OutOfRange);
    }
    let next = world.put(1, &producer(10));
    assert_eq!((next.base_offset, next.journal), (Offset(20), JournalId(2)));
    world.settle();
    assert_eq!(world.store.bounds(MOVED).unwrap().high_watermark, Offset(25));
}

#[test]
fn time_does_not_step_back_in_the_new_home() {
    let mut world = two_journals(1 << 20);
    let stamped = Arc::new(TopicConfig { timestamp_type: TimestampType::Append, ..topic() });
    world.store.set_partition(world.now, MOVED, JournalId(1), stamped.clone());
    let before = world.put(1, &batch(1, 10, b'a')).append_time;
    world.settle();
    world.go(2);
    world.now.wall = WallMs(before.0 - 5000);
    let homes = [(JournalId(1), Offset(0)), (JournalId(2), Offset(1))];
    world.store.set_homes(world.now, MOVED, &homes, None, &stamped);
    assert_eq!(world.put(1, &batch(1, 10, b'b')).append_time, before);
}

#[test]
fn a_crash_after_any_step_leaves_one_open_home_and_every_record_where_it_was() {
    let mut steps = 0;
    let mut cut_off = 0;
    loop {
        let mut ended = false;
        for checkpoints in [true, false] {
            let mut world = two_journals(256 << 10);
            for round in 0..20 {
                world.put(1, &batch_by(5, 1000, b'a', 1_000_000, idempotent(3, 0, round * 5)));
                world.put(2, &batch(5, 1000, b'n'));
                world.settle();
            }
            let before = world.all();
            let mut left = steps;
            ended = world.lead(2, &mut left).is_ok();
            if !ended {
                cut_off += 1;
                let report = world.restart_with(checkpoints).unwrap();
                assert!(report.damage.is_empty() && report.lost.is_empty(), "{report:?}");
                world.settle();
                if world.metadata().1.is_some() {
                    let late = world.append(1, &batch(1, 10, b'x')).unwrap_err();
                    assert_eq!(late, AppendError::Moving, "after {steps} steps");
                }
                let bounds = world.store.bounds(MOVED);
                assert_eq!(bounds.is_none(), world.metadata().1.is_some(), "others may know more of it");
                assert_eq!(world.drain(1, 0), before, "after {steps} steps, before it goes on");
                world.go(2);
            }
            assert_eq!(world.all(), before, "after {steps} steps");
            let again = world.put(1, &batch_by(5, 1000, b'a', 1_000_000, idempotent(3, 0, 95)));
            assert!(again.duplicate && again.base_offset == Offset(95), "{again:?}");
            let next = world.put(1, &batch_by(5, 1000, b'a', 1_000_000, idempotent(3, 0, 100)));
            assert_eq!((next.base_offset, next.journal), (Offset(100), JournalId(2)), "after {steps} steps");
            world.settle();
            world.restart_with(checkpoints).unwrap();
            world.settle();
            assert_eq!(world.all()[..20], before[..]);
            assert_eq!(world.high_watermark(1), 105);
        }
        if ended {
            break;
        }
        steps += 1;
    }
    assert!(cut_off >= 12, "only {cut_off}");
}

#[test]
fn what_is_on_its_way_when_it_closes_is_kept_and_what_comes_after_waits() {
    let mut world = two_journals(1 << 20);
    world.append(1, &batch(3, 100, b'a')).unwrap();
    world.set_metadata(vec![(1, 0)], Some(2));
    let closed = world.store.close(world.now, MOVED, JournalId(2), &mut world.arena).unwrap();
    assert_eq!(closed.state.next_offset, Offset(3), "with what is not committed yet");
    assert_eq!(world.append(1, &batch(3, 100, b'b')).unwrap_err(), AppendError::Moving);
    let start = world.store.move_start(world.now, MOVED, Offset(0), &mut world.arena);
    assert_eq!(start.unwrap_err(), AppendError::Moving);
    world.settle();
    let again = world.store.close(world.now, MOVED, JournalId(2), &mut world.arena).unwrap();
    assert_eq!((again.position, again.state), (closed.position, closed.state), "asking again says the same");
    // It stays after all.
    world.set_metadata(vec![(1, 0)], None);
    let late = world.store.close(world.now, MOVED, JournalId(2), &mut world.arena);
    assert_eq!(late.unwrap_err(), AppendError::Moved, "a word that comes late closes nothing");
    assert_eq!(world.put(1, &batch(3, 100, b'b')).base_offset, Offset(3));
    world.settle();
    world.restart();
    world.settle();
    assert_eq!(world.high_watermark(1), 6);
}

#[test]
fn it_comes_and_goes_and_each_home_keeps_its_own() {
    let mut world = two_journals(256 << 10);
    let mut sent = Vec::new();
    for round in 0..6 {
        for _ in 0..7 {
            world.put(1, &batch(3, 700, b'a' + round));
            world.put(2, &batch(3, 700, b'n'));
            world.settle();
        }
        sent = world.all();
        world.go(if round % 2 == 0 { 2 } else { 1 });
        assert_eq!(world.all(), sent, "after move {round}");
        // To go without having taken anything leaves no home behind.
        world.go(if round % 2 == 0 { 1 } else { 2 });
        world.go(if round % 2 == 0 { 2 } else { 1 });
    }
    assert_eq!(world.metadata().0.len(), 7);
    for checkpoints in [true, false, true] {
        assert_eq!(world.all(), sent);
        for (base, _) in &sent {
            assert!(matches!(world.read(1, base + 1, 1).0, ReadOutcome::Data { .. }), "at {base}");
        }
        world.restart_with(checkpoints).unwrap();
        world.settle();
    }
}

#[test]
fn old_homes_are_freed_and_forgotten_when_their_records_are_gone() {
    let mut world = two_journals(256 << 10);
    for round in 0..80 {
        world.put(1, &batch_at(5, 2000, b'a', 1_000_000 + round));
        world.settle();
    }
    world.go(2);
    for _ in 0..3 {
        world.put(1, &batch(5, 2000, b'b'));
        world.settle();
    }
    let extents = world.store.journals[0].extents.len();
    assert!(extents >= 3, "{extents}");
    // The border is crossed.
    world.store.move_start(world.now, MOVED, Offset(402), &mut world.arena).unwrap();
    world.settle();
    assert_eq!(world.store.bounds(MOVED).unwrap().log_start, Offset(402));
    let behind = Behind { first: Offset(0), log_start: Offset(402), bytes: 0 };
    let mut out = Vec::new();
    assert_eq!(world.store.expire_behind(world.now, MOVED, behind, &mut world.arena, &mut out), None);
    world.take(out);
    world.set_metadata(vec![(2, 400)], None);
    assert!(world.store.partitions.get_in(0, MOVED).is_none());
    for _ in 0..30 {
        world.now.mono = Mono(world.now.mono.0 + 1_000_000_000);
        world.housekeep();
        world.settle();
    }
    assert_eq!(world.store.journals[0].extents.len(), 1);
    world.use_freed_again();
    for checkpoints in [true, false] {
        let report = world.restart_with(checkpoints).unwrap();
        assert!(report.damage.is_empty() && report.lost.is_empty(), "{report:?}");
        world.settle();
        assert_eq!(world.all().len(), 3);
    }
}

#[test]
fn records_in_an_old_home_expire_by_time_and_by_size() {
    let mut world = two_journals(1 << 20);
    for round in 0..10 {
        world.put(1, &batch_at(5, 20_000, b'a', 1_000_000 + round * 10_000));
        world.settle();
    }
    world.go(2);
    world.put(1, &batch_at(5, 20_000, b'b', 1_000_000));
    world.settle();
    let homes = [(JournalId(1), Offset(0)), (JournalId(2), Offset(50))];
    let mut ask = |config: TopicConfig, wall: i64, bytes: u64| {
        world.now.wall = WallMs(wall);
        world.store.set_homes(world.now, MOVED, &homes, None, &Arc::new(config));
        world.housekeep();
        world.settle();
        let log_start = world.store.bounds(MOVED).unwrap().log_start;
        let behind = Behind { first: Offset(0), log_start, bytes };
        let mut out = Vec::new();
        let expired = world.store.expire_behind(world.now, MOVED, behind, &mut world.arena, &mut out);
        world.take(out);
        assert_eq!(log_start, Offset(0), "the newer home does not pass over the older one");
        expired.map(|offset| offset.0)
    };
    let by_time = TopicConfig { retention_ms: 1000, ..topic() };
    assert_eq!(ask(by_time.clone(), 1_000_500, 0), None);
    assert_eq!(ask(by_time.clone(), 1_035_000, 0), Some(20));
    assert_eq!(ask(by_time, 9_000_000, 0), Some(50));
    let by_size = TopicConfig { retention_bytes: 500_000, ..topic() };
    assert_eq!(ask(by_size.clone(), 1_000_000, 100_000), Some(30));
    assert_eq!(ask(by_size, 1_000_000, 900_000), Some(50));
}

#[test]
fn a_search_by_time_looks_into_the_home_that_is_asked_for() {
    let mut world = two_journals(1 << 20);
    for (round, to) in [2, 1, 2].into_iter().enumerate() {
        world.put(1, &batch_at(5, 100, b'a', 1_000_000 + round as i64));
        world.settle();
        world.go(to);
    }
    let mut find = |timestamp: Option<i64>, from: i64, upto: i64| {
        let mut slices = Vec::new();
        let mut out = Vec::new();
        let within = Offset(from)..Offset(upto);
        let timestamp = timestamp.map(WallMs);
        let outcome =
            world.store.find_time(world.now, MOVED, timestamp, within, &mut world.arena, &mut slices, &mut out);
        assert!(!matches!(outcome, ReadOutcome::Pending));
        slices.first().map(|slice| BatchView::first(slice).unwrap().0.base_offset())
    };
    assert_eq!(find(Some(1_000_000), 0, 5), Some(0));
    assert_eq!(find(Some(1_000_001), 0, 5), None, "what came later lies in another home, or in a later stay");
    assert_eq!(find(Some(1_000_001), 5, 10), Some(5));
    assert_eq!(find(Some(1_000_000), 10, 15), Some(10));
    assert_eq!(find(None, 0, 5), Some(0));
    assert_eq!(find(None, 10, 15), Some(10));
}

#[test]
fn a_home_whose_open_frame_is_damaged_gives_no_offset_twice() {
    let mut world = two_journals(1 << 20);
    world.put(1, &batch(50, 100, b'a'));
    world.settle();
    let before = world.commit_of(2);
    world.go(2);
    let extent = &world.store.journals[1].extents[0];
    let at = (extent.offset(before) + 200) as usize;
    world.put(2, &batch(1, 10, b'n'));
    world.settle();
    world.device.bytes[at] ^= 1;
    world.restart();
    world.settle();
    let bounds = world.store.bounds(MOVED).unwrap();
    assert!(bounds.log_end >= Offset(50), "{bounds:?}");
    assert_eq!(world.drain(1, 0).len(), 1, "the old home serves");
    assert!(world.put(1, &batch(1, 10, b'b')).base_offset >= Offset(50));
}

impl World {
    fn commit_of(&self, journal: u64) -> base::Position {
        self.store.commit_position(JournalId(journal)).unwrap()
    }
}
