//! A start from a device on which anything may have been changed.
//!
//! The first byte chooses an image that journals made before: stopped in order, at rest, or cut off by a crash, one with
//! clustered extents. The second is the chance of the start itself, in which the power may go once more. What follows are edits: bytes flipped and
//! overwritten, pages copied and cleared, pages that cannot be read, a device or checkpoint file cut short, and pages whose
//! checksums are put right after an edit. Then the journals are opened, read through and appended to.
//!
//! Without edits of the last kind, whatever is served was in the image as a whole frame, byte for byte. In any case reads come
//! to an end, no offset is given twice, and nothing panics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use base::image::{TimestampType, TopicConfig};
use base::memory::Arena as _;
use base::{JournalId, Mono, Now, Offset, PartitionId, WallMs};
use journal::format::{FrameKind, SECTOR, UnitHeader, UnitPlace, UnitView};
use journal::storage::Storage as _;
use journal::store::{Durability, ReadOutcome};
use protocol::batch::{BatchBuilder, BatchView, Batches, Producer};
use sim::run::Run;
use sim::world::{CLUSTER, Plan, Rest, World};
use sim::{Chance, Disk, recover, sums};

use crate::formats::{mend_checkpoint, mend_footer, seal};
use crate::input::Input;

const JOURNALS: u64 = 2;
const PARTITIONS: u64 = 3;
const EDITS_MAX: usize = 24;
const UNIT_SUM_AT: usize = 112;
/// Above all epochs of the images.
const EPOCH: i32 = 1000;
/// Fetches of one partition: an image has fewer batches.
const FETCHES_MAX: usize = 5000;

/// A batch in a whole frame: partition, base offset, bytes.
type Frame = (PartitionId, i64, Vec<u8>);

/// What lies on a device and beside it.
struct Image {
    plan: Plan,
    disk: Disk,
    files: BTreeMap<JournalId, Vec<u8>>,
    /// Pages with something in them.
    pages: Vec<u64>,
    frames: BTreeSet<Frame>,
}

static IMAGES: LazyLock<[Image; 4]> = LazyLock::new(|| [0, 1, 2, 3].map(image));

fn plan(clustered: bool) -> Plan {
    Plan {
        shards: 1,
        journals: JOURNALS,
        extent_len: 128 << 10,
        // The simulator derives whether and how it clusters from this.
        extents_max: if clustered { 37 } else { 16 },
        unit_bytes: if clustered { 16 << 10 } else { 4 << 10 },
        writes_in_flight: 4,
        bytes_in_flight: 256 << 10,
        checkpoint_bytes: 32 << 10,
        durability: Durability::Flush,
        batch_bytes: 2000,
    }
}

fn config() -> TopicConfig {
    TopicConfig {
        retention_ms: -1,
        retention_bytes: -1,
        compaction: None,
        max_message_bytes: 60 << 10,
        timestamp_type: TimestampType::Create,
        timestamp_before_ms_max: i64::MAX,
        timestamp_after_ms_max: i64::MAX,
        min_insync_replicas: 1,
    }
}

const fn home(id: u64) -> JournalId {
    JournalId(id % JOURNALS)
}

fn image(kind: usize) -> Image {
    let clustered = kind == 3;
    let mut run = Run::first(Chance::new(kind as u64 + 1), Rest::new(plan(clustered))).expect("a new device opens");
    for id in 1..=PARTITIONS {
        run.add_partition(PartitionId(id), home(id), config());
    }
    for at in 0..if clustered { 200 } else { 110 } {
        // Partition 2 is alone in its journal; 1 and 3 share one, where 1 is kept and 3 is deleted.
        let id = PartitionId(if at % 9 == 0 { 1 } else { 2 + u64::from(clustered || at % 2 == 1) });
        let bytes = if clustered && id.0 == 3 { 5000 } else { 300 + at * 37 % 2500 };
        run.put(id, bytes).expect("room for a small batch");
        if at % 16 == 15 {
            run.work();
        }
        if at % 40 == 39 {
            run.trim(PartitionId(3), -1).expect("a log start is moved");
        }
    }
    for _ in 0..if clustered { 12 } else { 0 } {
        run.work();
    }
    let mut chance = run.chance.clone();
    match kind {
        0 => run.stop().expect("an orderly stop"),
        2 => {}
        _ => run.world.settle(&mut chance),
    }
    let mut rest = run.world.crash(&mut chance);
    let (pages, frames) = survey(&mut rest.disk, &rest.plan);
    Image { plan: rest.plan, disk: rest.disk, files: rest.files, pages, frames }
}

