//! The keeper: one thread with blocking I/O for what the shards must not wait for.
//!
//! It hosts the extent pools of all devices, fills extents with zeros ahead of need, and writes checkpoint files. Shards ask
//! over a ring each and are answered over one. While it fills an extent it looks for requests after every mebibyte.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::stats::Counter;
use base::{DeviceIndex, JournalId};
use journal::pool::{Fill, Filled, Pool, Wanted};
use journal::storage::{Storage as _, StorageError};
use journal::store::{Effect, Event, ExtentAddress, Wish};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::device::{BlockingStorage, Flushes};
use crate::rings::{Doze, Waker};

mod checkpoints;
#[cfg(test)]
mod tests;

pub use checkpoints::Checkpoints;

/// Slots of a ring to the keeper, and of one back: more than the journals of a shard have open at once.
pub const DEPTH: usize = 256;

/// Zeros are written in steps of this length, so that requests wait for one step at most.
const STEP: u64 = 1 << 20;

/// A device around which there was no space is asked to grow again after this long.
const GROWTH_RETRY: Duration = Duration::from_secs(5);

/// What a shard asks of the keeper.
#[derive(Debug)]
enum Request {
    Want { device: DeviceIndex, wish: Wish },
    Free { extent: ExtentAddress },
    Checkpoint { journal: JournalId, bytes: Vec<u8>, replace: bool },
}

/// A shard's end.
pub struct KeeperLink {
    requests: Producer<Request>,
    /// What found no room; bounded by what the shard's journals have open.
    waiting: VecDeque<Request>,
    answers: Consumer<Event>,
    waker: Waker,
}

impl fmt::Debug for KeeperLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeeperLink").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

/// The keeper's end of a shard.
pub struct KeeperEnd {
    requests: Consumer<Request>,
    answers: Producer<Event>,
    waiting: VecDeque<Event>,
    waker: Waker,
}

/// Rings between the shards, which their wakers wake, and the keeper.
#[must_use]
pub fn keeper_links(shards: &[Waker], keeper: &Waker) -> (Vec<KeeperLink>, Vec<KeeperEnd>) {
    let link = |shard: &Waker| {
        let (request_in, request_out) = RingBuffer::new(DEPTH);
        let (answer_in, answer_out) = RingBuffer::new(DEPTH);
        let link =
            KeeperLink { requests: request_in, waiting: VecDeque::new(), answers: answer_out, waker: keeper.clone() };
        let end =
            KeeperEnd { requests: request_out, answers: answer_in, waiting: VecDeque::new(), waker: shard.clone() };
        (link, end)
    };
    shards.iter().map(link).unzip()
}

impl KeeperLink {
    /// Hands an effect over.
    ///
    /// # Panics
    /// When it is not one for the keeper.
    pub(crate) fn submit(&mut self, effect: Effect) {
        let request = match effect {
            Effect::NeedExtent { device, wish, .. } => Request::Want { device, wish },
            Effect::FreeExtent { extent } => Request::Free { extent },
            Effect::Checkpoint { journal, bytes, replace } => Request::Checkpoint { journal, bytes, replace },
            other => unreachable!("the shard keeps this to itself: {other:?}"),
        };
        self.waiting.push_back(request);
        self.push_waiting();
    }

    /// Pushes what waits for room.
    pub(crate) fn push_waiting(&mut self) {
        let mut pushed = false;
        while let Some(request) = self.waiting.pop_front() {
            match self.requests.push(request) {
                Ok(()) => pushed = true,
                Err(rtrb::PushError::Full(request)) => {
                    self.waiting.push_front(request);
                    break;
                }
            }
        }
        if pushed {
            self.waker.wake();
        }
    }

    pub(crate) fn answer(&mut self) -> Option<Event> {
        self.answers.pop().ok()
    }
}

impl KeeperEnd {
    fn answer(&mut self, event: Event) {
        self.waiting.push_back(event);
        self.push_waiting();
    }

    fn push_waiting(&mut self) {
        let mut pushed = false;
        while let Some(event) = self.waiting.pop_front() {
            match self.answers.push(event) {
                Ok(()) => pushed = true,
                Err(rtrb::PushError::Full(event)) => {
                    self.waiting.push_front(event);
                    break;
                }
            }
        }
        if pushed {
            self.waker.wake();
        }
    }
}

/// What others may know of a device's space. Written by the keeper.
#[derive(Debug, Default)]
pub struct SpaceStats {
    /// Bytes that appends may still take.
    pub free_bytes: Counter,
    /// Bytes of extents that journals hold.
    pub used_bytes: Counter,
    /// 1 while appends get no extents.
    pub full: Counter,
    /// Extents written ahead.
    pub extents_ready: Counter,
    /// Bytes of zeros written.
    pub zeroed_bytes: Counter,
}

/// A device as the keeper has it.
pub struct KeptDevice {
    /// Its extents, built from what recovery claimed.
    pub pool: Pool,
    /// Its blocking face.
    pub storage: BlockingStorage,
    /// Where the numbers go.
    pub stats: Arc<SpaceStats>,
    /// Length of an extent.
    pub extent_len: u64,
}

