//! The state and how a command changes it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::{JournalClass, Secret};
use base::{BrokerId, Epoch, JournalId, Offset, PartitionId, ProducerId, TopicId};

use crate::command::{Command, DeviceUuid, Entropy};
use crate::config::{self, ConfigError, Overrides};
use crate::name::{self, NameError};
use crate::placement::{self, Seat};

/// Most partitions one command creates; Kafka's own bound for one request (`MAX_PARTITIONS_PER_BATCH`).
pub const PARTITIONS_PER_COMMAND_MAX: u32 = 10_000;

/// Most partitions in all. 1 M partitions is the design's target; 64 bytes each here make 64 MiB.
pub const PARTITIONS_MAX: u64 = 1 << 20;

/// Most topics in all. A topic costs about 1 KiB here and in the image, so 256 MiB at most.
pub const TOPICS_MAX: usize = 1 << 18;

/// Most producer ids one command takes.
pub const PRODUCER_IDS_PER_COMMAND_MAX: u32 = 100_000;

/// A journal that took a partition's appends from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Which journal.
    pub journal: JournalId,
    /// The first offset it took.
    pub first: Offset,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Never reused.
    pub id: PartitionId,
    /// The home that takes its appends.
    pub home: Home,
    /// The homes before, oldest first; empty until partitions move. (An empty vector takes no memory of its own.)
    pub earlier: Vec<Home>,
    /// The journal where it is to go.
    pub moving: Option<JournalId>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id.
    pub id: TopicId,
    /// Its name.
    pub name: Arc<str>,
    /// Its own settings.
    pub configs: Overrides,
    /// By partition index.
    pub partitions: Vec<Partition>,
}

/// A journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// Which partitions it takes.
    pub class: JournalClass,
    /// The broker that carries it.
    pub broker: BrokerId,
    /// Which of the broker's journals of this class it is.
    pub slot: u16,
    /// The device it lies on.
    pub device: DeviceUuid,
    /// Its leadership term.
    pub epoch: Epoch,
    /// Key of its unit headers.
    pub secret: Secret,
    /// How many living partitions have it as their open home, or are to.
    pub partitions: u32,
}

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its data devices.
    pub devices: Vec<DeviceUuid>,
    /// How many journals it carries of each class at most.
    pub journals_per_class: u16,
}

/// All metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub(crate) topics: BTreeMap<Arc<str>, Arc<Topic>>,
    pub(crate) journals: BTreeMap<JournalId, Journal>,
    pub(crate) brokers: BTreeMap<BrokerId, Broker>,
    pub(crate) epoch: Epoch,
    pub(crate) next_partition: PartitionId,
    pub(crate) next_journal: JournalId,
    pub(crate) next_producer: ProducerId,
    // What follows is derived from the above.
    names: BTreeMap<TopicId, Arc<str>>,
    collisions: BTreeMap<String, Arc<str>>,
    seats: BTreeMap<Seat, JournalId>,
    partition_count: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            topics: BTreeMap::new(),
            journals: BTreeMap::new(),
            brokers: BTreeMap::new(),
            epoch: Epoch(0),
            // Ids begin at one, so that zeroed bytes name nothing.
            next_partition: PartitionId(1),
            next_journal: JournalId(1),
            next_producer: ProducerId(1),
            names: BTreeMap::new(),
            collisions: BTreeMap::new(),
            seats: BTreeMap::new(),
            partition_count: 0,
        }
    }
}

