//! Recovery from what a small device holds.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests"
)]

use alloc::vec::Vec;

use base::{Epoch, Offset, PartitionId};

use super::*;
use crate::journal::{TailFrame, TailKind};
use crate::store::{AppendError, Effect, ReadOutcome};
use crate::testing::{World, batch, batch_by, idempotent};

#[test]
fn what_was_acked_is_there_after_a_kill_and_offsets_go_on() {
    for checkpoints in [true, false] {
        let mut world = World::new(1 << 20);
        for i in 0..30 {
            world.put(1 + i % 3, &batch(10, 100, i as u8));
        }
        world.settle();
        let before: Vec<_> = (1..=3).map(|id| world.drain(id, 0)).collect();
        let end = world.commit();
        let report = world.restart_with(checkpoints).unwrap();
        assert_eq!((report.end, report.fresh, report.closed.as_ref()), (end, false, None));
        assert!(report.damage.is_empty() && report.lost.is_empty());
        assert_eq!(report.highest_epoch, Epoch(1));
        world.settle();
        for id in 1..=3 {
            assert_eq!(world.drain(id, 0), before[id as usize - 1]);
            assert_eq!(world.put(id, &batch(1, 10, b'z')).base_offset, Offset(100));
        }
        world.settle();
        assert_eq!(world.high_watermark(2), 101);
        assert_eq!(world.store.epoch_end(PartitionId(1), Epoch(1)), Some((Epoch(1), Offset(100))));
        assert_eq!(world.store.epoch_end(PartitionId(1), Epoch(2)), Some((Epoch(2), Offset(101))));
    }
}

#[test]
fn units_that_were_not_acked_may_go_and_what_stays_is_rewritten() {
    let mut world = World::new(1 << 20);
    world.put(1, &batch(10, 100, b'a'));
    world.settle();
    // Two units written, not flushed; the first of them is lost.
    for fill in [b'b', b'c'] {
        world.append(1, &batch(10, 100, fill)).unwrap();
        world.pump();
    }
    let writes: Vec<Effect> = core::mem::take(&mut world.asked);
    assert_eq!(writes.len(), 2);
    for write in writes.into_iter().skip(1) {
        world.perform(write);
    }
    let report = world.restart();
    assert!(report.damage.is_empty());
    assert_eq!(world.high_watermark(1), 10, "the second does not chain to what is there");
    world.settle();
    // Now one that was written and not flushed: it is kept, and rewritten before it counts.
    world.append(1, &batch(10, 100, b'd')).unwrap();
    world.pump();
    let write = world.asked.pop().unwrap();
    world.perform(write);
    let report = world.restart();
    assert_eq!(world.high_watermark(1), 20);
    assert!(report.rewritten >= SECTOR as u64);
    world.settle();
    assert_eq!(world.drain(1, 0).len(), 2);
    // The stale unit behind the cut never comes back.
    for _ in 0..3 {
        world.put(1, &batch(10, 100, b'e'));
        world.settle();
        world.restart();
        world.settle();
    }
    let fills: Vec<u8> = world.drain(1, 0).iter().map(|(_, bytes)| *bytes.iter().rev().nth(1).unwrap()).collect();
    assert_eq!(fills, *b"adeee");
}

#[test]
fn idempotence_survives_a_kill() {
    for checkpoints in [true, false] {
        let mut world = World::new(1 << 20);
        let sent = batch_by(4, 10, b'a', 0, idempotent(7, 3, 0));
        world.put(1, &sent);
        world.settle();
        world.restart_with(checkpoints).unwrap();
        world.settle();
        let again = world.put(1, &sent);
        assert!(again.duplicate && again.base_offset == Offset(0) && again.position < world.commit());
        assert_eq!(
            world.append(1, &batch_by(1, 10, b'a', 0, idempotent(7, 3, 9))),
            Err(AppendError::OutOfOrderSequence)
        );
        assert_eq!(world.put(1, &batch_by(1, 10, b'a', 0, idempotent(7, 3, 4))).base_offset, Offset(4));
    }
}

