//! Consumer groups: Kafka's classic group protocol, its consumer protocol (KIP-848) and committed offsets, as a machine
//! without I/O.
//!
//! A [`Coordinator`] is told [`Event`]s with the time and pushes [`Effect`]s: replies, and records to append to a partition
//! of `__consumer_offsets`. What it keeps is a fold over those records, so a restart replays them. It never reads a clock,
//! draws a random number, waits, or knows Kafka's bytes; the one exception is the list of topics inside a consumer's
//! subscription, without which Kafka's rules about subscribed topics cannot be kept.
//!
//! Membership and offsets ([`offsets`]) of a group are separate: it has its members by one protocol at a time ([`classic`],
//! [`consumer`]), and everything else is shared.
#![no_std]

extern crate alloc;

mod classic;
mod config;
mod consumer;
mod coordinator;
mod error;
mod event;
mod hash;
mod log;
mod offsets;
mod record;
mod snapshot;
mod subscription;
mod timers;

#[cfg(test)]
mod tests;

pub use config::Config;
pub use consumer::value::{ConsumerKey, ConsumerValue, Current, Held, MemberState, Partitions, Subscriber};
pub use coordinator::Coordinator;
pub use error::Error;
pub use event::{
    Beat, BeatReply, Commit, CommitPartition, CommitTopic, DeleteOffsets, DeleteTopic, Described, DescribedConsumer,
    DescribedMember, DescribedSubscriber, Effect, Event, FetchedOffset, FetchedTopics, Join, JoinReply, JoinedMember,
    Leave, LeaveMember, LeftMember, Listed, Member, Refused, RejectedCommit, Reply, Sync, SyncReply, Token,
};
pub use hash::slot_of;
pub use log::AppendId;
pub use record::{GroupValue, MemberValue, OffsetValue, Record};
pub use snapshot::{Cursor, TrimPolicy};

/// Longest text that a record can hold: Kafka's strings have a length of 16 bits.
const TEXT_BYTES_MAX: usize = 32_767;

/// A partition of `__consumer_offsets`, by index. Every group belongs to one ([`slot_of`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);
