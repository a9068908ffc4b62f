//! The group APIs: requests as the machine's events, its replies as responses.

mod admin;
mod consumers;
mod find;
mod members;
mod offsets;

use std::sync::Arc;

use base::image::Image;
use base::message::Refusal;
use groups::{Coordinator, Error, Event, Reply, Token};
use protocol::api::ApiKey;
use protocol::error::ErrorCode;
use protocol::frame::{Request, put_response_header};
use protocol::messages::Message;
use protocol::wire::DecodeError;

pub(super) use find::found;

use super::{Answer, GroupRequest};

/// A request whose header is read.
pub(super) struct Asked {
    key: ApiKey,
    version: i16,
    correlation: i32,
    listener: u16,
    /// A member id for who brings none.
    drawn: String,
    /// The client's id and address as Kafka shows them.
    client_id: String,
    host: String,
    frame: Vec<u8>,
    body_at: usize,
    answer: Answer,
}

impl Asked {
    /// Reads the header; closes the connection when it is malformed or not of an API that is served.
    pub(super) fn read(request: GroupRequest) -> Option<Self> {
        let GroupRequest { listener, peer, frame, answer } = request;
        let (key, version, correlation, client_id, body_len) = match Request::parse(&frame) {
            Ok(Request::Served { api, header, body }) => {
                let client_id = header.client_id.unwrap_or_default().to_owned();
                (api.key, header.version, header.correlation, client_id, body.len())
            }
            Ok(Request::Unserved { .. }) | Err(_) => {
                answer(None);
                return None;
            }
        };
        let body_at = frame.len() - body_len;
        let drawn =
            if key == ApiKey::ConsumerGroupHeartbeat && version == 0 { consumers::draw() } else { String::new() };
        Some(Self { key, version, correlation, listener, drawn, client_id, host: host(&peer), frame, body_at, answer })
    }

    /// Whether it is FindCoordinator.
    pub(super) fn finds(&self) -> bool {
        self.key == ApiKey::FindCoordinator
    }

    /// Whether it is FindCoordinator for groups.
    pub(super) fn finds_group(&self) -> bool {
        self.finds() && self.parse().is_ok_and(|request| find::is_for_groups(&request))
    }

    fn body(&self) -> &[u8] {
        self.frame.get(self.body_at..).unwrap_or_default()
    }

    fn parse<'a, M: Message<'a>>(&'a self) -> Result<M, DecodeError> {
        M::parse(self.body(), self.version)
    }

    /// The response with this body, header in front.
    fn response<'a, M: Message<'a>>(&self, body: &M) -> Vec<u8> {
        let mut out = Vec::new();
        put_response_header(&mut out, self.key, self.version, self.correlation);
        body.encode(&mut out, self.version);
        out
    }

    fn send(self, response: Vec<u8>) {
        (self.answer)(Some(response));
    }

    /// The body cannot be read: as Kafka does, the connection is closed.
    pub(super) fn close(self, error: DecodeError) {
        tracing::debug!(key = ?self.key, version = self.version, ?error, "closing a connection for a malformed request");
        (self.answer)(None);
    }
}

/// Kafka shows a client's address with a slash in front and without its port.
fn host(peer: &str) -> String {
    let address = peer.parse::<std::net::SocketAddr>().map_or_else(|_| peer.to_owned(), |peer| peer.ip().to_string());
    format!("/{address}")
}

/// Answers what only looks; gives back what is for the machine.
pub(super) fn look(asked: Asked, machine: &Coordinator, image: &Image) -> Option<Asked> {
    let response = match asked.key {
        ApiKey::OffsetFetch => offsets::fetch(&asked, machine, image),
        ApiKey::ListGroups => admin::list(&asked, machine),
        ApiKey::DescribeGroups => admin::describe(&asked, machine),
        ApiKey::ConsumerGroupDescribe => consumers::describe(&asked, machine, image),
        _ => return Some(asked),
    };
    match response {
        Ok(response) => asked.send(response),
        Err(error) => asked.close(error),
    }
    None
}

/// The request as an event.
pub(super) fn event<'a>(asked: &'a Asked, token: Token, image: &'a Image) -> Result<Event<'a>, DecodeError> {
    match asked.key {
        ApiKey::JoinGroup => members::join(asked, token),
        ApiKey::SyncGroup => members::sync(asked, token),
        ApiKey::Heartbeat => members::heartbeat(asked, token),
        ApiKey::LeaveGroup => members::leave(asked, token),
        ApiKey::ConsumerGroupHeartbeat => consumers::beat(asked, token),
        ApiKey::OffsetCommit => offsets::commit(asked, token, image),
        ApiKey::OffsetDelete => offsets::delete(asked, token, image),
        ApiKey::DeleteGroups => admin::delete(asked, token),
        _ => Err(DecodeError::Version),
    }
}

