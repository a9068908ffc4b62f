//! librdkafka's test runner, built from the source in an npm package: the newest release whose archive holds the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::{EXCLUDED_PATIENCE, Outcome, Verdict, bounded, emptied, read};
use crate::broker::Broker;
use crate::run::{command, run as must_run};
use crate::setup;

/// The npm package; its `deps/librdkafka` is the whole source.
const PACKAGE: &str = "@confluentinc/kafka-javascript@1.10.1";
/// What the suite takes the broker for: the last Kafka without share groups, whose tests 4.2 brings.
const KAFKA: &str = "4.1.0";
/// One number. Most take seconds, some minutes: the quick mode of the suite would leave out most of what they try, and say passed.
const PATIENCE: Duration = Duration::from_secs(480);
/// Numbers at a time. They mostly wait.
const WORKERS: usize = 16;
/// The suite's own default scenario. It demands four partitions of topics that come on first use.
const DEFAULT: &str = "default";
/// Its scenario without topics on first use.
const NO_AUTO_CREATE: &str = "noautocreate";

/// A line of the table in `tests/test.c`.
#[derive(Debug, PartialEq)]
struct Listed {
    name: String,
    local: bool,
    by_hand: bool,
    scenario: &'static str,
}

/// What the runner reports when `TEST_REPORT` names a file.
#[derive(Deserialize)]
struct Report {
    tests: BTreeMap<String, Reported>,
}

#[derive(Deserialize)]
struct Reported {
    state: String,
}

/// Builds the runner and runs each number by itself.
pub(super) fn run(folder: &Path, binary: &Path, excluded: &BTreeSet<&str>) -> Result<Outcome> {
    setup::native_suite()?;
    let source = built(folder)?;
    let listed = listed(&read(&source.join("tests/test.c")));
    let logs = emptied(folder.join("logs"))?;
    let mut tests = BTreeMap::new();
    for (scenario, settings) in [
        (DEFAULT, "num.partitions = 4\ngroup.initial.rebalance.delay.ms = 3000"),
        (NO_AUTO_CREATE, "auto.create.topics.enable = false"),
    ] {
        let mut broker = Broker::serve(binary, &emptied(folder.join(scenario))?, settings)?;
        let config = folder.join(format!("{scenario}.conf"));
        std::fs::write(&config, format!("bootstrap.servers={}\n", broker.bootstrap))?;
        let runner = Runner { within: source.join("tests"), config, scenario, logs: logs.clone() };
        tests.extend(runner.all(&listed, excluded, &mut broker)?);
    }
    let version = version(&read(&source.join("src/rdkafka.h"))).context("src/rdkafka.h: no RD_KAFKA_VERSION")?;
    Ok(Outcome {
        version,
        how: format!(
            "`TEST_KAFKA_VERSION={KAFKA} test-runner -p4`, each number by itself, {WORKERS} at a time, classic protocol of groups; broker\n\
             `barelog serve` with `num.partitions = 4`, as the suite demands, and Kafka's own `group.initial.rebalance.delay.ms` of 3 s,\n\
             which some tests count on; for the scenario `{NO_AUTO_CREATE}` one that makes no topics on first use. Tests that the suite\n\
             marks as local, and those with a mock of a broker, are not counted as asking. What the suite itself runs only by hand, or\n\
             marks as a known issue of its own, is not run and not counted. A number that fails among the others runs once more, alone:\n\
             many of these tests measure time."
        ),
        tests,
        local: listed.into_iter().filter(|test| test.local).map(|test| test.name).collect(),
    })
}

