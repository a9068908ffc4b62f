//! Journals, their load, and partitions on their way, as HTTP and the command line show them.

use std::collections::HashMap;
use std::sync::Arc;

use base::image::{Image, JournalClass, Lifetime};
use base::message::{Bounds, PartitionSize};
use base::{JournalId, PartitionId};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::errors::Failure;

/// Sizes by partition id, over all homes.
pub type PartitionSizes = HashMap<PartitionId, Bounds>;

/// The body of `GET /journals`.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct JournalsReport {
    /// By id.
    pub journals: Vec<JournalRow>,
}

/// One journal.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct JournalRow {
    /// Its id.
    pub journal: u64,
    /// What partitions it takes: `delete, up to 8 days`.
    pub class: String,
    /// Its device, as the configuration names it.
    pub device: String,
    /// The shard that owns it.
    pub shard: u16,
    /// Partitions whose appends it takes.
    pub partitions: usize,
    /// Partitions that have only older records in it.
    pub left: usize,
    /// Bytes that partitions retain in it.
    pub bytes: u64,
    /// Bytes appended since the process started.
    pub written_bytes: u64,
}

/// The body of `GET /moves`.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct MovesReport {
    /// Partitions on their way, by topic and partition.
    pub moving: Vec<MoveRow>,
    /// Topics whose partitions are looked at when there is room for more moves.
    pub topics_waiting: usize,
    /// Moves that came to their end since the process started.
    pub moved: u64,
    /// Moves that were given up.
    pub cancelled: u64,
    /// Partitions that have records in more than one journal.
    pub spread: usize,
}

/// A partition on its way.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct MoveRow {
    /// Of which topic.
    pub topic: String,
    /// Its index.
    pub partition: u32,
    /// From which journal.
    pub from: u64,
    /// To which.
    pub to: u64,
}

/// The body of `POST /moves`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct MoveRequest {
    /// Of which topic.
    pub topic: String,
    /// Its index.
    pub partition: u32,
    /// To which journal.
    pub journal: u64,
}

/// A class as people read it.
fn class_text(class: JournalClass) -> String {
    let policy = if class.compacted { "compact" } else { "delete" };
    let lifetime = match class.lifetime {
        Lifetime::Short => "up to a day",
        Lifetime::Medium => "up to 8 days",
        Lifetime::Long => "longer",
    };
    if class.internal { "internal".to_owned() } else { format!("{policy}, {lifetime}") }
}

/// One entry for each partition: the ends of its open home, the bytes of all.
#[must_use]
pub(crate) fn by_partition(sizes: &[PartitionSize]) -> PartitionSizes {
    let mut all = PartitionSizes::new();
    for size in sizes {
        all.entry(size.partition)
            .and_modify(|known| {
                let bytes = known.bytes + size.bounds.bytes;
                let start = known.log_start.max(size.bounds.log_start);
                if (size.bounds.log_end, size.bounds.high_watermark) > (known.log_end, known.high_watermark) {
                    *known = size.bounds;
                }
                (known.bytes, known.log_start) = (bytes, start);
            })
            .or_insert(size.bounds);
    }
    all
}

/// All journals with what they carry.
pub(crate) async fn journals(context: &Arc<Context>) -> Result<JournalsReport, Failure> {
    let image = context.store.image();
    let sizes = super::sizes(context).await?;
    let devices = context.observed.devices();
    let mut rows: HashMap<JournalId, JournalRow> = HashMap::new();
    for journal in image.journals.values() {
        let device = devices.get(usize::from(journal.device.0)).map(|device| device.path.clone()).unwrap_or_default();
        let row = JournalRow {
            journal: journal.id.0,
            class: class_text(journal.class),
            device,
            shard: journal.shard.0,
            partitions: 0,
            left: 0,
            bytes: 0,
            written_bytes: 0,
        };
        rows.insert(journal.id, row);
    }
    let open: HashMap<PartitionId, JournalId> = open_homes(&image);
    for size in &sizes {
        let Some(row) = rows.get_mut(&size.journal) else { continue };
        if open.get(&size.partition) == Some(&size.journal) {
            row.partitions += 1;
        } else {
            row.left += 1;
        }
        row.bytes += size.bounds.bytes;
        row.written_bytes += size.written;
    }
    let mut journals: Vec<JournalRow> = rows.into_values().collect();
    journals.sort_unstable_by_key(|row| row.journal);
    Ok(JournalsReport { journals })
}

pub(crate) fn open_homes(image: &Image) -> HashMap<PartitionId, JournalId> {
    let partitions = image.topics.values().flat_map(|topic| topic.partitions.iter());
    partitions.map(|partition| (partition.id, partition.journal)).collect()
}

/// What moves.
pub(crate) fn moves(context: &Context) -> MovesReport {
    let image = context.store.image();
    let mut report = MovesReport {
        topics_waiting: context.moves.waiting(),
        moved: context.stats.partitions_moved.get(),
        cancelled: context.stats.moves_cancelled.get(),
        ..MovesReport::default()
    };
    for homes in image.homes.values() {
        report.spread += usize::from(!homes.earlier.is_empty());
        let Some(((topic, partition), to)) = super::find(&image, homes).zip(homes.moving) else { continue };
        let (from, to) = (partition.journal.0, to.journal.0);
        report.moving.push(MoveRow { topic: topic.name.to_string(), partition: homes.index, from, to });
    }
    report.moving.sort_unstable();
    report
}
