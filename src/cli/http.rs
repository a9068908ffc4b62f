//! Asking a broker's HTTP port, as any monitoring would.

use anyhow::{Context as _, ensure};
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// A longer answer is none of a broker's.
const BYTES_MAX: u64 = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);

/// The body that host:port gives for a path.
pub(crate) fn get(address: &str, path: &str) -> anyhow::Result<String> {
    let socket = address.to_socket_addrs()?.next().context("the name has no address")?;
    let mut stream = TcpStream::connect_timeout(&socket, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // HTTP/1.0: the answer ends with the connection and is not chunked.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8(answer).context("the answer is no text")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is no HTTP")?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    ensure!(status == "200", "HTTP status {status}");
    Ok(body.to_owned())
}
