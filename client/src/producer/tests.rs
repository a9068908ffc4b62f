//! The producer against a scripted broker.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use proptest::prelude::*;
use protocol::batch::BatchView;

const BROKER: i32 = 7;

/// A partition as an idempotent broker keeps it: what it stored, and what it answers.
#[derive(Default)]
struct Log {
    stored: Vec<Vec<u8>>,
    identity: Option<(i64, i16)>,
    next_sequence: i32,
    /// The last five batches: (first sequence, count, base offset).
    recent: VecDeque<(i32, i32, i64)>,
}

impl Log {
    /// Stores a batch the way Kafka does.
    fn append(&mut self, bytes: &[u8]) -> (ErrorCode, i64) {
        let batch = BatchView::check(bytes).unwrap();
        batch.verify_crc(&Checksums::portable()).unwrap();
        let who = (batch.producer_id(), batch.producer_epoch());
        if self.identity != Some(who) {
            // As Kafka does it: a producer without state is taken at any sequence, a known one's new epoch begins at 0.
            self.identity = Some(who);
            self.next_sequence = batch.base_sequence();
            self.recent.clear();
        }
        let key = (batch.base_sequence(), batch.count());
        if let Some(known) = self.recent.iter().find(|known| (known.0, known.1) == key) {
            return (ErrorCode::NONE, known.2);
        }
        if batch.base_sequence() != self.next_sequence {
            return (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1);
        }
        let offset = self.stored.len() as i64;
        let mut raw = Vec::new();
        crate::codec::decompress(batch.codec(), batch.payload(), 1 << 24, &mut raw).unwrap();
        for record in protocol::batch::Records::new(&raw, batch.count()) {
            self.stored.push(record.unwrap().value.unwrap().to_vec());
        }
        self.next_sequence += batch.count();
        self.recent.push_back((key.0, key.1, offset));
        if self.recent.len() > 5 {
            self.recent.pop_front();
        }
        (ErrorCode::NONE, offset)
    }
}

struct World {
    machine: Machine,
    now: Mono,
    logs: Vec<Log>,
    sent: VecDeque<Request>,
    delivered: Vec<Delivery>,
    ids: i64,
    wanted_metadata: usize,
}

impl World {
    fn new(limits: Limits, partitions: i32) -> Self {
        let mut machine = Machine::new(limits, Checksums::portable()).unwrap();
        let topic: Arc<str> = "t".into();
        for partition in 0..partitions {
            let slot = machine.add(Arc::clone(&topic), partition);
            machine.set_leader(slot, Some(BROKER));
        }
        let logs = (0..partitions).map(|_| Log::default()).collect();
        Self { machine, now: Mono(0), logs, sent: VecDeque::new(), delivered: Vec::new(), ids: 0, wanted_metadata: 0 }
    }

    fn push(&mut self, slot: u32, value: &[u8]) -> Result<Pushed, Refusal> {
        let record = Record { value: Some(value), ..Record::default() };
        self.machine.push(self.now, WallMs(1), Slot(slot), &record)
    }

    fn handle(&mut self, event: &Event<'_>) {
        let mut out = Vec::new();
        self.machine.handle(self.now, event, &mut out);
        self.take(out);
    }

    fn poll(&mut self) {
        let mut out = Vec::new();
        self.machine.poll(self.now, &mut out);
        self.take(out);
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(request) => self.sent.push_back(request),
                Effect::WantProducerId => {
                    self.ids += 1;
                    let id = self.ids;
                    self.handle(&Event::ProducerId { id, epoch: 0 });
                    self.poll();
                }
                Effect::WantMetadata => self.wanted_metadata += 1,
                Effect::Delivered(delivery) => self.delivered.push(delivery),
            }
        }
    }

    /// Stores the oldest request and gives its answers.
    fn store(&mut self, request: &Request) -> Vec<Answer> {
        let mut answers = Vec::new();
        for part in &request.parts {
            let (code, base_offset) = self.logs[part.slot.0 as usize].append(&part.batch);
            answers.push(Answer { slot: part.slot, code, base_offset });
        }
        answers
    }

    fn answer(&mut self) {
        let request = self.sent.pop_front().unwrap();
        let answers = self.store(&request);
        let token = request.token;
        // As a sender does it: its hold on the batches ends with the write, so that their memory is used again.
        drop(request);
        self.handle(&Event::Answered { token, answers: &answers });
    }

    fn refuse(&mut self, code: ErrorCode) {
        let request = self.sent.pop_front().unwrap();
        let answers: Vec<Answer> =
            request.parts.iter().map(|part| Answer { slot: part.slot, code, base_offset: -1 }).collect();
        self.handle(&Event::Answered { token: request.token, answers: &answers });
    }

    fn wait(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        self.poll();
    }

    fn settle(&mut self) {
        self.machine.flush();
        for _ in 0..10_000 {
            self.poll();
            if self.machine.outstanding() == 0 {
                return;
            }
            if self.sent.is_empty() {
                self.wait(50);
            } else {
                self.answer();
            }
        }
        panic!("does not come to an end: {:?}", self.machine);
    }
}

