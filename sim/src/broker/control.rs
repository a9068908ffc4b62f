//! The control plane's side: metadata that changes and comes late, commands to shards, and what they answer.

use std::sync::Arc;

use base::image::{Delta, Image, PartitionEntry, TimestampType, TopicConfig, TopicEntry};
use base::message::{Outcome, Refusal, ShardCommand, ToControl, ToShard};
use base::{Epoch, JournalId, Offset, PartitionId, TopicId, WallMs};
use protocol::batch::{BatchView, Producer};

use super::ledger::{BatchId, Fate, Floor};
use super::{Broker, talk};
use crate::world::Plan;

/// A command that is not done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    /// New metadata.
    Apply,
    /// A log start is moved.
    Move { partition: PartitionId, to: i64 },
    /// Records are searched by time; `None`: the highest.
    Find { partition: PartitionId, timestamp: Option<i64>, floor: Floor },
    /// A coordinator appends.
    Append { batch: BatchId },
    /// Records are read.
    Read { partition: PartitionId, offset: i64, floor: Floor },
    /// Ends are asked for.
    Bounds { partition: PartitionId, floor: Floor },
    /// A partition is closed, to go to another journal.
    Close { partition: PartitionId },
    /// A partition is opened there.
    Open { partition: PartitionId },
    /// An old home of a partition is asked what has expired, and told where its log starts.
    Expire { partition: PartitionId },
}

/// Brings an image to a new epoch: the entries of all journals, and of all topics.
pub(super) fn renew(image: &mut Image, plan: &Plan, epoch: i32) {
    image.generation += 1;
    for id in 0..plan.journals {
        image.journals.insert(JournalId(id), Arc::new(plan.journal(id, epoch)));
    }
    let entries: Vec<Arc<TopicEntry>> = image.topics.values().cloned().collect();
    for entry in entries {
        put_topic(image, &renewed(&entry, plan, epoch));
    }
    super::moves::renew(image, plan);
}

fn renewed(entry: &TopicEntry, plan: &Plan, epoch: i32) -> Arc<TopicEntry> {
    let shard = |partition: &PartitionEntry| plan.shard_of(partition.journal.0);
    let partition =
        |partition: &PartitionEntry| PartitionEntry { epoch: Epoch(epoch), shard: shard(partition), ..*partition };
    Arc::new(TopicEntry { partitions: entry.partitions.iter().map(partition).collect(), ..entry.clone() })
}

pub(super) fn put_topic(image: &mut Image, entry: &Arc<TopicEntry>) {
    image.topics.insert(entry.name.clone(), entry.clone());
    image.topics_by_id.insert(entry.id, entry.clone());
    let above = entry.partitions.iter().map(|partition| partition.id.0 + 1).max().unwrap_or(0);
    image.partitions_below = image.partitions_below.max(PartitionId(above));
}

fn drop_topic(image: &mut Image, entry: &TopicEntry) {
    image.topics.remove(&entry.name);
    image.topics_by_id.remove(&entry.id);
}

impl Broker {
    /// Topics that exist and that the metadata here names, in the order of their making.
    pub(super) fn topics(&self) -> Vec<Arc<TopicEntry>> {
        let mut all: Vec<Arc<TopicEntry>> = self.image.topics.values().cloned().collect();
        all.sort_by_key(|entry| entry.id.0);
        all
    }

    /// Every topic that exists.
    pub(super) fn all_topics(&self) -> Vec<Arc<TopicEntry>> {
        let mut all = self.topics();
        all.extend(self.late.iter().cloned());
        all
    }

    /// The id of a partition by topic and index.
    pub(super) fn partition_of(&self, topic: TopicId, index: i32) -> Option<PartitionId> {
        let all = self.all_topics();
        let entry = all.iter().find(|entry| entry.id == topic)?;
        entry.partitions.get(usize::try_from(index).ok()?).map(|partition| partition.id)
    }

