//! The bytes of version 1: golden files, round trips, any bytes, any flipped byte.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic, and their numbers are small"
)]

use std::fs;
use std::path::PathBuf;

use base::image::Secret;
use base::{
    BrokerId, Checksums, ClusterId, Epoch, JournalId, Offset, PartitionId, Position, ProducerEpoch, ProducerId, WallMs,
};
use journal::format::checkpoint::{ExtentEntry, PartitionEntry};
use journal::format::unit::Frames;
use journal::format::*;
use proptest::prelude::*;

const KEY: Secret = Secret([7; 16]);
const CLUSTER: ClusterId = ClusterId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
const JOURNAL: JournalId = JournalId(9);

fn sums() -> Checksums {
    Checksums::portable()
}

fn page(encode: impl FnOnce(&mut [u8; SECTOR])) -> Vec<u8> {
    // Not zeros: encoding must not rely on what was there.
    let mut page = [0xaa; SECTOR];
    encode(&mut page);
    page.to_vec()
}

fn label() -> Label {
    Label {
        cluster: CLUSTER,
        broker: BrokerId(3),
        device: 0xdddd_0001,
        extent_len: 64 << 20,
        state_offset: 64 << 10,
        state_pairs: 512,
        extents_offset: 5 << 20,
    }
}

fn start() -> JournalStart {
    JournalStart { position: Position(8192), epoch: Epoch(4), chain: Chain(0x1234_5678_9abc) }
}

fn local_state() -> LocalState {
    LocalState {
        sequence: 12,
        cluster: CLUSTER,
        device: 0xdddd_0001,
        journal: JOURNAL,
        replica: 0xeeee_0002,
        promise: Epoch(5),
        cut: Cut { position: Position(16_384), epoch: Epoch(5) },
        uncertain_to: Position(20_480),
        does_not_count: true,
        start: start(),
        secret: KEY,
    }
}

fn extent_header() -> ExtentHeader {
    ExtentHeader {
        kind: ExtentKind::Raw,
        generation: 77,
        cluster: CLUSTER,
        device: 0xdddd_0001,
        journal: JOURNAL,
        offset: 5 << 20,
        len: 64 << 20,
        start: Position(8192),
        epoch: Epoch(4),
        chain: Chain(0x1234_5678_9abc),
        secret: KEY,
    }
}

fn clustered_header() -> ExtentHeader {
    let upto = JournalStart { position: Position(1 << 20), epoch: Epoch(6), chain: Chain(0x5555_6666) };
    ExtentHeader {
        kind: ExtentKind::Clustered(Stretch { end: Position(65_536), upto, compacted: Position(0) }),
        ..extent_header()
    }
}

fn partition_state(id: u64) -> PartitionState {
    let batch = |first: i32| BatchState {
        first_sequence: first,
        last_sequence: first + 9,
        base_offset: Offset(100 + i64::from(first)),
        append_time: WallMs(-1),
    };
    PartitionState {
        partition: PartitionId(id),
        next_offset: Offset(120),
        log_start: Offset(17),
        last_timestamp: WallMs(1_700_000_000_123),
        epochs: vec![(Epoch(1), Offset(0)), (Epoch(4), Offset(60))],
        producers: vec![ProducerState {
            id: ProducerId(4001),
            epoch: ProducerEpoch(2),
            last_seen: WallMs(1_700_000_000_999),
            batches: vec![batch(0), batch(10)],
        }],
    }
}

