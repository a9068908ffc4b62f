//! What all shards together know of the flushes of their devices.
//!
//! A flush that fails may have dropped what any shard had written before it, and a later flush of another shard that succeeds
//! says nothing about that. So a shard that reaps a success first waits until every flush that another shard, or the keeper,
//! had under way at that moment has ended, and looks whether one failed. Without flushes of others nothing waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::DeviceIndex;

use crate::rings::Waker;

/// One shard's flushes of one device, or the keeper's. A cache line of its own: each is written by one thread.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Lane {
    submitted: AtomicU64,
    settled: AtomicU64,
    /// The lane's shard waits for others to settle.
    waiting: AtomicBool,
}

#[derive(Debug)]
struct DeviceFlushes {
    /// By shard, then the keeper's.
    lanes: Vec<Lane>,
    failed: AtomicBool,
    /// Cold: locked once, at the failure.
    reason: Mutex<Option<String>>,
}

/// Shared by the devices backends of all shards and the keeper.
#[derive(Clone, Debug)]
pub struct Flushes {
    devices: Arc<[DeviceFlushes]>,
    wakers: Arc<[Waker]>,
}

/// How far the other lanes must have settled before a success counts.
pub(super) type Snapshot = Vec<u64>;

impl Flushes {
    /// For so many devices, the shards that these wakers wake, and the keeper.
    #[must_use]
    pub fn new(devices: usize, wakers: &[Waker]) -> Self {
        let device = || DeviceFlushes {
            lanes: (0..=wakers.len()).map(|_| Lane::default()).collect(),
            failed: AtomicBool::new(false),
            reason: Mutex::new(None),
        };
        Self { devices: (0..devices).map(|_| device()).collect(), wakers: wakers.into() }
    }

    fn device(&self, device: DeviceIndex) -> &DeviceFlushes {
        &self.devices[usize::from(device.0)]
    }

    pub(super) fn submitted(&self, device: DeviceIndex, shard: usize) {
        self.device(device).lanes[shard].submitted.fetch_add(1, Ordering::SeqCst);
    }

    /// Runs what flushes the device on the keeper's thread; `flush` gives why that failed, if it did. A shard whose own flush
    /// succeeds meanwhile waits for the end and learns of the failure first.
    pub fn run_keepers(&self, device: DeviceIndex, flush: impl FnOnce() -> Option<String>) {
        let keeper = self.wakers.len();
        self.submitted(device, keeper);
        if let Some(reason) = flush() {
            self.fail(device, &reason);
        }
        self.settled(device, keeper);
    }

    /// Notes the end of a flush of `shard`. A failure must have been noted with [`Flushes::fail`] before.
    pub(super) fn settled(&self, device: DeviceIndex, shard: usize) {
        let device = self.device(device);
        device.lanes[shard].settled.fetch_add(1, Ordering::SeqCst);
        for (lane, waker) in device.lanes.iter().zip(&*self.wakers) {
            if lane.waiting.load(Ordering::SeqCst) {
                waker.wake();
            }
        }
    }

    /// Fails the device for all shards. The first reason stays.
    pub fn fail(&self, device: DeviceIndex, reason: &str) {
        let device = self.device(device);
        device.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
        device.failed.store(true, Ordering::SeqCst);
        for waker in &*self.wakers {
            waker.wake();
        }
    }

    /// Why the device has failed, if it has.
    #[must_use]
    pub fn failure(&self, device: DeviceIndex) -> Option<String> {
        let device = self.device(device);
        if !device.failed.load(Ordering::SeqCst) {
            return None;
        }
        device.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the other shards and the keeper have under way.
    pub(super) fn snapshot(&self, device: DeviceIndex) -> Snapshot {
        self.device(device).lanes.iter().map(|lane| lane.submitted.load(Ordering::SeqCst)).collect()
    }

    /// Whether all of a snapshot has settled, but for the shard's own flushes.
    pub(super) fn is_settled(&self, device: DeviceIndex, shard: usize, snapshot: &Snapshot) -> bool {
        let lanes = self.device(device).lanes.iter().zip(snapshot).enumerate();
        lanes.filter(|(i, _)| *i != shard).all(|(_, (lane, &upto))| lane.settled.load(Ordering::SeqCst) >= upto)
    }

    pub(super) fn set_waiting(&self, device: DeviceIndex, shard: usize, waiting: bool) {
        self.device(device).lanes[shard].waiting.store(waiting, Ordering::SeqCst);
    }
}
