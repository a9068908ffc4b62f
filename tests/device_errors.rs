//! The real binary on a device whose writes, flushes or reads fail, beside one that works.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/wire.rs"]
mod wire;

mod common;

#[path = "common/disk.rs"]
mod disk;

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::Checksums;
use common::{Broker, folder, free_address, http_get, skip};
use disk::{Export, Loop};
use protocol::batch::{BatchBuilder, Batches, Producer};
use wire::Wire;

const TOPIC: &str = "shaken";
/// Enough that some lie on either device.
const PARTITIONS: i32 = 8;
const DEVICE: u64 = 704 << 20;

/// The records are old.
const KEPT: [(&str, &str); 1] = [("retention.ms", "-1")];

const KAFKA_STORAGE_ERROR: i16 = 56;

/// Two raw devices; errors are injected into the first.
struct Lab {
    dir: tempfile::TempDir,
    kafka: SocketAddr,
    http: SocketAddr,
    /// By partition, the numbers of records that were acknowledged.
    acked: Vec<Vec<u64>>,
    next: u64,
}

/// What keeps a broker's devices there.
struct Devices {
    // Dropped in this order.
    loops: [Loop; 2],
    export: Export,
}

fn value(number: u64) -> String {
    format!("record-{number}-of-a-device-that-is-shaken")
}

impl Lab {
    fn new() -> Self {
        let dir = folder();
        for name in ["bad.img", "good.img"] {
            File::create(dir.path().join(name)).unwrap().set_len(DEVICE).unwrap();
        }
        let (kafka, http) = (free_address(), free_address());
        Self { dir, kafka, http, acked: vec![Vec::new(); PARTITIONS.unsigned_abs() as usize], next: 0 }
    }

