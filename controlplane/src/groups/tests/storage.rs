//! Offsets in the log: durable, together, trimmed, read back.

use base::message::Refusal;
use base::{PartitionId, TopicId};

use super::*;

#[tokio::test]
async fn offsets_survive_a_restart() {
    let world = World::new();
    world.find().await;
    assert_eq!(world.commit("g", "t", 3, 42).await, ErrorCode::NONE);
    assert_eq!(world.offset("g", "t", 3).await, 42);
    let world = world.restart().await;
    assert_eq!(world.offset("g", "t", 3).await, 42);
    assert_eq!(world.offset("g", "t", 4).await, -1);
    assert_eq!(world.offset("other", "t", 3).await, -1);
}

#[tokio::test]
async fn commits_that_come_together_share_an_append() {
    let world = World::new();
    world.find().await;
    assert_eq!(world.commit("g", "t", 0, 1).await, ErrorCode::NONE);
    world.data.hold();
    let mut responses = Vec::new();
    for offset in 0..2000 {
        responses.push(world.commit_soon("g", "t", 0..1, offset).await);
    }
    assert_eq!(world.offset("g", "t", 0).await, 1, "nothing is seen before it is durable");
    assert!(responses.iter_mut().all(|response| response.try_recv().is_err()), "nor answered");
    let before = world.data.state.lock().unwrap().appends;
    world.data.release();
    for response in responses {
        assert_eq!(committed(&response.await.unwrap()), ErrorCode::NONE);
    }
    let appends = world.data.state.lock().unwrap().appends - before;
    assert!(appends <= 4, "{appends} appends for 2,000 commits");
    assert_eq!(world.offset("g", "t", 0).await, 1999);
}

#[tokio::test]
async fn a_long_log_is_trimmed_and_a_restart_reads_only_about_what_lives() {
    let data = FakeData::new();
    let catalog = FakeCatalog::new(2);
    let world = World::configured(data.clone(), catalog.clone(), small_trim());
    world.find().await;
    let mut last = Vec::new();
    let mut written = 0;
    for round in 0..100 {
        for group in ["a", "b", "c", "d"] {
            last.push(world.commit_soon(group, "t", 0..100, round).await);
            written += 100;
        }
        for response in last.drain(..) {
            assert_eq!(committed(&response.await.unwrap()), ErrorCode::NONE);
        }
    }
    assert!(data.state.lock().unwrap().moves > 3);
    let world = world.restart().await;
    assert_eq!(world.offset("a", "t", 99).await, 99);
    for group in ["a", "b", "c", "d"] {
        for partition in 0..100 {
            assert_eq!(world.offset(group, "t", partition).await, 99);
        }
    }
    let read = data.state.lock().unwrap().bytes_read;
    // 400 keys of about 70 bytes; four times that, and the floor of 16 KiB for each of two partitions.
    assert!(read < 400 * 70 * 6 + 2 * (16 << 10), "{read} bytes read for {written} commits to 400 keys");
    assert!(data.log_bytes() < 400 * 70 * 6 + 2 * (16 << 10));
}

#[tokio::test]
async fn another_epoch_makes_the_partition_read_again_and_nothing_is_lost() {
    let world = World::new();
    world.find().await;
    assert_eq!(world.commit("g", "t", 0, 5).await, ErrorCode::NONE);
    world.data.raise_epoch();
    assert_eq!(world.commit("g", "t", 0, 6).await, ErrorCode::NOT_COORDINATOR);
    assert_eq!(world.offset("g", "t", 0).await, 5);
    assert_eq!(world.commit("g", "t", 0, 7).await, ErrorCode::NONE);
    let world = world.restart().await;
    assert_eq!(world.offset("g", "t", 0).await, 7);
}

