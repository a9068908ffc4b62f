//! Reading a partition of `__consumer_offsets` from its log start to its end.

use std::sync::Arc;
use std::time::Duration;

use base::message::{Bounds, Refusal};
use base::{Offset, PartitionId};
use groups::Slot;
use tokio::sync::{Semaphore, mpsc};

use super::actor::Report;
use super::records;
use crate::dataplane::{DataPlane, Records};

/// Bytes asked for at a time.
const READ_BYTES: usize = 1 << 20;
/// Pause before a question that was refused is asked again.
const AGAIN: Duration = Duration::from_millis(20);
/// Offsets tried one by one behind damage, before the steps grow.
const SMALL_STEPS: u32 = 64;

/// Reads the partition and reports what it holds, piece by piece. Ends early when nobody listens any more.
pub(super) async fn load<D: DataPlane>(
    data: Arc<D>,
    slot: Slot,
    term: u64,
    partition: PartitionId,
    turns: Arc<Semaphore>,
    reports: mpsc::Sender<Report>,
) {
    // The semaphore is never closed.
    let _turn = turns.acquire().await;
    let Some(first) = bounds(&*data, partition, &reports).await else { return };
    if reports.send(Report::LoadStarted { slot, term, epoch: first.epoch }).await.is_err() {
        return;
    }
    let mut next = first.log_start;
    // What is there now is all: nobody appends under this epoch but the coordinator, which waits for this.
    while next < first.log_end {
        if reports.is_closed() {
            return;
        }
        match data.read(partition, next, READ_BYTES).await {
            Ok(Records { batches, bounds }) => {
                let decoded = records::decode(&batches, next.0);
                if decoded.damaged > 0 {
                    tracing::error!(?partition, %next, count = decoded.damaged, "skipping unreadable records of consumer groups");
                }
                let Some(end) = decoded.next.map(Offset).filter(|end| *end > next) else {
                    // Not committed yet: a recovered tail is written again before it is shown.
                    next = next.max(bounds.log_start);
                    tokio::time::sleep(AGAIN).await;
                    continue;
                };
                next = end;
                let bytes = u64::try_from(batches.len()).unwrap_or(u64::MAX);
                let report = Report::Replayed { slot, term, records: decoded.records, bytes, next };
                if reports.send(report).await.is_err() {
                    return;
                }
            }
            Err(Refusal::OutOfRange) => {
                // The log start moved meanwhile.
                let Some(now) = bounds(&*data, partition, &reports).await else { return };
                next = now.log_start.max(next.plus(1)).min(first.log_end);
            }
            Err(Refusal::Damaged) => next = behind_damage(&*data, partition, next, first.log_end).await,
            Err(refusal) => {
                tracing::warn!(?partition, ?refusal, "consumer groups cannot be read yet");
                tokio::time::sleep(AGAIN * 10).await;
            }
        }
    }
    let _ = reports.send(Report::Loaded { slot, term, end: next }).await;
}

async fn bounds<D: DataPlane>(data: &D, partition: PartitionId, reports: &mpsc::Sender<Report>) -> Option<Bounds> {
    while !reports.is_closed() {
        match data.bounds(partition).await {
            Ok(bounds) => return Some(bounds),
            Err(refusal) => tracing::warn!(?partition, ?refusal, "consumer groups cannot be read yet"),
        }
        tokio::time::sleep(AGAIN * 10).await;
    }
    None
}

/// The next offset that can be read, or `end`. What lies between is lost: a commit then stands at an older offset.
async fn behind_damage<D: DataPlane>(data: &D, partition: PartitionId, from: Offset, end: Offset) -> Offset {
    let (mut at, mut step) = (from, 1);
    for tries in 0u32.. {
        if tries >= SMALL_STEPS {
            step *= 2;
        }
        at = at.plus(step).min(end);
        if at >= end || !matches!(data.read(partition, at, 1).await, Err(Refusal::Damaged)) {
            break;
        }
    }
    tracing::error!(?partition, %from, to = %at, "records of consumer groups are damaged on the device and skipped");
    at
}
