//! Hardware profiles: what the machine is and how to use it. `hw-profiles/laptop.toml` is built into the binary.

use super::keys::{ConfigError, Key, Kind, Settings};

/// The profile that needs nothing but a Linux kernel with io_uring.
pub const LAPTOP: &str = include_str!("../../hw-profiles/laptop.toml");

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Every key of a profile.
pub const KEYS: &[Key] = &[
    Key {
        name: "shards.count",
        kind: Kind::Int { min: 1, max: 64 },
        default: "1",
        doc: "Shard threads. Each owns its connections, journals, memory and rings.",
    },
    Key {
        name: "shards.poll",
        kind: Kind::Choice(&["adaptive", "busy"]),
        default: "adaptive",
        doc: "`adaptive` spins a little and sleeps; `busy` never sleeps and wants a core of its own.",
    },
    Key {
        name: "shards.spin_us",
        kind: Kind::Int { min: 0, max: 1_000_000 },
        default: "20",
        doc: "How long an adaptive shard spins without work before it sleeps, in microseconds.",
    },
    Key {
        name: "shards.pin",
        kind: Kind::Bool,
        default: "false",
        doc: "Pin shard N to the N-th core that the process may use.",
    },
    Key {
        name: "memory.tail",
        kind: Kind::Bytes { min: 32 * MIB, max: 1024 * GIB },
        default: "256 MiB",
        doc: "Per shard: open and not yet durable units, then the cache of the log's tail.",
    },
    Key {
        name: "memory.cold",
        kind: Kind::Bytes { min: 32 * MIB, max: 1024 * GIB },
        default: "128 MiB",
        doc: "Per shard: data read back from devices.",
    },
    Key {
        name: "memory.receive",
        kind: Kind::Bytes { min: 16 * MIB, max: 1024 * GIB },
        default: "128 MiB",
        doc: "Per shard: received requests that are not yet answered. Over it, connections are not read.",
    },
    Key {
        name: "memory.footers",
        kind: Kind::Bytes { min: MIB, max: 64 * GIB },
        default: "32 MiB",
        doc: "Per shard: cached footer indexes of closed extents.",
    },
    Key {
        name: "memory.clustering",
        kind: Kind::Bytes { min: MIB, max: 4 * GIB },
        default: "16 MiB",
        doc: "Per shard, while closed extents are clustered: records gathered before they are written by partition. The larger, \
              the longer the stretches that a reader of old records finds.",
    },
    Key {
        name: "memory.compaction",
        kind: Kind::Bytes { min: MIB, max: 16 * GIB },
        default: "32 MiB",
        doc: "Per shard, while a journal is compacted: keys of one pass, 24 bytes each and a quarter left empty (32 MiB: a million). \
              More keys take more passes.",
    },
    Key {
        name: "memory.huge_pages",
        kind: Kind::Choice(&["try", "require", "never"]),
        default: "try",
        doc: "Huge pages under the arena. `require` refuses to start without them.",
    },
    Key {
        name: "journal.unit",
        kind: Kind::Bytes { min: 4096, max: MIB },
        default: "256 KiB",
        doc: "An open unit is closed at this size; a larger batch gets a unit of its own.",
    },
    Key {
        name: "journal.writes_in_flight",
        kind: Kind::Int { min: 1, max: 64 },
        default: "4",
        doc: "Writes of one journal in flight (K).",
    },
    Key {
        name: "journal.bytes_in_flight",
        kind: Kind::Bytes { min: 4096, max: 64 * MIB },
        default: "1 MiB",
        doc: "Bytes of one journal in flight (L), or one larger unit alone. Bounds what recovery rewrites.",
    },
    Key {
        name: "journal.checkpoint",
        kind: Kind::Bytes { min: MIB, max: 16 * GIB },
        default: "256 MiB",
        doc: "Bytes written to a journal between two checkpoints: what a restart after a kill has to scan.",
    },
    Key {
        name: "journal.clustering_rate",
        kind: Kind::Bytes { min: 0, max: 1024 * GIB },
        default: "64 MiB",
        doc: "Bytes per second, read and written, for rewriting what outlived the rest of closed extents and for compaction, \
              per shard. 0: never; then an extent's space comes back only when nothing in it lives, and nothing is compacted.",
    },
    Key {
        name: "moves.at_a_time",
        kind: Kind::Int { min: 0, max: 1024 },
        default: "4",
        doc: "Partitions that move from one journal to another at a time. Producers of one wait for a few milliseconds. 0: none \
              moves.",
    },
    Key {
        name: "moves.hot_bytes_per_second",
        kind: Kind::Bytes { min: 0, max: 1024 * GIB },
        default: "32 MiB",
        doc: "A partition that makes more than 60 % of the bytes appended to a journal, beside others, is moved to a journal of the \
              same class with room, when the journal takes at least this much a second for a minute. Once an hour at most. \
              0: never.",
    },
    Key {
        name: "device.extent",
        kind: Kind::Bytes { min: 64 * MIB, max: 16 * GIB },
        default: "64 MiB",
        doc: "Extent length of a device that is created with this profile; an existing one keeps its own.",
    },
    Key {
        name: "device.extra_flushes",
        kind: Kind::Bool,
        default: "false",
        doc: "Flush even a device that reports write through or FUA. A profile may add flushes, never remove them.",
    },
];

