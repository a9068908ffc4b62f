//! The footer index of a closed extent: partition → runs. Derived and rebuildable, and versioned apart.
//!
//! It ends where the extent ends: runs, then the partitions in order, then a trailer of 128 bytes. The last sector is read
//! first; it says how far back the footer begins.

use alloc::vec::Vec;

use base::{Checksums, Epoch, JournalId, Offset, PartitionId, Position, WallMs};

use super::bytes::{Put as _, Reader, algorithm};
use super::error::FormatError;
use super::{ALGORITHM_CRC64_NVME, Chain, sectors};

const FOOTER_MAGIC: &[u8; 8] = b"BARELOGF";
const FOOTER_VERSION: u16 = 1;
const TRAILER_BYTES: usize = 128;
const TRAILER_SUM_AT: usize = TRAILER_BYTES - 8;
const RUN_BYTES: usize = 48;
const ENTRY_BYTES: usize = 40;

/// Consecutive record frames of one partition: what one read brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Offset of the first record.
    pub first: Offset,
    /// Offset of the last record.
    pub last: Offset,
    /// Position of the first frame's unit.
    pub position: Position,
    /// Bytes in the journal from there to the end of the unit that holds the last frame.
    pub span: u32,
    /// Bytes of payload, which is what `retention.bytes` counts.
    pub bytes: u32,
    /// Highest timestamp.
    pub max_timestamp: WallMs,
    /// The epoch of all its frames.
    pub epoch: Epoch,
    /// Frames in the run.
    pub frames: u32,
}

impl Run {
    pub(super) const BYTES: usize = RUN_BYTES;

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put(&self.first.0.to_le_bytes());
        out.put(&self.last.0.to_le_bytes());
        out.put(&self.position.0.to_le_bytes());
        out.put(&self.span.to_le_bytes());
        out.put(&self.bytes.to_le_bytes());
        out.put(&self.max_timestamp.0.to_le_bytes());
        out.put(&self.epoch.0.to_le_bytes());
        out.put(&self.frames.to_le_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        Ok(Self {
            first: Offset(reader.i64()?),
            last: Offset(reader.i64()?),
            position: Position(reader.u64()?),
            span: reader.u32()?,
            bytes: reader.u32()?,
            max_timestamp: WallMs(reader.i64()?),
            epoch: Epoch(reader.i32()?),
            frames: reader.u32()?,
        })
    }
}

/// A partition in a footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FooterEntry {
    /// Which.
    pub partition: PartitionId,
    /// Position of the unit with its newest frame here, control frames included.
    pub newest: Position,
    /// Its runs, rising; none when only control frames are here.
    pub runs: Vec<Run>,
}

/// A footer to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The journal.
    pub journal: JournalId,
    /// The extent's generation, so that a stale footer is told.
    pub generation: u64,
    /// Position of the extent's first unit.
    pub start: Position,
    /// Position after its last unit.
    pub end: Position,
    /// Epoch of its last unit.
    pub epoch: Epoch,
    /// Header checksum of its last unit: what the next extent's first unit chains to.
    pub chain: Chain,
    /// Position of the last unit with an epoch start or another frame without a partition; `end` if there is none.
    pub newest_control: Position,
    /// Partitions, rising by id.
    pub entries: Vec<FooterEntry>,
}

impl Footer {
    /// Bytes a footer of that many partitions and runs takes at the end of its extent.
    #[must_use]
    pub const fn bytes(partitions: usize, runs: usize) -> usize {
        sectors(partitions * ENTRY_BYTES + runs * RUN_BYTES + TRAILER_BYTES)
    }

    /// The bytes, a whole number of sectors, to be written so that they end where the extent ends.
    #[must_use]
    pub fn encode(&self, sums: &Checksums) -> Vec<u8> {
        let runs: usize = self.entries.iter().map(|entry| entry.runs.len()).sum();
        let used = self.entries.len() * ENTRY_BYTES + runs * RUN_BYTES;
        let total = Self::bytes(self.entries.len(), runs);
        // The zeros that fill a sector come first: the trailer is found from the end.
        let mut out = alloc::vec![0; total - used - TRAILER_BYTES];
        out.reserve(used + TRAILER_BYTES);
        for run in self.entries.iter().flat_map(|entry| &entry.runs) {
            run.encode(&mut out);
        }
        let mut first = 0;
        for entry in &self.entries {
            out.put(&entry.partition.0.to_le_bytes());
            out.put(&entry.newest.0.to_le_bytes());
            out.put_count(first);
            out.put_count(entry.runs.len());
            let bytes: u64 = entry.runs.iter().map(|run| u64::from(run.bytes)).sum();
            out.put(&bytes.to_le_bytes());
            out.put(&entry.runs.last().map_or(-1, |run| run.last.0).to_le_bytes());
            first += entry.runs.len();
        }
        self.trailer(sums, total, runs, &mut out);
        out
    }

