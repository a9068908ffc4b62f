//! The settings of a topic: one table with type, default, meaning and effect of each.
//!
//! A setting either changes what the broker does, or has one value that holds and any other is refused, or is accepted
//! because Kafka's own tools set it although it means nothing here. The table says which, and DescribeConfigs shows it.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::image::{Compaction, Lifetime, TimestampType, TopicConfig};

use crate::command::{ConfigChange, ConfigOp};

/// A topic's own settings by name, values as given.
pub type Overrides = BTreeMap<Arc<str>, Arc<str>>;

/// What a value may be; the numbers are Kafka's (`ConfigDef.Type`), as DescribeConfigs sends them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number within 32 bits, at least the first, at most the second.
    Int(i32, i32),
    /// A whole number within 64 bits, at least the first, at most the second.
    Long(i64, i64),
    /// A number between 0 and 1.
    Ratio,
    /// Items separated by commas; each one of these words, or any when there are none.
    List(&'static [&'static str]),
}

impl Kind {
    /// The number DescribeConfigs sends for the type.
    #[must_use]
    pub const fn wire_type(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::Choice(_) => 2,
            Self::Int(..) => 3,
            Self::Long(..) => 5,
            Self::Ratio => 6,
            Self::List(_) => 7,
        }
    }

    /// The type in words, for the documentation.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Boolean => "boolean".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Int(..) => "int".to_owned(),
            Self::Long(..) => "long".to_owned(),
            Self::Ratio => "number between 0 and 1".to_owned(),
            Self::List(_) => "list".to_owned(),
        }
    }

    fn check(self, value: &str) -> Result<(), String> {
        let number = || value.parse::<i64>().map_err(|_| "not a whole number".to_owned());
        let within = |n: i64, min: i64, max: i64| {
            if n < min {
                Err(format!("must be at least {min}"))
            } else if n > max {
                Err(format!("must be at most {max}"))
            } else {
                Ok(())
            }
        };
        match self {
            Self::Boolean if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") => Ok(()),
            Self::Boolean => Err("must be true or false".to_owned()),
            Self::Choice(words) if words.contains(&value) => Ok(()),
            Self::Choice(words) => Err(format!("must be one of {}", words.join(", "))),
            Self::Int(min, max) => within(number()?, min.into(), max.into()),
            Self::Long(min, max) => within(number()?, min, max),
            Self::Ratio => match value.parse::<f64>() {
                Ok(n) if (0.0..=1.0).contains(&n) => Ok(()),
                _ => Err("must be a number between 0 and 1".to_owned()),
            },
            Self::List([]) => Ok(()),
            Self::List(words) => match items(value).find(|item| !words.contains(item)) {
                None => Ok(()),
                Some(item) => Err(format!("{item} is none of {}", words.join(", "))),
            },
        }
    }
}

/// What setting it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It changes what the broker does.
    Applies,
    /// Only this value is accepted; any other is refused with the reason.
    Fixed {
        /// The value that holds.
        value: &'static str,
        /// Why no other.
        why: &'static str,
    },
    /// Accepted and kept, changes nothing; the text says why.
    None(&'static str),
}

/// Where the default comes from.
#[derive(Clone, Copy)]
enum Default {
    /// Always this.
    Text(&'static str),
    /// The broker's configuration.
    Broker(fn(&TopicConfig) -> String),
}

/// One setting.
#[derive(Clone, Copy)]
pub struct ConfigDef {
    /// Kafka's name of it.
    pub name: &'static str,
    /// What a value may be.
    pub kind: Kind,
    /// What it does here.
    pub effect: Effect,
    /// What it means.
    pub doc: &'static str,
    /// Kafka's name of the broker setting that gives the default.
    pub broker_name: Option<&'static str>,
    default: Default,
}

impl core::fmt::Debug for ConfigDef {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

impl ConfigDef {
    /// The value that holds for a topic without one of its own.
    #[must_use]
    pub fn default_value(&self, defaults: &TopicConfig) -> String {
        match self.default {
            Default::Text(text) => text.to_owned(),
            Default::Broker(of) => of(defaults),
        }
    }

