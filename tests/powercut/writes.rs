//! What was written to a disk, from the log that `blklogwrites` keeps in the format of the kernel's dm-log-writes; and what the
//! disk may hold after the power was cut at some point of it.
//!
//! The log is a super block (magic, version, number of entries: u64 each; sector size: u32) in a sector of its own, then for each
//! entry a sector that begins with sector, number of sectors, flags and length of data (u64 each) and, but for discards, the bytes
//! that were written. All little-endian. An entry is logged when the disk has done what it says.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;

/// Sectors are what a disk writes whole.
pub(crate) const SECTOR: usize = 512;

/// Writes are kept in blocks; those that are absent are zeros.
const BLOCK: usize = 4096;
const ZEROS: [u8; BLOCK] = [0; BLOCK];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Everything that was written before it is kept.
    Flush,
    /// `durable`: kept by itself (FUA).
    Write { durable: bool },
    /// Reads as zeros.
    Discard,
    /// Something that a person noted.
    Mark,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// Where on the disk, in bytes.
    pub(crate) offset: u64,
    /// Bytes on the disk.
    pub(crate) len: usize,
    /// Where in the log its bytes lie.
    data: u64,
}

/// How many entries a log has now.
pub(crate) fn count(log: &File) -> u64 {
    let mut count = [0u8; 8];
    log.read_exact_at(&mut count, 16).unwrap();
    u64::from_le_bytes(count)
}

/// A log that nobody writes any more.
pub(crate) struct Log {
    file: File,
    pub(crate) entries: Vec<Entry>,
}

impl Log {
    pub(crate) fn open(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        let field = |at: u64| {
            let mut bytes = [0u8; 8];
            file.read_exact_at(&mut bytes, at).unwrap();
            u64::from_le_bytes(bytes)
        };
        let sector = field(24) & 0xffff_ffff;
        assert_eq!((field(0), field(8), sector), (MAGIC, 1, SECTOR as u64), "no log of writes");
        let mut entries = Vec::new();
        let mut at = sector;
        for index in 0..field(16) {
            let (start, sectors, flags) = (field(at), field(at + 8), field(at + 16));
            let (offset, len) = (start * sector, usize::try_from(sectors * sector).unwrap());
            let kind = match flags {
                0 => Kind::Write { durable: false },
                FUA => Kind::Write { durable: true },
                DISCARD => Kind::Discard,
                MARK => Kind::Mark,
                // A flush with data is a flush and then a write; the daemon writes no such entries.
                FLUSH if len == 0 => Kind::Flush,
                _ => panic!("entry {index} has flags {flags:#x} and {len} bytes"),
            };
            entries.push(Entry { kind, offset, len, data: at + sector });
            at += sector + if kind == Kind::Discard { 0 } else { len as u64 };
        }
        Self { file, entries }
    }

    fn bytes(&self, entry: &Entry) -> Vec<u8> {
        let mut bytes = vec![0u8; entry.len];
        if entry.kind != Kind::Discard {
            self.file.read_exact_at(&mut bytes, entry.data).unwrap();
        }
        bytes
    }
}

/// The bytes of a disk.
#[derive(Clone, Default)]
pub(crate) struct Image {
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Image {
    pub(crate) fn load(path: &Path) -> Self {
        let mut file = File::open(path).unwrap();
        let mut image = Self::default();
        let mut piece = vec![0u8; 1 << 20];
        let mut at = 0;
        loop {
            let n = file.read(&mut piece).unwrap();
            if n == 0 {
                return image;
            }
            image.write(at, &piece[..n]);
            at += n as u64;
        }
    }

    pub(crate) fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (block, within) = (offset / BLOCK as u64, usize::try_from(offset % BLOCK as u64).unwrap());
            let (head, rest) = bytes.split_at(bytes.len().min(BLOCK - within));
            if head == &ZEROS[..head.len()] && (head.len() == BLOCK || !self.blocks.contains_key(&block)) {
                self.blocks.remove(&block);
            } else {
                let kept = self.blocks.entry(block).or_insert_with(|| vec![0; BLOCK].into());
                kept[within..within + head.len()].copy_from_slice(head);
            }
            (offset, bytes) = (offset + head.len() as u64, rest);
        }
    }

    /// Writes it to a new file with holes.
    pub(crate) fn store(&self, path: &Path, len: u64) -> File {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        file.set_len(len).unwrap();
        for (block, bytes) in &self.blocks {
            file.write_all_at(bytes, block * BLOCK as u64).unwrap();
        }
        file
    }

    /// Where they differ first, in bytes.
    pub(crate) fn difference(&self, other: &Self) -> Option<u64> {
        let differs = |block: &&u64| {
            let [one, two] = [self, other].map(|image| image.blocks.get(*block).map_or(&ZEROS[..], |bytes| bytes));
            one != two
        };
        let unlike = self.blocks.keys().chain(other.blocks.keys()).filter(differs);
        unlike.min().map(|block| block * BLOCK as u64)
    }
}

