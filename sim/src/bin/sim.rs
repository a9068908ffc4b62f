//! Runs seeds of the simulator: `sim [LEVEL] [--seed N] [--count M]`. Prints what they did and a hash over all of it; at the
//! first seed that finds something it says how to run that seed again, and exits with 1.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use sim::levels::{LEVELS, Level};

/// Runs one seed; the hash over what happened.
fn check(level: &Level, seed: u64) -> Result<u64, String> {
    let again = format!("again: cargo xtask sim {} --seed {seed} --count 1", level.name);
    match catch_unwind(AssertUnwindSafe(|| (level.run)(seed))) {
        Ok(Ok(trace)) => Ok(trace),
        Ok(Err(error)) => Err(format!("seed {seed} of {}: {error}\n{again}", level.name)),
        Err(_) => Err(format!("seed {seed} of {} panics\n{again}", level.name)),
    }
}

fn main() -> ExitCode {
    let (mut first, mut count, mut wanted) = (1, 1000, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let number = |args: &mut dyn Iterator<Item = String>| args.next().and_then(|text| text.parse::<u64>().ok());
        match (arg.as_str(), LEVELS.iter().find(|level| level.name == arg)) {
            ("--seed", _) => first = number(&mut args).unwrap_or(first),
            ("--count", _) => count = number(&mut args).unwrap_or(count),
            (_, Some(level)) => wanted.push(level),
            _ => {
                eprintln!("sim [{}] [--seed N] [--count M]", LEVELS.map(|level| level.name).join(" | "));
                return ExitCode::from(2);
            }
        }
    }
    if wanted.is_empty() {
        wanted = LEVELS.iter().collect();
    }
    for level in wanted {
        let mut trace: u64 = 0;
        for seed in first..first + count {
            match check(level, seed) {
                Ok(one) => trace = (trace ^ one).wrapping_mul(0x0000_0100_0000_01b3),
                Err(error) => {
                    eprintln!("{error}");
                    return ExitCode::FAILURE;
                }
            }
        }
        let _ =
            writeln!(std::io::stdout(), "{} seeds {first} to {}: trace {trace:016x}", level.name, first + count - 1);
    }
    ExitCode::SUCCESS
}
