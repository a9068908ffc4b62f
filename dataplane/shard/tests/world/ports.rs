//! The ports.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use base::memory::{Arena, Block, Purpose};
use base::message::{ToControl, ToShard};
use base::{ConnId, DeviceIndex, ShardId};
use journal::store::{Effect, Event, ExtentAddress};
use shard::ports::{Devices, Neighbours, NetEvent, Network, Piece, Ports};
use shard::remote::Message;

/// Log lines.
#[derive(Default)]
pub struct Fake {
    pub lines: Vec<String>,
}

impl Ports for Fake {
    type Arena = TestArena;
    type Network = Net;
    type Devices = Device;
    type Neighbours = Ring;

    fn warn(&mut self, text: String) {
        self.lines.push(text);
    }
}

/// Memory of plain vectors; slices are copies.
pub struct TestArena {
    blocks: BTreeMap<usize, (Vec<u8>, usize)>,
    next: usize,
    budget: [usize; 2],
    /// What `pinned` says.
    pub pinned: usize,
    given: RefCell<Vec<Weak<[u8]>>>,
}

fn of(purpose: Purpose) -> usize {
    match purpose {
        Purpose::Tail => 0,
        Purpose::Cold => 1,
    }
}

impl TestArena {
    pub fn new(tail: usize, cold: usize) -> Self {
        Self { blocks: BTreeMap::new(), next: 0, budget: [tail, cold], pinned: 0, given: RefCell::default() }
    }

    /// Slices that somebody holds.
    pub fn held(&self) -> usize {
        self.given.borrow().iter().filter(|slice| slice.strong_count() > 0).count()
    }

    pub fn at(&self, start: usize, len: usize) -> &[u8] {
        let (first, (bytes, frozen)) = self.blocks.range(..=start).next_back().unwrap();
        let at = start - first;
        assert!(at + len <= *frozen, "only frozen bytes are written");
        &bytes[at..at + len]
    }
}

impl Arena for TestArena {
    type Slice = Arc<[u8]>;

    fn alloc(&mut self, len: usize, purpose: Purpose) -> Option<Block> {
        let len = len.next_multiple_of(4096);
        let left = &mut self.budget[of(purpose)];
        *left = left.checked_sub(len)?;
        let start = self.next;
        self.next += len + 4096;
        self.blocks.insert(start, (vec![0xaa; len], 0));
        Some(Block { start, len, purpose })
    }

    fn free(&mut self, block: Block) {
        self.blocks.remove(&block.start).unwrap();
        self.budget[of(block.purpose)] += block.len;
    }

    fn bytes(&self, block: &Block, range: Range<usize>) -> &[u8] {
        &self.blocks[&block.start].0[range]
    }

    fn bytes_mut(&mut self, block: &Block, range: Range<usize>) -> &mut [u8] {
        let (bytes, frozen) = self.blocks.get_mut(&block.start).unwrap();
        assert!(range.start >= *frozen);
        &mut bytes[range]
    }

    fn freeze(&mut self, block: &Block, upto: usize) {
        let known = self.blocks.get_mut(&block.start).unwrap();
        known.1 = known.1.max(upto);
    }

    fn slice(&self, block: &Block, range: Range<usize>) -> Arc<[u8]> {
        assert!(range.end <= self.blocks[&block.start].1);
        let slice: Arc<[u8]> = self.bytes(block, range).into();
        self.given.borrow_mut().push(Arc::downgrade(&slice));
        slice
    }

    fn available(&self, purpose: Purpose) -> usize {
        self.budget[of(purpose)]
    }

    fn pinned(&self) -> usize {
        self.pinned
    }
}

/// A device that does at once what it is told, unless it is stalled.
pub struct Device {
    pages: BTreeMap<u64, Vec<u8>>,
    asked: Vec<Effect>,
    events: Vec<Event>,
    next_extent: u64,
    extent_len: u64,
    /// Writes and flushes wait.
    pub stalled: bool,
    /// Reads wait.
    pub reads_stalled: bool,
    /// No more extents.
    pub full: bool,
    /// Writes fail.
    pub broken: bool,
    /// Flushes fail.
    pub flush_broken: bool,
    /// Was told that a flush failed.
    pub failed: bool,
    pub writes: usize,
    pub flushes: usize,
}

impl Device {
    pub fn new(extents_at: u64, extent_len: u64) -> Self {
        Self {
            pages: BTreeMap::new(),
            asked: Vec::new(),
            events: Vec::new(),
            next_extent: extents_at,
            extent_len,
            stalled: false,
            reads_stalled: false,
            full: false,
            broken: false,
            flush_broken: false,
            failed: false,
            writes: 0,
            flushes: 0,
        }
    }

    /// Rots the bytes that read `value`, wherever they lie. How often they were there.
    pub fn rot(&mut self, value: &[u8]) -> usize {
        let mut found = 0;
        for page in self.pages.values_mut() {
            while let Some(at) = page.windows(value.len()).position(|bytes| bytes == value) {
                page[at] ^= 0x40;
                found += 1;
            }
        }
        found
    }

