//! The rdkafka crate, which binds librdkafka. Usage: BOOTSTRAP SCENARIO; prints one line of JSON: scenario, result (pass or fail),
//! detail. What a scenario has to show stands in `../matrix.json`.
#![allow(clippy::print_stdout, reason = "the verdict goes to standard output")]

mod face;

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use face::{Client, Member, Reader, Record};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(40);

/// KIP-848.
const CONSUMER: (&str, &str) = ("group.protocol", "consumer");

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [bootstrap, scenario] = &args[..] else {
        eprintln!("usage: BOOTSTRAP SCENARIO");
        std::process::exit(2);
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let now_ms = i64::try_from(now).unwrap_or(0) - 3_600_000;
    let topic = format!("{scenario}-{now}");
    let outcome = Scenarios { client: Client::new(bootstrap), topic, now_ms }.run(scenario);
    let (result, detail) = match &outcome {
        Ok(detail) => ("pass", detail.clone()),
        Err(error) => ("fail", format!("{error:#}")),
    };
    println!("{}", serde_json::json!({"scenario": scenario, "result": result, "detail": detail}));
    std::process::exit(i32::from(outcome.is_err()));
}

struct Scenarios {
    client: Client,
    topic: String,
    now_ms: i64,
}

impl Scenarios {
    fn run(&self, name: &str) -> Result<String> {
        match name {
            "version" => return Ok(face::version()),
            "records" => self.round_trip(&self.sample(40, 1), 1, &[])?,
            "codec_gzip" | "codec_snappy" | "codec_lz4" | "codec_zstd" => {
                let codec = name.trim_start_matches("codec_");
                self.round_trip(&self.sample(200, 1), 1, &[("compression.type", codec)])?;
            }
            "zero_byte" => {
                let kinds = [(Some(""), Some("")), (None, Some("")), (Some(""), None)];
                self.round_trip(&kinds.map(|(key, value)| self.record(0, key, value)), 1, &[])?;
            }
            "null_record" => {
                let kinds = [(None, None), (Some("k"), Some("v")), (None, None)];
                self.round_trip(&kinds.map(|(key, value)| self.record(0, key, value)), 1, &[])?;
            }
            "large" => {
                let value = "0123456789abcdef".repeat(10 * 1024 * 1024 / 16);
                let kinds = [Some("small"), Some(&*value), Some("small")];
                self.round_trip(&kinds.map(|value| self.record(0, Some("k"), value)), 1, &[])?;
            }
            "idempotent" => self.round_trip(&self.sample(600, 3), 3, &[("enable.idempotence", "true")])?,
            "assign" => self.assign()?,
            "seek_time" => self.seek_time()?,
            "pause_resume" => self.pause_resume()?,
            "group" => self.share(&[("partition.assignment.strategy", "range")], 0)?,
            "group_cooperative" => self.share(&[("partition.assignment.strategy", "cooperative-sticky")], 2)?,
            "group_static" => self.group_static()?,
            "group_describe" => self.group_describe()?,
            "group_reset" => self.group_reset()?,
            "group_delete" => self.group_delete()?,
            "consumer_group" => self.share(&[CONSUMER], 2)?,
            "consumer_group_static" => self.consumer_group_static()?,
            "consumer_group_regex" => self.consumer_group_regex()?,
            "consumer_group_range" => self.consumer_group_range()?,
            "topics" => self.topics()?,
            "configs" => self.configs()?,
            "error_unknown_topic" => return refused(self.client.delete(&self.topic)),
            "error_too_large" => {
                self.client.create(&self.topic, 1, &[("max.message.bytes", "1000")])?;
                return refused(self.produce(&[self.record(0, None, Some(&"x".repeat(5000)))], &[]));
            }
            "error_invalid_config" => {
                return refused(self.client.create(&self.topic, 1, &[("retention.ms", "banana")]));
            }
            "error_transactional" => return refused(self.client.begin_transaction(&self.topic)),
            "error_disk_full" => return self.disk_full(),
            _ => bail!("no scenario {name}"),
        }
        Ok(String::new())
    }

    fn record(&self, partition: i32, key: Option<&str>, value: Option<&str>) -> Record {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let (key, value) = (key.map(bytes), value.map(bytes));
        Record { partition, offset: 0, timestamp: self.now_ms, key, value, headers: Vec::new() }
    }

