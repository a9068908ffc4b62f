//! `barelog demo`: a broker, a topic, records through it and out again by two groups, every one of them verified.
//!
//! The demo is a Kafka client like any other. What it says of the broker comes from the broker's `/metrics`.

mod content;
mod metrics;
mod report;

use anyhow::Context as _;
use client::consumer::Reset;
use client::driver::{NewTopic, OffsetSpec};
use client::group::Limits as GroupLimits;
use client::producer::{Limits, Record};
use client::{Client, Consumer, ConsumerConfig, Producer, ProducerConfig, Settings};
use hdrhistogram::Histogram;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::common::{explain, grouped, say, told};
use super::{DemoArgs, UsageError, interrupt};
use content::Content;
use metrics::Scrape;
use report::{Drained, Results};

/// Groups that read everything.
const GROUPS: u64 = 2;
/// A group that gets nothing for this long has lost something.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often progress is looked at, in records.
const STEP: u64 = 4096;
/// Where clients expect a broker.
const USUAL_PORT: u16 = 9092;

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    check(args)?;
    // From here on Ctrl-C is a request: what was started is stopped, what was made is removed.
    interrupt::requested();
    let broker = Broker::start(args)?;
    let verified = demonstrate(args, &broker);
    broker.stop();
    anyhow::ensure!(verified?, "not every record arrived as it was sent");
    Ok(())
}

/// Moves the records and shows what came of it; whether every record was verified.
fn demonstrate(args: &DemoArgs, broker: &Broker) -> anyhow::Result<bool> {
    let results = move_records(args, broker)?;
    results.print()?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&results.json())?;
        std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    if results.verified() {
        broker.stay(args.once, &results.topic)?;
    }
    Ok(results.verified())
}

/// What makes no sense is said before a broker is started.
fn check(args: &DemoArgs) -> anyhow::Result<()> {
    if args.partitions == 0 {
        return Err(UsageError("--partitions must be at least 1".into()).into());
    }
    if args.size > i32::MAX as u64 / 2 {
        return Err(UsageError(format!("--size {}: no broker takes records of that size", args.size)).into());
    }
    if let Some(path) = &args.json
        && let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
        && !parent.is_dir()
    {
        return Err(UsageError(format!("--json {}: {} is no directory", path.display(), parent.display())).into());
    }
    Ok(())
}

/// The broker that is used, and what is to be cleaned up.
struct Broker {
    bootstrap: String,
    metrics: Option<String>,
    running: Option<crate::broker::Running>,
    _scratch: Option<Scratch>,
}

/// A directory that goes with its owner.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            eprintln!("barelog: cannot remove {}: {error}", self.0.display());
        }
    }
}

impl Broker {
    fn start(args: &DemoArgs) -> anyhow::Result<Self> {
        if let Some(bootstrap) = &args.bootstrap {
            let metrics = args.metrics.clone();
            return Ok(Self { bootstrap: bootstrap.clone(), metrics, running: None, _scratch: None });
        }
        let scratch = args.data_dir.is_none().then(scratch_dir).transpose()?;
        let data_dir = match (&args.data_dir, &scratch) {
            (Some(dir), _) => dir.clone(),
            (None, Some(scratch)) => scratch.0.clone(),
            (None, None) => unreachable!("one of them is made above"),
        };
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listen = args.listen.unwrap_or_else(|| {
            // Somebody's broker may be there already; the demo needs none of it.
            let free = TcpListener::bind(loopback(USUAL_PORT)).is_ok();
            loopback(if free { USUAL_PORT } else { 0 })
        });
        say(&format!("starting a broker, data in {}", data_dir.display()))?;
        let options =
            crate::broker::StartOptions { data_dir, listen, metrics_listen: loopback(0), shards: args.shards };
        let running = crate::broker::start(&options)?;
        let address = running.addresses.first().copied().unwrap_or(listen);
        eprintln!("it listens on {address}, figures on http://{}/metrics", running.metrics_address);
        Ok(Self {
            bootstrap: address.to_string(),
            metrics: Some(running.metrics_address.to_string()),
            running: Some(running),
            _scratch: scratch,
        })
    }

