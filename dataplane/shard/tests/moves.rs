//! Partitions that move from one journal to another, as clients see it.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

mod world;

use std::sync::Arc;

use base::image::{Delta, HomeEntry, Homes, JournalEntry, PartitionEntry, TopicEntry};
use base::message::{Outcome, Refusal, ShardCommand, ToShard};
use base::{JournalId, Offset, ShardId, WallMs};
use kafka_protocol::messages::{ApiKey, FetchResponse, ProduceResponse};
use protocol::batch::Producer;
use protocol::error::ErrorCode;
use world::kafka::{batch_at, batch_by, batch_of, decode, fetch, list_offsets, produce, records, want};
use world::{Client, Plan, World};

const TOPIC: &str = "t";

/// Two shards with a journal each, and a second one on the first shard: 1 and 3 on shard 0, 2 on shard 1. Partition 0 of the
/// topic begins in journal 1.
fn three_journals() -> World {
    let mut world = World::with(Plan { shards: 2, ..Plan::default() });
    let first = world.image.journals.get(&JournalId(1)).unwrap();
    let third = Arc::new(JournalEntry { id: JournalId(3), ..JournalEntry::clone(first) });
    world.image.journals.insert(JournalId(3), third.clone());
    world.apply(Delta { journals: vec![third], ..Delta::default() });
    world.create_topic(TOPIC, 1);
    world
}

fn shard_of(journal: u64) -> usize {
    usize::from(journal == 2)
}

fn entry(world: &World) -> (Arc<TopicEntry>, PartitionEntry) {
    let topic = world.image.topics.get(TOPIC).unwrap().clone();
    let partition = topic.partitions[0];
    (topic, partition)
}

fn homes(world: &World) -> Homes {
    let (topic, partition) = entry(world);
    let known = world.image.homes.get(&partition.id).map(|homes| Homes::clone(homes));
    known.unwrap_or(Homes {
        partition: partition.id,
        topic: topic.id,
        index: 0,
        earlier: Vec::new(),
        first: Offset(0),
        journal: partition.journal,
        since: 0,
        moving: None,
    })
}

/// Changes what metadata says of the partition; the shards hear of it.
fn put(world: &mut World, homes: Homes, journal: JournalId) {
    let delta = changed(world, homes, journal);
    world.apply(delta);
}

fn changed(world: &mut World, homes: Homes, journal: JournalId) -> Delta {
    let (topic, partition) = entry(world);
    let shard = ShardId(u16::from(journal.0 == 2));
    let partitions = Arc::new([PartitionEntry { journal, shard, ..partition }]);
    let topic = Arc::new(TopicEntry { partitions, ..TopicEntry::clone(&topic) });
    world.image.homes.insert(partition.id, Arc::new(homes));
    world.image.topics.insert(topic.name.clone(), topic.clone());
    world.image.topics_by_id.insert(topic.id, topic.clone());
    Delta { topics: vec![topic], ..Delta::default() }
}

fn send_off(world: &mut World, to: u64) {
    let mut homes = homes(world);
    let shard = ShardId(u16::from(to == 2));
    homes.moving = Some(HomeEntry { journal: JournalId(to), shard, first: homes.first });
    let (_, partition) = entry(world);
    put(world, homes, partition.journal);
}

fn ask(world: &mut World, shard: usize, command: ShardCommand) -> Result<Outcome, Refusal> {
    let token = world.command(shard, command);
    world.run();
    world.outcome(token).expect("an outcome")
}

fn close(world: &mut World, to: u64) -> (Offset, Vec<u8>) {
    let (_, partition) = entry(world);
    let command = ShardCommand::Close { partition: partition.id, next: JournalId(to) };
    match ask(world, usize::from(partition.shard.0), command) {
        Ok(Outcome::Closed(at, state)) => (at, state),
        other => panic!("{other:?}"),
    }
}

fn open(world: &mut World, to: u64, state: Vec<u8>) {
    let (_, partition) = entry(world);
    let command = ShardCommand::Open { journal: JournalId(to), previous: partition.journal, state };
    let outcome = ask(world, shard_of(to), command);
    assert!(matches!(outcome, Ok(Outcome::Opened)), "{outcome:?}");
}

