//! The host of the group machine: the group APIs, and offsets and group metadata in `__consumer_offsets`.

use std::future::Future;
use std::sync::Arc;

use base::image::{Image, TopicEntry};

/// The internal topic's name.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// What the coordinator needs of the cluster's metadata.
pub trait Catalog: Send + Sync + 'static {
    /// The metadata now.
    fn image(&self) -> Arc<Image>;

    /// [`OFFSETS_TOPIC`], created if it does not exist yet; done when its partitions serve. May be called more than once at
    /// the same time. An error is text for the log; the client is told COORDINATOR_NOT_AVAILABLE.
    fn offsets_topic(&self) -> impl Future<Output = Result<Arc<TopicEntry>, String>> + Send;
}
