//! How members go: by themselves, for a while, by an administrator, or because nothing was heard of them.

use alloc::sync::Arc;

use super::Consumer;
use super::beat::{JOINING, LEAVING};
use super::member::AWAY;
use super::value::{ConsumerKey, Current, Held, MemberState};
use crate::Error;
use crate::classic::Ctx;
use crate::event::{Beat, BeatReply, LeaveMember, Refused, Token};

impl Consumer {
    /// A heartbeat with epoch −1, or −2 of a static member. Kafka wants the instance id beside −2; franz-go leaves it out, and
    /// the member is known.
    pub(super) fn leave(&mut self, token: Token, beat: &Beat<'_>, ctx: &mut Ctx<'_>) -> Result<(), Refused> {
        debug_assert!(beat.epoch < JOINING, "a heartbeat that leaves");
        self.check_instance(beat.member, beat.instance)?;
        let Some(member) = self.members.get(beat.member) else {
            return Err((Error::UnknownMemberId, "the group has no such member"));
        };
        if beat.epoch == AWAY && member.subscriber.instance.is_none() {
            return Err((Error::InvalidRequest, "only a member with an instance id can leave for a while"));
        }
        let id = member.id.clone();
        if beat.epoch == LEAVING {
            self.put_out(&id, ctx);
        } else {
            let current = Current {
                epoch: AWAY,
                previous_epoch: member.current.epoch,
                state: MemberState::Stable,
                assigned: member.current.assigned.clone(),
                revoking: Held::new(),
            };
            self.set_current(&id, current);
            self.set_revocation(&id, ctx);
        }
        self.write(ctx);
        let interval_ms = ctx.config.consumer_heartbeat_interval_ms;
        self.answer(token, BeatReply { member: id, epoch: beat.epoch, interval_ms, assignment: None }, ctx);
        Ok(())
    }

    /// LeaveGroup by an administrator, who names a static member by its instance.
    pub(crate) fn expel(&mut self, member: &LeaveMember<'_>, ctx: &mut Ctx<'_>) -> Result<(), Error> {
        let instance = member.instance.ok_or(Error::UnknownMemberId)?;
        let id = self.instances.get(instance).cloned().ok_or(Error::UnknownMemberId)?;
        if !member.id.is_empty() && *member.id != *id {
            return Err(Error::FencedInstanceId);
        }
        self.put_out(&id, ctx);
        Ok(())
    }

    /// Puts a member out. What it held is free, and the next heartbeat of another member brings a new target.
    pub(super) fn put_out(&mut self, id: &str, ctx: &mut Ctx<'_>) {
        let Some(member) = self.remove(id, ctx) else { return };
        let id: Arc<str> = member.id;
        self.targets.remove(&id);
        self.unwritten.extend([
            ConsumerKey::Member(id.clone()),
            ConsumerKey::Target(id.clone()),
            ConsumerKey::Current(id),
        ]);
        self.begin_epoch();
    }
}
