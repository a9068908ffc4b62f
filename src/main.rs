//! The `barelog` binary: the composition root, the command line, the wiring table.

mod broker;
mod cli;
mod config;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(cli::Cli::parse())
}
