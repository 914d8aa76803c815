//! What a check over HTTP costs, beside a bare hyper server as the floor.
//!
//! Both servers of a pair run on core 0, wrk on core 1. Each round measures every case with both, one right after the
//! other, and the next round in the other order: on a machine that is not quiet neither of them has the better moments.
//! The first round warms up and is dropped. The figure is the median of the others, and a ratio is the median of the
//! ratios of the rounds.

use std::path::{Path, PathBuf};
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
    ("check-get/c1", load("check-get", 1)),
    ("check-get/c64", load("check-get", 64)),
    ("check-post/c1", load("check-post", 1)),
    ("check-post/c64", load("check-post", 64)),
];

const fn load(requests: &'static str, connections: u32) -> Load {
    Load { requests, connections, core: LOAD }
}

/// The service, and the bare server that does as much of its work as a server has to.
struct Pair {
    /// Before the name of each case.
    prefix: &'static str,
    ours: Service,
    floor: Service,
}

impl Pair {
    /// HTTP in plain, without tokens.
    fn plain(service: &Path) -> Result<Self> {
        let hello = std::env::current_exe()?.with_file_name("hello");
        // The limit is never reached.
        let ours = Service::start("ours", SERVERS, |address| {
            let mut command = Command::new(service);
            command.args(["serve", "--limit", "1000000000/1h", "--key", "user"]);
            command.args(["--listen", &address.to_string(), "--admin-listen", "127.0.0.1:0"]);
            command
        });
        let floor = Service::start("hyper", SERVERS, |address| {
            let mut command = Command::new(&hello);
            command.arg(address.to_string());
            command
        });
        Ok(Self {
            prefix: "http",
            ours: ours.context("cannot start the service")?,
            floor: floor.context("cannot start the floor")?,
        })
    }
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
struct Rows<'a> {
    name: String,
    load: Load,
    pair: &'a Pair,
    ours: Row,
    floor: Row,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let (rounds, seconds) = if args.quick { (1, 1) } else { (args.rounds, args.seconds) };
    // One pair for each way in which the service can be asked.
    let pairs = [Pair::plain(&args.service)?];
    let mut table: Vec<Rows<'_>> = Vec::new();
    for pair in &pairs {
        for (name, load) in CASES {
            let name = format!("{}/{name}", pair.prefix);
            if name.contains(&args.filter) {
                table.push(Rows { name, load: *load, pair, ours: Row::default(), floor: Row::default() });
            }
        }
    }
    ensure!(!table.is_empty(), "no case has `{}` in its name", args.filter);
    for round in 0..=rounds {
        let watch = Stopwatch::start();
        for Rows { name, load, pair, ours, floor } in &mut table {
            let mut dropped = (Row::default(), Row::default());
            let (ours, floor) = if round == 0 { (&mut dropped.0, &mut dropped.1) } else { (ours, floor) };
            let mut servers = [(&pair.ours, ours), (&pair.floor, floor)];
            if round % 2 == 1 {
                servers.reverse();
            }
            for (server, row) in servers {
                measure(server, load, seconds, row).with_context(|| format!("{name}, {}", server.name))?;
            }
        }
        let which = if round == 0 { "warm-up".to_owned() } else { format!("round {round} of {rounds}") };
        eprintln!("{which}: {:.1} s", watch.elapsed().as_secs_f64());
    }
    table.iter().for_each(print_results);
    print_table(&table);
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

fn print_results(Rows { name, load, ours, floor, .. }: &Rows<'_>) {
    print_result(name, &ours.cpu, &floor.cpu);
    print_result(&format!("{name}/throughput"), &ours.requests_a_second, &floor.requests_a_second);
    if load.connections == 1 {
        print_result(&format!("{name}/p50"), &ours.p50, &floor.p50);
    }
}

fn print_result(name: &str, ours: &Samples, floor: &Samples) {
    let (ours_median, floor_median, ratio) = (ours.median(), floor.median(), ours.ratios(floor).median());
    println!(
        "RESULT {name} ours={} hyper={} ratio={}",
        figure(ours_median),
        figure(floor_median),
        figure(ratio)
    );
}

fn print_table(table: &[Rows<'_>]) {
    println!(
        "\n{:<20} {:<6} {:>12} {:<12} {:>10} {:<14} {:>6} spread",
        "case", "server", "CPU us/req", "spread", "req/s", "spread", "p50 us"
    );
    for Rows { name, pair, ours, floor, .. } in table {
        for (server, row) in [(&pair.ours, ours), (&pair.floor, floor)] {
            println!(
                "{name:<20} {:<6} {:>12} {:<12} {:>10} {:<14} {:>6} {}",
                server.name,
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
