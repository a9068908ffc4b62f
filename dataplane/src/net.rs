//! The `kernel` network backend: TCP through io_uring.
//!
//! Receiving. A connection at rest has one receive request and no buffer: the kernel picks one of the provided 64 KiB buffers
//! when bytes arrive. A request that does not fit behind what is there is moved once into a block of its full length, and the
//! rest is received straight into that. Bytes handed out (`take`) are slices of the receive block itself.
//! Receiving pauses by itself while unconsumed bytes lie there that the shard has not asked to be completed.
//!
//! Sending. What a turn queues for a connection goes out in one `sendmsg`; one is in flight per connection.
//!
//! # Safety model
//! The kernel writes only into receive memory that is pinned as open ([`crate::arena::ArenaMemory::open`]) and into which no
//! reference is taken before the completion; it reads only pieces and message headers that their connection owns until the
//! completion. A connection's slot and descriptor live until none of its requests is in flight. A network that is dropped
//! earlier leaks what the kernel may still use.
#![allow(unsafe_code, reason = "STYLE rule 18: io_uring")]

use std::collections::VecDeque;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::ConnId;
use base::memory::{Arena as _, Purpose};
use io_uring::{opcode, squeue, types};
use shard::ports::{NetEvent, Network, Piece};

use crate::arena::{Arena, ArenaConfig, Slice};
use crate::ring::{Completion, Face, Ring, token};

mod connection;
mod listener;
mod provided;
#[cfg(test)]
mod tests;

use connection::{Connection, Message, Phase, Receiving, SEND_BYTES};
use listener::Accepted;
pub use listener::{Intake, intakes, listen};
use provided::{BUFFER, GROUP, Provided};

/// After a failed accept (no descriptors left) the next try waits this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection closed after sending is read for this long, so that the peer sees the last response instead of a reset.
const LINGER: Duration = Duration::from_secs(1);

/// A peer that keeps others waiting for receive memory gets this long for a request that has a block of its own.
const STALL: Duration = Duration::from_secs(10);

/// The same for a request that holds a provided buffer only: 64 KiB are there after a few round trips on any network. Short,
/// since all that a crowd of such peers can do is to come again.
const STALL_SMALL: Duration = Duration::from_secs(3);

/// A request larger than the first bytes (the length and the start of the header): after one such, the next receive asks for
/// this little, so that nearly all of the next large request goes straight to its place.
const PROBE: usize = 4096;

/// The arena's budget for provided buffers.
const SMALL: Purpose = Purpose::Cold;

/// The arena's budget for requests that do not fit one. Apart, so that many beginnings cannot take what the ends need.
const LARGE: Purpose = Purpose::Tail;

/// Bounds of a network backend.
#[derive(Clone, Copy, Debug)]
pub struct NetworkConfig {
    /// Receive memory of this shard; when it is used up, peers wait. A quarter serves small requests and the beginnings of
    /// large ones, the rest large ones; a request larger than that closes its connection.
    pub receive_bytes: usize,
    /// Try explicit huge pages for it.
    pub huge_pages: bool,
    /// Connections of this shard; more are closed at once.
    pub connections_max: usize,
}

/// What a request's token says, below the face: kind in the top 8 of 56 bits, then the slot or listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Accept = 1,
    Receive = 2,
    Send = 3,
}

const KIND_SHIFT: u32 = 48;

fn request(kind: Request, slot: u32) -> u64 {
    token(Face::Network, ((kind as u64) << KIND_SHIFT) | u64::from(slot))
}

struct Listener {
    socket: TcpListener,
    index: u16,
    armed: bool,
    retry_at: Option<Instant>,
}

/// TCP over io_uring for one shard.
pub struct KernelNetwork {
    ring: Ring,
    config: NetworkConfig,
    memory: Arena,
    provided: Provided,
    slots: Vec<Option<Connection>>,
    generations: Vec<u32>,
    free: Vec<u32>,
    open: usize,
    listeners: Vec<Listener>,
    accepting: bool,
    intake: Intake,
    /// Connections that may have something to arm.
    dirty: Vec<u32>,
    /// Connections that wait for a buffer to be provided.
    hungry: VecDeque<u32>,
    /// Connections that wait for memory for a large request.
    hungry_large: VecDeque<u32>,
    stall_check_at: Instant,
    lingering: VecDeque<(Instant, ConnId)>,
    #[expect(clippy::vec_box, reason = "the kernel has the address: a message must not move when it is taken out")]
    messages: Vec<Box<Message>>,
    completions: Vec<Completion>,
    events: Vec<NetEvent>,
    in_flight: usize,
}

