//! Scenes of the journals on a simulated device, each with something of its own to show.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use base::image::{TimestampType, TopicConfig};
use base::{JournalId, PartitionId};
use journal::recovery::JournalReport;
use journal::store::{Durability, ReadOutcome};
use sim::Chance;
use sim::run::Run;
use sim::world::{Plan, Rest};

const MIB: u64 = 1 << 20;

fn plan() -> Plan {
    Plan {
        shards: 1,
        journals: 1,
        extent_len: 256 << 10,
        extents_max: 16,
        unit_bytes: 16 << 10,
        writes_in_flight: 4,
        bytes_in_flight: 128 << 10,
        checkpoint_bytes: 128 << 10,
        durability: Durability::Flush,
        batch_bytes: 2000,
    }
}

fn broker(plan: Plan, seed: u64) -> Run {
    Run::first(Chance::new(seed), Rest::new(plan)).unwrap()
}

fn forever() -> TopicConfig {
    TopicConfig {
        retention_ms: -1,
        retention_bytes: -1,
        compaction: None,
        max_message_bytes: 60 << 10,
        timestamp_type: TimestampType::Create,
        timestamp_before_ms_max: i64::MAX,
        timestamp_after_ms_max: i64::MAX,
        min_insync_replicas: 1,
    }
}

fn one(reports: &[JournalReport]) -> &JournalReport {
    assert_eq!(reports.len(), 1);
    &reports[0]
}

const A: PartitionId = PartitionId(1);
const B: PartitionId = PartitionId(2);
const C: PartitionId = PartitionId(3);
const JOURNAL: JournalId = JournalId(0);

#[test]
fn a_restart_reads_what_was_written_after_the_last_checkpoint_and_no_more() {
    let mut run = broker(Plan { extents_max: 80, ..plan() }, 1);
    run.add_partition(A, JOURNAL, forever());
    for i in 0..4000 {
        run.put(A, 2000).unwrap();
        if i % 20 == 0 {
            run.work();
        }
    }
    let (mut run, reports) = run.restart(|_, _| {}).unwrap();
    let report = one(&reports);
    assert!(report.end.0 > 8 * MIB, "enough was written: {report:?}");
    assert!(report.checkpoint);
    // What a checkpoint covers, what one is written late by, what flies, and one window beyond.
    assert!(report.bytes_read < 4 * (128 << 10) + MIB, "{report:?}");
    run.stop().unwrap();
    let (_, reports) = run.restart(|_, _| {}).unwrap();
    assert!(one(&reports).bytes_read < MIB, "after an orderly stop: {reports:?}");
}

#[test]
fn retention_by_size_keeps_a_device_usable_for_ever() {
    let mut run = broker(plan(), 2);
    run.add_partition(A, JOURNAL, TopicConfig { retention_bytes: 300_000, ..forever() });
    run.add_partition(B, JOURNAL, TopicConfig { retention_bytes: 300_000, ..forever() });
    for i in 0..12_000 {
        run.put(if i % 3 == 0 { A } else { B }, 2000).unwrap();
        if i % 50 == 0 {
            run.work();
        }
    }
    // 24 MiB went through a device of 4.
    let used = run.world.pool.counts().used;
    assert!(used < 14, "{used} extents hold 600 KB");
    let (mut run, _) = run.restart(|_, _| {}).unwrap();
    for _ in 0..3 {
        run.work();
    }
    for id in [A, B] {
        let log = &run.logs[&id];
        let kept: usize = log.acked.values().map(|entry| entry.sent.len()).sum();
        assert!((290_000..420_000).contains(&kept), "partition {id} keeps {kept} bytes of 300,000");
    }
}

