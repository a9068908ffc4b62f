//! Folding units into what a journal knows: partitions, producers, the index.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use base::image::SeededHash;
use base::{DeviceIndex, Epoch, PartitionId, Position, ProducerEpoch, ProducerId, WallMs};
use protocol::batch::BatchView;

use crate::append::{entry_of, index_records, note_index};
use crate::format::{
    Chain, CheckpointFold, FrameKind, FrameView, Gap, JournalStart, Open, PartitionState, SECTOR, UnitHeader,
};
use crate::index::{Fence, OpenIndex, RunRef, SortedIndex};
use crate::journal::{Extent, Index};
use crate::partition::Partition;
use crate::producers::Batch;
use crate::recovery::{Candidate, PartitionMap, address};
use crate::store::StoreConfig;

/// What was folded so far.
pub(crate) struct Fold {
    device: DeviceIndex,
    hash: SeededHash,
    producers_max: u32,
    pub(crate) partitions: PartitionMap,
    pub(crate) extents: Vec<Extent>,
    /// Epoch and header checksum of the last unit.
    pub(crate) last: (Epoch, Chain),
    /// Footer bytes of the extent entered last; 0: it has none.
    footer_len: u32,
}

impl Fold {
    pub(crate) fn new(config: &StoreConfig, device: DeviceIndex) -> Self {
        Self {
            device,
            hash: SeededHash(config.hash_seed),
            producers_max: config.producers_per_partition_max,
            partitions: PartitionMap::new(),
            extents: Vec::new(),
            last: (Epoch(0), Chain(0)),
            footer_len: 0,
        }
    }

    /// Begins at a position, with what a checkpoint holds.
    pub(crate) fn begin(&mut self, begin: JournalStart, checkpoint: Option<CheckpointFold>, extents: &[Candidate]) {
        self.last = (begin.epoch, begin.chain);
        let Some(checkpoint) = checkpoint else { return };
        let first = extents.first().map_or(Position(0), |extent| extent.header.start);
        for (id, entry) in checkpoint.partitions {
            let mut partition = Partition::new(id, 0);
            partition.newest = entry.newest;
            partition.bytes = entry.bytes;
            partition.counted = entry.counted;
            let start = entry.state.log_start;
            partition.restore(entry.state, self.hash, self.producers_max);
            // The checkpoint may be lost: only units count.
            (partition.sure_start, partition.moved) = (entry.sure_start, entry.moved);
            // Which extents its records lie in, footers say when they are looked for.
            partition.fences.push(Fence { first: start, extent: first });
            self.partitions.insert(id, partition);
        }
        // Extents that end at or before the checkpoint are not scanned again.
        for candidate in extents.iter().filter(|candidate| candidate.header.start < begin.position) {
            self.enter(candidate);
            let known = checkpoint.extents.get(&candidate.header.start);
            let known = known.filter(|known| known.generation == candidate.header.generation);
            let extent = self.extents.last_mut().expect("entered above");
            extent.last = (begin.epoch, begin.chain);
            if let Some(end) = known.and_then(|known| known.end) {
                extent.end = end;
                extent.index =
                    if candidate.footer_len > 0 { Index::Footer(candidate.footer_len) } else { Index::Missing };
                continue;
            }
            extent.end = begin.position.min(candidate.limit);
            if extent.clustered.is_some() {
                extent.index =
                    if candidate.footer_len > 0 { Index::Footer(candidate.footer_len) } else { Index::Missing };
                continue;
            }
            if checkpoint.open != candidate.header.generation {
                extent.index = Index::Missing;
                continue;
            }
            let Index::Open(index) = &mut extent.index else { continue };
            let start = extent.start.position;
            for entry in checkpoint.runs.values() {
                let run = index.restore(start, entry);
                if let Some(partition) = self.partitions.get_mut(&entry.partition)
                    && run != RunRef::NONE
                {
                    partition.run = run;
                    if start > first {
                        let run_first = entry.runs.first().map_or(partition.log_end, |run| run.first);
                        // Below the log start nothing is looked for.
                        let first = run_first.max(partition.next_start);
                        partition.fences.push(Fence { first, extent: start });
                    }
                }
            }
        }
    }

