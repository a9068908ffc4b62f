//! Metadata on disk: `metadata.redb` with the cluster's identity, a snapshot of the state and the log of commands after it.
//!
//! A commit is durable when `append` returns. The file never has holes: its pages are written when it grows, so that on a
//! full disk the free pages within it still take small changes, and a broker there starts and deletes.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use base::{BrokerId, ClusterId};
use cluster::State;
use cluster::codec::{self, DecodeError};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, StorageBackend, TableDefinition};

/// Version of the tables below.
const FORMAT: u32 = 1;

const IDENTITY: TableDefinition<'static, &'static str, &'static [u8]> = TableDefinition::new("identity");
/// Index of the command → its bytes.
const LOG: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("log");
/// Index of the last command in it, number of the piece → a piece of the state's bytes.
const SNAPSHOT: TableDefinition<'static, (u64, u32), &'static [u8]> = TableDefinition::new("snapshot");

/// Bytes of a piece. Pages are powers of two: with its row's head this fits one of 16 KiB, which a file with holes between
/// pages still has where it does not have one of a megabyte.
const PIECE: usize = 15 << 10;

/// Empty but while the file is made larger.
const BALLAST: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("ballast");

/// A snapshot is due when the log is at least this long and longer than the snapshot before: replay stays in the
/// milliseconds and the cost of snapshots in proportion to what was written.
const LOG_BYTES_MIN: usize = 256 << 10;

/// Who this broker is; drawn once and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's id.
    pub cluster: ClusterId,
    /// The node id.
    pub broker: BrokerId,
}

/// Why metadata cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The file or its directory cannot be used.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("{0} is in use: another broker runs on this data directory; stop it or use another directory")]
    InUse(PathBuf),
    /// Written by a newer version.
    #[error("{path} has format {found}, this version reads up to {newest}: use a newer Barelog, or another directory")]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest known here.
        newest: u32,
    },
    /// The configuration says another identity than the directory.
    #[error(
        "{key} is {configured} in the configuration, but {path} belongs to {kept}: restore the old value or use another data directory"
    )]
    Identity {
        /// `cluster.id` or `node.id`.
        key: &'static str,
        /// As configured.
        configured: String,
        /// As kept.
        kept: String,
        /// Which file.
        path: PathBuf,
    },
    /// The contents make no sense.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The database failed.
    #[error("{path}: {source}")]
    Database {
        /// Which file.
        path: PathBuf,
        /// What it says.
        source: Box<redb::Error>,
    },
}

impl MetadataError {
    /// Whether the disk is full, found out while the file was to grow. Where it is found out by a failed sync nobody can tell
    /// what is on the disk.
    fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }
}

/// Gives the storage of a file, as often as it is asked.
pub(crate) type Storage = Box<dyn Fn() -> io::Result<Box<dyn StorageBackend>> + Send>;

/// The opened file and what it holds.
pub struct MetadataFile {
    path: PathBuf,
    /// `None` only while it is opened anew.
    database: Option<Database>,
    /// Gives the storage once more, for opening anew after an error.
    storage: Storage,
    identity: Identity,
    next: u64,
    log_bytes: usize,
    snapshot_bytes: usize,
}

impl fmt::Debug for MetadataFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetadataFile({})", self.path.display())
    }
}

impl MetadataFile {
    /// Opens the file, or creates it. A configured cluster id or node id must be the one kept; one that is not configured is
    /// the kept one, or, in a new file, `cluster` drawn at random and node 1.
    ///
    /// # Errors
    /// See [`MetadataError`].
    pub fn open(
        path: &Path,
        cluster: Option<ClusterId>,
        broker: Option<BrokerId>,
    ) -> Result<(Self, State), MetadataError> {
        let (file, making) = open_or_begin(path)?;
        // A duplicated descriptor shares the lock, which lasts until the last one is closed.
        let storage = move || Ok(Box::new(WholeFile(file.try_clone()?)) as Box<dyn StorageBackend>);
        let opened = Self::open_on(path, Box::new(storage), cluster, broker)?;
        if let Some(making) = making {
            let named = fs::rename(making, path).and_then(|()| sync_folders(path));
            named.map_err(|source| MetadataError::Io { path: path.to_owned(), source })?;
        }
        Ok(opened)
    }

    /// The same on any storage.
    pub(crate) fn open_on(
        path: &Path,
        storage: Storage,
        cluster: Option<ClusterId>,
        broker: Option<BrokerId>,
    ) -> Result<(Self, State), MetadataError> {
        let mut file = Self {
            path: path.to_owned(),
            database: None,
            storage,
            identity: Identity { cluster: ClusterId(0), broker: BrokerId(0) },
            next: 1,
            log_bytes: 0,
            snapshot_bytes: 0,
        };
        file.reopen()?;
        file.identity = match file.kept_identity()? {
            Some(kept) => file.compare(kept, cluster, broker)?,
            None => {
                let identity = file.write_identity(cluster, broker)?;
                file.headroom()??;
                identity
            }
        };
        let state = file.load()?;
        Ok((file, state))
    }

