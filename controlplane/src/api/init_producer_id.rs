//! InitProducerId: an id for an idempotent producer. Transactions do not exist yet.

use protocol::error::ErrorCode;
use protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};
use protocol::wire::DecodeError;

use super::Call;
use crate::context::Context;

pub(super) async fn answer(context: &Context, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: InitProducerIdRequest<'_> = call.request()?;
    let is_half = (request.producer_id == -1) != (request.producer_epoch == -1);
    let result = if request.transactional_id == Some("") || is_half {
        Err(ErrorCode::INVALID_REQUEST)
    } else if request.transactional_id.is_some() {
        // Not retriable, and the one error that every client takes as final for a transactional id.
        Err(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    } else {
        // A producer that names the id it had gets a new one all the same, as with Kafka: without a transactional id nothing
        // proves that it is the same producer.
        context.producer_ids.take(&*context.store).await.map_err(|failure| failure.code)
    };
    let response = match result {
        Ok(id) => InitProducerIdResponse { producer_id: id.0, producer_epoch: 0, ..Default::default() },
        Err(code) => InitProducerIdResponse {
            error_code: call.note(code),
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        },
    };
    Ok(call.respond(&response))
}
