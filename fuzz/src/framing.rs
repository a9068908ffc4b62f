//! The bytes of one connection against a whole shard: framing, dispatch, decoding, and what follows from it, with a journal
//! on a simulated device behind.
//!
//! The first byte says in which pieces the bytes arrive. They are also sent in one piece: both ways the same requests are
//! answered, and the connection is closed or not. At the end nothing is left of it.

use std::sync::Arc;

use base::image::{Delta, Image, PartitionEntry, SeededHash, SharedMap, TimestampType, TopicConfig, TopicEntry};
use base::message::{ToControl, ToShard};
use base::stats::ShardStats;
use base::{ConnId, Epoch, JournalId, Now, PartitionId, ShardId, TopicId};
use journal::store::Durability;
use protocol::api::{APIS, ApiKey};
use protocol::batch::{BatchBuilder, Producer};
use protocol::frame::{begin_frame, end_frame, put_request_header};
use protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use protocol::messages::{FetchRequest, ListOffsetsRequest, ProduceRequest, Request};
use shard::ports::Backends;
use shard::{Limits, Shard, ShardConfig};
use sim::broker::ports::{Device, Net, Rings, SimPorts};
use sim::world::{BROKER, CLUSTER, Plan, Rest, World};
use sim::{Chance, Disk, recover, sums};

use crate::input::Input;

const TOPIC: &str = "t";
const TOPIC_ID: TopicId = TopicId(9 << 64);
const JOURNAL: JournalId = JournalId(0);

fn plan() -> Plan {
    Plan {
        shards: 1,
        journals: 1,
        extent_len: 128 << 10,
        extents_max: 12,
        unit_bytes: 16 << 10,
        writes_in_flight: 4,
        bytes_in_flight: 256 << 10,
        checkpoint_bytes: 1 << 20,
        durability: Durability::Flush,
        batch_bytes: 2000,
    }
}

/// A shard with one journal and a topic of two partitions, and its only client.
struct Broker {
    world: World<Shard<SimPorts>>,
    stats: Arc<ShardStats>,
    rings: Rings,
    chance: Chance,
    conn: ConnId,
    /// Correlation ids of the answers, in order.
    answers: Vec<i32>,
}

thread_local! {
    /// A new device, made once.
    static DEVICE: Disk = Rest::new(plan()).disk;
}

impl Broker {
    fn new() -> Self {
        let disk = DEVICE.with(Clone::clone);
        let now = Now { mono: base::Mono(1_000_000_000), wall: base::WallMs(1_700_000_000_000) };
        let mut rest = Rest { plan: plan(), disk, files: Default::default(), now, trace: 0 };
        let mut chance = Chance::new(1);
        let mut epoch = 4;
        let (mut stores, pool, _) = recover::bring_up(&mut rest, &mut epoch, &mut chance).expect("a new device opens");
        let rings = Rings::new(1, 64);
        let store = stores.remove(0);
        let backends = Backends {
            arena: store.arena,
            network: Net::default(),
            devices: Device::default(),
            neighbours: rings.of(0),
            log: SimPorts::default(),
        };
        let limits = Limits { request_bytes_max: 1 << 20, request_elements_max: 1000, ..Limits::default() };
        let config = ShardConfig { id: ShardId(0), shards: 1, hash_seed: 11, limits };
        let stats = Arc::new(ShardStats::default());
        let (image, delta) = image(&rest.plan, epoch);
        let shard = Shard::new(now, config, store.store, image.clone(), backends, stats.clone());
        let world = World::new(rest, vec![shard], pool);
        let mut broker = Self { world, stats, rings, chance, conn: ConnId(0), answers: Vec::new() };
        broker.rings.send(0, ToShard::Apply { token: 1, image, delta });
        broker.conn = broker.net().open();
        broker.rest();
        broker
    }

    fn net(&mut self) -> &mut Net {
        &mut self.world.shards[0].backends_mut().network
    }