    /// Who this broker is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    fn database(&self) -> Result<&Database, redb::Error> {
        // Opening anew has failed once: the database's own word for that.
        self.database.as_ref().ok_or(redb::Error::PreviousIo)
    }

    /// Opens the database anew; after an I/O error it does nothing else any more.
    fn reopen(&mut self) -> Result<(), MetadataError> {
        self.database = None;
        let storage = (self.storage)().map_err(|source| self.io_error(source))?;
        let mut builder = Database::builder();
        // 8 MiB of cache: the state lives in memory, the file is read once at start.
        builder.set_cache_size(8 << 20);
        let opened = builder.create_with_backend(Boxed(storage));
        self.database = Some(opened.map_err(|error| self.database_error(error.into()))?);
        Ok(())
    }

    /// Appends commands to the log; those that make the state larger only while there is headroom, so that the others always
    /// find room. The inner error says that there is none: the commands are not there and never will be, but the log can go on.
    ///
    /// # Errors
    /// Whether the commands are there cannot be told, or the disk has failed: the file cannot be used any more.
    pub fn append_or_full(
        &mut self,
        commands: &[Vec<u8>],
        grows: bool,
    ) -> Result<Result<(), MetadataError>, MetadataError> {
        if grows && let Err(full) = self.headroom()? {
            return Ok(Err(full));
        }
        let result = self.append(commands);
        self.or_full(result)
    }

    /// Replaces snapshot and log by a snapshot of `state`, which has every command of the log applied. The inner error says that
    /// there is no room for it; the log goes on.
    ///
    /// # Errors
    /// As with [`MetadataFile::append_or_full`].
    pub fn snapshot_or_full(&mut self, state: &State) -> Result<Result<(), MetadataError>, MetadataError> {
        let result = self.snapshot(state);
        self.or_full(result)
    }

    fn or_full(&mut self, result: Result<(), MetadataError>) -> Result<Result<(), MetadataError>, MetadataError> {
        match result {
            Ok(()) => Ok(Ok(())),
            Err(error) if error.is_full() => {
                self.reopen()?;
                // What failed must not have happened after all.
                if self.last_index()? < self.next { Ok(Err(error)) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    /// Sees to it that the file is four times as large as what is in it: log, snapshot, and the next snapshot beside them.
    /// Pages are two thirds full, and what a commit frees can be used only by the one after the next.
    fn headroom(&mut self) -> Result<Result<(), MetadataError>, MetadataError> {
        let used = self.log_bytes.max(LOG_BYTES_MIN) + 2 * self.snapshot_bytes;
        let len = (self.storage)().and_then(|storage| storage.len()).map_err(|source| self.io_error(source))?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if 4 * used <= len {
            return Ok(Ok(()));
        }
        // Half as much again, so that it is not soon to be done anew.
        let result = self.grow(4 * used - len + len / 2);
        self.or_full(result)
    }

    /// Makes the file larger by about `bytes`, which are free afterwards: rows of that size come and go.
    fn grow(&self, bytes: usize) -> Result<(), MetadataError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database()?.begin_write()?;
            {
                let mut ballast = transaction.open_table(BALLAST)?;
                let piece = vec![0; PIECE];
                for number in 0..bytes / PIECE + 1 {
                    ballast.insert(number as u64, &*piece)?;
                }
            }
            transaction.commit()?;
            let transaction = self.database()?.begin_write()?;
            transaction.open_table(BALLAST)?.retain(|_, _| false)?;
            transaction.commit()?;
            Ok(())
        };
        write().map_err(|error| self.database_error(error))
    }

    /// Index of the last command in the log, or in the snapshot.
    fn last_index(&self) -> Result<u64, MetadataError> {
        let read = || -> Result<u64, redb::Error> {
            let transaction = self.database()?.begin_read()?;
            let log = transaction.open_table(LOG)?.last()?.map_or(0, |(index, _)| index.value());
            let snapshot = transaction.open_table(SNAPSHOT)?.last()?.map_or(0, |(key, _)| key.value().0);
            Ok(log.max(snapshot))
        };
        read().map_err(|error| self.database_error(error))
    }

    /// Appends commands to the log; durable when it returns.
    pub(crate) fn append(&mut self, commands: &[Vec<u8>]) -> Result<(), MetadataError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database()?.begin_write()?;
            {
                let mut log = transaction.open_table(LOG)?;
                for (index, command) in (self.next..).zip(commands) {
                    log.insert(index, &**command)?;
                }
            }
            transaction.commit()?;
            Ok(())
        };
        write().map_err(|error| self.database_error(error))?;
        self.next += commands.len() as u64;
        self.log_bytes += commands.iter().map(Vec::len).sum::<usize>();
        Ok(())
    }

    /// Whether [`MetadataFile::snapshot`] is worth its price now.
    #[must_use]
    pub fn wants_snapshot(&self) -> bool {
        self.log_bytes >= LOG_BYTES_MIN.max(self.snapshot_bytes)
    }

    /// See [`MetadataFile::snapshot_or_full`].
    pub(crate) fn snapshot(&mut self, state: &State) -> Result<(), MetadataError> {
        let bytes = codec::encode_state(state);
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database()?.begin_write()?;
            {
                let mut snapshot = transaction.open_table(SNAPSHOT)?;
                snapshot.retain(|_, _| false)?;
                for (number, piece) in (0..).zip(bytes.chunks(PIECE)) {
                    snapshot.insert((self.next - 1, number), piece)?;
                }
                transaction.open_table(LOG)?.retain(|_, _| false)?;
            }
            transaction.commit()?;
            Ok(())
        };
        write().map_err(|error| self.database_error(error))?;
        self.snapshot_bytes = bytes.len();
        self.log_bytes = 0;
        Ok(())
    }

    fn kept_identity(&self) -> Result<Option<Identity>, MetadataError> {
        let read = || -> Result<Option<[Vec<u8>; 3]>, redb::Error> {
            let transaction = self.database()?.begin_read()?;
            let table = match transaction.open_table(IDENTITY) {
                Ok(table) => table,
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let get = |key: &str| -> Result<Vec<u8>, redb::Error> {
                Ok(table.get(key)?.map(|value| value.value().to_vec()).unwrap_or_default())
            };
            Ok(Some([get("format")?, get("cluster")?, get("node")?]))
        };
        let Some([format, cluster, node]) = read().map_err(|error| self.database_error(error))? else {
            return Ok(None);
        };
        let found = u32::from_le_bytes(self.sized(&format)?);
        if found > FORMAT {
            return Err(MetadataError::Newer { path: self.path.clone(), found, newest: FORMAT });
        }
        Ok(Some(Identity {
            cluster: ClusterId(u128::from_le_bytes(self.sized(&cluster)?)),
            broker: BrokerId(i32::from_le_bytes(self.sized(&node)?)),
        }))
    }

    fn compare(
        &self,
        kept: Identity,
        cluster: Option<ClusterId>,
        broker: Option<BrokerId>,
    ) -> Result<Identity, MetadataError> {
        let differs = |key, configured: String, kept: String| {
            Err(MetadataError::Identity { key, configured, kept, path: self.path.clone() })
        };
        match (cluster, broker) {
            (Some(cluster), _) if cluster != kept.cluster => {
                differs("cluster.id", format!("{:032x}", cluster.0), format!("{:032x}", kept.cluster.0))
            }
            (_, Some(broker)) if broker != kept.broker => {
                differs("node.id", broker.to_string(), kept.broker.to_string())
            }
            _ => Ok(kept),
        }
    }

    fn write_identity(&self, cluster: Option<ClusterId>, broker: Option<BrokerId>) -> Result<Identity, MetadataError> {
        let cluster = match cluster {
            Some(cluster) => cluster,
            None => ClusterId(crate::random::uuid().map_err(|source| self.io_error(source))?),
        };
        let identity = Identity { cluster, broker: broker.unwrap_or(BrokerId(1)) };
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database()?.begin_write()?;
            {
                let mut table = transaction.open_table(IDENTITY)?;
                table.insert("format", &FORMAT.to_le_bytes()[..])?;
                table.insert("cluster", &identity.cluster.0.to_le_bytes()[..])?;
                table.insert("node", &identity.broker.0.to_le_bytes()[..])?;
                transaction.open_table(LOG)?;
                transaction.open_table(SNAPSHOT)?;
            }
            transaction.commit()?;
            Ok(())
        };
        write().map_err(|error| self.database_error(error))?;
        Ok(identity)
    }

    fn load(&mut self) -> Result<State, MetadataError> {
        type Rows = (Option<(u64, Vec<u8>)>, Vec<(u64, Vec<u8>)>);
        let read = || -> Result<Rows, redb::Error> {
            let transaction = self.database()?.begin_read()?;
            let mut snapshot: Option<(u64, Vec<u8>)> = None;
            for row in transaction.open_table(SNAPSHOT)?.iter()? {
                let (key, piece) = row?;
                let (_, bytes) = snapshot.get_or_insert_with(|| (key.value().0, Vec::new()));
                bytes.extend_from_slice(piece.value());
            }
            let mut log = Vec::new();
            for row in transaction.open_table(LOG)?.iter()? {
                let (index, bytes) = row?;
                log.push((index.value(), bytes.value().to_vec()));
            }
            Ok((snapshot, log))
        };
        let (snapshot, log) = read().map_err(|error| self.database_error(error))?;
        let mut state = State::default();
        if let Some((index, bytes)) = snapshot {
            state = codec::decode_state(&bytes).map_err(|error| self.decode_error("the snapshot", error))?;
            self.next = index + 1;
            self.snapshot_bytes = bytes.len();
        }
        for (index, bytes) in log {
            if index != self.next {
                return Err(self.damaged(format!("command {} is missing", self.next)));
            }
            let command =
                codec::decode_command(&bytes).map_err(|error| self.decode_error(&format!("command {index}"), error))?;
            // A refused command changed nothing when it was written, and changes nothing now.
            let _ = state.apply(&command);
            self.next += 1;
            self.log_bytes += bytes.len();
        }
        Ok(state)
    }

    fn sized<const N: usize>(&self, bytes: &[u8]) -> Result<[u8; N], MetadataError> {
        bytes.try_into().map_err(|_| self.damaged("the identity has a wrong length".to_owned()))
    }

    fn decode_error(&self, what: &str, error: DecodeError) -> MetadataError {
        match error {
            DecodeError::Newer(found) => MetadataError::Newer {
                path: self.path.clone(),
                found: found.into(),
                newest: codec::STATE_VERSION.max(codec::COMMAND_VERSION).into(),
            },
            error => self.damaged(format!("{what}: {error:?}")),
        }
    }

    fn damaged(&self, what: String) -> MetadataError {
        MetadataError::Damaged { path: self.path.clone(), what }
    }

    fn io_error(&self, source: io::Error) -> MetadataError {
        MetadataError::Io { path: self.path.clone(), source }
    }

    fn database_error(&self, source: redb::Error) -> MetadataError {
        database_error(&self.path, source)
    }
}

