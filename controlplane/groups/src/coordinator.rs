//! All groups of this broker, by slot.

mod admin;
mod commit;
mod consumers;
mod load;
mod view;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::Image;
use base::{Epoch, Mono, Now, TopicId, WallMs};

use crate::classic::{Classic, Ctx};
use crate::consumer::Consumer;
use crate::consumer::value::{ConsumerKey, ConsumerValue};
use crate::event::{Effect, Event, Join, Leave, LeftMember, Member, Reply, Sync, Token};
use crate::log::{AppendId, Log, Pending, Then};
use crate::offsets::Offsets;
use crate::timers::{Timer, TimerId, Timers};
use crate::{Config, Error, GroupValue, Record, Slot, TEXT_BYTES_MAX, slot_of};

/// The coordinator of all groups whose slots this broker serves. Lives on one task; see [`Event`] and [`Effect`].
#[derive(Debug)]
pub struct Coordinator {
    config: Config,
    slots: Vec<Shelf>,
    timers: Timers,
    member_bytes: usize,
    groups: usize,
    deletes: BTreeMap<Token, Gather>,
    /// Topics and their partitions.
    image: Arc<Image>,
}

/// One slot and its groups.
#[derive(Debug)]
struct Shelf {
    stage: Stage,
    log: Log,
    groups: BTreeMap<Arc<str>, Group>,
    /// Estimated bytes of all live records.
    live_bytes: usize,
    sweep: Option<TimerId>,
    /// Topics whose offsets could not be removed.
    topics_left: Vec<(Arc<str>, TopicId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not served here.
    Away,
    /// Records are being read.
    Loading,
    /// Records cannot be read.
    Unreadable,
    /// Served.
    Served,
}

/// One group: members by its protocol, offsets, and its newest durable records.
#[derive(Debug)]
struct Group {
    /// Its members by the classic protocol; without any where `consumer` is.
    classic: Classic,
    /// Its members by the consumer protocol, if it has this kind.
    consumer: Option<Box<Consumer>>,
    offsets: Offsets,
    stored: Option<Arc<GroupValue>>,
    /// What is stored of it as a consumer group.
    parts: BTreeMap<ConsumerKey, ConsumerValue>,
    /// Appends about it on their way.
    appends: u32,
}

impl Group {
    fn new(since: WallMs) -> Self {
        Self {
            classic: Classic::new(since),
            consumer: None,
            offsets: Offsets::default(),
            stored: None,
            parts: BTreeMap::new(),
            appends: 0,
        }
    }

