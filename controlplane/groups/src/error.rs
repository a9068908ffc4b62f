//! Why a group request is refused.

/// Each variant is the Kafka error of that name; the host knows the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// UNKNOWN_TOPIC_OR_PARTITION.
    UnknownTopicOrPartition,
    /// UNKNOWN_TOPIC_ID.
    UnknownTopicId,
    /// OFFSET_METADATA_TOO_LARGE: a commit's metadata exceeds `offset.metadata.max.bytes`.
    OffsetMetadataTooLarge,
    /// COORDINATOR_LOAD_IN_PROGRESS: the group's state is being read, or there is no room for its records now.
    CoordinatorLoadInProgress,
    /// COORDINATOR_NOT_AVAILABLE: the records could not be appended, or the group is being deleted.
    CoordinatorNotAvailable,
    /// NOT_COORDINATOR: this broker does not serve the group.
    NotCoordinator,
    /// KAFKA_STORAGE_ERROR: the group's state cannot be read from the device. Clients do not wait for this to pass.
    Unreadable,
    /// INVALID_COMMIT_OFFSET_SIZE: the records are larger than a batch may be. Clients do not send them again.
    TooLarge,
    /// ILLEGAL_GENERATION.
    IllegalGeneration,
    /// INCONSISTENT_GROUP_PROTOCOL.
    InconsistentGroupProtocol,
    /// INVALID_GROUP_ID.
    InvalidGroupId,
    /// UNKNOWN_MEMBER_ID.
    UnknownMemberId,
    /// INVALID_SESSION_TIMEOUT.
    InvalidSessionTimeout,
    /// REBALANCE_IN_PROGRESS.
    RebalanceInProgress,
    /// INVALID_REQUEST.
    InvalidRequest,
    /// POLICY_VIOLATION: a limit of the broker on groups or on their state is reached.
    PolicyViolation,
    /// NON_EMPTY_GROUP.
    NonEmptyGroup,
    /// GROUP_ID_NOT_FOUND.
    GroupIdNotFound,
    /// MEMBER_ID_REQUIRED (KIP-394).
    MemberIdRequired,
    /// GROUP_MAX_SIZE_REACHED (KIP-389).
    GroupMaxSizeReached,
    /// FENCED_INSTANCE_ID (KIP-345).
    FencedInstanceId,
    /// GROUP_SUBSCRIBED_TO_TOPIC (KIP-496).
    GroupSubscribedToTopic,
    /// UNSUPPORTED_VERSION: a member of a consumer group commits by a request that knows no member epochs.
    UnsupportedVersion,
    /// FENCED_MEMBER_EPOCH (KIP-848).
    FencedMemberEpoch,
    /// STALE_MEMBER_EPOCH (KIP-848).
    StaleMemberEpoch,
    /// UNRELEASED_INSTANCE_ID (KIP-848).
    UnreleasedInstanceId,
    /// UNSUPPORTED_ASSIGNOR (KIP-848).
    UnsupportedAssignor,
    /// INVALID_REGULAR_EXPRESSION (KIP-848).
    InvalidRegularExpression,
}
