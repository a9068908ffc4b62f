//! The io_uring of one shard, shared by its network and its devices, so that one system call a turn submits and reaps both.
//!
//! # Safety model
//! The kernel works with addresses given to it until the completion of the request is reaped. [`Ring::push`] is therefore
//! `unsafe`: its caller keeps the memory of a request in place (an arena pin, a boxed message) and lets go only when it sees
//! the completion with the request's token. Dropping the last handle closes the ring; the kernel then cancels and waits for
//! what is in flight when the thread exits, so backends outlive the ring only as pins that are leaked, never as freed memory:
//! see `Drop` of the backends.
//!
//! The two faces live on one thread and borrow the ring only inside calls that call nothing of theirs, which is why a
//! `RefCell` is enough here, and why it can never be found borrowed.
#![allow(unsafe_code, reason = "STYLE rule 18: io_uring")]

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use io_uring::types::{self, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::rings::Doze;

/// Submission entries. More than a turn queues normally (connections ready + writes in flight); a full queue costs one more
/// system call, nothing else.
pub const SUBMISSIONS: u32 = 1024;

/// Completion entries: every connection may complete at once. Beyond this the kernel keeps completions itself.
const COMPLETIONS: u32 = 16_384;

/// Whom a completion is for: the top byte of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Face {
    Network = 1,
    Devices = 2,
    Wake = 3,
}

/// `POLLIN` as io_uring takes it.
const POLL_IN: u32 = libc::POLLIN.cast_unsigned() as u32;

/// Shift of [`Face`] in a token.
const FACE_SHIFT: u32 = 56;

/// The token of a request: whose, and 56 bits of its own.
pub(crate) const fn token(face: Face, value: u64) -> u64 {
    assert!(value >> FACE_SHIFT == 0);
    ((face as u64) << FACE_SHIFT) | value
}

/// A completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The 56 bits given with the request.
    pub(crate) value: u64,
    /// Bytes, a descriptor, or a negative error number.
    pub(crate) result: i32,
    /// `IORING_CQE_F_*`.
    pub(crate) flags: u32,
}

impl Completion {
    /// Whether more completions of the same request follow.
    pub(crate) fn more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// The provided buffer that was used.
    pub(crate) fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }
}

/// Why there is no ring; the text says what to do.
#[derive(Debug)]
pub enum RingError {
    /// The kernel or a sandbox forbids io_uring.
    Forbidden(io::Error),
    /// The kernel is older than Linux 6.1.
    TooOld(io::Error),
    /// Not enough locked memory for the ring itself (kernels that charge it).
    Memory(io::Error),
    /// Anything else.
    Io(io::Error),
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(error) => {
                write!(f, "io_uring is forbidden here ({error}): ")?;
                match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").as_deref().map(str::trim) {
                    Ok("2") => f.write_str("run `sysctl kernel.io_uring_disabled=0` (it is 2: off for everyone)"),
                    Ok("1") => f.write_str(
                        "run `sysctl kernel.io_uring_disabled=0`, or add the user to the group in kernel.io_uring_group",
                    ),
                    _ => f.write_str(
                        "a seccomp profile or an old kernel blocks it; in a container allow the io_uring_* system calls (for Docker: \
                         `--security-opt seccomp=unconfined` or a profile of your own), else use Linux 6.1 or later",
                    ),
                }
            }
            Self::TooOld(error) => write!(f, "this kernel's io_uring is too old ({error}): use Linux 6.1 or later"),
            Self::Memory(error) => {
                write!(
                    f,
                    "no memory for io_uring ({error}): raise the memlock limit (`ulimit -l`, or LimitMEMLOCK= in the unit)"
                )
            }
            Self::Io(error) => write!(f, "io_uring: {error}"),
        }
    }
}

impl std::error::Error for RingError {}

struct Core {
    uring: IoUring,
    network: Vec<Completion>,
    devices: Vec<Completion>,
    /// A wake-up was reaped that [`Ring::has_completions`] has not told of.
    woken: bool,
    unwatched: bool,
}

/// One shard's ring. Clones are handles for the same thread.
#[derive(Clone)]
pub struct Ring {
    core: Rc<RefCell<Core>>,
}

