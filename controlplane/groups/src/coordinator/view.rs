//! Requests that only look: OffsetFetch, ListGroups, DescribeGroups.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Coordinator, Group, Stage};
use crate::Error;
use crate::event::{Described, DescribedConsumer, FetchedOffset, FetchedTopics, Listed};
use crate::offsets::Offsets;

impl Coordinator {
    fn offsets(&self, group: &str) -> Result<Option<&Offsets>, Error> {
        let (index, _) = self.find(group)?;
        Ok(self.slots[index].groups.get(group).map(|group| &group.offsets))
    }

    /// The committed offset of a partition; −1 when there is none, be the group unknown.
    ///
    /// # Errors
    /// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, KAFKA_STORAGE_ERROR.
    pub fn fetch(&self, group: &str, topic: &str, partition: i32) -> Result<FetchedOffset, Error> {
        let none = Offsets::default();
        Ok(self.offsets(group)?.unwrap_or(&none).fetch(topic, partition))
    }

    /// All committed offsets of a group.
    ///
    /// # Errors
    /// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, KAFKA_STORAGE_ERROR.
    pub fn fetch_all(&self, group: &str) -> Result<FetchedTopics, Error> {
        Ok(self.offsets(group)?.map(Offsets::fetch_all).unwrap_or_default())
    }

    /// All groups whose state and kind are among those named, in any case of letters; an empty list names all. Groups of slots
    /// that cannot be read are not known, and left out.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS: there may be more groups than are known yet.
    pub fn list(&self, states: &[&str], kinds: &[&str]) -> Result<Vec<Listed>, Error> {
        let among = |wanted: &[&str], name: &str| {
            wanted.is_empty() || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        if self.slots.iter().any(|shelf| shelf.stage == Stage::Loading) {
            return Err(Error::CoordinatorLoadInProgress);
        }
        let groups = self.slots.iter().flat_map(|shelf| &shelf.groups);
        let listed =
            groups.filter(|(_, group)| !group.classic.is_deleting()).map(|(name, group)| match &group.consumer {
                Some(consumer) => Listed {
                    group: name.clone(),
                    protocol_type: "consumer".into(),
                    state: consumer.state_name(),
                    kind: "consumer",
                },
                None => Listed {
                    group: name.clone(),
                    protocol_type: group.classic.protocol_type().cloned().unwrap_or_default(),
                    state: group.classic.state_name(),
                    kind: "classic",
                },
            });
        Ok(listed.filter(|group| among(states, group.state) && among(kinds, group.kind)).collect())
    }

    /// One classic group.
    ///
    /// # Errors
    /// GROUP_ID_NOT_FOUND, of a consumer group, too; NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, KAFKA_STORAGE_ERROR.
    pub fn describe(&self, group: &str) -> Result<Described, Error> {
        let found = self.present(group)?.filter(|group| group.consumer.is_none());
        let classic = &found.ok_or(Error::GroupIdNotFound)?.classic;
        Ok(Described {
            state: classic.state_name(),
            protocol_type: classic.protocol_type().cloned().unwrap_or_default(),
            protocol: classic.stable_protocol().cloned().unwrap_or_default(),
            since: classic.since(),
            members: classic.describe_members(),
        })
    }

    /// One consumer group.
    ///
    /// # Errors
    /// As [`Coordinator::describe`]; GROUP_ID_NOT_FOUND of a classic group, too.
    pub fn describe_consumer(&self, group: &str) -> Result<DescribedConsumer, Error> {
        let consumer = self.present(group)?.and_then(|group| group.consumer.as_ref());
        Ok(consumer.ok_or(Error::GroupIdNotFound)?.describe())
    }

    /// Which kind of group it is, if it is there.
    ///
    /// # Errors
    /// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, KAFKA_STORAGE_ERROR.
    pub fn kind(&self, group: &str) -> Result<Option<&'static str>, Error> {
        Ok(self.present(group)?.map(|group| if group.consumer.is_some() { "consumer" } else { "classic" }))
    }

    fn present(&self, group: &str) -> Result<Option<&Group>, Error> {
        let (index, _) = self.find(group)?;
        Ok(self.slots[index].groups.get(group).filter(|group| !group.classic.is_deleting()))
    }

    /// Whether a member may read committed offsets of its group (KIP-848); without a member id everybody may.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, and those of [`Coordinator::fetch`].
    pub fn check_fetch(&self, group: &str, member: Option<&str>, epoch: i32) -> Result<(), Error> {
        match self.present(group)?.and_then(|group| group.consumer.as_ref()) {
            Some(consumer) => consumer.check_fetch(member, epoch),
            None => Ok(()),
        }
    }

    /// How many groups there are.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups
    }

    /// The committed offsets of all groups, for metrics.
    pub fn committed(&self) -> impl Iterator<Item = (&Arc<str>, FetchedTopics)> {
        let groups = self.slots.iter().flat_map(|shelf| &shelf.groups);
        groups.map(|(name, group)| (name, group.offsets.fetch_all()))
    }
}
