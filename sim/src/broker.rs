//! A whole broker's data path in one thread: the shipped shards and journals on a simulated device, network, clock and rings,
//! with clients that speak Kafka's bytes and a control plane that sends its commands.

mod attack;
mod clients;
mod control;
pub mod ledger;
mod life;
mod moves;
pub mod ports;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::image::{Image, SeededHash, SharedMap};
use base::stats::ShardStats;
use base::{JournalId, PartitionId, ShardId};
use journal::recovery::JournalReport;
use shard::ports::Backends;
use shard::{Limits, Shard, ShardConfig};

use crate::levels::Report;
use crate::world::{BROKER, CLUSTER, Faults, Plan, Rest, World};
use crate::{Chance, recover};

use clients::{Consumer, Producer};
use control::Asked;
use ledger::Ledger;
use ports::{Device, Net, Rings, SimPorts};

pub use life::{run, run_harmed};

/// Says what happens, in a build with `SIM_TALK` set: for the one who looks for what a seed has found.
fn talk(text: impl FnOnce() -> String) {
    if option_env!("SIM_TALK").is_some() {
        eprintln!("{}", text());
    }
}

/// What a seed did, for those who want to know that it did anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Hash over everything that happened.
    pub trace: u64,
    /// Lives begun after the first.
    pub restarts: u64,
    /// Batches sent.
    pub sent: u64,
    /// Batches acked.
    pub acked: u64,
    /// Batches that nobody had acked and that a restart brought back.
    pub survived: u64,
    /// Batches that a crash took.
    pub lost: u64,
    /// Batches sent again.
    pub resent: u64,
    /// Answers to Fetch that brought records.
    pub fetches: u64,
    /// Answers to incremental fetches of a session.
    pub sessions: u64,
    /// Connections that broke.
    pub resets: u64,
    /// Commands of the control plane that were done.
    pub commands: u64,
    /// Batches refused for want of space.
    pub full: u64,
    /// Journals fenced by planted faults.
    pub fenced: u64,
    /// Extents freed.
    pub freed: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Messages that waited for a place in a ring.
    pub held: u64,
    /// Batches that damage took.
    pub damaged: u64,
    /// Journals that stayed closed.
    pub closed: u64,
    /// Partitions that moved to another journal.
    pub moved: u64,
    /// Moves that were called off.
    pub stayed: u64,
}

impl Summary {
    /// For those who add up many.
    #[must_use]
    pub fn report(&self) -> Report {
        let counts = [
            ("restarts", self.restarts),
            ("batches sent", self.sent),
            ("acked", self.acked),
            ("survived unacked", self.survived),
            ("lost unacked", self.lost),
            ("sent again", self.resent),
            ("fetches with records", self.fetches),
            ("incremental fetches", self.sessions),
            ("connections reset", self.resets),
            ("commands", self.commands),
            ("refused for space", self.full),
            ("journals fenced", self.fenced),
            ("extents freed", self.freed),
            ("checkpoints", self.checkpoints),
            ("messages held", self.held),
            ("batches damaged", self.damaged),
            ("journals closed", self.closed),
            ("partitions moved", self.moved),
            ("moves called off", self.stayed),
        ];
        Report::new(self.trace, &counts)
    }
}

/// What one life of a broker is like.
#[derive(Clone, Debug)]
struct Weather {
    /// Places of each ring.
    places: usize,
    /// Bounds of the shards.
    limits: Limits,
    /// Completions in a hundred steps are divided by this.
    slowness: u64,
    /// Connections break about once in so many steps.
    reset_every: u64,
}

