//! What lies on a device around the units: label, local state, extent headers. Each is one 4 KiB page.

use base::image::Secret;
use base::{BrokerId, Checksums, ClusterId, Epoch, JournalId, Position};

use super::bytes::{page_begin, page_open, page_seal};
use super::error::FormatError;
use super::{Chain, SECTOR};

const STATE_MAGIC: &[u8; 8] = b"BARELOGS";
const EXTENT_MAGIC: &[u8; 8] = b"BARELOGX";

/// What a device says of itself. Two copies, the same bytes: at [`Label::FIRST_AT`] and [`Label::SECOND_AT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The cluster it belongs to.
    pub cluster: ClusterId,
    /// The broker it belongs to.
    pub broker: BrokerId,
    /// This device: random, never reused.
    pub device: u128,
    /// Length of every extent of the device, in bytes.
    pub extent_len: u64,
    /// Where the pairs of local-state slots begin.
    pub state_offset: u64,
    /// How many pairs there are: the most journals the device can carry.
    pub state_pairs: u32,
    /// Where the extents begin.
    pub extents_offset: u64,
}

impl Label {
    /// The first bytes of a device.
    pub const MAGIC: &[u8; 8] = b"BARELOGD";
    /// The first copy.
    pub const FIRST_AT: u64 = 0;
    /// The second copy, 60 KiB on.
    pub const SECOND_AT: u64 = 60 << 10;
    /// Where the state area of a device made by this version begins.
    pub const STATE_AT: u64 = 64 << 10;

    /// Writes the page.
    pub fn encode(&self, sums: &Checksums, page: &mut [u8; SECTOR]) {
        let mut writer = page_begin(page, Self::MAGIC);
        writer
            .put(&self.cluster.0.to_le_bytes())
            .put(&self.device.to_le_bytes())
            .put(&self.broker.0.to_le_bytes())
            .put(&self.state_pairs.to_le_bytes())
            .put(&self.extent_len.to_le_bytes())
            .put(&self.state_offset.to_le_bytes())
            .put(&self.extents_offset.to_le_bytes());
        page_seal(page, sums);
    }

    /// Reads the page.
    ///
    /// # Errors
    /// As [`FormatError`] says; `Field` where the areas overlap or are not aligned.
    pub fn decode(bytes: &[u8], sums: &Checksums) -> Result<Self, FormatError> {
        let mut reader = page_open(bytes, Self::MAGIC, sums)?;
        let cluster = ClusterId(reader.u128()?);
        let device = reader.u128()?;
        let broker = BrokerId(reader.i32()?);
        let state_pairs = reader.u32()?;
        let label = Self {
            cluster,
            broker,
            device,
            extent_len: reader.u64()?,
            state_offset: reader.u64()?,
            state_pairs,
            extents_offset: reader.u64()?,
        };
        label.check()
    }

    fn check(self) -> Result<Self, FormatError> {
        let sector = SECTOR as u64;
        if self.extent_len < 2 * sector || !self.extent_len.is_multiple_of(sector) {
            return Err(FormatError::Field("extent length"));
        }
        // 65,536 journals are 512 MiB of slots: more is a label gone wrong, and would be read into memory.
        if self.state_pairs > 1 << 16 {
            return Err(FormatError::Field("state pairs"));
        }
        if self.state_offset < Self::SECOND_AT + sector || !self.state_offset.is_multiple_of(sector) {
            return Err(FormatError::Field("state offset"));
        }
        let state_end = self.state_offset.checked_add(u64::from(self.state_pairs) * 2 * sector);
        if !self.extents_offset.is_multiple_of(sector) || state_end.is_none_or(|end| end > self.extents_offset) {
            return Err(FormatError::Field("extents offset"));
        }
        Ok(self)
    }

    /// Where slot `second` (0 or 1) of pair `pair` lies.
    #[must_use]
    pub const fn slot_at(&self, pair: u32, second: bool) -> u64 {
        self.state_offset + (pair as u64 * 2 + second as u64) * SECTOR as u64
    }
}