#[test]
fn a_kill_at_any_extent_boundary_loses_nothing() {
    let mut world = World::new(256 << 10);
    let mut next = [0i64; 4];
    for round in 0..12 {
        for i in 0..17 {
            let id = 1 + i % 3;
            let appended = world.put(id, &batch(5, 900, round));
            assert_eq!(appended.base_offset.0, next[id as usize]);
            next[id as usize] += 5;
        }
        world.settle();
        let report = world.restart_with(round % 2 == 0).unwrap();
        assert!(report.damage.is_empty(), "{report:?}");
        assert_eq!(report.closed, None);
        for id in 1..=3 {
            assert_eq!(world.high_watermark(id), next[id as usize]);
        }
        world.settle();
    }
    for id in 1..=3 {
        let bases: Vec<i64> = world.drain(id, 0).iter().map(|(base, _)| *base).collect();
        assert_eq!(bases, (0..next[id as usize] / 5).map(|i| i * 5).collect::<Vec<_>>());
    }
}

#[test]
fn damage_below_the_commit_position_stays_and_later_data_is_kept() {
    let mut world = World::new(1 << 20);
    let mut positions = Vec::new();
    for i in 0..10 {
        positions.push(world.put(1, &batch(10, 100, i)).position);
        world.settle();
    }
    let extent = world.store.journals[0].extents[0].offset(positions[4]) as usize;
    // The frame's header: the unit's body no longer matches.
    world.device.bytes[extent] ^= 0xff;
    let report = world.restart_with(false).unwrap();
    assert_eq!(report.damage.len(), 1);
    assert!(report.lost.is_empty(), "later frames prove the partition's end");
    world.settle();
    assert_eq!(world.high_watermark(1), 100);
}

#[test]
fn a_partition_whose_end_lies_in_damage_resumes_after_a_gap() {
    let mut world = World::new(1 << 20);
    world.put(2, &batch(10, 100, b'x'));
    world.settle();
    let torn = world.put(2, &batch(10, 100, b'x')).position;
    world.settle();
    for i in 0..3 {
        world.put(1, &batch(10, 100, i));
        world.settle();
    }
    let extent = world.store.journals[0].extents[0].offset(torn) as usize;
    world.device.bytes[extent / SECTOR * SECTOR] ^= 0xff;
    let report = world.restart_with(false).unwrap();
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert_eq!((report.lost[0].partition, report.lost[0].from), (PartitionId(2), Offset(10)));
    world.settle();
    let lost = DamagedRange { partition: PartitionId(2), first: Offset(10), next: report.lost[0].to };
    assert!(world.store.damaged_ranges().any(|range| range == lost), "{lost:?} is told of");
    let damaged = ReadOutcome::Damaged { first: lost.first, next: lost.next };
    assert_eq!(world.read(2, 10, 1).0, damaged);
    let after = world.put(2, &batch(1, 1, b'y')).base_offset;
    assert!(after >= Offset(20) && after == report.lost[0].to);
    world.settle();
    assert_eq!(world.read(2, 10, 1).0, damaged, "and not passed over when there is something behind it");
    // The gap is on record: the next start knows the end without the damage.
    let report = world.restart_with(false).unwrap();
    assert!(report.lost.is_empty());
    world.settle();
    assert_eq!(world.read(2, 10, 1).0, damaged);
    assert!(matches!(world.read(2, after.0, 1).0, ReadOutcome::Data { .. }));
    assert_eq!(world.high_watermark(2), after.0 + 1);
    assert!(world.store.bounds(PartitionId(3)).unwrap().log_end > Offset(0), "it may have had records there");
}

