//! That clustering keeps what lives, frees what does not, and can be cut off anywhere.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests"
)]

use alloc::vec::Vec;

use base::{Mono, Offset, PartitionId};

use crate::store::{Effect, ReadOutcome};
use crate::testing::{World, batch, batch_by, idempotent};

const EXTENT: u64 = 256 << 10;

impl World {
    fn tick(&mut self, count: usize) {
        for _ in 0..count {
            self.now.mono = Mono(self.now.mono.0 + 1_000_000_000);
            self.housekeep();
            self.settle();
        }
    }

    fn delete_upto(&mut self, id: u64, to: i64) {
        self.store.move_start(self.now, PartitionId(id), Offset(to), &mut self.arena).unwrap();
        self.settle();
    }

    fn extents(&self) -> usize {
        self.store.journals[0].extents.len()
    }

    fn clustered(&self) -> usize {
        self.store.journals[0].extents.iter().filter(|extent| extent.clustered.is_some()).count()
    }

    /// Partition 2 gets a small batch after every `every` large ones of partition 1.
    fn interleave(&mut self, rounds: usize, every: usize) {
        for round in 0..rounds {
            for _ in 0..every {
                self.put(1, &batch(10, 1000, b'a'));
                self.settle();
            }
            self.put(2, &batch(3, 900, b'b' + (round % 20) as u8));
            self.settle();
        }
    }
}

/// A world in which nearly all is deleted, and clustering is due.
fn mostly_deleted() -> World {
    let mut world = World::new(EXTENT);
    world.put(3, &batch_by(5, 10, b'c', 1_000_000, idempotent(9, 2, 0)));
    world.settle();
    world.interleave(40, 4);
    let end = world.high_watermark(1);
    world.delete_upto(1, end - 20);
    world
}

#[test]
fn what_outlives_the_rest_takes_little_space_and_keeps_its_bytes() {
    let mut world = mostly_deleted();
    let before = [world.drain(1, 1580), world.drain(2, 0), world.drain(3, 0)];
    let extents = world.extents();
    world.tick(40);
    assert!(world.clustered() > 0, "nothing was clustered");
    assert!(world.extents() <= 5, "{} of {extents} extents are left", world.extents());
    for restart in [None, Some(true), Some(false), Some(true)] {
        if let Some(checkpoints) = restart {
            let report = world.restart_with(checkpoints).unwrap();
            assert!(report.damage.is_empty() && report.lost.is_empty() && report.holes.is_empty(), "{report:?}");
            world.settle();
        }
        assert_eq!([world.drain(1, 1580), world.drain(2, 0), world.drain(3, 0)], before, "{restart:?}");
        // From the middle, and in small pieces.
        for (base, bytes) in &before[1] {
            let (outcome, slices) = world.read(2, base + 1, 1);
            assert_eq!(outcome, ReadOutcome::Data { bytes: bytes.len() });
            assert_eq!(&slices[0][..], &bytes[..]);
        }
        let again = world.put(3, &batch_by(5, 10, b'c', 1_000_000, idempotent(9, 2, 0)));
        assert!(again.duplicate && again.base_offset == Offset(0));
        world.tick(3);
    }
}