    fn trailer(&self, sums: &Checksums, total: usize, runs: usize, out: &mut Vec<u8>) {
        let body = (sums.crc64)(0, out);
        let at = out.len();
        out.put(FOOTER_MAGIC);
        out.put(&FOOTER_VERSION.to_le_bytes());
        out.put(&[ALGORITHM_CRC64_NVME, 0]);
        out.put_count(total);
        out.put(&self.journal.0.to_le_bytes());
        out.put(&self.generation.to_le_bytes());
        out.put(&self.start.0.to_le_bytes());
        out.put(&self.end.0.to_le_bytes());
        out.put(&self.chain.0.to_le_bytes());
        out.put(&self.newest_control.0.to_le_bytes());
        out.put(&self.epoch.0.to_le_bytes());
        out.put_count(self.entries.len());
        out.put_count(runs);
        out.put(&[0; 4]);
        out.put(&body.to_le_bytes());
        out.resize(at + TRAILER_SUM_AT, 0);
        let sum = (sums.crc64)(0, &out[at..]);
        out.put(&sum.to_le_bytes());
    }
}

/// A checked footer, read in place.
#[derive(Clone, Copy, Debug)]
pub struct FooterView<'a> {
    /// The journal.
    pub journal: JournalId,
    /// The extent's generation.
    pub generation: u64,
    /// Position of the extent's first unit.
    pub start: Position,
    /// Position after its last unit.
    pub end: Position,
    /// Epoch of its last unit.
    pub epoch: Epoch,
    /// Header checksum of its last unit.
    pub chain: Chain,
    /// Position of the last unit with a frame without a partition; `end` if there is none.
    pub newest_control: Position,
    runs: &'a [[u8; RUN_BYTES]],
    entries: &'a [[u8; ENTRY_BYTES]],
}

/// A partition in a checked footer.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'a> {
    /// Which.
    pub partition: PartitionId,
    /// Position of the unit with its newest frame here.
    pub newest: Position,
    /// Bytes of payload.
    pub bytes: u64,
    /// Its last offset here; −1 when only control frames are here.
    pub last: Offset,
    runs: &'a [[u8; RUN_BYTES]],
}

/// What the trailer says, once its own checksum holds.
struct Trailer {
    total: usize,
    entries: usize,
    runs: usize,
    body: u64,
}

impl<'a> FooterView<'a> {
    /// How many bytes, counted from the extent's end, the footer takes; from the extent's last sector.
    ///
    /// # Errors
    /// As [`FormatError`] says.
    pub fn length(last_sector: &[u8], sums: &Checksums) -> Result<usize, FormatError> {
        read_trailer(last_sector, sums).map(|(trailer, _)| trailer.total)
    }

    /// Checks a footer that ends where `bytes` end. It may be longer than the footer.
    ///
    /// # Errors
    /// `Short` when the footer is longer than `bytes`; as [`FormatError`] says.
    pub fn check(bytes: &'a [u8], sums: &Checksums) -> Result<Self, FormatError> {
        let (trailer, mut view) = read_trailer(bytes, sums)?;
        let start = bytes.len().checked_sub(trailer.total).ok_or(FormatError::Short)?;
        let all = bytes.get(start..bytes.len() - TRAILER_BYTES).ok_or(FormatError::Short)?;
        if (sums.crc64)(0, all) != trailer.body {
            return Err(FormatError::Checksum);
        }
        let used = trailer.runs * RUN_BYTES + trailer.entries * ENTRY_BYTES;
        let used =
            all.len().checked_sub(used).and_then(|zeros| all.get(zeros..)).ok_or(FormatError::Field("counts"))?;
        let (runs, entries) = used.split_at_checked(trailer.runs * RUN_BYTES).ok_or(FormatError::Field("counts"))?;
        view.runs = runs.as_chunks().0;
        view.entries = entries.as_chunks().0;
        view.check_entries()?;
        Ok(view)
    }