impl KernelNetwork {
    /// The backend of one shard. `listeners` are the ones this shard accepts for all, with their index.
    ///
    /// # Errors
    /// When there is no memory, or the ring refuses provided buffers.
    pub fn new(
        ring: Ring,
        config: NetworkConfig,
        listeners: Vec<(u16, TcpListener)>,
        intake: Intake,
    ) -> std::io::Result<Self> {
        let memory = Arena::new(ArenaConfig {
            tail_bytes: config.receive_bytes - config.receive_bytes / 4,
            cold_bytes: config.receive_bytes / 4,
            huge_pages: config.huge_pages,
            prefault: false,
        })?;
        let provided = Provided::new(&ring)?;
        let listeners = listeners
            .into_iter()
            .map(|(index, socket)| Listener { socket, index, armed: false, retry_at: None })
            .collect();
        let mut network = Self {
            ring,
            config,
            memory,
            provided,
            slots: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            open: 0,
            listeners,
            accepting: true,
            intake,
            dirty: Vec::new(),
            hungry: VecDeque::new(),
            hungry_large: VecDeque::new(),
            stall_check_at: Instant::now(),
            lingering: VecDeque::new(),
            messages: Vec::new(),
            completions: Vec::new(),
            events: Vec::new(),
            in_flight: 0,
        };
        network.provided.fill(&mut network.memory);
        network.arm_accept();
        Ok(network)
    }

    /// Queues the receives and sends that the last turn made possible. Once a turn, before the ring is entered.
    pub fn arm(&mut self) {
        self.provided.fill(&mut self.memory);
        let dirty = std::mem::take(&mut self.dirty);
        for &slot in &dirty {
            if let Some(connection) = self.slots[slot as usize].as_mut() {
                connection.dirty = false;
                self.arm_slot(slot);
            }
        }
        self.dirty = {
            let mut dirty = dirty;
            dirty.clear();
            dirty.append(&mut self.dirty);
            dirty
        };
        self.feed_hungry();
    }

