//! Clustering: what outlived the rest of a closed, committed stretch of a journal is written anew, by partition, into one
//! extent that stands for the whole stretch.
//!
//! One stretch at a time and shard, at a bounded rate, in this order, so that a crash at any moment leaves either the old
//! extents or the new one:
//! 1. an extent is taken and its header page is blanked, durably: what an earlier life left there is nobody's;
//! 2. the stretch is read; record frames that live are gathered as they are, and each time enough of them are, they are
//!    written in units, by partition, at positions from the stretch's start on;
//! 3. the footer is written; a flush covers all of it;
//! 4. states that the stretch's frames were the newest word of are appended to the journal anew, log starts twice, and
//!    committed;
//! 5. the header is written, and flushed: from now on the extent stands for the stretch, and the old ones are free.
//!
//! A stretch with damage is left alone: damage stays where it is, and is told.
//!
//! Of partitions that are compacted, a pass of compaction ([`crate::compact`]) has stretches written in the same way without the
//! records that went.

mod job;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use base::memory::{Arena, Block, Purpose};
use base::{Mono, Now, Position};

use crate::append::entry_of;
use crate::cluster::job::{Job, Step};
use crate::compact::compaction_of;
use crate::compact::filter::Verdict;
use crate::format::{
    ExtentHeader, Footer, FrameHeader, FrameKind, SECTOR, UnitError, UnitHeader, UnitPlace, UnitView, aligned, sectors,
};
use crate::index::{OpenIndex, RunRef, SortedIndex};
use crate::journal::{Extent, Index, Journal, Stage};
use crate::partition::{Partition, Partitions};
use crate::store::{Durability, Effect, ExtentAddress, Op, Store};

/// Bytes of one read or write.
const STEP_BYTES: usize = 1 << 20;

/// A unit is closed at this size, so that little is read around a run.
const UNIT_BYTES: usize = 64 << 10;

/// A partition's records begin a unit of their own when the one before holds so much: padding then costs an eighth at most.
const UNIT_BYTES_MIN: usize = 16 << 10;

/// Extents looked into in one turn, to see what of them lives.
const LOOKS: usize = 4;

/// Partitions looked at in one turn for states to be appended anew.
const STATES: u32 = 2000;

/// Bounds of clustering, from the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Frames gathered before they are written by partition: the larger, the longer the runs that a cold reader finds.
    pub gather_bytes: usize,
    /// Bytes read and written per second at most; 0: nothing is clustered.
    pub bytes_per_second: u64,
    /// After all extents were looked into, how long nothing is.
    pub rest_ms: u64,
}

/// Clustering in one journal.
#[derive(Debug, Default)]
pub(crate) struct Clustering {
    /// Start of the extent looked into next.
    next: Position,
    /// Nothing is looked into before.
    rest_until: Mono,
    job: Option<Job>,
    /// Bytes that its partitions retain, as the last pass over them counted, and as this one has so far.
    retained: Option<u64>,
    counted: u64,
    /// Bytes that the bound allows now, and since when.
    allowance: u64,
    allowed_at: Mono,
    /// What became of the last stretch that compaction asked for.
    pub(crate) ended: Option<Ended>,
}

/// How a stretch is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filtering {
    /// What its header says was looked at.
    pub(crate) mark: Position,
    /// Extents that begin before may join, as long as what stays of them fits in.
    pub(crate) upto: Position,
    /// How frames lie in the new extent.
    pub(crate) manner: Manner,
}

/// How frames of a compacted stretch lie in the new extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// By partition, with those of the next extents as long as they seem to fit.
    Merged,
    /// By partition, of one extent.
    Alone,
    /// Of one extent, in the units that they were in: that never takes more than it did.
    InOrder,
}

/// What became of a stretch that compaction asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It is in place; the journal goes on there.
    Done { upto: Position },
    /// It takes more than there is.
    TooLong,
    /// Nothing in it lives.
    Nothing,
    /// Something in it is damaged.
    Damaged,
    /// It was given up for now.
    Later,
}

/// Why a stretch is given up, where it is not damaged.
const TOO_LONG: &str = "it takes more than an extent";
const NOTHING: &str = "nothing to be clustered";

impl Clustering {
    /// Nothing flies.
    pub(crate) fn is_quiet(&self) -> bool {
        self.job.is_none()
    }
}

/// The bytes a frame takes in a unit.
const fn frame_bytes(payload: usize) -> usize {
    FrameHeader::BYTES + aligned(payload)
}

