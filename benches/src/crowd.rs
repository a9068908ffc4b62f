//! Many producers on one thread, each with a connection of its own and one request in flight: a fixed schedule that does not wait for
//! the broker (open loop), or as fast as answers come.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// A crowd: how many producers, what each sends, and how often.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// Where to.
    pub address: SocketAddr,
    /// By producer: the Produce request that it sends again and again.
    pub requests: Vec<Vec<u8>>,
    /// Time between two requests of one producer; none: the next follows the answer.
    pub interval: Option<Duration>,
    /// How long.
    pub time: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Nanoseconds from sending to the answer, in the order of answers of each producer.
    pub answers: Vec<f64>,
    /// Requests left out because the one before was not answered when they were due.
    pub skipped: u64,
    /// Seconds from the first request to the last answer.
    pub seconds: f64,
}

impl Outcome {
    /// Nanoseconds that so many of a thousand answers took at most; zero for none.
    #[must_use]
    pub fn permille(&mut self, permille: usize) -> f64 {
        self.answers.sort_unstable_by(f64::total_cmp);
        let at = self.answers.len() * permille / 1000;
        self.answers.get(at.min(self.answers.len().saturating_sub(1))).copied().unwrap_or(0.0)
    }
}

impl Crowd {
    /// Connects all, lets them produce for their time, and waits for the last answers.
    ///
    /// # Errors
    /// A connection that breaks, or an answer other than success.
    pub fn run(&self) -> Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, self.produce())
    }

    async fn produce(&self) -> Result<Outcome> {
        let mut streams = Vec::new();
        for _ in &self.requests {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        let started = Instant::now();
        let mut tasks = Vec::new();
        for (number, (stream, request)) in (0u32..).zip(streams.into_iter().zip(self.requests.clone())) {
            let producer = Producer { stream, request, interval: self.interval, ends: started + self.time };
            // Spread over the interval, so that they do not all knock at once.
            let phase = self.interval.map_or(Duration::ZERO, |interval| {
                interval * number / u32::try_from(self.requests.len()).unwrap_or(u32::MAX)
            });
            tasks.push(tokio::task::spawn_local(producer.run(started + phase)));
        }
        let mut all = Outcome::default();
        for task in tasks {
            let one = task.await.context("a producer panicked")??;
            all.answers.extend(one.answers);
            all.skipped += one.skipped;
        }
        all.seconds = started.elapsed().as_secs_f64();
        Ok(all)
    }
}

struct Producer {
    stream: TcpStream,
    request: Vec<u8>,
    interval: Option<Duration>,
    ends: Instant,
}

impl Producer {
    async fn run(mut self, mut due: Instant) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut answer = Vec::new();
        loop {
            if let Some(interval) = self.interval {
                while due + interval < Instant::now() {
                    due += interval;
                    outcome.skipped += 1;
                }
                tokio::time::sleep_until(due.into()).await;
                due += interval;
            }
            let sent = Instant::now();
            if sent >= self.ends {
                return Ok(outcome);
            }
            self.stream.write_all(&self.request).await?;
            let len = self.stream.read_u32().await? as usize;
            ensure!(len < 4096, "an answer of {len} bytes to a produce request");
            answer.resize(len, 0);
            self.stream.read_exact(&mut answer).await?;
            ensure!(error_code(&answer)? == 0, "Produce: error {}", error_code(&answer)?);
            outcome.answers.push(sent.elapsed().as_secs_f64() * 1e9);
        }
    }
}

/// The error code in the answer to a Produce v7 request of one partition.
fn error_code(answer: &[u8]) -> Result<i16> {
    let field = |at: usize| -> Result<i16> {
        let bytes = answer.get(at..at + 2).context("a short Produce response")?;
        Ok(i16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let name = usize::try_from(field(8)?)?;
    field(10 + name + 4 + 4)
}
