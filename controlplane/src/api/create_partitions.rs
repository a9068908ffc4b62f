//! CreatePartitions: more of them for a topic that is there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::Command;
use protocol::error::ErrorCode;
use protocol::messages::create_partitions_request::CreatePartitionsTopic;
use protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use protocol::wire::DecodeError;

use super::Call;
use crate::context::{Context, entropy, refuse_internal};
use crate::errors::Failure;

pub(super) async fn answer(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: CreatePartitionsRequest<'_> = call.request()?;
    call.bound(request.topics.len())?;
    let bound = context.apply_bound(request.timeout_ms);
    let mut times = HashMap::<&str, usize>::new();
    for topic in &request.topics {
        *times.entry(topic.name).or_default() += 1;
    }
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        results.push(if times[topic.name] > 1 {
            Err(Failure::new(ErrorCode::INVALID_REQUEST, "the topic is named twice"))
        } else {
            grow(context, topic, request.validate_only, bound).await
        });
    }
    // One that is named twice is answered once.
    let mut told = HashSet::new();
    let results = request
        .topics
        .iter()
        .zip(&results)
        .filter(|(topic, _)| told.insert(topic.name))
        .map(|(topic, result)| {
            let failure = result.as_ref().err();
            CreatePartitionsTopicResult {
                name: topic.name,
                error_code: call.note(failure.map_or(ErrorCode::NONE, |failure| failure.code)),
                error_message: failure.and_then(|failure| failure.message.as_deref()),
            }
        })
        .collect();
    Ok(call.respond(&CreatePartitionsResponse { results, ..Default::default() }))
}

async fn grow(
    context: &Context,
    wanted: &CreatePartitionsTopic<'_>,
    validate_only: bool,
    bound: Duration,
) -> Result<(), Failure> {
    let topic = context.store.topic(wanted.name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    refuse_internal(wanted.name)?;
    let total = u32::try_from(wanted.count)
        .map_err(|_| Failure::new(ErrorCode::INVALID_PARTITIONS, "the count must not be negative"))?;
    if let Some(assignments) = &wanted.assignments {
        let node = context.store.image().broker.0;
        let more = usize::try_from(total.saturating_sub(topic.count())).unwrap_or(0);
        if assignments.len() != more || assignments.iter().any(|assignment| assignment.broker_ids != [node]) {
            let why = format!("there must be one assignment for each of {more} new partitions, to broker {node} alone");
            return Err(Failure::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
        }
    }
    let class = context.class(wanted.name, &topic.configs);
    let command = Command::CreatePartitions { id: topic.id, total, class, entropy: entropy()? };
    if validate_only {
        return Ok(context.store.check(&command)?);
    }
    context.change(command, bound).await?;
    Ok(())
}
