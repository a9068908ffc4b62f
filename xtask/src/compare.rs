//! Compares with a real Kafka: the same records to both, and what each keeps of them after compaction.

use anyhow::{Context as _, Result};

use crate::run::{cargo, root, run};
use crate::setup;

const PAGE: &str = "docs/COMPACTION.md";
const BEGIN: &str = "<!-- compared -->\n";
const END: &str = "<!-- end of compared -->";
const HEAD: &str = "| seed | records | keys | kept by both | seconds until ours was done | until Kafka's was |\n|---:|---:|---:|---:|---:|---:|\n";

/// `cargo xtask compare`: runs both and writes the table of [`PAGE`].
pub fn compare() -> Result<()> {
    setup::setup()?;
    setup::kafka()?;
    let kafka = setup::tools().join("kafka");
    let result = setup::tools().join("comparison");
    let test = ["test", "--package", "barelog", "--test", "compaction", "--", "--nocapture", "kafka_keeps"];
    run(cargo(&test).env("BARELOG_KAFKA", kafka).env("BARELOG_COMPARISON", &result))?;
    let table = std::fs::read_to_string(&result).context("the comparison left no result")?;
    let page = std::fs::read_to_string(root().join(PAGE)).context(PAGE)?;
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("{PAGE} has no place for the table"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no end of the table"))?;
    std::fs::write(root().join(PAGE), format!("{before}{BEGIN}{HEAD}{table}{END}{after}")).context(PAGE)
}
