//! The owner's side of produce: batches that wait for room, batches that wait to be durable.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use base::image::SeededHash;
use base::memory::Arena;
use base::stats::ShardStats;
use base::{JournalId, Mono, Now, Position};
use journal::Store;
use journal::store::AppendError;
use protocol::batch::BatchView;
use slab::Slab;

use crate::queue::{FairQueue, Served};
use crate::remote::{AppendItem, AppendResult, RequestKey, Taken};

/// Whom to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A Produce request, here or on another shard.
    Request(RequestKey),
    /// The control plane's append, by token.
    Command(u64),
}

/// The bytes that the items of a part lie in, while some of them wait for room.
pub(crate) enum Source<H> {
    Held(H),
    Bytes(Vec<u8>),
    /// Nothing waits.
    Gone,
}

impl<H: AsRef<[u8]>> Source<H> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Held(held) => held.as_ref(),
            Self::Bytes(bytes) => bytes,
            Self::Gone => &[],
        }
    }
}

/// The batches of one request that this shard owns.
struct Part<H> {
    asker: Asker,
    source: Source<H>,
    results: Vec<AppendResult>,
    /// Batches that wait for room.
    queued: u32,
    /// Waiters for durability.
    open: u32,
    /// All items were offered once.
    complete: bool,
    /// Done when taken, not when durable (acks=0).
    hasty: bool,
}

/// A part that is done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) asker: Asker,
    pub(crate) results: Vec<AppendResult>,
}

struct Queued {
    part: usize,
    item: AppendItem,
}

/// Results `first..=last` of a part are durable once the commit position is above `position`.
struct Waiter {
    position: Position,
    part: usize,
    first: usize,
    last: usize,
    since: Mono,
}

/// Appends in progress on one shard.
pub(crate) struct Appends<H> {
    parts: Slab<Part<H>>,
    queue: FairQueue<Queued>,
    /// By journal; a shard has a handful.
    waiters: Vec<(JournalId, VecDeque<Waiter>)>,
    finished: VecDeque<Finished>,
    spare: Vec<Vec<AppendResult>>,
}

/// Result vectors kept for later requests.
const SPARE_MAX: usize = 256;

