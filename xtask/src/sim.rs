//! The simulator: many seeds, the same seeds in debug and release, and whether it finds faults that are planted.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, output, root, run};

/// Faults that the product has behind `--cfg fault="…"`, and what each does.
const FAULTS: [(&str, &str); 8] = [
    ("ack-before-flush", "a write is taken for durable when it is complete, no flush follows"),
    ("no-epoch-in-units", "units and frames carry no epoch, and none is looked at"),
    ("stop-at-first-bad-checksum", "recovery ends the log at the first bad unit, committed or not"),
    ("checkpoint-ahead-of-data", "a checkpoint is written before what it holds is committed"),
    ("index-not-rebuilt", "the index of an extent that lacks a footer is left empty at a start"),
    ("early-answer-to-a-duplicate", "a batch sent again is answered before the first is durable"),
    ("header-not-keyed", "the checksum of unit headers has no secret, so that one inside a record is taken for real"),
    ("space-of-unknown-freed", "partitions that metadata does not name are taken for deleted"),
];

/// Seeds of each level in which a planted fault is looked for, (first, count): some of every level, then more. 2000 in all.
const PLANTED_SEEDS: [(u64, u64); 3] = [(1, 100), (101, 400), (501, 1500)];

/// Levels in the order in which they are tried.
const LEVELS: [&str; 6] = ["broker", "broker-harm", "journal", "journal-mixed", "journal-compact", "journal-harm"];

/// Seeds of each level whose traces are compared before many run.
const REPEATS: &str = "20";

/// Where the table of planted faults stands, between two marks.
const DOCUMENT: &str = "docs/SIMULATION.md";
const MARKS: (&str, &str) = ("<!-- planted -->\n", "<!-- end of planted -->\n");

/// `[LEVEL…] [--seed N] [--count M]`, or `--planted`.
pub fn sim(args: &[String]) -> Result<()> {
    if args.iter().any(|arg| arg == "--planted") {
        return planted();
    }
    // One seed that failed is wanted at once.
    let one = args.windows(2).any(|pair| pair[0] == "--count" && pair[1] == "1");
    let mut all = vec!["run", "--quiet", "--release", "--package", "barelog-sim", "--bin", "sim", "--"];
    if !one {
        repeats(REPEATS)?;
        all.push("--kept");
    }
    all.extend(args.iter().map(String::as_str));
    run(&mut cargo(&all))
}

/// Runs the same seeds in debug once and in release twice: everything that happens must be the same.
pub fn repeats(count: &str) -> Result<()> {
    let trace = |release: bool| {
        let mut all = vec!["run", "--quiet", "--package", "barelog-sim", "--bin", "sim"];
        if release {
            all.push("--release");
        }
        all.extend(["--", "--count", count]);
        output(cargo(&all).stderr(Stdio::null()))
    };
    let (debug, release, again) = (trace(false)?, trace(true)?, trace(true)?);
    if debug != release || release != again {
        bail!("the same seeds do not do the same:\ndebug:\n{debug}\nrelease:\n{release}\nagain:\n{again}");
    }
    eprint!("{debug}");
    Ok(())
}

/// Builds the simulator with each planted fault, and writes into the document which seed finds it.
fn planted() -> Result<()> {
    let mut table = String::from("| fault | what it does | found by | seed |\n|---|---|---|---|\n");
    let mut missed = Vec::new();
    for (fault, what) in FAULTS {
        let started = Instant::now();
        let found = plant(fault)?;
        let seconds = started.elapsed().as_secs();
        match found {
            Some((level, seed)) => {
                eprintln!("xtask: {fault}: seed {seed} of {level}, {seconds} s");
                table += &format!("| `{fault}` | {what} | `{level}` | {seed} |\n");
            }
            None => {
                eprintln!("xtask: {fault}: not found");
                table += &format!("| `{fault}` | {what} | nothing | |\n");
                missed.push(fault);
            }
        }
    }
    let path = root().join(DOCUMENT);
    let text = std::fs::read_to_string(&path).with_context(|| DOCUMENT.to_string())?;
    let (before, rest) = text.split_once(MARKS.0).with_context(|| format!("{DOCUMENT} has no {}", MARKS.0))?;
    let (_, after) = rest.split_once(MARKS.1).with_context(|| format!("{DOCUMENT} has no {}", MARKS.1))?;
    std::fs::write(&path, format!("{before}{}{table}{}{after}", MARKS.0, MARKS.1))?;
    if missed.is_empty() { Ok(()) } else { bail!("not found: {}", missed.join(", ")) }
}

/// The level and the seed that find a fault.
fn plant(fault: &str) -> Result<Option<(&'static str, u64)>> {
    let target = root().join("target/planted");
    run(cargo(&["build", "--quiet", "--package", "barelog-sim", "--bin", "sim"])
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTFLAGS", format!("--cfg fault=\"{fault}\"")))?;
    for ((first, count), level) in PLANTED_SEEDS.into_iter().flat_map(|seeds| LEVELS.map(|level| (seeds, level))) {
        let mut command = Command::new(target.join("debug/sim"));
        command.args([level, "--seed", &first.to_string(), "--count", &count.to_string()]);
        command.env("RUST_BACKTRACE", "0").current_dir(root());
        let done = command.stdin(Stdio::null()).output().context("cannot start the simulator")?;
        if done.status.success() {
            continue;
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let words = said.lines().find_map(|line| line.strip_prefix("seed ")?.split_once(&format!(" of {level}")));
        let seed = words.and_then(|(seed, _)| seed.parse().ok());
        let seed = seed.with_context(|| format!("{level} with {fault} ended with {}: {said}", done.status))?;
        return Ok(Some((level, seed)));
    }
    Ok(None)
}
