//! Records: produced, fetched, looked up by time, deleted; and the producers that are remembered.

use base::Checksums;
use protocol::batch::{BatchBuilder, Codec, Producer, RECORDS};
use serde_json::{Value, json};

use super::{MADE, NO_ID, NOWHERE, batch, batch_at, text};
use crate::run::{Run, versions};

/// An id that no producer was given.
const NO_PRODUCER: i64 = 7_000_000_007;

pub(super) fn produce_request(topic: (&str, &Value), partition: i32, acks: i16, records: &Value) -> Value {
    json!({"transactional_id": null, "acks": acks, "timeout_ms": 30_000, "topic_data": [{"name": topic.0,
        "topic_id": topic.1, "partition_data": [{"index": partition, "records": records}]}]})
}

fn to(run: &Run, topic: &str, partition: i32, records: &[u8]) -> Value {
    produce_request((topic, &run.known("topic_id", topic)), partition, -1, &text(records))
}

pub(super) fn init_producer_id(run: &mut Run) {
    // Kafka answers "loading" until its first block of ids is there.
    let request =
        json!({"transactional_id": null, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1});
    while run.peek("InitProducerId", 4, &request)["error_code"] != 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for v in versions("InitProducerId") {
        let of = |transactional: Value, timeout: i32, id: i64, epoch: i16| {
            json!({"transactional_id": transactional, "transaction_timeout_ms": timeout, "producer_id": id,
                "producer_epoch": epoch})
        };
        let answer = run.ask("InitProducerId", v, "a new producer", of(Value::Null, 60_000, -1, -1));
        run.learn("producer_id", &format!("of version {v}"), &answer["producer_id"]);
        run.ask("InitProducerId", v, "an empty transactional id", of(json!(""), 60_000, -1, -1));
        if v >= 3 {
            run.ask("InitProducerId", v, "an id without an epoch", of(Value::Null, 60_000, NO_PRODUCER, -1));
            run.ask("InitProducerId", v, "an epoch without an id", of(Value::Null, 60_000, -1, 5));
        }
    }
}

pub(super) fn produce(run: &mut Run) {
    for v in versions("Produce") {
        let two = batch(&["one", "two"], Producer::NONE);
        run.ask("Produce", v, "two records", to(run, "orders", 0, &two));
        let mut leader_only = to(run, "orders", 1, &two);
        leader_only["acks"] = json!(1);
        run.ask("Produce", v, "acks=1", leader_only);
        run.ask("Produce", v, "stamped by the broker", to(run, "stamped", 0, &two));
        let (orders, small) = (run.known("topic_id", "orders"), run.known("topic_id", "small"));
        let data = |name: &str, id: &Value, partitions: &[i32]| {
            let partitions: Vec<Value> =
                partitions.iter().map(|i| json!({"index": i, "records": text(&two)})).collect();
            json!({"name": name, "topic_id": id, "partition_data": partitions})
        };
        let both = json!([data("orders", &orders, &[2, 1]), data("small", &small, &[0])]);
        run.ask(
            "Produce",
            v,
            "two topics",
            json!({"transactional_id": null, "acks": -1, "timeout_ms": 30_000,
            "topic_data": both}),
        );
        run.ask(
            "Produce",
            v,
            "no topics",
            json!({"transactional_id": null, "acks": -1, "timeout_ms": 30_000,
            "topic_data": []}),
        );
        // Nothing answers acks=0; that it was taken shows in the offset behind it.
        let mut silent = to(run, "orders", 1, &two);
        silent["acks"] = json!(0);
        run.tell("Produce", v, "acks=0", silent);
        run.ask("Produce", v, "behind acks=0", to(run, "orders", 1, &two));
    }
}

