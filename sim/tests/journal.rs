//! Journals under crashes, faults and chance: many seeds, each compared with a model all the time.
//!
//! `BARELOG_SIM_SEEDS` is how many for all levels together, `BARELOG_SIM_SEED` the first.

mod seeds;

#[test]
fn no_seed_loses_moves_or_repeats_a_record() {
    seeds::run("journal", &["extents clustered", "passes of compaction"]);
}

#[test]
fn what_outlives_the_rest_is_clustered_through_crashes() {
    seeds::run("journal-mixed", &["journals fenced", "passes of compaction"]);
}

#[test]
fn no_seed_loses_the_latest_record_of_a_key_or_brings_a_deleted_one_back() {
    seeds::run("journal-compact", &["journals fenced"]);
}

#[test]
fn whatever_rots_nothing_wrong_is_served_and_no_offset_is_given_twice() {
    seeds::run(
        "journal-harm",
        &["survived unacked", "journals fenced", "refused for space", "extents clustered", "passes of compaction"],
    );
}
