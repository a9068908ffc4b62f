//! DescribeConfigs, AlterConfigs, IncrementalAlterConfigs.

use protocol::messages::describe_configs_request::DescribeConfigsResource;
use protocol::messages::*;

use super::*;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

fn describe<'a>(resource_type: i8, resource_name: &'a str, keys: Option<Vec<&'a str>>) -> DescribeConfigsRequest<'a> {
    DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource { resource_type, resource_name, configuration_keys: keys }],
        include_synonyms: true,
        include_documentation: true,
    }
}

fn set_all<'a>(name: &'a str, configs: &[(&'a str, &'a str)]) -> AlterConfigsRequest<'a> {
    use alter_configs_request::{AlterConfigsResource, AlterableConfig};
    let configs = configs.iter().map(|(name, value)| AlterableConfig { name, value: Some(value) }).collect();
    let resources = vec![AlterConfigsResource { resource_type: TOPIC, resource_name: name, configs }];
    AlterConfigsRequest { resources, validate_only: false }
}

fn change<'a>(
    kind: i8,
    name: &'a str,
    changes: &[(&'a str, i8, Option<&'a str>)],
) -> IncrementalAlterConfigsRequest<'a> {
    use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
    let one = |&(name, config_operation, value): &(&'a str, i8, Option<&'a str>)| AlterableConfig {
        name,
        config_operation,
        value,
    };
    let configs = changes.iter().map(one).collect();
    let resources = vec![AlterConfigsResource { resource_type: kind, resource_name: name, configs }];
    IncrementalAlterConfigsRequest { resources, validate_only: false }
}

