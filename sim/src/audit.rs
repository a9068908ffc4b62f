//! Looks at a device from outside, by `journal::inspect` alone: whatever was acked must lie there whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use base::PartitionId;
use journal::device::Device;
use journal::format::FrameKind;
use journal::inspect::{self, ExtentClaim, Item};
use journal::recovery::JournalReport;

use crate::model::Log;
use crate::{Disk, sums};

/// Checks that every acked batch lies on the device.
///
/// # Errors
/// The first that does not.
pub fn acked_lies_there(disk: &mut Disk, logs: &BTreeMap<PartitionId, Log>) -> Result<(), String> {
    let there = batches(disk)?;
    // Of what is compacted the oracle for that says what must be there.
    for (id, log) in logs.iter().filter(|(_, log)| !log.compacted) {
        for entry in log.acked.values() {
            if !there.contains(&(*id, entry.base, entry.end() - 1)) {
                let (base, position) = (entry.base, entry.position);
                let extents = describe(disk)?;
                return Err(format!(
                    "partition {id}: batch {base}, acked at {position}, is not on the device (journal start of partition {})\n{extents}",
                    log.start
                ));
            }
        }
    }
    Ok(())
}

/// Checks that a partition whose end lies in damage resumes behind all that can have been there: 125 bytes may be a compressed
/// batch of 2³¹ − 1 records.
///
/// # Errors
/// The first that does not.
pub fn gaps_hold_all(report: &JournalReport) -> Result<(), String> {
    let bytes: u64 = report.damage.iter().map(|damage| damage.end.0 - damage.start.0).sum();
    let most = i64::try_from(bytes / 125).unwrap_or(i64::MAX).saturating_mul(i64::from(i32::MAX));
    let narrow = report.lost.iter().find(|lost| lost.to.0 - lost.from.0 < most.min(1 << 60));
    narrow.map_or(Ok(()), |lost| Err(format!("{bytes} bytes are damaged, and {lost:?} may be less than they held")))
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

/// The journals' extents in words, for failures.
///
/// # Errors
/// When the device cannot be looked at.
pub fn describe(disk: &mut Disk) -> Result<String, String> {
    let device = inspect::device(disk, &sums()).map_err(|error| error.to_string())?;
    let mut lines: Vec<String> = device.states.iter().map(|state| format!("{state:?}")).collect();
    for extent in device.extents {
        lines.push(format!("{} {:?}", extent.offset, extent.claim));
        if !matches!(extent.claim, ExtentClaim::Journal { .. }) {
            continue;
        }
        let visit = |item| {
            match item {
                Item::Unit(unit) => lines.push(format!(
                    "    unit {} to {} epoch {} commit {} chained {} frames {}",
                    unit.header.position,
                    unit.header.end(),
                    unit.header.epoch,
                    unit.header.commit,
                    unit.chained,
                    match unit.frames {
                        Ok(frames) => format!(
                            "{:?}",
                            frames
                                .iter()
                                .map(|f| (f.kind, f.partition.0, f.base_offset.0, f.last_offset.0, f.intact))
                                .collect::<Vec<_>>()
                        ),
                        Err(why) => why,
                    }
                )),
                Item::Footer(row) => lines.push(format!("    footer of {} runs {}", row.partition, row.runs.len())),
                other => lines.push(format!("    {other:?}")),
            }
            ControlFlow::Continue(())
        };
        inspect::extent(disk, &device.label, extent.offset, &sums(), visit).map_err(|error| error.to_string())?;
    }
    Ok(lines.join("\n"))
}
