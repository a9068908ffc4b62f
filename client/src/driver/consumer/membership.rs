//! A consumer as a member of a group: finding the coordinator, joining, what it is assigned, committed offsets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use protocol::error::ErrorCode;
use protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use protocol::messages::{FindCoordinatorRequest, LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest};

use super::{COMMIT_MAX, Consumer, Resume, Token};
use crate::consumer::{Reset, Start};
use crate::driver::link::{Answer, To};
use crate::error::{Error, Result};
use crate::group;
use crate::wire;

impl Consumer {
    pub(super) fn tell_group(&mut self, now: Mono, event: group::Event) {
        let mut effects = Vec::new();
        if let Some(group) = &mut self.group {
            group.handle(now, event, &mut effects);
        }
        self.group_effects.extend(effects);
    }

    pub(super) fn perform_group_effects(&mut self) {
        while let Some(effect) = self.group_effects.pop_front() {
            self.perform_group(effect);
        }
    }

    pub(super) fn perform_group(&mut self, effect: group::Effect) {
        let Some(group) = &self.group else { return };
        let limits = group.limits().clone();
        let mut patience = self.links.settings().request_timeout;
        let sent = match effect {
            group::Effect::FindCoordinator => {
                let request =
                    FindCoordinatorRequest { key: &limits.group, key_type: 0, coordinator_keys: vec![&limits.group] };
                self.links.send(To::Any, &request, Token::FindCoordinator, patience)
            }
            group::Effect::Join { coordinator, member, protocols } => {
                // A rebalance waits for all members.
                patience += Duration::from_millis(limits.rebalance_ms.into());
                let request = wire::join(&limits, &member, &protocols);
                self.links.send(To::Coordinator(coordinator), &request, Token::Join, patience)
            }
            group::Effect::Sync { coordinator, member, generation, protocol, assignments } => {
                patience += Duration::from_millis(limits.rebalance_ms.into());
                let request = wire::sync(&limits, &member, generation, &protocol, &assignments);
                self.links.send(To::Coordinator(coordinator), &request, Token::Sync, patience)
            }
            group::Effect::Heartbeat { coordinator, member, generation } => {
                let request = wire::heartbeat(&limits, &member, generation);
                self.links.send(To::Coordinator(coordinator), &request, Token::Heartbeat, patience)
            }
            group::Effect::Leave { coordinator, member } => {
                let request = LeaveGroupRequest {
                    group_id: &limits.group,
                    member_id: &member,
                    members: vec![protocol::messages::leave_group_request::MemberIdentity {
                        member_id: &member,
                        group_instance_id: None,
                        reason: None,
                    }],
                };
                self.links.send(To::Coordinator(coordinator), &request, Token::Leave, patience)
            }
            group::Effect::WantTopics(topics) => {
                self.topics.extend(topics.iter().cloned());
                self.counting = Some(topics);
                self.metadata.stale();
                Ok(())
            }
            group::Effect::Assigned(topics) => {
                self.generation += 1;
                let now = self.clock.now();
                self.resume = Some(Resume { topics, term: self.generation, asked: false, not_before: now });
                Ok(())
            }
            group::Effect::Revoked => {
                self.revoke();
                Ok(())
            }
            group::Effect::Failed(code) => {
                self.failure = Some(Error::kafka(format!("group {}", limits.group), code));
                Ok(())
            }
        };
        if let Err((token, error)) = sent {
            self.fail(token, error);
        }
    }

    pub(super) fn revoke(&mut self) {
        if self.config.auto_commit.is_some() {
            let end = self.clock.now().plus_ms(u64::try_from(COMMIT_MAX.as_millis()).unwrap_or(u64::MAX));
            // Where it cannot be committed, the records are read again by whoever gets the partitions.
            if let Err(error) = self.commit_once(end) {
                self.trouble = Some(error);
            }
        }
        if let Some(group) = &mut self.group {
            group.revoked();
        }
        self.resume = None;
        self.begin(&[]);
    }

    pub(super) fn found(&mut self, now: Mono, answer: &Answer<Token>) -> Result<()> {
        let response = answer.parse::<FindCoordinatorRequest<'_>>()?;
        let found = response
            .coordinators
            .first()
            .map(|found| (found.error_code, found.node_id, found.host, found.port))
            .unwrap_or((response.error_code, response.node_id, response.host, response.port));
        let (code, id, host, port) = found;
        match u16::try_from(port) {
            Ok(port) if code.is_ok() => {
                let broker = crate::metadata::Broker { id, host: host.to_owned(), port };
                self.links.learn(std::iter::once(&broker));
                self.tell_group(now, group::Event::Coordinator(id));
            }
            _ => {
                let code = if code.is_ok() { ErrorCode::COORDINATOR_NOT_AVAILABLE } else { code };
                self.tell_group(now, group::Event::NoCoordinator(code));
            }
        }
        Ok(())
    }

