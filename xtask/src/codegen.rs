//! `cargo xtask codegen`: writes `protocol/src/generated/` and `protocol/tests/schema.txt` from Kafka's message schemas.
//!
//! The schemas lie as JSON in the jars that Apache Kafka publishes; Maven fetches them into `target/`. Only facts are
//! taken from them (names, types, versions, tags), none of their texts. See `NOTICE`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

/// The Kafka release whose schemas are read.
const KAFKA: &str = "4.4.0";
/// Where Maven unpacks them, below the workspace.
const UNPACKED: &str = "target/kafka-schemas";
const JARS: &[&str] = &["kafka-clients", "kafka-group-coordinator"];

/// APIs in scope; each has a request and a response.
const APIS: &[&str] = &[
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "DescribeAcls",
    "CreateAcls",
    "DeleteAcls",
    "DescribeConfigs",
    "AlterConfigs",
    "DescribeLogDirs",
    "CreatePartitions",
    "DeleteGroups",
    "IncrementalAlterConfigs",
    "OffsetDelete",
    "DescribeCluster",
    "DescribeProducers",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "DescribeTopicPartitions",
];

/// What consumers put into JoinGroup and SyncGroup, and what coordinators write to `__consumer_offsets`.
const DATA: &[&str] = &[
    "ConsumerProtocolSubscription",
    "ConsumerProtocolAssignment",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
];

/// Fetches the schemas and writes the files.
pub fn codegen() -> Result<()> {
    fetch()?;
    let directory = Path::new("protocol/src/generated");
    let mut module = String::from(HEAD);
    let mut table = String::from("# Written by `cargo xtask codegen`. Field: name type versions nullable tag\n");
    let mut written = Vec::new();
    let api_messages = APIS.iter().flat_map(|api| [format!("{api}Request"), format!("{api}Response")]);
    for name in api_messages.chain(DATA.iter().map(ToString::to_string)) {
        let schema = Schema::load(&name)?;
        let text = Generator::new(&schema)?.message(&mut table)?;
        let file = snake(&name);
        let path = directory.join(format!("{file}.rs"));
        fs::create_dir_all(directory)?;
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        writeln!(module, "pub mod {file};\npub use {file}::{name};")?;
        written.push(path);
    }
    let path = directory.join("mod.rs");
    fs::write(&path, module)?;
    written.push(path);
    let format = Command::new("rustfmt").args(["--edition", "2024"]).args(&written).status().context("rustfmt")?;
    ensure!(format.success(), "rustfmt failed");
    fs::write("protocol/tests/schema.txt", table)?;
    remove_stale(directory, &written)
}

fn remove_stale(directory: &Path, written: &[PathBuf]) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if !written.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn fetch() -> Result<()> {
    for jar in JARS {
        let probe = if *jar == "kafka-clients" { "RequestHeader" } else { "OffsetCommitKey" };
        if schema_path(probe).exists() {
            continue;
        }
        let status = Command::new("mvn")
            .args(["-q", "-B", "dependency:unpack"])
            .arg(format!("-Dartifact=org.apache.kafka:{jar}:{KAFKA}"))
            .arg(format!("-DoutputDirectory={UNPACKED}/{KAFKA}"))
            .arg("-Dmdep.unpack.includes=common/message/*.json")
            .status()
            .context("codegen needs Maven: apt-get install maven")?;
        ensure!(status.success(), "Maven could not fetch {jar} {KAFKA}");
    }
    Ok(())
}

fn schema_path(name: &str) -> PathBuf {
    Path::new(UNPACKED).join(KAFKA).join("common/message").join(format!("{name}.json"))
}

/// A message schema, as far as it is used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Schema {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    valid_versions: Range,
    flexible_versions: Range,
    #[serde(default)]
    latest_version_unstable: bool,
    fields: Vec<Field>,
    #[serde(default)]
    common_structs: Vec<CommonStruct>,
}

#[derive(Deserialize)]
struct CommonStruct {
    name: String,
    fields: Vec<Field>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Field {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    versions: Range,
    #[serde(default)]
    nullable_versions: Range,
    #[serde(default)]
    tagged_versions: Range,
    #[serde(default)]
    flexible_versions: Option<Range>,
    tag: Option<u32>,
    #[serde(default)]
    default: Option<serde_json::Value>,
    #[serde(default)]
    fields: Vec<Field>,
}

/// Versions from `first` to `last`; empty when `first` is above.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Range {
    first: i16,
    last: i16,
}

