//! A bound on HTTP connections. Whoever comes when there is no place gets that of the one that came first, so that peers which
//! keep a place without asking can keep nobody else out.

use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

/// Connections at a time. 64: some scrapers, a load balancer's checks and people; with a response of some megabytes for each
/// they stay below what the data path is given.
pub(super) const CONNECTIONS_MAX: usize = 64;

/// A connection on which nothing was received or sent for so long is closed. Two minutes: above what scrapers wait between
/// two questions.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// Accepts with a bound.
pub(super) struct Bounded {
    listener: TcpListener,
    /// By age; a place is empty when its connection has ended.
    places: VecDeque<oneshot::Sender<()>>,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, places: VecDeque::new() }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        self.places.retain(|place| !place.is_closed());
        while self.places.len() >= CONNECTIONS_MAX {
            // Dropping its end takes the place away.
            self.places.pop_front();
        }
        let (place, held) = oneshot::channel();
        self.places.push_back(place);
        let idle = Box::pin(tokio::time::sleep(IDLE_MAX));
        (Connection { stream, place: held, idle }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when its place is taken, or when it is idle for too long.
pub(super) struct Connection {
    stream: TcpStream,
    place: oneshot::Receiver<()>,
    idle: Pin<Box<Sleep>>,
}

impl Connection {
    /// An error once the connection is to end; else the task is woken then.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if Pin::new(&mut self.place).poll(context).is_ready() {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the place is given to a newer connection"));
        }
        if self.idle.as_mut().poll(context).is_ready() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn moved(&mut self) {
        self.idle.as_mut().reset(Instant::now() + IDLE_MAX);
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check(context)?;
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        this.moved();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check(context)?;
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, bytes))?;
        this.moved();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check(context)?;
        let written = ready!(Pin::new(&mut this.stream).poll_write_vectored(context, pieces))?;
        this.moved();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