    pub(super) fn apply(&mut self, delta: Delta) {
        self.image.generation += 1;
        let (image, delta) = (Arc::new(self.image.clone()), Arc::new(delta));
        for shard in 0..self.world.shards.len() {
            let token = self.token(Asked::Apply);
            self.rings.send(shard, ToShard::Apply { token, image: image.clone(), delta: delta.clone() });
        }
    }

    pub(super) fn token(&mut self, asked: Asked) -> u64 {
        self.next_token += 1;
        self.asked.insert(self.next_token, asked);
        self.next_token
    }

    /// A topic comes to be.
    pub(super) fn create_topic(&mut self) {
        // Metadata is heard of in its order.
        self.catch_up();
        self.next_topic += 1;
        let append_time = self.chance.odds(1, 5);
        let retained = self.chance.odds(1, 4);
        let config = TopicConfig {
            retention_ms: if retained && self.chance.odds(1, 2) { 60_000 } else { -1 },
            retention_bytes: if retained { 40_000 } else { -1 },
            compaction: None,
            max_message_bytes: 60 << 10,
            timestamp_type: if append_time { TimestampType::Append } else { TimestampType::Create },
            timestamp_before_ms_max: i64::MAX,
            timestamp_after_ms_max: i64::MAX,
            min_insync_replicas: 1,
        };
        let mut partitions = Vec::new();
        for _ in 0..self.chance.between(1, 3) {
            let id = PartitionId(self.next_partition);
            self.next_partition += 1;
            let journal = JournalId(self.chance.below(self.world.plan.journals));
            let shard = self.world.plan.shard_of(journal.0);
            partitions.push(PartitionEntry { id, journal, shard, epoch: Epoch(self.epoch) });
            self.ledger.add_partition(id, journal, append_time, retained);
        }
        let entry = Arc::new(TopicEntry {
            id: TopicId(u128::from(self.next_topic) + (9 << 64)),
            name: format!("t{}", self.next_topic).into(),
            internal: false,
            config: Arc::new(config),
            partitions: partitions.into(),
        });
        put_topic(&mut self.image, &entry);
        self.apply(Delta { topics: vec![entry], ..Delta::default() });
    }

    fn delete_topic(&mut self) {
        let all = self.all_topics();
        if all.len() < 2 {
            return;
        }
        let entry = self.chance.pick(&all).clone();
        let ids: Vec<PartitionId> = entry.partitions.iter().map(|partition| partition.id).collect();
        for id in &ids {
            self.ledger.parts.remove(id);
            self.image.homes.remove(id);
            self.moves.remove(id);
        }
        if let Some(at) = self.late.iter().position(|late| late.id == entry.id) {
            self.late.remove(at);
            self.late_deleted.extend(ids);
            return;
        }
        self.catch_up();
        drop_topic(&mut self.image, &entry);
        self.apply(Delta { deleted: ids, ..Delta::default() });
    }

    /// Makes the metadata here forget its newest topics, as if it had not heard of them yet.
    pub(super) fn fall_behind(&mut self) {
        let all = self.topics();
        let keep = self.chance.index(all.len() + 1);
        let below =
            all[..keep].iter().flat_map(|entry| entry.partitions.iter()).map(|partition| partition.id.0 + 1).max();
        // What was deleted and lies above is unknown here, too: it is told of later.
        let below = below.unwrap_or(1);
        for entry in &all[keep..] {
            drop_topic(&mut self.image, entry);
            self.late.push(entry.clone());
            for partition in entry.partitions.iter() {
                if let Some(part) = self.ledger.parts.get_mut(&partition.id) {
                    part.heard_of = false;
                }
            }
        }
        let exists = |id: &PartitionId| self.ledger.parts.contains_key(id);
        self.late_deleted = (below..self.next_partition).map(PartitionId).filter(|id| !exists(id)).collect();
        self.image.partitions_below = PartitionId(below);
    }