impl Default for Range {
    fn default() -> Self {
        Self { first: 1, last: 0 }
    }
}

impl TryFrom<String> for Range {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(match (text.as_str(), text.split_once('-')) {
            ("none", _) => Self::default(),
            (_, Some((first, last))) => Self { first: first.parse()?, last: last.parse()? },
            (text, None) => match text.strip_suffix('+') {
                Some(first) => Self { first: first.parse()?, last: i16::MAX },
                None => Self { first: text.parse()?, last: text.parse()? },
            },
        })
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_empty() { f.write_str("-") } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

impl Range {
    fn and(self, other: Self) -> Self {
        Self { first: self.first.max(other.first), last: self.last.min(other.last) }
    }

    fn is_empty(self) -> bool {
        self.first > self.last
    }

    /// Rust that tells whether a version of `within` is in this range; `None` for always.
    fn condition(self, within: Self) -> Option<String> {
        let mut tests = Vec::new();
        if self.first > within.first {
            tests.push(format!("version.from({})", self.first));
        }
        if self.last < within.last {
            tests.push(format!("version.upto({})", self.last));
        }
        if self.and(within).is_empty() { Some("false".into()) } else { (!tests.is_empty()).then(|| tests.join(" && ")) }
    }
}

impl Schema {
    fn load(name: &str) -> Result<Self> {
        let path = schema_path(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        // The schemas carry comments, always on lines of their own.
        let json: String =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect();
        let mut schema: Self = serde_json::from_str(&json).with_context(|| path.display().to_string())?;
        if schema.latest_version_unstable {
            schema.valid_versions.last -= 1;
        }
        // Only requests say which version is unstable.
        if let Some(api) = name.strip_suffix("Response") {
            schema.valid_versions = schema.valid_versions.and(Self::load(&format!("{api}Request"))?.valid_versions);
        }
        Ok(schema)
    }
}

/// A type of a field.
enum Kind<'s> {
    Primitive(&'s str),
    Struct(&'s str),
    Array(Box<Kind<'s>>),
}

impl<'s> Kind<'s> {
    fn of(text: &'s str) -> Self {
        match text.strip_prefix("[]") {
            Some(element) => Self::Array(Box::new(Self::of(element))),
            None if text.starts_with(char::is_uppercase) => Self::Struct(text),
            None => Self::Primitive(text),
        }
    }

    fn leaf(&self) -> Option<&'s str> {
        match self {
            Self::Primitive(_) => None,
            Self::Struct(name) => Some(name),
            Self::Array(element) => element.leaf(),
        }
    }
}

/// Writes one message.
struct Generator<'s> {
    schema: &'s Schema,
    /// Structures by name: their fields, and the versions in which they are used.
    structs: BTreeMap<&'s str, (&'s [Field], Range)>,
    /// In the order of the schema.
    order: Vec<&'s str>,
}

impl<'s> Generator<'s> {
    fn new(schema: &'s Schema) -> Result<Self> {
        let mut generator = Self { schema, structs: BTreeMap::new(), order: Vec::new() };
        generator.collect(&schema.fields, schema.valid_versions)?;
        Ok(generator)
    }

    fn collect(&mut self, fields: &'s [Field], within: Range) -> Result<()> {
        for field in fields {
            let Some(name) = Kind::of(&field.kind).leaf() else { continue };
            let used = within.and(field.versions);
            if used.is_empty() {
                continue;
            }
            let common = self.schema.common_structs.iter().find(|common| common.name == name);
            let inner: &'s [Field] = common.map_or(&field.fields, |common| &common.fields);
            ensure!(!inner.is_empty(), "{}: {name} has no fields", self.schema.name);
            let known = self.structs.get(name).map(|&(_, range)| range);
            let range = known
                .map_or(used, |known| Range { first: known.first.min(used.first), last: known.last.max(used.last) });
            if known.is_none() {
                self.order.push(name);
            }
            if known != Some(range) {
                self.structs.insert(name, (inner, range));
                self.collect(inner, range)?;
            }
        }
        Ok(())
    }

