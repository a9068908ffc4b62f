//! Committed offsets of one group.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::{TopicId, WallMs};

use crate::{FetchedOffset, OffsetValue, Record};

/// What is known of one partition.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// Durable.
    committed: Option<OffsetValue>,
    /// Records of it on their way, values and tombstones alike.
    pending: u32,
    /// The topic's id in the newest value, be it committed or on its way.
    newest: TopicId,
}

/// Offsets by topic and partition. Only durable ones are ever shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offsets {
    topics: BTreeMap<Arc<str>, BTreeMap<i32, Entry>>,
}

/// When offsets of a group may be forgotten, as Kafka counts it (KIP-211).
pub(crate) struct Expiry<'a> {
    pub(crate) now: WallMs,
    pub(crate) retention_ms: i64,
    /// When the group became empty, if it has a protocol type. A later commit counts from itself: Kafka forgets at once what
    /// an operator commits to a group that has long been empty.
    pub(crate) empty_since: Option<WallMs>,
    /// Topics whose offsets stay in any case.
    pub(crate) subscribed: Option<&'a BTreeSet<Arc<str>>>,
}

impl Offsets {
    /// No entry at all, not even one on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Entries, those on their way included.
    pub(crate) fn len(&self) -> usize {
        self.topics.values().map(BTreeMap::len).sum()
    }

    /// Makes a record of the partition, which counts as on its way until `settle`d. Names are shared.
    pub(crate) fn record(
        &mut self,
        group: &Arc<str>,
        topic: &str,
        partition: i32,
        value: Option<OffsetValue>,
    ) -> Record {
        let topic = match self.topics.get_key_value(topic) {
            Some((name, _)) => name.clone(),
            None => topic.into(),
        };
        let entry = self.topics.entry(topic.clone()).or_default().entry(partition).or_default();
        entry.pending += 1;
        if let Some(value) = &value {
            entry.newest = value.topic_id;
        }
        Record::Offset { group: group.clone(), topic, partition, value }
    }

    /// The record of a partition is durable (`taken`), or was not taken.
    pub(crate) fn settle(&mut self, topic: &Arc<str>, partition: i32, value: Option<&OffsetValue>, taken: bool) {
        if let Some(entry) = self.topics.get_mut(topic).and_then(|partitions| partitions.get_mut(&partition)) {
            entry.pending = entry.pending.saturating_sub(1);
        }
        if taken {
            self.apply(topic, partition, value);
        }
        self.prune(topic, partition);
    }

    /// Takes over a durable record.
    pub(crate) fn apply(&mut self, topic: &Arc<str>, partition: i32, value: Option<&OffsetValue>) {
        match value {
            Some(value) => {
                let partitions = match self.topics.get_mut(topic) {
                    Some(partitions) => partitions,
                    None => self.topics.entry(topic.clone()).or_default(),
                };
                let entry = partitions.entry(partition).or_default();
                entry.committed = Some(value.clone());
                if entry.pending == 0 {
                    entry.newest = value.topic_id;
                }
            }
            None => {
                if let Some(entry) = self.topics.get_mut(topic).and_then(|partitions| partitions.get_mut(&partition)) {
                    entry.committed = None;
                }
                self.prune(topic, partition);
            }
        }
    }

    fn prune(&mut self, topic: &Arc<str>, partition: i32) {
        let Some(partitions) = self.topics.get_mut(topic) else { return };
        if let Some(entry) = partitions.get_mut(&partition).filter(|entry| entry.pending == 0) {
            match &entry.committed {
                Some(value) => entry.newest = value.topic_id,
                None => {
                    partitions.remove(&partition);
                }
            }
        }
        if partitions.is_empty() {
            self.topics.remove(topic);
        }
    }

    /// The committed value of a partition.
    pub(crate) fn committed(&self, topic: &str, partition: i32) -> Option<&OffsetValue> {
        self.topics.get(topic)?.get(&partition)?.committed.as_ref()
    }

