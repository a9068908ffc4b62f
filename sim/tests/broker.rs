//! Whole shards with their clients, control plane and rings on a simulated device: many seeds.
//!
//! `BARELOG_SIM_SEEDS` is how many for all levels together, `BARELOG_SIM_SEED` the first.

mod seeds;

#[test]
fn no_client_of_any_seed_loses_a_record_sees_one_twice_or_is_told_what_a_crash_takes_back() {
    seeds::run("broker", &["batches damaged", "journals closed"]);
}

#[test]
fn whatever_is_harmed_the_rest_serves_on_and_no_offset_is_given_twice() {
    seeds::run("broker-harm", &["journals fenced", "refused for space"]);
}
