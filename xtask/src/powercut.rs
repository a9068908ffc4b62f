//! The long form of `tests/powercut.rs`: many power cuts, and whether they catch a build that acknowledges before it flushes.

use std::process::Stdio;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, root, run};
use crate::setup;

/// Power cuts with each kind of device.
const CUTS: &str = "200";

/// The fault that the simulator is tried with, too.
const FAULT: &str = "ack-before-flush";

/// What the test says of records that were acknowledged and are not there: some of a partition, or a partition altogether, for
/// whose ends the broker knows nothing.
const FOUND: [&str; 2] = ["were acknowledged", "begins at -1 instead of"];

/// `[CUTS]`, or `--planted`.
pub fn powercut(args: &[String]) -> Result<()> {
    setup::setup()?;
    match args {
        [] => cuts(CUTS),
        [flag] if flag == "--planted" => planted(),
        [count] if count.parse::<u64>().is_ok() => cuts(count),
        _ => bail!("cargo xtask powercut [CUTS] | --planted"),
    }
}

const TEST: [&str; 7] = ["test", "--package", "barelog", "--test", "powercut", "--", "--nocapture"];

fn cuts(count: &str) -> Result<()> {
    run(&mut cargo(&["build", "--release", "--package", "barelog"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    run(cargo(&TEST).env("BARELOG_BIN", target.join("release/barelog")).env("BARELOG_POWER_CUTS", count))
}

/// Builds the broker with the fault; the test must fail, and by what it is there to find.
fn planted() -> Result<()> {
    let target = root().join("target/planted");
    run(cargo(&["build", "--quiet", "--package", "barelog"])
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTFLAGS", format!("--cfg fault=\"{FAULT}\"")))?;
    for layout in ["data_file", "block_device"] {
        let mut command = cargo(&TEST);
        command.arg(layout).env("BARELOG_BIN", target.join("debug/barelog")).env("BARELOG_POWER_CUTS", CUTS);
        let done = command.stdin(Stdio::null()).output().context("cannot start the test")?;
        let said = String::from_utf8_lossy(&done.stderr);
        let found = said.lines().find(|line| FOUND.iter().any(|found| line.contains(found)));
        match found {
            Some(line) if !done.status.success() => eprintln!("xtask: {FAULT}, {layout}: {line}"),
            _ => bail!("{layout}: a broker with {FAULT} was not found out: {}\n{said}", done.status),
        }
    }
    Ok(())
}
