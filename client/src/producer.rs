//! The producer as a machine: collects records into batches, numbers them, keeps their order through retries.
//!
//! Records of a partition leave in the order they were pushed, and with an idempotent producer each is stored once, whatever
//! is lost and sent again. The rules that give this:
//!
//! * A batch gets its sequence when it is sent; it keeps it for ever once it *may* have been stored.
//! * Where a batch of a partition must be sent again, nothing new of that partition is sent until all that flies is
//!   answered; then everything goes again from the front, in order.
//! * Where a sequence is lost for good (a batch that may have been stored was given up), a new producer id is taken before
//!   anything else is sent.

mod slot;
#[cfg(test)]
mod tests;

use base::{Checksums, Mono, WallMs};
use protocol::batch::{BatchBuilder, Codec, Header, RECORDS, record_len};
use protocol::error::ErrorCode;
use slot::{Batch, SlotState};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::codec::Compressor;

/// Buffers kept for reuse; more are freed. 2 × (5 in flight + 1 open) for a handful of partitions.
const SPARE_MAX: usize = 64;

/// Which replicas have a record when it counts as sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// None need to answer; losses go unnoticed.
    None,
    /// The leader.
    Leader,
    /// All in-sync replicas; the producer is idempotent.
    #[default]
    All,
}

impl Acks {
    /// As it goes over the wire.
    #[must_use]
    pub const fn wire(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// How a producer behaves.
#[derive(Clone, Debug)]
pub struct Limits {
    /// When a record counts as sent.
    pub acks: Acks,
    /// How batches are compressed.
    pub codec: Codec,
    /// A batch is closed before it would pass this many bytes, uncompressed.
    pub batch_bytes_max: usize,
    /// How long a batch that is not full waits for more.
    pub linger_ms: u64,
    /// The batches of one request have at most this many bytes, or it carries one batch.
    pub request_bytes_max: usize,
    /// Requests in flight per broker. At most 5 for an idempotent producer: brokers remember five batches.
    pub requests_in_flight_max: usize,
    /// All records that are not yet answered have at most this many bytes.
    pub memory_bytes_max: usize,
    /// A larger record is refused.
    pub record_bytes_max: usize,
    /// Wait before a failed batch is sent again.
    pub retry_backoff_ms: u64,
    /// A batch that is not stored after this long is given up.
    pub delivery_ms_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            codec: Codec::None,
            batch_bytes_max: 128 << 10,
            linger_ms: 5,
            request_bytes_max: 1 << 20,
            requests_in_flight_max: 5,
            memory_bytes_max: 32 << 20,
            // Kafka's default max.message.bytes is just above 1 MiB.
            record_bytes_max: 1 << 20,
            retry_backoff_ms: 100,
            delivery_ms_max: 120_000,
        }
    }
}

/// A partition the producer knows, by its place in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// What an application sends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// Milliseconds since 1970; the time of the push when absent.
    pub timestamp: Option<i64>,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value, or null.
    pub value: Option<&'a [u8]>,
    /// Headers in order.
    pub headers: &'a [Header<'a>],
}

/// Why a record was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too much is unanswered: come back when some of it is delivered.
    Full,
    /// Larger than [`Limits::record_bytes_max`]; carries its bytes.
    TooLarge(usize),
}

/// What a push did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The record joined a batch that waits.
    Joined,
    /// It began a batch: a new deadline.
    Began,
    /// It began a batch because the one before it is full: something to send.
    Filled,
}

/// What came of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The partition.
    pub slot: Slot,
    /// Which record of this partition, in the order of pushes from 0, is the batch's first.
    pub first: u64,
    /// How many records.
    pub count: u32,
    /// When the first record was pushed.
    pub created: Mono,
    /// The offset of the first record (−1 where the broker does not tell), or the error.
    pub outcome: Result<i64, ErrorCode>,
}

/// One batch in a request.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where it belongs.
    pub slot: Slot,
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The batch, complete.
    pub batch: Arc<Vec<u8>>,
}

/// A Produce request to send.
#[derive(Clone, Debug)]
pub struct Request {
    /// To name it in [`Event::Answered`], [`Event::Lost`] and [`Event::NotSent`].
    pub token: u64,
    /// The broker it goes to.
    pub broker: i32,
    /// When it counts as done. With [`Acks::None`] report it as answered (no parts) once it is written.
    pub acks: Acks,
    /// The batches, one per partition, those of a topic together.
    pub parts: Vec<Part>,
}

