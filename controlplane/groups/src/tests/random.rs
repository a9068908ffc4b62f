//! Random operations: nothing panics, and the promises of the protocol hold.

use alloc::collections::BTreeSet;
use std::format;
use std::string::ToString as _;

use super::*;

/// SplitMix64.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

/// What a client knows. It may be wrong about all of it.
#[derive(Clone, Default)]
struct Client {
    id: String,
    generation: i32,
    leader_of: Vec<String>,
}

const GROUPS: u64 = 3;
const CLIENTS: usize = 5;
const PARTITIONS: u64 = 3;

struct Play {
    world: World,
    dice: Dice,
    clients: BTreeMap<(u64, usize), Client>,
    /// Requests without an answer: who asked what.
    open: BTreeMap<Token, Asked>,
    /// How often a group has vanished: generations of the next one begin anew.
    eras: BTreeMap<u64, u32>,
    /// (group, era, generation) → which of the leader's attempts was given out.
    given: BTreeMap<(u64, u32, i32), u64>,
    /// (group, era, generation, member) → what it was told.
    told: BTreeMap<(u64, u32, i32, String), Vec<u8>>,
    attempts: u64,
    commits: i64,
    /// The lowest offset that may be seen: acked, or seen before.
    floor: BTreeMap<(u64, i32), i64>,
    /// Commits up to this one may be deleted: that was asked for after them.
    doomed: BTreeMap<u64, i64>,
    acked: u64,
    stable: u64,
}

enum Asked {
    Join(u64, usize),
    Sync(u64, usize, i32, String, u32),
    Commit(u64, i32, i64),
    Other,
}

fn config() -> Config {
    let hour = 3_600_000;
    Config {
        members_max: 4,
        initial_rebalance_delay_ms: 50,
        retention_check_interval_ms: 6 * hour,
        ..Config::default()
    }
}

fn name(group: u64) -> String {
    format!("group {group}")
}

impl Play {
    fn new(seed: u64) -> Self {
        Self {
            world: World::with(config()),
            dice: Dice(seed),
            clients: BTreeMap::new(),
            open: BTreeMap::new(),
            eras: BTreeMap::new(),
            given: BTreeMap::new(),
            told: BTreeMap::new(),
            attempts: 0,
            commits: 0,
            floor: BTreeMap::new(),
            doomed: BTreeMap::new(),
            acked: 0,
            stable: 0,
        }
    }

    fn step(&mut self) {
        let (group, at) = (self.dice.roll(GROUPS), self.dice.roll(CLIENTS as u64) as usize);
        match self.dice.roll(100) {
            0..18 => self.join(group, at),
            18..50 => self.sync(group, at),
            50..60 => self.heartbeat(group, at),
            60..62 => self.leave(group, at),
            62..78 => self.commit(group, at),
            78..88 => {
                let ms = [1, 60, 1_000, 12_000][self.dice.roll(4) as usize];
                self.world.pass(ms);
            }
            88..95 => self.settle(),
            95 => self.delete(group),
            96 => self.delete_topic(),
            97 => self.restart(),
            98 => self.fence(group),
            _ => self.world.pass(400_000),
        }
        self.look();
    }

    fn join(&mut self, group: u64, at: usize) {
        let client = self.clients.entry((group, at)).or_default().clone();
        let group_name = name(group);
        let instance = format!("static {at}");
        let mut join = joins(&group_name, if self.dice.one_in(4) { "" } else { &client.id });
        // Clients 0 and 1 are static members.
        join.instance = (at < 2).then_some(&instance);
        join.id_required = self.dice.one_in(2);
        join.can_skip_assignment = self.dice.one_in(2);
        if self.dice.one_in(8) {
            join.protocols.reverse();
        }
        if self.dice.one_in(30) {
            join.protocols.truncate(1);
        }
        join.rebalance_timeout_ms = [0, 5_000, 60_000][self.dice.roll(3) as usize];
        let token = self.world.join(join);
        self.open.insert(token, Asked::Join(group, at));
    }

    fn sync(&mut self, group: u64, at: usize) {
        let client = self.clients.entry((group, at)).or_default().clone();
        self.attempts += 1;
        let assignments: Vec<(String, Vec<u8>)> =
            client.leader_of.iter().map(|id| (id.clone(), format!("{} {id}", self.attempts).into_bytes())).collect();
        let assignments = assignments.iter().map(|(id, bytes)| (id.as_str(), bytes.as_slice())).collect();
        let group_name = name(group);
        let token = self.world.sync(who(&group_name, &client.id, client.generation), assignments);
        let era = self.eras.get(&group).copied().unwrap_or(0);
        self.open.insert(token, Asked::Sync(group, at, client.generation, client.id, era));
    }