    fn image(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `rule`: what goes wrong from the start on, as [`rule`] writes it.
    fn devices(&self, rule: Option<&str>) -> Devices {
        let disk = format!("driver=file,node-name=disk,filename={},cache.no-flush=on", self.image("bad.img").display());
        let mut nodes = vec![disk];
        nodes.extend(rule.map(debug_node));
        let below = if rule.is_some() { "debug" } else { "disk" };
        nodes.push(format!("driver=raw,node-name=top,file={below}"));
        let export = Export::start(self.dir.path(), &nodes, "top", DEVICE);
        let loops = [Loop::attach(export.path(), 0, DEVICE), Loop::attach(&self.image("good.img"), 0, DEVICE)];
        Devices { loops, export }
    }

    fn serve(&self, devices: &Devices) -> Broker {
        let data = self.dir.path().join("data");
        let raw = devices.loops.each_ref().map(|device| (device.path().to_path_buf(), None));
        let config = self.dir.path().join("barelog.toml");
        std::fs::write(&config, disk::config(&data, self.dir.path(), &raw, 1, self.kafka, self.http)).unwrap();
        Broker::serve_without_waiting(&config, &self.dir.path().join("broker.log"), self.kafka, self.http)
    }

    fn serve_healthy(&self, devices: &Devices) -> Broker {
        let mut broker = self.serve(devices);
        broker.wait_until_healthy(Duration::from_secs(60));
        broker
    }

    fn wire(&self) -> Wire {
        Wire::connect(self.kafka).unwrap()
    }

    /// Produces a record to every partition; the error code of each.
    fn produce(&mut self, wire: &mut Wire) -> Vec<i16> {
        let mut codes = Vec::new();
        for (partition, acked) in (0..).zip(&mut self.acked) {
            let mut builder = BatchBuilder::new();
            builder.append(1_700_000_000_000, None, Some(value(self.next).as_bytes()), &[]);
            let nobody = Producer { id: -1, epoch: -1, sequence: -1, transactional: false };
            wire.send_produce(TOPIC, partition, builder.finish(nobody, &Checksums::portable())).unwrap();
            let (code, _) = wire.receive_produce().unwrap();
            if code == 0 {
                acked.push(self.next);
            }
            self.next += 1;
            codes.push(code);
        }
        codes
    }

    /// Reads partitions to their end: all that was acknowledged is there, in order. Gives the error of each.
    fn read(&self, wire: &mut Wire) -> Vec<i16> {
        let mut codes = Vec::new();
        for (partition, acked) in (0..).zip(&self.acked) {
            let (mut offset, mut found, mut code) = (0, Vec::new(), 0);
            loop {
                let fetched = wire.fetch(TOPIC, partition, offset, 1 << 20).unwrap();
                code = code.max(fetched.code);
                if code != 0 || offset == fetched.high_watermark {
                    break;
                }
                for view in &mut Batches::new(&fetched.bytes) {
                    let view = view.unwrap();
                    found.extend(view.records().map(|record| record.unwrap().value.unwrap().to_vec()));
                    offset = view.base_offset() + i64::from(view.count());
                }
            }
            if code == 0 {
                let mut all = found.iter();
                for number in acked {
                    let wanted = value(*number);
                    assert!(all.any(|found| found == wanted.as_bytes()), "partition {partition}: {wanted} is lost");
                }
            }
            codes.push(code);
        }
        codes
    }

    fn health(&self) -> (u16, String) {
        http_get(self.http, "/health").unwrap()
    }
}

/// A rule of QEMU's `blkdebug`: every request of this kind fails, or only those that touch a sector.
fn rule(kind: &str, errno: i32, once: bool, sector: Option<usize>) -> String {
    let sector = sector.map(|sector| format!(", \"sector\": {sector}")).unwrap_or_default();
    format!("[{{\"event\": \"none\", \"iotype\": \"{kind}\", \"errno\": {errno}, \"once\": {once}{sector}}}]")
}

fn debug_node(rule: &str) -> String {
    format!("{{\"driver\": \"blkdebug\", \"node-name\": \"debug\", \"image\": \"disk\", \"inject-error\": {rule}}}")
}

impl Devices {
    /// From now on the rule holds.
    fn inject(&self, name: &str, rule: &str) {
        let node = debug_node(rule).replace("\"debug\"", &format!("\"{name}\""));
        self.export.command(&[
            &format!("{{\"execute\": \"blockdev-add\", \"arguments\": {node}}}"),
            &format!(
                "{{\"execute\": \"blockdev-reopen\", \"arguments\": {{\"options\": \
                 [{{\"driver\": \"raw\", \"node-name\": \"top\", \"file\": \"{name}\"}}]}}}}"
            ),
        ]);
    }
}

/// Some partitions are refused with KAFKA_STORAGE_ERROR, and the others work. Which.
fn refused(codes: &[i16]) -> Vec<bool> {
    assert!(codes.iter().all(|code| [0, KAFKA_STORAGE_ERROR].contains(code)), "{codes:?}");
    codes.iter().map(|code| *code != 0).collect()
}

/// Writes or flushes of one device begin to fail under a broker, `rule(n)` at the n-th try.
fn device_fails(what: &str, rule: impl Fn(usize) -> String) {
    if let Some(why) = disk::missing() {
        return skip(&why);
    }
    let mut lab = Lab::new();
    let devices = lab.devices(None);
    let broker = lab.serve_healthy(&devices);
    let mut wire = lab.wire();
    assert_eq!(wire.create_topic(TOPIC, PARTITIONS, &KEPT).unwrap(), 0);
    assert_eq!(lab.produce(&mut wire), [0; 8]);

    // An error that happens once may meet the zeros that are written ahead.
    let failed = (0..20).find_map(|attempt| {
        if attempt % 4 == 0 {
            devices.inject(&format!("debug-{attempt}"), &rule(attempt));
        }
        let codes = lab.produce(&mut wire);
        codes.iter().any(|code| *code != 0).then(|| refused(&codes))
    });
    let failed = failed.unwrap_or_else(|| panic!("{what}: nobody is refused:\n{}", broker.log_text()));
    assert!(failed.contains(&false), "{what}: the other device is refused, too");
    // It stays so, though later requests to the device may succeed: nobody knows what of the earlier ones is there.
    for _ in 0..3 {
        assert_eq!(refused(&lab.produce(&mut wire)), failed, "{what}");
    }
    // What was committed is read all the time, of every partition.
    assert_eq!(lab.read(&mut wire), [0; 8], "{what}");
    let (status, health) = lab.health();
    assert!(status == 503 && health.contains("takes no more appends"), "{what}: {status} {health}");
    let log = broker.log_text();
    assert_eq!(log.matches("a journal takes no more appends").count(), 1, "{what}:\n{log}");
    broker.kill();
    drop(devices);

    // The device works again: all that was acknowledged is there, and everything can be written to.
    let devices = lab.devices(None);
    let broker = lab.serve_healthy(&devices);
    let mut wire = lab.wire();
    assert_eq!(lab.read(&mut wire), [0; 8], "{what}");
    assert_eq!(lab.produce(&mut wire), [0; 8], "{what}:\n{}", broker.log_text());
    assert_eq!(lab.read(&mut wire), [0; 8], "{what}");
    broker.kill();
}

#[test]
fn a_device_that_fails_writes_closes_its_journal_and_no_other() {
    device_fails("EIO", |_| rule("write", libc::EIO, false, None));
}

#[test]
fn a_device_that_says_it_has_no_space_closes_its_journal_and_no_other() {
    device_fails("ENOSPC", |_| rule("write", libc::ENOSPC, false, None));
}

#[test]
fn a_device_that_fails_one_flush_closes_its_journal_for_good_and_no_other() {
    device_fails("flush", |_| rule("flush", libc::EIO, true, None));
}

/// Where a device first holds one of these values.
fn find(image: &Path, wanted: &[String]) -> Option<usize> {
    // The beginning that they share is looked for in pages that are not empty: the rest of the device is zeros.
    let file = File::open(image).unwrap();
    let mut page = vec![0u8; 8192];
    (0..DEVICE / 4096 - 1).find_map(|n| {
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut page, n * 4096).unwrap();
        if page == [0; 8192] {
            return None;
        }
        let found = |value: &String| page.windows(value.len()).position(|window| window == value.as_bytes());
        let at = wanted.iter().find_map(found)?;
        Some(usize::try_from(n).unwrap() * 4096 + at)
    })
}

