//! Orderly shutdown: answer what is in progress, help the other shards to do the same, write closing units, say `Stopped`.

use alloc::vec::Vec;

use base::message::ToControl;
use base::{ConnId, Mono, Now, ShardId};

use crate::conn::{Conn, Standing, State};
use crate::ports::{Network as _, Ports};
use crate::remote::Message;
use crate::shard::Shard;

/// How far a shutdown is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopping {
    /// Requests in progress are answered; no more are taken in.
    Draining {
        /// From then on the control plane's answers are not waited for.
        control_until: Mono,
        /// From then on no answers are.
        until: Mono,
    },
    /// No connection is left here; the other shards may still need this one. At the latest until then.
    Helping(Mono),
    /// The store writes its closing units and checkpoints.
    Closing,
    /// The last word waits for room in the ring to the control plane.
    Leaving,
    /// The end.
    Stopped,
}

impl Stopping {
    /// Whether commands of the control plane are refused.
    pub(crate) const fn refuses(&self) -> bool {
        matches!(self, Self::Closing | Self::Leaving | Self::Stopped)
    }
}

impl<P: Ports> Shard<P> {
    /// The control plane asks for an orderly end.
    pub(crate) fn begin_stop(&mut self, now: Now) {
        if self.stopping.is_some() {
            return;
        }
        self.backends.network.stop_accepting();
        let limits = &self.config.limits;
        self.stopping = Some(Stopping::Draining {
            control_until: now.mono.plus_ms(limits.shutdown_control_ms_max),
            until: now.mono.plus_ms(limits.shutdown_ms_max),
        });
        let conns: Vec<ConnId> = self.conns.iter().map(|conn| conn.id).collect();
        for id in conns {
            self.drain(id);
        }
        // Those who wait for data are told what there is.
        self.waiting.hurry(now.mono);
    }

    /// No more requests of this connection.
    fn drain(&mut self, id: ConnId) {
        self.set_reading(id, false);
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.standing != Standing::Closing {
            // Not closed yet, and never served again: the queues skip it.
            conn.standing = Standing::Draining;
        }
    }

    /// Goes on with a shutdown. Whether something came of it.
    pub(crate) fn stop_step(&mut self, now: Now) -> bool {
        match self.stopping {
            None | Some(Stopping::Stopped) => false,
            Some(Stopping::Draining { control_until, until }) => {
                self.close_answered(now, control_until <= now.mono, until <= now.mono);
                let done = self.conns.len() == 0 || until.plus_ms(1000) <= now.mono;
                if done {
                    let own = self.config.id;
                    for shard in (0..self.config.shards).map(ShardId).filter(|shard| *shard != own) {
                        self.send(shard, Message::Drained);
                    }
                    self.stopping = Some(Stopping::Helping(until.plus_ms(2000)));
                }
                done
            }
            Some(Stopping::Helping(until)) => {
                let others_done = self.drained + 1 >= self.config.shards;
                let idle = self.appends.is_idle() && self.commands_open == 0;
                let done = (others_done && idle) || until <= now.mono;
                if done {
                    self.store.stop(now, &mut self.backends.arena, &mut self.effects);
                    self.route_effects(now);
                    self.stopping = Some(Stopping::Closing);
                }
                done
            }
            Some(Stopping::Closing) => {
                if !self.store.is_quiet() {
                    return false;
                }
                self.send_control(ToControl::Stopped { shard: self.config.id });
                self.stopping = Some(Stopping::Leaving);
                true
            }
            Some(Stopping::Leaving) => {
                if !self.outbox.control_is_open() {
                    return false;
                }
                self.stopping = Some(Stopping::Stopped);
                true
            }
        }
    }

    /// Closes the connections whose answers have left; those, too, that only wait for the control plane, or all.
    fn close_answered(&mut self, now: Now, control: bool, all: bool) {
        let answered =
            |conn: &&Conn<_>| conn.requests.iter().all(|request| control && matches!(request.state, State::Control));
        let conns: Vec<ConnId> = self
            .conns
            .iter()
            .filter(|conn| conn.standing != Standing::Closing && (all || answered(conn)))
            .map(|conn| conn.id)
            .collect();
        for id in conns {
            self.close(now, id, !all);
        }
    }
}
