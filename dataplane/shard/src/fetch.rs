//! Fetch: the home's side, from the request to the answer. The owner's side is [`crate::read`].
//!
//! First every owner is asked for what it has at once. If that is too little, each is asked to wait; the first that has
//! more than before answers, and the others are told to forget it once there is enough. While a fetch waits it holds no
//! slices, which would keep the arena from its producers: what was read before is read again at the end.

use alloc::boxed::Box;
use alloc::vec::Vec;

use base::image::Image;
use base::{ConnId, Epoch, Mono, Now, Offset, PartitionId, ShardId};
use protocol::TopicRef;
use protocol::api::ApiKey;
use protocol::error::ErrorCode;
use protocol::fetch::{FetchPartition, FetchView};
use protocol::frame::{begin_frame, end_frame, put_response_header};

use crate::conn::{Answer, State};
use crate::dispatch::Head;
use crate::ports::{Network as _, Piece, Ports, SliceOf};
use crate::produce::u32_of;
use crate::read::Found;
use crate::remote::{Message, ReadItem, ReadPart, ReadResult, RequestKey};
use crate::route;
use crate::session::{EntryRef, Home, Opening, Sessions, TopicKey, Wanted};
use crate::shard::Shard;

/// A Fetch request in progress.
pub(crate) struct Fetch<S> {
    pub(crate) version: i16,
    pub(crate) correlation: i32,
    pub(crate) read_committed: bool,
    /// The session to answer with, and whether only what changed is told. 0 is none.
    pub(crate) session: i32,
    pub(crate) incremental: bool,
    pub(crate) min_bytes: u32,
    pub(crate) max_bytes: u32,
    deadline: Mono,
    pub(crate) topics: Vec<TopicKey>,
    pub(crate) slots: Vec<FetchSlot>,
    pub(crate) parts: Vec<Part<S>>,
    /// Parts that have not answered their last question.
    open: usize,
    waits: bool,
    /// The time is up or there is enough: the next round's outcome is the answer.
    last_round: bool,
}

/// A partition of the answer.
pub(crate) struct FetchSlot {
    /// Index in the fetch's topics.
    pub(crate) topic: u32,
    pub(crate) partition: i32,
    /// Where it is in the session.
    pub(crate) entry: Option<EntryRef>,
    pub(crate) source: Result<ResultRef, ErrorCode>,
    /// Of a partition whose records lie in a home before its open one: what that says of its ends.
    pub(crate) ends: Option<ResultRef>,
}

/// Which result is a slot's: part, and index in its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResultRef {
    pub(crate) part: u32,
    pub(crate) index: u32,
}

/// The partitions of one owner.
pub(crate) struct Part<S> {
    shard: ShardId,
    items: Vec<ReadItem>,
    pub(crate) results: Vec<ReadResult>,
    pub(crate) slices: Vec<Piece<S>>,
    bytes: u32,
    /// The slices of those bytes were let go while waiting.
    let_go: bool,
    pending: bool,
    urgent: bool,
    last: bool,
    /// It was asked and has not answered.
    open: bool,
}

impl<S> Part<S> {
    fn new(shard: ShardId) -> Self {
        Self {
            shard,
            items: Vec::new(),
            results: Vec::new(),
            slices: Vec::new(),
            bytes: 0,
            let_go: false,
            pending: false,
            urgent: false,
            last: false,
            open: false,
        }
    }
}

impl<S> Fetch<S> {
    fn new(view: &FetchView<'_>, correlation: i32, deadline: Mono, bytes_limit: u32) -> Self {
        let max_bytes = u32::try_from(view.max_bytes).unwrap_or(0).min(bytes_limit);
        Self {
            version: view.version,
            correlation,
            read_committed: view.isolation_level == 1,
            session: 0,
            incremental: false,
            // More than the answer may carry would be waited for in vain.
            min_bytes: u32::try_from(view.min_bytes).unwrap_or(0).min(max_bytes),
            max_bytes,
            deadline,
            topics: Vec::new(),
            slots: Vec::new(),
            parts: Vec::new(),
            open: 0,
            waits: false,
            last_round: false,
        }
    }

