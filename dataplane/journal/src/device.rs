//! A device image: made, opened, looked through. Blocking, before a shard serves; the same for a file and a raw device.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use base::{BrokerId, Checksums, ClusterId, JournalId};

use crate::format::{ExtentHeader, FormatError, Label, LocalState, SECTOR, VERSION};
use crate::storage::{Storage, StorageError};

/// Pairs of local-state slots on a new device: 512 journals, 4 MiB.
pub const STATE_PAIRS: u32 = 512;

/// Length of an extent on a new device, when nothing else is configured: 64 MiB, four times the largest unit.
pub const EXTENT_BYTES: u64 = 64 << 20;

/// Extents a new device must have room for: one to write to, one held back for cleaning.
pub const EXTENTS_MIN: u64 = 2;

/// Why a device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// An I/O error.
    Storage(StorageError),
    /// Nothing was ever written here, or its creation did not come to its end: create it.
    Blank,
    /// It holds something that is not Barelog's.
    NotBarelog,
    /// Both copies of the label are damaged.
    Damaged(FormatError),
    /// Written by a newer version.
    NewerVersion {
        /// The version found.
        version: u16,
    },
    /// It belongs to another cluster.
    OtherCluster {
        /// The cluster found.
        found: ClusterId,
        /// The cluster expected.
        expected: ClusterId,
    },
    /// It belongs to another broker of the cluster.
    OtherBroker {
        /// The broker found.
        found: BrokerId,
        /// The broker expected.
        expected: BrokerId,
    },
    /// It ends before its extents begin: most of it is gone.
    CutShort {
        /// Bytes that are there.
        len: u64,
        /// Where its extents begin.
        need: u64,
    },
    /// There is no room to create it.
    NoRoom {
        /// Bytes a new device needs.
        need: u64,
    },
    /// Every pair of slots is taken.
    TooManyJournals {
        /// How many the device can carry.
        pairs: u32,
    },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(StorageError::Io(text)) => write!(f, "I/O error: {text}"),
            Self::Storage(StorageError::Full) => f.write_str("no space left on the device"),
            Self::Blank => f.write_str("the device is blank"),
            Self::NotBarelog => f.write_str(
                "the device holds something that is not Barelog's; give another path, or clear its first 64 KiB if the data may go",
            ),
            Self::Damaged(why) => {
                write!(f, "both copies of the device label are damaged ({why}); restore the device from a replica")
            }
            Self::NewerVersion { version } => write!(
                f,
                "the device was written in format version {version}, this program reads up to {VERSION}; start the newer Barelog"
            ),
            Self::OtherCluster { found, expected } => write!(
                f,
                "the device belongs to cluster {:032x}, this broker to {:032x}; give this broker's own device, or an empty one",
                found.0, expected.0
            ),
            Self::OtherBroker { found, expected } => {
                write!(f, "the device belongs to broker {found}, this is broker {expected}; set node.id or give another device")
            }
            Self::CutShort { len, need } => write!(
                f,
                "the device was cut short: it has {len} bytes and its extents begin at {need}; restore it, nothing of it was changed"
            ),
            Self::NoRoom { need } => write!(
                f,
                "no room to create the device: it needs {} MiB; free some space or give another directory",
                need.div_ceil(1 << 20)
            ),
            Self::TooManyJournals { pairs } => write!(f, "the device carries {pairs} journals at most"),
        }
    }
}

impl core::error::Error for DeviceError {}

impl From<StorageError> for DeviceError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

/// A pair of local-state slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// Never written.
    Free,
    /// Neither slot is intact: some journal has lost its state, or died while it was being made.
    Damaged,
    /// The higher intact slot.
    Held {
        /// Its state.
        state: LocalState,
        /// Whether both slots hold it; if not, the other must be rewritten before anything is built upon it.
        both: bool,
    },
}

/// What the first page of an extent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Zeros.
    Blank,
    /// Not a header of this device at this place: garbage, or torn.
    None,
    /// It cannot be read. A journal that misses an extent must stay closed.
    Unreadable(StorageError),
    /// An intact header. Whether it still counts is for recovery to decide.
    Header(ExtentHeader),
}

/// An extent that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub offset: u64,
    /// What it says.
    pub claim: Claim,
}

/// An open device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its label.
    pub label: Label,
    /// Pairs of local-state slots, in order.
    pub pairs: Vec<Pair>,
    sums: Checksums,
}

