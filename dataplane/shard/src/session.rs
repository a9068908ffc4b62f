//! Incremental fetch sessions (KIP-227): what a consumer follows, remembered, so that it names only what changes.
//!
//! A session lives on the shard that its connection lives on; its id tells the shard, so that a client that comes back on
//! another shard is told `FETCH_SESSION_ID_NOT_FOUND` and begins anew.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use core::hash::{BuildHasher as _, Hasher as _};

use base::image::{SeededHash, SeededMap};
use base::{Epoch, Mono, Offset, PartitionId, ShardId, TopicId};
use protocol::error::ErrorCode;
use slab::Slab;

/// A topic as a request names it: by name up to Fetch v12, by id from v13 on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TopicKey {
    Name(Arc<str>),
    Id(TopicId),
}

/// A partition as a request wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) partition: i32,
    pub(crate) offset: Offset,
    pub(crate) bytes_max: u32,
    pub(crate) current_epoch: Epoch,
    pub(crate) last_fetched_epoch: Epoch,
}

/// Where a partition lives, or why it cannot be read.
pub(crate) type Home = Result<(PartitionId, ShardId), ErrorCode>;

/// A partition that a session follows.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) topic: TopicKey,
    pub(crate) wanted: Wanted,
    /// As of image generation `.0`.
    pub(crate) home: Option<(u64, Home)>,
    /// What the client was last told; an error is told again and again.
    told: Option<(Offset, Offset)>,
    /// Tells this entry from one that sits at its place later.
    stamp: u64,
}

/// Names an entry of a session, as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryRef {
    at: usize,
    stamp: u64,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    /// The epoch its next request must carry.
    epoch: i32,
    by_id: bool,
    used: Mono,
    entries: Slab<Entry>,
    index: SeededMap<(TopicKey, i32), usize>,
    /// In what order partitions are read: those that gave records lately come last. Holds what was forgotten until there
    /// is more of that than of the rest, so that forgetting costs the same however many there are.
    order: VecDeque<EntryRef>,
    stamp: u64,
}

impl Session {
    fn set(&mut self, topic: TopicKey, wanted: Wanted) {
        match self.index.entry((topic, wanted.partition)) {
            hashbrown::hash_map::Entry::Occupied(at) => self.entries[*at.get()].wanted = wanted,
            hashbrown::hash_map::Entry::Vacant(vacant) => {
                self.stamp += 1;
                let topic = vacant.key().0.clone();
                let at = self.entries.insert(Entry { topic, wanted, home: None, told: None, stamp: self.stamp });
                vacant.insert(at);
                self.order.push_back(EntryRef { at, stamp: self.stamp });
            }
        }
    }

    fn forget(&mut self, topic: &TopicKey, partition: i32) {
        if let Some(at) = self.index.remove(&(topic.clone(), partition)) {
            self.entries.remove(at);
            if self.order.len() > 2 * self.entries.len() + 16 {
                let entries = &self.entries;
                self.order.retain(|entry| is_there(entries, *entry));
            }
        }
    }

    /// The partitions in the order in which they are to be read.
    pub(crate) fn for_each(&mut self, mut f: impl FnMut(EntryRef, &mut Entry)) {
        for &place in &self.order {
            if let Some(entry) = self.entries.get_mut(place.at).filter(|found| found.stamp == place.stamp) {
                f(place, entry);
            }
        }
    }

    /// Whether the client must be told of this outcome: records, an error, or moved ends. Remembers what it was told.
    pub(crate) fn must_tell(&mut self, entry: EntryRef, failed: bool, has_data: bool, ends: (Offset, Offset)) -> bool {
        let Some(entry) = self.entries.get_mut(entry.at).filter(|found| found.stamp == entry.stamp) else {
            return true;
        };
        if failed {
            entry.told = None;
            return true;
        }
        let moved = entry.told != Some(ends);
        entry.told = Some(ends);
        moved || has_data
    }

