//! Several shards: a partition on another one is as good as here, over rings of any size.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

mod world;

use kafka_protocol::messages::{ApiKey, FetchResponse, ProduceResponse};
use protocol::error::ErrorCode;
use shard::Limits;
use world::kafka::{batch_of, batch_sized, decode, fetch, list_offsets, produce, records, want};
use world::{Client, Plan, World};

#[test]
fn one_request_reaches_partitions_of_all_shards_and_comes_back_in_order() {
    let mut world = World::with(Plan { shards: 3, ..Plan::default() });
    world.create_topic("t", 6);
    for home in 0..3 {
        let mut client = world.connect(home);
        let batches: Vec<_> = [5, 0, 3, 1, 4, 2].into_iter().map(|p| (p, batch_of(2, &format!("{home}")))).collect();
        let response = client.produce(&mut world, 9, &produce(-1, "t", &batches));
        let answers: Vec<_> =
            response.responses[0].partition_responses.iter().map(|p| (p.index, p.error_code, p.base_offset)).collect();
        let base = 2 * i64::try_from(home).unwrap();
        assert_eq!(answers, [5, 0, 3, 1, 4, 2].map(|p| (p, 0, base)));
    }
    for home in 0..3 {
        let mut client = world.connect(home);
        let all = [4, 5, 0, 1, 2, 3].map(|p| want(p, 0)).to_vec();
        let response = client.fetch(&mut world, 12, &fetch("t", all));
        let found: Vec<_> = response.responses[0]
            .partitions
            .iter()
            .map(|p| (p.partition_index, records(p.records.as_ref()).len(), p.high_watermark))
            .collect();
        assert_eq!(found, [4, 5, 0, 1, 2, 3].map(|p| (p, 6, 6)));
        let asked: Vec<_> = (0..7).map(|p| (p, -1)).collect();
        let response = client.list_offsets(&mut world, 6, &list_offsets("t", &asked));
        let offsets: Vec<_> = response.topics[0].partitions.iter().map(|p| (p.offset, p.error_code)).collect();
        assert_eq!(offsets[..6], [(6, 0); 6]);
        assert_eq!(offsets[6], (-1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0));
    }
}

#[test]
fn nothing_is_acked_before_the_owner_has_it_durable() {
    let mut world = World::with(Plan { shards: 2, ..Plan::default() });
    world.create_topic("t", 2);
    let mut client = world.connect(0);
    client.put(&mut world, "t", 1, batch_of(1, "warm"));
    world.device(1).stalled = true;
    client.send(&mut world, ApiKey::Produce, 9, &produce(1, "t", &[(0, batch_of(1, "a")), (1, batch_of(1, "b"))]));
    world.run();
    assert!(client.pop(&mut world).is_none());
    world.device(1).stalled = false;
    world.run();
    assert!(client.pop(&mut world).is_some());
}

#[test]
fn a_ring_of_one_place_loses_nothing_and_blocks_nobody() {
    let limits = Limits { neighbour_requests_max: 8, ..Limits::default() };
    let mut world = World::with(Plan { shards: 3, ring: 1, limits, ..Plan::default() });
    world.create_topic("t", 3);
    let mut clients: Vec<Client> = (0..9).map(|at| world.connect(at % 3)).collect();
    for round in 0..20 {
        for client in &mut clients {
            let all: Vec<_> = (0..3).map(|p| (p, batch_of(1, &format!("{round}")))).collect();
            client.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &all));
            let all = (0..3).map(|p| want(p, 0)).collect();
            client.send(&mut world, ApiKey::Fetch, 12, &fetch("t", all));
        }
    }
    world.run();
    for client in &clients {
        let mut last = [-1; 3];
        for _ in 0..20 {
            let response = client.pop(&mut world).expect("produced");
            let (_, response) = decode::<ProduceResponse>(ApiKey::Produce, 9, response);
            for answer in &response.responses[0].partition_responses {
                assert_eq!(answer.error_code, 0);
                let at = usize::try_from(answer.index).unwrap();
                assert!(answer.base_offset > last[at], "in order");
                last[at] = answer.base_offset;
            }
            assert!(client.pop(&mut world).is_some(), "fetched");
        }
    }
    let mut client = world.connect(0);
    let response = client.fetch(&mut world, 12, &fetch("t", (0..3).map(|p| want(p, 0)).collect()));
    assert!(response.responses[0].partitions.iter().all(|p| records(p.records.as_ref()).len() == 180));
    assert!(world.stats.iter().map(|stats| stats.messages_held.get()).sum::<u64>() > 0, "rings were full");
}

