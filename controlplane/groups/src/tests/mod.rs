//! The coordinator against a log in memory.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test that panics has failed, and its numbers are small"
)]

extern crate std;

mod consumers;
mod consumers_random;
mod joining;
mod offsets;
mod random;
mod snapshots;
mod statics;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::string::String;
use std::vec;

use base::image::{Image, TimestampType, TopicConfig, TopicEntry};
use base::{Epoch, JournalId, Mono, Now, PartitionId, ShardId, TopicId, WallMs};

use crate::*;

pub(crate) const SLOTS: u32 = 4;

/// One coordinator, its clock, its log, and the answers it gave.
pub(crate) struct World {
    pub(crate) machine: Coordinator,
    pub(crate) now: Now,
    pub(crate) replies: BTreeMap<Token, Reply>,
    /// Handed out and not reported yet.
    pub(crate) flying: VecDeque<(Slot, AppendId, Arc<[Record]>)>,
    /// Durable records.
    pub(crate) log: Vec<(Slot, Record)>,
    pub(crate) tokens: u64,
    /// Id of the topics that are committed to.
    pub(crate) topic_id: TopicId,
    /// The topics there are.
    pub(crate) image: Image,
}

/// What most joins look like.
pub(crate) fn joins<'a>(group: &'a str, member: &'a str) -> Join<'a> {
    Join {
        group,
        member,
        instance: None,
        client_id: "client",
        host: "/127.0.0.1",
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer",
        protocols: vec![("range", b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"), ("sticky", b"\0\0\0\0\0\x01\0\x01t")],
        id_required: false,
        can_skip_assignment: false,
        random: 0,
    }
}

fn settings() -> TopicConfig {
    TopicConfig {
        retention_ms: -1,
        retention_bytes: -1,
        compaction: None,
        max_message_bytes: 1 << 20,
        timestamp_type: TimestampType::Create,
        timestamp_before_ms_max: i64::MAX,
        timestamp_after_ms_max: i64::MAX,
        min_insync_replicas: 1,
    }
}

pub(crate) fn who<'a>(group: &'a str, id: &'a str, generation: i32) -> Member<'a> {
    Member { group, generation, id, instance: None }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        let mut world = Self {
            machine: Coordinator::new(config),
            now: Now { mono: Mono(1), wall: WallMs(1_000_000) },
            replies: BTreeMap::new(),
            flying: VecDeque::new(),
            log: Vec::new(),
            tokens: 0,
            topic_id: TopicId(7),
            image: Image::empty(),
        };
        world.machine.set_slots(SLOTS);
        world.load(1);
        world
    }

    /// A new process: everything but the durable log is lost.
    pub(crate) fn restart(&mut self, config: Config) {
        self.machine = Coordinator::new(config);
        self.machine.set_slots(SLOTS);
        self.flying.clear();
        self.load(2);
        self.event(Event::Image(Arc::new(self.image.clone())));
    }

    /// A topic is made, or has so many partitions now; 0 deletes it.
    pub(crate) fn topic(&mut self, name: &str, partitions: usize) -> TopicId {
        self.image.generation += 1;
        let before = self.image.topics.remove(name);
        // Made anew it has another id.
        let id = before.as_ref().map_or(TopicId(1000 + u128::from(self.image.generation)), |before| before.id);
        self.image.topics_by_id.remove(&id);
        if partitions > 0 {
            let partition = base::image::PartitionEntry {
                id: PartitionId(0),
                journal: JournalId(0),
                shard: ShardId(0),
                epoch: Epoch(1),
            };
            let entry = Arc::new(TopicEntry {
                id,
                name: name.into(),
                internal: name.starts_with("__"),
                config: Arc::new(settings()),
                partitions: vec![partition; partitions].into(),
            });
            self.image.topics.insert(entry.name.clone(), entry.clone());
            self.image.topics_by_id.insert(id, entry);
        }
        self.event(Event::Image(Arc::new(self.image.clone())));
        id
    }

    pub(crate) fn load(&mut self, epoch: i32) {
        for slot in (0..SLOTS).map(Slot) {
            self.event(Event::LoadStarted { slot, epoch: Epoch(epoch) });
            for record in self.log.iter().filter(|(at, _)| *at == slot).map(|(_, record)| record.clone()) {
                self.machine.handle(self.now, Event::Replayed { slot, record }, &mut Vec::new());
            }
            self.event(Event::Loaded(slot));
        }
    }

    pub(crate) fn event(&mut self, event: Event<'_>) {
        let mut out = Vec::new();
        self.machine.handle(self.now, event, &mut out);
        for effect in out {
            match effect {
                Effect::Reply(token, reply) => {
                    assert!(self.replies.insert(token, reply).is_none(), "{token:?} is answered twice");
                }
                Effect::Append { slot, id, records, .. } => {
                    assert!(!records.is_empty());
                    self.flying.push_back((slot, id, records));
                }
            }
        }
    }

    pub(crate) fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    /// Sends a request.
    pub(crate) fn ask<'a>(&mut self, event: impl FnOnce(Token) -> Event<'a>) -> Token {
        let token = self.token();
        self.event(event(token));
        token
    }

    /// Makes everything handed out durable, and what that brings.
    pub(crate) fn durable(&mut self) {
        while let Some((slot, upto, records)) = self.flying.pop_front() {
            self.log.extend(records.iter().map(|record| (slot, record.clone())));
            self.event(Event::Appended { slot, upto });
        }
    }

    /// Fails everything handed out.
    pub(crate) fn fail(&mut self, error: Error) {
        while let Some((slot, upto, _)) = self.flying.pop_front() {
            self.event(Event::AppendFailed { slot, upto, error });
        }
    }

    /// Lets time pass, deadline by deadline.
    pub(crate) fn pass(&mut self, ms: u64) {
        let end = self.now.mono.plus_ms(ms);
        while let Some(next) = self.machine.next_deadline().filter(|next| *next <= end) {
            self.advance_to(next.max(self.now.mono));
            self.event(Event::Tick);
        }
        self.advance_to(end);
    }

    fn advance_to(&mut self, to: Mono) {
        let passed = (to.0 / 1_000_000) as i64 - (self.now.mono.0 / 1_000_000) as i64;
        self.now = Now { mono: to, wall: WallMs(self.now.wall.0 + passed) };
    }

    pub(crate) fn reply(&mut self, token: Token) -> Reply {
        self.replies.remove(&token).expect("answered")
    }

    pub(crate) fn waits(&self, token: Token) -> bool {
        !self.replies.contains_key(&token)
    }

    pub(crate) fn join(&mut self, mut join: Join<'_>) -> Token {
        join.random = u128::from(self.tokens) + 1;
        self.ask(|token| Event::Join(token, join))
    }

    pub(crate) fn joined(&mut self, token: Token) -> Result<JoinReply, (Error, String)> {
        match self.reply(token) {
            Reply::Join(result) => result.map_err(|(error, member)| (error, member.as_ref().into())),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn sync(&mut self, member: Member<'_>, assignments: Vec<(&str, &[u8])>) -> Token {
        self.ask(|token| Event::Sync(token, Sync { member, protocol_type: None, protocol: None, assignments }))
    }

    pub(crate) fn synced(&mut self, token: Token) -> Result<Vec<u8>, Error> {
        match self.reply(token) {
            Reply::Sync(result) => result.map(|reply| reply.assignment.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn heartbeat(&mut self, member: Member<'_>) -> Result<(), Error> {
        let token = self.ask(|token| Event::Heartbeat(token, member));
        match self.reply(token) {
            Reply::Heartbeat(result) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn leave(&mut self, group: &str, id: &str) -> Result<(), Error> {
        let members = vec![LeaveMember { id, instance: None }];
        let token = self.ask(|token| Event::Leave(token, Leave { group, members }));
        match self.reply(token) {
            Reply::Leave(result) => result.and_then(|mut left| left.remove(0).result),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn commit(&mut self, member: Member<'_>, topic: &str, partition: i32, offset: i64) -> Token {
        let partition = CommitPartition { index: partition, offset, leader_epoch: 3, metadata: "note", refused: None };
        let topics = vec![CommitTopic { name: topic, id: self.topic_id, partitions: vec![partition] }];
        self.ask(|token| Event::Commit(token, Commit { member, by_epoch: false, topics }))
    }

    pub(crate) fn committed(&mut self, token: Token) -> Result<Vec<RejectedCommit>, Error> {
        match self.reply(token) {
            Reply::Commit(result) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn offset(&self, group: &str, topic: &str, partition: i32) -> i64 {
        self.machine.fetch(group, topic, partition).unwrap().offset
    }

    pub(crate) fn state(&self, group: &str) -> &'static str {
        self.machine.describe(group).map_or("Dead", |described| described.state)
    }

    pub(crate) fn delete(&mut self, group: &str) -> Token {
        self.ask(|token| Event::DeleteGroups(token, vec![group]))
    }

    pub(crate) fn deleted(&mut self, token: Token) -> Result<(), Error> {
        match self.reply(token) {
            Reply::DeleteGroups(mut results) => results.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// A group of `count` members with assignments; ids in order of arrival, the first leads.
    pub(crate) fn stable(&mut self, group: &str, count: usize) -> (Vec<String>, i32) {
        let tokens: Vec<_> = (0..count).map(|_| self.join(joins(group, ""))).collect();
        self.pass(1_000);
        let joined: Vec<_> = tokens.into_iter().map(|token| self.joined(token).unwrap()).collect();
        let ids: Vec<String> = joined.iter().map(|reply| reply.member.as_ref().into()).collect();
        let generation = joined[0].generation;
        let assignments = ids.iter().map(|id| (id.as_str(), id.as_bytes())).collect();
        let mut tokens = vec![self.sync(who(group, &ids[0], generation), assignments)];
        tokens.extend(ids[1..].iter().map(|id| self.sync(who(group, id, generation), vec![])));
        self.durable();
        for (id, token) in ids.iter().zip(tokens) {
            assert_eq!(self.synced(token).unwrap(), id.as_bytes());
        }
        assert_eq!(self.state(group), "Stable");
        (ids, generation)
    }
}
