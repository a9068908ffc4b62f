//! The long form of the tests, run by hand: everything of the gate, then what takes hours, into docs/CI.md.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::run::{command, output, root};
use crate::{clients, compare, counts, fuzz, powercut, sim, suites, test};

/// Where the result goes.
const DOCUMENT: &str = "docs/CI.md";

/// Seeds of each of the simulator's levels, and seconds of each fuzz target, unless told otherwise.
const SEEDS: &str = "10000";
const SECONDS: &str = "60";

/// A step: its name, what it shows, and how it is run with the seeds and seconds that were asked for.
struct Step {
    name: &'static str,
    shows: &'static str,
    run: fn(&Asked) -> Result<()>,
}

struct Asked {
    seeds: String,
    seconds: String,
    only: Option<Vec<String>>,
}

const STEPS: &[Step] = &[
    Step { name: "test", shows: "the gate", run: |_| test::test() },
    Step { name: "clients", shows: "every client, every scenario", run: |_| clients::clients(&[]) },
    Step { name: "suites", shows: "the tests of franz-go and librdkafka", run: |_| suites::suites(&[]) },
    Step {
        name: "sim",
        shows: "so many seeds of each level of the simulator, and the kept ones",
        run: |asked| sim::sim(&["--seed".into(), "1000000".into(), "--count".into(), asked.seeds.clone()]),
    },
    Step { name: "planted", shows: "the simulator finds each planted fault", run: |_| sim::sim(&["--planted".into()]) },
    Step {
        name: "powercut",
        shows: "the real binary, 200 power cuts of each kind of device",
        run: |_| powercut::powercut(&[]),
    },
    Step {
        name: "powercut-planted",
        shows: "power cuts find a broker that acknowledges before it flushes",
        run: |_| powercut::powercut(&["--planted".into()]),
    },
    Step { name: "compare", shows: "compaction against a real Kafka's", run: |_| compare::compare() },
    Step {
        name: "fuzz",
        shows: "so many seconds of each fuzz target",
        run: |asked| fuzz::fuzz(&["--seconds".into(), asked.seconds.clone()]),
    },
    Step { name: "counts", shows: "instructions of the hot steps against the baseline", run: |_| counts::counts(&[]) },
];

/// `[STEP…] [--seeds N] [--seconds N]`: runs the steps, all of them unless some are named, to the end whatever fails. The document is
/// written by a whole run only.
pub fn ci(args: &[String]) -> Result<()> {
    let asked = asked(args)?;
    let mut table = String::from("| step | what it shows | seconds | result |\n|---|---|---|---|\n");
    let mut failed = Vec::new();
    for step in STEPS {
        if asked.only.as_ref().is_some_and(|only| !only.iter().any(|name| name == step.name)) {
            continue;
        }
        eprintln!("xtask: ci: {}", step.name);
        let started = Instant::now();
        let result = (step.run)(&asked);
        let seconds = started.elapsed().as_secs();
        let word = match &result {
            Ok(()) => "passed",
            Err(error) => {
                eprintln!("xtask: ci: {}: {error:#}", step.name);
                failed.push(step.name);
                "**failed**"
            }
        };
        let _ = writeln!(table, "| `{}` | {} | {seconds} | {word} |", step.name, step.shows);
    }
    if asked.only.is_none() {
        std::fs::write(root().join(DOCUMENT), document(&asked, &table)?)?;
    }
    eprint!("{table}");
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

fn asked(args: &[String]) -> Result<Asked> {
    let mut asked = Asked { seeds: SEEDS.into(), seconds: SECONDS.into(), only: None };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let place = match arg.as_str() {
            "--seeds" => &mut asked.seeds,
            "--seconds" => &mut asked.seconds,
            name if STEPS.iter().any(|step| step.name == name) => {
                asked.only.get_or_insert_default().push(name.into());
                continue;
            }
            _ => {
                let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
                bail!("cargo xtask ci [STEP…] [--seeds N] [--seconds N]; steps are {}", names.join(", "));
            }
        };
        match args.next().filter(|value| value.parse::<u64>().is_ok()) {
            Some(value) => place.clone_from(value),
            None => bail!("{arg} needs a number"),
        }
    }
    Ok(asked)
}

fn document(asked: &Asked, table: &str) -> Result<String> {
    let commit = output(&mut command("git", &["describe", "--always", "--dirty", "--exclude", "*"]))?;
    let day = output(&mut command("date", &["-u", "+%Y-%m-%d"]))?;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    Ok(format!(
        "# The long run\n\n`cargo xtask ci` wrote this: {} on commit {}, {cores} cores, {} seeds of each level of the simulator from 1000000 on, \
         {} seconds of each fuzz target.\n\n{table}",
        day.trim(),
        commit.trim(),
        asked.seeds,
        Duration::from_secs(asked.seconds.parse()?).as_secs(),
    ))
}
