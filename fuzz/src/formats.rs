//! What stands beside units on a device or in a file: checkpoints, labels, local states, extent headers, footers.
//!
//! The first byte says whether checksums (and where they stand before everything else, lengths) are put right before.

use base::image::Secret;
use base::{BrokerId, ClusterId, Epoch, JournalId, Offset, PartitionId, Position, ProducerEpoch, ProducerId, WallMs};
use journal::format::checkpoint::{ExtentEntry, PartitionEntry};
use journal::format::{
    BatchState, Chain, CheckpointFold, CheckpointRecord, Cut, ExtentHeader, ExtentKind, Footer, FooterEntry,
    FooterView, JournalStart, Label, LocalState, PartitionState, ProducerState, Run, SECTOR, Stretch,
};
use sim::sums;

use crate::input::Input;
use crate::within;

const JOURNAL: JournalId = JournalId(2);
const DEVICE: u128 = 0xd1;
const CHECKPOINT_HEAD: usize = 24;
const TRAILER_BYTES: usize = 128;

/// A checkpoint file: records one after the other, of which as many count as are intact.
pub(crate) fn checkpoint(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let how = input.byte();
    let mut file = input.rest().to_vec();
    if how & 1 != 0 {
        mend_checkpoint(&mut file);
    }
    // A partition of 40 bytes is about 200 in the maps of a fold.
    let fold =
        within("a checkpoint", 8 << 10, 24, file.len(), || CheckpointFold::read(&file, JOURNAL, DEVICE, &sums()));
    let first = CheckpointRecord::decode(&file, &sums());
    assert!(first.is_ok() || fold.is_none(), "a fold of a file whose base is not intact");
    if let Some(fold) = fold {
        assert!(fold.bytes <= file.len());
        let short = CheckpointFold::read(&file[..fold.bytes], JOURNAL, DEVICE, &sums());
        assert_eq!(short.as_ref(), Some(&fold), "what is behind the intact records changes nothing");
    }
    if let Ok((record, taken)) = first {
        let mut out = Vec::new();
        record.encode(&sums(), &mut out);
        let again = CheckpointRecord::decode(&out, &sums()).map(|(again, _)| again);
        assert_eq!(again.as_ref(), Ok(&record), "a record is written as it was read");
        assert!(taken <= file.len());
    }
}

