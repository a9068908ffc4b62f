//! Requests and responses on a connection: four length bytes, a header, a body. The length bytes are not part of what is
//! read or written here unless said.

use alloc::vec::Vec;

use crate::api::{Api, ApiKey};
use crate::wire::{DecodeError, Reader, put_string};

/// Bytes of the length in front of every request and response.
pub const LENGTH_BYTES: usize = 4;

/// Header of a request, v1 or v2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The API, known or not.
    pub key: i16,
    /// The version, served or not.
    pub version: i16,
    /// Comes back in the response.
    pub correlation: i32,
    /// What the client calls itself. `None` is null, and what a header that could not be read to its end has.
    pub client_id: Option<&'a str>,
}

/// A request whose header is read.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Served: `body` begins behind the header.
    Served {
        /// What is known of the API.
        api: &'static Api,
        /// Its header.
        header: RequestHeader<'a>,
        /// The body.
        body: &'a [u8],
    },
    /// An API or a version that is not served. ApiVersions must be answered with a v0 body and UNSUPPORTED_VERSION;
    /// what Kafka does with all others is to close the connection.
    Unserved {
        /// The API, where it is known.
        api: Option<&'static Api>,
        /// Its header, without the client id: where that lies depends on the version.
        header: RequestHeader<'a>,
    },
}

impl<'a> Request<'a> {
    /// Reads the header of a request (without its length bytes).
    ///
    /// # Errors
    /// [`DecodeError`] when the header is malformed: the connection is to be closed.
    pub fn parse(frame: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(frame);
        let (key, version, correlation) = (reader.i16()?, reader.i16()?, reader.i32()?);
        let mut header = RequestHeader { key, version, correlation, client_id: None };
        let api = ApiKey::of(key).map(ApiKey::info);
        let Some(api) = api.filter(|api| api.serves(version)) else {
            return Ok(Self::Unserved { api, header });
        };
        // Never compact, so that a broker can read it in the header of any version.
        header.client_id = reader.nullable_string(false)?;
        if api.is_flexible(version) {
            reader.skip_tags()?;
        }
        Ok(Self::Served { api, header, body: reader.rest() })
    }

    /// Its header.
    #[must_use]
    pub const fn header(&self) -> &RequestHeader<'a> {
        match self {
            Self::Served { header, .. } | Self::Unserved { header, .. } => header,
        }
    }
}

/// Appends the header of a request (a client's side). The length bytes are not written.
pub fn put_request_header(out: &mut Vec<u8>, key: ApiKey, version: i16, correlation: i32, client_id: Option<&str>) {
    out.extend_from_slice(&(key as i16).to_be_bytes());
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&correlation.to_be_bytes());
    put_string(out, client_id, false);
    if key.info().is_flexible(version) {
        out.push(0);
    }
}

/// Whether the response's header ends with a section of tagged fields (header v1). ApiVersions' never does, so that a
/// client can read it before it knows the broker (KIP-511).
#[must_use]
pub fn response_header_is_flexible(key: ApiKey, version: i16) -> bool {
    key != ApiKey::ApiVersions && key.info().is_flexible(version)
}

/// Appends the header of a response. The length bytes are not written.
pub fn put_response_header(out: &mut Vec<u8>, key: ApiKey, version: i16, correlation: i32) {
    out.extend_from_slice(&correlation.to_be_bytes());
    if response_header_is_flexible(key, version) {
        out.push(0);
    }
}

/// Reads the header of a response (a client's side): the correlation id and the body.
///
/// # Errors
/// [`DecodeError`] when it is malformed.
pub fn parse_response(frame: &[u8], key: ApiKey, version: i16) -> Result<(i32, &[u8]), DecodeError> {
    let mut reader = Reader::new(frame);
    let correlation = reader.i32()?;
    if response_header_is_flexible(key, version) {
        reader.skip_tags()?;
    }
    Ok((correlation, reader.rest()))
}

/// Reserves the length bytes of a frame at the end of `out`; give the position to [`end_frame`].
pub fn begin_frame(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    at
}

/// Writes the length of the frame begun at `at`, where `elsewhere` bytes of it are not in `out` (chained records).
///
/// # Panics
/// When the frame has 2 GiB or more, or `at` is not from [`begin_frame`].
pub fn end_frame(out: &mut [u8], at: usize, elsewhere: usize) {
    let len = out.len() - at - LENGTH_BYTES + elsewhere;
    let len = i32::try_from(len).expect("a frame has less than 2 GiB");
    out.get_mut(at..at + LENGTH_BYTES).expect("begin_frame made room").copy_from_slice(&len.to_be_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the failure")]

    use super::*;

    fn request(key: ApiKey, version: i16) -> Vec<u8> {
        let mut out = Vec::new();
        put_request_header(&mut out, key, version, 77, Some("me"));
        out.extend_from_slice(b"body");
        out
    }

    #[test]
    fn every_served_header_comes_back() {
        for api in crate::api::APIS {
            for version in api.served_min..=api.max {
                let bytes = request(api.key, version);
                let Request::Served { api: read, header, body } = Request::parse(&bytes).unwrap() else {
                    panic!("{} {version}", api.name);
                };
                assert_eq!((read, body), (api, &b"body"[..]));
                assert_eq!((header.version, header.correlation, header.client_id), (version, 77, Some("me")));
                for len in 0..bytes.len() - 4 {
                    assert!(Request::parse(&bytes[..len]).is_err(), "{} {version} {len}", api.name);
                }
            }
        }
    }

    #[test]
    fn tagged_fields_of_a_header_are_skipped() {
        let mut bytes = request(ApiKey::Produce, 9);
        bytes.truncate(bytes.len() - 5);
        bytes.extend_from_slice(&[1, 5, 3, 9, 9, 9, b'x']);
        let Request::Served { body, .. } = Request::parse(&bytes).unwrap() else { panic!("not served") };
        assert_eq!(body, b"x");
    }

    #[test]
    fn unknown_keys_and_versions_keep_their_correlation() {
        for (key, version, known) in [(18, 99, true), (0, 2, true), (999, 0, false), (18, -1, true)] {
            let mut bytes = Vec::new();
            bytes.extend_from_slice(&i16::to_be_bytes(key));
            bytes.extend_from_slice(&i16::to_be_bytes(version));
            bytes.extend_from_slice(&5i32.to_be_bytes());
            let Request::Unserved { api, header } = Request::parse(&bytes).unwrap() else { panic!("{key} {version}") };
            assert_eq!((api.is_some(), header.correlation), (known, 5));
        }
    }

    #[test]
    fn the_response_header_of_api_versions_has_no_tags() {
        let mut out = Vec::new();
        put_response_header(&mut out, ApiKey::ApiVersions, 4, 1);
        assert_eq!(out, [0, 0, 0, 1]);
        out.clear();
        put_response_header(&mut out, ApiKey::Produce, 9, 1);
        assert_eq!(out, [0, 0, 0, 1, 0]);
        assert_eq!(parse_response(&out, ApiKey::Produce, 9), Ok((1, &[][..])));
    }

    #[test]
    fn a_frame_counts_bytes_that_lie_elsewhere() {
        let mut out = alloc::vec![9];
        let at = begin_frame(&mut out);
        out.extend_from_slice(b"abc");
        end_frame(&mut out, at, 10);
        assert_eq!(out, [9, 0, 0, 0, 13, b'a', b'b', b'c']);
    }
}
