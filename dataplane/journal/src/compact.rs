//! Compaction: of each key of a compacted partition the latest record stays, and older ones go.
//!
//! One pass at a time and shard, over one journal, in two steps. First the keys of its dirty stretch, which no pass has looked at
//! yet, are read into a map of fixed size: the newest offset of each. Then all closed extents up to the end of that stretch are
//! written anew, from the first one on, without the records that the map knows a newer one of. Writing is the job of
//! clustering, extent by extent ([`crate::cluster`]): a crash at any moment leaves an old extent or the new one, and since
//! extents are done in order, whatever a tombstone deletes is durably gone before the tombstone gets its delete horizon.
//!
//! A batch stands for all its offsets, also when it is emptied (then for those of its emptied neighbours, too): what is compacted
//! leaves no hole, so that an offset that nothing stands for is damage here as everywhere.
//!
//! An extent's header says up to where the log was looked at when it was written: what lies behind is dirty.

pub(crate) mod filter;
pub(crate) mod keys;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use base::image::{Compaction, Secret};
use base::memory::{Arena, Block};
use base::{Mono, Now, Offset, PartitionId, Position, WallMs};

use crate::cluster::{Ended, Filtering, Manner, begin_job};
use crate::compact::filter::{Counts, Rules, Scratch, Verdict};
use crate::compact::keys::{KeyMap, Share};
use crate::format::{Chain, FrameKind, FrameView, Run, UnitError, UnitPlace, UnitView};
use crate::index::SortedIndex;
use crate::journal::{Extent, Index, Journal};
use crate::partition::{Partition, Partitions};
use crate::store::{Effect, Op, Store, StoreConfig};

/// Bytes of one read: what is read is judged in one turn.
pub(crate) const STEP_BYTES: usize = 256 << 10;

/// Extents looked into in one turn, to see how much of them is dirty.
const LOOKS: usize = 4;

/// What stays of so much says what will stay of more.
const LEARNED_BYTES: u64 = 4 << 20;

/// Shares into which the keys of one extent are divided at most: 256 times what the map holds.
const SHARES_MAX: u32 = 256;

/// What was compacted in this run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionTotals {
    /// Passes that came to their end.
    pub runs: u64,
    /// Records looked at, and those of them that stayed.
    pub records_read: u64,
    /// Of those, the ones that stayed.
    pub records_kept: u64,
    /// Bytes of batches looked at.
    pub bytes_read: u64,
    /// Of those, what stayed.
    pub bytes_kept: u64,
    /// How long the last pass took.
    pub last_run_ms: u64,
    /// Bytes of closed extents that no pass has looked at, as last counted.
    pub dirty_bytes: u64,
    /// Extents and batches that the last pass had to leave as they were: damaged, or not to be inflated.
    pub uncleanable: u64,
}

/// What is known of compaction in one journal.
#[derive(Debug, Default)]
pub(crate) struct Compacting {
    /// Some partition of it is compacted.
    pub(crate) any: bool,
    /// Some record of it may not stay uncompacted for ever.
    pub(crate) bounded: bool,
    /// Nothing is looked into before.
    rest_until: Mono,
    /// Start of the dirty extent looked into next.
    look: Position,
    /// Dirty bytes of each partition in the extents looked into.
    dirty: BTreeMap<PartitionId, u64>,
    /// Some of it has waited long enough.
    overdue: bool,
    /// Where the last pass ended, and when it began.
    last: Option<(Position, WallMs)>,
    /// When the last tombstones may go that a pass has left.
    horizon: Option<WallMs>,
    dirty_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Keys are read: of the extent that begins at `extent`, from `at` on, where a unit follows on `chain`. It takes `need` bytes,
    /// where it is longer than a step.
    Keys { extent: Position, at: Position, chain: Chain, need: usize, flies: bool },
    /// Extents from `next` on are written anew; one of them is on its way.
    Filter { next: Position, working: bool },
}

