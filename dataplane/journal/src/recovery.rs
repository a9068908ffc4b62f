//! What is read before a shard serves: where each journal ends, what it holds, what is damaged. Blocking.
//!
//! The rules are those of `docs/FORMAT.md`: the highest commit position in any intact header counts; below it bad units are
//! damage and stay in the log; at or above it the log ends at the first unit that is bad or not chained (one right behind
//! damage is taken when its header says that all before it was committed). What lies between is rewritten with the same
//! bytes and flushed before anything is built upon it, since after a flush that once failed it may lie in a volatile cache
//! only.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use base::image::JournalEntry;
use base::message::DamagedRange;
use base::{DeviceIndex, Epoch, JournalId, Offset, PartitionId, Position};

use crate::device::{Claim, Device, DeviceError, Found, Pair};
use crate::format::{
    CheckpointFold, Cut, ExtentHeader, ExtentKind, JournalStart, Label, LocalState, LogStartMove, SECTOR, StartReason,
    Stretch, UnitHeader,
};
use crate::journal::{Identity, Journal};
use crate::pool::Initial;
use crate::recovery::fold::Fold;
use crate::recovery::scan::Scanner;
use crate::recovery::walk::{Walk, keep_closed, read_footers, rebuild, rewrite};
use crate::storage::{Storage, StorageError};
use crate::store::{ExtentAddress, Store, StoreConfig, StoreDevice};

pub(crate) mod fold;
pub(crate) mod scan;
pub(crate) mod walk;

/// A device on which journals are opened.
#[derive(Debug)]
pub struct OpenDevice<'a, S> {
    /// Its bytes.
    pub storage: &'a mut S,
    /// Label and local states, as [`Device::open`] read them and [`Device::heal_states`] healed them.
    pub device: &'a mut Device,
    /// Its extents, as [`Device::scan`] found them.
    pub found: &'a [Found],
}

/// A stretch of a journal that cannot be read as it was written. It stays in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub start: Position,
    /// Where it ends.
    pub end: Position,
}

/// Offsets of a partition that are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostOffsets {
    /// Whose.
    pub partition: PartitionId,
    /// First one lost: the end that was last seen.
    pub from: Offset,
    /// First one after.
    pub to: Offset,
}

/// How a journal was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalReport {
    /// Which.
    pub journal: JournalId,
    /// Why it stays closed, if it does.
    pub closed: Option<String>,
    /// Nothing of it was on the device.
    pub fresh: bool,
    /// Whether a checkpoint was used.
    pub checkpoint: bool,
    /// Where scanning began.
    pub scanned_from: Position,
    /// Highest commit position that was known.
    pub commit: Position,
    /// Where the log ends.
    pub end: Position,
    /// Bytes read.
    pub bytes_read: u64,
    /// Intact units folded.
    pub units: u64,
    /// Bytes between commit position and end, rewritten in place.
    pub rewritten: u64,
    /// Highest epoch in any of its units, extent headers, promise or cut.
    pub highest_epoch: Epoch,
    /// What is damaged.
    pub damage: Vec<Damage>,
    /// What is damaged below the checkpoint, where an index had to be made anew: its records are gone, no state is.
    pub holes: Vec<Damage>,
    /// Single batches whose payload is damaged.
    pub damaged_batches: Vec<DamagedRange>,
    /// Units with control frames whose payload is damaged. What they said may be known from elsewhere.
    pub damaged_controls: Vec<Position>,
    /// Partitions that resume after a gap.
    pub lost: Vec<LostOffsets>,
}

/// What recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// By journal, in the order they were named.
    pub journals: Vec<JournalReport>,
    /// Extents that journals hold; all others are free.
    pub claimed: Vec<ExtentAddress>,
}

/// Why a store cannot be opened at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryError {
    /// A device is unusable.
    Device(DeviceError),
    /// The new epoch is not above all that were ever used: raise the counter above it and open again.
    EpochTooLow {
        /// The highest epoch seen.
        seen: Epoch,
    },
}

impl core::fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::EpochTooLow { seen } => write!(f, "epoch {seen} was used before; the new one must be higher"),
        }
    }
}

