//! What a shard needs of the world. Backends implement these; the shard is generic over them and dispatches statically.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::memory::Arena;
use base::message::{ToControl, ToShard};
use base::{ConnId, ShardId};
use journal::store::{Effect, Event};

/// What happened on the network since the last poll.
#[derive(Debug)]
pub enum NetEvent {
    /// A connection is accepted.
    Opened { conn: ConnId, listener: u16, peer: Arc<str> },
    /// More bytes are readable.
    Readable { conn: ConnId },
    /// Everything queued so far for this connection up to response `sequence` is handed to the kernel or acknowledged; its
    /// slices are dropped.
    Sent { conn: ConnId, bytes: usize },
    /// The connection is gone; its id is not used again before the shard has seen this.
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

/// Byte streams. Received bytes of a connection are contiguous: the backend gathers what arrives in pieces.
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
    /// Takes the first `n` readable bytes out as a buffer of its own, without copying where the backend can.
    fn take(&mut self, conn: ConnId, n: usize) -> Self::Held;
    /// Drops the first `n` readable bytes.
    fn consume(&mut self, conn: ConnId, n: usize);
    /// The request at the front needs `n` bytes in all: make the rest arrive contiguously behind what is readable.
    fn expect(&mut self, conn: ConnId, n: usize);
    /// Stops or resumes reading from the peer.
    fn set_reading(&mut self, conn: ConnId, reading: bool);
    /// Queues pieces behind what is queued already.
    fn send(&mut self, conn: ConnId, pieces: Vec<Piece<Self::Slice>>);
    /// Closes: after what is queued is sent, or at once. A [`NetEvent::Closed`] follows.
    fn close(&mut self, conn: ConnId, after_sending: bool);
    /// Stops accepting.
    fn stop_accepting(&mut self);
}

/// The devices of this shard. Effects other than writes, flushes and reads go to the keeper (extents, checkpoints).
pub trait Devices {
    /// Hands an effect over. Bounded by the store's own limits on what flies, so it always fits.
    fn submit(&mut self, effect: Effect);
    /// Appends completions.
    fn poll(&mut self, events: &mut Vec<Event>);
}

/// Rings to the control plane and to the other shards. `M` is the shard's own message type.
pub trait Neighbours<M> {
    /// To the control plane; gives the message back when the ring is full.
    fn to_control(&mut self, message: ToControl) -> Result<(), ToControl>;
    /// From the control plane.
    fn from_control(&mut self) -> Option<ToShard>;
    /// To another shard; gives the message back when the ring is full.
    fn to_shard(&mut self, shard: ShardId, message: M) -> Result<(), M>;
    /// From any other shard.
    fn from_shards(&mut self) -> Option<(ShardId, M)>;
}

/// One set of backends.
pub trait Ports {
    /// Memory.
    type Arena: Arena;
    /// Byte streams.
    type Network: Network<Slice = <Self::Arena as Arena>::Slice>;
    /// Disks.
    type Devices: Devices;
    /// A log line that an operator should see; data-path code never formats one per request.
    fn warn(&mut self, text: String);
}
