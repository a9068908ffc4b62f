//! Joining, syncing, heartbeats, leaving.

use super::*;

#[test]
fn members_that_come_within_the_first_delay_share_one_generation_and_the_first_leads() {
    let mut world = World::new();
    let first = world.join(joins("g", ""));
    world.pass(99);
    let second = world.join(joins("g", ""));
    world.pass(50);
    assert!(world.waits(first) && world.waits(second), "the delay starts anew with each member");
    world.pass(200);
    let (first, second) = (world.joined(first).unwrap(), world.joined(second).unwrap());
    assert_eq!((first.generation, second.generation), (1, 1));
    assert_eq!((&first.leader, &second.leader), (&first.member, &first.member));
    assert_eq!(first.members.len(), 2);
    assert!(second.members.is_empty(), "only the leader learns the members");
    assert_eq!(&*first.protocol, "range");
    assert_ne!(first.member, second.member);
    assert!(first.member.starts_with("client-00000000-0000-0000-0000-"), "{}", first.member);
}

#[test]
fn the_first_delay_ends_with_the_rebalance_timeout_even_if_members_keep_coming() {
    let mut world = World::with(Config { initial_rebalance_delay_ms: 100, ..Config::default() });
    let first = world.join(Join { rebalance_timeout_ms: 250, ..joins("g", "") });
    for _ in 0..4 {
        world.pass(60);
        world.join(Join { rebalance_timeout_ms: 250, ..joins("g", "") });
        assert!(world.waits(first));
    }
    world.pass(60);
    assert_eq!(world.joined(first).unwrap().members.len(), 5);
}

#[test]
fn a_first_join_is_told_its_id_and_that_id_expires() {
    let mut world = World::new();
    let asks = || Join { id_required: true, ..joins("g", "") };
    let token = world.join(asks());
    let (error, id) = world.joined(token).unwrap_err();
    assert_eq!(error, Error::MemberIdRequired);
    let token = world.join(joins("g", &id));
    world.pass(200);
    assert_eq!(&*world.joined(token).unwrap().member, id);

    let token = world.join(Join { group: "other", ..asks() });
    let (_, id) = world.joined(token).unwrap_err();
    world.pass(10_001);
    let token = world.join(joins("other", &id));
    assert_eq!(world.joined(token).unwrap_err().0, Error::UnknownMemberId);
    assert_eq!(world.machine.group_count(), 1, "an id that was never used leaves no group behind");
}

#[test]
fn a_rebalance_waits_for_an_id_that_was_handed_out() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 1);
    let token = world.join(Join { id_required: true, ..joins("g", "") });
    let (_, id) = world.joined(token).unwrap_err();
    assert_eq!(world.heartbeat(who("g", &ids[0], generation)), Ok(()));
    let leader = world.join(joins("g", &ids[0]));
    assert!(world.waits(leader));
    let token = world.join(joins("g", &id));
    assert_eq!(world.joined(leader).unwrap().members.len(), 2);
    assert_eq!(world.joined(token).unwrap().generation, generation + 1);
}

#[test]
fn bad_joins_are_refused_by_name() {
    let mut world = World::new();
    let mut refused = |join: Join<'_>| {
        let token = world.join(join);
        world.joined(token).unwrap_err().0
    };
    assert_eq!(refused(joins("", "")), Error::InvalidGroupId);
    assert_eq!(refused(Join { session_timeout_ms: 5_999, ..joins("g", "") }), Error::InvalidSessionTimeout);
    assert_eq!(refused(Join { session_timeout_ms: 1_800_001, ..joins("g", "") }), Error::InvalidSessionTimeout);
    assert_eq!(refused(joins("g", "nobody")), Error::UnknownMemberId);
    assert_eq!(refused(Join { protocols: vec![], ..joins("g", "") }), Error::InconsistentGroupProtocol);
    assert_eq!(refused(Join { protocol_type: "", ..joins("g", "") }), Error::InconsistentGroupProtocol);
    assert_eq!(world.machine.group_count(), 0, "a refused join leaves no group behind");

    world.stable("g", 1);
    let mut refused = |join: Join<'_>| {
        let token = world.join(join);
        world.joined(token).unwrap_err().0
    };
    assert_eq!(refused(Join { protocol_type: "connect", ..joins("g", "") }), Error::InconsistentGroupProtocol);
    assert_eq!(refused(Join { protocols: vec![("own", b"")], ..joins("g", "") }), Error::InconsistentGroupProtocol);
    assert_eq!(refused(joins("g", "nobody")), Error::UnknownMemberId);
    assert_eq!(world.state("g"), "Stable");
}

