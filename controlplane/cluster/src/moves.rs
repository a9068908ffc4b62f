//! Partitions that move between journals: where to is said first, then they go, then it is said that they are there.

use base::{JournalId, Offset, TopicId};

use crate::command::{Entropy, MoveTo};
use crate::name;
use crate::placement::{self, Seat};
use crate::state::{Applied, Change, Home, Partition, Refused, State, Topic};

/// Most homes of one partition, the open one included: each costs reads a look, and its records go in time.
pub(crate) const HOMES_MAX: usize = 16;

impl State {
    pub(crate) fn partition(&self, id: TopicId, partition: u32) -> Result<&Partition, Refused> {
        let topic = self.topic_by_id(id).ok_or(Refused::UnknownTopic)?;
        topic.partitions.get(partition as usize).ok_or(Refused::UnknownPartition)
    }

    pub(crate) fn check_move(&self, id: TopicId, partition: u32, to: MoveTo) -> Result<(), Refused> {
        let topic = self.topic_by_id(id).ok_or(Refused::UnknownTopic)?;
        if name::is_internal(&topic.name) {
            return Err(Refused::Internal);
        }
        let known = self.partition(id, partition)?;
        if let Some(journal) = known.moving {
            return Err(Refused::Moving(journal));
        }
        if known.earlier.len() + 1 >= HOMES_MAX {
            return Err(Refused::ManyHomes(known.earlier.len() + 1));
        }
        let here = known.home.journal;
        match to {
            MoveTo::Journal(journal) if journal == here => Err(Refused::InPlace(journal)),
            MoveTo::Journal(journal) => {
                let fits = |to: &crate::state::Journal| {
                    !to.class.internal && self.journal(here).is_some_and(|here| here.broker == to.broker)
                };
                if self.journal(journal).is_some_and(fits) { Ok(()) } else { Err(Refused::UnknownJournal(journal)) }
            }
            MoveTo::Class(class) => {
                let seat = self.seat_of_move(here, class).ok_or(Refused::NoBroker)?;
                if self.seated(&seat) == Some(here) { Err(Refused::InPlace(here)) } else { Ok(()) }
            }
        }
    }

    /// The seat of a class, on the broker of a journal, whose journal has the fewest partitions.
    fn seat_of_move(&self, from: JournalId, class: base::image::JournalClass) -> Option<Seat> {
        let broker = self.journal(from)?.broker;
        placement::seat_on(self, broker, class)
    }

    /// Changes one partition of a topic.
    fn change_partition(
        &mut self,
        id: TopicId,
        partition: u32,
        change: Change,
        alter: impl FnOnce(&mut Partition),
    ) -> Result<Applied, Refused> {
        let mut topic = Topic::clone(self.topic_by_id(id).ok_or(Refused::UnknownTopic)?);
        alter(topic.partitions.get_mut(partition as usize).ok_or(Refused::UnknownPartition)?);
        Ok(self.put(topic, change))
    }

    /// Counts a partition more, or less, to a journal.
    fn count(&mut self, journal: JournalId, more: bool) {
        if let Some(journal) = self.journals.get_mut(&journal) {
            journal.partitions = if more { journal.partitions + 1 } else { journal.partitions.saturating_sub(1) };
        }
    }

    pub(crate) fn begin_move(
        &mut self,
        id: TopicId,
        partition: u32,
        to: MoveTo,
        entropy: Entropy,
    ) -> Result<Applied, Refused> {
        let mut change = Change::default();
        let here = self.partition(id, partition)?.home.journal;
        let journal = match to {
            MoveTo::Journal(journal) => journal,
            MoveTo::Class(class) => {
                let seat = self.seat_of_move(here, class).ok_or(Refused::NoBroker)?;
                match self.seated(&seat) {
                    Some(journal) => journal,
                    None => self.open(seat, entropy, &mut change).ok_or(Refused::NoBroker)?,
                }
            }
        };
        self.count(journal, true);
        self.change_partition(id, partition, change, |partition| partition.moving = Some(journal))
    }

    pub(crate) fn finish_move(&mut self, id: TopicId, partition: u32, home: Home) -> Result<Applied, Refused> {
        let left = self.partition(id, partition)?.home.journal;
        self.count(left, false);
        self.change_partition(id, partition, Change::default(), |partition| {
            partition.moving = None;
            // A home that took nothing is none.
            if partition.home.first < home.first {
                partition.earlier.push(partition.home);
            }
            partition.home = match partition.earlier.pop() {
                // It never left, as its records have it.
                Some(last) if last.journal == home.journal => last,
                Some(last) => {
                    partition.earlier.push(last);
                    home
                }
                None => home,
            };
        })
    }

    pub(crate) fn cancel_move(&mut self, id: TopicId, partition: u32, journal: JournalId) -> Result<Applied, Refused> {
        self.count(journal, false);
        self.change_partition(id, partition, Change::default(), |partition| partition.moving = None)
    }

    pub(crate) fn leave_homes(&mut self, id: TopicId, partition: u32, below: Offset) -> Result<Applied, Refused> {
        self.change_partition(id, partition, Change::default(), |partition| {
            let firsts = partition.earlier.iter().skip(1).map(|home| home.first);
            let gone = firsts.chain([partition.home.first]).take_while(|end| *end <= below).count();
            partition.earlier.drain(..gone.min(partition.earlier.len()));
        })
    }
}

#[cfg(test)]
mod tests;
