//! Fuzzing on stable Rust: the targets of `fuzz/` are built with LLVM's coverage counters and libFuzzer, and search from their
//! committed corpora on. What breaks one becomes a file that every test run replays.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, output, root, run};
use crate::setup;

/// What the compiler adds, and what libFuzzer reads, without a nightly compiler: edges counted in eight bits each, a table of
/// where they are, and what is compared with what.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Seconds for each target.
const SECONDS: u64 = 60;

/// Memory of a fuzzing process: the largest rooms of a target are some 30 MiB, and libFuzzer keeps its corpus.
const RSS_MB: &str = "-rss_limit_mb=1024";

/// An input that takes longer is a finding. Inputs take milliseconds; this is for machines that do much else.
const TIMEOUT_SECONDS: &str = "-timeout=20";

/// Longest input: an input that needs more says nothing that a shorter one does not.
const INPUT_BYTES_MAX: &str = "-max_len=6000";

/// A committed corpus holds so many files and bytes beside its first inputs at most.
const CORPUS_FILES_MAX: usize = 150;
const CORPUS_BYTES_MAX: u64 = 300 << 10;

/// What the command line asks for.
struct Asked {
    targets: Vec<String>,
    seconds: u64,
    minimize: bool,
}

/// `[TARGET…] [--seconds N] [--minimize]`, or `--seed-corpora`.
pub fn fuzz(args: &[String]) -> Result<()> {
    if args == ["--seed-corpora"] {
        return run(&mut plain(&["--seeds"]));
    }
    let asked = asked(args)?;
    setup::fuzzing()?;
    let program = build()?;
    let mut broken = Vec::new();
    for target in &asked.targets {
        let sound = search(&program, target, asked.seconds)?;
        if !sound {
            broken.push(target.as_str());
        } else if asked.minimize {
            minimize(&program, target)?;
        }
    }
    if broken.is_empty() { Ok(()) } else { bail!("broken: {}", broken.join(", ")) }
}

fn asked(args: &[String]) -> Result<Asked> {
    let listed = output(&mut plain(&["--list"]))?;
    let known: Vec<&str> = listed.lines().collect();
    let mut asked = Asked { targets: Vec::new(), seconds: SECONDS, minimize: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => {
                let number = args.next().context("--seconds needs a number")?;
                asked.seconds = number.parse().with_context(|| format!("--seconds {number}"))?;
            }
            "--minimize" => asked.minimize = true,
            name if known.contains(&name) => asked.targets.push(name.into()),
            other => bail!("no target {other}; there are {}", known.join(" ")),
        }
    }
    if asked.targets.is_empty() {
        asked.targets = known.iter().map(|name| (*name).into()).collect();
    }
    Ok(asked)
}

/// The program without a fuzzer.
fn plain(args: &[&str]) -> Command {
    let mut all = vec!["run", "--quiet", "--package", "barelog-fuzz", "--"];
    all.extend(args);
    cargo(&all)
}

/// Where builds for fuzzing, and what they find, go.
fn folder() -> PathBuf {
    root().join("target/fuzz")
}

/// Builds the program with libFuzzer. Naming the host keeps the counters out of build scripts.
fn build() -> Result<PathBuf> {
    let told = output(Command::new("rustc").arg("-vV").current_dir(root()))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc does not name its host")?;
    run(cargo(&["build", "--quiet", "--profile", "fuzz", "--package", "barelog-fuzz", "--target", host])
        .env("CARGO_TARGET_DIR", folder())
        .env("RUSTFLAGS", RUSTFLAGS))?;
    Ok(folder().join(host).join("fuzz/barelog-fuzz"))
}

/// libFuzzer on a target.
fn fuzzer(program: &Path, target: &str) -> Command {
    let mut command = Command::new(program);
    command.args([RSS_MB, TIMEOUT_SECONDS, INPUT_BYTES_MAX]).env("BARELOG_FUZZ_TARGET", target).current_dir(root());
    command
}

fn corpus(target: &str) -> PathBuf {
    root().join("fuzz/corpus").join(target)
}

/// What was found and is not committed.
fn found(target: &str) -> PathBuf {
    folder().join("found").join(target)
}

/// Searches for so many seconds. `false` when something broke: it lies in `fuzz/regressions` then.
fn search(program: &Path, target: &str, seconds: u64) -> Result<bool> {
    eprintln!("xtask: fuzzing {target} for {seconds} s");
    let (found, broken) = (found(target), folder().join("broken").join(target));
    for folder in [&found, &broken, &corpus(target)] {
        std::fs::create_dir_all(folder)?;
    }
    let time = format!("-max_total_time={seconds}");
    let prefix = format!("-artifact_prefix={}/", broken.display());
    let status = fuzzer(program, target)
        .args([&time, &prefix, "-print_final_stats=1"])
        .args([&found, &corpus(target)])
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if status.success() {
        return Ok(true);
    }
    let kept = root().join("fuzz/regressions").join(target);
    std::fs::create_dir_all(&kept)?;
    for file in files(&broken)? {
        let name = file.file_name().unwrap_or(OsStr::new("input"));
        std::fs::rename(&file, kept.join(name)).with_context(|| format!("cannot keep {}", file.display()))?;
        let shown = format!("fuzz/regressions/{target}/{}", name.to_string_lossy());
        eprintln!("xtask: {target} breaks on {shown}; to see it again:");
        eprintln!("    cargo run -p barelog-fuzz -- {target} {shown}");
    }
    Ok(false)
}

/// Merges what was found into the committed corpus: of all inputs the fewest that reach what all reach, and of those the
/// smallest, as many as there is room for. The first inputs stay.
fn minimize(program: &Path, target: &str) -> Result<()> {
    let (corpus, merged) = (corpus(target), folder().join("merged").join(target));
    let _ = std::fs::remove_dir_all(&merged);
    std::fs::create_dir_all(&merged)?;
    run(fuzzer(program, target).arg("-set_cover_merge=1").args([&merged, &corpus, &found(target)]))?;
    let is_first = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed-"));
    let (mut room, mut bytes) = (CORPUS_FILES_MAX, CORPUS_BYTES_MAX);
    let mut first = Vec::new();
    for file in files(&corpus)? {
        if is_first(&file) {
            room = room.saturating_sub(1);
            bytes = bytes.saturating_sub(file.metadata()?.len());
            first.push(std::fs::read(&file)?);
        } else {
            std::fs::remove_file(&file)?;
        }
    }
    let mut new = Vec::new();
    for file in files(&merged)? {
        let content = std::fs::read(&file)?;
        if !first.contains(&content) {
            new.push((content.len() as u64, file));
        }
    }
    new.sort();
    let (there, mut kept) = (new.len(), 0);
    for (len, file) in new {
        if kept == room || len > bytes {
            break;
        }
        bytes -= len;
        kept += 1;
        std::fs::copy(&file, corpus.join(file.file_name().unwrap_or(OsStr::new("input"))))?;
    }
    eprintln!("xtask: {target}: {} first inputs, {kept} of {there} that were found", first.len());
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    Ok(files)
}
