//! One member, and how members come, are heard, and go.

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::Mono;

use super::Consumer;
use super::value::{ConsumerKey, Current, Held, MemberState, Subscriber};
use crate::classic::Ctx;
use crate::timers::{Timer, TimerId};

/// The epoch of a static member that is away and means to come back.
pub(super) const AWAY: i32 = -2;

/// A member of a consumer group.
#[derive(Debug)]
pub(crate) struct Member {
    pub(super) id: Arc<str>,
    pub(super) subscriber: Arc<Subscriber>,
    pub(super) current: Arc<Current>,
    /// When it counts as gone, if it is not heard before.
    alive_until: Mono,
    /// Set at or before `alive_until`, so that a heartbeat moves a number and not a timer.
    timer: Option<TimerId>,
    /// When it is put out, if it has not given up what it must.
    revocation: Option<TimerId>,
}

/// Fixed bytes of a member in memory.
const MEMBER_BYTES: usize = 500;

impl Member {
    /// A member that holds nothing yet.
    pub(super) fn new(id: Arc<str>, subscriber: Arc<Subscriber>) -> Self {
        let current = Arc::new(Current {
            epoch: 0,
            previous_epoch: 0,
            state: MemberState::Stable,
            assigned: Held::new(),
            revoking: Held::new(),
        });
        Self { id, subscriber, current, alive_until: Mono(0), timer: None, revocation: None }
    }

    fn bytes(&self) -> usize {
        MEMBER_BYTES + 4 * self.id.len() + self.subscriber.bytes()
    }
}

impl Consumer {
    pub(super) fn add(&mut self, member: Member, ctx: &mut Ctx<'_>) {
        *ctx.member_bytes += member.bytes();
        if let Some(instance) = &member.subscriber.instance {
            self.instances.insert(instance.clone(), member.id.clone());
        }
        self.hold(&member.id, &member.current.clone());
        self.members.insert(member.id.clone(), member);
        self.seen = None;
    }

    /// Forgets a member, its timers and what it holds.
    pub(super) fn remove(&mut self, id: &str, ctx: &mut Ctx<'_>) -> Option<Member> {
        let member = self.members.remove(id)?;
        *ctx.member_bytes = ctx.member_bytes.saturating_sub(member.bytes());
        for timer in [member.timer, member.revocation].into_iter().flatten() {
            ctx.timers.cancel(timer);
        }
        self.release(&member.current);
        if let Some(instance) = &member.subscriber.instance
            && self.instances.get(instance) == Some(&member.id)
        {
            self.instances.remove(instance);
        }
        self.seen = None;
        Some(member)
    }

    /// Changes what a member has said of itself, keeping count.
    pub(super) fn describe_anew(&mut self, id: &str, subscriber: Subscriber, ctx: &mut Ctx<'_>) {
        let Some(member) = self.members.get_mut(id) else { return };
        *ctx.member_bytes = ctx.member_bytes.saturating_sub(member.bytes());
        member.subscriber = Arc::new(subscriber);
        *ctx.member_bytes += member.bytes();
        self.unwritten.insert(ConsumerKey::Member(member.id.clone()));
    }

    /// Moves a member to another place, and its partitions with it.
    pub(super) fn set_current(&mut self, id: &str, current: Current) {
        let Some(member) = self.members.get_mut(id) else { return };
        let (id, before) = (member.id.clone(), core::mem::replace(&mut member.current, Arc::new(current)));
        let now = member.current.clone();
        self.release(&before);
        self.hold(&id, &now);
        self.unwritten.insert(ConsumerKey::Current(id));
    }

