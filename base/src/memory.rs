//! The arena: fixed memory of one shard from which units are written and fetches are answered.
//!
//! Bytes go through three states, and the arena enforces them: *open* (only the owner writes), *frozen* (nobody writes;
//! slices may be shared with other threads and the kernel may read), *loaned* (the kernel writes into it: a device read).

use core::ops::Range;

/// What a block of memory is for. Each purpose has a budget of its own, so that cold readers cannot starve producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Open and not yet durable units, then the cache of the log's tail.
    Tail,
    /// Data read back from a device.
    Cold,
}

/// A run of contiguous arena memory, 4 KiB aligned. Not `Clone`: whoever holds it owns the memory and gives it back.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Byte offset of the block inside the arena; a multiple of 4096.
    pub start: usize,
    /// Length in bytes; a multiple of 4096.
    pub len: usize,
    /// The budget it was taken from.
    pub purpose: Purpose,
}

/// Fixed-size memory of one shard. Ranges are relative to the block.
pub trait Arena {
    /// Frozen bytes that keep their memory alive until dropped, on whichever thread.
    type Slice: AsRef<[u8]> + Clone + Send + 'static;

    /// A block of at least `len` bytes, or `None` when the budget of `purpose` is used up. Contents are unspecified.
    fn alloc(&mut self, len: usize, purpose: Purpose) -> Option<Block>;

    /// Gives a block back. Slices of it may still be alive: the memory is reused only when the last of them is dropped.
    fn free(&mut self, block: Block);

    /// Frozen or owned bytes of a block.
    fn bytes(&self, block: &Block, range: Range<usize>) -> &[u8];

    /// Open bytes of a block.
    ///
    /// # Panics
    /// When the range reaches below the frozen mark or the block is loaned.
    fn bytes_mut(&mut self, block: &Block, range: Range<usize>) -> &mut [u8];

    /// Freezes the block's bytes up to `upto`. The mark never falls while the block lives.
    fn freeze(&mut self, block: &Block, upto: usize);

    /// Shares frozen bytes.
    ///
    /// # Panics
    /// When the range is not frozen.
    fn slice(&self, block: &Block, range: Range<usize>) -> Self::Slice;

    /// Bytes still to be had for `purpose`, counting a block freed but pinned by slices as used.
    fn available(&self, purpose: Purpose) -> usize;

    /// Bytes of freed blocks that living slices still pin.
    fn pinned(&self) -> usize;
}
