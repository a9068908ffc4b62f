//! Requests and responses, written and read by an independent implementation of the protocol.

use base::{Checksums, TopicId};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiKey, BrokerId, FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse, ProduceRequest,
    ProduceResponse, RequestHeader, ResponseHeader, TopicName, TransactionalId,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use protocol::batch::{BatchBuilder, Batches, Producer};
use uuid::Uuid;

use super::{Client, World};

pub fn name(text: &str) -> TopicName {
    TopicName(StrBytes::from_string(text.into()))
}

/// A batch of `count` records whose values are `value` and a number.
pub fn batch_of(count: usize, value: &str) -> Vec<u8> {
    batch_by(count, value, Producer::NONE)
}

pub fn batch_by(count: usize, value: &str, producer: Producer) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for i in 0..count {
        builder.append(1_700_000_000_000, None, Some(format!("{value}-{i}").as_bytes()), &[]);
    }
    builder.finish(producer, &Checksums::portable()).to_vec()
}

/// One record of `len` bytes.
pub fn batch_sized(len: usize) -> Vec<u8> {
    batch_at(1_700_000_000_000, len)
}

/// One record of `len` bytes with a timestamp.
pub fn batch_at(timestamp: i64, len: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.append(timestamp, None, Some(&vec![7; len]), &[]);
    builder.finish(Producer::NONE, &Checksums::portable()).to_vec()
}

pub fn frame<T: Encodable>(key: ApiKey, version: i16, correlation: i32, body: &T) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    let header = RequestHeader::default()
        .with_request_api_key(key as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(Some(StrBytes::from_static_str("test")));
    header.encode(&mut bytes, key.request_header_version(version)).unwrap();
    body.encode(&mut bytes, version).unwrap();
    let mut framed = (bytes.len() as i32).to_be_bytes().to_vec();
    framed.extend_from_slice(&bytes);
    framed
}

pub fn decode<T: Decodable>(key: ApiKey, version: i16, response: Vec<u8>) -> (i32, T) {
    let mut bytes = Bytes::from(response);
    let header = ResponseHeader::decode(&mut bytes, key.response_header_version(version)).unwrap();
    let body = T::decode(&mut bytes, version).unwrap();
    assert!(bytes.is_empty(), "{} bytes behind the response", bytes.len());
    (header.correlation_id, body)
}

/// One partition of a Fetch.
pub fn want(partition: i32, offset: i64) -> FetchPartition {
    FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_current_leader_epoch(-1)
        .with_last_fetched_epoch(-1)
        .with_partition_max_bytes(1 << 20)
}

/// A Fetch of one topic that answers at once.
pub fn fetch(topic: &str, partitions: Vec<FetchPartition>) -> FetchRequest {
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(0)
        .with_min_bytes(1)
        .with_max_bytes(8 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![FetchTopic::default().with_topic(name(topic)).with_partitions(partitions)])
}

pub fn by_id(mut request: FetchRequest, id: TopicId) -> FetchRequest {
    for topic in &mut request.topics {
        topic.topic_id = Uuid::from_u128(id.0);
    }
    for topic in &mut request.forgotten_topics_data {
        topic.topic_id = Uuid::from_u128(id.0);
    }
    request
}

pub fn forgotten(topic: &str, partitions: Vec<i32>) -> ForgottenTopic {
    ForgottenTopic::default().with_topic(name(topic)).with_partitions(partitions)
}

pub fn produce(acks: i16, topic: &str, batches: &[(i32, Vec<u8>)]) -> ProduceRequest {
    let data = |(index, records): &(i32, Vec<u8>)| {
        PartitionProduceData::default().with_index(*index).with_records(Some(Bytes::from(records.clone())))
    };
    let topic =
        TopicProduceData::default().with_name(name(topic)).with_partition_data(batches.iter().map(data).collect());
    ProduceRequest::default().with_acks(acks).with_timeout_ms(1000).with_topic_data(vec![topic])
}

pub fn transactional(request: ProduceRequest, id: &'static str) -> ProduceRequest {
    request.with_transactional_id(Some(TransactionalId(StrBytes::from_static_str(id))))
}

pub fn list_offsets(topic: &str, asked: &[(i32, i64)]) -> ListOffsetsRequest {
    let partition = |(index, timestamp): &(i32, i64)| {
        ListOffsetsPartition::default()
            .with_partition_index(*index)
            .with_timestamp(*timestamp)
            .with_current_leader_epoch(-1)
    };
    let topic =
        ListOffsetsTopic::default().with_name(name(topic)).with_partitions(asked.iter().map(partition).collect());
    ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic])
}

/// Values of the records in a partition's bytes, with their offsets.
pub fn records(bytes: Option<&Bytes>) -> Vec<(i64, String)> {
    let mut all = Vec::new();
    let Some(bytes) = bytes else { return all };
    for batch in Batches::new(bytes) {
        let batch = batch.unwrap();
        batch.verify_crc(&Checksums::portable()).unwrap();
        for (at, record) in batch.records().enumerate() {
            let value = String::from_utf8_lossy(record.unwrap().value.unwrap_or_default()).into_owned();
            all.push((batch.base_offset() + at as i64, value));
        }
    }
    all
}

impl Client {
    pub fn send<T: Encodable>(&mut self, world: &mut World, key: ApiKey, version: i16, body: &T) -> i32 {
        self.correlation += 1;
        let bytes = frame(key, version, self.correlation, body);
        self.push(world, &bytes);
        self.correlation
    }

    fn call<T: Encodable, R: Decodable>(&mut self, world: &mut World, key: ApiKey, version: i16, body: &T) -> R {
        let correlation = self.send(world, key, version, body);
        world.run();
        let response = self.pop(world).expect("an answer");
        let (read, body) = decode(key, version, response);
        assert_eq!(read, correlation);
        body
    }

    pub fn produce(&mut self, world: &mut World, version: i16, body: &ProduceRequest) -> ProduceResponse {
        self.call(world, ApiKey::Produce, version, body)
    }

    pub fn fetch(&mut self, world: &mut World, version: i16, body: &FetchRequest) -> FetchResponse {
        self.call(world, ApiKey::Fetch, version, body)
    }

    pub fn list_offsets(&mut self, world: &mut World, version: i16, body: &ListOffsetsRequest) -> ListOffsetsResponse {
        self.call(world, ApiKey::ListOffsets, version, body)
    }

    /// Produces one batch with acks=all; the base offset.
    pub fn put(&mut self, world: &mut World, topic: &str, partition: i32, batch: Vec<u8>) -> i64 {
        let response = self.produce(world, 9, &produce(-1, topic, &[(partition, batch)]));
        let answer = &response.responses[0].partition_responses[0];
        assert_eq!(answer.error_code, 0);
        answer.base_offset
    }
}

/// Makes the CRC right again after a change.
pub fn fix_crc(batch: &mut [u8]) {
    let crc = (Checksums::portable().crc32c)(0, &batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}
