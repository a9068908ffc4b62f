//! `barelog.toml`: who this broker is, where it listens, where its data lies, and the defaults that Kafka operators know.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::keys::{ConfigError, Key, Kind, Settings};
use super::profile::Profile;

const INT: Kind = Kind::Int { min: -1, max: i64::MAX };
const COUNT: Kind = Kind::Int { min: 1, max: i64::MAX };

/// Most partitions that one change to the metadata may create.
const PARTITIONS_MAX: u32 = cluster::state::PARTITIONS_PER_COMMAND_MAX;

/// Every key of `barelog.toml`.
pub const KEYS: &[Key] = &[
    Key {
        name: "node.id",
        kind: Kind::Int { min: 0, max: i32::MAX as i64 },
        default: "1",
        doc: "This broker's Kafka node id. Kept in the data directory; another one later is refused.",
    },
    Key {
        name: "cluster.id",
        kind: Kind::Text,
        default: "",
        doc: "Cluster id, 22 characters of URL-safe base64 as Kafka writes a UUID. Drawn at the first start when left out; kept in \
              the data directory; another one later is refused.",
    },
    Key {
        name: "data.dir",
        kind: Kind::Text,
        default: "barelog-data",
        doc: "Directory of metadata and checkpoints, and of the data file when no `devices` are named.",
    },
    Key {
        name: "data.size",
        kind: Kind::Bytes { min: 512 << 20, max: u64::MAX },
        default: "16 GiB",
        doc: "Upper bound of the data file in `data.dir`, when no `devices` are named. The file grows as it is needed.",
    },
    Key {
        name: "devices[].path",
        kind: Kind::Text,
        default: "",
        doc: "A data device: a file that Barelog makes, or a raw block device that it takes over whole.",
    },
    Key { name: "devices[].kind", kind: Kind::Choice(&["file", "block"]), default: "file", doc: "What the path is." },
    Key {
        name: "devices[].size",
        kind: Kind::Bytes { min: 512 << 20, max: u64::MAX },
        default: "",
        doc: "Upper bound of what is used. A file needs it; a block device is used whole when it is left out.",
    },
    Key {
        name: "listeners[].name",
        kind: Kind::Text,
        default: "",
        doc: "Name of a listener. Without `listeners` there is one, `default`, on 127.0.0.1:9092.",
    },
    Key {
        name: "listeners[].bind",
        kind: Kind::Text,
        default: "",
        doc: "Address and port to listen on, such as `0.0.0.0:9092`.",
    },
    Key {
        name: "listeners[].advertised",
        kind: Kind::Text,
        default: "",
        doc: "host:port that clients of this listener are told. Needed when `bind` is an unspecified address.",
    },
    Key {
        name: "http.bind",
        kind: Kind::Text,
        default: "127.0.0.1:9644",
        doc: "Address and port of `/metrics`, `/health`, `/damage`, `/journals`, `/moves` and `/log-level`.",
    },
    Key {
        name: "hardware.profile",
        kind: Kind::Text,
        default: "laptop",
        doc: "Built-in profile name, or the path of a profile file.",
    },
    Key {
        name: "num.partitions",
        kind: Kind::Int { min: 1, max: PARTITIONS_MAX as i64 },
        default: "1",
        doc: "Partitions of a topic that is created without saying.",
    },
    Key {
        name: "auto.create.topics.enable",
        kind: Kind::Bool,
        default: "true",
        doc: "Create a topic when a client that allows it asks for its metadata.",
    },
    Key {
        name: "log.retention.ms",
        kind: INT,
        default: "604800000",
        doc: "Default `retention.ms` of topics (seven days); -1 keeps for ever.",
    },
    Key {
        name: "log.retention.bytes",
        kind: INT,
        default: "-1",
        doc: "Default `retention.bytes` of a partition; -1 is without bound.",
    },
    Key {
        name: "message.max.bytes",
        kind: Kind::Bytes { min: 1024, max: 15 << 20 },
        default: "10489856",
        doc: "Default `max.message.bytes`: largest record batch, 10 MiB and 4 KiB of overhead.",
    },
    Key {
        name: "connections.max.idle.ms",
        kind: INT,
        default: "600000",
        doc: "A connection without a request for so long is closed; -1 never.",
    },
    Key {
        name: "connections.max",
        kind: COUNT,
        default: "20000",
        doc: "Connections per shard; more are closed as soon as they are accepted.",
    },
    Key {
        name: "offsets.retention.minutes",
        kind: COUNT,
        default: "10080",
        doc: "How long the offsets of an empty group are kept (seven days).",
    },
    Key {
        name: "offsets.topic.num.partitions",
        kind: Kind::Int { min: 1, max: 1000 },
        default: "50",
        doc: "Partitions of `__consumer_offsets`; read only when that topic is made.",
    },
    Key {
        name: "group.initial.rebalance.delay.ms",
        kind: Kind::Int { min: 0, max: 60_000 },
        default: "100",
        doc: "How long the first rebalance of an empty group waits for more members. Kafka's default of 3 s suits large groups.",
    },
    Key {
        name: "group.min.session.timeout.ms",
        kind: COUNT,
        default: "1000",
        doc: "Shortest session timeout a member may ask for.",
    },
    Key {
        name: "group.max.session.timeout.ms",
        kind: COUNT,
        default: "1800000",
        doc: "Longest session timeout a member may ask for.",
    },
    Key { name: "group.max.size", kind: COUNT, default: "100000", doc: "Members of one group." },
    Key {
        name: "group.consumer.session.timeout.ms",
        kind: COUNT,
        default: "45000",
        doc: "How long a member of a consumer group (KIP-848) may be silent.",
    },
    Key {
        name: "group.consumer.heartbeat.interval.ms",
        kind: COUNT,
        default: "5000",
        doc: "How often a member of a consumer group (KIP-848) is told to be heard; below its session timeout.",
    },
    Key {
        name: "group.consumer.max.size",
        kind: COUNT,
        default: "100000",
        doc: "Members of one consumer group (KIP-848).",
    },
    Key {
        name: "producer.id.expiration.ms",
        kind: COUNT,
        default: "86400000",
        doc: "How long an idle idempotent producer is remembered in a partition (a day).",
    },
    Key {
        name: "producers.per.partition.max",
        kind: Kind::Int { min: 1, max: 1_000_000 },
        default: "10000",
        doc: "Idempotent producers remembered in one partition; the longest idle one is forgotten first.",
    },
    Key {
        name: "log.level",
        kind: Kind::Text,
        default: "info",
        doc: "Level or filter of the log; changeable at run time with `PUT /log-level`.",
    },
    Key {
        name: "log.format",
        kind: Kind::Choice(&["text", "json"]),
        default: "text",
        doc: "Shape of the log lines on standard error.",
    },
];

