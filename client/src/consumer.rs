//! The consumer as a machine: positions, which fetches to send, what an answer means. Groups are in [`crate::group`].

#[cfg(test)]
mod tests;

use base::Mono;
use protocol::batch::BatchView;
use protocol::error::ErrorCode;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a consumer behaves.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a broker holds a fetch that has not enough to answer.
    pub wait_ms: u32,
    /// How much is enough.
    pub bytes_min: u32,
    /// An answer has at most this many bytes, unless its first batch alone has more.
    pub bytes_max: u32,
    /// The same for one partition of it.
    pub partition_bytes_max: u32,
    /// Answers that were received and are not consumed yet; no more is asked for while there are as many.
    pub answers_max: usize,
    /// A batch that decompresses to more is an error.
    pub batch_bytes_max: usize,
    /// What to do where the position does not exist (any more).
    pub reset: Reset,
    /// Wait before what failed is asked again.
    pub retry_backoff_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wait_ms: 500,
            bytes_min: 1,
            bytes_max: 16 << 20,
            partition_bytes_max: 4 << 20,
            answers_max: 2,
            batch_bytes_max: 128 << 20,
            reset: Reset::Latest,
            retry_backoff_ms: 100,
        }
    }
}

/// Where to go on when a position is out of range or none was committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reset {
    /// The first record there is.
    Earliest,
    /// The end.
    #[default]
    Latest,
    /// Nowhere: OFFSET_OUT_OF_RANGE is given to the application.
    Error,
}

/// Where to begin in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The first record there is.
    Earliest,
    /// The end as it is when the broker is asked.
    Latest,
    /// This offset.
    Offset(i64),
    /// The first record at or after this time in ms since 1970; the end if there is none.
    Timestamp(i64),
}

impl Start {
    /// As ListOffsets takes it; `None` for an offset.
    #[must_use]
    pub const fn timestamp(self) -> Option<i64> {
        match self {
            Self::Latest => Some(-1),
            Self::Earliest => Some(-2),
            Self::Timestamp(at) => Some(at),
            Self::Offset(_) => None,
        }
    }
}

/// A partition the consumer reads, by its place in a table; void after the next [`Machine::assign`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Unknown(Start),
    Asked(Start),
    At(i64),
}

#[derive(Debug)]
struct Part {
    topic: Arc<str>,
    partition: i32,
    leader: Option<i32>,
    leader_epoch: i32,
    position: Position,
    /// Changes with every seek: what was asked before is not wanted any more.
    term: u32,
    /// Behind what the application has seen.
    consumed: Option<i64>,
    high_watermark: i64,
    paused: bool,
    not_before: Mono,
}

/// One partition of a Fetch request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPart {
    /// The partition.
    pub slot: Slot,
    /// The topic.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// What is known of the leader's epoch, −1 for nothing.
    pub leader_epoch: i32,
    /// From here.
    pub offset: i64,
    term: u32,
}

/// A Fetch request to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// To name it in the answer.
    pub token: u64,
    /// Where it goes.
    pub broker: i32,
    /// What is asked.
    pub parts: Vec<FetchPart>,
}

/// One partition of a ListOffsets request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetPart {
    /// The partition.
    pub slot: Slot,
    /// The topic.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// −1 latest, −2 earliest, else ms since 1970.
    pub timestamp: i64,
    term: u32,
}

/// A ListOffsets request to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOffsets {
    /// To name it in the answer.
    pub token: u64,
    /// Where it goes.
    pub broker: i32,
    /// What is asked.
    pub parts: Vec<OffsetPart>,
}

/// What the world must do.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this.
    Fetch(Fetch),
    /// Send this.
    ListOffsets(ListOffsets),
    /// Refresh metadata.
    WantMetadata,
    /// This partition cannot be read: tell the application. It is tried again after the backoff.
    Failed {
        /// The partition.
        slot: Slot,
        /// Why.
        code: ErrorCode,
    },
}

/// One partition of a Fetch answer.
#[derive(Clone, Copy, Debug)]
pub struct Fetched<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub partition: i32,
    /// The error or none.
    pub code: ErrorCode,
    /// End of what is committed.
    pub high_watermark: i64,
    /// Record batches back to back; the last may be cut off.
    pub records: &'a [u8],
}

