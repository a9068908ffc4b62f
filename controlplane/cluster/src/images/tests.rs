use alloc::vec;

use base::image::TimestampType;
use base::{Epoch, PartitionId, TopicId};

use super::*;
use crate::command::Command;
use crate::state::tests::{create, register, with};

fn local(devices: &[u128], shards: u16) -> Local {
    Local {
        cluster: ClusterId(1),
        broker: BrokerId(1),
        listeners: Arc::new([]),
        devices: devices.iter().map(|uuid| DeviceUuid(*uuid)).collect(),
        shards,
        defaults: TopicConfig {
            retention_ms: 1,
            retention_bytes: 2,
            compaction: None,
            max_message_bytes: 3,
            timestamp_type: TimestampType::Create,
            timestamp_before_ms_max: 4,
            timestamp_after_ms_max: 5,
            min_insync_replicas: 1,
        },
        hash_seed: 42,
    }
}

#[test]
fn images_advance_to_what_a_rebuild_gives() {
    let mut state = with(&[register(2, 3), create(1, "a", 4)]);
    let mut images = Images::new(&state, local(&[1, 2], 2)).expect("devices are there");
    let commands = [
        create(2, "b", 2),
        Command::SetConfigs { id: TopicId(1), configs: vec![("retention.ms".into(), "77".into())] },
        Command::DeleteTopic { id: TopicId(2) },
        create(3, "b", 1),
        Command::RaiseEpoch { broker: BrokerId(1), above: Epoch(5) },
        create(4, "c", 9),
    ];
    for command in commands {
        let before = images.image().clone();
        let applied = state.apply(&command).expect("accepted");
        let (image, delta) = images.advance(&state, &applied.change);
        assert_eq!(image.generation, before.generation + 1);
        let fresh = Images::new(&state, local(&[1, 2], 2)).expect("devices are there");
        assert_eq!(image.topics.len(), fresh.image().topics.len());
        assert_eq!(image.topics_by_id.len(), fresh.image().topics.len());
        assert_eq!(image.journals.len(), fresh.image().journals.len());
        assert_eq!(image.partitions_below, fresh.image().partitions_below);
        for topic in state.topics() {
            let entry = image.topics.get(&*topic.name).expect("there");
            assert_eq!(Some(entry), fresh.image().topics.get(&*topic.name));
            assert_eq!(Some(entry), image.topics_by_id.get(&topic.id));
        }
        for entry in &delta.topics {
            assert_eq!(Some(entry), image.topics.get(&entry.name));
        }
        for entry in &delta.journals {
            assert_eq!(Some(entry), image.journals.get(&entry.id));
        }
    }
    assert_eq!(images.image().topics.get("a").expect("there").config.retention_ms, 77);
    assert_eq!(images.image().topics.get("c").expect("there").config.retention_ms, 1);
}

#[test]
fn a_deletion_tells_the_partition_ids_and_leaves_the_old_image_alone() {
    let mut state = with(&[register(1, 1), create(1, "a", 2)]);
    let mut images = Images::new(&state, local(&[1], 1)).expect("devices are there");
    let before = images.image().clone();
    let applied = state.apply(&Command::DeleteTopic { id: TopicId(1) }).expect("accepted");
    let (image, delta) = images.advance(&state, &applied.change);
    assert_eq!(delta.deleted, [PartitionId(1), PartitionId(2)]);
    assert!(image.topics.is_empty() && image.topics_by_id.is_empty());
    assert!(before.topics.get("a").is_some());
}

#[test]
fn journals_of_a_class_go_round_the_shards() {
    let state = with(&[register(1, 4), create(1, "a", 4)]);
    for (shards, expected) in [(1, [4, 0]), (2, [2, 2])] {
        let images = Images::new(&state, local(&[1], shards)).expect("devices are there");
        let topic = images.image().topics.get("a").expect("there").clone();
        for (shard, count) in expected.into_iter().enumerate() {
            assert_eq!(topic.partitions.iter().filter(|p| usize::from(p.shard.0) == shard).count(), count);
        }
    }
}

#[test]
fn a_missing_device_is_named() {
    let state = with(&[register(2, 2), create(1, "a", 2)]);
    let missing = Images::new(&state, local(&[1], 1)).expect_err("device 2 is gone");
    assert_eq!(missing.device, DeviceUuid(2));
}