    /// Turns until nothing happens any more; moves up to `piece` bytes each way at a time.
    fn turns(&mut self, piece: usize) {
        for _ in 0..20_000 {
            let movable: Vec<ConnId> = self.net().movable().collect();
            for conn in &movable {
                self.net().advance(*conn, piece);
            }
            let mut busy = !movable.is_empty();
            busy |= self.world.shards[0].turn(self.world.now).busy;
            let asked = std::mem::take(&mut self.world.shards[0].backends_mut().devices.asked);
            self.world.take(0, asked);
            while self.world.in_flight() > 0 && self.world.complete(&mut self.chance) {
                busy = true;
            }
            busy |= self.control();
            if !busy {
                return;
            }
        }
        panic!("the shard never comes to rest");
    }

    fn rest(&mut self) {
        self.turns(1 << 20);
    }

    /// The control plane answers each request with its correlation id.
    fn control(&mut self) -> bool {
        let mut busy = false;
        while let Some(message) = self.rings.receive(0) {
            busy = true;
            if let ToControl::Request(request) = message {
                assert!(request.frame.len() >= 8, "a request without a header reaches the control plane");
                let response = Some(request.frame[4..8].to_vec());
                self.rings.send(0, ToShard::Answer { conn: request.conn, sequence: request.sequence, response });
            }
        }
        busy
    }

    fn hear(&mut self) {
        let conn = self.conn;
        while let Some(response) = self.net().response(conn) {
            let correlation = response.first_chunk().expect("an answer begins with a correlation id");
            self.answers.push(i32::from_be_bytes(*correlation));
        }
    }

    /// Sends everything, waits out what waits; whether the connection is closed, and what was answered.
    fn talk(mut self, bytes: &[u8], piece: usize) -> (bool, Vec<i32>) {
        let conn = self.conn;
        self.net().write(conn, bytes);
        self.turns(piece);
        self.hear();
        // Fetches that wait.
        self.world.pass_ms(61_000);
        self.rest();
        self.hear();
        let closed = self.net().is_over(conn);
        self.net().leave(conn);
        self.rest();
        self.world.pass_ms(61_000);
        let now = self.world.now;
        self.world.shards[0].housekeep(now);
        self.rest();
        let stats = &self.stats;
        let left = (stats.connections.get(), stats.request_bytes.get(), stats.requests_in_flight.get());
        assert_eq!((left, stats.fetches_waiting.get()), ((0, 0, 0), 0), "something is left of a closed connection");
        (closed, self.answers)
    }
}

fn image(plan: &Plan, epoch: i32) -> (Arc<Image>, Arc<Delta>) {
    let hash = SeededHash(3);
    let mut image = Image {
        generation: 2,
        cluster: CLUSTER,
        broker: BROKER,
        listeners: Arc::new([]),
        topics: SharedMap::new(hash),
        topics_by_id: SharedMap::new(hash),
        journals: SharedMap::new(hash),
        homes: SharedMap::new(hash),
        partitions_below: PartitionId(3),
    };
    image.journals.insert(JOURNAL, Arc::new(plan.journal(JOURNAL.0, epoch)));
    let config = TopicConfig {
        retention_ms: -1,
        retention_bytes: -1,
        compaction: None,
        max_message_bytes: 60 << 10,
        timestamp_type: TimestampType::Create,
        timestamp_before_ms_max: i64::MAX,
        timestamp_after_ms_max: i64::MAX,
        min_insync_replicas: 1,
    };
    let partition =
        |id| PartitionEntry { id: PartitionId(id), journal: JOURNAL, shard: ShardId(0), epoch: Epoch(epoch) };
    let topic = Arc::new(TopicEntry {
        id: TOPIC_ID,
        name: TOPIC.into(),
        internal: false,
        config: Arc::new(config),
        partitions: [partition(1), partition(2)].into(),
    });
    image.topics.insert(topic.name.clone(), topic.clone());
    image.topics_by_id.insert(topic.id, topic.clone());
    (Arc::new(image), Arc::new(Delta { topics: vec![topic], ..Delta::default() }))
}

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let piece = input.pick(&[1, 2, 3, 5, 7, 11, 64, 1000]);
    let stream = input.rest();
    let (closed, answers) = Broker::new().talk(stream, 1 << 20);
    let (closed_in_pieces, in_pieces) = Broker::new().talk(stream, piece);
    assert_eq!(closed, closed_in_pieces, "pieces of {piece} bytes decide whether the connection is closed");
    // Who is closed may have been answered more when the bytes came slowly.
    let common = answers.len().min(in_pieces.len());
    assert_eq!(answers[..common], in_pieces[..common], "answers when the bytes come in pieces of {piece}");
    assert!(closed || answers.len() == in_pieces.len(), "{answers:?}, in pieces of {piece} {in_pieces:?}");
}

