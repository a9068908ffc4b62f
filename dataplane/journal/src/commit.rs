//! The way of a closed unit to the device: writes, coalesced flushes, the durable prefix, and what follows from it.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use base::checksum::keyed128;
use base::image::JournalEntry;
use base::memory::Arena;
use base::{DeviceIndex, Now};

use crate::format::{EpochStart, FrameKind, Gap, JournalStart, LocalState, LogStartMove, SECTOR};
use crate::journal::{Identity, Journal, SlotWrite, Stage, TailKind};
use crate::store::{Durability, Effect, ExtentAddress, Op, Store, Wish};

/// How long to wait before asking again for an extent when there was no space.
const FULL_RETRY_MS: u64 = 500;

impl<A: Arena> Store<A> {
    /// Opens a journal that does not exist yet.
    pub(crate) fn create(&mut self, now: Now, entry: &JournalEntry, out: &mut Vec<Effect>) {
        if self.journal_slots.contains_key(&entry.id) {
            return;
        }
        let device = usize::from(entry.device.0);
        let identity = Identity {
            cluster: self.config.cluster,
            device: self.devices[device].label.device,
            journal: entry.id,
            epoch: entry.epoch,
            secret: entry.secret,
        };
        let mut journal = Journal::new(identity, entry.device, JournalStart::default());
        match self.devices[device].free_pairs.pop() {
            Some(pair) => journal.slots_due = Some(pair),
            None => fence(&mut journal, "the device has no free pair of state slots".to_string(), out),
        }
        let slot = self.add_journal(journal);
        self.ask_for_extent(now, slot, out);
    }

    /// Adds a journal; its slot.
    pub(crate) fn add_journal(&mut self, journal: Journal) -> u16 {
        let slot = u16::try_from(self.journals.len()).expect("few journals per shard");
        self.journal_slots.insert(journal.id(), slot);
        self.journals.push(journal);
        slot
    }

    /// Asks for an extent where one is wanted.
    pub(crate) fn ask_for_extent(&mut self, now: Now, slot: u16, out: &mut Vec<Effect>) {
        let stopping = self.stopping;
        let journal = &mut self.journals[usize::from(slot)];
        if journal.asked || stopping && !journal.starting {
            return;
        }
        let for_cleaning = journal.cleaning_due
            && journal.cleaning_spare.is_none()
            && journal.spare.is_empty()
            && now.mono >= journal.cleaning_until;
        if !for_cleaning && !journal.wants_extent(now.mono) {
            return;
        }
        // Answers do not say which question they are for: one for cleaning stands alone.
        let asking = &self.asking[usize::from(journal.device.0)];
        if for_cleaning && !asking.is_empty() || asking.front().is_some_and(|(_, wish)| wish.stands_alone()) {
            return;
        }
        journal.cleaning_due = false;
        journal.asked = true;
        let wish = if for_cleaning { Wish::Cleaning } else { Wish::Appends };
        self.asking[usize::from(journal.device.0)].push_back((slot, wish));
        // The states of a stretch are part of its clustering: for them the very last one is there.
        let wish = if for_cleaning && journal.clustering.wants_room() { Wish::Clustering } else { wish };
        out.push(Effect::NeedExtent { device: journal.device, journal: journal.id(), wish });
    }

    /// Asks for an extent for what is being clustered: from what is held back where there is no other, since more than one
    /// is free afterwards.
    fn ask_for_clustering(&mut self, slot: u16, out: &mut Vec<Effect>) {
        let journal = &self.journals[usize::from(slot)];
        let device = usize::from(journal.device.0);
        if !self.wants_cluster_extent(slot) || !self.asking[device].is_empty() {
            return;
        }
        self.asking[device].push_back((slot, Wish::Clustering));
        out.push(Effect::NeedExtent { device: journal.device, journal: journal.id(), wish: Wish::Clustering });
    }

    /// An extent that was asked for, or word that there is no space. Answers come in the order of the questions.
    pub(crate) fn extent_given(
        &mut self,
        now: Now,
        device: DeviceIndex,
        extent: Option<ExtentAddress>,
        out: &mut Vec<Effect>,
    ) {
        let Some((slot, wish)) = self.asking[usize::from(device.0)].pop_front() else {
            out.extend(extent.map(|extent| Effect::FreeExtent { extent }));
            return;
        };
        if wish == Wish::Clustering {
            self.cluster_extent(slot, extent, out);
            return;
        }
        let for_cleaning = wish == Wish::Cleaning;
        let journal = &mut self.journals[usize::from(slot)];
        journal.asked = false;
        match extent {
            Some(extent) if journal.fenced.is_some() => out.push(Effect::FreeExtent { extent }),
            Some(extent) if for_cleaning => journal.cleaning_spare = Some(extent),
            None if for_cleaning => journal.cleaning_until = now.mono.plus_ms(FULL_RETRY_MS),
            Some(extent) => {
                journal.full_until = None;
                journal.spare.push_back(extent);
            }
            None => journal.full_until = Some(now.mono.plus_ms(FULL_RETRY_MS)),
        }
    }

