//! Checkpoint files: a base record, then increments. Derived state: a file that is lost or damaged costs a scan, no data.
//!
//! Each record is checksummed by itself and numbered; reading ends before the first that is not intact or not next, which is
//! how a truncated tail looks.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use base::{Checksums, Epoch, JournalId, Offset, PartitionId, Position};

use super::bytes::{Put as _, Reader, algorithm};
use super::device::JournalStart;
use super::error::FormatError;
use super::footer::{FooterEntry, Run};
use super::state::PartitionState;
use super::{ALGORITHM_CRC64_NVME, Chain};

const CHECKPOINT_MAGIC: &[u8; 8] = b"BARELOGC";
/// Version 1 knew no clustered extents, and not up to where bytes were counted; versions 1 and 2 did not say which log starts are
/// sure.
const CHECKPOINT_VERSION: u16 = 3;
/// Magic, version, algorithm, zero, sequence, length of the body.
const HEAD_BYTES: usize = 24;
const SUM_BYTES: usize = 8;

/// A partition as a checkpoint keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionEntry {
    /// Its state at the checkpoint's position.
    pub state: PartitionState,
    /// Position of the unit with its newest frame, control frames included.
    pub newest: Position,
    /// Bytes of retained payload.
    pub bytes: u64,
    /// Runs that end before this offset are not in `bytes` any more.
    pub counted: Offset,
    /// Log start that two committed units state. The file itself may be lost, so it does not count as one of them.
    pub sure_start: Offset,
    /// The first unit that states the log start; 0: some unit before this process began, not known which.
    pub moved: Option<Position>,
}

/// An extent of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentEntry {
    /// Byte offset on the device.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// As in its header.
    pub generation: u64,
    /// Position of its first unit, with the epoch and chain in its header.
    pub start: JournalStart,
    /// Position after its last unit; `None` for the open extent.
    pub end: Option<Position>,
    /// Bytes of its footer; 0: none was written.
    pub footer_len: u32,
    /// Of a clustered extent: where the journal goes on after the stretch it stands for.
    pub clustered: Option<JournalStart>,
}

/// One record: all of the state (sequence 0), or what changed since the record before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// The journal.
    pub journal: JournalId,
    /// The device the journal lies on.
    pub device: u128,
    /// 0 for a base, then rising by one.
    pub sequence: u32,
    /// Up to where it folds: the position after the last unit folded, that unit's epoch and chain.
    pub upto: JournalStart,
    /// Partitions, new or changed.
    pub partitions: Vec<PartitionEntry>,
    /// Partitions that are gone.
    pub gone: Vec<PartitionId>,
    /// Extents, new or changed.
    pub extents: Vec<ExtentEntry>,
    /// Start positions of extents that were freed.
    pub freed: Vec<Position>,
    /// Generation of the open extent that `runs` belong to; when it changes, the runs before are dropped.
    pub open: u64,
    /// Index of the open extent: new runs; a run that begins where the last one known begins replaces it.
    pub runs: Vec<FooterEntry>,
}

