//! TCP connections to brokers, each with a thread that reads frames.

use base::Mono;
use protocol::api::ApiKey;
use protocol::frame::end_frame;
use protocol::messages::Request;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Clock, Settings, until};
use crate::connection::{Connection, HANDSHAKE_VERSION, parse_handshake, put_handshake};
use crate::error::{Error, Result};
use crate::metadata::Broker;

/// Buffers of answers that are kept for reuse, per [`Links`].
const SPARE_MAX: usize = 8;
/// Larger buffers are not kept: one unusual answer must not hold its memory for ever.
const SPARE_BYTES_MAX: usize = 64 << 20;
/// A broker that could not be reached is left alone for this long.
const RECONNECT_MS: u64 = 200;

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// Whichever broker is there.
    Any,
    /// This one.
    Broker(i32),
    /// This one, over a connection for group coordination only: answers come in order, and neither a join that waits for
    /// others nor a fetch that waits for data may hold up the rest.
    Coordinator(i32),
}

/// What a reading thread hands over.
#[derive(Debug)]
pub(super) enum Incoming {
    Frame {
        link: u64,
        frame: Vec<u8>,
    },
    Closed {
        link: u64,
        error: io::Error,
    },
    /// Something changed that the owner must look at.
    Wake,
}

/// What an owner hears.
#[derive(Debug)]
pub(super) enum Heard<T> {
    Answer(Answer<T>),
    /// These requests will not be answered.
    Lost(Vec<T>, Error),
    Wake,
}

/// An answer that owns its bytes.
#[derive(Debug)]
pub(super) struct Answer<T> {
    pub(super) token: T,
    pub(super) version: i16,
    pub(super) frame: Vec<u8>,
    body: Range<usize>,
    key: ApiKey,
}

impl<T> Answer<T> {
    /// Reads the answer as the response to a request of type `R`.
    pub(super) fn parse<'r, 'q, R: Request<'q>>(&'r self) -> Result<R::Response<'r>> {
        use protocol::messages::Message as _;
        let api = self.key.info().name;
        let body = self.frame.get(self.body.clone()).unwrap_or_default();
        R::Response::parse(body, self.version).map_err(|source| Error::Malformed { api, source })
    }
}

#[derive(Debug)]
struct Link<T> {
    id: u64,
    /// `None` for a bootstrap address, whose id nobody told.
    broker: Option<i32>,
    coordinates: bool,
    address: String,
    stream: TcpStream,
    connection: Connection<T>,
}