/// How this machine is to be used.
#[derive(Clone, Debug)]
pub struct Profile {
    pub name: String,
    pub shards: u16,
    pub busy_poll: bool,
    pub spin_us: u64,
    pub pin: bool,
    pub tail_bytes: usize,
    pub cold_bytes: usize,
    pub receive_bytes: usize,
    pub footer_bytes: usize,
    pub clustering_bytes: usize,
    pub compaction_bytes: usize,
    pub clustering_rate: u64,
    pub huge_pages: HugePages,
    pub unit_bytes: u32,
    pub writes_in_flight: u32,
    pub bytes_in_flight: u32,
    pub checkpoint_bytes: u64,
    pub moves_at_a_time: u32,
    pub move_hot_bytes_per_second: u64,
    pub extent_bytes: u64,
    pub extra_flushes: bool,
}

/// Whether the arena lies on huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    Try,
    Require,
    Never,
}

impl Profile {
    /// The built-in `laptop` profile.
    pub fn laptop() -> Self {
        Self::parse("laptop", "hw-profiles/laptop.toml", LAPTOP).expect("the built-in profile is valid")
    }

    /// Parses a profile file; its name is the file's stem.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Self, ConfigError> {
        let settings = Settings::parse(file, text, KEYS)?;
        let size = |key: &str| usize::try_from(settings.bytes(key)).expect("bounded by its table entry");
        let small = |key: &str| u32::try_from(settings.bytes(key)).expect("bounded by its table entry");
        let number = |key: &str| u32::try_from(settings.int(key)).expect("bounded by its table entry");
        Ok(Self {
            name: name.into(),
            shards: u16::try_from(settings.int("shards.count")).expect("bounded by its table entry"),
            busy_poll: settings.text("shards.poll").as_deref() == Some("busy"),
            spin_us: settings.int("shards.spin_us").unsigned_abs(),
            pin: settings.flag("shards.pin"),
            tail_bytes: size("memory.tail"),
            cold_bytes: size("memory.cold"),
            receive_bytes: size("memory.receive"),
            footer_bytes: size("memory.footers"),
            clustering_bytes: size("memory.clustering"),
            compaction_bytes: size("memory.compaction"),
            clustering_rate: settings.bytes("journal.clustering_rate"),
            huge_pages: match settings.text("memory.huge_pages").as_deref() {
                Some("require") => HugePages::Require,
                Some("never") => HugePages::Never,
                _ => HugePages::Try,
            },
            unit_bytes: small("journal.unit"),
            writes_in_flight: number("journal.writes_in_flight"),
            bytes_in_flight: small("journal.bytes_in_flight"),
            checkpoint_bytes: settings.bytes("journal.checkpoint"),
            moves_at_a_time: number("moves.at_a_time"),
            move_hot_bytes_per_second: settings.bytes("moves.hot_bytes_per_second"),
            extent_bytes: settings.bytes("device.extent"),
            extra_flushes: settings.flag("device.extra_flushes"),
        })
    }
}
