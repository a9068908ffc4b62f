//! What the control plane asks of a shard: new metadata, work on single partitions, answers to clients, shutdown.

use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::{Delta, Image};
use base::message::{DamagedRange, Outcome, Refusal, ShardCommand, ToControl, ToShard};
use base::{ConnId, Epoch, JournalId, Mono, Now, Offset, PartitionId, WallMs};
use journal::homes::Behind;
use journal::store::ReadOutcome;

use crate::append::{Asker, Finished, Source};
use crate::conn::Answer;
use crate::errors::refusal_of;
use crate::homes::set_homes;
use crate::offsets::{bounds_of, check_epoch};
use crate::ports::{Neighbours as _, Ports, SliceOf};
use crate::produce::u32_of;
use crate::remote::AppendItem;
use crate::shard::Shard;

/// A command that waits for a device read.
pub(crate) struct WaitingCommand {
    token: u64,
    read: CommandRead,
    deadline: Mono,
}

/// A move of a log start that waits to be sure.
pub(crate) struct Move {
    token: u64,
    partition: PartitionId,
    to: Offset,
    journal: JournalId,
    deadline: Mono,
}

/// A command that reads.
#[derive(Clone, Copy, Debug)]
enum CommandRead {
    Records { partition: PartitionId, offset: Offset, bytes_max: usize },
    Time { partition: PartitionId, timestamp: Option<WallMs>, from: Offset, upto: Offset },
}

impl CommandRead {
    const fn partition(self) -> PartitionId {
        match self {
            Self::Records { partition, .. } | Self::Time { partition, .. } => partition,
        }
    }
}

/// How long a command waits for the device before it is refused as Busy, in ms. A move of a log start waits for room, too: on a
/// device that is full to the last sector it may never be sure, and commands that nobody answers would shut out all others.
pub(crate) const DEVICE_MS_MAX: u64 = 30_000;

/// Messages of the control plane taken in one turn.
const TURN_MAX: usize = 256;

impl<P: Ports> Shard<P> {
    /// Takes what the control plane sent, as long as there is room for what each may cause.
    pub(crate) fn poll_control(&mut self, now: Now) -> bool {
        for count in 0..TURN_MAX {
            if self.commands_open >= self.config.limits.commands_max {
                return count > 0;
            }
            let Some(message) = self.backends.neighbours.from_control() else { return count > 0 };
            match message {
                ToShard::Answer { conn, sequence, response } => self.control_answered(now, conn, sequence, response),
                ToShard::Apply { token, image, delta } => self.apply(now, token, image, &delta),
                ToShard::Command { token, command } => {
                    self.commands_open += 1;
                    self.command(now, token, command);
                }
                ToShard::Shutdown => self.begin_stop(now),
            }
        }
        true
    }

    fn control_answered(&mut self, now: Now, conn: ConnId, sequence: u64, response: Option<Vec<u8>>) {
        match response {
            Some(bytes) => self.answer(now, conn, sequence, Answer::Bare(bytes), false),
            None => self.close(now, conn, true),
        }
    }

    fn apply(&mut self, now: Now, token: u64, image: Arc<Image>, delta: &Delta) {
        let own = self.config.id;
        for journal in delta.journals.iter().filter(|journal| journal.shard == own) {
            self.store.create_journal(now, journal, &mut self.effects);
        }
        for topic in &delta.topics {
            for partition in topic.partitions.iter() {
                if set_homes(&mut self.store, now, own, &image, partition, &topic.config) {
                    // Who waits here may have to ask elsewhere.
                    self.waiting.wake(partition.id);
                    self.ready.push(partition.id);
                }
            }
        }
        for &partition in &delta.deleted {
            self.store.delete_partition(now, partition);
            // Who waits there hears that it is gone.
            self.waiting.wake(partition);
            self.ready.push(partition);
        }
        self.image = image;
        self.send_control(ToControl::Done { token, outcome: Ok(Outcome::Applied) });
    }

    pub(crate) fn done(&mut self, token: u64, outcome: Result<Outcome, Refusal>) {
        self.commands_open -= 1;
        self.send_control(ToControl::Done { token, outcome });
    }

