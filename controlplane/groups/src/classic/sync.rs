//! SyncGroup, Heartbeat and LeaveGroup.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Classic, Ctx, State};
use crate::event::{Leave, LeaveMember, LeftMember, Member, Reply, Sync, SyncReply, Token};
use crate::log::Then;
use crate::{Error, GroupValue, Record};

impl Classic {
    /// A member wants its assignment; the leader brings all of them.
    pub(crate) fn sync(&mut self, token: Token, sync: &Sync<'_>, ctx: &mut Ctx<'_>) {
        if let Err(error) = self.check_sync(sync, ctx) {
            return ctx.reply(token, Reply::Sync(Err(error)));
        }
        let id = sync.member.id;
        self.heard(id, ctx);
        if let State::Stable { .. } = self.state {
            let assignment = self.members.get(id).map(|member| member.assignment.clone()).unwrap_or_default();
            ctx.reply(token, Reply::Sync(Ok(self.sync_reply(assignment))));
            return self.synced(id, ctx);
        }
        let before = self.members.get_mut(id).and_then(|member| member.syncing.replace(token));
        if let Some(before) = before {
            // Its connection is most likely gone; the newer request stands for it.
            ctx.reply(before, Reply::Sync(Err(Error::RebalanceInProgress)));
        }
        self.synced(id, ctx);
        if self.leader.as_deref() != Some(id) {
            return;
        }
        if let State::Completing { storing: storing @ false, .. } = &mut self.state {
            *storing = true;
            // A leader that assigns to nobody it was told of is not worth an error: those get nothing.
            let given: BTreeMap<&str, &[u8]> = sync.assignments.iter().copied().collect();
            let value = self.value(|member| given.get(&*member.id).copied().unwrap_or_default().into());
            let record = Record::Group { group: ctx.group.clone(), value: Some(value) };
            ctx.append(alloc::vec![record], Then::Assign { generation: self.generation });
        }
    }

    fn check_sync(&self, sync: &Sync<'_>, ctx: &Ctx<'_>) -> Result<(), Error> {
        if self.is_deleting() {
            return Err(Error::CoordinatorNotAvailable);
        }
        self.check_member(sync.member.id, sync.member.instance)?;
        if sync.member.generation != self.generation {
            return Err(Error::IllegalGeneration);
        }
        let differs = |theirs: Option<&str>, ours: &Option<Arc<str>>| theirs.is_some() && theirs != ours.as_deref();
        if differs(sync.protocol_type, &self.protocol_type) || differs(sync.protocol, &self.protocol) {
            return Err(Error::InconsistentGroupProtocol);
        }
        let given: usize = sync.assignments.iter().map(|(_, assignment)| assignment.len()).sum();
        if *ctx.member_bytes + given > ctx.config.state_bytes_max && given > 0 {
            return Err(Error::PolicyViolation);
        }
        match self.state {
            State::Completing { .. } | State::Stable { .. } => Ok(()),
            State::Preparing { .. } => Err(Error::RebalanceInProgress),
            State::Empty | State::Deleting => Err(Error::UnknownMemberId),
        }
    }

    fn sync_reply(&self, assignment: Arc<[u8]>) -> SyncReply {
        SyncReply {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: self.protocol.clone().unwrap_or_default(),
            assignment,
        }
    }

    /// The member has asked for its assignment; once all have, nobody need be put out.
    fn synced(&mut self, id: &str, ctx: &mut Ctx<'_>) {
        if let Some(member) = self.members.get_mut(id) {
            member.must_sync = false;
        }
        if let State::Stable { timer: timer @ Some(_) } = &mut self.state
            && !self.members.values().any(|member| member.must_sync)
            && let Some(timer) = timer.take()
        {
            ctx.timers.cancel(timer);
        }
    }