/// Why a command changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A topic has that name.
    TopicExists,
    /// The name collides with that of this topic.
    NameCollides(Arc<str>),
    /// The name breaks a rule.
    Name(NameError),
    /// A topic has that id, or it is the zero id.
    TopicIdTaken,
    /// No topic has that id.
    UnknownTopic,
    /// The topic is the broker's own and may not be deleted.
    Internal,
    /// Fewer than one partition, or more than one command may create.
    PartitionCount {
        /// How many were asked for.
        asked: u32,
        /// How many may be.
        most: u32,
    },
    /// Not more partitions than there are.
    NotMorePartitions {
        /// How many there are.
        now: u32,
        /// How many were asked for.
        asked: u32,
    },
    /// The cluster would have too many topics or partitions; the text says which.
    Limit(String),
    /// A setting breaks a rule.
    Config(ConfigError),
    /// No broker is registered that could carry the replicas.
    NoBroker,
    /// A broker needs at least one device and one journal per class.
    BadBroker,
    /// A counter is at its end; the text says which.
    Exhausted(&'static str),
    /// The topic has no partition of that index.
    UnknownPartition,
    /// No journal of the partition's broker has that id.
    UnknownJournal(JournalId),
    /// The partition is in that journal already.
    InPlace(JournalId),
    /// The partition is on its way to that journal.
    Moving(JournalId),
    /// The partition is not on its way there.
    NotMoving,
    /// It has so many homes whose records are still there that it cannot get another.
    ManyHomes(usize),
}

impl From<ConfigError> for Refused {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// What a command brings to who proposed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing but the change.
    Done,
    /// The topic as it is now.
    Topic(Arc<Topic>),
    /// The new epoch.
    Epoch(Epoch),
    /// Producer ids: the first, and how many in a row.
    ProducerIds(ProducerId, u32),
}

/// What differs from the state before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Topics created or changed.
    pub topics: BTreeSet<Arc<str>>,
    /// Topics deleted.
    pub deleted_topics: Vec<(Arc<str>, TopicId)>,
    /// Their partitions, whose ids are deleted for ever.
    pub deleted_partitions: Vec<PartitionId>,
    /// Journals opened.
    pub journals: Vec<JournalId>,
    /// Epochs of journals changed, so that every topic may look different.
    pub epochs: bool,
}

impl Change {
    /// Adds what a later command changed.
    pub fn merge(&mut self, later: Self) {
        self.topics.extend(later.topics);
        self.deleted_topics.extend(later.deleted_topics);
        self.deleted_partitions.extend(later.deleted_partitions);
        self.journals.extend(later.journals);
        self.epochs |= later.epochs;
    }

    /// Whether nothing changed that an image shows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A command's effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// For who proposed it.
    pub answer: Answer,
    /// For who builds images.
    pub change: Change,
}

impl Applied {
    fn new(answer: Answer, change: Change) -> Self {
        Self { answer, change }
    }
}

