//! Every API in every version.

use base::TopicId;
use protocol::messages::join_group_request::JoinGroupRequestProtocol;
use protocol::messages::leave_group_request::MemberIdentity;
use protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use protocol::messages::sync_group_request::SyncGroupRequestAssignment;

use super::*;

fn join<'a>(group: &'a str, member: &'a str) -> JoinGroupRequest<'a> {
    JoinGroupRequest {
        group_id: group,
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id: member,
        protocol_type: "consumer",
        protocols: vec![JoinGroupRequestProtocol { name: "range", metadata: b"\0\0\0\0\0\x01\0\x01t" }],
        ..JoinGroupRequest::default()
    }
}

/// Joins a group of one and syncs; gives the member's id.
async fn join_and_sync(world: &World, group: &str, version: i16) -> String {
    let bytes = world.ask(version, &join(group, "")).await;
    let mut joined = JoinGroupResponse::parse(&bytes, version).unwrap();
    let again;
    if version >= 4 {
        assert_eq!(joined.error_code, ErrorCode::MEMBER_ID_REQUIRED);
        assert_eq!(joined.generation_id, -1);
        again = world.ask(version, &join(group, joined.member_id)).await;
        joined = JoinGroupResponse::parse(&again, version).unwrap();
    }
    assert_eq!((joined.error_code, joined.generation_id), (ErrorCode::NONE, 1));
    assert_eq!((joined.leader, joined.protocol_name), (joined.member_id, Some("range")));
    assert_eq!(joined.protocol_type, (version >= 7).then_some("consumer"));
    assert_eq!(joined.members[0].metadata, b"\0\0\0\0\0\x01\0\x01t");
    let member_id = joined.member_id;
    let sync = SyncGroupRequest {
        group_id: group,
        generation_id: 1,
        member_id,
        assignments: vec![SyncGroupRequestAssignment { member_id, assignment: b"mine" }],
        ..SyncGroupRequest::default()
    };
    let version = version.min(5);
    let bytes = world.ask(version, &sync).await;
    let synced = SyncGroupResponse::parse(&bytes, version).unwrap();
    assert_eq!((synced.error_code, synced.assignment), (ErrorCode::NONE, &b"mine"[..]));
    member_id.to_owned()
}

#[tokio::test]
async fn a_member_joins_syncs_beats_and_leaves_in_every_version() {
    let world = World::new();
    world.find().await;
    for version in 0..=9 {
        let group = format!("group {version}");
        let member_id = &join_and_sync(&world, &group, version).await;
        let heartbeat = version.min(4);
        let request = HeartbeatRequest { group_id: &group, generation_id: 1, member_id, ..HeartbeatRequest::default() };
        let bytes = world.ask(heartbeat, &request).await;
        assert_eq!(HeartbeatResponse::parse(&bytes, heartbeat).unwrap().error_code, ErrorCode::NONE);
        let leave = version.min(5);
        let request = LeaveGroupRequest {
            group_id: &group,
            member_id,
            members: vec![MemberIdentity { member_id, ..MemberIdentity::default() }],
        };
        for expected in [ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID] {
            let bytes = world.ask(leave, &request).await;
            let left = LeaveGroupResponse::parse(&bytes, leave).unwrap();
            let code = left.members.first().map_or(left.error_code, |member| member.error_code);
            assert_eq!(code, expected);
            assert_eq!(left.members.len(), usize::from(leave >= 3));
        }
    }
}

