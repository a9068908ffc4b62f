//! Rings between threads, and how a sleeping thread is woken.
//!
//! Every ring has one producer and one consumer and a fixed number of slots. A consumer that sleeps says so; a producer
//! writes to its eventfd only then, so that a busy pair never makes a system call.
#![allow(unsafe_code, reason = "STYLE rule 18: rings; eventfd has no safe wrapper in std")]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

#[derive(Debug)]
struct Bell {
    eventfd: OwnedFd,
    sleeping: AtomicBool,
}

/// Wakes a thread that sleeps on its [`Doze`]. Cheap to clone and to call.
#[derive(Clone, Debug)]
pub struct Waker {
    bell: Arc<Bell>,
}

/// The sleeping side. One thread (or task) owns it.
#[derive(Debug)]
pub struct Doze {
    bell: Arc<Bell>,
}

/// A sleeper and its waker.
///
/// # Errors
/// When the process has no descriptor left.
pub fn doze() -> io::Result<(Waker, Doze)> {
    // SAFETY: no memory is involved; the result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let eventfd = unsafe { OwnedFd::from_raw_fd(fd) };
    let bell = Arc::new(Bell { eventfd, sleeping: AtomicBool::new(false) });
    Ok((Waker { bell: Arc::clone(&bell) }, Doze { bell }))
}

impl Waker {
    /// Wakes the sleeper if it sleeps. Call it after what it shall see is in its ring.
    pub fn wake(&self) {
        // Pairs with the fence in `Doze::try_sleep`: either the sleeper sees what was pushed, or we see that it sleeps.
        fence(Ordering::SeqCst);
        if self.bell.sleeping.load(Ordering::Relaxed) && self.bell.sleeping.swap(false, Ordering::AcqRel) {
            let one = 1u64;
            // SAFETY: eight readable bytes, as eventfd asks. It cannot block or fail: the count is far from its maximum.
            unsafe { libc::write(self.bell.eventfd.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }
}

impl Doze {
    /// Announces sleep. Afterwards the caller looks into its rings once more, and sleeps only if they are empty, until the
    /// descriptor is readable; then it calls [`Doze::awake`].
    pub fn announce(&self) {
        self.bell.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends the announcement.
    pub fn awake(&self) {
        self.bell.sleeping.store(false, Ordering::Relaxed);
    }

    /// Takes the eventfd's count, so that it is not readable any more. Does not block.
    pub fn drain(&self) {
        let mut count = 0u64;
        // SAFETY: eight writable bytes, as eventfd asks; the descriptor does not block.
        unsafe { libc::read(self.bell.eventfd.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    /// Sleeps until woken, at most `timeout_ms` (−1: for ever). For threads without a ring or a runtime of their own.
    pub fn sleep(&self, timeout_ms: i32) {
        let mut poll = libc::pollfd { fd: self.bell.eventfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid `pollfd`.
        unsafe { libc::poll(&raw mut poll, 1, timeout_ms) };
        self.awake();
        self.drain();
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.bell.eventfd.as_raw_fd()
    }
}

impl AsFd for Doze {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.eventfd.as_fd()
    }
}

mod neighbours;

pub use neighbours::{ControlReceiver, ControlSender, RingDepths, RingNeighbours, ShardEnd, Wiring, wire};

#[cfg(test)]
mod tests;
