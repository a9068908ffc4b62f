//! DescribeConfigs of topics and of this broker.

use cluster::config::{ConfigDef, Overrides, TOPIC_CONFIGS};
use protocol::error::ErrorCode;
use protocol::messages::describe_configs_request::DescribeConfigsResource;
use protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use protocol::wire::DecodeError;

use super::Call;
use crate::context::Context;
use crate::errors::Failure;
use crate::settings::{BrokerSettings, topic_defaults};

/// `ConfigResource.Type.TOPIC`.
pub(crate) const TOPIC: i8 = 2;
/// `ConfigResource.Type.BROKER`.
pub(crate) const BROKER: i8 = 4;

/// `ConfigSource.DYNAMIC_TOPIC_CONFIG`: the topic's own.
const SOURCE_TOPIC: i8 = 1;
/// `ConfigSource.STATIC_BROKER_CONFIG`: from the broker's file.
const SOURCE_BROKER: i8 = 4;
/// `ConfigSource.DEFAULT_CONFIG`: built in.
const SOURCE_DEFAULT: i8 = 5;

/// A topic's setting as it is shown.
pub(crate) struct ShownConfig {
    pub(crate) def: &'static ConfigDef,
    pub(crate) value: String,
    pub(crate) source: i8,
    documentation: String,
    /// Name, value and source of every place that gives a value, the one that holds first.
    synonyms: Vec<(&'static str, String, i8)>,
}

/// The settings of a topic, those named or all.
pub(crate) fn topic_configs(context: &Context, overrides: &Overrides, only: Option<&[&str]>) -> Vec<ShownConfig> {
    let named = |def: &&ConfigDef| only.is_none_or(|only| only.contains(&def.name));
    TOPIC_CONFIGS
        .iter()
        .filter(named)
        .map(|def| {
            let built_in = def.default_value(&topic_defaults());
            let default = def.default_value(&context.settings.topic_defaults);
            let mut synonyms = Vec::new();
            if let Some(value) = overrides.get(def.name) {
                synonyms.push((def.name, value.to_string(), SOURCE_TOPIC));
            }
            let default_name = def.broker_name.unwrap_or(def.name);
            if default != built_in {
                synonyms.push((default_name, default, SOURCE_BROKER));
            }
            synonyms.push((default_name, built_in, SOURCE_DEFAULT));
            let (_, value, source) = synonyms[0].clone();
            ShownConfig { def, value, source, documentation: def.documentation(), synonyms }
        })
        .collect()
}

/// A setting of the broker as it is shown: read at start, so read-only.
struct BrokerConfig {
    name: &'static str,
    value: String,
    default: String,
    wire_type: i8,
    doc: &'static str,
}

const BOOLEAN: i8 = 1;
const STRING: i8 = 2;
const INT: i8 = 3;
const LONG: i8 = 5;

fn broker_configs(settings: &BrokerSettings, node: i32) -> Vec<BrokerConfig> {
    let built_in = BrokerSettings::default();
    let mut configs = Vec::new();
    let mut add = |name, wire_type, doc, value: &dyn Fn(&BrokerSettings) -> String| {
        configs.push(BrokerConfig { name, value: value(settings), default: value(&built_in), wire_type, doc });
    };
    add("auto.create.topics.enable", BOOLEAN, "Whether a topic is created when a client asks for it.", &|s| {
        s.auto_create_topics.to_string()
    });
    add("connections.max.idle.ms", LONG, "A connection without a request for so long is closed; -1 never.", &|s| {
        s.connections_max_idle_ms.to_string()
    });
    add("default.replication.factor", INT, "Replicas of a topic that is created without saying.", &|_| "1".to_owned());
    add("group.initial.rebalance.delay.ms", INT, "How long the first rebalance of a group waits for members.", &|s| {
        s.group_initial_rebalance_delay_ms.to_string()
    });
    add("group.max.session.timeout.ms", INT, "Longest session timeout of a member.", &|s| {
        s.group_max_session_timeout_ms.to_string()
    });
    add("group.consumer.heartbeat.interval.ms", INT, "How often a member of a consumer group is to be heard.", &|s| {
        s.group_consumer_heartbeat_interval_ms.to_string()
    });
    add("group.consumer.max.size", INT, "Most members of a consumer group.", &|s| {
        s.group_consumer_max_size.to_string()
    });
    add("group.consumer.session.timeout.ms", INT, "How long a member of a consumer group may be silent.", &|s| {
        s.group_consumer_session_timeout_ms.to_string()
    });
    add("group.max.size", INT, "Most members of a group.", &|s| s.group_max_size.to_string());
    add("group.min.session.timeout.ms", INT, "Shortest session timeout of a member.", &|s| {
        s.group_min_session_timeout_ms.to_string()
    });
    add("num.partitions", INT, "Partitions of a topic that is created without saying.", &|s| {
        s.num_partitions.to_string()
    });
    add("offsets.retention.minutes", INT, "How long the offsets of an empty group are kept.", &|s| {
        s.offsets_retention_minutes.to_string()
    });
    add("offsets.topic.num.partitions", INT, "Partitions of __consumer_offsets, when it is made.", &|s| {
        s.offsets_topic_partitions.to_string()
    });
    add("producer.id.expiration.ms", INT, "How long an idle idempotent producer is remembered.", &|s| {
        s.producer_id_expiration_ms.to_string()
    });
    for def in TOPIC_CONFIGS {
        if let Some(name) = def.broker_name {
            add(name, def.kind.wire_type(), def.doc, &|s| def.default_value(&s.topic_defaults));
        }
    }
    configs.push(BrokerConfig {
        name: "node.id",
        value: node.to_string(),
        default: node.to_string(),
        wire_type: INT,
        doc: "This broker's node id.",
    });
    configs.push(BrokerConfig {
        name: "log.cleanup.policy",
        value: "delete".to_owned(),
        default: "delete".to_owned(),
        wire_type: STRING,
        doc: "How old records are disposed of.",
    });
    configs.sort_unstable_by_key(|config| config.name);
    configs
}

/// One resource as it is shown, with whatever its texts borrow.
enum Shown {
    Topic(Vec<ShownConfig>),
    Broker(Vec<BrokerConfig>),
}

pub(super) fn answer(context: &Context, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: DescribeConfigsRequest<'_> = call.request()?;
    // A resource of a dozen bytes brings an answer of some kilobytes.
    call.bound(32 * request.resources.len())?;
    let shown: Vec<Result<Shown, Failure>> = request.resources.iter().map(|resource| show(context, resource)).collect();
    let results = request
        .resources
        .iter()
        .zip(&shown)
        .map(|(resource, shown)| respond(call, &request, resource, shown))
        .collect();
    Ok(call.respond(&DescribeConfigsResponse { results, ..Default::default() }))
}

fn show(context: &Context, resource: &DescribeConfigsResource<'_>) -> Result<Shown, Failure> {
    // Kafka's older clients send an empty list for "all".
    let only = resource.configuration_keys.as_deref().filter(|keys| !keys.is_empty());
    match resource.resource_type {
        TOPIC => {
            cluster::name::check(resource.resource_name)
                .map_err(|error| Failure::new(ErrorCode::INVALID_TOPIC_EXCEPTION, error.rule()))?;
            let unknown = || Failure::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "");
            let topic = context.store.topic(resource.resource_name).ok_or_else(unknown)?;
            Ok(Shown::Topic(topic_configs(context, &topic.configs, only)))
        }
        BROKER => {
            let node = context.store.image().broker.0;
            let configs = match resource.resource_name {
                // The defaults that all brokers share and that could change at run time: there are none.
                "" => Vec::new(),
                name if name == node.to_string() => broker_configs(&context.settings, node),
                name => {
                    let why = format!("this is broker {node}, not {name:?}");
                    return Err(Failure::new(ErrorCode::INVALID_REQUEST, why));
                }
            };
            let named = |config: &BrokerConfig| only.is_none_or(|only| only.contains(&config.name));
            Ok(Shown::Broker(configs.into_iter().filter(named).collect()))
        }
        other => Err(unknown_resource(other)),
    }
}