/// A unit as the store builds it.
fn unit(position: u64, chain: Chain, frames: &[(FrameHeader, Vec<u8>)]) -> (Vec<u8>, Chain) {
    let mut bytes = vec![0; UnitHeader::BYTES];
    let mut body = 0;
    for (header, payload) in frames {
        let header = FrameHeader { length: payload.len() as u32, payload: (sums().crc64)(0, payload), ..*header };
        let mut head = [0; FrameHeader::BYTES];
        header.encode(&sums(), &mut head);
        body = (sums().crc64)(body, &head);
        bytes.extend(head);
        bytes.extend(payload);
        bytes.resize(aligned(bytes.len()), 0);
    }
    let length = bytes.len();
    bytes.resize(sectors(length), 0);
    let header = UnitHeader {
        cluster: CLUSTER,
        journal: JOURNAL,
        position: Position(position),
        length: length as u32,
        padding: (bytes.len() - length) as u32,
        epoch: Epoch(4),
        frames: frames.len() as u32,
        chain,
        commit: Position(4096),
        wall: WallMs(1_700_000_001_000),
        flags: 0,
        key_id: 0,
        body,
    };
    let chain = header.encode(&KEY, &mut bytes);
    (bytes, chain)
}

fn frame(kind: FrameKind, partition: u64, payload: Vec<u8>) -> (FrameHeader, Vec<u8>) {
    let records = if kind == FrameKind::Records { 3 } else { 0 };
    let header = FrameHeader {
        kind,
        flags: 0,
        records,
        partition: PartitionId(partition),
        base_offset: Offset(100),
        max_timestamp: WallMs(1_700_000_000_000),
        length: 0,
        epoch: Epoch(4),
        payload: 0,
        last_offset_delta: records.saturating_sub(1),
    };
    (header, payload)
}

fn place(position: u64) -> UnitPlace {
    UnitPlace { cluster: CLUSTER, journal: JOURNAL, position: Position(position), clustered: false }
}

fn bytes_of(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

fn epoch_start() -> EpochStart {
    EpochStart { epoch: Epoch(4), broker: BrokerId(3), incarnation: 0xabcd, previous: Epoch(1) }
}

fn every_kind() -> Vec<(FrameHeader, Vec<u8>)> {
    vec![
        frame(FrameKind::EpochStart, 0, bytes_of(|out| epoch_start().encode(out))),
        frame(FrameKind::Records, 5, (0..=90).collect()),
        frame(
            FrameKind::LogStart,
            5,
            bytes_of(|out| LogStartMove { to: Offset(50), reason: StartReason::Time }.encode(out)),
        ),
        frame(FrameKind::Close, 6, bytes_of(|out| Close { at: Offset(70), next: JournalId(11) }.encode(out))),
        frame(
            FrameKind::Open,
            7,
            bytes_of(|out| Open { previous: JournalId(8), state: partition_state(7) }.encode(out)),
        ),
        frame(FrameKind::Snapshot, 5, bytes_of(|out| partition_state(5).encode(out))),
        frame(
            FrameKind::Gap,
            5,
            bytes_of(|out| {
                Gap { from: Offset(1), to: Offset(9), damage_start: Position(0), damage_end: Position(4096) }
                    .encode(out);
            }),
        ),
    ]
}

fn run(first: i64, last: i64) -> Run {
    Run {
        first: Offset(first),
        last: Offset(last),
        position: Position(8192 + first.cast_unsigned() * 4096),
        span: 65_536,
        bytes: 60_000,
        max_timestamp: WallMs(1_700_000_000_000 + last),
        epoch: Epoch(4),
        frames: 8,
    }
}

fn footer() -> Footer {
    let entry = |id, runs| FooterEntry { partition: PartitionId(id), newest: Position(12_288), runs };
    Footer {
        journal: JOURNAL,
        generation: 77,
        start: Position(8192),
        end: Position(1 << 20),
        epoch: Epoch(4),
        chain: Chain(99),
        newest_control: Position(8192),
        entries: vec![entry(5, vec![run(0, 9), run(10, 30)]), entry(6, vec![]), entry(900, vec![run(4, 4)])],
    }
}

fn base_record() -> CheckpointRecord {
    CheckpointRecord {
        journal: JOURNAL,
        device: 0xdddd_0001,
        sequence: 0,
        upto: start(),
        partitions: vec![PartitionEntry {
            state: partition_state(5),
            newest: Position(4096),
            bytes: 1000,
            counted: Offset(3),
            sure_start: Offset(2),
            moved: Some(Position(8192)),
        }],
        gone: vec![],
        extents: vec![ExtentEntry {
            offset: 5 << 20,
            len: 64 << 20,
            generation: 77,
            start: start(),
            end: None,
            footer_len: 0,
            clustered: None,
        }],
        freed: vec![],
        open: 77,
        runs: vec![FooterEntry { partition: PartitionId(5), newest: Position(4096), runs: vec![run(0, 9)] }],
    }
}

fn increment() -> CheckpointRecord {
    let upto = JournalStart { position: Position(65_536), ..start() };
    CheckpointRecord {
        sequence: 1,
        upto,
        partitions: vec![PartitionEntry {
            state: partition_state(6),
            newest: Position(8192),
            bytes: 2000,
            counted: Offset(9),
            sure_start: Offset(0),
            moved: None,
        }],
        gone: vec![],
        extents: vec![ExtentEntry {
            offset: 69 << 20,
            len: 64 << 20,
            generation: 78,
            start: start(),
            end: Some(Position(16_384)),
            footer_len: 4096,
            clustered: Some(JournalStart { position: Position(32_768), epoch: Epoch(5), chain: Chain(17) }),
        }],
        freed: vec![Position(20_480)],
        runs: vec![FooterEntry {
            partition: PartitionId(5),
            newest: Position(8192),
            runs: vec![run(0, 12), run(13, 20)],
        }],
        ..base_record()
    }
}

/// Every structure, by the name of its golden file.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let (first, chain) = unit(8192, start().chain, &every_kind());
    let (closing, _) = unit(8192 + first.len() as u64, chain, &[]);
    let mut checkpoint = Vec::new();
    base_record().encode(&sums(), &mut checkpoint);
    increment().encode(&sums(), &mut checkpoint);
    vec![
        ("v1-label", page(|page| label().encode(&sums(), page))),
        ("v1-local-state", page(|page| local_state().encode(&sums(), page))),
        ("v1-extent-header", page(|page| extent_header().encode(&sums(), page))),
        ("v1-unit", first),
        ("v1-closing-unit", closing),
        ("v1-footer", footer().encode(&sums())),
        ("v1-clustered-extent-header", page(|page| clustered_header().encode(&sums(), page))),
        ("v3-checkpoint", checkpoint),
    ]
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.bin"))
}

