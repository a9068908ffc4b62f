//! From the state to what shards read: images, each sharing with the one before what did not change.

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::{
    Advertised, Delta, HomeEntry, Homes, Image, JournalEntry, PartitionEntry, SeededHash, SharedMap, TopicConfig,
    TopicEntry,
};
use base::{BrokerId, ClusterId, DeviceIndex, JournalId, PartitionId, ShardId};

use crate::command::DeviceUuid;
use crate::config;
use crate::name;
use crate::state::{Change, Home, Journal, Partition, State, Topic};

/// What a broker knows of itself and the cluster does not.
#[derive(Clone, Debug)]
pub struct Local {
    /// The cluster's id.
    pub cluster: ClusterId,
    /// This broker.
    pub broker: BrokerId,
    /// By listener index.
    pub listeners: Arc<[Advertised]>,
    /// The data devices by index.
    pub devices: Vec<DeviceUuid>,
    /// How many shards this process has.
    pub shards: u16,
    /// What holds for settings that a topic does not have of its own.
    pub defaults: TopicConfig,
    /// Seed of hash tables.
    pub hash_seed: u64,
}

/// A journal of this broker lies on a device that is not configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingDevice {
    /// The device.
    pub device: DeviceUuid,
    /// One of its journals.
    pub journal: JournalId,
}

/// Builds images.
#[derive(Debug)]
pub struct Images {
    local: Local,
    defaults: Arc<TopicConfig>,
    image: Arc<Image>,
}

impl Images {
    /// The whole state as a first image.
    ///
    /// # Errors
    /// A device that holds journals of this broker is not among the local ones.
    pub fn new(state: &State, local: Local) -> Result<Self, MissingDevice> {
        let defaults = Arc::new(local.defaults.clone());
        let image = empty(&local);
        let mut images = Self { local, defaults, image: Arc::new(image) };
        for (journal, known) in state.journals().filter(|(_, known)| known.broker == images.local.broker) {
            if images.device(known.device).is_none() {
                return Err(MissingDevice { device: known.device, journal });
            }
        }
        images.rebuild(state);
        Ok(images)
    }

    /// The newest image.
    #[must_use]
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// What the broker knows of itself.
    #[must_use]
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// The next image after `change` led to `state`, and what is new in it.
    pub fn advance(&mut self, state: &State, change: &Change) -> (Arc<Image>, Arc<Delta>) {
        let mut delta = Delta { deleted: change.deleted_partitions.clone(), ..Delta::default() };
        if change.epochs {
            self.rebuild(state);
            delta.journals = state.journals().filter_map(|(id, _)| self.image.journals.get(&id).cloned()).collect();
            delta.topics = state.topics().filter_map(|topic| self.image.topics.get(&topic.name).cloned()).collect();
            return (self.image.clone(), Arc::new(delta));
        }
        let mut image = Image::clone(&self.image);
        image.generation += 1;
        image.partitions_below = state.partitions_below();
        for (name, id) in &change.deleted_topics {
            image.topics.remove(name);
            image.topics_by_id.remove(id);
        }
        for id in &change.journals {
            let entry = state.journal(*id).and_then(|journal| self.journal_entry(*id, journal));
            let Some(entry) = entry.map(Arc::new) else { continue };
            image.journals.insert(*id, entry.clone());
            delta.journals.push(entry);
        }
        for id in &change.deleted_partitions {
            image.homes.remove(id);
        }
        for topic in change.topics.iter().filter_map(|name| state.topic(name)) {
            put_homes(&mut image, &self.image.homes, topic);
            let entry = Arc::new(self.topic_entry(topic, &image));
            image.topics.insert(entry.name.clone(), entry.clone());
            image.topics_by_id.insert(entry.id, entry.clone());
            delta.topics.push(entry);
        }
        self.image = Arc::new(image);
        (self.image.clone(), Arc::new(delta))
    }