    /// Whether anything of the partition is committed or on its way.
    pub(crate) fn knows(&self, topic: &str, partition: i32) -> bool {
        self.topics.get(topic).is_some_and(|partitions| partitions.contains_key(&partition))
    }

    /// The committed offset of a partition as OffsetFetch answers it.
    pub(crate) fn fetch(&self, topic: &str, partition: i32) -> FetchedOffset {
        fetched(partition, self.committed(topic, partition))
    }

    /// All committed offsets.
    pub(crate) fn fetch_all(&self) -> Vec<(Arc<str>, Vec<FetchedOffset>)> {
        let all = self.topics.iter().map(|(topic, partitions)| {
            let offsets = partitions
                .iter()
                .filter_map(|(index, entry)| entry.committed.as_ref().map(|value| fetched(*index, Some(value))));
            (topic.clone(), offsets.collect::<Vec<_>>())
        });
        all.filter(|(_, offsets)| !offsets.is_empty()).collect()
    }

    /// Topics that have an entry, with the ids that their newest values name.
    pub(crate) fn topics(&self) -> impl Iterator<Item = (Arc<str>, TopicId)> {
        let topics = self.topics.iter();
        topics.flat_map(|(topic, partitions)| partitions.values().map(move |entry| (topic.clone(), entry.newest)))
    }

    /// Partitions of a topic whose newest value is of the topic with this id. A value without an id may be of any.
    pub(crate) fn partitions_of(&self, topic: &str, id: TopicId) -> Vec<i32> {
        let partitions = self.topics.get(topic).into_iter().flatten();
        let of = partitions.filter(|(_, entry)| entry.newest == id || entry.newest == TopicId::ZERO);
        of.map(|(index, _)| *index).collect()
    }

    /// Topic and partition of every entry.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, i32)> {
        let all = self.topics.iter();
        all.flat_map(|(topic, partitions)| partitions.keys().map(|index| (topic.clone(), *index))).collect()
    }

    /// Committed values after (`topic`, `partition`), in order.
    pub(crate) fn committed_after(
        &self,
        after: Option<(&Arc<str>, i32)>,
    ) -> impl Iterator<Item = (&Arc<str>, i32, &OffsetValue)> {
        use core::ops::Bound::{Excluded, Included, Unbounded};
        let (from, skip) = match after {
            Some((topic, partition)) => (Included(topic.clone()), Some((topic.clone(), partition))),
            None => (Unbounded, None),
        };
        self.topics.range((from, Unbounded)).flat_map(move |(topic, partitions)| {
            let from = match &skip {
                Some((name, partition)) if name == topic => Excluded(*partition),
                _ => Unbounded,
            };
            let values = partitions.range((from, Unbounded));
            values.filter_map(move |(index, entry)| entry.committed.as_ref().map(|value| (topic, *index, value)))
        })
    }

    /// Partitions whose committed offset may be forgotten. What has a record on its way stays.
    pub(crate) fn expired(&self, expiry: &Expiry<'_>) -> Vec<(Arc<str>, i32)> {
        let mut expired = Vec::new();
        for (topic, partitions) in &self.topics {
            if expiry.subscribed.is_some_and(|subscribed| subscribed.contains(topic)) {
                continue;
            }
            for (index, entry) in partitions {
                let Some(value) = entry.committed.as_ref().filter(|_| entry.pending == 0) else { continue };
                let since = expiry.empty_since.map_or(value.committed, |empty| empty.max(value.committed));
                if expiry.now.0.saturating_sub(since.0) >= expiry.retention_ms {
                    expired.push((topic.clone(), *index));
                }
            }
        }
        expired
    }
}

fn fetched(partition: i32, value: Option<&OffsetValue>) -> FetchedOffset {
    match value {
        Some(value) => FetchedOffset {
            partition,
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: value.metadata.clone(),
            topic_id: value.topic_id,
        },
        None => FetchedOffset { partition, offset: -1, leader_epoch: -1, metadata: "".into(), topic_id: TopicId::ZERO },
    }
}
