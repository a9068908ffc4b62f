//! `barelog consume`.

use client::consumer::{Reset, Start};
use client::driver::{OffsetSpec, Record, TopicOffsets};
use client::group::Limits as GroupLimits;
use client::metadata::Topic;
use client::{Client, Consumer, ConsumerConfig, Error, Settings};
use protocol::error::ErrorCode;
use serde_json::json;
use std::io::{BufWriter, Stdout, Write};
use std::ops::ControlFlow;
use std::time::Duration;

use super::common::{explain, settings, told};
use super::text::{json_bytes, json_headers, write_headers};
use super::topic::known_topic;
use super::{ConsumeArgs, RecordFormat, UsageError, interrupt};

/// How long a poll waits before Ctrl-C is looked at.
const TICK: Duration = Duration::from_millis(100);

/// What to do where records are damaged on the device.
const DAMAGED: &str = "records are damaged there; `barelog topic damage` names the offset behind them, at which --offset (with \
                       --group: `barelog group reset-offsets`) goes on";

pub(crate) fn run(args: &ConsumeArgs) -> anyhow::Result<()> {
    if args.group.is_none() && args.topics.len() > 1 {
        return Err(UsageError("several topics only with --group".into()).into());
    }
    let settings = settings(&args.connect)?;
    let mut admin = Client::connect(settings.clone()).map_err(explain)?;
    let mut config = ConsumerConfig::default();
    config.limits.reset = if args.from_beginning { Reset::Earliest } else { Reset::Latest };
    let mut reading =
        Reading { args, out: BufWriter::with_capacity(1 << 16, std::io::stdout()), count: 0, error: None, lost: false };
    if args.count == Some(0) {
        return Ok(());
    }
    match &args.group {
        Some(group) => {
            let consumer = join(&mut admin, settings, config, group, args)?;
            reading.group(consumer, &mut admin)
        }
        None => {
            let topic = known_topic(&mut admin, args.topics.first().map_or("", String::as_str))?;
            let (consumer, ends) = assign(&mut admin, settings, config, &topic, args)?;
            reading.partitions(consumer, &ends)
        }
    }
}

fn join(
    admin: &mut Client,
    settings: Settings,
    config: ConsumerConfig,
    group: &str,
    args: &ConsumeArgs,
) -> anyhow::Result<Consumer> {
    for topic in &args.topics {
        if let Err(error) = known_topic(admin, topic) {
            eprintln!("barelog: {}; waiting for it", told(&error));
        }
    }
    let mut limits = GroupLimits::new(group, args.topics.clone());
    limits.instance.clone_from(&args.instance_id);
    Ok(Consumer::in_group(settings, config, limits))
}

/// A consumer of the chosen partitions, and where each ends now.
fn assign(
    admin: &mut Client,
    settings: Settings,
    config: ConsumerConfig,
    topic: &Topic,
    args: &ConsumeArgs,
) -> anyhow::Result<(Consumer, TopicOffsets)> {
    let all: Vec<i32> = topic.partitions.iter().map(|partition| partition.index).collect();
    if let Some(missing) = args.partition.iter().find(|partition| !all.contains(partition)) {
        anyhow::bail!("topic {} has no partition {missing} (it has {})", topic.name, all.len());
    }
    let chosen = if args.partition.is_empty() { all } else { args.partition.clone() };
    let mut list = |spec| {
        let wanted: Vec<_> = chosen.iter().map(|partition| (topic.name.as_str(), *partition, spec)).collect();
        admin.list_offsets(&wanted).map_err(explain)
    };
    let (starts, ends) = (list(OffsetSpec::Earliest)?, list(OffsetSpec::Latest)?);
    let mut parts = Vec::with_capacity(chosen.len());
    for partition in &chosen {
        let key = (topic.name.clone(), *partition);
        let (start, end) = (starts.get(&key).copied().unwrap_or(0), ends.get(&key).copied().unwrap_or(0));
        let from = match (args.offset, args.timestamp) {
            (Some(offset @ 0..), _) => Start::Offset(offset),
            (Some(back), _) => Start::Offset(end.saturating_add(back).max(start)),
            (None, Some(at)) => Start::Timestamp(at),
            (None, None) if args.from_beginning => Start::Earliest,
            // From what was the end when this began, so that --exit-eof is certain to end.
            (None, None) => Start::Offset(end),
        };
        parts.push((topic.name.as_str(), *partition, from));
    }
    let mut consumer = Consumer::new(settings, config);
    consumer.assign(&parts);
    Ok((consumer, ends))
}