    /// The documentation DescribeConfigs shows: meaning, and what it does here where that is not what it says.
    #[must_use]
    pub fn documentation(&self) -> String {
        match self.effect {
            Effect::Applies => self.doc.to_owned(),
            Effect::Fixed { value, why } => format!("{} Only {value} is accepted: {why}", self.doc),
            Effect::None(why) => format!("{} Accepted and without effect: {why}", self.doc),
        }
    }
}

const fn applies(
    name: &'static str,
    kind: Kind,
    broker_name: &'static str,
    of: fn(&TopicConfig) -> String,
    doc: &'static str,
) -> ConfigDef {
    ConfigDef { name, kind, effect: Effect::Applies, doc, broker_name: Some(broker_name), default: Default::Broker(of) }
}

const fn fixed(name: &'static str, kind: Kind, value: &'static str, doc: &'static str, why: &'static str) -> ConfigDef {
    ConfigDef {
        name,
        kind,
        effect: Effect::Fixed { value, why },
        doc,
        broker_name: None,
        default: Default::Text(value),
    }
}

const fn without(
    name: &'static str,
    kind: Kind,
    value: &'static str,
    doc: &'static str,
    why: &'static str,
) -> ConfigDef {
    ConfigDef { name, kind, effect: Effect::None(why), doc, broker_name: None, default: Default::Text(value) }
}

/// One that means something for compacted topics; its default does not come from the broker's configuration.
const fn compaction(name: &'static str, kind: Kind, value: &'static str, doc: &'static str) -> ConfigDef {
    ConfigDef { name, kind, effect: Effect::Applies, doc, broker_name: None, default: Default::Text(value) }
}

const SEGMENTS: &str = "a partition has no segments of its own; it shares the extents of a journal.";
const TIERING: &str = "tiered storage does not exist yet.";
const FLUSHES: &str = "every acknowledged record is durable already.";
const LEVELS: &str = "batches are stored as the producer compressed them.";
const ONE_REPLICA: &str = "there is no replication traffic to throttle yet.";
const MS_MAX: Kind = Kind::Long(0, i64::MAX);

/// All settings of a topic, by name.
pub static TOPIC_CONFIGS: &[ConfigDef] = &[
    compaction(
        CLEANUP_POLICY,
        Kind::List(&["delete", "compact"]),
        "delete",
        "delete: records go by age and size. compact: of each key the latest record stays, and records without a key are refused with INVALID_RECORD. compact,delete: both. A topic that exists cannot change between compacted and not.",
    ),
    without("compression.gzip.level", Kind::Int(-1, 9), "-1", "The gzip level.", LEVELS),
    without("compression.lz4.level", Kind::Int(1, 17), "9", "The lz4 level.", LEVELS),
    fixed(
        "compression.type",
        Kind::Choice(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]),
        "producer",
        "The codec in which batches are stored.",
        "batches are stored and served as the producer compressed them.",
    ),
    without("compression.zstd.level", Kind::Int(-131_072, 22), "3", "The zstd level.", LEVELS),
    compaction(
        "delete.retention.ms",
        MS_MAX,
        "86400000",
        "How long a tombstone of a compacted topic stays after compaction has come upon it first.",
    ),
    without("file.delete.delay.ms", MS_MAX, "60000", "How long a deleted file stays.", SEGMENTS),
    without("flush.messages", Kind::Long(1, i64::MAX), "9223372036854775807", "Records between two flushes.", FLUSHES),
    without("flush.ms", MS_MAX, "9223372036854775807", "Time between two flushes.", FLUSHES),
    without(
        "follower.replication.throttled.replicas",
        Kind::List(&[]),
        "",
        "Replicas whose followers are throttled.",
        ONE_REPLICA,
    ),
    without("index.interval.bytes", Kind::Int(0, i32::MAX), "4096", "Bytes between two index entries.", SEGMENTS),
    without(
        "leader.replication.throttled.replicas",
        Kind::List(&[]),
        "",
        "Replicas whose leaders are throttled.",
        ONE_REPLICA,
    ),
    without("local.retention.bytes", Kind::Long(-2, i64::MAX), "-2", "Bytes kept locally of a tiered topic.", TIERING),
    without("local.retention.ms", Kind::Long(-2, i64::MAX), "-2", "Time kept locally of a tiered topic.", TIERING),
    compaction(
        MAX_LAG,
        Kind::Long(1, i64::MAX),
        "9223372036854775807",
        "How long a record of a compacted topic may escape compaction. Until then it does while it lies in the open extent of its journal, which is closed by what comes after it.",
    ),
    applies(
        "max.message.bytes",
        Kind::Int(0, MESSAGE_BYTES_MAX),
        "message.max.bytes",
        |c| c.max_message_bytes.to_string(),
        "Largest record batch in bytes, after compression, its header included. A larger one is refused with MESSAGE_TOO_LARGE.",
    ),
    applies(
        "message.timestamp.after.max.ms",
        MS_MAX,
        "log.message.timestamp.after.max.ms",
        |c| c.timestamp_after_ms_max.to_string(),
        "How far a record's timestamp may lie after the broker's clock. One further is refused with INVALID_TIMESTAMP.",
    ),
    applies(
        "message.timestamp.before.max.ms",
        MS_MAX,
        "log.message.timestamp.before.max.ms",
        |c| c.timestamp_before_ms_max.to_string(),
        "How far a record's timestamp may lie before the broker's clock. One further is refused with INVALID_TIMESTAMP.",
    ),
    applies(
        "message.timestamp.type",
        Kind::Choice(&["CreateTime", "LogAppendTime"]),
        "log.message.timestamp.type",
        |c| timestamp_name(c.timestamp_type).to_owned(),
        "Whether a record carries the producer's timestamp or the time of its append.",
    ),
    compaction(
        "min.cleanable.dirty.ratio",
        Kind::Ratio,
        "0.5",
        "Share of a compacted partition's closed bytes that compaction has not come upon: at so much it begins.",
    ),
    compaction(
        MIN_LAG,
        MS_MAX,
        "0",
        "How old a record of a compacted topic is before compaction comes upon it, by its timestamp.",
    ),
    applies(
        "min.insync.replicas",
        Kind::Int(1, 0x7fff),
        "min.insync.replicas",
        |c| c.min_insync_replicas.to_string(),
        "How many replicas must hold a record durably before acks=all is answered; with fewer in sync it is refused with NOT_ENOUGH_REPLICAS.",
    ),
    without("preallocate", Kind::Boolean, "false", "Whether segment files are allocated ahead.", SEGMENTS),
    without("remote.log.copy.disable", Kind::Boolean, "false", "Whether copying to the tier stops.", TIERING),
    without(
        "remote.log.delete.on.disable",
        Kind::Boolean,
        "false",
        "Whether the tier's data goes when tiering is switched off.",
        TIERING,
    ),
    fixed("remote.storage.enable", Kind::Boolean, "false", "Whether the topic is tiered.", TIERING),
    applies(
        "retention.bytes",
        Kind::Long(-1, i64::MAX),
        "log.retention.bytes",
        |c| c.retention_bytes.to_string(),
        "How many bytes a partition keeps before its oldest records expire; -1 is without limit.",
    ),
    applies(
        "retention.ms",
        Kind::Long(-1, i64::MAX),
        "log.retention.ms",
        |c| c.retention_ms.to_string(),
        "How long a record is kept; -1 is without limit. It is invisible as soon as it expires.",
    ),
    without("segment.bytes", Kind::Int(14, i32::MAX), "1073741824", "Size of a segment file.", SEGMENTS),
    without("segment.index.bytes", Kind::Int(4, i32::MAX), "10485760", "Size of a segment's index.", SEGMENTS),
    without("segment.jitter.ms", MS_MAX, "0", "Spread of the times at which segments roll.", SEGMENTS),
    without("segment.ms", Kind::Long(1, i64::MAX), "604800000", "Age at which a segment rolls.", SEGMENTS),
    fixed(
        "unclean.leader.election.enable",
        Kind::Boolean,
        "false",
        "Whether a replica that lost acknowledged records may lead.",
        "acknowledged records are never given up without an operator's recorded act.",
    ),
];

const CLEANUP_POLICY: &str = "cleanup.policy";
const MIN_LAG: &str = "min.compaction.lag.ms";
const MAX_LAG: &str = "max.compaction.lag.ms";

/// Largest `max.message.bytes`: a batch fits one unit of 16 MiB beside its headers, and tools like round numbers.
pub const MESSAGE_BYTES_MAX: i32 = 15 << 20;

/// Longest value: lists of throttled replicas are the longest that tools set, and mean nothing here.
pub const VALUE_BYTES_MAX: usize = 16 << 10;

/// Kafka's name of a timestamp type.
#[must_use]
pub const fn timestamp_name(kind: TimestampType) -> &'static str {
    match kind {
        TimestampType::Create => "CreateTime",
        TimestampType::Append => "LogAppendTime",
    }
}

