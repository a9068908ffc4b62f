//! Static members (KIP-345, KIP-814).

use super::*;

fn static_join<'a>(member: &'a str, instance: &'a str) -> Join<'a> {
    Join { instance: Some(instance), ..joins("g", member) }
}

/// Two static members `a` and `b`; `a` leads.
fn stable(world: &mut World) -> (String, String) {
    let a = world.join(static_join("", "a"));
    let b = world.join(static_join("", "b"));
    world.pass(200);
    let (a, b) = (world.joined(a).unwrap(), world.joined(b).unwrap());
    assert_eq!(a.leader, a.member);
    let sync = world.sync(who("g", &a.member, 1), vec![(&a.member, b"for a"), (&b.member, b"for b")]);
    let follower = world.sync(who("g", &b.member, 1), vec![]);
    world.durable();
    assert!(world.synced(sync).is_ok() && world.synced(follower).is_ok());
    (a.member.as_ref().into(), b.member.as_ref().into())
}

#[test]
fn a_static_member_needs_no_second_request_and_its_id_begins_with_its_instance() {
    let mut world = World::new();
    let token = world.join(Join { id_required: true, ..static_join("", "a") });
    world.pass(200);
    assert!(world.joined(token).unwrap().member.starts_with("a-"));
}

#[test]
fn a_static_member_that_comes_back_keeps_its_assignment_without_a_rebalance_and_fences_the_old_one() {
    let mut world = World::new();
    let (a, b) = stable(&mut world);
    let token = world.join(static_join("", "b"));
    assert!(world.waits(token), "the new id is stored first");
    world.durable();
    let reply = world.joined(token).unwrap();
    assert_eq!((reply.generation, &*reply.leader, reply.skip_assignment), (1, a.as_str(), false));
    assert_ne!(&*reply.member, b);
    assert_eq!(world.state("g"), "Stable");

    let member = |id| Member { group: "g", generation: 1, id, instance: Some("b") };
    assert_eq!(world.heartbeat(member(&b)), Err(Error::FencedInstanceId));
    let old = world.commit(member(&b), "t", 0, 1);
    assert_eq!(world.committed(old), Err(Error::FencedInstanceId));
    let old = world.sync(member(&b), vec![]);
    assert_eq!(world.synced(old), Err(Error::FencedInstanceId));
    let old = world.join(static_join(&b, "b"));
    assert_eq!(world.joined(old).unwrap_err().0, Error::FencedInstanceId);
    let sync = world.sync(member(&reply.member), vec![]);
    assert_eq!(world.synced(sync).unwrap(), b"for b");

    world.restart(Config::default());
    assert_eq!(world.heartbeat(member(&reply.member)), Ok(()), "the new id survives a restart");
}

#[test]
fn a_leader_that_comes_back_is_told_to_skip_the_assignment_or_that_its_former_self_leads() {
    let mut world = World::new();
    let (a, _) = stable(&mut world);
    let token = world.join(static_join("", "a"));
    world.durable();
    let reply = world.joined(token).unwrap();
    assert_eq!((&*reply.leader, reply.members.len()), (a.as_str(), 0));
    assert_ne!(&*reply.member, a);

    let token = world.join(Join { can_skip_assignment: true, ..static_join("", "a") });
    world.durable();
    let reply = world.joined(token).unwrap();
    assert_eq!(reply.leader, reply.member);
    assert!(reply.skip_assignment);
    assert_eq!(reply.members.len(), 2);
    assert_eq!(world.state("g"), "Stable");
}

#[test]
fn a_static_member_that_comes_back_with_another_protocol_begins_a_rebalance() {
    let mut world = World::new();
    stable(&mut world);
    let token = world.join(Join { protocols: vec![("sticky", b"")], ..static_join("", "b") });
    assert!(world.waits(token));
    assert_eq!(world.state("g"), "PreparingRebalance");
}

#[test]
fn who_waits_under_a_replaced_id_is_fenced() {
    let mut world = World::new();
    let old = world.join(static_join("", "a"));
    let new = world.join(static_join("", "a"));
    assert_eq!(world.joined(old).unwrap_err().0, Error::FencedInstanceId);
    world.pass(200);
    let reply = world.joined(new).unwrap();
    assert_eq!((reply.members.len(), &reply.leader), (1, &reply.member));
}

#[test]
fn coming_back_while_the_leader_assigns_begins_a_rebalance() {
    let mut world = World::new();
    let a = world.join(static_join("", "a"));
    let b = world.join(static_join("", "b"));
    world.pass(200);
    let (a, b) = (world.joined(a).unwrap(), world.joined(b).unwrap());
    let sync = world.sync(who("g", &a.member, 1), vec![(&a.member, b"1"), (&b.member, b"2")]);
    let back = world.join(static_join("", "b"));
    assert_eq!(world.synced(sync), Err(Error::RebalanceInProgress));
    world.durable();
    let leader = world.join(static_join(&a.member, "a"));
    assert_eq!(world.joined(leader).unwrap().generation, 2);
    assert_eq!(world.joined(back).unwrap().generation, 2);
}

#[test]
fn a_rebalance_keeps_static_members_that_are_away_until_their_session_ends() {
    let mut world = World::new();
    let join = |member, instance| Join { session_timeout_ms: 600_000, ..static_join(member, instance) };
    let a = world.join(join("", "a"));
    world.join(join("", "b"));
    world.pass(200);
    let a = world.joined(a).unwrap();
    let sync = world.sync(who("g", &a.member, 1), vec![]);
    world.durable();
    world.synced(sync).unwrap();
    let again = world.join(join(&a.member, "a"));
    world.pass(60_000);
    assert_eq!(world.joined(again).unwrap().members.len(), 2, "b is away and still counts");
}

#[test]
fn a_static_member_is_removed_by_its_instance_alone() {
    let mut world = World::new();
    let (a, _) = stable(&mut world);
    let members = vec![
        LeaveMember { id: "", instance: Some("b") },
        LeaveMember { id: "", instance: Some("nobody") },
        LeaveMember { id: "wrong", instance: Some("a") },
    ];
    let token = world.ask(|token| Event::Leave(token, Leave { group: "g", members }));
    let Reply::Leave(Ok(left)) = world.reply(token) else { panic!() };
    let results: Vec<_> = left.iter().map(|left| left.result).collect();
    assert_eq!(results, [Ok(()), Err(Error::UnknownMemberId), Err(Error::FencedInstanceId)]);
    assert_eq!(left[0].instance.as_deref(), Some("b"));
    assert_eq!(world.heartbeat(who("g", &a, 1)), Err(Error::RebalanceInProgress));
}

#[test]
fn a_static_member_whose_new_id_cannot_be_stored_comes_again() {
    let mut world = World::new();
    stable(&mut world);
    let token = world.join(static_join("", "b"));
    world.fail(Error::CoordinatorNotAvailable);
    assert_eq!(world.joined(token).unwrap_err(), (Error::CoordinatorNotAvailable, String::new()));
    let token = world.join(static_join("", "b"));
    world.durable();
    let member = world.joined(token).unwrap().member;
    let sync = world.sync(Member { group: "g", generation: 1, id: &member, instance: Some("b") }, vec![]);
    assert_eq!(world.synced(sync).unwrap(), b"for b");
}
