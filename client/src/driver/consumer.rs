//! The consumer over TCP: everything happens in [`Consumer::poll`], in the caller's thread.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use protocol::error::ErrorCode;
use protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::messages::{
    FetchRequest, HeartbeatRequest, JoinGroupRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    SyncGroupRequest,
};

use super::link::{Answer, Heard, Links, To};
use super::{Clock, Settings, until};
use crate::consumer::{Effect, Limits, Machine, Slot, Start};
use crate::error::{Error, Result};
use crate::group;
use crate::metadata::Metadata;
use crate::wire;

mod membership;
mod reading;

pub use reading::Record;
use reading::{Piece, Reading};

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
