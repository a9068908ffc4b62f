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
    let after = world.put(2, &batch(1, 1, b'y')).base_offset;
    assert!(after >= Offset(20) && after == report.lost[0].to);
    world.settle();
    // The gap is on record: the next start knows the end without the damage.
    let report = world.restart_with(false).unwrap();
    assert!(report.lost.is_empty());
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
    world.device.bad = None;
    assert_eq!(world.restart().closed, None);
    assert_eq!(world.high_watermark(1), 10);
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
    assert_eq!(report.damaged_batches, [(PartitionId(1), Offset(40))]);
    assert!(report.damage.is_empty() && report.lost.is_empty());
    world.settle();
    assert_eq!(world.high_watermark(1), 100);
    assert!(matches!(world.read(1, 0, 100_000).0, ReadOutcome::Data { .. }));
    assert_eq!(world.read(1, 45, 100_000).0, ReadOutcome::Damaged { next: Offset(50) });
    assert_eq!(world.drain(1, 50).len(), 5);
}
