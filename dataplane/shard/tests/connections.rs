//! Connections: order, bounds, hostile bytes, what goes to the control plane, the end.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

mod world;

use base::message::{ControlRequest, Refusal, ShardCommand, ToControl, ToShard};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, FetchResponse, ListOffsetsResponse, MetadataRequest, ProduceResponse,
};
use protocol::error::ErrorCode;
use shard::Limits;
use world::kafka::{batch_of, batch_sized, decode, fetch, frame, list_offsets, produce, records, want};
use world::{Client, Plan, World};

fn take_requests(world: &mut World) -> Vec<ControlRequest> {
    let all = std::mem::take(&mut world.control);
    let (requests, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|m| matches!(m, ToControl::Request(_)));
    world.control = others;
    let request = |message| match message {
        ToControl::Request(request) => request,
        other => panic!("{other:?}"),
    };
    requests.into_iter().map(request).collect()
}

fn answer(world: &World, request: &ControlRequest, response: Option<&[u8]>) {
    let response = response.map(<[u8]>::to_vec);
    let shard = usize::from(request.shard.0);
    world.rings.to_shard(shard, ToShard::Answer { conn: request.conn, sequence: request.sequence, response });
}

#[test]
fn responses_leave_in_the_order_of_their_requests_whoever_is_done_first() {
    let mut world = World::with(Plan { shards: 2, ..Plan::default() });
    world.create_topic("t", 2);
    let mut client = world.connect(0);
    client.put(&mut world, "t", 0, batch_of(1, "warm"));
    client.put(&mut world, "t", 1, batch_of(1, "warm"));
    // A control request, a fetch that waits, a produce for the other shard, offsets, another control request.
    client.send(&mut world, ApiKey::Metadata, 9, &MetadataRequest::default());
    client.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(0, 1)]).with_max_wait_ms(400));
    client.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &[(1, batch_of(1, "x"))]));
    client.send(&mut world, ApiKey::ListOffsets, 6, &list_offsets("t", &[(1, -1)]));
    client.send(&mut world, ApiKey::Metadata, 9, &MetadataRequest::default());
    world.run();
    let requests = take_requests(&mut world);
    assert_eq!(requests.len(), 2);
    assert!(client.pop(&mut world).is_none());
    answer(&world, &requests[1], Some(b"second"));
    world.run();
    assert!(client.pop(&mut world).is_none(), "the first request is not answered");
    answer(&world, &requests[0], Some(b"first"));
    world.run();
    assert_eq!(client.pop(&mut world).as_deref(), Some(&b"first"[..]));
    assert!(client.pop(&mut world).is_none(), "the fetch waits and holds the others up");
    world.advance_ms(400);
    world.run();
    let (three, _) = decode::<FetchResponse>(ApiKey::Fetch, 12, client.pop(&mut world).unwrap());
    let (four, produced) = decode::<ProduceResponse>(ApiKey::Produce, 9, client.pop(&mut world).unwrap());
    let (five, _) = decode::<ListOffsetsResponse>(ApiKey::ListOffsets, 6, client.pop(&mut world).unwrap());
    assert_eq!((three, four, five), (4, 5, 6));
    assert_eq!(produced.responses[0].partition_responses[0].base_offset, 1);
    assert_eq!(client.pop(&mut world).as_deref(), Some(&b"second"[..]));
}

#[test]
fn a_request_may_come_in_any_pieces() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    let mut bytes = frame(ApiKey::Produce, 9, 1, &produce(-1, "t", &[(0, batch_of(3, "x"))]));
    bytes.extend(frame(ApiKey::Fetch, 12, 2, &fetch("t", vec![want(0, 0)])));
    for piece in bytes.chunks(7) {
        client.push(&mut world, piece);
        world.run();
    }
    let (one, _) = decode::<ProduceResponse>(ApiKey::Produce, 9, client.pop(&mut world).unwrap());
    let (two, response) = decode::<FetchResponse>(ApiKey::Fetch, 12, client.pop(&mut world).unwrap());
    assert_eq!((one, two), (1, 2));
    assert_eq!(records(response.responses[0].partitions[0].records.as_ref()).len(), 3);
    let expected = world.net(0).expected.clone();
    assert_eq!(expected.len(), 2, "the length of each is said once: {expected:?}");
    client.correlation = 2;
    client.put(&mut world, "t", 0, batch_of(1, "y"));
}

