//! Consumer groups (KIP-848) through the bytes of their APIs.

use base::TopicId;
use protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};

use super::*;

fn joins<'a>(group: &'a str, member_id: &'a str) -> ConsumerGroupHeartbeatRequest<'a> {
    ConsumerGroupHeartbeatRequest {
        group_id: group,
        member_id,
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["u"]),
        topic_partitions: Some(vec![]),
        ..ConsumerGroupHeartbeatRequest::default()
    }
}

/// Error, epoch, member id and partitions of the answer.
async fn beat(
    world: &World,
    version: i16,
    request: &ConsumerGroupHeartbeatRequest<'_>,
) -> (ErrorCode, i32, String, Option<Vec<i32>>) {
    let bytes = world.ask(version, request).await;
    let response = ConsumerGroupHeartbeatResponse::parse(&bytes, version).unwrap();
    assert_eq!(response.error_message.is_some(), !response.error_code.is_ok(), "errors come in words, too");
    let partitions = response.assignment.map(|assignment| {
        assignment.topic_partitions.iter().flat_map(|topic| topic.partitions.iter().copied()).collect()
    });
    (response.error_code, response.member_epoch, response.member_id.unwrap_or_default().to_owned(), partitions)
}

#[tokio::test]
async fn members_come_are_described_and_go_in_every_version() {
    let world = World::new();
    world.find().await;
    world.catalog.create("u", TopicId(12), 3);
    for version in 0..=1 {
        let group = format!("group {version}");
        let (code, epoch, id, partitions) = if version == 0 {
            // Version 0 draws an id for who brings none.
            beat(&world, version, &joins(&group, "")).await
        } else {
            assert_eq!(beat(&world, version, &joins(&group, "")).await.0, ErrorCode::INVALID_REQUEST);
            beat(&world, version, &joins(&group, "own-id")).await
        };
        assert_eq!((code, epoch, partitions), (ErrorCode::NONE, 1, Some(vec![0, 1, 2])));
        assert_eq!(id.len(), if version == 0 { 22 } else { 6 });
        let request =
            ConsumerGroupDescribeRequest { group_ids: vec![&group, "nobody"], include_authorized_operations: true };
        let bytes = world.ask(version, &request).await;
        let described = ConsumerGroupDescribeResponse::parse(&bytes, version).unwrap().groups;
        let found = &described[0];
        assert_eq!((found.error_code, found.group_state, found.assignor_name), (ErrorCode::NONE, "Stable", "uniform"));
        assert_eq!((found.group_epoch, found.assignment_epoch), (1, 1));
        assert!(found.authorized_operations > 0);
        let member = &found.members[0];
        assert_eq!((member.member_id, member.member_epoch, member.client_id), (&*id, 1, "client"));
        assert_eq!(member.member_type, if version == 0 { -1 } else { 1 });
        let topic = &member.assignment.topic_partitions[0];
        assert_eq!((topic.topic_id, topic.topic_name, &*topic.partitions), (TopicId(12), "u", &[0, 1, 2][..]));
        assert_eq!(described[1].error_code, ErrorCode::GROUP_ID_NOT_FOUND);
        assert!(described[1].error_message.is_some());
        let leave = ConsumerGroupHeartbeatRequest {
            group_id: &group,
            member_id: &id,
            member_epoch: -1,
            ..ConsumerGroupHeartbeatRequest::default()
        };
        assert_eq!(beat(&world, version, &leave).await, (ErrorCode::NONE, -1, id.clone(), None));
        assert_eq!(beat(&world, version, &leave).await.0, ErrorCode::UNKNOWN_MEMBER_ID);
    }
}

