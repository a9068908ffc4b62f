//! What leaves, and that nothing else does.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests"
)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::TopicConfig;
use base::{Epoch, JournalId, Mono, Offset, PartitionId, WallMs};
use protocol::batch::BatchView;

use crate::store::{ALL, AppendError, Effect, ReadOutcome};
use crate::testing::{World, batch, batch_at, batch_by, idempotent, topic};

impl World {
    fn turns(&mut self, count: usize) {
        for _ in 0..count {
            self.housekeep();
            self.settle();
        }
    }

    fn start(&self, id: u64) -> i64 {
        self.store.bounds(PartitionId(id)).unwrap().log_start.0
    }

    fn configure(&mut self, id: u64, config: TopicConfig) {
        self.store.set_partition(self.now, PartitionId(id), JournalId(1), Arc::new(config));
    }

    fn fill(&mut self, id: u64, batches: usize) {
        for _ in 0..batches {
            self.put(id, &batch(10, 1000, b'a'));
            self.settle();
        }
    }

    fn find_time(&mut self, id: u64, timestamp: Option<i64>) -> Option<i64> {
        for _ in 0..100 {
            let (mut slices, mut out) = (Vec::new(), Vec::new());
            let wanted = timestamp.map(WallMs);
            let outcome =
                self.store.find_time(self.now, PartitionId(id), wanted, ALL, &mut self.arena, &mut slices, &mut out);
            self.take(out);
            match outcome {
                ReadOutcome::Data { .. } => {
                    assert_eq!(slices.len(), 1);
                    return Some(BatchView::first(&slices[0]).unwrap().0.base_offset());
                }
                ReadOutcome::Empty => return None,
                ReadOutcome::Pending => {
                    let work = core::mem::take(&mut self.asked);
                    assert!(!work.is_empty(), "pending on nothing");
                    work.into_iter().for_each(|effect| self.perform(effect));
                }
                other => panic!("{other:?}"),
            }
        }
        panic!("pending for ever")
    }
}

#[test]
fn records_leave_by_time_and_their_extents_are_used_again() {
    let mut world = World::new(256 << 10);
    world.configure(1, TopicConfig { retention_ms: 10_000, ..topic() });
    let now = world.now.wall.0;
    for i in 0..100 {
        world.now.wall = WallMs(now + i * 1000);
        world.put(1, &batch_at(10, 1000, b'a', now + i * 1000));
        world.settle();
        world.turns(1);
    }
    world.turns(10);
    let start = world.start(1);
    // The last ten seconds are ten batches; runs are up to 64 KiB and ten seconds long.
    assert!((700..=890).contains(&start), "{start}");
    assert!(world.freed.len() >= 2, "{:?}", world.freed);
    assert_eq!(world.drain(1, start).len() as i64, (1000 - start) / 10);
    let bytes = world.store.bounds(PartitionId(1)).unwrap().bytes;
    let kept: usize = world.drain(1, start).iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(bytes, kept as u64);
    assert!(world.store.journals[0].extents.len() <= 4);
}

#[test]
fn records_leave_by_size() {
    let mut world = World::new(256 << 10);
    world.configure(1, TopicConfig { retention_bytes: 200_000, ..topic() });
    for _ in 0..100 {
        world.fill(1, 1);
        world.turns(1);
    }
    world.turns(10);
    let bounds = world.store.bounds(PartitionId(1)).unwrap();
    assert!(bounds.bytes >= 200_000 && bounds.bytes < 200_000 + (128 << 10), "{}", bounds.bytes);
    assert!(world.freed.len() >= 2);
}

#[test]
fn without_limits_nothing_leaves() {
    let mut world = World::new(256 << 10);
    world.now.wall = WallMs(1 << 50);
    world.fill(1, 60);
    world.turns(20);
    assert_eq!((world.start(1), world.freed.len()), (0, 0));
    assert_eq!(world.drain(1, 0).len(), 60);
}

