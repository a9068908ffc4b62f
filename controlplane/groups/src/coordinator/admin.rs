//! DeleteGroups, deleted topics, and offsets that nobody has wanted for long.

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::{Now, TopicId};

use super::{Coordinator, Gather, Group, Stage};
use crate::classic::Ctx;
use crate::consumer::Consumer;
use crate::event::{Effect, Reply, Token};
use crate::log::Then;
use crate::offsets::Expiry;
use crate::timers::Timer;
use crate::{Error, Record, Slot};

impl Coordinator {
    pub(super) fn delete_groups(&mut self, now: Now, token: Token, groups: &[&str], out: &mut Vec<Effect>) {
        let mut gather = Gather { results: Vec::with_capacity(groups.len()), missing: 0 };
        for (place, group) in groups.iter().enumerate() {
            let result = match self.find(group) {
                Err(error) => Err(error),
                Ok((_, false)) => Err(Error::GroupIdNotFound),
                Ok((_, true)) => self
                    .with(now, group, out, |group, ctx| group.delete(token, place, ctx))
                    .unwrap_or(Err(Error::GroupIdNotFound)),
            };
            gather.missing += usize::from(result.is_ok());
            gather.results.push(result);
        }
        if gather.missing == 0 {
            out.push(Effect::Reply(token, Reply::DeleteGroups(gather.results)));
        } else {
            self.deletes.insert(token, gather);
        }
    }

    /// The tombstones of a group are durable, or were not taken (`error`).
    pub(super) fn deleted(
        &mut self,
        now: Now,
        group: &Arc<str>,
        token: Token,
        place: usize,
        error: Option<Error>,
        out: &mut Vec<Effect>,
    ) {
        // Taken or not, what is left of the group stands for itself: nothing, or what is stored.
        self.with(now, group, out, |group, ctx| {
            group.classic.set_deleting(false, ctx);
            if error.is_none() {
                group.consumer = None;
            }
        });
        let Some(gather) = self.deletes.get_mut(&token) else { return };
        if let (Some(error), Some(result)) = (error, gather.results.get_mut(place)) {
            *result = Err(error);
        }
        gather.missing -= 1;
        if gather.missing == 0
            && let Some(gather) = self.deletes.remove(&token)
        {
            out.push(Effect::Reply(token, Reply::DeleteGroups(gather.results)));
        }
    }

    pub(super) fn topic_deleted(&mut self, now: Now, topic: &str, id: TopicId, out: &mut Vec<Effect>) {
        for index in 0..self.slots.len() {
            // A slot that is still being read is told again once it is served.
            if self.slots[index].stage == Stage::Served {
                self.clear_topic(now, index, topic, id, out);
            }
        }
    }

    fn clear_topic(&mut self, now: Now, index: usize, topic: &str, id: TopicId, out: &mut Vec<Effect>) {
        let groups = self.slots[index].groups.iter();
        let groups = groups.filter(|(_, group)| !group.offsets.partitions_of(topic, id).is_empty());
        for name in groups.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.with(now, &name, out, |group, ctx| {
                let partitions = group.offsets.partitions_of(topic, id).into_iter();
                let records = partitions.map(|index| group.offsets.record(&ctx.group, topic, index, None));
                let records: Vec<_> = records.collect();
                ctx.append(records, Then::TopicCleared { topic: topic.into(), id });
            });
        }
    }

    /// Looks through a slot for offsets that have expired and for groups of which nothing is left.
    pub(super) fn sweep(&mut self, now: Now, slot: Slot, out: &mut Vec<Effect>) {
        let Some(index) = usize::try_from(slot.0).ok().filter(|index| *index < self.slots.len()) else { return };
        if self.slots[index].stage != Stage::Served {
            return;
        }
        for (topic, id) in core::mem::take(&mut self.slots[index].topics_left) {
            self.clear_topic(now, index, &topic, id, out);
        }
        for name in self.slots[index].groups.keys().cloned().collect::<Vec<_>>() {
            let retention_ms = self.config.offsets_retention_ms;
            self.with(now, &name, out, |group, ctx| group.expire(retention_ms, ctx));
        }
        self.set_sweep(now, slot, self.config.retention_check_interval_ms);
    }

    pub(super) fn set_sweep(&mut self, now: Now, slot: Slot, after_ms: u64) {
        let Some(shelf) = usize::try_from(slot.0).ok().and_then(|index| self.slots.get_mut(index)) else { return };
        if let Some(timer) = shelf.sweep.take() {
            self.timers.cancel(timer);
        }
        // At least a second, so that an interval of 0 does not spin.
        shelf.sweep = Some(self.timers.set(now.mono.plus_ms(after_ms.max(1000)), Timer::Sweep { slot }));
    }
}