impl core::error::Error for RecoveryError {}

impl From<DeviceError> for RecoveryError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// The highest epoch in any promise, cut or extent header of a device. Units do not exceed it while local states are intact,
/// since a promise is durable before the first unit of its epoch; where one is lost, [`Store::open`] says
/// [`RecoveryError::EpochTooLow`] if a unit does.
#[must_use]
pub fn highest_epoch(device: &Device, found: &[Found]) -> Epoch {
    let states = device.pairs.iter().filter_map(|pair| match pair {
        Pair::Held { state, .. } => Some(state.promise.max(state.cut.epoch)),
        Pair::Free | Pair::Damaged => None,
    });
    let headers = found.iter().filter_map(|found| match &found.claim {
        Claim::Header(header) => Some(header.epoch),
        Claim::Blank | Claim::None | Claim::Unreadable(_) => None,
    });
    states.chain(headers).max().unwrap_or_default()
}

/// What an extent pool is to begin with: the extents in order, and the highest generation used.
#[must_use]
pub fn pool_start(found: &[Found], device: DeviceIndex, reports: &[&RecoveryReport]) -> (Vec<Initial>, u64) {
    let claimed = |offset: u64| {
        let mut all = reports.iter().flat_map(|report| &report.claimed);
        all.any(|extent| extent.device == device && extent.offset == offset)
    };
    // Where a header is damaged, a checkpoint knew its generation.
    let known = reports.iter().flat_map(|report| &report.claimed).filter(|extent| extent.device == device);
    let mut generation = known.map(|extent| extent.generation).max().unwrap_or(0);
    let initial = found.iter().map(|found| {
        if let Claim::Header(header) = &found.claim {
            generation = generation.max(header.generation);
        }
        match &found.claim {
            _ if claimed(found.offset) => Initial::Used,
            Claim::Blank => Initial::Blank,
            Claim::Unreadable(_) => Initial::Bad,
            Claim::None | Claim::Header(_) => Initial::Recycled,
        }
    });
    (initial.collect(), generation)
}

/// The pairs of local-state slots that each of `shards` shards may take for journals it creates, once all journals are open.
#[must_use]
pub fn share_pairs(device: &Device, shards: usize) -> Vec<Vec<u32>> {
    let mut shares = vec![Vec::new(); shards];
    let free = (0u32..).zip(&device.pairs).filter(|(_, pair)| !matches!(pair, Pair::Held { .. }));
    for (turn, (pair, _)) in free.enumerate() {
        shares[turn % shards].push(pair);
    }
    // The lowest is taken first.
    shares.iter_mut().for_each(|share| share.reverse());
    shares
}