impl Phase {
    /// Keys of the first extent from there on.
    const fn keys_of(extent: Position) -> Self {
        Self::Keys { extent, at: extent, chain: Chain(0), need: 0, flies: false }
    }
}

/// A pass over one journal.
#[derive(Debug)]
pub(crate) struct Pass {
    slot: u16,
    phase: Phase,
    keys: KeyMap,
    share: Share,
    /// The dirty stretch.
    from: Position,
    upto: Position,
    /// What extents written anew say: up to there all of the log was looked at.
    mark: Position,
    /// From there on a partition's records are too young.
    limits: BTreeMap<PartitionId, Offset>,
    /// Partitions with a batch that had to stay: no tombstone of theirs may go.
    stuck: BTreeSet<PartitionId>,
    /// An extent had to stay: no tombstone behind it may go.
    skipped: bool,
    /// How the extent at hand is written.
    manner: Manner,
    begun: Now,
    counts: Counts,
    uncleanable: u64,
    bytes: (u64, u64),
    scratch: Scratch,
}

impl Pass {
    /// What stays of a frame; and the bytes of it, in the scratch, where they are others.
    pub(crate) fn judge(
        &mut self,
        now: Now,
        frame: &FrameView<'_>,
        compaction: Compaction,
        config: &StoreConfig,
    ) -> (Verdict, &[u8]) {
        let id = frame.header.partition;
        let rules = Rules {
            keys: &self.keys,
            seed: config.hash_seed,
            config: compaction,
            now: now.wall,
            limit: self.limits.get(&id).copied().unwrap_or(Offset(i64::MAX)),
            complete: self.share.is_last() && !self.skipped && !self.stuck.contains(&id),
            tight: self.manner == Manner::InOrder,
        };
        let (scratch, counts) = (&mut self.scratch, &mut self.counts);
        let verdict = filter::judge(frame, &rules, &config.codecs, &config.sums, scratch, counts);
        if verdict == Verdict::Stuck {
            self.stuck.insert(id);
        }
        let left = match verdict {
            Verdict::Same | Verdict::Stuck => frame.payload.len(),
            Verdict::Changed { .. } => self.scratch.batch.len(),
        };
        self.bytes.0 += frame.payload.len() as u64;
        self.bytes.1 += left as u64;
        (verdict, &self.scratch.batch)
    }

    /// Nothing of it flies.
    pub(crate) const fn is_quiet(&self) -> bool {
        !matches!(self.phase, Phase::Keys { flies: true, .. })
    }

    /// How much stays of what was looked at: so many bytes of so many.
    pub(crate) fn share_left(&self) -> (u64, u64) {
        // At first it is not known.
        if self.bytes.0 < LEARNED_BYTES { (1, 1) } else { self.bytes_left() }
    }

    const fn bytes_left(&self) -> (u64, u64) {
        (self.bytes.1, self.bytes.0)
    }

    /// Begins with the keys of its dirty stretch.
    fn read_keys(&mut self, share: Share) {
        self.keys.clear();
        self.share = share;
        self.limits.clear();
        self.stuck.clear();
        (self.skipped, self.mark) = (false, self.upto);
        self.phase = if self.from < self.upto {
            Phase::keys_of(self.from)
        } else {
            Phase::Filter { next: Position(0), working: false }
        };
    }
}

/// How a frame of a compacted partition is compacted.
pub(crate) fn compaction_of(partition: Option<&Partition>) -> Option<Compaction> {
    partition?.config.as_ref()?.compaction
}

/// From where on nothing of a journal was looked at by a pass that came to its end.
fn dirty_from(journal: &Journal) -> Position {
    let from = |extent: &Extent| extent.compacted.max(extent.start.position);
    journal.extents.iter().map(from).min().unwrap_or(journal.end)
}

