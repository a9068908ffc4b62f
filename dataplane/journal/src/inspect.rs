//! Looking at a device offline: label, journals, extents, units, frames and footers as plain rows. Reads only, and never
//! gives a secret away.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use base::{Checksums, Epoch, JournalId, Offset, PartitionId, Position, WallMs};

use crate::device::{Claim, Device, DeviceError, Pair};
use crate::format::{
    Chain, Close, Cut, EpochStart, ExtentHeader, ExtentKind, FooterView, FrameKind, FrameView, Gap, JournalStart,
    Label, LocalState, LogStartMove, Open, PartitionState, Run, SECTOR, UnitError, UnitHeader, UnitPlace, UnitView,
};
use crate::storage::{Storage, StorageError};

/// What is read at once while walking an extent: whole units of normal size.
const WINDOW: usize = 1 << 20;

/// A device as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRow {
    /// Its label.
    pub label: Label,
    /// Bytes it has.
    pub bytes: u64,
    /// Local states, by pair.
    pub states: Vec<StateRow>,
    /// Extents, by offset.
    pub extents: Vec<ExtentRow>,
}

/// The local state of a journal replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateRow {
    /// Neither slot is intact.
    Damaged {
        /// The pair.
        pair: u32,
    },
    /// The newest intact state.
    Held {
        /// The pair.
        pair: u32,
        /// The journal.
        journal: JournalId,
        /// Rises with every change.
        sequence: u64,
        /// Id of the replica's data.
        replica: u128,
        /// Epochs below are refused.
        promise: Epoch,
        /// What is void.
        cut: Cut,
        /// How far it may have answered durable before it lost something.
        uncertain_to: Position,
        /// Whether its word must not count in a seal.
        does_not_count: bool,
        /// Where the journal begins here.
        start: JournalStart,
        /// Whether both slots hold it.
        both: bool,
    },
}

/// An extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentRow {
    /// Where it lies.
    pub offset: u64,
    /// What its first page says.
    pub claim: ExtentClaim,
}

/// What the first page of an extent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtentClaim {
    /// Zeros.
    Blank,
    /// Nothing of this device.
    None,
    /// It cannot be read.
    Unreadable(String),
    /// A journal has it, or had it: one whose positions lie before its journal's start is free.
    Journal {
        /// The journal.
        journal: JournalId,
        /// What it holds.
        kind: ExtentKind,
        /// Rises with every use of any extent.
        generation: u64,
        /// Position of the first unit.
        start: Position,
        /// Epoch under which it was begun.
        epoch: Epoch,
        /// What the first unit chains to.
        chain: Chain,
        /// Its local state says that the journal begins later: free, and written over when needed.
        freed: bool,
    },
}

/// Something found in an extent, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A unit whose header is intact.
    Unit(UnitRow),
    /// Bytes between intact headers where no intact one is.
    Damage {
        /// From which position.
        from: Position,
        /// To which.
        to: Position,
        /// What is wrong with the first of them.
        why: String,
    },
    /// Bytes that cannot be read.
    Unreadable {
        /// From which position.
        from: Position,
        /// The device's words.
        why: String,
    },
    /// A partition of the footer index.
    Footer(FooterRow),
}

/// A unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitRow {
    /// Its header.
    pub header: UnitHeader,
    /// Its header's checksum.
    pub checksum: Chain,
    /// Where it lies on the device.
    pub offset: u64,
    /// Whether it chains to the unit before it here. One that does not is stale, or follows damage.
    pub chained: bool,
    /// The frames, or what is wrong with all of them.
    pub frames: Result<Vec<FrameRow>, String>,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRow {
    /// What it carries.
    pub kind: FrameKind,
    /// Its partition.
    pub partition: PartitionId,
    /// First offset.
    pub base_offset: Offset,
    /// Last offset.
    pub last_offset: Offset,
    /// Records.
    pub records: u32,
    /// Highest timestamp.
    pub max_timestamp: WallMs,
    /// Bytes of payload.
    pub bytes: u32,
    /// Epoch of the append.
    pub epoch: Epoch,
    /// Whether the payload is intact.
    pub intact: bool,
    /// What a control frame says.
    pub detail: Option<String>,
}

/// A partition in a footer index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FooterRow {
    /// Which.
    pub partition: PartitionId,
    /// Unit of its newest frame here.
    pub newest: Position,
    /// Its runs.
    pub runs: Vec<Run>,
}

