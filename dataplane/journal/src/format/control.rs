//! Payloads of control frames. Snapshot frames carry a [`PartitionState`].

use alloc::vec::Vec;

use base::{BrokerId, Epoch, JournalId, Offset, Position};

use super::bytes::{Put as _, Reader};
use super::error::FormatError;
use super::state::PartitionState;

/// A leader begins an epoch: the only frame of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: Epoch,
    /// The leader.
    pub broker: BrokerId,
    /// Random id of this run of the leader.
    pub incarnation: u128,
    /// The epoch of the unit before.
    pub previous: Epoch,
}

/// What moved a log start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartReason {
    /// `DeleteRecords`, or a coordinator trimming its log.
    Deleted,
    /// `retention.ms`.
    Time,
    /// `retention.bytes`.
    Size,
}

/// A partition's log start moved: records below are gone for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStartMove {
    /// The new log start.
    pub to: Offset,
    /// Why.
    pub reason: StartReason,
}

/// A partition leaves this journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// First offset that is not here.
    pub at: Offset,
    /// Where it goes on.
    pub next: JournalId,
}

/// A partition enters this journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Where it was; `u64::MAX` for a partition that begins here.
    pub previous: JournalId,
    /// Its state at the first offset that is here, which is the state's next offset.
    pub state: PartitionState,
}

/// Offsets of a partition that are lost for ever: a damaged range held its end and nothing intact proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// First offset lost.
    pub from: Offset,
    /// First offset after the gap.
    pub to: Offset,
    /// Where the damage begins in the journal.
    pub damage_start: Position,
    /// Where it ends.
    pub damage_end: Position,
}

/// Reads all of `bytes` with `read`.
fn whole<T>(
    bytes: &[u8],
    name: &'static str,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, FormatError>,
) -> Result<T, FormatError> {
    let mut reader = Reader::new(bytes);
    let value = read(&mut reader)?;
    if reader.is_empty() { Ok(value) } else { Err(FormatError::Field(name)) }
}

impl EpochStart {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put(&self.incarnation.to_le_bytes());
        out.put(&self.epoch.0.to_le_bytes());
        out.put(&self.previous.0.to_le_bytes());
        out.put(&self.broker.0.to_le_bytes());
        out.put(&[0; 4]);
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// `Short`, or `Field` where bytes are left over.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        whole(bytes, "epoch start length", |reader| {
            let incarnation = reader.u128()?;
            let epoch = Epoch(reader.i32()?);
            let previous = Epoch(reader.i32()?);
            let broker = BrokerId(reader.i32()?);
            reader.u32()?;
            Ok(Self { epoch, broker, incarnation, previous })
        })
    }
}

impl LogStartMove {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let reason = match self.reason {
            StartReason::Deleted => 1u64,
            StartReason::Time => 2,
            StartReason::Size => 3,
        };
        out.put(&self.to.0.to_le_bytes());
        out.put(&reason.to_le_bytes());
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// `Short`, or `Field` for a reason that is not known and where bytes are left over.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        whole(bytes, "log start length", |reader| {
            let to = Offset(reader.i64()?);
            let reason = match reader.u64()? {
                1 => StartReason::Deleted,
                2 => StartReason::Time,
                3 => StartReason::Size,
                _ => return Err(FormatError::Field("log start reason")),
            };
            Ok(Self { to, reason })
        })
    }
}

impl Close {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put(&self.at.0.to_le_bytes());
        out.put(&self.next.0.to_le_bytes());
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// `Short`, or `Field` where bytes are left over.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        whole(bytes, "close length", |reader| Ok(Self { at: Offset(reader.i64()?), next: JournalId(reader.u64()?) }))
    }
}

impl Open {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put(&self.previous.0.to_le_bytes());
        self.state.encode(out);
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// `Short`, or `Field` where bytes are left over.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        whole(bytes, "open length", |reader| {
            Ok(Self { previous: JournalId(reader.u64()?), state: PartitionState::read(reader)? })
        })
    }
}

impl Gap {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put(&self.from.0.to_le_bytes());
        out.put(&self.to.0.to_le_bytes());
        out.put(&self.damage_start.0.to_le_bytes());
        out.put(&self.damage_end.0.to_le_bytes());
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// `Short`, or `Field` where bytes are left over.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        whole(bytes, "gap length", |reader| {
            Ok(Self {
                from: Offset(reader.i64()?),
                to: Offset(reader.i64()?),
                damage_start: Position(reader.u64()?),
                damage_end: Position(reader.u64()?),
            })
        })
    }
}
