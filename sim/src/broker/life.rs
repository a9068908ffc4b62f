//! Lives of a broker: it runs, crashes or stops, something is harmed, it starts again, and everything is looked at.

use std::collections::BTreeSet;

use base::PartitionId;
use base::image::PartitionEntry;
use base::message::{Refusal, ToShard};

use super::{Broker, Summary, Weather, start, talk};
use crate::run::harm;
use crate::world::Rest;
use crate::{Chance, audit};

/// Runs one seed.
///
/// # Errors
/// What is wrong. The machines under test may also panic.
pub fn run(seed: u64) -> Result<Summary, String> {
    let mut broker = Broker::first(Chance::new(seed))?;
    for life in 0..broker.chance.between(1, 3) {
        broker.live().map_err(|error| format!("life {life}: {error}"))?;
        broker = broker.again().map_err(|error| format!("end of life {life}: {error}"))?;
    }
    broker.last().map_err(|error| format!("at the end: {error}"))?;
    broker.search_first = true;
    broker = broker.again().map_err(|error| format!("after the end: {error}"))?;
    Ok(broker.summed())
}

/// Runs one seed in which one thing is harmed on the device of a broker that stopped in order: whatever it is, what is served
/// afterwards is what was sent, what is not is called damaged, no offset is given twice, and the rest serves on.
///
/// # Errors
/// What is wrong. The machines under test may also panic.
pub fn run_harmed(seed: u64) -> Result<Summary, String> {
    let mut broker = Broker::first(Chance::new(seed))?;
    for _ in 0..broker.chance.between(0, 2) {
        broker.live()?;
        broker = broker.again()?;
    }
    broker.live()?;
    if broker.faulty {
        // Two faults at once may take what was acked.
        return Ok(broker.summed());
    }
    let forged = if broker.chance.odds(1, 8) { broker.attack()? } else { None };
    broker.stop()?;
    broker.ledger.harmed = true;
    broker = broker.begin(|rest, chance| harm_one(rest, chance, forged)).map_err(|error| format!("harmed: {error}"))?;
    broker.live().map_err(|error| format!("life after harm: {error}"))?;
    broker.calm()?;
    broker.look_through().map_err(|error| format!("after harm: {error}"))?;
    Ok(broker.summed())
}

/// Harms one thing: the header of the unit that carries a forged one, or a write that never was, or anything.
fn harm_one(rest: &mut Rest, chance: &mut Chance, forged: Option<u64>) {
    if let Some(offset) = forged {
        rest.disk.rot(offset + chance.below(100), 1 << chance.below(8));
        return;
    }
    if chance.odds(1, 3) && rest.disk.lose_write(b"BARELOGU", chance) {
        return;
    }
    harm(rest, chance);
}

impl Broker {
    /// What was done up to now, this life included.
    fn summed(&self) -> Summary {
        let mut summary = self.summary;
        summary.trace = self.world.trace;
        summary.freed += self.world.told.freed;
        summary.checkpoints += self.world.told.checkpoints;
        summary.held += self.stats.iter().map(|stats| stats.messages_held.get()).sum::<u64>();
        summary
    }

    /// A stretch of life.
    fn live(&mut self) -> Result<(), String> {
        let full = self.world.plan.batch_bytes >= 20_000 && self.world.plan.extent_len <= 128 << 10;
        let most = if full { 1500 } else { *self.chance.pick(&[60, 200, 500]) };
        let steps = self.chance.between(20, most);
        if self.chance.odds(1, 8) {
            self.plant();
        }
        for step in 0..steps {
            self.step().map_err(|error| format!("step {step}: {error}"))?;
        }
        Ok(())
    }

    /// Ends this life, by a crash or in order, and begins the next.
    fn again(mut self) -> Result<Self, String> {
        match self.chance.below(5) {
            0 => self.stop()?,
            1 => self.calm()?,
            _ => {}
        }
        self.begin(|_, _| {})
    }

