//! The extents of one device: which are free, which are written ahead, which are used.
//!
//! A machine without I/O. Its host (the keeper thread) asks [`Pool::work`] for what to do, does it, and reports with
//! [`Pool::done`]; it answers [`crate::store::Effect::NeedExtent`] with [`Pool::want`] and
//! [`crate::store::Effect::FreeExtent`] with [`Pool::give_back`]. Writing to blocks that were never written costs twice as
//! much, so extents are filled with zeros before they are handed out; recycled ones need no zeros.
//!
//! Nothing here is durable: at start the pool is built from the extents that recovery claims.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use base::DeviceIndex;

use crate::store::{ExtentAddress, Wish};

/// Bounds of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// The device.
    pub device: DeviceIndex,
    /// Where extents begin on it.
    pub extents_offset: u64,
    /// Length of an extent.
    pub extent_len: u64,
    /// Most extents the device may have: what the configuration allows, or what a block device holds.
    pub extents_max: u64,
    /// How many written extents to hold ready: 2, so that one is being filled while the next is there.
    pub ahead: usize,
    /// How many of the last extents appends do not get, so that a full device can still write what frees space. Where it is
    /// more than one, the very last is for clustering alone: deletions whose frames take the others free nothing before
    /// what lives between the deleted records is written elsewhere.
    pub reserve: usize,
    /// Once a wish was refused, how many extents beyond the reserve must be there before others are granted: a device that is
    /// freed by little and little is not full and not full in turn.
    pub resume: usize,
}

/// What an extent is when the pool is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// Its first page reads as zeros: perhaps never written.
    Blank,
    /// It was used before; nobody claims it now.
    Recycled,
    /// A journal has it.
    Used,
    /// It cannot be read. Never handed out.
    Bad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Blank,
    Filling,
    Ready,
    Used,
    Bad,
}

/// The answer to a wish for an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Here it is.
    Extent(ExtentAddress),
    /// None is ready; ask again after the next [`Pool::done`].
    Later,
    /// There is no space; ask again after some [`Pool::give_back`] or [`Pool::retry_growth`].
    Full,
}

/// Something for the host to do. One at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Grow the device to this length first.
    pub grow: Option<u64>,
    /// Then write zeros from here, in pieces as the host likes, and flush.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

/// How a [`Fill`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// Written and flushed.
    Done,
    /// The device could not grow: no space left around it.
    NoSpace,
    /// It failed; the extent is not used again in this run.
    Failed,
}

/// How many extents are what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Ready to be handed out.
    pub ready: usize,
    /// There, but not filled yet (or being filled).
    pub blank: usize,
    /// With journals.
    pub used: usize,
    /// Unreadable or unwritable.
    pub bad: usize,
    /// Not there yet, but the device may grow by them.
    pub growable: usize,
}

/// The extents of one device.
#[derive(Debug)]
pub struct Pool {
    config: PoolConfig,
    extents: Vec<State>,
    ready: VecDeque<usize>,
    filling: Option<usize>,
    /// Growth failed: count on no more until told to retry.
    no_space: bool,
    /// A wish was refused, and too little has come free since.
    full: bool,
    generation: u64,
}

impl Pool {
    /// A pool of the extents that are there, in order of their offsets. `generation` is the highest seen in any extent header
    /// of the device.
    #[must_use]
    pub fn new(config: PoolConfig, extents: impl IntoIterator<Item = Initial>, generation: u64) -> Self {
        let extents: Vec<State> = extents
            .into_iter()
            .map(|initial| match initial {
                Initial::Blank => State::Blank,
                Initial::Recycled => State::Ready,
                Initial::Used => State::Used,
                Initial::Bad => State::Bad,
            })
            .collect();
        let ready = (0..extents.len()).filter(|&i| extents[i] == State::Ready).collect();
        Self { config, extents, ready, filling: None, no_space: false, full: false, generation }
    }

    /// Hands out an extent with a generation of its own.
    pub fn want(&mut self, wish: Wish) -> Wanted {
        let is_refused = match wish {
            Wish::Clustering => self.left() == 0,
            Wish::Cleaning => self.left() <= self.config.reserve.saturating_sub(1).min(1),
            Wish::Appends => {
                self.full = self.left() <= self.config.reserve || self.is_full();
                self.full
            }
        };
        if is_refused {
            return Wanted::Full;
        }
        let Some(index) = self.ready.pop_front() else { return Wanted::Later };
        assert!(self.extents[index] == State::Ready, "only ready extents are queued");
        self.extents[index] = State::Used;
        self.generation += 1;
        Wanted::Extent(ExtentAddress {
            device: self.config.device,
            offset: self.offset(index),
            len: self.config.extent_len,
            generation: self.generation,
        })
    }