    fn add(&mut self, image: &Image, topic: &TopicKey, wanted: &Wanted, home: Home, entry: Option<EntryRef>) {
        if self.topics.last() != Some(topic) {
            self.topics.push(topic.clone());
        }
        let mut ends = None;
        let source = home.map(|(partition, shard)| match route::earlier(image, partition, shard, wanted.offset) {
            None => self.add_item(shard, partition, wanted, ReadPart::Whole),
            Some(earlier) => {
                ends = Some(self.add_item(shard, partition, wanted, ReadPart::Ends));
                self.add_item(earlier, partition, wanted, ReadPart::Records)
            }
        });
        let (topic, partition) = (u32_of(self.topics.len() - 1), wanted.partition);
        self.slots.push(FetchSlot { topic, partition, entry, source, ends });
    }

    fn add_item(&mut self, shard: ShardId, partition: PartitionId, wanted: &Wanted, part: ReadPart) -> ResultRef {
        let at = self.parts.iter().position(|part| part.shard == shard).unwrap_or_else(|| {
            self.parts.push(Part::new(shard));
            self.parts.len() - 1
        });
        let items = &mut self.parts[at].items;
        items.push(ReadItem {
            slot: u32_of(self.slots.len()),
            partition,
            offset: wanted.offset,
            bytes_max: wanted.bytes_max,
            current_epoch: wanted.current_epoch,
            last_fetched_epoch: wanted.last_fetched_epoch,
            part,
        });
        ResultRef { part: u32_of(at), index: u32_of(items.len() - 1) }
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.bytes)).sum()
    }

    /// Whether the client must not be kept waiting. A partition that could not even be found does not hurry the others, as
    /// in Kafka: else a consumer of a deleted topic would ask without a pause.
    fn is_ripe(&self) -> bool {
        self.bytes() >= u64::from(self.min_bytes) || self.parts.iter().any(|part| part.urgent)
    }

    /// The result of a slot.
    pub(crate) fn result(&self, at: ResultRef) -> Option<&ReadResult> {
        self.parts.get(at.part as usize)?.results.get(at.index as usize)
    }

    /// The slices of a slot.
    pub(crate) fn slices(&self, at: ResultRef) -> &[Piece<S>] {
        let Some(part) = self.parts.get(at.part as usize) else { return &[] };
        let Some(result) = part.results.get(at.index as usize) else { return &[] };
        let start = result.slices_start as usize;
        part.slices.get(start..start + result.slices_len as usize).unwrap_or_default()
    }

    /// The slices of a slot, to be taken away.
    pub(crate) fn slices_mut(&mut self, at: ResultRef) -> &mut [Piece<S>] {
        let Some(part) = self.parts.get_mut(at.part as usize) else { return &mut [] };
        let Some(result) = part.results.get(at.index as usize) else { return &mut [] };
        let start = result.slices_start as usize;
        part.slices.get_mut(start..start + result.slices_len as usize).unwrap_or_default()
    }

    /// Lets go of all slices. Which bytes they were stays known.
    fn let_go(&mut self) {
        for part in &mut self.parts {
            part.let_go |= !part.slices.is_empty();
            part.slices.clear();
        }
    }

    /// Owners that have not answered.
    pub(crate) fn open_shards(&self) -> impl Iterator<Item = ShardId> {
        self.parts.iter().filter(|part| part.open).map(|part| part.shard)
    }
}

fn wanted(partition: &FetchPartition) -> Wanted {
    Wanted {
        partition: partition.index,
        offset: Offset(partition.fetch_offset),
        bytes_max: u32::try_from(partition.max_bytes).unwrap_or(0),
        current_epoch: Epoch(partition.current_leader_epoch),
        last_fetched_epoch: Epoch(partition.last_fetched_epoch),
    }
}

/// Longest topic name that Kafka allows; what is longer does not exist, and no session remembers it.
const TOPIC_NAME_MAX: usize = 249;

