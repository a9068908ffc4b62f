//! The way of a batch into the open unit: checks, stamps, one copy.

use alloc::vec::Vec;

use base::codecs::InflateError;
use base::image::{TimestampType, TopicConfig};
use base::memory::{Arena, Block, Purpose};
use base::{JournalId, Now, Offset, PartitionId, Position, ProducerEpoch, ProducerId, WallMs};
use protocol::batch::{self, BatchView};

use crate::format::{
    ExtentHeader, Footer, FrameHeader, FrameKind, LogStartMove, SECTOR, StartReason, UNIT_BYTES_MAX, UnitHeader,
    sectors,
};
use crate::index::{Entry, Fence};
use crate::journal::{CHUNK_BYTES, Extent, FRAMES_MAX, Index, Journal, TailFrame, TailKind};
use crate::partition::{NO_FRAME, Partition, Standing};
use crate::producers::{Batch, Sequence};
use crate::store::{AppendError, Appended, INFLATED_BYTES_MAX, Keyless, Store, StoreConfig};

/// What is known of a batch once its records are walked.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// The highest timestamp of its records.
    max: i64,
    /// What the broker stamps, for LogAppendTime.
    stamp: Option<WallMs>,
}

impl<A: Arena> Store<A> {
    /// Whether an append of `bytes` would find room in the write tail now.
    #[must_use]
    pub fn has_room(&self, arena: &A, bytes: usize) -> bool {
        let need = bytes.saturating_add(CHUNK_BYTES);
        let mut room = arena.available(Purpose::Tail);
        for journal in &self.journals {
            if room >= need {
                return true;
            }
            let kept = usize::from(journal.open.is_some());
            let last = journal.chunks.len().saturating_sub(kept);
            let evictable = journal.chunks.iter().take(last).take_while(|chunk| chunk.end <= journal.commit);
            room += evictable.map(|chunk| chunk.block.len).sum::<usize>();
        }
        room >= need
    }

    pub(crate) fn append_records(
        &mut self,
        now: Now,
        id: PartitionId,
        batch: &BatchView<'_>,
        arena: &mut A,
    ) -> Result<Appended, AppendError> {
        let Some(slot) = self.partitions.slot(id) else { return Err(self.missing(id)) };
        let partition = self.partitions.at(slot).expect("the table names it");
        match partition.standing {
            Standing::Open => {}
            Standing::Closed { .. } => return Err(AppendError::Moving),
            Standing::Entering { .. } | Standing::Left => return Err(AppendError::Moved),
        }
        let config = partition.config.as_ref().ok_or(AppendError::UnknownPartition)?;
        let journal_slot = partition.journal;
        let journal = &self.journals[usize::from(journal_slot)];
        if journal.fenced.is_some() {
            return Err(AppendError::Fenced);
        }
        if batch.bytes().len() > config.max_message_bytes as usize {
            return Err(AppendError::TooLarge);
        }
        let producer = (ProducerId(batch.producer_id()), ProducerEpoch(batch.producer_epoch()));
        let kept = WallMs(now.wall.0.saturating_sub(self.config.producer_expiry_ms));
        let inflated = match config.compaction {
            Some(_) => inflate(batch, &self.config, &mut self.inflated),
            None => Ok(None),
        };
        let judged = inflated
            .and_then(|inflated| check_times(config, partition.last_timestamp, batch, inflated, now.wall))
            .and_then(|times| Ok((times, check_sequence(partition, producer, batch, kept)?)));
        let (times, sequence) = match judged {
            Ok((times, Sequence::Next)) => (times, Sequence::Next),
            // What the header says counts only if the CRC holds. On the way of a good batch the copy makes the CRC.
            other => {
                batch.verify_crc(&self.config.sums).map_err(|_| AppendError::Corrupt)?;
                other?
            }
        };
        if let Sequence::Duplicate(known) = sequence {
            return Ok(Appended {
                base_offset: known.base,
                journal: journal.id(),
                position: known.position,
                append_time: known.append_time,
                log_start: partition.log_start,
                duplicate: true,
            });
        }
        let base = partition.log_end;
        self.reserve(now, journal_slot, batch.bytes().len(), false, arena)?;
        let journal = &mut self.journals[usize::from(journal_slot)];
        let payload = copy_batch(journal, batch, base, times, &self.config.sums, arena)?;
        let epoch = journal.identity.epoch_to_write();
        let max_timestamp = times.stamp.unwrap_or(WallMs(times.max));
        let records = u32::try_from(batch.count()).map_err(|_| AppendError::Invalid)?;
        let header = FrameHeader {
            kind: FrameKind::Records,
            flags: 0,
            records,
            partition: id,
            base_offset: base,
            max_timestamp,
            length: u32::try_from(batch.bytes().len()).map_err(|_| AppendError::TooLarge)?,
            epoch,
            payload,
            last_offset_delta: records - 1,
        };
        let position = journal.frame_position();
        journal.seal_frame(&header, &self.config.sums, arena);
        journal.last_append = now.mono;
        let appended = Appended {
            base_offset: base,
            journal: journal.id(),
            position,
            append_time: times.stamp.unwrap_or(WallMs(-1)),
            log_start: partition_start(&self.partitions, slot),
            duplicate: false,
        };
        let partition = self.partitions.at_mut(slot).expect("found above");
        if let Some(stamp) = times.stamp {
            partition.last_timestamp = stamp;
        }
        if producer.0.0 >= 0 {
            let known = Batch {
                first: batch.base_sequence(),
                last: batch.last_sequence(),
                base,
                position,
                append_time: appended.append_time,
            };
            let max = self.config.producers_per_partition_max;
            partition.record_producer(producer, known, now.wall, (self.hash, max));
        }
        note_records(journal, partition, slot, &header, position, now.wall);
        partition.written += u64::from(header.length);
        journal.checkpoint.mark(partition, slot);
        Ok(appended)
    }

