#![allow(clippy::unwrap_used, reason = "a test fails where it does not hold")]

use base::image::{SeededHash, SharedMap};
use base::message::Bounds;
use base::{BrokerId, ClusterId, Epoch, Offset, PartitionId};

use super::*;

const BOUND: Duration = Duration::from_secs(5);

fn bounds() -> ShardCommand {
    ShardCommand::Bounds { partition: PartitionId(1) }
}

fn outcome(n: i64) -> Outcome {
    let at = Offset(n);
    Outcome::Bounds(Bounds { log_start: at, high_watermark: at, log_end: at, epoch: Epoch(1), bytes: 0 })
}

fn image() -> Arc<Image> {
    let hash = SeededHash(1);
    Arc::new(Image {
        generation: 1,
        cluster: ClusterId(1),
        broker: BrokerId(1),
        listeners: Arc::new([]),
        topics: SharedMap::new(hash),
        topics_by_id: SharedMap::new(hash),
        journals: SharedMap::new(hash),
        homes: SharedMap::new(hash),
        partitions_below: PartitionId(1),
    })
}

fn token(message: ToShard) -> u64 {
    match message {
        ToShard::Command { token, .. } | ToShard::Apply { token, .. } => token,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn outcomes_find_who_asked_in_any_order() {
    let (sender, mut shard) = mpsc::channel(8);
    let links = ShardLinks::new(vec![sender]);
    let (a, b, ()) =
        tokio::join!(links.ask(ShardId(0), bounds(), BOUND), links.ask(ShardId(0), bounds(), BOUND), async {
            let (first, second) = (token(shard.recv().await.unwrap()), token(shard.recv().await.unwrap()));
            links.done(second, Ok(outcome(2)));
            links.done(first, Ok(outcome(1)));
        });
    assert!(matches!(a, Ok(Outcome::Bounds(b)) if b.log_start == Offset(1)));
    assert!(matches!(b, Ok(Outcome::Bounds(b)) if b.log_start == Offset(2)));
}

#[tokio::test]
async fn a_question_that_is_given_up_leaves_nothing_behind() {
    let (sender, mut shard) = mpsc::channel(8);
    let links = ShardLinks::new(vec![sender]);
    let asked = links.ask(ShardId(0), bounds(), Duration::from_millis(1)).await;
    assert_eq!(asked.unwrap_err(), ShardError::TimedOut);
    assert!(links.lock().is_empty());
    links.done(token(shard.recv().await.unwrap()), Ok(outcome(1)));
}

#[tokio::test]
async fn a_stopped_shard_owes_nobody() {
    let (sender, _shard) = mpsc::channel(8);
    let links = ShardLinks::new(vec![sender]);
    let (asked, ()) = tokio::join!(links.ask(ShardId(0), bounds(), BOUND), async {
        tokio::task::yield_now().await;
        links.stopped(ShardId(0));
    });
    assert_eq!(asked.unwrap_err(), ShardError::Refused(Refusal::Stopping));
    assert_eq!(
        links.ask(ShardId(3), bounds(), BOUND).await.unwrap_err(),
        ShardError::Refused(Refusal::UnknownPartition)
    );
}

#[tokio::test]
async fn metadata_is_applied_when_the_last_shard_says_so() {
    let (first, mut shard0) = mpsc::channel(8);
    let (second, mut shard1) = mpsc::channel(8);
    let links = ShardLinks::new(vec![first, second]);
    let publisher = links.clone();
    let publish = move || publisher.publish(&image(), &Arc::new(Delta::default()));
    let applying = tokio::task::spawn_blocking(publish).await.unwrap();
    links.done(token(shard0.recv().await.unwrap()), Ok(Outcome::Applied));
    assert!(!applying.clone().wait(Duration::from_millis(5)).await);
    links.done(token(shard1.recv().await.unwrap()), Ok(Outcome::Applied));
    assert!(applying.wait(BOUND).await);
}

#[tokio::test]
async fn a_shard_that_is_gone_does_not_hold_metadata_up() {
    let (first, shard0) = mpsc::channel(8);
    drop(shard0);
    let links = ShardLinks::new(vec![first]);
    let publish = move || links.publish(&image(), &Arc::new(Delta::default()));
    let applying = tokio::task::spawn_blocking(publish).await.unwrap();
    assert!(applying.wait(BOUND).await);
}