#[test]
fn hostile_bytes_close_the_connection_and_hurt_nobody_else() {
    let mut world = World::with(Plan { shards: 2, ..Plan::default() });
    world.create_topic("t", 2);
    let mut good = world.connect(0);
    let header = |key: i16, version: i16| {
        let mut bytes = key.to_be_bytes().to_vec();
        bytes.extend_from_slice(&version.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 1, 0xff, 0xff]);
        bytes
    };
    let framed = |body: Vec<u8>| {
        let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend(body);
        bytes
    };
    let with = |key, version, body: &[u8]| {
        let mut bytes = header(key, version);
        bytes.extend_from_slice(body);
        framed(bytes)
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("length bomb", vec![0x7f, 0xff, 0xff, 0xff, 0, 0]),
        ("negative length", vec![0xff, 0xff, 0xff, 0xff]),
        ("no header", framed(vec![0; 4])),
        ("zero length", vec![0; 4]),
        ("http", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("tls", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
        ("unknown key", with(999, 0, &[])),
        ("negative key", with(-1, 0, &[])),
        ("produce of the future", with(0, 99, &[0; 20])),
        ("fetch of old", with(1, 3, &[0; 40])),
        ("empty produce", with(0, 3, &[])),
        ("produce with a count of billions", with(0, 3, &[0xff, 0xff, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff])),
        ("fetch with a count of billions", {
            let mut body = vec![0xff; 4];
            body.extend_from_slice(&[0; 12]);
            body.extend_from_slice(&[0, 0x7f, 0xff, 0xff, 0xff]);
            with(1, 4, &body)
        }),
        ("list offsets cut off", with(2, 1, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 9])),
        ("old produce cut off", with(0, 1, &[0, 1, 0, 0])),
        ("old produce without acks", with(0, 1, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
    ];
    let before = world.stats[0].requests_malformed.get();
    for (what, bytes) in &cases {
        let client = world.connect(0);
        client.push(&mut world, bytes);
        world.run();
        assert!(client.is_closed(&mut world), "{what}");
        assert!(client.pop(&mut world).is_none(), "{what}");
    }
    assert_eq!(world.stats[0].requests_malformed.get() - before, cases.len() as u64);
    good.put(&mut world, "t", 1, batch_of(1, "x"));
    world.shards[0].housekeep(world.now);
    assert_eq!(world.stats[0].connections.get(), 1);
    assert_eq!(world.stats[0].request_bytes.get(), 0);
}

#[test]
fn random_and_mutated_requests_never_panic_and_never_leave_anything_behind() {
    let mut world = World::with(Plan { shards: 2, ..Plan::default() });
    world.create_topic("t", 2);
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 33).unwrap()
    };
    let valid = [
        frame(ApiKey::Produce, 9, 1, &produce(-1, "t", &[(0, batch_of(3, "x")), (1, batch_of(1, "y"))])),
        frame(ApiKey::Produce, 3, 1, &produce(1, "t", &[(0, batch_of(3, "x"))])),
        frame(ApiKey::Fetch, 12, 1, &fetch("t", vec![want(0, 0), want(1, 0)]).with_session_epoch(0)),
        frame(ApiKey::Fetch, 4, 1, &fetch("t", vec![want(0, 0)]).with_max_wait_ms(100)),
        frame(ApiKey::ListOffsets, 6, 1, &list_offsets("t", &[(0, -1), (1, -2)])),
    ];
    for round in 0..600 {
        let client = world.connect(0);
        let mut bytes = valid[round % valid.len()].clone();
        for _ in 0..1 + draw() % 4 {
            let at = 4 + draw() % (bytes.len() - 4);
            bytes[at] = u8::try_from(draw() % 256).unwrap();
        }
        if draw() % 3 == 0 {
            let len = 12 + draw() % (bytes.len() - 12);
            bytes.truncate(len);
            bytes[..4].copy_from_slice(&u32::try_from(len - 4).unwrap().to_be_bytes());
        }
        client.push(&mut world, &bytes);
        world.run();
        if !client.is_closed(&mut world) {
            world.net(0).hang_up(client.id);
        }
        world.run();
    }
    world.advance_ms(70_000);
    world.run();
    for (shard, stats) in world.shards.iter_mut().zip(&world.stats) {
        shard.housekeep(world.now);
        assert_eq!((stats.connections.get(), stats.request_bytes.get(), stats.requests_in_flight.get()), (0, 0, 0));
        assert_eq!(stats.fetches_waiting.get(), 0);
    }
    let mut client = world.connect(0);
    client.put(&mut world, "t", 0, batch_of(1, "still well"));
}

