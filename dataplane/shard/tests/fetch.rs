//! Fetch as clients see it.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

mod world;

use base::Offset;
use base::message::{Outcome, ShardCommand};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{ApiKey, FetchRequest, FetchResponse};
use protocol::error::ErrorCode;
use shard::Limits;
use world::kafka::{batch_of, batch_sized, by_id, decode, fetch, forgotten, produce, records, want};
use world::{Client, Plan, World};

fn only(response: &FetchResponse) -> &PartitionData {
    assert_eq!((response.responses.len(), response.responses[0].partitions.len()), (1, 1));
    &response.responses[0].partitions[0]
}

fn pop(world: &mut World, client: &Client, version: i16) -> Option<FetchResponse> {
    client.pop(world).map(|response| decode(ApiKey::Fetch, version, response).1)
}

fn indices(response: &FetchResponse) -> Vec<i32> {
    response.responses.iter().flat_map(|topic| topic.partitions.iter().map(|p| p.partition_index)).collect()
}

fn move_start(world: &mut World, topic: &str, partition: usize, to: i64) {
    let shard = partition % world.shards.len();
    let partition = world.partition_id(topic, partition);
    let token = world.command(shard, ShardCommand::MoveStart { partition, to: Offset(to) });
    world.run();
    assert!(matches!(world.outcome(token), Some(Ok(Outcome::Moved(at))) if at == Offset(to)));
}

#[test]
fn a_fetch_waits_until_there_is_something_and_no_longer() {
    let mut world = World::new();
    world.create_topic("t", 2);
    let (mut reader, mut writer) = (world.connect(0), world.connect(0));
    let request = fetch("t", vec![want(0, 0), want(1, 0)]).with_max_wait_ms(500);
    reader.send(&mut world, ApiKey::Fetch, 12, &request);
    world.run();
    world.advance_ms(499);
    world.run();
    assert!(reader.pop(&mut world).is_none(), "nothing is there and the time is not up");
    writer.put(&mut world, "t", 1, batch_of(2, "x"));
    let response = pop(&mut world, &reader, 12).expect("woken by the commit");
    assert_eq!(records(response.responses[0].partitions[1].records.as_ref()).len(), 2);
    assert_eq!(indices(&response), [0, 1]);

    let request = fetch("t", vec![want(0, 0)]).with_max_wait_ms(500);
    reader.send(&mut world, ApiKey::Fetch, 12, &request);
    world.run();
    assert_eq!(world.shards[0].turn(world.now).until, Some(world.now.mono.plus_ms(500)), "sleeps until then");
    world.advance_ms(500);
    world.run();
    let response = pop(&mut world, &reader, 12).expect("the time is up");
    assert!(records(only(&response).records.as_ref()).is_empty());
    world.shards[0].housekeep(world.now);
    assert_eq!(world.stats[0].fetches_waiting.get(), 0);
}

#[test]
fn a_fetch_is_not_woken_by_what_is_not_durable() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let (mut reader, mut writer) = (world.connect(0), world.connect(0));
    writer.put(&mut world, "t", 0, batch_of(1, "a"));
    reader.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(0, 1)]).with_max_wait_ms(500));
    world.run();
    world.device(0).stalled = true;
    writer.send(&mut world, ApiKey::Produce, 9, &produce(1, "t", &[(0, batch_of(1, "b"))]));
    world.run();
    assert!(reader.pop(&mut world).is_none());
    let response = world.connect(0).fetch(&mut world, 12, &fetch("t", vec![want(0, 0)]));
    assert_eq!(records(only(&response).records.as_ref()).len(), 1, "only what is committed is seen");
    world.device(0).stalled = false;
    world.run();
    assert_eq!(records(only(&pop(&mut world, &reader, 12).unwrap()).records.as_ref()), [(1, "b-0".into())]);
}

#[test]
fn min_bytes_are_gathered_over_several_commits() {
    for shards in [1, 2] {
        let mut world = World::with(Plan { shards, ..Plan::default() });
        world.create_topic("t", 2);
        let (mut reader, mut writer) = (world.connect(0), world.connect(0));
        let request = fetch("t", vec![want(0, 0), want(1, 0)]).with_max_wait_ms(500).with_min_bytes(2500);
        reader.send(&mut world, ApiKey::Fetch, 12, &request);
        for partition in [0, 1] {
            writer.put(&mut world, "t", partition, batch_sized(1000));
            assert!(reader.pop(&mut world).is_none(), "{shards} shards, too little yet");
        }
        writer.put(&mut world, "t", 1, batch_sized(1000));
        let response = pop(&mut world, &reader, 12).expect("enough now");
        assert_eq!(records(response.responses[0].partitions[1].records.as_ref()).len(), 2);
    }
}