impl<T> Drop for Link<T> {
    fn drop(&mut self) {
        // Ends the reading thread. The peer may have been faster.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

/// All connections of one client. `T` names requests.
#[derive(Debug)]
pub(super) struct Links<T> {
    settings: Settings,
    clock: Clock,
    links: Vec<Link<T>>,
    next_id: u64,
    addresses: BTreeMap<i32, (String, u16)>,
    /// When a broker may be tried again, and what was wrong.
    down: BTreeMap<i32, (Mono, io::ErrorKind, String)>,
    sender: Sender<Incoming>,
    receiver: Receiver<Incoming>,
    spare: Spare,
    /// What broke while something was sent, to be heard next.
    broken: Vec<(Vec<T>, Error)>,
    out: Vec<u8>,
}

impl<T> Links<T> {
    pub(super) fn new(settings: Settings, clock: Clock) -> Self {
        let (sender, receiver) = channel();
        Self {
            settings,
            clock,
            links: Vec::new(),
            next_id: 0,
            addresses: BTreeMap::new(),
            down: BTreeMap::new(),
            sender,
            receiver,
            spare: Arc::default(),
            broken: Vec::new(),
            out: Vec::new(),
        }
    }

    pub(super) const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// To wake the owner from [`Links::hear`].
    pub(super) fn waker(&self) -> Sender<Incoming> {
        self.sender.clone()
    }

    /// Learns where brokers are.
    pub(super) fn learn<'b>(&mut self, brokers: impl Iterator<Item = &'b Broker>) {
        for broker in brokers {
            let address = (broker.host.clone(), broker.port);
            if self.addresses.insert(broker.id, address.clone()).is_some_and(|known| known != address) {
                // It came back elsewhere: the next request connects anew, the old connection's end is heard.
                self.down.remove(&broker.id);
                for link in self.links.iter().filter(|link| link.broker == Some(broker.id)) {
                    let _ = link.stream.shutdown(Shutdown::Both);
                }
            }
        }
    }

    /// Gives an answer's buffer back.
    pub(super) fn recycle(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX && buffer.capacity() <= SPARE_BYTES_MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }

    /// Sends a request; its answer is heard until `patience` is over.
    pub(super) fn send<'q, R: Request<'q>>(
        &mut self,
        to: To,
        request: &R,
        token: T,
        patience: Duration,
    ) -> std::result::Result<(), (T, Error)> {
        let at = match self.connect(to) {
            Ok(at) => at,
            Err(error) => return Err((token, error)),
        };
        let link = &mut self.links[at];
        let version = match link.connection.versions().pick(R::KEY) {
            Ok(version) => version,
            Err(error) => return Err((token, error)),
        };
        let deadline = deadline(self.clock.now(), patience);
        self.out.clear();
        let begun = link.connection.begin(R::KEY, version, token, deadline, &mut self.out);
        request.encode(&mut self.out, version);
        end_frame(&mut self.out, begun, 0);
        let written = link.stream.write_all(&self.out);
        self.written(at, written);
        Ok(())
    }

    /// Sends a Produce request. With acks=0 there is no answer, and the token comes back when it is written.
    pub(super) fn produce(
        &mut self,
        request: &crate::producer::Request,
        token: T,
        patience: Duration,
    ) -> std::result::Result<Option<T>, (T, Error)> {
        let prepared = self
            .connect(To::Broker(request.broker))
            .and_then(|at| self.links[at].connection.versions().pick(ApiKey::Produce).map(|version| (at, version)));
        let (at, version) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Err((token, error)),
        };
        let link = &mut self.links[at];
        let deadline = deadline(self.clock.now(), patience);
        let answered = request.acks != crate::producer::Acks::None;
        self.out.clear();
        let mut token = Some(token);
        let begun = match token.take_if(|_| answered) {
            Some(token) => link.connection.begin(ApiKey::Produce, version, token, deadline, &mut self.out),
            None => link.connection.begin_unanswered(ApiKey::Produce, version, &mut self.out),
        };
        // The broker gives up a little earlier than this side.
        let timeout_ms = i32::try_from(patience.as_millis() * 9 / 10).unwrap_or(i32::MAX);
        let cuts = crate::wire::put_produce(&mut self.out, version, request, timeout_ms);
        end_frame(&mut self.out, begun, cuts.iter().map(|(_, batch)| batch.len()).sum());
        let written = write_pieces(&mut link.stream, &self.out, &cuts);
        drop(cuts);
        self.written(at, written);
        Ok(token)
    }

