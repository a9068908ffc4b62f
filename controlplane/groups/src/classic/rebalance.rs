//! From one generation to the next.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Classic, Ctx, Gathering, State};
use crate::event::Reply;
use crate::log::Then;
use crate::timers::Timer;
use crate::{Error, Record};

/// A group that waits anew waits at least so long, whatever its members ask for.
const WAIT_AGAIN_MS_MIN: u64 = 1000;

impl Classic {
    /// Something about the members has changed: begins a rebalance, or completes the one that runs.
    pub(super) fn rebalance(&mut self, ctx: &mut Ctx<'_>) {
        match self.state {
            State::Preparing { .. } => {}
            State::Empty => self.gather(ctx),
            State::Completing { .. } => {
                self.refuse_syncs(Error::RebalanceInProgress, ctx);
                self.prepare(ctx, 0);
            }
            State::Stable { .. } => self.prepare(ctx, 0),
            State::Deleting => return,
        }
        self.complete_join_if_all_came(ctx);
    }

    fn gather(&mut self, ctx: &mut Ctx<'_>) {
        let timeout = self.rebalance_timeout_ms();
        let delay = u64::from(ctx.config.initial_rebalance_delay_ms);
        let timer = Timer::Join { group: ctx.group.clone() };
        let timer = ctx.set_timer(delay.min(timeout), timer);
        let gathering = (delay > 0).then_some(Gathering { remaining_ms: timeout.saturating_sub(delay), grew: false });
        self.enter(State::Preparing { timer, gathering }, ctx);
    }

    fn prepare(&mut self, ctx: &mut Ctx<'_>, wait_ms_min: u64) {
        for member in self.members.values_mut() {
            member.must_sync = false;
        }
        let timeout = self.rebalance_timeout_ms().max(wait_ms_min);
        let timer = Timer::Join { group: ctx.group.clone() };
        let timer = ctx.set_timer(timeout, timer);
        self.enter(State::Preparing { timer, gathering: None }, ctx);
    }

    /// The longest that any member asks for.
    fn rebalance_timeout_ms(&self) -> u64 {
        let longest = self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0);
        u64::from(longest.max(0).unsigned_abs())
    }

    pub(super) fn complete_join_if_all_came(&mut self, ctx: &mut Ctx<'_>) {
        let all = self.joining == self.members.len() && self.pending_ids.is_empty();
        if all && matches!(self.state, State::Preparing { gathering: None, .. }) {
            self.complete_join(ctx);
        }
    }

    /// The wait for members is over.
    pub(crate) fn join_over(&mut self, ctx: &mut Ctx<'_>) {
        let State::Preparing { gathering, .. } = &self.state else { return };
        match *gathering {
            Some(Gathering { remaining_ms, grew: true }) if remaining_ms > 0 => {
                let delay = u64::from(ctx.config.initial_rebalance_delay_ms).min(remaining_ms);
                let timer = Timer::Join { group: ctx.group.clone() };
                let timer = ctx.set_timer(delay, timer);
                let gathering = Some(Gathering { remaining_ms: remaining_ms - delay, grew: false });
                self.state = State::Preparing { timer, gathering };
            }
            Some(_) | None => self.complete_join(ctx),
        }
    }

    /// Begins the next generation with those who have joined. Static members may be away; the others are put out.
    fn complete_join(&mut self, ctx: &mut Ctx<'_>) {
        let away = self.members.values().filter(|member| member.joining.is_none() && member.instance.is_none());
        for id in away.map(|member| member.id.clone()).collect::<Vec<_>>() {
            self.remove(&id, Error::UnknownMemberId, ctx);
        }
        if !self.members.is_empty() && !self.elect() {
            // Only static members, none of them here: wait on, they end by their session timeouts.
            return self.prepare(ctx, WAIT_AGAIN_MS_MIN);
        }
        // A generation number is never used twice in a row; 1 follows the last that fits.
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        if self.members.is_empty() {
            self.protocol = None;
            self.subscribed = None;
            self.enter(State::Empty, ctx);
            let (group, value) = (ctx.group.clone(), self.value(|_| Arc::default()));
            return ctx.append(alloc::vec![Record::Group { group, value: Some(value) }], Then::Nothing);
        }
        self.protocol = self.select_protocol();
        self.subscribed = self.subscriptions();
        let timer = Timer::Sync { group: ctx.group.clone() };
        let timer = ctx.set_timer(self.rebalance_timeout_ms(), timer);
        self.enter(State::Completing { storing: false, timer }, ctx);
        self.answer_joins(ctx);
    }

    fn answer_joins(&mut self, ctx: &mut Ctx<'_>) {
        let mut all = Some(self.joined());
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            let leads = self.leader.as_ref() == Some(&id);
            let reply = self.join_reply(&id, if leads { all.take().unwrap_or_default() } else { Vec::new() });
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.must_sync = true;
            *ctx.member_bytes = ctx.member_bytes.saturating_sub(member.assignment.len());
            member.assignment = Arc::default();
            if let Some(token) = member.joining.take() {
                member.is_new = false;
                ctx.reply(token, Reply::Join(Ok(reply)));
                self.heard(&id, ctx);
            }
        }
        self.joining = 0;
    }

    /// Sees to it that the leader is one who has joined; false when nobody has.
    fn elect(&mut self) -> bool {
        let joined = |id: &Arc<str>| self.members.get(id).is_some_and(|member| member.joining.is_some());
        if self.leader.as_ref().is_some_and(joined) {
            return true;
        }
        let here = self.members.values().filter(|member| member.joining.is_some());
        match here.min_by_key(|member| member.arrival) {
            Some(member) => {
                self.leader = Some(member.id.clone());
                true
            }
            None => false,
        }
    }

    /// The protocol that most members prefer of those that all support; the leader's preference decides a tie.
    pub(super) fn select_protocol(&self) -> Option<Arc<str>> {
        let everyone = self.members.len();
        let by_all = |name: &Arc<str>| self.supported.get(name) == Some(&everyone);
        let mut votes: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some(choice) = member.protocols.iter().map(|protocol| &protocol.name).find(|name| by_all(name)) {
                *votes.entry(choice).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        let leader = self.leader.as_ref().and_then(|leader| self.members.get(leader));
        let mut preferred =
            leader.into_iter().flat_map(|leader| leader.protocols.iter().map(|protocol| &protocol.name));
        let preferred = preferred.find(|name| votes.get(name) == Some(&most)).cloned();
        preferred.or_else(|| votes.iter().find(|(_, count)| **count == most).map(|(name, _)| (*name).clone()))
    }

    /// Puts a member out and goes on without it.
    pub(super) fn put_out(&mut self, id: &str, ctx: &mut Ctx<'_>) {
        self.remove(id, Error::UnknownMemberId, ctx);
        match self.state {
            State::Preparing { .. } => self.complete_join_if_all_came(ctx),
            State::Completing { .. } | State::Stable { .. } => self.rebalance(ctx),
            State::Empty | State::Deleting => {}
        }
    }
}