impl<A: base::memory::Arena> Store<A> {
    /// Opens the journals of one shard: scans, repairs the tail, promises the new epoch. Journals in `entries` that are not
    /// on their device begin fresh. `devices` is by device index; `checkpoint` gives a journal's checkpoint file, if it is
    /// there. The epoch-start unit follows with the first [`Store::pump`].
    ///
    /// Pairs of state slots for journals created later are to be given with [`Store::set_free_pairs`].
    ///
    /// # Errors
    /// As [`RecoveryError`] says. A journal that cannot be read stays closed, and the report says why.
    pub fn open<S: Storage>(
        config: StoreConfig,
        entries: &[JournalEntry],
        devices: &mut [OpenDevice<'_, S>],
        mut checkpoint: impl FnMut(JournalId) -> Option<Vec<u8>>,
    ) -> Result<(Self, RecoveryReport), RecoveryError> {
        let labels = devices.iter().map(|open| StoreDevice { label: open.device.label, free_pairs: Vec::new() });
        let mut store = Self::new(config, labels.collect());
        let mut report = RecoveryReport::default();
        for entry in entries {
            let bytes = checkpoint(entry.id);
            let device = &mut devices[usize::from(entry.device.0)];
            let one = store.open_journal(entry, device, bytes.as_deref(), &mut report.claimed)?;
            report.journals.push(one);
        }
        Ok((store, report))
    }

    /// Gives the pairs of local-state slots that journals created by this shard may take.
    pub fn set_free_pairs(&mut self, device: DeviceIndex, pairs: Vec<u32>) {
        self.devices[usize::from(device.0)].free_pairs = pairs;
    }

    fn open_journal<S: Storage>(
        &mut self,
        entry: &JournalEntry,
        open: &mut OpenDevice<'_, S>,
        checkpoint: Option<&[u8]>,
        claimed: &mut Vec<ExtentAddress>,
    ) -> Result<JournalReport, RecoveryError> {
        let label = open.device.label;
        let identity = Identity {
            cluster: self.config.cluster,
            device: label.device,
            journal: entry.id,
            epoch: entry.epoch,
            secret: entry.secret,
        };
        let state = open.device.state(entry.id).map(|(_, state)| *state);
        let mut report = JournalReport { journal: entry.id, ..JournalReport::default() };
        let slot = self.add_journal(Journal::new(identity.clone(), entry.device, JournalStart::default()));
        let (headers, stale) = headers_of(entry.id, open.found, state.as_ref());
        let seen = headers.iter().map(|header| header.epoch).max().unwrap_or_default();
        let promised = state.map_or(Epoch(0), |state| state.promise.max(state.cut.epoch));
        report.highest_epoch = seen.max(promised);
        let fold = checkpoint.and_then(|bytes| CheckpointFold::read(bytes, entry.id, label.device, &self.config.sums));
        report.checkpoint = fold.is_some();
        report.fresh = headers.is_empty() && fold.is_none();
        let chosen = choose_extents(entry, &label, &headers, fold.as_ref(), state.as_ref(), open.found);
        let mut extents = match chosen {
            Ok(extents) => extents,
            Err(reason) => {
                self.stay_closed(slot, entry.device, &headers, &reason, claimed);
                report.closed = Some(reason);
                return Ok(report);
            }
        };
        let work = Recovery {
            config: &self.config,
            identity: &identity,
            device: entry.device,
            state,
            found: open.found,
            extent_len: label.extent_len,
            storage: &mut *open.storage,
            report: &mut report,
        };
        match work.run(&mut extents, fold) {
            Ok(fold) => {
                if report.highest_epoch >= entry.epoch {
                    return Err(RecoveryError::EpochTooLow { seen: report.highest_epoch });
                }
                blank_stale(open.storage, &stale, report.end).map_err(DeviceError::from)?;
                self.promise(slot, open, state, &report)?;
                self.adopt(slot, fold, &mut report, claimed);
            }
            Err(Stop::Closed(reason)) => {
                self.stay_closed(slot, entry.device, &headers, &reason, claimed);
                report.closed = Some(reason);
            }
        }
        Ok(report)
    }

    /// Makes (promise, cut) durable before the first unit of the new epoch.
    fn promise<S: Storage>(
        &mut self,
        slot: u16,
        open: &mut OpenDevice<'_, S>,
        before: Option<LocalState>,
        report: &JournalReport,
    ) -> Result<(), RecoveryError> {
        let identity = &self.journals[usize::from(slot)].identity;
        let lost_state = before.is_none() && !report.fresh;
        let mark = before.map_or(Position(0), |state| state.uncertain_to);
        // Whether anything was lost behind the end cannot be known: as much as may fly may have been answered.
        let uncertain_to =
            if report.fresh { mark } else { mark.max(report.end.plus(self.config.bytes_in_flight.into())) };
        let state = LocalState {
            sequence: 0,
            cluster: identity.cluster,
            device: identity.device,
            journal: identity.journal,
            replica: before.map_or_else(
                || crate::commit::replica_id(self.config.incarnation, identity.journal.0),
                |state| state.replica,
            ),
            promise: identity.epoch,
            cut: Cut { position: report.end, epoch: identity.epoch },
            uncertain_to,
            does_not_count: lost_state || before.is_some_and(|state| state.does_not_count),
            start: before.map(|state| state.start).unwrap_or_default(),
            secret: identity.secret,
        };
        let pair = open.device.write_state(open.storage, &state)?;
        let written = open.device.state(identity.journal).map_or(state, |(_, state)| *state);
        self.journals[usize::from(slot)].local = Some((pair, written));
        Ok(())
    }

    /// A journal that cannot be read keeps its extents and takes no appends.
    fn stay_closed(
        &mut self,
        slot: u16,
        device: DeviceIndex,
        headers: &[ExtentHeader],
        reason: &str,
        claimed: &mut Vec<ExtentAddress>,
    ) {
        claimed.extend(headers.iter().map(|header| address(device, header)));
        let journal = &mut self.journals[usize::from(slot)];
        journal.fenced = Some(reason.to_string());
        journal.closed = true;
    }

    /// Takes what was folded into the journal and the table of partitions.
    fn adopt(&mut self, slot: u16, fold: Fold, report: &mut JournalReport, claimed: &mut Vec<ExtentAddress>) {
        let journal = &mut self.journals[usize::from(slot)];
        journal.end = report.end;
        journal.commit = report.end;
        journal.last = fold.last;
        journal.checkpoint.written = report.scanned_from;
        claimed.extend(fold.extents.iter().map(|extent| extent.address));
        journal.extents = fold.extents.into();
        if let Some(last) = report.damage.last() {
            let bytes = report.damage.iter().map(|damage| damage.end.0 - damage.start.0).sum();
            journal.damage = Some((*last, gap_records(bytes)));
        }
        let damage = journal.damage;
        report.damaged_batches.iter().for_each(|range| self.damaged.recovered(*range));
        for (_, mut partition) in fold.partitions {
            partition.journal = slot;
            if let Some((last, records)) = damage
                && partition.newest < last.end
            {
                let from = partition.log_end;
                partition.log_end = Offset(from.0.saturating_add(records));
                report.lost.push(LostOffsets { partition: partition.id, from, to: partition.log_end });
                self.damaged.recovered(DamagedRange { partition: partition.id, first: from, next: partition.log_end });
                self.journals[usize::from(slot)].gaps_due.push((partition.id, from, partition.log_end));
            }
            partition.high_watermark = partition.log_end;
            partition.log_start = partition.next_start;
            if partition.sure_start < partition.next_start {
                // Cut short by the crash, or the other unit that stated it is damaged.
                let moved = LogStartMove { to: partition.next_start, reason: StartReason::Deleted };
                self.journals[usize::from(slot)].starts_due.push_back((partition.id, moved));
            }
            partition.dirty = true;
            let number = self.partitions.insert(partition);
            self.journals[usize::from(slot)].checkpoint.dirty.push(number);
        }
    }
}

/// More offsets than `bytes` of damage can hold: every 125 bytes could be a compressed batch of 2³¹ − 1 records.
fn gap_records(bytes: u64) -> i64 {
    let batches = i64::try_from(bytes / 125 + 1).unwrap_or(i64::MAX);
    batches.saturating_mul(i64::from(i32::MAX)).min(1 << 60)
}

pub(crate) const fn address(device: DeviceIndex, header: &ExtentHeader) -> ExtentAddress {
    ExtentAddress { device, offset: header.offset, len: header.len, generation: header.generation }
}

/// The journal's extent headers, by position; and those that are stale, because a cut voids them or a later one took their
/// place.
fn headers_of(
    journal: JournalId,
    found: &[Found],
    state: Option<&LocalState>,
) -> (Vec<ExtentHeader>, Vec<ExtentHeader>) {
    let (mut headers, mut stale): (Vec<ExtentHeader>, Vec<ExtentHeader>) = found
        .iter()
        .filter_map(|found| match &found.claim {
            Claim::Header(header) if header.journal == journal => Some(*header),
            _ => None,
        })
        .partition(|header| {
            // A cut to or before its start voids an extent of a lower epoch.
            state.is_none_or(|state| header.start < state.cut.position || header.epoch >= state.cut.epoch)
        });
    // An extent whose header was once written anew has the generation of a raw one before it.
    headers.sort_unstable_by_key(|header| core::cmp::Reverse((header.generation, header.start)));
    // Extents are taken in the order of their generations, so one that begins at or after the start of a later one holds a
    // tail that was cut off.
    let mut lowest = Position(u64::MAX);
    let mut stretches: Vec<Range<Position>> = Vec::new();
    headers.retain(|header| {
        // What begins in a stretch that was clustered later is in the clustered extent, as far as it lives.
        let clustered = stretches.iter().any(|stretch| stretch.contains(&header.start));
        match header.kind {
            ExtentKind::Raw => {
                let kept = header.start < lowest;
                lowest = lowest.min(header.start);
                if !kept {
                    stale.push(*header);
                }
                kept && !clustered
            }
            ExtentKind::Clustered(stretch) => {
                stretches.push(header.start..stretch.upto.position);
                !clustered
            }
        }
    });
    headers.sort_unstable_by_key(|header| header.start);
    (headers, stale)
}

/// Blanks stale headers that the next cut would not void any more, since it lies behind their start: local state remembers one
/// cut only, and an extent that came back would end the one that the log has gone on in.
fn blank_stale<S: Storage>(storage: &mut S, stale: &[ExtentHeader], end: Position) -> Result<(), StorageError> {
    let mut any = false;
    for header in stale.iter().filter(|header| header.start < end) {
        storage.write(header.offset, &[0; SECTOR])?;
        any = true;
    }
    if any { storage.flush() } else { Ok(()) }
}

/// An extent to be scanned or taken from the checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) header: ExtentHeader,
    /// The next extent's start: units end there.
    pub(crate) limit: Position,
    /// Footer bytes, where a checkpoint knows the extent as closed.
    pub(crate) footer_len: u32,
    /// Its header is damaged and must be written again.
    pub(crate) lost_header: bool,
}

