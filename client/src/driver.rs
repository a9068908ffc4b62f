//! The drivers: blocking TCP and threads around the machines.
//!
//! A connection has one thread that only reads frames and hands them over; requests are written by whoever owns the
//! connections. [`Producer`] runs its machine in a thread of its own; [`Consumer`] and [`Client`] run in their caller's.

mod admin;
mod consumer;
mod link;
mod producer;

pub use admin::{
    Client, ConfigEntry, GroupDescription, GroupEpochs, GroupMember, ListedGroup, NewTopic, OffsetSpec, TopicOffsets,
};
pub use consumer::{Consumer, ConsumerConfig, Record};
pub use producer::{Producer, ProducerConfig, Report, Topic};

use base::{Checksums, Mono, WallMs};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

/// What every kind of client needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Brokers to ask first: (host, port).
    pub bootstrap: Vec<(String, u16)>,
    /// What the client calls itself.
    pub client_id: String,
    /// How long a connection may take to come up.
    pub connect_timeout: Duration,
    /// How long a request may take to be answered.
    pub request_timeout: Duration,
    /// How long an administrative call is tried again.
    pub call_timeout: Duration,
    /// A longer response is an error: the bytes that one connection can make this process hold.
    pub response_bytes_max: usize,
}

impl Settings {
    /// Defaults, and `bootstrap` as users write it: `host:port` separated by commas; `[::1]:9092` for IPv6.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the part that is no address.
    pub fn new(bootstrap: &str) -> Result<Self> {
        let addresses = bootstrap.split(',').map(str::trim).filter(|text| !text.is_empty());
        let bootstrap = addresses.map(parse_address).collect::<Result<Vec<_>>>()?;
        if bootstrap.is_empty() {
            return Err(Error::Invalid("no broker address given".to_owned()));
        }
        Ok(Self {
            bootstrap,
            client_id: "barelog".to_owned(),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(30),
            response_bytes_max: 256 << 20,
        })
    }

    fn bootstrap_text(&self) -> String {
        let texts: Vec<String> = self.bootstrap.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        texts.join(",")
    }
}

fn parse_address(text: &str) -> Result<(String, u16)> {
    let invalid = || Error::Invalid(format!("'{text}' is no address: expected host:port, as in 127.0.0.1:9092"));
    let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if host.is_empty() || (bracketed.is_none() && host.contains(':')) {
        return Err(invalid());
    }
    Ok((bracketed.unwrap_or(host).to_owned(), port.parse().map_err(|_| invalid())?))
}

/// The clocks of a driver.
#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
}

impl Clock {
    fn new() -> Self {
        Self { start: Instant::now() }
    }

    fn now(self) -> Mono {
        Mono(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn wall() -> WallMs {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallMs(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The time from `now` to `at`.
fn until(now: Mono, at: Mono) -> Duration {
    Duration::from_nanos(at.since(now))
}

/// The checksums of record batches on this machine.
#[must_use]
pub fn checksums() -> Checksums {
    Checksums { crc32c: crc32c_fast, ..Checksums::portable() }
}

fn crc32c_fast(state: u32, bytes: &[u8]) -> u32 {
    if state == 0 {
        // Only 32 bits come out of a 32-bit checksum.
        return u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)).unwrap_or(0);
    }
    (Checksums::portable().crc32c)(state, bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        let settings = Settings::new("a:1, [::1]:9092 ,10.0.0.1:2").unwrap();
        assert_eq!(settings.bootstrap, [("a".into(), 1), ("::1".into(), 9092), ("10.0.0.1".into(), 2)]);
        for bad in ["", "a", ":1", "a:", "a:99999", "::1:9092", "a:b"] {
            assert!(Settings::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_fast_checksum_is_crc_32c() {
        assert_eq!(crc32c_fast(0, b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_fast(crc32c_fast(0, b"1234"), b"56789"), 0xe306_9283);
    }
}