    /// Shows how to use the broker, and keeps it until Ctrl-C.
    fn stay(&self, once: bool, topic: &str) -> anyhow::Result<()> {
        if once {
            return Ok(());
        }
        let at = &self.bootstrap;
        say("\nThe broker is up. Use it from another terminal:")?;
        say(&format!("  kcat -b {at} -t {topic} -C -o beginning -c 3 -f '%p/%o %S bytes\\n'"))?;
        say(&format!("  echo hello | kcat -b {at} -t greetings -P && kcat -b {at} -t greetings -C -e"))?;
        say(&format!(
            "  python3 -c \"from kafka import KafkaConsumer as C; print(next(C('{topic}', bootstrap_servers='{at}', \
             auto_offset_reset='earliest')).offset)\"   # pip install kafka-python"
        ))?;
        if self.running.is_some() {
            say("Ctrl-C stops it.")?;
            while !interrupt::requested() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }

    fn stop(self) {
        if let Some(running) = self.running {
            running.stop();
        }
    }
}

fn scratch_dir() -> anyhow::Result<Scratch> {
    // /tmp is memory on many machines; /var/tmp is a disk by convention.
    let base = if Path::new("/var/tmp").is_dir() { PathBuf::from("/var/tmp") } else { std::env::temp_dir() };
    let path = base.join(format!("barelog-demo-{}", std::process::id()));
    std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(Scratch(path))
}

/// The whole demo against a broker that runs.
fn move_records(args: &DemoArgs, broker: &Broker) -> anyhow::Result<Results> {
    let settings = Settings::new(&broker.bootstrap).map_err(|error| UsageError(format!("--bootstrap: {error}")))?;
    let mut admin = Client::connect(settings.clone()).map_err(explain)?;
    let topic = create_topic(&mut admin, args)?;
    let work = Work {
        args,
        settings,
        topic: topic.clone(),
        content: Content::new(usize::try_from(args.size).context("--size is too large")?),
        bars: Bars::new(),
    };
    let before = broker.scrape();
    let (produce_time, acks) = work.produce()?;
    let after = broker.scrape();
    let wrong_ends = work.wrong_ends(&mut admin)?;
    let begun = Instant::now();
    let drained = work.drain()?;
    let drain_time = begun.elapsed();
    let mut results = Results {
        topic,
        messages: args.messages,
        size: args.size,
        partitions: args.partitions,
        produce_time,
        acks,
        drain_time,
        drained,
        faults: wrong_ends,
        broker: before.zip(after).map(|(before, after)| after.since(&before)),
    };
    for group in &results.drained {
        let committed: i64 = admin.committed(&group.group, None).map_err(explain)?.values().sum();
        if u64::try_from(committed) != Ok(args.messages) {
            let fault = format!("group {} committed {committed} of {} records", group.group, args.messages);
            results.faults.push(fault);
        }
    }
    Ok(results)
}

impl Broker {
    /// The broker's metrics; without them only some figures are missing.
    fn scrape(&self) -> Option<Scrape> {
        let address = self.metrics.as_ref()?;
        match Scrape::get(address) {
            Ok(scrape) => Some(scrape),
            Err(error) => {
                eprintln!("barelog: no figures from http://{address}/metrics: {}", told(&error));
                None
            }
        }
    }
}

/// Creates the first of demo, demo-2, demo-3, … that is free: what is there is left alone.
fn create_topic(admin: &mut Client, args: &DemoArgs) -> anyhow::Result<String> {
    let topics = admin.metadata(None).map_err(explain)?.topics;
    let groups = admin.list_groups().map_err(explain)?;
    let name = (1u64..)
        .map(|number| if number == 1 { "demo".to_owned() } else { format!("demo-{number}") })
        .find(|name| {
            let topic_is_free = topics.iter().all(|topic| topic.name != *name);
            topic_is_free
                && groups.iter().all(|group| (1..=GROUPS).all(|number| group.name != group_name(name, number)))
        })
        .context("no name is free")?;
    let new = NewTopic { name: name.clone(), partitions: Some(args.partitions), ..NewTopic::default() };
    admin.create_topics(&[new]).map_err(explain)?.into_iter().collect::<client::Result<()>>().map_err(explain)?;
    let configs = admin.topic_configs(&name).map_err(explain)?;
    let limit = configs.iter().find(|config| config.name == "max.message.bytes");
    let limit = limit.and_then(|config| config.value.as_ref()?.parse::<u64>().ok());
    // Beside its value a batch of one record has at most 61 + 32 bytes.
    if let Some(limit) = limit.filter(|limit| args.size + 93 > *limit) {
        for result in admin.delete_topics(&[&name]).map_err(explain)? {
            result.map_err(explain)?;
        }
        let text =
            format!("--size {}: the broker takes batches of at most {limit} bytes (max.message.bytes)", args.size);
        return Err(UsageError(text).into());
    }
    Ok(name)
}

fn group_name(topic: &str, number: u64) -> String {
    format!("{topic}-readers-{number}")
}

/// Latencies in microseconds, up to a minute, to three digits.
fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are constants that fit")
}