impl State {
    /// The topic of that name.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(name)
    }

    /// The topic of that id.
    #[must_use]
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.topics.get(&**self.names.get(&id)?)
    }

    /// All topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    /// The journal of that id.
    #[must_use]
    pub fn journal(&self, id: JournalId) -> Option<&Journal> {
        self.journals.get(&id)
    }

    /// All journals, by id.
    pub fn journals(&self) -> impl Iterator<Item = (JournalId, &Journal)> {
        self.journals.iter().map(|(id, journal)| (*id, journal))
    }

    /// The broker of that id.
    #[must_use]
    pub fn broker(&self, id: BrokerId) -> Option<&Broker> {
        self.brokers.get(&id)
    }

    /// All brokers, by id.
    pub fn brokers(&self) -> impl Iterator<Item = (BrokerId, &Broker)> {
        self.brokers.iter().map(|(id, broker)| (*id, broker))
    }

    /// The epoch counter.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Every partition id below this one was given out; one of them that no topic has is deleted for ever.
    #[must_use]
    pub fn partitions_below(&self) -> PartitionId {
        self.next_partition
    }

    /// How many partitions there are.
    #[must_use]
    pub fn partition_count(&self) -> u64 {
        self.partition_count
    }

    pub(crate) fn seated(&self, seat: &Seat) -> Option<JournalId> {
        self.seats.get(seat).copied()
    }

    /// Whether [`State::apply`] would refuse the command, without applying it (`validate_only`).
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self, command: &Command) -> Result<(), Refused> {
        match command {
            Command::RegisterBroker { devices, journals_per_class, .. } => {
                if devices.is_empty() || *journals_per_class == 0 { Err(Refused::BadBroker) } else { Ok(()) }
            }
            Command::RaiseEpoch { above, .. } => {
                if self.epoch.max(*above).0 == i32::MAX {
                    Err(Refused::Exhausted("epoch"))
                } else {
                    Ok(())
                }
            }
            Command::CreateTopic { id, name, partitions, configs, .. } => {
                self.check_new_topic(*id, name)?;
                self.check_room(*partitions)?;
                config::check_all(configs)?;
                Ok(())
            }
            Command::DeleteTopic { id } => {
                let topic = self.topic_by_id(*id).ok_or(Refused::UnknownTopic)?;
                if name::is_internal(&topic.name) { Err(Refused::Internal) } else { Ok(()) }
            }
            Command::CreatePartitions { id, total, .. } => {
                let now = self.topic_by_id(*id).ok_or(Refused::UnknownTopic)?.count();
                if *total <= now {
                    return Err(Refused::NotMorePartitions { now, asked: *total });
                }
                self.check_room(total - now)
            }
            Command::SetConfigs { id, configs } => {
                let topic = self.topic_by_id(*id).ok_or(Refused::UnknownTopic)?;
                Ok(config::check_change(&topic.configs, &config::check_all(configs)?)?)
            }
            Command::AlterConfigs { id, changes } => {
                let topic = self.topic_by_id(*id).ok_or(Refused::UnknownTopic)?;
                Ok(config::check_change(&topic.configs, &changed(topic, changes)?)?)
            }
            Command::AllocateProducerIds { count } => {
                let most = PRODUCER_IDS_PER_COMMAND_MAX;
                if *count == 0 || *count > most || self.next_producer.0.checked_add(i64::from(*count)).is_none() {
                    return Err(Refused::Exhausted("producer ids"));
                }
                Ok(())
            }
            Command::Move { id, partition, to, .. } => self.check_move(*id, *partition, *to),
            Command::FinishMove { id, partition, journal, .. } | Command::CancelMove { id, partition, journal } => {
                let moving = self.partition(*id, *partition)?.moving;
                if moving == Some(*journal) { Ok(()) } else { Err(Refused::NotMoving) }
            }
            Command::LeaveHomes { id, partition, .. } => self.partition(*id, *partition).map(|_| ()),
        }
    }

    /// Applies a command. A refused one changes nothing.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn apply(&mut self, command: &Command) -> Result<Applied, Refused> {
        self.check(command)?;
        match command {
            Command::RegisterBroker { broker, devices, journals_per_class } => {
                let known = Broker { devices: devices.clone(), journals_per_class: *journals_per_class };
                self.brokers.insert(*broker, known);
                Ok(Applied::new(Answer::Done, Change::default()))
            }
            Command::RaiseEpoch { broker, above } => {
                self.epoch = Epoch(self.epoch.max(*above).0 + 1);
                for journal in self.journals.values_mut().filter(|journal| journal.broker == *broker) {
                    journal.epoch = self.epoch;
                }
                let change = Change { epochs: true, ..Change::default() };
                Ok(Applied::new(Answer::Epoch(self.epoch), change))
            }
            Command::CreateTopic { id, name, partitions, class, configs, entropy } => {
                let configs = config::check_all(configs)?;
                let topic = Topic { id: *id, name: name.clone(), configs, partitions: Vec::new() };
                self.grow(topic, *partitions, *class, *entropy)
            }
            Command::CreatePartitions { id, total, class, entropy } => {
                let topic = self.topic_by_id(*id).ok_or(Refused::UnknownTopic)?;
                let (topic, more) = (Topic::clone(topic), total - topic.count());
                self.grow(topic, more, *class, *entropy)
            }
            Command::DeleteTopic { id } => self.delete(*id),
            Command::SetConfigs { id, configs } => {
                let topic = self.topic_by_id(*id).ok_or(Refused::UnknownTopic)?;
                let topic = Topic { configs: config::check_all(configs)?, ..Topic::clone(topic) };
                Ok(self.put(topic, Change::default()))
            }
            Command::AlterConfigs { id, changes } => {
                let topic = self.topic_by_id(*id).ok_or(Refused::UnknownTopic)?;
                let topic = Topic { configs: changed(topic, changes)?, ..Topic::clone(topic) };
                Ok(self.put(topic, Change::default()))
            }
            Command::AllocateProducerIds { count } => {
                let first = self.next_producer;
                self.next_producer = ProducerId(first.0 + i64::from(*count));
                Ok(Applied::new(Answer::ProducerIds(first, *count), Change::default()))
            }
            Command::Move { id, partition, to, entropy } => self.begin_move(*id, *partition, *to, *entropy),
            Command::FinishMove { id, partition, journal, first } => {
                self.finish_move(*id, *partition, Home { journal: *journal, first: *first })
            }
            Command::CancelMove { id, partition, journal } => self.cancel_move(*id, *partition, *journal),
            Command::LeaveHomes { id, partition, below } => self.leave_homes(*id, *partition, *below),
        }
    }

    fn check_new_topic(&self, id: TopicId, name: &str) -> Result<(), Refused> {
        name::check(name).map_err(Refused::Name)?;
        if self.topics.contains_key(name) {
            return Err(Refused::TopicExists);
        }
        if let Some(other) = name::collision_key(name).and_then(|key| self.collisions.get(&key)) {
            return Err(Refused::NameCollides(other.clone()));
        }
        if id == TopicId::ZERO || self.names.contains_key(&id) {
            return Err(Refused::TopicIdTaken);
        }
        if self.topics.len() >= TOPICS_MAX {
            return Err(Refused::Limit(format!("the cluster has its most of {TOPICS_MAX} topics")));
        }
        Ok(())
    }

    fn check_room(&self, more: u32) -> Result<(), Refused> {
        if more == 0 || more > PARTITIONS_PER_COMMAND_MAX {
            return Err(Refused::PartitionCount { asked: more, most: PARTITIONS_PER_COMMAND_MAX });
        }
        if self.partition_count + u64::from(more) > PARTITIONS_MAX {
            let now = self.partition_count;
            return Err(Refused::Limit(format!("{now} partitions and {more} more are above {PARTITIONS_MAX}")));
        }
        if self.brokers.is_empty() { Err(Refused::NoBroker) } else { Ok(()) }
    }

    fn grow(&mut self, mut topic: Topic, more: u32, class: JournalClass, entropy: Entropy) -> Result<Applied, Refused> {
        let mut change = Change::default();
        for _ in 0..more {
            let seat = placement::seat_for_partition(self, class).ok_or(Refused::NoBroker)?;
            let journal = match self.seats.get(&seat) {
                Some(id) => *id,
                None => self.open(seat, entropy, &mut change).ok_or(Refused::NoBroker)?,
            };
            if let Some(journal) = self.journals.get_mut(&journal) {
                journal.partitions += 1;
            }
            let home = Home { journal, first: Offset(0) };
            topic.partitions.push(Partition { id: self.next_partition, home, earlier: Vec::new(), moving: None });
            self.next_partition.0 += 1;
        }
        self.partition_count += u64::from(more);
        Ok(self.put(topic, change))
    }

    pub(crate) fn open(&mut self, seat: Seat, entropy: Entropy, change: &mut Change) -> Option<JournalId> {
        let device = placement::device_for_journal(self, seat.broker)?;
        let id = self.next_journal;
        self.next_journal.0 += 1;
        let journal = Journal {
            class: seat.class,
            broker: seat.broker,
            slot: seat.slot,
            device,
            epoch: self.epoch,
            secret: placement::secret(entropy, id),
            partitions: 0,
        };
        self.journals.insert(id, journal);
        self.seats.insert(seat, id);
        change.journals.push(id);
        Some(id)
    }

    fn delete(&mut self, id: TopicId) -> Result<Applied, Refused> {
        let name = self.names.remove(&id).ok_or(Refused::UnknownTopic)?;
        let topic = self.topics.remove(&name).ok_or(Refused::UnknownTopic)?;
        if let Some(key) = name::collision_key(&name) {
            self.collisions.remove(&key);
        }
        for partition in &topic.partitions {
            for journal in partition.counted() {
                if let Some(journal) = self.journals.get_mut(&journal) {
                    journal.partitions -= 1;
                }
            }
        }
        self.partition_count -= u64::from(topic.count());
        let change = Change {
            deleted_topics: [(name, id)].into(),
            deleted_partitions: topic.partitions.iter().map(|partition| partition.id).collect(),
            ..Change::default()
        };
        Ok(Applied::new(Answer::Topic(topic), change))
    }

    pub(crate) fn put(&mut self, topic: Topic, mut change: Change) -> Applied {
        let topic = Arc::new(topic);
        let name = topic.name.clone();
        self.names.insert(topic.id, name.clone());
        if let Some(key) = name::collision_key(&name) {
            self.collisions.insert(key, name.clone());
        }
        self.topics.insert(name.clone(), topic.clone());
        change.topics.insert(name);
        Applied::new(Answer::Topic(topic), change)
    }

    /// Makes the derived maps anew, for a state read from a snapshot; what does not fit together is named.
    pub(crate) fn derive(&mut self) -> Result<(), &'static str> {
        for (id, journal) in &self.journals {
            let seat = Seat { class: journal.class, broker: journal.broker, slot: journal.slot };
            if *id >= self.next_journal || self.seats.insert(seat, *id).is_some() {
                return Err("a journal's id or seat");
            }
        }
        for topic in self.topics.values() {
            if self.names.insert(topic.id, topic.name.clone()).is_some() {
                return Err("a topic id that two topics have");
            }
            if let Some(key) = name::collision_key(&topic.name) {
                self.collisions.insert(key, topic.name.clone());
            }
            for partition in &topic.partitions {
                for journal in partition.counted() {
                    let journal = self.journals.get_mut(&journal).ok_or("a partition's journal")?;
                    journal.partitions += 1;
                }
                self.partition_count += 1;
                if partition.id >= self.next_partition {
                    return Err("a partition's id");
                }
            }
        }
        Ok(())
    }
}

impl Partition {
    /// The journals in whose number of partitions it is counted.
    fn counted(&self) -> impl Iterator<Item = JournalId> {
        core::iter::once(self.home.journal).chain(self.moving)
    }
}

impl Topic {
    /// How many partitions it has.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.partitions.len()).expect("PARTITIONS_MAX fits 32 bits")
    }
}

fn changed(topic: &Topic, changes: &[crate::ConfigChange]) -> Result<Overrides, Refused> {
    // Lists have fixed defaults, so that the broker's own cannot make brokers differ.
    let defaults = |def: &config::ConfigDef| def.default_value(&NO_DEFAULTS);
    Ok(config::change(&topic.configs, changes, defaults)?)
}

/// Stands in where only settings with fixed defaults are asked for.
const NO_DEFAULTS: base::image::TopicConfig = base::image::TopicConfig {
    retention_ms: -1,
    retention_bytes: -1,
    compaction: None,
    max_message_bytes: 0,
    timestamp_type: base::image::TimestampType::Create,
    timestamp_before_ms_max: 0,
    timestamp_after_ms_max: 0,
    min_insync_replicas: 1,
};

#[cfg(test)]
pub(crate) mod tests;
