//! Partitions that move from one journal to another: the control plane's part, which the metadata of the whole run remembers.

use std::sync::Arc;

use base::image::{Delta, HomeEntry, Homes, Image, PartitionEntry, TopicEntry};
use base::message::{Refusal, ShardCommand, ToShard};
use base::{JournalId, Offset, PartitionId};

use super::control::{Asked, put_topic};
use super::{Broker, talk};
use crate::world::Plan;

/// How far a move is.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Metadata says where to.
    Sent,
    /// A shard was asked.
    Asked,
    /// Closed in its old home.
    Closed { at: Offset, state: Vec<u8> },
    /// Open in its new home.
    Opened { at: Offset },
}

/// Homes as the shards of this life have them.
pub(super) fn renew(image: &mut Image, plan: &Plan) {
    let all: Vec<Arc<Homes>> = image.homes.values().cloned().collect();
    let entry = |home: &HomeEntry| HomeEntry { shard: plan.shard_of(home.journal.0), ..*home };
    for homes in all {
        let earlier = homes.earlier.iter().map(entry).collect();
        let renewed = Homes { earlier, moving: homes.moving.as_ref().map(entry), since: 0, ..Homes::clone(&homes) };
        image.homes.insert(homes.partition, Arc::new(renewed));
    }
}

impl Broker {
    /// The topic that has a partition, and the partition, as metadata here has them.
    fn find(&self, id: PartitionId) -> Option<(Arc<TopicEntry>, usize)> {
        self.topics().into_iter().find_map(|entry| {
            let index = entry.partitions.iter().position(|partition| partition.id == id)?;
            Some((entry, index))
        })
    }

    pub(super) fn entry_of(&self, id: PartitionId) -> Option<PartitionEntry> {
        self.find(id).map(|(entry, index)| entry.partitions[index])
    }

    /// The shard that has a partition's record at an offset; its open home is on `open`.
    pub(super) fn shard_at(&self, id: PartitionId, open: usize, offset: i64) -> usize {
        let homes = self.image.homes.get(&id);
        homes.and_then(|homes| homes.earlier_at(Offset(offset))).map_or(open, |home| usize::from(home.shard.0))
    }

    /// Whether a partition has, or is about to have, more than one home.
    pub(super) fn is_spread(&self, id: PartitionId) -> bool {
        self.image.homes.get(&id).is_some()
    }

    /// One of a partition's homes: its shard, and the offsets that it has.
    pub(super) fn some_home(&mut self, id: PartitionId, open: usize) -> (usize, Offset, Offset) {
        let whole = (open, Offset(0), Offset(i64::MAX));
        let Some(homes) = self.image.homes.get(&id).cloned() else { return whole };
        let number = self.chance.index(homes.earlier.len() + 1);
        match homes.earlier.get(number) {
            Some(home) => (usize::from(home.shard.0), home.first, homes.end_of(number)),
            None => (open, homes.first, Offset(i64::MAX)),
        }
    }

    /// Writes down what homes a partition has, and tells the shards.
    fn put_homes(&mut self, id: PartitionId, homes: Homes, journal: JournalId) {
        let Some((topic, index)) = self.find(id) else { return };
        let mut partitions = topic.partitions.to_vec();
        let shard = self.world.plan.shard_of(journal.0);
        partitions[index] = PartitionEntry { journal, shard, ..partitions[index] };
        let entry = Arc::new(TopicEntry { partitions: partitions.into(), ..TopicEntry::clone(&topic) });
        put_topic(&mut self.image, &entry);
        if homes.earlier.is_empty() && homes.moving.is_none() && homes.first.0 == 0 && homes.since == 0 {
            self.image.homes.remove(&id);
        } else {
            self.image.homes.insert(id, Arc::new(homes));
        }
        self.apply(Delta { topics: vec![entry], ..Delta::default() });
    }