fn put<'a, R: Request<'a>>(out: &mut Vec<u8>, request: &R, version: i16, correlation: i32) {
    let at = begin_frame(out);
    put_request_header(out, R::KEY, version, correlation, Some("me"));
    request.encode(out, version);
    end_frame(out, at, 0);
}

/// A request with an empty body, of an API of the control plane.
fn put_bare(out: &mut Vec<u8>, key: ApiKey, version: i16, correlation: i32) {
    let at = begin_frame(out);
    put_request_header(out, key, version, correlation, Some("me"));
    end_frame(out, at, 0);
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut builder = BatchBuilder::new();
    builder.append(1_700_000_000_000, Some(b"k"), Some(b"value"), &[]);
    builder.append(1_700_000_000_001, None, Some(b"another"), &[]);
    let batch = builder.finish(Producer::NONE, &sums()).to_vec();
    let records = Some(&batch[..]);
    let data = |index| PartitionProduceData { index, records };
    let topics = vec![TopicProduceData { name: TOPIC, topic_id: TOPIC_ID, partition_data: vec![data(0), data(1)] }];
    let produce =
        |acks| ProduceRequest { acks, timeout_ms: 1000, topic_data: topics.clone(), ..ProduceRequest::default() };
    let want = |partition| FetchPartition { partition, partition_max_bytes: 1 << 20, ..FetchPartition::default() };
    let fetch = |max_wait_ms, session_epoch| FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch,
        topics: vec![FetchTopic { topic: TOPIC, topic_id: TOPIC_ID, partitions: vec![want(0), want(1)] }],
        ..FetchRequest::default()
    };
    let time =
        |partition_index, timestamp| ListOffsetsPartition { partition_index, timestamp, current_leader_epoch: -1 };
    let list = ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic { name: TOPIC, partitions: vec![time(0, -1), time(1, -2), time(0, 5)] }],
        ..ListOffsetsRequest::default()
    };
    let mut seeds = Vec::new();
    let mut add = |piece: u8, make: &dyn Fn(&mut Vec<u8>)| {
        let mut seed = vec![piece];
        make(&mut seed);
        seeds.push(seed);
    };
    for version in [3, 9, 12, 13] {
        add(4, &|out| put(out, &produce(-1), version, 1));
    }
    for version in [4, 12, 18] {
        add(6, &|out| put(out, &fetch(0, 0), version, 1));
        add(6, &|out| put(out, &fetch(100, -1), version, 1));
    }
    for version in [1, 6, 11] {
        add(5, &|out| put(out, &list, version, 1));
    }
    add(2, &|out| {
        put(out, &produce(1), 9, 1);
        put(out, &produce(0), 9, 2);
        put(out, &fetch(100, 0), 13, 3);
        put(out, &list, 7, 4);
        put_bare(out, ApiKey::Metadata, 12, 5);
        put(out, &produce(-1), 12, 6);
    });
    for (at, api) in (0u8..).zip(APIS) {
        add(at, &|out| put_bare(out, api.key, api.max, at.into()));
    }
    add(0, &|out| out.extend(0x7fff_ffffu32.to_be_bytes()));
    add(0, &|out| out.extend(b"GET / HTTP/1.1\r\n\r\n"));
    seeds
}
