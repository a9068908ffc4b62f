//! The flags of every command. Doc comments are the help texts.

use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where the broker of a client command is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Connect {
    /// Brokers to ask first, host:port, separated by commas
    #[arg(short, long, default_value = "127.0.0.1:9092", value_name = "HOST:PORT")]
    pub(crate) bootstrap: String,
    /// Give up on an unanswered request after this long
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) timeout: std::time::Duration,
}

/// How much is logged.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogArgs {
    /// What to log: error, warn, info, debug, trace, or per module as in `info,journal=debug` [default: the
    /// configuration's log.level, info]
    #[arg(long = "log", value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Log JSON lines
    #[arg(long)]
    pub(crate) log_json: bool,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  barelog dev\n  barelog dev --data-dir /var/tmp/log --listen 127.0.0.1:9093\n\n\
                        SIGTERM or Ctrl-C drains and stops it; everything acknowledged is there at the next start.")]
pub(crate) struct DevArgs {
    /// Where records live; created when missing [default: ./barelog-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address for Kafka clients; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:9092", value_name = "IP:PORT", value_parser = parse_address)]
    pub(crate) listen: SocketAddr,
    /// Address of GET /metrics, /health and /damage; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:9644", value_name = "IP:PORT", value_parser = parse_address)]
    pub(crate) metrics_listen: SocketAddr,
    /// Threads that serve clients [default: from the profile]
    #[arg(long, value_name = "N")]
    pub(crate) shards: Option<u16>,
    /// Partitions of topics created on first use
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) partitions: u32,
    /// Hardware profile: a name or a file
    #[arg(long, default_value = "laptop", value_name = "NAME|FILE")]
    pub(crate) profile: String,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  barelog serve --config /etc/barelog/barelog.toml\n\n\
                        docs/CONFIG.md lists every key with its default.")]
