//! `cargo bench -p barelog-benches --bench hot`: nanoseconds of the hot steps.
#![allow(missing_docs, reason = "criterion's macros make functions without")]

use benches::hot::{Hot, STEPS};
use criterion::{Criterion, criterion_group, criterion_main};

fn steps(criterion: &mut Criterion) {
    for (name, step) in STEPS {
        let mut hot = Hot::new().expect("a journal in memory");
        criterion.bench_function(name, |bencher| bencher.iter(|| step(&mut hot).expect("the step is possible")));
    }
}

criterion_group!(hot, steps);
criterion_main!(hot);
