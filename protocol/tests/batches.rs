//! Record batches against Kafka's own bytes and against an independent codec.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the failure")]

use base::Checksums;
use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use protocol::batch::{BatchBuilder, BatchView, Header, Producer, stamp};
use protocol::produce::ProduceView;

const SUMS: Checksums = Checksums::portable();

/// Made by Kafka 4.4's own `MemoryRecords.withIdempotentRecords`: base offset 1000, producer 4000 epoch 3 sequence 17,
/// leader epoch 9, three records: one with three headers (two of one key), one without a key, one without a value.
const FROM_KAFKA: &str = "\
    00000000000003e800000059000000090228b4ae280000000000020000018bcfe568000000018bcfe568010000000000000fa00003000000110000\
    00032e000000066b65790a76616c7565060261023102610100000e00cf0f020100000e000204026b0100";

fn from_kafka() -> Vec<u8> {
    let digits: Vec<u8> = FROM_KAFKA.bytes().collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn kafkas_own_bytes_are_read() {
    let bytes = from_kafka();
    let batch = BatchView::check_stored(&bytes).unwrap();
    batch.verify_crc(&SUMS).unwrap();
    assert_eq!((batch.base_offset(), batch.leader_epoch(), batch.count()), (1000, 9, 3));
    assert_eq!((batch.producer_id(), batch.producer_epoch(), batch.base_sequence()), (4000, 3, 17));
    let walk = batch.walk().unwrap();
    assert_eq!((walk.max_timestamp, walk.min_timestamp), (1_700_000_000_001, 1_699_999_999_000));
    assert_eq!((walk.max_timestamp_delta, walk.first_keyless), (2, Some(1)));
    assert_eq!(walk.max_timestamp, batch.max_timestamp());
    let records: Vec<_> = batch.records().map(Result::unwrap).collect();
    let headers: Vec<_> = records[0].headers.map(|header| (header.key, header.value)).collect();
    assert_eq!(headers, [(&b"a"[..], Some(&b"1"[..])), (b"a", None), (b"", Some(b""))]);
    assert_eq!((records[1].key, records[1].value), (None, Some(&b""[..])));
    assert_eq!((records[2].key, records[2].value), (Some(&b"k"[..]), None));
}

#[test]
fn the_builder_makes_kafkas_own_bytes() {
    let mut builder = BatchBuilder::new();
    let headers = [
        Header { key: b"a", value: Some(b"1") },
        Header { key: b"a", value: None },
        Header { key: b"", value: Some(b"") },
    ];
    builder.append(1_700_000_000_000, Some(b"key"), Some(b"value"), &headers);
    builder.append(1_699_999_999_000, None, Some(b""), &[]);
    builder.append(1_700_000_000_001, Some(b"k"), None, &[]);
    let producer = Producer { id: 4000, epoch: 3, sequence: 17, transactional: false };
    let mut batch = builder.finish(producer, &SUMS).to_vec();
    stamp(&mut batch, base::Offset(1000), base::Epoch(9)).unwrap();
    assert_eq!(batch, from_kafka());
}

/// `count` records, different in all that can differ.
fn record(index: usize) -> Record {
    let number = i64::try_from(index).unwrap();
    let bytes = |len: usize| Bytes::from(vec![u8::try_from(index % 251).unwrap(); len]);
    let mut headers = IndexMap::new();
    for header in 0..index % 4 {
        let value = (header % 2 == 0).then(|| bytes(header * 70));
        headers.insert(StrBytes::from_string(format!("header {header}")), value);
    }
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: 77,
        producer_epoch: 2,
        timestamp_type: TimestampType::Creation,
        offset: number,
        sequence: i32::try_from(index).unwrap(),
        timestamp: 1_700_000_000_000 + (number * 7919) % 100_000,
        key: (!index.is_multiple_of(3)).then(|| bytes(index % 40)),
        value: (index % 5 != 1).then(|| bytes((index * 37) % 5000)),
        headers,
    }
}

#[test]
fn another_codec_reads_what_is_built() {
    for count in [1, 2, 63, 64, 65, 500] {
        let records: Vec<Record> = (0..count).map(record).collect();
        let mut builder = BatchBuilder::new();
        for record in &records {
            let headers: Vec<_> = record
                .headers
                .iter()
                .map(|(key, value)| Header { key: key.as_bytes(), value: value.as_deref() })
                .collect();
            builder.append(record.timestamp, record.key.as_deref(), record.value.as_deref(), &headers);
        }
        let producer = Producer { id: 77, epoch: 2, sequence: 0, transactional: false };
        let mut bytes = Bytes::copy_from_slice(builder.finish(producer, &SUMS));
        assert_eq!(RecordBatchDecoder::decode(&mut bytes).unwrap().records, records);
    }
}

#[test]
fn what_another_codec_builds_is_read() {
    let records: Vec<Record> = (0..300).map(record).collect();
    let mut out = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut out, &records, &options).unwrap();
    let batch = BatchView::check(&out).unwrap();
    batch.verify_crc(&SUMS).unwrap();
    let walk = batch.walk().unwrap();
    assert_eq!(Some(walk.max_timestamp), records.iter().map(|record| record.timestamp).max());
    assert_eq!(Some(walk.min_timestamp), records.iter().map(|record| record.timestamp).min());
    let mut read = 0;
    for (ours, theirs) in batch.records().map(Result::unwrap).zip(&records) {
        assert_eq!((ours.key, ours.value), (theirs.key.as_deref(), theirs.value.as_deref()));
        assert_eq!(batch.timestamp_of(&ours), theirs.timestamp);
        let headers = theirs.headers.iter().map(|(key, value)| (key.as_bytes(), value.as_deref()));
        assert!(ours.headers.map(|header| (header.key, header.value)).eq(headers));
        read += 1;
    }
    assert_eq!(read, 300);
}

#[test]
fn the_hot_path_allocates_nothing() {
    let mut builder = BatchBuilder::new();
    for index in 0..1_000u16 {
        builder.append(i64::from(index), Some(&index.to_be_bytes()), Some(&[1; 100]), &[]);
    }
    let batch = builder.finish(Producer::NONE, &SUMS).to_vec();
    // One topic "t" with one partition, version 3.
    let mut request = vec![0xff, 0xff, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0];
    request.extend(u32::try_from(batch.len()).unwrap().to_be_bytes());
    request.extend(&batch);
    let mut out = Vec::with_capacity(4 << 10);
    let info = allocation_counter::measure(|| {
        let view = ProduceView::check(&request, 3).unwrap();
        for partition in view.topics().flat_map(|topic| topic.partitions) {
            let batch = BatchView::check(partition.records).unwrap();
            batch.walk().unwrap();
            assert_eq!(batch.records().filter(|record| record.unwrap().value.is_some()).count(), 1_000);
        }
        let mut writer = protocol::produce::ProduceWriter::begin(&mut out, 3, 1);
        writer.topic(&mut out, protocol::TopicRef::Name("t"), 1);
        let stored = protocol::produce::ProduceOutcome::failed(0, protocol::error::ErrorCode::NONE);
        writer.partition(&mut out, &stored);
        writer.end(&mut out, 0, &[]);
        builder.clear();
        for index in 0..1_000u16 {
            builder.append(i64::from(index), Some(&index.to_be_bytes()), Some(&[1; 100]), &[]);
        }
        builder.finish(Producer::NONE, &SUMS);
    });
    assert_eq!(info.count_total, 0);
}
