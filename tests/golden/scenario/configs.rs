//! Settings of topics and brokers.

use serde_json::{Value, json};

use super::NOWHERE;
use crate::run::{Run, versions};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

pub(super) fn describe(run: &mut Run) {
    let api = "DescribeConfigs";
    super::topic(run, "configured", 1, &[("retention.ms", "7200000"), ("max.message.bytes", "5000")]);
    for v in versions(api) {
        let of = |kind: i8, name: &str, keys: Value, synonyms: bool| {
            json!({"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
                "include_synonyms": synonyms, "include_documentation": false})
        };
        let keys = json!([
            "retention.ms",
            "cleanup.policy",
            "max.message.bytes",
            "min.insync.replicas",
            "message.timestamp.type",
            "unclean.leader.election.enable",
            "segment.bytes",
            "flush.ms"
        ]);
        run.ask(api, v, "some of a topic", of(TOPIC, "configured", keys.clone(), false));
        run.ask(api, v, "some of a topic, with synonyms", of(TOPIC, "configured", keys, true));
        if v == 4 {
            run.ask(api, v, "all of a topic", of(TOPIC, "configured", Value::Null, true));
        }
        run.ask(api, v, "none of a topic", of(TOPIC, "configured", json!([]), false));
        run.ask(api, v, "an unknown one of a topic", of(TOPIC, "configured", json!(["no.such.setting"]), false));
        run.ask(api, v, "of an unknown topic", of(TOPIC, NOWHERE, Value::Null, false));
        run.ask(api, v, "of a topic of illegal characters", of(TOPIC, "a b", Value::Null, false));
        run.ask(api, v, "of a topic without a name", of(TOPIC, "", Value::Null, false));
        let keys = json!(["message.max.bytes", "num.partitions", "auto.create.topics.enable", "log.retention.ms"]);
        run.ask(api, v, "some of the broker", of(BROKER, "1", keys, true));
        run.ask(api, v, "of another broker", of(BROKER, "9", Value::Null, false));
        run.ask(api, v, "of a broker that is no number", of(BROKER, "one", Value::Null, false));
        run.ask(api, v, "of all brokers", of(BROKER, "", json!(["message.max.bytes"]), false));
        run.ask(api, v, "of an unknown kind", of(99, "x", Value::Null, false));
        run.ask(api, v, "nothing", json!({"resources": [], "include_synonyms": false, "include_documentation": false}));
    }
}

pub(super) fn alter(run: &mut Run) {
    let api = "AlterConfigs";
    for v in versions(api) {
        let name = format!("altered-{v}");
        super::topic(run, &name, 1, &[("retention.ms", "7200000")]);
        let of = |kind: i8, name: &str, configs: &[(&str, Value)], validate_only: bool| {
            let configs: Vec<Value> =
                configs.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            json!({"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}],
                "validate_only": validate_only})
        };
        let bytes = [("max.message.bytes", json!("3000"))];
        run.ask(api, v, "only validated", of(TOPIC, &name, &bytes, true));
        shown(run, api, v, "only validated", &name);
        run.ask(api, v, "one", of(TOPIC, &name, &bytes, false));
        shown(run, api, v, "one", &name);
        run.ask(api, v, "none", of(TOPIC, &name, &[], false));
        shown(run, api, v, "none", &name);
        run.ask(api, v, "an unknown one", of(TOPIC, &name, &[("no.such.setting", json!("1"))], false));
        run.ask(api, v, "one of the wrong type", of(TOPIC, &name, &[("retention.ms", json!("soon"))], false));
        run.ask(api, v, "one out of range", of(TOPIC, &name, &[("min.insync.replicas", json!("0"))], false));
        run.ask(api, v, "one that is null", of(TOPIC, &name, &[("retention.ms", Value::Null)], false));
        run.ask(api, v, "of an unknown topic", of(TOPIC, NOWHERE, &bytes, false));
        run.ask(api, v, "of a topic of illegal characters", of(TOPIC, "a b", &bytes, false));
        run.ask(api, v, "of another broker", of(BROKER, "9", &bytes, false));
        run.ask(api, v, "of a broker that is no number", of(BROKER, "one", &bytes, false));
        run.ask(api, v, "of an unknown kind", of(99, "x", &bytes, false));
    }
}

