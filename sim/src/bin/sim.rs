//! Runs seeds of the simulator: `sim [LEVEL…] [--seed N] [--count M]`. Prints what they did and a hash over all of it; at the
//! first seed that finds something it says how to run that seed again, and exits with 1. With `--kept` the seeds that once
//! found something run first.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use sim::levels::{LEVELS, Level, level};

fn main() -> ExitCode {
    let (mut first, mut count, mut kept, mut wanted) = (1, 1000, false, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse::<u64>().ok());
        let read = match arg.as_str() {
            "--seed" => number().map(|number| first = number),
            "--count" => number().map(|number| count = number),
            "--kept" => {
                kept = true;
                Some(())
            }
            name => level(name).map(|level| wanted.push(level)),
        };
        if read.is_none() {
            eprintln!("sim [{}]... [--seed N] [--count M] [--kept]", LEVELS.map(|level| level.name).join(" | "));
            return ExitCode::from(2);
        }
    }
    if wanted.is_empty() {
        wanted = LEVELS.iter().collect();
    }
    for level in wanted {
        if let Err(error) = run(level, first, count, kept) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run(level: &Level, first: u64, count: u64, kept: bool) -> Result<(), String> {
    let started = Instant::now();
    if kept {
        level.seeds(level.kept())?;
    }
    let report = level.seeds(first..first + count)?;
    let counts: Vec<String> = report.counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    // Standard output is the same in every run and every build; how long it took is not.
    let text = format!(
        "{}: seeds {first} to {}: {}: trace {:016x}",
        level.name,
        first + count - 1,
        counts.join(", "),
        report.trace
    );
    let _ = writeln!(std::io::stdout(), "{text}");
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = count as f64 / seconds;
    eprintln!("{}: {rate:.0} seeds/s", level.name);
    Ok(())
}
