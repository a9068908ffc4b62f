//! The coordinator's task: owns the machine, feeds it, and does what it asks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::image::TopicEntry;
use base::message::Refusal;
use base::{Epoch, Mono, Now, Offset, TopicId, WallMs};
use groups::{Config, Coordinator, Effect, Event, Record, Reply, Slot, Token};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::api::{self, Asked};
use super::line::{Cut, Line, Load, Work};
use super::records::Encoder;
use super::{Catalog, GroupCount, GroupRequest, HostConfig, Message, OFFSETS_TOPIC, load};
use crate::dataplane::DataPlane;

/// What the tasks around the coordinator tell it.
pub(super) enum Report {
    /// `__consumer_offsets` is there, or could not be made.
    Topic(Result<Arc<TopicEntry>, String>),
    LoadStarted {
        slot: Slot,
        term: u64,
        epoch: Epoch,
    },
    Replayed {
        slot: Slot,
        term: u64,
        records: Vec<Record>,
        bytes: u64,
        next: Offset,
    },
    Loaded {
        slot: Slot,
        term: u64,
        end: Offset,
    },
    LoadFailed {
        slot: Slot,
        term: u64,
        why: String,
    },
    Appended {
        slot: Slot,
        term: u64,
        load: Load,
        result: Result<Offset, Refusal>,
    },
    Trimmed {
        slot: Slot,
        term: u64,
        result: Result<Offset, Refusal>,
    },
}

/// Reports that may wait. Those who read the log wait while it is full; 64 pieces of 1 MiB at most.
const REPORT_QUEUE: usize = 64;
/// Messages taken at a time, before what they brought is appended: commits among them share appends.
const MESSAGES_AT_A_TIME: usize = 512;
/// How long the end waits for what flies.
const END_WAIT_MS: u64 = 5_000;

pub(super) struct Actor<D, C> {
    machine: Coordinator,
    host: HostConfig,
    data: Arc<D>,
    catalog: Arc<C>,
    messages: mpsc::Receiver<Message>,
    reports: mpsc::Receiver<Report>,
    reporter: mpsc::Sender<Report>,
    turns: Arc<Semaphore>,
    encoder: Encoder,
    /// By slot, once the topic is there.
    lines: Vec<Line>,
    /// Slots whose lines may have something to do.
    busy: BTreeSet<Slot>,
    /// Slots that are served.
    served: BTreeSet<Slot>,
    /// Slots that cannot be read.
    unreadable: BTreeSet<Slot>,
    terms: u64,
    creating: bool,
    waiting: HashMap<Token, Asked>,
    /// FindCoordinator requests that wait for the topic or its reading, and until when.
    finding: Vec<(Mono, Asked)>,
    tokens: u64,
    effects: Vec<Effect>,
    /// Generation of the metadata that the machine knows.
    seen: u64,
    started: Instant,
}

impl<D: DataPlane, C: Catalog> Actor<D, C> {
    pub(super) fn new(
        config: Config,
        host: HostConfig,
        data: Arc<D>,
        catalog: Arc<C>,
        messages: mpsc::Receiver<Message>,
    ) -> Self {
        let (reporter, reports) = mpsc::channel(REPORT_QUEUE);
        Self {
            machine: Coordinator::new(config),
            host,
            data,
            catalog,
            messages,
            reports,
            reporter,
            turns: Arc::new(Semaphore::new(host.loads_at_a_time.max(1))),
            encoder: Encoder::default(),
            lines: Vec::new(),
            busy: BTreeSet::new(),
            served: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            terms: 0,
            creating: false,
            waiting: HashMap::new(),
            finding: Vec::new(),
            tokens: 0,
            effects: Vec::new(),
            seen: 0,
            started: Instant::now(),
        }
    }