#[test]
fn a_fetch_that_waits_for_more_holds_no_memory_of_the_arena() {
    for shards in [1, 2] {
        let mut world = World::with(Plan { shards, ..Plan::default() });
        world.create_topic("t", 2);
        let (mut reader, mut writer) = (world.connect(0), world.connect(0));
        let both = vec![want(0, 0), want(1, 0)];
        reader.send(&mut world, ApiKey::Fetch, 12, &fetch("t", both).with_max_wait_ms(500).with_min_bytes(100_000));
        let held = |world: &mut World| -> usize {
            world.shards.iter_mut().map(|shard| shard.backends_mut().arena.held()).sum()
        };
        for round in 0..3 {
            for partition in [0, 1] {
                writer.put(&mut world, "t", partition, batch_sized(15_000));
                assert_eq!(held(&mut world), 0, "{shards} shards, round {round}");
            }
        }
        assert!(reader.pop(&mut world).is_none());
        writer.put(&mut world, "t", 0, batch_sized(15_000));
        let response = pop(&mut world, &reader, 12).expect("enough");
        let counts: Vec<_> =
            response.responses[0].partitions.iter().map(|p| records(p.records.as_ref()).len()).collect();
        assert_eq!(counts, [4, 3], "all that was there from the beginning");
        assert_eq!(held(&mut world), 0, "sent and let go");
    }
}

#[test]
fn less_than_min_bytes_is_given_when_the_time_is_up() {
    for shards in [1, 3] {
        let mut world = World::with(Plan { shards, ..Plan::default() });
        world.create_topic("t", 3);
        let (mut reader, mut writer) = (world.connect(0), world.connect(0));
        let all = vec![want(0, 0), want(1, 0), want(2, 0)];
        reader.send(&mut world, ApiKey::Fetch, 12, &fetch("t", all).with_max_wait_ms(500).with_min_bytes(1 << 20));
        writer.put(&mut world, "t", 2, batch_sized(1000));
        assert!(reader.pop(&mut world).is_none());
        world.advance_ms(501);
        world.run();
        let response = pop(&mut world, &reader, 12).expect("the time is up");
        assert_eq!(records(response.responses[0].partitions[2].records.as_ref()).len(), 1, "{shards} shards");
    }
}

#[test]
fn at_least_one_batch_comes_whatever_the_limits_and_no_more_than_they_say() {
    for shards in [1, 2] {
        let mut world = World::with(Plan { shards, ..Plan::default() });
        world.create_topic("t", 2);
        let mut client = world.connect(0);
        for partition in [0, 1] {
            for _ in 0..4 {
                client.put(&mut world, "t", partition, batch_sized(10_000));
            }
        }
        let count =
            |response: &FetchResponse, at: usize| records(response.responses[0].partitions[at].records.as_ref()).len();
        let both = || vec![want(0, 0), want(1, 0)];
        let response = client.fetch(&mut world, 12, &fetch("t", both()).with_max_bytes(1));
        assert_eq!((count(&response, 0), count(&response, 1)), (1, 0), "one batch, of the first partition");
        let response = client.fetch(&mut world, 12, &fetch("t", both()).with_max_bytes(35_000));
        assert_eq!((count(&response, 0), count(&response, 1)), (3, 0), "the request's order is kept");
        let response = client.fetch(&mut world, 12, &fetch("t", both()).with_max_bytes(55_000));
        assert_eq!((count(&response, 0), count(&response, 1)), (4, 1));
        let small = both().into_iter().map(|p| p.with_partition_max_bytes(1)).collect();
        let response = client.fetch(&mut world, 12, &fetch("t", small));
        assert_eq!(count(&response, 0), 1, "one batch though the partition's limit is smaller");
    }
}

#[test]
fn large_batches_are_chained_and_small_ones_copied() {
    let mut world = World::new();
    world.create_topic("t", 2);
    let mut client = world.connect(0);
    for _ in 0..3 {
        client.put(&mut world, "t", 0, batch_sized(20_000));
        client.put(&mut world, "t", 1, batch_sized(100));
    }
    let shared = world.net(0).shared_pieces;
    let response = client.fetch(&mut world, 12, &fetch("t", vec![want(0, 0)]));
    assert_eq!(records(only(&response).records.as_ref()).len(), 3);
    assert_eq!(world.net(0).shared_pieces - shared, 3);
    let response = client.fetch(&mut world, 12, &fetch("t", vec![want(1, 0)]));
    assert_eq!(records(only(&response).records.as_ref()).len(), 3);
    assert_eq!(world.net(0).shared_pieces - shared, 3, "gathered by copy");
}