    /// Connections open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.open
    }

    /// Receive memory in use.
    #[must_use]
    pub fn receive_bytes_used(&self) -> usize {
        let free = self.memory.available(SMALL) + self.memory.available(LARGE);
        self.config.receive_bytes.saturating_sub(free)
    }

    /// When something is to be done without an event: the longest the thread may sleep.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let retry = self.listeners.iter().filter_map(|listener| listener.retry_at).min();
        let linger = self.lingering.front().map(|(at, _)| *at);
        // Receive memory comes back without a word when another shard drops the last slice: look again after a millisecond.
        let stall = self.anyone_hungry().then(|| Instant::now() + Duration::from_millis(1));
        [retry, linger, stall].into_iter().flatten().min()
    }

    fn id(&self, slot: u32) -> ConnId {
        ConnId(u64::from(self.generations[slot as usize]) << 32 | u64::from(slot))
    }

    fn slot_of(&self, conn: ConnId) -> Option<u32> {
        let slot = u32::try_from(conn.0 & 0xffff_ffff).expect("32 bits");
        let known =
            self.generations.get(slot as usize).is_some_and(|&generation| u64::from(generation) == conn.0 >> 32);
        known.then_some(slot)
    }

    fn connection(&self, conn: ConnId) -> Option<&Connection> {
        self.slots[self.slot_of(conn)? as usize].as_ref()
    }

    fn connection_mut(&mut self, conn: ConnId) -> Option<(u32, &mut Connection)> {
        let slot = self.slot_of(conn)?;
        Some((slot, self.slots[slot as usize].as_mut()?))
    }

    fn mark(&mut self, slot: u32) {
        if let Some(connection) = self.slots[slot as usize].as_mut()
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(slot);
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        self.in_flight += 1;
        // SAFETY: the callers in this module keep what the entry points to in the connection (pins, pieces, the boxed message)
        // until `complete` has seen its completion.
        unsafe { self.ring.push(entry) };
    }

    // Accepting.

    fn arm_accept(&mut self) {
        for i in 0..self.listeners.len() {
            let listener = &mut self.listeners[i];
            if !self.accepting || listener.armed || listener.retry_at.is_some() {
                continue;
            }
            listener.armed = true;
            let entry = opcode::AcceptMulti::new(types::Fd(listener.socket.as_raw_fd()))
                // Not SOCK_NONBLOCK: requests on such a socket fail with EAGAIN instead of waiting.
                .flags(libc::SOCK_CLOEXEC)
                .build()
                .user_data(request(Request::Accept, u32::try_from(i).expect("few listeners")));
            self.push(&entry);
        }
    }

    fn accepted(&mut self, at: usize, completion: Completion) {
        let listener = &mut self.listeners[at];
        if !completion.more() {
            listener.armed = false;
        }
        if completion.result >= 0 {
            // SAFETY: the kernel has just given us this descriptor; it is nobody else's.
            let socket = unsafe { OwnedFd::from_raw_fd(completion.result) };
            let accepted = Accepted { socket, listener: listener.index };
            self.intake.deal(accepted);
        } else if self.accepting && !matches!(-completion.result, libc::ECONNABORTED | libc::EINTR | libc::ECANCELED) {
            // No descriptors or no memory: connections wait in the backlog until some are free again.
            listener.retry_at = Some(Instant::now() + ACCEPT_PAUSE);
        }
    }

    fn admit(&mut self, accepted: Accepted) {
        if self.open >= self.config.connections_max || !self.accepting {
            return; // dropped: closed
        }
        let stream = std::net::TcpStream::from(accepted.socket);
        let Ok(peer) = stream.peer_addr() else { return };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.generations.push(0);
            u32::try_from(self.slots.len() - 1).expect("connections are bounded")
        });
        self.slots[slot as usize] = Some(Connection::new(stream.into()));
        self.open += 1;
        let conn = self.id(slot);
        let peer: Arc<str> = peer.to_string().into();
        self.events.push(NetEvent::Opened { conn, listener: accepted.listener, peer });
        self.mark(slot);
    }

    // Completions.

    fn complete(&mut self, completion: Completion) {
        let kind = completion.value >> KIND_SHIFT;
        let slot = u32::try_from(completion.value & 0xffff_ffff).expect("32 bits");
        if !completion.more() {
            self.in_flight -= 1;
        }
        match kind {
            kind if kind == Request::Accept as u64 => self.accepted(slot as usize, completion),
            kind if kind == Request::Receive as u64 => self.received(slot, completion),
            kind if kind == Request::Send as u64 => self.sent(slot, completion),
            _ => unreachable!("tokens are made in this module"),
        }
    }

    fn received(&mut self, slot: u32, completion: Completion) {
        let conn = self.id(slot);
        let given = completion.buffer().map(|id| self.provided.take(id));
        let connection = self.slots[slot as usize].as_mut().expect("a slot lives until its requests are complete");
        let was = std::mem::replace(&mut connection.receiving, Receiving::Idle);
        let bytes = usize::try_from(completion.result).unwrap_or(0);
        let wanted = bytes > 0 && connection.phase == Phase::Open;
        if let (Receiving::Chosen, Some(block)) = (&was, given) {
            if wanted {
                debug_assert!(connection.input.is_none());
                self.memory.freeze(&block, bytes);
                (connection.start, connection.end) = (0, bytes);
                connection.input = Some(block);
            } else {
                self.memory.free(block);
            }
        } else if let Receiving::Into(pinned) = was {
            drop(pinned);
            if wanted {
                connection.end += bytes;
                let block = connection.input.as_ref().expect("the block stays while the kernel fills it");
                self.memory.freeze(block, connection.end);
            }
        }
        match completion.result {
            0 => connection.ended = true,
            1.. if wanted => {
                if connection.end - connection.start >= connection.expected {
                    connection.expected = 0;
                    connection.expected_since = None;
                    self.events.push(NetEvent::Readable { conn });
                }
            }
            1.. => connection.discarded += bytes,
            error if -error == libc::ENOBUFS => {
                connection.hungry = true;
                self.hungry.push_back(slot);
            }
            error if matches!(-error, libc::EINTR | libc::EAGAIN) => {}
            _ => connection.phase = Phase::Broken,
        }
        self.mark(slot);
    }

    fn sent(&mut self, slot: u32, completion: Completion) {
        let conn = self.id(slot);
        let connection = self.slots[slot as usize].as_mut().expect("a slot lives until its requests are complete");
        self.messages.extend(connection.sending.take());
        match usize::try_from(completion.result) {
            Ok(bytes) => {
                connection.advance(bytes);
                if connection.phase != Phase::Broken {
                    self.events.push(NetEvent::Sent { conn, bytes });
                }
            }
            Err(_) if matches!(-completion.result, libc::EINTR | libc::EAGAIN) => {}
            Err(_) => connection.phase = Phase::Broken,
        }
        self.mark(slot);
    }

    // Arming.

    /// Starts what the connection's state allows, and ends it where nothing is left to do.
    fn arm_slot(&mut self, slot: u32) {
        self.arm_send(slot);
        let connection = self.slots[slot as usize].as_mut().expect("just looked up");
        match connection.phase {
            Phase::Open if connection.is_over() => connection.phase = Phase::Broken,
            Phase::Finishing if connection.output_is_empty() => {
                // The peer gets an orderly end; what it still sends is read away, or the kernel would reset the connection
                // and the last response with it.
                connection.shutdown(libc::SHUT_WR);
                connection.phase = Phase::Lingering;
                let conn = self.id(slot);
                self.events.push(NetEvent::Closed { conn });
                self.lingering.push_back((Instant::now() + LINGER, conn));
            }
            _ => {}
        }
        let connection = self.slots[slot as usize].as_mut().expect("just looked up");
        match connection.phase {
            Phase::Open => self.arm_receive(slot),
            // 16 buffers: what a client may have had under way. More is reset.
            Phase::Lingering if !connection.ended && connection.discarded < 16 * BUFFER => self.arm_receive(slot),
            Phase::Finishing => {}
            Phase::Broken | Phase::Lingering => self.end(slot),
        }
    }

    /// Ends a connection: shuts it down so that its requests complete, then frees it.
    fn end(&mut self, slot: u32) {
        let conn = self.id(slot);
        let connection = self.slots[slot as usize].as_mut().expect("called with a living slot");
        let told = connection.phase == Phase::Lingering || connection.told;
        connection.phase = Phase::Broken;
        connection.told = told;
        if !connection.is_quiet() {
            if !connection.shut {
                connection.shut = true;
                connection.shutdown(libc::SHUT_RDWR);
            }
            return; // the completions bring us here again
        }
        let connection = self.slots[slot as usize].take().expect("checked above");
        if let Some(block) = connection.input {
            self.memory.free(block);
        }
        if !told {
            self.events.push(NetEvent::Closed { conn });
        }
        self.generations[slot as usize] = self.generations[slot as usize].wrapping_add(1);
        self.free.push(slot);
        self.open -= 1;
    }

    fn arm_send(&mut self, slot: u32) {
        let connection = self.slots[slot as usize].as_mut().expect("called with a living slot");
        if connection.sending.is_some() || connection.output.is_empty() || connection.phase == Phase::Broken {
            return;
        }
        let mut message = self.messages.pop().unwrap_or_default();
        message.gather(&connection.output, connection.output_done, SEND_BYTES);
        let entry = opcode::SendMsg::new(types::Fd(connection.socket.as_raw_fd()), message.header())
            // All of it in one completion: the kernel waits for room itself.
            .flags((libc::MSG_NOSIGNAL | libc::MSG_WAITALL).cast_unsigned())
            .build()
            .user_data(request(Request::Send, slot));
        connection.sending = Some(message);
        self.push(&entry);
    }

    fn arm_receive(&mut self, slot: u32) {
        let connection = self.slots[slot as usize].as_mut().expect("called with a living slot");
        let wants = connection.reading || connection.phase == Phase::Lingering;
        if !wants || connection.ended || connection.hungry || !matches!(connection.receiving, Receiving::Idle) {
            return;
        }
        let have = connection.end - connection.start;
        // A length that is not all there is asked for without being told.
        let target = if have > 0 && have < 4 {
            // It holds memory before the shard can know of a request: its time runs from here.
            connection.expected_since.get_or_insert_with(Instant::now);
            connection.expected.max(4)
        } else {
            connection.expected
        };
        let fd = types::Fd(connection.socket.as_raw_fd());
        if have == 0 {
            if let Some(block) = connection.input.take() {
                self.memory.free(block);
            }
            (connection.start, connection.end) = (0, 0);
            let limit = if connection.last_expected > BUFFER { PROBE } else { BUFFER };
            connection.receiving = Receiving::Chosen;
            let entry = opcode::Recv::new(fd, std::ptr::null_mut(), u32::try_from(limit).expect("64 KiB"))
                .buf_group(GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT)
                .user_data(request(Request::Receive, slot));
            self.push(&entry);
            return;
        }
        if target <= have || !self.make_room(slot, target) {
            return;
        }
        let connection = self.slots[slot as usize].as_mut().expect("called with a living slot");
        let block = connection.input.as_ref().expect("there are bytes");
        let large = target > BUFFER;
        let upto = if large { connection.start + target } else { block.len };
        // SAFETY: nothing above `end` is referred to or frozen before the completion: `readable` and `take` end there.
        let pinned = unsafe { self.memory.memory().open(block, connection.end..upto) };
        let len = u32::try_from(pinned.len()).expect("a block is below 4 GiB");
        let entry = opcode::Recv::new(fd, pinned.as_ptr(), len)
            .flags(if large { libc::MSG_WAITALL } else { 0 })
            .build()
            .user_data(request(Request::Receive, slot));
        connection.receiving = Receiving::Into(pinned);
        self.push(&entry);
    }

    /// Makes the block hold `target` contiguous bytes from the first unconsumed one. False: no memory now; the connection waits.
    fn make_room(&mut self, slot: u32, target: usize) -> bool {
        let connection = self.slots[slot as usize].as_mut().expect("called with a living slot");
        let old = connection.input.as_ref().expect("there are bytes");
        if connection.start + target <= old.len {
            return true;
        }
        let purpose = if target > BUFFER { LARGE } else { SMALL };
        let Some(block) = self.memory.alloc(target.max(BUFFER), purpose) else {
            connection.hungry = true;
            if target > BUFFER {
                self.hungry_large.push_back(slot)
            } else {
                self.hungry.push_back(slot)
            }
            return false;
        };
        if target > BUFFER {
            // However long it waited for the block.
            connection.expected_since = Some(Instant::now());
        }
        let have = connection.end - connection.start;
        let slice = self.memory.slice(old, connection.start..connection.end);
        self.memory.bytes_mut(&block, 0..have).copy_from_slice(slice.as_ref());
        self.memory.freeze(&block, have);
        drop(slice);
        let old = connection.input.replace(block).expect("looked at above");
        (connection.start, connection.end) = (0, have);
        self.memory.free(old);
        true
    }

    fn anyone_hungry(&self) -> bool {
        !self.hungry.is_empty() || !self.hungry_large.is_empty()
    }

    /// Lets connections that waited for memory try again, first come first served.
    fn feed_hungry(&mut self) {
        if !self.anyone_hungry() {
            return;
        }
        self.close_stalled();
        for large in [true, false] {
            let waiting = if large { self.hungry_large.len() } else { self.hungry.len() };
            for _ in 0..waiting {
                if !large && self.provided.is_dry() && !self.provided.fill(&mut self.memory) {
                    break;
                }
                let queue = if large { &mut self.hungry_large } else { &mut self.hungry };
                let Some(slot) = queue.pop_front() else { break };
                let Some(connection) = self.slots[slot as usize].as_mut() else { continue };
                if !connection.hungry {
                    continue;
                }
                connection.hungry = false;
                self.arm_slot(slot);
                if self.slots[slot as usize].as_ref().is_some_and(|connection| connection.hungry) {
                    break; // no memory for the first in line: nobody overtakes it
                }
            }
        }
    }

    /// While others wait for memory, a request that has been under way too long loses its connection. Where it waits for memory
    /// itself that is not its peer's fault, unless the peer has stopped sending what it announced.
    fn close_stalled(&mut self) {
        let now = Instant::now();
        if now < self.stall_check_at {
            return;
        }
        self.stall_check_at = now + Duration::from_secs(1);
        for slot in 0..self.slots.len() {
            let Some(connection) = self.slots[slot].as_mut() else { continue };
            let large = connection.input.as_ref().is_some_and(|block| block.len > BUFFER);
            let patience = if large { STALL } else { STALL_SMALL };
            let stalled = connection.phase == Phase::Open
                && connection.expected_since.is_some_and(|since| now.duration_since(since) > patience)
                && (!connection.hungry || connection.has_nothing_to_read());
            if stalled {
                connection.phase = Phase::Broken;
                self.end(u32::try_from(slot).expect("connections are bounded"));
            }
        }
    }

    fn housekeep(&mut self) {
        if self.listeners.iter().any(|listener| listener.retry_at.is_some()) {
            let now = Instant::now();
            for listener in &mut self.listeners {
                listener.retry_at = listener.retry_at.filter(|&at| at > now);
            }
        }
        self.arm_accept();
        while let Some(&(at, conn)) = self.lingering.front() {
            if at > Instant::now() {
                break;
            }
            self.lingering.pop_front();
            if let Some(slot) = self.slot_of(conn)
                && self.slots[slot as usize].is_some()
            {
                self.end(slot);
            }
        }
    }
}

