use super::*;

fn set(name: &str, value: &str) -> ConfigChange {
    ConfigChange { name: name.into(), op: ConfigOp::Set, value: Some(value.into()) }
}

fn pair(name: &str, value: &str) -> (Arc<str>, Arc<str>) {
    (name.into(), value.into())
}

fn defaults() -> TopicConfig {
    TopicConfig {
        retention_ms: 7,
        retention_bytes: -1,
        compaction: None,
        max_message_bytes: 1000,
        timestamp_type: TimestampType::Create,
        timestamp_before_ms_max: 5,
        timestamp_after_ms_max: 6,
        min_insync_replicas: 1,
    }
}

fn no_default(_: &ConfigDef) -> String {
    String::new()
}

#[test]
fn the_table_is_sorted_and_every_default_is_accepted() {
    assert!(TOPIC_CONFIGS.windows(2).all(|pair| pair[0].name < pair[1].name));
    for def in TOPIC_CONFIGS {
        let value = def.default_value(&defaults());
        assert_eq!(check(def.name, &value), Ok(()), "{}", def.name);
        assert!(find(def.name).is_some());
        assert!(def.doc.ends_with('.'), "{}", def.name);
    }
}

#[test]
fn what_does_not_exist_yet_is_refused() {
    for (name, value) in [
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,shred"),
        ("compression.type", "zstd"),
        ("remote.storage.enable", "true"),
        ("unclean.leader.election.enable", "true"),
    ] {
        assert!(check(name, value).is_err(), "{name}={value}");
    }
}

#[test]
fn keys_without_meaning_are_accepted_with_values_of_their_type() {
    for (name, good, bad) in [
        ("segment.bytes", "1048576", "big"),
        ("segment.ms", "60000", "0"),
        ("flush.messages", "1", "0"),
        ("preallocate", "true", "yes"),
        ("min.cleanable.dirty.ratio", "0.3", "3"),
        ("segment.bytes", "14", "13"),
        ("segment.bytes", "2147483647", "2147483648"),
    ] {
        assert_eq!(check(name, good), Ok(()), "{name}={good}");
        assert!(check(name, bad).is_err(), "{name}={bad}");
    }
    assert!(check("segment.byte", "1").is_err());
    assert!(check("leader.replication.throttled.replicas", &"0:1,".repeat(5000)).is_err());
}

#[test]
fn every_setting_that_applies_changes_what_the_data_path_gets() {
    let samples = [
        ("cleanup.policy", "compact"),
        ("delete.retention.ms", "95"),
        ("max.compaction.lag.ms", "94"),
        ("max.message.bytes", "2000"),
        ("message.timestamp.after.max.ms", "99"),
        ("message.timestamp.before.max.ms", "98"),
        ("message.timestamp.type", "LogAppendTime"),
        ("min.cleanable.dirty.ratio", "0.1"),
        ("min.compaction.lag.ms", "93"),
        ("min.insync.replicas", "2"),
        ("retention.bytes", "97"),
        ("retention.ms", "96"),
    ];
    let applying = TOPIC_CONFIGS.iter().filter(|def| def.effect == Effect::Applies).map(|def| def.name);
    assert!(applying.eq(samples.iter().map(|sample| sample.0)), "a sample for each setting that applies");
    for (name, value) in samples {
        // Some have a meaning for compacted topics only, some for others only.
        let changes = |policy: &str| {
            let before = check_all(&[pair("cleanup.policy", policy)]).expect("valid");
            let mut after = before.clone();
            after.extend(check_all(&[pair(name, value)]).expect("valid"));
            resolve(&after, &defaults()) != resolve(&before, &defaults())
        };
        assert!(changes("delete") || changes("compact"), "{name}");
    }
    for def in TOPIC_CONFIGS.iter().filter(|def| def.effect != Effect::Applies) {
        let overrides = check_all(&[pair(def.name, &def.default_value(&defaults()))]).expect("valid");
        assert_eq!(resolve(&overrides, &defaults()), defaults(), "{}", def.name);
    }
}

