//! A device with a volatile cache, as bad as `docs/FORMAT.md` allows it to be.
//!
//! A write is seen by reads once it is complete, and is durable once a flush that was submitted later is complete. A crash
//! keeps any part of what is not durable, sector by sector. What a failed flush should have covered never becomes durable by
//! another flush, though it may survive by luck.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use journal::storage::{Storage, StorageError};

use crate::chance::Chance;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// One page's bytes, shared between what is durable, what is read, and what flies.
type Page = Arc<[u8]>;

/// A write that is not durable.
#[derive(Clone, Debug)]
struct Pending {
    id: u64,
    first: u64,
    pages: Vec<Page>,
    /// Order of completion; `None` while it flies.
    completed: Option<u64>,
    /// A flush over it failed.
    lost: bool,
}

/// How much of what is not durable survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// None.
    Nothing,
    /// All that was completed.
    Completed,
    /// All, even what flew.
    Everything,
    /// Any subset of the writes.
    Writes,
    /// Of each write a prefix.
    Prefixes,
    /// Any subset of the sectors.
    Sectors,
}

/// A write that was submitted.
#[derive(Clone, Debug)]
struct Written {
    first: u64,
    new: Vec<Page>,
    old: Vec<Option<Page>>,
}

/// A simulated device.
#[derive(Clone, Debug)]
pub struct Disk {
    durable: BTreeMap<u64, Page>,
    current: BTreeMap<u64, Page>,
    pending: Vec<Pending>,
    len: u64,
    durable_len: u64,
    len_max: u64,
    next_id: u64,
    completions: u64,
    /// Writes of this life, and of the one before: where they went, what they wrote, what had been there.
    written: Vec<Written>,
    written_before: Vec<Written>,
    /// Pages that cannot be read.
    unreadable: BTreeSet<u64>,
    /// Blocking calls until the power goes; `None`: it stays.
    pub fuse: Option<u64>,
    /// Bytes read by blocking calls.
    pub bytes_read: u64,
    /// Blocking calls made.
    pub calls: u64,
}

/// A write in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteId(u64);

impl Disk {
    /// An empty device that can grow to `len_max` bytes.
    #[must_use]
    pub const fn new(len_max: u64) -> Self {
        Self {
            durable: BTreeMap::new(),
            current: BTreeMap::new(),
            pending: Vec::new(),
            len: 0,
            durable_len: 0,
            len_max,
            next_id: 0,
            completions: 0,
            written: Vec::new(),
            written_before: Vec::new(),
            unreadable: BTreeSet::new(),
            fuse: None,
            bytes_read: 0,
            calls: 0,
        }
    }

    /// Lets it grow to `len_max` bytes.
    pub const fn set_len_max(&mut self, len_max: u64) {
        self.len_max = len_max;
    }

    /// Submits a write. The bytes are taken now: they may not change while it flies, which the caller checks.
    ///
    /// # Panics
    /// When it is not in whole pages, past the end, or over a write that flies.
    pub fn submit(&mut self, offset: u64, bytes: &[u8]) -> WriteId {
        assert!(bytes.len().is_multiple_of(PAGE), "whole sectors");
        let (first, new): (u64, Vec<Page>) = (offset / PAGE as u64, bytes.chunks(PAGE).map(Page::from).collect());
        let old = (first..).take(new.len()).map(|page| self.durable.get(&page).cloned()).collect();
        self.written.push(Written { first, new: new.clone(), old });
        self.fly(offset, new)
    }

    fn fly(&mut self, offset: u64, pages: Vec<Page>) -> WriteId {
        let (first, count) = (offset / PAGE as u64, pages.len() as u64);
        assert!(offset.is_multiple_of(PAGE as u64), "whole sectors");
        assert!(count > 0 && (first + count) * PAGE as u64 <= self.len, "a write lies inside the device");
        for other in self.pending.iter().filter(|other| other.completed.is_none()) {
            let apart = first + count <= other.first || other.first + other.pages.len() as u64 <= first;
            assert!(apart, "no byte range ever has two writes outstanding");
        }
        self.next_id += 1;
        self.pending.push(Pending { id: self.next_id, first, pages, completed: None, lost: false });
        WriteId(self.next_id)
    }

    /// Writes zeros, as the keeper does; durable at once, since nothing depends on when.
    pub fn fill(&mut self, offset: u64, len: u64) {
        let zero = zeros();
        let id = self.fly(offset, vec![zero; usize::try_from(len).expect("an extent fits memory") / PAGE]);
        self.complete_durable(id);
        self.durable_len = self.durable_len.max(self.len);
    }

    /// Whether a write that flies has these bytes.
    #[must_use]
    pub fn flies(&self, id: WriteId, bytes: &[u8]) -> bool {
        let write = self.pending.iter().find(|write| write.id == id.0).expect("the write flies");
        write.pages.iter().map(|page| &page[..]).eq(bytes.chunks(PAGE))
    }

