//! Record batches as a broker takes and serves them and as a client opens them: headers, records, the four codecs.
//!
//! The first byte says what is put right before the batch is read: bit 0 its length and count of bytes, bit 1 its CRC. Bits 2
//! and 3 choose the limit up to which the client inflates.

use base::{Epoch, Offset, WallMs};
use client::codec::{Compressor, decompress};
use protocol::batch::{BatchBuilder, BatchView, Batches, Codec, Header, Producer, stamp, stamp_append_time};
use sim::sums;

use crate::input::Input;
use crate::within;

const LENGTH_AT: usize = 8;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;

/// What a decoder holds beside its output: windows and tables of the codecs that are written in Rust.
const CODEC_BYTES: u64 = 1 << 20;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let how = input.byte();
    let mut batch = input.rest().to_vec();
    mend(&mut batch, how);
    let limit = 1usize << (10 + 4 * usize::from(how >> 2 & 3));
    within("views of a batch", 0, 0, 0, || {
        for view in Batches::new(&batch).flatten() {
            look(&view, view.payload());
        }
    });
    for view in Batches::new(&batch).flatten() {
        open(&view, limit);
    }
    take(&batch);
}

fn mend(batch: &mut [u8], how: u8) {
    if batch.len() < ATTRIBUTES_AT {
        return;
    }
    if how & 1 != 0
        && let Ok(length) = i32::try_from(batch.len() - LENGTH_AT - 4)
    {
        batch[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&length.to_be_bytes());
    }
    if how & 2 != 0 {
        let crc = (sums().crc32c)(0, &batch[ATTRIBUTES_AT..]);
        batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
    }
}

/// Records one by one, and as a walk: what the walk accepts, the iterator gives whole.
fn look(view: &BatchView<'_>, records: &[u8]) {
    let walk = view.walk_decompressed(records);
    let (mut count, mut broken, mut highest) = (0i32, false, i64::MIN);
    for record in view.records_of(records) {
        let Ok(record) = record else {
            broken = true;
            continue;
        };
        assert!(!broken, "a record behind one that does not parse");
        count += 1;
        highest = highest.max(view.base_timestamp().wrapping_add(record.timestamp_delta));
        let told = record.headers.len();
        assert_eq!(record.headers.count(), told, "a header that was counted is missing");
    }
    if let Ok(walk) = walk {
        assert!(!broken && count == view.count(), "{count} of {} records of an accepted batch", view.count());
        assert_eq!(walk.max_timestamp, highest, "highest timestamp");
        assert!(walk.min_timestamp <= highest && walk.max_timestamp_delta < count);
    }
}

/// As a client does with what a broker serves.
fn open(view: &BatchView<'_>, limit: usize) {
    let mut out = Vec::new();
    let codec = view.codec();
    let read = within("a decoder", CODEC_BYTES, 8, limit + view.payload().len(), || {
        decompress(codec, view.payload(), limit, &mut out).is_ok()
    });
    assert!(out.len() <= limit + 1, "{codec:?} gave {} bytes, {limit} were allowed", out.len());
    assert!(!read || out.len() <= limit, "{codec:?} gave {} bytes and no error, {limit} were allowed", out.len());
    if read {
        look(view, &out);
    }
}

/// As a broker does with what a producer sends.
fn take(bytes: &[u8]) {
    let Ok(view) = BatchView::check(bytes) else { return };
    assert!(BatchView::check_stored(bytes).is_ok(), "what may be produced may be stored");
    if view.verify_crc(&sums()).is_err() {
        return;
    }
    let mut stored = bytes.to_vec();
    assert!(stamp(&mut stored, Offset(7), Epoch(3)).is_ok());
    let stamped = BatchView::check_stored(&stored).expect("a stamped batch is stored");
    assert_eq!((stamped.base_offset(), stamped.leader_epoch()), (7, 3));
    assert!(stamped.verify_crc(&sums()).is_ok(), "stamping an offset leaves the CRC");
    assert!(stamp_append_time(&mut stored, WallMs(99), &sums()).is_ok());
    let stamped = BatchView::check_stored(&stored).expect("a stamped batch is stored");
    assert!(stamped.is_append_time() && stamped.max_timestamp() == 99 && stamped.verify_crc(&sums()).is_ok());
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut builder = BatchBuilder::new();
    let header = [Header { key: b"trace", value: Some(b"1") }, Header { key: b"", value: None }];
    builder.append(1000, Some(b"key"), Some(b"value"), &header);
    builder.append(990, None, Some(&[7; 300]), &[]);
    builder.append(1001, Some(b""), None, &[]);
    let plain = builder.finish(Producer::NONE, &sums()).to_vec();
    let mut seeds = vec![[&[0], &plain[..]].concat(), [&[3], &plain[..], &plain[..]].concat()];
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut packed = Vec::new();
        let compressed = Compressor::new(codec).and_then(|mut with| with.compress(builder.records(), &mut packed));
        compressed.expect("our own records are compressed");
        let producer = Producer { id: 9, epoch: 1, sequence: 5, transactional: false };
        for how in [3, 15] {
            let mut seed = vec![how];
            builder.finish_compressed(codec, &packed, producer, &sums(), &mut seed);
            seeds.push(seed);
        }
    }
    seeds
}