    pub(crate) fn pump_all(&mut self, now: Now, arena: &mut A, out: &mut Vec<Effect>) {
        for slot in 0..u16::try_from(self.journals.len()).expect("few journals per shard") {
            self.go_on_clustering(now, slot, arena, out);
            if self.journals[usize::from(slot)].fenced.is_some() {
                continue;
            }
            self.write_slots(slot, arena, out);
            self.start_epoch(now, slot, arena);
            self.record_gaps(now, slot, arena);
            self.state_starts(now, slot, arena);
            self.submit_units(now, slot, arena, out);
            self.ask_for_extent(now, slot, out);
            self.ask_for_clustering(slot, out);
            if self.stopping {
                self.idle(now, slot, arena);
                self.submit_units(now, slot, arena, out);
                self.checkpoint(slot, true, out);
            }
        }
        self.go_on_compaction(now, arena, out);
        self.submit_flushes(out);
        self.tell_damage(out);
    }

    /// The first unit of this process in a journal: an epoch start, alone.
    fn start_epoch(&mut self, now: Now, slot: u16, arena: &mut A) {
        let journal = &self.journals[usize::from(slot)];
        if !journal.starting {
            return;
        }
        let start = EpochStart {
            epoch: journal.identity.epoch,
            broker: self.config.broker,
            incarnation: self.config.incarnation,
            previous: journal.last.0,
        };
        let mut payload = Vec::with_capacity(32);
        start.encode(&mut payload);
        if self.append_control(now, slot, FrameKind::EpochStart, None, &payload, true, arena).is_ok() {
            let journal = &mut self.journals[usize::from(slot)];
            journal.close_unit(now.wall, arena);
            journal.starting = false;
        }
    }

    /// Records offsets that were given up, so that the next start need not.
    fn record_gaps(&mut self, now: Now, slot: u16, arena: &mut A) {
        if self.journals[usize::from(slot)].starting {
            return;
        }
        while let Some(&(id, from, to)) = self.journals[usize::from(slot)].gaps_due.last() {
            let Some((damage, _)) = self.journals[usize::from(slot)].damage else { return };
            let gap = Gap { from, to, damage_start: damage.start, damage_end: damage.end };
            let mut payload = Vec::with_capacity(32);
            gap.encode(&mut payload);
            if self.append_control(now, slot, FrameKind::Gap, Some((id, from)), &payload, true, arena).is_err() {
                return;
            }
            let journal = &mut self.journals[usize::from(slot)];
            journal.gaps_due.pop();
            let unit = journal.end;
            if let Some(partition) = self.partitions.get_in_mut(slot, id) {
                partition.newest = unit;
            }
        }
    }

    /// Writes the first of the two slots of a new journal's local state.
    fn write_slots(&mut self, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let Some(pair) = self.journals[usize::from(slot)].slots_due else { return };
        let Some(block) = self.take_block(SECTOR, arena) else { return };
        let journal = &mut self.journals[usize::from(slot)];
        let state = LocalState {
            sequence: 1,
            cluster: journal.identity.cluster,
            device: journal.identity.device,
            journal: journal.id(),
            replica: replica_id(self.config.incarnation, journal.id().0),
            promise: journal.identity.epoch,
            cut: crate::format::Cut { position: journal.end, epoch: journal.identity.epoch },
            uncertain_to: base::Position(0),
            does_not_count: false,
            start: JournalStart::default(),
            secret: journal.identity.secret,
        };
        let page = arena.bytes_mut(&block, 0..SECTOR).first_chunk_mut().expect("a sector");
        state.encode(&self.config.sums, page);
        arena.freeze(&block, SECTOR);
        journal.slots_due = None;
        journal.local = Some((pair, state));
        journal.slots = Some(SlotWrite { block, pair, left: 2, second: false, stage: Stage::Writing });
        self.submit_slot(slot, out);
    }

    /// Submits the slot that is to be written now.
    pub(crate) fn submit_slot(&mut self, slot: u16, out: &mut Vec<Effect>) {
        let journal = &self.journals[usize::from(slot)];
        let write = journal.slots.as_ref().expect("a slot write is under way");
        let device = usize::from(journal.device.0);
        out.push(Effect::Write {
            token: Op::Slot(slot).token(),
            device: journal.device,
            offset: self.devices[device].label.slot_at(write.pair, write.second),
            arena_start: write.block.start,
            len: SECTOR,
            fua: self.lanes[device].durability == Durability::Fua,
        });
    }

