//! No allocation per record on the data path, shown by counting.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]
#![expect(
    unsafe_code,
    reason = "a counting allocator: it forwards to the system's, whose contract it passes on unchanged"
)]

mod world;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kafka_protocol::messages::ApiKey;
use world::World;
use world::kafka::{batch_of, fetch, frame, produce, want};

struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// The counter is the whole program's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: every call goes to `System` with the caller's own arguments; counting touches no memory of theirs.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and the memory is from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`, and the memory is from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of `work`.
fn count(work: impl FnOnce()) -> u64 {
    let before = COUNT.load(Ordering::Relaxed);
    work();
    COUNT.load(Ordering::Relaxed) - before
}

/// Allocations of the shard's turn that takes in one request and of the turn that answers it; what the test's own network
/// and device allocate between is not counted, and what they allocate within is the same for every size.
fn cost(world: &mut World, client: &world::Client, bytes: &[u8]) -> u64 {
    client.push(world, bytes);
    let now = world.now;
    let mut total = 0;
    for _ in 0..6 {
        total += count(|| {
            world.shards[0].turn(now);
        });
        world.settle_devices();
    }
    assert!(client.pop(world).is_some(), "answered within six turns");
    total
}

#[test]
fn a_batch_of_a_thousand_records_costs_as_many_allocations_as_one_of_ten() {
    let _alone = ALONE.lock();
    let mut world = World::new();
    world.create_topic("t", 1);
    let client = world.connect(0);
    let request = |records| frame(ApiKey::Produce, 9, 1, &produce(-1, "t", &[(0, batch_of(records, "value"))]));
    let (small, large) = (request(10), request(1000));
    for _ in 0..3 {
        cost(&mut world, &client, &small);
        cost(&mut world, &client, &large);
    }
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        few.push(cost(&mut world, &client, &small));
        many.push(cost(&mut world, &client, &large));
    }
    // Now and then a table of the store grows: the least of several is what the path itself costs.
    let (few, many) = (few.iter().min().unwrap(), many.iter().min().unwrap());
    assert_eq!(few, many, "10 and 1000 records");
}

#[test]
fn fetching_a_thousand_records_costs_as_many_allocations_as_ten() {
    let _alone = ALONE.lock();
    let mut world = World::new();
    world.create_topic("t", 2);
    let mut client = world.connect(0);
    client.put(
        &mut world,
        "t",
        0,
        batch_of(10, "a value that makes the batch long enough for it to be sent from where it lies"),
    );
    client.put(&mut world, "t", 1, batch_of(1000, "value"));
    let request = |partition| frame(ApiKey::Fetch, 12, 1, &fetch("t", vec![want(partition, 0)]));
    let (small, large) = (request(0), request(1));
    for _ in 0..3 {
        cost(&mut world, &client, &small);
        cost(&mut world, &client, &large);
    }
    let few = (0..5).map(|_| cost(&mut world, &client, &small)).min().unwrap();
    let many = (0..5).map(|_| cost(&mut world, &client, &large)).min().unwrap();
    // The large batch is chained: the pieces before and behind it are two buffers where the small one's answer is one.
    assert!(many <= few + 4, "{few} for 10 records, {many} for 1000");
}
