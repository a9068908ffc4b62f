//! Receive buffers that the kernel picks only when bytes have arrived, so that an idle connection holds none.
//!
//! # Safety model
//! The ring of entries is a mapping of its own, written here and read by the kernel; entries become visible with the release
//! store of the tail. Each entry names one block of the receive arena, pinned as open until the kernel reports it used.
#![allow(unsafe_code, reason = "STYLE rule 18: io_uring provided buffers")]

use std::sync::atomic::{AtomicU16, Ordering};

use base::memory::{Arena as _, Block, Purpose};
use io_uring::types::BufRingEntry;

use crate::arena::{Arena, Mapping, Pinned};
use crate::ring::Ring;

/// Group id of the buffers; there is one group.
pub(super) const GROUP: u16 = 0;

/// Bytes of a buffer: holds several requests of Kafka's default batch size (16 KiB), which then arrive by one call.
pub(super) const BUFFER: usize = 64 << 10;

/// Entries, a power of two: connections whose bytes may arrive between two turns without waiting for one.
const ENTRIES: u16 = 64;

pub(super) struct Provided {
    entries: Mapping,
    given: Vec<Option<(Block, Pinned)>>,
    missing: Vec<u16>,
    tail: u16,
}

impl Provided {
    pub(super) fn new(ring: &Ring) -> std::io::Result<Self> {
        let entries = Mapping::new(usize::from(ENTRIES) * size_of::<BufRingEntry>(), false, false)?;
        // SAFETY: the mapping has room for the entries and lives as long as the network, which leaks it with requests in flight.
        unsafe { ring.register_buffer_ring(entries.base().as_ptr(), ENTRIES, GROUP)? };
        let given = (0..ENTRIES).map(|_| None).collect();
        Ok(Self { entries, given, missing: (0..ENTRIES).collect(), tail: 0 })
    }

    /// Gives the kernel a block for every entry that lacks one, as far as memory goes. Returns whether it has any.
    pub(super) fn fill(&mut self, arena: &mut Arena) -> bool {
        let before = self.tail;
        while let Some(&id) = self.missing.last() {
            let Some(block) = arena.alloc(BUFFER, Purpose::Cold) else { break };
            self.missing.pop();
            // SAFETY: the block is new, and is not touched before the kernel has reported it used.
            let pinned = unsafe { arena.memory().open(&block, 0..BUFFER) };
            let slot = usize::from(self.tail % ENTRIES);
            // SAFETY: the slot lies in the mapping; the kernel does not read it before the tail has passed it.
            let entry = unsafe { &mut *self.entries.base().as_ptr().cast::<BufRingEntry>().add(slot) };
            entry.set_addr(pinned.as_ptr().addr() as u64);
            entry.set_len(u32::try_from(BUFFER).expect("64 KiB"));
            entry.set_bid(id);
            self.given[usize::from(id)] = Some((block, pinned));
            self.tail = self.tail.wrapping_add(1);
        }
        if self.tail != before {
            let base = self.entries.base().as_ptr().cast::<BufRingEntry>();
            // SAFETY: the tail lies in the first entry of the mapping, is aligned, and is only accessed atomically.
            let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(base).cast_mut()) };
            tail.store(self.tail, Ordering::Release);
        }
        self.missing.len() < usize::from(ENTRIES)
    }

    /// Takes over the block that the kernel has filled.
    pub(super) fn take(&mut self, id: u16) -> Block {
        let (block, _pinned) = self.given[usize::from(id)].take().expect("the kernel uses buffers that it was given");
        self.missing.push(id);
        block
    }

    /// Whether every entry lacks its block: nothing can be received before memory is free.
    pub(super) fn is_dry(&self) -> bool {
        self.missing.len() == usize::from(ENTRIES)
    }
}

impl Provided {
    /// Leaves the entries mapped for ever, for a ring that is closed with requests in flight.
    pub(super) fn leak(&mut self) {
        for given in self.given.drain(..) {
            std::mem::forget(given);
        }
        self.entries.leak();
    }
}
