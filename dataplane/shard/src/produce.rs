//! Produce: the home's side, from the request to the answer. The owner's side is [`crate::append`].

use alloc::boxed::Box;
use alloc::vec::Vec;

use base::image::Image;
use base::{ConnId, Now, PartitionId, ShardId};
use journal::store::{AppendError, Keyless};
use protocol::api::ApiKey;
use protocol::batch::{BatchView, Codec, TRANSACTIONAL_BIT};
use protocol::error::ErrorCode;
use protocol::frame::{begin_frame, end_frame, put_response_header};
use protocol::produce::{ProduceOutcome, ProducePartition, ProduceView, ProduceWriter};

use crate::append::{Asker, Source};
use crate::conn::{Answer, State};
use crate::dispatch::Head;
use crate::errors::{of_append, of_batch};
use crate::ports::{Network as _, Ports};
use crate::remote::{AppendItem, AppendResult, Message, RequestKey};
use crate::route;
use crate::session::TopicKey;
use crate::shard::Shard;

/// A Produce request in progress: the shape of its answer, filled as results come.
pub(crate) struct Produce {
    version: i16,
    correlation: i32,
    acks: i16,
    topics: Vec<(TopicKey, u32)>,
    slots: Vec<Slot>,
    /// Shards that have not answered.
    open: u32,
    /// The image by which it was routed.
    generation: u64,
}

struct Slot {
    index: i32,
    error: ErrorCode,
    text: Option<&'static str>,
    base_offset: i64,
    append_time: i64,
    log_start: i64,
    /// Records that are at fault.
    keyless: Option<Keyless>,
}

impl Slot {
    const fn new(index: i32) -> Self {
        let error = ErrorCode::NONE;
        Self { index, error, text: None, base_offset: -1, append_time: -1, log_start: -1, keyless: None }
    }

    fn fill(&mut self, result: &AppendResult) {
        match result.outcome {
            Ok(taken) => {
                self.base_offset = taken.base_offset.0;
                self.append_time = taken.append_time.0;
                self.log_start = taken.log_start.0;
            }
            Err(error) => {
                (self.error, self.text) = of_append(error);
                if let AppendError::Keyless(keyless) = error {
                    self.keyless = Some(keyless);
                }
            }
        }
    }

    fn record_errors(&self) -> Vec<(i32, Option<&'static str>)> {
        let numbers = self.keyless.into_iter().flat_map(Keyless::numbers);
        numbers.map(|number| (i32::try_from(number).unwrap_or(i32::MAX), Some(KEYLESS))).collect()
    }
}

/// What is wrong with a record without a key.
const KEYLESS: &str = "Compacted topic cannot accept message without key";

/// A rule that holds for the whole request.
fn refusal(view: &ProduceView<'_>) -> Option<(ErrorCode, Option<&'static str>)> {
    if view.transactional_id.is_some() {
        // The code that Kafka's clients treat as fatal for a transactional producer, so that they do not try again.
        let text = "this broker does not serve transactions";
        return Some((ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Some(text)));
    }
    if !(-1..=1).contains(&view.acks) {
        return Some((ErrorCode::INVALID_REQUIRED_ACKS, None));
    }
    None
}

/// What the home itself can say against a partition's records, before the owner looks at them.
fn judge(
    view: &ProduceView<'_>,
    topic: &route::Found<'_>,
    partition: &ProducePartition<'_>,
) -> Result<(), (ErrorCode, Option<&'static str>)> {
    let Some(entry) = topic.entry else { return Err((route::unknown(&topic.key), None)) };
    if entry.internal {
        return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, Some("clients may not write to internal topics")));
    }
    if view.acks == -1 && entry.config.min_insync_replicas > 1 {
        return Err((
            ErrorCode::NOT_ENOUGH_REPLICAS,
            Some("min.insync.replicas is more than the one replica there is"),
        ));
    }
    if partition.records.is_empty() {
        return Err((ErrorCode::INVALID_RECORD, Some("there must be one record batch for each partition")));
    }
    let batch = BatchView::check(partition.records).map_err(of_batch)?;
    if batch.attributes() & TRANSACTIONAL_BIT != 0 {
        let text = "a transactional batch without a transactional id";
        return Err((ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Some(text)));
    }
    if view.version < 7 && Codec::of(batch.attributes()) == Ok(Codec::Zstd) {
        return Err((ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, None));
    }
    Ok(())
}