/// What the world must do.
#[derive(Debug)]
pub enum Effect {
    /// Send this.
    Send(Request),
    /// Ask any broker for a producer id.
    WantProducerId,
    /// Refresh metadata: a leader has moved or is unknown.
    WantMetadata,
    /// Tell the application.
    Delivered(Delivery),
}

/// The broker's word on one batch of a request.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The partition.
    pub slot: Slot,
    /// The error or none.
    pub code: ErrorCode,
    /// Offset of the first record.
    pub base_offset: i64,
}

/// What happened in the world.
#[derive(Debug)]
pub enum Event<'a> {
    /// A producer id was given.
    ProducerId {
        /// The id.
        id: i64,
        /// Its epoch.
        epoch: i16,
    },
    /// None was given; the machine asks again after its backoff.
    NoProducerId,
    /// A request was answered.
    Answered {
        /// Which.
        token: u64,
        /// The answers, in any order.
        answers: &'a [Answer],
    },
    /// The connection broke, or the time was up, after the request left: it may have been stored.
    Lost {
        /// Which.
        token: u64,
    },
    /// The request never left.
    NotSent {
        /// Which.
        token: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    /// Not idempotent.
    Unneeded,
    Wanted {
        not_before: Mono,
    },
    Asked,
    Known {
        id: i64,
        epoch: i16,
    },
}

#[derive(Debug)]
struct InFlight {
    broker: i32,
    slots: Vec<Slot>,
}

/// The producer. Lives wherever its driver puts it; knows nothing of sockets and clocks.
#[derive(Debug)]
pub struct Machine {
    limits: Limits,
    sums: Checksums,
    compressor: Compressor,
    identity: Identity,
    /// A sequence was lost: take a new identity once nothing flies.
    renew: bool,
    slots: Vec<SlotState>,
    requests: BTreeMap<u64, InFlight>,
    next_token: u64,
    /// Where the next request's search for batches begins, so that every partition has its turn.
    turn: usize,
    bytes: usize,
    records: u64,
    flushing: bool,
    spare: Vec<BatchBuilder>,
}

impl Machine {
    /// A producer without partitions.
    ///
    /// # Errors
    /// When the compressor cannot be set up.
    pub fn new(mut limits: Limits, sums: Checksums) -> std::io::Result<Self> {
        let idempotent = limits.acks == Acks::All;
        // Without sequences a second batch in flight could overtake a first that is sent again: see `SlotState::may_send`.
        limits.requests_in_flight_max = limits.requests_in_flight_max.clamp(1, 5);
        let compressor = Compressor::new(limits.codec)?;
        Ok(Self {
            limits,
            sums,
            compressor,
            identity: if idempotent { Identity::Wanted { not_before: Mono(0) } } else { Identity::Unneeded },
            renew: false,
            slots: Vec::new(),
            requests: BTreeMap::new(),
            next_token: 0,
            turn: 0,
            bytes: 0,
            records: 0,
            flushing: false,
            spare: Vec::new(),
        })
    }

    /// Makes a partition known.
    ///
    /// # Panics
    /// Beyond 2³² partitions.
    pub fn add(&mut self, topic: Arc<str>, partition: i32) -> Slot {
        let slot = Slot(u32::try_from(self.slots.len()).expect("fewer than 2^32 partitions"));
        self.slots.push(SlotState::new(topic, partition));
        slot
    }

    /// Who leads a partition, as far as metadata tells.
    pub fn set_leader(&mut self, slot: Slot, leader: Option<i32>) {
        self.slots[slot.0 as usize].leader = leader;
    }

