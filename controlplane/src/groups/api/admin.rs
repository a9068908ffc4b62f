//! ListGroups, DescribeGroups, DeleteGroups.

use groups::{Coordinator, Error, Event, Token};
use protocol::error::ErrorCode;
use protocol::messages::delete_groups_response::DeletableGroupResult;
use protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use protocol::messages::list_groups_response::ListedGroup;
use protocol::messages::{
    DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, ListGroupsRequest,
    ListGroupsResponse,
};
use protocol::wire::DecodeError;

use super::{Asked, code, code_of, text};

type Response = Result<Vec<u8>, DecodeError>;

/// First version of DescribeGroups that names a group that is not there; before, it was dead without an error (KIP-1043).
const DESCRIBE_NOT_FOUND: i16 = 6;

/// Everything Kafka lets be done to a group, as bits: READ 3, DELETE 6, DESCRIBE 8, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11.
/// Without ACLs everybody may.
pub(super) const ALL_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

pub(super) fn list(asked: &Asked, machine: &Coordinator) -> Response {
    let request: ListGroupsRequest<'_> = asked.parse()?;
    let listed = machine.list(&request.states_filter, &request.types_filter);
    let groups = listed.as_deref().unwrap_or_default().iter().map(|group| ListedGroup {
        group_id: &group.group,
        protocol_type: &group.protocol_type,
        group_state: group.state,
        group_type: group.kind,
    });
    let groups = groups.collect();
    Ok(asked.response(&ListGroupsResponse { error_code: code_of(&listed), groups, ..ListGroupsResponse::default() }))
}

pub(super) fn describe(asked: &Asked, machine: &Coordinator) -> Response {
    let request: DescribeGroupsRequest<'_> = asked.parse()?;
    let found: Vec<_> = request.groups.iter().map(|group| (*group, machine.describe(group))).collect();
    let groups = found.iter().map(|(group, described)| {
        let mut answer = DescribedGroup { group_id: group, ..DescribedGroup::default() };
        if request.include_authorized_operations {
            answer.authorized_operations = ALL_OPERATIONS;
        }
        match described {
            Ok(described) => {
                answer.group_state = described.state;
                answer.protocol_type = &described.protocol_type;
                answer.protocol_data = &described.protocol;
                let members = described.members.iter().map(|member| DescribedGroupMember {
                    member_id: &member.id,
                    group_instance_id: text(member.instance.as_ref()),
                    client_id: &member.client_id,
                    client_host: &member.host,
                    member_metadata: &member.metadata,
                    member_assignment: &member.assignment,
                });
                answer.members = members.collect();
            }
            Err(Error::GroupIdNotFound) => {
                answer.group_state = "Dead";
                if asked.version >= DESCRIBE_NOT_FOUND {
                    answer.error_code = ErrorCode::GROUP_ID_NOT_FOUND;
                    answer.error_message = Some(match machine.kind(group) {
                        Ok(Some("consumer")) => "the group is not a classic group",
                        _ => "there is no group of this name",
                    });
                }
            }
            Err(error) => answer.error_code = code(*error),
        }
        answer
    });
    let groups = groups.collect();
    Ok(asked.response(&DescribeGroupsResponse { groups, ..DescribeGroupsResponse::default() }))
}

pub(super) fn delete(asked: &Asked, token: Token) -> Result<Event<'_>, DecodeError> {
    let request: DeleteGroupsRequest<'_> = asked.parse()?;
    Ok(Event::DeleteGroups(token, request.groups_names))
}

pub(super) fn deleted(asked: &Asked, reply: &[Result<(), Error>]) -> Response {
    let request: DeleteGroupsRequest<'_> = asked.parse()?;
    let results = request.groups_names.iter().zip(reply).map(|(group, result)| DeletableGroupResult {
        group_id: group,
        error_code: code_of(result),
        ..DeletableGroupResult::default()
    });
    let results = results.collect();
    Ok(asked.response(&DeleteGroupsResponse { results, ..DeleteGroupsResponse::default() }))
}
