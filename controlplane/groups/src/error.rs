//! Why a group request is refused.

/// Each variant is the Kafka error of that name; the discriminant is its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum Error {
    /// UNKNOWN_TOPIC_OR_PARTITION.
    UnknownTopicOrPartition = 3,
    /// OFFSET_METADATA_TOO_LARGE: a commit's metadata exceeds `offset.metadata.max.bytes`.
    OffsetMetadataTooLarge = 12,
    /// COORDINATOR_LOAD_IN_PROGRESS: the group's state is being read, or there is no room for its records now.
    CoordinatorLoadInProgress = 14,
    /// COORDINATOR_NOT_AVAILABLE: the records could not be appended, or the group is being deleted.
    CoordinatorNotAvailable = 15,
    /// NOT_COORDINATOR: this broker does not serve the group.
    NotCoordinator = 16,
    /// ILLEGAL_GENERATION.
    IllegalGeneration = 22,
    /// INCONSISTENT_GROUP_PROTOCOL.
    InconsistentGroupProtocol = 23,
    /// INVALID_GROUP_ID.
    InvalidGroupId = 24,
    /// UNKNOWN_MEMBER_ID.
    UnknownMemberId = 25,
    /// INVALID_SESSION_TIMEOUT.
    InvalidSessionTimeout = 26,
    /// REBALANCE_IN_PROGRESS.
    RebalanceInProgress = 27,
    /// INVALID_REQUEST.
    InvalidRequest = 42,
    /// POLICY_VIOLATION: a limit of the broker on groups or on their state is reached.
    PolicyViolation = 44,
    /// NON_EMPTY_GROUP.
    NonEmptyGroup = 68,
    /// GROUP_ID_NOT_FOUND.
    GroupIdNotFound = 69,
    /// MEMBER_ID_REQUIRED (KIP-394).
    MemberIdRequired = 79,
    /// GROUP_MAX_SIZE_REACHED (KIP-389).
    GroupMaxSizeReached = 81,
    /// FENCED_INSTANCE_ID (KIP-345).
    FencedInstanceId = 82,
    /// GROUP_SUBSCRIBED_TO_TOPIC (KIP-496).
    GroupSubscribedToTopic = 86,
}

impl Error {
    /// Kafka's error code.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }
}
