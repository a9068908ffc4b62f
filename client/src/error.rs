//! What can go wrong, with Kafka's names where Kafka named it.

use protocol::batch::BatchError;
use protocol::error::ErrorCode;
use protocol::wire::DecodeError;

/// The result of everything that talks to a broker.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No broker answered at the address.
    #[error("cannot reach {address}: {source}")]
    Unreachable {
        /// host:port, or all of them.
        address: String,
        /// What the last attempt said.
        source: std::io::Error,
    },
    /// The connection broke and no other attempt helped.
    #[error("the connection to {address} broke: {source}")]
    Disconnected {
        /// host:port.
        address: String,
        /// What the socket said.
        source: std::io::Error,
    },
    /// Nothing came back in time.
    #[error("no answer to {what} within {ms} ms")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        ms: u64,
    },
    /// The broker answered with an error.
    #[error("{what}: {code}{}", suffix(.message))]
    Kafka {
        /// What was asked: "topic orders", "group billing".
        what: String,
        /// The error, by Kafka's name.
        code: ErrorCode,
        /// What the broker says about it.
        message: Option<String>,
    },
    /// The broker's answer cannot be understood.
    #[error("the answer to {api} is malformed: {source}")]
    Malformed {
        /// The request's name.
        api: &'static str,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The broker's answer makes no sense here.
    #[error("the answer to {api} is wrong: {reason}")]
    Unexpected {
        /// The request's name.
        api: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Broker and client have no version of a request in common.
    #[error("the broker does not serve {api} in versions {ours_min} to {ours_max} (it serves {theirs})")]
    Unsupported {
        /// The request's name.
        api: &'static str,
        /// Lowest version this client speaks.
        ours_min: i16,
        /// Highest version this client speaks.
        ours_max: i16,
        /// What the broker serves: "4 to 7", or "none".
        theirs: String,
    },
    /// Stored records are damaged.
    #[error("{topic}-{partition} at offset {offset}: {source}")]
    Record {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// First offset of the damaged batch.
        offset: i64,
        /// The rule that is broken.
        source: BatchError,
    },
    /// Stored records do not decompress.
    #[error("{topic}-{partition} at offset {offset}: {source}")]
    Compression {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// First offset of the batch.
        offset: i64,
        /// What is wrong.
        source: crate::codec::CodecError,
    },
    /// A record is larger than this producer sends.
    #[error("a record of {bytes} bytes is larger than the producer's limit of {limit}")]
    RecordTooLarge {
        /// Its bytes in a batch.
        bytes: usize,
        /// The producer's limit.
        limit: usize,
    },
    /// The topic has no such partition.
    #[error("topic {topic} has no partition {partition} (it has {count})")]
    NoPartition {
        /// The topic.
        topic: String,
        /// The partition asked for.
        partition: i32,
        /// How many there are.
        count: u32,
    },
    /// An address, a setting or a call that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// It was closed before.
    #[error("it is closed")]
    Closed,
}

impl Error {
    /// A broker's error about `what`.
    #[must_use]
    pub fn kafka(what: impl Into<String>, code: ErrorCode) -> Self {
        Self::Kafka { what: what.into(), code, message: None }
    }

    /// Kafka's code, where the broker gave one.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Kafka { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The same error for another request that shared its connection.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Disconnected { address, source } => Self::Disconnected {
                address: address.clone(),
                source: std::io::Error::new(source.kind(), source.to_string()),
            },
            Self::Timeout { what, ms } => Self::Timeout { what: what.clone(), ms: *ms },
            other => Self::Invalid(other.to_string()),
        }
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub const fn is_retriable(&self) -> bool {
        match self {
            Self::Kafka { code, .. } => code.retriable(),
            Self::Unreachable { .. } | Self::Disconnected { .. } | Self::Timeout { .. } => true,
            Self::Malformed { .. }
            | Self::Unexpected { .. }
            | Self::Unsupported { .. }
            | Self::Record { .. }
            | Self::Compression { .. }
            | Self::RecordTooLarge { .. }
            | Self::NoPartition { .. }
            | Self::Invalid(_)
            | Self::Closed => false,
        }
    }
}

/// The broker's own words behind Kafka's name, unless they say nothing more.
fn suffix(message: &Option<String>) -> String {
    message.as_ref().filter(|text| !text.is_empty()).map(|text| format!(" ({text})")).unwrap_or_default()
}
