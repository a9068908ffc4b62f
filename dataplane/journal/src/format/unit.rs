//! Units and frames.
//!
//! A unit is a header of 128 bytes, then frames, then zeros up to a whole sector. A frame is a header of 64 bytes, its
//! payload, then zeros up to 8 bytes.

use base::checksum::keyed128;
use base::image::Secret;
use base::{Checksums, ClusterId, Epoch, JournalId, Offset, PartitionId, Position, WallMs};
use core::fmt;

use super::bytes::{Reader, Writer};
use super::{
    ALGORITHM_CRC64_NVME, ALGORITHM_SIPHASH_2_4_128, Chain, SECTOR, UNIT_BYTES_MAX, VERSION, aligned, sectors,
};

const UNIT_MAGIC: &[u8; 8] = b"BARELOGU";
const UNIT_SUM_AT: usize = 112;
const FRAME_SUM_AT: usize = 56;

/// The header of a unit, without its own checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHeader {
    /// The cluster.
    pub cluster: ClusterId,
    /// The journal.
    pub journal: JournalId,
    /// Where the unit lies in its journal; a multiple of 4096.
    pub position: Position,
    /// Bytes of header and frames; a multiple of 8.
    pub length: u32,
    /// Zeros after them, up to a whole sector.
    pub padding: u32,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// Frames in the unit; none in a closing unit.
    pub frames: u32,
    /// Header checksum of the unit before.
    pub chain: Chain,
    /// The commit position the leader knew when it closed the unit.
    pub commit: Position,
    /// The leader's wall clock when it closed the unit.
    pub wall: WallMs,
    /// None are defined.
    pub flags: u16,
    /// Key the payloads are encrypted with; 0: not encrypted.
    pub key_id: u32,
    /// Checksum over the frame headers, in order.
    pub body: u64,
}

/// Whose unit, and where: what a reader knows before it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitPlace {
    /// The cluster.
    pub cluster: ClusterId,
    /// The journal.
    pub journal: JournalId,
    /// The position.
    pub position: Position,
    /// Whether the extent is clustered.
    pub clustered: bool,
}

/// Why a unit was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitError {
    /// No intact header of this journal: never written, torn, rotten, or another journal's.
    Header,
    /// An intact header of this journal that belongs elsewhere: a stale unit of a recycled extent, or a misdirected write.
    Elsewhere {
        /// What the header says.
        header: UnitHeader,
    },
    /// An intact header, but the unit is longer than the bytes given.
    Short {
        /// Bytes the unit takes, padding included.
        need: usize,
    },
    /// An intact header over frame headers that do not fit it: a torn write, or rot in a frame header.
    Torn {
        /// The header, whose commit position counts.
        header: UnitHeader,
    },
    /// An intact header of a newer version.
    NewerVersion {
        /// The version found.
        version: u16,
    },
    /// An intact header with an algorithm, flag or key that this version does not know.
    Unsupported {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u32,
    },
    /// An intact frame header of a kind that this version does not know. The journal must not be opened.
    UnknownKind {
        /// The kind.
        kind: u8,
        /// The frame's version.
        version: u8,
        /// The unit.
        position: Position,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("no intact unit header"),
            Self::Elsewhere { header } => {
                write!(f, "a unit of journal {} position {} lies here", header.journal, header.position)
            }
            Self::Short { need } => write!(f, "the unit takes {need} bytes"),
            Self::Torn { header } => write!(f, "torn body of the unit at position {}", header.position),
            Self::NewerVersion { version } => {
                write!(f, "unit of format version {version}; this program reads {VERSION}")
            }
            Self::Unsupported { field, value } => write!(f, "unit with unsupported {field} {value}"),
            Self::UnknownKind { kind, version, position } => {
                write!(f, "frame of unknown kind {kind} (version {version}) in the unit at position {position}")
            }
        }
    }
}

impl core::error::Error for UnitError {}

