//! The ports of a simulated shard: streams that the world moves piece by piece, rings of a few places, a device's queue.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use base::message::{ToControl, ToShard};
use base::{ConnId, Now, ShardId};
use journal::store::{Effect, Event};
use shard::Shard;
use shard::ports::{Devices, Neighbours, NetEvent, Network, Piece, Ports};
use shard::remote::Message;

use crate::SimArena;
use crate::arena::SimSlice;
use crate::world::Host;

/// The simulated set of backends; itself the log.
#[derive(Debug, Default)]
pub struct SimPorts {
    /// What an operator would read.
    pub lines: Vec<String>,
}

impl Ports for SimPorts {
    type Arena = SimArena;
    type Network = Net;
    type Devices = Device;
    type Neighbours = Ring;

    fn warn(&mut self, text: String) {
        self.lines.push(text);
    }
}

impl Host for Shard<SimPorts> {
    fn arena(&self) -> &SimArena {
        &self.backends().arena
    }

    fn arena_mut(&mut self) -> &mut SimArena {
        &mut self.backends_mut().arena
    }

    fn tell(&mut self, _now: Now, event: Event, _out: &mut Vec<Effect>) {
        self.backends_mut().devices.events.push(event);
    }
}

/// A device's queue: what the shard asked for, and completions it has not taken.
#[derive(Debug, Default)]
pub struct Device {
    /// Asked for and not yet taken by the world.
    pub asked: Vec<Effect>,
    events: Vec<Event>,
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
#[derive(Clone, Debug)]
pub struct Held(Arc<Vec<u8>>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A connection, both ends of it.
#[derive(Debug, Default)]
struct Stream {
    /// Sent by the client, on its way.
    wire: Vec<u8>,
    /// Received by the broker.
    inbox: Vec<u8>,
    /// Sent by the broker, on its way.
    outbox: Vec<u8>,
    /// Received by the client.
    arrived: Vec<u8>,
    reading: bool,
    /// The broker closes it once the outbox is empty.
    closing: bool,
    /// Nothing moves any more.
    over: bool,
    /// The shard has seen that it is closed.
    seen: bool,
    /// The client has let go of it.
    left: bool,
}

/// Moves the first `n` bytes.
fn shift(from: &mut Vec<u8>, to: &mut Vec<u8>, n: usize) {
    to.extend_from_slice(&from[..n]);
    from.drain(..n);
}

/// The streams of one shard. Bytes move when the world says so, in pieces of any size.
#[derive(Debug, Default)]
pub struct Net {
    streams: BTreeMap<ConnId, Stream>,
    events: Vec<NetEvent>,
    /// Slots that were used, and how often.
    generations: Vec<u32>,
    free: Vec<u32>,
    /// The shard accepts no more.
    pub stopped: bool,
}

/// Bytes below this that the broker does not read are an answer's worth; nothing is moved to it beyond.
const INBOX_MAX: usize = 1 << 20;

impl Net {
    /// A client connects.
    pub fn open(&mut self) -> ConnId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.generations.push(0);
            u32::try_from(self.generations.len() - 1).expect("few connections")
        });
        let generation = &mut self.generations[slot as usize];
        *generation += 1;
        let conn = ConnId(u64::from(*generation) << 32 | u64::from(slot));
        self.streams.insert(conn, Stream { reading: true, ..Stream::default() });
        self.events.push(NetEvent::Opened { conn, listener: 0, peer: "127.0.0.1:9".into() });
        conn
    }

    /// The client sends.
    pub fn write(&mut self, conn: ConnId, bytes: &[u8]) {
        let stream = self.streams.get_mut(&conn).expect("the client has it");
        if !stream.over {
            stream.wire.extend_from_slice(bytes);
        }
    }

    /// Connections on which bytes can move.
    pub fn movable(&self) -> impl Iterator<Item = ConnId> {
        let movable = |stream: &Stream| {
            !stream.over
                && (stream.reading && !stream.closing && !stream.wire.is_empty() && stream.inbox.len() < INBOX_MAX
                    || !stream.outbox.is_empty())
        };
        self.streams.iter().filter(move |(_, stream)| movable(stream)).map(|(&conn, _)| conn)
    }

    /// Moves up to so many bytes each way.
    pub fn advance(&mut self, conn: ConnId, bytes: usize) {
        let stream = self.streams.get_mut(&conn).expect("it was named as movable");
        if stream.reading && !stream.closing && !stream.wire.is_empty() {
            let n = bytes.min(stream.wire.len());
            shift(&mut stream.wire, &mut stream.inbox, n);
            self.events.push(NetEvent::Readable { conn });
        }
        let n = bytes.min(stream.outbox.len());
        if n > 0 {
            shift(&mut stream.outbox, &mut stream.arrived, n);
            self.events.push(NetEvent::Sent { conn, bytes: n });
        }
        if stream.closing && stream.outbox.is_empty() {
            stream.over = true;
            self.events.push(NetEvent::Closed { conn });
        }
    }

    /// The connection breaks: what was on its way is gone.
    pub fn reset(&mut self, conn: ConnId) {
        let stream = self.streams.get_mut(&conn).expect("the client has it");
        stream.arrived.clear();
        if !stream.over {
            stream.over = true;
            self.events.push(NetEvent::Closed { conn });
        }
    }

    /// A whole response that has arrived, without its length.
    pub fn response(&mut self, conn: ConnId) -> Option<Vec<u8>> {
        let stream = self.streams.get_mut(&conn)?;
        let len = i32::from_be_bytes(*stream.arrived.first_chunk::<4>()?);
        let len = usize::try_from(len).expect("a length");
        if stream.arrived.len() < 4 + len {
            return None;
        }
        let rest = stream.arrived.split_off(4 + len);
        let mut whole = std::mem::replace(&mut stream.arrived, rest);
        whole.drain(..4);
        Some(whole)
    }

    /// Whether the client sees the end of the stream.
    #[must_use]
    pub fn is_over(&self, conn: ConnId) -> bool {
        self.streams.get(&conn).is_none_or(|stream| stream.over)
    }

    /// The client lets go of it; one that is open is closed.
    pub fn leave(&mut self, conn: ConnId) {
        self.reset(conn);
        let stream = self.streams.get_mut(&conn).expect("the client had it");
        stream.left = true;
        if stream.seen {
            self.streams.remove(&conn);
        }
    }

    /// A connection that the shard may still ask for.
    fn known(&mut self, conn: ConnId) -> &mut Stream {
        let stream = self.streams.get_mut(&conn).expect("the shard asks for connections that were opened");
        assert!(!stream.seen, "the shard asks for a connection after it was told that it is gone");
        stream
    }
}