#[test]
fn a_read_error_closes_the_journal_by_name() {
    let mut world = World::new(1 << 20);
    world.put(1, &batch(10, 100, b'a'));
    world.settle();
    let extent = world.store.journals[0].extents[0].address.offset;
    world.device.bad = Some(extent + SECTOR as u64 + 10);
    let report = world.restart();
    assert!(report.closed.unwrap().contains("planted"));
    assert_eq!(world.append(1, &batch(1, 1, b'a')), Err(AppendError::Fenced));
    assert!(world.store.bounds(PartitionId(1)).is_none(), "its ends are not known");
    let moved = world.store.move_start(world.now, PartitionId(1), Offset(5), &mut world.arena);
    assert_eq!(moved.unwrap_err(), AppendError::Fenced, "and so no start is beyond them");
    world.device.bad = None;
    assert_eq!(world.restart().closed, None);
    assert_eq!(world.high_watermark(1), 10);
}

#[test]
fn an_extent_that_a_cut_voided_does_not_come_back_when_the_log_has_passed_its_start() {
    let mut world = World::new(256 << 10);
    while world.store.journals[0].extents[0].left() > 100_000 {
        world.put(1, &batch(10, 400, b'a'));
        world.settle();
    }
    // A unit that is lost in a power cut, and behind it, in the next extent, one that is not.
    world.append(1, &batch(1, 40_000, b'b')).unwrap();
    world.pump();
    world.append(1, &batch(1, 70_000, b'c')).unwrap();
    world.pump();
    let flying = core::mem::take(&mut world.asked);
    let last = flying.into_iter().rfind(|effect| matches!(effect, Effect::Write { .. })).expect("two units fly");
    let arrived = world.store.journals[0].extents[1].start.position;
    world.perform(last);
    let end = world.restart().end;
    assert!(end < arrived);
    // The log goes on where it ended, past the place where the extent began that was cut off.
    world.settle();
    let there = world.put(1, &batch(1, 50_000, b'd'));
    world.settle();
    let records = world.drain(1, 0);
    assert!(there.position < arrived && arrived < world.commit());
    for _ in 0..3 {
        let report = world.restart();
        assert_eq!((report.damage, report.lost), (vec![], vec![]));
        assert_eq!(world.drain(1, 0), records);
        world.settle();
    }
}

#[test]
fn an_epoch_that_was_used_is_refused() {
    let mut world = World::new(1 << 20);
    world.put(1, &batch(1, 1, b'a'));
    world.settle();
    world.restart();
    world.settle();
    let device = Device::open(&mut world.device, crate::testing::CLUSTER, base::BrokerId(1), &crate::testing::SUMS);
    let mut device = device.unwrap();
    let found = device.scan(&mut world.device).unwrap();
    assert_eq!(highest_epoch(&device, &found), Epoch(2));
    let mut open = [OpenDevice { storage: &mut world.device, device: &mut device, found: &found }];
    let again = Store::<crate::testing::TestArena>::open(
        crate::testing::config(9),
        &[crate::testing::entry(1, 2)],
        &mut open,
        |_| None,
    );
    assert_eq!(again.err(), Some(RecoveryError::EpochTooLow { seen: Epoch(2) }));
}

#[test]
fn a_checkpoint_bounds_what_is_read() {
    let mut world = World::new(1 << 20);
    for _ in 0..100 {
        world.put(1, &batch(10, 1000, b'a'));
        world.settle();
        world.housekeep();
        world.settle();
    }
    assert!(!world.checkpoints.is_empty());
    let all = world.commit().0;
    let report = world.restart();
    assert!(report.checkpoint);
    assert!(all - report.scanned_from.0 <= 2 * (256 << 10), "{report:?}");
    world.settle();
    assert_eq!(world.high_watermark(1), 1000);
    assert_eq!(world.drain(1, 0).len(), 100);
}