#[test]
fn a_request_larger_than_the_bound_is_not_awaited() {
    let limits = Limits { request_bytes_max: 10_000, ..Limits::default() };
    let mut world = World::with(Plan { limits, ..Plan::default() });
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    client.put(&mut world, "t", 0, batch_sized(9000));
    client.push(&mut world, &10_001u32.to_be_bytes());
    world.run();
    assert!(client.is_closed(&mut world));
}

#[test]
fn a_request_that_names_too_many_partitions_closes_the_connection() {
    let limits = Limits { request_elements_max: 100, ..Limits::default() };
    let mut world = World::with(Plan { limits, ..Plan::default() });
    world.create_topic("t", 1);
    let many = || (0..100).collect::<Vec<i32>>();
    for bytes in [
        frame(ApiKey::Fetch, 12, 1, &fetch("t", many().into_iter().map(|p| want(p, 0)).collect())),
        frame(
            ApiKey::Produce,
            9,
            1,
            &produce(-1, "t", &many().into_iter().map(|p| (p, Vec::new())).collect::<Vec<_>>()),
        ),
        frame(ApiKey::ListOffsets, 6, 1, &list_offsets("t", &many().into_iter().map(|p| (p, -1)).collect::<Vec<_>>())),
    ] {
        let client = world.connect(0);
        client.push(&mut world, &bytes);
        world.run();
        assert!(client.is_closed(&mut world));
    }
}

#[test]
fn what_the_shard_does_not_answer_goes_to_the_control_plane_whole() {
    let mut world = World::with(Plan { shards: 2, ..Plan::default() });
    world.create_topic("t", 1);
    let client = world.connect(1);
    let sent = [
        frame(ApiKey::ApiVersions, 3, 1, &ApiVersionsRequest::default()),
        frame(ApiKey::ListOffsets, 7, 3, &list_offsets("t", &[(0, -1), (0, 1_700_000_000_000)])),
        frame(ApiKey::ListOffsets, 7, 4, &list_offsets("t", &[(0, -3)])),
    ];
    for bytes in &sent {
        client.push(&mut world, bytes);
    }
    // ApiVersions of a version that does not exist is answered, by the control plane, never closed.
    let future = [0, 0, 0, 8, 0, 18, 0, 99, 0, 0, 0, 5];
    client.push(&mut world, &future);
    world.run();
    let requests = take_requests(&mut world);
    let frames: Vec<&[u8]> = requests.iter().map(|request| &request.frame[..]).collect();
    assert_eq!(frames, [&sent[0][4..], &sent[1][4..], &sent[2][4..], &future[4..]]);
    assert!(requests.iter().all(|request| request.conn == client.id && request.shard.0 == 1));
    assert_eq!(&*requests[0].peer, "127.0.0.1:1");
    answer(&world, &requests[0], None);
    world.run();
    assert!(client.is_closed(&mut world), "no answer means to close");
    assert!(matches!(world.control.as_slice(), [ToControl::ConnectionClosed { conn, .. }] if *conn == client.id));
    answer(&world, &requests[1], Some(b"late"));
    world.run();
    assert!(client.pop(&mut world).is_none());
}

