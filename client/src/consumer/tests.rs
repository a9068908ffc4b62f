//! The consumer against scripted answers.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use base::Checksums;
use protocol::batch::{BatchBuilder, Producer, stamp};

const BROKER: i32 = 3;

fn machine(limits: Limits, starts: &[Start]) -> Machine {
    let mut machine = Machine::new(limits);
    let topic: Arc<str> = "t".into();
    let parts: Vec<_> = (0i32..).zip(starts).map(|(p, start)| (Arc::clone(&topic), p, *start)).collect();
    machine.assign(&parts);
    for slot in machine.slots() {
        machine.set_leader(slot, Some(BROKER), 1);
    }
    machine
}

fn poll(machine: &mut Machine, now: Mono) -> Vec<Effect> {
    let mut out = Vec::new();
    machine.poll(now, 0, &mut out);
    out
}

fn fetch(effects: &[Effect]) -> Fetch {
    let fetches: Vec<&Fetch> =
        effects.iter().filter_map(|e| if let Effect::Fetch(fetch) = e { Some(fetch) } else { None }).collect();
    assert_eq!(fetches.len(), 1, "{effects:?}");
    fetches[0].clone()
}

fn batch(base: i64, count: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for _ in 0..count {
        builder.append(0, None, Some(b"x"), &[]);
    }
    let mut bytes = builder.finish(Producer::NONE, &Checksums::portable()).to_vec();
    stamp(&mut bytes, base::Offset(base), base::Epoch(1)).unwrap();
    bytes
}

fn fetched<'a>(partition: i32, code: ErrorCode, records: &'a [u8]) -> Fetched<'a> {
    Fetched { topic: "t", partition, code, high_watermark: 100, records }
}

const T0: Mono = Mono(0);

#[test]
fn positions_follow_whole_batches_and_a_cut_one_is_left() {
    let mut machine = machine(Limits::default(), &[Start::Offset(5)]);
    let first = fetch(&poll(&mut machine, T0));
    assert_eq!(first.parts[0].offset, 5);
    assert_eq!(poll(&mut machine, T0), [], "one fetch per broker");
    let mut records = batch(3, 4);
    records.extend(batch(7, 2));
    records.extend(&batch(9, 1)[..50]);
    let mut out = Vec::new();
    let useful = machine.fetched(T0, first.token, &[fetched(0, ErrorCode::NONE, &records)], &mut out);
    assert_eq!(useful.len(), 1);
    assert_eq!((useful[0].slot, useful[0].from), (Slot(0), 5));
    assert_eq!(fetch(&poll(&mut machine, T0)).parts[0].offset, 9);
    assert_eq!(machine.consumed(Slot(0)), Some(5), "fetched is not consumed");
    assert_eq!(machine.high_watermark(Slot(0)), 100);
}

#[test]
fn unknown_starts_are_looked_up() {
    let starts = [Start::Earliest, Start::Latest, Start::Timestamp(77), Start::Offset(1)];
    let mut machine = machine(Limits::default(), &starts);
    let effects = poll(&mut machine, T0);
    let Effect::ListOffsets(list) = &effects[0] else { panic!("{effects:?}") };
    let asked: Vec<i64> = list.parts.iter().map(|part| part.timestamp).collect();
    assert_eq!(asked, [-2, -1, 77]);
    assert_eq!(fetch(&effects).parts.len(), 1, "what is known is fetched meanwhile");
    let answers = [
        (Slot(0), ErrorCode::NONE, 10),
        (Slot(1), ErrorCode::NOT_LEADER_OR_FOLLOWER, -1),
        (Slot(2), ErrorCode::NONE, -1),
    ];
    let mut out = Vec::new();
    machine.listed(T0, list.token, &answers, &mut out);
    assert_eq!(out, [Effect::WantMetadata]);
    assert_eq!(machine.consumed(Slot(0)), Some(10));
    let effects = poll(&mut machine, T0.plus_ms(100));
    let Effect::ListOffsets(list) = &effects[0] else { panic!("{effects:?}") };
    let asked: Vec<(Slot, i64)> = list.parts.iter().map(|part| (part.slot, part.timestamp)).collect();
    assert_eq!(asked, [(Slot(1), -1), (Slot(2), -1)], "no record is that young: the end");
}