pub(crate) struct ServeArgs {
    /// The configuration file (TOML)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Read and check the configuration, say what is wrong, and do not start
    #[arg(long)]
    pub(crate) check_config: bool,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  barelog check --data-dir /var/lib/barelog\n  barelog check --config barelog.toml\n\n\
                        A directory that does not exist yet is judged by the nearest one above it."
)]
pub(crate) struct CheckArgs {
    /// The directory to check for O_DIRECT and durability [default: the current directory]
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Check what this configuration file asks for
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  barelog topology --shards 4\n  barelog topology --config barelog.toml --json\n  \
                        barelog topology --metrics 127.0.0.1:9644    the journals of a broker that runs, and their load")]
pub(crate) struct TopologyArgs {
    /// The wiring of a broker with this configuration file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Threads that serve clients [default: from the profile]
    #[arg(long, value_name = "N")]
    pub(crate) shards: Option<u16>,
    /// Hardware profile: a name or a file
    #[arg(long, default_value = "laptop", value_name = "NAME|FILE")]
    pub(crate) profile: String,
    /// Not the wiring: the journals of a broker that runs and serves /journals there
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["config", "shards"])]
    pub(crate) metrics: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `inspect` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum InspectWhat {
    /// Devices, journals, extents: one line each
    #[default]
    Summary,
    /// Every unit: position, epoch, bytes, frames, whether it is intact
    Units,
    /// Every frame: partition, offsets, bytes, whether it is intact
    Frames,
    /// What is damaged only: stretches without a unit, units without frames, frames without their bytes
    Damage,
    /// The index: partition to runs of offsets and positions
    Index,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  barelog inspect ./barelog-data\n  \
                        barelog inspect ./barelog-data --show frames --partition 7 --limit 20\n\n\
                        Only reads. The broker must not be running.")]
pub(crate) struct InspectArgs {
    /// The data directory, or one device image or block device
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// What to show
    #[arg(long, value_enum, default_value_t)]
    pub(crate) show: InspectWhat,
    /// Only this journal
    #[arg(long, value_name = "ID")]
    pub(crate) journal: Option<u64>,
    /// Only frames and runs of this partition (its id, not its number in the topic)
    #[arg(long, value_name = "ID")]
    pub(crate) partition: Option<u64>,
    /// Stop after this many lines
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  barelog demo\n  barelog demo --once --messages 100000 --json result.json\n  \
                        barelog demo --bootstrap 127.0.0.1:9092    against a broker that is already running\n\n\
                        Exit status: 0 when every record arrived intact and in order at both groups, else 1.")]
pub(crate) struct DemoArgs {
    /// Exit when done instead of staying up
    #[arg(long)]
    pub(crate) once: bool,
    /// How many records to produce
    #[arg(long, default_value_t = 2_000_000, value_name = "N")]
    pub(crate) messages: u64,
    /// Bytes of each record's value
    #[arg(long, default_value = "1024", value_name = "BYTES", value_parser = parse_size)]
    pub(crate) size: u64,
    /// Partitions of the demo's topic
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub(crate) partitions: u32,
    /// Write the results to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Keep the broker's data here [default: a directory that is removed at the end]
    #[arg(long, value_name = "DIR", conflicts_with = "bootstrap")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address the demo's broker listens on; port 0 takes a free one [default: 127.0.0.1:9092, or a free port when taken]
    #[arg(long, value_name = "IP:PORT", value_parser = parse_address, conflicts_with = "bootstrap")]
    pub(crate) listen: Option<SocketAddr>,
    /// Threads of the demo's broker [default: from the profile]
    #[arg(long, value_name = "N", conflicts_with = "bootstrap")]
    pub(crate) shards: Option<u16>,
    /// Use a broker that is already running
    #[arg(short, long, value_name = "HOST:PORT")]
    pub(crate) bootstrap: Option<String>,
    /// Where that broker serves /metrics
    #[arg(long, value_name = "HOST:PORT", requires = "bootstrap")]
    pub(crate) metrics: Option<String>,
    /// Compress the batches
    #[arg(long, value_enum, default_value_t)]
    pub(crate) compression: Codec,
}

/// How produced batches are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Codec {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct TopicArgs {
    #[command(subcommand)]
    pub(crate) command: TopicCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// Create a topic
    #[command(after_help = "Example:\n  barelog topic create orders --partitions 12 --config retention.ms=86400000")]
    Create {
        /// Names
        #[arg(required = true, value_name = "TOPIC")]
        topics: Vec<String>,
        /// Partitions [default: the broker's num.partitions]
        #[arg(short, long, value_name = "N")]
        partitions: Option<u32>,
        /// Replicas [default: the broker's]
        #[arg(short, long, value_name = "N")]
        replication_factor: Option<u16>,
        /// A configuration, may be repeated
        #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse_assignment)]
        config: Vec<(String, String)>,
        /// Succeed when the topic exists
        #[arg(long)]
        if_not_exists: bool,
        #[command(flatten)]
        connect: Connect,
    },
    /// List topics
    List {
        /// Internal topics too
        #[arg(long)]
        internal: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connect: Connect,
    },
    /// Show a topic's partitions, offsets and configuration
    Describe {
        /// Names
        #[arg(required = true, value_name = "TOPIC")]
        topics: Vec<String>,
        /// Configurations at their default too
        #[arg(long)]
        all_configs: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connect: Connect,
    },
    /// Change a topic's configuration, add partitions, or delete its oldest records
    #[command(
        after_help = "Examples:\n  barelog topic alter orders --config retention.ms=3600000 --unset retention.bytes\n  \
                      barelog topic alter orders --partitions 24\n  \
                      barelog topic alter orders --delete-before 0:1500    drop what is below offset 1500 of partition 0"
    )]
    Alter {
        /// Name
        topic: String,
        /// Set a configuration, may be repeated
        #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse_assignment)]
        config: Vec<(String, String)>,
        /// Return a configuration to its default, may be repeated
        #[arg(long, value_name = "KEY")]
        unset: Vec<String>,
        /// Raise the number of partitions to this
        #[arg(short, long, value_name = "N")]
        partitions: Option<u32>,
        /// Delete the records of a partition below an offset (-1: all of them), may be repeated
        #[arg(long, value_name = "PARTITION:OFFSET", value_parser = parse_partition_offset)]
        delete_before: Vec<(i32, i64)>,
        #[command(flatten)]
        connect: Connect,
    },
    /// List records that are damaged on the device, and the offset at which their readers go on
    #[command(after_help = "Examples:\n  barelog topic damage\n  barelog topic damage orders --json\n\n\
                            Damage is known once a start or a read has come upon it. A read of it gets CORRUPT_MESSAGE. One \
                            consumer goes on\nat NEXT (`barelog group reset-offsets GROUP --topic TOPIC:PARTITION --to-offset NEXT`), \
                            all of them once the\nrecords before it are deleted (`barelog topic alter TOPIC --delete-before \
                            PARTITION:NEXT`); what can still be read\nbefore NEXT is deleted with them. Unlike the other \
                            commands this one asks the broker's HTTP port.")]
    Damage {
        /// Only of these topics
        #[arg(value_name = "TOPIC")]
        topics: Vec<String>,
        /// Where the broker serves /damage and /metrics
        #[arg(long, default_value = "127.0.0.1:9644", value_name = "HOST:PORT")]
        metrics: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Move a partition to another journal of the same broker
    #[command(
        after_help = "Examples:\n  barelog topology --metrics 127.0.0.1:9644    lists journals, what they take and their load\n  \
                            barelog topic move orders:3 --to-journal 7\n  barelog topic move                             what is on its way\n\n\
                            Its records up to now stay where they are and are read from there; what comes goes to the new journal. \
                            Producers\nwait for some milliseconds. Partitions move by themselves when their topic's retention.ms comes \
                            into another class\n(up to a day, up to 8 days, longer), or one makes most of a journal's load \
                            (moves.hot_bytes_per_second of the profile).\nUnlike the other commands this one asks the broker's HTTP port."
    )]
    Move {
        /// The partition; without one: what is on its way
        #[arg(value_name = "TOPIC:PARTITION", value_parser = parse_topic_partition, requires = "to_journal")]
        partition: Option<(String, u32)>,
        /// The journal, by its id
        #[arg(long, value_name = "ID", requires = "partition")]
        to_journal: Option<u64>,
        /// Return when the partition is on its way, not when it is there
        #[arg(long)]
        no_wait: bool,
        /// Where the broker serves /moves and /metrics
        #[arg(long, default_value = "127.0.0.1:9644", value_name = "HOST:PORT")]
        metrics: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete topics and all their records
    Delete {
        /// Names
        #[arg(required = true, value_name = "TOPIC")]
        topics: Vec<String>,
        /// Succeed when a topic does not exist
        #[arg(long)]
        if_exists: bool,
        #[command(flatten)]
        connect: Connect,
    },
}

