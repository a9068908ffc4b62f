//! Administration: one call at a time, tried again while its error may pass.

use protocol::error::ErrorCode;
use protocol::messages::create_partitions_request::CreatePartitionsTopic;
use protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use protocol::messages::describe_configs_request::DescribeConfigsResource;
use protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use protocol::messages::{
    ConsumerGroupDescribeRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest,
    DeleteRecordsRequest, DeleteTopicsRequest, DescribeConfigsRequest, DescribeGroupsRequest, FindCoordinatorRequest,
    IncrementalAlterConfigsRequest, ListGroupsRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, Request,
};
use std::collections::BTreeMap;
use std::time::Duration;

use super::link::{Answer, Heard, Links, To};
use super::{Clock, Settings, until};
use crate::error::{Error, Result};
use crate::metadata::{Broker, Snapshot};
use crate::wire;

/// The resource type of topics in config requests.
const TOPIC: i8 = 2;
/// The source of a config that was set on the topic itself.
const SOURCE_TOPIC: i8 = 1;
/// Between two tries.
const BACKOFF: Duration = Duration::from_millis(100);

/// A topic to create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// Partitions; the broker's default when absent.
    pub partitions: Option<u32>,
    /// Replicas; the broker's default when absent.
    pub replicas: Option<u16>,
    /// Configuration: (key, value) each.
    pub configs: Vec<(String, String)>,
}

/// A configuration of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The key.
    pub name: String,
    /// The value; `None` where it is secret or not set.
    pub value: Option<String>,
    /// Set on the topic itself, not a default.
    pub is_set: bool,
    /// It cannot be changed.
    pub read_only: bool,
}

/// Which offset of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// That of the first record there is.
    Earliest,
    /// The end.
    Latest,
    /// That of the first record at or after this time in ms since 1970; −1 if there is none.
    Timestamp(i64),
}

/// Offsets by topic and partition.
pub type TopicOffsets = BTreeMap<(String, i32), i64>;

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its name.
    pub name: String,
    /// `consumer` for consumers.
    pub protocol_type: String,
    /// `Stable`, `Empty`, …; empty where the broker does not tell.
    pub state: String,
    /// `classic` or `consumer` (KIP-848); empty where the broker does not tell.
    pub kind: String,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The id the coordinator gave it.
    pub id: String,
    /// The static id, where it has one.
    pub instance: Option<String>,
    /// What it calls itself.
    pub client_id: String,
    /// Where it connects from.
    pub host: String,
    /// Topic → partitions.
    pub assignment: Vec<(String, Vec<i32>)>,
    /// Its epoch, in a consumer group (KIP-848).
    pub epoch: Option<i32>,
}

/// The epochs of a consumer group (KIP-848).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEpochs {
    /// Rises with members, subscriptions and topics.
    pub group: i32,
    /// For which the assignment was made that members come to.
    pub assignment: i32,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its name.
    pub name: String,
    /// `Stable`, `Empty`, `Dead`, …
    pub state: String,
    /// `consumer` for consumers.
    pub protocol_type: String,
    /// The assignor in use.
    pub protocol: String,
    /// Of a consumer group (KIP-848); none of a classic one.
    pub epochs: Option<GroupEpochs>,
    /// Who is in it.
    pub members: Vec<GroupMember>,
}

/// Administration of a cluster.
#[derive(Debug)]
pub struct Client {
    links: Links<u64>,
    clock: Clock,
    calls: u64,
    controller: Option<i32>,
}

impl Client {
    /// Connects and learns the brokers.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when none answers.
    pub fn connect(settings: Settings) -> Result<Self> {
        let clock = Clock::new();
        let mut client = Self { links: Links::new(settings, clock), clock, calls: 0, controller: None };
        client.metadata_once(Some(&[]))?;
        Ok(client)
    }

