//! The matrix of clients: one set of scenarios with each Kafka client against a fresh broker, written to docs/CLIENTS.md.
//!
//! What is run stands in `tests/clients/matrix.json`. A program of a client is called with BOOTSTRAP and the name of a scenario and
//! prints one line of JSON, `{"scenario", "result", "detail"}`; for the scenario `version` the detail is the client's version. A cell
//! is pass, fail, or `cannot` where the matrix says why the client has no such thing. A program that gives no verdict has failed:
//! there are no skipped cells.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::broker::{self, Broker};
use crate::run::{command, root};
use crate::setup;

/// Where the result goes.
const DOCUMENT: &str = "docs/CLIENTS.md";
/// What is run.
const MATRIX: &str = "tests/clients/matrix.json";
/// Longer than the 40 s that scenarios themselves wait for anything, twice, and a slow start.
const PATIENCE: Duration = Duration::from_secs(120);

/// `tests/clients/matrix.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Matrix {
    scenarios: Vec<Scenario>,
    clients: Vec<Client>,
    /// What differs from Kafka 4.4 where clients ask beyond the scenarios, found by asking both the same.
    differences: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    shows: String,
    /// Kafka's error code that the client has to show, as the detail of its line.
    code: Option<i16>,
    /// Against a broker of its own with the smallest of devices, which a topic `filler` has filled.
    #[serde(default)]
    full: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    name: String,
    command: Vec<String>,
    /// Scenario and what in the client's documentation says that there is no such thing.
    cannot: BTreeMap<String, String>,
    /// Scenario that fails for a known reason, and the reason. One that passes is an error.
    #[serde(default)]
    misses: BTreeMap<String, String>,
    /// What a reader of the table should know of this column.
    #[serde(default)]
    notes: String,
}

/// What a program prints.
#[derive(Deserialize)]
struct Line {
    scenario: String,
    result: String,
    detail: String,
}

/// One cell.
enum Verdict {
    Pass,
    Fail(String),
    Cannot,
}

/// One column.
struct Column {
    version: String,
    cells: Vec<Verdict>,
}

/// Runs the clients that are named, or all and then writes the document.
pub fn clients(names: &[String]) -> Result<()> {
    let matrix = matrix()?;
    if let Some(unknown) = names.iter().find(|name| !matrix.clients.iter().any(|client| client.name == **name)) {
        bail!("no client {unknown} in {MATRIX}");
    }
    setup::clients()?;
    let broker = broker::binary()?;
    let mut columns = Vec::new();
    let mut faults = Vec::new();
    for client in matrix.clients.iter().filter(|client| names.is_empty() || names.contains(&client.name)) {
        let column = column(&broker, client, &matrix.scenarios).with_context(|| client.name.clone())?;
        for (scenario, cell) in matrix.scenarios.iter().zip(&column.cells) {
            let known = client.misses.contains_key(&scenario.name);
            match cell {
                Verdict::Fail(detail) if !known => faults.push(format!("{} {}: {detail}", client.name, scenario.name)),
                Verdict::Pass if known => {
                    faults.push(format!("{} {}: passes, yet is listed as a miss", client.name, scenario.name));
                }
                _ => {}
            }
        }
        columns.push(column);
    }
    if names.is_empty() {
        std::fs::write(root().join(DOCUMENT), document(&matrix, &columns))?;
        eprintln!("xtask: wrote {DOCUMENT}");
    }
    let cells = columns.iter().map(|column| column.cells.len()).sum::<usize>();
    if faults.is_empty() {
        eprintln!("xtask: {} clients, {cells} cells", columns.len());
        return Ok(());
    }
    bail!("{} of {cells} cells failed:\n  {}", faults.len(), faults.join("\n  "))
}

fn matrix() -> Result<Matrix> {
    let text = std::fs::read_to_string(root().join(MATRIX))?;
    let matrix: Matrix = serde_json::from_str(&text).context(MATRIX)?;
    for client in &matrix.clients {
        for name in client.cannot.keys().chain(client.misses.keys()) {
            let known = matrix.scenarios.iter().any(|scenario| scenario.name == *name);
            ensure!(known, "{MATRIX}: {} names {name}, which is no scenario", client.name);
        }
    }
    Ok(matrix)
}

