//! A device as recovery, offline tools and the background keeper see it: blocking, exact, whole sectors.

/// What a blocking device call failed with. A read error is not a bad unit: the journal stays closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageError {
    /// The device reported an I/O error; the text names the call and the address.
    Io(alloc::string::String),
    /// The device cannot grow: no space left.
    Full,
}

/// A file or block device. Offsets and lengths are multiples of 4096.
pub trait Storage {
    /// Bytes the device has now.
    fn len(&self) -> u64;

    /// Whether the device has no bytes yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Grows to `len` bytes, where the kind can (a file); what is new reads as zeros and is allocated.
    fn grow(&mut self, len: u64) -> Result<(), StorageError>;

    /// Fills `into` from `offset`.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError>;

    /// Writes `from` at `offset`. Durable only after [`Storage::flush`].
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), StorageError>;

    /// Makes every completed write durable.
    fn flush(&mut self) -> Result<(), StorageError>;
}