impl Device {
    /// Makes a label with the layout of this version.
    #[must_use]
    pub fn layout(cluster: ClusterId, broker: BrokerId, device: u128, extent_len: u64, state_pairs: u32) -> Label {
        // Extents begin on whole MiB, as partitions and stripes do.
        let state_end = Label::STATE_AT + u64::from(state_pairs) * 2 * SECTOR as u64;
        Label {
            cluster,
            broker,
            device,
            extent_len,
            state_offset: Label::STATE_AT,
            state_pairs,
            extents_offset: state_end.next_multiple_of(1 << 20),
        }
    }

    /// Makes a device: blank slots, then the second label, then the first, so that a creation that did not end is blank.
    ///
    /// # Errors
    /// `NotBarelog` when something lies there, `NoRoom` when the storage is too small and cannot grow, `Storage`.
    pub fn create<S: Storage>(storage: &mut S, label: Label, sums: &Checksums) -> Result<Self, DeviceError> {
        match Self::open(storage, label.cluster, label.broker, sums) {
            Err(DeviceError::Blank) => {}
            Ok(_) => return Err(DeviceError::NotBarelog),
            Err(other) => return Err(other),
        }
        let need = label.extents_offset + EXTENTS_MIN * label.extent_len;
        if storage.len() < need {
            storage.grow(need).map_err(|error| match error {
                StorageError::Full => DeviceError::NoRoom { need },
                io @ StorageError::Io(_) => DeviceError::Storage(io),
            })?;
        }
        let no_room = |error| match error {
            StorageError::Full => DeviceError::NoRoom { need },
            io @ StorageError::Io(_) => DeviceError::Storage(io),
        };
        let zeros = vec![0; 64 << 10];
        let mut at = 0;
        while at < label.extents_offset {
            let len = zeros.len().min(usize::try_from(label.extents_offset - at).unwrap_or(usize::MAX));
            storage.write(at, &zeros[..len]).map_err(no_room)?;
            at += len as u64;
        }
        storage.flush()?;
        let mut page = [0; SECTOR];
        label.encode(sums, &mut page);
        for at in [Label::SECOND_AT, Label::FIRST_AT] {
            storage.write(at, &page).map_err(no_room)?;
            storage.flush()?;
        }
        let pairs = vec![Pair::Free; label.state_pairs as usize];
        Ok(Self { label, pairs, sums: *sums })
    }

    /// Opens a device and reads its local states. A damaged copy of the label is rewritten.
    ///
    /// # Errors
    /// As [`DeviceError`] says.
    pub fn open<S: Storage>(
        storage: &mut S,
        cluster: ClusterId,
        broker: BrokerId,
        sums: &Checksums,
    ) -> Result<Self, DeviceError> {
        let label = Self::read_label(storage, sums)?;
        if label.cluster != cluster {
            return Err(DeviceError::OtherCluster { found: label.cluster, expected: cluster });
        }
        if label.broker != broker {
            return Err(DeviceError::OtherBroker { found: label.broker, expected: broker });
        }
        // Before anything is put right: whoever restores the device wants it as it was found.
        if storage.len() < label.extents_offset {
            return Err(DeviceError::CutShort { len: storage.len(), need: label.extents_offset });
        }
        Self::repair_label(storage, &label, sums)?;
        let pairs = Self::read_pairs(storage, &label, sums)?;
        Ok(Self { label, pairs, sums: *sums })
    }

    /// Opens a device to look at it only: whoever's it is, and nothing is written.
    ///
    /// # Errors
    /// As [`DeviceError`] says, but for `OtherCluster` and `OtherBroker`.
    pub fn look<S: Storage>(storage: &mut S, sums: &Checksums) -> Result<Self, DeviceError> {
        let label = Self::read_label(storage, sums)?;
        let pairs = Self::read_pairs(storage, &label, sums)?;
        Ok(Self { label, pairs, sums: *sums })
    }

