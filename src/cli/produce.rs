//! `barelog produce`.

use anyhow::Context as _;
use client::driver::{Report, Topic};
use client::producer::{Acks as ClientAcks, Limits, Record};
use client::{Producer, ProducerConfig};
use protocol::batch::Header;
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal as _, Read as _, Write as _};
use std::time::Instant;

use super::common::{explain, grouped, say_json, settings};
use super::text::{TextRecord, parse_json};
use super::{Acks, ProduceArgs, RecordFormat};

/// A longer line is an error: what one record can make this process hold. Brokers refuse far smaller ones.
const RECORD_BYTES_MAX: usize = 64 << 20;

pub(crate) fn run(args: &ProduceArgs) -> anyhow::Result<()> {
    let settings = settings(&args.connect)?;
    let limits = Limits {
        acks: match args.acks {
            Acks::Zero => ClientAcks::None,
            Acks::One => ClientAcks::Leader,
            Acks::All => ClientAcks::All,
        },
        codec: args.compression.into(),
        linger_ms: u64::try_from(args.linger.as_millis()).unwrap_or(u64::MAX),
        record_bytes_max: RECORD_BYTES_MAX,
        memory_bytes_max: 2 * RECORD_BYTES_MAX,
        delivery_ms_max: u64::try_from(args.connect.timeout.as_millis()).unwrap_or(u64::MAX),
        ..Limits::default()
    };
    // Says at once when no broker is there, before anything is typed.
    drop(client::Client::connect(settings.clone()).map_err(explain)?);
    let config = ProducerConfig { limits, block_max: args.connect.timeout };
    let verbose = args.verbose;
    let producer = Producer::with_reports(settings, config, move |report| {
        if verbose {
            print_report(report);
        }
    })
    .map_err(explain)?;
    let topic = producer.topic(&args.topic).map_err(explain)?;
    let mut sender = Sender { args, producer: &producer, topic, records: 0, bytes: 0 };
    let begun = Instant::now();
    let read = match &args.file {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            sender.all(&mut BufReader::with_capacity(1 << 20, file))
        }
        None => {
            let stdin = std::io::stdin();
            if stdin.is_terminal() && args.format != RecordFormat::Raw {
                eprintln!("one record a line; Ctrl-D ends");
            }
            sender.all(&mut stdin.lock())
        }
    };
    // What came before a line that cannot be sent is sent, whatever the line's number.
    let sent = producer.flush().map_err(explain);
    if let Err(error) = read {
        let count = grouped(sender.records);
        return Err(match sent {
            Ok(()) => error.context(format!("after {count} sent to {}", args.topic)),
            Err(_) => error,
        });
    }
    sent?;
    let seconds = begun.elapsed().as_secs_f64();
    if args.json {
        let (records, bytes) = (sender.records, sender.bytes);
        return say_json(&json!({ "topic": args.topic, "records": records, "bytes": bytes, "seconds": seconds }));
    }
    if !verbose {
        let plural = if sender.records == 1 { "" } else { "s" };
        eprintln!("{} record{plural} sent to {}", grouped(sender.records), args.topic);
    }
    Ok(())
}

fn print_report(report: &Report) {
    let Ok(base) = report.outcome else { return };
    let mut out = std::io::stdout().lock();
    for index in 0..i64::from(report.count) {
        let offset = if base < 0 { "unknown".to_owned() } else { (base + index).to_string() };
        // Whoever read this has gone; the records are what matters.
        let _ = writeln!(out, "{}-{} offset {offset}", report.topic, report.partition);
    }
}

struct Sender<'a> {
    args: &'a ProduceArgs,
    producer: &'a Producer,
    topic: Topic,
    records: u64,
    bytes: u64,
}

impl Sender<'_> {
    fn all(&mut self, input: &mut impl BufRead) -> anyhow::Result<()> {
        if self.args.format == RecordFormat::Raw {
            let mut value = Vec::new();
            input.take(RECORD_BYTES_MAX as u64 + 1).read_to_end(&mut value).context("cannot read the input")?;
            return self.send(TextRecord { value: Some(value), ..TextRecord::default() }, 1);
        }
        let mut line = Vec::new();
        for number in 1u64.. {
            line.clear();
            let mut limited = input.by_ref().take(RECORD_BYTES_MAX as u64 + 1);
            if limited.read_until(b'\n', &mut line).context("cannot read the input")? == 0 {
                break;
            }
            if line.len() > RECORD_BYTES_MAX {
                anyhow::bail!("line {number} is longer than {RECORD_BYTES_MAX} bytes");
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let record = match self.args.format {
                RecordFormat::Json if text.iter().all(u8::is_ascii_whitespace) => continue,
                RecordFormat::Json => parse_json(text).map_err(|error| anyhow::anyhow!("line {number}: {error}"))?,
                RecordFormat::Text | RecordFormat::Raw => self.parse_line(text),
            };
            self.send(record, number)?;
        }
        Ok(())
    }

    fn parse_line(&self, text: &[u8]) -> TextRecord {
        let separator = self.args.key_separator.as_ref().map(|separator| separator.as_bytes());
        let cut = separator.and_then(|separator| {
            let at = text.windows(separator.len()).position(|window| window == separator)?;
            Some((text.get(..at)?, text.get(at + separator.len()..)?))
        });
        let (key, value) = cut.map_or((None, text), |(key, value)| (Some(key.to_vec()), value));
        TextRecord { key, value: Some(value.to_vec()), ..TextRecord::default() }
    }

    fn send(&mut self, record: TextRecord, line: u64) -> anyhow::Result<()> {
        let common =
            self.args.header.iter().map(|(key, value)| Header { key: key.as_bytes(), value: Some(value.as_bytes()) });
        let own = record.headers.iter().map(|(key, value)| Header { key, value: value.as_deref() });
        let headers: Vec<Header<'_>> = own.chain(common).collect();
        let key = record.key.as_deref().or(self.args.key.as_deref().map(str::as_bytes));
        let value = record.value.as_deref().filter(|value| !(self.args.null && value.is_empty()));
        let partition = record.partition.or(self.args.partition);
        let new = Record { timestamp: record.timestamp, key, value, headers: &headers };
        self.producer.send(self.topic, partition, &new).map_err(explain).with_context(|| format!("line {line}"))?;
        self.records += 1;
        self.bytes += (key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len)) as u64;
        Ok(())
    }
}
