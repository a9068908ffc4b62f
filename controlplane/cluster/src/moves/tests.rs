use alloc::vec;
use alloc::vec::Vec;

use base::BrokerId;
use base::image::{Homes, JournalClass, Lifetime, SeededHash};
use proptest::prelude::*;

use super::*;
use crate::codec;
use crate::command::{Command, DeviceUuid};
use crate::images::{Images, Local};
use crate::state::tests::{CLASS, create, register, with};

const LONG: JournalClass = JournalClass { lifetime: Lifetime::Long, ..CLASS };

fn begin(partition: u32, to: MoveTo) -> Command {
    Command::Move { id: TopicId(1), partition, to, entropy: Entropy([3; 16]) }
}

fn to(journal: u64) -> MoveTo {
    MoveTo::Journal(JournalId(journal))
}

fn finish(partition: u32, journal: u64, first: i64) -> Command {
    Command::FinishMove { id: TopicId(1), partition, journal: JournalId(journal), first: Offset(first) }
}

fn cancel(partition: u32, journal: u64) -> Command {
    Command::CancelMove { id: TopicId(1), partition, journal: JournalId(journal) }
}

fn leave(below: i64) -> Command {
    Command::LeaveHomes { id: TopicId(1), partition: 0, below: Offset(below) }
}

fn homes(state: &State) -> Vec<(u64, i64)> {
    let partition = state.partition(TopicId(1), 0).expect("there");
    let all = partition.earlier.iter().chain([&partition.home]);
    all.map(|home| (home.journal.0, home.first.0)).collect()
}

fn counts(state: &State) -> Vec<u32> {
    state.journals().map(|(_, journal)| journal.partitions).collect()
}

/// Two journals with two partitions each.
fn state() -> State {
    with(&[register(1, 2), create(1, "a", 4)])
}

#[test]
fn a_move_is_said_first_and_the_list_of_homes_follows_the_partition() {
    let mut state = state();
    let mut apply = |command: Command| {
        state.apply(&command).unwrap_or_else(|refused| panic!("{command:?}: {refused:?}"));
        (homes(&state), counts(&state))
    };
    assert_eq!(
        apply(begin(0, to(2))),
        (vec![(1, 0)], vec![2, 3]),
        "counted where it goes, so that others go elsewhere"
    );
    assert_eq!(apply(finish(0, 2, 70)), (vec![(1, 0), (2, 70)], vec![1, 3]));
    apply(begin(0, to(1)));
    assert_eq!(apply(cancel(0, 1)), (vec![(1, 0), (2, 70)], vec![1, 3]));
    apply(begin(0, to(1)));
    assert_eq!(apply(finish(0, 1, 90)).0, [(1, 0), (2, 70), (1, 90)]);
    apply(begin(0, to(2)));
    assert_eq!(apply(finish(0, 2, 90)).0, [(1, 0), (2, 70)], "a home that took nothing is none");
    assert_eq!(apply(leave(69)).0, [(1, 0), (2, 70)]);
    assert_eq!(apply(leave(70)).0, [(2, 70)]);
    assert_eq!(apply(leave(1000)).0, [(2, 70)], "the open home stays");
}

#[test]
fn a_class_gets_its_journals_when_it_is_first_moved_to() {
    let mut state = state();
    for partition in 0..4 {
        let applied = state.apply(&begin(partition, MoveTo::Class(LONG))).expect("accepted");
        assert_eq!(applied.change.journals.len(), usize::from(partition < 2), "one on each seat");
    }
    assert_eq!(counts(&state), [2, 2, 2, 2]);
    state.apply(&finish(0, 3, 5)).expect("accepted");
    let again = state.apply(&begin(0, MoveTo::Class(LONG)));
    assert!(matches!(again, Err(Refused::InPlace(_)) | Ok(_)));
}

#[test]
fn refusals_name_their_rule_and_change_nothing() {
    let mut state = with(&[register(1, 2), create(1, "a", 4), create(2, "__consumer_offsets", 1)]);
    let before = state.clone();
    let mut refuse = |command: Command, refused: Refused| {
        assert_eq!(state.apply(&command), Err(refused), "{command:?}");
        assert_eq!(state, before);
    };
    refuse(begin(9, to(2)), Refused::UnknownPartition);
    refuse(begin(0, to(1)), Refused::InPlace(JournalId(1)));
    refuse(begin(0, to(77)), Refused::UnknownJournal(JournalId(77)));
    refuse(finish(0, 2, 5), Refused::NotMoving);
    refuse(cancel(0, 2), Refused::NotMoving);
    let entropy = Entropy([0; 16]);
    let id = TopicId(2);
    refuse(Command::Move { id, partition: 0, to: to(2), entropy }, Refused::Internal);
    refuse(Command::Move { id: TopicId(7), partition: 0, to: to(2), entropy }, Refused::UnknownTopic);
    state.apply(&begin(0, to(2))).expect("accepted");
    assert_eq!(state.apply(&begin(0, to(2))), Err(Refused::Moving(JournalId(2))));
    assert_eq!(state.apply(&finish(0, 1, 5)), Err(Refused::NotMoving));
}