#[test]
fn extents_whose_header_rots_are_found_by_their_first_unit() {
    let mut world = World::new(256 << 10);
    for i in 0..60 {
        world.put(1, &batch(10, 1000, i));
        world.settle();
    }
    let before = world.drain(1, 0);
    let offsets: Vec<u64> = world.store.journals[0].extents.iter().map(|extent| extent.address.offset).collect();
    assert!(offsets.len() >= 3);
    for offset in offsets {
        for checkpoints in [false, true] {
            world.device.bytes[offset as usize + 100] ^= 1;
            let report = world.restart_with(checkpoints).unwrap();
            assert!(report.damage.is_empty() && report.closed.is_none(), "{report:?}");
            world.settle();
            assert_eq!(world.drain(1, 0), before);
        }
    }
    // And the repaired headers serve the next starts.
    world.put(1, &batch(10, 1000, b'z'));
    world.settle();
    world.restart_with(false).unwrap();
    world.settle();
    assert_eq!(world.drain(1, 0).len(), 61);
}

#[test]
fn a_journal_of_one_extent_is_found_without_its_header_and_a_lost_one_is_damage() {
    // Before the first checkpoint nothing but local state says that there was a journal.
    for (name, harm) in [("rot", 0u8), ("zeros", 1), ("all gone", 2)] {
        let mut world = World::new(1 << 20);
        for i in 0..5 {
            world.put(1, &batch(10, 100, i));
            world.settle();
        }
        world.restart_with(false).unwrap();
        world.settle();
        let before = world.drain(1, 0);
        let extent = world.store.journals[0].extents[0].address.offset as usize;
        match harm {
            0 => world.device.bytes[extent + 100] ^= 1,
            1 => world.device.bytes[extent..extent + SECTOR].fill(0),
            _ => world.device.bytes[extent..extent + (1 << 20)].fill(0),
        }
        let report = world.restart_with(false).unwrap();
        assert!(!report.fresh, "{name}");
        world.settle();
        if harm < 2 {
            assert!(report.damage.is_empty() && world.drain(1, 0) == before, "{name}: {report:?}");
        } else {
            assert_eq!(report.damage.len(), 1, "{report:?}");
        }
        // Offsets go on, or resume behind a gap.
        assert!(world.put(1, &batch(1, 1, b'z')).base_offset >= Offset(50), "{name}");
    }
}

#[test]
fn an_extent_header_that_cannot_be_read_closes_its_journal() {
    let mut world = World::new(256 << 10);
    for i in 0..60 {
        world.put(1, &batch(10, 1000, i));
        world.settle();
    }
    let end = world.commit();
    let offsets: Vec<u64> = world.store.journals[0].extents.iter().map(|extent| extent.address.offset).collect();
    for offset in offsets {
        world.device.bad = Some(offset + 5);
        assert!(world.restart_with(false).unwrap().closed.is_some());
        world.device.bad = None;
        let report = world.restart_with(false).unwrap();
        assert_eq!(report.closed, None);
        assert!(report.end >= end);
        world.settle();
    }
    assert_eq!(world.drain(1, 0).len(), 60);
}

#[test]
fn a_device_that_was_cut_short_closes_its_journals_by_name() {
    let mut world = World::new(256 << 10);
    while world.store.journals[0].extents.len() < 4 {
        world.put(1, &batch(10, 1000, b'a'));
        world.settle();
        world.housekeep();
        world.settle();
    }
    let (whole, checkpoints) = (world.device.clone(), world.checkpoints.clone());
    let offset = world.store.journals[0].extents[2].address.offset as usize;
    world.device.bytes.truncate(offset + 4096);
    let closed = world.restart().closed.unwrap();
    assert!(closed.contains(&alloc::format!("byte {offset}")) && closed.contains("longer"), "{closed}");
    (world.device, world.checkpoints) = (whole, checkpoints);
    assert_eq!(world.restart().closed, None);
}