#[test]
fn bytes_are_those_of_the_golden_files() {
    for (name, bytes) in samples() {
        if std::env::var_os("BLESS").is_some() {
            fs::write(golden(name), &bytes).unwrap();
        }
        let kept = fs::read(golden(name)).unwrap();
        let differs = kept.iter().zip(&bytes).position(|(a, b)| a != b);
        assert!(kept == bytes, "{name} differs from its golden file, first at {differs:?}");
    }
}

#[test]
fn golden_files_decode_to_what_was_encoded() {
    let read = |name| fs::read(golden(name)).unwrap();
    assert_eq!(Label::decode(&read("v1-label"), &sums()), Ok(label()));
    assert_eq!(LocalState::decode(&read("v1-local-state"), &sums()), Ok(local_state()));
    assert_eq!(ExtentHeader::decode(&read("v1-extent-header"), &sums()), Ok(extent_header()));
    assert_eq!(ExtentHeader::decode(&read("v1-clustered-extent-header"), &sums()), Ok(clustered_header()));
    let bytes = read("v1-unit");
    let view = UnitView::check(&bytes, &KEY, &sums(), &place(8192)).unwrap();
    assert_eq!(view.bad_payload(&sums()), None);
    for (frame, (header, payload)) in view.frames().zip(every_kind()) {
        assert_eq!((frame.header.kind, frame.header.partition), (header.kind, header.partition));
        assert_eq!((frame.payload, frame.header.length as usize), (&payload[..], payload.len()));
        assert_eq!(FrameHeader::decode(&bytes[frame.at..], &sums()), Ok(frame.header));
    }
    let payload = |i: usize| view.frames().nth(i).unwrap().payload;
    assert_eq!(EpochStart::decode(payload(0)), Ok(epoch_start()));
    assert_eq!(LogStartMove::decode(payload(2)), Ok(LogStartMove { to: Offset(50), reason: StartReason::Time }));
    assert_eq!(Close::decode(payload(3)), Ok(Close { at: Offset(70), next: JournalId(11) }));
    assert_eq!(Open::decode(payload(4)), Ok(Open { previous: JournalId(8), state: partition_state(7) }));
    assert_eq!(PartitionState::decode(payload(5)), Ok(partition_state(5)));
    assert_eq!(Gap::decode(payload(6)).unwrap().to, Offset(9));
    let closing = read("v1-closing-unit");
    let after = UnitView::check(&closing, &KEY, &sums(), &place(view.header().end().0)).unwrap();
    assert_eq!((after.header().chain, after.frames().count()), (view.chain(), 0));
}

