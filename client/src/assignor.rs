//! How a group's leader shares partitions out: `range` and `roundrobin`, with the results of Kafka's own assignors.

use std::collections::BTreeMap;

/// A rule to share partitions out. The group uses one that all members name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignor {
    /// Per topic: consecutive partitions to each subscribed member, the first members get one more.
    Range,
    /// Over all topics: partitions dealt one by one to the members in turn.
    RoundRobin,
}

impl Assignor {
    /// All, the preferred first.
    pub const ALL: [Self; 2] = [Self::Range, Self::RoundRobin];

    /// The protocol name that goes over the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
        }
    }

    /// From the name the coordinator chose.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// Shares the partitions of `topics` (name → partition count) out among `members`. Every member is in the result;
    /// topics without a known partition count are left out.
    #[must_use]
    pub fn assign(self, members: &[Member], topics: &BTreeMap<String, u32>) -> Vec<Assignment> {
        let mut order: Vec<usize> = (0..members.len()).collect();
        // Kafka: members with a static id first, by that id; then the others by member id.
        order.sort_by(|a, b| {
            let key = |index: &usize| {
                let member = &members[*index];
                (member.instance.is_none(), member.instance.as_deref().unwrap_or(&member.id))
            };
            key(a).cmp(&key(b))
        });
        let mut given: Vec<BTreeMap<String, Vec<i32>>> = vec![BTreeMap::new(); members.len()];
        match self {
            Self::Range => range(members, topics, &order, &mut given),
            Self::RoundRobin => round_robin(members, topics, &order, &mut given),
        }
        members
            .iter()
            .zip(given)
            .map(|(member, topics)| Assignment { member: member.id.clone(), topics: topics.into_iter().collect() })
            .collect()
    }
}

/// A member as the group's leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The id the coordinator gave it.
    pub id: String,
    /// The static id, where it has one.
    pub instance: Option<String>,
    /// What it subscribes to.
    pub topics: Vec<String>,
}

/// The share of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Member id.
    pub member: String,
    /// Topic → partitions, by name.
    pub topics: Vec<(String, Vec<i32>)>,
}

fn subscribed<'a>(members: &'a [Member], order: &'a [usize], topic: &'a str) -> impl Iterator<Item = usize> + 'a {
    order.iter().copied().filter(move |index| members[*index].topics.iter().any(|name| name == topic))
}

fn range(
    members: &[Member],
    topics: &BTreeMap<String, u32>,
    order: &[usize],
    given: &mut [BTreeMap<String, Vec<i32>>],
) {
    for (topic, &count) in topics {
        let takers: Vec<usize> = subscribed(members, order, topic).collect();
        let Ok(takers_len) = u32::try_from(takers.len()) else { continue };
        if takers_len == 0 {
            continue;
        }
        let (share, more) = (count / takers_len, count % takers_len);
        let mut next = 0u32;
        for (index, member) in (0u32..).zip(takers) {
            let end = next + share + u32::from(index < more);
            let partitions: Vec<i32> = (next..end).map(u32::cast_signed).collect();
            if !partitions.is_empty() {
                given[member].insert(topic.clone(), partitions);
            }
            next = end;
        }
    }
}

