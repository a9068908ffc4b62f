//! The levels of the simulator by name, for those who run many seeds.

use crate::{broker, run};

/// One way to make a run of a seed.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// Its name on a command line.
    pub name: &'static str,
    /// Runs a seed; gives the hash over everything that happened.
    pub run: fn(u64) -> Result<u64, String>,
}

/// All of them.
pub const LEVELS: [Level; 4] = [
    Level { name: "journal", run: |seed| run::run(seed).map(|summary| summary.trace) },
    Level { name: "journal-harm", run: |seed| run::run_harmed(seed).map(|summary| summary.trace) },
    Level { name: "broker", run: |seed| broker::run(seed).map(|summary| summary.trace) },
    Level { name: "broker-harm", run: |seed| broker::run_harmed(seed).map(|summary| summary.trace) },
];