/// How the keeper works.
pub struct KeeperConfig {
    /// Bytes per second of zeros while nobody waits for an extent and they are taken slowly. Where they are taken faster, half
    /// as much again as is taken; with somebody waiting there is no bound.
    pub fill_rate: u64,
    /// Where checkpoints go.
    pub checkpoints: Checkpoints,
    /// The devices, by index.
    pub devices: Vec<KeptDevice>,
    /// Told when a flush of the keeper fails.
    pub flushes: Flushes,
}

struct Filling {
    fill: Fill,
    done: u64,
    started: Instant,
}

struct Device {
    kept: KeptDevice,
    /// Shards that wait for an extent.
    wishes: VecDeque<(usize, Wish)>,
    filling: Option<Filling>,
    retry_growth_at: Option<Instant>,
    /// When the last extent was handed out, and how long after the one before.
    taken: Option<(Instant, Duration)>,
}

struct Keeper {
    fill_rate: u64,
    checkpoints: Checkpoints,
    devices: Vec<Device>,
    shards: Vec<KeeperEnd>,
    flushes: Flushes,
    doze: Doze,
    stop: Arc<AtomicBool>,
}

/// The running keeper.
#[derive(Debug)]
pub struct KeeperHandle {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<()>,
}

impl KeeperHandle {
    /// Answers what is asked, then ends. Call it when all shards have stopped.
    pub fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
        if self.thread.join().is_err() {
            tracing::error!("the keeper thread panicked");
        }
    }
}

/// Starts the keeper. `waker` and `doze` are the pair that the links were made with.
///
/// # Errors
/// When no thread can be started.
pub fn spawn(config: KeeperConfig, shards: Vec<KeeperEnd>, waker: Waker, doze: Doze) -> io::Result<KeeperHandle> {
    let stop = Arc::new(AtomicBool::new(false));
    let devices = config
        .devices
        .into_iter()
        .map(|kept| Device { kept, wishes: VecDeque::new(), filling: None, retry_growth_at: None, taken: None })
        .collect();
    let mut keeper = Keeper {
        fill_rate: config.fill_rate.max(STEP),
        checkpoints: config.checkpoints,
        devices,
        shards,
        flushes: config.flushes,
        doze,
        stop: Arc::clone(&stop),
    };
    let run = move || crate::thread::abort_on_panic("keeper", move || keeper.run());
    let thread = std::thread::Builder::new().name("keeper".to_owned()).spawn(run)?;
    Ok(KeeperHandle { stop, waker, thread })
}

impl Device {
    fn note_taken(&mut self) {
        let now = Instant::now();
        let since = self.taken.map_or(Duration::from_secs(3600), |(before, _)| now - before);
        self.taken = Some((now, since));
    }

    /// Tells that the device is full, or is no longer, once each.
    fn publish_full(&self) {
        let (pool, stats) = (&self.kept.pool, &self.kept.stats);
        if pool.is_full() == (stats.full.get() == 1) {
            return;
        }
        let path = self.kept.storage.device().path().display();
        stats.full.set(u64::from(pool.is_full()));
        if pool.is_full() {
            let why = "producers are refused with POLICY_VIOLATION until records or topics are deleted or retention frees some";
            tracing::warn!(device = %path, "the device is full: {why}");
        } else {
            tracing::info!(device = %path, free_mib = pool.free_bytes() >> 20, "the device has room again: producers are served");
        }
    }

    /// Bytes per second at which extents are taken, falling while none is.
    fn demand(&self) -> f64 {
        let Some((at, interval)) = self.taken else { return 0.0 };
        // A millisecond: several journals may take one each at the same moment.
        let interval = interval.max(at.elapsed()).max(Duration::from_millis(1));
        self.kept.extent_len as f64 / interval.as_secs_f64()
    }
}

impl Keeper {
    fn run(&mut self) {
        loop {
            let stopping = self.stop.load(Ordering::SeqCst);
            let mut worked = self.serve();
            let mut pause = Duration::from_secs(1);
            if !stopping {
                for device in 0..self.devices.len() {
                    match self.fill_step(device) {
                        Step::Done => worked = true,
                        Step::Wait(for_) => pause = pause.min(for_),
                        Step::Nothing => {}
                    }
                }
            }
            self.publish();
            if worked {
                continue;
            }
            if stopping && self.shards.iter().all(|shard| shard.waiting.is_empty() || shard.answers.is_abandoned()) {
                return;
            }
            self.doze.announce();
            if self.shards.iter().any(|shard| !shard.requests.is_empty()) || self.stop.load(Ordering::SeqCst) {
                self.doze.awake();
                if stopping {
                    std::thread::sleep(Duration::from_millis(1)); // a shard that reads its last answers
                }
                continue;
            }
            if self.shards.iter().any(|shard| !shard.waiting.is_empty()) {
                pause = pause.min(Duration::from_millis(1));
            }
            self.doze.sleep(i32::try_from(pause.as_millis().max(1)).unwrap_or(1000));
        }
    }

