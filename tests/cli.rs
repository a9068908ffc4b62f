//! The commands as users type them, against the real binary.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
/// The client's own suite, run below against this broker: see `the_client_suite_passes`.
#[path = "../client/tests/broker.rs"]
mod suite;

use common::{Broker, binary, folder};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

struct Cli {
    bootstrap: String,
}

impl Cli {
    fn run(&self, args: &[&str], input: &str) -> Output {
        let mut child = Command::new(binary())
            .args(args)
            .args(["--bootstrap", &self.bootstrap])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that reads no input may end before it gets any.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Standard output of a command that succeeds.
    fn ok(&self, args: &[&str], input: &str) -> String {
        let output = self.run(args, input);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit status and standard error of a command that fails.
    fn fails(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args, "");
        assert!(!output.status.success(), "{args:?} succeeds");
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(args, "")).unwrap()
    }
}

#[test]
fn records_with_keys_and_headers_go_in_and_out_as_text_and_json() {
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    let cli = Cli { bootstrap: broker.bootstrap() };
    cli.ok(&["produce", "lines", "-K", ":", "-H", "from=test"], "k:v\nno key\n:empty key\n");
    let text = cli.ok(&["consume", "lines", "--from-beginning", "--exit-eof", "-K", "|", "-H"], "");
    assert_eq!(text, "from=test\tk|v\nfrom=test\t|no key\nfrom=test\t|empty key\n");

    let lines = cli.ok(&["consume", "lines", "--from-beginning", "--exit-eof", "--json"], "");
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&first["key"], &first["value"], &first["headers"]["from"]), (&"k".into(), &"v".into(), &"test".into()));
    assert_eq!((&first["offset"], &first["topic"]), (&0.into(), &"lines".into()));

    // What is consumed as JSON can be produced: bytes that are no text, null values and repeated headers included.
    let exact = "{\"key\":{\"base64\":\"/w==\"},\"value\":null,\"headers\":[[\"h\",\"1\"],[\"h\",null]]}\n";
    cli.ok(&["produce", "copy", "--format", "json", "--compression", "zstd"], exact);
    let copied = cli.ok(&["consume", "copy", "--from-beginning", "-e", "--json"], "");
    cli.ok(&["produce", "copy", "--format", "json"], &copied);
    let both = cli.ok(&["consume", "copy", "--from-beginning", "-e", "--json"], "");
    let both: Vec<serde_json::Value> = both.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(both.len(), 2);
    for field in ["key", "value", "headers", "timestamp"] {
        assert_eq!(both[0][field], both[1][field], "{field}");
    }
    assert_eq!(both[0]["key"]["base64"], "/w==");

    assert_eq!(cli.ok(&["consume", "lines", "--offset", "-1", "-e"], ""), "empty key\n");
    assert_eq!(cli.ok(&["consume", "lines", "--from-beginning", "-n", "1"], ""), "v\n");
    assert_eq!(cli.ok(&["consume", "lines", "-e"], ""), "", "only new records");
    let (code, error) = cli.fails(&["consume", "missing", "-e"]);
    assert_eq!(code, 1);
    assert!(error.contains("topic missing does not exist"), "{error}");
    let bad = cli.run(&["produce", "copy", "--format", "json"], "{}\nnonsense\n");
    assert_eq!(bad.status.code(), Some(1));
    let error = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(error.contains("after 1 sent to copy: line 2: not JSON"), "{error}");
    assert_eq!(
        cli.ok(&["consume", "copy", "--from-beginning", "-e"], "").lines().count(),
        3,
        "what came before is sent"
    );
}

