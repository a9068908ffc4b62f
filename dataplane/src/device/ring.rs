//! A shard's devices through io_uring.
//!
//! # Safety model
//! A request in flight is an entry of `requests`, which holds the pin (or loan) of the arena bytes that the kernel reads or
//! writes, and a clone of the device with its descriptor. The entry is taken out only when the completion is reaped. Backends
//! dropped with requests in flight leak their entries. A block to read into comes by value, so its owner has no use of it until
//! it goes back with the event; that no reference to its bytes is kept meanwhile is the journal's part of the contract of
//! [`Effect::Read`].
#![allow(unsafe_code, reason = "STYLE rule 18: io_uring")]

use std::collections::VecDeque;

use base::DeviceIndex;
use base::memory::Block;
use io_uring::{opcode, squeue, types};
use journal::store::{Effect, Event};
use shard::ports::Devices;

use super::flushes::Snapshot;
use super::{DeviceFile, Flushes};
use crate::arena::{ArenaMemory, Pinned};
use crate::keeper::KeeperLink;
use crate::ring::{Completion, Face, Ring, token};

/// The arena is registered in pieces of this length, each when it is first used: a start pins nothing, and a first use stays
/// short. Larger where the kernel's table (16,384 entries) would not hold them all.
const PIECE: usize = 4 << 20;

/// Entries of the kernel's table of registered memory.
const PIECES_MAX: usize = 16_384;

/// Registered memory.
struct Registered {
    piece: usize,
    /// By piece: tried, and with what result.
    pieces: Vec<Option<bool>>,
}

/// What flies.
enum Request {
    Write { token: u64, io: Io, fua: bool },
    Read { token: u64, io: Io, block: Block },
    Flush { token: u64, device: DeviceIndex },
}

/// A transfer: where, and how much of it is done.
struct Io {
    device: DeviceIndex,
    offset: u64,
    memory: Pinned,
    done: usize,
}

/// A flush that succeeded here, and waits for those of other shards and of the keeper.
struct Held {
    token: u64,
    device: DeviceIndex,
    snapshot: Snapshot,
}

/// A shard's devices.
pub struct RingDevices {
    ring: Ring,
    shard: usize,
    devices: Vec<DeviceFile>,
    memory: ArenaMemory,
    registered: Option<Registered>,
    flushes: Flushes,
    keeper: KeeperLink,
    requests: Vec<Option<Request>>,
    free: Vec<usize>,
    held: VecDeque<Held>,
    /// Devices whose failure the shard has been told.
    told: Vec<bool>,
    events: Vec<Event>,
    completions: Vec<Completion>,
}

impl RingDevices {
    /// The devices of shard number `shard`. The arena is registered with the ring where the memlock limit allows; if not, the
    /// text says so, once, for the log.
    #[must_use]
    pub fn new(
        ring: Ring,
        shard: usize,
        devices: Vec<DeviceFile>,
        memory: ArenaMemory,
        flushes: Flushes,
        keeper: KeeperLink,
    ) -> (Self, Option<String>) {
        let (_, len) = memory.whole();
        let piece = len.div_ceil(PIECES_MAX).next_multiple_of(PIECE);
        let pieces = len.div_ceil(piece);
        let allowed =
            crate::check::may_lock(len) && ring.reserve_pieces(u32::try_from(pieces).expect("16,384 at most")).is_ok();
        let warning = (!allowed).then(|| {
            format!(
                "device buffers are not registered with io_uring: writes cost more CPU; raise the memlock limit to {} MiB \
                 (`ulimit -l`, or LimitMEMLOCK= in the unit)",
                len.div_ceil(1 << 20)
            )
        });
        let registered = allowed.then(|| Registered { piece, pieces: vec![None; pieces] });
        let told = vec![false; devices.len()];
        let backend = Self {
            ring,
            shard,
            devices,
            memory,
            registered,
            flushes,
            keeper,
            requests: Vec::new(),
            free: Vec::new(),
            held: VecDeque::new(),
            told,
            events: Vec::new(),
            completions: Vec::new(),
        };
        (backend, warning)
    }