#[test]
fn over_the_pin_budget_large_batches_are_copied_too() {
    let limits = Limits { pinned_bytes_max: 30_000, ..Limits::default() };
    let mut world = World::with(Plan { limits, ..Plan::default() });
    world.create_topic("t", 1);
    let (mut slow, mut client) = (world.connect(0), world.connect(0));
    for _ in 0..3 {
        client.put(&mut world, "t", 0, batch_sized(20_000));
    }
    world.net(0).stall(slow.id, true);
    let shared = world.net(0).shared_pieces;
    let response = slow.fetch(&mut world, 12, &fetch("t", vec![want(0, 0)]));
    assert_eq!(records(only(&response).records.as_ref()).len(), 3);
    assert_eq!(world.net(0).shared_pieces - shared, 3, "and the client does not take it");
    let response = client.fetch(&mut world, 12, &fetch("t", vec![want(0, 0)]));
    assert_eq!(records(only(&response).records.as_ref()).len(), 3);
    assert_eq!(world.net(0).shared_pieces - shared, 3, "copied");
    world.net(0).stall(slow.id, false);
    world.run();
    client.fetch(&mut world, 12, &fetch("t", vec![want(0, 0)]));
    assert_eq!(world.net(0).shared_pieces - shared, 6, "room again");
    world.shards[0].backends_mut().arena.pinned = 40_000;
    client.fetch(&mut world, 12, &fetch("t", vec![want(0, 0)]));
    assert_eq!(world.net(0).shared_pieces - shared, 6, "the arena itself says that too much is held");
}

#[test]
fn offsets_and_epochs_outside_are_refused_by_name() {
    let mut world = World::new();
    let id = world.create_topic("t", 1);
    let mut client = world.connect(0);
    for _ in 0..5 {
        client.put(&mut world, "t", 0, batch_of(1, "x"));
    }
    move_start(&mut world, "t", 0, 2);
    let error = |world: &mut World, client: &mut Client, partition| {
        let request = fetch("t", vec![partition]).with_max_wait_ms(5000);
        let response = client.fetch(world, 12, &request);
        (ErrorCode(only(&response).error_code), only(&response).diverging_epoch.clone())
    };
    let code = |world: &mut World, client: &mut Client, partition| error(world, client, partition).0;
    assert_eq!(code(&mut world, &mut client, want(0, 1)), ErrorCode::OFFSET_OUT_OF_RANGE, "below the log start");
    assert_eq!(code(&mut world, &mut client, want(0, 6)), ErrorCode::OFFSET_OUT_OF_RANGE, "above the log end");
    assert_eq!(code(&mut world, &mut client, want(0, -5)), ErrorCode::OFFSET_OUT_OF_RANGE);
    assert_eq!(code(&mut world, &mut client, want(0, 2).with_current_leader_epoch(5)), ErrorCode::NONE);
    assert_eq!(code(&mut world, &mut client, want(0, 2).with_current_leader_epoch(4)), ErrorCode::FENCED_LEADER_EPOCH);
    assert_eq!(code(&mut world, &mut client, want(0, 2).with_current_leader_epoch(6)), ErrorCode::UNKNOWN_LEADER_EPOCH);
    assert_eq!(code(&mut world, &mut client, want(0, 2).with_last_fetched_epoch(5)), ErrorCode::NONE);
    let of_the_future = want(0, 2).with_last_fetched_epoch(6);
    assert_eq!(code(&mut world, &mut client, of_the_future), ErrorCode::OFFSET_OUT_OF_RANGE);
    let (none, diverging) = error(&mut world, &mut client, want(0, 7).with_last_fetched_epoch(5));
    assert_eq!((none, diverging.epoch, diverging.end_offset), (ErrorCode::NONE, 5, 5), "the epoch and its end");
    assert_eq!(code(&mut world, &mut client, want(9, 0)), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    // Who read to the end stays there when everything before it is deleted.
    move_start(&mut world, "t", 0, 5);
    let request = fetch("t", vec![want(0, 5).with_last_fetched_epoch(5)]).with_max_wait_ms(0);
    assert_eq!(only(&client.fetch(&mut world, 12, &request)).error_code, ErrorCode::NONE.0);
    world.create_topic("empty", 1);
    let request = fetch("empty", vec![want(0, 0).with_last_fetched_epoch(5)]).with_max_wait_ms(0);
    assert_eq!(only(&client.fetch(&mut world, 12, &request)).error_code, ErrorCode::NONE.0);

    let other = by_id(fetch("t", vec![want(0, 0)]), base::TopicId(id.0 + 100));
    assert_eq!(only(&client.fetch(&mut world, 13, &other)).error_code, ErrorCode::UNKNOWN_TOPIC_ID.0);
    world.delete_topic("t");
    let stale = by_id(fetch("t", vec![want(0, 0)]), id);
    assert_eq!(only(&client.fetch(&mut world, 13, &stale)).error_code, ErrorCode::UNKNOWN_TOPIC_ID.0);
    let response = client.fetch(&mut world, 12, &fetch("t", vec![want(0, 0)]));
    assert_eq!(only(&response).error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0);
}

#[test]
fn who_waits_on_a_topic_hears_that_it_is_deleted() {
    for shards in [1, 2] {
        let mut world = World::with(Plan { shards, ..Plan::default() });
        world.create_topic("t", 2);
        let mut client = world.connect(0);
        client.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(1, 0)]).with_max_wait_ms(50_000));
        world.run();
        assert!(client.pop(&mut world).is_none());
        world.delete_topic("t");
        let response = pop(&mut world, &client, 12).expect("at once");
        assert_eq!(only(&response).error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0);
    }
}

