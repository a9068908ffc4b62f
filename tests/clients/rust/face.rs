//! What the scenarios use of the rdkafka crate.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, DeliveryResult, Header, Headers as _, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

const LARGEST: &str = "12000000";
const WAIT: Duration = Duration::from_secs(20);

/// The crate's version stands in the lock file, librdkafka's is asked.
pub(crate) fn version() -> String {
    let lock = include_str!("../../../Cargo.lock");
    let after = lock.split("name = \"rdkafka\"\nversion = \"").nth(1).unwrap_or_default();
    let version = after.split('"').next().unwrap_or_default();
    format!("{version} (librdkafka {})", rdkafka::util::get_rdkafka_version().1)
}

/// As it is sent and as it is read.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// Milliseconds since 1970.
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

impl Record {
    fn of(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        Self {
            partition: message.partition(),
            offset: message.offset(),
            timestamp: message.timestamp().to_millis().unwrap_or(-1),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.map(|h| (h.key.to_string(), h.value.unwrap_or_default().to_vec())).collect(),
        }
    }
}

/// Collects what could not be delivered.
#[derive(Default)]
struct Failures(Mutex<Vec<KafkaError>>);

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(error.clone());
        }
    }
}

pub(crate) struct Client {
    config: ClientConfig,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    pub(crate) fn new(bootstrap: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap).set("client.id", "matrix");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self { config, runtime: runtime.expect("threads can be started") }
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        Ok(self.config.create()?)
    }

    /// The only outcome of an administrative call about one thing.
    fn one<T, E>(&self, call: impl Future<Output = Result<Vec<Result<T, E>>, KafkaError>>) -> Result<T>
    where
        E: IntoCode,
    {
        let outcome = self.runtime.block_on(call)?.into_iter().next().context("an outcome")?;
        outcome.map_err(|error| anyhow::Error::new(error.into_code()))
    }

    pub(crate) fn create(&self, topic: &str, partitions: i32, settings: &[(&str, &str)]) -> Result<()> {
        let mut wanted = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        for (name, value) in settings {
            wanted = wanted.set(name, value);
        }
        self.one(self.admin()?.create_topics([&wanted], &options())).map(|_| ())
    }

    pub(crate) fn topics(&self) -> Result<Vec<String>> {
        let found = self.admin()?.inner().fetch_metadata(None, WAIT)?;
        Ok(found.topics().iter().map(|topic| topic.name().to_string()).collect())
    }

    pub(crate) fn partitions(&self, topic: &str) -> Result<usize> {
        let found = self.admin()?.inner().fetch_metadata(Some(topic), WAIT)?;
        Ok(found.topics()[0].partitions().len())
    }

    pub(crate) fn grow(&self, topic: &str, count: usize) -> Result<()> {
        self.one(self.admin()?.create_partitions([&NewPartitions::new(topic, count)], &options())).map(|_| ())
    }

    pub(crate) fn delete(&self, topic: &str) -> Result<()> {
        self.one(self.admin()?.delete_topics(&[topic], &options())).map(|_| ())
    }

    pub(crate) fn setting(&self, topic: &str, name: &str) -> Result<String> {
        let found = self.one(self.admin()?.describe_configs([&ResourceSpecifier::Topic(topic)], &options()))?;
        found.get(name).and_then(|entry| entry.value.clone()).context("a value")
    }

    /// `AlterConfigs`: what is not named goes back to its default.
    pub(crate) fn replace_settings(&self, topic: &str, name: &str, value: &str) -> Result<()> {
        let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(name, value);
        self.one(self.admin()?.alter_configs([&change], &options())).map(|_| ())
    }

    pub(crate) fn produce(&self, topic: &str, records: &[Record], how: &[(&str, &str)]) -> Result<()> {
        let mut config = self.config.clone();
        config.set("message.max.bytes", LARGEST).set("linger.ms", "20").set("delivery.timeout.ms", "30000");
        for (name, value) in how {
            config.set(*name, *value);
        }
        let producer: BaseProducer<Failures> = config.create_with_context(Failures::default())?;
        for record in records {
            let mut headers = OwnedHeaders::new();
            for (name, value) in &record.headers {
                headers = headers.insert(Header { key: name, value: Some(value) });
            }
            let mut sent = BaseRecord::<[u8], [u8]>::to(topic).partition(record.partition).timestamp(record.timestamp);
            sent = if record.headers.is_empty() { sent } else { sent.headers(headers) };
            sent.key = record.key.as_deref();
            sent.payload = record.value.as_deref();
            producer.send(sent).map_err(|(error, _)| error)?;
        }
        producer.flush(Duration::from_secs(40))?;
        let failures = producer.context().0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        failures.map_or(Ok(()), |error| Err(error.into()))
    }

    pub(crate) fn begin_transaction(&self, id: &str) -> Result<()> {
        let producer: BaseProducer = self.config.clone().set("transactional.id", id).create()?;
        Ok(producer.init_transactions(WAIT)?)
    }

    fn consumer(&self, how: &[(&str, &str)]) -> Result<BaseConsumer> {
        let mut config = self.config.clone();
        config
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("fetch.message.max.bytes", LARGEST);
        if !how.iter().any(|(name, _)| *name == "group.protocol") {
            // By the consumer protocol (KIP-848) these are the broker's business.
            config.set("session.timeout.ms", "10000").set("heartbeat.interval.ms", "500");
        }
        for (name, value) in how {
            config.set(*name, *value);
        }
        Ok(config.create()?)
    }

    /// Partitions by hand, from their beginning.
    pub(crate) fn reader(&self, topic: &str, partitions: &[i32]) -> Result<Reader> {
        let consumer = self.consumer(&[("group.id", "nobody")])?;
        let mut places = TopicPartitionList::new();
        for partition in partitions {
            places.add_partition_offset(topic, *partition, Offset::Beginning)?;
        }
        consumer.assign(&places)?;
        Ok(Reader { consumer, topic: topic.into() })
    }

    /// Joins the group that is named like the topic.
    pub(crate) fn join(&self, topic: &str, how: &[(&str, &str)]) -> Result<Member> {
        self.join_as(topic, topic, how)
    }

    /// Joins a group for what `topics` names, or describes if it begins with `^`.
    pub(crate) fn join_as(&self, group: &str, topics: &str, how: &[(&str, &str)]) -> Result<Member> {
        let consumer = self.consumer(&[how, &[("group.id", group)]].concat())?;
        consumer.subscribe(&[topics])?;
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let thread = std::thread::spawn(move || follow(consumer, &shared));
        Ok(Member { state, thread })
    }

    pub(crate) fn groups(&self) -> Result<Vec<String>> {
        let found = self.admin()?.inner().fetch_group_list(None, WAIT)?;
        Ok(found.groups().iter().map(|group| group.name().to_string()).collect())
    }

    /// State, and the client id of each member.
    pub(crate) fn group(&self, group: &str) -> Result<(String, Vec<String>)> {
        let found = self.admin()?.inner().fetch_group_list(Some(group), WAIT)?;
        let group = found.groups().first().context("a group")?;
        Ok((group.state().into(), group.members().iter().map(|member| member.client_id().to_string()).collect()))
    }

    pub(crate) fn committed(&self, group: &str, topic: &str, partitions: i32) -> Result<Vec<i64>> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(topic, 0, partitions - 1);
        let found = self.consumer(&[("group.id", group)])?.committed_offsets(asked, WAIT)?;
        Ok(found.elements().iter().map(|place| place.offset().to_raw().unwrap_or(-1)).collect())
    }

    /// A commit of a consumer without a member.
    pub(crate) fn reset(&self, group: &str, topic: &str, partition: i32, offset: i64) -> Result<()> {
        let mut wanted = TopicPartitionList::new();
        wanted.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        Ok(self.consumer(&[("group.id", group)])?.commit(&wanted, CommitMode::Sync)?)
    }

    pub(crate) fn delete_group(&self, group: &str) -> Result<()> {
        self.one(self.admin()?.delete_groups(&[group], &options())).map(|_| ())
    }
}