    /// A local-state write is complete.
    pub(crate) fn slot_written(&mut self, slot: u16, result: Result<(), String>, arena: &mut A, out: &mut Vec<Effect>) {
        let journal = &mut self.journals[usize::from(slot)];
        let Some(write) = &mut journal.slots else { return };
        if let Err(reason) = result {
            fence(journal, format!("writing the local state failed: {reason}"), out);
            return;
        }
        let lane = &mut self.lanes[usize::from(journal.device.0)];
        if lane.durability == Durability::Flush {
            write.stage = Stage::Written;
            lane.wait(slot);
        } else {
            self.slot_durable(slot, arena, out);
        }
    }

    /// One slot is durable: the other follows, or the journal may write its first unit.
    fn slot_durable(&mut self, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let journal = &mut self.journals[usize::from(slot)];
        let mut write = journal.slots.take().expect("it was written");
        write.left -= 1;
        if write.left > 0 {
            write.second = true;
            write.stage = Stage::Writing;
            journal.slots = Some(write);
            self.submit_slot(slot, out);
        } else {
            arena.free(write.block);
            // Both hold that the journal begins behind them.
            let gone = journal.leaving.prefix.drain(..);
            out.extend(gone.map(|extent| Effect::FreeExtent { extent }));
        }
    }

    /// Submits closed units while there is room in flight, and closes the open one when there still is.
    fn submit_units(&mut self, now: Now, slot: u16, arena: &mut A, out: &mut Vec<Effect>) {
        let (most, bytes_max) = (self.config.writes_in_flight as usize, self.config.bytes_in_flight as usize);
        let journal = &mut self.journals[usize::from(slot)];
        // A new journal's state must be durable first; one that merely begins later now may go on.
        if journal.slots_due.is_some() || journal.slots.is_some() && journal.leaving.prefix.is_empty() {
            return;
        }
        let fua = self.lanes[usize::from(journal.device.0)].durability == Durability::Fua;
        loop {
            let flying = usize::try_from(journal.submitted - journal.flights_first).expect("few fly");
            let number = journal.submitted;
            let Some(flight) = journal.flights.get_mut(flying) else {
                // Nothing waits: what has gathered in the open unit is the next one.
                let Some(open) = journal.open.as_ref().filter(|open| open.frames > 0) else { return };
                let room = journal.bytes_flying == 0 || journal.bytes_flying + open.used <= bytes_max;
                if flying >= most || !room {
                    return;
                }
                journal.close_unit(now.wall, arena);
                continue;
            };
            let room = journal.bytes_flying == 0 || journal.bytes_flying + flight.len <= bytes_max;
            if flying >= most || !room {
                return;
            }
            flight.stage = Stage::Writing;
            journal.bytes_flying += flight.len;
            journal.submitted += 1;
            out.push(Effect::Write {
                token: Op::Unit(slot, number).token(),
                device: journal.device,
                offset: flight.offset,
                arena_start: flight.arena_start,
                len: flight.len,
                fua,
            });
        }
    }

    /// A unit's write is complete.
    pub(crate) fn unit_written(&mut self, slot: u16, number: u64, result: Result<(), String>, out: &mut Vec<Effect>) {
        let journal = &mut self.journals[usize::from(slot)];
        let index = usize::try_from(number - journal.flights_first).expect("few fly");
        if let Err(reason) = result {
            fence(journal, format!("a write failed: {reason}"), out);
            return;
        }
        let flight = &mut journal.flights[index];
        assert_eq!(flight.stage, Stage::Writing, "a write completes once");
        let lane = &mut self.lanes[usize::from(journal.device.0)];
        if lane.durability == Durability::Flush && !cfg!(fault = "ack-before-flush") {
            flight.stage = Stage::Written;
            lane.wait(slot);
        } else {
            flight.stage = Stage::Durable;
            self.advance(slot, out);
        }
    }

