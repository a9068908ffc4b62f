//! What others may know of a consumer group, and whether its members may commit.

use alloc::sync::Arc;

use base::TopicId;

use super::Consumer;
use super::beat::partitions;
use super::value::{Current, MemberState};
use crate::Error;
use crate::event::{CommitTopic, DescribedConsumer, DescribedSubscriber, Member};

impl Consumer {
    /// Kafka's name of the state.
    pub(crate) fn state_name(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.target_epoch {
            "Assigning"
        } else if self.members.values().all(|member| self.is_there(&member.current)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    fn is_there(&self, current: &Current) -> bool {
        current.state == MemberState::Stable && current.epoch == self.target_epoch
    }

    pub(crate) fn describe(&self) -> DescribedConsumer {
        let members = self.members.values().map(|member| DescribedSubscriber {
            id: member.id.clone(),
            subscriber: member.subscriber.clone(),
            epoch: member.current.epoch,
            assignment: partitions(&member.current.assigned),
            target: self.targets.get(&member.id).map(|target| (**target).clone()).unwrap_or_default(),
        });
        DescribedConsumer {
            state: self.state_name(),
            epoch: self.epoch,
            target_epoch: self.target_epoch,
            assignor: self.assignor().name(),
            members: members.collect(),
        }
    }

    /// Whether a member subscribes to the topic.
    pub(crate) fn subscribes(&self, topic: &str) -> bool {
        self.members.values().any(|member| self.expressions.names(&member.subscriber).any(|name| **name == *topic))
    }

    /// Names of all topics that members subscribe to.
    pub(crate) fn subscribed(&self) -> alloc::collections::BTreeSet<Arc<str>> {
        self.members.values().flat_map(|member| self.expressions.names(&member.subscriber)).cloned().collect()
    }

    /// Whether `who` may commit to these partitions. A commit with an epoch of the past is good where the member has held
    /// the partition since then: nobody else can have committed meanwhile.
    pub(crate) fn check_commit(
        &self,
        who: &Member<'_>,
        topics: &[CommitTopic<'_>],
        by_epoch: bool,
    ) -> Result<(), Error> {
        if who.generation < 0 && self.members.is_empty() {
            return Ok(());
        }
        let current = &self.members.get(who.id).ok_or(Error::UnknownMemberId)?.current;
        if !by_epoch {
            return Err(Error::UnsupportedVersion);
        }
        let since = |topic: TopicId, index: i32| {
            let of = |held: &super::value::Held| held.get(&topic).and_then(|indices| indices.get(&index)).copied();
            of(&current.assigned).or_else(|| of(&current.revoking))
        };
        let held_since = |topic: &CommitTopic<'_>| {
            let mut partitions = topic.partitions.iter();
            partitions.all(|partition| since(topic.id, partition.index).is_some_and(|since| since <= who.generation))
        };
        if who.generation == current.epoch || who.generation < current.epoch && topics.iter().all(held_since) {
            Ok(())
        } else {
            Err(Error::StaleMemberEpoch)
        }
    }

    /// Whether `who` may read committed offsets; without a member id everybody may.
    pub(crate) fn check_fetch(&self, id: Option<&str>, epoch: i32) -> Result<(), Error> {
        let Some(id) = id.filter(|_| epoch >= 0) else { return Ok(()) };
        match self.members.get(id) {
            None => Err(Error::UnknownMemberId),
            Some(member) if member.current.epoch != epoch => Err(Error::StaleMemberEpoch),
            Some(_) => Ok(()),
        }
    }
}
