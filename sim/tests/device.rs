//! The device image under crashes: made, opened, its local states written, with the power going at every call.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use base::image::Secret;
use base::{BrokerId, ClusterId, DeviceIndex, Epoch, JournalId, Position};
use journal::device::{Claim, Device, DeviceError, Pair};
use journal::format::{Cut, ExtentHeader, ExtentKind, FormatError, JournalStart, Label, LocalState, SECTOR};
use journal::pool::{Filled, Initial, Pool, PoolConfig, Wanted};
use journal::storage::Storage as _;
use journal::store::Wish;
use sim::disk::any_survival;
use sim::{Chance, Disk, sums};

const CLUSTER: ClusterId = ClusterId(7);
const BROKER: BrokerId = BrokerId(1);
const EXTENT: u64 = 256 << 10;

fn label() -> Label {
    Device::layout(CLUSTER, BROKER, 99, EXTENT, 4)
}

fn made() -> (Disk, Device) {
    let mut disk = Disk::new(64 << 20);
    let device = Device::create(&mut disk, label(), &sums()).unwrap();
    (disk, device)
}

fn state(journal: u64, promise: i32) -> LocalState {
    LocalState {
        sequence: 0,
        cluster: CLUSTER,
        device: 99,
        journal: JournalId(journal),
        replica: 5,
        promise: Epoch(promise),
        cut: Cut::default(),
        uncertain_to: Position(0),
        does_not_count: false,
        start: JournalStart::default(),
        secret: Secret([3; 16]),
    }
}

#[test]
fn a_creation_that_did_not_end_is_begun_again_and_one_that_ended_opens() {
    let calls = made().0.calls;
    for fuse in 0..calls {
        let mut chance = Chance::new(fuse);
        for _ in 0..4 {
            let mut disk = Disk::new(64 << 20);
            disk.fuse = Some(fuse);
            assert!(Device::create(&mut disk, label(), &sums()).is_err());
            let survival = any_survival(&mut chance);
            disk.crash(&mut chance, survival);
            match Device::open(&mut disk, CLUSTER, BROKER, &sums()) {
                Ok(_) => {}
                Err(DeviceError::Blank) => drop(Device::create(&mut disk, label(), &sums()).unwrap()),
                Err(other) => panic!("after {fuse} calls: {other}"),
            }
            let device = Device::open(&mut disk, CLUSTER, BROKER, &sums()).unwrap();
            assert_eq!(device.pairs, [Pair::Free; 4]);
        }
    }
}

#[test]
fn a_state_that_took_effect_survives_any_crash_of_the_change_after_it() {
    for seed in 0..300 {
        let mut chance = Chance::new(seed);
        let (mut disk, mut device) = made();
        let mut effective = 0;
        for promise in 1..30 {
            disk.fuse = chance.odds(1, 3).then(|| chance.below(7));
            if device.write_state(&mut disk, &state(1, promise)).is_ok() {
                effective = promise;
                disk.fuse = None;
                continue;
            }
            let survival = any_survival(&mut chance);
            disk.crash(&mut chance, survival);
            device = Device::open(&mut disk, CLUSTER, BROKER, &sums()).unwrap();
            let found = device.state(JournalId(1)).map_or(0, |(_, state)| state.promise.0);
            assert!(found == effective || found == promise, "seed {seed}: {found}, effective {effective}");
            device.heal_states(&mut disk).unwrap();
            effective = found;
        }
    }
}

#[test]
fn one_slot_that_rots_or_cannot_be_read_is_healed_from_the_other() {
    for second in [false, true] {
        for spoil in [false, true] {
            let (mut disk, mut device) = made();
            let pair = device.write_state(&mut disk, &state(1, 6)).unwrap();
            let at = device.label.slot_at(pair, second);
            if spoil {
                disk.spoil(at)
            } else {
                disk.rot(at + 100, 1)
            }
            let mut device = Device::open(&mut disk, CLUSTER, BROKER, &sums()).unwrap();
            assert!(matches!(device.pairs[0], Pair::Held { both: false, .. }));
            // Writing the slot makes it readable again.
            device.heal_states(&mut disk).unwrap();
            let device = Device::open(&mut disk, CLUSTER, BROKER, &sums()).unwrap();
            assert!(matches!(device.pairs[0], Pair::Held { state, both: true } if state.promise == Epoch(6)));
        }
    }
}