pub(super) fn produce_refused(run: &mut Run) {
    let one = batch(&["one"], Producer::NONE);
    let edited = |at: usize, bytes: &[u8]| {
        let mut batch = batch(&["one", "two"], Producer::NONE);
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        stamp(&mut batch);
        batch
    };
    let mut unsound = edited(0, &[]);
    *unsound.last_mut().unwrap() ^= 1;
    let mut long = edited(0, &[]);
    long.push(0);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a wrong CRC", unsound),
        ("magic 1", edited(16, &[1])),
        ("magic 3", edited(16, &[3])),
        ("a length beyond the end", edited(8, &5_000i32.to_be_bytes())),
        ("a length of nothing", edited(8, &0i32.to_be_bytes())),
        ("two batches", [one.clone(), one.clone()].concat()),
        ("a batch and a byte", long),
        ("no bytes", Vec::new()),
        ("a count of none", edited(57, &0i32.to_be_bytes())),
        ("a count below none", edited(57, &(-1i32).to_be_bytes())),
        ("more counted than there are", edited(57, &3i32.to_be_bytes())),
        ("a last delta that does not fit", edited(23, &5i32.to_be_bytes())),
        ("a control batch", edited(21, &0x20i16.to_be_bytes())),
        ("a transactional batch without a producer", edited(21, &0x10i16.to_be_bytes())),
        ("an unknown codec", edited(21, &5i16.to_be_bytes())),
        ("stamped by its client", edited(21, &8i16.to_be_bytes())),
        ("a producer without a sequence", edited(43, &NO_PRODUCER.to_be_bytes())),
        ("a base offset of its own", edited(0, &77i64.to_be_bytes())),
        ("a leader epoch of its own", edited(12, &77i32.to_be_bytes())),
    ];
    // A partition for each, so that what one broker takes and the other does not leaves the other cases alone.
    super::topic(run, "odd", cases.len(), &[("retention.ms", "-1")]);
    for v in versions("Produce") {
        for ((case, records), partition) in cases.iter().zip(0..) {
            run.ask("Produce", v, case, to(run, "odd", partition, records));
        }
        let (id, none) = (run.known("topic_id", "orders"), json!(NO_ID));
        let data = text(&one);
        run.ask("Produce", v, "an unknown topic", produce_request((NOWHERE, &none), 0, -1, &data));
        run.ask("Produce", v, "an unknown partition", produce_request(("orders", &id), 77, -1, &data));
        run.ask("Produce", v, "a negative partition", produce_request(("orders", &id), -1, -1, &data));
        run.ask("Produce", v, "acks=2", produce_request(("orders", &id), 0, 2, &data));
        let large = "x".repeat(2_000);
        run.ask("Produce", v, "a batch too large", to(run, "small", 0, &batch(&[&large], Producer::NONE)));
        run.ask("Produce", v, "a time too long ago", to(run, "timely", 0, &one));
        run.ask(
            "Produce",
            v,
            "a time far ahead",
            to(run, "orders", 0, &batch_at(4_000_000_000_000, &["x"], Producer::NONE)),
        );
        run.ask("Produce", v, "no time", to(run, "orders", 0, &batch_at(-1, &["x"], Producer::NONE)));
        if v < 7 {
            let mut zstd = BatchBuilder::new();
            zstd.append(MADE, None, Some(b"x"), &[]);
            let mut bytes = Vec::new();
            // A frame of no content: whether the version may have it is judged before.
            let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 0x01, 0x00, 0x00];
            zstd.finish_compressed(Codec::Zstd, &frame, Producer::NONE, &Checksums::portable(), &mut bytes);
            run.ask("Produce", v, "zstd before its version", to(run, "orders", 0, &bytes));
        }
        // Some were taken after all: the next offset tells which.
        run.ask("Produce", v, "behind what was refused", to(run, "orders", 0, &one));
    }
}

