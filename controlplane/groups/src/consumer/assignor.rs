//! The assignors of the broker: `uniform` and `range`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use base::TopicId;

use super::value::Partitions;

/// A way to spread partitions over members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Assignor {
    /// Even numbers of partitions, moving as few as that takes.
    Uniform,
    /// Consecutive partitions of each topic: topics with as many partitions and the same members go alike.
    Range,
}

/// All of them, the default first.
const ASSIGNORS: [(&str, Assignor); 2] = [("uniform", Assignor::Uniform), ("range", Assignor::Range)];

/// A member that partitions are given to.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    /// Its instance or member id: who comes first under `range`.
    pub(crate) name: &'a str,
    /// Whether it is a static member; those come first under `range`, so that a restart changes no order.
    pub(crate) is_static: bool,
    /// Topics it subscribes to. Members with the same subscription share one.
    pub(crate) topics: Arc<BTreeSet<TopicId>>,
    /// Its target so far.
    pub(crate) before: Option<&'a Partitions>,
}

impl Assignor {
    /// The one of that name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        ASSIGNORS.iter().find(|(known, _)| *known == name).map(|(_, assignor)| *assignor)
    }

    /// The one that most members ask for; the default when nobody asks, and where as many ask for another, the one listed
    /// first.
    pub(crate) fn preferred<'a>(asked: impl Iterator<Item = &'a str>) -> Self {
        let mut votes: BTreeMap<Self, usize> = BTreeMap::new();
        for assignor in asked.filter_map(Self::of) {
            *votes.entry(assignor).or_default() += 1;
        }
        let most = votes.values().copied().max();
        let first = votes.into_iter().find(|(_, count)| Some(*count) == most);
        first.map_or(Self::Uniform, |(assignor, _)| assignor)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        ASSIGNORS.iter().find(|(_, assignor)| *assignor == self).map_or("", |(name, _)| name)
    }

    /// A target for each member, in their order. `counts` has the partitions of every topic subscribed to; others are not
    /// given out.
    pub(crate) fn assign(self, members: &[Candidate<'_>], counts: &BTreeMap<TopicId, i32>) -> Vec<Partitions> {
        match self {
            Self::Uniform => uniform(members, counts),
            Self::Range => range(members, counts),
        }
    }
}