    /// A stored place of a member. Where two hold a partition, because a record between was lost, the later has it.
    pub(super) fn restore_current(&mut self, id: &Arc<str>, stored: &Arc<Current>) {
        let mut current = (**stored).clone();
        let taken: Vec<_> = pairs(&current.assigned)
            .chain(pairs(&current.revoking))
            .filter_map(|(topic, index, epoch)| {
                self.holders.get(&(topic, index)).map(|holder| (holder.clone(), topic, index, epoch))
            })
            .collect();
        for (holder, topic, index, epoch) in taken {
            let Some(other) = self.members.get_mut(&holder) else { continue };
            let since = |held: &Held| held.get(&topic).and_then(|indices| indices.get(&index)).copied();
            let others = since(&other.current.assigned).or_else(|| since(&other.current.revoking)).unwrap_or(0);
            if others >= epoch {
                drop_one(&mut current, topic, index);
            } else {
                drop_one(Arc::make_mut(&mut other.current), topic, index);
                self.unwritten.insert(ConsumerKey::Current(holder));
            }
        }
        let Some(member) = self.members.get_mut(id) else { return };
        member.current = Arc::new(current);
        let now = member.current.clone();
        self.hold(id, &now);
    }

    fn hold(&mut self, id: &Arc<str>, current: &Current) {
        for (topic, index, _) in pairs(&current.assigned).chain(pairs(&current.revoking)) {
            let before = self.holders.insert((topic, index), id.clone());
            debug_assert!(before.is_none_or(|before| before == *id), "two members hold a partition");
        }
    }

    fn release(&mut self, current: &Current) {
        for (topic, index, _) in pairs(&current.assigned).chain(pairs(&current.revoking)) {
            self.holders.remove(&(topic, index));
        }
    }

    /// The member was heard: it has its session timeout again from now.
    pub(super) fn heard(&mut self, id: &str, ctx: &mut Ctx<'_>) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.alive_until = ctx.now.mono.plus_ms(ctx.config.consumer_session_timeout_ms);
        if member.timer.is_none() {
            let timer = Timer::Session { group: ctx.group.clone(), member: member.id.clone() };
            member.timer = Some(ctx.timers.set(member.alive_until, timer));
        }
    }

    /// The member's timer has gone off.
    pub(crate) fn session_over(&mut self, id: &str, ctx: &mut Ctx<'_>) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.timer = None;
        if ctx.now.mono < member.alive_until {
            let timer = Timer::Session { group: ctx.group.clone(), member: member.id.clone() };
            member.timer = Some(ctx.timers.set(member.alive_until, timer));
        } else {
            self.put_out(id, ctx);
        }
    }

    /// Sets or clears the time until which the member must have given up what it is to give up.
    pub(super) fn set_revocation(&mut self, id: &str, ctx: &mut Ctx<'_>) {
        let Some(member) = self.members.get_mut(id) else { return };
        if let Some(timer) = member.revocation.take() {
            ctx.timers.cancel(timer);
        }
        if member.current.state == MemberState::Unrevoked {
            let wait_ms = u64::from(member.subscriber.rebalance_timeout_ms.max(0).unsigned_abs());
            let timer = Timer::Revocation { group: ctx.group.clone(), member: member.id.clone() };
            member.revocation = Some(ctx.timers.set(ctx.now.mono.plus_ms(wait_ms), timer));
        }
    }

    /// The member has not given up in time what it must: others wait for it.
    pub(crate) fn revocation_over(&mut self, id: &str, ctx: &mut Ctx<'_>) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.revocation = None;
        if member.current.state == MemberState::Unrevoked {
            self.put_out(id, ctx);
        }
    }
}

/// Partitions one by one, with the epochs in which they were given.
pub(super) fn pairs(held: &Held) -> impl Iterator<Item = (base::TopicId, i32, i32)> {
    held.iter().flat_map(|(topic, indices)| indices.iter().map(|(index, epoch)| (*topic, *index, *epoch)))
}

fn drop_one(current: &mut Current, topic: base::TopicId, index: i32) {
    for held in [&mut current.assigned, &mut current.revoking] {
        if let Some(indices) = held.get_mut(&topic) {
            indices.remove(&index);
            if indices.is_empty() {
                held.remove(&topic);
            }
        }
    }
}
