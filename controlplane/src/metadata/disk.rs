//! Metadata on disk: `metadata.redb` with the cluster's identity, a snapshot of the state and the log of commands after it.
//!
//! A commit is durable when `append` returns. The file never has holes: its pages are written when it grows, so that on a
//! full disk the free pages within it still take small changes, and a broker there starts and deletes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
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
/// One row: index of the last command in it → the state's bytes.
const SNAPSHOT: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("snapshot");

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

/// The opened file and what it holds.
#[derive(Debug)]
pub struct MetadataFile {
    path: PathBuf,
    database: Database,
    identity: Identity,
    next: u64,
    log_bytes: usize,
    snapshot_bytes: usize,
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
        let database = open_database(path)?;
        let mut file = Self {
            path: path.to_owned(),
            database,
            identity: Identity { cluster: ClusterId(0), broker: BrokerId(0) },
            next: 1,
            log_bytes: 0,
            snapshot_bytes: 0,
        };
        file.identity = match file.kept_identity()? {
            Some(kept) => file.compare(kept, cluster, broker)?,
            None => file.write_identity(cluster, broker)?,
        };
        let state = file.load()?;
        Ok((file, state))
    }

    /// Who this broker is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Appends commands to the log; durable when it returns.
    ///
    /// # Errors
    /// The disk is full or broken.
    pub fn append(&mut self, commands: &[Vec<u8>]) -> Result<(), MetadataError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
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

    /// Replaces snapshot and log by a snapshot of `state`, which has every command of the log applied.
    ///
    /// # Errors
    /// The disk is full or broken; what was there before is still there.
    pub fn snapshot(&mut self, state: &State) -> Result<(), MetadataError> {
        let bytes = codec::encode_state(state);
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            {
                let mut snapshot = transaction.open_table(SNAPSHOT)?;
                snapshot.retain(|_, _| false)?;
                snapshot.insert(self.next - 1, &*bytes)?;
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
            let transaction = self.database.begin_read()?;
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
            let transaction = self.database.begin_write()?;
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
            let transaction = self.database.begin_read()?;
            let snapshot = transaction.open_table(SNAPSHOT)?;
            let snapshot = snapshot.last()?.map(|(index, bytes)| (index.value(), bytes.value().to_vec()));
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

fn open_database(path: &Path) -> Result<Database, MetadataError> {
    let io_error = |source| MetadataError::Io { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(io_error)?;
    }
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io_error)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Err(MetadataError::InUse(path.to_owned())),
        Err(fs::TryLockError::Error(source)) => return Err(io_error(source)),
    }
    let mut builder = Database::builder();
    // 8 MiB of cache: the state lives in memory, the file is read once at start.
    builder.set_cache_size(8 << 20);
    builder.create_with_backend(WholeFile(file)).map_err(|error| database_error(path, error.into()))
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
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write_all_at(data, offset)
    }
}