#[test]
fn a_sector_that_a_start_cannot_read_closes_its_journal_by_name_and_no_other() {
    if let Some(why) = disk::missing() {
        return skip(&why);
    }
    let mut lab = Lab::new();
    let devices = lab.devices(None);
    let broker = lab.serve_healthy(&devices);
    let mut wire = lab.wire();
    assert_eq!(wire.create_topic(TOPIC, PARTITIONS, &KEPT).unwrap(), 0);
    for _ in 0..4 {
        assert_eq!(lab.produce(&mut wire), [0; 8]);
    }
    broker.kill();
    drop(devices);
    // The second record of some partition of the first device.
    let wanted: Vec<String> = lab.acked.iter().map(|acked| value(acked[1])).collect();
    let sector = find(&lab.image("bad.img"), &wanted).expect("some partition lies there") / 512;

    let devices = lab.devices(Some(&rule("read", libc::EIO, false, Some(sector))));
    let mut broker = lab.serve(&devices);
    assert!(broker.wait_until_answering(Duration::from_secs(60)), "{}", broker.log_text());
    let (status, health) = lab.health();
    assert!(status == 503 && health.contains("stays closed"), "{status} {health}");
    let log = broker.log_text();
    assert_eq!(log.matches("the journal stays closed").count(), 1, "{log}");
    let mut wire = lab.wire();
    let failed = refused(&lab.produce(&mut wire));
    assert!(failed.contains(&true) && failed.contains(&false), "{failed:?}");
    // By the same name when they are read, and when their ends are asked for.
    assert_eq!(refused(&lab.read(&mut wire)), failed);
    let ends: Vec<i16> = (0..PARTITIONS).map(|partition| wire.end(TOPIC, partition).unwrap().0).collect();
    assert_eq!(refused(&ends), failed);
    broker.kill();
    drop(devices);

    let devices = lab.devices(None);
    let broker = lab.serve_healthy(&devices);
    let mut wire = lab.wire();
    assert_eq!(lab.read(&mut wire), [0; 8]);
    assert_eq!(lab.produce(&mut wire), [0; 8]);
    broker.kill();
}
