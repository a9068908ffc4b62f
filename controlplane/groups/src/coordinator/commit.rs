//! OffsetCommit and OffsetDelete.

use alloc::vec::Vec;

use base::Now;

use super::Coordinator;
use crate::event::{Commit, DeleteOffsets, DeleteTopic, Effect, RejectedCommit, Reply, Token};
use crate::log::Then;
use crate::{Error, OffsetValue, TEXT_BYTES_MAX};

/// What one new offset may at most need besides its texts; see [`crate::Record::bytes`].
const OFFSET_BYTES: usize = 128;

impl Coordinator {
    pub(super) fn commit(&mut self, now: Now, token: Token, commit: &Commit<'_>, out: &mut Vec<Effect>) {
        if let Err(error) = self.check_commit(now, commit) {
            return out.push(Effect::Reply(token, Reply::Commit(Err(error))));
        }
        let full = self.state_bytes() >= self.config.state_bytes_max;
        let done = self.with(now, commit.member.group, out, |group, ctx| {
            let checked = match &group.consumer {
                Some(_) if group.classic.is_deleting() => Err(Error::CoordinatorNotAvailable),
                Some(consumer) => consumer.check_commit(&commit.member, &commit.topics, commit.by_epoch),
                None => group.classic.check_commit(&commit.member, ctx),
            };
            if let Err(error) = checked {
                return ctx.reply(token, Reply::Commit(Err(error)));
            }
            let mut rejected = Vec::new();
            let mut records = Vec::new();
            for (topic_place, topic) in commit.topics.iter().enumerate() {
                for (place, partition) in topic.partitions.iter().enumerate() {
                    let error = if partition.refused.is_some() {
                        partition.refused
                    } else if partition.metadata.len() > ctx.config.offset_metadata_bytes_max.min(TEXT_BYTES_MAX) {
                        Some(Error::OffsetMetadataTooLarge)
                    } else if full && !group.offsets.knows(topic.name, partition.index) {
                        Some(Error::PolicyViolation)
                    } else {
                        None
                    };
                    if let Some(error) = error {
                        rejected.push(RejectedCommit { topic: topic_place, partition: place, error });
                        continue;
                    }
                    let value = OffsetValue {
                        offset: partition.offset,
                        leader_epoch: partition.leader_epoch,
                        metadata: partition.metadata.into(),
                        committed: now.wall,
                        topic_id: topic.id,
                    };
                    records.push(group.offsets.record(&ctx.group, topic.name, partition.index, Some(value)));
                }
            }
            if records.is_empty() {
                ctx.reply(token, Reply::Commit(Ok(rejected)));
            } else {
                ctx.append(records, Then::Commit { token, rejected });
            }
        });
        assert!(done.is_some(), "the group was found or made");
    }

    /// Whether the commit may be looked at; makes the group for one without membership.
    fn check_commit(&mut self, now: Now, commit: &Commit<'_>) -> Result<(), Error> {
        let (slot, there) = self.find(commit.member.group)?;
        let group = commit.member.group.len();
        let partitions = commit.topics.iter().flat_map(|topic| {
            topic
                .partitions
                .iter()
                .map(move |partition| OFFSET_BYTES + group + topic.name.len() + partition.metadata.len())
        });
        if self.append_bytes() + partitions.sum::<usize>() > self.config.append_bytes_max {
            return Err(Error::CoordinatorLoadInProgress);
        }
        if there {
            return Ok(());
        }
        if commit.member.group.len() > TEXT_BYTES_MAX {
            return Err(Error::InvalidGroupId);
        }
        if commit.member.generation >= 0 {
            // Its generation or epoch is gone with the group.
            return Err(if commit.by_epoch { Error::GroupIdNotFound } else { Error::IllegalGeneration });
        }
        if self.groups >= self.config.groups_max {
            return Err(Error::PolicyViolation);
        }
        self.create(now, slot, commit.member.group);
        Ok(())
    }

    pub(super) fn delete_offsets(&mut self, now: Now, token: Token, delete: &DeleteOffsets<'_>, out: &mut Vec<Effect>) {
        let error = match self.find(delete.group) {
            _ if delete.group.is_empty() => Some(Error::InvalidGroupId),
            Ok((_, true)) => None,
            Ok((_, false)) => Some(Error::GroupIdNotFound),
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            return out.push(Effect::Reply(token, Reply::DeleteOffsets(Err(error))));
        }
        self.with(now, delete.group, out, |group, ctx| {
            if group.classic.is_deleting() {
                return ctx.reply(token, Reply::DeleteOffsets(Err(Error::GroupIdNotFound)));
            }
            let consumer = group.consumer.as_ref().filter(|consumer| consumer.has_members());
            let members = group.classic.has_members();
            if members && group.classic.protocol_type().map(|name| &**name) != Some("consumer") {
                // What other kinds of members use cannot be told.
                return ctx.reply(token, Reply::DeleteOffsets(Err(Error::NonEmptyGroup)));
            }
            let mut records = Vec::new();
            let mut results = Vec::new();
            for DeleteTopic { name: topic, partitions, refused } in &delete.topics {
                // Subscriptions that cannot be read may hold any topic.
                let used = members && group.classic.subscribed().is_none_or(|topics| topics.contains(*topic))
                    || consumer.is_some_and(|consumer| consumer.subscribes(topic));
                let error = refused.or(used.then_some(Error::GroupSubscribedToTopic));
                let result = error.map_or(Ok(()), Err);
                results.push(alloc::vec![result; partitions.len()]);
                for index in partitions {
                    if error.is_none() && group.offsets.knows(topic, *index) {
                        records.push(group.offsets.record(&ctx.group, topic, *index, None));
                    }
                }
            }
            if records.is_empty() {
                ctx.reply(token, Reply::DeleteOffsets(Ok(results)));
            } else {
                ctx.append(records, Then::OffsetsDeleted { token, results });
            }
        });
    }
}
