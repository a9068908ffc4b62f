//! Membership of a consumer group as a machine (the classic protocol, eager): finding the coordinator, joining, sharing out
//! as the leader, heartbeats, leaving.

#[cfg(test)]
mod tests;

use base::Mono;
use protocol::error::ErrorCode;
use protocol::wire::{DecodeError, Reader, put_bytes, put_string};
use std::collections::BTreeMap;

use crate::assignor::{Assignor, Member};

/// The protocol type of consumers.
pub const PROTOCOL_TYPE: &str = "consumer";

/// Who joins what, and how.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The group.
    pub group: String,
    /// A static member id (KIP-345): a restart within the session timeout keeps its partitions.
    pub instance: Option<String>,
    /// What is subscribed to.
    pub topics: Vec<String>,
    /// Rules to share out, the preferred first.
    pub assignors: Vec<Assignor>,
    /// A member that is silent for longer is out.
    pub session_ms: u32,
    /// How long a rebalance waits for members.
    pub rebalance_ms: u32,
    /// Between heartbeats.
    pub heartbeat_ms: u32,
    /// Wait before what failed is tried again.
    pub retry_backoff_ms: u64,
}

impl Limits {
    /// With the defaults of Kafka's clients.
    #[must_use]
    pub fn new(group: impl Into<String>, topics: Vec<String>) -> Self {
        Self {
            group: group.into(),
            instance: None,
            topics,
            assignors: Assignor::ALL.to_vec(),
            session_ms: 45_000,
            rebalance_ms: 300_000,
            heartbeat_ms: 3000,
            retry_backoff_ms: 100,
        }
    }
}

/// What the world must do. The requests carry what changes; the rest is in [`Limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask any broker who coordinates the group.
    FindCoordinator,
    /// Join.
    Join {
        /// To whom.
        coordinator: i32,
        /// Empty for a new member.
        member: String,
        /// (assignor, subscription) each.
        protocols: Vec<(Assignor, Vec<u8>)>,
    },
    /// Tell the assignment, or (no leader: none) ask for it.
    Sync {
        /// To whom.
        coordinator: i32,
        /// This member.
        member: String,
        /// The generation that was joined.
        generation: i32,
        /// The assignor that the coordinator chose.
        protocol: String,
        /// (member, assignment) each.
        assignments: Vec<(String, Vec<u8>)>,
    },
    /// Say that this member is there.
    Heartbeat {
        /// To whom.
        coordinator: i32,
        /// This member.
        member: String,
        /// Its generation.
        generation: i32,
    },
    /// Leave the group.
    Leave {
        /// To whom.
        coordinator: i32,
        /// This member.
        member: String,
    },
    /// The leader must know how many partitions these topics have: answer with [`Event::Topics`].
    WantTopics(Vec<String>),
    /// These partitions are this member's until [`Effect::Revoked`].
    Assigned(Vec<(String, Vec<i32>)>),
    /// The partitions are to be given up: commit what was consumed, now.
    Revoked,
    /// The group does not take this member; nothing more happens.
    Failed(ErrorCode),
}

/// The answer to a join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// The error or none.
    pub code: ErrorCode,
    /// The generation.
    pub generation: i32,
    /// The assignor that all members share.
    pub protocol: String,
    /// Who leads.
    pub leader: String,
    /// This member's id.
    pub member: String,
    /// The leader is not to share out (KIP-814: a static leader came back).
    pub skip_assignment: bool,
    /// For the leader: (member, static id, subscription) each.
    pub members: Vec<(String, Option<String>, Vec<u8>)>,
}

/// What happened in the world.
#[derive(Clone, Debug)]
pub enum Event {
    /// This broker coordinates the group.
    Coordinator(i32),
    /// Nobody does (yet).
    NoCoordinator(ErrorCode),
    /// The join was answered.
    Joined(Joined),
    /// The sync was answered.
    Synced(ErrorCode, Vec<u8>),
    /// The heartbeat was answered.
    Heartbeat(ErrorCode),
    /// Partition counts of topics.
    Topics(BTreeMap<String, u32>),
    /// The connection to the coordinator broke, or a request was not answered.
    Disconnected,
    /// A commit was refused with this error.
    CommitRefused(ErrorCode),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Unknown { not_before: Mono },
    Finding,
    Ready { not_before: Mono },
    Joining,
    Counting { joined: Box<Joined> },
    Syncing,
    Stable { next_heartbeat: Mono, beating: bool, heard: Mono },
    Over,
}

