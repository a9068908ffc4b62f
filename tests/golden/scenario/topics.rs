//! Topics and partitions: made, shown, enlarged, deleted.

use serde_json::{Value, json};

use super::{NO_ID, NOWHERE, ZERO_ID, settle_gone, settle_partitions, topic, topic_again};
use crate::run::{Run, version, versions};

fn creation(name: &str, partitions: i32, replicas: i16) -> Value {
    json!({"name": name, "num_partitions": partitions, "replication_factor": replicas, "assignments": [], "configs": []})
}

fn request(topics: &[Value], validate_only: bool) -> Value {
    json!({"topics": topics, "timeout_ms": 30_000, "validate_only": validate_only})
}

pub(super) fn create(run: &mut Run) {
    topic(run, "orders", 3, &[("retention.ms", "-1")]);
    topic(run, "small", 1, &[("max.message.bytes", "1000"), ("retention.ms", "-1")]);
    topic(run, "stamped", 1, &[("message.timestamp.type", "LogAppendTime")]);
    topic(run, "timely", 1, &[("message.timestamp.before.max.ms", "1000")]);
    topic(run, "producers", 2, &[("retention.ms", "-1")]);
    for v in versions("CreateTopics") {
        let name = format!("made-{v}");
        let mut made = creation(&name, 2, 1);
        made["configs"] =
            json!([{"name": "retention.ms", "value": "3600000"}, {"name": "max.message.bytes", "value": "2000"}]);
        run.ask("CreateTopics", v, "only validated", request(&[made.clone()], true));
        let answer = run.ask("CreateTopics", v, "with settings", request(&[made], false));
        if v >= 7 {
            run.learn("topic_id", &name, &answer["topics"][0]["topic_id"]);
        }
        settle_partitions(run, &name, 2);
        run.ask("CreateTopics", v, "there already", request(&[creation("orders", 1, 1)], false));
        let assigned = format!("assigned-{v}");
        let mut placed = creation(&assigned, -1, -1);
        placed["assignments"] =
            json!([{"partition_index": 0, "broker_ids": [1]}, {"partition_index": 1, "broker_ids": [1]}]);
        let answer = run.ask("CreateTopics", v, "placed by hand", request(&[placed], false));
        if v >= 7 {
            run.learn("topic_id", &assigned, &answer["topics"][0]["topic_id"]);
        }
        settle_partitions(run, &assigned, 2);
        if v >= 4 {
            let name = format!("default-{v}");
            let answer = run.ask("CreateTopics", v, "defaults", request(&[creation(&name, -1, -1)], false));
            if v >= 7 {
                run.learn("topic_id", &name, &answer["topics"][0]["topic_id"]);
            }
            settle_partitions(run, &name, 1);
        }
        create_refused(run, v);
    }
}

fn create_refused(run: &mut Run, v: i16) {
    let mut one = |case: &str, topic: Value| run.ask("CreateTopics", v, case, request(&[topic], false));
    one("no partitions", creation("refused", 0, 1));
    one("fewer than none", creation("refused", -2, 1));
    one("no replicas", creation("refused", 1, 0));
    one("more replicas than brokers", creation("refused", 1, 2));
    one("an empty name", creation("", 1, 1));
    one("a dot", creation(".", 1, 1));
    one("illegal characters", creation("a b", 1, 1));
    one("a long name", creation(&"n".repeat(250), 1, 1));
    let with = |name: &str, value: Value| {
        let mut topic = creation("refused", 1, 1);
        topic["configs"] = json!([{"name": name, "value": value}]);
        topic
    };
    one("an unknown setting", with("no.such.setting", json!("1")));
    one("a setting of the wrong type", with("retention.ms", json!("soon")));
    one("a setting out of range", with("max.message.bytes", json!("-5")));
    one("a setting that is null", with("retention.ms", Value::Null));
    let placed = |partitions: i32, assignments: Value| {
        let mut topic = creation("refused", partitions, -1);
        topic["assignments"] = assignments;
        topic
    };
    one("placed by hand and counted", placed(1, json!([{"partition_index": 0, "broker_ids": [1]}])));
    one("placed on no broker", placed(-1, json!([{"partition_index": 0, "broker_ids": []}])));
    one("placed on an unknown broker", placed(-1, json!([{"partition_index": 0, "broker_ids": [8]}])));
    one("placed twice on a broker", placed(-1, json!([{"partition_index": 0, "broker_ids": [1, 1]}])));
    one("placed with a gap", placed(-1, json!([{"partition_index": 1, "broker_ids": [1]}])));
    let twice = [creation("refused", 1, 1), creation("refused", 1, 1)];
    run.ask("CreateTopics", v, "named twice", request(&twice, false));
    run.ask("CreateTopics", v, "none", request(&[], false));
}

