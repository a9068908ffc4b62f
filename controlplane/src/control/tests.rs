#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails where it does not hold")]

mod admin;
mod configs;
mod hostile;
mod offsets;
mod versions;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Mutex;

use base::image::Advertised;
use base::message::{Bounds, DamagedRange, Outcome, PartitionSize, ProducerInfo, Refusal, ShardCommand, ToShard};
use base::{Epoch, JournalId, Offset, PartitionId, ProducerEpoch, ProducerId, WallMs};
use cluster::Local;
use cluster::command::DeviceUuid;
use protocol::batch::BatchView;
use protocol::error::ErrorCode;
use protocol::frame::{parse_response, put_request_header};
use protocol::messages::Request as KafkaRequest;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::*;
use crate::groups::GroupCount;
use crate::http::{Committed, DeviceSpace};
use crate::metadata::{MetadataFile, SingleStore};

/// Two shards in a map, behind the same links as real ones.
#[derive(Default)]
pub(crate) struct FakeShards {
    pub(crate) logs: Mutex<HashMap<PartitionId, FakeLog>>,
    answers: Mutex<HashMap<u64, oneshot::Sender<Option<Vec<u8>>>>>,
    pub(crate) damage: Mutex<Vec<DamagedRange>>,
    /// Apply messages are not answered while it is set.
    pub(crate) deaf: std::sync::atomic::AtomicBool,
    /// What the next questions to close or open get; the last first.
    pub(crate) refuse_close: Mutex<Vec<Refusal>>,
    pub(crate) refuse_open: Mutex<Vec<Refusal>>,
    /// Questions to old homes: first offset, log start.
    pub(crate) expired: Mutex<Vec<(i64, i64)>>,
}

#[derive(Clone, Default)]
pub(crate) struct FakeLog {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) batches: Vec<Vec<u8>>,
    /// Its open home, as metadata has it.
    pub(crate) journal: JournalId,
    /// Journals in which it was opened.
    pub(crate) opened: Vec<JournalId>,
    /// What an old home says has expired.
    pub(crate) expires: Option<i64>,
}

impl FakeShards {
    fn handle(&self, message: ToShard) -> Option<ToControl> {
        match message {
            ToShard::Answer { sequence, response, .. } => {
                if let Some(sender) = self.answers.lock().unwrap().remove(&sequence) {
                    let _ = sender.send(response);
                }
                None
            }
            ToShard::Apply { token, delta, .. } => {
                let mut logs = self.logs.lock().unwrap();
                for partition in delta.topics.iter().flat_map(|topic| topic.partitions.iter()) {
                    logs.entry(partition.id).or_default().journal = partition.journal;
                }
                for gone in &delta.deleted {
                    logs.remove(gone);
                }
                let deaf = self.deaf.load(std::sync::atomic::Ordering::Relaxed);
                (!deaf).then_some(ToControl::Done { token, outcome: Ok(Outcome::Applied) })
            }
            ToShard::Command { token, command } => Some(ToControl::Done { token, outcome: self.command(command) }),
            ToShard::Shutdown => Some(ToControl::Stopped { shard: ShardId(0) }),
        }
    }

