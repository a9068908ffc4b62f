//! Commands and states as bytes: for the log and the snapshots of the metadata store.
//!
//! Numbers are LEB128 varints unless said otherwise, 128-bit ids and secrets 16 bytes little-endian, strings a length and
//! UTF-8. The first byte is the version of the encoding; a newer one is refused by name. What is read is checked: these
//! bytes will come from other brokers one day.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::{JournalClass, Lifetime, Secret};
use base::{BrokerId, Epoch, JournalId, Offset, PartitionId, ProducerId, TopicId};

use crate::command::{Command, ConfigChange, ConfigOp, DeviceUuid, Entropy, MoveTo};
use crate::config::Overrides;
use crate::state::{Broker, Home, Journal, Partition, State, Topic};

/// Version of the encoding of commands. Version 2 has those that move partitions, and is written for them only.
pub const COMMAND_VERSION: u8 = 2;

/// Version of the encoding of states. Version 2 says where partitions are to go, and is written where one has moved or is
/// about to: a program that knows version 1 only would not look for its older records.
pub const STATE_VERSION: u8 = 2;

/// Why bytes are no command or state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Written by a newer version; here it is.
    Newer(u8),
    /// They end too early.
    Truncated,
    /// They go on after the end.
    Trailing,
    /// A field has a value that it cannot have; here is which.
    Invalid(&'static str),
}

/// The bytes of a command.
#[must_use]
pub fn encode_command(command: &Command) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(64));
    let moves = matches!(
        command,
        Command::Move { .. } | Command::FinishMove { .. } | Command::CancelMove { .. } | Command::LeaveHomes { .. }
    );
    out.byte(if moves { COMMAND_VERSION } else { 1 });
    match command {
        Command::RegisterBroker { broker, devices, journals_per_class } => {
            out.byte(1);
            out.broker(*broker);
            out.devices(devices);
            out.number((*journals_per_class).into());
        }
        Command::RaiseEpoch { broker, above } => {
            out.byte(2);
            out.broker(*broker);
            out.epoch(*above);
        }
        Command::CreateTopic { id, name, partitions, class, configs, entropy } => {
            out.byte(3);
            out.wide(id.0);
            out.text(name);
            out.number((*partitions).into());
            out.class(*class);
            out.pairs(configs.len(), configs.iter().map(|(name, value)| (name, value)));
            out.0.extend_from_slice(&entropy.0);
        }
        Command::DeleteTopic { id } => {
            out.byte(4);
            out.wide(id.0);
        }
        Command::CreatePartitions { id, total, class, entropy } => {
            out.byte(5);
            out.wide(id.0);
            out.number((*total).into());
            out.class(*class);
            out.0.extend_from_slice(&entropy.0);
        }
        Command::SetConfigs { id, configs } => {
            out.byte(6);
            out.wide(id.0);
            out.pairs(configs.len(), configs.iter().map(|(name, value)| (name, value)));
        }
        Command::AlterConfigs { id, changes } => {
            out.byte(7);
            out.wide(id.0);
            out.number(changes.len() as u64);
            for change in changes {
                out.change(change);
            }
        }
        Command::AllocateProducerIds { count } => {
            out.byte(8);
            out.number((*count).into());
        }
        Command::Move { id, partition, to, entropy } => {
            out.byte(9);
            out.partition(*id, *partition);
            match to {
                MoveTo::Journal(journal) => {
                    out.byte(1);
                    out.number(journal.0);
                }
                MoveTo::Class(class) => {
                    out.byte(2);
                    out.class(*class);
                }
            }
            out.0.extend_from_slice(&entropy.0);
        }
        Command::FinishMove { id, partition, journal, first } => {
            out.byte(10);
            out.partition(*id, *partition);
            out.home(Home { journal: *journal, first: *first });
        }
        Command::CancelMove { id, partition, journal } => {
            out.byte(11);
            out.partition(*id, *partition);
            out.number(journal.0);
        }
        Command::LeaveHomes { id, partition, below } => {
            out.byte(12);
            out.partition(*id, *partition);
            out.0.extend_from_slice(&below.0.to_le_bytes());
        }
    }
    out.0
}