impl Candidate {
    fn new(header: ExtentHeader, end: Option<Position>, footer_len: u32, lost_header: bool) -> Self {
        let most = match header.kind {
            ExtentKind::Raw => header.start.plus(header.len - SECTOR as u64),
            ExtentKind::Clustered(stretch) => stretch.end,
        };
        Self { header, limit: end.unwrap_or(most), footer_len, lost_header }
    }

    /// Where the journal goes on after the stretch that a clustered extent stands for.
    pub(crate) const fn clustered(&self) -> Option<JournalStart> {
        match self.header.kind {
            ExtentKind::Raw => None,
            ExtentKind::Clustered(stretch) => Some(stretch.upto),
        }
    }

    /// Up to where its records were held against the log by compaction.
    pub(crate) const fn compacted(&self) -> Position {
        match self.header.kind {
            ExtentKind::Raw => Position(0),
            ExtentKind::Clustered(stretch) => stretch.compacted,
        }
    }

    /// Byte on the device of a position in it.
    pub(crate) const fn offset(&self, position: Position) -> u64 {
        self.header.offset + SECTOR as u64 + (position.0 - self.header.start.0)
    }
}

/// The extents that hold the journal, in order.
fn choose_extents(
    entry: &JournalEntry,
    label: &Label,
    headers: &[ExtentHeader],
    fold: Option<&CheckpointFold>,
    state: Option<&LocalState>,
    found: &[Found],
) -> Result<Vec<Candidate>, String> {
    let start = state.map_or(Position(0), |state| state.start.position);
    let mut chosen: Vec<Candidate> = Vec::new();
    for header in headers {
        // Without a checkpoint, and behind it, every header counts; below it only what the checkpoint names was not freed.
        let known = fold.and_then(|fold| fold.extents.get(&header.start));
        let known = known.filter(|known| known.generation == header.generation);
        let freed = fold.is_some_and(|fold| known.is_none() && header.start < fold.upto.position);
        // One that was clustered since the checkpoint took the place of what that names.
        let took_place = match (header.kind, fold) {
            (ExtentKind::Clustered(stretch), Some(fold)) => fold
                .extents
                .range(header.start..stretch.upto.position)
                .any(|(_, known)| known.generation < header.generation),
            _ => false,
        };
        if freed && !took_place {
            continue;
        }
        let footer_len = known.filter(|known| known.end.is_some()).map_or(0, |known| known.footer_len);
        // Without a footer it may have been written on since, by a start that did not have the checkpoint.
        let end = known.and_then(|known| known.end).filter(|_| footer_len > 0);
        chosen.push(Candidate::new(*header, end, footer_len, false));
    }
    for known in fold.iter().flat_map(|fold| fold.extents.values()) {
        let claim = found.iter().find(|found| found.offset == known.offset).map(|found| &found.claim);
        match claim {
            Some(Claim::Unreadable(error)) => {
                return Err(format!("the extent at byte {} of the device cannot be read: {error:?}", known.offset));
            }
            None => {
                return Err(format!(
                    "the extent at byte {} lies behind the end of the device, which was longer: give it back what was cut off",
                    known.offset
                ));
            }
            // Its header is damaged: the checkpoint knows what it said.
            Some(Claim::None | Claim::Blank)
                if chosen.iter().all(|chosen| {
                    let upto = chosen.clustered().map_or(chosen.header.start, |upto| upto.position);
                    chosen.header.start != known.start.position
                        && !(chosen.header.start..upto).contains(&known.start.position)
                }) =>
            {
                // Up to where it was compacted is not known any more: it is looked at again.
                let compacted = Position(0);
                let stretch = |upto| Stretch { end: known.end.unwrap_or(known.start.position), upto, compacted };
                let header = ExtentHeader {
                    kind: known.clustered.map_or(ExtentKind::Raw, |upto| ExtentKind::Clustered(stretch(upto))),
                    generation: known.generation,
                    cluster: label.cluster,
                    device: label.device,
                    journal: entry.id,
                    offset: known.offset,
                    len: known.len,
                    start: known.start.position,
                    epoch: known.start.epoch,
                    chain: known.start.chain,
                    secret: entry.secret,
                };
                let end = known.end.filter(|_| known.footer_len > 0);
                chosen.push(Candidate::new(header, end, known.footer_len, true));
            }
            _ => {}
        }
    }
    chosen.sort_unstable_by_key(|candidate| candidate.header.start);
    for i in 1..chosen.len() {
        chosen[i - 1].limit = chosen[i - 1].limit.min(chosen[i].header.start);
    }
    // What lies wholly before the journal's start was freed.
    chosen.retain(|candidate| candidate.limit > start || candidate.header.start >= start);
    Ok(chosen)
}