#[derive(Args, Clone, Debug)]
pub(crate) struct GroupArgs {
    #[command(subcommand)]
    pub(crate) command: GroupCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List consumer groups
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connect: Connect,
    },
    /// Show a group's members, committed offsets and lag
    Describe {
        /// Names
        #[arg(required = true, value_name = "GROUP")]
        groups: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connect: Connect,
    },
    /// Delete groups that have no members, and their committed offsets
    Delete {
        /// Names
        #[arg(required = true, value_name = "GROUP")]
        groups: Vec<String>,
        #[command(flatten)]
        connect: Connect,
    },
    /// Change the offsets at which a group without members resumes
    #[command(after_help = "Examples:\n  barelog group reset-offsets billing --topic orders --to-earliest\n  \
                      barelog group reset-offsets billing --topic orders:0,3 --to-timestamp 2026-11-30T12:00:00Z\n  \
                      barelog group reset-offsets billing --topic orders --shift -100 --dry-run")]
    ResetOffsets(ResetArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ResetArgs {
    /// The group
    pub(crate) group: String,
    /// A topic, or some of its partitions; may be repeated [default: every topic the group has offsets for]
    #[arg(short, long, value_name = "TOPIC[:P,P…]")]
    pub(crate) topic: Vec<String>,
    #[command(flatten)]
    pub(crate) to: ResetTo,
    /// Show what would change and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ResetTo {
    /// To the first record there is
    #[arg(long)]
    pub(crate) to_earliest: bool,
    /// To the end: only new records
    #[arg(long)]
    pub(crate) to_latest: bool,
    /// To this offset
    #[arg(long, value_name = "OFFSET")]
    pub(crate) to_offset: Option<i64>,
    /// To the first record at or after a time: RFC 3339, or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp)]
    pub(crate) to_timestamp: Option<i64>,
    /// By this many records from where the group stands
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) shift: Option<i64>,
}