impl<A: Arena> Store<A> {
    /// Looks for a stretch that is worth clustering. Once a housekeeping turn.
    pub(crate) fn plan_clustering(&mut self, now: Now, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let busy = self.compaction.is_some() || self.journals.iter().any(|journal| journal.clustering.job.is_some());
        let journal = &self.journals[usize::from(slot)];
        let early = now.mono < journal.clustering.rest_until;
        if self.config.clustering.bytes_per_second == 0 || busy || early || self.stopping || journal.starting {
            return;
        }
        let Some(len) = journal.extents.back().map(|extent| extent.address.len) else { return };
        let Some(retained) = journal.clustering.retained else { return };
        // Headers and padding, the extent being written, and one half empty at either end. On a full device any two that become
        // one are worth it.
        let needed = retained + retained / 4 + 3 * len;
        if journal.extents.len() as u64 * len <= needed && journal.full_until.is_none() {
            return;
        }
        let rest = self.config.clustering.rest_ms;
        for _ in 0..LOOKS {
            let journal = &mut self.journals[usize::from(slot)];
            let closed = journal.extents.len().saturating_sub(1);
            let at = journal.extents.partition_point(|extent| extent.start.position < journal.clustering.next);
            if at >= closed {
                // All of it was looked into: again in a while.
                journal.clustering.next = Position(0);
                journal.clustering.rest_until = now.mono.plus_ms(rest);
                self.choose_stretch(slot, len);
                return;
            }
            if !self.measure(slot, at, arena, out) {
                return;
            }
            let journal = &mut self.journals[usize::from(slot)];
            journal.clustering.next = journal.extents[at].start.position.plus(1);
        }
    }

    /// How many bytes of a closed extent live; false where its index must be read first.
    fn measure(&mut self, slot: u16, at: usize, arena: &mut A, out: &mut Vec<Effect>) -> bool {
        let journal = &self.journals[usize::from(slot)];
        let extent = &journal.extents[at];
        let (start, commit) = (extent.start.position, journal.commit);
        let clusterable = extent.end <= commit && extent.dead.is_none() && extent.footer_flies.is_none();
        if !clusterable {
            return true;
        }
        let index = match &extent.index {
            Index::Closed(index) => index,
            Index::Footer(_) => match self.cold.footer(slot, start) {
                Some(index) => index,
                None => {
                    self.ask_for_footer(slot, at, None, arena, out);
                    return false;
                }
            },
            Index::Open(_) | Index::Missing => return true,
        };
        let live = living_bytes(slot, index, &self.partitions);
        let extent = &mut self.journals[usize::from(slot)].extents[at];
        if extent.live.is_none_or(|before| before > live) {
            extent.live = Some(live);
        }
        true
    }

    /// Begins with the first stretch of extents whose living bytes fit into one.
    fn choose_stretch(&mut self, slot: u16, len: u64) {
        let journal = &mut self.journals[usize::from(slot)];
        // Room for header, footer and padding.
        let most = len - len / 8 - 2 * SECTOR as u64;
        let closed = journal.extents.len().saturating_sub(1);
        let full = journal.full_until.is_some();
        let (mut begin, mut sum) = (0, 0);
        for at in 0..=closed {
            let live = journal.extents.get(at).filter(|extent| at < closed && fits(extent, journal.commit));
            let live = live.and_then(|extent| extent.live).map(|live| live + live / 16 + SECTOR as u64);
            if let Some(live) = live
                && sum + live <= most
            {
                sum += live;
                continue;
            }
            let worth = at - begin >= 2 && (full || sum * 2 >= most || at - begin >= 4 || at < closed);
            if worth && sum > 0 {
                if full && !journal.has_control_room() {
                    // First: with the last extent in its hands and no room for the states that must follow, it would wait
                    // for ever.
                    journal.cleaning_due = true;
                    journal.clustering.rest_until = Mono(0);
                    return;
                }
                begin_job(journal, begin, at, None);
                return;
            }
            (begin, sum) = match live {
                Some(live) if live <= most => (at, live),
                _ => (at + 1, 0),
            };
        }
    }

