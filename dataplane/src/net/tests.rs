#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use super::*;
use crate::arena::PAGE;
use crate::rings::doze;

/// A server that answers each frame (4 length bytes, then that many) with itself, until told to stop.
struct Echo {
    address: SocketAddr,
    stop: Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    opened: usize,
    closed: usize,
    frames: usize,
    sent: usize,
    memory_left: usize,
}

#[derive(Clone, Copy)]
struct Options {
    receive_bytes: usize,
    /// Frames whose body starts with this byte close the connection after the answer.
    last: u8,
    /// Frames whose body starts with this byte close it at once.
    abort: u8,
    listeners: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { receive_bytes: 64 << 20, last: b'L', abort: b'A', listeners: 1 }
    }
}

fn network(receive_bytes: usize, listeners: Vec<TcpListener>) -> KernelNetwork {
    let config = NetworkConfig { receive_bytes, huge_pages: false, connections_max: 1 << 16 };
    let (waker, _doze) = doze().unwrap();
    let intake = intakes(&[waker]).pop().unwrap();
    let listeners = listeners.into_iter().enumerate().map(|(i, l)| (u16::try_from(i).unwrap(), l)).collect();
    KernelNetwork::new(Ring::new().unwrap(), config, listeners, intake).unwrap()
}

fn turn(network: &mut KernelNetwork, events: &mut Vec<NetEvent>) {
    network.arm();
    network.ring.wait(Duration::from_millis(20));
    network.poll(events);
}

fn frames(network: &mut KernelNetwork, conn: ConnId, options: &Options, seen: &mut Seen) {
    loop {
        let bytes = network.readable(conn);
        let Some(head) = bytes.first_chunk::<4>() else { return };
        let whole = 4 + u32::from_be_bytes(*head) as usize;
        if bytes.len() < whole {
            network.expect(conn, whole);
            return;
        }
        let frame = network.take(conn, whole);
        seen.frames += 1;
        let first = frame.as_ref().get(4).copied().unwrap_or(0);
        if first == options.abort {
            network.close(conn, false);
            return;
        }
        // Half by copy and half as a slice, so that both kinds of piece travel.
        let head = frame.as_ref()[..4].to_vec();
        let mut pieces = vec![Piece::Owned(head), Piece::Shared(frame)];
        if let Piece::Shared(slice) = pieces.pop().unwrap() {
            pieces.push(Piece::Owned(slice.as_ref()[4..].to_vec()));
        }
        network.send(conn, &mut pieces);
        if first == options.last {
            network.close(conn, true);
            return;
        }
    }
}

impl Echo {
    fn start(options: Options) -> Self {
        let listeners: Vec<TcpListener> =
            (0..options.listeners).map(|_| listen("127.0.0.1:0".parse().unwrap()).unwrap()).collect();
        let address = listeners.last().unwrap().local_addr().unwrap();
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut network = network(options.receive_bytes, listeners);
            let (mut events, mut seen, mut of) = (Vec::new(), Seen::default(), HashMap::new());
            while !flag.load(std::sync::atomic::Ordering::Relaxed) || network.connections() > 0 {
                turn(&mut network, &mut events);
                for event in events.drain(..) {
                    match event {
                        NetEvent::Opened { conn, listener, .. } => {
                            assert_eq!(usize::from(listener), options.listeners - 1);
                            assert!(of.insert(conn, true).is_none(), "ids are not used twice");
                            seen.opened += 1;
                        }
                        NetEvent::Readable { conn } => frames(&mut network, conn, &options, &mut seen),
                        NetEvent::Sent { conn, bytes } => {
                            assert!(of[&conn]);
                            seen.sent += bytes;
                        }
                        NetEvent::Closed { conn } => {
                            assert_eq!(of.insert(conn, false), Some(true));
                            seen.closed += 1;
                        }
                    }
                }
            }
            seen.memory_left = network.receive_bytes_used();
            seen
        });
        Self { address, stop, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// Ends the server once every client is gone.
    fn finish(mut self) -> Seen {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let seen = self.thread.take().unwrap().join().unwrap();
        assert_eq!(seen.opened, seen.closed);
        // What is left are the buffers that wait in the ring for the next bytes.
        assert!(seen.memory_left <= 64 * BUFFER, "{} bytes leak", seen.memory_left);
        seen
    }
}

