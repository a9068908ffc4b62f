//! How a member comes to its target, and the target itself.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::TopicId;
use base::image::Image;

use super::assignor::{Assignor, Candidate};
use super::topics::{self, hash};
use super::value::{ConsumerKey, Current, Held, MemberState, Partitions};
use super::{Consumer, Member};
use crate::classic::Ctx;

impl Consumer {
    /// Looks at metadata and subscriptions anew, if either has changed; whether the topics or their partitions are others.
    pub(super) fn look_at_topics(&mut self, ctx: &Ctx<'_>) -> bool {
        let image = ctx.image;
        if self.seen == Some(image.generation) {
            return false;
        }
        self.seen = Some(image.generation);
        let used: BTreeSet<&str> =
            self.members.values().filter_map(|member| member.subscriber.regex.as_deref()).collect();
        if !self.expressions.is_empty() {
            self.expressions.resolve(&used, image);
        }
        let hash = hash(&self.counts(image));
        core::mem::replace(&mut self.topics_hash, hash) != hash
    }

    /// The next epoch of the group.
    pub(super) fn begin_epoch(&mut self) {
        self.epoch = self.epoch.saturating_add(1);
        self.unwritten.insert(ConsumerKey::Epoch);
    }

    /// Partitions of every topic that somebody subscribes to and that is there.
    fn counts(&self, image: &Image) -> BTreeMap<TopicId, i32> {
        let mut counts = BTreeMap::new();
        for member in self.members.values() {
            for name in self.expressions.names(&member.subscriber) {
                if let Some(topic) = image.topics.get(name) {
                    counts.insert(topic.id, i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX));
                }
            }
        }
        counts
    }

    /// The assignor that members have chosen.
    pub(super) fn assignor(&self) -> Assignor {
        Assignor::preferred(self.members.values().filter_map(|member| member.subscriber.assignor.as_deref()))
    }

    /// Makes the target of the group's epoch, unless it is made.
    pub(super) fn make_target(&mut self, ctx: &Ctx<'_>) {
        if self.target_epoch == self.epoch {
            return;
        }
        let counts = self.counts(ctx.image);
        let mut shared: BTreeMap<_, Arc<BTreeSet<TopicId>>> = BTreeMap::new();
        let candidates: Vec<Candidate<'_>> = self
            .members
            .values()
            .map(|member| {
                let subscriber = &*member.subscriber;
                let key = (&subscriber.names, subscriber.regex.as_deref());
                let topics = shared.entry(key).or_insert_with(|| Arc::new(self.topics_of(member, ctx.image)));
                Candidate {
                    name: subscriber.instance.as_ref().unwrap_or(&member.id),
                    is_static: subscriber.instance.is_some(),
                    topics: topics.clone(),
                    before: self.targets.get(&member.id).map(|target| &**target),
                }
            })
            .collect();
        let targets = self.assignor().assign(&candidates, &counts);
        drop(candidates);
        for (id, target) in self.members.keys().cloned().collect::<Vec<_>>().into_iter().zip(targets) {
            if self.targets.get(&id).is_none_or(|before| **before != target) {
                self.unwritten.insert(ConsumerKey::Target(id.clone()));
                self.targets.insert(id, Arc::new(target));
            }
        }
        self.target_epoch = self.epoch;
        self.unwritten.insert(ConsumerKey::TargetEpoch);
    }

    fn topics_of(&self, member: &Member, image: &Image) -> BTreeSet<TopicId> {
        topics::ids(self.expressions.names(&member.subscriber), image)
    }

    /// Brings a member as near to its target as can be now. `owned`: what it says that it holds, if it says so.
    pub(super) fn reconcile(&mut self, id: &str, owned: Option<&Partitions>, ctx: &mut Ctx<'_>) {
        let Some(member) = self.members.get(id) else { return };
        let current = &*member.current;
        let next = match current.state {
            MemberState::Stable if current.epoch == self.target_epoch => return,
            MemberState::Unrevoked if holds_any(owned, &current.revoking) => return,
            MemberState::Stable | MemberState::Unrevoked | MemberState::Unreleased => {
                self.next(member, owned, ctx.image)
            }
        };
        if next != *current {
            self.set_current(id, next);
            self.set_revocation(id, ctx);
        }
    }

    fn next(&self, member: &Member, owned: Option<&Partitions>, image: &Image) -> Current {
        let none = Arc::default();
        let target = self.targets.get(&member.id).unwrap_or(&none);
        let subscribed = self.topics_of(member, image);
        let (mut assigned, mut revoking, mut given) = (Held::new(), Held::new(), Held::new());
        let is_meant = |topic: &TopicId, index: &i32| {
            subscribed.contains(topic) && target.get(topic).is_some_and(|indices| indices.contains(index))
        };
        for (topic, indices) in &member.current.assigned {
            for (index, epoch) in indices {
                let place = if is_meant(topic, index) { &mut assigned } else { &mut revoking };
                place.entry(*topic).or_default().insert(*index, *epoch);
            }
        }
        let mut unreleased = false;
        for (topic, indices) in target.iter().filter(|(topic, _)| subscribed.contains(topic)) {
            let has = assigned.get(topic);
            for index in indices.iter().filter(|index| has.is_none_or(|has| !has.contains_key(index))) {
                // What it has just given up itself is free to come back to it.
                if self.holders.get(&(*topic, *index)).is_none_or(|holder| *holder == member.id) {
                    given.entry(*topic).or_default().insert(*index, self.target_epoch);
                } else {
                    unreleased = true;
                }
            }
        }
        let before = &member.current;
        if holds_any(owned, &revoking) {
            return Current { state: MemberState::Unrevoked, assigned, revoking, ..(**before).clone() };
        }
        for (topic, indices) in given {
            assigned.entry(topic).or_default().extend(indices);
        }
        let moved = before.epoch != self.target_epoch;
        Current {
            epoch: self.target_epoch,
            previous_epoch: if moved { before.epoch } else { before.previous_epoch },
            state: if unreleased { MemberState::Unreleased } else { MemberState::Stable },
            assigned,
            revoking: Held::new(),
        }
    }
}

/// Whether somebody may still hold one of these. Who does not say what it holds may hold all.
fn holds_any(owned: Option<&Partitions>, these: &Held) -> bool {
    let Some(owned) = owned else { return !these.is_empty() };
    these
        .iter()
        .any(|(topic, indices)| owned.get(topic).is_some_and(|owned| indices.keys().any(|index| owned.contains(index))))
}
