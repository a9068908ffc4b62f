//! ListOffsets by time: the exact record inside its batch. Shards answer requests for the two ends alone; whatever asks for
//! anything else comes here whole.

use std::sync::Arc;

use base::image::PartitionEntry;
use base::message::{Outcome, Refusal, ShardCommand};
use base::{Offset, WallMs};
use protocol::batch::{BatchView, Batches};
use protocol::error::ErrorCode;
use protocol::list_offsets::{EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST, LATEST_TIERED, MAX_TIMESTAMP};
use protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use protocol::wire::DecodeError;

use super::Call;
use crate::codec::{CodecError, decompress};
use crate::context::{Context, check_epoch, partition_of, unexpected};
use crate::errors::Failure;
use crate::moves::{Stretch, shard_at, stretches};
use crate::shards::{ShardError, side_by_side};

/// Most bytes that a batch's records may take decompressed. Ten times the default of `max.message.bytes`; beyond it the answer
/// is the batch's first offset, so that a consumer reads a little more rather than too little.
pub(crate) const DECOMPRESSED_MAX: usize = 128 << 20;

/// Batches looked at behind one whose header promises a timestamp that its records do not have.
const BATCHES_BEHIND_MAX: usize = 1000;

/// Bytes asked for at a time while doing so.
const READ_BYTES: usize = 1 << 20;

/// A place in a partition; −1 stands for "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    offset: i64,
    timestamp: i64,
    epoch: i32,
}

const NONE: Found = Found { offset: -1, timestamp: -1, epoch: -1 };

pub(super) async fn answer(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: ListOffsetsRequest<'_> = call.request()?;
    call.bound_many(request.topics.iter().map(|topic| 1 + topic.partitions.len()).sum())?;
    let image = context.store.image();
    let version = call.version();
    let mut questions = Vec::new();
    for topic in &request.topics {
        let partitions = topic.partitions.iter();
        questions.extend(partitions.map(|one| {
            let partition = partition_of(&image, topic.name, one.partition_index);
            (partition, one.current_leader_epoch, one.timestamp)
        }));
    }
    let answers = side_by_side(questions, |(partition, claimed, timestamp)| {
        let context = context.clone();
        async move {
            let partition = partition?;
            check_epoch(claimed, partition.epoch)?;
            find(&context, &partition, timestamp, version).await.map_err(|failure| failure.code)
        }
    });
    let mut results = answers.await.into_iter();
    let mut next = |partition_index: i32| {
        let result = results.next().flatten().unwrap_or(Err(ErrorCode::UNKNOWN_SERVER_ERROR));
        let found = result.unwrap_or(NONE);
        ListOffsetsPartitionResponse {
            partition_index,
            error_code: call.note(result.err().unwrap_or(ErrorCode::NONE)),
            timestamp: found.timestamp,
            offset: found.offset,
            leader_epoch: found.epoch,
        }
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name,
            partitions: topic.partitions.iter().map(|one| next(one.partition_index)).collect(),
        })
        .collect();
    Ok(call.respond(&ListOffsetsResponse { topics, ..Default::default() }))
}

/// The first version in which a client may ask for such a timestamp.
const fn since(timestamp: i64) -> Option<i16> {
    match timestamp {
        0.. | LATEST | EARLIEST => Some(0),
        MAX_TIMESTAMP => Some(7),
        EARLIEST_LOCAL => Some(8),
        LATEST_TIERED => Some(9),
        EARLIEST_PENDING_UPLOAD => Some(11),
        _ => None,
    }
}

async fn find(context: &Context, partition: &PartitionEntry, timestamp: i64, version: i16) -> Result<Found, Failure> {
    if since(timestamp).is_none_or(|first| version < first) {
        return Err(ErrorCode::UNSUPPORTED_VERSION.into());
    }
    let id = partition.id;
    match timestamp {
        LATEST => {
            let bounds = context.bounds_of(partition).await?;
            Ok(Found { offset: bounds.high_watermark.0, timestamp: -1, epoch: bounds.epoch.0 })
        }
        // Everything is local.
        EARLIEST | EARLIEST_LOCAL => {
            let bounds = context.bounds_of(partition).await?;
            Ok(Found { offset: bounds.log_start.0, timestamp: -1, epoch: -1 })
        }
        // Nothing is tiered, and nothing waits to be.
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Ok(NONE),
        MAX_TIMESTAMP => {
            let _large = context.large.acquire().await.ok();
            let command = |from, upto| ShardCommand::FindMaxTime { partition: id, from, upto };
            let Some(batch) = batch(context, partition, command, true).await? else { return Ok(NONE) };
            look_inside(batch, Wanted::Highest).await.map(|found| found.unwrap_or(NONE))
        }
        at => {
            let _large = context.large.acquire().await.ok();
            let command = |from, upto| ShardCommand::FindTime { partition: id, timestamp: WallMs(at), from, upto };
            let Some(batch) = batch(context, partition, command, false).await? else { return Ok(NONE) };
            let behind = BatchView::check_stored(&batch).map(|view| view.last_offset() + 1);
            if let Some(found) = look_inside(batch, Wanted::AtLeast(at)).await? {
                return Ok(found);
            }
            // The header promised what the records do not have (a producer may write that in a compressed batch).
            let behind = behind.map_err(|error| Failure::from(error.code()))?;
            look_behind(context, partition, Offset(behind), at).await
        }
    }
}

