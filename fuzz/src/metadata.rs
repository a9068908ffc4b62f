//! The cluster's metadata: commands and states as the store keeps them, applied, written again, and made into images.
//!
//! The first byte chooses: even, the rest is a stored state; odd, a log of commands, each behind its length in two bytes. A
//! state that was read takes commands afterwards, too.

use base::image::{JournalClass, Lifetime, TimestampType, TopicConfig};
use base::{BrokerId, ClusterId, Epoch, TopicId};
use cluster::codec::{decode_command, decode_state, encode_command, encode_state};
use cluster::command::{DeviceUuid, Entropy};
use cluster::state::PARTITIONS_MAX;
use cluster::{Command, ConfigChange, ConfigOp, Images, Local, State};

use crate::input::Input;
use crate::within;

const BROKER: BrokerId = BrokerId(1);
const DEVICE: DeviceUuid = DeviceUuid(0xd1);

/// Partitions that one input makes at most, so that an input costs milliseconds.
const PARTITIONS: u64 = 20_000;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    if input.byte() & 1 == 0 {
        // A topic with a name of one byte takes some 20 bytes there, and about 500 in five maps.
        let read = within("a state", 8 << 10, 64, bytes.len(), || decode_state(input.rest()));
        let Ok(mut state) = read else { return };
        written_again(&state);
        for command in commands() {
            let _ = state.apply(&command);
        }
        written_again(&state);
        return;
    }
    let mut state = State::default();
    let mut images = Images::new(&state, local()).expect("an empty state needs no device");
    let mut made = 0;
    while !input.is_empty() {
        let len = usize::from(input.two());
        let bytes = input.take(len);
        let read = within("a command", 4 << 10, 32, bytes.len(), || decode_command(bytes));
        let Ok(command) = read else { continue };
        let again = encode_command(&command);
        assert_eq!(decode_command(&again).as_ref(), Ok(&command), "a command is written as it was read");
        if let Command::CreateTopic { partitions, .. } | Command::CreatePartitions { total: partitions, .. } = command {
            made += u64::from(partitions);
            if made > PARTITIONS {
                return;
            }
        }
        apply(&mut state, &mut images, &command);
    }
    written_again(&state);
}

/// What is refused changes nothing; what is applied is in the image.
fn apply(state: &mut State, images: &mut Images, command: &Command) {
    let checked = state.check(command);
    let before = checked.is_err().then(|| state.clone());
    let applied = state.apply(command);
    assert_eq!(applied.is_err(), checked.is_err(), "a check and what it checks disagree");
    if let Some(before) = before {
        assert_eq!(before, *state, "a refused command changed something");
    }
    let Ok(applied) = applied else { return };
    let (image, _) = images.advance(state, &applied.change);
    assert_eq!(image.topics.len(), state.topics().count(), "topics of the image");
    assert_eq!(image.topics_by_id.len(), state.topics().count(), "topics of the image by id");
    assert_eq!(image.partitions_below, state.partitions_below());
    assert!(state.partition_count() <= PARTITIONS_MAX);
}

/// A state is stored and read as it is, and a first image can be made of it.
fn written_again(state: &State) {
    let stored = encode_state(state);
    let read = decode_state(&stored).expect("what was written is read");
    assert_eq!(read, *state, "a state is written as it was read");
    if let Ok(images) = Images::new(state, local()) {
        assert_eq!(images.image().topics.len(), state.topics().count());
    }
}

fn local() -> Local {
    Local {
        cluster: ClusterId(1),
        broker: BROKER,
        listeners: [].into(),
        devices: vec![DEVICE],
        shards: 2,
        defaults: TopicConfig {
            retention_ms: -1,
            retention_bytes: -1,
            compaction: None,
            max_message_bytes: 1 << 20,
            timestamp_type: TimestampType::Create,
            timestamp_before_ms_max: i64::MAX,
            timestamp_after_ms_max: i64::MAX,
            min_insync_replicas: 1,
        },
        hash_seed: 3,
    }
}

/// One command of each kind, in an order in which all are taken.
fn commands() -> Vec<Command> {
    let class = JournalClass { replicas: 1, compacted: false, lifetime: Lifetime::Medium, internal: false };
    let (id, entropy) = (TopicId(7), Entropy([5; 16]));
    let change =
        |op, value: Option<&str>| ConfigChange { name: "retention.ms".into(), op, value: value.map(Into::into) };
    vec![
        Command::RegisterBroker { broker: BROKER, devices: vec![DEVICE], journals_per_class: 2 },
        Command::RaiseEpoch { broker: BROKER, above: Epoch(3) },
        Command::CreateTopic {
            id,
            name: "orders".into(),
            partitions: 3,
            class,
            configs: vec![("retention.ms".into(), "1000".into())],
            entropy,
        },
        Command::CreatePartitions { id, total: 5, class: JournalClass { lifetime: Lifetime::Long, ..class }, entropy },
        Command::SetConfigs { id, configs: vec![("max.message.bytes".into(), "2000".into())] },
        Command::AlterConfigs { id, changes: vec![change(ConfigOp::Set, Some("5000"))] },
        Command::AlterConfigs { id, changes: vec![change(ConfigOp::Delete, None)] },
        Command::AllocateProducerIds { count: 1000 },
        Command::RaiseEpoch { broker: BROKER, above: Epoch(30) },
        Command::DeleteTopic { id },
    ]
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut state = State::default();
    let mut log = vec![1];
    for command in commands() {
        let bytes = encode_command(&command);
        let len = u16::try_from(bytes.len()).expect("a short command").to_le_bytes();
        seeds.push([&[1], &len[..], &bytes].concat());
        log.extend(len);
        log.extend(bytes);
        state.apply(&command).expect("an order in which all are taken");
        seeds.push([&[0], &encode_state(&state)[..]].concat());
    }
    seeds.push(log);
    seeds
}
