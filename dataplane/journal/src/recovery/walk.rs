//! The walk over a journal's units that decides where its log ends, and what is put right before anything is built upon it.

use alloc::format;
use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use base::Position;

use crate::format::{Cut, ExtentHeader, FooterView, FrameKind, JournalStart, SECTOR, UNIT_BYTES_MAX};
use crate::journal::{Identity, Index};
use crate::recovery::fold::{ClosedIndex, Fold};
use crate::recovery::scan::{Scanner, Seen};
use crate::recovery::{Candidate, Damage, JournalReport, Probe, Stop};
use crate::storage::{Storage, StorageError};
use crate::store::StoreConfig;

/// Footers that a checkpoint names are looked at where there are at most so many: one sector each.
const CHECKED: usize = 1024;

/// What a step of the walk came to.
enum Step {
    /// This position, in the same extent or behind it.
    To(Position),
    /// An extent whose header is damaged.
    Into(Candidate),
    /// The log's end.
    End,
}

/// The walk over a journal's units.
pub(crate) struct Walk<'a, 'b, S> {
    pub(crate) scanner: &'a mut Scanner<'b, S>,
    pub(crate) fold: &'a mut Fold,
    pub(crate) report: &'a mut JournalReport,
    pub(crate) extents: &'a mut Vec<Candidate>,
    /// Extents that may turn out to be its own.
    pub(crate) probes: Vec<Probe>,
    /// Not even the first unit of some extent can be read.
    pub(crate) unknown: bool,
    /// Highest commit position known.
    pub(crate) commit: Position,
    /// Whether all headers up to the end of the extents were asked for it.
    pub(crate) looked: bool,
}

impl<S: Storage> Walk<'_, '_, S> {
    /// Folds units from `begin` on, and says in the report where the log ends.
    pub(crate) fn run(mut self, begin: JournalStart) -> Result<(), Stop> {
        let mut at = begin.position;
        // What lies behind a beginning of a later epoch is stale, even where the first units are damaged.
        self.scanner.epoch = begin.epoch;
        let mut next = self.extents.iter().position(|extent| at < extent.limit).unwrap_or(self.extents.len());
        loop {
            // Behind a last extent that is full the log went on, if it did, in one that is not known.
            let room = if next > 0 && next == self.extents.len() { 0 } else { u64::MAX };
            if self.extents.get(next).is_none_or(|extent| at < extent.header.start)
                && let Some(found) = self.behind_header(at, next, room)?
            {
                self.extents.insert(next, found);
            }
            let Some(extent) = self.extents.get(next).copied() else { return self.end(at) };
            if at < extent.header.start {
                // Extents between were freed: all in them was dead, and what had to be kept of it stands at a higher position,
                // which is committed.
                self.look_ahead(at)?;
                if self.commit <= extent.header.start {
                    // What is missing may lie where nothing can be read: that is no damage.
                    return if self.unknown { Err(may_be_its_own()) } else { self.end(at) };
                }
                at = extent.header.start;
            }
            self.fold.enter(&extent);
            next += 1;
            while at < extent.limit {
                match self.step(&extent, at, next)? {
                    Step::To(to) => at = to,
                    Step::Into(found) => {
                        self.extents.insert(next, found);
                        break;
                    }
                    Step::End => return self.end(at),
                }
                self.fold.extend(at);
            }
            if let Some(upto) = extent.clustered() {
                // What was in its stretch and is not here was dead, and the whole stretch is committed.
                at = upto.position;
                self.commit = self.commit.max(at);
                self.fold.last = (upto.epoch, upto.chain);
                self.scanner.epoch = upto.epoch;
            }
        }
    }

    /// The extent with a damaged header that goes on at `at`, to be the extent of that number.
    fn behind_header(&mut self, at: Position, number: usize, room: u64) -> Result<Option<Candidate>, Stop> {
        let goes_on = |probe: &Probe| {
            probe.header.start == at && probe.header.chain == self.fold.last.1 && probe.header.epoch >= self.fold.last.0
        };
        let Some(found) = self.probes.iter().position(goes_on) else {
            // The log may go on where nothing can be read, if its next unit did not fit here.
            return if self.unknown && room < UNIT_BYTES_MAX as u64 { Err(may_be_its_own()) } else { Ok(None) };
        };
        // Each is taken once: the log cannot go on in an extent from within that same one.
        let probe = self.probes.swap_remove(found);
        if !probe.readable {
            return Err(Stop::Closed(format!(
                "read error: the header of the extent at byte {} of the device",
                probe.header.offset
            )));
        }
        let mut header = probe.header;
        // Those before it may have a lost header, too.
        let before = self.extents[..number].iter().rfind(|extent| extent.clustered().is_none());
        header.generation = before.map_or(0, |before| before.header.generation).max(header.generation);
        let end = header.start.plus(header.len - SECTOR as u64);
        let limit = self.extents.get(number).map_or(end, |after| end.min(after.header.start));
        Ok(Some(Candidate { header, limit, footer_len: 0, lost_header: true }))
    }

