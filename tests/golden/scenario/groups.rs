//! Groups with the classic protocol: their coordinator, their members' lives, their offsets.

use serde_json::{Value, json};

use super::{NO_ID, NOWHERE};
use crate::run::{Run, version, versions};

pub(super) fn coordinators(run: &mut Run) {
    let api = "FindCoordinator";
    // The offsets topic is made when somebody first asks for a coordinator; then there is one.
    let request = json!({"key": "any", "key_type": 0, "coordinator_keys": ["any"]});
    while run.peek(api, 4, &request)["coordinators"][0]["error_code"] != 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // Its partition is read before its groups are served; then the member is unknown.
    while run.peek("Heartbeat", 4, &heartbeat("any", 1, &json!("any")))["error_code"] != 25 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for v in versions(api) {
        let of = |key: &str, kind: i8| json!({"key": key, "key_type": kind, "coordinator_keys": [key]});
        run.ask(api, v, "of a group", of("group", 0));
        run.ask(api, v, "of a group without a name", of("", 0));
        if v >= 1 {
            run.ask(api, v, "of an unknown kind", of("group", 9));
        }
        if v >= 4 {
            run.ask(api, v, "of two groups", json!({"key_type": 0, "coordinator_keys": ["a", "b"]}));
            run.ask(api, v, "of none", json!({"key_type": 0, "coordinator_keys": []}));
        }
        if v >= 6 {
            run.ask(api, v, "of a share group's partition that is no key", of("share", 2));
        }
    }
}

fn join(group: &str, member: &Value, instance: Value, session_ms: i32) -> Value {
    json!({"group_id": group, "session_timeout_ms": session_ms, "rebalance_timeout_ms": 60_000, "member_id": member,
        "group_instance_id": instance, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}, {"name": "roundrobin", "metadata": "0x0000"}],
        "reason": "golden"})
}

/// ConsumerProtocolSubscription v0 of the topic `orders`, no user data.
const SUBSCRIPTION: &str = "0x00000000000100066f7264657273ffffffff";

fn sync(group: &str, generation: i32, member: &Value, assignments: &Value) -> Value {
    json!({"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": null,
        "protocol_type": "consumer", "protocol_name": "range", "assignments": assignments})
}

fn heartbeat(group: &str, generation: i32, member: &Value) -> Value {
    json!({"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": null})
}

fn leave(group: &str, member: &Value) -> Value {
    json!({"group_id": group, "member_id": member,
        "members": [{"member_id": member, "group_instance_id": null, "reason": "golden"}]})
}

fn describe(groups: &[&str]) -> Value {
    json!({"groups": groups, "include_authorized_operations": false})
}

pub(super) fn refused(run: &mut Run) {
    let (nobody, stranger) = (json!(""), json!("stranger"));
    for v in versions("JoinGroup") {
        run.ask("JoinGroup", v, "a group without a name", join("", &nobody, Value::Null, 10_000));
        run.ask("JoinGroup", v, "a session too short", join("refused", &nobody, Value::Null, 1));
        run.ask("JoinGroup", v, "a session too long", join("refused", &nobody, Value::Null, 100_000_000));
        run.ask("JoinGroup", v, "an unknown member", join("refused", &stranger, Value::Null, 10_000));
        let mut none = join("refused", &nobody, Value::Null, 10_000);
        none["protocols"] = json!([]);
        run.ask("JoinGroup", v, "no protocols", none);
        let mut untyped = join("refused", &nobody, Value::Null, 10_000);
        untyped["protocol_type"] = json!("");
        run.ask("JoinGroup", v, "no type of protocol", untyped);
    }
    for v in versions("SyncGroup") {
        run.ask("SyncGroup", v, "an unknown group", sync("refused", 1, &stranger, &json!([])));
        run.ask("SyncGroup", v, "a group without a name", sync("", 1, &stranger, &json!([])));
    }
    for v in versions("Heartbeat") {
        run.ask("Heartbeat", v, "an unknown group", heartbeat("refused", 1, &stranger));
        run.ask("Heartbeat", v, "a group without a name", heartbeat("", 1, &stranger));
    }
    for v in versions("LeaveGroup") {
        run.ask("LeaveGroup", v, "an unknown group", leave("refused", &stranger));
        run.ask("LeaveGroup", v, "a group without a name", leave("", &stranger));
    }
    for v in versions("DescribeGroups") {
        run.ask("DescribeGroups", v, "an unknown group", describe(&["unheard"]));
        run.ask("DescribeGroups", v, "a group without a name", describe(&[""]));
        run.ask("DescribeGroups", v, "none", describe(&[]));
    }
    for v in versions("DeleteGroups") {
        run.ask("DeleteGroups", v, "an unknown group", json!({"groups_names": ["unheard"]}));
        run.ask("DeleteGroups", v, "a group without a name", json!({"groups_names": [""]}));
    }
    for v in versions("OffsetDelete") {
        let topics = json!([{"name": "orders", "partitions": [{"partition_index": 0}]}]);
        run.ask("OffsetDelete", v, "an unknown group", json!({"group_id": "unheard", "topics": topics}));
        run.ask("OffsetDelete", v, "a group without a name", json!({"group_id": "", "topics": topics}));
    }
}

