//! The store against a device that does one thing at a time.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests"
)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::{TimestampType, TopicConfig};
use base::memory::{Arena as _, Purpose};
use base::{DeviceIndex, Epoch, JournalId, Offset, PartitionId, Position, WallMs};
use protocol::batch::{self, BatchView};

use super::*;
use crate::format::{CheckpointFold, SECTOR};
use crate::testing::{SUMS, World, batch, batch_at, batch_by, entry, idempotent, topic};

fn is_write(effect: &Effect) -> bool {
    matches!(effect, Effect::Write { .. })
}

fn is_flush(effect: &Effect) -> bool {
    matches!(effect, Effect::Flush { .. })
}

#[test]
fn what_is_appended_is_read_back_once_committed_with_offsets_and_epoch_stamped() {
    let mut world = World::new(1 << 20);
    let sent = batch(10, 100, b'a');
    let first = world.append(1, &sent).unwrap();
    let second = world.append(1, &batch(5, 100, b'b')).unwrap();
    assert_eq!((first.base_offset, second.base_offset), (Offset(0), Offset(10)));
    assert!(first.position < second.position && !first.duplicate);
    assert_eq!(world.read(1, 0, 1000).0, ReadOutcome::Empty, "nothing is committed yet");
    assert!(world.commit() <= first.position);
    world.settle();
    assert!(world.commit() > second.position);
    let read = world.drain(1, 0);
    assert_eq!(read.iter().map(|(base, _)| *base).collect::<Vec<_>>(), [0, 10]);
    assert_eq!(read[0].1[batch::CRC..], sent[batch::CRC..], "what the CRC covers is as sent");
    assert_eq!(BatchView::check_stored(&read[0].1).unwrap().leader_epoch(), 1);
    let bounds = world.store.bounds(PartitionId(1)).unwrap();
    assert_eq!((bounds.log_start, bounds.high_watermark, bounds.log_end), (Offset(0), Offset(15), Offset(15)));
    assert_eq!(bounds.bytes, read.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>());
    assert_eq!(world.store.epoch_end(PartitionId(1), Epoch(1)), Some((Epoch(1), Offset(15))));
    let advanced = world.told.iter().filter(|told| matches!(told, Effect::Advanced { .. })).count();
    assert_eq!(advanced, 1, "one commit announces a partition once");
}

#[test]
fn a_read_begins_at_the_batch_that_holds_the_offset_and_stops_before_the_limit() {
    let mut world = World::new(1 << 20);
    let sent = batch(10, 100, b'a');
    for _ in 0..20 {
        world.put(1, &sent);
        world.put(2, &sent);
    }
    world.settle();
    let (outcome, slices) = world.read(1, 95, sent.len() * 3 + 10);
    assert_eq!(outcome, ReadOutcome::Data { bytes: sent.len() * 3 });
    let bases: Vec<i64> = slices.iter().map(|slice| BatchView::first(slice).unwrap().0.base_offset()).collect();
    assert_eq!(bases, [90, 100, 110]);
    let (outcome, slices) = world.read(1, 42, 1);
    assert_eq!((outcome, slices.len()), (ReadOutcome::Data { bytes: sent.len() }, 1), "one at least");
    assert_eq!(world.read(1, 200, 1000).0, ReadOutcome::Empty);
    assert_eq!(world.read(1, 201, 1000).0, ReadOutcome::OutOfRange);
    assert_eq!(world.read(9, 0, 1000).0, ReadOutcome::UnknownPartition);
}

#[test]
fn nothing_is_committed_by_a_flush_submitted_before_the_write_was_complete() {
    let mut world = World::new(1 << 20);
    world.append(1, &batch(1, 10, b'a')).unwrap();
    world.pump();
    let first = world.asked.pop().unwrap();
    assert!(is_write(&first) && world.asked.is_empty());
    world.perform(first);
    world.append(2, &batch(1, 10, b'b')).unwrap();
    world.pump();
    // A flush for the first unit, and the second unit's write.
    let flush = world.asked.remove(world.asked.iter().position(is_flush).unwrap());
    let second = world.asked.pop().unwrap();
    assert!(is_write(&second));
    world.perform(second);
    world.pump();
    assert!(world.asked.is_empty(), "one flush flies at a time");
    world.perform(flush);
    assert_eq!((world.high_watermark(1), world.high_watermark(2)), (1, 0));
    world.pump();
    let flush = world.asked.pop().unwrap();
    assert!(is_flush(&flush));
    world.perform(flush);
    assert_eq!(world.high_watermark(2), 1);
}