    fn message(&self, table: &mut String) -> Result<String> {
        let mut body = String::new();
        let Schema { name, fields, valid_versions: versions, .. } = self.schema;
        self.structure(&mut body, name, fields, *versions)?;
        let flexible = self.schema.flexible_versions.and(*versions);
        let flexible = if flexible.is_empty() { "i16::MAX".into() } else { flexible.first.to_string() };
        let life = self.lifetime(fields);
        writeln!(
            body,
            "impl<'a> Message<'a> for {name}{life} {{
                const VERSIONS: RangeInclusive<i16> = {}..={};
                const FLEXIBLE: i16 = {flexible};
            }}\n",
            versions.first, versions.last,
        )?;
        if let Some(api) = name.strip_suffix("Request").filter(|_| self.schema.kind == "request") {
            let response = Schema::load(&format!("{api}Response"))?;
            let life_r = Generator::new(&response)?.lifetime(&response.fields).replace("'a", "'r");
            writeln!(
                body,
                "impl<'a> Request<'a> for {name}{life} {{
                    const KEY: ApiKey = ApiKey::{api};
                    type Response<'r> = super::{api}Response{life_r};
                }}\n"
            )?;
        }
        for inner in &self.order {
            let (fields, range) = self.structs[inner];
            self.structure(&mut body, inner, fields, range)?;
        }
        writeln!(table, "{name} {versions} {flexible}")?;
        self.table(table, fields, *versions, 1)?;
        Ok(format!("{}\n{body}", imports(&body)))
    }

    /// `<'a>` where something is borrowed.
    fn lifetime(&self, fields: &[Field]) -> &'static str {
        let borrowed = fields.iter().any(|field| self.borrows(&Kind::of(&field.kind)) && self.exists(field));
        if borrowed { "<'a>" } else { "" }
    }

    fn borrows(&self, kind: &Kind<'_>) -> bool {
        match kind {
            Kind::Primitive(name) => matches!(*name, "string" | "bytes" | "records"),
            Kind::Array(element) => self.borrows(element),
            Kind::Struct(name) => self.structs.get(name).is_some_and(|(fields, _)| !self.lifetime(fields).is_empty()),
        }
    }

    fn exists(&self, field: &Field) -> bool {
        !field.versions.and(self.schema.valid_versions).is_empty()
    }

    fn rust(&self, field: &Field, kind: &Kind<'_>) -> Result<String> {
        Ok(match kind {
            Kind::Array(element) => format!("Vec<{}>", self.rust(field, element)?),
            Kind::Struct(name) => {
                let (fields, _) = self.structs[name];
                format!("{name}{}", self.lifetime(fields))
            }
            Kind::Primitive("int16") if field.name.to_lowercase().ends_with("errorcode") => "ErrorCode".into(),
            Kind::Primitive("uuid") if field.name.to_lowercase().contains("topicid") => "TopicId".into(),
            Kind::Primitive(name) => match *name {
                "bool" => "bool",
                "int8" => "i8",
                "int16" => "i16",
                "uint16" => "u16",
                "int32" => "i32",
                "uint32" => "u32",
                "int64" => "i64",
                "float64" => "f64",
                "uuid" => "u128",
                "string" => "&'a str",
                "bytes" | "records" => "&'a [u8]",
                other => bail!("{}.{}: unknown type {other}", self.schema.name, field.name),
            }
            .into(),
        })
    }

    /// The default where it is not Rust's own.
    fn default(&self, field: &Field) -> Result<Option<String>> {
        let text = match &field.default {
            None => return Ok(None),
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        if matches!(text.as_str(), "null" | "0" | "false" | "") {
            return Ok(None);
        }
        let nullable = !field.nullable_versions.is_empty();
        Ok(Some(match (Kind::of(&field.kind), nullable) {
            (Kind::Primitive("string"), false) => format!("{text:?}"),
            (Kind::Primitive("int16"), false) if field.name.to_lowercase().ends_with("errorcode") => {
                format!("ErrorCode({text})")
            }
            (Kind::Primitive(name), false) if name.contains("int") => {
                let value = match text.strip_prefix("0x") {
                    Some(digits) => i64::from_str_radix(digits, 16)?,
                    None => text.parse()?,
                };
                match (name, value) {
                    ("int32", v) if v == i64::from(i32::MAX) => "i32::MAX".into(),
                    ("int32", v) if v == i64::from(i32::MIN) => "i32::MIN".into(),
                    ("int64", i64::MAX) => "i64::MAX".into(),
                    _ => value.to_string(),
                }
            }
            (Kind::Primitive("bool"), false) => text,
            _ => bail!("{}.{}: default {text}", self.schema.name, field.name),
        }))
    }

    /// The fewest bytes that a structure takes in any of its versions.
    fn bytes_min(&self, fields: &[Field], within: Range) -> usize {
        (within.first..=within.last).map(|version| self.bytes_in(fields, version)).min().unwrap_or(0)
    }

    fn bytes_in(&self, fields: &[Field], version: i16) -> usize {
        let is_in = |range: Range| (range.first..=range.last).contains(&version);
        let flexible = is_in(self.flexible());
        let plain = fields.iter().filter(|field| is_in(field.versions) && field.tag.is_none());
        let sizes = plain.map(|field| match (Kind::of(&field.kind), is_in(field.nullable_versions)) {
            (Kind::Struct(name), false) => self.bytes_in(self.structs[name].0, version),
            (Kind::Primitive("bool" | "int8"), _) | (Kind::Struct(_), true) => 1,
            (Kind::Primitive("int16" | "uint16"), _) => 2,
            (Kind::Primitive("int32" | "uint32"), _) => 4,
            (Kind::Primitive("int64" | "float64"), _) => 8,
            (Kind::Primitive("uuid"), _) => 16,
            (Kind::Primitive("string"), _) if !flexible => 2,
            (Kind::Array(_) | Kind::Primitive("bytes" | "records"), _) if !flexible => 4,
            (Kind::Array(_) | Kind::Primitive(_), _) => 1,
        });
        sizes.sum::<usize>() + usize::from(flexible)
    }

    fn structure(&self, out: &mut String, name: &str, all: &[Field], within: Range) -> Result<()> {
        let fields: Vec<&Field> = all.iter().filter(|field| !field.versions.and(within).is_empty()).collect();
        let life = if fields.iter().any(|field| self.borrows(&Kind::of(&field.kind))) { "<'a>" } else { "" };
        let defaults = fields.iter().map(|field| self.default(field)).collect::<Result<Vec<_>>>()?;
        let derived = if defaults.iter().all(Option::is_none) { ", Default" } else { "" };
        writeln!(out, "#[derive(Clone, Debug, PartialEq{derived})]\npub struct {name}{life} {{")?;
        for field in &fields {
            ensure!(field.flexible_versions.is_none(), "{name}.{}: flexible versions of its own", field.name);
            let rust = self.rust(field, &Kind::of(&field.kind))?;
            let rust = if field.nullable_versions.is_empty() { rust } else { format!("Option<{rust}>") };
            writeln!(out, "pub {}: {rust},", ident(&field.name))?;
        }
        out.push_str("}\n\n");
        if derived.is_empty() {
            self.default_impl(out, name, life, &fields, &defaults)?;
        }
        let bytes_min = self.bytes_min(all, within);
        // Some messages are empty in some versions, but no element of an array may be: a count must cost its sender.
        ensure!(bytes_min > 0 || name == self.schema.name, "{name}: empty in some version");
        writeln!(out, "impl<'a> Wire<'a> for {name}{life} {{\nconst BYTES_MIN: usize = {bytes_min};\n")?;
        self.read_fn(out, &fields, within)?;
        self.write_fn(out, &fields, &defaults, within)?;
        out.push_str("}\n\n");
        Ok(())
    }

    fn default_impl(
        &self,
        out: &mut String,
        name: &str,
        life: &str,
        fields: &[&Field],
        defaults: &[Option<String>],
    ) -> Result<()> {
        let anonymous = if life.is_empty() { "" } else { "<'_>" };
        writeln!(out, "impl Default for {name}{anonymous} {{\nfn default() -> Self {{\nSelf {{")?;
        for (field, default) in fields.iter().zip(defaults) {
            let value = default.as_deref().unwrap_or("Default::default()");
            writeln!(out, "{}: {value},", ident(&field.name))?;
        }
        out.push_str("}\n}\n}\n\n");
        Ok(())
    }

    fn flexible(&self) -> Range {
        self.schema.flexible_versions.and(self.schema.valid_versions)
    }

    fn read_fn(&self, out: &mut String, fields: &[&Field], within: Range) -> Result<()> {
        let (tagged, plain): (Vec<&Field>, Vec<&Field>) = fields.iter().partition(|field| field.tag.is_some());
        let mutable = if fields.is_empty() { "" } else { "mut " };
        writeln!(
            out,
            "fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {{
                let {mutable}message = Self::default();"
        )?;
        for field in plain {
            let read = format!("message.{} = {};", ident(&field.name), read_call(field, within));
            match field.versions.condition(within) {
                Some(condition) => writeln!(out, "if {condition} {{ {read} }}")?,
                None => writeln!(out, "{read}")?,
            }
        }
        if tagged.is_empty() {
            if !self.flexible().and(within).is_empty() {
                writeln!(out, "get_no_tags(reader, version)?;")?;
            }
        } else {
            self.read_tags(out, &tagged, within)?;
        }
        out.push_str("Ok(message)\n}\n\n");
        Ok(())
    }

    fn read_tags(&self, out: &mut String, tagged: &[&Field], within: Range) -> Result<()> {
        let within = within.and(self.flexible());
        writeln!(out, "if version.flexible() {{\nreader.tags(&mut |tag, reader| {{\nmatch tag {{")?;
        for field in tagged {
            let tagged = field.tagged_versions.and(within);
            ensure!(tagged == field.versions.and(within), "{}: tagged only in some versions", field.name);
            let guard = tagged.condition(within).map(|condition| format!(" if {condition}")).unwrap_or_default();
            let tag = field.tag.context("a tag")?;
            writeln!(out, "{tag}{guard} => message.{} = {},", ident(&field.name), read_call(field, within))?;
        }
        writeln!(out, "_ => return Ok(false),\n}}\nOk(true)\n}})?;\n}}")?;
        Ok(())
    }

    fn write_fn(&self, out: &mut String, fields: &[&Field], defaults: &[Option<String>], within: Range) -> Result<()> {
        writeln!(out, "fn write(&self, out: &mut Vec<u8>, version: Version) {{")?;
        let mut tags: Vec<(&Field, String)> = Vec::new();
        for (field, default) in fields.iter().zip(defaults) {
            let name = ident(&field.name);
            if field.tag.is_some() {
                let differs = self.differs(field, default.as_deref());
                let within = within.and(self.flexible());
                let condition = match field.versions.condition(within) {
                    Some(condition) => format!("{condition} && {differs}"),
                    None => differs,
                };
                tags.push((field, condition));
                continue;
            }
            let nullable = field.nullable_versions.and(within);
            let write = match (nullable.is_empty(), nullable.condition(within.and(field.versions))) {
                (true, _) if field.nullable_versions.is_empty() => format!("self.{name}.write(out, version);"),
                (_, None) => format!("self.{name}.write(out, version);"),
                (_, Some(allowed)) => format!("put_nullable(self.{name}.as_ref(), out, version, {allowed});"),
            };
            match field.versions.condition(within) {
                Some(condition) => writeln!(out, "if {condition} {{ {write} }}")?,
                None => writeln!(out, "{write}")?,
            }
        }
        if tags.is_empty() {
            if !self.flexible().and(within).is_empty() {
                writeln!(out, "put_no_tags(out, version);")?;
            }
        } else {
            write_tags(out, &mut tags)?;
        }
        out.push_str("}\n");
        Ok(())
    }

    /// Rust that tells whether a tagged field has another value than its default.
    fn differs(&self, field: &Field, default: Option<&str>) -> String {
        let name = ident(&field.name);
        match (default, Kind::of(&field.kind), field.nullable_versions.is_empty()) {
            (Some(default), ..) => format!("self.{name} != {default}"),
            (None, _, false) => format!("self.{name}.is_some()"),
            (None, Kind::Array(_) | Kind::Primitive("string" | "bytes" | "records"), true) => {
                format!("!self.{name}.is_empty()")
            }
            (None, Kind::Struct(kind), true) => format!("self.{name} != {kind}::default()"),
            // By a literal: other crates may make an integer comparable with more than integers.
            (None, Kind::Primitive("int8" | "int16" | "int32" | "int64"), true) => format!("self.{name} != 0"),
            (None, Kind::Primitive(_), true) => format!("self.{name} != Default::default()"),
        }
    }

    /// The schema as the tests read it: structures in place, indented.
    fn table(&self, table: &mut String, fields: &[Field], within: Range, depth: usize) -> Result<()> {
        for field in fields {
            let versions = field.versions.and(within);
            if versions.is_empty() {
                continue;
            }
            let kind = Kind::of(&field.kind);
            let shown = match &kind {
                Kind::Struct(_) => "struct".into(),
                Kind::Array(element) if matches!(**element, Kind::Struct(_)) => "[]struct".into(),
                _ => field.kind.clone(),
            };
            let nullable = field.nullable_versions.and(versions);
            let tag = field.tag.map_or("-".into(), |tag| tag.to_string());
            let indent = "  ".repeat(depth);
            writeln!(table, "{indent}{} {shown} {versions} {nullable} {tag}", snake(&field.name))?;
            if let Some(name) = kind.leaf() {
                self.table(table, self.structs[name].0, versions, depth + 1)?;
            }
        }
        Ok(())
    }
}