/// Whether an extent is closed for good and can be read by its footer.
fn settled(extent: &Extent, journal: &Journal) -> bool {
    let footer = matches!(extent.index, Index::Footer(_) | Index::Missing) || extent.no_footer;
    extent.end <= journal.commit && extent.footer_flies.is_none() && (footer || extent.dead.is_some())
}

impl<A: Arena> Store<A> {
    /// Counts what is dirty in a journal, and begins a pass where that is due. Once a housekeeping turn.
    pub(crate) fn plan_compaction(&mut self, now: Now, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let busy = self.compaction.is_some() || self.journals.iter().any(|journal| !journal.clustering.is_quiet());
        let journal = &mut self.journals[usize::from(slot)];
        let early = now.mono < journal.compacting.rest_until;
        let off = self.config.clustering.bytes_per_second == 0;
        let rolls = journal.roll && !journal.spare.is_empty();
        if !journal.compacting.any || off || early && !rolls || self.stopping || journal.starting {
            return;
        }
        if rolls {
            // Without an append, too. Where there is no memory now, an append or the next turn does it.
            let _ = self.reserve(now, slot, 0, false, arena);
            return;
        }
        for _ in 0..LOOKS {
            let journal = &mut self.journals[usize::from(slot)];
            let from = dirty_from(journal).max(journal.compacting.look);
            let closed = journal.extents.len().saturating_sub(1);
            let at = journal.extents.partition_point(|extent| extent.start.position < from);
            if at >= closed || !settled(&journal.extents[at], journal) {
                if !busy {
                    self.decide(now, slot);
                }
                return;
            }
            if !self.look_for_dirt(now, slot, at, arena, out) {
                return;
            }
            let journal = &mut self.journals[usize::from(slot)];
            journal.compacting.look = journal.extents[at].start.position.plus(1);
        }
    }

    /// Counts what is dirty in one extent; false where its index must be read first.
    fn look_for_dirt(&mut self, now: Now, slot: u16, at: usize, arena: &mut A, out: &mut Vec<Effect>) -> bool {
        let journal = &mut self.journals[usize::from(slot)];
        let extent = &journal.extents[at];
        let start = extent.start.position;
        if !matches!(extent.index, Index::Footer(_)) || extent.dead.is_some() {
            return true;
        }
        let Some(index) = self.cold.footer(slot, start) else {
            self.ask_for_footer(slot, at, None, arena, out);
            return false;
        };
        count_dirt(&mut journal.compacting, &self.partitions, index, start, now.wall);
        true
    }

    /// All that is dirty was counted: a pass begins, or the journal rests.
    fn decide(&mut self, now: Now, slot: u16) {
        let rest = self.config.clustering.rest_ms;
        let budget = self.config.compaction_bytes;
        let journal = &mut self.journals[usize::from(slot)];
        let state = &mut journal.compacting;
        state.look = Position(0);
        state.rest_until = now.mono.plus_ms(rest);
        let dirty = core::mem::take(&mut state.dirty);
        let overdue = core::mem::take(&mut state.overdue);
        let horizon = state.horizon.is_some_and(|horizon| horizon <= now.wall);
        state.dirty_bytes = dirty.values().sum();
        let enough = |(id, bytes): (&PartitionId, &u64)| {
            let Some(partition) = self.partitions.get(*id) else { return false };
            let Some(compaction) = compaction_of(Some(partition)) else { return false };
            let all = partition.bytes.saturating_sub(open_bytes(journal, partition)).max(*bytes).max(1);
            u128::from(*bytes) * 1_000_000 >= u128::from(all) * u128::from(compaction.dirty_ppm_min)
        };
        let due = overdue || horizon || dirty.iter().any(enough);
        if due {
            let from = dirty_from(journal);
            let behind = journal.extents.iter().take(journal.extents.len().saturating_sub(1));
            let upto =
                behind.skip_while(|extent| extent.start.position < from).find(|extent| !settled(extent, journal));
            let upto = upto.or(journal.extents.back()).map_or(from, |extent| extent.start.position);
            let mut pass = Pass {
                slot,
                phase: Phase::Filter { next: Position(0), working: false },
                keys: KeyMap::new(budget),
                share: Share::ALL,
                from,
                upto: upto.max(from),
                mark: upto,
                limits: BTreeMap::new(),
                stuck: BTreeSet::new(),
                skipped: false,
                manner: Manner::Merged,
                begun: now,
                counts: Counts::default(),
                uncleanable: 0,
                bytes: (0, 0),
                scratch: Scratch::default(),
            };
            pass.read_keys(Share::ALL);
            self.compaction = Some(Box::new(pass));
        } else if self.journals[usize::from(slot)].compacting.bounded {
            self.roll(now, slot);
        }
    }

