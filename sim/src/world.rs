//! Journals of one broker on a simulated device: shards with their stores, the keeper's pool and checkpoint files, and a
//! scheduler that completes what is in flight in any order.

use std::collections::{BTreeMap, VecDeque};

use base::image::{JournalClass, JournalEntry, Lifetime, Secret};
use base::memory::Block;
use base::{BrokerId, ClusterId, DeviceIndex, Epoch, JournalId, Mono, Now, Position, ShardId, WallMs};
use journal::Store;
use journal::device::Device;
use journal::pool::{Filled, Pool, PoolConfig, Wanted};
use journal::storage::Storage as _;
use journal::store::{ClusterConfig, Durability, Effect, Event, ExtentAddress, StoreConfig, Wish};

use crate::disk::WriteId;
use crate::{Chance, Disk, SimArena, sums};

/// The cluster of every simulated broker.
pub const CLUSTER: ClusterId = ClusterId(0x5151);
/// The broker.
pub const BROKER: BrokerId = BrokerId(1);
/// The device's id.
pub const DEVICE_ID: u128 = 0xd1;
/// Its index.
pub const DEVICE: DeviceIndex = DeviceIndex(0);

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Shards.
    pub shards: u16,
    /// Journals, shard by shard in turn.
    pub journals: u64,
    /// Length of an extent.
    pub extent_len: u64,
    /// Most extents of the device.
    pub extents_max: u64,
    /// Where a unit is closed.
    pub unit_bytes: u32,
    /// K.
    pub writes_in_flight: u32,
    /// L.
    pub bytes_in_flight: u32,
    /// Bytes between checkpoints.
    pub checkpoint_bytes: u64,
    /// How writes become durable.
    pub durability: Durability,
    /// Largest batch.
    pub batch_bytes: usize,
}

impl Plan {
    /// A plan by chance.
    pub fn any(chance: &mut Chance) -> Self {
        Self {
            shards: if chance.odds(1, 4) { 2 } else { 1 },
            journals: chance.between(1, 3),
            extent_len: *chance.pick(&[128 << 10, 256 << 10, 512 << 10]),
            extents_max: chance.between(12, 40),
            unit_bytes: *chance.pick(&[4 << 10, 16 << 10, 64 << 10, 256 << 10]),
            writes_in_flight: *chance.pick(&[1, 2, 4, 8]),
            bytes_in_flight: *chance.pick(&[64 << 10, 256 << 10, 1 << 20]),
            checkpoint_bytes: *chance.pick(&[32 << 10, 128 << 10, 1 << 20]),
            durability: *chance.pick(&[
                Durability::Flush,
                Durability::Flush,
                Durability::Flush,
                Durability::Fua,
                Durability::WriteThrough,
            ]),
            batch_bytes: *chance.pick(&[200, 2000, 20_000]),
        }
    }

    /// The configuration of a store.
    #[must_use]
    pub fn store_config(&self, incarnation: u128) -> StoreConfig {
        StoreConfig {
            cluster: CLUSTER,
            broker: BROKER,
            incarnation,
            sums: sums(),
            hash_seed: 5,
            unit_bytes: self.unit_bytes,
            writes_in_flight: self.writes_in_flight,
            bytes_in_flight: self.bytes_in_flight,
            checkpoint_bytes: self.checkpoint_bytes,
            footer_cache_bytes: 16 << 10,
            clustering: ClusterConfig {
                gather_bytes: 16 << 10 << (self.extents_max % 5),
                bytes_per_second: if self.extents_max.is_multiple_of(4) { 0 } else { 1 << 30 },
                rest_ms: 0,
            },
            // From some tens of keys to a few thousand.
            compaction_bytes: 1 << (10 + self.extents_max % 7),
            codecs: base::Codecs::none(),
            producers_per_partition_max: 64,
            producer_expiry_ms: 7 * 86_400_000,
            durability: vec![self.durability],
        }
    }

