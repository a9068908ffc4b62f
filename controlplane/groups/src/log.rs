//! What a slot has handed out to be appended and what waits for it to be durable.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::{Epoch, TopicId};

use crate::event::{Effect, RejectedCommit, Token};
use crate::{Error, Record, Slot};

/// Order of appends within a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppendId(pub u64);

/// What follows when records are durable, or were not taken.
#[derive(Debug)]
pub(crate) enum Then {
    /// Nothing waits.
    Nothing,
    /// Answer a commit.
    Commit { token: Token, rejected: Vec<RejectedCommit> },
    /// Give the members of the generation their assignments.
    Assign { generation: i32 },
    /// Answer a static member that came back under a new id.
    Returned { token: Token, member: Arc<str>, generation: i32, old_leader: Arc<str>, can_skip_assignment: bool },
    /// Answer the heartbeats of a consumer group that wait for it.
    Members,
    /// Answer one group of a DeleteGroups.
    Deleted { token: Token, place: usize },
    /// Answer an OffsetDelete.
    OffsetsDeleted { token: Token, results: Vec<Vec<Result<(), Error>>> },
    /// Offsets of a deleted topic are gone; if not, try again.
    TopicCleared { topic: Arc<str>, id: TopicId },
}

/// Records on their way.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) id: AppendId,
    pub(crate) records: Arc<[Record]>,
    pub(crate) then: Then,
}

/// The appends of one slot, in order.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) slot: Slot,
    pub(crate) epoch: Epoch,
    pending: VecDeque<Pending>,
    last: AppendId,
    /// Estimated bytes of what is pending.
    pub(crate) bytes: usize,
}

impl Log {
    pub(crate) fn new(slot: Slot, epoch: Epoch, last: AppendId) -> Self {
        Self { slot, epoch, pending: VecDeque::new(), last, bytes: 0 }
    }

    /// The newest id handed out. Ids go on over reloads, so that a late report never meets a new append.
    pub(crate) fn last(&self) -> AppendId {
        self.last
    }

    pub(crate) fn append(&mut self, records: Vec<Record>, then: Then, out: &mut Vec<Effect>) {
        self.last = AppendId(self.last.0 + 1);
        let records: Arc<[Record]> = records.into();
        self.bytes += bytes(&records);
        self.pending.push_back(Pending { id: self.last, records: records.clone(), then });
        out.push(Effect::Append { slot: self.slot, epoch: self.epoch, id: self.last, records });
    }

    /// Takes the first pending append at or below `upto`.
    pub(crate) fn take(&mut self, upto: AppendId) -> Option<Pending> {
        let first = self.pending.front()?;
        if first.id > upto {
            return None;
        }
        let first = self.pending.pop_front()?;
        self.bytes -= bytes(&first.records);
        Some(first)
    }
}

fn bytes(records: &[Record]) -> usize {
    records.iter().map(Record::bytes).sum()
}
