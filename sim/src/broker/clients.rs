//! Clients: producers that try again, consumers with and without sessions, on connections that break.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{ConnId, PartitionId, TopicId};
use protocol::api::ApiKey;
use protocol::batch::{BatchBuilder, Producer as Stamp};
use protocol::error::ErrorCode;
use protocol::messages::{FetchResponse, ListOffsetsResponse, ProduceResponse};

use super::ledger::{BatchId, Fate, Floor};
use super::wire::{self, Fetch, TopicName};
use super::{Broker, talk};
use crate::sums;
use crate::world::time_of_record;

/// A connection as its client holds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    shard: usize,
    conn: ConnId,
    correlation: i32,
}

/// A Produce request.
#[derive(Clone, Debug)]
struct Flight {
    correlation: i32,
    version: i16,
    /// Topic, index and batch of each part.
    parts: Vec<(TopicName, i32, BatchId)>,
    /// What was known of each part's partition when it was sent.
    floors: Vec<Floor>,
    /// Whether it lies on the connection that is open now.
    sent: bool,
}

/// A producer.
#[derive(Debug)]
pub(super) struct Producer {
    link: Option<Link>,
    /// Its id; −1: it is not idempotent, and tries nothing again.
    id: i64,
    epoch: i16,
    acks: i16,
    next: BTreeMap<PartitionId, i32>,
    /// Partitions that have taken something of it. Elsewhere one batch is sent at a time: a broker that knows nothing of a
    /// producer takes any sequence for the first, as Kafka does.
    proven: BTreeSet<PartitionId>,
    flights: VecDeque<Flight>,
    /// Batches that were refused and are to be tried again, in order.
    stuck: BTreeMap<PartitionId, VecDeque<(TopicName, i32, BatchId)>>,
}

impl Producer {
    /// Requests that are not answered.
    pub(super) fn waiting(&self) -> usize {
        self.flights.len()
    }
}

/// What a consumer waits for.
#[derive(Clone, Debug)]
enum Waits {
    Nothing,
    Fetch {
        version: i16,
        correlation: i32,
        /// By index, as of the question.
        at: BTreeMap<i32, (i64, Floor)>,
        incremental: bool,
        min_bytes: i32,
    },
    Ends {
        version: i16,
        correlation: i32,
        latest: bool,
        /// By index, as of the question.
        floors: BTreeMap<i32, Floor>,
    },
    /// The control plane's word.
    Word {
        correlation: i32,
    },
}

/// A consumer of all partitions of one topic.
#[derive(Debug)]
pub(super) struct Consumer {
    link: Option<Link>,
    topic: TopicName,
    version: i16,
    at: BTreeMap<i32, i64>,
    session: i32,
    session_epoch: i32,
    /// Whether it asks for sessions.
    in_sessions: bool,
    /// Partitions that the session does not know the position of.
    moved: Vec<i32>,
    /// Log start and high watermark that the session told of each partition.
    told: BTreeMap<i32, (i64, i64)>,
    /// Partitions that must look where their log begins.
    lost: Vec<i32>,
    waits: Waits,
}

impl Consumer {
    /// Whether a request of it is not answered.
    pub(super) const fn waits(&self) -> bool {
        !matches!(self.waits, Waits::Nothing)
    }
}

impl Broker {
    /// The clients of the whole run.
    pub(super) fn people(&mut self) {
        let topics = self.topics();
        for number in 0..self.chance.between(2, 4) {
            let idempotent = number == 0 || self.chance.odds(1, 2);
            let acks = if idempotent { -1 } else { *self.chance.pick(&[-1, 1, 0]) };
            self.producers.push(Producer {
                link: None,
                id: if idempotent { 1000 + number.cast_signed() } else { -1 },
                epoch: 0,
                acks,
                next: BTreeMap::new(),
                proven: BTreeSet::new(),
                flights: VecDeque::new(),
                stuck: BTreeMap::new(),
            });
        }
        for _ in 0..self.chance.between(1, 3) {
            let entry = self.chance.pick(&topics).clone();
            let consumer = self.consumer_of(&entry);
            self.consumers.push(consumer);
        }
    }