/// How many partitions the request names, and whether a session may remember all the names. `None`: more topics and
/// partitions than `elements_max`.
fn measure(view: &FetchView<'_>, elements_max: usize) -> Option<(usize, bool)> {
    let fits = |topic| !matches!(topic, TopicRef::Name(name) if name.len() > TOPIC_NAME_MAX);
    let (mut elements, mut partitions, mut names_fit) = (0, 0, true);
    for topic in view.topics() {
        elements += 1 + topic.partitions.len();
        partitions += topic.partitions.len();
        names_fit &= fits(topic.topic);
    }
    for topic in view.forgotten() {
        elements += 1 + topic.partitions.len();
    }
    (elements <= elements_max).then_some((partitions, names_fit))
}

/// Which partitions are to be read: those of the request, or of the session that the request opens or continues.
/// `Err`: the answer is that error. `Ok(false)`: more partitions than `elements_max`.
fn gather<S>(
    fetch: &mut Fetch<S>,
    view: &FetchView<'_>,
    image: &Image,
    sessions: &mut Sessions,
    now: Mono,
    elements_max: usize,
) -> Result<bool, ErrorCode> {
    let by_id = view.version >= 13;
    let Some((partitions, names_fit)) = measure(view, elements_max) else { return Ok(false) };
    let opening = if view.version < 7 {
        Opening::Sessionless
    } else {
        sessions.open(now, view.session_id, view.session_epoch, by_id)
    };
    let session = match opening {
        Opening::Refused(error) => return Err(error),
        Opening::Sessionless => None,
        Opening::New if names_fit => sessions.create(now, by_id, partitions),
        Opening::New => None,
        Opening::Next(id) if names_fit => Some(id),
        Opening::Next(id) => {
            sessions.remove(id);
            return Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        }
    };
    let Some(id) = session else {
        for topic in view.topics() {
            let found = route::find(image, topic.topic);
            for partition in topic.partitions {
                let home = route::home(&found.key, found.entry, partition.index);
                fetch.add(image, &found.key, &wanted(&partition), home, None);
            }
        }
        return Ok(true);
    };
    for topic in view.topics() {
        let key = route::find(image, topic.topic).key;
        for partition in topic.partitions {
            if !sessions.set(id, key.clone(), wanted(&partition)) {
                // No room to follow one more: the client begins anew and then gets no session.
                sessions.remove(id);
                return Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
            }
        }
    }
    for topic in view.forgotten() {
        let key = route::find(image, topic.topic).key;
        for partition in topic.partitions {
            sessions.forget(id, &key, partition);
        }
    }
    if sessions.is_empty(id) {
        // As Kafka: a session that follows nothing is over.
        sessions.remove(id);
        return Ok(true);
    }
    fetch.session = id;
    fetch.incremental = matches!(opening, Opening::Next(_));
    if let Some(session) = sessions.get_mut(id) {
        session.for_each(|place, entry| {
            let home = match entry.home {
                Some((generation, home)) if generation == image.generation => home,
                _ => {
                    let found = route::entry_of(image, &entry.topic);
                    let home = route::home(&entry.topic, found, entry.wanted.partition);
                    entry.home = Some((image.generation, home));
                    home
                }
            };
            fetch.add(image, &entry.topic, &entry.wanted, home, Some(place));
        });
    }
    Ok(true)
}

