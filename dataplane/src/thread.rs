//! A shard's thread: pins itself, builds its backends, then turns the shard until it has stopped.

use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Mono, Now, WallMs};
use shard::ports::Ports;
use shard::remote::Message;
use shard::{Idle, Shard};

use crate::arena::{Arena, Slice};
use crate::device::RingDevices;
use crate::net::KernelNetwork;
use crate::ring::{Ring, RingError};
use crate::rings::{Doze, RingNeighbours};

/// `housekeep` runs this often.
const HOUSEKEEP: Duration = Duration::from_millis(250);

/// What shards tell each other here.
pub type ShardMessage = Message<Slice, Slice>;

/// The backends of the embedded default: io_uring for network and devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelPorts;

impl Ports for KernelPorts {
    type Arena = Arena;
    type Network = KernelNetwork;
    type Devices = RingDevices;
    type Neighbours = RingNeighbours<ShardMessage>;

    fn warn(&mut self, text: String) {
        tracing::warn!("{text}");
    }
}

/// What a thread does when nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollMode {
    /// Spins for a little after work, then sleeps until something completes.
    Adaptive {
        /// How long it spins.
        spin: Duration,
    },
    /// Never sleeps: for a core of its own.
    Busy,
}

/// How a shard's thread runs.
#[derive(Clone, Copy, Debug)]
pub struct ThreadConfig {
    /// The shard's number, for its name.
    pub shard: u16,
    /// The core to pin it to.
    pub core: Option<usize>,
    /// What it does when nothing happens.
    pub poll: PollMode,
}

/// Why a shard's thread did not start serving.
#[derive(Debug)]
pub enum StartError<E> {
    /// No thread to be had.
    Thread(io::Error),
    /// No ring to be had.
    Ring(RingError),
    /// What building the shard ended with.
    Build(E),
}

