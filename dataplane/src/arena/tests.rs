#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use base::memory::{Arena as _, Block, Purpose};

use super::*;

const KIB: usize = 1 << 10;

fn arena(tail: usize, cold: usize) -> Arena {
    Arena::new(ArenaConfig { tail_bytes: tail, cold_bytes: cold, huge_pages: false, prefault: false }).unwrap()
}

fn forged(start: usize, len: usize) -> Block {
    Block { start, len, purpose: Purpose::Tail }
}

#[test]
fn budgets_are_separate_and_a_freed_block_is_had_again() {
    let mut arena = arena(64 * KIB, 16 * KIB);
    let tail = arena.alloc(64 * KIB, Purpose::Tail).unwrap();
    assert_eq!(arena.available(Purpose::Tail), 0);
    assert!(arena.alloc(1, Purpose::Tail).is_none());
    let cold = arena.alloc(1, Purpose::Cold).unwrap();
    assert_eq!((cold.len, arena.available(Purpose::Cold)), (PAGE, 12 * KIB));
    arena.free(tail);
    assert_eq!(arena.alloc(64 * KIB, Purpose::Tail).unwrap().start, 0);
}

#[test]
fn a_slice_keeps_its_bytes_until_the_last_clone_is_dropped_elsewhere() {
    let mut arena = arena(8 * KIB, 0);
    let block = arena.alloc(8 * KIB, Purpose::Tail).unwrap();
    arena.bytes_mut(&block, 0..5).copy_from_slice(b"hello");
    arena.freeze(&block, 5);
    let slice = arena.slice(&block, 1..5);
    let other = slice.clone();
    arena.free(block);
    assert_eq!((arena.available(Purpose::Tail), arena.pinned()), (0, 8 * KIB));
    assert!(arena.alloc(PAGE, Purpose::Tail).is_none());
    drop(slice);
    assert!(arena.alloc(PAGE, Purpose::Tail).is_none());
    std::thread::spawn(move || assert_eq!(other.as_ref(), b"ello")).join().unwrap();
    assert_eq!((arena.available(Purpose::Tail), arena.pinned()), (8 * KIB, 0));
    assert!(arena.alloc(8 * KIB, Purpose::Tail).is_some());
}

#[test]
fn a_slice_outlives_its_arena() {
    let mut arena = arena(4 * KIB, 0);
    let block = arena.alloc(1, Purpose::Tail).unwrap();
    arena.bytes_mut(&block, 0..2).copy_from_slice(b"ok");
    arena.freeze(&block, 2);
    let slice = arena.slice(&block, 0..2);
    drop(arena);
    assert_eq!(slice.as_ref(), b"ok");
}

#[test]
fn open_bytes_lie_beside_shared_ones() {
    let mut arena = arena(4 * KIB, 0);
    let block = arena.alloc(PAGE, Purpose::Tail).unwrap();
    arena.bytes_mut(&block, 0..8).copy_from_slice(b"frozenxx");
    arena.freeze(&block, 6);
    arena.freeze(&block, 2);
    let slice = arena.slice(&block, 0..6);
    arena.bytes_mut(&block, 6..8).copy_from_slice(b"OK");
    assert_eq!(slice.as_ref(), b"frozen");
    assert_eq!(arena.bytes(&block, 0..8), b"frozenOK");
}

#[test]
fn neighbouring_free_runs_join() {
    let mut arena = arena(64 * PAGE, 0);
    let blocks: Vec<Block> = (0..64).map(|_| arena.alloc(PAGE, Purpose::Tail).unwrap()).collect();
    let (even, odd): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| (block.start / PAGE).is_multiple_of(2));
    for block in even.into_iter().chain(odd) {
        arena.free(block);
    }
    assert_eq!(arena.alloc(64 * PAGE, Purpose::Tail).unwrap().len, 64 * PAGE);
}

#[test]
#[should_panic(expected = "frozen bytes do not change")]
fn frozen_bytes_are_not_given_out_to_write() {
    let mut arena = arena(4 * KIB, 0);
    let block = arena.alloc(PAGE, Purpose::Tail).unwrap();
    arena.freeze(&block, 10);
    arena.bytes_mut(&block, 9..20);
}

