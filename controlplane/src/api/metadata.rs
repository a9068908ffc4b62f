//! Metadata: brokers, topics, partitions; topics created on first use.

use std::collections::HashSet;
use std::sync::Arc;

use base::TopicId;
use base::image::{Image, TopicEntry};
use protocol::error::ErrorCode;
use protocol::messages::metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};
use protocol::messages::{MetadataRequest, MetadataResponse};
use protocol::wire::DecodeError;

use super::{CLUSTER_OPERATIONS, Call, NO_OPERATIONS, TOPIC_OPERATIONS, id_text, int};
use crate::context::{Context, ImageExt as _};
use crate::errors::Failure;

/// Most topics one request creates; the client asks for the rest again.
const CREATED_MAX: usize = 256;

/// More partitions than this make a response large.
const LARGE: usize = 10_000;

/// A topic to show, or what to say of one that is not there.
enum Shown<'a> {
    Topic(Arc<TopicEntry>),
    Missing { name: Option<&'a str>, id: TopicId, code: ErrorCode },
}

pub(super) async fn answer(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: MetadataRequest<'_> = call.request()?;
    let version = call.version();
    // Version 0 knows no null: an empty list asks for all.
    if version < 12
        && request.topics.iter().flatten().any(|topic| topic.name.is_none() || topic.topic_id != TopicId::ZERO)
    {
        return Ok(refused(call, &request));
    }
    let asked = request.topics.as_ref().filter(|topics| version > 0 || !topics.is_empty());
    let shown = match asked {
        None => all(&context.store.image()),
        Some(topics) => {
            // A name that comes a million times is shown once, as Kafka does.
            let mut seen = HashSet::new();
            let names =
                topics.iter().map(|topic| (topic.name, topic.topic_id)).filter(|one| seen.insert(*one)).collect();
            let create = context.settings.auto_create_topics && (version < 4 || request.allow_auto_topic_creation);
            find(context, names, create).await
        }
    };
    let image = context.store.image();
    let partitions: usize = shown.iter().map(Shown::partitions).sum();
    let _large = if partitions > LARGE { context.large.acquire().await.ok() } else { None };
    let address = image.address(call.listener);
    let cluster_id = id_text(image.cluster.0);
    let node = image.node().0;
    let operations = |asked: bool, all: i32| if asked { all } else { NO_OPERATIONS };
    let topic_operations = operations(request.include_topic_authorized_operations, TOPIC_OPERATIONS);
    let response = MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: node,
            host: &address.host,
            port: address.port.into(),
            rack: None,
        }],
        cluster_id: Some(&cluster_id),
        controller_id: node,
        topics: shown.iter().map(|topic| topic.response(call, node, topic_operations)).collect(),
        cluster_authorized_operations: operations(request.include_cluster_authorized_operations, CLUSTER_OPERATIONS),
        ..Default::default()
    };
    Ok(call.respond(&response))
}

/// Ids in a request mean something from version 12 on only; before, the request as a whole is wrong.
fn refused(call: &Call<'_>, request: &MetadataRequest<'_>) -> Vec<u8> {
    let topics = request.topics.iter().flatten().map(|topic| MetadataResponseTopic {
        error_code: call.note(ErrorCode::INVALID_REQUEST),
        name: Some(topic.name.unwrap_or_default()),
        topic_id: topic.topic_id,
        topic_authorized_operations: NO_OPERATIONS,
        ..Default::default()
    });
    call.respond(&MetadataResponse {
        controller_id: -1,
        topics: topics.collect(),
        cluster_authorized_operations: NO_OPERATIONS,
        ..Default::default()
    })
}

fn all<'a>(image: &Image) -> Vec<Shown<'a>> {
    let mut topics: Vec<_> = image.topics.values().cloned().collect();
    topics.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    topics.into_iter().map(Shown::Topic).collect()
}

