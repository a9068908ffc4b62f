//! The arena: fixed memory of one shard, in huge pages where the machine has some.
//!
//! # Safety model
//! [`Region`] is one zero-initialised mapping plus tables with an entry per 4 KiB page. Only the arena (one thread, `&mut`)
//! changes who owns a page; other threads touch nothing but the pin count of a block and the list of returned blocks.
//! - A page belongs to at most one block; `start_of` names it. A [`Block`] that a caller made up is checked against the
//!   tables and refused by a panic, so safe code cannot reach memory that is not a living block's.
//! - Mutable bytes are handed out only at or above the block's frozen mark, under `&mut Arena`. Shared slices cover only
//!   bytes below the mark, which never falls while the block lives. So a `&mut [u8]` never overlaps a [`Slice`].
//! - A loaned block (the kernel writes into it) gives out no reference at all until the loan ends, and cannot be freed.
//!   That no reference was taken before the loan is what the caller of [`ArenaMemory::loan`] promises.
//! - A block's memory is reused only when its pin count is zero. The owner, every slice and every device request hold one
//!   pin each; the last to let go hands the block to the owner over a push-only list that only the owner empties (at once),
//!   so there is no ABA. Release on unpin and acquire on taking the list order all reads before the reuse.
//! - Slices hold the region by `Arc`, so the mapping outlives them.
#![allow(unsafe_code, reason = "STYLE rule 18: the arena hands out disjoint parts of one mapping")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

use base::memory::{Arena as ArenaTrait, Block, Purpose};

mod mapping;
#[cfg(test)]
mod tests;

pub(crate) use mapping::Mapping;
pub use mapping::PageKind;

/// Granularity of blocks: the sector size that `O_DIRECT` asks for at most.
pub const PAGE: usize = 4096;

/// Frozen mark of a block that is loaned to the kernel.
const LOANED: u32 = u32::MAX;

/// Frozen mark of a block that is freed and still pinned.
const FREED: u32 = u32::MAX - 1;

/// How an arena is made.
#[derive(Clone, Copy, Debug)]
pub struct ArenaConfig {
    /// Bytes for [`Purpose::Tail`].
    pub tail_bytes: usize,
    /// Bytes for [`Purpose::Cold`].
    pub cold_bytes: usize,
    /// Try explicit huge pages (`MAP_HUGETLB`) before normal pages that are advised to become huge.
    pub huge_pages: bool,
    /// Touch every page at start, so that none is faulted in on the data path.
    pub prefault: bool,
}

/// The mapping and what is known about each of its pages.
struct Region {
    mapping: Mapping,
    /// Per page: 1 + first page of the block it belongs to; 0: free.
    start_of: Box<[AtomicU32]>,
    /// Per first page of a block: its pages.
    pages: Box<[AtomicU32]>,
    /// Per first page of a block: bytes frozen, or [`LOANED`].
    frozen: Box<[AtomicU32]>,
    /// Per first page of a block: owner, slices and device requests that hold it.
    pins: Box<[AtomicU32]>,
    /// Per first page of a returned block: 1 + next in the list of returned blocks.
    next: Box<[AtomicU32]>,
    /// 1 + first page of the first returned block; 0: none.
    returned: AtomicU32,
    /// Bytes of freed blocks that are still pinned, for tail and cold.
    pinned: [AtomicUsize; 2],
    /// Pages below this one are the tail's.
    tail_pages: u32,
}

impl Region {
    fn purpose_of(&self, page: u32) -> usize {
        usize::from(page >= self.tail_pages)
    }

    fn unpin(&self, page: u32) {
        if self.pins[page as usize].fetch_sub(1, Ordering::Release) == 1 {
            // As in `Arc::drop`: what others read before their unpins comes before the return of the block.
            fence(Ordering::Acquire);
            let bytes = self.pages[page as usize].load(Ordering::Relaxed) as usize * PAGE;
            self.pinned[self.purpose_of(page)].fetch_sub(bytes, Ordering::Relaxed);
            let mut head = self.returned.load(Ordering::Relaxed);
            loop {
                self.next[page as usize].store(head, Ordering::Relaxed);
                // AcqRel: pushes form one chain, so the owner's acquiring swap sees every unpin before it.
                match self.returned.compare_exchange_weak(head, page + 1, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => return,
                    Err(now) => head = now,
                }
            }
        }
    }

    fn pin(&self, page: u32) {
        // Relaxed, as in `Arc::clone`: whoever pins holds a pin already.
        let before = self.pins[page as usize].fetch_add(1, Ordering::Relaxed);
        assert!(before > 0 && before < u32::MAX / 2, "a pinned block has an owner");
    }

