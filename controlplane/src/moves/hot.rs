//! Partitions that make most of a journal's bytes, beside others that wait for them: one of them moves to a journal with room.
//!
//! It takes a while of the same picture before anything moves, a clear gain, and a long pause before the same partition moves
//! again: what is hot today and was cold yesterday must not wander to and fro.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::image::Image;
use base::message::PartitionSize;
use base::{JournalId, PartitionId};
use cluster::{Command, MoveTo};
use tokio::time::Instant;

use crate::context::{Context, entropy};

/// How often loads are looked at.
const EVERY: Duration = Duration::from_secs(10);

/// So many looks in a row must agree: a minute.
const LOOKS: u32 = 6;

/// A partition that was moved for its load is left alone for so long: an hour.
const REST: Duration = Duration::from_secs(3600);

/// A journal's partition is hot when it takes at least this share of the bytes, in percent.
const SHARE_PERCENT: u64 = 60;

/// What the others beside it must take, in percent: who is alone in a journal gains nothing by moving.
const OTHERS_PERCENT: u64 = 5;

/// The new journal's load with the partition must be below this share of the old one's before, in percent.
const GAIN_PERCENT: u64 = 80;

/// What was written where, as of one look.
type Written = BTreeMap<(PartitionId, JournalId), u64>;

/// Watches loads.
#[derive(Default)]
pub(super) struct Watch {
    at: Option<Instant>,
    before: Written,
    /// Who was hot in the last looks, by journal, and in how many in a row.
    candidates: BTreeMap<JournalId, (PartitionId, u32)>,
    rested: BTreeMap<PartitionId, Instant>,
}

/// A partition that is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hot {
    pub(super) partition: PartitionId,
    pub(super) from: JournalId,
    pub(super) to: JournalId,
    /// Bytes a second of the partition.
    pub(super) rate: u64,
}

impl Watch {
    /// Looks when it is time, and writes down a move where one is due.
    pub(super) async fn step(&mut self, context: &Arc<Context>) {
        let least = context.settings.move_hot_bytes_per_second;
        let now = Instant::now();
        if least == 0 || self.at.is_some_and(|at| now < at + EVERY) {
            return;
        }
        let Ok(sizes) = super::sizes(context).await else { return };
        let seconds = self.at.replace(now).map(|at| now.duration_since(at).as_secs().max(1));
        let image = context.store.image();
        let Some(hot) = self.look(&image, &sizes, seconds, least, now) else { return };
        let Some((topic, index)) = image.name_of(hot.partition) else { return };
        let Some(entry) = image.topics.get(topic) else { return };
        let (Ok(entropy), Ok(partition)) = (entropy(), u32::try_from(index)) else { return };
        let command = Command::Move { id: entry.id, partition, to: MoveTo::Journal(hot.to), entropy };
        match context.store.propose(command).await {
            Ok(_) => {
                context.stats.hot_moves.up();
                tracing::info!(%topic, partition, from = %hot.from, to = %hot.to, bytes_per_second = hot.rate,
                    "a partition makes most of its journal's load; it moves to one with room");
            }
            Err(error) => tracing::debug!(%error, %topic, partition, "a hot partition stays"),
        }
    }

    /// Takes in what was written up to now; the partition that is to move, if any. `seconds` since the last look.
    pub(super) fn look(
        &mut self,
        image: &Image,
        sizes: &[PartitionSize],
        seconds: Option<u64>,
        least: u64,
        now: Instant,
    ) -> Option<Hot> {
        let written: Written = sizes.iter().map(|size| ((size.partition, size.journal), size.written)).collect();
        let before = std::mem::replace(&mut self.before, written);
        let seconds = seconds?;
        let mut loads: BTreeMap<JournalId, Vec<(u64, PartitionId)>> = BTreeMap::new();
        for (key, now) in &self.before {
            let rate = now.saturating_sub(before.get(key).copied().unwrap_or(*now)) / seconds;
            loads.entry(key.1).or_default().push((rate, key.0));
        }
        self.rested.retain(|_, moved| now.duration_since(*moved) < REST);
        let total = |journal: JournalId| -> u64 {
            loads.get(&journal).map_or(0, |loads| loads.iter().map(|(rate, _)| rate).sum())
        };
        let mut seen = BTreeMap::new();
        for (journal, loads) in &loads {
            let all = total(*journal);
            let Some((rate, partition)) = loads.iter().copied().max() else { continue };
            let hot = all >= least && rate * 100 >= all * SHARE_PERCENT && (all - rate) * 100 >= all * OTHERS_PERCENT;
            if !hot
                || self.rested.contains_key(&partition)
                || image.homes.get(&partition).is_some_and(|homes| homes.moving.is_some())
            {
                continue;
            }
            let looks = self.candidates.get(journal).filter(|(known, _)| *known == partition).map_or(1, |(_, n)| n + 1);
            seen.insert(*journal, (partition, looks));
        }
        self.candidates = seen;
        let mut due: Vec<(JournalId, PartitionId)> = self
            .candidates
            .iter()
            .filter(|(_, (_, looks))| *looks >= LOOKS)
            .map(|(journal, (id, _))| (*journal, *id))
            .collect();
        due.sort_unstable();
        due.into_iter().find_map(|(from, partition)| {
            let rate = loads[&from].iter().find(|(_, id)| *id == partition).map_or(0, |(rate, _)| *rate);
            let here = image.journals.get(&from)?;
            let others = image.journals.values().filter(|other| other.class == here.class && other.id != from);
            let to = others.map(|other| (total(other.id), other.shard == here.shard, other.id)).min()?;
            if (to.0 + rate) * 100 >= total(from) * GAIN_PERCENT {
                return None;
            }
            self.candidates.remove(&from);
            self.rested.insert(partition, now);
            Some(Hot { partition, from, to: to.2, rate })
        })
    }
}
