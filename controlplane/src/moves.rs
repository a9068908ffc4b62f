//! Leads partitions from one journal to another, and looks after those that have records in several.
//!
//! Metadata is the record of every move: where to is written down before anything happens, and that it has happened when the
//! partition is closed in the old journal and open in the new one, durably. Between the two its producers wait. Whatever ends in
//! between, this process too, the next one finds in metadata and does once more: closing and opening again say the same.

mod hot;
pub mod view;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use base::image::{HomeEntry, Homes, Image, PartitionEntry, TopicEntry};
use base::message::{Outcome, PartitionSize, Refusal, ShardCommand};
use base::{JournalId, Offset, PartitionId, ShardId, TopicId};
use cluster::{Command, MoveTo};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::context::{Context, entropy};
use crate::errors::Failure;
use crate::shards::ShardError;

/// How often is looked for work that nobody told of.
const TICK: Duration = Duration::from_millis(500);

/// How often old homes are asked what has expired, at most; with many of them each is asked as long after the last time as
/// it takes to ask all.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);

/// Questions to old homes in a second, at most.
const EXPIRE_RATE: u32 = 500;

/// How long a step of a move is tried before the partition stays where it is.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two tries of a step: from, to.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// After a move that came to nothing, how long until its topic is looked at again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Moves that wait for others, as the control plane's tasks leave them here.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    wake: Notify,
    /// Topics whose partitions may be in journals of the wrong class.
    topics: Mutex<VecDeque<TopicId>>,
}

impl Moves {
    /// A topic's settings have changed: its partitions may belong elsewhere.
    pub(crate) fn look_at(&self, topic: TopicId) {
        let mut topics = self.topics.lock().expect("nobody panics while holding it");
        if !topics.contains(&topic) {
            topics.push_back(topic);
        }
        drop(topics);
        self.wake.notify_one();
    }

    /// There is a move to lead.
    pub(crate) fn hurry(&self) {
        self.wake.notify_one();
    }

    /// Topics that are looked at when there is room for more moves.
    pub(crate) fn waiting(&self) -> usize {
        self.topics.lock().expect("nobody panics while holding it").len()
    }

    fn front(&self) -> Option<TopicId> {
        self.topics.lock().expect("nobody panics while holding it").front().copied()
    }

    fn drop_front(&self, topic: TopicId) {
        let mut topics = self.topics.lock().expect("nobody panics while holding it");
        if topics.front() == Some(&topic) {
            topics.pop_front();
        }
    }
}

/// Leads moves for as long as the control plane is there.
pub(crate) async fn run(context: Weak<Context>) {
    let mut leader = Leader::default();
    if let Some(context) = context.upgrade() {
        // Settings may have changed while the process that was to act on it ended.
        context.store.image().topics.values().for_each(|topic| context.moves.look_at(topic.id));
    }
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let Some(strong) = context.upgrade() else { return };
        leader.step(&strong).await;
        let moves = strong.moves.clone();
        drop(strong);
        tokio::select! {
            _ = ticks.tick() => {}
            () = moves.wake.notified() => {}
            Some(ended) = leader.running.join_next(), if !leader.running.is_empty() => leader.ended(ended),
        }
    }
}

#[derive(Default)]
struct Leader {
    running: JoinSet<Led>,
    ids: HashSet<PartitionId>,
    expiring: Option<tokio::task::JoinHandle<()>>,
    expire_at: Option<Instant>,
    /// Topics to look at again.
    again: Vec<(Instant, TopicId)>,
    hot: hot::Watch,
}

/// A move that has ended, one way or another.
struct Led {
    partition: PartitionId,
    topic: TopicId,
    done: bool,
}

impl Leader {
    fn ended(&mut self, led: Result<Led, tokio::task::JoinError>) {
        match led {
            Ok(led) => {
                self.ids.remove(&led.partition);
                if !led.done {
                    self.again.push((Instant::now() + AGAIN_AFTER, led.topic));
                }
            }
            Err(error) => {
                tracing::error!(%error, "a move of a partition ended without a word; it goes on at the next start");
            }
        }
    }

    async fn step(&mut self, context: &Arc<Context>) {
        while let Some(ended) = self.running.try_join_next() {
            self.ended(ended);
        }
        let now = Instant::now();
        for at in (0..self.again.len()).rev() {
            if self.again[at].0 <= now {
                context.moves.look_at(self.again.swap_remove(at).1);
            }
        }
        self.lead_all(context);
        self.sort(context).await;
        self.hot.step(context).await;
        self.lead_all(context);
        self.expire(context);
        context.stats.moves_running.set(self.running.len() as u64);
    }