fn database_error(path: &Path, source: redb::Error) -> MetadataError {
    match source {
        redb::Error::DatabaseAlreadyOpen => MetadataError::InUse(path.to_owned()),
        redb::Error::Io(source) => MetadataError::Io { path: path.to_owned(), source },
        source => MetadataError::Database { path: path.to_owned(), source: Box::new(source) },
    }
}

/// The file, locked; where there is none, an empty one and its name while it is made. It gets its own name when all of it is
/// durable: a power cut before that leaves nothing that a start could take for a file that was harmed.
fn open_or_begin(path: &Path) -> Result<(File, Option<PathBuf>), MetadataError> {
    let io_error = |source| MetadataError::Io { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(io_error)?;
    }
    loop {
        let making = (!path.try_exists().map_err(io_error)?).then(|| path.with_extension("new"));
        let name = making.as_deref().unwrap_or(path);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(name).map_err(io_error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(MetadataError::InUse(path.to_owned())),
            Err(fs::TryLockError::Error(source)) => return Err(io_error(source)),
        }
        if making.is_some() {
            // Whoever held the lock a moment ago may have finished: then this is the file itself.
            let there = fs::metadata(name).map(|there| there.ino());
            if there.ok() != Some(file.metadata().map_err(io_error)?.ino()) {
                continue;
            }
            file.set_len(0).map_err(io_error)?;
        }
        return Ok((file, making));
    }
}