struct Work<'a> {
    args: &'a DemoArgs,
    settings: Settings,
    topic: String,
    content: Content,
    bars: Bars,
}

impl Work<'_> {
    /// How many of the records a partition has: record i is number i / partitions of partition i % partitions.
    fn expected(&self, partition: u32) -> u64 {
        let partitions = u64::from(self.args.partitions);
        self.args.messages / partitions + u64::from(u64::from(partition) < self.args.messages % partitions)
    }

    /// Sends all records; the time until the last was acknowledged, and how long each batch took.
    fn produce(&self) -> anyhow::Result<(Duration, Histogram<u64>)> {
        let acked = Arc::new(AtomicU64::new(0));
        let acks = Arc::new(Mutex::new(latencies()));
        let sink = (Arc::clone(&acked), Arc::clone(&acks));
        let record_bytes_max = self.content.size() + 1024;
        let limits = Limits {
            codec: self.args.compression.into(),
            record_bytes_max,
            memory_bytes_max: Limits::default().memory_bytes_max.max(4 * record_bytes_max),
            ..Limits::default()
        };
        let config = ProducerConfig { limits, ..ProducerConfig::default() };
        let producer = Producer::with_reports(self.settings.clone(), config, move |report| {
            if report.outcome.is_ok() {
                sink.0.fetch_add(report.count.into(), Ordering::Relaxed);
                let micros = u64::try_from(report.took.as_micros()).unwrap_or(u64::MAX);
                sink.1.lock().unwrap_or_else(PoisonError::into_inner).saturating_record_n(micros, report.count.into());
            }
        })
        .map_err(explain)?;
        let topic = producer.topic(&self.topic).map_err(explain)?;
        let bar = self.bars.add("produce", self.args.messages);
        let partitions = u64::from(self.args.partitions);
        let mut value = vec![0; self.content.size()];
        let begun = Instant::now();
        for index in 0..self.args.messages {
            let partition = i32::try_from(index % partitions).context("too many partitions")?;
            self.content.fill(partition, index / partitions, &mut value);
            let record = Record { value: Some(&value), ..Record::default() };
            producer.send(topic, Some(partition), &record).map_err(explain)?;
            if index.is_multiple_of(STEP) {
                uninterrupted()?;
                bar.set(acked.load(Ordering::Relaxed));
            }
        }
        producer.flush().map_err(explain)?;
        let took = begun.elapsed();
        bar.finish(self.args.messages, took);
        drop(producer);
        let acks = acks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok((took, acks))
    }

    /// Partitions that do not end where they should.
    fn wrong_ends(&self, admin: &mut Client) -> anyhow::Result<Vec<String>> {
        let partitions = i32::try_from(self.args.partitions).context("too many partitions")?;
        let wanted: Vec<_> = (0..partitions).map(|p| (self.topic.as_str(), p, OffsetSpec::Latest)).collect();
        let ends = admin.list_offsets(&wanted).map_err(explain)?;
        let wrong = ends.into_iter().filter_map(|((topic, partition), end)| {
            let expected = self.expected(partition.cast_unsigned());
            (u64::try_from(end) != Ok(expected))
                .then(|| format!("{topic}-{partition} ends at offset {end}, {expected} records were sent to it"))
        });
        Ok(wrong.collect())
    }

    /// All groups at once, a thread each.
    fn drain(&self) -> anyhow::Result<Vec<Drained>> {
        std::thread::scope(|scope| {
            let groups: Vec<_> = (1..=GROUPS)
                .map(|number| {
                    let name = group_name(&self.topic, number);
                    let bar = self.bars.add(&format!("drain {number}"), self.args.messages);
                    scope.spawn(move || self.drain_group(name, &bar))
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<Drained>>| {
                thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a reader panicked")))
            };
            groups.into_iter().map(join).collect()
        })
    }

    fn drain_group(&self, group: String, bar: &Bar) -> anyhow::Result<Drained> {
        let mut config = ConsumerConfig::default();
        config.limits.reset = Reset::Earliest;
        config.limits.batch_bytes_max = config.limits.batch_bytes_max.max(2 * self.content.size());
        let limits = GroupLimits::new(&group, vec![self.topic.clone()]);
        let begun = Instant::now();
        let mut consumer = Consumer::in_group(self.settings.clone(), config, limits);
        let mut checker = Checker::new(self);
        let mut last = Instant::now();
        while checker.records < self.args.messages || !consumer.is_member() {
            uninterrupted()?;
            let polled = consumer.poll(Duration::from_millis(200), |record| {
                checker.check(record.partition, record.offset, record.value);
                ControlFlow::Continue(())
            });
            if polled.map_err(explain)? > 0 {
                last = Instant::now();
                bar.set(checker.records);
            } else if last.elapsed() > PATIENCE {
                checker.fault(format!("got {} records, then none for {} s", checker.records, PATIENCE.as_secs()));
                break;
            }
        }
        let took = begun.elapsed();
        bar.finish(checker.records, took);
        consumer.close().map_err(explain)?;
        let Checker { records, faults, .. } = checker;
        let faults = faults.into_iter().map(|fault| format!("group {group}: {fault}")).collect();
        Ok(Drained { group, records, took, faults })
    }
}

fn uninterrupted() -> anyhow::Result<()> {
    anyhow::ensure!(!interrupt::requested(), "interrupted");
    Ok(())
}

/// Compares what one group gets with what was sent.
struct Checker<'a> {
    content: &'a Content,
    next: Vec<i64>,
    expected: Vec<u8>,
    records: u64,
    faults: Vec<String>,
    more: u64,
}

