//! Devices and journals at the start of a process: lock, create or open, scan, recover. All of it blocks, before anything
//! serves.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use base::image::{Image, JournalEntry};
use base::{ClusterId, DeviceIndex, Epoch, JournalId, ShardId};
use cluster::command::DeviceUuid;
use controlplane::metadata::Identity;
use dataplane::arena::Arena;
use dataplane::device::{BlockingStorage, DeviceError, DeviceFile, DeviceKind as FileKind};
use dataplane::keeper::{Checkpoints, KeptDevice, SpaceStats};
use journal::Store;
use journal::device::{Device, Found};
use journal::pool::{Pool, PoolConfig};
use journal::recovery::{
    JournalReport, OpenDevice, RecoveryError, RecoveryReport, highest_epoch, pool_start, share_pairs,
};
use journal::storage::Storage as _;
use journal::store::{ClusterConfig, Durability, StoreConfig};

use crate::config::{BrokerConfig, DeviceConfig, DeviceKind};

/// Pairs of local-state slots on a new device: as many journals as it can ever hold. 256: four classes on 64 shards.
const STATE_PAIRS: u32 = 256;

/// Extents of each device that appends do not get: this part of it, within these bounds. Two are the least that frees space, one
/// for deletions and one for clustering; on a large device several journals may need one for deletions at once.
const RESERVE_PART: u64 = 16;
const RESERVE: usize = 2;
const RESERVE_MAX: usize = 8;

/// Once a device was full, this part of it must come free before producers get more. A 32nd: what retention frees at a time is
/// more, and 512 MiB of 16 GiB last a while.
const RESUME_PART: u64 = 32;

/// How long a device that is in use is waited for.
const IN_USE_PATIENCE: Duration = Duration::from_secs(5);

/// Said of a checkpoint that is of no use.
const NO_CHECKPOINT: &str = "the journal's checkpoint is treated as absent, and the whole journal scanned";

/// Extents written ahead of need.
const AHEAD: usize = 2;

/// A device, opened and scanned.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) file: DeviceFile,
    pub(super) device: Device,
    pub(super) found: Vec<Found>,
    pub(super) extents_max: u64,
    pub(super) created: bool,
}

impl Opened {
    /// How writes to it become durable.
    pub(super) fn durability(&self, extra_flushes: bool) -> Durability {
        if extra_flushes { Durability::Flush } else { self.file.policy().durability }
    }

    pub(super) fn uuid(&self) -> DeviceUuid {
        DeviceUuid(self.device.label.device)
    }
}

/// Opens every configured device, creating what is new.
pub(super) fn open_devices(config: &BrokerConfig, identity: Identity) -> Result<Vec<Opened>> {
    config.devices.iter().map(|device| open_device(device, config.profile.extent_bytes, identity)).collect()
}

fn open_device(config: &DeviceConfig, extent_len: u64, identity: Identity) -> Result<Opened> {
    let kind = match config.kind {
        DeviceKind::File => FileKind::File,
        DeviceKind::Block => FileKind::Block,
    };
    let sums = dataplane::checksums::fast();
    let file = open_when_free(&config.path, kind)?;
    let mut storage = BlockingStorage::new(file.clone());
    let created = is_blank(&mut storage)?;
    let named = || format!("device {}", config.path.display());
    let mut device = if created {
        let id = controlplane::random::bits()?;
        let label = Device::layout(identity.cluster, identity.broker, id, extent_len, STATE_PAIRS);
        let device = Device::create(&mut storage, label, &sums).with_context(named)?;
        // A directory that cannot hold a single extent would refuse its first record: say so now.
        if kind == FileKind::File {
            let least = label.extents_offset + (AHEAD + RESERVE) as u64 * label.extent_len;
            ensure_room(&config.path, least)?;
        }
        device
    } else {
        Device::open(&mut storage, identity.cluster, identity.broker, &sums).with_context(named)?
    };
    device.heal_states(&mut storage).with_context(named)?;
    let found = device.scan(&mut storage).with_context(named)?;
    let label = device.label;
    let room = match (config.size, kind) {
        (Some(size), FileKind::File) => size,
        (Some(size), FileKind::Block) => size.min(file.len()),
        (None, _) => file.len(),
    };
    if kind == FileKind::File {
        warn_of_room(&config.path, file.len(), room);
    }
    let extents_max = room.saturating_sub(label.extents_offset) / label.extent_len;
    if extents_max <= (AHEAD + RESERVE) as u64 {
        bail!(
            "device {}: {room} bytes hold {extents_max} extents of {} bytes; at least {} are needed: give it more room",
            config.path.display(),
            label.extent_len,
            AHEAD + RESERVE + 1
        );
    }
    Ok(Opened { path: config.path.clone(), file, device, found, extents_max, created })
}

