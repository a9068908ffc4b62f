//! ConsumerGroupHeartbeat.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::Consumer;
use super::assignor::Assignor;
use super::member::{AWAY, Member};
use super::value::{ConsumerKey, Current, Held, MemberState, Partitions, Subscriber};
use crate::classic::Ctx;
use crate::event::{Beat, BeatReply, Refused, Token};
use crate::{Error, TEXT_BYTES_MAX};

/// The epoch of a member that comes.
pub(crate) const JOINING: i32 = 0;
/// The epoch of a member that goes.
pub(crate) const LEAVING: i32 = -1;

impl Beat<'_> {
    /// Rules that need no group to be checked.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        let invalid = |why| Err((Error::InvalidRequest, why));
        let texts = [Some(self.group), Some(self.member), Some(self.client_id), Some(self.host)];
        let texts = texts.into_iter().chain([self.instance, self.rack, self.regex, self.assignor]).flatten();
        if texts.chain(self.names.iter().flatten().copied()).any(|text| text.len() > TEXT_BYTES_MAX) {
            return invalid("a text is longer than 32767 bytes");
        }
        if self.group.is_empty() {
            return invalid("GroupId can't be empty.");
        }
        if self.member.is_empty() {
            return invalid("MemberId can't be empty.");
        }
        if self.instance == Some("") {
            return invalid("InstanceId can't be empty.");
        }
        if self.rack == Some("") {
            return invalid("RackId can't be empty.");
        }
        match self.epoch {
            JOINING if self.rebalance_timeout_ms < 0 => {
                return invalid("RebalanceTimeoutMs must be provided in first request.");
            }
            JOINING if self.owned.as_ref().is_none_or(|owned| !owned.is_empty()) => {
                return invalid("TopicPartitions must be empty when (re-)joining.");
            }
            JOINING if self.names.is_none() && self.regex.is_none() => {
                return invalid(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
                );
            }
            ..AWAY => return invalid("MemberEpoch is invalid."),
            _ => {}
        }
        if self.assignor.is_some_and(|name| Assignor::of(name).is_none()) {
            return Err((Error::UnsupportedAssignor, "the assignors of this broker are uniform and range"));
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.epoch == JOINING
            || (self.rebalance_timeout_ms >= 0
                && (self.names.is_some() || self.regex.is_some())
                && self.owned.is_some())
    }
}

impl Consumer {
    /// A member comes, is heard, or goes. The group exists and is served, and the request has been checked.
    ///
    /// # Errors
    /// By which the request is to be answered; otherwise it is answered, or waits until it can be.
    pub(crate) fn beat(&mut self, token: Token, beat: &Beat<'_>, ctx: &mut Ctx<'_>) -> Result<(), Refused> {
        if beat.epoch < JOINING {
            return self.leave(token, beat, ctx);
        }
        let joins = beat.epoch == JOINING;
        let is_new = if joins { self.check_joining(beat, ctx)? } else { self.check_member(beat).map(|()| false)? };
        if beat.regex.is_some_and(|text| !self.expressions.add(text)) {
            return Err((
                Error::InvalidRegularExpression,
                "SubscribedTopicRegex is no regular expression in RE2's syntax",
            ));
        }
        let id: Arc<str> = beat.member.into();
        let mut changed = self.take_in(&id, is_new, beat, ctx);
        changed |= self.look_at_topics(ctx);
        if changed {
            self.begin_epoch();
        }
        let before = self.members.get(&id).map(|member| member.current.assigned.clone()).unwrap_or_default();
        self.make_target(ctx);
        self.reconcile(&id, beat.owned.as_ref(), ctx);
        self.heard(&id, ctx);
        self.write(ctx);
        let Some(member) = self.members.get(&id) else { return Err((Error::UnknownMemberId, "")) };
        let tell = beat.is_full() || !alike(&before, &member.current.assigned);
        let reply = BeatReply {
            member: id.clone(),
            epoch: member.current.epoch,
            interval_ms: ctx.config.consumer_heartbeat_interval_ms,
            assignment: tell.then(|| partitions(&member.current.assigned)),
        };
        self.answer(token, reply, ctx);
        Ok(())
    }

    /// Whether a member may come, and whether it is a new one.
    fn check_joining(&self, beat: &Beat<'_>, ctx: &Ctx<'_>) -> Result<bool, Refused> {
        let known = self.members.get(beat.member);
        if let Some(instance) = beat.instance {
            let holder = self.instances.get(instance).and_then(|id| self.members.get(id));
            match (holder, known) {
                (Some(holder), _) if *holder.id == *beat.member => return Ok(false),
                (Some(holder), _) if holder.current.epoch != AWAY => {
                    return Err((Error::UnreleasedInstanceId, "another member has this instance id and has not left"));
                }
                (_, Some(_)) => {
                    return Err((Error::FencedInstanceId, "the member is known under another instance id"));
                }
                // It takes the place of one that is away.
                (Some(_), None) => return Ok(true),
                (None, None) => {}
            }
        } else if known.is_some() {
            // Its first answer was lost, or it begins anew: what it held, it holds no more.
            return Ok(false);
        }
        if self.members.len() >= ctx.config.consumer_members_max {
            return Err((
                Error::GroupMaxSizeReached,
                "the group has as many members as group.consumer.max.size allows",
            ));
        }
        if *ctx.member_bytes >= ctx.config.state_bytes_max {
            return Err((Error::PolicyViolation, "the broker's memory for groups is used up"));
        }
        Ok(true)
    }