    fn consumer_of(&mut self, entry: &base::image::TopicEntry) -> Consumer {
        let count = i32::try_from(entry.partitions.len()).expect("few partitions");
        Consumer {
            link: None,
            topic: TopicName::of(entry),
            version: *self.chance.pick(&[4, 7, 11, 12, 13, 16]),
            at: (0..count).map(|index| (index, 0)).collect(),
            session: 0,
            session_epoch: 0,
            in_sessions: self.chance.odds(2, 3),
            moved: Vec::new(),
            told: BTreeMap::new(),
            lost: (0..count).collect(),
            waits: Waits::Nothing,
        }
    }

    /// More consumers follow the topics that others follow.
    pub(super) fn join(&mut self) {
        let topics = self.all_topics();
        let followed: Vec<TopicId> = self.consumers.iter().map(|consumer| consumer.topic.id).collect();
        for entry in topics.iter().filter(|entry| followed.contains(&entry.id)) {
            let consumer = self.consumer_of(entry);
            self.consumers.push(consumer);
        }
    }

    /// A consumer goes back to where a log began when it was last told.
    pub(super) fn seek_back(&mut self, at: usize) {
        if self.consumers[at].waits() {
            return;
        }
        let topic = self.consumers[at].topic.id;
        let (indices, many): (Vec<i32>, _) =
            (self.consumers[at].at.keys().copied().collect(), self.consumers[at].at.len());
        let index = indices[self.chance.index(many)];
        let Some(id) = self.partition_of(topic, index) else { return };
        let start = self.ledger.floor(id).start;
        let consumer = &mut self.consumers[at];
        consumer.at.insert(index, start);
        consumer.moved.push(index);
    }

    fn connect(&mut self) -> Link {
        let shard = self.chance.index(self.world.shards.len());
        let conn = self.net(shard).open();
        Link { shard, conn, correlation: 0 }
    }

    /// Some connection breaks.
    pub(super) fn break_connection(&mut self) {
        let links = self.producers.iter().map(|producer| producer.link);
        let links: Vec<Link> = links.chain(self.consumers.iter().map(|consumer| consumer.link)).flatten().collect();
        if links.is_empty() {
            return;
        }
        let link = *self.chance.pick(&links);
        talk(|| format!("{link:?} breaks"));
        self.net(link.shard).reset(link.conn);
        self.summary.resets += 1;
    }

    /// Every connection is gone with the broker.
    pub(super) fn hang_up_all(&mut self) {
        for producer in &mut self.producers {
            producer.hung_up();
        }
        for consumer in &mut self.consumers {
            consumer.hung_up();
        }
    }

    /// A batch for a partition, told to the ledger.
    pub(super) fn new_batch(&mut self, partition: PartitionId, stamp: Stamp) -> BatchId {
        let id = self.ledger.next_batch();
        let mut builder = BatchBuilder::new();
        let budget = self.chance.between(1, self.world.plan.batch_bytes as u64);
        let records = self.chance.between(1, 3);
        for record in 0..records {
            let mut value = (id as u64).to_le_bytes().to_vec();
            let len = 8 + usize::try_from(budget / records).expect("small");
            value.resize(len, u8::try_from(record + 1).expect("few"));
            builder.append(time_of_record(self.world.now.wall, id as u64, record), None, Some(&value), &[]);
        }
        let bytes = builder.finish(stamp, &sums()).to_vec();
        let producer = (stamp.id >= 0).then_some((stamp.id, stamp.epoch, stamp.sequence));
        self.summary.sent += 1;
        self.ledger.send(partition, bytes, records.cast_signed(), producer)
    }

    /// Some producer sends what it has to send.
    pub(super) fn produce(&mut self) -> Result<(), String> {
        let at = self.chance.index(self.producers.len());
        self.take_produced(at)?;
        if self.producers[at].link.is_none() {
            self.reconnect(at);
        }
        if self.producers[at].flights.len() >= 5 {
            return Ok(());
        }
        self.raise_epoch(at);
        let retry = !self.producers[at].stuck.is_empty();
        let parts = if retry { self.stuck_parts(at) } else { self.new_parts(at) };
        if parts.is_empty() {
            return Ok(());
        }
        let version = *self.chance.pick(&[3, 7, 9, 12, 13]);
        self.producers[at].flights.push_back(Flight {
            correlation: 0,
            version,
            parts,
            floors: Vec::new(),
            sent: false,
        });
        self.send_flights(at);
        Ok(())
    }

    /// Now and then a producer of which nothing is on its way raises its epoch, as one does after a timeout, and counts from 0.
    fn raise_epoch(&mut self, at: usize) {
        let due = self.ledger.next_batch() % 8 == 5;
        let producer = &mut self.producers[at];
        if due && producer.id >= 0 && producer.flights.is_empty() && producer.stuck.is_empty() {
            producer.epoch += 1;
            producer.next.clear();
        }
    }

