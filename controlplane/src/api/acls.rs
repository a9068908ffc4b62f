//! DescribeAcls, CreateAcls, DeleteAcls: there is no authorizer, and the answer says so, as Kafka's does without one.

use protocol::error::ErrorCode;
use protocol::messages::create_acls_response::AclCreationResult;
use protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use protocol::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
    DescribeAclsResponse,
};
use protocol::wire::DecodeError;

use super::Call;

const CODE: ErrorCode = ErrorCode::SECURITY_DISABLED;
const WHY: Option<&str> = Some("no authorizer is configured on the broker");

pub(super) fn describe(call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let _: DescribeAclsRequest<'_> = call.request()?;
    Ok(call.respond(&DescribeAclsResponse { error_code: call.note(CODE), error_message: WHY, ..Default::default() }))
}

pub(super) fn create(call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: CreateAclsRequest<'_> = call.request()?;
    call.bound(request.creations.len())?;
    let refuse = |_| AclCreationResult { error_code: call.note(CODE), error_message: WHY };
    let results = request.creations.iter().map(refuse).collect();
    Ok(call.respond(&CreateAclsResponse { results, ..Default::default() }))
}

pub(super) fn delete(call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: DeleteAclsRequest<'_> = call.request()?;
    call.bound(request.filters.len())?;
    let refuse = |_| DeleteAclsFilterResult { error_code: call.note(CODE), error_message: WHY, ..Default::default() };
    let filter_results = request.filters.iter().map(refuse).collect();
    Ok(call.respond(&DeleteAclsResponse { filter_results, ..Default::default() }))
}