/// Extents whose header is damaged or cannot be read, but whose first unit is this journal's: where the log reaches one and the
/// chain fits, it is one of its extents. The flag says that not even the first unit of some could be read.
fn look_behind_headers<S: Storage>(
    storage: &mut S,
    identity: &Identity,
    extent_len: u64,
    all: &[Found],
) -> (Vec<Probe>, bool) {
    let (mut probes, mut unknown) = (Vec::new(), false);
    let mut page = vec![0; SECTOR];
    for found in all.iter().filter(|found| matches!(found.claim, Claim::None | Claim::Unreadable(_))) {
        if storage.read(found.offset + SECTOR as u64, &mut page).is_err() {
            unknown = true;
            continue;
        }
        let Ok((unit, _)) = UnitHeader::decode(&page, &identity.secret) else { continue };
        // What was being clustered is still where it came from; what was is found by its header or a checkpoint.
        let clustered = unit.flags & UnitHeader::CLUSTERED != 0;
        if (unit.cluster, unit.journal) != (identity.cluster, identity.journal) || clustered {
            continue;
        }
        let header = ExtentHeader {
            kind: ExtentKind::Raw,
            generation: generation_at(identity.journal, unit.position, all),
            cluster: identity.cluster,
            device: identity.device,
            journal: identity.journal,
            offset: found.offset,
            len: extent_len,
            start: unit.position,
            epoch: unit.epoch,
            chain: unit.chain,
            secret: identity.secret,
        };
        probes.push(Probe { header, readable: matches!(found.claim, Claim::None) });
    }
    (probes, unknown)
}

