//! The consumer over TCP: everything happens in [`Consumer::poll`], in the caller's thread.
//!
//! Long because membership, fetching and commits act on one set of connections; the SDK's growth will part them.

use base::Mono;
use protocol::batch::{BatchView, Codec, Headers, Records};
use protocol::error::ErrorCode;
use protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use protocol::messages::{
    FetchRequest, FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, ListOffsetsRequest,
    MetadataRequest, OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use super::link::{Answer, Heard, Links, To};
use super::{Clock, Settings, checksums, until};
use crate::codec::decompress;
use crate::consumer::{Effect, Limits, Machine, Reset, Slot, Start, Useful};
use crate::error::{Error, Result};
use crate::group;
use crate::metadata::Metadata;
use crate::wire;

/// How long a commit at a rebalance or at the end may take.
const COMMIT_MAX: Duration = Duration::from_secs(5);

/// How a consumer behaves.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// Fetching.
    pub limits: Limits,
    /// Commit what was consumed this often, before a rebalance and at the end; never by itself when absent.
    pub auto_commit: Option<Duration>,
    /// Compare the CRC-32C of every batch.
    pub check_crc: bool,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self { limits: Limits::default(), auto_commit: Some(Duration::from_secs(5)), check_crc: true }
    }
}

/// A record, borrowed from the answer it came in.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The topic.
    pub topic: &'a Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value, or null.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: Headers<'a>,
}

/// Records of one partition in an answer.
#[derive(Debug)]
struct Piece {
    useful: Useful,
    /// The batches that are left, in the chunk's frame.
    bytes: Range<usize>,
    /// Records below are not given.
    next: i64,
}

/// An answer that is being consumed.
#[derive(Debug)]
struct Chunk {
    frame: Vec<u8>,
    pieces: VecDeque<Piece>,
}

#[derive(Debug)]
enum Token {
    Metadata,
    Fetch(u64),
    ListOffsets(u64, Vec<(Arc<str>, i32, Slot)>),
    FindCoordinator,
    Join,
    Sync,
    Heartbeat,
    Leave,
    Committed(u64),
    Commit(u64),
}

/// Offsets that a group committed, on their way.
#[derive(Debug)]
struct Resume {
    topics: Vec<(String, Vec<i32>)>,
    term: u64,
    asked: bool,
    not_before: Mono,
}

/// Reads records: of partitions that it is told, or as a member of a group.
///
/// Heartbeats are sent from [`Consumer::poll`]: call it more often than the group's session timeout.
#[derive(Debug)]
pub struct Consumer {
    links: Links<Token>,
    clock: Clock,
    config: ConsumerConfig,
    machine: Machine,
    group: Option<group::Machine>,
    metadata: Metadata,
    /// Topics that metadata is asked for.
    topics: BTreeSet<String>,
    chunks: VecDeque<Chunk>,
    /// The decompressed batch.
    scratch: Vec<u8>,
    effects: Vec<Effect>,
    group_effects: VecDeque<group::Effect>,
    /// The group's leader waits for partition counts.
    counting: Option<Vec<String>>,
    resume: Option<Resume>,
    /// Changes whenever partitions come or go.
    generation: u64,
    commits: u64,
    /// The outcome of the last commit that was answered.
    committed: Option<(u64, Result<()>)>,
    commit_due: Mono,
    /// What was committed last, so that nothing is committed twice.
    known: BTreeMap<(Arc<str>, i32), i64>,
    failure: Option<Error>,
    /// Why nothing comes, as far as known.
    trouble: Option<Error>,
    left: bool,
}

impl Consumer {
    /// A consumer that reads what [`Consumer::assign`] tells.
    #[must_use]
    pub fn new(settings: Settings, config: ConsumerConfig) -> Self {
        let clock = Clock::new();
        Self {
            links: Links::new(settings, clock),
            clock,
            machine: Machine::new(config.limits.clone()),
            config,
            group: None,
            metadata: Metadata::new(),
            topics: BTreeSet::new(),
            chunks: VecDeque::new(),
            scratch: Vec::new(),
            effects: Vec::new(),
            group_effects: VecDeque::new(),
            counting: None,
            resume: None,
            generation: 0,
            commits: 0,
            committed: None,
            commit_due: Mono(0),
            known: BTreeMap::new(),
            failure: None,
            trouble: None,
            left: false,
        }
    }