/// Whether a batch may not be sent to its partition's home: it has just moved there, and batches before this one on the same
/// connection are on their way to the home before, which may refuse them. To take this one then would turn their order.
fn overtakes(image: &Image, partition: PartitionId, oldest: u64) -> bool {
    !image.homes.is_empty() && image.homes.get(&partition).is_some_and(|homes| oldest < homes.since)
}

/// Sorts a request's batches by owner and makes the shape of its answer. `items` has a list for each shard; `oldest` is the
/// lowest image by which a Produce before it on the connection was routed and is not answered. `None`: more topics and
/// partitions than `elements_max`.
fn plan(
    view: &ProduceView<'_>,
    correlation: i32,
    frame: &[u8],
    image: &Image,
    items: &mut [Vec<AppendItem>],
    (elements_max, oldest): (usize, u64),
) -> Option<Produce> {
    let refused = refusal(view);
    let mut topics = Vec::with_capacity(view.topics().len().min(1024));
    let mut slots = Vec::with_capacity(16);
    for topic in view.topics() {
        let found = route::find(image, topic.topic);
        let count = topic.partitions.len();
        if topics.len() + 1 + slots.len() + count > elements_max {
            return None;
        }
        for partition in topic.partitions {
            let mut slot = Slot::new(partition.index);
            let judged = refused.map_or_else(|| judge(view, &found, &partition), Err);
            let home = judged
                .and_then(|()| route::home(&found.key, found.entry, partition.index).map_err(|code| (code, None)));
            match home {
                Err((error, text)) => (slot.error, slot.text) = (error, text),
                Ok((id, _)) if overtakes(image, id, oldest) => (slot.error, slot.text) = of_append(AppendError::Moved),
                Ok((id, shard)) => {
                    let range = partition.range_in(frame);
                    items[usize::from(shard.0)].push(AppendItem {
                        slot: u32_of(slots.len()),
                        partition: id,
                        start: u32_of(range.start),
                        len: u32_of(range.len()),
                    });
                }
            }
            slots.push(slot);
        }
        topics.push((found.key, u32_of(count)));
    }
    let (version, acks, generation) = (view.version, view.acks, image.generation);
    Some(Produce { version, correlation, acks, topics, slots, open: 0, generation })
}

/// What a topic and a partition of a request in progress cost in memory, beside their bytes in the request.
pub(crate) const ELEMENT_BYTES: usize = 64;

/// Lengths inside a request: bounded by the largest request, which is below 4 GiB.
pub(crate) fn u32_of(n: usize) -> u32 {
    u32::try_from(n).expect("a request is smaller than 4 GiB")
}

impl Produce {
    fn failed(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.error != ErrorCode::NONE).count() as u64
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 48 * self.slots.len() + 32 * self.topics.len());
        let at = begin_frame(&mut out);
        put_response_header(&mut out, ApiKey::Produce, self.version, self.correlation);
        let mut writer = ProduceWriter::begin(&mut out, self.version, self.topics.len());
        let mut slots = self.slots.iter();
        for (topic, count) in &self.topics {
            writer.topic(&mut out, topic.wire(), *count as usize);
            for slot in slots.by_ref().take(*count as usize) {
                let record_errors = slot.record_errors();
                let outcome = ProduceOutcome {
                    index: slot.index,
                    error: slot.error,
                    base_offset: slot.base_offset,
                    log_append_time_ms: slot.append_time,
                    log_start_offset: slot.log_start,
                    record_errors: &record_errors,
                    error_message: slot.text,
                    leader: None,
                };
                writer.partition(&mut out, &outcome);
            }
        }
        writer.end(&mut out, 0, &[]);
        end_frame(&mut out, at, 0);
        out
    }
}