/// The setting of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ConfigDef> {
    TOPIC_CONFIGS.binary_search_by(|def| def.name.cmp(name)).ok().map(|i| &TOPIC_CONFIGS[i])
}

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Which setting.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

fn refuse<T>(name: &str, why: String) -> Result<T, ConfigError> {
    Err(ConfigError { name: name.to_owned(), why })
}

/// Whether `value` may stand for `name`.
///
/// # Errors
/// The rule that is broken.
pub fn check(name: &str, value: &str) -> Result<(), ConfigError> {
    let Some(def) = find(name) else {
        return refuse(name, "there is no such topic setting".to_owned());
    };
    if value.len() > VALUE_BYTES_MAX {
        return refuse(name, format!("longer than {VALUE_BYTES_MAX} bytes"));
    }
    if let Err(why) = def.kind.check(value) {
        return refuse(name, format!("invalid value \"{}\": {why}", shortened(value)));
    }
    if name == CLEANUP_POLICY && items(value).next().is_none() {
        return refuse(name, "it names neither delete nor compact".to_owned());
    }
    match def.effect {
        Effect::Applies | Effect::None(_) => Ok(()),
        Effect::Fixed { value: only, why } if value != only => {
            refuse(name, format!("only \"{only}\" is accepted: {why}"))
        }
        Effect::Fixed { .. } => Ok(()),
    }
}