    /// The brokers and topics of the cluster: all, or those that are named (which are not created by asking).
    ///
    /// # Errors
    /// What keeps it from answering. Errors of single topics are in [`Snapshot::topics`].
    pub fn metadata(&mut self, topics: Option<&[&str]>) -> Result<Snapshot> {
        self.retry(|client| client.metadata_once(topics))
    }

    fn metadata_once(&mut self, topics: Option<&[&str]>) -> Result<Snapshot> {
        let request = MetadataRequest {
            topics: topics.map(|names| {
                names.iter().map(|name| MetadataRequestTopic { name: Some(name), ..Default::default() }).collect()
            }),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let snapshot =
            self.call(To::Any, &request, |answer| Ok(wire::snapshot(&answer.parse::<MetadataRequest<'_>>()?)))?;
        self.links.learn(snapshot.brokers.iter());
        self.controller = snapshot.controller;
        Ok(snapshot)
    }

    /// Creates topics; the outcome of each, in order.
    ///
    /// # Errors
    /// What keeps the broker from answering at all.
    pub fn create_topics(&mut self, topics: &[NewTopic]) -> Result<Vec<Result<()>>> {
        let new = topics.iter().map(|topic| CreatableTopic {
            name: &topic.name,
            num_partitions: topic.partitions.map_or(-1, |count| i32::try_from(count).unwrap_or(i32::MAX)),
            replication_factor: topic.replicas.map_or(-1, |count| i16::try_from(count).unwrap_or(i16::MAX)),
            configs: topic
                .configs
                .iter()
                .map(|(name, value)| CreatableTopicConfig { name, value: Some(value) })
                .collect(),
            ..CreatableTopic::default()
        });
        let request = CreateTopicsRequest {
            topics: new.collect(),
            timeout_ms: self.timeout_ms(),
            ..CreateTopicsRequest::default()
        };
        let found = self.controlled(&request, |answer| {
            let response = answer.parse::<CreateTopicsRequest<'_>>()?;
            Ok(response
                .topics
                .iter()
                .map(|t| (t.name.to_owned(), outcome("topic", t.name, t.error_code, t.error_message)))
                .collect())
        })?;
        Ok(in_order(found, topics.iter().map(|topic| topic.name.as_str()), "CreateTopics"))
    }

    /// Deletes topics; the outcome of each, in order.
    ///
    /// # Errors
    /// What keeps the broker from answering at all.
    pub fn delete_topics(&mut self, topics: &[&str]) -> Result<Vec<Result<()>>> {
        let request = DeleteTopicsRequest {
            topic_names: topics.to_vec(),
            timeout_ms: self.timeout_ms(),
            ..DeleteTopicsRequest::default()
        };
        let found = self.controlled(&request, |answer| {
            let response = answer.parse::<DeleteTopicsRequest<'_>>()?;
            Ok(response
                .responses
                .iter()
                .map(|t| {
                    let name = t.name.unwrap_or_default();
                    (name.to_owned(), outcome("topic", name, t.error_code, t.error_message))
                })
                .collect())
        })?;
        Ok(in_order(found, topics.iter().copied(), "DeleteTopics"))
    }

    /// Raises the number of a topic's partitions.
    ///
    /// # Errors
    /// The broker's error.
    pub fn create_partitions(&mut self, topic: &str, count: u32) -> Result<()> {
        let request = CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic {
                name: topic,
                count: i32::try_from(count).unwrap_or(i32::MAX),
                assignments: None,
            }],
            timeout_ms: self.timeout_ms(),
            ..CreatePartitionsRequest::default()
        };
        let found = self.controlled(&request, |answer| {
            let response = answer.parse::<CreatePartitionsRequest<'_>>()?;
            Ok(response
                .results
                .iter()
                .map(|t| (t.name.to_owned(), outcome("topic", t.name, t.error_code, t.error_message)))
                .collect())
        })?;
        in_order(found, std::iter::once(topic), "CreatePartitions").pop().unwrap_or(Ok(()))
    }

    /// The configuration of a topic.
    ///
    /// # Errors
    /// The broker's error.
    pub fn topic_configs(&mut self, topic: &str) -> Result<Vec<ConfigEntry>> {
        let request = DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type: TOPIC,
                resource_name: topic,
                configuration_keys: None,
            }],
            ..DescribeConfigsRequest::default()
        };
        self.retry(|client| {
            client.call(To::Any, &request, |answer| {
                let response = answer.parse::<DescribeConfigsRequest<'_>>()?;
                let mut entries = Vec::new();
                for result in &response.results {
                    outcome("topic", topic, result.error_code, result.error_message)?;
                    entries.extend(result.configs.iter().map(|config| ConfigEntry {
                        name: config.name.to_owned(),
                        value: config.value.filter(|_| !config.is_sensitive).map(str::to_owned),
                        is_set: config.config_source == SOURCE_TOPIC,
                        read_only: config.read_only,
                    }));
                }
                entries.sort_by(|a, b| a.name.cmp(&b.name));
                Ok(entries)
            })
        })
    }

    /// Changes the configuration of a topic: a value to set, or `None` to return to the default.
    ///
    /// # Errors
    /// The broker's error.
    pub fn alter_topic_configs(&mut self, topic: &str, changes: &[(&str, Option<&str>)]) -> Result<()> {
        let configs = changes.iter().map(|(name, value)| AlterableConfig {
            name,
            // 0 sets, 1 deletes.
            config_operation: i8::from(value.is_none()),
            value: *value,
        });
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: TOPIC,
                resource_name: topic,
                configs: configs.collect(),
            }],
            validate_only: false,
        };
        self.retry(|client| {
            client.call(client.controller(), &request, |answer| {
                let response = answer.parse::<IncrementalAlterConfigsRequest<'_>>()?;
                response.responses.iter().try_for_each(|r| outcome("topic", topic, r.error_code, r.error_message))
            })
        })
    }

    /// Deletes the records below an offset in each partition (−1: all there are). Gives the new first offsets.
    ///
    /// # Errors
    /// The first error of a partition.
    pub fn delete_records(&mut self, topic: &str, before: &[(i32, i64)]) -> Result<Vec<(i32, i64)>> {
        let timeout_ms = self.timeout_ms();
        let before: TopicOffsets = before.iter().map(|(p, offset)| ((topic.to_owned(), *p), *offset)).collect();
        let starts = self.by_leader(&before, |client, leader, parts| {
            let partitions =
                parts.iter().map(|(_, p, offset)| DeleteRecordsPartition { partition_index: *p, offset: *offset });
            let request = DeleteRecordsRequest {
                topics: vec![DeleteRecordsTopic { name: topic, partitions: partitions.collect() }],
                timeout_ms,
            };
            client.call(leader, &request, |answer| {
                let response = answer.parse::<DeleteRecordsRequest<'_>>()?;
                let parts = response.topics.iter().flat_map(|topic| &topic.partitions);
                Ok(parts.map(|p| (topic.to_owned(), p.partition_index, p.error_code, p.low_watermark)).collect())
            })
        })?;
        Ok(starts.into_iter().map(|((_, partition), offset)| (partition, offset)).collect())
    }

    /// Offsets of partitions: (topic, partition, which) each.
    ///
    /// # Errors
    /// The first error of a partition.
    pub fn list_offsets(&mut self, wanted: &[(&str, i32, OffsetSpec)]) -> Result<TopicOffsets> {
        let wanted: TopicOffsets = wanted
            .iter()
            .map(|(topic, partition, spec)| {
                let timestamp = match spec {
                    OffsetSpec::Latest => -1,
                    OffsetSpec::Earliest => -2,
                    OffsetSpec::Timestamp(at) => *at,
                };
                (((*topic).to_owned(), *partition), timestamp)
            })
            .collect();
        self.by_leader(&wanted, |client, leader, parts| {
            let request = wire::list_offsets(parts);
            client.call(leader, &request, |answer| {
                let response = answer.parse::<ListOffsetsRequest<'_>>()?;
                Ok(wire::listed(&response).map(|(t, p, code, offset)| (t.to_owned(), p, code, offset)).collect())
            })
        })
    }

    /// All groups of all brokers.
    ///
    /// # Errors
    /// What keeps a broker from answering.
    pub fn list_groups(&mut self) -> Result<Vec<ListedGroup>> {
        let brokers: Vec<i32> = self.metadata(Some(&[]))?.brokers.iter().map(|broker| broker.id).collect();
        let mut groups = Vec::new();
        for broker in brokers {
            groups.extend(self.retry(|client| {
                client.call(To::Broker(broker), &ListGroupsRequest::default(), |answer| {
                    let response = answer.parse::<ListGroupsRequest<'_>>()?;
                    outcome("broker", &broker.to_string(), response.error_code, None)?;
                    let listed = response.groups.iter().map(|group| ListedGroup {
                        name: group.group_id.to_owned(),
                        protocol_type: group.protocol_type.to_owned(),
                        state: group.group_state.to_owned(),
                        kind: group.group_type.to_owned(),
                    });
                    Ok(listed.collect::<Vec<_>>())
                })
            })?);
        }
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(groups)
    }

    /// A group and its members. One that nobody knows is `Dead`, as Kafka has it.
    ///
    /// # Errors
    /// The broker's error.
    pub fn describe_group(&mut self, group: &str) -> Result<GroupDescription> {
        let classic = self.describe_classic(group)?;
        if classic.state != "Dead" {
            return Ok(classic);
        }
        match self.describe_consumer(group) {
            // A broker without such groups has none of this name either.
            Err(Error::Unsupported { .. }) => Ok(classic),
            described => described,
        }
    }

    fn describe_consumer(&mut self, group: &str) -> Result<GroupDescription> {
        self.retry(|client| {
            let coordinator = client.coordinator(group)?;
            let request =
                ConsumerGroupDescribeRequest { group_ids: vec![group], ..ConsumerGroupDescribeRequest::default() };
            client.call(coordinator, &request, |answer| {
                let response = answer.parse::<ConsumerGroupDescribeRequest<'_>>()?;
                let missing =
                    || Error::Unexpected { api: "ConsumerGroupDescribe", reason: "the group is missing".to_owned() };
                let found = response.groups.first().ok_or_else(missing)?;
                if found.error_code == ErrorCode::GROUP_ID_NOT_FOUND {
                    return Ok(dead(group));
                }
                outcome("group", group, found.error_code, found.error_message)?;
                let members = found.members.iter().map(|member| GroupMember {
                    id: member.member_id.to_owned(),
                    instance: member.instance_id.map(str::to_owned),
                    client_id: member.client_id.to_owned(),
                    host: member.client_host.to_owned(),
                    assignment: {
                        let topics = member.assignment.topic_partitions.iter();
                        topics.map(|topic| (topic.topic_name.to_owned(), topic.partitions.clone())).collect()
                    },
                    epoch: Some(member.member_epoch),
                });
                Ok(GroupDescription {
                    name: group.to_owned(),
                    state: found.group_state.to_owned(),
                    protocol_type: "consumer".to_owned(),
                    protocol: found.assignor_name.to_owned(),
                    epochs: Some(GroupEpochs { group: found.group_epoch, assignment: found.assignment_epoch }),
                    members: members.collect(),
                })
            })
        })
    }

    fn describe_classic(&mut self, group: &str) -> Result<GroupDescription> {
        self.retry(|client| {
            let coordinator = client.coordinator(group)?;
            let request = DescribeGroupsRequest { groups: vec![group], ..DescribeGroupsRequest::default() };
            client.call(coordinator, &request, |answer| {
                let response = answer.parse::<DescribeGroupsRequest<'_>>()?;
                let missing = || Error::Unexpected { api: "DescribeGroups", reason: "the group is missing".to_owned() };
                let found = response.groups.first().ok_or_else(missing)?;
                if found.error_code == ErrorCode::GROUP_ID_NOT_FOUND {
                    return Ok(dead(group));
                }
                outcome("group", group, found.error_code, found.error_message)?;
                let members = found.members.iter().map(|member| GroupMember {
                    id: member.member_id.to_owned(),
                    instance: member.group_instance_id.map(str::to_owned),
                    client_id: member.client_id.to_owned(),
                    host: member.client_host.to_owned(),
                    // Other protocol types have assignments of their own kind.
                    assignment: crate::group::assignment(member.member_assignment).unwrap_or_default(),
                    epoch: None,
                });
                Ok(GroupDescription {
                    name: group.to_owned(),
                    state: found.group_state.to_owned(),
                    protocol_type: found.protocol_type.to_owned(),
                    protocol: found.protocol_data.to_owned(),
                    epochs: None,
                    members: members.collect(),
                })
            })
        })
    }

    /// Deletes a group that has no members, and its offsets.
    ///
    /// # Errors
    /// The broker's error.
    pub fn delete_group(&mut self, group: &str) -> Result<()> {
        self.retry(|client| {
            let coordinator = client.coordinator(group)?;
            let request = DeleteGroupsRequest { groups_names: vec![group] };
            client.call(coordinator, &request, |answer| {
                let response = answer.parse::<DeleteGroupsRequest<'_>>()?;
                response.results.iter().try_for_each(|r| outcome("group", group, r.error_code, r.error_message))
            })
        })
    }

    /// The offsets that a group committed, in all partitions or in these.
    ///
    /// # Errors
    /// The broker's error.
    pub fn committed(&mut self, group: &str, partitions: Option<&[(&str, i32)]>) -> Result<TopicOffsets> {
        let topics: Option<Vec<OffsetFetchRequestTopic<'_>>> = partitions.map(|partitions| {
            let topics = partitions.chunk_by(|a, b| a.0 == b.0).map(|of_topic| OffsetFetchRequestTopic {
                name: of_topic.first().map_or("", |part| part.0),
                partition_indexes: of_topic.iter().map(|part| part.1).collect(),
            });
            topics.collect()
        });
        self.retry(|client| {
            let coordinator = client.coordinator(group)?;
            let request =
                OffsetFetchRequest { group_id: group, topics: topics.clone(), ..OffsetFetchRequest::default() };
            client.call(coordinator, &request, |answer| {
                let response = answer.parse::<OffsetFetchRequest<'_>>()?;
                outcome("group", group, response.error_code, None)?;
                let mut offsets = TopicOffsets::new();
                for topic in &response.topics {
                    for partition in &topic.partitions {
                        outcome("group", group, partition.error_code, None)?;
                        if partition.committed_offset >= 0 {
                            let key = (topic.name.to_owned(), partition.partition_index);
                            offsets.insert(key, partition.committed_offset);
                        }
                    }
                }
                Ok(offsets)
            })
        })
    }

    /// Commits offsets for a group without members.
    ///
    /// # Errors
    /// The first error of a partition; NON_EMPTY_GROUP-like errors (UNKNOWN_MEMBER_ID) when it has members.
    pub fn commit_offsets(&mut self, group: &str, offsets: &TopicOffsets) -> Result<()> {
        let parts: Vec<(&str, i32, i64)> = offsets.iter().map(|((t, p), offset)| (t.as_str(), *p, *offset)).collect();
        self.retry(|client| {
            let coordinator = client.coordinator(group)?;
            let topics = parts.chunk_by(|a, b| a.0 == b.0).map(|of_topic| OffsetCommitRequestTopic {
                name: of_topic.first().map_or("", |part| part.0),
                partitions: of_topic
                    .iter()
                    .map(|part| OffsetCommitRequestPartition {
                        partition_index: part.1,
                        committed_offset: part.2,
                        committed_leader_epoch: -1,
                        committed_metadata: Some(""),
                    })
                    .collect(),
                ..Default::default()
            });
            let request = OffsetCommitRequest {
                group_id: group,
                generation_id_or_member_epoch: -1,
                member_id: "",
                group_instance_id: None,
                retention_time_ms: -1,
                topics: topics.collect(),
            };
            client.call(coordinator, &request, |answer| {
                let response = answer.parse::<OffsetCommitRequest<'_>>()?;
                let parts = response.topics.iter().flat_map(|topic| &topic.partitions);
                parts.into_iter().try_for_each(|part| outcome("group", group, part.error_code, None))
            })
        })
    }

    fn timeout_ms(&self) -> i32 {
        i32::try_from(self.links.settings().request_timeout.as_millis() * 9 / 10).unwrap_or(i32::MAX)
    }

    const fn controller(&self) -> To {
        match self.controller {
            Some(id) => To::Broker(id),
            None => To::Any,
        }
    }

    /// A call that the controller answers with an outcome for each of several things. All of them are asked for again while
    /// the controller is another broker.
    fn controlled<'q, R: Request<'q>>(
        &mut self,
        request: &R,
        read: impl Fn(&Answer<u64>) -> Result<Vec<(String, Result<()>)>>,
    ) -> Result<Vec<(String, Result<()>)>> {
        self.retry(|client| {
            let found = client.call(client.controller(), request, &read)?;
            let moved = found
                .iter()
                .any(|(_, result)| result.as_ref().is_err_and(|error| error.code() == Some(ErrorCode::NOT_CONTROLLER)));
            if moved {
                client.metadata_once(Some(&[]))?;
                return Err(Error::kafka(client.links.settings().bootstrap_text(), ErrorCode::NOT_CONTROLLER));
            }
            Ok(found)
        })
    }

    /// Asks the leaders of partitions, again and again while some have moved. `ask` gives (topic, partition, error, value)
    /// each.
    fn by_leader(
        &mut self,
        wanted: &TopicOffsets,
        mut ask: impl FnMut(&mut Self, To, &[(&str, i32, i64)]) -> Result<Vec<(String, i32, ErrorCode, i64)>>,
    ) -> Result<TopicOffsets> {
        let mut names: Vec<&str> = wanted.keys().map(|(topic, _)| topic.as_str()).collect();
        names.dedup();
        let mut found = TopicOffsets::new();
        self.retry(|client| {
            let snapshot = client.metadata_once(Some(&names))?;
            let mut asks: BTreeMap<i32, Vec<(&str, i32, i64)>> = BTreeMap::new();
            for ((topic, partition), value) in wanted.iter().filter(|(key, _)| !found.contains_key(*key)) {
                asks.entry(leader(&snapshot, topic, *partition)?).or_default().push((topic, *partition, *value));
            }
            for (broker, parts) in asks {
                for (topic, partition, code, value) in ask(client, To::Broker(broker), &parts)? {
                    outcome("partition", &format!("{topic}-{partition}"), code, None)?;
                    found.insert((topic, partition), value);
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn coordinator(&mut self, group: &str) -> Result<To> {
        let request = FindCoordinatorRequest { key: group, key_type: 0, coordinator_keys: vec![group] };
        let broker = self.call(To::Any, &request, |answer| {
            let response = answer.parse::<FindCoordinatorRequest<'_>>()?;
            let found = response.coordinators.first();
            let (code, message) =
                found.map_or((response.error_code, response.error_message), |f| (f.error_code, f.error_message));
            outcome("group", group, code, message)?;
            let (id, host, port) = found.map_or((response.node_id, response.host, response.port), |found| {
                (found.node_id, found.host, found.port)
            });
            let port = u16::try_from(port)
                .map_err(|_| Error::kafka(format!("group {group}"), ErrorCode::COORDINATOR_NOT_AVAILABLE))?;
            Ok(Broker { id, host: host.to_owned(), port })
        })?;
        self.links.learn(std::iter::once(&broker));
        Ok(To::Broker(broker.id))
    }

    /// Tries until it succeeds, fails for good, or [`Settings::call_timeout`] is over.
    fn retry<T>(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        let ms = u64::try_from(self.links.settings().call_timeout.as_millis()).unwrap_or(u64::MAX);
        let end = self.clock.now().plus_ms(ms);
        loop {
            match attempt(self) {
                Err(error) if worth_a_retry(&error) && self.clock.now() < end => std::thread::sleep(BACKOFF),
                other => return other,
            }
        }
    }

    fn call<'q, R: Request<'q>, T>(
        &mut self,
        to: To,
        request: &R,
        read: impl FnOnce(&Answer<u64>) -> Result<T>,
    ) -> Result<T> {
        self.calls += 1;
        let id = self.calls;
        let patience = self.links.settings().request_timeout;
        self.links.send(to, request, id, patience).map_err(|(_, error)| error)?;
        let end = self.clock.now().plus_ms(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX)).plus_ms(1000);
        loop {
            match self.links.hear(until(self.clock.now(), end)) {
                Some(Heard::Answer(answer)) if answer.token == id => {
                    let result = read(&answer);
                    self.links.recycle(answer.frame);
                    return result;
                }
                Some(Heard::Lost(tokens, error)) if tokens.contains(&id) => return Err(error),
                // The end of a connection that was not needed, or an answer that nobody waits for any more.
                Some(Heard::Answer(_) | Heard::Lost(..) | Heard::Wake) => {}
                None => {
                    let ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
                    return Err(Error::Timeout { what: R::KEY.info().name.to_owned(), ms });
                }
            }
        }
    }
}

/// UNKNOWN_TOPIC_OR_PARTITION passes only for clients that wait for a topic; here it is the answer. A broker that cannot be
/// reached is said so at once.
fn worth_a_retry(error: &Error) -> bool {
    match error {
        Error::Kafka { code, .. } => code.retriable() && code.0 != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
        // What is no answer of a broker will not be one the next time.
        Error::Disconnected { source, .. } => source.kind() != std::io::ErrorKind::InvalidData,
        _ => false,
    }
}

fn outcome(kind: &str, name: &str, code: ErrorCode, message: Option<&str>) -> Result<()> {
    if code.is_ok() {
        return Ok(());
    }
    Err(Error::Kafka { what: format!("{kind} {name}"), code, message: message.map(str::to_owned) })
}

fn in_order<'n>(
    mut found: Vec<(String, Result<()>)>,
    names: impl Iterator<Item = &'n str>,
    api: &'static str,
) -> Vec<Result<()>> {
    names
        .map(|name| match found.iter().position(|(of, _)| of == name) {
            Some(at) => found.swap_remove(at).1,
            None => Err(Error::Unexpected { api, reason: format!("it does not name {name}") }),
        })
        .collect()
}

fn leader(snapshot: &Snapshot, topic: &str, partition: i32) -> Result<i32> {
    let known = snapshot.topics.iter().find(|known| known.name == topic);
    let known = known.ok_or_else(|| Error::kafka(format!("topic {topic}"), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
    outcome("topic", topic, known.code, None)?;
    let count = u32::try_from(known.partitions.len()).unwrap_or(u32::MAX);
    let missing = || Error::NoPartition { topic: topic.to_owned(), partition, count };
    let known = known.partitions.iter().find(|known| known.index == partition).ok_or_else(missing)?;
    known.leader.ok_or_else(|| Error::kafka(format!("{topic}-{partition}"), ErrorCode::LEADER_NOT_AVAILABLE))
}

fn dead(group: &str) -> GroupDescription {
    GroupDescription {
        name: group.to_owned(),
        state: "Dead".to_owned(),
        protocol_type: String::new(),
        protocol: String::new(),
        epochs: None,
        members: Vec::new(),
    }
}