    fn heartbeat(&mut self, group: u64, at: usize) {
        let client = self.clients.entry((group, at)).or_default().clone();
        let _ = self.world.heartbeat(who(&name(group), &client.id, client.generation));
    }

    fn leave(&mut self, group: u64, at: usize) {
        let client = self.clients.remove(&(group, at)).unwrap_or_default();
        let _ = self.world.leave(&name(group), &client.id);
    }

    fn commit(&mut self, group: u64, at: usize) {
        let client = self.clients.entry((group, at)).or_default().clone();
        self.commits += 1;
        let partition = self.dice.roll(PARTITIONS) as i32;
        let group_name = name(group);
        let member = if self.dice.one_in(3) {
            who(&group_name, "", -1)
        } else {
            who(&group_name, &client.id, client.generation)
        };
        let token = self.world.commit(member, "t", partition, self.commits);
        self.open.insert(token, Asked::Commit(group, partition, self.commits));
    }

    /// Some of what flies lands, or all of it fails.
    fn settle(&mut self) {
        if self.dice.one_in(6) {
            self.world.fail(Error::CoordinatorNotAvailable);
        } else if self.dice.one_in(2) {
            self.world.durable();
        } else {
            let slots: BTreeSet<Slot> = self.world.flying.iter().map(|(slot, ..)| *slot).collect();
            for slot in slots {
                // A part of the slot's appends, in order.
                let mut some = 1 + self.dice.roll(4);
                let mut upto = None;
                let mut rest = VecDeque::new();
                while let Some((at, id, records)) = self.world.flying.pop_front() {
                    if at == slot && some > 0 {
                        some -= 1;
                        self.world.log.extend(records.iter().map(|record| (slot, record.clone())));
                        upto = Some(id);
                    } else {
                        rest.push_back((at, id, records));
                    }
                }
                self.world.flying = rest;
                if let Some(upto) = upto {
                    self.world.event(Event::Appended { slot, upto });
                }
            }
        }
    }

    fn delete(&mut self, group: u64) {
        let group_name = name(group);
        let token = self.world.delete(&group_name);
        self.open.insert(token, Asked::Other);
        self.doomed.insert(group, self.commits);
    }

    fn delete_topic(&mut self) {
        let id = self.world.topic_id;
        self.world.event(Event::TopicDeleted("t", id));
        self.world.topic_id = TopicId(id.0 + 1);
        self.doomed.extend((0..GROUPS).map(|group| (group, self.commits)));
    }

    /// The process dies: requests are lost, what is durable stays.
    fn restart(&mut self) {
        self.take_replies();
        self.open.clear();
        self.world.restart(config());
        // What flew was not acked, and deletions of it may be lost as well.
    }

    /// The slot is taken over under another epoch.
    fn fence(&mut self, group: u64) {
        let slot = slot_of(&name(group), SLOTS);
        self.world.flying.retain(|(at, ..)| *at != slot);
        self.world.event(Event::Unloaded(slot));
        self.world.event(Event::LoadStarted { slot, epoch: Epoch(9) });
        for (at, record) in self.world.log.clone() {
            if at == slot {
                self.world.event(Event::Replayed { slot, record });
            }
        }
        self.world.event(Event::Loaded(slot));
    }

    /// Takes answers, and checks what is promised of them and of what can be seen.
    fn look(&mut self) {
        self.take_replies();
        for group in 0..GROUPS {
            if self.world.machine.describe(&name(group)).is_err() {
                *self.eras.entry(group).or_default() += 1;
            }
            self.stable += u64::from(self.world.state(&name(group)) == "Stable");
            for partition in 0..PARTITIONS as i32 {
                let seen = self.world.offset(&name(group), "t", partition);
                let floor = self.floor.entry((group, partition)).or_insert(-1);
                let doomed = self.doomed.get(&group).copied().unwrap_or(0);
                assert!(
                    seen >= *floor || seen == -1 && *floor <= doomed,
                    "group {group} partition {partition}: {seen} after {floor}"
                );
                *floor = seen;
            }
        }
    }

