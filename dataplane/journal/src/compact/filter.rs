//! What stays of one frame of a compacted partition.

use alloc::vec::Vec;

use base::checksum::key_hash;
use base::image::Compaction;
use base::{Checksums, Codecs, Offset, WallMs};
use protocol::batch::{BatchView, Filtered, empty_batch, rewrite};

use crate::compact::keys::{Full, KeyMap, Share};
use crate::format::FrameView;

/// A batch of a compacted topic inflates to so much at most: four of the largest batches that are taken.
pub const INFLATED_BYTES_MAX: usize = 64 << 20;

/// Memory that frames are read in, one after the other, and what was seen meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    inflated: Vec<u8>,
    keeps: Vec<bool>,
    filtered: Filtered,
    packed: Vec<u8>,
    /// The batch anew.
    pub(crate) batch: Vec<u8>,
}

/// What is needed to judge records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) keys: &'a KeyMap,
    pub(crate) seed: u64,
    pub(crate) config: Compaction,
    pub(crate) now: WallMs,
    /// Records from there on are too young, or not looked at yet: they stay.
    pub(crate) limit: Offset,
    /// All that tombstones below the limit delete is gone, or goes in this very step.
    pub(crate) complete: bool,
    /// Nothing may grow.
    pub(crate) tight: bool,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It stays as it is, and nothing in it should have gone.
    Same,
    /// It stays as it is, though something in it may be older than another record of its key: no tombstone behind it may go.
    Stuck,
    /// It is [`Scratch::batch`] from now on, with so many records; none: it only stands for its offsets.
    Changed { records: u32, max_timestamp: WallMs },
}

/// Counts over the frames of a pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) records_read: u64,
    pub(crate) records_kept: u64,
    /// The latest time at which a tombstone that stays for now may go.
    pub(crate) horizon: Option<WallMs>,
    /// Batches that could not be inflated.
    pub(crate) opaque: u64,
}

/// The records of a batch without compression; `None` where nobody can read them.
pub(crate) fn inflate<'a>(batch: &BatchView<'a>, codecs: &Codecs, into: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    if !batch.is_compressed() {
        return Some(batch.payload());
    }
    into.clear();
    let result = (codecs.inflate)(batch.codec().bits(), batch.payload(), INFLATED_BYTES_MAX, into);
    result.ok().map(|()| into.as_slice())
}

/// Takes the keys of a frame into the map. What cannot be read names no key.
pub(crate) fn take_keys(
    frame: &FrameView<'_>,
    keys: &mut KeyMap,
    (seed, share): (u64, Share),
    codecs: &Codecs,
    scratch: &mut Scratch,
) -> Result<(), Full> {
    let Ok(batch) = BatchView::check_stored(frame.payload) else { return Ok(()) };
    if batch.is_control() {
        return Ok(());
    }
    let Some(records) = inflate(&batch, codecs, &mut scratch.inflated) else { return Ok(()) };
    for record in batch.records_of(records) {
        let Ok(record) = record else { return Ok(()) };
        let Some(key) = record.key else { continue };
        let hash = key_hash(seed, frame.header.partition.0, key);
        if share.holds(hash) {
            keys.insert(hash, Offset(batch.base_offset() + i64::from(record.offset_delta)))?;
        }
    }
    Ok(())
}

/// Judges the records of a frame.
pub(crate) fn judge(
    frame: &FrameView<'_>,
    rules: &Rules<'_>,
    codecs: &Codecs,
    sums: &Checksums,
    scratch: &mut Scratch,
    counts: &mut Counts,
) -> Verdict {
    let Ok(batch) = BatchView::check_stored(frame.payload) else { return Verdict::Stuck };
    counts.records_read += u64::from(frame.header.records);
    let Scratch { inflated, keeps, filtered, packed, batch: out } = scratch;
    if batch.is_control() || batch.count() == 0 {
        counts.records_kept += u64::from(frame.header.records);
        return Verdict::Same;
    }
    let records = inflate(&batch, codecs, inflated);
    let Some((records, tombstones)) =
        records.and_then(|records| Some((records, mark(&batch, records, rules, frame, keeps)?)))
    else {
        counts.opaque += 1;
        counts.records_kept += u64::from(frame.header.records);
        return Verdict::Stuck;
    };
    let kept = keeps.iter().filter(|keep| **keep).count();
    counts.records_kept += kept as u64;
    if kept == 0 {
        out.clear();
        out.extend_from_slice(&empty_batch(&batch, batch.last_offset_delta(), sums));
        return Verdict::Changed { records: 0, max_timestamp: WallMs(-1) };
    }
    let known = batch.delete_horizon();
    let mut horizon = known;
    if tombstones && known.is_none() && rules.complete {
        horizon = Some(rules.now.0.saturating_add(rules.config.delete_retention_ms));
    }
    if tombstones {
        counts.horizon = counts.horizon.max(horizon.map(WallMs));
    }
    if kept == keeps.len() && horizon == known {
        return Verdict::Same;
    }
    let taken = filtered.take(&batch, records, horizon, |number| keeps.get(number).is_none_or(|keep| *keep));
    out.clear();
    let payload = if batch.is_compressed() {
        packed.clear();
        (codecs.deflate)(batch.codec().bits(), &filtered.records, packed).then_some(&*packed)
    } else {
        Some(&filtered.records)
    };
    let rewritten =
        taken.is_ok() && payload.is_some_and(|payload| rewrite(&batch, filtered, payload, sums, out).is_ok());
    // Compressed anew it may be longer, and what is written must fit where it came from. Only a horizon is worth that.
    let grows = out.len() > frame.payload.len() && (rules.tight || kept < keeps.len());
    match u32::try_from(kept) {
        Ok(records) if rewritten && !grows => {
            Verdict::Changed { records, max_timestamp: WallMs(filtered.max_timestamp) }
        }
        _ => {
            counts.records_kept += (keeps.len() - kept) as u64;
            if kept < keeps.len() { Verdict::Stuck } else { Verdict::Same }
        }
    }
}

/// Says of each record whether it stays, and whether a tombstone is among those that do. `None`: they do not parse.
fn mark(
    batch: &BatchView<'_>,
    records: &[u8],
    rules: &Rules<'_>,
    frame: &FrameView<'_>,
    keeps: &mut Vec<bool>,
) -> Option<bool> {
    keeps.clear();
    let gone = batch.delete_horizon().is_some_and(|horizon| rules.now.0 >= horizon) && rules.complete;
    let mut tombstones = false;
    for record in batch.records_of(records) {
        let record = record.ok()?;
        let offset = Offset(batch.base_offset() + i64::from(record.offset_delta));
        if offset >= rules.limit {
            keeps.push(true);
            continue;
        }
        let keep = match record.key {
            // As Kafka's cleaner: such a record came before the topic was compacted.
            None => false,
            Some(key) => {
                let hash = key_hash(rules.seed, frame.header.partition.0, key);
                let newest = rules.keys.newest(hash).is_none_or(|newest| newest <= offset);
                newest && !(record.value.is_none() && gone)
            }
        };
        tombstones |= keep && record.value.is_none();
        keeps.push(keep);
    }
    Some(tombstones)
}