#[test]
fn a_checkpoint_of_version_1_is_read() {
    let bytes = fs::read(golden("v1-checkpoint")).unwrap();
    let fold = CheckpointFold::read(&bytes, JOURNAL, 0xdddd_0001, &sums()).unwrap();
    assert_eq!((fold.bytes, fold.sequence), (bytes.len(), 1));
    let entry = &fold.partitions[&PartitionId(5)];
    // It did not say up to where bytes were counted: up to the log start.
    assert_eq!((entry.bytes, entry.counted), (1000, entry.state.log_start));
    assert!(fold.extents.values().all(|extent| extent.clustered.is_none()));
}

#[test]
fn a_checkpoint_of_version_2_calls_no_log_start_sure() {
    let bytes = fs::read(golden("v2-checkpoint")).unwrap();
    let fold = CheckpointFold::read(&bytes, JOURNAL, 0xdddd_0001, &sums()).unwrap();
    assert_eq!((fold.bytes, fold.sequence), (bytes.len(), 1));
    let entry = &fold.partitions[&PartitionId(5)];
    assert_eq!((entry.counted, entry.sure_start, entry.moved), (Offset(3), Offset(0), Some(Position(0))));
    assert!(fold.extents.values().any(|extent| extent.clustered.is_some()));
}

#[test]
fn footers_answer_by_partition() {
    let bytes = footer().encode(&sums());
    assert_eq!(FooterView::length(&bytes[bytes.len() - SECTOR..], &sums()), Ok(bytes.len()));
    // The footer ends where the bytes end; what stands before it does not matter.
    let mut longer = vec![0x55; SECTOR];
    longer.extend(&bytes);
    let view = FooterView::check(&longer, &sums()).unwrap();
    assert_eq!((view.generation, view.end, view.chain), (77, Position(1 << 20), Chain(99)));
    let entry = view.entry(PartitionId(5)).unwrap();
    assert_eq!(entry.runs().collect::<Vec<_>>(), [run(0, 9), run(10, 30)]);
    assert_eq!((entry.bytes, entry.last), (120_000, Offset(30)));
    assert_eq!(view.entry(PartitionId(6)).unwrap().run_count(), 0);
    assert!(view.entry(PartitionId(7)).is_none());
    assert_eq!(view.entries().map(|e| e.partition.0).collect::<Vec<_>>(), [5, 6, 900]);
    assert_eq!(
        FooterView::check(&bytes[SECTOR.min(bytes.len() - 128) + 1..], &sums()).unwrap_err(),
        FormatError::Short
    );
}