#[test]
fn limits_on_members_and_groups_have_names() {
    let mut world = World::with(Config { members_max: 2, groups_max: 2, ..Config::default() });
    world.stable("g", 2);
    let token = world.join(joins("g", ""));
    assert_eq!(world.joined(token).unwrap_err().0, Error::GroupMaxSizeReached);
    let token = world.join(Join { id_required: true, ..joins("h", "") });
    assert_eq!(world.joined(token).unwrap_err().0, Error::MemberIdRequired);
    let token = world.join(joins("i", ""));
    assert_eq!(world.joined(token).unwrap_err().0, Error::PolicyViolation);
    let token = world.commit(who("i", "", -1), "t", 0, 1);
    assert_eq!(world.committed(token), Err(Error::PolicyViolation));
}

#[test]
fn subscriptions_beyond_the_memory_limit_are_refused() {
    let mut world = World::with(Config { state_bytes_max: 10_000, ..Config::default() });
    let big = vec![0u8; 12_000];
    let token = world.join(Join { protocols: vec![("range", &big)], ..joins("g", "") });
    world.pass(200);
    let member = world.joined(token).unwrap();
    let token = world.join(Join { protocols: vec![("range", b"")], ..joins("g", "") });
    assert_eq!(world.joined(token).unwrap_err().0, Error::PolicyViolation);
    let token = world.sync(who("g", &member.member, 1), vec![(&member.member, &big)]);
    assert_eq!(world.synced(token), Err(Error::PolicyViolation));
    world.leave("g", &member.member).unwrap();
    world.durable();
    let token = world.join(joins("h", ""));
    world.pass(200);
    assert!(world.joined(token).is_ok(), "memory that was given back can be used again");
}

#[test]
fn the_protocol_is_what_most_prefer_of_what_all_support() {
    let mut world = World::new();
    let a = world.join(Join { protocols: vec![("x", b"1"), ("y", b"2"), ("z", b"3")], ..joins("g", "") });
    world.join(Join { protocols: vec![("z", b""), ("y", b"")], ..joins("g", "") });
    world.join(Join { protocols: vec![("z", b""), ("y", b"")], ..joins("g", "") });
    world.pass(60_000);
    let reply = world.joined(a).unwrap();
    assert_eq!(&*reply.protocol, "z");
    assert_eq!(&*reply.members.iter().find(|m| m.id == reply.member).unwrap().metadata, b"3");
}

#[test]
fn syncs_wait_until_the_assignment_is_durable() {
    let mut world = World::new();
    let a = world.join(joins("g", ""));
    let b = world.join(joins("g", ""));
    world.pass(200);
    let (a, b) = (world.joined(a).unwrap(), world.joined(b).unwrap());
    let follower = world.sync(who("g", &b.member, 1), vec![]);
    let leader = world.sync(who("g", &a.member, 1), vec![(&b.member, b"two"), ("stranger", b"none")]);
    assert!(world.waits(follower) && world.waits(leader));
    assert_eq!(world.state("g"), "CompletingRebalance");
    assert_eq!(world.heartbeat(who("g", &b.member, 1)), Ok(()));
    world.durable();
    assert_eq!(world.synced(follower).unwrap(), b"two");
    assert_eq!(world.synced(leader).unwrap(), b"", "a member that the leader forgot gets nothing");
    assert_eq!(world.state("g"), "Stable");
    let again = world.sync(who("g", &b.member, 1), vec![]);
    assert_eq!(world.synced(again).unwrap(), b"two");
}