#[tokio::test]
async fn refusals_have_names_and_a_busy_data_path_is_asked_again() {
    let world = World::new();
    world.find().await;
    let refuse = |refusals: &[Refusal]| world.data.state.lock().unwrap().refuse.extend(refusals);
    refuse(&[Refusal::Busy, Refusal::Busy, Refusal::Busy]);
    assert_eq!(world.commit("g", "t", 0, 1).await, ErrorCode::NONE);
    for refusal in [Refusal::Full, Refusal::Fenced] {
        refuse(&[refusal]);
        assert_eq!(world.commit("g", "t", 0, 2).await, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    }
    refuse(&[Refusal::Corrupt]);
    assert_eq!(world.commit("g", "t", 0, 2).await, ErrorCode::INVALID_COMMIT_OFFSET_SIZE);
    refuse(&[Refusal::Stopping]);
    assert_eq!(world.commit("g", "t", 0, 2).await, ErrorCode::NOT_COORDINATOR);
    assert_eq!(world.offset("g", "t", 0).await, 1);
    assert_eq!(world.commit("g", "t", 0, 3).await, ErrorCode::NONE);
}

#[tokio::test]
async fn a_deleted_group_does_not_come_back() {
    let world = World::new();
    world.find().await;
    world.commit("g", "t", 0, 5).await;
    world.commit("kept", "t", 0, 6).await;
    let request = DeleteGroupsRequest { groups_names: vec!["g", "nobody"] };
    let bytes = world.ask(2, &request).await;
    let results = DeleteGroupsResponse::parse(&bytes, 2).unwrap().results;
    assert_eq!(results[0].error_code, ErrorCode::NONE);
    assert_eq!((results[1].group_id, results[1].error_code), ("nobody", ErrorCode::GROUP_ID_NOT_FOUND));
    let world = world.restart().await;
    assert_eq!(world.offset("g", "t", 0).await, -1);
    assert_eq!(world.offset("kept", "t", 0).await, 6);
}

#[tokio::test]
async fn offsets_of_a_deleted_topic_go_at_once_or_at_the_next_start() {
    let world = World::new();
    world.find().await;
    world.catalog.create("u", TopicId(12), 1);
    world.commit("g", "t", 0, 5).await;
    world.commit("g", "u", 0, 6).await;
    world.catalog.delete("t");
    world.handle.topic_deleted("t".into(), TopicId(11)).await;
    // The broker stops before it can tell the coordinator of the second.
    world.catalog.delete("u");
    let world = world.restart().await;
    world.find().await;
    world.catalog.create("t", TopicId(13), 1);
    world.catalog.create("u", TopicId(14), 1);
    assert_eq!((world.offset("g", "t", 0).await, world.offset("g", "u", 0).await), (-1, -1));
    world.commit("g", "t", 0, 1).await;
    assert_eq!(world.offset("g", "t", 0).await, 1);
    world.catalog.create("t", TopicId(15), 1);
    assert_eq!(world.offset("g", "t", 0).await, -1, "committed for another topic of that name");
}

#[tokio::test]
async fn what_is_damaged_is_skipped_and_the_rest_is_served() {
    let data = FakeData::new();
    let world = World::with(data.clone(), FakeCatalog::new(1));
    world.find().await;
    for offset in 0..10 {
        world.commit("g", "t", offset as i32, offset).await;
    }
    data.state.lock().unwrap().damaged = Some(4..7);
    let world = world.restart().await;
    let offsets = [world.offset("g", "t", 3).await, world.offset("g", "t", 7).await, world.offset("g", "t", 9).await];
    assert_eq!(offsets, [3, 7, 9]);
}

#[tokio::test]
async fn a_topic_that_cannot_be_created_is_no_coordinator() {
    let world = World::with(FakeData::new(), FakeCatalog::new(0));
    let request = FindCoordinatorRequest { key: "g", ..FindCoordinatorRequest::default() };
    let bytes = world.ask(2, &request).await;
    let found = FindCoordinatorResponse::parse(&bytes, 2).unwrap();
    assert_eq!((found.error_code, found.node_id), (ErrorCode::COORDINATOR_NOT_AVAILABLE, -1));
    assert_eq!(world.commit("g", "t", 0, 1).await, ErrorCode::NOT_COORDINATOR);
}

/// A partition that cannot be read has an end: its groups get an error that clients do not wait out, all others are served,
/// and when it can be read again its groups are back.
#[tokio::test]
async fn groups_that_cannot_be_read_are_refused_by_name_and_hold_up_no_others() {
    const SLOTS: u32 = 8;
    // From the first offset on, and from one in the middle of what was committed.
    for from in [0, 2] {
        let host = HostConfig { load_wait: Duration::from_millis(300), loads_at_a_time: 1, ..host() };
        let world = World::configured(FakeData::new(), FakeCatalog::new(SLOTS), host);
        world.find().await;
        let (lost, kept) = ("lost", "kept");
        let slot = groups::slot_of(lost, SLOTS);
        assert_ne!(slot, groups::slot_of(kept, SLOTS));
        for offset in 1..=5 {
            assert_eq!(world.commit(lost, "t", 0, offset).await, ErrorCode::NONE);
            assert_eq!(world.commit(kept, "t", 0, offset).await, ErrorCode::NONE);
        }
        let World { data, catalog, handle, task } = world;
        drop(handle);
        task.await.unwrap();
        data.raise_epoch();
        let partition = PartitionId(99_000 + u64::from(slot.0));
        data.state.lock().unwrap().closed.insert(partition, from);
        let world = World::configured(data, catalog, host);
        world.find().await;
        assert_eq!(world.offset(kept, "t", 0).await, 5);
        assert_eq!(world.commit(kept, "t", 0, 6).await, ErrorCode::NONE);
        let fetch = OffsetFetchRequest { group_id: lost, topics: None, ..OffsetFetchRequest::default() };
        let bytes = world.ask(5, &fetch).await;
        assert_eq!(OffsetFetchResponse::parse(&bytes, 5).unwrap().error_code, ErrorCode::KAFKA_STORAGE_ERROR);
        assert_eq!(world.commit(lost, "t", 0, 6).await, ErrorCode::KAFKA_STORAGE_ERROR);
        let bytes = world.ask(4, &ListGroupsRequest::default()).await;
        let listed = ListGroupsResponse::parse(&bytes, 4).unwrap();
        assert_eq!((listed.error_code, listed.groups.len()), (ErrorCode::NONE, 1));
        world.data.state.lock().unwrap().closed.clear();
        tokio::time::timeout(Duration::from_secs(10), async {
            while world.commit(lost, "t", 1, 7).await != ErrorCode::NONE {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap();
        assert_eq!(world.offset(lost, "t", 0).await, 5);
    }
}

#[tokio::test]
async fn nothing_acked_is_lost_while_logs_are_trimmed_all_the_time() {
    let trim = TrimPolicy { log_bytes_min: 300, factor: 1 };
    let data = FakeData::new();
    let catalog = FakeCatalog::new(2);
    let mut dice = 1u32;
    let mut roll = move |sides: u32| {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (dice >> 8) % sides
    };
    let mut acked = std::collections::BTreeMap::new();
    let mut offset = 0;
    for _ in 0..30 {
        let world = World::configured(data.clone(), catalog.clone(), HostConfig { trim, batch_bytes: 400, ..host() });
        world.find().await;
        for _ in 0..20 {
            let mut sent = Vec::new();
            for _ in 0..roll(12) {
                let group = ["a", "b", "c"][roll(3) as usize];
                if roll(20) == 0 {
                    let delete = DeleteGroupsRequest { groups_names: vec![group] };
                    sent.push((group, None, world.send(2, &delete).await));
                } else {
                    offset += 1;
                    let partition = roll(20) as i32;
                    let response = world.commit_soon(group, "t", partition..partition + 1, offset).await;
                    sent.push((group, Some((partition, offset)), response));
                }
            }
            for (group, commit, response) in sent {
                let response = response.await.unwrap();
                match commit {
                    // Refused while the group is being deleted.
                    Some((partition, offset)) => match committed(&response) {
                        ErrorCode::NONE => drop(acked.insert((group, partition), offset)),
                        other => assert_eq!(other, ErrorCode::COORDINATOR_NOT_AVAILABLE),
                    },
                    None => acked.retain(|(of, _), _| *of != group),
                }
            }
        }
        for group in ["a", "b", "c"] {
            for partition in 0..20 {
                let expected = acked.get(&(group, partition)).copied().unwrap_or(-1);
                assert_eq!(world.offset(group, "t", partition).await, expected, "{group} {partition}");
            }
        }
        drop(world.restart().await);
    }
    assert!(data.state.lock().unwrap().moves > 50);
}

/// What a year of commits comes to: 1,000 commits a round, in less than a minute without optimisation.
#[tokio::test]
async fn after_ten_million_commits_to_a_thousand_keys_a_restart_reads_about_the_keys() {
    let rounds = 10_000;
    let data = FakeData::new();
    let world = World::with(data.clone(), FakeCatalog::new(50));
    world.find().await;
    let groups: Vec<String> = (0..10).map(|group| format!("group {group}")).collect();
    let began = std::time::Instant::now();
    for round in 0..rounds {
        let mut sent = Vec::new();
        for group in &groups {
            sent.push(world.commit_soon(group, "t", 0..100, round).await);
        }
        for response in sent {
            assert_eq!(committed(&response.await.unwrap()), ErrorCode::NONE);
        }
    }
    let (took, appends) = (began.elapsed(), data.state.lock().unwrap().appends);
    let world = world.restart().await;
    world.find().await;
    assert_eq!(world.offset("group 7", "t", 50).await, rounds - 1);
    let read = data.state.lock().unwrap().bytes_read;
    println!("{rounds} rounds of 1,000 commits in {took:?}, {appends} appends; the restart read {read} bytes");
    // At most the floor of 1 MiB for each partition that one of the ten groups hashes to.
    assert!(read <= 10 * ((1 << 20) + (256 << 10)), "{read}");
}
