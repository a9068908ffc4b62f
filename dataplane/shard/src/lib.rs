//! One core's mind: connections, dispatch, produce, fetch, waiting fetches. A machine without I/O.
//!
//! [`ports`] are the traits through which it reaches network, devices, memory and its neighbours; `turn()` is the loop body
//! that ships and that is simulated. Never here: DPDK, io_uring, Tokio, clocks, threads.
#![no_std]

extern crate alloc;

mod limits;
pub mod ports;
mod queue;
pub mod remote;
mod shard;

pub use limits::{Limits, ShardConfig};
pub use shard::{Idle, Shard};
