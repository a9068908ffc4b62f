//! From a topic and a partition's index to where it lives.

use alloc::sync::Arc;

use base::image::{Image, TopicEntry};
use base::{Offset, PartitionId, ShardId, TopicId};
use protocol::TopicRef;
use protocol::error::ErrorCode;

use crate::session::{Home, TopicKey};

/// A topic looked up: how to name it in the answer, and what is known of it.
pub(crate) struct Found<'a> {
    pub(crate) key: TopicKey,
    pub(crate) entry: Option<&'a Arc<TopicEntry>>,
}

/// Looks a topic up as the request names it. Only a name that does not exist is copied.
pub(crate) fn find<'a>(image: &'a Image, topic: TopicRef<'_>) -> Found<'a> {
    match topic {
        TopicRef::Name(name) => {
            let entry = image.topics.get(name);
            let key = entry.map_or_else(|| Arc::from(name), |entry| entry.name.clone());
            Found { key: TopicKey::Name(key), entry }
        }
        TopicRef::Id(id) => Found { key: TopicKey::Id(id), entry: by_id(image, id) },
    }
}

fn by_id(image: &Image, id: TopicId) -> Option<&Arc<TopicEntry>> {
    if id == TopicId::ZERO { None } else { image.topics_by_id.get(&id) }
}

/// Looks a topic up again.
pub(crate) fn entry_of<'a>(image: &'a Image, topic: &TopicKey) -> Option<&'a Arc<TopicEntry>> {
    match topic {
        TopicKey::Name(name) => image.topics.get(&**name),
        TopicKey::Id(id) => by_id(image, *id),
    }
}

/// The error for a topic that is not there.
pub(crate) const fn unknown(topic: &TopicKey) -> ErrorCode {
    match topic {
        TopicKey::Name(_) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        TopicKey::Id(_) => ErrorCode::UNKNOWN_TOPIC_ID,
    }
}

/// Where a partition of the topic lives.
pub(crate) fn home(topic: &TopicKey, entry: Option<&Arc<TopicEntry>>, index: i32) -> Home {
    let Some(entry) = entry else { return Err(unknown(topic)) };
    let partition = usize::try_from(index).ok().and_then(|index| entry.partitions.get(index));
    partition.map(|partition| (partition.id, partition.shard)).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
}

/// The shard that has the records of a partition at an offset, where that is not the one of its open home.
pub(crate) fn earlier(image: &Image, partition: PartitionId, open: ShardId, offset: Offset) -> Option<ShardId> {
    if image.homes.is_empty() {
        return None;
    }
    let home = image.homes.get(&partition)?.earlier_at(offset)?;
    (home.shard != open).then_some(home.shard)
}

impl TopicKey {
    /// As the writers take it.
    pub(crate) fn wire(&self) -> TopicRef<'_> {
        match self {
            Self::Name(name) => TopicRef::Name(name),
            Self::Id(id) => TopicRef::Id(*id),
        }
    }
}