/// A generation for a raw extent of the journal that begins there and whose header is lost: no lower than those of raw ones
/// before it, also of those that were freed, and lower than those of raw ones behind. Clustered ones may have any.
pub(crate) fn generation_at(journal: JournalId, start: Position, found: &[Found]) -> u64 {
    let before = found.iter().filter_map(|found| match &found.claim {
        Claim::Header(header) if header.journal == journal && header.kind == ExtentKind::Raw => {
            (header.start < start).then_some(header.generation)
        }
        _ => None,
    });
    before.max().unwrap_or(0)
}

/// An extent known by its first unit only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) header: ExtentHeader,
    pub(crate) readable: bool,
}

/// Why a journal's recovery ends early.
pub(crate) enum Stop {
    /// It stays closed; why.
    Closed(String),
}

impl From<StorageError> for Stop {
    fn from(error: StorageError) -> Self {
        Self::Closed(match error {
            StorageError::Io(text) => format!("read error: {text}"),
            StorageError::Full => "no space left on the device".to_string(),
        })
    }
}

/// One journal's recovery.
struct Recovery<'a, S> {
    config: &'a StoreConfig,
    identity: &'a Identity,
    device: DeviceIndex,
    state: Option<LocalState>,
    found: &'a [Found],
    extent_len: u64,
    storage: &'a mut S,
    report: &'a mut JournalReport,
}