    /// Goes on with a journal's stretch as far as that goes without waiting.
    pub(crate) fn go_on_clustering(&mut self, now: Now, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        loop {
            let per_second = self.config.clustering.bytes_per_second;
            let stopping = self.stopping;
            let journal = &mut self.journals[usize::from(slot)];
            journal.clustering.refill(now.mono, per_second);
            let allowed = journal.clustering.allowance > 0;
            let (fenced, frames_end) = (journal.fenced.is_some(), journal.frames_end());
            let Some(job) = &mut journal.clustering.job else { return };
            if stopping || fenced {
                job.given_up.get_or_insert_with(String::new);
            }
            if job.given_up.is_some() {
                if !job.waits() {
                    self.give_up_clustering(slot, arena, out);
                }
                return;
            }
            match &job.step {
                Step::Extent if job.address.is_some() => self.write_page(slot, None, arena, out),
                Step::Blank(Stage::Durable) => job.step = Step::Gather,
                Step::Gather if !allowed => return,
                Step::Gather => self.gather(now, slot, arena, out),
                Step::Body(Stage::Durable) => job.step = Step::States(0),
                Step::States(_) => {
                    if !self.append_states(now, slot, arena) {
                        self.give_way(now, slot);
                        return;
                    }
                }
                Step::Committed(frames) => {
                    if journal.folded < *frames || !journal.starts_due.is_empty() {
                        return;
                    }
                    job.step = Step::Restated(frames_end);
                }
                Step::Restated(frames) => {
                    if journal.folded < *frames {
                        return;
                    }
                    let header = job.header(&journal.identity, job.address.expect("taken first"));
                    self.write_page(slot, Some(header), arena, out);
                }
                Step::Header(Stage::Durable) => job.step = Step::Done,
                Step::Done => {
                    self.put_in_place(slot, arena);
                    return;
                }
                Step::Extent
                | Step::Blank(_)
                | Step::Read
                | Step::Write
                | Step::Footer
                | Step::Body(_)
                | Step::Header(_) => return,
            }
        }
    }

    /// States find no room: where none is to be had, what was taken for the stretch goes back, and others may free some.
    fn give_way(&mut self, now: Now, slot: u16) {
        let journal = &self.journals[usize::from(slot)];
        if journal.full_until.is_some() && now.mono < journal.cleaning_until && journal.cleaning_spare.is_none() {
            self.fail_clustering(slot, String::new());
        }
    }

    /// An extent for the stretch, or none.
    pub(crate) fn cluster_extent(&mut self, slot: u16, extent: Option<ExtentAddress>, out: &mut Vec<Effect>) {
        let job = self.journals[usize::from(slot)].clustering.job.as_mut();
        match (job, extent) {
            (Some(job), Some(extent)) if matches!(job.step, Step::Extent) && job.address.is_none() => {
                job.address = Some(extent);
            }
            (Some(job), None) => job.given_up = Some(String::new()),
            (_, extent) => out.extend(extent.map(|extent| Effect::FreeExtent { extent })),
        }
    }

    /// Whether an extent is to be asked for.
    pub(crate) fn wants_cluster_extent(&self, slot: u16) -> bool {
        let job = self.journals[usize::from(slot)].clustering.job.as_ref();
        job.is_some_and(|job| matches!(job.step, Step::Extent) && job.address.is_none() && job.given_up.is_none())
    }

    /// Writes the extent's header page: blank, or as it stands in the end.
    fn write_page(&mut self, slot: u16, header: Option<ExtentHeader>, arena: &mut A, out: &mut Vec<Effect>) {
        let Some(block) = self.cold_block(SECTOR, arena) else {
            self.fail_clustering(slot, String::new());
            return;
        };
        let page = arena.bytes_mut(&block, 0..SECTOR);
        page.fill(0);
        if let Some(header) = &header {
            header.encode(&self.config.sums, page.first_chunk_mut().expect("a sector"));
        }
        let job = self.journals[usize::from(slot)].clustering.job.as_mut().expect("the caller has it");
        job.step = if header.is_some() { Step::Header(Stage::Writing) } else { Step::Blank(Stage::Writing) };
        let offset = job.address.expect("taken first").offset;
        self.submit_cluster_write(slot, block, SECTOR, offset, arena, out);
    }

    fn submit_cluster_write(
        &mut self,
        slot: u16,
        block: Block,
        len: usize,
        offset: u64,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) {
        arena.freeze(&block, len);
        let journal = &mut self.journals[usize::from(slot)];
        journal.clustering.allowance = journal.clustering.allowance.saturating_sub(len as u64);
        out.push(Effect::Write {
            token: Op::ClusterWrite(slot).token(),
            device: journal.device,
            offset,
            arena_start: block.start,
            len,
            fua: self.lanes[usize::from(journal.device.0)].durability == Durability::Fua,
        });
        journal.clustering.job.as_mut().expect("the caller has it").block = Some(block);
    }

