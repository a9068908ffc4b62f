//! ApiVersions (KIP-511, KIP-1242): what is served. Answered before anything else is known of a client.

use base::ClusterId;
use protocol::api::{APIS, ApiKey};
use protocol::error::ErrorCode;
use protocol::frame::{RequestHeader, put_response_header};
use protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, Message as _};
use protocol::wire::DecodeError;

use super::{Call, id_text};
use crate::context::Context;

pub(super) fn answer(context: &Context, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: ApiVersionsRequest<'_> = call.request()?;
    let image = context.store.image();
    let code = check(&request, call.version(), image.cluster, image.broker.0);
    let api_keys = if code.is_ok() { rows() } else { Vec::new() };
    let mut response = ApiVersionsResponse { error_code: call.note(code), api_keys, ..Default::default() };
    if code.is_ok() {
        put_features(&mut response, call.version(), image.generation);
    }
    Ok(call.respond(&response))
}

/// The feature that stands for consumer groups (KIP-848): Java's tools look for it.
const GROUP_VERSION: (&str, i16) = ("group.version", 1);

/// First version of the response in which a feature may begin at 0: older clients cannot read that (KAFKA-17011).
const FEATURES_FROM_ZERO: i16 = 4;

fn put_features(response: &mut ApiVersionsResponse<'_>, version: i16, generation: u64) {
    let (name, max) = GROUP_VERSION;
    if version >= FEATURES_FROM_ZERO {
        response.supported_features = vec![SupportedFeatureKey { name, min_version: 0, max_version: max }];
    }
    response.finalized_features = vec![FinalizedFeatureKey { name, max_version_level: max, min_version_level: max }];
    response.finalized_features_epoch = i64::try_from(generation).unwrap_or(i64::MAX);
}

fn check(request: &ApiVersionsRequest<'_>, version: i16, cluster: ClusterId, node: i32) -> ErrorCode {
    if version >= 3 && !(is_software(request.client_software_name) && is_software(request.client_software_version)) {
        return ErrorCode::INVALID_REQUEST;
    }
    if request.cluster_id.is_some() != (request.node_id >= 0) {
        return ErrorCode::INVALID_REQUEST;
    }
    // A client that names the broker it means to reach has a stale address when another answers.
    let other_cluster = request.cluster_id.is_some_and(|id| id != id_text(cluster.0));
    let other_node = request.node_id >= 0 && request.node_id != node;
    if other_cluster || other_node { ErrorCode::REBOOTSTRAP_REQUIRED } else { ErrorCode::NONE }
}

/// `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`
fn is_software(name: &str) -> bool {
    let bytes = name.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(b))
}

fn rows() -> Vec<ApiVersion> {
    APIS.iter().map(|api| ApiVersion { api_key: api.key as i16, min_version: api.min, max_version: api.max }).collect()
}

/// The answer to a version that is not served: version 0, with the versions of ApiVersions itself, so that the client can step
/// down.
pub(crate) fn unsupported(header: &RequestHeader<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put_response_header(&mut out, ApiKey::ApiVersions, 0, header.correlation);
    let mut api_keys = rows();
    api_keys.retain(|row| row.api_key == ApiKey::ApiVersions as i16);
    let response = ApiVersionsResponse { error_code: ErrorCode::UNSUPPORTED_VERSION, api_keys, ..Default::default() };
    response.encode(&mut out, 0);
    out
}
