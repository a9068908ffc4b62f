//! HTTP on a port of its own: `/metrics`, `/health`, `/damage`, `/journals`, `/moves`, `/log-level`. Never served by a shard.

mod connections;
pub mod metrics;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base::message::{Outcome, Refusal, ShardCommand};
use base::stats::ShardStats;
use base::{JournalId, PartitionId, ShardId};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::context::Context;
use crate::errors::Failure;
use crate::groups::GroupCount;
use crate::logging::LogLevel;
use crate::metadata::MetadataStore;
use crate::moves::view::{self, MoveRequest, by_partition};
use crate::shards::{ShardError, ShardLinks};
use crate::stats::ControlStats;
use connections::Bounded;
use metrics::{PartitionSizes, Scrape};

/// How long a shard may take to answer a scrape or a health check. It answers within a turn unless it is in trouble.
const SHARD_BOUND: Duration = Duration::from_secs(1);

/// Sizes of partitions are asked for at most this often: at 100 K partitions they are some megabytes.
const SIZES_EVERY: Duration = Duration::from_secs(5);

/// A device's room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpace {
    /// Its path in the configuration.
    pub path: String,
    /// Bytes that the configuration lets it use.
    pub total_bytes: u64,
    /// Bytes that records may still take.
    pub free_bytes: u64,
    /// Producers are refused until more of it is free.
    pub full: bool,
}

/// How far a group is behind in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Which group.
    pub group: Arc<str>,
    /// Which topic.
    pub topic: Arc<str>,
    /// Which partition of it.
    pub partition: i32,
    /// The committed offset: the next record it will read.
    pub offset: i64,
}

/// What HTTP shows of parts that the root wires in.
pub trait Observed: Send + Sync + 'static {
    /// The data devices.
    fn devices(&self) -> Vec<DeviceSpace>;

    /// Committed offsets, at most `most` of them.
    fn committed(&self, most: usize) -> Vec<Committed>;

    /// How many groups there are.
    fn groups(&self) -> Vec<GroupCount>;

    /// What is wrong beyond what shards and metadata store say themselves, one sentence each.
    fn troubles(&self) -> Vec<String>;
}

/// All that the handlers read.
pub struct HttpState {
    /// By shard.
    pub shard_stats: Vec<Arc<ShardStats>>,
    /// The control plane's own counters.
    pub control_stats: Arc<ControlStats>,
    /// For health and for sizes.
    pub shards: Arc<ShardLinks>,
    /// For topics and health.
    pub store: Arc<dyn MetadataStore>,
    /// Journals that were fenced, shards that stopped.
    pub health: Arc<Health>,
    /// Devices, groups and the like.
    pub observed: Arc<dyn Observed>,
    /// The log's level.
    pub log_level: LogLevel,
    /// When the process started.
    pub started: Instant,
    sizes: Mutex<Option<(Instant, Arc<PartitionSizes>)>>,
    context: Arc<Context>,
}

impl HttpState {
    /// Handlers' state from its parts.
    #[must_use]
    pub fn new(
        shard_stats: Vec<Arc<ShardStats>>,
        control: &crate::Control,
        observed: Arc<dyn Observed>,
        log_level: LogLevel,
    ) -> Arc<Self> {
        let context = control.context();
        Arc::new(Self {
            shard_stats,
            control_stats: context.stats.clone(),
            shards: context.shards.clone(),
            store: context.store.clone(),
            health: context.health.clone(),
            observed,
            log_level,
            started: Instant::now(),
            sizes: Mutex::new(None),
            context: context.clone(),
        })
    }

    async fn sizes(&self) -> Arc<PartitionSizes> {
        if let Some((at, sizes)) = &*self.sizes.lock().expect("nobody panics while holding it")
            && at.elapsed() < SIZES_EVERY
        {
            return sizes.clone();
        }
        let mut all = Vec::new();
        for index in 0..self.shards.count() {
            let shard = ShardId(u16::try_from(index).expect("there are fewer shards than 65,536"));
            if let Ok(Outcome::Sizes(sizes)) = self.shards.ask(shard, ShardCommand::Sizes, SHARD_BOUND).await {
                all.extend(sizes);
            }
        }
        let all = Arc::new(by_partition(&all));
        *self.sizes.lock().expect("nobody panics while holding it") = Some((Instant::now(), all.clone()));
        all
    }
}

/// What went wrong for good in this process.
#[derive(Debug, Default)]
pub struct Health {
    reasons: Mutex<Vec<String>>,
}

impl Health {
    /// Most reasons kept: enough to see what is wrong.
    const MOST: usize = 100;

    /// Adds a reason.
    pub fn worsen(&self, reason: String) {
        let mut reasons = self.reasons.lock().expect("nobody panics while holding it");
        if reasons.len() < Self::MOST && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }

    /// All reasons.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        self.reasons.lock().expect("nobody panics while holding it").clone()
    }
}

/// Serves until `stop` holds true (or its sender is gone).
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    state: Arc<HttpState>,
    mut stop: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let stopping = async move {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    axum::serve(Bounded::new(listener), router(state)).with_graceful_shutdown(stopping).await
}

/// The routes.
pub fn router(state: Arc<HttpState>) -> Router {
    Router::new()
        .route("/metrics", get(get_metrics))
        .route("/health", get(get_health))
        .route("/damage", get(get_damage))
        .route("/journals", get(get_journals))
        .route("/moves", get(get_moves).post(post_moves))
        .route("/log-level", get(get_log_level).put(put_log_level))
        // A filter for the log, or a move, is all the body there is.
        .layer(DefaultBodyLimit::max(4 << 10))
        .with_state(state)
}

