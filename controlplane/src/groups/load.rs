//! Reading a partition of `__consumer_offsets` from its log start to its end.

use std::sync::Arc;
use std::time::Duration;

use base::message::{Bounds, Refusal};
use base::{Offset, PartitionId};
use groups::Slot;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::actor::Report;
use super::records;
use crate::dataplane::{DataPlane, Records};

/// Bytes asked for at a time.
const READ_BYTES: usize = 1 << 20;
/// Pause before a question that was refused is asked again.
const AGAIN: Duration = Duration::from_millis(20);

/// One partition to read.
pub(super) struct Load<D> {
    pub(super) data: Arc<D>,
    pub(super) slot: Slot,
    pub(super) term: u64,
    pub(super) partition: PartitionId,
    /// How long nothing may come before it counts as failed, and how long until it is tried again then.
    pub(super) patience: Duration,
    pub(super) reports: mpsc::Sender<Report>,
}

/// Why reading ended early.
enum End {
    /// Nobody listens any more.
    Deaf,
    /// Nothing came for too long; the last reason.
    Stuck(String),
}

/// How long nothing has come.
struct Wait {
    since: Instant,
    told: bool,
}

impl Wait {
    fn new() -> Self {
        Self { since: Instant::now(), told: false }
    }
}

impl<D: DataPlane> Load<D> {
    /// Reads the partition and reports what it holds, piece by piece. Where it cannot be read that is reported, and it is tried
    /// again now and then. Ends early when nobody listens any more.
    pub(super) async fn run(self, turns: Arc<Semaphore>) {
        loop {
            // The semaphore is never closed. What cannot be read gives its turn back: the others have theirs.
            let turn = turns.acquire().await;
            let end = self.read_all().await;
            drop(turn);
            let Err(End::Stuck(why)) = end else { return };
            let (slot, term) = (self.slot, self.term);
            if self.reports.send(Report::LoadFailed { slot, term, why }).await.is_err() {
                return;
            }
            loop {
                tokio::time::sleep(self.patience).await;
                if self.reports.is_closed() {
                    return;
                }
                let Ok(bounds) = self.data.bounds(self.partition).await else { continue };
                let read = self.data.read(self.partition, bounds.log_start, 1).await;
                if bounds.log_start >= bounds.log_end || matches!(read, Ok(_) | Err(Refusal::Damaged { .. })) {
                    break;
                }
            }
        }
    }

    async fn read_all(&self) -> Result<(), End> {
        let Self { data, slot, term, partition, .. } = self;
        let (slot, term, partition) = (*slot, *term, *partition);
        let first = self.bounds().await?;
        self.report(Report::LoadStarted { slot, term, epoch: first.epoch }).await?;
        let mut next = first.log_start;
        let mut wait = Wait::new();
        // What is there now is all: nobody appends under this epoch but the coordinator, which waits for this.
        while next < first.log_end {
            match data.read(partition, next, READ_BYTES).await {
                Ok(Records { batches, bounds }) => {
                    let decoded = records::decode(&batches, next.0);
                    if decoded.damaged > 0 {
                        tracing::error!(?partition, %next, count = decoded.damaged, "skipping unreadable records of consumer groups");
                    }
                    let Some(end) = decoded.next.map(Offset).filter(|end| *end > next) else {
                        // Not committed yet: a recovered tail is written again before it is shown.
                        next = next.max(bounds.log_start);
                        self.pause(&mut wait, AGAIN, "what is there is not committed").await?;
                        continue;
                    };
                    next = end;
                    let bytes = u64::try_from(batches.len()).unwrap_or(u64::MAX);
                    self.report(Report::Replayed { slot, term, records: decoded.records, bytes, next }).await?;
                    wait = Wait::new();
                }
                Err(Refusal::OutOfRange) => {
                    // The log start moved meanwhile.
                    let now = self.bounds().await?;
                    next = now.log_start.max(next.plus(1)).min(first.log_end);
                }
                Err(Refusal::Damaged { next: behind }) => {
                    // What lies between is lost: a commit then stands at an older offset.
                    let behind = behind.max(next.plus(1)).min(first.log_end);
                    tracing::error!(?partition, from = %next, to = %behind, "records of consumer groups are damaged on the device and skipped");
                    next = behind;
                }
                Err(refusal) => self.refused(&mut wait, refusal).await?,
            }
        }
        self.report(Report::Loaded { slot, term, end: next }).await
    }

    async fn report(&self, report: Report) -> Result<(), End> {
        self.reports.send(report).await.map_err(|_| End::Deaf)
    }

    async fn bounds(&self) -> Result<Bounds, End> {
        let mut wait = Wait::new();
        loop {
            match self.data.bounds(self.partition).await {
                Ok(bounds) => return Ok(bounds),
                Err(refusal) => self.refused(&mut wait, refusal).await?,
            }
        }
    }

    async fn refused(&self, wait: &mut Wait, refusal: Refusal) -> Result<(), End> {
        if !wait.told {
            wait.told = true;
            tracing::warn!(partition = ?self.partition, ?refusal, "consumer groups cannot be read yet");
        }
        self.pause(wait, AGAIN * 10, &format!("the data path says {refusal:?}")).await
    }

    /// Waits before a question is asked again, if it is still worth it.
    async fn pause(&self, wait: &mut Wait, pause: Duration, why: &str) -> Result<(), End> {
        if self.reports.is_closed() {
            return Err(End::Deaf);
        }
        if wait.since.elapsed() >= self.patience {
            return Err(End::Stuck(why.to_owned()));
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