    /// Partitions that gave records go behind the others, in their order.
    pub(crate) fn rotate(&mut self, gave: &[EntryRef]) {
        if gave.is_empty() || gave.len() == self.order.len() {
            return;
        }
        let mut sorted = gave.to_vec();
        sorted.sort_unstable();
        let entries = &self.entries;
        self.order.retain(|entry| sorted.binary_search(entry).is_err());
        self.order.extend(gave.iter().filter(|entry| is_there(entries, **entry)));
    }
}

fn is_there(entries: &Slab<Entry>, entry: EntryRef) -> bool {
    entries.get(entry.at).is_some_and(|found| found.stamp == entry.stamp)
}

/// What a request says about sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// None wanted, or the old one closed.
    Sessionless,
    /// A new one wanted.
    New,
    /// The next request of this one.
    Next(i32),
    /// Refused.
    Refused(ErrorCode),
}

/// Bounds of the sessions of a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    pub(crate) sessions_max: usize,
    pub(crate) partitions_max: usize,
    pub(crate) idle_ms_min: u64,
}

/// All sessions of a shard.
pub(crate) struct Sessions {
    sessions: SeededMap<i32, Session>,
    by_use: BTreeSet<(Mono, i32)>,
    partitions: usize,
    evicted: u64,
    drawn: u64,
    hash: SeededHash,
    shard: ShardId,
    shards: u16,
    limits: SessionLimits,
}

