//! Checkpoint files: one for each journal, `<journal id, 16 hex digits>.ckpt`, replaced whole or extended by an increment.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base::JournalId;

/// The folder of the checkpoints. What lies in it may be lost: recovery then scans everything.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    dir: PathBuf,
}

impl Checkpoints {
    /// The folder, made if it is missing.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Path of a journal's checkpoint.
    #[must_use]
    pub fn path(&self, journal: JournalId) -> PathBuf {
        self.dir.join(format!("{:016x}.ckpt", journal.0))
    }

    /// A journal's checkpoint, if there is one.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read(&self, journal: JournalId) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(self.path(journal)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a journal's checkpoint.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub fn remove(&self, journal: JournalId) -> io::Result<()> {
        match std::fs::remove_file(self.path(journal)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn write(&self, journal: JournalId, bytes: &[u8], replace: bool) -> Result<(), String> {
        let path = self.path(journal);
        let result = if replace { self.replace(&path, bytes) } else { append(&path, bytes) };
        result.map_err(|error| format!("checkpoint {}: {error}", path.display()))
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let fresh = path.with_extension("new");
        let mut file = File::create(&fresh)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        std::fs::rename(&fresh, path)?;
        File::open(&self.dir)?.sync_all()
    }
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    let before = file.metadata()?.len();
    let result = file.write_all(bytes).and_then(|()| file.sync_data());
    if result.is_err() {
        // Half an increment would hide the ones that follow it.
        let _ = file.set_len(before);
    }
    result
}
