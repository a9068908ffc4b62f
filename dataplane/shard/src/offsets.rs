//! ListOffsets for the two ends of partitions. Requests that ask for anything else go to the control plane whole.

use alloc::boxed::Box;
use alloc::vec::Vec;

use base::message::{Bounds, Refusal};
use base::{ConnId, Epoch, Now, Offset, PartitionId, ShardId};
use journal::Store;
use protocol::TopicRef;
use protocol::api::ApiKey;
use protocol::error::ErrorCode;
use protocol::frame::{begin_frame, end_frame, put_response_header};
use protocol::list_offsets::{EARLIEST, LATEST, ListOffsetsOutcome, ListOffsetsView, ListOffsetsWriter};

use crate::conn::{Answer, State};
use crate::dispatch::Head;
use crate::errors::of_refusal;
use crate::ports::{Network as _, Ports};
use crate::produce::{ELEMENT_BYTES, u32_of};
use crate::remote::{BoundsItem, BoundsResult, Message, RequestKey};
use crate::route;
use crate::session::TopicKey;
use crate::shard::Shard;

/// A ListOffsets request in progress.
pub(crate) struct ListOffsets {
    version: i16,
    correlation: i32,
    topics: Vec<(TopicKey, u32)>,
    slots: Vec<ListOffsetsOutcome>,
    /// Shards that have not answered.
    open: u32,
}

/// Whether every partition asks for one of the two ends.
fn asks_for_ends(view: &ListOffsetsView<'_>) -> bool {
    view.topics()
        .all(|topic| topic.partitions.into_iter().all(|partition| matches!(partition.timestamp, LATEST | EARLIEST)))
}

/// The epoch that a client believes in against the partition's.
pub(crate) fn check_epoch(claimed: Epoch, actual: Epoch) -> Result<(), Refusal> {
    match claimed {
        Epoch(..0) => Ok(()),
        older if older < actual => Err(Refusal::FencedEpoch),
        newer if newer > actual => Err(Refusal::UnknownEpoch),
        _ => Ok(()),
    }
}

/// The ends of a partition that has its open home here. `Fenced` where a start could not read its journal: it is there, but not to
/// be had.
pub(crate) fn bounds_of<A: base::memory::Arena>(store: &Store<A>, partition: PartitionId) -> Result<Bounds, Refusal> {
    match store.bounds(partition) {
        Some(bounds) => Ok(bounds),
        None if store.is_elsewhere(partition) => Err(Refusal::Moved),
        None if store.is_closed(partition) => Err(Refusal::Fenced),
        None => Err(Refusal::UnknownPartition),
    }
}

fn ends<A: base::memory::Arena>(store: &Store<A>, item: &BoundsItem) -> Result<(Offset, Epoch), Refusal> {
    let bounds = bounds_of(store, item.partition)?;
    check_epoch(item.current_epoch, bounds.epoch)?;
    // The epoch of the log start is not looked up: −1 is "unknown" to clients, and always right.
    Ok(if item.earliest { (bounds.log_start, Epoch(-1)) } else { (bounds.high_watermark, bounds.epoch) })
}

impl ListOffsets {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 32 * (self.slots.len() + self.topics.len()));
        let at = begin_frame(&mut out);
        put_response_header(&mut out, ApiKey::ListOffsets, self.version, self.correlation);
        let mut writer = ListOffsetsWriter::begin(&mut out, self.version, 0, self.topics.len());
        let mut slots = self.slots.iter();
        for (topic, count) in &self.topics {
            if let TopicRef::Name(name) = topic.wire() {
                writer.topic(&mut out, name, *count as usize);
            }
            for slot in slots.by_ref().take(*count as usize) {
                writer.partition(&mut out, slot);
            }
        }
        writer.end(&mut out);
        end_frame(&mut out, at, 0);
        out
    }
}