    fn read_label<S: Storage>(storage: &mut S, sums: &Checksums) -> Result<Label, DeviceError> {
        if storage.len() < Label::STATE_AT {
            // Shorter than what every device has: blank if all that is there is zero.
            let mut bytes = vec![0; usize::try_from(storage.len()).unwrap_or(0) / SECTOR * SECTOR];
            storage.read(0, &mut bytes)?;
            return Err(if is_zero(&bytes) { DeviceError::Blank } else { DeviceError::NotBarelog });
        }
        let mut first = [0; SECTOR];
        let mut second = [0; SECTOR];
        // One intact copy is enough; without one, a copy that cannot be read says nothing, not even that there is none.
        let alone = match (storage.read(Label::FIRST_AT, &mut first), storage.read(Label::SECOND_AT, &mut second)) {
            (Ok(()), Ok(())) => None,
            (Err(error), Ok(())) => Some((&second, error)),
            (Ok(()), Err(error)) => Some((&first, error)),
            (Err(error), Err(_)) => return Err(error.into()),
        };
        if let Some((copy, error)) = alone {
            return Label::decode(copy, sums).map_err(|why| match why {
                FormatError::NewerVersion { version } => DeviceError::NewerVersion { version },
                _ => DeviceError::Storage(error),
            });
        }
        match (Label::decode(&first, sums), Label::decode(&second, sums)) {
            (Err(FormatError::NewerVersion { version }), _) | (_, Err(FormatError::NewerVersion { version })) => {
                Err(DeviceError::NewerVersion { version })
            }
            (Ok(label), _) | (_, Ok(label)) => Ok(label),
            // The second is written first: with nothing in the first, a creation did not end, unless there is more behind it.
            (Err(FormatError::Magic), _) if is_zero(&first) => {
                if Self::has_state(storage)? {
                    Err(DeviceError::Damaged(FormatError::Magic))
                } else if is_zero(&second) || second.starts_with(Label::MAGIC) {
                    Err(DeviceError::Blank)
                } else {
                    Err(DeviceError::NotBarelog)
                }
            }
            (Err(FormatError::Magic), Err(FormatError::Magic)) => Err(DeviceError::NotBarelog),
            (Err(error), Err(_)) => Err(DeviceError::Damaged(error)),
        }
    }

    /// Whether anything lies where a device of this version keeps its local states: a wiped label must not look blank.
    fn has_state<S: Storage>(storage: &mut S) -> Result<bool, DeviceError> {
        let mut bytes = vec![0; 64 << 10];
        let end = storage.len().min(Label::STATE_AT + u64::from(STATE_PAIRS) * 2 * SECTOR as u64);
        let mut at = Label::STATE_AT;
        while at < end {
            let len = bytes.len().min(usize::try_from(end - at).unwrap_or(usize::MAX)) / SECTOR * SECTOR;
            if len == 0 {
                break;
            }
            storage.read(at, &mut bytes[..len])?;
            if !is_zero(&bytes[..len]) {
                return Ok(true);
            }
            at += len as u64;
        }
        Ok(false)
    }

    fn repair_label<S: Storage>(storage: &mut S, label: &Label, sums: &Checksums) -> Result<(), DeviceError> {
        let mut page = [0; SECTOR];
        label.encode(sums, &mut page);
        for at in [Label::SECOND_AT, Label::FIRST_AT] {
            let mut there = [0; SECTOR];
            if storage.read(at, &mut there).is_err() || there != page {
                storage.write(at, &page)?;
                storage.flush()?;
            }
        }
        Ok(())
    }

    fn read_pairs<S: Storage>(storage: &mut S, label: &Label, sums: &Checksums) -> Result<Vec<Pair>, DeviceError> {
        // A slot that cannot be read counts as not intact: the other holds all that ever took effect.
        let mut area = vec![0; label.state_pairs as usize * 2 * SECTOR];
        if storage.read(label.state_offset, &mut area).is_err() {
            for (slot, bytes) in (0u64..).zip(area.chunks_mut(SECTOR)) {
                if storage.read(label.state_offset + slot * SECTOR as u64, bytes).is_err() {
                    bytes.fill(0xff);
                }
            }
        }
        area.chunks(2 * SECTOR).map(|bytes| read_pair(bytes, label, sums)).collect()
    }

    /// A journal's pair and state, if it has any.
    #[must_use]
    pub fn state(&self, journal: JournalId) -> Option<(u32, &LocalState)> {
        (0..).zip(&self.pairs).find_map(|(index, pair)| match pair {
            Pair::Held { state, .. } if state.journal == journal => Some((index, state)),
            _ => None,
        })
    }

    /// Makes a state durable in both slots of its journal's pair, one after the other; a journal without a pair claims one.
    /// The sequence is set here. Returns the pair.
    ///
    /// # Errors
    /// `TooManyJournals`, or `Storage`: then what the slots hold is open until the next start.
    pub fn write_state<S: Storage>(&mut self, storage: &mut S, state: &LocalState) -> Result<u32, DeviceError> {
        let (pair, sequence) = match self.state(state.journal) {
            Some((pair, before)) => (pair, before.sequence + 1),
            None => (self.free_pair()?, 1),
        };
        let state = LocalState { sequence, ..*state };
        self.write_slots(storage, pair, &state)?;
        Ok(pair)
    }