#[test]
fn an_offset_out_of_range_does_what_was_asked_for() {
    for (reset, timestamp) in [(Reset::Earliest, -2), (Reset::Latest, -1)] {
        let mut machine = machine(Limits { reset, ..Limits::default() }, &[Start::Offset(5)]);
        let request = fetch(&poll(&mut machine, T0));
        let mut out = Vec::new();
        machine.fetched(T0, request.token, &[fetched(0, ErrorCode::OFFSET_OUT_OF_RANGE, &[])], &mut out);
        let effects = poll(&mut machine, T0);
        assert!(matches!(&effects[..], [Effect::ListOffsets(list)] if list.parts[0].timestamp == timestamp));
    }
    let mut machine = machine(Limits { reset: Reset::Error, ..Limits::default() }, &[Start::Offset(5)]);
    let request = fetch(&poll(&mut machine, T0));
    let mut out = Vec::new();
    machine.fetched(T0, request.token, &[fetched(0, ErrorCode::OFFSET_OUT_OF_RANGE, &[])], &mut out);
    assert_eq!(out, [Effect::Failed { slot: Slot(0), code: ErrorCode::OFFSET_OUT_OF_RANGE }]);
}

#[test]
fn damage_is_told_and_a_seek_behind_it_goes_on() {
    let mut machine = machine(Limits::default(), &[Start::Offset(5)]);
    let request = fetch(&poll(&mut machine, T0));
    let mut out = Vec::new();
    machine.fetched(T0, request.token, &[fetched(0, ErrorCode::CORRUPT_MESSAGE, &[])], &mut out);
    assert_eq!(out, [Effect::Failed { slot: Slot(0), code: ErrorCode::CORRUPT_MESSAGE }]);
    assert_eq!(poll(&mut machine, T0.plus_ms(99)), [], "no busy loop");
    machine.seek(Slot(0), Start::Offset(9));
    assert_eq!(fetch(&poll(&mut machine, T0.plus_ms(99))).parts[0].offset, 9);
}

#[test]
fn a_moved_leader_is_waited_for_without_a_busy_loop() {
    let mut machine = machine(Limits::default(), &[Start::Offset(5)]);
    let request = fetch(&poll(&mut machine, T0));
    let mut out = Vec::new();
    machine.fetched(T0, request.token, &[fetched(0, ErrorCode::NOT_LEADER_OR_FOLLOWER, &[])], &mut out);
    assert_eq!(out, [Effect::WantMetadata]);
    assert_eq!(poll(&mut machine, T0.plus_ms(99)), []);
    assert_eq!(machine.next_deadline(T0), Some(T0.plus_ms(100)));
    machine.set_leader(Slot(0), Some(9), 2);
    let request = fetch(&poll(&mut machine, T0.plus_ms(100)));
    assert_eq!((request.broker, request.parts[0].leader_epoch), (9, 2));
    machine.lost(T0.plus_ms(100), request.token, &mut out);
    assert_eq!(poll(&mut machine, T0.plus_ms(150)), []);
    assert_eq!(fetch(&poll(&mut machine, T0.plus_ms(200))).parts[0].offset, 5);
}

#[test]
fn a_seek_voids_what_is_on_its_way() {
    let mut machine = machine(Limits::default(), &[Start::Offset(0)]);
    let request = fetch(&poll(&mut machine, T0));
    let records = batch(0, 5);
    let mut out = Vec::new();
    let useful = machine.fetched(T0, request.token, &[fetched(0, ErrorCode::NONE, &records)], &mut out);
    let flying = fetch(&poll(&mut machine, T0));
    machine.seek(Slot(0), Start::Offset(50));
    assert!(!machine.is_wanted(&useful[0]));
    let more = batch(5, 5);
    assert_eq!(machine.fetched(T0, flying.token, &[fetched(0, ErrorCode::NONE, &more)], &mut out), []);
    assert_eq!(fetch(&poll(&mut machine, T0)).parts[0].offset, 50);
}

#[test]
fn no_more_is_asked_for_than_memory_allows() {
    let mut machine = machine(Limits::default(), &[Start::Offset(0)]);
    let mut out = Vec::new();
    machine.poll(T0, 2, &mut out);
    assert_eq!(out, []);
    machine.poll(T0, 1, &mut out);
    assert_eq!(out.len(), 1);
}

#[test]
fn every_partition_is_first_in_its_turn() {
    let mut machine = machine(Limits::default(), &[Start::Offset(0); 3]);
    let mut firsts = Vec::new();
    for _ in 0..4 {
        let request = fetch(&poll(&mut machine, T0));
        firsts.push(request.parts[0].slot.0);
        let mut out = Vec::new();
        machine.fetched(T0, request.token, &[], &mut out);
    }
    assert_eq!(firsts, [0, 1, 2, 0]);
}

#[test]
fn a_paused_partition_is_not_fetched() {
    let mut machine = machine(Limits::default(), &[Start::Offset(0), Start::Offset(0)]);
    machine.pause(Slot(0), true);
    assert_eq!(fetch(&poll(&mut machine, T0)).parts.iter().map(|p| p.slot).collect::<Vec<_>>(), [Slot(1)]);
}