impl Network for KernelNetwork {
    type Slice = Slice;
    type Held = Slice;

    fn poll(&mut self, events: &mut Vec<NetEvent>) {
        self.ring.reap();
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.take(Face::Network, &mut completions);
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.completions = completions;
        while let Some(accepted) = self.intake.take() {
            self.admit(accepted);
        }
        self.housekeep();
        events.append(&mut self.events);
    }

    fn readable(&self, conn: ConnId) -> &[u8] {
        let Some(connection) = self.connection(conn) else { return &[] };
        match &connection.input {
            Some(block) => self.memory.bytes(block, connection.start..connection.end),
            None => &[],
        }
    }

    fn take(&mut self, conn: ConnId, n: usize) -> Slice {
        let slot = self.slot_of(conn).expect("a connection that the shard has not seen closed");
        let connection = self.slots[slot as usize].as_mut().expect("bytes were readable");
        assert!(n <= connection.end - connection.start, "no more is taken than is readable");
        let block = connection.input.as_ref().expect("bytes were readable");
        let slice = self.memory.slice(block, connection.start..connection.start + n);
        connection.start += n;
        self.mark(slot);
        slice
    }

    fn consume(&mut self, conn: ConnId, n: usize) {
        let Some((slot, connection)) = self.connection_mut(conn) else { return };
        assert!(n <= connection.end - connection.start, "no more is consumed than is readable");
        connection.start += n;
        self.mark(slot);
    }

