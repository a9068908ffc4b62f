//! Asking a broker's HTTP port, as any monitoring would.

use anyhow::{Context as _, bail, ensure};
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// A longer answer is none of a broker's.
const BYTES_MAX: u64 = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);

/// The body that host:port gives for a path.
pub(crate) fn get(address: &str, path: &str) -> anyhow::Result<String> {
    let (status, body) = ask(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"))?;
    ensure!(status == "200", "HTTP status {status}");
    Ok(body)
}

/// Posts JSON to a path of host:port; the body of the answer, or what the broker has against it.
pub(crate) fn post(address: &str, path: &str, json: &str) -> anyhow::Result<String> {
    let length = json.len();
    let (status, body) = ask(
        address,
        &format!(
            "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{json}"
        ),
    )?;
    match status.as_str() {
        "200" => Ok(body),
        "409" => bail!("{body}"),
        _ => bail!("HTTP status {status}"),
    }
}

/// Status and body of an answer.
fn ask(address: &str, request: &str) -> anyhow::Result<(String, String)> {
    let socket = address.to_socket_addrs()?.next().context("the name has no address")?;
    let mut stream = TcpStream::connect_timeout(&socket, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // HTTP/1.0: the answer ends with the connection and is not chunked.
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8(answer).context("the answer is no text")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is no HTTP")?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    Ok((status.to_owned(), body.to_owned()))
}