    fn reconnect(&mut self, at: usize) {
        let link = self.connect();
        self.producers[at].link = Some(link);
        self.send_flights(at);
    }

    /// Batches that were refused before, one of each partition at a time.
    fn stuck_parts(&mut self, at: usize) -> Vec<(TopicName, i32, BatchId)> {
        let producer = &mut self.producers[at];
        if !producer.flights.is_empty() {
            return Vec::new();
        }
        let mut parts = Vec::new();
        for queue in producer.stuck.values_mut() {
            parts.extend(queue.pop_front());
        }
        producer.stuck.retain(|_, queue| !queue.is_empty());
        self.summary.resent += parts.len() as u64;
        parts
    }

    fn new_parts(&mut self, at: usize) -> Vec<(TopicName, i32, BatchId)> {
        let topics = self.topics();
        let mut parts = Vec::new();
        for entry in &topics {
            for (index, partition) in entry.partitions.iter().enumerate() {
                if parts.len() >= 3 || !self.chance.odds(1, 3) {
                    continue;
                }
                let unsure = self.producers[at].id >= 0 && !self.producers[at].proven.contains(&partition.id);
                if unsure && self.has_in_flight(at, partition.id) {
                    continue;
                }
                let producer = &mut self.producers[at];
                let stamp = if producer.id < 0 {
                    Stamp::NONE
                } else {
                    let sequence = *producer.next.entry(partition.id).or_default();
                    Stamp { id: producer.id, epoch: producer.epoch, sequence, transactional: false }
                };
                let batch = self.new_batch(partition.id, stamp);
                if stamp.id >= 0 {
                    let count = i32::try_from(self.ledger.sent[batch].count).expect("few records");
                    self.producers[at].next.insert(partition.id, stamp.sequence + count);
                }
                parts.push((TopicName::of(entry), i32::try_from(index).expect("few partitions"), batch));
            }
        }
        parts
    }

    fn has_in_flight(&self, at: usize, partition: PartitionId) -> bool {
        let mut parts = self.producers[at].flights.iter().flat_map(|flight| &flight.parts);
        parts.any(|(_, _, batch)| self.ledger.sent[*batch].partition == partition)
            || self.producers[at].stuck.contains_key(&partition)
    }

    /// Writes every request that does not lie on the connection yet.
    fn send_flights(&mut self, at: usize) {
        let Some(mut link) = self.producers[at].link else { return };
        let acks = self.producers[at].acks;
        let mut bytes = Vec::new();
        for flight in self.producers[at].flights.iter_mut().filter(|flight| !flight.sent) {
            link.correlation += 1;
            flight.correlation = link.correlation;
            flight.sent = true;
            let floor =
                |(_, _, batch): &(TopicName, i32, BatchId)| self.ledger.floor(self.ledger.sent[*batch].partition);
            flight.floors = flight.parts.iter().map(floor).collect();
            for (_, _, batch) in &flight.parts {
                let sent = &mut self.ledger.sent[*batch];
                if sent.fate == Fate::Gone {
                    sent.fate = Fate::Open;
                }
            }
            let batches: Vec<(TopicName, i32, &[u8])> = flight
                .parts
                .iter()
                .map(|(topic, index, batch)| (topic.clone(), *index, &self.ledger.sent[*batch].bytes[..]))
                .collect();
            talk(|| format!("producer {at} sends {flight:?} on {link:?}"));
            bytes.extend(wire::produce(flight.version, flight.correlation, acks, &batches));
        }
        if acks == 0 {
            self.producers[at].flights.clear();
        }
        self.producers[at].link = Some(link);
        self.net(link.shard).write(link.conn, &bytes);
    }

    /// A producer reads its answers.
    fn take_produced(&mut self, at: usize) -> Result<bool, String> {
        let mut any = false;
        while let Some(link) = self.producers[at].link {
            let Some(response) = self.net(link.shard).response(link.conn) else {
                if self.net(link.shard).is_over(link.conn) {
                    any = true;
                    self.net(link.shard).leave(link.conn);
                    self.producers[at].hung_up();
                    self.summary.resent += self.producers[at].flights.len() as u64;
                }
                break;
            };
            any = true;
            self.world.note((sums().crc64)(0, &response));
            let flight = self.producers[at].flights.pop_front().ok_or("an answer to no Produce")?;
            self.produced(at, &flight, &response)?;
        }
        Ok(any)
    }