    /// The entry of a journal.
    #[must_use]
    pub fn journal(&self, id: u64, epoch: i32) -> JournalEntry {
        JournalEntry {
            id: JournalId(id),
            class: JournalClass { replicas: 1, compacted: false, lifetime: Lifetime::Medium, internal: false },
            device: DEVICE,
            shard: self.shard_of(id),
            epoch: Epoch(epoch),
            secret: Secret(u128::from(id + 1).wrapping_mul(0x1234_5678_9abc_def1_0f0e_0d0c).to_le_bytes()),
        }
    }

    /// The shard that owns a journal.
    #[must_use]
    pub fn shard_of(&self, id: u64) -> ShardId {
        ShardId(u16::try_from(id % u64::from(self.shards)).expect("few shards"))
    }

    /// The bounds of the pool.
    #[must_use]
    pub fn pool_config(&self, extents_offset: u64) -> PoolConfig {
        PoolConfig {
            device: DEVICE,
            extents_offset,
            extent_len: self.extent_len,
            extents_max: self.extents_max,
            ahead: 2,
            reserve: 2,
            resume: 0,
        }
    }
}

/// When a record was made, in ms since 1970: any may be the newest of its batch, and not all batches come in the order of their
/// times.
#[must_use]
pub fn time_of_record(now: WallMs, batch: u64, record: u64) -> i64 {
    now.0 + ((batch * 13 + record * 29) % 60).cast_signed()
}

/// Something in flight.
#[derive(Debug)]
enum Op {
    Write { token: u64, id: WriteId, fua: bool, arena_start: usize, len: usize },
    Flush { token: u64, mark: u64 },
    Read { token: u64, offset: u64, block: Block, len: usize },
    Free { extent: ExtentAddress },
    Checkpoint { journal: JournalId, bytes: Vec<u8>, replace: bool },
}

/// What goes wrong next, counted in completions of that kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Fail the write that completes after so many.
    pub write: Option<u64>,
    /// Fail the flush that completes after so many.
    pub flush: Option<u64>,
    /// Fail the read that completes after so many.
    pub read: Option<u64>,
}

/// A shard: its store and its memory.
#[derive(Debug)]
pub struct Shard {
    /// Its journals.
    pub store: Store<SimArena>,
    /// Its memory.
    pub arena: SimArena,
}

/// What lives in a world: a store with its memory, or a whole shard around one.
pub trait Host {
    /// Its memory.
    fn arena(&self) -> &SimArena;
    /// Its memory, to change.
    fn arena_mut(&mut self) -> &mut SimArena;
    /// Takes a completion; what it asks for at once goes into `out`.
    fn tell(&mut self, now: Now, event: Event, out: &mut Vec<Effect>);
}

impl Host for Shard {
    fn arena(&self) -> &SimArena {
        &self.arena
    }

    fn arena_mut(&mut self) -> &mut SimArena {
        &mut self.arena
    }

    fn tell(&mut self, now: Now, event: Event, out: &mut Vec<Effect>) {
        self.store.handle(now, event, &mut self.arena, out);
    }
}

/// What the stores told.
#[derive(Debug, Default)]
pub struct Told {
    /// Commit positions, the newest of each journal.
    pub committed: BTreeMap<JournalId, Position>,
    /// Journals that were fenced, and why.
    pub fenced: BTreeMap<JournalId, String>,
    /// Reads that may be tried again.
    pub ready: u64,
    /// Extents freed.
    pub freed: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// The last unit of each journal that was written.
    pub units: BTreeMap<JournalId, LastUnit>,
}

/// A unit on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastUnit {
    /// Its first byte on the device.
    pub offset: u64,
    /// Where it lies in its journal.
    pub position: Position,
    /// Position after it.
    pub end: Position,
}