    /// Completes a write: reads see it.
    ///
    /// # Panics
    /// When it does not fly.
    pub fn complete(&mut self, id: WriteId) {
        self.completions += 1;
        let completions = self.completions;
        let write = self.pending.iter_mut().find(|write| write.id == id.0).expect("the write flies");
        assert!(write.completed.replace(completions).is_none(), "a write completes once");
        for (page, bytes) in (write.first..).zip(&write.pages) {
            self.current.insert(page, bytes.clone());
            self.unreadable.remove(&page);
        }
    }

    /// Completes a write as durable (FUA).
    pub fn complete_durable(&mut self, id: WriteId) {
        self.complete(id);
        let at = self.pending.iter().position(|write| write.id == id.0).expect("the write was completed");
        let write = self.pending.remove(at);
        self.settle(&write);
    }

    /// Fails a write: any part of it may have arrived.
    pub fn fail(&mut self, id: WriteId, chance: &mut Chance) {
        let at = self.pending.iter().position(|write| write.id == id.0).expect("the write flies");
        let write = self.pending.remove(at);
        for (page, bytes) in (write.first..).zip(&write.pages) {
            let mixed = mix(self.current.get(&page), bytes, |_| chance.odds(1, 2));
            self.current.insert(page, mixed.clone());
            self.durable.insert(page, mixed);
        }
    }

    /// Mark to give to [`Disk::flush_complete`]: a flush submitted now covers what is complete now.
    #[must_use]
    pub const fn flush_submit(&self) -> u64 {
        self.completions
    }

    /// Completes a flush.
    pub fn flush_complete(&mut self, mark: u64) {
        let covered = |write: &Pending| !write.lost && write.completed.is_some_and(|at| at <= mark);
        let (mut now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending).into_iter().partition(covered);
        self.pending = later;
        // In order of completion: where two wrote the same page the later one counts.
        now.sort_by_key(|write| write.completed);
        for write in now {
            self.settle(&write);
        }
        self.durable_len = self.durable_len.max(self.len);
    }

    /// Fails a flush: what it covered is not durable, and no later flush makes it so.
    pub fn flush_fail(&mut self, mark: u64) {
        for write in &mut self.pending {
            write.lost |= write.completed.is_some_and(|at| at <= mark);
        }
    }

    fn settle(&mut self, write: &Pending) {
        for (page, bytes) in (write.first..).zip(&write.pages) {
            self.durable.insert(page, bytes.clone());
        }
    }

    /// Cuts the power.
    pub fn crash(&mut self, chance: &mut Chance, survival: Survival) {
        let mut pending = std::mem::take(&mut self.pending);
        // What flew may have arrived before or after anything else; completed writes arrive in their order.
        pending.sort_by_key(|write| write.completed.unwrap_or(u64::MAX));
        for write in pending {
            let whole = match survival {
                Survival::Nothing => Some(false),
                Survival::Everything => Some(true),
                Survival::Completed => Some(write.completed.is_some()),
                Survival::Writes => Some(chance.odds(1, 2)),
                Survival::Prefixes | Survival::Sectors => None,
            };
            let sectors = write.pages.len() * PAGE / SECTOR;
            let prefix = chance.index(sectors + 1);
            let weight = chance.between(1, 9);
            for (i, (page, bytes)) in (write.first..).zip(&write.pages).enumerate() {
                let mixed = mix(self.durable.get(&page), bytes, |sector| match (whole, survival) {
                    (Some(whole), _) => whole,
                    (None, Survival::Prefixes) => i * (PAGE / SECTOR) + sector < prefix,
                    (None, _) => chance.odds(weight, 10),
                });
                self.durable.insert(page, mixed);
            }
        }
        if chance.odds(1, 2) {
            self.durable_len = self.len;
        }
        self.len = self.durable_len;
        self.durable.retain(|&page, _| page * (PAGE as u64) < self.durable_len);
        self.current = self.durable.clone();
        self.written_before = std::mem::take(&mut self.written);
        self.fuse = None;
    }

    /// Rots a byte below everything: what is durable and what is read change.
    pub fn rot(&mut self, offset: u64, flip: u8) {
        let (page, at) = (offset / PAGE as u64, usize::try_from(offset % PAGE as u64).expect("below a page"));
        for map in [&mut self.durable, &mut self.current] {
            let bytes = map.entry(page).or_insert_with(zeros);
            Arc::make_mut(bytes)[at] ^= flip;
        }
    }

    /// Puts a copy of the durable page at `from` over the one at `to`: a misdirected write.
    pub fn misdirect(&mut self, from: u64, to: u64) {
        let bytes = self.durable.get(&(from / PAGE as u64)).cloned().unwrap_or_else(zeros);
        for map in [&mut self.durable, &mut self.current] {
            map.insert(to / PAGE as u64, bytes.clone());
        }
    }