impl Network for Net {
    type Slice = SimSlice;
    type Held = Held;

    fn poll(&mut self, events: &mut Vec<NetEvent>) {
        for event in self.events.drain(..) {
            if let NetEvent::Closed { conn } = event {
                let stream = self.streams.get_mut(&conn).expect("seen once");
                stream.seen = true;
                if stream.left {
                    self.streams.remove(&conn);
                }
                #[expect(clippy::cast_possible_truncation, reason = "the low 32 bits are the slot")]
                self.free.push(conn.0 as u32);
            }
            events.push(event);
        }
    }

    fn readable(&self, conn: ConnId) -> &[u8] {
        let stream = self.streams.get(&conn).expect("the shard asks for connections that were opened");
        assert!(!stream.seen, "the shard reads a connection after it was told that it is gone");
        &stream.inbox
    }

    fn take(&mut self, conn: ConnId, n: usize) -> Held {
        let mut taken = Vec::with_capacity(n);
        shift(&mut self.known(conn).inbox, &mut taken, n);
        Held(Arc::new(taken))
    }

    fn consume(&mut self, conn: ConnId, n: usize) {
        self.known(conn).inbox.drain(..n);
    }

    fn expect(&mut self, conn: ConnId, n: usize) {
        assert!(n > self.known(conn).inbox.len(), "what is expected is not all there");
    }

