//! Time as an argument: pure crates are told it, never ask for it.

/// Monotonic time in nanoseconds since an arbitrary start of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

/// Wall-clock time in milliseconds since the Unix epoch, the unit of Kafka's timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallMs(pub i64);

/// Both clocks, read once a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For durations and deadlines.
    pub mono: Mono,
    /// For timestamps and retention. May step.
    pub wall: WallMs,
}

impl Mono {
    /// Nanoseconds from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `self` moved by `ms` milliseconds, saturating.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000_000)))
    }
}