    /// Puts bytes over the durable page at `page`, as if they had been there all the time.
    ///
    /// # Panics
    /// When `page` is not a page's first byte.
    pub fn patch(&mut self, page: u64, bytes: &[u8; PAGE]) {
        assert!(page.is_multiple_of(PAGE as u64), "whole pages");
        for map in [&mut self.durable, &mut self.current] {
            map.insert(page / PAGE as u64, Arc::from(*bytes));
        }
    }

    /// Cuts the device off at `len` (whole pages): what was behind is gone.
    pub fn shorten(&mut self, len: u64) {
        self.len = self.len.min(len);
        self.durable_len = self.durable_len.min(len);
        for map in [&mut self.durable, &mut self.current] {
            map.retain(|&page, _| page * (PAGE as u64) < len);
        }
    }

    /// Takes back one write of the life before that begins with `magic` and that nothing was written over: the device said that
    /// it had written it, and had not. What was there before is there again, perhaps a unit of an earlier life. Whether there was
    /// one.
    pub fn lose_write(&mut self, magic: &[u8], chance: &mut Chance) -> bool {
        let intact = |write: &&Written| {
            let here = (write.first..).zip(&write.new);
            write.new[0].starts_with(magic) && here.into_iter().all(|(page, new)| self.durable.get(&page) == Some(new))
        };
        let from: Vec<&Written> = self.written_before.iter().filter(intact).collect();
        if from.is_empty() {
            return false;
        }
        let Written { first, old, .. } = (*chance.pick(&from)).clone();
        for (page, bytes) in (first..).zip(old) {
            let bytes = bytes.unwrap_or_else(zeros);
            self.durable.insert(page, bytes.clone());
            self.current.insert(page, bytes);
        }
        true
    }

    /// Makes the page at `offset` unreadable until it is written.
    pub fn spoil(&mut self, offset: u64) {
        self.unreadable.insert(offset / PAGE as u64);
    }

    /// Makes every page readable again.
    pub fn unspoil(&mut self) {
        self.unreadable.clear();
    }

    /// What a read brings now.
    ///
    /// # Errors
    /// `Io` where a page is unreadable or past the end.
    pub fn peek(&self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        assert!(offset.is_multiple_of(PAGE as u64) && into.len().is_multiple_of(PAGE), "whole sectors");
        if offset + into.len() as u64 > self.len {
            return Err(StorageError::Io(format!("read past the end at {offset}")));
        }
        for (page, bytes) in (offset / PAGE as u64..).zip(into.as_chunks_mut::<PAGE>().0) {
            if self.unreadable.contains(&page) {
                return Err(StorageError::Io(format!("unreadable sector at {}", page * PAGE as u64)));
            }
            match self.current.get(&page) {
                Some(page) => bytes.copy_from_slice(page),
                None => bytes.fill(0),
            }
        }
        Ok(())
    }

    fn call(&mut self) -> Result<(), StorageError> {
        self.calls += 1;
        match &mut self.fuse {
            Some(0) => Err(StorageError::Io("the power is gone".into())),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn zeros() -> Page {
    Arc::from([0; PAGE])
}

/// The new page where `arrived` says so by sector, the old one elsewhere.
fn mix(old: Option<&Page>, new: &Page, mut arrived: impl FnMut(usize) -> bool) -> Page {
    let mut page = [0; PAGE];
    if let Some(old) = old {
        page.copy_from_slice(old);
    }
    for (i, (to, from)) in page.chunks_mut(SECTOR).zip(new.chunks(SECTOR)).enumerate() {
        if arrived(i) {
            to.copy_from_slice(from);
        }
    }
    Arc::from(page)
}

impl Storage for Disk {
    fn len(&self) -> u64 {
        self.len
    }

    fn grow(&mut self, len: u64) -> Result<(), StorageError> {
        self.call()?;
        if len > self.len_max {
            return Err(StorageError::Full);
        }
        self.len = self.len.max(len);
        Ok(())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        self.call()?;
        self.bytes_read += into.len() as u64;
        self.peek(offset, into)
    }

    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), StorageError> {
        let dead = self.fuse == Some(0);
        let called = self.call();
        if dead {
            return called;
        }
        // The power may go in the middle of a write: then it flies for ever.
        let id = self.submit(offset, from);
        if self.fuse == Some(0) {
            return Err(StorageError::Io("the power goes".into()));
        }
        self.complete(id);
        called
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        self.call()?;
        let mark = self.flush_submit();
        self.flush_complete(mark);
        Ok(())
    }
}

/// A kind of crash.
pub fn any_survival(chance: &mut Chance) -> Survival {
    *chance.pick(&[
        Survival::Nothing,
        Survival::Completed,
        Survival::Everything,
        Survival::Writes,
        Survival::Prefixes,
        Survival::Sectors,
    ])
}
