//! One file for each Kafka API that is no group API.

mod acls;
mod alter_configs;
pub(crate) mod api_versions;
mod create_partitions;
mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod init_producer_id;
pub(crate) mod list_offsets;
mod metadata;
mod offset_for_leader_epoch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::api::{Api, ApiKey};
use protocol::error::ErrorCode;
use protocol::frame::{RequestHeader, put_response_header};
use protocol::messages::{Message, Request};
use protocol::wire::DecodeError;

use crate::context::Context;

/// One request in the hands of its handler.
pub(crate) struct Call<'a> {
    api: &'static Api,
    header: RequestHeader<'a>,
    body: &'a [u8],
    /// By which listener it came.
    pub(crate) listener: u16,
    failed: AtomicBool,
}

impl<'a> Call<'a> {
    pub(crate) fn new(api: &'static Api, header: RequestHeader<'a>, body: &'a [u8], listener: u16) -> Self {
        Self { api, header, body, listener, failed: AtomicBool::new(false) }
    }

    /// The request's version.
    pub(crate) fn version(&self) -> i16 {
        self.header.version
    }

    /// The request, read.
    pub(crate) fn request<T: Request<'a>>(&self) -> Result<T, DecodeError> {
        T::parse(self.body, self.header.version)
    }

    /// Refuses a request with more items than any client sends: each may bring an error message many times its size.
    pub(crate) fn bound(&self, items: usize) -> Result<(), DecodeError> {
        if items > ITEMS_MAX { Err(DecodeError::Count) } else { Ok(()) }
    }

    /// The same for requests of clients that name every partition they read, and whose answers are in proportion.
    pub(crate) fn bound_many(&self, items: usize) -> Result<(), DecodeError> {
        self.bound(items / 16)
    }

    /// Notes an error that the response will carry; gives it back.
    pub(crate) fn note(&self, code: ErrorCode) -> ErrorCode {
        if !code.is_ok() {
            self.failed.store(true, Ordering::Relaxed);
        }
        code
    }

    /// Whether any error was noted.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The response as bytes.
    pub(crate) fn respond<'r>(&self, response: &impl Message<'r>) -> Vec<u8> {
        let mut out = Vec::new();
        put_response_header(&mut out, self.api.key, self.header.version, self.header.correlation);
        response.encode(&mut out, self.header.version);
        out
    }
}

/// Most topics or partitions that one administrative request names; a larger one closes the connection.
pub(crate) const ITEMS_MAX: usize = 100_000;

/// Answers a request.
///
/// # Errors
/// Its body does not decode: the connection is to be closed.
pub(crate) async fn answer(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    match call.api.key {
        ApiKey::ApiVersions => api_versions::answer(context, call),
        ApiKey::Metadata => metadata::answer(context, call).await,
        ApiKey::CreateTopics => create_topics::answer(context, call).await,
        ApiKey::DeleteTopics => delete_topics::answer(context, call).await,
        ApiKey::CreatePartitions => create_partitions::answer(context, call).await,
        ApiKey::DeleteRecords => delete_records::answer(context, call).await,
        ApiKey::InitProducerId => init_producer_id::answer(context, call).await,
        ApiKey::OffsetForLeaderEpoch => offset_for_leader_epoch::answer(context, call).await,
        ApiKey::ListOffsets => list_offsets::answer(context, call).await,
        ApiKey::DescribeConfigs => describe_configs::answer(context, call),
        ApiKey::AlterConfigs => alter_configs::answer(context, call).await,
        ApiKey::IncrementalAlterConfigs => alter_configs::answer_incremental(context, call).await,
        ApiKey::DescribeCluster => describe_cluster::answer(context, call),
        ApiKey::DescribeLogDirs => describe_log_dirs::answer(context, call).await,
        ApiKey::DescribeProducers => describe_producers::answer(context, call).await,
        ApiKey::DescribeTopicPartitions => describe_topic_partitions::answer(context, call),
        ApiKey::DescribeAcls => acls::describe(call),
        ApiKey::CreateAcls => acls::create(call),
        ApiKey::DeleteAcls => acls::delete(call),
        // Shards answer these themselves, the group host answers its own; one that comes here all the same is not served.
        ApiKey::Produce
        | ApiKey::Fetch
        | ApiKey::OffsetCommit
        | ApiKey::OffsetFetch
        | ApiKey::FindCoordinator
        | ApiKey::JoinGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::SyncGroup
        | ApiKey::DescribeGroups
        | ApiKey::ListGroups
        | ApiKey::DeleteGroups
        | ApiKey::OffsetDelete
        | ApiKey::ConsumerGroupHeartbeat
        | ApiKey::ConsumerGroupDescribe => Err(DecodeError::Version),
    }
}

/// What may be done with a topic or the cluster, as a bit field of Kafka's `AclOperation`s. Without an authorizer Kafka names
/// all that exist for the kind of resource.
pub(crate) const TOPIC_OPERATIONS: i32 = bits(&[3, 4, 5, 6, 7, 8, 10, 11]);
/// The same for the cluster.
pub(crate) const CLUSTER_OPERATIONS: i32 = bits(&[5, 7, 8, 9, 10, 11, 12]);
/// Nobody asked for operations.
pub(crate) const NO_OPERATIONS: i32 = i32::MIN;

const fn bits(operations: &[u32]) -> i32 {
    let mut field = 0;
    let mut i = 0;
    while i < operations.len() {
        field |= 1 << operations[i];
        i += 1;
    }
    field
}

/// Kafka's text of a 128-bit id: URL-safe base64 without padding.
pub(crate) fn id_text(id: u128) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // 22 characters carry 132 bits; the last one's low four are zero.
    let digit = |i: u32| {
        let bits = if i < 21 { id >> (128 - 6 * (i + 1)) } else { id << 4 };
        char::from(ALPHABET[usize::try_from(bits & 63).expect("six bits")])
    };
    (0..22).map(digit).collect()
}

/// A count or index as Kafka's 32 bits.
pub(crate) fn int(n: usize) -> i32 {
    i32::try_from(n).expect("counts are bounded far below 2^31")
}