impl<P: Ports> Shard<P> {
    /// Takes in a Fetch request. `None`: it is malformed.
    pub(crate) fn take_fetch(&mut self, now: Now, conn: ConnId, head: Head) -> Option<()> {
        let len = head.len;
        let frame = self.backends.network.readable(conn).get(4..4 + len)?;
        let view = FetchView::check(frame.get(head.body..)?, head.version).ok()?;
        let limits = &self.config.limits;
        let wait_ms = u32::try_from(view.max_wait_ms).unwrap_or(0).min(limits.fetch_wait_ms_max);
        // Who waits keeps memory; when half of it is gone nobody does.
        let may_wait = self.totals.request_bytes < limits.request_bytes_total_max / 2 && self.stopping.is_none();
        let deadline = if may_wait { now.mono.plus_ms(u64::from(wait_ms)) } else { now.mono };
        let bytes_limit = self.fetch_bytes_limit();
        let mut fetch = Fetch::new(&view, head.correlation, deadline, bytes_limit);
        let gathered = if view.replica_id >= 0 {
            // Followers do not exist yet, and nobody else gives a node's id here.
            Err(ErrorCode::INVALID_REQUEST)
        } else {
            gather(&mut fetch, &view, &self.image, &mut self.sessions, now.mono, limits.request_elements_max)
        };
        let refused = match gathered {
            Ok(true) => None,
            Ok(false) => return None,
            Err(error) => Some(error),
        };
        let cost = len + fetch.slots.len() * SLOT_BYTES;
        let (version, correlation) = (fetch.version, fetch.correlation);
        let key = self.push_request(now, conn, ApiKey::Fetch, cost, State::Fetch(Box::new(fetch)));
        self.backends.network.consume(conn, 4 + len);
        match refused {
            Some(error) => {
                let answer = encode_refusal(version, correlation, error);
                self.answer(now, conn, key.sequence, Answer::Whole(answer), true);
            }
            None => self.ask_all(now, key, false),
        }
        Some(())
    }

    /// What an answer may carry. The less room there is for answers, the smaller each: who does not take its answers leaves
    /// some to the others.
    fn fetch_bytes_limit(&self) -> u32 {
        let limits = &self.config.limits;
        let room = limits.response_bytes_total_max.saturating_sub(self.totals.answer_bytes()) / 8;
        u32::try_from(room).unwrap_or(u32::MAX).clamp(FETCH_BYTES_MIN, limits.fetch_bytes_max)
    }

    /// The fetch of a request that is still in progress.
    pub(crate) fn fetch_mut(&mut self, key: RequestKey) -> Option<&mut Fetch<SliceOf<P>>> {
        let request = self.conns.get_mut(key.conn)?.request_mut(key.sequence)?;
        match &mut request.state {
            State::Fetch(fetch) => Some(fetch),
            State::Control | State::Produce(_) | State::ListOffsets(_) | State::Done(_) => None,
        }
    }

    /// Asks every owner (of those with a device read on its way, where the time is up).
    fn ask_all(&mut self, now: Now, key: RequestKey, wait: bool) {
        let Some(fetch) = self.fetch_mut(key) else { return };
        fetch.waits = wait;
        if wait {
            fetch.let_go();
        }
        let late = fetch.deadline <= now.mono;
        let parts: Vec<usize> =
            (0..fetch.parts.len()).filter(|&at| !wait || !late || fetch.parts[at].pending).collect();
        for &at in &parts {
            fetch.parts[at].open = true;
        }
        fetch.open = parts.len();
        if parts.is_empty() && (!wait || late) {
            self.weigh(now, key);
            return;
        }
        if parts.is_empty() {
            // Nothing to read at all; Kafka answers at once.
            self.respond(now, key);
            return;
        }
        for at in parts {
            self.ask(now, key, at);
        }
    }

    fn ask(&mut self, now: Now, key: RequestKey, at: usize) {
        let own = self.config.id;
        let Some(fetch) = self.fetch_mut(key) else { return };
        let bytes_max = fetch.max_bytes;
        let deadline = fetch.waits.then_some(fetch.deadline);
        let part = &mut fetch.parts[at];
        let (shard, more_than) = (part.shard, part.bytes);
        // Who waits may be told to forget it, and then its items do not come back.
        let items = if deadline.is_some() { part.items.clone() } else { core::mem::take(&mut part.items) };
        if shard != own {
            self.send(shard, Message::Read { key, items, bytes_max, more_than, deadline });
        } else if let Some(found) = self.read_or_wait(now, key, items, bytes_max, more_than, deadline) {
            self.found(now, key, own, found);
        }
    }

