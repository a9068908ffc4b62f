//! The metadata image: an immutable snapshot of topics, partitions and journals that shards and the control plane read
//! without locks. A new one shares all that did not change with the one before.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

use hashbrown::HashMap;
use siphasher::sip::SipHasher13;

use crate::ids::{BrokerId, ClusterId, DeviceIndex, Epoch, JournalId, Offset, PartitionId, ShardId, TopicId};

/// SipHash-1-3 under a seed that is passed in: maps keyed by what clients send need a secret, pure crates draw none.
#[derive(Clone, Copy, Debug)]
pub struct SeededHash(pub u64);

impl BuildHasher for SeededHash {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, !self.0)
    }
}

/// A hash map with a passed-in seed.
pub type SeededMap<K, V> = HashMap<K, V, SeededHash>;

/// A hash set with a passed-in seed.
pub type SeededSet<K> = hashbrown::HashSet<K, SeededHash>;

/// A map whose copy costs one bucket, not the whole: 1,024 shared buckets, copied when written.
#[derive(Clone, Debug)]
pub struct SharedMap<K, V> {
    buckets: Arc<[Arc<SeededMap<K, V>>]>,
    hash: SeededHash,
    len: usize,
}

/// 1,024 buckets: at 100 K topics a write copies about 100 entries and the bucket table of 8 KiB.
const BUCKETS: usize = 1024;

impl<K: Hash + Eq + Clone, V: Clone> SharedMap<K, V> {
    /// An empty map.
    #[must_use]
    pub fn new(hash: SeededHash) -> Self {
        let empty = Arc::new(SeededMap::with_hasher(hash));
        Self { buckets: (0..BUCKETS).map(|_| empty.clone()).collect(), hash, len: 0 }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn bucket<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        // The high bits: the buckets' own tables use the low ones.
        (self.hash.hash_one(key) >> 54) as usize % BUCKETS
    }

    /// The value of `key`.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.buckets[self.bucket(key)].get(key)
    }

    /// Sets the value of `key`; returns the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let bucket = self.bucket(&key);
        let before = Arc::make_mut(&mut Arc::make_mut(&mut self.buckets)[bucket]).insert(key, value);
        self.len += usize::from(before.is_none());
        before
    }

    /// Removes `key`; returns its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let bucket = self.bucket(key);
        self.buckets[bucket].get(key)?;
        let before = Arc::make_mut(&mut Arc::make_mut(&mut self.buckets)[bucket]).remove(key);
        self.len -= usize::from(before.is_some());
        before
    }

    /// All values, in no order that means anything.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.buckets.iter().flat_map(|bucket| bucket.values())
    }
}

/// How long a journal's records live, in classes, so that records of like lifetimes share extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lifetime {
    /// Up to a day.
    Short,
    /// Up to eight days: the default retention of seven falls here.
    Medium,
    /// Longer, or without end.
    Long,
}

/// What partitions share a journal. Opened when first used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JournalClass {
    /// Replication factor.
    pub replicas: u8,
    /// Whether the records are compacted by key.
    pub compacted: bool,
    /// How long the records live.
    pub lifetime: Lifetime,
    /// Whether it carries `__consumer_offsets`.
    pub internal: bool,
}

/// A journal as metadata knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// Never reused.
    pub id: JournalId,
    /// Which partitions it takes.
    pub class: JournalClass,
    /// The device it lies on.
    pub device: DeviceIndex,
    /// The shard that owns it in this process.
    pub shard: ShardId,
    /// Leadership term of this process.
    pub epoch: Epoch,
    /// Key of the unit headers' checksum. Never shown to clients or logs.
    pub secret: Secret,
}

/// A 128-bit key that does not print itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Which clock stamps a record (Kafka's `message.timestamp.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    Create,
    /// The broker's, at append; never stepping back within a partition.
    Append,
}

