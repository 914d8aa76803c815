//! `cargo xtask prove clients`: each framework's app in two processes, with the service on a real Redis.

mod apps;
mod connection;
mod delay;
mod exact;
mod faults;
mod frameworks;
mod latency;
mod served;
mod stalls;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::command::{command, target_directory};
use crate::servers;

use self::delay::SlowProxy;
use self::exact::BurstResult;
use self::faults::{FaultResult, ServiceFault};
use self::frameworks::{FRAMEWORKS, Framework, short_name};
use self::latency::{Effort, LatencyResult};
use self::served::{AskedService, EmptyRedis};

/// What is proven, and of which frameworks.
#[derive(Debug, Args)]
pub(crate) struct ClientsProof {
    /// Only this framework
    #[arg(long, value_name = "NAME", value_parser = FRAMEWORKS.map(|framework| framework.name))]
    framework: Option<String>,
    /// Only this part
    #[arg(long)]
    part: Option<ProofPart>,
    /// Bursts of 50 requests against a limit of 20, for each framework
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    bursts: u32,
    /// Rounds of the measurement of latency
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// The program of the service, instead of a new build
    #[arg(long, value_name = "PATH")]
    service: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProofPart {
    /// Parallel requests admit exactly the limit
    Exact,
    /// The service is killed, stopped and slow
    Faults,
    /// What the middleware adds to a request
    Latency,
}

/// What was found out about one framework.
#[derive(Debug, Serialize)]
struct FrameworkReport {
    framework: &'static str,
    usual: &'static str,
    exact: Option<BurstResult>,
    /// The limiter of others that counts in the service.
    adapter: Option<&'static str>,
    adapter_exact: Option<BurstResult>,
    faults: Vec<FaultResult>,
    latency: Option<LatencyResult>,
}

/// Requests on one connection for each round and path.
const REQUESTS: u32 = 500;

impl ClientsProof {
    pub(crate) fn run(&self) -> Result<()> {
        servers::require()?;
        let folder = target_directory()?.join("prove_clients");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let binary = self.binary()?;
        let frameworks =
            FRAMEWORKS.iter().filter(|it| self.framework.as_deref().is_none_or(|name| name == it.name));
        let (mut reports, mut violations) = (Vec::new(), Vec::new());
        for framework in frameworks {
            let report = self.prove(framework, &binary, &folder);
            let report = report.with_context(|| format!("the proof of {}", framework.name))?;
            violations
                .extend(report.violations().into_iter().map(|text| format!("{}: {text}", framework.name)));
            if !self.json {
                report.print_results();
            }
            reports.push(report);
        }
        if self.json {
            println!("{}", serde_json::json!({ "bar": latency::BAR, "frameworks": reports }));
        } else {
            println!("\n{}", table::ClientsTable(&reports));
        }
        violations.iter().for_each(|violation| eprintln!("violation: {violation}"));
        ensure!(violations.is_empty(), "{} violations", violations.len());
        Ok(())
    }

    fn has(&self, part: ProofPart) -> bool {
        self.part.is_none_or(|only| only == part)
    }

    /// Optimized, because a slow service would hide what a client adds to it.
    fn binary(&self) -> Result<PathBuf> {
        if let Some(binary) = &self.service {
            return binary.canonicalize().with_context(|| format!("cannot find {}", binary.display()));
        }
        command("cargo build --locked --profile models --package tollgate-server").run()?;
        Ok(target_directory()?.join("models").join("tollgate"))
    }

    fn prove(&self, framework: &'static Framework, binary: &Path, folder: &Path) -> Result<FrameworkReport> {
        let prepared = framework.prepare(folder)?;
        let redis = EmptyRedis::start(folder)?;
        let mut report = FrameworkReport {
            framework: framework.name,
            usual: framework.usual,
            exact: None,
            adapter: framework.adapter,
            adapter_exact: None,
            faults: Vec::new(),
            latency: None,
        };
        if self.has(ProofPart::Exact) {
            eprintln!("=== {}: {} bursts", framework.name, self.bursts);
            let service = AskedService::start(binary, folder, &redis, exact::LIMIT)?;
            let app = prepared.start(service.address, &redis.url(), exact::TIMEOUT, exact::LIMIT)?;
            report.exact = Some(exact::prove(&app, &service, self.bursts)?);
            if framework.adapter.is_some() {
                report.adapter_exact = Some(exact::prove_adapter(&app, self.bursts)?);
            }
        }
        if self.has(ProofPart::Faults) {
            for fault in ServiceFault::ALL {
                eprintln!("=== {}: the service is {fault}", framework.name);
                let mut service = AskedService::start(binary, folder, &redis, faults::LIMIT)?;
                let proxy = SlowProxy::start(service.address)?;
                let address = if fault == ServiceFault::Slow { proxy.address } else { service.address };
                let app = prepared.start(address, &redis.url(), faults::TIMEOUT, faults::LIMIT)?;
                report.faults.push(faults::prove(&app, &mut service, &proxy, fault)?);
            }
        }
        if self.has(ProofPart::Latency) {
            eprintln!("=== {}: latency", framework.name);
            let service = AskedService::start(binary, folder, &redis, faults::LIMIT)?;
            let app = prepared.start(service.address, &redis.url(), faults::TIMEOUT, faults::LIMIT)?;
            report.latency =
                Some(latency::measure(&app, framework, Effort { rounds: self.rounds, requests: REQUESTS })?);
        }
        Ok(report)
    }
}

impl FrameworkReport {
    fn violations(&self) -> Vec<String> {
        let exact = self.exact.iter().flat_map(|exact| exact.violations.iter().cloned());
        let adapter = self.adapter_exact.iter().flat_map(|exact| exact.violations.iter());
        let adapter = adapter.map(|text| format!("{}: {text}", self.adapter.unwrap_or_default()));
        let faults = self
            .faults
            .iter()
            .flat_map(|it| it.violations.iter().map(|text| format!("{}: {text}", it.fault)));
        let over_bar = self.latency.iter().filter(|latency| latency.is_over_bar());
        let latency = over_bar.map(|it| format!("the middleware adds {:.2} of a plain request", it.ratio));
        exact.chain(adapter).chain(faults).chain(latency).collect()
    }

    /// Prints a line for each part.
    fn print_results(&self) {
        let name = format!("prove/clients/{}", short_name(self.framework));
        for (part, bursts) in [("exact", &self.exact), ("adapter", &self.adapter_exact)] {
            if let Some(BurstResult { rounds, exact, violations }) = bursts {
                println!(
                    "RESULT {name}/{part} bursts={rounds} exact={exact} violations={}",
                    violations.len()
                );
            }
        }
        for it in &self.faults {
            println!(
                "RESULT {name}/{} requests={} uncounted={} failures={} used={} slowest_ms={} stall_ms={} violations={}",
                it.fault,
                it.requests,
                it.uncounted,
                it.failures,
                it.used,
                it.slowest_ms,
                it.stall_ms,
                it.violations.len()
            );
        }
        if let Some(it) = &self.latency {
            println!(
                "RESULT {name}/latency free_us={:.0} bare_us={:.0} limited_us={:.0} usual_us={:.0} adapter_us={:.0} ratio={:.2} violations={}",
                it.free.p50_us,
                it.bare.p50_us,
                it.limited.p50_us,
                it.usual.p50_us,
                it.adapter.map_or(0.0, |adapter| adapter.p50_us),
                it.ratio,
                u32::from(it.is_over_bar())
            );
        }
    }
}