#[tokio::test]
async fn each_kind_of_group_is_listed_as_such_and_described_by_its_own_api() {
    let world = World::new();
    world.find().await;
    world.commit("offsets", "t", 0, 1).await;
    beat(&world, 1, &joins("members", "m")).await;
    for (kind, name) in [("consumer", "members"), ("classic", "offsets")] {
        let bytes = world.ask(5, &ListGroupsRequest { states_filter: vec![], types_filter: vec![kind] }).await;
        let listed = ListGroupsResponse::parse(&bytes, 5).unwrap().groups;
        assert_eq!(listed.iter().map(|group| group.group_id).collect::<Vec<_>>(), [name]);
        assert!(listed[0].group_type.eq_ignore_ascii_case(kind));
    }
    for (version, code) in [(5, ErrorCode::NONE), (6, ErrorCode::GROUP_ID_NOT_FOUND)] {
        let request = DescribeGroupsRequest { groups: vec!["members"], ..DescribeGroupsRequest::default() };
        let bytes = world.ask(version, &request).await;
        let found = &DescribeGroupsResponse::parse(&bytes, version).unwrap().groups[0];
        assert_eq!((found.group_state, found.error_code), ("Dead", code));
        assert_eq!(found.error_message, (version == 6).then_some("the group is not a classic group"));
    }
    let request = ConsumerGroupDescribeRequest { group_ids: vec!["offsets"], ..Default::default() };
    let bytes = world.ask(1, &request).await;
    let found = &ConsumerGroupDescribeResponse::parse(&bytes, 1).unwrap().groups[0];
    assert_eq!(found.error_code, ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(found.error_message, Some("the group is not a consumer group"));
}

/// The error of a commit of a member, of the topic's partition 0.
async fn commit(world: &World, version: i16, member_id: &str, epoch: i32) -> ErrorCode {
    let partition = OffsetCommitRequestPartition { committed_offset: 5, ..OffsetCommitRequestPartition::default() };
    let topic = OffsetCommitRequestTopic { name: "u", topic_id: TopicId(12), partitions: vec![partition] };
    let request = OffsetCommitRequest {
        group_id: "g",
        generation_id_or_member_epoch: epoch,
        member_id,
        topics: vec![topic],
        ..OffsetCommitRequest::default()
    };
    let bytes = world.ask(version, &request).await;
    OffsetCommitResponse::parse(&bytes, version).unwrap().topics[0].partitions[0].error_code
}

async fn fetch(world: &World, version: i16, member_id: Option<&str>, member_epoch: i32) -> (ErrorCode, Vec<i64>) {
    let topic = OffsetFetchRequestTopics { name: "u", topic_id: TopicId(12), partition_indexes: vec![0] };
    let group = OffsetFetchRequestGroup { group_id: "g", member_id, member_epoch, topics: Some(vec![topic]) };
    let request = OffsetFetchRequest { groups: vec![group], ..OffsetFetchRequest::default() };
    let bytes = world.ask(version, &request).await;
    let response = OffsetFetchResponse::parse(&bytes, version).unwrap();
    let group = &response.groups[0];
    let offsets = group.topics.iter().map(|topic| topic.partitions[0].committed_offset).collect();
    (group.error_code, offsets)
}

#[tokio::test]
async fn members_commit_and_fetch_offsets_under_their_epoch() {
    let world = World::new();
    world.find().await;
    world.catalog.create("u", TopicId(12), 1);
    assert_eq!(commit(&world, 9, "m", 1).await, ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(commit(&world, 8, "m", 1).await, ErrorCode::ILLEGAL_GENERATION);
    beat(&world, 1, &joins("g", "m")).await;
    for version in 9..=10 {
        assert_eq!(commit(&world, version, "m", 1).await, ErrorCode::NONE);
        assert_eq!(commit(&world, version, "m", 2).await, ErrorCode::STALE_MEMBER_EPOCH);
        assert_eq!(commit(&world, version, "x", 1).await, ErrorCode::UNKNOWN_MEMBER_ID);
        assert_eq!(fetch(&world, version, Some("m"), 1).await, (ErrorCode::NONE, vec![5]));
        assert_eq!(fetch(&world, version, Some("m"), 2).await, (ErrorCode::STALE_MEMBER_EPOCH, vec![]));
        assert_eq!(fetch(&world, version, Some("x"), 1).await, (ErrorCode::UNKNOWN_MEMBER_ID, vec![]));
        assert_eq!(fetch(&world, version, None, -1).await, (ErrorCode::NONE, vec![5]));
    }
    assert_eq!(commit(&world, 8, "m", 1).await, ErrorCode::UNSUPPORTED_VERSION, "it knows no epochs");
    assert_eq!(fetch(&world, 8, None, -1).await, (ErrorCode::NONE, vec![5]));
}

#[tokio::test]
async fn members_go_on_after_a_restart() {
    let world = World::new();
    world.find().await;
    world.catalog.create("u", TopicId(12), 2);
    beat(&world, 1, &joins("g", "a")).await;
    let world = world.restart().await;
    world.find().await;
    let mut lives = joins("g", "a");
    lives.member_epoch = 1;
    lives.topic_partitions = Some(vec![TopicPartitions { topic_id: TopicId(12), partitions: vec![0, 1] }]);
    assert_eq!(beat(&world, 1, &lives).await, (ErrorCode::NONE, 1, "a".to_owned(), Some(vec![0, 1])));
    lives.member_id = "b";
    assert_eq!(beat(&world, 1, &lives).await.0, ErrorCode::UNKNOWN_MEMBER_ID);
    // A topic that grows is another epoch.
    world.catalog.create("u", TopicId(12), 3);
    lives.member_id = "a";
    assert_eq!(beat(&world, 1, &lives).await, (ErrorCode::NONE, 2, "a".to_owned(), Some(vec![0, 1, 2])));
}

#[tokio::test]
async fn errors_of_heartbeats_are_kafkas() {
    let world = World::new();
    world.find().await;
    world.catalog.create("u", TopicId(12), 2);
    let of = |change: &dyn Fn(&mut ConsumerGroupHeartbeatRequest<'_>)| {
        let mut request = joins("g", "m");
        change(&mut request);
        request
    };
    let cases = [
        (of(&|r| r.subscribed_topic_regex = Some("(")), ErrorCode::INVALID_REGULAR_EXPRESSION),
        (of(&|r| r.server_assignor = Some("x")), ErrorCode::UNSUPPORTED_ASSIGNOR),
        (of(&|r| r.member_epoch = 3), ErrorCode::GROUP_ID_NOT_FOUND),
        (of(&|r| r.rebalance_timeout_ms = -1), ErrorCode::INVALID_REQUEST),
        (of(&|r| r.instance_id = Some("i")), ErrorCode::NONE),
        (of(&|r| (r.instance_id, r.member_id) = (Some("i"), "n")), ErrorCode::UNRELEASED_INSTANCE_ID),
        (of(&|r| r.member_epoch = 3), ErrorCode::FENCED_MEMBER_EPOCH),
    ];
    for (request, expected) in cases {
        assert_eq!(beat(&world, 1, &request).await.0, expected, "{request:?}");
    }
}