    /// Closes the open extent where a record in it has escaped compaction for as long as it may.
    fn roll(&mut self, now: Now, slot: u16) {
        let journal = &self.journals[usize::from(slot)];
        let Some(extent) = journal.extents.back().filter(|extent| extent.end > extent.start.position) else { return };
        let Index::Open(index) = &extent.index else { return };
        let old = index.all().any(|(id, run)| {
            let lag = compaction_of(self.partitions.get(id)).map(|compaction| compaction.lag_ms_max);
            lag.is_some_and(|lag| run.max_timestamp <= WallMs(now.wall.0.saturating_sub(lag)))
        });
        if old && extent.end <= journal.commit {
            self.journals[usize::from(slot)].roll = true;
        }
    }

    /// Goes on with the pass as far as that goes without waiting.
    pub(crate) fn go_on_compaction(&mut self, now: Now, arena: &mut A, out: &mut Vec<Effect>) {
        loop {
            let per_second = self.config.clustering.bytes_per_second;
            let Some(pass) = &mut self.compaction else { return };
            let journal = &mut self.journals[usize::from(pass.slot)];
            let flies = matches!(pass.phase, Phase::Keys { flies: true, .. });
            let idle = journal.clustering.is_quiet() && !flies;
            if (self.stopping || journal.fenced.is_some()) && idle {
                self.compaction = None;
                return;
            }
            if !idle {
                return;
            }
            match pass.phase {
                Phase::Keys { .. } => {
                    if !journal.clustering.allows(now.mono, per_second) || !self.read_on(arena, out) {
                        return;
                    }
                }
                Phase::Filter { next, working: false } => {
                    if !self.next_extent_anew(now, next) {
                        return;
                    }
                }
                Phase::Filter { next, working: true } => {
                    let ended = journal.clustering.ended.take();
                    self.extent_ended(now, next, ended);
                }
            }
        }
    }

    /// Asks for the next step of the dirty stretch. False: it comes, or there is no memory for it now.
    fn read_on(&mut self, arena: &mut A, out: &mut Vec<Effect>) -> bool {
        let Some(pass) = &mut self.compaction else { return false };
        let Phase::Keys { extent, at, chain, need, .. } = pass.phase else { return false };
        let slot = pass.slot;
        let journal = &mut self.journals[usize::from(slot)];
        let number = journal.extents.partition_point(|known| known.start.position < extent);
        let known = journal.extents.get(number).filter(|known| known.start.position < pass.upto);
        let Some(known) = known else {
            pass.phase = Phase::Filter { next: Position(0), working: false };
            return true;
        };
        // What was freed since may have been the first.
        let at = at.max(known.start.position);
        if at >= known.end || known.dead.is_some() || known.unclusterable {
            let next = known.start.position.plus(1);
            pass.phase = Phase::keys_of(next);
            return true;
        }
        let chain = if at == known.start.position { known.start.chain } else { chain };
        let want = (known.end.0 - at.0).min(need.max(STEP_BYTES) as u64);
        let (device, offset) = (journal.device, known.offset(at));
        let len = usize::try_from(want).expect("a step");
        let extent = known.start.position;
        let Some(block) = self.cold_block(len, arena) else { return false };
        let Some(pass) = &mut self.compaction else { return false };
        pass.phase = Phase::Keys { extent, at, chain, need, flies: true };
        self.journals[usize::from(slot)].clustering.spend(want);
        out.push(Effect::Read { token: Op::CompactRead(slot).token(), device, offset, block, len });
        false
    }

