//! Commits, their deletion and their expiry.

use super::*;

#[test]
fn a_commit_is_answered_and_seen_when_it_is_durable_and_not_before() {
    let mut world = World::new();
    let token = world.commit(who("g", "", -1), "t", 3, 42);
    assert!(world.waits(token));
    assert_eq!(world.offset("g", "t", 3), -1);
    world.durable();
    assert_eq!(world.committed(token), Ok(vec![]));
    let fetched = world.machine.fetch("g", "t", 3).unwrap();
    assert_eq!((fetched.offset, fetched.leader_epoch, &*fetched.metadata), (42, 3, "note"));
    assert_eq!(fetched.topic_id, TopicId(7));
    assert_eq!(world.offset("g", "t", 0), -1);
    let all = world.machine.fetch_all("g").unwrap();
    assert_eq!((all.len(), &*all[0].0, all[0].1[0].partition), (1, "t", 3));
}

#[test]
fn a_commit_that_cannot_be_stored_is_refused_and_the_one_before_stays() {
    let mut world = World::new();
    world.commit(who("g", "", -1), "t", 0, 1);
    world.durable();
    let token = world.commit(who("g", "", -1), "t", 0, 2);
    world.fail(Error::CoordinatorNotAvailable);
    assert_eq!(world.committed(token), Err(Error::CoordinatorNotAvailable));
    assert_eq!(world.offset("g", "t", 0), 1);
    let token = world.commit(who("new", "", -1), "t", 0, 2);
    world.fail(Error::CoordinatorNotAvailable);
    assert_eq!(world.committed(token), Err(Error::CoordinatorNotAvailable));
    assert_eq!(world.machine.group_count(), 1, "a group whose only commit failed is not there");
}

#[test]
fn one_report_settles_all_appends_up_to_it_in_order() {
    let mut world = World::new();
    let tokens: Vec<_> = (0..10).map(|offset| world.commit(who("g", "", -1), "t", 0, offset)).collect();
    let (slot, upto, _) = world.flying[6].clone();
    world.event(Event::Appended { slot, upto });
    assert_eq!(tokens.iter().filter(|token| world.waits(**token)).count(), 3);
    assert_eq!(world.offset("g", "t", 0), 6);
}

#[test]
fn commits_are_checked_against_members_and_generation() {
    let mut world = World::new();
    let commit = |world: &mut World, member: Member<'_>| {
        let token = world.commit(member, "t", 0, 1);
        world.durable();
        world.committed(token).map(|rejected| rejected.len())
    };
    assert_eq!(commit(&mut world, who("g", "a", 5)), Err(Error::IllegalGeneration), "there is no such group");
    let (ids, generation) = world.stable("g", 2);
    assert_eq!(commit(&mut world, who("g", &ids[0], generation)), Ok(0));
    assert_eq!(commit(&mut world, who("g", &ids[0], generation + 1)), Err(Error::IllegalGeneration));
    assert_eq!(commit(&mut world, who("g", "nobody", generation)), Err(Error::UnknownMemberId));
    assert_eq!(commit(&mut world, who("g", "", -1)), Err(Error::UnknownMemberId), "the group has members");

    let first = world.join(joins("g", &ids[0]));
    assert_eq!(world.state("g"), "PreparingRebalance");
    assert_eq!(commit(&mut world, who("g", &ids[1], generation)), Ok(0), "who revokes partitions commits now");
    let second = world.join(joins("g", &ids[1]));
    assert!(world.joined(first).is_ok() && world.joined(second).is_ok());
    assert_eq!(commit(&mut world, who("g", &ids[1], generation + 1)), Err(Error::RebalanceInProgress));
    world.leave("g", &ids[0]).unwrap();
    world.leave("g", &ids[1]).unwrap();
    assert_eq!(world.state("g"), "Empty");
    assert_eq!(commit(&mut world, who("g", "", -1)), Ok(0));
}

#[test]
fn a_commit_keeps_its_member_alive() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 1);
    for _ in 0..3 {
        world.pass(9_000);
        let token = world.commit(who("g", &ids[0], generation), "t", 0, 1);
        world.durable();
        assert!(world.committed(token).is_ok());
    }
}

