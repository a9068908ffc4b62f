//! Records that rotted on the device, as clients and operators meet them.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

mod world;

use base::message::{DamagedRange, Outcome, Refusal, ShardCommand};
use base::{Checksums, Offset, WallMs};
use kafka_protocol::messages::FetchResponse;
use protocol::batch::{BatchBuilder, Producer};
use protocol::error::ErrorCode;
use world::kafka::{batch_of, batch_sized, fetch, list_offsets, records, want};
use world::{Client, Plan, World};

/// Ten batches of two records in partition 0, the sixth of which (offsets 10 and 11) rots once it has left memory.
fn damaged() -> (World, Client) {
    let mut world = World::with(Plan { tail_bytes: 3 << 20, ..Plan::default() });
    world.create_topic("t", 2);
    let mut client = world.connect(0);
    for i in 0..10 {
        client.put(&mut world, "t", 0, batch_of(2, &format!("value {i:04}")));
    }
    client.put(&mut world, "t", 1, batch_of(1, "another partition"));
    // Other records take its place in memory.
    for _ in 0..16 {
        client.put(&mut world, "t", 1, batch_sized(300_000));
    }
    assert_eq!(world.device(0).rot(b"value 0005"), 2);
    (world, client)
}

/// Error and records of partition 0 from an offset on.
fn read(world: &mut World, client: &mut Client, offset: i64) -> (i16, Vec<i64>) {
    let response = client.fetch(world, 12, &fetch("t", vec![want(0, offset)]));
    only(&response)
}

fn only(response: &FetchResponse) -> (i16, Vec<i64>) {
    let part = response.responses[0].partitions.iter().find(|part| part.partition_index == 0).unwrap();
    (part.error_code, records(part.records.as_ref()).iter().map(|(offset, _)| *offset).collect())
}

fn command(world: &mut World, command: ShardCommand) -> Result<Outcome, Refusal> {
    let token = world.command(0, command);
    world.run();
    world.outcome(token).expect("an answer")
}

fn ranges(world: &mut World) -> Vec<(Offset, Offset)> {
    let partition = world.partition_id("t", 0);
    let Ok(Outcome::Damage(ranges)) = command(world, ShardCommand::Damage) else { panic!("no list") };
    assert!(ranges.iter().all(|range| range.partition == partition));
    ranges.iter().map(|DamagedRange { first, next, .. }| (*first, *next)).collect()
}

#[test]
fn a_consumer_gets_all_before_the_damage_then_its_name_and_all_behind_it_after_a_seek() {
    let (mut world, mut client) = damaged();
    assert_eq!(read(&mut world, &mut client, 0), (0, (0..10).collect()), "all before it");
    for _ in 0..3 {
        let corrupt = (ErrorCode::CORRUPT_MESSAGE.0, vec![]);
        assert_eq!(read(&mut world, &mut client, 10), corrupt, "again and again");
        assert_eq!(read(&mut world, &mut client, 11), corrupt, "from the middle, too");
    }
    assert_eq!(read(&mut world, &mut client, 12), (0, (12..20).collect()), "and all behind it");
    // Others in the same request are served.
    let response = client.fetch(&mut world, 12, &fetch("t", vec![want(0, 10), want(1, 0)]));
    assert_eq!(only(&response).0, ErrorCode::CORRUPT_MESSAGE.0);
    let other = response.responses[0].partitions.iter().find(|part| part.partition_index == 1).unwrap();
    assert!(other.error_code == 0 && !records(other.records.as_ref()).is_empty());

    // An operator hears of it once, with where to go on, and may ask.
    let lines: Vec<&String> =
        world.shards[0].backends().log.lines.iter().filter(|line| line.contains("damaged")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("t-0 from offset 10 on") && lines[0].contains("seeks to 12"), "{lines:?}");
    assert_eq!(ranges(&mut world), [(Offset(10), Offset(12))]);
    world.shards[0].housekeep(world.now);
    let stats = &world.stats[0];
    assert_eq!((stats.damaged_ranges.get(), stats.damaged_reads.get()), (1, 7));
}