/// The command of these bytes.
///
/// # Errors
/// What is wrong with them.
pub fn decode_command(bytes: &[u8]) -> Result<Command, DecodeError> {
    let mut from = Reader(bytes);
    let version = from.version(COMMAND_VERSION)?;
    let command = match from.byte()? {
        1 => Command::RegisterBroker {
            broker: from.broker()?,
            devices: from.devices()?,
            journals_per_class: from.small("journals per class")?,
        },
        2 => Command::RaiseEpoch { broker: from.broker()?, above: from.epoch()? },
        3 => Command::CreateTopic {
            id: TopicId(from.wide()?),
            name: from.text()?,
            partitions: from.small("partitions")?,
            class: from.class()?,
            configs: from.pairs()?,
            entropy: Entropy(from.fixed()?),
        },
        4 => Command::DeleteTopic { id: TopicId(from.wide()?) },
        5 => Command::CreatePartitions {
            id: TopicId(from.wide()?),
            total: from.small("partitions")?,
            class: from.class()?,
            entropy: Entropy(from.fixed()?),
        },
        6 => Command::SetConfigs { id: TopicId(from.wide()?), configs: from.pairs()? },
        7 => Command::AlterConfigs { id: TopicId(from.wide()?), changes: from.list(2, Reader::change)? },
        8 => Command::AllocateProducerIds { count: from.small("producer ids")? },
        9 if version > 1 => {
            let (id, partition) = from.partition()?;
            let to = match from.byte()? {
                1 => MoveTo::Journal(JournalId(from.number()?)),
                2 => MoveTo::Class(from.class()?),
                _ => return Err(DecodeError::Invalid("where to move")),
            };
            Command::Move { id, partition, to, entropy: Entropy(from.fixed()?) }
        }
        10 if version > 1 => {
            let ((id, partition), home) = (from.partition()?, from.home()?);
            Command::FinishMove { id, partition, journal: home.journal, first: home.first }
        }
        11 if version > 1 => {
            let (id, partition) = from.partition()?;
            Command::CancelMove { id, partition, journal: JournalId(from.number()?) }
        }
        12 if version > 1 => {
            let (id, partition) = from.partition()?;
            Command::LeaveHomes { id, partition, below: Offset(i64::from_le_bytes(from.fixed()?)) }
        }
        _ => return Err(DecodeError::Invalid("command")),
    };
    from.end()?;
    Ok(command)
}

/// The bytes of a state.
#[must_use]
pub fn encode_state(state: &State) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(64 * state.topics.len() + 1024));
    let moved = |partition: &Partition| !partition.earlier.is_empty() || partition.moving.is_some();
    let any = state.topics.values().any(|topic| topic.partitions.iter().any(moved));
    let version = if any { STATE_VERSION } else { 1 };
    out.byte(version);
    out.epoch(state.epoch);
    out.number(state.next_partition.0);
    out.number(state.next_journal.0);
    out.0.extend_from_slice(&state.next_producer.0.to_le_bytes());
    out.number(state.brokers.len() as u64);
    for (id, broker) in &state.brokers {
        out.broker(*id);
        out.devices(&broker.devices);
        out.number(broker.journals_per_class.into());
    }
    out.number(state.journals.len() as u64);
    for (id, journal) in &state.journals {
        out.number(id.0);
        out.class(journal.class);
        out.broker(journal.broker);
        out.number(journal.slot.into());
        out.wide(journal.device.0);
        out.epoch(journal.epoch);
        out.0.extend_from_slice(&journal.secret.0);
    }
    out.number(state.topics.len() as u64);
    for topic in state.topics.values() {
        out.wide(topic.id.0);
        out.text(&topic.name);
        out.pairs(topic.configs.len(), topic.configs.iter());
        out.number(topic.partitions.len() as u64);
        for partition in &topic.partitions {
            out.number(partition.id.0);
            out.home(partition.home);
            out.number(partition.earlier.len() as u64);
            for home in &partition.earlier {
                out.home(*home);
            }
            if version > 1 {
                // Ids of journals begin at one.
                out.number(partition.moving.map_or(0, |journal| journal.0));
            }
        }
    }
    out.0
}