#[test]
fn metadata_that_is_too_long_rejects_its_partition_alone() {
    let mut world = World::new();
    let (long, fits) = ("x".repeat(4097), "x".repeat(4096));
    let partition = |index, metadata| CommitPartition { index, offset: 9, leader_epoch: -1, metadata, refused: None };
    let topics = vec![
        CommitTopic { name: "a", id: TopicId(1), partitions: vec![partition(0, &fits), partition(1, &long)] },
        CommitTopic { name: "b", id: TopicId(2), partitions: vec![partition(0, &long)] },
    ];
    let token = world.ask(|token| Event::Commit(token, Commit { member: who("g", "", -1), by_epoch: false, topics }));
    world.durable();
    let rejected = |topic, partition| RejectedCommit { topic, partition, error: Error::OffsetMetadataTooLarge };
    assert_eq!(world.committed(token), Ok(vec![rejected(0, 1), rejected(1, 0)]));
    assert_eq!(world.machine.fetch("g", "a", 0).unwrap().metadata.len(), 4096);
    assert_eq!((world.offset("g", "a", 1), world.offset("g", "b", 0)), (-1, -1));
}

#[test]
fn commits_beyond_the_limits_are_refused_by_name_and_taken_again_later() {
    let mut world = World::with(Config { append_bytes_max: 2_000, state_bytes_max: 3_000, ..Config::default() });
    let mut index = 0;
    let refused = loop {
        let token = world.commit(who("g", "", -1), "t", index, 1);
        if !world.waits(token) {
            break world.committed(token);
        }
        index += 1;
    };
    assert_eq!(refused, Err(Error::CoordinatorLoadInProgress));
    assert!(index > 5);
    world.durable();
    loop {
        let token = world.commit(who("g", "", -1), "t", index, 1);
        world.durable();
        match world.committed(token).unwrap().first() {
            None => index += 1,
            Some(rejected) => {
                assert_eq!(rejected.error, Error::PolicyViolation);
                break;
            }
        }
        assert!(index < 100);
    }
    let token = world.commit(who("g", "", -1), "t", 0, 2);
    world.durable();
    assert_eq!(world.committed(token), Ok(vec![]), "what is there can still move");
}

#[test]
fn a_deleted_group_is_gone_and_stays_so_after_a_restart() {
    let mut world = World::new();
    let (ids, _) = world.stable("g", 1);
    world.commit(who("g", &ids[0], 1), "t", 0, 5);
    world.durable();
    let token = world.delete("g");
    assert_eq!(world.deleted(token), Err(Error::NonEmptyGroup));
    world.leave("g", &ids[0]).unwrap();
    world.commit(who("g", "", -1), "t", 1, 6);
    let token = world.delete("g");
    assert!(world.waits(token));
    let join = world.join(joins("g", ""));
    assert_eq!(world.joined(join).unwrap_err().0, Error::CoordinatorNotAvailable);
    let commit = world.commit(who("g", "", -1), "t", 0, 7);
    assert_eq!(world.committed(commit), Err(Error::CoordinatorNotAvailable));
    world.durable();
    assert_eq!(world.deleted(token), Ok(()));
    for _ in 0..2 {
        assert_eq!(world.machine.describe("g"), Err(Error::GroupIdNotFound));
        assert_eq!((world.offset("g", "t", 0), world.offset("g", "t", 1)), (-1, -1));
        assert_eq!(world.machine.group_count(), 0);
        world.restart(Config::default());
    }
    let token = world.delete("g");
    assert_eq!(world.deleted(token), Err(Error::GroupIdNotFound));
}

#[test]
fn a_deletion_that_cannot_be_stored_leaves_the_group_as_it_was() {
    let mut world = World::new();
    world.commit(who("g", "", -1), "t", 0, 5);
    world.durable();
    let token = world.delete("g");
    world.fail(Error::CoordinatorNotAvailable);
    assert_eq!(world.deleted(token), Err(Error::CoordinatorNotAvailable));
    assert_eq!((world.state("g"), world.offset("g", "t", 0)), ("Empty", 5));
}