impl CheckpointRecord {
    /// Appends the record.
    pub fn encode(&self, sums: &Checksums, out: &mut Vec<u8>) {
        let at = out.len();
        out.put(CHECKPOINT_MAGIC);
        out.put(&CHECKPOINT_VERSION.to_le_bytes());
        out.put(&[ALGORITHM_CRC64_NVME, 0]);
        out.put(&self.sequence.to_le_bytes());
        out.put(&[0; 8]);
        self.encode_body(out);
        let body = (out.len() - at - HEAD_BYTES) as u64;
        out[at + HEAD_BYTES - 8..at + HEAD_BYTES].copy_from_slice(&body.to_le_bytes());
        let sum = (sums.crc64)(0, &out[at..]);
        out.put(&sum.to_le_bytes());
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        out.put(&self.device.to_le_bytes());
        out.put(&self.journal.0.to_le_bytes());
        encode_start(&self.upto, out);
        out.put(&self.open.to_le_bytes());
        out.put_count(self.partitions.len());
        for entry in &self.partitions {
            entry.state.encode(out);
            out.put(&entry.newest.0.to_le_bytes());
            out.put(&entry.bytes.to_le_bytes());
            out.put(&entry.counted.0.to_le_bytes());
            out.put(&entry.sure_start.0.to_le_bytes());
            out.put(&entry.moved.map_or(u64::MAX, |moved| moved.0).to_le_bytes());
        }
        out.put_count(self.gone.len());
        for id in &self.gone {
            out.put(&id.0.to_le_bytes());
        }
        out.put_count(self.extents.len());
        for extent in &self.extents {
            out.put(&extent.offset.to_le_bytes());
            out.put(&extent.len.to_le_bytes());
            out.put(&extent.generation.to_le_bytes());
            encode_start(&extent.start, out);
            out.put(&extent.end.map_or(u64::MAX, |end| end.0).to_le_bytes());
            out.put(&extent.footer_len.to_le_bytes());
            out.put(&u32::from(extent.clustered.is_some()).to_le_bytes());
            encode_start(&extent.clustered.unwrap_or_default(), out);
        }
        out.put_count(self.freed.len());
        for position in &self.freed {
            out.put(&position.0.to_le_bytes());
        }
        out.put_count(self.runs.len());
        for entry in &self.runs {
            out.put(&entry.partition.0.to_le_bytes());
            out.put(&entry.newest.0.to_le_bytes());
            out.put_count(entry.runs.len());
            for run in &entry.runs {
                run.encode(out);
            }
        }
    }

    /// Reads the record at the front of `bytes`, and how many bytes it took.
    ///
    /// # Errors
    /// As [`FormatError`] says; `Short` for a truncated one.
    pub fn decode(bytes: &[u8], sums: &Checksums) -> Result<(Self, usize), FormatError> {
        let mut reader = Reader::new(bytes);
        if reader.array::<8>()? != *CHECKPOINT_MAGIC {
            return Err(FormatError::Magic);
        }
        let version = reader.u16()?;
        let algorithm_byte = reader.u8()?;
        reader.u8()?;
        let sequence = reader.u32()?;
        let body = usize::try_from(reader.u64()?).map_err(|_| FormatError::Short)?;
        let body_end = body.checked_add(HEAD_BYTES).ok_or(FormatError::Short)?;
        let (summed, rest) = bytes.split_at_checked(body_end).ok_or(FormatError::Short)?;
        let sum: &[u8; SUM_BYTES] = rest.first_chunk().ok_or(FormatError::Short)?;
        if (sums.crc64)(0, summed).to_le_bytes() != *sum {
            return Err(FormatError::Checksum);
        }
        if version > CHECKPOINT_VERSION {
            return Err(FormatError::NewerVersion { version });
        }
        algorithm(algorithm_byte)?;
        let mut reader = Reader::new(summed.get(HEAD_BYTES..).ok_or(FormatError::Short)?);
        let record = Self::read_body(&mut reader, sequence, version)?;
        if !reader.is_empty() {
            return Err(FormatError::Field("checkpoint length"));
        }
        Ok((record, body_end + SUM_BYTES))
    }

    fn read_body(reader: &mut Reader<'_>, sequence: u32, version: u16) -> Result<Self, FormatError> {
        let device = reader.u128()?;
        let journal = JournalId(reader.u64()?);
        let upto = read_start(reader)?;
        let open = reader.u64()?;
        let partitions = read_list(reader, PartitionState::BYTES_MIN + 16, |reader| {
            let state = PartitionState::read(reader)?;
            let (newest, bytes) = (Position(reader.u64()?), reader.u64()?);
            let counted = if version < 2 { state.log_start } else { Offset(reader.i64()?) };
            let (sure_start, moved) = if version < 3 {
                // Perhaps a single unit states it: it is stated once more.
                (Offset(0), (state.log_start.0 > 0).then_some(Position(0)))
            } else {
                (Offset(reader.i64()?), Some(reader.u64()?).filter(|&moved| moved != u64::MAX).map(Position))
            };
            Ok(PartitionEntry { state, newest, bytes, counted, sure_start, moved })
        })?;
        let gone = read_list(reader, 8, |reader| Ok(PartitionId(reader.u64()?)))?;
        let extents = read_list(reader, 64, |reader| {
            Ok(ExtentEntry {
                offset: reader.u64()?,
                len: reader.u64()?,
                generation: reader.u64()?,
                start: read_start(reader)?,
                end: Some(reader.u64()?).filter(|&end| end != u64::MAX).map(Position),
                footer_len: reader.u32()?,
                clustered: if version < 2 {
                    None
                } else {
                    let clustered = reader.u32()? != 0;
                    Some(read_start(reader)?).filter(|_| clustered)
                },
            })
        })?;
        let freed = read_list(reader, 8, |reader| Ok(Position(reader.u64()?)))?;
        let runs = read_list(reader, 20, |reader| {
            Ok(FooterEntry {
                partition: PartitionId(reader.u64()?),
                newest: Position(reader.u64()?),
                runs: read_list(reader, Run::BYTES, Run::read)?,
            })
        })?;
        Ok(Self { journal, device, sequence, upto, partitions, gone, extents, freed, open, runs })
    }
}