    fn end(mut self, at: Position) -> Result<(), Stop> {
        if self.commit > at {
            // An intact header counted it as committed: it is damaged, not cut.
            self.damaged(at, self.commit);
        }
        self.report.end = at.max(self.commit);
        self.report.commit = self.commit;
        Ok(())
    }

    fn look_ahead(&mut self, at: Position) -> Result<(), Stop> {
        if !self.looked {
            self.commit = self.commit.max(self.scanner.look_ahead(self.extents, at)?);
            self.looked = true;
        }
        Ok(())
    }

    /// Takes what lies at `at`. `next` is the number that the extent behind this one has.
    fn step(&mut self, extent: &Candidate, at: Position, next: usize) -> Result<Step, Stop> {
        let seen = self.scanner.unit(extent, at)?;
        if let Seen::Unit { header, .. } | Seen::Torn { header, .. } = &seen {
            self.commit = self.commit.max(header.commit);
        }
        let goes_on = match &seen {
            Seen::Unit { header, bad_payloads, .. } => {
                // What the chain would name is damaged: the unit's own word that all before it was committed stands for it.
                let vouches = self.report.damage.last().is_some_and(|damage| damage.end == at) && header.commit >= at;
                !bad_payloads && (header.chain == self.fold.last.1 || vouches)
            }
            Seen::Torn { .. } | Seen::Bad => false,
        };
        if !goes_on {
            // It may go on in an extent whose header is damaged.
            if let Some(found) = self.behind_header(at, next, extent.limit.0 - at.0)? {
                return Ok(Step::Into(found));
            }
            self.look_ahead(at)?;
            if at >= self.commit || cfg!(fault = "stop-at-first-bad-checksum") {
                return Ok(Step::End);
            }
        }
        let (header, chain) = match seen {
            Seen::Unit { header, chain, .. } => {
                // Looking ahead has moved the scanner's buffer on.
                if self.scanner.unit(extent, at)? != seen {
                    return Err(Stop::Closed("the device gives other bytes each time it is read".to_string()));
                }
                self.scanner.fold_unit(self.fold, self.report, extent, &header)?;
                self.report.units += 1;
                (header, chain)
            }
            Seen::Torn { header, chain } => {
                self.damaged(at, header.end());
                (header, chain)
            }
            Seen::Bad => {
                let next = self.scanner.next_unit(extent, at)?.min(self.commit.max(at.plus(SECTOR as u64)));
                self.damaged(at, next);
                return Ok(Step::To(next));
            }
        };
        self.fold.last = (header.epoch, chain);
        self.scanner.epoch = header.epoch;
        Ok(Step::To(header.end()))
    }

    fn damaged(&mut self, start: Position, end: Position) {
        match self.report.damage.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.report.damage.push(Damage { start, end }),
        }
    }
}

fn may_be_its_own() -> Stop {
    Stop::Closed("an extent of the device cannot be read, and it may be this journal's".to_string())
}

/// Writes what lies between the commit position and the end once more, the same bytes, and flushes.
pub(crate) fn rewrite<S: Storage>(
    storage: &mut S,
    config: &StoreConfig,
    extents: &[Candidate],
    commit: Position,
    end: Position,
) -> Result<u64, StorageError> {
    let mut written = 0;
    let mut bytes = vec![0; 256 << 10];
    for extent in extents {
        if extent.lost_header && extent.header.start < end {
            let mut page = [0; SECTOR];
            extent.header.encode(&config.sums, &mut page);
            storage.write(extent.header.offset, &page)?;
            written += SECTOR as u64;
        }
        let mut at = commit.max(extent.header.start);
        let to = end.min(extent.limit);
        while at < to {
            let len = bytes.len().min(usize::try_from(to.0 - at.0).unwrap_or(usize::MAX));
            let offset = extent.offset(at);
            storage.read(offset, &mut bytes[..len])?;
            storage.write(offset, &bytes[..len])?;
            // The extent's header was covered by the same flush as its first unit.
            if at == extent.header.start && !extent.lost_header {
                let mut page = [0; SECTOR];
                storage.read(extent.header.offset, &mut page)?;
                storage.write(extent.header.offset, &page)?;
            }
            written += len as u64;
            at = at.plus(len as u64);
        }
    }
    if written > 0 {
        storage.flush()?;
    }
    Ok(written)
}

