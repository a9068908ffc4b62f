//! docs/PROTOCOL.md, from the table of served APIs, the recording and the table of differences.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use protocol::api::{APIS, Api};
use protocol::messages::{ApiVersionsResponse, Message as _};

use super::differences::{DIFFERENCES, UNRECORDED};
use super::transcript::{Response, Transcript};
use super::traps::{SCENARIOS, TRAPS};

/// What Kafka 4.4 offers and Barelog does not: keys, names, why.
const ABSENT: &[(&[i16], &str, &str)] = &[
    (&[17, 36], "SaslHandshake, SaslAuthenticate", "there is no authentication yet"),
    (
        &[24, 25, 26, 28],
        "AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit",
        "there are no transactions yet",
    ),
    (&[27], "WriteTxnMarkers", "brokers among themselves"),
    (&[34], "AlterReplicaLogDirs", "a broker's devices are one journal"),
    (&[38, 39, 40, 41], "Create-, Renew-, Expire-, DescribeDelegationToken", "there is no authentication yet"),
    (&[43], "ElectLeaders", "one node leads everything"),
    (&[45, 46], "AlterPartitionReassignments, ListPartitionReassignments", "one node holds everything"),
    (&[48, 49], "DescribeClientQuotas, AlterClientQuotas", "there are no quotas yet"),
    (&[50, 51], "DescribeUserScramCredentials, AlterUserScramCredentials", "there is no authentication yet"),
    (&[55], "DescribeQuorum", "there is no quorum: one node"),
    (&[57], "UpdateFeatures", "no feature has levels"),
    (&[64], "UnregisterBroker", "one node"),
    (&[65, 66], "DescribeTransactions, ListTransactions", "there are no transactions yet"),
    (&[71, 72], "GetTelemetrySubscriptions, PushTelemetry", "clients' metrics are not gathered"),
    (&[74], "ListConfigResources", "groups and clients' metrics have no settings"),
    (&[76, 77, 78, 79, 90, 91, 92], "the APIs of share groups", "there are no share groups yet"),
    (&[80, 81], "AddRaftVoter, RemoveRaftVoter", "there is no quorum: one node"),
    (&[83, 84, 85, 86, 87], "the state of share groups", "brokers among themselves"),
    (&[88, 89, 93, 94, 95], "the APIs of streams groups", "there are no streams groups yet"),
];

const HEAD: &str = "\
# The protocol

<!-- Generated from protocol/src/api.rs, tests/golden/differences.rs and the recording in tests/golden/kafka-4.4;
     `cargo xtask bless` rewrites it. -->

Barelog offers what it serves, and what it serves it answers as Kafka 4.4 does. `cargo xtask golden` plays a scenario to a real
Kafka 4.4.0 (every API and version below, ordinary requests and the usual mistakes) and keeps requests and answers byte for byte in
`tests/golden/kafka-4.4`. A test decodes and encodes each of them with Barelog's codec, plays the same scenario to Barelog, and
compares the answers field by field. Ids and the like are compared by what they name, and so is the first leader epoch of a
partition, which is 0 in Kafka and 1 in Barelog; host, port, directories, sizes on disk, instants and the wording of messages are
not compared.

";

/// The page.
pub(crate) fn text(kafka: &Transcript) -> String {
    let theirs = ranges(kafka);
    let mut out = String::from(HEAD);
    out.push_str("## Versions\n\n| key | API | Barelog | Kafka 4.4 | |\n|---:|---|---|---|---|\n");
    for api in APIS {
        let (key, name) = (api.key as i16, api.name);
        let of_kafka = theirs.iter().find(|(k, ..)| *k == key).map(|(_, min, max)| (*min, *max));
        let shown = of_kafka.map_or("not offered".into(), |(min, max)| format!("{min}–{max}"));
        let _ = writeln!(out, "| {key} | {name} | {}–{} | {shown} | {} |", api.min, api.max, remark(api, of_kafka));
    }
    out.push_str("\n## What Kafka 4.4 offers and Barelog does not\n\n| keys | APIs | why |\n|---|---|---|\n");
    let missing: BTreeSet<i16> = theirs.iter().map(|(key, ..)| *key).filter(|key| is_absent(*key)).collect();
    for (keys, names, why) in ABSENT {
        let offered: Vec<String> = keys.iter().filter(|key| missing.contains(key)).map(i16::to_string).collect();
        if !offered.is_empty() {
            let _ = writeln!(out, "| {} | {names} | {why} |", offered.join(", "));
        }
    }
    let named: BTreeSet<i16> = ABSENT.iter().flat_map(|(keys, ..)| keys.iter().copied()).collect();
    let unnamed: Vec<&i16> = missing.difference(&named).collect();
    assert!(unnamed.is_empty(), "ABSENT lacks a reason for {unnamed:?}");
    let cases = kafka.exchanges.len();
    let _ = writeln!(
        out,
        "\n## Differences on purpose\n\nOf {cases} recorded exchanges, these fields differ. Whatever else differs fails the test.\n"
    );
    out.push_str("| API | case | field | Kafka | Barelog | why |\n|---|---|---|---|---|---|\n");
    for difference in DIFFERENCES {
        let code = |text: &str| format!("`{}`", text.replace('|', "` or `"));
        let api = if difference.api == "*" { "any".into() } else { difference.api.replace('|', ", ") };
        let case = if difference.case == "*" { "any".into() } else { difference.case.replace('|', "; ") };
        let (field, theirs, ours) = (code(difference.field), code(difference.kafka), code(difference.ours));
        let _ = writeln!(out, "| {api} | {case} | {field} | {theirs} | {ours} | {} |", difference.why);
    }
    out.push_str("\n## What clients trip over\n\nWhat brokers have got wrong before, and the tests that show how it is here.\n\n");
    tests(&mut out, TRAPS);
    out.push_str("\n## What users have hit\n\nScenarios of one node; what several nodes bring has no tests yet.\n\n");
    tests(&mut out, SCENARIOS);
    out
}

fn tests(out: &mut String, rows: &[(&str, &[&str])]) {
    out.push_str("| | tests |\n|---|---|\n");
    for (what, tests) in rows {
        let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
        let _ = writeln!(out, "| {what} | {} |", tests.join(", "));
    }
}

fn is_absent(key: i16) -> bool {
    APIS.iter().all(|api| api.key as i16 != key)
}

/// Key and versions of what Kafka offered.
fn ranges(kafka: &Transcript) -> Vec<(i16, i16, i16)> {
    let exchange = kafka.find("ApiVersions", 4, "normal").expect("ApiVersions v4 is recorded");
    let Response::Answer(bytes) = &exchange.response else { panic!("ApiVersions v4 is not answered") };
    // Header v0: the correlation id.
    let answer = ApiVersionsResponse::parse(&bytes[4..], 4).unwrap();
    answer.api_keys.iter().map(|api| (api.api_key, api.min_version, api.max_version)).collect()
}

fn remark(api: &Api, kafka: Option<(i16, i16)>) -> String {
    let mut remarks = Vec::new();
    if UNRECORDED.contains(&api.name) {
        remarks.push("not in the recording yet".into());
    }
    if api.served_min > api.min {
        remarks.push(format!("{}–{} are offered for old clients and refused by name", api.min, api.served_min - 1));
    }
    if let Some((min, max)) = kafka {
        if api.min > min {
            remarks.push(format!("below {}: missing", api.min));
        }
        if api.max < max {
            remarks.push(format!("above {}: missing", api.max));
        }
        if api.max > max || api.min < min {
            remarks.push("more than Kafka".into());
        }
    }
    remarks.join("; ")
}
