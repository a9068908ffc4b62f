//! Counters that one core writes and others read: relaxed atomics, no locks, no lookups.

mod shard;

use core::sync::atomic::{AtomicU64, Ordering};

pub use shard::{API_KEYS, ApiStats, METRICS, Metric, ShardStats, Source};

/// A number that only its owner adds to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        // One writer: a plain load and store is enough and cheaper than a locked add.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Sets the value (for gauges).
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Buckets of a latency histogram: bucket `i` counts values below `2^(i/2)` microseconds (half-octave steps), the last one the rest.
pub const LATENCY_BUCKETS: usize = 48;

/// A latency histogram with half-octave buckets from 1 µs to about 16 s.
#[derive(Debug)]
pub struct Latency {
    buckets: [Counter; LATENCY_BUCKETS],
    sum_ns: Counter,
}

impl Default for Latency {
    fn default() -> Self {
        Self { buckets: core::array::from_fn(|_| Counter::default()), sum_ns: Counter::default() }
    }
}

impl Latency {
    /// Counts one value.
    pub fn record_ns(&self, ns: u64) {
        self.buckets[bucket_of(ns)].add(1);
        self.sum_ns.add(ns);
    }

    /// Counts per bucket and the sum in nanoseconds.
    pub fn read(&self) -> ([u64; LATENCY_BUCKETS], u64) {
        (core::array::from_fn(|i| self.buckets[i].get()), self.sum_ns.get())
    }
}

/// Upper bound of bucket `i`, in nanoseconds; the last bucket has none.
#[must_use]
pub const fn bucket_bound_ns(i: usize) -> u64 {
    let octave = 1000u64 << (i / 2);
    // 1448/1024 is √2 to three digits.
    if i.is_multiple_of(2) { octave } else { octave * 1448 / 1024 }
}

const fn bucket_of(ns: u64) -> usize {
    let mut low = 0;
    let mut high = LATENCY_BUCKETS - 1;
    while low < high {
        let middle = usize::midpoint(low, high);
        if ns < bucket_bound_ns(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_below_its_buckets_bound_and_not_below_the_one_before() {
        for ns in [0, 999, 1000, 1413, 1415, 1_000_000, 7_999_999_999, u64::MAX] {
            let i = bucket_of(ns);
            assert!(i == LATENCY_BUCKETS - 1 || ns < bucket_bound_ns(i));
            assert!(i == 0 || ns >= bucket_bound_ns(i - 1));
        }
    }
}