fn frame(body: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

fn body(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from((i * 7 + seed + i / 253) % 61).unwrap()).collect()
}

fn answer(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = [0u8; 4];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; u32::from_be_bytes(head) as usize];
    stream.read_exact(&mut body).unwrap();
    body
}

#[test]
fn frames_of_every_size_come_back_whole_and_in_order() {
    let echo = Echo::start(Options::default());
    let mut stream = echo.connect();
    for len in [1, 3, 100, 4091, 4092, 65_531, 65_532, 65_533, 70_000, 1 << 20, 5, 3_000_000, 12, 200_000] {
        stream.write_all(&frame(&body(len, len))).unwrap();
        assert_eq!(answer(&mut stream), body(len, len), "{len}");
    }
    drop(stream);
    assert_eq!(echo.finish().frames, 14);
}

#[test]
fn many_frames_in_one_write_are_all_answered() {
    let echo = Echo::start(Options::default());
    let mut stream = echo.connect();
    let mut writer = stream.try_clone().unwrap();
    let sizes: Vec<usize> = (0..400).map(|i| (i * i * 13) % 9000 + 1).collect();
    let all: Vec<u8> = sizes.iter().flat_map(|&len| frame(&body(len, len))).collect();
    let thread = std::thread::spawn(move || writer.write_all(&all).unwrap());
    for &len in &sizes {
        assert_eq!(answer(&mut stream), body(len, len), "{len}");
    }
    thread.join().unwrap();
    drop(stream);
    echo.finish();
}

#[test]
fn a_frame_that_trickles_in_is_gathered() {
    let echo = Echo::start(Options::default());
    let mut stream = echo.connect();
    stream.set_nodelay(true).unwrap();
    let bytes = frame(&body(150_000, 1));
    for part in [&bytes[..1], &bytes[1..3], &bytes[3..5], &bytes[5..66_000], &bytes[66_000..149_999], &bytes[149_999..]]
    {
        stream.write_all(part).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(answer(&mut stream), body(150_000, 1));
    drop(stream);
    assert_eq!(echo.finish().frames, 1);
}

#[test]
fn two_hundred_connections_are_served_side_by_side() {
    let echo = Echo::start(Options { listeners: 2, ..Options::default() });
    let mut streams: Vec<TcpStream> = (0..200).map(|_| echo.connect()).collect();
    for round in 0..3 {
        for (i, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&frame(&body(i * 97 + 1, i + round))).unwrap();
        }
        for (i, stream) in streams.iter_mut().enumerate() {
            assert_eq!(answer(stream), body(i * 97 + 1, i + round));
        }
    }
    drop(streams);
    let seen = echo.finish();
    assert_eq!((seen.opened, seen.frames), (200, 600));
}