/// A group of one for each version of JoinGroup, from its first member to its deletion; the other APIs go along.
pub(super) fn lives(run: &mut Run) {
    for v in versions("JoinGroup") {
        let group = format!("group-{v}");
        let at = |api: &str| version(api, v);
        let mut member = json!("");
        if v >= 4 {
            let answer = run.ask("JoinGroup", v, "a member's id", join(&group, &member, Value::Null, 30_000));
            member = answer["member_id"].clone();
            run.learn("member_id", &format!("{group} member"), &member);
            let mut other = join(&group, &member, Value::Null, 30_000);
            other["protocol_type"] = json!("other");
            run.ask("JoinGroup", v, "the first decides the type", other);
            run.ask("LeaveGroup", at("LeaveGroup"), &format!("{group}: leaves"), leave(&group, &member));
            member = json!("");
            let answer = run.ask("JoinGroup", v, "another member's id", join(&group, &member, Value::Null, 30_000));
            member = answer["member_id"].clone();
            run.learn("member_id", &format!("{group} second member"), &member);
        }
        let answer = run.ask("JoinGroup", v, "joins", join(&group, &member, Value::Null, 30_000));
        member = answer["member_id"].clone();
        run.learn("member_id", &format!("{group} joined"), &member);
        let generation = i32::try_from(answer["generation_id"].as_i64().unwrap()).unwrap();
        run.ask(
            "DescribeGroups",
            at("DescribeGroups"),
            &format!("{group}: before its assignment"),
            describe(&[&group]),
        );
        run.ask(
            "Heartbeat",
            at("Heartbeat"),
            &format!("{group}: before its assignment"),
            heartbeat(&group, generation, &member),
        );
        let assigned = json!([{"member_id": member, "assignment": "0x00010203"}]);
        run.ask(
            "SyncGroup",
            at("SyncGroup"),
            &format!("{group}: another generation"),
            sync(&group, generation + 9, &member, &assigned),
        );
        run.ask(
            "SyncGroup",
            at("SyncGroup"),
            &format!("{group}: another member"),
            sync(&group, generation, &json!("x"), &assigned),
        );
        if at("SyncGroup") >= 5 {
            let mut other = sync(&group, generation, &member, &assigned);
            other["protocol_name"] = json!("roundrobin");
            run.ask("SyncGroup", at("SyncGroup"), &format!("{group}: another protocol"), other);
        }
        run.ask(
            "SyncGroup",
            at("SyncGroup"),
            &format!("{group}: assigns"),
            sync(&group, generation, &member, &assigned),
        );
        run.ask(
            "SyncGroup",
            at("SyncGroup"),
            &format!("{group}: asks again"),
            sync(&group, generation, &member, &json!([])),
        );
        stable(run, v, &group, (&member, generation));
        ends(run, v, &group, (&member, generation));
    }
}