/// What a write to the device says of the unit in it, behind the extent's header if that is there too.
fn unit_in(offset: u64, bytes: &[u8]) -> Option<(JournalId, LastUnit)> {
    let at = [0, 4096].into_iter().find(|&at| bytes.get(at..).is_some_and(|rest| rest.starts_with(b"BARELOGU")))?;
    let number = |from: usize| Some(u64::from_le_bytes(*bytes.get(at + from..)?.first_chunk()?));
    let length = |from: usize| Some(u32::from_le_bytes(*bytes.get(at + from..)?.first_chunk()?));
    let (journal, position) = (JournalId(number(32)?), Position(number(40)?));
    let end = position.plus(u64::from(length(48)?) + u64::from(length(52)?));
    Some((journal, LastUnit { offset: offset + at as u64, position, end }))
}

/// One broker's journals while they run.
#[derive(Debug)]
pub struct World<S = Shard> {
    /// How it is made.
    pub plan: Plan,
    /// The shards.
    pub shards: Vec<S>,
    /// The device.
    pub disk: Disk,
    /// Its extents.
    pub pool: Pool,
    /// Checkpoint files.
    pub files: BTreeMap<JournalId, Vec<u8>>,
    /// Both clocks.
    pub now: Now,
    /// What the stores told since they were started.
    pub told: Told,
    /// What goes wrong.
    pub faults: Faults,
    /// A hash over everything that happened.
    pub trace: u64,
    ops: Vec<(usize, Op)>,
    /// Extents asked for, by shard; answered in the order of the questions.
    wishes: Vec<VecDeque<Wish>>,
    filling: Option<journal::pool::Fill>,
}

/// A broker that is not running: what lies on its device and beside it.
#[derive(Debug)]
pub struct Rest {
    /// How it was made.
    pub plan: Plan,
    /// The device.
    pub disk: Disk,
    /// Checkpoint files.
    pub files: BTreeMap<JournalId, Vec<u8>>,
    /// Both clocks.
    pub now: Now,
    /// The hash so far.
    pub trace: u64,
}

impl Rest {
    /// A broker that never ran, with a new device.
    ///
    /// # Panics
    /// When the device cannot be made.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let label = Device::layout(CLUSTER, BROKER, DEVICE_ID, plan.extent_len, 8);
        let mut disk = Disk::new(label.extents_offset + plan.extents_max * plan.extent_len);
        Device::create(&mut disk, label, &sums()).expect("a new device");
        let now = Now { mono: Mono(1), wall: WallMs(1_700_000_000_000) };
        Self { plan, disk, files: BTreeMap::new(), now, trace: 0xcbf2_9ce4_8422_2325 }
    }
}

impl<S: Host> World<S> {
    /// A running broker over stores that recovery made.
    #[must_use]
    pub fn new(rest: Rest, shards: Vec<S>, pool: Pool) -> Self {
        let Rest { plan, disk, files, now, trace } = rest;
        let wishes = shards.iter().map(|_| VecDeque::new()).collect();
        Self {
            plan,
            shards,
            disk,
            pool,
            files,
            now,
            told: Told::default(),
            faults: Faults::default(),
            trace,
            ops: Vec::new(),
            wishes,
            filling: None,
        }
    }