    /// A step of the dirty stretch was read: takes its keys.
    pub(crate) fn compact_read(
        &mut self,
        slot: u16,
        block: Block,
        result: Result<(), String>,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) {
        let pass = self.compaction.as_mut().expect("a pass waits for what it asked for");
        let Phase::Keys { extent: start, at: from, chain, need, .. } = pass.phase else {
            unreachable!("only keys are read")
        };
        pass.phase = Phase::Keys { extent: start, at: from, chain, need: 0, flies: false };
        let journal = &mut self.journals[usize::from(slot)];
        let number = journal.extents.partition_point(|known| known.start.position < start);
        // Freed meanwhile: what was in it lives no more.
        if let Some(known) = journal.extents.get_mut(number).filter(|known| known.start.position == start) {
            let left = known.end.0 - from.0;
            let len = usize::try_from(left.min(need.max(STEP_BYTES) as u64)).expect("a step");
            let identity = &journal.identity;
            let place = UnitPlace {
                cluster: identity.cluster,
                journal: identity.journal,
                position: from,
                clustered: known.clustered.is_some(),
            };
            let bytes = arena.bytes(&block, 0..len);
            let taken = match result {
                Ok(()) => {
                    let from = Source { place, chain, secret: &identity.secret };
                    take_units(pass, bytes, left, from, &self.partitions, &self.config)
                }
                Err(_) => Taken::Damage,
            };
            match taken {
                Taken::Upto(at, chain) => pass.phase = Phase::Keys { extent: start, at, chain, need: 0, flies: false },
                Taken::Longer(need) => {
                    pass.phase = Phase::Keys { extent: start, at: from, chain, need, flies: false };
                }
                Taken::Damage => {
                    known.unclusterable = true;
                    let next = start.plus(1);
                    pass.phase = Phase::keys_of(next);
                }
                Taken::Full => full(pass, start, known.clustered.map_or(known.end, |upto| upto.position)),
            }
        }
        arena.free(block);
        self.cold.wake_starved(out);
    }

    /// Begins to write the next extent anew. False: the pass is over.
    fn next_extent_anew(&mut self, now: Now, next: Position) -> bool {
        let Some(pass) = &mut self.compaction else { return false };
        let journal = &mut self.journals[usize::from(pass.slot)];
        let at = journal.extents.partition_point(|extent| extent.start.position < next);
        let closed = journal.extents.len().saturating_sub(1);
        let Some(extent) =
            journal.extents.get_mut(at).filter(|extent| at < closed && extent.start.position < pass.upto)
        else {
            return self.share_ended(now);
        };
        let behind = extent.start.position.plus(1);
        if extent.dead.is_some() {
            pass.phase = Phase::Filter { next: behind, working: false };
        } else if extent.unclusterable || !matches!(extent.index, Index::Footer(_)) {
            pass.skipped = true;
            pass.uncleanable += u64::from(pass.share.is_last());
            if pass.share.is_last() {
                extent.compacted = pass.mark;
            }
            pass.phase = Phase::Filter { next: behind, working: false };
        } else {
            let mark = if pass.share.is_last() { pass.mark } else { extent.compacted };
            pass.phase = Phase::Filter { next: extent.start.position, working: true };
            // An extent that joins would say that it was looked at for all keys.
            let upto = if pass.share == Share::ALL { pass.upto } else { Position(0) };
            let filtering = Filtering { mark, upto, manner: pass.manner };
            begin_job(journal, at, at + 1, Some(filtering));
        }
        true
    }