    /// Takes an extent back that was handed out. It goes to the end of the queue: the longest unused is written first.
    ///
    /// # Panics
    /// When it was not handed out.
    pub fn give_back(&mut self, extent: ExtentAddress) {
        let index = self.index(extent.offset).expect("an extent of this device");
        assert!(self.extents[index] == State::Used, "an extent is freed once, by its journal");
        self.extents[index] = State::Ready;
        self.ready.push_back(index);
    }

    /// What to do next; nothing while something is being done.
    pub fn work(&mut self) -> Option<Fill> {
        if self.filling.is_some() || self.ready.len() >= self.config.ahead.max(1) {
            return None;
        }
        let (index, grow) = match self.extents.iter().position(|&state| state == State::Blank) {
            Some(index) => (index, None),
            None => (self.growth()?, Some(self.offset(self.extents.len()) + self.config.extent_len)),
        };
        if grow.is_some() {
            self.extents.push(State::Filling);
        } else {
            self.extents[index] = State::Filling;
        }
        self.filling = Some(index);
        Some(Fill { grow, offset: self.offset(index), len: self.config.extent_len })
    }

    fn growth(&self) -> Option<usize> {
        let index = self.extents.len();
        ((index as u64) < self.config.extents_max && !self.no_space).then_some(index)
    }

    /// Reports how the work ended.
    ///
    /// # Panics
    /// When there was none.
    pub fn done(&mut self, how: Filled) {
        let index = self.filling.take().expect("work was given out");
        match how {
            Filled::Done => {
                self.extents[index] = State::Ready;
                self.ready.push_back(index);
            }
            Filled::NoSpace => {
                // The device may have grown in part: what is there at the next start is blank. Here it is not counted.
                self.no_space = true;
                if index + 1 == self.extents.len() {
                    self.extents.pop();
                } else {
                    self.extents[index] = State::Blank;
                }
            }
            Filled::Failed => self.extents[index] = State::Bad,
        }
    }

    /// Lets the device try to grow again; now and then after [`Filled::NoSpace`].
    pub const fn retry_growth(&mut self) {
        self.no_space = false;
    }

    /// How many extents are what.
    #[must_use]
    pub fn counts(&self) -> PoolCounts {
        let mut counts = PoolCounts::default();
        for state in &self.extents {
            match state {
                State::Blank | State::Filling => counts.blank += 1,
                State::Ready => counts.ready += 1,
                State::Used => counts.used += 1,
                State::Bad => counts.bad += 1,
            }
        }
        if !self.no_space {
            let growable = self.config.extents_max.saturating_sub(self.extents.len() as u64);
            counts.growable = usize::try_from(growable).unwrap_or(usize::MAX / 2);
        }
        counts
    }

    /// Extents that may still be handed out, the reserve among them.
    fn left(&self) -> usize {
        let counts = self.counts();
        counts.ready + counts.blank + counts.growable
    }

    /// Whether journals have extents of the reserve. Asked once a pool is built: see [`crate::Store::hold_back`].
    #[must_use]
    pub fn reserve_is_broken(&self) -> bool {
        self.left() < self.config.reserve
    }