    /// Runs until the last handle is dropped and what was taken is durable.
    pub(super) async fn run(mut self) {
        if let Some(topic) = self.catalog.image().topics.get(OFFSETS_TOPIC).cloned() {
            self.topic_is_there(&topic);
        }
        let mut messages = Vec::with_capacity(MESSAGES_AT_A_TIME);
        let mut open = true;
        let mut last_call = None;
        while open || (!self.is_idle() && last_call.is_some_and(|at| self.now().mono < at)) {
            let wake = self.next_deadline().into_iter().chain(last_call).min();
            let wake = wake.map(|at| self.started + Duration::from_nanos(at.0));
            tokio::select! {
                report = self.reports.recv() => {
                    if let Some(report) = report {
                        self.report(report);
                    }
                }
                count = self.messages.recv_many(&mut messages, MESSAGES_AT_A_TIME), if open => {
                    if count == 0 {
                        open = false;
                        last_call = Some(self.now().mono.plus_ms(END_WAIT_MS));
                    }
                }
                () = sleep(wake) => {}
            }
            while let Ok(report) = self.reports.try_recv() {
                self.report(report);
            }
            for message in messages.drain(..) {
                self.message(message);
            }
            self.event(Event::Tick);
            self.answer_finders();
            self.work();
        }
    }

    fn is_idle(&self) -> bool {
        self.lines.iter().all(Line::is_idle)
    }