    /// A member of a group.
    #[must_use]
    pub fn in_group(settings: Settings, config: ConsumerConfig, group: group::Limits) -> Self {
        let mut consumer = Self::new(settings, config);
        consumer.topics.extend(group.topics.iter().cloned());
        consumer.group = Some(group::Machine::new(group));
        consumer
    }

    /// Reads these partitions: (topic, partition, where to begin) each.
    pub fn assign(&mut self, partitions: &[(&str, i32, Start)]) {
        let mut names: BTreeMap<&str, Arc<str>> = BTreeMap::new();
        let parts: Vec<(Arc<str>, i32, Start)> = partitions
            .iter()
            .map(|(topic, partition, start)| {
                (Arc::clone(names.entry(topic).or_insert_with(|| (*topic).into())), *partition, *start)
            })
            .collect();
        self.topics.extend(partitions.iter().map(|(topic, _, _)| (*topic).to_owned()));
        self.begin(&parts);
    }

    fn begin(&mut self, parts: &[(Arc<str>, i32, Start)]) {
        self.generation += 1;
        self.chunks.clear();
        self.known.clear();
        self.machine.assign(parts);
        self.metadata.stale();
        self.spread();
    }

    /// Changes whenever partitions come or go.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether it is in its group and knows where to begin in what it was given.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.resume.is_none() && self.group.as_ref().is_some_and(|group| group.identity().is_some())
    }

    /// What is read: (topic, partition) each.
    pub fn assignment(&self) -> impl Iterator<Item = (&Arc<str>, i32)> {
        self.machine.slots().map(|slot| self.machine.name(slot))
    }

    /// The offset behind the last record that was given, or where it begins, once that is known.
    #[must_use]
    pub fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        self.machine.find(topic, partition).and_then(|slot| self.machine.consumed(slot))
    }

    /// Goes elsewhere in a partition.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not assigned.
    pub fn seek(&mut self, topic: &str, partition: i32, start: Start) -> Result<()> {
        let slot = self.slot(topic, partition)?;
        self.machine.seek(slot, start);
        Ok(())
    }

    /// Stops or resumes a partition.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not assigned.
    pub fn pause(&mut self, topic: &str, partition: i32, paused: bool) -> Result<()> {
        let slot = self.slot(topic, partition)?;
        self.machine.pause(slot, paused);
        Ok(())
    }

    fn slot(&self, topic: &str, partition: i32) -> Result<Slot> {
        let unknown = || Error::Invalid(format!("{topic}-{partition} is not assigned to this consumer"));
        self.machine.find(topic, partition).ok_or_else(unknown)
    }

    /// Waits for records until `wait` is over and gives those of one answer, or until `take` breaks; the rest comes with the
    /// next poll. Gives how many records it gave.
    ///
    /// # Errors
    /// What keeps this consumer from going on: an error of its group, a damaged batch (seek behind it to go on), a partition
    /// that is refused, or no broker that answers.
    pub fn poll(&mut self, wait: Duration, mut take: impl FnMut(Record<'_>) -> ControlFlow<()>) -> Result<usize> {
        let end = self.clock.now().plus_ms(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        loop {
            let ready = !self.chunks.is_empty();
            // Even with records at hand: heartbeats, commits, and the next fetch leaves before these are consumed.
            let left = until(self.clock.now(), end);
            if let Err(error) = self.turn(if ready { Duration::ZERO } else { left }) {
                if self.chunks.is_empty() {
                    return Err(error);
                }
                // What was fetched before it is given first.
                self.failure.get_or_insert(error);
            }
            while let Some(mut chunk) = self.chunks.pop_front() {
                let given = self.give(&mut chunk, &mut take);
                if chunk.pieces.is_empty() {
                    self.links.recycle(chunk.frame);
                } else {
                    self.chunks.push_front(chunk);
                }
                match given {
                    Ok(0) if self.chunks.is_empty() => {}
                    other => return other,
                }
            }
            if self.clock.now() >= end {
                return match self.trouble.take() {
                    Some(error @ (Error::Unreachable { .. } | Error::Unsupported { .. })) => Err(error),
                    _ => Ok(0),
                };
            }
        }
    }

    /// Gives the records of a chunk; stops with the chunk, with `take` or at an error.
    fn give(&mut self, chunk: &mut Chunk, take: &mut impl FnMut(Record<'_>) -> ControlFlow<()>) -> Result<usize> {
        let mut count = 0;
        while let Some(piece) = chunk.pieces.front_mut() {
            if !self.machine.is_wanted(&piece.useful) {
                chunk.pieces.pop_front();
                continue;
            }
            let slot = piece.useful.slot;
            let (topic, partition) = self.machine.name(slot);
            let reader = Reading { topic, partition, check_crc: self.config.check_crc, limits: &self.config.limits };
            let (given, flow) = reader.give(&chunk.frame, piece, &mut self.scratch, take);
            count += given;
            let next = piece.next;
            self.machine.consume(slot, next);
            match flow {
                Ok(ControlFlow::Continue(())) => {
                    chunk.pieces.pop_front();
                }
                Ok(ControlFlow::Break(())) => return Ok(count),
                // What came before the damage is given first.
                Err(_) if count > 0 => return Ok(count),
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    /// Commits what was consumed and waits for it.
    ///
    /// # Errors
    /// The broker's error, or [`Error::Timeout`].
    pub fn commit(&mut self) -> Result<()> {
        let end = self.clock.now().plus_ms(u64::try_from(COMMIT_MAX.as_millis()).unwrap_or(u64::MAX));
        loop {
            let result = self.commit_once(end);
            match result {
                Err(error) if error.is_retriable() && self.clock.now() < end => {
                    self.turn(Duration::from_millis(self.config.limits.retry_backoff_ms))?;
                }
                other => return other,
            }
        }
    }

    fn commit_once(&mut self, end: Mono) -> Result<()> {
        let Some(id) = self.send_commit()? else { return Ok(()) };
        loop {
            if let Some((_, result)) = self.committed.take_if(|(answered, _)| *answered == id) {
                return result;
            }
            let left = until(self.clock.now(), end);
            if left.is_zero() {
                let ms = u64::try_from(COMMIT_MAX.as_millis()).unwrap_or(u64::MAX);
                return Err(Error::Timeout { what: "an offset commit".to_owned(), ms });
            }
            // Only what comes: the machines take no step meanwhile, so that a rebalance waits for its commit.
            if let Some(heard) = self.links.hear(left) {
                self.hear(heard);
            }
        }
    }

    /// Commits and leaves the group.
    ///
    /// # Errors
    /// That of the last commit.
    pub fn close(mut self) -> Result<()> {
        let result = match self.config.auto_commit {
            Some(_) if self.group.is_some() => self.commit(),
            _ => Ok(()),
        };
        let mut effects = Vec::new();
        if let Some(group) = &mut self.group {
            group.leave(&mut effects);
        }
        for effect in effects {
            if let group::Effect::Leave { .. } = effect {
                self.perform_group(effect);
                let end = self.clock.now().plus_ms(1000);
                while !self.left && self.clock.now() < end {
                    match self.links.hear(until(self.clock.now(), end)) {
                        Some(heard) => self.hear(heard),
                        None => break,
                    }
                }
            }
        }
        result
    }

    /// One round: what is due is sent, one thing is heard.
    fn turn(&mut self, wait: Duration) -> Result<()> {
        let now = self.clock.now();
        let mut group_effects = Vec::new();
        if let Some(group) = &mut self.group {
            group.poll(now, &mut group_effects);
        }
        self.group_effects.extend(group_effects);
        self.perform_group_effects();
        self.ask_committed(now);
        if self.config.auto_commit.is_some() && self.group.is_some() && now >= self.commit_due {
            self.auto_commit(now);
        }
        self.machine.poll(now, self.chunks.len(), &mut self.effects);
        let mut wait = wait;
        for effect in std::mem::take(&mut self.effects) {
            self.perform(effect);
        }
        if !self.topics.is_empty() && self.metadata.is_due(now) {
            self.ask_metadata(now);
        }
        let deadlines = [
            self.machine.next_deadline(now),
            self.metadata.deadline().filter(|_| !self.topics.is_empty()),
            self.group.as_ref().and_then(group::Machine::next_deadline),
            self.resume.as_ref().filter(|resume| !resume.asked).map(|resume| resume.not_before),
        ];
        for at in deadlines.into_iter().flatten() {
            wait = wait.min(until(now, at) + Duration::from_micros(200));
        }
        if let Some(heard) = self.links.hear(wait) {
            self.hear(heard);
        }
        self.perform_group_effects();
        self.failure.take().map_or(Ok(()), Err)
    }

    fn hear(&mut self, heard: Heard<Token>) {
        match heard {
            Heard::Wake => {}
            Heard::Answer(answer) => {
                self.trouble = None;
                match self.answered(&answer) {
                    Ok(None) => self.links.recycle(answer.frame),
                    Ok(Some(pieces)) => self.chunks.push_back(Chunk { frame: answer.frame, pieces }),
                    Err(error) => self.fail(answer.token, error),
                }
            }
            Heard::Lost(tokens, error) => {
                self.metadata.stale();
                for token in tokens {
                    self.fail(token, error.again());
                }
            }
        }
    }

    /// Takes an answer in; gives the pieces of one that holds records.
    fn answered(&mut self, answer: &Answer<Token>) -> Result<Option<VecDeque<Piece>>> {
        let now = self.clock.now();
        match &answer.token {
            Token::Fetch(token) => return self.fetched(now, *token, answer),
            Token::Metadata => {
                let response = answer.parse::<MetadataRequest<'_>>()?;
                self.metadata.apply(now, wire::snapshot(&response));
                self.links.learn(self.metadata.brokers());
                self.spread();
                self.count_partitions(now);
            }
            Token::ListOffsets(token, parts) => {
                let response = answer.parse::<ListOffsetsRequest<'_>>()?;
                let found = wire::listed(&response).filter_map(|(topic, partition, code, offset)| {
                    let part = parts.iter().find(|part| part.1 == partition && *part.0 == *topic)?;
                    Some((part.2, code, offset))
                });
                let answers: Vec<(Slot, ErrorCode, i64)> = found.collect();
                self.machine.listed(now, *token, &answers, &mut self.effects);
            }
            Token::FindCoordinator => self.found(now, answer)?,
            Token::Join => {
                let response = answer.parse::<JoinGroupRequest<'_>>()?;
                self.tell_group(now, group::Event::Joined(wire::joined(&response)));
            }
            Token::Sync => {
                let response = answer.parse::<SyncGroupRequest<'_>>()?;
                self.tell_group(now, group::Event::Synced(response.error_code, response.assignment.to_vec()));
            }
            Token::Heartbeat => {
                let response = answer.parse::<HeartbeatRequest<'_>>()?;
                self.tell_group(now, group::Event::Heartbeat(response.error_code));
            }
            Token::Leave => self.left = true,
            Token::Committed(term) => self.resumed(now, *term, answer)?,
            Token::Commit(id) => {
                let response = answer.parse::<OffsetCommitRequest<'_>>()?;
                let refused = response.topics.iter().flat_map(|topic| {
                    topic.partitions.iter().map(|part| (topic.name, part.partition_index, part.error_code))
                });
                let refused = refused.filter(|(_, _, code)| !code.is_ok()).map(|(topic, partition, code)| {
                    (code, Error::kafka(format!("commit of {topic}-{partition}"), code))
                });
                let refused: Option<(ErrorCode, Error)> = refused.into_iter().next();
                if let Some((code, _)) = &refused {
                    self.known.clear();
                    self.tell_group(now, group::Event::CommitRefused(*code));
                }
                self.committed = Some((*id, refused.map_or(Ok(()), |(_, error)| Err(error))));
            }
        }
        Ok(None)
    }

    fn fetched(&mut self, now: Mono, token: u64, answer: &Answer<Token>) -> Result<Option<VecDeque<Piece>>> {
        let response = answer.parse::<FetchRequest<'_>>()?;
        let parts = wire::fetched(&response)?;
        let useful = self.machine.fetched(now, token, &parts, &mut self.effects);
        let start = answer.frame.as_ptr().addr();
        let pieces: VecDeque<Piece> = useful
            .into_iter()
            .map(|useful| {
                let records = parts[useful.index].records;
                let at = records.as_ptr().addr() - start;
                Piece { useful, bytes: at..at + records.len(), next: useful.from }
            })
            .collect();
        Ok(Some(pieces).filter(|pieces| !pieces.is_empty()))
    }

    /// A request has no answer, or one that is of no use.
    fn fail(&mut self, token: Token, error: Error) {
        let now = self.clock.now();
        match token {
            Token::Fetch(token) | Token::ListOffsets(token, _) => self.machine.lost(now, token, &mut self.effects),
            Token::Metadata => self.metadata.failed(),
            Token::FindCoordinator => {
                self.tell_group(now, group::Event::NoCoordinator(ErrorCode::COORDINATOR_NOT_AVAILABLE));
            }
            Token::Join | Token::Sync | Token::Heartbeat => self.tell_group(now, group::Event::Disconnected),
            Token::Leave => self.left = true,
            Token::Committed(term) => self.retry_resume(now, term),
            Token::Commit(id) => {
                self.known.clear();
                self.committed = Some((id, Err(error)));
                return;
            }
        }
        self.trouble = Some(error);
    }

    fn perform(&mut self, effect: Effect) {
        let patience = self.links.settings().request_timeout;
        match effect {
            Effect::WantMetadata => self.metadata.stale(),
            Effect::Failed { slot, code } => {
                let (topic, partition) = self.machine.name(slot);
                self.failure = Some(Error::kafka(format!("{topic}-{partition}"), code));
            }
            Effect::Fetch(fetch) => {
                let limits = &self.config.limits;
                let patience = patience + Duration::from_millis(limits.wait_ms.into());
                let request = wire::fetch(&fetch, limits);
                let to = To::Broker(fetch.broker);
                if let Err((token, error)) = self.links.send(to, &request, Token::Fetch(fetch.token), patience) {
                    self.fail(token, error);
                }
            }
            Effect::ListOffsets(list) => {
                let asked: Vec<(&str, i32, i64)> =
                    list.parts.iter().map(|part| (&*part.topic, part.partition, part.timestamp)).collect();
                let parts =
                    list.parts.iter().map(|part| (Arc::clone(&part.topic), part.partition, part.slot)).collect();
                let token = Token::ListOffsets(list.token, parts);
                let request = wire::list_offsets(&asked);
                if let Err((token, error)) = self.links.send(To::Broker(list.broker), &request, token, patience) {
                    self.fail(token, error);
                }
            }
        }
    }

    fn ask_metadata(&mut self, now: Mono) {
        let topics = self.topics.iter();
        let topics = topics.map(|name| MetadataRequestTopic { name: Some(name), ..Default::default() }).collect();
        let request =
            MetadataRequest { topics: Some(topics), allow_auto_topic_creation: false, ..MetadataRequest::default() };
        self.metadata.asked(now);
        let patience = self.links.settings().request_timeout;
        if let Err((token, error)) = self.links.send(To::Any, &request, Token::Metadata, patience) {
            self.fail(token, error);
        }
    }

    /// Tells the machine what metadata says of leaders.
    fn spread(&mut self) {
        for slot in self.machine.slots() {
            let (topic, partition) = self.machine.name(slot);
            let known = self.metadata.partition(topic, partition);
            let (leader, epoch) = known.map_or((None, -1), |known| (known.leader, known.leader_epoch));
            self.machine.set_leader(slot, leader, epoch);
        }
        for name in &self.topics {
            let Some(topic) = self.metadata.topic(name) else { continue };
            // A topic that is not there (yet) is waited for.
            if !topic.code.is_ok() && !topic.code.retriable() {
                self.failure = Some(Error::kafka(format!("topic {name}"), topic.code));
            }
        }
    }
}

/// Membership.
impl Consumer {
    fn tell_group(&mut self, now: Mono, event: group::Event) {
        let mut effects = Vec::new();
        if let Some(group) = &mut self.group {
            group.handle(now, event, &mut effects);
        }
        self.group_effects.extend(effects);
    }

    fn perform_group_effects(&mut self) {
        while let Some(effect) = self.group_effects.pop_front() {
            self.perform_group(effect);
        }
    }

    fn perform_group(&mut self, effect: group::Effect) {
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

    fn revoke(&mut self) {
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

    fn found(&mut self, now: Mono, answer: &Answer<Token>) -> Result<()> {
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
    fn count_partitions(&mut self, now: Mono) {
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
    fn ask_committed(&mut self, now: Mono) {
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

    fn retry_resume(&mut self, now: Mono, term: u64) {
        if let Some(resume) = self.resume.as_mut().filter(|resume| resume.term == term) {
            resume.asked = false;
            resume.not_before = now.plus_ms(self.config.limits.retry_backoff_ms);
        }
    }

    fn resumed(&mut self, now: Mono, term: u64, answer: &Answer<Token>) -> Result<()> {
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

    fn auto_commit(&mut self, now: Mono) {
        let every = self.config.auto_commit.unwrap_or_default();
        self.commit_due = now.plus_ms(u64::try_from(every.as_millis()).unwrap_or(u64::MAX).max(10));
        // What fails now is committed with the next one.
        if let Err(error) = self.send_commit() {
            self.trouble = Some(error);
        }
    }

    /// Sends a commit of what was consumed since the last one; gives its number, or `None` when there is nothing.
    fn send_commit(&mut self) -> Result<Option<u64>> {
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

/// How the records of a piece are read.
struct Reading<'a> {
    topic: &'a Arc<str>,
    partition: i32,
    check_crc: bool,
    limits: &'a Limits,
}

impl Reading<'_> {
    /// Gives records until the piece's end or a break; `piece` then says what is left.
    fn give(
        &self,
        frame: &[u8],
        piece: &mut Piece,
        scratch: &mut Vec<u8>,
        take: &mut impl FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> (usize, Result<ControlFlow<()>>) {
        let mut count = 0;
        loop {
            let bytes = &frame[piece.bytes.clone()];
            // What does not parse as a batch at the end is one that was cut off.
            let Ok((batch, rest)) = BatchView::first(bytes) else { return (count, Ok(ControlFlow::Continue(()))) };
            if batch.last_offset() >= piece.next && !batch.is_control() {
                match self.batch(&batch, &mut piece.next, scratch, take, &mut count) {
                    Ok(ControlFlow::Continue(())) => {}
                    other => return (count, other),
                }
            }
            piece.next = piece.next.max(batch.last_offset().saturating_add(1));
            piece.bytes.start = piece.bytes.end - rest.len();
        }
    }

    fn batch(
        &self,
        batch: &BatchView<'_>,
        next: &mut i64,
        scratch: &mut Vec<u8>,
        take: &mut impl FnMut(Record<'_>) -> ControlFlow<()>,
        count: &mut usize,
    ) -> Result<ControlFlow<()>> {
        let base = batch.base_offset();
        let damaged =
            |source| Error::Record { topic: self.topic.to_string(), partition: self.partition, offset: base, source };
        if self.check_crc {
            batch.verify_crc(&checksums()).map_err(damaged)?;
        }
        let payload = if batch.codec() == Codec::None {
            batch.payload()
        } else {
            scratch.clear();
            decompress(batch.codec(), batch.payload(), self.limits.batch_bytes_max, scratch).map_err(|source| {
                Error::Compression { topic: self.topic.to_string(), partition: self.partition, offset: base, source }
            })?;
            scratch
        };
        for record in Records::new(payload, batch.count()) {
            let record = record.map_err(damaged)?;
            let offset = base.wrapping_add(record.offset_delta.into());
            if offset < *next {
                continue;
            }
            let timestamp = if batch.is_append_time() {
                batch.max_timestamp()
            } else {
                batch.base_timestamp().wrapping_add(record.timestamp_delta)
            };
            *next = offset.saturating_add(1);
            *count += 1;
            let flow = take(Record {
                topic: self.topic,
                partition: self.partition,
                offset,
                timestamp,
                key: record.key,
                value: record.value,
                headers: record.headers,
            });
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use protocol::batch::{BatchBuilder, Header, Producer, stamp};

    /// A partition's part of an answer: `batches` of 100 records each.
    fn frame(batches: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for batch in 0..batches {
            let mut builder = BatchBuilder::new();
            for record in 0..100i64 {
                let headers = [Header { key: b"h", value: None }];
                builder.append(record, Some(&record.to_be_bytes()), Some(&[7; 1024]), &headers);
            }
            let mut one = builder.finish(Producer::NONE, &checksums()).to_vec();
            stamp(&mut one, base::Offset(batch * 100), base::Epoch(0)).unwrap();
            bytes.extend(one);
        }
        bytes
    }

    fn piece(bytes: usize, from: i64) -> (Machine, Piece) {
        let mut machine = Machine::new(Limits::default());
        machine.assign(&[("t".into(), 0, Start::Offset(from))]);
        machine.set_leader(Slot(0), Some(1), 0);
        let mut out = Vec::new();
        machine.poll(Mono(0), 0, &mut out);
        let Some(Effect::Fetch(fetch)) = out.pop() else { panic!("{out:?}") };
        let records = frame(1);
        let part = crate::consumer::Fetched {
            topic: "t",
            partition: 0,
            code: ErrorCode::NONE,
            high_watermark: 0,
            records: &records,
        };
        let useful = machine.fetched(Mono(0), fetch.token, &[part], &mut out).pop().unwrap();
        (machine, Piece { useful, bytes: 0..bytes, next: from })
    }

    #[test]
    fn reading_allocates_nothing_per_record() {
        let frame = frame(50);
        let (machine, mut piece) = piece(frame.len(), 5);
        let (topic, partition) = machine.name(Slot(0));
        let reading = Reading { topic, partition, check_crc: true, limits: machine.limits() };
        let mut scratch = Vec::new();
        let (mut count, mut next) = (0, 5);
        let info = allocation_counter::measure(|| {
            let (given, flow) = reading.give(&frame, &mut piece, &mut scratch, &mut |record| {
                assert_eq!(record.offset, next);
                next += 1;
                ControlFlow::Continue(())
            });
            assert!(flow.is_ok());
            count = given;
        });
        assert_eq!(count, 4995);
        assert_eq!(info.count_total, 0);
    }

    #[test]
    fn a_break_resumes_behind_the_record() {
        let frame = frame(2);
        let (machine, mut piece) = piece(frame.len(), 0);
        let (topic, partition) = machine.name(Slot(0));
        let reading = Reading { topic, partition, check_crc: true, limits: machine.limits() };
        let mut offsets = Vec::new();
        for stop in [0, 1, 99, 100, 198] {
            let (_, flow) = reading.give(&frame, &mut piece, &mut Vec::new(), &mut |record| {
                offsets.push(record.offset);
                if record.offset == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert!(flow.unwrap().is_break());
        }
        let (rest, _) = reading.give(&frame, &mut piece, &mut Vec::new(), &mut |_| ControlFlow::Continue(()));
        assert_eq!(rest, 1);
        assert_eq!(offsets, (0..=198).collect::<Vec<i64>>());
    }
}