    /// Reads on, or writes what was gathered, or ends with the footer.
    fn gather(&mut self, now: Now, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let enough = self.config.clustering.gather_bytes;
        let journal = &mut self.journals[usize::from(slot)];
        let job = journal.clustering.job.as_mut().expect("the caller has it");
        let read_all = job.reading.0 >= job.extents.len();
        if job.written > 0 && job.written == job.frames.len() {
            job.gathered.clear();
            job.frames.clear();
            job.written = 0;
        }
        let full = job.written > 0 || job.gathered.len() >= enough || read_all && !job.frames.is_empty();
        if read_all && job.written == 0 && self.join_next_extent(slot) {
            return;
        }
        let job = self.journals[usize::from(slot)].clustering.job.as_mut().expect("the caller has it");
        if full {
            if job.written == 0 && !job.in_order() {
                job.frames.sort_unstable_by_key(|frame| (frame.header.partition, frame.header.base_offset));
                job.merge_empty(&self.config.sums);
            }
            self.write_units(now, slot, arena, out);
        } else if read_all {
            self.write_cluster_footer(slot, arena, out);
        } else {
            let (number, at) = job.reading;
            let (start, end, _) = job.extents[number];
            let want = (end.0 - at.0).min(job.need.max(job.step_bytes()) as u64);
            let journal = &mut self.journals[usize::from(slot)];
            let Some(extent) = journal.extents.iter().find(|extent| extent.start.position == start) else {
                self.fail_clustering(slot, String::from("an extent of the stretch went"));
                return;
            };
            let (offset, len) = (extent.offset(at), usize::try_from(want).expect("a step"));
            let device = journal.device;
            journal.clustering.allowance = journal.clustering.allowance.saturating_sub(want);
            let Some(block) = self.cold_block(len, arena) else {
                self.fail_clustering(slot, String::new());
                return;
            };
            out.push(Effect::Read { token: Op::ClusterRead(slot).token(), device, offset, block, len });
            let job = self.journals[usize::from(slot)].clustering.job.as_mut().expect("the caller has it");
            job.step = Step::Read;
        }
    }

    /// All of a stretch that is compacted was read: the next extent joins it where what stays of both seems to fit in one.
    fn join_next_extent(&mut self, slot: u16) -> bool {
        let left = self.compaction.as_ref().map_or((1, 1), |pass| pass.share_left());
        let journal = &mut self.journals[usize::from(slot)];
        let commit = journal.commit;
        let Some(job) = &mut journal.clustering.job else { return false };
        let Some(filter) = job.filter.filter(|filter| filter.manner == Manner::Merged) else { return false };
        let at = journal.extents.partition_point(|extent| extent.start.position < job.upto.position);
        let Some(upto) = journal.extents.get(at + 1).map(|behind| behind.start) else { return false };
        let extent = &mut journal.extents[at];
        if extent.start.position >= filter.upto || !fits(extent, commit) {
            return false;
        }
        let Some(index) = self.cold.peek_footer(slot, extent.start.position) else { return false };
        let live = living_bytes(slot, index, &self.partitions);
        let stays = u64::try_from(u128::from(live) * u128::from(left.0) / u128::from(left.1)).unwrap_or(live);
        let len = extent.address.len;
        let most = len - len / 8 - 2 * SECTOR as u64;
        let used = job.end.0 - job.start.position.0 + job.gathered.len() as u64;
        if used + used / 16 + stays + stays / 8 + SECTOR as u64 > most {
            return false;
        }
        extent.held = true;
        job.reading = (job.extents.len(), extent.start.position);
        job.before = extent.start.chain;
        job.extents.push((extent.start.position, extent.end, extent.clustered.is_some()));
        job.upto = upto;
        true
    }

