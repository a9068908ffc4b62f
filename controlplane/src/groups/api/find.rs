//! FindCoordinator. A single broker coordinates every group.

use base::image::Image;
use protocol::error::ErrorCode;
use protocol::messages::find_coordinator_response::Coordinator;
use protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use super::Asked;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// First version that asks for several keys.
const BATCHED: i16 = 4;

/// Whether coordinators of groups are asked for.
pub(super) fn is_for_groups(request: &FindCoordinatorRequest<'_>) -> bool {
    request.key_type == GROUP
}

/// Answers; `there` tells whether groups can be served at all.
pub(in super::super) fn found(asked: Asked, image: &Image, there: bool) {
    let response = match asked.parse::<FindCoordinatorRequest<'_>>() {
        Ok(request) => respond(&asked, &request, image, there),
        Err(error) => return asked.close(error),
    };
    asked.send(response);
}

fn respond(asked: &Asked, request: &FindCoordinatorRequest<'_>, image: &Image, there: bool) -> Vec<u8> {
    let listener = image.listeners.get(usize::from(asked.listener));
    let (error_code, error_message) = match request.key_type {
        GROUP if !there || listener.is_none() => (ErrorCode::COORDINATOR_NOT_AVAILABLE, None),
        // Kafka's texts of no error.
        GROUP if asked.version < BATCHED => (ErrorCode::NONE, Some("NONE")),
        GROUP => (ErrorCode::NONE, Some("")),
        // The one error on which clients give up at once instead of asking until their time is over.
        TRANSACTION => {
            (ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Some("transactions are not served by this broker"))
        }
        _ => (ErrorCode::INVALID_REQUEST, Some("coordinators of this kind are not served by this broker")),
    };
    let (node_id, host, port) = match listener.filter(|_| error_code.is_ok()) {
        Some(listener) => (image.broker.0, &*listener.host, i32::from(listener.port)),
        None => (-1, "", -1),
    };
    if asked.version < BATCHED {
        let response = FindCoordinatorResponse {
            error_code,
            error_message,
            node_id,
            host,
            port,
            ..FindCoordinatorResponse::default()
        };
        return asked.response(&response);
    }
    let coordinators = request.coordinator_keys.iter();
    let coordinators = coordinators.map(|key| Coordinator { key, node_id, host, port, error_code, error_message });
    asked.response(&FindCoordinatorResponse {
        coordinators: coordinators.collect(),
        ..FindCoordinatorResponse::default()
    })
}