/// The checksum of a unit's header.
fn header_sum(key: &Secret, header: &[u8]) -> u128 {
    let key = if cfg!(fault = "header-not-keyed") { [0; 16] } else { key.0 };
    keyed128(&key, header)
}

impl UnitHeader {
    /// Bytes of a unit header.
    pub const BYTES: usize = 128;

    /// Flag of a unit in a clustered extent: its position is not one at which a replica wrote it.
    pub const CLUSTERED: u16 = 1;

    /// Whose unit it is, and where it belongs.
    #[must_use]
    pub const fn place(&self) -> UnitPlace {
        UnitPlace {
            cluster: self.cluster,
            journal: self.journal,
            position: self.position,
            clustered: self.flags & Self::CLUSTERED != 0,
        }
    }

    /// Writes the header and gives its checksum, to which the next unit chains.
    ///
    /// # Panics
    /// When `out` is shorter than [`UnitHeader::BYTES`].
    pub fn encode(&self, key: &Secret, out: &mut [u8]) -> Chain {
        Writer::new(&mut out[..UNIT_SUM_AT])
            .put(UNIT_MAGIC)
            .put(&VERSION.to_le_bytes())
            .put(&[ALGORITHM_SIPHASH_2_4_128, ALGORITHM_CRC64_NVME])
            .put(&self.flags.to_le_bytes())
            .put(&[0, 0])
            .put(&self.cluster.0.to_le_bytes())
            .put(&self.journal.0.to_le_bytes())
            .put(&self.position.0.to_le_bytes())
            .put(&self.length.to_le_bytes())
            .put(&self.padding.to_le_bytes())
            .put(&self.epoch.0.to_le_bytes())
            .put(&self.frames.to_le_bytes())
            .put(&self.chain.0.to_le_bytes())
            .put(&self.commit.0.to_le_bytes())
            .put(&self.wall.0.to_le_bytes())
            .put(&self.key_id.to_le_bytes())
            .put(&[0; 4])
            .put(&self.body.to_le_bytes());
        let sum = header_sum(key, &out[..UNIT_SUM_AT]);
        out[UNIT_SUM_AT..Self::BYTES].copy_from_slice(&sum.to_le_bytes());
        Chain(sum)
    }

    /// Checks and reads a header, wherever it belongs. Gives its checksum too.
    ///
    /// # Errors
    /// `Header`, `NewerVersion` or `Unsupported`.
    pub fn decode(bytes: &[u8], key: &Secret) -> Result<(Self, Chain), UnitError> {
        let bytes: &[u8; Self::BYTES] = bytes.first_chunk().ok_or(UnitError::Header)?;
        if !bytes.starts_with(UNIT_MAGIC) {
            return Err(UnitError::Header);
        }
        let (body, sum) = bytes.split_at(UNIT_SUM_AT);
        let chain = header_sum(key, body);
        if chain.to_le_bytes() != sum {
            return Err(UnitError::Header);
        }
        let header = Self::fields(body)?;
        Ok((header, Chain(chain)))
    }

    fn fields(body: &[u8]) -> Result<Self, UnitError> {
        let mut reader = Reader::new(body);
        // The slice is 112 bytes, all that is read here; `Short` cannot be.
        let mut read = || -> Result<_, super::FormatError> {
            reader.array::<8>()?;
            let version = reader.u16()?;
            let algorithms = reader.array::<2>()?;
            let flags = reader.u16()?;
            reader.u16()?;
            let header = Self {
                cluster: ClusterId(reader.u128()?),
                journal: JournalId(reader.u64()?),
                position: Position(reader.u64()?),
                length: reader.u32()?,
                padding: reader.u32()?,
                epoch: Epoch(reader.i32()?),
                frames: reader.u32()?,
                chain: Chain(reader.u128()?),
                commit: Position(reader.u64()?),
                wall: WallMs(reader.i64()?),
                flags,
                key_id: reader.u32()?,
                body: {
                    reader.u32()?;
                    reader.u64()?
                },
            };
            Ok((version, algorithms, header))
        };
        let (version, algorithms, header) = read().map_err(|_| UnitError::Header)?;
        if version > VERSION {
            return Err(UnitError::NewerVersion { version });
        }
        if algorithms != [ALGORITHM_SIPHASH_2_4_128, ALGORITHM_CRC64_NVME] {
            return Err(UnitError::Unsupported { field: "algorithms", value: u16::from_le_bytes(algorithms).into() });
        }
        if header.flags & !UnitHeader::CLUSTERED != 0 {
            return Err(UnitError::Unsupported { field: "flags", value: header.flags.into() });
        }
        if header.key_id != 0 {
            return Err(UnitError::Unsupported { field: "key id", value: header.key_id });
        }
        header.check()
    }