#[test]
fn a_checkpoint_folds_base_and_increments_and_tolerates_any_truncation() {
    let mut bytes = Vec::new();
    base_record().encode(&sums(), &mut bytes);
    let base_len = bytes.len();
    increment().encode(&sums(), &mut bytes);
    let whole = CheckpointFold::read(&bytes, JOURNAL, 0xdddd_0001, &sums()).unwrap();
    assert_eq!((whole.upto.position, whole.sequence, whole.bytes), (Position(65_536), 1, bytes.len()));
    assert_eq!(whole.partitions.len(), 2);
    assert_eq!(whole.runs[&PartitionId(5)].runs, [run(0, 12), run(13, 20)]);
    for len in 0..bytes.len() {
        let fold = CheckpointFold::read(&bytes[..len], JOURNAL, 0xdddd_0001, &sums());
        match fold {
            None => assert!(len < base_len),
            Some(fold) => assert_eq!((fold.sequence, fold.bytes), (0, base_len)),
        }
    }
    assert_eq!(CheckpointFold::read(&bytes, JOURNAL, 1, &sums()), None, "another device");
    assert_eq!(CheckpointFold::read(&bytes, JournalId(1), 0xdddd_0001, &sums()), None, "another journal");
    let second_alone = &bytes[base_len..];
    assert_eq!(CheckpointFold::read(second_alone, JOURNAL, 0xdddd_0001, &sums()), None, "no base");
}

#[test]
fn a_new_open_extent_drops_the_index_of_the_one_before() {
    let mut bytes = Vec::new();
    base_record().encode(&sums(), &mut bytes);
    CheckpointRecord {
        open: 78,
        gone: vec![PartitionId(5)],
        extents: vec![],
        freed: vec![start().position],
        ..increment()
    }
    .encode(&sums(), &mut bytes);
    let fold = CheckpointFold::read(&bytes, JOURNAL, 0xdddd_0001, &sums()).unwrap();
    assert_eq!(fold.runs[&PartitionId(5)].runs, [run(0, 12), run(13, 20)], "only those of the new extent");
    assert_eq!(fold.partitions.keys().map(|id| id.0).collect::<Vec<_>>(), [6]);
    assert!(fold.extents.is_empty());
}

#[test]
fn every_flipped_byte_of_a_unit_is_told_by_name() {
    let (bytes, _) = unit(8192, Chain(1), &every_kind());
    let whole = UnitView::check(&bytes, &KEY, &sums(), &place(8192)).unwrap();
    let frames: Vec<(usize, usize)> = whole.frames().map(|frame| (frame.at, frame.bytes())).collect();
    let length = whole.header().length as usize;
    for at in 0..length {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        let got = UnitView::check(&bytes, &KEY, &sums(), &place(8192));
        let frame = frames.iter().position(|&(start, len)| (start..start + len).contains(&at));
        match frame {
            None => assert_eq!(got.unwrap_err(), UnitError::Header, "byte {at} of the header"),
            Some(i) if at < frames[i].0 + FrameHeader::BYTES => {
                assert!(matches!(got, Err(UnitError::Torn { header }) if header == *whole.header()), "byte {at}");
            }
            Some(i) => assert_eq!(got.unwrap().bad_payload(&sums()), Some(i), "byte {at} of payload {i}"),
        }
    }
    let mut padded = bytes;
    *padded.last_mut().unwrap() ^= 1;
    assert!(UnitView::check(&padded, &KEY, &sums(), &place(8192)).is_ok(), "nothing depends on a unit's padding");
}

#[test]
fn every_flipped_byte_of_a_page_footer_or_checkpoint_is_told() {
    for (name, bytes) in samples() {
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            let refused = match name {
                "v1-label" => Label::decode(&bytes, &sums()).is_err(),
                "v1-local-state" => LocalState::decode(&bytes, &sums()).is_err(),
                "v1-extent-header" | "v1-clustered-extent-header" => ExtentHeader::decode(&bytes, &sums()).is_err(),
                "v1-footer" => FooterView::check(&bytes, &sums()).is_err(),
                "v3-checkpoint" => {
                    CheckpointFold::read(&bytes, JOURNAL, 0xdddd_0001, &sums()).is_none_or(|fold| fold.sequence == 0)
                }
                _ => true,
            };
            assert!(refused, "byte {at} of {name}");
        }
    }
}

