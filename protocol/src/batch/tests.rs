#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the failure")]

use alloc::vec::Vec;

use base::{Checksums, Epoch, Offset, WallMs};

use super::*;

const SUMS: Checksums = Checksums::portable();

fn sample() -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    let header = Header { key: b"h", value: Some(b"v") };
    let empty = Header { key: b"h", value: None };
    builder.append(1_000, Some(b"key"), Some(b"value"), &[header, empty]);
    builder.append(900, None, Some(b""), &[]);
    builder.append(1_200, Some(b""), None, &[]);
    builder.finish(Producer { id: 7, epoch: 1, sequence: 5, transactional: false }, &SUMS).to_vec()
}

/// `sample` with bytes overwritten and the CRC made right again.
fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut batch = sample();
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    stamp::stamp_crc(&mut batch, &SUMS);
    batch
}

#[test]
fn what_is_built_is_read_back() {
    let bytes = sample();
    let batch = BatchView::check(&bytes).unwrap();
    batch.verify_crc(&SUMS).unwrap();
    assert_eq!((batch.base_offset(), batch.count(), batch.last_offset_delta(), batch.leader_epoch()), (0, 3, 2, -1));
    assert_eq!((batch.producer_id(), batch.producer_epoch(), batch.base_sequence()), (7, 1, 5));
    assert_eq!((batch.base_timestamp(), batch.max_timestamp(), batch.last_sequence()), (1_000, 1_200, 7));
    assert_eq!(batch.codec(), Codec::None);
    let records: Vec<_> = batch.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 3);
    assert_eq!((records[0].key, records[0].value), (Some(&b"key"[..]), Some(&b"value"[..])));
    let headers: Vec<_> = records[0].headers.collect();
    assert_eq!(headers, [Header { key: b"h", value: Some(b"v") }, Header { key: b"h", value: None }]);
    assert_eq!((records[1].key, records[1].value, records[1].timestamp_delta), (None, Some(&b""[..]), -100));
    assert_eq!((records[2].key, records[2].value, records[2].offset_delta), (Some(&b""[..]), None, 2));
    assert_eq!(batch.timestamp_of(&records[1]), 900);
    let walk = batch.walk().unwrap();
    assert_eq!(walk, Walk { max_timestamp: 1_200, max_timestamp_delta: 2, min_timestamp: 900, first_keyless: Some(1) });
}

#[test]
fn each_header_rule_has_its_error() {
    let check = |at, bytes: &[u8]| BatchView::check(&with(at, bytes)).unwrap_err();
    assert_eq!(check(MAGIC, &[1]), BatchError::Magic(1));
    assert_eq!(check(COUNT, &0i32.to_be_bytes()), BatchError::Count(0));
    assert_eq!(check(COUNT, &(-1i32).to_be_bytes()), BatchError::Count(-1));
    assert_eq!(check(COUNT, &i32::MIN.to_be_bytes()), BatchError::Count(i32::MIN));
    assert_eq!(check(LAST_OFFSET_DELTA, &3i32.to_be_bytes()), BatchError::LastOffsetDelta(3));
    assert_eq!(check(BASE_SEQUENCE, &(-1i32).to_be_bytes()), BatchError::Sequence);
    assert_eq!(check(ATTRIBUTES, &CONTROL_BIT.to_be_bytes()), BatchError::Control);
    assert_eq!(check(ATTRIBUTES, &APPEND_TIME_BIT.to_be_bytes()), BatchError::AppendTime);
    assert_eq!(check(ATTRIBUTES, &5i16.to_be_bytes()), BatchError::Codec(5));
    assert_eq!(check(LENGTH, &48i32.to_be_bytes()), BatchError::Length);
    assert_eq!(check(LENGTH, &(-1i32).to_be_bytes()), BatchError::Length);
    assert_eq!(check(LENGTH, &i32::MAX.to_be_bytes()), BatchError::Truncated);
    let mut two = sample();
    two.extend(sample());
    assert_eq!(BatchView::check(&two).unwrap_err(), BatchError::Trailing);
    let mut bytes = sample();
    bytes[70] ^= 1;
    assert_eq!(BatchView::check(&bytes).unwrap().verify_crc(&SUMS), Err(BatchError::Crc));
}

#[test]
fn stored_batches_may_carry_the_brokers_bits() {
    for bit in [CONTROL_BIT, APPEND_TIME_BIT, TRANSACTIONAL_BIT] {
        assert!(BatchView::check_stored(&with(ATTRIBUTES, &bit.to_be_bytes())).is_ok());
    }
}

#[test]
fn truncation_at_every_byte_is_an_error() {
    let bytes = sample();
    for len in 0..bytes.len() {
        assert_eq!(BatchView::check(&bytes[..len]).unwrap_err(), BatchError::Truncated);
    }
}