pub(super) fn metadata(run: &mut Run) {
    for v in versions("Metadata") {
        let of = |topics: Value, create: bool, operations: bool| {
            json!({"topics": topics, "allow_auto_topic_creation": create,
                "include_cluster_authorized_operations": operations, "include_topic_authorized_operations": operations})
        };
        let name = |name: &str| json!([{"topic_id": ZERO_ID, "name": name}]);
        let all = if v == 0 { json!([]) } else { Value::Null };
        run.ask("Metadata", v, "every topic", of(all, false, false));
        run.ask("Metadata", v, "one topic", of(name("orders"), false, false));
        if v >= 1 {
            run.ask("Metadata", v, "no topic", of(json!([]), false, false));
        }
        if v >= 4 {
            run.ask("Metadata", v, "an unknown topic", of(name(NOWHERE), false, false));
        }
        run.ask("Metadata", v, "illegal characters", of(name("a b"), true, false));
        run.ask("Metadata", v, "an empty name", of(name(""), true, false));
        run.ask(
            "Metadata",
            v,
            "a topic named twice",
            of(
                json!([{"topic_id": ZERO_ID, "name": "orders"},
            {"topic_id": ZERO_ID, "name": "orders"}]),
                false,
                false,
            ),
        );
        if v >= 8 {
            run.ask("Metadata", v, "with operations", of(name("orders"), false, true));
        }
        if v >= 10 {
            let id = run.known("topic_id", "orders");
            run.ask("Metadata", v, "by id", of(json!([{"topic_id": id, "name": null}]), false, false));
            run.ask("Metadata", v, "an unknown id", of(json!([{"topic_id": NO_ID, "name": null}]), false, false));
            run.ask(
                "Metadata",
                v,
                "neither name nor id",
                of(json!([{"topic_id": ZERO_ID, "name": null}]), false, false),
            );
        }
    }
}

pub(super) fn describe(run: &mut Run) {
    for v in versions("DescribeTopicPartitions") {
        let of = |names: &[&str], limit: i32, cursor: Value| {
            let topics: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"topics": topics, "response_partition_limit": limit, "cursor": cursor})
        };
        let api = "DescribeTopicPartitions";
        run.ask(api, v, "one topic", of(&["orders"], 2000, Value::Null));
        run.ask(api, v, "an unknown topic", of(&["orders", NOWHERE], 2000, Value::Null));
        run.ask(api, v, "two partitions", of(&["small", "orders"], 2, Value::Null));
        run.ask(api, v, "no limit", of(&["orders"], 0, Value::Null));
        let at = |topic: &str, partition: i32| json!({"topic_name": topic, "partition_index": partition});
        run.ask(api, v, "from a cursor", of(&["orders", "small"], 2000, at("orders", 2)));
        run.ask(api, v, "behind the last partition", of(&["orders", "small"], 2000, at("orders", 3)));
        run.ask(api, v, "from a negative partition", of(&["orders"], 2000, at("orders", -1)));
        run.ask(api, v, "from an unknown topic", of(&["orders", "small"], 2000, at("p", 0)));
        run.ask(api, v, "illegal characters", of(&["a b"], 2000, Value::Null));
    }
}

