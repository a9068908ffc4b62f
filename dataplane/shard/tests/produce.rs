//! Produce as clients see it.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

mod world;

use kafka_protocol::messages::ApiKey;
use protocol::error::ErrorCode;
use world::World;
use world::kafka::{batch_of, decode, fetch, produce, records, want};

#[test]
fn what_is_produced_is_fetched_in_every_version() {
    let mut world = World::new();
    let id = world.create_topic("t", 2);
    let mut client = world.connect(0);
    for version in 3..=13 {
        let mut request = produce(-1, "t", &[(0, batch_of(3, "v"))]);
        request.topic_data[0].topic_id = uuid::Uuid::from_u128(id.0);
        let response = client.produce(&mut world, version, &request);
        let answer = &response.responses[0].partition_responses[0];
        assert_eq!((answer.error_code, answer.base_offset), (0, 3 * i64::from(version - 3)), "version {version}");
    }
    for version in 4..=18 {
        let request = world::kafka::by_id(fetch("t", vec![want(0, 4), want(1, 0)]), id);
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
        let (_, response) = decode::<kafka_protocol::messages::ProduceResponse>(
            ApiKey::Produce,
            9,
            client.pop(&mut world).expect("durable now"),
        );
        assert_eq!(response.responses[0].partition_responses[0].error_code, ErrorCode::NONE.0);
    }
}
