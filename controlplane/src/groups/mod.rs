//! The host of the group machine: the group APIs, and offsets and group metadata in `__consumer_offsets`.
//!
//! One task owns the machine ([`actor`]). Requests come in through [`GroupsHandle`]; records go out to the data path in
//! batches, one in flight for each partition, so that commits that arrive together are one append ([`line`]). At start,
//! and whenever the partition's epoch turns out to be another, a partition is read from its log start ([`load`]).

mod actor;
mod api;
mod line;
mod load;
mod records;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use base::image::{Image, TopicEntry};
use base::{Checksums, TopicId};
use groups::{Config, FetchedTopics, TrimPolicy};
use tokio::sync::{mpsc, oneshot};

use crate::dataplane::DataPlane;

/// The internal topic's name.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// What the coordinator needs of the cluster's metadata.
pub trait Catalog: Send + Sync + 'static {
    /// The metadata now.
    fn image(&self) -> Arc<Image>;

    /// [`OFFSETS_TOPIC`], created if it does not exist yet; done when its partitions serve. May be called more than once at
    /// the same time. An error is text for the log; the client is told COORDINATOR_NOT_AVAILABLE.
    fn offsets_topic(&self) -> impl Future<Output = Result<Arc<TopicEntry>, String>> + Send;
}

/// Takes the response, header and body without the four length bytes; `None` closes the connection. Called once, from the
/// coordinator's task: it must not block.
pub type Answer = Box<dyn FnOnce(Option<Vec<u8>>) + Send>;

/// A request of one of the group APIs: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit,
/// OffsetFetch, ListGroups, DescribeGroups, DeleteGroups, OffsetDelete, ConsumerGroupHeartbeat, ConsumerGroupDescribe.
pub struct GroupRequest {
    /// Index of the listener it came in by.
    pub listener: u16,
    /// The peer's address as text, with or without a port.
    pub peer: Arc<str>,
    /// The whole request: header and body, without the four length bytes.
    pub frame: Vec<u8>,
    /// Where the response goes.
    pub answer: Answer,
}

/// How the host behaves.
#[derive(Clone, Copy, Debug)]
pub struct HostConfig {
    /// Checksum functions for record batches.
    pub sums: Checksums,
    /// When a partition's log is trimmed.
    pub trim: TrimPolicy,
    /// Records are appended in batches of about so many bytes. One that is larger goes alone.
    pub batch_bytes: usize,
    /// Partitions read at a time when the coordinator starts.
    pub loads_at_a_time: usize,
    /// How long FindCoordinator waits for `__consumer_offsets` to be created and read.
    pub find_wait: Duration,
    /// How long an append is tried again while the data path has no memory for it.
    pub busy_wait: Duration,
    /// How long reading a partition may bring nothing before its groups are refused by name. After that it is tried again as
    /// often.
    pub load_wait: Duration,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            sums: Checksums::portable(),
            trim: TrimPolicy::default(),
            // 256 KiB: a unit of the journal.
            batch_bytes: 256 << 10,
            loads_at_a_time: 8,
            find_wait: Duration::from_secs(5),
            busy_wait: Duration::from_secs(5),
            // As long as a cold read may take; clients wait a minute by default.
            load_wait: Duration::from_secs(10),
        }
    }
}

/// Requests that may wait for the coordinator's task; whoever brings more waits.
const REQUEST_QUEUE: usize = 1024;

enum Message {
    Request(GroupRequest),
    TopicDeleted(Arc<str>, TopicId),
    Committed(oneshot::Sender<Vec<GroupOffsets>>),
    Count(oneshot::Sender<Vec<GroupCount>>),
}

/// Committed offsets of a group.
pub type GroupOffsets = (Arc<str>, FetchedTopics);

/// How many groups of a kind are in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCount {
    /// Kafka's name of the kind.
    pub kind: &'static str,
    /// Kafka's name of the state.
    pub state: &'static str,
    /// How many.
    pub groups: u64,
}

/// The way to the coordinator. When the last one is dropped the coordinator makes durable what it holds and ends.
#[derive(Clone, Debug)]
pub struct GroupsHandle {
    messages: mpsc::Sender<Message>,
}

impl GroupsHandle {
    /// Hands a request over. Waits while too many do.
    pub async fn request(&self, request: GroupRequest) {
        self.send(Message::Request(request)).await;
    }

    /// A topic is deleted: offsets committed for it go.
    pub async fn topic_deleted(&self, topic: Arc<str>, id: TopicId) {
        self.send(Message::TopicDeleted(topic, id)).await;
    }

    /// Committed offsets of all groups, for metrics.
    pub async fn committed(&self) -> Vec<GroupOffsets> {
        let (sender, receiver) = oneshot::channel();
        self.send(Message::Committed(sender)).await;
        receiver.await.unwrap_or_default()
    }

    /// How many groups there are by kind and state, for metrics. Nothing while groups are being read.
    pub async fn count(&self) -> Vec<GroupCount> {
        let (sender, receiver) = oneshot::channel();
        self.send(Message::Count(sender)).await;
        receiver.await.unwrap_or_default()
    }

    async fn send(&self, message: Message) {
        // The task only ends when no handle is left; if it has died, whoever asks is told by a closed connection.
        if let Err(mpsc::error::SendError(Message::Request(request))) = self.messages.send(message).await {
            (request.answer)(None);
        }
    }
}

/// Starts the coordinator on the current Tokio runtime. Ends after the last handle is dropped; the join handle tells when.
pub fn start<D: DataPlane, C: Catalog>(
    config: Config,
    host: HostConfig,
    data: Arc<D>,
    catalog: Arc<C>,
) -> (GroupsHandle, tokio::task::JoinHandle<()>) {
    let (messages, received) = mpsc::channel(REQUEST_QUEUE);
    let task = tokio::spawn(actor::Actor::new(config, host, data, catalog, received).run());
    (GroupsHandle { messages }, task)
}
