//! Producer ids, taken from the metadata in blocks so that most cost no disk write.

use base::ProducerId;
use cluster::{Answer, Command};
use tokio::sync::Mutex;

use crate::errors::Failure;
use crate::metadata::MetadataStore;

/// Ids a block has, as in Kafka (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`). A restart loses what is left of one; 2^63 last.
const BLOCK: u32 = 1000;

/// The rest of the current block. Memory does not grow with ids given out.
#[derive(Debug, Default)]
pub(crate) struct ProducerIds(Mutex<Rest>);

#[derive(Debug, Default)]
struct Rest {
    next: i64,
    left: u32,
}

impl ProducerIds {
    /// An id that was never given out before.
    pub(crate) async fn take(&self, store: &dyn MetadataStore) -> Result<ProducerId, Failure> {
        let mut rest = self.0.lock().await;
        if rest.left == 0 {
            let committed = store.propose(Command::AllocateProducerIds { count: BLOCK }).await?;
            let Answer::ProducerIds(first, count) = committed.answer else {
                unreachable!("the state answers an allocation with ids");
            };
            *rest = Rest { next: first.0, left: count };
        }
        let id = rest.next;
        rest.next += 1;
        rest.left -= 1;
        Ok(ProducerId(id))
    }
}