/// The CRC of what the batch says now.
fn stamp(batch: &mut [u8]) {
    assert!(batch.len() > RECORDS);
    let crc = (Checksums::portable().crc32c)(0, &batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

pub(super) fn idempotence(run: &mut Run) {
    for (step, v) in (0..).zip(versions("Produce")) {
        let request = json!({"transactional_id": null, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1});
        let answer = run.peek("InitProducerId", 4, &request);
        run.learn("producer_id", &format!("idempotent {step}"), &answer["producer_id"]);
        let id = answer["producer_id"].as_i64().unwrap();
        let of = |epoch: i16, sequence: i32, values: &[&str]| {
            batch(values, Producer { id, epoch, sequence, transactional: false })
        };
        let mut ask = |case: &str, records: &[u8]| run.ask("Produce", v, case, to(run, "producers", 0, records));
        ask("sequence 0", &of(0, 0, &["a", "b"]));
        ask("sequence 2", &of(0, 2, &["c"]));
        ask("sequence 2 again", &of(0, 2, &["c"]));
        ask("sequence 0 again", &of(0, 0, &["a", "b"]));
        ask("half of a batch again", &of(0, 1, &["b"]));
        ask("a gap", &of(0, 9, &["d"]));
        ask("a new epoch that does not begin at 0", &of(1, 3, &["e"]));
        ask("a new epoch", &of(1, 0, &["e"]));
        ask("an old epoch", &of(0, 3, &["f"]));
        for sequence in 1..=5 {
            run.peek("Produce", 7, &to(run, "producers", 0, &of(1, sequence, &["g"])));
        }
        let mut ask = |case: &str, records: &[u8]| run.ask("Produce", v, case, to(run, "producers", 0, records));
        ask("older than the last five", &of(1, 0, &["e"]));
        ask("the oldest of the last five", &of(1, 1, &["g"]));
        // Where a producer is not known yet, any sequence begins.
        run.ask("Produce", v, "unknown to the partition", to(run, "producers", 1, &of(0, 41, &["h"])));
        let stranger = batch(&["i"], Producer { id: NO_PRODUCER, epoch: 0, sequence: 0, transactional: true });
        run.ask("Produce", v, "transactional outside of a transaction", to(run, "producers", 1, &stranger));
    }
}

fn fetch_body(session: (i32, i32), topics: &Value, forgotten: &Value) -> Value {
    json!({"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1_000_000, "isolation_level": 0,
        "session_id": session.0, "session_epoch": session.1, "topics": topics, "forgotten_topics_data": forgotten,
        "rack_id": ""})
}

fn fetch_topic(topic: (&str, &Value), partition: i32, offset: i64) -> Value {
    json!({"topic": topic.0, "topic_id": topic.1, "partitions": [{"partition": partition, "current_leader_epoch": -1,
        "fetch_offset": offset, "last_fetched_epoch": -1, "log_start_offset": -1, "partition_max_bytes": 100_000}]})
}

pub(super) fn fetch_request(topic: (&str, &Value), partition: i32, offset: i64) -> Value {
    fetch_body((0, -1), &json!([fetch_topic(topic, partition, offset)]), &json!([]))
}

pub(super) fn fetch(run: &mut Run) {
    super::topic(run, "read", 2, &[("retention.ms", "-1")]);
    for (made, values) in [(0, ["a", "b", "c"]), (1_000, ["d", "e", "f"])] {
        run.peek("Produce", 7, &to(run, "read", 0, &batch_at(MADE + made, &values, Producer::NONE)));
    }
    let (id, epoch) = (run.known("topic_id", "read"), run.known("leader_epoch", "the first epoch"));
    let none = json!(NO_ID);
    for v in versions("Fetch") {
        let from = |partition: i32, offset: i64| fetch_request(("read", &id), partition, offset);
        run.ask("Fetch", v, "from the start", from(0, 0));
        run.ask("Fetch", v, "from inside a batch", from(0, 4));
        run.ask("Fetch", v, "from the end", from(0, 6));
        run.ask("Fetch", v, "beyond the end", from(0, 7));
        run.ask("Fetch", v, "a negative offset", from(0, -1));
        run.ask("Fetch", v, "an empty partition", from(1, 0));
        run.ask("Fetch", v, "an unknown partition", from(77, 0));
        run.ask("Fetch", v, "a negative partition", from(-1, 0));
        run.ask("Fetch", v, "an unknown topic", fetch_request((NOWHERE, &none), 0, 0));
        let mut stamped = fetch_request(("stamped", &run.known("topic_id", "stamped")), 0, 0);
        stamped["max_bytes"] = json!(1);
        run.ask("Fetch", v, "stamped by the broker", stamped);
        run.ask("Fetch", v, "no topics", fetch_body((0, -1), &json!([]), &json!([])));
        let mut with = |case: &str, change: &dyn Fn(&mut Value)| {
            let mut request = from(0, 0);
            change(&mut request);
            run.ask("Fetch", v, case, request)
        };
        with("fewer bytes than a batch", &|r| r["max_bytes"] = json!(1));
        with("fewer bytes than a batch in the partition", &|r| {
            r["topics"][0]["partitions"][0]["partition_max_bytes"] = json!(1)
        });
        with("bytes of one batch", &|r| r["topics"][0]["partitions"][0]["partition_max_bytes"] = json!(120));
        with("committed only", &|r| r["isolation_level"] = json!(1));
        with("an isolation of no kind", &|r| r["isolation_level"] = json!(7));
        with("more than there is, without waiting", &|r| r["min_bytes"] = json!(1_000_000));
        with("two partitions", &|r| {
            let mut second = r["topics"][0]["partitions"][0].clone();
            second["partition"] = json!(1);
            r["topics"][0]["partitions"].as_array_mut().unwrap().insert(0, second);
        });
        if v >= 9 {
            with("an epoch of the future", &|r| r["topics"][0]["partitions"][0]["current_leader_epoch"] = json!(50));
            with("the epoch", &|r| r["topics"][0]["partitions"][0]["current_leader_epoch"] = epoch.clone());
        }
        if v >= 12 {
            with("a last epoch of the future", &|r| {
                r["topics"][0]["partitions"][0]["last_fetched_epoch"] = json!(50);
                r["topics"][0]["partitions"][0]["fetch_offset"] = json!(6);
            });
            with("the last epoch", &|r| r["topics"][0]["partitions"][0]["last_fetched_epoch"] = epoch.clone());
        }
        if v >= 11 {
            with("a rack", &|r| r["rack_id"] = json!("rack-1"));
        }
    }
}

pub(super) fn fetch_sessions(run: &mut Run) {
    let (id, none) = (run.known("topic_id", "read"), json!(NO_ID));
    for v in versions("Fetch").filter(|v| *v >= 7) {
        let topics = json!([fetch_topic(("read", &id), 0, 0), fetch_topic((NOWHERE, &none), 0, 0)]);
        let empty = json!([]);
        let answer = run.ask("Fetch", v, "session: begins", fetch_body((0, 0), &topics, &empty));
        run.learn("session_id", &format!("of version {v}"), &answer["session_id"]);
        let session = i32::try_from(answer["session_id"].as_i64().unwrap()).unwrap();
        run.ask("Fetch", v, "session: goes on", fetch_body((session, 1), &empty, &empty));
        let at_the_end = json!([fetch_topic(("read", &id), 0, 6)]);
        run.ask("Fetch", v, "session: another offset", fetch_body((session, 2), &at_the_end, &empty));
        run.ask("Fetch", v, "session: nothing new", fetch_body((session, 3), &empty, &empty));
        run.ask("Fetch", v, "session: an epoch again", fetch_body((session, 3), &empty, &empty));
        run.ask("Fetch", v, "session: an epoch too far", fetch_body((session, 9), &empty, &empty));
        let back = json!([fetch_topic(("read", &id), 1, 0)]);
        run.ask("Fetch", v, "session: one more partition", fetch_body((session, 4), &back, &empty));
        let forgotten = json!([{"topic": "read", "topic_id": id, "partitions": [0, 1]}]);
        run.ask("Fetch", v, "session: partitions forgotten", fetch_body((session, 5), &empty, &forgotten));
        run.ask("Fetch", v, "session: ends", fetch_body((session, -1), &empty, &empty));
        run.ask("Fetch", v, "session: is gone", fetch_body((session, 6), &empty, &empty));
        run.ask("Fetch", v, "session: never was", fetch_body((12_345, 1), &empty, &empty));
    }
}

pub(super) fn list_offsets(run: &mut Run) {
    let epoch =
        run.known("leader_epoch", "the first epoch").as_i64().and_then(|epoch| i32::try_from(epoch).ok()).unwrap();
    for v in versions("ListOffsets") {
        let of = |name: &str, partition: i32, epoch: i32, timestamp: i64| {
            json!({"replica_id": -1, "isolation_level": 0, "timeout_ms": 30_000, "topics": [{"name": name, "partitions": [
                {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}]}]})
        };
        for (case, timestamp) in [
            ("the latest", -1),
            ("the earliest", -2),
            ("the largest time", -3),
            ("the earliest here", -4),
            ("the latest in the tier", -5),
            ("the earliest to be tiered", -6),
            ("a special time that is none", -7),
            ("before all", 0),
            ("the time of the first", MADE),
            ("the time of the second", MADE + 10),
            ("between the second and the third", MADE + 11),
            ("between two batches", MADE + 500),
            ("the time of the last", MADE + 1_020),
            ("after all", MADE + 5_000),
        ] {
            run.ask("ListOffsets", v, case, of("read", 0, -1, timestamp));
        }
        for (case, timestamp) in [("empty: the latest", -1), ("empty: the largest time", -3), ("empty: a time", MADE)] {
            run.ask("ListOffsets", v, case, of("read", 1, -1, timestamp));
        }
        run.ask("ListOffsets", v, "an unknown topic", of(NOWHERE, 0, -1, -1));
        run.ask("ListOffsets", v, "an unknown partition", of("read", 77, -1, -1));
        let mut twice = of("read", 0, -1, -1);
        let again = twice["topics"][0]["partitions"][0].clone();
        twice["topics"][0]["partitions"].as_array_mut().unwrap().push(again);
        run.ask("ListOffsets", v, "a partition twice", twice);
        if v >= 2 {
            let mut committed = of("read", 0, -1, -1);
            committed["isolation_level"] = json!(1);
            run.ask("ListOffsets", v, "committed: the latest", committed);
        }
        if v >= 4 {
            run.ask("ListOffsets", v, "an epoch of the future", of("read", 0, 50, -1));
            run.ask("ListOffsets", v, "the epoch", of("read", 0, epoch, -1));
        }
    }
}

pub(super) fn leader_epochs(run: &mut Run) {
    let api = "OffsetForLeaderEpoch";
    let epoch =
        run.known("leader_epoch", "the first epoch").as_i64().and_then(|epoch| i32::try_from(epoch).ok()).unwrap();
    for v in versions(api) {
        let of = |name: &str, partition: i32, current: i32, epoch: i32| {
            json!({"replica_id": -1, "topics": [{"topic": name, "partitions": [
                {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}]}]})
        };
        run.ask(api, v, "the epoch", of("read", 0, -1, epoch));
        run.ask(api, v, "an epoch of the future", of("read", 0, -1, 55));
        run.ask(api, v, "no epoch", of("read", 0, -1, -1));
        run.ask(api, v, "the epoch of an empty partition", of("read", 1, -1, epoch));
        run.ask(api, v, "known to be led in the epoch", of("read", 0, epoch, epoch));
        run.ask(api, v, "known to be led in the future", of("read", 0, 50, epoch));
        run.ask(api, v, "an unknown topic", of(NOWHERE, 0, -1, epoch));
        run.ask(api, v, "an unknown partition", of("read", 77, -1, epoch));
    }
}

pub(super) fn describe_producers(run: &mut Run) {
    let api = "DescribeProducers";
    for v in versions(api) {
        let of = |name: &str, partitions: &[i32]| json!({"topics": [{"name": name, "partition_indexes": partitions}]});
        run.ask(api, v, "none", of("read", &[0, 1]));
        run.ask(api, v, "some", of("producers", &[0]));
        run.ask(api, v, "an unknown topic", of(NOWHERE, &[0]));
        run.ask(api, v, "an unknown partition", of("read", &[77]));
    }
}

pub(super) fn delete_records(run: &mut Run) {
    let api = "DeleteRecords";
    for v in versions(api) {
        let name = format!("shortened-{v}");
        super::topic(run, &name, 1, &[("retention.ms", "-1")]);
        for _ in 0..2 {
            run.peek("Produce", 7, &to(run, &name, 0, &batch(&["a", "b", "c"], Producer::NONE)));
        }
        let of = |name: &str, partition: i32, offset: i64| {
            json!({"topics": [{"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}],
                "timeout_ms": 30_000})
        };
        run.ask(api, v, "into a batch", of(&name, 0, 1));
        run.ask(api, v, "less than before", of(&name, 0, 0));
        run.ask(api, v, "beyond the end", of(&name, 0, 7));
        run.ask(api, v, "a negative offset", of(&name, 0, -5));
        run.ask(api, v, "an unknown topic", of(NOWHERE, 0, 1));
        run.ask(api, v, "an unknown partition", of(&name, 77, 1));
        let id = run.known("topic_id", &name);
        for (case, offset) in [("deleted", 0), ("the start inside a batch", 1)] {
            let fetch = *versions("Fetch").end() - v;
            run.ask("Fetch", fetch, case, fetch_request((&name, &id), 0, offset));
        }
        let all = *versions("ListOffsets").end() - v;
        run.ask(
            "ListOffsets",
            all,
            "the earliest after a deletion",
            json!({"replica_id": -1, "isolation_level": 0,
            "timeout_ms": 30_000, "topics": [{"name": name, "partitions": [
                {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}]}]}),
        );
        run.ask(api, v, "everything", of(&name, 0, -1));
        run.ask(api, v, "everything again", of(&name, 0, -1));
    }
}
