//! An arena of plain vectors that checks what the real one promises: who may write what, who owns what, and budgets.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use base::memory::{Arena, Block, Purpose};

const PAGE: usize = 4096;
/// What fresh and freed memory holds, so that nobody relies on zeros.
const JUNK: u8 = 0xdb;
/// Freed blocks whose memory is kept.
const SPARE_MAX: usize = 8;

#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    frozen: usize,
    /// Bytes from here on are junk still.
    clean: usize,
    loaned: bool,
}

/// Memory of one simulated shard. Addresses are never used twice, so a stale block is always told.
#[derive(Debug)]
pub struct SimArena {
    blocks: BTreeMap<usize, Held>,
    /// Memory of blocks that were freed, junk again, to be given out anew at other addresses.
    spare: Vec<Vec<u8>>,
    next: usize,
    tail_free: usize,
    cold_free: usize,
}

impl SimArena {
    /// An arena with a budget for each purpose, in bytes.
    #[must_use]
    pub const fn new(tail_bytes: usize, cold_bytes: usize) -> Self {
        Self { blocks: BTreeMap::new(), spare: Vec::new(), next: PAGE, tail_free: tail_bytes, cold_free: cold_bytes }
    }

    const fn budget(&mut self, purpose: Purpose) -> &mut usize {
        match purpose {
            Purpose::Tail => &mut self.tail_free,
            Purpose::Cold => &mut self.cold_free,
        }
    }

    fn held(&self, block: &Block) -> &Held {
        let held = self.blocks.get(&block.start).expect("the block lives");
        assert_eq!(held.bytes.len(), block.len, "the block is as it was given");
        assert!(!held.loaned, "a loaned block is the device's");
        held
    }

    fn held_mut(&mut self, block: &Block) -> &mut Held {
        let held = self.blocks.get_mut(&block.start).expect("the block lives");
        assert_eq!(held.bytes.len(), block.len, "the block is as it was given");
        assert!(!held.loaned, "a loaned block is the device's");
        held
    }

    /// Frozen bytes by address, as a device write reads them.
    ///
    /// # Panics
    /// When they are not frozen bytes of one living block.
    #[must_use]
    pub fn frozen(&self, start: usize, len: usize) -> &[u8] {
        let (&first, held) = self.blocks.range(..=start).next_back().expect("the address lies in a block");
        let at = start - first;
        assert!(at + len <= held.frozen, "only frozen bytes are written to a device");
        &held.bytes[at..at + len]
    }

    /// Lends a block to a device read.
    pub fn lend(&mut self, block: &Block) {
        self.held_mut(block).loaned = true;
    }

    /// Ends the loan with what the device read.
    ///
    /// # Panics
    /// When the block is not loaned.
    pub fn give_back(&mut self, block: &Block, bytes: &[u8]) {
        let held = self.blocks.get_mut(&block.start).expect("a loaned block lives");
        assert!(held.loaned, "the block was loaned");
        held.loaned = false;
        held.clean = held.clean.max(bytes.len());
        held.bytes[..bytes.len()].copy_from_slice(bytes);
    }

    /// Blocks that live.
    #[must_use]
    pub fn live(&self) -> usize {
        self.blocks.len()
    }
}

/// Frozen bytes, copied: what outlives the block can be compared with what it was.
#[derive(Clone, Debug)]
pub struct SimSlice(Arc<[u8]>);

impl AsRef<[u8]> for SimSlice {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Arena for SimArena {
    type Slice = SimSlice;

    fn alloc(&mut self, len: usize, purpose: Purpose) -> Option<Block> {
        let len = len.max(1).next_multiple_of(PAGE);
        let free = self.budget(purpose);
        *free = free.checked_sub(len)?;
        let start = self.next;
        // A page between blocks: running out of one never means running into the next.
        self.next += len + PAGE;
        let spare = self.spare.iter().position(|spare| spare.len() == len).map(|at| self.spare.swap_remove(at));
        let bytes = spare.unwrap_or_else(|| vec![JUNK; len]);
        self.blocks.insert(start, Held { bytes, frozen: 0, clean: 0, loaned: false });
        Some(Block { start, len, purpose })
    }

    fn free(&mut self, block: Block) {
        self.held(&block);
        if let Some(Held { mut bytes, clean, .. }) = self.blocks.remove(&block.start)
            && self.spare.len() < SPARE_MAX
        {
            bytes[..clean].fill(JUNK);
            self.spare.push(bytes);
        }
        *self.budget(block.purpose) += block.len;
    }

    fn bytes(&self, block: &Block, range: Range<usize>) -> &[u8] {
        &self.held(block).bytes[range]
    }

    fn bytes_mut(&mut self, block: &Block, range: Range<usize>) -> &mut [u8] {
        let held = self.held_mut(block);
        assert!(range.start >= held.frozen, "frozen bytes do not change");
        held.clean = held.clean.max(range.end);
        &mut held.bytes[range]
    }

    fn freeze(&mut self, block: &Block, upto: usize) {
        let held = self.held_mut(block);
        assert!(upto <= held.bytes.len(), "the mark lies in the block");
        held.frozen = held.frozen.max(upto);
    }

    fn slice(&self, block: &Block, range: Range<usize>) -> SimSlice {
        let held = self.held(block);
        assert!(range.end <= held.frozen, "only frozen bytes are shared");
        SimSlice(held.bytes[range].into())
    }

    fn available(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::Tail => self.tail_free,
            Purpose::Cold => self.cold_free,
        }
    }

    fn pinned(&self) -> usize {
        0
    }
}
