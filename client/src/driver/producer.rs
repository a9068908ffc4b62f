//! The producer over TCP: the machine behind a lock, a thread that moves its bytes.

use base::Mono;
use protocol::error::ErrorCode;
use protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::messages::{InitProducerIdRequest, MetadataRequest, ProduceRequest};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::link::{Answer, Heard, Incoming, Links, To};
use super::{Clock, Settings, checksums, until};
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::partitioner::by_key;
use crate::producer::{Delivery, Effect, Event, Limits, Machine, Pushed, Record, Refusal, Slot};
use crate::wire;

/// With nothing to do the thread looks around this often.
const IDLE: Duration = Duration::from_secs(1);

/// How a producer behaves.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// Batching, memory, retries.
    pub limits: Limits,
    /// How long [`Producer::send`] waits for room and [`Producer::topic`] for the topic.
    pub block_max: Duration,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self { limits: Limits::default(), block_max: Duration::from_secs(60) }
    }
}

/// A topic that a producer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic(usize);

/// What came of a batch.
#[derive(Clone, Debug)]
pub struct Report {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Which record of this partition, in the order they were sent from 0, is the first.
    pub first: u64,
    /// How many records.
    pub count: u32,
    /// From the send of the first record to the answer.
    pub took: Duration,
    /// The offset of the first record (−1 where the broker does not tell), or the error.
    pub outcome: std::result::Result<i64, ErrorCode>,
}

type OnReport = Box<dyn FnMut(&Report) + Send>;

#[derive(Debug)]
struct TopicState {
    name: Arc<str>,
    /// By partition number.
    slots: Vec<Slot>,
    code: ErrorCode,
    /// Where records without a key go until a batch is full.
    sticky: usize,
}

#[derive(Debug)]
struct State {
    machine: Machine,
    topics: Vec<TopicState>,
    /// (topic, partition) of each slot.
    names: Vec<(Arc<str>, i32)>,
    /// Deliveries that the machine has told and the caller has not heard of yet: a flush waits for them too.
    unreported: usize,
    /// The first failure since the last flush.
    failure: Option<Error>,
    /// No producer id or no broker: what senders that wait are told when their time is up.
    trouble: Option<String>,
    refresh: bool,
    closing: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Room, a topic, or an end of waiting.
    changed: Condvar,
    /// The thread waits and must be woken when there is something to send.
    asleep: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends records. Shared between threads by reference.
#[derive(Debug)]
pub struct Producer {
    shared: Arc<Shared>,
    waker: Sender<Incoming>,
    thread: Option<JoinHandle<()>>,
    clock: Clock,
    block_max: Duration,
}

impl Producer {
    /// A producer; connects when there is something to do.
    ///
    /// # Errors
    /// When the thread or the compressor cannot be set up.
    pub fn new(settings: Settings, config: ProducerConfig) -> Result<Self> {
        Self::with_reports(settings, config, |_| {})
    }

