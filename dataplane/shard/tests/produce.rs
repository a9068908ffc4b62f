//! Produce as clients see it.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

mod world;

use base::image::{Compaction, TopicConfig};
use base::message::{Outcome, ShardCommand};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{ApiKey, ProduceRequest, ProduceResponse};
use protocol::batch::Producer;
use protocol::error::ErrorCode;
use shard::Limits;
use world::kafka::{batch_by, batch_of, batch_sized, by_id, decode, fetch, produce, records, transactional, want};
use world::{Client, Plan, World, topic_config};

fn answer(response: &ProduceResponse) -> &PartitionProduceResponse {
    &response.responses[0].partition_responses[0]
}

fn error_of(world: &mut World, version: i16, request: &ProduceRequest) -> ErrorCode {
    let mut client = world.connect(0);
    ErrorCode(answer(&client.produce(world, version, request)).error_code)
}

fn read_all(world: &mut World, client: &mut Client, topic: &str, partition: i32) -> Vec<(i64, String)> {
    let response = client.fetch(world, 12, &fetch(topic, vec![want(partition, 0)]));
    records(response.responses[0].partitions[0].records.as_ref())
}

#[test]
fn what_is_produced_is_fetched_in_every_version() {
    let mut world = World::new();
    let id = world.create_topic("t", 2);
    let mut client = world.connect(0);
    for version in 3..=13 {
        let mut request = produce(-1, "t", &[(0, batch_of(3, "v"))]);
        request.topic_data[0].topic_id = uuid::Uuid::from_u128(id.0);
        let response = client.produce(&mut world, version, &request);
        let answer = answer(&response);
        assert_eq!((answer.error_code, answer.base_offset), (0, 3 * i64::from(version - 3)), "version {version}");
    }
    for version in 4..=18 {
        let request = by_id(fetch("t", vec![want(0, 4), want(1, 0)]), id);
        let response = client.fetch(&mut world, version, &request);
        let partitions = &response.responses[0].partitions;
        let found = records(partitions[0].records.as_ref());
        assert_eq!(found[0], (3, "v-0".into()), "the whole batch that holds offset 4, version {version}");
        assert_eq!(found.len(), 30);
        assert_eq!((partitions[0].high_watermark, partitions[0].last_stable_offset), (33, 33));
        assert_eq!((partitions[1].error_code, partitions[1].high_watermark), (0, 0));
        assert!(records(partitions[1].records.as_ref()).is_empty());
    }
}

#[test]
fn nothing_is_acked_before_it_is_durable() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    client.put(&mut world, "t", 0, batch_of(1, "first"));
    for acks in [1, -1] {
        world.device(0).stalled = true;
        client.send(&mut world, ApiKey::Produce, 9, &produce(acks, "t", &[(0, batch_of(1, "x"))]));
        world.run();
        assert!(client.pop(&mut world).is_none(), "acks={acks}");
        world.device(0).stalled = false;
        world.run();
        let response = client.pop(&mut world).expect("durable now");
        let (_, response) = decode::<ProduceResponse>(ApiKey::Produce, 9, response);
        assert_eq!(answer(&response).error_code, ErrorCode::NONE.0);
    }
    assert!(world.stats[0].commit_latency.read().0.iter().sum::<u64>() >= 3);
}

#[test]
fn a_request_of_several_topics_and_partitions_is_answered_in_its_order() {
    let mut world = World::new();
    world.create_topic("a", 3);
    world.create_topic("b", 1);
    let mut client = world.connect(0);
    let mut request = produce(-1, "a", &[(2, batch_of(1, "a2")), (0, batch_of(2, "a0")), (7, batch_of(1, "no"))]);
    request.topic_data.extend(produce(-1, "nope", &[(0, batch_of(1, "no"))]).topic_data);
    request.topic_data.extend(produce(-1, "b", &[(0, batch_of(1, "b0"))]).topic_data);
    let response = client.produce(&mut world, 8, &request);
    let flat: Vec<_> = response
        .responses
        .iter()
        .flat_map(|topic| topic.partition_responses.iter().map(|p| (topic.name.as_str(), p.index, p.error_code)))
        .collect();
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0;
    assert_eq!(flat, [("a", 2, 0), ("a", 0, 0), ("a", 7, unknown), ("nope", 0, unknown), ("b", 0, 0)]);
    assert_eq!(response.responses[0].partition_responses[2].base_offset, -1);
    assert_eq!(read_all(&mut world, &mut client, "a", 0).len(), 2);
}