    /// The assignments of a generation are durable, or could not be stored.
    pub(crate) fn assigned(&mut self, generation: i32, stored: Result<&GroupValue, Error>, ctx: &mut Ctx<'_>) {
        let State::Completing { storing: true, timer } = self.state else { return };
        if self.generation != generation {
            return;
        }
        match stored {
            Ok(value) => {
                self.enter(State::Stable { timer: Some(timer) }, ctx);
                self.assign(value, ctx);
                if !self.members.values().any(|member| member.must_sync) {
                    ctx.timers.cancel(timer);
                    self.state = State::Stable { timer: None };
                }
            }
            Err(error) => {
                self.refuse_syncs(error, ctx);
                self.rebalance(ctx);
            }
        }
    }

    fn assign(&mut self, value: &GroupValue, ctx: &mut Ctx<'_>) {
        for given in &value.members {
            let Some(member) = self.members.get_mut(&given.id) else { continue };
            *ctx.member_bytes += given.assignment.len();
            member.assignment = given.assignment.clone();
            if let Some(token) = member.syncing.take() {
                ctx.reply(token, Reply::Sync(Ok(self.sync_reply(given.assignment.clone()))));
                self.heard(&given.id, ctx);
            }
        }
    }

    /// Answers all who wait for an assignment that will not come.
    pub(super) fn refuse_syncs(&mut self, error: Error, ctx: &mut Ctx<'_>) {
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            let Some(member) = self.members.get_mut(&id) else { continue };
            if let Some(token) = member.syncing.take() {
                ctx.reply(token, Reply::Sync(Err(error)));
                self.heard(&id, ctx);
            }
        }
    }

    /// The wait for members to sync is over: those who have not are put out.
    pub(crate) fn sync_over(&mut self, ctx: &mut Ctx<'_>) {
        match &mut self.state {
            State::Completing { .. } => {}
            State::Stable { timer } => *timer = None,
            State::Empty | State::Preparing { .. } | State::Deleting => return,
        }
        let silent = self.members.values().filter(|member| member.must_sync);
        let silent: Vec<_> = silent.map(|member| member.id.clone()).collect();
        if silent.is_empty() {
            return;
        }
        for id in silent {
            self.remove(&id, Error::UnknownMemberId, ctx);
        }
        self.rebalance(ctx);
    }

    /// A member says that it is there.
    pub(crate) fn heartbeat(&mut self, who: &Member<'_>, ctx: &mut Ctx<'_>) -> Result<(), Error> {
        if self.is_deleting() {
            return Err(Error::CoordinatorNotAvailable);
        }
        self.check_member(who.id, who.instance)?;
        if who.generation != self.generation {
            return Err(Error::IllegalGeneration);
        }
        match self.state {
            State::Completing { .. } | State::Stable { .. } => {
                self.heard(who.id, ctx);
                Ok(())
            }
            State::Preparing { .. } => {
                self.heard(who.id, ctx);
                Err(Error::RebalanceInProgress)
            }
            State::Empty | State::Deleting => Err(Error::UnknownMemberId),
        }
    }

    /// Members leave.
    pub(crate) fn leave(&mut self, leave: &Leave<'_>, ctx: &mut Ctx<'_>) -> Result<Vec<LeftMember>, Error> {
        if self.is_deleting() {
            return Err(Error::CoordinatorNotAvailable);
        }
        let left = leave.members.iter().map(|member| LeftMember {
            id: member.id.into(),
            instance: member.instance.map(Into::into),
            result: self.leave_one(member, ctx),
        });
        Ok(left.collect())
    }

    fn leave_one(&mut self, who: &LeaveMember<'_>, ctx: &mut Ctx<'_>) -> Result<(), Error> {
        if let Some(instance) = who.instance.filter(|_| who.id.is_empty()) {
            let id = self.instances.get(instance).cloned().ok_or(Error::UnknownMemberId)?;
            self.put_out(&id, ctx);
            return Ok(());
        }
        if let Some(timer) = self.pending_ids.remove(who.id) {
            ctx.timers.cancel(timer);
            self.complete_join_if_all_came(ctx);
            return Ok(());
        }
        self.check_member(who.id, who.instance)?;
        self.put_out(who.id, ctx);
        Ok(())
    }
}