    /// Counts something into the trace.
    pub fn note(&mut self, what: u64) {
        self.trace = (self.trace ^ what).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Lets time pass.
    pub fn pass_ms(&mut self, ms: u64) {
        self.now.mono = self.now.mono.plus_ms(ms);
        self.now.wall.0 += i64::try_from(ms).expect("little time");
    }

    /// Things in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.ops.len() + self.wishes.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Takes what a shard asks for.
    pub fn take(&mut self, shard: usize, out: impl IntoIterator<Item = Effect>) {
        for effect in out {
            if let Some(op) = self.begin(shard, effect) {
                self.ops.push((shard, op));
            }
        }
    }

    fn begin(&mut self, shard: usize, effect: Effect) -> Option<Op> {
        match effect {
            Effect::Write { token, offset, arena_start, len, fua, .. } => {
                let bytes = self.shards[shard].arena().frozen(arena_start, len);
                let id = self.disk.submit(offset, bytes);
                // A unit's header stands for all of it.
                let sum = (sums().crc64)(0, &bytes[..128]);
                if let Some((journal, unit)) = unit_in(offset, bytes) {
                    self.told.units.insert(journal, unit);
                }
                self.note(offset ^ sum);
                return Some(Op::Write { token, id, fua, arena_start, len });
            }
            Effect::Flush { token, .. } => return Some(Op::Flush { token, mark: self.disk.flush_submit() }),
            Effect::Read { token, offset, block, len, .. } => {
                self.shards[shard].arena_mut().lend(&block);
                return Some(Op::Read { token, offset, block, len });
            }
            Effect::NeedExtent { wish, .. } => self.wishes[shard].push_back(wish),
            Effect::FreeExtent { extent } => return Some(Op::Free { extent }),
            Effect::Checkpoint { journal, bytes, replace } => {
                return Some(Op::Checkpoint { journal, bytes, replace });
            }
            Effect::Advanced { .. } | Effect::Damaged { .. } => {}
            Effect::Committed { journal, upto } => {
                let before = self.told.committed.insert(journal, upto);
                assert!(before.is_none_or(|before| before <= upto), "the commit position of {journal} fell");
            }
            Effect::ReadReady { .. } => self.told.ready += 1,
            Effect::Fenced { journal, reason } => {
                self.told.fenced.insert(journal, reason);
            }
            Effect::DeviceFailed { reason, .. } => {
                // At once: no other shard may advance a durable position of the device before it knows.
                for other in (0..self.shards.len()).filter(|&other| other != shard) {
                    self.tell(other, Event::DeviceFailed { device: DEVICE, reason: reason.clone() });
                }
            }
        }
        None
    }

    /// Completes one thing in flight, by chance; `false` when nothing flies or nothing can be done.
    pub fn complete(&mut self, chance: &mut Chance) -> bool {
        if chance.odds(1, 4) {
            self.keep();
        }
        if self.in_flight() == 0 {
            return self.keep();
        }
        let at = chance.index(self.in_flight());
        if at >= self.ops.len() {
            return self.grant(at);
        }
        let (shard, op) = self.ops.swap_remove(at);
        self.note(at as u64);
        match op {
            Op::Write { token, id, fua, arena_start, len } => {
                let now = self.shards[shard].arena().frozen(arena_start, len);
                assert!(self.disk.flies(id, now), "bytes changed while they were written");
                let result = if due(&mut self.faults.write) {
                    self.disk.fail(id, chance);
                    Err("write failed".into())
                } else {
                    if fua || self.plan.durability == Durability::WriteThrough {
                        self.disk.complete_durable(id);
                    } else {
                        self.disk.complete(id);
                    }
                    Ok(())
                };
                self.tell(shard, Event::Written { token, result });
            }
            Op::Flush { token, mark } => {
                let result = if due(&mut self.faults.flush) {
                    self.disk.flush_fail(mark);
                    // The backends of all shards know of it before anything else is reaped.
                    for other in (0..self.shards.len()).filter(|&other| other != shard) {
                        let reason = "flush failed elsewhere".into();
                        self.tell(other, Event::DeviceFailed { device: DEVICE, reason });
                    }
                    Err("flush failed".into())
                } else {
                    self.disk.flush_complete(mark);
                    Ok(())
                };
                self.tell(shard, Event::Flushed { token, result });
            }
            Op::Read { token, offset, block, len } => {
                let mut bytes = vec![0; len];
                let read = if due(&mut self.faults.read) {
                    Err("read failed".into())
                } else {
                    self.disk.peek(offset, &mut bytes).map_err(|error| format!("{error:?}"))
                };
                self.shards[shard].arena_mut().give_back(&block, &bytes);
                self.tell(shard, Event::Read { token, block, result: read });
            }
            Op::Free { extent } => {
                self.told.freed += 1;
                self.pool.give_back(extent);
            }
            Op::Checkpoint { journal, bytes, replace } => {
                self.told.checkpoints += 1;
                self.store_file(journal, &bytes, replace);
                self.tell(shard, Event::CheckpointDone { journal, result: Ok(()) });
            }
        }
        true
    }

    fn store_file(&mut self, journal: JournalId, bytes: &[u8], replace: bool) {
        let file = self.files.entry(journal).or_default();
        if replace {
            file.clear();
        }
        file.extend_from_slice(bytes);
    }

    fn tell(&mut self, shard: usize, event: Event) {
        let mut out = Vec::new();
        self.shards[shard].tell(self.now, event, &mut out);
        self.take(shard, out);
    }

    /// Answers the first wish of a shard that has some; `at` says of which.
    fn grant(&mut self, at: usize) -> bool {
        let wishing: Vec<usize> = (0..self.wishes.len()).filter(|&shard| !self.wishes[shard].is_empty()).collect();
        let shard = wishing[at % wishing.len()];
        let wish = self.wishes[shard][0];
        let extent = match self.pool.want(wish) {
            Wanted::Extent(extent) => Some(extent),
            Wanted::Full => None,
            Wanted::Later => return self.keep(),
        };
        self.wishes[shard].pop_front();
        self.tell(shard, Event::Extent { device: DEVICE, extent });
        true
    }

    /// The keeper's turn: begins or ends filling an extent.
    fn keep(&mut self) -> bool {
        if let Some(fill) = self.filling.take() {
            let grown = fill.grow.map_or(Ok(()), |len| self.disk.grow(len));
            if grown.is_ok() {
                self.disk.fill(fill.offset, fill.len);
            }
            self.pool.done(if grown.is_ok() { Filled::Done } else { Filled::NoSpace });
            return true;
        }
        self.filling = self.pool.work();
        self.filling.is_some()
    }

    /// Cuts the power.
    #[must_use]
    pub fn crash(mut self, chance: &mut Chance) -> Rest {
        // A checkpoint in flight: replaced or not, or appended in part.
        for (_, op) in std::mem::take(&mut self.ops) {
            if let Op::Checkpoint { journal, bytes, replace } = op {
                match (replace, chance.odds(1, 2)) {
                    (true, true) => self.store_file(journal, &bytes, true),
                    (true, false) => {}
                    (false, _) => self.store_file(journal, &bytes[..chance.index(bytes.len() + 1)], false),
                }
            }
        }
        let survival = crate::disk::any_survival(chance);
        self.disk.crash(chance, survival);
        self.note(survival as u64);
        let Self { plan, disk, files, now, trace, .. } = self;
        Rest { plan, disk, files, now, trace }
    }
}

impl World {
    /// Lets a shard do something and takes its effects.
    pub fn with<T>(
        &mut self,
        shard: usize,
        act: impl FnOnce(&mut Store<SimArena>, &mut SimArena, Now, &mut Vec<Effect>) -> T,
    ) -> T {
        let mut out = Vec::new();
        let Shard { store, arena } = &mut self.shards[shard];
        let result = act(store, arena, self.now, &mut out);
        self.take(shard, out);
        result
    }

    /// Pumps every shard.
    pub fn pump(&mut self) {
        for shard in 0..self.shards.len() {
            self.with(shard, |store, arena, now, out| store.pump(now, arena, out));
        }
    }

    /// Housekeeping of every shard.
    pub fn housekeep(&mut self) {
        self.pool.retry_growth();
        for shard in 0..self.shards.len() {
            self.with(shard, |store, arena, now, out| store.housekeep(now, arena, out));
        }
    }

    /// Completes things until nothing flies, pumping between.
    ///
    /// # Panics
    /// When it never ends.
    pub fn settle(&mut self, chance: &mut Chance) {
        let mut last = String::new();
        for turn in 0..100_000 {
            self.pump();
            if self.in_flight() == 0 {
                return;
            }
            if turn > 99_990 {
                last += &format!("{:?} {:?} {:?} {:?}\n", self.ops, self.wishes, self.pool.counts(), self.filling);
            }
            self.complete(chance);
        }
        panic!("things fly for ever: {last}");
    }
}

/// Counts a fault down: true once.
fn due(fault: &mut Option<u64>) -> bool {
    match fault {
        Some(0) => {
            *fault = None;
            true
        }
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}
