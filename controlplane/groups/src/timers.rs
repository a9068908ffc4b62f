//! Deadlines of all groups in one ordered map.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use base::Mono;

use crate::Slot;

/// A deadline that is set; whoever set it keeps this to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerId(Mono, u64);

/// What to do at a deadline.
#[derive(Clone, Debug)]
pub(crate) enum Timer {
    /// The member has been silent for its session timeout, unless it was heard since the timer was set.
    Session { group: Arc<str>, member: Arc<str> },
    /// The member of a consumer group has had time enough to give up what it must.
    Revocation { group: Arc<str>, member: Arc<str> },
    /// The id was handed out and not used.
    PendingId { group: Arc<str>, member: Arc<str> },
    /// A rebalance has waited long enough for members to join.
    Join { group: Arc<str> },
    /// A generation has waited long enough for its members to sync.
    Sync { group: Arc<str> },
    /// Expired offsets of a slot are to be looked for.
    Sweep { slot: Slot },
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeMap<TimerId, Timer>,
    count: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Mono, timer: Timer) -> TimerId {
        self.count += 1;
        let id = TimerId(at, self.count);
        self.set.insert(id, timer);
        id
    }

    pub(crate) fn cancel(&mut self, id: TimerId) {
        self.set.remove(&id);
    }

    pub(crate) fn next(&self) -> Option<Mono> {
        self.set.first_key_value().map(|(id, _)| id.0)
    }

    /// Takes the first timer whose time has come.
    pub(crate) fn due(&mut self, now: Mono) -> Option<Timer> {
        (self.next()? <= now).then(|| self.set.pop_first()).flatten().map(|(_, timer)| timer)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }
}