/// A durable mark: what this replica held at or above `position` in epochs below `epoch` is void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// From where.
    pub position: Position,
    /// The epoch that cut.
    pub epoch: Epoch,
}

/// Where a journal begins on this device, and what the first unit there chains to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalStart {
    /// Position of the first unit.
    pub position: Position,
    /// Epoch of the unit before it.
    pub epoch: Epoch,
    /// Header checksum of the unit before it; zero at the journal's very beginning.
    pub chain: Chain,
}

/// What a journal replica must not forget: one slot of its pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalState {
    /// Rises by one with every change; the higher valid slot wins.
    pub sequence: u64,
    /// The cluster, against foreign pages.
    pub cluster: ClusterId,
    /// The device, against foreign pages.
    pub device: u128,
    /// Whose state this is.
    pub journal: JournalId,
    /// Random id of this replica's data.
    pub replica: u128,
    /// Epochs below this are refused.
    pub promise: Epoch,
    /// What is void.
    pub cut: Cut,
    /// How far this replica may have answered "durable" before it lost something; zero when it lost nothing.
    pub uncertain_to: Position,
    /// Whether this replica's word must not count in a seal.
    pub does_not_count: bool,
    /// Where the journal begins here.
    pub start: JournalStart,
    /// Key of the journal's unit headers.
    pub secret: Secret,
}

impl LocalState {
    /// Writes the page.
    pub fn encode(&self, sums: &Checksums, page: &mut [u8; SECTOR]) {
        let mut writer = page_begin(page, STATE_MAGIC);
        writer
            .put(&self.sequence.to_le_bytes())
            .put(&self.journal.0.to_le_bytes())
            .put(&self.cluster.0.to_le_bytes())
            .put(&self.device.to_le_bytes())
            .put(&self.replica.to_le_bytes())
            .put(&self.secret.0)
            .put(&self.promise.0.to_le_bytes())
            .put(&self.cut.epoch.0.to_le_bytes())
            .put(&self.cut.position.0.to_le_bytes())
            .put(&self.uncertain_to.0.to_le_bytes())
            .put(&self.start.position.0.to_le_bytes())
            .put(&self.start.chain.0.to_le_bytes())
            .put(&self.start.epoch.0.to_le_bytes())
            .put(&u32::from(self.does_not_count).to_le_bytes());
        page_seal(page, sums);
    }

    /// Reads the page.
    ///
    /// # Errors
    /// As [`FormatError`] says; `Magic` where the slot was never written.
    pub fn decode(bytes: &[u8], sums: &Checksums) -> Result<Self, FormatError> {
        let mut reader = page_open(bytes, STATE_MAGIC, sums)?;
        let sequence = reader.u64()?;
        let journal = JournalId(reader.u64()?);
        let cluster = ClusterId(reader.u128()?);
        let device = reader.u128()?;
        let replica = reader.u128()?;
        let secret = Secret(reader.array()?);
        let promise = Epoch(reader.i32()?);
        let cut_epoch = Epoch(reader.i32()?);
        let cut = Cut { position: Position(reader.u64()?), epoch: cut_epoch };
        let uncertain_to = Position(reader.u64()?);
        let start_position = Position(reader.u64()?);
        let chain = Chain(reader.u128()?);
        let start = JournalStart { position: start_position, epoch: Epoch(reader.i32()?), chain };
        let does_not_count = match reader.u32()? {
            0 => false,
            1 => true,
            _ => return Err(FormatError::Field("state flags")),
        };
        let state = Self {
            sequence,
            cluster,
            device,
            journal,
            replica,
            promise,
            cut,
            uncertain_to,
            does_not_count,
            start,
            secret,
        };
        Ok(state)
    }
}

/// What an extent holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// Units as replicated.
    Raw,
    /// What outlived the rest of a closed, committed stretch of the journal, by partition. Its units lie at positions of that
    /// stretch, from its start on.
    Clustered(Stretch),
}