#[derive(Deserialize)]
struct MetricsQuery {
    topic: Option<String>,
}

async fn get_metrics(State(state): State<Arc<HttpState>>, Query(query): Query<MetricsQuery>) -> Response {
    let scrape = Scrape {
        shard_stats: &state.shard_stats,
        control: &state.control_stats,
        image: state.store.image(),
        sizes: state.sizes().await,
        devices: state.observed.devices(),
        committed: state.observed.committed(metrics::SERIES_MAX),
        groups: state.observed.groups(),
        topic: query.topic,
        uptime: state.started.elapsed(),
    };
    let body = scrape.render();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], body).into_response()
}

/// The body of `/health`.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct HealthReport {
    /// `ok`; `full`: producers are refused on some device, all else goes on; `degraded`: something does not work.
    pub status: String,
    /// One sentence for each trouble or full device; empty when all is well.
    pub reasons: Vec<String>,
}

async fn get_health(State(state): State<Arc<HttpState>>) -> Response {
    let mut reasons = state.health.reasons();
    reasons.extend(state.observed.troubles());
    if let Some(why) = state.store.failed() {
        reasons.push(format!("topics and settings cannot change: {why}"));
    }
    for index in 0..state.shards.count() {
        let shard = ShardId(u16::try_from(index).expect("there are fewer shards than 65,536"));
        // No partition has id 0, so that any living shard says so at once.
        let question = ShardCommand::Bounds { partition: PartitionId(0) };
        match state.shards.ask(shard, question, SHARD_BOUND).await {
            Err(ShardError::TimedOut) => reasons.push(format!("shard {shard} does not answer")),
            Err(ShardError::Refused(Refusal::Stopping)) => reasons.push(format!("shard {shard} is stopping")),
            _ => {}
        }
    }
    let is_degraded = !reasons.is_empty();
    let full = state.observed.devices().into_iter().filter(|device| device.full).map(|device| device.path);
    reasons.extend(full.map(|path| {
        format!("device {path} is full, producers are refused: delete records or topics, or give it more room")
    }));
    // Whoever asks this restarts a broker, or sends no clients to it. Neither helps a full device, which reads and deletions still
    // need: that is told and does not fail.
    let (code, status) = match (is_degraded, reasons.is_empty()) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "degraded"),
        (false, false) => (StatusCode::OK, "full"),
        (false, true) => (StatusCode::OK, "ok"),
    };
    (code, axum::Json(HealthReport { status: status.to_owned(), reasons })).into_response()
}

/// The body of `/damage`.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct DamageReport {
    /// By topic, partition and offset.
    pub ranges: Vec<DamageRow>,
    /// Whether every shard has answered.
    pub complete: bool,
}

/// Records that cannot be read.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct DamageRow {
    /// Of which topic.
    pub topic: String,
    /// Of which partition of it.
    pub partition: usize,
    /// The first offset that is known to be lost.
    pub first: i64,
    /// The first offset behind it: a reader goes on there.
    pub next: i64,
}

async fn get_damage(State(state): State<Arc<HttpState>>) -> axum::Json<DamageReport> {
    let image = state.store.image();
    let mut report = DamageReport { ranges: Vec::new(), complete: true };
    for index in 0..state.shards.count() {
        let shard = ShardId(u16::try_from(index).expect("there are fewer shards than 65,536"));
        let Ok(Outcome::Damage(ranges)) = state.shards.ask(shard, ShardCommand::Damage, SHARD_BOUND).await else {
            report.complete = false;
            continue;
        };
        for range in ranges {
            if let Some((topic, partition)) = image.name_of(range.partition) {
                let (first, next) = (range.first.0, range.next.0);
                report.ranges.push(DamageRow { topic: topic.to_string(), partition, first, next });
            }
        }
    }
    report.ranges.sort_unstable();
    axum::Json(report)
}

/// What a request brought, or why not.
fn answered<T: Serialize>(outcome: Result<T, Failure>) -> Response {
    match outcome {
        Ok(report) => axum::Json(report).into_response(),
        Err(failure) => {
            let text = failure.message.unwrap_or_else(|| failure.code.to_string());
            (StatusCode::CONFLICT, text).into_response()
        }
    }
}

async fn get_journals(State(state): State<Arc<HttpState>>) -> Response {
    answered(view::journals(&state.context).await)
}

async fn get_moves(State(state): State<Arc<HttpState>>) -> Response {
    answered(Ok(view::moves(&state.context)))
}

async fn post_moves(State(state): State<Arc<HttpState>>, axum::Json(request): axum::Json<MoveRequest>) -> Response {
    let MoveRequest { topic, partition, journal } = request;
    let begun = crate::moves::begin(&state.context, &topic, partition, JournalId(journal)).await;
    answered(begun.map(|()| view::moves(&state.context)))
}

async fn get_log_level(State(state): State<Arc<HttpState>>) -> String {
    state.log_level.get()
}

async fn put_log_level(State(state): State<Arc<HttpState>>, body: String) -> Response {
    match state.log_level.set(body.trim()) {
        Ok(()) => (StatusCode::OK, state.log_level.get()).into_response(),
        Err(why) => (StatusCode::BAD_REQUEST, why).into_response(),
    }
}

#[cfg(test)]
mod tests;
