//! Floors: what the same bytes cost without a broker, measured in the same run.
#![allow(
    unsafe_code,
    reason = "io_uring submission; buffers and files outlive every operation because each call here waits for all it submitted"
)]

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use io_uring::{IoUring, opcode, types};

use crate::machine::{process_cpu_seconds, thread_cpu_seconds};

/// Memory that `O_DIRECT` accepts.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let bytes = vec![0x5au8; len + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        Self { bytes, start, len }
    }

    fn slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// A pre-written file for direct I/O, removed when dropped.
pub struct Scratch {
    file: File,
    path: std::path::PathBuf,
    len: u64,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Scratch {
    /// Writes a file of `len` bytes in `folder`, so that no later write has to allocate.
    pub fn new(folder: &Path, len: u64) -> Result<Self> {
        let path = folder.join(format!("scratch-{}", std::process::id()));
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(&path)
            .context("O_DIRECT scratch file")?;
        let mut block = Aligned::new(1 << 20);
        let mut writer = &file;
        for _ in 0..len >> 20 {
            writer.write_all(block.slice())?;
        }
        file.sync_all()?;
        Ok(Self { file, path, len })
    }

    /// Nanoseconds of `count` writes of 4 KiB, each followed by its flush, one after the other.
    pub fn durable_4k(&self, count: usize) -> Result<Vec<f64>> {
        use std::os::unix::fs::FileExt as _;
        let mut block = Aligned::new(4096);
        let mut times = Vec::with_capacity(count);
        for i in 0..count as u64 {
            let started = Instant::now();
            self.file.write_all_at(block.slice(), i * 4096 % self.len)?;
            self.file.sync_data()?;
            times.push(started.elapsed().as_secs_f64() * 1e9);
        }
        Ok(times)
    }

    /// Reads `total` bytes from the front in pieces of `piece` with `depth` in flight; seconds.
    pub fn read(&self, total: u64, piece: usize, depth: usize) -> Result<f64> {
        let mut ring = IoUring::new(64)?;
        let mut memory: Vec<Aligned> = (0..depth).map(|_| Aligned::new(piece)).collect();
        let pieces = total.min(self.len) / piece as u64;
        let (started, mut asked, mut done) = (Instant::now(), 0u64, 0u64);
        let mut free: Vec<usize> = (0..depth).collect();
        while done < pieces {
            while asked < pieces
                && let Some(slot) = free.pop()
            {
                let block = memory[slot].slice().as_mut_ptr();
                let entry = opcode::Read::new(types::Fd(self.file.as_raw_fd()), block, u32::try_from(piece)?)
                    .offset(asked * piece as u64)
                    .build()
                    .user_data(slot as u64);
                // SAFETY: the block lives until the loop has seen all completions; a slot is used again only after its own.
                unsafe { ring.submission().push(&entry) }.context("the submission queue is full")?;
                asked += 1;
            }
            ring.submit_and_wait(1)?;
            for entry in ring.completion() {
                ensure!(usize::try_from(entry.result()) == Ok(piece), "read: {}", entry.result());
                free.push(usize::try_from(entry.user_data())?);
                done += 1;
            }
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// Writes `total` bytes in groups of `group` with `depth` in flight and one coalesced flush at a time, the way the journal
    /// does; seconds.
    pub fn grouped(&self, total: u64, group: usize, depth: usize) -> Result<f64> {
        let mut writer = GroupWriter::new(&self.file, self.len, group, depth)?;
        let started = Instant::now();
        let mut block = Aligned::new(group);
        let block = block.slice().as_ptr();
        for _ in 0..total / group as u64 {
            writer.write(block)?;
        }
        writer.finish()?;
        Ok(started.elapsed().as_secs_f64())
    }
}

/// Keeps `depth` writes in flight; after completions were reaped, one flush that covers them.
struct GroupWriter<'a> {
    ring: IoUring,
    file: &'a File,
    len: u64,
    group: usize,
    depth: usize,
    at: u64,
    flying: usize,
    unflushed: bool,
    flushing: bool,
}

const FLUSH: u64 = u64::MAX;

impl<'a> GroupWriter<'a> {
    fn new(file: &'a File, len: u64, group: usize, depth: usize) -> Result<Self> {
        let ring = IoUring::new(64)?;
        Ok(Self { ring, file, len, group, depth, at: 0, flying: 0, unflushed: false, flushing: false })
    }

    fn push(&mut self, entry: &io_uring::squeue::Entry) -> Result<()> {
        // SAFETY: the file outlives the ring, and the buffers outlive `finish`, which callers call before they drop them.
        unsafe { self.ring.submission().push(entry) }.context("the submission queue is full")
    }

    /// Writes one group from `block`, which stays valid and unchanged until `finish`.
    fn write(&mut self, block: *const u8) -> Result<()> {
        while self.flying >= self.depth {
            self.reap(1)?;
        }
        let offset = self.at % (self.len - self.group as u64 + 1) / self.group as u64 * self.group as u64;
        self.at += self.group as u64;
        let entry = opcode::Write::new(types::Fd(self.file.as_raw_fd()), block, u32::try_from(self.group)?)
            .offset(offset)
            .build();
        self.push(&entry)?;
        self.flying += 1;
        self.ring.submit()?;
        Ok(())
    }

    fn reap(&mut self, wait: usize) -> Result<()> {
        self.ring.submit_and_wait(wait)?;
        let done: Vec<_> = self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (data, result) in done {
            ensure!(result >= 0, "I/O error {result}");
            if data == FLUSH {
                self.flushing = false;
            } else {
                self.flying -= 1;
                self.unflushed = true;
            }
        }
        if self.unflushed && !self.flushing {
            let entry = opcode::Fsync::new(types::Fd(self.file.as_raw_fd()))
                .flags(types::FsyncFlags::DATASYNC)
                .build()
                .user_data(FLUSH);
            self.push(&entry)?;
            self.ring.submit()?;
            self.flushing = true;
            self.unflushed = false;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        while self.flying > 0 || self.flushing || self.unflushed {
            self.reap(1)?;
        }
        Ok(())
    }
}

/// Nanoseconds of `count` loopback round trips: `request` bytes there, `response` bytes back, both sides blocking.
pub fn round_trips(request: usize, response: usize, count: usize) -> Result<Vec<f64>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let (mut input, output) = (vec![0u8; request], vec![0u8; response]);
        for _ in 0..count {
            stream.read_exact(&mut input)?;
            stream.write_all(&output)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let (output, mut input) = (vec![0u8; request], vec![0u8; response]);
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        stream.write_all(&output)?;
        stream.read_exact(&mut input)?;
        times.push(started.elapsed().as_secs_f64() * 1e9);
    }
    server.join().map_err(|_| anyhow::anyhow!("the echo side failed"))??;
    Ok(times)
}

/// CPU seconds (the kernel's workers for its flushes too) and wall seconds of the receiving side that takes `total` bytes from
/// a socket, copies them once with CRC-32C into aligned memory and writes that durably (256 KiB groups, four in flight,
/// coalesced flush): the floor of produce.
pub fn receive_copy_write(scratch: &Scratch, total: u64) -> Result<(f64, f64)> {
    const GROUP: usize = 256 << 10;
    const SLOTS: usize = 16;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let sender = std::thread::spawn(move || -> Result<f64> {
        let mut stream = TcpStream::connect(address)?;
        let block = vec![0x33u8; 1 << 20];
        for _ in 0..total >> 20 {
            stream.write_all(&block)?;
        }
        Ok(thread_cpu_seconds())
    });
    let (started, before) = (Instant::now(), process_cpu_seconds());
    let (mut stream, _) = listener.accept()?;
    let sums = dataplane::checksums::fast();
    let mut slots = Aligned::new(GROUP * SLOTS);
    let slots = slots.slice();
    let mut input = vec![0u8; GROUP];
    let mut writer = GroupWriter::new(&scratch.file, scratch.len, GROUP, 4)?;
    for i in 0..usize::try_from(total)? / GROUP {
        stream.read_exact(&mut input)?;
        // At most four writes fly, so a slot is free again long before its turn comes.
        let slot = &mut slots[i % SLOTS * GROUP..][..GROUP];
        let (crc, _) = copy_crc(&sums, &input, slot);
        std::hint::black_box(crc);
        writer.write(slot.as_ptr())?;
    }
    writer.finish()?;
    let seconds = started.elapsed().as_secs_f64();
    let sending = sender.join().map_err(|_| anyhow::anyhow!("the sending side failed"))??;
    Ok((process_cpu_seconds() - before - sending, seconds))
}

fn copy_crc(sums: &base::Checksums, from: &[u8], to: &mut [u8]) -> (u32, usize) {
    let mut crc = 0;
    for (source, target) in from.chunks(16 << 10).zip(to.chunks_mut(16 << 10)) {
        target.copy_from_slice(source);
        crc = (sums.crc32c)(crc, target);
    }
    (crc, from.len())
}

/// CPU seconds and wall seconds of the sending side that sends `total` bytes out of 256 MiB of memory to a reader that throws
/// them away: the floor of drain.
pub fn send(total: u64) -> Result<(f64, f64)> {
    const BLOCK: usize = 1 << 20;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let reader = std::thread::spawn(move || -> Result<()> {
        let mut stream = TcpStream::connect(address)?;
        let mut block = vec![0u8; 256 << 10];
        let mut left = total;
        while left > 0 {
            let n = stream.read(&mut block)?;
            ensure!(n > 0, "the sending side closed early");
            left -= n as u64;
        }
        Ok(())
    });
    let (mut stream, _) = listener.accept()?;
    let memory = vec![0x44u8; 256 << 20];
    let (started, cpu) = (Instant::now(), thread_cpu_seconds());
    for i in 0..usize::try_from(total)? / BLOCK {
        let at = i * BLOCK % memory.len();
        stream.write_all(&memory[at..at + BLOCK])?;
    }
    let result = (thread_cpu_seconds() - cpu, started.elapsed().as_secs_f64());
    reader.join().map_err(|_| anyhow::anyhow!("the reading side failed"))??;
    Ok(result)
}