    /// Nothing to remember.
    fn is_void(&self) -> bool {
        self.appends == 0
            && self.stored.is_none()
            && self.parts.is_empty()
            && self.offsets.is_empty()
            && self.classic.is_idle()
            && self.consumer.as_ref().is_none_or(|consumer| !consumer.has_members())
    }
}

/// What the coordinator counts.
#[cfg(test)]
pub(crate) struct Footprint {
    pub(crate) member_bytes: usize,
    pub(crate) append_bytes: usize,
    pub(crate) live_bytes: usize,
    pub(crate) timers: usize,
}

/// A DeleteGroups whose groups are deleted one by one.
#[derive(Debug)]
struct Gather {
    results: Vec<Result<(), Error>>,
    missing: usize,
}

impl Coordinator {
    /// A coordinator that serves no slot yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            slots: Vec::new(),
            timers: Timers::default(),
            member_bytes: 0,
            groups: 0,
            deletes: BTreeMap::new(),
            image: Arc::new(Image::empty()),
        }
    }

    /// How many partitions `__consumer_offsets` has. Until it is told, every request is answered with NOT_COORDINATOR.
    /// Groups never move between slots, so a later change is not taken.
    pub fn set_slots(&mut self, count: u32) {
        if self.slots.is_empty() {
            self.slots = (0..count).map(|index| Shelf::new(Slot(index))).collect();
        }
    }

    /// When [`Event::Tick`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// Takes an event and pushes what follows from it.
    pub fn handle(&mut self, now: Now, event: Event<'_>, out: &mut Vec<Effect>) {
        match event {
            Event::Join(token, join) => self.join(now, token, &join, out),
            Event::Sync(token, sync) => self.sync(now, token, &sync, out),
            Event::Heartbeat(token, who) => self.heartbeat(now, token, &who, out),
            Event::Leave(token, leave) => self.leave(now, token, &leave, out),
            Event::Beat(token, beat) => self.beat(now, token, &beat, out),
            Event::Image(image) => self.image = image,
            Event::Commit(token, commit) => self.commit(now, token, &commit, out),
            Event::DeleteGroups(token, groups) => self.delete_groups(now, token, &groups, out),
            Event::DeleteOffsets(token, delete) => self.delete_offsets(now, token, &delete, out),
            Event::TopicDeleted(topic, id) => self.topic_deleted(now, topic, id, out),
            Event::Appended { slot, upto } => self.settle(now, slot, upto, None, out),
            Event::AppendFailed { slot, upto, error } => self.settle(now, slot, upto, Some(error), out),
            Event::Tick => self.tick(now, out),
            Event::LoadStarted { slot, epoch } => self.load_started(now, slot, epoch, out),
            Event::Replayed { slot, record } => self.replayed(now, slot, &record),
            Event::Loaded(slot) => self.loaded(now, slot, out),
            Event::LoadFailed(slot) => self.load_failed(now, slot, out),
            Event::Unloaded(slot) => self.unloaded(now, slot, out),
        }
    }

    fn join(&mut self, now: Now, token: Token, join: &Join<'_>, out: &mut Vec<Effect>) {
        let error = if join.group.is_empty() || join.group.len() > TEXT_BYTES_MAX {
            Some(Error::InvalidGroupId)
        } else if join.has_long_text() {
            Some(Error::InvalidRequest)
        } else if !(self.config.session_timeout_ms_min..=self.config.session_timeout_ms_max)
            .contains(&join.session_timeout_ms)
        {
            Some(Error::InvalidSessionTimeout)
        } else {
            match self.find(join.group) {
                Err(error) => Some(error),
                Ok((_, true)) => None,
                Ok((_, false)) if !join.member.is_empty() => Some(Error::UnknownMemberId),
                Ok((_, false)) if self.groups >= self.config.groups_max => Some(Error::PolicyViolation),
                Ok((slot, false)) => {
                    self.create(now, slot, join.group);
                    None
                }
            }
        };
        if let Some(error) = error {
            return out.push(Effect::Reply(token, Reply::Join(Err((error, join.member.into())))));
        }
        self.with(now, join.group, out, |group, ctx| match group.become_classic(ctx) {
            Ok(()) => group.classic.join(token, join, ctx),
            Err(error) => ctx.reply(token, Reply::Join(Err((error, join.member.into())))),
        });
    }

    fn sync(&mut self, now: Now, token: Token, sync: &Sync<'_>, out: &mut Vec<Effect>) {
        match self.find_for_member(sync.member.group) {
            Ok(()) => {
                self.with(now, sync.member.group, out, |group, ctx| group.classic.sync(token, sync, ctx));
            }
            Err(error) => out.push(Effect::Reply(token, Reply::Sync(Err(error)))),
        }
    }

    fn heartbeat(&mut self, now: Now, token: Token, who: &Member<'_>, out: &mut Vec<Effect>) {
        let result = self.find_for_member(who.group).and_then(|()| {
            self.with(now, who.group, out, |group, ctx| group.classic.heartbeat(who, ctx))
                .unwrap_or(Err(Error::UnknownMemberId))
        });
        out.push(Effect::Reply(token, Reply::Heartbeat(result)));
    }

    fn leave(&mut self, now: Now, token: Token, leave: &Leave<'_>, out: &mut Vec<Effect>) {
        let result = match self.find_for_member(leave.group) {
            // Kafka names each member unknown when the group is.
            Err(Error::UnknownMemberId) => Ok(leave
                .members
                .iter()
                .map(|member| LeftMember {
                    id: member.id.into(),
                    instance: member.instance.map(Into::into),
                    result: Err(Error::UnknownMemberId),
                })
                .collect()),
            Err(error) => Err(error),
            Ok(()) => self
                .with(now, leave.group, out, |group, ctx| group.leave(leave, ctx))
                .unwrap_or(Err(Error::UnknownMemberId)),
        };
        out.push(Effect::Reply(token, Reply::Leave(result)));
    }

    /// Works on a group that is there, then forgets it if nothing is left of it.
    fn with<R>(
        &mut self,
        now: Now,
        group: &str,
        out: &mut Vec<Effect>,
        work: impl FnOnce(&mut Group, &mut Ctx<'_>) -> R,
    ) -> Option<R> {
        let index = self.slot(group)?;
        let shelf = &mut self.slots[index];
        let name = shelf.groups.get_key_value(group)?.0.clone();
        let found = shelf.groups.get_mut(group)?;
        let last = shelf.log.last();
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
        let result = work(found, &mut ctx);
        found.appends += u32::try_from(shelf.log.last().0 - last.0).expect("one event makes few appends");
        self.prune(index, group);
        Some(result)
    }

    fn prune(&mut self, index: usize, group: &str) {
        let shelf = &mut self.slots[index];
        if shelf.groups.get(group).is_some_and(Group::is_void) {
            shelf.groups.remove(group);
            self.groups -= 1;
        }
    }

    fn create(&mut self, now: Now, slot: usize, group: &str) {
        self.slots[slot].groups.insert(group.into(), Group::new(now.wall));
        self.groups += 1;
    }

    fn slot(&self, group: &str) -> Option<usize> {
        let count = u32::try_from(self.slots.len()).ok().filter(|count| *count > 0)?;
        usize::try_from(slot_of(group, count).0).ok()
    }

    /// The group's slot, if it is served, and whether the group is there.
    fn find(&self, group: &str) -> Result<(usize, bool), Error> {
        let index = self.slot(group).ok_or(Error::NotCoordinator)?;
        let shelf = &self.slots[index];
        match shelf.stage {
            Stage::Away => Err(Error::NotCoordinator),
            Stage::Loading => Err(Error::CoordinatorLoadInProgress),
            Stage::Unreadable => Err(Error::Unreadable),
            Stage::Served => Ok((index, shelf.groups.contains_key(group))),
        }
    }

    /// As members' requests find it: they know of a group that must be there.
    fn find_for_member(&self, group: &str) -> Result<(), Error> {
        if group.is_empty() {
            return Err(Error::InvalidGroupId);
        }
        match self.find(group)? {
            (_, true) => Ok(()),
            (_, false) => Err(Error::UnknownMemberId),
        }
    }

    /// Appends are durable, or were not taken (`error`): does what waited for them, in order.
    fn settle(&mut self, now: Now, slot: Slot, upto: AppendId, error: Option<Error>, out: &mut Vec<Effect>) {
        let Some(index) = usize::try_from(slot.0).ok().filter(|index| *index < self.slots.len()) else { return };
        while let Some(pending) = self.slots[index].log.take(upto) {
            self.settle_one(now, index, pending, error, out);
        }
    }

    fn settle_one(&mut self, now: Now, index: usize, pending: Pending, error: Option<Error>, out: &mut Vec<Effect>) {
        let Pending { id, records, then } = pending;
        for record in records.iter() {
            self.settle_record(index, record, error.is_none());
        }
        let Some(group) = records.first().map(Record::group).cloned() else { return };
        if let Some(found) = self.slots[index].groups.get_mut(&group) {
            found.appends -= 1;
        }
        match then {
            Then::Nothing => {}
            Then::Commit { token, rejected } => {
                out.push(Effect::Reply(token, Reply::Commit(error.map_or(Ok(rejected), Err))));
            }
            Then::Assign { generation } => {
                let value = records.iter().find_map(|record| match record {
                    Record::Group { value: Some(value), .. } => Some(&**value),
                    Record::Group { value: None, .. } | Record::Offset { .. } | Record::Consumer { .. } => None,
                });
                let stored = match (error, value) {
                    (None, Some(value)) => Ok(value),
                    (error, _) => Err(error.unwrap_or(Error::CoordinatorNotAvailable)),
                };
                self.with(now, &group, out, |group, ctx| group.classic.assigned(generation, stored, ctx));
            }
            then @ Then::Returned { token, .. } => {
                if self.with(now, &group, out, |group, ctx| group.classic.returned(then, error, ctx)).is_none() {
                    let error = error.unwrap_or(Error::UnknownMemberId);
                    out.push(Effect::Reply(token, Reply::Join(Err((error, "".into())))));
                }
            }
            Then::Members => {
                self.with(now, &group, out, |group, ctx| {
                    if let Some(consumer) = &mut group.consumer {
                        consumer.written(id, &records, error, ctx);
                    }
                });
            }
            Then::Deleted { token, place } => self.deleted(now, &group, token, place, error, out),
            Then::OffsetsDeleted { token, results } => {
                out.push(Effect::Reply(token, Reply::DeleteOffsets(error.map_or(Ok(results), Err))));
            }
            Then::TopicCleared { topic, id } => {
                let left = &mut self.slots[index].topics_left;
                if error.is_some() && !left.contains(&(topic.clone(), id)) {
                    left.push((topic, id));
                }
            }
        }
        self.prune(index, &group);
    }

    /// Folds one durable record (`taken`) into what is kept, or takes back that it was on its way.
    fn settle_record(&mut self, index: usize, record: &Record, taken: bool) {
        let shelf = &mut self.slots[index];
        let Some(group) = shelf.groups.get_mut(record.group()) else { return };
        if taken {
            shelf.live_bytes = (shelf.live_bytes + record.bytes()).saturating_sub(group.live_bytes_before(record));
        }
        match record {
            Record::Offset { topic, partition, value, .. } => {
                group.offsets.settle(topic, *partition, value.as_ref(), taken);
            }
            Record::Group { value, .. } if taken => group.stored = value.clone(),
            Record::Consumer { key, value: Some(value), .. } if taken => {
                group.parts.insert(key.clone(), value.clone());
            }
            Record::Consumer { key, value: None, .. } if taken => {
                group.parts.remove(key);
            }
            Record::Group { .. } | Record::Consumer { .. } => {}
        }
    }

    fn tick(&mut self, now: Now, out: &mut Vec<Effect>) {
        while let Some(timer) = self.timers.due(now.mono) {
            match timer {
                Timer::Session { group, member } => {
                    self.with(now, &group, out, |group, ctx| group.session_over(&member, ctx));
                }
                Timer::Revocation { group, member } => {
                    self.with(now, &group, out, |group, ctx| group.revocation_over(&member, ctx));
                }
                Timer::PendingId { group, member } => {
                    self.with(now, &group, out, |group, ctx| group.classic.id_over(&member, ctx));
                }
                Timer::Join { group } => {
                    self.with(now, &group, out, |group, ctx| group.classic.join_over(ctx));
                }
                Timer::Sync { group } => {
                    self.with(now, &group, out, |group, ctx| group.classic.sync_over(ctx));
                }
                Timer::Sweep { slot } => self.sweep(now, slot, out),
            }
        }
    }

    /// Estimated bytes of members and of everything committed.
    fn state_bytes(&self) -> usize {
        self.member_bytes + self.slots.iter().map(|shelf| shelf.live_bytes).sum::<usize>()
    }

    #[cfg(test)]
    pub(crate) fn footprint(&self) -> Footprint {
        Footprint {
            member_bytes: self.member_bytes,
            append_bytes: self.append_bytes(),
            live_bytes: self.state_bytes() - self.member_bytes,
            timers: self.timers.len(),
        }
    }

    fn append_bytes(&self) -> usize {
        self.slots.iter().map(|shelf| shelf.log.bytes).sum()
    }
}

