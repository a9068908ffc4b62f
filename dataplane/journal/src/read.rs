//! Reads of committed batches: from the tail's memory at once, else through cold windows.

use alloc::string::String;
use alloc::vec::Vec;

use base::memory::{Arena, Block};
use base::{JournalId, Offset, PartitionId, WallMs};

use crate::format::FrameHeader;
use crate::journal::{Index, Journal};
use crate::partition::{NO_FRAME, Partition};
use crate::store::{Effect, ReadOutcome, Store};

/// Frames to walk from a remembered one before the index is asked.
const HOPS: usize = 8;

impl<A: Arena> Store<A> {
    pub(crate) fn read_from(
        &mut self,
        id: PartitionId,
        from: Offset,
        bytes_max: usize,
        at_least_one: bool,
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
    ) -> ReadOutcome {
        let Some(partition) = self.partitions.get_mut(id).filter(|partition| partition.config.is_some()) else {
            return ReadOutcome::UnknownPartition;
        };
        if from < partition.log_start || from > partition.log_end {
            return ReadOutcome::OutOfRange;
        }
        if from >= partition.high_watermark {
            return ReadOutcome::Empty;
        }
        let journal = &self.journals[usize::from(partition.journal)];
        if let Some(number) = find_in_tail(journal, partition, from) {
            return read_tail(journal, partition, number, bytes_max, at_least_one, arena, slices);
        }
        ReadOutcome::Pending
    }

    pub(crate) fn find_by_time(
        &mut self,
        id: PartitionId,
        timestamp: Option<WallMs>,
        arena: &mut A,
        slices: &mut Vec<A::Slice>,
    ) -> ReadOutcome {
        let _ = (id, timestamp, arena, slices);
        ReadOutcome::Empty
    }

    pub(crate) fn read_done(
        &mut self,
        token: u64,
        block: Block,
        result: Result<(), String>,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) {
        let _ = (token, result, out);
        arena.free(block);
    }

    pub(crate) fn checkpoint_done(&mut self, journal: JournalId, result: Result<(), String>) {
        let _ = (journal, result);
    }
}

/// Number of the tail frame that holds `from`, if the tail reaches back so far.
fn find_in_tail(journal: &Journal, partition: &Partition, from: Offset) -> Option<u64> {
    let oldest = journal.frame(partition.tail_oldest)?;
    if from < oldest.base {
        return None;
    }
    let holds = |number: u64| {
        journal.frame(number).is_some_and(|frame| {
            frame.partition == partition.id && frame.base <= from && from.0 < frame.base.0 + i64::from(frame.records)
        })
    };
    for near in [partition.cursor, partition.tail_newest, partition.tail_oldest] {
        let mut number = near;
        for _ in 0..HOPS {
            if holds(number) {
                return Some(number);
            }
            match journal.frame(number) {
                Some(frame) if frame.partition == partition.id && frame.base <= from => number = frame.next,
                _ => break,
            }
        }
    }
    let mut number = nearest_by_index(journal, partition, from).unwrap_or(partition.tail_oldest);
    while let Some(frame) = journal.frame(number) {
        if frame.base.0 + i64::from(frame.records) > from.0 {
            // The frame after a gap in the offsets serves what lies in the gap.
            return Some(number);
        }
        number = frame.next;
    }
    None
}

/// The first tail frame of the run that the open index names for `from`.
fn nearest_by_index(journal: &Journal, partition: &Partition, from: Offset) -> Option<u64> {
    let extent = journal.extents.back()?;
    if partition.run.extent != extent.start.position {
        return None;
    }
    let Index::Open(index) = &extent.index else { return None };
    let run = index.find(partition.run.slot, from)?;
    let mut at = journal.frames.partition_point(|frame| frame.position < run.position);
    loop {
        let frame = journal.frames.get(at)?;
        if frame.partition == partition.id && frame.records > 0 {
            return (frame.base <= from).then_some(journal.frames_first + at as u64);
        }
        at += 1;
    }
}

fn read_tail<A: Arena>(
    journal: &Journal,
    partition: &mut Partition,
    first: u64,
    bytes_max: usize,
    at_least_one: bool,
    arena: &A,
    slices: &mut Vec<A::Slice>,
) -> ReadOutcome {
    let mut bytes = 0;
    let mut number = first;
    while number != NO_FRAME
        && let Some(frame) = journal.frame(number)
        && frame.base < partition.high_watermark
    {
        let len = frame.len as usize;
        if bytes + len > bytes_max && !(bytes == 0 && at_least_one) {
            break;
        }
        let Some(chunk) = journal.chunk_of(frame.position) else { break };
        let at = chunk.byte(frame.position) + FrameHeader::BYTES;
        slices.push(arena.slice(&chunk.block, at..at + len));
        bytes += len;
        partition.cursor = number;
        number = frame.next;
    }
    ReadOutcome::Data { bytes }
}