    /// A part of the stretch was read: gathers what lives.
    pub(crate) fn cluster_read(
        &mut self,
        now: Now,
        slot: u16,
        block: Block,
        result: Result<(), String>,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) {
        let sums = self.config.sums;
        let journal = &mut self.journals[usize::from(slot)];
        let identity = &journal.identity;
        let job = journal.clustering.job.as_mut().expect("it was asked for");
        job.step = Step::Gather;
        let (number, from) = job.reading;
        let (_, end, clustered) = job.extents[number];
        let left = end.0 - from.0;
        let len = usize::try_from(left.min(job.need.max(job.step_bytes()) as u64)).expect("a step");
        let mut at = 0;
        let mut failed = result.err();
        let bytes = arena.bytes(&block, 0..len);
        job.need = 0;
        while failed.is_none() && at < len {
            let position = from.plus(at as u64);
            let place = UnitPlace { cluster: identity.cluster, journal: identity.journal, position, clustered };
            match UnitView::check(&bytes[at..], &identity.secret, &sums, &place) {
                // One that a crash cut off may lie where a write never came to be that the device had reported.
                Ok(view) if view.header().chain != job.before => failed = Some(String::from("damage in the stretch")),
                Ok(view) => {
                    job.before = view.chain();
                    for frame in view.frames() {
                        let partition = self.partitions.get_in(slot, frame.header.partition);
                        let kept = partition.map(Partition::kept_from);
                        let lives = frame.header.kind == FrameKind::Records
                            && kept.is_some_and(|kept| frame.header.last_offset() >= kept);
                        if !frame.is_intact(&sums) {
                            failed = Some(String::from("damage in the stretch"));
                        } else if lives {
                            let begin = at + frame.at;
                            let whole = &bytes[begin..begin + frame_bytes(frame.header.length as usize)];
                            let came = (view.header().wall, position);
                            let compaction = compaction_of(partition).filter(|_| job.filter.is_some());
                            let judged = match (compaction, self.compaction.as_mut()) {
                                (Some(compaction), Some(pass)) => {
                                    Some(pass.judge(now, &frame, compaction, &self.config))
                                }
                                _ => None,
                            };
                            match judged {
                                Some((Verdict::Changed { records, max_timestamp }, batch)) => {
                                    let length = u32::try_from(batch.len()).expect("about as long as it was");
                                    let header = FrameHeader {
                                        records,
                                        max_timestamp,
                                        length,
                                        payload: (sums.crc64)(0, batch),
                                        ..frame.header
                                    };
                                    if kept
                                        .is_some_and(|_| partition.is_some_and(|p| header.last_offset() >= p.counted))
                                    {
                                        *job.saved.entry(header.partition).or_default() +=
                                            i64::from(frame.header.length) - i64::from(length);
                                    }
                                    job.gather(header, came, batch, &sums);
                                }
                                Some((Verdict::Same | Verdict::Stuck, _)) | None => {
                                    job.gather_whole(frame.header, came, whole)
                                }
                            }
                        }
                    }
                    at += view.header().bytes();
                }
                Err(UnitError::Short { need }) if at == 0 && need as u64 <= left => {
                    job.need = need;
                    break;
                }
                Err(UnitError::Short { need }) if at > 0 && (at + need) as u64 <= left => break,
                Err(_) => failed = Some(String::from("damage in the stretch")),
            }
        }
        arena.free(block);
        job.reading.1 = from.plus(at as u64);
        if at as u64 == left {
            job.reading = (number + 1, job.extents.get(number + 1).map_or(Position(0), |next| next.0));
            let next = journal.extents.iter().find(|extent| extent.start.position == job.reading.1);
            job.before = next.map_or(job.before, |next| next.start.chain);
        }
        if let Some(reason) = failed {
            self.fail_clustering(slot, reason);
        }
        self.cold.wake_starved(out);
    }

    /// Writes gathered frames in units, as many as a step holds.
    fn write_units(&mut self, now: Now, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let most = {
            let job = self.journals[usize::from(slot)].clustering.job.as_ref().expect("the caller has it");
            let next = job.frames[job.written].len;
            (sectors(UnitHeader::BYTES + next)).max(STEP_BYTES)
        };
        let Some(block) = self.cold_block(most, arena) else {
            self.fail_clustering(slot, String::new());
            return;
        };
        let sums = self.config.sums;
        let journal = &mut self.journals[usize::from(slot)];
        let identity = &journal.identity;
        let job = journal.clustering.job.as_mut().expect("the caller has it");
        let address = job.address.expect("taken first");
        let offset = address.offset + SECTOR as u64 + (job.end.0 - job.start.position.0);
        let mut used = 0;
        while let Some(count) = job.next_unit(most - used) {
            let frames = job.frames[job.written..job.written + count].to_vec();
            let length = UnitHeader::BYTES + frames.iter().map(|frame| frame.len).sum::<usize>();
            let total = sectors(length);
            let bytes = arena.bytes_mut(&block, used..used + total);
            let (mut at, mut body) = (UnitHeader::BYTES, 0);
            for frame in &frames {
                let whole = &job.gathered[frame.at..frame.at + frame.len];
                bytes[at..at + frame.len].copy_from_slice(whole);
                body = (sums.crc64)(body, &whole[..FrameHeader::BYTES]);
                at += frame.len;
            }
            bytes[at..].fill(0);
            let header = UnitHeader {
                cluster: identity.cluster,
                journal: identity.journal,
                position: job.end,
                length: u32::try_from(length).expect("a unit is at most 16 MiB"),
                padding: u32::try_from(total - length).expect("less than a sector"),
                epoch: job.upto.epoch,
                frames: u32::try_from(count).expect("fewer than its bytes"),
                chain: job.chain,
                commit: job.upto.position,
                // Records without a timestamp go on expiring by the time they came.
                wall: frames.iter().map(|frame| frame.wall).max().unwrap_or(now.wall),
                flags: UnitHeader::CLUSTERED,
                key_id: 0,
                body,
            };
            job.chain = header.encode(&identity.secret, bytes);
            let end = header.end();
            for frame in &frames {
                let newest = job.runs.entry(frame.header.partition).or_insert(RunRef::NONE);
                let entry = entry_of(&frame.header, job.end, end, frame.wall);
                job.index.add(job.start.position, newest, entry, frame.wall);
            }
            job.written += count;
            job.end = end;
            used += total;
        }
        let room = address.len - SECTOR as u64 - job.index.footer_bytes() as u64;
        if job.end.0 - job.start.position.0 > room || job.end > job.upto.position || used == 0 {
            arena.free(block);
            self.fail_clustering(slot, String::from(TOO_LONG));
            return;
        }
        job.step = Step::Write;
        self.submit_cluster_write(slot, block, used, offset, arena, out);
    }