fn stable(run: &mut Run, v: i16, group: &str, (member, generation): (&Value, i32)) {
    let at = |api: &str| version(api, v);
    run.ask("DescribeGroups", at("DescribeGroups"), &format!("{group}: stable"), describe(&[group]));
    let api = "ListGroups";
    run.ask(api, at(api), &format!("{group}: all"), json!({"states_filter": [], "types_filter": []}));
    run.ask(
        api,
        at(api),
        &format!("{group}: stable ones"),
        json!({"states_filter": ["stable"], "types_filter": ["classic"]}),
    );
    run.ask(api, at(api), &format!("{group}: of no state"), json!({"states_filter": ["Unheard"], "types_filter": []}));
    run.ask(api, at(api), &format!("{group}: of no type"), json!({"states_filter": [], "types_filter": ["unheard"]}));
    run.ask("Heartbeat", at("Heartbeat"), &format!("{group}: lives"), heartbeat(group, generation, member));
    run.ask(
        "Heartbeat",
        at("Heartbeat"),
        &format!("{group}: an old generation"),
        heartbeat(group, generation - 1, member),
    );
    run.ask(
        "Heartbeat",
        at("Heartbeat"),
        &format!("{group}: another member"),
        heartbeat(group, generation, &json!("x")),
    );
    run.ask("JoinGroup", v, "an unknown member of a stable group", join(group, &json!("x"), Value::Null, 30_000));
    let mut other = join(group, &json!(""), Value::Null, 30_000);
    other["protocols"] = json!([{"name": "other", "metadata": "0x"}]);
    run.ask("JoinGroup", v, "no protocol in common", other);
    run.ask("DeleteGroups", at("DeleteGroups"), &format!("{group}: not empty"), json!({"groups_names": [group]}));
    let api = "OffsetCommit";
    let commit = |of: i32, member: &Value, partition: i32| commit(run, group, of, member, "orders", partition);
    let cases = [
        ("a member's", commit(generation, member, 0)),
        ("an old generation's", commit(generation - 1, member, 0)),
        ("another member's", commit(generation, &json!("x"), 0)),
        ("nobody's", commit(-1, &json!(""), 0)),
        ("an unknown partition's", commit(generation, member, 77)),
    ];
    for (case, request) in cases {
        run.ask(api, at(api), &format!("{group}: {case}"), request);
    }
    let topics = json!([{"name": "orders", "partitions": [{"partition_index": 0}]}]);
    run.ask("OffsetDelete", 0, &format!("{group}: of a topic it reads"), json!({"group_id": group, "topics": topics}));
    let topics = json!([{"name": "small", "partitions": [{"partition_index": 0}]}]);
    run.ask("OffsetDelete", 0, &format!("{group}: of another topic"), json!({"group_id": group, "topics": topics}));
}

fn ends(run: &mut Run, v: i16, group: &str, (member, generation): (&Value, i32)) {
    let at = |api: &str| version(api, v);
    // A second member: the first learns of it, both join, the leader knows both.
    run.on("second");
    let mut second = json!("");
    if v >= 4 {
        second =
            run.ask("JoinGroup", v, "a second member's id", join(group, &second, Value::Null, 30_000))["member_id"]
                .clone();
        run.learn("member_id", &format!("{group} another"), &second);
    }
    let waits = run.send("JoinGroup", v, "a second member joins", join(group, &second, Value::Null, 30_000));
    run.on("main");
    std::thread::sleep(std::time::Duration::from_millis(50));
    run.ask("Heartbeat", at("Heartbeat"), &format!("{group}: a rebalance"), heartbeat(group, generation, member));
    let api = "SyncGroup";
    run.ask(api, at(api), &format!("{group}: a rebalance"), sync(group, generation, member, &json!([])));
    run.ask("JoinGroup", v, "the first joins again", join(group, member, Value::Null, 30_000));
    let answer = run.receive(waits);
    let next = i32::try_from(answer["generation_id"].as_i64().unwrap()).unwrap();
    second = answer["member_id"].clone();
    run.learn("member_id", &format!("{group} another joined"), &second);
    run.on("second");
    let waits = run.send(api, at(api), &format!("{group}: the second waits"), sync(group, next, &second, &json!([])));
    run.on("main");
    let assigned = json!([{"member_id": member, "assignment": "0x01"}, {"member_id": second, "assignment": "0x02"}]);
    run.ask(api, at(api), &format!("{group}: the first assigns"), sync(group, next, member, &assigned));
    run.receive(waits);
    run.ask("DescribeGroups", at("DescribeGroups"), &format!("{group}: two members"), describe(&[group]));
    run.ask("LeaveGroup", at("LeaveGroup"), &format!("{group}: the second leaves"), leave(group, &second));
    run.ask("LeaveGroup", at("LeaveGroup"), &format!("{group}: the second leaves again"), leave(group, &second));
    run.ask("LeaveGroup", at("LeaveGroup"), &format!("{group}: the first leaves"), leave(group, member));
    run.ask("DescribeGroups", at("DescribeGroups"), &format!("{group}: empty"), describe(&[group]));
    run.ask("Heartbeat", at("Heartbeat"), &format!("{group}: gone"), heartbeat(group, next, member));
    run.ask("DeleteGroups", at("DeleteGroups"), &format!("{group}: deleted"), json!({"groups_names": [group]}));
    run.ask("DescribeGroups", at("DescribeGroups"), &format!("{group}: deleted"), describe(&[group]));
}

