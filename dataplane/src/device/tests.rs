#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;

use journal::storage::{Storage as _, StorageError};
use journal::store::Durability;

use super::policy::{Queue, decide, queue_of};
use super::*;
use crate::testing::scratch;

#[test]
fn a_new_file_grows_is_zero_and_keeps_what_is_written() {
    let dir = scratch();
    let path = dir.path().join("device");
    let mut storage = BlockingStorage::new(DeviceFile::open(&path, DeviceKind::File).unwrap());
    assert!(storage.is_empty());
    storage.grow(3 << 20).unwrap();
    let mut bytes = vec![1u8; 8193];
    storage.read(4096, &mut bytes[1..]).unwrap();
    assert!(bytes[1..].iter().all(|&byte| byte == 0));
    let written: Vec<u8> = (0..(2 << 20)).map(|i| u8::try_from(i % 249).unwrap()).collect();
    storage.write(4096, &written).unwrap();
    storage.flush().unwrap();
    drop(storage);
    let mut storage = BlockingStorage::new(DeviceFile::open(&path, DeviceKind::File).unwrap());
    assert_eq!(storage.len(), 3 << 20);
    let mut read = vec![0u8; written.len()];
    storage.read(4096, &mut read).unwrap();
    assert!(read == written);
}

#[test]
fn reading_past_the_end_is_a_named_error() {
    let dir = scratch();
    let mut storage = BlockingStorage::new(DeviceFile::open(&dir.path().join("device"), DeviceKind::File).unwrap());
    storage.grow(8192).unwrap();
    let error = storage.read(4096, &mut [0u8; 8192]).unwrap_err();
    assert!(matches!(error, StorageError::Io(text) if text.contains("reading at 4096")));
}

#[test]
fn a_second_opener_is_told_that_the_device_is_in_use() {
    let dir = scratch();
    let path = dir.path().join("device");
    let first = DeviceFile::open(&path, DeviceKind::File).unwrap();
    assert!(matches!(DeviceFile::open(&path, DeviceKind::File), Err(DeviceError::InUse { .. })));
    drop(first);
    DeviceFile::open(&path, DeviceKind::File).unwrap();
}

#[test]
fn a_file_system_without_direct_io_is_named_with_its_remedy() {
    let error = DeviceFile::open(Path::new("/proc/self/comm"), DeviceKind::File).unwrap_err();
    assert!(matches!(error, DeviceError::DirectRefused { .. }), "{error}");
    assert!(error.to_string().contains("ext4"));
}

#[test]
fn a_file_is_no_block_device() {
    let dir = scratch();
    let path = dir.path().join("file");
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(DeviceFile::open(&path, DeviceKind::Block), Err(DeviceError::WrongKind { .. })));
    assert!(matches!(DeviceFile::open(dir.path(), DeviceKind::File), Err(DeviceError::WrongKind { .. })));
}

#[test]
fn a_flush_is_skipped_only_for_a_raw_device_that_reports_write_through() {
    let through = Some(Queue { write_back: Some(false), fua: false });
    assert_eq!(decide(DeviceKind::Block, None, through).durability, Durability::WriteThrough);
    assert_eq!(decide(DeviceKind::File, Some("ext4"), through).durability, Durability::Flush);
    assert_eq!(decide(DeviceKind::File, None, through).durability, Durability::Flush);
    assert_eq!(decide(DeviceKind::Block, None, None).durability, Durability::Flush);
}

#[test]
fn fua_is_used_where_the_device_has_it_and_the_file_system_overwrites() {
    let fua = Some(Queue { write_back: Some(true), fua: true });
    assert_eq!(decide(DeviceKind::Block, None, fua).durability, Durability::Fua);
    assert_eq!(decide(DeviceKind::File, Some("xfs"), fua).durability, Durability::Fua);
    assert_eq!(decide(DeviceKind::File, None, fua).durability, Durability::Flush);
    let back = Some(Queue { write_back: Some(true), fua: false });
    assert_eq!(decide(DeviceKind::Block, None, back).durability, Durability::Flush);
}

#[test]
fn a_partition_has_the_queue_of_its_disk() {
    let dir = scratch();
    let disk = dir.path().join("devices/sda");
    std::fs::create_dir_all(disk.join("sda1")).unwrap();
    std::fs::create_dir_all(disk.join("queue")).unwrap();
    std::fs::create_dir_all(dir.path().join("dev/block")).unwrap();
    std::fs::write(disk.join("sda1/partition"), "1\n").unwrap();
    std::fs::write(disk.join("queue/write_cache"), "write through\n").unwrap();
    std::fs::write(disk.join("queue/fua"), "0\n").unwrap();
    std::os::unix::fs::symlink(disk.join("sda1"), dir.path().join("dev/block/8:1")).unwrap();
    let queue = queue_of(dir.path(), libc::makedev(8, 1)).unwrap();
    assert_eq!(queue, Queue { write_back: Some(false), fua: false });
    assert_eq!(queue_of(dir.path(), libc::makedev(0, 5)), None);
}