/// The pages that are not empty, and every whole frame of records.
fn survey(disk: &mut Disk, plan: &Plan) -> (Vec<u64>, BTreeSet<Frame>) {
    let len = disk.len();
    let mut all = vec![0; usize::try_from(len).expect("a small device")];
    disk.peek(0, &mut all).expect("nothing is unreadable");
    let (mut pages, mut frames) = (Vec::new(), BTreeSet::new());
    for (at, page) in (0..).step_by(SECTOR).zip(all.chunks(SECTOR)) {
        if page.iter().any(|&byte| byte != 0) {
            pages.push(at as u64);
        }
        for id in 0..JOURNALS {
            let secret = plan.journal(id, 0).secret;
            let Ok((header, _)) = UnitHeader::decode(page, &secret) else { continue };
            let clustered = header.flags & UnitHeader::CLUSTERED != 0;
            let place = UnitPlace { cluster: CLUSTER, journal: JournalId(id), position: header.position, clustered };
            let Ok(unit) = UnitView::check(&all[at..], &secret, &sums(), &place) else { continue };
            for frame in unit.frames().filter(|frame| frame.header.kind == FrameKind::Records) {
                if frame.is_intact(&sums()) {
                    frames.insert((frame.header.partition, frame.header.base_offset.0, frame.payload.to_vec()));
                }
            }
        }
    }
    (pages, frames)
}

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let image = &IMAGES[usize::from(input.byte()) % IMAGES.len()];
    let mut chance = Chance::new(input.byte().into());
    let now = Now { mono: Mono(1), wall: WallMs(1_700_000_000_000) };
    let mut rest =
        Rest { plan: image.plan.clone(), disk: image.disk.clone(), files: image.files.clone(), now, trace: 0 };
    let mut forged = false;
    for _ in 0..EDITS_MAX {
        if input.is_empty() {
            break;
        }
        forged |= edit(&mut rest, image, &mut input);
    }
    let mut epoch = EPOCH;
    let (world, reports) = match recover::open(rest, &mut epoch, &mut chance) {
        Ok(opened) => opened,
        Err(why) => return assert!(!why.is_empty(), "an error without a name"),
    };
    for report in &reports {
        assert!(report.closed.as_ref().is_none_or(|why| !why.is_empty()), "a journal closed without a name");
        assert!(report.commit <= report.end || forged || report.closed.is_some(), "{report:?}");
    }
    Server { world, chance, image, forged }.serve();
}