    fn check(self) -> Result<Self, UnitError> {
        let (length, padding) = (self.length as usize, self.padding as usize);
        let right = length >= Self::BYTES
            && length == aligned(length)
            && length <= UNIT_BYTES_MAX
            && length + padding == sectors(length)
            && self.position.0.is_multiple_of(SECTOR as u64)
            && self.position.0.checked_add((length + padding) as u64).is_some();
        if right { Ok(self) } else { Err(UnitError::Header) }
    }

    /// Bytes the unit takes on the device and in positions.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.length as usize + self.padding as usize
    }

    /// Position of the unit after this one.
    #[must_use]
    pub const fn end(&self) -> Position {
        Position(self.position.0 + self.length as u64 + self.padding as u64)
    }
}

/// A unit whose header and frame headers are intact. Payloads are checked apart: rot there costs one frame.
#[derive(Clone, Copy, Debug)]
pub struct UnitView<'a> {
    header: UnitHeader,
    chain: Chain,
    body: &'a [u8],
}

impl<'a> UnitView<'a> {
    /// Checks header, place and frame headers of the unit at the front of `bytes`.
    ///
    /// # Errors
    /// As [`UnitError`] says.
    pub fn check(bytes: &'a [u8], key: &Secret, sums: &Checksums, place: &UnitPlace) -> Result<Self, UnitError> {
        let (header, chain) = UnitHeader::decode(bytes, key)?;
        if header.place() != *place {
            return Err(UnitError::Elsewhere { header });
        }
        if bytes.len() < header.bytes() {
            return Err(UnitError::Short { need: header.bytes() });
        }
        let body = bytes.get(UnitHeader::BYTES..header.length as usize).ok_or(UnitError::Torn { header })?;
        let view = Self { header, chain, body };
        view.check_frames(sums)?;
        Ok(view)
    }

    fn check_frames(&self, sums: &Checksums) -> Result<(), UnitError> {
        let torn = UnitError::Torn { header: self.header };
        let (mut at, mut sum, mut unknown) = (0, 0, None);
        for _ in 0..self.header.frames {
            let bytes =
                self.body.get(at..).and_then(|rest| rest.first_chunk::<{ FrameHeader::BYTES }>()).ok_or(torn)?;
            let raw = RawFrame::check(bytes, sums).ok_or(torn)?;
            sum = (sums.crc64)(sum, bytes);
            at += FrameHeader::BYTES + aligned(raw.header.length as usize);
            if at > self.body.len() {
                return Err(torn);
            }
            if raw.kind.is_none() && unknown.is_none() {
                unknown = Some((raw.kind_byte, raw.version));
            }
        }
        if at != self.body.len() || sum != self.header.body {
            return Err(torn);
        }
        match unknown {
            None => Ok(()),
            Some((kind, version)) => Err(UnitError::UnknownKind { kind, version, position: self.header.position }),
        }
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &UnitHeader {
        &self.header
    }

    /// The header's checksum: what the next unit chains to.
    #[must_use]
    pub const fn chain(&self) -> Chain {
        self.chain
    }

    /// The frames in order.
    #[must_use]
    pub const fn frames(&self) -> Frames<'a> {
        Frames { left: self.header.frames, at: UnitHeader::BYTES, rest: self.body }
    }