    /// The metadata here hears of everything there is.
    pub(super) fn catch_up(&mut self) {
        if self.late.is_empty() && self.late_deleted.is_empty() {
            return;
        }
        let late = std::mem::take(&mut self.late);
        let topics: Vec<Arc<TopicEntry>> =
            late.iter().map(|entry| renewed(entry, &self.world.plan, self.epoch)).collect();
        for entry in &topics {
            put_topic(&mut self.image, entry);
        }
        self.image.partitions_below = PartitionId(self.next_partition);
        let deleted = std::mem::take(&mut self.late_deleted);
        self.apply(Delta { topics, deleted, ..Delta::default() });
    }

    /// An administrator does something rare.
    pub(super) fn administrate(&mut self) {
        match self.chance.below(8) {
            0..3 => self.create_topic(),
            3 => self.delete_topic(),
            4..6 => self.catch_up(),
            _ => self.add_journal(),
        }
    }

    fn add_journal(&mut self) {
        if self.world.plan.journals >= 7 {
            return;
        }
        let id = self.world.plan.journals;
        self.world.plan.journals += 1;
        let entry = Arc::new(self.world.plan.journal(id, self.epoch));
        self.image.journals.insert(entry.id, entry.clone());
        self.apply(Delta { journals: vec![entry], ..Delta::default() });
    }

    pub(super) fn some_partition(&mut self) -> Option<(PartitionId, usize)> {
        let topics = self.topics();
        let all: Vec<PartitionEntry> = topics.iter().flat_map(|entry| entry.partitions.iter().copied()).collect();
        let one = (!all.is_empty()).then(|| *self.chance.pick(&all))?;
        Some((one.id, usize::from(one.shard.0)))
    }

    /// A command to a partition's shard.
    pub(super) fn command(&mut self) {
        let Some((partition, mut shard)) = self.some_partition() else { return };
        let Some(part) = self.ledger.parts.get(&partition) else { return };
        let (start, high) = (part.start.cast_unsigned(), part.high.cast_unsigned());
        let floor = self.ledger.floor(partition);
        let (asked, command) = match self.chance.below(6) {
            0..2 => {
                let to = self.chance.between(start, high).cast_signed();
                let to = if self.chance.odds(1, 3) { -1 } else { to };
                let part = self.ledger.parts.get_mut(&partition).expect("found above");
                part.open_moves += u32::from(to < 0);
                part.asked = part.asked.max(to);
                (Asked::Move { partition, to }, ShardCommand::MoveStart { partition, to: Offset(to) })
            }
            2 if self.chance.odds(1, 4) => {
                let (at, from, upto) = self.some_home(partition, shard);
                shard = at;
                let whole = (from, upto) == (Offset(0), Offset(i64::MAX));
                let floor = if whole { floor } else { Floor::default() };
                (Asked::Find { partition, timestamp: None, floor }, ShardCommand::FindMaxTime { partition, from, upto })
            }
            2 => {
                // Around the time of some batch that is there.
                let known: Vec<BatchId> = part.known.values().copied().collect();
                let some = known.get(self.chance.index(known.len())).map(|id| self.ledger.time_of(*id));
                let around = some.unwrap_or(self.world.now.wall.0);
                let timestamp = around + 1 - self.chance.below(3).cast_signed();
                let (at, from, upto) = self.some_home(partition, shard);
                shard = at;
                let whole = (from, upto) == (Offset(0), Offset(i64::MAX));
                let floor = if whole { floor } else { Floor::default() };
                let command = ShardCommand::FindTime { partition, timestamp: WallMs(timestamp), from, upto };
                (Asked::Find { partition, timestamp: Some(timestamp), floor }, command)
            }
            3 => {
                let batch = self.new_batch(partition, Producer::NONE);
                let bytes = self.ledger.sent[batch].bytes.clone();
                let command = ShardCommand::Append { partition, epoch: Epoch(self.epoch), batch: bytes };
                (Asked::Append { batch }, command)
            }
            4 => {
                let offset = self.chance.between(start, high).cast_signed();
                let bytes_max = *self.chance.pick(&[1, 3000, 1 << 20]);
                shard = self.shard_at(partition, shard, offset);
                let command = ShardCommand::Read { partition, offset: Offset(offset), bytes_max };
                (Asked::Read { partition, offset, floor }, command)
            }
            _ => (Asked::Bounds { partition, floor }, ShardCommand::Bounds { partition }),
        };
        let token = self.token(asked);
        talk(|| format!("command {token} to shard {shard}: {asked:?}"));
        self.rings.send(shard, ToShard::Command { token, command });
    }

