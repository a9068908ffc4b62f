//! DeleteRecords: moves log starts, durably.

use std::sync::Arc;
use std::time::Duration;

use base::Offset;
use base::message::{Outcome, Refusal, ShardCommand};
use protocol::error::ErrorCode;
use protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use protocol::wire::DecodeError;

use super::Call;
use crate::context::{Context, partition_of, refuse_internal, unexpected};
use crate::errors::Failure;
use crate::shards::{ShardError, side_by_side};

/// How often a deletion that found no room is tried again, and how long after: 2 s, in which an extent is filled with zeros.
const FULL_TRIES: u32 = 20;
const FULL_PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn answer(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: DeleteRecordsRequest<'_> = call.request()?;
    call.bound(request.topics.iter().map(|topic| 1 + topic.partitions.len()).sum())?;
    let bound = context.apply_bound(request.timeout_ms);
    let image = context.store.image();
    let mut moves = Vec::new();
    for topic in &request.topics {
        let partitions = topic.partitions.iter();
        let allowed = refuse_internal(topic.name).map_err(|failure| failure.code);
        moves.extend(partitions.map(|one| {
            let partition = allowed.and_then(|()| partition_of(&image, topic.name, one.partition_index));
            (partition, Offset(one.offset))
        }));
    }
    let answers = side_by_side(moves, |(partition, to)| {
        let context = context.clone();
        async move {
            let partition = partition?;
            let ask = || {
                let command = ShardCommand::MoveStart { partition: partition.id, to };
                context.shards.ask(partition.shard, command, bound)
            };
            let mut answer = ask().await;
            // On a full device the first wish to delete is what asks for the room that is held back for it.
            for _ in 0..FULL_TRIES {
                if !matches!(answer, Err(ShardError::Refused(Refusal::Full))) {
                    break;
                }
                tokio::time::sleep(FULL_PAUSE).await;
                answer = ask().await;
            }
            moved(answer)
        }
    });
    let mut results = answers.await.into_iter();
    let topics = request
        .topics
        .iter()
        .map(|topic| DeleteRecordsTopicResult {
            name: topic.name,
            partitions: topic
                .partitions
                .iter()
                .map(|one| {
                    let result = results.next().flatten().unwrap_or(Err(ErrorCode::UNKNOWN_SERVER_ERROR));
                    DeleteRecordsPartitionResult {
                        partition_index: one.partition_index,
                        low_watermark: result.map_or(-1, |offset| offset.0),
                        error_code: call.note(result.err().unwrap_or(ErrorCode::NONE)),
                    }
                })
                .collect(),
        })
        .collect();
    Ok(call.respond(&DeleteRecordsResponse { topics, ..Default::default() }))
}

fn moved(outcome: Result<Outcome, ShardError>) -> Result<Offset, ErrorCode> {
    match outcome {
        Ok(Outcome::Moved(offset)) => Ok(offset),
        Ok(other) => Err(unexpected(&other).code),
        Err(error) => Err(Failure::from(error).code),
    }
}
