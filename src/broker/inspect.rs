//! `barelog inspect`: a data directory offline.

use anyhow::Result;

use crate::cli::InspectArgs;

/// `barelog inspect`.
pub(crate) fn inspect(_args: &InspectArgs) -> Result<()> {
    anyhow::bail!("not yet")
}
