#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::time::Duration;

use base::memory::{Arena as _, Purpose};
use journal::storage::Storage as _;

use super::*;
use crate::arena::{Arena, ArenaConfig};
use crate::device::{BlockingStorage, DeviceKind};
use crate::keeper::keeper_links;
use crate::rings::{Waker, doze};
use crate::testing::scratch;

const DEVICE: DeviceIndex = DeviceIndex(0);

fn arena() -> Arena {
    Arena::new(ArenaConfig { tail_bytes: 8 << 20, cold_bytes: 4 << 20, huge_pages: false, prefault: false }).unwrap()
}

fn device(dir: &Path, len: u64) -> DeviceFile {
    let device = DeviceFile::open(&dir.join("device"), DeviceKind::File).unwrap();
    BlockingStorage::new(device.clone()).grow(len).unwrap();
    device
}

fn devices(shard: usize, device: &DeviceFile, arena: &Arena, flushes: &Flushes) -> RingDevices {
    let (waker, _doze) = doze().unwrap();
    let (mut links, _ends) = keeper_links(std::slice::from_ref(&waker), &waker);
    let (devices, warning) = RingDevices::new(
        Ring::new().unwrap(),
        shard,
        vec![device.clone()],
        arena.memory(),
        flushes.clone(),
        links.pop().unwrap(),
    );
    assert_eq!(devices.registered.is_some(), warning.is_none());
    devices
}

fn wakers(n: usize) -> Vec<Waker> {
    (0..n).map(|_| doze().unwrap().0).collect()
}

fn wait(devices: &mut RingDevices, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..500 {
        devices.poll(&mut events);
        if events.len() >= count {
            return events;
        }
        devices.ring.wait(Duration::from_millis(20));
    }
    panic!("{count} events did not come, only {events:?}");
}

#[test]
fn what_is_written_and_flushed_is_read_back() {
    let dir = scratch();
    let (file, mut arena) = (device(dir.path(), 4 << 20), arena());
    let mut devices = devices(0, &file, &arena, &Flushes::new(1, &wakers(1)));
    let block = arena.alloc(1 << 20, Purpose::Tail).unwrap();
    for (i, byte) in arena.bytes_mut(&block, 0..1 << 20).iter_mut().enumerate() {
        *byte = u8::try_from(i % 253).unwrap();
    }
    arena.freeze(&block, 1 << 20);
    for (i, fua) in [(0u64, false), (1, true), (2, false)] {
        let offset = 4096 + i * 65_536;
        let arena_start = block.start + usize::try_from(i * 65_536).unwrap();
        devices.submit(Effect::Write { token: i, device: DEVICE, offset, arena_start, len: 65_536, fua });
    }
    let mut tokens: Vec<u64> = wait(&mut devices, 3)
        .into_iter()
        .map(|event| match event {
            Event::Written { token, result: Ok(()) } => token,
            other => panic!("{other:?}"),
        })
        .collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [0, 1, 2]);
    devices.submit(Effect::Flush { token: 9, device: DEVICE });
    assert!(matches!(wait(&mut devices, 1)[..], [Event::Flushed { token: 9, result: Ok(()) }]));
    let into = arena.alloc(3 * 65_536, Purpose::Cold).unwrap();
    devices.submit(Effect::Read { token: 5, device: DEVICE, offset: 4096, block: into, len: 3 * 65_536 });
    let Ok([Event::Read { token: 5, block: into, result: Ok(()) }]) = <[Event; 1]>::try_from(wait(&mut devices, 1))
    else {
        panic!("the read failed")
    };
    assert!(arena.bytes(&into, 0..3 * 65_536) == arena.bytes(&block, 0..3 * 65_536));
    assert!(!devices.is_busy());
    // Where memory may be locked, what was used is registered, and nothing else.
    if let Some(registered) = &devices.registered {
        let tried: Vec<_> = registered.pieces.iter().flatten().collect();
        assert!(!tried.is_empty() && tried.len() < registered.pieces.len() && tried.iter().all(|&&done| done));
    }
    arena.free(into);
    arena.free(block);
}

#[test]
fn reading_past_the_end_is_a_named_error_and_gives_the_block_back() {
    let dir = scratch();
    let (file, mut arena) = (device(dir.path(), 8192), arena());
    let mut devices = devices(0, &file, &arena, &Flushes::new(1, &wakers(1)));
    let block = arena.alloc(8192, Purpose::Cold).unwrap();
    devices.submit(Effect::Read { token: 1, device: DEVICE, offset: 4096, block, len: 8192 });
    let Ok([Event::Read { block, result: Err(text), .. }]) = <[Event; 1]>::try_from(wait(&mut devices, 1)) else {
        panic!("the read did not fail")
    };
    assert!(text.contains("reading 8192 bytes at 4096") && text.contains("past the end"), "{text}");
    arena.free(block);
    assert_eq!(arena.available(Purpose::Cold), 4 << 20);
}

#[test]
fn a_failed_flush_reaches_every_shard_before_any_later_success() {
    let dir = scratch();
    let (file, arena) = (device(dir.path(), 8192), arena());
    let flushes = Flushes::new(1, &wakers(2));
    let mut first = devices(0, &file, &arena, &flushes);
    let mut second = devices(1, &file, &arena, &flushes);
    // A flush of the first shard is under way when the second one's succeeds.
    flushes.submitted(DEVICE, 0);
    second.submit(Effect::Flush { token: 4, device: DEVICE });
    let mut events = Vec::new();
    for _ in 0..10 {
        second.ring.wait(Duration::from_millis(5));
        second.poll(&mut events);
    }
    assert!(events.is_empty() && second.is_busy(), "{events:?}");
    first.flushed(7, DEVICE, Some(std::io::Error::from_raw_os_error(libc::EIO)));
    assert!(matches!(&first.events[..], [Event::Flushed { token: 7, result: Err(_) }]));
    second.poll(&mut events);
    assert!(
        matches!(&events[..], [Event::DeviceFailed { .. }, Event::Flushed { token: 4, result: Err(text) }]
            if text.contains("Input/output error")),
        "{events:?}"
    );
}

#[test]
fn a_success_waits_only_for_flushes_that_were_under_way() {
    let dir = scratch();
    let (file, arena) = (device(dir.path(), 8192), arena());
    let flushes = Flushes::new(1, &wakers(2));
    let mut second = devices(1, &file, &arena, &flushes);
    flushes.submitted(DEVICE, 0);
    second.submit(Effect::Flush { token: 4, device: DEVICE });
    let mut events = Vec::new();
    while second.held.is_empty() {
        second.ring.wait(Duration::from_millis(5));
        second.poll(&mut events);
    }
    flushes.submitted(DEVICE, 0);
    flushes.settled(DEVICE, 0);
    second.poll(&mut events);
    assert!(matches!(&events[..], [Event::Flushed { token: 4, result: Ok(()) }]), "{events:?}");
}

#[test]
fn a_shard_that_reports_a_failed_device_is_not_told_again_but_the_others_are() {
    let dir = scratch();
    let (file, arena) = (device(dir.path(), 8192), arena());
    let flushes = Flushes::new(1, &wakers(2));
    let mut first = devices(0, &file, &arena, &flushes);
    let mut second = devices(1, &file, &arena, &flushes);
    first.submit(Effect::DeviceFailed { device: DEVICE, reason: "gone".to_owned() });
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        first.poll(&mut one);
        second.poll(&mut two);
    }
    assert!(one.is_empty());
    assert!(matches!(&two[..], [Event::DeviceFailed { reason, .. }] if reason == "gone"));
}
