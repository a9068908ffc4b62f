//! Ids, units, time, limits, checksums, memory and the messages between shards and the control plane.
//!
//! This crate knows numbers and names. It never knows Kafka's bytes, a disk or a NIC, and it does no I/O.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

pub mod checksum;
pub mod codecs;
pub mod ids;
pub mod image;
pub mod memory;
pub mod message;
pub mod stats;
pub mod time;

pub use checksum::Checksums;
pub use codecs::Codecs;
pub use ids::{
    BrokerId, ClusterId, ConnId, DeviceIndex, Epoch, JournalId, Offset, PartitionId, Position, ProducerEpoch,
    ProducerId, ShardId, TopicId,
};
pub use time::{Mono, Now, WallMs};
