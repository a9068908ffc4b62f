//! The cluster's metadata as a pure machine: topics, their settings, partitions and journals, and the counters from which
//! ids and epochs are drawn.
//!
//! [`State::apply`] takes one [`Command`] and is deterministic, so that a replicated log of commands gives every broker the
//! same state. What a broker knows of itself only (its shards, the order of its devices, its listeners) is no part of that
//! state; [`Images`] joins the two into the [`base::image::Image`] that shards read.
//!
//! This crate never does I/O, never reads a clock and draws no random numbers: commands carry what chance they need.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod codec;
pub mod command;
pub mod config;
pub mod images;
mod moves;
pub mod name;
mod placement;
pub mod state;

pub use command::{Command, ConfigChange, ConfigOp, MoveTo};
pub use images::{Images, Local, MissingDevice};
pub use state::{Answer, Applied, Change, Refused, State};
