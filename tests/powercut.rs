//! The real binary on a disk that loses what was not flushed.
//!
//! A broker runs under load on a disk that logs every write and flush; the load notes with each answer how long that log was.
//! Then the disk is made anew as it may be after the power went at some point of the log, a broker starts on it, and everything
//! that was answered by then must be there. `BARELOG_POWER_CUTS` says how many points.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/wire.rs"]
mod wire;

mod common;

#[path = "common/disk.rs"]
mod disk;

#[path = "common/load.rs"]
mod load;

#[path = "powercut/aside.rs"]
mod aside;

#[path = "powercut/writes.rs"]
mod writes;

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aside::Aside;
use common::{Broker, folder, free_address, skip};
use disk::{Export, Loop, Mount};
use load::{Load, Watch};
use wire::{Attempt, Wire};
use writes::{Cuts, Image, Log, Random};

const TOPIC: &str = "cut";
const PARTITIONS: i32 = 4;

/// Bound of the data device: ten extents.
const DATA: u64 = 704 << 20;

/// What lies on the disk: the data directory on an ext4, which for a raw device ends where that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// The data file lies in the data directory.
    File,
    /// The data device is the rest of the disk.
    Block,
}

impl Layout {
    const fn file_system(self) -> u64 {
        match self {
            Self::File => DATA + (320 << 20),
            Self::Block => 128 << 20,
        }
    }

    const fn len(self) -> u64 {
        match self {
            Self::File => self.file_system(),
            Self::Block => self.file_system() + DATA,
        }
    }
}

/// A disk in use.
struct Disk {
    // Dropped in this order.
    mount: Mount,
    raw: Option<Loop>,
}

impl Disk {
    fn attach(layout: Layout, image: &Path, folder: &Path) -> Result<Self, String> {
        let mount = Mount::new(Loop::attach(image, 0, layout.file_system()), folder)?;
        let raw = (layout == Layout::Block).then(|| Loop::attach(image, layout.file_system(), DATA));
        Ok(Self { mount, raw })
    }

    /// Starts a broker on it; `aside` is a folder elsewhere for its configuration and its log.
    fn serve(&self, aside: &Path, shards: u16, kafka: SocketAddr, http: SocketAddr) -> Broker {
        let data = self.mount.folder().join("data");
        let device = match &self.raw {
            Some(raw) => (raw.path().to_path_buf(), None),
            None => (data.join("device.barelog"), Some(DATA)),
        };
        // An operator makes the folder that a device lies in.
        std::fs::create_dir_all(&data).unwrap();
        let config = aside.join("barelog.toml");
        std::fs::write(&config, disk::config(&data, aside, &[device], shards, kafka, http)).unwrap();
        Broker::serve_without_waiting(&config, &aside.join("broker.log"), kafka, http)
    }
}

/// Everything that was noted while a broker ran on a disk that logs.
struct Recording {
    layout: Layout,
    shards: u16,
    before: Image,
    log: Log,
    /// Entries in the log when the topic was there.
    created: u64,
    loads: Vec<Load>,
    aside: Aside,
}

