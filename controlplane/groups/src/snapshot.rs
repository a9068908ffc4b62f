//! Keeping a slot's log short: all live records are written again, then the log begins at the first of them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::consumer::value::ConsumerKey;

/// When a snapshot pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimPolicy {
    /// A log shorter than this is left alone.
    pub log_bytes_min: u64,
    /// A log is trimmed when it is longer than so many times the live records. 4: rewriting costs at most a third of what
    /// clients wrote, and a restart reads at most four times what it keeps.
    pub factor: u64,
}

impl Default for TrimPolicy {
    fn default() -> Self {
        // 1 MiB × 50 slots: a restart reads at most 50 MiB that it does not keep.
        Self { log_bytes_min: 1 << 20, factor: 4 }
    }
}

impl TrimPolicy {
    /// Whether a log of `log_bytes` whose live records take `live_bytes` is to be trimmed.
    #[must_use]
    pub fn is_due(&self, log_bytes: u64, live_bytes: u64) -> bool {
        log_bytes > self.log_bytes_min.max(live_bytes.saturating_mul(self.factor))
    }
}

/// How far a snapshot has come. The groups are those there when it began: what comes later is in the log behind its start.
#[derive(Debug)]
pub struct Cursor {
    /// The groups still to be written, the next one last.
    pub(crate) groups: Vec<Arc<str>>,
    /// Where within the next group: its own record is written, and offsets up to this one.
    pub(crate) within: Option<Within>,
}

/// A place within a group.
#[derive(Clone, Debug)]
pub(crate) enum Within {
    /// Behind the group's own record.
    Start,
    /// Behind this record of a consumer group.
    Part(ConsumerKey),
    /// Behind this offset.
    After(Arc<str>, i32),
}

impl Cursor {
    /// Whether everything has been written.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.groups.is_empty()
    }
}