/// An address to listen on and what clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub name: String,
    pub bind: SocketAddr,
    /// Host and port; port 0 stands for the port that was bound.
    pub advertised: (String, u16),
}

/// What a data device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    File,
    Block,
}

/// One data device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    pub path: PathBuf,
    pub kind: DeviceKind,
    /// Upper bound; `None`: the whole block device.
    pub size: Option<u64>,
}

/// All of `barelog.toml`, with defaults.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    pub node_id: i32,
    pub cluster_id: Option<u128>,
    pub data_dir: PathBuf,
    pub devices: Vec<DeviceConfig>,
    pub listeners: Vec<Listener>,
    pub http: SocketAddr,
    pub profile: Profile,
    pub partitions: i32,
    pub auto_create_topics: bool,
    pub retention_ms: i64,
    pub retention_bytes: i64,
    pub message_bytes_max: u32,
    /// `None`: never.
    pub idle_ms_max: Option<u64>,
    pub connections_max: u32,
    pub offsets_retention_minutes: i64,
    pub offsets_partitions: i32,
    pub initial_rebalance_delay_ms: u64,
    pub session_ms: (u64, u64),
    pub group_members_max: u32,
    pub consumer_session_ms: u64,
    pub consumer_heartbeat_ms: i32,
    pub consumer_members_max: u32,
    pub producer_expiry_ms: i64,
    pub producers_per_partition_max: u32,
    pub log_level: String,
    pub log_json: bool,
}

