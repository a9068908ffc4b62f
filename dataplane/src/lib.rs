//! The hands of a core: memory, sockets, devices, rings and threads, behind the traits of the `shard` crate.
//!
//! What touches the hot path of the data plane's world lives here and nowhere else. It decides nothing: what to write, to
//! answer or to free is decided by the pure machines (`shard`, `journal`). Never here: Kafka, the control plane, Tokio.

pub mod arena;
pub mod check;
pub mod checksums;
pub mod device;
pub mod keeper;
pub mod net;
pub mod ring;
pub mod rings;
pub mod thread;

#[cfg(test)]
mod testing;