/// The first batch that `command` finds in the homes of the partition, oldest first; or of what it finds in all of them the
/// one with the highest timestamp.
async fn batch(
    context: &Context,
    partition: &PartitionEntry,
    command: impl Fn(Offset, Offset) -> ShardCommand,
    highest: bool,
) -> Result<Option<Vec<u8>>, Failure> {
    let image = context.store.image();
    let mut best: Option<(i64, Vec<u8>)> = None;
    for Stretch { shard, from, upto } in stretches(&image, partition) {
        let batch = match context.ask(shard, command(from, upto)).await? {
            Outcome::Batch(Some(batch)) => batch,
            Outcome::Batch(None) => continue,
            other => return Err(unexpected(&other)),
        };
        if !highest {
            return Ok(Some(batch));
        }
        let view = BatchView::check_stored(&batch).map_err(|error| Failure::from(error.code()))?;
        let time = view.max_timestamp();
        if best.as_ref().is_none_or(|(known, _)| *known < time) {
            best = Some((time, batch));
        }
    }
    Ok(best.map(|(_, batch)| batch))
}

async fn look_behind(
    context: &Context,
    partition: &PartitionEntry,
    mut offset: Offset,
    at: i64,
) -> Result<Found, Failure> {
    let image = context.store.image();
    for _ in 0..BATCHES_BEHIND_MAX {
        let shard = shard_at(&image, partition, offset);
        let command = ShardCommand::Read { partition: partition.id, offset, bytes_max: READ_BYTES };
        let bytes = match context.shards.ask(shard, command, context.settings.shard_bound).await {
            Ok(Outcome::Records(bytes, _)) => bytes,
            Ok(other) => return Err(unexpected(&other)),
            // What is damaged has no timestamp any more.
            Err(ShardError::Refused(Refusal::Damaged { next })) => {
                offset = next;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let mut last = None;
        for view in Batches::new(&bytes) {
            let view = view.map_err(|error| Failure::from(error.code()))?;
            last = Some(view.last_offset());
            if view.max_timestamp() >= at
                && let Some(found) = look_inside(view.bytes().to_vec(), Wanted::AtLeast(at)).await?
            {
                return Ok(found);
            }
        }
        match last {
            Some(last) => offset = Offset(last + 1),
            None => return Ok(NONE),
        }
    }
    // Reading on from here skips nothing that has the timestamp.
    Ok(Found { offset: offset.0, timestamp: -1, epoch: partition.epoch.0 })
}

#[derive(Clone, Copy)]
enum Wanted {
    /// The first record with at least this timestamp.
    AtLeast(i64),
    /// The first record with the highest timestamp.
    Highest,
}

/// Finds a record in a batch, on a thread where decompressing holds nobody up.
async fn look_inside(batch: Vec<u8>, wanted: Wanted) -> Result<Option<Found>, Failure> {
    let looked = tokio::task::spawn_blocking(move || look(&batch, wanted)).await;
    looked.unwrap_or_else(|error| Err(Failure::new(ErrorCode::UNKNOWN_SERVER_ERROR, error.to_string())))
}

fn look(batch: &[u8], wanted: Wanted) -> Result<Option<Found>, Failure> {
    let corrupt = |why: String| Failure::new(ErrorCode::CORRUPT_MESSAGE, why);
    let view = BatchView::check_stored(batch).map_err(|error| Failure::from(error.code()))?;
    let (base, epoch) = (view.base_offset(), view.leader_epoch());
    if view.is_append_time() {
        // All its records carry the same time.
        let timestamp = view.max_timestamp();
        let matches = !matches!(wanted, Wanted::AtLeast(at) if timestamp < at);
        return Ok(matches.then_some(Found { offset: base, timestamp, epoch }));
    }
    let records = match decompress(view.codec(), view.payload(), DECOMPRESSED_MAX) {
        Ok(records) => records,
        Err(CodecError::TooLarge(_)) => return Ok(Some(Found { offset: base, timestamp: -1, epoch })),
        Err(error) => return Err(corrupt(error.to_string())),
    };
    let mut best: Option<Found> = None;
    for record in view.records_of(&records) {
        let record = record.map_err(|error| corrupt(error.to_string()))?;
        let timestamp = view.timestamp_of(&record);
        let found = Found { offset: base + i64::from(record.offset_delta), timestamp, epoch };
        match wanted {
            Wanted::AtLeast(at) if timestamp >= at => return Ok(Some(found)),
            Wanted::AtLeast(_) => {}
            Wanted::Highest if best.is_none_or(|best| timestamp > best.timestamp) => best = Some(found),
            Wanted::Highest => {}
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests;
