//! JoinGroup.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::member::protocols;
use super::{Classic, ClassicMember, Ctx, State};
use crate::event::{Join, JoinReply, JoinedMember, Reply, Token};
use crate::log::Then;
use crate::timers::Timer;
use crate::{Error, Record};

impl Classic {
    /// A member joins, for the first time or again. The group exists and is served.
    pub(crate) fn join(&mut self, token: Token, join: &Join<'_>, ctx: &mut Ctx<'_>) {
        let outcome = if self.is_deleting() {
            Err(Error::CoordinatorNotAvailable)
        } else if !self.supports(join) {
            Err(Error::InconsistentGroupProtocol)
        } else if *ctx.member_bytes >= ctx.config.state_bytes_max && self.would_grow(join) {
            Err(Error::PolicyViolation)
        } else if !join.member.is_empty() {
            self.join_known(token, join, ctx)
        } else if let Some(old) = join.instance.and_then(|instance| self.instances.get(instance)).cloned() {
            self.come_back(token, &old, join, ctx);
            Ok(())
        } else {
            self.join_new(token, join, ctx)
        };
        if let Err(error) = outcome {
            ctx.refuse_join(token, error, join.member);
        }
    }

    /// Whether the request's protocol type is the group's and one of its protocols is supported by every member.
    fn supports(&self, join: &Join<'_>) -> bool {
        if self.members.is_empty() {
            return !join.protocol_type.is_empty() && !join.protocols.is_empty();
        }
        // The members' votes include the joiner's own former ones: it may come with others.
        let own = self.members.get(join.member);
        let others = self.members.len() - usize::from(own.is_some());
        let count = |name: &str| {
            let all = self.supported.get(name).copied().unwrap_or(0);
            all - usize::from(own.is_some_and(|own| own.protocols.iter().any(|protocol| &*protocol.name == name)))
        };
        self.protocol_type.as_deref() == Some(join.protocol_type)
            && join.protocols.iter().any(|(name, _)| count(name) == others)
    }

    /// Whether the join would take more memory than there is taken now for the member.
    fn would_grow(&self, join: &Join<'_>) -> bool {
        let size = |name: usize, metadata: usize| name + metadata;
        let wanted: usize = join.protocols.iter().map(|(name, metadata)| size(name.len(), metadata.len())).sum();
        let known = self
            .members
            .get(join.member)
            .map(|member| member.protocols.iter().map(|own| size(own.name.len(), own.metadata.len())).sum::<usize>());
        known.is_none_or(|known| wanted > known)
    }

    fn join_new(&mut self, token: Token, join: &Join<'_>, ctx: &mut Ctx<'_>) -> Result<(), Error> {
        if self.is_full(ctx) {
            return Err(Error::GroupMaxSizeReached);
        }
        let id: Arc<str> = member_id(join).into();
        if join.instance.is_none() && join.id_required {
            // KIP-394: a client that gives up before it is answered must not leave a member behind.
            let timer = Timer::PendingId { group: ctx.group.clone(), member: id.clone() };
            let timer = ctx.set_timer(u64::from(join.session_timeout_ms.max(0).unsigned_abs()), timer);
            self.pending_ids.insert(id.clone(), timer);
            ctx.refuse_join(token, Error::MemberIdRequired, &id);
            return Ok(());
        }
        self.add_and_rebalance(token, id, join, ctx);
        Ok(())
    }

    fn join_known(&mut self, token: Token, join: &Join<'_>, ctx: &mut Ctx<'_>) -> Result<(), Error> {
        if join.instance.is_none()
            && let Some((id, timer)) = self.pending_ids.remove_entry(join.member)
        {
            ctx.timers.cancel(timer);
            self.add_and_rebalance(token, id, join, ctx);
            return Ok(());
        }
        self.check_member(join.member, join.instance)?;
        let id: Arc<str> = join.member.into();
        let same = self.members.get(&id).is_some_and(|member| member.matches(join));
        let leads = self.leader.as_ref() == Some(&id);
        match self.state {
            // The answer to its last request was lost, or it only wants to know: nothing changes.
            State::Completing { .. } if same => self.tell_generation(token, &id, ctx),
            State::Stable { .. } if same && !leads => self.tell_generation(token, &id, ctx),
            State::Preparing { .. } | State::Completing { .. } | State::Stable { .. } => {
                self.rejoin(token, &id, join, ctx);
                self.rebalance(ctx);
            }
            State::Empty | State::Deleting => return Err(Error::UnknownMemberId),
        }
        Ok(())
    }

    fn tell_generation(&mut self, token: Token, id: &Arc<str>, ctx: &mut Ctx<'_>) {
        let all = matches!(self.state, State::Completing { .. }) && self.leader.as_ref() == Some(id);
        let reply = self.join_reply(id, if all { self.joined() } else { Vec::new() });
        ctx.reply(token, Reply::Join(Ok(reply)));
        self.heard(id, ctx);
    }