/// The stretch of a journal that a clustered extent stands for, and where the journal goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// End of the clustered units.
    pub end: Position,
    /// Where the first raw unit after the stretch begins, with the epoch under which its extent was begun and what it chains
    /// to.
    pub upto: JournalStart,
    /// Records of compacted partitions in it were held against all that lies below; 0: against nothing.
    pub compacted: Position,
}

/// The first page of an extent; units begin right after it. Written with the extent's first unit and covered by the same
/// flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentHeader {
    /// What it holds.
    pub kind: ExtentKind,
    /// Rises with every use of any extent of the device: the higher of two claims is the later one.
    pub generation: u64,
    /// The cluster.
    pub cluster: ClusterId,
    /// The device, so that a page copied from elsewhere is told.
    pub device: u128,
    /// The journal.
    pub journal: JournalId,
    /// Where it lies on the device, so that a misdirected page is told.
    pub offset: u64,
    /// Its length in bytes, this page included.
    pub len: u64,
    /// Position of its first unit.
    pub start: Position,
    /// Epoch under which it was begun.
    pub epoch: Epoch,
    /// What its first unit chains to.
    pub chain: Chain,
    /// Key of the journal's unit headers.
    pub secret: Secret,
}

impl ExtentHeader {
    /// Bytes of the header: the first unit begins here.
    pub const BYTES: usize = SECTOR;

    /// Writes the page.
    pub fn encode(&self, sums: &Checksums, page: &mut [u8; SECTOR]) {
        let (kind, stretch) = match self.kind {
            ExtentKind::Raw => (1u32, None),
            ExtentKind::Clustered(stretch) => (2, Some(stretch)),
        };
        let mut writer = page_begin(page, EXTENT_MAGIC);
        writer
            .put(&self.generation.to_le_bytes())
            .put(&self.journal.0.to_le_bytes())
            .put(&self.cluster.0.to_le_bytes())
            .put(&self.device.to_le_bytes())
            .put(&self.secret.0)
            .put(&self.chain.0.to_le_bytes())
            .put(&self.start.0.to_le_bytes())
            .put(&self.offset.to_le_bytes())
            .put(&self.len.to_le_bytes())
            .put(&self.epoch.0.to_le_bytes())
            .put(&kind.to_le_bytes());
        if let Some(Stretch { end, upto, compacted }) = stretch {
            writer
                .put(&end.0.to_le_bytes())
                .put(&upto.position.0.to_le_bytes())
                .put(&upto.chain.0.to_le_bytes())
                .put(&upto.epoch.0.to_le_bytes())
                .put(&[0; 4])
                .put(&compacted.0.to_le_bytes());
        }
        page_seal(page, sums);
    }

    /// Reads the page.
    ///
    /// # Errors
    /// As [`FormatError`] says.
    pub fn decode(bytes: &[u8], sums: &Checksums) -> Result<Self, FormatError> {
        let mut reader = page_open(bytes, EXTENT_MAGIC, sums)?;
        let generation = reader.u64()?;
        let journal = JournalId(reader.u64()?);
        let cluster = ClusterId(reader.u128()?);
        let device = reader.u128()?;
        let secret = Secret(reader.array()?);
        let chain = Chain(reader.u128()?);
        let start = Position(reader.u64()?);
        let offset = reader.u64()?;
        let len = reader.u64()?;
        let epoch = Epoch(reader.i32()?);
        let kind = match reader.u32()? {
            1 => ExtentKind::Raw,
            2 => {
                let end = Position(reader.u64()?);
                let position = Position(reader.u64()?);
                let chain = Chain(reader.u128()?);
                let upto = JournalStart { position, epoch: Epoch(reader.i32()?), chain };
                reader.u32()?;
                ExtentKind::Clustered(Stretch { end, upto, compacted: Position(reader.u64()?) })
            }
            _ => return Err(FormatError::Field("extent kind")),
        };
        Ok(Self { kind, generation, cluster, device, journal, offset, len, start, epoch, chain, secret })
    }
}