/// Outcomes name what they are about, or not.
pub(crate) trait IntoCode {
    fn into_code(self) -> RDKafkaErrorCode;
}

impl IntoCode for RDKafkaErrorCode {
    fn into_code(self) -> RDKafkaErrorCode {
        self
    }
}

impl<T> IntoCode for (T, RDKafkaErrorCode) {
    fn into_code(self) -> RDKafkaErrorCode {
        self.1
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(WAIT))
}

pub(crate) struct Reader {
    consumer: BaseConsumer,
    topic: String,
}

impl Reader {
    /// Waits about 0.2 s at most.
    pub(crate) fn poll(&self) -> Result<Vec<Record>> {
        let mut got = Vec::new();
        while let Some(message) = self.consumer.poll(Duration::from_millis(200)) {
            got.push(Record::of(&message?));
            if got.len() == 100 {
                break;
            }
        }
        Ok(got)
    }

    pub(crate) fn seek(&self, partition: i32, offset: i64) -> Result<()> {
        // Only of a partition that is being fetched.
        self.poll()?;
        Ok(self.consumer.seek(&self.topic, partition, Offset::Offset(offset), WAIT)?)
    }

    pub(crate) fn offset_at(&self, partition: i32, timestamp: i64) -> Result<Option<i64>> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_offset(&self.topic, partition, Offset::Offset(timestamp))?;
        let found = self.consumer.offsets_for_times(asked, WAIT)?;
        Ok(match found.elements().first().context("an answer")?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        })
    }

    pub(crate) fn ends(&self, partition: i32) -> Result<(i64, i64)> {
        Ok(self.consumer.fetch_watermarks(&self.topic, partition, WAIT)?)
    }

    fn place(&self, partition: i32) -> TopicPartitionList {
        let mut places = TopicPartitionList::new();
        places.add_partition(&self.topic, partition);
        places
    }

    pub(crate) fn pause(&self, partition: i32) -> Result<()> {
        Ok(self.consumer.pause(&self.place(partition))?)
    }

    pub(crate) fn resume(&self, partition: i32) -> Result<()> {
        Ok(self.consumer.resume(&self.place(partition))?)
    }
}

