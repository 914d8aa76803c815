//! The load: wrk with one thread on core 1.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tollgate_bench::affinity::pin_this_thread;

const CORE: usize = 1;

/// What wrk sends, and over how many connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// As the script knows it.
    pub(crate) requests: &'static str,
    pub(crate) connections: u32,
}

/// What the script writes when it is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) requests: f64,
    pub(crate) micros: f64,
    pub(crate) p50_micros: f64,
}

impl Load {
    /// Runs it, and fails if a single request did.
    pub(crate) fn run(self, address: SocketAddr, seconds: u64) -> Result<Figures> {
        pin_this_thread(CORE)?;
        let mut command = Command::new("wrk");
        command.args(["--threads=1", &format!("--connections={}", self.connections)]);
        command.args([&format!("--duration={seconds}s"), "--latency", "--script"]);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/http/requests.lua"));
        command.args([&format!("http://{address}"), "--", self.requests]);
        let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let figures = text.lines().find_map(|line| line.strip_prefix("FIGURES "));
        let figures = figures.with_context(|| {
            format!("{command:?} gave no figures: {text}{}", String::from_utf8_lossy(&output.stderr))
        })?;
        let failures = named(figures, "failures")?;
        ensure!(failures == 0.0, "{failures} requests failed: {figures}");
        Ok(Figures {
            requests: named(figures, "requests")?,
            micros: named(figures, "micros")?,
            p50_micros: named(figures, "p50_micros")?,
        })
    }
}

/// The number after `name=`.
fn named(figures: &str, name: &str) -> Result<f64> {
    let value = figures.split_whitespace().find_map(|figure| figure.strip_prefix(name)?.strip_prefix('='));
    value.and_then(|value| value.parse().ok()).with_context(|| format!("no `{name}` in `{figures}`"))
}
