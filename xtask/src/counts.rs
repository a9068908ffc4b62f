//! Instructions of the hot steps, counted by callgrind, against a committed baseline. Unlike seconds they are the same on a busy
//! machine, so a change of a few percent can be told.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, command, output, root};
use crate::{run, setup};

/// Instructions of one step, by name.
const BASELINE: &str = "benches/baseline.json";

/// Between so many steps and so many the difference is taken: what comes before the first step falls out.
const STEPS: (u64, u64) = (500, 2500);

/// A rise beyond this wants an explanation, in percent.
const RISE: f64 = 3.0;

/// `[--bless]`: compares with the baseline, or makes it anew.
pub fn counts(args: &[String]) -> Result<()> {
    let bless = match args {
        [] => false,
        [flag] if flag == "--bless" => true,
        _ => bail!("cargo xtask counts [--bless]"),
    };
    setup::counting()?;
    run::run(&mut cargo(&["build", "--quiet", "--release", "--package", "barelog-benches", "--bin", "steps"]))?;
    let program = run::target().join("release/steps");
    let program = program.to_string_lossy();
    let names = output(&mut command(&program, &[]))?;
    let mut counted = BTreeMap::new();
    for name in names.lines() {
        let (few, many) = (instructions(&program, name, STEPS.0)?, instructions(&program, name, STEPS.1)?);
        counted.insert(name.to_string(), (many - few) / (STEPS.1 - STEPS.0));
    }
    let path = root().join(BASELINE);
    if bless {
        return Ok(std::fs::write(&path, serde_json::to_string_pretty(&counted)? + "\n")?);
    }
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("{BASELINE}; `cargo xtask counts --bless` makes it"))?;
    let baseline: BTreeMap<String, u64> = serde_json::from_str(&text).context(BASELINE)?;
    let mut risen = Vec::new();
    for (name, now) in &counted {
        let Some(before) = baseline.get(name) else { bail!("{BASELINE} has no \"{name}\"; --bless adds it") };
        let change = 100.0 * (*now as f64 / *before as f64 - 1.0);
        eprintln!("xtask: {name}: {now} instructions, {change:+.1} %");
        if change > RISE {
            risen.push(format!("{name} by {change:.1} %"));
        }
    }
    if risen.is_empty() {
        return Ok(());
    }
    bail!("more instructions than {BASELINE} has: {}. Say in the commit why, and --bless", risen.join(", "))
}

/// Instructions of the whole program with so many steps.
fn instructions(program: &str, name: &str, steps: u64) -> Result<u64> {
    let steps = steps.to_string();
    let args = ["--tool=callgrind", "--callgrind-out-file=/dev/null", program, name, &steps];
    let done = command("valgrind", &args).output().context("cannot start valgrind")?;
    let said = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        bail!("valgrind with {name} ended with {}: {said}", done.status);
    }
    let line = said.lines().find_map(|line| line.split_once("Collected : "));
    let count = line.and_then(|(_, count)| count.trim().parse().ok());
    count.with_context(|| format!("callgrind names no instructions: {said}"))
}