    fn rebuild(&mut self, state: &State) {
        let mut image = empty(&self.local);
        image.generation = self.image.generation + 1;
        image.partitions_below = state.partitions_below();
        for (id, journal) in state.journals() {
            if let Some(entry) = self.journal_entry(id, journal) {
                image.journals.insert(id, Arc::new(entry));
            }
        }
        for topic in state.topics() {
            put_homes(&mut image, &self.image.homes, topic);
            let entry = Arc::new(self.topic_entry(topic, &image));
            image.topics.insert(entry.name.clone(), entry.clone());
            image.topics_by_id.insert(entry.id, entry);
        }
        self.image = Arc::new(image);
    }

    fn device(&self, device: DeviceUuid) -> Option<DeviceIndex> {
        let index = self.local.devices.iter().position(|known| *known == device)?;
        u16::try_from(index).ok().map(DeviceIndex)
    }

    fn journal_entry(&self, id: JournalId, journal: &Journal) -> Option<JournalEntry> {
        if journal.broker != self.local.broker {
            return None;
        }
        Some(JournalEntry {
            id,
            class: journal.class,
            device: self.device(journal.device)?,
            // Slots of a class are dense and fill evenly, so that this spreads a class over the shards, however many
            // there are in this process.
            shard: ShardId(journal.slot % self.local.shards.max(1)),
            epoch: journal.epoch,
            secret: journal.secret,
        })
    }

    fn topic_entry(&self, topic: &Topic, image: &Image) -> TopicEntry {
        let partition = |known: &Partition| {
            let journal = image.journals.get(&known.home.journal);
            PartitionEntry {
                id: known.id,
                journal: known.home.journal,
                shard: journal.map_or(ShardId(0), |journal| journal.shard),
                epoch: journal.map_or(base::Epoch(0), |journal| journal.epoch),
            }
        };
        TopicEntry {
            id: topic.id,
            name: topic.name.clone(),
            internal: name::is_internal(&topic.name),
            // Most topics have no settings of their own: they share one copy.
            config: if topic.configs.is_empty() {
                self.defaults.clone()
            } else {
                Arc::new(config::resolve(&topic.configs, &self.defaults))
            },
            partitions: topic.partitions.iter().map(partition).collect(),
        }
    }
}

/// Takes in which of a topic's partitions have more than one home, or one that does not begin at offset 0, or are to move.
fn put_homes(image: &mut Image, before: &SharedMap<PartitionId, Arc<Homes>>, topic: &Topic) {
    for (index, partition) in (0..).zip(&topic.partitions) {
        let Partition { id, home, earlier, moving } = partition;
        // Every move is written down before it is made: whoever is not known here has not moved in this process.
        let since = match before.get(id) {
            Some(before) if before.journal == home.journal => before.since,
            Some(_) => image.generation,
            None => 0,
        };
        if earlier.is_empty() && moving.is_none() && home.first.0 == 0 && since == 0 {
            image.homes.remove(id);
            continue;
        }
        let entry = |home: &Home| HomeEntry {
            journal: home.journal,
            shard: image.journals.get(&home.journal).map_or(ShardId(0), |journal| journal.shard),
            first: home.first,
        };
        let homes = Homes {
            journal: home.journal,
            since,
            partition: *id,
            topic: topic.id,
            index,
            earlier: earlier.iter().map(entry).collect(),
            first: home.first,
            moving: moving.map(|journal| entry(&Home { journal, first: home.first })),
        };
        image.homes.insert(*id, Arc::new(homes));
    }
}

fn empty(local: &Local) -> Image {
    let hash = SeededHash(local.hash_seed);
    Image {
        generation: 0,
        cluster: local.cluster,
        broker: local.broker,
        listeners: local.listeners.clone(),
        topics: SharedMap::new(hash),
        topics_by_id: SharedMap::new(hash),
        journals: SharedMap::new(hash),
        homes: SharedMap::new(hash),
        partitions_below: base::PartitionId(0),
    }
}

#[cfg(test)]
mod tests;