    /// Moves a partition's log start by a control frame. Once that is committed a later unit states it again, so that no
    /// single damaged unit brings records back; only then it shows.
    pub(crate) fn move_start_to(
        &mut self,
        now: Now,
        id: PartitionId,
        to: Offset,
        reason: StartReason,
        arena: &mut A,
    ) -> Result<(Offset, JournalId), AppendError> {
        let Some(number) = self.partitions.slot(id) else { return Err(self.missing(id)) };
        let partition = self.partitions.at(number).expect("the table names it");
        match partition.standing {
            Standing::Open => {}
            Standing::Closed { .. } => return Err(AppendError::Moving),
            Standing::Entering { .. } | Standing::Left => return Err(AppendError::Moved),
        }
        let journal_slot = partition.journal;
        let to = if to.0 == -1 { partition.high_watermark } else { to };
        // First: of a journal that stayed closed the ends are not known.
        if self.journals[usize::from(journal_slot)].fenced.is_some() {
            return Err(AppendError::Fenced);
        }
        if to.0 < 0 || to > partition.high_watermark {
            return Err(AppendError::Invalid);
        }
        if to <= partition.next_start {
            // Moved there before; whoever asks again waits for what may not be sure yet.
            return Ok((partition.next_start, self.journals[usize::from(journal_slot)].id()));
        }
        let mut payload = alloc::vec::Vec::with_capacity(16);
        LogStartMove { to, reason }.encode(&mut payload);
        self.append_control(now, journal_slot, FrameKind::LogStart, Some((id, to)), &payload, true, arena)?;
        let journal = &mut self.journals[usize::from(journal_slot)];
        journal.frames.back_mut().expect("just appended").kind = TailKind::Start(reason);
        let (journal_id, unit) = (journal.id(), journal.end);
        let partition = self.partitions.at_mut(number).expect("found above");
        partition.next_start = to;
        partition.moved = Some(unit);
        self.mark(number);
        Ok((to, journal_id))
    }

    /// States log starts again that one committed unit states, as long as there is room.
    pub(crate) fn state_starts(&mut self, now: Now, journal_slot: u16, arena: &mut A) {
        if self.journals[usize::from(journal_slot)].starting {
            return;
        }
        while let Some(&(id, moved)) = self.journals[usize::from(journal_slot)].starts_due.front() {
            if self.partitions.get_in(journal_slot, id).is_some() {
                let mut payload = alloc::vec::Vec::with_capacity(16);
                moved.encode(&mut payload);
                let about = Some((id, moved.to));
                if self.append_control(now, journal_slot, FrameKind::LogStart, about, &payload, true, arena).is_err() {
                    return;
                }
                let journal = &mut self.journals[usize::from(journal_slot)];
                journal.frames.back_mut().expect("just appended").kind = TailKind::StartAgain;
            }
            self.journals[usize::from(journal_slot)].starts_due.pop_front();
        }
    }

