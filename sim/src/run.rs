//! One seed: a broker's journals live, crash, stop and start again, and are compared with the model all the time.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::image::{Compaction, TimestampType, TopicConfig};
use base::{Epoch, JournalId, Offset, PartitionId, WallMs};
use journal::recovery::JournalReport;
use journal::storage::Storage as _;
use journal::store::{AppendError, Appended, ReadOutcome};
use protocol::batch::{BatchBuilder, BatchView, Producer};

use crate::compacted::DELETE_RETENTION_MS;
use crate::model::{Entry, Log, ProducerModel};
pub use crate::summary::Summary;
use crate::world::{Faults, Plan, Rest, World, time_of_record};
use crate::{Chance, audit, recover, sums};

mod harmed;

/// A broker under test, and its clients.
#[derive(Debug)]
pub struct Run {
    /// All chance of the run.
    pub chance: Chance,
    /// The broker.
    pub world: World,
    /// What its clients know.
    pub logs: BTreeMap<PartitionId, Log>,
    homes: BTreeMap<PartitionId, JournalId>,
    configs: BTreeMap<PartitionId, Arc<TopicConfig>>,
    epoch: i32,
    /// Of which partitions the next steps are; none: of all.
    focus: Vec<PartitionId>,
    next_partition: u64,
    pub(crate) next_value: u64,
    /// The highest wall time there was.
    pub(crate) wall_max: i64,
    summary: Summary,
    /// Whether a fault was planted in this life.
    faulty: bool,
    /// Whether a restart that reports damage is wrong, and brings back everything.
    pub checked: bool,
}

/// Runs one seed.
///
/// # Errors
/// What is wrong. The machines under test may also panic.
pub fn run(seed: u64) -> Result<Summary, String> {
    let mut chance = Chance::new(seed);
    let plan = Plan::any(&mut chance);
    let lives = chance.between(2, 5);
    let rest = Rest::new(plan.clone());
    let mut run = Run::first(chance, rest)?;
    for id in 1..=run.chance.between(1, 8) {
        run.new_partition(PartitionId(id));
    }
    for life in 0..lives {
        let most = *run.chance.pick(&[30, 100, 300]);
        let steps = run.chance.between(10, most);
        if run.chance.odds(1, 6) {
            run.plant();
        }
        for step in 0..steps {
            run.step().map_err(|error| format!("life {life} step {step}: {error}"))?;
        }
        run = run.again().map_err(|error| format!("end of life {life}: {error}"))?;
    }
    run.last().map_err(|error| format!("at the end: {error}"))?;
    run.summary.trace = run.world.trace;
    Ok(run.summary)
}

/// How a life ends before something rots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// In order.
    Stop,
    /// By a crash when all is durable.
    Quiet,
    /// By a crash in the middle of it.
    Crash,
}

/// Runs one seed in which one thing rots on the device of a broker that stopped in order or crashed: whatever it is, what is
/// served afterwards is what was written, what is not is called damaged, no offset is given twice, and nothing that was
/// deleted comes back.
///
/// # Errors
/// What is wrong. The machines under test may also panic.
pub fn run_harmed(seed: u64) -> Result<Summary, String> {
    let mut chance = Chance::new(seed);
    let plan = Plan::any(&mut chance);
    let mut run = Run::first(chance, Rest::new(plan))?;
    for id in 1..=run.chance.between(1, 6) {
        run.new_partition(PartitionId(id));
    }
    for _ in 0..run.chance.between(1, 3) {
        for _ in 0..run.chance.between(20, 200) {
            run.step()?;
        }
        run = run.again()?;
    }
    for _ in 0..20 {
        run.append()?;
    }
    run.harmed_end()
}