    fn take_replies(&mut self) {
        let done: Vec<Token> =
            self.open.keys().filter(|token| self.world.replies.contains_key(token)).copied().collect();
        for token in done {
            let reply = self.world.reply(token);
            match (self.open.remove(&token).unwrap(), reply) {
                (Asked::Join(group, at), Reply::Join(reply)) => self.joined(group, at, reply),
                (Asked::Sync(group, at, generation, id, era), Reply::Sync(reply)) => {
                    self.synced(group, at, generation, id, era, reply);
                }
                (Asked::Commit(group, partition, offset), Reply::Commit(reply)) => {
                    if reply.is_ok() {
                        self.acked += 1;
                        let seen = self.world.offset(&name(group), "t", partition);
                        let doomed = self.doomed.get(&group).copied().unwrap_or(0);
                        assert!(seen >= offset || seen == -1 && offset <= doomed, "acked {offset}, seen {seen}");
                    }
                }
                (Asked::Other, _) => {}
                (_, reply) => panic!("{reply:?}"),
            }
        }
    }

    fn joined(&mut self, group: u64, at: usize, reply: Result<JoinReply, (Error, Arc<str>)>) {
        let client = self.clients.entry((group, at)).or_default();
        match reply {
            Ok(reply) => {
                client.id = reply.member.to_string();
                client.generation = reply.generation;
                let members = reply.members.iter().map(|member| member.id.to_string());
                client.leader_of = if reply.skip_assignment { Vec::new() } else { members.collect() };
                let ids: BTreeSet<_> = reply.members.iter().map(|member| &member.id).collect();
                assert_eq!(ids.len(), reply.members.len());
                assert!(reply.members.is_empty() || ids.contains(&reply.member));
                assert!(reply.members.len() <= 4);
            }
            Err((Error::MemberIdRequired, id)) => client.id = id.to_string(),
            Err((Error::UnknownMemberId | Error::FencedInstanceId, _)) => *client = Client::default(),
            Err(_) => {}
        }
    }

    /// One generation, one assignment; a member is never told two.
    fn synced(
        &mut self,
        group: u64,
        at: usize,
        generation: i32,
        id: String,
        era: u32,
        reply: Result<SyncReply, Error>,
    ) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(Error::UnknownMemberId | Error::FencedInstanceId) => {
                self.clients.remove(&(group, at));
                return;
            }
            Err(_) => return,
        };
        let text = String::from_utf8(reply.assignment.to_vec()).unwrap();
        let before = self.told.insert((group, era, generation, id.clone()), reply.assignment.to_vec());
        assert!(before.is_none_or(|before| before == *reply.assignment), "{id} told two assignments of {generation}");
        if let Some((attempt, _)) = text.split_once(' ') {
            let attempt = attempt.parse().unwrap();
            let first = *self.given.entry((group, era, generation)).or_insert(attempt);
            assert_eq!(first, attempt, "two assignments of generation {generation}");
        }
    }

    /// Everybody is answered in the end, and nothing is left of those who are silent.
    fn end(mut self) -> (u64, u64) {
        for _ in 0..10 {
            self.world.durable();
            self.world.pass(400_000);
            self.look();
        }
        self.world.durable();
        self.look();
        assert!(self.open.is_empty(), "{} requests are never answered", self.open.len());
        // Silent members are gone, and after a while their offsets are too.
        self.world.pass(8 * 24 * 3_600_000);
        self.world.durable();
        self.world.pass(13 * 3_600_000);
        self.world.durable();
        assert_eq!(self.world.machine.group_count(), 0);
        let left = self.world.machine.footprint();
        // One sweep for each slot is all that is set.
        assert_eq!((left.member_bytes, left.append_bytes, left.live_bytes), (0, 0, 0));
        assert_eq!(left.timers, SLOTS as usize);
        self.world.restart(config());
        assert_eq!(self.world.machine.group_count(), 0, "nothing comes back");
        (self.stable, self.acked)
    }
}

#[test]
fn promises_hold_under_random_operations() {
    let (mut stable, mut acked) = (0, 0);
    for seed in 0..60 {
        let result = std::panic::catch_unwind(|| {
            let mut play = Play::new(seed);
            for _ in 0..400 {
                play.step();
            }
            play.end()
        });
        let (of_stable, of_acked) = result.unwrap_or_else(|_| panic!("seed {seed}"));
        stable += of_stable;
        acked += of_acked;
    }
    // The game reaches what it is about.
    assert!(stable > 800, "{stable} looks at stable groups");
    assert!(acked > 400, "{acked} acked commits");
}