/// Records that an application gets: part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Useful {
    /// The partition.
    pub slot: Slot,
    /// Records below were not asked for: the batch holds them too.
    pub from: i64,
    term: u32,
    /// Which of the answer's partitions, in its order.
    pub index: usize,
}

#[derive(Debug)]
enum InFlight {
    Fetch(Fetch),
    Offsets(ListOffsets),
}

/// The consumer.
#[derive(Debug)]
pub struct Machine {
    limits: Limits,
    parts: Vec<Part>,
    in_flight: BTreeMap<u64, InFlight>,
    next_token: u64,
    /// Where the next fetch begins, so that every partition has its turn.
    turn: usize,
}

impl Machine {
    /// Reads nothing yet.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, parts: Vec::new(), in_flight: BTreeMap::new(), next_token: 0, turn: 0 }
    }

    /// How it behaves.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Reads these partitions instead of what it read before. Slots are given in this order, from 0.
    pub fn assign(&mut self, partitions: &[(Arc<str>, i32, Start)]) {
        // Answers to what was asked before find nothing any more.
        self.in_flight.clear();
        self.turn = 0;
        self.parts = partitions
            .iter()
            .map(|(topic, partition, start)| Part {
                topic: Arc::clone(topic),
                partition: *partition,
                leader: None,
                leader_epoch: -1,
                position: position(*start),
                term: 0,
                consumed: consumed(*start),
                high_watermark: -1,
                paused: false,
                not_before: Mono(0),
            })
            .collect();
    }

    /// All slots.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..u32::try_from(self.parts.len()).expect("fewer than 2^32 partitions")).map(Slot)
    }

    /// Topic and partition of a slot.
    #[must_use]
    pub fn name(&self, slot: Slot) -> (&Arc<str>, i32) {
        let part = &self.parts[slot.0 as usize];
        (&part.topic, part.partition)
    }

    /// The slot of a partition.
    #[must_use]
    pub fn find(&self, topic: &str, partition: i32) -> Option<Slot> {
        let at = self.parts.iter().position(|part| part.partition == partition && *part.topic == *topic)?;
        u32::try_from(at).ok().map(Slot)
    }

    /// Goes elsewhere in a partition. What was fetched and not consumed is void.
    pub fn seek(&mut self, slot: Slot, start: Start) {
        let part = &mut self.parts[slot.0 as usize];
        part.term = part.term.wrapping_add(1);
        part.position = position(start);
        part.consumed = consumed(start);
        part.not_before = Mono(0);
    }

    /// Stops or resumes fetching a partition.
    pub fn pause(&mut self, slot: Slot, paused: bool) {
        self.parts[slot.0 as usize].paused = paused;
    }

    /// Who leads a partition, as far as metadata tells.
    pub fn set_leader(&mut self, slot: Slot, leader: Option<i32>, epoch: i32) {
        let part = &mut self.parts[slot.0 as usize];
        (part.leader, part.leader_epoch) = (leader, epoch);
    }

    /// The offset behind the last record that the application has seen, or where it will begin, once that is known.
    #[must_use]
    pub fn consumed(&self, slot: Slot) -> Option<i64> {
        self.parts[slot.0 as usize].consumed
    }

    /// The application has seen everything below `offset`.
    pub fn consume(&mut self, slot: Slot, offset: i64) {
        self.parts[slot.0 as usize].consumed = Some(offset);
    }

    /// The end of what is committed as the last answer told it, −1 before.
    #[must_use]
    pub fn high_watermark(&self, slot: Slot) -> i64 {
        self.parts[slot.0 as usize].high_watermark
    }

    /// Whether records that [`Machine::fetched`] gave are still wanted.
    #[must_use]
    pub fn is_wanted(&self, useful: &Useful) -> bool {
        self.parts.get(useful.slot.0 as usize).is_some_and(|part| part.term == useful.term)
    }

    /// Sends what is due. `answers_waiting`: how many answers wait to be consumed.
    pub fn poll(&mut self, now: Mono, answers_waiting: usize, out: &mut Vec<Effect>) {
        let mut leaderless = false;
        let mut brokers: Vec<i32> = Vec::new();
        for part in self.parts.iter().filter(|part| now >= part.not_before) {
            match part.leader {
                None => leaderless = true,
                Some(broker) if !brokers.contains(&broker) => brokers.push(broker),
                Some(_) => {}
            }
        }
        if leaderless {
            out.push(Effect::WantMetadata);
        }
        for broker in brokers {
            if let Some(request) = self.list_offsets(broker, now) {
                out.push(Effect::ListOffsets(request));
            }
            // One fetch per broker flies; together with what waits there are never more than `answers_max`.
            let flying = self.in_flight.values().filter(|f| matches!(f, InFlight::Fetch(_))).count();
            if answers_waiting + flying < self.limits.answers_max
                && let Some(request) = self.fetch(broker, now)
            {
                out.push(Effect::Fetch(request));
            }
        }
    }

    /// Until when [`Machine::poll`] has nothing to do, unless something happens before.
    #[must_use]
    pub fn next_deadline(&self, now: Mono) -> Option<Mono> {
        self.parts.iter().map(|part| part.not_before).filter(|at| *at > now).min()
    }

    fn list_offsets(&mut self, broker: i32, now: Mono) -> Option<ListOffsets> {
        let mut parts = Vec::new();
        for (index, part) in self.parts.iter_mut().enumerate() {
            let Position::Unknown(start) = part.position else { continue };
            if part.leader != Some(broker) || now < part.not_before {
                continue;
            }
            let Some(timestamp) = start.timestamp() else { continue };
            part.position = Position::Asked(start);
            parts.push(OffsetPart {
                slot: slot(index),
                topic: Arc::clone(&part.topic),
                partition: part.partition,
                timestamp,
                term: part.term,
            });
        }
        if parts.is_empty() {
            return None;
        }
        parts.sort_by(|a, b| a.topic.cmp(&b.topic));
        let request = ListOffsets { token: self.token(), broker, parts };
        self.in_flight.insert(request.token, InFlight::Offsets(request.clone()));
        Some(request)
    }

    fn fetch(&mut self, broker: i32, now: Mono) -> Option<Fetch> {
        let busy = |request: &InFlight| matches!(request, InFlight::Fetch(fetch) if fetch.broker == broker);
        if self.in_flight.values().any(busy) {
            return None;
        }
        let count = self.parts.len();
        let mut parts = Vec::new();
        for step in 0..count {
            let index = (self.turn + step) % count;
            let part = &self.parts[index];
            let Position::At(offset) = part.position else { continue };
            if part.leader != Some(broker) || part.paused || now < part.not_before {
                continue;
            }
            parts.push(FetchPart {
                slot: slot(index),
                topic: Arc::clone(&part.topic),
                partition: part.partition,
                leader_epoch: part.leader_epoch,
                offset,
                term: part.term,
            });
        }
        if parts.is_empty() {
            return None;
        }
        // Brokers fill an answer in the request's order: the next one begins with the next partition.
        self.turn = (self.turn + 1) % count;
        let request = Fetch { token: self.token(), broker, parts };
        self.in_flight.insert(request.token, InFlight::Fetch(request.clone()));
        Some(request)
    }

    const fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// Takes the answer to a fetch; gives the partitions whose records the application gets.
    pub fn fetched(&mut self, now: Mono, token: u64, answers: &[Fetched<'_>], out: &mut Vec<Effect>) -> Vec<Useful> {
        let Some(InFlight::Fetch(request)) = self.in_flight.remove(&token) else { return Vec::new() };
        let mut useful = Vec::new();
        for (index, answer) in answers.iter().enumerate() {
            let asked = |part: &&FetchPart| part.partition == answer.partition && *part.topic == *answer.topic;
            let Some(asked) = request.parts.iter().find(asked) else { continue };
            let part = &mut self.parts[asked.slot.0 as usize];
            if part.term != asked.term {
                continue;
            }
            if !answer.code.is_ok() {
                self.refused(now, asked.slot, answer.code, out);
                continue;
            }
            part.high_watermark = answer.high_watermark;
            let end = end_of(answer.records);
            if let Some(end) = end.filter(|end| *end > asked.offset) {
                part.position = Position::At(end);
                useful.push(Useful { slot: asked.slot, from: asked.offset, term: asked.term, index });
            }
        }
        useful
    }

    /// Takes the answer to a ListOffsets: (slot, error, offset) each.
    pub fn listed(&mut self, now: Mono, token: u64, answers: &[(Slot, ErrorCode, i64)], out: &mut Vec<Effect>) {
        let Some(InFlight::Offsets(request)) = self.in_flight.remove(&token) else { return };
        for asked in &request.parts {
            let part = &mut self.parts[asked.slot.0 as usize];
            let Position::Asked(start) = part.position else { continue };
            if part.term != asked.term {
                continue;
            }
            let answer = answers.iter().find(|answer| answer.0 == asked.slot);
            let (code, offset) = answer.map_or((ErrorCode::NETWORK_EXCEPTION, -1), |answer| (answer.1, answer.2));
            part.position = Position::Unknown(start);
            if !code.is_ok() {
                self.refused(now, asked.slot, code, out);
            } else if offset >= 0 {
                part.position = Position::At(offset);
                part.consumed = Some(offset);
            } else {
                // No record is that young.
                part.position = Position::Unknown(Start::Latest);
            }
        }
    }

    /// A request will not be answered.
    pub fn lost(&mut self, now: Mono, token: u64, out: &mut Vec<Effect>) {
        let Some(request) = self.in_flight.remove(&token) else { return };
        let not_before = now.plus_ms(self.limits.retry_backoff_ms);
        let slots: Vec<(Slot, u32)> = match request {
            InFlight::Fetch(fetch) => fetch.parts.iter().map(|part| (part.slot, part.term)).collect(),
            InFlight::Offsets(list) => list.parts.iter().map(|part| (part.slot, part.term)).collect(),
        };
        for (slot, term) in slots {
            let part = &mut self.parts[slot.0 as usize];
            if part.term != term {
                continue;
            }
            if let Position::Asked(start) = part.position {
                part.position = Position::Unknown(start);
            }
            part.not_before = not_before;
        }
        out.push(Effect::WantMetadata);
    }

    fn refused(&mut self, now: Mono, slot: Slot, code: ErrorCode, out: &mut Vec<Effect>) {
        let not_before = now.plus_ms(self.limits.retry_backoff_ms);
        let part = &mut self.parts[slot.0 as usize];
        match code {
            ErrorCode::OFFSET_OUT_OF_RANGE => match self.limits.reset {
                Reset::Earliest => part.position = Position::Unknown(Start::Earliest),
                Reset::Latest => part.position = Position::Unknown(Start::Latest),
                Reset::Error => {
                    part.not_before = not_before;
                    out.push(Effect::Failed { slot, code });
                }
            },
            // Retriable for a producer; a reader is told the same again and again.
            ErrorCode::CORRUPT_MESSAGE => {
                part.not_before = not_before;
                out.push(Effect::Failed { slot, code });
            }
            _ => {
                part.not_before = not_before;
                out.push(if code.retriable() { Effect::WantMetadata } else { Effect::Failed { slot, code } });
            }
        }
    }
}

const fn position(start: Start) -> Position {
    match start {
        Start::Offset(offset) => Position::At(offset),
        Start::Earliest | Start::Latest | Start::Timestamp(_) => Position::Unknown(start),
    }
}

const fn consumed(start: Start) -> Option<i64> {
    match start {
        Start::Offset(offset) => Some(offset),
        Start::Earliest | Start::Latest | Start::Timestamp(_) => None,
    }
}

fn slot(index: usize) -> Slot {
    Slot(u32::try_from(index).expect("fewer than 2^32 partitions"))
}

/// The offset behind the last whole batch.
fn end_of(mut records: &[u8]) -> Option<i64> {
    let mut end = None;
    while let Ok((batch, rest)) = BatchView::first(records) {
        end = batch.last_offset().checked_add(1);
        records = rest;
    }
    end
}