impl<P: Ports> Shard<P> {
    /// Takes in the Produce request at the front of the connection. `None`: it is malformed.
    pub(crate) fn take_produce(&mut self, now: Now, conn: ConnId, head: Head) -> Option<()> {
        let len = head.len;
        let frame = self.backends.network.readable(conn).get(4..4 + len)?;
        let view = ProduceView::check(frame.get(head.body..)?, head.version).ok()?;
        let elements_max = self.config.limits.request_elements_max;
        let oldest = if self.image.homes.is_empty() { u64::MAX } else { self.oldest_produce(conn) };
        let bounds = (elements_max, oldest);
        let plan = plan(&view, head.correlation, frame, &self.image, &mut self.append_items, bounds);
        let Some(mut produce) = plan else {
            self.append_items.iter_mut().for_each(Vec::clear);
            return None;
        };
        produce.open = u32_of(self.append_items.iter().filter(|items| !items.is_empty()).count());
        let hasty = produce.acks == 0;
        self.stats.batches_refused.add(produce.failed());
        let own = usize::from(self.config.id.0);
        let open = produce.open;
        let cost = len + (produce.slots.len() + produce.topics.len()) * ELEMENT_BYTES;
        let key = self.push_request(now, conn, ApiKey::Produce, cost, State::Produce(Box::new(produce)));
        let ticket = if self.append_items[own].is_empty() {
            None
        } else {
            let frame = &self.backends.network.readable(conn)[4..4 + len];
            self.appends.append(
                now,
                Asker::Request(key),
                hasty,
                frame,
                &self.append_items[own],
                &mut self.store,
                &mut self.backends.arena,
                &self.stats,
            )
        };
        self.append_items[own].clear();
        self.backends.network.consume(conn, 4);
        if ticket.is_some() || self.append_items.iter().any(|items| !items.is_empty()) {
            let held = self.backends.network.take(conn, len);
            self.send_appends(key, hasty, &held);
            if let Some(ticket) = ticket {
                self.appends.keep(ticket, Source::Held(held));
            }
        } else {
            self.backends.network.consume(conn, len);
        }
        if open == 0 {
            self.answer_produce(now, key);
        }
        Some(())
    }

    /// The lowest image by which a Produce of the connection was routed that is not answered.
    fn oldest_produce(&self, conn: ConnId) -> u64 {
        let requests = self.conns.get(conn).into_iter().flat_map(|conn| &conn.requests);
        let generation = |request: &crate::conn::Request<_>| match &request.state {
            State::Produce(produce) => Some(produce.generation),
            State::Control | State::Fetch(_) | State::ListOffsets(_) | State::Done(_) => None,
        };
        requests.filter_map(generation).min().unwrap_or(u64::MAX)
    }

    fn send_appends(&mut self, key: RequestKey, hasty: bool, held: &crate::ports::HeldOf<P>) {
        for shard in 0..self.config.shards {
            let items = &mut self.append_items[usize::from(shard)];
            if items.is_empty() {
                continue;
            }
            let items = core::mem::take(items);
            let message = Message::Append { key, held: held.clone(), items, hasty };
            self.send(ShardId(shard), message);
        }
    }

    /// Results of one owner. Where the connection is gone they go nowhere.
    pub(crate) fn appended(&mut self, now: Now, key: RequestKey, results: Vec<AppendResult>) {
        let mut complete = false;
        if let Some(request) = self.conns.get_mut(key.conn).and_then(|conn| conn.request_mut(key.sequence))
            && let State::Produce(produce) = &mut request.state
        {
            for result in &results {
                if let Some(slot) = produce.slots.get_mut(result.slot as usize) {
                    slot.fill(result);
                }
            }
            produce.open -= 1;
            complete = produce.open == 0;
        }
        self.appends.recycle(results);
        if complete {
            self.answer_produce(now, key);
        }
    }

    fn answer_produce(&mut self, now: Now, key: RequestKey) {
        let Some(request) = self.conns.get_mut(key.conn).and_then(|conn| conn.request_mut(key.sequence)) else {
            return;
        };
        let State::Produce(produce) = &request.state else { return };
        let failed = produce.failed() > 0;
        if produce.acks == 0 && failed {
            // The client hears nothing of it; Kafka closes the connection so that it looks again at the metadata.
            self.stats.apis[ApiKey::Produce as usize].errors.add(1);
            self.close(now, key.conn, true);
            return;
        }
        let answer = if produce.acks == 0 { Answer::Silent } else { Answer::Whole(produce.encode()) };
        self.answer(now, key.conn, key.sequence, answer, failed);
    }
}