#[test]
fn a_quiet_partition_does_not_hold_the_extents_of_a_busy_one() {
    let mut run = broker(plan(), 3);
    run.add_partition(A, JOURNAL, TopicConfig { retention_bytes: 300_000, ..forever() });
    run.add_partition(B, JOURNAL, forever());
    // B's producer state and offsets must outlive the extents that its trimmed records lie in.
    for _ in 0..10 {
        run.put(B, 500).unwrap();
    }
    run.world.settle(&mut run.chance.clone());
    run.trim(B, -1).unwrap();
    for i in 0..9000 {
        run.put(A, 2000).unwrap();
        if i % 50 == 0 {
            run.work();
        }
    }
    let (mut run, _) = run.restart(|_, _| {}).unwrap();
    assert_eq!((run.logs[&B].start, run.logs[&B].end()), (10, 10));
    run.put(B, 100).unwrap();
    assert_eq!(run.logs[&B].end(), 11);
}

#[test]
fn deleted_records_and_partitions_give_their_space_back_and_a_full_device_recovers() {
    let mut run = broker(plan(), 4);
    run.add_partition(A, JOURNAL, forever());
    run.add_partition(B, JOURNAL, forever());
    let fill = |run: &mut Run, other: PartitionId| {
        for i in 0..10_000 {
            if run.put(if i % 2 == 0 { A } else { other }, 2000).is_err() {
                return i;
            }
        }
        panic!("the device never fills");
    };
    assert!(fill(&mut run, B) > 1000);
    run.trim(A, -1).unwrap();
    run.delete_partition(B);
    // What leaves waits for a checkpoint, which comes within a dozen turns.
    for _ in 0..25 {
        run.work();
    }
    assert!(run.world.pool.counts().used <= 4, "{:?}", run.world.pool.counts());
    // An id that was deleted is never used again.
    run.add_partition(C, JOURNAL, forever());
    assert!(fill(&mut run, C) > 1000);
    let (run, _) = run.restart(|_, _| {}).unwrap();
    drop(run);
}

#[test]
fn a_full_device_starts_and_serves_reads_and_deletes() {
    let mut run = broker(plan(), 5);
    run.add_partition(A, JOURNAL, forever());
    while run.put(A, 4000).is_ok() {}
    run.stop().unwrap();
    let (mut run, _) = run.restart(|_, _| {}).unwrap();
    run.read_through(A).unwrap();
    run.trim(A, -1).unwrap();
    for _ in 0..10 {
        run.work();
    }
    run.put(A, 4000).unwrap();
}

/// A broker with two partitions and some MiB of records, stopped in order.
fn filled(seed: u64) -> Run {
    let mut run = broker(Plan { extents_max: 40, ..plan() }, seed);
    run.add_partition(A, JOURNAL, forever());
    run.add_partition(B, JOURNAL, forever());
    for i in 0..1500 {
        run.put(if i % 4 == 0 { A } else { B }, 1500).unwrap();
        if i % 40 == 0 {
            run.work();
        }
    }
    run.stop().unwrap();
    run.check().unwrap();
    run
}

/// Reads a partition through; what is not served must be called damaged. Returns how many batches were not.
fn read_damaged(run: &mut Run, id: PartitionId) -> usize {
    let (mut next, mut lost) = (run.logs[&id].start, 0);
    let end = run.logs[&id].acked_end();
    while next < end {
        match run.fetch(id, next, 100_000).unwrap() {
            (ReadOutcome::Data { .. }, bytes) => next = run.logs[&id].check_served(next, &bytes).unwrap(),
            (ReadOutcome::Damaged { next: after, .. }, _) => {
                assert!(after.0 > next && after.0 <= end, "partition {id} at {next}: damaged up to {after} of {end}");
                lost += run.logs[&id].acked.range(next..after.0).count();
                next = after.0;
            }
            other => panic!("partition {id} at {next} of {end}: {other:?}"),
        }
    }
    lost
}

