//! One member, and how members come, are heard, and go.

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::Mono;

use super::{Classic, Ctx};
use crate::config::NEW_MEMBER_JOIN_TIMEOUT_MS;
use crate::event::{Join, Reply, Token};
use crate::timers::{Timer, TimerId};
use crate::{Error, MemberValue};

/// A protocol that a member supports, and its metadata for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    pub(crate) name: Arc<str>,
    pub(crate) metadata: Arc<[u8]>,
}

/// A member of the classic protocol.
#[derive(Debug)]
pub(crate) struct ClassicMember {
    pub(crate) id: Arc<str>,
    pub(crate) instance: Option<Arc<str>>,
    pub(crate) client_id: Arc<str>,
    pub(crate) host: Arc<str>,
    pub(crate) session_timeout_ms: i32,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) assignment: Arc<[u8]>,
    /// Its JoinGroup waits.
    pub(super) joining: Option<Token>,
    /// Its SyncGroup waits.
    pub(super) syncing: Option<Token>,
    /// Has not been answered its first JoinGroup.
    pub(super) is_new: bool,
    /// Has been told a generation and has not asked for its assignment.
    pub(super) must_sync: bool,
    /// Order of arrival in the group.
    pub(super) arrival: u64,
    /// When it counts as gone, if it is not heard before.
    alive_until: Mono,
    /// Set at or before `alive_until`, so that a heartbeat moves a number and not a timer.
    timer: Option<TimerId>,
}

/// Fixed bytes of a member in memory.
const MEMBER_BYTES: usize = 400;

impl ClassicMember {
    pub(super) fn new(id: Arc<str>, join: &Join<'_>) -> Self {
        Self {
            id,
            instance: join.instance.map(Into::into),
            client_id: join.client_id.into(),
            host: join.host.into(),
            session_timeout_ms: join.session_timeout_ms,
            rebalance_timeout_ms: join.rebalance_timeout_ms.max(0),
            protocols: protocols(join),
            assignment: Arc::default(),
            joining: None,
            syncing: None,
            is_new: true,
            must_sync: false,
            arrival: 0,
            alive_until: Mono(0),
            timer: None,
        }
    }

    pub(super) fn restored(value: &MemberValue, protocol: Arc<str>) -> Self {
        Self {
            id: value.id.clone(),
            instance: value.instance.clone(),
            client_id: value.client_id.clone(),
            host: value.host.clone(),
            session_timeout_ms: value.session_timeout_ms,
            rebalance_timeout_ms: value.rebalance_timeout_ms.max(0),
            protocols: alloc::vec![Protocol { name: protocol, metadata: value.subscription.clone() }],
            assignment: value.assignment.clone(),
            joining: None,
            syncing: None,
            is_new: false,
            must_sync: false,
            arrival: 0,
            alive_until: Mono(0),
            timer: None,
        }
    }

    /// Its metadata for the protocol; empty when there is none.
    pub(super) fn metadata_of(&self, protocol: Option<&str>) -> Arc<[u8]> {
        let found = self.protocols.iter().find(|own| Some(&*own.name) == protocol);
        found.map(|own| own.metadata.clone()).unwrap_or_default()
    }

    /// Whether the protocols are the same, in the same order, with the same metadata.
    pub(super) fn matches(&self, join: &Join<'_>) -> bool {
        self.protocols.len() == join.protocols.len()
            && self
                .protocols
                .iter()
                .zip(&join.protocols)
                .all(|(own, (name, metadata))| &*own.name == *name && &*own.metadata == *metadata)
    }

    pub(super) fn bytes(&self) -> usize {
        let protocols: usize = self.protocols.iter().map(|own| 64 + own.name.len() + own.metadata.len()).sum();
        MEMBER_BYTES + 2 * self.id.len() + self.client_id.len() + self.host.len() + protocols + self.assignment.len()
    }

    fn silence_ms(&self) -> u64 {
        if self.is_new { NEW_MEMBER_JOIN_TIMEOUT_MS } else { u64::from(self.session_timeout_ms.max(1).unsigned_abs()) }
    }
}

/// The protocols of a request.
pub(super) fn protocols(join: &Join<'_>) -> Vec<Protocol> {
    let all = join.protocols.iter();
    all.map(|(name, metadata)| Protocol { name: (*name).into(), metadata: (*metadata).into() }).collect()
}

impl Classic {
    /// Takes a member in. The first to come leads.
    pub(super) fn add(&mut self, mut member: ClassicMember, ctx: &mut Ctx<'_>) {
        self.arrivals += 1;
        member.arrival = self.arrivals;
        self.joining += usize::from(member.joining.is_some());
        self.count_protocols(&member.protocols, true);
        *ctx.member_bytes += member.bytes();
        if let Some(instance) = &member.instance {
            self.instances.insert(instance.clone(), member.id.clone());
        }
        self.leader.get_or_insert_with(|| member.id.clone());
        self.members.insert(member.id.clone(), member);
    }