impl<H: AsRef<[u8]>> Appends<H> {
    pub(crate) fn new(quantum: u32, hash: SeededHash) -> Self {
        Self {
            parts: Slab::new(),
            queue: FairQueue::new(quantum, hash),
            waiters: Vec::new(),
            finished: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// Bytes that wait for room.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Whether batches wait for room.
    pub(crate) fn is_queueing(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether nothing is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.parts.is_empty() && self.finished.is_empty()
    }

    /// A part that is done, in the order of becoming so.
    pub(crate) fn next_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Takes a result vector back, to serve again.
    pub(crate) fn recycle(&mut self, mut results: Vec<AppendResult>) {
        if self.spare.len() < SPARE_MAX {
            results.clear();
            self.spare.push(results);
        }
    }

    /// An empty result vector.
    pub(crate) fn results(&mut self) -> Vec<AppendResult> {
        self.spare.pop().unwrap_or_default()
    }

    fn open(&mut self, asker: Asker, hasty: bool) -> usize {
        let results = self.results();
        let part = Part { asker, source: Source::Gone, results, queued: 0, open: 0, complete: false, hasty };
        self.parts.insert(part)
    }

    /// Appends the items of a request, which lie in `bytes`; what finds no room waits its turn. Gives a ticket for
    /// [`Appends::keep`] when bytes are still needed.
    #[expect(clippy::too_many_arguments, reason = "the machine's parts are borrowed apart")]
    pub(crate) fn append<A: Arena>(
        &mut self,
        now: Now,
        asker: Asker,
        hasty: bool,
        bytes: &[u8],
        items: &[AppendItem],
        store: &mut Store<A>,
        arena: &mut A,
        stats: &ShardStats,
    ) -> Option<usize> {
        let part = self.open(asker, hasty);
        for item in items {
            // While anybody waits for room everybody joins the queue: else who comes late would take what they wait for.
            if self.is_queueing() || self.try_append(now, part, item, bytes, store, arena, stats) != Served::Taken {
                self.parts[part].queued += 1;
                self.queue.push(item.partition, item.len, Queued { part, item: *item });
            }
        }
        self.parts[part].complete = true;
        if self.parts[part].queued > 0 {
            return Some(part);
        }
        self.settle(part);
        None
    }

    /// Gives the bytes that the ticket's waiting batches lie in.
    pub(crate) fn keep(&mut self, ticket: usize, source: Source<H>) {
        self.parts[ticket].source = source;
    }

    #[expect(clippy::too_many_arguments, reason = "the machine's parts are borrowed apart")]
    fn try_append<A: Arena>(
        &mut self,
        now: Now,
        part: usize,
        item: &AppendItem,
        bytes: &[u8],
        store: &mut Store<A>,
        arena: &mut A,
        stats: &ShardStats,
    ) -> Served {
        let range = item.start as usize..item.start as usize + item.len as usize;
        let batch = bytes.get(range).and_then(|bytes| BatchView::check(bytes).ok());
        let outcome = match batch {
            Some(batch) => store.append(now, item.partition, &batch, arena).inspect(|appended| {
                if !appended.duplicate {
                    stats.batches_in.add(1);
                    stats.records_in.add(u64::from(batch.count().unsigned_abs()));
                    stats.record_bytes_in.add(u64::from(item.len));
                }
            }),
            // The home has checked it; what comes here otherwise is not a batch.
            None => Err(AppendError::Corrupt),
        };
        let slot = item.slot;
        match outcome {
            // It comes back in a moment, in this journal or another.
            Err(AppendError::Moving) => return Served::Blocked,
            // Memory for none, or no extent yet for this journal alone.
            Err(AppendError::Busy) if store.has_room(arena, item.len as usize) => return Served::Blocked,
            Err(AppendError::Busy) => return Served::Busy,
            Err(error) => {
                stats.batches_refused.add(1);
                self.parts[part].results.push(AppendResult { slot, outcome: Err(error) });
            }
            Ok(appended) => {
                let taken = Taken {
                    base_offset: appended.base_offset,
                    append_time: appended.append_time,
                    log_start: appended.log_start,
                };
                self.parts[part].results.push(AppendResult { slot, outcome: Ok(taken) });
                let durable = store.commit_position(appended.journal).is_some_and(|upto| appended.position < upto)
                    || appended.duplicate && cfg!(fault = "early-answer-to-a-duplicate");
                if !self.parts[part].hasty && !durable {
                    let result = self.parts[part].results.len() - 1;
                    self.wait(now, part, result, appended.journal, appended.position);
                }
            }
        }
        Served::Taken
    }

    fn wait(&mut self, now: Now, part: usize, result: usize, journal: JournalId, position: Position) {
        let at = self.waiters.iter().position(|(id, _)| *id == journal).unwrap_or_else(|| {
            self.waiters.push((journal, VecDeque::new()));
            self.waiters.len() - 1
        });
        let waiters = &mut self.waiters[at].1;
        if let Some(last) = waiters.back_mut()
            && last.part == part
            && last.last + 1 == result
        {
            last.last = result;
            last.position = last.position.max(position);
            return;
        }
        waiters.push_back(Waiter { position, part, first: result, last: result, since: now.mono });
        self.parts[part].open += 1;
    }

    /// Offers waiting batches in fair order while there is room. Whether any was taken.
    pub(crate) fn serve<A: Arena>(
        &mut self,
        now: Now,
        store: &mut Store<A>,
        arena: &mut A,
        stats: &ShardStats,
    ) -> bool {
        if self.queue.is_empty() {
            return false;
        }
        let mut queue = core::mem::replace(&mut self.queue, FairQueue::new(1, SeededHash(0)));
        let mut any = false;
        queue.serve(|_, queued| {
            let Queued { part, item } = queued;
            // Out of its place for the call, so that it can be read while the rest is written.
            let source = core::mem::replace(&mut self.parts[*part].source, Source::Gone);
            let served = self.try_append(now, *part, item, source.bytes(), store, arena, stats);
            self.parts[*part].source = source;
            if served == Served::Taken {
                any = true;
                self.parts[*part].queued -= 1;
                if self.parts[*part].queued == 0 {
                    self.parts[*part].source = Source::Gone;
                    self.settle(*part);
                }
            }
            served
        });
        self.queue = queue;
        any
    }

    /// Everything of the journal below `upto` is durable.
    pub(crate) fn committed(&mut self, now: Now, journal: JournalId, upto: Position, stats: &ShardStats) {
        let Some(at) = self.waiters.iter().position(|(id, _)| *id == journal) else { return };
        // Positions rise but for duplicates, which wait for an older one; those are behind a newer one at worst.
        while self.waiters[at].1.front().is_some_and(|waiter| waiter.position < upto) {
            let waiter = self.waiters[at].1.pop_front().expect("there is a front");
            stats.commit_latency.record_ns(now.mono.since(waiter.since));
            self.parts[waiter.part].open -= 1;
            self.settle(waiter.part);
        }
    }

    /// The journal takes no more appends, and what waits to be durable there will not become so.
    pub(crate) fn fenced(&mut self, journal: JournalId) {
        let Some(at) = self.waiters.iter().position(|(id, _)| *id == journal) else { return };
        let (_, waiters) = self.waiters.swap_remove(at);
        for waiter in waiters {
            let part = &mut self.parts[waiter.part];
            for result in &mut part.results[waiter.first..=waiter.last] {
                result.outcome = Err(AppendError::Fenced);
            }
            part.open -= 1;
            self.settle(waiter.part);
        }
    }

    fn settle(&mut self, id: usize) {
        let part = &self.parts[id];
        if part.complete && part.queued == 0 && part.open == 0 {
            let part = self.parts.remove(id);
            self.finished.push_back(Finished { asker: part.asker, results: part.results });
        }
    }
}