    fn command(&mut self, now: Now, token: u64, command: ShardCommand) {
        if self.stopping.as_ref().is_some_and(crate::stop::Stopping::refuses) {
            self.done(token, Err(Refusal::Stopping));
            return;
        }
        let outcome = match command {
            ShardCommand::Append { partition, epoch, batch } => {
                self.command_append(now, token, partition, epoch, batch);
                return;
            }
            ShardCommand::MoveStart { partition, to } => {
                self.move_start(now, token, partition, to);
                return;
            }
            ShardCommand::Read { partition, offset, bytes_max } => {
                self.command_read(now, token, CommandRead::Records { partition, offset, bytes_max });
                return;
            }
            ShardCommand::FindTime { partition, timestamp, from, upto } => {
                let timestamp = Some(timestamp);
                self.command_read(now, token, CommandRead::Time { partition, timestamp, from, upto });
                return;
            }
            ShardCommand::FindMaxTime { partition, from, upto } => {
                self.command_read(now, token, CommandRead::Time { partition, timestamp: None, from, upto });
                return;
            }
            ShardCommand::Close { partition, next } => {
                self.close_home(now, token, partition, next);
                return;
            }
            ShardCommand::Open { journal, previous, state } => {
                self.open_home(now, token, journal, previous, &state);
                return;
            }
            ShardCommand::Expire { partition, first, log_start, bytes } => {
                let behind = Behind { first, log_start, bytes };
                let (arena, effects) = (&mut self.backends.arena, &mut self.effects);
                Ok(Outcome::Expired(self.store.expire_behind(now, partition, behind, arena, effects)))
            }
            ShardCommand::Bounds { partition } => bounds_of(&self.store, partition).map(Outcome::Bounds),
            ShardCommand::EpochEnd { partition, epoch } => {
                let ends = bounds_of(&self.store, partition);
                ends.map(|_| Outcome::EpochEnd(self.store.epoch_end(partition, epoch)))
            }
            ShardCommand::Producers { partition } => {
                let ends = bounds_of(&self.store, partition);
                ends.map(|_| Outcome::Producers(self.store.producers(partition)))
            }
            ShardCommand::Sizes => Ok(Outcome::Sizes(self.store.sizes())),
            ShardCommand::Damage => Ok(Outcome::Damage(self.store.damaged_ranges().collect())),
        };
        self.done(token, outcome);
    }

    fn command_append(&mut self, now: Now, token: u64, partition: PartitionId, epoch: Epoch, batch: Vec<u8>) {
        let checked = match bounds_of(&self.store, partition) {
            Err(refusal) => Err(refusal),
            // Any other epoch than the journal's own: the coordinator loaded its state under another leader.
            Ok(bounds) if epoch.0 < 0 => {
                Err(if bounds.epoch > epoch { Refusal::FencedEpoch } else { Refusal::UnknownEpoch })
            }
            Ok(bounds) => check_epoch(epoch, bounds.epoch),
        };
        if let Err(refusal) = checked {
            self.done(token, Err(refusal));
            return;
        }
        let item = AppendItem { slot: 0, partition, start: 0, len: u32_of(batch.len()) };
        let ticket = self.appends.append(
            now,
            Asker::Command(token),
            false,
            &batch,
            &[item],
            &mut self.store,
            &mut self.backends.arena,
            &self.stats,
        );
        if let Some(ticket) = ticket {
            self.appends.keep(ticket, Source::Bytes(batch));
        }
    }

    fn move_start(&mut self, now: Now, token: u64, partition: PartitionId, to: Offset) {
        match self.store.move_start(now, partition, to, &mut self.backends.arena) {
            Ok((to, journal)) => {
                let deadline = now.mono.plus_ms(DEVICE_MS_MAX);
                self.moves.push(Move { token, partition, to, journal, deadline });
                self.settle_moves(now);
            }
            // The store refuses an offset beyond the high watermark as it refuses what is malformed.
            Err(journal::store::AppendError::Invalid) => self.done(token, Err(Refusal::OutOfRange)),
            Err(error) => self.done(token, Err(refusal_of(error))),
        }
    }

    /// Tells of moves of a log start that are sure now, whose partition is gone, or whose time is up. Whether there were any.
    pub(crate) fn settle_moves(&mut self, now: Now) -> bool {
        let mut any = false;
        let mut at = 0;
        while let Some(&Move { token, partition, to, deadline, .. }) = self.moves.get(at) {
            let outcome = match self.store.sure_start(partition) {
                Some(sure) if sure < to && deadline <= now.mono => Err(Refusal::Busy),
                Some(sure) if sure < to => {
                    at += 1;
                    continue;
                }
                Some(_) => Ok(Outcome::Moved(to)),
                None => Err(Refusal::UnknownPartition),
            };
            any = true;
            self.moves.swap_remove(at);
            self.done(token, outcome);
        }
        any
    }

    fn command_read(&mut self, now: Now, token: u64, read: CommandRead) {
        match self.try_command_read(now, read) {
            Some(outcome) => self.done(token, outcome),
            None => {
                self.commands.push(WaitingCommand { token, read, deadline: now.mono.plus_ms(DEVICE_MS_MAX) });
            }
        }
    }

