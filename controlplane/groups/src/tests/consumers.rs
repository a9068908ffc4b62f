//! Consumer groups (KIP-848), step by step.

use std::string::ToString;

use super::*;

/// A client of a consumer group: what it believes, and what it holds.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) id: String,
    pub(super) epoch: i32,
    pub(super) instance: Option<String>,
    pub(super) names: Vec<String>,
    pub(super) regex: Option<String>,
    pub(super) assignor: Option<String>,
    /// What it consumes.
    pub(super) held: Partitions,
    /// What it has been told to consume and does not yet.
    pub(super) told: Option<Partitions>,
}

impl Peer {
    pub(super) fn new(id: &str, names: &[&str]) -> Self {
        Self {
            id: id.into(),
            epoch: 0,
            instance: None,
            names: names.iter().map(ToString::to_string).collect(),
            regex: None,
            assignor: None,
            held: Partitions::new(),
            told: None,
        }
    }

    fn by_regex(id: &str, regex: &str) -> Self {
        Self { regex: Some(regex.into()), ..Self::new(id, &[]) }
    }

    fn fixed(id: &str, instance: &str, names: &[&str]) -> Self {
        Self { instance: Some(instance.into()), ..Self::new(id, names) }
    }

    /// A heartbeat that says everything.
    pub(super) fn beat(&self) -> Beat<'_> {
        Beat {
            group: "g",
            member: &self.id,
            epoch: self.epoch,
            instance: self.instance.as_deref(),
            rack: Some("rack"),
            rebalance_timeout_ms: 60_000,
            names: Some(self.names.iter().map(String::as_str).collect()),
            regex: self.regex.as_deref(),
            assignor: self.assignor.as_deref(),
            owned: Some(if self.epoch == 0 { Partitions::new() } else { self.held.clone() }),
            client_id: "client",
            host: "/127.0.0.1",
        }
    }

    /// Gives up and takes up what it was told to.
    pub(super) fn apply(&mut self) {
        if let Some(told) = self.told.take() {
            self.held = told;
        }
    }

    fn holds(&self, topic: TopicId) -> Vec<i32> {
        self.held.get(&topic).into_iter().flatten().copied().collect()
    }

    pub(super) fn hear(&mut self, reply: &Result<BeatReply, Refused>) {
        match reply {
            Ok(reply) => {
                self.epoch = reply.epoch;
                if let Some(assignment) = &reply.assignment {
                    // What is new it takes up at once: until then it would say that it does not hold it, which to the
                    // coordinator is to have given it up. What it is to give up takes a while.
                    for (topic, indices) in assignment {
                        self.held.entry(*topic).or_default().extend(indices);
                    }
                    self.told = Some(assignment.clone());
                }
            }
            Err((Error::FencedMemberEpoch | Error::UnknownMemberId | Error::GroupIdNotFound, _)) => {
                (self.epoch, self.told, self.held) = (0, None, Partitions::new());
            }
            Err(_) => {}
        }
    }
}

impl World {
    /// Sends a heartbeat, makes durable what it brings, and gives the answer.
    pub(super) fn beat(&mut self, beat: Beat<'_>) -> Result<BeatReply, Refused> {
        let token = self.ask(|token| Event::Beat(token, beat));
        self.durable();
        self.beaten(token)
    }

