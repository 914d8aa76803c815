//! The cost of a check over gRPC, compared with a bare service of tonic's.
//!
//! Both servers run on core 0, h2load on core 1. Each round measures every case with both, one right after the other,
//! and the next round in the other order. The first round warms up and is dropped. The figure is the median of the
//! others, and a ratio is the median of the ratios of the rounds.

mod h2load;
mod shared;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Parser;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_bench_harness::service::Service;

use self::h2load::{CALL, Load};
use self::shared::Shared;

/// Where the servers run.
const SERVERS: usize = 0;
/// Where h2load runs.
const LOAD: usize = 1;

/// Measures the service over gRPC, compared with a bare tonic service, and over Redis.
#[derive(Debug, Parser)]
struct Args {
    /// The service's binary, `tollgate`, built with the profile `dist`
    #[arg(long)]
    service: PathBuf,
    /// Rounds; the figure is their median
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Calls of one measurement with many streams
    #[arg(long, default_value_t = 200_000)]
    calls: u32,
    /// One round with few calls: shows that the bench runs, not how fast anything is
    #[arg(long)]
    quick: bool,
}

/// Connections and streams on each.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    connections: u32,
    streams: u32,
    /// Of the calls of a measurement, one in so many.
    share: u32,
}

const CASES: [Case; 2] = [
    Case { name: "grpc/c16-m16", connections: 16, streams: 16, share: 1 },
    Case { name: "grpc/c1-m1", connections: 1, streams: 1, share: 10 },
];

#[derive(Debug, Default)]
struct Row {
    /// Microseconds of the server's CPU time a call.
    cpu: Samples,
    calls_a_second: Samples,
    p99: Samples,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let (rounds, calls) = if args.quick { (1, 2_000) } else { (args.rounds, args.calls) };
    let files = tempfile::tempdir().context("no room for files")?;
    let body = files.path().join("call");
    fs::write(&body, CALL)?;
    let ours = Service::start("ours", SERVERS, |address| {
        let mut command = Command::new(&args.service);
        command.args(["serve", "--limit", "1000000000/1h", "--key", "user", "--grpc", &address.to_string()]);
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        command
    })?;
    let hello = std::env::current_exe()?.with_file_name("hello-grpc");
    let floor = Service::start("tonic", SERVERS, |address| {
        let mut command = Command::new(&hello);
        command.arg(address.to_string());
        command
    })?;
    let mut shared = Shared::start(&args.service)?;
    let mut table = CASES.map(|case| (case, Row::default(), Row::default()));
    for round in 0..=rounds {
        for (case, ours_row, floor_row) in &mut table {
            let mut dropped = (Row::default(), Row::default());
            let rows = if round == 0 { (&mut dropped.0, &mut dropped.1) } else { (ours_row, floor_row) };
            let mut servers = [(&ours, rows.0), (&floor, rows.1)];
            if round % 2 == 1 {
                servers.reverse();
            }
            for (server, row) in servers {
                measure(server, *case, calls / case.share, &body, row)
                    .with_context(|| format!("{}, {}", case.name, server.name))?;
            }
        }
        shared.measure(calls, &body, round > 0).context("over Redis")?;
    }
    for (Case { name, .. }, ours, floor) in &table {
        let pairs = [
            ("cpu", &ours.cpu, &floor.cpu),
            ("throughput", &ours.calls_a_second, &floor.calls_a_second),
            ("p99", &ours.p99, &floor.p99),
        ];
        for (what, ours, floor) in pairs {
            println!(
                "RESULT {name}/{what} ours={} tonic={} ratio={} spread={ours} / {floor}",
                figure(ours.median()),
                figure(floor.median()),
                figure(ours.ratios(floor).median()),
            );
        }
    }
    shared.print();
    Ok(())
}

fn measure(server: &Service, case: Case, calls: u32, body: &Path, row: &mut Row) -> Result<()> {
    let Case { connections, streams, .. } = case;
    let before = server.cpu_time()?;
    let load = Load { core: LOAD, connections, streams, calls, rate: None };
    let outcome = load.run(server, body)?;
    let cpu = server.cpu_time()?.saturating_sub(before);
    row.cpu.push(cpu.as_secs_f64() * 1e6 / f64::from(calls));
    row.calls_a_second.push(outcome.calls_a_second);
    row.p99.push(outcome.within(9_900));
    Ok(())
}