    fn produced(&mut self, at: usize, flight: &Flight, response: &[u8]) -> Result<(), String> {
        let response: ProduceResponse<'_> = wire::read(response, ApiKey::Produce, flight.version, flight.correlation)?;
        let mut answers = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        for (part, floor) in flight.parts.iter().zip(&flight.floors) {
            let answer = answers.next().ok_or("a partition of a Produce is not answered")?;
            if answer.index != part.1 {
                return Err(format!("partition {} is answered for {}", answer.index, part.1));
            }
            let told = (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset);
            self.one_produced(at, part, answer.error_code, told, *floor)
                .map_err(|error| format!("producer {at}: {error}"))?;
        }
        Ok(())
    }

    fn one_produced(
        &mut self,
        at: usize,
        part: &(TopicName, i32, BatchId),
        code: ErrorCode,
        (base, append_time, start): (i64, i64, i64),
        floor: Floor,
    ) -> Result<(), String> {
        let batch = part.2;
        let partition = self.ledger.sent[batch].partition;
        talk(|| format!("producer {at} hears of batch {batch} of partition {partition}: {code:?} {base}"));
        let exists = self.ledger.parts.contains_key(&partition);
        let idempotent = self.producers[at].id >= 0;
        if code == ErrorCode::NONE {
            self.summary.acked += 1;
            self.producers[at].proven.insert(partition);
            self.ledger.acked(batch, base, append_time)?;
            return self.ledger.told_ends(partition, start, -1, floor);
        }
        let right = match code {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => !floor.heard_of,
            ErrorCode::KAFKA_STORAGE_ERROR => self.may_fail(partition) || self.faulty,
            ErrorCode::POLICY_VIOLATION => {
                self.summary.full += 1;
                true
            }
            // One before it was refused and will be tried again.
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => {
                self.producers[at].stuck.contains_key(&partition) || self.ledger.harmed
            }
            ErrorCode::NOT_LEADER_OR_FOLLOWER => self.ledger.parts.get(&partition).is_some_and(|part| part.moves),
            _ => false,
        };
        if !right && exists {
            return Err(format!("batch {batch} of partition {partition} is refused: {code:?}"));
        }
        if !exists {
            self.ledger.sent[batch].fate = Fate::Gone;
            return Ok(());
        }
        // What was sent more than once may have been stored by another time.
        if !idempotent && code != ErrorCode::KAFKA_STORAGE_ERROR && self.ledger.sent[batch].fate == Fate::Open {
            self.ledger.sent[batch].fate = Fate::Gone;
        }
        if idempotent && self.ledger.harmed && code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER {
            // What the broker knew of it is damaged: it begins anew.
            self.begin_anew(at);
        } else if idempotent {
            let queue = self.producers[at].stuck.entry(partition).or_default();
            let place = queue.partition_point(|(_, _, other)| *other < batch);
            queue.insert(place, part.clone());
        }
        Ok(())
    }

    /// A producer takes a new id.
    fn begin_anew(&mut self, at: usize) {
        let producer = &mut self.producers[at];
        producer.id += 100;
        producer.epoch = 0;
        producer.next.clear();
        producer.proven.clear();
        producer.stuck.clear();
    }

    /// Some consumer asks for more.
    pub(super) fn consume(&mut self) -> Result<(), String> {
        let at = self.chance.index(self.consumers.len());
        self.consume_of(at)
    }

    /// A consumer asks for more, if it waits for nothing.
    pub(super) fn consume_of(&mut self, at: usize) -> Result<(), String> {
        self.take_consumed(at)?;
        if self.consumers[at].waits() {
            return Ok(());
        }
        let topics = self.all_topics();
        let topic = self.consumers[at].topic.id;
        if !topics.iter().any(|entry| entry.id == topic) {
            // Its topic is gone: it follows another.
            let entry = self.chance.pick(&topics).clone();
            if let Some(link) = self.consumers[at].link {
                self.net(link.shard).leave(link.conn);
            }
            self.consumers[at] = self.consumer_of(&entry);
        }
        self.ask_more(at);
        Ok(())
    }