#[test]
fn when_the_owner_has_no_room_its_askers_wait_in_bounded_memory() {
    let limits = Limits { conn_request_bytes_max: 500_000, neighbour_requests_max: 6, ..Limits::default() };
    let mut world = World::with(Plan { shards: 2, tail_bytes: 4 << 20, limits, ..Plan::default() });
    world.create_topic("t", 2);
    let mut clients: Vec<Client> = (0..4).map(|_| world.connect(0)).collect();
    clients[0].put(&mut world, "t", 1, batch_of(1, "warm"));
    world.device(1).stalled = true;
    for client in &mut clients {
        for _ in 0..12 {
            client.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &[(1, batch_sized(200_000))]));
        }
    }
    world.run();
    world.shards[0].housekeep(world.now);
    assert!(world.stats[0].request_bytes.get() < 1_500_000);
    assert_eq!(world.stats[0].connections_paused.get(), 4);
    world.device(1).stalled = false;
    world.run();
    for client in &clients {
        for _ in 0..12 {
            assert!(client.pop(&mut world).is_some());
        }
    }
}

#[test]
fn an_answer_for_a_connection_that_is_gone_goes_nowhere() {
    let mut world = World::with(Plan { shards: 2, ..Plan::default() });
    world.create_topic("t", 2);
    let mut client = world.connect(0);
    client.put(&mut world, "t", 1, batch_of(1, "warm"));
    world.device(1).stalled = true;
    client.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &[(1, batch_of(1, "x"))]));
    client.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(1, 1)]).with_max_wait_ms(50_000));
    world.run();
    world.net(0).hang_up(client.id);
    world.run();
    world.device(1).stalled = false;
    world.run();
    let mut other = world.connect(0);
    let response = other.fetch(&mut world, 12, &fetch("t", vec![want(1, 0)]));
    assert_eq!(records(response.responses[0].partitions[0].records.as_ref()).len(), 2, "what was taken in is stored");
    for shard in &mut world.shards {
        shard.housekeep(world.now);
    }
    assert!(world.stats.iter().all(|stats| stats.fetches_waiting.get() == 0 && stats.request_bytes.get() == 0));
}

#[test]
fn when_there_is_no_room_to_wait_a_fetch_is_answered_with_what_there_is() {
    let limits = Limits { waiting_reads_max: 3, ..Limits::default() };
    for shards in [1, 2] {
        let mut world = World::with(Plan { shards, limits: limits.clone(), ..Plan::default() });
        world.create_topic("t", 2);
        let mut clients: Vec<Client> = (0..5).map(|_| world.connect(0)).collect();
        for client in &mut clients {
            client.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(1, 0)]).with_max_wait_ms(50_000));
        }
        world.run();
        let answered = clients.iter().filter(|client| client.pop(&mut world).is_some()).count();
        assert_eq!(answered, 2, "{shards} shards");
        world.connect(0).put(&mut world, "t", 1, batch_of(1, "x"));
        for client in &clients[..3] {
            let (_, response) = decode::<FetchResponse>(ApiKey::Fetch, 12, client.pop(&mut world).expect("woken"));
            assert_eq!(records(response.responses[0].partitions[0].records.as_ref()).len(), 1);
        }
    }
}

#[test]
fn a_fenced_journal_hurts_its_own_partitions_only() {
    let mut world = World::with(Plan { shards: 2, ..Plan::default() });
    world.create_topic("t", 2);
    let mut client = world.connect(0);
    client.put(&mut world, "t", 1, batch_of(1, "warm"));
    world.device(1).broken = true;
    let both = [(0, batch_of(1, "a")), (1, batch_of(1, "b"))];
    let response = client.produce(&mut world, 9, &produce(-1, "t", &both));
    let codes: Vec<_> = response.responses[0].partition_responses.iter().map(|p| ErrorCode(p.error_code)).collect();
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::KAFKA_STORAGE_ERROR]);
    let fenced = world
        .control
        .iter()
        .any(|m| matches!(m, base::message::ToControl::JournalFenced { journal, .. } if journal.0 == 2));
    assert!(fenced);
    assert_eq!(world.shards[1].backends_mut().log.lines.len(), 1, "logged once");
}

#[test]
fn a_flush_that_fails_fences_what_other_shards_have_in_flight_on_that_device() {
    let mut world = World::with(Plan { shards: 3, ..Plan::default() });
    world.create_topic("t", 3);
    let mut client = world.connect(2);
    for partition in 0..3 {
        client.put(&mut world, "t", partition, batch_of(1, "warm"));
    }
    world.device(1).stalled = true;
    client.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &[(1, batch_of(1, "in flight"))]));
    world.run();
    world.device(0).flush_broken = true;
    client.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &[(0, batch_of(1, "fails"))]));
    world.run();
    assert!(world.device(0).failed, "the backends are told");
    world.device(1).stalled = false;
    world.run();
    let mut codes = Vec::new();
    while let Some(response) = client.pop(&mut world) {
        let (_, response) = decode::<ProduceResponse>(ApiKey::Produce, 9, response);
        codes.push(ErrorCode(response.responses[0].partition_responses[0].error_code));
    }
    assert_eq!(codes, [ErrorCode::KAFKA_STORAGE_ERROR; 2], "neither is acked");
    assert_eq!(world.connect(0).put(&mut world, "t", 2, batch_of(1, "x")), 1, "who had nothing in flight goes on");
}