/// Numbers that look like chance, the same for a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What becomes of what was written behind the last flush.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// Nothing of it is there.
    All,
    /// All of it is there.
    None,
    /// Each write is there or not.
    Writes,
    /// Of each write a prefix is there, cut at a sector.
    Tails,
    /// Each sector is there or not.
    Sectors,
}

/// Goes through a log and gives disks after power cuts.
pub(crate) struct Cuts<'a> {
    log: &'a Log,
    /// With all that is kept for sure.
    kept: Image,
    /// Entries that are in it.
    applied: usize,
}

impl<'a> Cuts<'a> {
    /// `before` is the disk when the log began.
    pub(crate) fn new(log: &'a Log, before: Image) -> Self {
        Self { log, kept: before, applied: 0 }
    }

    /// The disk when the power goes after `at` entries, no fewer than in the call before, as a new file; and what was done with
    /// what was not flushed.
    pub(crate) fn cut(&mut self, at: usize, random: &mut Random, path: &Path, len: u64) -> String {
        let flushed = self.log.entries[..at].iter().rposition(|entry| entry.kind == Kind::Flush).unwrap_or(0);
        for entry in &self.log.entries[self.applied.min(flushed)..flushed] {
            if matches!(entry.kind, Kind::Write { .. } | Kind::Discard) {
                self.kept.write(entry.offset, &self.log.bytes(entry));
            }
        }
        self.applied = self.applied.max(flushed);
        let file = self.kept.store(path, len);
        let loss = [Loss::All, Loss::None, Loss::Writes, Loss::Tails, Loss::Sectors]
            [usize::try_from(random.below(5)).unwrap()];
        let (mut open, mut lost) = (0, 0);
        for entry in &self.log.entries[flushed..at] {
            let durable = match entry.kind {
                Kind::Flush | Kind::Mark => continue,
                Kind::Write { durable } => durable,
                Kind::Discard => false,
            };
            let bytes = self.log.bytes(entry);
            let sectors = bytes.len() / SECTOR;
            open += sectors;
            let prefix = usize::try_from(random.below(sectors as u64 + 1)).unwrap();
            let whole = random.below(2) == 0;
            for (n, sector) in bytes.chunks(SECTOR).enumerate() {
                let there = durable
                    || match loss {
                        Loss::All => false,
                        Loss::None => true,
                        Loss::Writes => whole,
                        Loss::Tails => n < prefix,
                        Loss::Sectors => random.below(2) == 0,
                    };
                if there {
                    file.write_all_at(sector, entry.offset + (n * SECTOR) as u64).unwrap();
                } else {
                    lost += 1;
                }
            }
        }
        format!("{lost} of {open} sectors behind the flush at {flushed} lost ({loss:?})")
    }

    /// The disk with everything that was written: that is what it holds while the power stays on.
    pub(crate) fn all(mut self) -> Image {
        for entry in &self.log.entries[self.applied..] {
            if matches!(entry.kind, Kind::Write { .. } | Kind::Discard) {
                self.kept.write(entry.offset, &self.log.bytes(entry));
            }
        }
        self.kept
    }
}