    /// The broker is at rest and nothing moves: a Fetch that waits for any record, and for which some is durable, should have
    /// been answered, long before its time is up.
    ///
    /// # Errors
    /// The consumer that waits.
    pub(super) fn nobody_waits_in_vain(&self) -> Result<(), String> {
        // Where a shard has no room for all of them to wait, some hear of records on it only when their time is up.
        let room = self.weather.limits.waiting_reads_max >= self.consumers.len();
        if self.faulty || self.ledger.harmed || !room {
            return Ok(());
        }
        for (number, consumer) in self.consumers.iter().enumerate() {
            let Waits::Fetch { at, min_bytes: ..=1, .. } = &consumer.waits else { continue };
            // A partition that some shard had not heard of when it was asked for, or that moves, is asked for again.
            for (index, (offset, _)) in at.iter().filter(|(_, (_, floor))| floor.heard_of) {
                let id = self.partition_of(consumer.topic.id, *index).filter(|id| !self.is_spread(*id));
                let part = id.and_then(|id| self.ledger.parts.get(&id)).filter(|part| part.heard_of);
                let there = part.and_then(|part| part.known.range(*offset..).next());
                if let Some((base, batch)) = there {
                    return Err(format!("consumer {number} waits at {offset} of {id:?}, batch {batch} is at {base}"));
                }
            }
        }
        Ok(())
    }

    /// Whether every consumer has read all there is, where it can be read.
    pub(super) fn consumers_at_end(&self) -> bool {
        self.consumers.iter().all(|consumer| {
            consumer.at.iter().all(|(index, at)| {
                let id = self.partition_of(consumer.topic.id, *index);
                let part = id.and_then(|id| self.ledger.parts.get(&id));
                part.is_none_or(|part| *at >= part.high) || id.is_some_and(|id| self.may_fail(id))
            })
        })
    }

    fn ask_more(&mut self, at: usize) {
        let mut link = match self.consumers[at].link {
            Some(link) => link,
            None => self.connect(),
        };
        link.correlation += 1;
        let correlation = link.correlation;
        let topic = self.consumers[at].topic.id;
        let floor = |index: &i32| self.partition_of(topic, *index).map_or(Floor::default(), |id| self.ledger.floor(id));
        let floors: BTreeMap<i32, Floor> = self.consumers[at].at.keys().map(|index| (*index, floor(index))).collect();
        let consumer = &mut self.consumers[at];
        consumer.link = Some(link);
        let bytes = if self.chance.odds(1, 20) {
            consumer.waits = Waits::Word { correlation };
            wire::versions(correlation)
        } else if !consumer.lost.is_empty() || self.chance.odds(1, 12) {
            let version = *self.chance.pick(&[1, 6, 7]);
            let latest = consumer.lost.is_empty() && self.chance.odds(1, 2);
            let asked: Vec<(i32, i64)> =
                consumer.at.keys().map(|index| (*index, if latest { -1 } else { -2 })).collect();
            consumer.waits = Waits::Ends { version, correlation, latest, floors };
            wire::list_offsets(version, correlation, &consumer.topic, &asked)
        } else {
            let incremental = consumer.session > 0;
            let epoch = if self.chance.odds(1, 2) { -1 } else { self.epoch };
            let moved: BTreeSet<i32> = std::mem::take(&mut consumer.moved).into_iter().collect();
            let named: BTreeSet<i32> = if incremental { moved } else { consumer.at.keys().copied().collect() };
            let fetch = Fetch {
                session: consumer.session,
                session_epoch: if incremental {
                    consumer.session_epoch
                } else if consumer.in_sessions {
                    0
                } else {
                    -1
                },
                max_wait_ms: *self.chance.pick(&[0, 0, 100, 1000]),
                min_bytes: *self.chance.pick(&[0, 1, 1, 5000]),
                max_bytes: *self.chance.pick(&[1, 4000, 8 << 20]),
                partitions: named.iter().map(|index| (*index, consumer.at[index], epoch)).collect(),
                partition_bytes: *self.chance.pick(&[1, 3000, 1 << 20]),
                forgotten: Vec::new(),
            };
            let from = consumer.at.iter().map(|(index, at)| (*index, (*at, floors[index]))).collect();
            let (version, min_bytes) = (consumer.version, fetch.min_bytes);
            consumer.waits = Waits::Fetch { version, correlation, at: from, incremental, min_bytes };
            talk(|| format!("consumer {at} on {link:?} asks {fetch:?}"));
            wire::fetch(consumer.version, correlation, &consumer.topic, &fetch)
        };
        self.net(link.shard).write(link.conn, &bytes);
    }