/// Looks at label, local states and extent headers.
///
/// # Errors
/// As [`DeviceError`] says.
pub fn device<S: Storage>(storage: &mut S, sums: &Checksums) -> Result<DeviceRow, DeviceError> {
    let device = Device::look(storage, sums)?;
    let found = device.scan(storage)?;
    let starts = |journal| device.state(journal).map(|(_, state): (_, &LocalState)| state.start.position);
    // An extent ends where the next of its journal begins.
    let mut all: Vec<(JournalId, Position)> = found
        .iter()
        .filter_map(|found| match &found.claim {
            Claim::Header(header) => Some((header.journal, header.start)),
            _ => None,
        })
        .collect();
    all.sort_unstable();
    let end = |journal: JournalId, start: Position| {
        let next = all.iter().find(|&&(other, at)| other == journal && at > start);
        next.map(|&(_, at)| at)
    };
    let row = |claim: Claim| match claim {
        Claim::Blank => ExtentClaim::Blank,
        Claim::None => ExtentClaim::None,
        Claim::Unreadable(error) => ExtentClaim::Unreadable(words(&error)),
        Claim::Header(header) => ExtentClaim::Journal {
            journal: header.journal,
            kind: header.kind,
            generation: header.generation,
            start: header.start,
            epoch: header.epoch,
            chain: header.chain,
            freed: starts(header.journal)
                .is_some_and(|from| end(header.journal, header.start).is_some_and(|end| end <= from)),
        },
    };
    let extents = found.into_iter().map(|found| ExtentRow { offset: found.offset, claim: row(found.claim) }).collect();
    let states = (0..).zip(&device.pairs).filter_map(|(pair, held)| state_row(pair, held)).collect();
    Ok(DeviceRow { label: device.label, bytes: storage.len(), states, extents })
}

fn state_row(pair: u32, held: &Pair) -> Option<StateRow> {
    match held {
        Pair::Free => None,
        Pair::Damaged => Some(StateRow::Damaged { pair }),
        Pair::Held { state, both } => Some(StateRow::Held {
            pair,
            journal: state.journal,
            sequence: state.sequence,
            replica: state.replica,
            promise: state.promise,
            cut: state.cut,
            uncertain_to: state.uncertain_to,
            does_not_count: state.does_not_count,
            start: state.start,
            both: *both,
        }),
    }
}

