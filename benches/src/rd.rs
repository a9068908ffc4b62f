//! librdkafka as the load: what a user of most Kafka clients would measure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rdkafka::ClientContext;
use rdkafka::Message as _;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

#[derive(Clone, Default)]
struct Deliveries {
    acked: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() { &self.acked } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Produces `records` values of `size` bytes with acks=all to `topic`, spread over its partitions; seconds.
pub fn produce(bootstrap: &str, topic: &str, records: u64, size: usize) -> Result<f64> {
    let deliveries = Deliveries::default();
    let producer: BaseProducer<Deliveries> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("acks", "all")
        .set("linger.ms", "5")
        .set("batch.size", "1000000")
        .set("queue.buffering.max.messages", "200000")
        .set("queue.buffering.max.kbytes", "400000")
        .create_with_context(deliveries.clone())?;
    let mut value = vec![0u8; size];
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for chunk in value.chunks_mut(8) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
    let started = Instant::now();
    for _ in 0..records {
        let mut record = BaseRecord::<(), [u8]>::to(topic).payload(&value);
        while let Err((error, back)) = producer.send(record) {
            ensure!(error == KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), "produce: {error}");
            producer.poll(Duration::from_millis(5));
            record = back;
        }
    }
    producer.flush(Duration::from_secs(120))?;
    let seconds = started.elapsed().as_secs_f64();
    let (acked, failed) = (deliveries.acked.load(Ordering::Relaxed), deliveries.failed.load(Ordering::Relaxed));
    ensure!(acked == records && failed == 0, "{acked} of {records} acked, {failed} failed");
    Ok(seconds)
}

/// The same from several producers at once, each with its share.
pub fn produce_many(bootstrap: &str, topic: &str, records: u64, size: usize, producers: u64) -> Result<f64> {
    let started = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> =
            (0..producers).map(|_| scope.spawn(|| produce(bootstrap, topic, records / producers, size))).collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a producer panicked"))??;
        }
        Ok(())
    })?;
    Ok(started.elapsed().as_secs_f64())
}

/// Reads `records` records from the beginning of every partition; seconds.
pub fn drain(bootstrap: &str, topic: &str, partitions: i32, records: u64) -> Result<f64> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "drain")
        .set("enable.auto.commit", "false")
        .set("queued.min.messages", "100000")
        .set("fetch.max.bytes", "52428800")
        .create()?;
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    let started = Instant::now();
    consumer.assign(&list)?;
    let mut seen = 0;
    while seen < records {
        let message = consumer.poll(Duration::from_secs(30)).context("nothing arrived within 30 s")??;
        std::hint::black_box(message.payload());
        seen += 1;
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Nanoseconds from send to acknowledgement of `count` records, one in flight, without linger.
pub fn one_in_flight(bootstrap: &str, topic: &str, size: usize, count: usize) -> Result<Vec<f64>> {
    let deliveries = Deliveries::default();
    let producer: BaseProducer<Deliveries> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("acks", "all")
        .set("linger.ms", "0")
        .create_with_context(deliveries.clone())?;
    let value = vec![7u8; size];
    let mut times = Vec::with_capacity(count);
    for i in 0..count as u64 {
        let started = Instant::now();
        let record = BaseRecord::<(), [u8]>::to(topic).payload(&value);
        producer.send(record).map_err(|(error, _)| error)?;
        while deliveries.acked.load(Ordering::Relaxed) <= i {
            // Without a wait: `poll` would not return before its time is up.
            producer.poll(Duration::ZERO);
            ensure!(deliveries.failed.load(Ordering::Relaxed) == 0, "a record was not acknowledged");
        }
        times.push(started.elapsed().as_secs_f64() * 1e9);
    }
    Ok(times)
}