#[test]
fn a_batch_with_a_rotten_payload_costs_itself_only() {
    let mut world = World::new(1 << 20);
    let mut positions = Vec::new();
    for i in 0..10 {
        positions.push(world.put(1, &batch(10, 100, i)).position);
        world.settle();
    }
    let at = world.store.journals[0].extents[0].offset(positions[4]) as usize;
    world.device.bytes[at + 64 + 300] ^= 1;
    let report = world.restart_with(false).unwrap();
    let range = DamagedRange { partition: PartitionId(1), first: Offset(40), next: Offset(50) };
    assert_eq!(report.damaged_batches, [range]);
    assert!(report.damage.is_empty() && report.lost.is_empty());
    world.settle();
    assert_eq!(world.high_watermark(1), 100);
    assert!(matches!(world.read(1, 0, 100_000).0, ReadOutcome::Data { .. }));
    assert_eq!(world.read(1, 45, 100_000).0, ReadOutcome::Damaged { first: Offset(40), next: Offset(50) });
    assert_eq!(world.drain(1, 50).len(), 5);
}

#[test]
fn a_log_start_behind_the_damage_does_not_prove_the_end() {
    let mut world = World::new(1 << 20);
    world.put(2, &batch(10, 100, b'x'));
    world.settle();
    let torn = world.put(2, &batch(10, 100, b'x')).position;
    world.settle();
    world.store.move_start(world.now, PartitionId(2), Offset(5), &mut world.arena).unwrap();
    world.settle();
    let at = world.store.journals[0].extents[0].offset(torn) as usize;
    world.device.bytes[at / SECTOR * SECTOR] ^= 0xff;
    let report = world.restart_with(false).unwrap();
    assert_eq!(report.lost.len(), 1, "{report:?}");
    world.settle();
    assert!(world.put(2, &batch(1, 1, b'y')).base_offset >= Offset(20));
}

/// Bytes of the device at which the journal's units begin, in order.
fn units(world: &World) -> Vec<usize> {
    let secret = crate::testing::entry(1, 1).secret;
    let mut all = Vec::new();
    for extent in &world.store.journals[0].extents {
        let mut at = extent.start.position;
        while at < extent.end {
            let byte = extent.offset(at) as usize;
            let (header, _) = UnitHeader::decode(&world.device.bytes[byte..byte + SECTOR], &secret).unwrap();
            assert_eq!(header.position, at);
            all.push(byte);
            at = header.end();
        }
    }
    all
}

/// Damages every unit in turn, in each way, and starts with and without the checkpoint.
fn damage_each_unit(world: &mut World, mut check: impl FnMut(&mut World, &str)) {
    let (device, checkpoints) = (world.device.clone(), world.checkpoints.clone());
    let units = units(world);
    for (number, &unit) in units.iter().enumerate() {
        // The unit's header, the first frame's header, and the first byte of its payload.
        for (what, byte) in [("header", 50), ("frame", 128 + 20), ("payload", 192)] {
            for with_checkpoint in [false, true] {
                world.device = device.clone();
                world.checkpoints = checkpoints.clone();
                world.device.bytes[unit + byte] ^= 0x10;
                let report = world.restart_with(with_checkpoint).unwrap();
                assert_eq!(report.closed, None);
                world.settle();
                check(world, &alloc::format!("{what} of unit {number} of {}, {report:?}", units.len()));
            }
        }
    }
    world.device = device;
    world.checkpoints = checkpoints;
    world.restart_with(true).unwrap();
    world.settle();
}