/// With a first record stored in every partition, so that the broker knows the producer.
fn established(limits: Limits, partitions: i32) -> World {
    let mut world = World::new(limits, partitions);
    for slot in 0..partitions.unsigned_abs() {
        world.push(slot, b"first").unwrap();
    }
    world.settle();
    world.delivered.clear();
    world
}

fn small() -> Limits {
    Limits { batch_bytes_max: 200, ..Limits::default() }
}

#[test]
fn a_batch_waits_for_its_linger_or_until_it_is_full() {
    let mut world = established(Limits { linger_ms: 10, ..small() }, 1);
    world.poll();
    assert_eq!(world.push(0, b"one"), Ok(Pushed::Began));
    assert_eq!(world.push(0, b"two"), Ok(Pushed::Joined));
    world.wait(9);
    assert!(world.sent.is_empty());
    assert_eq!(world.machine.next_deadline(world.now), Some(world.now.plus_ms(1)));
    world.wait(1);
    assert_eq!(world.sent.len(), 1);
    assert_eq!(world.push(0, &[0; 100]), Ok(Pushed::Began));
    assert_eq!(world.push(0, &[0; 100]), Ok(Pushed::Filled), "the second does not fit");
    world.poll();
    assert_eq!(world.sent.len(), 2);
}

#[test]
fn at_most_five_requests_fly_and_they_carry_rising_sequences() {
    let mut world = World::new(small(), 1);
    for i in 0..20u8 {
        world.push(0, &[i; 150]).unwrap();
    }
    world.wait(100);
    assert_eq!(world.sent.len(), 1, "until the broker knows the producer");
    world.answer();
    world.poll();
    assert_eq!(world.sent.len(), 5);
    let sequences: Vec<i32> =
        world.sent.iter().map(|r| BatchView::check(&r.parts[0].batch).unwrap().base_sequence()).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5]);
    world.answer();
    world.poll();
    assert_eq!(world.sent.len(), 5);
}

#[test]
fn the_first_batch_of_a_partition_is_not_overtaken() {
    let mut world = World::new(small(), 1);
    for i in 0..4u8 {
        world.push(0, &[i; 150]).unwrap();
    }
    world.wait(10);
    world.refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    world.settle();
    assert_eq!(world.logs[0].stored, (0..4u8).map(|i| vec![i; 150]).collect::<Vec<_>>());
}

