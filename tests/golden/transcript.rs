//! What was asked and answered, and the committed files that hold it: one file for each API, requests and responses as they went
//! over the wire in hexadecimal digits (without the length bytes), and one with the names of what a broker draws at random.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::codec::{hex, unhex};

/// One request and what came of it.
pub(crate) struct Exchange {
    /// Name of the API as the files have it.
    pub(crate) api: String,
    pub(crate) version: i16,
    /// Says what is asked; with API and version it names the exchange.
    pub(crate) case: String,
    pub(crate) request: Vec<u8>,
    pub(crate) response: Response,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    Answer(Vec<u8>),
    /// The broker closed the connection.
    Closed,
    /// Nothing is to come (acks=0).
    Nothing,
}

/// What a broker drew at random, and what this scenario calls it: field, value, name.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<(String, String), String>);

#[derive(Default)]
pub(crate) struct Transcript {
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) names: Names,
}

impl Names {
    /// `kind` is the name of the field that it stands in.
    pub(crate) fn learn(&mut self, kind: &str, name: &str, value: &Value) {
        // An answer that refuses has none.
        if value != "" && (value != 0 || kind != "session_id") {
            self.0.insert((kind.into(), value.to_string()), name.into());
        }
    }

    pub(crate) fn name(&self, kind: &str, value: &Value) -> Option<&str> {
        self.0.get(&(kind.to_string(), value.to_string())).map(String::as_str)
    }

    pub(crate) fn value(&self, kind: &str, name: &str) -> Value {
        let found = self.0.iter().find(|((k, _), n)| k == kind && *n == name);
        let ((_, text), _) = found.unwrap_or_else(|| panic!("no {kind} is called {name}"));
        serde_json::from_str(text).unwrap()
    }
}

/// The folder of the recording.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kafka-4.4")
}

const HEAD: &str = "# A recording of Kafka 4.4.0. Written by `cargo xtask golden`; do not edit.\n";
const NAMES: &str = "names.txt";

impl Transcript {
    pub(crate) fn find(&self, api: &str, version: i16, case: &str) -> Option<&Exchange> {
        self.exchanges.iter().find(|e| e.api == api && e.version == version && e.case == case)
    }

    /// Replaces the recording.
    pub(crate) fn write(&self) {
        let mut files: BTreeMap<&str, String> = BTreeMap::new();
        for exchange in &self.exchanges {
            let file = files.entry(&exchange.api).or_insert_with(|| HEAD.into());
            let response = match &exchange.response {
                Response::Answer(bytes) => hex(bytes),
                Response::Closed => "closed".into(),
                Response::Nothing => "nothing".into(),
            };
            let (version, case) = (exchange.version, &exchange.case);
            let _ = writeln!(file, "v{version} {case}\n> {}\n< {response}", hex(&exchange.request));
        }
        let mut names: String = HEAD.into();
        for ((kind, value), name) in &self.names.0 {
            let _ = writeln!(names, "{kind}\t{value}\t{name}");
        }
        let _ = std::fs::remove_dir_all(folder());
        std::fs::create_dir_all(folder()).unwrap();
        std::fs::write(folder().join(NAMES), names).unwrap();
        for (api, text) in files {
            std::fs::write(folder().join(format!("{api}.txt")), text).unwrap();
        }
    }

    /// The recording that is committed.
    pub(crate) fn read() -> Self {
        let mut transcript = Self::default();
        let mut paths: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let text = std::fs::read_to_string(&path).unwrap();
            let api = path.file_stem().unwrap().to_str().unwrap();
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            if api == "names" {
                for line in lines {
                    let words: Vec<&str> = line.split('\t').collect();
                    transcript.names.0.insert((words[0].into(), words[1].into()), words[2].into());
                }
                continue;
            }
            transcript.exchanges.extend(lines.chunks_exact(3).map(|lines| parse(api, lines)));
        }
        transcript
    }
}

fn parse(api: &str, lines: &[&str]) -> Exchange {
    let (version, case) = lines[0].strip_prefix('v').unwrap().split_once(' ').unwrap();
    let response = match lines[2].strip_prefix("< ").unwrap() {
        "closed" => Response::Closed,
        "nothing" => Response::Nothing,
        digits => Response::Answer(unhex(digits)),
    };
    Exchange {
        api: api.into(),
        version: version.parse().unwrap(),
        case: case.into(),
        request: unhex(lines[1].strip_prefix("> ").unwrap()),
        response,
    }
}
