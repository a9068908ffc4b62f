//! Sequences of what clients, time, the log and restarts do to consumer groups.
//!
//! The first byte's bit 0 says that the log begins with records made from the input, as a broker might find them: then nothing
//! may panic. Without it the promises of the protocol hold, too: each request is answered once, members are not too many and
//! told apart, and committed offsets go back only where that was asked for. What follows are steps: a byte says which
//! ([`Play::step`]), a byte who, and what else the step takes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{Epoch, Mono, Now, TopicId, WallMs};
use groups::{
    AppendId, Commit, CommitPartition, CommitTopic, Config, Coordinator, DeleteOffsets, DeleteTopic, Effect, Error,
    Event, GroupValue, Join, JoinReply, Leave, LeaveMember, Member, MemberValue, OffsetValue, Record, Reply, Slot,
    Sync, Token, slot_of,
};

use crate::input::Input;

const SLOTS: u32 = 2;
const GROUPS: [&str; 3] = ["g", "group", "another"];
const CLIENTS: usize = 5;
const PARTITIONS: i32 = 2;
const MEMBERS_MAX: usize = 4;
/// Steps of one input at most: 400 of a few microseconds each.
const STEPS_MAX: usize = 400;
/// Kafka's names of the states of a group, of every kind.
const STATES: [&str; 7] =
    ["Empty", "Assigning", "Reconciling", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"];

/// What a client believes. It may be wrong about all of it.
#[derive(Clone, Default)]
struct Client {
    id: String,
    generation: i32,
    leader_of: Vec<String>,
}

/// What a request without an answer was about.
enum Asked {
    Join(usize, usize),
    Commit { group: usize, partition: i32, offset: i64 },
    Other,
}

struct Play {
    machine: Coordinator,
    now: Now,
    flying: VecDeque<(Slot, AppendId, Arc<[Record]>)>,
    /// Durable records.
    log: Vec<(Slot, Record)>,
    tokens: u64,
    open: BTreeMap<Token, Asked>,
    clients: BTreeMap<(usize, usize), Client>,
    topic: TopicId,
    commits: i64,
    /// The lowest offset that may be seen: acked, or seen before.
    floor: BTreeMap<(usize, i32), i64>,
    /// Commits up to this one may be gone: that was asked for after them.
    doomed: [i64; GROUPS.len()],
    /// Whether the log holds what this machine never wrote.
    strange: bool,
}

fn config() -> Config {
    Config {
        members_max: MEMBERS_MAX,
        initial_rebalance_delay_ms: 50,
        // Longer than the time that passes in an input: what expires is asked for by nobody.
        offsets_retention_ms: 1000 * 86_400_000,
        ..Config::default()
    }
}

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut play = Play::new(&mut input);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        play.step(&mut input);
        play.look();
    }
    play.end();
}

impl Play {
    fn new(input: &mut Input<'_>) -> Self {
        let strange = input.byte() & 1 != 0;
        let mut play = Self {
            machine: Coordinator::new(config()),
            now: Now { mono: Mono(1), wall: WallMs(1_000_000) },
            flying: VecDeque::new(),
            log: Vec::new(),
            tokens: 0,
            open: BTreeMap::new(),
            clients: BTreeMap::new(),
            topic: TopicId(7),
            commits: 0,
            floor: BTreeMap::new(),
            doomed: [0; GROUPS.len()],
            strange,
        };
        if strange {
            for _ in 0..input.byte() % 8 {
                let group = input.pick(&GROUPS);
                play.log.push((slot_of(group, SLOTS), stored(group, input)));
            }
        }
        play.start();
        play
    }

    /// A step by its number. New ones go to the end, so that inputs keep their meaning.
    fn step(&mut self, input: &mut Input<'_>) {
        let step = input.byte();
        let who = usize::from(input.byte());
        let (group, at) = (who % GROUPS.len(), who / GROUPS.len() % CLIENTS);
        match step % 16 {
            0 | 1 => self.join(group, at, input),
            2 | 3 => self.sync(group, at, input),
            4 => self.heartbeat(group, at),
            5 => self.leave(group, at, input),
            6 | 7 => self.commit(group, at, input),
            8 => self.pass([1, 60, 1000, 12_000][usize::from(input.byte() % 4)]),
            9 => self.pass(400_000),
            10 | 11 => self.settle(input),
            12 => self.fail(),
            13 => self.delete(group, input),
            14 => self.restart(),
            _ => self.take_over(group),
        }
    }

    fn event(&mut self, event: Event<'_>) {
        let mut out = Vec::new();
        self.machine.handle(self.now, event, &mut out);
        for effect in out {
            match effect {
                Effect::Reply(token, reply) => {
                    let asked = self.open.remove(&token);
                    self.answered(asked.expect("an answer to a request that waits for one"), reply);
                }
                Effect::Append { slot, id, records, .. } => {
                    assert!(!records.is_empty(), "an append of nothing");
                    self.flying.push_back((slot, id, records));
                }
            }
        }
    }

