//! Running out of descriptors: a process of its own, since the limit is the process's.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(unsafe_code, reason = "resource limits have no safe wrapper in std")]

use std::net::TcpStream;
use std::time::{Duration, Instant};

use dataplane::net::{KernelNetwork, NetworkConfig, intakes, listen};
use dataplane::ring::Ring;
use dataplane::rings::doze;
use shard::ports::{NetEvent, Network as _};

fn limit(descriptors: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid place for the answer, then a valid limit.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        let before = limit.rlim_cur;
        limit.rlim_cur = descriptors;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        before
    }
}

#[test]
fn with_no_descriptors_left_connections_wait_and_are_served_when_there_are_some() {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let ring = Ring::new().unwrap();
    let config = NetworkConfig { receive_bytes: 8 << 20, huge_pages: false, connections_max: 1000 };
    let intake = intakes(&[doze().unwrap().0]).pop().unwrap();
    let mut network = KernelNetwork::new(ring.clone(), config, vec![(0, listener)], intake).unwrap();
    // Complete in the backlog, before anything is accepted.
    let clients: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    let open: Vec<u64> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // Four numbers are left.
    let first_forbidden = (0..).filter(|number| !open.contains(number)).nth(4).unwrap();
    let before = limit(first_forbidden);
    let mut events = Vec::new();
    let mut run = |network: &mut KernelNetwork, wanted: usize, for_: Duration| {
        let start = Instant::now();
        let mut turns = 0;
        while events.len() < wanted && start.elapsed() < for_ {
            network.arm();
            let pause =
                network.deadline().map_or(Duration::from_millis(50), |at| at.saturating_duration_since(Instant::now()));
            ring.wait(pause.min(Duration::from_millis(50)));
            network.poll(&mut events);
            turns += 1;
        }
        (events.len(), turns)
    };
    let (some, turns) = run(&mut network, 20, Duration::from_millis(400));
    assert!((1..20).contains(&some), "{some} were accepted");
    assert!(turns < 100, "{turns} turns: accepting is not paused");
    limit(before);
    let (all, _) = run(&mut network, 20, Duration::from_secs(5));
    assert_eq!(all, 20);
    assert!(events.iter().all(|event| matches!(event, NetEvent::Opened { .. })));
    drop(clients);
}
