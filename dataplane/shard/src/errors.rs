//! The one table from what the machines refuse to Kafka's error codes.

use base::message::Refusal;
use journal::store::AppendError;
use protocol::batch::BatchError;
use protocol::error::ErrorCode;

/// What a producer is told, and a text for people where the code alone does not say it.
pub(crate) const fn of_append(error: AppendError) -> (ErrorCode, Option<&'static str>) {
    match error {
        AppendError::UnknownPartition => (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None),
        AppendError::Corrupt => (ErrorCode::CORRUPT_MESSAGE, None),
        AppendError::TooLarge => (ErrorCode::MESSAGE_TOO_LARGE, Some("the batch is larger than max.message.bytes")),
        AppendError::Timestamp => (
            ErrorCode::INVALID_TIMESTAMP,
            Some("a timestamp lies outside message.timestamp.before.max.ms and message.timestamp.after.max.ms"),
        ),
        AppendError::Invalid => (ErrorCode::INVALID_RECORD, None),
        // As Kafka's broker says it; the records are named one by one.
        AppendError::Keyless(_) => (ErrorCode::INVALID_RECORD, Some("One or more records have been rejected")),
        AppendError::Inflates => {
            (ErrorCode::MESSAGE_TOO_LARGE, Some("a batch of a compacted topic holds 64 MiB of records at most"))
        }
        AppendError::OutOfOrderSequence => (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, None),
        AppendError::InvalidProducerEpoch => (ErrorCode::INVALID_PRODUCER_EPOCH, None),
        // Waited for, never answered; here so that the table is whole.
        AppendError::Busy => (ErrorCode::REQUEST_TIMED_OUT, None),
        // Not KAFKA_STORAGE_ERROR or BROKER_NOT_AVAILABLE, which clients retry in silence for minutes: an application must
        // hear at once, and by a text, that space is gone.
        AppendError::Full => (ErrorCode::POLICY_VIOLATION, Some("the broker's device is full; nothing was stored")),
        // Waited for, never answered.
        AppendError::Moving => (ErrorCode::NOT_LEADER_OR_FOLLOWER, None),
        AppendError::Moved => {
            (ErrorCode::NOT_LEADER_OR_FOLLOWER, Some("the partition has just moved to another journal"))
        }
        AppendError::Fenced => (
            ErrorCode::KAFKA_STORAGE_ERROR,
            Some("the partition's journal is closed after an I/O error; see the broker's log"),
        ),
    }
}

/// What a producer is told of a batch that its header already condemns.
pub(crate) const fn of_batch(error: BatchError) -> (ErrorCode, Option<&'static str>) {
    let text = match error {
        BatchError::Truncated | BatchError::Length => "the record batch is cut off",
        BatchError::Trailing => "there must be exactly one record batch for each partition",
        BatchError::Magic(_) => "only record batches of format 2 are taken",
        BatchError::Count(_) | BatchError::LastOffsetDelta(_) => "the batch's count of records is wrong",
        BatchError::Control => "clients may not write control records",
        BatchError::Sequence => "a producer id needs a sequence",
        BatchError::AppendTime => "clients may not set the timestamp type LogAppendTime",
        BatchError::Codec(_) => "unknown compression type",
        BatchError::Crc => "the CRC-32C does not match",
        BatchError::BaseOffset(_) => "a producer's batch has base offset 0",
        BatchError::Record | BatchError::OffsetDelta | BatchError::RecordsTrailing => "a record is malformed",
    };
    // What is cut off is no batch, and there must be one.
    let code = if matches!(error, BatchError::Truncated) { ErrorCode::INVALID_RECORD } else { error.code() };
    (code, Some(text))
}

/// What a consumer is told.
pub(crate) const fn of_refusal(refusal: Refusal) -> ErrorCode {
    match refusal {
        Refusal::UnknownPartition => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        Refusal::OutOfRange => ErrorCode::OFFSET_OUT_OF_RANGE,
        Refusal::FencedEpoch => ErrorCode::FENCED_LEADER_EPOCH,
        Refusal::UnknownEpoch => ErrorCode::UNKNOWN_LEADER_EPOCH,
        Refusal::Fenced => ErrorCode::KAFKA_STORAGE_ERROR,
        Refusal::Full => ErrorCode::POLICY_VIOLATION,
        Refusal::Corrupt | Refusal::Damaged { .. } => ErrorCode::CORRUPT_MESSAGE,
        Refusal::Busy | Refusal::Stopping | Refusal::Moved => ErrorCode::NOT_LEADER_OR_FOLLOWER,
    }
}

/// What the control plane is told of an append of its own.
pub(crate) const fn refusal_of(error: AppendError) -> Refusal {
    match error {
        AppendError::UnknownPartition => Refusal::UnknownPartition,
        AppendError::Corrupt
        | AppendError::TooLarge
        | AppendError::Timestamp
        | AppendError::Invalid
        | AppendError::Keyless(_)
        | AppendError::Inflates
        | AppendError::OutOfOrderSequence
        | AppendError::InvalidProducerEpoch => Refusal::Corrupt,
        AppendError::Busy => Refusal::Busy,
        AppendError::Full => Refusal::Full,
        AppendError::Fenced => Refusal::Fenced,
        AppendError::Moving | AppendError::Moved => Refusal::Moved,
    }
}
