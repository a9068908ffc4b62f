//! The `barelog` binary: the composition root, the command line, the wiring table.

mod config;

fn main() {
    println!("{}", config::markdown());
}