    /// A producer that calls `on_report` with what came of each batch, in its own thread.
    ///
    /// # Errors
    /// When the thread or the compressor cannot be set up.
    pub fn with_reports(
        settings: Settings,
        config: ProducerConfig,
        on_report: impl FnMut(&Report) + Send + 'static,
    ) -> Result<Self> {
        let clock = Clock::new();
        let invalid = |error: std::io::Error| Error::Invalid(format!("cannot set the producer up: {error}"));
        let machine = Machine::new(config.limits, checksums()).map_err(invalid)?;
        let state = State {
            machine,
            topics: Vec::new(),
            names: Vec::new(),
            unreported: 0,
            failure: None,
            trouble: None,
            refresh: false,
            closing: false,
        };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), asleep: AtomicBool::new(false) });
        let links = Links::new(settings, clock);
        let waker = links.waker();
        let mut io = Io {
            shared: Arc::clone(&shared),
            links,
            clock,
            metadata: Metadata::new(),
            effects: VecDeque::new(),
            scratch: Vec::new(),
            on_report: Box::new(on_report),
        };
        let thread = std::thread::Builder::new().name("producer".into()).spawn(move || io.run()).map_err(invalid)?;
        Ok(Self { shared, waker, thread: Some(thread), clock, block_max: config.block_max })
    }

    /// Makes a topic known; waits until its partitions are. The broker creates it where it is set to.
    ///
    /// # Errors
    /// The topic's error, or [`Error::Timeout`].
    pub fn topic(&self, name: &str) -> Result<Topic> {
        let end = Instant::now() + self.block_max;
        let mut state = self.shared.lock();
        let at = state.topics.iter().position(|topic| *topic.name == *name).unwrap_or_else(|| {
            let name = name.into();
            state.topics.push(TopicState { name, slots: Vec::new(), code: ErrorCode::NONE, sticky: 0 });
            state.topics.len() - 1
        });
        loop {
            let topic = &state.topics[at];
            if !topic.slots.is_empty() {
                return Ok(Topic(at));
            }
            if !topic.code.is_ok() && !topic.code.retriable() {
                return Err(Error::kafka(format!("topic {name}"), topic.code));
            }
            let code = topic.code;
            state.refresh = true;
            let _ = self.waker.send(Incoming::Wake);
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(match state.trouble.take() {
                    Some(trouble) => Error::Invalid(trouble),
                    None if !code.is_ok() => Error::kafka(format!("topic {name}"), code),
                    None => self.timeout(&format!("a question for topic {name}")),
                });
            }
            state = self.wait(state, left);
        }
    }

    /// How many partitions a topic has.
    #[must_use]
    pub fn partitions(&self, topic: Topic) -> u32 {
        u32::try_from(self.shared.lock().topics[topic.0].slots.len()).unwrap_or(u32::MAX)
    }

    /// Sends a record; returns when it is in a batch. Without a partition the key decides, and without a key a batch is
    /// filled before the next partition has its turn. Waits for room.
    ///
    /// # Errors
    /// [`Error::RecordTooLarge`], [`Error::NoPartition`], [`Error::Timeout`] when there is no room for long.
    pub fn send(&self, topic: Topic, partition: Option<i32>, record: &Record<'_>) -> Result<()> {
        let wall = Clock::wall();
        let mut end = None;
        let mut state = self.shared.lock();
        loop {
            let slot = choose(&state.topics[topic.0], partition, record.key)?;
            let result = state.machine.push(self.clock.now(), wall, slot, record);
            match result {
                Ok(pushed) => {
                    if pushed == Pushed::Filled && partition.is_none() && record.key.is_none() {
                        let topic = &mut state.topics[topic.0];
                        topic.sticky = (topic.sticky + 1) % topic.slots.len();
                    }
                    if pushed != Pushed::Joined && self.shared.asleep.load(Ordering::Relaxed) {
                        self.wake();
                    }
                    return Ok(());
                }
                Err(Refusal::TooLarge(bytes)) => {
                    let limit = state.machine.limits().record_bytes_max;
                    return Err(Error::RecordTooLarge { bytes, limit });
                }
                Err(Refusal::Full) => {
                    self.wake();
                    let end = *end.get_or_insert_with(|| Instant::now() + self.block_max);
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(match state.trouble.take() {
                            Some(trouble) => Error::Invalid(trouble),
                            None => self.timeout("room in the producer's memory"),
                        });
                    }
                    state = self.wait(state, left);
                }
            }
        }
    }

    /// Waits until everything that was sent is stored or has failed.
    ///
    /// # Errors
    /// The first failure since the last flush.
    pub fn flush(&self) -> Result<()> {
        let mut state = self.shared.lock();
        state.machine.flush();
        self.wake();
        while state.machine.outstanding() > 0 || state.unreported > 0 {
            state = self.wait(state, IDLE);
            state.machine.flush();
        }
        state.failure.take().map_or(Ok(()), Err)
    }

    /// Records that are not yet stored.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.shared.lock().machine.outstanding()
    }

    fn wake(&self) {
        self.shared.asleep.store(false, Ordering::Relaxed);
        // The thread is gone only while the producer is dropped.
        let _ = self.waker.send(Incoming::Wake);
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>, at_most: Duration) -> MutexGuard<'s, State> {
        self.shared.changed.wait_timeout(state, at_most).unwrap_or_else(PoisonError::into_inner).0
    }

    fn timeout(&self, what: &str) -> Error {
        Error::Timeout { what: what.to_owned(), ms: u64::try_from(self.block_max.as_millis()).unwrap_or(u64::MAX) }
    }
}

