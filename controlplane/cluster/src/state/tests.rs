use alloc::string::ToString as _;
use alloc::vec;
use std::collections::BTreeSet;

use base::image::Lifetime;
use proptest::prelude::*;

use super::*;
use crate::codec;
use crate::command::ConfigChange;
use crate::command::ConfigOp;

pub(crate) const CLASS: JournalClass =
    JournalClass { replicas: 1, compacted: false, lifetime: Lifetime::Medium, internal: false };

pub(crate) fn register(devices: u128, journals_per_class: u16) -> Command {
    let devices = (1..=devices).map(DeviceUuid).collect();
    Command::RegisterBroker { broker: BrokerId(1), devices, journals_per_class }
}

pub(crate) fn create(id: u128, name: &str, partitions: u32) -> Command {
    Command::CreateTopic {
        id: TopicId(id),
        name: name.into(),
        partitions,
        class: CLASS,
        configs: vec![],
        entropy: Entropy([7; 16]),
    }
}

pub(crate) fn with(commands: &[Command]) -> State {
    let mut state = State::default();
    for command in commands {
        state.apply(command).expect("accepted");
    }
    state
}

#[test]
fn partitions_spread_evenly_over_journals_and_journals_over_devices() {
    let state = with(&[register(2, 4), create(1, "a", 3), create(2, "b", 6)]);
    let journals: Vec<_> = state.journals().collect();
    assert_eq!(journals.len(), 4);
    assert!(journals.iter().all(|(_, journal)| (2..=3).contains(&journal.partitions)), "{journals:?}");
    for device in [1, 2] {
        assert_eq!(journals.iter().filter(|(_, journal)| journal.device == DeviceUuid(device)).count(), 2);
    }
    let secrets: BTreeSet<_> = journals.iter().map(|(_, journal)| journal.secret.0).collect();
    assert_eq!(secrets.len(), 4, "journals opened by one command have secrets of their own");
}

#[test]
fn classes_do_not_share_journals() {
    let mut state = with(&[register(1, 1), create(1, "a", 1)]);
    let long = Command::CreateTopic {
        id: TopicId(2),
        name: "b".into(),
        partitions: 1,
        class: JournalClass { lifetime: Lifetime::Long, ..CLASS },
        configs: vec![],
        entropy: Entropy([1; 16]),
    };
    let applied = state.apply(&long).expect("accepted");
    assert_eq!(applied.change.journals, [JournalId(2)]);
}

#[test]
fn a_deleted_topics_ids_never_come_back() {
    let mut state = with(&[register(1, 1), create(1, "a", 2)]);
    let deleted = state.apply(&Command::DeleteTopic { id: TopicId(1) }).expect("accepted");
    assert_eq!(deleted.change.deleted_partitions, [PartitionId(1), PartitionId(2)]);
    state.apply(&create(2, "a", 1)).expect("the name is free again");
    assert_eq!(state.topic("a").expect("there").partitions[0].id, PartitionId(3));
    assert_eq!(state.partitions_below(), PartitionId(4));
    assert_eq!(state.topic_by_id(TopicId(1)), None);
}

#[test]
fn refusals_name_their_rule_and_change_nothing() {
    let mut state = with(&[register(1, 1), create(1, "a.b", 1), create(2, "__consumer_offsets", 1)]);
    let before = state.clone();
    let cases = [
        (create(3, "a.b", 1), Refused::TopicExists),
        (create(3, "a_b", 1), Refused::NameCollides("a.b".into())),
        (create(3, "a b", 1), Refused::Name(NameError::Character)),
        (create(1, "c", 1), Refused::TopicIdTaken),
        (create(0, "c", 1), Refused::TopicIdTaken),
        (create(3, "c", 0), Refused::PartitionCount { asked: 0, most: 10_000 }),
        (create(3, "c", 10_001), Refused::PartitionCount { asked: 10_001, most: 10_000 }),
        (Command::DeleteTopic { id: TopicId(9) }, Refused::UnknownTopic),
        (Command::DeleteTopic { id: TopicId(2) }, Refused::Internal),
        (
            Command::CreatePartitions { id: TopicId(1), total: 1, class: CLASS, entropy: Entropy([0; 16]) },
            Refused::NotMorePartitions { now: 1, asked: 1 },
        ),
        (register(0, 1), Refused::BadBroker),
        (Command::RaiseEpoch { broker: BrokerId(1), above: Epoch(i32::MAX) }, Refused::Exhausted("epoch")),
        (Command::AllocateProducerIds { count: 0 }, Refused::Exhausted("producer ids")),
    ];
    for (command, refused) in cases {
        assert_eq!(state.apply(&command), Err(refused), "{command:?}");
        assert_eq!(state, before);
    }
    let compacted = Command::SetConfigs { id: TopicId(1), configs: vec![("cleanup.policy".into(), "compact".into())] };
    assert!(matches!(state.apply(&compacted), Err(Refused::Config(error)) if error.name == "cleanup.policy"));
    assert_eq!(State::default().apply(&create(3, "c", 1)), Err(Refused::NoBroker));
}

#[test]
fn the_epoch_rises_above_every_one_seen_and_reaches_every_journal() {
    let mut state = with(&[register(1, 2), create(1, "a", 2)]);
    let raise = |above| Command::RaiseEpoch { broker: BrokerId(1), above: Epoch(above) };
    assert_eq!(state.apply(&raise(0)).expect("accepted").answer, Answer::Epoch(Epoch(1)));
    assert_eq!(state.apply(&raise(40)).expect("accepted").answer, Answer::Epoch(Epoch(41)));
    assert_eq!(state.apply(&raise(3)).expect("accepted").answer, Answer::Epoch(Epoch(42)));
    assert!(state.journals().all(|(_, journal)| journal.epoch == Epoch(42)));
}