impl Weather {
    fn any(chance: &mut Chance) -> Self {
        let limits = Limits {
            conn_requests_max: *chance.pick(&[2, 8, 256]),
            append_quantum: *chance.pick(&[1 << 10, 64 << 10]),
            gather_below: *chance.pick(&[0, 200, 4 << 10]),
            pinned_bytes_max: *chance.pick(&[0, 64 << 20]),
            waiting_reads_max: *chance.pick(&[1, 4, 1000]),
            sessions_max: *chance.pick(&[1, 2, 1000]),
            neighbour_requests_max: *chance.pick(&[1, 4, 4096]),
            commands_max: *chance.pick(&[1, 4096]),
            fetch_bytes_max: *chance.pick(&[64 << 10, 55 << 20]),
            ..Limits::default()
        };
        Self {
            places: *chance.pick(&[1, 2, 64]),
            limits,
            slowness: *chance.pick(&[1, 1, 1, 8]),
            reset_every: *chance.pick(&[20, 100, 1_000_000]),
        }
    }
}

/// A broker under test, its control plane and its clients.
pub struct Broker {
    chance: Chance,
    world: World<Shard<SimPorts>>,
    stats: Vec<Arc<ShardStats>>,
    rings: Rings,
    weather: Weather,
    /// What metadata holds.
    image: Image,
    /// Topics that metadata here has not heard of yet, though they exist.
    late: Vec<Arc<base::image::TopicEntry>>,
    /// Partitions that were deleted while metadata here had not heard of them.
    late_deleted: Vec<PartitionId>,
    ledger: Ledger,
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    /// What the last read or look at the ends brought: the offset after it, log start and high watermark.
    read: Option<Result<(i64, i64, i64), base::message::Refusal>>,
    /// Commands that are not done, by token.
    asked: BTreeMap<u64, Asked>,
    /// Partitions on their way to another journal, and how far they are.
    moves: BTreeMap<PartitionId, moves::Step>,
    /// What the new home of those is given that are being opened.
    moves_at: BTreeMap<PartitionId, (base::Offset, Vec<u8>)>,
    next_token: u64,
    next_partition: u64,
    next_topic: u64,
    epoch: i32,
    summary: Summary,
    /// Whether an I/O fault was planted in this life.
    faulty: bool,
    /// Journals that take no more appends in this life.
    fenced: BTreeSet<JournalId>,
    /// Journals that stayed closed at the start.
    closed: BTreeSet<JournalId>,
    /// Shards that said they are at their end.
    stopped: BTreeSet<u16>,
    /// An orderly stop has begun: nobody connects.
    stopping: bool,
    /// After the next start times are searched for before anything is read.
    search_first: bool,
}

/// A plan for several shards, from one seed.
fn any_plan(chance: &mut Chance) -> Plan {
    let shards = *chance.pick(&[1, 1, 2, 3]);
    let journals = chance.between(u64::from(shards), u64::from(shards) + 2);
    let mut plan = Plan { shards, journals, ..Plan::any(chance) };
    if chance.odds(1, 4) {
        // Extents fill, are left and are used again.
        plan = Plan { extent_len: 128 << 10, batch_bytes: 20_000, checkpoint_bytes: 32 << 10, ..plan };
    }
    // Room for every journal to write in, one to clean with, and now and then for hardly more.
    let least = journals * 2 + 3;
    let extents_max = if chance.odds(1, 4) { least } else { least + plan.extents_max };
    Plan { extents_max, ..plan }
}