#[test]
fn there_is_a_bound_on_homes() {
    let mut state = state();
    let mut moved = 0;
    loop {
        let there = if moved % 2 == 0 { 2 } else { 1 };
        match state.apply(&begin(0, to(there))) {
            Ok(_) => drop(state.apply(&finish(0, there, 10 * (moved + 1))).expect("accepted")),
            Err(refused) => {
                assert_eq!(refused, Refused::ManyHomes(HOMES_MAX));
                break;
            }
        }
        moved += 1;
    }
    assert_eq!(homes(&state).len(), HOMES_MAX);
}

#[test]
fn a_deleted_topic_is_counted_nowhere() {
    let mut state = state();
    state.apply(&begin(0, to(2))).expect("accepted");
    state.apply(&Command::DeleteTopic { id: TopicId(1) }).expect("accepted");
    assert_eq!(counts(&state), [0, 0]);
}

#[test]
fn a_state_in_which_nothing_moved_is_as_programs_before_read_it() {
    let mut state = state();
    assert_eq!(codec::encode_state(&state)[0], 1);
    assert_eq!(codec::encode_command(&create(1, "a", 1))[0], 1);
    state.apply(&begin(0, to(2))).expect("accepted");
    assert_eq!(codec::encode_state(&state)[0], 2);
    state.apply(&finish(0, 2, 3)).expect("accepted");
    assert_eq!(codec::encode_state(&state)[0], 2, "they would not look for older records");
    assert_eq!(codec::encode_command(&finish(0, 2, 3))[0], 2);
    let old = with(&[register(1, 2), create(1, "a", 4)]);
    assert_eq!(codec::decode_state(&codec::encode_state(&old)), Ok(old));
}

fn local() -> Local {
    Local {
        cluster: base::ClusterId(1),
        broker: BrokerId(1),
        listeners: alloc::sync::Arc::new([]),
        devices: vec![DeviceUuid(1)],
        shards: 2,
        defaults: base::image::TopicConfig {
            retention_ms: 1,
            retention_bytes: 2,
            max_message_bytes: 3,
            timestamp_type: base::image::TimestampType::Create,
            timestamp_before_ms_max: 4,
            timestamp_after_ms_max: 5,
            min_insync_replicas: 1,
            compaction: None,
        },
        hash_seed: SeededHash(4).0,
    }
}

proptest! {
    /// Whatever moves: what is written is read back, counts are those of the partitions, and images advance to what a rebuild gives.
    #[test]
    fn any_moves(moves in prop::collection::vec((0u32..5, 0u64..4, 0i64..40, 0u8..5), 0..60)) {
        let mut state = state();
        let mut images = Images::new(&state, local()).expect("the device is there");
        let mut offset = 0;
        for (partition, journal, step, kind) in moves {
            offset += step;
            let command = match kind {
                0 => begin(partition, to(journal)),
                1 => begin(partition, MoveTo::Class(LONG)),
                2 => finish(partition, journal, offset),
                3 => cancel(partition, journal),
                _ => Command::LeaveHomes { id: TopicId(1), partition, below: Offset(offset - 20) },
            };
            prop_assert_eq!(codec::decode_command(&codec::encode_command(&command)), Ok(command.clone()));
            let Ok(applied) = state.apply(&command) else { continue };
            prop_assert_eq!(codec::decode_state(&codec::encode_state(&state)), Ok(state.clone()));
            let (image, delta) = images.advance(&state, &applied.change);
            let fresh = Images::new(&state, local()).expect("the device is there");
            prop_assert!(!delta.topics.is_empty());
            let topic = state.topic("a").expect("there");
            for partition in &topic.partitions {
                // Since when, a fresh image does not know, and forgets those that moved before they had a record.
                let known = image.homes.get(&partition.id).map(|homes| Homes { since: 0, ..Homes::clone(homes) });
                let rebuilt = fresh.image().homes.get(&partition.id).map(|homes| Homes::clone(homes));
                let plain = |homes: &Homes| homes.earlier.is_empty() && homes.moving.is_none() && homes.first.0 == 0;
                prop_assert_eq!(known.filter(|homes| !plain(homes)), rebuilt);
                let firsts: Vec<i64> = partition.earlier.iter().chain([&partition.home]).map(|home| home.first.0).collect();
                prop_assert!(firsts.is_sorted_by(|a, b| a < b), "{:?}", firsts);
                if let Some(homes) = image.homes.get(&partition.id) {
                    for offset in 0..offset + 2 {
                        let at = homes.earlier_at(Offset(offset)).map(|home| home.journal);
                        let all = partition.earlier.iter().rev();
                        let open = Offset(offset) >= partition.home.first;
                        let expected = all.clone().find(|home| home.first.0 <= offset).filter(|_| !open);
                        prop_assert_eq!(at, expected.map(|home| home.journal));
                    }
                }
            }
        }
    }
}