    /// Entries rise by partition and name runs that are there, one after the other.
    fn check_entries(&self) -> Result<(), FormatError> {
        let (mut next, mut before) = (0usize, None);
        for bytes in self.entries {
            let (partition, first, count) = entry_fields(bytes)?;
            if first as usize != next || before.is_some_and(|before| before >= partition) {
                return Err(FormatError::Field("footer entries"));
            }
            before = Some(partition);
            next = next.checked_add(count as usize).ok_or(FormatError::Field("footer entries"))?;
        }
        if next == self.runs.len() { Ok(()) } else { Err(FormatError::Field("footer runs")) }
    }

    /// All partitions, rising by id.
    pub fn entries(&self) -> impl Iterator<Item = EntryView<'a>> + use<'a> {
        let runs = self.runs;
        self.entries.iter().filter_map(move |bytes| entry_view(bytes, runs))
    }

    /// One partition.
    #[must_use]
    pub fn entry(&self, partition: PartitionId) -> Option<EntryView<'a>> {
        let id = |bytes: &[u8; ENTRY_BYTES]| entry_fields(bytes).map_or(u64::MAX, |(id, _, _)| id);
        let at = self.entries.binary_search_by_key(&partition.0, id).ok()?;
        entry_view(self.entries.get(at)?, self.runs)
    }
}

impl<'a> EntryView<'a> {
    /// The runs, rising.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = Run> + ExactSizeIterator + use<'a> {
        self.runs.iter().map(|bytes| Run::read(&mut Reader::new(bytes)).expect("48 bytes are a run"))
    }

    /// How many runs.
    #[must_use]
    pub const fn run_count(&self) -> usize {
        self.runs.len()
    }
}

/// (partition, first run, number of runs).
fn entry_fields(bytes: &[u8; ENTRY_BYTES]) -> Result<(u64, u32, u32), FormatError> {
    let mut reader = Reader::new(bytes);
    let partition = reader.u64()?;
    reader.u64()?;
    Ok((partition, reader.u32()?, reader.u32()?))
}

fn entry_view<'a>(bytes: &[u8; ENTRY_BYTES], runs: &'a [[u8; RUN_BYTES]]) -> Option<EntryView<'a>> {
    let mut reader = Reader::new(bytes);
    let partition = PartitionId(reader.u64().ok()?);
    let newest = Position(reader.u64().ok()?);
    let first = reader.u32().ok()? as usize;
    let count = reader.u32().ok()? as usize;
    let bytes = reader.u64().ok()?;
    let last = Offset(reader.i64().ok()?);
    Some(EntryView { partition, newest, bytes, last, runs: runs.get(first..first + count)? })
}

fn read_trailer<'a>(bytes: &'a [u8], sums: &Checksums) -> Result<(Trailer, FooterView<'a>), FormatError> {
    let bytes: &[u8; TRAILER_BYTES] = bytes.last_chunk().ok_or(FormatError::Short)?;
    let (body, sum) = bytes.split_at(TRAILER_SUM_AT);
    let mut reader = Reader::new(body);
    if reader.array::<8>()? != *FOOTER_MAGIC {
        return Err(FormatError::Magic);
    }
    if (sums.crc64)(0, body).to_le_bytes() != sum {
        return Err(FormatError::Checksum);
    }
    let version = reader.u16()?;
    if version > FOOTER_VERSION {
        return Err(FormatError::NewerVersion { version });
    }
    algorithm(reader.u8()?)?;
    reader.u8()?;
    let total = reader.u32()? as usize;
    let view = FooterView {
        journal: JournalId(reader.u64()?),
        generation: reader.u64()?,
        start: Position(reader.u64()?),
        end: Position(reader.u64()?),
        chain: Chain(reader.u128()?),
        newest_control: Position(reader.u64()?),
        epoch: Epoch(reader.i32()?),
        runs: &[],
        entries: &[],
    };
    let entries = reader.u32()? as usize;
    let runs = reader.u32()? as usize;
    reader.u32()?;
    let body = reader.u64()?;
    let trailer = Trailer { total, entries, runs, body };
    // Checked arithmetic is not needed: both counts are 32 bits, and usize has 64.
    if total != Footer::bytes(entries, runs) {
        return Err(FormatError::Field("footer length"));
    }
    Ok((trailer, view))
}