#[test]
fn every_refusal_has_its_name_and_stores_nothing() {
    let mut world = World::new();
    world.create_topic("t", 1);
    world.create_topic_with("replicated", 1, TopicConfig { min_insync_replicas: 2, ..topic_config() }, false);
    world.create_topic_with("small", 1, TopicConfig { max_message_bytes: 1000, ..topic_config() }, false);
    world.create_topic_with("recent", 1, TopicConfig { timestamp_before_ms_max: 10, ..topic_config() }, false);
    world.create_topic_with("__consumer_offsets", 1, topic_config(), true);
    world.advance_ms(1000);
    let good = batch_of(2, "x");
    let changed = |at: usize, to: u8| {
        let mut batch = good.clone();
        batch[at] = to;
        batch
    };
    let mut two = good.clone();
    two.extend_from_slice(&good);
    let mut zstd = changed(22, 4);
    world::kafka::fix_crc(&mut zstd);
    let mut control = changed(22, 0x20);
    world::kafka::fix_crc(&mut control);
    let mut transaction = changed(22, 0x10);
    world::kafka::fix_crc(&mut transaction);
    // Records that do not parse although the CRC holds: the client made them so, and would send them again for ever if it
    // were told that they were damaged on the way.
    let misshapen: Vec<Vec<u8>> = [
        (&[26, 60][..], 2),            // one record more than there are
        (&[61][..], 0x7f),             // a length beyond the end
        (&[61][..], 0x01),             // a negative length
        (&[good.len() - 1][..], 0x55), // more headers than there are
    ]
    .map(|(places, to)| {
        let mut batch = good.clone();
        places.iter().for_each(|place| batch[*place] = to + u8::from(*place == 60));
        world::kafka::fix_crc(&mut batch);
        batch
    })
    .to_vec();
    for batch in misshapen {
        assert_eq!(error_of(&mut world, 9, &produce(-1, "t", &[(0, batch)])), ErrorCode::INVALID_RECORD);
    }
    let refused = world.stats[0].apis[0].errors.get();
    let cases: Vec<(&str, i16, ProduceRequest, ErrorCode)> = vec![
        ("last byte flipped", 9, produce(-1, "t", &[(0, changed(good.len() - 1, 0x55))]), ErrorCode::CORRUPT_MESSAGE),
        ("cut off", 9, produce(-1, "t", &[(0, good[..70].to_vec())]), ErrorCode::INVALID_RECORD),
        ("empty", 9, produce(-1, "t", &[(0, Vec::new())]), ErrorCode::INVALID_RECORD),
        ("two batches", 9, produce(-1, "t", &[(0, two)]), ErrorCode::INVALID_RECORD),
        ("old format", 9, produce(-1, "t", &[(0, changed(16, 1))]), ErrorCode::INVALID_RECORD),
        ("control", 9, produce(-1, "t", &[(0, control)]), ErrorCode::INVALID_RECORD),
        ("transactional", 9, produce(-1, "t", &[(0, transaction)]), ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("a format of the future", 9, produce(-1, "t", &[(0, changed(16, 3))]), ErrorCode::CORRUPT_MESSAGE),
        ("a base offset", 9, produce(-1, "t", &[(0, changed(7, 1))]), ErrorCode::INVALID_RECORD),
        ("zstd of old", 6, produce(-1, "t", &[(0, zstd)]), ErrorCode::UNSUPPORTED_COMPRESSION_TYPE),
        ("too large", 9, produce(-1, "small", &[(0, batch_sized(2000))]), ErrorCode::MESSAGE_TOO_LARGE),
        ("too old", 9, produce(-1, "recent", &[(0, good.clone())]), ErrorCode::INVALID_TIMESTAMP),
        ("replicas", 9, produce(-1, "replicated", &[(0, good.clone())]), ErrorCode::NOT_ENOUGH_REPLICAS),
        ("internal", 9, produce(-1, "__consumer_offsets", &[(0, good.clone())]), ErrorCode::INVALID_TOPIC_EXCEPTION),
        ("acks", 9, produce(2, "t", &[(0, good.clone())]), ErrorCode::INVALID_REQUIRED_ACKS),
        (
            "transaction",
            9,
            transactional(produce(-1, "t", &[(0, good.clone())]), "tx"),
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        ("topic", 9, produce(-1, "none", &[(0, good.clone())]), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        ("partition", 9, produce(-1, "t", &[(-1, good.clone())]), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        ("topic id", 13, produce(-1, "t", &[(0, good.clone())]), ErrorCode::UNKNOWN_TOPIC_ID),
    ];
    for (what, version, request, error) in &cases {
        assert_eq!(error_of(&mut world, *version, request), *error, "{what}");
    }
    assert_eq!(error_of(&mut world, 9, &produce(1, "replicated", &[(0, good.clone())])), ErrorCode::NONE, "acks=1");
    let mut client = world.connect(0);
    let response = client.produce(&mut world, 9, &cases[4].2);
    assert_eq!(answer(&response).error_message.as_deref(), Some("only record batches of format 2 are taken"));
    assert!(read_all(&mut world, &mut client, "t", 0).is_empty());
    assert_eq!(world.stats[0].apis[0].errors.get(), refused + cases.len() as u64 + 1);
}

#[test]
fn records_without_a_key_are_named_one_by_one_in_a_compacted_topic_and_nothing_is_stored() {
    let mut world = World::new();
    let compaction = Compaction { delete_retention_ms: 0, lag_ms_min: 0, lag_ms_max: i64::MAX, dirty_ppm_min: 500_000 };
    world.create_topic_with("c", 1, TopicConfig { compaction: Some(compaction), ..topic_config() }, false);
    world.create_topic("t", 1);
    let sums = base::Checksums::portable();
    let batch = |keys: &[Option<&str>], packed: bool| {
        let mut builder = protocol::batch::BatchBuilder::new();
        for key in keys {
            builder.append(1_700_000_000_000, key.map(str::as_bytes), Some(b"value"), &[]);
        }
        let mut out = Vec::new();
        if packed {
            // What the tests take for gzip.
            let payload: Vec<u8> = builder.records().iter().map(|byte| !byte).collect();
            builder.finish_compressed(protocol::batch::Codec::Gzip, &payload, Producer::NONE, &sums, &mut out);
        } else {
            out.extend_from_slice(builder.finish(Producer::NONE, &sums));
        }
        out
    };
    let mut client = world.connect(0);
    for packed in [false, true] {
        let bad = batch(&[Some("a"), None, Some("b"), None], packed);
        let response = client.produce(&mut world, 9, &produce(-1, "c", &[(0, bad.clone())]));
        let refused = answer(&response);
        assert_eq!((refused.error_code, refused.base_offset), (ErrorCode::INVALID_RECORD.0, -1));
        let at: Vec<i32> = refused.record_errors.iter().map(|error| error.batch_index).collect();
        assert_eq!(at, [1, 3]);
        let text = refused.record_errors[0].batch_index_error_message.as_deref();
        assert!(text.is_some_and(|text| text.contains("without key")), "{text:?}");
        assert_eq!(error_of(&mut world, 7, &produce(-1, "c", &[(0, bad.clone())])), ErrorCode::INVALID_RECORD);
        assert_eq!(error_of(&mut world, 9, &produce(-1, "t", &[(0, bad)])), ErrorCode::NONE, "not compacted");
        let good = batch(&[Some("a"), Some("")], packed);
        let offset = if packed { 2 } else { 0 };
        assert_eq!(client.put(&mut world, "c", 0, good), offset, "nothing was stored before it");
    }
    // Of a codec that nobody here can inflate the keys are not known.
    let mut zstd = batch(&[Some("a")], false);
    zstd[22] = 4;
    world::kafka::fix_crc(&mut zstd);
    assert_eq!(error_of(&mut world, 9, &produce(-1, "c", &[(0, zstd)])), ErrorCode::INVALID_RECORD);
}

#[test]
fn idempotent_producers_get_their_errors_and_duplicates_their_first_answer() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    let by = |sequence, epoch| Producer { id: 9, epoch, sequence, transactional: false };
    assert_eq!(client.put(&mut world, "t", 0, batch_by(2, "a", by(0, 1))), 0);
    assert_eq!(client.put(&mut world, "t", 0, batch_by(2, "b", by(2, 1))), 2);
    assert_eq!(client.put(&mut world, "t", 0, batch_by(2, "a", by(0, 1))), 0, "a duplicate");
    let gap = produce(-1, "t", &[(0, batch_by(1, "gap", by(9, 1)))]);
    assert_eq!(error_of(&mut world, 9, &gap), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    let old = produce(-1, "t", &[(0, batch_by(1, "old", by(4, 0)))]);
    assert_eq!(error_of(&mut world, 9, &old), ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(read_all(&mut world, &mut client, "t", 0).len(), 4);
}

#[test]
fn a_duplicate_is_not_acked_before_its_original_is_durable() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let (mut first, mut second) = (world.connect(0), world.connect(0));
    first.put(&mut world, "t", 0, batch_of(1, "warm"));
    world.device(0).stalled = true;
    let batch = batch_by(1, "x", Producer { id: 9, epoch: 0, sequence: 0, transactional: false });
    let request = produce(-1, "t", &[(0, batch)]);
    first.send(&mut world, ApiKey::Produce, 9, &request);
    second.send(&mut world, ApiKey::Produce, 9, &request);
    world.run();
    assert!(first.pop(&mut world).is_none() && second.pop(&mut world).is_none());
    world.device(0).stalled = false;
    world.run();
    for client in [&first, &second] {
        let (_, response) = decode::<ProduceResponse>(ApiKey::Produce, 9, client.pop(&mut world).unwrap());
        assert_eq!((answer(&response).error_code, answer(&response).base_offset), (0, 1));
    }
}

#[test]
fn acks_zero_is_not_answered_and_an_error_closes_the_connection() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    client.send(&mut world, ApiKey::Produce, 9, &produce(0, "t", &[(0, batch_of(5, "x"))]));
    world.run();
    assert!(client.pop(&mut world).is_none() && !client.is_closed(&mut world));
    assert_eq!(read_all(&mut world, &mut client, "t", 0).len(), 5);
    client.send(&mut world, ApiKey::Produce, 9, &produce(0, "none", &[(0, batch_of(5, "x"))]));
    world.run();
    assert!(client.pop(&mut world).is_none() && client.is_closed(&mut world));
}

#[test]
fn a_full_device_and_a_fenced_journal_are_told_by_name() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    client.put(&mut world, "t", 0, batch_of(1, "warm"));
    world.device(0).full = true;
    let mut error = ErrorCode::NONE;
    for _ in 0..200 {
        let request = produce(-1, "t", &[(0, batch_sized(100_000))]);
        client.send(&mut world, ApiKey::Produce, 9, &request);
        world.run();
        let Some(response) = client.pop(&mut world) else { panic!("a full device is an answer, not a wait") };
        let (_, response) = decode::<ProduceResponse>(ApiKey::Produce, 9, response);
        error = ErrorCode(answer(&response).error_code);
        if error != ErrorCode::NONE {
            assert!(answer(&response).error_message.is_some(), "a text that names the cause");
            break;
        }
    }
    assert_eq!(error, ErrorCode::POLICY_VIOLATION);
    assert_eq!(read_all(&mut world, &mut client, "t", 0)[0].1, "warm-0", "reads go on");
    world.device(0).full = false;
    world.device(0).broken = true;
    let mut seen = Vec::new();
    for _ in 0..3 {
        world.advance_ms(2000);
        seen.push(error_of(&mut world, 9, &produce(-1, "t", &[(0, batch_of(1, "x"))])));
    }
    assert_eq!(seen.last(), Some(&ErrorCode::KAFKA_STORAGE_ERROR), "{seen:?}");
}

#[test]
fn when_there_is_no_room_batches_wait_and_none_is_dropped() {
    let limits = Limits { produce_queue_bytes_max: 1 << 20, conn_request_bytes_max: 1 << 20, ..Limits::default() };
    let mut world = World::with(Plan { limits, tail_bytes: 4 << 20, ..Plan::default() });
    world.create_topic("t", 4);
    let mut clients: Vec<Client> = (0..8).map(|_| world.connect(0)).collect();
    clients[0].put(&mut world, "t", 0, batch_of(1, "warm"));
    world.device(0).stalled = true;
    for _ in 0..8 {
        for (at, client) in clients.iter_mut().enumerate() {
            let request = produce(-1, "t", &[(i32::try_from(at % 4).unwrap(), batch_sized(200_000))]);
            client.send(&mut world, ApiKey::Produce, 9, &request);
        }
    }
    world.run();
    world.shards[0].housekeep(world.now);
    let stats = world.stats[0].clone();
    assert!(stats.produce_bytes_queued.get() > 0, "the write tail is full");
    assert!(stats.produce_bytes_queued.get() < (1 << 20) + 300_000, "the queue is bounded");
    assert!(stats.connections_paused.get() >= 6, "who is not served is not read");
    assert!(stats.request_bytes.get() < 10 << 20);
    world.device(0).stalled = false;
    world.run();
    for client in &clients {
        for _ in 0..8 {
            let response = client.pop(&mut world).expect("every request is answered");
            let (_, response) = decode::<ProduceResponse>(ApiKey::Produce, 9, response);
            assert_eq!(answer(&response).error_code, 0);
        }
    }
    world.shards[0].housekeep(world.now);
    assert_eq!((stats.produce_bytes_queued.get(), stats.request_bytes.get()), (0, 0));
    assert_eq!(stats.connections_paused.get(), 0);
    let command = ShardCommand::Bounds { partition: world.partition_id("t", 1) };
    let token = world.command(0, command);
    world.run();
    let Some(Ok(Outcome::Bounds(bounds))) = world.outcome(token) else { panic!("no bounds") };
    assert_eq!(bounds.high_watermark.0, 16);
}

#[test]
fn under_pressure_a_partition_with_little_to_say_is_not_behind_one_with_much() {
    let mut world = World::with(Plan { tail_bytes: 4 << 20, ..Plan::default() });
    world.create_topic("t", 2);
    let (mut hot, mut quiet) = (world.connect(0), world.connect(0));
    hot.put(&mut world, "t", 0, batch_of(1, "warm"));
    world.device(0).stalled = true;
    for _ in 0..40 {
        hot.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &[(0, batch_sized(200_000))]));
    }
    world.run();
    quiet.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &[(1, batch_of(1, "quiet"))]));
    world.run();
    assert!(quiet.pop(&mut world).is_none());
    world.device(0).stalled = false;
    let mut answered_before = 0;
    while quiet.pop(&mut world).is_none() {
        assert!(world.turn());
        while hot.pop(&mut world).is_some() {
            answered_before += 1;
        }
    }
    assert!(answered_before < 30, "{answered_before} of 40 hot requests went first");
    world.run();
}