    fn ask<'a>(&mut self, asked: Asked, event: impl FnOnce(Token) -> Event<'a>) {
        self.tokens += 1;
        let token = Token(self.tokens);
        self.open.insert(token, asked);
        self.event(event(token));
    }

    fn client(&mut self, group: usize, at: usize) -> Client {
        self.clients.entry((group, at)).or_default().clone()
    }

    fn join(&mut self, group: usize, at: usize, input: &mut Input<'_>) {
        let client = self.client(group, at);
        let how = input.byte();
        let mut protocols: Vec<(&str, &[u8])> =
            vec![("range", b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"), ("sticky", b"\0\0\0\0\0\x01\0\x01t")];
        if how & 1 != 0 {
            protocols.reverse();
        }
        if how & 2 != 0 {
            protocols.truncate(1);
        }
        if how & 4 != 0 {
            protocols[0].1 = input.take(16);
        }
        let instance = format!("static {at}");
        let join = Join {
            group: GROUPS[group],
            member: if how & 8 != 0 { "" } else { &client.id },
            // Clients 0 and 1 are static members.
            instance: (at < 2).then_some(instance.as_str()),
            client_id: "client",
            host: "/127.0.0.1",
            session_timeout_ms: if how & 16 != 0 { 6000 } else { 30_000 },
            rebalance_timeout_ms: [0, 5000, 60_000, -1][usize::from(how >> 6)],
            protocol_type: "consumer",
            protocols,
            id_required: how & 32 != 0,
            can_skip_assignment: how & 16 != 0,
            random: u128::from(self.tokens) + 1,
        };
        self.ask(Asked::Join(group, at), |token| Event::Join(token, join));
    }

    fn sync(&mut self, group: usize, at: usize, input: &mut Input<'_>) {
        let client = self.client(group, at);
        let bytes = input.take(2);
        let assignments = client.leader_of.iter().map(|id| (id.as_str(), bytes)).collect();
        let member = who(group, &client);
        let sync = Sync { member, protocol_type: None, protocol: None, assignments };
        self.ask(Asked::Other, |token| Event::Sync(token, sync));
    }

    fn heartbeat(&mut self, group: usize, at: usize) {
        let client = self.client(group, at);
        self.ask(Asked::Other, |token| Event::Heartbeat(token, who(group, &client)));
    }

    fn leave(&mut self, group: usize, at: usize, input: &mut Input<'_>) {
        let client = self.client(group, at);
        let instance = format!("static {at}");
        let by_instance = at < 2 && input.byte() & 1 != 0;
        let member = LeaveMember {
            id: if by_instance { "" } else { &client.id },
            instance: by_instance.then_some(instance.as_str()),
        };
        let leave = Leave { group: GROUPS[group], members: vec![member] };
        self.ask(Asked::Other, |token| Event::Leave(token, leave));
        self.clients.remove(&(group, at));
    }

    fn commit(&mut self, group: usize, at: usize, input: &mut Input<'_>) {
        let client = self.client(group, at);
        let how = input.byte();
        self.commits += 1;
        let (partition, offset) = (i32::from(how) % PARTITIONS, self.commits);
        let alone = Member { group: GROUPS[group], generation: -1, id: "", instance: None };
        let member = if how & 4 != 0 { alone } else { who(group, &client) };
        let what = CommitPartition { index: partition, offset, leader_epoch: 3, metadata: "note", refused: None };
        let topics = vec![CommitTopic { name: "t", id: self.topic, partitions: vec![what] }];
        let asked = Asked::Commit { group, partition, offset };
        self.ask(asked, |token| Event::Commit(token, Commit { member, by_epoch: true, topics }));
    }

    /// Lets time pass, deadline by deadline.
    fn pass(&mut self, ms: u64) {
        let end = self.now.mono.plus_ms(ms);
        let mut ticks = 0;
        while let Some(next) = self.machine.next_deadline().filter(|next| *next <= end) {
            self.advance(next.max(self.now.mono));
            self.event(Event::Tick);
            ticks += 1;
            assert!(ticks < 10_000, "deadlines without end");
        }
        self.advance(end);
    }

    fn advance(&mut self, to: Mono) {
        let passed = i64::try_from(to.0 / 1_000_000 - self.now.mono.0 / 1_000_000).expect("little time");
        self.now = Now { mono: to, wall: WallMs(self.now.wall.0 + passed) };
    }

    /// Some of what flies becomes durable, each slot in its order.
    fn settle(&mut self, input: &mut Input<'_>) {
        let count = usize::from(input.byte()) % 8;
        for _ in 0..if count == 0 { self.flying.len() } else { count } {
            let Some((slot, upto, records)) = self.flying.pop_front() else { return };
            self.log.extend(records.iter().map(|record| (slot, record.clone())));
            self.event(Event::Appended { slot, upto });
        }
    }

    /// What flies is not taken.
    fn fail(&mut self) {
        for (slot, upto, _) in std::mem::take(&mut self.flying) {
            self.event(Event::AppendFailed { slot, upto, error: Error::CoordinatorNotAvailable });
        }
    }

    fn delete(&mut self, group: usize, input: &mut Input<'_>) {
        match input.byte() % 3 {
            0 => {
                self.doomed[group] = self.commits;
                self.ask(Asked::Other, |token| Event::DeleteGroups(token, vec![GROUPS[group]]));
            }
            1 => {
                self.doomed[group] = self.commits;
                let topics = vec![DeleteTopic { name: "t", partitions: vec![0], refused: None }];
                let delete = DeleteOffsets { group: GROUPS[group], topics };
                self.ask(Asked::Other, |token| Event::DeleteOffsets(token, delete));
            }
            _ => {
                self.doomed = [self.commits; GROUPS.len()];
                self.event(Event::TopicDeleted("t", self.topic));
                self.topic = TopicId(self.topic.0 + 1);
            }
        }
    }

    /// The process dies: requests are lost, what is durable stays.
    fn restart(&mut self) {
        self.open.clear();
        self.flying.clear();
        self.start();
    }

    fn start(&mut self) {
        self.machine = Coordinator::new(config());
        self.machine.set_slots(SLOTS);
        for slot in (0..SLOTS).map(Slot) {
            self.load(slot);
        }
    }

    fn load(&mut self, slot: Slot) {
        self.event(Event::LoadStarted { slot, epoch: Epoch(2) });
        let records: Vec<Record> = self.log.iter().filter(|(at, _)| *at == slot).map(|(_, r)| r.clone()).collect();
        for record in records {
            self.event(Event::Replayed { slot, record });
        }
        self.event(Event::Loaded(slot));
    }

    /// The group's slot goes away and comes back, as when its journal was fenced.
    fn take_over(&mut self, group: usize) {
        let slot = slot_of(GROUPS[group], SLOTS);
        self.flying.retain(|(at, ..)| *at != slot);
        self.event(Event::Unloaded(slot));
        self.load(slot);
    }

    fn answered(&mut self, asked: Asked, reply: Reply) {
        match (asked, reply) {
            (Asked::Join(group, at), Reply::Join(reply)) => self.joined(group, at, reply),
            (Asked::Commit { group, partition, offset }, Reply::Commit(Ok(_))) => {
                let seen = self.offset(group, partition);
                assert!(self.allowed(group, seen, offset), "committed {offset}, seen {seen}");
            }
            _ => {}
        }
    }

    fn joined(&mut self, group: usize, at: usize, reply: Result<JoinReply, (Error, Arc<str>)>) {
        let client = self.clients.entry((group, at)).or_default();
        match reply {
            Ok(reply) => {
                client.id = reply.member.as_ref().into();
                client.generation = reply.generation;
                let ids: Vec<String> = reply.members.iter().map(|member| member.id.as_ref().into()).collect();
                client.leader_of = if reply.skip_assignment { Vec::new() } else { ids.clone() };
                let mut distinct = ids.clone();
                distinct.sort();
                distinct.dedup();
                assert_eq!(distinct.len(), ids.len(), "a member twice");
                assert!(ids.is_empty() || ids.contains(&client.id), "a leader that is no member");
                assert!(self.strange || ids.len() <= MEMBERS_MAX, "{} members", ids.len());
            }
            Err((Error::MemberIdRequired, id)) => client.id = id.as_ref().into(),
            Err((Error::UnknownMemberId | Error::FencedInstanceId, _)) => *client = Client::default(),
            Err(_) => {}
        }
    }

    fn offset(&self, group: usize, partition: i32) -> i64 {
        self.machine.fetch(GROUPS[group], "t", partition).map_or(-1, |found| found.offset)
    }

    fn allowed(&self, group: usize, seen: i64, floor: i64) -> bool {
        self.strange || seen >= floor || seen == -1 && floor <= self.doomed[group]
    }

    /// What can be seen from outside.
    fn look(&mut self) {
        for (group, name) in GROUPS.into_iter().enumerate() {
            if let Ok(described) = self.machine.describe(name) {
                assert!(self.strange || described.members.len() <= MEMBERS_MAX);
            }
            for partition in 0..PARTITIONS {
                let seen = self.offset(group, partition);
                let floor = self.floor.get(&(group, partition)).copied().unwrap_or(-1);
                assert!(self.allowed(group, seen, floor), "{name}-{partition}: {seen} after {floor}");
                self.floor.insert((group, partition), seen);
            }
        }
        for listed in self.machine.list(&[], &[]).unwrap_or_default() {
            assert!(STATES.contains(&listed.state), "state {}", listed.state);
        }
    }

    /// In the end all is answered, and a restart brings the same offsets.
    fn end(&mut self) {
        for _ in 0..4 {
            self.settle(&mut Input::new(&[]));
            // The longest session and rebalance timeouts that were asked for, and what a new member waits.
            self.pass(400_000);
            self.look();
        }
        self.settle(&mut Input::new(&[]));
        assert!(self.strange || self.open.is_empty(), "{} requests are never answered", self.open.len());
        let offsets = |play: &Self| {
            let all = (0..GROUPS.len()).flat_map(|group| (0..PARTITIONS).map(move |partition| (group, partition)));
            all.map(|(group, partition)| play.offset(group, partition)).collect::<Vec<i64>>()
        };
        let before = offsets(self);
        self.restart();
        assert!(self.strange || offsets(self) == before, "offsets after a restart");
    }
}

fn who<'a>(group: usize, client: &'a Client) -> Member<'a> {
    Member { group: GROUPS[group], generation: client.generation, id: &client.id, instance: None }
}