async fn find<'a>(context: &Arc<Context>, asked: Vec<(Option<&'a str>, TopicId)>, create: bool) -> Vec<Shown<'a>> {
    let mut shown = Vec::with_capacity(asked.len());
    let mut created = 0;
    for (name, id) in asked {
        let image = context.store.image();
        let missing = |code| Shown::Missing { name, id, code };
        // An id counts whatever the name is: Java's clients leave it empty, not null.
        if id != TopicId::ZERO {
            shown.push(match image.topics_by_id.get(&id) {
                Some(topic) => Shown::Topic(topic.clone()),
                None => Shown::Missing { name: None, id, code: ErrorCode::UNKNOWN_TOPIC_ID },
            });
            continue;
        }
        shown.push(match name {
            None => missing(ErrorCode::INVALID_REQUEST),
            Some(name) => match image.topics.get(name) {
                Some(topic) => Shown::Topic(topic.clone()),
                None if cluster::name::check(name).is_err() => missing(ErrorCode::INVALID_TOPIC_EXCEPTION),
                None if !create => missing(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                None if created == CREATED_MAX => missing(ErrorCode::LEADER_NOT_AVAILABLE),
                None => {
                    created += 1;
                    match create_topic(context, name).await {
                        Ok(topic) => Shown::Topic(topic),
                        Err(code) => missing(code),
                    }
                }
            },
        });
    }
    shown
}

async fn create_topic(context: &Arc<Context>, name: &str) -> Result<Arc<TopicEntry>, ErrorCode> {
    let partitions = if cluster::name::is_internal(name) {
        context.settings.offsets_topic_partitions
    } else {
        context.settings.num_partitions
    };
    let result: Result<(), Failure> = async {
        let command = context.create_topic(name, partitions, Vec::new())?;
        context.change(command, context.settings.apply_bound).await?;
        context.stats.topics_auto_created.up();
        Ok(())
    }
    .await;
    match result {
        Ok(()) => {}
        // Another client has been faster.
        Err(failure) if failure.code == ErrorCode::TOPIC_ALREADY_EXISTS => {}
        // The topic will be there in a moment: the client asks again.
        Err(failure) if failure.code == ErrorCode::REQUEST_TIMED_OUT => return Err(ErrorCode::LEADER_NOT_AVAILABLE),
        Err(failure) => {
            tracing::debug!(topic = name, ?failure, "a topic asked for was not created");
            return Err(failure.code);
        }
    }
    context.store.image().topics.get(name).cloned().ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
}

impl Shown<'_> {
    fn partitions(&self) -> usize {
        match self {
            Self::Topic(topic) => topic.partitions.len(),
            Self::Missing { .. } => 0,
        }
    }

    fn response(&self, call: &Call<'_>, node: i32, topic_authorized_operations: i32) -> MetadataResponseTopic<'_> {
        match self {
            Self::Missing { name, id, code } => MetadataResponseTopic {
                error_code: call.note(*code),
                // Only version 12 and up know a topic without a name.
                name: if call.version() < 12 { Some(name.unwrap_or("")) } else { *name },
                topic_id: *id,
                is_internal: name.is_some_and(cluster::name::is_internal),
                partitions: Vec::new(),
                topic_authorized_operations,
            },
            Self::Topic(topic) => MetadataResponseTopic {
                error_code: ErrorCode::NONE,
                name: Some(&topic.name),
                topic_id: topic.id,
                is_internal: topic.internal,
                partitions: topic
                    .partitions
                    .iter()
                    .enumerate()
                    .map(|(index, partition)| MetadataResponsePartition {
                        error_code: ErrorCode::NONE,
                        partition_index: int(index),
                        leader_id: node,
                        leader_epoch: partition.epoch.0,
                        replica_nodes: vec![node],
                        isr_nodes: vec![node],
                        offline_replicas: Vec::new(),
                    })
                    .collect(),
                topic_authorized_operations,
            },
        }
    }
}