impl Group {
    /// Bytes that the record's key took so far; its tombstone then takes none, so it is counted out as well.
    fn live_bytes_before(&self, record: &Record) -> usize {
        match record {
            Record::Offset { group, topic, partition, value } => {
                let before = self.offsets.committed(topic, *partition).map(|before| Record::Offset {
                    group: group.clone(),
                    topic: topic.clone(),
                    partition: *partition,
                    value: Some(before.clone()),
                });
                before.map_or(0, |before| before.bytes()) + if value.is_none() { record.bytes() } else { 0 }
            }
            Record::Group { group, value } => {
                let before =
                    self.stored.clone().map(|before| Record::Group { group: group.clone(), value: Some(before) });
                before.map_or(0, |before| before.bytes()) + if value.is_none() { record.bytes() } else { 0 }
            }
            Record::Consumer { group, key, value } => {
                let before = self.parts.get(key).map(|before| Record::Consumer {
                    group: group.clone(),
                    key: key.clone(),
                    value: Some(before.clone()),
                });
                before.map_or(0, |before| before.bytes()) + if value.is_none() { record.bytes() } else { 0 }
            }
        }
    }
}

impl Join<'_> {
    /// Whether a text is too long to be stored; a member id, which is longer than the instance or client id, included.
    fn has_long_text(&self) -> bool {
        const MEMBER_ID_TAIL: usize = 37;
        let own =
            [self.instance.unwrap_or(self.client_id).len() + MEMBER_ID_TAIL, self.client_id.len(), self.host.len()];
        let names = self.protocols.iter().map(|(name, _)| name.len()).chain([self.protocol_type.len()]);
        own.into_iter().chain(names).any(|len| len > TEXT_BYTES_MAX)
    }
}

impl Shelf {
    fn new(slot: Slot) -> Self {
        Self {
            stage: Stage::Away,
            log: Log::new(slot, Epoch(0), AppendId(0)),
            groups: BTreeMap::new(),
            live_bytes: 0,
            sweep: None,
            topics_left: Vec::new(),
        }
    }
}