fn arrived(world: &World, to: u64, at: Offset) -> (Homes, JournalId) {
    let (_, partition) = entry(world);
    let mut homes = homes(world);
    homes.earlier.push(HomeEntry { journal: partition.journal, shard: partition.shard, first: homes.first });
    (homes.first, homes.moving, homes.since) = (at, None, world.image.generation + 1);
    homes.journal = JournalId(to);
    (homes, JournalId(to))
}

fn go(world: &mut World, to: u64) {
    send_off(world, to);
    let (at, state) = close(world, to);
    open(world, to, state);
    let (homes, journal) = arrived(world, to, at);
    put(world, homes, journal);
}

/// Everything from an offset on, over as many fetches as it takes.
fn read_all(world: &mut World, client: &mut Client, mut from: i64) -> Vec<(i64, String)> {
    let mut all = Vec::new();
    loop {
        let response = client.fetch(world, 12, &fetch(TOPIC, vec![want(0, from)]));
        let partition = &response.responses[0].partitions[0];
        assert_eq!(partition.error_code, 0, "at {from}");
        if from == partition.high_watermark {
            return all;
        }
        let found = records(partition.records.as_ref());
        let last = found.last().unwrap_or_else(|| panic!("nothing at {from} of {}", partition.high_watermark));
        from = last.0 + 1;
        all.extend(found);
    }
}

#[test]
fn every_home_serves_its_own_and_the_open_one_says_where_the_log_ends() {
    let mut world = three_journals();
    // From either shard; the homes are on both.
    let mut clients = [world.connect(0), world.connect(1)];
    let mut sent = Vec::new();
    for (round, to) in [2, 3, 1, 2].into_iter().enumerate() {
        for part in 0..3 {
            let value = format!("{round}.{part}");
            let base = clients[part % 2].put(&mut world, TOPIC, 0, batch_of(2, &value));
            sent.extend((0..2).map(|at| (base + at, format!("{value}-{at}"))));
        }
        go(&mut world, to);
        for client in &mut clients {
            assert_eq!(read_all(&mut world, client, 0), sent, "after the move to {to}");
            for from in 0..sent.len() {
                let response = client.fetch(&mut world, 12, &fetch(TOPIC, vec![want(0, from as i64)]));
                let partition = &response.responses[0].partitions[0];
                let found = records(partition.records.as_ref());
                assert!(found.iter().any(|(offset, _)| *offset == from as i64), "at {from}: {found:?}");
                assert_eq!(partition.high_watermark, sent.len() as i64);
            }
            let ends = client.list_offsets(&mut world, 6, &list_offsets(TOPIC, &[(0, -2), (0, -1)]));
            let ends: Vec<i64> = ends.topics[0].partitions.iter().map(|end| end.offset).collect();
            assert_eq!(ends, [0, sent.len() as i64]);
        }
    }
}

#[test]
fn a_log_start_behind_an_old_home_shuts_it() {
    let mut world = three_journals();
    let mut client = world.connect(1);
    client.put(&mut world, TOPIC, 0, batch_of(10, "a"));
    go(&mut world, 2);
    client.put(&mut world, TOPIC, 0, batch_of(10, "b"));
    let (_, partition) = entry(&world);
    let start = |world: &mut World, to| {
        ask(world, 1, ShardCommand::MoveStart { partition: partition.id, to: Offset(to) }).unwrap()
    };
    assert!(
        matches!(start(&mut world, 5), Outcome::Moved(at) if at == Offset(5)),
        "while its records are in the old home"
    );
    let code = |world: &mut World, client: &mut Client, from| {
        let response = client.fetch(world, 12, &fetch(TOPIC, vec![want(0, from)]));
        let partition = &response.responses[0].partitions[0];
        let bytes = partition.records.as_ref().map_or(0, |records| records.len());
        (ErrorCode(partition.error_code), bytes > 0)
    };
    assert_eq!(code(&mut world, &mut client, 4), (ErrorCode::OFFSET_OUT_OF_RANGE, false));
    assert_eq!(code(&mut world, &mut client, 5), (ErrorCode::NONE, true));
    assert!(matches!(start(&mut world, 15), Outcome::Moved(at) if at == Offset(15)));
    assert_eq!(code(&mut world, &mut client, 9), (ErrorCode::OFFSET_OUT_OF_RANGE, false));
    assert_eq!(code(&mut world, &mut client, 15), (ErrorCode::NONE, true));
}

