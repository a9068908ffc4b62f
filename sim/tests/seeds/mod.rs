//! Runs a level's part of the seeds.

use sim::levels::level;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs them; each thing that a level counts happens, but for `rare` ones.
pub(crate) fn run(name: &str, rare: &[&str]) {
    let level = level(name).expect("a level of that name");
    let (first, count) = (number("BARELOG_SIM_SEED", 1), number("BARELOG_SIM_SEEDS", 300));
    let report = level.test(first, count).unwrap_or_else(|error| panic!("{error}"));
    eprintln!("{name}: {:?}", report.counts);
    if count >= 300 {
        let never: Vec<_> = report.counts.iter().filter(|(name, n)| **n == 0 && !rare.contains(*name)).collect();
        assert!(never.is_empty(), "never happens: {never:?}");
    }
}