#[tokio::test]
async fn every_setting_is_shown_with_value_source_and_meaning() {
    let bench = Bench::with(|settings| settings.topic_defaults.retention_bytes = 12345);
    bench.topic("t", vec![FakeLog::default()]).await;
    ask!(bench, set_all("t", &[("retention.ms", "60000")]), 2 => altered: AlterConfigsResponse<'_>);
    assert_eq!(altered.responses[0].error_code, OK);
    ask!(bench, describe(TOPIC, "t", None), 4 => response: DescribeConfigsResponse<'_>);
    let configs = &response.results[0].configs;
    assert_eq!(configs.len(), cluster::config::TOPIC_CONFIGS.len());
    let config = |name: &str| configs.iter().find(|config| config.name == name).unwrap();
    let own = config("retention.ms");
    assert_eq!((own.value, own.config_source, own.config_type), (Some("60000"), 1, 5));
    let synonyms: Vec<_> = own.synonyms.iter().map(|s| (s.name, s.value.unwrap(), s.source)).collect();
    assert_eq!(synonyms, [("retention.ms", "60000", 1), ("log.retention.ms", "604800000", 5)]);
    let broker = config("retention.bytes");
    assert_eq!((broker.value, broker.config_source), (Some("12345"), 4));
    assert_eq!(config("cleanup.policy").value, Some("delete"));
    assert!(config("segment.bytes").documentation.unwrap().contains("without effect"));
    assert!(config("unclean.leader.election.enable").documentation.unwrap().contains("Only false is accepted"));
}

#[tokio::test]
async fn only_the_keys_asked_for_are_shown() {
    let bench = Bench::start();
    bench.topic("t", vec![FakeLog::default()]).await;
    ask!(bench, describe(TOPIC, "t", Some(vec!["retention.ms", "none"])), 1 => response: DescribeConfigsResponse<'_>);
    let names: Vec<_> = response.results[0].configs.iter().map(|config| config.name).collect();
    assert_eq!(names, ["retention.ms"]);
}

#[tokio::test]
async fn the_broker_shows_its_settings_and_takes_no_change() {
    let bench = Bench::with(|settings| settings.num_partitions = 7);
    ask!(bench, describe(BROKER, "1", None), 4 => response: DescribeConfigsResponse<'_>);
    let configs = &response.results[0].configs;
    let config = |name: &str| configs.iter().find(|config| config.name == name).unwrap();
    assert_eq!((config("num.partitions").value, config("num.partitions").config_source), (Some("7"), 4));
    assert_eq!(config("message.max.bytes").value, Some("10489856"));
    assert!(configs.iter().all(|config| config.read_only));
    ask!(bench, describe(BROKER, "2", None), 4 => response: DescribeConfigsResponse<'_>);
    assert_eq!(response.results[0].error_code, ErrorCode::INVALID_REQUEST);
    ask!(bench, change(BROKER, "1", &[("num.partitions", 0, Some("3"))]), 1 => response: IncrementalAlterConfigsResponse<'_>);
    assert_eq!(response.responses[0].error_code, ErrorCode::INVALID_CONFIG);
    ask!(bench, change(BROKER, "2", &[("num.partitions", 0, Some("3"))]), 1 => response: IncrementalAlterConfigsResponse<'_>);
    assert_eq!(response.responses[0].error_code, ErrorCode::INVALID_REQUEST);
}

#[tokio::test]
async fn unknown_topics_and_kinds_are_refused_by_name() {
    let bench = Bench::start();
    for (kind, name, expected) in [
        (TOPIC, "none", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode::INVALID_TOPIC_EXCEPTION),
        (8, "1", ErrorCode::INVALID_REQUEST),
        (0, "", ErrorCode::INVALID_REQUEST),
    ] {
        ask!(bench, describe(kind, name, None), 4 => response: DescribeConfigsResponse<'_>);
        assert_eq!(response.results[0].error_code, expected, "{kind} {name}");
    }
}

#[tokio::test]
async fn a_change_reaches_the_data_path_and_a_wrong_one_changes_nothing() {
    let bench = Bench::start();
    bench.topic("t", vec![FakeLog::default()]).await;
    let config = || bench.control.context().store.image().topics.get("t").unwrap().config.clone();
    let set = |name, value| change(TOPIC, "t", &[(name, 0, Some(value))]);
    for (name, value) in [("retention.ms", "5000"), ("max.message.bytes", "2048"), ("min.insync.replicas", "2")] {
        ask!(bench, set(name, value), 1 => response: IncrementalAlterConfigsResponse<'_>);
        assert_eq!(response.responses[0].error_code, OK, "{name}");
    }
    let changed = config();
    assert_eq!((changed.retention_ms, changed.max_message_bytes, changed.min_insync_replicas), (5000, 2048, 2));
    for (name, op, value) in [
        ("cleanup.policy", 0, Some("compact")),
        ("cleanup.policy", 2, Some("compact")),
        ("retention.ms", 2, Some("1")),
        ("no.such", 0, Some("1")),
        ("max.message.bytes", 0, Some("99999999999")),
    ] {
        ask!(bench, change(TOPIC, "t", &[(name, op, value)]), 1 => response: IncrementalAlterConfigsResponse<'_>);
        assert_eq!(response.responses[0].error_code, ErrorCode::INVALID_CONFIG, "{name} {op} {value:?}");
    }
    ask!(bench, change(TOPIC, "t", &[("retention.ms", 9, Some("1"))]), 1 => response: IncrementalAlterConfigsResponse<'_>);
    assert_eq!(response.responses[0].error_code, ErrorCode::INVALID_REQUEST);
    assert_eq!(config(), changed);
    ask!(bench, change(TOPIC, "t", &[("retention.ms", 1, None)]), 1 => response: IncrementalAlterConfigsResponse<'_>);
    assert_eq!((response.responses[0].error_code, config().retention_ms), (OK, 604_800_000));
    // AlterConfigs puts everything else back to its default.
    ask!(bench, set_all("t", &[("retention.bytes", "9")]), 1 => response: AlterConfigsResponse<'_>);
    let all = config();
    assert_eq!(response.responses[0].error_code, OK);
    assert_eq!((all.retention_bytes, all.max_message_bytes, all.min_insync_replicas), (9, 10_489_856, 1));
}

#[tokio::test]
async fn validate_only_checks_and_changes_nothing() {
    let bench = Bench::start();
    bench.topic("t", vec![FakeLog::default()]).await;
    let mut request = change(TOPIC, "t", &[("retention.ms", 0, Some("5"))]);
    request.validate_only = true;
    ask!(bench, request, 1 => response: IncrementalAlterConfigsResponse<'_>);
    assert_eq!(response.responses[0].error_code, OK);
    let mut request = set_all("t", &[("retention.ms", "soon")]);
    request.validate_only = true;
    ask!(bench, request, 2 => response: AlterConfigsResponse<'_>);
    assert_eq!(response.responses[0].error_code, ErrorCode::INVALID_CONFIG);
    assert_eq!(bench.control.context().store.image().topics.get("t").unwrap().config.retention_ms, 604_800_000);
}

#[test]
fn docs_list_every_topic_setting() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/TOPICS.md");
    let generated = format!(
        "# Settings of topics\n\n<!-- Generated from controlplane/cluster/src/config.rs; \
         `BLESS=1 cargo test -p barelog-controlplane docs_list` rewrites it. -->\n\n\
         What CreateTopics, AlterConfigs and IncrementalAlterConfigs take and DescribeConfigs shows. A setting that is not here, or \
         a value that is not among those named, is refused with INVALID_CONFIG. Where the default names a broker setting in \
         brackets, `barelog.toml` may give another.\n\n{}",
        cluster::config::markdown(&crate::settings::topic_defaults())
    );
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == generated, "docs/TOPICS.md is stale: BLESS=1 cargo test -p barelog-controlplane docs_list");
}
