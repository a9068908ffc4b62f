//! The end of a life, one thing that rots, and what is served afterwards.

use std::collections::{BTreeMap, BTreeSet};

use base::PartitionId;
use journal::recovery::JournalReport;
use journal::store::{AppendError, ReadOutcome};
use protocol::batch::{BatchView, Producer};

use super::{Ending, Run, Summary, harm};
use crate::audit;

impl Run {
    /// Ends this life in some way, lets one thing rot, starts again, and looks at what is served.
    pub(super) fn harmed_end(mut self) -> Result<Summary, String> {
        let ending = *self.chance.pick(&[Ending::Stop, Ending::Quiet, Ending::Crash]);
        match ending {
            Ending::Stop => self.stop()?,
            Ending::Quiet => self.world.settle(&mut self.chance),
            Ending::Crash => {}
        }
        self.check()?;
        self.checked = false;
        let forgetful = self.chance.odds(1, 3);
        let (mut run, reports) = self.restart(|rest, chance| {
            if forgetful {
                rest.files.clear();
            }
            harm(rest, chance);
        })?;
        let before = run
            .harmed_parts(&reports, ending != Ending::Stop || forgetful, None)
            .map_err(|error| format!("{error}, {ending:?}, forgetful {forgetful}\n{reports:?}"))?;
        // What a start has put right, or taken for damage, is the same at the next.
        for (id, log) in &mut run.logs {
            log.acked.retain(|_, entry| before.get(id).is_some_and(|served| served.contains(&(entry.end() - 1))));
        }
        run.logs.retain(|id, _| before.contains_key(id));
        run.world.settle(&mut run.chance);
        let forgetful = run.chance.odds(1, 3);
        let (mut run, again) = run.restart(|rest, _| {
            if forgetful {
                rest.files.clear();
            }
        })?;
        run.harmed_parts(&again, true, Some(&before)).map_err(|error| {
            format!("at the next start {error}, {ending:?}, forgetful {forgetful}\n{reports:?}\n{again:?}")
        })?;
        run.summary.trace = run.world.trace;
        Ok(run.summary)
    }

    /// Looks at what is served of each partition whose journal is open, and gives the offsets. With `cut` the logs may end
    /// earlier than was acked. What was served `before` must be served again.
    fn harmed_parts(
        &mut self,
        reports: &[JournalReport],
        cut: bool,
        before: Option<&BTreeMap<PartitionId, BTreeSet<i64>>>,
    ) -> Result<BTreeMap<PartitionId, BTreeSet<i64>>, String> {
        let mut all = BTreeMap::new();
        let ids: Vec<PartitionId> = self.logs.keys().copied().collect();
        for id in ids {
            let journal = self.homes[&id];
            let Some(report) = reports.iter().find(|report| report.journal == journal) else { continue };
            if report.closed.is_some() {
                self.summary.fenced += 1;
                continue;
            }
            audit::gaps_hold_all(report)?;
            if cut {
                // Rot in what no header calls committed is taken for what a crash tore. A full device has no room for the closing
                // unit that an orderly stop ends with.
                self.logs.get_mut(&id).expect("listed").cut(report.end);
            }
            let Some(served) = self.harmed(id, !report.holes.is_empty())? else { continue };
            let start = self.logs[&id].start;
            let lost = before.and_then(|before| before[&id].range(start..).find(|offset| !served.contains(offset)));
            if let Some(offset) = lost {
                return Err(format!("partition {id}: offset {offset} was served before"));
            }
            all.insert(id, served);
        }
        Ok(all)
    }

    /// Reads a partition of a harmed device through, then appends to it; gives the offsets that are served, if its journal did
    /// not close. Where recovery told of holes reads may pass over them.
    fn harmed(&mut self, id: PartitionId, told: bool) -> Result<Option<BTreeSet<i64>>, String> {
        let shard = self.shard(id);
        let bounds = self.world.shards[shard].store.bounds(id).ok_or(format!("partition {id} is gone"))?;
        let log = self.logs.get_mut(&id).expect("listed");
        if bounds.log_start.0 < log.start {
            return Err(format!("partition {id}: log start {} fell below {}", bounds.log_start, log.start));
        }
        log.move_start(bounds.log_start.0);
        if bounds.log_end.0 < log.acked_end() {
            return Err(format!("partition {id}: log end {} lies below {}", bounds.log_end, log.acked_end()));
        }
        let mut served = BTreeSet::new();
        let mut next = bounds.log_start.0;
        while next < bounds.high_watermark.0 {
            match self.fetch(id, next, 1 << 20)? {
                (ReadOutcome::Data { .. }, bytes) => {
                    let base = BatchView::first(&bytes).map_err(|error| error.to_string())?.0.base_offset();
                    let from = if told { next.max(base) } else { next };
                    next = self.logs[&id].check_served(from, &bytes)?;
                    served.extend(from..next);
                }
                (ReadOutcome::Damaged { next: after, .. }, _) if after.0 > next && after <= bounds.high_watermark => {
                    self.summary.lost += 1;
                    next = after.0;
                }
                (ReadOutcome::Fenced, _) => return Ok(None),
                (other, _) => return Err(format!("partition {id} at {next} of {bounds:?}: {other:?}")),
            }
        }
        let sent = self.batch(Producer::NONE);
        match self.send(id, &sent) {
            Ok(appended) if appended.base_offset < bounds.log_end => {
                Err(format!("partition {id}: offset {} given again, {bounds:?}", appended.base_offset))
            }
            Ok(appended) => {
                self.note(id, sent, &appended);
                Ok(Some(served))
            }
            Err(AppendError::Busy | AppendError::Full) => Ok(Some(served)),
            Err(error) => Err(format!("partition {id}: {error:?}")),
        }
    }
}