/// Runs one seed in which most of what is written is deleted soon and little is kept for ever, so that extents are clustered all
/// the time, through crashes.
///
/// # Errors
/// What is wrong. The machines under test may also panic.
pub fn run_mixed(seed: u64) -> Result<Summary, String> {
    let mut chance = Chance::new(seed);
    let mut plan = Plan::any(&mut chance);
    plan.journals = plan.journals.min(2);
    plan.shards = 1;
    plan.extent_len = 128 << 10;
    plan.extents_max = 33 + 4 * chance.between(0, 12);
    plan.batch_bytes = *chance.pick(&[2000, 20_000]);
    plan.unit_bytes = plan.unit_bytes.min(16 << 10);
    let lives = chance.between(2, 4);
    let mut run = Run::first(chance, Rest::new(plan))?;
    let (kept, bulk): (Vec<_>, Vec<_>) = (1..=5).map(PartitionId).partition(|id| id.0 <= 2);
    for id in kept.iter().chain(&bulk) {
        run.new_partition(*id);
    }
    for life in 0..lives {
        if run.chance.odds(1, 8) {
            run.plant();
        }
        for step in 0..run.chance.between(100, 600) {
            let focus = if run.chance.odds(1, 8) { &kept } else { &bulk };
            run.focus.clone_from(focus);
            run.mixed_step(&kept, &bulk).map_err(|error| format!("life {life} step {step}: {error}"))?;
        }
        run.focus.clear();
        run = run.again().map_err(|error| format!("end of life {life}: {error}"))?;
    }
    if run.chance.odds(1, 3) {
        return run.harmed_end().map_err(|error| format!("harmed: {error}"));
    }
    run.last().map_err(|error| format!("at the end: {error}"))?;
    run.summary.trace = run.world.trace;
    Ok(run.summary)
}

/// Runs one seed with partitions that are compacted beside others, through crashes.
///
/// # Errors
/// What is wrong. The machines under test may also panic.
pub fn run_compacted(seed: u64) -> Result<Summary, String> {
    let mut chance = Chance::new(seed);
    let mut plan = Plan::any(&mut chance);
    plan.journals = 1;
    plan.shards = 1;
    plan.extent_len = 128 << 10;
    plan.extents_max = 33 + 4 * chance.between(0, 12);
    plan.batch_bytes = *chance.pick(&[400, 4000, 20_000]);
    plan.unit_bytes = plan.unit_bytes.min(16 << 10);
    let lives = chance.between(2, 4);
    let mut run = Run::first(chance, Rest::new(plan))?;
    let (compacted, others): (Vec<_>, Vec<_>) = (1..=5).map(PartitionId).partition(|id| id.0 <= 3);
    for id in &compacted {
        run.new_compacted(*id);
    }
    for id in &others {
        run.new_partition(*id);
    }
    for life in 0..lives {
        if run.chance.odds(1, 8) {
            run.plant();
        }
        for step in 0..run.chance.between(100, 600) {
            let focus = if run.chance.odds(7, 8) { &compacted } else { &others };
            if run.chance.odds(1, 40) {
                // Tombstones' time comes.
                run.world.pass_ms(20_000);
            }
            run.focus.clone_from(focus);
            run.mixed_step(&compacted, &others).map_err(|error| format!("life {life} step {step}: {error}"))?;
        }
        run.focus.clear();
        run = run.again().map_err(|error| format!("end of life {life}: {error}"))?;
    }
    run.last().map_err(|error| format!("at the end: {error}"))?;
    run.summary.trace = run.world.trace;
    Ok(run.summary)
}

/// Harms one thing.
pub(crate) fn harm(rest: &mut Rest, chance: &mut Chance) {
    let from = chance.odds(1, 10);
    let low = if from { 0 } else { 1 << 20 };
    // Most of what is there lies at the front of each extent.
    let len = rest.disk.len() - (1 << 20);
    let extent = chance.below(len / rest.plan.extent_len) * rest.plan.extent_len;
    let inside = chance.below(rest.plan.extent_len) >> chance.below(8);
    let at = if from { chance.below(1 << 20) } else { low + extent + inside };
    match chance.below(8) {
        0 => rest.disk.spoil(at),
        1 => {
            let other = (1 << 20) + chance.below(len);
            rest.disk.misdirect(other, at);
        }
        2 => {
            for file in rest.files.values_mut().filter(|file| !file.is_empty()) {
                let byte = chance.index(file.len());
                file[byte] ^= 4;
            }
        }
        _ => rest.disk.rot(at, 1 << chance.below(8)),
    }
}

impl Run {
    /// A broker with a new device.
    ///
    /// # Errors
    /// What is wrong.
    pub fn first(chance: Chance, rest: Rest) -> Result<Self, String> {
        let mut chance = chance;
        let mut epoch = 0;
        let (world, _) = recover::open(rest, &mut epoch, &mut chance)?;
        let run = Self {
            chance,
            world,
            logs: BTreeMap::new(),
            homes: BTreeMap::new(),
            configs: BTreeMap::new(),
            epoch,
            focus: Vec::new(),
            next_partition: 100,
            next_value: 0,
            wall_max: i64::MIN,
            summary: Summary::default(),
            faulty: false,
            checked: true,
        };
        Ok(run)
    }