#[test]
fn when_the_control_plane_takes_nothing_its_requests_wait_unread_and_the_data_path_goes_on() {
    let limits = Limits { conn_questions_max: 100, bulky_requests_max: 100, ..Limits::default() };
    let mut world = World::with(Plan { limits, ..Plan::default() });
    world.create_topic("t", 1);
    let (mut asker, mut producer) = (world.connect(0), world.connect(0));
    world.rings.set_control_full(true);
    for _ in 0..100 {
        asker.send(&mut world, ApiKey::Metadata, 9, &MetadataRequest::default());
        world.run();
    }
    assert!(take_requests(&mut world).is_empty());
    assert!(!world.net(0).is_reading(asker.id) && world.net(0).unread(asker.id) > 0);
    producer.put(&mut world, "t", 0, batch_of(1, "x"));
    world.rings.set_control_full(false);
    world.run();
    let requests = take_requests(&mut world);
    assert_eq!(requests.len(), 100);
    assert!(requests.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence));
    assert!(world.net(0).is_reading(asker.id));
}

#[test]
fn a_client_that_does_not_take_its_answers_is_not_read() {
    let limits = Limits { conn_response_bytes_max: 50_000, ..Limits::default() };
    let mut world = World::with(Plan { limits, ..Plan::default() });
    world.create_topic("t", 1);
    let (mut slow, mut other) = (world.connect(0), world.connect(0));
    other.put(&mut world, "t", 0, batch_sized(20_000));
    world.net(0).stall(slow.id, true);
    for _ in 0..100 {
        slow.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(0, 0)]));
        world.run();
    }
    world.shards[0].housekeep(world.now);
    assert!(world.stats[0].response_bytes_queued.get() < 80_000);
    assert!(!world.net(0).is_reading(slow.id));
    other.fetch(&mut world, 12, &fetch("t", vec![want(0, 0)]));
    world.net(0).stall(slow.id, false);
    world.run();
    for at in 1..=100 {
        let (correlation, _) = decode::<FetchResponse>(ApiKey::Fetch, 12, slow.pop(&mut world).expect("an answer"));
        assert_eq!(correlation, at);
    }
}

#[test]
fn requests_in_flight_are_bounded_for_each_connection() {
    let limits = Limits { conn_requests_max: 10, conn_questions_max: 100, ..Limits::default() };
    let mut world = World::with(Plan { limits, ..Plan::default() });
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    for _ in 0..50 {
        client.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(0, 0)]).with_max_wait_ms(1000));
    }
    world.run();
    world.shards[0].housekeep(world.now);
    assert_eq!(world.stats[0].requests_in_flight.get(), 10);
    assert!(!world.net(0).is_reading(client.id));
    world.connect(0).put(&mut world, "t", 0, batch_of(1, "x"));
    world.run();
    for _ in 0..50 {
        assert!(client.pop(&mut world).is_some());
    }
}

#[test]
fn answers_that_wait_for_those_before_them_count_as_not_sent() {
    let limits = Limits { conn_response_bytes_max: 50_000, ..Limits::default() };
    let mut world = World::with(Plan { limits, ..Plan::default() });
    world.create_topic("t", 2);
    let mut client = world.connect(0);
    world.connect(0).put(&mut world, "t", 0, batch_sized(20_000));
    // Nothing comes to partition 1: whatever is asked behind it cannot leave.
    client.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(1, 0)]).with_max_wait_ms(10_000));
    for _ in 0..100 {
        client.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(0, 0)]));
        world.run();
    }
    world.shards[0].housekeep(world.now);
    assert!(world.stats[0].response_bytes_queued.get() < 80_000, "{}", world.stats[0].response_bytes_queued.get());
    assert!(!world.net(0).is_reading(client.id));
    world.advance_ms(10_000);
    world.run();
    for at in 1..=101 {
        let (correlation, _) = decode::<FetchResponse>(ApiKey::Fetch, 12, client.pop(&mut world).expect("an answer"));
        assert_eq!(correlation, at);
    }
    world.shards[0].housekeep(world.now);
    assert_eq!(world.stats[0].response_bytes_queued.get(), 0);
}