#[derive(Default)]
struct State {
    records: Vec<Record>,
    held: BTreeSet<i32>,
    /// Partitions of all topics.
    places: usize,
    history: Vec<usize>,
    failure: Option<String>,
    ending: Option<Ending>,
}

#[derive(Clone, Copy)]
struct Ending {
    commit: bool,
}

/// A member of a group, polled by a thread of its own.
pub(crate) struct Member {
    state: Arc<Mutex<State>>,
    thread: JoinHandle<()>,
}

fn follow(consumer: BaseConsumer, shared: &Mutex<State>) {
    let outcome = (|| -> Result<()> {
        loop {
            let polled = consumer.poll(Duration::from_millis(50)).transpose()?;
            let places = consumer.assignment()?;
            let held: BTreeSet<i32> = places.elements().iter().map(|place| place.partition()).collect();
            let mut state = shared.lock().map_err(|_| anyhow!("poisoned"))?;
            state.places = places.count();
            state.records.extend(polled.as_ref().map(Record::of));
            if held != state.held {
                state.history.push(held.len());
                state.held = held;
            }
            let Some(ending) = state.ending else { continue };
            drop(state);
            if ending.commit {
                consumer.commit_consumer_state(CommitMode::Sync)?;
            }
            return Ok(());
        }
    })();
    if let Err(error) = outcome {
        shared.lock().unwrap_or_else(PoisonError::into_inner).failure = Some(format!("{error:#}"));
    }
}

impl Member {
    fn with<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T> {
        let state = self.state.lock().map_err(|_| anyhow!("poisoned"))?;
        if let Some(failure) = &state.failure {
            bail!("member: {failure}");
        }
        Ok(look(&state))
    }

    pub(crate) fn records(&self) -> Result<Vec<Record>> {
        self.with(|state| state.records.clone())
    }

    pub(crate) fn held(&self) -> Result<BTreeSet<i32>> {
        self.with(|state| state.held.clone())
    }

    /// How many partitions of all topics it holds.
    pub(crate) fn places(&self) -> Result<usize> {
        self.with(|state| state.places)
    }

    /// How many partitions it has held, one after another.
    pub(crate) fn history(&self) -> Vec<usize> {
        self.with(|state| state.history.clone()).unwrap_or_default()
    }

    /// Ends it, after a commit of what it has read if that is wanted.
    pub(crate) fn close(self, commit: bool) -> Result<()> {
        self.state.lock().map_err(|_| anyhow!("poisoned"))?.ending = Some(Ending { commit });
        ensure!(self.thread.join().is_ok(), "the member's thread panicked");
        let failure = self.state.lock().map_err(|_| anyhow!("poisoned"))?.failure.take();
        failure.map_or(Ok(()), |failure| Err(anyhow!("member: {failure}")))
    }
}
