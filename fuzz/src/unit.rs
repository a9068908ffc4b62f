//! A unit of a journal as a reader finds it: header, frame headers, payloads and what control frames carry.
//!
//! The first byte says what is put right before: bit 0 the checksum of the unit's header, bit 1 those of frame headers and
//! their sum, bit 2 those of payloads. Without bit 3 the header must be where it says itself.

use base::image::Secret;
use base::{ClusterId, Epoch, JournalId, Offset, PartitionId, Position, WallMs};
use journal::format::{
    Chain, Close, EpochStart, FrameHeader, FrameKind, Gap, LogStartMove, Open, PartitionState, StartReason, UnitError,
    UnitHeader, UnitPlace, UnitView, aligned, sectors,
};
use protocol::batch::{BatchBuilder, BatchView, Producer};
use sim::sums;

use crate::formats::state;
use crate::input::Input;
use crate::within;

const KEY: Secret = Secret([7; 16]);
const CLUSTER: ClusterId = ClusterId(1);
const JOURNAL: JournalId = JournalId(2);
const UNIT_SUM_AT: usize = 112;
const UNIT_BODY_AT: usize = 104;
const FRAME_SUM_AT: usize = 56;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let how = input.byte();
    let mut unit = input.rest().to_vec();
    mend(&mut unit, how);
    let place = UnitPlace { cluster: CLUSTER, journal: JOURNAL, position: Position(4096), clustered: false };
    let checked = within("a unit", 0, 0, 0, || check(&unit, &place, how));
    let Some(view) = checked else { return };
    let mut taken = UnitHeader::BYTES;
    let mut count = 0;
    for frame in view.frames() {
        assert_eq!(frame.at, taken, "frames stand back to back");
        taken += frame.bytes();
        count += 1;
        let found = FrameHeader::decode(&unit[frame.at..], &sums());
        assert_eq!(found, Ok(frame.header), "a frame's header reads alone as it reads in its unit");
        within("a frame's payload", 256, 8, frame.payload.len(), || control(frame.header.kind, frame.payload));
    }
    assert_eq!((count, taken), (view.header().frames, view.header().length as usize), "frames fill their unit");
    assert!(view.header().bytes() <= unit.len() && view.header().end() > view.header().position);
    let intact = view.frames().all(|frame| frame.is_intact(&sums()));
    assert_eq!(intact, view.bad_payload(&sums()).is_none());
    let mut again = vec![0; UnitHeader::BYTES];
    let chain = view.header().encode(&KEY, &mut again);
    let read = UnitHeader::decode(&again, &KEY);
    assert_eq!(read, Ok((*view.header(), chain)), "a header is written as it was read");
}

/// As recovery reads: where the unit is said to be, else where it says itself.
fn check<'a>(unit: &'a [u8], place: &UnitPlace, how: u8) -> Option<UnitView<'a>> {
    match UnitView::check(unit, &KEY, &sums(), place) {
        Ok(view) => Some(view),
        Err(UnitError::Elsewhere { header }) if how & 8 == 0 => {
            let clustered = header.flags & UnitHeader::CLUSTERED != 0;
            let UnitHeader { cluster, journal, position, .. } = header;
            UnitView::check(unit, &KEY, &sums(), &UnitPlace { cluster, journal, position, clustered }).ok()
        }
        Err(_) => None,
    }
}

