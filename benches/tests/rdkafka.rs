//! The rdkafka crate against the real binary: keyed, headed, compressed records and a group that resumes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use benches::broker::{Broker, binary};
use rdkafka::ClientConfig;
use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::message::{Header, Headers as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

type Seen = BTreeSet<(i32, i64, Vec<u8>, Vec<u8>, Vec<u8>)>;

fn consume(bootstrap: &str, count: usize) -> Seen {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "rd")
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .create()
        .unwrap();
    consumer.subscribe(&["rd"]).unwrap();
    let mut seen = Seen::new();
    let deadline = Instant::now() + Duration::from_secs(40);
    while seen.len() < count && Instant::now() < deadline {
        let Some(message) = consumer.poll(Duration::from_millis(500)) else { continue };
        let message = message.unwrap();
        let header = message.headers().unwrap().get(0).value.unwrap().to_vec();
        let (key, value) = (message.key().unwrap().to_vec(), message.payload().unwrap().to_vec());
        assert!(seen.insert((message.partition(), message.offset(), key, value, header)));
        consumer.store_offset_from_message(&message).unwrap();
    }
    consumer.commit_consumer_state(CommitMode::Sync).unwrap();
    seen
}

#[test]
fn rdkafka_round_trips_and_its_group_resumes() {
    if binary().is_none() {
        assert!(std::env::var_os("CI").is_none(), "skipped in CI: BARELOG_BIN names no binary");
        eprintln!("SKIPPED: BARELOG_BIN names no binary; cargo xtask test sets it");
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let broker = Broker::start(&dir.path().join("data"), &["--partitions", "3"]).unwrap();
    let bootstrap = broker.bootstrap();
    let mut sent = BTreeSet::new();
    for codec in ["none", "lz4"] {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", &bootstrap)
            .set("enable.idempotence", "true")
            .set("compression.type", codec)
            .set("linger.ms", "10")
            .create()
            .unwrap();
        for n in 0..300 {
            let (key, value) = (format!("k{}", n % 11), format!("{codec}-{n}"));
            let headers = OwnedHeaders::new().insert(Header { key: "codec", value: Some(codec) });
            producer.send(BaseRecord::to("rd").key(&key).payload(&value).headers(headers)).map_err(|(e, _)| e).unwrap();
            sent.insert((key.into_bytes(), value.into_bytes(), codec.as_bytes().to_vec()));
        }
        producer.flush(Duration::from_secs(30)).unwrap();
    }
    let first = consume(&bootstrap, 250);
    let rest = consume(&bootstrap, sent.len() - 250);
    assert!(first.is_disjoint(&rest), "the second member read again what the first had committed");
    let seen: BTreeSet<_> =
        first.into_iter().chain(rest).map(|(_, _, key, value, header)| (key, value, header)).collect();
    assert_eq!(seen, sent);
}