impl Drop for Producer {
    /// What was not flushed is given up.
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn choose(topic: &TopicState, partition: Option<i32>, key: Option<&[u8]>) -> Result<Slot> {
    let count = u32::try_from(topic.slots.len()).unwrap_or(u32::MAX);
    let at = match (partition, key) {
        (Some(partition), _) => usize::try_from(partition).unwrap_or(usize::MAX),
        (None, Some(key)) => by_key(key, count) as usize,
        (None, None) => topic.sticky,
    };
    topic.slots.get(at).copied().ok_or_else(|| Error::NoPartition {
        topic: topic.name.to_string(),
        partition: partition.unwrap_or(-1),
        count,
    })
}

/// What a request of the thread is.
#[derive(Debug)]
enum Token {
    Produce { token: u64, parts: Vec<(Arc<str>, i32, Slot)> },
    Metadata,
    ProducerId,
}

/// The thread's side.
struct Io {
    shared: Arc<Shared>,
    links: Links<Token>,
    clock: Clock,
    metadata: Metadata,
    effects: VecDeque<Effect>,
    scratch: Vec<Effect>,
    on_report: OnReport,
}

impl Io {
    fn run(&mut self) {
        loop {
            let now = self.clock.now();
            let mut state = self.shared.lock();
            if state.closing {
                return;
            }
            if std::mem::take(&mut state.refresh) {
                self.metadata.stale();
            }
            state.machine.poll(now, &mut self.scratch);
            state.unreported += deliveries(&self.scratch);
            self.effects.extend(self.scratch.drain(..));
            let due = state.machine.next_deadline(now);
            let has_topics = !state.topics.is_empty();
            let idle = self.effects.is_empty();
            self.shared.asleep.store(idle, Ordering::Relaxed);
            drop(state);
            while let Some(effect) = self.effects.pop_front() {
                self.perform(effect);
            }
            if has_topics && self.metadata.is_due(now) {
                self.ask_metadata();
            }
            let wait = if idle {
                let ask = self.metadata.deadline().filter(|_| has_topics);
                let soonest = due.into_iter().chain(ask).min();
                // Deadlines are in milliseconds; rounded up, so that they are over when the wait is.
                soonest.map_or(IDLE, |at| (until(now, at) + Duration::from_micros(200)).min(IDLE))
            } else {
                Duration::ZERO
            };
            if let Some(heard) = self.links.hear(wait) {
                self.hear(heard);
            }
        }
    }

    fn hear(&mut self, heard: Heard<Token>) {
        match heard {
            Heard::Wake => {}
            Heard::Answer(answer) => {
                if let Err(error) = self.answered(&answer) {
                    self.fail(answer.token, &error);
                }
                self.links.recycle(answer.frame);
            }
            Heard::Lost(tokens, error) => {
                self.metadata.stale();
                for token in tokens {
                    self.fail(token, &error);
                }
            }
        }
    }

    fn answered(&mut self, answer: &Answer<Token>) -> Result<()> {
        match &answer.token {
            Token::Produce { token, parts } => {
                let response = answer.parse::<ProduceRequest<'_>>()?;
                let answers = wire::produced(&response, parts);
                self.handle(&Event::Answered { token: *token, answers: &answers });
            }
            Token::Metadata => {
                let response = answer.parse::<MetadataRequest<'_>>()?;
                self.metadata.apply(self.clock.now(), wire::snapshot(&response));
                self.links.learn(self.metadata.brokers());
                self.spread();
            }
            Token::ProducerId => {
                let response = answer.parse::<InitProducerIdRequest<'_>>()?;
                response.error_code.ok().map_err(|code| Error::kafka("producer id", code))?;
                self.handle(&Event::ProducerId { id: response.producer_id, epoch: response.producer_epoch });
            }
        }
        Ok(())
    }

    /// A request has no answer, or one that is of no use.
    fn fail(&mut self, token: Token, error: &Error) {
        match token {
            Token::Produce { token, .. } => self.handle(&Event::Lost { token }),
            Token::Metadata => self.metadata.failed(),
            Token::ProducerId => self.handle(&Event::NoProducerId),
        }
        self.shared.lock().trouble = Some(error.to_string());
    }

