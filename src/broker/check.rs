//! `barelog check`: whether this machine can run a broker, and what would make it run better.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Result, bail};
use dataplane::check::{Finding, Verdict, machine};
use dataplane::device::DeviceKind as FileKind;
use serde_json::json;

use crate::cli::CheckArgs;
use crate::config::{BrokerConfig, DeviceKind};

/// `barelog check`. Fails when a broker would not start like this.
pub(crate) fn check(args: &CheckArgs) -> Result<()> {
    let mut config = match &args.config {
        Some(path) => BrokerConfig::read(path)?,
        None => BrokerConfig::defaults(),
    };
    if args.config.is_none() {
        config.set_data_dir(args.data_dir.clone().unwrap_or_else(|| ".".into()));
    }
    let devices: Vec<(PathBuf, FileKind)> = config
        .devices
        .iter()
        .map(|device| {
            let kind = match device.kind {
                DeviceKind::File => FileKind::File,
                DeviceKind::Block => FileKind::Block,
            };
            (device.path.clone(), kind)
        })
        .collect();
    let profile = &config.profile;
    let arena_bytes = (profile.tail_bytes + profile.cold_bytes) * usize::from(profile.shards);
    let findings = machine(&devices, arena_bytes);
    print(&findings, args.json)?;
    let bad = findings.iter().filter(|finding| finding.verdict == Verdict::Bad).count();
    if bad > 0 {
        bail!("a broker would not start on this machine as it is: {bad} error(s) above");
    }
    Ok(())
}

fn print(findings: &[Finding], as_json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for Finding { subject, verdict, text } in findings {
        if as_json {
            writeln!(out, "{}", json!({"subject": subject, "verdict": verdict.to_string(), "text": text}))?;
        } else {
            writeln!(out, "{verdict:<8} {subject}: {text}")?;
        }
    }
    Ok(())
}
