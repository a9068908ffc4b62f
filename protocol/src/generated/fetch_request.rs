// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use base::TopicId;

use crate::api::ApiKey;
use crate::messages::{Message, Request, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader, put_tag, put_uvarint};

#[derive(Clone, Debug, PartialEq)]
pub struct FetchRequest<'a> {
    pub cluster_id: Option<&'a str>,
    pub replica_id: i32,
    pub replica_state: ReplicaState,
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    pub isolation_level: i8,
    pub session_id: i32,
    pub session_epoch: i32,
    pub topics: Vec<FetchTopic<'a>>,
    pub forgotten_topics_data: Vec<ForgottenTopic<'a>>,
    pub rack_id: &'a str,
}

impl Default for FetchRequest<'_> {
    fn default() -> Self {
        Self {
            cluster_id: Default::default(),
            replica_id: -1,
            replica_state: Default::default(),
            max_wait_ms: Default::default(),
            min_bytes: Default::default(),
            max_bytes: i32::MAX,
            isolation_level: Default::default(),
            session_id: Default::default(),
            session_epoch: -1,
            topics: Default::default(),
            forgotten_topics_data: Default::default(),
            rack_id: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for FetchRequest<'a> {
    const BYTES_MIN: usize = 21;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.upto(14) {
            message.replica_id = get(reader, version)?;
        }
        message.max_wait_ms = get(reader, version)?;
        message.min_bytes = get(reader, version)?;
        message.max_bytes = get(reader, version)?;
        message.isolation_level = get(reader, version)?;
        if version.from(7) {
            message.session_id = get(reader, version)?;
        }
        if version.from(7) {
            message.session_epoch = get(reader, version)?;
        }
        message.topics = get(reader, version)?;
        if version.from(7) {
            message.forgotten_topics_data = get(reader, version)?;
        }
        if version.from(11) {
            message.rack_id = get(reader, version)?;
        }
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 => message.cluster_id = get(reader, version)?,
                    1 if version.from(15) => message.replica_state = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.upto(14) {
            self.replica_id.write(out, version);
        }
        self.max_wait_ms.write(out, version);
        self.min_bytes.write(out, version);
        self.max_bytes.write(out, version);
        self.isolation_level.write(out, version);
        if version.from(7) {
            self.session_id.write(out, version);
        }
        if version.from(7) {
            self.session_epoch.write(out, version);
        }
        self.topics.write(out, version);
        if version.from(7) {
            self.forgotten_topics_data.write(out, version);
        }
        if version.from(11) {
            self.rack_id.write(out, version);
        }
        if version.flexible() {
            let has_cluster_id = self.cluster_id.is_some();
            let has_replica_state = version.from(15) && self.replica_state != ReplicaState::default();
            put_uvarint(out, u32::from(has_cluster_id) + u32::from(has_replica_state));
            if has_cluster_id {
                put_tag(out, 0, &mut |out| self.cluster_id.write(out, version));
            }
            if has_replica_state {
                put_tag(out, 1, &mut |out| self.replica_state.write(out, version));
            }
        }
    }
}

impl<'a> Message<'a> for FetchRequest<'a> {
    const VERSIONS: RangeInclusive<i16> = 4..=18;
    const FLEXIBLE: i16 = 12;
}

impl<'a> Request<'a> for FetchRequest<'a> {
    const KEY: ApiKey = ApiKey::Fetch;
    type Response<'r> = super::FetchResponse<'r>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaState {
    pub replica_id: i32,
    pub replica_epoch: i64,
}

impl Default for ReplicaState {
    fn default() -> Self {
        Self { replica_id: -1, replica_epoch: -1 }
    }
}

impl<'a> Wire<'a> for ReplicaState {
    const BYTES_MIN: usize = 13;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.replica_id = get(reader, version)?;
        message.replica_epoch = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.replica_id.write(out, version);
        self.replica_epoch.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct FetchTopic<'a> {
    pub topic: &'a str,
    pub topic_id: TopicId,
    pub partitions: Vec<FetchPartition>,
}

impl<'a> Wire<'a> for FetchTopic<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.upto(12) {
            message.topic = get(reader, version)?;
        }
        if version.from(13) {
            message.topic_id = get(reader, version)?;
        }
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.upto(12) {
            self.topic.write(out, version);
        }
        if version.from(13) {
            self.topic_id.write(out, version);
        }
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchPartition {
    pub partition: i32,
    pub current_leader_epoch: i32,
    pub fetch_offset: i64,
    pub last_fetched_epoch: i32,
    pub log_start_offset: i64,
    pub partition_max_bytes: i32,
    pub replica_directory_id: u128,
    pub high_watermark: i64,
}

impl Default for FetchPartition {
    fn default() -> Self {
        Self {
            partition: Default::default(),
            current_leader_epoch: -1,
            fetch_offset: Default::default(),
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: Default::default(),
            replica_directory_id: Default::default(),
            high_watermark: i64::MAX,
        }
    }
}

impl<'a> Wire<'a> for FetchPartition {
    const BYTES_MIN: usize = 16;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition = get(reader, version)?;
        if version.from(9) {
            message.current_leader_epoch = get(reader, version)?;
        }
        message.fetch_offset = get(reader, version)?;
        if version.from(12) {
            message.last_fetched_epoch = get(reader, version)?;
        }
        if version.from(5) {
            message.log_start_offset = get(reader, version)?;
        }
        message.partition_max_bytes = get(reader, version)?;
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 if version.from(17) => message.replica_directory_id = get(reader, version)?,
                    1 if version.from(18) => message.high_watermark = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.partition.write(out, version);
        if version.from(9) {
            self.current_leader_epoch.write(out, version);
        }
        self.fetch_offset.write(out, version);
        if version.from(12) {
            self.last_fetched_epoch.write(out, version);
        }
        if version.from(5) {
            self.log_start_offset.write(out, version);
        }
        self.partition_max_bytes.write(out, version);
        if version.flexible() {
            let has_replica_directory_id = version.from(17) && self.replica_directory_id != Default::default();
            let has_high_watermark = version.from(18) && self.high_watermark != i64::MAX;
            put_uvarint(out, u32::from(has_replica_directory_id) + u32::from(has_high_watermark));
            if has_replica_directory_id {
                put_tag(out, 0, &mut |out| self.replica_directory_id.write(out, version));
            }
            if has_high_watermark {
                put_tag(out, 1, &mut |out| self.high_watermark.write(out, version));
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ForgottenTopic<'a> {
    pub topic: &'a str,
    pub topic_id: TopicId,
    pub partitions: Vec<i32>,
}

impl<'a> Wire<'a> for ForgottenTopic<'a> {
    const BYTES_MIN: usize = 3;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version.upto(12) {
            message.topic = get(reader, version)?;
        }
        if version.from(13) {
            message.topic_id = get(reader, version)?;
        }
        message.partitions = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        if version.upto(12) {
            self.topic.write(out, version);
        }
        if version.from(13) {
            self.topic_id.write(out, version);
        }
        self.partitions.write(out, version);
        put_no_tags(out, version);
    }
}
