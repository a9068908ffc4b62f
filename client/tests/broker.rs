//! The drivers against a running broker: ours, or Apache Kafka. They run when `BARELOG_TEST_BOOTSTRAP` names one
//! (host:port) that creates topics on first use; without it they pass and say so.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests; a skipped one says so")]

use client::assignor::Assignor;
use client::consumer::{Reset, Start};
use client::driver::{NewTopic, OffsetSpec, Record};
use client::group::Limits as GroupLimits;
use client::producer::{self, Acks, Record as NewRecord};
use client::{Client, Consumer, ConsumerConfig, Error, Producer, ProducerConfig, Settings};
use protocol::batch::{Codec, Header};
use protocol::error::ErrorCode;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

const PATIENCE: Duration = Duration::from_secs(30);

fn settings() -> Option<Settings> {
    let bootstrap = std::env::var("BARELOG_TEST_BOOTSTRAP").ok();
    if bootstrap.is_none() {
        println!("skipped: BARELOG_TEST_BOOTSTRAP names no broker");
    }
    bootstrap.map(|text| Settings::new(&text).unwrap())
}

fn unique(name: &str) -> String {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    format!("test-{name}-{nanos}")
}

fn create(settings: &Settings, name: &str, partitions: u32) -> String {
    let topic = unique(name);
    let new = NewTopic { name: topic.clone(), partitions: Some(partitions), ..NewTopic::default() };
    for result in Client::connect(settings.clone()).unwrap().create_topics(&[new]).unwrap() {
        result.unwrap();
    }
    topic
}

fn from_beginning() -> ConsumerConfig {
    let mut config = ConsumerConfig::default();
    config.limits.reset = Reset::Earliest;
    config.limits.wait_ms = 100;
    config
}

/// A time that no retention has passed: a broker may drop older records at once.
fn recent() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap() - 60_000
}

/// Reads until `count` records came.
fn read(consumer: &mut Consumer, count: usize, mut take: impl FnMut(Record<'_>)) {
    let end = Instant::now() + PATIENCE;
    let mut got = 0;
    while got < count {
        assert!(Instant::now() < end, "{got} of {count} records");
        got += consumer
            .poll(Duration::from_millis(200), |record| {
                take(record);
                ControlFlow::Continue(())
            })
            .unwrap();
    }
    assert_eq!(got, count);
}

fn value(partition: i32, index: u32) -> Vec<u8> {
    format!("{partition}/{index}/")
        .into_bytes()
        .into_iter()
        .chain(std::iter::repeat_n(b'x', index as usize % 200))
        .collect()
}

#[test]
fn records_come_back_whole_and_in_order_with_every_codec() {
    let Some(settings) = settings() else { return };
    let time = recent();
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let topic = create(&settings, "codec", 3);
        let limits = producer::Limits { codec, batch_bytes_max: 4000, ..producer::Limits::default() };
        let reports = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&reports);
        let config = ProducerConfig { limits, ..ProducerConfig::default() };
        let producer = Producer::with_reports(settings.clone(), config, move |report| {
            sink.lock().unwrap().push((report.partition, report.count, report.outcome));
        })
        .unwrap();
        let handle = producer.topic(&topic).unwrap();
        assert_eq!(producer.partitions(handle), 3);
        let headers = [
            Header { key: b"h", value: Some(b"1") },
            Header { key: b"h", value: None },
            Header { key: b"", value: Some(b"") },
        ];
        for index in 0..600u32 {
            let partition = (index % 3).cast_signed();
            let value = value(partition, index);
            let key = index.to_be_bytes();
            let record = NewRecord {
                timestamp: Some(time + i64::from(index)),
                key: (index % 2 == 0).then_some(&key),
                value: (index % 7 != 0).then_some(&value),
                headers: if index % 5 == 0 { &headers } else { &[] },
            };
            producer.send(handle, Some(partition), &record).unwrap();
        }
        producer.flush().unwrap();
        let mut stored: BTreeMap<i32, u32> = BTreeMap::new();
        for (partition, count, outcome) in reports.lock().unwrap().iter() {
            assert_eq!(outcome.unwrap(), i64::from(stored.get(partition).copied().unwrap_or(0)));
            *stored.entry(*partition).or_default() += count;
        }
        assert!(stored.values().all(|count| *count == 200), "{stored:?}");

        let mut consumer = Consumer::new(settings.clone(), from_beginning());
        consumer.assign(&[(&topic, 0, Start::Earliest), (&topic, 1, Start::Offset(0)), (&topic, 2, Start::Earliest)]);
        let mut next = [0i64; 3];
        read(&mut consumer, 600, |record| {
            let at = usize::try_from(record.partition).unwrap();
            assert_eq!(record.offset, next[at]);
            next[at] += 1;
            let index = u32::try_from(record.offset).unwrap() * 3 + record.partition.cast_unsigned();
            assert_eq!(record.timestamp, time + i64::from(index));
            let expected = value(record.partition, index);
            assert_eq!(record.value, (index % 7 != 0).then_some(&expected[..]));
            assert_eq!(record.key, (index % 2 == 0).then_some(&index.to_be_bytes()[..]));
            let expected = if index % 5 == 0 { headers.to_vec() } else { Vec::new() };
            assert_eq!(record.headers.collect::<Vec<_>>(), expected);
        });
    }
}

