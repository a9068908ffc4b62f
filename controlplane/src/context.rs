//! What every request handler works with.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use base::image::{Advertised, Image, JournalClass, PartitionEntry, TopicConfig, TopicEntry};
use base::message::{Bounds, Outcome, Refusal, ShardCommand};
use base::{BrokerId, Epoch, Offset, PartitionId, ShardId, TopicId};
use cluster::command::Entropy;
use cluster::config::{self, Overrides};
use cluster::{Answer, Command, name};
use protocol::error::ErrorCode;
use tokio::sync::Semaphore;

use crate::control::GroupApis;
use crate::dataplane::{DataPlane, Records};
use crate::errors::Failure;
use crate::groups::{Catalog, OFFSETS_TOPIC};
use crate::http::{Health, Observed};
use crate::metadata::{Committed, MetadataStore};
use crate::moves::Moves;
use crate::producer_ids::ProducerIds;
use crate::settings::BrokerSettings;
use crate::shards::ShardLinks;
use crate::stats::ControlStats;

/// Shared by all request handlers.
pub struct Context {
    /// The broker's configuration.
    pub settings: BrokerSettings,
    /// Metadata.
    pub store: Arc<dyn MetadataStore>,
    /// The shards.
    pub shards: Arc<ShardLinks>,
    /// Counters.
    pub stats: Arc<ControlStats>,
    /// What went wrong for good.
    pub health: Arc<Health>,
    /// Devices and the like.
    pub observed: Arc<dyn Observed>,
    /// Who is told of deleted topics. Weak: the group host works with this context, and ends when nobody else holds it.
    pub(crate) groups: OnceLock<Weak<dyn GroupApis>>,
    pub(crate) producer_ids: ProducerIds,
    /// Partitions that move between journals.
    pub(crate) moves: Arc<Moves>,
    /// Held while a large response is built: a whole cluster's metadata, a decompressed batch.
    pub(crate) large: Semaphore,
}

/// Large responses at a time. A million partitions are about 60 MB of Metadata; a batch looked into is at most
/// [`crate::api::list_offsets::DECOMPRESSED_MAX`].
const LARGE_AT_A_TIME: usize = 4;

/// A request's bound below this is taken for "as soon as possible": librdkafka sends 0 unless told otherwise, and what is
/// applied within a moment need not be reported as timed out.
const APPLY_MIN: Duration = Duration::from_secs(1);

impl Context {
    pub(crate) fn new(
        settings: BrokerSettings,
        store: Arc<dyn MetadataStore>,
        shards: Arc<ShardLinks>,
        stats: Arc<ControlStats>,
        observed: Arc<dyn Observed>,
    ) -> Arc<Self> {
        Arc::new(Self {
            settings,
            store,
            shards,
            stats,
            health: Arc::default(),
            observed,
            groups: OnceLock::new(),
            producer_ids: ProducerIds::default(),
            moves: Arc::default(),
            large: Semaphore::new(LARGE_AT_A_TIME),
        })
    }

    /// How long a change may take that a client gives so much time.
    pub(crate) fn apply_bound(&self, timeout_ms: i32) -> Duration {
        let asked = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        asked.max(APPLY_MIN).min(self.settings.apply_bound)
    }

    /// Proposes a change and waits until the shards serve it.
    pub(crate) async fn change(&self, command: Command, bound: Duration) -> Result<Answer, Failure> {
        let deletes = matches!(command, Command::DeleteTopic { .. });
        let changed = match &command {
            Command::SetConfigs { id, .. } | Command::AlterConfigs { id, .. } => Some(*id),
            _ => None,
        };
        let Committed { answer, applying } = self.store.propose(command).await?;
        if deletes
            && let Answer::Topic(topic) = &answer
            && let Some(groups) = self.groups.get().and_then(Weak::upgrade)
        {
            groups.topic_deleted(topic.name.clone(), topic.id);
        }
        if let Some(topic) = changed {
            self.moves.look_at(topic);
        }
        if applying.wait(bound).await {
            Ok(answer)
        } else {
            Err(Failure::new(ErrorCode::REQUEST_TIMED_OUT, "the change is made but not yet served everywhere"))
        }
    }