    /// First page of the living block that holds arena bytes `start .. start + len`.
    fn block_around(&self, start: usize, len: usize) -> u32 {
        let page = start / PAGE;
        let first = self.start_of[page].load(Ordering::Relaxed).checked_sub(1).expect("the address lies in a block");
        let end = (first as usize + self.pages[first as usize].load(Ordering::Relaxed) as usize) * PAGE;
        assert!(start + len <= end, "the range lies in one block");
        first
    }

    /// First page of a block that the caller claims to own.
    fn check(&self, block: &Block) -> u32 {
        let first = self.block_around(block.start, block.len);
        let whole = first as usize * PAGE == block.start
            && self.pages[first as usize].load(Ordering::Relaxed) as usize * PAGE == block.len;
        assert!(whole, "not a block of this arena");
        assert!(self.frozen[first as usize].load(Ordering::Relaxed) != FREED, "the block is freed");
        first
    }

    fn pointer(&self, start: usize, len: usize) -> NonNull<u8> {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.mapping.len()));
        // SAFETY: the range was just checked to lie inside the mapping.
        unsafe { self.mapping.base().add(start) }
    }
}

/// Free runs of one purpose: by address, to merge neighbours, and by length, for the best fit.
#[derive(Debug, Default)]
struct FreeRuns {
    by_start: BTreeMap<u32, u32>,
    by_len: BTreeSet<(u32, u32)>,
}

impl FreeRuns {
    fn take(&mut self, pages: u32) -> Option<u32> {
        let &(len, start) = self.by_len.range((pages, 0)..).next()?;
        self.remove(start, len);
        if len > pages {
            self.insert(start + pages, len - pages);
        }
        Some(start)
    }

    fn give(&mut self, mut start: u32, mut pages: u32) {
        if let Some((&before, &len)) = self.by_start.range(..start).next_back()
            && before + len == start
        {
            self.remove(before, len);
            start = before;
            pages += len;
        }
        if let Some(&len) = self.by_start.get(&(start + pages)) {
            self.remove(start + pages, len);
            pages += len;
        }
        self.insert(start, pages);
    }

    fn insert(&mut self, start: u32, pages: u32) {
        self.by_start.insert(start, pages);
        self.by_len.insert((pages, start));
    }

    fn remove(&mut self, start: u32, pages: u32) {
        self.by_start.remove(&start);
        self.by_len.remove(&(pages, start));
    }
}

/// Fixed memory of one shard. Lives on the shard's thread.
pub struct Arena {
    region: Arc<Region>,
    free: [FreeRuns; 2],
    /// Bytes of blocks not yet freed, for tail and cold.
    live: [usize; 2],
    budget: [usize; 2],
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("live", &self.live).field("budget", &self.budget).finish_non_exhaustive()
    }
}

const fn slot(purpose: Purpose) -> usize {
    match purpose {
        Purpose::Tail => 0,
        Purpose::Cold => 1,
    }
}

fn table(pages: usize) -> Box<[AtomicU32]> {
    (0..pages).map(|_| AtomicU32::new(0)).collect()
}