#[test]
fn a_search_by_time_is_asked_of_each_home() {
    let mut world = three_journals();
    let mut client = world.connect(0);
    for (time, to) in [(1000, 2), (2000, 1), (3000, 2)] {
        client.put(&mut world, TOPIC, 0, batch_at(time, 10));
        go(&mut world, to);
    }
    let (_, partition) = entry(&world);
    let mut find = |shard: usize, from: i64, upto: i64, time: i64| {
        let (partition, timestamp) = (partition.id, WallMs(time));
        let command = ShardCommand::FindTime { partition, timestamp, from: Offset(from), upto: Offset(upto) };
        match ask(&mut world, shard, command) {
            Ok(Outcome::Batch(batch)) => batch.is_some(),
            other => panic!("{other:?}"),
        }
    };
    assert!(find(0, 0, 1, 1000) && !find(0, 0, 1, 1001));
    assert!(find(1, 1, 2, 1500) && !find(1, 1, 2, 2500));
    assert!(find(0, 2, 3, 3000));
}

#[test]
fn batches_in_flight_while_a_partition_moves_are_stored_once_and_in_order() {
    for to in [2, 3] {
        let mut world = three_journals();
        let mut client = world.connect(0);
        let batch = |sequence: i32| {
            let producer = Producer { id: 9, epoch: 0, sequence, transactional: false };
            produce(-1, TOPIC, &[(0, batch_by(1, &format!("{sequence}"), producer))])
        };
        client.produce(&mut world, 9, &batch(0));
        // One is on its way to the device when the partition closes, two come after that.
        send_off(&mut world, to);
        world.device(0).stalled = true;
        client.send(&mut world, ApiKey::Produce, 9, &batch(1));
        world.run();
        let (_, partition) = entry(&world);
        let token = world.command(0, ShardCommand::Close { partition: partition.id, next: JournalId(to) });
        world.run();
        assert!(world.outcome(token).is_none(), "not durable yet");
        client.send(&mut world, ApiKey::Produce, 9, &batch(2));
        client.send(&mut world, ApiKey::Produce, 9, &batch(3));
        world.run();
        assert!(client.pop(&mut world).is_none());
        world.device(0).stalled = false;
        world.run();
        let Some(Ok(Outcome::Closed(at, state))) = world.outcome(token) else { panic!("closed") };
        assert_eq!(at, Offset(2));
        open(&mut world, to, state);
        let code = |world: &mut World, client: &Client| {
            let response = client.pop(world).expect("an answer");
            let (_, response) = decode::<ProduceResponse>(ApiKey::Produce, 9, response);
            ErrorCode(response.responses[0].partition_responses[0].error_code)
        };
        assert_eq!(code(&mut world, &client), ErrorCode::NONE, "it was taken before");
        let (homes, journal) = arrived(&world, to, at);
        put(&mut world, homes, journal);
        let late = [code(&mut world, &client), code(&mut world, &client)];
        if to == 3 {
            assert_eq!(late, [ErrorCode::NONE; 2], "in the same shard they go on where the partition is now");
        } else {
            assert_eq!(late, [ErrorCode::NOT_LEADER_OR_FOLLOWER; 2]);
            for sequence in [2, 3] {
                let response = client.produce(&mut world, 9, &batch(sequence));
                assert_eq!(response.responses[0].partition_responses[0].error_code, 0, "sent again");
            }
        }
        // What is sent again although it is there is there once.
        for sequence in 0..4 {
            let response = client.produce(&mut world, 9, &batch(sequence));
            assert_eq!(response.responses[0].partition_responses[0].base_offset, i64::from(sequence));
        }
        let expected: Vec<_> = (0..4).map(|at| (at, format!("{at}-0"))).collect();
        assert_eq!(read_all(&mut world, &mut client, 0), expected);
    }
}

