//! One partition of a producer: its open batch, its queue, what flies.

use base::{Checksums, Mono};
use protocol::batch::{ATTRIBUTES, BASE_SEQUENCE, BatchBuilder, CRC, Codec, PRODUCER_EPOCH, PRODUCER_ID, Producer};
use std::collections::VecDeque;
use std::sync::Arc;

use super::{Acks, Limits, Queue};
use crate::codec::Compressor;

/// The checksum comes with the stamp, when the sequence is known; until then none is made.
const NO_SUMS: Checksums = Checksums { crc32c: |_, _| 0, crc64: |_, _| 0 };

/// A closed batch.
#[derive(Debug)]
pub(super) struct Batch {
    bytes: Arc<Vec<u8>>,
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) created: Mono,
    /// Given when it is sent.
    sequence: i32,
    /// It left once and no answer says that it was refused: it keeps its sequence.
    pub(super) maybe_stored: bool,
}

impl Batch {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Its memory, unless a sender still holds it.
    pub(super) fn into_buffer(self) -> Option<Vec<u8>> {
        Arc::into_inner(self.bytes)
    }

    fn sequence_after(&self) -> i32 {
        // Sequences wrap from 2^31 − 1 to 0.
        self.sequence.wrapping_add_unsigned(self.count) & i32::MAX
    }
}

#[derive(Debug)]
struct Open {
    builder: BatchBuilder,
    created: Mono,
    first: u64,
}

#[derive(Debug)]
pub(super) struct Flying {
    token: u64,
    batch: Batch,
}

#[derive(Debug)]
pub(super) struct SlotState {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) leader: Option<i32>,
    /// Records pushed so far.
    pub(super) pushed: u64,
    open: Option<Open>,
    /// Closed and to be sent, in order.
    pub(super) queue: Queue,
    /// Sent and not answered, in order.
    pub(super) flying: VecDeque<Flying>,
    /// To be sent again as soon as nothing flies, in order.
    pub(super) returned: Queue,
    pub(super) retry_at: Mono,
    /// A batch failed while others were flying behind it: that those are out of order is no news.
    pub(super) disturbed: bool,
    /// A batch was stored under the present producer id.
    established: bool,
    /// What the broker expects next, as far as answers tell.
    acked_sequence: i32,
    next_sequence: i32,
}

impl SlotState {
    pub(super) fn new(topic: Arc<str>, partition: i32) -> Self {
        Self {
            topic,
            partition,
            leader: None,
            pushed: 0,
            open: None,
            queue: Queue::new(),
            flying: VecDeque::new(),
            returned: Queue::new(),
            retry_at: Mono(0),
            disturbed: false,
            established: false,
            acked_sequence: 0,
            next_sequence: 0,
        }
    }

    pub(super) fn open_len(&self) -> Option<usize> {
        self.open.as_ref().map(|open| open.builder.len())
    }

    pub(super) fn open_since(&self) -> Option<Mono> {
        self.open.as_ref().map(|open| open.created)
    }

    /// The open batch, begun now if there is none.
    pub(super) fn open(&mut self, now: Mono, builder: impl FnOnce() -> BatchBuilder) -> &mut BatchBuilder {
        let first = self.pushed;
        &mut self.open.get_or_insert_with(|| Open { builder: builder(), created: now, first }).builder
    }

    /// Moves the open batch to the queue. Gives its bytes before and after, and its builder where that is not the batch.
    pub(super) fn close(&mut self, compressor: &mut Compressor) -> Option<(usize, usize, Option<BatchBuilder>)> {
        let Open { mut builder, created, first } = self.open.take()?;
        let before = builder.len();
        let count = builder.count().unsigned_abs();
        let mut packed = Vec::new();
        let compressed =
            compressor.codec() != Codec::None && compressor.compress(builder.records(), &mut packed).is_ok();
        let (bytes, spare) = if compressed {
            let mut bytes = Vec::with_capacity(packed.len() + protocol::batch::RECORDS);
            builder.finish_compressed(compressor.codec(), &packed, Producer::NONE, &NO_SUMS, &mut bytes);
            (bytes, Some(builder))
        } else {
            // A compressor that fails (memory) costs the compression, not the records.
            builder.finish(Producer::NONE, &NO_SUMS);
            (builder.into_buffer(), None)
        };
        let after = bytes.len();
        let bytes = Arc::new(bytes);
        self.queue.push_back(Batch { bytes, first, count, created, sequence: -1, maybe_stored: false });
        Some((before, after, spare))
    }