#[test]
fn only_the_prefix_without_a_gap_is_committed() {
    let mut world = World::new(1 << 20);
    let mut writes = Vec::new();
    for id in 1..=3 {
        world.append(id, &batch(1, 10, b'a')).unwrap();
        world.pump();
        writes.push(world.asked.pop().unwrap());
    }
    world.perform(writes.pop().unwrap());
    world.perform(writes.pop().unwrap());
    world.pump();
    let flush = world.asked.pop().unwrap();
    world.perform(flush);
    assert_eq!((1..=3).map(|id| world.high_watermark(id)).collect::<Vec<_>>(), [0, 0, 0], "the first is missing");
    world.perform(writes.pop().unwrap());
    world.settle();
    assert_eq!((1..=3).map(|id| world.high_watermark(id)).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn at_most_k_writes_fly_and_what_gathers_meanwhile_is_one_unit() {
    let mut world = World::new(1 << 20);
    for _ in 0..4 {
        world.append(1, &batch(1, 10, b'a')).unwrap();
        world.pump();
    }
    assert_eq!(world.asked.iter().filter(|effect| is_write(effect)).count(), 4);
    for _ in 0..50 {
        world.append(1, &batch(1, 10, b'b')).unwrap();
        world.pump();
    }
    assert_eq!(world.asked.len(), 4, "four fly; the rest waits");
    let first = world.asked.remove(0);
    world.perform(first);
    world.settle();
    assert_eq!(world.high_watermark(1), 54);
    let sectors = world.commit().0 / SECTOR as u64;
    assert_eq!(sectors, 1 + 4 + 2, "epoch start, four single ones, fifty together in two sectors");
}

#[test]
fn bad_batches_get_their_names_and_leave_nothing() {
    let mut world = World::new(1 << 20);
    let good = batch(3, 50, b'a');
    let mut torn = good.clone();
    *torn.last_mut().unwrap() ^= 1;
    let before = world.append(1, &good).unwrap();
    assert_eq!(world.append(1, &torn), Err(AppendError::Corrupt));
    assert_eq!(world.append(3, &torn), Err(AppendError::Corrupt));
    assert_eq!(world.append(7, &good), Err(AppendError::UnknownPartition));
    assert_eq!(world.append(1, &batch(1, 1 << 20, b'x')), Err(AppendError::TooLarge));
    let after = world.append(1, &good).unwrap();
    assert_eq!((before.base_offset, after.base_offset), (Offset(0), Offset(3)));
    world.settle();
    assert_eq!(world.drain(1, 0).len(), 2);
    assert_eq!(world.drain(3, 0).len(), 0);
    // A header that lies about its sequence is corrupt, not out of order.
    let mut lying = batch_by(1, 10, b'a', 0, idempotent(5, 0, 0));
    world.append(1, &lying).unwrap();
    lying[batch::BASE_SEQUENCE + 3] = 9;
    assert_eq!(world.append(1, &lying), Err(AppendError::Corrupt));
    let gap = batch_by(1, 10, b'a', 0, idempotent(5, 0, 9));
    assert_eq!(world.append(1, &gap), Err(AppendError::OutOfOrderSequence));
}

#[test]
fn an_extent_that_began_with_bad_batches_and_no_memory_gets_its_header_all_the_same() {
    let mut world = World::new(4 << 20);
    let filler = batch(1, 900_000, b'f');
    let mut torn = filler.clone();
    // A byte of the value: only the CRC tells, and that is made while the batch is copied.
    let value = torn.len() - 10;
    torn[value] ^= 1;
    loop {
        match world.append(2, &torn) {
            Err(AppendError::Corrupt) if world.store.journals[0].extents.len() > 1 => break,
            Err(AppendError::Corrupt) => {
                world.put(1, &filler);
            }
            Err(AppendError::Busy) => {}
            other => panic!("{other:?}"),
        }
        world.settle();
    }
    // The torn batch began an extent. One larger than its first chunk finds no memory, and a small one comes next.
    let mut taken = Vec::new();
    while let Some(block) = world.store.take_block(SECTOR, &mut world.arena) {
        taken.push(block);
    }
    assert_eq!(world.append(1, &batch(1, 1_046_000, b'l')), Err(AppendError::Busy));
    world.append(1, &batch(1, 10, b's')).unwrap();
    taken.into_iter().for_each(|block| base::memory::Arena::free(&mut world.arena, block));
    world.settle();
    let end = world.high_watermark(1);
    world.restart_with(false).unwrap();
    assert_eq!(world.high_watermark(1), end);
    assert_eq!(world.drain(1, 0).len() as i64, end);
}

#[test]
fn timestamps_outside_the_bounds_are_refused_and_a_wrong_maximum_is_corrected() {
    let mut world = World::new(1 << 20);
    let bounded = TopicConfig { timestamp_before_ms_max: 1000, timestamp_after_ms_max: 10, ..topic() };
    world.store.set_partition(world.now, PartitionId(1), JournalId(1), Arc::new(bounded));
    let now = world.now.wall.0;
    assert_eq!(world.append(1, &batch_at(1, 1, b'a', now - 1001)), Err(AppendError::Timestamp));
    assert_eq!(world.append(1, &batch_at(1, 1, b'a', now + 11)), Err(AppendError::Timestamp));
    assert!(world.append(1, &batch_at(1, 1, b'a', now - 1000)).is_ok());
    assert!(world.append(1, &batch_at(1, 1, b'a', -1)).is_ok());
    let mut lying = batch_at(1, 1, b'a', now);
    batch::stamp_max_timestamp(&mut lying, now + 5_000_000, &SUMS).unwrap();
    world.append(1, &lying).unwrap();
    world.settle();
    let (_, stored) = world.drain(1, 2).pop().unwrap();
    assert_eq!(BatchView::check_stored(&stored).unwrap().max_timestamp(), now);
}

#[test]
fn append_time_is_stamped_and_never_steps_back() {
    let mut world = World::new(1 << 20);
    let stamped = TopicConfig { timestamp_type: TimestampType::Append, ..topic() };
    world.store.set_partition(world.now, PartitionId(1), JournalId(1), Arc::new(stamped));
    let mut times = Vec::new();
    for wall in [1_000_000, 999_000, 1_000_500] {
        world.now.wall = WallMs(wall);
        times.push(world.append(1, &batch_at(2, 10, b'a', 5)).unwrap().append_time.0);
    }
    assert_eq!(times, [1_000_000, 1_000_000, 1_000_500]);
    world.settle();
    for ((_, bytes), time) in world.drain(1, 0).iter().zip(times) {
        let view = BatchView::check_stored(bytes).unwrap();
        assert!(view.is_append_time() && view.max_timestamp() == time);
    }
}

#[test]
fn a_duplicate_waits_for_the_position_of_the_original() {
    let mut world = World::new(1 << 20);
    let first = world.append(1, &batch_by(4, 10, b'a', 0, idempotent(7, 0, 0))).unwrap();
    world.append(1, &batch_by(1, 10, b'b', 0, idempotent(7, 0, 4))).unwrap();
    let again = world.append(1, &batch_by(4, 10, b'a', 0, idempotent(7, 0, 0))).unwrap();
    assert_eq!(again, Appended { duplicate: true, ..first });
    assert!(world.commit() <= again.position, "not to be acked yet");
    world.settle();
    assert!(world.commit() > again.position);
    assert_eq!(world.high_watermark(1), 5);
    assert_eq!(world.store.producers(PartitionId(1))[0].last_sequence, 4);
}

#[test]
fn a_log_longer_than_an_extent_goes_on_in_the_next_and_positions_do_not_notice() {
    let mut world = World::new(256 << 10);
    let sent = batch(10, 1000, b'a');
    let mut last = Position(0);
    for i in 0..200 {
        let appended = world.put(1 + i % 3, &sent);
        assert!(appended.position > last);
        last = appended.position;
    }
    world.settle();
    assert!(world.commit().0 > 7 * (256 << 10));
    for id in 1..=3 {
        let bases: Vec<i64> = world.drain(id, 0).iter().map(|(base, _)| *base).collect();
        assert_eq!(bases, (0..bases.len() as i64).map(|i| i * 10).collect::<Vec<_>>());
    }
}

#[test]
fn a_batch_larger_than_a_unit_gets_one_of_its_own() {
    let mut world = World::new(4 << 20);
    world.put(1, &batch(1, 100, b'a'));
    world.put(1, &batch(1, 1_000_000, b'b'));
    world.put(1, &batch(1, 100, b'c'));
    world.settle();
    let sizes: Vec<usize> = world.drain(1, 0).iter().map(|(_, bytes)| bytes.len()).collect();
    assert!(sizes.len() == 3 && sizes[1] > 1_000_000, "{sizes:?}");
}

#[test]
fn a_failed_write_fences_its_journal_and_commits_nothing_behind_it() {
    let mut world = World::new(1 << 20);
    world.append(1, &batch(1, 10, b'a')).unwrap();
    world.pump();
    let Some(Effect::Write { token, .. }) = world.asked.pop() else { panic!("a write") };
    world.append(2, &batch(1, 10, b'b')).unwrap();
    world.pump();
    let second = world.asked.pop().unwrap();
    world.tell(Event::Written { token, result: Err("EIO".into()) });
    assert!(world.told.iter().any(|told| matches!(told, Effect::Fenced { journal: JournalId(1), .. })));
    world.perform(second);
    world.settle();
    assert_eq!((world.high_watermark(1), world.high_watermark(2)), (0, 0));
    assert_eq!(world.append(1, &batch(1, 10, b'a')), Err(AppendError::Fenced));
}

#[test]
fn a_failed_flush_fences_journals_with_uncovered_writes_only_and_is_never_retried() {
    let mut world = World::new(1 << 20);
    let mut out = Vec::new();
    world.store.create_journal(world.now, &entry(2, 1), &mut out);
    world.take(out);
    world.settle();
    world.append(1, &batch(1, 10, b'a')).unwrap();
    world.pump();
    let write = world.asked.pop().unwrap();
    world.perform(write);
    world.pump();
    let Some(Effect::Flush { token, device }) = world.asked.pop() else { panic!("a flush") };
    world.tell(Event::Flushed { token, result: Err("EIO".into()) });
    assert_eq!(device, DeviceIndex(0));
    let fenced = |world: &World, id: u64| {
        world.told.iter().any(|told| matches!(told, Effect::Fenced { journal, .. } if journal.0 == id))
    };
    assert!(fenced(&world, 1) && !fenced(&world, 2));
    assert!(world.told.iter().any(|told| matches!(told, Effect::DeviceFailed { .. })));
    world.settle();
    assert_eq!(world.high_watermark(1), 0);
    // The other journal had nothing at stake and goes on.
    world.store.set_partition(world.now, PartitionId(20), JournalId(2), Arc::new(topic()));
    world.append(20, &batch(1, 10, b'a')).unwrap();
    world.settle();
    assert_eq!(world.high_watermark(20), 1);
}

#[test]
fn a_flush_that_failed_on_another_shard_fences_what_is_not_covered_here() {
    let mut world = World::new(1 << 20);
    world.append(1, &batch(1, 10, b'a')).unwrap();
    world.pump();
    let write = world.asked.pop().unwrap();
    world.perform(write);
    world.pump();
    let flush = world.asked.pop().unwrap();
    world.tell(Event::DeviceFailed { device: DeviceIndex(0), reason: "EIO".into() });
    world.perform(flush);
    assert_eq!(world.high_watermark(1), 0, "a flush after the failed one proves nothing");
    assert_eq!(world.append(1, &batch(1, 10, b'a')), Err(AppendError::Fenced));
}

#[test]
fn fua_and_write_through_commit_without_a_flush() {
    for durability in [Durability::Fua, Durability::WriteThrough] {
        let mut world = World::new(1 << 20);
        world.store.lanes[0].durability = durability;
        world.append(1, &batch(1, 10, b'a')).unwrap();
        world.pump();
        let write = world.asked.pop().unwrap();
        assert!(matches!(write, Effect::Write { fua, .. } if fua == (durability == Durability::Fua)));
        world.perform(write);
        assert_eq!(world.high_watermark(1), 1);
        world.pump();
        assert!(world.asked.is_empty());
    }
}

#[test]
fn a_new_journals_units_wait_until_both_slots_hold_its_state() {
    let mut world = World::new(1 << 20);
    let mut out = Vec::new();
    world.store.create_journal(world.now, &entry(2, 1), &mut out);
    world.take(out);
    let mut offsets = Vec::new();
    for _ in 0..20 {
        world.pump();
        if world.asked.is_empty() {
            break;
        }
        let effect = world.asked.remove(0);
        match &effect {
            Effect::Write { offset, .. } => offsets.push(*offset),
            Effect::Flush { .. } => offsets.push(0),
            _ => {}
        }
        world.perform(effect);
    }
    let label = world.store.devices[0].label;
    let extents = label.extents_offset;
    assert_eq!(offsets[..4], [label.slot_at(1, false), 0, label.slot_at(1, true), 0]);
    assert!(offsets[4] >= extents && offsets[5] == 0 && offsets.len() == 6, "{offsets:?}");
}

#[test]
fn the_tails_memory_is_bounded_and_committed_chunks_make_room() {
    let mut world = World::new(32 << 20);
    let sent = batch(10, 10_000, b'a');
    for _ in 0..400 {
        world.put(1, &sent);
        world.settle();
    }
    let journal = &world.store.journals[0];
    assert!(journal.chunks.len() <= 16 && journal.chunks.len() > 8);
    assert_eq!(journal.frames.len() as u64, journal.frames_end() - journal.frames_first);
    let oldest = journal.frames.front().unwrap().base.0;
    assert!(oldest > 0);
    assert_eq!(world.read(1, oldest, 10).0, ReadOutcome::Data { bytes: sent.len() });
    assert!(world.store.has_room(&world.arena, 1 << 20));
    // Uncommitted data cannot be dropped.
    let mut taken = 0;
    while world.append(1, &sent).is_ok() {
        taken += 1;
        assert!(taken < 1000);
    }
    assert_eq!(world.append(1, &sent), Err(AppendError::Busy));
    assert!(!world.store.has_room(&world.arena, 1 << 20));
    world.settle();
    assert_eq!(world.high_watermark(1), 4000 + taken * 10);
    assert!(world.store.has_room(&world.arena, 1 << 20));
}

#[test]
fn a_moved_log_start_shows_once_two_committed_units_state_it() {
    let mut world = World::new(1 << 20);
    for _ in 0..3 {
        world.put(1, &batch(10, 10, b'a'));
    }
    world.settle();
    let before = world.commit();
    let moved = world.store.move_start(world.now, PartitionId(1), Offset(15), &mut world.arena);
    assert_eq!(moved, Ok((Offset(15), JournalId(1))));
    let start = |world: &World| {
        let (id, shown) = (PartitionId(1), world.store.bounds(PartitionId(1)).unwrap().log_start);
        assert_eq!(world.store.sure_start(id), Some(shown));
        shown
    };
    // Write and flush of the unit that states it, then of the one that states it again.
    for _ in 0..2 {
        for _ in 0..2 {
            assert_eq!(start(&world), Offset(0));
            world.pump();
            for effect in core::mem::take(&mut world.asked) {
                world.perform(effect);
            }
        }
    }
    assert_eq!((start(&world), world.commit()), (Offset(15), before.plus(2 * 4096)));
    world.settle();
    assert_eq!(world.commit(), before.plus(2 * 4096), "and no more");
    assert_eq!(world.read(1, 14, 10).0, ReadOutcome::OutOfRange);
    assert!(matches!(world.read(1, 15, 10).0, ReadOutcome::Data { .. }));
    let all = world.store.move_start(world.now, PartitionId(1), Offset(-1), &mut world.arena).unwrap();
    assert_eq!(all.0, Offset(30));
    let beyond = world.store.move_start(world.now, PartitionId(1), Offset(31), &mut world.arena);
    assert_eq!(beyond, Err(AppendError::Invalid));
}

#[test]
fn a_full_device_refuses_appends_by_name_and_control_frames_still_go() {
    let mut world = World::new(256 << 10);
    let sent = batch(10, 5000, b'a');
    let mut last = Ok(());
    for _ in 0..1000 {
        match world.append(1, &sent) {
            Ok(_) => {}
            Err(AppendError::Busy) => world.settle(),
            Err(other) => {
                last = Err(other);
                break;
            }
        }
    }
    assert_eq!(last, Err(AppendError::Full));
    world.settle();
    assert!(matches!(world.read(1, world.high_watermark(1) - 1, 10).0, ReadOutcome::Data { .. }));
}

#[test]
fn idle_journals_hold_no_memory_that_others_need() {
    let mut world = World::new(1 << 20);
    // Three chunks are left for seven journals.
    let _held = world.arena.alloc(13 << 20, Purpose::Tail).unwrap();
    for id in 2..=7 {
        let mut out = Vec::new();
        world.store.create_journal(world.now, &entry(id, 1), &mut out);
        world.store.set_partition(world.now, PartitionId(id * 10), JournalId(id), Arc::new(topic()));
        world.take(out);
        world.settle();
    }
    for round in 0..3 {
        for id in 2..=7 {
            assert_eq!(world.put(id * 10, &batch(1, 1000, b'a')).base_offset, Offset(round));
            world.settle();
            assert_eq!(world.high_watermark(id * 10), round + 1);
        }
    }
    for id in 2..=7 {
        assert_eq!(world.drain(id * 10, 0).len(), 3, "from the device, where the memory went to others");
    }
}

#[test]
fn many_partitions_cost_a_start_what_changed_since_the_checkpoint() {
    let mut world = World::new(4 << 20);
    let config = Arc::new(topic());
    let many = 1000..6000;
    for id in many.clone() {
        world.store.set_partition(world.now, PartitionId(id), JournalId(1), config.clone());
    }
    let sent = batch(1, 10, b'a');
    for id in many.clone() {
        world.put(id, &sent);
    }
    for _ in 0..10 {
        world.settle();
        world.housekeep();
    }
    world.settle();
    let base = world.checkpoints[0].1.len();
    for _ in 0..300 {
        world.put(1000, &batch(1, 1000, b'b'));
    }
    for _ in 0..10 {
        world.settle();
        world.housekeep();
    }
    world.settle();
    let increment = world.checkpoints[0].1.len() - base;
    assert!(increment > 0 && increment < base / 100, "{increment} of {base}: one partition changed");
    let end = world.commit();
    let report = world.restart();
    assert!(end.0 - report.scanned_from.0 <= 256 << 10, "{report:?}");
    for id in many {
        world.store.set_partition(world.now, PartitionId(id), JournalId(1), config.clone());
        let expected = if id == 1000 { 301 } else { 1 };
        assert_eq!(world.high_watermark(id), expected);
    }
    world.settle();
    assert_eq!(world.drain(5999, 0).len(), 1);
    assert_eq!(world.drain(1000, 0).len(), 301);
    assert!(world.store.unnamed_partitions().is_empty());
}

#[test]
fn a_checkpoint_names_no_partition_of_another_journal() {
    let mut world = World::new(1 << 20);
    let mut out = Vec::new();
    world.store.create_journal(world.now, &entry(2, 1), &mut out);
    world.take(out);
    world.settle();
    let checkpoint = |world: &mut World| {
        let mut out = Vec::new();
        world.store.checkpoint(0, true, &mut out);
        assert_eq!(out.len(), 1);
        world.take(out);
        world.settle();
    };
    world.put(1, &batch(1, 10, b'a'));
    world.settle();
    checkpoint(&mut world);
    // Partition 3 changed and is gone; its slot goes to one of the other journal, which begins at the same position.
    world.put(3, &batch(1, 10, b'a'));
    world.put(1, &batch(1, 10, b'a'));
    world.store.delete_partition(world.now, PartitionId(3));
    world.store.set_partition(world.now, PartitionId(40), JournalId(2), Arc::new(topic()));
    world.put(40, &batch(1, 10, b'b'));
    world.settle();
    checkpoint(&mut world);
    let device = world.store.devices[0].label.device;
    let fold = CheckpointFold::read(&world.checkpoints[0].1, JournalId(1), device, &SUMS).unwrap();
    assert_eq!(fold.sequence, 1);
    let known = |id| (fold.partitions.contains_key(&PartitionId(id)), fold.runs.contains_key(&PartitionId(id)));
    assert_eq!((known(1), known(40)), ((true, true), (false, false)));
}