#[test]
fn deleted_records_never_return_and_idle_partitions_outlive_their_extents() {
    for checkpoints in [true, false] {
        let mut world = World::new(256 << 10);
        // Partition 2 has a few records and a producer at the very beginning; 3 has its start moved.
        world.put(2, &batch_by(5, 10, b'b', 0, idempotent(9, 2, 0)));
        world.put(3, &batch(8, 10, b'c'));
        world.settle();
        world.store.move_start(world.now, PartitionId(2), Offset(5), &mut world.arena).unwrap();
        world.store.move_start(world.now, PartitionId(3), Offset(8), &mut world.arena).unwrap();
        world.settle();
        world.fill(1, 60);
        world.store.move_start(world.now, PartitionId(1), Offset(500), &mut world.arena).unwrap();
        world.settle();
        world.turns(20);
        assert!(!world.freed.is_empty());
        for _ in 0..3 {
            let report = world.restart_with(checkpoints).unwrap();
            assert!(report.damage.is_empty() && report.lost.is_empty(), "{report:?}");
            world.settle();
            world.turns(3);
            let bounds = |id| world.store.bounds(PartitionId(id)).unwrap();
            assert_eq!((bounds(1).log_start, bounds(1).log_end), (Offset(500), Offset(600)));
            assert_eq!((bounds(2).log_start, bounds(2).log_end), (Offset(5), Offset(5)));
            assert_eq!((bounds(3).log_start, bounds(3).log_end), (Offset(8), Offset(8)));
            let again = world.put(2, &batch_by(5, 10, b'b', 0, idempotent(9, 2, 0)));
            assert!(again.duplicate && again.base_offset == Offset(0));
            assert_eq!(world.drain(1, 500).len(), 10);
        }
        assert_eq!(world.put(2, &batch_by(1, 10, b'b', 0, idempotent(9, 2, 5))).base_offset, Offset(5));
    }
}

#[test]
fn an_extent_in_the_middle_is_freed_and_a_start_without_a_checkpoint_does_not_miss_it() {
    let mut world = World::new(256 << 10);
    world.fill(2, 5);
    world.fill(1, 100);
    world.fill(2, 5);
    world.fill(1, 60);
    let before = world.drain(2, 0);
    world.store.move_start(world.now, PartitionId(1), Offset(1600), &mut world.arena).unwrap();
    world.settle();
    world.turns(30);
    assert!(world.freed.len() >= 3, "{:?}", world.freed);
    let first = world.store.journals[0].extents[0].start.position.0;
    assert_eq!(first, 0, "partition 2 lives in the first extent");
    for checkpoints in [false, true, false] {
        let report = world.restart_with(checkpoints).unwrap();
        assert!(report.damage.is_empty() && report.lost.is_empty(), "{report:?}");
        world.settle();
        assert_eq!(world.drain(2, 0), before);
        assert_eq!((world.start(1), world.high_watermark(1)), (1600, 1600));
        world.turns(3);
    }
}

#[test]
fn a_deleted_partition_holds_no_space() {
    let mut world = World::new(256 << 10);
    world.fill(1, 60);
    world.store.delete_partition(world.now, PartitionId(1));
    world.turns(10);
    assert!(world.freed.len() >= 2);
    assert_eq!(world.store.bounds(PartitionId(1)), None);
    assert_eq!(world.append(1, &batch(1, 1, b'a')), Err(AppendError::UnknownPartition));
}

#[test]
fn a_full_device_frees_itself_by_deletion() {
    let mut world = World::new(256 << 10);
    let sent = batch(10, 9000, b'a');
    let mut full = false;
    for _ in 0..1000 {
        match world.append(1, &sent) {
            Ok(_) => {}
            Err(AppendError::Busy) => world.settle(),
            Err(error) => {
                full = error == AppendError::Full;
                break;
            }
        }
    }
    assert!(full);
    world.settle();
    // A restart on the full device serves, and deletes.
    let end = world.high_watermark(1);
    world.restart();
    world.settle();
    assert_eq!(world.high_watermark(1), end);
    assert!(matches!(world.read(1, 0, 100).0, ReadOutcome::Data { .. }));
    let mut moved = false;
    for _ in 0..20 {
        moved |= world.store.move_start(world.now, PartitionId(1), Offset(end), &mut world.arena).is_ok();
        world.now.mono = Mono(world.now.mono.0 + 1_000_000_000);
        world.turns(2);
    }
    assert!(moved);
    assert_eq!(world.start(1), end);
    assert!(world.freed.len() > 30, "{}", world.freed.len());
    assert_eq!(world.put(1, &sent).base_offset, Offset(end));
}

