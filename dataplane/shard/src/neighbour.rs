//! What other shards send: work on partitions here, and the results of work on partitions there.

use base::{Now, ShardId};
use journal::store::Event;

use crate::append::{Asker, Source};
use crate::ports::{HeldOf, Neighbours as _, Ports, SliceOf};
use crate::read::Found;
use crate::remote::Message;
use crate::shard::Shard;

/// Messages taken in one turn.
const TURN_MAX: usize = 1024;

impl<P: Ports> Shard<P> {
    /// Takes what the other shards sent. Always: what a request here may cause is bounded by its asker.
    pub(crate) fn poll_shards(&mut self, now: Now) -> bool {
        for count in 0..TURN_MAX {
            let Some((from, message)) = self.backends.neighbours.from_shards() else { return count > 0 };
            self.hear(now, from, message);
        }
        true
    }

    fn hear(&mut self, now: Now, from: ShardId, message: Message<SliceOf<P>, HeldOf<P>>) {
        match message {
            Message::Append { key, held, items, hasty } => {
                let ticket = self.appends.append(
                    now,
                    Asker::Request(key),
                    hasty,
                    held.as_ref(),
                    &items,
                    &mut self.store,
                    &mut self.backends.arena,
                    &self.stats,
                );
                if let Some(ticket) = ticket {
                    self.appends.keep(ticket, Source::Held(held));
                }
            }
            Message::Appended { key, results } => {
                self.outbox.answered(from);
                self.appended(now, key, results);
            }
            Message::Read { key, items, bytes_max, more_than, deadline } => {
                if let Some(found) = self.read_or_wait(now, key, items, bytes_max, more_than, deadline) {
                    self.deliver(now, key, found);
                }
            }
            Message::Found { key, items, results, slices, bytes, pending, urgent, last } => {
                self.found(now, key, from, Found { items, results, slices, bytes, pending, urgent, last });
            }
            Message::Cancel { key } => {
                self.waiting.remove(key);
            }
            Message::Bounds { key, items } => {
                let results = self.find_bounds(&items);
                self.send(from, Message::BoundsFound { key, results });
            }
            Message::BoundsFound { key, results } => {
                self.outbox.answered(from);
                self.bounds_found(now, key, &results);
            }
            Message::Drained => self.drained += 1,
            Message::DeviceFailed { device, reason } => {
                let event = Event::DeviceFailed { device, reason };
                self.store.handle(now, event, &mut self.backends.arena, &mut self.effects);
            }
        }
    }
}