#[test]
fn no_damaged_unit_brings_back_what_was_deleted() {
    let mut world = World::new(256 << 10);
    let start = |world: &World, id| world.store.bounds(PartitionId(id)).unwrap().log_start.0;
    let delete = |world: &mut World, id, to| {
        world.store.move_start(world.now, PartitionId(id), Offset(to), &mut world.arena).unwrap();
        while world.store.sure_start(PartitionId(id)).unwrap().0 < to {
            world.pump();
            for effect in core::mem::take(&mut world.asked) {
                world.perform(effect);
            }
        }
    };
    // Answered just now, with nothing behind it.
    for id in 1..=3 {
        world.put(id, &batch(10, 100, b'a'));
    }
    world.settle();
    delete(&mut world, 1, 5);
    delete(&mut world, 2, 10);
    damage_each_unit(&mut world, |world, what| {
        assert_eq!((start(world, 1), start(world, 2)), (5, 10), "{what}");
    });
    // A crash between the unit that states it and the one that states it again: it may have moved or not, but no further
    // damage moves it back once that was seen.
    world.store.move_start(world.now, PartitionId(3), Offset(4), &mut world.arena).unwrap();
    while start(&world, 3) == 0 && world.store.journals[0].starts_due.is_empty() {
        world.pump();
        for effect in core::mem::take(&mut world.asked) {
            world.perform(effect);
        }
    }
    world.restart_with(false).unwrap();
    assert_eq!((start(&world, 3), world.store.sure_start(PartitionId(3))), (4, Some(Offset(0))));
    world.settle();
    assert_eq!(world.store.sure_start(PartitionId(3)), Some(Offset(4)));
    damage_each_unit(&mut world, |world, what| assert_eq!(start(world, 3), 4, "{what}"));
    // The extent that states all of them goes, and the first, with deleted records, stays: a snapshot states them now.
    let fill = |world: &mut World, count| {
        while world.store.journals[0].extents.len() < count {
            world.put(1, &batch(10, 1000, b'c'));
            world.settle();
        }
    };
    world.put(2, &batch(10, 100, b'b'));
    fill(&mut world, 2);
    delete(&mut world, 3, 7);
    delete(&mut world, 2, 15);
    fill(&mut world, 5);
    let last = world.high_watermark(1);
    delete(&mut world, 1, last);
    let mut freed = 0;
    for _ in 0..1000 {
        world.housekeep();
        world.pump();
        if !world.asked.is_empty() {
            let effect = world.asked.remove(0);
            world.perform(effect);
        }
        if !world.freed.is_empty() {
            // Used again at once: what it stated must stand twice behind it by now.
            freed += world.freed.len();
            world.use_freed_again();
            let waits = |frame: &TailFrame| frame.kind == TailKind::StartAgain && frame.position >= world.commit();
            assert!(!world.store.journals[0].frames.iter().any(waits), "an extent is freed before that");
            assert!(world.store.journals[0].starts_due.is_empty());
        }
    }
    assert!(freed >= 2, "{freed}");
    damage_each_unit(&mut world, |world, what| {
        assert_eq!((start(world, 1), start(world, 2), start(world, 3)), (last, 15, 7), "{what}");
        for id in 1..=3 {
            let bounds = world.store.bounds(PartitionId(id)).unwrap();
            assert!(bounds.log_end.0 >= [last, 20, 10][id as usize - 1], "{what}: {bounds:?}");
        }
    });
}

#[test]
fn the_unit_behind_a_damaged_one_is_kept_where_it_says_that_one_was_committed() {
    let mut world = World::new(1 << 20);
    for i in 0..4 {
        world.put(1, &batch(10, 100, i));
        world.settle();
    }
    let units = units(&world);
    // The last but one rots in a crash: nothing but the last says that it was there.
    world.device.bytes[units[units.len() - 2] + 50] ^= 1;
    let report = world.restart_with(false).unwrap();
    assert_eq!((report.damage.len(), report.lost.len()), (1, 0), "{report:?}");
    assert!(report.rewritten >= SECTOR as u64);
    world.settle();
    assert_eq!(world.high_watermark(1), 40);
    assert_eq!(world.drain(1, 30).len(), 1);
}

