//! The metadata store: commands go in, images come out. Raft will stand behind this interface; for a single broker a
//! durable log on its own disk does.

mod disk;
mod single;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base::TopicId;
use base::image::{Delta, Image};
use cluster::state::Topic;
use cluster::{Answer, Command, Refused};
use tokio::sync::watch;

pub use disk::{Identity, MetadataError, MetadataFile};
pub use single::{SingleStore, StartError};

/// A future in a box, so that stores may stand behind `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a proposal brought nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// The state machine refused it; nothing has changed.
    #[error("refused: {0:?}")]
    Refused(Refused),
    /// The disk is full; nothing has changed, and what needs less room may still be made durable.
    #[error("no room on the disk of the metadata: {0}")]
    Full(String),
    /// The store cannot make anything durable any more; whether the command took effect is known after a restart.
    #[error("the metadata store has failed: {0}")]
    Failed(String),
}

/// What a proposal brought. It is durable.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The command's answer.
    pub answer: Answer,
    /// Who wants to know when shards have it waits here.
    pub applying: Applying,
}

/// Metadata on its way to the shards.
#[derive(Clone, Debug)]
pub struct Applying(watch::Receiver<bool>);

impl Applying {
    /// Done when the watched value is true.
    #[must_use]
    pub fn new(seen: watch::Receiver<bool>) -> Self {
        Self(seen)
    }

    /// Done already.
    #[must_use]
    pub fn done() -> Self {
        Self(watch::channel(true).1)
    }

    /// Waits until every shard serves the new metadata, but no longer than `bound`; whether it did.
    pub async fn wait(mut self, bound: Duration) -> bool {
        // The sender goes away with the last shard; what it held last counts.
        let _ = tokio::time::timeout(bound, self.0.wait_for(|done| *done)).await.is_ok();
        *self.0.borrow()
    }
}

/// Takes each new image to the shards, in order. May block until there is room.
pub trait Publish: Send + Sync + 'static {
    /// Hands one over.
    fn publish(&self, image: &Arc<Image>, delta: &Arc<Delta>) -> Applying;
}

/// Durable, totally ordered metadata.
pub trait MetadataStore: Send + Sync + 'static {
    /// Applies a command; done when it is durable and this broker's image has it.
    fn propose(&self, command: Command) -> BoxFuture<'_, Result<Committed, ProposeError>>;

    /// Whether the command would be refused now, without proposing it.
    ///
    /// # Errors
    /// The rule that is broken.
    fn check(&self, command: &Command) -> Result<(), Refused>;

    /// The newest image.
    fn image(&self) -> Arc<Image>;

    /// A topic with its own settings.
    fn topic(&self, name: &str) -> Option<Arc<Topic>>;

    /// The same by id.
    fn topic_by_id(&self, id: TopicId) -> Option<Arc<Topic>>;

    /// Why nothing can be proposed any more, if so.
    fn failed(&self) -> Option<String>;
}

#[cfg(test)]
mod tests;