    /// Cuts the power, lets `harm` do something to the device, brings the broker up again and looks at everything.
    fn begin(mut self, harm: impl FnOnce(&mut Rest, &mut Chance)) -> Result<Self, String> {
        let mut summary = self.summed();
        summary.restarts += 1;
        talk(|| "power cut".into());
        self.hang_up_all();
        self.asked.clear();
        self.forget_steps();
        if self.chance.odds(1, 4) {
            self.fall_behind();
        }
        talk(|| format!("{:?} {:?}", self.world.plan, self.world.faults));
        let mut rest = self.world.crash(&mut self.chance);
        harm(&mut rest, &mut self.chance);
        if self.chance.odds(1, 4) {
            // The number of cores may change.
            rest.plan.shards = *self.chance.pick(&[1, 2, 3]);
        }
        let weather = Weather::any(&mut self.chance);
        let (world, stats, rings, reports) = start(rest, &mut self.epoch, &mut self.image, &weather, &mut self.chance)?;
        let mut next = Self {
            world,
            stats,
            rings,
            weather,
            summary,
            faulty: false,
            stopping: false,
            fenced: BTreeSet::new(),
            stopped: BTreeSet::new(),
            closed: reports.iter().filter(|report| report.closed.is_some()).map(|report| report.journal).collect(),
            ..self
        };
        for report in &reports {
            let damaged = !(report.damage.is_empty() && report.holes.is_empty() && report.damaged_batches.is_empty());
            if !next.ledger.harmed && (damaged || report.closed.is_some()) {
                return Err(format!("nothing was harmed, and yet {report:?}"));
            }
            audit::gaps_hold_all(report)?;
        }
        talk(|| format!("started: {reports:?}"));
        next.all_have_heard();
        next.summary.closed += next.closed.len() as u64;
        if next.search_first {
            next.search_through().map_err(|error| format!("after the start: {error}"))?;
        }
        let seen = next.look_through().map_err(|error| format!("after the start: {error}\n{reports:?}"))?;
        next.settle(&seen);
        Ok(next)
    }

    /// What was not there after a start will never be.
    fn settle(&mut self, seen: &BTreeSet<PartitionId>) {
        let (there, gone) = self.ledger.settle(seen);
        self.summary.survived += there;
        self.summary.lost += gone;
    }

    /// Stops in order.
    fn stop(&mut self) -> Result<(), String> {
        talk(|| "stopping".into());
        self.stopping = true;
        for shard in 0..self.world.shards.len() {
            self.rings.send(shard, ToShard::Shutdown);
        }
        for _ in 0..3000 {
            if self.stopped.len() == self.world.shards.len() && self.world.shards.iter().all(shard::Shard::is_stopped) {
                self.hang_up_all();
                return Ok(());
            }
            self.listen()?;
            let busy = self.quiet_round()?;
            if !busy {
                self.world.pass_ms(100);
                self.housekeep();
            }
        }
        let (count, pool) = (self.world.shards.len(), self.world.pool.counts());
        Err(format!("the orderly stop never ends: {:?} of {count}, {:?} {pool:?}", self.stopped, self.world.plan))
    }

    /// Reads every partition through. Returns those that could be.
    fn look_through(&mut self) -> Result<BTreeSet<PartitionId>, String> {
        let entries: Vec<PartitionEntry> =
            self.topics().iter().flat_map(|entry| entry.partitions.iter().copied()).collect();
        let mut seen = BTreeSet::new();
        for entry in entries {
            if self
                .ledger
                .parts
                .get(&entry.id)
                .is_some_and(|part| part.journals.iter().any(|journal| self.closed.contains(journal)))
            {
                continue;
            }
            if !self.is_settled(entry.id)? {
                // Its journals take no more frames: it is where it was when the next life begins.
                continue;
            }
            let entry = self.entry_of(entry.id).unwrap_or(entry);
            if self.read_partition(&entry).map_err(|error| format!("partition {}: {error}", entry.id))? {
                seen.insert(entry.id);
            }
        }
        Ok(seen)
    }