    /// Index of the first frame whose payload fails its checksum.
    #[must_use]
    pub fn bad_payload(&self, sums: &Checksums) -> Option<usize> {
        self.frames().position(|frame| !frame.is_intact(sums))
    }
}

/// Walks the frames of a checked unit.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    left: u32,
    at: usize,
    rest: &'a [u8],
}

impl<'a> Iterator for Frames<'a> {
    type Item = FrameView<'a>;

    fn next(&mut self) -> Option<FrameView<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (head, rest) = self.rest.split_first_chunk::<{ FrameHeader::BYTES }>()?;
        let raw = RawFrame::read(head);
        let header = FrameHeader { kind: raw.kind?, ..raw.header };
        let (stored, rest) = rest.split_at_checked(aligned(header.length as usize))?;
        let (payload, zeros) = stored.split_at_checked(header.length as usize)?;
        let at = self.at;
        self.at += FrameHeader::BYTES + stored.len();
        self.rest = rest;
        Some(FrameView { header, at, payload, zeros })
    }
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameKind {
    /// A Kafka record batch (v2), as served to consumers.
    Records,
    /// A leader begins an epoch: [`super::EpochStart`].
    EpochStart,
    /// A partition's log start moved: [`super::LogStartMove`].
    LogStart,
    /// A partition leaves this journal at an offset: [`super::Close`].
    Close,
    /// A partition enters this journal at an offset: [`super::Open`].
    Open,
    /// All that must be known of a partition: [`super::PartitionState`].
    Snapshot,
    /// Offsets of a partition that are lost for ever: [`super::Gap`].
    Gap,
}

impl FrameKind {
    const ALL: [Self; 7] =
        [Self::Records, Self::EpochStart, Self::LogStart, Self::Close, Self::Open, Self::Snapshot, Self::Gap];

    /// The byte on the device. 8 is kept for transaction markers.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Records => 1,
            Self::EpochStart => 2,
            Self::LogStart => 3,
            Self::Close => 4,
            Self::Open => 5,
            Self::Snapshot => 6,
            Self::Gap => 7,
        }
    }

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }
}

/// The header of a frame, without its own checksum. It verifies outside its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What it carries.
    pub kind: FrameKind,
    /// None are defined.
    pub flags: u16,
    /// Records in the batch; 0 for control frames.
    pub records: u32,
    /// The partition; 0 for epoch starts.
    pub partition: PartitionId,
    /// Offset of the first record; for control frames the offset they are about.
    pub base_offset: Offset,
    /// Highest timestamp of the batch; −1 for control frames.
    pub max_timestamp: WallMs,
    /// Bytes of payload.
    pub length: u32,
    /// The epoch in which it was appended, which it keeps when it is moved.
    pub epoch: Epoch,
    /// Checksum of the payload.
    pub payload: u64,
    /// Last offset less the first; 0 for control frames. Not less than `records - 1`; more once compacted.
    pub last_offset_delta: u32,
}

/// A frame header as its bytes say, whose kind may be unknown.
struct RawFrame {
    kind_byte: u8,
    version: u8,
    kind: Option<FrameKind>,
    header: FrameHeader,
}

/// Version of frames that this code writes, and the highest it reads.
const FRAME_VERSION: u8 = 1;

impl RawFrame {
    fn check(bytes: &[u8; FrameHeader::BYTES], sums: &Checksums) -> Option<Self> {
        let (body, sum) = bytes.split_at(FRAME_SUM_AT);
        ((sums.crc64)(0, body).to_le_bytes() == sum).then(|| Self::read(bytes))
    }

