//! Reading units back by position, one extent after the other, through one large buffer.

use alloc::format;
use alloc::vec::Vec;

use base::image::Secret;
use base::message::DamagedRange;
use base::{Checksums, Epoch, Position};

use crate::format::{Chain, Cut, FrameKind, FrameView, SECTOR, UnitError, UnitHeader, UnitPlace, UnitView};
use crate::journal::Identity;
use crate::recovery::fold::Fold;
use crate::recovery::{Candidate, JournalReport, Stop};
use crate::storage::Storage;
use crate::store::StoreConfig;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// What lies at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A unit of this journal, at its place.
    Unit { header: UnitHeader, chain: Chain, bad_payloads: bool },
    /// An intact header over frame headers that are not.
    Torn { header: UnitHeader, chain: Chain },
    /// Nothing that counts: garbage, another journal's unit, one that was cut off.
    Bad,
}

/// Reads one journal's units.
pub(crate) struct Scanner<'a, S> {
    pub(crate) storage: &'a mut S,
    sums: Checksums,
    key: Secret,
    place: UnitPlace,
    cut: Cut,
    buffer: Vec<u8>,
    /// Device byte of the buffer's first.
    buffer_at: u64,
    /// Frames of the unit read last whose payload is damaged.
    bad: Vec<usize>,
    /// Of the last unit taken: a unit of a lower one behind it is stale.
    pub(crate) epoch: Epoch,
    pub(crate) bytes_read: u64,
    pub(crate) highest_epoch: Epoch,
}

impl<'a, S: Storage> Scanner<'a, S> {
    pub(crate) fn new(storage: &'a mut S, config: &StoreConfig, identity: &Identity, cut: Cut) -> Self {
        Self {
            storage,
            sums: config.sums,
            key: identity.secret,
            place: UnitPlace {
                cluster: identity.cluster,
                journal: identity.journal,
                position: Position(0),
                clustered: false,
            },
            cut,
            buffer: Vec::new(),
            buffer_at: 0,
            bad: Vec::new(),
            epoch: Epoch(0),
            bytes_read: 0,
            highest_epoch: Epoch(0),
        }
    }

    /// At least `len` bytes of the device from `offset` on, fewer only where `end` is near.
    fn bytes(&mut self, offset: u64, len: usize, end: u64) -> Result<&[u8], Stop> {
        let len = len.min(usize::try_from(end - offset).unwrap_or(usize::MAX));
        let have = self.buffer_at..self.buffer_at + self.buffer.len() as u64;
        if !(have.contains(&offset) && offset + len as u64 <= have.end) {
            let take = len.max(READ_BYTES).min(usize::try_from(end - offset).unwrap_or(usize::MAX));
            // Not to be mistaken for what it was before when the read fails.
            self.buffer_at = u64::MAX / 2;
            self.buffer.resize(take, 0);
            self.storage.read(offset, &mut self.buffer)?;
            self.buffer_at = offset;
            self.bytes_read += take as u64;
        }
        let at = usize::try_from(offset - self.buffer_at).expect("within the buffer");
        Ok(&self.buffer[at..])
    }

    /// What lies at a position of an extent.
    pub(crate) fn unit(&mut self, extent: &Candidate, at: Position) -> Result<Seen, Stop> {
        let (offset, end) = (extent.offset(at), extent.offset(extent.limit));
        let place = UnitPlace { position: at, clustered: extent.clustered().is_some(), ..self.place };
        let mut need = SECTOR;
        loop {
            let (key, sums) = (self.key, self.sums);
            let bytes = self.bytes(offset, need, end)?;
            let given = bytes.len();
            match UnitView::check(bytes, &key, &sums, &place) {
                Ok(view) => {
                    let (header, chain) = (*view.header(), view.chain());
                    let intact = view.frames().map(|frame| frame.is_intact(&sums));
                    let bad: Vec<usize> =
                        intact.enumerate().filter(|(_, intact)| !intact).map(|(index, _)| index).collect();
                    self.bad = bad;
                    let seen = self.judge(&header, Seen::Unit { header, chain, bad_payloads: !self.bad.is_empty() });
                    return Ok(if self.is_replaced(extent, &header, chain) { Seen::Bad } else { seen });
                }
                Err(UnitError::Torn { header }) => {
                    let chain = UnitHeader::decode(bytes, &key).map(|(_, chain)| chain).unwrap_or_default();
                    // A unit that would reach past the next extent's start is not where it says.
                    if header.end() > extent.limit {
                        return Ok(Seen::Bad);
                    }
                    return Ok(self.judge(&header, Seen::Torn { header, chain }));
                }
                Err(UnitError::Short { need: more }) if given < more && (given as u64) < end - offset => need = more,
                Err(UnitError::Elsewhere { header }) => {
                    if header.journal == self.place.journal {
                        self.highest_epoch = self.highest_epoch.max(header.epoch);
                    }
                    return Ok(Seen::Bad);
                }
                Err(UnitError::Header | UnitError::Short { .. }) => return Ok(Seen::Bad),
                Err(
                    error @ (UnitError::NewerVersion { .. }
                    | UnitError::Unsupported { .. }
                    | UnitError::UnknownKind { .. }),
                ) => return Err(Stop::Closed(format!("{error}"))),
            }
        }
    }