#[test]
fn a_device_that_ends_before_its_extents_is_named_and_left_as_it_is() {
    let (mut disk, mut device) = made();
    let pair = device.write_state(&mut disk, &state(1, 6)).unwrap();
    // Something that a start would put right.
    disk.rot(device.label.slot_at(pair, true) + 100, 1);
    disk.rot(Label::SECOND_AT, 1);
    for len in (Label::STATE_AT..device.label.extents_offset).step_by(SECTOR) {
        let mut short = disk.clone();
        short.shorten(len);
        let mut before = vec![0; usize::try_from(len).unwrap()];
        let mut after = before.clone();
        short.peek(0, &mut before).unwrap();
        let need = device.label.extents_offset;
        assert_eq!(Device::open(&mut short, CLUSTER, BROKER, &sums()).err(), Some(DeviceError::CutShort { len, need }));
        short.peek(0, &mut after).unwrap();
        assert!(before == after && short.len() == len, "{len} bytes: something was written");
    }
    disk.shorten(device.label.extents_offset);
    assert!(Device::open(&mut disk, CLUSTER, BROKER, &sums()).is_ok());
}

#[test]
fn journals_have_pairs_of_their_own_until_none_is_left() {
    let (mut disk, mut device) = made();
    for journal in 0..4 {
        assert_eq!(u64::from(device.write_state(&mut disk, &state(journal, 1)).unwrap()), journal);
    }
    assert_eq!(device.write_state(&mut disk, &state(9, 1)), Err(DeviceError::TooManyJournals { pairs: 4 }));
    assert_eq!(device.write_state(&mut disk, &state(2, 2)), Ok(2));
}

#[test]
fn devices_that_are_not_ours_are_refused_by_name() {
    let (mut disk, _) = made();
    let open = |disk: &mut Disk| Device::open(disk, CLUSTER, BROKER, &sums()).map(|_| ()).unwrap_err();
    let other = Device::open(&mut disk, ClusterId(8), BROKER, &sums()).unwrap_err();
    assert_eq!(other, DeviceError::OtherCluster { found: CLUSTER, expected: ClusterId(8) });
    let other = Device::open(&mut disk, CLUSTER, BrokerId(2), &sums()).unwrap_err();
    assert_eq!(other, DeviceError::OtherBroker { found: BROKER, expected: BrokerId(2) });

    let mut newer = disk.clone();
    let mut page = [0; SECTOR];
    newer.read(Label::FIRST_AT, &mut page).unwrap();
    page[8] = 2;
    let sum = (sums().crc64)(0, &page[..SECTOR - 8]);
    page[SECTOR - 8..].copy_from_slice(&sum.to_le_bytes());
    newer.write(Label::FIRST_AT, &page).unwrap();
    assert_eq!(open(&mut newer), DeviceError::NewerVersion { version: 2 });

    let mut half = disk.clone();
    half.rot(Label::FIRST_AT + 40, 1);
    assert!(Device::open(&mut half, CLUSTER, BROKER, &sums()).is_ok(), "one copy is enough");
    half.rot(Label::SECOND_AT + 40, 1);
    assert!(Device::open(&mut half, CLUSTER, BROKER, &sums()).is_ok(), "the first was rewritten");
    disk.rot(Label::FIRST_AT + 40, 1);
    disk.rot(Label::SECOND_AT + 40, 1);
    assert_eq!(open(&mut disk), DeviceError::Damaged(FormatError::Checksum));

    let mut foreign = Disk::new(64 << 20);
    foreign.grow(1 << 20).unwrap();
    foreign.write(0, &[0x33; SECTOR]).unwrap();
    assert_eq!(open(&mut foreign), DeviceError::NotBarelog);
    assert_eq!(Device::create(&mut foreign, label(), &sums()).map(|_| ()), Err(DeviceError::NotBarelog));
    let mut short = Disk::new(64 << 20);
    short.grow(8192).unwrap();
    assert_eq!(open(&mut short), DeviceError::Blank);
    short.write(4096, &[1; SECTOR]).unwrap();
    assert_eq!(open(&mut short), DeviceError::NotBarelog);
}

#[test]
fn one_label_that_cannot_be_read_is_made_anew_and_two_are_an_io_error() {
    for at in [Label::FIRST_AT, Label::SECOND_AT] {
        let (mut disk, _) = made();
        disk.spoil(at);
        assert!(Device::open(&mut disk, CLUSTER, BROKER, &sums()).is_ok());
        let mut page = [0; SECTOR];
        disk.read(at, &mut page).unwrap();
        assert_eq!(Label::decode(&page, &sums()), Ok(label()));
        disk.spoil(Label::FIRST_AT);
        disk.spoil(Label::SECOND_AT);
        assert!(matches!(Device::open(&mut disk, CLUSTER, BROKER, &sums()), Err(DeviceError::Storage(_))));
    }
}

