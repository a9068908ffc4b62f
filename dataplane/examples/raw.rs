//! Raw figures of the hands, each beside plain blocking system calls doing the same: receive, send, ping-pong, durable write.
//! `cargo run --release -p barelog-dataplane --example raw`. CPU seconds are those of the serving thread.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for the console that fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use base::memory::{Arena as _, Purpose};
use base::{ConnId, DeviceIndex};
use dataplane::arena::{Arena, ArenaConfig, Slice};
use dataplane::device::{BlockingStorage, DeviceFile, DeviceKind, Flushes, RingDevices};
use dataplane::keeper::keeper_links;
use dataplane::net::{KernelNetwork, NetworkConfig, intakes, listen};
use dataplane::ring::Ring;
use dataplane::rings::doze;
use journal::storage::Storage as _;
use journal::store::{Effect, Event};
use shard::ports::{Devices as _, NetEvent, Network as _, Piece};

const FRAME: usize = 1 << 20;
const FRAMES: usize = 3000;

#[allow(unsafe_code, reason = "a clock that std does not have")]
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

fn network(listener: TcpListener) -> (KernelNetwork, Ring) {
    let ring = Ring::new().unwrap();
    let config = NetworkConfig { receive_bytes: 64 << 20, huge_pages: false, connections_max: 1000 };
    let intake = intakes(&[doze().unwrap().0]).pop().unwrap();
    (KernelNetwork::new(ring.clone(), config, vec![(0, listener)], intake).unwrap(), ring)
}

/// One turn of a loop without a shard; `spin` polls for so long before it sleeps.
fn turn(network: &mut KernelNetwork, ring: &Ring, events: &mut Vec<NetEvent>, spin: Duration) {
    network.arm();
    ring.enter();
    let start = Instant::now();
    while !ring.has_completions() {
        if start.elapsed() >= spin {
            ring.wait(Duration::from_millis(100));
            break;
        }
        ring.enter();
        std::hint::spin_loop();
    }
    network.poll(events);
}

fn report(what: &str, bytes: usize, wall: Duration, cpu: Duration) {
    let gb = bytes as f64 / 1e9;
    println!("{what:44} {:6.2} GB/s  {:6.3} CPU s/GB", gb / wall.as_secs_f64(), cpu.as_secs_f64() / gb);
}

fn opened(network: &mut KernelNetwork, ring: &Ring) -> ConnId {
    let mut events = Vec::new();
    loop {
        turn(network, ring, &mut events, Duration::ZERO);
        for event in events.drain(..) {
            if let NetEvent::Opened { conn, .. } = event {
                return conn;
            }
        }
    }
}

fn sender(address: std::net::SocketAddr, frame: usize, total: usize) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut bytes = u32::try_from(frame - 4).unwrap().to_be_bytes().to_vec();
        bytes.resize(frame, 7);
        for _ in 0..total / frame {
            stream.write_all(&bytes).unwrap();
        }
        let _ = stream.read(&mut [0]);
    })
}

fn receive_plain(frame: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let thread = sender(listener.local_addr().unwrap(), frame, FRAME * FRAMES);
    let (mut stream, _) = listener.accept().unwrap();
    let mut buffer = vec![0; frame];
    let (wall, used) = (Instant::now(), cpu());
    for _ in 0..FRAME * FRAMES / frame {
        stream.read_exact(&mut buffer).unwrap();
    }
    report(&format!("receive {frame}, blocking"), FRAME * FRAMES, wall.elapsed(), cpu() - used);
    drop(stream);
    thread.join().unwrap();
}

/// Receives frames, and with `copy` does with each what an append does.
fn receive_ring(frame: usize, copy: bool) {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let thread = sender(listener.local_addr().unwrap(), frame, FRAME * FRAMES);
    let (mut network, ring) = network(listener);
    let conn = opened(&mut network, &ring);
    let mut arena =
        Arena::new(ArenaConfig { tail_bytes: 64 << 20, cold_bytes: 0, huge_pages: false, prefault: true }).unwrap();
    let mut block = arena.alloc(frame, Purpose::Tail).unwrap();
    let sums = dataplane::checksums::fast();
    let (wall, used) = (Instant::now(), cpu());
    let (mut got, mut events, mut turns) = (0, Vec::new(), 0);
    while got < FRAME * FRAMES / frame {
        turn(&mut network, &ring, &mut events, Duration::ZERO);
        turns += 1;
        events.clear();
        loop {
            let readable = network.readable(conn);
            if readable.is_empty() {
                break;
            }
            if readable.len() < frame {
                network.expect(conn, frame);
                break;
            }
            let held = network.take(conn, frame);
            if copy {
                let to = arena.bytes_mut(&block, 0..frame);
                std::hint::black_box(sums.copy(held.as_ref(), to, 0, 0));
                let fresh = arena.alloc(frame, Purpose::Tail).unwrap();
                arena.free(std::mem::replace(&mut block, fresh));
            }
            got += 1;
        }
    }
    let what = format!("receive {frame}, ring{}", if copy { " + copy with CRCs" } else { "" });
    report(&what, FRAME * FRAMES, wall.elapsed(), cpu() - used);
    println!("{:44} {:6.2} turns per frame", "", f64::from(turns) / got as f64);
    network.close(conn, false);
    while network.connections() > 0 {
        turn(&mut network, &ring, &mut events, Duration::ZERO);
    }
    thread.join().unwrap();
}