impl<P: Ports> Shard<P> {
    /// Takes in a ListOffsets request. `None`: it is malformed.
    pub(crate) fn take_list_offsets(&mut self, now: Now, conn: ConnId, head: Head) -> Option<()> {
        let len = head.len;
        let frame = self.backends.network.readable(conn).get(4..4 + len)?;
        let view = ListOffsetsView::check(frame.get(head.body..)?, head.version).ok()?;
        let elements: usize = view.topics().map(|topic| 1 + topic.partitions.len()).sum();
        if elements > self.config.limits.request_elements_max {
            return None;
        }
        if !asks_for_ends(&view) {
            self.take_for_control(now, conn, len);
            return Some(());
        }
        let mut items: Vec<Vec<BoundsItem>> = Vec::new();
        items.resize_with(usize::from(self.config.shards), Vec::new);
        let mut topics = Vec::new();
        let mut slots = Vec::new();
        for topic in view.topics() {
            let found = route::find(&self.image, TopicRef::Name(topic.name));
            topics.push((found.key.clone(), u32_of(topic.partitions.len())));
            for partition in topic.partitions {
                let error = match route::home(&found.key, found.entry, partition.index) {
                    Err(error) => error,
                    Ok((id, shard)) => {
                        items[usize::from(shard.0)].push(BoundsItem {
                            slot: u32_of(slots.len()),
                            partition: id,
                            current_epoch: Epoch(partition.current_leader_epoch),
                            earliest: partition.timestamp == EARLIEST,
                        });
                        ErrorCode::NONE
                    }
                };
                slots.push(ListOffsetsOutcome::failed(partition.index, error));
            }
        }
        let open = u32_of(items.iter().filter(|items| !items.is_empty()).count());
        let state = ListOffsets { version: head.version, correlation: head.correlation, topics, slots, open };
        let cost = len + elements * ELEMENT_BYTES;
        let key = self.push_request(now, conn, ApiKey::ListOffsets, cost, State::ListOffsets(Box::new(state)));
        self.backends.network.consume(conn, 4 + len);
        if open == 0 {
            self.answer_list_offsets(now, key);
        }
        for (shard, items) in (0u16..).map(ShardId).zip(items) {
            if items.is_empty() {
                continue;
            }
            if shard == self.config.id {
                let results = self.find_bounds(&items);
                self.bounds_found(now, key, &results);
            } else {
                self.send(shard, Message::Bounds { key, items });
            }
        }
        Some(())
    }

    /// The owner's side.
    pub(crate) fn find_bounds(&self, items: &[BoundsItem]) -> Vec<BoundsResult> {
        items.iter().map(|item| BoundsResult { slot: item.slot, outcome: ends(&self.store, item) }).collect()
    }

    /// Results of one owner.
    pub(crate) fn bounds_found(&mut self, now: Now, key: RequestKey, results: &[BoundsResult]) {
        let Some(request) = self.conns.get_mut(key.conn).and_then(|conn| conn.request_mut(key.sequence)) else {
            return;
        };
        let State::ListOffsets(state) = &mut request.state else { return };
        for result in results {
            let Some(slot) = state.slots.get_mut(result.slot as usize) else { continue };
            match result.outcome {
                Ok((offset, epoch)) => (slot.offset, slot.leader_epoch) = (offset.0, epoch.0),
                Err(refusal) => slot.error = of_refusal(refusal),
            }
        }
        state.open -= 1;
        if state.open == 0 {
            self.answer_list_offsets(now, key);
        }
    }

    fn answer_list_offsets(&mut self, now: Now, key: RequestKey) {
        let Some(request) = self.conns.get_mut(key.conn).and_then(|conn| conn.request_mut(key.sequence)) else {
            return;
        };
        let State::ListOffsets(state) = &request.state else { return };
        let failed = state.slots.iter().any(|slot| slot.error != ErrorCode::NONE);
        let answer = Answer::Whole(state.encode());
        self.answer(now, key.conn, key.sequence, answer, failed);
    }
}