/// How a topic with `cleanup.policy=compact` is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// `delete.retention.ms`: how long a tombstone stays once all that it deletes is gone.
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`: how old a record is before it counts as later than another, or goes.
    pub lag_ms_min: i64,
    /// `max.compaction.lag.ms`: a record this old is compacted whatever the ratio says.
    pub lag_ms_max: i64,
    /// `min.cleanable.dirty.ratio` in millionths: the share of a partition's bytes that is new before it is compacted.
    pub dirty_ppm_min: u32,
}

/// A topic's settings as the data path needs them, defaults applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    /// `retention.ms`; −1 is without end, as without `delete` in `cleanup.policy`.
    pub retention_ms: i64,
    /// `retention.bytes` per partition; −1 is without end, as without `delete` in `cleanup.policy`.
    pub retention_bytes: i64,
    /// With `compact` in `cleanup.policy`.
    pub compaction: Option<Compaction>,
    /// `max.message.bytes`: largest record batch, in bytes, its header included.
    pub max_message_bytes: u32,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far a record may lie in the past.
    pub timestamp_before_ms_max: i64,
    /// `message.timestamp.after.max.ms`: how far a record may lie in the future.
    pub timestamp_after_ms_max: i64,
    /// `min.insync.replicas`.
    pub min_insync_replicas: u16,
}

/// A partition as metadata knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionEntry {
    /// Never reused.
    pub id: PartitionId,
    /// The open home: the journal that takes its appends.
    pub journal: JournalId,
    /// The shard that owns that journal.
    pub shard: ShardId,
    /// Leader epoch.
    pub epoch: Epoch,
}

/// A home that a partition had before its open one: records from `first` up to the next home's are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeEntry {
    /// The journal.
    pub journal: JournalId,
    /// The shard that owns it.
    pub shard: ShardId,
    /// The first offset it took.
    pub first: Offset,
}

/// Where a partition's records lie that has moved, or is about to: most have one home, from offset 0 on, and no such entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homes {
    /// Whose.
    pub partition: PartitionId,
    /// Of which topic it is.
    pub topic: TopicId,
    /// Its index there.
    pub index: u32,
    /// The homes before the open one, oldest first.
    pub earlier: Vec<HomeEntry>,
    /// The first offset that the open home took.
    pub first: Offset,
    /// The open home.
    pub journal: JournalId,
    /// The image in which that became its open home; 0: before this process.
    pub since: u64,
    /// Where it is to go: its appends come to the open home until that is closed, and wait from then on.
    pub moving: Option<HomeEntry>,
}

impl Homes {
    /// The earlier home that holds an offset; `None` for the open one, which also answers for what lies below all.
    #[must_use]
    pub fn earlier_at(&self, offset: Offset) -> Option<&HomeEntry> {
        if offset >= self.first {
            return None;
        }
        self.earlier.iter().rev().find(|home| home.first <= offset)
    }

    /// The end of the earlier home of that number: the first offset of the next.
    #[must_use]
    pub fn end_of(&self, number: usize) -> Offset {
        self.earlier.get(number + 1).map_or(self.first, |next| next.first)
    }
}

/// A topic as metadata knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicEntry {
    /// KIP-516 id; a topic made anew under the same name gets a new one.
    pub id: TopicId,
    /// Kafka name, checked.
    pub name: Arc<str>,
    /// Whether it is the broker's own (`__consumer_offsets`).
    pub internal: bool,
    /// Settings with defaults applied.
    pub config: Arc<TopicConfig>,
    /// By partition index.
    pub partitions: Arc<[PartitionEntry]>,
}

/// A listener's advertised address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The listener's name in the configuration.
    pub name: Arc<str>,
    /// What clients are told to connect to.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
}

/// Everything shards and coordinators need to know of the cluster, at one generation.
#[derive(Clone, Debug)]
pub struct Image {
    /// Rises with every change.
    pub generation: u64,
    /// The cluster.
    pub cluster: ClusterId,
    /// This broker.
    pub broker: BrokerId,
    /// By listener index.
    pub listeners: Arc<[Advertised]>,
    /// Topics by name.
    pub topics: SharedMap<Arc<str>, Arc<TopicEntry>>,
    /// Topics by id.
    pub topics_by_id: SharedMap<TopicId, Arc<TopicEntry>>,
    /// Journals by id.
    pub journals: SharedMap<JournalId, Arc<JournalEntry>>,
    /// Partitions that have more than one home, or are about to.
    pub homes: SharedMap<PartitionId, Arc<Homes>>,
    /// Every partition id below this one was given out. One of them that no topic has is deleted for ever; an id at or
    /// above is merely unknown, and its frames are kept.
    pub partitions_below: PartitionId,
}

impl Image {
    /// Of nothing: what is known before anything is.
    #[must_use]
    pub fn empty() -> Self {
        let hash = SeededHash(0);
        Self {
            generation: 0,
            cluster: ClusterId(0),
            broker: BrokerId(0),
            listeners: Arc::new([]),
            topics: SharedMap::new(hash),
            topics_by_id: SharedMap::new(hash),
            journals: SharedMap::new(hash),
            homes: SharedMap::new(hash),
            partitions_below: PartitionId(0),
        }
    }

    /// Topic and index of a partition. Looks through all topics: for what happens rarely.
    #[must_use]
    pub fn name_of(&self, partition: PartitionId) -> Option<(&Arc<str>, usize)> {
        self.topics.values().find_map(|topic| {
            let index = topic.partitions.iter().position(|entry| entry.id == partition)?;
            Some((&topic.name, index))
        })
    }
}

/// What changed from one image to the next, so that a shard need not compare them.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Journals to open.
    pub journals: Vec<Arc<JournalEntry>>,
    /// Topics created, or given more partitions, or with changed settings. Entries are as in the new image; a shard takes
    /// the partitions that are its own and new to it, and the settings for those it has.
    pub topics: Vec<Arc<TopicEntry>>,
    /// Partitions whose ids are deleted for ever.
    pub deleted: Vec<PartitionId>,
}
