//! The host against a data path in memory, through the bytes of requests and responses.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::print_stdout,
    reason = "a test fails where it does not hold, and its numbers are small"
)]

mod apis;
mod consumers;
mod fake;
mod storage;

use std::sync::Arc;
use std::time::Duration;

use base::Epoch;
use groups::{Config, TrimPolicy};
use protocol::api::ApiKey;
use protocol::error::ErrorCode;
use protocol::frame::{parse_response, put_request_header};
use protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use protocol::messages::*;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{GroupRequest, GroupsHandle, HostConfig, start};
use fake::{FakeCatalog, FakeData};

/// A running coordinator, its data path and metadata.
struct World {
    data: Arc<FakeData>,
    catalog: Arc<FakeCatalog>,
    handle: GroupsHandle,
    task: JoinHandle<()>,
}

fn host() -> HostConfig {
    HostConfig { find_wait: Duration::from_secs(20), ..HostConfig::default() }
}

fn config() -> Config {
    Config { initial_rebalance_delay_ms: 0, ..Config::default() }
}

impl World {
    fn new() -> Self {
        Self::with(FakeData::new(), FakeCatalog::new(4))
    }

    fn with(data: Arc<FakeData>, catalog: Arc<FakeCatalog>) -> Self {
        Self::configured(data, catalog, host())
    }

    fn configured(data: Arc<FakeData>, catalog: Arc<FakeCatalog>, host: HostConfig) -> Self {
        let (handle, task) = start(config(), host, data.clone(), catalog.clone());
        Self { data, catalog, handle, task }
    }

    /// Ends the coordinator in order and starts another on the same log, under the next epoch.
    async fn restart(self) -> Self {
        drop(self.handle);
        self.task.await.unwrap();
        self.data.raise_epoch();
        Self::with(self.data, self.catalog)
    }

    /// Sends a request; the response comes on the channel, or the channel ends when the connection is closed.
    async fn send<'a, R: Request<'a>>(&self, version: i16, request: &R) -> oneshot::Receiver<Vec<u8>> {
        let mut frame = Vec::new();
        put_request_header(&mut frame, R::KEY, version, 7, Some("client"));
        request.encode(&mut frame, version);
        self.send_frame(frame).await
    }

    async fn send_frame(&self, frame: Vec<u8>) -> oneshot::Receiver<Vec<u8>> {
        let (sender, receiver) = oneshot::channel();
        let answer = Box::new(move |response: Option<Vec<u8>>| {
            if let Some(response) = response {
                let _ = sender.send(response);
            }
        });
        self.handle.request(GroupRequest { listener: 0, peer: "127.0.0.1:5000".into(), frame, answer }).await;
        receiver
    }

    /// Sends a request and gives the bytes of the response's body.
    async fn ask<'a, R: Request<'a>>(&self, version: i16, request: &R) -> Vec<u8> {
        let response = self.send(version, request).await.await.unwrap();
        body(R::KEY, version, &response)
    }

    /// Waits until the coordinator serves.
    async fn find(&self) {
        let request = FindCoordinatorRequest { key: "g", ..FindCoordinatorRequest::default() };
        let bytes = self.ask(2, &request).await;
        let found = FindCoordinatorResponse::parse(&bytes, 2).unwrap();
        assert_eq!((found.error_code, found.node_id, found.host, found.port), (ErrorCode::NONE, 1, "127.0.0.1", 9092));
    }

    async fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64) -> ErrorCode {
        let response = self.commit_soon(group, topic, partition..partition + 1, offset).await;
        committed(&response.await.unwrap())
    }

    /// A commit without membership to several partitions.
    async fn commit_soon(
        &self,
        group: &str,
        topic: &str,
        partitions: std::ops::Range<i32>,
        offset: i64,
    ) -> oneshot::Receiver<Vec<u8>> {
        let partitions = partitions.map(|partition_index| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: offset,
            committed_metadata: Some("note"),
            ..OffsetCommitRequestPartition::default()
        });
        let topic = OffsetCommitRequestTopic {
            name: topic,
            partitions: partitions.collect(),
            ..OffsetCommitRequestTopic::default()
        };
        let request = OffsetCommitRequest {
            group_id: group,
            generation_id_or_member_epoch: -1,
            topics: vec![topic],
            ..OffsetCommitRequest::default()
        };
        self.send(8, &request).await
    }

    async fn offset(&self, group: &str, topic: &str, partition: i32) -> i64 {
        use protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
        let topics = Some(vec![OffsetFetchRequestTopic { name: topic, partition_indexes: vec![partition] }]);
        let request = OffsetFetchRequest { group_id: group, topics, ..OffsetFetchRequest::default() };
        loop {
            let bytes = self.ask(5, &request).await;
            let response = OffsetFetchResponse::parse(&bytes, 5).unwrap();
            if response.error_code == ErrorCode::COORDINATOR_LOAD_IN_PROGRESS {
                tokio::time::sleep(Duration::from_millis(2)).await;
                continue;
            }
            assert_eq!(response.error_code, ErrorCode::NONE);
            return response.topics[0].partitions[0].committed_offset;
        }
    }
}

fn body(key: ApiKey, version: i16, response: &[u8]) -> Vec<u8> {
    let (correlation, body) = parse_response(response, key, version).unwrap();
    assert_eq!(correlation, 7);
    body.to_vec()
}

/// The one error code of a commit of version 8.
fn committed(response: &[u8]) -> ErrorCode {
    let bytes = body(ApiKey::OffsetCommit, 8, response);
    let response = OffsetCommitResponse::parse(&bytes, 8).unwrap();
    response.topics[0].partitions[0].error_code
}

fn small_trim() -> HostConfig {
    HostConfig { trim: TrimPolicy { log_bytes_min: 16 << 10, factor: 4 }, batch_bytes: 8 << 10, ..host() }
}

const FIRST_EPOCH: Epoch = Epoch(3);
