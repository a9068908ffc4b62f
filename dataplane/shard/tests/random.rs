//! Random work on several shards with devices, rings and clients that stall: nothing acked is lost, moved or seen twice.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the failure")]

mod world;

use std::collections::BTreeMap;

use kafka_protocol::messages::{ApiKey, FetchResponse, ProduceResponse};
use shard::Limits;
use world::kafka::{batch_of, decode, fetch, produce, records, want};
use world::{Client, Plan, World};

const PARTITIONS: i32 = 7;

/// Xorshift (Marsaglia 2003).
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

struct Producer {
    client: Client,
    /// Sent and not answered: partition and value, in order.
    sent: Vec<(i32, String, i16)>,
}

struct Consumer {
    client: Client,
    session: i32,
    epoch: i32,
    /// Next offset of each partition.
    at: BTreeMap<i32, i64>,
    moved: Vec<i32>,
    waits: bool,
    seen: BTreeMap<i32, Vec<(i64, String)>>,
}

struct Run {
    world: World,
    chance: Chance,
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    acked: Vec<(i32, i64, String)>,
    next: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let shards = u16::try_from(1 + chance.below(3)).unwrap();
        let limits = Limits {
            conn_requests_max: 1 + chance.below(8),
            conn_turn_bytes: 1 + chance.below(2000),
            neighbour_requests_max: 1 + chance.below(8),
            waiting_reads_max: 1 + chance.below(8),
            sessions_max: chance.below(4),
            ..Limits::default()
        };
        let ring = 1 + chance.below(4);
        let mut world = World::with(Plan { shards, ring, limits, ..Plan::default() });
        world.create_topic("t", usize::try_from(PARTITIONS).unwrap());
        let home = |chance: &mut Chance| chance.below(usize::from(shards));
        let producers =
            (0..4).map(|_| Producer { client: world.connect(home(&mut chance)), sent: Vec::new() }).collect();
        let consumers = (0..3)
            .map(|_| Consumer {
                client: world.connect(home(&mut chance)),
                session: 0,
                epoch: 0,
                at: (0..PARTITIONS).map(|p| (p, 0)).collect(),
                moved: Vec::new(),
                waits: false,
                seen: BTreeMap::new(),
            })
            .collect();
        Self { world, chance, producers, consumers, acked: Vec::new(), next: 0 }
    }

    fn step(&mut self) {
        match self.chance.below(10) {
            0..4 => self.send(),
            4..7 => self.ask(),
            7 => {
                let shard = self.chance.below(self.world.shards.len());
                let stalled = self.chance.one_in(2);
                self.world.device(shard).stalled = stalled;
            }
            8 => {
                let ms = u64::try_from(self.chance.below(300)).unwrap();
                self.world.advance_ms(ms);
            }
            _ => {
                let at = self.chance.below(self.consumers.len());
                let (shard, id) = (self.consumers[at].client.shard, self.consumers[at].client.id);
                let stalled = self.chance.one_in(2);
                self.world.net(shard).stall(id, stalled);
            }
        }
        for _ in 0..self.chance.below(4) {
            self.world.turn();
        }
        self.take();
    }

    fn send(&mut self) {
        let at = self.chance.below(self.producers.len());
        let partition = i32::try_from(self.chance.below(7)).unwrap();
        let acks = [1, -1][self.chance.below(2)];
        self.next += 1;
        let value = format!("v{}", self.next);
        let producer = &mut self.producers[at];
        let request = produce(acks, "t", &[(partition, batch_of(1 + self.next % 3, &value))]);
        producer.client.send(&mut self.world, ApiKey::Produce, 9, &request);
        producer.sent.push((partition, value, acks));
    }

    fn ask(&mut self) {
        let at = self.chance.below(self.consumers.len());
        let consumer = &mut self.consumers[at];
        if consumer.waits {
            return;
        }
        consumer.waits = true;
        let named: Vec<i32> =
            if consumer.session == 0 { (0..PARTITIONS).collect() } else { std::mem::take(&mut consumer.moved) };
        let wanted = named.iter().map(|p| want(*p, consumer.at[p])).collect();
        let request = fetch("t", wanted)
            .with_session_id(consumer.session)
            .with_session_epoch(if consumer.session == 0 { 0 } else { consumer.epoch })
            .with_max_wait_ms(i32::try_from(self.chance.below(3) * 200).unwrap())
            .with_min_bytes(i32::try_from(1 + self.chance.below(300)).unwrap())
            .with_max_bytes(i32::try_from(1 + self.chance.below(2000)).unwrap());
        consumer.client.send(&mut self.world, ApiKey::Fetch, 12, &request);
    }

    fn take(&mut self) {
        for producer in &mut self.producers {
            while let Some(response) = producer.client.pop(&mut self.world) {
                let (_, response) = decode::<ProduceResponse>(ApiKey::Produce, 9, response);
                let (partition, value, _) = producer.sent.remove(0);
                let answer = &response.responses[0].partition_responses[0];
                assert_eq!((answer.index, answer.error_code), (partition, 0));
                self.acked.push((partition, answer.base_offset, format!("{value}-0")));
            }
        }
        for consumer in &mut self.consumers {
            let Some(response) = consumer.client.pop(&mut self.world) else { continue };
            let (_, response) = decode::<FetchResponse>(ApiKey::Fetch, 12, response);
            assert_eq!(response.error_code, 0);
            consumer.waits = false;
            consumer.epoch = if response.session_id == consumer.session { consumer.epoch + 1 } else { 1 };
            consumer.session = response.session_id;
            for partition in response.responses.iter().flat_map(|topic| &topic.partitions) {
                assert_eq!(partition.error_code, 0);
                let index = partition.partition_index;
                let found = records(partition.records.as_ref());
                let Some((last, _)) = found.last() else { continue };
                let at = consumer.at.get_mut(&index).unwrap();
                assert!(found[0].0 <= *at, "no hole");
                consumer.seen.entry(index).or_default().extend(found.iter().filter(|(o, _)| o >= at).cloned());
                *at = last + 1;
                consumer.moved.push(index);
            }
        }
    }

    fn settle(&mut self) {
        for shard in 0..self.world.shards.len() {
            self.world.device(shard).stalled = false;
        }
        for consumer in &self.consumers {
            self.world.net(consumer.client.shard).stall(consumer.client.id, false);
        }
        for _ in 0..200 {
            self.world.run();
            self.world.advance_ms(700);
            self.take();
            for _ in 0..3 {
                self.ask();
            }
        }
        self.world.advance_ms(700);
        self.world.run();
        self.take();
    }
}