    fn handle(&mut self, event: &Event<'_>) {
        let now = self.clock.now();
        let mut state = self.shared.lock();
        state.machine.handle(now, event, &mut self.scratch);
        state.unreported += deliveries(&self.scratch);
        drop(state);
        self.effects.extend(self.scratch.drain(..));
        // Reports now, so that flush and room are seen at once; requests with the next turn.
        while let Some(at) = self.effects.iter().position(|effect| matches!(effect, Effect::Delivered(_))) {
            if let Some(Effect::Delivered(delivery)) = self.effects.remove(at) {
                self.report(now, &delivery);
            }
        }
        self.shared.changed.notify_all();
    }

    fn perform(&mut self, effect: Effect) {
        let patience = self.links.settings().request_timeout;
        match effect {
            Effect::Send(request) => {
                let parts =
                    request.parts.iter().map(|part| (Arc::clone(&part.topic), part.partition, part.slot)).collect();
                let token = request.token;
                let sent = self.links.produce(&request, Token::Produce { token, parts }, patience);
                drop(request);
                match sent {
                    Ok(None) => {}
                    Ok(Some(_)) => self.handle(&Event::Answered { token, answers: &[] }),
                    Err((_, error)) => {
                        self.shared.lock().trouble = Some(error.to_string());
                        self.handle(&Event::NotSent { token });
                    }
                }
            }
            Effect::WantProducerId => {
                let request = InitProducerIdRequest {
                    transaction_timeout_ms: 60_000,
                    producer_id: -1,
                    producer_epoch: -1,
                    ..InitProducerIdRequest::default()
                };
                if let Err((token, error)) = self.links.send(To::Any, &request, Token::ProducerId, patience) {
                    self.fail(token, &error);
                }
            }
            Effect::WantMetadata => self.metadata.stale(),
            Effect::Delivered(delivery) => {
                self.report(self.clock.now(), &delivery);
                self.shared.changed.notify_all();
            }
        }
    }

    fn report(&mut self, now: Mono, delivery: &Delivery) {
        let (topic, partition) = {
            let mut state = self.shared.lock();
            let (topic, partition) = state.names[delivery.slot.0 as usize].clone();
            if let Err(code) = delivery.outcome
                && state.failure.is_none()
            {
                let message = state.trouble.clone().filter(|_| code == ErrorCode::REQUEST_TIMED_OUT);
                let what = format!("{} records to {topic}-{partition}", delivery.count);
                state.failure = Some(Error::Kafka { what, code, message });
            }
            (topic, partition)
        };
        (self.on_report)(&Report {
            topic,
            partition,
            first: delivery.first,
            count: delivery.count,
            took: Duration::from_nanos(now.since(delivery.created)),
            outcome: delivery.outcome,
        });
        self.shared.lock().unreported -= 1;
    }

    fn ask_metadata(&mut self) {
        let names: Vec<Arc<str>> = self.shared.lock().topics.iter().map(|topic| Arc::clone(&topic.name)).collect();
        let topics = names.iter().map(|name| MetadataRequestTopic { name: Some(name), ..Default::default() }).collect();
        let request =
            MetadataRequest { topics: Some(topics), allow_auto_topic_creation: true, ..MetadataRequest::default() };
        let now = self.clock.now();
        self.metadata.asked(now);
        let patience = self.links.settings().request_timeout;
        if let Err((token, error)) = self.links.send(To::Any, &request, Token::Metadata, patience) {
            self.fail(token, &error);
            self.shared.changed.notify_all();
        }
    }

    /// Tells the machine what metadata says: new partitions, leaders.
    fn spread(&mut self) {
        let mut state = self.shared.lock();
        let state = &mut *state;
        for topic in &mut state.topics {
            let Some(known) = self.metadata.topic(&topic.name) else { continue };
            topic.code = known.code;
            for partition in &known.partitions {
                let Ok(at) = usize::try_from(partition.index) else { continue };
                // In order and without a gap, so that a slot's place is its partition.
                if at == topic.slots.len() {
                    let slot = state.machine.add(Arc::clone(&topic.name), partition.index);
                    topic.slots.push(slot);
                    state.names.push((Arc::clone(&topic.name), partition.index));
                }
                if let Some(slot) = topic.slots.get(at) {
                    state.machine.set_leader(*slot, partition.leader);
                }
            }
        }
        self.shared.changed.notify_all();
    }
}

/// How many of the effects end a batch.
fn deliveries(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Delivered(_))).count()
}
