//! Hands group requests to their coordinator, in order, and keeps what metrics show of groups.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::message::ControlRequest;
use base::{ConnId, ShardId, TopicId};
use controlplane::Control;
use controlplane::control::{GroupApis, Reply};
use controlplane::groups::{self, GroupCount, GroupRequest, GroupsHandle, HostConfig};
use controlplane::http::Committed;
use tokio::sync::mpsc;

use crate::config::BrokerConfig;

/// How often the offsets that metrics show are asked for.
const WATCH: Duration = Duration::from_secs(5);

/// The way from the control plane to the group coordinator.
pub(super) struct Groups {
    requests: mpsc::UnboundedSender<(ControlRequest, Reply)>,
    handle: GroupsHandle,
    seen: Arc<Mutex<Seen>>,
}

/// What metrics show, as it was a moment ago.
#[derive(Default)]
struct Seen {
    committed: Vec<Committed>,
    counts: Vec<GroupCount>,
}

impl Groups {
    /// Starts the coordinator on the current runtime.
    pub(super) fn start(config: &BrokerConfig, control: &Control) -> Self {
        let context = control.context().clone();
        let host = HostConfig { sums: dataplane::checksums::fast(), ..HostConfig::default() };
        let (handle, _) = groups::start(settings(config), host, context.clone(), context);
        // Unbounded as a queue; the control plane's budget of request bytes bounds what can be in it.
        let (requests, queue) = mpsc::unbounded_channel();
        tokio::spawn(hand_over(queue, handle.clone()));
        let seen = Arc::new(Mutex::new(Seen::default()));
        tokio::spawn(watch(handle.clone(), seen.clone()));
        Self { requests, handle, seen }
    }

    /// Committed offsets as they were a moment ago.
    pub(super) fn committed(&self, most: usize) -> Vec<Committed> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.committed.iter().take(most).cloned().collect()
    }

    /// Groups by kind and state.
    pub(super) fn counts(&self) -> Vec<GroupCount> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).counts.clone()
    }
}

async fn hand_over(mut queue: mpsc::UnboundedReceiver<(ControlRequest, Reply)>, handle: GroupsHandle) {
    while let Some((request, reply)) = queue.recv().await {
        let runtime = tokio::runtime::Handle::current();
        let answer = Box::new(move |response| {
            runtime.spawn(reply.send(response));
        });
        let ControlRequest { listener, peer, frame, .. } = request;
        handle.request(GroupRequest { listener, peer, frame, answer }).await;
    }
}

async fn watch(handle: GroupsHandle, seen: Arc<Mutex<Seen>>) {
    loop {
        tokio::time::sleep(WATCH).await;
        let mut rows = Vec::new();
        for (group, topics) in handle.committed().await {
            for (topic, partitions) in topics {
                rows.extend(partitions.iter().map(|one| Committed {
                    group: group.clone(),
                    topic: topic.clone(),
                    partition: one.partition,
                    offset: one.offset,
                }));
            }
        }
        let counts = handle.count().await;
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen { committed: rows, counts };
    }
}

impl GroupApis for Groups {
    fn request(&self, request: ControlRequest, reply: Reply) {
        // The coordinator's task lives as long as this sender; a reply that is dropped closes its connection.
        let _ = self.requests.send((request, reply));
    }

    fn topic_deleted(&self, topic: Arc<str>, id: TopicId) {
        let handle = self.handle.clone();
        tokio::spawn(async move { handle.topic_deleted(topic, id).await });
    }

    fn closed(&self, _shard: ShardId, _conn: ConnId) {
        // Members are told apart by their ids and leave by their session timeouts, as in Kafka.
    }
}

fn settings(config: &BrokerConfig) -> ::groups::Config {
    let small = |ms: u64| i32::try_from(ms).unwrap_or(i32::MAX);
    ::groups::Config {
        initial_rebalance_delay_ms: u32::try_from(config.initial_rebalance_delay_ms).unwrap_or(u32::MAX),
        session_timeout_ms_min: small(config.session_ms.0),
        session_timeout_ms_max: small(config.session_ms.1),
        members_max: config.group_members_max as usize,
        consumer_session_timeout_ms: config.consumer_session_ms,
        consumer_heartbeat_interval_ms: config.consumer_heartbeat_ms,
        consumer_members_max: config.consumer_members_max as usize,
        offsets_retention_ms: config.offsets_retention_minutes.saturating_mul(60_000),
        ..::groups::Config::default()
    }
}