#[test]
fn several_groups_are_deleted_with_one_answer() {
    let mut world = World::new();
    for group in ["a", "b", "c"] {
        world.commit(who(group, "", -1), "t", 0, 5);
    }
    world.durable();
    let token = world.ask(|token| Event::DeleteGroups(token, vec!["a", "nobody", "c", "a"]));
    assert!(world.waits(token));
    world.durable();
    let Reply::DeleteGroups(results) = world.reply(token) else { panic!() };
    assert_eq!(results, [Ok(()), Err(Error::GroupIdNotFound), Ok(()), Err(Error::GroupIdNotFound)]);
    let left = world.machine.list(&[], &[]).unwrap();
    assert_eq!(left.iter().map(|group| &*group.group).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn offsets_of_topics_that_members_use_cannot_be_deleted() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 1);
    for topic in ["t", "other"] {
        world.commit(who("g", &ids[0], generation), topic, 0, 5);
    }
    world.durable();
    let topic = |name, partitions| DeleteTopic { name, partitions, refused: None };
    let gone = DeleteTopic { refused: Some(Error::UnknownTopicOrPartition), ..topic("gone", vec![0]) };
    let topics = vec![topic("t", vec![0, 1]), topic("other", vec![0, 9]), gone];
    let token = world.ask(|token| Event::DeleteOffsets(token, DeleteOffsets { group: "g", topics }));
    world.durable();
    let (used, unknown) = (Err(Error::GroupSubscribedToTopic), Err(Error::UnknownTopicOrPartition));
    assert_eq!(
        world.reply(token),
        Reply::DeleteOffsets(Ok(vec![vec![used, used], vec![Ok(()), Ok(())], vec![unknown]]))
    );
    assert_eq!((world.offset("g", "t", 0), world.offset("g", "other", 0)), (5, -1));
    world.restart(Config::default());
    assert_eq!((world.offset("g", "t", 0), world.offset("g", "other", 0)), (5, -1));

    let token = world.ask(|token| Event::DeleteOffsets(token, DeleteOffsets { group: "nobody", topics: vec![] }));
    assert_eq!(world.reply(token), Reply::DeleteOffsets(Err(Error::GroupIdNotFound)));
}

#[test]
fn offsets_of_a_deleted_topic_go_even_those_on_their_way() {
    let mut world = World::new();
    world.commit(who("g", "", -1), "t", 0, 5);
    world.commit(who("g", "", -1), "kept", 0, 5);
    world.durable();
    let token = world.commit(who("g", "", -1), "t", 1, 5);
    world.event(Event::TopicDeleted("t", TopicId(7)));
    world.durable();
    assert!(world.committed(token).is_ok());
    assert_eq!((world.offset("g", "t", 0), world.offset("g", "t", 1), world.offset("g", "kept", 0)), (-1, -1, 5));
    world.commit(who("g", "", -1), "t", 0, 1);
    world.durable();
    assert_eq!(world.offset("g", "t", 0), 1, "a topic made anew has offsets of its own");
}

#[test]
fn removal_of_a_topics_offsets_is_tried_again_when_it_fails() {
    let mut world = World::new();
    world.commit(who("g", "", -1), "t", 0, 5);
    world.durable();
    world.event(Event::TopicDeleted("t", TopicId(7)));
    world.fail(Error::CoordinatorNotAvailable);
    assert_eq!(world.offset("g", "t", 0), 5);
    world.pass(600_000);
    world.durable();
    assert_eq!(world.offset("g", "t", 0), -1);
}

#[test]
fn offsets_of_a_later_topic_of_the_same_name_stay() {
    let mut world = World::new();
    world.commit(who("g", "", -1), "t", 0, 5);
    world.durable();
    world.commit(who("g", "", -1), "t", 1, 5);
    for id in [TopicId(6), TopicId(8)] {
        world.event(Event::TopicDeleted("t", id));
        world.durable();
        assert_eq!((world.offset("g", "t", 0), world.offset("g", "t", 1)), (5, 5), "they are of topic 7");
    }
}