    pub(super) fn beaten(&mut self, token: Token) -> Result<BeatReply, Refused> {
        match self.reply(token) {
            Reply::Beat(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn say(&mut self, peer: &mut Peer) -> Result<BeatReply, Refused> {
        let reply = self.beat(peer.beat());
        peer.hear(&reply);
        reply
    }

    /// Heartbeats and changes until nothing changes any more.
    pub(super) fn calm(&mut self, peers: &mut [&mut Peer]) {
        for _ in 0..6 {
            for peer in &mut *peers {
                self.say(peer).unwrap();
                peer.apply();
            }
        }
        assert_eq!(self.consumer_state("g"), "Stable");
    }

    pub(super) fn consumer_state(&self, group: &str) -> &'static str {
        self.machine.describe_consumer(group).map_or("Dead", |described| described.state)
    }

    fn error(&mut self, change: impl FnOnce(&mut Beat<'_>)) -> Error {
        let peer = Peer::new("m", &["t"]);
        let mut beat = peer.beat();
        change(&mut beat);
        self.beat(beat).unwrap_err().0
    }
}

#[test]
fn a_first_member_gets_everything_and_is_answered_when_that_is_durable() {
    let mut world = World::new();
    let topic = world.topic("t", 3);
    let mut peer = Peer::new("a", &["t", "missing"]);
    let token = world.ask(|token| Event::Beat(token, peer.beat()));
    assert!(world.waits(token), "not before it is durable");
    world.durable();
    let reply = world.beaten(token);
    peer.hear(&reply);
    let reply = reply.unwrap();
    assert_eq!((reply.epoch, reply.interval_ms, &*reply.member), (1, 5000, "a"));
    assert_eq!(reply.assignment, Some(Partitions::from([(topic, (0..3).collect())])));
    peer.apply();
    let mut short = peer.beat();
    (short.names, short.rebalance_timeout_ms) = (None, -1);
    let reply = world.beat(short).unwrap();
    assert_eq!((reply.epoch, reply.assignment), (1, None), "nothing new");
    let described = world.machine.describe_consumer("g").unwrap();
    assert_eq!((described.state, described.epoch, described.target_epoch), ("Stable", 1, 1));
    assert_eq!((described.assignor, described.members.len()), ("uniform", 1));
    assert_eq!(described.members[0].assignment, described.members[0].target);
    assert_eq!(world.machine.describe("g"), Err(Error::GroupIdNotFound), "it is not a classic group");
    let listed = world.machine.list(&[], &["consumer"]).unwrap();
    assert_eq!((listed[0].kind, listed[0].protocol_type.as_ref(), listed[0].state), ("consumer", "consumer", "Stable"));
    assert!(world.machine.list(&[], &["classic"]).unwrap().is_empty());
}

#[test]
fn a_partition_goes_to_another_only_when_its_holder_has_given_it_up() {
    let mut world = World::new();
    let topic = world.topic("t", 4);
    let (mut a, mut b) = (Peer::new("a", &["t"]), Peer::new("b", &["t"]));
    world.calm(&mut [&mut a]);
    world.say(&mut b).unwrap();
    b.apply();
    assert_eq!((b.epoch, b.holds(topic).len()), (2, 0), "in the new epoch, without partitions yet");
    assert_eq!(world.consumer_state("g"), "Reconciling");
    world.say(&mut a).unwrap();
    assert_eq!(a.epoch, 1, "it stays in its epoch until it has given up");
    assert_eq!(a.told.as_ref().unwrap()[&topic].len(), 2);
    world.say(&mut b).unwrap();
    assert_eq!(b.told.as_ref().map(BTreeMap::len), Some(0));
    a.apply();
    world.say(&mut a).unwrap();
    assert_eq!(a.epoch, 2);
    world.say(&mut b).unwrap();
    b.apply();
    let mut all = [a.holds(topic), b.holds(topic)].concat();
    all.sort_unstable();
    assert_eq!((all, a.holds(topic).len()), (vec![0, 1, 2, 3], 2));
    assert_eq!(world.consumer_state("g"), "Stable");
}

/// KAFKA-16147: epochs of partitions were lost when one came back to a member before it had given it up.
#[test]
fn a_partition_that_comes_back_before_it_is_given_up_has_one_holder() {
    let mut world = World::new();
    let topic = world.topic("t", 2);
    let (mut a, mut b) = (Peer::new("a", &["t"]), Peer::new("b", &["t"]));
    world.calm(&mut [&mut a]);
    world.say(&mut b).unwrap();
    world.say(&mut a).unwrap();
    assert_eq!(a.told.as_ref().unwrap()[&topic].len(), 1, "it is to give one up");
    // The one it was for leaves before.
    world.beat(Beat { epoch: -1, ..b.beat() }).unwrap();
    let mut c = Peer::new("c", &["t"]);
    world.say(&mut c).unwrap();
    c.apply();
    assert_eq!(c.holds(topic), [], "a has given up nothing yet");
    a.apply();
    world.say(&mut a).unwrap();
    a.apply();
    world.calm(&mut [&mut a, &mut c]);
    let mut all = [a.holds(topic), c.holds(topic)].concat();
    all.sort_unstable();
    assert_eq!(all, [0, 1]);
    // And without anybody else: it gets it back in one step.
    let mut d = Peer::new("d", &["t"]);
    world.beat(Beat { epoch: -1, ..c.beat() }).unwrap();
    world.calm(&mut [&mut a]);
    world.say(&mut d).unwrap();
    world.say(&mut a).unwrap();
    world.beat(Beat { epoch: -1, ..d.beat() }).unwrap();
    a.apply();
    let reply = world.say(&mut a).unwrap();
    assert_eq!(reply.assignment.map(|all| all[&topic].len()), Some(2));
    assert_eq!(world.consumer_state("g"), "Stable");
}

#[test]
fn who_does_not_give_up_in_time_is_put_out() {
    let mut world = World::new();
    world.topic("t", 2);
    let (mut a, mut b) = (Peer::new("a", &["t"]), Peer::new("b", &["t"]));
    world.calm(&mut [&mut a]);
    world.say(&mut b).unwrap();
    for _ in 0..3 {
        world.say(&mut a).unwrap();
        world.say(&mut b).unwrap();
        world.pass(19_000);
    }
    assert_eq!(a.epoch, 1);
    world.pass(4_000);
    world.durable();
    assert_eq!(world.beat(a.beat()).unwrap_err().0, Error::UnknownMemberId);
    world.calm(&mut [&mut b]);
    assert_eq!(b.held.values().map(alloc::collections::BTreeSet::len).sum::<usize>(), 2);
}

#[test]
fn who_is_silent_is_put_out_and_may_come_again() {
    let mut world = World::new();
    world.topic("t", 2);
    let mut a = Peer::new("a", &["t"]);
    world.calm(&mut [&mut a]);
    world.pass(44_000);
    world.say(&mut a).unwrap();
    world.pass(44_000);
    assert_eq!(world.consumer_state("g"), "Stable", "heard in between");
    world.pass(2_000);
    world.durable();
    assert_eq!(world.consumer_state("g"), "Empty");
    assert_eq!(world.say(&mut a).unwrap_err().0, Error::UnknownMemberId);
    let reply = world.say(&mut a).unwrap();
    assert!(reply.epoch > 1, "epochs go on: {}", reply.epoch);
}

#[test]
fn epochs_that_cannot_be_are_fenced_and_lost_answers_are_repeated() {
    let mut world = World::new();
    let topic = world.topic("t", 2);
    let mut a = Peer::new("a", &["t"]);
    let first = world.say(&mut a).unwrap();
    a.epoch = 0;
    assert_eq!(world.say(&mut a).unwrap(), first, "the same to a join whose answer was lost");
    a.apply();
    let mut b = Peer::new("b", &["t"]);
    world.say(&mut b).unwrap();
    world.say(&mut a).unwrap();
    a.apply();
    // The answer to this is lost: it is in epoch 2 and does not know.
    world.beat(a.beat()).unwrap();
    assert_eq!((a.epoch, world.machine.describe_consumer("g").unwrap().members[0].epoch), (1, 2));
    let told = world.beat(a.beat()).unwrap();
    assert_eq!(told.epoch, 2);
    let too_much = Some(Partitions::from([(topic, (0..2).collect())]));
    for (epoch, owned) in [(3, Some(a.held.clone())), (1, too_much), (1, None)] {
        let beat = Beat { epoch, owned, ..a.beat() };
        assert_eq!(world.beat(beat).unwrap_err().0, Error::FencedMemberEpoch, "{epoch}");
    }
}

#[test]
fn requests_that_break_a_rule_are_refused_by_name() {
    let mut world = World::with(Config { consumer_members_max: 1, ..Config::default() });
    let topic = world.topic("t", 1);
    for change in [
        (|beat| beat.group = "") as fn(&mut Beat<'_>),
        |beat| beat.member = "",
        |beat| beat.instance = Some(""),
        |beat| beat.rack = Some(""),
        |beat| beat.rebalance_timeout_ms = -1,
        |beat| beat.owned = None,
        |beat| beat.names = None,
        |beat| (beat.epoch, beat.instance) = (-3, Some("i")),
    ] {
        assert_eq!(world.error(change), Error::InvalidRequest);
    }
    let owned = Some(Partitions::from([(topic, [0].into())]));
    assert_eq!(world.error(|beat| beat.owned = owned), Error::InvalidRequest, "who joins holds nothing");
    assert_eq!(world.error(|beat| beat.assignor = Some("sticky")), Error::UnsupportedAssignor);
    assert_eq!(world.error(|beat| beat.regex = Some("(")), Error::InvalidRegularExpression);
    assert_eq!(world.error(|beat| beat.epoch = 1), Error::GroupIdNotFound);
    assert_eq!(world.error(|beat| beat.epoch = -1), Error::GroupIdNotFound);
    assert_eq!(world.machine.group_count(), 0, "what was refused leaves nothing");
    world.say(&mut Peer::new("a", &["t"])).unwrap();
    assert_eq!(world.error(|beat| beat.epoch = 1), Error::UnknownMemberId);
    assert_eq!(world.error(|beat| beat.epoch = -1), Error::UnknownMemberId);
    assert_eq!(world.error(|_| {}), Error::GroupMaxSizeReached);
    assert_eq!(world.error(|beat| (beat.epoch, beat.member) = (-2, "a")), Error::InvalidRequest, "no static member");
    assert_eq!(world.beat(Peer::new("a", &["t"]).beat()).unwrap().epoch, 1, "who is in may come again");
}

#[test]
fn topics_that_come_grow_and_go_change_the_assignment() {
    let mut world = World::new();
    let first = world.topic("a1", 2);
    world.topic("b", 1);
    let internal = world.topic("__internal", 1);
    let mut by_regex = Peer::by_regex("a", "a.*|__.*");
    world.calm(&mut [&mut by_regex]);
    let held = Partitions::from([(first, (0..2).collect()), (internal, [0].into())]);
    assert_eq!(by_regex.held, held, "internal topics are described like others");
    let second = world.topic("a2", 1);
    world.calm(&mut [&mut by_regex]);
    assert_eq!(by_regex.holds(second), [0], "made after the join");
    world.topic("a2", 3);
    world.calm(&mut [&mut by_regex]);
    assert_eq!(by_regex.holds(second), [0, 1, 2]);
    world.topic("a1", 0);
    world.calm(&mut [&mut by_regex]);
    assert_eq!(by_regex.held.len(), 2, "a1 is no more");
    let anew = world.topic("a1", 1);
    assert_ne!(anew, first);
    world.calm(&mut [&mut by_regex]);
    assert_eq!(by_regex.holds(anew), [0], "another topic of the name");
    by_regex.regex = Some(String::new());
    by_regex.names = vec!["b".into()];
    world.calm(&mut [&mut by_regex]);
    assert_eq!(by_regex.held.len(), 1);
    assert!(by_regex.holds(second).is_empty());
}

#[test]
fn a_static_member_that_comes_back_has_its_partitions_and_nobody_else_moves() {
    let mut world = World::new();
    world.topic("t", 4);
    let (mut a, mut b) = (Peer::fixed("a1", "a", &["t"]), Peer::fixed("b1", "b", &["t"]));
    world.calm(&mut [&mut a, &mut b]);
    let (epoch, held) = (world.machine.describe_consumer("g").unwrap().epoch, a.held.clone());
    let mut thief = Peer::fixed("a2", "a", &["t"]);
    assert_eq!(world.beat(thief.beat()).unwrap_err().0, Error::UnreleasedInstanceId);
    world.beat(Beat { epoch: -2, ..a.beat() }).unwrap();
    world.say(&mut b).unwrap();
    world.say(&mut thief).unwrap();
    thief.apply();
    assert_eq!(thief.held, held);
    assert_eq!(world.machine.describe_consumer("g").unwrap().epoch, epoch, "no rebalance");
    assert_eq!(world.say(&mut a).unwrap_err().0, Error::FencedInstanceId, "the one it replaced");
    // Away for too long, and without its instance id: some clients leave it out.
    world.beat(Beat { epoch: -2, instance: None, ..thief.beat() }).unwrap();
    for _ in 0..3 {
        world.pass(20_000);
        world.say(&mut b).unwrap();
        b.apply();
    }
    world.calm(&mut [&mut b]);
    assert_eq!(b.held.values().next().unwrap().len(), 4);
    // By an administrator.
    let members = vec![LeaveMember { id: "", instance: Some("b") }];
    let token = world.ask(|token| Event::Leave(token, Leave { group: "g", members }));
    world.durable();
    match world.reply(token) {
        Reply::Leave(Ok(left)) => assert_eq!(left[0].result, Ok(())),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.consumer_state("g"), "Empty");
}

#[test]
fn members_choose_the_assignor() {
    let mut world = World::new();
    let (one, two) = (world.topic("t1", 3), world.topic("t2", 3));
    let mut peers = ["a", "b"].map(|id| Peer { assignor: Some("range".into()), ..Peer::new(id, &["t1", "t2"]) });
    let [a, b] = &mut peers;
    world.calm(&mut [a, b]);
    assert_eq!((a.holds(one), a.holds(two), b.holds(one), b.holds(two)), (vec![0, 1], vec![0, 1], vec![2], vec![2]));
    assert_eq!(world.machine.describe_consumer("g").unwrap().assignor, "range");
}

fn commit(world: &mut World, id: &str, epoch: i32, topic: TopicId, by_epoch: bool) -> Result<(), Error> {
    let partition = CommitPartition { index: 0, offset: 5, leader_epoch: -1, metadata: "", refused: None };
    let topics = vec![CommitTopic { name: "t", id: topic, partitions: vec![partition] }];
    let member = who("g", id, epoch);
    let token = world.ask(|token| Event::Commit(token, Commit { member, by_epoch, topics }));
    world.durable();
    world.committed(token).map(|_| ())
}

#[test]
fn members_commit_with_the_epoch_in_which_they_hold_a_partition() {
    let mut world = World::new();
    let topic = world.topic("t", 1);
    assert_eq!(commit(&mut world, "a", 1, topic, true), Err(Error::GroupIdNotFound));
    assert_eq!(commit(&mut world, "a", 1, topic, false), Err(Error::IllegalGeneration));
    let mut a = Peer::new("a", &["t"]);
    world.calm(&mut [&mut a]);
    assert_eq!(commit(&mut world, "a", 1, topic, true), Ok(()));
    assert_eq!(commit(&mut world, "a", 1, topic, false), Err(Error::UnsupportedVersion));
    assert_eq!(commit(&mut world, "b", 1, topic, true), Err(Error::UnknownMemberId));
    assert_eq!(commit(&mut world, "", -1, topic, true), Err(Error::UnknownMemberId), "members have it");
    assert_eq!(commit(&mut world, "a", 2, topic, true), Err(Error::StaleMemberEpoch));
    let mut b = Peer::new("b", &["t"]);
    world.calm(&mut [&mut a, &mut b]);
    assert_eq!((a.epoch, a.holds(topic).len()), (2, 1));
    assert_eq!(commit(&mut world, "a", 1, topic, true), Ok(()), "held since then");
    assert_eq!(commit(&mut world, "b", 1, topic, true), Err(Error::StaleMemberEpoch));
    assert_eq!(world.machine.check_fetch("g", Some("a"), 2), Ok(()));
    assert_eq!(world.machine.check_fetch("g", Some("a"), 1), Err(Error::StaleMemberEpoch));
    assert_eq!(world.machine.check_fetch("g", Some("x"), 1), Err(Error::UnknownMemberId));
    assert_eq!(world.machine.check_fetch("g", None, -1), Ok(()));
    for peer in [&a, &b] {
        world.beat(Beat { epoch: -1, ..peer.beat() }).unwrap();
    }
    assert_eq!(commit(&mut world, "", -1, topic, true), Ok(()), "nobody is there");
    assert_eq!(world.offset("g", "t", 0), 5);
}

#[test]
fn groups_change_their_protocol_when_they_have_no_members() {
    let mut world = World::new();
    world.topic("t", 1);
    let (ids, generation) = world.stable("g", 1);
    assert_eq!(
        world.beat(Peer::new("a", &["t"]).beat()).unwrap_err().0,
        Error::GroupIdNotFound,
        "a classic member is in"
    );
    let token = world.commit(who("g", &ids[0], generation), "t", 0, 7);
    world.durable();
    world.committed(token).unwrap();
    world.leave("g", &ids[0]).unwrap();
    world.durable();
    let mut a = Peer::new("a", &["t"]);
    world.calm(&mut [&mut a]);
    assert_eq!(world.offset("g", "t", 0), 7, "offsets stay");
    world.restart(Config::default());
    assert_eq!(world.consumer_state("g"), "Stable");
    let token = world.join(joins("g", ""));
    assert_eq!(world.joined(token).unwrap_err().0, Error::InconsistentGroupProtocol);
    assert_eq!(world.heartbeat(who("g", "a", 1)), Err(Error::UnknownMemberId));
    world.beat(Beat { epoch: -1, ..a.beat() }).unwrap();
    let (ids, _) = world.stable("g", 1);
    assert_eq!((world.state("g"), world.offset("g", "t", 0)), ("Stable", 7));
    assert_eq!(world.beat(a.beat()).unwrap_err().0, Error::GroupIdNotFound);
    world.restart(Config::default());
    assert_eq!(world.state("g"), "Stable", "it is classic again");
    world.leave("g", &ids[0]).unwrap();
}

#[test]
fn everything_is_there_after_a_restart_and_members_go_on() {
    let mut world = World::new();
    let topic = world.topic("t", 4);
    let mut peers = [Peer::new("a", &["t"]), Peer::fixed("b", "b", &["t"]), Peer::by_regex("c", "t")];
    let [a, b, c] = &mut peers;
    world.calm(&mut [a, b, c]);
    let before = world.machine.describe_consumer("g").unwrap();
    world.restart(Config::default());
    assert_eq!(world.machine.describe_consumer("g").unwrap(), before);
    for peer in [a, b, c] {
        let (epoch, held) = (peer.epoch, peer.held.clone());
        let reply = world.say(peer).unwrap();
        assert_eq!((reply.epoch, reply.assignment), (epoch, Some(held)));
    }
    assert_eq!(world.machine.describe_consumer("g").unwrap(), before, "nothing moves");
    // A topic grew while the broker was down.
    let restarted = |world: &mut World| {
        world.topic("t", 6);
        world.restart(Config::default());
    };
    restarted(&mut world);
    let [a, b, c] = &mut peers;
    world.calm(&mut [a, b, c]);
    assert_eq!([a, b, c].map(|peer| peer.holds(topic).len()), [2, 2, 2]);
    // Members that do not come back are put out.
    world.restart(Config::default());
    world.pass(46_000);
    world.durable();
    assert_eq!(world.consumer_state("g"), "Empty");
}

#[test]
fn what_could_not_be_stored_is_refused_and_goes_with_the_next() {
    let mut world = World::new();
    world.topic("t", 2);
    let mut a = Peer::new("a", &["t"]);
    let token = world.ask(|token| Event::Beat(token, a.beat()));
    let again = world.ask(|token| Event::Beat(token, a.beat()));
    world.fail(Error::CoordinatorNotAvailable);
    for token in [token, again] {
        assert_eq!(world.beaten(token).unwrap_err().0, Error::CoordinatorNotAvailable);
    }
    world.calm(&mut [&mut a]);
    let before = world.machine.describe_consumer("g").unwrap();
    world.restart(Config::default());
    assert_eq!(world.machine.describe_consumer("g").unwrap(), before);
}

#[test]
fn a_group_is_deleted_when_it_is_empty_and_does_not_come_back() {
    let mut world = World::new();
    let topic = world.topic("t", 1);
    let mut a = Peer::new("a", &["t"]);
    world.calm(&mut [&mut a]);
    commit(&mut world, "a", 1, topic, true).unwrap();
    let token = world.delete("g");
    assert_eq!(world.deleted(token), Err(Error::NonEmptyGroup));
    let delete =
        DeleteOffsets { group: "g", topics: vec![DeleteTopic { name: "t", partitions: vec![0], refused: None }] };
    let token = world.ask(|token| Event::DeleteOffsets(token, delete.clone()));
    assert_eq!(world.reply(token), Reply::DeleteOffsets(Ok(vec![vec![Err(Error::GroupSubscribedToTopic)]])));
    world.beat(Beat { epoch: -1, ..a.beat() }).unwrap();
    let token = world.delete("g");
    assert_eq!(world.consumer_state("g"), "Dead");
    assert_eq!(world.beat(Peer::new("b", &["t"]).beat()).unwrap_err().0, Error::CoordinatorNotAvailable);
    world.durable();
    assert_eq!(world.deleted(token), Ok(()));
    assert_eq!(world.machine.group_count(), 0);
    world.restart(Config::default());
    assert_eq!(world.machine.group_count(), 0, "nor after a restart");
}

#[test]
fn an_empty_group_without_offsets_is_forgotten_in_time() {
    let mut world = World::new();
    let topic = world.topic("t", 1);
    let mut a = Peer::new("a", &["t"]);
    world.calm(&mut [&mut a]);
    commit(&mut world, "a", 1, topic, true).unwrap();
    let week = 7 * 24 * 3_600_000;
    for _ in 0..week / 40_000 + 100 {
        world.pass(40_000);
        world.say(&mut a).unwrap();
    }
    assert_eq!(world.offset("g", "t", 0), 5, "a topic that is consumed keeps its offsets");
    world.beat(Beat { epoch: -1, ..a.beat() }).unwrap();
    world.pass(2_000_000);
    world.durable();
    assert_eq!(world.machine.group_count(), 0);
    let left = world.machine.footprint();
    assert_eq!((left.member_bytes, left.append_bytes, left.live_bytes), (0, 0, 0));
    assert_eq!(left.timers, SLOTS as usize);
}

#[test]
fn a_snapshot_holds_consumer_groups() {
    let mut world = World::new();
    let topic = world.topic("t", 3);
    let mut peers = [Peer::new("a", &["t"]), Peer::new("b", &["t"])];
    let [a, b] = &mut peers;
    world.calm(&mut [a, b]);
    commit(&mut world, "a", a.epoch, topic, true).unwrap();
    let before = world.machine.describe_consumer("g").unwrap();
    let slot = slot_of("g", SLOTS);
    let mut cursor = world.machine.snapshot(slot);
    let mut all = Vec::new();
    while !cursor.is_done() {
        // One at a time, so that it is resumed everywhere.
        all.extend(world.machine.snapshot_records(slot, &mut cursor, 1));
    }
    let keys = all.len();
    world.log = all.into_iter().map(|record| (slot, record)).collect();
    assert_eq!(keys, 2 + 2 * 3 + 1, "each record once");
    world.restart(Config::default());
    assert_eq!(world.machine.describe_consumer("g").unwrap(), before);
    assert_eq!(world.offset("g", "t", 0), 5);
}
