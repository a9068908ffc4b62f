//! `cargo xtask golden`: plays the scenario of `tests/golden` to a real Kafka and commits what it answered.

use anyhow::Result;

use crate::kafka::Kafka;
use crate::run::{cargo, run};

/// Records anew.
pub fn golden() -> Result<()> {
    let kafka = Kafka::start("golden")?;
    eprintln!("xtask: Kafka at {} is asked", kafka.address);
    run(cargo(&["test", "--package", "barelog", "--test", "golden", "--", "--ignored", "--exact", "record"])
        .env("BARELOG_GOLDEN_KAFKA", &kafka.address))?;
    eprintln!("xtask: tests/golden/kafka-4.4 is new; `cargo xtask bless` rewrites docs/PROTOCOL.md from it");
    Ok(())
}