    /// How it behaves.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Records that were pushed and are not yet delivered or failed.
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        self.records
    }

    /// The bytes they take.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a record.
    ///
    /// # Errors
    /// [`Refusal`]; the record was not taken.
    pub fn push(&mut self, now: Mono, wall: WallMs, slot: Slot, record: &Record<'_>) -> Result<Pushed, Refusal> {
        let len = record_len(record.key, record.value, record.headers);
        if len > self.limits.record_bytes_max {
            return Err(Refusal::TooLarge(len));
        }
        let open = self.slots[slot.0 as usize].open_len();
        let full = open.is_some_and(|open| open + len > self.limits.batch_bytes_max);
        let cost = if full || open.is_none() { RECORDS + len } else { len };
        // One record always fits, or a small budget would never take it.
        if self.bytes > 0 && self.bytes + cost > self.limits.memory_bytes_max {
            return Err(Refusal::Full);
        }
        if full {
            self.close(slot);
        }
        let timestamp = record.timestamp.unwrap_or(wall.0);
        let state = &mut self.slots[slot.0 as usize];
        let spare = &mut self.spare;
        let before = state.open_len().unwrap_or(0);
        let builder = state.open(now, || spare.pop().unwrap_or_default());
        builder.append(timestamp, record.key, record.value, record.headers);
        let after = builder.len();
        state.pushed += 1;
        self.bytes += after - before;
        self.records += 1;
        Ok(match open {
            _ if full => Pushed::Filled,
            None => Pushed::Began,
            Some(_) => Pushed::Joined,
        })
    }

    /// Sends open batches without waiting for more, until nothing is outstanding.
    pub const fn flush(&mut self) {
        self.flushing = self.records > 0;
    }

    /// Does what is due: gives up what is too old, asks for what is missing, fills requests.
    pub fn poll(&mut self, now: Mono, out: &mut Vec<Effect>) {
        self.give_up(now, out);
        match self.identity {
            Identity::Wanted { not_before } => {
                // Asked for early, so that the first batch does not wait for it.
                if now >= not_before {
                    self.identity = Identity::Asked;
                    out.push(Effect::WantProducerId);
                }
                return;
            }
            Identity::Asked => return,
            Identity::Known { .. } if self.renew => {
                if self.requests.is_empty() {
                    self.renew = false;
                    self.identity = Identity::Asked;
                    out.push(Effect::WantProducerId);
                }
                return;
            }
            Identity::Known { .. } | Identity::Unneeded => {}
        }
        let mut leaderless = false;
        let mut brokers: Vec<i32> = Vec::new();
        for index in 0..self.slots.len() {
            if !self.due(index, now) {
                continue;
            }
            match self.slots[index].leader {
                None => leaderless = true,
                Some(broker) if !brokers.contains(&broker) => brokers.push(broker),
                Some(_) => {}
            }
        }
        if leaderless {
            out.push(Effect::WantMetadata);
        }
        for broker in brokers {
            while self.in_flight(broker) < self.limits.requests_in_flight_max {
                let Some(request) = self.fill(broker, now) else { break };
                out.push(Effect::Send(request));
            }
        }
    }

    /// Until when [`Machine::poll`] has nothing to do, unless something happens before; `None` without end.
    #[must_use]
    pub fn next_deadline(&self, now: Mono) -> Option<Mono> {
        let waiting = match self.identity {
            Identity::Wanted { not_before } => Some(not_before),
            Identity::Asked | Identity::Known { .. } | Identity::Unneeded => None,
        };
        let slots = self.slots.iter().filter_map(|slot| slot.deadline(&self.limits, now));
        waiting.into_iter().chain(slots).min()
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Mono, event: &Event<'_>, out: &mut Vec<Effect>) {
        match *event {
            Event::ProducerId { id, epoch } => self.identify(id, epoch, out),
            Event::NoProducerId => {
                let not_before = now.plus_ms(self.limits.retry_backoff_ms);
                self.identity = Identity::Wanted { not_before };
            }
            Event::Answered { token, answers } => {
                let Some(request) = self.requests.remove(&token) else { return };
                for slot in request.slots {
                    let answer = answers.iter().find(|answer| answer.slot == slot);
                    match (answer, self.limits.acks) {
                        (Some(answer), _) => self.settle(now, slot, token, answer.code, answer.base_offset, false, out),
                        (None, Acks::None) => self.settle(now, slot, token, ErrorCode::NONE, -1, false, out),
                        // The broker forgot a partition: nothing is known of it.
                        (None, _) => self.settle(now, slot, token, ErrorCode::NETWORK_EXCEPTION, -1, true, out),
                    }
                }
            }
            Event::Lost { token } => self.unanswered(now, token, true, out),
            Event::NotSent { token } => self.unanswered(now, token, false, out),
        }
        if self.records == 0 {
            self.flushing = false;
        }
    }

    fn unanswered(&mut self, now: Mono, token: u64, maybe_stored: bool, out: &mut Vec<Effect>) {
        let Some(request) = self.requests.remove(&token) else { return };
        for slot in request.slots {
            self.settle(now, slot, token, ErrorCode::NETWORK_EXCEPTION, -1, maybe_stored, out);
        }
        out.push(Effect::WantMetadata);
    }

    fn in_flight(&self, broker: i32) -> usize {
        self.requests.values().filter(|request| request.broker == broker).count()
    }

    /// Whether a partition has something to send now.
    fn due(&self, index: usize, now: Mono) -> bool {
        let slot = &self.slots[index];
        slot.may_send(&self.limits, now) && (!slot.queue.is_empty() || self.open_due(slot, now))
    }

    fn open_due(&self, slot: &SlotState, now: Mono) -> bool {
        // With half of the memory taken nobody waits for more records.
        let pressed = self.bytes > self.limits.memory_bytes_max / 2;
        slot.open_since().is_some_and(|since| self.flushing || pressed || now >= since.plus_ms(self.limits.linger_ms))
    }

    /// Makes a request of the batches that are due for `broker`.
    fn fill(&mut self, broker: i32, now: Mono) -> Option<Request> {
        let token = self.next_token;
        let mut parts = Vec::new();
        let mut bytes = 0;
        let count = self.slots.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            if self.slots[index].leader != Some(broker) || !self.due(index, now) {
                continue;
            }
            let slot = Slot(u32::try_from(index).expect("slots are counted in u32"));
            if self.slots[index].queue.is_empty() {
                self.close(slot);
            }
            let Some(len) = self.slots[index].queue.front().map(Batch::len) else { continue };
            if !parts.is_empty() && bytes + len > self.limits.request_bytes_max {
                self.turn = index;
                break;
            }
            bytes += len;
            parts.push(self.launch(slot, token));
        }
        if parts.is_empty() {
            return None;
        }
        self.next_token += 1;
        let slots = parts.iter().map(|part: &Part| part.slot).collect();
        self.requests.insert(token, InFlight { broker, slots });
        parts.sort_by(|a, b| a.topic.cmp(&b.topic));
        Some(Request { token, broker, acks: self.limits.acks, parts })
    }

    /// Stamps the first batch of a partition and marks it as flying.
    fn launch(&mut self, slot: Slot, token: u64) -> Part {
        let identity = match self.identity {
            Identity::Known { id, epoch } => Some((id, epoch)),
            Identity::Unneeded | Identity::Wanted { .. } | Identity::Asked => None,
        };
        let state = &mut self.slots[slot.0 as usize];
        let batch = state.launch(token, identity, &self.sums);
        Part { slot, topic: Arc::clone(&state.topic), partition: state.partition, batch }
    }

    /// Closes the open batch of a partition: compresses it and puts it into the queue.
    fn close(&mut self, slot: Slot) {
        let state = &mut self.slots[slot.0 as usize];
        let Some((before, after, builder)) = state.close(&mut self.compressor) else { return };
        self.bytes = self.bytes - before + after;
        if let Some(builder) = builder {
            self.keep(builder);
        }
    }

    fn keep(&mut self, mut builder: BatchBuilder) {
        if self.spare.len() < SPARE_MAX {
            builder.clear();
            self.spare.push(builder);
        }
    }

    fn identify(&mut self, id: i64, epoch: i16, out: &mut Vec<Effect>) {
        self.identity = Identity::Known { id, epoch };
        for index in 0..self.slots.len() {
            // What may be stored under the old identity would be stored twice under the new one.
            let doubtful = self.slots[index].restart();
            for batch in doubtful {
                self.finish(index, batch, Err(ErrorCode::NETWORK_EXCEPTION), out);
            }
        }
    }

    /// What the broker (or its silence) says of the batch of `slot` in request `token`.
    #[expect(clippy::too_many_arguments, reason = "one call per kind of answer, all in this file")]
    fn settle(
        &mut self,
        now: Mono,
        slot: Slot,
        token: u64,
        code: ErrorCode,
        base_offset: i64,
        maybe_stored: bool,
        out: &mut Vec<Effect>,
    ) {
        let index = slot.0 as usize;
        let idempotent = self.identity != Identity::Unneeded;
        let Some((mut batch, alone)) = self.slots[index].land(token) else { return };
        match verdict(code, idempotent, alone) {
            Verdict::Stored => {
                self.slots[index].acked(&batch);
                let offset = if code.is_ok() { base_offset } else { -1 };
                self.finish(index, batch, Ok(offset), out);
            }
            Verdict::Again { metadata, renew } => {
                batch.maybe_stored |= maybe_stored;
                if renew {
                    batch.maybe_stored = false;
                    self.renew = true;
                }
                if metadata {
                    out.push(Effect::WantMetadata);
                }
                let state = &mut self.slots[index];
                state.retry_at = now.plus_ms(self.limits.retry_backoff_ms);
                state.returned.push_back(batch);
            }
            Verdict::Failed => {
                // The broker refused it, so it did not take its sequence: those behind it move up when they are sent again.
                self.slots[index].disturbed = true;
                self.finish(index, batch, Err(code), out);
            }
        }
        self.slots[index].requeue();
    }

    fn give_up(&mut self, now: Mono, out: &mut Vec<Effect>) {
        for index in 0..self.slots.len() {
            while self.slots[index].front_is_older(now, self.limits.delivery_ms_max) {
                let Some(batch) = self.slots[index].queue.pop_front() else { break };
                if batch.maybe_stored && self.identity != Identity::Unneeded {
                    self.renew = true;
                }
                self.finish(index, batch, Err(ErrorCode::REQUEST_TIMED_OUT), out);
            }
            // Only where nothing older is left, and nothing could be sent at all: an open batch ages too.
            let state = &self.slots[index];
            let stale = state.open_since().is_some_and(|since| now >= since.plus_ms(self.limits.delivery_ms_max));
            if stale && state.queue.is_empty() && state.flying.is_empty() && state.returned.is_empty() {
                self.close(Slot(u32::try_from(index).expect("slots are counted in u32")));
                if let Some(batch) = self.slots[index].queue.pop_front() {
                    self.finish(index, batch, Err(ErrorCode::REQUEST_TIMED_OUT), out);
                }
            }
        }
    }

    /// The end of a batch: its room is free, the application is told.
    fn finish(&mut self, index: usize, batch: Batch, outcome: Result<i64, ErrorCode>, out: &mut Vec<Effect>) {
        self.bytes -= batch.len();
        self.records -= u64::from(batch.count);
        out.push(Effect::Delivered(Delivery {
            slot: Slot(u32::try_from(index).expect("slots are counted in u32")),
            first: batch.first,
            count: batch.count,
            created: batch.created,
            outcome,
        }));
        if let Some(buffer) = batch.into_buffer() {
            self.keep(BatchBuilder::from_buffer(buffer));
        }
    }
}