    fn homes_of(&self, id: PartitionId) -> Option<Homes> {
        let (topic, index) = self.find(id)?;
        let known = self.image.homes.get(&id).map(|homes| Homes::clone(homes));
        Some(known.unwrap_or(Homes {
            partition: id,
            topic: topic.id,
            index: u32::try_from(index).ok()?,
            earlier: Vec::new(),
            first: Offset(0),
            journal: topic.partitions[index].journal,
            since: 0,
            moving: None,
        }))
    }

    /// Somebody sends a partition elsewhere, or asks what its old homes may drop.
    pub(super) fn move_some(&mut self) {
        let Some((id, _)) = self.some_partition() else { return };
        let (Some(entry), Some(mut homes)) = (self.entry_of(id), self.homes_of(id)) else { return };
        if homes.moving.is_some() {
            // Now and then it is called off, wherever it is.
            if self.chance.odds(1, 4) && matches!(self.moves.get(&id), Some(Step::Sent | Step::Closed { .. })) {
                self.call_off(id);
            }
            return;
        }
        if !homes.earlier.is_empty() && self.chance.odds(1, 3) {
            self.ask_old_homes(&homes, &entry);
            return;
        }
        let journal = JournalId(self.chance.below(self.world.plan.journals));
        if journal == entry.journal || homes.earlier.len() > 6 {
            return;
        }
        talk(|| format!("partition {id} goes from journal {} to {journal}", entry.journal));
        homes.moving = Some(HomeEntry { journal, shard: self.world.plan.shard_of(journal.0), first: homes.first });
        if let Some(part) = self.ledger.parts.get_mut(&id) {
            part.journals.insert(journal);
            part.moves = true;
        }
        self.put_homes(id, homes, entry.journal);
        self.moves.insert(id, Step::Sent);
    }

    /// Takes every move one step on that waits for one. Whether any did.
    pub(super) fn lead_moves(&mut self) -> bool {
        let waiting: Vec<PartitionId> = self
            .moves
            .iter()
            .filter(|(id, step)| !matches!(step, Step::Asked) && self.image.homes.get(id).is_some())
            .map(|(id, _)| *id)
            .collect();
        let mut any = false;
        for id in waiting {
            // A step that was refused is tried again, not at once.
            if self.stopping || !self.chance.odds(1, 2) {
                continue;
            }
            any |= self.lead(id);
        }
        any
    }

    fn lead(&mut self, id: PartitionId) -> bool {
        let (Some(entry), Some(homes)) = (self.entry_of(id), self.homes_of(id)) else { return false };
        let Some(to) = homes.moving else { return false };
        match self.moves.insert(id, Step::Asked) {
            Some(Step::Sent) => {
                let token = self.token(Asked::Close { partition: id });
                let command = ShardCommand::Close { partition: id, next: to.journal };
                self.rings.send(usize::from(entry.shard.0), ToShard::Command { token, command });
            }
            Some(Step::Closed { at, state }) => {
                let token = self.token(Asked::Open { partition: id });
                let command = ShardCommand::Open { journal: to.journal, previous: entry.journal, state: state.clone() };
                self.rings.send(usize::from(to.shard.0), ToShard::Command { token, command });
                self.moves_at.insert(id, (at, state));
            }
            Some(Step::Opened { at }) => self.finish(id, homes, entry.journal, at),
            Some(Step::Asked) | None => return false,
        }
        true
    }

    fn finish(&mut self, id: PartitionId, mut homes: Homes, from: JournalId, at: Offset) {
        let Some(to) = homes.moving.take() else { return };
        self.moves.remove(&id);
        let shard = self.world.plan.shard_of(from.0);
        if homes.first < at {
            homes.earlier.push(HomeEntry { journal: from, shard, first: homes.first });
        }
        homes.first = match homes.earlier.pop() {
            Some(last) if last.journal == to.journal => last.first,
            Some(last) => {
                homes.earlier.push(last);
                at
            }
            None => at,
        };
        homes.since = self.image.generation + 1;
        homes.journal = to.journal;
        talk(|| format!("partition {id} is in journal {} from {at} on: {homes:?}", to.journal));
        if let Some(part) = self.ledger.parts.get_mut(&id) {
            part.journal = to.journal;
        }
        self.summary.moved += 1;
        self.put_homes(id, homes, to.journal);
    }

