//! Produce before version 3: offered only because clients of old look for it (KAFKA-18659), and refused by name.
//!
//! Kafka's brokers before 4.0 wrote the answer in this shape: v0 partition, error, base offset; v1 adds the throttle time
//! at the end; v2 adds the append time to each partition.

use alloc::vec::Vec;

use base::{ConnId, Now};
use protocol::api::ApiKey;
use protocol::error::ErrorCode;
use protocol::frame::{begin_frame, end_frame};
use protocol::wire::{DecodeError, Reader, put_count, put_string};

use crate::conn::{Answer, State};
use crate::ports::{Network as _, Ports};
use crate::shard::Shard;

/// The whole answer, and whether the client waits for one.
fn refuse(frame: &[u8]) -> Result<(Vec<u8>, bool), DecodeError> {
    let mut reader = Reader::new(frame);
    let (_key, version, correlation) = (reader.i16()?, reader.i16()?, reader.i32()?);
    let _client_id = reader.nullable_string(false)?;
    let (acks, _timeout_ms) = (reader.i16()?, reader.i32()?);
    let mut out = Vec::new();
    let at = begin_frame(&mut out);
    out.extend_from_slice(&correlation.to_be_bytes());
    // A topic has two bytes of name and four of count at least, a partition four of index and four of length.
    let topics = reader.count(false, 6)?;
    put_count(&mut out, Some(topics), false);
    for _ in 0..topics {
        put_string(&mut out, Some(reader.string(false)?), false);
        let partitions = reader.count(false, 8)?;
        put_count(&mut out, Some(partitions), false);
        for _ in 0..partitions {
            out.extend_from_slice(&reader.i32()?.to_be_bytes());
            let _records = reader.nullable_bytes(false)?;
            out.extend_from_slice(&ErrorCode::UNSUPPORTED_VERSION.0.to_be_bytes());
            out.extend_from_slice(&(-1i64).to_be_bytes());
            if version >= 2 {
                out.extend_from_slice(&(-1i64).to_be_bytes());
            }
        }
    }
    if version >= 1 {
        out.extend_from_slice(&0i32.to_be_bytes());
    }
    end_frame(&mut out, at, 0);
    Ok((out, acks != 0))
}

impl<P: Ports> Shard<P> {
    /// Takes in a Produce request of version 0, 1 or 2. `None`: close the connection.
    pub(crate) fn take_old_produce(&mut self, now: Now, conn: ConnId, len: usize) -> Option<()> {
        let frame = self.backends.network.readable(conn).get(4..4 + len)?;
        let (answer, waits) = refuse(frame).ok()?;
        if !waits {
            // acks=0: nothing can be said, and Kafka closes.
            return None;
        }
        let key = self.push_request(now, conn, ApiKey::Produce, len, State::Control);
        self.backends.network.consume(conn, 4 + len);
        self.answer(now, conn, key.sequence, Answer::Whole(answer), true);
        Some(())
    }
}