#[test]
fn after_a_refusal_everything_goes_again_in_order() {
    let mut world = established(small(), 1);
    for i in 0..5u8 {
        world.push(0, &[i; 150]).unwrap();
    }
    world.wait(10);
    assert_eq!(world.sent.len(), 5);
    world.answer();
    world.refuse(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(world.wanted_metadata, 1);
    world.wait(1000);
    assert_eq!(world.sent.len(), 3, "nothing is sent while the rest flies");
    // The broker sees a gap.
    for _ in 0..3 {
        world.answer();
    }
    assert_eq!(world.logs[0].stored.len(), 2);
    world.settle();
    assert_eq!(world.logs[0].stored[1..], (0..5u8).map(|i| vec![i; 150]).collect::<Vec<_>>());
    let offsets: Vec<i64> = world.delivered.iter().map(|d| d.outcome.unwrap()).collect();
    assert_eq!(offsets, [1, 2, 3, 4, 5]);
}

#[test]
fn what_was_stored_but_not_answered_is_not_stored_twice() {
    let mut world = established(small(), 2);
    for i in 0..6u8 {
        world.push(u32::from(i % 2), &[i; 150]).unwrap();
    }
    world.wait(10);
    let lost: Vec<Request> = world.sent.drain(..).collect();
    for request in &lost {
        let _ = world.store(request);
        world.handle(&Event::Lost { token: request.token });
    }
    world.settle();
    assert_eq!(world.logs[0].stored[1..], [vec![0; 150], vec![2; 150], vec![4; 150]]);
    assert_eq!(world.logs[1].stored[1..], [vec![1; 150], vec![3; 150], vec![5; 150]]);
    assert!(world.delivered.iter().all(|d| d.outcome.is_ok()));
}

#[test]
fn a_batch_that_is_refused_for_good_does_not_stop_those_behind_it() {
    let mut world = established(small(), 1);
    for i in 0..3u8 {
        world.push(0, &[i; 150]).unwrap();
    }
    world.wait(10);
    world.refuse(ErrorCode::MESSAGE_TOO_LARGE);
    world.settle();
    assert_eq!(world.logs[0].stored[1..], [vec![1; 150], vec![2; 150]]);
    assert_eq!(world.delivered[0].outcome, Err(ErrorCode::MESSAGE_TOO_LARGE));
    assert_eq!(world.ids, 1, "no new producer id was needed");
}

#[test]
fn a_broker_that_forgot_the_producer_gets_a_new_one() {
    let mut world = World::new(small(), 1);
    world.push(0, b"a").unwrap();
    world.settle();
    world.push(0, b"b").unwrap();
    world.wait(10);
    world.refuse(ErrorCode::UNKNOWN_PRODUCER_ID);
    world.push(0, b"c").unwrap();
    world.settle();
    assert_eq!(world.logs[0].stored, [b"a", b"b", b"c"]);
    assert_eq!(world.ids, 2);
}

#[test]
fn giving_up_on_what_may_be_stored_takes_a_new_identity() {
    let mut world = World::new(Limits { delivery_ms_max: 1000, ..small() }, 1);
    world.push(0, b"doubtful").unwrap();
    world.wait(10);
    let lost = world.sent.pop_front().unwrap();
    world.handle(&Event::Lost { token: lost.token });
    world.wait(1000);
    assert_eq!(world.delivered[0].outcome, Err(ErrorCode::REQUEST_TIMED_OUT));
    world.push(0, b"next").unwrap();
    world.settle();
    assert_eq!(world.logs[0].stored, [b"next"]);
    assert_eq!(world.ids, 2);
}

#[test]
fn memory_is_bounded_and_comes_back() {
    let mut world = World::new(Limits { memory_bytes_max: 1000, ..small() }, 1);
    let mut taken = 0;
    while world.push(0, &[1; 100]).is_ok() {
        taken += 1;
    }
    assert!((5..=9).contains(&taken), "{taken}");
    assert_eq!(world.push(0, &[1; 100]), Err(Refusal::Full));
    assert!(world.machine.bytes() <= 1000);
    world.settle();
    assert_eq!(world.machine.bytes(), 0);
    assert!(world.push(0, &[1; 100]).is_ok());
    let large = vec![0; 2 << 20];
    assert!(matches!(world.push(0, &large), Err(Refusal::TooLarge(_))));
}

#[test]
fn without_a_leader_records_wait_and_are_given_up_in_time() {
    let mut world = World::new(Limits { delivery_ms_max: 500, ..small() }, 1);
    world.machine.set_leader(Slot(0), None);
    world.push(0, b"x").unwrap();
    world.wait(10);
    assert!(world.sent.is_empty());
    assert!(world.wanted_metadata > 0);
    world.wait(500);
    assert_eq!(world.delivered.len(), 1);
    assert_eq!(world.delivered[0].outcome, Err(ErrorCode::REQUEST_TIMED_OUT));
    assert_eq!(world.machine.outstanding(), 0);
}

#[test]
fn acks_zero_is_done_when_written() {
    let mut world = World::new(Limits { acks: Acks::None, ..small() }, 1);
    world.push(0, b"x").unwrap();
    world.wait(10);
    let request = world.sent.pop_front().unwrap();
    assert_eq!(BatchView::check(&request.parts[0].batch).unwrap().producer_id(), -1);
    world.handle(&Event::Answered { token: request.token, answers: &[] });
    assert_eq!(world.delivered[0].outcome, Ok(-1));
}

#[test]
fn a_request_carries_every_partition_that_is_due_up_to_its_size() {
    let mut world = World::new(Limits { request_bytes_max: 700, ..small() }, 4);
    for slot in 0..4 {
        world.push(slot, &[0; 150]).unwrap();
    }
    world.wait(10);
    let parts: Vec<usize> = world.sent.iter().map(|request| request.parts.len()).collect();
    assert_eq!(parts, [3, 1]);
}

/// What happens to a request, in turn.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Stored,
    StoredUnanswered,
    LostBefore,
    Refused,
    NotSent,
}

