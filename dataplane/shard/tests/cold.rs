//! Fetch of what is no longer in memory.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

mod world;

use base::message::{Outcome, Refusal, ShardCommand};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{ApiKey, FetchResponse};
use world::kafka::{batch_at, batch_of, batch_sized, decode, fetch, records, want};
use world::{Plan, World};

fn only(response: &FetchResponse) -> &PartitionData {
    assert_eq!((response.responses.len(), response.responses[0].partitions.len()), (1, 1));
    &response.responses[0].partitions[0]
}

#[test]
fn cold_data_is_read_back_from_the_device() {
    for shards in [1, 2] {
        let mut world = World::with(Plan { tail_bytes: 3 << 20, shards, ..Plan::default() });
        world.create_topic("t", 2);
        let mut client = world.connect(0);
        for i in 0..16 {
            client.put(&mut world, "t", 1, batch_sized(300_000 + i));
        }
        let shard = usize::from(shards) - 1;
        let reads = world.stats[shard].device_reads.get();
        // Asked with no wait at all: what is on its way from the device is waited for none the less.
        let response = client.fetch(&mut world, 12, &fetch("t", vec![want(1, 0)]));
        let found = records(only(&response).records.as_ref());
        assert_eq!(found[0].0, 0);
        assert_eq!(found[0].1.len(), 300_000);
        assert!(world.stats[shard].device_reads.get() > reads, "{shards} shards");
        let mut offset = 0;
        while offset < 16 {
            let response = client.fetch(&mut world, 12, &fetch("t", vec![want(1, offset)]));
            let found = records(only(&response).records.as_ref());
            assert_eq!(found[0].0, offset, "no hole, nothing twice");
            offset = found.last().unwrap().0 + 1;
        }
    }
}

#[test]
fn a_cold_reader_does_not_hold_up_a_reader_of_the_tail() {
    let mut world = World::with(Plan { tail_bytes: 3 << 20, ..Plan::default() });
    world.create_topic("t", 2);
    let (mut cold, mut warm) = (world.connect(0), world.connect(0));
    for _ in 0..16 {
        warm.put(&mut world, "t", 0, batch_sized(300_000));
    }
    world.device(0).reads_stalled = true;
    cold.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(0, 0)]));
    world.run();
    assert!(cold.pop(&mut world).is_none(), "waits for the device");
    warm.put(&mut world, "t", 1, batch_of(1, "x"));
    assert_eq!(records(only(&warm.fetch(&mut world, 12, &fetch("t", vec![want(1, 0)]))).records.as_ref()).len(), 1);
    world.device(0).reads_stalled = false;
    world.run();
    assert!(
        !records(only(&decode::<FetchResponse>(ApiKey::Fetch, 12, cold.pop(&mut world).unwrap()).1).records.as_ref())
            .is_empty()
    );
}

#[test]
fn commands_wait_for_the_device_too() {
    let mut world = World::with(Plan { tail_bytes: 3 << 20, ..Plan::default() });
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    for at in 0..14 {
        client.put(&mut world, "t", 0, batch_at(1_700_000_000_000 + at * 1000, 300_000));
    }
    let partition = world.partition_id("t", 0);
    world.device(0).reads_stalled = true;
    let read = world.command(0, ShardCommand::Read { partition, offset: base::Offset(2), bytes_max: 1 });
    let timestamp = base::WallMs(1_700_000_003_500);
    let find = world.command(
        0,
        ShardCommand::FindTime { partition, timestamp, from: base::Offset(0), upto: base::Offset(i64::MAX) },
    );
    let newest =
        world.command(0, ShardCommand::FindMaxTime { partition, from: base::Offset(0), upto: base::Offset(i64::MAX) });
    world.run();
    assert!(world.outcome(read).is_none(), "the device has not answered");
    world.device(0).reads_stalled = false;
    world.run();
    let Some(Ok(Outcome::Records(bytes, bounds))) = world.outcome(read) else { panic!("no records") };
    assert_eq!((records(Some(&bytes.into()))[0].0, bounds.high_watermark.0), (2, 14));
    let Some(Ok(Outcome::Batch(Some(bytes)))) = world.outcome(find) else { panic!("no batch") };
    assert_eq!(records(Some(&bytes.into()))[0].0, 4, "the first at or after that time");
    let Some(Ok(Outcome::Batch(Some(bytes)))) = world.outcome(newest) else { panic!("no batch") };
    assert_eq!(records(Some(&bytes.into()))[0].0, 13);
}

#[test]
fn a_command_does_not_wait_for_the_device_for_ever() {
    let mut world = World::with(Plan { tail_bytes: 3 << 20, ..Plan::default() });
    world.create_topic("t", 1);
    let mut client = world.connect(0);
    for _ in 0..14 {
        client.put(&mut world, "t", 0, batch_sized(300_000));
    }
    let partition = world.partition_id("t", 0);
    world.device(0).reads_stalled = true;
    let read = world.command(0, ShardCommand::Read { partition, offset: base::Offset(0), bytes_max: 1 });
    let mut cold = world.connect(0);
    cold.send(&mut world, ApiKey::Fetch, 12, &fetch("t", vec![want(0, 0)]).with_max_wait_ms(100));
    world.run();
    world.advance_ms(200);
    world.run();
    assert!(cold.pop(&mut world).is_none(), "the time is up, but the device is asked");
    world.advance_ms(10_000);
    world.run();
    let (_, response) = decode::<FetchResponse>(ApiKey::Fetch, 12, cold.pop(&mut world).expect("an answer"));
    assert!(records(only(&response).records.as_ref()).is_empty());
    assert!(world.outcome(read).is_none());
    world.advance_ms(20_000);
    world.run();
    assert!(matches!(world.outcome(read), Some(Err(Refusal::Busy))));
}
