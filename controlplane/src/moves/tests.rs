#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails where it does not hold")]

use std::collections::HashMap;

use base::Epoch;
use base::message::Bounds;
use cluster::command::Entropy;
use protocol::error::ErrorCode;

use super::hot::Watch;
use super::*;
use crate::control::tests::{Bench, FakeLog};

/// A topic of four partitions, two in each of two journals, one on each shard.
async fn bench() -> Bench {
    let bench = Bench::start();
    bench.topic("t", (0..4).map(|_| FakeLog { end: 40, ..FakeLog::default() }).collect()).await;
    bench
}

fn partition(bench: &Bench, index: usize) -> PartitionEntry {
    bench.control.context().store.image().topics.get("t").unwrap().partitions[index]
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}

async fn set(bench: &Bench, name: &str, value: &str) {
    let context = bench.control.context();
    let id = context.store.topic("t").unwrap().id;
    let configs = vec![(name.into(), value.into())];
    context.change(Command::SetConfigs { id, configs }, Duration::from_secs(5)).await.unwrap();
}

fn class_of(bench: &Bench, index: usize) -> base::image::Lifetime {
    let image = bench.control.context().store.image();
    image.journals.get(&partition(bench, index).journal).unwrap().class.lifetime
}

#[tokio::test]
async fn a_partition_goes_where_it_is_sent() {
    let bench = bench().await;
    let (from, to) = (partition(&bench, 0).journal, partition(&bench, 1).journal);
    begin(bench.control.context(), "t", 0, to).await.unwrap();
    until("it is there", || partition(&bench, 0).journal == to).await;
    let image = bench.control.context().store.image();
    let homes = image.homes.get(&partition(&bench, 0).id).unwrap();
    assert_eq!((homes.earlier[0].journal, homes.first), (from, Offset(40)));
    assert_eq!(bench.shards.logs.lock().unwrap()[&homes.partition].opened, [to]);
    until("it is counted", || view::moves(bench.control.context()).moved == 1).await;
    let report = view::moves(bench.control.context());
    assert_eq!((report.spread, report.moving.len(), report.cancelled), (1, 0, 0));
}

#[tokio::test]
async fn a_step_that_cannot_be_taken_yet_is_taken_again() {
    let bench = bench().await;
    *bench.shards.refuse_close.lock().unwrap() = vec![Refusal::Busy, Refusal::Moved];
    *bench.shards.refuse_open.lock().unwrap() = vec![Refusal::Full, Refusal::Busy];
    let to = partition(&bench, 1).journal;
    begin(bench.control.context(), "t", 0, to).await.unwrap();
    until("it is there", || partition(&bench, 0).journal == to).await;
}