#[test]
fn topics_and_groups_are_administered() {
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    let cli = Cli { bootstrap: broker.bootstrap() };
    cli.ok(&["topic", "create", "t", "-p", "2", "--config", "retention.ms=86400000"], "");
    let (code, error) = cli.fails(&["topic", "create", "t"]);
    assert!(code == 1 && error.contains("TOPIC_ALREADY_EXISTS"), "{error}");
    cli.ok(&["topic", "create", "t", "--if-not-exists"], "");
    cli.ok(&["topic", "alter", "t", "--partitions", "3", "--unset", "retention.ms"], "");
    let described = cli.json(&["topic", "describe", "t", "--json"]);
    assert_eq!(described[0]["partitions"].as_array().unwrap().len(), 3);
    assert_eq!(described[0]["configs"], serde_json::json!([]));
    assert!(cli.json(&["topic", "list", "--json"]).to_string().contains("\"t\""));
    let (code, error) = cli.fails(&["topic", "alter", "t", "--config", "cleanup.policy=compact"]);
    assert!(code == 1 && error.contains("INVALID_CONFIG"), "{error}");

    cli.ok(&["produce", "t", "-p", "1"], "a\nb\nc\nd\n");
    let consume = ["consume", "t", "--group", "g", "--from-beginning"];
    assert_eq!(cli.ok(&[&consume[..], &["-n", "3"]].concat(), ""), "a\nb\nc\n");
    assert_eq!(cli.ok(&[&consume[..], &["-e"]].concat(), ""), "d\n", "the group resumes");
    let group = &cli.json(&["group", "describe", "g", "--json"])[0];
    assert_eq!(group["state"], "Empty");
    let row = group["offsets"].as_array().unwrap().iter().find(|row| row["partition"] == 1).unwrap();
    assert_eq!((&row["offset"], &row["lag"]), (&4.into(), &0.into()));
    let would = cli.json(&["group", "reset-offsets", "g", "-t", "t:1", "--shift", "-2", "--dry-run", "--json"]);
    assert_eq!((&would[0]["from"], &would[0]["to"]), (&4.into(), &2.into()));
    assert_eq!(cli.ok(&[&consume[..], &["-e"]].concat(), ""), "", "a dry run changes nothing");
    cli.ok(&["group", "reset-offsets", "g", "-t", "t:1", "--shift", "-2"], "");
    assert_eq!(cli.ok(&[&consume[..], &["-e"]].concat(), ""), "c\nd\n");
    assert!(cli.ok(&["group", "list"], "").contains('g'));
    cli.ok(&["group", "delete", "g"], "");
    let (code, error) = cli.fails(&["group", "describe", "g"]);
    assert!(code == 1 && error.contains("GROUP_ID_NOT_FOUND"), "{error}");

    cli.ok(&["topic", "alter", "t", "--delete-before", "1:3"], "");
    assert_eq!(cli.ok(&["consume", "t", "--from-beginning", "-e"], ""), "d\n");
    cli.ok(&["topic", "delete", "t"], "");
    let (code, error) = cli.fails(&["topic", "delete", "t"]);
    assert!(code == 1 && error.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{error}");
    cli.ok(&["topic", "delete", "t", "--if-exists"], "");
}

#[test]
fn without_a_broker_the_error_says_what_to_do() {
    let cli = Cli { bootstrap: common::free_address().to_string() };
    let (code, error) = cli.fails(&["topic", "list"]);
    assert_eq!(code, 1);
    assert!(error.starts_with(&format!("barelog: cannot reach {}: ", cli.bootstrap)), "{error}");
    assert!(error.contains("`barelog dev` starts one"), "{error}");
    let nonsense = Cli { bootstrap: "nonsense".to_owned() };
    assert_eq!(nonsense.fails(&["topic", "list"]).0, 2, "a usage error");
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = Command::new(binary()).args(["completions", shell]).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("reset-offsets"), "{shell}");
    }
}

#[test]
fn the_demo_verifies_every_record_and_cleans_up() {
    let dir = folder();
    let data = dir.path().join("data");
    let file = dir.path().join("result.json");
    let demo = |args: &[&str]| {
        let address = common::free_address().to_string();
        Command::new(binary())
            .args(["demo", "--once", "--listen", &address, "--data-dir"])
            .arg(&data)
            .args(args)
            .output()
            .unwrap()
    };
    let output = demo(&["--messages", "5000", "--size", "100", "--json", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("verified  content and order of all 5,000 records in both groups"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!((&json["verified"], &json["messages"], &json["topic"]), (&true.into(), &5000.into(), &"demo".into()));
    assert!(json["broker"]["records_per_write"].as_f64().unwrap() > 1.0, "{json}");
    // The same directory again: what is there stays, the new records go to a topic of their own.
    let output = demo(&["--messages", "10", "--size", "3", "--json", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(json["topic"], "demo-2");
    assert!(demo(&["--messages", "0"]).status.success());
    let output = demo(&["--size", "20M", "--messages", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("max.message.bytes"));
    assert_eq!(demo(&["--partitions", "0"]).status.code(), Some(2));
}

#[test]
fn the_client_suite_passes() {
    let dir = folder();
    let broker = Broker::start(&dir.path().join("data"));
    // This same program, told to run the suite's tests and where the broker is.
    let output = Command::new(std::env::current_exe().unwrap())
        .arg("suite::")
        .env("BARELOG_TEST_BOOTSTRAP", broker.bootstrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(" 0 failed") && !text.contains("running 0 tests"), "{text}");
    let (_, took) = broker.stop();
    assert!(took < Duration::from_secs(10));
}
