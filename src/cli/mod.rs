//! The command line: every command and flag of `barelog`, and which function answers it.
//!
//! Commands that talk to a broker (`topic`, `group`, `produce`, `consume`, `demo`) are Kafka clients like any other and
//! live here; commands that are or examine a broker (`dev`, `serve`, `check`, `topology`) live in [`crate::broker`].

mod args;
mod common;
mod consume;
mod demo;
mod group;
mod http;
mod interrupt;
mod produce;
mod text;
mod topic;

pub(crate) use args::*;
pub(crate) use topic::journals;

use clap::{CommandFactory as _, Parser, Subcommand};
use std::io::Write as _;
use std::process::ExitCode;

/// The command did what it was asked.
pub(crate) const EXIT_OK: u8 = 0;
/// The command failed; the reason is on standard error.
pub(crate) const EXIT_FAILED: u8 = 1;
/// The command line could not be understood (also what clap itself uses).
pub(crate) const EXIT_USAGE: u8 = 2;

/// A message log that speaks the Kafka protocol.
///
/// One binary is the broker and the tools to use it. Every tool is an ordinary Kafka client: it works against any
/// Kafka-protocol broker, and every Kafka client works against this broker.
#[derive(Debug, Parser)]
#[command(
    name = "barelog",
    version,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Try it:\n  barelog demo            see it work: 2 M records through a broker and two consumer groups\n  \
                  barelog dev             run a broker on 127.0.0.1:9092\n  \
                  echo hello | barelog produce greetings\n  \
                  barelog consume greetings --from-beginning --exit-eof\n\n\
                  Exit status: 0 done, 1 failed (the reason is on standard error), 2 usage error."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a single-node broker on defaults; topics are created on first use
    Dev(DevArgs),
    /// Run a broker from a configuration file
    Serve(ServeArgs),
    /// Say whether this machine can run a broker: io_uring, O_DIRECT, memlock, durability of the device
    Check(CheckArgs),
    /// Print how a broker would be wired: cores, shards, rings, their depths and bytes
    Topology(TopologyArgs),
    /// Look into a data directory of a broker that is not running
    Inspect(InspectArgs),
    /// Start a broker, move records through it, verify every one of them and print what it took
    Demo(DemoArgs),
    /// Create, list, describe, alter and delete topics
    Topic(TopicArgs),
    /// List, describe and delete consumer groups, reset their offsets
    Group(GroupArgs),
    /// Send records from standard input or a file
    Produce(ProduceArgs),
    /// Print records of a topic
    Consume(ConsumeArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Examples:\n  barelog completions bash > /etc/bash_completion.d/barelog\n  \
                            barelog completions zsh > ~/.zfunc/_barelog")]
    Completions {
        /// The shell to complete in
        shell: clap_complete::Shell,
    },
}

/// The command line was well-formed but asks for something that makes no sense: exit status 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Runs one command to its end. Reports an error on standard error and in the exit status.
pub(crate) fn run(cli: Cli) -> ExitCode {
    match dispatch(cli.command) {
        Ok(()) => ExitCode::from(EXIT_OK),
        Err(error) => report(&error),
    }
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Dev(args) => crate::broker::dev(&args),
        Command::Serve(args) => crate::broker::serve(&args),
        Command::Check(args) => crate::broker::check(&args),
        Command::Topology(args) => crate::topology::topology(&args),
        Command::Inspect(args) => crate::broker::inspect(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Topic(args) => topic::run(args),
        Command::Group(args) => group::run(args),
        Command::Produce(args) => produce::run(&args),
        Command::Consume(args) => consume::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "barelog", &mut script);
            std::io::stdout().write_all(&script)?;
            Ok(())
        }
    }
}

/// Prints `error` with its causes. A reader that went away (`barelog consume … | head`) is no failure.
fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        return ExitCode::from(EXIT_OK);
    }
    eprintln!("barelog: {}", common::told(error));
    ExitCode::from(if error.is::<UsageError>() { EXIT_USAGE } else { EXIT_FAILED })
}

fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests;