impl Sessions {
    pub(crate) fn new(shard: ShardId, shards: u16, hash: SeededHash, limits: SessionLimits) -> Self {
        Self {
            sessions: SeededMap::with_hasher(hash),
            by_use: BTreeSet::new(),
            partitions: 0,
            evicted: 0,
            drawn: 0,
            hash,
            shard,
            shards: shards.max(1),
            limits,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    /// Sessions put out for others, ever.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Judges the session fields of a request (KIP-227's table): epoch −1 closes, 0 begins anew, any other continues.
    pub(crate) fn open(&mut self, now: Mono, id: i32, epoch: i32, by_id: bool) -> Opening {
        match epoch {
            -1 => {
                self.remove(id);
                Opening::Sessionless
            }
            0 => {
                self.remove(id);
                Opening::New
            }
            _ => {
                let Some(session) = self.sessions.get_mut(&id) else {
                    return Opening::Refused(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
                };
                if session.epoch != epoch {
                    return Opening::Refused(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
                }
                if session.by_id != by_id {
                    return Opening::Refused(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
                }
                self.by_use.remove(&(session.used, id));
                session.used = now;
                self.by_use.insert((now, id));
                session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
                Opening::Next(id)
            }
        }
    }

    /// A new session for so many partitions; `None` when all are in use: the request is answered without.
    pub(crate) fn create(&mut self, now: Mono, by_id: bool, partitions: usize) -> Option<i32> {
        if partitions == 0 || partitions > self.limits.partitions_max || self.limits.sessions_max == 0 {
            return None;
        }
        while self.sessions.len() >= self.limits.sessions_max
            || self.partitions + partitions > self.limits.partitions_max
        {
            let &(used, oldest) = self.by_use.first()?;
            if now.since(used) < self.limits.idle_ms_min.saturating_mul(1_000_000) {
                return None;
            }
            self.remove(oldest);
            self.evicted += 1;
        }
        let id = self.draw();
        let session = Session {
            epoch: 1,
            by_id,
            used: now,
            entries: Slab::with_capacity(partitions),
            index: SeededMap::with_capacity_and_hasher(partitions, self.hash),
            order: VecDeque::with_capacity(partitions),
            stamp: 0,
        };
        self.sessions.insert(id, session);
        self.by_use.insert((now, id));
        Some(id)
    }

    /// An id that no session has: unguessable, positive, and different on every shard.
    fn draw(&mut self) -> i32 {
        loop {
            self.drawn += 1;
            let mut hasher = self.hash.build_hasher();
            hasher.write_u64(self.drawn);
            let shards = u64::from(self.shards);
            let range = i32::MAX as u64 / shards;
            let id = (hasher.finish() % range) * shards + u64::from(self.shard.0) + 1;
            let id = i32::try_from(id).expect("below range × shards");
            if !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }

    /// Adds a partition, or changes what is wanted of it. `false`: no room for more partitions.
    pub(crate) fn set(&mut self, id: i32, topic: TopicKey, wanted: Wanted) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let before = session.entries.len();
        if self.partitions >= self.limits.partitions_max
            && !session.index.contains_key(&(topic.clone(), wanted.partition))
        {
            return false;
        }
        session.set(topic, wanted);
        self.partitions += session.entries.len() - before;
        true
    }

    /// Drops a partition.
    pub(crate) fn forget(&mut self, id: i32, topic: &TopicKey, partition: i32) {
        if let Some(session) = self.sessions.get_mut(&id) {
            let before = session.entries.len();
            session.forget(topic, partition);
            self.partitions -= before - session.entries.len();
        }
    }

    pub(crate) fn get_mut(&mut self, id: i32) -> Option<&mut Session> {
        self.sessions.get_mut(&id)
    }

    /// Whether the session follows nothing.
    pub(crate) fn is_empty(&self, id: i32) -> bool {
        self.sessions.get(&id).is_none_or(|session| session.entries.is_empty())
    }

    pub(crate) fn remove(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&id) {
            self.by_use.remove(&(session.used, id));
            self.partitions -= session.entries.len();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

    use alloc::vec::Vec;

    use super::*;

    const LIMITS: SessionLimits = SessionLimits { sessions_max: 2, partitions_max: 10, idle_ms_min: 100 };

    fn sessions() -> Sessions {
        Sessions::new(ShardId(1), 3, SeededHash(9), LIMITS)
    }

    fn wanted(partition: i32) -> Wanted {
        Wanted { partition, offset: Offset(0), bytes_max: 1, current_epoch: Epoch(-1), last_fetched_epoch: Epoch(-1) }
    }

    fn topic() -> TopicKey {
        TopicKey::Name("t".into())
    }

    fn order(sessions: &mut Sessions, id: i32) -> Vec<i32> {
        let mut order = Vec::new();
        sessions.get_mut(id).unwrap().for_each(|_, entry| order.push(entry.wanted.partition));
        order
    }

    #[test]
    fn epochs_count_from_one_and_wrap_from_the_highest_to_one() {
        let mut sessions = sessions();
        assert_eq!(sessions.open(Mono(0), 0, 0, false), Opening::New);
        let id = sessions.create(Mono(0), false, 1).unwrap();
        assert!(sessions.set(id, topic(), wanted(0)));
        assert_eq!(sessions.open(Mono(0), id, 1, false), Opening::Next(id));
        assert_eq!(sessions.open(Mono(0), id, 1, false), Opening::Refused(ErrorCode::INVALID_FETCH_SESSION_EPOCH));
        assert_eq!(sessions.open(Mono(0), id, 2, false), Opening::Next(id));
        sessions.get_mut(id).unwrap().epoch = i32::MAX;
        assert_eq!(sessions.open(Mono(0), id, i32::MAX, false), Opening::Next(id));
        assert_eq!(sessions.open(Mono(0), id, 1, false), Opening::Next(id));
    }

    #[test]
    fn unknown_closed_and_mixed_sessions_are_refused_by_name() {
        let mut sessions = sessions();
        assert_eq!(sessions.open(Mono(0), 77, 1, false), Opening::Refused(ErrorCode::FETCH_SESSION_ID_NOT_FOUND));
        let id = sessions.create(Mono(0), false, 1).unwrap();
        assert_eq!(sessions.open(Mono(0), id, 1, true), Opening::Refused(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR));
        assert_eq!(sessions.open(Mono(0), id, -1, false), Opening::Sessionless);
        assert_eq!(sessions.open(Mono(0), id, 1, false), Opening::Refused(ErrorCode::FETCH_SESSION_ID_NOT_FOUND));
        assert_eq!(sessions.by_use.len(), 0);
    }

    #[test]
    fn a_session_in_use_is_not_put_out_and_an_idle_one_is() {
        let mut sessions = sessions();
        let first = sessions.create(Mono(0), false, 1).unwrap();
        sessions.set(first, topic(), wanted(0));
        let second = sessions.create(Mono(0).plus_ms(50), false, 1).unwrap();
        assert_ne!(first, second);
        assert_eq!(sessions.create(Mono(0).plus_ms(99), false, 1), None);
        assert!(sessions.create(Mono(0).plus_ms(100), false, 1).is_some());
        assert_eq!((sessions.len(), sessions.partitions(), sessions.evicted()), (2, 0, 1));
        assert_eq!(sessions.open(Mono(0), first, 1, false), Opening::Refused(ErrorCode::FETCH_SESSION_ID_NOT_FOUND));
    }

    #[test]
    fn partitions_are_bounded_over_all_sessions() {
        let mut sessions = sessions();
        let id = sessions.create(Mono(0), false, 3).unwrap();
        for i in 0..10 {
            assert!(sessions.set(id, topic(), wanted(i)));
        }
        assert!(!sessions.set(id, topic(), wanted(10)));
        assert!(sessions.set(id, topic(), wanted(3)), "one that is there may change");
        assert_eq!(sessions.create(Mono(0), false, 11), None);
        assert_eq!(sessions.create(Mono(0), false, 1), None);
        sessions.forget(id, &topic(), 3);
        assert_eq!(sessions.partitions(), 9);
        assert!(sessions.set(id, topic(), wanted(11)));
    }

    #[test]
    fn forgetting_leaves_no_trace_however_often() {
        let mut sessions = sessions();
        let id = sessions.create(Mono(0), false, 1).unwrap();
        for round in 0..1000 {
            sessions.set(id, topic(), wanted(round % 5));
            sessions.forget(id, &topic(), round % 5);
        }
        assert!(sessions.is_empty(id) && sessions.partitions() == 0);
        assert!(sessions.get_mut(id).unwrap().order.len() < 20);
        assert!(order(&mut sessions, id).is_empty());
    }

    #[test]
    fn what_gave_records_goes_behind_and_only_news_is_told() {
        let mut sessions = sessions();
        let id = sessions.create(Mono(0), false, 3).unwrap();
        for i in 0..4 {
            sessions.set(id, topic(), wanted(i));
        }
        let session = sessions.get_mut(id).unwrap();
        let mut refs = Vec::new();
        session.for_each(|entry, _| refs.push(entry));
        let ends = (Offset(5), Offset(0));
        assert!(session.must_tell(refs[0], false, false, ends), "the first time");
        assert!(!session.must_tell(refs[0], false, false, ends));
        assert!(session.must_tell(refs[0], false, true, ends), "records");
        assert!(session.must_tell(refs[0], false, false, (Offset(6), Offset(0))), "the high watermark moved");
        assert!(session.must_tell(refs[0], false, false, (Offset(6), Offset(1))), "the log start moved");
        assert!(session.must_tell(refs[0], true, false, ends), "an error");
        assert!(session.must_tell(refs[0], true, false, ends), "an error again");
        assert!(session.must_tell(refs[0], false, false, (Offset(6), Offset(1))), "well again");
        session.rotate(&[refs[2], refs[0]]);
        assert_eq!(order(&mut sessions, id), [1, 3, 2, 0]);
        sessions.forget(id, &topic(), 2);
        sessions.set(id, topic(), wanted(9));
        let session = sessions.get_mut(id).unwrap();
        session.rotate(&[refs[2]]);
        assert!(session.must_tell(refs[2], false, false, ends), "an entry that is gone is always told");
        assert_eq!(order(&mut sessions, id), [1, 3, 0, 9]);
    }
}
