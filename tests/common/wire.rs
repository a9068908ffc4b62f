//! A raw Kafka client for tests that must know exactly what was sent and answered: fixed old versions, blocking sockets.
#![allow(unreachable_pub, reason = "shared by test binaries")]
#![allow(dead_code, reason = "every test binary uses another part of it")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Whatever goes wrong on a connection, reconnecting is the answer.
pub type Attempt<T> = Result<T, String>;

pub struct Wire {
    stream: TcpStream,
    correlation: i32,
}

/// The answer to a fetch of one partition.
#[derive(Debug)]
pub struct Fetched {
    pub code: i16,
    pub high_watermark: i64,
    pub log_start: i64,
    /// Batches, the last of them perhaps cut off.
    pub bytes: Vec<u8>,
}

/// Reads big-endian fields of a response.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        head
    }

    pub fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.take(2).try_into().expect("two bytes"))
    }

    pub fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    pub fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().expect("eight bytes"))
    }

    pub fn string(&mut self) -> &'a [u8] {
        let n = self.i16();
        self.take(usize::try_from(n).unwrap_or(0))
    }

    pub fn bytes(&mut self) -> &'a [u8] {
        let n = self.i32();
        self.take(usize::try_from(n).unwrap_or(0))
    }
}

pub fn string(out: &mut Vec<u8>, text: &str) {
    out.extend(i16::try_from(text.len()).expect("short").to_be_bytes());
    out.extend(text.as_bytes());
}