#[test]
fn an_assignment_that_cannot_be_stored_begins_a_rebalance() {
    let mut world = World::new();
    let a = world.join(joins("g", ""));
    world.pass(200);
    let a = world.joined(a).unwrap();
    let sync = world.sync(who("g", &a.member, 1), vec![(&a.member, b"x")]);
    world.fail(Error::CoordinatorNotAvailable);
    assert_eq!(world.synced(sync), Err(Error::CoordinatorNotAvailable));
    assert_eq!(world.state("g"), "PreparingRebalance");
    let again = world.join(joins("g", &a.member));
    assert_eq!(world.joined(again).unwrap().generation, 2);
}

#[test]
fn a_leader_cannot_change_an_assignment_that_is_on_its_way() {
    let mut world = World::new();
    let a = world.join(joins("g", ""));
    world.pass(200);
    let a = world.joined(a).unwrap();
    let first = world.sync(who("g", &a.member, 1), vec![(&a.member, b"one")]);
    let second = world.sync(who("g", &a.member, 1), vec![(&a.member, b"two")]);
    world.durable();
    assert_eq!(world.synced(first), Err(Error::RebalanceInProgress));
    assert_eq!(world.synced(second).unwrap(), b"one");
}

#[test]
fn syncs_and_heartbeats_are_checked() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 1);
    let mut synced = |sync: Sync<'_>| {
        let token = world.ask(|token| Event::Sync(token, sync));
        world.synced(token)
    };
    let sync = |member| Sync { member, protocol_type: None, protocol: None, assignments: vec![] };
    assert_eq!(synced(sync(who("", "a", 1))), Err(Error::InvalidGroupId));
    assert_eq!(synced(sync(who("other", "a", 1))), Err(Error::UnknownMemberId));
    assert_eq!(synced(sync(who("g", "a", 1))), Err(Error::UnknownMemberId));
    let member = who("g", &ids[0], generation);
    assert_eq!(synced(sync(who("g", &ids[0], generation + 1))), Err(Error::IllegalGeneration));
    assert_eq!(synced(Sync { protocol_type: Some("connect"), ..sync(member) }), Err(Error::InconsistentGroupProtocol));
    assert_eq!(synced(Sync { protocol: Some("sticky"), ..sync(member) }), Err(Error::InconsistentGroupProtocol));
    assert!(synced(Sync { protocol_type: Some("consumer"), protocol: Some("range"), ..sync(member) }).is_ok());

    assert_eq!(world.heartbeat(who("", "a", 1)), Err(Error::InvalidGroupId));
    assert_eq!(world.heartbeat(who("other", "a", 1)), Err(Error::UnknownMemberId));
    assert_eq!(world.heartbeat(who("g", "a", 1)), Err(Error::UnknownMemberId));
    assert_eq!(world.heartbeat(who("g", &ids[0], generation - 1)), Err(Error::IllegalGeneration));
    assert_eq!(world.heartbeat(member), Ok(()));
}

#[test]
fn a_new_member_makes_the_others_join_again() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 2);
    let third = world.join(joins("g", ""));
    assert_eq!(world.state("g"), "PreparingRebalance");
    assert_eq!(world.heartbeat(who("g", &ids[0], generation)), Err(Error::RebalanceInProgress));
    let sync = world.sync(who("g", &ids[0], generation), vec![]);
    assert_eq!(world.synced(sync), Err(Error::RebalanceInProgress));
    let first = world.join(joins("g", &ids[0]));
    let second = world.join(joins("g", &ids[1]));
    assert_eq!(world.joined(first).unwrap().members.len(), 3);
    assert_eq!(world.joined(second).unwrap().generation, generation + 1);
    assert_eq!(&*world.joined(third).unwrap().leader, ids[0]);
}

