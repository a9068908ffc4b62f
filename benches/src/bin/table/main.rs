//! `cargo xtask bench`: one run, everything beside its floor, as Markdown and JSON under `docs/benchmarks/`.
//!
//! `--only PART,PART` runs some parts and writes nothing.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use benches::floor::Scratch;
use benches::machine;
use serde_json::json;

mod many;
mod steady;
mod strained;

const SIZE: usize = 1024;
const PARTITIONS: i32 = 8;
const WRITES: &str = "barelog_device_writes_total";
const CROSSED: &str = "barelog_shard_messages_total";

/// A part of the run: its name, and what it adds to the table.
type Part = (&'static str, fn(&mut Bench, &Scratch) -> Result<()>);

const PARTS: &[Part] = &[
    ("device", Bench::device),
    ("bulk", Bench::bulk),
    ("kafka", |bench, _| bench.kafka()),
    ("latency", Bench::latency),
    ("shards", |bench, _| bench.shards()),
    ("crossing", |bench, _| bench.crossing()),
    ("end-to-end", |bench, _| bench.end_to_end()),
    ("tail", |bench, _| bench.tail()),
    ("partitions", |bench, _| bench.partitions()),
    ("connections", |bench, _| bench.connections()),
    ("restart", |bench, _| bench.restart()),
    ("small", |bench, _| bench.small()),
    ("cold", Bench::cold),
    ("overload", |bench, _| bench.overload()),
    ("loud", |bench, _| bench.loud()),
    ("group", |bench, _| bench.group()),
];

/// One line of the table.
struct Row {
    what: String,
    value: String,
    beside: String,
    json: serde_json::Value,
}

struct Bench {
    folder: tempfile::TempDir,
    rows: Vec<Row>,
    records: u64,
    runs: usize,
    /// Milliseconds of the same work, between the parts.
    spins: Vec<f64>,
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (mut records, mut runs, mut only) = (1_000_000u64, 3usize, None);
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--records" => records = value.parse()?,
            "--runs" => runs = value.parse()?,
            "--only" => only = Some(value),
            _ => anyhow::bail!("usage: cargo xtask bench [--records N] [--runs N] [--only PART,PART]"),
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("benches lies in the workspace")?;
    std::fs::create_dir_all(root.join("target/bench"))?;
    let folder = tempfile::tempdir_in(root.join("target/bench"))?;
    let mut bench = Bench { folder, rows: Vec::new(), records, runs, spins: Vec::new() };
    let (started, steal) = (Instant::now(), machine::steal_seconds());
    bench.run(only.as_deref())?;
    let steal = 100.0 * (machine::steal_seconds() - steal) / started.elapsed().as_secs_f64();
    match only {
        Some(_) => Ok(()),
        None => bench.write(&root.join("docs/benchmarks"), steal),
    }
}

fn us(ns: f64) -> String {
    format!("{:.0} µs", ns / 1000.0)
}

impl Bench {
    fn row(&mut self, what: &str, value: String, beside: String, json: serde_json::Value) {
        println!("{what}: {value} ({beside})");
        self.rows.push(Row { what: what.into(), value, beside, json });
    }

    fn run(&mut self, only: Option<&str>) -> Result<()> {
        let wanted: Option<Vec<&str>> = only.map(|names| names.split(',').collect());
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        let unknown = wanted.iter().flatten().find(|name| !names.contains(name));
        ensure!(unknown.is_none(), "there is no such part; parts are {}", names.join(", "));
        let scratch = Scratch::new(self.folder.path(), 1 << 30)?;
        for (name, part) in PARTS {
            if wanted.as_ref().is_none_or(|wanted| wanted.contains(name)) {
                self.spins.push(machine::spin_ms());
                part(self, &scratch).with_context(|| format!("part {name}"))?;
            }
        }
        self.spins.push(machine::spin_ms());
        Ok(())
    }

    /// A folder that does not exist yet.
    fn dir(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, folder: &Path, steal: f64) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let machine = machine::describe(self.folder.path());
        ensure!(!self.rows.is_empty(), "nothing was measured");
        let mut text = String::from(
            "# Benchmarks\n\n`cargo xtask bench` wrote this table: medians over alternating runs in one run of the program. Every acknowledged record is \
                                     durable (flushed); floors are measured in the same run.\n\n",
        );
        let _ = writeln!(
            text,
            "Machine: {machine}. Stolen time {steal:.1} %; a fixed amount of work between the parts took {:.0} to {:.0} ms. Records of {SIZE} B, {} per run, {} runs, {PARTITIONS} partitions. Clients and broker share the cores.\n",
            self.spins.iter().copied().fold(f64::INFINITY, f64::min),
            self.spins.iter().copied().fold(0.0, f64::max),
            self.records,
            self.runs
        );
        text.push_str("| what | median | beside it |\n|---|---|---|\n");
        let mut rows = Vec::new();
        for row in &self.rows {
            let _ = writeln!(text, "| {} | {} | {} |", row.what, row.value, row.beside);
            rows.push(json!({"what": row.what, "figures": row.json}));
        }
        std::fs::write(folder.join("table.md"), text)?;
        let all = json!({"machine": machine, "steal_percent": steal, "spin_ms": self.spins, "records": self.records, "runs": self.runs, "rows": rows});
        std::fs::write(folder.join("table.json"), serde_json::to_string_pretty(&all)? + "\n")?;
        Ok(())
    }
}
