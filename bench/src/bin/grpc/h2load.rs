//! The load generator of HTTP/2: many calls with one body.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::service::Service;

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A message of the domain `shop` with one descriptor, `user=alice1`, after the five bytes of its frame.
pub(crate) const CALL: &[u8] = b"\0\0\0\0\x18\x0a\x04shop\x12\x10\x0a\x0e\x0a\x04user\x12\x06alice1";

/// How a service is called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) core: usize,
    pub(crate) connections: u32,
    /// On each connection.
    pub(crate) streams: u32,
    pub(crate) calls: u32,
    /// Calls a second on each connection, with the deadline that Envoy tells by default; `None` for as many as are
    /// answered.
    pub(crate) rate: Option<u32>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) calls_a_second: f64,
    /// Of each call, in microseconds, in order.
    latencies: Vec<u64>,
}

impl Load {
    /// Calls the service with the body in this file.
    pub(crate) fn run(self, server: &Service, body: &Path) -> Result<Outcome> {
        pin_this_thread(self.core)?;
        let log = body.with_extension("log");
        // h2load adds to a file that is there.
        let _ = fs::remove_file(&log);
        let mut command = Command::new("h2load");
        command.args(["--threads=1", &format!("--clients={}", self.connections)]);
        let streams = format!("--max-concurrent-streams={}", self.streams);
        command.args([&streams, &format!("--requests={}", self.calls)]);
        command.args(["--header=content-type: application/grpc", "--header=te: trailers"]);
        if let Some(rate) = self.rate {
            command.args([&format!("--rps={rate}"), "--header=grpc-timeout: 20m"]);
        }
        command.arg("--data").arg(body).arg("--log-file").arg(&log);
        let output = command.arg(format!("http://{}{METHOD}", server.address)).output();
        let output = output.with_context(|| format!("cannot run {command:?}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(text.contains(&format!(" {} succeeded", self.calls)), "not all calls were answered: {text}");
        // A call that is rejected has no message.
        let data = number_before(&text, ") data").context("no bytes of data")?;
        ensure!(data > 0.0, "calls were rejected: {text}");
        let calls_a_second = number_before(&text, " req/s").context("no calls a second")?;
        let latencies = latencies(&fs::read_to_string(&log)?);
        ensure!(!latencies.is_empty(), "h2load wrote no log");
        Ok(Outcome { calls_a_second, latencies })
    }
}

impl Outcome {
    /// The latency that this many ten thousandths of the calls do not exceed, in microseconds.
    pub(crate) fn within(&self, ten_thousandths: usize) -> f64 {
        let place = (self.latencies.len() * ten_thousandths / 10_000).min(self.latencies.len() - 1);
        self.latencies.get(place).map_or(0.0, |micros| *micros as f64)
    }

    /// How many calls took longer.
    pub(crate) fn longer_than(&self, micros: u64) -> usize {
        self.latencies.iter().filter(|latency| **latency > micros).count()
    }
}

/// The number that stands right before this text.
fn number_before(text: &str, what: &str) -> Option<f64> {
    let (before, _) = text.split_once(what)?;
    before.rsplit(|letter: char| !letter.is_ascii_digit() && letter != '.').next()?.parse().ok()
}

/// Of the log of h2load, which has when each call began, its status, and how many microseconds it took.
fn latencies(log: &str) -> Vec<u64> {
    let mut micros: Vec<u64> =
        log.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse().ok()).collect();
    micros.sort_unstable();
    micros
}
