//! ListOffsets by time and OffsetForLeaderEpoch.

use base::Checksums;
use protocol::batch::{BatchBuilder, Codec, Producer, stamp, stamp_append_time};
use protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use protocol::messages::*;

use super::*;

/// A stored batch at `base` with a record for each timestamp.
fn batch(base: i64, codec: Codec, timestamps: &[i64]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for timestamp in timestamps {
        builder.append(*timestamp, Some(b"key"), Some(&[7; 50]), &[]);
    }
    let sums = Checksums::portable();
    let mut bytes = match codec {
        Codec::None => builder.finish(Producer::NONE, &sums).to_vec(),
        codec => {
            let packed = crate::codec::tests::compress(codec, builder.records());
            let mut out = Vec::new();
            builder.finish_compressed(codec, &packed, Producer::NONE, &sums, &mut out);
            out
        }
    };
    stamp(&mut bytes, Offset(base), Epoch(1)).unwrap();
    bytes
}

fn log(batches: Vec<Vec<u8>>) -> FakeLog {
    let end = batches.last().map_or(0, |batch| BatchView::check_stored(batch).unwrap().last_offset() + 1);
    FakeLog { start: 0, end, batches, ..FakeLog::default() }
}

async fn list(bench: &Bench, timestamp: i64, version: i16) -> (ErrorCode, i64, i64, i32) {
    let partitions = vec![ListOffsetsPartition { partition_index: 0, current_leader_epoch: -1, timestamp }];
    let request = ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic { name: "t", partitions }],
        ..Default::default()
    };
    ask!(bench, request, version => response: ListOffsetsResponse<'_>);
    let one = &response.topics[0].partitions[0];
    (one.error_code, one.offset, one.timestamp, one.leader_epoch)
}

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

#[tokio::test]
async fn a_time_finds_the_exact_record_inside_a_batch_of_any_codec() {
    for codec in CODECS {
        let bench = Bench::start();
        // Times step back inside and between batches, as producers' clocks do.
        let batches =
            vec![batch(0, codec, &[100, 300, 200]), batch(3, codec, &[150, 400, 350]), batch(6, codec, &[500])];
        bench.topic("t", vec![log(batches)]).await;
        for (time, offset, timestamp) in [
            (0, 0, 100),
            (100, 0, 100),
            (101, 1, 300),
            (300, 1, 300),
            (301, 4, 400),
            (400, 4, 400),
            (401, 6, 500),
            (500, 6, 500),
        ] {
            assert_eq!(list(&bench, time, 6).await, (OK, offset, timestamp, 1), "{codec:?} {time}");
        }
        assert_eq!(list(&bench, 501, 6).await, (OK, -1, -1, -1), "{codec:?}");
    }
}

#[tokio::test]
async fn the_highest_timestamp_is_found_at_its_record() {
    for codec in CODECS {
        let bench = Bench::start();
        let batches = vec![batch(0, codec, &[100, 900, 900, 200]), batch(4, codec, &[150])];
        bench.topic("t", vec![log(batches)]).await;
        assert_eq!(list(&bench, -3, 7).await, (OK, 1, 900, 1), "{codec:?}");
    }
    let bench = Bench::start();
    bench.topic("t", vec![FakeLog::default()]).await;
    assert_eq!(list(&bench, -3, 7).await, (OK, -1, -1, -1));
}

#[tokio::test]
async fn records_stamped_by_the_broker_share_the_batchs_time() {
    let bench = Bench::start();
    let mut bytes = batch(0, Codec::None, &[1, 2, 3]);
    stamp_append_time(&mut bytes, WallMs(1000), &Checksums::portable()).unwrap();
    bench.topic("t", vec![log(vec![bytes])]).await;
    assert_eq!(list(&bench, 500, 6).await, (OK, 0, 1000, 1));
    assert_eq!(list(&bench, 1001, 6).await, (OK, -1, -1, -1));
}

#[tokio::test]
async fn a_header_that_promises_a_time_its_records_lack_does_not_mislead() {
    let bench = Bench::start();
    let sums = Checksums::portable();
    let mut liar = batch(0, Codec::Gzip, &[100, 110]);
    protocol::batch::stamp_max_timestamp(&mut liar, 9000, &sums).unwrap();
    bench
        .topic("t", vec![log(vec![liar.clone(), batch(2, Codec::None, &[120]), batch(3, Codec::Lz4, &[5, 800])])])
        .await;
    assert_eq!(list(&bench, 700, 6).await, (OK, 4, 800, 1));
    assert_eq!(list(&bench, 8000, 6).await, (OK, -1, -1, -1));
}