    /// Appends a control frame; its position.
    #[expect(clippy::too_many_arguments, reason = "one call for every kind of control frame")]
    pub(crate) fn append_control(
        &mut self,
        now: Now,
        journal_slot: u16,
        kind: FrameKind,
        about: Option<(PartitionId, Offset)>,
        payload: &[u8],
        for_cleaning: bool,
        arena: &mut A,
    ) -> Result<Position, AppendError> {
        if self.journals[usize::from(journal_slot)].starting && kind != FrameKind::EpochStart {
            return Err(AppendError::Busy);
        }
        self.reserve(now, journal_slot, payload.len(), for_cleaning, arena)?;
        let sums = self.config.sums;
        let journal = &mut self.journals[usize::from(journal_slot)];
        let position = journal.frame_position();
        let open = journal.open.as_ref().expect("reserved");
        let chunk = journal.chunks.back().expect("reserved");
        let at = open.at + open.used + FrameHeader::BYTES;
        arena.bytes_mut(&chunk.block, at..at + payload.len()).copy_from_slice(payload);
        let (partition, base_offset) = about.unwrap_or((PartitionId(0), Offset(0)));
        let header = FrameHeader {
            kind,
            flags: 0,
            records: 0,
            partition,
            base_offset,
            max_timestamp: WallMs(-1),
            length: u32::try_from(payload.len()).map_err(|_| AppendError::TooLarge)?,
            epoch: journal.identity.epoch,
            payload: (sums.crc64)(0, payload),
            last_offset_delta: 0,
        };
        let unit = journal.end;
        journal.seal_frame(&header, &sums, arena);
        journal.last_append = now.mono;
        if about.is_some() {
            if let Some(Index::Open(index)) = journal.extents.back_mut().map(|extent| &mut extent.index) {
                index.add_control(partition, unit);
            }
            journal.frames.push_back(TailFrame {
                position,
                partition,
                base: base_offset,
                next: NO_FRAME,
                slot: self.partitions.slot_in(journal_slot, partition).unwrap_or(u32::MAX),
                records: 0,
                len: header.length,
                kind: TailKind::Control,
            });
        }
        Ok(position)
    }

    /// Makes room for a frame with `payload` bytes at the end of the open unit, opening a unit, a chunk or an extent where
    /// one is needed. Nothing changes that would have to be taken back when the frame is not written after all.
    pub(crate) fn reserve(
        &mut self,
        now: Now,
        journal_slot: u16,
        payload: usize,
        for_cleaning: bool,
        arena: &mut A,
    ) -> Result<(), AppendError> {
        let slot = usize::from(journal_slot);
        let frame = FrameHeader::frame_bytes(payload);
        let need = UnitHeader::BYTES + frame;
        let journal = &mut self.journals[slot];
        if journal.starting && !for_cleaning {
            return Err(if journal.full_until.is_some() { AppendError::Full } else { AppendError::Busy });
        }
        let held_back = journal.extents.back().is_some_and(|extent| extent.for_cleaning) && !for_cleaning;
        let held_back = held_back || journal.roll && !journal.spare.is_empty() && !for_cleaning;
        let kept = if for_cleaning { 0 } else { journal.control_room() };
        if journal.fits(frame, kept) && !held_back {
            return Ok(());
        }
        if need > UNIT_BYTES_MAX {
            return Err(AppendError::TooLarge);
        }
        if journal.frames.len() >= FRAMES_MAX && !self.evict_chunk_of(slot, arena) {
            return Err(AppendError::Busy);
        }
        let journal = &mut self.journals[slot];
        let filling = journal.open.as_ref().filter(|open| open.frames > 0).map_or(0, |open| sectors(open.used));
        let stays =
            !held_back && journal.extents.back().is_some_and(|extent| extent.left() >= filling + sectors(need) + kept);
        if !stays && journal.spare.is_empty() && !(for_cleaning && journal.cleaning_spare.is_some()) {
            // Not to be had: the open unit goes on filling with what is smaller.
            // A new journal has nothing that could be freed: it waits for room as records do.
            journal.cleaning_due |= for_cleaning && journal.full_until.is_some() && !journal.extents.is_empty();
            return Err(if journal.full_until.is_some() { AppendError::Full } else { AppendError::Busy });
        }
        // An open unit without frames (its first batch failed its CRC) is given up: nothing of it counts. The first one of an
        // extent only once there is another in its place: that it is the first, with which the extent's header is written,
        // is known by nothing else.
        let fresh_unit_of_extent = journal.open.as_ref().is_some_and(|open| open.frames == 0 && open.first_of_extent);
        if filling > 0 {
            journal.close_unit(now.wall, arena);
        } else if !fresh_unit_of_extent {
            journal.open = None;
        }
        if stays {
            if journal.chunks.back().is_none_or(|chunk| chunk.left() < sectors(need)) {
                if fresh_unit_of_extent {
                    // The extent's header lies in a chunk that is too small for this batch: write it with a unit of its own.
                    return self.replace_first_chunk(slot, need, arena);
                }
                let block = self.take_block(sectors(need).max(CHUNK_BYTES), arena).ok_or(AppendError::Busy)?;
                self.add_chunk(slot, block);
            }
            let unit_bytes = self.config.unit_bytes as usize;
            let journal = &mut self.journals[slot];
            journal.open = None;
            journal.open_unit(need, unit_bytes, fresh_unit_of_extent);
            return Ok(());
        }
        if fresh_unit_of_extent && !held_back {
            return Err(AppendError::TooLarge);
        }
        self.next_extent(slot, need, for_cleaning, arena)
    }