#[test]
fn no_batch_overtakes_those_that_wait_in_the_old_home() {
    let mut world = three_journals();
    let mut client = world.connect(1);
    let batch = |sequence: i32| {
        let producer = Producer { id: 9, epoch: 0, sequence, transactional: false };
        produce(-1, TOPIC, &[(0, batch_by(1, &format!("{sequence}"), producer))])
    };
    send_off(&mut world, 2);
    let (at, state) = close(&mut world, 2);
    open(&mut world, 2, state);
    // The first batch of its producer waits in the old home, which has not heard that the partition has moved.
    client.send(&mut world, ApiKey::Produce, 9, &batch(0));
    world.run();
    let (homes, journal) = arrived(&world, 2, at);
    let delta = Arc::new(changed(&mut world, homes, journal));
    world.image.generation += 1;
    let image = Arc::new(world.image.clone());
    let apply = |token| ToShard::Apply { token, image: image.clone(), delta: delta.clone() };
    world.rings.to_shard(1, apply(1_000_001));
    world.run();
    client.send(&mut world, ApiKey::Produce, 9, &batch(1));
    world.run();
    assert!(client.pop(&mut world).is_none(), "answers leave in order");
    world.rings.to_shard(0, apply(1_000_002));
    world.run();
    for _ in 0..2 {
        let response = client.pop(&mut world).expect("an answer");
        let (_, response) = decode::<ProduceResponse>(ApiKey::Produce, 9, response);
        let code = ErrorCode(response.responses[0].partition_responses[0].error_code);
        assert_eq!(code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    for sequence in 0..2 {
        let response = client.produce(&mut world, 9, &batch(sequence));
        assert_eq!(response.responses[0].partition_responses[0].base_offset, i64::from(sequence));
    }
}

#[test]
fn whoever_waits_for_records_is_sent_to_look_again() {
    let mut world = three_journals();
    let (mut reader, mut writer) = (world.connect(0), world.connect(0));
    writer.put(&mut world, TOPIC, 0, batch_of(1, "a"));
    reader.send(&mut world, ApiKey::Fetch, 12, &fetch(TOPIC, vec![want(0, 1)]).with_max_wait_ms(60_000));
    world.run();
    assert!(reader.pop(&mut world).is_none());
    go(&mut world, 2);
    let response = reader.pop(&mut world).expect("it does not wait where nothing comes any more");
    let (_, response) = decode::<FetchResponse>(ApiKey::Fetch, 12, response);
    let code = ErrorCode(response.responses[0].partitions[0].error_code);
    assert_eq!(code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(read_all(&mut world, &mut reader, 0), [(0, "a-0".to_owned())]);
}

#[test]
fn from_its_closing_on_the_old_home_says_nothing_that_may_be_old() {
    let mut world = three_journals();
    let mut client = world.connect(0);
    client.put(&mut world, TOPIC, 0, batch_of(1, "a"));
    send_off(&mut world, 2);
    close(&mut world, 2);
    let refused = ErrorCode::NOT_LEADER_OR_FOLLOWER.0;
    let response = client.fetch(&mut world, 12, &fetch(TOPIC, vec![want(0, 0)]));
    assert_eq!(response.responses[0].partitions[0].error_code, refused);
    let response = client.list_offsets(&mut world, 6, &list_offsets(TOPIC, &[(0, -1)]));
    assert_eq!(response.topics[0].partitions[0].error_code, refused);
    // It stays after all: all goes on.
    let mut stays = homes(&world);
    stays.moving = None;
    put(&mut world, stays, JournalId(1));
    client.put(&mut world, TOPIC, 0, batch_of(1, "b"));
    assert_eq!(read_all(&mut world, &mut client, 0).len(), 2);
}

#[test]
fn a_deleted_topic_is_gone_from_all_its_homes() {
    let mut world = three_journals();
    let mut client = world.connect(0);
    for to in [2, 3, 2] {
        client.put(&mut world, TOPIC, 0, batch_of(1, "a"));
        go(&mut world, to);
    }
    send_off(&mut world, 3);
    let (_, state) = close(&mut world, 3);
    let (_, partition) = entry(&world);
    world.image.homes.remove(&partition.id);
    world.delete_topic(TOPIC);
    for shard in 0..2 {
        let Ok(Outcome::Sizes(sizes)) = ask(&mut world, shard, ShardCommand::Sizes) else { panic!("no sizes") };
        assert!(sizes.is_empty(), "{sizes:?}");
    }
    let late = ShardCommand::Open { journal: JournalId(3), previous: JournalId(2), state };
    assert!(matches!(ask(&mut world, 0, late), Err(Refusal::Moved)), "a word that comes late opens nothing");
}