#[test]
fn the_first_batch_at_or_after_a_time_and_the_one_with_the_highest_are_found() {
    for cold in [false, true] {
        let mut world = World::new(256 << 10);
        for i in 0..100i64 {
            // Rising by ten, but for one in the middle that lies far ahead.
            let timestamp = if i == 40 { 100_000 } else { 1000 + i * 10 };
            world.put(1, &batch_at(10, 1000, b'a', timestamp));
            world.put(2, &batch_at(1, 10, b'a', 7));
            world.settle();
        }
        world.turns(10);
        if cold {
            world.restart();
            world.settle();
        }
        assert_eq!(world.find_time(1, Some(0)), Some(0));
        assert_eq!(world.find_time(1, Some(1000 + 200)), Some(200));
        assert_eq!(world.find_time(1, Some(1000 + 201)), Some(210));
        assert_eq!(world.find_time(1, Some(1000 + 980)), Some(400), "40 comes first");
        assert_eq!(world.find_time(1, Some(200_000)), None);
        assert_eq!(world.find_time(1, None), Some(400));
        assert_eq!(world.find_time(2, None), Some(0), "the first of equals");
        assert_eq!(world.find_time(3, None), None);
    }
}

#[test]
fn a_search_by_time_passes_over_what_is_deleted_and_what_is_not_committed() {
    for cold in [false, true] {
        let mut world = World::new(1 << 20);
        for timestamp in [9000, 100, 8000, 7000] {
            world.put(1, &batch_at(10, 10, b'a', timestamp));
            world.settle();
            // Each two batches are a run of the index.
            world.now.wall.0 += if timestamp == 100 { 20_000 } else { 0 };
        }
        world.store.move_start(world.now, PartitionId(1), Offset(10), &mut world.arena).unwrap();
        world.settle();
        if cold {
            world.restart();
            world.settle();
        }
        assert_eq!(world.start(1), 10);
        assert_eq!(world.find_time(1, Some(7500)), Some(20), "the first run has it in what is deleted only");
        assert_eq!(world.find_time(1, None), Some(20));
        world.append(1, &batch_at(10, 10, b'a', 50_000)).unwrap();
        assert_eq!(world.find_time(1, None), Some(20), "the last run has more in what is not committed only");
        assert_eq!(world.find_time(1, Some(10_000)), None);
        world.settle();
        assert_eq!(world.find_time(1, None), Some(40));
        assert_eq!(world.find_time(1, Some(10_000)), Some(40));
    }
}

#[test]
fn an_orderly_stop_ends_with_a_closing_unit_and_a_checkpoint_and_the_next_start_reads_next_to_nothing() {
    let mut world = World::new(1 << 20);
    world.fill(1, 30);
    let mut out = Vec::new();
    assert!(world.store.is_quiet());
    world.append(2, &batch(1, 1, b'z')).unwrap();
    world.store.stop(world.now, &mut world.arena, &mut out);
    assert!(!world.store.is_quiet());
    world.take(out);
    world.settle();
    assert!(world.store.is_quiet());
    let end = world.commit();
    let report = world.restart();
    assert_eq!((report.end, report.commit, report.scanned_from), (end, end, end));
    assert_eq!(report.units, 0);
    assert_eq!(world.high_watermark(2), 1);
}

#[test]
fn an_idle_log_is_closed_once() {
    let mut world = World::new(1 << 20);
    world.fill(1, 1);
    let end = world.commit();
    world.turns(3);
    assert_eq!(world.commit(), end, "not idle yet");
    world.now.mono = world.now.mono.plus_ms(1000);
    world.turns(3);
    assert_eq!(world.commit(), end.plus(4096), "one closing unit");
    world.now.mono = world.now.mono.plus_ms(5000);
    world.turns(3);
    assert_eq!(world.commit(), end.plus(4096));
    let report = world.restart_with(false).unwrap();
    assert_eq!(report.commit, end, "the closing unit says all before it is committed");
}