fn read_list<T>(
    reader: &mut Reader<'_>,
    each: usize,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, FormatError>,
) -> Result<Vec<T>, FormatError> {
    let count = reader.count(each)?;
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        list.push(read(reader)?);
    }
    Ok(list)
}

fn encode_start(start: &JournalStart, out: &mut Vec<u8>) {
    out.put(&start.position.0.to_le_bytes());
    out.put(&start.epoch.0.to_le_bytes());
    out.put(&start.chain.0.to_le_bytes());
}

fn read_start(reader: &mut Reader<'_>) -> Result<JournalStart, FormatError> {
    Ok(JournalStart { position: Position(reader.u64()?), epoch: Epoch(reader.i32()?), chain: Chain(reader.u128()?) })
}

/// A checkpoint file folded to one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFold {
    /// Up to where it folds.
    pub upto: JournalStart,
    /// Sequence of the last record folded.
    pub sequence: u32,
    /// Bytes of the file that were intact; increments are appended there.
    pub bytes: usize,
    /// By id.
    pub partitions: BTreeMap<PartitionId, PartitionEntry>,
    /// By start position.
    pub extents: BTreeMap<Position, ExtentEntry>,
    /// Generation of the open extent; 0: none.
    pub open: u64,
    /// Index of the open extent.
    pub runs: BTreeMap<PartitionId, FooterEntry>,
}

impl CheckpointFold {
    /// Folds a file. `None` when not even its base is intact, or when it is of another journal or device.
    #[must_use]
    pub fn read(bytes: &[u8], journal: JournalId, device: u128, sums: &Checksums) -> Option<Self> {
        let mut fold = Self {
            upto: JournalStart::default(),
            sequence: 0,
            bytes: 0,
            partitions: BTreeMap::new(),
            extents: BTreeMap::new(),
            open: 0,
            runs: BTreeMap::new(),
        };
        let mut next = 0;
        while let Some(rest) = bytes.get(fold.bytes..) {
            let Ok((record, taken)) = CheckpointRecord::decode(rest, sums) else { break };
            if record.sequence != next || (record.journal, record.device) != (journal, device) {
                break;
            }
            fold.bytes += taken;
            fold.apply(record);
            next = fold.sequence.saturating_add(1);
        }
        (fold.bytes > 0).then_some(fold)
    }

    fn apply(&mut self, record: CheckpointRecord) {
        self.upto = record.upto;
        self.sequence = record.sequence;
        // First: one that left and came back is in both lists. Of one that left while its state was being gathered metadata
        // knows better, too.
        for id in record.gone {
            self.partitions.remove(&id);
            self.runs.remove(&id);
        }
        for entry in record.partitions {
            self.partitions.insert(entry.state.partition, entry);
        }
        for start in record.freed {
            self.extents.remove(&start);
        }
        for extent in record.extents {
            self.extents.insert(extent.start.position, extent);
        }
        if self.open != record.open {
            self.open = record.open;
            self.runs.clear();
        }
        for entry in record.runs {
            self.apply_runs(entry);
        }
    }

    fn apply_runs(&mut self, entry: FooterEntry) {
        let known = self.runs.entry(entry.partition).or_insert_with(|| FooterEntry { runs: Vec::new(), ..entry });
        known.newest = entry.newest;
        for run in entry.runs {
            match known.runs.last_mut() {
                Some(last) if last.first == run.first => *last = run,
                _ => known.runs.push(run),
            }
        }
    }
}
