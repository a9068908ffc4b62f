//! Records out of the batches of an answer, one by one and without a copy.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use protocol::batch::{BatchView, Codec, Headers, Records};

use crate::codec::decompress;
use crate::consumer::{Limits, Useful};
use crate::driver::checksums;
use crate::error::{Error, Result};

/// A record, borrowed from the answer it came in.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The topic.
    pub topic: &'a Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value, or null.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: Headers<'a>,
}

/// Records of one partition in an answer.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) useful: Useful,
    /// The batches that are left, in the chunk's frame.
    pub(super) bytes: Range<usize>,
    /// Records below are not given.
    pub(super) next: i64,
}

/// How the records of a piece are read.
pub(super) struct Reading<'a> {
    pub(super) topic: &'a Arc<str>,
    pub(super) partition: i32,
    pub(super) check_crc: bool,
    pub(super) limits: &'a Limits,
}

impl Reading<'_> {
    /// Gives records until the piece's end or a break; `piece` then says what is left.
    pub(super) fn give(
        &self,
        frame: &[u8],
        piece: &mut Piece,
        scratch: &mut Vec<u8>,
        take: &mut impl FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> (usize, Result<ControlFlow<()>>) {
        let mut count = 0;
        loop {
            let bytes = &frame[piece.bytes.clone()];
            // What does not parse as a batch at the end is one that was cut off.
            let Ok((batch, rest)) = BatchView::first(bytes) else { return (count, Ok(ControlFlow::Continue(()))) };
            if batch.last_offset() >= piece.next && !batch.is_control() {
                match self.batch(&batch, &mut piece.next, scratch, take, &mut count) {
                    Ok(ControlFlow::Continue(())) => {}
                    other => return (count, other),
                }
            }
            piece.next = piece.next.max(batch.last_offset().saturating_add(1));
            piece.bytes.start = piece.bytes.end - rest.len();
        }
    }

    fn batch(
        &self,
        batch: &BatchView<'_>,
        next: &mut i64,
        scratch: &mut Vec<u8>,
        take: &mut impl FnMut(Record<'_>) -> ControlFlow<()>,
        count: &mut usize,
    ) -> Result<ControlFlow<()>> {
        let base = batch.base_offset();
        let damaged =
            |source| Error::Record { topic: self.topic.to_string(), partition: self.partition, offset: base, source };
        if self.check_crc {
            batch.verify_crc(&checksums()).map_err(damaged)?;
        }
        let payload = if batch.codec() == Codec::None {
            batch.payload()
        } else {
            scratch.clear();
            decompress(batch.codec(), batch.payload(), self.limits.batch_bytes_max, scratch).map_err(|source| {
                Error::Compression { topic: self.topic.to_string(), partition: self.partition, offset: base, source }
            })?;
            scratch
        };
        for record in Records::new(payload, batch.count()) {
            let record = record.map_err(damaged)?;
            let offset = base.wrapping_add(record.offset_delta.into());
            if offset < *next {
                continue;
            }
            let timestamp = if batch.is_append_time() {
                batch.max_timestamp()
            } else {
                batch.base_timestamp().wrapping_add(record.timestamp_delta)
            };
            *next = offset.saturating_add(1);
            *count += 1;
            let flow = take(Record {
                topic: self.topic,
                partition: self.partition,
                offset,
                timestamp,
                key: record.key,
                value: record.value,
                headers: record.headers,
            });
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::consumer::{Effect, Machine, Slot, Start};
    use base::Mono;
    use protocol::batch::{BatchBuilder, Header, Producer, stamp};
    use protocol::error::ErrorCode;

    /// A partition's part of an answer: `batches` of 100 records each.
    fn frame(batches: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for batch in 0..batches {
            let mut builder = BatchBuilder::new();
            for record in 0..100i64 {
                let headers = [Header { key: b"h", value: None }];
                builder.append(record, Some(&record.to_be_bytes()), Some(&[7; 1024]), &headers);
            }
            let mut one = builder.finish(Producer::NONE, &checksums()).to_vec();
            stamp(&mut one, base::Offset(batch * 100), base::Epoch(0)).unwrap();
            bytes.extend(one);
        }
        bytes
    }

    fn piece(bytes: usize, from: i64) -> (Machine, Piece) {
        let mut machine = Machine::new(Limits::default());
        machine.assign(&[("t".into(), 0, Start::Offset(from))]);
        machine.set_leader(Slot(0), Some(1), 0);
        let mut out = Vec::new();
        machine.poll(Mono(0), 0, &mut out);
        let Some(Effect::Fetch(fetch)) = out.pop() else { panic!("{out:?}") };
        let records = frame(1);
        let part = crate::consumer::Fetched {
            topic: "t",
            partition: 0,
            code: ErrorCode::NONE,
            high_watermark: 0,
            records: &records,
        };
        let useful = machine.fetched(Mono(0), fetch.token, &[part], &mut out).pop().unwrap();
        (machine, Piece { useful, bytes: 0..bytes, next: from })
    }

    #[test]
    fn reading_allocates_nothing_per_record() {
        let frame = frame(50);
        let (machine, mut piece) = piece(frame.len(), 5);
        let (topic, partition) = machine.name(Slot(0));
        let reading = Reading { topic, partition, check_crc: true, limits: machine.limits() };
        let mut scratch = Vec::new();
        let (mut count, mut next) = (0, 5);
        let info = allocation_counter::measure(|| {
            let (given, flow) = reading.give(&frame, &mut piece, &mut scratch, &mut |record| {
                assert_eq!(record.offset, next);
                next += 1;
                ControlFlow::Continue(())
            });
            assert!(flow.is_ok());
            count = given;
        });
        assert_eq!(count, 4995);
        assert_eq!(info.count_total, 0);
    }

    #[test]
    fn a_break_resumes_behind_the_record() {
        let frame = frame(2);
        let (machine, mut piece) = piece(frame.len(), 0);
        let (topic, partition) = machine.name(Slot(0));
        let reading = Reading { topic, partition, check_crc: true, limits: machine.limits() };
        let mut offsets = Vec::new();
        for stop in [0, 1, 99, 100, 198] {
            let (_, flow) = reading.give(&frame, &mut piece, &mut Vec::new(), &mut |record| {
                offsets.push(record.offset);
                if record.offset == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert!(flow.unwrap().is_break());
        }
        let (rest, _) = reading.give(&frame, &mut piece, &mut Vec::new(), &mut |_| ControlFlow::Continue(()));
        assert_eq!(rest, 1);
        assert_eq!(offsets, (0..=198).collect::<Vec<i64>>());
    }
}