#[test]
fn members_that_do_not_join_in_time_are_put_out_and_another_leads() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 2);
    let second = world.join(Join { protocols: vec![("range", b"new")], ..joins("g", &ids[1]) });
    for _ in 0..12 {
        assert!(world.waits(second));
        let _ = world.heartbeat(who("g", &ids[0], generation));
        world.pass(5_000);
    }
    let reply = world.joined(second).unwrap();
    assert_eq!((reply.members.len(), &*reply.leader), (1, ids[1].as_str()));
    assert_eq!(world.heartbeat(who("g", &ids[0], generation)), Err(Error::UnknownMemberId));
}

#[test]
fn a_silent_member_is_put_out_and_a_heard_one_is_not() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 2);
    world.pass(9_000);
    assert_eq!(world.heartbeat(who("g", &ids[1], generation)), Ok(()));
    world.pass(2_000);
    assert_eq!(world.state("g"), "PreparingRebalance");
    assert_eq!(world.heartbeat(who("g", &ids[0], generation)), Err(Error::UnknownMemberId));
    let token = world.join(joins("g", &ids[1]));
    assert_eq!(world.joined(token).unwrap().members.len(), 1);
}

#[test]
fn a_paused_member_comes_back_with_one_join() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 1);
    world.pass(20_000);
    world.durable();
    assert_eq!(world.heartbeat(who("g", &ids[0], generation)), Err(Error::UnknownMemberId));
    let token = world.join(joins("g", ""));
    world.pass(200);
    let reply = world.joined(token).unwrap();
    assert_eq!((reply.generation, reply.members.len()), (generation + 2, 1));
}

#[test]
fn a_member_that_never_syncs_is_put_out() {
    let mut world = World::new();
    let a = world.join(joins("g", ""));
    let b = world.join(joins("g", ""));
    world.pass(200);
    let (a, b) = (world.joined(a).unwrap(), world.joined(b).unwrap());
    let sync = world.sync(who("g", &a.member, 1), vec![(&a.member, b"a"), (&b.member, b"b")]);
    world.durable();
    assert!(world.synced(sync).is_ok());
    for _ in 0..13 {
        world.pass(5_000);
        let _ = world.heartbeat(who("g", &a.member, 1));
        let _ = world.heartbeat(who("g", &b.member, 1));
    }
    assert_eq!(world.heartbeat(who("g", &a.member, 1)), Err(Error::RebalanceInProgress));
    assert_eq!(world.heartbeat(who("g", &b.member, 1)), Err(Error::UnknownMemberId));
}

#[test]
fn a_join_again_with_nothing_new_is_answered_at_once() {
    let mut world = World::new();
    let a = world.join(joins("g", ""));
    let b = world.join(joins("g", ""));
    world.pass(200);
    let (a, b) = (world.joined(a).unwrap(), world.joined(b).unwrap());
    let token = world.join(joins("g", &a.member));
    assert_eq!(world.joined(token).unwrap(), a, "the leader's answer was lost");
    let sync = world.sync(who("g", &a.member, 1), vec![]);
    world.durable();
    assert!(world.synced(sync).is_ok());
    let token = world.join(joins("g", &b.member));
    assert_eq!(world.joined(token).unwrap(), b);
    assert_eq!(world.state("g"), "Stable");
    let token = world.join(joins("g", &a.member));
    assert!(world.waits(token), "a leader that joins again wants a rebalance");
    assert_eq!(world.state("g"), "PreparingRebalance");
}

#[test]
fn the_last_to_leave_leaves_an_empty_group_and_a_higher_generation() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 2);
    assert_eq!(world.leave("g", &ids[0]), Ok(()));
    assert_eq!(world.leave("g", "nobody"), Err(Error::UnknownMemberId));
    assert_eq!(world.leave("other", "nobody"), Err(Error::UnknownMemberId));
    assert_eq!(world.leave("", "nobody"), Err(Error::InvalidGroupId));
    assert_eq!(world.leave("g", &ids[1]), Ok(()));
    world.durable();
    assert_eq!(world.state("g"), "Empty");
    let token = world.join(joins("g", ""));
    world.pass(200);
    assert!(world.joined(token).unwrap().generation > generation + 1);
}