    /// Lets a coordinator append a batch.
    pub(super) fn append_by_command(&mut self, shard: usize, partition: PartitionId, batch: BatchId) {
        let token = self.token(Asked::Append { batch });
        let bytes = self.ledger.sent[batch].bytes.clone();
        let command = ShardCommand::Append { partition, epoch: Epoch(self.epoch), batch: bytes };
        self.rings.send(shard, ToShard::Command { token, command });
    }

    /// Asks a partition's shard for records; the token.
    pub(super) fn ask_read(&mut self, shard: usize, partition: PartitionId, offset: i64, bytes_max: usize) -> u64 {
        let token = self.token(Asked::Read { partition, offset, floor: self.ledger.floor(partition) });
        let command = ShardCommand::Read { partition, offset: Offset(offset), bytes_max };
        self.rings.send(shard, ToShard::Command { token, command });
        token
    }

    /// Searches the whole of a partition that has one home for a time, or for the highest; the token.
    pub(super) fn ask_time(&mut self, shard: usize, partition: PartitionId, timestamp: Option<i64>) -> u64 {
        let token = self.token(Asked::Find { partition, timestamp, floor: self.ledger.floor(partition) });
        let (from, upto) = (Offset(0), Offset(i64::MAX));
        let command = match timestamp {
            Some(timestamp) => ShardCommand::FindTime { partition, timestamp: WallMs(timestamp), from, upto },
            None => ShardCommand::FindMaxTime { partition, from, upto },
        };
        self.rings.send(shard, ToShard::Command { token, command });
        token
    }

    /// Asks for the ends.
    pub(super) fn ask_bounds(&mut self, shard: usize, partition: PartitionId) -> u64 {
        let token = self.token(Asked::Bounds { partition, floor: self.ledger.floor(partition) });
        self.rings.send(shard, ToShard::Command { token, command: ShardCommand::Bounds { partition } });
        token
    }

    /// Takes one message of some shard.
    pub(super) fn hear(&mut self) -> Result<(), String> {
        let shard = self.chance.index(self.world.shards.len());
        match self.rings.receive(shard) {
            Some(message) => self.heard(message),
            None => Ok(()),
        }
    }

    /// Takes every message. Whether there were any.
    pub(super) fn hear_all(&mut self) -> Result<bool, String> {
        let mut any = false;
        for shard in 0..self.world.shards.len() {
            while let Some(message) = self.rings.receive(shard) {
                any = true;
                self.heard(message)?;
            }
        }
        Ok(any)
    }

    fn heard(&mut self, message: ToControl) -> Result<(), String> {
        match message {
            ToControl::Request(request) => {
                // Whatever it asks, the answer is its correlation id and a word.
                let mut response = request.frame[4..8].to_vec();
                response.extend_from_slice(b"\0word");
                let answer =
                    ToShard::Answer { conn: request.conn, sequence: request.sequence, response: Some(response) };
                self.rings.send(usize::from(request.shard.0), answer);
            }
            ToControl::ConnectionClosed { .. } => {}
            ToControl::JournalFenced { journal, reason } => {
                talk(|| format!("journal {journal} is fenced: {reason}"));
                if !self.faulty {
                    return Err(format!("journal {journal} is fenced without a fault: {reason}"));
                }
                self.summary.fenced += 1;
                self.fenced.insert(journal);
            }
            ToControl::Stopped { shard } => {
                self.stopped.insert(shard.0);
            }
            ToControl::Done { token, outcome } => {
                let asked = self.asked.remove(&token).ok_or_else(|| format!("command {token} is done twice"))?;
                self.summary.commands += 1;
                talk(|| format!("command {token} {asked:?} brought {outcome:?}"));
                self.done(asked, outcome).map_err(|error| format!("{asked:?}: {error}"))?;
            }
        }
        Ok(())
    }

