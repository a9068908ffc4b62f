//! Topics: Metadata, CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, and who describes them.

use std::time::Duration;

use base::TopicId;
use protocol::messages::create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic};
use protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};
use protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use protocol::messages::delete_topics_request::DeleteTopicState;
use protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::messages::*;

use super::*;

fn by_name(name: &str) -> MetadataRequestTopic<'_> {
    MetadataRequestTopic { name: Some(name), ..Default::default() }
}

fn metadata<'a>(topics: Option<Vec<MetadataRequestTopic<'a>>>, create: bool) -> MetadataRequest<'a> {
    MetadataRequest { topics, allow_auto_topic_creation: create, ..Default::default() }
}

fn wanted(name: &str, partitions: i32, replicas: i16) -> CreatableTopic<'_> {
    CreatableTopic { name, num_partitions: partitions, replication_factor: replicas, ..Default::default() }
}

fn create(topics: Vec<CreatableTopic<'_>>) -> CreateTopicsRequest<'_> {
    CreateTopicsRequest { topics, timeout_ms: 5000, ..Default::default() }
}

#[tokio::test]
async fn metadata_names_the_broker_by_the_listener_the_client_came_by() {
    let bench = Bench::start();
    for (listener, port) in [(0, 9092), (1, 19092)] {
        let body = bench.body_at(listener, &metadata(Some(vec![]), false), 9).await;
        let response = MetadataResponse::parse(&body, 9).unwrap();
        assert_eq!(response.brokers.len(), 1);
        assert_eq!((response.brokers[0].node_id, response.brokers[0].host), (1, "broker.test"));
        assert_eq!(response.brokers[0].port, port);
        assert_eq!(response.controller_id, 1);
        assert_eq!(response.cluster_id.unwrap().len(), 22);
    }
}

#[tokio::test]
async fn an_empty_list_is_all_in_version_0_and_none_from_version_1_on() {
    let bench = Bench::start();
    bench.topic("a", vec![FakeLog::default()]).await;
    bench.topic("b", vec![FakeLog::default(); 2]).await;
    ask!(bench, metadata(Some(vec![]), false), 0 => response: MetadataResponse<'_>);
    assert_eq!(response.topics.len(), 2);
    ask!(bench, metadata(Some(vec![]), false), 1 => response: MetadataResponse<'_>);
    assert!(response.topics.is_empty());
    ask!(bench, metadata(None, false), 12 => response: MetadataResponse<'_>);
    let names: Vec<_> = response.topics.iter().map(|topic| (topic.name.unwrap(), topic.partitions.len())).collect();
    assert_eq!(names, [("a", 1), ("b", 2)]);
    let partition = &response.topics[1].partitions[1];
    assert_eq!((partition.partition_index, partition.leader_id, partition.leader_epoch), (1, 1, 1));
    assert_eq!((&partition.replica_nodes[..], &partition.isr_nodes[..]), (&[1][..], &[1][..]));
    assert_ne!(response.topics[0].topic_id, TopicId::ZERO);
}

#[tokio::test]
async fn a_topic_is_created_on_first_use_if_client_and_broker_allow_it() {
    let bench = Bench::with(|settings| settings.num_partitions = 4);
    ask!(bench, metadata(Some(vec![by_name("t")]), false), 8 => response: MetadataResponse<'_>);
    assert_eq!(response.topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    ask!(bench, metadata(Some(vec![by_name("t"), by_name("t"), by_name("a/b")]), true), 8 => response: MetadataResponse<'_>);
    assert_eq!(response.topics.len(), 2, "a name that comes twice is shown once");
    assert_eq!((response.topics[0].error_code, response.topics[0].partitions.len()), (OK, 4));
    assert_eq!(response.topics[1].error_code, ErrorCode::INVALID_TOPIC_EXCEPTION);
    // Versions below 4 cannot say no.
    ask!(bench, metadata(Some(vec![by_name("u")]), false), 3 => response: MetadataResponse<'_>);
    assert_eq!((response.topics[0].error_code, response.topics[0].partitions.len()), (OK, 4));
    assert_eq!(bench.control.context().stats.topics_auto_created.get(), 2);

    let strict = Bench::with(|settings| settings.auto_create_topics = false);
    ask!(strict, metadata(Some(vec![by_name("t")]), true), 8 => response: MetadataResponse<'_>);
    assert_eq!(response.topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[tokio::test]
async fn a_topic_made_anew_has_another_id_and_the_old_one_is_unknown() {
    let bench = Bench::start();
    let id_of = async || {
        ask!(bench, metadata(Some(vec![by_name("t")]), true), 12 => response: MetadataResponse<'_>);
        response.topics[0].topic_id
    };
    let old = id_of().await;
    let by_id = |topic_id| MetadataRequestTopic { name: None, topic_id };
    ask!(bench, metadata(Some(vec![by_id(old)]), false), 12 => response: MetadataResponse<'_>);
    assert_eq!((response.topics[0].name, response.topics[0].error_code), (Some("t"), OK));
    // Java's clients leave the name empty beside an id, with regular expressions of KIP-848 for example.
    let nameless = MetadataRequestTopic { name: Some(""), topic_id: old };
    ask!(bench, metadata(Some(vec![nameless]), true), 13 => response: MetadataResponse<'_>);
    assert_eq!((response.topics[0].name, response.topics[0].error_code), (Some("t"), OK));
    let request = DeleteTopicsRequest {
        topics: vec![DeleteTopicState { name: None, topic_id: old }],
        timeout_ms: 5000,
        ..Default::default()
    };
    ask!(bench, request, 6 => response: DeleteTopicsResponse<'_>);
    assert_eq!((response.responses[0].error_code, response.responses[0].name), (OK, Some("t")));
    let new = id_of().await;
    assert_ne!(new, old);
    ask!(bench, metadata(Some(vec![by_id(old)]), false), 12 => response: MetadataResponse<'_>);
    assert_eq!(response.topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID);
    ask!(bench, request, 6 => response: DeleteTopicsResponse<'_>);
    assert_eq!(response.responses[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID);
}

#[tokio::test]
async fn create_topics_says_what_it_made() {
    let bench = Bench::start();
    let mut topic = wanted("t", 3, 1);
    topic.configs = vec![
        CreatableTopicConfig { name: "retention.ms", value: Some("1000") },
        CreatableTopicConfig { name: "segment.bytes", value: Some("1048576") },
    ];
    ask!(bench, create(vec![topic, wanted("u", -1, -1)]), 7 => response: CreateTopicsResponse<'_>);
    let [t, u] = &response.topics[..] else { panic!("two topics") };
    assert_eq!((t.error_code, t.num_partitions, t.replication_factor), (OK, 3, 1));
    assert_eq!((u.error_code, u.num_partitions, u.replication_factor), (OK, 1, 1));
    let config = |name: &str| t.configs.as_ref().unwrap().iter().find(|c| c.name == name).unwrap();
    assert_eq!((config("retention.ms").value, config("retention.ms").config_source), (Some("1000"), 1));
    assert_eq!((config("retention.bytes").value, config("retention.bytes").config_source), (Some("-1"), 5));
    let image = bench.control.context().store.image();
    let made = image.topics.get("t").unwrap();
    assert_eq!((made.id, made.config.retention_ms), (t.topic_id, 1000));
}

#[tokio::test]
async fn create_topics_refuses_by_name() {
    let bench = Bench::start();
    bench.topic("there", vec![FakeLog::default()]).await;
    let config = |name: &'static str, value: Option<&'static str>| {
        let mut topic = wanted("t", 1, 1);
        topic.configs = vec![CreatableTopicConfig { name, value }];
        topic
    };
    let assigned = |assignments: Vec<(i32, Vec<i32>)>, partitions| {
        let mut topic = wanted("t", partitions, -1);
        topic.assignments = assignments
            .into_iter()
            .map(|(partition_index, broker_ids)| CreatableReplicaAssignment { partition_index, broker_ids })
            .collect();
        topic
    };
    let cases = [
        (wanted("there", 1, 1), ErrorCode::TOPIC_ALREADY_EXISTS),
        (wanted("a b", 1, 1), ErrorCode::INVALID_TOPIC_EXCEPTION),
        (wanted("t", 1, 2), ErrorCode::INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, 0), ErrorCode::INVALID_REPLICATION_FACTOR),
        (wanted("t", 0, 1), ErrorCode::INVALID_PARTITIONS),
        (wanted("t", -2, 1), ErrorCode::INVALID_PARTITIONS),
        (wanted("t", 1_000_000, 1), ErrorCode::INVALID_PARTITIONS),
        (config("cleanup.policy", Some("compact,gone")), ErrorCode::INVALID_CONFIG),
        (config("compression.type", Some("gzip")), ErrorCode::INVALID_CONFIG),
        (config("no.such.thing", Some("1")), ErrorCode::INVALID_CONFIG),
        (config("retention.ms", Some("soon")), ErrorCode::INVALID_CONFIG),
        (config("retention.ms", None), ErrorCode::INVALID_CONFIG),
        (assigned(vec![(0, vec![2])], -1), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assigned(vec![(0, vec![1, 2])], -1), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assigned(vec![(1, vec![1])], -1), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assigned(vec![(0, vec![1])], 1), ErrorCode::INVALID_REQUEST),
    ];
    for (topic, expected) in cases {
        let what = format!("{topic:?}");
        ask!(bench, create(vec![topic]), 7 => response: CreateTopicsResponse<'_>);
        assert_eq!(response.topics[0].error_code, expected, "{what}");
        assert!(response.topics[0].error_message.is_some(), "{what}");
    }
    ask!(bench, create(vec![wanted("there", 1, 1)]), 7 => response: CreateTopicsResponse<'_>);
    assert_eq!(response.topics[0].error_message, Some("Topic 'there' already exists."), "tools read these words");
    ask!(bench, create(vec![wanted("t", 1, 1), wanted("t", 1, 1)]), 7 => response: CreateTopicsResponse<'_>);
    let codes: Vec<_> = response.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [ErrorCode::INVALID_REQUEST], "named twice, answered once");
    assert_eq!(bench.control.context().store.image().topics.len(), 1);
    // An assignment that says what would happen anyway is fine.
    ask!(bench, create(vec![assigned(vec![(1, vec![1]), (0, vec![1])], -1)]), 7 => response: CreateTopicsResponse<'_>);
    assert_eq!((response.topics[0].error_code, response.topics[0].num_partitions), (OK, 2));
}

#[tokio::test]
async fn validate_only_changes_nothing() {
    let bench = Bench::start();
    bench.topic("there", vec![FakeLog::default()]).await;
    let request = CreateTopicsRequest { validate_only: true, ..create(vec![wanted("t", 3, 1), wanted("there", 1, 1)]) };
    ask!(bench, request, 7 => response: CreateTopicsResponse<'_>);
    assert_eq!((response.topics[0].error_code, response.topics[0].num_partitions), (OK, 3));
    assert_eq!(response.topics[1].error_code, ErrorCode::TOPIC_ALREADY_EXISTS);
    let topics = vec![CreatePartitionsTopic { name: "there", count: 5, assignments: None }];
    ask!(bench, CreatePartitionsRequest { topics, timeout_ms: 5000, validate_only: true }, 3 => response: CreatePartitionsResponse<'_>);
    assert_eq!(response.results[0].error_code, OK);
    let image = bench.control.context().store.image();
    assert_eq!((image.topics.len(), image.topics.get("there").unwrap().partitions.len()), (1, 1));
}

#[tokio::test]
async fn a_change_that_no_shard_applies_in_time_is_reported_as_such() {
    let bench = Bench::with(|settings| settings.apply_bound = Duration::from_millis(20));
    bench.shards.deaf.store(true, Ordering::Relaxed);
    ask!(bench, create(vec![wanted("t", 1, 1)]), 7 => response: CreateTopicsResponse<'_>);
    assert_eq!(response.topics[0].error_code, ErrorCode::REQUEST_TIMED_OUT);
    ask!(bench, metadata(Some(vec![by_name("u")]), true), 8 => response: MetadataResponse<'_>);
    assert_eq!(response.topics[0].error_code, ErrorCode::LEADER_NOT_AVAILABLE, "transiently");
    bench.shards.deaf.store(false, Ordering::Relaxed);
    ask!(bench, metadata(Some(vec![by_name("u")]), true), 8 => response: MetadataResponse<'_>);
    assert_eq!(response.topics[0].error_code, OK);
}

#[tokio::test]
async fn delete_topics_by_name_and_its_refusals() {
    let bench = Bench::start();
    bench.topic("a", vec![FakeLog::default()]).await;
    bench.topic("b", vec![FakeLog::default()]).await;
    bench.topic("__consumer_offsets", vec![FakeLog::default()]).await;
    let names = |names: &[&'static str]| DeleteTopicsRequest {
        topic_names: names.to_vec(),
        timeout_ms: 5000,
        ..Default::default()
    };
    ask!(bench, names(&["a", "none", "__consumer_offsets"]), 5 => response: DeleteTopicsResponse<'_>);
    let codes: Vec<_> = response.responses.iter().map(|r| (r.name.unwrap(), r.error_code)).collect();
    assert_eq!(
        codes,
        [
            ("a", OK),
            ("none", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            ("__consumer_offsets", ErrorCode::INVALID_TOPIC_EXCEPTION)
        ]
    );
    ask!(bench, names(&["b", "b"]), 1 => response: DeleteTopicsResponse<'_>);
    assert!(response.responses.iter().all(|r| r.error_code == ErrorCode::INVALID_REQUEST));
    let both = DeleteTopicState { name: Some("b"), topic_id: TopicId(5) };
    let request = DeleteTopicsRequest { topics: vec![both], timeout_ms: 5000, ..Default::default() };
    ask!(bench, request, 6 => response: DeleteTopicsResponse<'_>);
    assert_eq!(response.responses[0].error_code, ErrorCode::INVALID_REQUEST);
    assert_eq!((response.responses[0].name, response.responses[0].topic_id), (Some("b"), TopicId(5)));
    let neither = DeleteTopicState { name: None, topic_id: TopicId::ZERO };
    let request = DeleteTopicsRequest { topics: vec![neither], timeout_ms: 5000, ..Default::default() };
    ask!(bench, request, 6 => response: DeleteTopicsResponse<'_>);
    assert_eq!(response.responses[0].error_code, ErrorCode::INVALID_REQUEST);
    let id = bench.control.context().store.image().topics.get("b").unwrap().id;
    let named = DeleteTopicState { name: Some("b"), topic_id: TopicId::ZERO };
    let request = DeleteTopicsRequest { topics: vec![named], timeout_ms: 5000, ..Default::default() };
    ask!(bench, request, 6 => response: DeleteTopicsResponse<'_>);
    assert_eq!((response.responses[0].error_code, response.responses[0].topic_id), (OK, id));
}

#[tokio::test]
async fn create_partitions_grows_a_topic_and_refuses_to_shrink_it() {
    let bench = Bench::start();
    bench.topic("t", vec![FakeLog::default(); 2]).await;
    let grow = |count, assignments: Option<Vec<Vec<i32>>>| CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: "t",
            count,
            assignments: assignments
                .map(|all| all.into_iter().map(|broker_ids| CreatePartitionsAssignment { broker_ids }).collect()),
        }],
        timeout_ms: 5000,
        validate_only: false,
    };
    for (request, expected, partitions) in [
        (grow(2, None), ErrorCode::INVALID_PARTITIONS, 2),
        (grow(1, None), ErrorCode::INVALID_PARTITIONS, 2),
        (grow(-1, None), ErrorCode::INVALID_PARTITIONS, 2),
        (grow(4, Some(vec![vec![1]])), ErrorCode::INVALID_REPLICA_ASSIGNMENT, 2),
        (grow(3, Some(vec![vec![9]])), ErrorCode::INVALID_REPLICA_ASSIGNMENT, 2),
        (grow(3, Some(vec![vec![1]])), OK, 3),
        (grow(7, None), OK, 7),
    ] {
        ask!(bench, request, 3 => response: CreatePartitionsResponse<'_>);
        assert_eq!(response.results[0].error_code, expected);
        let image = bench.control.context().store.image();
        assert_eq!(image.topics.get("t").unwrap().partitions.len(), partitions);
    }
    let topics = vec![CreatePartitionsTopic { name: "none", count: 2, assignments: None }];
    ask!(bench, CreatePartitionsRequest { topics, ..Default::default() }, 3 => response: CreatePartitionsResponse<'_>);
    assert_eq!(response.results[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[tokio::test]
async fn delete_records_moves_the_log_start_and_no_further_than_the_end() {
    let bench = Bench::start();
    let log = FakeLog { start: 10, end: 50, ..FakeLog::default() };
    bench.topic("t", vec![log.clone(), log.clone(), log]).await;
    let at = |partition_index, offset| DeleteRecordsPartition { partition_index, offset };
    let topic = DeleteRecordsTopic { name: "t", partitions: vec![at(0, 20), at(1, -1), at(2, 51), at(9, 1)] };
    ask!(bench, DeleteRecordsRequest { topics: vec![topic], timeout_ms: 5000 }, 2 => response: DeleteRecordsResponse<'_>);
    let results: Vec<_> =
        response.topics[0].partitions.iter().map(|p| (p.partition_index, p.low_watermark, p.error_code)).collect();
    assert_eq!(
        results,
        [
            (0, 20, OK),
            (1, 50, OK),
            (2, -1, ErrorCode::OFFSET_OUT_OF_RANGE),
            (9, -1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        ]
    );
}

#[tokio::test]
async fn producer_ids_are_given_once_and_transactions_are_refused() {
    let bench = Bench::start();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..2500 {
        ask!(bench, InitProducerIdRequest::default(), 4 => response: InitProducerIdResponse);
        assert_eq!((response.error_code, response.producer_epoch), (OK, 0));
        assert!(seen.insert(response.producer_id), "an id twice");
    }
    let request = InitProducerIdRequest { transactional_id: Some("tx"), ..Default::default() };
    ask!(bench, request, 4 => response: InitProducerIdResponse);
    assert_eq!(response.error_code, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    assert_eq!(response.producer_id, -1);
    for (transactional_id, producer_id, producer_epoch) in [(Some(""), -1, -1), (None, 5, -1), (None, -1, 5)] {
        let request = InitProducerIdRequest { transactional_id, producer_id, producer_epoch, ..Default::default() };
        ask!(bench, request, 4 => response: InitProducerIdResponse);
        assert_eq!((response.error_code, response.producer_epoch), (ErrorCode::INVALID_REQUEST, -1));
    }
}

#[tokio::test]
async fn the_cluster_its_devices_and_producers_are_described() {
    let bench = Bench::start();
    bench.topic("t", vec![FakeLog::default(); 2]).await;
    ask!(bench, DescribeClusterRequest { endpoint_type: 1, ..Default::default() }, 2 => response: DescribeClusterResponse<'_>);
    assert_eq!((response.error_code, response.controller_id, response.brokers[0].port), (OK, 1, 9092));
    ask!(bench, DescribeClusterRequest { endpoint_type: 2, ..Default::default() }, 1 => response: DescribeClusterResponse<'_>);
    assert_eq!((response.error_code, response.endpoint_type), (ErrorCode::MISMATCHED_ENDPOINT_TYPE, 1));

    ask!(bench, DescribeLogDirsRequest { topics: None }, 4 => response: DescribeLogDirsResponse<'_>);
    let device = &response.results[0];
    assert_eq!((device.log_dir, device.total_bytes, device.usable_bytes), ("/data/device-0", 1 << 30, 1 << 29));
    assert_eq!(device.topics[0].name, "t");
    let sizes: Vec<_> = device.topics[0].partitions.iter().map(|p| (p.partition_index, p.partition_size)).collect();
    assert_eq!(sizes, [(0, 1000), (1, 1000)]);

    let topics = vec![describe_producers_request::TopicRequest { name: "t", partition_indexes: vec![0, 5, 0] }];
    ask!(bench, DescribeProducersRequest { topics }, 0 => response: DescribeProducersResponse<'_>);
    let [there, missing, again] = &response.topics[0].partitions[..] else { panic!("three partitions") };
    assert_eq!((again.error_code, again.active_producers.len()), (ErrorCode::INVALID_REQUEST, 0));
    assert_eq!((there.active_producers[0].producer_id, there.active_producers[0].last_sequence), (77, 9));
    assert_eq!(missing.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[tokio::test]
async fn topics_are_described_page_by_page() {
    use protocol::messages::describe_topic_partitions_request::Cursor;
    let bench = Bench::start();
    bench.topic("a", vec![FakeLog::default(); 3]).await;
    bench.topic("b", vec![FakeLog::default(); 2]).await;
    let mut seen = Vec::new();
    let mut at: Option<(String, i32)> = None;
    loop {
        let cursor = at.as_ref().map(|(name, index)| Cursor { topic_name: name, partition_index: *index });
        let request = DescribeTopicPartitionsRequest { topics: vec![], response_partition_limit: 2, cursor };
        ask!(bench, request, 0 => response: DescribeTopicPartitionsResponse<'_>);
        assert!(response.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() <= 2);
        for topic in &response.topics {
            // Kafka's admin client fails on null here.
            assert!(
                topic.partitions.iter().all(|p| p.eligible_leader_replicas.is_some() && p.last_known_elr.is_some())
            );
            seen.extend(topic.partitions.iter().map(|p| (topic.name.unwrap().to_owned(), p.partition_index)));
        }
        match &response.next_cursor {
            Some(cursor) => at = Some((cursor.topic_name.to_owned(), cursor.partition_index)),
            None => break,
        }
    }
    let expected = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)];
    assert_eq!(seen, expected.map(|(name, index)| (name.to_owned(), index)));
    // A limit below one is one; a page cannot begin where nothing was asked for.
    let request = DescribeTopicPartitionsRequest { topics: vec![], response_partition_limit: 0, cursor: None };
    ask!(bench, request, 0 => response: DescribeTopicPartitionsResponse<'_>);
    assert_eq!((response.topics.len(), response.topics[0].partitions.len()), (1, 1));
    for (topic_name, partition_index) in [("b", 0), ("a", -1)] {
        let request = DescribeTopicPartitionsRequest {
            topics: vec![describe_topic_partitions_request::TopicRequest { name: "a" }],
            response_partition_limit: 10,
            cursor: Some(Cursor { topic_name, partition_index }),
        };
        ask!(bench, request, 0 => response: DescribeTopicPartitionsResponse<'_>);
        assert_eq!(response.topics[0].error_code, ErrorCode::INVALID_REQUEST);
    }
}

#[tokio::test]
async fn acls_answer_that_there_is_no_authorizer() {
    let bench = Bench::start();
    ask!(bench, DescribeAclsRequest::default(), 3 => response: DescribeAclsResponse<'_>);
    assert_eq!(response.error_code, ErrorCode::SECURITY_DISABLED);
    let creations = vec![create_acls_request::AclCreation::default(); 2];
    ask!(bench, CreateAclsRequest { creations }, 3 => response: CreateAclsResponse<'_>);
    assert!(
        response.results.len() == 2 && response.results.iter().all(|r| r.error_code == ErrorCode::SECURITY_DISABLED)
    );
    let filters = vec![delete_acls_request::DeleteAclsFilter::default()];
    ask!(bench, DeleteAclsRequest { filters }, 3 => response: DeleteAclsResponse<'_>);
    assert_eq!(response.filter_results[0].error_code, ErrorCode::SECURITY_DISABLED);
}

#[tokio::test]
async fn no_client_changes_where_committed_offsets_lie_or_how_long() {
    use protocol::messages::{alter_configs_request as set, incremental_alter_configs_request as alter};
    const NAME: &str = "__consumer_offsets";
    let bench = Bench::start();
    bench.topic(NAME, vec![FakeLog { start: 0, end: 50, ..FakeLog::default() }; 2]).await;
    let before = bench.control.context().store.topic(NAME).unwrap();
    for validate_only in [true, false] {
        let topics = vec![CreatePartitionsTopic { name: NAME, count: 5, assignments: None }];
        let request = CreatePartitionsRequest { topics, timeout_ms: 5000, validate_only };
        ask!(bench, request, 3 => response: CreatePartitionsResponse<'_>);
        assert_eq!(response.results[0].error_code, ErrorCode::INVALID_TOPIC_EXCEPTION);

        let configs = vec![set::AlterableConfig { name: "segment.bytes", value: Some("1048576") }];
        let resources = vec![set::AlterConfigsResource { resource_type: 2, resource_name: NAME, configs }];
        ask!(bench, AlterConfigsRequest { resources, validate_only }, 2 => response: AlterConfigsResponse<'_>);
        assert_eq!(response.responses[0].error_code, ErrorCode::INVALID_TOPIC_EXCEPTION);

        let configs = vec![alter::AlterableConfig { name: "retention.ms", config_operation: 1, value: None }];
        let resources = vec![alter::AlterConfigsResource { resource_type: 2, resource_name: NAME, configs }];
        let request = IncrementalAlterConfigsRequest { resources, validate_only };
        ask!(bench, request, 1 => response: IncrementalAlterConfigsResponse<'_>);
        assert_eq!(response.responses[0].error_code, ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    for offset in [-1, 10] {
        let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset }];
        let topics = vec![DeleteRecordsTopic { name: NAME, partitions }];
        ask!(bench, DeleteRecordsRequest { topics, timeout_ms: 5000 }, 2 => response: DeleteRecordsResponse<'_>);
        let partition = &response.topics[0].partitions[0];
        assert_eq!((partition.low_watermark, partition.error_code), (-1, ErrorCode::INVALID_TOPIC_EXCEPTION));
    }
    assert_eq!(bench.control.context().store.topic(NAME).unwrap(), before);
    assert!(bench.shards.logs.lock().unwrap().values().all(|log| log.start == 0));
}

#[tokio::test]
async fn a_client_may_make_the_offsets_topic_with_its_partitions_and_without_settings() {
    let bench = Bench::start();
    let mut topic = wanted("__consumer_offsets", 7, 1);
    topic.configs = vec![CreatableTopicConfig { name: "max.message.bytes", value: Some("100") }];
    ask!(bench, create(vec![topic]), 7 => response: CreateTopicsResponse<'_>);
    assert_eq!(response.topics[0].error_code, ErrorCode::INVALID_TOPIC_EXCEPTION);
    ask!(bench, create(vec![wanted("__consumer_offsets", 7, 1)]), 7 => response: CreateTopicsResponse<'_>);
    assert_eq!((response.topics[0].error_code, response.topics[0].num_partitions), (OK, 7));
    let image = bench.control.context().store.image();
    let config = &image.topics.get("__consumer_offsets").unwrap().config;
    assert_eq!((config.retention_ms, config.retention_bytes), (-1, -1));
}

/// Kafka 4.4 answers the same codes to the same requests.
#[tokio::test]
async fn alterations_that_are_not_well_formed_are_invalid_requests_and_what_does_not_exist_is_deleted_already() {
    use protocol::messages::{alter_configs_request as set, incremental_alter_configs_request as alter};
    let bench = Bench::start();
    bench.topic("t", vec![FakeLog::default()]).await;
    let whole = [
        (vec![("retention.ms", None)], ErrorCode::INVALID_REQUEST),
        (vec![("no.such.thing", None)], ErrorCode::INVALID_REQUEST),
        (vec![("retention.ms", Some("5")), ("retention.ms", Some("6"))], ErrorCode::INVALID_REQUEST),
        (vec![("no.such.thing", Some("1"))], ErrorCode::INVALID_CONFIG),
        (vec![("retention.ms", Some("5"))], OK),
    ];
    for (configs, expected) in whole {
        let what = format!("{configs:?}");
        let configs = configs.iter().map(|&(name, value)| set::AlterableConfig { name, value }).collect();
        let resources = vec![set::AlterConfigsResource { resource_type: 2, resource_name: "t", configs }];
        let request = AlterConfigsRequest { resources, validate_only: false };
        ask!(bench, request, 2 => response: AlterConfigsResponse<'_>);
        assert_eq!(response.responses[0].error_code, expected, "{what}");
    }
    let changes = [
        (vec![("retention.ms", 0, None)], ErrorCode::INVALID_REQUEST),
        (vec![("cleanup.policy", 2, None)], ErrorCode::INVALID_REQUEST),
        (vec![("retention.ms", 0, Some("7")), ("retention.ms", 1, None)], ErrorCode::INVALID_REQUEST),
        (vec![("retention.ms", 9, Some("7"))], ErrorCode::INVALID_REQUEST),
        (vec![("no.such.thing", 0, Some("7"))], ErrorCode::INVALID_CONFIG),
        (vec![("no.such.thing", 1, None)], OK),
        (vec![("no.such.thing", 1, None), ("retention.ms", 1, Some("ignored"))], OK),
    ];
    for (configs, expected) in changes {
        let what = format!("{configs:?}");
        let made = |&(name, config_operation, value): &(&'static str, i8, Option<&'static str>)| {
            alter::AlterableConfig { name, config_operation, value }
        };
        let configs = configs.iter().map(made).collect();
        let resources = vec![alter::AlterConfigsResource { resource_type: 2, resource_name: "t", configs }];
        let request = IncrementalAlterConfigsRequest { resources, validate_only: false };
        ask!(bench, request, 1 => response: IncrementalAlterConfigsResponse<'_>);
        assert_eq!(response.responses[0].error_code, expected, "{what}");
    }
    assert!(bench.control.context().store.topic("t").unwrap().configs.is_empty(), "the last change took it back");
}
