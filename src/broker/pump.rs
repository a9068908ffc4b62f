//! Moves messages between the shards' rings and Tokio's channels.
#![allow(unsafe_code, reason = "Tokio asks for a promise about the descriptor it is to watch")]

use std::io;
use std::time::Duration;

use base::message::{ToControl, ToShard};
use dataplane::rings::{ControlReceiver, ControlSender};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

/// How long a full ring is left alone.
const FULL_PAUSE: Duration = Duration::from_micros(200);

/// Messages of one queue into the ring of its shard, in order, until the queue or the shard is gone.
pub(super) async fn to_shard(mut queue: mpsc::Receiver<ToShard>, ring: ControlSender) {
    while let Some(mut message) = queue.recv().await {
        while let Err(back) = ring.try_send(message) {
            if ring.is_closed() {
                return;
            }
            message = back;
            tokio::time::sleep(FULL_PAUSE).await;
        }
    }
}

/// What all shards say into one queue, until every shard is gone or nobody listens.
pub(super) async fn from_shards(receiver: ControlReceiver, queue: mpsc::Sender<ToControl>) -> io::Result<()> {
    // SAFETY: the receiver owns its eventfd and gives the same one until it is dropped, which the `AsyncFd` does.
    let mut receiver =
        unsafe { AsyncFd::register_with_interest(receiver, Interest::READABLE) }.map_err(io::Error::from)?;
    loop {
        while let Some(message) = receiver.get_mut().try_recv() {
            if queue.send(message).await.is_err() {
                return Ok(());
            }
        }
        // Sleep is announced, then the rings are looked at once more: what came in between is not missed.
        receiver.get_ref().doze().announce();
        if let Some(message) = receiver.get_mut().try_recv() {
            receiver.get_ref().doze().awake();
            if queue.send(message).await.is_err() {
                return Ok(());
            }
            continue;
        }
        let mut ready = receiver.readable_mut().await?;
        ready.clear_ready();
        drop(ready);
        receiver.get_ref().doze().awake();
        receiver.get_ref().doze().drain();
    }
}
