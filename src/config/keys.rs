//! Strict reading of TOML settings: every key stands in a table with its kind, default and explanation, and whatever does not
//! is an error that names the key, the line and the nearest key there is. The same table writes the documentation.

use std::collections::BTreeMap;
#[cfg(test)]
use std::fmt::Write as _;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number within bounds.
    Int { min: i64, max: i64 },
    /// `true` or `false`.
    Bool,
    /// A number of bytes, or text such as `"256 KiB"`.
    Bytes { min: u64, max: u64 },
    /// Any text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// One key of a settings file. A key below an array of tables is written `array[].key`.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// As it would stand in the file; empty: there is none, and the key may be left out.
    pub default: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "a test writes it to docs/CONFIG.md"))]
    pub doc: &'static str,
}

/// A value of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Int(i64),
    Bool(bool),
    Bytes(u64),
    Text(String),
}

/// Why a settings file was refused: the file, the line where there is one, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{file}{}: {what}", line.map(|n| format!(":{n}")).unwrap_or_default())]
pub struct ConfigError {
    pub file: String,
    pub line: Option<usize>,
    pub what: String,
}

/// The settings of one file, checked against a table of keys, defaults filled in on reading.
#[derive(Clone, Debug)]
pub struct Settings {
    keys: &'static [Key],
    file: String,
    given: BTreeMap<String, (Value, usize)>,
    counts: BTreeMap<String, usize>,
}

impl Settings {
    /// Parses `text`, which came from `file`.
    pub fn parse(file: &str, text: &str, keys: &'static [Key]) -> Result<Self, ConfigError> {
        let table = DeTable::parse(text).map_err(|error| ConfigError {
            file: file.into(),
            line: error.span().map(|span| line_of(text, span.start)),
            what: error.message().into(),
        })?;
        let mut reader = Reader { file, text, keys, given: BTreeMap::new(), counts: BTreeMap::new() };
        reader.table(table.get_ref(), "", "")?;
        let Reader { given, counts, .. } = reader;
        Ok(Self { keys, file: file.into(), given, counts })
    }

    /// How many tables the array `name` has.
    pub fn count(&self, name: &str) -> usize {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// The value of `name`, given or default. For a key of an array, `index` says which table.
    fn value(&self, name: &str, index: Option<usize>) -> Option<Value> {
        let key = self.key(name);
        let path = concrete(name, index);
        if let Some((value, _)) = self.given.get(&path) {
            return Some(value.clone());
        }
        (!key.default.is_empty()).then(|| parse_default(key))
    }

    fn key(&self, name: &str) -> &'static Key {
        self.keys.iter().find(|key| key.name == name).unwrap_or_else(|| panic!("{name} is not in the table of keys"))
    }

    pub fn int(&self, name: &str) -> i64 {
        match self.value(name, None) {
            Some(Value::Int(n)) => n,
            other => panic!("{name} is {other:?}, not an integer with a default"),
        }
    }

    pub fn flag(&self, name: &str) -> bool {
        match self.value(name, None) {
            Some(Value::Bool(b)) => b,
            other => panic!("{name} is {other:?}, not a flag with a default"),
        }
    }

    pub fn bytes(&self, name: &str) -> u64 {
        match self.value(name, None) {
            Some(Value::Bytes(n)) => n,
            other => panic!("{name} is {other:?}, not a size with a default"),
        }
    }

    pub fn text(&self, name: &str) -> Option<String> {
        text_of(self.value(name, None))
    }

    /// Text of an array's table.
    pub fn text_at(&self, name: &str, index: usize) -> Option<String> {
        text_of(self.value(name, Some(index)))
    }

    /// Size in an array's table.
    pub fn bytes_at(&self, name: &str, index: usize) -> Option<u64> {
        match self.value(name, Some(index)) {
            Some(Value::Bytes(n)) => Some(n),
            _ => None,
        }
    }

    /// An error about the value of `name`, naming its line where it was given.
    pub fn refuse(&self, name: &str, index: Option<usize>, what: impl Into<String>) -> ConfigError {
        let line = self.given.get(&concrete(name, index)).map(|(_, line)| *line);
        ConfigError { file: self.file.clone(), line, what: what.into() }
    }

    /// What stands in the file, by key.
    #[cfg(test)]
    pub fn given(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.given.iter().map(|(name, (value, _))| (name.as_str(), value))
    }
}

