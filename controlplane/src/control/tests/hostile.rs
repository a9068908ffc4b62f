//! Bytes that no client sends.

use proptest::prelude::*;
use protocol::api::APIS;
use protocol::messages::create_topics_request::CreatableTopic;
use protocol::messages::*;

use super::*;

fn request(frame: Vec<u8>) -> ControlRequest {
    ControlRequest { shard: ShardId(0), conn: ConnId(1), sequence: 1, listener: 0, peer: "127.0.0.1:5".into(), frame }
}

fn head(key: ApiKey, version: i16) -> Vec<u8> {
    let mut frame = Vec::new();
    put_request_header(&mut frame, key, version, 1, None);
    frame
}

#[test]
fn random_bodies_of_every_api_and_version_are_answered_or_refused() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let bench = runtime.block_on(async { Bench::with(|settings| settings.auto_create_topics = false) });
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(40));
    let apis: Vec<_> = APIS.iter().filter(|api| !is_group_api(api.key)).collect();
    let strategy = prop::collection::vec(prop_oneof![3 => any::<u8>(), 2 => 0u8..4, 1 => Just(0xff)], 0..60);
    runner
        .run(&strategy, |body| {
            for api in &apis {
                for version in api.served_min..=api.max {
                    let mut frame = head(api.key, version);
                    frame.extend_from_slice(&body);
                    // A panic of a handler fails the test.
                    let _ = runtime.block_on(answer(bench.control.context(), &request(frame)));
                }
            }
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn a_count_without_the_bytes_closes_the_connection() {
    let bench = Bench::start();
    for (key, version) in [(ApiKey::Metadata, 1), (ApiKey::CreateTopics, 2), (ApiKey::DeleteRecords, 0)] {
        let mut frame = head(key, version);
        frame.extend_from_slice(&i32::MAX.to_be_bytes());
        assert_eq!(bench.raw(0, frame).await, None, "{key:?}");
    }
    let mut frame = head(ApiKey::DescribeConfigs, 4);
    frame.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert_eq!(bench.raw(0, frame).await, None);
    assert!(bench.control.context().stats.requests_refused.get() >= 4);
}

#[tokio::test]
async fn a_request_with_more_topics_than_any_client_sends_is_refused_before_work_begins() {
    let bench = Bench::start();
    let topics =
        vec![CreatableTopic { name: "x", num_partitions: 1, replication_factor: 1, ..Default::default() }; 100_001];
    let frame = frame(&CreateTopicsRequest { topics, timeout_ms: 1, validate_only: true }, 7);
    assert_eq!(bench.raw(0, frame).await, None);
}

#[tokio::test]
async fn requests_beyond_the_byte_budget_close_their_connection_and_the_budget_comes_back() {
    let bench = Bench::with(|settings| settings.request_bytes_max = 4096);
    let big = MetadataRequest {
        topics: Some(vec![metadata_request::MetadataRequestTopic { name: Some("x"), ..Default::default() }; 2000]),
        ..Default::default()
    };
    assert_eq!(bench.raw(0, frame(&big, 1)).await, None);
    for _ in 0..50 {
        assert!(bench.raw(0, frame(&MetadataRequest::default(), 1)).await.is_some());
    }
    assert_eq!(bench.control.context().stats.requests_in_flight.get(), 0);
}

#[tokio::test]
async fn a_flood_of_requests_is_answered_to_the_last() {
    let bench = Arc::new(Bench::with(|settings| settings.requests_at_a_time = 4));
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..500 {
        let bench = bench.clone();
        tasks.spawn(async move {
            let name = format!("t{}", i % 20);
            let topic = metadata_request::MetadataRequestTopic { name: Some(&name), ..Default::default() };
            let request =
                MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: true, ..Default::default() };
            ask!(bench, request, 9 => response: MetadataResponse<'_>);
            assert_eq!(response.topics[0].error_code, OK);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(bench.control.context().store.image().topics.len(), 20);
}