#[test]
fn a_reader_that_begins_in_the_middle_does_not_hide_the_beginning() {
    let (mut world, mut client) = damaged();
    assert_eq!(read(&mut world, &mut client, 11).0, ErrorCode::CORRUPT_MESSAGE.0);
    assert_eq!(ranges(&mut world), [(Offset(10), Offset(12))]);
}

#[test]
fn deleting_up_to_the_end_of_the_damage_cures_every_group_at_once() {
    let (mut world, mut client) = damaged();
    assert_eq!(read(&mut world, &mut client, 10).0, ErrorCode::CORRUPT_MESSAGE.0);
    let partition = world.partition_id("t", 0);
    let moved = command(&mut world, ShardCommand::MoveStart { partition, to: Offset(12) });
    assert!(matches!(moved, Ok(Outcome::Moved(Offset(12)))), "{moved:?}");
    // Who stood there or before is out of range, which auto.offset.reset answers, and who begins anew meets no damage.
    for offset in [0, 9, 10, 11] {
        assert_eq!(read(&mut world, &mut client, offset), (ErrorCode::OFFSET_OUT_OF_RANGE.0, vec![]));
    }
    let response = client.list_offsets(&mut world, 6, &list_offsets("t", &[(0, -2)]));
    assert_eq!(response.topics[0].partitions[0].offset, 12);
    assert_eq!(read(&mut world, &mut client, 12), (0, (12..20).collect()));
    assert_eq!(ranges(&mut world), [], "what is deleted is not damaged any more");
    world.shards[0].housekeep(world.now);
    assert_eq!(world.stats[0].damaged_ranges.get(), 0);
}

#[test]
fn what_a_coordinator_asks_for_is_refused_with_where_to_go_on() {
    let (mut world, _client) = damaged();
    let partition = world.partition_id("t", 0);
    let read = |offset| ShardCommand::Read { partition, offset: Offset(offset), bytes_max: 1 << 20 };
    assert_eq!(command(&mut world, read(11)).err(), Some(Refusal::Damaged { next: Offset(12) }));
    assert!(matches!(command(&mut world, read(12)), Ok(Outcome::Records(..))));
}

#[test]
fn a_search_by_time_passes_over_damage_and_does_not_name_another_as_the_newest() {
    let mut world = World::with(Plan { tail_bytes: 3 << 20, ..Plan::default() });
    world.create_topic("t", 2);
    let mut client = world.connect(0);
    let start = 1_700_000_000_000;
    for i in 0..6 {
        let mut builder = BatchBuilder::new();
        // The fourth has the highest timestamp.
        let at = start + if i == 3 { 9000 } else { i * 1000 };
        builder.append(at, None, Some(format!("value {i:04}").as_bytes()), &[]);
        let batch = builder.finish(Producer::NONE, &Checksums::portable()).to_vec();
        client.put(&mut world, "t", 0, batch);
    }
    for _ in 0..16 {
        client.put(&mut world, "t", 1, batch_sized(300_000));
    }
    let partition = world.partition_id("t", 0);
    let find = |world: &mut World, at: Option<i64>| {
        let asked = match at {
            Some(at) => ShardCommand::FindTime {
                partition,
                timestamp: WallMs(start + at),
                from: base::Offset(0),
                upto: base::Offset(i64::MAX),
            },
            None => ShardCommand::FindMaxTime { partition, from: base::Offset(0), upto: base::Offset(i64::MAX) },
        };
        match command(world, asked) {
            Ok(Outcome::Batch(batch)) => Ok(batch.map(|bytes| records(Some(&bytes.into()))[0].0)),
            other => Err(other.err()),
        }
    };
    assert_eq!(world.device(0).rot(b"value 0003"), 1);
    assert_eq!(find(&mut world, Some(2500)), Ok(Some(4)), "the next that can be read");
    assert_eq!(find(&mut world, Some(8000)), Ok(None), "none that can be read is that young");
    assert_eq!(find(&mut world, None), Err(Some(Refusal::Damaged { next: Offset(4) })));
}