/// One member.
#[derive(Debug)]
pub struct Machine {
    limits: Limits,
    state: State,
    coordinator: i32,
    member: String,
    generation: i32,
    assigned: bool,
}

impl Machine {
    /// A member that has not joined yet.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Unknown { not_before: Mono(0) },
            coordinator: -1,
            member: String::new(),
            generation: -1,
            assigned: false,
        }
    }

    /// Who it is.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// (coordinator, member, generation) for commits; `None` while it is not in the group.
    #[must_use]
    pub fn identity(&self) -> Option<(i32, &str, i32)> {
        (self.assigned).then_some((self.coordinator, self.member.as_str(), self.generation))
    }

    /// The coordinator, once it is known.
    #[must_use]
    pub fn coordinator(&self) -> Option<i32> {
        (self.coordinator >= 0).then_some(self.coordinator)
    }

    /// Does what is due.
    pub fn poll(&mut self, now: Mono, out: &mut Vec<Effect>) {
        match self.state {
            State::Unknown { not_before } if now >= not_before => {
                self.state = State::Finding;
                out.push(Effect::FindCoordinator);
            }
            State::Ready { not_before } if now >= not_before => {
                self.state = State::Joining;
                let subscription = put_subscription(&self.limits.topics);
                out.push(Effect::Join {
                    coordinator: self.coordinator,
                    member: self.member.clone(),
                    protocols: self.limits.assignors.iter().map(|a| (*a, subscription.clone())).collect(),
                });
            }
            State::Stable { heard, .. } if now >= heard.plus_ms(self.limits.session_ms.into()) => {
                // The coordinator has given this member up by now.
                self.rejoin(now, out);
            }
            State::Stable { next_heartbeat, beating: false, heard } if now >= next_heartbeat => {
                self.state = State::Stable { next_heartbeat, beating: true, heard };
                let member = self.member.clone();
                out.push(Effect::Heartbeat { coordinator: self.coordinator, member, generation: self.generation });
            }
            State::Unknown { .. }
            | State::Finding
            | State::Ready { .. }
            | State::Joining
            | State::Counting { .. }
            | State::Syncing
            | State::Stable { .. }
            | State::Over => {}
        }
    }

    /// When to look again, should nothing happen.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        match self.state {
            State::Unknown { not_before } | State::Ready { not_before } => Some(not_before),
            State::Stable { beating: true, heard, .. } => Some(heard.plus_ms(self.limits.session_ms.into())),
            State::Stable { next_heartbeat, .. } => Some(next_heartbeat),
            State::Finding | State::Joining | State::Counting { .. } | State::Syncing | State::Over => None,
        }
    }

    /// Takes in what happened. Answers that fit nothing any more are dropped.
    pub fn handle(&mut self, now: Mono, event: Event, out: &mut Vec<Effect>) {
        match (event, &self.state) {
            (_, State::Over) => {}
            (Event::Coordinator(broker), State::Finding) => {
                self.coordinator = broker;
                // A member that lost only its coordinator goes on where it was.
                self.state = if self.assigned {
                    State::Stable { next_heartbeat: now, beating: false, heard: now }
                } else {
                    State::Ready { not_before: now }
                };
            }
            (Event::NoCoordinator(code), State::Finding) => self.refused(now, code, out),
            (Event::Joined(joined), State::Joining) => self.joined(now, joined, out),
            (Event::Topics(counts), State::Counting { joined }) => {
                let joined = joined.clone();
                self.share_out(now, &joined, &counts, out);
            }
            (Event::Synced(code, bytes), State::Syncing) => self.synced(now, code, &bytes, out),
            (Event::Heartbeat(code), State::Stable { .. }) => {
                if code.is_ok() {
                    let next_heartbeat = now.plus_ms(self.limits.heartbeat_ms.into());
                    self.state = State::Stable { next_heartbeat, beating: false, heard: now };
                } else {
                    self.refused(now, code, out);
                }
            }
            (Event::CommitRefused(code), State::Stable { .. }) => {
                if matches!(
                    code,
                    ErrorCode::REBALANCE_IN_PROGRESS
                        | ErrorCode::ILLEGAL_GENERATION
                        | ErrorCode::UNKNOWN_MEMBER_ID
                        | ErrorCode::FENCED_INSTANCE_ID
                        | ErrorCode::NOT_COORDINATOR
                        | ErrorCode::COORDINATOR_NOT_AVAILABLE
                ) {
                    self.refused(now, code, out);
                }
            }
            (Event::Disconnected, _) => self.refused(now, ErrorCode::COORDINATOR_NOT_AVAILABLE, out),
            (
                Event::Coordinator(_)
                | Event::NoCoordinator(_)
                | Event::Joined(_)
                | Event::Topics(_)
                | Event::Synced(..)
                | Event::Heartbeat(_)
                | Event::CommitRefused(_),
                _,
            ) => {}
        }
    }

    /// Leaves, at the end. A static member does not: it would lose what its static id is for.
    pub fn leave(&mut self, out: &mut Vec<Effect>) {
        if self.assigned {
            out.push(Effect::Revoked);
        }
        if self.limits.instance.is_none() && !self.member.is_empty() && self.coordinator >= 0 {
            out.push(Effect::Leave { coordinator: self.coordinator, member: self.member.clone() });
        }
        self.state = State::Over;
    }

    /// The revocation was dealt with.
    pub const fn revoked(&mut self) {
        self.assigned = false;
    }

    fn rejoin(&mut self, now: Mono, out: &mut Vec<Effect>) {
        if self.assigned {
            out.push(Effect::Revoked);
        }
        self.state = State::Ready { not_before: now };
    }

    /// What an error of the coordinator means, whatever was asked.
    fn refused(&mut self, now: Mono, code: ErrorCode, out: &mut Vec<Effect>) {
        let not_before = now.plus_ms(self.limits.retry_backoff_ms);
        match code {
            ErrorCode::REBALANCE_IN_PROGRESS => self.rejoin(now, out),
            ErrorCode::ILLEGAL_GENERATION => {
                self.generation = -1;
                self.rejoin(now, out);
            }
            ErrorCode::UNKNOWN_MEMBER_ID => {
                self.member.clear();
                self.generation = -1;
                self.rejoin(now, out);
            }
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                self.state = State::Unknown { not_before };
            }
            code if code.retriable() => {
                self.state = match self.state {
                    State::Finding => State::Unknown { not_before },
                    State::Stable { heard, .. } => State::Stable { next_heartbeat: not_before, beating: false, heard },
                    _ => State::Ready { not_before },
                };
            }
            code => {
                if self.assigned {
                    out.push(Effect::Revoked);
                }
                self.state = State::Over;
                out.push(Effect::Failed(code));
            }
        }
    }

    fn joined(&mut self, now: Mono, joined: Joined, out: &mut Vec<Effect>) {
        if joined.code == ErrorCode::MEMBER_ID_REQUIRED {
            self.member = joined.member;
            self.state = State::Ready { not_before: now };
            return;
        }
        if !joined.code.is_ok() {
            self.refused(now, joined.code, out);
            return;
        }
        self.member.clone_from(&joined.member);
        self.generation = joined.generation;
        if joined.leader == joined.member && !joined.skip_assignment {
            let mut topics: Vec<String> = Vec::new();
            for (_, _, subscription) in &joined.members {
                topics.extend(subscription_topics(subscription).unwrap_or_default());
            }
            topics.sort();
            topics.dedup();
            self.state = State::Counting { joined: Box::new(joined) };
            out.push(Effect::WantTopics(topics));
        } else {
            self.sync(joined.protocol, Vec::new(), out);
        }
    }

    fn share_out(&mut self, now: Mono, joined: &Joined, counts: &BTreeMap<String, u32>, out: &mut Vec<Effect>) {
        let Some(assignor) = Assignor::from_name(&joined.protocol) else {
            return self.refused(now, ErrorCode::INCONSISTENT_GROUP_PROTOCOL, out);
        };
        let members: Vec<Member> = joined
            .members
            .iter()
            .map(|(id, instance, subscription)| Member {
                id: id.clone(),
                instance: instance.clone(),
                // A member whose subscription cannot be read gets nothing.
                topics: subscription_topics(subscription).unwrap_or_default(),
            })
            .collect();
        let shares = assignor.assign(&members, counts);
        let assignments = shares.into_iter().map(|share| (share.member, put_assignment(&share.topics))).collect();
        self.sync(joined.protocol.clone(), assignments, out);
    }

    fn sync(&mut self, protocol: String, assignments: Vec<(String, Vec<u8>)>, out: &mut Vec<Effect>) {
        self.state = State::Syncing;
        out.push(Effect::Sync {
            coordinator: self.coordinator,
            member: self.member.clone(),
            generation: self.generation,
            protocol,
            assignments,
        });
    }

    fn synced(&mut self, now: Mono, code: ErrorCode, bytes: &[u8], out: &mut Vec<Effect>) {
        if !code.is_ok() {
            return self.refused(now, code, out);
        }
        let Ok(topics) = assignment(bytes) else {
            return self.refused(now, ErrorCode::INCONSISTENT_GROUP_PROTOCOL, out);
        };
        self.assigned = true;
        let next_heartbeat = now.plus_ms(self.limits.heartbeat_ms.into());
        self.state = State::Stable { next_heartbeat, beating: false, heard: now };
        out.push(Effect::Assigned(topics));
    }
}

