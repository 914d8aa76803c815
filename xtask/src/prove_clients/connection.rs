//! A client of an app: one kept-alive connection, which sends a request and reads the whole answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::stopwatch::Stopwatch;

/// No app may take longer to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// No answer of an app is as long.
const MAX_BODY: u64 = 1024 * 1024;

pub(super) struct AppConnection {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

#[derive(Debug)]
pub(super) struct AppAnswer {
    pub(super) status: u16,
    /// With names in lower case.
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) time: Duration,
}

impl AppAnswer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Whether the service counted the request: its answers have limit headers, and those of the client have none.
    pub(super) fn has_limit_headers(&self) -> bool {
        self.header("ratelimit").is_some()
    }
}

impl AppConnection {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// Connects, if it is not connected yet.
    pub(super) fn connect(&mut self) -> Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address).context("the app refuses connections")?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            self.stream = Some(BufReader::new(stream));
        }
        Ok(())
    }

    /// Sends a GET for a user.
    pub(super) fn get(&mut self, path: &str, user: &str) -> Result<AppAnswer> {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: app\r\nX-User: {user}\r\n\r\n"))
    }

    pub(super) fn post(&mut self, path: &str, body: &Value) -> Result<AppAnswer> {
        let body = body.to_string();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: app\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// The time of the answer begins with the first byte sent, so it has no connecting.
    fn send(&mut self, request: &str) -> Result<AppAnswer> {
        self.connect()?;
        let mut stream = self.stream.take().context("connected")?;
        let watch = Stopwatch::start();
        stream.get_mut().write_all(request.as_bytes()).context("the app closed the connection")?;
        let mut answer = read_answer(&mut stream)
            .with_context(|| request.lines().next().unwrap_or_default().to_owned())?;
        answer.time = watch.elapsed();
        if answer.header("connection") != Some("close") {
            self.stream = Some(stream);
        }
        Ok(answer)
    }
}

fn read_answer(stream: &mut impl BufRead) -> Result<AppAnswer> {
    let first = read_line(stream)?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.with_context(|| format!("an app answered {first:?}"))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(stream)?;
        if line.is_empty() {
            break;
        }
        let (name, value) =
            line.split_once(':').with_context(|| format!("an app sent the header {line:?}"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_ascii_lowercase()));
        ensure!(headers.len() < 200, "an app sent too many headers");
    }
    let mut answer = AppAnswer { status, headers, body: Vec::new(), time: Duration::ZERO };
    answer.body = read_body(stream, &answer)?;
    Ok(answer)
}

fn read_body(stream: &mut impl BufRead, answer: &AppAnswer) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    if let Some(length) = answer.header("content-length") {
        let length: u64 = length.parse().context("an app sent no length")?;
        read_exactly(stream, length, &mut body)?;
    } else if answer.header("transfer-encoding") == Some("chunked") {
        loop {
            let size = u64::from_str_radix(&read_line(stream)?, 16).context("an app sent no chunk")?;
            read_exactly(stream, size, &mut body)?;
            ensure!(read_line(stream)?.is_empty(), "an app sent a broken chunk");
            if size == 0 {
                break;
            }
        }
    } else {
        bail!("an app sent a body without a length");
    }
    Ok(body)
}

fn read_exactly(stream: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> Result<()> {
    ensure!(body.len() as u64 + length <= MAX_BODY, "an app sent too much");
    let read = stream.take(length).read_to_end(body)?;
    ensure!(read as u64 == length, "the app closed the connection in a body");
    Ok(())
}

fn read_line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    stream.take(8 * 1024).read_line(&mut line).context("the app does not answer")?;
    let line = line.strip_suffix("\r\n").context("the app closed the connection")?;
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Result<String> {
        let answer = read_answer(&mut text.as_bytes())?;
        Ok(String::from_utf8(answer.body)?)
    }

    #[test]
    fn reads_bodies_of_a_length_and_in_chunks() {
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap(), "ok");
        let chunks =
            "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nok\r\nA\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(body(chunks).unwrap(), "ok0123456789");
    }

    #[test]
    fn an_answer_that_ends_early_is_an_error() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
            "HTTP/1.1 200 OK\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok",
        ] {
            assert!(body(text).is_err(), "{text:?}");
        }
    }
}
