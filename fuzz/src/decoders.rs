//! Every generated message in every version, and the hand-written views of the data path: bytes → error or message, memory in
//! proportion to the bytes, and what was read is written and read again without a change.
//!
//! An input is two bytes that choose the message, one that chooses the version, and the body.

#[path = "../../protocol/tests/messages/schema.rs"]
#[allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "the generator of the codec's own tests, for seeds")]
mod schema;

use std::ops::RangeInclusive;

use protocol::fetch::FetchView;
use protocol::list_offsets::ListOffsetsView;
use protocol::messages::{self, Message as _};
use protocol::produce::ProduceView;
use protocol::wire::DecodeError;

use crate::input::Input;
use crate::within;

/// Reads a body; writes the message again, in a vector of its own.
type Again = fn(&[u8], i16) -> Result<Vec<u8>, DecodeError>;

struct Known {
    name: &'static str,
    versions: RangeInclusive<i16>,
    again: Again,
}

macro_rules! messages {
    ($($name:ident)*) => {
        const MESSAGES: &[Known] = &[$(Known {
            name: stringify!($name),
            versions: messages::$name::VERSIONS,
            again: |body, version| {
                let message = messages::$name::parse(body, version)?;
                let mut out = Vec::new();
                message.encode(&mut out, version);
                Ok(out)
            },
        }),*];
    };
}

// Made by build.rs from the list of generated modules.
include!(concat!(env!("OUT_DIR"), "/messages.rs"));

/// As `protocol/tests/messages.rs` has it: no structure in memory is larger than this many times its fewest bytes on the wire,
/// arrays doubled.
const MEMORY_PER_BYTE: u64 = 100;
/// What nested arrays may take before their elements were seen, four deep, and what is written again.
const MEMORY_AT_ONCE: u64 = 4 * (16 << 10) + (4 << 10);

/// A number that stays a message's own when others come or go: FNV-1a, folded to 16 bits.
fn selector(name: &str) -> u16 {
    let hash = name.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [a, b, c, d] = hash.to_le_bytes();
    u16::from_le_bytes([a ^ c, b ^ d])
}

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let wanted = input.two();
    let named = MESSAGES.iter().find(|known| selector(known.name) == wanted);
    let known = named.unwrap_or(&MESSAGES[usize::from(wanted) % MESSAGES.len()]);
    // One version too many on each side: those are refused.
    let (first, last) = (known.versions.start() - 1, known.versions.end() + 1);
    let version = first + i16::from(input.byte()) % (last - first + 1);
    let body = input.rest();
    let context = format!("{} v{version}", known.name);
    let read = within(&context, MEMORY_AT_ONCE, MEMORY_PER_BYTE, body.len(), || (known.again)(body, version));
    if let Ok(written) = &read {
        let again = (known.again)(written, version);
        assert_eq!(again.as_ref(), Ok(written), "{context}: what was written reads otherwise");
        assert!(known.versions.contains(&version));
    } else if !known.versions.contains(&version) {
        assert_eq!(read, Err(DecodeError::Version), "{context}");
    }
    view(known.name, body, version, read.is_ok());
}

/// The view of a request, where there is one: whatever it takes it walks, without memory, and the generated codec takes, too.
fn view(name: &str, body: &[u8], version: i16, read: bool) {
    if let Some(elements) = within(name, 0, 0, 0, || elements(name, body, version)) {
        assert!(elements <= body.len(), "{name} v{version}: {elements} elements in {} bytes", body.len());
        assert!(read, "{name} v{version}: the view takes what the generated codec refuses");
    }
}

/// How many partitions a view walks; `None` where there is no view, or it refuses.
fn elements(name: &str, body: &[u8], version: i16) -> Option<usize> {
    match name {
        "ProduceRequest" => {
            let view = ProduceView::check(body, version).ok()?;
            Some(view.topics().flat_map(|topic| topic.partitions).count())
        }
        "FetchRequest" => {
            let view = FetchView::check(body, version).ok()?;
            let wanted = view.topics().flat_map(|topic| topic.partitions).count();
            Some(wanted + view.forgotten().flat_map(|topic| topic.partitions).count())
        }
        "ListOffsetsRequest" => {
            let view = ListOffsetsView::check(body, version).ok()?;
            Some(view.topics().flat_map(|topic| topic.partitions).count())
        }
        _ => None,
    }
}

/// The first and the newest version of each message.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let schemas = schema::all();
    let mut seeds = Vec::new();
    for known in MESSAGES {
        let Some(schema) = schemas.iter().find(|schema| schema.name == known.name) else { continue };
        let (first, last) = (*known.versions.start(), *known.versions.end());
        for version in [first, last] {
            let mut seed = selector(known.name).to_le_bytes().to_vec();
            seed.push(u8::try_from(version - first + 1).expect("few versions"));
            seed.extend(schema.bytes(version, &mut schema::Random::new(7)));
            if seeds.last() != Some(&seed) {
                seeds.push(seed);
            }
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_a_number_of_its_own() {
        let mut numbers: Vec<u16> = MESSAGES.iter().map(|known| selector(known.name)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), MESSAGES.len());
    }
}
