//! What a check over HTTP costs, beside a bare hyper server as the floor.
//!
//! Both servers run on core 0, wrk on core 1. Each round measures every case with both, one after another; the
//! first round warms up and is dropped, and the figure is the median of the others.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_bench_harness::service::Service;
use tollgate_bench_harness::stopwatch::Stopwatch;
use tollgate_bench_harness::wrk::Load;

/// Where the servers run.
const SERVERS: usize = 0;
/// Where wrk runs.
const LOAD: usize = 1;

/// Measures the service over HTTP, beside a bare hyper server.
#[derive(Debug, Parser)]
struct Args {
    /// Measure only cases whose name contains this
    #[arg(default_value = "")]
    filter: String,
    /// The release build of the service's binary, `tollgate`
    #[arg(long)]
    service: PathBuf,
    /// Rounds; the figure is their median
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// One round of a second: shows that the bench runs, not how fast anything is
    #[arg(long)]
    quick: bool,
}

const CASES: &[(&str, Load)] = &[
    ("http/check-get/c1", load("check-get", 1)),
    ("http/check-get/c64", load("check-get", 64)),
    ("http/check-post/c1", load("check-post", 1)),
    ("http/check-post/c64", load("check-post", 64)),
];

const fn load(requests: &'static str, connections: u32) -> Load {
    Load { requests, connections, core: LOAD }
}

/// What the rounds gave for one server in one case.
#[derive(Debug, Default)]
struct Row {
    /// Microseconds of the server's CPU time a request.
    cpu: Samples,
    requests_a_second: Samples,
    /// Median latency in microseconds.
    p50: Samples,
}

/// Both rows of a case.
#[derive(Debug, Default)]
struct Rows {
    ours: Row,
    hyper: Row,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let (rounds, seconds) = if args.quick { (1, 1) } else { (args.rounds, args.seconds) };
    let cases: Vec<_> = CASES.iter().filter(|(name, _)| name.contains(&args.filter)).collect();
    ensure!(!cases.is_empty(), "no case has `{}` in its name", args.filter);

    let hello = std::env::current_exe()?.with_file_name("hello");
    // The limit is never reached.
    let ours = Service::start("ours", SERVERS, |address| {
        let mut command = Command::new(&args.service);
        command.args(["serve", "--limit", "1000000000/1h", "--key", "user"]);
        command.args(["--listen", &address.to_string(), "--admin-listen", "127.0.0.1:0"]);
        command
    });
    let ours = ours.context("cannot start the service")?;
    let hyper = Service::start("hyper", SERVERS, |address| {
        let mut command = Command::new(&hello);
        command.arg(address.to_string());
        command
    });
    let hyper = hyper.context("cannot start the floor")?;
    let mut table: Vec<Rows> = cases.iter().map(|_| Rows::default()).collect();
    for round in 0..=rounds {
        let watch = Stopwatch::start();
        for ((name, load), rows) in cases.iter().zip(&mut table) {
            for (server, row) in [(&ours, &mut rows.ours), (&hyper, &mut rows.hyper)] {
                let mut dropped = Row::default();
                let row = if round == 0 { &mut dropped } else { row };
                measure(server, load, seconds, row).with_context(|| format!("{name}, {}", server.name))?;
            }
        }
        let which = if round == 0 { "warm-up".to_owned() } else { format!("round {round} of {rounds}") };
        eprintln!("{which}: {:.1} s", watch.elapsed().as_secs_f64());
    }
    for ((name, load), rows) in cases.iter().zip(&table) {
        print_results(name, load, rows);
    }
    print_table(&cases, &table);
    Ok(())
}

fn measure(server: &Service, load: &Load, seconds: u64, row: &mut Row) -> Result<()> {
    let before = server.cpu_time()?;
    let figures = load.run(server.address, seconds)?;
    let cpu = server.cpu_time()?.saturating_sub(before);
    row.cpu.push(cpu.as_secs_f64() * 1e6 / figures.requests);
    row.requests_a_second.push(figures.requests / (figures.micros / 1e6));
    row.p50.push(figures.p50_micros);
    Ok(())
}

fn print_results(name: &str, load: &Load, Rows { ours, hyper }: &Rows) {
    print_result(name, &ours.cpu, &hyper.cpu);
    print_result(&format!("{name}/throughput"), &ours.requests_a_second, &hyper.requests_a_second);
    if load.connections == 1 {
        print_result(&format!("{name}/p50"), &ours.p50, &hyper.p50);
    }
}

fn print_result(name: &str, ours: &Samples, hyper: &Samples) {
    let (ours, hyper) = (ours.median(), hyper.median());
    println!("RESULT {name} ours={} hyper={} ratio={}", figure(ours), figure(hyper), figure(ours / hyper));
}

fn print_table(cases: &[&(&str, Load)], table: &[Rows]) {
    println!(
        "\n{:<20} {:<6} {:>12} {:<12} {:>10} {:<14} {:>6} spread",
        "case", "server", "CPU us/req", "spread", "req/s", "spread", "p50 us"
    );
    for ((name, _), Rows { ours, hyper }) in cases.iter().zip(table) {
        for (server, row) in [("ours", ours), ("hyper", hyper)] {
            println!(
                "{name:<20} {server:<6} {:>12} {:<12} {:>10} {:<14} {:>6} {}",
                figure(row.cpu.median()),
                row.cpu.to_string(),
                figure(row.requests_a_second.median()),
                row.requests_a_second.to_string(),
                row.p50.median(),
                row.p50,
            );
        }
    }
}