#[tokio::test]
async fn a_search_behind_such_a_header_passes_over_what_is_damaged() {
    let bench = Bench::start();
    let mut liar = batch(0, Codec::Gzip, &[100, 110]);
    protocol::batch::stamp_max_timestamp(&mut liar, 9000, &Checksums::portable()).unwrap();
    bench.topic("t", vec![log(vec![liar, batch(2, Codec::None, &[700]), batch(3, Codec::Lz4, &[5, 800])])]).await;
    let partition = bench.control.context().store.image().topics.get("t").unwrap().partitions[0].id;
    let range = DamagedRange { partition, first: Offset(2), next: Offset(3) };
    bench.shards.damage.lock().unwrap().push(range);
    assert_eq!(list(&bench, 600, 6).await, (OK, 4, 800, 1));
}

#[tokio::test]
async fn both_ends_and_the_tiers_are_answered_here_too() {
    let bench = Bench::start();
    bench.topic("t", vec![FakeLog { start: 5, end: 42, batches: vec![], ..FakeLog::default() }]).await;
    assert_eq!(list(&bench, -1, 11).await, (OK, 42, -1, 1));
    assert_eq!(list(&bench, -2, 11).await, (OK, 5, -1, -1));
    assert_eq!(list(&bench, -4, 11).await, (OK, 5, -1, -1));
    assert_eq!(list(&bench, -5, 11).await, (OK, -1, -1, -1));
    assert_eq!(list(&bench, -6, 11).await, (OK, -1, -1, -1));
    for (timestamp, version) in [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11), (i64::MIN, 11)] {
        assert_eq!(list(&bench, timestamp, version).await.0, ErrorCode::UNSUPPORTED_VERSION, "{timestamp} {version}");
    }
}

#[tokio::test]
async fn wrong_epochs_and_partitions_have_their_names() {
    let bench = Bench::start();
    bench.topic("t", vec![FakeLog::default()]).await;
    for (partition_index, current_leader_epoch, expected) in [
        (0, 1, OK),
        (0, 0, ErrorCode::FENCED_LEADER_EPOCH),
        (0, 2, ErrorCode::UNKNOWN_LEADER_EPOCH),
        (1, -1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (-1, -1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    ] {
        let partitions = vec![ListOffsetsPartition { partition_index, current_leader_epoch, timestamp: 0 }];
        let topics = vec![ListOffsetsTopic { name: "t", partitions }];
        ask!(bench, ListOffsetsRequest { topics, ..Default::default() }, 6 => response: ListOffsetsResponse<'_>);
        assert_eq!(response.topics[0].partitions[0].error_code, expected);
        let partitions =
            vec![OffsetForLeaderPartition { partition: partition_index, current_leader_epoch, leader_epoch: 1 }];
        let topics = vec![OffsetForLeaderTopic { topic: "t", partitions }];
        let request = OffsetForLeaderEpochRequest { replica_id: -1, topics };
        ask!(bench, request, 4 => response: OffsetForLeaderEpochResponse<'_>);
        assert_eq!(response.topics[0].partitions[0].error_code, expected);
    }
}

#[tokio::test]
async fn an_epochs_end_is_told_and_an_unknown_epoch_has_none() {
    let bench = Bench::start();
    bench.topic("t", vec![FakeLog { start: 0, end: 42, ..FakeLog::default() }]).await;
    for (leader_epoch, expected) in [(1, (1, 42)), (0, (-1, -1)), (2, (-1, -1))] {
        let partitions = vec![OffsetForLeaderPartition { partition: 0, current_leader_epoch: -1, leader_epoch }];
        let topics = vec![OffsetForLeaderTopic { topic: "t", partitions }];
        let request = OffsetForLeaderEpochRequest { replica_id: -1, topics };
        ask!(bench, request, 3 => response: OffsetForLeaderEpochResponse<'_>);
        let one = &response.topics[0].partitions[0];
        assert_eq!((one.error_code, (one.leader_epoch, one.end_offset)), (OK, expected));
    }
}
