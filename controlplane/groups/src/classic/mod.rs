//! Membership by the classic protocol: members join, one of them assigns, all sync; any change begins anew.
//!
//! A generation is chosen when all known members have joined, or the rebalance timeout has passed; JoinGroup requests wait
//! for that. SyncGroup requests wait until the leader's assignment is durable. Nothing here touches offsets.

mod join;
mod member;
mod rebalance;
mod sync;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::Image;
use base::{Now, WallMs};

pub(crate) use member::ClassicMember;

use crate::event::{DescribedMember, Effect, Member, Reply, Token};
use crate::log::{Log, Then};
use crate::timers::{Timer, TimerId, Timers};
use crate::{Config, Error, GroupValue, MemberValue, Record, subscription};

/// Where a group stands. Kafka's "Dead" is [`State::Deleting`] and, for others, a group that is not there.
#[derive(Debug)]
pub(crate) enum State {
    /// No members.
    Empty,
    /// Members are to join.
    Preparing {
        /// When the wait ends.
        timer: TimerId,
        /// Set while an empty group gathers its first members.
        gathering: Option<Gathering>,
    },
    /// All have joined; the leader's assignment is awaited.
    Completing {
        /// The assignment has come and is on its way to the log.
        storing: bool,
        /// When members that have not synced are put out.
        timer: TimerId,
    },
    /// Members have their assignments.
    Stable {
        /// When members that have not synced are put out; none once all have.
        timer: Option<TimerId>,
    },
    /// Its tombstones are on their way to the log.
    Deleting,
}

/// The first rebalance of an empty group waits a little for more members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathering {
    /// What is left of the rebalance timeout after the present wait.
    remaining_ms: u64,
    /// Somebody came during the present wait.
    grew: bool,
}

/// The members of one group.
#[derive(Debug)]
pub(crate) struct Classic {
    state: State,
    /// When the state was entered.
    since: WallMs,
    generation: i32,
    /// None for a group that only ever held offsets.
    protocol_type: Option<Arc<str>>,
    protocol: Option<Arc<str>>,
    leader: Option<Arc<str>>,
    members: BTreeMap<Arc<str>, ClassicMember>,
    /// Static members: instance → member id.
    instances: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids handed out with MEMBER_ID_REQUIRED and not used yet.
    pending_ids: BTreeMap<Arc<str>, TimerId>,
    /// How many members support a protocol.
    supported: BTreeMap<Arc<str>, usize>,
    /// How many members wait for JoinGroup.
    joining: usize,
    /// Topics that the members of this generation subscribe to, for protocol type `consumer`.
    subscribed: Option<BTreeSet<Arc<str>>>,
    /// Counts members, so that the longest there can be told.
    arrivals: u64,
}

/// What a group needs of the coordinator while it handles one event.
pub(crate) struct Ctx<'a> {
    pub(crate) now: Now,
    pub(crate) config: &'a Config,
    pub(crate) timers: &'a mut Timers,
    pub(crate) log: &'a mut Log,
    pub(crate) out: &'a mut Vec<Effect>,
    /// Estimated bytes of all members.
    pub(crate) member_bytes: &'a mut usize,
    /// The group.
    pub(crate) group: Arc<str>,
    /// Topics and their partitions.
    pub(crate) image: &'a Image,
}

impl Ctx<'_> {
    pub(crate) fn reply(&mut self, token: Token, reply: Reply) {
        self.out.push(Effect::Reply(token, reply));
    }

    pub(crate) fn append(&mut self, records: Vec<Record>, then: Then) {
        self.log.append(records, then, self.out);
    }

    fn set_timer(&mut self, after_ms: u64, timer: Timer) -> TimerId {
        self.timers.set(self.now.mono.plus_ms(after_ms), timer)
    }

    fn refuse_join(&mut self, token: Token, error: Error, member: &str) {
        self.reply(token, Reply::Join(Err((error, member.into()))));
    }
}

impl Classic {
    pub(crate) fn new(since: WallMs) -> Self {
        Self {
            state: State::Empty,
            since,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending_ids: BTreeMap::new(),
            supported: BTreeMap::new(),
            joining: 0,
            subscribed: None,
            arrivals: 0,
        }
    }

    /// As of a stored generation: its members have one session timeout to be heard.
    pub(crate) fn restore(value: &GroupValue, ctx: &mut Ctx<'_>) -> Self {
        let mut classic = Self::new(value.since);
        classic.generation = value.generation;
        classic.protocol_type = Some(value.protocol_type.clone()).filter(|name| !name.is_empty());
        if value.members.is_empty() {
            return classic;
        }
        classic.protocol = value.protocol.clone();
        for stored in &value.members {
            let protocol = value.protocol.clone().unwrap_or_else(|| "".into());
            classic.add(ClassicMember::restored(stored, protocol), ctx);
            classic.heard(&stored.id, ctx);
        }
        classic.leader = value.leader.clone().filter(|leader| classic.members.contains_key(leader));
        classic.leader = classic.leader.take().or_else(|| classic.members.keys().next().cloned());
        classic.state = State::Stable { timer: None };
        classic.subscribed = classic.subscriptions();
        classic
    }

    /// The generation as it is to be stored, with `assignment` deciding what each member gets.
    fn value(&self, assignment: impl Fn(&ClassicMember) -> Arc<[u8]>) -> Arc<GroupValue> {
        let members = self.members.values().map(|member| MemberValue {
            id: member.id.clone(),
            instance: member.instance.clone(),
            client_id: member.client_id.clone(),
            host: member.host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata_of(self.protocol.as_deref()),
            assignment: assignment(member),
        });
        Arc::new(GroupValue {
            protocol_type: self.protocol_type.clone().unwrap_or_else(|| "".into()),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            since: self.since,
            members: members.collect(),
        })
    }