/// Members that keep their place under a name of their own (KIP-345).
pub(super) fn static_members(run: &mut Run) {
    for v in versions("JoinGroup").filter(|v| *v >= 5) {
        let group = format!("static-{v}");
        let at = |api: &str| version(api, v);
        let joins = |member: &Value| join(&group, member, json!("desk"), 30_000);
        let answer = run.ask("JoinGroup", v, "static: joins", joins(&json!("")));
        let first = answer["member_id"].clone();
        run.learn("member_id", &format!("{group} first"), &first);
        let assigned = json!([{"member_id": first, "assignment": "0x07"}]);
        let mut syncs = sync(&group, 1, &first, &assigned);
        syncs["group_instance_id"] = json!("desk");
        run.ask("SyncGroup", at("SyncGroup"), &format!("{group}: assigns"), syncs);
        let answer = run.ask("JoinGroup", v, "static: comes back", joins(&json!("")));
        run.learn("member_id", &format!("{group} second"), &answer["member_id"]);
        run.ask("JoinGroup", v, "static: an old id of it", joins(&first));
        let mut beats = heartbeat(&group, 1, &first);
        beats["group_instance_id"] = json!("desk");
        run.ask("Heartbeat", at("Heartbeat"), &format!("{group}: an old id"), beats.clone());
        beats["group_instance_id"] = json!("other");
        run.ask("Heartbeat", at("Heartbeat"), &format!("{group}: an unknown name"), beats);
        run.ask("DescribeGroups", at("DescribeGroups"), &format!("{group}: stable"), describe(&[&group]));
        let gone = |name: &str| json!({"group_id": group, "members": [{"member_id": "", "group_instance_id": name, "reason": null}]});
        run.ask("LeaveGroup", at("LeaveGroup"), &format!("{group}: an unknown name"), gone("other"));
        run.ask("LeaveGroup", at("LeaveGroup"), &format!("{group}: removed by name"), gone("desk"));
    }
}

fn commit(run: &Run, group: &str, generation: i32, member: &Value, topic: &str, partition: i32) -> Value {
    let id = if topic == NOWHERE { json!(NO_ID) } else { run.known("topic_id", topic) };
    json!({"group_id": group, "generation_id_or_member_epoch": generation, "member_id": member, "group_instance_id": null,
        "retention_time_ms": -1, "topics": [{"name": topic, "topic_id": id, "partitions": [{"partition_index": partition,
        "committed_offset": 42, "committed_leader_epoch": run.known("leader_epoch", "the first epoch"), "committed_metadata": "note"}]}]})
}

