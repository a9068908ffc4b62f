//! Bringing a broker up from what lies on its device.

use base::image::JournalEntry;
use journal::Store;
use journal::device::Device;
use journal::pool::{Initial, Pool};
use journal::store::StoreDevice;

use crate::world::{BROKER, CLUSTER, Rest, Shard, World};
use crate::{Chance, SimArena, sums};

/// Whether stores can be recovered yet.
pub const READY: bool = false;

/// Opens the device and recovers every journal.
///
/// # Errors
/// What is wrong.
pub fn open(mut rest: Rest, epoch: i32, chance: &mut Chance) -> Result<World, String> {
    let _ = chance;
    let device = Device::open(&mut rest.disk, CLUSTER, BROKER, &sums()).map_err(|error| error.to_string())?;
    let _entries: Vec<JournalEntry> = (0..rest.plan.journals).map(|id| rest.plan.journal(id, epoch)).collect();
    let pool = Pool::new(rest.plan.pool_config(device.label.extents_offset), [Initial::Blank; 2], 0);
    let config = rest.plan.store_config(epoch.cast_unsigned().into());
    let shards = (0..rest.plan.shards)
        .map(|shard| {
            let free_pairs = (0..8).filter(|pair| pair % u32::from(rest.plan.shards) == u32::from(shard)).collect();
            let devices = vec![StoreDevice { label: device.label, free_pairs }];
            Shard { store: Store::new(config.clone(), devices), arena: SimArena::new(24 << 20, 8 << 20) }
        })
        .collect();
    Ok(World::new(rest, shards, pool))
}