#[test]
fn a_unit_elsewhere_under_another_key_or_cut_short_is_told() {
    let (bytes, _) = unit(8192, Chain(1), &every_kind());
    let check = |bytes: &[u8], key, place: &UnitPlace| UnitView::check(bytes, key, &sums(), place).map(|_| ());
    assert!(
        matches!(check(&bytes, &KEY, &place(4096)), Err(UnitError::Elsewhere { header }) if header.position.0 == 8192)
    );
    assert_eq!(check(&bytes, &Secret([8; 16]), &place(8192)), Err(UnitError::Header));
    assert_eq!(check(&bytes[..SECTOR - 1], &KEY, &place(8192)), Err(UnitError::Short { need: bytes.len() }));
    assert_eq!(check(&bytes[..127], &KEY, &place(8192)), Err(UnitError::Header));
}

/// Changes bytes of a unit header and seals it again.
fn resealed(bytes: &[u8], at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + with.len()].copy_from_slice(with);
    let sum = base::checksum::keyed128(&KEY.0, &bytes[..112]);
    bytes[112..128].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn newer_versions_and_unknown_kinds_are_errors_that_name_them() {
    let (bytes, _) = unit(8192, Chain(1), &every_kind());
    let check = |bytes: &[u8]| UnitView::check(bytes, &KEY, &sums(), &place(8192)).map(|_| ()).unwrap_err();
    assert_eq!(check(&resealed(&bytes, 8, &2u16.to_le_bytes())), UnitError::NewerVersion { version: 2 });
    assert_eq!(check(&resealed(&bytes, 96, &[1])), UnitError::Unsupported { field: "key id", value: 1 });
    let mut forged = bytes.clone();
    forged[8] = 2;
    assert_eq!(check(&forged), UnitError::Header, "a version is believed only under an intact checksum");

    let mut unknown = bytes.clone();
    unknown[128] = 8;
    let sum = (sums().crc64)(0, &unknown[128..128 + 56]);
    unknown[128 + 56..128 + 64].copy_from_slice(&sum.to_le_bytes());
    let view = UnitView::check(&bytes, &KEY, &sums(), &place(8192)).unwrap();
    let body = view.frames().fold(0, |sum, frame| (sums().crc64)(sum, &unknown[frame.at..frame.at + 64]));
    let error = check(&resealed(&unknown, 104, &body.to_le_bytes()));
    assert_eq!(error, UnitError::UnknownKind { kind: 8, version: 1, position: Position(8192) });
    assert_eq!(error.to_string(), "frame of unknown kind 8 (version 1) in the unit at position 8192");

    for (name, mut bytes) in samples().into_iter().take(3) {
        bytes[8] = 2;
        let sum = (sums().crc64)(0, &bytes[..SECTOR - 8]);
        bytes[SECTOR - 8..].copy_from_slice(&sum.to_le_bytes());
        let error = match name {
            "v1-label" => Label::decode(&bytes, &sums()).unwrap_err(),
            "v1-local-state" => LocalState::decode(&bytes, &sums()).unwrap_err(),
            _ => ExtentHeader::decode(&bytes, &sums()).unwrap_err(),
        };
        assert_eq!(error, FormatError::NewerVersion { version: 2 });
    }
}

#[test]
fn secrets_do_not_print() {
    assert!(!format!("{:?} {:?}", local_state(), extent_header()).contains("7, 7"));
}