/// Runs a broker under load, killed and started anew `lives` times.
fn record(layout: Layout, shards: u16, lives: u64, dir: &Path) -> Recording {
    let (image, log) = (dir.join("disk.img"), dir.join("writes.log"));
    disk::format(&image, layout.len(), layout.file_system());
    let before = Image::load(&image);
    File::create(&log).unwrap().set_len(1 << 40).unwrap();
    let nodes = [
        format!("driver=file,node-name=disk,filename={},discard=unmap,cache.no-flush=on", image.display()),
        format!("driver=file,node-name=log,filename={},cache.no-flush=on", log.display()),
        // The number of entries is always up to date: the load reads it with each answer.
        "driver=blklogwrites,node-name=top,file=disk,log=log,discard=unmap,log-sector-size=512,log-super-update-interval=1"
            .into(),
    ];
    let export = Export::start(dir, &nodes, "top", layout.len());
    let entries = File::open(&log).unwrap();
    let clock = || writes::count(&entries);

    let disk = Disk::attach(layout, export.path(), &dir.join("mount")).unwrap();
    let (kafka, http) = (free_address(), free_address());
    let start = || {
        let mut broker = disk.serve(dir, shards, kafka, http);
        broker.wait_until_healthy(Duration::from_secs(60));
        broker
    };
    let mut running = Some(start());
    let settings = [("retention.ms", "-1")];
    assert_eq!(Wire::connect(kafka).unwrap().create_topic(TOPIC, PARTITIONS, &settings).unwrap(), 0);
    let created = clock();
    let address = Mutex::new(kafka);
    let (stop, acks) = (AtomicBool::new(false), AtomicU64::new(0));
    let watch = Watch { address: &address, stop: &stop, acks: &acks, clock: &clock };
    let mut loads: Vec<Load> = (0..PARTITIONS).map(|partition| Load::new(TOPIC, partition)).collect();
    let mut aside = Aside::default();
    std::thread::scope(|scope| {
        for load in &mut loads {
            scope.spawn(|| load.run(&watch));
        }
        scope.spawn(|| aside.run(kafka, TOPIC, &stop, &clock));
        for life in 0..lives {
            if life > 0 {
                running.take().unwrap().kill();
                // A second kill while it recovers.
                let starting = disk.serve(dir, shards, kafka, http);
                std::thread::sleep(Duration::from_millis(60 * life));
                starting.kill();
                running = Some(start());
            }
            let wanted = acks.load(Ordering::Relaxed) + 2000;
            let patience = Instant::now() + Duration::from_secs(60);
            std::thread::sleep(Duration::from_millis(700));
            while acks.load(Ordering::Relaxed) < wanted {
                let said = || running.as_ref().map(Broker::log_text).unwrap_or_default();
                assert!(Instant::now() < patience, "no progress in life {life}:\n{}", said());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(running);
    drop(disk);
    drop(export);
    let recording = Recording { layout, shards, before, log: Log::open(&log), created, loads, aside };
    // What is made of the log is what the disk was.
    let all = Cuts::new(&recording.log, recording.before.clone()).all();
    assert_eq!(all.difference(&Image::load(&image)), None, "the log is not what was written");
    std::fs::remove_file(image).unwrap();
    recording
}

impl Recording {
    /// Starts a broker on the disk as it may be after `at` entries and checks all that was answered by then.
    fn check(&self, image: &Path, at: u64, dir: &Path) -> Attempt<()> {
        let disk = match Disk::attach(self.layout, image, &dir.join("mount")) {
            Ok(disk) => disk,
            // The super block of an ext4 spans two sectors. Its owner says how to mend what a torn write does to it.
            Err(why) => {
                let repair = Loop::attach(image, 0, self.layout.file_system());
                let _ = std::process::Command::new("e2fsck").args(["-y", "-f"]).arg(repair.path()).output();
                Disk::attach(self.layout, image, &dir.join("mount")).map_err(|still| format!("{why}; {still}"))?
            }
        };
        let (kafka, http) = (free_address(), free_address());
        let mut broker = disk.serve(dir, self.shards, kafka, http);
        broker.wait_until_healthy(Duration::from_secs(60));
        let checked = self.check_answers(kafka, at);
        let log = broker.log_text();
        broker.kill();
        checked.map_err(|error| format!("{error}\n{log}"))?;
        // What the power cut tore was never acknowledged: it is the end of the log, not damage.
        if log.contains("damaged") || log.contains("stays closed") { Err(log) } else { Ok(()) }
    }

    fn check_answers(&self, kafka: SocketAddr, at: u64) -> Attempt<()> {
        let mut wire = Wire::connect(kafka)?;
        self.aside.check(&mut wire, at)?;
        match wire.topic_error(TOPIC)? {
            0 => {}
            3 if at < self.created => return Ok(()),
            code => return Err(format!("{TOPIC}: error {code}")),
        }
        for (partition, load) in (0..).zip(&self.loads) {
            let (first, latest) = if partition == aside::TRIMMED { self.aside.trimmed(at) } else { (0, 0) };
            let start = wire.fetch(TOPIC, partition, latest, 1)?.log_start;
            if !(first..=latest).contains(&start) {
                return Err(format!("partition {partition} begins at {start} instead of {first} to {latest}"));
            }
            let end = load.read_back(&mut wire, start)?;
            load.check_acks(at, end)?;
            load.go_on(&mut wire, end)?;
        }
        Ok(())
    }
}

/// Points of a log at which the power goes, from this variable.
fn cuts() -> u64 {
    std::env::var("BARELOG_POWER_CUTS").map_or(6, |count| count.parse().expect("BARELOG_POWER_CUTS is a number"))
}

fn cut_again_and_again(layout: Layout, shards: u16, seed: u64) {
    if let Some(why) = disk::missing() {
        return skip(&why);
    }
    let dir = folder();
    let cuts = cuts();
    let started = Instant::now();
    let recording = record(layout, shards, 3, dir.path());
    let recorded = started.elapsed();
    let entries = recording.log.entries.len() as u64;
    let mut random = Random::new(seed);
    // Most points lie where the broker serves, some where it makes the data directory.
    let mut points: Vec<u64> = (0..cuts)
        .map(|n| match n % 6 {
            5 => random.below(recording.created),
            _ => recording.created + random.below(entries - recording.created + 1),
        })
        .collect();
    points.sort_unstable();
    let image = dir.path().join("cut.img");
    let mut disks = Cuts::new(&recording.log, recording.before.clone());
    for (n, at) in points.iter().copied().enumerate() {
        let what = disks.cut(usize::try_from(at).unwrap(), &mut random, &image, layout.len());
        let aside: PathBuf = dir.path().join(format!("cut-{n}"));
        std::fs::create_dir(&aside).unwrap();
        let checked = recording.check(&image, at, &aside);
        if let Err(error) = checked {
            let kept = std::env::var_os("BARELOG_POWER_KEEP").map(|_| dir.keep());
            panic!("power cut at {at} of {entries}, {what}: {error}\nkept in {kept:?}");
        }
    }
    let acked: u64 = recording.loads.iter().flat_map(|load| &load.acked).map(|ack| ack.count).sum();
    let (recorded, took) = (recorded.as_secs_f32(), started.elapsed().as_secs_f32());
    eprintln!(
        "{layout:?}: {cuts} power cuts in {entries} writes and flushes, {acked} records acknowledged; {recorded:.1} s of {took:.1} s \
         to record"
    );
}

#[test]
fn nothing_answered_is_lost_by_a_power_cut_with_a_data_file() {
    cut_again_and_again(Layout::File, 1, 1);
}

#[test]
fn nothing_answered_is_lost_by_a_power_cut_with_a_block_device_and_two_shards() {
    cut_again_and_again(Layout::Block, 2, 2);
}
