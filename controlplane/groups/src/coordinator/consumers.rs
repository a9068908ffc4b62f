//! Groups with the consumer protocol, and groups that change from one protocol to the other.

use alloc::boxed::Box;
use alloc::vec::Vec;

use base::Now;

use super::{Coordinator, Group};
use crate::Error;
use crate::classic::{Classic, Ctx};
use crate::consumer::Consumer;
use crate::event::{Beat, Effect, Leave, LeftMember, Refused, Reply, Token};
use crate::log::Then;

const NOT_THERE: Refused = (Error::GroupIdNotFound, "there is no consumer group of this name");

impl Coordinator {
    pub(super) fn beat(&mut self, now: Now, token: Token, beat: &Beat<'_>, out: &mut Vec<Effect>) {
        let refused = self.admit(now, beat).and_then(|()| {
            self.with(now, beat.group, out, |group, ctx| group.beat(token, beat, ctx)).unwrap_or(Err(NOT_THERE))
        });
        if let Err(refused) = refused {
            out.push(Effect::Reply(token, Reply::Beat(Err(refused))));
        }
    }

    /// Checks what can be checked without the group; makes the group for its first member.
    fn admit(&mut self, now: Now, beat: &Beat<'_>) -> Result<(), Refused> {
        beat.check()?;
        if self.append_bytes() >= self.config.append_bytes_max {
            return Err((Error::CoordinatorLoadInProgress, "much waits to be stored: the client tries again"));
        }
        match self.find(beat.group).map_err(|error| (error, "the group is not served now"))? {
            (_, true) => Ok(()),
            (_, false) if beat.epoch != 0 => Err(NOT_THERE),
            (_, false) if self.groups >= self.config.groups_max => {
                Err((Error::PolicyViolation, "the broker has as many groups as it can keep"))
            }
            (slot, false) => {
                self.create(now, slot, beat.group);
                Ok(())
            }
        }
    }
}

impl Group {
    fn beat(&mut self, token: Token, beat: &Beat<'_>, ctx: &mut Ctx<'_>) -> Result<(), Refused> {
        if self.classic.is_deleting() {
            return Err((Error::CoordinatorNotAvailable, "the group is being deleted"));
        }
        if let Some(consumer) = &mut self.consumer {
            return consumer.beat(token, beat, ctx);
        }
        if beat.epoch != 0 {
            return Err(NOT_THERE);
        }
        if !self.classic.is_idle() {
            // As Kafka with group.consumer.migration.policy=disabled.
            return Err((
                Error::GroupIdNotFound,
                "the group has members of the classic protocol: they are to leave first",
            ));
        }
        // A generation may be on its way, and its tombstone then follows it.
        let mut consumer = Consumer::new(self.stored.is_some() || self.appends > 0);
        consumer.beat(token, beat, ctx)?;
        self.classic = Classic::new(ctx.now.wall);
        self.consumer = Some(Box::new(consumer));
        Ok(())
    }

    /// Turns an empty consumer group into a classic one.
    pub(super) fn become_classic(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Error> {
        let Some(consumer) = &self.consumer else { return Ok(()) };
        if consumer.has_members() {
            return Err(Error::InconsistentGroupProtocol);
        }
        if self.appends > 0 {
            // Which records there will be is not known before; the client joins again.
            return Err(Error::CoordinatorLoadInProgress);
        }
        self.consumer = None;
        let records: Vec<_> = Consumer::tombstones(&ctx.group, &self.parts).collect();
        if !records.is_empty() {
            ctx.append(records, Then::Nothing);
        }
        Ok(())
    }

    /// LeaveGroup: members of the classic protocol, or static members of the other that an administrator puts out.
    pub(super) fn leave(&mut self, leave: &Leave<'_>, ctx: &mut Ctx<'_>) -> Result<Vec<LeftMember>, Error> {
        let Some(consumer) = &mut self.consumer else { return self.classic.leave(leave, ctx) };
        let left = leave.members.iter().map(|member| LeftMember {
            id: member.id.into(),
            instance: member.instance.map(Into::into),
            result: consumer.expel(member, ctx),
        });
        let left = left.collect();
        consumer.write(ctx);
        Ok(left)
    }

    pub(super) fn session_over(&mut self, member: &str, ctx: &mut Ctx<'_>) {
        match &mut self.consumer {
            Some(consumer) => {
                consumer.session_over(member, ctx);
                consumer.write(ctx);
            }
            None => self.classic.session_over(member, ctx),
        }
    }

    pub(super) fn revocation_over(&mut self, member: &str, ctx: &mut Ctx<'_>) {
        if let Some(consumer) = &mut self.consumer {
            consumer.revocation_over(member, ctx);
            consumer.write(ctx);
        }
    }
}
