//! What waits to leave by a ring that was full: one bounded slot a neighbour, in order. Nobody ever waits for a ring.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use base::ShardId;
use base::message::ToControl;
use base::stats::ShardStats;

use crate::ports::Neighbours;
use crate::remote::Message;

/// Messages to all neighbours that are not in a ring yet.
///
/// Bounded without a check of its own: requests by [`Outbox::is_crowded`], which their askers look at first, answers by
/// what the neighbours may ask, commands' outcomes by the limit on commands, and everything else by connections.
pub(crate) struct Outbox<S, H> {
    shards: Vec<Neighbour<S, H>>,
    control: VecDeque<ToControl>,
}

/// Messages that wait for a full ring before no more requests are taken in that need another shard.
const WAITING_MAX: usize = 256;

struct Neighbour<S, H> {
    waiting: VecDeque<Message<S, H>>,
    /// Appends and questions not answered yet. Reads are not counted: they may wait for long, and what bounds those is
    /// the owner's room for waiting ones.
    asked: usize,
}

impl<S, H> Outbox<S, H> {
    pub(crate) fn new(shards: u16) -> Self {
        let neighbour = |_| Neighbour { waiting: VecDeque::new(), asked: 0 };
        Self { shards: (0..shards).map(neighbour).collect(), control: VecDeque::new() }
    }

    /// Whether some shard has not answered so many requests, or its ring is full and so many messages wait for it.
    pub(crate) fn is_crowded(&self, asked_max: usize) -> bool {
        self.shards.iter().any(|shard| shard.asked >= asked_max || shard.waiting.len() >= WAITING_MAX)
    }

    /// An append or question of ours is answered.
    pub(crate) fn answered(&mut self, shard: ShardId) {
        let asked = &mut self.shards[usize::from(shard.0)].asked;
        *asked = asked.saturating_sub(1);
    }

    /// Sends to a shard, behind what waits for it.
    pub(crate) fn send(
        &mut self,
        ring: &mut impl Neighbours<Message<S, H>>,
        shard: ShardId,
        message: Message<S, H>,
        stats: &ShardStats,
    ) {
        stats.messages_out.add(1);
        let neighbour = &mut self.shards[usize::from(shard.0)];
        if matches!(message, Message::Append { .. } | Message::Bounds { .. }) {
            neighbour.asked += 1;
        }
        if !neighbour.waiting.is_empty() {
            neighbour.waiting.push_back(message);
        } else if let Err(message) = ring.to_shard(shard, message) {
            stats.messages_held.add(1);
            neighbour.waiting.push_back(message);
        }
    }

    /// Sends to the control plane, behind what waits for it.
    pub(crate) fn send_control(
        &mut self,
        ring: &mut impl Neighbours<Message<S, H>>,
        message: ToControl,
        stats: &ShardStats,
    ) {
        if !self.control.is_empty() {
            self.control.push_back(message);
        } else if let Err(message) = ring.to_control(message) {
            stats.messages_held.add(1);
            self.control.push_back(message);
        }
    }

    /// Whether the ring to the control plane has room, as far as is known.
    pub(crate) fn control_is_open(&self) -> bool {
        self.control.is_empty()
    }

    /// Whether everything is in a ring.
    pub(crate) fn is_empty(&self) -> bool {
        self.control.is_empty() && self.shards.iter().all(|neighbour| neighbour.waiting.is_empty())
    }

    /// Tries again. Whether anything left.
    pub(crate) fn flush(&mut self, ring: &mut impl Neighbours<Message<S, H>>) -> bool {
        let mut any = false;
        for (shard, neighbour) in (0u16..).zip(&mut self.shards) {
            while let Some(message) = neighbour.waiting.pop_front() {
                if let Err(message) = ring.to_shard(ShardId(shard), message) {
                    neighbour.waiting.push_front(message);
                    break;
                }
                any = true;
            }
        }
        while let Some(message) = self.control.pop_front() {
            if let Err(message) = ring.to_control(message) {
                self.control.push_front(message);
                break;
            }
            any = true;
        }
        any
    }
}