#[test]
fn what_a_connection_asks_at_a_time_is_bounded_and_its_appends_are_not() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    let max = Limits::default().conn_questions_max;
    assert!(max < Limits::default().bulky_requests_max);
    for _ in 0..4 * max {
        client.send(&mut world, ApiKey::Metadata, 9, &MetadataRequest::default());
    }
    world.run();
    let mut asked = 0;
    loop {
        let requests = take_requests(&mut world);
        if requests.is_empty() {
            break;
        }
        assert!(requests.len() <= max, "{}", requests.len());
        for request in &requests {
            asked += 1;
            answer(&world, request, Some(b"answer"));
        }
        world.run();
    }
    assert_eq!(asked, 4 * max);
    for _ in 0..asked {
        assert_eq!(client.pop(&mut world).as_deref(), Some(&b"answer"[..]));
    }
    let mut producer = world.connect(0);
    world.device(0).stalled = true;
    for _ in 0..4 * max {
        producer.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &[(0, batch_of(1, "x"))]));
    }
    world.run();
    world.shards[0].housekeep(world.now);
    assert_eq!(world.stats[0].requests_in_flight.get(), 4 * max as u64);
}

/// Answers of the control plane, taken by nobody: memory stays bounded, others go on, and those are closed in the end.
#[test]
fn answers_that_nobody_takes_are_bounded_over_all_connections() {
    const ANSWER: usize = 100_000;
    const AT_A_TIME: usize = 16;
    let limits = Limits {
        response_bytes_total_max: 10 * ANSWER,
        conn_response_bytes_max: 2 * ANSWER,
        bulky_requests_max: AT_A_TIME,
        stall_crowded_ms_max: 5_000,
        ..Limits::default()
    };
    let mut world = World::with(Plan { limits, ..Plan::default() });
    let mut deaf: Vec<Client> = (0..50).map(|_| world.connect(0)).collect();
    for client in &mut deaf {
        world.net(0).stall(client.id, true);
        for _ in 0..20 {
            client.send(&mut world, ApiKey::Metadata, 9, &MetadataRequest::default());
        }
    }
    let mut good = world.connect(0);
    let queued = |world: &mut World| {
        world.shards[0].housekeep(world.now);
        usize::try_from(world.stats[0].response_bytes_queued.get()).unwrap()
    };
    let mut served = 0;
    for round in 0..40 {
        good.send(&mut world, ApiKey::Metadata, 9, &MetadataRequest::default());
        world.run();
        for request in take_requests(&mut world) {
            let size = if request.conn == good.id { 100 } else { ANSWER };
            answer(&world, &request, Some(&vec![0; size]));
            world.run();
        }
        served += usize::from(good.pop(&mut world).is_some());
        // What was asked before the room was used up comes on top.
        assert!(queued(&mut world) <= (2 * 10 + AT_A_TIME) * ANSWER, "round {round}");
        world.advance_ms(500);
        world.run();
    }
    assert!(served > 0);
    assert!(deaf.iter().any(|client| client.is_closed(&mut world)));
    for _ in 0..100 {
        world.advance_ms(1_000);
        world.run();
        queued(&mut world);
        for request in take_requests(&mut world) {
            answer(&world, &request, Some(&[0; 100]));
        }
        world.run();
    }
    while good.pop(&mut world).is_some() {
        served += 1;
    }
    assert_eq!(served, 40, "a client that takes its answers gets them all");
}