#[test]
#[should_panic(expected = "only frozen bytes are shared")]
fn open_bytes_are_not_shared() {
    let mut arena = arena(4 * KIB, 0);
    let block = arena.alloc(PAGE, Purpose::Tail).unwrap();
    let _slice = arena.slice(&block, 0..1);
}

#[test]
#[should_panic(expected = "the block is freed")]
fn a_freed_block_cannot_be_freed_again_by_a_made_up_one() {
    let mut arena = arena(8 * KIB, 0);
    let block = arena.alloc(PAGE, Purpose::Tail).unwrap();
    arena.freeze(&block, 1);
    let _slice = arena.slice(&block, 0..1);
    arena.free(block);
    arena.free(forged(0, PAGE));
}

#[test]
#[should_panic(expected = "not a block of this arena")]
fn part_of_a_block_is_not_a_block() {
    let mut arena = arena(8 * KIB, 0);
    let _block = arena.alloc(2 * PAGE, Purpose::Tail).unwrap();
    arena.free(forged(0, PAGE));
}

#[test]
#[should_panic(expected = "a loaned block is the kernel's")]
fn a_loaned_block_gives_out_nothing() {
    let mut arena = arena(0, 4 * KIB);
    let block = arena.alloc(PAGE, Purpose::Cold).unwrap();
    // SAFETY: no reference to the block's bytes was taken.
    let _loan = unsafe { arena.memory().loan(&block, PAGE) };
    arena.bytes(&block, 0..1);
}

#[test]
fn after_a_loan_the_block_is_its_owners_again() {
    let mut arena = arena(0, 4 * KIB);
    let block = arena.alloc(PAGE, Purpose::Cold).unwrap();
    // SAFETY: no reference to the block's bytes was taken.
    let loan = unsafe { arena.memory().loan(&block, PAGE) };
    // SAFETY: the loan covers a page, and nothing else refers to it.
    unsafe { loan.as_ptr().write_bytes(7, PAGE) };
    drop(loan);
    assert!(arena.bytes(&block, 0..PAGE).iter().all(|&byte| byte == 7));
    arena.free(block);
    assert_eq!(arena.available(Purpose::Cold), 4 * KIB);
}

#[test]
fn a_device_write_pins_a_freed_block() {
    let mut arena = arena(8 * KIB, 0);
    let block = arena.alloc(2 * PAGE, Purpose::Tail).unwrap();
    arena.freeze(&block, 2 * PAGE);
    let pinned = arena.memory().pin(PAGE, PAGE);
    arena.free(block);
    assert!(arena.alloc(PAGE, Purpose::Tail).is_none());
    drop(pinned);
    assert!(arena.alloc(PAGE, Purpose::Tail).is_some());
}

/// Random allocations, frees and slices dropped on other threads: no two living blocks overlap, contents stay.
#[test]
fn living_blocks_never_overlap_and_all_memory_returns() {
    let (total, rounds) = if cfg!(miri) { (32 * PAGE, 200) } else { (256 * PAGE, 20_000) };
    let mut arena = arena(total, 0);
    let mut state = 7u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let (sender, receiver) = std::sync::mpsc::channel::<(Slice, u8)>();
    let reader = std::thread::spawn(move || {
        for (slice, value) in receiver {
            assert!(slice.as_ref().iter().all(|&byte| byte == value));
        }
    });
    let mut living: Vec<(Block, u8)> = Vec::new();
    for round in 0..rounds {
        if random(3) > 0 {
            let value = u8::try_from(round % 251).unwrap();
            if let Some(block) = arena.alloc(1 + random(9 * PAGE), Purpose::Tail) {
                arena.bytes_mut(&block, 0..64).fill(value);
                arena.freeze(&block, 64);
                living.push((block, value));
            }
        } else if !living.is_empty() {
            let (block, value) = living.swap_remove(random(living.len()));
            assert!(arena.bytes(&block, 0..64).iter().all(|&byte| byte == value));
            sender.send((arena.slice(&block, 0..64), value)).unwrap();
            arena.free(block);
        }
    }
    for (block, _) in living {
        arena.free(block);
    }
    drop(sender);
    reader.join().unwrap();
    assert_eq!((arena.available(Purpose::Tail), arena.pinned()), (total, 0));
    assert!(arena.alloc(total, Purpose::Tail).is_some());
}