    fn write_cluster_footer(&mut self, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let journal = &mut self.journals[usize::from(slot)];
        let id = journal.id();
        let job = journal.clustering.job.as_mut().expect("the caller has it");
        let address = job.address.expect("taken first");
        let footer = Footer {
            journal: id,
            generation: address.generation,
            start: job.start.position,
            end: job.end,
            epoch: job.upto.epoch,
            chain: job.chain,
            newest_control: job.end,
            entries: job.index.sorted().entries(),
        };
        let bytes = footer.encode(&self.config.sums);
        job.footer_len = u32::try_from(bytes.len()).expect("shorter than its extent");
        let nothing = job.end == job.start.position;
        let fits = SECTOR as u64 + (job.end.0 - job.start.position.0) + bytes.len() as u64 <= address.len;
        if nothing || !fits {
            // What is wholly dead goes by itself.
            self.fail_clustering(slot, String::from(if nothing { NOTHING } else { TOO_LONG }));
            return;
        }
        let Some(block) = self.cold_block(bytes.len(), arena) else {
            self.fail_clustering(slot, String::new());
            return;
        };
        arena.bytes_mut(&block, 0..bytes.len()).copy_from_slice(&bytes);
        let job = self.journals[usize::from(slot)].clustering.job.as_mut().expect("the caller has it");
        job.step = Step::Footer;
        let offset = address.offset + address.len - bytes.len() as u64;
        self.submit_cluster_write(slot, block, bytes.len(), offset, arena, out);
    }

    /// A write of the stretch is complete.
    pub(crate) fn cluster_written(&mut self, slot: u16, result: Result<(), String>, arena: &mut A) {
        let journal = &mut self.journals[usize::from(slot)];
        let lane = &mut self.lanes[usize::from(journal.device.0)];
        let stage = if lane.durability == Durability::Flush { Stage::Written } else { Stage::Durable };
        let job = journal.clustering.job.as_mut().expect("it was submitted");
        arena.free(job.block.take().expect("it was submitted"));
        job.step = match job.step {
            Step::Blank(_) => Step::Blank(stage),
            Step::Footer => Step::Body(stage),
            Step::Header(_) => Step::Header(stage),
            _ => Step::Gather,
        };
        if matches!(job.step, Step::Blank(Stage::Written) | Step::Body(Stage::Written) | Step::Header(Stage::Written)) {
            lane.wait(slot);
        }
        if let Err(reason) = result {
            self.fail_clustering(slot, reason);
        }
    }

