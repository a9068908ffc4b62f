//! The metadata file on a disk that loses power or room.

use std::io;
use std::sync::MutexGuard;

use cluster::codec::encode_command;
use redb::StorageBackend;

use super::*;

/// A disk that keeps what is synced, and of the rest what chance leaves.
#[derive(Debug, Default)]
struct Disk {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Writes since the last sync: offset and bytes, or a new length.
    pending: Vec<(u64, Vec<u8>)>,
    /// Operations until the power fails.
    power: Option<u32>,
    /// Largest length.
    room: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Disk>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }

    fn powered(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let mut disk = self.lock();
        match &mut disk.power {
            Some(0) => Err(io::Error::other("no power")),
            Some(left) => {
                *left -= 1;
                Ok(disk)
            }
            None => Ok(disk),
        }
    }

    fn open(&self) -> Result<(MetadataFile, State), MetadataError> {
        let disk = self.clone();
        let storage = move || Ok(Box::new(disk.clone()) as Box<dyn StorageBackend>);
        MetadataFile::open_on(Path::new("metadata.redb"), Box::new(storage), Some(ClusterId(7)), Some(BrokerId(1)))
    }

    /// What a machine finds after the power came back. Half of the writes that were not synced are lost, some are torn.
    fn after_power_cut(&self, chance: &mut Chance) -> Self {
        let disk = self.lock();
        let mut bytes = disk.synced.clone();
        for (offset, data) in &disk.pending {
            let keep = match chance.next() % 4 {
                0 | 1 => 0,
                2 => data.len(),
                // Torn at a sector.
                _ => usize::try_from(chance.next() % (data.len() as u64 + 1)).unwrap() & !511,
            };
            let offset = usize::try_from(*offset).unwrap();
            if keep > 0 {
                bytes.resize(bytes.len().max(offset + keep), 0);
                bytes[offset..offset + keep].copy_from_slice(&data[..keep]);
            }
        }
        Self(Arc::new(Mutex::new(Disk { now: bytes.clone(), synced: bytes, ..Disk::default() })))
    }
}

impl StorageBackend for Shared {
    fn len(&self) -> io::Result<u64> {
        Ok(self.powered()?.now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let disk = self.powered()?;
        let offset = usize::try_from(offset).unwrap();
        let bytes = disk.now.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = self.powered()?;
        if disk.room.is_some_and(|room| len > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let (before, len) = (disk.now.len(), usize::try_from(len).unwrap());
        disk.now.resize(len, 0);
        if len > before {
            disk.pending.push((before as u64, vec![0; len - before]));
        } else {
            disk.synced.truncate(len);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.powered()?;
        let disk = &mut *disk;
        disk.synced.resize(disk.now.len(), 0);
        for (offset, data) in disk.pending.drain(..) {
            let at = usize::try_from(offset).unwrap();
            let end = (at + data.len()).min(disk.now.len());
            disk.synced[at..end].copy_from_slice(&data[..end - at]);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.powered()?;
        let at = usize::try_from(offset).unwrap();
        let end = (at + data.len()).max(disk.now.len());
        disk.now.resize(end, 0);
        disk.now[at..at + data.len()].copy_from_slice(data);
        disk.pending.push((offset, data.to_vec()));
        Ok(())
    }
}

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn register() -> Command {
    Command::RegisterBroker { broker: BrokerId(1), devices: vec![DeviceUuid(1)], journals_per_class: 2 }
}

fn big(id: u128) -> Command {
    let value: Arc<str> = "0:1,".repeat(500).into();
    let Command::CreateTopic { id, name, partitions, class, entropy, .. } = create(id, &format!("t{id}")) else {
        unreachable!()
    };
    let configs = vec![("leader.replication.throttled.replicas".into(), value)];
    Command::CreateTopic { id, name, partitions, class, configs, entropy }
}

#[test]
fn a_power_cut_at_any_moment_loses_nothing_that_was_answered() {
    for seed in 0..30u64 {
        let mut chance = Chance(seed);
        let disk = Shared::default();
        let (mut file, mut state) = disk.open().unwrap();
        disk.lock().power = Some(u32::try_from(chance.next() % 1500).unwrap());
        // What was answered, and what the command in flight would make of it.
        let mut answered = state.clone();
        for n in 0..300u128 {
            let command = if n == 0 { register() } else { create(n, &format!("t{n}")) };
            let _ = state.apply(&command);
            if file.append(&[encode_command(&command)]).is_err() {
                break;
            }
            answered = state.clone();
            if chance.next().is_multiple_of(16) && file.snapshot(&state).is_err() {
                break;
            }
        }
        drop(file);
        let (_, found) =
            disk.after_power_cut(&mut chance).open().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(found == answered || found == state, "seed {seed}: {} topics", found.topics().count());
    }
}

#[test]
fn a_disk_too_full_for_a_new_file_is_refused_by_name() {
    let disk = Shared::default();
    disk.lock().room = Some(200 << 10);
    let error = disk.open().unwrap_err().to_string();
    assert!(error.contains("metadata.redb") && error.contains("no storage space"), "{error}");
}

#[test]
fn a_full_disk_refuses_changes_by_name_and_still_takes_small_ones() {
    let disk = Shared::default();
    let (mut file, state) = disk.open().unwrap();
    let state = std::cell::RefCell::new(state);
    let append = |file: &mut MetadataFile, command: Command| {
        let appended = file.append_or_full(&[encode_command(&command)], command.grows()).expect("the file goes on");
        if appended.is_ok() {
            state.borrow_mut().apply(&command).unwrap();
        }
        if file.wants_snapshot() {
            let _ = file.snapshot_or_full(&state.borrow()).expect("the file goes on");
        }
        appended.map_err(|error| error.to_string())
    };
    append(&mut file, register()).unwrap();
    let room = disk.lock().now.len() as u64;
    assert!(room >= 1 << 20, "a new file has {room} bytes");
    disk.lock().room = Some(room);
    let mut last = 0;
    let refused = loop {
        last += 1;
        if let Err(error) = append(&mut file, big(last)) {
            break error;
        }
        assert!(last < 100_000, "the disk never fills");
    };
    assert!(refused.contains("metadata.redb"), "{refused}");
    // What needs little is still durable, again and again, and a restart as well.
    for id in 1..last.min(15) {
        append(&mut file, Command::DeleteTopic { id: TopicId(id) }).unwrap();
        drop(file);
        file = disk.open().unwrap().0;
        append(&mut file, Command::RaiseEpoch { broker: BrokerId(1), above: Epoch(0) }).unwrap();
    }
    for _ in 0..500 {
        append(&mut file, Command::AllocateProducerIds { count: 1000 }).unwrap();
    }
    drop(file);
    assert_eq!(disk.open().unwrap().1, *state.borrow());
    // Room comes back.
    let (mut file, _) = disk.open().unwrap();
    disk.lock().room = None;
    append(&mut file, big(100_001)).unwrap();
}
