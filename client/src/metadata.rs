//! What is known of the cluster, and when to ask again.

use base::Mono;
use protocol::error::ErrorCode;
use std::collections::BTreeMap;

/// Metadata older than this is asked for again.
const AGE_MS_MAX: u64 = 300_000;
/// Wait between two questions, doubled with every failure up to the maximum.
const BACKOFF_MS_MIN: u64 = 50;
const BACKOFF_MS_MAX: u64 = 1000;

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Kafka node id.
    pub id: i32,
    /// Advertised host.
    pub host: String,
    /// Advertised port.
    pub port: u16,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number.
    pub index: i32,
    /// What is wrong with it, if anything.
    pub code: ErrorCode,
    /// The broker that leads it.
    pub leader: Option<i32>,
    /// The leader's epoch, −1 where the broker does not tell.
    pub leader_epoch: i32,
    /// Brokers that hold it.
    pub replicas: Vec<i32>,
    /// Those of them that are in sync.
    pub in_sync: Vec<i32>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id, 0 where the broker does not tell.
    pub id: u128,
    /// What is wrong with it, if anything.
    pub code: ErrorCode,
    /// Kafka's own (`__consumer_offsets`).
    pub internal: bool,
    /// Its partitions, by number.
    pub partitions: Vec<Partition>,
}

/// What a broker told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The cluster's id.
    pub cluster_id: Option<String>,
    /// The broker that answers administration.
    pub controller: Option<i32>,
    /// All brokers that are up.
    pub brokers: Vec<Broker>,
    /// The topics that were asked for.
    pub topics: Vec<Topic>,
}

/// The cache.
#[derive(Debug, Default)]
pub struct Metadata {
    brokers: BTreeMap<i32, Broker>,
    controller: Option<i32>,
    topics: BTreeMap<String, Topic>,
    /// When the question is due.
    due: Mono,
    asked_at: Option<Mono>,
    in_flight: bool,
    failures: u32,
}

impl Metadata {
    /// Knows nothing; a question is due.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Something does not fit any more: ask as soon as the backoff allows.
    pub fn stale(&mut self) {
        let backoff = BACKOFF_MS_MIN.saturating_mul(1 << self.failures.min(8)).min(BACKOFF_MS_MAX);
        self.due = self.due.min(self.asked_at.map_or(Mono(0), |asked| asked.plus_ms(backoff)));
    }

    /// Whether to ask now.
    #[must_use]
    pub fn is_due(&self, now: Mono) -> bool {
        !self.in_flight && now >= self.due
    }

    /// When to ask next; `None` while a question is in flight.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        (!self.in_flight).then_some(self.due)
    }

    /// A question left.
    pub const fn asked(&mut self, now: Mono) {
        self.asked_at = Some(now);
        self.in_flight = true;
    }

    /// It was not answered.
    pub fn failed(&mut self) {
        self.in_flight = false;
        self.failures += 1;
        self.stale();
    }

    /// It was answered. Topics that the answer does not name stay as they were.
    pub fn apply(&mut self, now: Mono, snapshot: Snapshot) {
        self.in_flight = false;
        self.due = now.plus_ms(AGE_MS_MAX);
        self.controller = snapshot.controller;
        self.brokers = snapshot.brokers.into_iter().map(|broker| (broker.id, broker)).collect();
        let mut unsettled = false;
        for topic in snapshot.topics {
            unsettled |= !topic.code.is_ok() || topic.partitions.iter().any(|partition| partition.leader.is_none());
            if topic.code.is_ok() || topic.code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
                self.topics.insert(topic.name.clone(), topic);
            } else if let Some(known) = self.topics.get_mut(&topic.name) {
                known.code = topic.code;
            } else {
                self.topics.insert(topic.name.clone(), topic);
            }
        }
        // A cluster that settles (leaders missing) is asked less and less often.
        self.failures = if unsettled { self.failures + 1 } else { 0 };
        if unsettled {
            self.stale();
        }
    }

    /// A broker's address.
    #[must_use]
    pub fn broker(&self, id: i32) -> Option<&Broker> {
        self.brokers.get(&id)
    }

    /// All brokers.
    pub fn brokers(&self) -> impl Iterator<Item = &Broker> {
        self.brokers.values()
    }

    /// The broker that answers administration.
    #[must_use]
    pub const fn controller(&self) -> Option<i32> {
        self.controller
    }

    /// A topic.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name)
    }

    /// A partition.
    #[must_use]
    pub fn partition(&self, topic: &str, index: i32) -> Option<&Partition> {
        let partitions = &self.topics.get(topic)?.partitions;
        partitions.binary_search_by_key(&index, |partition| partition.index).ok().map(|at| &partitions[at])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn snapshot(leader: Option<i32>) -> Snapshot {
        let partition = |index| Partition {
            index,
            code: ErrorCode::NONE,
            leader,
            leader_epoch: 3,
            replicas: vec![1],
            in_sync: vec![1],
        };
        Snapshot {
            cluster_id: None,
            controller: Some(1),
            brokers: vec![Broker { id: 1, host: "h".into(), port: 9 }],
            topics: vec![Topic {
                name: "t".into(),
                id: 0,
                code: ErrorCode::NONE,
                internal: false,
                partitions: vec![partition(0), partition(1)],
            }],
        }
    }

    #[test]
    fn a_question_is_due_at_once_then_when_old_or_stale() {
        let mut metadata = Metadata::new();
        assert!(metadata.is_due(Mono(0)));
        metadata.asked(Mono(0));
        assert!(!metadata.is_due(Mono(0)), "one is in flight");
        metadata.apply(Mono(0), snapshot(Some(1)));
        assert!(!metadata.is_due(Mono(0).plus_ms(1000)));
        assert!(metadata.is_due(Mono(0).plus_ms(AGE_MS_MAX)));
        metadata.stale();
        assert!(!metadata.is_due(Mono(0).plus_ms(BACKOFF_MS_MIN - 1)));
        assert!(metadata.is_due(Mono(0).plus_ms(BACKOFF_MS_MIN)));
        assert_eq!(metadata.partition("t", 1).unwrap().leader, Some(1));
        assert!(metadata.partition("t", 2).is_none());
    }

    #[test]
    fn without_leaders_it_asks_again_less_and_less_often() {
        let mut metadata = Metadata::new();
        let mut now = Mono(0);
        let mut waits = Vec::new();
        for _ in 0..8 {
            metadata.asked(now);
            metadata.apply(now, snapshot(None));
            let next = metadata.deadline().unwrap();
            waits.push(next.since(now) / 1_000_000);
            now = next;
        }
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000, 1000, 1000]);
    }
}
