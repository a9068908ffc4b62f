//! Every API and version that Barelog serves, held against a recording of a real Kafka 4.4 (`cargo xtask golden`).
//!
//! The same scenario ([`scenario`]) is played to both. The recording must decode and encode byte for byte with Barelog's codec, and
//! Barelog's answers must agree with Kafka's field by field, but for what a broker draws at random and for the
//! differences that [`differences`] names with a reason.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod codec;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod differences;
mod document;
mod messages;
mod run;
mod scenario;
mod transcript;
mod traps;

use common::Broker;
use run::{Run, info, versions};
use transcript::{Response, Transcript};

/// Plays the scenario to the Kafka at `BARELOG_GOLDEN_KAFKA` and replaces the recording.
#[test]
#[ignore = "cargo xtask golden runs it beside a real Kafka"]
fn record() {
    let address = std::env::var("BARELOG_GOLDEN_KAFKA").expect("cargo xtask golden sets BARELOG_GOLDEN_KAFKA");
    let mut run = Run::new(address.parse().unwrap());
    scenario::play(&mut run);
    run.transcript.write();
}

#[test]
fn every_version_that_is_served_is_recorded_with_an_answer() {
    let recorded = Transcript::read();
    for api in protocol::api::APIS.iter().filter(|api| !differences::UNRECORDED.contains(&api.name)) {
        for version in versions(api.name) {
            let of_it = recorded.exchanges.iter().filter(|e| e.api == api.name && e.version == version);
            let answered = of_it.filter(|e| matches!(e.response, Response::Answer(_))).count();
            assert!(answered > 0, "{} v{version}: cargo xtask golden", api.name);
        }
    }
}

#[test]
fn recorded_bytes_decode_to_the_end_and_come_back() {
    for exchange in &Transcript::read().exchanges {
        let Some(api) = protocol::api::APIS.iter().find(|api| api.name == exchange.api) else { continue };
        if !api.serves(exchange.version) {
            continue;
        }
        messages::check(api, exchange);
    }
}

#[test]
fn barelog_answers_as_kafka_does() {
    let dir = common::folder();
    let broker = Broker::start(&dir.path().join("data"));
    let mut run = Run::new(broker.address);
    scenario::play(&mut run);
    compare::compare(&run, &Transcript::read());
}

#[test]
fn the_document_of_versions_is_current() {
    let text = document::text(&Transcript::read());
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/PROTOCOL.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    assert!(std::fs::read_to_string(path).unwrap_or_default() == text, "cargo xtask bless rewrites docs/PROTOCOL.md");
    assert_eq!(info("Produce").served_min, 3);
}

/// Cases whose bytes no decoder accepts.
fn is_malformed(case: &str) -> bool {
    ["a count beyond the end", "nothing at all", "cut off", "a byte too many"].contains(&case)
}
