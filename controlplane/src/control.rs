//! The control plane's one inbox: what shards say is told apart, and requests are answered.
//!
//! Requests are handled side by side; the shard restores their order per connection. Group requests go to the group host in
//! order of arrival, since their order means something.

use std::sync::Arc;

use base::message::{ControlRequest, ToControl};
use base::{ConnId, ShardId, TopicId};
use protocol::api::{Api, ApiKey};
use protocol::frame::Request;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::api::{self, Call};
use crate::context::Context;
use crate::http::Observed;
use crate::metadata::MetadataStore;
use crate::settings::BrokerSettings;
use crate::shards::ShardLinks;
use crate::stats::ControlStats;

/// What a request costs beside its bytes while it waits: its task or its place in a group, and its reply.
const REQUEST_OVERHEAD: usize = 1024;

/// Where the answer to one request goes. Dropped without [`Reply::send`] it closes the connection.
pub struct Reply {
    shards: Arc<ShardLinks>,
    stats: Arc<ControlStats>,
    shard: ShardId,
    conn: ConnId,
    sequence: u64,
    bytes: usize,
    budget: Arc<Semaphore>,
    sent: bool,
}

impl Reply {
    /// Sends the response: header and body, without length bytes. `None` closes the connection.
    pub async fn send(mut self, response: Option<Vec<u8>>) {
        self.sent = true;
        if response.is_none() {
            self.stats.requests_refused.up();
        }
        self.shards.answer(self.shard, self.conn, self.sequence, response).await;
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.stats.requests_in_flight.down();
        self.budget.add_permits(self.bytes);
        if !self.sent
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (shards, shard, conn, sequence) = (self.shards.clone(), self.shard, self.conn, self.sequence);
            runtime.spawn(async move { shards.answer(shard, conn, sequence, None).await });
        }
    }
}

/// The group APIs: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch, ListGroups,
/// DescribeGroups, DeleteGroups, OffsetDelete, ConsumerGroupHeartbeat, ConsumerGroupDescribe.
pub trait GroupApis: Send + Sync + 'static {
    /// Takes over a request of a served version, in the order in which requests of a connection arrived. Must not block.
    fn request(&self, request: ControlRequest, reply: Reply);

    /// The connection is gone.
    fn closed(&self, shard: ShardId, conn: ConnId);

    /// A topic is deleted: offsets committed for it mean nothing any more. Must not block.
    fn topic_deleted(&self, topic: Arc<str>, id: TopicId);
}

/// Whether the API belongs to [`GroupApis`].
#[must_use]
pub const fn is_group_api(key: ApiKey) -> bool {
    matches!(
        key,
        ApiKey::OffsetCommit
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
            | ApiKey::ConsumerGroupDescribe
    )
}

/// The control plane.
pub struct Control {
    context: Arc<Context>,
    at_a_time: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    stopped: watch::Sender<usize>,
}

impl Control {
    /// A control plane over these parts. Attach `shards` to the store before.
    #[must_use]
    pub fn new(
        settings: BrokerSettings,
        store: Arc<dyn MetadataStore>,
        shards: Arc<ShardLinks>,
        stats: Arc<ControlStats>,
        observed: Arc<dyn Observed>,
    ) -> Self {
        Self {
            at_a_time: Arc::new(Semaphore::new(settings.requests_at_a_time)),
            bytes: Arc::new(Semaphore::new(settings.request_bytes_max)),
            stopped: watch::channel(0).0,
            context: Context::new(settings, store, shards, stats, observed),
        }
    }

    /// What handlers work with; also the [`crate::dataplane::DataPlane`] and [`crate::groups::Catalog`] of the group host.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// How many shards have said that they are at their end.
    #[must_use]
    pub fn stopped(&self) -> watch::Receiver<usize> {
        self.stopped.subscribe()
    }