#[test]
fn records_that_break_a_rule_are_named() {
    let bytes = sample();
    let batch = BatchView::check(&bytes).unwrap();
    let payload = batch.payload();
    for len in 0..payload.len() {
        assert_eq!(walk_records(&payload[..len], 3, 0), Err(BatchError::Record));
    }
    assert_eq!(walk_records(payload, 2, 0), Err(BatchError::RecordsTrailing));
    assert_eq!(walk_records(payload, 0, 0), Err(BatchError::Count(0)));
    // Length 6, attributes, timestamp 0, offset delta 1 where 0 is due, null, null, no headers.
    assert_eq!(walk_records(&[12, 0, 0, 2, 1, 1, 0], 1, 0), Err(BatchError::OffsetDelta));
    // One byte more inside the record than its fields take.
    assert_eq!(walk_records(&[14, 0, 0, 0, 1, 1, 0, 0], 1, 0), Err(BatchError::Record));
    // Key length −2.
    assert_eq!(walk_records(&[12, 0, 0, 0, 3, 1, 0], 1, 0), Err(BatchError::Record));
    // 2^31 − 1 headers.
    assert_eq!(walk_records(&[20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f], 1, 0), Err(BatchError::Record));
}

#[test]
fn any_damaged_byte_neither_panics_nor_loops() {
    let bytes = sample();
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            if let Ok(batch) = BatchView::check_stored(&damaged) {
                let _ = batch.walk();
                assert!(batch.records().count() <= 3);
                for record in batch.records().flatten() {
                    assert!(record.headers.count() <= bytes.len());
                }
            }
        }
    }
}

#[test]
fn stamping_the_offset_keeps_the_crc() {
    let mut bytes = sample();
    stamp(&mut bytes, Offset(1 << 40), Epoch(9)).unwrap();
    assert_eq!(BatchView::check(&bytes).unwrap_err(), BatchError::BaseOffset(1 << 40), "a producer's is 0");
    let batch = BatchView::check_stored(&bytes).unwrap();
    batch.verify_crc(&SUMS).unwrap();
    assert_eq!((batch.base_offset(), batch.leader_epoch(), batch.last_offset()), (1 << 40, 9, (1 << 40) + 2));
}

#[test]
fn append_time_is_every_records_timestamp() {
    let mut bytes = sample();
    let crc = stamp_append_time(&mut bytes, WallMs(5_000), &SUMS).unwrap();
    let batch = BatchView::check_stored(&bytes).unwrap();
    batch.verify_crc(&SUMS).unwrap();
    assert_eq!(batch.crc(), crc);
    assert!(batch.is_append_time());
    assert_eq!(batch.max_timestamp(), 5_000);
    assert!(batch.records().all(|record| batch.timestamp_of(&record.unwrap()) == 5_000));
}

#[test]
fn sequences_wrap_to_zero() {
    let bytes = with(BASE_SEQUENCE, &(i32::MAX - 1).to_be_bytes());
    assert_eq!(BatchView::check(&bytes).unwrap().last_sequence(), 0);
}

#[test]
fn a_fetched_run_ends_at_the_batch_that_is_cut_off() {
    let one = sample();
    let mut run = one.clone();
    run.extend(&one);
    run.extend(&one[..one.len() - 1]);
    let mut batches = Batches::new(&run);
    assert!(batches.next().unwrap().is_ok());
    assert!(batches.next().unwrap().is_ok());
    assert!(batches.next().is_none());
    assert_eq!(batches.rest().len(), one.len() - 1);
    let mut old = one;
    old[MAGIC] = 1;
    let mut batches = Batches::new(&old);
    assert_eq!(batches.next().unwrap().unwrap_err(), BatchError::Magic(1));
    assert!(batches.next().is_none());
}

#[test]
fn the_builder_is_used_again_and_foretells_its_size() {
    let mut builder = BatchBuilder::new();
    builder.append(1, Some(b"k"), Some(b"v"), &[]);
    let first = builder.finish(Producer::NONE, &SUMS).to_vec();
    builder.clear();
    builder.append(1, Some(b"k"), Some(b"v"), &[]);
    assert_eq!(builder.finish(Producer::NONE, &SUMS), first);
    let before = builder.len();
    let header = Header { key: b"key", value: Some(b"value") };
    builder.append(i64::MAX, Some(&[0; 300]), None, &[header]);
    assert!(builder.len() - before <= record_len(Some(&[0; 300]), None, &[header]));
    let mut out = Vec::new();
    builder.finish_compressed(Codec::Zstd, b"compressed", Producer::NONE, &SUMS, &mut out);
    let batch = BatchView::check(&out).unwrap();
    batch.verify_crc(&SUMS).unwrap();
    assert_eq!((batch.codec(), batch.payload(), batch.count()), (Codec::Zstd, &b"compressed"[..], 2));
}
