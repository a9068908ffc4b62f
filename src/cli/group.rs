//! `barelog group`.

use client::driver::{OffsetSpec, TopicOffsets};
use client::{Client, Error};
use protocol::error::ErrorCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::common::{admin, all_done, explain, join, say, say_json, say_table};
use super::{GroupArgs, GroupCommand, ResetArgs, ResetTo, UsageError};

pub(crate) fn run(args: GroupArgs) -> anyhow::Result<()> {
    match args.command {
        GroupCommand::List { json, connect } => list(&mut admin(&connect)?, json),
        GroupCommand::Describe { groups, json, connect } => describe(&mut admin(&connect)?, &groups, json),
        GroupCommand::Delete { groups, connect } => {
            let mut admin = admin(&connect)?;
            let mut failures = Vec::new();
            for group in &groups {
                match admin.delete_group(group) {
                    Ok(()) => say(&format!("deleted group {group}"))?,
                    Err(error) => failures.push(error),
                }
            }
            all_done(failures)
        }
        GroupCommand::ResetOffsets(args) => reset(&args),
    }
}

fn list(admin: &mut Client, json: bool) -> anyhow::Result<()> {
    let groups = admin.list_groups().map_err(explain)?;
    if json {
        let rows = groups.iter().map(|group| {
            json!({
                "name": group.name, "state": group.state, "type": group.kind, "protocol_type": group.protocol_type,
            })
        });
        return say_json(&rows.collect());
    }
    let rows = groups.into_iter().map(|group| vec![group.name, group.state, group.kind, group.protocol_type]);
    say_table(&["GROUP", "STATE", "TYPE", "PROTOCOL"], rows)
}

fn describe(admin: &mut Client, groups: &[String], json: bool) -> anyhow::Result<()> {
    let mut described = Vec::new();
    for group in groups {
        described.push(describe_one(admin, group)?);
    }
    if json {
        return say_json(&Value::Array(described));
    }
    for (index, group) in described.iter().enumerate() {
        if index > 0 {
            say("")?;
        }
        print_group(group)?;
    }
    Ok(())
}

fn describe_one(admin: &mut Client, name: &str) -> anyhow::Result<Value> {
    let group = admin.describe_group(name).map_err(explain)?;
    let committed = admin.committed(name, None).map_err(explain)?;
    if group.state == "Dead" && committed.is_empty() {
        return Err(explain(Error::kafka(format!("group {name}"), ErrorCode::GROUP_ID_NOT_FOUND)));
    }
    // What is assigned but not yet committed is shown too.
    let mut rows: BTreeMap<(String, i32), (Option<i64>, Option<String>)> =
        committed.into_iter().map(|(key, offset)| (key, (Some(offset), None))).collect();
    for member in &group.members {
        for (topic, partitions) in &member.assignment {
            for partition in partitions {
                rows.entry((topic.clone(), *partition)).or_default().1 = Some(member.id.clone());
            }
        }
    }
    let keys: Vec<(&str, i32)> = rows.keys().map(|(topic, partition)| (topic.as_str(), *partition)).collect();
    let ends = ends(admin, &keys, OffsetSpec::Latest)?;
    let offsets: Vec<Value> = rows
        .iter()
        .map(|(key, (offset, member))| {
            let end = ends.get(key).copied();
            let lag = end.zip(*offset).map(|(end, offset)| (end - offset).max(0));
            json!({
                "topic": key.0, "partition": key.1, "offset": offset, "end_offset": end, "lag": lag, "member": member,
            })
        })
        .collect();
    let members: Vec<Value> = group
        .members
        .iter()
        .map(|member| {
            let assignment: serde_json::Map<String, Value> =
                member.assignment.iter().map(|(topic, partitions)| (topic.clone(), json!(partitions))).collect();
            json!({
                "id": member.id, "instance_id": member.instance, "client_id": member.client_id, "host": member.host,
                "assignment": assignment, "epoch": member.epoch,
            })
        })
        .collect();
    let epochs = group.epochs.map(|epochs| json!({ "group": epochs.group, "assignment": epochs.assignment }));
    let kind = match (group.state.as_str(), epochs.is_some()) {
        ("Dead", _) => "",
        (_, true) => "consumer",
        (_, false) => "classic",
    };
    Ok(json!({
        "name": group.name, "state": group.state, "type": kind, "epochs": epochs, "protocol_type": group.protocol_type, "assignor": group.protocol,
        "members": members, "offsets": offsets,
    }))
}

