//! Kafka bytes and their meaning: request framing, record batches, hand-written hot-path views, generated messages.
#![no_std]

extern crate alloc;

pub mod batch;