    fn expect(&mut self, conn: ConnId, n: usize) {
        let large_max = self.config.receive_bytes - self.config.receive_bytes / 4;
        let Some((slot, connection)) = self.connection_mut(conn) else { return };
        if n > connection.end - connection.start {
            if n > large_max {
                connection.phase = Phase::Broken; // could never be held
            }
            connection.expected = n;
            connection.last_expected = n;
            connection.expected_since = Some(Instant::now());
        }
        self.mark(slot);
    }

    fn set_reading(&mut self, conn: ConnId, reading: bool) {
        if let Some((slot, connection)) = self.connection_mut(conn) {
            connection.reading = reading;
            self.mark(slot);
        }
    }

    fn send(&mut self, conn: ConnId, pieces: &mut Vec<Piece<Slice>>) {
        if let Some((slot, connection)) = self.connection_mut(conn)
            && connection.phase == Phase::Open
        {
            connection.output.extend(pieces.drain(..).filter(|piece| !piece.as_ref().is_empty()));
            self.mark(slot);
        }
        pieces.clear();
    }

    fn close(&mut self, conn: ConnId, after_sending: bool) {
        if let Some((slot, connection)) = self.connection_mut(conn)
            && matches!(connection.phase, Phase::Open | Phase::Finishing)
        {
            connection.phase = if after_sending { Phase::Finishing } else { Phase::Broken };
            self.mark(slot);
        }
    }

    fn stop_accepting(&mut self) {
        self.accepting = false;
        for listener in &mut self.listeners {
            listener.retry_at = None;
            // Completes the accept request, and refuses new connections.
            connection::shutdown(listener.socket.as_raw_fd(), libc::SHUT_RD);
        }
    }
}

impl Drop for KernelNetwork {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            // The kernel cancels requests some time after the ring is closed; until then it may use their memory.
            std::mem::forget(self.memory.memory());
            self.provided.leak();
            for connection in self.slots.drain(..).flatten() {
                std::mem::forget(connection);
            }
        }
    }
}