/// Checks a whole set of settings.
///
/// # Errors
/// The first that breaks a rule, or comes twice.
pub fn check_all(configs: &[(Arc<str>, Arc<str>)]) -> Result<Overrides, ConfigError> {
    let mut overrides = Overrides::new();
    for (name, value) in configs {
        check(name, value)?;
        if overrides.insert(name.clone(), value.clone()).is_some() {
            return refuse(name, "it is given twice".to_owned());
        }
    }
    check_together(&overrides)?;
    Ok(overrides)
}

/// Whether settings go together that were checked one by one.
fn check_together(overrides: &Overrides) -> Result<(), ConfigError> {
    let number = |name: &str| overrides.get(name).and_then(|value| value.parse::<i64>().ok());
    let (min, max) = (number(MIN_LAG).unwrap_or(0), number(MAX_LAG).unwrap_or(i64::MAX));
    if min > max {
        return refuse(MIN_LAG, format!("{min} is more than {MAX_LAG}, which is {max}"));
    }
    Ok(())
}

/// Whether a topic with these settings is compacted, alone or beside deletion.
#[must_use]
pub fn is_compacted(overrides: &Overrides) -> bool {
    overrides.get(CLEANUP_POLICY).is_some_and(|policy| items(policy).any(|item| item == "compact"))
}

/// Whether a topic with some settings may get others.
///
/// # Errors
/// Where its partitions would have to move to journals of another class.
pub fn check_change(before: &Overrides, after: &Overrides) -> Result<(), ConfigError> {
    if is_compacted(before) == is_compacted(after) {
        return Ok(());
    }
    let why =
        "a topic that exists cannot change between compacted and not compacted: create another with the policy wanted";
    refuse(CLEANUP_POLICY, why.to_owned())
}

/// The settings after incremental changes.
///
/// # Errors
/// The first that breaks a rule, comes twice, or appends to what is no list.
pub fn change(
    before: &Overrides,
    changes: &[ConfigChange],
    defaults: impl Fn(&ConfigDef) -> String,
) -> Result<Overrides, ConfigError> {
    let mut after = before.clone();
    for (i, one) in changes.iter().enumerate() {
        let name = &*one.name;
        if changes[..i].iter().any(|earlier| earlier.name == one.name) {
            return refuse(name, "it is given twice".to_owned());
        }
        let Some(def) = find(name) else {
            return refuse(name, "there is no such topic setting".to_owned());
        };
        if one.op == ConfigOp::Delete {
            after.remove(name);
            continue;
        }
        let Some(value) = one.value.as_deref() else {
            return refuse(name, "a value is needed".to_owned());
        };
        let value = match (one.op, def.kind) {
            (ConfigOp::Set | ConfigOp::Delete, _) => value.to_owned(),
            (op, Kind::List(_)) => {
                let now = after.get(name).map_or_else(|| defaults(def), |v| (**v).to_owned());
                combine(&now, op, value)
            }
            _ => return refuse(name, "it is no list: items cannot be appended or subtracted".to_owned()),
        };
        check(name, &value)?;
        after.insert(one.name.clone(), value.into());
    }
    check_together(&after)?;
    Ok(after)
}

