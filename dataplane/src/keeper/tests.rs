#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::mpsc::{Receiver, Sender, channel};

use journal::pool::{Initial, PoolConfig};
use shard::ports::Devices as _;

use super::*;
use crate::arena::{Arena, ArenaConfig};
use crate::device::{DeviceFile, DeviceKind, OnFlush, RingDevices};
use crate::ring::Ring;
use crate::rings::doze;
use crate::testing::scratch;

const EXTENT: u64 = 2 << 20;
const START: u64 = 1 << 20;
const DEVICE: DeviceIndex = DeviceIndex(0);
const JOURNAL: JournalId = JournalId(0x1f);

/// What a flush that is planted says when it begins, and waits for.
struct Planted {
    begun: Receiver<()>,
    outcome: Sender<io::Result<()>>,
}

impl Planted {
    fn new() -> (Self, OnFlush) {
        let (begin, begun) = channel();
        let (outcome, end) = channel();
        let on_flush = move || {
            begin.send(()).map_err(io::Error::other)?;
            end.recv().map_err(io::Error::other)?
        };
        (Self { begun, outcome }, OnFlush(Box::new(on_flush)))
    }
}

struct World {
    dir: tempfile::TempDir,
    link: KeeperLink,
    doze: Doze,
    handle: KeeperHandle,
    stats: Arc<SpaceStats>,
    checkpoints: Checkpoints,
    flushes: Flushes,
    device: DeviceFile,
}

fn start(extents_max: u64, initial: Vec<Initial>) -> World {
    start_with(extents_max, initial, None)
}

fn start_with(extents_max: u64, initial: Vec<Initial>, on_flush: Option<OnFlush>) -> World {
    let dir = scratch();
    let mut storage = BlockingStorage::new(DeviceFile::open(&dir.path().join("device"), DeviceKind::File).unwrap());
    storage.grow(START + initial.len() as u64 * EXTENT).unwrap();
    storage.on_flush = on_flush;
    let device = storage.device().clone();
    let config = PoolConfig {
        device: DEVICE,
        extents_offset: START,
        extent_len: EXTENT,
        extents_max,
        ahead: 2,
        reserve: 1,
        resume: 0,
    };
    let stats = Arc::new(SpaceStats::default());
    let pool = Pool::new(config, initial, 10);
    let kept = KeptDevice { pool, storage, stats: Arc::clone(&stats), extent_len: EXTENT };
    let (shard_waker, shard_doze) = doze().unwrap();
    let (keeper_waker, keeper_doze) = doze().unwrap();
    let (mut links, ends) = keeper_links(std::slice::from_ref(&shard_waker), &keeper_waker);
    let checkpoints = Checkpoints::open(&dir.path().join("checkpoints")).unwrap();
    let flushes = Flushes::new(1, &[shard_waker]);
    let config = KeeperConfig {
        fill_rate: 1 << 30,
        checkpoints: checkpoints.clone(),
        devices: vec![kept],
        flushes: flushes.clone(),
    };
    let handle = spawn(config, ends, keeper_waker, keeper_doze).unwrap();
    World { dir, link: links.pop().unwrap(), doze: shard_doze, handle, stats, checkpoints, flushes, device }
}

impl World {
    fn ask(&mut self, effect: Effect) -> Event {
        self.link.submit(effect);
        for _ in 0..100 {
            self.doze.announce();
            if let Some(event) = self.link.answer() {
                return event;
            }
            self.doze.sleep(100);
        }
        panic!("the keeper does not answer");
    }