#[test]
fn rot_in_a_payload_costs_one_batch() {
    for without_checkpoint in [false, true] {
        let mut run = filled(6);
        run.checked = false;
        let victim = run.logs[&B].acked.values().nth(300).unwrap().clone();
        let (mut run, reports) = run
            .restart(|rest, _| {
                if without_checkpoint {
                    rest.files.clear();
                }
                // The position is the frame's: behind the frame's header and the batch's lies its record.
                let at = offset_of(rest, victim.position.0);
                rest.disk.rot(at + 64 + 200, 0x40);
            })
            .unwrap();
        assert_eq!(one(&reports).closed, None);
        assert_eq!(read_damaged(&mut run, A), 0);
        assert_eq!(read_damaged(&mut run, B), 1);
        let end = run.logs[&B].end();
        run.put(B, 100).unwrap();
        assert_eq!(run.logs[&B].end(), end + 1, "offsets go on");
    }
}

/// Where a position lies on the device.
fn offset_of(rest: &mut Rest, position: u64) -> u64 {
    let device = journal::inspect::device(&mut rest.disk, &sim::sums()).unwrap();
    let mut best = None;
    for extent in device.extents {
        if let journal::inspect::ExtentClaim::Journal { start, .. } = extent.claim
            && start.0 <= position
        {
            best = best.max(Some((start.0, extent.offset)));
        }
    }
    let (start, offset) = best.unwrap();
    offset + 4096 + position - start
}

#[test]
fn rot_in_a_unit_header_costs_that_unit_and_nothing_after_it() {
    for without_checkpoint in [false, true] {
        let mut run = filled(7);
        run.checked = false;
        let victim = run.logs[&B].acked.values().nth(300).unwrap().clone();
        let (mut run, reports) = run
            .restart(|rest, _| {
                if without_checkpoint {
                    rest.files.clear();
                }
                let at = offset_of(rest, victim.position.0 / 4096 * 4096);
                rest.disk.rot(at + 50, 0x40);
            })
            .unwrap();
        assert_eq!(one(&reports).closed, None);
        let lost = read_damaged(&mut run, A) + read_damaged(&mut run, B);
        assert!((1..30).contains(&lost), "{lost} batches lost");
    }
}

#[test]
fn a_sector_that_cannot_be_read_closes_the_journal_by_name_or_fences_the_read() {
    let mut run = filled(8);
    run.checked = false;
    let victim = run.logs[&B].acked.values().nth(300).unwrap().clone();
    let (_, reports) = run
        .restart(|rest, _| {
            rest.files.clear();
            let at = offset_of(rest, victim.position.0 / 4096 * 4096);
            rest.disk.spoil(at);
        })
        .unwrap();
    let closed = one(&reports).closed.clone().expect("a read error is not damage");
    assert!(closed.contains("read"), "{closed}");
}

#[test]
fn lost_checkpoints_cost_a_scan_and_no_data() {
    let mut run = filled(9);
    for how in 0..3 {
        let (next, reports) = run
            .restart(|rest, chance| match how {
                0 => rest.files.clear(),
                1 => {
                    let file = rest.files.get_mut(&JOURNAL).unwrap();
                    file.truncate(chance.index(file.len()));
                }
                _ => {
                    let file = rest.files.get_mut(&JOURNAL).unwrap();
                    let at = chance.index(file.len());
                    file[at] ^= 1;
                }
            })
            .unwrap();
        assert_eq!(one(&reports).closed, None);
        run = next;
        run.put(A, 100).unwrap();
        run.stop().unwrap();
    }
}

#[test]
fn a_stale_unit_of_an_earlier_life_behind_the_end_is_not_taken() {
    // Lost tails leave whole units behind holes; the epoch tells them. Many crashes in a row with little written between.
    for seed in 0..40 {
        let mut run = broker(plan(), 1000 + seed);
        run.add_partition(A, JOURNAL, forever());
        for _ in 0..6 {
            for _ in 0..run.chance.between(1, 12) {
                run.put(A, 3000).unwrap();
                run.world.pump();
            }
            run = run.restart(|_, _| {}).unwrap().0;
        }
    }
}
