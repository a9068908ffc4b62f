//! Which APIs and versions this broker serves.

/// An API that this broker serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
#[expect(missing_docs, reason = "the variants are Kafka's names")]
pub enum ApiKey {
    Produce = 0,
    Fetch = 1,
    ListOffsets = 2,
    Metadata = 3,
    OffsetCommit = 8,
    OffsetFetch = 9,
    FindCoordinator = 10,
    JoinGroup = 11,
    Heartbeat = 12,
    LeaveGroup = 13,
    SyncGroup = 14,
    DescribeGroups = 15,
    ListGroups = 16,
    ApiVersions = 18,
    CreateTopics = 19,
    DeleteTopics = 20,
    DeleteRecords = 21,
    InitProducerId = 22,
    OffsetForLeaderEpoch = 23,
    DescribeAcls = 29,
    CreateAcls = 30,
    DeleteAcls = 31,
    DescribeConfigs = 32,
    AlterConfigs = 33,
    DescribeLogDirs = 35,
    CreatePartitions = 37,
    DeleteGroups = 42,
    IncrementalAlterConfigs = 44,
    OffsetDelete = 47,
    DescribeCluster = 60,
    DescribeProducers = 61,
    ConsumerGroupHeartbeat = 68,
    ConsumerGroupDescribe = 69,
    DescribeTopicPartitions = 75,
}

/// What is known of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    /// Which.
    pub key: ApiKey,
    /// Kafka's name.
    pub name: &'static str,
    /// Lowest version that ApiVersions offers.
    pub min: i16,
    /// Lowest version that is served; below it the answer is UNSUPPORTED_VERSION.
    pub served_min: i16,
    /// Highest version offered and served.
    pub max: i16,
    /// First version with compact lengths and tagged fields (KIP-482); `i16::MAX` for none.
    pub flexible: i16,
}

macro_rules! apis {
    ($($key:ident $min:literal..=$max:literal, flexible $flexible:expr;)*) => {
        /// Every API that this broker serves, by rising key: exactly what ApiVersions tells.
        pub const APIS: &[Api] = &[$(Api {
            key: ApiKey::$key,
            name: stringify!($key),
            min: $min,
            served_min: served_min(ApiKey::$key, $min),
            max: $max,
            flexible: $flexible,
        }),*];
    };
}

/// Produce 0–2 are offered only because librdkafka before 2.11.1 turns compression off when they are not
/// (KAFKA-18659); their message formats are gone.
const fn served_min(key: ApiKey, min: i16) -> i16 {
    if matches!(key, ApiKey::Produce) { 3 } else { min }
}

const NEVER: i16 = i16::MAX;

// Ranges of Kafka 4.4, without unstable versions.
apis! {
    Produce 0..=13, flexible 9;
    Fetch 4..=18, flexible 12;
    ListOffsets 1..=11, flexible 6;
    Metadata 0..=13, flexible 9;
    OffsetCommit 2..=10, flexible 8;
    OffsetFetch 1..=10, flexible 6;
    FindCoordinator 0..=6, flexible 3;
    JoinGroup 0..=9, flexible 6;
    Heartbeat 0..=4, flexible 4;
    LeaveGroup 0..=5, flexible 4;
    SyncGroup 0..=5, flexible 4;
    DescribeGroups 0..=6, flexible 5;
    ListGroups 0..=5, flexible 3;
    ApiVersions 0..=5, flexible 3;
    CreateTopics 2..=7, flexible 5;
    DeleteTopics 1..=6, flexible 4;
    DeleteRecords 0..=2, flexible 2;
    InitProducerId 0..=5, flexible 2;
    OffsetForLeaderEpoch 2..=4, flexible 4;
    DescribeAcls 1..=3, flexible 2;
    CreateAcls 1..=3, flexible 2;
    DeleteAcls 1..=3, flexible 2;
    DescribeConfigs 1..=4, flexible 4;
    AlterConfigs 0..=2, flexible 2;
    DescribeLogDirs 1..=5, flexible 2;
    CreatePartitions 0..=3, flexible 2;
    DeleteGroups 0..=3, flexible 2;
    IncrementalAlterConfigs 0..=1, flexible 1;
    OffsetDelete 0..=0, flexible NEVER;
    DescribeCluster 0..=2, flexible 0;
    DescribeProducers 0..=0, flexible 0;
    ConsumerGroupHeartbeat 0..=1, flexible 0;
    ConsumerGroupDescribe 0..=1, flexible 0;
    DescribeTopicPartitions 0..=0, flexible 0;
}

impl ApiKey {
    /// The API of a key on the wire; `None` for one that is not served.
    #[must_use]
    pub fn of(key: i16) -> Option<Self> {
        APIS.iter().map(|api| api.key).find(|&known| known as i16 == key)
    }

    /// What is known of it.
    ///
    /// # Panics
    /// Never: every key is in the table, which a test shows.
    #[must_use]
    pub fn info(self) -> &'static Api {
        APIS.iter().find(|api| api.key == self).expect("every key is in the table")
    }
}

impl Api {
    /// Whether this version is answered.
    #[must_use]
    pub const fn serves(&self, version: i16) -> bool {
        version >= self.served_min && version <= self.max
    }

    /// Whether this version has compact lengths and tagged fields.
    #[must_use]
    pub const fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_row_and_rows_rise() {
        assert!(APIS.windows(2).all(|pair| pair.first().map(|a| a.key) < pair.last().map(|a| a.key)));
        assert_eq!(APIS.len(), 34);
        for api in APIS {
            assert_eq!(ApiKey::of(api.key as i16), Some(api.key));
            assert_eq!(api.key.info(), api);
            assert!(api.min <= api.max && api.served_min >= api.min);
        }
        assert_eq!(ApiKey::of(24), None);
    }

    #[test]
    fn old_produce_versions_are_offered_but_not_served() {
        let produce = ApiKey::Produce.info();
        assert_eq!(produce.min, 0);
        assert!(!produce.serves(2) && produce.serves(3) && produce.serves(13) && !produce.serves(14));
    }
}