    fn set_reading(&mut self, conn: ConnId, reading: bool) {
        self.known(conn).reading = reading;
    }

    fn send(&mut self, conn: ConnId, pieces: &mut Vec<Piece<SimSlice>>) {
        let stream = self.known(conn);
        for piece in pieces.drain(..) {
            if !stream.over {
                stream.outbox.extend_from_slice(piece.as_ref());
            }
        }
    }

    fn close(&mut self, conn: ConnId, after_sending: bool) {
        let stream = self.known(conn);
        if stream.over {
            return;
        }
        stream.closing = true;
        if !after_sending || stream.outbox.is_empty() {
            stream.over = true;
            self.events.push(NetEvent::Closed { conn });
        }
    }

    fn stop_accepting(&mut self) {
        self.stopped = true;
    }
}

type ShardMessage = Message<SimSlice, Held>;

#[derive(Debug)]
struct Queues {
    /// Messages that each ring holds.
    places: usize,
    /// By receiver, then sender.
    between: Vec<Vec<VecDeque<ShardMessage>>>,
    /// By receiver: the sender that was heard last.
    heard: Vec<usize>,
    /// By sender.
    to_control: Vec<VecDeque<ToControl>>,
    from_control: Vec<VecDeque<ToShard>>,
}

/// All rings of a process, at the control plane's end.
#[derive(Clone, Debug)]
pub struct Rings(Rc<RefCell<Queues>>);

/// One shard's ends.
#[derive(Debug)]
pub struct Ring {
    shard: usize,
    queues: Rc<RefCell<Queues>>,
}

impl Rings {
    /// Rings of so many places between so many shards and the control plane.
    #[must_use]
    pub fn new(shards: usize, places: usize) -> Self {
        Self(Rc::new(RefCell::new(Queues {
            places,
            between: (0..shards).map(|_| (0..shards).map(|_| VecDeque::new()).collect()).collect(),
            heard: vec![0; shards],
            to_control: (0..shards).map(|_| VecDeque::new()).collect(),
            from_control: (0..shards).map(|_| VecDeque::new()).collect(),
        })))
    }

    /// A shard's ends.
    #[must_use]
    pub fn of(&self, shard: usize) -> Ring {
        Ring { shard, queues: self.0.clone() }
    }

    /// The control plane sends.
    pub fn send(&self, shard: usize, message: ToShard) {
        self.0.borrow_mut().from_control[shard].push_back(message);
    }

    /// What a shard sent to the control plane.
    #[must_use]
    pub fn receive(&self, shard: usize) -> Option<ToControl> {
        self.0.borrow_mut().to_control[shard].pop_front()
    }
}

impl Neighbours<ShardMessage> for Ring {
    fn to_control(&mut self, message: ToControl) -> Result<(), ToControl> {
        let mut queues = self.queues.borrow_mut();
        if queues.to_control[self.shard].len() >= queues.places {
            return Err(message);
        }
        queues.to_control[self.shard].push_back(message);
        Ok(())
    }

    fn from_control(&mut self) -> Option<ToShard> {
        self.queues.borrow_mut().from_control[self.shard].pop_front()
    }

    fn to_shard(&mut self, shard: ShardId, message: ShardMessage) -> Result<(), ShardMessage> {
        let to = usize::from(shard.0);
        assert_ne!(to, self.shard, "a shard does not write to itself");
        let mut queues = self.queues.borrow_mut();
        let places = queues.places;
        let ring = &mut queues.between[to][self.shard];
        if ring.len() >= places {
            return Err(message);
        }
        ring.push_back(message);
        Ok(())
    }

    fn from_shards(&mut self) -> Option<(ShardId, ShardMessage)> {
        let mut queues = self.queues.borrow_mut();
        let count = queues.between.len();
        let last = queues.heard[self.shard];
        for step in 1..=count {
            let from = (last + step) % count;
            if let Some(message) = queues.between[self.shard][from].pop_front() {
                queues.heard[self.shard] = from;
                let from = ShardId(u16::try_from(from).expect("few shards"));
                return Some((from, message));
            }
        }
        None
    }
}