#[test]
fn read_committed_is_all_that_is_committed_with_no_aborted_transactions() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    client.put(&mut world, "t", 0, batch_of(2, "x"));
    let response = client.fetch(&mut world, 12, &fetch("t", vec![want(0, 0)]).with_isolation_level(1));
    assert_eq!(only(&response).aborted_transactions.as_ref().map(Vec::len), Some(0));
    assert_eq!((only(&response).last_stable_offset, records(only(&response).records.as_ref()).len()), (2, 2));
    let response = client.fetch(&mut world, 12, &fetch("t", vec![want(0, 0)]));
    assert_eq!(only(&response).aborted_transactions, None);
    assert_eq!(only(&response).preferred_read_replica.0, -1);
}

fn in_session(request: FetchRequest, id: i32, epoch: i32) -> FetchRequest {
    request.with_session_id(id).with_session_epoch(epoch)
}

#[test]
fn a_session_tells_only_news_and_reads_what_it_remembers() {
    for shards in [1, 2] {
        let mut world = World::with(Plan { shards, ..Plan::default() });
        world.create_topic("t", 4);
        let mut client = world.connect(0);
        client.put(&mut world, "t", 1, batch_of(1, "a"));
        let all = (0..4).map(|p| want(p, 0)).collect();
        let first = client.fetch(&mut world, 12, &in_session(fetch("t", all), 0, 0));
        assert!(first.session_id > 0);
        assert_eq!(indices(&first), [0, 1, 2, 3], "the first answer tells all");
        let id = first.session_id;
        let none = || fetch("t", vec![]).with_topics(vec![]);

        let again = client.fetch(&mut world, 12, &in_session(none(), id, 1));
        assert_eq!(indices(&again), [1], "offset 0 of partition 1 is still wanted");
        let moved = client.fetch(&mut world, 12, &in_session(fetch("t", vec![want(1, 1)]), id, 2));
        assert_eq!((moved.session_id, indices(&moved)), (id, vec![]), "nothing new");

        client.put(&mut world, "t", 3, batch_of(1, "b"));
        let news = client.fetch(&mut world, 12, &in_session(none(), id, 3));
        assert_eq!(indices(&news), [3]);
        client.fetch(&mut world, 12, &in_session(fetch("t", vec![want(3, 1)]), id, 4));
        move_start(&mut world, "t", 3, 1);
        let news = client.fetch(&mut world, 12, &in_session(none(), id, 5));
        assert_eq!((indices(&news), only(&news).log_start_offset), (vec![3], 1), "a moved log start is news");

        let mut request = in_session(none(), id, 6);
        request.forgotten_topics_data = vec![forgotten("t", vec![3])];
        client.fetch(&mut world, 12, &request);
        client.put(&mut world, "t", 3, batch_of(1, "c"));
        let after = client.fetch(&mut world, 12, &in_session(none(), id, 7));
        assert_eq!(indices(&after), Vec::<i32>::new(), "a forgotten partition is not read");
    }
}