    /// The extent at `next` was written anew, or not.
    fn extent_ended(&mut self, now: Now, next: Position, ended: Option<Ended>) {
        let Some(pass) = &mut self.compaction else { return };
        let manner = core::mem::replace(&mut pass.manner, Manner::Merged);
        let behind = next.plus(1);
        let mark = pass.mark;
        let journal = &mut self.journals[usize::from(pass.slot)];
        let left = journal.extents.iter_mut().find(|extent| extent.start.position == next);
        let next = match ended {
            Some(Ended::Done { upto }) => upto,
            Some(Ended::TooLong) if manner != Manner::InOrder => {
                pass.manner = if manner == Manner::Merged { Manner::Alone } else { Manner::InOrder };
                next
            }
            Some(Ended::TooLong) => {
                pass.skipped = true;
                pass.uncleanable += 1;
                left.into_iter().for_each(|extent| extent.compacted = mark);
                behind
            }
            Some(Ended::Nothing) => behind,
            // Looked at again: it is marked now.
            Some(Ended::Damaged) => next,
            // No memory, or no extent: later.
            Some(Ended::Later) | None => {
                let journal = &mut self.journals[usize::from(pass.slot)];
                journal.compacting.rest_until = now.mono.plus_ms(self.config.clustering.rest_ms);
                self.compaction = None;
                return;
            }
        };
        pass.phase = Phase::Filter { next, working: false };
    }

    /// All extents were written anew for one share of the keys. False: for all of them.
    fn share_ended(&mut self, now: Now) -> bool {
        let Some(pass) = &mut self.compaction else { return false };
        if !pass.share.is_last() {
            let share = Share { number: pass.share.number + 1, ..pass.share };
            pass.read_keys(share);
            return true;
        }
        let state = &mut self.journals[usize::from(pass.slot)].compacting;
        state.last = Some((pass.upto, pass.begun.wall));
        state.horizon = pass.counts.horizon;
        state.dirty_bytes = 0;
        // There may be more, for which there was no room.
        state.rest_until = now.mono;
        self.compacted.runs += 1;
        self.compacted.records_read += pass.counts.records_read;
        self.compacted.records_kept += pass.counts.records_kept;
        self.compacted.bytes_read += pass.bytes.0;
        self.compacted.bytes_kept += pass.bytes.1;
        self.compacted.last_run_ms = now.mono.since(pass.begun.mono) / 1_000_000;
        self.compacted.uncleanable = pass.uncleanable + pass.counts.opaque;
        self.compaction = None;
        false
    }

    /// What was compacted in this run, and what is dirty.
    #[must_use]
    pub fn compaction(&self) -> CompactionTotals {
        let dirty_bytes = self.journals.iter().map(|journal| journal.compacting.dirty_bytes).sum();
        CompactionTotals { dirty_bytes, ..self.compacted }
    }
}

/// There is no room for the keys of the extent that begins at `start`: the pass ends before it, or takes it in shares.
fn full(pass: &mut Pass, start: Position, behind: Position) {
    if start > pass.from {
        // Keys of it that are in the map already are those of committed records: what is older may go.
        pass.upto = start;
        pass.mark = pass.mark.min(start);
        pass.phase = Phase::Filter { next: Position(0), working: false };
    } else {
        pass.upto = behind;
        let of = (pass.share.of * 2).min(SHARES_MAX);
        if of == pass.share.of {
            // More keys than can be: those that found room are compacted.
            pass.phase = Phase::Filter { next: Position(0), working: false };
        } else {
            pass.read_keys(Share { number: 0, of });
        }
    }
}

/// How far the keys of a step were taken.
enum Taken {
    Upto(Position, Chain),
    /// The first unit takes that many bytes.
    Longer(usize),
    Damage,
    Full,
}

/// Where a step of units was read.
struct Source<'a> {
    place: UnitPlace,
    /// What the first chains to.
    chain: Chain,
    secret: &'a Secret,
}