    fn call_off(&mut self, id: PartitionId) {
        let (Some(entry), Some(mut homes)) = (self.entry_of(id), self.homes_of(id)) else { return };
        talk(|| format!("partition {id} stays in journal {}", entry.journal));
        homes.moving = None;
        self.moves.remove(&id);
        self.summary.stayed += 1;
        self.put_homes(id, homes, entry.journal);
    }

    pub(super) fn closed_home(&mut self, id: PartitionId, at: Offset, state: Vec<u8>) {
        if self.moves.contains_key(&id) {
            self.moves.insert(id, Step::Closed { at, state });
        }
    }

    pub(super) fn opened_home(&mut self, id: PartitionId) {
        if let (true, Some((at, _))) = (self.moves.contains_key(&id), self.moves_at.remove(&id)) {
            self.moves.insert(id, Step::Opened { at });
        }
    }

    /// A step of a move was refused: it is tried again, or the partition stays.
    pub(super) fn move_refused(&mut self, id: PartitionId, refusal: Refusal) {
        if !self.moves.contains_key(&id) {
            return;
        }
        talk(|| format!("a step of partition {id}'s move is refused: {refusal:?}"));
        let again = match self.moves_at.remove(&id) {
            Some((at, state)) => Step::Closed { at, state },
            None => Step::Sent,
        };
        self.moves.insert(id, again);
        let for_good = !matches!(refusal, Refusal::Busy | Refusal::Moved | Refusal::Stopping);
        // On a full device a journal may not even begin: nobody waits for ever.
        let tired = self.chance.odds(1, 40);
        if (for_good || tired) && !self.stopping {
            self.call_off(id);
        }
    }

    /// A new life: whoever leads moves begins with what metadata says.
    pub(super) fn forget_steps(&mut self) {
        self.moves_at.clear();
        let moving = self.image.homes.values().filter(|homes| homes.moving.is_some()).map(|homes| homes.partition);
        self.moves = moving.map(|id| (id, Step::Sent)).collect();
        for part in self.ledger.parts.values_mut() {
            part.moves = part.journals.len() > 1;
        }
    }

    /// Lets a partition come where it goes. Whether it has, or had nowhere to go.
    pub(super) fn is_settled(&mut self, id: PartitionId) -> Result<bool, String> {
        for _ in 0..3000 {
            if !self.moves.contains_key(&id) {
                return Ok(true);
            }
            if !self.quiet_round()? {
                self.world.pass_ms(20);
                self.housekeep();
            }
        }
        Err(format!("partition {id} never comes where it goes: {:?}", self.moves))
    }

    /// Asks old homes what has expired, or gives up those that hold nothing any more.
    fn ask_old_homes(&mut self, homes: &Homes, entry: &PartitionEntry) {
        let id = homes.partition;
        let start = self.ledger.parts.get(&id).map_or(0, |part| part.start);
        if homes.end_of(0).0 <= start {
            let mut homes = homes.clone();
            homes.earlier.remove(0);
            talk(|| format!("partition {id} gives up a home: {homes:?}"));
            self.put_homes(id, homes, entry.journal);
            return;
        }
        let home = homes.earlier[0];
        let token = self.token(Asked::Expire { partition: id });
        let command = ShardCommand::Expire { partition: id, first: home.first, log_start: Offset(start), bytes: 0 };
        self.rings.send(usize::from(home.shard.0), ToShard::Command { token, command });
    }

    /// An old home says how far all has expired.
    pub(super) fn expired(&mut self, id: PartitionId, to: Option<Offset>) {
        let (Some(to), Some(entry)) = (to, self.entry_of(id)) else { return };
        let Some(part) = self.ledger.parts.get_mut(&id) else { return };
        part.asked = part.asked.max(to.0);
        let token = self.token(Asked::Move { partition: id, to: to.0 });
        let command = ShardCommand::MoveStart { partition: id, to };
        self.rings.send(usize::from(entry.shard.0), ToShard::Command { token, command });
    }
}
