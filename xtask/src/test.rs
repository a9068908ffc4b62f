//! What has to pass before a change lands.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::kafka::Kafka;
use crate::run::{cargo, command, root, run, target, which};
use crate::{setup, sim, tidy};

/// Seeds of the simulator in a full test run, all levels together.
const SIM_SEEDS: &str = "2000";

/// Seeds of each level that are run in debug and in release.
const SIM_REPEATS: &str = "10";

/// The whole test run.
pub fn test() -> Result<()> {
    let started = Instant::now();
    step("setup", setup::setup)?;
    step("tidy", tidy::quick)?;
    step("pure crates for a target without an operating system", tidy::bare)?;
    step("build with only cargo, rustc and cc on PATH", bare_build)?;
    step("unit, property and simulation tests", || {
        run(cargo(&["test", "--workspace", "--exclude", "barelog-benches", "--exclude", "barelog"])
            .env("BARELOG_SIM_SEEDS", SIM_SEEDS))
    })?;
    step("the simulator repeats itself, debug and release", || sim::repeats(SIM_REPEATS))?;
    step("the binary: unit tests, real clients, kills, system tests", || {
        run(with_tools(&mut cargo(&["test", "--package", "barelog", "--", "--test-threads=2"])))
    })?;
    step("librdkafka through the rdkafka crate", || {
        run(with_tools(&mut cargo(&["test", "--package", "barelog-benches"])))
    })?;
    step("demo", || run(Command::new(binary()).args(["demo", "--once", "--messages", "200000"]).current_dir(root())))?;
    eprintln!("xtask: all tests passed in {} s", started.elapsed().as_secs());
    Ok(())
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("xtask: {name}");
    let started = Instant::now();
    work().with_context(|| name.to_string())?;
    eprintln!("xtask: {name}: {} s", started.elapsed().as_secs());
    Ok(())
}

/// The release binary that [`bare_build`] made.
fn binary() -> PathBuf {
    target().join("release/barelog")
}

/// Tells tests where the binary and the clients are.
fn with_tools(command: &mut Command) -> &mut Command {
    command.env("BARELOG_BIN", binary()).env("BARELOG_PYTHON", setup::python()).env("BARELOG_JARS", setup::jars())
}

/// Builds the release binary where no C++ compiler, make, cmake or libclang is to be found.
fn bare_build() -> Result<()> {
    let folder = target().join("bare-path");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    // `cc` calls `as` and `ld` by name, and `ar` collects what the `cc` crate has compiled.
    for program in ["cargo", "rustc", "cc", "as", "ld", "ar"] {
        link(program, &folder)?;
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    run(Command::new(cargo)
        .args(["build", "--release", "--package", "barelog"])
        .current_dir(root())
        .env("PATH", &folder)
        .env_remove("CXX")
        .env("LIBCLANG_PATH", "/nonexistent"))
}

fn link(program: &str, folder: &Path) -> Result<()> {
    let found = match program {
        "rustc" => std::env::var_os("CARGO").map(|cargo| PathBuf::from(cargo).with_file_name("rustc")),
        "cargo" => std::env::var_os("CARGO").map(PathBuf::from),
        _ => None,
    };
    let found = found.filter(|path| path.is_file()).or_else(|| which(program));
    let Some(found) = found else { bail!("{program} is not on PATH") };
    symlink(&found, folder.join(program)).with_context(|| format!("cannot link {program}"))
}

/// Runs the benchmarks, which write their own tables.
pub fn bench(args: &[String]) -> Result<()> {
    run(&mut cargo(&["build", "--release", "--package", "barelog"]))?;
    // It waits stopped until it is its turn.
    let kafka = Kafka::start("bench-kafka")?;
    run(&mut command("kill", &["-STOP", &kafka.pid().to_string()]))?;
    let told = format!("{},{},{}", kafka.address, kafka.pid(), setup::KAFKA);
    let mut all = vec!["run", "--release", "--package", "barelog-benches", "--bin", "table", "--"];
    all.extend(args.iter().map(String::as_str));
    run(with_tools(&mut cargo(&all)).env("BARELOG_KAFKA", told))
}

/// Rewrites generated documents and golden files.
pub fn bless() -> Result<()> {
    run(cargo(&[
        "test",
        "--workspace",
        "--exclude",
        "barelog-benches",
        "--lib",
        "--bins",
        "--test",
        "format",
        "--test",
        "golden",
    ])
    .env("BLESS", "1"))
}