/// The source with a runner in it, from the package or from a run before.
fn built(folder: &Path) -> Result<PathBuf> {
    let (source, mark) = (folder.join("source"), folder.join("built"));
    if read(&mark) == PACKAGE {
        return Ok(source);
    }
    let source = emptied(source)?;
    let packed = emptied(folder.join("package"))?;
    must_run(command("npm", &["pack", "--silent", PACKAGE]).current_dir(&packed))?;
    let archive = std::fs::read_dir(&packed)?.next().context("npm pack left nothing")??.path();
    must_run(
        Command::new("tar")
            .arg("xzf")
            .arg(&archive)
            .args(["--strip-components=3", "package/deps/librdkafka"])
            .current_dir(&source),
    )?;
    let step = |program: &str, args: &[&str], log: &str| -> Result<()> {
        eprintln!("xtask: librdkafka {program} {}", args.join(" "));
        let log = folder.join(log);
        let done = bounded(command(program, args).current_dir(&source), &log, Duration::from_secs(3600))?;
        anyhow::ensure!(done == Some(true), "{program} {} failed; see {}", args.join(" "), log.display());
        Ok(())
    };
    step("bash", &["./configure", "--disable-curl", "--disable-sasl", "--disable-gssapi"], "configure.log")?;
    step("make", &["-j2", "libs"], "libs.log")?;
    step("make", &["-j2", "-C", "tests", "build"], "tests.log")?;
    std::fs::write(mark, PACKAGE)?;
    Ok(source)
}

/// The runner against one broker.
struct Runner {
    within: PathBuf,
    config: PathBuf,
    scenario: &'static str,
    logs: PathBuf,
}

impl Runner {
    /// Runs all numbers that have a test of this scenario; what missed then once more, alone, for many tests measure time.
    fn all(
        &self,
        listed: &[Listed],
        excluded: &BTreeSet<&str>,
        broker: &mut Broker,
    ) -> Result<BTreeMap<String, Verdict>> {
        let mut by_number: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for test in listed.iter().filter(|test| test.scenario == self.scenario && !test.by_hand) {
            by_number.entry(&test.name[..4]).or_default().push(&test.name);
        }
        // Mocks of brokers take minutes, which they mostly wait: they go first.
        let slow = |names: &[&str]| names.iter().any(|name| name.ends_with("_mock"));
        let numbers: BTreeMap<_, _> =
            by_number.into_iter().map(|(number, names)| ((!slow(&names), number), names)).collect();
        let (left, verdicts) = (Mutex::new(numbers.clone()), Mutex::new(BTreeMap::new()));
        let worker = || -> Result<()> {
            loop {
                let next = left.lock().expect("no panic").pop_first();
                let Some(((_, number), names)) = next else { return Ok(()) };
                let hopeless = names.iter().all(|name| excluded.contains(name));
                let found = self.number(number, &names, if hopeless { EXCLUDED_PATIENCE } else { PATIENCE })?;
                verdicts.lock().expect("no panic").extend(found);
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
        })?;
        let mut verdicts = verdicts.into_inner().expect("no panic");
        for ((_, number), names) in numbers {
            let missed = |name: &&str| !excluded.contains(name) && verdicts.get(*name) != Some(&Verdict::Pass);
            if names.iter().any(missed) {
                verdicts.extend(self.number(number, &names, PATIENCE)?);
            }
        }
        broker.must_run()?;
        Ok(verdicts)
    }

    /// Runs the tests of a number.
    fn number(&self, number: &str, names: &[&str], patience: Duration) -> Result<BTreeMap<String, Verdict>> {
        let report = self.logs.join(format!("{number}.{}.json", self.scenario));
        let log = report.with_extension("log");
        let started = Instant::now();
        let ended = bounded(
            Command::new("./test-runner")
                .args(["-p4"])
                .current_dir(&self.within)
                .env("TESTS", number)
                .env("TEST_KAFKA_VERSION", KAFKA)
                .env("TEST_SCENARIO", self.scenario)
                .env("TEST_REPORT", &report)
                .env("RDKAFKA_TEST_CONF", &self.config)
                .env("LD_LIBRARY_PATH", "../src:../src-cpp")
                .env_remove("CI"),
            &log,
            patience,
        )?;
        let seconds = started.elapsed().as_secs_f32();
        let states = if ended.is_some() { states(&read(&report)) } else { BTreeMap::new() };
        let verdict = |name: &&str| {
            let verdict = match states.get(*name).map(String::as_str) {
                Some("PASSED") => Verdict::Pass,
                Some("SKIPPED") => Verdict::Miss(format!("skipped itself; see {}", log.display())),
                Some(_) => Verdict::Miss(format!("failed; see {}", log.display())),
                None => Verdict::Miss(format!("no verdict after {seconds:.0} s; see {}", log.display())),
            };
            let word = if verdict == Verdict::Pass { "pass" } else { "MISS" };
            eprintln!("  {name:50} {word} {seconds:6.1} s");
            ((*name).to_string(), verdict)
        };
        Ok(names.iter().map(verdict).collect())
    }
}

