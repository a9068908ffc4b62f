//! A member against a scripted coordinator.

use super::*;

fn machine() -> Machine {
    Machine::new(Limits::new("g", vec!["t".to_owned()]))
}

fn poll(machine: &mut Machine, now: Mono) -> Vec<Effect> {
    let mut out = Vec::new();
    machine.poll(now, &mut out);
    out
}

fn handle(machine: &mut Machine, now: Mono, event: Event) -> Vec<Effect> {
    let mut out = Vec::new();
    machine.handle(now, event, &mut out);
    out
}

const T0: Mono = Mono(0);

fn joined(member: &str, leader: &str) -> Joined {
    Joined {
        generation: 1,
        protocol: "range".into(),
        leader: leader.into(),
        member: member.into(),
        members: if member == leader { vec![(member.into(), None, put_subscription(&["t".into()]))] } else { vec![] },
        ..Joined::default()
    }
}

/// A machine that leads its group and has both partitions of `t`.
fn stable() -> Machine {
    let mut machine = machine();
    assert_eq!(poll(&mut machine, T0), [Effect::FindCoordinator]);
    handle(&mut machine, T0, Event::Coordinator(5));
    assert!(matches!(&poll(&mut machine, T0)[..], [Effect::Join { coordinator: 5, member, .. }] if member.is_empty()));
    let wants = Joined { code: ErrorCode::MEMBER_ID_REQUIRED, member: "m1".into(), ..Joined::default() };
    assert_eq!(handle(&mut machine, T0, Event::Joined(wants)), []);
    assert!(matches!(&poll(&mut machine, T0)[..], [Effect::Join { member, .. }] if member == "m1"));
    let effects = handle(&mut machine, T0, Event::Joined(joined("m1", "m1")));
    assert_eq!(effects, [Effect::WantTopics(vec!["t".into()])]);
    let effects = handle(&mut machine, T0, Event::Topics(BTreeMap::from([("t".to_owned(), 2)])));
    let [Effect::Sync { assignments, generation: 1, protocol, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(protocol, "range");
    assert_eq!(assignments.len(), 1);
    assert_eq!(assignment(&assignments[0].1), Ok(vec![("t".into(), vec![0, 1])]));
    let effects = handle(&mut machine, T0, Event::Synced(ErrorCode::NONE, assignments[0].1.clone()));
    assert_eq!(effects, [Effect::Assigned(vec![("t".into(), vec![0, 1])])]);
    assert_eq!(machine.identity(), Some((5, "m1", 1)));
    machine
}

#[test]
fn a_new_member_joins_leads_and_beats() {
    let mut machine = stable();
    assert_eq!(poll(&mut machine, T0.plus_ms(2999)), []);
    let beat = Effect::Heartbeat { coordinator: 5, member: "m1".into(), generation: 1 };
    assert_eq!(poll(&mut machine, T0.plus_ms(3000)), std::slice::from_ref(&beat));
    assert_eq!(poll(&mut machine, T0.plus_ms(3001)), [], "one heartbeat at a time");
    handle(&mut machine, T0.plus_ms(3010), Event::Heartbeat(ErrorCode::NONE));
    assert_eq!(machine.next_deadline(), Some(T0.plus_ms(6010)));
    assert_eq!(poll(&mut machine, T0.plus_ms(6010)), [beat]);
}

#[test]
fn a_follower_only_asks_for_its_share() {
    let mut machine = machine();
    poll(&mut machine, T0);
    handle(&mut machine, T0, Event::Coordinator(5));
    poll(&mut machine, T0);
    let effects = handle(&mut machine, T0, Event::Joined(joined("m2", "m1")));
    assert!(matches!(&effects[..], [Effect::Sync { assignments, .. }] if assignments.is_empty()));
    let effects = handle(&mut machine, T0, Event::Synced(ErrorCode::NONE, Vec::new()));
    assert_eq!(effects, [Effect::Assigned(Vec::new())]);
}

#[test]
fn a_rebalance_revokes_first_and_keeps_the_member_id() {
    let mut machine = stable();
    poll(&mut machine, T0.plus_ms(3000));
    let effects = handle(&mut machine, T0.plus_ms(3000), Event::Heartbeat(ErrorCode::REBALANCE_IN_PROGRESS));
    assert_eq!(effects, [Effect::Revoked]);
    assert!(machine.identity().is_some(), "the commit before the join is still this generation's");
    machine.revoked();
    let effects = poll(&mut machine, T0.plus_ms(3000));
    assert!(matches!(&effects[..], [Effect::Join { member, .. }] if member == "m1"), "{effects:?}");
}

#[test]
fn a_member_that_was_forgotten_joins_anew() {
    let mut machine = stable();
    poll(&mut machine, T0.plus_ms(3000));
    handle(&mut machine, T0.plus_ms(3000), Event::Heartbeat(ErrorCode::UNKNOWN_MEMBER_ID));
    let effects = poll(&mut machine, T0.plus_ms(3000));
    assert!(matches!(&effects[..], [Effect::Join { member, .. }] if member.is_empty()), "{effects:?}");
}

#[test]
fn a_lost_coordinator_is_looked_for_and_the_partitions_are_kept() {
    let mut machine = stable();
    poll(&mut machine, T0.plus_ms(3000));
    assert_eq!(handle(&mut machine, T0.plus_ms(3000), Event::Disconnected), []);
    assert_eq!(poll(&mut machine, T0.plus_ms(3050)), [], "after the backoff");
    assert_eq!(poll(&mut machine, T0.plus_ms(3100)), [Effect::FindCoordinator]);
    handle(&mut machine, T0.plus_ms(3100), Event::NoCoordinator(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(poll(&mut machine, T0.plus_ms(3200)), [Effect::FindCoordinator]);
    handle(&mut machine, T0.plus_ms(3200), Event::Coordinator(6));
    let beat = Effect::Heartbeat { coordinator: 6, member: "m1".into(), generation: 1 };
    assert_eq!(poll(&mut machine, T0.plus_ms(3200)), [beat]);
}

#[test]
fn silence_beyond_the_session_is_the_end_of_the_membership() {
    let mut machine = stable();
    poll(&mut machine, T0.plus_ms(3000));
    assert_eq!(machine.next_deadline(), Some(T0.plus_ms(45_000)));
    assert_eq!(poll(&mut machine, T0.plus_ms(45_000)), [Effect::Revoked]);
    assert!(matches!(&poll(&mut machine, T0.plus_ms(45_000))[..], [Effect::Join { .. }]));
}

#[test]
fn a_fenced_static_member_stops_and_says_so() {
    let mut machine = stable();
    poll(&mut machine, T0.plus_ms(3000));
    let effects = handle(&mut machine, T0.plus_ms(3000), Event::Heartbeat(ErrorCode::FENCED_INSTANCE_ID));
    assert_eq!(effects, [Effect::Revoked, Effect::Failed(ErrorCode::FENCED_INSTANCE_ID)]);
    assert_eq!(poll(&mut machine, T0.plus_ms(99_000)), []);
}

#[test]
fn leaving_revokes_and_a_static_member_stays() {
    let mut machine = stable();
    let mut out = Vec::new();
    machine.leave(&mut out);
    assert_eq!(out, [Effect::Revoked, Effect::Leave { coordinator: 5, member: "m1".into() }]);

    let mut machine = stable();
    machine.limits.instance = Some("i".into());
    out.clear();
    machine.leave(&mut out);
    assert_eq!(out, [Effect::Revoked]);
}

#[test]
fn a_static_leader_that_came_back_does_not_share_out() {
    let mut machine = machine();
    poll(&mut machine, T0);
    handle(&mut machine, T0, Event::Coordinator(5));
    poll(&mut machine, T0);
    let joined = Joined { skip_assignment: true, ..joined("m1", "m1") };
    let effects = handle(&mut machine, T0, Event::Joined(joined));
    assert!(matches!(&effects[..], [Effect::Sync { assignments, .. }] if assignments.is_empty()), "{effects:?}");
}

#[test]
fn what_members_write_each_other_is_read_whatever_it_is() {
    let topics = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(subscription_topics(&put_subscription(&topics)), Ok(topics));
    let share = vec![("a".to_owned(), vec![0, 2]), ("b".to_owned(), vec![])];
    assert_eq!(assignment(&put_assignment(&share)), Ok(share));
    assert_eq!(assignment(&[]), Ok(vec![]));
    assert!(assignment(&[0, 1, 0x7f, 0xff, 0xff, 0xff]).is_err());
    assert!(subscription_topics(&[0, 0, 0, 0, 0, 9, 0]).is_err());
}
