//! `barelog topic`.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use client::driver::{NewTopic, OffsetSpec};
use client::metadata::{Partition, Topic};
use client::{Client, Error};
use controlplane::http::{DamageReport, DamageRow};
use controlplane::moves::view::{JournalRow, JournalsReport, MoveRequest, MoveRow, MovesReport};
use protocol::error::ErrorCode;
use serde_json::{Value, json};

use super::common::{admin, all_done, explain, grouped, join, say, say_json, say_table};
use super::{TopicArgs, TopicCommand, UsageError};

pub(crate) fn run(args: TopicArgs) -> anyhow::Result<()> {
    match args.command {
        TopicCommand::Create { topics, partitions, replication_factor, config, if_not_exists, connect } => {
            if partitions == Some(0) {
                return Err(UsageError("--partitions must be at least 1".into()).into());
            }
            let new: Vec<NewTopic> = topics
                .into_iter()
                .map(|name| NewTopic { name, partitions, replicas: replication_factor, configs: config.clone() })
                .collect();
            create(&mut admin(&connect)?, &new, if_not_exists)
        }
        TopicCommand::List { internal, json, connect } => list(&mut admin(&connect)?, internal, json),
        TopicCommand::Describe { topics, all_configs, json, connect } => {
            describe(&mut admin(&connect)?, &topics, all_configs, json)
        }
        TopicCommand::Alter { topic, config, unset, partitions, delete_before, connect } => {
            if config.is_empty() && unset.is_empty() && partitions.is_none() && delete_before.is_empty() {
                let text = "nothing to alter: give --config, --unset, --partitions or --delete-before";
                return Err(UsageError(text.into()).into());
            }
            let mut admin = admin(&connect)?;
            alter_configs(&mut admin, &topic, &config, &unset)?;
            if let Some(count) = partitions {
                admin.create_partitions(&topic, count).map_err(explain)?;
                say(&format!("topic {topic} has {count} partitions"))?;
            }
            if !delete_before.is_empty() {
                for (partition, start) in admin.delete_records(&topic, &delete_before).map_err(explain)? {
                    say(&format!("{topic}-{partition} begins at offset {start}"))?;
                }
            }
            Ok(())
        }
        TopicCommand::Damage { topics, metrics, json } => damage(&topics, &metrics, json),
        TopicCommand::Move { partition, to_journal, no_wait, metrics, json } => match partition.zip(to_journal) {
            Some(((topic, partition), journal)) => {
                move_partition(MoveRequest { topic, partition, journal }, &metrics, !no_wait)
            }
            None => moving(&metrics, json),
        },
        TopicCommand::Delete { topics, if_exists, connect } => delete(&mut admin(&connect)?, &topics, if_exists),
    }
}

fn create(admin: &mut Client, new: &[NewTopic], if_not_exists: bool) -> anyhow::Result<()> {
    let mut failures = Vec::new();
    for (topic, result) in new.iter().zip(admin.create_topics(new).map_err(explain)?) {
        match result {
            Ok(()) => say(&format!("created topic {}", topic.name))?,
            Err(error) if if_not_exists && error.code() == Some(ErrorCode::TOPIC_ALREADY_EXISTS) => {
                say(&format!("topic {} exists", topic.name))?;
            }
            Err(error) => failures.push(error),
        }
    }
    all_done(failures)
}

fn delete(admin: &mut Client, topics: &[String], if_exists: bool) -> anyhow::Result<()> {
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let mut failures = Vec::new();
    for (topic, result) in topics.iter().zip(admin.delete_topics(&names).map_err(explain)?) {
        match result {
            Ok(()) => say(&format!("deleted topic {topic}"))?,
            Err(error) if if_exists && error.code() == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => {
                say(&format!("topic {topic} does not exist"))?;
            }
            Err(error) => failures.push(error),
        }
    }
    all_done(failures)
}

fn alter_configs(admin: &mut Client, topic: &str, config: &[(String, String)], unset: &[String]) -> anyhow::Result<()> {
    let set = config.iter().map(|(key, value)| (key.as_str(), Some(value.as_str())));
    let changes: Vec<(&str, Option<&str>)> = set.chain(unset.iter().map(|key| (key.as_str(), None))).collect();
    if changes.is_empty() {
        return Ok(());
    }
    admin.alter_topic_configs(topic, &changes).map_err(explain)?;
    for (key, value) in changes {
        match value {
            Some(value) => say(&format!("set {key}={value} on topic {topic}"))?,
            None => say(&format!("returned {key} to its default on topic {topic}"))?,
        }
    }
    Ok(())
}

