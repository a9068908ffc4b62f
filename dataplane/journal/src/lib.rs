//! The journal: units, frames, extents, index, recovery, retention. A machine without I/O.
//!
//! A journal is a totally ordered, checksummed log shared by many partitions; `docs/FORMAT.md` draws its bytes. [`Store`]
//! holds the journals of one shard. It is told of completions and the time, and gives back effects. Recovery, which runs
//! before a shard serves, reads through the blocking [`storage::Storage`] instead.
//!
//! Never here: sockets, peers, groups, clocks, threads.
#![no_std]

extern crate alloc;

mod append;
mod checkpoint;
mod cluster;
mod cold;
mod commit;
mod compact;
mod damage;
pub mod device;
pub mod format;
pub mod homes;
mod index;
pub mod inspect;
mod journal;
mod lane;
mod partition;
pub mod pool;
mod producers;
mod read;
pub mod recovery;
mod retention;
pub mod storage;
pub mod store;
#[cfg(test)]
mod testing;
mod time;

pub use store::Store;
