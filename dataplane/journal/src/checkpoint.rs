//! Checkpoints of one journal: derived state on file, so that a start reads only what was written after it.
//!
//! A record names a position and holds the state of the partitions that changed. It is gathered over several turns, some
//! partitions each; a partition's state may hold frames behind the record's position, and folding those again changes
//! nothing. It is handed out once all that it holds is committed.

use alloc::string::String;
use alloc::vec::Vec;

use base::memory::Arena;
use base::{JournalId, PartitionId, Position};

use crate::format::checkpoint::{ExtentEntry, PartitionEntry};
use crate::format::{CheckpointRecord, FooterEntry, JournalStart};
use crate::index::RunRef;
use crate::journal::{Index, Journal};
use crate::lane::Lane;
use crate::partition::{Partition, Partitions};
use crate::store::{Durability, Effect, ExtentAddress, Store};

/// Partitions looked at in one turn.
const SLICE: usize = 2000;

/// A file whose increments outgrow this many times its base is written anew.
const GROWTH: usize = 2;

/// A record is written for this many extents that wait for it.
const LEAVING: usize = 4;

/// Or when some have waited for this many turns: a second or so.
const TURNS: u32 = 10;

/// Increments up to this size cost nothing worth writing a base for.
const INCREMENTS_MIN: usize = 1 << 20;

/// What changed in a journal since its last checkpoint record.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    /// Slots of partitions that changed; each once, as its `dirty` mark says.
    pub(crate) dirty: Vec<u32>,
    pub(crate) gone: Vec<PartitionId>,
    pub(crate) freed: Vec<Position>,
    /// Where the last record ends.
    pub(crate) written: Position,
    /// Sequence of the last record in the file; `None`: a base must be written.
    sequence: Option<u32>,
    base_bytes: usize,
    increment_bytes: usize,
    /// Open extent, by its start, and runs of it that are in the file.
    sent: Option<(Position, u32)>,
    building: Option<Building>,
    flying: bool,
    /// Extents that are not the journal's any more. Nobody else gets one before a record that does not name it is durable:
    /// until then a start would take what is written there for damage.
    pub(crate) leaving: Vec<ExtentAddress>,
    /// Housekeeping turns that they have waited for.
    turns: u32,
    /// Those that the record in flight does not name.
    left: Vec<ExtentAddress>,
}

/// A record being gathered.
#[derive(Debug)]
struct Building {
    record: CheckpointRecord,
    /// Slots of the partitions to be gathered, and how many are.
    slots: Vec<u32>,
    done: usize,
    /// Tail frames below this number must be committed first; known once all are gathered.
    frames: Option<u64>,
    /// Extents that it does not name any more.
    left: Vec<ExtentAddress>,
}

impl Checkpoint {
    /// Marks a partition as changed.
    pub(crate) fn mark(&mut self, partition: &mut Partition, slot: u32) {
        if !partition.dirty {
            partition.dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Nothing of it is on its way.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.building.is_none() && !self.flying
    }
}

impl<A: Arena> Store<A> {
    /// Begins, goes on with and hands out a journal's checkpoint.
    pub(crate) fn checkpoint(&mut self, slot: u16, now_due: bool, out: &mut Vec<Effect>) {
        let journal = &mut self.journals[usize::from(slot)];
        if journal.checkpoint.flying || journal.fenced.is_some() || journal.starting {
            return;
        }
        if journal.checkpoint.building.is_none() {
            let since = journal.end.0 - journal.checkpoint.written.0;
            let full = journal.full_until.is_some();
            let checkpoint = &mut journal.checkpoint;
            checkpoint.turns = if checkpoint.leaving.is_empty() { 0 } else { checkpoint.turns + 1 };
            // Extents are waited for, or many have gathered, or they have waited for a while.
            let space = checkpoint.turns > 0 && full || checkpoint.leaving.len() >= LEAVING || checkpoint.turns > TURNS;
            if since < self.config.checkpoint_bytes && !space && !(now_due && since > 0) {
                return;
            }
            begin(journal, &self.partitions, slot);
        }
        let mut building = journal.checkpoint.building.take().expect("begun above");
        if building.frames.is_none() {
            // At a stop nobody waits for anything else.
            let slice = if now_due { usize::MAX } else { SLICE };
            let slots = building.slots[building.done..].iter().take(slice);
            let mut taken = 0;
            for &number in slots {
                taken += 1;
                let Some(partition) = self.partitions.at_mut(number).filter(|partition| partition.journal == slot)
                else {
                    continue;
                };
                partition.dirty = false;
                let state = partition.state();
                building.record.partitions.push(PartitionEntry {
                    state,
                    newest: partition.newest,
                    bytes: partition.bytes,
                    counted: partition.counted,
                    sure_start: partition.sure_start,
                    moved: partition.moved,
                });
            }
            building.done += taken;
            if building.done == building.slots.len() {
                let lane = &self.lanes[usize::from(journal.device.0)];
                complete(journal, slot, lane, &self.partitions, &mut building);
            }
        }
        let ready = building.frames.is_some_and(|frames| {
            let committed = journal.folded >= frames && journal.commit >= building.record.upto.position;
            committed || cfg!(fault = "checkpoint-ahead-of-data")
        });
        if !ready {
            journal.checkpoint.building = Some(building);
            return;
        }
        let mut bytes = Vec::new();
        building.record.encode(&self.config.sums, &mut bytes);
        let checkpoint = &mut journal.checkpoint;
        let replace = building.record.sequence == 0;
        if replace {
            checkpoint.base_bytes = bytes.len();
            checkpoint.increment_bytes = 0;
        } else {
            checkpoint.increment_bytes += bytes.len();
        }
        checkpoint.written = building.record.upto.position;
        checkpoint.sequence = Some(building.record.sequence);
        checkpoint.flying = true;
        checkpoint.left = building.left;
        out.push(Effect::Checkpoint { journal: journal.id(), bytes, replace });
    }