    fn command(&self, command: ShardCommand) -> Result<Outcome, Refusal> {
        let mut logs = self.logs.lock().unwrap();
        let log = |id: PartitionId| logs.get(&id).cloned().ok_or(Refusal::UnknownPartition);
        match command {
            ShardCommand::Append { .. } => Err(Refusal::Full),
            ShardCommand::Read { partition, offset, .. } => {
                let holds =
                    |range: &&DamagedRange| range.partition == partition && (range.first..range.next).contains(&offset);
                if let Some(range) = self.damage.lock().unwrap().iter().find(holds) {
                    return Err(Refusal::Damaged { next: range.next });
                }
                let log = log(partition)?;
                let from = |batch: &&Vec<u8>| BatchView::check_stored(batch).unwrap().last_offset() >= offset.0;
                let bytes: Vec<u8> = log.batches.iter().filter(from).flatten().copied().collect();
                Ok(Outcome::Records(bytes, log.bounds()))
            }
            ShardCommand::Bounds { partition } => Ok(Outcome::Bounds(log(partition)?.bounds())),
            ShardCommand::MoveStart { partition, to } => {
                let log = logs.get_mut(&partition).ok_or(Refusal::UnknownPartition)?;
                let to = if to.0 == -1 { log.end } else { to.0 };
                if to < 0 || to > log.end {
                    return Err(Refusal::OutOfRange);
                }
                log.start = log.start.max(to);
                Ok(Outcome::Moved(Offset(log.start)))
            }
            ShardCommand::EpochEnd { partition, epoch } => {
                let log = log(partition)?;
                Ok(Outcome::EpochEnd((epoch.0 > 0).then_some((Epoch(1), Offset(log.end)))))
            }
            ShardCommand::FindTime { partition, timestamp, from, upto } => {
                let here = log(partition)?.batches.into_iter().filter(|batch| within(batch, from, upto));
                Ok(Outcome::Batch(here.into_iter().find(|batch| max_time(batch) >= timestamp.0)))
            }
            ShardCommand::FindMaxTime { partition, from, upto } => {
                let here = log(partition)?.batches.into_iter().filter(|batch| within(batch, from, upto));
                Ok(Outcome::Batch(here.max_by_key(|batch| max_time(batch))))
            }
            ShardCommand::Close { partition, .. } => {
                if let Some(refusal) = self.refuse_close.lock().unwrap().pop() {
                    return Err(refusal);
                }
                let end = Offset(log(partition)?.end);
                Ok(Outcome::Closed(end, partition.0.to_le_bytes().to_vec()))
            }
            ShardCommand::Open { journal, state, .. } => {
                if let Some(refusal) = self.refuse_open.lock().unwrap().pop() {
                    return Err(refusal);
                }
                let id = PartitionId(u64::from_le_bytes(state.try_into().unwrap()));
                let log = logs.get_mut(&id).ok_or(Refusal::UnknownPartition)?;
                log.opened.push(journal);
                Ok(Outcome::Opened)
            }
            ShardCommand::Expire { partition, first, log_start, .. } => {
                self.expired.lock().unwrap().push((first.0, log_start.0));
                Ok(Outcome::Expired(log(partition)?.expires.map(Offset)))
            }
            ShardCommand::Producers { partition } => {
                log(partition)?;
                Ok(Outcome::Producers(vec![ProducerInfo {
                    id: ProducerId(77),
                    epoch: ProducerEpoch(2),
                    last_sequence: 9,
                    last_timestamp: WallMs(5),
                }]))
            }
            ShardCommand::Damage => Ok(Outcome::Damage(self.damage.lock().unwrap().clone())),
            ShardCommand::Sizes => {
                let size = |(id, log): (&PartitionId, &FakeLog)| {
                    let (partition, bounds) = (*id, log.bounds());
                    PartitionSize { partition, journal: log.journal, bounds, written: 0 }
                };
                Ok(Outcome::Sizes(logs.iter().map(size).collect()))
            }
        }
    }
}

fn within(batch: &[u8], from: Offset, upto: Offset) -> bool {
    (from.0..upto.0).contains(&BatchView::check_stored(batch).unwrap().base_offset())
}

fn max_time(batch: &[u8]) -> i64 {
    BatchView::check_stored(batch).unwrap().max_timestamp()
}

impl FakeLog {
    fn bounds(&self) -> Bounds {
        Bounds {
            log_start: Offset(self.start),
            high_watermark: Offset(self.end),
            log_end: Offset(self.end),
            epoch: Epoch(1),
            bytes: 1000,
        }
    }
}

thread_local! {
    /// Whether the device is full; a test and its bench share a thread.
    pub(crate) static FULL: Cell<bool> = const { Cell::new(false) };
}

struct OneDevice;

impl Observed for OneDevice {
    fn devices(&self) -> Vec<DeviceSpace> {
        vec![DeviceSpace {
            path: "/data/device-0".to_owned(),
            total_bytes: 1 << 30,
            free_bytes: 1 << 29,
            full: FULL.with(Cell::get),
        }]
    }

    fn committed(&self, _most: usize) -> Vec<Committed> {
        vec![Committed { group: "g".into(), topic: "t".into(), partition: 0, offset: 40 }]
    }

    fn groups(&self) -> Vec<GroupCount> {
        vec![GroupCount { kind: "Consumer", state: "Stable", groups: 3 }]
    }

    fn troubles(&self) -> Vec<String> {
        Vec::new()
    }
}

struct NoGroups;

impl GroupApis for NoGroups {
    fn request(&self, _request: ControlRequest, reply: Reply) {
        drop(reply);
    }

    fn closed(&self, _shard: ShardId, _conn: ConnId) {}

    fn topic_deleted(&self, _topic: Arc<str>, _id: base::TopicId) {}
}

/// A control plane over fake shards.
pub(crate) struct Bench {
    pub(crate) control: Arc<Control>,
    pub(crate) shards: Arc<FakeShards>,
    to_control: mpsc::Sender<ToControl>,
    next: AtomicU64,
    _dir: TempDir,
}

use std::sync::atomic::{AtomicU64, Ordering};