struct Reading<'a> {
    args: &'a ConsumeArgs,
    out: BufWriter<Stdout>,
    count: u64,
    error: Option<std::io::Error>,
    /// The broker is away, and that was said.
    lost: bool,
}

impl Reading<'_> {
    fn partitions(&mut self, mut consumer: Consumer, ends: &TopicOffsets) -> anyhow::Result<()> {
        while !interrupt::requested() && !self.is_full() {
            if self.args.exit_eof && at_end(&consumer, ends) {
                break;
            }
            self.poll(&mut consumer)?;
        }
        Ok(())
    }

    fn group(&mut self, mut consumer: Consumer, admin: &mut Client) -> anyhow::Result<()> {
        let read = self.assigned(&mut consumer, admin);
        if read.as_ref().is_err_and(|error| error.is::<std::io::Error>()) {
            // What could not be printed is not committed.
            return read;
        }
        // Whatever else ended it, the others need not wait for this member to be missed.
        let closed = consumer.close().map_err(explain);
        read.and(closed)
    }

    fn assigned(&mut self, consumer: &mut Consumer, admin: &mut Client) -> anyhow::Result<()> {
        let mut known = None;
        let mut ends = TopicOffsets::new();
        while !interrupt::requested() && !self.is_full() {
            if self.args.exit_eof && consumer.is_member() {
                if known != Some(consumer.generation()) {
                    let parts: Vec<(String, i32)> =
                        consumer.assignment().map(|(topic, partition)| (topic.to_string(), partition)).collect();
                    let wanted: Vec<_> =
                        parts.iter().map(|(topic, p)| (topic.as_str(), *p, OffsetSpec::Latest)).collect();
                    ends = admin.list_offsets(&wanted).map_err(explain)?;
                    known = Some(consumer.generation());
                }
                if at_end(consumer, &ends) {
                    break;
                }
            }
            self.poll(consumer)?;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.args.count.is_some_and(|count| self.count >= count)
    }

    /// Prints what comes. A broker that goes away is waited for.
    fn poll(&mut self, consumer: &mut Consumer) -> anyhow::Result<()> {
        let polled = consumer.poll(TICK, |record| {
            self.count += 1;
            if let Err(error) = self.print(&record) {
                self.error = Some(error);
                return ControlFlow::Break(());
            }
            if self.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Some(error) = self.error.take() {
            return Err(error.into());
        }
        match polled {
            Ok(0) => Ok(()),
            Ok(_) => {
                self.lost = false;
                Ok(self.out.flush()?)
            }
            Err(error @ (Error::Unreachable { .. } | Error::Disconnected { .. })) => {
                if !std::mem::replace(&mut self.lost, true) {
                    eprintln!("barelog: {error}; trying until it is back");
                }
                std::thread::sleep(10 * TICK);
                Ok(())
            }
            Err(error) => {
                self.out.flush()?;
                let damaged = error.code() == Some(ErrorCode::CORRUPT_MESSAGE);
                let error = explain(error);
                Err(if damaged { error.context(DAMAGED) } else { error })
            }
        }
    }

    fn print(&mut self, record: &Record<'_>) -> std::io::Result<()> {
        let headers = record.headers.map(|header| (header.key, header.value));
        let out = &mut self.out;
        let format = if self.args.json { RecordFormat::Json } else { self.args.format };
        match format {
            RecordFormat::Raw => return out.write_all(record.value.unwrap_or_default()),
            RecordFormat::Json => {
                let line = json!({
                    "topic": &**record.topic,
                    "partition": record.partition,
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": json_bytes(record.key),
                    "value": json_bytes(record.value),
                    "headers": json_headers(headers),
                });
                serde_json::to_writer(&mut *out, &line)?;
            }
            RecordFormat::Text => {
                if self.args.verbose {
                    write!(out, "{}-{}\t{}\t{}\t", record.topic, record.partition, record.offset, record.timestamp)?;
                }
                if self.args.headers {
                    write_headers(out, headers)?;
                }
                if let Some(separator) = &self.args.key_separator {
                    out.write_all(record.key.unwrap_or_default())?;
                    out.write_all(separator.as_bytes())?;
                }
                out.write_all(record.value.unwrap_or_default())?;
            }
        }
        out.write_all(b"\n")
    }
}

/// Whether everything below `ends` was read.
fn at_end(consumer: &Consumer, ends: &TopicOffsets) -> bool {
    ends.iter().all(|((topic, partition), end)| consumer.position(topic, *partition).is_some_and(|at| at >= *end))
}