#[test]
fn who_waits_to_join_and_leaves_is_told_so() {
    let mut world = World::new();
    let (ids, _) = world.stable("g", 2);
    let token = world.join(joins("g", &ids[0]));
    assert!(world.waits(token));
    assert_eq!(world.leave("g", &ids[0]), Ok(()));
    assert_eq!(world.joined(token).unwrap_err(), (Error::UnknownMemberId, ids[0].clone()));
}

#[test]
fn a_first_join_without_an_answer_is_given_up_after_five_minutes() {
    let mut world = World::new();
    let hour = 3_600_000;
    let first = world.join(Join { rebalance_timeout_ms: hour, ..joins("g", "") });
    world.pass(200);
    let leader = world.joined(first).unwrap().member;
    let sync = world.sync(who("g", &leader, 1), vec![]);
    world.durable();
    world.synced(sync).unwrap();
    let second = world.join(Join { rebalance_timeout_ms: hour, ..joins("g", "") });
    for _ in 0..59 {
        world.pass(5_000);
        let _ = world.heartbeat(who("g", &leader, 1));
    }
    assert!(world.waits(second));
    world.pass(6_000);
    assert_eq!(world.joined(second).unwrap_err().0, Error::UnknownMemberId);
}

#[test]
fn any_kind_of_protocol_is_carried_unread() {
    let mut world = World::new();
    let join = Join { protocol_type: "connect", protocols: vec![("sessioned", b"\xff\xfe\0")], ..joins("c", "") };
    let token = world.join(join);
    world.pass(200);
    let reply = world.joined(token).unwrap();
    assert_eq!((&*reply.protocol_type, &*reply.members[0].metadata), ("connect", &b"\xff\xfe\0"[..]));
}

#[test]
fn members_and_assignments_survive_a_restart() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 2);
    world.restart(Config::default());
    let described = world.machine.describe("g").unwrap();
    assert_eq!((described.state, &*described.protocol, described.members.len()), ("Stable", "range", 2));
    assert_eq!(&*described.members[0].assignment, described.members[0].id.as_bytes());
    assert_eq!(world.heartbeat(who("g", &ids[0], generation)), Ok(()));
    world.pass(9_000);
    assert_eq!(world.heartbeat(who("g", &ids[0], generation)), Ok(()));
    world.pass(2_000);
    assert_eq!(world.heartbeat(who("g", &ids[1], generation)), Err(Error::UnknownMemberId));
}

#[test]
fn a_slot_that_is_not_served_refuses_and_answers_who_waits() {
    let mut world = World::new();
    let (ids, generation) = world.stable("g", 1);
    let join = world.join(joins("g", ""));
    let commit = world.commit(who("g", &ids[0], generation), "t", 0, 5);
    let slot = slot_of("g", SLOTS);
    world.event(Event::Unloaded(slot));
    assert_eq!(world.joined(join).unwrap_err().0, Error::NotCoordinator);
    assert_eq!(world.committed(commit), Err(Error::NotCoordinator));
    assert_eq!(world.heartbeat(who("g", &ids[0], generation)), Err(Error::NotCoordinator));
    world.event(Event::LoadStarted { slot, epoch: Epoch(9) });
    assert_eq!(world.heartbeat(who("g", &ids[0], generation)), Err(Error::CoordinatorLoadInProgress));
    assert_eq!(world.machine.list(&[], &[]), Err(Error::CoordinatorLoadInProgress));
    world.event(Event::Loaded(slot));
    assert_eq!(world.heartbeat(who("g", &ids[0], generation)), Err(Error::UnknownMemberId));
    // A report of the append under the former epoch comes late.
    let (slot, upto, _) = world.flying.pop_front().unwrap();
    world.event(Event::Appended { slot, upto });
    assert_eq!(world.offset("g", "t", 0), -1);
}