    fn extent(&mut self) -> Option<ExtentAddress> {
        match self.ask(Effect::NeedExtent { device: DEVICE, journal: JOURNAL, wish: Wish::Appends }) {
            Event::Extent { device: DEVICE, extent } => extent,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn extents_come_zeroed_one_after_the_other_until_the_reserve_is_left() {
    let mut world = start(4, vec![]);
    let mut extents = Vec::new();
    while let Some(extent) = world.extent() {
        extents.push(extent);
    }
    let offsets: Vec<u64> = extents.iter().map(|extent| extent.offset).collect();
    assert_eq!(offsets, [START, START + EXTENT, START + 2 * EXTENT]);
    let generations: Vec<u64> = extents.iter().map(|extent| extent.generation).collect();
    assert_eq!(generations, [11, 12, 13]);
    let bytes = std::fs::read(world.dir.path().join("device")).unwrap();
    assert_eq!(bytes.len() as u64, START + 4 * EXTENT);
    assert!(bytes.iter().all(|&byte| byte == 0));
    world.handle.stop();
    assert_eq!((world.stats.free_bytes.get(), world.stats.used_bytes.get()), (0, 3 * EXTENT));
    assert_eq!(world.stats.zeroed_bytes.get(), 4 * EXTENT);
}

#[test]
fn a_freed_extent_is_given_again_with_a_new_generation_and_without_zeros() {
    let mut world = start(2, vec![Initial::Used, Initial::Recycled]);
    assert!(world.extent().is_none(), "the last one is the reserve");
    let used = ExtentAddress { device: DEVICE, offset: START, len: EXTENT, generation: 10 };
    world.link.submit(Effect::FreeExtent { extent: used });
    let extent = world.extent().unwrap();
    assert_eq!((extent.offset, extent.generation), (START + EXTENT, 11));
    world.handle.stop();
    assert_eq!(world.stats.zeroed_bytes.get(), 0);
}

#[test]
fn checkpoints_are_replaced_and_extended() {
    let mut world = start(2, vec![]);
    let mut write = |bytes: &[u8], replace| match world.ask(Effect::Checkpoint {
        journal: JOURNAL,
        bytes: bytes.to_vec(),
        replace,
    }) {
        Event::CheckpointDone { journal: JOURNAL, result } => result,
        other => panic!("{other:?}"),
    };
    assert!(write(b"nothing to extend", false).unwrap_err().contains("000000000000001f.ckpt"));
    write(b"whole", true).unwrap();
    write(b" and more", false).unwrap();
    assert_eq!(world.checkpoints.read(JOURNAL).unwrap().unwrap(), b"whole and more");
    let mut write = |bytes: &[u8]| {
        world.ask(Effect::Checkpoint { journal: JOURNAL, bytes: bytes.to_vec(), replace: true });
    };
    write(b"again");
    assert_eq!(world.checkpoints.read(JOURNAL).unwrap().unwrap(), b"again");
    world.checkpoints.remove(JOURNAL).unwrap();
    assert_eq!(world.checkpoints.read(JOURNAL).unwrap(), None);
    world.handle.stop();
}

/// A shard's devices, whose flushes are seen beside the keeper's.
fn shard_devices(world: &World) -> (RingDevices, Ring) {
    let config = ArenaConfig { tail_bytes: 2 << 20, cold_bytes: 2 << 20, huge_pages: false, prefault: false };
    let arena = Arena::new(config).unwrap();
    let (waker, _doze) = doze().unwrap();
    let (mut links, _ends) = keeper_links(std::slice::from_ref(&waker), &waker);
    let (ring, device, flushes) = (Ring::new().unwrap(), world.device.clone(), world.flushes.clone());
    let devices = RingDevices::new(ring.clone(), 0, vec![device], arena.memory(), flushes, links.pop().unwrap()).0;
    (devices, ring)
}

/// What the shard hears until it has heard so much, or so many milliseconds have passed.
fn hear((devices, ring): &mut (RingDevices, Ring), count: usize, ms: u32) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..ms {
        devices.poll(&mut events);
        if events.len() >= count {
            break;
        }
        ring.wait(Duration::from_millis(1));
    }
    events
}

#[test]
fn a_flush_of_the_keeper_that_fails_reaches_a_shard_before_the_success_of_its_own() {
    // The keeper flushes when it has grown the device, and when an extent is filled.
    for failing in 0..2 {
        let (planted, on_flush) = Planted::new();
        let world = start_with(4, vec![], Some(on_flush));
        let mut devices = shard_devices(&world);
        for number in 0..=failing {
            planted.begun.recv().unwrap();
            devices.0.submit(Effect::Flush { token: number, device: DEVICE });
            assert!(hear(&mut devices, 1, 30).is_empty(), "flush {number}: a success while the keeper flushes");
            let outcome = if number == failing { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) };
            planted.outcome.send(outcome).unwrap();
            let heard = hear(&mut devices, if number < failing { 1 } else { 2 }, 10_000);
            if number < failing {
                assert!(matches!(heard[..], [Event::Flushed { result: Ok(()), .. }]), "{heard:?}");
            } else {
                let [Event::DeviceFailed { reason, .. }, Event::Flushed { result: Err(again), .. }] = &heard[..] else {
                    panic!("{heard:?}")
                };
                assert!(reason == again && reason.contains("Input/output error"), "{reason}");
            }
        }
        drop(planted);
        world.handle.stop();
    }
}

#[test]
fn a_flush_of_the_keeper_that_finds_no_space_is_a_failed_flush_too() {
    let (planted, on_flush) = Planted::new();
    let world = start_with(4, vec![], Some(on_flush));
    planted.begun.recv().unwrap();
    planted.outcome.send(Err(io::Error::from_raw_os_error(libc::ENOSPC))).unwrap();
    let mut devices = shard_devices(&world);
    let heard = hear(&mut devices, 1, 10_000);
    assert!(matches!(&heard[..], [Event::DeviceFailed { reason, .. }] if reason.contains("no space")), "{heard:?}");
    drop(planted);
    world.handle.stop();
}