/// A subscription as consumers write it (version 1: topics, no user data, nothing owned — eager members own nothing when
/// they join).
#[must_use]
pub fn put_subscription(topics: &[String]) -> Vec<u8> {
    let mut out = 1i16.to_be_bytes().to_vec();
    protocol::wire::put_count(&mut out, Some(topics.len()), false);
    for topic in topics {
        put_string(&mut out, Some(topic), false);
    }
    put_bytes(&mut out, None, false);
    protocol::wire::put_count(&mut out, Some(0), false);
    out
}

/// The topics of a subscription of any version.
///
/// # Errors
/// [`DecodeError`] when it is malformed.
pub fn subscription_topics(bytes: &[u8]) -> Result<Vec<String>, DecodeError> {
    let mut reader = Reader::new(bytes);
    reader.i16()?;
    let count = reader.count(false, 2)?;
    (0..count).map(|_| reader.string(false).map(str::to_owned)).collect()
}

/// An assignment (version 1), as consumers read it.
#[must_use]
pub fn put_assignment(topics: &[(String, Vec<i32>)]) -> Vec<u8> {
    let mut out = 1i16.to_be_bytes().to_vec();
    protocol::wire::put_count(&mut out, Some(topics.len()), false);
    for (topic, partitions) in topics {
        put_string(&mut out, Some(topic), false);
        protocol::wire::put_count(&mut out, Some(partitions.len()), false);
        for partition in partitions {
            out.extend_from_slice(&partition.to_be_bytes());
        }
    }
    put_bytes(&mut out, None, false);
    out
}

/// The partitions of an assignment of any version. No bytes are no partitions.
///
/// # Errors
/// [`DecodeError`] when it is malformed.
pub fn assignment(bytes: &[u8]) -> Result<Vec<(String, Vec<i32>)>, DecodeError> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = Reader::new(bytes);
    reader.i16()?;
    let count = reader.count(false, 6)?;
    let mut topics = Vec::with_capacity(count);
    for _ in 0..count {
        let topic = reader.string(false)?.to_owned();
        let count = reader.count(false, 4)?;
        let partitions = (0..count).map(|_| reader.i32()).collect::<Result<Vec<i32>, DecodeError>>()?;
        topics.push((topic, partitions));
    }
    Ok(topics)
}