impl BrokerConfig {
    /// Everything at its default.
    pub fn defaults() -> Self {
        Self::parse("defaults", "").expect("the defaults are valid")
    }

    /// Reads and checks a file.
    pub fn read(path: &std::path::Path) -> Result<Self, ConfigError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
            file: file.clone(),
            line: None,
            what: format!("cannot be read: {error}"),
        })?;
        Self::parse(&file, &text)
    }

    /// Checks the text of a file.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let settings = Settings::parse(file, text, KEYS)?;
        let small = |key: &str| {
            i32::try_from(settings.int(key)).map_err(|_| settings.refuse(key, None, format!("{key} is too large")))
        };
        let count = |key: &str| {
            u32::try_from(settings.int(key)).map_err(|_| settings.refuse(key, None, format!("{key} is too large")))
        };
        let session_ms = (
            settings.int("group.min.session.timeout.ms").unsigned_abs(),
            settings.int("group.max.session.timeout.ms").unsigned_abs(),
        );
        if session_ms.0 > session_ms.1 {
            let key = "group.min.session.timeout.ms";
            return Err(settings.refuse(key, None, format!("{key} is above group.max.session.timeout.ms")));
        }
        let beat = "group.consumer.heartbeat.interval.ms";
        if settings.int(beat) >= settings.int("group.consumer.session.timeout.ms") {
            return Err(settings.refuse(beat, None, format!("{beat} is not below group.consumer.session.timeout.ms")));
        }
        let data_dir = PathBuf::from(settings.text("data.dir").expect("has a default"));
        if data_dir.as_os_str().is_empty() {
            return Err(settings.refuse("data.dir", None, "data.dir is empty"));
        }
        let log_level = settings.text("log.level").expect("has a default");
        controlplane::logging::check(&log_level).map_err(|why| settings.refuse("log.level", None, why))?;
        let config = Self {
            node_id: small("node.id")?,
            cluster_id: cluster_id(&settings)?,
            devices: devices(&settings, &data_dir)?,
            data_dir,
            listeners: listeners(&settings)?,
            http: address(&settings, "http.bind", None)?,
            profile: profile(&settings)?,
            partitions: small("num.partitions")?,
            auto_create_topics: settings.flag("auto.create.topics.enable"),
            retention_ms: settings.int("log.retention.ms"),
            retention_bytes: settings.int("log.retention.bytes"),
            message_bytes_max: u32::try_from(settings.bytes("message.max.bytes")).expect("bounded by its table entry"),
            idle_ms_max: u64::try_from(settings.int("connections.max.idle.ms")).ok(),
            connections_max: count("connections.max")?,
            offsets_retention_minutes: settings.int("offsets.retention.minutes"),
            offsets_partitions: small("offsets.topic.num.partitions")?,
            initial_rebalance_delay_ms: settings.int("group.initial.rebalance.delay.ms").unsigned_abs(),
            session_ms,
            group_members_max: count("group.max.size")?,
            consumer_session_ms: settings.int("group.consumer.session.timeout.ms").unsigned_abs(),
            consumer_heartbeat_ms: small("group.consumer.heartbeat.interval.ms")?,
            consumer_members_max: count("group.consumer.max.size")?,
            producer_expiry_ms: settings.int("producer.id.expiration.ms"),
            producers_per_partition_max: count("producers.per.partition.max")?,
            log_level,
            log_json: settings.text("log.format").as_deref() == Some("json"),
        };
        config.check()?;
        Ok(config)
    }

    /// What no single key shows: bounds that must hold between keys and against the profile.
    pub fn check(&self) -> Result<(), ConfigError> {
        let refuse = |what: String| Err(ConfigError { file: "configuration".into(), line: None, what });
        let (batch, profile) = (u64::from(self.message_bytes_max), &self.profile);
        // Three quarters of the receive memory serve large requests.
        let receive = profile.receive_bytes as u64 / 4 * 3;
        if batch + (64 << 10) > receive {
            return refuse(format!(
                "message.max.bytes is {batch}, but the profile's memory.receive leaves {receive} for a request: raise it or \
                 lower message.max.bytes"
            ));
        }
        if 2 * batch > profile.tail_bytes as u64 {
            return refuse(format!("message.max.bytes is {batch}, more than half of the profile's memory.tail"));
        }
        if !(1..=PARTITIONS_MAX).contains(&self.partitions.unsigned_abs()) {
            return refuse(format!(
                "{} partitions of a new topic; 1 to {PARTITIONS_MAX} are possible",
                self.partitions
            ));
        }
        let mut taken = vec![("HTTP", self.http)];
        for listener in &self.listeners {
            if let Some((other, _)) = taken.iter().find(|(_, bind)| overlap(*bind, listener.bind)) {
                return refuse(format!("listener {} binds {}, and so does {other}", listener.name, listener.bind));
            }
            taken.push((&listener.name, listener.bind));
        }
        if !(1..=64).contains(&profile.shards) {
            return refuse(format!("{} shards; 1 to 64 are possible", profile.shards));
        }
        Ok(())
    }

    /// Points the configuration at another directory, with its one data file there.
    pub fn set_data_dir(&mut self, dir: PathBuf) {
        for device in &mut self.devices {
            if device.path == default_device(&self.data_dir) {
                device.path = default_device(&dir);
            }
        }
        self.data_dir = dir;
    }
}

