//! The control plane: everything that is not the data path, on Tokio.
//!
//! It keeps metadata, hosts the group coordinators, answers all APIs but those of the data path, and serves HTTP. What it
//! wants of a shard it asks for by message. Never here: the data plane's crates, devices, record batches on their way.

mod api;
pub mod codec;
pub mod context;
pub mod control;
pub mod dataplane;
mod errors;
pub mod groups;
pub mod http;
pub mod logging;
pub mod metadata;
pub mod moves;
mod producer_ids;
pub mod random;
pub mod settings;
pub mod shards;
pub mod stats;

pub use context::Context;
pub use control::Control;
pub use settings::BrokerSettings;
