//! Taking slots over, giving them up, and snapshots of them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use base::{Epoch, Now, TopicId};

use super::{Coordinator, Group, Shelf, Stage};
use crate::classic::{Classic, Ctx};
use crate::consumer::Consumer;
use crate::event::Effect;
use crate::log::Log;
use crate::snapshot::Within;
use crate::{Cursor, Error, Record, Slot};

impl Coordinator {
    fn index(&self, slot: Slot) -> Option<usize> {
        usize::try_from(slot.0).ok().filter(|index| *index < self.slots.len())
    }

    pub(super) fn load_started(&mut self, now: Now, slot: Slot, epoch: Epoch, out: &mut Vec<Effect>) {
        self.unloaded(now, slot, out);
        let Some(index) = self.index(slot) else { return };
        let shelf = &mut self.slots[index];
        shelf.log = Log::new(slot, epoch, shelf.log.last());
        shelf.stage = Stage::Loading;
    }

    pub(super) fn replayed(&mut self, now: Now, slot: Slot, record: &Record) {
        let Some(index) = self.index(slot).filter(|index| self.slots[*index].stage == Stage::Loading) else { return };
        let name = record.group();
        if !self.slots[index].groups.contains_key(name) {
            if record.is_tombstone() {
                return;
            }
            self.create(now, index, name);
        }
        self.settle_record(index, record, true);
        self.prune(index, name);
    }

    pub(super) fn loaded(&mut self, now: Now, slot: Slot, out: &mut Vec<Effect>) {
        let Some(index) = self.index(slot).filter(|index| self.slots[*index].stage == Stage::Loading) else { return };
        self.slots[index].stage = Stage::Served;
        for name in self.slots[index].groups.keys().cloned().collect::<Vec<_>>() {
            self.with(now, &name, out, |group, ctx| {
                if let Some(stored) = group.stored.clone() {
                    group.classic = Classic::restore(&stored, ctx);
                } else if !group.parts.is_empty() {
                    group.consumer = Some(Box::new(Consumer::restore(&group.parts, ctx)));
                }
            });
        }
        // Spread over the interval, so that not all slots are swept at once.
        let interval = self.config.retention_check_interval_ms;
        let share = u64::try_from(index + 1).unwrap_or(1) * interval / u64::try_from(self.slots.len()).unwrap_or(1);
        self.set_sweep(now, slot, share);
    }

    pub(super) fn load_failed(&mut self, now: Now, slot: Slot, out: &mut Vec<Effect>) {
        let Some(index) = self.index(slot).filter(|index| self.slots[*index].stage == Stage::Loading) else { return };
        // What was read is a part: an offset from it may be older than one that was acknowledged.
        self.unloaded(now, slot, out);
        self.slots[index].stage = Stage::Unreadable;
    }

    pub(super) fn unloaded(&mut self, now: Now, slot: Slot, out: &mut Vec<Effect>) {
        let Some(index) = self.index(slot) else { return };
        let upto = self.slots[index].log.last();
        self.settle(now, slot, upto, Some(Error::NotCoordinator), out);
        let shelf = &mut self.slots[index];
        for (name, mut group) in core::mem::take(&mut shelf.groups) {
            self.groups -= 1;
            let mut ctx = Ctx {
                now,
                config: &self.config,
                timers: &mut self.timers,
                log: &mut shelf.log,
                out,
                member_bytes: &mut self.member_bytes,
                group: name,
                image: &self.image,
            };
            group.classic.abandon(Error::NotCoordinator, &mut ctx);
            if let Some(consumer) = &mut group.consumer {
                consumer.abandon(&mut ctx);
            }
        }
        if let Some(timer) = shelf.sweep.take() {
            self.timers.cancel(timer);
        }
        let last = shelf.log.last();
        *shelf = Shelf::new(slot);
        // A report of an append under the former epoch must not meet a new one.
        shelf.log = Log::new(slot, Epoch(0), last);
    }

    /// Estimated bytes of the slot's live records: what a snapshot of it will take.
    #[must_use]
    pub fn live_bytes(&self, slot: Slot) -> u64 {
        let bytes = self.index(slot).map_or(0, |index| self.slots[index].live_bytes);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Begins a snapshot of the slot.
    #[must_use]
    pub fn snapshot(&self, slot: Slot) -> Cursor {
        let groups = self.index(slot).map(|index| self.slots[index].groups.keys().rev().cloned().collect());
        Cursor { groups: groups.unwrap_or_default(), within: None }
    }

    /// The next records of a snapshot, about `bytes_max` of them. To be appended before anything handed out and not yet
    /// appended, and while nothing is on its way: they tell what is durable.
    #[must_use]
    pub fn snapshot_records(&self, slot: Slot, cursor: &mut Cursor, bytes_max: usize) -> Vec<Record> {
        let mut records = Vec::new();
        let mut bytes = 0;
        let Some(shelf) = self.index(slot).map(|index| &self.slots[index]) else { return records };
        while let Some(name) = cursor.groups.last().cloned() {
            if let Some(group) = shelf.groups.get(&name) {
                group.snapshot_into(&name, cursor, &mut records, &mut bytes, bytes_max);
                if bytes >= bytes_max {
                    return records;
                }
            }
            cursor.groups.pop();
            cursor.within = None;
        }
        records
    }

    /// Topics that have offsets committed in the slot, by name and by the id they had; zero when it is unknown.
    #[must_use]
    pub fn topics(&self, slot: Slot) -> Vec<(Arc<str>, TopicId)> {
        let Some(shelf) = self.index(slot).map(|index| &self.slots[index]) else { return Vec::new() };
        let mut topics: Vec<(Arc<str>, TopicId)> =
            shelf.groups.values().flat_map(|group| group.offsets.topics()).collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }
}

impl Group {
    fn snapshot_into(
        &self,
        name: &Arc<str>,
        cursor: &mut Cursor,
        records: &mut Vec<Record>,
        bytes: &mut usize,
        bytes_max: usize,
    ) {
        if cursor.within.is_none() {
            if let Some(stored) = &self.stored {
                let record = Record::Group { group: name.clone(), value: Some(stored.clone()) };
                *bytes += record.bytes();
                records.push(record);
            }
            cursor.within = Some(Within::Start);
        }
        let from = match &cursor.within {
            Some(Within::After(topic, partition)) => Some((topic.clone(), *partition)),
            Some(Within::Start | Within::Part(_)) | None => None,
        };
        let part = match &cursor.within {
            Some(Within::Part(key)) => Bound::Excluded(key.clone()),
            Some(Within::Start | Within::After(..)) | None => Bound::Unbounded,
        };
        let parts = from.is_none().then(|| self.parts.range((part, Bound::Unbounded)));
        for (key, value) in parts.into_iter().flatten() {
            if *bytes >= bytes_max {
                return;
            }
            cursor.within = Some(Within::Part(key.clone()));
            let record = Record::Consumer { group: name.clone(), key: key.clone(), value: Some(value.clone()) };
            *bytes += record.bytes();
            records.push(record);
        }
        for (topic, partition, value) in
            self.offsets.committed_after(from.as_ref().map(|(topic, partition)| (topic, *partition)))
        {
            if *bytes >= bytes_max {
                return;
            }
            let (group, topic) = (name.clone(), topic.clone());
            cursor.within = Some(Within::After(topic.clone(), partition));
            let record = Record::Offset { group, topic, partition, value: Some(value.clone()) };
            *bytes += record.bytes();
            records.push(record);
        }
    }
}
