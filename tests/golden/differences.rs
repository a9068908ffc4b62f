//! Where Barelog answers otherwise than Kafka on purpose, each with its reason. What stands nowhere here and differs fails.

use std::ops::RangeInclusive;

/// One difference. Texts are patterns: `*` stands for anything, `|` between alternatives; values are JSON.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) api: &'static str,
    pub(crate) versions: RangeInclusive<i16>,
    pub(crate) case: &'static str,
    pub(crate) field: &'static str,
    pub(crate) kafka: &'static str,
    pub(crate) ours: &'static str,
    /// Why; docs/PROTOCOL.md shows it.
    pub(crate) why: &'static str,
}

const ANY: RangeInclusive<i16> = 0..=i16::MAX;

const fn differs(
    api: &'static str,
    case: &'static str,
    field: &'static str,
    values: [&'static str; 2],
    why: &'static str,
) -> Difference {
    Difference { api, versions: ANY, case, field, kafka: values[0], ours: values[1], why }
}

const NO_KIND: &str = "an isolation of no kind";
const TAKEN: &str = "a batch and a byte|stamped by its client";
const LATE: &str = "a time too long ago|a time far ahead";

/// Served, and not in the recording: the scenario has no consumer group (KIP-848) yet.
pub(crate) const UNRECORDED: &[&str] = &["ConsumerGroupHeartbeat", "ConsumerGroupDescribe"];

pub(crate) const DIFFERENCES: &[Difference] = &[
    differs(
        "ApiVersions",
        "*",
        "api_keys*|*_features*",
        ["*", "*"],
        "What is offered: the tables above. No feature has levels.",
    ),
    differs(
        "*",
        "*",
        "*error_message",
        ["null|\"\"", "\"a text\""],
        "Barelog says what is wrong where Kafka gives the code alone.",
    ),
    differs(
        "CreateTopics",
        "only validated",
        "topics[*].topic_id",
        ["*", "\"00000000000000000000000000000000\""],
        "Kafka draws an id for the topic that it does not make.",
    ),
    differs(
        "CreateTopics|DescribeConfigs",
        "*",
        "*configs[errors.deadletterqueue.group.enable]|*configs[max.decompressed.message.bytes]|*configs[remote.copy.lag.*]",
        ["*", "\"absent\""],
        "Settings of things that do not exist here: share groups, tiers, a bound on what is decompressed.",
    ),
    differs(
        "CreateTopics|DescribeConfigs",
        "*",
        "*configs[min.insync.replicas].*source",
        ["3", "5"],
        "Kafka writes this default into the cluster's metadata (KIP-966).",
    ),
    differs(
        "CreateTopics|DescribeConfigs",
        "*",
        "*[max.message.bytes].value|*[max.message.bytes].synonyms*.value|*[message.max.bytes].value|*[message.max.bytes].synonyms*.value",
        ["\"1048588\"", "\"10489856\""],
        "The default is 10 MiB.",
    ),
    differs(
        "DescribeConfigs",
        "*",
        "*synonyms*",
        ["*", "*"],
        "Where a value comes from: Barelog has no broker-wide names for settings without effect, names the built-in default always, and has no dynamic defaults.",
    ),
    differs(
        "DescribeConfigs",
        "some of the broker",
        "*.read_only",
        ["false", "true"],
        "A broker's settings are read from its file at start.",
    ),
    differs(
        "DescribeConfigs",
        "some of the broker",
        "*configs[log.retention.ms].value",
        ["null", "\"604800000\""],
        "Kafka derives it from log.retention.hours, which Barelog does not have.",
    ),
    differs(
        "Metadata",
        "neither name nor id",
        "*",
        ["*", "*"],
        "Kafka trips over it (UNKNOWN_SERVER_ERROR for the whole request); Barelog names the mistake, INVALID_REQUEST.",
    ),
    differs(
        "Produce",
        "not served",
        "",
        ["\"Closed\"", "*"],
        "Versions 0 to 2 are offered for old clients; Barelog refuses them by name, Kafka closes.",
    ),
    differs(
        "Produce",
        TAKEN,
        "*.error_code",
        ["0", "87|32"],
        "Kafka drops the byte, and the client's claim that the broker has stamped the batch; Barelog stores nothing that it would have to mend.",
    ),
    differs("Produce", TAKEN, "*.base_offset|*.log_append_time_ms", ["*", "-1"], "As above."),
    differs(
        "Produce",
        "an unknown codec",
        "*.error_code",
        ["-1", "76"],
        "Kafka trips over it (UNKNOWN_SERVER_ERROR); Barelog answers UNSUPPORTED_COMPRESSION_TYPE.",
    ),
    differs(
        "Produce",
        "*",
        "*.log_start_offset",
        ["0", "-1"],
        "The log start is told with what was stored, not with a refusal: the batch never reached the partition's log.",
    ),
    differs(
        "Produce",
        LATE,
        "*.record_errors.len",
        ["1", "0"],
        "A batch is judged by its highest timestamp and refused as a whole; which record is at fault is not told.",
    ),
    differs(
        "Produce",
        "sequence * again|the oldest of the last five",
        "*.log_append_time_ms",
        ["*", "-1"],
        "A duplicate in a topic with CreateTime has no append time; Kafka gives the time of the batch.",
    ),
    differs(
        "Fetch",
        "bytes of one batch",
        "*.records",
        ["*", "*"],
        "Kafka cuts the last batch off at the limit; Barelog sends whole batches only.",
    ),
    differs(
        "Fetch",
        NO_KIND,
        "*",
        ["*", "*"],
        "Kafka trips over it (UNKNOWN_SERVER_ERROR); Barelog takes whatever is not read_committed for read_uncommitted.",
    ),
    differs(
        "ListOffsets",
        "a partition twice",
        "*",
        ["*", "*"],
        "Kafka refuses it, INVALID_REQUEST; Barelog answers each.",
    ),
    differs(
        "ListOffsets",
        "the earliest*",
        "*.leader_epoch",
        ["*", "-1"],
        "The epoch of the log start is not looked up: unknown is always right.",
    ),
    differs(
        "ListGroups",
        "*",
        "groups[refused]",
        ["*", "\"absent\""],
        "Kafka makes a group before it refuses the first who would join it.",
    ),
    differs(
        "IncrementalAlterConfigs",
        "an operation of no kind",
        "*.error_code",
        ["-1", "42"],
        "Kafka trips over it (UNKNOWN_SERVER_ERROR); Barelog names the mistake, INVALID_REQUEST.",
    ),
];
