//! A Kafka client: idempotent producer, consumer with group membership, administration.
//!
//! Two layers, kept apart. The **machines** decide and never touch the world: [`connection`] (request headers, correlation,
//! version negotiation), [`metadata`] (who leads what), [`producer`] (batching, order, retries), [`consumer`] (positions,
//! fetches), [`group`] (membership) with [`assignor`]; they take events and the time and give effects. The **drivers** in
//! [`driver`] move bytes over blocking TCP with threads and are what an application uses: [`Client`] for administration,
//! [`Producer`], [`Consumer`].
//!
//! It works against any broker that speaks the Kafka protocol of Kafka 2.4 or newer, and knows nothing of a particular one.
//! It never speaks TLS or SASL and has no transactions.
#![deny(missing_docs)]

pub mod assignor;
pub mod codec;
pub mod connection;
pub mod consumer;
pub mod driver;
pub mod error;
pub mod group;
pub mod metadata;
pub mod partitioner;
pub mod producer;
pub mod wire;

pub use driver::{Client, Consumer, ConsumerConfig, Producer, ProducerConfig, Settings};
pub use error::{Error, Result};