    /// Does what was asked. Whether anything was.
    pub fn perform(&mut self, arena: &mut TestArena) -> bool {
        let asked = std::mem::take(&mut self.asked);
        let mut any = false;
        for effect in asked {
            let waits = match effect {
                Effect::Read { .. } => self.reads_stalled,
                Effect::Write { .. } | Effect::Flush { .. } => self.stalled,
                _ => false,
            };
            if waits {
                self.asked.push(effect);
                continue;
            }
            any = true;
            self.perform_one(effect, arena);
        }
        any
    }

    fn perform_one(&mut self, effect: Effect, arena: &mut TestArena) {
        match effect {
            Effect::Write { token, offset, arena_start, len, .. } => {
                self.writes += 1;
                for (at, page) in arena.at(arena_start, len).chunks(4096).enumerate() {
                    self.pages.insert(offset / 4096 + at as u64, page.to_vec());
                }
                let result = if self.broken { Err("planted".to_string()) } else { Ok(()) };
                self.events.push(Event::Written { token, result });
            }
            Effect::Flush { token, .. } => {
                self.flushes += 1;
                let result = if self.flush_broken { Err("planted".to_string()) } else { Ok(()) };
                self.events.push(Event::Flushed { token, result });
            }
            Effect::Read { token, offset, block, len, .. } => {
                let (bytes, _) = arena.blocks.get_mut(&block.start).unwrap();
                for (at, page) in bytes[..len].chunks_mut(4096).enumerate() {
                    match self.pages.get(&(offset / 4096 + at as u64)) {
                        Some(known) => page.copy_from_slice(&known[..page.len()]),
                        None => page.fill(0),
                    }
                }
                self.events.push(Event::Read { token, block, result: Ok(()) });
            }
            Effect::NeedExtent { device, .. } => {
                let extent = (!self.full).then(|| {
                    let offset = self.next_extent;
                    self.next_extent += self.extent_len;
                    let generation = offset / self.extent_len + 1;
                    ExtentAddress { device: DeviceIndex(0), offset, len: self.extent_len, generation }
                });
                self.events.push(Event::Extent { device, extent });
            }
            Effect::Checkpoint { journal, .. } => self.events.push(Event::CheckpointDone { journal, result: Ok(()) }),
            Effect::FreeExtent { .. } => {}
            Effect::DeviceFailed { .. } => self.failed = true,
            other => panic!("not for a device: {other:?}"),
        }
    }
}

impl Devices for Device {
    fn submit(&mut self, effect: Effect) {
        self.asked.push(effect);
    }

    fn poll(&mut self, events: &mut Vec<Event>) {
        events.append(&mut self.events);
    }
}

/// Received bytes.
#[derive(Clone)]
pub struct Held(Arc<Vec<u8>>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Default)]
struct Stream {
    /// Sent by the client, not read by the broker.
    wire: VecDeque<u8>,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    unsent: usize,
    reading: bool,
    stalled: bool,
    closed: bool,
}

/// Streams into which a test pushes and from which it pops.
#[derive(Default)]
pub struct Net {
    streams: BTreeMap<ConnId, Stream>,
    events: Vec<NetEvent>,
    pub shared_pieces: usize,
    pub owned_pieces: usize,
    pub sends: usize,
    pub accepting_stopped: bool,
    pub expected: Vec<usize>,
}

impl Net {
    pub fn open(&mut self, conn: ConnId) {
        self.streams.insert(conn, Stream { reading: true, ..Stream::default() });
        self.events.push(NetEvent::Opened { conn, listener: 0, peer: "127.0.0.1:1".into() });
    }

    pub fn push(&mut self, conn: ConnId, bytes: &[u8]) {
        self.streams.get_mut(&conn).unwrap().wire.extend(bytes);
    }

    /// The peer goes away.
    pub fn hang_up(&mut self, conn: ConnId) {
        self.streams.get_mut(&conn).unwrap().closed = true;
        self.events.push(NetEvent::Closed { conn });
    }

    pub fn pop(&mut self, conn: ConnId) -> Option<Vec<u8>> {
        let stream = self.streams.get_mut(&conn).unwrap();
        let len = i32::from_be_bytes(*stream.outbox.first_chunk::<4>()?) as usize;
        assert!(stream.outbox.len() >= 4 + len, "responses are queued whole");
        let rest = stream.outbox.split_off(4 + len);
        let mut whole = std::mem::replace(&mut stream.outbox, rest);
        whole.drain(..4);
        Some(whole)
    }

    /// The client stops, or goes on, taking what is sent to it.
    pub fn stall(&mut self, conn: ConnId, stalled: bool) {
        self.streams.get_mut(&conn).unwrap().stalled = stalled;
    }

    pub fn is_closed(&self, conn: ConnId) -> bool {
        self.streams[&conn].closed
    }

    pub fn is_reading(&self, conn: ConnId) -> bool {
        self.streams[&conn].reading
    }