    /// Takes every request. Returns whether there was one.
    fn serve(&mut self) -> bool {
        let mut any = false;
        for shard in 0..self.shards.len() {
            self.shards[shard].push_waiting();
            while let Ok(request) = self.shards[shard].requests.pop() {
                any = true;
                match request {
                    Request::Want { device, wish } => self.want(shard, device, wish),
                    Request::Free { extent } => {
                        let device = &mut self.devices[usize::from(extent.device.0)];
                        device.kept.pool.give_back(extent);
                        self.grant(extent.device);
                    }
                    Request::Checkpoint { journal, bytes, replace } => {
                        let result = self.checkpoints.write(journal, &bytes, replace);
                        self.shards[shard].answer(Event::CheckpointDone { journal, result });
                    }
                }
            }
        }
        any
    }

    fn want(&mut self, shard: usize, index: DeviceIndex, wish: Wish) {
        let device = &mut self.devices[usize::from(index.0)];
        let extent = match device.kept.pool.want(wish) {
            Wanted::Extent(extent) => {
                device.note_taken();
                Some(extent)
            }
            Wanted::Full => None,
            Wanted::Later => {
                device.wishes.push_back((shard, wish));
                return;
            }
        };
        self.shards[shard].answer(Event::Extent { device: index, extent });
    }

    /// Answers wishes that can be answered now.
    fn grant(&mut self, index: DeviceIndex) {
        let device = &mut self.devices[usize::from(index.0)];
        for (shard, wish) in std::mem::take(&mut device.wishes) {
            self.want(shard, index, wish);
        }
    }

    /// Writes one step of the zeros that a device's pool asks for.
    fn fill_step(&mut self, at: usize) -> Step {
        let index = DeviceIndex(u16::try_from(at).expect("few devices"));
        let device = &mut self.devices[at];
        if device.retry_growth_at.is_some_and(|at| at <= Instant::now()) {
            device.retry_growth_at = None;
            device.kept.pool.retry_growth();
        }
        let demand = device.demand() * 1.5;
        let Some(filling) = &mut device.filling else {
            let Some(fill) = device.kept.pool.work() else { return Step::Nothing };
            let grown = match fill.grow {
                Some(len) => flushing(&self.flushes, index, &mut device.kept.storage, |storage| storage.grow(len)),
                None => Ok(()),
            };
            if let Err(error) = grown {
                self.filled(index, Err(error));
                return Step::Done;
            }
            device.filling = Some(Filling { fill, done: 0, started: Instant::now() });
            return Step::Done;
        };
        if device.wishes.is_empty() {
            let due = Duration::from_secs_f64(filling.done as f64 / demand.max(self.fill_rate as f64));
            let elapsed = filling.started.elapsed();
            if elapsed < due {
                return Step::Wait(due - elapsed);
            }
        }
        let step = STEP.min(filling.fill.len - filling.done);
        let result = device.kept.storage.write_zeros(filling.fill.offset + filling.done, step);
        filling.done += step;
        device.kept.stats.zeroed_bytes.add(step);
        match result {
            Ok(()) if filling.done < filling.fill.len => {}
            Ok(()) => {
                let flushed = flushing(&self.flushes, index, &mut device.kept.storage, BlockingStorage::flush);
                self.filled(index, flushed);
            }
            Err(error) => self.filled(index, Err(error)),
        }
        Step::Done
    }

    fn filled(&mut self, index: DeviceIndex, result: Result<(), StorageError>) {
        let device = &mut self.devices[usize::from(index.0)];
        device.filling = None;
        device.kept.pool.done(match result {
            Ok(()) => Filled::Done,
            Err(StorageError::Full) => {
                device.retry_growth_at = Some(Instant::now() + GROWTH_RETRY);
                Filled::NoSpace
            }
            Err(StorageError::Io(reason)) => {
                tracing::error!(device = index.0, reason, "an extent cannot be written and is not used");
                Filled::Failed
            }
        });
        self.grant(index);
    }

    fn publish(&self) {
        for device in &self.devices {
            let counts = device.kept.pool.counts();
            let stats = &device.kept.stats;
            stats.free_bytes.set(device.kept.pool.free_bytes());
            stats.used_bytes.set(counts.used as u64 * device.kept.extent_len);
            stats.extents_ready.set(counts.ready as u64);
            device.publish_full();
        }
    }
}

/// Does what flushes the device. Where an error is that of a flush, whatever any shard had written before may be gone with it:
/// all of them learn of it before they take a flush of theirs for a success.
fn flushing(
    flushes: &Flushes,
    index: DeviceIndex,
    storage: &mut BlockingStorage,
    work: impl FnOnce(&mut BlockingStorage) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut result = Ok(());
    flushes.run_keepers(index, || {
        result = work(storage);
        let reason = match result.as_ref().err()? {
            StorageError::Io(reason) => reason.clone(),
            StorageError::Full => format!("flushing {}: no space left", storage.device().path().display()),
        };
        storage.flush_failed().then_some(reason)
    });
    result
}

enum Step {
    Done,
    Wait(Duration),
    Nothing,
}
