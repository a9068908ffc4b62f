//! Bringing a broker up from what lies on its device.

use base::JournalId;
use base::image::JournalEntry;
use journal::Store;
use journal::device::{Device, Found};
use journal::pool::Pool;
use journal::recovery::{self, JournalReport, OpenDevice, RecoveryReport};

use crate::world::{BROKER, CLUSTER, DEVICE, Rest, Shard, World};
use crate::{Chance, SimArena, sums};

/// Opens the device and recovers every journal. Now and then the power goes while it does, and it begins again.
///
/// # Errors
/// What is wrong.
pub fn open(mut rest: Rest, epoch: &mut i32, chance: &mut Chance) -> Result<(World, Vec<JournalReport>), String> {
    let (shards, pool, reports) = bring_up(&mut rest, epoch, chance)?;
    Ok((World::new(rest, shards, pool), reports))
}

/// What [`open`] makes the world of.
///
/// # Errors
/// What is wrong.
pub fn bring_up(
    rest: &mut Rest,
    epoch: &mut i32,
    chance: &mut Chance,
) -> Result<(Vec<Shard>, Pool, Vec<JournalReport>), String> {
    for _ in 0..3 {
        if !chance.odds(1, 4) {
            break;
        }
        *epoch += 1;
        rest.disk.fuse = Some(chance.below(1200));
        let tried = stores(rest, *epoch);
        if option_env!("SIM_TALK").is_some() {
            eprintln!("power cut in recovery, epoch {epoch}: {:?}", tried.map(|(_, _, reports)| reports));
        }
        let survival = crate::disk::any_survival(chance);
        rest.disk.crash(chance, survival);
    }
    *epoch += 1;
    rest.disk.fuse = None;
    stores(rest, *epoch)
}

fn stores(rest: &mut Rest, epoch: i32) -> Result<(Vec<Shard>, Pool, Vec<JournalReport>), String> {
    let text = |error: journal::device::DeviceError| error.to_string();
    let mut device = Device::open(&mut rest.disk, CLUSTER, BROKER, &sums()).map_err(text)?;
    device.heal_states(&mut rest.disk).map_err(text)?;
    let found = device.scan(&mut rest.disk).map_err(text)?;
    let mut shards = Vec::new();
    let mut reports = Vec::new();
    for shard in 0..rest.plan.shards {
        let (store, report) = store(rest, &mut device, &found, shard, epoch)?;
        shards.push(Shard { store, arena: SimArena::new(24 << 20, 8 << 20) });
        reports.push(report);
    }
    for (shard, pairs) in shards.iter_mut().zip(recovery::share_pairs(&device, usize::from(rest.plan.shards))) {
        shard.store.set_free_pairs(DEVICE, pairs);
    }
    let all: Vec<&RecoveryReport> = reports.iter().collect();
    let (initial, generation) = recovery::pool_start(&found, DEVICE, &all);
    let pool = Pool::new(rest.plan.pool_config(device.label.extents_offset), initial, generation);
    if pool.reserve_is_broken() {
        shards.iter_mut().for_each(|shard| shard.store.hold_back(DEVICE));
    }
    Ok((shards, pool, reports.into_iter().flat_map(|report| report.journals).collect()))
}

fn store(
    rest: &mut Rest,
    device: &mut Device,
    found: &[Found],
    shard: u16,
    epoch: i32,
) -> Result<(Store<SimArena>, RecoveryReport), String> {
    let Rest { plan, disk, files, .. } = rest;
    let mine = |id: &u64| plan.shard_of(*id).0 == shard;
    let entries: Vec<JournalEntry> = (0..plan.journals).filter(mine).map(|id| plan.journal(id, epoch)).collect();
    let config = plan.store_config(epoch.cast_unsigned().into());
    let mut devices = [OpenDevice { storage: disk, device, found }];
    let file = |id: JournalId| files.get(&id).cloned();
    Store::open(config, &entries, &mut devices, file).map_err(|error| error.to_string())
}