#[test]
fn a_crash_after_any_step_leaves_the_old_extents_or_the_new_one() {
    let mut steps = 0;
    let mut taken_over = [0, 0];
    loop {
        for checkpoints in [true, false] {
            let mut world = mostly_deleted();
            let before = [world.drain(1, 1580), world.drain(2, 0), world.drain(3, 0)];
            let mut left = steps;
            let mut ended = true;
            'run: for _ in 0..40 {
                world.now.mono = Mono(world.now.mono.0 + 1_000_000_000);
                world.housekeep();
                loop {
                    world.pump();
                    if world.asked.is_empty() {
                        break;
                    }
                    // In turn the oldest and the newest first.
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
            let after = [world.drain(1, 1580), world.drain(2, 0), world.drain(3, 0)];
            assert_eq!(after, before, "{steps} steps, checkpoints {checkpoints}");
            taken_over[usize::from(checkpoints)] += usize::from(world.clustered() > 0);
            world.interleave(3, 2);
            world.tick(20);
            assert_eq!(world.drain(2, 0).len(), before[1].len() + 3);
            let report = world.restart_with(!checkpoints).unwrap();
            assert!(report.damage.is_empty() && report.lost.is_empty(), "{steps} steps, then again: {report:?}");
            assert_eq!(world.drain(2, 0)[..before[1].len()], before[1]);
            if ended && checkpoints {
                assert!(taken_over[0] > 5 && taken_over[1] > 5, "{taken_over:?}");
                return;
            }
        }
        steps += 1;
    }
}

#[test]
fn space_stays_within_twice_what_lives_while_produce_goes_on() {
    let mut world = World::new(EXTENT);
    let mut kept: Vec<(i64, Vec<u8>)> = Vec::new();
    let mut most = 0;
    for round in 0..60 {
        world.interleave(4, 20);
        let end = world.high_watermark(1);
        world.delete_upto(1, end - 10);
        world.tick(16);
        if round > 20 {
            let live: usize = world.drain(2, 0).iter().map(|(_, bytes)| bytes.len()).sum();
            let used = world.extents() as u64 * EXTENT;
            most = most.max(used);
            // The extents at either end, and one that is being made.
            let extents: Vec<_> =
                world.store.journals[0].extents.iter().map(|extent| (extent.live, extent.held)).collect();
            assert!(used <= 2 * live as u64 + 4 * EXTENT, "round {round}: {used} bytes for {live}: {extents:?}");
        }
        if round % 7 == 0 {
            world.restart_with(round % 2 == 0).unwrap();
            world.settle();
            let all = world.drain(2, 0);
            assert_eq!(all[..kept.len()], kept);
            kept = all;
        }
    }
    assert_eq!(world.drain(2, 0).len(), 240);
    assert!(world.clustered() > 0 && most > 0);
}

#[test]
fn a_stretch_with_damage_is_left_as_it_is() {
    let mut world = mostly_deleted();
    // One byte of a batch of partition 2 in the middle.
    let at = world.device.bytes.windows(600).rposition(|bytes| bytes.iter().all(|byte| *byte == b'k')).unwrap();
    world.device.bytes[at] ^= 1;
    let extents = world.extents();
    world.tick(60);
    assert!(world.extents() <= extents, "{} of {extents}", world.extents());
    let damaged = world.store.journals[0].extents.iter().any(|extent| extent.unclusterable);
    assert!(damaged);
    // Not from the tail's memory.
    world.restart();
    world.settle();
    let (mut from, mut seen, mut holes) = (0, 0, 0);
    while from < world.high_watermark(2) {
        match world.read(2, from, 1).0 {
            ReadOutcome::Data { .. } => (from, seen) = (from + 3, seen + 1),
            ReadOutcome::Damaged { next, .. } => (from, holes) = (next.0, holes + 1),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((seen, holes), (39, 1));
}

#[test]
fn extents_whose_header_rots_beside_clustered_ones_stay_found() {
    let mut world = mostly_deleted();
    world.tick(40);
    world.interleave(8, 20);
    let clustered = world.clustered();
    assert!(clustered > 0 && world.extents() > clustered + 2, "{clustered} of {}", world.extents());
    let before = [world.drain(1, 1580), world.drain(2, 0), world.drain(3, 0)];
    let raw = world.store.journals[0].extents.iter().filter(|extent| extent.clustered.is_none());
    let offsets: Vec<u64> = raw.map(|extent| extent.address.offset).collect();
    for pair in offsets.windows(2).map(<[u64]>::to_vec).chain(offsets.iter().map(|offset| Vec::from([*offset]))) {
        for offset in &pair {
            world.device.bytes[*offset as usize + 100] ^= 1;
        }
        // The first start writes the header anew, the second goes by it.
        for start in 0..2 {
            let report = world.restart_with(false).unwrap();
            assert!(report.damage.is_empty() && report.lost.is_empty() && report.closed.is_none(), "{report:?}");
            world.settle();
            let after = [world.drain(1, 1580), world.drain(2, 0), world.drain(3, 0)];
            assert_eq!(after, before, "the extents at {pair:?}, start {start}");
        }
    }
}