/// The file's name and those of its folders, which may be new, too, outlast a power cut as its bytes do.
fn sync_folders(path: &Path) -> io::Result<()> {
    let folders = path.ancestors().skip(1).take(3).filter(|folder| !folder.as_os_str().is_empty());
    for (above, folder) in folders.enumerate() {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        // Those above are made by the broker too, or are somebody's who may not let it open them.
        if above == 0 {
            synced?;
        }
    }
    Ok(())
}

/// Any storage behind one type.
#[derive(Debug)]
struct Boxed(Box<dyn StorageBackend>);

impl StorageBackend for Boxed {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write(offset, data)
    }
}

/// A file without holes.
#[derive(Debug)]
struct WholeFile(File);

impl StorageBackend for WholeFile {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        let before = self.0.metadata()?.len();
        if len <= before {
            return self.0.set_len(len);
        }
        let zeros = vec![0; 64 << 10];
        let mut at = before;
        while at < len {
            let n = (len - at).min(zeros.len() as u64);
            let piece = &zeros[..usize::try_from(n).expect("at most 64 KiB")];
            if let Err(error) = self.0.write_all_at(piece, at) {
                // Half a growth is none: the space goes back.
                let _ = self.0.set_len(before);
                return Err(error);
            }
            at += n;
        }
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        // "Full" is worth another try only where nothing was to be made durable yet.
        self.0.sync_data().map_err(|error| io::Error::other(format!("sync: {error}")))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write_all_at(data, offset)
    }
}