impl Arena {
    /// Maps the memory.
    ///
    /// # Errors
    /// When the machine does not give that much memory.
    pub fn new(config: ArenaConfig) -> std::io::Result<Self> {
        let tail = config.tail_bytes.next_multiple_of(PAGE);
        let cold = config.cold_bytes.next_multiple_of(PAGE);
        let too_large = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "an arena holds at most 4 TiB");
        let tail_pages = u32::try_from(tail / PAGE).map_err(|_| too_large())?;
        let cold_pages = u32::try_from(cold / PAGE).map_err(|_| too_large())?;
        let all = (tail_pages as usize) + (cold_pages as usize);
        u32::try_from(all).ok().filter(|&n| n < u32::MAX / 2).ok_or_else(too_large)?;
        let mapping = Mapping::new((tail + cold).max(PAGE), config.huge_pages, config.prefault)?;
        let mut free = [FreeRuns::default(), FreeRuns::default()];
        if tail_pages > 0 {
            free[0].insert(0, tail_pages);
        }
        if cold_pages > 0 {
            free[1].insert(tail_pages, cold_pages);
        }
        let region = Region {
            mapping,
            start_of: table(all),
            pages: table(all),
            frozen: table(all),
            pins: table(all),
            next: table(all),
            returned: AtomicU32::new(0),
            pinned: [AtomicUsize::new(0), AtomicUsize::new(0)],
            tail_pages,
        };
        Ok(Self { region: Arc::new(region), free, live: [0; 2], budget: [tail, cold] })
    }

    /// What the memory is made of.
    #[must_use]
    pub fn page_kind(&self) -> PageKind {
        self.region.mapping.kind()
    }

    /// The device backend's way to the memory.
    #[must_use]
    pub fn memory(&self) -> ArenaMemory {
        ArenaMemory { region: Arc::clone(&self.region) }
    }

    /// Takes back what the last slices of freed blocks have returned.
    fn reclaim(&mut self) {
        let mut head = self.region.returned.swap(0, Ordering::Acquire);
        while let Some(page) = head.checked_sub(1) {
            head = self.region.next[page as usize].load(Ordering::Relaxed);
            let pages = self.region.pages[page as usize].load(Ordering::Relaxed);
            for entry in &self.region.start_of[page as usize..(page + pages) as usize] {
                entry.store(0, Ordering::Relaxed);
            }
            self.free[self.region.purpose_of(page)].give(page, pages);
        }
    }

    /// Checked address of bytes of a block that is not loaned, and the block's frozen mark.
    fn part(&self, block: &Block, range: &Range<usize>) -> (NonNull<u8>, usize) {
        let page = self.region.check(block);
        assert!(range.start <= range.end && range.end <= block.len, "the range lies in the block");
        let frozen = self.region.frozen[page as usize].load(Ordering::Relaxed);
        assert!(frozen != LOANED, "a loaned block is the kernel's");
        (self.region.pointer(block.start + range.start, range.len()), frozen as usize)
    }
}

impl ArenaTrait for Arena {
    type Slice = Slice;

    fn alloc(&mut self, len: usize, purpose: Purpose) -> Option<Block> {
        let pages = u32::try_from(len.max(1).div_ceil(PAGE)).ok()?;
        if self.region.returned.load(Ordering::Relaxed) != 0 {
            self.reclaim();
        }
        let start = self.free[slot(purpose)].take(pages)?;
        let region = &self.region;
        for entry in &region.start_of[start as usize..(start + pages) as usize] {
            entry.store(start + 1, Ordering::Relaxed);
        }
        region.pages[start as usize].store(pages, Ordering::Relaxed);
        region.frozen[start as usize].store(0, Ordering::Relaxed);
        region.pins[start as usize].store(1, Ordering::Relaxed);
        let block = Block { start: start as usize * PAGE, len: pages as usize * PAGE, purpose };
        self.live[slot(purpose)] += block.len;
        Some(block)
    }

    fn free(&mut self, block: Block) {
        let page = self.region.check(&block);
        let mark = self.region.frozen[page as usize].swap(FREED, Ordering::Relaxed);
        assert!(mark != LOANED, "a loaned block is the kernel's");
        let purpose = self.region.purpose_of(page);
        self.live[purpose] -= block.len;
        // Counted as pinned first: the last slice may be dropped, and subtract, at any time after the unpin.
        self.region.pinned[purpose].fetch_add(block.len, Ordering::Relaxed);
        self.region.unpin(page);
        self.reclaim();
    }

    fn bytes(&self, block: &Block, range: Range<usize>) -> &[u8] {
        let (start, _) = self.part(block, &range);
        // SAFETY: the range lies in a living block that is not loaned; while `self` is borrowed nobody writes to it (open
        // bytes only through `&mut self`), the block is not freed, and the caller of `loan` promises not to loan it.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), range.len()) }
    }

    fn bytes_mut(&mut self, block: &Block, range: Range<usize>) -> &mut [u8] {
        let (start, frozen) = self.part(block, &range);
        assert!(range.start >= frozen, "frozen bytes do not change");
        // SAFETY: the range lies in a living block, is not loaned, and is not frozen, so no slice covers it; `&mut self`
        // keeps every other reference away.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), range.len()) }
    }

    fn freeze(&mut self, block: &Block, upto: usize) {
        let page = self.region.check(block);
        assert!(upto <= block.len, "the mark lies in the block");
        let frozen = &self.region.frozen[page as usize];
        let mark = frozen.load(Ordering::Relaxed);
        assert!(mark != LOANED, "a loaned block is the kernel's");
        frozen.store(mark.max(u32::try_from(upto).expect("a block is below 4 GiB")), Ordering::Relaxed);
    }

    fn slice(&self, block: &Block, range: Range<usize>) -> Slice {
        let (start, frozen) = self.part(block, &range);
        assert!(range.end <= frozen, "only frozen bytes are shared");
        let page = self.region.check(block);
        self.region.pin(page);
        Slice { region: Arc::clone(&self.region), page, start, len: range.len() }
    }