impl<S: Storage> Recovery<'_, S> {
    fn run(self, extents: &mut Vec<Candidate>, checkpoint: Option<CheckpointFold>) -> Result<Fold, Stop> {
        let Self { config, identity, device, state, found, extent_len, storage, report } = self;
        let cut = state.map(|state| state.cut).unwrap_or_default();
        let mut fold = Fold::new(config, device);
        let begin = match (&checkpoint, &state, extents.first()) {
            // All up to a later start was freed since: what had to be kept of it stands behind.
            (Some(checkpoint), Some(state), _) if state.start.position > checkpoint.upto.position => state.start,
            (Some(checkpoint), _, _) => checkpoint.upto,
            // Its only extent may have lost its header.
            (None, Some(state), _) => state.start,
            (None, None, Some(Candidate { header, .. })) => {
                JournalStart { position: header.start, epoch: header.epoch, chain: header.chain }
            }
            (None, None, None) => JournalStart::default(),
        };
        // The rest of a stretch that was clustered since the checkpoint cannot be told from what was folded of it already.
        let inside = |candidate: &&Candidate| {
            let upto = candidate.clustered().map_or(candidate.header.start, |upto| upto.position);
            candidate.header.start < begin.position && begin.position < upto
        };
        let begin = extents.iter().find(inside).map_or(begin, |Candidate { header, .. }| JournalStart {
            position: header.start,
            epoch: header.epoch,
            chain: header.chain,
        });
        let (mut probes, unknown) = look_behind_headers(storage, identity, extent_len, found);
        if unknown && extents.is_empty() && state.is_some() {
            // To promise an epoch from the cut on would void what may lie there.
            return Err(Stop::Closed(
                "an extent of the device cannot be read, and it may be this journal's first".to_string(),
            ));
        }
        probes.retain(|probe| extents.iter().all(|extent| extent.header.offset != probe.header.offset));
        read_footers(storage, config, extents);
        fold.begin(begin, checkpoint, extents);
        rebuild(storage, config, identity, &mut fold, extents, begin.position, report)?;
        report.scanned_from = begin.position;
        let mut scanner = Scanner::new(storage, config, identity, cut);
        let commit = cut.position.max(begin.position);
        let walk =
            Walk { scanner: &mut scanner, fold: &mut fold, report, extents, probes, unknown, commit, looked: false };
        let walked = walk.run(begin);
        let (bytes_read, highest) = (scanner.bytes_read, scanner.highest_epoch);
        report.bytes_read += bytes_read;
        report.highest_epoch = report.highest_epoch.max(highest);
        walked?;
        report.fresh &= report.end == Position(0);
        report.rewritten = rewrite(storage, config, extents, report.commit, report.end)?;
        fold.finish(report.end);
        keep_closed(storage, config, extents, &mut fold);
        Ok(fold)
    }
}

/// By partition id: a fold's iteration order must not depend on a hash.
pub(crate) type PartitionMap = BTreeMap<PartitionId, crate::partition::Partition>;

#[cfg(test)]
mod tests;