#[test]
fn incremental_changes_set_delete_append_and_subtract() {
    let list = "leader.replication.throttled.replicas";
    let change_one = |before: &Overrides, op, value: &str| {
        change(before, &[ConfigChange { name: list.into(), op, value: Some(value.into()) }], no_default)
    };
    let before = change(&Overrides::new(), &[set("retention.ms", "5"), set(list, "0:1")], no_default).expect("valid");
    let more = change_one(&before, ConfigOp::Append, "0:2, 0:1").expect("valid");
    assert_eq!(&*more[list], "0:1,0:2");
    let less = change_one(&more, ConfigOp::Subtract, "0:1").expect("valid");
    assert_eq!(&*less[list], "0:2");
    let gone = [ConfigChange { name: "retention.ms".into(), op: ConfigOp::Delete, value: None }];
    let after = change(&less, &gone, no_default).expect("valid");
    assert!(!after.contains_key("retention.ms") && after.contains_key(list));
}

#[test]
fn wrong_incremental_changes_are_refused() {
    let none = Overrides::new();
    let twice = [set("retention.ms", "1"), set("retention.ms", "2")];
    assert!(change(&none, &twice, no_default).is_err());
    let append = [ConfigChange { name: "retention.ms".into(), op: ConfigOp::Append, value: Some("1".into()) }];
    assert!(change(&none, &append, no_default).is_err());
    let empty = [ConfigChange { name: "retention.ms".into(), op: ConfigOp::Set, value: None }];
    assert!(change(&none, &empty, no_default).is_err());
    let lag = [set("min.compaction.lag.ms", "10"), set("max.compaction.lag.ms", "9")];
    assert!(change(&none, &lag, no_default).is_err());
    assert!(check_all(&[pair("min.compaction.lag.ms", "10"), pair("max.compaction.lag.ms", "9")]).is_err());
    let unknown = [ConfigChange { name: "no.such".into(), op: ConfigOp::Delete, value: None }];
    assert!(change(&none, &unknown, no_default).is_err());
    assert!(check_all(&[pair("retention.ms", "1"), pair("retention.ms", "1")]).is_err());
}

#[test]
fn a_policy_says_whether_records_go_by_key_by_time_or_both_and_stays_as_to_the_first() {
    let with = |policy: &str| check_all(&[pair("cleanup.policy", policy), pair("retention.ms", "7")]).expect("valid");
    for (policy, compacted, retention) in [
        ("delete", false, 7),
        ("compact", true, -1),
        ("compact,delete", true, 7),
        ("delete, compact", true, 7),
        ("compact,compact", true, -1),
    ] {
        let config = resolve(&with(policy), &defaults());
        assert_eq!((config.compaction.is_some(), config.retention_ms), (compacted, retention), "{policy}");
        for (other, same) in [("delete", !compacted), ("compact", compacted), ("delete,compact", compacted)] {
            assert_eq!(check_change(&with(policy), &with(other)).is_ok(), same, "{policy} to {other}");
        }
    }
    let all = [
        pair("cleanup.policy", "compact"),
        pair("delete.retention.ms", "1"),
        pair("min.compaction.lag.ms", "2"),
        pair("max.compaction.lag.ms", "3"),
        pair("min.cleanable.dirty.ratio", "0.25"),
    ];
    let config = resolve(&check_all(&all).expect("valid"), &defaults());
    let wanted = Compaction { delete_retention_ms: 1, lag_ms_min: 2, lag_ms_max: 3, dirty_ppm_min: 250_000 };
    assert_eq!(config.compaction, Some(wanted));
}

#[test]
fn lifetimes_put_a_day_a_week_and_for_ever_apart() {
    const DAY: i64 = 86_400_000;
    assert_eq!(lifetime(0), Lifetime::Short);
    assert_eq!(lifetime(DAY), Lifetime::Short);
    assert_eq!(lifetime(DAY + 1), Lifetime::Medium);
    assert_eq!(lifetime(7 * DAY), Lifetime::Medium);
    assert_eq!(lifetime(8 * DAY + 1), Lifetime::Long);
    assert_eq!(lifetime(-1), Lifetime::Long);
}
