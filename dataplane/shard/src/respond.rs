//! The answer to a Fetch: small batches gathered by copy, large ones chained from where they lie.

use alloc::vec::Vec;

use base::{Epoch, Offset};
use protocol::api::ApiKey;
use protocol::error::ErrorCode;
use protocol::fetch::{FetchOutcome, FetchWriter};
use protocol::frame::{begin_frame, put_response_header};

use crate::errors::of_refusal;
use crate::fetch::{Fetch, FetchSlot};
use crate::ports::Piece;
use crate::session::Session;

/// An encoded answer.
pub(crate) struct Answered<S> {
    pub(crate) pieces: Vec<Piece<S>>,
    pub(crate) record_bytes: u64,
    /// Some partition has an error.
    pub(crate) failed: bool,
}

/// What is told of one slot: how many of its slices, and how long they are.
struct Told {
    slot: usize,
    topic: u32,
    slices: usize,
    bytes: usize,
}

/// Writes the answer. Of all partitions together at most about `max_bytes` are told, in the order of the slots; in a
/// session only those with news.
pub(crate) fn encode<S: AsRef<[u8]>>(
    fetch: &mut Fetch<S>,
    session: Option<&mut Session>,
    gather_below: usize,
) -> Answered<S> {
    let (told, failed) = choose(fetch, session);
    let told = &told[..];
    let mut out = Vec::with_capacity(64 + told.len() * 80);
    let begin = begin_frame(&mut out);
    put_response_header(&mut out, ApiKey::Fetch, fetch.version, fetch.correlation);
    let topics = told.chunk_by(|a, b| a.topic == b.topic).count();
    let mut writer = FetchWriter::begin(&mut out, fetch.version, 0, ErrorCode::NONE, fetch.session, topics);
    let mut pieces = Vec::new();
    let mut record_bytes = 0;
    for group in told.chunk_by(|a, b| a.topic == b.topic) {
        writer.topic(&mut out, fetch.topics[group[0].topic as usize].wire(), group.len());
        for told in group {
            let outcome = outcome(fetch, &fetch.slots[told.slot]);
            writer.partition(&mut out, &outcome, told.bytes);
            record_bytes += told.bytes as u64;
            let Ok(at) = fetch.slots[told.slot].source else { continue };
            for piece in &mut fetch.slices_mut(at)[..told.slices] {
                if piece.len() < gather_below {
                    out.extend_from_slice(piece.as_ref());
                    continue;
                }
                if !out.is_empty() {
                    pieces.push(Piece::Owned(core::mem::take(&mut out)));
                }
                pieces.push(core::mem::replace(piece, Piece::Owned(Vec::new())));
            }
        }
    }
    writer.end(&mut out, &[]);
    if !out.is_empty() {
        pieces.push(Piece::Owned(out));
    }
    set_length(&mut pieces, begin);
    Answered { pieces, record_bytes, failed }
}

/// The length of the whole goes into the first piece, where its place is.
fn set_length<S: AsRef<[u8]>>(pieces: &mut [Piece<S>], at: usize) {
    let len: usize = pieces.iter().map(Piece::len).sum();
    // A response is bounded by `fetch_bytes_max` and one batch, and by what the request names.
    let len = i32::try_from(len - 4).expect("a response is smaller than 2 GiB");
    if let Some(Piece::Owned(first)) = pieces.first_mut() {
        first[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }
}

fn outcome<S>(fetch: &Fetch<S>, slot: &FetchSlot) -> FetchOutcome<'static> {
    let result = match slot.source {
        Err(error) => Err(error),
        // An owner that never answered: the time is up, and nothing is known.
        Ok(at) => fetch.result(at).ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER),
    };
    let result = match result {
        Err(error) => return FetchOutcome::failed(slot.partition, error),
        Ok(result) => result,
    };
    let ends = match slot.ends {
        Some(at) => match fetch.result(at) {
            Some(ends) => ends,
            None => return FetchOutcome::failed(slot.partition, ErrorCode::NOT_LEADER_OR_FOLLOWER),
        },
        None => result,
    };
    // What the open home says counts first: it knows where the log starts.
    if let Some(refusal) = ends.refusal.or(result.refusal) {
        // Null, as Kafka's leaders have it; a partition that is not found has an empty list.
        return FetchOutcome { aborted: None, ..FetchOutcome::failed(slot.partition, of_refusal(refusal)) };
    }
    FetchOutcome {
        index: slot.partition,
        error: ErrorCode::NONE,
        high_watermark: ends.high_watermark.0,
        // No transactions: everything committed is stable.
        last_stable_offset: ends.high_watermark.0,
        log_start_offset: ends.log_start.0,
        aborted: if fetch.read_committed { Some(&[]) } else { None },
        preferred_read_replica: -1,
        diverging_epoch: ends.diverging.map(|(Epoch(epoch), Offset(end))| (epoch, end)),
        leader: None,
    }
}

fn choose<S: AsRef<[u8]>>(fetch: &Fetch<S>, mut session: Option<&mut Session>) -> (Vec<Told>, bool) {
    let mut told = Vec::with_capacity(if fetch.incremental { 16 } else { fetch.slots.len() });
    let mut gave = Vec::new();
    let (mut total, mut failed) = (0, false);
    for (at, slot) in fetch.slots.iter().enumerate() {
        let outcome = outcome(fetch, slot);
        let (mut taken, mut bytes) = (0, 0);
        // Of a refused partition no records are told, though another home may have found some.
        let refused = outcome.error != ErrorCode::NONE || outcome.diverging_epoch.is_some();
        for piece in slot.source.ok().filter(|_| !refused).map_or(&[][..], |at| fetch.slices(at)) {
            let len = piece.len();
            // Each owner was given the whole room; what they found together may be more. A first batch always goes.
            if total > 0 && total + len > fetch.max_bytes as usize {
                break;
            }
            taken += 1;
            bytes += len;
            total += len;
        }
        let error = outcome.error != ErrorCode::NONE;
        failed |= error;
        let mut tell = true;
        if let (Some(session), Some(entry)) = (session.as_deref_mut(), slot.entry) {
            let ends = (Offset(outcome.high_watermark), Offset(outcome.log_start_offset));
            let news = session.must_tell(entry, error || outcome.diverging_epoch.is_some(), bytes > 0, ends);
            tell = news || !fetch.incremental;
            if bytes > 0 {
                gave.push(entry);
            }
        }
        if tell {
            told.push(Told { slot: at, topic: slot.topic, slices: taken, bytes });
        }
    }
    if let Some(session) = session {
        session.rotate(&gave);
    }
    (told, failed)
}