    /// What an owner found. Where the request is answered already, or gone, it goes nowhere.
    pub(crate) fn found(&mut self, now: Now, key: RequestKey, shard: ShardId, found: Found<SliceOf<P>>) {
        let Some(fetch) = self.fetch_mut(key) else { return };
        let Some(part) = fetch.parts.iter_mut().find(|part| part.shard == shard && part.open) else { return };
        part.open = false;
        part.items = found.items;
        part.results = found.results;
        part.slices = found.slices;
        part.bytes = found.bytes;
        part.let_go = false;
        part.pending = found.pending;
        part.urgent = found.urgent;
        part.last = found.last;
        fetch.open -= 1;
        self.weigh(now, key);
    }

    /// Answers, waits, or asks again.
    fn weigh(&mut self, now: Now, key: RequestKey) {
        let Some(fetch) = self.fetch_mut(key) else { return };
        if !fetch.waits {
            if fetch.open > 0 {
                return;
            }
            let late = fetch.deadline <= now.mono;
            let pending = fetch.bytes() == 0 && fetch.parts.iter().any(|part| part.pending);
            if fetch.last_round || fetch.is_ripe() || fetch.parts.is_empty() || (late && !pending) {
                self.respond(now, key);
            } else {
                self.ask_all(now, key, true);
            }
            return;
        }
        if fetch.is_ripe() || fetch.open == 0 && fetch.parts.iter().any(|part| part.last) {
            self.conclude(now, key);
            return;
        }
        // An owner had more than before, and it is still too little: let it wait for more.
        fetch.let_go();
        let again = fetch.parts.iter().position(|part| !part.open && !part.last);
        if let Some(at) = again {
            fetch.parts[at].open = true;
            fetch.open += 1;
            self.ask(now, key, at);
        }
    }

    /// The waiting is over.
    fn conclude(&mut self, now: Now, key: RequestKey) {
        self.cancel_reads(key);
        let Some(fetch) = self.fetch_mut(key) else { return };
        if fetch.parts.iter().any(|part| part.let_go) {
            fetch.last_round = true;
            self.ask_all(now, key, false);
        } else {
            self.respond(now, key);
        }
    }

    fn respond(&mut self, now: Now, key: RequestKey) {
        self.cancel_reads(key);
        let copy_all = self.totals.pinned >= self.config.limits.pinned_bytes_max;
        let gather_below = if copy_all { usize::MAX } else { self.config.limits.gather_below };
        // There may be less room than when it was taken in.
        let bytes_limit = self.fetch_bytes_limit();
        // Not `fetch_mut`: the session is needed beside it.
        let Some(request) = self.conns.get_mut(key.conn).and_then(|conn| conn.request_mut(key.sequence)) else {
            return;
        };
        let State::Fetch(fetch) = &mut request.state else { return };
        fetch.max_bytes = fetch.max_bytes.min(bytes_limit);
        let answered = crate::respond::encode(fetch, self.sessions.get_mut(fetch.session), gather_below);
        self.stats.record_bytes_out.add(answered.record_bytes);
        self.answer(now, key.conn, key.sequence, Answer::Pieces(answered.pieces), answered.failed);
    }

    /// Tells the owners that have not answered to forget the request.
    pub(crate) fn cancel_reads(&mut self, key: RequestKey) {
        let own = self.config.id;
        let Some(fetch) = self.fetch_mut(key) else { return };
        let open: Vec<ShardId> = fetch.open_shards().collect();
        fetch.open = 0;
        for part in &mut fetch.parts {
            part.open = false;
        }
        for shard in open {
            if shard == own {
                self.waiting.remove(key);
            } else {
                self.send(shard, Message::Cancel { key });
            }
        }
    }
}

/// What a Fetch may carry however little room there is: 64 KiB, so that consumers go on.
const FETCH_BYTES_MIN: u32 = 64 << 10;

/// What a partition of a Fetch in progress costs in memory, beside its bytes in the request: slot, item, result.
const SLOT_BYTES: usize = 160;

fn encode_refusal(version: i16, correlation: i32, error: ErrorCode) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    let at = begin_frame(&mut out);
    put_response_header(&mut out, ApiKey::Fetch, version, correlation);
    protocol::fetch::FetchWriter::begin(&mut out, version, 0, error, 0, 0).end(&mut out, &[]);
    end_frame(&mut out, at, 0);
    out
}
