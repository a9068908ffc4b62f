//! Partitions that move from one journal to another: the shard's part. The control plane leads, step by step.

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::{Image, PartitionEntry, TopicConfig};
use base::memory::Arena;
use base::message::{Outcome, Refusal};
use base::{JournalId, Mono, Now, Offset, PartitionId, Position, ShardId};
use journal::Store;
use journal::format::PartitionState;

use crate::command::DEVICE_MS_MAX;
use crate::errors::refusal_of;
use crate::ports::Ports;
use crate::shard::Shard;

/// A close or open frame that is to become durable.
pub(crate) struct Handover {
    token: u64,
    journal: JournalId,
    position: Position,
    /// Of a close: what the next home needs.
    closed: Option<(Offset, Vec<u8>)>,
    deadline: Mono,
}

/// Gives the store the homes of a partition, as far as they are this shard's. Whether it had or has any, and the partition has
/// moved or is about to.
pub(crate) fn set_homes<A: Arena>(
    store: &mut Store<A>,
    now: Now,
    own: ShardId,
    image: &Image,
    partition: &PartitionEntry,
    config: &Arc<TopicConfig>,
) -> bool {
    let homes = if image.homes.is_empty() { None } else { image.homes.get(&partition.id) };
    let Some(homes) = homes else {
        if partition.shard == own {
            store.set_partition(now, partition.id, partition.journal, config.clone());
        } else {
            // It may have been here before.
            store.set_homes(now, partition.id, &[(partition.journal, Offset(0))], None, config);
        }
        return false;
    };
    let earlier = homes.earlier.iter().map(|home| (home.journal, home.first));
    let list: Vec<(JournalId, Offset)> = earlier.chain([(partition.journal, homes.first)]).collect();
    store.set_homes(now, partition.id, &list, homes.moving.map(|home| home.journal), config);
    true
}

impl<P: Ports> Shard<P> {
    pub(crate) fn close_home(&mut self, now: Now, token: u64, partition: PartitionId, next: JournalId) {
        match self.store.close(now, partition, next, &mut self.backends.arena) {
            Ok(closed) => {
                let mut state = Vec::new();
                closed.state.encode(&mut state);
                let (journal, position) = (closed.journal, closed.position);
                let closed = Some((closed.state.next_offset, state));
                self.hand_over(now, Handover { token, journal, position, closed, deadline: Mono(0) });
            }
            Err(error) => self.done(token, Err(refusal_of(error))),
        }
    }

    pub(crate) fn open_home(&mut self, now: Now, token: u64, journal: JournalId, previous: JournalId, state: &[u8]) {
        let expected = |state: &PartitionState| {
            let homes = self.image.homes.get(&state.partition);
            homes.and_then(|homes| homes.moving).is_some_and(|home| home.journal == journal)
        };
        let opened = match PartitionState::decode(state) {
            // A word that comes late, of a move that was called off, or of a topic that is gone.
            Ok(state) if !expected(&state) => Err(journal::store::AppendError::Moved),
            Ok(state) => self.store.open_home(now, journal, previous, &state, &mut self.backends.arena),
            Err(_) => Err(journal::store::AppendError::Invalid),
        };
        match opened {
            Ok(position) => {
                self.hand_over(now, Handover { token, journal, position, closed: None, deadline: Mono(0) });
            }
            Err(error) => self.done(token, Err(refusal_of(error))),
        }
    }

    fn hand_over(&mut self, now: Now, handover: Handover) {
        self.handovers.push(Handover { deadline: now.mono.plus_ms(DEVICE_MS_MAX), ..handover });
        self.settle_handovers(now);
    }

    /// Tells of close and open frames that are durable now, or whose time is up. Whether there were any.
    pub(crate) fn settle_handovers(&mut self, now: Now) -> bool {
        let mut any = false;
        let mut at = 0;
        while let Some(Handover { journal, position, deadline, .. }) = self.handovers.get(at) {
            let durable = self.store.commit_position(*journal).is_some_and(|upto| *position < upto);
            // One that this process did not write was durable before it.
            if !durable && position.0 > 0 && now.mono < *deadline {
                at += 1;
                continue;
            }
            any = true;
            let late = !durable && position.0 > 0;
            let Handover { token, closed, .. } = self.handovers.swap_remove(at);
            let outcome = match closed {
                _ if late => Err(Refusal::Busy),
                Some((end, state)) => Ok(Outcome::Closed(end, state)),
                None => Ok(Outcome::Opened),
            };
            self.done(token, outcome);
        }
        any
    }

    /// A journal takes no more appends: what was to become durable there will not.
    pub(crate) fn handovers_fenced(&mut self, journal: JournalId) {
        for handover in core::mem::take(&mut self.handovers) {
            if handover.journal == journal {
                self.done(handover.token, Err(Refusal::Fenced));
            } else {
                self.handovers.push(handover);
            }
        }
    }
}