impl Group {
    fn delete(&mut self, token: Token, place: usize, ctx: &mut Ctx<'_>) -> Result<(), Error> {
        if self.classic.is_deleting() {
            return Err(Error::GroupIdNotFound);
        }
        if !self.classic.is_empty_state() || self.consumer.as_ref().is_some_and(|consumer| consumer.has_members()) {
            return Err(Error::NonEmptyGroup);
        }
        if self.consumer.is_some() && self.appends > 0 {
            // Its records are on their way: which of them there will be is not known. Clients ask again.
            return Err(Error::CoordinatorLoadInProgress);
        }
        let mut records: Vec<Record> = self.offsets_gone(&self.offsets.all(), ctx);
        records.extend(Consumer::tombstones(&ctx.group, &self.parts));
        // Written even if no generation is stored: one may be on its way.
        records.push(Record::Group { group: ctx.group.clone(), value: None });
        self.classic.set_deleting(true, ctx);
        ctx.append(records, Then::Deleted { token, place });
        Ok(())
    }

    fn offsets_gone(&mut self, which: &[(Arc<str>, i32)], ctx: &Ctx<'_>) -> Vec<Record> {
        which.iter().map(|(topic, index)| self.offsets.record(&ctx.group, topic, *index, None)).collect()
    }

    fn expire(&mut self, retention_ms: i64, ctx: &mut Ctx<'_>) {
        if self.appends > 0 || self.classic.is_deleting() {
            return;
        }
        if self.consumer.is_some() {
            return self.expire_consumer(retention_ms, ctx);
        }
        let empty = self.classic.is_empty_state();
        let has_protocol = self.classic.protocol_type().is_some();
        if !empty && self.classic.stable_subscriptions().is_none() {
            // Members may use any of the offsets.
            return;
        }
        let expired = self.offsets.expired(&Expiry {
            now: ctx.now.wall,
            retention_ms,
            empty_since: (empty && has_protocol).then(|| self.classic.since()),
            subscribed: if empty { None } else { self.classic.stable_subscriptions() },
        });
        let mut records = self.offsets_gone(&expired, ctx);
        if empty && self.stored.is_some() && self.offsets.len() == expired.len() && self.classic.is_idle() {
            records.push(Record::Group { group: ctx.group.clone(), value: None });
        }
        // Left behind where what made it classic again was not stored.
        records.extend(Consumer::tombstones(&ctx.group, &self.parts));
        if !records.is_empty() {
            ctx.append(records, Then::Nothing);
        }
    }

    /// The same for a consumer group: offsets count from their commits, those of subscribed topics stay.
    fn expire_consumer(&mut self, retention_ms: i64, ctx: &mut Ctx<'_>) {
        let Some(consumer) = &mut self.consumer else { return };
        // What could not be stored is tried again.
        consumer.write(ctx);
        if !consumer.is_written() {
            return;
        }
        let (has_members, subscribed) = (consumer.has_members(), consumer.subscribed());
        let expired = self.offsets.expired(&Expiry {
            now: ctx.now.wall,
            retention_ms,
            empty_since: None,
            subscribed: has_members.then_some(&subscribed),
        });
        let mut records = self.offsets_gone(&expired, ctx);
        if !has_members && self.offsets.len() == expired.len() {
            records.extend(Consumer::tombstones(&ctx.group, &self.parts));
        }
        if !records.is_empty() {
            ctx.append(records, Then::Nothing);
        }
    }
}
