//! A stretch on its way into one extent: what was gathered of it, and what waits.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use base::memory::Block;
use base::{PartitionId, Position, WallMs};
use protocol::batch::{BatchView, empty_batch};

use crate::cluster::{Filtering, Manner, STEP_BYTES, UNIT_BYTES, UNIT_BYTES_MIN, frame_bytes};
use crate::compact::STEP_BYTES as FILTER_STEP_BYTES;
use crate::format::{
    Chain, ExtentHeader, ExtentKind, FrameHeader, JournalStart, Stretch, UNIT_BYTES_MAX, UnitHeader, sectors,
};
use crate::index::{OpenIndex, RunRef};
use crate::journal::Stage;
use crate::store::ExtentAddress;

/// A frame that lives, in what was gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathered {
    pub(super) header: FrameHeader,
    pub(super) at: usize,
    pub(super) len: usize,
    /// When it came.
    pub(super) wall: WallMs,
    /// The unit it was in.
    pub(super) unit: Position,
}

/// What is waited for.
#[derive(Debug)]
pub(super) enum Step {
    Extent,
    /// The write of a page, then the flush that covers it.
    Blank(Stage),
    Read,
    /// The next read, or what was gathered, is to be dealt with.
    Gather,
    Write,
    Footer,
    Body(Stage),
    /// Partitions up to that slot were looked at.
    States(u32),
    /// Those states are committed when that frame is; then log starts among them are stated again.
    Committed(u64),
    /// All that is committed when that frame is.
    Restated(u64),
    Header(Stage),
    Done,
}

/// A stretch on its way into one extent.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) step: Step,
    /// It is compacted.
    pub(super) filter: Option<Filtering>,
    /// What its header will say was looked at by compaction.
    pub(super) mark: Position,
    /// Bytes of batches by which partitions become less.
    pub(super) saved: BTreeMap<PartitionId, i64>,
    /// Its extents: start and end of their units, and whether they are clustered already.
    pub(super) extents: Vec<(Position, Position, bool)>,
    pub(super) start: JournalStart,
    pub(super) upto: JournalStart,
    pub(super) address: Option<ExtentAddress>,
    /// Number of the extent read now, and where.
    pub(super) reading: (usize, Position),
    /// What the next unit chains to.
    pub(super) before: Chain,
    /// Bytes that the next unit takes, where it is longer than a step.
    pub(super) need: usize,
    pub(super) gathered: Vec<u8>,
    pub(super) frames: Vec<Gathered>,
    /// How many of the gathered frames, by partition, are written.
    pub(super) written: usize,
    pub(super) end: Position,
    pub(super) chain: Chain,
    pub(super) index: OpenIndex,
    pub(super) runs: BTreeMap<PartitionId, RunRef>,
    pub(super) footer_len: u32,
    pub(super) block: Option<Block>,
    /// Why it is given up.
    pub(super) given_up: Option<String>,
}

impl Job {
    /// Whether something of it flies.
    pub(super) fn waits(&self) -> bool {
        match &self.step {
            Step::Read | Step::Write | Step::Footer => true,
            Step::Blank(stage) | Step::Body(stage) | Step::Header(stage) => *stage == Stage::Writing,
            // An extent that comes too late goes back.
            Step::Extent | Step::Gather | Step::States(_) | Step::Committed(_) | Step::Restated(_) | Step::Done => {
                false
            }
        }
    }

    /// How many of the next gathered frames make a unit that takes no more than `room` bytes.
    pub(super) fn next_unit(&self, room: usize) -> Option<usize> {
        let mut count = 0;
        let mut used = UnitHeader::BYTES;
        let mut last = None;
        if self.in_order() {
            let unit = self.frames.get(self.written)?.unit;
            let frames = self.frames[self.written..].iter().take_while(|frame| frame.unit == unit);
            let (count, bytes) = frames.fold((0, used), |(count, bytes), frame| (count + 1, bytes + frame.len));
            return (sectors(bytes) <= room).then_some(count);
        }
        for frame in &self.frames[self.written..] {
            let apart = last.is_some_and(|last| last != frame.header.partition) && used >= UNIT_BYTES_MIN;
            let full = count > 0 && (used + frame.len > UNIT_BYTES || apart);
            if full || sectors(used + frame.len) > room || used + frame.len > UNIT_BYTES_MAX {
                break;
            }
            used += frame.len;
            last = Some(frame.header.partition);
            count += 1;
        }
        (count > 0).then_some(count)
    }

