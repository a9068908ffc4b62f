//! The `barelog` binary: the composition root, the command line, the wiring table.
#![allow(unreachable_pub, reason = "a program exports nothing; pub says: used by a sibling module")]

mod broker;
mod cli;
mod config;
mod topology;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(cli::Cli::parse())
}