/// What an error code means for a batch.
enum Verdict {
    Stored,
    Again { metadata: bool, renew: bool },
    Failed,
}

/// `alone`: nothing before it in its partition is unanswered or waits to be sent again.
fn verdict(code: ErrorCode, idempotent: bool, alone: bool) -> Verdict {
    match code {
        // A duplicate that is older than what the broker remembers is stored too.
        ErrorCode::NONE | ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Verdict::Stored,
        ErrorCode::NOT_LEADER_OR_FOLLOWER
        | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::LEADER_NOT_AVAILABLE
        | ErrorCode::FENCED_LEADER_EPOCH
        | ErrorCode::UNKNOWN_LEADER_EPOCH
        | ErrorCode::KAFKA_STORAGE_ERROR => Verdict::Again { metadata: true, renew: false },
        // Behind a batch that failed this only says so; at the front the broker has lost what it knew of this producer.
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER if idempotent => Verdict::Again { metadata: false, renew: alone },
        ErrorCode::UNKNOWN_PRODUCER_ID | ErrorCode::INVALID_PRODUCER_EPOCH | ErrorCode::INVALID_PRODUCER_ID_MAPPING
            if idempotent =>
        {
            Verdict::Again { metadata: false, renew: true }
        }
        other if other.retriable() => Verdict::Again { metadata: false, renew: false },
        _ => Verdict::Failed,
    }
}

/// Batches that wait, in order.
type Queue = VecDeque<Batch>;