fn list(admin: &mut Client, internal: bool, json: bool) -> anyhow::Result<()> {
    let mut topics = admin.metadata(None).map_err(explain)?.topics;
    topics.retain(|topic| internal || !topic.internal);
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    let replicas = |topic: &Topic| topic.partitions.iter().map(|partition| partition.replicas.len()).max().unwrap_or(0);
    if json {
        let rows = topics.iter().map(|topic| {
            json!({
                "name": topic.name,
                "partitions": topic.partitions.len(),
                "replication_factor": replicas(topic),
                "internal": topic.internal,
            })
        });
        return say_json(&rows.collect());
    }
    let rows = topics
        .iter()
        .map(|topic| vec![topic.name.clone(), topic.partitions.len().to_string(), replicas(topic).to_string()]);
    say_table(&["TOPIC", "PARTITIONS", "REPLICAS"], rows)
}

fn describe(admin: &mut Client, names: &[String], all_configs: bool, json: bool) -> anyhow::Result<()> {
    let mut described = Vec::new();
    for name in names {
        let known = known_topic(admin, name)?;
        described.push(describe_one(admin, &known, all_configs)?);
    }
    if json {
        return say_json(&Value::Array(described));
    }
    for (index, topic) in described.iter().enumerate() {
        if index > 0 {
            say("")?;
        }
        print_topic(topic)?;
    }
    Ok(())
}

fn damage(topics: &[String], address: &str, json: bool) -> anyhow::Result<()> {
    let body = super::http::get(address, "/damage")
        .with_context(|| format!("cannot ask http://{address}/damage; --metrics names another address"))?;
    let mut report: DamageReport = serde_json::from_str(&body).context("the answer is none of a Barelog broker's")?;
    report.ranges.retain(|row| topics.is_empty() || topics.contains(&row.topic));
    if !report.complete {
        eprintln!("barelog: a part of the broker does not answer; there may be more");
    }
    if json {
        return say_json(&serde_json::to_value(&report.ranges)?);
    }
    let row = |row: &DamageRow| {
        vec![row.topic.clone(), row.partition.to_string(), row.first.to_string(), row.next.to_string()]
    };
    say_table(&["TOPIC", "PARTITION", "FIRST", "NEXT"], report.ranges.iter().map(row))
}

/// How often is asked whether a partition has come where it goes, and for how long.
const MOVE_ASK_EVERY: Duration = Duration::from_millis(50);
const MOVE_ASK_FOR: Duration = Duration::from_secs(60);

fn moves_of(address: &str) -> anyhow::Result<MovesReport> {
    let body = super::http::get(address, "/moves")
        .with_context(|| format!("cannot ask http://{address}/moves; --metrics names another address"))?;
    serde_json::from_str(&body).context("the answer is none of a Barelog broker's")
}

fn move_partition(request: MoveRequest, address: &str, wait: bool) -> anyhow::Result<()> {
    let MoveRequest { topic, partition, journal } = &request;
    let before = moves_of(address)?;
    super::http::post(address, "/moves", &serde_json::to_string(&request)?)
        .with_context(|| format!("{topic}-{partition} cannot move to journal {journal}"))?;
    if !wait {
        return say(&format!("{topic}-{partition} is on its way to journal {journal}"));
    }
    let until = Instant::now() + MOVE_ASK_FOR;
    loop {
        let report = moves_of(address)?;
        let on_its_way = report.moving.iter().any(|row| (&row.topic, &row.partition) == (topic, partition));
        if !on_its_way {
            anyhow::ensure!(
                report.cancelled == before.cancelled,
                "{topic}-{partition} stays where it is: the broker's log says why"
            );
            return say(&format!("{topic}-{partition} is in journal {journal}"));
        }
        anyhow::ensure!(
            Instant::now() < until,
            "{topic}-{partition} is still on its way to journal {journal}; `barelog topic move` shows what is"
        );
        std::thread::sleep(MOVE_ASK_EVERY);
    }
}

fn moving(address: &str, json: bool) -> anyhow::Result<()> {
    let report = moves_of(address)?;
    if json {
        return say_json(&serde_json::to_value(&report)?);
    }
    if report.topics_waiting > 0 {
        eprintln!("barelog: {} topics are looked at when there is room for more moves", report.topics_waiting);
    }
    let row =
        |row: &MoveRow| vec![row.topic.clone(), row.partition.to_string(), row.from.to_string(), row.to.to_string()];
    say_table(&["TOPIC", "PARTITION", "FROM", "TO"], report.moving.iter().map(row))
}