fn text_of(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

fn concrete(name: &str, index: Option<usize>) -> String {
    match index {
        Some(index) => name.replacen("[]", &format!("[{index}]"), 1),
        None => name.into(),
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    keys: &'static [Key],
    given: BTreeMap<String, (Value, usize)>,
    counts: BTreeMap<String, usize>,
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &str, generic: &str) -> Result<(), ConfigError> {
        for (name, value) in table {
            let line = line_of(self.text, name.span().start);
            let here = join(path, name.get_ref());
            let general = join(generic, name.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) if self.is_prefix(&general) => self.table(inner, &here, &general)?,
                DeValue::Array(items) if self.is_prefix(&format!("{general}[]")) => {
                    for (index, item) in items.iter().enumerate() {
                        let DeValue::Table(inner) = item.get_ref() else {
                            return Err(self.error(line, format!("{here} is an array of tables: write [[{here}]]")));
                        };
                        self.table(inner, &format!("{here}[{index}]"), &format!("{general}[]"))?;
                    }
                    self.counts.insert(here, items.len());
                }
                _ => self.leaf(&here, &general, value, line)?,
            }
        }
        Ok(())
    }

    fn is_prefix(&self, path: &str) -> bool {
        self.keys.iter().any(|key| key.name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
    }

    fn leaf(
        &mut self,
        here: &str,
        general: &str,
        value: &Spanned<DeValue<'_>>,
        line: usize,
    ) -> Result<(), ConfigError> {
        let Some(key) = self.keys.iter().find(|key| key.name == general) else {
            if let Some(key) = self.misplaced(general) {
                let what = format!("unknown key {here}; {key} belongs to no table: move it above the first [table]");
                return Err(self.error(line, what));
            }
            let nearest = nearest(general, self.keys.iter().map(|key| key.name));
            return Err(self.error(line, format!("unknown key {here}; the nearest valid key is {nearest}")));
        };
        let value = convert(key, value.get_ref()).map_err(|what| self.error(line, format!("{here} {what}")))?;
        self.given.insert(here.into(), (value, line));
        Ok(())
    }

    /// The end of an unknown key that is a key, or the first part of one: in TOML what follows a `[table]` belongs to it.
    fn misplaced<'b>(&self, unknown: &'b str) -> Option<&'b str> {
        let ends = unknown.match_indices('.').filter_map(|(at, _)| unknown.get(at + 1..));
        ends.into_iter().find(|end| self.is_prefix(end) || self.keys.iter().any(|key| key.name == *end))
    }

    fn error(&self, line: usize, what: String) -> ConfigError {
        ConfigError { file: self.file.into(), line: Some(line), what }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.into() } else { format!("{path}.{name}") }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

fn convert(key: &Key, value: &DeValue<'_>) -> Result<Value, String> {
    match (key.kind, value) {
        (Kind::Int { min, max }, DeValue::Integer(number)) => {
            let n = i64::from_str_radix(number.as_str(), number.radix()).map_err(|error| error.to_string())?;
            if n < min || n > max {
                Err(format!("must lie between {min} and {max}, not {n}"))
            } else {
                Ok(Value::Int(n))
            }
        }
        (Kind::Int { .. }, _) => Err("must be a whole number".into()),
        (Kind::Bool, DeValue::Boolean(b)) => Ok(Value::Bool(*b)),
        (Kind::Bool, _) => Err("must be true or false".into()),
        (Kind::Bytes { min, max }, _) => {
            let n = match value {
                DeValue::Integer(number) => number.as_str().parse().map_err(|_| "must not be negative".to_string())?,
                DeValue::String(text) => parse_bytes(text)?,
                _ => return Err("must be a size such as \"256 MiB\"".into()),
            };
            if n < min || n > max {
                return Err(format!("must lie between {} and {}", show_bytes(min), show_bytes(max)));
            }
            Ok(Value::Bytes(n))
        }
        (Kind::Text, DeValue::String(text)) => Ok(Value::Text(text.to_string())),
        (Kind::Text, _) => Err("must be text in quotes".into()),
        (Kind::Choice(words), DeValue::String(text)) if words.contains(&text.as_ref()) => {
            Ok(Value::Text(text.to_string()))
        }
        (Kind::Choice(words), _) => Err(format!("must be one of {}", words.join(", "))),
    }
}

fn parse_default(key: &Key) -> Value {
    let text = key.default;
    match key.kind {
        Kind::Int { .. } => Value::Int(text.parse().expect("the table's default is a number")),
        Kind::Bool => Value::Bool(text == "true"),
        Kind::Bytes { .. } => Value::Bytes(parse_bytes(text).expect("the table's default is a size")),
        Kind::Text | Kind::Choice(_) => Value::Text(text.into()),
    }
}

/// `"256 KiB"`, `"1 GiB"`, `"4096"`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        other => return Err(format!("has the unit {other:?}; use B, KiB, MiB, GiB or TiB")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is not a size such as \"256 MiB\""))?;
    number.checked_mul(unit).ok_or_else(|| format!("{text:?} is too large"))
}

/// The shortest exact form of a size.
pub fn show_bytes(n: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if n >= 1 << shift && n.is_multiple_of(1 << shift) {
            return format!("{} {unit}", n >> shift);
        }
    }
    format!("{n} B")
}

/// The name with the smallest edit distance.
fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> &'a str {
    names.min_by_key(|name| distance(wrong, name)).unwrap_or("")
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// A Markdown table of keys.
#[cfg(test)]
pub fn markdown(keys: &[Key]) -> String {
    let mut out = String::from("| key | value | default | what it does |\n|---|---|---|---|\n");
    for key in keys {
        let kind = match key.kind {
            Kind::Int { min, max: i64::MAX } => format!("whole number ≥ {min}"),
            Kind::Int { min, max } => format!("whole number, {min} to {max}"),
            Kind::Bool => "true or false".into(),
            Kind::Bytes { min, max: u64::MAX } => format!("size ≥ {}", show_bytes(min)),
            Kind::Bytes { min, max } => format!("size, {} to {}", show_bytes(min), show_bytes(max)),
            Kind::Text => "text".into(),
            Kind::Choice(words) => words.join(" \\| "),
        };
        let default = if key.default.is_empty() { "none".into() } else { format!("`{}`", key.default) };
        let _ = writeln!(out, "| `{}` | {kind} | {default} | {} |", key.name, key.doc);
    }
    out
}
