//! The wiring of a broker as one table: threads, rings, memory. `barelog topology` prints it, and the composition root takes
//! its depths from here.

use std::fmt::Write as _;

use anyhow::Result;
use base::message::{ToControl, ToShard};
use dataplane::rings::RingDepths;
use dataplane::thread::ShardMessage;
use serde_json::json;

use crate::cli::TopologyArgs;
use crate::config::{BrokerConfig, Profile, broker::load_profile, keys::show_bytes};

/// Slots of the rings. Between a shard and the control plane: 1,024 requests wait there before connections are not read. Between
/// shards: 4,096, the most requests that a shard has with one neighbour.
pub const DEPTHS: RingDepths = RingDepths { control: 1024, shard: 4096 };

/// One thing with a size.
struct Row {
    what: String,
    from: String,
    to: String,
    slots: usize,
    bytes: u64,
}

/// `barelog topology`.
pub(crate) fn topology(args: &TopologyArgs) -> Result<()> {
    if let Some(address) = &args.metrics {
        return crate::cli::journals(address, args.json);
    }
    let mut config = match &args.config {
        Some(path) => BrokerConfig::read(path)?,
        None => BrokerConfig { profile: load_profile(&args.profile)?, ..BrokerConfig::defaults() },
    };
    if let Some(shards) = args.shards {
        config.profile.shards = shards;
    }
    config.check()?;
    let profile = &config.profile;
    let rows = rows(profile);
    let total: u64 = rows.iter().map(|row| row.bytes).sum();
    let mut text = String::new();
    if args.json {
        for row in &rows {
            let Row { what, from, to, slots, bytes } = row;
            writeln!(text, "{}", json!({"what": what, "from": from, "to": to, "slots": slots, "bytes": bytes}))?;
        }
    } else {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING).set_header(["what", "from", "to", "slots", "bytes"]);
        for row in &rows {
            let slots = if row.slots == 0 { String::new() } else { row.slots.to_string() };
            table.add_row([row.what.clone(), row.from.clone(), row.to.clone(), slots, show_bytes(row.bytes)]);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let mib = total.div_ceil(1 << 20);
        writeln!(text, "profile {}: {} shard(s), {mib} MiB in all", profile.name, profile.shards)?;
        for line in table.lines() {
            writeln!(text, "{}", line.trim_end())?;
        }
    }
    use std::io::Write as _;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn rows(profile: &Profile) -> Vec<Row> {
    let mut rows = Vec::new();
    let poll = if profile.busy_poll { "busy".into() } else { format!("adaptive, spins {} µs", profile.spin_us) };
    for shard in 0..profile.shards {
        let name = format!("shard {shard}");
        let core = if profile.pin { format!("core {shard}") } else { "any core".into() };
        let mut row = |what: &str, from: &str, to: &str, slots: usize, bytes: u64| {
            rows.push(Row { what: what.into(), from: from.into(), to: to.into(), slots, bytes });
        };
        row("thread", &name, &format!("{core}, {poll}"), 0, 0);
        row("io_uring", &name, "sockets, devices", dataplane::ring::SUBMISSIONS as usize, 0);
        row("arena: tail", &name, "", 0, profile.tail_bytes as u64);
        row("arena: cold reads", &name, "", 0, profile.cold_bytes as u64);
        row("receive buffers", "sockets", &name, 0, profile.receive_bytes as u64);
        row("footer cache", &name, "", 0, profile.footer_bytes as u64);
        row("clustering", &name, "", 0, profile.clustering_bytes as u64);
        row("compaction: keys", &name, "", 0, profile.compaction_bytes as u64);
        row("ring", &name, "control plane", DEPTHS.control, (DEPTHS.control * size_of::<ToControl>()) as u64);
        row("ring", "control plane", &name, DEPTHS.control, (DEPTHS.control * size_of::<ToShard>()) as u64);
        row("ring", &name, "keeper", dataplane::keeper::DEPTH, 0);
        for other in (0..profile.shards).filter(|other| *other != shard) {
            let bytes = (DEPTHS.shard * size_of::<ShardMessage>()) as u64;
            row("ring", &name, &format!("shard {other}"), DEPTHS.shard, bytes);
        }
    }
    let thread =
        |what: &str, to: &str| Row { what: what.into(), from: String::new(), to: to.into(), slots: 0, bytes: 0 };
    rows.push(thread("thread: keeper", "zero-fills extents, writes checkpoints"));
    rows.push(thread("thread: metadata", "the durable log of topics and settings"));
    rows.push(thread("threads: tokio", "groups, admin APIs, HTTP"));
    rows
}
