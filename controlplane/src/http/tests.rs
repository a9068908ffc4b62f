#![allow(clippy::unwrap_used, reason = "a test fails where it does not hold")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use base::Offset;
use base::message::DamagedRange;

use super::*;
use crate::control::tests::{Bench, FULL, FakeLog};
use crate::logging;

struct Served {
    bench: Bench,
    state: Arc<HttpState>,
    at: SocketAddr,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
    _log: Box<dyn std::any::Any>,
}

async fn serve_bench() -> Served {
    let bench = Bench::start();
    let stats: Vec<Arc<ShardStats>> = (0..2).map(|_| Arc::default()).collect();
    let observed = bench.control.context().observed.clone();
    let (log, level) = logging::detached("info");
    let state = HttpState::new(stats, &bench.control, observed, level);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (stop, stopping) = watch::channel(false);
    let task = tokio::spawn(serve(listener, state.clone(), stopping));
    Served { bench, state, at, stop, task, _log: Box::new(log) }
}

impl Served {
    /// Status and body.
    async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let at = self.at;
        tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(at).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            let status = response.split(' ').nth(1).unwrap().parse().unwrap();
            let body = response.split_once("\r\n\r\n").unwrap().1.to_owned();
            (status, body)
        })
        .await
        .unwrap()
    }

    async fn health(&self) -> (u16, HealthReport) {
        let (status, body) = self.ask("GET", "/health", "").await;
        (status, serde_json::from_str(&body).unwrap())
    }
}