    pub(super) fn in_order(&self) -> bool {
        self.filter.is_some_and(|filter| filter.manner == Manner::InOrder)
    }

    /// Bytes of one read. What is compacted is judged at once, which costs more than a copy.
    pub(super) fn step_bytes(&self) -> usize {
        if self.filter.is_some() { FILTER_STEP_BYTES } else { STEP_BYTES }
    }

    /// Takes a frame as it is.
    pub(super) fn gather_whole(&mut self, header: FrameHeader, (wall, unit): (WallMs, Position), whole: &[u8]) {
        self.frames.push(Gathered { header, at: self.gathered.len(), len: whole.len(), wall, unit });
        self.gathered.extend_from_slice(whole);
    }

    /// Takes a frame with another batch than it had.
    pub(super) fn gather(
        &mut self,
        header: FrameHeader,
        (wall, unit): (WallMs, Position),
        batch: &[u8],
        sums: &base::Checksums,
    ) {
        let (at, len) = (self.gathered.len(), frame_bytes(batch.len()));
        self.gathered.resize(at + FrameHeader::BYTES, 0);
        header.encode(sums, &mut self.gathered[at..]);
        self.gathered.extend_from_slice(batch);
        self.gathered.resize(at + len, 0);
        self.frames.push(Gathered { header, at, len, wall, unit });
    }

    /// One empty batch stands for the offsets of several in a row.
    pub(super) fn merge_empty(&mut self, sums: &base::Checksums) {
        let mut frames: Vec<Gathered> = Vec::with_capacity(self.frames.len());
        for frame in core::mem::take(&mut self.frames) {
            if let Some(last) = frames.last_mut()
                && let Some(delta) = joins(&last.header, &frame.header)
            {
                let payload = last.at + FrameHeader::BYTES..last.at + FrameHeader::BYTES + last.header.length as usize;
                let empty = BatchView::first(&self.gathered[payload.clone()]).ok();
                if let (Some((view, _)), Ok(last_delta)) = (empty, i32::try_from(delta)) {
                    let bytes = empty_batch(&view, last_delta, sums);
                    let before = last.header.length;
                    last.header.last_offset_delta = delta;
                    last.header.payload = (sums.crc64)(0, &bytes);
                    self.gathered[payload].copy_from_slice(&bytes);
                    last.header.encode(sums, &mut self.gathered[last.at..]);
                    *self.saved.entry(frame.header.partition).or_default() += i64::from(before);
                    continue;
                }
            }
            frames.push(frame);
        }
        self.frames = frames;
    }

    pub(super) fn header(&self, identity: &crate::journal::Identity, address: ExtentAddress) -> ExtentHeader {
        ExtentHeader {
            kind: ExtentKind::Clustered(Stretch { end: self.end, upto: self.upto, compacted: self.mark }),
            generation: address.generation,
            cluster: identity.cluster,
            device: identity.device,
            journal: identity.journal,
            offset: address.offset,
            len: address.len,
            start: self.start.position,
            epoch: self.start.epoch,
            chain: self.start.chain,
            secret: identity.secret,
        }
    }
}

/// The last offset delta of an empty batch that also stands for the offsets of another one right behind it.
fn joins(first: &FrameHeader, second: &FrameHeader) -> Option<u32> {
    let both = first.records == 0 && second.records == 0;
    let next = first.partition == second.partition && first.last_offset().plus(1) == second.base_offset;
    // An index says of each run in which epoch it came.
    let alike = first.epoch == second.epoch && first.length as usize == protocol::batch::RECORDS;
    if !(both && next && alike) {
        return None;
    }
    let delta = second.last_offset().0 - first.base_offset.0;
    i32::try_from(delta).ok().and_then(|delta| u32::try_from(delta).ok())
}

impl super::Clustering {
    /// A stretch has an extent, and waits for nothing but room for states.
    pub(crate) fn wants_room(&self) -> bool {
        self.job.as_ref().is_some_and(|job| matches!(job.step, Step::States(_)))
    }
}