/// The journals of a broker, for `barelog topology --metrics`.
pub(crate) fn journals(address: &str, json: bool) -> anyhow::Result<()> {
    let body = super::http::get(address, "/journals")
        .with_context(|| format!("cannot ask http://{address}/journals; --metrics names another address"))?;
    let report: JournalsReport = serde_json::from_str(&body).context("the answer is none of a Barelog broker's")?;
    if json {
        return say_json(&serde_json::to_value(&report.journals)?);
    }
    let row = |row: &JournalRow| {
        let numbers = [row.partitions as u64, row.left as u64, row.bytes, row.written_bytes].map(grouped);
        let place = [row.journal.to_string(), row.class.clone(), row.shard.to_string(), row.device.clone()];
        [place, numbers].concat()
    };
    let header = ["JOURNAL", "CLASS", "SHARD", "DEVICE", "PARTITIONS", "LEFT", "BYTES", "WRITTEN"];
    say_table(&header, report.journals.iter().map(row))
}

/// A topic that is there.
pub(crate) fn known_topic(admin: &mut Client, name: &str) -> anyhow::Result<Topic> {
    let snapshot = admin.metadata(Some(&[name])).map_err(explain)?;
    let topic = snapshot.topics.into_iter().find(|topic| topic.name == name);
    let topic = topic.with_context(|| format!("the broker says nothing of topic {name}"))?;
    match topic.code {
        ErrorCode::NONE => Ok(topic),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
            anyhow::bail!("topic {name} does not exist; `barelog topic create {name}` creates it")
        }
        code => Err(explain(Error::kafka(format!("topic {name}"), code))),
    }
}

fn describe_one(admin: &mut Client, topic: &Topic, all_configs: bool) -> anyhow::Result<Value> {
    // A partition without a leader has no offsets to tell.
    let led: Vec<i32> = topic.partitions.iter().filter(|p| p.leader.is_some()).map(|p| p.index).collect();
    let mut offsets = |spec| {
        let wanted: Vec<(&str, i32, OffsetSpec)> = led.iter().map(|p| (topic.name.as_str(), *p, spec)).collect();
        admin.list_offsets(&wanted).map_err(explain)
    };
    let (starts, ends) = (offsets(OffsetSpec::Earliest)?, offsets(OffsetSpec::Latest)?);
    let of = |offsets: &client::driver::TopicOffsets, partition: &Partition| {
        offsets.get(&(topic.name.clone(), partition.index)).copied()
    };
    let partitions: Vec<Value> = topic
        .partitions
        .iter()
        .map(|partition| {
            json!({
                "partition": partition.index,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": partition.replicas,
                "in_sync": partition.in_sync,
                "start_offset": of(&starts, partition),
                "end_offset": of(&ends, partition),
            })
        })
        .collect();
    let configs = admin.topic_configs(&topic.name).map_err(explain)?;
    let configs: Vec<Value> = configs
        .iter()
        .filter(|config| all_configs || config.is_set)
        .map(|config| json!({ "name": config.name, "value": config.value, "set": config.is_set }))
        .collect();
    Ok(json!({
        "name": topic.name,
        "id": format!("{:032x}", topic.id),
        "internal": topic.internal,
        "partitions": partitions,
        "configs": configs,
    }))
}

fn print_topic(topic: &Value) -> anyhow::Result<()> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let numbers = |value: &Value| {
        let numbers: Vec<i32> = serde_json::from_value(value.clone()).unwrap_or_default();
        join(&numbers)
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    say(&format!("topic {}, id {}", text(&topic["name"]), text(&topic["id"])))?;
    for config in list(&topic["configs"]) {
        let how = if config["set"] == true { "" } else { " (default)" };
        say(&format!("  {}={}{how}", text(&config["name"]), text(&config["value"])))?;
    }
    let rows = list(&topic["partitions"]).into_iter().map(|partition| {
        let columns = ["partition", "leader", "leader_epoch"].map(|name| text(&partition[name]));
        let offsets = ["start_offset", "end_offset"].map(|name| text(&partition[name]));
        let replicas = ["replicas", "in_sync"].map(|name| numbers(&partition[name]));
        [&columns[..], &replicas[..], &offsets[..]].concat()
    });
    say_table(&["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN-SYNC", "START", "END"], rows)
}