    /// Whether a member that is there bears an epoch that it may have.
    fn check_member(&self, beat: &Beat<'_>) -> Result<(), Refused> {
        self.check_instance(beat.member, beat.instance)?;
        let unknown = (Error::UnknownMemberId, "the group has no such member: it is to join again");
        let current = &self.members.get(beat.member).ok_or(unknown)?.current;
        if beat.epoch == current.epoch {
            return Ok(());
        }
        // The answer that bore the newer epoch was lost; it must not hold what it does not know to have been taken.
        let was_lost = beat.epoch == current.previous_epoch
            && beat.owned.as_ref().is_some_and(|owned| is_within(owned, &current.assigned));
        if was_lost {
            Ok(())
        } else {
            Err((Error::FencedMemberEpoch, "the member's epoch is not the group's: it is to join again with epoch 0"))
        }
    }

    /// Whether a static member has not been replaced.
    pub(super) fn check_instance(&self, member: &str, instance: Option<&str>) -> Result<(), Refused> {
        let Some(instance) = instance else { return Ok(()) };
        match self.instances.get(instance) {
            None => Err((Error::UnknownMemberId, "the group has no member with this instance id")),
            Some(id) if **id != *member => Err((Error::FencedInstanceId, "another member has this instance id")),
            Some(_) => Ok(()),
        }
    }

    /// Takes what the member says of itself; whether that means another epoch.
    fn take_in(&mut self, id: &Arc<str>, is_new: bool, beat: &Beat<'_>, ctx: &mut Ctx<'_>) -> bool {
        if is_new {
            let away = beat.instance.and_then(|instance| self.instances.get(instance)).cloned();
            let subscriber = described(None, beat);
            if let Some(away) = away {
                return self.replace(&away, id, subscriber, ctx);
            }
            self.add(Member::new(id.clone(), Arc::new(subscriber)), ctx);
            self.unwritten.insert(ConsumerKey::Member(id.clone()));
            return true;
        }
        let Some(member) = self.members.get(id) else { return false };
        if member.current.epoch == AWAY {
            let current = returned(&member.current);
            self.set_current(id, current);
        }
        let Some(member) = self.members.get(id) else { return false };
        let before = member.subscriber.clone();
        let now = described(Some(&before), beat);
        if now == *before {
            return false;
        }
        let changed = differs(&before, &now);
        self.describe_anew(id, now, ctx);
        if changed {
            self.seen = None;
        }
        changed
    }

    /// A static member is back under a new id: it takes over target and partitions of the old one.
    fn replace(&mut self, old: &Arc<str>, new: &Arc<str>, subscriber: Subscriber, ctx: &mut Ctx<'_>) -> bool {
        let Some(before) = self.remove(old, ctx) else { return false };
        let changed = differs(&before.subscriber, &subscriber);
        let target = self.targets.remove(old);
        for id in [old, new] {
            self.unwritten.extend([
                ConsumerKey::Member(id.clone()),
                ConsumerKey::Target(id.clone()),
                ConsumerKey::Current(id.clone()),
            ]);
        }
        self.targets.extend(target.map(|target| (new.clone(), target)));
        let mut member = Member::new(new.clone(), Arc::new(subscriber));
        member.current = Arc::new(returned(&before.current));
        self.add(member, ctx);
        changed
    }
}

/// Where a static member stands that comes back.
fn returned(before: &Current) -> Current {
    Current {
        epoch: JOINING,
        previous_epoch: JOINING,
        state: MemberState::Stable,
        assigned: before.assigned.clone(),
        revoking: Held::new(),
    }
}

/// Whether another assignment may be due.
fn differs(before: &Subscriber, now: &Subscriber) -> bool {
    before.names != now.names || before.regex != now.regex || before.assignor != now.assignor
}

/// What the member says of itself now; what it leaves out stays, unless it joins.
fn described(before: Option<&Subscriber>, beat: &Beat<'_>) -> Subscriber {
    let kept = before.filter(|_| beat.epoch != JOINING);
    let text = |given: Option<&str>, kept: Option<&Option<Arc<str>>>| match given {
        Some(text) => Some(text).filter(|text| !text.is_empty()).map(Into::into),
        None => kept.cloned().flatten(),
    };
    let names = beat.names.as_ref().map(|names| names.iter().map(|name| (*name).into()).collect());
    Subscriber {
        instance: text(beat.instance, before.map(|before| &before.instance)),
        rack: text(beat.rack, kept.map(|kept| &kept.rack)),
        client_id: beat.client_id.into(),
        host: beat.host.into(),
        names: names.or_else(|| kept.map(|kept| kept.names.clone())).unwrap_or_default(),
        regex: text(beat.regex, kept.map(|kept| &kept.regex)),
        rebalance_timeout_ms: match beat.rebalance_timeout_ms {
            ..0 => kept.map_or(0, |kept| kept.rebalance_timeout_ms),
            given => given,
        },
        assignor: text(beat.assignor, kept.map(|kept| &kept.assignor)),
    }
}

/// Whether both hold the same partitions, since whenever.
fn alike(one: &Held, other: &Held) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|((topic, indices), (other_topic, others))| topic == other_topic && indices.keys().eq(others.keys()))
}

/// Whether all of `owned` is held.
fn is_within(owned: &Partitions, held: &Held) -> bool {
    owned.iter().all(|(topic, indices)| {
        let held = held.get(topic);
        indices.iter().all(|index| held.is_some_and(|held| held.contains_key(index)))
    })
}

/// The partitions alone.
pub(super) fn partitions(held: &Held) -> Partitions {
    held.iter().map(|(topic, indices)| (*topic, indices.keys().copied().collect())).collect::<BTreeMap<_, _>>()
}
