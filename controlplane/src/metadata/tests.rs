#![allow(clippy::unwrap_used, reason = "a test fails where it does not hold")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use base::image::{JournalClass, Lifetime};
use base::{BrokerId, ClusterId, Epoch};
use cluster::command::{DeviceUuid, Entropy};
use cluster::{Local, State};
use tempfile::TempDir;

mod crash;

use super::*;

fn local(identity: Identity) -> Local {
    Local {
        cluster: identity.cluster,
        broker: identity.broker,
        listeners: Arc::new([]),
        devices: vec![DeviceUuid(1)],
        shards: 1,
        defaults: crate::settings::topic_defaults(),
        hash_seed: 1,
    }
}

fn open(path: &Path) -> (MetadataFile, State) {
    MetadataFile::open(path, None, None).unwrap()
}

fn start(path: &Path) -> SingleStore {
    let (file, state) = open(path);
    let local = local(file.identity());
    SingleStore::start(file, state, local, 2, Epoch(0), Arc::default()).unwrap()
}

fn create(id: u128, name: &str) -> Command {
    Command::CreateTopic {
        id: TopicId(id),
        name: name.into(),
        partitions: 3,
        class: JournalClass { replicas: 1, compacted: false, lifetime: Lifetime::Medium, internal: false },
        configs: vec![],
        entropy: Entropy([3; 16]),
    }
}

fn path(dir: &TempDir) -> PathBuf {
    dir.path().join("meta/metadata.redb")
}

#[test]
fn a_file_has_its_name_only_when_it_is_whole_and_what_a_crash_left_of_one_is_begun_anew() {
    let dir = TempDir::new().unwrap();
    let path = path(&dir);
    let making = path.with_extension("new");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // As long as a new one, and nothing of it was flushed: no magic number.
    fs::write(&making, vec![0u8; 1 << 20]).unwrap();
    let identity = open(&path).0.identity();
    assert!(path.exists() && !making.exists());
    assert_eq!(open(&path).0.identity(), identity);
    // What has its name and is no database is somebody's, or harmed: it is left as it is.
    fs::write(&path, vec![0u8; 1 << 20]).unwrap();
    let refused = MetadataFile::open(&path, None, None).unwrap_err();
    assert!(refused.to_string().contains("metadata.redb"), "{refused}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
}

#[test]
fn identity_is_drawn_once_and_another_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let path = path(&dir);
    let first = open(&path).0.identity();
    assert_ne!(first.cluster, ClusterId(0));
    assert_eq!(first.broker, BrokerId(1));
    assert_eq!(open(&path).0.identity(), first);
    assert_eq!(MetadataFile::open(&path, Some(first.cluster), Some(BrokerId(1))).unwrap().0.identity(), first);
    let other = MetadataFile::open(&path, Some(ClusterId(5)), None).unwrap_err();
    assert!(matches!(other, MetadataError::Identity { key: "cluster.id", .. }), "{other}");
    let other = MetadataFile::open(&path, None, Some(BrokerId(2))).unwrap_err().to_string();
    assert!(other.contains("node.id is 2") && other.contains("belongs to 1"), "{other}");
}

#[test]
fn a_second_opener_is_told_that_the_file_is_in_use() {
    let dir = TempDir::new().unwrap();
    let _first = open(&path(&dir));
    let second = MetadataFile::open(&path(&dir), None, None).unwrap_err();
    assert!(matches!(second, MetadataError::InUse(_)), "{second}");
}

