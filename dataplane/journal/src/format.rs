//! The bytes of format version 1. `docs/FORMAT.md` draws them; golden files under `tests/golden` pin them.
//!
//! Everything is little-endian. Each structure starts with a magic, a version and algorithm bytes, and is checked where it
//! enters: after `decode` or `check` no accessor fails. Checksums are looked at before versions, so that bytes which only
//! look like a newer format (a forged unit inside a record) are never taken for one: the first 128 bytes of a unit header,
//! and the last 8 bytes of a 4 KiB page, keep their meaning in every version.

mod bytes;
pub mod checkpoint;
pub mod control;
pub mod device;
pub mod error;
pub mod footer;
pub mod state;
pub mod unit;

pub use checkpoint::{CheckpointFold, CheckpointRecord};
pub use control::{Close, EpochStart, Gap, LogStartMove, Open, StartReason};
pub use device::{Cut, ExtentHeader, ExtentKind, JournalStart, Label, LocalState, Stretch};
pub use error::FormatError;
pub use footer::{Footer, FooterEntry, FooterView, Run};
pub use state::{BatchState, PartitionState, ProducerState};
pub use unit::{FrameHeader, FrameKind, FrameView, UnitError, UnitHeader, UnitPlace, UnitView};

/// The version this code writes, and the highest it reads.
pub const VERSION: u16 = 1;

/// Devices are written in whole sectors of this size; units, extents and slots are aligned to it.
pub const SECTOR: usize = 4096;

/// Alignment of frames inside a unit.
pub const FRAME_ALIGN: usize = 8;

/// The largest unit, padding included: 16 MiB.
pub const UNIT_BYTES_MAX: usize = 16 << 20;

/// The checksum of pages, frame headers, frame payloads, footers and checkpoints: CRC-64/NVME.
pub const ALGORITHM_CRC64_NVME: u8 = 1;

/// The checksum of unit headers: SipHash-2-4 with 128 bits of output, keyed by the journal's secret.
pub const ALGORITHM_SIPHASH_2_4_128: u8 = 1;

/// The header checksum of a unit. The unit after it carries it, so that the bytes of a journal form one chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chain(pub u128);

/// `len` rounded up to a whole number of sectors.
#[must_use]
pub const fn sectors(len: usize) -> usize {
    len.next_multiple_of(SECTOR)
}

/// `len` rounded up to the alignment of frames.
#[must_use]
pub const fn aligned(len: usize) -> usize {
    len.next_multiple_of(FRAME_ALIGN)
}