/// Answers with the machine's reply.
pub(super) fn answer(asked: Asked, reply: &Reply) {
    let response = match reply {
        Reply::Join(reply) => members::joined(&asked, reply),
        Reply::Sync(reply) => members::synced(&asked, reply),
        Reply::Heartbeat(reply) => members::heard(&asked, *reply),
        Reply::Leave(reply) => members::left(&asked, reply),
        Reply::Beat(reply) => consumers::heard(&asked, reply),
        Reply::Commit(reply) => offsets::committed(&asked, reply),
        Reply::DeleteOffsets(reply) => offsets::deleted(&asked, reply),
        Reply::DeleteGroups(reply) => admin::deleted(&asked, reply),
    };
    match response {
        Ok(response) => asked.send(response),
        Err(error) => asked.close(error),
    }
}

/// Kafka's code of an error of the machine.
fn code(error: Error) -> ErrorCode {
    match error {
        Error::UnknownTopicOrPartition => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        Error::UnknownTopicId => ErrorCode::UNKNOWN_TOPIC_ID,
        Error::OffsetMetadataTooLarge => ErrorCode::OFFSET_METADATA_TOO_LARGE,
        Error::CoordinatorLoadInProgress => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        Error::CoordinatorNotAvailable => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        Error::NotCoordinator => ErrorCode::NOT_COORDINATOR,
        Error::Unreadable => ErrorCode::KAFKA_STORAGE_ERROR,
        Error::TooLarge => ErrorCode::INVALID_COMMIT_OFFSET_SIZE,
        Error::IllegalGeneration => ErrorCode::ILLEGAL_GENERATION,
        Error::InconsistentGroupProtocol => ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
        Error::InvalidGroupId => ErrorCode::INVALID_GROUP_ID,
        Error::UnknownMemberId => ErrorCode::UNKNOWN_MEMBER_ID,
        Error::InvalidSessionTimeout => ErrorCode::INVALID_SESSION_TIMEOUT,
        Error::RebalanceInProgress => ErrorCode::REBALANCE_IN_PROGRESS,
        Error::InvalidRequest => ErrorCode::INVALID_REQUEST,
        Error::PolicyViolation => ErrorCode::POLICY_VIOLATION,
        Error::NonEmptyGroup => ErrorCode::NON_EMPTY_GROUP,
        Error::GroupIdNotFound => ErrorCode::GROUP_ID_NOT_FOUND,
        Error::MemberIdRequired => ErrorCode::MEMBER_ID_REQUIRED,
        Error::GroupMaxSizeReached => ErrorCode::GROUP_MAX_SIZE_REACHED,
        Error::FencedInstanceId => ErrorCode::FENCED_INSTANCE_ID,
        Error::GroupSubscribedToTopic => ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC,
        Error::UnsupportedVersion => ErrorCode::UNSUPPORTED_VERSION,
        Error::FencedMemberEpoch => ErrorCode::FENCED_MEMBER_EPOCH,
        Error::StaleMemberEpoch => ErrorCode::STALE_MEMBER_EPOCH,
        Error::UnreleasedInstanceId => ErrorCode::UNRELEASED_INSTANCE_ID,
        Error::UnsupportedAssignor => ErrorCode::UNSUPPORTED_ASSIGNOR,
        Error::InvalidRegularExpression => ErrorCode::INVALID_REGULAR_EXPRESSION,
    }
}

fn code_of<T>(result: &Result<T, Error>) -> ErrorCode {
    result.as_ref().map_or_else(|error| code(*error), |_| ErrorCode::NONE)
}

/// What clients are told when records cannot be stored. All but one make them try again, so that they go on by themselves
/// when there is space again or the partition is served elsewhere.
pub(super) fn append_error(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Stopping
        | Refusal::Moved
        | Refusal::UnknownPartition
        | Refusal::FencedEpoch
        | Refusal::UnknownEpoch => Error::NotCoordinator,
        Refusal::Busy => Error::CoordinatorLoadInProgress,
        // The batch is the coordinator's own: nothing can be wrong with it but its size.
        Refusal::Corrupt => Error::TooLarge,
        Refusal::Full | Refusal::Fenced | Refusal::Damaged { .. } | Refusal::OutOfRange => {
            Error::CoordinatorNotAvailable
        }
    }
}

/// Text of a shared string, for a response.
fn text(text: Option<&Arc<str>>) -> Option<&str> {
    text.map(|text| &**text)
}