pub(super) fn alter_incrementally(run: &mut Run) {
    let api = "IncrementalAlterConfigs";
    const SET: i8 = 0;
    const DELETE: i8 = 1;
    const APPEND: i8 = 2;
    const SUBTRACT: i8 = 3;
    for v in versions(api) {
        let name = format!("altered-in-parts-{v}");
        super::topic(run, &name, 1, &[("retention.ms", "7200000")]);
        let of = |kind: i8, name: &str, operations: &[(&str, i8, Value)], validate_only: bool| {
            let configs: Vec<Value> = operations
                .iter()
                .map(|(name, operation, value)| json!({"name": name, "config_operation": operation, "value": value}))
                .collect();
            json!({"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}],
                "validate_only": validate_only})
        };
        let bytes = [("max.message.bytes", SET, json!("3000"))];
        run.ask(api, v, "only validated", of(TOPIC, &name, &bytes, true));
        shown(run, api, v, "only validated", &name);
        run.ask(api, v, "set", of(TOPIC, &name, &bytes, false));
        shown(run, api, v, "set", &name);
        run.ask(api, v, "deleted", of(TOPIC, &name, &[("retention.ms", DELETE, Value::Null)], false));
        shown(run, api, v, "deleted", &name);
        run.ask(api, v, "deleted again", of(TOPIC, &name, &[("retention.ms", DELETE, Value::Null)], false));
        let mut one = |case: &str, key: &str, operation: i8, value: Value| {
            run.ask(api, v, case, of(TOPIC, &name, &[(key, operation, value)], false));
        };
        one("appended to a list", "cleanup.policy", APPEND, json!("delete"));
        one("appended to no list", "retention.ms", APPEND, json!("5"));
        one("subtracted from no list", "retention.ms", SUBTRACT, json!("5"));
        one("an operation of no kind", "retention.ms", 9, json!("5"));
        one("an unknown one", "no.such.setting", SET, json!("1"));
        one("an unknown one deleted", "no.such.setting", DELETE, Value::Null);
        one("one of the wrong type", "retention.ms", SET, json!("soon"));
        one("one out of range", "min.insync.replicas", SET, json!("0"));
        one("one that is null", "retention.ms", SET, Value::Null);
        run.ask(api, v, "of an unknown topic", of(TOPIC, NOWHERE, &bytes, false));
        run.ask(api, v, "of another broker", of(BROKER, "9", &bytes, false));
        run.ask(api, v, "of a broker that is no number", of(BROKER, "one", &bytes, false));
        run.ask(api, v, "of an unknown kind", of(99, "x", &bytes, false));
        run.ask(api, v, "a setting twice", of(TOPIC, &name, &[bytes[0].clone(), bytes[0].clone()], false));
        run.ask(
            api,
            v,
            "one and a wrong one",
            of(TOPIC, &name, &[("retention.ms", SET, json!("9000")), ("segment.bytes", SET, json!("x"))], false),
        );
        shown(run, api, v, "one and a wrong one", &name);
    }
}

/// What an alteration left behind, on the record.
fn shown(run: &mut Run, api: &str, v: i16, after: &str, name: &str) {
    // Kafka acknowledges when its controller has it; the broker shows it a moment later.
    std::thread::sleep(std::time::Duration::from_millis(60));
    let keys = json!(["retention.ms", "max.message.bytes"]);
    run.ask(
        "DescribeConfigs",
        *versions("DescribeConfigs").end(),
        &format!("after {api} v{v}: {after}"),
        json!({"resources": [{"resource_type": TOPIC, "resource_name": name, "configuration_keys": keys}],
            "include_synonyms": true, "include_documentation": false}),
    );
}