#[test]
fn nothing_acked_is_lost_moved_or_seen_twice() {
    for seed in 1..=40 {
        let mut run = Run::new(seed);
        for _ in 0..150 {
            run.step();
        }
        run.settle();
        assert!(run.producers.iter().all(|producer| producer.sent.is_empty()), "seed {seed}: all is answered");
        let mut client = run.world.connect(0);
        for partition in 0..PARTITIONS {
            let response = client.fetch(&mut run.world, 12, &fetch("t", vec![want(partition, 0)]));
            let log = records(response.responses[0].partitions[0].records.as_ref());
            let offsets: Vec<i64> = log.iter().map(|(offset, _)| *offset).collect();
            assert_eq!(offsets, (0..i64::try_from(log.len()).unwrap()).collect::<Vec<_>>(), "seed {seed}");
            for (_, offset, value) in run.acked.iter().filter(|acked| acked.0 == partition) {
                assert!(log.contains(&(*offset, value.clone())), "seed {seed}: {value} at {offset} of {partition}");
            }
            for consumer in &run.consumers {
                let seen = consumer.seen.get(&partition).cloned().unwrap_or_default();
                assert_eq!(seen, log, "seed {seed}: all of it, once, in order");
            }
        }
        let distinct: std::collections::BTreeSet<_> = run.acked.iter().map(|(p, o, _)| (p, o)).collect();
        assert_eq!(distinct.len(), run.acked.len(), "seed {seed}: an offset is given once");
        assert_eq!(run.acked.len(), run.next, "seed {seed}");
    }
}
