//! Listening sockets, and how accepted connections are dealt out to the shards.
//!
//! Each listener is accepted by one shard, which deals the connections out in turn: with few connections (the common case of
//! a benchmark or a small cluster) they spread evenly, which `SO_REUSEPORT` and shared sockets do not promise.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::mpsc;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::rings::Waker;

/// Connections that the kernel completes ahead of us.
const BACKLOG: i32 = 1024;

/// Binds a listening socket. Accepted connections inherit `TCP_NODELAY` and keep-alive.
///
/// # Errors
/// What the kernel said; `AddrInUse` when another process listens there.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_tcp_nodelay(true)?;
    // A peer that vanished without a word is noticed after about 10 minutes, like Kafka's idle limit.
    let keepalive = TcpKeepalive::new().with_time(std::time::Duration::from_secs(300));
    socket.set_tcp_keepalive(&keepalive)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A connection on its way to its shard.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) socket: OwnedFd,
    pub(super) listener: u16,
}

/// A shard's end of the dealing: what it is dealt, and where it deals to.
#[derive(Debug)]
pub struct Intake {
    dealt: mpsc::Receiver<Accepted>,
    shards: Vec<(mpsc::Sender<Accepted>, Waker)>,
    next: usize,
}

/// One intake for each shard.
#[must_use]
pub fn intakes(wakers: &[Waker]) -> Vec<Intake> {
    let (senders, receivers): (Vec<_>, Vec<_>) = wakers.iter().map(|_| mpsc::channel()).unzip();
    let shards: Vec<_> = senders.into_iter().zip(wakers.iter().cloned()).collect();
    receivers.into_iter().enumerate().map(|(next, dealt)| Intake { dealt, shards: shards.clone(), next }).collect()
}

impl Intake {
    pub(super) fn deal(&mut self, accepted: Accepted) {
        let (sender, waker) = &self.shards[self.next % self.shards.len()];
        self.next += 1;
        // A shard that has stopped drops its receiver: the connection closes.
        if sender.send(accepted).is_ok() {
            waker.wake();
        }
    }

    pub(super) fn take(&mut self) -> Option<Accepted> {
        self.dealt.try_recv().ok()
    }
}
