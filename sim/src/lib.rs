//! The world in a box: simulated devices and memory around the real machines, in one thread, from one seed.
//!
//! The product knows nothing of this crate: what is here are other implementations of its traits. The same seed gives the
//! same run, byte for byte. Never here: a clock, a thread, a socket, a file.

pub mod arena;
pub mod audit;
pub mod broker;
pub mod chance;
pub mod compacted;
pub mod disk;
pub mod levels;
pub mod model;
pub mod recover;
pub mod run;
pub mod summary;
mod sums;
pub mod world;

pub use arena::SimArena;
pub use chance::Chance;
pub use disk::Disk;
pub use sums::sums;
