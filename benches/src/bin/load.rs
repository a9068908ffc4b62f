//! One load against a running broker, to put a profiler beside:
//! `load HOST:PORT produce|produce-raw|drain|drain-raw TOPIC RECORDS [CLIENTS, or of produce-raw records per batch]`.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use benches::raw::{self, RawClient};
use benches::rd;

const SIZE: usize = 1024;
const PARTITIONS: i32 = 8;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, what, topic, records, rest @ ..] = args.as_slice() else {
        bail!("usage: load HOST:PORT produce|produce-raw|drain|drain-raw TOPIC RECORDS [CLIENTS]");
    };
    let records: u64 = records.parse().context("RECORDS is a number")?;
    let clients: u64 = rest.first().map_or(Ok(1), |text| text.parse::<u64>()).context("CLIENTS is a number")?;
    let mut client = RawClient::connect(address.parse().context("HOST:PORT")?)?;
    client.create_topic(topic, PARTITIONS)?;
    let started = Instant::now();
    match what.as_str() {
        "produce" => drop(rd::produce_many(address, topic, records, SIZE, clients)?),
        "produce-raw" => {
            let of_batch = rest.first().map_or(900, |_| clients);
            let batch = raw::batch(usize::try_from(of_batch)?, SIZE, &dataplane::checksums::fast());
            for i in 0..records / of_batch {
                let partition = i32::try_from(i % u64::try_from(PARTITIONS)?)?;
                let request = client.produce_request(topic, partition, &batch);
                client.send(&request)?;
                client.produced(topic)?;
            }
        }
        "drain" => drop(rd::drain(address, topic, PARTITIONS, records)?),
        "drain-raw" => drop(client.drain(topic, PARTITIONS, records)?),
        _ => bail!("no load is called {what}"),
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{records} records in {seconds:.2} s: {:.0} k/s", records as f64 / seconds / 1000.0);
    Ok(())
}
