//! A client that tries to get a unit of its own making into the journal: it lies inside a record, where a scan over damage
//! would come upon it.

use base::image::Secret;
use base::{Epoch, JournalId, Offset, PartitionId, Position, WallMs};
use journal::format::{Chain, FrameHeader, FrameKind, UnitHeader};
use protocol::batch::{BatchBuilder, Producer};

use super::Broker;
use crate::sums;
use crate::world::CLUSTER;

const PAGE: usize = 4096;

/// What the forged record begins with: a batch that nobody sent.
const NOBODY: u64 = u64::MAX;

/// A unit of one page with one record of its own, at a place of the journal, as one makes it who does not know the secret.
fn forged(journal: JournalId, position: Position, epoch: i32, partition: PartitionId, base: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.append(1_700_000_000_000, None, Some(&NOBODY.to_le_bytes()), &[]);
    let mut batch = builder.finish(Producer::NONE, &sums()).to_vec();
    // The base offset and the leader epoch, which the checksum does not cover.
    batch[..8].copy_from_slice(&base.to_be_bytes());
    batch[12..16].copy_from_slice(&epoch.to_be_bytes());
    let length = UnitHeader::BYTES + FrameHeader::frame_bytes(batch.len());
    let frame = FrameHeader {
        kind: FrameKind::Records,
        flags: 0,
        records: 1,
        partition,
        base_offset: Offset(base),
        max_timestamp: WallMs(1_700_000_000_000),
        length: u32::try_from(batch.len()).expect("small"),
        epoch: Epoch(epoch),
        payload: (sums().crc64)(0, &batch),
        last_offset_delta: 0,
    };
    let mut page = vec![0; PAGE];
    let at = UnitHeader::BYTES + FrameHeader::BYTES;
    frame.encode(&sums(), &mut page[UnitHeader::BYTES..at]);
    page[at..at + batch.len()].copy_from_slice(&batch);
    let header = UnitHeader {
        cluster: CLUSTER,
        journal,
        position,
        length: u32::try_from(length).expect("small"),
        padding: u32::try_from(PAGE - length).expect("it fits a page"),
        epoch: Epoch(epoch),
        frames: 1,
        chain: Chain(0),
        commit: position,
        wall: WallMs(1_700_000_000_000),
        flags: 0,
        key_id: 0,
        body: (sums().crc64)(0, &page[UnitHeader::BYTES..at]),
    };
    header.encode(&Secret([0; 16]), &mut page);
    page
}

impl Broker {
    /// Sends a record with forged units in it, when nothing else is on its way, and gives the byte of the device where the unit
    /// lies that carries it, if it went where it should.
    pub(super) fn attack(&mut self) -> Result<Option<u64>, String> {
        self.calm()?;
        let Some((partition, shard)) = self.some_partition() else { return Ok(None) };
        let Some(part) = self.ledger.parts.get(&partition) else { return Ok(None) };
        let (journal, high) = (part.journal, part.high);
        let Some(last) = self.world.told.units.get(&journal).copied() else { return Ok(None) };
        let id = self.ledger.next_batch();
        // Where a value begins in a unit whose first frame is its batch.
        let batch = |value: &[u8]| {
            let mut builder = BatchBuilder::new();
            builder.append(1_700_000_000_000, None, Some(value), &[]);
            builder.finish(Producer::NONE, &sums()).to_vec()
        };
        let units = 3;
        let mut value = (id as u64).to_le_bytes().to_vec();
        value.resize((units + 1) * PAGE, 0);
        let before = batch(&value).len() - 1 - value.len() + UnitHeader::BYTES + FrameHeader::BYTES;
        for unit in 1..=units {
            let position = last.end.plus((unit * PAGE) as u64);
            let page = forged(journal, position, self.epoch, partition, high);
            let at = unit * PAGE - before;
            value[at..at + PAGE].copy_from_slice(&page);
        }
        let sent = self.ledger.send(partition, batch(&value), 1, None);
        self.append_by_command(shard, partition, sent);
        self.calm()?;
        let unit = self.world.told.units.get(&journal).copied();
        Ok(unit
            .filter(|unit| unit.position == last.end && unit.end > last.end.plus(PAGE as u64))
            .map(|unit| unit.offset))
    }
}