    fn available(&self, purpose: Purpose) -> usize {
        let purpose = slot(purpose);
        let pinned = self.region.pinned[purpose].load(Ordering::Relaxed);
        self.budget[purpose].saturating_sub(self.live[purpose] + pinned)
    }

    fn pinned(&self) -> usize {
        self.region.pinned.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }
}

/// Frozen bytes of an arena, kept alive and unchanged until dropped, on whichever thread.
pub struct Slice {
    region: Arc<Region>,
    page: u32,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are frozen, so they may be read from any thread; pin counts are atomic.
unsafe impl Send for Slice {}
// SAFETY: as above; `&Slice` gives only shared reads.
unsafe impl Sync for Slice {}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the range was frozen when the slice was made, and stays so, mapped and unused, while the pin is held.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Clone for Slice {
    fn clone(&self) -> Self {
        self.region.pin(self.page);
        Self { region: Arc::clone(&self.region), page: self.page, start: self.start, len: self.len }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        self.region.unpin(self.page);
    }
}

impl std::fmt::Debug for Slice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slice({} bytes)", self.len)
    }
}

/// The arena's memory as the device backend of the same shard sees it.
#[derive(Clone)]
pub struct ArenaMemory {
    region: Arc<Region>,
}

/// Keeps arena bytes in place while the kernel reads from or writes into them. Ends when dropped.
pub struct Pinned {
    region: Arc<Region>,
    page: u32,
    loan: bool,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: holds only a pin; the pointer is used by the kernel alone.
unsafe impl Send for Pinned {}

impl ArenaMemory {
    /// Address and length of the whole, to register it with a ring.
    #[must_use]
    pub fn whole(&self) -> (NonNull<u8>, usize) {
        (self.region.mapping.base(), self.region.mapping.len())
    }

    /// What the memory is made of.
    #[must_use]
    pub fn page_kind(&self) -> PageKind {
        self.region.mapping.kind()
    }

    /// Pins frozen arena bytes for a device write.
    ///
    /// # Panics
    /// When the range is not frozen bytes of one block.
    #[must_use]
    pub fn pin(&self, start: usize, len: usize) -> Pinned {
        let page = self.region.block_around(start, len);
        let frozen = self.region.frozen[page as usize].load(Ordering::Relaxed);
        let end = start + len - page as usize * PAGE;
        assert!(frozen < FREED && end <= frozen as usize, "only frozen bytes are written");
        self.region.pin(page);
        Pinned { region: Arc::clone(&self.region), page, loan: false, start: self.region.pointer(start, len), len }
    }

    /// Loans a block of which nothing is frozen to the kernel, which writes its first `len` bytes. The arena gives no reference
    /// to the block until the loan is dropped.
    ///
    /// # Panics
    /// When the block is not this arena's, is loaned already, or holds frozen bytes.
    ///
    /// # Safety
    /// No reference to bytes of the block lives: its owner gave the block away and gets it back after the loan.
    #[must_use]
    pub unsafe fn loan(&self, block: &Block, len: usize) -> Pinned {
        let page = self.region.check(block);
        assert!(len <= block.len, "the read fits the block");
        let mark = self.region.frozen[page as usize].swap(LOANED, Ordering::Relaxed);
        assert!(mark == 0, "only an open block is loaned");
        self.region.pin(page);
        let start = self.region.pointer(block.start, len);
        Pinned { region: Arc::clone(&self.region), page, loan: true, start, len }
    }
}

impl ArenaMemory {
    /// Pins open bytes of a block, for the kernel to write into. Unlike a loan it leaves the rest of the block usable.
    ///
    /// # Panics
    /// When the range is not open bytes of a block of this arena.
    ///
    /// # Safety
    /// No reference to these bytes lives, none is taken and none of them is frozen until the pin is dropped.
    #[must_use]
    pub unsafe fn open(&self, block: &Block, range: Range<usize>) -> Pinned {
        let page = self.region.check(block);
        let frozen = self.region.frozen[page as usize].load(Ordering::Relaxed);
        assert!(range.start <= range.end && range.end <= block.len, "the range lies in the block");
        assert!(frozen < FREED && range.start >= frozen as usize, "frozen bytes do not change");
        self.region.pin(page);
        let start = self.region.pointer(block.start + range.start, range.len());
        Pinned { region: Arc::clone(&self.region), page, loan: false, start, len: range.len() }
    }
}

impl Pinned {
    /// Address for the kernel.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.loan {
            self.region.frozen[self.page as usize].store(0, Ordering::Relaxed);
        }
        self.region.unpin(self.page);
    }
}
