//! What clients ask for beside producing: topics, committed offsets, deletions, producer ids.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::wire::{Attempt, Wire};

/// The partition whose oldest records are deleted now and then.
pub(crate) const TRIMMED: i32 = 0;

const GROUP: &str = "aside";

/// Something that was asked for, and how long the log of writes was when the answer was there.
#[derive(Clone, Copy, Debug)]
struct Asked {
    what: i64,
    answered: Option<u64>,
}

impl Asked {
    fn by(self, at: u64) -> bool {
        self.answered.is_some_and(|answered| answered <= at)
    }
}

/// Everything that was asked for, in order.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    topics: Vec<Asked>,
    dropped: Vec<Asked>,
    commits: Vec<Asked>,
    trims: Vec<Asked>,
    ids: Vec<Asked>,
}

fn name(number: i64) -> String {
    format!("made-{number}")
}

/// Notes that `what` is asked for, asks, and notes the answer, which must be no error.
fn ask(noted: &mut Vec<Asked>, what: i64, clock: &dyn Fn() -> u64, ask: impl FnOnce() -> Attempt<i16>) -> Attempt<()> {
    noted.push(Asked { what, answered: None });
    match ask()? {
        0 => noted.last_mut().expect("pushed above").answered = Some(clock()),
        code => return Err(format!("error {code}")),
    }
    Ok(())
}

impl Aside {
    pub(crate) fn run(&mut self, address: SocketAddr, topic: &str, stop: &AtomicBool, clock: &dyn Fn() -> u64) {
        while !stop.load(Ordering::Relaxed) {
            let Ok(mut wire) = Wire::connect(address) else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            while !stop.load(Ordering::Relaxed) && self.round(&mut wire, topic, clock).is_ok() {}
        }
    }

    fn round(&mut self, wire: &mut Wire, topic: &str, clock: &dyn Fn() -> u64) -> Attempt<()> {
        let number = i64::try_from(self.topics.len()).expect("few");
        ask(&mut self.topics, number, clock, || wire.create_topic(&name(number), 1, &[]))?;
        if number % 3 == 2 {
            ask(&mut self.dropped, number, clock, || wire.delete_topic(&name(number)))?;
        }
        let next = i64::try_from(self.commits.len()).expect("few");
        ask(&mut self.commits, next, clock, || wire.commit_offset(GROUP, topic, 1, next))?;
        let id = wire.producer_id()?.0;
        self.ids.push(Asked { what: id, answered: Some(clock()) });
        // Up to what was the end a round ago: that is where a batch ends.
        let end = wire.fetch(topic, TRIMMED, self.trims.last().map_or(0, |trim| trim.what), 1)?.high_watermark;
        ask(&mut self.trims, end, clock, || wire.delete_records(topic, TRIMMED, end))
    }

    /// The lowest and the highest log start that the trimmed partition may have.
    pub(crate) fn trimmed(&self, at: u64) -> (i64, i64) {
        let sure = self.trims.iter().filter(|trim| trim.by(at)).map(|trim| trim.what).max().unwrap_or(0);
        (sure, self.trims.iter().map(|trim| trim.what).max().unwrap_or(0))
    }

    /// # Errors
    /// The first answer that was taken back.
    pub(crate) fn check(&self, wire: &mut Wire, at: u64) -> Attempt<()> {
        for made in self.topics.iter().filter(|made| made.by(at)) {
            let dropped = self.dropped.iter().find(|dropped| dropped.what == made.what);
            let code = wire.topic_error(&name(made.what))?;
            let right = match dropped {
                None => code == 0,
                Some(dropped) if dropped.by(at) => code == 3,
                Some(_) => code == 0 || code == 3,
            };
            if !right {
                return Err(format!("{made:?}, {dropped:?}: error {code}"));
            }
        }
        let id = wire.producer_id()?.0;
        if let Some(twice) = self.ids.iter().find(|asked| asked.what == id && asked.by(at)) {
            return Err(format!("producer id {id} is given twice: {twice:?}"));
        }
        let sure = self.commits.iter().rev().find(|commit| commit.by(at));
        let Some(sure) = sure else { return Ok(()) };
        let committed = self.committed(wire)?;
        if !(sure.what..i64::try_from(self.commits.len()).expect("few")).contains(&committed) {
            return Err(format!("{committed} is committed, and {sure:?}"));
        }
        Ok(())
    }

    /// The committed offset, once its coordinator has read it.
    fn committed(&self, wire: &mut Wire) -> Attempt<i64> {
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            match wire.committed_offset(GROUP, crate::TOPIC, 1)? {
                (0, offset) => return Ok(offset),
                (code, _) if Instant::now() > patience => return Err(format!("OffsetFetch: error {code}")),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}