#[tokio::test]
async fn the_coordinator_is_found_in_every_version() {
    let world = World::new();
    for version in 0..=6 {
        let coordinator_keys = vec!["a", "b"];
        let request = FindCoordinatorRequest { key: "a", coordinator_keys, ..FindCoordinatorRequest::default() };
        let bytes = world.ask(version, &request).await;
        let found = FindCoordinatorResponse::parse(&bytes, version).unwrap();
        if version < 4 {
            assert_eq!((found.error_code, found.node_id, found.port), (ErrorCode::NONE, 1, 9092));
        } else {
            let keys: Vec<_> =
                found.coordinators.iter().map(|found| (found.key, found.host, found.error_code)).collect();
            assert_eq!(keys, [("a", "127.0.0.1", ErrorCode::NONE), ("b", "127.0.0.1", ErrorCode::NONE)]);
        }
        if version >= 1 {
            let request = FindCoordinatorRequest { key: "txn", key_type: 1, coordinator_keys: vec!["txn"] };
            let bytes = world.ask(version, &request).await;
            let found = FindCoordinatorResponse::parse(&bytes, version).unwrap();
            let code = found.coordinators.first().map_or(found.error_code, |found| found.error_code);
            assert_eq!(code, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        }
    }
}

#[tokio::test]
async fn commits_and_fetches_in_every_version() {
    let world = World::new();
    world.find().await;
    for version in 2..=10 {
        let partition = |partition_index| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: i64::from(version),
            committed_leader_epoch: 4,
            committed_metadata: if partition_index == 0 { Some("note") } else { None },
        };
        let known = OffsetCommitRequestTopic {
            name: "t",
            topic_id: TopicId(11),
            partitions: vec![partition(0), partition(100), partition(7)],
        };
        let unknown = OffsetCommitRequestTopic { name: "nix", topic_id: TopicId(5), partitions: vec![partition(0)] };
        let request = OffsetCommitRequest {
            group_id: "g",
            generation_id_or_member_epoch: -1,
            topics: vec![unknown, known],
            ..OffsetCommitRequest::default()
        };
        let bytes = world.ask(version, &request).await;
        let response = OffsetCommitResponse::parse(&bytes, version).unwrap();
        let unknown = if version >= 10 { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        let codes: Vec<_> = response.topics.iter().flat_map(|t| &t.partitions).map(|p| p.error_code).collect();
        assert_eq!(codes, [unknown, ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::NONE]);
        let fetched = fetch(&world, version, true).await;
        assert_eq!(
            fetched,
            [
                (0, i64::from(version), "note".to_owned()),
                (7, i64::from(version), String::new()),
                (50, -1, String::new())
            ]
        );
        assert_eq!(fetch(&world, version, false).await.len(), 2);
    }
    assert_eq!(fetch(&world, 1, true).await.len(), 3);
}

/// Partitions, offsets and metadata of topic `t`, of three partitions or of all.
async fn fetch(world: &World, version: i16, named: bool) -> Vec<(i32, i64, String)> {
    let indexes = vec![0, 7, 50];
    let topics = named.then(|| vec![OffsetFetchRequestTopic { name: "t", partition_indexes: indexes.clone() }]);
    let by_group = named.then(|| {
        vec![OffsetFetchRequestTopics { name: "t", topic_id: TopicId(11), partition_indexes: indexes.clone() }]
    });
    let group = OffsetFetchRequestGroup { group_id: "g", topics: by_group, ..OffsetFetchRequestGroup::default() };
    let request = OffsetFetchRequest { group_id: "g", topics, groups: vec![group], require_stable: true };
    let bytes = world.ask(version, &request).await;
    let response = OffsetFetchResponse::parse(&bytes, version).unwrap();
    if version >= 8 {
        let group = &response.groups[0];
        assert_eq!((group.group_id, group.error_code, group.topics.len()), ("g", ErrorCode::NONE, 1));
        if version >= 10 {
            assert_eq!(group.topics[0].topic_id, TopicId(11));
        }
        let offsets = group.topics[0].partitions.iter();
        offsets.map(|p| (p.partition_index, p.committed_offset, p.metadata.unwrap().to_owned())).collect()
    } else {
        let offsets = response.topics[0].partitions.iter();
        offsets.map(|p| (p.partition_index, p.committed_offset, p.metadata.unwrap().to_owned())).collect()
    }
}

#[tokio::test]
async fn a_group_that_is_not_served_yet_is_so_named_in_every_version() {
    let world = World::new();
    for version in 1..=10 {
        let topics = Some(vec![OffsetFetchRequestTopic { name: "t", partition_indexes: vec![0] }]);
        let group = OffsetFetchRequestGroup { group_id: "g", ..OffsetFetchRequestGroup::default() };
        let request = OffsetFetchRequest { group_id: "g", topics, groups: vec![group], require_stable: false };
        let bytes = world.ask(version, &request).await;
        let response = OffsetFetchResponse::parse(&bytes, version).unwrap();
        let code = match version {
            1 => response.topics[0].partitions[0].error_code,
            2..=7 => response.error_code,
            _ => response.groups[0].error_code,
        };
        assert_eq!(code, ErrorCode::NOT_COORDINATOR);
    }
    assert_eq!(world.commit("g", "t", 0, 1).await, ErrorCode::NOT_COORDINATOR);
}

#[tokio::test]
async fn groups_are_listed_described_and_deleted_in_every_version() {
    let world = World::new();
    world.find().await;
    let member = join_and_sync(&world, "members", 5).await;
    world.commit("offsets", "t", 0, 1).await;
    for version in 0..=5 {
        let bytes = world.ask(version, &ListGroupsRequest { states_filter: vec![], types_filter: vec![] }).await;
        let listed = ListGroupsResponse::parse(&bytes, version).unwrap();
        assert_eq!((listed.error_code, listed.groups.len()), (ErrorCode::NONE, 2));
        if version >= 4 {
            let request = ListGroupsRequest { states_filter: vec!["Stable"], types_filter: vec![] };
            let bytes = world.ask(version, &request).await;
            let listed = ListGroupsResponse::parse(&bytes, version).unwrap();
            let group = &listed.groups[0];
            assert_eq!((group.group_id, group.protocol_type, group.group_state), ("members", "consumer", "Stable"));
            assert_eq!(group.group_type, if version >= 5 { "classic" } else { "" });
        }
    }
    for version in 0..=6 {
        let groups = vec!["members", "nobody"];
        let request = DescribeGroupsRequest { groups, include_authorized_operations: version >= 3 };
        let bytes = world.ask(version, &request).await;
        let described = DescribeGroupsResponse::parse(&bytes, version).unwrap().groups;
        let group = &described[0];
        assert_eq!((group.group_state, group.protocol_data), ("Stable", "range"));
        assert_eq!(group.authorized_operations > 0, version >= 3);
        let only = &group.members[0];
        assert_eq!((only.member_id, only.client_id, only.client_host), (&*member, "client", "/127.0.0.1"));
        assert_eq!(only.member_assignment, b"mine");
        let missing = if version >= 6 { ErrorCode::GROUP_ID_NOT_FOUND } else { ErrorCode::NONE };
        assert_eq!((described[1].group_state, described[1].error_code), ("Dead", missing));
    }
    for version in 0..=3 {
        world.commit("gone", "t", 0, 1).await;
        let request = DeleteGroupsRequest { groups_names: vec!["members", "gone"] };
        let bytes = world.ask(version, &request).await;
        let results = DeleteGroupsResponse::parse(&bytes, version).unwrap().results;
        let codes: Vec<_> = results.iter().map(|result| (result.group_id, result.error_code)).collect();
        assert_eq!(codes, [("members", ErrorCode::NON_EMPTY_GROUP), ("gone", ErrorCode::NONE)]);
    }
}

#[tokio::test]
async fn offsets_are_deleted_but_for_topics_that_are_used_or_unknown() {
    let world = World::new();
    world.find().await;
    world.catalog.create("u", TopicId(12), 1);
    join_and_sync(&world, "g", 3).await;
    let partitions = || vec![OffsetDeleteRequestPartition { partition_index: 0 }];
    let topics = ["t", "u", "nix"].map(|name| OffsetDeleteRequestTopic { name, partitions: partitions() });
    let bytes = world.ask(0, &OffsetDeleteRequest { group_id: "g", topics: topics.to_vec() }).await;
    let response = OffsetDeleteResponse::parse(&bytes, 0).unwrap();
    let codes: Vec<_> = response.topics.iter().map(|topic| topic.partitions[0].error_code).collect();
    assert_eq!(response.error_code, ErrorCode::NONE);
    assert_eq!(codes, [ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]);
    let partitions = [0, 77].map(|partition_index| OffsetDeleteRequestPartition { partition_index }).to_vec();
    let topics = vec![OffsetDeleteRequestTopic { name: "u", partitions }];
    let bytes = world.ask(0, &OffsetDeleteRequest { group_id: "g", topics: topics.clone() }).await;
    let response = OffsetDeleteResponse::parse(&bytes, 0).unwrap();
    let codes: Vec<_> = response.topics[0].partitions.iter().map(|partition| partition.error_code).collect();
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]);
    let bytes = world.ask(0, &OffsetDeleteRequest { group_id: "", topics }).await;
    assert_eq!(OffsetDeleteResponse::parse(&bytes, 0).unwrap().error_code, ErrorCode::INVALID_GROUP_ID);
}

#[tokio::test]
async fn malformed_requests_close_the_connection_and_nothing_else() {
    let world = World::new();
    world.find().await;
    let mut frames = vec![Vec::new(), vec![0; 3], vec![0xff; 40]];
    let keys = [8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69].map(|key| ApiKey::of(key).unwrap());
    for key in keys {
        let api = key.info();
        for version in api.min..=api.max {
            for tail in [&[][..], &[0x7f; 3], &[0xff; 30], &[0x80; 30]] {
                let mut frame = Vec::new();
                put_request_header(&mut frame, key, version, 7, Some("client"));
                frame.extend_from_slice(tail);
                frames.push(frame);
            }
        }
    }
    for frame in frames {
        // An answer or an end, but never silence.
        let response = world.send_frame(frame).await;
        let _ = tokio::time::timeout(Duration::from_secs(10), response).await.expect("an answer or an end");
    }
    let mut frame = Vec::new();
    put_request_header(&mut frame, ApiKey::Metadata, 1, 7, None);
    assert!(world.send_frame(frame).await.await.is_err(), "an API of others");
    assert_eq!(world.commit("g", "t", 0, 1).await, ErrorCode::NONE);
}