/// Offsets of the partitions that (still) exist.
fn ends(admin: &mut Client, keys: &[(&str, i32)], spec: OffsetSpec) -> anyhow::Result<TopicOffsets> {
    let mut names: Vec<&str> = keys.iter().map(|key| key.0).collect();
    names.dedup();
    if names.is_empty() {
        return Ok(TopicOffsets::new());
    }
    let snapshot = admin.metadata(Some(&names)).map_err(explain)?;
    let wanted: Vec<(&str, i32, OffsetSpec)> = keys
        .iter()
        .filter(|(topic, partition)| {
            let topic = snapshot.topics.iter().find(|known| known.name == *topic);
            let partitions = topic.map(|topic| topic.partitions.as_slice()).unwrap_or_default();
            partitions.iter().any(|known| known.index == *partition && known.leader.is_some())
        })
        .map(|(topic, partition)| (*topic, *partition, spec))
        .collect();
    admin.list_offsets(&wanted).map_err(explain)
}

fn print_group(group: &Value) -> anyhow::Result<()> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let members = list(&group["members"]);
    let plural = if members.len() == 1 { "" } else { "s" };
    let (name, state, kind) = (text(&group["name"]), text(&group["state"]), text(&group["type"]));
    let kind = if kind.is_empty() { String::new() } else { format!(", {kind}") };
    let epochs = match &group["epochs"] {
        Value::Null => String::new(),
        epochs => format!(
            ", epoch {}, assigned by {} for epoch {}",
            epochs["group"],
            text(&group["assignor"]),
            epochs["assignment"]
        ),
    };
    say(&format!("group {name}, {state}{kind}, {} member{plural}{epochs}", members.len()))?;
    let columns = ["topic", "partition", "offset", "end_offset", "lag", "member"];
    let rows = list(&group["offsets"]).into_iter().map(|row| columns.map(|name| text(&row[name])).to_vec());
    say_table(&["TOPIC", "PARTITION", "OFFSET", "END", "LAG", "MEMBER"], rows)?;
    if members.is_empty() {
        return Ok(());
    }
    let rows = members.into_iter().map(|member| {
        let assignment: BTreeMap<String, Vec<i32>> =
            serde_json::from_value(member["assignment"].clone()).unwrap_or_default();
        let assignment: Vec<String> =
            assignment.iter().map(|(topic, partitions)| format!("{topic}:{}", join(partitions))).collect();
        let columns = ["id", "instance_id", "client_id", "host", "epoch"];
        let mut row = columns.map(|name| text(&member[name])).to_vec();
        row.push(assignment.join(" "));
        row
    });
    say("")?;
    say_table(&["MEMBER", "INSTANCE", "CLIENT", "HOST", "EPOCH", "PARTITIONS"], rows)
}

fn reset(args: &ResetArgs) -> anyhow::Result<()> {
    let chosen = args.topic.iter().map(|text| parse_topic(text)).collect::<Result<Vec<_>, _>>()?;
    let mut admin = admin(&args.connect)?;
    let group = admin.describe_group(&args.group).map_err(explain)?;
    if !group.members.is_empty() {
        let (count, state) = (group.members.len(), &group.state);
        anyhow::bail!(
            "group {} is {state} with members ({count}): stop them first, they would commit over it",
            args.group
        );
    }
    let committed = admin.committed(&args.group, None).map_err(explain)?;
    let keys = if chosen.is_empty() {
        if committed.is_empty() {
            anyhow::bail!("group {} has committed no offsets: name the topics with --topic", args.group);
        }
        committed.keys().cloned().collect()
    } else {
        partitions(&mut admin, &chosen)?
    };
    let targets = targets(&mut admin, &keys, &committed, &args.to)?;
    if !args.dry_run {
        admin.commit_offsets(&args.group, &targets).map_err(explain)?;
    }
    let rows = targets.iter().map(|(key, to)| (key, committed.get(key).copied(), *to));
    if args.json {
        let rows = rows.map(|(key, from, to)| json!({ "topic": key.0, "partition": key.1, "from": from, "to": to }));
        return say_json(&rows.collect());
    }
    let rows = rows.map(|(key, from, to)| {
        let from = from.map_or_else(|| "-".to_owned(), |from| from.to_string());
        vec![key.0.clone(), key.1.to_string(), from, to.to_string()]
    });
    say_table(&["TOPIC", "PARTITION", "FROM", if args.dry_run { "WOULD BE" } else { "TO" }], rows)
}