    fn take_consumed(&mut self, at: usize) -> Result<bool, String> {
        let Some(link) = self.consumers[at].link else { return Ok(false) };
        let Some(response) = self.net(link.shard).response(link.conn) else {
            let over = self.net(link.shard).is_over(link.conn);
            if over {
                self.net(link.shard).leave(link.conn);
                self.consumers[at].hung_up();
            }
            return Ok(over);
        };
        self.world.note((sums().crc64)(0, &response));
        let waits = std::mem::replace(&mut self.consumers[at].waits, Waits::Nothing);
        let result = match waits {
            Waits::Nothing => Err("an answer to nothing".into()),
            Waits::Fetch { version, correlation, at: from, incremental, .. } => {
                self.fetched(at, version, correlation, &from, incremental, &response)
            }
            Waits::Ends { version, correlation, latest, floors } => {
                self.ends(at, version, correlation, latest, &floors, &response)
            }
            Waits::Word { correlation } => {
                let right = response == [&correlation.to_be_bytes()[..], b"\0word"].concat();
                if right { Ok(()) } else { Err(format!("{response:?} instead of the control plane's word")) }
            }
        };
        result.map_err(|error| format!("consumer {at} of {:?}: {error}", self.consumers[at].topic.name))?;
        Ok(true)
    }

    fn fetched(
        &mut self,
        at: usize,
        version: i16,
        correlation: i32,
        from: &BTreeMap<i32, (i64, Floor)>,
        incremental: bool,
        response: &[u8],
    ) -> Result<(), String> {
        let response: FetchResponse<'_> = wire::read(response, ApiKey::Fetch, version, correlation)?;
        talk(|| format!("consumer {at} is told {response:?}"));
        let consumer = &mut self.consumers[at];
        match response.error_code {
            ErrorCode::NONE => {}
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND | ErrorCode::INVALID_FETCH_SESSION_EPOCH if incremental => {
                consumer.session = 0;
                return Ok(());
            }
            other => return Err(format!("refused: {other:?}")),
        }
        if response.session_id != 0 && response.session_id == consumer.session {
            consumer.session_epoch += 1;
        } else {
            consumer.session = response.session_id;
            consumer.session_epoch = 1;
            consumer.told.clear();
        }
        self.summary.sessions += u64::from(incremental);
        let topic = consumer.topic.id;
        let strange =
            response.responses.iter().find(|answer| answer.topic != consumer.topic.name && answer.topic_id != topic);
        if let Some(strange) = strange {
            return Err(format!("told of topic {:?} {:?}", strange.topic, strange.topic_id));
        }
        let mut told = BTreeSet::new();
        for data in response.responses.iter().flat_map(|topic| &topic.partitions) {
            let index = data.partition_index;
            if !told.insert(index) {
                return Err(format!("partition {index} is told twice"));
            }
            let (offset, floor) = *from.get(&index).ok_or_else(|| format!("partition {index} was not asked for"))?;
            let records = data.records.unwrap_or_default();
            let ends = (data.log_start_offset, data.high_watermark, floor);
            let next = self.one_fetched(at, topic, index, offset, data.error_code, ends, records)?;
            if data.error_code == ErrorCode::NONE {
                self.consumers[at].told.insert(index, (data.log_start_offset, data.high_watermark));
            } else {
                self.consumers[at].told.remove(&index);
            }
            if next > offset {
                self.summary.fetches += 1;
                let consumer = &mut self.consumers[at];
                consumer.at.insert(index, next);
                consumer.moved.push(index);
            }
        }
        if !incremental && told.len() != from.len() {
            return Err(format!("{} of {} partitions are answered", told.len(), from.len()));
        }
        self.not_told(at, from, &told)
    }