    fn next_extent(&mut self, slot: usize, need: usize, cleaning: bool, arena: &mut A) -> Result<(), AppendError> {
        let journal = &mut self.journals[slot];
        journal.order_spares();
        let held_back = if cleaning { journal.cleaning_spare } else { None };
        let address = journal.spare.front().copied().or(held_back).expect("looked for by the caller");
        if (ExtentHeader::BYTES + sectors(need) + Footer::bytes(2, 2)) as u64 > address.len {
            return Err(AppendError::TooLarge);
        }
        let block = self.take_block((SECTOR + sectors(need)).max(CHUNK_BYTES), arena).ok_or(AppendError::Busy)?;
        self.stamp += 1;
        let journal = &mut self.journals[slot];
        journal.open = None;
        let for_cleaning = journal.spare.pop_front().is_none();
        if for_cleaning {
            journal.cleaning_spare = None;
        }
        journal.begin_extent(address, block, self.stamp, &self.config.sums, arena);
        journal.extents.back_mut().expect("begun").for_cleaning = for_cleaning;
        journal.roll = false;
        journal.open_unit(need, self.config.unit_bytes as usize, true);
        Ok(())
    }

    /// The extent begun last has no unit yet, and its chunk is too small for its first one.
    fn replace_first_chunk(&mut self, slot: usize, need: usize, arena: &mut A) -> Result<(), AppendError> {
        let block = self.take_block((SECTOR + sectors(need)).max(CHUNK_BYTES), arena).ok_or(AppendError::Busy)?;
        self.stamp += 1;
        let journal = &mut self.journals[slot];
        journal.open = None;
        let old = journal.chunks.pop_back().expect("the extent's first chunk");
        arena.free(old.block);
        let extent = journal.extents.pop_back().expect("the extent begun last");
        journal.begin_extent(extent.address, block, self.stamp, &self.config.sums, arena);
        journal.extents.back_mut().expect("begun").for_cleaning = extent.for_cleaning;
        journal.open_unit(need, self.config.unit_bytes as usize, true);
        Ok(())
    }

    fn add_chunk(&mut self, slot: usize, block: Block) {
        self.stamp += 1;
        let journal = &mut self.journals[slot];
        let chunk = crate::journal::Chunk { block, at: 0, first: journal.end, end: journal.end, stamp: self.stamp };
        journal.chunks.push_back(chunk);
    }

    /// A block of the tail's memory; older chunks go where there is none left.
    pub(crate) fn take_block(&mut self, len: usize, arena: &mut A) -> Option<Block> {
        loop {
            if let Some(block) = arena.alloc(len, Purpose::Tail) {
                return Some(block);
            }
            let evictable = (0..self.journals.len()).filter(|&slot| self.journals[slot].evictable());
            let oldest = evictable.min_by_key(|&slot| self.journals[slot].chunks.front().map(|chunk| chunk.stamp))?;
            self.evict_chunk_of(oldest, arena);
        }
    }