impl Bench {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut BrokerSettings)) -> Self {
        let mut settings = BrokerSettings::default();
        change(&mut settings);
        let dir = TempDir::new().unwrap();
        let (file, state) = MetadataFile::open(&dir.path().join("metadata.redb"), None, None).unwrap();
        let address = |name: &str, port| Advertised { name: name.into(), host: "broker.test".into(), port };
        let local = Local {
            cluster: file.identity().cluster,
            broker: file.identity().broker,
            listeners: Arc::new([address("inside", 9092), address("outside", 19092)]),
            devices: vec![DeviceUuid(1)],
            shards: 2,
            defaults: settings.topic_defaults.clone(),
            hash_seed: 1,
        };
        let stats = Arc::<ControlStats>::default();
        let store = SingleStore::start(file, state, local, 2, Epoch(0), stats.clone()).unwrap();
        let shards = Arc::<FakeShards>::default();
        let (to_control, from_shards) = mpsc::channel(64);
        let links = (0..2).map(|shard| fake_shard(shard, shards.clone(), to_control.clone())).collect();
        let links = ShardLinks::new(links);
        store.attach(links.clone());
        let control = Arc::new(Control::new(settings, Arc::new(store), links, stats, Arc::new(OneDevice)));
        let runner = control.clone();
        tokio::spawn(async move { runner.run(Arc::new(NoGroups), from_shards).await });
        Self { control, shards, to_control, next: AtomicU64::new(1), _dir: dir }
    }

    /// Sends a frame; the response, or `None` when the connection is closed.
    pub(crate) async fn raw(&self, listener: u16, frame: Vec<u8>) -> Option<Vec<u8>> {
        let sequence = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.shards.answers.lock().unwrap().insert(sequence, sender);
        let request = ControlRequest {
            shard: ShardId(0),
            conn: ConnId(1),
            sequence,
            listener,
            peer: "127.0.0.1:5".into(),
            frame,
        };
        self.to_control.send(ToControl::Request(request)).await.unwrap();
        receiver.await.unwrap()
    }

    /// Sends a request; the body of the response.
    pub(crate) async fn body<'a, R: KafkaRequest<'a>>(&self, request: &R, version: i16) -> Vec<u8> {
        self.body_at(0, request, version).await
    }

    pub(crate) async fn body_at<'a, R: KafkaRequest<'a>>(&self, listener: u16, request: &R, version: i16) -> Vec<u8> {
        let response = self.raw(listener, frame(request, version)).await.expect("an answer");
        let (correlation, body) = parse_response(&response, R::KEY, version).unwrap();
        assert_eq!(correlation, 4711);
        body.to_vec()
    }

    /// Creates a topic with one partition for each log and fills them.
    pub(crate) async fn topic(&self, name: &str, logs: Vec<FakeLog>) {
        let command =
            self.control.context().create_topic(name, u32::try_from(logs.len()).unwrap(), Vec::new()).unwrap();
        self.control.context().change(command, std::time::Duration::from_secs(5)).await.unwrap();
        let image = self.control.context().store.image();
        let topic = image.topics.get(name).unwrap();
        let mut all = self.shards.logs.lock().unwrap();
        for (partition, log) in topic.partitions.iter().zip(logs) {
            all.insert(partition.id, FakeLog { journal: partition.journal, ..log });
        }
    }
}

fn fake_shard(shard: u16, shards: Arc<FakeShards>, to_control: mpsc::Sender<ToControl>) -> mpsc::Sender<ToShard> {
    let (sender, mut receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Some(message) = receiver.recv().await {
            if let ToShard::Command { token, command: ShardCommand::Sizes } = message
                && shard > 0
            {
                // The first has told of all.
                let _ = to_control.send(ToControl::Done { token, outcome: Ok(Outcome::Sizes(Vec::new())) }).await;
                continue;
            }
            if let Some(answer) = shards.handle(message) {
                let _ = to_control.send(answer).await;
            }
        }
    });
    sender
}

pub(crate) fn frame<'a, R: KafkaRequest<'a>>(request: &R, version: i16) -> Vec<u8> {
    let mut frame = Vec::new();
    put_request_header(&mut frame, R::KEY, version, 4711, Some("test"));
    request.encode(&mut frame, version);
    frame
}

/// Sends a request and gives the parsed response to the rest of the test.
macro_rules! ask {
    ($bench:expr, $request:expr, $version:expr => $response:ident : $kind:ty) => {
        let body = $bench.body(&$request, $version).await;
        let $response: $kind = protocol::messages::Message::parse(&body, $version).unwrap();
    };
}
pub(crate) use ask;

pub(crate) const OK: ErrorCode = ErrorCode::NONE;
