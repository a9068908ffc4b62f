//! The levels of the simulator by name, for those who run many seeds.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{broker, run};

/// What a run did: a hash over everything that happened, and how often what did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The hash.
    pub trace: u64,
    /// Numbers by name.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Report {
    /// Of one run.
    #[must_use]
    pub fn new(trace: u64, counts: &[(&'static str, u64)]) -> Self {
        Self { trace, counts: counts.iter().copied().collect() }
    }

    /// Adds what another run did.
    pub fn add(&mut self, other: &Self) {
        self.trace = (self.trace ^ other.trace).wrapping_mul(0x0000_0100_0000_01b3);
        for (name, count) in &other.counts {
            *self.counts.entry(name).or_default() += count;
        }
    }
}

/// One way to make a run of a seed.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// Its name on a command line.
    pub name: &'static str,
    /// Runs a seed.
    run: fn(u64) -> Result<Report, String>,
    /// Its part of the seeds that a test run has, in per cent.
    share: u64,
}

/// All of them.
pub const LEVELS: [Level; 6] = [
    Level { name: "journal", run: |seed| run::run(seed).map(|summary| summary.report()), share: 20 },
    Level { name: "journal-mixed", run: |seed| run::run_mixed(seed).map(|summary| summary.report()), share: 10 },
    Level { name: "journal-compact", run: |seed| run::run_compacted(seed).map(|summary| summary.report()), share: 10 },
    Level { name: "journal-harm", run: |seed| run::run_harmed(seed).map(|summary| summary.report()), share: 15 },
    Level { name: "broker", run: |seed| broker::run(seed).map(|summary| summary.report()), share: 25 },
    Level { name: "broker-harm", run: |seed| broker::run_harmed(seed).map(|summary| summary.report()), share: 20 },
];

/// The level of a name.
#[must_use]
pub fn level(name: &str) -> Option<&'static Level> {
    LEVELS.iter().find(|level| level.name == name)
}

impl Level {
    /// Runs one seed.
    ///
    /// # Errors
    /// What it found, and how to run it again.
    pub fn seed(&self, seed: u64) -> Result<Report, String> {
        let name = self.name;
        let again = format!("again: cargo xtask sim {name} --seed {seed} --count 1");
        match catch_unwind(AssertUnwindSafe(|| (self.run)(seed))) {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(error)) => Err(format!("seed {seed} of {name}: {error}\n{again}")),
            Err(_) => Err(format!("seed {seed} of {name} panics\n{again}")),
        }
    }

    /// Runs seeds, up to the first that finds something.
    ///
    /// # Errors
    /// As [`Level::seed`].
    pub fn seeds(&self, seeds: impl IntoIterator<Item = u64>) -> Result<Report, String> {
        let mut total = Report::default();
        for seed in seeds {
            total.add(&self.seed(seed)?);
        }
        Ok(total)
    }

    /// Seeds of this level that once found something, from `seeds.txt`: a line is a level's first word and a number; lines
    /// without a level are of all that begin with `journal`.
    #[must_use]
    pub fn kept(&self) -> Vec<u64> {
        let lines = include_str!("../seeds.txt").lines();
        let of = |line: &str| {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let (first, second) = (words.next()?, words.next());
            let (level, number) = second.map_or(("", first), |number| (first, number));
            let mine = level == self.name || level.is_empty() && self.name.starts_with("journal");
            number.parse().ok().filter(|_| mine)
        };
        lines.filter_map(of).collect()
    }

    /// What a test run does: a seed twice, the kept seeds, then this level's part of `count` seeds from `first` on.
    ///
    /// # Errors
    /// As [`Level::seed`]; and when a seed does not repeat itself.
    pub fn test(&self, first: u64, count: u64) -> Result<Report, String> {
        if self.seed(first)? != self.seed(first)? {
            return Err(format!("seed {first} of {} does not repeat itself", self.name));
        }
        let part = (count * self.share).div_ceil(100);
        self.seeds(self.kept().into_iter().chain(first..first + part))
    }
}