fn round_robin(
    members: &[Member],
    topics: &BTreeMap<String, u32>,
    order: &[usize],
    given: &mut [BTreeMap<String, Vec<i32>>],
) {
    if order.is_empty() {
        return;
    }
    let mut turn = 0;
    for (topic, &count) in topics {
        if subscribed(members, order, topic).next().is_none() {
            continue;
        }
        for partition in 0..count {
            // Ends: some member subscribes.
            while !members[order[turn % order.len()]].topics.contains(topic) {
                turn += 1;
            }
            let member = order[turn % order.len()];
            given[member].entry(topic.clone()).or_default().push(partition.cast_signed());
            turn += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(id: &str, topics: &[&str]) -> Member {
        Member { id: id.to_owned(), instance: None, topics: topics.iter().map(|t| (*t).to_owned()).collect() }
    }

    fn topics(of: &[(&str, u32)]) -> BTreeMap<String, u32> {
        of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn share(assignments: &[Assignment], id: &str) -> Vec<(String, Vec<i32>)> {
        assignments.iter().find(|a| a.member == id).map(|a| a.topics.clone()).unwrap_or_default()
    }

    #[test]
    fn range_gives_consecutive_partitions_and_the_rest_to_the_first() {
        // The example of Kafka's RangeAssignor: two topics of three partitions, two members.
        let members = [member("c1", &["t0", "t1"]), member("c0", &["t0", "t1"])];
        let given = Assignor::Range.assign(&members, &topics(&[("t0", 3), ("t1", 3)]));
        assert_eq!(share(&given, "c0"), [("t0".into(), vec![0, 1]), ("t1".into(), vec![0, 1])]);
        assert_eq!(share(&given, "c1"), [("t0".into(), vec![2]), ("t1".into(), vec![2])]);
    }

    #[test]
    fn round_robin_deals_over_topics_and_subscriptions() {
        // The examples of Kafka's RoundRobinAssignor.
        let members = [member("c0", &["t0", "t1"]), member("c1", &["t0", "t1"])];
        let given = Assignor::RoundRobin.assign(&members, &topics(&[("t0", 3), ("t1", 3)]));
        assert_eq!(share(&given, "c0"), [("t0".into(), vec![0, 2]), ("t1".into(), vec![1])]);
        assert_eq!(share(&given, "c1"), [("t0".into(), vec![1]), ("t1".into(), vec![0, 2])]);

        let members = [member("c0", &["t0"]), member("c1", &["t0", "t1"]), member("c2", &["t0", "t1", "t2"])];
        let given = Assignor::RoundRobin.assign(&members, &topics(&[("t0", 1), ("t1", 2), ("t2", 3)]));
        assert_eq!(share(&given, "c0"), [("t0".into(), vec![0])]);
        assert_eq!(share(&given, "c1"), [("t1".into(), vec![0])]);
        assert_eq!(share(&given, "c2"), [("t1".into(), vec![1]), ("t2".into(), vec![0, 1, 2])]);
    }

    #[test]
    fn static_members_come_first_and_in_their_order() {
        let mut members = [member("a", &["t"]), member("z", &["t"])];
        members[1].instance = Some("i".into());
        let given = Assignor::Range.assign(&members, &topics(&[("t", 1)]));
        assert_eq!(share(&given, "z"), [("t".into(), vec![0])]);
        assert_eq!(share(&given, "a"), []);
    }

    proptest! {
        #[test]
        fn every_partition_of_a_subscribed_topic_goes_to_exactly_one_subscriber(
            subscriptions in proptest::collection::vec(proptest::collection::vec(any::<bool>(), 3), 0..6),
            counts in proptest::collection::vec(0u32..20, 3),
            robin in any::<bool>(),
        ) {
            let names = ["t0", "t1", "t2"];
            let members: Vec<Member> = subscriptions
                .iter()
                .enumerate()
                .map(|(i, s)| {
                    let of: Vec<&str> = names.iter().zip(s).filter(|(_, yes)| **yes).map(|(name, _)| *name).collect();
                    member(&format!("m{i}"), &of)
                })
                .collect();
            let all = topics(&names.iter().zip(&counts).map(|(n, c)| (*n, *c)).collect::<Vec<_>>());
            let assignor = if robin { Assignor::RoundRobin } else { Assignor::Range };
            let given = assignor.assign(&members, &all);
            prop_assert_eq!(given.len(), members.len());
            let mut seen: Vec<(String, i32)> = Vec::new();
            for assignment in &given {
                let subscribed = members.iter().find(|m| m.id == assignment.member).map(|m| m.topics.clone());
                for (topic, partitions) in &assignment.topics {
                    prop_assert!(subscribed.as_ref().is_some_and(|topics| topics.contains(topic)));
                    seen.extend(partitions.iter().map(|p| (topic.clone(), *p)));
                }
            }
            seen.sort();
            let mut expected: Vec<(String, i32)> = Vec::new();
            for (topic, count) in &all {
                if members.iter().any(|m| m.topics.contains(topic)) {
                    expected.extend((0..*count).map(|p| (topic.clone(), p.cast_signed())));
                }
            }
            prop_assert_eq!(seen, expected);
        }
    }
}