    /// Goes on in an extent; the one before is closed.
    pub(crate) fn enter(&mut self, candidate: &Candidate) {
        let start = candidate.header.start;
        if self.extents.last().is_some_and(|last| last.start.position == start) {
            return;
        }
        self.close_last();
        self.footer_len = candidate.footer_len;
        let at = JournalStart { position: start, epoch: candidate.header.epoch, chain: candidate.header.chain };
        let extent = Extent::new(address(self.device, &candidate.header), at, self.last);
        let (clustered, compacted) = (candidate.clustered(), candidate.compacted());
        self.extents.push(Extent { clustered, compacted, ..extent });
    }

    fn close_last(&mut self) {
        let Some(last) = self.extents.last_mut() else { return };
        if let Index::Open(_) = &last.index {
            if self.footer_len > 0 {
                last.index = Index::Footer(self.footer_len);
            } else {
                last.close();
            }
        }
    }

    /// The extent entered last reaches up to there.
    pub(crate) fn extend(&mut self, end: Position) {
        let last = self.last;
        let extent = self.extents.last_mut().expect("entered");
        extent.end = end;
        extent.last = last;
    }

    /// Folds one frame; of a damaged one, only what its header says.
    pub(crate) fn frame(&mut self, unit: &UnitHeader, frame: &FrameView<'_>, intact: bool) {
        let header = &frame.header;
        let extent = self.extents.last_mut().expect("entered");
        if header.kind == FrameKind::EpochStart {
            extent.newest_control = Some(unit.position);
            return;
        }
        let id = header.partition;
        let partition = self.partitions.entry(id).or_insert_with(|| Partition::new(id, 0));
        // What a frame header says of the log's end counts without the payload.
        let says_end = match header.kind {
            FrameKind::Records | FrameKind::Snapshot | FrameKind::Open | FrameKind::Close => true,
            FrameKind::Gap => intact,
            FrameKind::LogStart | FrameKind::EpochStart => false,
        };
        if says_end {
            partition.newest = partition.newest.max(unit.position);
        }
        if header.kind == FrameKind::Records {
            self.records(unit, frame, intact);
            return;
        }
        if let Index::Open(index) = &mut extent.index {
            index.add_control(id, unit.position);
        }
        self.control(unit.position, frame, intact);
    }

    fn records(&mut self, unit: &UnitHeader, frame: &FrameView<'_>, intact: bool) {
        let header = &frame.header;
        let partition = self.partitions.get_mut(&header.partition).expect("made before");
        let end = unit.position.plus((frame.at + frame.bytes()) as u64);
        let extent = self.extents.last_mut().expect("entered");
        // A checkpoint's partitions are gathered over a while, and its index after them: the state may hold the frame already.
        if header.last_offset() < partition.log_end {
            index_records(extent, partition, header, unit.position, end, unit.wall);
            return;
        }
        note_index(extent, partition, header, unit.position, end, unit.wall);
        if !intact {
            return;
        }
        let Ok(batch) = BatchView::check_stored(frame.payload) else { return };
        let append_time = if batch.is_append_time() { WallMs(batch.max_timestamp()) } else { WallMs(-1) };
        if batch.is_append_time() {
            partition.last_timestamp = partition.last_timestamp.max(append_time);
        }
        if batch.producer_id() >= 0 {
            let known = Batch {
                first: batch.base_sequence(),
                last: batch.last_sequence(),
                base: header.base_offset,
                // All that recovery keeps is committed before it serves.
                position: Position(0),
                append_time,
            };
            let producer = (ProducerId(batch.producer_id()), ProducerEpoch(batch.producer_epoch()));
            partition.record_producer(producer, known, unit.wall, (self.hash, self.producers_max));
        }
    }

