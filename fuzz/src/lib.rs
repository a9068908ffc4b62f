//! Fuzz targets: hostile bytes against whatever reads bytes. Each target is a function of bytes that panics when a promise is
//! broken, and each has a corpus under `corpus/` that `tests/replay.rs` runs on every change, without a fuzzer.
//!
//! What a target takes is not always what the product reads: where a checksum stands before everything else, the first byte
//! says whether the target puts it right, so that a fuzzer comes behind it. A target is total: any bytes are an input.
//!
//! `cargo xtask fuzz` builds this crate with coverage counters and libFuzzer and lets it search.

mod batch;
mod decoders;
mod formats;
mod framing;
mod groups;
mod input;
mod metadata;
mod recovery;
mod responses;
mod unit;

use std::path::PathBuf;

/// What reads hostile bytes, and the inputs it begins with.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folders.
    pub name: &'static str,
    /// Takes any bytes; panics where a promise is broken.
    pub run: fn(&[u8]),
    /// Inputs made by our own encoders.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 11] = [
    Target { name: "framing", run: framing::run, seeds: framing::seeds },
    Target { name: "decoders", run: decoders::run, seeds: decoders::seeds },
    Target { name: "batch", run: batch::run, seeds: batch::seeds },
    Target { name: "unit", run: unit::run, seeds: unit::seeds },
    Target { name: "recovery", run: recovery::run, seeds: recovery::seeds },
    Target { name: "checkpoint", run: formats::checkpoint, seeds: formats::checkpoint_seeds },
    Target { name: "local_state", run: formats::local_state, seeds: formats::local_state_seeds },
    Target { name: "footer", run: formats::footer, seeds: formats::footer_seeds },
    Target { name: "groups", run: groups::run, seeds: groups::seeds },
    Target { name: "responses", run: responses::run, seeds: responses::seeds },
    Target { name: "metadata", run: metadata::run, seeds: metadata::seeds },
];

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// The folder of a target's committed inputs: `kind` is `corpus` or `regressions`.
#[must_use]
pub fn folder(kind: &str, target: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), kind, target].iter().collect()
}

/// Runs `work` and checks that it never held more than `fixed` + `each` × `len` bytes at a time.
fn within<T>(what: &str, fixed: u64, each: u64, len: usize, work: impl FnOnce() -> T) -> T {
    let mut result = None;
    let taken = allocation_counter::measure(|| result = Some(work())).bytes_max;
    assert!(taken <= fixed + each * len as u64, "{what}: {taken} bytes of memory for {len} bytes");
    result.expect("the work was done")
}
