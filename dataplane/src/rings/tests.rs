#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use base::ShardId;
use base::message::{ToControl, ToShard};
use shard::ports::Neighbours as _;

use super::*;

fn readable(doze: &Doze) -> bool {
    let mut poll = libc::pollfd { fd: doze.fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid `pollfd`.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

#[test]
fn only_a_sleeper_is_woken_and_only_once() {
    let (waker, doze) = doze().unwrap();
    waker.wake();
    assert!(!readable(&doze));
    doze.announce();
    waker.wake();
    assert!(readable(&doze));
    doze.drain();
    waker.wake();
    assert!(!readable(&doze));
}

#[test]
fn no_wake_up_is_lost_between_two_threads() {
    let (waker, doze) = doze().unwrap();
    let (mut producer, mut consumer) = rtrb::RingBuffer::<u32>::new(4);
    let thread = std::thread::spawn(move || {
        for i in 0..20_000 {
            while producer.push(i).is_err() {
                std::hint::spin_loop();
            }
            waker.wake();
        }
    });
    let mut next = 0;
    while next < 20_000 {
        while let Ok(i) = consumer.pop() {
            assert_eq!(i, next);
            next += 1;
        }
        doze.announce();
        if consumer.is_empty() && next < 20_000 {
            // A lost wake-up shows as a timeout.
            let before = std::time::Instant::now();
            doze.sleep(5000);
            assert!(before.elapsed().as_millis() < 4000, "a wake-up was lost at {next}");
        }
        doze.awake();
    }
    thread.join().unwrap();
}

#[test]
fn messages_between_shards_keep_their_order_and_a_full_ring_gives_them_back() {
    let mut wiring = wire::<u32>(3, RingDepths { control: 4, shard: 2 }).unwrap();
    let mut ends = wiring.shards.drain(..);
    let (mut a, mut b, mut c) = (ends.next().unwrap(), ends.next().unwrap(), ends.next().unwrap());
    let (shard_a, shard_b, shard_c) = (ShardId(0), ShardId(1), ShardId(2));
    b.doze.announce();
    for i in 0..2 {
        a.neighbours.to_shard(shard_b, i).unwrap();
        c.neighbours.to_shard(shard_b, 10 + i).unwrap();
    }
    assert!(readable(&b.doze));
    assert_eq!(a.neighbours.to_shard(shard_b, 2), Err(2));
    let got: Vec<_> = std::iter::from_fn(|| b.neighbours.from_shards()).collect();
    assert_eq!(got, [(shard_a, 0), (shard_c, 10), (shard_a, 1), (shard_c, 11)]);
    b.neighbours.to_shard(shard_a, 7).unwrap();
    assert_eq!(a.neighbours.from_shards(), Some((shard_b, 7)));
    assert_eq!(a.neighbours.from_shards(), None);
}

#[test]
fn a_single_shard_has_no_neighbours_but_the_control_plane() {
    let mut wiring = wire::<u32>(1, RingDepths { control: 2, shard: 2 }).unwrap();
    let mut shard = wiring.shards.pop().unwrap();
    assert_eq!(shard.neighbours.from_shards(), None);
    shard.doze.announce();
    wiring.senders[0].try_send(ToShard::Shutdown).unwrap();
    assert!(readable(&shard.doze));
    assert!(matches!(shard.neighbours.from_control(), Some(ToShard::Shutdown)));
    wiring.senders[0].try_send(ToShard::Shutdown).unwrap();
    wiring.senders[0].try_send(ToShard::Shutdown).unwrap();
    assert!(wiring.senders[0].try_send(ToShard::Shutdown).is_err());
    wiring.receiver.doze().announce();
    shard.neighbours.to_control(ToControl::Stopped { shard: ShardId(0) }).unwrap();
    assert!(readable(wiring.receiver.doze()));
    assert!(matches!(wiring.receiver.try_recv(), Some(ToControl::Stopped { shard: ShardId(0) })));
    assert!(wiring.receiver.try_recv().is_none());
    drop(shard);
    assert!(wiring.senders[0].is_closed());
}