/// One edit. Whether it puts a checksum right.
fn edit(rest: &mut Rest, image: &Image, input: &mut Input<'_>) -> bool {
    let what = input.byte();
    let page = |input: &mut Input<'_>| image.pages[input.index(image.pages.len())];
    // A device that was cut short has no such page any more.
    let there = |rest: &Rest, page: u64| page + SECTOR as u64 <= rest.disk.len();
    match what % 10 {
        0 | 1 => {
            let (page, at, flip) = (page(input), u64::from(input.two()) % SECTOR as u64, input.byte());
            if there(rest, page) {
                rest.disk.rot(page + at, flip | u8::from(flip == 0));
            }
        }
        2 => {
            let (page, at, len) = (page(input), usize::from(input.two()), usize::from(input.byte() % 16));
            write(rest, page, at, input.take(len));
        }
        3 => {
            let (from, to) = (page(input), page(input));
            if there(rest, from) && there(rest, to) {
                rest.disk.misdirect(from, to);
            }
        }
        4 => {
            let first = page(input);
            for page in (first..).step_by(SECTOR).take(usize::from(input.byte() % 16) + 1) {
                write(rest, page, 0, &[0; SECTOR]);
            }
        }
        5 => rest.disk.spoil(page(input)),
        6 => rest.disk.shorten(page(input)),
        7 => {
            for file in rest.files.values_mut().filter(|file| !file.is_empty()) {
                let at = usize::from(input.two()) % file.len();
                match input.byte() {
                    0 => file.truncate(at),
                    flip => file[at] ^= flip,
                }
            }
        }
        8 => {
            let (page, at, len) = (page(input), usize::from(input.two()), usize::from(input.byte() % 16));
            write(rest, page, at, input.take(len));
            mend(rest, page);
            return true;
        }
        _ => {
            for file in rest.files.values_mut().filter(|file| !file.is_empty()) {
                let at = usize::from(input.two()) % file.len();
                let bytes = input.take(8);
                let len = bytes.len().min(file.len() - at);
                file[at..at + len].copy_from_slice(&bytes[..len]);
                mend_checkpoint(file);
            }
            return true;
        }
    }
    false
}

/// Changes a page from `at` (in it) on.
fn write(rest: &mut Rest, page: u64, at: usize, bytes: &[u8]) {
    let mut whole = [0; SECTOR];
    if rest.disk.peek(page, &mut whole).is_ok() {
        let at = at % SECTOR;
        let len = bytes.len().min(SECTOR - at);
        whole[at..at + len].copy_from_slice(&bytes[..len]);
        rest.disk.patch(page, &whole);
    }
}

/// Puts the checksum right of whatever begins in a page, or ends in it.
fn mend(rest: &mut Rest, page: u64) {
    let mut whole = [0; SECTOR];
    if rest.disk.peek(page, &mut whole).is_err() {
        return;
    }
    if whole.starts_with(b"BARELOGU") {
        let journal = whole[32..].first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
        let key = rest.plan.journal(journal % JOURNALS, 0).secret;
        let sum = base::checksum::keyed128(&key.0, &whole[..UNIT_SUM_AT]);
        whole[UNIT_SUM_AT..UnitHeader::BYTES].copy_from_slice(&sum.to_le_bytes());
    } else if whole[SECTOR - 128..].starts_with(b"BARELOGF") {
        mend_footer(&mut whole);
    } else {
        seal(&mut whole);
    }
    rest.disk.patch(page, &whole);
}

/// The journals that were opened, and what they may serve.
struct Server<'a> {
    world: World,
    chance: Chance,
    image: &'a Image,
    forged: bool,
}