    /// Whether appends get no extents: a wish was refused, and fewer than the configured have come free since.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full && self.left() <= self.config.reserve + self.config.resume
    }

    /// Bytes that appends may still take, the reserve apart.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.left().saturating_sub(self.config.reserve) as u64 * self.config.extent_len
    }

    /// Highest generation handed out.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    const fn offset(&self, index: usize) -> u64 {
        self.config.extents_offset + index as u64 * self.config.extent_len
    }

    fn index(&self, offset: u64) -> Option<usize> {
        let from = offset.checked_sub(self.config.extents_offset)?;
        let index = usize::try_from(from / self.config.extent_len).ok()?;
        (from.is_multiple_of(self.config.extent_len) && index < self.extents.len()).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

    use super::*;

    fn config(max: u64) -> PoolConfig {
        PoolConfig {
            device: DeviceIndex(3),
            extents_offset: 1 << 20,
            extent_len: 1 << 20,
            extents_max: max,
            ahead: 2,
            reserve: 1,
            resume: 0,
        }
    }

    fn extent(wanted: Wanted) -> ExtentAddress {
        match wanted {
            Wanted::Extent(extent) => extent,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn blank_extents_are_filled_before_the_device_grows_and_only_as_many_as_ahead() {
        let mut pool = Pool::new(config(4), [Initial::Used, Initial::Blank], 7);
        assert_eq!(pool.want(Wish::Appends), Wanted::Later);
        assert_eq!(pool.work(), Some(Fill { grow: None, offset: 2 << 20, len: 1 << 20 }));
        assert_eq!(pool.work(), None, "one at a time");
        pool.done(Filled::Done);
        assert_eq!(pool.work(), Some(Fill { grow: Some(4 << 20), offset: 3 << 20, len: 1 << 20 }));
        pool.done(Filled::Done);
        assert_eq!(pool.work(), None, "two are ready");
        let first = extent(pool.want(Wish::Appends));
        assert_eq!((first.offset, first.generation), (2 << 20, 8));
        assert_eq!(extent(pool.want(Wish::Appends)).generation, 9);
    }

    #[test]
    fn the_last_extent_is_for_cleaning_only_and_a_freed_one_is_handed_out_again_with_a_new_generation() {
        let mut pool = Pool::new(config(2), [Initial::Recycled, Initial::Recycled], 0);
        let first = extent(pool.want(Wish::Appends));
        assert_eq!(pool.want(Wish::Appends), Wanted::Full);
        let last = extent(pool.want(Wish::Cleaning));
        assert_eq!(pool.want(Wish::Cleaning), Wanted::Full);
        assert_eq!(pool.free_bytes(), 0);
        pool.give_back(first);
        assert_eq!(pool.want(Wish::Appends), Wanted::Full, "one left: the reserve");
        pool.give_back(last);
        let again = extent(pool.want(Wish::Appends));
        assert_eq!((again.offset, again.generation), (first.offset, 3));
    }

    #[test]
    fn a_full_device_grants_wishes_again_when_enough_has_come_free_and_cleaning_all_the_time() {
        let mut pool = Pool::new(PoolConfig { resume: 2, ..config(6) }, [Initial::Recycled; 6], 0);
        let mut held: Vec<ExtentAddress> = (0..5).map(|_| extent(pool.want(Wish::Appends))).collect();
        assert!(!pool.is_full(), "nobody was refused");
        assert_eq!(pool.want(Wish::Appends), Wanted::Full);
        for free in 2..=3 {
            pool.give_back(held.pop().unwrap());
            assert_eq!(pool.want(Wish::Appends), Wanted::Full, "{free} free, the reserve among them");
            assert!(pool.is_full());
        }
        held.push(extent(pool.want(Wish::Cleaning)));
        pool.give_back(held.pop().unwrap());
        pool.give_back(held.pop().unwrap());
        assert!(!pool.is_full());
        // From there on all that is not held back is given.
        for _ in 0..3 {
            held.push(extent(pool.want(Wish::Appends)));
        }
        assert_eq!(pool.want(Wish::Appends), Wanted::Full);
    }

    #[test]
    fn the_very_last_extent_is_for_clustering_and_a_broken_reserve_is_seen() {
        let config = PoolConfig { reserve: 2, ..config(4) };
        let mut pool = Pool::new(config, [Initial::Recycled; 4], 0);
        assert!(!pool.reserve_is_broken());
        extent(pool.want(Wish::Appends));
        extent(pool.want(Wish::Appends));
        assert_eq!(pool.want(Wish::Appends), Wanted::Full);
        let held = extent(pool.want(Wish::Cleaning));
        assert_eq!(pool.want(Wish::Cleaning), Wanted::Full);
        assert!(pool.reserve_is_broken());
        let last = extent(pool.want(Wish::Clustering));
        assert_eq!(pool.want(Wish::Clustering), Wanted::Full);
        pool.give_back(held);
        assert_eq!(pool.want(Wish::Cleaning), Wanted::Full, "clustering needs it first");
        pool.give_back(last);
        assert!(!pool.reserve_is_broken());
    }

    #[test]
    fn a_device_that_cannot_grow_is_full_until_told_to_try_again() {
        let mut pool = Pool::new(config(9), [], 0);
        assert!(pool.work().unwrap().grow.is_some());
        pool.done(Filled::NoSpace);
        assert_eq!(pool.work(), None);
        assert_eq!(pool.want(Wish::Cleaning), Wanted::Full);
        pool.retry_growth();
        assert_eq!(pool.work().unwrap().offset, 1 << 20);
        pool.done(Filled::Failed);
        assert_eq!(pool.counts().bad, 1);
        assert_eq!(pool.work().unwrap().offset, 2 << 20, "the failed extent is not used again");
    }
}