    /// A checkpoint record is on file, or not: then the next one is a base again.
    pub(crate) fn checkpoint_done(&mut self, journal: JournalId, result: Result<(), String>, out: &mut Vec<Effect>) {
        let Some(&slot) = self.journal_slots.get(&journal) else { return };
        let checkpoint = &mut self.journals[usize::from(slot)].checkpoint;
        checkpoint.flying = false;
        if result.is_err() {
            checkpoint.sequence = None;
            checkpoint.leaving.append(&mut checkpoint.left);
        }
        out.extend(checkpoint.left.drain(..).map(|extent| Effect::FreeExtent { extent }));
    }
}

/// Begins a record that folds up to the end of the closed units.
fn begin(journal: &mut Journal, partitions: &Partitions, slot: u16) {
    let checkpoint = &mut journal.checkpoint;
    let outgrown = checkpoint.increment_bytes > INCREMENTS_MIN.max(GROWTH * checkpoint.base_bytes);
    let sequence = checkpoint.sequence.filter(|_| !outgrown).map_or(0, |sequence| sequence + 1);
    let mut slots = core::mem::take(&mut checkpoint.dirty);
    if sequence == 0 {
        slots = partitions.slots_of(slot);
        checkpoint.gone.clear();
        checkpoint.freed.clear();
        checkpoint.sent = None;
        for extent in &mut journal.extents {
            extent.changed = true;
        }
    }
    let upto = JournalStart { position: journal.end, epoch: journal.last.0, chain: journal.last.1 };
    let record = CheckpointRecord {
        journal: journal.identity.journal,
        device: journal.identity.device,
        sequence,
        upto,
        partitions: Vec::with_capacity(slots.len()),
        gone: Vec::new(),
        extents: Vec::new(),
        freed: Vec::new(),
        open: 0,
        runs: Vec::new(),
    };
    journal.checkpoint.building = Some(Building { record, slots, done: 0, frames: None, left: Vec::new() });
}

/// All partitions are gathered: the extents and the open extent's index follow at one moment.
fn complete(journal: &mut Journal, own: u16, lane: &Lane, partitions: &Partitions, building: &mut Building) {
    let record = &mut building.record;
    record.gone = core::mem::take(&mut journal.checkpoint.gone);
    record.freed = core::mem::take(&mut journal.checkpoint.freed);
    building.left = core::mem::take(&mut journal.checkpoint.leaving);
    journal.checkpoint.turns = 0;
    for extent in journal.extents.iter_mut().filter(|extent| extent.changed) {
        // A footer counts once a flush has followed it; until then a start would look for it, or make it anew.
        let durable = lane.durability != Durability::Flush || lane.flushed > extent.footer_after;
        extent.changed = matches!(extent.index, Index::Footer(_)) && !durable;
        record.extents.push(ExtentEntry {
            offset: extent.address.offset,
            len: extent.address.len,
            generation: extent.address.generation,
            start: extent.start,
            end: match extent.index {
                Index::Open(_) => None,
                Index::Closed(_) | Index::Footer(_) | Index::Missing => Some(extent.end),
            },
            footer_len: match extent.index {
                Index::Footer(len) if durable => len,
                Index::Footer(_) | Index::Open(_) | Index::Closed(_) | Index::Missing => 0,
            },
            clustered: extent.clustered,
        });
    }
    if let Some(extent) = journal.extents.back()
        && let Index::Open(index) = &extent.index
    {
        let start = extent.start.position;
        record.open = extent.address.generation;
        let sent = journal.checkpoint.sent.filter(|(sent, _)| *sent == start).map_or(0, |(_, runs)| runs);
        for &slot in &building.slots {
            // The slot may have been given to a partition of another journal since.
            let Some(partition) = partitions.at(slot).filter(|partition| partition.journal == own) else { continue };
            if partition.run.extent == start {
                record.runs.push(runs_since(index, partition, sent));
            }
        }
        for (id, newest) in index.controls() {
            record.runs.push(FooterEntry { partition: id, newest, runs: Vec::new() });
        }
        journal.checkpoint.sent = Some((start, index.count()));
    }
    building.frames = Some(journal.frames_end());
}

/// The runs of a partition that are new since `sent` runs of the extent were written, and the one before, which may have grown.
fn runs_since(index: &crate::index::OpenIndex, partition: &Partition, sent: u32) -> FooterEntry {
    let RunRef { slot, .. } = partition.run;
    let mut runs = Vec::new();
    for (number, run) in index.backward_numbered(slot) {
        runs.push(*run);
        if number < sent {
            break;
        }
    }
    runs.reverse();
    FooterEntry { partition: partition.id, newest: partition.newest, runs }
}