impl Server<'_> {
    fn serve(mut self) {
        for id in 1..=PARTITIONS {
            self.world.with(0, |store, _, now, _| {
                store.set_partition(now, PartitionId(id), home(id), std::sync::Arc::new(config()));
            });
        }
        self.world.settle(&mut self.chance);
        for id in (1..=PARTITIONS).map(PartitionId) {
            self.read_through(id);
            self.append(id);
        }
        self.world.settle(&mut self.chance);
        assert!(self.world.shards[0].arena.available(base::memory::Purpose::Tail) > 0);
    }

    fn read_through(&mut self, id: PartitionId) {
        let Some(bounds) = self.world.shards[0].store.bounds(id) else { return };
        assert!(bounds.log_start <= bounds.high_watermark && bounds.high_watermark <= bounds.log_end, "{bounds:?}");
        let mut next = bounds.log_start.0;
        for _ in 0..FETCHES_MAX {
            if next >= bounds.high_watermark.0 {
                return;
            }
            match self.fetch(id, next) {
                (ReadOutcome::Data { .. }, bytes) => next = self.check(id, next, &bytes),
                (ReadOutcome::Damaged { next: after, .. }, _) => {
                    assert!(after.0 > next, "damage at {next} of {id} that ends at {after}");
                    next = after.0;
                }
                (ReadOutcome::Fenced, _) => return,
                // Indices whose checksums were put right may lead anywhere; a reader is told, and comes no further.
                (ReadOutcome::Empty | ReadOutcome::OutOfRange, _) if self.forged => return,
                (other, _) => panic!("partition {id} at {next} of {bounds:?}: {other:?}"),
            }
        }
        assert!(self.forged, "partition {id}: reads of {bounds:?} never end, at {next}");
    }

    /// Checks what was served; gives the offset behind it.
    fn check(&self, id: PartitionId, from: i64, bytes: &[u8]) -> i64 {
        let mut batches = Batches::new(bytes);
        let mut next = from;
        for batch in batches.by_ref() {
            let batch = batch.expect("whole batches are served");
            assert!(batch.last_offset() >= next || self.forged, "partition {id}: offset {} again", batch.last_offset());
            next = batch.last_offset().saturating_add(1).max(next);
            if !self.forged {
                assert!(batch.verify_crc(&sums()).is_ok(), "partition {id}: a batch whose CRC does not match");
                let frame = (id, batch.base_offset(), batch.bytes().to_vec());
                assert!(self.image.frames.contains(&frame), "partition {id}: a batch that nobody wrote at {from}");
            }
        }
        assert!(batches.rest().is_empty() || self.forged, "partition {id}: a batch that is cut off");
        assert!(next > from || self.forged, "partition {id}: a fetch at {from} that brings nothing");
        next.max(from.saturating_add(1))
    }

    fn fetch(&mut self, id: PartitionId, from: i64) -> (ReadOutcome, Vec<u8>) {
        for _ in 0..200 {
            let mut slices = Vec::new();
            let ready = self.world.told.ready;
            let outcome = self.world.with(0, |store, arena, now, out| {
                store.read(now, id, Offset(from), 1 << 20, true, arena, &mut slices, out)
            });
            if outcome != ReadOutcome::Pending {
                return (outcome, slices.iter().flat_map(AsRef::as_ref).copied().collect());
            }
            for _ in 0..1000 {
                if self.world.told.ready != ready {
                    break;
                }
                if !self.world.complete(&mut self.chance) {
                    self.world.pump();
                }
            }
        }
        panic!("the read of partition {id} at {from} is never answered");
    }

    /// No offset is given twice.
    fn append(&mut self, id: PartitionId) {
        let Some(bounds) = self.world.shards[0].store.bounds(id) else { return };
        let mut builder = BatchBuilder::new();
        builder.append(1000, None, Some(b"after the start"), &[]);
        let sent = builder.finish(Producer::NONE, &sums()).to_vec();
        let view = BatchView::check(&sent).expect("our own batch");
        let taken = self.world.with(0, |store, arena, now, _| store.append(now, id, &view, arena));
        if let Ok(taken) = taken {
            assert!(taken.base_offset >= bounds.log_end, "partition {id}: {} of {bounds:?}", taken.base_offset);
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for image in 0..4 {
        seeds.push(vec![image, 5]);
        for what in 0..10u8 {
            seeds.push(vec![image, 5, what, what * 7 + image, 0, 16, 4, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_images_hold_what_the_edits_are_about() {
        for image in &*IMAGES {
            assert!(image.pages.len() > 50 && image.frames.len() > 50, "{} pages", image.pages.len());
            assert!(!image.files.is_empty(), "a checkpoint");
        }
        let clustered = |image: &Image| {
            let mut all = vec![0; usize::try_from(image.disk.len()).expect("a small device")];
            image.disk.peek(0, &mut all).expect("nothing is unreadable");
            let headers =
                all.chunks(SECTOR).filter_map(|page| journal::format::ExtentHeader::decode(page, &sums()).ok());
            headers.filter(|header| matches!(header.kind, journal::format::ExtentKind::Clustered(_))).count()
        };
        assert!(clustered(&IMAGES[3]) > 0, "no clustered extent");
    }
}
