//! Consumer groups under random operations: no partition is held by two, epochs never fall, and in the end all is assigned.

use alloc::collections::BTreeSet;
use std::format;

use super::consumers::Peer;
use super::random::Dice;
use super::*;

const PEERS: usize = 5;
const NAMES: [&str; 3] = ["t0", "t1", "u"];

/// An empty group without offsets would be forgotten, and its epochs begin anew.
fn config() -> Config {
    Config { retention_check_interval_ms: u64::MAX / 2_000_000, ..Config::default() }
}

struct Play {
    world: World,
    dice: Dice,
    peers: Vec<Peer>,
    /// Heartbeats without an answer yet.
    open: Vec<(Token, usize)>,
    epoch: i32,
    incarnations: u32,
    held: u64,
    moved: u64,
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut world = World::with(config());
        world.topic("t0", 4);
        world.topic("t1", 3);
        let mut dice = Dice(seed);
        // Half of the games with one subscription, half with several.
        let alike = dice.one_in(2);
        let peers = (0..PEERS).map(|at| Self::peer(at, alike)).collect();
        Self { world, dice, peers, open: Vec::new(), epoch: 0, incarnations: 0, held: 0, moved: 0 }
    }

    fn peer(at: usize, alike: bool) -> Peer {
        let mut peer =
            Peer::new(&format!("p{at}"), if alike || at.is_multiple_of(2) { &["t0", "t1"] } else { &["t0"] });
        if !alike && at == 4 {
            (peer.names, peer.regex) = (Vec::new(), Some("t.|u".into()));
        }
        peer.instance = (at < 2).then(|| format!("static {at}"));
        peer
    }

    fn step(&mut self) {
        let at = self.dice.roll(PEERS as u64) as usize;
        match self.dice.roll(100) {
            0..50 => self.beat(at),
            50..68 => self.apply(at),
            68..71 => self.leave(at, -1),
            71..73 => self.leave(at, -2),
            73..85 => {
                let ms = [10, 1_000, 4_000, 20_000][self.dice.roll(4) as usize];
                self.pass(ms);
            }
            85..91 => self.world.durable(),
            91..94 => self.world.fail(Error::CoordinatorNotAvailable),
            94..96 => self.change_topic(),
            96 => self.restart(),
            97 => self.new_process(at),
            98 => self.pass(50_000),
            _ => self.peers[at].assignor = Some(["range", "uniform"][self.dice.roll(2) as usize].into()),
        }
        self.look();
    }

    fn beat(&mut self, at: usize) {
        // A client waits for one answer at a time; one that it no longer waits for is lost.
        self.open.retain(|(_, other)| *other != at);
        let peer = &self.peers[at];
        let mut beat = peer.beat();
        if peer.epoch > 0 && self.dice.one_in(3) {
            // Nothing but that it lives.
            (beat.names, beat.regex, beat.owned, beat.rebalance_timeout_ms) = (None, None, None, -1);
        }
        let token = self.world.ask(|token| Event::Beat(token, beat));
        self.open.push((token, at));
        if !self.dice.one_in(4) {
            self.world.durable();
        }
        self.take(false);
    }

    /// Takes answers; some are lost on their way.
    fn take(&mut self, all: bool) {
        for (token, at) in core::mem::take(&mut self.open) {
            if self.world.waits(token) {
                self.open.push((token, at));
                continue;
            }
            let reply = self.world.beaten(token);
            if !all && self.dice.one_in(8) {
                continue;
            }
            let before = self.peers[at].held.clone();
            self.peers[at].hear(&reply);
            self.moved += u64::from(self.peers[at].held != before);
        }
    }

    fn apply(&mut self, at: usize) {
        self.moved += u64::from(self.peers[at].told.as_ref().is_some_and(|told| *told != self.peers[at].held));
        self.peers[at].apply();
    }

    /// It has stopped consuming before it says so.
    fn leave(&mut self, at: usize, epoch: i32) {
        if self.peers[at].epoch <= 0 || self.open.iter().any(|(_, other)| *other == at) {
            return;
        }
        let peer = &mut self.peers[at];
        (peer.held, peer.told) = (Partitions::new(), None);
        let epoch = if peer.instance.is_some() { epoch } else { -1 };
        let token = self.world.ask(|token| Event::Beat(token, Beat { epoch, ..peer.beat() }));
        self.world.durable();
        let _ = self.world.beaten(token);
        self.peers[at].epoch = 0;
    }

    /// The process is gone without a word; another begins under another id.
    fn new_process(&mut self, at: usize) {
        self.incarnations += 1;
        self.open.retain(|(_, other)| *other != at);
        let peer = &mut self.peers[at];
        (peer.held, peer.told, peer.epoch) = (Partitions::new(), None, 0);
        peer.id = format!("p{at} {}", self.incarnations);
    }

    fn change_topic(&mut self) {
        let name = NAMES[self.dice.roll(3) as usize];
        let count = self.world.image.topics.get(name).map_or(0, |topic| topic.partitions.len());
        let count = if self.dice.one_in(4) { 0 } else { count + 1 };
        self.world.topic(name, count.min(8));
    }

    fn restart(&mut self) {
        self.open.clear();
        self.world.replies.clear();
        self.world.restart(config());
        self.epoch = 0;
    }

    fn pass(&mut self, ms: u64) {
        self.world.pass(ms);
        if self.dice.one_in(2) {
            self.world.durable();
        }
    }

    fn look(&mut self) {
        self.take(false);
        self.check();
    }

    fn check(&mut self) {
        let mut holders: BTreeMap<(TopicId, i32), &str> = BTreeMap::new();
        // Who has been put out, for its silence or because it was slow, learns of it by its next heartbeat.
        let members = self.world.machine.describe_consumer("g").map(|described| described.members).unwrap_or_default();
        let is_in = |peer: &&Peer| members.iter().any(|member| *member.id == *peer.id);
        for peer in self.peers.iter().filter(is_in) {
            for (topic, indices) in &peer.held {
                for index in indices {
                    let other = holders.insert((*topic, *index), &peer.id);
                    assert_eq!(other, None, "{} holds {topic:?}-{index} as well", peer.id);
                    self.held += 1;
                }
            }
        }
        let Ok(described) = self.world.machine.describe_consumer("g") else {
            self.epoch = 0;
            return;
        };
        assert!(described.epoch >= self.epoch, "the group's epoch fell from {} to {}", self.epoch, described.epoch);
        assert!(described.target_epoch <= described.epoch);
        self.epoch = described.epoch;
        let mut assigned = BTreeSet::new();
        let mut targets = BTreeSet::new();
        for member in &described.members {
            assert!(member.epoch <= described.target_epoch);
            for (seen, partitions) in [(&mut assigned, &member.assignment), (&mut targets, &member.target)] {
                for (topic, indices) in partitions {
                    assert!(indices.iter().all(|index| seen.insert((*topic, *index))), "assigned twice");
                }
            }
        }
    }

    /// Everybody comes, nobody is in the way: all is assigned, evenly where all may have everything.
    fn end(mut self) -> (u64, u64) {
        self.world.durable();
        self.take(true);
        for _ in 0..4 {
            self.pass(50_000);
            self.world.durable();
            self.take(true);
        }
        self.world.topic("t0", 5);
        self.world.topic("t1", 4);
        for _ in 0..8 {
            for at in 0..PEERS {
                let token = self.world.ask(|token| Event::Beat(token, self.peers[at].beat()));
                self.open.push((token, at));
                self.world.durable();
                self.take(true);
                self.apply(at);
                self.check();
            }
        }
        assert_eq!(self.world.consumer_state("g"), "Stable");
        let wanted: usize = ["t0", "t1", "u"]
            .into_iter()
            .filter(|name| *name != "u" || self.peers[4].regex.is_some())
            .filter_map(|name| self.world.image.topics.get(name))
            .map(|topic| topic.partitions.len())
            .sum();
        let loads: Vec<usize> =
            self.peers.iter().map(|peer| peer.held.values().map(BTreeSet::len).sum::<usize>()).collect();
        assert_eq!(loads.iter().sum::<usize>(), wanted, "all is assigned");
        let described = self.world.machine.describe_consumer("g").unwrap();
        if self.peers[4].regex.is_none() && described.assignor == "uniform" {
            assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{loads:?}");
        }
        let before = (described.epoch, self.peers.iter().map(|peer| peer.held.clone()).collect::<Vec<_>>());
        self.restart();
        for at in 0..PEERS {
            let token = self.world.ask(|token| Event::Beat(token, self.peers[at].beat()));
            self.open.push((token, at));
            self.world.durable();
            self.take(true);
            self.apply(at);
        }
        let epoch = self.world.machine.describe_consumer("g").unwrap().epoch;
        assert_eq!(
            (epoch, self.peers.iter().map(|peer| peer.held.clone()).collect()),
            before,
            "a restart moves nothing"
        );
        (self.held, self.moved)
    }
}

#[test]
fn no_partition_is_held_by_two() {
    let (mut held, mut moved) = (0, 0);
    for seed in 0..150 {
        let result = std::panic::catch_unwind(|| {
            let mut play = Play::new(seed);
            for _ in 0..400 {
                play.step();
            }
            play.end()
        });
        let (of_held, of_moved) = result.unwrap_or_else(|_| panic!("seed {seed}"));
        held += of_held;
        moved += of_moved;
    }
    // The game reaches what it is about.
    assert!(held > 50_000, "{held} partitions seen held");
    assert!(moved > 1_000, "{moved} assignments taken up");
}