#[test]
fn the_memory_of_all_requests_together_is_bounded() {
    let limits = Limits { request_bytes_total_max: 1_000_000, produce_queue_bytes_max: 100 << 20, ..Limits::default() };
    let mut world = World::with(Plan { limits, tail_bytes: 4 << 20, ..Plan::default() });
    world.create_topic("t", 1);
    let mut clients: Vec<Client> = (0..20).map(|_| world.connect(0)).collect();
    clients[0].put(&mut world, "t", 0, batch_of(1, "warm"));
    world.device(0).stalled = true;
    for client in &mut clients {
        for _ in 0..4 {
            client.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &[(0, batch_sized(100_000))]));
        }
    }
    world.run();
    world.shards[0].housekeep(world.now);
    assert!(world.stats[0].request_bytes.get() < 1_200_000, "{}", world.stats[0].request_bytes.get());
    world.device(0).stalled = false;
    world.run();
    for client in &clients {
        for _ in 0..4 {
            assert!(client.pop(&mut world).is_some());
        }
    }
}

#[test]
fn idle_connections_are_closed_and_busy_ones_are_not() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let (idle, mut waiting, mut active) = (world.connect(0), world.connect(0), world.connect(0));
    waiting.send(&mut world, ApiKey::Metadata, 9, &MetadataRequest::default());
    world.run();
    world.advance_ms(599_000);
    active.put(&mut world, "t", 0, batch_of(1, "x"));
    world.shards[0].housekeep(world.now);
    world.run();
    assert!(!idle.is_closed(&mut world));
    world.advance_ms(2000);
    world.shards[0].housekeep(world.now);
    world.run();
    assert!(idle.is_closed(&mut world));
    assert!(!waiting.is_closed(&mut world), "the broker owes it an answer");
    assert!(!active.is_closed(&mut world));
    assert_eq!(world.stats[0].connections_idle_closed.get(), 1);
}

#[test]
fn those_who_take_nothing_of_their_answers_cannot_starve_the_others() {
    let limits = Limits { response_bytes_total_max: 4 << 20, ..Limits::default() };
    let mut world = World::with(Plan { limits, ..Plan::default() });
    world.create_topic("t", 1);
    let mut good = world.connect(0);
    for _ in 0..8 {
        good.put(&mut world, "t", 0, batch_sized(200_000));
    }
    let mut stalled = Vec::new();
    for _ in 0..40 {
        let mut client = world.connect(0);
        world.net(0).stall(client.id, true);
        client.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(0, 0)]));
        world.run();
        stalled.push(client);
    }
    world.shards[0].housekeep(world.now);
    let queued = world.stats[0].response_bytes_queued.get();
    assert!((3 << 20..5 << 20).contains(&queued), "{queued}");
    // Those behind them come to their turn, and stall too.
    for _ in 0..3 {
        world.advance_ms(31_000);
        world.shards[0].housekeep(world.now);
        world.run();
    }
    assert!(stalled[..20].iter().all(|client| client.is_closed(&mut world)));
    let response = good.fetch(&mut world, 12, &fetch("t", vec![want(0, 0)]));
    assert!(!records(response.responses[0].partitions[0].records.as_ref()).is_empty());
}

#[test]
fn when_a_connection_goes_its_waiting_fetches_go_too() {
    let mut world = World::with(Plan { shards: 2, ..Plan::default() });
    world.create_topic("t", 2);
    let mut client = world.connect(0);
    client.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(0, 0), want(1, 0)]).with_max_wait_ms(50_000));
    world.run();
    let waiting = |world: &mut World| -> u64 {
        for shard in &mut world.shards {
            shard.housekeep(world.now);
        }
        world.stats.iter().map(|stats| stats.fetches_waiting.get()).sum()
    };
    assert_eq!(waiting(&mut world), 2);
    world.net(0).hang_up(client.id);
    world.run();
    assert_eq!(waiting(&mut world), 0);
}