/// Looks whether closed extents that are to be scanned have a footer that fits: it says where their units end.
pub(crate) fn read_footers<S: Storage>(storage: &mut S, config: &StoreConfig, extents: &mut [Candidate]) {
    let count = extents.len();
    let mut page = vec![0; SECTOR];
    for extent in extents.iter_mut().take(count.saturating_sub(1)) {
        if extent.footer_len > 0 {
            // A checkpoint names it: one look at its trailer tells whether it rotted.
            let end = extent.header.offset + extent.header.len;
            if count > CHECKED
                || storage.read(end - SECTOR as u64, &mut page).is_ok()
                    && FooterView::length(&page, &config.sums).is_ok_and(|len| len == extent.footer_len as usize)
            {
                continue;
            }
            extent.footer_len = 0;
        }
        if let Some((end, len)) = footer_of(storage, config, &extent.header)
            && end <= extent.limit
        {
            extent.limit = end;
            extent.footer_len = len;
        }
    }
}

/// End and length of an extent's footer, if it has one. A footer can be made again: one that cannot be read is none.
fn footer_of<S: Storage>(storage: &mut S, config: &StoreConfig, header: &ExtentHeader) -> Option<(Position, u32)> {
    let end = header.offset + header.len;
    let mut bytes = vec![0; SECTOR];
    storage.read(end - SECTOR as u64, &mut bytes).ok()?;
    let len = FooterView::length(&bytes, &config.sums).ok().filter(|&len| len as u64 <= header.len)?;
    bytes.resize(len, 0);
    storage.read(end - len as u64, &mut bytes).ok()?;
    let footer = FooterView::check(&bytes, &config.sums).ok()?;
    let fits = (footer.generation, footer.start) == (header.generation, header.start);
    fits.then_some((footer.end, u32::try_from(len).ok()?))
}

/// An extent that got its footer is closed for good, though the one behind it did not come to be: were it written on, the
/// footer would say of what comes now that it is not there.
pub(crate) fn keep_closed<S: Storage>(storage: &mut S, config: &StoreConfig, extents: &[Candidate], fold: &mut Fold) {
    let Some(last) = fold.extents.last_mut() else { return };
    if let Index::Open(_) = last.index
        && let Some(extent) = extents.iter().find(|extent| extent.header.start == last.start.position)
        && let Some((end, len)) = footer_of(storage, config, &extent.header)
        && end >= last.end
    {
        if end == last.end {
            last.index = Index::Footer(len);
        } else {
            last.close();
        }
    }
}

/// Makes the index of closed extents that have no footer anew, from their units: those that were closed shortly before the
/// checkpoint, and those whose footer is damaged.
pub(crate) fn rebuild<S: Storage>(
    storage: &mut S,
    config: &StoreConfig,
    identity: &Identity,
    fold: &mut Fold,
    extents: &[Candidate],
    upto: Position,
    report: &mut JournalReport,
) -> Result<(), Stop> {
    let count = fold.extents.len();
    let mut last = None;
    for (number, extent) in fold.extents.iter_mut().enumerate() {
        if !matches!(extent.index, Index::Missing) {
            continue;
        }
        if cfg!(fault = "index-not-rebuilt") {
            extent.index = Index::Closed(ClosedIndex::default().sorted());
            continue;
        }
        let Some(candidate) = extents.iter().find(|known| known.header.start == extent.start.position) else {
            continue;
        };
        let mut scanner = Scanner::new(&mut *storage, config, identity, Cut::default());
        let mut at = candidate.header.start;
        let mut index = ClosedIndex::default();
        // Where bytes without a unit began: a hole if one follows; before a freed extent they are merely unused.
        let mut bare = None;
        while at < candidate.limit.min(upto) {
            let seen = scanner.unit(candidate, at)?;
            if seen == Seen::Bad {
                bare.get_or_insert(at);
            } else if let Some(start) = bare.take() {
                report.holes.push(Damage { start, end: at });
            }
            at = match seen {
                Seen::Unit { header, chain, .. } => {
                    scanner.frames(candidate, &header, |frame, _| {
                        index.add(extent.start.position, &header, frame);
                        if frame.header.kind == FrameKind::EpochStart {
                            extent.newest_control = Some(header.position);
                        }
                    })?;
                    extent.last = (header.epoch, chain);
                    header.end()
                }
                Seen::Torn { header, chain } => {
                    extent.last = (header.epoch, chain);
                    report.holes.push(Damage { start: at, end: header.end() });
                    header.end()
                }
                Seen::Bad => at.plus(SECTOR as u64),
            };
        }
        if let Some(start) = bare.filter(|_| extents.iter().any(|next| next.header.start == at)) {
            report.holes.push(Damage { start, end: at });
        }
        report.bytes_read += scanner.bytes_read;
        if number + 1 == count {
            // It may go on behind the checkpoint.
            last = Some(index);
        } else {
            extent.index = Index::Closed(index.sorted());
        }
    }
    if let Some(index) = last {
        fold.go_on(index);
    }
    Ok(())
}