/// Whether the two cannot both be bound. Port 0 is any that is free.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() != 0 && a.port() == b.port() && (a.ip() == b.ip() || is_unspecified(a.ip()) || is_unspecified(b.ip()))
}

fn default_device(data_dir: &std::path::Path) -> PathBuf {
    data_dir.join("device-0.barelog")
}

fn devices(settings: &Settings, data_dir: &std::path::Path) -> Result<Vec<DeviceConfig>, ConfigError> {
    let count = settings.count("devices");
    if count == 0 {
        let size = Some(settings.bytes("data.size"));
        return Ok(vec![DeviceConfig { path: default_device(data_dir), kind: DeviceKind::File, size }]);
    }
    let mut devices: Vec<DeviceConfig> = Vec::new();
    for index in 0..count {
        let path = settings
            .text_at("devices[].path", index)
            .map(PathBuf::from)
            .ok_or_else(|| settings.refuse("devices[].kind", Some(index), "a device needs a path"))?;
        if devices.iter().any(|other| other.path == path) {
            return Err(settings.refuse("devices[].path", Some(index), "this device is named twice"));
        }
        let kind = match settings.text_at("devices[].kind", index).as_deref() {
            Some("block") => DeviceKind::Block,
            _ => DeviceKind::File,
        };
        let size = settings.bytes_at("devices[].size", index);
        if kind == DeviceKind::File && size.is_none() {
            let what = "a device of kind file needs an upper bound: add size = \"100 GiB\" or the like";
            return Err(settings.refuse("devices[].path", Some(index), what));
        }
        devices.push(DeviceConfig { path, kind, size });
    }
    Ok(devices)
}