    /// `None`: the device was asked; [`journal::store::Effect::ReadReady`] follows.
    fn try_command_read(&mut self, now: Now, read: CommandRead) -> Option<Result<Outcome, Refusal>> {
        let mut slices: Vec<SliceOf<P>> = Vec::new();
        let (arena, effects) = (&mut self.backends.arena, &mut self.effects);
        let outcome = match read {
            CommandRead::Records { partition, offset, bytes_max } => {
                self.store.read(now, partition, offset, bytes_max, true, arena, &mut slices, effects)
            }
            CommandRead::Time { partition, timestamp, from, upto } => {
                self.store.find_time(now, partition, timestamp, from..upto, arena, &mut slices, effects)
            }
        };
        match outcome {
            ReadOutcome::Pending => return None,
            ReadOutcome::OutOfRange => return Some(Err(Refusal::OutOfRange)),
            ReadOutcome::Damaged { next, .. } => {
                self.stats.damaged_reads.add(1);
                return Some(Err(Refusal::Damaged { next }));
            }
            ReadOutcome::UnknownPartition => return Some(Err(Refusal::UnknownPartition)),
            ReadOutcome::Fenced => return Some(Err(Refusal::Fenced)),
            ReadOutcome::Moved => return Some(Err(Refusal::Moved)),
            ReadOutcome::Data { .. } | ReadOutcome::Empty => {}
        }
        let mut bytes = Vec::with_capacity(slices.iter().map(|slice| slice.as_ref().len()).sum());
        for slice in &slices {
            bytes.extend_from_slice(slice.as_ref());
        }
        Some(match read {
            CommandRead::Records { partition, offset, .. } => match self.store.bounds_at(partition, offset) {
                Some(bounds) => Ok(Outcome::Records(bytes, bounds)),
                None => Err(Refusal::Moved),
            },
            CommandRead::Time { .. } => Ok(Outcome::Batch((!bytes.is_empty()).then_some(bytes))),
        })
    }

    /// Tries the commands again whose device read is there, or whose time is up. Whether there were any.
    pub(crate) fn retry_commands(&mut self, now: Now) -> bool {
        let ready = core::mem::take(&mut self.ready);
        let mut any = false;
        let mut at = 0;
        while at < self.commands.len() {
            let waiting = &self.commands[at];
            let late = waiting.deadline <= now.mono;
            if !late && !ready.contains(&waiting.read.partition()) {
                at += 1;
                continue;
            }
            any = true;
            let (token, read) = (waiting.token, waiting.read);
            let outcome = self.try_command_read(now, read).or(late.then_some(Err(Refusal::Busy)));
            match outcome {
                Some(outcome) => {
                    self.commands.swap_remove(at);
                    self.done(token, outcome);
                }
                None => at += 1,
            }
        }
        // The vector's memory for the next time; whatever became ready meanwhile stays.
        if self.ready.is_empty() {
            self.ready = ready;
            self.ready.clear();
        }
        any
    }

    /// Tells of appends that are done. Whether there were any.
    pub(crate) fn settle_appends(&mut self, now: Now) -> bool {
        let mut any = false;
        while let Some(Finished { asker, results }) = self.appends.next_finished() {
            any = true;
            match asker {
                Asker::Request(key) if key.shard == self.config.id => self.appended(now, key, results),
                Asker::Request(key) => self.send(key.shard, crate::remote::Message::Appended { key, results }),
                Asker::Command(token) => {
                    let outcome = match results.first().map(|result| result.outcome) {
                        Some(Ok(taken)) => Ok(Outcome::Appended(taken.base_offset)),
                        Some(Err(error)) => Err(refusal_of(error)),
                        None => Err(Refusal::Busy),
                    };
                    self.appends.recycle(results);
                    self.done(token, outcome);
                }
            }
        }
        any
    }

    /// Records were found damaged. Said once for each range, with what can be done.
    pub(crate) fn damaged(&mut self, range: &DamagedRange) {
        let DamagedRange { partition, first, next } = *range;
        let name = match self.image.name_of(partition) {
            Some((topic, index)) => alloc::format!("{topic}-{index}"),
            None => alloc::format!("partition {partition}"),
        };
        self.backends.log.warn(alloc::format!(
            "records of {name} from offset {first} on are damaged on the device; the next that can be read is {next}. Reads between \
             get CORRUPT_MESSAGE: a consumer goes on when it seeks to {next}, and all do once the records before {next} are deleted"
        ));
    }

    /// A journal takes no more appends.
    pub(crate) fn fenced(&mut self, journal: JournalId, reason: alloc::string::String) {
        self.stats.journals_fenced.add(1);
        self.backends.log.warn(alloc::format!("journal {journal} takes no more appends: {reason}"));
        self.appends.fenced(journal);
        self.handovers_fenced(journal);
        for moving in core::mem::take(&mut self.moves) {
            if moving.journal == journal {
                self.done(moving.token, Err(Refusal::Fenced));
            } else {
                self.moves.push(moving);
            }
        }
        self.waiting.wake_all();
        self.send_control(ToControl::JournalFenced { journal, reason });
    }
}
