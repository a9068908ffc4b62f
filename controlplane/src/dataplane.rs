//! The data path as coordinators see it: append to, read from and trim a partition that this broker leads.
//!
//! Behind it are the rings to the shards; in tests, a list in memory.

use std::future::Future;

use base::message::{Bounds, Refusal};
use base::{Epoch, Offset, PartitionId};

/// Whole committed record batches, back to back, and the ends of the partition they came from.
#[derive(Debug)]
pub struct Records {
    /// Batches in offset order; the first may begin below the offset asked for.
    pub batches: Vec<u8>,
    /// The partition's ends when they were read.
    pub bounds: Bounds,
}

/// Partitions of this broker. Every call is one `ShardCommand`; dropping a future does not undo it.
pub trait DataPlane: Send + Sync + 'static {
    /// Appends one record batch (v2, base offset 0) and returns its base offset once it is durable.
    ///
    /// `epoch` is the one under which the caller loaded its state. Appends of one partition that are in flight together
    /// may land in any order: a caller that needs order waits.
    ///
    /// # Errors
    /// `FencedEpoch` or `UnknownEpoch` when the journal's epoch is another; `Busy` when there is no memory now;
    /// `Full`, `Fenced`, `Stopping`, `UnknownPartition`, `Corrupt`.
    fn append(
        &self,
        partition: PartitionId,
        epoch: Epoch,
        batch: Vec<u8>,
    ) -> impl Future<Output = Result<Offset, Refusal>> + Send;

    /// Reads committed batches from `offset`, about `bytes_max` of them and at least one if there is one.
    ///
    /// # Errors
    /// `OutOfRange` below log start or above the log's end; `Damaged`, `Fenced`, `Stopping`, `UnknownPartition`.
    fn read(
        &self,
        partition: PartitionId,
        offset: Offset,
        bytes_max: usize,
    ) -> impl Future<Output = Result<Records, Refusal>> + Send;

    /// The partition's ends.
    ///
    /// # Errors
    /// `UnknownPartition`, `Stopping`.
    fn bounds(&self, partition: PartitionId) -> impl Future<Output = Result<Bounds, Refusal>> + Send;

    /// Moves the log start (DeleteRecords) and returns the new one once the move is durable.
    ///
    /// # Errors
    /// `OutOfRange` above the high watermark; `Full`, `Fenced`, `Stopping`, `UnknownPartition`.
    fn move_start(&self, partition: PartitionId, to: Offset) -> impl Future<Output = Result<Offset, Refusal>> + Send;
}
