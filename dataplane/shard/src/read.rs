//! The owner's side of fetch: reading partitions, and waiting where there is too little.

use alloc::vec::Vec;

use base::memory::Arena;
use base::message::{Bounds, Refusal};
use base::{Mono, Now, Offset};
use journal::store::ReadOutcome;

use crate::offsets::{bounds_of, check_epoch};
use crate::ports::{Piece, Ports, SliceOf};
use crate::remote::{Message, ReadItem, ReadPart, ReadResult, RequestKey};
use crate::shard::Shard;
use crate::waiting::WaitingRead;

/// What reading a list of partitions brought.
pub(crate) struct Found<S> {
    pub(crate) items: Vec<ReadItem>,
    pub(crate) results: Vec<ReadResult>,
    /// Whole batches: slices of this shard's arena, or copies while too much of it is held by answers.
    pub(crate) slices: Vec<Piece<S>>,
    pub(crate) bytes: u32,
    /// A read is on its way from the device.
    pub(crate) pending: bool,
    /// Something that the client must hear at once: a refusal, or a log that parted from ours.
    pub(crate) urgent: bool,
    /// Asking again would not wait: the deadline has passed, or there is no room to wait.
    pub(crate) last: bool,
}

/// How long past its deadline a read that finds nothing waits for the device, in ms: what a cold read takes on a slow disk.
const DEVICE_MS_MAX: u64 = 10_000;

/// Waiting reads tried again in one turn. Sending an answer takes the kernel 5 to 10 µs, all within the one call that ends the
/// turn: with eight of them the next produce request of a log that a crowd reads waits for 80 µs at most, less than a flush.
const RETRIES_MAX: usize = 8;

impl<P: Ports> Shard<P> {
    /// Reads what is there. At most `bytes_max` bytes, but for a first batch that is larger.
    pub(crate) fn read_items(&mut self, now: Now, items: Vec<ReadItem>, bytes_max: u32) -> Found<SliceOf<P>> {
        let mut found = Found {
            results: Vec::with_capacity(items.len()),
            items,
            slices: Vec::new(),
            bytes: 0,
            pending: false,
            urgent: false,
            last: false,
        };
        for at in 0..found.items.len() {
            let item = found.items[at];
            let slices_start = found.slices.len();
            let read = self.read_item(now, &item, bytes_max, &mut found);
            let mut result = ReadResult {
                slot: item.slot,
                refusal: None,
                high_watermark: Offset(-1),
                log_start: Offset(-1),
                diverging: None,
                slices_start: index(slices_start),
                slices_len: index(found.slices.len() - slices_start),
            };
            match read {
                Ok((bounds, diverging)) => {
                    result.high_watermark = bounds.high_watermark;
                    result.log_start = bounds.log_start;
                    result.diverging = diverging;
                }
                Err(refusal) => result.refusal = Some(refusal),
            }
            found.urgent |= result.refusal.is_some() || result.diverging.is_some();
            found.results.push(result);
        }
        found
    }

    fn read_item(
        &mut self,
        now: Now,
        item: &ReadItem,
        bytes_max: u32,
        found: &mut Found<SliceOf<P>>,
    ) -> Result<(Bounds, Option<(base::Epoch, Offset)>), Refusal> {
        if item.part == ReadPart::Records {
            // What its open home says of the ends and of epochs is asked of that.
            let room = item.bytes_max.min(bytes_max.saturating_sub(found.bytes));
            let nowhere = Bounds {
                log_start: Offset(-1),
                high_watermark: Offset(-1),
                log_end: Offset(-1),
                epoch: base::Epoch(-1),
                bytes: 0,
            };
            if room > 0 || found.bytes == 0 {
                self.read_records(now, item, room, found)?;
            }
            return Ok((nowhere, None));
        }
        let bounds = bounds_of(&self.store, item.partition)?;
        check_epoch(item.current_epoch, bounds.epoch)?;
        if item.last_fetched_epoch.0 >= 0 {
            if item.last_fetched_epoch > bounds.epoch {
                return Err(Refusal::OutOfRange);
            }
            // KIP-595: the client's log and ours part where its last epoch ends here.
            // The epoch at hand ends where the log does, even if nothing of it is left.
            let (epoch, end) = if item.last_fetched_epoch == bounds.epoch {
                (bounds.epoch, bounds.log_end)
            } else {
                self.store.epoch_end(item.partition, item.last_fetched_epoch).ok_or(Refusal::OutOfRange)?
            };
            if epoch < item.last_fetched_epoch || end < item.offset {
                return Ok((bounds, Some((epoch, end))));
            }
        }
        if item.part == ReadPart::Ends {
            return if item.offset < bounds.log_start { Err(Refusal::OutOfRange) } else { Ok((bounds, None)) };
        }
        let room = item.bytes_max.min(bytes_max.saturating_sub(found.bytes));
        let first = found.bytes == 0;
        if item.offset >= bounds.log_start && (item.offset >= bounds.high_watermark || (room == 0 && !first)) {
            // Nothing to read, or no room for it: only the ends are told.
            return if item.offset > bounds.log_end { Err(Refusal::OutOfRange) } else { Ok((bounds, None)) };
        }
        self.read_records(now, item, room, found)?;
        Ok((bounds, None))
    }