    /// What comes next, or `None` when `wait` is over.
    pub(super) fn hear(&mut self, wait: Duration) -> Option<Heard<T>> {
        if let Some((tokens, error)) = self.broken.pop() {
            return Some(Heard::Lost(tokens, error));
        }
        let end = deadline(self.clock.now(), wait);
        loop {
            let now = self.clock.now();
            if let Some(at) = self.links.iter().position(|link| link.connection.deadline().is_some_and(|at| now >= at))
            {
                let ms = u64::try_from(self.settings.request_timeout.as_millis()).unwrap_or(u64::MAX);
                let what = format!("a request to {}", self.links[at].address);
                return Some(self.close(at, Error::Timeout { what, ms }));
            }
            let soonest = self.links.iter().filter_map(|link| link.connection.deadline()).min();
            let wait = until(now, soonest.map_or(end, |at| at.min(end)));
            match self.receiver.recv_timeout(wait) {
                Ok(Incoming::Wake) => return Some(Heard::Wake),
                Ok(Incoming::Frame { link, frame }) => {
                    if let Some(heard) = self.frame(link, frame) {
                        return Some(heard);
                    }
                }
                Ok(Incoming::Closed { link, error }) => {
                    let Some(at) = self.links.iter().position(|known| known.id == link) else { continue };
                    let address = self.links[at].address.clone();
                    return Some(self.close(at, Error::Disconnected { address, source: error }));
                }
                // The sender lives in `self`: it cannot be disconnected.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    if self.clock.now() >= end {
                        return None;
                    }
                }
            }
        }
    }

    fn frame(&mut self, link: u64, frame: Vec<u8>) -> Option<Heard<T>> {
        let at = self.links.iter().position(|known| known.id == link)?;
        match self.links[at].connection.answer(&frame) {
            Ok(answered) => {
                let (token, key, version) = (answered.token, answered.key, answered.version);
                let body = frame.len() - answered.body.len()..frame.len();
                Some(Heard::Answer(Answer { token, version, body, key, frame }))
            }
            Err(error) => Some(self.close(at, error)),
        }
    }

    fn close(&mut self, at: usize, error: Error) -> Heard<T> {
        let mut link = self.links.swap_remove(at);
        Heard::Lost(link.connection.abandon().collect(), error)
    }

    fn written(&mut self, at: usize, written: io::Result<()>) {
        if let Err(source) = written {
            let address = self.links[at].address.clone();
            if let Heard::Lost(tokens, error) = self.close(at, Error::Disconnected { address, source }) {
                self.broken.push((tokens, error));
            }
        }
    }

    /// The connection to a broker, made if there is none.
    fn connect(&mut self, to: To) -> Result<usize> {
        match to {
            To::Any => {
                if let Some(at) = self.links.iter().position(|link| !link.coordinates) {
                    return Ok(at);
                }
                self.connect_any()
            }
            To::Broker(id) | To::Coordinator(id) => {
                let coordinates = matches!(to, To::Coordinator(_));
                let same = |link: &Link<T>| link.broker == Some(id) && link.coordinates == coordinates;
                if let Some(at) = self.links.iter().position(same) {
                    return Ok(at);
                }
                let (host, port) = self.addresses.get(&id).cloned().ok_or_else(|| Error::Unreachable {
                    address: format!("broker {id}"),
                    source: io::Error::new(io::ErrorKind::NotFound, "its address is not known"),
                })?;
                self.open(Some(id), coordinates, &host, port)
            }
        }
    }

    fn connect_any(&mut self) -> Result<usize> {
        let known: Vec<(Option<i32>, String, u16)> = self
            .settings
            .bootstrap
            .iter()
            .map(|(host, port)| (None, host.clone(), *port))
            .chain(self.addresses.iter().map(|(id, (host, port))| (Some(*id), host.clone(), *port)))
            .collect();
        let mut last = None;
        for (broker, host, port) in known {
            match self.open(broker, false, &host, port) {
                Ok(at) => return Ok(at),
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(Error::Unreachable { source, .. }) => {
                Err(Error::Unreachable { address: self.settings.bootstrap_text(), source })
            }
            Some(error) => Err(error),
            None => Err(Error::Invalid("no broker address given".to_owned())),
        }
    }

    fn open(&mut self, broker: Option<i32>, coordinates: bool, host: &str, port: u16) -> Result<usize> {
        let address = format!("{host}:{port}");
        let unreachable = |source| Error::Unreachable { address: address.clone(), source };
        let now = self.clock.now();
        if let Some((until, kind, text)) = broker.and_then(|id| self.down.get(&id))
            && now < *until
        {
            return Err(unreachable(io::Error::new(*kind, text.clone())));
        }
        match connect(host, port, &self.settings) {
            Ok((stream, versions)) => {
                let id = self.next_id;
                self.next_id += 1;
                let reader = stream.try_clone().map_err(unreachable)?;
                let (sender, spare, limit) =
                    (self.sender.clone(), Arc::clone(&self.spare), self.settings.response_bytes_max);
                std::thread::Builder::new()
                    .name(format!("kafka {address}"))
                    .spawn(move || read_frames(id, reader, limit, &sender, &spare))
                    .map_err(unreachable)?;
                let connection = Connection::new(self.settings.client_id.clone(), versions);
                self.links.push(Link { id, broker, coordinates, address, stream, connection });
                Ok(self.links.len() - 1)
            }
            Err(error) => {
                if let (Some(id), Failure::Io(source)) = (broker, &error) {
                    self.down.insert(id, (now.plus_ms(RECONNECT_MS), source.kind(), source.to_string()));
                }
                Err(match error {
                    Failure::Io(source) => unreachable(source),
                    Failure::Spoken(error) => error,
                })
            }
        }
    }
}