impl Ring {
    /// Sets up a ring for the calling thread, which alone may use it.
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn new() -> Result<Self, RingError> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EPERM | libc::ENOSYS | libc::EACCES) => RingError::Forbidden(error),
                Some(libc::EINVAL) => RingError::TooOld(error),
                Some(libc::ENOMEM) => RingError::Memory(error),
                _ => RingError::Io(error),
            })?;
        let core = Core { uring, network: Vec::new(), devices: Vec::new(), woken: false, unwatched: false };
        Ok(Self { core: Rc::new(RefCell::new(core)) })
    }

    /// Queues a request.
    ///
    /// # Safety
    /// Every address in `entry` stays valid, and what the kernel writes stays unused, until the completion with the entry's
    /// token (the last one, for a multishot request) is reaped.
    pub(crate) unsafe fn push(&self, entry: &squeue::Entry) {
        let mut core = self.core.borrow_mut();
        loop {
            // SAFETY: the caller's promise is the one that `push` asks for.
            if unsafe { core.uring.submission().push(entry) }.is_ok() {
                return;
            }
            core.submit();
            // Where the kernel took nothing, it waits for room for completions.
            core.reap();
        }
    }

    /// Submits what is queued and lets finished work complete, without waiting. No system call when there is nothing to do.
    pub fn enter(&self) {
        let mut core = self.core.borrow_mut();
        let queue = core.uring.submission();
        if !queue.is_empty() || queue.taskrun() || queue.cq_overflow() {
            drop(queue);
            core.submit();
        }
    }

    /// Submits what is queued and waits until something completes, at most `timeout`.
    pub fn wait(&self, timeout: Duration) {
        let core = self.core.borrow_mut();
        let timespec = Timespec::from(timeout);
        let args = SubmitArgs::new().timespec(&timespec);
        // Errors say that nothing came in time, that a signal did, or that completions must be reaped first: the loop goes on.
        let _ = core.uring.submitter().submit_with_args(1, &args);
    }

    /// Sorts completions to their faces. Returns whether there were any.
    pub(crate) fn reap(&self) -> bool {
        self.core.borrow_mut().reap()
    }

    /// Whether completions are waiting to be polled by a face, or a wake-up came since the last call: once reaped it does not
    /// end a [`Ring::wait`] any more, and what it is about may have come after the last look.
    pub fn has_completions(&self) -> bool {
        self.reap();
        let mut core = self.core.borrow_mut();
        std::mem::take(&mut core.woken) || !core.network.is_empty() || !core.devices.is_empty()
    }

    /// Swaps the face's completions with an empty vector.
    pub(crate) fn take(&self, face: Face, into: &mut Vec<Completion>) {
        let mut core = self.core.borrow_mut();
        debug_assert!(into.is_empty());
        match face {
            Face::Network => std::mem::swap(&mut core.network, into),
            Face::Devices => std::mem::swap(&mut core.devices, into),
            Face::Wake => {}
        }
    }

    /// Makes a wake-up of `doze` end a wait.
    pub(crate) fn watch(&self, doze: &Doze) {
        let entry =
            opcode::PollAdd::new(types::Fd(doze.fd()), POLL_IN).multi(true).build().user_data(token(Face::Wake, 0));
        // SAFETY: no memory is involved; the kernel holds the eventfd while it is watched.
        unsafe { self.push(&entry) };
    }

    /// Watches again where the kernel has ended the watch.
    pub(crate) fn rewatch(&self, doze: &Doze) {
        self.reap();
        if std::mem::take(&mut self.core.borrow_mut().unwatched) {
            self.watch(doze);
        }
    }

    /// Makes an empty table of so many pieces of memory for fixed reads and writes.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn reserve_pieces(&self, count: u32) -> io::Result<()> {
        self.core.borrow().uring.submitter().register_buffers_sparse(count)
    }

    /// Registers a piece of memory, which the kernel keeps in place from now on.
    ///
    /// # Errors
    /// `ENOMEM` when the memlock limit is too low.
    ///
    /// # Safety
    /// The memory stays mapped until the ring is closed.
    pub(crate) unsafe fn register_piece(&self, index: u32, base: *mut u8, len: usize) -> io::Result<()> {
        let piece = [libc::iovec { iov_base: base.cast(), iov_len: len }];
        let core = self.core.borrow();
        // SAFETY: the piece is exactly the caller's memory, which stays mapped.
        unsafe { core.uring.submitter().register_buffers_update(index, &piece, None) }
    }

    /// Registers a ring of provided buffers.
    ///
    /// # Safety
    /// The entries at `base` stay mapped until the ring is closed.
    pub(crate) unsafe fn register_buffer_ring(&self, base: *mut u8, entries: u16, group: u16) -> io::Result<()> {
        let core = self.core.borrow();
        // SAFETY: as promised by the caller.
        unsafe { core.uring.submitter().register_buf_ring_with_flags(base.addr() as u64, entries, group, 0) }
    }
}

impl Core {
    fn reap(&mut self) -> bool {
        let mut any = false;
        for entry in self.uring.completion() {
            any = true;
            let user_data = entry.user_data();
            let completion =
                Completion { value: user_data & ((1 << FACE_SHIFT) - 1), result: entry.result(), flags: entry.flags() };
            match user_data >> FACE_SHIFT {
                face if face == Face::Network as u64 => self.network.push(completion),
                face if face == Face::Devices as u64 => self.devices.push(completion),
                _ => {
                    self.woken = true;
                    // A multishot poll ends when the kernel could not post one of its completions.
                    self.unwatched |= !cqueue::more(entry.flags());
                }
            }
        }
        any
    }

    fn submit(&mut self) {
        loop {
            match self.uring.submit() {
                Ok(_) => return,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // EBUSY: completions must be reaped first. EAGAIN: no memory for a request now. Both end by going on.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => return,
                Err(error) => panic!("io_uring_enter: {error}"),
            }
        }
    }
}