    /// Gives the group's leader what it waits for, once all its topics are known.
    pub(super) fn count_partitions(&mut self, now: Mono) {
        let Some(topics) = &self.counting else { return };
        let counts: BTreeMap<String, u32> = topics
            .iter()
            .filter_map(|name| {
                let topic = self.metadata.topic(name)?;
                Some((name.clone(), u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX)))
            })
            .collect();
        if topics.iter().all(|name| counts.contains_key(name)) {
            self.counting = None;
            self.tell_group(now, group::Event::Topics(counts));
        }
    }

    /// Asks where the group stands in the partitions that were assigned.
    pub(super) fn ask_committed(&mut self, now: Mono) {
        let Some(resume) = self.resume.as_mut().filter(|resume| !resume.asked && now >= resume.not_before) else {
            return;
        };
        if resume.topics.iter().all(|(_, partitions)| partitions.is_empty()) {
            self.resume = None;
            self.begin(&[]);
            return;
        }
        let Some(group) = &self.group else { return };
        let Some(coordinator) = group.coordinator() else { return };
        resume.asked = true;
        let topics = resume.topics.clone();
        let term = resume.term;
        let request = OffsetFetchRequest {
            group_id: &group.limits().group,
            topics: Some(
                topics
                    .iter()
                    .map(|(name, partitions)| OffsetFetchRequestTopic { name, partition_indexes: partitions.clone() })
                    .collect(),
            ),
            ..OffsetFetchRequest::default()
        };
        let patience = self.links.settings().request_timeout;
        if let Err((token, error)) =
            self.links.send(To::Coordinator(coordinator), &request, Token::Committed(term), patience)
        {
            self.fail(token, error);
        }
    }

    pub(super) fn retry_resume(&mut self, now: Mono, term: u64) {
        if let Some(resume) = self.resume.as_mut().filter(|resume| resume.term == term) {
            resume.asked = false;
            resume.not_before = now.plus_ms(self.config.limits.retry_backoff_ms);
        }
    }

    pub(super) fn resumed(&mut self, now: Mono, term: u64, answer: &Answer<Token>) -> Result<()> {
        let response = answer.parse::<OffsetFetchRequest<'_>>()?;
        let Some(resume) = self.resume.as_ref().filter(|resume| resume.term == term) else { return Ok(()) };
        let mut code = response.error_code;
        let mut parts: Vec<(Arc<str>, i32, Start)> = Vec::new();
        for (name, partitions) in &resume.topics {
            let topic: Arc<str> = name.as_str().into();
            let found = response.topics.iter().find(|topic| topic.name == name);
            for partition in partitions {
                let found = found.and_then(|topic| topic.partitions.iter().find(|p| p.partition_index == *partition));
                let committed = found.map_or(-1, |found| found.committed_offset);
                if let Some(found) = found.filter(|found| !found.error_code.is_ok()) {
                    code = found.error_code;
                }
                let start = match (committed, self.config.limits.reset) {
                    (0.., _) => Start::Offset(committed),
                    (_, Reset::Earliest) => Start::Earliest,
                    (_, Reset::Latest) => Start::Latest,
                    (_, Reset::Error) => {
                        let what = format!("{name}-{partition} has no committed offset");
                        self.failure = Some(Error::kafka(what, ErrorCode::OFFSET_OUT_OF_RANGE));
                        Start::Latest
                    }
                };
                parts.push((Arc::clone(&topic), *partition, start));
            }
        }
        if !code.is_ok() {
            self.retry_resume(now, term);
            if !code.retriable() {
                self.failure = Some(Error::kafka("offset fetch", code));
            }
            return Ok(());
        }
        self.resume = None;
        self.begin(&parts);
        if let Some(every) = self.config.auto_commit {
            self.commit_due = now.plus_ms(u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    pub(super) fn auto_commit(&mut self, now: Mono) {
        let every = self.config.auto_commit.unwrap_or_default();
        self.commit_due = now.plus_ms(u64::try_from(every.as_millis()).unwrap_or(u64::MAX).max(10));
        // What fails now is committed with the next one.
        if let Err(error) = self.send_commit() {
            self.trouble = Some(error);
        }
    }

    /// Sends a commit of what was consumed since the last one; gives its number, or `None` when there is nothing.
    pub(super) fn send_commit(&mut self) -> Result<Option<u64>> {
        let Some(group) = &self.group else {
            return Err(Error::Invalid("only a member of a group commits offsets".to_owned()));
        };
        let mut parts: Vec<(Arc<str>, i32, i64)> = Vec::new();
        for slot in self.machine.slots() {
            let (topic, partition) = self.machine.name(slot);
            let Some(offset) = self.machine.consumed(slot) else { continue };
            if self.known.get(&(Arc::clone(topic), partition)) != Some(&offset) {
                parts.push((Arc::clone(topic), partition, offset));
            }
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let Some((coordinator, member, generation)) = group.identity() else { return Ok(None) };
        let member = member.to_owned();
        let limits = group.limits();
        let topics = parts.chunk_by(|a, b| a.0 == b.0).map(|of_topic| OffsetCommitRequestTopic {
            name: of_topic.first().map_or("", |part| &part.0),
            partitions: of_topic
                .iter()
                .map(|part| OffsetCommitRequestPartition {
                    partition_index: part.1,
                    committed_offset: part.2,
                    committed_leader_epoch: -1,
                    committed_metadata: Some(""),
                })
                .collect(),
            ..Default::default()
        });
        let request = OffsetCommitRequest {
            group_id: &limits.group,
            generation_id_or_member_epoch: generation,
            member_id: &member,
            group_instance_id: limits.instance.as_deref(),
            retention_time_ms: -1,
            topics: topics.collect(),
        };
        self.commits += 1;
        let id = self.commits;
        let patience = self.links.settings().request_timeout;
        self.links
            .send(To::Coordinator(coordinator), &request, Token::Commit(id), patience)
            .map_err(|(_, error)| error)?;
        self.known.extend(parts.iter().map(|part| ((Arc::clone(&part.0), part.1), part.2)));
        Ok(Some(id))
    }
}