fn listeners(settings: &Settings) -> Result<Vec<Listener>, ConfigError> {
    let count = settings.count("listeners");
    if count == 0 {
        let bind = SocketAddr::from(([127, 0, 0, 1], 9092));
        return Ok(vec![Listener { name: "default".into(), bind, advertised: ("127.0.0.1".into(), 9092) }]);
    }
    let mut listeners: Vec<Listener> = Vec::new();
    for index in 0..count {
        let name = settings
            .text_at("listeners[].name", index)
            .ok_or_else(|| settings.refuse("listeners[].bind", Some(index), "a listener needs a name"))?;
        if listeners.iter().any(|other| other.name == name) {
            return Err(settings.refuse("listeners[].name", Some(index), format!("two listeners are named {name}")));
        }
        let bind = address(settings, "listeners[].bind", Some(index))?;
        let advertised = match settings.text_at("listeners[].advertised", index) {
            Some(text) => host_port(settings, index, &text)?,
            None if is_unspecified(bind.ip()) => {
                let what = format!(
                    "listener {name} binds {bind} and does not say which address clients should use; add the line \
                     advertised = \"HOST:{}\"",
                    bind.port()
                );
                return Err(settings.refuse("listeners[].bind", Some(index), what));
            }
            None => (bind.ip().to_string(), bind.port()),
        };
        listeners.push(Listener { name, bind, advertised });
    }
    Ok(listeners)
}

fn is_unspecified(ip: IpAddr) -> bool {
    ip.is_unspecified()
        || matches!(ip, IpAddr::V6(six) if six.to_ipv4_mapped().is_some_and(|four| four.is_unspecified()))
}

fn host_port(settings: &Settings, index: usize, text: &str) -> Result<(String, u16), ConfigError> {
    let wrong = || settings.refuse("listeners[].advertised", Some(index), format!("{text:?} is not host:port"));
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || host.chars().any(char::is_whitespace) {
        return Err(wrong());
    }
    if host.parse::<IpAddr>().is_ok_and(is_unspecified) {
        let what = format!("clients cannot connect to {host}; name an address or host that they reach");
        return Err(settings.refuse("listeners[].advertised", Some(index), what));
    }
    Ok((host.into(), port.parse().map_err(|_| wrong())?))
}

fn address(settings: &Settings, key: &str, index: Option<usize>) -> Result<SocketAddr, ConfigError> {
    let text = match index {
        Some(index) => settings.text_at(key, index),
        None => settings.text(key),
    };
    let text = text.ok_or_else(|| settings.refuse(key, index, format!("{key} is missing")))?;
    text.parse().map_err(|_| {
        settings.refuse(key, index, format!("{text:?} is not an IP address and port such as 127.0.0.1:9092"))
    })
}

fn cluster_id(settings: &Settings) -> Result<Option<u128>, ConfigError> {
    let Some(text) = settings.text("cluster.id") else { return Ok(None) };
    match parse_cluster_id(&text) {
        Some(id) => Ok(Some(id)),
        None => Err(settings.refuse("cluster.id", None, format!("{text:?} is not 22 characters of URL-safe base64"))),
    }
}

/// Kafka's text form of a 128-bit id: URL-safe base64 without padding.
pub fn parse_cluster_id(text: &str) -> Option<u128> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    if text.len() != 22 {
        return None;
    }
    let (last, head) = text.as_bytes().split_last()?;
    let digit = |byte: &u8| ALPHABET.iter().position(|c| c == byte).map(|n| n as u128);
    let mut id = 0u128;
    for byte in head {
        id = id << 6 | digit(byte)?;
    }
    // 21 × 6 = 126 bits so far; the last character carries two more, its low four bits are zero.
    let last = digit(last)?;
    (last & 0xf == 0).then_some(id << 2 | last >> 4)
}

fn profile(settings: &Settings) -> Result<Profile, ConfigError> {
    let name = settings.text("hardware.profile").expect("has a default");
    load_profile(&name).map_err(|error| match error.line {
        Some(_) => error,
        None => settings.refuse("hardware.profile", None, error.what),
    })
}

/// A built-in profile by name, or a file by path.
pub fn load_profile(name: &str) -> Result<Profile, ConfigError> {
    if name == "laptop" {
        return Ok(Profile::laptop());
    }
    let path = std::path::Path::new(name);
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
        file: name.into(),
        line: None,
        what: format!(
            "there is no built-in profile {name}, and as a file it cannot be read: {error}; built in is: laptop"
        ),
    })?;
    let stem = path.file_stem().map_or(name.into(), |stem| stem.to_string_lossy().into_owned());
    Profile::parse(&stem, name, &text)
}