/// `topic` or `topic:0,1`.
fn parse_topic(text: &str) -> Result<(String, Vec<i32>), UsageError> {
    let Some((topic, partitions)) = text.rsplit_once(':') else { return Ok((text.to_owned(), Vec::new())) };
    let partitions: Option<Vec<i32>> =
        partitions.split(',').map(|number| number.parse().ok().filter(|number| *number >= 0)).collect();
    let error = || UsageError(format!("--topic {text}: expected TOPIC or TOPIC:0,1,2"));
    Ok((topic.to_owned(), partitions.ok_or_else(error)?))
}

fn partitions(admin: &mut Client, chosen: &[(String, Vec<i32>)]) -> anyhow::Result<Vec<(String, i32)>> {
    let mut keys = Vec::new();
    for (name, wanted) in chosen {
        let topic = super::topic::known_topic(admin, name)?;
        let all: Vec<i32> = topic.partitions.iter().map(|partition| partition.index).collect();
        if let Some(missing) = wanted.iter().find(|partition| !all.contains(partition)) {
            anyhow::bail!("topic {name} has no partition {missing} (it has {})", all.len());
        }
        let partitions = if wanted.is_empty() { &all } else { wanted };
        keys.extend(partitions.iter().map(|partition| (name.clone(), *partition)));
    }
    Ok(keys)
}

fn targets(
    admin: &mut Client,
    keys: &[(String, i32)],
    committed: &TopicOffsets,
    to: &ResetTo,
) -> anyhow::Result<TopicOffsets> {
    let keys: Vec<(&str, i32)> = keys.iter().map(|(topic, partition)| (topic.as_str(), *partition)).collect();
    let starts = ends(admin, &keys, OffsetSpec::Earliest)?;
    let finishes = ends(admin, &keys, OffsetSpec::Latest)?;
    let times = match to.to_timestamp {
        Some(at) => ends(admin, &keys, OffsetSpec::Timestamp(at))?,
        None => TopicOffsets::new(),
    };
    let mut targets = TopicOffsets::new();
    for (key, start) in &starts {
        let Some(end) = finishes.get(key).copied() else { continue };
        let wanted = if to.to_earliest {
            *start
        } else if to.to_latest {
            end
        } else if let Some(offset) = to.to_offset {
            offset
        } else if let Some(by) = to.shift {
            let from = committed.get(key).copied();
            let from = from.ok_or_else(|| {
                anyhow::anyhow!(
                    "{}-{} has no committed offset to shift; use --to-earliest or --to-latest",
                    key.0,
                    key.1
                )
            })?;
            from.saturating_add(by)
        } else {
            // −1: no record is that young.
            times.get(key).copied().filter(|offset| *offset >= 0).unwrap_or(end)
        };
        let within = wanted.clamp(*start, end.max(*start));
        if within != wanted {
            eprintln!("barelog: {}-{} holds offsets {start} to {end}: {wanted} becomes {within}", key.0, key.1);
        }
        targets.insert(key.clone(), within);
    }
    if targets.is_empty() {
        anyhow::bail!("none of the partitions exists any more");
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn topics_may_name_partitions() {
        assert_eq!(parse_topic("orders").unwrap(), ("orders".into(), vec![]));
        assert_eq!(parse_topic("orders:0,3").unwrap(), ("orders".into(), vec![0, 3]));
        assert!(parse_topic("orders:").is_err());
        assert!(parse_topic("orders:-1").is_err());
        assert!(parse_topic("orders:x").is_err());
    }
}