#[tokio::test]
async fn damage_is_listed_by_topic_partition_and_offset() {
    let served = serve_bench().await;
    let (status, body) = served.ask("GET", "/damage", "").await;
    assert_eq!((status, body.as_str()), (200, r#"{"ranges":[],"complete":true}"#));
    served.bench.topic("t", vec![FakeLog::default(), FakeLog::default()]).await;
    served.bench.topic("s", vec![FakeLog::default()]).await;
    let image = served.state.store.image();
    let id = |topic: &str, index: usize| image.topics.get(topic).unwrap().partitions[index].id;
    let range = |partition, first, next| DamagedRange { partition, first: Offset(first), next: Offset(next) };
    *served.bench.shards.damage.lock().unwrap() = vec![
        range(id("t", 1), 40, 50),
        range(id("t", 1), 7, 9),
        range(id("s", 0), 0, 3),
        range(PartitionId(999), 1, 2),
    ];
    let (_, body) = served.ask("GET", "/damage", "").await;
    let report: DamageReport = serde_json::from_str(&body).unwrap();
    // The bench's two shards give the same answer.
    let mut rows: Vec<_> = report.ranges.iter().map(|row| (&*row.topic, row.partition, row.first, row.next)).collect();
    rows.dedup();
    assert_eq!(rows, [("s", 0, 0, 3), ("t", 1, 7, 9), ("t", 1, 40, 50)]);
    assert!(report.complete);
}

#[tokio::test]
async fn metrics_show_shards_partitions_devices_and_lag() {
    let served = serve_bench().await;
    served.bench.topic("t", vec![FakeLog { start: 7, end: 100, batches: vec![], ..FakeLog::default() }]).await;
    served.state.shard_stats[1].records_in.add(42);
    served.state.shard_stats[1].apis[3].requests.add(1);
    served.state.shard_stats[1].commit_latency.record_ns(1_500_000);
    served.bench.control.context().stats.error(19);
    let (status, body) = served.ask("GET", "/metrics", "").await;
    assert_eq!(status, 200);
    for line in [
        "barelog_records_in_total{shard=\"1\"} 42",
        "barelog_requests_total{shard=\"1\",api=\"Metadata\"} 1",
        "barelog_commit_latency_seconds_count{shard=\"1\"} 1",
        "barelog_commit_latency_seconds_sum{shard=\"1\"} 0.0015",
        "barelog_commit_latency_seconds_bucket{shard=\"1\",le=\"+Inf\"} 1",
        "barelog_control_request_errors_total{api=\"CreateTopics\"} 1",
        "barelog_topics 1",
        "barelog_metadata_changes_total 1",
        "barelog_device_free_bytes{device=\"/data/device-0\"} 536870912",
        "barelog_partition_log_start{topic=\"t\",partition=\"0\"} 7",
        "barelog_partition_log_end{topic=\"t\",partition=\"0\"} 100",
        "barelog_topic_size_bytes{topic=\"t\"} 1000",
        "barelog_consumer_lag{group=\"g\",topic=\"t\",partition=\"0\"} 60",
        "barelog_groups{type=\"Consumer\",state=\"Stable\"} 3",
        "# TYPE barelog_commit_latency_seconds histogram",
    ] {
        assert!(body.lines().any(|have| have == line), "{line} is not in\n{body}");
    }
    // Buckets are cumulative, so that none is below the one before.
    let buckets = body.lines().filter(|line| line.starts_with("barelog_commit_latency_seconds_bucket{shard=\"1\""));
    let counts: Vec<u64> = buckets.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert!(counts.is_sorted() && counts.contains(&0) && counts.contains(&1));
}

#[tokio::test]
async fn partition_series_are_bounded_and_a_topic_can_be_picked() {
    let served = serve_bench().await;
    served.bench.topic("a", vec![FakeLog::default(); metrics::SERIES_MAX + 5]).await;
    served.bench.topic("z", vec![FakeLog::default(); 2]).await;
    let (_, body) = served.ask("GET", "/metrics", "").await;
    let series = |body: &str| body.lines().filter(|line| line.starts_with("barelog_partition_log_end{")).count();
    assert_eq!(series(&body), metrics::SERIES_MAX);
    assert!(body.contains("barelog_partition_series_left_out 7\n"));
    let (_, body) = served.ask("GET", "/metrics?topic=z", "").await;
    assert_eq!(series(&body), 2);
}

#[tokio::test]
async fn health_names_its_reasons() {
    let served = serve_bench().await;
    assert_eq!(served.health().await, (200, HealthReport { status: "ok".to_owned(), reasons: vec![] }));
    served.bench.control.context().health.worsen("journal 3 takes no more appends: EIO".to_owned());
    let (status, report) = served.health().await;
    assert_eq!((status, report.status.as_str()), (503, "degraded"));
    assert_eq!(report.reasons, ["journal 3 takes no more appends: EIO"]);
}

#[tokio::test]
async fn a_full_device_is_told_and_does_not_fail_health() {
    let served = serve_bench().await;
    FULL.set(true);
    let (status, report) = served.health().await;
    assert_eq!((status, report.status.as_str()), (200, "full"));
    assert!(report.reasons.len() == 1 && report.reasons[0].contains("/data/device-0 is full"), "{report:?}");
    let (_, metrics) = served.ask("GET", "/metrics", "").await;
    assert!(metrics.contains("barelog_device_full{device=\"/data/device-0\"} 1\n"), "{metrics}");
    served.bench.control.context().health.worsen("journal 3 takes no more appends: EIO".to_owned());
    let (status, report) = served.health().await;
    assert_eq!((status, report.status.as_str(), report.reasons.len()), (503, "degraded", 2));
}

#[tokio::test]
async fn the_log_level_changes_while_the_broker_runs() {
    let served = serve_bench().await;
    assert_eq!(served.ask("GET", "/log-level", "").await, (200, "info".to_owned()));
    assert_eq!(served.ask("PUT", "/log-level", "debug\n").await, (200, "debug".to_owned()));
    let (status, why) = served.ask("PUT", "/log-level", "loud").await;
    assert_eq!(status, 400);
    assert!(why.contains("loud"));
    assert_eq!(served.ask("GET", "/log-level", "").await, (200, "debug".to_owned()));
    assert_eq!(served.ask("PUT", "/log-level", &"x".repeat(10_000)).await.0, 413);
    assert_eq!(served.ask("GET", "/nothing", "").await.0, 404);
    assert_eq!(served.ask("POST", "/metrics", "").await.0, 405);
}

#[tokio::test]
async fn peers_that_keep_connections_keep_nobody_out() {
    let served = serve_bench().await;
    let at = served.at;
    let crowd = tokio::task::spawn_blocking(move || {
        let mut kept: Vec<TcpStream> = Vec::new();
        for i in 0..3 * connections::CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(at).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            // Silent ones, half a request, and answers that nobody takes.
            let request: &[u8] = match i % 3 {
                0 => b"",
                1 => b"GET /metrics HT",
                _ => b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n",
            };
            // Its place may be gone already.
            let _ = stream.write_all(request);
            kept.push(stream);
        }
        kept
    });
    let mut kept = crowd.await.unwrap();
    for _ in 0..3 {
        let (status, _) = tokio::time::timeout(Duration::from_secs(5), served.health()).await.unwrap();
        assert_eq!(status, 200);
    }
    let ended = tokio::task::spawn_blocking(move || {
        kept[..2 * connections::CONNECTIONS_MAX].iter_mut().all(|stream| {
            // What was answered before comes first.
            let mut answer = Vec::new();
            match stream.read_to_end(&mut answer) {
                Ok(_) => true,
                Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        })
    });
    assert!(ended.await.unwrap(), "those that came first are gone");
}

#[tokio::test]
async fn serving_ends_when_told() {
    let served = serve_bench().await;
    served.stop.send_replace(true);
    tokio::time::timeout(Duration::from_secs(5), served.task).await.unwrap().unwrap().unwrap();
}

#[test]
fn label_values_are_escaped() {
    let mut out = String::new();
    metrics::write_labels_for_test(&mut out, &[("device", "a\"b\\c\nd")]);
    assert_eq!(out, r#"{device="a\"b\\c\nd"}"#);
}

#[test]
fn docs_list_every_metric() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/METRICS.md");
    let generated = metrics::metrics_markdown();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == generated, "docs/METRICS.md is stale: BLESS=1 cargo test -p barelog-controlplane docs_list");
}