#[test]
fn batches_of_one_connection_keep_their_order_through_pressure() {
    let mut world = World::with(Plan { tail_bytes: 4 << 20, ..Plan::default() });
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    client.put(&mut world, "t", 0, batch_of(1, "warm"));
    world.device(0).stalled = true;
    for sequence in 0..40 {
        let producer = Producer { id: 1, epoch: 0, sequence, transactional: false };
        let mut batch = protocol::batch::BatchBuilder::new();
        batch.append(1_700_000_000_000, None, Some(&vec![1; 100_000]), &[]);
        let batch = batch.finish(producer, &base::Checksums::portable()).to_vec();
        client.send(&mut world, ApiKey::Produce, 9, &produce(-1, "t", &[(0, batch)]));
    }
    world.run();
    world.device(0).stalled = false;
    world.run();
    for i in 0..40 {
        let (correlation, response) =
            decode::<ProduceResponse>(ApiKey::Produce, 9, client.pop(&mut world).expect("an answer"));
        assert_eq!(
            (correlation, answer(&response).error_code, answer(&response).base_offset),
            (i + 2, 0, i64::from(i) + 1)
        );
    }
}

#[test]
fn produce_of_versions_before_3_is_refused_by_name() {
    let mut world = World::new();
    world.create_topic("t", 1);
    let client = world.connect(0);
    for version in 0..3i16 {
        let mut body = Vec::new();
        body.extend_from_slice(&0i16.to_be_bytes());
        body.extend_from_slice(&version.to_be_bytes());
        body.extend_from_slice(&77i32.to_be_bytes());
        body.extend_from_slice(&[0, 1, b'c']);
        body.extend_from_slice(&1i16.to_be_bytes());
        body.extend_from_slice(&1000i32.to_be_bytes());
        body.extend_from_slice(&[0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3]);
        let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(&body);
        client.push(&mut world, &bytes);
        world.run();
        let response = client.pop(&mut world).expect("an answer");
        let mut expected = 77i32.to_be_bytes().to_vec();
        expected.extend_from_slice(&[0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0]);
        expected.extend_from_slice(&ErrorCode::UNSUPPORTED_VERSION.0.to_be_bytes());
        expected.extend_from_slice(&[0xff; 8]);
        expected.extend_from_slice(if version >= 2 { &[0xff; 8][..] } else { &[] });
        expected.extend_from_slice(if version >= 1 { &[0; 4][..] } else { &[] });
        assert_eq!(response, expected, "version {version}");
    }
}