    /// Puts a member out: whoever waits is answered with `error`, timers go, and the next oldest member leads.
    pub(super) fn remove(&mut self, id: &str, error: Error, ctx: &mut Ctx<'_>) {
        let Some(member) = self.members.remove(id) else { return };
        self.count_protocols(&member.protocols, false);
        *ctx.member_bytes = ctx.member_bytes.saturating_sub(member.bytes());
        if let Some(timer) = member.timer {
            ctx.timers.cancel(timer);
        }
        if let Some(token) = member.joining {
            self.joining -= 1;
            ctx.refuse_join(token, error, id);
        }
        if let Some(token) = member.syncing {
            ctx.reply(token, Reply::Sync(Err(error)));
        }
        if let Some(instance) = member.instance.filter(|instance| self.instances.get(instance) == Some(&member.id)) {
            self.instances.remove(&instance);
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.values().min_by_key(|member| member.arrival).map(|member| member.id.clone());
        }
    }

    /// Changes a member, keeping the counts that depend on it.
    pub(super) fn update(&mut self, id: &str, ctx: &mut Ctx<'_>, change: impl FnOnce(&mut ClassicMember)) {
        let Some(mut member) = self.members.remove(id) else { return };
        self.count_protocols(&member.protocols, false);
        self.joining -= usize::from(member.joining.is_some());
        *ctx.member_bytes = ctx.member_bytes.saturating_sub(member.bytes());
        change(&mut member);
        *ctx.member_bytes += member.bytes();
        self.joining += usize::from(member.joining.is_some());
        self.count_protocols(&member.protocols, true);
        self.members.insert(member.id.clone(), member);
    }

    fn count_protocols(&mut self, protocols: &[Protocol], more: bool) {
        for (place, protocol) in protocols.iter().enumerate() {
            if protocols.iter().take(place).any(|before| before.name == protocol.name) {
                continue;
            }
            let count = self.supported.entry(protocol.name.clone()).or_default();
            *count = if more { *count + 1 } else { *count - 1 };
            if *count == 0 {
                self.supported.remove(&protocol.name);
            }
        }
    }

    /// The member was heard: it has its session timeout again from now.
    pub(super) fn heard(&mut self, id: &str, ctx: &mut Ctx<'_>) {
        let Some(member) = self.members.get_mut(id) else { return };
        let until = ctx.now.mono.plus_ms(member.silence_ms());
        let sooner = until < member.alive_until;
        member.alive_until = until;
        if let Some(timer) = member.timer.filter(|_| sooner) {
            ctx.timers.cancel(timer);
            member.timer = None;
        }
        if member.timer.is_none() {
            let timer = Timer::Session { group: ctx.group.clone(), member: member.id.clone() };
            member.timer = Some(ctx.timers.set(until, timer));
        }
    }

    /// The member's timer has gone off. One that waits for an answer is alive; a new one at most so long.
    pub(crate) fn session_over(&mut self, id: &str, ctx: &mut Ctx<'_>) {
        let now = ctx.now.mono;
        let Some(member) = self.members.get_mut(id) else { return };
        member.timer = None;
        let waits = !member.is_new && (member.joining.is_some() || member.syncing.is_some());
        if now < member.alive_until {
            let timer = Timer::Session { group: ctx.group.clone(), member: member.id.clone() };
            member.timer = Some(ctx.timers.set(member.alive_until, timer));
        } else if waits {
            self.heard(id, ctx);
        } else {
            self.put_out(id, ctx);
        }
    }

    /// An id that was handed out has not been used in time.
    pub(crate) fn id_over(&mut self, id: &str, ctx: &mut Ctx<'_>) {
        if self.pending_ids.remove(id).is_some() {
            self.complete_join_if_all_came(ctx);
        }
    }

    /// Whether one more member finds room.
    pub(super) fn is_full(&self, ctx: &Ctx<'_>) -> bool {
        self.members.len() + self.pending_ids.len() >= ctx.config.members_max
    }

    /// Moves a static member to a new id. Whoever waits under the old one is fenced.
    pub(super) fn replace(&mut self, old: &str, new: &Arc<str>, ctx: &mut Ctx<'_>) {
        let Some(mut member) = self.members.remove(old) else { return };
        if let Some(token) = member.joining.take() {
            self.joining -= 1;
            ctx.refuse_join(token, Error::FencedInstanceId, old);
        }
        if let Some(token) = member.syncing.take() {
            ctx.reply(token, Reply::Sync(Err(Error::FencedInstanceId)));
        }
        if let Some(timer) = member.timer.take() {
            ctx.timers.cancel(timer);
        }
        *ctx.member_bytes = ctx.member_bytes.saturating_sub(member.bytes());
        member.id = new.clone();
        *ctx.member_bytes += member.bytes();
        if self.leader.as_deref() == Some(old) {
            self.leader = Some(new.clone());
        }
        if let Some(instance) = &member.instance {
            self.instances.insert(instance.clone(), new.clone());
        }
        self.members.insert(new.clone(), member);
        self.heard(new, ctx);
    }
}