    /// Drops a journal's oldest chunk and the tail frames in it, if it may go.
    pub(crate) fn evict_chunk_of(&mut self, slot: usize, arena: &mut A) -> bool {
        let journal_slot = u16::try_from(slot).expect("few journals per shard");
        let journal = &mut self.journals[slot];
        if !journal.evictable() {
            return false;
        }
        let chunk = journal.chunks.pop_front().expect("evictable");
        while let Some(frame) = journal.frames.front()
            && frame.position < chunk.end
        {
            if frame.kind == TailKind::Records
                && let Some(partition) = self.partitions.of_frame(journal_slot, frame.slot, frame.partition)
            {
                partition.tail_oldest = frame.next;
                if frame.next == NO_FRAME {
                    partition.tail_newest = NO_FRAME;
                }
            }
            journal.frames.pop_front();
            journal.frames_first += 1;
        }
        arena.free(chunk.block);
        true
    }
}

fn check_sequence(
    partition: &Partition,
    (id, epoch): (ProducerId, ProducerEpoch),
    batch: &BatchView<'_>,
    oldest_kept: WallMs,
) -> Result<Sequence, AppendError> {
    match &partition.producers {
        Some(producers) if id.0 >= 0 => {
            producers.check(id, epoch, batch.base_sequence(), batch.last_sequence(), oldest_kept)
        }
        _ => Ok(Sequence::Next),
    }
}

fn partition_start(partitions: &crate::partition::Partitions, slot: u32) -> Offset {
    partitions.at(slot).map_or(Offset(0), |partition| partition.log_start)
}

/// Inflates a compressed batch, as a compacted topic needs it: its keys must be known. The memory is given back by the next one.
fn inflate<'a>(
    batch: &BatchView<'_>,
    config: &StoreConfig,
    into: &'a mut Vec<u8>,
) -> Result<Option<&'a [u8]>, AppendError> {
    // What a rare large batch needed is not kept.
    const KEPT_BYTES: usize = 4 << 20;
    into.clear();
    into.shrink_to(KEPT_BYTES);
    if !batch.is_compressed() {
        return Ok(None);
    }
    match (config.codecs.inflate)(batch.codec().bits(), batch.payload(), INFLATED_BYTES_MAX, into) {
        Ok(()) => Ok(Some(into)),
        Err(InflateError::Limit) => Err(AppendError::Inflates),
        Err(InflateError::Damaged) => Err(AppendError::Invalid),
    }
}

/// Which records have no key, where the first such has a number.
fn keyless(batch: &BatchView<'_>, records: &[u8], first: i32) -> AppendError {
    let first = u32::try_from(first).unwrap_or(0);
    let behind = batch.records_of(records).skip(first as usize).take(64).enumerate();
    let bits = behind.filter(|(_, record)| record.is_ok_and(|record| record.key.is_none()));
    AppendError::Keyless(Keyless { first, bits: bits.fold(0, |bits, (number, _)| bits | 1 << number) })
}

/// Walks the records where they are not compressed, or were inflated, and judges their keys and timestamps.
fn check_times(
    config: &TopicConfig,
    last_stamp: WallMs,
    batch: &BatchView<'_>,
    inflated: Option<&[u8]>,
    now: WallMs,
) -> Result<Times, AppendError> {
    let (max, min) = if batch.is_compressed() && inflated.is_none() {
        (batch.max_timestamp(), batch.base_timestamp())
    } else {
        let records = inflated.unwrap_or_else(|| batch.payload());
        // Under a CRC that holds this is how the client made it: not an error that it should send again.
        let walk = batch.walk_decompressed(records).map_err(|_| AppendError::Invalid)?;
        if let (Some(first), Some(_)) = (walk.first_keyless, config.compaction) {
            return Err(keyless(batch, records, first));
        }
        (walk.max_timestamp, walk.min_timestamp)
    };
    match config.timestamp_type {
        TimestampType::Append => Ok(Times { max, stamp: Some(now.max(last_stamp)) }),
        TimestampType::Create => {
            // −1 stands for "no timestamp" and is taken.
            let early = min != -1 && now.0.saturating_sub(min) > config.timestamp_before_ms_max;
            let late = max.saturating_sub(now.0) > config.timestamp_after_ms_max;
            if early || late { Err(AppendError::Timestamp) } else { Ok(Times { max, stamp: None }) }
        }
    }
}