/// A record as it might stand in the log, whoever wrote it.
fn stored(group: &str, input: &mut Input<'_>) -> Record {
    let how = input.byte();
    let number = |input: &mut Input<'_>| match input.byte() {
        255 => i32::MAX,
        254 => i32::MIN,
        byte => i32::from(byte) - 2,
    };
    if how & 1 == 0 {
        let offset = i64::from(number(input));
        let committed = WallMs(if how & 4 != 0 { i64::MIN } else { i64::from(number(input)) });
        let value = OffsetValue { offset, leader_epoch: -1, metadata: "".into(), committed, topic_id: TopicId::ZERO };
        let value = (how & 2 == 0).then_some(value);
        return Record::Offset { group: group.into(), topic: "t".into(), partition: i32::from(how >> 7), value };
    }
    let members = (0..how >> 4 & 7).map(|at| MemberValue {
        id: format!("m{}", at / 2).into(),
        instance: (how & 8 != 0).then(|| "static 0".into()),
        client_id: "".into(),
        host: "".into(),
        rebalance_timeout_ms: number(input),
        session_timeout_ms: number(input),
        subscription: input.take(2).into(),
        assignment: input.take(1).into(),
    });
    let members: Vec<MemberValue> = members.collect();
    let value = GroupValue {
        protocol_type: if how & 4 != 0 { "" } else { "consumer" }.into(),
        generation: number(input),
        protocol: (how & 128 == 0).then(|| "range".into()),
        leader: members.first().map(|member| member.id.clone()),
        since: WallMs(i64::from(number(input))),
        members,
    };
    Record::Group { group: group.into(), value: (how & 2 == 0).then(|| Arc::new(value)) }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // Two members of one group join, share out, commit, heartbeat, leave; the log settles between.
    let stable = [
        &[0u8][..],
        &[0, 6, 0x80, 0, 9, 0x80, 8, 6, 1, 8, 6, 2],
        &[2, 6, 1, 1, 2, 9, 1, 1, 10, 0, 0],
        &[6, 6, 0, 6, 9, 1, 10, 0, 0, 4, 6, 4, 9],
    ]
    .concat();
    let with = |tail: &[u8]| [&stable[..], tail].concat();
    vec![
        stable.clone(),
        with(&[5, 6, 0, 8, 9, 3, 9, 9]),
        with(&[14, 0, 4, 6, 6, 9, 4, 12, 0, 6, 6, 0, 10, 0, 0]),
        with(&[13, 0, 0, 13, 0, 1, 13, 0, 2, 10, 0, 0, 15, 0]),
        with(&[14, 0, 0, 6, 0x88, 8, 0, 3, 14, 0]),
        // Static members that come back.
        [&[0, 0, 0, 0x80, 0, 3, 0xa0, 8, 0, 1, 8, 0, 2, 2, 0, 7, 7, 10, 0, 0, 0, 0, 0x88, 8, 0, 2, 2, 0, 9, 9][..]]
            .concat(),
        // Commits without members.
        vec![0, 6, 0, 4, 6, 1, 5, 6, 2, 4, 10, 0, 0, 14, 0, 9, 0, 13, 0, 1, 10, 0, 0],
        // Stored records of nobody's making.
        vec![1, 3, 0, 0x20, 3, 3, 9, 9, 9, 255, 1, 0, 1, 7, 8, 0, 17, 4, 4, 4, 4, 1, 255, 9, 0, 0, 0, 8, 0, 3],
        vec![1, 2, 0, 2, 0, 3, 5, 5, 0, 0, 0, 6, 0, 4, 10, 0, 0],
    ]
}