#[tokio::test]
async fn a_partition_that_cannot_go_stays_and_says_so() {
    let bench = bench().await;
    let to = partition(&bench, 1).journal;
    for refuse in [&bench.shards.refuse_close, &bench.shards.refuse_open] {
        let before = partition(&bench, 0);
        let given_up = view::moves(bench.control.context()).cancelled;
        *refuse.lock().unwrap() = vec![Refusal::Fenced];
        begin(bench.control.context(), "t", 0, to).await.unwrap();
        until("it is given up", || view::moves(bench.control.context()).cancelled == given_up + 1).await;
        assert_eq!(partition(&bench, 0), before);
        let image = bench.control.context().store.image();
        assert!(image.homes.values().all(|homes| homes.moving.is_none() && homes.earlier.is_empty()));
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_reason() {
    let bench = bench().await;
    let context = bench.control.context();
    let (here, there) = (partition(&bench, 0).journal, partition(&bench, 1).journal);
    let refused = |outcome: Result<(), Failure>| outcome.unwrap_err().code;
    assert_eq!(refused(begin(context, "t", 0, here).await), ErrorCode::INVALID_REQUEST);
    assert_eq!(refused(begin(context, "t", 0, JournalId(99)).await), ErrorCode::INVALID_REQUEST);
    assert_eq!(refused(begin(context, "t", 9, there).await), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(refused(begin(context, "u", 0, there).await), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(refused(begin(context, "__consumer_offsets", 0, there).await), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    bench.shards.refuse_close.lock().unwrap().extend([Refusal::Busy; 50]);
    begin(context, "t", 0, there).await.unwrap();
    assert_eq!(refused(begin(context, "t", 0, there).await), ErrorCode::REASSIGNMENT_IN_PROGRESS);
}

#[tokio::test]
async fn partitions_follow_their_topics_lifetime_and_none_is_left_behind() {
    let bench = Bench::with(|settings| settings.moves_at_a_time = 2);
    bench.topic("t", (0..9).map(|_| FakeLog { end: 40, ..FakeLog::default() }).collect()).await;
    for (value, lifetime) in [
        ("3600000", base::image::Lifetime::Short),
        ("-1", base::image::Lifetime::Long),
        ("604800000", base::image::Lifetime::Medium),
    ] {
        set(&bench, "retention.ms", value).await;
        until("all are there", || (0..9).all(|index| class_of(&bench, index) == lifetime)).await;
    }
    // A change that is none moves nothing.
    until("all are counted", || view::moves(bench.control.context()).moved == 27).await;
    let moved = view::moves(bench.control.context()).moved;
    set(&bench, "retention.ms", "604700000").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(view::moves(bench.control.context()).moved, moved);
}

#[tokio::test]
async fn an_old_home_is_asked_what_expires_and_given_up_when_it_is_empty() {
    let bench = bench().await;
    let to = partition(&bench, 1).journal;
    begin(bench.control.context(), "t", 0, to).await.unwrap();
    until("it is there", || partition(&bench, 0).journal == to).await;
    let id = partition(&bench, 0).id;
    bench.shards.logs.lock().unwrap().get_mut(&id).unwrap().expires = Some(30);
    until("the log start moves", || bench.shards.logs.lock().unwrap()[&id].start == 30).await;
    until("the old home hears of it", || bench.shards.expired.lock().unwrap().contains(&(0, 30))).await;
    bench.shards.logs.lock().unwrap().get_mut(&id).unwrap().expires = Some(40);
    let image = || bench.control.context().store.image();
    until("it is given up", || image().homes.get(&id).is_some_and(|homes| homes.earlier.is_empty())).await;
    assert_eq!(image().homes.get(&id).unwrap().first, Offset(40));
}

#[test]
fn offsets_are_looked_for_in_the_home_that_has_them() {
    let hash = base::image::SeededHash(1);
    let entry = PartitionEntry { id: PartitionId(1), journal: JournalId(2), shard: ShardId(1), epoch: Epoch(0) };
    let mut image = Image {
        generation: 1,
        cluster: base::ClusterId(1),
        broker: base::BrokerId(1),
        listeners: Arc::new([]),
        topics: base::image::SharedMap::new(hash),
        topics_by_id: base::image::SharedMap::new(hash),
        journals: base::image::SharedMap::new(hash),
        homes: base::image::SharedMap::new(hash),
        partitions_below: PartitionId(2),
    };
    let open = Stretch { shard: ShardId(1), from: Offset(0), upto: Offset(i64::MAX) };
    assert_eq!(stretches(&image, &entry), [open]);
    let home =
        |shard, first| HomeEntry { journal: JournalId(first), shard: ShardId(shard), first: Offset(first as i64) };
    let homes = Homes {
        partition: PartitionId(1),
        topic: TopicId(1),
        index: 0,
        earlier: vec![home(3, 10), home(4, 20)],
        first: Offset(30),
        journal: JournalId(2),
        since: 0,
        moving: None,
    };
    image.homes.insert(PartitionId(1), Arc::new(homes));
    let stretch = |shard, from, upto| Stretch { shard: ShardId(shard), from: Offset(from), upto: Offset(upto) };
    assert_eq!(stretches(&image, &entry), [stretch(3, 10, 20), stretch(4, 20, 30), stretch(1, 30, i64::MAX)]);
    let at = |offset| shard_at(&image, &entry, Offset(offset)).0;
    assert_eq!([at(0), at(10), at(19), at(20), at(29), at(30), at(99)], [1, 3, 3, 4, 4, 1, 1]);
}

/// Two journals of one class and one of another; partitions 1 and 2 in the first, 3 in the second.
async fn loads() -> (Bench, Vec<PartitionEntry>) {
    let bench = bench().await;
    let all = (0..4).map(|index| partition(&bench, index)).collect();
    (bench, all)
}

fn size(entry: &PartitionEntry, written: u64) -> PartitionSize {
    let bounds =
        Bounds { log_start: Offset(0), high_watermark: Offset(0), log_end: Offset(0), epoch: Epoch(0), bytes: 0 };
    PartitionSize { partition: entry.id, journal: entry.journal, bounds, written }
}

/// What is due over so many looks of ten seconds, in which each partition writes so many bytes a second.
fn looks(watch: &mut Watch, image: &Image, all: &[PartitionEntry], rates: &[u64], count: u64) -> Vec<hot::Hot> {
    let mut written: HashMap<PartitionId, u64> = HashMap::new();
    let now = Instant::now();
    let mut due = Vec::new();
    for _ in 0..=count {
        let sizes: Vec<PartitionSize> =
            all.iter().map(|entry| size(entry, written.get(&entry.id).copied().unwrap_or(0))).collect();
        due.extend(watch.look(image, &sizes, Some(10), 1000, now));
        for (entry, rate) in all.iter().zip(rates) {
            *written.entry(entry.id).or_default() += rate * 10;
        }
    }
    due
}

#[tokio::test]
async fn a_partition_that_crowds_out_others_moves_once_and_only_where_that_helps() {
    let (bench, all) = loads().await;
    let image = bench.control.context().store.image();
    // Partitions 0 and 2 share a journal, 1 and 3 the other.
    let run = |rates: &[u64], count| looks(&mut Watch::default(), &image, &all, rates, count);
    let moved = run(&[7000, 100, 3000, 100], 30);
    assert_eq!(moved.len(), 1, "once, and then it rests: {moved:?}");
    assert_eq!((moved[0].partition, moved[0].from, moved[0].to), (all[0].id, all[0].journal, all[1].journal));
    assert_eq!(moved[0].rate, 7000);
    assert!(run(&[7000, 100, 3000, 100], 5).is_empty(), "not at once");
    assert!(run(&[800, 1, 100, 1], 30).is_empty(), "too little to matter");
    assert!(run(&[8000, 100, 100, 100], 30).is_empty(), "who is alone gains nothing");
    assert!(run(&[5000, 100, 4000, 100], 30).is_empty(), "not most of it");
    assert!(run(&[8000, 4000, 2000, 4000], 30).is_empty(), "there is no room elsewhere");
    // To and fro: the picture changes before it has lasted.
    let mut watch = Watch::default();
    for _ in 0..10 {
        assert!(looks(&mut watch, &image, &all, &[7000, 100, 3000, 100], 3).is_empty());
        assert!(looks(&mut watch, &image, &all, &[3000, 100, 7000, 100], 3).is_empty());
    }
}

#[tokio::test]
async fn a_move_that_was_written_down_before_a_start_is_led_to_its_end() {
    let bench = bench().await;
    let context = bench.control.context();
    let to = partition(&bench, 1).journal;
    let id = context.store.topic("t").unwrap().id;
    let command = Command::Move { id, partition: 0, to: MoveTo::Journal(to), entropy: Entropy([0; 16]) };
    context.store.propose(command).await.unwrap();
    until("somebody leads it", || partition(&bench, 0).journal == to).await;
}