/// Copies a batch behind the header of the next frame, stamped. Gives the payload's checksum.
fn copy_batch<A: Arena>(
    journal: &Journal,
    batch: &BatchView<'_>,
    base: Offset,
    times: Times,
    sums: &base::Checksums,
    arena: &mut A,
) -> Result<u64, AppendError> {
    let open = journal.open.as_ref().expect("reserved");
    let chunk = journal.chunks.back().expect("reserved");
    let at = open.at + open.used + FrameHeader::BYTES;
    let source = batch.bytes();
    let target = arena.bytes_mut(&chunk.block, at..at + source.len());
    // The CRC-32C begins behind the fields that are stamped: those are copied first.
    target[..batch::ATTRIBUTES].copy_from_slice(&source[..batch::ATTRIBUTES]);
    let stamped = batch::stamp(target, base, journal.identity.epoch);
    stamped.map_err(|_| AppendError::Corrupt)?;
    let before = (sums.crc64)(0, &target[..batch::ATTRIBUTES]);
    let (crc, sum) = sums.copy(&source[batch::ATTRIBUTES..], &mut target[batch::ATTRIBUTES..], 0, before);
    if crc != batch.crc() {
        return Err(AppendError::Corrupt);
    }
    match times.stamp {
        Some(stamp) => batch::stamp_append_time(target, stamp, sums).map_err(|_| AppendError::Corrupt)?,
        // Kafka does not trust the header's maximum either: it stands corrected in the log.
        None if times.max != batch.max_timestamp() => {
            batch::stamp_max_timestamp(target, times.max, sums).map_err(|_| AppendError::Corrupt)?
        }
        None => return Ok(sum),
    };
    Ok((sums.crc64)(0, target))
}

/// Takes a record frame, whose unit is still open or was just read back, into tail list, index and partition.
pub(crate) fn note_records(
    journal: &mut Journal,
    partition: &mut Partition,
    slot: u32,
    header: &FrameHeader,
    position: Position,
    now: WallMs,
) {
    let number = journal.frames_end();
    journal.frames.push_back(TailFrame {
        position,
        partition: partition.id,
        base: header.base_offset,
        next: NO_FRAME,
        slot,
        records: header.last_offset_delta + 1,
        len: header.length,
        kind: TailKind::Records,
    });
    let before = partition.tail_newest;
    match journal.frame_mut(before) {
        Some(frame) if before != NO_FRAME => frame.next = number,
        _ => partition.tail_oldest = number,
    }
    partition.tail_newest = number;
    let end = position.plus(FrameHeader::frame_bytes(header.length as usize) as u64);
    // The open unit begins where the closed ones end.
    let unit = journal.end;
    let extent = journal.extents.back_mut().expect("the frame lies in it");
    note_index(extent, partition, header, unit, end, now);
}

/// Takes a record frame into the index of the extent it lies in, and the partition's ends.
pub(crate) fn note_index(
    extent: &mut Extent,
    partition: &mut Partition,
    header: &FrameHeader,
    unit: Position,
    end: Position,
    now: WallMs,
) {
    index_records(extent, partition, header, unit, end, now);
    partition.note_epoch(header.epoch, header.base_offset);
    partition.log_end = header.last_offset().plus(1);
    partition.bytes += u64::from(header.length);
    partition.newest = unit;
}

/// Takes a record frame into the index of the extent it lies in.
pub(crate) fn index_records(
    extent: &mut Extent,
    partition: &mut Partition,
    header: &FrameHeader,
    unit: Position,
    end: Position,
    now: WallMs,
) {
    let start = extent.start.position;
    if let Index::Open(index) = &mut extent.index
        && index.add(start, &mut partition.run, entry_of(header, unit, end, now), now)
    {
        partition.fences.push(Fence { first: header.base_offset, extent: start });
    }
}

/// A record frame as the index sees it.
pub(crate) fn entry_of(header: &FrameHeader, unit: Position, end: Position, now: WallMs) -> Entry {
    Entry {
        partition: header.partition,
        first: header.base_offset,
        last: header.last_offset(),
        unit,
        end,
        bytes: header.length,
        // Records without a timestamp expire by the time they came. Where compaction left none, none is found by its time.
        max_timestamp: match header.max_timestamp {
            _ if header.records == 0 => WallMs(i64::MIN),
            WallMs(..0) => now,
            stamp => stamp,
        },
        epoch: header.epoch,
    }
}
