//! A raw blocking Kafka client: fixed old versions, no decoding beyond what moves it on. What it costs is close to nothing, so
//! that the broker is what is measured.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use base::Checksums;
use protocol::batch::{BatchBuilder, Producer};

/// One connection.
pub struct RawClient {
    stream: TcpStream,
    correlation: i32,
    response: Vec<u8>,
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend(i16::try_from(text.len()).unwrap_or(i16::MAX).to_be_bytes());
    out.extend(text.as_bytes());
}

/// A batch of `count` records with values of `size` bytes that do not compress.
#[must_use]
pub fn batch(count: usize, size: usize, sums: &Checksums) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut value = vec![0u8; size];
    // Now: older records would expire as soon as they are there.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    for _ in 0..count {
        for chunk in value.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
        }
        builder.append(now, None, Some(&value), &[]);
    }
    builder.finish(Producer::NONE, sums).to_vec()
}

impl RawClient {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { stream, correlation: 0, response: Vec::new() })
    }

    fn request(&mut self, key: i16, version: i16, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = vec![0u8; 4];
        out.extend(key.to_be_bytes());
        out.extend(version.to_be_bytes());
        self.correlation += 1;
        out.extend(self.correlation.to_be_bytes());
        string(&mut out, "raw");
        body(&mut out);
        let len = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
        out[..4].copy_from_slice(&len.to_be_bytes());
        out
    }

    fn read(&mut self) -> Result<&[u8]> {
        let mut len = [0u8; 4];
        self.stream.read_exact(&mut len)?;
        let len = u32::from_be_bytes(len) as usize;
        ensure!(len < 256 << 20, "a response of {len} bytes");
        self.response.resize(len, 0);
        self.stream.read_exact(&mut self.response)?;
        Ok(&self.response)
    }

    /// Creates a topic (CreateTopics v2); one that exists is fine.
    pub fn create_topic(&mut self, topic: &str, partitions: i32) -> Result<()> {
        let request = self.request(19, 2, |out| {
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(partitions.to_be_bytes());
            out.extend(1i16.to_be_bytes());
            out.extend([0u8; 8]); // no assignments, no configurations
            out.extend(30_000i32.to_be_bytes());
            out.push(0);
        });
        self.stream.write_all(&request)?;
        let name = topic.len();
        let response = self.read()?;
        let at = 4 + 4 + 4 + 2 + name;
        let code = response.get(at..at + 2).context("a short response")?;
        let code = i16::from_be_bytes([code[0], code[1]]);
        ensure!(code == 0 || code == 36, "CreateTopics: error {code}");
        Ok(())
    }

    /// Deletes a topic (DeleteTopics v1).
    pub fn delete_topic(&mut self, topic: &str) -> Result<()> {
        let request = self.request(20, 1, |out| {
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(30_000i32.to_be_bytes());
        });
        self.stream.write_all(&request)?;
        let at = 4 + 4 + 4 + 2 + topic.len();
        let response = self.read()?;
        let code = response.get(at..at + 2).context("a short response")?;
        let code = i16::from_be_bytes([code[0], code[1]]);
        ensure!(code == 0, "DeleteTopics: error {code}");
        Ok(())
    }

    /// A Produce v7 request, acks=all, of one batch to one partition; may be sent again and again.
    pub fn produce_request(&mut self, topic: &str, partition: i32, batch: &[u8]) -> Vec<u8> {
        self.request(0, 7, |out| {
            out.extend((-1i16).to_be_bytes());
            out.extend((-1i16).to_be_bytes());
            out.extend(30_000i32.to_be_bytes());
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(1i32.to_be_bytes());
            out.extend(partition.to_be_bytes());
            out.extend(u32::try_from(batch.len()).unwrap_or(u32::MAX).to_be_bytes());
            out.extend(batch);
        })
    }

    /// Sends a request made before.
    pub fn send(&mut self, request: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(request)?)
    }

    /// Reads the answer to a [`Self::produce_request`] for `topic`; an error code is an error. The base offset.
    pub fn produced(&mut self, topic: &str) -> Result<i64> {
        let at = 4 + 4 + 2 + topic.len() + 4 + 4;
        let response = self.read()?;
        let fields = response.get(at..at + 10).context("a short Produce response")?;
        let code = i16::from_be_bytes([fields[0], fields[1]]);
        ensure!(code == 0, "Produce: error {code}");
        Ok(i64::from_be_bytes(fields[2..10].try_into()?))
    }

    /// Nanoseconds of `count` round trips of one batch each, one in flight.
    pub fn one_in_flight(&mut self, topic: &str, partition: i32, batch: &[u8], count: usize) -> Result<Vec<f64>> {
        let request = self.produce_request(topic, partition, batch);
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let started = Instant::now();
            self.send(&request)?;
            self.produced(topic)?;
            times.push(started.elapsed().as_secs_f64() * 1e9);
        }
        Ok(times)
    }

    /// Fetches (v11) every partition from offset 0 until `records` records were seen; bytes of record batches.
    pub fn drain(&mut self, topic: &str, partitions: i32, records: u64) -> Result<u64> {
        self.drain_from(topic, 0, &mut vec![0i64; usize::try_from(partitions)?], records)
    }

    /// The same of one partition.
    pub fn drain_one(&mut self, topic: &str, partition: i32, records: u64) -> Result<u64> {
        self.drain_from(topic, partition, &mut [0i64], records)
    }

    fn drain_from(&mut self, topic: &str, first: i32, offsets: &mut [i64], records: u64) -> Result<u64> {
        let (mut seen, mut bytes) = (0u64, 0u64);
        let deadline = Instant::now() + Duration::from_secs(300);
        while seen < records {
            ensure!(Instant::now() < deadline, "only {seen} of {records} records within five minutes");
            let (more, of) = self.fetch_from(topic, first, offsets)?;
            seen += more;
            bytes += of;
        }
        Ok(bytes)
    }

    /// One Fetch (v11, waits up to 500 ms) of every partition from the offsets on, which move behind what came: records, and
    /// bytes of record batches.
    pub fn fetch(&mut self, topic: &str, offsets: &mut [i64]) -> Result<(u64, u64)> {
        self.fetch_from(topic, 0, offsets)
    }

    /// The same of the partitions from number `first` on.
    fn fetch_from(&mut self, topic: &str, first: i32, offsets: &mut [i64]) -> Result<(u64, u64)> {
        let request = self.fetch_request(topic, first, offsets);
        self.stream.write_all(&request)?;
        let name = topic.len();
        let (mut seen, mut bytes) = (0, 0);
        let response = self.read()?;
        let mut at = 4 + 4 + 2 + 4 + 4 + 2 + name + 4;
        for _ in 0..offsets.len() {
            let head = response.get(at..at + 4 + 2 + 24).context("a short Fetch response")?;
            let partition = usize::try_from(i32::from_be_bytes(head[..4].try_into()?) - first)?;
            let code = i16::from_be_bytes([head[4], head[5]]);
            ensure!(code == 0, "Fetch: error {code}");
            let aborted = i32::from_be_bytes(response[at + 30..at + 34].try_into()?).max(0);
            at += 34 + 16 * usize::try_from(aborted)? + 4;
            let len = i32::from_be_bytes(response[at..at + 4].try_into()?).max(0);
            at += 4;
            let end = at + usize::try_from(len)?;
            let batches = response.get(at..end).context("a short Fetch response")?;
            seen += advance(batches, &mut offsets[partition])?;
            bytes += batches.len() as u64;
            at = end;
        }
        Ok((seen, bytes))
    }

    /// Metadata (v1) of all topics: bytes of the answer.
    pub fn metadata(&mut self) -> Result<usize> {
        let request = self.request(3, 1, |out| out.extend((-1i32).to_be_bytes()));
        self.stream.write_all(&request)?;
        Ok(self.read()?.len())
    }

    /// Another handle of the connection, for a thread that reads answers while this one sends.
    pub fn answers(&self) -> Result<Self> {
        Ok(Self { stream: self.stream.try_clone()?, correlation: 0, response: Vec::new() })
    }

    fn fetch_request(&mut self, topic: &str, first: i32, offsets: &[i64]) -> Vec<u8> {
        self.request(1, 11, |out| {
            out.extend((-1i32).to_be_bytes());
            out.extend(500i32.to_be_bytes());
            out.extend(1i32.to_be_bytes());
            out.extend((50i32 << 20).to_be_bytes());
            out.push(0);
            out.extend(0i32.to_be_bytes());
            out.extend((-1i32).to_be_bytes());
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(u32::try_from(offsets.len()).unwrap_or(0).to_be_bytes());
            for (partition, offset) in (first..).zip(offsets) {
                out.extend(partition.to_be_bytes());
                out.extend((-1i32).to_be_bytes());
                out.extend(offset.to_be_bytes());
                out.extend((-1i64).to_be_bytes());
                out.extend((1i32 << 20).to_be_bytes());
            }
            out.extend(0i32.to_be_bytes());
            string(out, "");
        })
    }
}

/// Hops over whole batches; how many records they hold at or after `offset`, which moves behind them.
fn advance(mut batches: &[u8], offset: &mut i64) -> Result<u64> {
    let mut records = 0u64;
    while batches.len() >= 61 {
        let base = i64::from_be_bytes(batches[..8].try_into()?);
        let len = 12 + usize::try_from(i32::from_be_bytes(batches[8..12].try_into()?))?;
        let last = base + i64::from(i32::from_be_bytes(batches[23..27].try_into()?));
        if len > batches.len() {
            break;
        }
        if last < *offset {
            bail!("a batch below the offset asked for");
        }
        records += u64::try_from(last + 1 - *offset)?;
        *offset = last + 1;
        batches = &batches[len..];
    }
    Ok(records)
}
