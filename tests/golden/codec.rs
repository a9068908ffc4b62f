//! Bytes to JSON and back as the schemas say, field by field: a codec that shares nothing with the one under test.
//!
//! UUIDs are 32 hexadecimal digits, bytes `0x…`, records an array of batches (or `0x…` where they are none).

use serde_json::{Map, Value, json};

#[path = "../../protocol/tests/messages/schema.rs"]
#[allow(dead_code, reason = "the protocol's own tests make random bytes with it")]
mod schema;

use schema::Field;
pub(crate) use schema::{Schema, all};

type Result<T> = std::result::Result<T, String>;

/// The bytes of a message. What the version does not have is left out; what it has must be there, unless it may be null.
pub(crate) fn encode(schema: &Schema, version: i16, message: &Value) -> Vec<u8> {
    let mut writer = Writer { version, flexible: version >= schema.flexible, out: Vec::new() };
    writer.structure(&schema.name, &schema.fields, message);
    writer.out
}

/// The message, to the last byte.
pub(crate) fn decode(schema: &Schema, version: i16, bytes: &[u8]) -> Result<Value> {
    let mut reader = Reader { version, flexible: version >= schema.flexible, bytes };
    let message = reader.structure(&schema.fields)?;
    if reader.bytes.is_empty() { Ok(message) } else { Err(format!("{} bytes are left", reader.bytes.len())) }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn in_version(field: &Field, version: i16) -> bool {
    field.versions.contains(&version)
}

fn is_nullable(field: &Field, version: i16) -> bool {
    field.nullable.as_ref().is_some_and(|range| range.contains(&version))
}

struct Writer {
    version: i16,
    flexible: bool,
    out: Vec<u8>,
}

impl Writer {
    fn structure(&mut self, name: &str, fields: &[Field], value: &Value) {
        let object = value.as_object().unwrap_or_else(|| panic!("{name}: {value} is no structure"));
        for key in object.keys() {
            assert!(fields.iter().any(|field| field.name == *key), "{name} has no field {key}");
        }
        let version = self.version;
        let present = fields.iter().filter(|field| in_version(field, version));
        let (mut tagged, plain): (Vec<&Field>, Vec<&Field>) = present.partition(|field| field.tag.is_some());
        for field in plain {
            let nullable = is_nullable(field, version);
            match object.get(&field.name) {
                Some(value) => self.value(&field.kind, field, nullable, value),
                None if nullable => self.value(&field.kind, field, nullable, &Value::Null),
                None => panic!("{name} v{version} lacks {}", field.name),
            }
        }
        if !self.flexible {
            return;
        }
        tagged.retain(|field| object.contains_key(&field.name));
        tagged.sort_by_key(|field| field.tag);
        self.varint(tagged.len());
        for field in tagged {
            self.varint(field.tag.unwrap() as usize);
            let outer = std::mem::take(&mut self.out);
            self.value(&field.kind, field, is_nullable(field, version), &object[&field.name]);
            let inner = std::mem::replace(&mut self.out, outer);
            self.varint(inner.len());
            self.out.extend(inner);
        }
    }

    fn value(&mut self, kind: &str, field: &Field, nullable: bool, value: &Value) {
        let name = &field.name;
        assert!(!value.is_null() || nullable, "{name} may not be null in v{}", self.version);
        if let Some(element) = kind.strip_prefix("[]") {
            self.len(value.as_array().map(Vec::len), 4);
            for item in value.as_array().into_iter().flatten() {
                self.value(element, field, false, item);
            }
            return;
        }
        match kind {
            "struct" => {
                if nullable {
                    self.out.push(if value.is_null() { 0xff } else { 1 });
                }
                if !value.is_null() {
                    self.structure(name, &field.fields, value);
                }
            }
            "string" => {
                self.len(value.as_str().map(str::len), 2);
                self.out.extend(value.as_str().unwrap_or_default().as_bytes());
            }
            "bytes" | "records" => {
                let bytes = value.as_str().map(unhex);
                self.len(bytes.as_ref().map(Vec::len), 4);
                self.out.extend(bytes.unwrap_or_default());
            }
            "uuid" => self.out.extend(unhex(value.as_str().unwrap_or_else(|| panic!("{name}: {value} is no UUID")))),
            "bool" => self.out.push(u8::from(value.as_bool().unwrap_or_else(|| panic!("{name}: {value} is no bool")))),
            number => {
                let bytes = value.as_i64().unwrap_or_else(|| panic!("{name}: {value} is no number")).to_be_bytes();
                self.out.extend(&bytes[8 - width(number)..]);
            }
        }
    }

    fn len(&mut self, len: Option<usize>, fixed: usize) {
        match (self.flexible, len) {
            (true, None) => self.out.push(0),
            (true, Some(len)) => self.varint(len + 1),
            (false, None) => self.out.extend(vec![0xff; fixed]),
            (false, Some(len)) => self.out.extend(&u32::try_from(len).unwrap().to_be_bytes()[4 - fixed..]),
        }
    }

    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        self.out.push(u8::try_from(value).unwrap());
    }
}

