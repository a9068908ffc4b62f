//! `barelog check`: whether this machine can run a broker.

use anyhow::Result;

use crate::cli::CheckArgs;

/// `barelog check`.
pub(crate) fn check(_args: &CheckArgs) -> Result<()> {
    anyhow::bail!("not yet")
}