    pub(super) fn now(&self) -> Now {
        let mono = Mono(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        Now { mono, wall: WallMs(i64::try_from(wall).unwrap_or(i64::MAX)) }
    }

    fn next_deadline(&self) -> Option<Mono> {
        self.machine.next_deadline().into_iter().chain(self.finding.iter().map(|(until, _)| *until)).min()
    }

    /// Feeds the machine and does what it asks.
    fn event(&mut self, event: Event<'_>) {
        let now = self.now();
        self.machine.handle(now, event, &mut self.effects);
        self.follow();
    }

    fn follow(&mut self) {
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Reply(token, reply) => self.reply(token, &reply),
                Effect::Append { slot, id, records, .. } => {
                    if let Some(line) = self.line(slot) {
                        line.hand_out(id, records);
                        self.busy.insert(slot);
                    }
                }
            }
        }
        self.effects = effects;
    }

    fn line(&mut self, slot: Slot) -> Option<&mut Line> {
        usize::try_from(slot.0).ok().and_then(|index| self.lines.get_mut(index))
    }

    /// The line, if the report is about its present term.
    fn current(&mut self, slot: Slot, term: u64) -> Option<&mut Line> {
        self.line(slot).filter(|line| line.term == term)
    }

    fn reply(&mut self, token: Token, reply: &Reply) {
        if let Some(asked) = self.waiting.remove(&token) {
            api::answer(asked, reply);
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Request(request) => self.request(request),
            Message::TopicDeleted(topic, id) => self.event(Event::TopicDeleted(&topic, id)),
            Message::Committed(sender) => {
                let all = self.machine.committed().map(|(group, topics)| (group.clone(), topics)).collect();
                let _ = sender.send(all);
            }
            Message::Count(sender) => {
                let mut counts: BTreeMap<_, u64> = BTreeMap::new();
                for group in self.machine.list(&[], &[]).unwrap_or_default() {
                    *counts.entry((group.kind, group.state)).or_default() += 1;
                }
                let counts = counts.into_iter();
                let _ = sender.send(counts.map(|((kind, state), groups)| GroupCount { kind, state, groups }).collect());
            }
        }
    }

    fn request(&mut self, request: GroupRequest) {
        let Some(asked) = Asked::read(request) else { return };
        if asked.finds_group() {
            let until = self.now().mono.plus_ms(u64::try_from(self.host.find_wait.as_millis()).unwrap_or(u64::MAX));
            self.finding.push((until, asked));
            return;
        }
        let image = self.catalog.image();
        if image.generation != self.seen {
            self.seen = image.generation;
            self.event(Event::Image(image.clone()));
        }
        if asked.finds() {
            // Of another kind than groups: nothing to wait for.
            return api::found(asked, &image, false);
        }
        if let Some(asked) = api::look(asked, &self.machine, &image) {
            self.tokens += 1;
            let token = Token(self.tokens);
            let now = self.now();
            match api::event(&asked, token, &image) {
                Ok(event) => {
                    self.machine.handle(now, event, &mut self.effects);
                    self.waiting.insert(token, asked);
                    self.follow();
                }
                Err(malformed) => asked.close(malformed),
            }
        }
    }

    fn answer_finders(&mut self) {
        if self.finding.is_empty() {
            return;
        }
        let ready = !self.lines.is_empty() && self.served.len() + self.unreadable.len() == self.lines.len();
        if self.lines.is_empty() && !self.creating {
            self.create_topic();
        }
        let now = self.now().mono;
        let image = self.catalog.image();
        let there = !self.lines.is_empty();
        for (until, asked) in std::mem::take(&mut self.finding) {
            if ready || until <= now {
                api::found(asked, &image, there);
            } else {
                self.finding.push((until, asked));
            }
        }
    }

    fn create_topic(&mut self) {
        self.creating = true;
        let (catalog, reporter) = (self.catalog.clone(), self.reporter.clone());
        tokio::spawn(async move {
            let made = catalog.offsets_topic().await;
            let _ = reporter.send(Report::Topic(made)).await;
        });
    }

    fn topic_is_there(&mut self, topic: &TopicEntry) {
        if !self.lines.is_empty() {
            return;
        }
        let count = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
        self.machine.set_slots(count);
        self.lines = (0..count)
            .zip(topic.partitions.iter())
            .map(|(index, partition)| Line::new(Slot(index), partition.id, 0))
            .collect();
        for slot in (0..count).map(Slot) {
            self.load(slot);
        }
    }

    /// Reads a partition anew; what waited for it is answered with NOT_COORDINATOR.
    fn load(&mut self, slot: Slot) {
        self.event(Event::Unloaded(slot));
        self.served.remove(&slot);
        self.unreadable.remove(&slot);
        self.terms += 1;
        let term = self.terms;
        // Requests are told that the state is being read, and wait, rather than that it is elsewhere.
        self.event(Event::LoadStarted { slot, epoch: Epoch(0) });
        let Some(line) = self.line(slot) else { return };
        let partition = line.partition;
        *line = Line::new(slot, partition, term);
        let load = load::Load {
            data: self.data.clone(),
            slot,
            term,
            partition,
            patience: self.host.load_wait,
            reports: self.reporter.clone(),
        };
        tokio::spawn(load.run(self.turns.clone()));
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Topic(made) => {
                self.creating = false;
                match made {
                    Ok(topic) => self.topic_is_there(&topic),
                    Err(error) => {
                        tracing::warn!(error, "{OFFSETS_TOPIC} cannot be created");
                        let image = self.catalog.image();
                        for (_, asked) in std::mem::take(&mut self.finding) {
                            api::found(asked, &image, false);
                        }
                    }
                }
            }
            Report::LoadStarted { slot, term, epoch } => {
                if let Some(line) = self.current(slot, term) {
                    // It may be a second beginning, after one that failed half way.
                    *line = Line::new(slot, line.partition, term);
                    line.epoch = epoch;
                    self.unreadable.remove(&slot);
                    self.event(Event::LoadStarted { slot, epoch });
                }
            }
            Report::Replayed { slot, term, records, bytes, next } => {
                if let Some(line) = self.current(slot, term) {
                    line.read(bytes, next);
                    for record in records {
                        self.event(Event::Replayed { slot, record });
                    }
                }
            }
            Report::Loaded { slot, term, end } => self.loaded(slot, term, end),
            Report::LoadFailed { slot, term, why } => {
                if self.current(slot, term).is_some() {
                    tracing::error!(
                        "{OFFSETS_TOPIC} partition {} cannot be read, its groups are refused: {why}",
                        slot.0
                    );
                    self.unreadable.insert(slot);
                    self.event(Event::LoadFailed(slot));
                }
            }
            Report::Appended { slot, term, load, result } => self.appended(slot, term, load, result),
            Report::Trimmed { slot, term, result } => {
                if let Some(line) = self.current(slot, term) {
                    line.trimmed(result.is_ok());
                    self.busy.insert(slot);
                }
                if let Err(refusal) = result {
                    tracing::warn!(?slot, ?refusal, "the log of consumer groups is not trimmed");
                }
            }
        }
    }

    fn loaded(&mut self, slot: Slot, term: u64, end: Offset) {
        let Some(line) = self.current(slot, term) else { return };
        line.read(0, end);
        self.served.insert(slot);
        self.busy.insert(slot);
        self.event(Event::Loaded(slot));
        // A topic may have been deleted just before the broker stopped, or while the slot was read.
        let image = self.catalog.image();
        for (topic, id) in self.machine.topics(slot) {
            let now = image.topics.get(&*topic).map(|entry| entry.id);
            if now.is_none_or(|now| now != id && id != TopicId::ZERO) {
                self.event(Event::TopicDeleted(&topic, id));
            }
        }
    }

    fn appended(&mut self, slot: Slot, term: u64, load: Load, result: Result<Offset, Refusal>) {
        self.busy.insert(slot);
        let Some(line) = self.current(slot, term) else { return };
        match result {
            Ok(base) => {
                line.appended(load, base);
                if let Some(upto) = load.upto {
                    self.event(Event::Appended { slot, upto });
                }
            }
            Err(Refusal::FencedEpoch | Refusal::UnknownEpoch) => {
                tracing::info!(?slot, "the partition's epoch is another: reading its consumer groups again");
                self.load(slot);
            }
            Err(refusal) => {
                line.failed(load);
                tracing::warn!(?slot, ?refusal, "records of consumer groups are not stored");
                if let Some(upto) = load.upto {
                    self.event(Event::AppendFailed { slot, upto, error: api::append_error(refusal) });
                }
            }
        }
    }

    /// Sends off what waits, for every line that has no append in flight.
    fn work(&mut self) {
        let wall = self.now().wall;
        let cut = Cut { batch_bytes: self.host.batch_bytes, trim: self.host.trim, sums: self.host.sums };
        for slot in std::mem::take(&mut self.busy) {
            if !self.served.contains(&slot) {
                continue;
            }
            let Some(line) = usize::try_from(slot.0).ok().and_then(|index| self.lines.get_mut(index)) else { continue };
            while let Some(work) = line.next(&self.machine, &mut self.encoder, &cut, wall) {
                let (term, partition, epoch) = (line.term, line.partition, line.epoch);
                let (data, reporter, patience) = (self.data.clone(), self.reporter.clone(), self.host.busy_wait);
                tokio::spawn(async move {
                    let report = match work {
                        Work::Append(flight) => {
                            let load = flight.load;
                            let result = append(&*data, partition, epoch, flight.batch, patience).await;
                            Report::Appended { slot, term, load, result }
                        }
                        Work::MoveStart(to) => {
                            let result = data.move_start(partition, to).await;
                            Report::Trimmed { slot, term, result }
                        }
                    };
                    let _ = reporter.send(report).await;
                });
            }
        }
    }
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Appends, again and again for a while if the data path has no memory now.
async fn append<D: DataPlane>(
    data: &D,
    partition: base::PartitionId,
    epoch: Epoch,
    batch: Vec<u8>,
    patience: Duration,
) -> Result<Offset, Refusal> {
    const AGAIN: Duration = Duration::from_millis(5);
    let until = Instant::now() + patience;
    loop {
        match data.append(partition, epoch, batch.clone()).await {
            Err(Refusal::Busy) if Instant::now() < until => tokio::time::sleep(AGAIN).await,
            result => return result,
        }
    }
}