    /// A member there is joins with what it now supports; its request waits.
    fn rejoin(&mut self, token: Token, id: &Arc<str>, join: &Join<'_>, ctx: &mut Ctx<'_>) {
        let mut before = None;
        self.update(id, ctx, |member| {
            member.client_id = join.client_id.into();
            member.host = join.host.into();
            member.protocols = protocols(join);
            member.rebalance_timeout_ms = join.rebalance_timeout_ms.max(0);
            member.session_timeout_ms = join.session_timeout_ms;
            before = member.joining.replace(token);
        });
        if let Some(before) = before {
            // Its connection is most likely gone; the newer request stands for it.
            ctx.refuse_join(before, Error::RebalanceInProgress, id);
        }
        self.heard(id, ctx);
    }

    fn add_and_rebalance(&mut self, token: Token, id: Arc<str>, join: &Join<'_>, ctx: &mut Ctx<'_>) {
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type.into());
        }
        if let State::Preparing { gathering: Some(gathering), .. } = &mut self.state {
            gathering.grew = true;
        }
        let mut member = ClassicMember::new(id.clone(), join);
        member.joining = Some(token);
        self.add(member, ctx);
        self.heard(&id, ctx);
        self.rebalance(ctx);
    }

    /// A static member comes back without its id, after a restart: it gets a new one, and the old one is fenced.
    fn come_back(&mut self, token: Token, old: &Arc<str>, join: &Join<'_>, ctx: &mut Ctx<'_>) {
        let id: Arc<str> = member_id(join).into();
        let old_leader = self.leader.clone().unwrap_or_else(|| id.clone());
        self.replace(old, &id, ctx);
        match self.state {
            State::Stable { .. } => {
                self.update(&id, ctx, |member| {
                    member.client_id = join.client_id.into();
                    member.host = join.host.into();
                    member.protocols = protocols(join);
                    member.rebalance_timeout_ms = join.rebalance_timeout_ms.max(0);
                    member.session_timeout_ms = join.session_timeout_ms;
                });
                if self.select_protocol() == self.protocol {
                    // Nothing changes for the others: only the new id is stored.
                    self.subscribed = self.subscriptions();
                    let value = self.value(|member| member.assignment.clone());
                    let (generation, group) = (self.generation, ctx.group.clone());
                    let can_skip_assignment = join.can_skip_assignment;
                    let then = Then::Returned { token, member: id, generation, old_leader, can_skip_assignment };
                    ctx.append(alloc::vec![Record::Group { group, value: Some(value) }], then);
                } else {
                    self.rejoin(token, &id, join, ctx);
                    self.rebalance(ctx);
                }
            }
            // In Completing too: the leader may be assigning to the old id.
            State::Preparing { .. } | State::Completing { .. } | State::Empty | State::Deleting => {
                self.rejoin(token, &id, join, ctx);
                self.rebalance(ctx);
            }
        }
    }

    /// The new id of a static member is stored, or not (`error`).
    pub(crate) fn returned(&mut self, then: Then, error: Option<Error>, ctx: &mut Ctx<'_>) {
        let Then::Returned { token, member, generation, old_leader, can_skip_assignment } = then else { return };
        if let Some(error) = error {
            return ctx.refuse_join(token, error, "");
        }
        let current = matches!(self.state, State::Stable { .. }) && self.generation == generation;
        if !current || !self.members.contains_key(&member) {
            // A rebalance began meanwhile: the client comes again, without an id, and takes part.
            return ctx.refuse_join(token, Error::UnknownMemberId, "");
        }
        let leads = self.leader.as_ref() == Some(&member);
        let mut reply = self.join_reply(&member, Vec::new());
        if can_skip_assignment {
            // KIP-814: the leader learns the members but keeps the assignment.
            reply.skip_assignment = leads;
            reply.members = if leads { self.joined() } else { Vec::new() };
        } else {
            // An older client assigns when it is named as the leader: it is told of its former self.
            reply.leader = old_leader;
        }
        ctx.reply(token, Reply::Join(Ok(reply)));
        self.heard(&member, ctx);
    }

    /// All members as the leader sees them.
    pub(super) fn joined(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol.as_deref();
        let all = self.members.values().map(|member| JoinedMember {
            id: member.id.clone(),
            instance: member.instance.clone(),
            metadata: member.metadata_of(protocol),
        });
        all.collect()
    }

    pub(super) fn join_reply(&self, id: &Arc<str>, members: Vec<JoinedMember>) -> JoinReply {
        JoinReply {
            generation: self.generation,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: self.protocol.clone().unwrap_or_default(),
            leader: self.leader.clone().unwrap_or_default(),
            member: id.clone(),
            skip_assignment: false,
            members,
        }
    }
}

/// A new member's id: the instance or the client's id, and the random bits written as a UUID, as Kafka makes it.
fn member_id(join: &Join<'_>) -> String {
    let [a, b, c, d, e] = [
        join.random >> 96,
        join.random >> 80 & 0xffff,
        join.random >> 64 & 0xffff,
        join.random >> 48 & 0xffff,
        join.random & 0xffff_ffff_ffff,
    ];
    format!("{}-{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}", join.instance.unwrap_or(join.client_id))
}
