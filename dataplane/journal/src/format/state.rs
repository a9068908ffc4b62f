//! The state of a partition, as snapshot frames, open frames and checkpoints carry it.

use alloc::vec::Vec;

use base::{Epoch, Offset, PartitionId, ProducerEpoch, ProducerId, WallMs};

use super::bytes::{Put as _, Reader};
use super::error::FormatError;

/// A batch of a producer that may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchState {
    /// Sequence of its first record.
    pub first_sequence: i32,
    /// Sequence of its last record.
    pub last_sequence: i32,
    /// Offset of its first record.
    pub base_offset: Offset,
    /// The timestamp the broker stamped (LogAppendTime), or −1.
    pub append_time: WallMs,
}

/// An idempotent producer in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Who.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// Wall time of its last append, for expiry.
    pub last_seen: WallMs,
    /// Its last batches, oldest first; five at most, as Kafka keeps.
    pub batches: Vec<BatchState>,
}

/// All that must be known of a partition once its frames are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// Whose state.
    pub partition: PartitionId,
    /// Next offset to be given.
    pub next_offset: Offset,
    /// First offset that is kept.
    pub log_start: Offset,
    /// Last timestamp stamped, below which LogAppendTime never steps.
    pub last_timestamp: WallMs,
    /// Epochs in which records were appended, each with its first offset, rising.
    pub epochs: Vec<(Epoch, Offset)>,
    /// Idempotent producers, by id.
    pub producers: Vec<ProducerState>,
}

const BATCH_BYTES: usize = 24;
const PRODUCER_BYTES_MIN: usize = 24;
const EPOCH_BYTES: usize = 12;

impl PartitionState {
    /// Fewest bytes a state takes.
    pub(super) const BYTES_MIN: usize = 40;

    /// Appends the state.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put(&self.partition.0.to_le_bytes());
        out.put(&self.next_offset.0.to_le_bytes());
        out.put(&self.log_start.0.to_le_bytes());
        out.put(&self.last_timestamp.0.to_le_bytes());
        out.put_count(self.epochs.len());
        out.put_count(self.producers.len());
        for (epoch, offset) in &self.epochs {
            out.put(&epoch.0.to_le_bytes());
            out.put(&offset.0.to_le_bytes());
        }
        for producer in &self.producers {
            out.put(&producer.id.0.to_le_bytes());
            out.put(&producer.last_seen.0.to_le_bytes());
            out.put(&producer.epoch.0.to_le_bytes());
            out.put(&[0; 2]);
            out.put_count(producer.batches.len());
            for batch in &producer.batches {
                out.put(&batch.first_sequence.to_le_bytes());
                out.put(&batch.last_sequence.to_le_bytes());
                out.put(&batch.base_offset.0.to_le_bytes());
                out.put(&batch.append_time.0.to_le_bytes());
            }
        }
    }

    /// Reads a state that fills `bytes`.
    ///
    /// # Errors
    /// `Short`, or `Field` where bytes are left over.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut reader = Reader::new(bytes);
        let state = Self::read(&mut reader)?;
        if reader.is_empty() { Ok(state) } else { Err(FormatError::Field("partition state length")) }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let partition = PartitionId(reader.u64()?);
        let next_offset = Offset(reader.i64()?);
        let log_start = Offset(reader.i64()?);
        let last_timestamp = WallMs(reader.i64()?);
        let epoch_count = reader.count(EPOCH_BYTES)?;
        // Epochs stand before producers, so the bytes left bound both counts.
        let producer_count = reader.count(PRODUCER_BYTES_MIN)?;
        let mut epochs = Vec::with_capacity(epoch_count);
        for _ in 0..epoch_count {
            epochs.push((Epoch(reader.i32()?), Offset(reader.i64()?)));
        }
        let mut producers = Vec::with_capacity(producer_count);
        for _ in 0..producer_count {
            producers.push(read_producer(reader)?);
        }
        Ok(Self { partition, next_offset, log_start, last_timestamp, epochs, producers })
    }
}

fn read_producer(reader: &mut Reader<'_>) -> Result<ProducerState, FormatError> {
    let id = ProducerId(reader.i64()?);
    let last_seen = WallMs(reader.i64()?);
    let epoch = ProducerEpoch(reader.i16()?);
    reader.u16()?;
    let count = reader.count(BATCH_BYTES)?;
    let mut batches = Vec::with_capacity(count);
    for _ in 0..count {
        batches.push(BatchState {
            first_sequence: reader.i32()?,
            last_sequence: reader.i32()?,
            base_offset: Offset(reader.i64()?),
            append_time: WallMs(reader.i64()?),
        });
    }
    Ok(ProducerState { id, epoch, last_seen, batches })
}
