//! The recording through Barelog's codec: every message decodes to its last byte and encodes to the same bytes.

use protocol::api::{Api, ApiKey};
use protocol::frame;
use protocol::messages::{self, Message};
use protocol::wire::{DecodeError, Reader};

use super::codec::hex;
use super::transcript::{Exchange, Response};

/// Decodes and encodes again; what is left over is an error.
type Again = fn(&[u8], i16) -> Result<Vec<u8>, DecodeError>;

macro_rules! again {
    ($name:ident) => {
        |bytes, version| {
            let mut reader = Reader::new(bytes);
            let message = messages::$name::decode(&mut reader, version)?;
            reader.end()?;
            let mut out = Vec::new();
            message.encode(&mut out, version);
            Ok(out)
        }
    };
}

macro_rules! codecs {
    ($($api:ident $request:ident $response:ident;)*) => {
        /// Request and response of an API.
        fn codecs(api: ApiKey) -> (Again, Again) {
            match api {
                $(ApiKey::$api => (again!($request), again!($response)),)*
            }
        }
    };
}

codecs! {
    Produce ProduceRequest ProduceResponse;
    Fetch FetchRequest FetchResponse;
    ListOffsets ListOffsetsRequest ListOffsetsResponse;
    Metadata MetadataRequest MetadataResponse;
    OffsetCommit OffsetCommitRequest OffsetCommitResponse;
    OffsetFetch OffsetFetchRequest OffsetFetchResponse;
    FindCoordinator FindCoordinatorRequest FindCoordinatorResponse;
    JoinGroup JoinGroupRequest JoinGroupResponse;
    Heartbeat HeartbeatRequest HeartbeatResponse;
    LeaveGroup LeaveGroupRequest LeaveGroupResponse;
    SyncGroup SyncGroupRequest SyncGroupResponse;
    DescribeGroups DescribeGroupsRequest DescribeGroupsResponse;
    ListGroups ListGroupsRequest ListGroupsResponse;
    ApiVersions ApiVersionsRequest ApiVersionsResponse;
    CreateTopics CreateTopicsRequest CreateTopicsResponse;
    DeleteTopics DeleteTopicsRequest DeleteTopicsResponse;
    DeleteRecords DeleteRecordsRequest DeleteRecordsResponse;
    InitProducerId InitProducerIdRequest InitProducerIdResponse;
    OffsetForLeaderEpoch OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse;
    DescribeAcls DescribeAclsRequest DescribeAclsResponse;
    CreateAcls CreateAclsRequest CreateAclsResponse;
    DeleteAcls DeleteAclsRequest DeleteAclsResponse;
    DescribeConfigs DescribeConfigsRequest DescribeConfigsResponse;
    AlterConfigs AlterConfigsRequest AlterConfigsResponse;
    DescribeLogDirs DescribeLogDirsRequest DescribeLogDirsResponse;
    CreatePartitions CreatePartitionsRequest CreatePartitionsResponse;
    DeleteGroups DeleteGroupsRequest DeleteGroupsResponse;
    IncrementalAlterConfigs IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse;
    OffsetDelete OffsetDeleteRequest OffsetDeleteResponse;
    DescribeCluster DescribeClusterRequest DescribeClusterResponse;
    DescribeProducers DescribeProducersRequest DescribeProducersResponse;
    ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequest ConsumerGroupHeartbeatResponse;
    ConsumerGroupDescribe ConsumerGroupDescribeRequest ConsumerGroupDescribeResponse;
    DescribeTopicPartitions DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse;
}

/// Checks both messages of an exchange whose version is served.
pub(crate) fn check(api: &'static Api, exchange: &Exchange) {
    let context = format!("{} v{} {}", exchange.api, exchange.version, exchange.case);
    let (request, response) = codecs(api.key);
    let Ok(frame::Request::Served { header, body, .. }) = frame::Request::parse(&exchange.request) else {
        panic!("{context}: the header of the request does not decode");
    };
    assert_eq!((header.key, header.version), (api.key as i16, exchange.version), "{context}");
    match request(body, exchange.version) {
        Ok(again) => assert_eq!(hex(&again), hex(body), "{context}: request"),
        // What Kafka refuses to read, too.
        Err(_) if super::is_malformed(&exchange.case) => {}
        Err(error) => panic!("{context}: request: {error:?}"),
    }
    let Response::Answer(answer) = &exchange.response else { return };
    let (_, body) = frame::parse_response(answer, api.key, exchange.version).unwrap();
    match response(body, exchange.version) {
        Ok(again) => assert_eq!(hex(&again), hex(body), "{context}: response"),
        Err(error) => panic!("{context}: response: {error:?}"),
    }
}