/// Which replicas have a record when the broker answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Acks {
    /// Do not wait for an answer
    #[value(name = "0")]
    Zero,
    /// The leader
    #[value(name = "1")]
    One,
    /// All in-sync replicas
    #[default]
    All,
}

/// How a record is written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordFormat {
    /// A line: [headers] [key] value
    #[default]
    Text,
    /// A line of JSON: {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}
    Json,
    /// Values alone, nothing between them
    Raw,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  echo 'hello world' | barelog produce greetings\n  \
                  printf 'k1:v1\\nk2:v2\\n' | barelog produce orders --key-separator :\n  \
                  barelog produce orders --file orders.txt --compression zstd --header source=import\n  \
                  echo '{\"key\":\"a\",\"value\":\"b\",\"headers\":{\"h\":\"1\"}}' | barelog produce orders --format json\n\n\
                  JSON lines: key and value are strings, or null, or {\"base64\": \"…\"} for bytes that are no text; any other\n\
                  JSON value is sent as its text. What `consume --format json` prints, `produce --format json` takes.")]
pub(crate) struct ProduceArgs {
    /// The topic
    pub(crate) topic: String,
    /// Read from this file instead of standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// How records are read: a line each, a JSON line each, or the whole input as one record
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: RecordFormat,
    /// What separates key and value in a line; a line without it has no key
    #[arg(short = 'K', long, value_name = "TEXT", value_parser = parse_escapes)]
    pub(crate) key_separator: Option<String>,
    /// The key of every record
    #[arg(short, long, value_name = "KEY", conflicts_with = "key_separator")]
    pub(crate) key: Option<String>,
    /// A header of every record, may be repeated
    #[arg(short = 'H', long, value_name = "KEY=VALUE", value_parser = parse_assignment)]
    pub(crate) header: Vec<(String, String)>,
    /// Send an empty value as null (a tombstone)
    #[arg(short = 'Z', long)]
    pub(crate) null: bool,
    /// The partition [default: by the key, or spread]
    #[arg(short, long, value_name = "N")]
    pub(crate) partition: Option<i32>,
    /// Compress batches
    #[arg(short = 'z', long, value_enum, default_value_t)]
    pub(crate) compression: Codec,
    /// When a record counts as sent
    #[arg(long, value_enum, default_value_t)]
    pub(crate) acks: Acks,
    /// Wait this long for more records before sending a batch
    #[arg(long, default_value = "5ms", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) linger: std::time::Duration,
    /// Print partition and offset of each record as it is acknowledged
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print a summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  barelog consume orders                              new records, until Ctrl-C\n  \
                  barelog consume orders --from-beginning --exit-eof  everything there is\n  \
                  barelog consume orders --offset -10 --exit-eof      the last ten of each partition\n  \
                  barelog consume orders --group billing --format json | jq .value\n\n\
                  With --group the partitions are shared with the group's other members, and offsets of printed records are\n\
                  committed; where the group has none yet, --from-beginning says where to start."
)]
pub(crate) struct ConsumeArgs {
    /// The topics (several only with --group)
    #[arg(required = true, value_name = "TOPIC")]
    pub(crate) topics: Vec<String>,
    /// Join this consumer group
    #[arg(short, long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// A static member id: a restart within the session timeout keeps its partitions
    #[arg(long, value_name = "ID", requires = "group")]
    pub(crate) instance_id: Option<String>,
    /// Start at the first record there is
    #[arg(long, conflicts_with_all = ["offset", "timestamp"])]
    pub(crate) from_beginning: bool,
    /// Start at this offset; a negative one counts from the end
    #[arg(short, long, value_name = "N", allow_hyphen_values = true, conflicts_with_all = ["timestamp", "group"])]
    pub(crate) offset: Option<i64>,
    /// Start at the first record at or after a time: RFC 3339, or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp, conflicts_with = "group")]
    pub(crate) timestamp: Option<i64>,
    /// Only these partitions, separated by commas
    #[arg(short, long, value_name = "N", value_delimiter = ',', conflicts_with = "group")]
    pub(crate) partition: Vec<i32>,
    /// Stop after this many records
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Stop at the end that each partition had when its reading began
    #[arg(short, long)]
    pub(crate) exit_eof: bool,
    /// How records are printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: RecordFormat,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Print keys, and this between key and value
    #[arg(short = 'K', long, value_name = "TEXT", value_parser = parse_escapes)]
    pub(crate) key_separator: Option<String>,
    /// Print headers before the record
    #[arg(short = 'H', long)]
    pub(crate) headers: bool,
    /// Print partition, offset and timestamp before the record
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `127.0.0.1:9092`, `[::1]:9092`.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an IP address and a port, as in 127.0.0.1:9092".to_owned())
}