fn empty_image() -> Image {
    let hash = SeededHash(3);
    Image {
        generation: 1,
        cluster: CLUSTER,
        broker: BROKER,
        listeners: Arc::new([]),
        topics: SharedMap::new(hash),
        topics_by_id: SharedMap::new(hash),
        journals: SharedMap::new(hash),
        homes: SharedMap::new(hash),
        partitions_below: PartitionId(1),
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").field("plan", &self.world.plan).field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

impl Broker {
    /// A broker with a new device.
    ///
    /// # Errors
    /// What is wrong.
    pub fn first(mut chance: Chance) -> Result<Self, String> {
        let plan = any_plan(&mut chance);
        let weather = Weather::any(&mut chance);
        let mut epoch = 0;
        let mut image = empty_image();
        let (world, stats, rings, _) = start(Rest::new(plan), &mut epoch, &mut image, &weather, &mut chance)?;
        let mut broker = Self {
            chance,
            world,
            stats,
            rings,
            weather,
            image,
            late: Vec::new(),
            late_deleted: Vec::new(),
            ledger: Ledger::default(),
            producers: Vec::new(),
            consumers: Vec::new(),
            read: None,
            asked: BTreeMap::new(),
            moves: BTreeMap::new(),
            moves_at: BTreeMap::new(),
            next_token: 0,
            next_partition: 1,
            next_topic: 0,
            epoch,
            summary: Summary::default(),
            faulty: false,
            fenced: BTreeSet::new(),
            closed: BTreeSet::new(),
            stopped: BTreeSet::new(),
            stopping: false,
            search_first: false,
        };
        for _ in 0..broker.chance.between(1, 3) {
            broker.create_topic();
        }
        broker.people();
        Ok(broker)
    }

    /// Turns a shard, and takes what it asks for.
    fn turn(&mut self, shard: usize) -> bool {
        let now = self.world.now;
        let idle = self.world.shards[shard].turn(now);
        self.collect(shard);
        idle.busy
    }

    fn collect(&mut self, shard: usize) {
        let asked = std::mem::take(&mut self.world.shards[shard].backends_mut().devices.asked);
        self.world.take(shard, asked);
    }

    fn housekeep(&mut self) {
        self.world.pool.retry_growth();
        let now = self.world.now;
        for shard in 0..self.world.shards.len() {
            self.world.shards[shard].housekeep(now);
            self.collect(shard);
        }
    }

    fn net(&mut self, shard: usize) -> &mut Net {
        &mut self.world.shards[shard].backends_mut().network
    }

    /// Moves bytes on one connection of a shard. Whether any could move.
    fn move_bytes(&mut self, shard: usize) -> bool {
        let movable: Vec<_> = self.net(shard).movable().collect();
        if movable.is_empty() {
            return false;
        }
        let conn = *self.chance.pick(&movable);
        let bytes = *self.chance.pick(&[1, 7, 100, 5000, 1 << 20, 1 << 20]);
        self.net(shard).advance(conn, bytes);
        true
    }

    /// Plants an I/O fault in this life.
    fn plant(&mut self) {
        self.faulty = true;
        let after = self.chance.between(0, 60);
        self.world.faults = match self.chance.below(3) {
            0 => Faults { write: Some(after), ..Faults::default() },
            1 => Faults { flush: Some(after / 2), ..Faults::default() },
            _ => Faults { read: Some(after / 8), ..Faults::default() },
        };
        talk(|| format!("planted {:?}", self.world.faults));
    }

    /// One thing happens.
    fn step(&mut self) -> Result<(), String> {
        let shard = self.chance.index(self.world.shards.len());
        match self.chance.below(100) {
            0..40 => {
                self.turn(shard);
            }
            40..60 => {
                if self.weather.slowness == 1 || self.chance.odds(1, self.weather.slowness) {
                    for _ in 0..self.chance.between(1, 4) {
                        self.world.complete(&mut self.chance);
                    }
                }
            }
            60..76 => {
                for _ in 0..self.chance.between(1, 3) {
                    self.move_bytes(shard);
                }
            }
            76..86 => self.produce()?,
            86..92 => self.consume()?,
            92..94 => self.hear()?,
            94..97 => {
                let ms = *self.chance.pick(&[1, 20, 300, 1100, 20_000]);
                self.pass(ms);
                self.housekeep();
            }
            97 if self.chance.odds(1, 2) => self.move_some(),
            97 => self.command(),
            98 => self.administrate(),
            _ => self.look_around()?,
        }
        if self.chance.odds(1, self.weather.reset_every) {
            self.break_connection();
        }
        Ok(())
    }

    /// Lets time pass; the wall clock steps now and then.
    fn pass(&mut self, ms: u64) {
        self.world.pass_ms(ms);
        if self.chance.odds(1, 8) {
            let step = *self.chance.pick(&[-7000, -100, 100, 3000]);
            self.world.now.wall.0 += step;
        }
    }

    /// Everything that can happen without anybody wanting more happens, in order. Whether anything did.
    fn round(&mut self) -> Result<bool, String> {
        let busy = self.quiet_round()?;
        Ok(busy | self.listen()?)
    }

    /// As [`Broker::round`], but clients do nothing.
    fn quiet_round(&mut self) -> Result<bool, String> {
        let mut busy = false;
        for shard in 0..self.world.shards.len() {
            let conns: Vec<_> = self.net(shard).movable().collect();
            for conn in conns {
                busy = true;
                self.net(shard).advance(conn, 1 << 20);
            }
            busy |= self.turn(shard);
        }
        while self.world.in_flight() > 0 && self.world.complete(&mut self.chance) {
            busy = true;
        }
        busy |= self.hear_all()?;
        busy |= self.lead_moves();
        Ok(busy)
    }

    /// Lets the broker come to rest: everything that was asked is answered.
    ///
    /// # Errors
    /// When it never is.
    fn calm(&mut self) -> Result<(), String> {
        let mut still = 0;
        for _ in 0..5000 {
            if self.round()? {
                still = 0;
                continue;
            }
            still += 1;
            if still > 2 && self.waiting() == 0 {
                return Ok(());
            }
            if still == 10 {
                self.nobody_waits_in_vain()?;
            }
            self.world.pass_ms(40);
            if still % 8 == 7 {
                self.housekeep();
            }
        }
        Err(format!(
            "{} requests and {:?} are never answered; fenced {:?}, pool {:?}",
            self.waiting(),
            self.asked,
            self.fenced,
            self.world.pool.counts()
        ))
    }

    /// Lets everything happen that happens without time going by.
    ///
    /// # Errors
    /// What is wrong.
    fn rest(&mut self) -> Result<(), String> {
        for _ in 0..5000 {
            if self.round()? || self.round()? {
                continue;
            }
            // Readers that found no memory are told to try again.
            self.housekeep();
            if !self.round()? && !self.round()? {
                return Ok(());
            }
        }
        Err("the broker never comes to rest".into())
    }

    /// Requests and commands that are not answered.
    fn waiting(&self) -> usize {
        let producers: usize = self.producers.iter().map(Producer::waiting).sum();
        producers + self.consumers.iter().filter(|consumer| consumer.waits()).count() + self.asked.len()
    }

    /// Whether reads and appends of a partition may fail by an I/O error, in any of its homes.
    fn may_fail(&self, id: PartitionId) -> bool {
        let fails = |part: &ledger::Part| part.journals.iter().any(|journal| self.may_fail_journal(*journal));
        self.ledger.parts.get(&id).is_none_or(fails)
    }

    fn may_fail_journal(&self, journal: JournalId) -> bool {
        self.fenced.contains(&journal) || self.closed.contains(&journal)
    }
}

/// A broker that was brought up: its world, what its shards count, its rings, and how its journals were found.
type Started = (World<Shard<SimPorts>>, Vec<Arc<ShardStats>>, Rings, Vec<JournalReport>);

/// Recovers the journals and makes shards of them.
fn start(
    mut rest: Rest,
    epoch: &mut i32,
    image: &mut Image,
    weather: &Weather,
    chance: &mut Chance,
) -> Result<Started, String> {
    let (stores, pool, reports) = recover::bring_up(&mut rest, epoch, chance)?;
    control::renew(image, &rest.plan, *epoch);
    let rings = Rings::new(stores.len(), weather.places);
    let image = Arc::new(image.clone());
    let hash_seed = chance.any();
    let (mut shards, mut stats) = (Vec::new(), Vec::new());
    for (at, store) in stores.into_iter().enumerate() {
        let backends = Backends {
            arena: store.arena,
            network: Net::default(),
            devices: Device::default(),
            neighbours: rings.of(at),
            log: SimPorts::default(),
        };
        let id = ShardId(u16::try_from(at).expect("few shards"));
        let config = ShardConfig { id, shards: rest.plan.shards, hash_seed, limits: weather.limits.clone() };
        let counted = Arc::new(ShardStats::default());
        stats.push(counted.clone());
        shards.push(Shard::new(rest.now, config, store.store, image.clone(), backends, counted));
    }
    Ok((World::new(rest, shards, pool), stats, rings, reports))
}
