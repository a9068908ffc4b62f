//! What is asked, in which order. The same code asks Kafka when it is recorded and Barelog in the test.
//!
//! Every version of an API gets the same cases; fields that a version does not have are left out. A new API gets a function here.

mod cluster;
mod configs;
mod groups;
mod records;
mod topics;

use std::time::{Duration, Instant};

use base::Checksums;
use protocol::batch::{BatchBuilder, Producer};
use serde_json::{Value, json};

use super::codec::hex;
use super::run::Run;

/// The name of a topic that is nowhere.
const NOWHERE: &str = "nowhere";
/// An id that no topic has.
const NO_ID: &str = "00000000000000070000000000000007";
const ZERO_ID: &str = "00000000000000000000000000000000";
/// When the records were made, ms since 1970; their topics keep records for ever.
const MADE: i64 = 1_700_000_000_000;

pub(crate) fn play(run: &mut Run) {
    cluster::before_topics(run);
    topics::create(run);
    learn_the_first_epoch(run);
    topics::metadata(run);
    topics::describe(run);
    records::init_producer_id(run);
    records::produce(run);
    records::produce_refused(run);
    records::idempotence(run);
    records::fetch(run);
    records::fetch_sessions(run);
    records::list_offsets(run);
    records::leader_epochs(run);
    records::describe_producers(run);
    groups::coordinators(run);
    groups::refused(run);
    groups::lives(run);
    groups::static_members(run);
    groups::offsets(run);
    configs::describe(run);
    configs::alter(run);
    configs::alter_incrementally(run);
    cluster::log_dirs(run);
    cluster::acls(run);
    records::delete_records(run);
    topics::create_partitions(run);
    topics::delete(run);
    cluster::unsupported(run);
}

/// The epoch in which every partition begins: Kafka's is 0, Barelog's 1.
fn learn_the_first_epoch(run: &mut Run) {
    let request = json!({"topics": [{"topic_id": ZERO_ID, "name": "orders"}], "allow_auto_topic_creation": false,
        "include_topic_authorized_operations": false});
    let answer = run.peek("Metadata", 12, &request);
    run.learn("leader_epoch", "the first epoch", &answer["topics"][0]["partitions"][0]["leader_epoch"]);
}

/// Waits, off the record, until the broker itself shows what it acknowledged for the cluster.
fn settle(run: &mut Run, topic: &str, seen: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let request = json!({"topics": [{"topic_id": ZERO_ID, "name": topic}],
            "allow_auto_topic_creation": false, "include_topic_authorized_operations": false});
        let answer = run.peek("Metadata", 12, &request);
        if seen(&answer["topics"][0]) {
            // What a broker of an old version did not tell.
            let id = &answer["topics"][0]["topic_id"];
            if run.transcript.names.name("topic_id", id).is_none() && *id != ZERO_ID {
                run.learn("topic_id", topic, id);
            }
            return;
        }
        assert!(Instant::now() < deadline, "{topic} does not settle");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn settle_partitions(run: &mut Run, topic: &str, count: usize) {
    settle(run, topic, |seen| {
        let partitions = seen["partitions"].as_array();
        partitions.is_some_and(|all| all.len() == count && all.iter().all(|p| p["leader_id"] == 1))
    });
    // Kafka's replicas follow its metadata a moment later.
    let partitions: Vec<Value> = (0..count)
        .map(|index| json!({"partition_index": index, "current_leader_epoch": -1, "timestamp": -1}))
        .collect();
    let request =
        json!({"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": partitions}]});
    while run.peek("ListOffsets", 7, &request)["topics"][0]["partitions"]
        .as_array()
        .is_none_or(|all| all.iter().any(|p| p["error_code"] != 0))
    {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn settle_gone(run: &mut Run, topic: &str) {
    settle(run, topic, |seen| seen["error_code"] == 3);
}

/// A topic for the scenario itself, off the record; its id is learned.
fn topic(run: &mut Run, name: &str, partitions: usize, configs: &[(&str, &str)]) {
    topic_again(run, name, name, partitions, configs);
}

/// The same where the name was in use before: `called` tells the new id from the old.
fn topic_again(run: &mut Run, name: &str, called: &str, partitions: usize, configs: &[(&str, &str)]) {
    let configs: Vec<Value> = configs.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    let answer = run.peek(
        "CreateTopics",
        7,
        &json!({"topics": [{"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [],
            "configs": configs}], "timeout_ms": 30_000, "validate_only": false}),
    );
    assert_eq!(answer["topics"][0]["error_code"], 0, "{answer}");
    run.learn("topic_id", called, &answer["topics"][0]["topic_id"]);
    settle_partitions(run, name, partitions);
}

/// Records of a batch: `value` has the time [`MADE`] and a key, each further one is ten milliseconds later.
fn batch(values: &[&str], producer: Producer) -> Vec<u8> {
    batch_at(MADE, values, producer)
}

fn batch_at(made: i64, values: &[&str], producer: Producer) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for (value, made) in values.iter().zip((made..).step_by(10)) {
        builder.append(made, Some(b"key"), Some(value.as_bytes()), &[]);
    }
    builder.finish(producer, &Checksums::portable()).to_vec()
}

fn text(bytes: &[u8]) -> Value {
    json!(format!("0x{}", hex(bytes)))
}
