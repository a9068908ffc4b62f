//! One anonymous mapping: explicit huge pages, or normal pages advised to become huge, or (under Miri) the heap.
//!
//! # Safety model
//! A [`Mapping`] owns its address range from construction to drop, and all of it is readable, writable and initialised
//! (zero-filled by the kernel or the allocator). It gives out raw pointers only.
#![allow(unsafe_code, reason = "STYLE rule 18: mmap for the arena")]

use std::io;
use std::ptr::NonNull;

/// What an arena is made of, for `barelog check` and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Explicit huge pages of 2 MiB.
    Huge,
    /// Normal pages, advised to become transparent huge pages.
    Normal,
    /// From the allocator.
    Heap,
}

#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    kind: PageKind,
}

// SAFETY: plain memory without thread affinity; the owner decides who reads and writes what.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` only gives out a raw pointer.
unsafe impl Sync for Mapping {}

const HUGE: usize = 2 << 20;

impl Mapping {
    pub(crate) fn new(len: usize, huge_pages: bool, prefault: bool) -> io::Result<Self> {
        if cfg!(miri) {
            return Ok(Self::heap(len));
        }
        let populate = if prefault { libc::MAP_POPULATE } else { 0 };
        if huge_pages && len >= HUGE {
            // Populated at once: with reserved but unbacked huge pages a later fault would be a SIGBUS.
            let flags = libc::MAP_HUGETLB | libc::MAP_POPULATE;
            if let Ok(base) = map(len.next_multiple_of(HUGE), flags) {
                return Ok(Self { base, len: len.next_multiple_of(HUGE), kind: PageKind::Huge });
            }
        }
        let len = len.next_multiple_of(if len >= HUGE { HUGE } else { super::PAGE });
        let base = map(len, 0)?;
        // SAFETY: advises exactly the range just mapped; failure only means smaller pages.
        unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        if populate != 0 {
            // After the advice, so that what is touched is huge. Kernels before 5.14 refuse: then pages come on first use.
            // SAFETY: populates exactly the range just mapped, without changing contents.
            unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_POPULATE_WRITE) };
        }
        Ok(Self { base, len, kind: PageKind::Normal })
    }

    fn heap(len: usize) -> Self {
        let layout = std::alloc::Layout::from_size_align(len, super::PAGE).expect("a multiple of the page size");
        // SAFETY: the layout has a size above zero.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { std::alloc::handle_alloc_error(layout) };
        Self { base, len, kind: PageKind::Heap }
    }

    /// Leaves the memory mapped for ever.
    pub(crate) fn leak(&mut self) {
        self.len = 0;
    }

    pub(crate) const fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn kind(&self) -> PageKind {
        self.kind
    }
}

fn map(len: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory of ours.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(base.cast()).expect("the kernel never maps page zero for us"))
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len == 0 {
            return; // leaked
        }
        if self.kind == PageKind::Heap {
            let layout = std::alloc::Layout::from_size_align(self.len, super::PAGE).expect("as allocated");
            // SAFETY: allocated with this layout in `heap`, and freed only here.
            unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
        } else {
            // SAFETY: mapped with this length in `new`, and unmapped only here.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}
