//! The broker's commands.

use crate::cli::{CheckArgs, DevArgs, InspectArgs, ServeArgs, TopologyArgs};

pub(crate) fn dev(_args: &DevArgs) -> anyhow::Result<()> {
    anyhow::bail!("this build has no broker")
}

pub(crate) fn serve(_args: &ServeArgs) -> anyhow::Result<()> {
    anyhow::bail!("this build has no broker")
}

pub(crate) fn check(_args: &CheckArgs) -> anyhow::Result<()> {
    anyhow::bail!("this build has no broker")
}

pub(crate) fn topology(_args: &TopologyArgs) -> anyhow::Result<()> {
    anyhow::bail!("this build has no broker")
}

pub(crate) fn inspect(_args: &InspectArgs) -> anyhow::Result<()> {
    anyhow::bail!("this build has no broker")
}