/// Puts checksums right from the inside out, as far as the lengths lead.
fn mend(unit: &mut [u8], how: u8) {
    if unit.len() < UnitHeader::BYTES {
        return;
    }
    let frames = u32::from_le_bytes([unit[60], unit[61], unit[62], unit[63]]);
    let (mut at, mut body) = (UnitHeader::BYTES, 0);
    for _ in 0..frames {
        let Some(head) = unit.get(at..at + FrameHeader::BYTES) else { break };
        let length = u32::from_le_bytes([head[32], head[33], head[34], head[35]]) as usize;
        let payload = at + FrameHeader::BYTES..(at + FrameHeader::BYTES).saturating_add(length);
        let sum = unit.get(payload).map(|payload| (sums().crc64)(0, payload));
        if let Some(sum) = sum.filter(|_| how & 4 != 0) {
            unit[at + 40..at + 48].copy_from_slice(&sum.to_le_bytes());
        }
        let head = &mut unit[at..at + FrameHeader::BYTES];
        if how & 2 != 0 {
            let sum = (sums().crc64)(0, &head[..FRAME_SUM_AT]);
            head[FRAME_SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        }
        body = (sums().crc64)(body, head);
        at = at.saturating_add(FrameHeader::BYTES + aligned(length));
    }
    if how & 2 != 0 {
        unit[UNIT_BODY_AT..UNIT_SUM_AT].copy_from_slice(&body.to_le_bytes());
    }
    if how & 1 != 0 {
        let sum = base::checksum::keyed128(&KEY.0, &unit[..UNIT_SUM_AT]);
        unit[UNIT_SUM_AT..UnitHeader::BYTES].copy_from_slice(&sum.to_le_bytes());
    }
}

/// What a frame carries: read, and where it is taken, written again as it was.
fn control(kind: FrameKind, payload: &[u8]) {
    let mut out = Vec::new();
    match kind {
        FrameKind::Records => drop(BatchView::check_stored(payload).and_then(|batch| batch.walk())),
        FrameKind::EpochStart => drop(EpochStart::decode(payload).map(|start| start.encode(&mut out))),
        FrameKind::LogStart => drop(LogStartMove::decode(payload).map(|moved| moved.encode(&mut out))),
        FrameKind::Close => drop(Close::decode(payload).map(|close| close.encode(&mut out))),
        FrameKind::Open => drop(Open::decode(payload).map(|open| open.encode(&mut out))),
        FrameKind::Snapshot => drop(PartitionState::decode(payload).map(|state| state.encode(&mut out))),
        FrameKind::Gap => drop(Gap::decode(payload).map(|gap| gap.encode(&mut out))),
    }
    assert!(out.is_empty() || out.len() == payload.len(), "{kind:?}: {} bytes written of {}", out.len(), payload.len());
}

/// A unit of these frames.
fn unit(frames: &[(FrameKind, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![0; UnitHeader::BYTES];
    let mut body = 0;
    for (kind, payload) in frames {
        let at = out.len();
        let header = FrameHeader {
            kind: *kind,
            flags: 0,
            records: u32::from(*kind == FrameKind::Records),
            partition: PartitionId(3),
            base_offset: Offset(5),
            max_timestamp: WallMs(1000),
            length: u32::try_from(payload.len()).expect("a small payload"),
            epoch: Epoch(4),
            payload: (sums().crc64)(0, payload),
            last_offset_delta: 0,
        };
        out.resize(at + FrameHeader::BYTES, 0);
        header.encode(&sums(), &mut out[at..]);
        body = (sums().crc64)(body, &out[at..]);
        out.extend(payload);
        out.resize(at + FrameHeader::frame_bytes(payload.len()), 0);
    }
    let length = out.len();
    out.resize(sectors(length), 0);
    let header = UnitHeader {
        cluster: CLUSTER,
        journal: JOURNAL,
        position: Position(4096),
        length: u32::try_from(length).expect("a small unit"),
        padding: u32::try_from(out.len() - length).expect("less than a sector"),
        epoch: Epoch(4),
        frames: u32::try_from(frames.len()).expect("few frames"),
        chain: Chain(99),
        commit: Position(4096),
        wall: WallMs(1000),
        flags: 0,
        key_id: 0,
        body,
    };
    header.encode(&KEY, &mut out);
    out
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut builder = BatchBuilder::new();
    builder.append(1000, None, Some(b"value"), &[]);
    let batch = builder.finish(Producer::NONE, &sums()).to_vec();
    let made = |encode: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        encode(&mut out);
        out
    };
    let start = EpochStart { epoch: Epoch(4), broker: base::BrokerId(1), incarnation: 5, previous: Epoch(3) };
    let moved = LogStartMove { to: Offset(5), reason: StartReason::Deleted };
    let frames = [
        (FrameKind::Records, batch),
        (FrameKind::EpochStart, made(&|out| start.encode(out))),
        (FrameKind::LogStart, made(&|out| moved.encode(out))),
        (FrameKind::Close, made(&|out| Close { at: Offset(5), next: JournalId(9) }.encode(out))),
        (FrameKind::Open, made(&|out| Open { previous: JournalId(u64::MAX), state: state(3) }.encode(out))),
        (FrameKind::Snapshot, made(&|out| state(3).encode(out))),
        (
            FrameKind::Gap,
            made(&|out| {
                Gap { from: Offset(5), to: Offset(9), damage_start: Position(0), damage_end: Position(4096) }
                    .encode(out)
            }),
        ),
    ];
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for how in [0, 7] {
        let mut add = |frames: &[(FrameKind, Vec<u8>)]| seeds.push([&[how], &unit(frames)[..]].concat());
        add(&[]);
        add(&frames);
        for frame in &frames {
            add(std::slice::from_ref(frame));
        }
    }
    seeds
}
