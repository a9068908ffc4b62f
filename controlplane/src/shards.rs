//! The shards as the control plane sees them: questions with answers, and metadata to apply.
//!
//! [`ShardLinks`] is shared by every task. What shards say arrives at [`crate::Control`], which hands outcomes back here.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use base::image::{Delta, Image};
use base::message::{Outcome, Refusal, ShardCommand, ToShard};
use base::{ConnId, ShardId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::metadata::{Applying, Publish};

/// Room in the queue to a shard. 1,024: a burst of answers to all requests at a time, four times over; behind it senders wait.
pub const TO_SHARD_QUEUE: usize = 1024;

/// Room in the queue from all shards. The rings in front of it are bounded; this only smooths.
pub const FROM_SHARDS_QUEUE: usize = 4096;

/// Senders to all shards, and who waits for what.
#[derive(Debug)]
pub struct ShardLinks {
    /// By shard id.
    links: Vec<mpsc::Sender<ToShard>>,
    waiting: Mutex<HashMap<u64, Waiting>>,
    next_token: AtomicU64,
}

#[derive(Debug)]
struct Waiting {
    shard: ShardId,
    to: WaitingFor,
}

#[derive(Debug)]
enum WaitingFor {
    Answer(oneshot::Sender<Result<Outcome, Refusal>>),
    Apply(Arc<Countdown>),
}

/// Counts the shards that have yet to apply an image.
#[derive(Debug)]
struct Countdown {
    left: AtomicUsize,
    done: watch::Sender<bool>,
}

impl Countdown {
    fn one_less(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.send_replace(true);
        }
    }
}

/// Why a question to a shard brought no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardError {
    /// The shard said no.
    Refused(Refusal),
    /// It did not answer in time.
    TimedOut,
}

impl ShardLinks {
    /// Links to the shards, by shard id. Whoever holds the receiving ends moves messages into the rings.
    #[must_use]
    pub fn new(links: Vec<mpsc::Sender<ToShard>>) -> Arc<Self> {
        Arc::new(Self { links, waiting: Mutex::default(), next_token: AtomicU64::new(1) })
    }

    /// How many shards there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.links.len()
    }

    /// Sends the answer to a request; `None` closes the connection. Waits while the shard's queue is full.
    pub async fn answer(&self, shard: ShardId, conn: ConnId, sequence: u64, response: Option<Vec<u8>>) {
        if let Some(link) = self.links.get(usize::from(shard.0)) {
            // A shard that is gone has no connections either.
            let _ = link.send(ToShard::Answer { conn, sequence, response }).await;
        }
    }

    /// Tells every shard to stop. Each says `Stopped` when it has.
    pub async fn shutdown(&self) {
        for link in &self.links {
            let _ = link.send(ToShard::Shutdown).await;
        }
    }

    /// Asks a shard, waiting at most `bound`. The command may still take effect after an error.
    ///
    /// # Errors
    /// What the shard refused, or that it did not answer in time.
    pub async fn ask(&self, shard: ShardId, command: ShardCommand, bound: Duration) -> Result<Outcome, ShardError> {
        tokio::time::timeout(bound, self.command(shard, command))
            .await
            .map_err(|_| ShardError::TimedOut)?
            .map_err(ShardError::Refused)
    }

    /// Asks a shard and waits for as long as it takes.
    ///
    /// # Errors
    /// What the shard refused.
    pub async fn command(&self, shard: ShardId, command: ShardCommand) -> Result<Outcome, Refusal> {
        let link = self.links.get(usize::from(shard.0)).ok_or(Refusal::UnknownPartition)?;
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(token, Waiting { shard, to: WaitingFor::Answer(sender) });
        // Whoever gives up waiting takes its entry along.
        let _forget = Forget { links: self, token };
        link.send(ToShard::Command { token, command }).await.map_err(|_| Refusal::Stopping)?;
        receiver.await.unwrap_or(Err(Refusal::Stopping))
    }

    /// An outcome has arrived from a shard.
    pub fn done(&self, token: u64, outcome: Result<Outcome, Refusal>) {
        let waiting = self.lock().remove(&token);
        match waiting.map(|waiting| waiting.to) {
            Some(WaitingFor::Answer(sender)) => drop(sender.send(outcome)),
            Some(WaitingFor::Apply(countdown)) => {
                if let Err(refusal) = outcome {
                    tracing::warn!(?refusal, "a shard did not apply new metadata");
                }
                countdown.one_less();
            }
            // Whoever asked has given up.
            None => {}
        }
    }

    /// A shard has ended: nothing that it owes will come.
    pub fn stopped(&self, shard: ShardId) {
        let owed: Vec<Waiting> = {
            let mut waiting = self.lock();
            let tokens: Vec<u64> = waiting.iter().filter(|(_, w)| w.shard == shard).map(|(token, _)| *token).collect();
            tokens.iter().filter_map(|token| waiting.remove(token)).collect()
        };
        for waiting in owed {
            match waiting.to {
                WaitingFor::Answer(sender) => drop(sender.send(Err(Refusal::Stopping))),
                WaitingFor::Apply(countdown) => countdown.one_less(),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        self.waiting.lock().expect("nobody panics while holding it")
    }
}

struct Forget<'a> {
    links: &'a ShardLinks,
    token: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.links.lock().remove(&self.token);
    }
}

/// Questions of one request that are asked at a time.
const SIDE_BY_SIDE: usize = 64;

/// Asks questions, [`SIDE_BY_SIDE`] at a time; the answers in order. `None` stands for one that panicked.
pub(crate) async fn side_by_side<Q, F, T>(questions: Vec<Q>, ask: impl Fn(Q) -> F) -> Vec<Option<T>>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let mut results: Vec<Option<T>> = Vec::with_capacity(questions.len());
    let mut running = JoinSet::new();
    for (index, question) in questions.into_iter().enumerate() {
        if running.len() == SIDE_BY_SIDE
            && let Some(Ok((index, result))) = running.join_next().await
        {
            results[index] = Some(result);
        }
        let asked: F = ask(question);
        running.spawn(async move { (index, asked.await) });
        results.push(None);
    }
    while let Some(joined) = running.join_next().await {
        if let Ok((index, result)) = joined {
            let index: usize = index;
            results[index] = Some(result);
        }
    }
    results
}

impl Publish for ShardLinks {
    fn publish(&self, image: &Arc<Image>, delta: &Arc<Delta>) -> Applying {
        let (done, seen) = watch::channel(self.links.is_empty());
        let countdown = Arc::new(Countdown { left: AtomicUsize::new(self.links.len()), done });
        for (index, link) in self.links.iter().enumerate() {
            let token = self.next_token.fetch_add(1, Ordering::Relaxed);
            let shard = ShardId(u16::try_from(index).expect("there are fewer shards than 65,536"));
            self.lock().insert(token, Waiting { shard, to: WaitingFor::Apply(countdown.clone()) });
            let message = ToShard::Apply { token, image: image.clone(), delta: delta.clone() };
            // Called on the metadata store's own thread, which may wait: that is how a shard that lags slows changes down.
            if link.blocking_send(message).is_err() {
                self.lock().remove(&token);
                countdown.one_less();
            }
        }
        Applying::new(seen)
    }
}

#[cfg(test)]
mod tests;