    /// Reads fields without checks. All-zero fields stand for what cannot be missing.
    fn read(bytes: &[u8; FrameHeader::BYTES]) -> Self {
        let [kind_byte, version, f0, f1, ..] = *bytes;
        let four =
            |at: usize| -> [u8; 4] { bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default() };
        let eight =
            |at: usize| -> [u8; 8] { bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default() };
        let kind = if version == FRAME_VERSION { FrameKind::of(kind_byte) } else { None };
        let header = FrameHeader {
            kind: kind.unwrap_or(FrameKind::Records),
            flags: u16::from_le_bytes([f0, f1]),
            records: u32::from_le_bytes(four(4)),
            partition: PartitionId(u64::from_le_bytes(eight(8))),
            base_offset: Offset(i64::from_le_bytes(eight(16))),
            max_timestamp: WallMs(i64::from_le_bytes(eight(24))),
            length: u32::from_le_bytes(four(32)),
            epoch: Epoch(i32::from_le_bytes(four(36))),
            payload: u64::from_le_bytes(eight(40)),
            last_offset_delta: u32::from_le_bytes(four(48)),
        };
        Self { kind_byte, version, kind, header }
    }
}

impl FrameHeader {
    /// Bytes of a frame header.
    pub const BYTES: usize = 64;

    /// Bytes a frame with `payload` bytes takes in a unit.
    #[must_use]
    pub const fn frame_bytes(payload: usize) -> usize {
        Self::BYTES + aligned(payload)
    }

    /// Writes the header. The unit's body checksum continues over the 64 bytes written.
    ///
    /// # Panics
    /// When `out` is shorter than [`FrameHeader::BYTES`].
    pub fn encode(&self, sums: &Checksums, out: &mut [u8]) {
        Writer::new(&mut out[..FRAME_SUM_AT])
            .put(&[self.kind.byte(), FRAME_VERSION])
            .put(&self.flags.to_le_bytes())
            .put(&self.records.to_le_bytes())
            .put(&self.partition.0.to_le_bytes())
            .put(&self.base_offset.0.to_le_bytes())
            .put(&self.max_timestamp.0.to_le_bytes())
            .put(&self.length.to_le_bytes())
            .put(&self.epoch.0.to_le_bytes())
            .put(&self.payload.to_le_bytes())
            .put(&self.last_offset_delta.to_le_bytes())
            .put(&[0; 4]);
        let sum = (sums.crc64)(0, &out[..FRAME_SUM_AT]);
        out[FRAME_SUM_AT..Self::BYTES].copy_from_slice(&sum.to_le_bytes());
    }

    /// Checks and reads a header outside its unit.
    ///
    /// # Errors
    /// `Short`, `Checksum`, or `Field` for an unknown kind.
    pub fn decode(bytes: &[u8], sums: &Checksums) -> Result<Self, super::FormatError> {
        let bytes = bytes.first_chunk().ok_or(super::FormatError::Short)?;
        let raw = RawFrame::check(bytes, sums).ok_or(super::FormatError::Checksum)?;
        raw.kind.map(|_| raw.header).ok_or(super::FormatError::Field("frame kind"))
    }

    /// Offset of the last record.
    #[must_use]
    pub const fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.saturating_add(self.last_offset_delta as i64))
    }
}

/// A frame of a checked unit.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// Its header.
    pub header: FrameHeader,
    /// Byte offset of the frame's header from the start of its unit.
    pub at: usize,
    /// The payload, intact only if [`FrameView::is_intact`].
    pub payload: &'a [u8],
    zeros: &'a [u8],
}

impl FrameView<'_> {
    /// Whether the payload matches its checksum, and what fills it up to 8 bytes is zero.
    #[must_use]
    pub fn is_intact(&self, sums: &Checksums) -> bool {
        self.zeros.iter().all(|&byte| byte == 0) && (sums.crc64)(0, self.payload) == self.header.payload
    }

    /// Bytes the frame takes in its unit.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        FrameHeader::frame_bytes(self.payload.len())
    }
}
