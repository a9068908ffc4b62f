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

/// What users of such systems have hit, and the tests that show how it is here.
pub(crate) const SCENARIOS: &[(&str, &[&str])] = &[
    ("a small message waits for more (Nagle)", &["a_small_message_is_answered_without_waiting_for_more"]),
    (
        "a commit during a rebalance takes the member's partitions away",
        &["commits_are_checked_against_members_and_generation", "members_share_partitions_and_take_over"],
    ),
    (
        "a member that paused for too long joins for ever",
        &["a_paused_member_comes_back_with_one_join", "a_silent_member_is_put_out_and_a_heard_one_is_not"],
    ),
    (
        "a deleted group is back after a restart",
        &["a_deleted_group_does_not_come_back", "a_deleted_group_is_gone_and_stays_so_after_a_restart"],
    ),
    (
        "clients die while a coordinator loads, or when a topic is made anew",
        &[
            "a_group_that_is_not_served_yet_is_so_named_in_every_version",
            "groups_that_cannot_be_read_are_refused_by_name_and_hold_up_no_others",
            "offsets_of_a_later_topic_of_the_same_name_stay",
        ],
    ),
    (
        "ten thousand partitions take the memory, or a start or a stop without end",
        &["ten_thousand_partitions_are_made_served_and_found_again"],
    ),
    ("an idle broker uses the processor", &["a_quiet_broker_uses_under_one_percent_of_a_core"]),
    ("a client reads ahead until its memory is gone", &["no_more_is_asked_for_than_memory_allows"]),
    (
        "a start reads the whole log",
        &[
            "a_restart_reads_what_was_written_after_the_last_checkpoint_and_no_more",
            "after_ten_million_commits_to_a_thousand_keys_a_restart_reads_about_the_keys",
        ],
    ),
    (
        "it does not stop under load",
        &[
            "sigterm_under_load_stops_within_seconds_and_loses_nothing_acknowledged",
            "a_shutdown_does_not_wait_for_ever",
        ],
    ),
    (
        "a torn tail is taken for data, or keeps the broker from starting",
        &[
            "no_acknowledged_record_is_lost_moved_or_duplicated_by_kills",
            "no_seed_loses_moves_or_repeats_a_record",
            "a_stale_unit_of_an_earlier_life_behind_the_end_is_not_taken",
        ],
    ),
    (
        "one damaged place keeps everything from starting",
        &[
            "rot_in_a_payload_costs_one_batch",
            "a_read_error_closes_the_journal_by_name",
            "a_damaged_batch_is_named_listed_and_skipped_by_a_seek_or_by_a_deletion",
        ],
    ),
    (
        "a full disk: the broker dies, cannot start, or clients hang without a word",
        &[
            "an_existing_directory_on_a_full_disk_serves_reads_and_deletes",
            "a_full_device_and_a_fenced_journal_are_told_by_name",
        ],
    ),
    (
        "limits of the kernel end in a riddle",
        &[
            "an_ordinary_user_with_little_locked_memory_is_served_with_one_warning",
            "io_uring_forbidden_is_named_with_its_remedy",
            "o_direct_refused_by_the_file_system_is_named_with_its_remedy",
        ],
    ),
    (
        "old clients turn compression off; connections that break off hurt others",
        &["kcat_round_trips_every_codec_and_its_group_resumes", "connections_that_break_off_leave_the_others_alone"],
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
    for (what, named) in TRAPS.iter().chain(SCENARIOS) {
        for name in *named {
            assert!(tests.contains(*name), "{what}: there is no test {name}");
        }
    }
}
