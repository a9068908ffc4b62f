//! The control plane: everything that is not the data path, on Tokio.

pub mod dataplane;
pub mod groups;
pub mod metadata;
pub mod random;
pub mod settings;
pub mod shards;

pub use settings::BrokerSettings;