    /// Whether something flies: the thread is woken by its completion.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.free.len() < self.requests.len() || !self.held.is_empty()
    }

    /// Requests to the keeper that found no room go out now.
    pub fn arm(&mut self) {
        self.keeper.push_waiting();
    }

    fn start(&mut self, request: Request) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() - 1
        });
        self.requests[index] = Some(request);
        self.issue(index);
    }

    /// Submits what is left of a request.
    fn issue(&mut self, index: usize) {
        let registration = match self.requests[index].as_ref().expect("just stored") {
            Request::Flush { .. } => None,
            Request::Write { io, .. } | Request::Read { io, .. } => {
                let (pointer, len) = io.rest();
                self.registration(pointer, len)
            }
        };
        let request = self.requests[index].as_ref().expect("just stored");
        let entry = match request {
            Request::Flush { device, .. } => {
                opcode::Fsync::new(self.fd(*device)).flags(types::FsyncFlags::DATASYNC).build()
            }
            Request::Write { io, fua, .. } => {
                let (pointer, len) = io.rest();
                let flags = if *fua { libc::RWF_DSYNC } else { 0 };
                match registration {
                    Some(index) => opcode::WriteFixed::new(self.fd(io.device), pointer, len, index)
                        .offset(io.at())
                        .rw_flags(flags)
                        .build(),
                    None => {
                        opcode::Write::new(self.fd(io.device), pointer, len).offset(io.at()).rw_flags(flags).build()
                    }
                }
            }
            Request::Read { io, .. } => {
                let (pointer, len) = io.rest();
                match registration {
                    Some(index) => {
                        opcode::ReadFixed::new(self.fd(io.device), pointer, len, index).offset(io.at()).build()
                    }
                    None => opcode::Read::new(self.fd(io.device), pointer, len).offset(io.at()).build(),
                }
            }
        };
        let entry: squeue::Entry = entry.user_data(token(Face::Devices, index as u64));
        // SAFETY: the request's entry keeps pin and descriptor until the completion is reaped.
        unsafe { self.ring.push(&entry) };
    }

    fn fd(&self, device: DeviceIndex) -> types::Fd {
        types::Fd(self.devices[usize::from(device.0)].fd())
    }

    /// Index of the registered piece that holds the bytes, if one holds them all.
    fn registration(&mut self, pointer: *mut u8, len: u32) -> Option<u16> {
        let registered = self.registered.as_mut()?;
        let (base, whole) = self.memory.whole();
        let from = pointer.addr() - base.addr().get();
        let index = from / registered.piece;
        if (from + len as usize - 1) / registered.piece != index {
            return None;
        }
        let start = index * registered.piece;
        let known = registered.pieces[index].unwrap_or_else(|| {
            let piece = registered.piece.min(whole - start);
            let number = u32::try_from(index).expect("16,384 at most");
            // SAFETY: `memory` keeps the mapping alive as long as this backend, whose ring the registration belongs to; with
            // requests in flight at the end it is leaked.
            unsafe { self.ring.register_piece(number, base.as_ptr().wrapping_add(start), piece) }.is_ok()
        });
        registered.pieces[index] = Some(known);
        known.then(|| u16::try_from(index).expect("16,384 at most"))
    }

    fn complete(&mut self, completion: Completion) {
        let index = usize::try_from(completion.value).expect("56 bits");
        let mut request = self.requests[index].take().expect("a completion of a request in flight");
        let result = usize::try_from(completion.result)
            .map_err(|_| std::io::Error::from_raw_os_error(completion.result.saturating_neg()));
        // Interrupted before anything was done, or done in part: the rest is submitted again.
        let again = match (&mut request, &result) {
            (_, Err(error)) => matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)),
            (Request::Write { io, .. } | Request::Read { io, .. }, Ok(bytes)) => {
                io.done += bytes;
                *bytes > 0 && io.done < io.memory.len()
            }
            (Request::Flush { .. }, Ok(_)) => false,
        };
        if again {
            self.requests[index] = Some(request);
            self.issue(index);
            return;
        }
        self.free.push(index);
        match request {
            Request::Write { token, io, .. } => {
                let result = self.outcome("writing", io, result);
                self.events.push(Event::Written { token, result });
            }
            Request::Read { token, io, block } => {
                let result = self.outcome("reading", io, result);
                self.events.push(Event::Read { token, block, result });
            }
            Request::Flush { token, device } => self.flushed(token, device, result.err()),
        }
    }

    /// Ends a transfer, and its pin or loan with it.
    fn outcome(&self, verb: &str, io: Io, result: std::io::Result<usize>) -> Result<(), String> {
        let path = self.devices[usize::from(io.device.0)].path().display();
        match result {
            Err(error) => Err(format!("{verb} {} bytes at {} of {path}: {error}", io.memory.len(), io.offset)),
            Ok(_) if io.done < io.memory.len() => {
                Err(format!("{verb} {} bytes at {} of {path}: past the end", io.memory.len(), io.offset))
            }
            Ok(_) => Ok(()),
        }
    }

    fn flushed(&mut self, token: u64, device: DeviceIndex, error: Option<std::io::Error>) {
        if let Some(error) = error {
            let reason = format!("flushing {}: {error}", self.devices[usize::from(device.0)].path().display());
            self.flushes.fail(device, &reason);
            self.told[usize::from(device.0)] = true;
            self.events.push(Event::Flushed { token, result: Err(reason) });
            self.flushes.settled(device, self.shard);
            return;
        }
        self.flushes.settled(device, self.shard);
        let snapshot = self.flushes.snapshot(device);
        self.held.push_back(Held { token, device, snapshot });
    }

    /// Lets successes go that no other flush can void any more.
    fn release_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        for held in &self.held {
            // Announced before the look, so that whoever settles after it wakes us.
            self.flushes.set_waiting(held.device, self.shard, true);
        }
        let mut waiting = VecDeque::new();
        for held in std::mem::take(&mut self.held) {
            if let Some(reason) = self.flushes.failure(held.device) {
                self.tell(held.device);
                self.events.push(Event::Flushed { token: held.token, result: Err(reason) });
            } else if self.flushes.is_settled(held.device, self.shard, &held.snapshot) {
                // Looked at again: it may have failed between the two looks.
                let result = self.flushes.failure(held.device).map_or(Ok(()), Err);
                if result.is_err() {
                    self.tell(held.device);
                }
                self.events.push(Event::Flushed { token: held.token, result });
            } else {
                waiting.push_back(held);
                continue;
            }
            self.flushes.set_waiting(held.device, self.shard, false);
        }
        for held in &waiting {
            self.flushes.set_waiting(held.device, self.shard, true);
        }
        self.held = waiting;
    }

    /// Tells the shard of a device's failure, once, before anything else of that device.
    fn tell(&mut self, device: DeviceIndex) {
        if let Some(reason) = self.flushes.failure(device)
            && !std::mem::replace(&mut self.told[usize::from(device.0)], true)
        {
            self.events.push(Event::DeviceFailed { device, reason });
        }
    }
}

