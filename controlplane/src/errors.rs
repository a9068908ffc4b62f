//! From what our parts refuse to Kafka's error codes: one table for the whole control plane.

use base::message::Refusal;
use cluster::Refused;
use protocol::error::ErrorCode;

use crate::metadata::ProposeError;
use crate::shards::ShardError;

/// An error as a response carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Kafka's code.
    pub(crate) code: ErrorCode,
    /// What is wrong, for people.
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::UnknownPartition => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            Refusal::OutOfRange => ErrorCode::OFFSET_OUT_OF_RANGE,
            Refusal::FencedEpoch => ErrorCode::FENCED_LEADER_EPOCH,
            Refusal::UnknownEpoch => ErrorCode::UNKNOWN_LEADER_EPOCH,
            Refusal::Fenced => ErrorCode::KAFKA_STORAGE_ERROR,
            // Not KAFKA_STORAGE_ERROR, which clients repeat for ever without a word.
            Refusal::Full => ErrorCode::POLICY_VIOLATION,
            Refusal::Corrupt | Refusal::Damaged { .. } => ErrorCode::CORRUPT_MESSAGE,
            Refusal::Busy => ErrorCode::REQUEST_TIMED_OUT,
            Refusal::Stopping | Refusal::Moved => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        };
        let message = match refusal {
            Refusal::Full => Some("the device is full: delete records or topics, or add a device".to_owned()),
            Refusal::Fenced => Some("the journal is closed after an I/O error; see the broker's log".to_owned()),
            _ => None,
        };
        Self { code, message }
    }
}

impl From<ShardError> for Failure {
    fn from(error: ShardError) -> Self {
        match error {
            ShardError::Refused(refusal) => refusal.into(),
            ShardError::TimedOut => ErrorCode::REQUEST_TIMED_OUT.into(),
        }
    }
}

impl From<ProposeError> for Failure {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::Refused(refused) => refused.into(),
            // As with a full device: not an error that clients repeat for ever.
            ProposeError::Full(why) => Self::new(ErrorCode::POLICY_VIOLATION, why),
            ProposeError::Failed(why) => Self::new(ErrorCode::KAFKA_STORAGE_ERROR, why),
        }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TopicExists => Self::new(ErrorCode::TOPIC_ALREADY_EXISTS, "a topic has that name already"),
            Refused::NameCollides(other) => Self::new(
                ErrorCode::INVALID_TOPIC_EXCEPTION,
                format!("the name collides with topic {other}: '.' and '_' are the same in metric names"),
            ),
            Refused::Name(error) => Self::new(ErrorCode::INVALID_TOPIC_EXCEPTION, error.rule()),
            Refused::TopicIdTaken => Self::new(ErrorCode::INVALID_REQUEST, "a topic has that id already"),
            Refused::UnknownTopic => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.into(),
            Refused::Internal => Self::new(
                ErrorCode::INVALID_TOPIC_EXCEPTION,
                "the topic is the broker's own: clients can neither delete nor change it",
            ),
            Refused::PartitionCount { asked, most } => Self::new(
                ErrorCode::INVALID_PARTITIONS,
                format!("{asked} partitions: at least 1 and at most {most} can be created at a time"),
            ),
            Refused::NotMorePartitions { now, asked } => Self::new(
                ErrorCode::INVALID_PARTITIONS,
                format!("the topic has {now} partitions, which cannot become {asked}: only more can be"),
            ),
            Refused::Limit(what) => Self::new(ErrorCode::POLICY_VIOLATION, what),
            Refused::Config(error) => Self::new(ErrorCode::INVALID_CONFIG, format!("{}: {}", error.name, error.why)),
            Refused::NoBroker => Self::new(ErrorCode::INVALID_REPLICATION_FACTOR, "no broker can carry the replicas"),
            Refused::BadBroker => Self::new(ErrorCode::INVALID_REQUEST, "a broker needs a device and a journal"),
            Refused::UnknownPartition => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.into(),
            Refused::UnknownJournal(journal) => Self::new(
                ErrorCode::INVALID_REQUEST,
                format!(
                    "journal {journal} is not one that this broker's topics may use; `barelog topology --metrics` lists them"
                ),
            ),
            Refused::InPlace(journal) => {
                Self::new(ErrorCode::INVALID_REQUEST, format!("the partition is in journal {journal} already"))
            }
            Refused::Moving(journal) => Self::new(
                ErrorCode::REASSIGNMENT_IN_PROGRESS,
                format!("the partition is on its way to journal {journal} already"),
            ),
            Refused::NotMoving => Self::new(ErrorCode::INVALID_REQUEST, "the partition is not on its way there"),
            Refused::ManyHomes(most) => Self::new(
                ErrorCode::POLICY_VIOLATION,
                format!("the partition has records in {most} journals; it can move again when the oldest are gone"),
            ),
            Refused::Exhausted(counter) => {
                Self::new(ErrorCode::UNKNOWN_SERVER_ERROR, format!("the counter of {counter} is at its end"))
            }
        }
    }
}
