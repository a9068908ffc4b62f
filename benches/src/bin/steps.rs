//! `steps NAME COUNT`: a hot step so many times, for whoever counts instructions around it; without arguments the names.
#![allow(clippy::print_stdout, reason = "it is a program")]

use anyhow::{Context as _, Result};
use benches::hot::{Hot, STEPS};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let Some(wanted) = args.next() else {
        STEPS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let count: usize = args.next().context("usage: steps [NAME COUNT]")?.parse()?;
    let (_, step) = STEPS.iter().find(|(name, _)| *name == wanted).with_context(|| format!("no step {wanted}"))?;
    let mut hot = Hot::new()?;
    (0..count).try_for_each(|_| step(&mut hot))
}
