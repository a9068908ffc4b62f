//! One connection's state, and the message header of a send.
//!
//! # Safety model
//! A [`Message`] points into pieces of its connection's queue. Pieces own heap memory that does not move when the queue does,
//! and they are dropped only by [`Connection::advance`], after the send's completion.
#![allow(unsafe_code, reason = "STYLE rule 18: message headers for the kernel")]

use std::collections::VecDeque;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::time::Instant;

use base::memory::Block;
use shard::ports::Piece;

use crate::arena::{Pinned, Slice};

/// Bytes of one send: 1 MiB, so that memory behind it is released as it goes, at few completions.
pub(super) const SEND_BYTES: usize = 1 << 20;

/// Pieces of one send.
const PIECES: usize = 128;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Serving.
    Open,
    /// Sends what is queued, then ends in order.
    Finishing,
    /// All sent, the shard has seen it closed; input is read away until the peer ends too.
    Lingering,
    /// Ends at once; waits only for its requests to complete.
    Broken,
}

/// The receive request in flight.
pub(super) enum Receiving {
    Idle,
    /// Into a buffer that the kernel picks.
    Chosen,
    /// Into open bytes of the connection's block.
    Into(Pinned),
}

pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) phase: Phase,
    pub(super) dirty: bool,
    /// Waits for receive memory.
    pub(super) hungry: bool,
    /// The peer has ended its side.
    pub(super) ended: bool,
    /// The socket is shut down on both sides.
    pub(super) shut: bool,
    /// The shard has seen `Closed`.
    pub(super) told: bool,
    pub(super) reading: bool,
    pub(super) receiving: Receiving,
    pub(super) input: Option<Block>,
    /// Readable bytes of the block.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Length of the request at the front, if it is not all there; else 0.
    pub(super) expected: usize,
    pub(super) expected_since: Option<Instant>,
    pub(super) last_expected: usize,
    /// Bytes read away while lingering.
    pub(super) discarded: usize,
    pub(super) output: VecDeque<Piece<Slice>>,
    /// Bytes of the first piece that are sent.
    pub(super) output_done: usize,
    pub(super) sending: Option<Box<Message>>,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            phase: Phase::Open,
            dirty: false,
            hungry: false,
            ended: false,
            shut: false,
            told: false,
            reading: true,
            receiving: Receiving::Idle,
            input: None,
            start: 0,
            end: 0,
            expected: 0,
            expected_since: None,
            last_expected: 0,
            discarded: 0,
            output: VecDeque::new(),
            output_done: 0,
            sending: None,
        }
    }

    /// Nothing in flight.
    pub(super) fn is_quiet(&self) -> bool {
        self.sending.is_none() && matches!(self.receiving, Receiving::Idle)
    }

    pub(super) fn output_is_empty(&self) -> bool {
        self.output.is_empty() && self.sending.is_none()
    }

    /// The peer has ended, all whole requests are consumed, and all that is queued is sent.
    pub(super) fn is_over(&self) -> bool {
        let have = self.end - self.start;
        self.ended && self.output_is_empty() && (have < 4 || self.expected > have)
    }

    /// Drops pieces that are sent.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.output_done += bytes;
        while let Some(piece) = self.output.front() {
            let len = piece.as_ref().len();
            if self.output_done < len {
                break;
            }
            self.output_done -= len;
            self.output.pop_front();
        }
        debug_assert!(!self.output.is_empty() || self.output_done == 0);
    }

    /// Whether nothing has arrived that was not received.
    pub(super) fn has_nothing_to_read(&self) -> bool {
        let mut bytes: libc::c_int = 0;
        // SAFETY: FIONREAD writes one int, which lives until the call returns.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
        result == 0 && bytes == 0
    }

    pub(super) fn shutdown(&self, how: i32) {
        shutdown(self.socket.as_raw_fd(), how);
    }
}

pub(super) fn shutdown(fd: RawFd, how: i32) {
    // SAFETY: no memory is involved; a peer that is gone already makes it fail, which changes nothing.
    unsafe { libc::shutdown(fd, how) };
}

/// A message header with room for its pieces, boxed so that it stays in place.
pub(super) struct Message {
    header: libc::msghdr,
    pieces: [libc::iovec; PIECES],
}

impl Default for Message {
    fn default() -> Self {
        // SAFETY: all-zero is a valid `msghdr`: no name, no pieces, no control data.
        let header = unsafe { std::mem::zeroed() };
        Self { header, pieces: [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PIECES] }
    }
}

impl Message {
    /// Points at the first `bytes_max` bytes of `output` from `done` on.
    pub(super) fn gather(self: &mut Box<Self>, output: &VecDeque<Piece<Slice>>, done: usize, bytes_max: usize) {
        let (mut skip, mut left, mut count) = (done, bytes_max, 0);
        for piece in output {
            if left == 0 || count == PIECES {
                break;
            }
            let bytes = &piece.as_ref()[skip..];
            skip = 0;
            let len = bytes.len().min(left);
            left -= len;
            self.pieces[count] = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: len };
            count += 1;
        }
        self.header.msg_iov = self.pieces.as_mut_ptr();
        self.header.msg_iovlen = count as _;
    }

    pub(super) fn header(&self) -> *const libc::msghdr {
        &raw const self.header
    }
}