impl<'a> Checker<'a> {
    /// Faults are counted beyond this many, and not described.
    const FAULTS_MAX: usize = 5;

    fn new(work: &'a Work<'_>) -> Self {
        Self {
            content: &work.content,
            next: vec![0; work.args.partitions as usize],
            expected: vec![0; work.content.size()],
            records: 0,
            faults: Vec::new(),
            more: 0,
        }
    }

    fn check(&mut self, partition: i32, offset: i64, value: Option<&[u8]>) {
        self.records += 1;
        let Some(next) = usize::try_from(partition).ok().and_then(|at| self.next.get_mut(at)) else {
            return self.fault(format!("a record of partition {partition}, which was not made"));
        };
        let expected = *next;
        *next = offset + 1;
        if offset != expected {
            return self.fault(format!("partition {partition}: offset {offset} where {expected} should come"));
        }
        self.content.fill(partition, offset.unsigned_abs(), &mut self.expected);
        if value != Some(&self.expected) {
            self.fault(format!("partition {partition}, offset {offset}: its value is not what was sent"));
        }
    }

    fn fault(&mut self, text: String) {
        if self.faults.len() < Self::FAULTS_MAX {
            self.faults.push(text);
        } else {
            self.more += 1;
        }
        if self.more > 0 {
            self.faults.truncate(Self::FAULTS_MAX);
            self.faults.push(format!("and {} more", self.more));
        }
    }
}

