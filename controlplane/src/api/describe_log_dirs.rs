//! DescribeLogDirs: devices, their room, and what partitions take of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use base::PartitionId;
use base::image::Image;
use base::message::PartitionSize;
use protocol::error::ErrorCode;
use protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};
use protocol::wire::DecodeError;

use super::{Call, int};
use crate::context::Context;
use crate::moves::sizes;

pub(super) async fn answer(context: &Arc<Context>, call: &Call<'_>) -> Result<Vec<u8>, DecodeError> {
    let request: DescribeLogDirsRequest<'_> = call.request()?;
    let asked: Option<HashSet<(&str, i32)>> = request.topics.as_ref().map(|topics| {
        topics.iter().flat_map(|topic| topic.partitions.iter().map(|index| (topic.topic, *index))).collect()
    });
    let _large = context.large.acquire().await.ok();
    let image = context.store.image();
    let devices = context.observed.devices();
    let (sizes, error_code) = match sizes(context).await {
        Ok(sizes) => (sizes, ErrorCode::NONE),
        Err(failure) => (Vec::new(), call.note(failure.code)),
    };
    let mut by_device = rows(&image, &sizes, asked.as_ref());
    let results = devices
        .iter()
        .enumerate()
        .map(|(index, device)| DescribeLogDirsResult {
            error_code,
            log_dir: &device.path,
            topics: by_device
                .remove(&index)
                .unwrap_or_default()
                .into_iter()
                .map(|(name, partitions)| DescribeLogDirsTopic { name, partitions })
                .collect(),
            total_bytes: i64::try_from(device.total_bytes).unwrap_or(i64::MAX),
            usable_bytes: i64::try_from(device.free_bytes).unwrap_or(i64::MAX),
            ..Default::default()
        })
        .collect();
    Ok(call.respond(&DescribeLogDirsResponse { results, ..Default::default() }))
}

type Rows<'a> = HashMap<usize, BTreeMap<&'a str, Vec<DescribeLogDirsPartition>>>;

/// What partitions take on each device. One that has moved may have records on several.
fn rows<'a>(image: &'a Image, sizes: &[PartitionSize], asked: Option<&HashSet<(&str, i32)>>) -> Rows<'a> {
    let mut taken = HashMap::<PartitionId, BTreeMap<usize, u64>>::new();
    for size in sizes {
        let Some(journal) = image.journals.get(&size.journal) else { continue };
        let devices = taken.entry(size.partition).or_default();
        *devices.entry(journal.device.0.into()).or_default() += size.bounds.bytes;
    }
    let mut rows = Rows::new();
    for topic in image.topics.values() {
        for (index, partition) in topic.partitions.iter().enumerate() {
            let index = int(index);
            if asked.is_some_and(|asked| !asked.contains(&(&*topic.name, index))) {
                continue;
            }
            for (device, bytes) in taken.get(&partition.id).into_iter().flatten() {
                let partitions = rows.entry(*device).or_default().entry(&*topic.name).or_default();
                partitions.push(DescribeLogDirsPartition {
                    partition_index: index,
                    partition_size: i64::try_from(*bytes).unwrap_or(i64::MAX),
                    // There is one replica, which is the leader: it lags behind nobody.
                    offset_lag: 0,
                    is_future_key: false,
                });
            }
        }
    }
    rows
}