fn take_units(
    pass: &mut Pass,
    bytes: &[u8],
    left: u64,
    Source { place, mut chain, secret }: Source<'_>,
    partitions: &Partitions,
    config: &StoreConfig,
) -> Taken {
    let from = place.position;
    let mut at = 0;
    while at < bytes.len() {
        let place = UnitPlace { position: from.plus(at as u64), ..place };
        let view = match UnitView::check(&bytes[at..], secret, &config.sums, &place) {
            // One that a crash cut off may lie where a write never came to be that the device had reported.
            Ok(view) if view.header().chain != chain => return Taken::Damage,
            Ok(view) => view,
            Err(UnitError::Short { need }) if at == 0 && need as u64 <= left => return Taken::Longer(need),
            Err(UnitError::Short { need }) if at > 0 && (at + need) as u64 <= left => break,
            Err(_) => return Taken::Damage,
        };
        for frame in view.frames().filter(|frame| frame.header.kind == FrameKind::Records) {
            let partition = partitions.get(frame.header.partition);
            let Some(compaction) = compaction_of(partition) else { continue };
            if partition.is_none_or(|partition| frame.header.last_offset() < partition.kept_from()) {
                continue;
            }
            if !frame.is_intact(&config.sums) {
                return Taken::Damage;
            }
            let stamp = frame.header.max_timestamp;
            let time = if stamp.0 < 0 { view.header().wall } else { stamp };
            let young = time.0 > pass.begun.wall.0.saturating_sub(compaction.lag_ms_min) && compaction.lag_ms_min > 0;
            if young || pass.limits.contains_key(&frame.header.partition) {
                pass.limits.entry(frame.header.partition).or_insert(frame.header.base_offset);
                if let Phase::Keys { extent, .. } = pass.phase {
                    pass.mark = pass.mark.min(extent);
                }
                continue;
            }
            let how = (config.hash_seed, pass.share);
            if filter::take_keys(&frame, &mut pass.keys, how, &config.codecs, &mut pass.scratch).is_err() {
                return Taken::Full;
            }
        }
        at += view.header().bytes();
        chain = view.chain();
    }
    Taken::Upto(from.plus(at as u64), chain)
}

/// Adds up what of an extent's index is dirty.
fn count_dirt(state: &mut Compacting, partitions: &Partitions, index: &SortedIndex, start: Position, now: WallMs) {
    for place in index.places() {
        let partition = partitions.get(place.partition);
        let (Some(compaction), Some(partition)) = (compaction_of(partition), partition) else { continue };
        let (lag, lag_max) = (compaction.lag_ms_min, compaction.lag_ms_max);
        let old = |run: &Run, lag: i64| run.max_timestamp <= WallMs(now.0.saturating_sub(lag));
        // What the last pass passed over since it was too young, or what came after it.
        let last = state.last.filter(|(upto, _)| start < *upto);
        let fresh = |run: &Run| match last {
            Some((_, wall)) => lag > 0 && run.max_timestamp > WallMs(wall.0.saturating_sub(lag)),
            None => true,
        };
        // Without records there is nothing to be compacted.
        let holds = |run: &&Run| run.last >= partition.kept_from() && run.max_timestamp.0 != i64::MIN;
        for run in index.runs_of(place).iter().filter(holds).filter(|run| fresh(run)) {
            if lag == 0 || old(run, lag) {
                *state.dirty.entry(place.partition).or_default() += u64::from(run.bytes);
                state.overdue |= old(run, lag_max);
            }
        }
    }
}

/// Bytes of a partition in the open extent.
fn open_bytes(journal: &Journal, partition: &Partition) -> u64 {
    let Some(extent) = journal.extents.back() else { return 0 };
    match &extent.index {
        Index::Open(index) if partition.run.extent == extent.start.position => {
            index.backward(partition.run.slot).map(|run| u64::from(run.bytes)).sum()
        }
        Index::Open(_) | Index::Closed(_) | Index::Footer(_) | Index::Missing => 0,
    }
}

#[cfg(test)]
mod tests;
