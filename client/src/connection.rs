//! One connection as a machine: which versions the broker speaks, request headers, and which answer belongs to what.
//!
//! Requests are pipelined: a broker answers a connection's requests in their order, which is checked here.

use base::Mono;
use protocol::api::ApiKey;
use protocol::error::ErrorCode;
use protocol::frame::{begin_frame, parse_response, put_request_header};
use protocol::wire::{DecodeError, Reader, put_bytes};
use std::collections::VecDeque;

use crate::error::{Error, Result};

/// The version of ApiVersions that is tried first; a broker that does not know it answers in version 0.
pub const HANDSHAKE_VERSION: i16 = 3;

/// What a broker serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// (API key, lowest, highest version).
    ranges: Vec<(i16, i16, i16)>,
}

impl Versions {
    /// A broker with these (key, lowest, highest).
    #[must_use]
    pub const fn new(ranges: Vec<(i16, i16, i16)>) -> Self {
        Self { ranges }
    }

    /// The range that is served of an API.
    #[must_use]
    pub fn of(&self, key: ApiKey) -> Option<(i16, i16)> {
        self.ranges.iter().find(|range| range.0 == key as i16).map(|range| (range.1, range.2))
    }

    /// The highest version of an API that both sides speak.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn pick(&self, key: ApiKey) -> Result<i16> {
        let (ours_min, ours_max) = crate::wire::spoken(key);
        let theirs = self.of(key);
        let common = theirs.map(|(min, max)| (min.max(ours_min), max.min(ours_max))).filter(|(min, max)| min <= max);
        common.map(|(_, max)| max).ok_or_else(|| Error::Unsupported {
            api: key.info().name,
            ours_min,
            ours_max,
            theirs: theirs.map_or_else(|| "none".to_owned(), |(min, max)| format!("{min} to {max}")),
        })
    }
}

/// Appends an ApiVersions request of `version` (0 or [`HANDSHAKE_VERSION`]), length bytes included.
pub fn put_handshake(out: &mut Vec<u8>, version: i16, client_id: &str) {
    let at = begin_frame(out);
    put_request_header(out, ApiKey::ApiVersions, version, 0, Some(client_id));
    if version >= HANDSHAKE_VERSION {
        put_bytes(out, Some(b"barelog-client"), true);
        put_bytes(out, Some(env!("CARGO_PKG_VERSION").as_bytes()), true);
        out.push(0);
    }
    protocol::frame::end_frame(out, at, 0);
}

/// Reads the answer to [`put_handshake`]. `Ok(None)`: the broker does not know that version, ask again with 0.
///
/// # Errors
/// [`Error::Malformed`], or the broker's error.
pub fn parse_handshake(frame: &[u8], version: i16) -> Result<Option<Versions>> {
    let malformed = |source| Error::Malformed { api: "ApiVersions", source };
    let (_, body) = parse_response(frame, ApiKey::ApiVersions, version).map_err(malformed)?;
    let mut reader = Reader::new(body);
    let code = ErrorCode(reader.i16().map_err(malformed)?);
    if code == ErrorCode::UNSUPPORTED_VERSION && version > 0 {
        return Ok(None);
    }
    code.ok().map_err(|code| Error::kafka("ApiVersions", code))?;
    ranges(&mut reader, version >= HANDSHAKE_VERSION).map(|ranges| Some(Versions { ranges })).map_err(malformed)
}

fn ranges(reader: &mut Reader<'_>, flexible: bool) -> std::result::Result<Vec<(i16, i16, i16)>, DecodeError> {
    let count = reader.count(flexible, 6)?;
    let mut ranges = Vec::with_capacity(count);
    for _ in 0..count {
        ranges.push((reader.i16()?, reader.i16()?, reader.i16()?));
        if flexible {
            reader.skip_tags()?;
        }
    }
    Ok(ranges)
}

#[derive(Debug)]
struct Waiting<T> {
    correlation: i32,
    key: ApiKey,
    version: i16,
    deadline: Mono,
    token: T,
}

/// An answer, told apart.
#[derive(Debug)]
pub struct Answered<'a, T> {
    /// What [`Connection::begin`] was given.
    pub token: T,
    /// The API that was asked.
    pub key: ApiKey,
    /// The version that was asked.
    pub version: i16,
    /// The answer behind its header.
    pub body: &'a [u8],
}

/// The state of one connection. `T` names a request to its sender.
#[derive(Debug)]
pub struct Connection<T> {
    client_id: String,
    versions: Versions,
    next: i32,
    waiting: VecDeque<Waiting<T>>,
}

impl<T> Connection<T> {
    /// A connection to a broker that serves `versions`.
    #[must_use]
    pub const fn new(client_id: String, versions: Versions) -> Self {
        Self { client_id, versions, next: 1, waiting: VecDeque::new() }
    }