/// `500ms`, `5s`, `2m`, `1h`; a bare number is seconds.
fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "expected a number with ms, s, m or h, as in 500ms".to_owned())?;
    let ms = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let ms = ms.ok_or_else(|| format!("unknown unit '{unit}'; ms, s, m and h are known"))?;
    number.checked_mul(ms).map(std::time::Duration::from_millis).ok_or_else(|| "too long".to_owned())
}

/// As [`parse_duration`], and not nothing.
fn parse_timeout(text: &str) -> Result<std::time::Duration, String> {
    let timeout = parse_duration(text)?;
    if timeout.is_zero() { Err("must be longer than 0".to_owned()) } else { Ok(timeout) }
}

/// `1024`, `4k`, `1M` (powers of 1024).
fn parse_size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let lower = lower.strip_suffix("ib").or_else(|| lower.strip_suffix('b')).unwrap_or(&lower);
    let (number, shift) = match lower.as_bytes().last() {
        Some(b'k') => (&lower[..lower.len() - 1], 10),
        Some(b'm') => (&lower[..lower.len() - 1], 20),
        Some(b'g') => (&lower[..lower.len() - 1], 30),
        _ => (lower, 0),
    };
    let number: u64 = number.parse().map_err(|_| "expected a number of bytes, as in 1024, 4k or 1M".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

/// `key=value`.
fn parse_assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// `partition:offset`.
fn parse_partition_offset(text: &str) -> Result<(i32, i64), String> {
    let error = || "expected PARTITION:OFFSET, as in 0:1500".to_owned();
    let (partition, offset) = text.split_once(':').ok_or_else(error)?;
    let partition = partition.parse().ok().filter(|partition| *partition >= 0).ok_or_else(error)?;
    let offset = offset.parse().ok().filter(|offset| *offset >= -1).ok_or_else(error)?;
    Ok((partition, offset))
}

fn parse_topic_partition(text: &str) -> Result<(String, u32), String> {
    let error = || "expected TOPIC:PARTITION, as in orders:3".to_owned();
    let (topic, partition) = text.rsplit_once(':').filter(|(topic, _)| !topic.is_empty()).ok_or_else(error)?;
    Ok((topic.to_owned(), partition.parse().map_err(|_| error())?))
}

/// `\t`, `\n`, `\0`, `\\` and `\xHH` in a separator.
fn parse_escapes(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('0') => out.push('\0'),
            Some('\\') => out.push('\\'),
            Some('x') => {
                let hex: String = chars.by_ref().take(2).collect();
                let byte = u8::from_str_radix(&hex, 16).ok().filter(u8::is_ascii);
                out.push(char::from(byte.ok_or_else(|| format!("'\\x{hex}' is no ASCII character"))?));
            }
            other => return Err(format!("unknown escape '\\{}'", other.map(String::from).unwrap_or_default())),
        }
    }
    if out.is_empty() { Err("must not be empty".to_owned()) } else { Ok(out) }
}

/// Milliseconds since 1970 from RFC 3339 (`2026-11-30T12:00:00Z`, `…+01:00`, fractions) or from a bare number.
fn parse_timestamp(text: &str) -> Result<i64, String> {
    if let Ok(ms) = text.parse::<i64>() {
        return if ms >= 0 { Ok(ms) } else { Err("a time before 1970".to_owned()) };
    }
    rfc3339_ms(text)
        .ok_or_else(|| "expected RFC 3339, as in 2026-11-30T12:00:00Z, or milliseconds since 1970".to_owned())
}