impl<E: fmt::Display> fmt::Display for StartError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(error) => write!(f, "starting a thread: {error}"),
            Self::Ring(error) => error.fmt(f),
            Self::Build(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for StartError<E> {}

/// A thread that is being started, or serves.
pub struct ShardThread<T, E> {
    thread: JoinHandle<()>,
    started: mpsc::Receiver<Result<T, StartError<E>>>,
}

impl<T, E> ShardThread<T, E> {
    /// Waits until the shard serves (recovery may take a while) and gives what its building reported.
    ///
    /// # Errors
    /// Why it does not serve.
    pub fn wait_started(&self) -> Result<T, StartError<E>> {
        self.started.recv().unwrap_or_else(|_| {
            Err(StartError::Thread(io::Error::other("the shard's thread ended while it was started")))
        })
    }

    /// Waits until the shard has stopped, which it does after `ToShard::Shutdown`.
    pub fn join(self) {
        // A panic in the thread has ended the process.
        let _ = self.thread.join();
    }
}

/// Starts a shard's thread. `build` runs on it: it makes the backends on the ring given, opens the store (recovery) and returns
/// the shard, with something to report to whoever waits.
///
/// # Errors
/// When no thread can be started.
pub fn spawn<T, E, B>(config: ThreadConfig, doze: Doze, build: B) -> io::Result<ShardThread<T, E>>
where
    T: Send + 'static,
    E: Send + 'static,
    B: FnOnce(&Ring) -> Result<(Shard<KernelPorts>, T), E> + Send + 'static,
{
    let (report, started) = mpsc::channel();
    let name = format!("shard-{}", config.shard);
    let run = move || {
        pin(config);
        let ring = match Ring::new() {
            Ok(ring) => ring,
            Err(error) => return drop(report.send(Err(StartError::Ring(error)))),
        };
        match build(&ring) {
            Err(error) => drop(report.send(Err(StartError::Build(error)))),
            Ok((shard, reported)) => {
                // Whoever waited may be gone; the shard serves all the same.
                let _ = report.send(Ok(reported));
                turn_until_stopped(config.poll, &ring, &doze, HostedShard(shard));
            }
        }
    };
    let thread = std::thread::Builder::new().name(name.clone()).spawn(move || abort_on_panic(&name, run))?;
    Ok(ShardThread { thread, started })
}

fn pin(config: ThreadConfig) {
    if let Some(id) = config.core
        && !core_affinity::set_for_current(core_affinity::CoreId { id })
    {
        tracing::warn!(shard = config.shard, core = id, "the shard's thread cannot be pinned to its core");
    }
}

/// What the loop turns: the shard, or a stand-in of the tests.
trait Hosted {
    fn turn(&mut self, now: Now) -> Idle;
    fn housekeep(&mut self, now: Now);
    /// Queues what the turn made possible; then the ring is entered.
    fn arm(&mut self);
    /// When the backends want a turn without an event.
    fn deadline(&self) -> Option<Instant>;
    fn is_stopped(&self) -> bool;
}

struct HostedShard(Shard<KernelPorts>);

impl Hosted for HostedShard {
    fn turn(&mut self, now: Now) -> Idle {
        self.0.turn(now)
    }

    fn housekeep(&mut self, now: Now) {
        self.0.housekeep(now);
    }

    fn arm(&mut self) {
        let backends = self.0.backends_mut();
        backends.network.arm();
        backends.devices.arm();
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.backends().network.deadline()
    }

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

fn turn_until_stopped(poll: PollMode, ring: &Ring, doze: &Doze, mut hosted: impl Hosted) {
    let mut housekeep_at = Instant::now();
    let mut busy_at = Instant::now();
    // Sleep is announced one turn ahead, so that the last look into all rings happens after it.
    let mut announced = false;
    ring.watch(doze);
    loop {
        let instant = Instant::now();
        let now = now_at(instant);
        if instant >= housekeep_at {
            hosted.housekeep(now);
            housekeep_at = instant + HOUSEKEEP;
        }
        let idle = hosted.turn(now);
        hosted.arm();
        if hosted.is_stopped() {
            return;
        }
        ring.enter();
        if idle.busy || ring.has_completions() {
            busy_at = instant;
            if std::mem::take(&mut announced) {
                doze.awake();
            }
            continue;
        }
        let PollMode::Adaptive { spin } = poll else {
            std::hint::spin_loop();
            continue;
        };
        if instant.duration_since(busy_at) < spin {
            std::hint::spin_loop();
        } else if announced {
            let until = idle.until.map(|until| instant + Duration::from_nanos(until.since(now.mono)));
            let deadline = [until, hosted.deadline()].into_iter().flatten().min();
            let wake_at = deadline.map_or(housekeep_at, |deadline| deadline.min(housekeep_at));
            ring.wait(wake_at.saturating_duration_since(Instant::now()));
            ring.rewatch(doze);
            doze.awake();
            announced = false;
        } else {
            doze.announce();
            announced = true;
        }
    }
}

/// Both clocks.
#[must_use]
pub fn now() -> Now {
    now_at(Instant::now())
}

fn now_at(instant: Instant) -> Now {
    static START: OnceLock<Instant> = OnceLock::new();
    let mono = instant.saturating_duration_since(*START.get_or_init(|| instant));
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now {
        mono: Mono(u64::try_from(mono.as_nanos()).unwrap_or(u64::MAX)),
        wall: WallMs(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)),
    }
}

/// Runs `body`; a panic in it ends the process, since the others cannot go on without this thread.
pub(crate) fn abort_on_panic(name: &str, body: impl FnOnce()) {
    if std::panic::catch_unwind(AssertUnwindSafe(body)).is_err() {
        tracing::error!(thread = name, "a thread of the data plane panicked; the broker stops at once");
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use crate::rings::{Waker, doze};

    #[derive(Default)]
    struct Seen {
        turns: AtomicU64,
        housekeeps: AtomicU64,
        mail: AtomicU64,
        stop: AtomicBool,
        cpu_us: AtomicU64,
    }

    /// Consumes mail; notes the thread's CPU time at the end.
    struct Fake {
        seen: Arc<Seen>,
        consumed: u64,
        until_ms: Option<u64>,
    }

    impl Hosted for Fake {
        fn turn(&mut self, now: Now) -> Idle {
            self.seen.turns.fetch_add(1, Ordering::SeqCst);
            let mail = self.seen.mail.load(Ordering::SeqCst);
            let busy = mail != std::mem::replace(&mut self.consumed, mail);
            Idle { busy, until: self.until_ms.map(|ms| now.mono.plus_ms(ms)) }
        }

        fn housekeep(&mut self, _: Now) {
            self.seen.housekeeps.fetch_add(1, Ordering::SeqCst);
            self.seen.cpu_us.store(cpu_us(), Ordering::SeqCst);
        }

        fn arm(&mut self) {}

        fn deadline(&self) -> Option<Instant> {
            None
        }

        fn is_stopped(&self) -> bool {
            self.seen.stop.load(Ordering::SeqCst)
        }
    }

    #[allow(unsafe_code, reason = "a clock that std does not have")]
    fn cpu_us() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid clock and a valid place for the answer.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        u64::try_from(time.tv_sec * 1_000_000 + time.tv_nsec / 1000).unwrap()
    }

    fn start(until_ms: Option<u64>) -> (Arc<Seen>, Waker, JoinHandle<()>) {
        let (waker, doze) = doze().unwrap();
        let seen = Arc::new(Seen::default());
        let fake = Fake { seen: Arc::clone(&seen), consumed: 0, until_ms };
        let poll = PollMode::Adaptive { spin: Duration::from_micros(20) };
        let thread = std::thread::spawn(move || turn_until_stopped(poll, &Ring::new().unwrap(), &doze, fake));
        (seen, waker, thread)
    }

    fn stop(seen: &Seen, waker: &Waker, thread: JoinHandle<()>) {
        seen.stop.store(true, Ordering::SeqCst);
        waker.wake();
        thread.join().unwrap();
    }

    #[test]
    fn a_quiet_thread_sleeps_and_keeps_house_a_few_times_a_second() {
        let (seen, waker, thread) = start(None);
        std::thread::sleep(Duration::from_millis(600));
        let (turns, housekeeps) = (seen.turns.load(Ordering::SeqCst), seen.housekeeps.load(Ordering::SeqCst));
        assert!((2..=4).contains(&housekeeps), "{housekeeps}");
        assert!(turns < 1000, "{turns} turns");
        // One percent of a core, the start apart.
        let cpu = seen.cpu_us.load(Ordering::SeqCst);
        assert!(cpu < 6000, "{cpu} µs of CPU in 600 ms");
        stop(&seen, &waker, thread);
    }

    #[test]
    fn mail_wakes_a_sleeping_thread_every_time() {
        let (seen, waker, thread) = start(None);
        for i in 1..=200 {
            let turns = seen.turns.load(Ordering::SeqCst);
            seen.mail.store(i, Ordering::SeqCst);
            waker.wake();
            let start = Instant::now();
            while seen.turns.load(Ordering::SeqCst) == turns {
                assert!(start.elapsed() < Duration::from_millis(150), "wake-up {i} was lost");
                std::thread::yield_now();
            }
            if i % 8 == 0 {
                std::thread::sleep(Duration::from_millis(1)); // falls asleep again
            }
        }
        stop(&seen, &waker, thread);
    }

    #[test]
    fn a_wake_up_that_is_reaped_before_the_sleep_keeps_the_thread_awake() {
        let ring = Ring::new().unwrap();
        let (waker, doze) = doze().unwrap();
        ring.watch(&doze);
        ring.enter();
        doze.announce();
        waker.wake();
        let told = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            ring.enter();
            ring.has_completions()
        });
        assert!(told, "what woke it would be seen when it has slept");
        assert!(!ring.has_completions(), "a wake-up is told once");
    }

    #[test]
    fn a_deadline_ends_the_sleep() {
        let (seen, waker, thread) = start(Some(5));
        std::thread::sleep(Duration::from_millis(200));
        let turns = seen.turns.load(Ordering::SeqCst);
        assert!(turns >= 10, "{turns} turns");
        stop(&seen, &waker, thread);
    }
}