fn read_call(field: &Field, within: Range) -> String {
    if field.nullable_versions.is_empty() {
        return "get(reader, version)?".into();
    }
    match field.nullable_versions.condition(within.and(field.versions)) {
        None => "get(reader, version)?".into(),
        Some(allowed) => format!("get_nullable(reader, version, {allowed})?"),
    }
}

fn write_tags(out: &mut String, tags: &mut [(&Field, String)]) -> Result<()> {
    tags.sort_by_key(|(field, _)| field.tag);
    writeln!(out, "if version.flexible() {{")?;
    for (field, condition) in tags.iter() {
        writeln!(out, "let has_{} = {condition};", snake(&field.name))?;
    }
    let count: Vec<_> = tags.iter().map(|(field, _)| format!("u32::from(has_{})", snake(&field.name))).collect();
    writeln!(out, "put_uvarint(out, {});", count.join(" + "))?;
    for (field, _) in tags.iter() {
        let (name, tag) = (snake(&field.name), field.tag.context("a tag")?);
        writeln!(
            out,
            "if has_{name} {{ put_tag(out, {tag}, &mut |out| self.{}.write(out, version)); }}",
            ident(&field.name)
        )?;
    }
    out.push_str("}\n");
    Ok(())
}

const HEAD: &str = "\
//! Kafka's messages. Written by `cargo xtask codegen`; do not edit.
#![allow(missing_docs, clippy::field_reassign_with_default, reason = \"generated; fields bear Kafka's names\")]

