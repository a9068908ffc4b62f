//! Devices: a preallocated file or a raw block device, with `O_DIRECT`.
//!
//! [`DeviceFile`] is the open, locked device that everything shares; [`BlockingStorage`] is its blocking face for recovery, the
//! keeper and tools; `ring` submits a shard's writes, flushes and reads through io_uring. All of them use the same open file
//! description, on which the lock lies: the kernel holds it until the last request of a killed process has ended.

mod file;
mod flushes;
mod policy;
mod ring;
mod storage;
#[cfg(test)]
mod tests;

pub use file::{DeviceError, DeviceFile, DeviceKind};
pub use flushes::Flushes;
pub use policy::DevicePolicy;
pub use ring::RingDevices;
pub use storage::BlockingStorage;
#[cfg(test)]
pub(crate) use storage::OnFlush;