fn width(number: &str) -> usize {
    match number {
        "int8" => 1,
        "int16" | "uint16" => 2,
        "int32" | "uint32" => 4,
        "int64" => 8,
        other => panic!("type {other}"),
    }
}

struct Reader<'a> {
    version: i16,
    flexible: bool,
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(len).ok_or("cut off")?;
        self.bytes = rest;
        Ok(head)
    }

    fn number(&mut self, kind: &str) -> Result<i64> {
        let bytes = self.take(width(kind))?;
        let negative = !kind.starts_with('u') && bytes[0] & 0x80 != 0;
        let mut whole = if negative { [0xff; 8] } else { [0; 8] };
        whole[8 - bytes.len()..].copy_from_slice(bytes);
        Ok(i64::from_be_bytes(whole))
    }

    fn varint(&mut self) -> Result<usize> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.take(1)?[0];
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a varint of more than five bytes".into())
    }

    /// A length; `None` is null.
    fn len(&mut self, kind: &str) -> Result<Option<usize>> {
        if self.flexible {
            return Ok(self.varint()?.checked_sub(1));
        }
        Ok(usize::try_from(self.number(kind)?).ok())
    }

    fn structure(&mut self, fields: &[Field]) -> Result<Value> {
        let version = self.version;
        let mut object = Map::new();
        let present: Vec<&Field> = fields.iter().filter(|field| in_version(field, version)).collect();
        for field in present.iter().filter(|field| field.tag.is_none()) {
            let value = self
                .value(&field.kind, field, is_nullable(field, version))
                .map_err(|error| format!("{}: {error}", field.name))?;
            object.insert(field.name.clone(), value);
        }
        if self.flexible {
            for _ in 0..self.varint()? {
                let (tag, len) = (self.varint()?, self.varint()?);
                let mut inner = Reader { bytes: self.take(len)?, ..*self };
                match present.iter().find(|field| field.tag.is_some_and(|known| known as usize == tag)) {
                    Some(field) => {
                        object
                            .insert(field.name.clone(), inner.value(&field.kind, field, is_nullable(field, version))?);
                        if !inner.bytes.is_empty() {
                            return Err(format!("{}: bytes are left under its tag", field.name));
                        }
                    }
                    None => {
                        object.insert(format!("tag {tag}"), json!(format!("0x{}", hex(inner.bytes))));
                    }
                }
            }
        }
        Ok(Value::Object(object))
    }

    fn value(&mut self, kind: &str, field: &Field, nullable: bool) -> Result<Value> {
        if let Some(element) = kind.strip_prefix("[]") {
            let Some(len) = self.len("int32")? else { return Ok(Value::Null) };
            return (0..len).map(|_| self.value(element, field, false)).collect::<Result<Vec<_>>>().map(Value::Array);
        }
        Ok(match kind {
            "struct" if nullable && self.number("int8")? < 0 => Value::Null,
            "struct" => self.structure(&field.fields)?,
            "string" => match self.len("int16")? {
                None => Value::Null,
                Some(len) => json!(str::from_utf8(self.take(len)?).map_err(|error| error.to_string())?),
            },
            "bytes" | "records" => match self.len("int32")? {
                None => Value::Null,
                Some(len) if kind == "records" => records(self.take(len)?),
                Some(len) => json!(format!("0x{}", hex(self.take(len)?))),
            },
            "uuid" => json!(hex(self.take(16)?)),
            "bool" => json!(self.take(1)?[0] != 0),
            number => json!(self.number(number)?),
        })
    }
}

/// Batches, header field by field; bytes that are no batches as they are.
fn records(bytes: &[u8]) -> Value {
    let mut reader = Reader { version: 0, flexible: false, bytes };
    let mut batches = Vec::new();
    while !reader.bytes.is_empty() {
        match batch(&mut reader) {
            Ok(batch) => batches.push(batch),
            Err(_) => return json!(format!("0x{}", hex(bytes))),
        }
    }
    Value::Array(batches)
}

fn batch(reader: &mut Reader<'_>) -> Result<Value> {
    let (base_offset, length) = (reader.number("int64")?, reader.number("int32")?);
    let mut inner = Reader { bytes: reader.take(usize::try_from(length).map_err(|_| "negative")?)?, ..*reader };
    let mut object = Map::new();
    object.insert("base_offset".into(), json!(base_offset));
    for (name, kind) in [
        ("partition_leader_epoch", "int32"),
        ("magic", "int8"),
        ("crc", "uint32"),
        ("attributes", "int16"),
        ("last_offset_delta", "int32"),
        ("base_timestamp", "int64"),
        ("max_timestamp", "int64"),
        ("producer_id", "int64"),
        ("producer_epoch", "int16"),
        ("base_sequence", "int32"),
        ("count", "int32"),
    ] {
        object.insert(name.into(), json!(inner.number(kind)?));
    }
    object.insert("records".into(), json!(format!("0x{}", hex(inner.bytes))));
    Ok(Value::Object(object))
}