fn deadline(now: Mono, wait: Duration) -> Mono {
    now.plus_ms(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(u64::from(!wait.is_zero())))
}

enum Failure {
    Io(io::Error),
    Spoken(Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Connects and asks what the broker serves.
fn connect(
    host: &str,
    port: u16,
    settings: &Settings,
) -> std::result::Result<(TcpStream, crate::connection::Versions), Failure> {
    let mut stream = open_socket(host, port, settings.connect_timeout)?;
    stream.set_nodelay(true)?;
    // A peer that accepts and is silent: no Kafka broker, or one that is overloaded.
    stream.set_read_timeout(Some(settings.connect_timeout))?;
    stream.set_write_timeout(Some(settings.request_timeout))?;
    for version in [HANDSHAKE_VERSION, 0] {
        let mut request = Vec::new();
        put_handshake(&mut request, version, &settings.client_id);
        stream.write_all(&request)?;
        // The table of all APIs has 6 bytes each: 64 KiB is plenty, and what is no broker is told apart here.
        let mut frame = Vec::new();
        read_frame(&mut stream, 64 << 10, &mut frame).map_err(no_broker)?;
        if let Some(versions) = parse_handshake(&frame, version).map_err(Failure::Spoken)? {
            stream.set_read_timeout(None)?;
            return Ok((stream, versions));
        }
    }
    Err(Failure::Io(io::Error::new(io::ErrorKind::InvalidData, "it serves no version of ApiVersions")))
}

fn no_broker(error: io::Error) -> Failure {
    let told = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it accepts connections but does not answer",
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => "it closed the connection at once",
        io::ErrorKind::InvalidData => "what it answers is not the Kafka protocol",
        _ => return Failure::Io(error),
    };
    Failure::Io(io::Error::new(error.kind(), told))
}

fn open_socket(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The reading thread of a connection: ends with the connection or with its owner.
fn read_frames(link: u64, stream: TcpStream, limit: usize, sender: &Sender<Incoming>, spare: &Spare) {
    let mut stream = BufReader::with_capacity(32 << 10, stream);
    loop {
        let mut frame = spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let incoming = match read_frame(&mut stream, limit, &mut frame) {
            Ok(()) => Incoming::Frame { link, frame },
            Err(error) => Incoming::Closed { link, error },
        };
        let over = matches!(incoming, Incoming::Closed { .. });
        if sender.send(incoming).is_err() || over {
            return;
        }
    }
}

/// Reads one frame without its length bytes into `frame`.
fn read_frame(stream: &mut impl io::Read, limit: usize, frame: &mut Vec<u8>) -> io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the broker closed it"),
        _ => error,
    })?;
    let length = i32::from_be_bytes(length);
    let length = usize::try_from(length).ok().filter(|length| *length <= limit).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("a response of {length} bytes, more than {limit}"))
    })?;
    frame.clear();
    // Room is made as bytes come, at most a megabyte ahead of what a length only promises.
    frame.reserve(length.min(1 << 20));
    stream.take(length as u64).read_to_end(frame)?;
    if frame.len() < length {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the broker closed it in the middle of a response"));
    }
    Ok(())
}

/// Writes `head` with each batch inserted at its place.
fn write_pieces(stream: &mut TcpStream, head: &[u8], cuts: &[(usize, Arc<Vec<u8>>)]) -> io::Result<()> {
    let mut slices: Vec<io::IoSlice<'_>> = Vec::with_capacity(cuts.len() * 2 + 1);
    let mut at = 0;
    for (cut, batch) in cuts {
        slices.push(io::IoSlice::new(&head[at..*cut]));
        slices.push(io::IoSlice::new(batch));
        at = *cut;
    }
    slices.push(io::IoSlice::new(&head[at..]));
    let mut left = &mut slices[..];
    io::IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match stream.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => io::IoSlice::advance_slices(&mut left, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