    /// What the broker serves.
    #[must_use]
    pub const fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Appends the length bytes and the header of a request to `out`, and expects its answer until `deadline`. The caller
    /// appends the body and ends the frame begun at the position that is returned (`protocol::frame::end_frame`).
    pub fn begin(&mut self, key: ApiKey, version: i16, token: T, deadline: Mono, out: &mut Vec<u8>) -> usize {
        let correlation = self.next;
        self.waiting.push_back(Waiting { correlation, key, version, deadline, token });
        self.begin_unanswered(key, version, out)
    }

    /// As [`Connection::begin`] for a request that gets no answer (Produce with acks=0).
    pub fn begin_unanswered(&mut self, key: ApiKey, version: i16, out: &mut Vec<u8>) -> usize {
        let correlation = self.next;
        self.next = self.next.wrapping_add(1) & i32::MAX;
        let at = begin_frame(out);
        put_request_header(out, key, version, correlation, Some(&self.client_id));
        at
    }

    /// Takes an answer (without its length bytes).
    ///
    /// # Errors
    /// [`Error::Unexpected`] for an answer to nothing, or out of order: the connection is of no use any more.
    pub fn answer<'a>(&mut self, frame: &'a [u8]) -> Result<Answered<'a, T>> {
        let Some(waiting) = self.waiting.front() else {
            return Err(Error::Unexpected { api: "nothing", reason: "an answer without a request".to_owned() });
        };
        let api = waiting.key.info().name;
        let (correlation, body) =
            parse_response(frame, waiting.key, waiting.version).map_err(|source| Error::Malformed { api, source })?;
        if correlation != waiting.correlation {
            let reason = format!("correlation id {correlation}, expected {}", waiting.correlation);
            return Err(Error::Unexpected { api, reason });
        }
        let waiting = self.waiting.pop_front().expect("it was just looked at");
        Ok(Answered { token: waiting.token, key: waiting.key, version: waiting.version, body })
    }

    /// The earliest deadline of the requests in flight.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        // Requests of different patience share a connection: not only the first one's counts.
        self.waiting.iter().map(|waiting| waiting.deadline).min()
    }

    /// How many requests are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// The connection is gone: what was asked and will not be answered, oldest first.
    pub fn abandon(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.token)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn connection() -> Connection<u8> {
        Connection::new("c".to_owned(), Versions::new(vec![(3, 0, 12), (1, 4, 99), (0, 90, 99)]))
    }

    #[test]
    fn the_highest_common_version_is_spoken() {
        let connection = connection();
        assert_eq!(connection.versions().pick(ApiKey::Metadata).unwrap(), 12);
        assert_eq!(connection.versions().pick(ApiKey::Fetch).unwrap(), crate::wire::spoken(ApiKey::Fetch).1);
        let error = connection.versions().pick(ApiKey::Produce).unwrap_err();
        assert!(error.to_string().contains("it serves 90 to 99"), "{error}");
        assert!(connection.versions().pick(ApiKey::Heartbeat).unwrap_err().to_string().contains("it serves none"));
    }

    #[test]
    fn answers_belong_to_requests_in_order() {
        let mut connection = connection();
        let mut out = Vec::new();
        connection.begin(ApiKey::Metadata, 1, 10, Mono(50), &mut out);
        connection.begin(ApiKey::Metadata, 9, 11, Mono(40), &mut out);
        assert_eq!(connection.deadline(), Some(Mono(40)));
        let first = connection.answer(&[0, 0, 0, 1, 0xaa]).unwrap();
        assert_eq!((first.token, first.version, first.body), (10, 1, &[0xaa][..]));
        // Version 9 is flexible: its header ends with tagged fields.
        let second = connection.answer(&[0, 0, 0, 2, 0, 0xbb]).unwrap();
        assert_eq!((second.token, second.body), (11, &[0xbb][..]));
        assert!(matches!(connection.answer(&[0, 0, 0, 3]), Err(Error::Unexpected { .. })));
    }

    #[test]
    fn an_answer_out_of_order_is_an_error_and_nothing_is_forgotten() {
        let mut connection = connection();
        let mut out = Vec::new();
        connection.begin(ApiKey::Metadata, 1, 10, Mono(0), &mut out);
        assert!(connection.answer(&[0, 0, 0, 7]).is_err());
        assert!(connection.answer(&[0, 0]).is_err());
        assert_eq!(connection.abandon().collect::<Vec<_>>(), [10]);
    }

    #[test]
    fn a_broker_that_does_not_know_the_handshake_is_asked_in_version_0() {
        let old = [0, 0, 0, 0, 0, 35, 0, 0, 0, 0];
        assert_eq!(parse_handshake(&old, HANDSHAKE_VERSION).unwrap(), None);
        let v0 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 3, 0, 0, 0, 9];
        assert_eq!(parse_handshake(&v0, 0).unwrap(), Some(Versions::new(vec![(3, 0, 9)])));
        let v3 = [0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0];
        assert_eq!(parse_handshake(&v3, HANDSHAKE_VERSION).unwrap(), Some(Versions::new(vec![(3, 0, 9)])));
        assert!(parse_handshake(&[0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff], 0).is_err(), "a count bomb");
    }
}
