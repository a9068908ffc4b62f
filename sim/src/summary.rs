//! What a seed did.

use crate::levels::Report;

/// What a seed did, for those who want to know that it did anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Hash over everything that happened.
    pub trace: u64,
    /// Lives begun after the first.
    pub restarts: u64,
    /// Batches taken.
    pub taken: u64,
    /// Batches acked.
    pub acked: u64,
    /// Batches that were not acked and survived a crash.
    pub survived: u64,
    /// Batches that a crash took.
    pub lost: u64,
    /// Reads that brought records.
    pub reads: u64,
    /// Reads that went to the device.
    pub cold: u64,
    /// Duplicates answered.
    pub duplicates: u64,
    /// Extents freed.
    pub freed: u64,
    /// Extents clustered.
    pub clustered: u64,
    /// Passes of compaction.
    pub compactions: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Journals fenced by planted faults.
    pub fenced: u64,
    /// Appends refused for want of space.
    pub full: u64,
}

impl Summary {
    /// For those who add up many.
    #[must_use]
    pub fn report(&self) -> Report {
        let counts = [
            ("restarts", self.restarts),
            ("batches taken", self.taken),
            ("acked", self.acked),
            ("survived unacked", self.survived),
            ("lost", self.lost),
            ("reads with records", self.reads),
            ("reads from the device", self.cold),
            ("duplicates answered", self.duplicates),
            ("extents freed", self.freed),
            ("extents clustered", self.clustered),
            ("passes of compaction", self.compactions),
            ("checkpoints", self.checkpoints),
            ("journals fenced", self.fenced),
            ("refused for space", self.full),
        ];
        Report::new(self.trace, &counts)
    }
}