#[test]
fn a_wiped_label_over_local_states_is_not_taken_for_a_blank_device() {
    let (mut disk, mut device) = made();
    device.write_state(&mut disk, &state(1, 6)).unwrap();
    disk.write(0, &[0; 64 << 10]).unwrap();
    assert_eq!(Device::create(&mut disk, label(), &sums()).map(|_| ()), Err(DeviceError::Damaged(FormatError::Magic)));
}

#[test]
fn a_disk_too_full_to_create_a_device_is_named() {
    let need = label().extents_offset + 2 * EXTENT;
    let mut disk = Disk::new(need - 1);
    assert_eq!(Device::create(&mut disk, label(), &sums()).map(|_| ()), Err(DeviceError::NoRoom { need }));
}

fn header(offset: u64, generation: u64) -> ExtentHeader {
    ExtentHeader {
        kind: ExtentKind::Raw,
        generation,
        cluster: CLUSTER,
        device: 99,
        journal: JournalId(1),
        offset,
        len: EXTENT,
        start: Position(0),
        epoch: Epoch(1),
        chain: Default::default(),
        secret: Secret([3; 16]),
    }
}

fn write_header(disk: &mut Disk, at: u64, header: &ExtentHeader) {
    let mut page = [0; SECTOR];
    header.encode(&sums(), &mut page);
    disk.write(at, &page).unwrap();
}

#[test]
fn extents_found_are_those_of_this_device_at_their_own_place() {
    let (mut disk, device) = made();
    let first = label().extents_offset;
    disk.grow(first + 5 * EXTENT + 4096).unwrap();
    write_header(&mut disk, first, &header(first, 4));
    write_header(&mut disk, first + EXTENT, &header(first, 4));
    write_header(&mut disk, first + 2 * EXTENT, &ExtentHeader { device: 98, ..header(first + 2 * EXTENT, 5) });
    disk.spoil(first + 3 * EXTENT);
    let found = device.scan(&mut disk).unwrap();
    assert_eq!(found.len(), 5, "a part of an extent is none");
    assert_eq!(found[0].claim, Claim::Header(header(first, 4)));
    assert_eq!(found[1].claim, Claim::None, "misdirected");
    assert_eq!(found[2].claim, Claim::None, "another device's");
    assert!(matches!(found[3].claim, Claim::Unreadable(_)));
    assert_eq!(found[4].claim, Claim::Blank);
}

#[test]
fn a_pool_never_hands_out_one_extent_twice_and_ends_where_the_device_does() {
    for seed in 0..200 {
        let mut chance = Chance::new(seed);
        let mut disk = Disk::new(label().extents_offset + chance.between(2, 12) * EXTENT);
        Device::create(&mut disk, label(), &sums()).unwrap();
        let config = PoolConfig {
            device: DeviceIndex(0),
            extents_offset: label().extents_offset,
            extent_len: EXTENT,
            extents_max: 10,
            ahead: 2,
            reserve: 2,
            resume: 0,
        };
        let mut pool = Pool::new(config, [Initial::Blank; 2], 0);
        let (mut out, mut last) = (Vec::new(), 0);
        for _ in 0..300 {
            match chance.below(3) {
                0 => {
                    let wish = if chance.odds(1, 4) { Wish::Cleaning } else { Wish::Appends };
                    if let Wanted::Extent(extent) = pool.want(wish) {
                        assert!(extent.generation > last);
                        last = extent.generation;
                        assert!(!out.iter().any(|other: &journal::store::ExtentAddress| other.offset == extent.offset));
                        assert!(extent.offset + extent.len <= disk.len());
                        out.push(extent);
                    }
                }
                1 if !out.is_empty() => pool.give_back(out.swap_remove(chance.index(out.len()))),
                _ => {
                    if let Some(fill) = pool.work() {
                        let grown = fill.grow.map_or(Ok(()), |len| disk.grow(len));
                        pool.done(if grown.is_ok() { Filled::Done } else { Filled::NoSpace });
                    }
                }
            }
            let counts = pool.counts();
            assert_eq!(counts.used, out.len());
            assert!(counts.ready <= 2 + out.capacity().max(10));
        }
        for extent in out.drain(..) {
            pool.give_back(extent);
        }
        assert_eq!(pool.counts().used, 0);
        assert!(pool.free_bytes() > 0 || pool.counts().ready == 2);
    }
}
