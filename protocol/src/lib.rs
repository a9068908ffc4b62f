//! Kafka bytes and their meaning: request framing, record batches, hand-written views of the hot path, generated messages.
//!
//! It holds no state, allocates nothing per record and trusts no length: whatever is read is bounded by the bytes that
//! are there.
//!
//! * [`batch`]: record batch v2, view, builder, stamping.
//! * [`frame`], [`api`], [`error`]: request and response headers, what this broker serves, Kafka's error codes.
//! * [`produce`], [`fetch`], [`list_offsets`]: zero-copy requests and response writers of the data path.
//! * [`messages`]: every message in both directions, generated from Kafka's schemas.
#![no_std]
#![deny(missing_docs, clippy::indexing_slicing)]

extern crate alloc;

pub mod api;
pub mod batch;
pub mod error;
pub mod fetch;
pub mod frame;
mod generated;
pub mod list_offsets;
pub mod messages;
pub mod produce;
mod view;
pub mod wire;

pub use view::{Element, Elements, Leader, NodeEndpoint, TopicRef};