    fn read_partition(&mut self, entry: &PartitionEntry) -> Result<bool, String> {
        let (id, shard) = (entry.id, usize::from(entry.shard.0));
        let token = self.ask_bounds(shard, id);
        self.wait_for(token)?;
        let Some(Ok((_, mut start, high))) = self.read.take() else { return Err("the ends are not known".into()) };
        let mut next = start;
        let mut served = BTreeSet::new();
        while next < high {
            let bytes_max = *self.chance.pick(&[1, 30_000, 1 << 20]);
            let token = self.ask_read(self.shard_at(id, shard, next), id, next, bytes_max);
            self.wait_for(token)?;
            match self.read.take().ok_or("the read is not answered")? {
                Ok((after, ..)) if after > next => {
                    let (known, sent) = (&self.ledger.parts[&id].known, &self.ledger.sent);
                    let here =
                        known.range(..after).rev().take_while(|(base, batch)| **base + sent[**batch].count > next);
                    served.extend(here.map(|(base, _)| *base));
                    next = after;
                }
                Err(Refusal::Damaged { next: after }) if self.ledger.harmed && after.0 > next && after.0 <= high => {
                    next = after.0;
                }
                // Its oldest records expired while it was read.
                Err(Refusal::OutOfRange) if self.ledger.parts[&id].retained => {
                    let token = self.ask_bounds(shard, id);
                    self.wait_for(token)?;
                    match self.read.take() {
                        Some(Ok((_, now, _))) if now > next => (start, next) = (now, now.min(high)),
                        other => return Err(format!("read at {next} of {high} is out of range: {other:?}")),
                    }
                }
                // Whatever cannot be read: the next one that is known.
                Err(Refusal::Fenced) if self.ledger.harmed || self.faulty => {
                    let known = &self.ledger.parts[&id].known;
                    next = known.range(next + 1..).next().map_or(high, |(base, _)| *base).min(high);
                }
                other => return Err(format!("read at {next} of {high}: {other:?}")),
            }
        }
        if self.ledger.harmed {
            let part = self.ledger.parts.get_mut(&id).expect("it was read");
            let missing: Vec<i64> = part.known.keys().filter(|base| !served.contains(base)).copied().collect();
            self.summary.damaged += missing.iter().filter(|base| !part.damaged.contains(base)).count() as u64;
            part.damaged.extend(missing);
        }
        self.ledger.read_through(id, start, high)?;
        Ok(true)
    }

    /// Lets the broker work until a command is done. Clients do nothing.
    fn wait_for(&mut self, token: u64) -> Result<(), String> {
        for _ in 0..3000 {
            if !self.asked.contains_key(&token) {
                return Ok(());
            }
            if !self.quiet_round()? {
                self.world.pass_ms(20);
            }
        }
        Err(format!("{:?} is never answered", self.asked))
    }

    /// Everything once more in calm weather: all that is asked is answered, and consumers come to the end.
    fn last(&mut self) -> Result<(), String> {
        self.catch_up();
        self.join();
        self.calm()?;
        for _ in 0..1000 {
            if self.consumers_at_end() {
                break;
            }
            for at in 0..self.consumers.len() {
                self.consume_of(at)?;
            }
            self.calm()?;
        }
        if !self.consumers_at_end() {
            return Err(format!("consumers never come to the end: {:?}", self.consumers));
        }
        self.wait_together()?;
        self.calm()?;
        self.look_through()?;
        self.search_through()
    }

    /// Searches for the times of what is there, also where it lies in extents whose index must be read.
    fn search_through(&mut self) -> Result<(), String> {
        let entries: Vec<PartitionEntry> =
            self.topics().iter().flat_map(|entry| entry.partitions.iter().copied()).collect();
        for entry in entries {
            let Some(part) = self.ledger.parts.get(&entry.id) else { continue };
            if self.closed.contains(&part.journal) || self.is_spread(entry.id) {
                continue;
            }
            let every = part.known.len() / 4 + 1;
            let times = part.known.values().step_by(every).map(|batch| Some(self.ledger.time_of(*batch)));
            let times: Vec<Option<i64>> = times.chain([None]).collect();
            for time in times {
                let token = self.ask_time(usize::from(entry.shard.0), entry.id, time);
                self.wait_for(token)?;
            }
        }
        Ok(())
    }

    /// Consumers that have read everything wait, some of them go away, and records come, time and again while no time passes: who
    /// waits for them hears of them.
    fn wait_together(&mut self) -> Result<(), String> {
        for _ in 0..6 {
            for at in 0..self.consumers.len() {
                self.consume_of(at)?;
            }
            self.rest()?;
            if self.chance.odds(1, 2) {
                let at = self.chance.index(self.consumers.len());
                self.seek_back(at);
            }
            if self.chance.odds(1, 2) {
                self.break_connection();
            }
            for _ in 0..self.chance.between(1, 3) {
                self.produce()?;
            }
            self.rest()?;
            self.nobody_waits_in_vain()?;
        }
        Ok(())
    }
}
