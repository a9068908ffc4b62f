//! DescribeProducers (KIP-664): idempotent producers with state in a partition.

use std::sync::Arc;

use base::message::{Outcome, ProducerInfo, ShardCommand};
use protocol::error::ErrorCode;
use protocol::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use protocol::messages::{DescribeProducersRequest, DescribeProducersResponse};
use protocol::wire::DecodeError;

use super::Call;
use crate::context::{Context, partition_of, unexpected};
use crate::errors::Failure;
use crate::shards::side_by_side;

pub(super) async fn answer(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: DescribeProducersRequest<'_> = call.request()?;
    call.bound(request.topics.iter().map(|topic| 1 + topic.partition_indexes.len()).sum())?;
    // A partition asked for a thousand times would bring its ten thousand producers a thousand times.
    let mut seen = std::collections::HashSet::new();
    let _large = context.large.acquire().await.ok();
    let image = context.store.image();
    let mut questions = Vec::new();
    for topic in &request.topics {
        questions.extend(topic.partition_indexes.iter().map(|index| {
            if seen.insert((topic.name, *index)) {
                partition_of(&image, topic.name, *index).map_err(Failure::from)
            } else {
                Err(Failure::new(ErrorCode::INVALID_REQUEST, "the partition is named twice"))
            }
        }));
    }
    let answers = side_by_side(questions, |partition| {
        let context = context.clone();
        async move {
            let partition = partition?;
            match context.ask(partition.shard, ShardCommand::Producers { partition: partition.id }).await? {
                Outcome::Producers(producers) => Ok(producers),
                other => Err(unexpected(&other)),
            }
        }
    });
    let mut results: Vec<Result<Vec<ProducerInfo>, Failure>> =
        answers.await.into_iter().map(|result| result.unwrap_or(Err(ErrorCode::UNKNOWN_SERVER_ERROR.into()))).collect();
    let mut results = results.drain(..);
    let topics = request
        .topics
        .iter()
        .map(|topic| TopicResponse {
            name: topic.name,
            partitions: topic
                .partition_indexes
                .iter()
                .map(|index| {
                    let result = results.next().expect("there is a result for each question");
                    respond(call, *index, result)
                })
                .collect(),
        })
        .collect();
    Ok(call.respond(&DescribeProducersResponse { topics, ..Default::default() }))
}

fn respond<'a>(
    call: &Call<'_>,
    partition_index: i32,
    result: Result<Vec<ProducerInfo>, Failure>,
) -> PartitionResponse<'a> {
    match result {
        Ok(producers) => PartitionResponse {
            partition_index,
            active_producers: producers
                .iter()
                .map(|producer| ProducerState {
                    producer_id: producer.id.0,
                    producer_epoch: producer.epoch.0.into(),
                    last_sequence: producer.last_sequence,
                    last_timestamp: producer.last_timestamp.0,
                    // No transaction, no coordinator of one.
                    coordinator_epoch: -1,
                    current_txn_start_offset: -1,
                })
                .collect(),
            ..Default::default()
        },
        Err(failure) => {
            let error_message = match failure.code {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Some("there is no such partition"),
                _ => None,
            };
            PartitionResponse {
                partition_index,
                error_code: call.note(failure.code),
                error_message,
                ..Default::default()
            }
        }
    }
}