    fn sample(&self, count: u16, partitions: u16) -> Vec<Record> {
        let made = |n: u16| {
            let key = (n % 10 != 9).then(|| format!("key-{}", n % 7));
            let value = match n % 10 {
                7 => None,
                8 => Some(String::new()),
                _ => Some(format!("value-{n}-{}", "x".repeat(usize::from(n) % 500))),
            };
            let mut record = self.record(i32::from(n % partitions), key.as_deref(), value.as_deref());
            record.timestamp += i64::from(n) * 1000;
            let header = |name: &str, value: &str| (name.to_string(), value.as_bytes().to_vec());
            record.headers = vec![header("n", &n.to_string()), header("n", "again"), header("empty", "")];
            record
        };
        (0..count).map(made).collect()
    }

    fn produce(&self, records: &[Record], how: &[(&str, &str)]) -> Result<()> {
        self.client.produce(&self.topic, records, how)
    }

    /// The runner has filled the smallest of devices, with a topic `filler`.
    fn disk_full(&self) -> Result<String> {
        self.client.create(&self.topic, 1, &[])?;
        let send = || self.produce(&[self.record(0, Some("k"), Some("v"))], &[("enable.idempotence", "true")]);
        let started = Instant::now();
        let code = refused(send())?;
        ensure!(started.elapsed() < Duration::from_secs(10), "an application hears of it late");
        self.client.delete("filler")?;
        let deadline = Instant::now() + Duration::from_secs(40);
        while let Err(error) = send() {
            ensure!(refused(Err::<(), _>(error))? == code && Instant::now() < deadline, "no room after a deletion");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(code)
    }

    fn round_trip(&self, records: &[Record], partitions: i32, how: &[(&str, &str)]) -> Result<()> {
        self.client.create(&self.topic, partitions, &[])?;
        self.produce(records, how)?;
        let reader = self.client.reader(&self.topic, &(0..partitions).collect::<Vec<_>>())?;
        same(records, &read(&reader, records.len())?)
    }

    fn assign(&self) -> Result<()> {
        self.client.create(&self.topic, 3, &[])?;
        self.produce(&self.sample(60, 3), &[])?;
        let reader = self.client.reader(&self.topic, &[1])?;
        ensure!(reader.ends(1)? == (0, 20), "ends {:?}", reader.ends(1)?);
        reader.seek(1, 10)?;
        let places: Vec<_> = read(&reader, 10)?.iter().map(|r| (r.partition, r.offset)).collect();
        ensure!(places == (10..20).map(|n| (1, n)).collect::<Vec<_>>(), "read {places:?}");
        Ok(())
    }

    fn seek_time(&self) -> Result<()> {
        self.client.create(&self.topic, 1, &[])?;
        self.produce(&self.sample(40, 1), &[])?;
        let reader = self.client.reader(&self.topic, &[0])?;
        let now = self.now_ms;
        for (timestamp, wanted) in
            [(0, Some(0)), (now + 20_000, Some(20)), (now + 20_001, Some(21)), (now + 40_000, None)]
        {
            let offset = reader.offset_at(0, timestamp)?;
            ensure!(offset == wanted, "{offset:?} instead of {wanted:?}");
        }
        reader.seek(0, 21)?;
        ensure!(read(&reader, 19)?[0].offset == 21, "reading went on elsewhere");
        Ok(())
    }

    fn pause_resume(&self) -> Result<()> {
        self.client.create(&self.topic, 2, &[])?;
        let reader = self.client.reader(&self.topic, &[0, 1])?;
        reader.poll()?;
        reader.pause(0)?;
        self.produce(&self.sample(40, 2), &[])?;
        ensure!(read(&reader, 20)?.iter().all(|r| r.partition == 1), "a record of a partition that is paused");
        reader.resume(0)?;
        ensure!(read(&reader, 20)?[0].offset == 0, "resumed elsewhere");
        Ok(())
    }

    fn join(&self, how: &[(&str, &str)]) -> Result<Member> {
        self.client.join(&self.topic, how)
    }

    /// `kept`: what the first member holds at least while a second comes.
    fn share(&self, how: &[(&str, &str)], kept: usize) -> Result<()> {
        self.client.create(&self.topic, 4, &[])?;
        let first = self.join(how)?;
        settled(4, &[&first])?;
        let second = self.join(how)?;
        settled(2, &[&first, &second])?;
        let history = first.history();
        let whole = history.iter().position(|held| *held == 4).context("it held all")?;
        let least = history[whole..].iter().min().copied().unwrap_or_default();
        ensure!(least >= kept, "held {history:?} on the way from four partitions to two");
        let sent = self.sample(100, 4);
        self.produce(&sent, &[])?;
        until("100 records", || Ok(first.records()?.len() + second.records()?.len() >= 100))?;
        ensure!(!first.records()?.is_empty() && !second.records()?.is_empty(), "one member read all");
        same(&sent, &[first.records()?, second.records()?].concat())?;
        for member in [first, second] {
            member.close(true)?;
        }
        let committed = self.client.committed(&self.topic, &self.topic, 4)?;
        ensure!(committed == [25; 4], "committed {committed:?}");
        let third = self.join(how)?;
        settled(4, &[&third])?;
        self.produce(&[0, 1, 2, 3].map(|partition| self.record(partition, Some("k"), Some("more"))), &[])?;
        until("what came after the commit", || Ok(third.records()?.len() >= 4))?;
        ensure!(third.records()?.iter().all(|r| r.offset == 25), "the group went on elsewhere");
        third.close(false)
    }

    fn group_static(&self) -> Result<()> {
        self.client.create(&self.topic, 4, &[])?;
        let first = self.join(&[("group.instance.id", "one")])?;
        let second = self.join(&[("group.instance.id", "two")])?;
        settled(2, &[&first, &second])?;
        let (held, before) = (first.held()?, second.history());
        first.close(false)?;
        std::thread::sleep(Duration::from_secs(1));
        let (_, members) = self.client.group(&self.topic)?;
        ensure!(members.len() == 2, "members while one is away: {members:?}");
        let first = self.join(&[("group.instance.id", "one")])?;
        settled(2, &[&first, &second])?;
        ensure!(first.held()? == held, "{:?} instead of {held:?}", first.held()?);
        ensure!(second.history() == before, "the other member saw a rebalance");
        first.close(false)?;
        second.close(false)
    }

    fn group_describe(&self) -> Result<()> {
        self.client.create(&self.topic, 4, &[])?;
        let member = self.join(&[])?;
        settled(4, &[&member])?;
        ensure!(self.client.groups()?.contains(&self.topic), "not listed");
        let group = self.client.group(&self.topic)?;
        ensure!(group == ("Stable".into(), vec!["matrix".into()]), "{group:?}");
        member.close(false)?;
        let group = self.client.group(&self.topic)?;
        ensure!(group == ("Empty".into(), vec![]), "{group:?}");
        Ok(())
    }

    fn read_all(&self) -> Result<Member> {
        self.client.create(&self.topic, 1, &[])?;
        self.produce(&self.sample(20, 1), &[])?;
        let member = self.join(&[])?;
        until("20 records", || Ok(member.records()?.len() >= 20))?;
        Ok(member)
    }

    fn group_reset(&self) -> Result<()> {
        self.read_all()?.close(true)?;
        let committed = self.client.committed(&self.topic, &self.topic, 1)?;
        ensure!(committed == [20], "committed {committed:?}");
        self.client.reset(&self.topic, &self.topic, 0, 5)?;
        let member = self.join(&[])?;
        until("15 records", || Ok(member.records()?.len() >= 15))?;
        ensure!(member.records()?[0].offset == 5, "began elsewhere");
        member.close(false)
    }

    fn group_delete(&self) -> Result<()> {
        let member = self.read_all()?;
        let code = refused(self.client.delete_group(&self.topic))?;
        ensure!(code == "68", "a group with a member: {code} instead of NON_EMPTY_GROUP");
        member.close(true)?;
        self.client.delete_group(&self.topic)?;
        ensure!(!self.client.groups()?.contains(&self.topic), "still listed");
        Ok(())
    }

    fn consumer_group_static(&self) -> Result<()> {
        self.client.create(&self.topic, 4, &[])?;
        let first = self.join(&[CONSUMER, ("group.instance.id", "one")])?;
        let second = self.join(&[CONSUMER, ("group.instance.id", "two")])?;
        settled(2, &[&first, &second])?;
        let (held, before) = (first.held()?, second.history());
        first.close(false)?;
        std::thread::sleep(Duration::from_secs(6));
        let first = self.join(&[CONSUMER, ("group.instance.id", "one")])?;
        settled(2, &[&first, &second])?;
        ensure!(first.held()? == held, "{:?} instead of {held:?}", first.held()?);
        ensure!(second.history() == before, "the other member saw a rebalance");
        first.close(false)?;
        second.close(false)
    }

    fn alongside(&self, number: u8) -> Result<()> {
        let topic = format!("{}-{number}", self.topic);
        self.client.create(&topic, 1, &[])?;
        self.client.produce(&topic, &[self.record(0, None, Some(&topic))], &[])
    }

    fn join_all(&self, how: &[(&str, &str)]) -> Result<Member> {
        self.client.join_as(&self.topic, &format!("^{}-.*", self.topic), how)
    }

    fn consumer_group_regex(&self) -> Result<()> {
        self.alongside(1)?;
        let member = self.join_all(&[CONSUMER])?;
        until("a record of the first topic", || Ok(member.records()?.len() == 1))?;
        self.alongside(2)?;
        until("a record of the topic made after the join", || Ok(member.records()?.len() == 2))?;
        let wanted = format!("{}-2", self.topic).into_bytes();
        ensure!(member.records()?[1].value.as_ref() == Some(&wanted), "another record");
        member.close(false)
    }

    fn consumer_group_range(&self) -> Result<()> {
        self.alongside(1)?;
        self.alongside(2)?;
        let how = [CONSUMER, ("group.remote.assignor", "range")];
        let members = [self.join_all(&how)?, self.join_all(&how)?];
        let uneven = || {
            let mut counts = [members[0].places()?, members[1].places()?];
            counts.sort_unstable();
            Ok(counts == [0, 2])
        };
        until("the first partitions of both topics with one member", uneven)?;
        // Uniform would even it out by now.
        std::thread::sleep(Duration::from_secs(11));
        ensure!(uneven()?, "the first partitions of both topics are not with one member");
        members.into_iter().try_for_each(|member| member.close(false))
    }

    fn topics(&self) -> Result<()> {
        self.client.create(&self.topic, 3, &[])?;
        ensure!(self.client.topics()?.contains(&self.topic), "not listed");
        ensure!(self.client.partitions(&self.topic)? == 3, "partitions");
        let code = refused(self.client.create(&self.topic, 3, &[]))?;
        ensure!(code == "36", "a second of the name: {code} instead of TOPIC_ALREADY_EXISTS");
        // As with Kafka, what is changed may be seen a little later.
        self.client.grow(&self.topic, 5)?;
        until("5 partitions", || Ok(self.client.partitions(&self.topic)? == 5))?;
        self.client.delete(&self.topic)?;
        until("no longer listed", || Ok(!self.client.topics()?.contains(&self.topic)))
    }

    fn configs(&self) -> Result<()> {
        let expect = |wanted: &str| {
            let value = self.client.setting(&self.topic, "retention.ms")?;
            ensure!(value == wanted, "{value} instead of {wanted}");
            Ok(())
        };
        self.client.create(&self.topic, 1, &[("retention.ms", "7200000")])?;
        expect("7200000")?;
        self.client.replace_settings(&self.topic, "retention.ms", "3600000")?;
        expect("3600000")?;
        self.client.replace_settings(&self.topic, "max.message.bytes", "2000")?;
        expect("604800000")
    }
}

fn until(what: &str, ready: impl Fn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !ready()? {
        ensure!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn read(reader: &Reader, count: usize) -> Result<Vec<Record>> {
    let deadline = Instant::now() + PATIENCE;
    let mut got = Vec::new();
    while got.len() < count && Instant::now() < deadline {
        got.extend(reader.poll()?);
    }
    got.extend(reader.poll()?);
    ensure!(got.len() == count, "read {} records instead of {count}", got.len());
    Ok(got)
}

/// What was read is what was sent to each partition, in order, from offset 0 on.
fn same(sent: &[Record], got: &[Record]) -> Result<()> {
    for partition in 0..4 {
        let wanted: Vec<_> = sent.iter().filter(|r| r.partition == partition).collect();
        let seen: Vec<_> = got.iter().filter(|r| r.partition == partition).collect();
        ensure!(wanted.len() == seen.len(), "partition {partition}: {} of {} records", seen.len(), wanted.len());
        for (n, (a, b)) in (0..).zip(wanted.iter().zip(&seen)) {
            ensure!(b.offset == n, "partition {partition}: offset {} instead of {n}", b.offset);
            ensure!(a.key == b.key && a.value == b.value, "key or value at {n}");
            ensure!(a.timestamp == b.timestamp && a.headers == b.headers, "timestamp or headers at {n}");
        }
    }
    Ok(())
}

fn settled(each: usize, members: &[&Member]) -> Result<()> {
    until(&format!("{each} partitions each"), || {
        let held = members.iter().map(|member| member.held()).collect::<Result<Vec<_>>>()?;
        let all: BTreeSet<i32> = held.iter().flatten().copied().collect();
        Ok(held.iter().all(|held| held.len() == each) && all.len() == each * members.len())
    })
}

/// Kafka's code of the error.
fn refused<T>(outcome: Result<T>) -> Result<String> {
    let Err(error) = outcome else { bail!("not refused") };
    let code = error.downcast_ref::<KafkaError>().and_then(KafkaError::rdkafka_error_code);
    let code = code.or_else(|| error.downcast_ref::<RDKafkaErrorCode>().copied());
    let code = code.with_context(|| format!("no error of the broker: {error:#}"))?;
    Ok((code as i32).to_string())
}