/// Progress bars; plain lines where nobody watches a terminal.
struct Bars {
    all: MultiProgress,
    plain: bool,
}

struct Bar {
    bar: ProgressBar,
    name: String,
    plain: bool,
}

impl Bars {
    fn new() -> Self {
        let plain = !std::io::stderr().is_terminal();
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        Self { all: MultiProgress::with_draw_target(target), plain }
    }

    fn add(&self, name: &str, total: u64) -> Bar {
        let style = ProgressStyle::with_template("{prefix:9} [{bar:40}] {human_pos} of {human_len} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> ");
        let bar = self.all.add(ProgressBar::new(total)).with_style(style).with_prefix(name.to_owned());
        Bar { bar, name: name.to_owned(), plain: self.plain }
    }
}

impl Bar {
    fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    fn finish(&self, done: u64, took: Duration) {
        let rate = report::rate(done, took);
        self.bar.set_position(done);
        self.bar.finish_with_message(format!("{} records/s", grouped(rate)));
        if self.plain {
            eprintln!("{}: {} records, {} records/s", self.name, grouped(done), grouped(rate));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker(content: &Content) -> Checker<'_> {
        Checker {
            content,
            next: vec![0; 2],
            expected: vec![0; content.size()],
            records: 0,
            faults: Vec::new(),
            more: 0,
        }
    }

    fn sent(content: &Content, partition: i32, number: u64) -> Vec<u8> {
        let mut value = vec![0; content.size()];
        content.fill(partition, number, &mut value);
        value
    }

    #[test]
    fn every_kind_of_fault_is_seen() {
        let content = Content::new(100);
        let mut good = checker(&content);
        good.check(0, 0, Some(&sent(&content, 0, 0)));
        good.check(1, 0, Some(&sent(&content, 1, 0)));
        good.check(0, 1, Some(&sent(&content, 0, 1)));
        assert!(good.faults.is_empty(), "{:?}", good.faults);
        assert_eq!(good.records, 3);

        let fault = |partition, offset, value: Option<&[u8]>| {
            let mut checker = checker(&content);
            checker.check(0, 0, Some(&sent(&content, 0, 0)));
            checker.check(partition, offset, value);
            checker.faults.len()
        };
        assert_eq!(fault(0, 0, Some(&sent(&content, 0, 0))), 1, "twice");
        assert_eq!(fault(0, 2, Some(&sent(&content, 0, 2))), 1, "one is missing");
        assert_eq!(fault(0, 1, Some(&sent(&content, 0, 2))), 1, "another's content");
        assert_eq!(fault(1, 0, Some(&sent(&content, 0, 0))), 1, "another partition's content");
        assert_eq!(fault(0, 1, None), 1, "null");
        assert_eq!(fault(7, 0, None), 1, "no such partition");
        let mut flipped = sent(&content, 0, 1);
        flipped[99] ^= 1;
        assert_eq!(fault(0, 1, Some(&flipped)), 1, "one bit");
    }

    #[test]
    fn many_faults_are_counted() {
        let content = Content::new(8);
        let mut checker = checker(&content);
        for offset in 10..30 {
            checker.check(0, offset * 2, None);
        }
        assert_eq!(checker.faults.len(), Checker::FAULTS_MAX + 1);
        assert_eq!(checker.faults.last().map(String::as_str), Some("and 15 more"));
    }
}