    /// Appends the states of partitions whose newest word lies in the stretch. False: there was no room, come again.
    fn append_states(&mut self, now: Now, slot: u16, arena: &mut A) -> bool {
        let slots = self.partitions.slots();
        let job = self.journals[usize::from(slot)].clustering.job.as_ref().expect("the caller has it");
        let Step::States(from) = job.step else { return true };
        let end = job.upto.position;
        let to = slots.min(from.saturating_add(STATES));
        for number in from..to {
            let Some(partition) = self.partitions.at(number).filter(|partition| partition.journal == slot) else {
                continue;
            };
            let newest_goes = partition.newest < end;
            let start_goes = partition.moved.is_some_and(|moved| moved < end);
            let producers_go = partition.has_producers() && partition.snapshotted < end;
            let id = partition.id;
            if (newest_goes || start_goes || producers_go) && self.snapshot(now, slot, id, arena).is_err() {
                self.set_cluster_step(slot, Step::States(number));
                return false;
            }
        }
        let journal = &self.journals[usize::from(slot)];
        let step = if to == slots { Step::Committed(journal.frames_end()) } else { Step::States(to) };
        self.set_cluster_step(slot, step);
        to == slots
    }

    fn set_cluster_step(&mut self, slot: u16, step: Step) {
        self.journals[usize::from(slot)].clustering.job.as_mut().expect("the caller has it").step = step;
    }

    /// The new extent takes the place of the old ones.
    fn put_in_place(&mut self, slot: u16, arena: &mut A) {
        let journal = &mut self.journals[usize::from(slot)];
        let Some(job) = journal.clustering.job.take() else { return };
        let (start, upto) = (job.start.position, job.upto.position);
        let first = journal.extents.partition_point(|extent| extent.start.position < start);
        let behind = journal.extents.partition_point(|extent| extent.start.position < upto);
        assert_eq!(behind - first, job.extents.len(), "extents that are being clustered stay");
        for extent in journal.extents.drain(first..behind) {
            if extent.start.position != start {
                journal.checkpoint.freed.push(extent.start.position);
            }
            journal.checkpoint.leaving.push(extent.address);
            self.cold.forget(slot, extent.start.position, extent.end, arena);
        }
        let address = job.address.expect("taken first");
        let mut extent = Extent::new(address, job.start, (job.upto.epoch, job.chain));
        extent.end = job.end;
        extent.index = Index::Footer(job.footer_len);
        extent.clustered = Some(job.upto);
        extent.compacted = job.mark;
        journal.extents.insert(first, extent);
        self.cold.add_footer(slot, start, job.index.sorted(), self.config.footer_cache_bytes);
        self.lookups.iter_mut().for_each(|lookup| lookup.clustered(start, upto));
        self.searches.iter_mut().for_each(|search| search.clustered(start, upto));
        self.clustered_extents += job.extents.len() as u64;
        if job.filter.is_some() {
            self.journals[usize::from(slot)].clustering.ended = Some(Ended::Done { upto });
            // The tail's memory still has what went.
            let held = |journal: &Journal| journal.chunks.front().is_some_and(|chunk| chunk.end <= upto);
            while held(&self.journals[usize::from(slot)]) && self.evict_chunk_of(usize::from(slot), arena) {}
        }
        for (id, saved) in job.saved {
            let Some(number) = self.partitions.slot_in(slot, id) else { continue };
            let partition = self.partitions.at_mut(number).expect("the table names it");
            partition.bytes = partition.bytes.saturating_add_signed(-saved);
            self.mark(number);
        }
    }

    fn fail_clustering(&mut self, slot: u16, reason: String) {
        if let Some(job) = &mut self.journals[usize::from(slot)].clustering.job {
            job.given_up = Some(reason);
        }
    }

    /// Leaves the old extents as they are. Those with damage are not tried again in this run.
    fn give_up_clustering(&mut self, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let journal = &mut self.journals[usize::from(slot)];
        let Some(mut job) = journal.clustering.job.take() else { return };
        let reason = job.given_up.take().unwrap_or_default();
        let ended = match reason.as_str() {
            "" => Ended::Later,
            TOO_LONG => Ended::TooLong,
            NOTHING => Ended::Nothing,
            _ => Ended::Damaged,
        };
        // What compaction finds too long it tries in another way.
        let for_good = ended == Ended::Damaged || job.filter.is_none() && ended != Ended::Later;
        journal.clustering.ended = job.filter.map(|_| ended);
        for extent in journal.extents.iter_mut().filter(|extent| extent.held) {
            extent.held = false;
            if for_good {
                extent.live = None;
                extent.unclusterable = true;
            }
        }
        if let Some(block) = job.block.take() {
            arena.free(block);
        }
        // Once its header may be on the device it stands for the stretch at the next start: nothing else may be written there.
        let begun = matches!(job.step, Step::Header(_) | Step::Done);
        out.extend(job.address.filter(|_| !begun).map(|extent| Effect::FreeExtent { extent }));
    }