/// Epoch 1 writes two units that a power cut takes from the log, for partitions 2 and 1; epoch 2 begins where they lay, with an
/// epoch start and a unit of partition 1, and writes much more. Gives where they lay on the device, and their bytes.
fn two_lives() -> (World, usize, Vec<u8>) {
    let mut world = World::new(1 << 20);
    world.put(1, &batch(10, 100, b'a'));
    world.settle();
    for id in [2, 1] {
        world.append(id, &batch(10, 100, b'x')).unwrap();
        world.pump();
    }
    for effect in core::mem::take(&mut world.asked) {
        if matches!(effect, Effect::Write { .. }) {
            world.perform(effect);
        }
    }
    let extent = &world.store.journals[0].extents[0];
    let at = extent.offset(world.commit()) as usize;
    let stale = world.device.bytes[at..at + 2 * SECTOR].to_vec();
    world.device.bytes[at..at + 2 * SECTOR].fill(0);
    assert_eq!(world.restart().end, Position((at - extent_start(&world)) as u64));
    world.settle();
    for fill in [b'b', b'c'] {
        world.put(1, &batch(10, 100, fill));
        world.settle();
    }
    while world.commit().0 < 300 << 10 {
        world.put(3, &batch(10, 1000, b'z'));
        world.settle();
    }
    world.housekeep();
    world.settle();
    assert!(!world.checkpoints.is_empty());
    (world, at, stale)
}

fn extent_start(world: &World) -> usize {
    world.store.journals[0].extents[0].address.offset as usize + SECTOR
}

#[test]
fn a_write_that_was_never_made_over_a_unit_of_an_earlier_life_is_damage_and_that_units_records_are_not_served() {
    for checkpoints in [true, false] {
        let (mut world, at, stale) = two_lives();
        let whole = world.drain(1, 0);
        let ends: Vec<i64> = whole.iter().map(|(base, _)| *base).collect();
        assert_eq!(ends, [0, 10, 20]);
        // Over the epoch start: only what it says is lost.
        world.device.bytes[at..at + SECTOR].copy_from_slice(&stale[..SECTOR]);
        let report = world.restart_with(checkpoints).unwrap();
        assert_eq!((report.checkpoint, report.damage.len()), (checkpoints, usize::from(!checkpoints)), "{report:?}");
        world.settle();
        assert_eq!(world.drain(1, 0), whole);
        if checkpoints {
            assert_eq!(world.high_watermark(2), 0, "nothing of it was kept");
        }

        // Over the unit with the records that took the place of those that were cut off.
        let (mut world, at, stale) = two_lives();
        world.device.bytes[at + SECTOR..at + 2 * SECTOR].copy_from_slice(&stale[SECTOR..]);
        let report = world.restart_with(checkpoints).unwrap();
        assert_eq!(report.damage.len(), usize::from(!checkpoints), "{report:?}");
        world.settle();
        assert_eq!(world.read(1, 0, 1).1[0][..], whole[0].1[..]);
        assert_eq!(world.read(1, 10, 1).0, ReadOutcome::Damaged { first: Offset(10), next: Offset(20) });
        assert_eq!(world.drain(1, 20), whole[2..]);
    }
}

#[test]
fn a_first_write_of_a_life_that_was_never_made_does_not_bring_back_what_it_took_the_place_of() {
    // As before, but what lies at the very place of the epoch start is a record of partition 1.
    let (mut world, at, stale) = two_lives();
    let whole = world.drain(1, 0);
    let key = world.store.journals[0].identity.secret;
    let mut forged = stale[SECTOR..].to_vec();
    let (header, _) = UnitHeader::decode(&forged, &key).unwrap();
    let (before, _) = UnitHeader::decode(&stale, &key).unwrap();
    UnitHeader { position: before.position, chain: before.chain, ..header }.encode(&key, &mut forged);
    world.device.bytes[at..at + SECTOR].copy_from_slice(&forged);
    for checkpoints in [true, false] {
        let report = world.restart_with(checkpoints).unwrap();
        assert_eq!(report.damage.len(), usize::from(!checkpoints), "{report:?}");
        assert_eq!(world.drain(1, 0), whole, "checkpoints {checkpoints}");
    }
}
