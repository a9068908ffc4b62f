//! A consumer group of many members, as bytes on the wire: what the broker does for a rebalance, without a client library's own cost.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

const JOIN: i16 = 11;
const HEARTBEAT: i16 = 12;
const SYNC: i16 = 14;
const REBALANCE_IN_PROGRESS: i16 = 27;

/// A member with its connection.
struct Member {
    stream: TcpStream,
    id: String,
    generation: i32,
    leader: bool,
    /// Ids of all members; the leader is told them.
    members: Vec<String>,
}

/// Fields of an answer, from the front.
struct Fields(VecDeque<u8>);

impl Fields {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes: Vec<u8> = self.0.drain(..N.min(self.0.len())).collect();
        bytes.try_into().map_err(|_| anyhow::anyhow!("a short answer"))
    }

    fn int16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.take()?))
    }

    fn int32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take()?))
    }

    fn string(&mut self) -> Result<String> {
        let len = usize::try_from(self.int16()?)?;
        ensure!(len <= self.0.len(), "a short answer");
        Ok(String::from_utf8(self.0.drain(..len).collect())?)
    }

    fn bytes(&mut self) -> Result<usize> {
        let len = usize::try_from(self.int32()?)?;
        ensure!(len <= self.0.len(), "a short answer");
        self.0.drain(..len);
        Ok(len)
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend(i16::try_from(text.len()).unwrap_or(i16::MAX).to_be_bytes());
    out.extend(text.as_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(i32::try_from(bytes.len()).unwrap_or(i32::MAX).to_be_bytes());
    out.extend(bytes);
}

impl Member {
    fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { stream, id: String::new(), generation: -1, leader: false, members: Vec::new() })
    }

    fn send(&mut self, key: i16, version: i16, body: &[u8]) -> Result<()> {
        let mut out = vec![0u8; 4];
        out.extend(key.to_be_bytes());
        out.extend(version.to_be_bytes());
        out.extend(1i32.to_be_bytes());
        string(&mut out, "raw");
        out.extend(body);
        let len = u32::try_from(out.len() - 4)?;
        out[..4].copy_from_slice(&len.to_be_bytes());
        Ok(self.stream.write_all(&out)?)
    }

    fn answer(&mut self) -> Result<Fields> {
        let mut len = [0u8; 4];
        self.stream.read_exact(&mut len)?;
        let mut all = vec![0u8; u32::from_be_bytes(len) as usize];
        self.stream.read_exact(&mut all)?;
        let mut fields = Fields(all.into());
        fields.int32()?; // the correlation id
        Ok(fields)
    }

    /// JoinGroup v2 with one protocol; the session is long, so that nobody is thrown out while all wait for one.
    fn join(&mut self, group: &str) -> Result<()> {
        let mut body = Vec::new();
        string(&mut body, group);
        body.extend(60_000i32.to_be_bytes());
        body.extend(60_000i32.to_be_bytes());
        string(&mut body, &self.id);
        string(&mut body, "consumer");
        body.extend(1i32.to_be_bytes());
        string(&mut body, "range");
        bytes(&mut body, &[0u8; 32]);
        self.send(JOIN, 2, &body)
    }

    fn joined(&mut self) -> Result<()> {
        let mut fields = self.answer()?;
        fields.int32()?; // throttle time
        let code = fields.int16()?;
        ensure!(code == 0, "JoinGroup: error {code}");
        self.generation = fields.int32()?;
        fields.string()?; // the protocol
        let leader = fields.string()?;
        self.id = fields.string()?;
        self.leader = leader == self.id;
        self.members.clear();
        for _ in 0..fields.int32()? {
            self.members.push(fields.string()?);
            fields.bytes()?;
        }
        Ok(())
    }

    /// SyncGroup v1; the leader's with 64 bytes for everybody.
    fn sync(&mut self, group: &str) -> Result<()> {
        let mut body = Vec::new();
        string(&mut body, group);
        body.extend(self.generation.to_be_bytes());
        string(&mut body, &self.id);
        let members = if self.leader { std::mem::take(&mut self.members) } else { Vec::new() };
        body.extend(i32::try_from(members.len())?.to_be_bytes());
        for member in &members {
            string(&mut body, member);
            bytes(&mut body, &[1u8; 64]);
        }
        self.send(SYNC, 1, &body)
    }

    fn synced(&mut self) -> Result<()> {
        let mut fields = self.answer()?;
        fields.int32()?; // throttle time
        let code = fields.int16()?;
        ensure!(code == 0, "SyncGroup: error {code}");
        ensure!(fields.bytes()? == 64, "the assignment is not what the leader gave");
        Ok(())
    }

    /// Heartbeat v1: whether the group rebalances.
    fn heartbeat(&mut self, group: &str) -> Result<bool> {
        let mut body = Vec::new();
        string(&mut body, group);
        body.extend(self.generation.to_be_bytes());
        string(&mut body, &self.id);
        self.send(HEARTBEAT, 1, &body)?;
        let mut fields = self.answer()?;
        fields.int32()?; // throttle time
        match fields.int16()? {
            0 => Ok(false),
            REBALANCE_IN_PROGRESS => Ok(true),
            code => bail!("Heartbeat: error {code}"),
        }
    }
}

/// Members of a group, all in it.
pub struct Group {
    name: String,
    address: SocketAddr,
    members: Vec<Member>,
}

impl Group {
    /// A group of so many members, formed.
    pub fn form(address: SocketAddr, name: &str, members: usize) -> Result<Self> {
        let members = (0..members).map(|_| Member::connect(address)).collect::<Result<Vec<_>>>()?;
        let mut group = Self { name: name.into(), address, members };
        group.rebalance()?;
        // Those who came while the first generation formed may have begun a second.
        while group.members[0].heartbeat(name)? {
            group.rebalance()?;
        }
        Ok(group)
    }

    /// Everybody joins, and everybody has an assignment when it returns.
    fn rebalance(&mut self) -> Result<()> {
        for member in &mut self.members {
            member.join(&self.name)?;
        }
        for member in &mut self.members {
            member.joined()?;
        }
        let generation = self.members.iter().map(|member| member.generation).max().context("a group of nobody")?;
        if self.members.iter().any(|member| member.generation != generation) {
            return self.rebalance();
        }
        self.members.iter_mut().try_for_each(|member| member.sync(&self.name))?;
        self.members.iter_mut().try_for_each(Member::synced)
    }

    /// Seconds from the moment at which one more joins until all have their assignment: the others hear of it at their next
    /// heartbeat, which comes at once here.
    pub fn one_more(&mut self) -> Result<f64> {
        let mut newcomer = Member::connect(self.address)?;
        let started = Instant::now();
        newcomer.join(&self.name)?;
        for member in &mut self.members {
            while !member.heartbeat(&self.name)? {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        for member in &mut self.members {
            member.join(&self.name)?;
        }
        self.members.push(newcomer);
        self.members.iter_mut().try_for_each(Member::joined)?;
        self.members.iter_mut().try_for_each(|member| member.sync(&self.name))?;
        self.members.iter_mut().try_for_each(Member::synced)?;
        Ok(started.elapsed().as_secs_f64())
    }
}
