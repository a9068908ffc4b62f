//! Damage on the device of a real broker, as its operator and its consumers meet it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Broker, binary, folder};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs the binary to its end.
fn run(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(binary())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Standard output of a command that succeeds.
fn ok(args: &[&str], input: &str) -> String {
    let output = run(args, input);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Exit status, standard output and standard error of a command that fails.
fn fails(args: &[&str]) -> (i32, String, String) {
    let output = run(args, "");
    assert!(!output.status.success(), "{args:?} succeeds");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn device(data: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|ending| ending == "barelog")).unwrap()
}

/// Flips a bit of every place of the device that reads `value`.
fn rot(data: &Path, value: &str) {
    let path = device(data);
    let bytes = std::fs::read(&path).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - value.len()).filter(|&at| bytes[at..].starts_with(value.as_bytes())).collect();
    assert_eq!(places.len(), 1, "{value}");
    file.write_all_at(&[bytes[places[0]] ^ 0x40], places[0] as u64).unwrap();
}

#[test]
fn a_damaged_batch_is_named_listed_and_skipped_by_a_seek_or_by_a_deletion() {
    let dir = folder();
    let data = dir.path().join("data");
    let broker = Broker::start(&data);
    let at = broker.bootstrap();
    // A batch each.
    for line in ["first one", "second one", "third one", "fourth one"] {
        ok(&["produce", "t", "--bootstrap", &at], &format!("{line}\n"));
    }
    let group = ["consume", "t", "--from-beginning", "-e", "--group"];
    ok(&[&group[..], &["early", "-n", "1", "--bootstrap", &at]].concat(), "");
    assert!(broker.stop().0.success());
    rot(&data, "second one");

    let folder = data.to_str().unwrap();
    let shown = ok(&["inspect", folder, "--show", "damage", "--json"], "");
    let shown: Vec<serde_json::Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!((&shown[0]["base_offset"], &shown[0]["intact"]), (&1.into(), &false.into()));

    let broker = Broker::start(&data);
    let (at, http) = (broker.bootstrap(), broker.http.to_string());
    assert_eq!(ok(&["topic", "damage", "--metrics", &http, "--json"], ""), "[]\n", "nobody has met it yet");
    // All before it comes, then its name and what to do.
    let (code, text, error) = fails(&["consume", "t", "--from-beginning", "-e", "--bootstrap", &at]);
    assert_eq!((code, text.as_str()), (1, "first one\n"), "{error}");
    assert!(error.contains("CORRUPT_MESSAGE") && error.contains("`barelog topic damage`"), "{error}");
    let (code, _, error) = fails(&[&group[..], &["early", "--bootstrap", &at]].concat());
    assert!(code == 1 && error.contains("CORRUPT_MESSAGE"), "{error}");
    let log = broker.log_text();
    assert_eq!(log.matches("records of t-0 from offset 1 on are damaged").count(), 1, "{log}");
    let listed: serde_json::Value =
        serde_json::from_str(&ok(&["topic", "damage", "t", "--metrics", &http, "--json"], "")).unwrap();
    assert_eq!(listed, serde_json::json!([{"topic": "t", "partition": 0, "first": 1, "next": 2}]));
    assert!(ok(&["topic", "damage", "--metrics", &http], "").contains("NEXT"));
    assert_eq!(ok(&["topic", "damage", "other", "--metrics", &http, "--json"], ""), "[]\n");

    // One reader, one group, all of them.
    assert_eq!(ok(&["consume", "t", "--offset", "2", "-e", "--bootstrap", &at], ""), "third one\nfourth one\n");
    ok(&["group", "reset-offsets", "early", "-t", "t:0", "--to-offset", "2", "--bootstrap", &at], "");
    assert_eq!(ok(&[&group[..], &["early", "--bootstrap", &at]].concat(), ""), "third one\nfourth one\n");
    ok(&["topic", "alter", "t", "--delete-before", "0:2", "--bootstrap", &at], "");
    assert_eq!(ok(&[&group[..], &["late", "--bootstrap", &at]].concat(), ""), "third one\nfourth one\n");
    assert_eq!(ok(&["topic", "damage", "--metrics", &http, "--json"], ""), "[]\n");
    assert!(broker.stop().0.success());
}

#[test]
fn asking_for_damage_where_nobody_serves_says_how_to_ask() {
    let (code, _, error) = fails(&["topic", "damage", "--metrics", &common::free_address().to_string()]);
    assert!(code == 1 && error.contains("/damage") && error.contains("--metrics"), "{error}");
}

#[test]
fn a_checkpoint_that_is_of_no_use_is_told_of_once_and_costs_no_data() {
    let dir = folder();
    let data = dir.path().join("data");
    let broker = Broker::start(&data);
    ok(&["produce", "t", "--bootstrap", &broker.bootstrap()], "one\ntwo\n");
    assert!(broker.stop().0.success());
    let folder = data.join("meta/checkpoints");
    let files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    for (why, unreadable) in [("it cannot be read", true), ("not even its beginning is intact", false)] {
        for file in &files {
            let _ = std::fs::remove_file(file);
            if unreadable {
                std::fs::create_dir(file).unwrap();
            } else {
                let _ = std::fs::remove_dir(file);
                std::fs::write(file, "nonsense").unwrap();
            }
        }
        let broker = Broker::start(&data);
        let log = broker.log_text();
        assert_eq!(log.matches(why).count(), files.len(), "{log}");
        let read = ok(&["consume", "t", "--from-beginning", "-e", "--bootstrap", &broker.bootstrap()], "");
        assert_eq!(read, "one\ntwo\n");
        broker.kill();
    }
}