    fn control(&mut self, unit: Position, frame: &FrameView<'_>, intact: bool) {
        let partition = self.partitions.get_mut(&frame.header.partition).expect("made before");
        let state = match frame.header.kind {
            // The header says it too: a payload is not needed.
            FrameKind::LogStart => {
                partition.note_start(frame.header.base_offset, unit);
                return;
            }
            FrameKind::Snapshot if intact => PartitionState::decode(frame.payload).ok(),
            FrameKind::Open if intact => Open::decode(frame.payload).ok().map(|open| open.state),
            // Its next offset.
            FrameKind::Snapshot | FrameKind::Open => {
                partition.log_end = partition.log_end.max(frame.header.base_offset);
                return;
            }
            FrameKind::Gap if intact => {
                if let Ok(gap) = Gap::decode(frame.payload) {
                    partition.log_end = partition.log_end.max(gap.to);
                }
                return;
            }
            // Also where the end was never seen: whether it went on elsewhere, metadata says.
            FrameKind::Close => {
                partition.log_end = partition.log_end.max(frame.header.base_offset);
                return;
            }
            FrameKind::Gap | FrameKind::EpochStart | FrameKind::Records => return,
        };
        let Some(state) = state else { return };
        partition.note_start(state.log_start, unit);
        // A checkpoint's state may be newer, and the records between are not folded again.
        if state.next_offset >= partition.log_end {
            partition.restore(state, self.hash, self.producers_max);
        }
    }

    /// The log ends at `end`. An extent in which it would only begin is given back: the cut voids its header.
    pub(crate) fn finish(&mut self, end: Position) {
        if self.extents.last().is_some_and(|last| last.end == last.start.position) {
            self.extents.pop();
        }
        if let Some(last) = self.extents.last_mut()
            && let Index::Open(_) = last.index
        {
            if self.footer_len > 0 || end.0 - last.start.position.0 > last.address.len - SECTOR as u64 {
                self.close_last();
            } else {
                // Damage at the very end is left behind.
                last.end = end;
            }
        }
        for partition in self.partitions.values_mut() {
            partition.trim_epochs();
            // Where else it is stated is not known any more: some snapshot must follow before any extent goes.
            partition.moved = (partition.next_start.0 > 0).then_some(Position(0));
        }
    }
}

/// The index of an extent whose partitions' states are known already.
#[derive(Default)]
pub(crate) struct ClosedIndex {
    index: OpenIndex,
    newest: BTreeMap<PartitionId, RunRef>,
}

impl ClosedIndex {
    /// Takes a frame of the extent that begins at `extent`.
    pub(crate) fn add(&mut self, extent: Position, unit: &UnitHeader, frame: &FrameView<'_>) {
        let header = &frame.header;
        match header.kind {
            FrameKind::Records => {
                let newest = self.newest.entry(header.partition).or_insert(RunRef::NONE);
                let end = unit.position.plus((frame.at + frame.bytes()) as u64);
                self.index.add(extent, newest, entry_of(header, unit.position, end, unit.wall), unit.wall);
            }
            FrameKind::EpochStart => {}
            FrameKind::LogStart | FrameKind::Close | FrameKind::Open | FrameKind::Snapshot | FrameKind::Gap => {
                self.index.add_control(header.partition, unit.position);
            }
        }
    }

    pub(crate) fn sorted(&self) -> SortedIndex {
        self.index.sorted()
    }
}

impl Fold {
    /// Goes on with the index of the extent entered last, made anew.
    pub(crate) fn go_on(&mut self, made: ClosedIndex) {
        let Some(extent) = self.extents.last_mut() else { return };
        let start = extent.start.position;
        for (id, run) in made.newest {
            let Some(partition) = self.partitions.get_mut(&id) else { continue };
            partition.run = run;
            let first = made.index.backward(run.slot).last().map_or(partition.log_end, |run| run.first);
            partition.fences.push(Fence { first: first.max(partition.next_start), extent: start });
        }
        extent.index = Index::Open(made.index);
    }
}
