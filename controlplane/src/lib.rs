//! The control plane: everything that is not the data path, on Tokio.

pub mod dataplane;
pub mod groups;