#[test]
fn a_seek_finds_an_offset_in_a_batch_and_a_time() {
    let Some(settings) = settings() else { return };
    let topic = create(&settings, "seek", 1);
    let time = recent();
    let producer = Producer::new(settings.clone(), ProducerConfig::default()).unwrap();
    let handle = producer.topic(&topic).unwrap();
    for index in 0..100i64 {
        let value = index.to_string();
        let record =
            NewRecord { timestamp: Some(time + index * 10), value: Some(value.as_bytes()), ..NewRecord::default() };
        producer.send(handle, Some(0), &record).unwrap();
    }
    producer.flush().unwrap();
    let mut consumer = Consumer::new(settings.clone(), from_beginning());
    for (start, first) in
        [(Start::Offset(42), 42), (Start::Timestamp(time + 205), 21), (Start::Earliest, 0), (Start::Timestamp(0), 0)]
    {
        consumer.assign(&[(&topic, 0, start)]);
        let mut seen = None;
        let got = read_until_some(&mut consumer, |record| {
            seen.get_or_insert(record.offset);
            ControlFlow::Break(())
        });
        assert_eq!((seen, got), (Some(first), 1), "{start:?}");
        assert_eq!(consumer.position(&topic, 0), Some(first + 1), "one was taken");
        // The rest of the batch comes with the next poll.
        read_until_some(&mut consumer, |record| {
            assert_eq!(record.offset, first + 1);
            ControlFlow::Break(())
        });
    }
    consumer.seek(&topic, 0, Start::Offset(99)).unwrap();
    read_until_some(&mut consumer, |record| {
        assert_eq!(record.offset, 99);
        ControlFlow::Continue(())
    });
    consumer.assign(&[(&topic, 0, Start::Latest)]);
    assert_eq!(consumer.poll(Duration::from_millis(300), |_| ControlFlow::Continue(())).unwrap(), 0);
}

fn read_until_some(consumer: &mut Consumer, mut take: impl FnMut(Record<'_>) -> ControlFlow<()>) -> usize {
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end);
        match consumer.poll(Duration::from_millis(500), &mut take).unwrap() {
            0 => {}
            count => return count,
        }
    }
}

