//! The broker's commands: run one, or say how this machine would run it.

mod check;
mod codecs;
mod groups;
mod inspect;
mod notify;
mod pump;
mod settings;
mod space;
mod start;
mod storage;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use controlplane::logging::{self, LogFormat, LogLevel};

use crate::cli::{DevArgs, LogArgs, ServeArgs};
use crate::config::{BrokerConfig, Listener, broker::load_profile};

pub(crate) use check::check;
pub(crate) use inspect::inspect;
pub(crate) use start::Running;

/// `barelog dev`.
pub(crate) fn dev(args: &DevArgs) -> Result<()> {
    let config = dev_config(args)?;
    run(config, log(&args.log, None)?)
}

fn dev_config(args: &DevArgs) -> Result<BrokerConfig> {
    let mut config = BrokerConfig::defaults();
    config.profile = load_profile(&args.profile)?;
    config.set_data_dir(args.data_dir.clone().unwrap_or_else(|| "barelog-data".into()));
    config.partitions = i32::try_from(args.partitions).context("--partitions is too large")?;
    if let Some(shards) = args.shards {
        config.profile.shards = shards;
    }
    config.http = args.metrics_listen;
    config.listeners = vec![listener(args.listen)];
    config.check()?;
    Ok(config)
}

fn listener(bind: SocketAddr) -> Listener {
    // A laptop's broker that listens everywhere is for containers on the same machine; they are told the loopback address.
    let host = if bind.ip().is_unspecified() { "127.0.0.1".into() } else { bind.ip().to_string() };
    Listener { name: "default".into(), bind, advertised: (host, bind.port()) }
}

/// `barelog serve`.
pub(crate) fn serve(args: &ServeArgs) -> Result<()> {
    let config = BrokerConfig::read(&args.config)?;
    if args.check_config {
        eprintln!("{}: no fault found", args.config.display());
        return Ok(());
    }
    let level = log(&args.log, Some(&config))?;
    for listener in config.listeners.iter().filter(|listener| !listener.bind.ip().is_loopback()) {
        tracing::warn!(
            listener = listener.name,
            address = %listener.bind,
            "everyone who reaches this address may read and write everything: there is no TLS, SASL or ACL yet"
        );
    }
    run(config, level)
}

/// Starts the log; flags come before the file.
fn log(args: &LogArgs, config: Option<&BrokerConfig>) -> Result<LogLevel> {
    let filter = args.filter.as_deref().or(config.map(|config| config.log_level.as_str())).unwrap_or("info");
    let json = args.log_json || config.is_some_and(|config| config.log_json);
    let format = if json { LogFormat::Json } else { LogFormat::Text };
    logging::start(filter, format).map_err(anyhow::Error::msg)
}

/// Serves until SIGTERM or SIGINT.
fn run(config: BrokerConfig, level: LogLevel) -> Result<()> {
    let running = start::start(config, level)?;
    notify::notify("READY=1");
    let signal = running.wait_for_signal()?;
    tracing::info!(signal, "stopping");
    notify::notify("STOPPING=1");
    running.stop();
    Ok(())
}

/// What `demo` may choose of its broker.
pub(crate) struct StartOptions {
    pub(crate) data_dir: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) metrics_listen: SocketAddr,
    pub(crate) shards: Option<u16>,
}

/// Starts a broker on the `laptop` profile inside this process, with a quiet log.
pub(crate) fn start(options: &StartOptions) -> Result<Running> {
    let args = LogArgs { filter: Some("warn".into()), log_json: false };
    let mut config = BrokerConfig::defaults();
    config.set_data_dir(options.data_dir.clone());
    if let Some(shards) = options.shards {
        config.profile.shards = shards;
    }
    config.http = options.metrics_listen;
    config.listeners = vec![listener(options.listen)];
    config.check()?;
    start::start(config, log(&args, None)?)
}