/// Each member keeps what it has as far as that is even; what is left goes to whoever has least.
fn uniform(members: &[Candidate<'_>], counts: &BTreeMap<TopicId, i32>) -> Vec<Partitions> {
    if members.is_empty() {
        return Vec::new();
    }
    let mut share = Share::keep(members, counts);
    let alike = members.windows(2).all(|pair| pair[0].topics == pair[1].topics);
    if alike {
        let all = members[0].topics.iter().filter_map(|topic| counts.get(topic));
        let all: usize = all.map(|count| usize::try_from(*count).unwrap_or(0)).sum();
        share.trim(all / members.len(), all % members.len());
        share.fill_alike(&members[0].topics, counts);
    } else {
        let subscribers = subscribers(members, counts);
        share.fill(&subscribers, counts);
        share.even_out(&subscribers);
    }
    share.targets
}

/// Topics with the members that subscribe to them, those with the fewest first: the others have more to choose from.
fn subscribers(members: &[Candidate<'_>], counts: &BTreeMap<TopicId, i32>) -> Vec<(TopicId, Vec<usize>)> {
    let mut topics: BTreeMap<TopicId, Vec<usize>> = BTreeMap::new();
    for (place, member) in members.iter().enumerate() {
        for topic in member.topics.iter().filter(|topic| counts.contains_key(topic)) {
            topics.entry(*topic).or_default().push(place);
        }
    }
    let mut topics: Vec<_> = topics.into_iter().collect();
    topics.sort_by_key(|(topic, members)| (members.len(), *topic));
    topics
}

/// Targets that are being made.
struct Share {
    targets: Vec<Partitions>,
    /// How many partitions each has.
    loads: Vec<usize>,
    given: BTreeSet<(TopicId, i32)>,
}

impl Share {
    /// Every member keeps what it has of topics that it subscribes to and that are there.
    fn keep(members: &[Candidate<'_>], counts: &BTreeMap<TopicId, i32>) -> Self {
        let mut share = Self {
            targets: members.iter().map(|_| Partitions::new()).collect(),
            loads: members.iter().map(|_| 0).collect(),
            given: BTreeSet::new(),
        };
        for (place, member) in members.iter().enumerate() {
            for (topic, indices) in
                member.before.into_iter().flatten().filter(|(topic, _)| member.topics.contains(topic))
            {
                let count = counts.get(topic).copied().unwrap_or(0);
                for index in indices.iter().filter(|index| **index < count) {
                    share.give(place, *topic, *index);
                }
            }
        }
        share
    }

    fn give(&mut self, place: usize, topic: TopicId, index: i32) {
        if self.given.insert((topic, index)) {
            self.targets[place].entry(topic).or_default().insert(index);
            self.loads[place] += 1;
        }
    }

    fn take_last(&mut self, place: usize, of: Option<TopicId>) -> Option<(TopicId, i32)> {
        let target = &mut self.targets[place];
        let topic = of.or_else(|| target.keys().next_back().copied())?;
        let indices = target.get_mut(&topic)?;
        let index = indices.pop_last()?;
        if indices.is_empty() {
            target.remove(&topic);
        }
        self.loads[place] -= 1;
        self.given.remove(&(topic, index));
        Some((topic, index))
    }

    /// Takes from each member what it has beyond `floor`; `extra` of them may have one more.
    fn trim(&mut self, floor: usize, mut extra: usize) {
        for place in 0..self.targets.len() {
            let mut most = floor;
            if self.loads[place] > floor && extra > 0 {
                extra -= 1;
                most += 1;
            }
            while self.loads[place] > most && self.take_last(place, None).is_some() {}
        }
    }

    /// Gives what is left to whoever has least, where all may have everything.
    fn fill_alike(&mut self, topics: &BTreeSet<TopicId>, counts: &BTreeMap<TopicId, i32>) {
        let mut by_load: BTreeSet<(usize, usize)> =
            self.loads.iter().enumerate().map(|(place, load)| (*load, place)).collect();
        for topic in topics {
            for index in 0..counts.get(topic).copied().unwrap_or(0) {
                if self.given.contains(&(*topic, index)) {
                    continue;
                }
                let Some((load, place)) = by_load.pop_first() else { return };
                self.give(place, *topic, index);
                by_load.insert((load + 1, place));
            }
        }
    }

    /// The same where subscriptions differ.
    fn fill(&mut self, subscribers: &[(TopicId, Vec<usize>)], counts: &BTreeMap<TopicId, i32>) {
        for (topic, members) in subscribers {
            for index in 0..counts.get(topic).copied().unwrap_or(0) {
                if !self.given.contains(&(*topic, index))
                    && let Some(least) = members.iter().copied().min_by_key(|place| (self.loads[*place], *place))
                {
                    self.give(least, *topic, index);
                }
            }
        }
    }

    /// Moves partitions from who has more to who has less. Each move makes the sum of the squared loads smaller: it ends.
    fn even_out(&mut self, subscribers: &[(TopicId, Vec<usize>)]) {
        let mut moved = true;
        while moved {
            moved = false;
            for (topic, members) in subscribers {
                loop {
                    let holders = members.iter().copied().filter(|place| self.targets[*place].contains_key(topic));
                    let most = holders.max_by_key(|place| (self.loads[*place], *place));
                    let least = members.iter().copied().min_by_key(|place| (self.loads[*place], *place));
                    let (Some(most), Some(least)) = (most, least) else { break };
                    if self.loads[most] <= self.loads[least] + 1 {
                        break;
                    }
                    let Some((topic, index)) = self.take_last(most, Some(*topic)) else { break };
                    self.give(least, topic, index);
                    moved = true;
                }
            }
        }
    }
}

fn range(members: &[Candidate<'_>], counts: &BTreeMap<TopicId, i32>) -> Vec<Partitions> {
    let mut targets: Vec<Partitions> = members.iter().map(|_| Partitions::new()).collect();
    for (topic, mut places) in subscribers(members, counts) {
        places.sort_by_key(|place| (!members[*place].is_static, members[*place].name));
        let count = counts.get(&topic).copied().unwrap_or(0);
        let among = i32::try_from(places.len()).unwrap_or(i32::MAX);
        let (floor, extra) = (count / among, count % among);
        let mut next = 0;
        for (place, turn) in places.into_iter().zip(0..) {
            let end = next + floor + i32::from(turn < extra);
            if end > next {
                targets[place].insert(topic, (next..end).collect());
            }
            next = end;
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn topics(ids: &[u128]) -> Arc<BTreeSet<TopicId>> {
        Arc::new(ids.iter().map(|id| TopicId(*id)).collect())
    }

    fn candidate<'a>(name: &'a str, ids: &[u128], before: Option<&'a Partitions>) -> Candidate<'a> {
        Candidate { name, is_static: false, topics: topics(ids), before }
    }

    fn counts(all: &[(u128, i32)]) -> BTreeMap<TopicId, i32> {
        all.iter().map(|(id, count)| (TopicId(*id), *count)).collect()
    }

    fn loads(targets: &[Partitions]) -> Vec<usize> {
        targets.iter().map(|target| target.values().map(BTreeSet::len).sum()).collect()
    }

    fn of(target: &Partitions, id: u128) -> Vec<i32> {
        target.get(&TopicId(id)).into_iter().flatten().copied().collect()
    }

    #[test]
    fn uniform_is_even_and_a_newcomer_takes_no_more_than_it_needs() {
        let counts = counts(&[(1, 7), (2, 2)]);
        let first = Assignor::Uniform.assign(&[candidate("a", &[1, 2], None)], &counts);
        assert_eq!(loads(&first), [9]);
        let members = [candidate("a", &[1, 2], Some(&first[0])), candidate("b", &[1, 2], None)];
        let second = Assignor::Uniform.assign(&members, &counts);
        assert_eq!(loads(&second), [5, 4]);
        let kept = second[0].iter().all(|(topic, indices)| indices.is_subset(&first[0][topic]));
        assert!(kept, "who was there is given nothing new: {second:?}");
        let members = [
            candidate("a", &[1, 2], Some(&second[0])),
            candidate("b", &[1, 2], Some(&second[1])),
            candidate("c", &[1, 2], None),
        ];
        let third = Assignor::Uniform.assign(&members, &counts);
        assert_eq!(loads(&third), [3, 3, 3]);
    }

    #[test]
    fn uniform_gives_each_partition_once_whatever_members_had_before() {
        let both = Partitions::from([(TopicId(1), (0..4).collect()), (TopicId(9), BTreeSet::from([0]))]);
        let members = [candidate("a", &[1], Some(&both)), candidate("b", &[1], Some(&both))];
        let targets = Assignor::Uniform.assign(&members, &counts(&[(1, 3)]));
        let mut all: Vec<i32> = targets.iter().flat_map(|target| of(target, 1)).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2], "neither twice, nor one that is not there");
        assert!(targets.iter().all(|target| of(target, 9).is_empty()), "not subscribed to");
    }

    #[test]
    fn uniform_evens_out_where_subscriptions_differ() {
        let counts = counts(&[(1, 4), (2, 4), (3, 4)]);
        let members = [candidate("a", &[1, 2, 3], None), candidate("b", &[3], None), candidate("c", &[2, 3], None)];
        let targets = Assignor::Uniform.assign(&members, &counts);
        assert_eq!(loads(&targets), [4, 4, 4], "{targets:?}");
        let all = Partitions::from([(TopicId(1), (0..4).collect()), (TopicId(3), (0..4).collect())]);
        let members = [candidate("a", &[1, 3], Some(&all)), candidate("b", &[3], None)];
        let targets = Assignor::Uniform.assign(&members, &counts);
        assert_eq!(loads(&targets), [4, 4]);
        assert_eq!(of(&targets[0], 1), [0, 1, 2, 3], "nobody else may have these");
    }

    #[test]
    fn range_gives_topics_of_one_size_alike_and_static_members_keep_their_place() {
        let counts = counts(&[(1, 5), (2, 5)]);
        let mut members = vec![candidate("m2", &[1, 2], None), candidate("m1", &[1, 2], None)];
        let targets = Assignor::Range.assign(&members, &counts);
        for id in [1, 2] {
            assert_eq!(of(&targets[1], id), [0, 1, 2]);
            assert_eq!(of(&targets[0], id), [3, 4]);
        }
        members.push(Candidate { is_static: true, ..candidate("z", &[1], None) });
        let targets = Assignor::Range.assign(&members, &counts);
        assert_eq!((of(&targets[2], 1), of(&targets[1], 1), of(&targets[0], 1)), (vec![0, 1], vec![2, 3], vec![4]));
        assert_eq!((of(&targets[1], 2), of(&targets[0], 2)), (vec![0, 1, 2], vec![3, 4]));
    }

    #[test]
    fn most_members_choose_the_assignor_and_the_default_wins_a_tie() {
        assert_eq!(Assignor::preferred([].into_iter()), Assignor::Uniform);
        assert_eq!(Assignor::preferred(["range"].into_iter()), Assignor::Range);
        assert_eq!(Assignor::preferred(["range", "uniform"].into_iter()), Assignor::Uniform);
        assert_eq!(Assignor::preferred(["range", "uniform", "range"].into_iter()), Assignor::Range);
        assert_eq!(Assignor::of("sticky"), None);
        assert_eq!(Assignor::Range.name(), "range");
    }
}
