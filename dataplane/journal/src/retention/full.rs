//! A device without a free extent frees itself, whatever was done before.

#![allow(clippy::unwrap_used, reason = "tests")]

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::{JournalId, Mono, Offset, PartitionId};

use crate::store::AppendError;
use crate::testing::{World, batch, entry, topic};

/// The smallest device that a broker takes: seven extents, two held back.
fn small() -> World {
    World::with_extents(256 << 10, topic(), (7, 2))
}

impl World {
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 2 {
            self.now.mono = Mono(self.now.mono.0 + 500_000_000);
            self.housekeep();
            self.settle();
        }
    }

    /// Until not even a small record of any partition finds room. How many were taken.
    fn fill_up(&mut self, ids: &[u64]) -> usize {
        let mut taken = 0;
        for bytes in [20_000, 2000, 100, 1] {
            let sent = batch(1, bytes, b'a');
            for _ in 0..10_000 {
                let results: Vec<_> = ids.iter().map(|&id| self.append(id, &sent).map(|_| ())).collect();
                self.settle();
                taken += results.iter().filter(|result| result.is_ok()).count();
                if results.iter().all(|result| *result == Err(AppendError::Full)) {
                    break;
                }
                assert!(results.iter().all(|result| !matches!(result, Err(error) if !waits(*error))), "{results:?}");
            }
        }
        taken
    }

    fn delete(&mut self, id: u64, to: i64) {
        let moved = self.store.move_start(self.now, PartitionId(id), Offset(to), &mut self.arena);
        assert!(moved.is_ok(), "{moved:?}: {:?}", self.pool.counts());
        self.settle();
    }

    fn is_full(&mut self) -> bool {
        self.pass(1);
        self.append(1, &batch(1, 20_000, b'a')).is_err_and(|error| error == AppendError::Full)
    }
}

fn waits(error: AppendError) -> bool {
    matches!(error, AppendError::Busy | AppendError::Full)
}

#[test]
fn deletions_find_room_at_once_after_any_number_of_starts_that_are_filled_again() {
    let mut world = small();
    assert!(world.fill_up(&[1]) > 0);
    for round in 1..20 {
        world.restart();
        world.settle();
        world.fill_up(&[1]);
        // Little, so that nothing comes free. Where the room for it is used up, an extent that is held back comes for it.
        let moved = world.store.move_start(world.now, PartitionId(1), Offset(round), &mut world.arena);
        assert!(moved.is_ok() || moved == Err(AppendError::Full), "{moved:?}");
        world.pass(2);
        world.delete(1, round);
        assert!(world.is_full());
        assert!(world.pool.counts().ready > 0, "round {round}: the last one is for clustering");
    }
    let end = world.high_watermark(1);
    world.delete(1, end);
    world.pass(10);
    assert!(!world.is_full());
    world.put(1, &batch(1, 20_000, b'a'));
    world.pass(10);
    assert!(!world.pool.reserve_is_broken(), "{:?}", world.pool.counts());
}

#[test]
fn what_was_given_for_deletions_takes_no_records_after_a_start() {
    let mut world = small();
    world.fill_up(&[1]);
    // The last of the room that records leave is used: an extent comes.
    let mut to = 0;
    while world.pool.counts().ready == 2 {
        to += 1;
        assert!(to < 100, "the room for deletions has no end");
        let _ = world.store.move_start(world.now, PartitionId(1), Offset(to), &mut world.arena);
        world.pass(1);
    }
    world.delete(1, to + 1);
    for _ in 0..3 {
        world.restart();
        world.settle();
        assert_eq!(world.fill_up(&[1]), 0);
        world.delete(1, to + 2);
    }
    assert_eq!(world.pool.counts().ready, 1);
}

#[test]
fn small_records_between_deleted_ones_do_not_keep_a_device_full() {
    // Five extents for records, and fewer, as a second journal would leave.
    for extents in [7, 6, 5] {
        let mut world = World::with_extents(256 << 10, topic(), (extents, 2));
        let mut sent = 0;
        'full: loop {
            for id in [1, 1, 1, 1, 2] {
                let bytes = if id == 1 { 20_000 } else { 50 };
                match world.append(id, &batch(1, bytes, b'a')) {
                    Ok(_) => sent += i64::from(id == 2),
                    Err(AppendError::Full) => break 'full,
                    Err(_) => {}
                }
                world.settle();
            }
        }
        assert!(sent > 3 && world.is_full());
        let end = world.high_watermark(1);
        world.delete(1, end);
        world.pass(30);
        assert!(!world.is_full(), "{extents} extents: {:?}", world.pool.counts());
        world.put(1, &batch(1, 20_000, b'a'));
        assert_eq!(i64::try_from(world.drain(2, 0).len()).unwrap(), world.high_watermark(2));
    }
}

#[test]
fn a_new_journal_takes_nothing_of_what_is_held_back() {
    let mut world = small();
    world.fill_up(&[1]);
    let mut out = Vec::new();
    world.store.create_journal(world.now, &entry(2, 1), &mut out);
    world.store.set_partition(world.now, PartitionId(20), JournalId(2), Arc::new(topic()));
    world.take(out);
    world.settle();
    world.pass(5);
    assert_eq!(world.append(20, &batch(1, 1, b'a')).unwrap_err(), AppendError::Full);
    assert_eq!(world.pool.counts().ready, 2);
    let end = world.high_watermark(1);
    let _ = world.store.move_start(world.now, PartitionId(1), Offset(end), &mut world.arena);
    world.pass(2);
    world.delete(1, end);
    world.pass(10);
    assert_eq!(world.put(20, &batch(1, 1, b'a')).base_offset, Offset(0));
}