    /// Whether a unit at its place counts.
    fn judge(&mut self, header: &UnitHeader, seen: Seen) -> Seen {
        self.highest_epoch = self.highest_epoch.max(header.epoch);
        if self.is_stale(header) { Seen::Bad } else { seen }
    }

    /// Voided by the cut, or of a lower epoch than the unit before it.
    fn is_stale(&self, header: &UnitHeader) -> bool {
        let void = header.position >= self.cut.position && header.epoch < self.cut.epoch;
        (void || header.epoch < self.epoch) && !cfg!(fault = "no-epoch-in-units")
    }

    /// Whether the unit behind it is of a later life and follows another one than this: what was written here since was
    /// reported and never made, and what lies here had been cut off.
    fn is_replaced(&mut self, extent: &Candidate, header: &UnitHeader, chain: Chain) -> bool {
        let next = header.end();
        if next >= extent.limit || cfg!(fault = "no-epoch-in-units") {
            return false;
        }
        let offset = extent.offset(next);
        let (have, mut page) = (offset.checked_sub(self.buffer_at), [0; SECTOR]);
        let there = have.and_then(|have| self.buffer.get(usize::try_from(have).ok()?..)?.get(..SECTOR));
        // What is read by itself leaves the buffer as it is. That it cannot be read is told when it is come upon.
        let bytes = match there {
            Some(bytes) => bytes,
            None if self.storage.read(offset, &mut page).is_ok() => &page,
            None => return false,
        };
        let Ok((behind, _)) = UnitHeader::decode(bytes, &self.key) else { return false };
        let here = UnitPlace { position: next, clustered: extent.clustered().is_some(), ..self.place };
        behind.place() == here && behind.epoch > header.epoch && behind.chain != chain
    }

    /// The highest commit position in any intact header from `at` on, over bad units to the end of the extents.
    pub(crate) fn look_ahead(&mut self, extents: &[Candidate], at: Position) -> Result<Position, Stop> {
        let mut commit = Position(0);
        for extent in extents {
            let mut at = at.max(extent.header.start);
            while at < extent.limit {
                let header = self.header(extent, at)?;
                match header {
                    Some(header) if header.end() <= extent.limit => {
                        // A commit position stays true whatever was cut off later.
                        commit = commit.max(header.commit);
                        at = header.end();
                    }
                    _ => at = at.plus(SECTOR as u64),
                }
            }
        }
        Ok(commit)
    }

    /// The next position from `at` on, but behind it, where a unit of the journal has an intact header; else the limit.
    pub(crate) fn next_unit(&mut self, extent: &Candidate, at: Position) -> Result<Position, Stop> {
        let mut at = at.plus(SECTOR as u64);
        while at < extent.limit {
            match self.header(extent, at)? {
                Some(header) if !self.is_stale(&header) => return Ok(at),
                _ => at = at.plus(SECTOR as u64),
            }
        }
        Ok(extent.limit)
    }

    /// An intact header of this journal at its place.
    fn header(&mut self, extent: &Candidate, at: Position) -> Result<Option<UnitHeader>, Stop> {
        let (offset, end) = (extent.offset(at), extent.offset(extent.limit));
        let (key, place) = (self.key, self.place);
        let bytes = self.bytes(offset, SECTOR, end)?;
        let Ok((header, _)) = UnitHeader::decode(bytes, &key) else { return Ok(None) };
        let clustered = header.flags & UnitHeader::CLUSTERED != 0;
        let right = (header.cluster, header.journal, header.position) == (place.cluster, place.journal, at)
            && clustered == extent.clustered().is_some();
        if header.journal == place.journal {
            self.highest_epoch = self.highest_epoch.max(header.epoch);
        }
        Ok(right.then_some(header))
    }

    /// Folds the unit that [`Scanner::unit`] gave last.
    pub(crate) fn fold_unit(
        &mut self,
        fold: &mut Fold,
        report: &mut JournalReport,
        extent: &Candidate,
        header: &UnitHeader,
    ) -> Result<(), Stop> {
        self.frames(extent, header, |frame, intact| {
            if !intact && frame.header.kind == FrameKind::Records {
                let (first, next) = (frame.header.base_offset, frame.header.last_offset().plus(1));
                report.damaged_batches.push(DamagedRange { partition: frame.header.partition, first, next });
            } else if !intact {
                report.damaged_controls.push(header.position);
            }
            fold.frame(header, frame, intact);
        })
    }

    /// Gives each frame of the unit that [`Scanner::unit`] gave last, and whether its payload is intact.
    pub(crate) fn frames(
        &mut self,
        extent: &Candidate,
        header: &UnitHeader,
        mut take: impl FnMut(&FrameView<'_>, bool),
    ) -> Result<(), Stop> {
        let (offset, end) = (extent.offset(header.position), extent.offset(extent.limit));
        let place = UnitPlace { position: header.position, clustered: extent.clustered().is_some(), ..self.place };
        let bad = core::mem::take(&mut self.bad);
        let (key, sums) = (self.key, self.sums);
        let bytes = self.bytes(offset, header.bytes(), end)?;
        if let Ok(view) = UnitView::check(bytes, &key, &sums, &place) {
            for (index, frame) in view.frames().enumerate() {
                take(&frame, !bad.contains(&index));
            }
        }
        self.bad = bad;
        Ok(())
    }
}