fn receiver(address: std::net::SocketAddr, total: usize) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut buffer = vec![0; 1 << 20];
        let mut got = 0;
        while got < total {
            got += stream.read(&mut buffer).unwrap();
        }
    })
}

fn slices(arena: &mut Arena, len: usize) -> Vec<Slice> {
    (0..(128 << 20) / len)
        .map(|_| {
            let block = arena.alloc(len, Purpose::Tail).unwrap();
            arena.bytes_mut(&block, 0..len).fill(5);
            arena.freeze(&block, len);
            arena.slice(&block, 0..len)
        })
        .collect()
}

fn big_arena() -> Arena {
    Arena::new(ArenaConfig { tail_bytes: 160 << 20, cold_bytes: 0, huge_pages: false, prefault: true }).unwrap()
}

fn send_plain() {
    let mut arena = big_arena();
    let slices = slices(&mut arena, FRAME);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let thread = receiver(listener.local_addr().unwrap(), FRAME * FRAMES);
    let (mut stream, _) = listener.accept().unwrap();
    let (wall, used) = (Instant::now(), cpu());
    for i in 0..FRAMES {
        stream.write_all(slices[i % slices.len()].as_ref()).unwrap();
    }
    report("send 1 MiB, blocking", FRAME * FRAMES, wall.elapsed(), cpu() - used);
    drop(stream);
    thread.join().unwrap();
}

fn send_ring(piece: usize) {
    let mut arena = big_arena();
    let slices = slices(&mut arena, piece);
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let thread = receiver(listener.local_addr().unwrap(), FRAME * FRAMES);
    let (mut network, ring) = network(listener);
    let conn = opened(&mut network, &ring);
    let (wall, used) = (Instant::now(), cpu());
    let (mut queued, mut sent, mut events, mut turns, mut next) = (0, 0, Vec::new(), 0, 0);
    while sent < FRAME * FRAMES {
        while queued < FRAME * FRAMES && queued - sent < 2 * FRAME {
            network.send(conn, &mut vec![Piece::Shared(slices[next % slices.len()].clone())]);
            next += 1;
            queued += piece;
        }
        turn(&mut network, &ring, &mut events, Duration::ZERO);
        turns += 1;
        for event in events.drain(..) {
            if let NetEvent::Sent { bytes, .. } = event {
                sent += bytes;
            }
        }
    }
    report(&format!("send pieces of {piece}, ring"), FRAME * FRAMES, wall.elapsed(), cpu() - used);
    println!("{:44} {:6.2} turns per MiB", "", f64::from(turns) / FRAMES as f64);
    thread.join().unwrap();
}

fn percentiles(what: &str, mut times: Vec<Duration>, used: Duration) {
    times.sort_unstable();
    let at = |part: usize| times[times.len() * part / 1000].as_secs_f64() * 1e6;
    let each = used.as_secs_f64() * 1e6 / times.len() as f64;
    println!("{what:44} p50 {:6.1} µs  p99 {:6.1} µs  CPU {each:5.1} µs", at(500), at(990));
}

const ROUNDS: usize = 20_000;

fn ping(address: std::net::SocketAddr) -> std::thread::JoinHandle<Vec<Duration>> {
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut bytes = [0u8; 100];
        (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                stream.write_all(&bytes).unwrap();
                stream.read_exact(&mut bytes).unwrap();
                start.elapsed()
            })
            .collect()
    })
}

fn ping_pong(spin: Option<Duration>) {
    let Some(spin) = spin else {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = ping(listener.local_addr().unwrap());
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut bytes = [0u8; 100];
        let used = cpu();
        for _ in 0..ROUNDS {
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        }
        let used = cpu() - used;
        return percentiles("ping-pong, blocking", client.join().unwrap(), used);
    };
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = ping(listener.local_addr().unwrap());
    let (mut network, ring) = network(listener);
    let conn = opened(&mut network, &ring);
    let (mut events, used) = (Vec::new(), cpu());
    while !client.is_finished() {
        turn(&mut network, &ring, &mut events, spin);
        events.clear();
        let bytes = network.readable(conn).to_vec();
        if !bytes.is_empty() {
            network.consume(conn, bytes.len());
            network.send(conn, &mut vec![Piece::Owned(bytes)]);
        }
    }
    let used = cpu() - used;
    percentiles(&format!("ping-pong, ring, spin {spin:?}"), client.join().unwrap(), used);
}

fn device(dir: &Path) -> DeviceFile {
    let device = DeviceFile::open(&dir.join("device"), DeviceKind::File).unwrap();
    let mut storage = BlockingStorage::new(device.clone());
    storage.grow(256 << 20).unwrap();
    storage.write_zeros(0, 256 << 20).unwrap();
    storage.flush().unwrap();
    println!("policy: {}", device.policy().reason);
    device
}