proptest! {
    /// Whatever is lost, refused or unanswered: each record is stored exactly once and in order, with every codec.
    #[test]
    fn order_and_exactly_once_hold_through_any_losses(
        pushes in proptest::collection::vec((0u32..3, 1usize..300), 1..60),
        fates in proptest::collection::vec(
            prop_oneof![
                4 => Just(Fate::Stored),
                1 => Just(Fate::StoredUnanswered),
                1 => Just(Fate::LostBefore),
                1 => Just(Fate::Refused),
                1 => Just(Fate::NotSent),
            ],
            0..40,
        ),
        codec in prop_oneof![Just(Codec::None), Just(Codec::Lz4), Just(Codec::Snappy), Just(Codec::Gzip), Just(Codec::Zstd)],
    ) {
        let mut world = World::new(Limits { codec, request_bytes_max: 500, ..small() }, 3);
        let mut expected: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 3];
        let mut fates = fates.into_iter();
        for (index, (slot, len)) in pushes.into_iter().enumerate() {
            let value = vec![u8::try_from(index).unwrap(); len];
            world.push(slot, &value).unwrap();
            expected[slot as usize].push(value);
            if index % 3 == 0 {
                world.wait(7);
            }
            // A connection is a queue: what follows a lost request on it is lost too.
            let mut broken = false;
            while index % 5 == 0 && !world.sent.is_empty() {
                let fate = fates.next().unwrap_or(Fate::Stored);
                let token = world.sent[0].token;
                match fate {
                    _ if broken => {
                        world.sent.pop_front();
                        world.handle(&Event::Lost { token });
                    }
                    Fate::Stored => world.answer(),
                    Fate::StoredUnanswered => {
                        let request = world.sent.pop_front().unwrap();
                        let _ = world.store(&request);
                        world.handle(&Event::Lost { token });
                        broken = true;
                    }
                    Fate::LostBefore => {
                        world.sent.pop_front();
                        world.handle(&Event::Lost { token });
                        broken = true;
                    }
                    Fate::Refused => world.refuse(ErrorCode::NOT_ENOUGH_REPLICAS),
                    Fate::NotSent => {
                        world.sent.pop_front();
                        world.handle(&Event::NotSent { token });
                        broken = true;
                    }
                }
            }
        }
        world.settle();
        for (log, expected) in world.logs.iter().zip(&expected) {
            prop_assert_eq!(&log.stored, expected);
        }
        let delivered: u64 = world.delivered.iter().map(|d| u64::from(d.count)).sum();
        prop_assert_eq!(delivered, expected.iter().map(|e| e.len() as u64).sum::<u64>());
        prop_assert!(world.delivered.iter().all(|d| d.outcome.is_ok()));
        prop_assert_eq!(world.machine.bytes(), 0);
    }
}

#[test]
fn a_push_allocates_only_when_a_batch_begins() {
    let limits = Limits { batch_bytes_max: 128 << 10, ..Limits::default() };
    let mut world = established(limits, 1);
    let value = [7; 1024];
    // Two rounds: in the second the buffers of the first are used again.
    for round in 0..2 {
        let info = allocation_counter::measure(|| {
            for _ in 0..1000 {
                let _ = world.push(0, &value);
            }
        });
        // 8 batches of 125 records; a fresh buffer grows some 12 times, the queue a few.
        let allowed = if round == 0 { 150 } else { 30 };
        assert!(info.count_total < allowed, "round {round}: {} allocations for 1000 records", info.count_total);
        world.settle();
    }
}