";

fn imports(body: &str) -> String {
    let mut text = String::from("// Written by `cargo xtask codegen`; do not edit.\n\n");
    text.push_str("use alloc::vec::Vec;\nuse core::ops::RangeInclusive;\n\n");
    if body.contains("TopicId,") || body.contains("TopicId>") {
        text.push_str("use base::TopicId;\n\n");
    }
    if body.contains("ApiKey::") {
        text.push_str("use crate::api::ApiKey;\n");
    }
    if body.contains("ErrorCode,") || body.contains("ErrorCode>") {
        text.push_str("use crate::error::ErrorCode;\n");
    }
    let used = |names: &[&str]| {
        let used: Vec<_> = names
            .iter()
            .filter(|name| {
                let call = if name.starts_with(char::is_lowercase) { format!("{name}(") } else { (**name).into() };
                body.contains(&call)
            })
            .copied()
            .collect();
        used.join(", ")
    };
    // `Request<'a>` rather than `Request`, which names of messages end with.
    let request = if body.contains(" Request<'a> for ") { "Request, " } else { "" };
    let helpers = used(&["get_nullable", "get_no_tags", "put_no_tags", "put_nullable"]);
    let get = if body.contains(" get(") { "get, " } else { "" };
    let _ = writeln!(text, "use crate::messages::{{Message, {request}Version, Wire, {get}{helpers}}};");
    let writers = used(&["put_tag", "put_uvarint"]);
    let _ = writeln!(text, "use crate::wire::{{DecodeError, Reader, {writers}}};");
    text
}

/// `TimeoutMs` → `timeout_ms`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// As a Rust identifier.
fn ident(name: &str) -> String {
    let name = snake(name);
    if matches!(name.as_str(), "type" | "match" | "ref" | "self" | "use" | "final") { format!("{name}_") } else { name }
}