    /// Takes what shards say until no shard is left that could say anything.
    pub async fn run(&self, groups: Arc<dyn GroupApis>, mut from_shards: mpsc::Receiver<ToControl>) {
        let _ = self.context.groups.set(Arc::downgrade(&groups));
        let _moves = Ends(tokio::spawn(crate::moves::run(Arc::downgrade(&self.context))));
        while let Some(message) = from_shards.recv().await {
            match message {
                ToControl::Request(request) => self.admit(&*groups, request),
                ToControl::ConnectionClosed { shard, conn } => groups.closed(shard, conn),
                ToControl::Done { token, outcome } => self.context.shards.done(token, outcome),
                ToControl::JournalFenced { journal, reason } => {
                    tracing::error!(%journal, %reason, "a journal takes no more appends");
                    self.context.health.worsen(format!("journal {journal} takes no more appends: {reason}"));
                }
                ToControl::Stopped { shard } => {
                    self.context.shards.stopped(shard);
                    self.stopped.send_modify(|stopped| *stopped += 1);
                }
            }
        }
    }

    /// Starts work on a request. Never waits: outcomes that others wait for may be behind it.
    fn admit(&self, groups: &dyn GroupApis, request: ControlRequest) {
        let context = &self.context;
        context.stats.requests_in_flight.up();
        let bytes = request.frame.len() + REQUEST_OVERHEAD;
        let room = self.bytes.try_acquire_many(u32::try_from(bytes).unwrap_or(u32::MAX));
        let reply = Reply {
            shards: context.shards.clone(),
            stats: context.stats.clone(),
            shard: request.shard,
            conn: request.conn,
            sequence: request.sequence,
            bytes: room.as_ref().map_or(0, |_| bytes),
            budget: self.bytes.clone(),
            sent: false,
        };
        let Ok(room) = room else {
            context.stats.requests_refused.up();
            return;
        };
        // Given back by the reply.
        room.forget();
        let Some(key) = key_of(&request.frame) else {
            context.stats.requests_refused.up();
            return;
        };
        if is_group_api(key) {
            groups.request(request, reply);
            return;
        }
        let (context, at_a_time) = (context.clone(), self.at_a_time.clone());
        tokio::spawn(async move {
            let turn = at_a_time.acquire().await;
            let response = answer(&context, &request).await;
            drop(turn);
            reply.send(response).await;
        });
    }
}

/// A task that ends with who started it.
struct Ends(tokio::task::JoinHandle<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The API of a request that may be answered: served, or ApiVersions in whatever version.
fn key_of(frame: &[u8]) -> Option<ApiKey> {
    match Request::parse(frame).ok()? {
        Request::Served { api, .. } => Some(api.key),
        Request::Unserved { api: Some(Api { key: ApiKey::ApiVersions, .. }), .. } => Some(ApiKey::ApiVersions),
        Request::Unserved { .. } => None,
    }
}

/// The response to a request that is no group request; `None` closes the connection.
pub(crate) async fn answer(context: &Arc<Context>, request: &ControlRequest) -> Option<Vec<u8>> {
    let parsed = match Request::parse(&request.frame) {
        Ok(parsed) => parsed,
        Err(error) => {
            tracing::debug!(peer = %request.peer, %error, "a request's header does not parse");
            return None;
        }
    };
    match parsed {
        Request::Served { api, header, body } => {
            let call = Call::new(api, header, body, request.listener);
            match api::answer(context, &call).await {
                Ok(response) => {
                    if call.failed() {
                        context.stats.error(api.key as i16);
                    }
                    Some(response)
                }
                Err(error) => {
                    tracing::debug!(peer = %request.peer, api = api.name, %error, "a request does not parse");
                    None
                }
            }
        }
        Request::Unserved { api: Some(Api { key: ApiKey::ApiVersions, .. }), header } => {
            context.stats.error(ApiKey::ApiVersions as i16);
            Some(api::api_versions::unsupported(&header))
        }
        Request::Unserved { header, .. } => {
            tracing::debug!(peer = %request.peer, key = header.key, version = header.version, "no such API or version");
            None
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