/// States of tests in a report; none where the runner died before it wrote one.
fn states(report: &str) -> BTreeMap<String, String> {
    let report = serde_json::from_str::<Report>(report);
    report.map_or_else(
        |_| BTreeMap::new(),
        |report| report.tests.into_iter().map(|(name, test)| (name, test.state)).collect(),
    )
}

/// The table `_TEST(name, flags, …)` of the runner's source.
fn listed(source: &str) -> Vec<Listed> {
    // Four digits: the source also shows how an entry is written.
    let numbered = |entry: &&str| entry.len() > 4 && entry.as_bytes()[..4].iter().all(u8::is_ascii_digit);
    let entries = source.split(" _TEST(").skip(1).filter(numbered);
    let parsed = entries.map(|entry| {
        let (name, rest) = entry.split_once(',').unwrap_or((entry, ""));
        let flags = rest.split([',', ')']).next().unwrap_or("");
        let flags: Vec<&str> = flags.split('|').map(str::trim).collect();
        let scenario = if rest.contains(NO_AUTO_CREATE) { NO_AUTO_CREATE } else { DEFAULT };
        Listed {
            name: name.trim().to_string(),
            local: flags.contains(&"TEST_F_LOCAL") || name.ends_with("_mock"),
            by_hand: flags.contains(&"TEST_F_MANUAL") || flags.contains(&"TEST_F_KNOWN_ISSUE"),
            scenario,
        }
    });
    parsed.collect()
}

/// `0x020f01ff` is 2.15.1.
fn version(header: &str) -> Option<String> {
    let line = header.lines().find(|line| line.starts_with("#define RD_KAFKA_VERSION "))?;
    let number = u32::from_str_radix(line.split("0x").nth(1)?.trim(), 16).ok()?;
    let [major, minor, patch, _] = number.to_be_bytes();
    Some(format!("{major}.{minor}.{patch}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_tests_is_read_from_the_source() {
        let source = "#define _TEST(NAME, FLAGS, ...) \\\n _TEST_DECL(0001_a);\n * _TEST(00...., ...,\n\
                      struct test tests[] = {\n    _TEST(0001_a, 0),\n    _TEST(0002_b,\n          TEST_F_LOCAL,\n          \
                      _THRES(.ucpu = 1.0)),\n    _TEST(0003_c, 0, TEST_BRKVER(0, 9, 0, 0), .scenario = \"noautocreate\"),\n    \
                      _TEST(0004_d, TEST_F_LOCAL | TEST_F_KNOWN_ISSUE_WIN32),\n    _TEST(0005_e_mock, 0),\n    \
                      _TEST(0006_f, TEST_F_KNOWN_ISSUE),\n    _TEST(8000_g, TEST_F_MANUAL),\n    {NULL}};\n";
        let of = |name: &str, local, by_hand, scenario| Listed { name: name.into(), local, by_hand, scenario };
        assert_eq!(
            listed(source),
            [
                of("0001_a", false, false, DEFAULT),
                of("0002_b", true, false, DEFAULT),
                of("0003_c", false, false, NO_AUTO_CREATE),
                of("0004_d", true, false, DEFAULT),
                of("0005_e_mock", true, false, DEFAULT),
                of("0006_f", false, true, DEFAULT),
                of("8000_g", false, true, DEFAULT),
            ]
        );
    }

    #[test]
    fn a_report_that_was_never_written_has_no_states() {
        assert!(states("").is_empty());
        let report = r#"{ "id": "x", "tests": {"0001_a": {"name": "0001_a", "state": "PASSED", "report": [ ] }}, "tests_run": 1}"#;
        assert_eq!(states(report)["0001_a"], "PASSED");
    }

    #[test]
    fn the_version_is_in_the_header() {
        assert_eq!(version("#define RD_KAFKA_VERSION 0x020f01ff\n").as_deref(), Some("2.15.1"));
    }
}