#[test]
fn producer_ids_are_given_once() {
    let mut state = State::default();
    let take = Command::AllocateProducerIds { count: 1000 };
    assert_eq!(state.apply(&take).expect("accepted").answer, Answer::ProducerIds(ProducerId(1), 1000));
    assert_eq!(state.apply(&take).expect("accepted").answer, Answer::ProducerIds(ProducerId(1001), 1000));
}

fn any_command() -> impl Strategy<Value = Command> {
    let id = || (0u128..8).prop_map(TopicId);
    let name =
        prop_oneof![Just("a"), Just("b"), Just("a.b"), Just("a_b"), Just("bad name"), Just("__consumer_offsets")];
    let config = prop_oneof![
        Just(("retention.ms", "5")),
        Just(("segment.bytes", "100")),
        Just(("cleanup.policy", "delete")),
        Just(("cleanup.policy", "compact")),
        Just(("nonsense", "1")),
        Just(("leader.replication.throttled.replicas", "0:1,0:2")),
    ];
    let class = prop_oneof![Just(CLASS), Just(JournalClass { lifetime: Lifetime::Long, internal: true, ..CLASS })];
    let op = prop_oneof![Just(ConfigOp::Set), Just(ConfigOp::Delete), Just(ConfigOp::Append), Just(ConfigOp::Subtract)];
    let text = |(name, value): (&str, &str)| (Arc::<str>::from(name), Arc::<str>::from(value));
    prop_oneof![
        (0u128..3, 0u16..4).prop_map(|(devices, journals)| register(devices, journals)),
        (-1i32..50).prop_map(|above| Command::RaiseEpoch { broker: BrokerId(1), above: Epoch(above) }),
        (
            id(),
            name,
            0u32..6,
            class.clone(),
            prop::collection::vec(config.clone().prop_map(text), 0..3),
            any::<[u8; 16]>()
        )
            .prop_map(|(id, name, partitions, class, configs, entropy)| Command::CreateTopic {
                id,
                name: name.to_string().into(),
                partitions,
                class,
                configs,
                entropy: Entropy(entropy),
            }),
        id().prop_map(|id| Command::DeleteTopic { id }),
        (id(), 0u32..9, class, any::<[u8; 16]>()).prop_map(|(id, total, class, entropy)| {
            Command::CreatePartitions { id, total, class, entropy: Entropy(entropy) }
        }),
        (id(), prop::collection::vec(config.clone().prop_map(text), 0..3))
            .prop_map(|(id, configs)| Command::SetConfigs { id, configs }),
        (id(), prop::collection::vec((config.prop_map(text), op, any::<bool>()), 0..3)).prop_map(|(id, changes)| {
            let change = |((name, value), op, some): ((Arc<str>, Arc<str>), ConfigOp, bool)| ConfigChange {
                name,
                op,
                value: some.then_some(value),
            };
            Command::AlterConfigs { id, changes: changes.into_iter().map(change).collect() }
        }),
        (0u32..200_000).prop_map(|count| Command::AllocateProducerIds { count }),
    ]
}

fn check_invariants(state: &State) {
    let mut ids = BTreeSet::new();
    let mut by_journal = BTreeMap::<JournalId, u32>::new();
    for topic in state.topics() {
        assert_eq!(state.topic_by_id(topic.id), Some(topic));
        assert!(!topic.partitions.is_empty());
        for partition in &topic.partitions {
            assert!(ids.insert(partition.id), "a partition id twice");
            assert!(partition.id < state.partitions_below());
            *by_journal.entry(partition.home.journal).or_default() += 1;
        }
    }
    assert_eq!(ids.len() as u64, state.partition_count());
    let mut seats = BTreeSet::new();
    for (id, journal) in state.journals() {
        assert_eq!(journal.partitions, by_journal.remove(&id).unwrap_or(0));
        assert!(seats.insert((journal.class, journal.broker, journal.slot)), "a seat twice");
        assert!(journal.epoch <= state.epoch());
    }
    assert!(by_journal.is_empty(), "a partition in no journal");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_commands_keep_the_invariants_and_replay_to_the_same_state(
        commands in prop::collection::vec(any_command(), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(commands.len());
        let mut state = State::default();
        let mut snapshot = codec::encode_state(&state);
        let mut ids_before = BTreeSet::new();
        for (i, command) in commands.iter().enumerate() {
            if i == cut {
                snapshot = codec::encode_state(&state);
            }
            let before = state.clone();
            let checked = state.check(command);
            let applied = state.apply(command);
            prop_assert_eq!(checked.is_ok(), applied.is_ok(), "check and apply agree");
            match applied {
                Err(_) => prop_assert_eq!(&state, &before),
                Ok(applied) => ids_before.extend(applied.change.deleted_partitions),
            }
            check_invariants(&state);
            prop_assert!(state.epoch() >= before.epoch());
            for topic in state.topics() {
                prop_assert!(topic.partitions.iter().all(|partition| !ids_before.contains(&partition.id)));
            }
        }
        // A snapshot and the rest of the log, both through bytes, give the same state.
        let mut replayed = codec::decode_state(&snapshot).expect("our own bytes");
        for command in &commands[cut..] {
            let bytes = codec::encode_command(command);
            let decoded = codec::decode_command(&bytes).expect("our own bytes");
            prop_assert_eq!(&decoded, command);
            let _ = replayed.apply(&decoded);
        }
        prop_assert_eq!(replayed, state);
    }
}