    /// Submits a flush on each device where complete writes wait for one and none flies.
    fn submit_flushes(&mut self, out: &mut Vec<Effect>) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let Some(serial) = lane.start() else { continue };
            for &slot in &lane.covered {
                let journal = &mut self.journals[usize::from(slot)];
                for flight in &mut journal.flights {
                    if flight.stage == Stage::Written {
                        flight.stage = Stage::Covered;
                    }
                }
                if let Some(write) = &mut journal.slots
                    && write.stage == Stage::Written
                {
                    write.stage = Stage::Covered;
                }
                journal.clustering.cover();
            }
            let index = u16::try_from(index).expect("few devices");
            out.push(Effect::Flush { token: Op::Flush(index, serial).token(), device: lane.device });
        }
    }

    /// A flush is complete: what it covers is durable.
    pub(crate) fn flushed(
        &mut self,
        lane: u16,
        serial: u64,
        result: Result<(), String>,
        arena: &mut A,
        out: &mut Vec<Effect>,
    ) {
        let state = &mut self.lanes[usize::from(lane)];
        state.end(serial);
        let device = state.device;
        if let Err(reason) = result {
            self.device_failed(device, &reason, out);
            out.push(Effect::DeviceFailed { device, reason });
            return;
        }
        state.flushed = serial;
        let mut covered = core::mem::take(&mut state.covered);
        for &slot in &covered {
            let journal = &mut self.journals[usize::from(slot)];
            if journal.frozen {
                continue;
            }
            journal.clustering.covered();
            for flight in &mut journal.flights {
                if flight.stage == Stage::Covered {
                    flight.stage = Stage::Durable;
                }
            }
            if journal.slots.as_ref().is_some_and(|write| write.stage == Stage::Covered) {
                self.slot_durable(slot, arena, out);
            }
            self.advance(slot, out);
        }
        covered.clear();
        self.lanes[usize::from(lane)].covered = covered;
    }

    /// A flush failed on this device, here or on another shard: after that nobody knows what of the writes it should have
    /// covered is on the medium, and asking again would be answered with success.
    pub(crate) fn device_failed(&mut self, device: DeviceIndex, reason: &str, out: &mut Vec<Effect>) {
        for journal in self.journals.iter_mut().filter(|journal| journal.device == device) {
            journal.clustering.flush_failed(reason);
            let uncovered = journal.flights.iter().any(|flight| match flight.stage {
                Stage::Writing | Stage::Written | Stage::Covered => true,
                Stage::Waiting | Stage::Durable => false,
            });
            if uncovered || journal.slots.is_some() {
                journal.frozen = true;
                fence(journal, format!("a flush of its device failed: {reason}"), out);
            }
        }
    }

    /// Moves the durable position over the units that are durable without a gap, and folds what is committed with it.
    fn advance(&mut self, slot: u16, out: &mut Vec<Effect>) {
        let journal = &mut self.journals[usize::from(slot)];
        let before = journal.commit;
        while let Some(flight) = journal.flights.front()
            && flight.stage == Stage::Durable
        {
            journal.commit = flight.end;
            journal.bytes_flying -= flight.len;
            journal.flights.pop_front();
            journal.flights_first += 1;
        }
        if journal.commit > before {
            self.fold(slot, out);
            let journal = &self.journals[usize::from(slot)];
            out.push(Effect::Committed { journal: journal.id(), upto: journal.commit });
        }
    }

    /// Folds the tail frames that are committed now into their partitions.
    fn fold(&mut self, slot: u16, out: &mut Vec<Effect>) {
        self.folds += 1;
        let journal = &mut self.journals[usize::from(slot)];
        while let Some(&frame) = journal.frame(journal.folded)
            && frame.position < journal.commit
        {
            journal.folded += 1;
            let Some(partition) = self.partitions.of_frame(slot, frame.slot, frame.partition) else { continue };
            match frame.kind {
                TailKind::Records => {
                    partition.high_watermark = frame.base.plus(i64::from(frame.records));
                    if partition.announced != self.folds {
                        partition.announced = self.folds;
                        out.push(Effect::Advanced { partition: partition.id });
                    }
                }
                TailKind::Start(reason) => {
                    // Only now: where the unit that states it again is there, its header says that this one was committed.
                    journal.starts_due.push_back((frame.partition, LogStartMove { to: frame.base, reason }));
                }
                TailKind::StartAgain => {
                    partition.sure_start = partition.sure_start.max(frame.base);
                    partition.log_start = partition.log_start.max(frame.base);
                    partition.trim_epochs();
                    partition.fences.trim(partition.kept_from());
                    journal.checkpoint.mark(partition, frame.slot);
                }
                TailKind::Control => {}
            }
        }
    }
}

/// Takes no more appends; says so once.
pub(crate) fn fence(journal: &mut Journal, reason: String, out: &mut Vec<Effect>) {
    if journal.fenced.is_none() {
        journal.fenced = Some(reason.clone());
        out.push(Effect::Fenced { journal: journal.id(), reason });
    }
}

/// A replica id: as random as the incarnation of the process that makes it.
pub(crate) fn replica_id(incarnation: u128, journal: u64) -> u128 {
    keyed128(&incarnation.to_le_bytes(), &journal.to_le_bytes())
}