#[test]
fn commands_tell_ends_epochs_and_refusals() {
    use base::message::Outcome;
    let mut world = World::new();
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    client.put(&mut world, "t", 0, batch_of(3, "x"));
    let partition = world.partition_id("t", 0);
    let ask = |world: &mut World, command| {
        let token = world.command(0, command);
        world.run();
        world.outcome(token).expect("an outcome")
    };
    let unknown = base::PartitionId(999);
    let Ok(Outcome::Bounds(bounds)) = ask(&mut world, ShardCommand::Bounds { partition }) else { panic!("no bounds") };
    assert_eq!((bounds.log_start.0, bounds.high_watermark.0, bounds.log_end.0, bounds.epoch.0), (0, 3, 3, 5));
    assert!(matches!(ask(&mut world, ShardCommand::Bounds { partition: unknown }), Err(Refusal::UnknownPartition)));
    let append = |epoch, partition, batch| ShardCommand::Append { partition, epoch: base::Epoch(epoch), batch };
    let good = batch_of(2, "c");
    assert!(matches!(ask(&mut world, append(5, partition, good.clone())), Ok(Outcome::Appended(at)) if at.0 == 3));
    assert!(matches!(ask(&mut world, append(4, partition, good.clone())), Err(Refusal::FencedEpoch)));
    assert!(matches!(ask(&mut world, append(6, partition, good.clone())), Err(Refusal::UnknownEpoch)));
    assert!(matches!(ask(&mut world, append(5, unknown, good.clone())), Err(Refusal::UnknownPartition)));
    assert!(matches!(ask(&mut world, append(5, partition, good[..50].to_vec())), Err(Refusal::Corrupt)));
    let read = |offset| ShardCommand::Read { partition, offset: base::Offset(offset), bytes_max: 1 << 20 };
    let Ok(Outcome::Records(bytes, _)) = ask(&mut world, read(1)) else { panic!("no records") };
    assert_eq!(records(Some(&bytes.into())).len(), 5);
    assert!(matches!(ask(&mut world, read(9)), Err(Refusal::OutOfRange)));
    assert!(matches!(
        ask(&mut world, ShardCommand::EpochEnd { partition, epoch: base::Epoch(9) }),
        Ok(Outcome::EpochEnd(Some((epoch, end)))) if epoch.0 == 5 && end.0 == 5
    ));
    let Ok(Outcome::Sizes(sizes)) = ask(&mut world, ShardCommand::Sizes) else { panic!("no sizes") };
    assert_eq!(sizes.len(), 1);
    let start = |to| ShardCommand::MoveStart { partition, to: base::Offset(to) };
    assert!(matches!(ask(&mut world, start(2)), Ok(Outcome::Moved(at)) if at.0 == 2));
    assert!(matches!(ask(&mut world, start(99)), Err(Refusal::OutOfRange)));
    assert!(matches!(ask(&mut world, start(-1)), Ok(Outcome::Moved(at)) if at.0 == 5));
    let response = client.list_offsets(&mut world, 6, &list_offsets("t", &[(0, -2), (0, -1), (4, -1)]));
    let found: Vec<_> =
        response.topics[0].partitions.iter().map(|p| (p.offset, p.leader_epoch, p.error_code)).collect();
    assert_eq!(found, [(5, -1, 0), (5, 5, 0), (-1, -1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0)]);
}

#[test]
fn a_commands_append_is_not_done_before_it_is_durable() {
    let mut world = World::new();
    world.create_topic("t", 1);
    world.connect(0).put(&mut world, "t", 0, batch_of(1, "warm"));
    world.device(0).stalled = true;
    let partition = world.partition_id("t", 0);
    let epoch = base::Epoch(5);
    let token = world.command(0, ShardCommand::Append { partition, epoch, batch: batch_of(1, "x") });
    let moved = world.command(0, ShardCommand::MoveStart { partition, to: base::Offset(1) });
    world.run();
    assert!(world.outcome(token).is_none() && world.outcome(moved).is_none());
    world.device(0).stalled = false;
    world.run();
    assert!(world.outcome(token).unwrap().is_ok() && world.outcome(moved).unwrap().is_ok());
}