const DAY: u64 = 86_400_000;

#[test]
fn offsets_expire_when_the_group_has_been_empty_for_the_retention_time() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 1);
    world.commit(who("g", &ids[0], generation), "t", 0, 5);
    world.durable();
    for _ in 0..2000 {
        // Eight days and more of life without a commit.
        world.pass(9_000 * 40);
        world.heartbeat(who("g", &ids[0], generation)).err();
        let token = world.join(joins("g", ""));
        world.pass(200);
        let reply = world.joined(token);
        if let Ok(reply) = reply {
            world.leave("g", &reply.member).unwrap();
        }
        world.durable();
    }
    assert_eq!(world.offset("g", "t", 0), 5, "the group was never empty for long");
    world.pass(7 * DAY - 600_000);
    world.durable();
    assert_eq!(world.offset("g", "t", 0), 5);
    world.pass(3 * 600_000);
    world.durable();
    assert_eq!(world.offset("g", "t", 0), -1);
    assert_eq!(world.state("g"), "Dead");
    world.restart(Config::default());
    assert_eq!(world.machine.group_count(), 0);
}

#[test]
fn the_time_a_group_became_empty_survives_a_restart() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 1);
    world.commit(who("g", &ids[0], generation), "t", 0, 5);
    world.leave("g", &ids[0]).unwrap();
    world.durable();
    world.pass(6 * DAY);
    world.durable();
    world.restart(Config::default());
    assert_eq!(world.offset("g", "t", 0), 5);
    world.pass(DAY + 2 * 600_000);
    world.durable();
    assert_eq!(world.offset("g", "t", 0), -1);
}

#[test]
fn offsets_without_members_expire_by_their_own_age() {
    let mut world = World::new();
    world.commit(who("g", "", -1), "old", 0, 5);
    world.durable();
    world.pass(4 * DAY);
    world.commit(who("g", "", -1), "new", 0, 5);
    world.durable();
    world.pass(4 * DAY);
    world.durable();
    assert_eq!((world.offset("g", "old", 0), world.offset("g", "new", 0)), (-1, 5));
    world.pass(4 * DAY);
    world.durable();
    assert_eq!(world.machine.group_count(), 0);
}

#[test]
fn while_members_live_only_topics_they_left_expire() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 1);
    for topic in ["t", "left"] {
        world.commit(who("g", &ids[0], generation), topic, 0, 5);
    }
    world.durable();
    let end = world.now.mono.plus_ms(8 * DAY);
    while world.now.mono < end {
        world.pass(9_000);
        world.heartbeat(who("g", &ids[0], generation)).unwrap();
    }
    world.durable();
    assert_eq!((world.offset("g", "t", 0), world.offset("g", "left", 0)), (5, -1));
}

#[test]
fn groups_are_listed_by_state_and_kind_and_described() {
    let mut world = World::new();
    let (ids, _) = world.stable("members", 1);
    world.commit(who("offsets", "", -1), "t", 0, 5);
    world.durable();
    let list = |states: &[&str], kinds: &[&str]| {
        let listed = world.machine.list(states, kinds).unwrap();
        listed.iter().map(|group| group.group.as_ref().into()).collect::<Vec<String>>()
    };
    assert_eq!(list(&[], &[]).len(), 2);
    assert_eq!(list(&["stable"], &["classic"]), ["members"]);
    assert_eq!(list(&["Empty"], &[]), ["offsets"]);
    assert!(list(&[], &["consumer"]).is_empty());
    let described = world.machine.describe("members").unwrap();
    let member = &described.members[0];
    assert_eq!((&*member.id, &*member.client_id, &*member.host), (ids[0].as_str(), "client", "/127.0.0.1"));
    assert_eq!(&*member.metadata, joins("", "").protocols[0].1);
    assert_eq!(world.machine.describe("offsets").unwrap().protocol_type.len(), 0);
}