    /// Rewrites the slots that do not hold their pair's state, before anything is built upon it.
    ///
    /// # Errors
    /// `Storage`.
    pub fn heal_states<S: Storage>(&mut self, storage: &mut S) -> Result<(), DeviceError> {
        for pair in 0..self.label.state_pairs {
            if let Some(Pair::Held { state, both: false }) = self.pairs.get(pair as usize).copied() {
                self.write_slots(storage, pair, &state)?;
            }
        }
        Ok(())
    }

    /// Writes the slot that does not hold the newest state first, so that an intact one is there at every moment.
    fn write_slots<S: Storage>(&mut self, storage: &mut S, pair: u32, state: &LocalState) -> Result<(), DeviceError> {
        let mut page = [0; SECTOR];
        // A slot that cannot be read does not hold the newest state; writing it may make it readable again.
        let readable = storage.read(self.label.slot_at(pair, true), &mut page).is_ok();
        let newest = match self.pairs.get(pair as usize) {
            Some(Pair::Held { state, .. }) => Some(*state),
            _ => None,
        };
        let second_is_newest = readable && newest.is_some() && LocalState::decode(&page, &self.sums).ok() == newest;
        state.encode(&self.sums, &mut page);
        // If both hold the newest, either may go first.
        let order = if second_is_newest { [false, true] } else { [true, false] };
        for second in order {
            storage.write(self.label.slot_at(pair, second), &page)?;
            storage.flush()?;
        }
        if let Some(held) = self.pairs.get_mut(pair as usize) {
            *held = Pair::Held { state: *state, both: true };
        }
        Ok(())
    }

    fn free_pair(&self) -> Result<u32, DeviceError> {
        let find = |wanted: Pair| (0..).zip(&self.pairs).find(|(_, pair)| **pair == wanted).map(|(index, _)| index);
        find(Pair::Free)
            .or_else(|| find(Pair::Damaged))
            .ok_or(DeviceError::TooManyJournals { pairs: self.label.state_pairs })
    }

    /// Reads the first page of every extent that is there.
    ///
    /// # Errors
    /// `NewerVersion` for an extent of a newer version. A page that cannot be read is no error here.
    pub fn scan<S: Storage>(&self, storage: &mut S) -> Result<Vec<Found>, DeviceError> {
        let label = &self.label;
        let count = storage.len().saturating_sub(label.extents_offset) / label.extent_len;
        let mut found = Vec::with_capacity(usize::try_from(count).unwrap_or(0).min(1 << 20));
        let mut pages = vec![0; 2 * SECTOR];
        for index in 0..count {
            let offset = label.extents_offset + index * label.extent_len;
            // The second is asked only whether it is blank, too: where a header was lost and reads as zeros, units follow.
            let read = storage.read(offset, &mut pages).or_else(|_| {
                pages[SECTOR..].fill(0);
                storage.read(offset, &mut pages[..SECTOR])
            });
            let claim = match read {
                Err(error) => Claim::Unreadable(error),
                Ok(()) => match self.claim(&pages[..SECTOR], offset)? {
                    Claim::Blank if !is_zero(&pages) => Claim::None,
                    claim => claim,
                },
            };
            found.push(Found { offset, claim });
        }
        Ok(found)
    }

    fn claim(&self, page: &[u8], offset: u64) -> Result<Claim, DeviceError> {
        match ExtentHeader::decode(page, &self.sums) {
            Err(FormatError::NewerVersion { version }) => Err(DeviceError::NewerVersion { version }),
            Err(_) => Ok(if is_zero(page) { Claim::Blank } else { Claim::None }),
            Ok(header) => {
                let right = header.cluster == self.label.cluster
                    && header.device == self.label.device
                    && header.offset == offset
                    && header.len == self.label.extent_len;
                Ok(if right { Claim::Header(header) } else { Claim::None })
            }
        }
    }
}

fn read_pair(bytes: &[u8], label: &Label, sums: &Checksums) -> Result<Pair, DeviceError> {
    let mut newest: Option<LocalState> = None;
    let mut intact = 0;
    for slot in bytes.chunks(SECTOR) {
        match LocalState::decode(slot, sums) {
            Err(FormatError::NewerVersion { version }) => return Err(DeviceError::NewerVersion { version }),
            Ok(state) if state.cluster == label.cluster && state.device == label.device => {
                intact += usize::from(newest.is_none_or(|other| other == state));
                newest = newest.filter(|other| other.sequence > state.sequence).or(Some(state));
            }
            _ => {}
        }
    }
    Ok(match newest {
        Some(state) => Pair::Held { state, both: intact == 2 },
        None if is_zero(bytes) => Pair::Free,
        None => Pair::Damaged,
    })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
