//! Looking at a device of which a sector cannot be read.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::{Item, extent};
use crate::device::Device;
use crate::format::SECTOR;
use crate::testing::{SUMS, World, batch};

/// Everything in the journal's first extent.
fn items(world: &mut World) -> Vec<Item> {
    let label = Device::look(&mut world.device, &SUMS).unwrap().label;
    let offset = world.store.journals[0].extents[0].address.offset;
    let mut all = Vec::new();
    let visit = |item| {
        all.push(item);
        ControlFlow::Continue(())
    };
    extent(&mut world.device, &label, offset, &SUMS, visit).unwrap();
    all
}

#[test]
fn a_sector_that_cannot_be_read_costs_the_unit_it_lies_in_and_no_other() {
    let mut world = World::new(1 << 20);
    // Units of one to several sectors.
    for size in [10, 9000, 20_000, 100, 5000] {
        world.put(1, &batch(1, size, b'a'));
        world.settle();
    }
    let whole = items(&mut world);
    let units = whole.iter().filter(|item| matches!(item, Item::Unit(unit) if unit.frames.is_ok() && unit.chained));
    assert_eq!(units.count(), whole.len(), "{whole:?}");
    let first = world.store.journals[0].extents[0].address.offset + SECTOR as u64;
    let end = first + world.commit().0;
    for bad in (first..end).step_by(SECTOR) {
        world.device.bad = Some(bad);
        let mut seen = 0;
        for item in items(&mut world) {
            match item {
                // What is behind one whose header is not known chains to something that nobody has seen.
                Item::Unit(unit) if unit.frames.is_ok() => {
                    let same = |other: &&Item| matches!(other, Item::Unit(other) if other.frames == unit.frames);
                    assert!(whole.iter().any(|other| same(&other)), "sector {bad}: {unit:?}");
                    assert!(!(unit.offset..unit.offset + unit.header.bytes() as u64).contains(&bad));
                    seen += 1;
                }
                Item::Unit(unit) => {
                    assert!(unit.offset < bad && bad < unit.offset + unit.header.bytes() as u64);
                    assert!(unit.frames.unwrap_err().contains("planted"));
                }
                Item::Unreadable { from, .. } => assert_eq!(from.0, bad - first),
                Item::Damage { from, to, .. } => assert!(from.0 > bad - first && to > from, "the rest of a large unit"),
                Item::Footer(_) => panic!("it is open"),
            }
        }
        assert_eq!(seen, whole.len() - 1, "sector {bad}");
    }
}