pub(crate) fn unknown_resource(kind: i8) -> Failure {
    Failure::new(ErrorCode::INVALID_REQUEST, format!("resources of type {kind} have no settings here"))
}

fn respond<'a>(
    call: &Call<'_>,
    request: &DescribeConfigsRequest<'_>,
    resource: &DescribeConfigsResource<'a>,
    shown: &'a Result<Shown, Failure>,
) -> DescribeConfigsResult<'a> {
    let (resource_type, resource_name) = (resource.resource_type, resource.resource_name);
    let configs = match shown {
        Ok(Shown::Topic(configs)) => configs.iter().map(|config| topic_row(request, config)).collect(),
        Ok(Shown::Broker(configs)) => configs.iter().map(|config| broker_row(request, config)).collect(),
        Err(failure) => {
            return DescribeConfigsResult {
                error_code: call.note(failure.code),
                error_message: failure.message.as_deref(),
                resource_type,
                resource_name,
                configs: Vec::new(),
            };
        }
    };
    // Kafka's text of no error.
    DescribeConfigsResult { error_message: Some(""), resource_type, resource_name, configs, ..Default::default() }
}

fn topic_row<'a>(request: &DescribeConfigsRequest<'_>, config: &'a ShownConfig) -> DescribeConfigsResourceResult<'a> {
    let synonym = |(name, value, source): &'a (&'static str, String, i8)| DescribeConfigsSynonym {
        name,
        value: Some(value),
        source: *source,
    };
    DescribeConfigsResourceResult {
        name: config.def.name,
        value: Some(&config.value),
        config_source: config.source,
        synonyms: if request.include_synonyms { config.synonyms.iter().map(synonym).collect() } else { Vec::new() },
        config_type: config.def.kind.wire_type(),
        documentation: request.include_documentation.then_some(&*config.documentation),
        ..Default::default()
    }
}

fn broker_row<'a>(request: &DescribeConfigsRequest<'_>, config: &'a BrokerConfig) -> DescribeConfigsResourceResult<'a> {
    let source = if config.value == config.default { SOURCE_DEFAULT } else { SOURCE_BROKER };
    let mut synonyms = Vec::new();
    if request.include_synonyms {
        if source == SOURCE_BROKER {
            synonyms.push(DescribeConfigsSynonym { name: config.name, value: Some(&config.value), source });
        }
        let value = Some(&*config.default);
        synonyms.push(DescribeConfigsSynonym { name: config.name, value, source: SOURCE_DEFAULT });
    }
    DescribeConfigsResourceResult {
        name: config.name,
        value: Some(&config.value),
        read_only: true,
        config_source: source,
        synonyms,
        config_type: config.wire_type,
        documentation: request.include_documentation.then_some(config.doc),
        ..Default::default()
    }
}