fn rfc3339_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let field = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        core::str::from_utf8(digits).ok()?.parse().ok()
    };
    let is = |at: usize, any: &[u8]| bytes.get(at).is_some_and(|b| any.contains(b));
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    let (hour, minute, second) = (field(11, 13)?, field(14, 16)?, field(17, 19)?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=days_of_month(year, month)).contains(&day)
    {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut at = 19;
    let mut ms = 0;
    if is(at, b".") {
        let from = at + 1;
        at = from;
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        if at == from {
            return None;
        }
        let digits: String = text.get(from..at)?.chars().chain("000".chars()).take(3).collect();
        ms = digits.parse().ok()?;
    }
    let zone_minutes = match bytes.get(at)? {
        b'Z' | b'z' if bytes.len() == at + 1 => 0,
        sign @ (b'+' | b'-') if bytes.len() == at + 6 && is(at + 3, b":") => {
            let minutes = field(at + 1, at + 3)? * 60 + field(at + 4, at + 6)?;
            if *sign == b'+' { minutes } else { -minutes }
        }
        _ => return None,
    };
    let days = days_from_epoch(year, month, day);
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - zone_minutes * 60;
    (seconds >= 0).then_some(seconds * 1000 + ms)
}

const fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

const fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar; `year` ≥ 1970.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let leaps = |y: i64| y / 4 - y / 100 + y / 400;
    let before_year = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    let before_month: i64 = (1..month).map(|m| days_of_month(year, m)).sum();
    before_year + before_month + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_rfc_3339_or_milliseconds() {
        assert_eq!(parse_timestamp("1500"), Ok(1500));
        assert_eq!(parse_timestamp("1970-01-01T00:00:00Z"), Ok(0));
        // 2026-11-30T12:00:00Z, from `date -u -d … +%s`.
        assert_eq!(parse_timestamp("2026-11-30T12:00:00Z"), Ok(1_796_040_000_000));
        assert_eq!(parse_timestamp("2026-11-30T13:00:00.25+01:00"), Ok(1_796_040_000_250));
        assert_eq!(parse_timestamp("2000-02-29T00:00:00Z"), Ok(951_782_400_000));
        for bad in ["", "-5", "2026-13-01T00:00:00Z", "2025-02-29T00:00:00Z", "2026-11-30", "2026-11-30T12:00:00", "é"]
        {
            assert!(parse_timestamp(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_and_sizes_have_units() {
        let ms = |text| parse_duration(text).map(|d| d.as_millis());
        assert_eq!(ms("500ms"), Ok(500));
        assert_eq!(ms("2"), Ok(2000));
        assert_eq!(ms("3m"), Ok(180_000));
        assert!(parse_duration("5 parsecs").is_err());
        assert!(parse_timeout("0s").is_err() && parse_timeout("1ms").is_ok());
        assert!(parse_duration("ms").is_err());
        assert!(parse_duration("99999999999999999999h").is_err());
        assert_eq!(parse_size("4k"), Ok(4096));
        assert_eq!(parse_size("1MiB"), Ok(1 << 20));
        assert!(parse_size("17179869184g").is_err());
    }

    #[test]
    fn separators_take_escapes() {
        assert_eq!(parse_escapes(r"\t"), Ok("\t".to_owned()));
        assert_eq!(parse_escapes(r"\x1f\\"), Ok("\u{1f}\\".to_owned()));
        assert!(parse_escapes(r"\q").is_err());
        assert!(parse_escapes(r"\xff").is_err());
        assert!(parse_escapes("").is_err());
    }

    #[test]
    fn partitions_and_offsets_are_checked() {
        assert_eq!(parse_partition_offset("3:-1"), Ok((3, -1)));
        assert!(parse_partition_offset("-3:1").is_err());
        assert!(parse_partition_offset("3:-2").is_err());
        assert!(parse_partition_offset("3").is_err());
        assert_eq!(parse_topic_partition("a.b:3"), Ok(("a.b".into(), 3)));
        assert!(parse_topic_partition("a.b").is_err() && parse_topic_partition(":1").is_err());
        assert!(parse_topic_partition("a:-1").is_err());
    }
}