    pub(crate) fn cold_block(&mut self, len: usize, arena: &mut A) -> Option<Block> {
        loop {
            if let Some(block) = arena.alloc(len, Purpose::Cold) {
                return Some(block);
            }
            if !self.cold.free_one(arena) {
                return None;
            }
        }
    }
}

fn fits(extent: &Extent, commit: Position) -> bool {
    extent.end <= commit
        && extent.dead.is_none()
        && extent.footer_flies.is_none()
        && !extent.unclusterable
        && matches!(extent.index, Index::Footer(_))
}

/// Begins to write the extents from number `begin` up to `end` into one.
pub(crate) fn begin_job(journal: &mut Journal, begin: usize, end: usize, filter: Option<Filtering>) {
    let upto = journal.extents[end].start;
    let start = journal.extents[begin].start;
    for extent in journal.extents.range_mut(begin..end) {
        extent.held = true;
    }
    let extents: Vec<_> = journal
        .extents
        .range(begin..end)
        .map(|extent| (extent.start.position, extent.end, extent.clustered.is_some()))
        .collect();
    let first = extents[0].0;
    let looked_at = journal.extents.range(begin..end).map(|extent| extent.compacted).min().unwrap_or_default();
    journal.clustering.ended = None;
    journal.clustering.job = Some(Job {
        step: Step::Extent,
        mark: filter.map_or(looked_at, |filter| filter.mark),
        filter,
        saved: BTreeMap::new(),
        extents,
        start,
        upto,
        address: None,
        reading: (0, first),
        before: start.chain,
        need: 0,
        gathered: Vec::new(),
        frames: Vec::new(),
        written: 0,
        end: start.position,
        chain: start.chain,
        index: OpenIndex::default(),
        runs: BTreeMap::new(),
        footer_len: 0,
        block: None,
        given_up: None,
    });
}

impl Clustering {
    fn stage(&mut self) -> Option<&mut Stage> {
        match self.job.as_mut().map(|job| &mut job.step) {
            Some(Step::Blank(stage) | Step::Body(stage) | Step::Header(stage)) => Some(stage),
            _ => None,
        }
    }

    /// A flush is submitted: it covers what was written before.
    pub(crate) fn cover(&mut self) {
        if let Some(stage) = self.stage().filter(|stage| **stage == Stage::Written) {
            *stage = Stage::Covered;
        }
    }

    /// That flush succeeded.
    pub(crate) fn covered(&mut self) {
        if let Some(stage) = self.stage().filter(|stage| **stage == Stage::Covered) {
            *stage = Stage::Durable;
        }
    }

    /// A flush of the device failed: nobody knows what of the new extent is on the medium.
    pub(crate) fn flush_failed(&mut self, reason: &str) {
        if let Some(job) = &mut self.job {
            job.given_up = Some(String::from(reason));
        }
    }

    /// Counts bytes that a partition retains, in one pass over all of them.
    pub(crate) const fn count(&mut self, bytes: u64) {
        self.counted += bytes;
    }

    /// Such a pass is over.
    pub(crate) fn pass(&mut self) {
        self.retained = Some(core::mem::take(&mut self.counted));
    }

    /// Whether the bound allows to read or write more.
    pub(crate) fn allows(&mut self, now: Mono, per_second: u64) -> bool {
        self.refill(now, per_second);
        self.allowance > 0
    }

    /// So much is read.
    pub(crate) const fn spend(&mut self, bytes: u64) {
        self.allowance = self.allowance.saturating_sub(bytes);
    }

    fn refill(&mut self, now: Mono, per_second: u64) {
        let elapsed = now.0.saturating_sub(self.allowed_at.0);
        let more = u128::from(elapsed) * u128::from(per_second) / 1_000_000_000;
        if more > 0 {
            self.allowed_at = now;
            // A tenth of a second's worth at most is saved up.
            let most = (per_second / 10).max(STEP_BYTES as u64);
            self.allowance = u64::try_from(more).unwrap_or(u64::MAX).saturating_add(self.allowance).min(most);
        }
    }
}

/// How many bytes of an extent live, by its index.
fn living_bytes(journal: u16, index: &SortedIndex, partitions: &Partitions) -> u64 {
    let mut live = 0;
    for place in index.places() {
        let Some(kept) = partitions.get_in(journal, place.partition).map(Partition::kept_from) else { continue };
        let runs = index.runs_of(place).iter().filter(|run| run.last >= kept);
        live += runs.map(|run| u64::from(run.bytes) + u64::from(run.frames) * frame_bytes(4) as u64).sum::<u64>();
    }
    live
}

#[cfg(test)]
mod tests;
