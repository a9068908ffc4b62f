//! What a shard needs of the world. Backends implement these; the shard is generic over them and dispatches statically.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::memory::Arena;
use base::message::{ToControl, ToShard};
use base::{ConnId, ShardId};
use journal::store::{Effect, Event};

use crate::remote::Message;

/// What happened on the network since the last poll.
#[derive(Debug)]
pub enum NetEvent {
    /// A connection is accepted. It is being read.
    Opened { conn: ConnId, listener: u16, peer: Arc<str> },
    /// More bytes are readable.
    Readable { conn: ConnId },
    /// So many more of the bytes queued for this connection are handed to the kernel or acknowledged. Slices that lie wholly
    /// in them are dropped.
    Sent { conn: ConnId, bytes: usize },
    /// The connection is gone: closed by the peer, broken, or closed by [`Network::close`]. No event for it follows; its id
    /// is not used again before the shard has seen this.
    Closed { conn: ConnId },
}

/// A piece of a response.
#[derive(Debug)]
pub enum Piece<S> {
    /// Bytes made for this response.
    Owned(Vec<u8>),
    /// Frozen arena bytes, of this shard or another.
    Shared(S),
}

impl<S: AsRef<[u8]>> Piece<S> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.as_ref().len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<S: AsRef<[u8]>> AsRef<[u8]> for Piece<S> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(slice) => slice.as_ref(),
        }
    }
}

/// Byte streams. Received bytes of a connection are contiguous: the backend gathers what arrives in pieces.
///
/// Every call takes a connection that was `Opened` and whose `Closed` the shard has not seen yet; where the peer is gone
/// already the call does nothing (and `readable` returns what is still there, or nothing).
pub trait Network {
    /// What arena slices look like.
    type Slice: AsRef<[u8]> + Clone + Send + 'static;
    /// Received bytes that outlive `consume`, cheap to clone and to send to another shard: the receive buffer itself, which
    /// goes back to the backend when the last clone is dropped.
    type Held: AsRef<[u8]> + Clone + Send + 'static;

    /// Reaps completions and appends events; never blocks.
    fn poll(&mut self, events: &mut Vec<NetEvent>);
    /// Received and not yet consumed bytes.
    fn readable(&self, conn: ConnId) -> &[u8];
    /// Takes the first `n` readable bytes out as a buffer of its own, without copying where the backend can. `n` is never
    /// more than is readable.
    fn take(&mut self, conn: ConnId, n: usize) -> Self::Held;
    /// Drops the first `n` readable bytes.
    fn consume(&mut self, conn: ConnId, n: usize);
    /// The request at the front needs `n` bytes in all: make the rest arrive contiguously behind what is readable. Given
    /// once for a request that is not all there; the next `Readable` may come when all of it is.
    fn expect(&mut self, conn: ConnId, n: usize);
    /// Stops or resumes reading from the peer. What was received before stays readable.
    fn set_reading(&mut self, conn: ConnId, reading: bool);
    /// Queues pieces behind what is queued already; leaves the vector empty, so that its memory serves again.
    fn send(&mut self, conn: ConnId, pieces: &mut Vec<Piece<Self::Slice>>);
    /// Closes: after what is queued is sent, or at once. A [`NetEvent::Closed`] follows.
    fn close(&mut self, conn: ConnId, after_sending: bool);
    /// Stops accepting.
    fn stop_accepting(&mut self);
}

/// The devices of this shard. Effects other than writes, flushes and reads go to the keeper (extents, checkpoints).
///
/// The shard hands over `Write`, `Flush`, `Read`, `NeedExtent`, `FreeExtent`, `Checkpoint` and `DeviceFailed`; the other
/// effects are its own business. `DeviceFailed` is handed over too because only the backends of all shards together can see
/// to it that every other shard gets [`Event::DeviceFailed`] before any completion that was reaped later; the message the
/// shards send each other over their rings is only the second line.
pub trait Devices {
    /// Hands an effect over. Bounded by the store's own limits on what flies, so it always fits.
    fn submit(&mut self, effect: Effect);
    /// Appends completions.
    fn poll(&mut self, events: &mut Vec<Event>);
}

/// Rings to the control plane and to the other shards. `M` is the shard's own message type, [`Message`].
#[expect(clippy::wrong_self_convention, reason = "`from` names the direction, beside `to`")]
pub trait Neighbours<M> {
    /// To the control plane; gives the message back when the ring is full.
    fn to_control(&mut self, message: ToControl) -> Result<(), ToControl>;
    /// From the control plane.
    fn from_control(&mut self) -> Option<ToShard>;
    /// To another shard; gives the message back when the ring is full.
    fn to_shard(&mut self, shard: ShardId, message: M) -> Result<(), M>;
    /// From any other shard; in order for each, fair over all.
    fn from_shards(&mut self) -> Option<(ShardId, M)>;
}

/// One set of backends.
pub trait Ports {
    /// Memory.
    type Arena: Arena;
    /// Byte streams.
    type Network: Network<Slice = SliceOf<Self>>;
    /// Disks.
    type Devices: Devices;
    /// Rings.
    type Neighbours: Neighbours<Message<SliceOf<Self>, HeldOf<Self>>>;
    /// A log line that an operator should see; data-path code never formats one per request.
    fn warn(&mut self, text: String);
}

/// The slices of a set of backends.
pub type SliceOf<P> = <<P as Ports>::Arena as Arena>::Slice;

/// The held request bytes of a set of backends.
pub type HeldOf<P> = <<P as Ports>::Network as Network>::Held;

/// The backends of one shard, side by side, so that they can be borrowed apart.
pub struct Backends<P: Ports> {
    /// Memory.
    pub arena: P::Arena,
    /// Byte streams.
    pub network: P::Network,
    /// Disks.
    pub devices: P::Devices,
    /// Rings.
    pub neighbours: P::Neighbours,
    /// Log lines.
    pub log: P,
}
