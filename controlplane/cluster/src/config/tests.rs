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
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", ""),
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
        ("max.message.bytes", "2000"),
        ("message.timestamp.after.max.ms", "99"),
        ("message.timestamp.before.max.ms", "98"),
        ("message.timestamp.type", "LogAppendTime"),
        ("min.insync.replicas", "2"),
        ("retention.bytes", "97"),
        ("retention.ms", "96"),
    ];
    let applying = TOPIC_CONFIGS.iter().filter(|def| def.effect == Effect::Applies).map(|def| def.name);
    assert!(applying.eq(samples.iter().map(|sample| sample.0)), "a sample for each setting that applies");
    for (name, value) in samples {
        let overrides = check_all(&[pair(name, value)]).expect("valid");
        assert_ne!(resolve(&overrides, &defaults()), defaults(), "{name}");
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
    let compact = [ConfigChange { name: "cleanup.policy".into(), op: ConfigOp::Append, value: Some("compact".into()) }];
    assert!(change(&none, &compact, |_| "delete".into()).is_err());
    let unknown = [ConfigChange { name: "no.such".into(), op: ConfigOp::Delete, value: None }];
    assert!(change(&none, &unknown, no_default).is_err());
    assert!(check_all(&[pair("retention.ms", "1"), pair("retention.ms", "1")]).is_err());
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