fn durable_write(dir: &Path, spin: Duration) {
    let device = device(dir);
    let mut arena = big_arena();
    let (waker, _doze) = doze().unwrap();
    let (mut links, _ends) = keeper_links(std::slice::from_ref(&waker), &waker);
    let ring = Ring::new().unwrap();
    let flushes = Flushes::new(1, &[waker]);
    let (mut devices, warning) =
        RingDevices::new(ring.clone(), 0, vec![device], arena.memory(), flushes, links.pop().unwrap());
    if let Some(warning) = warning {
        println!("{warning}");
    }
    let block = arena.alloc(1 << 20, Purpose::Tail).unwrap();
    arena.freeze(&block, 1 << 20);
    let wait = |devices: &mut RingDevices, effect: Effect| {
        devices.submit(effect);
        let mut events = Vec::new();
        ring.enter();
        let start = Instant::now();
        while events.is_empty() {
            if !ring.has_completions() {
                if start.elapsed() < spin {
                    ring.enter();
                    std::hint::spin_loop();
                    continue;
                }
                ring.wait(Duration::from_millis(100));
            }
            devices.poll(&mut events);
        }
        assert!(matches!(events[0], Event::Written { result: Ok(()), .. } | Event::Flushed { result: Ok(()), .. }));
    };
    let (mut times, used) = (Vec::new(), cpu());
    for i in 0..5000u64 {
        let start = Instant::now();
        let (device, offset) = (DeviceIndex(0), i * 4096);
        wait(&mut devices, Effect::Write { token: 0, device, offset, arena_start: block.start, len: 4096, fua: false });
        wait(&mut devices, Effect::Flush { token: 0, device });
        times.push(start.elapsed());
    }
    percentiles(&format!("durable 4 KiB, ring, spin {spin:?}"), times, cpu() - used);
}

fn durable_plain(dir: &Path) {
    let device = device(dir);
    let mut storage = BlockingStorage::new(device);
    let (mut times, used) = (Vec::new(), cpu());
    for i in 0..5000u64 {
        let start = Instant::now();
        storage.write_zeros(i * 4096, 4096).unwrap();
        storage.flush().unwrap();
        times.push(start.elapsed());
    }
    percentiles("durable 4 KiB, blocking", times, cpu() - used);
}

/// The copy pass of an append, from one cold megabyte to another, and its parts.
fn sums() {
    const PASSES: usize = 2000;
    let mut arena = big_arena();
    let slices = slices(&mut arena, FRAME);
    let block = arena.alloc(16 << 20, Purpose::Tail).unwrap();
    let sums = dataplane::checksums::fast();
    for (what, block_len) in [("16 KiB", 16 << 10), ("1 KiB", 1 << 10), ("100 bytes", 100)] {
        for (name, run) in [
            ("CRC-32C", (|sums, bytes| u64::from((sums.crc32c)(0, bytes))) as fn(&base::Checksums, &[u8]) -> u64),
            ("CRC-64", |sums, bytes| (sums.crc64)(0, bytes)),
        ] {
            let (wall, used) = (Instant::now(), cpu());
            let bytes = slices[0].as_ref();
            for _ in 0..PASSES {
                for part in bytes.chunks(block_len) {
                    std::hint::black_box(run(&sums, part));
                }
            }
            report(&format!("{name} in blocks of {what}"), FRAME * PASSES, wall.elapsed(), cpu() - used);
        }
    }
    for copy_only in [true, false] {
        let (wall, used) = (Instant::now(), cpu());
        for i in 0..PASSES {
            let at = i % 16 * FRAME;
            let to = arena.bytes_mut(&block, at..at + FRAME);
            let from = slices[i % slices.len()].as_ref();
            if copy_only {
                to.copy_from_slice(from);
            } else {
                std::hint::black_box(sums.copy(from, to, 0, 0));
            }
        }
        let what = if copy_only { "copy 1 MiB" } else { "copy 1 MiB with both CRCs" };
        report(what, FRAME * PASSES, wall.elapsed(), cpu() - used);
    }
}

fn main() {
    let only = std::env::args().nth(1);
    let run = |name: &str| only.as_deref().is_none_or(|only| name.contains(only));
    if run("sums") {
        sums();
    }
    if run("receive") {
        for frame in [FRAME, 100_000, 16_384, 1024] {
            receive_plain(frame);
            receive_ring(frame, false);
        }
        receive_ring(FRAME, true);
    }
    if run("send") {
        send_plain();
        send_ring(FRAME);
        send_ring(64 << 10);
        send_ring(16 << 10);
    }
    if run("ping") {
        ping_pong(None);
        for spin in [0, 20, 100] {
            ping_pong(Some(Duration::from_micros(spin)));
        }
    }
    if run("durable") {
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tmp/raw");
        std::fs::create_dir_all(&base).unwrap();
        durable_plain(&base);
        for spin in [0, 20, 200] {
            durable_write(&base, Duration::from_micros(spin));
        }
        std::fs::remove_dir_all(&base).unwrap();
    }
}