pub(super) fn create_partitions(run: &mut Run) {
    let api = "CreatePartitions";
    for v in versions(api) {
        let name = format!("grows-{v}");
        topic(run, &name, 1, &[]);
        let to = |name: &str, count: i32, assignments: Value, validate_only: bool| {
            json!({"topics": [{"name": name, "count": count, "assignments": assignments}], "timeout_ms": 30_000,
                "validate_only": validate_only})
        };
        run.ask(api, v, "only validated", to(&name, 3, Value::Null, true));
        run.ask(api, v, "more", to(&name, 3, Value::Null, false));
        settle_partitions(run, &name, 3);
        run.ask(api, v, "placed by hand", to(&name, 4, json!([{"broker_ids": [1]}]), false));
        settle_partitions(run, &name, 4);
        run.ask(api, v, "as many", to(&name, 4, Value::Null, false));
        run.ask(api, v, "fewer", to(&name, 2, Value::Null, false));
        run.ask(api, v, "none", to(&name, 0, Value::Null, false));
        run.ask(api, v, "a negative count", to(&name, -1, Value::Null, false));
        run.ask(api, v, "an unknown topic", to(NOWHERE, 3, Value::Null, false));
        run.ask(api, v, "too few placed", to(&name, 6, json!([{"broker_ids": [1]}]), false));
        run.ask(api, v, "too many placed", to(&name, 5, json!([{"broker_ids": [1]}, {"broker_ids": [1]}]), false));
        run.ask(api, v, "placed on an unknown broker", to(&name, 5, json!([{"broker_ids": [8]}]), false));
        run.ask(api, v, "placed on no broker", to(&name, 5, json!([{"broker_ids": []}]), false));
        let mut twice = to(&name, 5, Value::Null, false);
        let again = twice["topics"][0].clone();
        twice["topics"].as_array_mut().unwrap().push(again);
        run.ask(api, v, "named twice", twice);
    }
}

pub(super) fn delete(run: &mut Run) {
    let api = "DeleteTopics";
    for v in versions(api) {
        let name = format!("dies-{v}");
        topic(run, &name, 1, &[]);
        let of = |topics: Value, names: &[&str]| json!({"topics": topics, "topic_names": names, "timeout_ms": 30_000});
        let named = |name: &str| of(json!([{"name": name, "topic_id": ZERO_ID}]), &[name]);
        run.ask(api, v, "an unknown topic", named(NOWHERE));
        run.ask(
            api,
            v,
            "one and an unknown one",
            of(json!([{"name": name, "topic_id": ZERO_ID}, {"name": NOWHERE, "topic_id": ZERO_ID}]), &[&name, NOWHERE]),
        );
        settle_gone(run, &name);
        run.ask(api, v, "deleted already", named(&name));
        run.ask(api, v, "none", of(json!([]), &[]));
        run.ask(api, v, "an empty name", named(""));
        let again = format!("{name} again");
        topic_again(run, &name, &again, 1, &[]);
        let id = run.known("topic_id", &again);
        if v >= 6 {
            run.ask(api, v, "by an unknown id", of(json!([{"name": null, "topic_id": NO_ID}]), &[]));
            run.ask(api, v, "by name and id", of(json!([{"name": name, "topic_id": id}]), &[]));
            run.ask(api, v, "neither name nor id", of(json!([{"name": null, "topic_id": ZERO_ID}]), &[]));
            run.ask(api, v, "by id", of(json!([{"name": null, "topic_id": id}]), &[]));
            settle_gone(run, &name);
            gone_by_id(run, &id);
        }
    }
}

/// What a client that knows a deleted topic by its id is told.
fn gone_by_id(run: &mut Run, id: &Value) {
    let v = version("Metadata", 99);
    run.ask(
        "Metadata",
        v,
        "a deleted id",
        json!({"topics": [{"topic_id": id, "name": null}],
        "allow_auto_topic_creation": true, "include_topic_authorized_operations": false}),
    );
    let v = version("Produce", 99);
    let records = super::text(&super::batch(&["x"], protocol::batch::Producer::NONE));
    run.ask("Produce", v, "a deleted id", super::records::produce_request(("gone", id), 0, -1, &records));
    let v = version("Fetch", 99);
    run.ask("Fetch", v, "a deleted id", super::records::fetch_request(("gone", id), 0, 0));
}
