//! OffsetForLeaderEpoch (KIP-320): where an epoch ended, so that a consumer notices a truncated log.

use std::sync::Arc;

use base::Epoch;
use base::message::{Outcome, ShardCommand};
use protocol::error::ErrorCode;
use protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use protocol::wire::DecodeError;

use super::Call;
use crate::context::{Context, check_epoch, partition_of, unexpected};
use crate::shards::side_by_side;

pub(super) async fn answer(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: OffsetForLeaderEpochRequest<'_> = call.request()?;
    call.bound_many(request.topics.iter().map(|topic| 1 + topic.partitions.len()).sum())?;
    let image = context.store.image();
    let mut questions = Vec::new();
    for topic in &request.topics {
        let partitions = topic.partitions.iter();
        questions.extend(partitions.map(|one| {
            let partition = partition_of(&image, topic.topic, one.partition);
            (partition, one.current_leader_epoch, Epoch(one.leader_epoch))
        }));
    }
    let answers = side_by_side(questions, |(partition, claimed, epoch)| {
        let context = context.clone();
        async move {
            let partition = partition?;
            check_epoch(claimed, partition.epoch)?;
            if epoch > partition.epoch {
                return Ok(None);
            }
            if epoch == partition.epoch {
                // It ends where the log does, even if nothing of it is left.
                let bounds = context.bounds_of(&partition).await.map_err(|failure| failure.code)?;
                return Ok(Some((epoch, bounds.high_watermark)));
            }
            let command = ShardCommand::EpochEnd { partition: partition.id, epoch };
            match context.ask(partition.shard, command).await.map_err(|failure| failure.code)? {
                Outcome::EpochEnd(end) => Ok(end),
                other => Err(unexpected(&other).code),
            }
        }
    });
    let mut results = answers.await.into_iter();
    let mut next = |partition: i32| {
        let result = results.next().flatten().unwrap_or(Err(ErrorCode::UNKNOWN_SERVER_ERROR));
        let error_code = call.note(result.err().unwrap_or(ErrorCode::NONE));
        // No epoch at or below the one asked for: Kafka's "undefined" for both.
        let (leader_epoch, end_offset) =
            result.ok().flatten().map_or((-1, -1), |(epoch, offset): (Epoch, base::Offset)| (epoch.0, offset.0));
        EpochEndOffset { error_code, partition, leader_epoch, end_offset }
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| OffsetForLeaderTopicResult {
            topic: topic.topic,
            partitions: topic.partitions.iter().map(|one| next(one.partition)).collect(),
        })
        .collect();
    Ok(call.respond(&OffsetForLeaderEpochResponse { topics, ..Default::default() }))
}