    fn done(&mut self, asked: Asked, outcome: Result<Outcome, Refusal>) -> Result<(), String> {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(refusal) => return self.refused(asked, refusal),
        };
        match (asked, outcome) {
            (Asked::Apply, Outcome::Applied) => {
                self.all_have_heard();
                Ok(())
            }
            (Asked::Move { partition, to }, Outcome::Moved(at)) => {
                if to >= 0 && at.0 < to {
                    return Err(format!("moved to {at}"));
                }
                self.ledger.moved(partition, at.0);
                let Some(part) = self.ledger.parts.get_mut(&partition) else { return Ok(()) };
                part.open_moves -= u32::from(to < 0);
                part.asked = part.asked.max(at.0);
                Ok(())
            }
            (Asked::Find { partition, timestamp, floor }, Outcome::Batch(bytes)) => {
                self.found(partition, timestamp, floor, bytes)
            }
            (Asked::Append { batch }, Outcome::Appended(base)) => {
                self.summary.acked += 1;
                let stamp =
                    self.ledger.parts.get(&self.ledger.sent[batch].partition).is_some_and(|part| part.append_time);
                if stamp {
                    // The outcome does not tell the stamp: whoever reads it will.
                    return self.ledger.acked_unstamped(batch, base.0);
                }
                self.ledger.acked(batch, base.0, -1)
            }
            (Asked::Read { partition, offset, floor }, Outcome::Records(bytes, bounds)) => {
                let (start, high) = (bounds.log_start.0, bounds.high_watermark.0);
                // An old home knows its own end only, and hears late of the log's start.
                if !self.is_spread(partition) {
                    self.ledger.told_ends(partition, start, high, floor)?;
                }
                let next = self.ledger.served(partition, offset, &bytes, high)?;
                self.read = Some(Ok((next, start, high)));
                Ok(())
            }
            (Asked::Bounds { partition, floor }, Outcome::Bounds(bounds)) => {
                let (start, high) = (bounds.log_start.0, bounds.high_watermark.0);
                self.read = Some(Ok((start, start, high)));
                self.ledger.told_ends(partition, start, high, floor)
            }
            (Asked::Close { partition }, Outcome::Closed(at, state)) => {
                self.closed_home(partition, at, state);
                Ok(())
            }
            (Asked::Open { partition }, Outcome::Opened) => {
                self.opened_home(partition);
                Ok(())
            }
            (Asked::Expire { partition }, Outcome::Expired(to)) => {
                self.expired(partition, to);
                Ok(())
            }
            (_, other) => Err(format!("answered by {other:?}")),
        }
    }

    /// If no metadata is on its way, every shard has heard of every partition but the late ones.
    pub(super) fn all_have_heard(&mut self) {
        if self.asked.values().any(|asked| matches!(asked, Asked::Apply)) {
            return;
        }
        for entry in self.topics() {
            for partition in entry.partitions.iter() {
                if let Some(part) = self.ledger.parts.get_mut(&partition.id) {
                    part.heard_of = true;
                }
            }
        }
    }

    fn refused(&mut self, asked: Asked, refusal: Refusal) -> Result<(), String> {
        if let Asked::Close { partition } | Asked::Open { partition } = asked {
            self.move_refused(partition, refusal);
            return Ok(());
        }
        let partition = match asked {
            Asked::Apply => return Err(format!("refused: {refusal:?}")),
            Asked::Append { batch } => self.ledger.sent[batch].partition,
            Asked::Move { partition, .. }
            | Asked::Find { partition, .. }
            | Asked::Read { partition, .. }
            | Asked::Bounds { partition, .. }
            | Asked::Close { partition }
            | Asked::Open { partition }
            | Asked::Expire { partition } => partition,
        };
        self.read = Some(Err(refusal));
        let Some(part) = self.ledger.parts.get(&partition) else { return Ok(()) };
        let right = match refusal {
            Refusal::OutOfRange => match asked {
                Asked::Read { offset, .. } => offset < part.asked || part.retained || part.open_moves > 0,
                _ => false,
            },
            Refusal::Fenced => self.faulty || self.ledger.harmed || self.may_fail(partition),
            Refusal::Damaged { .. } => self.ledger.harmed || self.faulty,
            Refusal::Full => {
                self.summary.full += 1;
                true
            }
            Refusal::Busy | Refusal::Stopping => true,
            // The metadata came before the command; a journal that is closed knows nothing.
            Refusal::UnknownPartition => {
                part.journals.iter().any(|journal| self.closed.contains(journal))
                    || matches!(asked, Asked::Expire { .. }) && part.moves
            }
            Refusal::Moved => part.moves,
            Refusal::FencedEpoch | Refusal::UnknownEpoch | Refusal::Corrupt => false,
        };
        if let Asked::Append { batch } = asked
            && refusal != Refusal::Fenced
        {
            self.ledger.sent[batch].fate = Fate::Gone;
        }
        let part = part.clone();
        // What waited too long may still come to be.
        if let Asked::Move { to: -1, .. } = asked
            && !matches!(refusal, Refusal::Fenced | Refusal::Busy)
            && let Some(part) = self.ledger.parts.get_mut(&partition)
        {
            part.open_moves -= 1;
        }
        if right { Ok(()) } else { Err(format!("partition {partition}: refused: {refusal:?}, known {part:?}")) }
    }

    /// A search by time brought a batch, or none: none that was there when it began, and still is, may fit better.
    fn found(
        &mut self,
        partition: PartitionId,
        timestamp: Option<i64>,
        floor: Floor,
        bytes: Option<Vec<u8>>,
    ) -> Result<(), String> {
        let Some(part) = self.ledger.parts.get(&partition) else { return Ok(()) };
        let batch = match &bytes {
            None => None,
            Some(bytes) => Some(BatchView::first(bytes).map_err(|error| format!("found: {error}"))?.0),
        };
        let found = batch.map(|batch| (batch.base_offset(), batch.max_timestamp()));
        if let (Some((base, time)), Some(timestamp)) = (found, timestamp)
            && time < timestamp
        {
            return Err(format!("found a batch of time {time} at {base}"));
        }
        let fits_better = |base: i64, time: i64| match (found, timestamp) {
            (Some((at, _)), Some(timestamp)) => base < at && time >= timestamp,
            (Some((_, highest)), None) => time > highest,
            (None, Some(timestamp)) => time >= timestamp,
            (None, None) => true,
        };
        // What may have been deleted meanwhile is not looked for.
        let sure = !part.append_time && !part.retained && part.open_moves == 0 && !self.ledger.harmed && !self.faulty;
        let better = part.known.iter().find(|(base, id)| {
            let end = **base + self.ledger.sent[**id].count;
            end <= floor.high && end > part.asked && fits_better(**base, self.ledger.time_of(**id))
        });
        if let Some((base, id)) = better.filter(|_| sure) {
            return Err(format!(
                "found {found:?}, batch {id} at {base} of time {} fits better",
                self.ledger.time_of(*id)
            ));
        }
        let Some((bytes, (at, _))) = bytes.zip(found) else { return Ok(()) };
        self.ledger.served(partition, at, &bytes, i64::MAX).map(|_| ())
    }
}