#[test]
fn offsets_and_deleted_records_are_told() {
    let Some(settings) = settings() else { return };
    let topic = create(&settings, "offsets", 2);
    let time = recent();
    let producer = Producer::new(settings.clone(), ProducerConfig::default()).unwrap();
    let handle = producer.topic(&topic).unwrap();
    for index in 0..10i64 {
        let record = NewRecord { timestamp: Some(time + index), value: Some(b"v"), ..NewRecord::default() };
        producer.send(handle, Some(1), &record).unwrap();
    }
    producer.flush().unwrap();
    let mut admin = Client::connect(settings.clone()).unwrap();
    let wanted = [(topic.as_str(), 0, OffsetSpec::Latest), (topic.as_str(), 1, OffsetSpec::Latest)];
    let offsets = admin.list_offsets(&wanted).unwrap();
    assert_eq!(offsets.values().copied().collect::<Vec<_>>(), [0, 10]);
    let offsets = admin.list_offsets(&[(&topic, 1, OffsetSpec::Timestamp(time + 4))]).unwrap();
    assert_eq!(offsets[&(topic.clone(), 1)], 4);
    assert_eq!(admin.delete_records(&topic, &[(1, 7)]).unwrap(), [(1, 7)]);
    let offsets = admin.list_offsets(&[(&topic, 1, OffsetSpec::Earliest)]).unwrap();
    assert_eq!(offsets[&(topic.clone(), 1)], 7);
    // What is gone is out of range: the consumer goes where it is told.
    let mut consumer = Consumer::new(settings.clone(), from_beginning());
    consumer.assign(&[(&topic, 1, Start::Offset(2))]);
    read_until_some(&mut consumer, |record| {
        assert_eq!(record.offset, 7);
        ControlFlow::Break(())
    });
    let mut config = from_beginning();
    config.limits.reset = Reset::Error;
    let mut consumer = Consumer::new(settings, config);
    consumer.assign(&[(&topic, 1, Start::Offset(2))]);
    let error = (0..20).find_map(|_| consumer.poll(Duration::from_millis(200), |_| ControlFlow::Continue(())).err());
    assert_eq!(error.unwrap().code(), Some(ErrorCode::OFFSET_OUT_OF_RANGE));
    let error = admin.list_offsets(&[(&topic, 9, OffsetSpec::Earliest)]).unwrap_err();
    assert!(matches!(error, Error::NoPartition { partition: 9, count: 2, .. }), "{error}");
}

#[test]
fn topics_are_made_changed_and_deleted() {
    let Some(settings) = settings() else { return };
    let mut admin = Client::connect(settings.clone()).unwrap();
    let name = unique("admin");
    let new = NewTopic {
        name: name.clone(),
        partitions: Some(2),
        replicas: Some(1),
        configs: vec![("retention.ms".into(), "86400000".into())],
    };
    let bad = NewTopic { name: "no/such".into(), ..NewTopic::default() };
    let results = admin.create_topics(&[new.clone(), bad]).unwrap();
    assert!(results[0].is_ok(), "{results:?}");
    assert_eq!(results[1].as_ref().unwrap_err().code(), Some(ErrorCode::INVALID_TOPIC_EXCEPTION));
    let again = admin.create_topics(&[new]).unwrap().pop().unwrap().unwrap_err();
    assert_eq!(again.code(), Some(ErrorCode::TOPIC_ALREADY_EXISTS));
    assert!(again.to_string().contains("TOPIC_ALREADY_EXISTS"), "{again}");

    let configs = admin.topic_configs(&name).unwrap();
    let retention = configs.iter().find(|config| config.name == "retention.ms").unwrap();
    assert_eq!((retention.value.as_deref(), retention.is_set), (Some("86400000"), true));
    admin.alter_topic_configs(&name, &[("retention.ms", Some("3600000"))]).unwrap();
    let value = |admin: &mut Client| {
        let configs = admin.topic_configs(&name).unwrap();
        let retention = configs.into_iter().find(|config| config.name == "retention.ms").unwrap();
        (retention.value.unwrap(), retention.is_set)
    };
    // Apache Kafka's brokers learn of changes a moment after the answer.
    let end = Instant::now() + PATIENCE;
    while value(&mut admin) != ("3600000".to_owned(), true) {
        assert!(Instant::now() < end, "{:?}", value(&mut admin));
        std::thread::sleep(Duration::from_millis(20));
    }
    admin.alter_topic_configs(&name, &[("retention.ms", None)]).unwrap();
    while value(&mut admin).1 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(admin.alter_topic_configs(&name, &[("no.such.key", Some("1"))]).is_err());

    admin.create_partitions(&name, 4).unwrap();
    let partitions = |admin: &mut Client| admin.metadata(Some(&[&name])).unwrap().topics[0].partitions.len();
    let end = Instant::now() + PATIENCE;
    while partitions(&mut admin) != 4 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(50));
    }
    let error = admin.create_partitions(&name, 3).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::INVALID_PARTITIONS));

    let all = admin.metadata(None).unwrap();
    assert!(all.topics.iter().any(|topic| topic.name == name));
    for result in admin.delete_topics(&[&name]).unwrap() {
        result.unwrap();
    }
    let gone = admin.delete_topics(&[&name]).unwrap().pop().unwrap().unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
}