impl Wire {
    pub fn connect(address: SocketAddr) -> Attempt<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(2)).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(|error| error.to_string())?;
        Ok(Self { stream, correlation: 0 })
    }

    /// Sends a request with a version 1 header.
    pub fn send(&mut self, key: i16, version: i16, body: impl FnOnce(&mut Vec<u8>)) -> Attempt<()> {
        let mut out = vec![0u8; 4];
        out.extend(key.to_be_bytes());
        out.extend(version.to_be_bytes());
        self.correlation += 1;
        out.extend(self.correlation.to_be_bytes());
        string(&mut out, "wire");
        body(&mut out);
        let len = u32::try_from(out.len() - 4).expect("a small request");
        out[..4].copy_from_slice(&len.to_be_bytes());
        self.stream.write_all(&out).map_err(|error| error.to_string())
    }

    /// The next response, behind its correlation id.
    pub fn receive(&mut self) -> Attempt<Vec<u8>> {
        let mut len = [0u8; 4];
        self.stream.read_exact(&mut len).map_err(|error| error.to_string())?;
        let mut response = vec![0u8; u32::from_be_bytes(len) as usize];
        self.stream.read_exact(&mut response).map_err(|error| error.to_string())?;
        Ok(response.split_off(4))
    }

    /// CreateTopics v2; an error code, or 0.
    pub fn create_topic(&mut self, topic: &str, partitions: i32, configs: &[(&str, &str)]) -> Attempt<i16> {
        self.send(19, 2, |out| {
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(partitions.to_be_bytes());
            out.extend(1i16.to_be_bytes());
            out.extend(0i32.to_be_bytes());
            out.extend(u32::try_from(configs.len()).expect("few").to_be_bytes());
            for (key, value) in configs {
                string(out, key);
                string(out, value);
            }
            out.extend(20_000i32.to_be_bytes());
            out.push(0);
        })?;
        let response = self.receive()?;
        let mut fields = Fields(&response);
        fields.take(8);
        fields.string();
        Ok(fields.i16())
    }

    /// InitProducerId v0 for an idempotent producer: id and epoch.
    pub fn producer_id(&mut self) -> Attempt<(i64, i16)> {
        self.send(22, 0, |out| {
            out.extend((-1i16).to_be_bytes());
            out.extend(60_000i32.to_be_bytes());
        })?;
        let response = self.receive()?;
        let mut fields = Fields(&response);
        fields.take(4);
        match fields.i16() {
            0 => Ok((fields.i64(), fields.i16())),
            code => Err(format!("InitProducerId: error {code}")),
        }
    }

    /// Sends Produce v7, acks=all, of one batch to one partition.
    pub fn send_produce(&mut self, topic: &str, partition: i32, batch: &[u8]) -> Attempt<()> {
        self.send(0, 7, |out| {
            out.extend((-1i16).to_be_bytes());
            out.extend((-1i16).to_be_bytes());
            out.extend(20_000i32.to_be_bytes());
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(1i32.to_be_bytes());
            out.extend(partition.to_be_bytes());
            out.extend(u32::try_from(batch.len()).expect("a small batch").to_be_bytes());
            out.extend(batch);
        })
    }

    /// The answer to [`Self::send_produce`]: error code and base offset.
    pub fn receive_produce(&mut self) -> Attempt<(i16, i64)> {
        let response = self.receive()?;
        let mut fields = Fields(&response);
        fields.take(4);
        fields.string();
        fields.take(8);
        Ok((fields.i16(), fields.i64()))
    }

    /// Fetch v11 of one partition.
    pub fn fetch(&mut self, topic: &str, partition: i32, offset: i64, bytes: i32) -> Attempt<Fetched> {
        self.send(1, 11, |out| {
            out.extend((-1i32).to_be_bytes());
            out.extend(200i32.to_be_bytes());
            out.extend(1i32.to_be_bytes());
            out.extend(bytes.to_be_bytes());
            out.push(0);
            out.extend(0i32.to_be_bytes());
            out.extend((-1i32).to_be_bytes());
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(1i32.to_be_bytes());
            out.extend(partition.to_be_bytes());
            out.extend((-1i32).to_be_bytes());
            out.extend(offset.to_be_bytes());
            out.extend((-1i64).to_be_bytes());
            out.extend(bytes.to_be_bytes());
            out.extend(0i32.to_be_bytes());
            string(out, "");
        })?;
        let response = self.receive()?;
        let mut fields = Fields(&response);
        fields.take(4 + 2 + 4 + 4);
        fields.string();
        fields.take(8);
        let (code, high_watermark) = (fields.i16(), fields.i64());
        fields.take(8);
        let log_start = fields.i64();
        let aborted = usize::try_from(fields.i32()).unwrap_or(0);
        fields.take(16 * aborted + 4);
        Ok(Fetched { code, high_watermark, log_start, bytes: fields.bytes().to_vec() })
    }

    /// ListOffsets v1 for the end of one partition: an error code, or 0, and the offset.
    pub fn end(&mut self, topic: &str, partition: i32) -> Attempt<(i16, i64)> {
        self.send(2, 1, |out| {
            out.extend((-1i32).to_be_bytes());
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(1i32.to_be_bytes());
            out.extend(partition.to_be_bytes());
            out.extend((-1i64).to_be_bytes());
        })?;
        let response = self.receive()?;
        let mut fields = Fields(&response);
        fields.take(4);
        fields.string();
        fields.take(4 + 4);
        let code = fields.i16();
        fields.take(8);
        Ok((code, fields.i64()))
    }

    /// DeleteRecords v1 of one partition, all before `offset`; an error code, or 0.
    pub fn delete_records(&mut self, topic: &str, partition: i32, offset: i64) -> Attempt<i16> {
        self.send(21, 1, |out| {
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(1i32.to_be_bytes());
            out.extend(partition.to_be_bytes());
            out.extend(offset.to_be_bytes());
            out.extend(20_000i32.to_be_bytes());
        })?;
        let response = self.receive()?;
        let mut fields = Fields(&response);
        fields.take(8);
        fields.string();
        fields.take(4 + 4 + 8);
        Ok(fields.i16())
    }

    /// DeleteTopics v1; an error code, or 0.
    pub fn delete_topic(&mut self, topic: &str) -> Attempt<i16> {
        self.send(20, 1, |out| {
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(20_000i32.to_be_bytes());
        })?;
        let response = self.receive()?;
        let mut fields = Fields(&response);
        fields.take(8);
        fields.string();
        Ok(fields.i16())
    }

    /// Metadata v4 of one topic, which is not created: its error code, or 0.
    pub fn topic_error(&mut self, topic: &str) -> Attempt<i16> {
        self.send(3, 4, |out| {
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.push(0);
        })?;
        let response = self.receive()?;
        let mut fields = Fields(&response);
        fields.take(4);
        for _ in 0..fields.i32() {
            fields.take(4);
            fields.string();
            fields.take(4);
            fields.string();
        }
        fields.string();
        fields.take(4 + 4);
        Ok(fields.i16())
    }

    /// FindCoordinator v0 of a group: an error code, or 0. The first one makes the topic of committed offsets.
    pub fn find_coordinator(&mut self, group: &str) -> Attempt<i16> {
        self.send(10, 0, |out| string(out, group))?;
        let response = self.receive()?;
        Ok(Fields(&response).i16())
    }

    /// OffsetCommit v2 of one partition by nobody's member; an error code, or 0.
    pub fn commit_offset(&mut self, group: &str, topic: &str, partition: i32, offset: i64) -> Attempt<i16> {
        self.send(8, 2, |out| {
            string(out, group);
            out.extend((-1i32).to_be_bytes());
            string(out, "");
            out.extend((-1i64).to_be_bytes());
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(1i32.to_be_bytes());
            out.extend(partition.to_be_bytes());
            out.extend(offset.to_be_bytes());
            string(out, "");
        })?;
        let response = self.receive()?;
        let mut fields = Fields(&response);
        fields.take(4);
        fields.string();
        fields.take(4 + 4);
        Ok(fields.i16())
    }

    /// OffsetFetch v1 of one partition: error code and committed offset, -1 where there is none.
    pub fn committed_offset(&mut self, group: &str, topic: &str, partition: i32) -> Attempt<(i16, i64)> {
        self.send(9, 1, |out| {
            string(out, group);
            out.extend(1i32.to_be_bytes());
            string(out, topic);
            out.extend(1i32.to_be_bytes());
            out.extend(partition.to_be_bytes());
        })?;
        let response = self.receive()?;
        let mut fields = Fields(&response);
        fields.take(4);
        fields.string();
        fields.take(4 + 4);
        let offset = fields.i64();
        fields.string();
        Ok((fields.i16(), offset))
    }
}
