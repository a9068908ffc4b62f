//! franz-go's tests of its client, from the module that the matrix of clients pins: a module's archive holds its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{EXCLUDED_PATIENCE, Outcome, Verdict, bounded, emptied, read};
use crate::broker::Broker;
use crate::run::{command, output, root, run as must_run};
use crate::setup;

const MODULE: &str = "github.com/twmb/franz-go";
/// Records of the tests that move many. Their own default of 500 000 takes a machine for itself.
const RECORDS: &str = "10000";
/// All tests together; they take some minutes.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Builds the tests and runs them, those that are excluded one by one.
pub(super) fn run(folder: &Path, binary: &Path, excluded: &BTreeSet<&str>) -> Result<Outcome> {
    let go = setup::go()?;
    let told = output(
        command(&go, &["mod", "download", "-json", MODULE])
            .current_dir(root().join("tests/clients/go"))
            .env_remove("GOROOT"),
    )?;
    let told: serde_json::Value = serde_json::from_str(&told).context(MODULE)?;
    let text = |key: &str| told[key].as_str().with_context(|| format!("{MODULE}: {told}"));
    // The module cache is not to be written to, and a test may write beside itself.
    let source = folder.join("source");
    let _ = std::fs::remove_dir_all(&source);
    copy(Path::new(text("Dir")?), &source)?;
    let tests =
        Tests { program: folder.join("kgo.test"), within: source.join("pkg/kgo"), logs: emptied(folder.join("logs"))? };
    let program = tests.program.to_string_lossy();
    must_run(command(&go, &["test", "-c", "-o", &program, "./pkg/kgo"]).current_dir(&source).env_remove("GOROOT"))?;
    let broker_folder = emptied(folder.join("broker"))?;
    let mut broker = Broker::dev(binary, &broker_folder)?;
    let names = output(Command::new(&tests.program).args(["-test.list", "."]).current_dir(&tests.within))?;
    let names: Vec<&str> = names.lines().filter(|line| line.starts_with("Test")).collect();
    let asking = asking(&tests.within)?;
    let counted: Vec<&str> = names.iter().copied().filter(|name| !excluded.contains(name)).collect();
    let (mut verdicts, subtests) = tests.run(&broker.bootstrap, "all", &counted, PATIENCE)?;
    broker.must_run()?;
    for name in names.iter().filter(|name| excluded.contains(**name)) {
        verdicts.extend(tests.run(&broker.bootstrap, name, &[name], EXCLUDED_PATIENCE)?.0);
        broker.must_run()?;
    }
    Ok(Outcome {
        version: text("Version")?.to_string(),
        how: format!(
            "`KGO_TEST_RF=1 KGO_TEST_RECORDS={RECORDS}`, broker `barelog dev`. Groups of the classic and of the consumer protocol (KIP-848),\n\
             static members, all balancers. Besides, {subtests} subtests passed. A test asks the broker when its text uses what the\n\
             suite has for that (`newTestClient`, `tmpTopic` and their kind)."
        ),
        local: verdicts.keys().filter(|name| !asking.contains(*name)).cloned().collect(),
        tests: verdicts,
    })
}

/// The built tests.
struct Tests {
    program: PathBuf,
    within: PathBuf,
    logs: PathBuf,
}

impl Tests {
    /// Runs these tests; a verdict for each, and how many subtests passed.
    fn run(
        &self,
        bootstrap: &str,
        label: &str,
        names: &[&str],
        patience: Duration,
    ) -> Result<(BTreeMap<String, Verdict>, usize)> {
        let log = self.logs.join(format!("{label}.log"));
        eprintln!("xtask: kgo {label}");
        bounded(
            Command::new(&self.program)
                .args(["-test.v", "-test.timeout", &format!("{}s", patience.as_secs())])
                .args(["-test.run", &format!("^({})$", names.join("|"))])
                .current_dir(&self.within)
                .env("KGO_SEEDS", bootstrap)
                .env("KGO_TEST_RF", "1")
                .env("KGO_TEST_RECORDS", RECORDS)
                .env("KGO_LOG_LEVEL", "none"),
            &log,
            patience + Duration::from_secs(10),
        )?;
        let text = read(&log);
        let all = verdicts(&text, &log.display().to_string());
        let subtests = all.iter().filter(|(name, verdict)| name.contains('/') && **verdict == Verdict::Pass).count();
        let none = || Verdict::Miss(format!("no verdict; see {}", log.display()));
        let own = |name: &&str| ((*name).to_string(), all.get(*name).cloned().unwrap_or_else(none));
        Ok((names.iter().map(own).collect(), subtests))
    }
}

/// What `go test -v` wrote: `--- PASS: TestName (0.01s)`, indented for subtests.
fn verdicts(text: &str, log: &str) -> BTreeMap<String, Verdict> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let Some((word, rest)) = line.trim_start().strip_prefix("--- ").and_then(|rest| rest.split_once(": ")) else {
            continue;
        };
        let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name);
        let verdict = match word {
            "PASS" => Verdict::Pass,
            "FAIL" => Verdict::Miss(format!("failed; see {log}")),
            "SKIP" => Verdict::Miss(format!("skipped itself; see {log}")),
            _ => continue,
        };
        found.insert(name.to_string(), verdict);
    }
    found
}

/// Tests that ask the broker: their text has one of the helpers for that.
fn asking(folder: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with("_test.go") {
            found.extend(asking_in(&read(&path)));
        }
    }
    Ok(found)
}

fn asking_in(source: &str) -> Vec<String> {
    let helpers = ["newTestClient(", "testClientOpts(", "getSeedBrokers(", " tmp", "scramSeeds", "oauthSeeds"];
    let functions = source.split("\nfunc Test").skip(1);
    let bodies = functions.map(|rest| rest.split("\n}\n").next().unwrap_or(rest));
    let asking = bodies.filter(|body| helpers.iter().any(|helper| body.contains(helper)));
    asking.map(|body| format!("Test{}", body.split('(').next().unwrap_or(""))).collect()
}

/// Copies a folder so that it can be written to.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
            std::fs::set_permissions(&target, Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_asks_the_broker_when_it_makes_a_client_of_the_suite() {
        let source = "package kgo\n\nfunc TestA(t *testing.T) {\n\tcl, _ := newTestClient()\n}\n\nfunc TestB(t *testing.T) {\n\
                      \tx := 1\n}\n\nfunc helper() {\n\tnewTestClient()\n}\n\nfunc Test_c(t *testing.T) {\n\ttopic, _ := tmpTopic(t)\n}\n";
        assert_eq!(asking_in(source), ["TestA", "Test_c"]);
    }

    #[test]
    fn verdicts_are_read_from_what_go_writes() {
        let text = "=== RUN   TestA\n=== RUN   TestA/b_(c)\n--- PASS: TestA (0.10s)\n    --- PASS: TestA/b_(c) (0.00s)\n\
                    --- FAIL: TestB (1.00s)\n--- SKIP: TestC (0.00s)\n--- BENCH: Other (1s)\npanic: x\n";
        let found = verdicts(text, "log");
        assert_eq!(found.len(), 4);
        assert_eq!((&found["TestA"], &found["TestA/b_(c)"]), (&Verdict::Pass, &Verdict::Pass));
        assert_eq!(found["TestB"], Verdict::Miss("failed; see log".into()));
        assert_eq!(found["TestC"], Verdict::Miss("skipped itself; see log".into()));
    }
}