    /// The class of journals for a topic.
    pub(crate) fn class(&self, topic: &str, overrides: &Overrides) -> JournalClass {
        let config: TopicConfig = config::resolve(overrides, &self.settings.topic_defaults);
        JournalClass {
            replicas: 1,
            compacted: config.compaction.is_some(),
            lifetime: config::lifetime(config.retention_ms),
            internal: name::is_internal(topic),
        }
    }

    /// The command that creates a topic. An internal topic keeps its records for ever, whatever the default: its host trims it.
    pub(crate) fn create_topic(
        &self,
        topic: &str,
        partitions: u32,
        mut configs: Vec<(Arc<str>, Arc<str>)>,
    ) -> Result<Command, Failure> {
        if name::is_internal(topic) {
            configs.retain(|(name, _)| !name.starts_with("retention."));
            configs.extend(["retention.ms", "retention.bytes"].map(|name| (name.into(), "-1".into())));
        }
        let overrides = config::check_all(&configs).map_err(cluster::Refused::Config)?;
        Ok(Command::CreateTopic {
            id: TopicId(random(crate::random::uuid)?),
            name: topic.into(),
            partitions,
            class: self.class(topic, &overrides),
            configs,
            entropy: entropy()?,
        })
    }

    /// Asks the shard of a partition.
    pub(crate) async fn ask(&self, shard: ShardId, command: ShardCommand) -> Result<Outcome, Failure> {
        Ok(self.shards.ask(shard, command, self.settings.shard_bound).await?)
    }

    /// The partition's ends.
    pub(crate) async fn bounds_of(&self, partition: &PartitionEntry) -> Result<Bounds, Failure> {
        match self.ask(partition.shard, ShardCommand::Bounds { partition: partition.id }).await? {
            Outcome::Bounds(bounds) => Ok(bounds),
            other => Err(unexpected(&other)),
        }
    }

    fn offsets_partition(&self, id: PartitionId) -> Result<PartitionEntry, Refusal> {
        let image = self.store.image();
        let topic = image.topics.get(OFFSETS_TOPIC).ok_or(Refusal::UnknownPartition)?;
        topic.partitions.iter().find(|partition| partition.id == id).copied().ok_or(Refusal::UnknownPartition)
    }

    async fn ask_offsets(&self, id: PartitionId, command: ShardCommand) -> Result<Outcome, Refusal> {
        let shard = self.offsets_partition(id)?.shard;
        // Whoever appends an offset must know whether it is there: no bound, the shard answers or stops.
        self.shards.command(shard, command).await
    }
}

/// The coordinator's part of the data path: partitions of `__consumer_offsets` only.
impl DataPlane for Context {
    async fn append(&self, partition: PartitionId, epoch: Epoch, batch: Vec<u8>) -> Result<Offset, Refusal> {
        match self.ask_offsets(partition, ShardCommand::Append { partition, epoch, batch }).await? {
            Outcome::Appended(offset) => Ok(offset),
            other => Err(refuse_unexpected(&other)),
        }
    }

    async fn read(&self, partition: PartitionId, offset: Offset, bytes_max: usize) -> Result<Records, Refusal> {
        match self.ask_offsets(partition, ShardCommand::Read { partition, offset, bytes_max }).await? {
            Outcome::Records(batches, bounds) => Ok(Records { batches, bounds }),
            other => Err(refuse_unexpected(&other)),
        }
    }

    async fn bounds(&self, partition: PartitionId) -> Result<Bounds, Refusal> {
        match self.ask_offsets(partition, ShardCommand::Bounds { partition }).await? {
            Outcome::Bounds(bounds) => Ok(bounds),
            other => Err(refuse_unexpected(&other)),
        }
    }