    pub(super) fn may_send(&self, limits: &Limits, now: Mono) -> bool {
        // A broker takes the first batch of a producer it does not know at any sequence: were the one before it refused
        // (the partition is just being made), a second one in flight would overtake it. Without sequences any may.
        let ordered = limits.acks == Acks::All && self.established;
        let flying_max = if ordered { limits.requests_in_flight_max } else { 1 };
        self.returned.is_empty() && self.flying.len() < flying_max && now >= self.retry_at
    }

    /// Stamps the queue's first batch and moves it to those that fly.
    ///
    /// # Panics
    /// When the queue is empty.
    pub(super) fn launch(&mut self, token: u64, identity: Option<(i64, i16)>, sums: &Checksums) -> Arc<Vec<u8>> {
        let mut batch = self.queue.pop_front().expect("asked for only when there is one");
        if !batch.maybe_stored {
            batch.sequence = self.next_sequence;
        }
        // A batch that was stored unanswered may be sent behind later ones that were answered.
        self.next_sequence = later(batch.sequence_after(), self.acked_sequence);
        let (id, epoch) = identity.unwrap_or((-1, -1));
        let sequence = if identity.is_some() { batch.sequence } else { -1 };
        let bytes: &mut Vec<u8> = Arc::make_mut(&mut batch.bytes);
        stamp(bytes, id, epoch, sequence, sums);
        let bytes = Arc::clone(&batch.bytes);
        self.flying.push_back(Flying { token, batch });
        bytes
    }

    /// Takes the batch of a request from those that fly, and whether nothing before it is open.
    pub(super) fn land(&mut self, token: u64) -> Option<(Batch, bool)> {
        let at = self.flying.iter().position(|flying| flying.token == token)?;
        let alone = at == 0 && self.returned.is_empty() && !self.disturbed;
        self.flying.remove(at).map(|flying| (flying.batch, alone))
    }

    pub(super) fn acked(&mut self, batch: &Batch) {
        self.established = true;
        self.acked_sequence = later(batch.sequence_after(), self.acked_sequence);
    }

    /// Puts what must be sent again in front of the queue, once nothing flies.
    pub(super) fn requeue(&mut self) {
        if !self.flying.is_empty() {
            return;
        }
        self.disturbed = false;
        self.next_sequence = self.acked_sequence;
        while let Some(batch) = self.returned.pop_back() {
            self.queue.push_front(batch);
        }
    }

    /// Begins again under a new producer id. Gives what may be stored under the old one.
    pub(super) fn restart(&mut self) -> Vec<Batch> {
        (self.acked_sequence, self.next_sequence) = (0, 0);
        self.established = false;
        let (doubtful, queue): (Queue, Queue) =
            std::mem::take(&mut self.queue).into_iter().partition(|batch| batch.maybe_stored);
        self.queue = queue;
        doubtful.into()
    }

    pub(super) fn front_is_older(&self, now: Mono, ms: u64) -> bool {
        self.queue.front().is_some_and(|batch| now >= batch.created.plus_ms(ms))
    }

    /// When this partition wants to be looked at, should nothing happen.
    pub(super) fn deadline(&self, limits: &Limits, now: Mono) -> Option<Mono> {
        let sends = if self.retry_at > now && !self.queue.is_empty() {
            Some(self.retry_at)
        } else {
            self.open_since().map(|since| since.plus_ms(limits.linger_ms)).filter(|due| *due > now)
        };
        let idle = self.flying.is_empty() && self.returned.is_empty();
        let oldest = self.queue.front().map(|batch| batch.created).or_else(|| self.open_since().filter(|_| idle));
        let gives_up = oldest.map(|created| created.plus_ms(limits.delivery_ms_max));
        sends.into_iter().chain(gives_up).min()
    }
}

/// The later of two sequences of one partition, which are never 2^30 apart: they wrap from 2^31 − 1 to 0.
fn later(a: i32, b: i32) -> i32 {
    if a.wrapping_sub(b) & i32::MAX < 1 << 30 { a } else { b }
}

/// Writes who sends a batch, and its checksum.
fn stamp(batch: &mut [u8], id: i64, epoch: i16, sequence: i32, sums: &Checksums) {
    batch[PRODUCER_ID..PRODUCER_ID + 8].copy_from_slice(&id.to_be_bytes());
    batch[PRODUCER_EPOCH..PRODUCER_EPOCH + 2].copy_from_slice(&epoch.to_be_bytes());
    batch[BASE_SEQUENCE..BASE_SEQUENCE + 4].copy_from_slice(&sequence.to_be_bytes());
    let crc = (sums.crc32c)(0, &batch[ATTRIBUTES..]);
    batch[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
}