/// The settings as the data path needs them.
#[must_use]
pub fn resolve(overrides: &Overrides, defaults: &TopicConfig) -> TopicConfig {
    // Every value was checked when it came in; one that does not parse can only mean that the default holds.
    fn number<T: core::str::FromStr>(overrides: &Overrides, name: &str, default: T) -> T {
        overrides.get(name).and_then(|value| value.parse().ok()).unwrap_or(default)
    }
    let compacted = is_compacted(overrides);
    let deletes = !compacted || overrides.get(CLEANUP_POLICY).is_some_and(|p| items(p).any(|item| item == "delete"));
    let ratio: f64 = number(overrides, "min.cleanable.dirty.ratio", 0.5);
    let compaction = Compaction {
        delete_retention_ms: number(overrides, "delete.retention.ms", 86_400_000),
        lag_ms_min: number(overrides, MIN_LAG, 0),
        lag_ms_max: number(overrides, MAX_LAG, i64::MAX),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to lie between 0 and 1")]
        dirty_ppm_min: (ratio.clamp(0.0, 1.0) * 1e6) as u32,
    };
    let retention = |name: &str, default: i64| if deletes { number(overrides, name, default) } else { -1 };
    TopicConfig {
        retention_ms: retention("retention.ms", defaults.retention_ms),
        retention_bytes: retention("retention.bytes", defaults.retention_bytes),
        compaction: compacted.then_some(compaction),
        max_message_bytes: number(overrides, "max.message.bytes", defaults.max_message_bytes),
        timestamp_type: match overrides.get("message.timestamp.type").map(|v| &**v) {
            Some("LogAppendTime") => TimestampType::Append,
            Some("CreateTime") => TimestampType::Create,
            _ => defaults.timestamp_type,
        },
        timestamp_before_ms_max: number(overrides, "message.timestamp.before.max.ms", defaults.timestamp_before_ms_max),
        timestamp_after_ms_max: number(overrides, "message.timestamp.after.max.ms", defaults.timestamp_after_ms_max),
        min_insync_replicas: number(overrides, "min.insync.replicas", defaults.min_insync_replicas),
    }
}

/// The class of lifetimes into which a retention falls.
#[must_use]
pub const fn lifetime(retention_ms: i64) -> Lifetime {
    const DAY_MS: i64 = 86_400_000;
    match retention_ms {
        ..0 => Lifetime::Long,
        0..=DAY_MS => Lifetime::Short,
        _ if retention_ms <= 8 * DAY_MS => Lifetime::Medium,
        _ => Lifetime::Long,
    }
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn combine(now: &str, op: ConfigOp, value: &str) -> String {
    let mut list: Vec<&str> = items(now).collect();
    for item in items(value) {
        if op == ConfigOp::Subtract {
            list.retain(|have| *have != item);
        } else if !list.contains(&item) {
            list.push(item);
        }
    }
    list.join(",")
}

/// An error message does not carry a megabyte back.
fn shortened(value: &str) -> &str {
    value.char_indices().nth(100).map_or(value, |(end, _)| &value[..end])
}

/// All settings as a table in Markdown.
#[must_use]
pub fn markdown(defaults: &TopicConfig) -> String {
    let mut out = String::from("| setting | values | default | what it does |\n|---|---|---|---|\n");
    for def in TOPIC_CONFIGS {
        let default = match def.default_value(defaults) {
            empty if empty.is_empty() => "none".to_owned(),
            value => format!("`{value}`"),
        };
        let default = def.broker_name.map_or(default.clone(), |name| format!("{default} (`{name}`)"));
        let (name, words, doc) = (def.name, def.kind.words(), def.documentation());
        out.push_str(&format!("| `{name}` | {words} | {default} | {doc} |\n"));
    }
    out
}

#[cfg(test)]
mod tests;
