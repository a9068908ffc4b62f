//! Snapshots: what is written again is what is live.

use super::*;

/// A snapshot of every slot, in pieces of about `bytes_max`, with `between` called after each piece.
fn snapshot(world: &mut World, bytes_max: usize, mut between: impl FnMut(&mut World)) -> usize {
    let mut log = Vec::new();
    let mut pieces = 0;
    for slot in (0..SLOTS).map(Slot) {
        let mut cursor = world.machine.snapshot(slot);
        while !cursor.is_done() {
            let records = world.machine.snapshot_records(slot, &mut cursor, bytes_max);
            log.extend(records.into_iter().map(|record| (slot, record)));
            let before = world.log.len();
            between(world);
            log.extend(world.log[before..].iter().cloned());
            pieces += 1;
        }
    }
    world.log = log;
    pieces
}

#[test]
fn a_snapshot_alone_restores_everything() {
    let mut world = World::new();
    let (ids, generation) = world.stable("members", 3);
    for group in 0..20 {
        let group = std::format!("group {group}");
        for partition in 0..10 {
            world.commit(who(&group, "", -1), "t", partition, i64::from(partition));
            world.commit(who(&group, "", -1), "u", partition, i64::from(partition) + 100);
        }
    }
    world.durable();
    let deleted = world.delete("group 3");
    world.durable();
    assert!(world.deleted(deleted).is_ok());
    let pieces = snapshot(&mut world, 500, |_| {});
    assert!(pieces > 50, "{pieces}");
    assert_eq!(world.log.len(), 19 * 20 + 1, "each live key once");
    world.restart(Config::default());
    assert_eq!(world.machine.group_count(), 20);
    assert_eq!((world.offset("group 7", "t", 9), world.offset("group 7", "u", 0)), (9, 100));
    assert_eq!(world.offset("group 3", "t", 9), -1);
    assert_eq!(world.heartbeat(who("members", &ids[2], generation)), Ok(()));
}

#[test]
fn what_happens_during_a_snapshot_is_not_lost() {
    let mut world = World::new();
    for partition in 0..50 {
        world.commit(who("a", "", -1), "t", partition, 1);
        world.commit(who("b", "", -1), "t", partition, 1);
    }
    world.durable();
    let mut step = 0;
    snapshot(&mut world, 300, |world| {
        step += 1;
        let group = if step % 2 == 0 { "a" } else { "b" };
        world.commit(who(group, "", -1), "t", step * 7 % 50, i64::from(step) + 10);
        if step == 9 {
            world.delete("b");
        }
        world.commit(who("late", "", -1), "t", step, 3);
        world.durable();
    });
    let all = |world: &World| ["a", "b", "late"].map(|group| world.machine.fetch_all(group).unwrap());
    let before = all(&world);
    world.restart(Config::default());
    assert_eq!(all(&world), before);
}

#[test]
fn live_bytes_follow_the_live_keys() {
    let mut world = World::new();
    let total = |world: &World| (0..SLOTS).map(|slot| world.machine.live_bytes(Slot(slot))).sum::<u64>();
    for _ in 0..100 {
        for partition in 0..10 {
            world.commit(who("g", "", -1), "t", partition, 1);
        }
        world.durable();
    }
    let live = total(&world);
    let records: usize = (0..10).map(|at| world.log[at].1.bytes()).sum();
    assert_eq!(live, records as u64);
    world.stable("m", 3);
    assert!(total(&world) > live);
    world.restart(Config::default());
    assert!(total(&world) > live);
    world.event(Event::TopicDeleted("t", TopicId(7)));
    world.durable();
    world.pass(60_000);
    world.durable();
    world.pass(1_200_000);
    world.durable();
    assert_eq!(world.machine.group_count(), 0);
    assert_eq!(total(&world), 0);
}

#[test]
fn a_log_is_trimmed_only_when_it_is_long_and_mostly_dead() {
    let policy = TrimPolicy { log_bytes_min: 1000, factor: 4 };
    assert!(!policy.is_due(1000, 0));
    assert!(policy.is_due(1001, 0));
    assert!(!policy.is_due(4000, 1000));
    assert!(policy.is_due(4001, 1000));
    assert!(!policy.is_due(u64::MAX, u64::MAX / 2));
}