    /// Reads a partition's records, at most `room` bytes, but for a first batch of all.
    fn read_records(
        &mut self,
        now: Now,
        item: &ReadItem,
        room: u32,
        found: &mut Found<SliceOf<P>>,
    ) -> Result<(), Refusal> {
        let first = found.bytes == 0;
        let outcome = self.store.read(
            now,
            item.partition,
            item.offset,
            room as usize,
            first,
            &mut self.backends.arena,
            &mut self.slices,
            &mut self.effects,
        );
        if self.backends.arena.pinned() < self.config.limits.pinned_bytes_max {
            found.slices.extend(self.slices.drain(..).map(Piece::Shared));
        } else {
            found.slices.extend(self.slices.drain(..).map(|slice| Piece::Owned(slice.as_ref().to_vec())));
        }
        match outcome {
            ReadOutcome::Data { bytes } => found.bytes = found.bytes.saturating_add(index(bytes)),
            ReadOutcome::Empty => {}
            ReadOutcome::Pending => found.pending = true,
            ReadOutcome::OutOfRange => return Err(Refusal::OutOfRange),
            ReadOutcome::Damaged { next, .. } => {
                self.stats.damaged_reads.add(1);
                return Err(Refusal::Damaged { next });
            }
            ReadOutcome::UnknownPartition => return Err(Refusal::UnknownPartition),
            ReadOutcome::Fenced => return Err(Refusal::Fenced),
            ReadOutcome::Moved => return Err(Refusal::Moved),
        }
        Ok(())
    }

    /// Reads, and where that brings no more than `more_than` bytes waits until `deadline`.
    pub(crate) fn read_or_wait(
        &mut self,
        now: Now,
        key: RequestKey,
        items: Vec<ReadItem>,
        bytes_max: u32,
        more_than: u32,
        deadline: Option<Mono>,
    ) -> Option<Found<SliceOf<P>>> {
        let read = WaitingRead::new(key, items, bytes_max, more_than, deadline.unwrap_or_default());
        self.try_read(now, read, deadline.is_none())
    }

    fn try_read(&mut self, now: Now, mut read: WaitingRead, at_once: bool) -> Option<Found<SliceOf<P>>> {
        let mut found = self.read_items(now, core::mem::take(&mut read.items), read.bytes_max);
        if at_once || found.bytes > read.more_than || found.urgent {
            return Some(found);
        }
        if read.deadline <= now.mono {
            if !found.pending || read.extended {
                found.last = true;
                return Some(found);
            }
            // Kafka reads its disk while it answers; to say "nothing" of data that is there could go on for ever.
            read.extended = true;
            read.deadline = now.mono.plus_ms(DEVICE_MS_MAX);
        }
        if read.extended && !found.pending {
            found.last = true;
            return Some(found);
        }
        let limits = &self.config.limits;
        // A shard that shuts down lets nobody wait: the one that asks will shut down too.
        if self.stopping.is_some()
            || self.waiting.len() >= limits.waiting_reads_max
            || self.waiting.partitions() + found.items.len() > limits.waiting_partitions_max
        {
            found.last = true;
            return Some(found);
        }
        read.items = found.items;
        self.waiting.insert(read);
        None
    }

    /// Tries the reads again that were woken or whose time is up. Whether there were any.
    pub(crate) fn retry_reads(&mut self, now: Now) -> bool {
        let mut any = false;
        // Each at most once in a turn: a read that waits again is woken by what happens later.
        for _ in 0..self.waiting.len().min(RETRIES_MAX) {
            let Some(read) = self.waiting.next(now.mono) else { break };
            any = true;
            let key = read.key;
            if let Some(found) = self.try_read(now, read, false) {
                self.deliver(now, key, found);
            }
        }
        any
    }

    /// Gives what was found to the request's home.
    pub(crate) fn deliver(&mut self, now: Now, key: RequestKey, found: Found<SliceOf<P>>) {
        if key.shard == self.config.id {
            self.found(now, key, self.config.id, found);
        } else {
            let Found { items, results, slices, bytes, pending, urgent, last } = found;
            self.send(key.shard, Message::Found { key, items, results, slices, bytes, pending, urgent, last });
        }
    }

    /// Arena bytes that are there for each purpose and damage that is known, for the gauges.
    pub(crate) fn measure_memory(&self) {
        let arena = &self.backends.arena;
        self.stats.tail_bytes_available.set(arena.available(base::memory::Purpose::Tail) as u64);
        self.stats.cold_bytes_available.set(arena.available(base::memory::Purpose::Cold) as u64);
        self.stats.arena_bytes_pinned.set(arena.pinned() as u64);
        self.stats.damaged_ranges.set(self.store.damaged_ranges().count() as u64);
    }
}

/// Counts of slices and bytes in one answer, which is below 4 GiB.
fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