/// The state of these bytes.
///
/// # Errors
/// What is wrong with them.
pub fn decode_state(bytes: &[u8]) -> Result<State, DecodeError> {
    let mut from = Reader(bytes);
    let version = from.version(STATE_VERSION)?;
    let mut state = State::default();
    state.epoch = from.epoch()?;
    state.next_partition = PartitionId(from.number()?);
    state.next_journal = JournalId(from.number()?);
    state.next_producer = ProducerId(i64::from_le_bytes(from.fixed()?));
    for _ in 0..from.count(1)? {
        let id = from.broker()?;
        let broker = Broker { devices: from.devices()?, journals_per_class: from.small("journals per class")? };
        state.brokers.insert(id, broker);
    }
    for _ in 0..from.count(1)? {
        let id = JournalId(from.number()?);
        let journal = Journal {
            class: from.class()?,
            broker: from.broker()?,
            slot: from.small("slot")?,
            device: DeviceUuid(from.wide()?),
            epoch: from.epoch()?,
            secret: Secret(from.fixed()?),
            partitions: 0,
        };
        state.journals.insert(id, journal);
    }
    for _ in 0..from.count(1)? {
        let topic = Topic {
            id: TopicId(from.wide()?),
            name: from.text()?,
            configs: from.pairs()?.into_iter().collect::<Overrides>(),
            partitions: from.list(4, |from| {
                Ok(Partition {
                    id: PartitionId(from.number()?),
                    home: from.home()?,
                    earlier: from.list(2, Reader::home)?,
                    moving: match version {
                        1 => None,
                        _ => Some(JournalId(from.number()?)).filter(|journal| journal.0 > 0),
                    },
                })
            })?,
        };
        if state.topics.insert(topic.name.clone(), Arc::new(topic)).is_some() {
            return Err(DecodeError::Invalid("a topic name that two topics have"));
        }
    }
    from.end()?;
    state.derive().map_err(DecodeError::Invalid)?;
    Ok(state)
}

type Pairs = Vec<(Arc<str>, Arc<str>)>;

struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n.to_le_bytes()[0] | 0x80);
            n >>= 7;
        }
        self.0.push(n.to_le_bytes()[0]);
    }

    fn wide(&mut self, n: u128) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn broker(&mut self, id: BrokerId) {
        self.0.extend_from_slice(&id.0.to_le_bytes());
    }

    fn epoch(&mut self, epoch: Epoch) {
        self.0.extend_from_slice(&epoch.0.to_le_bytes());
    }

    fn devices(&mut self, devices: &[DeviceUuid]) {
        self.number(devices.len() as u64);
        for device in devices {
            self.wide(device.0);
        }
    }

    fn class(&mut self, class: JournalClass) {
        let lifetime = match class.lifetime {
            Lifetime::Short => 0,
            Lifetime::Medium => 1,
            Lifetime::Long => 2,
        };
        self.byte(class.replicas);
        self.byte(lifetime | u8::from(class.compacted) << 2 | u8::from(class.internal) << 3);
    }

    fn pairs<'a>(&mut self, count: usize, pairs: impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)>) {
        self.number(count as u64);
        for (name, value) in pairs {
            self.text(name);
            self.text(value);
        }
    }

    fn change(&mut self, change: &ConfigChange) {
        let op = match change.op {
            ConfigOp::Set => 0,
            ConfigOp::Delete => 1,
            ConfigOp::Append => 2,
            ConfigOp::Subtract => 3,
        };
        self.byte(op | u8::from(change.value.is_some()) << 2);
        self.text(&change.name);
        if let Some(value) = &change.value {
            self.text(value);
        }
    }

    fn partition(&mut self, id: TopicId, partition: u32) {
        self.wide(id.0);
        self.number(partition.into());
    }

    fn home(&mut self, home: Home) {
        self.number(home.journal.0);
        self.0.extend_from_slice(&home.first.0.to_le_bytes());
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn version(&mut self, newest: u8) -> Result<u8, DecodeError> {
        match self.byte()? {
            0 => Err(DecodeError::Invalid("version")),
            version if version > newest => Err(DecodeError::Newer(version)),
            version => Ok(version),
        }
    }

    fn end(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        self.fixed().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u64, DecodeError> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            n |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(DecodeError::Invalid("number"))
    }

    fn small<T: TryFrom<u64>>(&mut self, what: &'static str) -> Result<T, DecodeError> {
        T::try_from(self.number()?).map_err(|_| DecodeError::Invalid(what))
    }

    fn wide(&mut self) -> Result<u128, DecodeError> {
        self.fixed().map(u128::from_le_bytes)
    }

    /// A count of things of at least `least` bytes each: never more than the bytes left can hold.
    fn count(&mut self, least: usize) -> Result<usize, DecodeError> {
        let n: usize = self.small("count")?;
        if n > self.0.len() / least.max(1) { Err(DecodeError::Truncated) } else { Ok(n) }
    }

    fn list<T>(
        &mut self,
        least: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.count(least)?;
        (0..count).map(|_| one(self)).collect()
    }

    fn text(&mut self) -> Result<Arc<str>, DecodeError> {
        let len = self.count(1)?;
        let (head, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        let text = core::str::from_utf8(head).map_err(|_| DecodeError::Invalid("text"))?;
        Ok(String::from(text).into())
    }

    fn broker(&mut self) -> Result<BrokerId, DecodeError> {
        self.fixed().map(|bytes| BrokerId(i32::from_le_bytes(bytes)))
    }

    fn epoch(&mut self) -> Result<Epoch, DecodeError> {
        self.fixed().map(|bytes| Epoch(i32::from_le_bytes(bytes)))
    }

    fn devices(&mut self) -> Result<Vec<DeviceUuid>, DecodeError> {
        self.list(16, |from| from.wide().map(DeviceUuid))
    }

    fn class(&mut self) -> Result<JournalClass, DecodeError> {
        let replicas = self.byte()?;
        let bits = self.byte()?;
        let lifetime = match bits & 3 {
            0 => Lifetime::Short,
            1 => Lifetime::Medium,
            2 => Lifetime::Long,
            _ => return Err(DecodeError::Invalid("lifetime")),
        };
        if bits >> 4 != 0 {
            return Err(DecodeError::Invalid("journal class"));
        }
        Ok(JournalClass { replicas, compacted: bits & 4 != 0, lifetime, internal: bits & 8 != 0 })
    }

    fn pairs(&mut self) -> Result<Pairs, DecodeError> {
        self.list(2, |from| Ok((from.text()?, from.text()?)))
    }

    fn change(&mut self) -> Result<ConfigChange, DecodeError> {
        let bits = self.byte()?;
        let op = match bits & 3 {
            0 => ConfigOp::Set,
            1 => ConfigOp::Delete,
            2 => ConfigOp::Append,
            _ => ConfigOp::Subtract,
        };
        if bits >> 3 != 0 {
            return Err(DecodeError::Invalid("config change"));
        }
        let name = self.text()?;
        let value = if bits & 4 == 0 { None } else { Some(self.text()?) };
        Ok(ConfigChange { name, op, value })
    }

    fn partition(&mut self) -> Result<(TopicId, u32), DecodeError> {
        Ok((TopicId(self.wide()?), self.small("partition")?))
    }

    fn home(&mut self) -> Result<Home, DecodeError> {
        Ok(Home { journal: JournalId(self.number()?), first: Offset(i64::from_le_bytes(self.fixed()?)) })
    }
}

#[cfg(test)]
mod tests;
