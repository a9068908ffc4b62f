//! What client commands share: connecting, explaining errors, tables.

use client::{Client, Error, Settings};
use std::io::Write as _;

use super::{Codec, Connect, UsageError};

/// The settings of a command's client.
pub(crate) fn settings(connect: &Connect) -> anyhow::Result<Settings> {
    let mut settings =
        Settings::new(&connect.bootstrap).map_err(|error| UsageError(format!("--bootstrap: {error}")))?;
    settings.request_timeout = connect.timeout;
    settings.call_timeout = connect.timeout;
    settings.connect_timeout = settings.connect_timeout.min(connect.timeout);
    Ok(settings)
}

/// Connects for administration.
pub(crate) fn admin(connect: &Connect) -> anyhow::Result<Client> {
    Client::connect(settings(connect)?).map_err(explain)
}

/// An error with what to do about it, where that is known.
pub(crate) fn explain(error: Error) -> anyhow::Error {
    match error {
        Error::Unreachable { ref source, .. } if source.kind() == std::io::ErrorKind::ConnectionRefused => {
            anyhow::anyhow!("{error}; is a broker running? `barelog dev` starts one, --bootstrap names another")
        }
        other => other.into(),
    }
}

impl From<Codec> for protocol::batch::Codec {
    fn from(codec: Codec) -> Self {
        match codec {
            Codec::None => Self::None,
            Codec::Gzip => Self::Gzip,
            Codec::Snappy => Self::Snappy,
            Codec::Lz4 => Self::Lz4,
            Codec::Zstd => Self::Zstd,
        }
    }
}

/// The error and its causes in one line. Where an error names its cause itself that is not said twice.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints a line to standard output.
pub(crate) fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Prints JSON as people and `jq` read it.
pub(crate) fn say_json(value: &serde_json::Value) -> anyhow::Result<()> {
    say(&serde_json::to_string_pretty(value)?)
}

/// Prints rows under `header`, columns aligned, for people and for `awk`.
pub(crate) fn say_table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> anyhow::Result<()> {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    say(&text.join("\n"))
}

/// The errors of several things that were asked for at once: one line each; fails when there is one.
pub(crate) fn all_done(failures: Vec<Error>) -> anyhow::Result<()> {
    let mut failures = failures.into_iter();
    let Some(last) = failures.next_back() else { return Ok(()) };
    for failure in failures {
        eprintln!("barelog: {failure}");
    }
    Err(explain(last))
}

/// Numbers as people write lists: `0,1,2`.
pub(crate) fn join(numbers: &[i32]) -> String {
    let texts: Vec<String> = numbers.iter().map(i32::to_string).collect();
    texts.join(",")
}

/// `12,345,678`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }

    #[test]
    fn a_cause_is_said_once() {
        let source = std::io::Error::from(std::io::ErrorKind::TimedOut);
        let error = explain(Error::Unreachable { address: "a:1".into(), source }).context("line 3");
        assert_eq!(told(&error), "line 3: cannot reach a:1: timed out");
        assert_eq!(told(&anyhow::anyhow!("b").context("a")), "a: b");
    }

    #[test]
    fn a_refused_connection_says_what_to_do() {
        let source = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = explain(Error::Unreachable { address: "127.0.0.1:9092".into(), source });
        let text = error.to_string();
        assert!(text.starts_with("cannot reach 127.0.0.1:9092: "), "{text}");
        assert!(text.ends_with("`barelog dev` starts one, --bootstrap names another"), "{text}");
    }
}
