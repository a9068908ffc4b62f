//! JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

use std::sync::Arc;

use groups::{Error, Event, Join, JoinReply, Leave, LeaveMember, LeftMember, Member, Sync, SyncReply, Token};
use protocol::error::ErrorCode;
use protocol::messages::join_group_response::JoinGroupResponseMember;
use protocol::messages::leave_group_response::MemberResponse;
use protocol::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    SyncGroupRequest, SyncGroupResponse,
};
use protocol::wire::DecodeError;

use super::{Asked, code, code_of, text};

type Response = Result<Vec<u8>, DecodeError>;

/// First version of JoinGroup that knows MEMBER_ID_REQUIRED.
const ID_REQUIRED: i16 = 4;
/// First version of JoinGroup that knows SkipAssignment.
const SKIP_ASSIGNMENT: i16 = 9;
/// First version of LeaveGroup with several members.
const LEAVE_SEVERAL: i16 = 3;

pub(super) fn join(asked: &Asked, token: Token) -> Result<Event<'_>, DecodeError> {
    let request: JoinGroupRequest<'_> = asked.parse()?;
    // Version 0 has no rebalance timeout.
    let rebalance_timeout_ms =
        if asked.version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms };
    let join = Join {
        group: request.group_id,
        member: request.member_id,
        instance: request.group_instance_id,
        client_id: &asked.client_id,
        host: &asked.host,
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type: request.protocol_type,
        protocols: request.protocols.iter().map(|protocol| (protocol.name, protocol.metadata)).collect(),
        id_required: asked.version >= ID_REQUIRED,
        can_skip_assignment: asked.version >= SKIP_ASSIGNMENT,
        random: crate::random::uuid().expect("the kernel gives random bits"),
    };
    Ok(Event::Join(token, join))
}

pub(super) fn joined(asked: &Asked, reply: &Result<JoinReply, (Error, Arc<str>)>) -> Response {
    let response = match reply {
        Ok(reply) => JoinGroupResponse {
            generation_id: reply.generation,
            protocol_type: Some(&reply.protocol_type),
            protocol_name: Some(&reply.protocol),
            leader: &reply.leader,
            skip_assignment: reply.skip_assignment,
            member_id: &reply.member,
            members: reply
                .members
                .iter()
                .map(|member| JoinGroupResponseMember {
                    member_id: &member.id,
                    group_instance_id: text(member.instance.as_ref()),
                    metadata: &member.metadata,
                })
                .collect(),
            ..JoinGroupResponse::default()
        },
        Err((error, member)) => JoinGroupResponse {
            error_code: code(*error),
            generation_id: -1,
            member_id: member,
            ..JoinGroupResponse::default()
        },
    };
    Ok(asked.response(&response))
}

pub(super) fn sync(asked: &Asked, token: Token) -> Result<Event<'_>, DecodeError> {
    let request: SyncGroupRequest<'_> = asked.parse()?;
    let sync = Sync {
        member: Member {
            group: request.group_id,
            generation: request.generation_id,
            id: request.member_id,
            instance: request.group_instance_id,
        },
        protocol_type: request.protocol_type,
        protocol: request.protocol_name,
        assignments: request.assignments.iter().map(|given| (given.member_id, given.assignment)).collect(),
    };
    Ok(Event::Sync(token, sync))
}

pub(super) fn synced(asked: &Asked, reply: &Result<SyncReply, Error>) -> Response {
    let response = match reply {
        Ok(reply) => SyncGroupResponse {
            protocol_type: Some(&reply.protocol_type),
            protocol_name: Some(&reply.protocol),
            assignment: &reply.assignment,
            ..SyncGroupResponse::default()
        },
        Err(error) => SyncGroupResponse { error_code: code(*error), ..SyncGroupResponse::default() },
    };
    Ok(asked.response(&response))
}

pub(super) fn heartbeat(asked: &Asked, token: Token) -> Result<Event<'_>, DecodeError> {
    let request: HeartbeatRequest<'_> = asked.parse()?;
    let who = Member {
        group: request.group_id,
        generation: request.generation_id,
        id: request.member_id,
        instance: request.group_instance_id,
    };
    Ok(Event::Heartbeat(token, who))
}

pub(super) fn heard(asked: &Asked, reply: Result<(), Error>) -> Response {
    Ok(asked.response(&HeartbeatResponse { error_code: code_of(&reply), ..HeartbeatResponse::default() }))
}

pub(super) fn leave(asked: &Asked, token: Token) -> Result<Event<'_>, DecodeError> {
    let request: LeaveGroupRequest<'_> = asked.parse()?;
    let members = if asked.version < LEAVE_SEVERAL {
        vec![LeaveMember { id: request.member_id, instance: None }]
    } else {
        let members = request.members.iter();
        members.map(|member| LeaveMember { id: member.member_id, instance: member.group_instance_id }).collect()
    };
    Ok(Event::Leave(token, Leave { group: request.group_id, members }))
}

pub(super) fn left(asked: &Asked, reply: &Result<Vec<LeftMember>, Error>) -> Response {
    let mut response = LeaveGroupResponse { error_code: code_of(reply), ..LeaveGroupResponse::default() };
    let members = reply.as_deref().unwrap_or_default();
    if asked.version < LEAVE_SEVERAL {
        if let Some(member) = members.first() {
            response.error_code = code_of(&member.result);
        }
    } else {
        let members = members.iter().map(|member| MemberResponse {
            member_id: &member.id,
            group_instance_id: text(member.instance.as_ref()),
            error_code: member.result.map_or_else(code, |()| ErrorCode::NONE),
        });
        response.members = members.collect();
    }
    Ok(asked.response(&response))
}