    /// Makes a partition with settings of its own in a journal.
    pub fn add_partition(&mut self, id: PartitionId, journal: JournalId, config: TopicConfig) {
        let retained = config.retention_bytes >= 0 || config.retention_ms >= 0;
        self.homes.insert(id, journal);
        self.logs.insert(id, Log { retained, compacted: config.compaction.is_some(), ..Log::default() });
        self.configs.insert(id, Arc::new(config));
        self.tell_partition(id);
    }

    /// Deletes a partition for ever.
    pub fn delete_partition(&mut self, id: PartitionId) {
        let shard = self.shard(id);
        self.world.with(shard, |store, _, now, _| store.delete_partition(now, id));
        self.logs.remove(&id);
        self.configs.remove(&id);
    }

    fn new_partition(&mut self, id: PartitionId) {
        let journal = JournalId(self.chance.below(self.world.plan.journals));
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
        self.add_partition(id, journal, config);
    }

    fn new_compacted(&mut self, id: PartitionId) {
        let journal = JournalId(self.chance.below(self.world.plan.journals));
        let append_time = self.chance.odds(1, 5);
        let retained = self.chance.odds(1, 4);
        let compaction = Compaction {
            delete_retention_ms: DELETE_RETENTION_MS,
            lag_ms_min: *self.chance.pick(&[0, 0, 5000]),
            lag_ms_max: *self.chance.pick(&[i64::MAX, i64::MAX, 20_000]),
            dirty_ppm_min: *self.chance.pick(&[0, 100_000, 500_000]),
        };
        let config = TopicConfig {
            retention_ms: if retained { 60_000 } else { -1 },
            retention_bytes: -1,
            compaction: Some(compaction),
            max_message_bytes: 60 << 10,
            timestamp_type: if append_time { TimestampType::Append } else { TimestampType::Create },
            timestamp_before_ms_max: i64::MAX,
            timestamp_after_ms_max: i64::MAX,
            min_insync_replicas: 1,
        };
        self.add_partition(id, journal, config);
    }

    fn tell_partition(&mut self, id: PartitionId) {
        let (journal, config) = (self.homes[&id], self.configs[&id].clone());
        let shard = self.shard(id);
        self.world.with(shard, |store, _, now, _| store.set_partition(now, id, journal, config));
    }

    fn shard(&self, id: PartitionId) -> usize {
        usize::from(self.world.plan.shard_of(self.homes[&id].0).0)
    }

    fn some_partition(&mut self) -> Option<PartitionId> {
        let of_focus = |id: &PartitionId| self.focus.is_empty() || self.focus.contains(id);
        let ids: Vec<PartitionId> = self.logs.keys().copied().filter(of_focus).collect();
        (!ids.is_empty()).then(|| *self.chance.pick(&ids))
    }

    fn plant(&mut self) {
        self.faulty = true;
        let after = self.chance.between(0, 200);
        let faults = match self.chance.below(3) {
            0 => Faults { write: Some(after), ..Faults::default() },
            1 => Faults { flush: Some(after / 4), ..Faults::default() },
            _ => Faults { read: Some(after / 8), ..Faults::default() },
        };
        self.world.faults = faults;
    }

    fn mixed_step(&mut self, kept: &[PartitionId], bulk: &[PartitionId]) -> Result<(), String> {
        match self.chance.below(100) {
            0..45 => {
                for _ in 0..self.chance.between(1, 4) {
                    self.append()?;
                }
            }
            45..75 => {
                for _ in 0..self.chance.between(1, 8) {
                    self.world.complete(&mut self.chance);
                }
            }
            75..80 => self.world.pump(),
            80..90 => {
                let ms = *self.chance.pick(&[1, 50, 1100]);
                self.world.pass_ms(ms);
                self.world.housekeep();
            }
            90..95 => {
                self.focus = bulk.to_vec();
                self.move_start()?;
            }
            95..99 => {
                self.focus = kept.to_vec();
                self.read()?;
            }
            _ => self.send_again()?,
        }
        self.check()
    }