/// Runs all scenarios of a client against a broker of its own.
fn column(binary: &Path, client: &Client, scenarios: &[Scenario]) -> Result<Column> {
    let folder = setup::tools().join("matrix").join(&client.name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let mut broker = Broker::dev(binary, &folder)?;
    let version = match call(client, &broker.bootstrap, "version", &folder)? {
        Ok(line) if line.result == "pass" => line.detail,
        Ok(line) => bail!("version: {}", line.detail),
        Err(text) => bail!("version: {text}"),
    };
    eprintln!("xtask: {} {version}", client.name);
    let mut cells = Vec::new();
    for scenario in scenarios {
        let started = Instant::now();
        let verdict = if client.cannot.contains_key(&scenario.name) {
            Verdict::Cannot
        } else {
            let full = scenario.full.then(|| full_broker(binary, &folder.join("full"))).transpose()?;
            let bootstrap = full.as_ref().map_or(&broker.bootstrap, |full| &full.bootstrap);
            judge(scenario, call(client, bootstrap, &scenario.name, &folder)?)
        };
        let seconds = started.elapsed().as_secs_f32();
        match &verdict {
            Verdict::Pass => eprintln!("  {:22} pass    {seconds:5.1} s", scenario.name),
            Verdict::Cannot => eprintln!("  {:22} cannot", scenario.name),
            Verdict::Fail(detail) => eprintln!("  {:22} FAIL    {seconds:5.1} s  {detail}", scenario.name),
        }
        cells.push(verdict);
        broker.must_run().with_context(|| format!("after {}", scenario.name))?;
    }
    Ok(Column { version, cells })
}

/// What the program's line means.
fn judge(scenario: &Scenario, said: std::result::Result<Line, String>) -> Verdict {
    let line = match said {
        Ok(line) => line,
        Err(text) => return Verdict::Fail(text),
    };
    if line.scenario != scenario.name || line.result != "pass" {
        return Verdict::Fail(line.detail);
    }
    match scenario.code {
        Some(code) if line.detail != code.to_string() => {
            Verdict::Fail(format!("the client shows code {} instead of {code}", line.detail))
        }
        _ => Verdict::Pass,
    }
}

/// Runs the program; its standard error goes to a file of the folder. The inner error is a program without a verdict.
fn call(client: &Client, bootstrap: &str, scenario: &str, folder: &Path) -> Result<std::result::Result<Line, String>> {
    let arguments: Vec<String> = client.command.iter().map(|part| filled(part)).collect();
    let (program, rest) = arguments.split_first().context("an empty command")?;
    let log = folder.join(format!("{scenario}.log"));
    let mut child = command(program, &[])
        .args(rest)
        .args([bootstrap, scenario])
        .env("BARELOG_JARS", setup::jars())
        .env("NODE_PATH", setup::node_modules())
        .stdout(Stdio::piped())
        .stderr(File::create(&log)?)
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let mut stdout = child.stdout.take().context("piped")?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(Err(format!("no verdict within {} s; see {}", PATIENCE.as_secs(), log.display())));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let text = reader.join().unwrap_or_default();
    let line = text.lines().rev().find_map(|line| serde_json::from_str::<Line>(line).ok());
    Ok(line.ok_or_else(|| format!("no verdict; see {}", log.display())))
}

/// Puts paths in the place of `{python}`, `{jars}` and `{built}`.
fn filled(part: &str) -> String {
    part.replace("{python}", &setup::python().to_string_lossy())
        .replace("{jars}", &setup::jars().to_string_lossy())
        .replace("{built}", &setup::built().to_string_lossy())
}

/// A broker whose device takes no more records.
fn full_broker(binary: &Path, folder: &Path) -> Result<Broker> {
    std::fs::create_dir_all(folder)?;
    // One shard: all topics share a journal, and are full together.
    let profile = folder.join("profile.toml");
    std::fs::write(&profile, "[shards]\ncount = 1\n")?;
    let settings = format!("data.size = \"512 MiB\"\nhardware.profile = \"{}\"", profile.display());
    let broker = Broker::serve(binary, folder, &settings)?;
    // Smaller and smaller lines, until not even the smallest finds room.
    for (bytes, lines) in [(1 << 20, 64), (64 << 10, 1), (4 << 10, 1), (1, 1)] {
        let text = ("x".repeat(bytes) + "\n").repeat(lines);
        let took = (0..200).take_while(|_| produce(binary, &broker.bootstrap, &text).unwrap_or(false)).count();
        ensure!(took < 200, "the device does not fill");
    }
    Ok(broker)
}

/// Whether `barelog produce` could send these lines to the topic `filler`.
fn produce(binary: &Path, bootstrap: &str, text: &str) -> Result<bool> {
    let mut child = Command::new(binary)
        .args(["produce", "filler", "--bootstrap", bootstrap])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // It may end before it has read all.
    let _ = child.stdin.take().context("piped")?.write_all(text.as_bytes());
    Ok(child.wait()?.success())
}

/// The text of docs/CLIENTS.md.
fn document(matrix: &Matrix, columns: &[Column]) -> String {
    let mut out = String::from(
        "# Clients\n\n<!-- Generated by `cargo xtask clients` from a run; what is run stands in tests/clients/matrix.json. -->\n\n\
         Each client, unmodified, runs the same scenarios against a fresh broker (`barelog dev`, settings as they come). A cell is\n\
         **pass**, **FAIL**, or **cannot** where the client has no such thing; the reasons stand below. `cargo xtask clients` runs all of\n\
         it anew, `cargo xtask clients NAME` one client.\n\n",
    );
    let row = |out: &mut String, head: &str, cells: &[String]| {
        let _ = writeln!(out, "| {head} | {} |", cells.join(" | "));
    };
    row(&mut out, "", &matrix.clients.iter().map(|client| client.name.clone()).collect::<Vec<_>>());
    row(&mut out, "---", &vec!["---".to_string(); columns.len()]);
    row(&mut out, "version", &columns.iter().map(|column| column.version.clone()).collect::<Vec<_>>());
    for (index, scenario) in matrix.scenarios.iter().enumerate() {
        let cells = columns.iter().map(|column| match column.cells[index] {
            Verdict::Pass => "pass".to_string(),
            Verdict::Fail(_) => "**FAIL**".to_string(),
            Verdict::Cannot => "cannot".to_string(),
        });
        row(&mut out, &format!("`{}`", scenario.name), &cells.collect::<Vec<_>>());
    }
    out.push_str("\n## What a pass shows\n\n| scenario | |\n|---|---|\n");
    for scenario in &matrix.scenarios {
        let _ = writeln!(out, "| `{}` | {} |", scenario.name, scenario.shows);
    }
    let reasons = |out: &mut String, of: fn(&Client) -> &BTreeMap<String, String>| {
        let start = out.len();
        for client in &matrix.clients {
            // One line for the scenarios that share a reason.
            let mut by_reason: Vec<(&str, Vec<String>)> = Vec::new();
            for (scenario, reason) in of(client) {
                match by_reason.iter_mut().find(|(other, _)| other == reason) {
                    Some((_, scenarios)) => scenarios.push(format!("`{scenario}`")),
                    None => by_reason.push((reason, vec![format!("`{scenario}`")])),
                }
            }
            for (reason, scenarios) in by_reason {
                let _ = writeln!(out, "- {}, {}: {reason}", client.name, scenarios.join(", "));
            }
        }
        if out.len() == start {
            out.push_str("None.\n");
        }
    };
    out.push_str("\n## What clients cannot do\n\n");
    reasons(&mut out, |client| &client.cannot);
    out.push_str("\n## Notes\n\n");
    for client in matrix.clients.iter().filter(|client| !client.notes.is_empty()) {
        let _ = writeln!(out, "- {}: {}", client.name, client.notes);
    }
    out.push_str("\n## Known misses of the broker\n\n");
    reasons(&mut out, |client| &client.misses);
    out.push_str("\n## Where the broker differs from Kafka 4.4\n\n");
    for difference in &matrix.differences {
        let _ = writeln!(out, "- {difference}");
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// A cell that is missing is a test that nobody ran.
    #[test]
    fn the_document_has_a_cell_for_every_scenario_and_client_and_none_of_them_failed() {
        let matrix = matrix().unwrap();
        let text = std::fs::read_to_string(root().join(DOCUMENT)).unwrap();
        let table: Vec<Vec<&str>> = text
            .lines()
            .skip_while(|line| !line.starts_with("| "))
            .take_while(|line| line.starts_with("| "))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        let names: Vec<&str> = matrix.clients.iter().map(|client| client.name.as_str()).collect();
        assert_eq!(table[0][1..], names, "cargo xtask clients writes it anew");
        assert_eq!(table.len(), matrix.scenarios.len() + 3, "head, rule, versions, scenarios");
        for (scenario, row) in matrix.scenarios.iter().zip(&table[3..]) {
            assert_eq!(row[0], format!("`{}`", scenario.name));
            for (client, cell) in matrix.clients.iter().zip(&row[1..]) {
                let wanted = if client.cannot.contains_key(&scenario.name) {
                    "cannot"
                } else if client.misses.contains_key(&scenario.name) {
                    "**FAIL**"
                } else {
                    "pass"
                };
                assert_eq!(*cell, wanted, "{} {}", client.name, scenario.name);
            }
        }
    }

    #[test]
    fn a_verdict_needs_the_scenario_the_word_and_the_code() {
        let scenario = Scenario { name: "error".into(), shows: String::new(), code: Some(3), full: false };
        let line = |scenario: &str, result: &str, detail: &str| {
            Ok(Line { scenario: scenario.into(), result: result.into(), detail: detail.into() })
        };
        assert!(matches!(judge(&scenario, line("error", "pass", "3")), Verdict::Pass));
        assert!(matches!(judge(&scenario, line("error", "pass", "10")), Verdict::Fail(_)));
        assert!(matches!(judge(&scenario, line("error", "pass", "")), Verdict::Fail(_)));
        assert!(matches!(judge(&scenario, line("error", "skip", "3")), Verdict::Fail(_)));
        assert!(matches!(judge(&scenario, line("other", "pass", "3")), Verdict::Fail(_)));
        assert!(matches!(judge(&scenario, Err("no verdict".into())), Verdict::Fail(_)));
    }
}
