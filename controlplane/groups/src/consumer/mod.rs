//! Membership by the consumer protocol (KIP-848): the coordinator assigns, and each member comes to its part by heartbeats.
//!
//! Three epochs. The group's rises with every change of members, subscriptions or topics. The target assignment has the
//! group epoch for which it was made. A member has the epoch of the target that it has come to: it first gives up what it
//! shall not keep, and is given no partition that another still holds. So no partition is ever held by two.
//!
//! State changes at once; what is changed is noted and goes to the log at the end of the event, and heartbeats are answered
//! when it is durable. Records that were not taken are noted again and go with the next.

mod assignor;
mod beat;
mod leave;
mod look;
mod member;
mod reconcile;
mod topics;
pub(crate) mod value;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::TopicId;

use self::topics::Expressions;
use self::value::{ConsumerKey, ConsumerValue, Partitions};
use crate::classic::Ctx;
use crate::event::{BeatReply, Reply, Token};
use crate::log::{AppendId, Then};
use crate::{Error, Record};

pub(crate) use member::Member;

/// The members of one group and what they are to have.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    epoch: i32,
    /// Of the topics subscribed to, when they were last looked at.
    topics_hash: i64,
    /// Generation of the metadata that was looked at; none when subscriptions have changed since.
    seen: Option<u64>,
    target_epoch: i32,
    targets: BTreeMap<Arc<str>, Arc<Partitions>>,
    members: BTreeMap<Arc<str>, Member>,
    /// Static members: instance → member id.
    instances: BTreeMap<Arc<str>, Arc<str>>,
    /// Who holds a partition, that which it is to give up included.
    holders: BTreeMap<(TopicId, i32), Arc<str>>,
    expressions: Expressions,
    /// What differs from what was handed to the log.
    unwritten: BTreeSet<ConsumerKey>,
    /// The record of the classic group that this one was before is to go.
    was_classic: bool,
    /// The newest append that is not durable yet.
    writing: Option<AppendId>,
    /// Heartbeats that wait for appends.
    waiting: VecDeque<(AppendId, Token, BeatReply)>,
}

impl Consumer {
    /// A group that takes the place of a classic one without members.
    pub(crate) fn new(was_classic: bool) -> Self {
        Self { was_classic, ..Self::default() }
    }

    /// As its records say; members have one session timeout to be heard.
    pub(crate) fn restore(stored: &BTreeMap<ConsumerKey, ConsumerValue>, ctx: &mut Ctx<'_>) -> Self {
        let mut group = Self::default();
        for (key, value) in stored {
            match (key, value) {
                (_, ConsumerValue::Epoch { epoch, topics_hash }) => {
                    (group.epoch, group.topics_hash) = (*epoch, *topics_hash);
                }
                (_, ConsumerValue::TargetEpoch(epoch)) => group.target_epoch = *epoch,
                (ConsumerKey::Target(id), ConsumerValue::Target(target)) => {
                    group.targets.insert(id.clone(), target.clone());
                }
                (ConsumerKey::Member(id), ConsumerValue::Member(subscriber)) => {
                    if let Some(regex) = &subscriber.regex {
                        group.expressions.add(regex);
                    }
                    group.add(Member::new(id.clone(), subscriber.clone()), ctx);
                }
                _ => {}
            }
        }
        for (key, value) in stored {
            if let (ConsumerKey::Current(id), ConsumerValue::Current(current)) = (key, value) {
                group.restore_current(id, current);
            }
        }
        // An epoch of a member above the group's would never be reached again.
        let highest = group.members.values().map(|member| member.current.epoch).max().unwrap_or(0);
        group.epoch = group.epoch.max(group.target_epoch).max(highest);
        for id in group.members.keys().cloned().collect::<Vec<_>>() {
            group.heard(&id, ctx);
            group.set_revocation(&id, ctx);
        }
        group
    }

    pub(crate) fn has_members(&self) -> bool {
        !self.members.is_empty()
    }

    /// Whether nothing waits to be written.
    pub(crate) fn is_written(&self) -> bool {
        self.unwritten.is_empty() && self.writing.is_none()
    }

    /// The value of a record as it is now; none when it is to be a tombstone.
    fn value(&self, key: &ConsumerKey) -> Option<ConsumerValue> {
        match key {
            ConsumerKey::Epoch => {
                (self.epoch > 0).then_some(ConsumerValue::Epoch { epoch: self.epoch, topics_hash: self.topics_hash })
            }
            ConsumerKey::TargetEpoch => Some(ConsumerValue::TargetEpoch(self.target_epoch)),
            ConsumerKey::Member(id) => {
                self.members.get(id).map(|member| ConsumerValue::Member(member.subscriber.clone()))
            }
            ConsumerKey::Target(id) => self.targets.get(id).cloned().map(ConsumerValue::Target),
            ConsumerKey::Current(id) => {
                self.members.get(id).map(|member| ConsumerValue::Current(member.current.clone()))
            }
        }
    }

    /// Hands what has changed to the log.
    pub(crate) fn write(&mut self, ctx: &mut Ctx<'_>) {
        let unwritten = core::mem::take(&mut self.unwritten);
        if unwritten.is_empty() {
            return;
        }
        let mut records = Vec::with_capacity(unwritten.len() + 1);
        if core::mem::take(&mut self.was_classic) {
            records.push(Record::Group { group: ctx.group.clone(), value: None });
        }
        for key in unwritten {
            let value = self.value(&key);
            records.push(Record::Consumer { group: ctx.group.clone(), key, value });
        }
        ctx.append(records, Then::Members);
        self.writing = Some(ctx.log.last());
    }

    /// Answers a heartbeat, once what it tells is durable.
    fn answer(&mut self, token: Token, reply: BeatReply, ctx: &mut Ctx<'_>) {
        match self.writing {
            Some(upto) => self.waiting.push_back((upto, token, reply)),
            None => ctx.reply(token, Reply::Beat(Ok(reply))),
        }
    }

    /// Records are durable, or were not taken (`error`).
    pub(crate) fn written(&mut self, id: AppendId, records: &[Record], error: Option<Error>, ctx: &mut Ctx<'_>) {
        if self.writing == Some(id) {
            self.writing = None;
        }
        if error.is_some() {
            for record in records {
                match record {
                    Record::Consumer { key, .. } => {
                        self.unwritten.insert(key.clone());
                    }
                    Record::Group { .. } => self.was_classic = true,
                    Record::Offset { .. } => {}
                }
            }
        }
        while let Some((_, token, reply)) = self.waiting.pop_front_if(|(upto, ..)| *upto <= id) {
            let reply = error.map_or(Ok(reply), |error| Err((error, "the change could not be stored")));
            ctx.reply(token, Reply::Beat(reply));
        }
    }

    /// Tombstones for everything that is stored; the group is empty and nothing is on its way.
    pub(crate) fn tombstones(
        group: &Arc<str>,
        stored: &BTreeMap<ConsumerKey, ConsumerValue>,
    ) -> impl Iterator<Item = Record> {
        stored.keys().map(|key| Record::Consumer { group: group.clone(), key: key.clone(), value: None })
    }

    /// Forgets all timers: the slot is no longer served here. Whoever waited has been answered.
    pub(crate) fn abandon(&mut self, ctx: &mut Ctx<'_>) {
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            self.remove(&id, ctx);
        }
    }
}