/// Lengths and checksums of records one after the other; a length that leads nowhere becomes what is left.
pub(crate) fn mend_checkpoint(file: &mut [u8]) {
    let mut at = 0;
    while file.len() - at > CHECKPOINT_HEAD + 8 {
        let left = file.len() - at - CHECKPOINT_HEAD - 8;
        let length = file[at + CHECKPOINT_HEAD - 8..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let length = usize::try_from(length).ok().filter(|length| *length <= left).unwrap_or(left);
        file[at + CHECKPOINT_HEAD - 8..at + CHECKPOINT_HEAD].copy_from_slice(&(length as u64).to_le_bytes());
        let end = at + CHECKPOINT_HEAD + length;
        let sum = (sums().crc64)(0, &file[at..end]);
        file[end..end + 8].copy_from_slice(&sum.to_le_bytes());
        at = end + 8;
    }
}

/// A page with a checksum of its own: a label, a local state, an extent's header. A short input is a page that ends in zeros.
pub(crate) fn local_state(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let how = input.byte();
    let mut page = [0; SECTOR];
    let body = input.take(SECTOR);
    page[..body.len()].copy_from_slice(body);
    if how & 1 != 0 {
        seal(&mut page);
    }
    let cut = if how & 2 != 0 { body.len() } else { SECTOR };
    let mut again = [0; SECTOR];
    within("a page", 0, 0, 0, || {
        if let Ok(state) = LocalState::decode(&page[..cut], &sums()) {
            state.encode(&sums(), &mut again);
            assert_eq!(LocalState::decode(&again, &sums()), Ok(state));
        }
        if let Ok(label) = Label::decode(&page[..cut], &sums()) {
            label.encode(&sums(), &mut again);
            assert_eq!(Label::decode(&again, &sums()), Ok(label));
        }
        if let Ok(header) = ExtentHeader::decode(&page[..cut], &sums()) {
            header.encode(&sums(), &mut again);
            assert_eq!(ExtentHeader::decode(&again, &sums()), Ok(header));
        }
    });
}

/// Puts the checksum of a page right.
pub(crate) fn seal(page: &mut [u8; SECTOR]) {
    let sum = (sums().crc64)(0, &page[..SECTOR - 8]);
    page[SECTOR - 8..].copy_from_slice(&sum.to_le_bytes());
}

/// A footer, read from its end.
pub(crate) fn footer(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let how = input.byte();
    let mut footer = input.rest().to_vec();
    if how & 1 != 0 {
        mend_footer(&mut footer);
    }
    within("a footer", 0, 0, 0, || {
        let length = FooterView::length(&footer, &sums());
        let Ok(view) = FooterView::check(&footer, &sums()) else { return };
        assert!(length.is_ok_and(|length| length <= footer.len()), "a footer longer than its bytes");
        let mut before = None;
        let (mut entries, mut runs) = (0, 0);
        for entry in view.entries() {
            assert!(before.is_none_or(|before| before < entry.partition), "partitions rise");
            before = Some(entry.partition);
            assert_eq!(entry.runs().len(), entry.run_count());
            runs += entry.runs().rev().count();
            entries += 1;
            let found = view.entry(entry.partition).expect("an entry that is listed is found");
            assert_eq!((found.newest, found.run_count()), (entry.newest, entry.run_count()));
        }
        assert!(Footer::bytes(entries, runs) <= footer.len());
    });
}

/// The sum over what stands before the trailer, then the trailer's own.
pub(crate) fn mend_footer(footer: &mut [u8]) {
    let Some(at) = footer.len().checked_sub(TRAILER_BYTES) else { return };
    let total = footer[at + 12..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
    if let Some(start) = footer.len().checked_sub(total).filter(|start| *start <= at) {
        let sum = (sums().crc64)(0, &footer[start..at]);
        footer[at + 88..at + 96].copy_from_slice(&sum.to_le_bytes());
    }
    let sum = (sums().crc64)(0, &footer[at..at + TRAILER_BYTES - 8]);
    footer[at + TRAILER_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
}

/// The state of a partition with producers and epochs.
pub(crate) fn state(partition: u64) -> PartitionState {
    let batch = BatchState { first_sequence: 0, last_sequence: 4, base_offset: Offset(1), append_time: WallMs(-1) };
    let producer = ProducerState {
        id: ProducerId(9),
        epoch: ProducerEpoch(1),
        last_seen: WallMs(1000),
        batches: vec![batch, BatchState { first_sequence: 5, last_sequence: 5, ..batch }],
    };
    PartitionState {
        partition: PartitionId(partition),
        next_offset: Offset(7),
        log_start: Offset(1),
        last_timestamp: WallMs(1000),
        epochs: vec![(Epoch(1), Offset(0)), (Epoch(4), Offset(5))],
        producers: vec![producer],
    }
}

fn run(first: i64) -> Run {
    Run {
        first: Offset(first),
        last: Offset(first + 4),
        position: Position(4096),
        span: 8192,
        bytes: 5000,
        max_timestamp: WallMs(1000),
        epoch: Epoch(4),
        frames: 2,
    }
}

fn start(position: u64) -> JournalStart {
    JournalStart { position: Position(position), epoch: Epoch(3), chain: Chain(77) }
}

fn entry(partition: u64, runs: Vec<Run>) -> FooterEntry {
    FooterEntry { partition: PartitionId(partition), newest: Position(8192), runs }
}

fn record(sequence: u32) -> CheckpointRecord {
    let extent = ExtentEntry {
        offset: 1 << 20,
        len: 128 << 10,
        generation: 5,
        start: start(0),
        end: Some(Position(8192)),
        footer_len: 4096,
        clustered: None,
    };
    let partition = |id| PartitionEntry {
        state: state(id),
        newest: Position(4096),
        bytes: 5000,
        counted: Offset(0),
        sure_start: Offset(1),
        moved: Some(Position(4096)),
    };
    CheckpointRecord {
        journal: JOURNAL,
        device: DEVICE,
        sequence,
        upto: start(8192),
        partitions: vec![partition(3), partition(4)],
        gone: vec![PartitionId(2)],
        extents: vec![extent, ExtentEntry { start: start(8192), end: None, clustered: Some(start(8192)), ..extent }],
        freed: vec![Position(0)],
        open: 6,
        runs: vec![entry(3, vec![run(0), run(5)])],
    }
}

pub(crate) fn checkpoint_seeds() -> Vec<Vec<u8>> {
    let file = |how: u8, records: &[CheckpointRecord]| {
        let mut out = vec![how];
        for record in records {
            record.encode(&sums(), &mut out);
        }
        out
    };
    let empty = CheckpointRecord {
        partitions: Vec::new(),
        gone: Vec::new(),
        extents: Vec::new(),
        freed: Vec::new(),
        runs: Vec::new(),
        ..record(0)
    };
    let mut seeds = Vec::new();
    for how in [0, 1] {
        seeds.push(file(how, std::slice::from_ref(&empty)));
        seeds.push(file(how, &[record(0)]));
        seeds.push(file(how, &[record(0), record(1), CheckpointRecord { sequence: 2, open: 7, ..empty.clone() }]));
    }
    seeds
}

pub(crate) fn local_state_seeds() -> Vec<Vec<u8>> {
    let state = LocalState {
        sequence: 3,
        cluster: ClusterId(1),
        device: DEVICE,
        journal: JOURNAL,
        replica: 5,
        promise: Epoch(4),
        cut: Cut { position: Position(4096), epoch: Epoch(4) },
        uncertain_to: Position(0),
        does_not_count: true,
        start: start(4096),
        secret: Secret([7; 16]),
    };
    let label = Label {
        cluster: ClusterId(1),
        broker: BrokerId(1),
        device: DEVICE,
        extent_len: 128 << 10,
        state_offset: Label::STATE_AT,
        state_pairs: 8,
        extents_offset: 1 << 20,
    };
    let stretch = Stretch { end: Position(8192), upto: start(12288), compacted: Position(4096) };
    let extent = |kind| ExtentHeader {
        kind,
        generation: 5,
        cluster: ClusterId(1),
        device: DEVICE,
        journal: JOURNAL,
        offset: 1 << 20,
        len: 128 << 10,
        start: Position(0),
        epoch: Epoch(3),
        chain: Chain(77),
        secret: Secret([7; 16]),
    };
    let mut page = [0; SECTOR];
    let mut seeds = Vec::new();
    // The whole page, and its fields alone with the checksum left to the target.
    let mut add = |page: &[u8; SECTOR]| {
        seeds.push([&[0], &page[..]].concat());
        seeds.push([&[1], &page[..256]].concat());
    };
    state.encode(&sums(), &mut page);
    add(&page);
    label.encode(&sums(), &mut page);
    add(&page);
    for kind in [ExtentKind::Raw, ExtentKind::Clustered(stretch)] {
        extent(kind).encode(&sums(), &mut page);
        add(&page);
    }
    seeds
}

pub(crate) fn footer_seeds() -> Vec<Vec<u8>> {
    let footer = |entries| Footer {
        journal: JOURNAL,
        generation: 5,
        start: Position(0),
        end: Position(8192),
        epoch: Epoch(4),
        chain: Chain(77),
        newest_control: Position(8192),
        entries,
    };
    let several = vec![entry(1, vec![run(0)]), entry(3, vec![]), entry(4, vec![run(0), run(5), run(10)])];
    let mut seeds = Vec::new();
    for how in [0, 1] {
        for entries in [vec![], vec![entry(3, vec![run(0)])], several.clone()] {
            seeds.push([&[how], &footer(entries).encode(&sums())[..]].concat());
        }
    }
    // Without the zeros in front: a footer shorter than a sector is refused by its length.
    seeds.push([&[1], &footer(several).encode(&sums())[SECTOR - 600..]].concat());
    seeds
}
