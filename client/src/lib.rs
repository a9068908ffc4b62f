#![deny(missing_docs)]
//! x
pub mod assignor;
pub mod codec;
pub mod connection;
pub mod consumer;
pub mod error;
pub mod group;
pub mod metadata;
pub mod partitioner;
pub mod producer;
pub mod wire;
