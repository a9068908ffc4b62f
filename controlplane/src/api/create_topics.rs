//! CreateTopics: checked, made durable, and answered when the shards serve them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use base::TopicId;
use cluster::Answer;
use cluster::config::{self, TOPIC_CONFIGS};
use protocol::error::ErrorCode;
use protocol::messages::create_topics_request::CreatableTopic;
use protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use protocol::wire::DecodeError;
use tokio::task::JoinSet;

use super::Call;
use super::describe_configs::{ShownConfig, topic_configs};
use crate::context::{Context, refuse_internal};
use crate::errors::Failure;

/// What became of one topic.
struct Created {
    id: TopicId,
    partitions: u32,
    configs: Vec<ShownConfig>,
}

pub(super) async fn answer(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: CreateTopicsRequest<'_> = call.request()?;
    call.bound(request.topics.iter().map(|topic| 1 + topic.configs.len()).sum())?;
    let bound = context.apply_bound(request.timeout_ms);
    let mut times = HashMap::<&str, usize>::new();
    for topic in &request.topics {
        *times.entry(topic.name).or_default() += 1;
    }
    // Proposed together, so that one durable write serves many topics.
    let mut results: Vec<Option<Result<Created, Failure>>> = Vec::with_capacity(request.topics.len());
    let mut tasks = JoinSet::new();
    for (index, topic) in request.topics.iter().enumerate() {
        let wanted = if times[topic.name] > 1 {
            Err(Failure::new(ErrorCode::INVALID_REQUEST, "the topic is named twice"))
        } else {
            Wanted::check(context, topic)
        };
        match wanted {
            Ok(wanted) => {
                results.push(None);
                let (context, validate_only) = (context.clone(), request.validate_only);
                tasks.spawn(async move { (index, wanted.create(&context, validate_only, bound).await) });
            }
            Err(failure) => results.push(Some(Err(failure))),
        }
    }
    while let Some(Ok((index, result))) = tasks.join_next().await {
        results[index] = Some(result.map_err(|failure| worded(failure, request.topics[index].name)));
    }
    let lost = Err(Failure::from(ErrorCode::UNKNOWN_SERVER_ERROR));
    // One that is named twice is answered once.
    let mut told = HashSet::new();
    let topics = request
        .topics
        .iter()
        .zip(&results)
        .filter(|(topic, _)| told.insert(topic.name))
        .map(|(topic, result)| respond(call, topic, result.as_ref().unwrap_or(&lost)))
        .collect();
    Ok(call.respond(&CreateTopicsResponse { topics, ..Default::default() }))
}

/// Kafka's own words where tools read them: they tell a topic that is there already from other errors by "already exists".
fn worded(failure: Failure, name: &str) -> Failure {
    match failure.code {
        ErrorCode::TOPIC_ALREADY_EXISTS => Failure::new(failure.code, format!("Topic '{name}' already exists.")),
        _ => failure,
    }
}

/// A topic that a client wants, checked as far as it can be without the state.
struct Wanted {
    name: Arc<str>,
    partitions: u32,
    configs: Vec<(Arc<str>, Arc<str>)>,
}

impl Wanted {
    fn check(context: &Context, topic: &CreatableTopic<'_>) -> Result<Self, Failure> {
        let partitions =
            if topic.assignments.is_empty() { partition_count(context, topic)? } else { assigned(context, topic)? };
        if !topic.configs.is_empty() {
            refuse_internal(topic.name)?;
        }
        let mut configs = Vec::with_capacity(topic.configs.len().min(TOPIC_CONFIGS.len()));
        for config in &topic.configs {
            let Some(value) = config.value else {
                return Err(Failure::new(ErrorCode::INVALID_CONFIG, format!("{}: a value is needed", config.name)));
            };
            config::check(config.name, value).map_err(cluster::Refused::Config)?;
            configs.push((config.name.into(), value.into()));
        }
        config::check_all(&configs).map_err(cluster::Refused::Config)?;
        Ok(Self { name: topic.name.into(), partitions, configs })
    }

    async fn create(self, context: &Context, validate_only: bool, bound: Duration) -> Result<Created, Failure> {
        let command = context.create_topic(&self.name, self.partitions, self.configs)?;
        let (id, overrides) = if validate_only {
            context.store.check(&command)?;
            let cluster::Command::CreateTopic { configs, .. } = &command else {
                unreachable!("create_topic makes such a command");
            };
            (TopicId::ZERO, config::check_all(configs).map_err(cluster::Refused::Config)?)
        } else {
            let Answer::Topic(topic) = context.change(command, bound).await? else {
                unreachable!("the state answers with the topic");
            };
            (topic.id, topic.configs.clone())
        };
        let configs = topic_configs(context, &overrides, None);
        Ok(Created { id, partitions: self.partitions, configs })
    }
}

fn partition_count(context: &Context, topic: &CreatableTopic<'_>) -> Result<u32, Failure> {
    match topic.replication_factor {
        -1 | 1 => {}
        2.. => {
            let why = "there is one broker: the replication factor can be 1 only";
            return Err(Failure::new(ErrorCode::INVALID_REPLICATION_FACTOR, why));
        }
        _ => {
            let why = "the replication factor must be larger than 0, or -1 for the default";
            return Err(Failure::new(ErrorCode::INVALID_REPLICATION_FACTOR, why));
        }
    }
    match topic.num_partitions {
        -1 => Ok(context.settings.num_partitions),
        n => u32::try_from(n).ok().filter(|n| *n > 0).ok_or_else(|| {
            Failure::new(ErrorCode::INVALID_PARTITIONS, "there must be at least one partition, or -1 for the default")
        }),
    }
}

/// Manual assignments are fine as long as they say what would happen anyway.
fn assigned(context: &Context, topic: &CreatableTopic<'_>) -> Result<u32, Failure> {
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        let why = "with manual assignments, partition count and replication factor must be -1";
        return Err(Failure::new(ErrorCode::INVALID_REQUEST, why));
    }
    let node = context.store.image().broker.0;
    let mut indexes: Vec<i32> = topic.assignments.iter().map(|assignment| assignment.partition_index).collect();
    indexes.sort_unstable();
    let dense = indexes.iter().zip(0..).all(|(index, expected)| *index == expected);
    if !dense || topic.assignments.iter().any(|assignment| assignment.broker_ids != [node]) {
        let why = format!("partitions must be numbered from 0 without gaps, each on broker {node} alone");
        return Err(Failure::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
    }
    u32::try_from(indexes.len()).map_err(|_| ErrorCode::INVALID_PARTITIONS.into())
}

fn respond<'a>(
    call: &Call<'_>,
    topic: &CreatableTopic<'a>,
    result: &'a Result<Created, Failure>,
) -> CreatableTopicResult<'a> {
    match result {
        Ok(created) => CreatableTopicResult {
            name: topic.name,
            topic_id: created.id,
            num_partitions: created.partitions.cast_signed(),
            replication_factor: 1,
            configs: Some(
                created
                    .configs
                    .iter()
                    .map(|config| CreatableTopicConfigs {
                        name: config.def.name,
                        value: Some(&config.value),
                        read_only: false,
                        config_source: config.source,
                        is_sensitive: false,
                    })
                    .collect(),
            ),
            ..Default::default()
        },
        Err(failure) => CreatableTopicResult {
            name: topic.name,
            error_code: call.note(failure.code),
            error_message: failure.message.as_deref(),
            num_partitions: -1,
            replication_factor: -1,
            configs: Some(Vec::new()),
            ..Default::default()
        },
    }
}
