//! The log: lines on standard error, their level changeable while the broker runs.

use std::fmt;
use std::io::IsTerminal as _;
use std::sync::Arc;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// Shape of the log's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A handle on the log's level: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,controlplane=debug`.
#[derive(Clone)]
pub struct LogLevel {
    handle: Arc<reload::Handle<EnvFilter, Registry>>,
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogLevel({})", self.get())
    }
}

impl LogLevel {
    /// The filter that holds now.
    #[must_use]
    pub fn get(&self) -> String {
        self.handle.with_current(ToString::to_string).unwrap_or_else(|error| error.to_string())
    }

    /// Puts another one in its place.
    ///
    /// # Errors
    /// It is no filter; the old one stays.
    pub fn set(&self, filter: &str) -> Result<(), String> {
        let filter = parse(filter)?;
        self.handle.reload(filter).map_err(|error| error.to_string())
    }
}

/// Whether the text is a filter.
///
/// # Errors
/// What is wrong with it.
pub fn check(filter: &str) -> Result<(), String> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    // The parser takes any word for the name of a module and an empty text for silence; neither is meant.
    let bare = filter.split(',').map(str::trim).filter(|part| !part.contains(['=', '[']));
    for word in bare {
        if !["off", "error", "warn", "info", "debug", "trace"].contains(&word.to_ascii_lowercase().as_str()) {
            return Err(format!("\"{word}\" is no level: use error, warn, info, debug or trace, or module=level"));
        }
    }
    EnvFilter::try_new(filter).map_err(|error| error.to_string())
}

fn layers(filter: &str) -> Result<(reload::Layer<EnvFilter, Registry>, LogLevel), String> {
    let (layer, handle) = reload::Layer::new(parse(filter)?);
    Ok((layer, LogLevel { handle: Arc::new(handle) }))
}

/// Starts the log on standard error with a first filter. Once per process.
///
/// # Errors
/// The filter is none, or a log runs already.
pub fn start(filter: &str, format: LogFormat) -> Result<LogLevel, String> {
    let (layer, level) = layers(filter)?;
    let registry = tracing_subscriber::registry().with(layer);
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let started = match format {
        LogFormat::Text => registry.with(lines).try_init(),
        LogFormat::Json => registry.with(lines.json()).try_init(),
    };
    started.map_err(|error| error.to_string())?;
    Ok(level)
}

/// A level that belongs to no running log, and the subscriber that obeys it.
#[cfg(test)]
pub(crate) fn detached(filter: &str) -> (impl tracing::Subscriber + use<>, LogLevel) {
    let (layer, level) = layers(filter).expect("a filter");
    (tracing_subscriber::registry().with(layer), level)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_level_changes_what_is_enabled_and_nonsense_changes_nothing() {
        let (subscriber, level) = super::detached("info");
        tracing::subscriber::with_default(subscriber, || {
            assert!(!tracing::enabled!(tracing::Level::DEBUG));
            level.set("debug").expect("a level");
            assert!(tracing::enabled!(tracing::Level::DEBUG));
            assert_eq!(level.get(), "debug");
            for nonsense in ["loud", "", "a=b=c", "info,x=loud"] {
                assert!(level.set(nonsense).is_err(), "{nonsense}");
            }
            assert_eq!(level.get(), "debug");
            level.set("warn,controlplane=trace").expect("a filter");
            assert!(tracing::enabled!(tracing::Level::TRACE));
        });
    }
}
