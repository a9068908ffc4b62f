//! Records as text: lines, JSON lines, base64 for bytes that are no text.

use serde_json::{Value, json};
use std::io::{self, Write};

/// A record as an application sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextRecord {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(crate) partition: Option<i32>,
    pub(crate) timestamp: Option<i64>,
}

/// Bytes as JSON: null, a string, or `{"base64": "…"}` where they are no UTF-8.
pub(crate) fn json_bytes(bytes: Option<&[u8]>) -> Value {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => Value::Null,
        Some((_, Ok(text))) => Value::String(text.to_owned()),
        Some((bytes, Err(_))) => json!({ "base64": base64(bytes) }),
    }
}

/// The opposite of [`json_bytes`]; other JSON is taken as its text.
fn bytes_of_json(value: Value) -> Result<Option<Vec<u8>>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.into_bytes())),
        Value::Object(map) if map.len() == 1 && map.contains_key("base64") => {
            let text = map.get("base64").and_then(Value::as_str).ok_or("base64 must be a string")?;
            from_base64(text).map(Some).ok_or_else(|| "base64 is malformed".to_owned())
        }
        other => Ok(Some(other.to_string().into_bytes())),
    }
}

/// Reads a record from a line of JSON.
///
/// # Errors
/// What is wrong with the line.
pub(crate) fn parse_json(line: &[u8]) -> Result<TextRecord, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
    let Value::Object(mut map) = value else { return Err("expected a JSON object".to_owned()) };
    let mut record = TextRecord {
        key: bytes_of_json(map.remove("key").unwrap_or_default())?,
        value: bytes_of_json(map.remove("value").unwrap_or_default())?,
        ..TextRecord::default()
    };
    match map.remove("headers").unwrap_or_default() {
        Value::Null => {}
        Value::Object(headers) => {
            for (key, value) in headers {
                record.headers.push((key.into_bytes(), bytes_of_json(value)?));
            }
        }
        // Keys may repeat, which an object cannot say: [["key", "value"], …].
        Value::Array(headers) => {
            for header in headers {
                let pair: [Value; 2] = serde_json::from_value(header).map_err(|_| "a header is [key, value]")?;
                let [key, value] = pair;
                let key = bytes_of_json(key)?.ok_or("a header's key must not be null")?;
                record.headers.push((key, bytes_of_json(value)?));
            }
        }
        _ => return Err("headers must be an object or a list of pairs".to_owned()),
    }
    if let Some(partition) = map.remove("partition").filter(|value| !value.is_null()) {
        let number = partition.as_i64().and_then(|number| i32::try_from(number).ok()).filter(|number| *number >= 0);
        record.partition = Some(number.ok_or("partition must be a number")?);
    }
    if let Some(timestamp) = map.remove("timestamp").filter(|value| !value.is_null()) {
        record.timestamp = Some(timestamp.as_i64().ok_or("timestamp must be milliseconds since 1970")?);
    }
    // What `consume --json` prints besides, so that its output can be produced again.
    for known in ["topic", "offset"] {
        map.remove(known);
    }
    match map.keys().next() {
        Some(unknown) => {
            Err(format!("unknown field '{unknown}'; a record has key, value, headers, partition and timestamp"))
        }
        None => Ok(record),
    }
}

/// Headers as JSON: an object, or a list of pairs where a key repeats or is no text.
pub(crate) fn json_headers<'a>(headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + Clone) -> Value {
    let mut map = serde_json::Map::new();
    for (key, value) in headers.clone() {
        let fits = std::str::from_utf8(key).ok().filter(|key| !map.contains_key(*key));
        let Some(key) = fits else {
            return headers.map(|(key, value)| json!([json_bytes(Some(key)), json_bytes(value)])).collect();
        };
        map.insert(key.to_owned(), json_bytes(value));
    }
    Value::Object(map)
}

/// Writes headers in front of a line: `k=v,k2=v2`, then a tab.
pub(crate) fn write_headers<'a>(
    out: &mut impl Write,
    headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
) -> io::Result<()> {
    for (index, (key, value)) in headers.enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        out.write_all(key)?;
        out.write_all(b"=")?;
        out.write_all(value.unwrap_or(b"NULL"))?;
    }
    out.write_all(b"\t")
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// RFC 4648 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for index in 0..4 {
            let six = (word >> (18 - 6 * index)) & 63;
            out.push(if index <= chunk.len() { char::from(ALPHABET[six as usize]) } else { '=' });
        }
    }
    out
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.chunks(4) {
        let mut word = 0u32;
        for byte in chunk {
            let six = ALPHABET.iter().position(|known| known == byte)?;
            word = (word << 6) | u32::try_from(six).ok()?;
        }
        let bytes = match chunk.len() {
            2 => 1,
            3 => 2,
            4 => 3,
            _ => return None,
        };
        word <<= 6 * (4 - chunk.len());
        out.extend_from_slice(&word.to_be_bytes()[1..=bytes]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(plain.as_bytes()), coded);
            assert_eq!(from_base64(coded).unwrap(), plain.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_base64(&base64(&all)).unwrap(), all);
        assert_eq!(from_base64("A"), None);
        assert_eq!(from_base64("Zm9*"), None);
    }

    #[test]
    fn json_lines_come_back_as_they_went() {
        let record = TextRecord {
            key: Some(b"k".to_vec()),
            value: Some(vec![0xff, 0]),
            headers: vec![(b"h".to_vec(), Some(b"1".to_vec())), (b"h".to_vec(), None)],
            partition: Some(3),
            timestamp: Some(5),
        };
        let headers = record.headers.iter().map(|(key, value)| (&key[..], value.as_deref()));
        let line = json!({
            "topic": "t", "offset": 9, "partition": 3, "timestamp": 5,
            "key": json_bytes(record.key.as_deref()),
            "value": json_bytes(record.value.as_deref()),
            "headers": json_headers(headers),
        });
        assert_eq!(parse_json(line.to_string().as_bytes()).unwrap(), record);
    }

    #[test]
    fn json_that_is_no_record_is_named() {
        let error = |line: &str| parse_json(line.as_bytes()).unwrap_err();
        assert!(error("{").starts_with("not JSON"));
        assert_eq!(error("[]"), "expected a JSON object");
        assert!(error(r#"{"vaule":1}"#).starts_with("unknown field 'vaule'; a record has key, value, "));
        assert_eq!(error(r#"{"partition":-1}"#), "partition must be a number");
        assert_eq!(error(r#"{"value":{"base64":"*"}}"#), "base64 is malformed");
        assert_eq!(parse_json(br#"{"value":{"a":1}}"#).unwrap().value.unwrap(), br#"{"a":1}"#);
        assert_eq!(parse_json(b"{}").unwrap(), TextRecord::default());
    }
}