#[test]
fn a_newer_format_and_a_foreign_file_are_refused() {
    let dir = TempDir::new().unwrap();
    let path = path(&dir);
    drop(open(&path));
    {
        let table: redb::TableDefinition<'static, &str, &[u8]> = redb::TableDefinition::new("identity");
        let database = redb::Database::create(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(table).unwrap().insert("format", &9u32.to_le_bytes()[..]).unwrap();
        transaction.commit().unwrap();
    }
    let error = MetadataFile::open(&path, None, None).unwrap_err();
    assert!(matches!(error, MetadataError::Newer { found: 9, .. }), "{error}");
    fs::write(&path, [b'x'; 8192]).unwrap();
    let error = MetadataFile::open(&path, None, None).unwrap_err();
    assert!(error.to_string().contains("metadata.redb"), "{error}");
}

#[test]
fn the_file_has_no_holes() {
    let dir = TempDir::new().unwrap();
    drop(open(&path(&dir)));
    let known = fs::metadata(path(&dir)).unwrap();
    assert!(known.blocks() * 512 >= known.len(), "{} blocks for {} bytes", known.blocks(), known.len());
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_kill() {
    let dir = TempDir::new().unwrap();
    let store = start(&path(&dir));
    for i in 1..=20u128 {
        store.propose(create(i, &format!("t{i}"))).await.unwrap();
        // The file as a killed process would leave it: no orderly close.
        let copy = dir.path().join(format!("copy{i}.redb"));
        fs::copy(path(&dir), &copy).unwrap();
        let (_, state) = open(&copy);
        assert_eq!(state.topics().count() as u128, i);
        assert_eq!(state.topic_by_id(TopicId(i)), store.topic_by_id(TopicId(i)).as_ref());
    }
}

#[tokio::test]
async fn every_start_has_a_higher_epoch_than_all_seen() {
    let dir = TempDir::new().unwrap();
    let mut last = 0;
    for seen in [0, 0, 30, 2] {
        let (file, state) = open(&path(&dir));
        let local = local(file.identity());
        let store = SingleStore::start(file, state, local, 2, Epoch(seen), Arc::default()).unwrap();
        if store.topic("t").is_none() {
            store.propose(create(1, "t")).await.unwrap();
        }
        let image = store.image();
        let epoch = image.topics.get("t").unwrap().partitions[0].epoch.0;
        assert!(epoch > last && epoch > seen, "{epoch} after {last}, seen {seen}");
        assert!(image.journals.values().all(|journal| journal.epoch.0 == epoch));
        last = epoch;
    }
}

#[tokio::test]
async fn a_long_log_becomes_a_snapshot_and_replays_to_the_same_state() {
    let dir = TempDir::new().unwrap();
    let store = start(&path(&dir));
    store.propose(create(1, "t")).await.unwrap();
    let long = "0:1,".repeat(2000);
    for i in 0..80 {
        let value: Arc<str> = format!("{long}{i}").into();
        let configs = vec![("leader.replication.throttled.replicas".into(), value)];
        store.propose(Command::SetConfigs { id: TopicId(1), configs }).await.unwrap();
    }
    let kept = store.topic("t").unwrap();
    drop(store);
    let (file, state) = open(&path(&dir));
    assert!(!file.wants_snapshot(), "80 × 8 KB is more than a log may hold");
    assert_eq!(state.topic("t"), Some(&kept));
}

#[tokio::test]
async fn refusals_reach_who_proposed_and_do_not_stop_the_store() {
    let dir = TempDir::new().unwrap();
    let store = start(&path(&dir));
    store.propose(create(1, "t")).await.unwrap();
    let refused = store.propose(create(2, "t")).await.unwrap_err();
    assert_eq!(refused, ProposeError::Refused(Refused::TopicExists));
    // Two at once pass the check together; the second is refused when applied.
    let (a, b) = tokio::join!(store.propose(create(3, "u")), store.propose(create(4, "u")));
    assert_eq!([&a, &b].iter().filter(|result| result.is_ok()).count(), 1, "{a:?} {b:?}");
    store.propose(create(5, "v")).await.unwrap();
    assert_eq!(store.failed(), None);
}

#[derive(Default)]
struct Collected(Mutex<Vec<(u64, usize)>>);

impl Publish for Collected {
    fn publish(&self, image: &Arc<Image>, delta: &Arc<Delta>) -> Applying {
        self.0.lock().unwrap().push((image.generation, delta.topics.len()));
        Applying::done()
    }
}

#[tokio::test]
async fn images_are_published_in_order_before_the_answer() {
    let dir = TempDir::new().unwrap();
    let store = start(&path(&dir));
    let seen = Arc::new(Collected::default());
    store.attach(seen.clone());
    let first = store.image().generation;
    let names: Vec<String> = (0..50).map(|i| format!("t{i}")).collect();
    let all = names.iter().zip(1u128..).map(|(name, id)| store.propose(create(id, name)));
    let mut tasks = Vec::new();
    for one in all {
        tasks.push(one);
    }
    for one in tasks {
        let committed = one.await.unwrap();
        let Answer::Topic(topic) = committed.answer else { panic!("no topic") };
        assert!(store.image().topics.get(&topic.name).is_some());
        assert!(committed.applying.wait(Duration::ZERO).await);
    }
    let seen = seen.0.lock().unwrap();
    assert_eq!(seen.iter().map(|(_, topics)| topics).sum::<usize>(), 50);
    assert!(seen.iter().enumerate().all(|(i, (generation, _))| *generation == first + 1 + i as u64));
}
