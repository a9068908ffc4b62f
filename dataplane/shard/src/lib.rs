//! One core's mind: connections, dispatch, produce, fetch, waiting fetches. A machine without I/O.
//!
//! [`ports`] are the traits through which it reaches network, devices, memory and its neighbours; `turn()` is the loop body
//! that ships and that is simulated. Never here: DPDK, io_uring, Tokio, clocks, threads.
#![no_std]

extern crate alloc;

mod append;
mod command;
mod conn;
mod dispatch;
mod errors;
mod fetch;
mod homes;
mod limits;
mod neighbour;
mod offsets;
mod old_produce;
mod outbox;
pub mod ports;
mod produce;
mod queue;
mod read;
pub mod remote;
mod respond;
mod route;
mod session;
mod shard;
mod stop;
mod waiting;

pub use limits::{Limits, ShardConfig};
pub use shard::{Idle, Shard};
