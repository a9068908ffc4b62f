//! The rings of a shard: to and from the control plane, to and from every other shard.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use base::ShardId;
use base::message::{ToControl, ToShard};
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use shard::ports::Neighbours;

use super::{Doze, Waker, doze};

/// Slots of each kind of ring.
#[derive(Clone, Copy, Debug)]
pub struct RingDepths {
    /// Between a shard and the control plane, each way.
    pub control: usize,
    /// From one shard to another.
    pub shard: usize,
}

/// All ends of all rings.
#[derive(Debug)]
pub struct Wiring<M> {
    /// By shard.
    pub shards: Vec<ShardEnd<M>>,
    /// To each shard, by shard.
    pub senders: Vec<ControlSender>,
    /// From all shards.
    pub receiver: ControlReceiver,
}

/// A shard's ends.
#[derive(Debug)]
pub struct ShardEnd<M> {
    /// Its rings.
    pub neighbours: RingNeighbours<M>,
    /// On which its thread sleeps.
    pub doze: Doze,
    /// Wakes it.
    pub waker: Waker,
}

/// Makes the rings of so many shards.
///
/// # Errors
/// When the process has no descriptors left.
pub fn wire<M>(shards: u16, depths: RingDepths) -> io::Result<Wiring<M>> {
    let count = usize::from(shards);
    let (control_waker, control_doze) = doze()?;
    let mut ends = Vec::with_capacity(count);
    let mut senders = Vec::with_capacity(count);
    let mut from_shards = Vec::with_capacity(count);
    for _ in 0..count {
        let (waker, doze) = doze()?;
        let (to_control, control_in) = RingBuffer::new(depths.control);
        let (to_shard, shard_in) = RingBuffer::new(depths.control);
        senders.push(ControlSender { ring: Arc::new(Mutex::new(to_shard)), waker: waker.clone() });
        from_shards.push(control_in);
        let neighbours = RingNeighbours {
            to_control,
            control_waker: control_waker.clone(),
            from_control: shard_in,
            to: (0..count).map(|_| None).collect(),
            from: Vec::new(),
            next: 0,
        };
        ends.push(ShardEnd { neighbours, doze, waker });
    }
    for from in 0..count {
        for to in (0..count).filter(|&to| to != from) {
            let (producer, consumer) = RingBuffer::new(depths.shard);
            let waker = ends[to].waker.clone();
            ends[from].neighbours.to[to] = Some((producer, waker));
            ends[to].neighbours.from.push((ShardId(u16::try_from(from).expect("a shard's number")), consumer));
        }
    }
    let receiver = ControlReceiver { rings: from_shards, doze: control_doze, next: 0 };
    Ok(Wiring { shards: ends, senders, receiver })
}

/// A shard's rings. `M` is what shards tell each other.
pub struct RingNeighbours<M> {
    to_control: Producer<ToControl>,
    control_waker: Waker,
    from_control: Consumer<ToShard>,
    to: Vec<Option<(Producer<M>, Waker)>>,
    from: Vec<(ShardId, Consumer<M>)>,
    next: usize,
}

impl<M> fmt::Debug for RingNeighbours<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingNeighbours").field("shards", &self.to.len()).finish_non_exhaustive()
    }
}

impl<M> Neighbours<M> for RingNeighbours<M> {
    fn to_control(&mut self, message: ToControl) -> Result<(), ToControl> {
        self.to_control.push(message).map_err(|PushError::Full(message)| message)?;
        self.control_waker.wake();
        Ok(())
    }

    fn from_control(&mut self) -> Option<ToShard> {
        self.from_control.pop().ok()
    }

    fn to_shard(&mut self, shard: ShardId, message: M) -> Result<(), M> {
        let (ring, waker) = self.to[usize::from(shard.0)].as_mut().expect("another shard");
        ring.push(message).map_err(|PushError::Full(message)| message)?;
        waker.wake();
        Ok(())
    }

    fn from_shards(&mut self) -> Option<(ShardId, M)> {
        for _ in 0..self.from.len() {
            let (shard, ring) = &mut self.from[self.next];
            self.next = (self.next + 1) % (self.to.len() - 1);
            if let Ok(message) = ring.pop() {
                return Some((*shard, message));
            }
        }
        None
    }
}

/// The control plane's end of the ring to one shard. Clones share it; the lock is the control plane's, the shard never takes it.
#[derive(Clone)]
pub struct ControlSender {
    ring: Arc<Mutex<Producer<ToShard>>>,
    waker: Waker,
}

impl fmt::Debug for ControlSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlSender")
    }
}

impl ControlSender {
    /// Sends, or gives the message back when the ring is full: wait a little and try again, in order.
    ///
    /// # Errors
    /// The message.
    pub fn try_send(&self, message: ToShard) -> Result<(), ToShard> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.push(message).map_err(|PushError::Full(message)| message)?;
        drop(ring);
        self.waker.wake();
        Ok(())
    }

    /// Whether the shard is gone: nobody will read what is sent.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).is_abandoned()
    }
}

/// The control plane's end of the rings from all shards. One task owns it: it empties the rings with [`ControlReceiver::try_recv`],
/// then announces sleep, tries once more, and waits until the descriptor is readable (`AsyncFd`, which is why it has one).
pub struct ControlReceiver {
    rings: Vec<Consumer<ToControl>>,
    doze: Doze,
    next: usize,
}

impl fmt::Debug for ControlReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlReceiver").field("shards", &self.rings.len()).finish_non_exhaustive()
    }
}

impl ControlReceiver {
    /// The next message of any shard, in order for each, fair over all.
    pub fn try_recv(&mut self) -> Option<ToControl> {
        for _ in 0..self.rings.len() {
            let message = self.rings[self.next].pop();
            self.next = (self.next + 1) % self.rings.len();
            if let Ok(message) = message {
                return Some(message);
            }
        }
        None
    }

    /// Where to sleep.
    #[must_use]
    pub const fn doze(&self) -> &Doze {
        &self.doze
    }
}

impl AsFd for ControlReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.doze.as_fd()
    }
}

impl std::os::fd::AsRawFd for ControlReceiver {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.doze.fd()
    }
}
