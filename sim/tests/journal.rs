//! The journals under crashes, faults and chance: many seeds, each compared with a model all the time.
//!
//! `BARELOG_SIM_SEEDS` is how many, `BARELOG_SIM_SEED` the first. Seeds that once found a bug are in `seeds.txt` and run first.

use std::panic::catch_unwind;

use sim::run::{Summary, run, run_harmed, run_mixed};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs a seed and says how to run it again when it fails.
fn check(seed: u64, run: fn(u64) -> Result<Summary, String>) -> Summary {
    let again = format!("seed {seed}: rerun with cargo xtask sim --seed {seed} --count 1");
    match catch_unwind(|| run(seed)) {
        Ok(Ok(summary)) => summary,
        Ok(Err(error)) => panic!("{again}\n{error}"),
        Err(_) => panic!("{again}"),
    }
}

fn kept_seeds() -> impl Iterator<Item = u64> {
    let lines = include_str!("../seeds.txt").lines();
    lines.filter_map(|line| line.split('#').next().unwrap_or_default().trim().parse().ok())
}

#[test]

fn no_seed_loses_moves_or_repeats_a_record() {
    let first = number("BARELOG_SIM_SEED", 1);
    let count = number("BARELOG_SIM_SEEDS", 300);
    let once = check(first, run);
    assert_eq!(once, check(first, run), "seed {first} does not repeat itself");
    let mut total = Summary::default();
    let seeds = kept_seeds().chain(first..first + count);
    for seed in seeds {
        let summary = check(seed, run);
        total.taken += summary.taken;
        total.acked += summary.acked;
        total.survived += summary.survived;
        total.lost += summary.lost;
        total.restarts += summary.restarts;
        total.reads += summary.reads;
        total.cold += summary.cold;
        total.duplicates += summary.duplicates;
        total.freed += summary.freed;
        total.clustered += summary.clustered;
        total.checkpoints += summary.checkpoints;
        total.fenced += summary.fenced;
        total.full += summary.full;
    }
    eprintln!("{total:?}");
}

#[test]
fn what_outlives_the_rest_is_clustered_through_crashes() {
    let first = number("BARELOG_SIM_SEED", 1);
    let count = number("BARELOG_SIM_SEEDS", 300) / 4;
    let once = check(first, run_mixed);
    assert_eq!(once, check(first, run_mixed), "seed {first} does not repeat itself");
    let (mut clustered, mut freed) = (0, 0);
    for seed in kept_seeds().chain(first..first + count.max(1)) {
        let summary = check(seed, run_mixed);
        clustered += summary.clustered;
        freed += summary.freed;
    }
    eprintln!("{clustered} extents clustered, {freed} freed");
    assert!(count < 50 || clustered * 2 > count, "{clustered} extents clustered by {count} seeds");
}

#[test]
fn whatever_rots_nothing_wrong_is_served_and_no_offset_is_given_twice() {
    let first = number("BARELOG_SIM_SEED", 1);
    let count = number("BARELOG_SIM_SEEDS", 300) / 2;
    let mut damaged = 0;
    for seed in kept_seeds().chain(first..first + count.max(1)) {
        damaged += check(seed, run_harmed).lost;
    }
    eprintln!("{damaged} damaged stretches");
}