    fn room(&self, context: &Context) -> usize {
        (context.settings.moves_at_a_time as usize).saturating_sub(self.running.len())
    }

    /// Begins to lead moves that are written down, while there is room.
    fn lead_all(&mut self, context: &Arc<Context>) {
        let image = context.store.image();
        if image.homes.is_empty() {
            return;
        }
        for homes in image.homes.values().filter(|homes| homes.moving.is_some()) {
            if self.room(context) == 0 {
                return;
            }
            if self.ids.insert(homes.partition) {
                let (context, homes) = (context.clone(), homes.clone());
                self.running.spawn(async move {
                    let done = lead(&context, &homes).await;
                    Led { partition: homes.partition, topic: homes.topic, done }
                });
            }
        }
    }

    /// Writes down moves of partitions that are in journals of the wrong class, as many as there is room for.
    async fn sort(&mut self, context: &Arc<Context>) {
        let mut looked = 0;
        while self.room(context) > 0
            && let Some(topic) = context.moves.front()
        {
            match sort_topic(context, topic, self.room(context)).await {
                // There may be more of it.
                Ok(true) => self.lead_all(context),
                Ok(false) => context.moves.drop_front(topic),
                Err(failure) => {
                    tracing::warn!(?failure, "partitions cannot be sent where their topic's settings want them");
                    context.moves.drop_front(topic);
                    self.again.push((Instant::now() + AGAIN_AFTER, topic));
                }
            }
            looked += 1;
            if looked % 256 == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Asks old homes what has expired, one round at a time.
    fn expire(&mut self, context: &Arc<Context>) {
        let now = Instant::now();
        let busy = self.expiring.as_ref().is_some_and(|task| !task.is_finished());
        if busy || self.expire_at.is_some_and(|at| now < at) {
            return;
        }
        let image = context.store.image();
        let old: Vec<Arc<Homes>> = image.homes.values().filter(|homes| !homes.earlier.is_empty()).cloned().collect();
        if old.is_empty() {
            self.expire_at = Some(now + EXPIRE_EVERY);
            return;
        }
        let count = u32::try_from(old.len()).unwrap_or(u32::MAX);
        self.expire_at = Some(now + EXPIRE_EVERY.max(Duration::from_secs(1) * count / EXPIRE_RATE));
        let context = context.clone();
        self.expiring = Some(tokio::spawn(async move {
            let sizes = Sizes::of(&context, &old).await;
            for homes in old {
                if let Err(failure) = expire_one(&context, &homes, &sizes).await {
                    tracing::debug!(?failure, partition = %homes.partition, "an old home of a partition does not answer");
                }
                tokio::time::sleep(Duration::from_secs(1) / EXPIRE_RATE).await;
            }
        }));
    }
}

/// The topic and the partition of homes, as metadata has them now.
fn find<'a>(image: &'a Image, homes: &Homes) -> Option<(&'a Arc<TopicEntry>, PartitionEntry)> {
    let topic = image.topics_by_id.get(&homes.topic)?;
    let partition = topic.partitions.get(homes.index as usize).copied()?;
    Some((topic, partition))
}

/// Writes down where the partitions of one topic are to go, at most `room`. Whether it is to be looked at again.
async fn sort_topic(context: &Arc<Context>, id: TopicId, room: usize) -> Result<bool, Failure> {
    let Some(topic) = context.store.topic_by_id(id) else { return Ok(false) };
    if cluster::name::is_internal(&topic.name) {
        return Ok(false);
    }
    let class = context.class(&topic.name, &topic.configs);
    let image = context.store.image();
    let wrong = |journal: &JournalId| image.journals.get(journal).is_some_and(|journal| journal.class != class);
    let mut begun = 0;
    for (index, partition) in (0..).zip(&topic.partitions) {
        if partition.moving.is_some() || !wrong(&partition.home.journal) {
            continue;
        }
        if begun == room {
            return Ok(true);
        }
        let to = MoveTo::Class(class);
        let command = Command::Move { id, partition: index, to, entropy: entropy()? };
        match context.store.propose(command).await {
            Ok(_) => begun += 1,
            // One that has too many homes can go later.
            Err(crate::metadata::ProposeError::Refused(cluster::Refused::ManyHomes(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// A partition is to go to a journal; done when that is written down.
pub(crate) async fn begin(context: &Arc<Context>, topic: &str, partition: u32, to: JournalId) -> Result<(), Failure> {
    use protocol::error::ErrorCode;
    let known = context.store.topic(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    crate::context::refuse_internal(topic)?;
    let image = context.store.image();
    let journal = image.journals.get(&to).ok_or(Failure::from(cluster::Refused::UnknownJournal(to)))?;
    if journal.class != context.class(topic, &known.configs) {
        let text = format!(
            "journal {to} takes partitions with other settings than {topic} has (retention.ms, cleanup.policy): change those, \
             and its partitions move by themselves"
        );
        return Err(Failure::new(ErrorCode::INVALID_REQUEST, text));
    }
    let command = Command::Move { id: known.id, partition, to: MoveTo::Journal(to), entropy: entropy()? };
    context.store.propose(command).await?;
    context.moves.hurry();
    Ok(())
}

/// What became of a step of a move.
enum Step<T> {
    Done(T),
    /// The partition cannot go there.
    No(String),
    /// The broker or the topic is at its end.
    Over,
}

/// Asks a shard for one step until it is done, refused for good, or tried for too long.
async fn step<T>(
    context: &Arc<Context>,
    shard: ShardId,
    command: impl Fn() -> ShardCommand,
    take: impl Fn(Outcome) -> Option<T>,
) -> Step<T> {
    let until = Instant::now() + PATIENCE;
    let mut pause = PAUSE.0;
    loop {
        let why = match context.shards.ask(shard, command(), context.settings.shard_bound).await {
            Ok(outcome) => match take(outcome) {
                Some(value) => return Step::Done(value),
                None => return Step::No("a shard answered another question".into()),
            },
            Err(ShardError::Refused(Refusal::Stopping)) => return Step::Over,
            // A new journal is not there yet, or the shard has not heard where the partition is to go.
            Err(ShardError::Refused(Refusal::Busy | Refusal::Moved)) | Err(ShardError::TimedOut) => "no answer in time",
            Err(ShardError::Refused(Refusal::Full)) => "the device is full",
            Err(ShardError::Refused(refusal)) => return Step::No(format!("{refusal:?}")),
        };
        if Instant::now() >= until {
            return Step::No(why.into());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Leads one move to its end. Whether the partition is where it was to go.
async fn lead(context: &Arc<Context>, homes: &Homes) -> bool {
    let image = context.store.image();
    let Some(((topic, partition), to)) = find(&image, homes).zip(homes.moving) else { return true };
    let (from, next) = (partition.journal, to.journal);
    let begun = Instant::now();
    let close = || ShardCommand::Close { partition: partition.id, next };
    let closed = step(context, partition.shard, close, |outcome| match outcome {
        Outcome::Closed(end, state) => Some((end, state)),
        _ => None,
    });
    let (end, state) = match closed.await {
        Step::Done(closed) => closed,
        Step::No(why) => return stay(context, topic, homes, to, &why).await,
        Step::Over => return true,
    };
    let open = || ShardCommand::Open { journal: next, previous: from, state: state.clone() };
    let opened = step(context, to.shard, open, |outcome| matches!(outcome, Outcome::Opened).then_some(()));
    match opened.await {
        Step::Done(()) => {}
        Step::No(why) => return stay(context, topic, homes, to, &why).await,
        Step::Over => return true,
    }
    let command = Command::FinishMove { id: homes.topic, partition: homes.index, journal: next, first: end };
    match context.store.propose(command).await {
        Ok(committed) => {
            committed.applying.wait(context.settings.apply_bound).await;
            context.stats.partitions_moved.up();
            tracing::info!(
                topic = %topic.name,
                partition = homes.index,
                %from,
                to = %next,
                offset = end.0,
                took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
                "a partition has moved to another journal"
            );
            true
        }
        Err(crate::metadata::ProposeError::Refused(_)) => true,
        Err(error) => {
            tracing::error!(%error, topic = %topic.name, partition = homes.index, "a move cannot be written down");
            false
        }
    }
}

/// The partition stays where it is: its producers go on there.
async fn stay(context: &Arc<Context>, topic: &TopicEntry, homes: &Homes, to: HomeEntry, why: &str) -> bool {
    let command = Command::CancelMove { id: homes.topic, partition: homes.index, journal: to.journal };
    match context.store.propose(command).await {
        Ok(_) => {
            context.stats.moves_cancelled.up();
            tracing::warn!(
                topic = %topic.name,
                partition = homes.index,
                to = %to.journal,
                why,
                "a partition does not move to another journal: it stays where it was"
            );
        }
        Err(crate::metadata::ProposeError::Refused(_)) => {}
        Err(error) => tracing::error!(%error, topic = %topic.name, "that a partition stays cannot be written down"),
    }
    false
}

/// What partitions retain in their homes, as far as that matters.
struct Sizes(Vec<PartitionSize>);

impl Sizes {
    /// Asked for only where some topic's retention looks at bytes.
    async fn of(context: &Arc<Context>, old: &[Arc<Homes>]) -> Self {
        let image = context.store.image();
        let by_bytes =
            |homes: &Arc<Homes>| find(&image, homes).is_some_and(|(topic, _)| topic.config.retention_bytes >= 0);
        if old.iter().any(by_bytes) { Self(sizes(context).await.unwrap_or_default()) } else { Self(Vec::new()) }
    }

    /// Bytes of a partition in other journals than that one.
    fn elsewhere(&self, partition: PartitionId, journal: JournalId) -> u64 {
        let other = |size: &&PartitionSize| size.partition == partition && size.journal != journal;
        self.0.iter().filter(other).map(|size| size.bounds.bytes).sum()
    }
}

/// Sizes of all partitions in all their homes.
pub(crate) async fn sizes(context: &Context) -> Result<Vec<PartitionSize>, Failure> {
    let mut all = Vec::new();
    for index in 0..context.shards.count() {
        let shard = ShardId(u16::try_from(index).expect("there are fewer shards than 65,536"));
        if let Outcome::Sizes(sizes) = context.ask(shard, ShardCommand::Sizes).await? {
            all.extend(sizes);
        }
    }
    Ok(all)
}

/// Lets a partition's old homes know where it starts by now, moves its start over what has expired in the oldest, and gives up
/// homes that hold nothing any more.
async fn expire_one(context: &Arc<Context>, homes: &Homes, sizes: &Sizes) -> Result<(), Failure> {
    let image = context.store.image();
    let Some((_, partition)) = find(&image, homes) else { return Ok(()) };
    let start = context.bounds_of(&partition).await?.log_start;
    if homes.end_of(0) <= start {
        let command = Command::LeaveHomes { id: homes.topic, partition: homes.index, below: start };
        context.store.propose(command).await?;
    }
    let mut asked = BTreeSet::new();
    for (number, home) in homes.earlier.iter().enumerate().filter(|(number, _)| homes.end_of(*number) > start) {
        let bytes = sizes.elsewhere(partition.id, home.journal);
        let question = ShardCommand::Expire { partition: partition.id, first: home.first, log_start: start, bytes };
        let oldest = asked.is_empty();
        asked.insert(number);
        if let Outcome::Expired(Some(to)) = context.ask(home.shard, question).await?
            && oldest
            && to > start
        {
            context.ask(partition.shard, ShardCommand::MoveStart { partition: partition.id, to }).await?;
        }
    }
    Ok(())
}

/// A stretch of a partition's offsets, and the shard that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) shard: ShardId,
    pub(crate) from: Offset,
    pub(crate) upto: Offset,
}

/// Where a partition's records lie, oldest first.
pub(crate) fn stretches(image: &Image, partition: &PartitionEntry) -> Vec<Stretch> {
    let open = Stretch { shard: partition.shard, from: Offset(0), upto: Offset(i64::MAX) };
    let Some(homes) = image.homes.get(&partition.id) else { return vec![open] };
    let earlier = homes.earlier.iter().enumerate();
    let earlier = earlier.map(|(at, home)| Stretch { shard: home.shard, from: home.first, upto: homes.end_of(at) });
    earlier.chain([Stretch { from: homes.first, ..open }]).collect()
}

/// The shard that has a partition's record at an offset.
pub(crate) fn shard_at(image: &Image, partition: &PartitionEntry, offset: Offset) -> ShardId {
    let homes = image.homes.get(&partition.id);
    homes.and_then(|homes| homes.earlier_at(offset)).map_or(partition.shard, |home| home.shard)
}

#[cfg(test)]
mod tests;