/// Offsets of a group without members.
pub(super) fn offsets(run: &mut Run) {
    let nobody = json!("");
    for v in versions("OffsetCommit") {
        let api = "OffsetCommit";
        let group = format!("simple-{v}");
        let of = |run: &Run, topic: &str, partition: i32| commit(run, &group, -1, &nobody, topic, partition);
        run.ask(api, v, "first", of(run, "orders", 0));
        let mut bare = of(run, "orders", 1);
        bare["topics"][0]["partitions"][0]["committed_metadata"] = Value::Null;
        bare["topics"][0]["partitions"][0]["committed_leader_epoch"] = json!(-1);
        run.ask(api, v, "without metadata", bare);
        run.ask(api, v, "an unknown topic", of(run, NOWHERE, 0));
        run.ask(api, v, "an unknown partition", of(run, "orders", 77));
        run.ask(api, v, "a group without a name", commit(run, "", -1, &nobody, "orders", 0));
        run.ask(api, v, "a generation of nobody", commit(run, "nobody", 3, &nobody, "orders", 0));
        run.ask(api, v, "a member of no group", commit(run, "nobody", -1, &json!("x"), "orders", 0));
        let mut large = of(run, "orders", 2);
        large["topics"][0]["partitions"][0]["committed_metadata"] = json!("m".repeat(4097));
        run.ask(api, v, "metadata too large", large);
        let mut negative = of(run, "orders", 2);
        negative["topics"][0]["partitions"][0]["committed_offset"] = json!(-7);
        run.ask(api, v, "a negative offset", negative);
        let mut none = of(run, "orders", 0);
        none["topics"] = json!([]);
        run.ask(api, v, "nothing", none);
    }
    offsets_fetched(run);
}

fn offsets_fetched(run: &mut Run) {
    let id = run.known("topic_id", "orders");
    for v in versions("OffsetFetch") {
        let api = "OffsetFetch";
        let one = |group: &str, topics: Value| {
            // Only the newer shape knows ids.
            let mut named = topics.clone();
            for topic in named.as_array_mut().into_iter().flatten() {
                topic.as_object_mut().unwrap().remove("topic_id");
            }
            json!({"group_id": group, "topics": named, "require_stable": false, "groups": [{"group_id": group,
                "member_id": null, "member_epoch": -1, "topics": topics}]})
        };
        let of = |name: &str, id: &Value, indexes: &[i32]| json!([{"name": name, "topic_id": id, "partition_indexes": indexes}]);
        run.ask(api, v, "some", one("simple-6", of("orders", &id, &[0, 1, 2])));
        run.ask(api, v, "an unknown topic", one("simple-6", of(NOWHERE, &json!(NO_ID), &[0])));
        run.ask(api, v, "an unknown partition", one("simple-6", of("orders", &id, &[77])));
        run.ask(api, v, "none", one("simple-6", json!([])));
        run.ask(api, v, "an unknown group", one("unheard", of("orders", &id, &[0])));
        run.ask(api, v, "a group without a name", one("", of("orders", &id, &[0])));
        if v >= 2 {
            run.ask(api, v, "all", one("simple-6", Value::Null));
            run.ask(api, v, "all of an unknown group", one("unheard", Value::Null));
        }
        if v >= 8 {
            let groups: Vec<Value> = ["simple-6", "unheard", "simple-7"]
                .iter()
                .map(|group| json!({"group_id": group, "member_id": null, "member_epoch": -1, "topics": null}))
                .collect();
            run.ask(api, v, "three groups", json!({"groups": groups, "require_stable": true}));
        }
        if v >= 9 {
            let mut as_member = one("simple-6", of("orders", &id, &[0]));
            as_member["groups"][0]["member_id"] = json!("x");
            as_member["groups"][0]["member_epoch"] = json!(5);
            run.ask(api, v, "as an unknown member", as_member);
        }
    }
    let topics = |name: &str, index: i32| json!({"group_id": "simple-6", "topics": [{"name": name, "partitions": [{"partition_index": index}]}]});
    run.ask("OffsetDelete", 0, "one", topics("orders", 0));
    run.ask("OffsetDelete", 0, "one again", topics("orders", 0));
    run.ask("OffsetDelete", 0, "an unknown topic", topics(NOWHERE, 0));
    run.ask("OffsetDelete", 0, "an unknown partition", topics("orders", 77));
    run.ask(
        "ListGroups",
        *versions("ListGroups").end(),
        "empty ones",
        json!({"states_filter": ["Empty"], "types_filter": []}),
    );
}