#[test]
fn a_peer_that_ends_its_side_still_gets_what_its_requests_made_at_once() {
    let echo = Echo::start(Options::default());
    let mut stream = echo.connect();
    stream.write_all(&frame(&body(500_000, 3))).unwrap();
    stream.write_all(&frame(b"and half a fra")[..10]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(answer(&mut stream), body(500_000, 3));
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    drop(stream);
    assert_eq!(echo.finish().frames, 1);
}

#[test]
fn closing_after_sending_delivers_the_answer_although_more_was_sent_to_us() {
    let echo = Echo::start(Options::default());
    let mut stream = echo.connect();
    stream.write_all(&frame(b"L is the last")).unwrap();
    // Unread bytes at a plain close would make the kernel reset the connection.
    stream.write_all(&body(30_000, 1)).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(answer(&mut stream), b"L is the last");
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    drop(stream);
    echo.finish();
}

#[test]
fn closing_at_once_ends_the_connection() {
    let echo = Echo::start(Options::default());
    let mut stream = echo.connect();
    stream.write_all(&frame(b"A")).unwrap();
    assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
    drop(stream);
    echo.finish();
}

#[test]
fn a_reset_in_the_middle_of_a_frame_frees_everything() {
    let echo = Echo::start(Options::default());
    for _ in 0..5 {
        let mut stream = echo.connect();
        // Answered, so accepted: a connection that is reset before is never seen.
        stream.write_all(&frame(b"hello")).unwrap();
        assert_eq!(answer(&mut stream), b"hello");
        stream.write_all(&frame(&body(1 << 20, 1))[..300_000]).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        drop(stream);
    }
    let seen = echo.finish();
    assert_eq!((seen.opened, seen.frames), (5, 5));
}

#[test]
fn with_too_little_receive_memory_peers_wait_their_turn() {
    // Room for one frame of a mebibyte, and fewer buffers than there are entries for them.
    let receive_bytes = ((1 << 20) + PAGE) / 3 * 4 + PAGE;
    let echo = Echo::start(Options { receive_bytes, ..Options::default() });
    let clients: Vec<_> = (0..6)
        .map(|i| {
            let mut stream = echo.connect();
            std::thread::spawn(move || {
                let mut writer = stream.try_clone().unwrap();
                let thread = std::thread::spawn(move || writer.write_all(&frame(&body(1 << 20, i))).unwrap());
                assert_eq!(answer(&mut stream), body(1 << 20, i));
                thread.join().unwrap();
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    assert_eq!(echo.finish().frames, 6);
}

#[test]
fn peers_that_announce_much_and_send_little_do_not_hold_receive_memory_for_long() {
    let announce = |len: u32, body: &[u8]| [&len.to_be_bytes(), body].concat();
    // A part of the length, a part of a small frame, and a part of a large one, for which there is no room but for the first.
    let parts = [vec![0, 0], announce(100, &[1; 50]), announce(4 << 20, &[1; 1000])];
    let crowds = parts.map(|part| {
        std::thread::spawn(move || {
            // 32 provided buffers, and one frame of four mebibytes.
            let echo = Echo::start(Options { receive_bytes: 8 << 20, ..Options::default() });
            let silent: Vec<TcpStream> = (0..60).map(|_| echo.connect()).collect();
            silent.iter().for_each(|mut stream| stream.write_all(&part).unwrap());
            std::thread::sleep(Duration::from_millis(200));
            let begun = Instant::now();
            for i in 0..3 {
                let mut stream = echo.connect();
                stream.write_all(&frame(&body(1000 + i, i))).unwrap();
                assert_eq!(answer(&mut stream), body(1000 + i, i));
            }
            // Two generations of them have the buffers one after the other.
            assert!(begun.elapsed() < 3 * STALL_SMALL, "{:?}", begun.elapsed());
            drop(silent);
            echo.finish();
        })
    });
    for crowd in crowds {
        crowd.join().unwrap();
    }
}

/// A server in hand, for tests that look at single events.
fn pair() -> (KernelNetwork, TcpStream, ConnId) {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut network = network(64 << 20, vec![listener]);
    let stream = TcpStream::connect(address).unwrap();
    let mut events = Vec::new();
    while events.is_empty() {
        turn(&mut network, &mut events);
    }
    let NetEvent::Opened { conn, listener: 0, ref peer } = events[0] else { panic!("{events:?}") };
    assert_eq!(**peer, stream.local_addr().unwrap().to_string());
    (network, stream, conn)
}

#[test]
fn a_connection_that_is_not_read_pushes_back_on_its_peer() {
    let (mut network, stream, conn) = pair();
    network.set_reading(conn, false);
    stream.set_nonblocking(true).unwrap();
    let (mut written, chunk, mut events) = (0, vec![1u8; 1 << 20], Vec::new());
    for _ in 0..50 {
        if let Ok(n) = (&stream).write(&chunk) {
            written += n;
        }
        turn(&mut network, &mut events);
    }
    assert!(written < 40 << 20, "the peer was not stopped");
    // At most the one buffer whose request was in flight.
    assert!(network.readable(conn).len() <= BUFFER);
    network.consume(conn, network.readable(conn).len());
    network.set_reading(conn, true);
    let mut got = 0;
    for _ in 0..20 {
        turn(&mut network, &mut events);
        got += network.readable(conn).len();
        network.consume(conn, network.readable(conn).len());
    }
    assert!(got > 0, "reading did not resume");
}

#[test]
fn taken_bytes_stay_while_the_connection_goes_on() {
    let (mut network, mut stream, conn) = pair();
    let mut events = Vec::new();
    let mut kept = Vec::new();
    for i in 0..100u8 {
        stream.write_all(&[i; 1000]).unwrap();
        while network.readable(conn).len() < 1000 {
            let have = network.readable(conn).len();
            if have > 0 {
                network.expect(conn, 1000);
            }
            turn(&mut network, &mut events);
        }
        kept.push(network.take(conn, 1000));
    }
    for (i, slice) in kept.iter().enumerate() {
        assert!(slice.as_ref().iter().all(|&byte| usize::from(byte) == i));
    }
    drop(network);
    assert_eq!(kept[99].as_ref(), [99; 1000]);
}

#[test]
fn a_slow_reader_gets_everything_and_pieces_are_dropped_as_they_go() {
    let (mut network, mut stream, conn) = pair();
    let bytes = body(30 << 20, 9);
    let mut pieces: Vec<_> = bytes.chunks(100_001).map(|part| Piece::Owned(part.to_vec())).collect();
    network.send(conn, &mut pieces);
    assert!(pieces.is_empty());
    let len = bytes.len();
    let reader = std::thread::spawn(move || {
        let mut read = vec![0; len];
        for part in read.chunks_mut(1 << 20) {
            std::thread::sleep(Duration::from_millis(2));
            stream.read_exact(part).unwrap();
        }
        (read, stream)
    });
    let (mut events, mut sent) = (Vec::new(), 0);
    while sent < len {
        turn(&mut network, &mut events);
        for event in events.drain(..) {
            if let NetEvent::Sent { bytes, .. } = event {
                sent += bytes;
            }
        }
    }
    let (read, _stream) = reader.join().unwrap();
    assert_eq!(sent, len);
    assert!(read == bytes);
    assert!(network.slots[0].as_ref().unwrap().output.is_empty());
}

#[test]
fn an_idle_connection_holds_no_receive_memory() {
    let (mut network, mut stream, conn) = pair();
    let mut events = Vec::new();
    let before = network.receive_bytes_used();
    stream.write_all(&frame(b"hello")).unwrap();
    while network.readable(conn).is_empty() {
        turn(&mut network, &mut events);
    }
    network.consume(conn, 9);
    for _ in 0..3 {
        turn(&mut network, &mut events);
    }
    assert!(network.slots[0].as_ref().unwrap().input.is_none());
    assert_eq!(network.receive_bytes_used(), before);
}

#[test]
fn connections_are_dealt_out_to_all_shards_in_turn() {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let wakers: Vec<_> = (0..2).map(|_| doze().unwrap().0).collect();
    let config = NetworkConfig { receive_bytes: 8 << 20, huge_pages: false, connections_max: 100 };
    let mut both = intakes(&wakers).into_iter();
    let mut first =
        KernelNetwork::new(Ring::new().unwrap(), config, vec![(0, listener)], both.next().unwrap()).unwrap();
    let mut second = KernelNetwork::new(Ring::new().unwrap(), config, vec![], both.next().unwrap()).unwrap();
    let _streams: Vec<_> = (0..10).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut events = Vec::new();
    while first.connections() + second.connections() < 10 {
        turn(&mut first, &mut events);
        second.poll(&mut events);
    }
    assert_eq!((first.connections(), second.connections()), (5, 5));
}