    /// Bytes on the wire that the broker did not want yet.
    pub fn unread(&self, conn: ConnId) -> usize {
        self.streams[&conn].wire.len()
    }
}

impl Network for Net {
    type Slice = Arc<[u8]>;
    type Held = Held;

    fn poll(&mut self, events: &mut Vec<NetEvent>) {
        events.append(&mut self.events);
        for (&conn, stream) in &mut self.streams {
            if stream.closed {
                continue;
            }
            if stream.reading && !stream.wire.is_empty() {
                stream.inbox.extend(stream.wire.drain(..));
                events.push(NetEvent::Readable { conn });
            }
            if stream.unsent > 0 && !stream.stalled {
                events.push(NetEvent::Sent { conn, bytes: std::mem::take(&mut stream.unsent) });
            }
        }
    }

    fn readable(&self, conn: ConnId) -> &[u8] {
        &self.streams[&conn].inbox
    }

    fn take(&mut self, conn: ConnId, n: usize) -> Held {
        let inbox = &mut self.streams.get_mut(&conn).unwrap().inbox;
        assert!(n <= inbox.len());
        Held(Arc::new(inbox.drain(..n).collect()))
    }

    fn consume(&mut self, conn: ConnId, n: usize) {
        self.streams.get_mut(&conn).unwrap().inbox.drain(..n);
    }

    fn expect(&mut self, _conn: ConnId, n: usize) {
        self.expected.push(n);
    }

    fn set_reading(&mut self, conn: ConnId, reading: bool) {
        self.streams.get_mut(&conn).unwrap().reading = reading;
    }

    fn send(&mut self, conn: ConnId, pieces: &mut Vec<Piece<Arc<[u8]>>>) {
        self.sends += 1;
        let stream = self.streams.get_mut(&conn).unwrap();
        for piece in pieces.drain(..) {
            match piece {
                Piece::Owned(_) => self.owned_pieces += 1,
                Piece::Shared(_) => self.shared_pieces += 1,
            }
            stream.unsent += piece.len();
            stream.outbox.extend_from_slice(piece.as_ref());
        }
    }

    fn close(&mut self, conn: ConnId, _after_sending: bool) {
        let stream = self.streams.get_mut(&conn).unwrap();
        if !stream.closed {
            stream.closed = true;
            self.events.push(NetEvent::Closed { conn });
        }
    }

    fn stop_accepting(&mut self) {
        self.accepting_stopped = true;
    }
}

type ShardMessage = Message<Arc<[u8]>, Held>;

#[derive(Default)]
struct Queues {
    places: usize,
    between: Vec<VecDeque<(ShardId, ShardMessage)>>,
    to_control: VecDeque<ToControl>,
    from_control: Vec<VecDeque<ToShard>>,
    /// The control plane takes nothing.
    control_full: bool,
}

/// All rings of a process.
#[derive(Clone)]
pub struct Rings(Rc<RefCell<Queues>>);

/// One shard's ends.
pub struct Ring {
    shard: ShardId,
    queues: Rc<RefCell<Queues>>,
}

impl Rings {
    pub fn new(shards: u16, places: usize) -> Self {
        let queues = Queues {
            places,
            between: (0..shards).map(|_| VecDeque::new()).collect(),
            from_control: (0..shards).map(|_| VecDeque::new()).collect(),
            ..Queues::default()
        };
        Self(Rc::new(RefCell::new(queues)))
    }

    pub fn of(&self, shard: ShardId) -> Ring {
        Ring { shard, queues: self.0.clone() }
    }

    pub fn to_shard(&self, shard: usize, message: ToShard) {
        self.0.borrow_mut().from_control[shard].push_back(message);
    }

    pub fn next_from_shards(&self) -> Option<ToControl> {
        self.0.borrow_mut().to_control.pop_front()
    }

    pub fn set_control_full(&self, full: bool) {
        self.0.borrow_mut().control_full = full;
    }
}

impl Neighbours<ShardMessage> for Ring {
    fn to_control(&mut self, message: ToControl) -> Result<(), ToControl> {
        let mut queues = self.queues.borrow_mut();
        if queues.control_full {
            return Err(message);
        }
        queues.to_control.push_back(message);
        Ok(())
    }

    fn from_control(&mut self) -> Option<ToShard> {
        self.queues.borrow_mut().from_control[usize::from(self.shard.0)].pop_front()
    }

    fn to_shard(&mut self, shard: ShardId, message: ShardMessage) -> Result<(), ShardMessage> {
        assert_ne!(shard, self.shard, "a shard does not write to itself");
        let mut queues = self.queues.borrow_mut();
        let full = queues.between[usize::from(shard.0)].len() >= queues.places;
        if full {
            return Err(message);
        }
        queues.between[usize::from(shard.0)].push_back((self.shard, message));
        Ok(())
    }

    fn from_shards(&mut self) -> Option<(ShardId, ShardMessage)> {
        self.queues.borrow_mut().between[usize::from(self.shard.0)].pop_front()
    }
}
