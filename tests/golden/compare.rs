//! Two runs of the scenario held against each other, field by field.

use std::collections::BTreeSet;

use protocol::api::APIS;
use serde_json::{Value, json};

use super::codec::hex;
use super::differences::{DIFFERENCES, Difference};
use super::run::Run;
use super::transcript::{Exchange, Names, Response, Transcript};

/// What a broker draws at random: compared by the name that the scenario gave it.
const NAMED: &[&str] = &[
    "topic_id",
    "member_id",
    "leader",
    "producer_id",
    "session_id",
    "cluster_id",
    "leader_epoch",
    "current_leader_epoch",
    "partition_leader_epoch",
    "committed_leader_epoch",
    "last_fetched_epoch",
    "epoch",
];

/// What belongs to a machine or an instant, and is not compared where it is not negative and not null.
const OF_THE_MACHINE: &[&str] = &[
    "host",
    "port",
    "log_dir",
    "total_bytes",
    "usable_bytes",
    "partition_size",
    "log_append_time_ms",
    "last_timestamp",
];

/// Text for people; whether there is any is compared.
const TEXTS: &[&str] = &["error_message", "batch_index_error_message"];

/// Arrays whose order means nothing, and what tells their elements apart. Kafka takes them from hash tables.
const UNORDERED: &[(&str, &str, &[&str])] = &[
    ("Metadata", "topics", &["name", "topic_id"]),
    ("CreateTopics", "topics", &["name"]),
    ("CreateTopics", "configs", &["name"]),
    ("CreatePartitions", "results", &["name"]),
    ("DeleteTopics", "responses", &["name", "topic_id"]),
    ("DescribeConfigs", "configs", &["name"]),
    ("DescribeGroups", "members", &["member_id"]),
    ("JoinGroup", "members", &["member_id"]),
    ("ListGroups", "groups", &["group_id"]),
    ("OffsetFetch", "topics", &["name", "topic_id"]),
    ("OffsetFetch", "partitions", &["partition_index"]),
    ("DescribeProducers", "active_producers", &["producer_id"]),
    ("ApiVersions", "api_keys", &["api_key"]),
    ("Produce", "responses", &["name", "topic_id"]),
    ("Produce", "partition_responses", &["index"]),
    // In a session, partitions take turns.
    ("Fetch session", "responses", &["topic", "topic_id"]),
    ("Fetch session", "partitions", &["partition_index"]),
];

struct Found {
    path: String,
    kafka: Value,
    ours: Value,
}

/// Fails with every difference that [`DIFFERENCES`] does not explain, and with every row there that explains nothing.
pub(crate) fn compare(run: &Run, kafka: &Transcript) {
    let mut unexplained = Vec::new();
    let mut used = BTreeSet::new();
    let mut compared = 0;
    for ours in &run.transcript.exchanges {
        let label = format!("{} v{} {:?}", ours.api, ours.version, ours.case);
        let Some(theirs) = kafka.find(&ours.api, ours.version, &ours.case) else {
            unexplained.push(format!("{label}: not recorded; cargo xtask golden"));
            continue;
        };
        let asked = [(theirs, &kafka.names), (ours, &run.transcript.names)].map(|(e, names)| request(run, e, names));
        if asked[0] != asked[1] {
            unexplained.push(format!(
                "{label}: another request was recorded; cargo xtask golden\n  {} | {}",
                asked[0], asked[1]
            ));
            continue;
        }
        compared += 1;
        let told = [(theirs, &kafka.names), (ours, &run.transcript.names)].map(|(e, names)| response(run, e, names));
        let mut found = Vec::new();
        diff("", &told[0], &told[1], &mut found);
        for found in found {
            match DIFFERENCES.iter().position(|difference| explains(difference, ours, &found)) {
                Some(at) => {
                    used.insert(at);
                }
                None => {
                    unexplained.push(format!("{label}: {}: Kafka {}, Barelog {}", found.path, found.kafka, found.ours))
                }
            }
        }
    }
    for (at, difference) in DIFFERENCES.iter().enumerate() {
        if !used.contains(&at) {
            unexplained.push(format!("no difference needs this any more: {difference:?}"));
        }
    }
    let unplayed = kafka.exchanges.iter().filter(|e| run.transcript.find(&e.api, e.version, &e.case).is_none());
    unexplained.extend(unplayed.map(|e| format!("{} v{} {:?} is recorded and not played", e.api, e.version, e.case)));
    assert!(unexplained.is_empty(), "{} of {compared}:\n{}", unexplained.len(), unexplained.join("\n"));
}

fn explains(difference: &Difference, exchange: &Exchange, found: &Found) -> bool {
    matches(difference.api, &exchange.api)
        && difference.versions.contains(&exchange.version)
        && matches(difference.case, &exchange.case)
        && matches(difference.field, &found.path)
        && matches(difference.kafka, &found.kafka.to_string())
        && matches(difference.ours, &found.ours.to_string())
}