    async fn move_start(&self, partition: PartitionId, to: Offset) -> Result<Offset, Refusal> {
        match self.ask_offsets(partition, ShardCommand::MoveStart { partition, to }).await? {
            Outcome::Moved(offset) => Ok(offset),
            other => Err(refuse_unexpected(&other)),
        }
    }
}

impl Catalog for Context {
    fn image(&self) -> Arc<Image> {
        self.store.image()
    }

    async fn offsets_topic(&self) -> Result<Arc<TopicEntry>, String> {
        let there = || self.store.image().topics.get(OFFSETS_TOPIC).cloned();
        if let Some(topic) = there() {
            return Ok(topic);
        }
        let text = |failure: Failure| failure.message.unwrap_or_else(|| failure.code.to_string());
        let command =
            self.create_topic(OFFSETS_TOPIC, self.settings.offsets_topic_partitions, Vec::new()).map_err(text)?;
        match self.change(command, self.settings.apply_bound).await {
            Ok(_) => {}
            // Somebody else has been faster.
            Err(failure) if failure.code == ErrorCode::TOPIC_ALREADY_EXISTS => {}
            Err(failure) => return Err(text(failure)),
        }
        there().ok_or_else(|| "it is deleted again".to_owned())
    }
}

/// A broker's view of an image: who is told what.
pub(crate) trait ImageExt {
    /// What clients of this listener are told.
    fn address(&self, listener: u16) -> &Advertised;
    /// This broker.
    fn node(&self) -> BrokerId;
}

impl ImageExt for Image {
    fn address(&self, listener: u16) -> &Advertised {
        // A listener that is not in the table cannot be; the first is as good as any.
        self.listeners.get(usize::from(listener)).or(self.listeners.first()).expect("a broker has a listener")
    }

    fn node(&self) -> BrokerId {
        self.broker
    }
}

/// The partition of an index in a topic.
pub(crate) fn partition_of(image: &Image, topic: &str, index: i32) -> Result<PartitionEntry, ErrorCode> {
    let topic = image.topics.get(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let partition = usize::try_from(index).ok().and_then(|index| topic.partitions.get(index));
    partition.copied().ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
}

/// Refuses what would change an internal topic. Its host finds a group by the number of partitions, and keeps every record
/// until it has written a newer one: more partitions, a retention or a log start of somebody else's lose committed offsets.
pub(crate) fn refuse_internal(topic: &str) -> Result<(), Failure> {
    if name::is_internal(topic) { Err(cluster::Refused::Internal.into()) } else { Ok(()) }
}

/// The epoch that a client believes in against the partition's (KIP-320); below zero it believes in none.
pub(crate) fn check_epoch(claimed: i32, actual: Epoch) -> Result<(), ErrorCode> {
    match claimed {
        ..0 => Ok(()),
        older if older < actual.0 => Err(ErrorCode::FENCED_LEADER_EPOCH),
        newer if newer > actual.0 => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
        _ => Ok(()),
    }
}

pub(crate) fn entropy() -> Result<Entropy, Failure> {
    random(crate::random::bits).map(|bits| Entropy(bits.to_le_bytes()))
}

fn random(draw: fn() -> std::io::Result<u128>) -> Result<u128, Failure> {
    draw().map_err(|error| Failure::new(ErrorCode::UNKNOWN_SERVER_ERROR, format!("/dev/urandom: {error}")))
}

/// A shard that answers another question than was asked is a mistake of ours; the client is told that much.
pub(crate) fn unexpected(outcome: &Outcome) -> Failure {
    tracing::error!(?outcome, "a shard answered another question");
    ErrorCode::UNKNOWN_SERVER_ERROR.into()
}

fn refuse_unexpected(outcome: &Outcome) -> Refusal {
    unexpected(outcome);
    Refusal::Corrupt
}
