//! ApiVersions and its traps; every served version answers in its own shape.

use protocol::api::APIS;
use protocol::messages::*;

use super::*;

#[tokio::test]
async fn api_versions_lists_exactly_what_is_served() {
    let bench = Bench::start();
    for version in 0..=ApiKey::ApiVersions.info().max {
        let request =
            ApiVersionsRequest { client_software_name: "a", client_software_version: "1.0-b.c", ..Default::default() };
        ask!(bench, request, version => response: ApiVersionsResponse<'_>);
        assert_eq!(response.error_code, OK);
        let rows: Vec<_> = response.api_keys.iter().map(|r| (r.api_key, r.min_version, r.max_version)).collect();
        assert_eq!(rows, APIS.iter().map(|api| (api.key as i16, api.min, api.max)).collect::<Vec<_>>());
        // Old librdkafka turns compression and groups off when these do not begin at 0.
        assert!(rows.contains(&(0, 0, ApiKey::Produce.info().max)) && rows.contains(&(11, 0, 9)));
        assert!(rows.iter().all(|(key, ..)| ![17, 24, 25, 26, 28, 36].contains(key)));
        // A range that begins at 0 breaks clients older than version 4 (KAFKA-17011).
        let supported: Vec<_> =
            response.supported_features.iter().map(|f| (f.name, f.min_version, f.max_version)).collect();
        assert_eq!(supported, if version >= 4 { vec![("group.version", 0, 1)] } else { vec![] });
        let finalized: Vec<_> =
            response.finalized_features.iter().map(|f| (f.name, f.min_version_level, f.max_version_level)).collect();
        assert_eq!(finalized, if version >= 3 { vec![("group.version", 1, 1)] } else { vec![] });
        assert_eq!(response.finalized_features_epoch >= 0, version >= 3);
    }
}

#[tokio::test]
async fn the_header_of_an_api_versions_response_has_no_tags() {
    let bench = Bench::start();
    let request = ApiVersionsRequest { client_software_name: "a", client_software_version: "1", ..Default::default() };
    let response = bench.raw(0, frame(&request, 4)).await.unwrap();
    assert_eq!(response[..6], [0, 0, 0x12, 0x67, 0, 0], "correlation id, then the error code at once");
}

#[tokio::test]
async fn an_unknown_version_of_api_versions_is_answered_in_version_0_with_its_own_row() {
    let bench = Bench::start();
    for version in [6i16, 99, i16::MAX, -1] {
        let mut bytes = vec![0, 18];
        bytes.extend_from_slice(&version.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 9, 0xde, 0xad, 0xbe, 0xef]);
        let response = bench.raw(0, bytes).await.unwrap();
        let max = u8::try_from(ApiKey::ApiVersions.info().max).unwrap();
        assert_eq!(response, [0, 0, 0, 9, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, max], "version {version}");
    }
}

#[tokio::test]
async fn client_software_must_look_like_a_name() {
    let bench = Bench::start();
    for (name, version, good) in [
        ("librdkafka", "2.0.2", true),
        ("a", "1", true),
        ("", "1", false),
        ("a", "", false),
        ("-a", "1", false),
        ("a", "1.", false),
        ("a b", "1", false),
        ("ä", "1", false),
    ] {
        let request =
            ApiVersionsRequest { client_software_name: name, client_software_version: version, ..Default::default() };
        ask!(bench, request, 3 => response: ApiVersionsResponse<'_>);
        let expected = if good { OK } else { ErrorCode::INVALID_REQUEST };
        assert_eq!(response.error_code, expected, "{name:?} {version:?}");
    }
    assert_eq!(bench.control.context().stats.errors[18].get(), 6);
}

#[tokio::test]
async fn a_client_that_means_another_broker_is_sent_to_its_bootstrap_servers() {
    let bench = Bench::start();
    let own = crate::api::id_text(bench.control.context().store.image().cluster.0);
    for (node_id, cluster_id, expected) in [
        (-1, None, OK),
        (1, Some(&*own), OK),
        (2, Some(&*own), ErrorCode::REBOOTSTRAP_REQUIRED),
        (1, Some("x"), ErrorCode::REBOOTSTRAP_REQUIRED),
        (1, None, ErrorCode::INVALID_REQUEST),
        (-1, Some(&*own), ErrorCode::INVALID_REQUEST),
    ] {
        let request =
            ApiVersionsRequest { client_software_name: "a", client_software_version: "1", cluster_id, node_id };
        ask!(bench, request, 5 => response: ApiVersionsResponse<'_>);
        assert_eq!(response.error_code, expected);
    }
}

#[tokio::test]
async fn unknown_keys_and_versions_close_the_connection() {
    let bench = Bench::start();
    for (key, version) in [(17i16, 1i16), (36, 0), (24, 0), (999, 0), (-1, 0), (3, 99), (19, 0), (19, -1)] {
        let mut bytes = key.to_be_bytes().to_vec();
        bytes.extend_from_slice(&version.to_be_bytes());
        bytes.extend_from_slice(&[0; 12]);
        assert_eq!(bench.raw(0, bytes).await, None, "{key} {version}");
    }
    assert_eq!(bench.raw(0, vec![0, 18]).await, None, "a header that is cut short");
}

/// For each request type and version: the default request is answered, and the answer decodes.
macro_rules! answered {
    ($bench:ident, $($request:ident $response:ident),* $(,)?) => {$({
        let api = <$request as KafkaRequest<'_>>::KEY.info();
        for version in api.served_min..=api.max {
            let body = $bench.body(&$request::default(), version).await;
            let mut reader = protocol::wire::Reader::new(&body);
            let decoded = <$response as Message<'_>>::decode(&mut reader, version);
            assert!(decoded.is_ok() && reader.rest().is_empty(), "{} {version}: {decoded:?}", api.name);
        }
    })*};
}

#[tokio::test]
async fn every_served_version_is_answered_in_its_shape() {
    let bench = Bench::start();
    bench.topic("t", vec![FakeLog::default(); 3]).await;
    answered!(
        bench,
        ApiVersionsRequest ApiVersionsResponse,
        MetadataRequest MetadataResponse,
        CreateTopicsRequest CreateTopicsResponse,
        DeleteTopicsRequest DeleteTopicsResponse,
        CreatePartitionsRequest CreatePartitionsResponse,
        DeleteRecordsRequest DeleteRecordsResponse,
        InitProducerIdRequest InitProducerIdResponse,
        OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse,
        ListOffsetsRequest ListOffsetsResponse,
        DescribeConfigsRequest DescribeConfigsResponse,
        AlterConfigsRequest AlterConfigsResponse,
        IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse,
        DescribeClusterRequest DescribeClusterResponse,
        DescribeLogDirsRequest DescribeLogDirsResponse,
        DescribeProducersRequest DescribeProducersResponse,
        DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse,
        DescribeAclsRequest DescribeAclsResponse,
        CreateAclsRequest CreateAclsResponse,
        DeleteAclsRequest DeleteAclsResponse,
    );
}
