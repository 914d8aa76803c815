//! The cost of a check over HTTP, compared with a bare hyper server, and with one that sends the service's own answer;
//! over TLS, with the same server and rustls; and with a token or with the live page, with the service without.
//!
//! Both servers of a pair run on core 0, wrk on core 1. Each round measures every case with both servers in turn, and
//! the next round in the other order, so that neither has the better moments of a busy machine. The first round warms
//! up and is dropped. A figure is the median of the other rounds, and a ratio is the median of their ratios.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rcgen::CertifiedKey;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_bench_harness::service::Service;
use tollgate_bench_harness::stopwatch::Stopwatch;
use tollgate_bench_harness::wrk::Load;

/// Where the servers run.
const SERVERS: usize = 0;
/// Where wrk runs.
const LOAD: usize = 1;

/// Measures the service over HTTP, compared with a bare hyper server.
#[derive(Debug, Parser)]
struct Args {
    /// Measure only cases whose name contains this
    #[arg(default_value = "")]
    filter: String,
    /// The service's binary, `tollgate`, built with the profile `dist`
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

/// A pair of servers: the service and its floor.
struct Pair {
    /// Precedes the name of each case.
    prefix: &'static str,
    ours: Service,
    floor: Service,
}

impl Pair {
    /// Plain HTTP without tokens, compared with a bare server.
    fn plain(service: &Path) -> Result<Self> {
        Ok(Self { prefix: "http", ours: ours("ours", service, &[])?, floor: floor("hyper", HELLO, &[])? })
    }

    /// The same, compared with a bare server that sends one answer of the service to everybody.
    fn with_our_answer(service: &Path) -> Result<Self> {
        let ours = ours("ours", service, &[])?;
        let floor = floor("same-answer", &answer_of(&ours)?, &[])?;
        Ok(Self { prefix: "http-answer", ours, floor })
    }

    /// With a token in every request, compared with the service without tokens.
    fn with_token(service: &Path, files: &Path) -> Result<Self> {
        let told = Command::new(service).args("token new --name bench --scope check".split(' ')).output()?;
        let told = String::from_utf8(told.stdout)?;
        let line = |start| told.lines().find(|line| line.starts_with(start));
        let (token, line) = line("tg_").zip(line("{")).with_context(|| format!("no token: {told}"))?;
        let tokens = files.join("tokens.jsonl");
        fs::write(&tokens, format!("{line}\n"))?;
        let asked =
            ours("ours", service, &["--tokens".as_ref(), tokens.as_os_str()])?.asked_with(token.to_owned());
        Ok(Self { prefix: "http-token", ours: asked, floor: ours("without", service, &[])? })
    }

    /// With the live page and talkers, as they are unless flags say otherwise, compared with the service without both.
    fn with_live_page(service: &Path) -> Result<Self> {
        let off = ["--dashboard", "off", "--talkers", "off"].map(OsStr::new);
        Ok(Self {
            prefix: "http-live",
            ours: ours("ours", service, &[])?,
            floor: ours("without", service, &off)?,
        })
    }

    /// HTTP over TLS.
    fn over_tls(service: &Path, files: &Path) -> Result<Self> {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let (certificate, key) = (files.join("certificate.pem"), files.join("key.pem"));
        fs::write(&certificate, cert.pem())?;
        fs::write(&key, signing_key.serialize_pem())?;
        let (certificate, key) = (certificate.as_os_str(), key.as_os_str());
        let ours = ours("ours", service, &["--tls-cert".as_ref(), certificate, "--tls-key".as_ref(), key])?;
        let (ours, floor) =
            (ours.asked_over_tls(), floor("hyper", HELLO, &[certificate, key])?.asked_over_tls());
        Ok(Self { prefix: "http-tls", ours, floor })
    }
}

/// Starts the service with a limit that is never reached, and with these flags.
fn ours(name: &'static str, service: &Path, flags: &[&OsStr]) -> Result<Service> {
    let ours = Service::start(name, SERVERS, |address| {
        let mut command = Command::new(service);
        command.args(["serve", "--limit", "1000000000/1h", "--key", "user"]).args(flags);
        command.args(["--listen", &address.to_string(), "--admin-listen", "127.0.0.1:0"]);
        command
    });
    ours.context("cannot start the service")
}

/// Returns the answer to a check without what hyper adds to every answer.
fn answer_of(service: &Service) -> Result<String> {
    let mut stream = TcpStream::connect(service.address)?;
    stream.write_all(b"GET /v1/check?user=alice HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no answer: {answer}"))?;
    let (status, headers) = head.split_once("\r\n").with_context(|| format!("no headers: {head}"))?;
    ensure!(status.contains(" 200 "), "the answer is {status}");
    let is_from_hyper =
        |line: &&str| ["content-length", "date", "connection"].iter().any(|of| line.starts_with(of));
    let headers: Vec<_> = headers.lines().filter(|line| !is_from_hyper(line)).collect();
    Ok(format!("{}\r\n\r\n{body}", headers.join("\r\n")))
}

/// The shortest answer.
const HELLO: &str = "hello";

/// Starts the bare server with this answer and these further arguments.
fn floor(name: &'static str, answer: &str, arguments: &[&OsStr]) -> Result<Service> {
    let hello = std::env::current_exe()?.with_file_name("hello");
    let floor = Service::start(name, SERVERS, |address| {
        let mut command = Command::new(&hello);
        command.arg(address.to_string()).arg(answer).args(arguments);
        command
    });
    floor.context("cannot start the floor")
}

/// The results of one server in one case.
#[derive(Debug, Default)]
struct Row {
    /// Microseconds of the server's CPU time per request.
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
    // One pair for each way to send a request to the service.
    let files = tempfile::tempdir().context("no room for files")?;
    let files = files.path();
    let pairs = [
        Pair::plain(&args.service)?,
        Pair::with_our_answer(&args.service)?,
        Pair::with_token(&args.service, files)?,
        Pair::with_live_page(&args.service)?,
        Pair::over_tls(&args.service, files)?,
    ];
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
    let figures = load.run(server, seconds)?;
    let cpu = server.cpu_time()?.saturating_sub(before);
    row.cpu.push(cpu.as_secs_f64() * 1e6 / figures.requests);
    row.requests_a_second.push(figures.requests / (figures.micros / 1e6));
    row.p50.push(figures.p50_micros);
    Ok(())
}

fn print_results(Rows { name, load, pair, ours, floor }: &Rows<'_>) {
    let print_result = |name: &str, ours: &Samples, floor: &Samples| {
        println!(
            "RESULT {name} ours={} {}={} ratio={} more={}",
            figure(ours.median()),
            pair.floor.name,
            figure(floor.median()),
            figure(ours.ratios(floor).median()),
            figure(ours.differences(floor).median())
        );
    };
    print_result(name, &ours.cpu, &floor.cpu);
    print_result(&format!("{name}/throughput"), &ours.requests_a_second, &floor.requests_a_second);
    if load.connections == 1 {
        print_result(&format!("{name}/p50"), &ours.p50, &floor.p50);
    }
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