    fn step(&mut self) -> Result<(), String> {
        match self.chance.below(100) {
            0..40 => {
                for _ in 0..self.chance.between(1, 4) {
                    self.append()?;
                }
            }
            40..78 => {
                for _ in 0..self.chance.between(1, 6) {
                    self.world.complete(&mut self.chance);
                }
            }
            78..86 => self.world.pump(),
            86..91 => self.read()?,
            91..95 => {
                let ms = *self.chance.pick(&[1, 50, 1100, 20_000]);
                self.world.pass_ms(ms);
                self.world.housekeep();
            }
            95..97 => self.move_start()?,
            97 => self.send_again()?,
            98 => self.bad_append()?,
            _ => self.replace_partition(),
        }
        self.check()
    }

    /// Lets the model know what is committed, and compares the ends of every partition.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&mut self) -> Result<(), String> {
        self.wall_max = self.wall_max.max(self.world.now.wall.0);
        for (&id, log) in &mut self.logs {
            let journal = self.homes[&id];
            let shard = usize::from(self.world.plan.shard_of(journal.0).0);
            let store = &self.world.shards[shard].store;
            let Some(commit) = store.commit_position(journal) else { continue };
            let before = log.tail.len();
            log.commit(commit, store.sure_start(id).unwrap_or_default());
            self.summary.acked += (before - log.tail.len()) as u64;
            let bounds = store.bounds(id).ok_or(format!("partition {id} is unknown"))?;
            log.check_bounds(bounds.log_start, bounds.high_watermark, bounds.log_end)
                .map_err(|error| format!("partition {id}: {error}"))?;
            if log.retained {
                log.move_start(bounds.log_start.0);
            }
        }
        Ok(())
    }

    fn batch(&mut self, producer: Producer) -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        let budget = self.chance.between(1, self.world.plan.batch_bytes as u64);
        let records = self.chance.between(1, 4);
        for record in 0..records {
            self.next_value += 1;
            let mut value = self.next_value.to_le_bytes().to_vec();
            value.resize(8 + usize::try_from(budget / records).expect("small"), value[0]);
            let time = time_of_record(self.world.now.wall, self.next_value - record, record);
            builder.append(time, None, Some(&value), &[]);
        }
        builder.finish(producer, &sums()).to_vec()
    }

    /// Appends one record of `bytes` to a partition, letting the broker work until it is taken.
    ///
    /// # Errors
    /// When it is refused, or never taken.
    pub fn put(&mut self, id: PartitionId, bytes: usize) -> Result<(), String> {
        self.next_value += 1;
        let mut value = self.next_value.to_le_bytes().to_vec();
        value.resize(bytes.max(8), 0x5c);
        let mut builder = BatchBuilder::new();
        builder.append(self.world.now.wall.0, None, Some(&value), &[]);
        let sent = builder.finish(Producer::NONE, &sums()).to_vec();
        for _ in 0..200 {
            match self.send(id, &sent) {
                Ok(appended) => {
                    self.taken(id, sent, &appended)?;
                    return self.check();
                }
                Err(AppendError::Busy) => self.world.settle(&mut self.chance),
                Err(AppendError::Full) => self.work(),
                Err(error) => return Err(format!("append to partition {id}: {error:?}")),
            }
        }
        Err(format!("append to partition {id}: no room for ever, {:?}", self.world.pool.counts()))
    }

    /// A second of housekeeping.
    pub fn work(&mut self) {
        self.world.pass_ms(600);
        self.world.housekeep();
        self.world.settle(&mut self.chance);
    }

    /// Moves a partition's log start up to `to` and waits for it; −1 is the high watermark.
    ///
    /// # Errors
    /// When it is refused.
    pub fn trim(&mut self, id: PartitionId, to: i64) -> Result<(), String> {
        let shard = self.shard(id);
        for _ in 0..100 {
            let moved = self.world.with(shard, |store, arena, now, _| store.move_start(now, id, Offset(to), arena));
            match moved {
                Ok((at, _)) => {
                    self.logs.get_mut(&id).expect("known").moves.push(at.0);
                    self.world.settle(&mut self.chance);
                    return self.check();
                }
                Err(AppendError::Busy | AppendError::Full) => self.work(),
                Err(error) => return Err(format!("partition {id}: move to {to}: {error:?}")),
            }
        }
        Err(format!("partition {id}: the start cannot be moved to {to}"))
    }

    fn append(&mut self) -> Result<(), String> {
        let Some(id) = self.some_partition() else { return Ok(()) };
        let log = self.logs.get_mut(&id).expect("picked");
        let producer = if self.chance.odds(1, 2) {
            Producer::NONE
        } else {
            let who = self.chance.below(3).cast_signed();
            let known = *log.producers.entry(who).or_insert(ProducerModel { epoch: 0, next: 0 });
            Producer { id: who, epoch: known.epoch, sequence: known.next, transactional: false }
        };
        let sent = if self.logs[&id].compacted { self.keyed_batch(producer) } else { self.batch(producer) };
        match self.send(id, &sent) {
            Ok(appended) if appended.duplicate => Err(format!("a new batch of partition {id} is called a duplicate")),
            Ok(appended) => self.taken(id, sent, &appended),
            Err(AppendError::Busy) => Ok(()),
            Err(AppendError::Full) => {
                self.summary.full += 1;
                Ok(())
            }
            Err(AppendError::Fenced) if self.faulty => Ok(()),
            Err(error) => {
                let shard = self.shard(id);
                let known = self.world.shards[shard].store.producers(id);
                let first = BatchView::check(&sent).expect("a good header").base_sequence();
                Err(format!("append of sequence {first} to partition {id}: {error:?}; known are {known:?}"))
            }
        }
    }

    fn send(&mut self, id: PartitionId, sent: &[u8]) -> Result<Appended, AppendError> {
        let shard = self.shard(id);
        let view = BatchView::check(sent).expect("a good header");
        self.world.with(shard, |store, arena, now, _| store.append(now, id, &view, arena))
    }

    fn taken(&mut self, id: PartitionId, sent: Vec<u8>, appended: &Appended) -> Result<(), String> {
        let view = BatchView::check(&sent).expect("checked before");
        let log = self.logs.get_mut(&id).expect("known");
        if appended.base_offset.0 != log.end() {
            return Err(format!("partition {id}: offset {} given, the end is {}", appended.base_offset, log.end()));
        }
        if view.producer_id() >= 0 {
            log.producers.get_mut(&view.producer_id()).expect("known").next = view.last_sequence() + 1;
        }
        self.note(id, sent, appended);
        Ok(())
    }

    /// Tells the model of a batch that was taken.
    fn note(&mut self, id: PartitionId, sent: Vec<u8>, appended: &Appended) {
        let view = BatchView::check(&sent).expect("checked before");
        let producer = (view.producer_id() >= 0).then(|| (view.producer_id(), view.base_sequence()));
        let log = self.logs.get_mut(&id).expect("known");
        log.tail.push_back(Entry {
            base: appended.base_offset.0,
            count: view.count().into(),
            position: appended.position,
            append_time: appended.append_time.0,
            producer,
            epoch: self.epoch,
            max_timestamp: if appended.append_time.0 >= 0 { appended.append_time.0 } else { view.max_timestamp() },
            sent,
        });
        self.summary.taken += 1;
        self.world.note(appended.position.0);
    }

    /// Sends one of a producer's last five batches again.
    fn send_again(&mut self) -> Result<(), String> {
        let Some(id) = self.some_partition() else { return Ok(()) };
        let log = &self.logs[&id];
        let who = self.chance.below(3).cast_signed();
        let of = |entry: &&Entry| entry.producer.is_some_and(|(producer, _)| producer == who);
        let mut last: Vec<Entry> = log.acked.values().chain(&log.tail).filter(of).cloned().collect();
        let from = last.len().saturating_sub(5);
        let last: Vec<Entry> = last.drain(from..).collect();
        if last.is_empty() {
            return Ok(());
        }
        let entry = self.chance.pick(&last).clone();
        match self.send(id, &entry.sent) {
            Ok(got) if got.duplicate && got.base_offset.0 == entry.base && got.append_time.0 == entry.append_time => {
                self.summary.duplicates += 1;
                Ok(())
            }
            Err(AppendError::Fenced) if self.faulty => Ok(()),
            other => Err(format!("partition {id}: batch {} sent again: {other:?}", entry.base)),
        }
    }

    /// Batches that must be refused by name.
    fn bad_append(&mut self) -> Result<(), String> {
        let Some(id) = self.some_partition() else { return Ok(()) };
        let log = &self.logs[&id];
        let (producer, spoil, right): (_, bool, &[AppendError]) = match self.chance.below(3) {
            0 => (Producer::NONE, true, &[AppendError::Corrupt]),
            1 => {
                let Some((&who, known)) = log.producers.first_key_value().filter(|(_, known)| known.next > 0) else {
                    return Ok(());
                };
                let sequence = known.next + 3;
                let producer = Producer { id: who, epoch: known.epoch, sequence, transactional: false };
                (producer, false, &[AppendError::OutOfOrderSequence])
            }
            _ => {
                let producer = Producer { id: 1000, epoch: 0, sequence: 7, transactional: false };
                (producer, true, &[AppendError::Corrupt, AppendError::OutOfOrderSequence])
            }
        };
        let mut sent = self.batch(producer);
        if spoil {
            *sent.last_mut().expect("not empty") ^= 1;
        }
        match self.send(id, &sent) {
            Err(error) if right.contains(&error) || matches!(error, AppendError::Busy | AppendError::Full) => Ok(()),
            Err(AppendError::Fenced) if self.faulty => Ok(()),
            other => Err(format!("partition {id}: a bad batch, wanted {right:?}, got {other:?}")),
        }
    }

    fn move_start(&mut self) -> Result<(), String> {
        let Some(id) = self.some_partition() else { return Ok(()) };
        let shard = self.shard(id);
        let log = self.logs.get_mut(&id).expect("picked");
        let high = log.acked_end();
        let to = if self.chance.odds(1, 4) { -1 } else { self.chance.between(0, high.cast_unsigned()).cast_signed() };
        let moved = self.world.with(shard, |store, arena, now, _| store.move_start(now, id, Offset(to), arena));
        match moved {
            Ok((at, _)) => {
                let log = self.logs.get_mut(&id).expect("picked");
                let wanted = if to < 0 { high } else { to };
                if at.0 < wanted || at.0 > high {
                    return Err(format!("partition {id}: start moved to {at}, asked {wanted}"));
                }
                log.moves.push(at.0);
                Ok(())
            }
            Err(AppendError::Busy | AppendError::Full) => Ok(()),
            Err(AppendError::Fenced) if self.faulty => Ok(()),
            Err(error) => Err(format!("partition {id}: move to {to} of {high}: {error:?}")),
        }
    }

    /// Deletes a partition for ever, and makes a new one.
    fn replace_partition(&mut self) {
        if self.logs.len() > 1 && self.chance.odds(1, 2) {
            let id = self.some_partition().expect("there are some");
            self.delete_partition(id);
        }
        self.next_partition += 1;
        self.new_partition(PartitionId(self.next_partition));
    }

    fn read(&mut self) -> Result<(), String> {
        let Some(id) = self.some_partition() else { return Ok(()) };
        let log = &self.logs[&id];
        let low = (log.start - 1).max(0);
        let from = self.chance.between(low.cast_unsigned(), (log.end() + 1).cast_unsigned()).cast_signed();
        let bytes_max = *self.chance.pick(&[1, 1000, 30_000, 1 << 20]);
        let (outcome, bytes) = self.fetch(id, from, bytes_max)?;
        self.check()?;
        let log = &self.logs[&id];
        let right = match outcome {
            ReadOutcome::Data { .. } => {
                self.summary.reads += 1;
                if log.compacted {
                    log.take_compacted(from, &bytes, &mut BTreeMap::new())? > from
                } else {
                    log.check_served(from, &bytes)? > from
                }
            }
            ReadOutcome::Empty => from >= log.acked_end() && from <= log.end(),
            ReadOutcome::OutOfRange => from < log.start || from > log.end() || log.moves.iter().any(|to| from < *to),
            ReadOutcome::Fenced | ReadOutcome::Damaged { .. } => self.faulty,
            ReadOutcome::Pending | ReadOutcome::UnknownPartition | ReadOutcome::Moved => false,
        };
        if right { Ok(()) } else { Err(format!("partition {id} read at {from}: {outcome:?}, log {:?}", ends(log))) }
    }

    /// Reads until there is an answer.
    ///
    /// # Errors
    /// When there never is one.
    pub fn fetch(&mut self, id: PartitionId, from: i64, bytes_max: usize) -> Result<(ReadOutcome, Vec<u8>), String> {
        let shard = self.shard(id);
        for _ in 0..1000 {
            let mut slices = Vec::new();
            let ready = self.world.told.ready;
            let outcome = self.world.with(shard, |store, arena, now, out| {
                store.read(now, id, Offset(from), bytes_max, true, arena, &mut slices, out)
            });
            if outcome != ReadOutcome::Pending {
                let bytes: Vec<u8> = slices.iter().flat_map(AsRef::as_ref).copied().collect();
                return match outcome {
                    ReadOutcome::Data { bytes: told } if told != bytes.len() => {
                        Err(format!("read of partition {id} told {told} bytes and gave {}", bytes.len()))
                    }
                    _ => Ok((outcome, bytes)),
                };
            }
            self.summary.cold += 1;
            for _ in 0..1000 {
                if self.world.told.ready != ready {
                    break;
                }
                if !self.world.complete(&mut self.chance) {
                    self.world.pump();
                }
            }
        }
        Err(format!("the read of partition {id} at {from} never ends"))
    }

    /// Ends this life, by a crash or in order, and begins the next.
    fn again(mut self) -> Result<Self, String> {
        let orderly = self.chance.odds(1, 3);
        if orderly {
            self.stop()?;
        }
        self.ended(orderly)?;
        let (next, _) = self.restart(|_, _| {})?;
        Ok(next)
    }

    /// Looks at what a life brought, before it ends.
    fn ended(&mut self, orderly: bool) -> Result<(), String> {
        let told = &self.world.told;
        let fenced = told.fenced.len() as u64;
        self.summary.freed += told.freed;
        self.summary.checkpoints += told.checkpoints;
        let clustered = self.world.shards.iter().map(|shard| shard.store.clustered_extents());
        self.summary.clustered += clustered.sum::<u64>();
        self.summary.compactions += self.world.shards.iter().map(|shard| shard.store.compaction().runs).sum::<u64>();
        self.summary.fenced += fenced;
        if fenced > 0 && !self.faulty {
            return Err(format!("fenced without a fault: {:?}", told.fenced));
        }
        self.check()?;
        let tails: usize = self.logs.values().map(|log| log.tail.len()).sum();
        if orderly && fenced == 0 && tails > 0 {
            let (plan, pool) = (&self.world.plan, self.world.pool.counts());
            return Err(format!("{tails} batches not durable after an orderly stop: {plan:?} {pool:?}"));
        }
        Ok(())
    }

    /// Cuts the power, lets `harm` do something to the device, and brings the broker up again.
    ///
    /// # Errors
    /// What is wrong.
    pub fn restart(mut self, harm: impl FnOnce(&mut Rest, &mut Chance)) -> Result<(Self, Vec<JournalReport>), String> {
        let mut rest = self.world.crash(&mut self.chance);
        audit::acked_lies_there(&mut rest.disk, &self.logs)?;
        harm(&mut rest, &mut self.chance);
        self.summary.restarts += 1;
        self.faulty = false;
        let (world, reports) = recover::open(rest, &mut self.epoch, &mut self.chance)?;
        for report in &reports {
            let damage = [&report.damage[..], &report.holes].concat();
            let damaged =
                !(damage.is_empty() && report.damaged_batches.is_empty() && report.damaged_controls.is_empty());
            let harmed = report.closed.is_some() || damaged;
            if self.checked && harmed {
                return Err(format!("nothing was harmed, and yet {report:?}"));
            }
        }
        let mut next = Self { world, ..self };
        let ids: Vec<PartitionId> = next.logs.keys().copied().collect();
        for &id in &ids {
            next.tell_partition(id);
        }
        next.world.settle(&mut next.chance);
        if next.checked {
            for id in ids {
                next.recovered(id)?;
            }
            next.check()?;
        }
        Ok((next, reports))
    }

    fn recovered(&mut self, id: PartitionId) -> Result<(), String> {
        let shard = self.shard(id);
        let bounds = self.world.shards[shard].store.bounds(id).ok_or(format!("partition {id} is gone"))?;
        let log = self.logs.get_mut(&id).expect("known");
        let tail = log.tail.len();
        let survived = log
            .recover(bounds.log_start, bounds.high_watermark, bounds.log_end)
            .map_err(|error| format!("partition {id} after recovery: {error}"))?;
        self.summary.survived += survived as u64;
        self.summary.lost += (tail - survived) as u64;
        self.read_through(id)?;
        self.every_duplicate(id)?;
        self.epochs_and_times(id)
    }

    /// Sends the last five batches of every producer again: all must be known.
    fn every_duplicate(&mut self, id: PartitionId) -> Result<(), String> {
        let mut last: BTreeMap<i64, Vec<Entry>> = BTreeMap::new();
        for entry in self.logs[&id].acked.values() {
            if let Some((who, _)) = entry.producer {
                last.entry(who).or_default().push(entry.clone());
            }
        }
        for entry in last.values().flat_map(|entries| entries.iter().rev().take(5)) {
            match self.send(id, &entry.sent) {
                Ok(got) if got.duplicate && got.base_offset.0 == entry.base => self.summary.duplicates += 1,
                other => {
                    let base = entry.base;
                    return Err(format!("partition {id}: batch {base} sent again after recovery: {other:?}"));
                }
            }
        }
        Ok(())
    }

    /// Asks for the end of epochs and for offsets by time.
    fn epochs_and_times(&mut self, id: PartitionId) -> Result<(), String> {
        let shard = self.shard(id);
        let log = &self.logs[&id];
        for epoch in 0..=self.epoch {
            let got = self.world.shards[shard].store.epoch_end(id, Epoch(epoch)).map(|(epoch, end)| (epoch.0, end.0));
            if let Some(wanted) = log.epoch_end(epoch)
                && got != Some(wanted)
            {
                return Err(format!("partition {id}: end of epoch {epoch} is {got:?}, should be {wanted:?}"));
            }
        }
        if log.compacted {
            return Ok(());
        }
        let Some(entry) = log.acked.values().nth(self.chance.index(log.acked.len())) else { return Ok(()) };
        let timestamp = entry.max_timestamp - self.chance.below(3).cast_signed();
        let wanted = log.at_time(timestamp);
        for _ in 0..1000 {
            let mut slices = Vec::new();
            let outcome = self.world.with(shard, |store, arena, now, out| {
                store.find_time(now, id, Some(WallMs(timestamp)), journal::store::ALL, arena, &mut slices, out)
            });
            match outcome {
                ReadOutcome::Pending => {
                    if !self.world.complete(&mut self.chance) {
                        self.world.pump();
                    }
                }
                ReadOutcome::Data { .. } => {
                    let bytes: Vec<u8> = slices.iter().flat_map(AsRef::as_ref).copied().collect();
                    let got = BatchView::first(&bytes).map_err(|error| error.to_string())?.0.base_offset();
                    let right = Some(got) == wanted;
                    return if right {
                        Ok(())
                    } else {
                        Err(format!("partition {id}: time {timestamp} is at {got}, should be at {wanted:?}"))
                    };
                }
                other => {
                    return Err(format!(
                        "partition {id}: time {timestamp}: {other:?}, should be at {wanted:?} {:?}",
                        self.logs[&id].acked.values().map(|e| (e.base, e.max_timestamp)).collect::<Vec<_>>()
                    ));
                }
            }
        }
        Err(format!("partition {id}: the search for time {timestamp} never ends"))
    }

    /// Reads a partition from its log start to its end.
    ///
    /// # Errors
    /// What is wrong.
    pub fn read_through(&mut self, id: PartitionId) -> Result<(), String> {
        if self.logs[&id].compacted {
            return self.read_through_compacted(id);
        }
        let mut next = self.logs[&id].start;
        while next < self.logs[&id].acked_end() {
            let bytes_max = *self.chance.pick(&[1, 30_000, 1 << 20]);
            let (outcome, bytes) = self.fetch(id, next, bytes_max)?;
            let ReadOutcome::Data { .. } = outcome else {
                return Err(format!("partition {id} after recovery, read at {next}: {outcome:?}"));
            };
            let log = &self.logs[&id];
            next = log.check_served(next, &bytes).map_err(|error| format!("partition {id}, read through: {error}"))?;
        }
        Ok(())
    }

    /// Stops in order.
    ///
    /// # Errors
    /// When that never ends.
    pub fn stop(&mut self) -> Result<(), String> {
        for shard in 0..self.world.shards.len() {
            self.world.with(shard, |store, arena, now, out| store.stop(now, arena, out));
        }
        for _ in 0..100_000 {
            self.world.pump();
            let quiet = self.world.shards.iter().all(|shard| shard.store.is_quiet());
            if quiet && self.world.in_flight() == 0 {
                return Ok(());
            }
            if !self.world.complete(&mut self.chance) {
                self.world.pass_ms(10);
            }
        }
        Err("the orderly stop never ends".into())
    }

    /// Everything once more in calm weather.
    fn last(&mut self) -> Result<(), String> {
        for _ in 0..20 {
            self.append()?;
        }
        self.world.settle(&mut self.chance);
        self.check()
    }
}

fn ends(log: &Log) -> (i64, i64, i64) {
    (log.start, log.acked_end(), log.end())
}