    /// What an answer leaves out stands as the session told it last.
    fn not_told(&self, at: usize, from: &BTreeMap<i32, (i64, Floor)>, told: &BTreeSet<i32>) -> Result<(), String> {
        for (index, (_, floor)) in from.iter().filter(|(index, _)| !told.contains(index)) {
            let Some((start, high)) = self.consumers[at].told.get(index) else { continue };
            if *start < floor.start || *high < floor.high {
                return Err(format!(
                    "partition {index} is left out, told were {start} to {high}, it is {} to {} at least",
                    floor.start, floor.high
                ));
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one answer")]
    fn one_fetched(
        &mut self,
        at: usize,
        topic: TopicId,
        index: i32,
        offset: i64,
        code: ErrorCode,
        (start, high, floor): (i64, i64, Floor),
        records: &[u8],
    ) -> Result<i64, String> {
        let partition = self.partition_of(topic, index);
        let part = partition.and_then(|id| self.ledger.parts.get(&id).map(|part| (id, part)));
        let Some((id, part)) = part else { return Ok(offset) };
        let right = match code {
            ErrorCode::NONE => {
                self.ledger.told_ends(id, start, high, floor)?;
                return self.ledger.served(id, offset, records, high);
            }
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => !floor.heard_of || self.may_fail(id),
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                self.consumers[at].lost.push(index);
                offset < part.asked || part.retained || part.open_moves > 0
            }
            ErrorCode::KAFKA_STORAGE_ERROR => self.faulty || self.ledger.harmed || self.may_fail(id),
            ErrorCode::CORRUPT_MESSAGE => self.ledger.harmed || self.faulty,
            ErrorCode::NOT_LEADER_OR_FOLLOWER => part.moves,
            // Of another topic generation on another shard, or of a life before.
            ErrorCode::FENCED_LEADER_EPOCH | ErrorCode::UNKNOWN_LEADER_EPOCH => false,
            _ => false,
        };
        if right {
            Ok(offset)
        } else {
            Err(format!("partition {id}: Fetch at {offset} is refused: {code:?}, known {part:?}"))
        }
    }

    fn ends(
        &mut self,
        at: usize,
        version: i16,
        correlation: i32,
        latest: bool,
        floors: &BTreeMap<i32, Floor>,
        response: &[u8],
    ) -> Result<(), String> {
        let response: ListOffsetsResponse<'_> = wire::read(response, ApiKey::ListOffsets, version, correlation)?;
        let topic = self.consumers[at].topic.id;
        let lost = std::mem::take(&mut self.consumers[at].lost);
        for data in response.topics.iter().flat_map(|topic| &topic.partitions) {
            let index = data.partition_index;
            let Some(id) = self.partition_of(topic, index).filter(|id| self.ledger.parts.contains_key(id)) else {
                continue;
            };
            let floor = floors.get(&index).copied().unwrap_or_default();
            match data.error_code {
                ErrorCode::NONE => {}
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION if !floor.heard_of => {
                    self.consumers[at].lost.push(index);
                    continue;
                }
                ErrorCode::NOT_LEADER_OR_FOLLOWER if self.ledger.parts[&id].moves => {
                    if lost.contains(&index) {
                        self.consumers[at].lost.push(index);
                    }
                    continue;
                }
                ErrorCode::KAFKA_STORAGE_ERROR | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION if self.may_fail(id) => continue,
                other => return Err(format!("partition {id}: ListOffsets is refused: {other:?}")),
            }
            if latest {
                self.ledger.told_ends(id, -1, data.offset, floor)?;
                continue;
            }
            self.ledger.told_ends(id, data.offset, -1, floor)?;
            if lost.contains(&index) {
                let position = self.consumers[at].at.entry(index).or_default();
                *position = data.offset.max(*position);
                self.consumers[at].moved.push(index);
            }
        }
        Ok(())
    }

    /// All clients read their answers. Whether any did.
    pub(super) fn listen(&mut self) -> Result<bool, String> {
        let mut any = false;
        for at in 0..self.producers.len() {
            any |= self.take_produced(at)?;
            let accepts = !self.stopping;
            if accepts && self.producers[at].link.is_none() && !self.producers[at].flights.is_empty() {
                self.reconnect(at);
                any = true;
            }
        }
        for at in 0..self.consumers.len() {
            any |= self.take_consumed(at)?;
        }
        Ok(any)
    }

    /// Every client reads what is there for it.
    pub(super) fn look_around(&mut self) -> Result<(), String> {
        self.listen().map(|_| ())
    }
}

impl Producer {
    /// The connection is gone. An idempotent producer sends everything again, any other gives up.
    fn hung_up(&mut self) {
        self.link = None;
        if self.id < 0 {
            self.flights.clear();
        }
        for flight in &mut self.flights {
            flight.sent = false;
        }
    }
}

impl Consumer {
    fn hung_up(&mut self) {
        self.link = None;
        if let Waits::Fetch { .. } = self.waits {
            // Whether the session has heard of what moved nobody knows.
            self.session = 0;
        }
        self.waits = Waits::Nothing;
    }
}