#[test]
fn a_move_of_a_log_start_ends_with_its_partition_its_journal_or_its_time() {
    for refused in [Refusal::UnknownPartition, Refusal::Fenced, Refusal::Busy] {
        let mut world = World::new();
        world.create_topic("t", 1);
        world.connect(0).put(&mut world, "t", 0, batch_of(2, "x"));
        let partition = world.partition_id("t", 0);
        world.device(0).stalled = true;
        let moved = world.command(0, ShardCommand::MoveStart { partition, to: base::Offset(1) });
        world.run();
        assert!(world.outcome(moved).is_none());
        match refused {
            Refusal::UnknownPartition => world.delete_topic("t"),
            Refusal::Fenced => world.device(0).flush_broken = true,
            _ => world.advance_ms(30_000),
        }
        world.device(0).stalled = refused == Refusal::Busy;
        world.run();
        assert_eq!(world.outcome(moved).expect("an answer").err(), Some(refused));
    }
}

#[test]
fn a_shutdown_answers_what_is_in_progress_and_then_stops() {
    for shards in [1, 2] {
        let mut world = World::with(Plan { shards, ..Plan::default() });
        world.create_topic("t", 2);
        let (mut reader, mut writer, mut member) = (world.connect(0), world.connect(0), world.connect(0));
        let idle = world.connect(0);
        writer.put(&mut world, "t", 0, batch_of(1, "x"));
        let last = usize::from(shards) - 1;
        world.device(last).stalled = true;
        let all = vec![want(0, 1), want(1, 0)];
        reader.send(&mut world, ApiKey::Fetch, 12, &fetch("t", all).with_max_wait_ms(50_000));
        writer.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &[(1, batch_of(1, "y"))]));
        member.send(&mut world, ApiKey::Metadata, 9, &MetadataRequest::default());
        world.run();
        for shard in 0..usize::from(shards) {
            world.rings.to_shard(shard, ToShard::Shutdown);
        }
        for _ in 0..20 {
            world.turn();
        }
        assert!(world.net(0).accepting_stopped);
        assert!(reader.pop(&mut world).is_some(), "who waits is told what there is");
        assert!(idle.is_closed(&mut world));
        assert!(!member.is_closed(&mut world), "the control plane has a moment to answer");
        world.advance_ms(1001);
        for _ in 0..3 {
            world.turn();
        }
        assert!(member.is_closed(&mut world), "but other members' doings are not waited for");
        assert!(writer.pop(&mut world).is_none() && !writer.is_closed(&mut world), "not durable yet");
        assert!(!world.shards.iter().any(shard::Shard::is_stopped));
        world.device(last).stalled = false;
        for _ in 0..50 {
            world.turn();
        }
        assert!(writer.pop(&mut world).is_some() && writer.is_closed(&mut world), "{shards} shards");
        assert!(world.shards.iter().all(shard::Shard::is_stopped), "{shards} shards");
        let stopped = world.control.iter().filter(|message| matches!(message, ToControl::Stopped { .. })).count();
        assert_eq!(stopped, usize::from(shards));
    }
}

#[test]
fn a_shutdown_does_not_wait_for_ever() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    client.put(&mut world, "t", 0, batch_of(1, "x"));
    world.net(0).stall(client.id, true);
    client.send(&mut world, ApiKey::Metadata, 9, &MetadataRequest::default());
    client.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(0, 0)]));
    world.run();
    world.rings.to_shard(0, ToShard::Shutdown);
    for _ in 0..10 {
        world.turn();
    }
    assert!(!client.is_closed(&mut world), "the fetch behind the control request is answered but cannot leave");
    world.advance_ms(5_001);
    for _ in 0..10 {
        world.turn();
    }
    assert!(world.shards[0].is_stopped());
}