#[test]
fn footers_are_read_again_after_a_start_and_when_the_cache_is_small() {
    let mut world = World::new(256 << 10);
    for round in 0..40 {
        for id in 1..=3 {
            world.fill(id, 1 + round % 2);
        }
        world.turns(1);
    }
    let before: Vec<_> = (1..=3).map(|id| world.drain(id, 0)).collect();
    world.turns(10);
    assert!(world.store.journals[0].extents.len() > 6);
    world.restart_with(true).unwrap();
    world.store.config.footer_cache_bytes = 1;
    world.settle();
    for id in 1..=3 {
        assert_eq!(world.drain(id, 0), before[id as usize - 1]);
        let (outcome, slices) = world.read(id, 333, 10);
        assert!(matches!(outcome, ReadOutcome::Data { .. }));
        assert_eq!(BatchView::first(&slices[0]).unwrap().0.base_offset(), 330);
    }
}

/// Fills partition 1 until there are so many extents.
fn fill_extents(world: &mut World, count: usize) {
    while world.store.journals[0].extents.len() < count {
        world.fill(1, 1);
    }
}

fn delete(world: &mut World, id: u64, to: i64) {
    world.store.move_start(world.now, PartitionId(id), Offset(to), &mut world.arena).unwrap();
    world.settle();
}

#[test]
fn a_log_start_stands_for_no_end_when_the_records_before_it_go() {
    let mut world = World::new(256 << 10);
    world.put(2, &batch(10, 100, b'x'));
    fill_extents(&mut world, 3);
    // The newest frame of both states a log start, in an extent behind the records.
    delete(&mut world, 2, 10);
    let end = world.high_watermark(1);
    delete(&mut world, 1, end);
    world.turns(20);
    assert!(!world.freed.is_empty());
    world.use_freed_again();
    world.restart_with(false).unwrap();
    world.settle();
    let bounds = |id| world.store.bounds(PartitionId(id)).unwrap();
    assert_eq!((bounds(1).log_start, bounds(1).log_end), (Offset(end), Offset(end)));
    assert_eq!((bounds(2).log_start, bounds(2).log_end), (Offset(10), Offset(10)));
    assert_eq!(world.store.epoch_end(PartitionId(2), Epoch(9)), Some((Epoch(1), Offset(10))), "its epochs stay known");
}

#[test]
fn a_log_start_outlives_the_extents_that_state_it_whatever_was_restarted_between() {
    for restarts in [0, 1, 2] {
        let mut world = World::new(256 << 10);
        // Partition 3 keeps the first extent, in which deleted records of partition 2 lie.
        world.fill(3, 1);
        world.fill(2, 2);
        fill_extents(&mut world, 2);
        delete(&mut world, 2, 20);
        fill_extents(&mut world, 5);
        world.fill(2, 1);
        world.turns(3);
        for _ in 0..restarts {
            world.restart_with(true).unwrap();
            world.settle();
        }
        assert_eq!(world.start(2), 20);
        let end = world.high_watermark(1);
        delete(&mut world, 1, end);
        fill_extents(&mut world, 7);
        world.turns(30);
        assert!(world.freed.len() >= 2, "{restarts}: {:?}", world.freed);
        world.use_freed_again();
        world.restart_with(false).unwrap();
        world.settle();
        assert_eq!((world.start(2), world.high_watermark(2)), (20, 30), "{restarts} restarts");
        assert_eq!(world.drain(3, 0).len(), 1);
    }
}