    fn enter(&mut self, state: State, ctx: &mut Ctx<'_>) {
        let timer = match &self.state {
            State::Preparing { timer, .. } | State::Completing { timer, .. } => Some(*timer),
            State::Stable { timer } => *timer,
            State::Empty | State::Deleting => None,
        };
        let kept = match &state {
            State::Completing { timer, .. } => Some(*timer),
            State::Stable { timer } => *timer,
            State::Empty | State::Preparing { .. } | State::Deleting => None,
        };
        if let Some(timer) = timer.filter(|timer| Some(*timer) != kept) {
            ctx.timers.cancel(timer);
        }
        self.state = state;
        self.since = ctx.now.wall;
    }

    /// Whether there is neither a member nor an id that may become one.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state, State::Empty) && self.members.is_empty() && self.pending_ids.is_empty()
    }

    pub(crate) fn is_empty_state(&self) -> bool {
        matches!(self.state, State::Empty)
    }

    pub(crate) fn is_deleting(&self) -> bool {
        matches!(self.state, State::Deleting)
    }

    /// Marks the group so that nobody joins or commits while its tombstones are on their way, or takes that back.
    pub(crate) fn set_deleting(&mut self, deleting: bool, ctx: &mut Ctx<'_>) {
        for (_, timer) in core::mem::take(&mut self.pending_ids) {
            ctx.timers.cancel(timer);
        }
        let since = self.since;
        self.enter(if deleting { State::Deleting } else { State::Empty }, ctx);
        self.since = since;
    }

    /// Kafka's name of the state.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.state {
            State::Empty => "Empty",
            State::Preparing { .. } => "PreparingRebalance",
            State::Completing { .. } => "CompletingRebalance",
            State::Stable { .. } => "Stable",
            State::Deleting => "Dead",
        }
    }

    pub(crate) fn since(&self) -> WallMs {
        self.since
    }

    pub(crate) fn protocol_type(&self) -> Option<&Arc<str>> {
        self.protocol_type.as_ref()
    }

    /// The protocol chosen, once members have their assignments.
    pub(crate) fn stable_protocol(&self) -> Option<&Arc<str>> {
        self.protocol.as_ref().filter(|_| matches!(self.state, State::Stable { .. }))
    }

    /// Topics of the members' subscriptions; none when they are not known.
    pub(crate) fn subscribed(&self) -> Option<&BTreeSet<Arc<str>>> {
        self.subscribed.as_ref()
    }

    /// Topics of the members' subscriptions, once members have their assignments.
    pub(crate) fn stable_subscriptions(&self) -> Option<&BTreeSet<Arc<str>>> {
        self.subscribed().filter(|_| matches!(self.state, State::Stable { .. }))
    }

    pub(crate) fn has_members(&self) -> bool {
        !self.members.is_empty()
    }

    pub(crate) fn describe_members(&self) -> Vec<DescribedMember> {
        let stable = matches!(self.state, State::Stable { .. });
        let described = self.members.values().map(|member| DescribedMember {
            id: member.id.clone(),
            instance: member.instance.clone(),
            client_id: member.client_id.clone(),
            host: member.host.clone(),
            metadata: if stable { member.metadata_of(self.protocol.as_deref()) } else { Arc::default() },
            assignment: if stable { member.assignment.clone() } else { Arc::default() },
        });
        described.collect()
    }

    /// Whether `who` is a member under that id and, if static, has not been replaced.
    fn check_member(&self, id: &str, instance: Option<&str>) -> Result<(), Error> {
        if let Some(instance) = instance {
            match self.instances.get(instance) {
                None => return Err(Error::UnknownMemberId),
                Some(current) if &**current != id => return Err(Error::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) { Ok(()) } else { Err(Error::UnknownMemberId) }
    }

    /// Whether a commit of `who` is taken, and its member thereby heard.
    pub(crate) fn check_commit(&mut self, who: &Member<'_>, ctx: &mut Ctx<'_>) -> Result<(), Error> {
        match self.state {
            State::Deleting => return Err(Error::CoordinatorNotAvailable),
            State::Empty if who.generation < 0 => return Ok(()),
            State::Empty | State::Preparing { .. } | State::Completing { .. } | State::Stable { .. } => {}
        }
        if who.generation < 0 && who.id.is_empty() && who.instance.is_none() {
            // A commit without membership would undo what the members commit.
            return Err(Error::UnknownMemberId);
        }
        self.check_member(who.id, who.instance)?;
        if who.generation != self.generation {
            return Err(Error::IllegalGeneration);
        }
        if matches!(self.state, State::Completing { .. }) {
            // The member knows the new generation but not yet what it may commit in it.
            return Err(Error::RebalanceInProgress);
        }
        // While members are being gathered a commit is still good: this is when those who revoke partitions commit.
        self.heard(who.id, ctx);
        Ok(())
    }

    fn subscriptions(&self) -> Option<BTreeSet<Arc<str>>> {
        if self.protocol_type.as_deref() != Some("consumer") {
            return None;
        }
        let protocol = self.protocol.as_deref();
        let mut all = BTreeSet::new();
        for member in self.members.values() {
            all.append(&mut subscription::topics(&member.metadata_of(protocol))?);
        }
        Some(all)
    }

    /// Answers everybody who waits and forgets all timers: the slot is no longer served here.
    pub(crate) fn abandon(&mut self, error: Error, ctx: &mut Ctx<'_>) {
        let ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for id in ids {
            self.remove(&id, error, ctx);
        }
        for (_, timer) in core::mem::take(&mut self.pending_ids) {
            ctx.timers.cancel(timer);
        }
        self.enter(State::Empty, ctx);
    }
}
