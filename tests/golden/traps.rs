//! What brokers have got wrong before, and which test holds it here. docs/PROTOCOL.md shows the table.

/// What clients trip over, and the tests that show that they do not here.
pub(crate) const TRAPS: &[(&str, &[&str])] = &[
    (
        "the header of an ApiVersions response has no tagged fields; an unknown version of it is answered in version 0, not by a closed connection",
        &[
            "the_header_of_an_api_versions_response_has_no_tags",
            "api_versions_lists_exactly_what_is_served",
            "barelog_answers_as_kafka_does",
        ],
    ),
    ("names of client software are checked from version 3 on", &["client_software_must_look_like_a_name"]),
    (
        "Produce 0 and JoinGroup 0 are offered, or old librdkafka turns compression off",
        &["old_produce_versions_are_offered_but_not_served", "kcat_round_trips_every_codec_and_its_group_resumes"],
    ),
    (
        "fetch sessions: epochs wrap to 1, only news is told, names and ids are not mixed",
        &[
            "epochs_count_from_one_and_wrap_from_the_highest_to_one",
            "sessions_are_refused_closed_and_mixed_by_kafkas_rules",
            "a_session_tells_only_news_and_reads_what_it_remembers",
        ],
    ),
    (
        "a topic made anew has another id, and the old one is UNKNOWN_TOPIC_ID, in Metadata, Produce and Fetch",
        &["a_topic_made_anew_has_another_id_and_the_old_one_is_unknown", "barelog_answers_as_kafka_does"],
    ),
    (
        "Metadata: empty and null lists, topics made on first use, no ids before version 12",
        &["a_topic_is_created_on_first_use_if_client_and_broker_allow_it", "barelog_answers_as_kafka_does"],
    ),
    (
        "FindCoordinator in batches; while a group is being read it is said to be loading, not elsewhere",
        &["the_coordinator_is_found_in_every_version", "a_group_that_is_not_served_yet_is_so_named_in_every_version"],
    ),
    (
        "JoinGroup: an id first, which expires; static members; assignments that are skipped",
        &[
            "a_first_join_is_told_its_id_and_that_id_expires",
            "a_static_member_needs_no_second_request_and_its_id_begins_with_its_instance",
            "a_leader_that_comes_back_is_told_to_skip_the_assignment_or_that_its_former_self_leads",
        ],
    ),
    (
        "OffsetFetch of all topics and of several groups; metadata of offsets comes back, up to its limit",
        &[
            "commits_and_fetches_in_every_version",
            "metadata_that_is_too_long_rejects_its_partition_alone",
            "barelog_answers_as_kafka_does",
        ],
    ),
    (
        "record batches: one for each partition, counts, CRC, control bits, timestamps, zstd before its version, acks=0",
        &[
            "every_refusal_has_its_name_and_stores_nothing",
            "acks_zero_is_not_answered_and_an_error_closes_the_connection",
            "barelog_answers_as_kafka_does",
        ],
    ),
    (
        "idempotent producers: duplicates, gaps, epochs, a partition that does not know the producer, sequences that wrap",
        &[
            "idempotent_producers_get_their_errors_and_duplicates_their_first_answer",
            "sequences_wrap_from_the_largest_to_zero",
            "barelog_answers_as_kafka_does",
        ],
    ),
    (
        "Fetch: from inside a batch, at least one batch, epochs, the order asked for, ends under read_committed",
        &[
            "at_least_one_batch_comes_whatever_the_limits_and_no_more_than_they_say",
            "offsets_and_epochs_outside_are_refused_by_name",
            "read_committed_is_all_that_is_committed_with_no_aborted_transactions",
        ],
    ),
    (
        "leader hints (KIP-951) stand where clients look for them; one node leads everything and gives none",
        &["produce_responses_are_what_clients_expect", "fetch_responses_hold_the_records_where_they_are_put"],
    ),
    (
        "a search by time finds the record inside its batch; special times in their versions",
        &["a_time_finds_the_exact_record_inside_a_batch_of_any_codec", "both_ends_and_the_tiers_are_answered_here_too"],
    ),
    (
        "responses leave in the order of their requests",
        &["responses_leave_in_the_order_of_their_requests_whoever_is_done_first"],
    ),
    (
        "a full device has an error of its own that clients do not repeat without a word",
        &[
            "a_full_device_and_a_fenced_journal_are_told_by_name",
            "an_existing_directory_on_a_full_disk_serves_reads_and_deletes",
        ],
    ),
];

/// The names of all tests in the repository.
#[cfg(test)]
fn all_tests() -> std::collections::HashSet<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.to_path_buf()];
    let mut names = std::collections::HashSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            let hidden = name.to_string_lossy().starts_with('.');
            if path.is_dir() && !hidden && name != "target" {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                let functions =
                    text.lines().filter_map(|line| line.trim_start().trim_start_matches("async ").strip_prefix("fn "));
                names.extend(functions.filter_map(|rest| rest.split_once('(')).map(|(name, _)| name.to_string()));
            }
        }
    }
    names
}

#[test]
fn every_test_that_is_named_exists() {
    let tests = all_tests();
    for (what, named) in TRAPS {
        for name in *named {
            assert!(tests.contains(*name), "{what}: there is no test {name}");
        }
    }
}