impl Io {
    fn rest(&self) -> (*mut u8, u32) {
        let len = u32::try_from(self.memory.len() - self.done).expect("a block is below 4 GiB");
        (self.memory.as_ptr().wrapping_add(self.done), len)
    }

    fn at(&self) -> u64 {
        self.offset + self.done as u64
    }
}

impl Devices for RingDevices {
    fn submit(&mut self, effect: Effect) {
        match effect {
            Effect::Write { token, device, offset, arena_start, len, fua } => {
                let memory = self.memory.pin(arena_start, len);
                self.start(Request::Write { token, io: Io { device, offset, memory, done: 0 }, fua });
            }
            Effect::Flush { token, device } => {
                self.flushes.submitted(device, self.shard);
                self.start(Request::Flush { token, device });
            }
            Effect::Read { token, device, offset, block, len } => {
                // SAFETY: the block came by value, see the safety model.
                let memory = unsafe { self.memory.loan(&block, len) };
                self.start(Request::Read { token, io: Io { device, offset, memory, done: 0 }, block });
            }
            Effect::DeviceFailed { device, reason } => {
                self.told[usize::from(device.0)] = true;
                self.flushes.fail(device, &reason);
            }
            effect => self.keeper.submit(effect),
        }
    }

    fn poll(&mut self, events: &mut Vec<Event>) {
        self.ring.reap();
        for device in 0..self.devices.len() {
            self.tell(DeviceIndex(u16::try_from(device).expect("few devices")));
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.take(Face::Devices, &mut completions);
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.completions = completions;
        self.release_held();
        while let Some(event) = self.keeper.answer() {
            self.events.push(event);
        }
        events.append(&mut self.events);
    }
}

impl Drop for RingDevices {
    fn drop(&mut self) {
        // The kernel may still read and write what flies; it keeps its memory for ever.
        for request in self.requests.drain(..).flatten() {
            std::mem::forget(request);
        }
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