fn is_blank(storage: &mut BlockingStorage) -> Result<bool> {
    if storage.is_empty() {
        return Ok(true);
    }
    // Blank is what has nothing in the places of both labels; whatever else lies there is somebody's.
    let mut head = vec![0u8; 8192];
    storage.read(0, &mut head).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    Ok(head.iter().all(|byte| *byte == 0))
}

/// Opens a device. The kernel holds the lock of a killed process until its last request has ended, a moment after the process
/// is gone: a restart waits for that. (The lock on the metadata is taken before, so no living broker of this directory has it.)
fn open_when_free(path: &Path, kind: FileKind) -> Result<DeviceFile, DeviceError> {
    let deadline = Instant::now() + IN_USE_PATIENCE;
    loop {
        match DeviceFile::open(path, kind) {
            Err(DeviceError::InUse { .. }) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            opened => return opened,
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A data file that may outgrow its file system is a promise that cannot be kept: said once, at the start.
fn warn_of_room(path: &Path, len: u64, most: u64) {
    let Ok(free) = super::space::free_bytes(folder_of(path)) else { return };
    if most > len.saturating_add(free) {
        tracing::warn!(
            path = %path.display(),
            size_mib = most >> 20,
            free_mib = free >> 20,
            "the data file may grow beyond what its file system has free: producers will be refused when that is full; \
             lower its size, or make room"
        );
    }
}

fn ensure_room(path: &Path, bytes: u64) -> Result<()> {
    let folder = folder_of(path);
    let free = super::space::free_bytes(folder)?;
    if free < bytes {
        // Nothing of ours is worth keeping there: the next try begins anew.
        let _ = std::fs::remove_file(path);
        bail!(
            "{} has {} MiB of free space, a new data file needs {} MiB: free some, or choose another data directory",
            folder.display(),
            free >> 20,
            bytes >> 20
        );
    }
    Ok(())
}

/// The highest epoch that any device has seen.
pub(super) fn epoch_seen(devices: &[Opened]) -> Epoch {
    devices.iter().map(|opened| highest_epoch(&opened.device, &opened.found)).max().unwrap_or(Epoch(0))
}

/// What recovery needs beside the devices.
pub(super) struct Recovering<'a> {
    pub(super) config: &'a BrokerConfig,
    pub(super) cluster: ClusterId,
    pub(super) broker: base::BrokerId,
    pub(super) hash_seed: u64,
    pub(super) incarnation: u128,
    pub(super) checkpoints: &'a Checkpoints,
}

impl Recovering<'_> {
    pub(super) fn store_config(&self, devices: &[Opened]) -> StoreConfig {
        let profile = &self.config.profile;
        StoreConfig {
            cluster: self.cluster,
            broker: self.broker,
            incarnation: self.incarnation,
            sums: dataplane::checksums::fast(),
            hash_seed: self.hash_seed,
            unit_bytes: profile.unit_bytes,
            writes_in_flight: profile.writes_in_flight,
            bytes_in_flight: profile.bytes_in_flight,
            checkpoint_bytes: profile.checkpoint_bytes,
            footer_cache_bytes: profile.footer_bytes,
            clustering: ClusterConfig {
                gather_bytes: profile.clustering_bytes,
                bytes_per_second: profile.clustering_rate,
                rest_ms: 5000,
            },
            compaction_bytes: profile.compaction_bytes,
            codecs: super::codecs::codecs(),
            producers_per_partition_max: self.config.producers_per_partition_max,
            producer_expiry_ms: self.config.producer_expiry_ms,
            durability: devices.iter().map(|opened| opened.durability(profile.extra_flushes)).collect(),
        }
    }

    /// Opens the journals of every shard in turn: one device is read at its own speed, whoever asks.
    pub(super) fn stores(
        &self,
        devices: &mut [Opened],
        image: &Image,
    ) -> Result<(Vec<Store<Arena>>, Vec<RecoveryReport>), RecoveryError> {
        let store_config = self.store_config(devices);
        let (mut stores, mut reports) = (Vec::new(), Vec::new());
        for shard in 0..self.config.profile.shards {
            let entries = journals_of(image, ShardId(shard));
            let mut storages: Vec<BlockingStorage> =
                devices.iter().map(|opened| BlockingStorage::new(opened.file.clone())).collect();
            let mut open: Vec<OpenDevice<'_, BlockingStorage>> = devices
                .iter_mut()
                .zip(&mut storages)
                .map(|(opened, storage)| OpenDevice { storage, device: &mut opened.device, found: &opened.found })
                .collect();
            let mut there = Vec::new();
            let checkpoint = |journal: JournalId| match self.checkpoints.read(journal) {
                Ok(bytes) => {
                    there.extend(bytes.is_some().then_some(journal));
                    bytes
                }
                Err(error) => {
                    tracing::warn!(journal = journal.0, %error, "{NO_CHECKPOINT}: it cannot be read");
                    None
                }
            };
            let (store, report) = Store::open(store_config.clone(), &entries, &mut open, checkpoint)?;
            let unused = report.journals.iter().filter(|report| !report.checkpoint && there.contains(&report.journal));
            for report in unused {
                tracing::warn!(journal = report.journal.0, "{NO_CHECKPOINT}: not even its beginning is intact");
            }
            stores.push(store);
            reports.push(report);
        }
        for (index, opened) in (0u16..).zip(devices.iter()) {
            let shares = share_pairs(&opened.device, stores.len());
            for (store, share) in stores.iter_mut().zip(shares) {
                store.set_free_pairs(DeviceIndex(index), share);
            }
        }
        Ok((stores, reports))
    }
}

fn journals_of(image: &Image, shard: ShardId) -> Vec<JournalEntry> {
    let mut entries: Vec<JournalEntry> =
        image.journals.values().filter(|entry| entry.shard == shard).map(|entry| JournalEntry::clone(entry)).collect();
    entries.sort_by_key(|entry| entry.id);
    entries
}

/// The devices as the keeper takes them over.
pub(super) fn kept(devices: &[Opened], reports: &[RecoveryReport]) -> Vec<KeptDevice> {
    let reports: Vec<&RecoveryReport> = reports.iter().collect();
    let keep = |(index, opened): (u16, &Opened)| {
        let index = DeviceIndex(index);
        let (initial, generation) = pool_start(&opened.found, index, &reports);
        let label = opened.device.label;
        let config = PoolConfig {
            device: index,
            extents_offset: label.extents_offset,
            extent_len: label.extent_len,
            extents_max: opened.extents_max,
            ahead: AHEAD,
            reserve: usize::try_from(opened.extents_max / RESERVE_PART)
                .map_or(RESERVE_MAX, |part| part.clamp(RESERVE, RESERVE_MAX)),
            resume: usize::try_from(opened.extents_max / RESUME_PART).unwrap_or(usize::MAX),
        };
        KeptDevice {
            pool: Pool::new(config, initial, generation),
            storage: BlockingStorage::new(opened.file.clone()),
            stats: Arc::new(SpaceStats::default()),
            extent_len: label.extent_len,
        }
    };
    (0u16..).zip(devices).map(keep).collect()
}

/// Journals that a start could not open, one sentence each.
pub(super) fn closed(reports: &[RecoveryReport]) -> Vec<String> {
    let why = |report: &JournalReport| {
        let reason = report.closed.as_ref()?;
        Some(format!("journal {} stays closed, its partitions cannot be used: {reason}", report.journal.0))
    };
    reports.iter().flat_map(|report| &report.journals).filter_map(why).collect()
}

/// What an operator should know of a recovered journal; what is as usual is only for `debug`.
pub(super) fn log_report(report: &JournalReport) {
    let journal = report.journal.0;
    if let Some(reason) = &report.closed {
        tracing::error!(journal, reason, "the journal stays closed; its partitions cannot be used");
        return;
    }
    for damage in report.damage.iter().chain(&report.holes) {
        tracing::error!(
            journal,
            start = damage.start.0,
            end = damage.end.0,
            "damaged; what can be read of it is served"
        );
    }
    // Damaged batches, and what partitions may have lost at their end, are told of by the shard, which knows their topics.
    for position in &report.damaged_controls {
        tracing::error!(
            journal,
            position = position.0,
            "a control frame is damaged; what it said may be known from elsewhere"
        );
    }
    tracing::info!(
        journal,
        checkpoint = report.checkpoint,
        scanned_bytes = report.bytes_read,
        units = report.units,
        rewritten_bytes = report.rewritten,
        end = report.end.0,
        "journal recovered"
    );
}
