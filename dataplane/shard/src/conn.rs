//! A connection: its requests in order of arrival, and what is known of its streams.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::{ConnId, Mono};

use crate::fetch::Fetch;
use crate::offsets::ListOffsets;
use crate::ports::Piece;
use crate::produce::Produce;

/// The bytes of a response, four length bytes in front.
pub(crate) enum Answer<S> {
    /// Nothing is sent (acks=0).
    Silent,
    /// The control plane's bytes, without the length.
    Bare(Vec<u8>),
    /// Bytes made here.
    Whole(Vec<u8>),
    /// With chained slices.
    Pieces(Vec<Piece<S>>),
}

impl<S: AsRef<[u8]>> Answer<S> {
    /// Its length on the wire.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Silent => 0,
            Self::Bare(bytes) => 4 + bytes.len(),
            Self::Whole(bytes) => bytes.len(),
            Self::Pieces(pieces) => pieces.iter().map(Piece::len).sum(),
        }
    }
}

/// How far a request is.
pub(crate) enum State<S> {
    Control,
    Produce(Box<Produce>),
    Fetch(Box<Fetch<S>>),
    ListOffsets(Box<ListOffsets>),
    /// Waits only for those before it.
    Done(Answer<S>),
}

/// A request taken in and not answered.
pub(crate) struct Request<S> {
    /// Kafka's API key.
    pub(crate) api: i16,
    pub(crate) since: Mono,
    /// Length of the request, as it counts against the bounds.
    pub(crate) cost: usize,
    pub(crate) state: State<S>,
}

/// Why a connection is not served at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Its own bounds: looked at again when one of its requests is answered or some of its answers are sent.
    Own,
    /// Bytes of requests in flight.
    Requests,
    /// Batches that wait for room.
    Produce,
    /// Bytes of answers not sent.
    Responses,
    /// What one other shard was asked.
    Neighbours,
    /// The ring to the control plane.
    Control,
    /// Questions whose answers may be large.
    Bulky,
}

impl Gate {
    /// Gates that are the same for all connections, and so have queues.
    pub(crate) const SHARED: [Self; 6] =
        [Self::Requests, Self::Produce, Self::Responses, Self::Neighbours, Self::Control, Self::Bulky];

    /// Its place in [`Gate::SHARED`].
    pub(crate) fn queue(self) -> Option<usize> {
        Self::SHARED.iter().position(|gate| *gate == self)
    }
}

/// Where a connection stands in the shard's order of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Waits for bytes.
    Resting,
    /// In the queue of connections to serve.
    Scheduled,
    /// Has a request that may not be taken in now.
    Gated(Gate),
    /// Nothing more is taken in, what was taken in is answered: the shard shuts down.
    Draining,
    /// Nothing more is taken in or answered.
    Closing,
}

/// A connection of this shard.
pub(crate) struct Conn<S> {
    pub(crate) id: ConnId,
    pub(crate) listener: u16,
    pub(crate) peer: Arc<str>,
    /// When a request last came, or an answer last left.
    pub(crate) active: Mono,
    /// Sequence of the front of `requests`.
    pub(crate) first: u64,
    pub(crate) requests: VecDeque<Request<S>>,
    pub(crate) request_bytes: usize,
    /// Requests other than Produce that are not answered.
    pub(crate) questions: usize,
    /// Bytes of answers that wait for those before them.
    pub(crate) held: usize,
    /// Bytes handed to the network and not sent.
    pub(crate) unsent: usize,
    /// At most so many of them are arena memory.
    pub(crate) pinned: usize,
    pub(crate) standing: Standing,
    pub(crate) reading: bool,
    /// The length last given to `Network::expect`, until that request is there.
    pub(crate) expected: usize,
    /// The control plane has heard of it.
    pub(crate) known_to_control: bool,
}

impl<S> Conn<S> {
    pub(crate) fn new(id: ConnId, listener: u16, peer: Arc<str>, now: Mono) -> Self {
        Self {
            id,
            listener,
            peer,
            active: now,
            first: 0,
            requests: VecDeque::new(),
            request_bytes: 0,
            questions: 0,
            held: 0,
            unsent: 0,
            pinned: 0,
            standing: Standing::Resting,
            reading: true,
            expected: 0,
            known_to_control: false,
        }
    }

    /// Bytes of answers that are made and not sent.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.held + self.unsent
    }

    /// The sequence that the next request gets.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.first + self.requests.len() as u64
    }

    /// A request that is not answered yet.
    pub(crate) fn request_mut(&mut self, sequence: u64) -> Option<&mut Request<S>> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.requests.get_mut(at)
    }
}

/// The connections of a shard, by slot.
pub(crate) struct Conns<S> {
    slots: Vec<Option<Box<Conn<S>>>>,
    len: usize,
}

#[expect(clippy::cast_possible_truncation, reason = "the low 32 bits are the slot")]
fn slot_of(id: ConnId) -> usize {
    id.0 as u32 as usize
}

impl<S> Conns<S> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, conn: Conn<S>) {
        let slot = slot_of(conn.id);
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        let before = self.slots[slot].replace(Box::new(conn));
        assert!(before.is_none(), "a connection's slot is used again only after it was closed");
        self.len += 1;
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<&Conn<S>> {
        self.slots.get(slot_of(id))?.as_deref().filter(|conn| conn.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn<S>> {
        self.slots.get_mut(slot_of(id))?.as_deref_mut().filter(|conn| conn.id == id)
    }

    pub(crate) fn remove(&mut self, id: ConnId) -> Option<Box<Conn<S>>> {
        self.get(id)?;
        self.len -= 1;
        self.slots[slot_of(id)].take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Conn<S>> {
        self.slots.iter().filter_map(Option::as_deref)
    }
}