#[test]
fn a_checkpoint_is_not_one_of_the_two_that_state_a_log_start() {
    // What is damaged in the end: the unit that moved it, or the one that stated it again after the start.
    for harmed in [0, 1] {
        let mut world = World::new(1 << 20);
        while world.commit().0 < 300 << 10 {
            world.fill(1, 1);
        }
        world.store.move_start(world.now, PartitionId(1), Offset(20), &mut world.arena).unwrap();
        let first = world.commit();
        // Its write and flush, and no more.
        for _ in 0..2 {
            world.pump();
            for effect in core::mem::take(&mut world.asked) {
                world.perform(effect);
            }
        }
        assert_eq!((world.commit(), world.start(1)), (first.plus(4096), 0));
        world.housekeep();
        let due = core::mem::take(&mut world.asked);
        for effect in due.into_iter().filter(|effect| matches!(effect, Effect::Checkpoint { .. })) {
            world.perform(effect);
        }
        // The power goes before another unit states it.
        assert!(world.restart_with(true).unwrap().checkpoint, "it was written");
        world.settle();
        assert_eq!((world.start(1), world.store.sure_start(PartitionId(1))), (20, Some(Offset(20))));
        world.fill(1, 2);
        // An epoch start has a unit of its own.
        let at = if harmed == 0 { first } else { first.plus(2 * 4096) };
        let extent = &world.store.journals[0].extents[0];
        let byte = extent.offset(at) as usize;
        world.device.bytes[byte + 50] ^= 1;
        let report = world.restart_with(false).unwrap();
        assert_eq!((report.damage.len(), report.damage[0].start), (1, at));
        world.settle();
        assert_eq!(world.start(1), 20, "unit {harmed} is damaged");
    }
}

#[test]
fn a_snapshot_behind_a_checkpoint_does_not_undo_what_the_checkpoint_knows() {
    let mut world = World::new(256 << 10);
    world.put(2, &batch_by(5, 10, b'b', 0, idempotent(9, 2, 0)));
    world.settle();
    // The checkpoint ends before the unit that is open, and its state holds what came behind the snapshot.
    world.store.snapshot(world.now, 0, PartitionId(2), &mut world.arena).unwrap();
    let sent = batch_by(5, 10, b'b', 0, idempotent(9, 2, 5));
    assert_eq!(world.put(2, &sent).base_offset, Offset(5));
    for _ in 0..2 {
        let mut out = Vec::new();
        world.store.checkpoint(0, true, &mut out);
        world.take(out);
        world.settle();
    }
    assert_eq!(world.checkpoints.len(), 1);
    let report = world.restart();
    assert!(report.checkpoint && report.units > 0, "{report:?}");
    world.settle();
    let again = world.put(2, &sent);
    assert!(again.duplicate && again.base_offset == Offset(5), "{again:?}");
    assert_eq!(world.high_watermark(2), 10);
}

#[test]
fn bytes_are_those_of_what_is_kept_after_many_extents_were_deleted_at_once() {
    for checkpoints in [true, false] {
        let mut world = World::new(256 << 10);
        for _ in 0..12 {
            world.fill(1, 10);
            world.fill(2, 2);
        }
        world.store.move_start(world.now, PartitionId(1), Offset(1105), &mut world.arena).unwrap();
        world.settle();
        // Counting goes on over a restart.
        world.turns(2);
        world.restart_with(checkpoints).unwrap();
        world.settle();
        world.turns(40);
        let bytes = world.store.bounds(PartitionId(1)).unwrap().bytes;
        let kept: usize = world.drain(1, 1105).iter().map(|(_, bytes)| bytes.len()).sum();
        let run = 128 << 10;
        assert!(bytes >= kept as u64 && bytes <= kept as u64 + run, "{bytes} for {kept}");
        let bytes = world.store.bounds(PartitionId(2)).unwrap().bytes;
        let kept: usize = world.drain(2, 0).iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(bytes, kept as u64);
        world.turns(40);
        assert!(world.store.journals[0].extents.len() <= 6);
    }
}

#[test]
fn a_deletion_of_very_many_runs_gives_its_space_back_within_few_turns() {
    let mut world = World::new(256 << 10);
    // Every batch is a run of its own: they lie more than ten seconds apart.
    let mut batches = 0;
    while world.store.journals[0].extents.len() < 12 {
        world.now.wall = WallMs(world.now.wall.0 + 20_000);
        world.put(1, &batch_at(1, 2000, b'a', world.now.wall.0));
        world.settle();
        batches += 1;
    }
    assert!(batches > 600, "{batches}");
    let end = world.high_watermark(1);
    world.store.move_start(world.now, PartitionId(1), Offset(end), &mut world.arena).unwrap();
    world.settle();
    world.turns(40);
    assert_eq!(world.store.bounds(PartitionId(1)).unwrap().bytes, 0);
    assert!(world.store.journals[0].extents.len() <= 3, "{}", world.store.journals[0].extents.len());
}
