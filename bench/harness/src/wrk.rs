//! Load on a service: wrk with one thread on a core of its own.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::affinity::pin_this_thread;
use crate::service::Service;

/// The requests that wrk sends, and its number of connections.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Their name in the script.
    pub requests: &'static str,
    pub connections: u32,
    pub core: usize,
}

/// The output of the script.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    pub requests: f64,
    pub micros: f64,
    pub p50_micros: f64,
}

impl Load {
    /// Runs wrk, and fails if any request fails.
    pub fn run(self, service: &Service, seconds: u64) -> Result<Figures> {
        pin_this_thread(self.core)?;
        let mut command = Command::new("wrk");
        command.args(["--threads=1", &format!("--connections={}", self.connections)]);
        command.args([&format!("--duration={seconds}s"), "--latency", "--script"]);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/wrk.lua"));
        let scheme = if service.is_encrypted { "https" } else { "http" };
        command.args([&format!("{scheme}://{}", service.address), "--", self.requests]);
        command.args(&service.token);
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

/// Returns the number after `name=`.
fn named(figures: &str, name: &str) -> Result<f64> {
    let value = figures.split_whitespace().find_map(|figure| figure.strip_prefix(name)?.strip_prefix('='));
    value.and_then(|value| value.parse().ok()).with_context(|| format!("no `{name}` in `{figures}`"))
}
