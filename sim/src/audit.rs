//! Looks at a device from outside, by `journal::inspect` alone: whatever was acked must lie there whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use base::PartitionId;
use journal::device::Device;
use journal::format::FrameKind;
use journal::inspect::{self, ExtentClaim, Item};

use crate::model::Log;
use crate::{Disk, sums};

/// Checks that every acked batch lies on the device.
///
/// # Errors
/// The first that does not.
pub fn acked_lies_there(disk: &mut Disk, logs: &BTreeMap<PartitionId, Log>) -> Result<(), String> {
    let there = batches(disk)?;
    for (id, log) in logs {
        for entry in log.acked.values() {
            if !there.contains(&(*id, entry.base, entry.end() - 1)) {
                return Err(format!("partition {id}: batch {} was acked and is not on the device", entry.base));
            }
        }
    }
    Ok(())
}

/// Every intact record frame of the device, by partition, first and last offset.
fn batches(disk: &mut Disk) -> Result<BTreeSet<(PartitionId, i64, i64)>, String> {
    let mut there = BTreeSet::new();
    let device = inspect::device(disk, &sums()).map_err(|error| error.to_string())?;
    let label = Device::look(disk, &sums()).map_err(|error| error.to_string())?.label;
    for extent in device.extents {
        if !matches!(extent.claim, ExtentClaim::Journal { .. }) {
            continue;
        }
        let visit = |item| {
            if let Item::Unit(unit) = item
                && let Ok(frames) = unit.frames
            {
                let records = frames.iter().filter(|frame| frame.intact && frame.kind == FrameKind::Records);
                there.extend(records.map(|frame| (frame.partition, frame.base_offset.0, frame.last_offset.0)));
            }
            ControlFlow::Continue(())
        };
        inspect::extent(disk, &label, extent.offset, &sums(), visit).map_err(|error| error.to_string())?;
    }
    Ok(there)
}