#[test]
fn a_session_that_waits_is_woken_by_any_of_its_partitions() {
    for shards in [1, 3] {
        let mut world = World::with(Plan { shards, ..Plan::default() });
        world.create_topic("t", 3);
        let (mut client, mut writer) = (world.connect(0), world.connect(shards as usize - 1));
        let all = (0..3).map(|p| want(p, 0)).collect();
        let id = client.fetch(&mut world, 12, &in_session(fetch("t", all), 0, 0)).session_id;
        let mut next = fetch("t", vec![]).with_topics(vec![]);
        for (epoch, partition) in [(1, 2), (2, 0), (3, 1)] {
            client.send(&mut world, ApiKey::Fetch, 12, &in_session(next.with_max_wait_ms(5000), id, epoch));
            world.run();
            assert!(client.pop(&mut world).is_none());
            writer.put(&mut world, "t", partition, batch_of(1, "x"));
            let response = pop(&mut world, &client, 12).expect("woken");
            assert_eq!(indices(&response), [partition], "{shards} shards");
            // The client moves on in that partition and names it alone.
            next = fetch("t", vec![want(partition, 1)]);
        }
    }
}

#[test]
fn sessions_are_refused_closed_and_mixed_by_kafkas_rules() {
    let mut world = World::new();
    let topic = world.create_topic("t", 1);
    let mut client = world.connect(0);
    let request = || fetch("t", vec![want(0, 0)]);
    let id = client.fetch(&mut world, 12, &in_session(request(), 0, 0)).session_id;
    let code = |response: FetchResponse| {
        assert!(response.error_code == 0 || (response.responses.is_empty() && response.session_id == 0));
        ErrorCode(response.error_code)
    };
    let mut ask = |version, request: FetchRequest| code(client.fetch(&mut world, version, &request));
    assert_eq!(ask(12, in_session(request(), id + 12345, 1)), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    assert_eq!(ask(12, in_session(request(), id, 2)), ErrorCode::INVALID_FETCH_SESSION_EPOCH);
    assert_eq!(ask(13, by_id(in_session(request(), id, 1), topic)), ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
    assert_eq!(ask(12, in_session(request(), id, 1)), ErrorCode::NONE);
    assert_eq!(ask(12, in_session(request(), id, -1)), ErrorCode::NONE, "closed");
    assert_eq!(ask(12, in_session(request(), id, 2)), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    let response = client.fetch(&mut world, 12, &in_session(request(), 0, -1));
    assert_eq!((response.session_id, indices(&response)), (0, vec![0]), "session-less");
    let response = client.fetch(&mut world, 13, &by_id(in_session(request(), 0, 0), topic));
    assert!(response.session_id > 0, "by id");
}

#[test]
fn sessions_are_bounded_and_who_gets_none_is_served_without() {
    let limits = Limits { sessions_max: 2, ..Limits::default() };
    let mut world = World::with(Plan { limits, ..Plan::default() });
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    let mut ask =
        |world: &mut World| client.fetch(world, 12, &in_session(fetch("t", vec![want(0, 0)]), 0, 0)).session_id;
    let (first, second) = (ask(&mut world), ask(&mut world));
    assert!(first > 0 && second > 0 && first != second);
    assert_eq!(ask(&mut world), 0, "both are in use");
    world.advance_ms(200_000);
    assert!(ask(&mut world) > 0, "an idle one went");
    world.shards[0].housekeep(world.now);
    assert_eq!((world.stats[0].fetch_sessions.get(), world.stats[0].fetch_sessions_evicted.get()), (2, 1));
}

#[test]
fn in_a_session_partitions_take_turns() {
    let mut world = World::new();
    world.create_topic("t", 3);
    let mut client = world.connect(0);
    for partition in 0..3 {
        for _ in 0..3 {
            client.put(&mut world, "t", partition, batch_sized(10_000));
        }
    }
    let all = (0..3).map(|p| want(p, 0)).collect();
    let first = client.fetch(&mut world, 12, &in_session(fetch("t", all), 0, 0).with_max_bytes(1));
    let given = |response: &FetchResponse| -> Vec<i32> {
        let all = response.responses.iter().flat_map(|topic| &topic.partitions);
        all.filter(|p| !records(p.records.as_ref()).is_empty()).map(|p| p.partition_index).collect()
    };
    let mut seen = given(&first);
    for epoch in 1..6 {
        let none = fetch("t", vec![]).with_topics(vec![]).with_max_bytes(1);
        seen.extend(given(&client.fetch(&mut world, 12, &in_session(none, first.session_id, epoch))));
    }
    assert_eq!(seen, [0, 1, 2, 0, 1, 2]);
}