fn group(topic: &str, name: &str) -> GroupLimits {
    let mut limits = GroupLimits::new(name, vec![topic.to_owned()]);
    limits.session_ms = 6000;
    limits.heartbeat_ms = 200;
    limits
}

fn fill(settings: &Settings, topic: &str, partitions: i32, count: u32) {
    let producer = Producer::new(settings.clone(), ProducerConfig::default()).unwrap();
    let handle = producer.topic(topic).unwrap();
    for index in 0..count {
        let partition = index.cast_signed() % partitions;
        let value = index.to_string();
        let record = NewRecord { value: Some(value.as_bytes()), ..NewRecord::default() };
        producer.send(handle, Some(partition), &record).unwrap();
    }
    producer.flush().unwrap();
}

#[test]
fn a_group_resumes_from_what_it_committed() {
    let Some(settings) = settings() else { return };
    let topic = create(&settings, "resume", 2);
    let name = unique("group");
    fill(&settings, &topic, 2, 100);
    let mut consumer = Consumer::in_group(settings.clone(), from_beginning(), group(&topic, &name));
    let mut left = 30;
    while left > 0 {
        read_until_some(&mut consumer, |_| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    consumer.commit().unwrap();
    let mut admin = Client::connect(settings.clone()).unwrap();
    let committed = admin.committed(&name, None).unwrap();
    assert_eq!(committed.values().sum::<i64>(), 30, "{committed:?}");
    let described = admin.describe_group(&name).unwrap();
    assert_eq!((described.state.as_str(), described.members.len()), ("Stable", 1));
    assert_eq!(described.members[0].assignment, [(topic.clone(), vec![0, 1])]);
    assert!(admin.list_groups().unwrap().iter().any(|listed| listed.name == name));
    assert_eq!(admin.delete_group(&name).unwrap_err().code(), Some(ErrorCode::NON_EMPTY_GROUP));
    consumer.close().unwrap();

    let mut consumer = Consumer::in_group(settings.clone(), from_beginning(), group(&topic, &name));
    let mut seen = Vec::new();
    read(&mut consumer, 70, |record| seen.push((record.partition, record.offset)));
    for partition in 0..2 {
        let first = seen.iter().filter(|s| s.0 == partition).map(|s| s.1).min();
        assert_eq!(first, committed.get(&(topic.clone(), partition)).copied().or(Some(0)));
    }
    consumer.close().unwrap();
    assert_eq!(admin.committed(&name, None).unwrap().values().sum::<i64>(), 100, "close commits");
    // Offsets of a group without members can be moved.
    admin.commit_offsets(&name, &BTreeMap::from([((topic.clone(), 0), 5)])).unwrap();
    assert_eq!(admin.committed(&name, Some(&[(&topic, 0)])).unwrap()[&(topic, 0)], 5);
    assert_eq!(admin.describe_group(&name).unwrap().state, "Empty");
    admin.delete_group(&name).unwrap();
    assert_eq!(admin.describe_group(&name).unwrap().state, "Dead");
}

#[test]
fn members_share_partitions_and_take_over() {
    let Some(settings) = settings() else { return };
    let topic = create(&settings, "share", 4);
    let name = unique("group");
    fill(&settings, &topic, 4, 400);
    let mut limits = group(&topic, &name);
    limits.assignors = vec![Assignor::RoundRobin];
    let mut first = Consumer::in_group(settings.clone(), from_beginning(), limits.clone());
    let mut second = Consumer::in_group(settings, from_beginning(), limits);
    let mut seen: BTreeMap<(i32, i64), u32> = BTreeMap::new();
    let end = Instant::now() + PATIENCE;
    let pump = |consumer: &mut Consumer, seen: &mut BTreeMap<(i32, i64), u32>| {
        consumer
            .poll(Duration::from_millis(20), |record| {
                *seen.entry((record.partition, record.offset)).or_default() += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
    };
    while first.assignment().count() != 2 || second.assignment().count() != 2 || seen.len() < 400 {
        assert!(Instant::now() < end, "{} records seen", seen.len());
        pump(&mut first, &mut seen);
        pump(&mut second, &mut seen);
    }
    first.close().unwrap();
    while second.assignment().count() != 4 {
        assert!(Instant::now() < end);
        pump(&mut second, &mut seen);
    }
    // Everything was committed at each handover: nothing was read twice.
    assert!(seen.values().all(|times| *times == 1));
    second.close().unwrap();
}

#[test]
fn a_static_member_that_comes_back_keeps_its_partitions() {
    let Some(settings) = settings() else { return };
    let topic = create(&settings, "static", 2);
    fill(&settings, &topic, 2, 10);
    let mut limits = group(&topic, &unique("group"));
    limits.instance = Some("one".into());
    let mut consumer = Consumer::in_group(settings.clone(), from_beginning(), limits.clone());
    read(&mut consumer, 10, |_| {});
    consumer.close().unwrap();
    let begun = Instant::now();
    let mut consumer = Consumer::in_group(settings, from_beginning(), limits);
    while consumer.assignment().count() != 2 {
        assert!(begun.elapsed() < Duration::from_secs(5), "it waits for its own old session");
        consumer.poll(Duration::from_millis(20), |_| ControlFlow::Continue(())).unwrap();
    }
    consumer.close().unwrap();
}

#[test]
fn every_ack_mode_stores_and_a_key_has_its_partition() {
    let Some(settings) = settings() else { return };
    let topic = create(&settings, "acks", 4);
    // The new topic's leader may not be ready at first, and with no acks nobody would know: that comes last.
    for acks in [Acks::All, Acks::Leader, Acks::None] {
        let limits = producer::Limits { acks, ..producer::Limits::default() };
        let config = ProducerConfig { limits, ..ProducerConfig::default() };
        let producer = Producer::new(settings.clone(), config).unwrap();
        let handle = producer.topic(&topic).unwrap();
        for index in 0..40u32 {
            let key = (index % 8).to_string();
            let record = NewRecord { key: Some(key.as_bytes()), value: Some(b"v"), ..NewRecord::default() };
            producer.send(handle, None, &record).unwrap();
        }
        producer.flush().unwrap();
        if acks == Acks::None {
            // Nothing tells when it is stored.
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    let mut consumer = Consumer::new(settings, from_beginning());
    let parts: Vec<_> = (0..4).map(|partition| (topic.as_str(), partition, Start::Earliest)).collect();
    consumer.assign(&parts);
    let mut homes: BTreeMap<Vec<u8>, i32> = BTreeMap::new();
    read(&mut consumer, 120, |record| {
        let key = record.key.unwrap();
        assert_eq!(*homes.entry(key.to_vec()).or_insert(record.partition), record.partition);
        assert_eq!(client::partitioner::by_key(key, 4), record.partition.cast_unsigned());
    });
    assert_eq!(homes.len(), 8);
}

#[test]
fn refusals_have_names() {
    let Some(settings) = settings() else { return };
    let topic = create(&settings, "refuse", 1);
    let mut admin = Client::connect(settings.clone()).unwrap();
    admin.alter_topic_configs(&topic, &[("max.message.bytes", Some("1000"))]).unwrap();
    let producer = Producer::new(settings.clone(), ProducerConfig::default()).unwrap();
    let handle = producer.topic(&topic).unwrap();
    let big = vec![7; 5000];
    producer.send(handle, Some(0), &NewRecord { value: Some(&big), ..NewRecord::default() }).unwrap();
    let error = producer.flush().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::MESSAGE_TOO_LARGE), "{error}");
    producer.send(handle, Some(0), &NewRecord { value: Some(b"small"), ..NewRecord::default() }).unwrap();
    producer.flush().unwrap();
    let error = producer.send(handle, Some(5), &NewRecord::default()).unwrap_err();
    assert!(matches!(error, Error::NoPartition { partition: 5, count: 1, .. }), "{error}");
    let error = producer.topic("no/such topic").unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::INVALID_TOPIC_EXCEPTION), "{error}");
    let huge = vec![0; 2 << 20];
    let error = producer.send(handle, Some(0), &NewRecord { value: Some(&huge), ..NewRecord::default() }).unwrap_err();
    assert!(matches!(error, Error::RecordTooLarge { .. }), "{error}");

    let nobody = Settings::new("127.0.0.1:1").unwrap();
    let error = Client::connect(nobody).unwrap_err();
    assert!(error.to_string().starts_with("cannot reach 127.0.0.1:1: "), "{error}");
}
