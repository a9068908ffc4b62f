//! Runs seeds of the simulator: `sim [LEVEL…] [--seed N] [--count M] [--jobs J] [--progress FILE]`. Prints what they did and a hash
//! over all of it; at the first seed that finds something it says how to run that seed again, and exits with 1. With `--kept`
//! the seeds that once found something run first. With `--progress` it goes on where it was stopped, and past seeds that find
//! something, which the file lists.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sim::levels::{LEVELS, Level, Report, level};

/// Seeds of a job between two looks at the others.
const WAVE: u64 = 20;

struct Wanted {
    first: u64,
    count: u64,
    kept: bool,
    jobs: u64,
    progress: Option<PathBuf>,
}

fn main() -> ExitCode {
    let mut wanted = Wanted { first: 1, count: 1000, kept: false, jobs: 1, progress: None };
    let mut levels = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse::<u64>().ok());
        let read = match arg.as_str() {
            "--seed" => number().map(|number| wanted.first = number),
            "--count" => number().map(|number| wanted.count = number),
            "--jobs" => number().filter(|jobs| (1..=256).contains(jobs)).map(|number| wanted.jobs = number),
            "--progress" => args.next().map(|path| wanted.progress = Some(path.into())),
            "--kept" => {
                wanted.kept = true;
                Some(())
            }
            name => level(name).map(|level| levels.push(level)),
        };
        if read.is_none() {
            let names = LEVELS.map(|level| level.name).join(" | ");
            eprintln!("sim [{names}]... [--seed N] [--count M] [--kept] [--jobs J] [--progress FILE]");
            return ExitCode::from(2);
        }
    }
    if levels.is_empty() {
        levels = LEVELS.iter().collect();
    }
    let mut progress = match Progress::open(wanted.progress.clone()) {
        Ok(progress) => progress,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut clean = true;
    for level in levels {
        match run(level, &wanted, &mut progress) {
            Ok(found) => clean &= found == 0,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a level; how many seeds found something.
fn run(level: &Level, wanted: &Wanted, progress: &mut Progress) -> Result<usize, String> {
    let started = Instant::now();
    if wanted.kept {
        level.seeds(level.kept())?;
    }
    let end = wanted.first + wanted.count;
    let first = progress.next(level.name).map_or(wanted.first, |next| next.clamp(wanted.first, end));
    let (mut at, mut report, mut found) = (first, Report::default(), 0);
    while at < end {
        let upto = end.min(at + WAVE * wanted.jobs);
        for (seed, result) in wave(level, at, upto, wanted.jobs) {
            match result {
                Ok(one) => report.add(&one),
                Err(error) if wanted.progress.is_none() => return Err(error),
                Err(error) => {
                    eprintln!("{error}");
                    progress.found(level.name, seed)?;
                    found += 1;
                }
            }
        }
        at = upto;
        progress.done(level.name, at)?;
    }
    let counts: Vec<String> = report.counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    // Standard output is the same in every run and every build; how long it took is not.
    let (name, counts) = (level.name, counts.join(", "));
    let text = format!("{name}: seeds {first} to {}: {counts}: trace {:016x}", end - 1, report.trace);
    let _ = writeln!(std::io::stdout(), "{text}");
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = (end - first) as f64 / seconds;
    eprintln!("{name}: {rate:.0} seeds/s, {found} found something");
    Ok(found)
}

/// Runs seeds on several threads; what each brought, in their order.
fn wave(level: &Level, first: u64, end: u64, jobs: u64) -> Vec<(u64, Result<Report, String>)> {
    let (next, results) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let job = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let result = level.seed(seed);
            results.lock().expect("a seed's panic is caught").push((seed, result));
        }
    };
    if jobs == 1 {
        job();
    } else {
        std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(job))));
    }
    let mut results = results.into_inner().expect("a seed's panic is caught");
    results.sort_by_key(|(seed, _)| *seed);
    results
}

/// How far each level has come, in a file of lines: `LEVEL next SEED` and `LEVEL found SEED`.
struct Progress {
    path: Option<PathBuf>,
    next: BTreeMap<String, u64>,
    found: Vec<(String, u64)>,
}

impl Progress {
    fn open(path: Option<PathBuf>) -> Result<Self, String> {
        let mut progress = Self { path, next: BTreeMap::new(), found: Vec::new() };
        let Some(path) = &progress.path else { return Ok(progress) };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(progress),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [level, what @ ("next" | "found"), seed] if seed.parse::<u64>().is_ok() => {
                    let (level, seed) = (level.to_owned(), seed.parse().expect("parsed before"));
                    if what == "next" {
                        progress.next.insert(level, seed);
                    } else {
                        progress.found.push((level, seed));
                    }
                }
                _ => return Err(format!("{}: not a line of progress: {line}", path.display())),
            }
        }
        Ok(progress)
    }

    fn next(&self, level: &str) -> Option<u64> {
        self.next.get(level).copied()
    }

    fn found(&mut self, level: &str, seed: u64) -> Result<(), String> {
        self.found.push((level.to_owned(), seed));
        self.write()
    }

    fn done(&mut self, level: &str, next: u64) -> Result<(), String> {
        self.next.insert(level.to_owned(), next);
        self.write()
    }

    /// Replaces the file whole: it may be stopped at any moment.
    fn write(&self) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut text = String::new();
        for (level, next) in &self.next {
            text += &format!("{level} next {next}\n");
        }
        for (level, seed) in &self.found {
            text += &format!("{level} found {seed}\n");
        }
        let new = path.with_extension("new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }
}