/// Feeds bytes to every door; nothing may panic, and frames of what was taken must stay inside the bytes.
fn every_door(bytes: &[u8]) {
    let _ = Label::decode(bytes, &sums());
    let _ = LocalState::decode(bytes, &sums());
    let _ = ExtentHeader::decode(bytes, &sums());
    let _ = FrameHeader::decode(bytes, &sums());
    let _ = (EpochStart::decode(bytes), LogStartMove::decode(bytes), Close::decode(bytes), Open::decode(bytes));
    let _ = (Gap::decode(bytes), PartitionState::decode(bytes));
    let _ = CheckpointFold::read(bytes, JOURNAL, 0xdddd_0001, &sums());
    let _ = FooterView::length(bytes, &sums());
    if let Ok(view) = FooterView::check(bytes, &sums()) {
        assert!(view.entries().all(|entry| entry.runs().count() == entry.run_count()));
    }
    if let Ok(view) = UnitView::check(bytes, &KEY, &sums(), &place(8192)) {
        let frames: Frames<'_> = view.frames();
        assert_eq!(frames.count(), view.header().frames as usize);
        let _ = view.bad_payload(&sums());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_taken_or_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        every_door(&bytes);
    }

    #[test]
    fn damaged_structures_are_taken_or_refused_without_a_panic(
        which in 0usize..7,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        reseal in any::<bool>(),
    ) {
        let mut bytes = samples().swap_remove(which).1;
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if reseal {
            // Behind an intact checksum any field may say anything.
            reseal_all(&mut bytes);
        } else {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        every_door(&bytes);
    }

    #[test]
    fn units_round_trip(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..20)) {
        let frames: Vec<_> = payloads.iter().map(|payload| frame(FrameKind::Records, 5, payload.clone())).collect();
        let (bytes, chain) = unit(8192, Chain(3), &frames);
        let view = UnitView::check(&bytes, &KEY, &sums(), &place(8192)).unwrap();
        prop_assert_eq!(view.chain(), chain);
        prop_assert_eq!(view.header().bytes(), bytes.len());
        prop_assert_eq!(view.bad_payload(&sums()), None);
        let got: Vec<Vec<u8>> = view.frames().map(|frame| frame.payload.to_vec()).collect();
        prop_assert_eq!(got, payloads);
    }

    #[test]
    fn a_unit_of_which_only_a_prefix_of_sectors_arrived_is_never_whole(
        sizes in prop::collection::vec(1usize..5000, 1..8),
        keep in any::<prop::sample::Index>(),
    ) {
        let frames: Vec<_> = sizes.iter().map(|&len| frame(FrameKind::Records, 5, vec![1; len])).collect();
        let (mut bytes, _) = unit(8192, Chain(3), &frames);
        let kept = keep.index(bytes.len() / SECTOR) * SECTOR;
        bytes[kept..].fill(0);
        let got = UnitView::check(&bytes, &KEY, &sums(), &place(8192));
        prop_assert!(got.is_err() || got.unwrap().bad_payload(&sums()).is_some());
    }
}

fn reseal_all(bytes: &mut [u8]) {
    let crc = |bytes: &[u8]| (sums().crc64)(0, bytes).to_le_bytes();
    if bytes.starts_with(b"BARELOGU") {
        let sum = base::checksum::keyed128(&KEY.0, &bytes[..112]);
        bytes[112..128].copy_from_slice(&sum.to_le_bytes());
    } else if bytes.starts_with(b"BARELOGC") {
        let body = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
        if let Some(end) = body.checked_add(24).filter(|end| end + 8 <= bytes.len()) {
            let sum = crc(&bytes[..end]);
            bytes[end..end + 8].copy_from_slice(&sum);
        }
    } else if bytes.len() == SECTOR {
        let sum = crc(&bytes[..SECTOR - 8]);
        bytes[SECTOR - 8..].copy_from_slice(&sum);
        // And as a footer, whose trailer ends the sector.
        let body = crc(&bytes[..SECTOR - 128]);
        bytes[SECTOR - 40..SECTOR - 32].copy_from_slice(&body);
        if bytes[SECTOR - 128..].starts_with(b"BARELOGF") {
            let sum = crc(&bytes[SECTOR - 128..SECTOR - 8]);
            bytes[SECTOR - 8..].copy_from_slice(&sum);
        }
    }
}