/// Walks the extent at `offset`: units with their frames, damage, then the footer. `visit` may end the walk.
///
/// # Errors
/// `Storage` when its header cannot be read. An extent without an intact header has no items.
pub fn extent<S: Storage>(
    storage: &mut S,
    label: &Label,
    offset: u64,
    sums: &Checksums,
    mut visit: impl FnMut(Item) -> ControlFlow<()>,
) -> Result<(), DeviceError> {
    let mut page = vec![0; SECTOR];
    storage.read(offset, &mut page)?;
    let Ok(header) = ExtentHeader::decode(&page, sums) else { return Ok(()) };
    let end = offset + label.extent_len;
    let footer = read_footer(storage, &header, end, sums);
    let units_end = end - footer.as_ref().map_or(0, |bytes| bytes.len() as u64);
    let mut walk =
        Walk { storage, header, sums, end: units_end, buffer: Vec::new(), from: 0, exact_to: 0, chain: header.chain };
    if walk.units(offset + SECTOR as u64, &mut visit).is_break() {
        return Ok(());
    }
    if let Some(Ok(view)) = footer.as_deref().map(|bytes| FooterView::check(bytes, sums)) {
        for entry in view.entries() {
            let row = FooterRow { partition: entry.partition, newest: entry.newest, runs: entry.runs().collect() };
            if visit(Item::Footer(row)).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The footer's bytes, if there is one of this use of the extent.
fn read_footer<S: Storage>(storage: &mut S, header: &ExtentHeader, end: u64, sums: &Checksums) -> Option<Vec<u8>> {
    let mut last = vec![0; SECTOR];
    storage.read(end - SECTOR as u64, &mut last).ok()?;
    let length = FooterView::length(&last, sums).ok()?;
    if length as u64 > header.len - SECTOR as u64 {
        return None;
    }
    let mut bytes = vec![0; length];
    storage.read(end - length as u64, &mut bytes).ok()?;
    let view = FooterView::check(&bytes, sums).ok()?;
    let right = (view.journal, view.generation) == (header.journal, header.generation);
    right.then_some(bytes)
}

struct Walk<'a, S> {
    storage: &'a mut S,
    header: ExtentHeader,
    sums: &'a Checksums,
    /// Where units end at the latest.
    end: u64,
    /// Bytes read, from device offset `from` on.
    buffer: Vec<u8>,
    from: u64,
    /// A window that ends there could not be read: before it no more is read at once than is needed.
    exact_to: u64,
    /// Of the unit before.
    chain: Chain,
}

impl<S: Storage> Walk<'_, S> {
    fn position(&self, at: u64) -> Position {
        Position(self.header.start.0 + (at - self.header.offset - SECTOR as u64))
    }

    /// Fills the buffer with `need` bytes from `at` at least, or up to the end.
    fn fill(&mut self, at: u64, need: usize) -> Result<(), StorageError> {
        let need = need.min(usize::try_from(self.end - at).unwrap_or(usize::MAX));
        let have = (self.from + self.buffer.len() as u64).saturating_sub(at);
        if at >= self.from && have >= need as u64 {
            return Ok(());
        }
        let window = need.max(WINDOW).min(usize::try_from(self.end - at).unwrap_or(usize::MAX));
        if at >= self.exact_to && window > need {
            if self.read(at, window).is_ok() {
                return Ok(());
            }
            self.exact_to = at + window as u64;
        }
        self.read(at, need)
    }

    fn read(&mut self, at: u64, len: usize) -> Result<(), StorageError> {
        self.buffer.resize(len, 0);
        self.from = at;
        let read = self.storage.read(at, &mut self.buffer);
        if read.is_err() {
            self.buffer.clear();
        }
        read
    }

    fn bytes(&self, at: u64) -> &[u8] {
        let skip = usize::try_from(at - self.from).unwrap_or(usize::MAX);
        self.buffer.get(skip..).unwrap_or_default()
    }

    fn units(&mut self, from: u64, visit: &mut impl FnMut(Item) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut at = from;
        // Where bytes without an intact header began, and what was wrong.
        let mut damage: Option<(u64, String)> = None;
        while at + SECTOR as u64 <= self.end {
            let found = match self.look(at) {
                Ok(found) => found,
                Err(error) => {
                    visit(Item::Unreadable { from: self.position(at), why: words(&error) })?;
                    at += SECTOR as u64;
                    continue;
                }
            };
            match found {
                Ok(unit) => {
                    if let Some((from, why)) = damage.take() {
                        visit(Item::Damage { from: self.position(from), to: self.position(at), why })?;
                    }
                    at += unit.header.bytes() as u64;
                    self.chain = unit.checksum;
                    visit(Item::Unit(unit))?;
                }
                // What follows the last intact header is unused, not damaged.
                Err(why) => {
                    damage.get_or_insert((at, why));
                    at += SECTOR as u64;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// What lies there; an error where not even its first sector can be read.
    fn look(&mut self, at: u64) -> Result<Result<UnitRow, String>, StorageError> {
        self.fill(at, SECTOR)?;
        if let Ok((header, checksum)) = UnitHeader::decode(self.bytes(at), &self.header.secret)
            && header.place() == self.place(at)
            && let Err(error) = self.fill(at, header.bytes())
        {
            // Its header is known: what comes next is found behind it.
            let chained = header.chain == self.chain;
            return Ok(Ok(UnitRow { header, checksum, offset: at, chained, frames: Err(words(&error)) }));
        }
        Ok(self.unit(at))
    }

    fn place(&self, at: u64) -> UnitPlace {
        UnitPlace {
            cluster: self.header.cluster,
            journal: self.header.journal,
            position: self.position(at),
            clustered: matches!(self.header.kind, ExtentKind::Clustered(_)),
        }
    }

    fn unit(&self, at: u64) -> Result<UnitRow, String> {
        let place = self.place(at);
        let bytes = self.bytes(at);
        let (header, checksum) = UnitHeader::decode(bytes, &self.header.secret).map_err(|error| error.to_string())?;
        let frames = match UnitView::check(bytes, &self.header.secret, self.sums, &place) {
            Ok(view) => Ok(view.frames().map(|frame| frame_row(&frame, self.sums)).collect()),
            Err(error @ UnitError::Elsewhere { .. }) => return Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        Ok(UnitRow { header, checksum, offset: at, chained: header.chain == self.chain, frames })
    }
}

fn frame_row(frame: &FrameView<'_>, sums: &Checksums) -> FrameRow {
    let header = &frame.header;
    let intact = frame.is_intact(sums);
    FrameRow {
        kind: header.kind,
        partition: header.partition,
        base_offset: header.base_offset,
        last_offset: header.last_offset(),
        records: header.records,
        max_timestamp: header.max_timestamp,
        bytes: header.length,
        epoch: header.epoch,
        intact,
        detail: if intact { detail(frame) } else { None },
    }
}

/// What a control frame says, in words.
fn detail(frame: &FrameView<'_>) -> Option<String> {
    let bytes = frame.payload;
    let said = match frame.header.kind {
        FrameKind::Records => return None,
        FrameKind::EpochStart => EpochStart::decode(bytes)
            .map(|start| format!("epoch {} after {} by broker {}", start.epoch, start.previous, start.broker)),
        FrameKind::LogStart => LogStartMove::decode(bytes).map(|moved| format!("to {} ({:?})", moved.to, moved.reason)),
        FrameKind::Close => {
            Close::decode(bytes).map(|close| format!("at {}, goes on in journal {}", close.at, close.next))
        }
        FrameKind::Open => {
            Open::decode(bytes).map(|open| format!("from journal {}: {}", open.previous, state_words(&open.state)))
        }
        FrameKind::Snapshot => PartitionState::decode(bytes).map(|state| state_words(&state)),
        FrameKind::Gap => Gap::decode(bytes).map(|gap| {
            format!("{} to {} lost, damage from {} to {}", gap.from, gap.to, gap.damage_start, gap.damage_end)
        }),
    };
    Some(said.unwrap_or_else(|error| error.to_string()))
}

fn state_words(state: &PartitionState) -> String {
    format!(
        "offsets {} to {}, {} epochs, {} producers",
        state.log_start,
        state.next_offset,
        state.epochs.len(),
        state.producers.len()
    )
}

fn words(error: &StorageError) -> String {
    match error {
        StorageError::Io(text) => text.clone(),
        StorageError::Full => "no space".into(),
    }
}

#[cfg(test)]
mod tests;