/// `*` stands for any text, `|` between alternatives.
fn matches(pattern: &str, text: &str) -> bool {
    pattern.split('|').any(|pattern| {
        let mut parts = pattern.split('*');
        let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
        let parts: Vec<&str> = parts.collect();
        let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
        for part in middle {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    })
}

fn request(run: &Run, exchange: &Exchange, names: &Names) -> Value {
    let api = APIS.iter().find(|api| api.name == exchange.api && api.serves(exchange.version));
    match api.map(|api| run.decode_request(api, exchange.version, &exchange.request)) {
        Some(Ok(body)) => plain(&kind_of(exchange), "", &body, names),
        // Without its correlation id.
        _ => json!([hex(&exchange.request[..4]), hex(&exchange.request[8..])]),
    }
}

fn response(run: &Run, exchange: &Exchange, names: &Names) -> Value {
    let bytes = match &exchange.response {
        Response::Answer(bytes) => bytes,
        other => return json!(format!("{other:?}")),
    };
    let api = APIS.iter().find(|api| api.name == exchange.api && api.serves(exchange.version));
    match api.map(|api| run.decode_response(api, exchange.version, bytes)) {
        Some(Ok(body)) => plain(&kind_of(exchange), "", &body, names),
        _ => json!(hex(&bytes[4..])),
    }
}

fn kind_of(exchange: &Exchange) -> String {
    let session = if exchange.case.starts_with("session:") { " session" } else { "" };
    format!("{}{session}", exchange.api)
}

/// The message without what differs between two runs.
fn plain(api: &str, field: &str, value: &Value, names: &Names) -> Value {
    match value {
        Value::Object(object) => {
            let mut object = object.clone();
            // The broker's stamp is an instant, and the CRC covers it.
            if object.get("attributes").and_then(Value::as_i64).is_some_and(|bits| bits & 8 != 0) {
                object["crc"] = json!("of the instant");
                object["max_timestamp"] = json!("the instant");
            }
            // The CRC covers the producer's id.
            if object.get("crc").is_some() && object["producer_id"] != -1 {
                object["crc"] = json!("of the producer");
            }
            let fields = object.iter().map(|(name, value)| (name.clone(), plain(api, name, value, names)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => {
            let items: Vec<Value> = items.iter().map(|item| plain(api, field, item, names)).collect();
            match UNORDERED.iter().find(|(of, array, _)| *of == api && *array == field) {
                Some((.., by)) => keyed(items, by),
                None => Value::Array(items),
            }
        }
        leaf if leaf.is_null() || leaf.as_i64().is_some_and(|n| n < 0) => leaf.clone(),
        leaf if NAMED.contains(&field) => {
            names.name(kind(field), leaf).map_or_else(|| leaf.clone(), |name| json!(format!("<{name}>")))
        }
        _ if OF_THE_MACHINE.contains(&field) => json!("of the machine"),
        leaf if TEXTS.contains(&field) && leaf != "" => json!("a text"),
        leaf => leaf.clone(),
    }
}

/// An array as a structure, by what tells its elements apart; those that are alike are counted.
fn keyed(items: Vec<Value>, by: &[&str]) -> Value {
    let mut object = serde_json::Map::new();
    for item in items {
        let name = by.iter().find_map(|field| item.get(field).filter(|value| !value.is_null()));
        let name = name.map(|value| value.as_str().map_or_else(|| value.to_string(), Into::into)).unwrap_or_default();
        let times = (1..).find(|n| !object.contains_key(&key(&name, *n))).unwrap_or_default();
        object.insert(key(&name, times), item);
    }
    Value::Object(object)
}

fn key(name: &str, times: u32) -> String {
    if times == 1 { format!("[{name}]") } else { format!("[{name}]{times}") }
}

/// Under which field's name the scenario learned what stands in this one.
fn kind(field: &str) -> &str {
    match field {
        "leader" => "member_id",
        "current_leader_epoch"
        | "partition_leader_epoch"
        | "committed_leader_epoch"
        | "last_fetched_epoch"
        | "epoch" => "leader_epoch",
        other => other,
    }
}

fn diff(path: &str, kafka: &Value, ours: &Value, found: &mut Vec<Found>) {
    match (kafka, ours) {
        (Value::Object(theirs), Value::Object(mine)) => {
            let keys: BTreeSet<&String> = theirs.keys().chain(mine.keys()).collect();
            for key in keys {
                let path = match key.strip_prefix('[') {
                    Some(_) => format!("{path}{key}"),
                    None if path.is_empty() => key.clone(),
                    None => format!("{path}.{key}"),
                };
                let absent = json!("absent");
                diff(&path, theirs.get(key).unwrap_or(&absent), mine.get(key).unwrap_or(&absent), found);
            }
        }
        (Value::Array(theirs), Value::Array(mine)) => {
            if theirs.len() != mine.len() {
                let path = format!("{path}.len");
                found.push(Found { path, kafka: json!(theirs.len()), ours: json!(mine.len()) });
            }
            for (i, (kafka, ours)) in theirs.iter().zip(mine).enumerate() {
                diff(&format!("{path}[{i}]"), kafka, ours, found);
            }
        }
        _ if kafka == ours => {}
        _ => found.push(Found { path: path.into(), kafka: kafka.clone(), ours: ours.clone() }),
    }
}

#[test]
fn patterns_match_whole_texts() {
    for (pattern, text) in [("*", ""), ("a*c", "abc"), ("a|b", "b"), ("*.len", "topics.len"), ("x[*].y", "x[12].y")] {
        assert!(matches(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in [("a", "ab"), ("a*c", "abd"), ("a|b", "c"), ("", "x"), ("a*b*a", "aba b")] {
        assert!(!matches(pattern, text), "{pattern} {text}");
    }
}

#[test]
fn a_field_a_length_and_a_null_are_differences() {
    let mut found = Vec::new();
    let kafka = json!({"a": [{"b": 1}, {"b": 2}], "c": null, "d": "x"});
    diff("", &kafka, &json!({"a": [{"b": 3}], "c": "", "d": "x", "e": 0}), &mut found);
    let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
    assert_eq!(paths, ["a.len", "a[0].b", "c", "e"]);
}
